/* INFO, CONFIG, ROLE, REPLICAOF. */
#include <stdio.h>
#include <stdlib.h>

#include "queue/digest.h"
#include "tests/sim/server/server_private.h"

/* --- settings ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *value;
    const char *complaint; /* about what is no number; NULL = it need not be one */
} settings[] = {
    {"appendfsync", "everysec", NULL},
    {"appendonly", "no", NULL},
    {"auto-aof-rewrite-percentage", "100", "argument couldn't be parsed into an integer"},
    {"client-output-buffer-limit", "normal 0 0 0", NULL}, /* of normal clients; what is beyond is cut at once */
    {"databases", "1", "argument couldn't be parsed into an integer"},
    {"maxmemory", "0", "argument must be a memory value"},
    {"maxmemory-policy", "noeviction", NULL},
    {"min-replicas-max-lag", "10", "argument couldn't be parsed into an integer"},
    {"min-replicas-to-write", "0", "argument couldn't be parsed into an integer"},
    {"save", "", NULL},
    {"stop-writes-on-bgsave-error", "yes", NULL},
    {"timeout", "0", "argument couldn't be parsed into an integer"},
};

enum { SETTING_COUNT = sizeof settings / sizeof settings[0] };

static struct text setting_text(const struct server *server, const char *name)
{
    return item_text(table_find(&server->settings, text_of(name)));
}

static long long setting_number(const struct server *server, const char *name)
{
    return strtoll(setting_text(server, name).bytes, NULL, 10);
}

static void limits_follow(struct server *server)
{
    server->maxmemory = setting_number(server, "maxmemory");
    server->replicas_needed = setting_number(server, "min-replicas-to-write");
    server->output_max = 0;
    (void)sscanf(setting_text(server, "client-output-buffer-limit").bytes, "normal %zu", &server->output_max);
}

void settings_init(struct server *server)
{
    for (size_t i = 0; i < SETTING_COUNT; i++)
        item_set_text(table_add(&server->settings, text_of(settings[i].name)), text_of(settings[i].value));
    server_configure(server, "appendonly", server->has_disk ? "yes" : "no");
}

bool server_configure(struct server *server, const char *setting, const char *value)
{
    struct item *item = table_find(&server->settings, text_of(setting));
    if (item != NULL)
        item_set_text(item, text_of(value));
    limits_follow(server);
    return item != NULL;
}

static const char *complaint_of(const char *name)
{
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (strcmp(settings[i].name, name) == 0)
            return settings[i].complaint;
    return NULL;
}

static struct reply *config_get(struct command_call *call)
{
    struct reply *found = reply_array(call->replies, (size_t)2 * SETTING_COUNT);
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        bool fits = false;
        for (size_t pattern = 2; pattern < call->count; pattern++)
            fits = fits || pattern_matches(call->arguments[pattern], text_of(settings[i].name));
        if (!fits)
            continue;
        reply_add(found, reply_bulk(call->replies, text_of(settings[i].name)));
        reply_add(found, reply_bulk(call->replies, setting_text(call->server, settings[i].name)));
    }
    return found;
}

static struct reply *config_set(struct command_call *call)
{
    long long number;
    if (call->count % 2 != 0)
        return reply_error(call->replies, "ERR wrong number of arguments for 'config|set' command");
    for (size_t i = 2; i < call->count; i += 2) {
        if (table_find(&call->server->settings, call->arguments[i]) == NULL)
            return reply_error(call->replies,
                               replies_format(call->replies,
                                              "ERR Unknown option or number of arguments for CONFIG SET - '%s'",
                                              call->arguments[i].bytes)
                                   .bytes);
        const char *complaint = complaint_of(call->arguments[i].bytes);
        if (complaint != NULL && !call_integer(call, i + 1, &number))
            return reply_error(call->replies,
                               replies_format(call->replies,
                                              "ERR CONFIG SET failed (possibly related to argument '%s') - %s",
                                              call->arguments[i].bytes, complaint)
                                   .bytes);
    }
    for (size_t i = 2; i < call->count; i += 2)
        (void)server_configure(call->server, call->arguments[i].bytes, call->arguments[i + 1].bytes);
    return reply_status(call->replies, "OK");
}

static struct reply *config_resetstat(struct command_call *call)
{
    memset(call->server->counts, 0, sizeof call->server->counts);
    call->server->commands = 0;
    call->space->expired = 0;
    return reply_status(call->replies, "OK");
}

struct reply *command_config(struct command_call *call)
{
    static const struct subcommand subcommands[] = {
        {"get", -3, config_get}, {"set", -4, config_set}, {"resetstat", 2, config_resetstat}, {NULL, 0, NULL}};
    return subcommand_execute(call, subcommands);
}

/* --- INFO --------------------------------------------------------------------------------------------------------- */

/* Not what a server would use, but it grows when keys come. */
long long server_used_memory(const struct server *server)
{
    return 1000000 + 200 * (long long)server->space.keys.count;
}

static void server_tell(struct server *server, struct buffer *out)
{
    buffer_format(out,
                  "redis_version:7.0.15\r\nredis_mode:standalone\r\nos:Linux\r\narch_bits:64\r\nprocess_id:%u\r\n"
                  "run_id:%s\r\ntcp_port:%u\r\nserver_time_usec:%lld\r\nuptime_in_seconds:%lld\r\n",
                  server->runs, server->run_id, server->port, (long long)server->space.now_us,
                  (long long)(server->space.now_us - server->began_us) / 1000000);
}

static void clients_tell(struct server *server, struct buffer *out)
{
    size_t blocked = 0;
    for (const struct list *link = server->blocked.next; link != &server->blocked; link = link->next)
        blocked++;
    buffer_format(out, "connected_clients:%zu\r\nmaxclients:10000\r\nblocked_clients:%zu\r\n", server->connection_count,
                  blocked);
}

static void memory_tell(struct server *server, struct buffer *out)
{
    buffer_format(out, "used_memory:%lld\r\nmaxmemory:%lld\r\nmaxmemory_policy:%s\r\n", server_used_memory(server),
                  server->maxmemory, setting_text(server, "maxmemory-policy").bytes);
}

static void persistence_tell(struct server *server, struct buffer *out)
{
    buffer_format(out,
                  "loading:0\r\nrdb_last_bgsave_status:%s\r\naof_enabled:%d\r\naof_last_bgrewrite_status:ok\r\n"
                  "aof_last_write_status:ok\r\n",
                  server->is_misconfigured ? "err" : "ok", server->has_disk);
}

static void stats_tell(struct server *server, struct buffer *out)
{
    buffer_format(out,
                  "total_connections_received:%llu\r\ntotal_commands_processed:%llu\r\nexpired_keys:%llu\r\n"
                  "evicted_keys:%llu\r\npubsub_channels:%zu\r\n",
                  server->last_id, server->commands, (unsigned long long)server->space.expired, server->evicted,
                  server->channels.count);
}

static void replication_tell(struct server *server, struct buffer *out)
{
    bool is_replica = server_is_replica(server);
    buffer_format(out, "role:%s\r\n", is_replica ? "slave" : "master");
    if (is_replica)
        buffer_format(out, "master_host:%s\r\nmaster_port:%u\r\nmaster_link_status:%s\r\n",
                      server->primary != NULL ? server->primary->host : server->host,
                      server->primary != NULL ? server->primary->port : server->port,
                      server->primary != NULL ? "up" : "down");
    buffer_format(out, "connected_slaves:%zu\r\n", server_replicas(server));
    if (server->replicas_needed > 0)
        buffer_format(out, "min_slaves_good_slaves:%zu\r\n", server_replicas(server));
    bool was_replica = server->promotions > 0 && !is_replica;
    buffer_format(out, "master_replid:%s\r\nsecond_repl_offset:%d\r\n", server->replication_id, was_replica ? 1 : -1);
}

static void cpu_tell(struct server *server, struct buffer *out)
{
    (void)server;
    buffer_append_text(out, "used_cpu_sys:0.100000\r\nused_cpu_user:0.100000\r\n");
}

static void commands_tell(struct server *server, struct buffer *out)
{
    const struct command *command = NULL;
    for (size_t i = 0; (command = command_at(i)) != NULL; i++)
        if (server->counts[i] > 0)
            buffer_format(out, "cmdstat_%s:calls=%llu,usec=%llu,usec_per_call=1.00,rejected_calls=0,failed_calls=0\r\n",
                          command->name, server->counts[i], server->counts[i]);
}

static void cluster_tell(struct server *server, struct buffer *out)
{
    (void)server;
    buffer_append_text(out, "cluster_enabled:0\r\n");
}

static void keyspace_tell(struct server *server, struct buffer *out)
{
    size_t position = 0, expires = 0;
    keyspace_sweep(&server->space);
    for (struct item *key; (key = table_next(&server->space.keys, &position)) != NULL;)
        expires += key->value->expires_ms != 0;
    if (server->space.keys.count > 0)
        buffer_format(out, "db0:keys=%zu,expires=%zu,avg_ttl=0\r\n", server->space.keys.count, expires);
}

static const struct section {
    const char *name;
    bool is_asked_for; /* told only then */
    void (*tell)(struct server *server, struct buffer *out);
} sections[] = {
    {"Server", false, server_tell},   {"Clients", false, clients_tell},
    {"Memory", false, memory_tell},   {"Persistence", false, persistence_tell},
    {"Stats", false, stats_tell},     {"Replication", false, replication_tell},
    {"CPU", false, cpu_tell},         {"Commandstats", true, commands_tell},
    {"Cluster", false, cluster_tell}, {"Keyspace", false, keyspace_tell},
};

static bool section_is_wanted(const struct command_call *call, const struct section *section)
{
    bool is_wanted = call->count == 1 && !section->is_asked_for;
    for (size_t i = 1; i < call->count; i++)
        is_wanted = is_wanted || call_says(call, i, section->name) || call_says(call, i, "all") ||
                    call_says(call, i, "everything") || (call_says(call, i, "default") && !section->is_asked_for);
    return is_wanted;
}

struct reply *command_info(struct command_call *call)
{
    struct buffer text = {0};
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (!section_is_wanted(call, &sections[i]))
            continue;
        buffer_format(&text, "%s# %s\r\n", text.length > 0 ? "\r\n" : "", sections[i].name);
        sections[i].tell(call->server, &text);
    }
    struct reply *reply = reply_bulk(call->replies, (struct text){text.bytes, text.length});
    buffer_fini(&text);
    return reply;
}

void server_run(const struct server *server, char *run, size_t length)
{
    char ids[2 * RUN_ID_SIZE], text[DIGEST_TEXT_SIZE];
    snprintf(run, length, "%s", server->run_id);
    if (server->promotions == 0 && !server_is_replica(server))
        return;
    snprintf(ids, sizeof ids, "%s%s", server->run_id, server->replication_id);
    digest_text(ids, strlen(ids), text);
    snprintf(run, length, "%s", text);
}

/* --- ROLE, REPLICAOF ---------------------------------------------------------------------------------------------- */

static struct reply *replica_role(struct command_call *call)
{
    const struct server *server = call->server, *primary = server->primary != NULL ? server->primary : server;
    bool is_named = server->primary == NULL && server->named_host[0] != '\0';
    struct reply *role = reply_array(call->replies, 5);
    reply_add(role, reply_bulk(call->replies, text_of("slave")));
    reply_add(role, reply_bulk(call->replies, text_of(is_named ? server->named_host : primary->host)));
    reply_add(role, reply_integer(call->replies, is_named ? server->named_port : primary->port));
    reply_add(role, reply_bulk(call->replies, text_of(server->primary != NULL ? "connected" : "connect")));
    reply_add(role, reply_integer(call->replies, 0));
    return role;
}

struct reply *command_role(struct command_call *call)
{
    if (server_is_replica(call->server))
        return replica_role(call);
    struct reply *role = reply_array(call->replies, 3);
    struct reply *replicas = reply_array(call->replies, server_replicas(call->server));
    for (struct list *link = call->server->followers.next; link != &call->server->followers; link = link->next) {
        const struct server *replica = list_owner(link, struct follower, link)->replica;
        struct reply *told = reply_array(call->replies, 3);
        reply_add(told, reply_bulk(call->replies, text_of(replica->host)));
        reply_add(told, reply_bulk(call->replies, replies_format(call->replies, "%u", replica->port)));
        reply_add(told, reply_bulk(call->replies, text_of("0")));
        reply_add(replicas, told);
    }
    reply_add(role, reply_bulk(call->replies, text_of("master")));
    reply_add(role, reply_integer(call->replies, 0));
    reply_add(role, replicas);
    return role;
}

/* It takes no writes from then on, and nothing comes from the primary that is named. */
struct reply *command_replicaof(struct command_call *call)
{
    struct server *server = call->server;
    bool was_replica = server_is_replica(server);
    server->is_read_only = !call_says(call, 1, "NO") || !call_says(call, 2, "ONE");
    long long port = 0;
    if (server->is_read_only && !call_integer(call, 2, &port))
        return reply_error(call->replies, "ERR Invalid master port");
    snprintf(server->named_host, sizeof server->named_host, "%s", server->is_read_only ? call->arguments[1].bytes : "");
    server->named_port = (unsigned)port;
    if (server->is_read_only)
        blocked_refuse_all(server);
    else if (was_replica)
        server_promote(server, server->space.now_us);
    return reply_status(call->replies, "OK");
}
