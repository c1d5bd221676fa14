#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "queue/digest.h"
#include "tests/sim/server/server_private.h"
#include "tests/sim/server/traffic.h"

/* --- its life ----------------------------------------------------------------------------------------------------- */

static void id_draw(const struct server *server, unsigned number, char id[RUN_ID_SIZE])
{
    struct buffer text = {0};
    buffer_format(&text, "%s %u", server->run_seed, number);
    digest_text(text.bytes, text.length, id);
    buffer_fini(&text);
}

/* As in a server, where it is drawn. */
void server_draw_replication_id(struct server *server)
{
    id_draw(server, (server->promotions + 1) << 20 | server->runs, server->replication_id);
}

static void run_begin(struct server *server)
{
    id_draw(server, ++server->runs, server->run_id);
    server->promotions = 0;
    server_draw_replication_id(server);
    table_clear(&server->scripts);
    memset(server->counts, 0, sizeof server->counts);
    server->commands = 0;
    server->last_id = 0;
    server->began_us = server->space.now_us;
    server->space.expired = 0;
}

struct server *server_create(const struct server_options *options)
{
    static uint32_t servers;
    struct server *server = memory_new(struct server);
    server->number = ++servers;
    traffic_note(TRAFFIC_SERVER, server->number, 0, options->now_us, NULL, 0);

    server->run_seed = memory_text(options->run_seed != NULL ? options->run_seed : "server");
    server->host = memory_text(options->host != NULL ? options->host : "127.0.0.1");
    server->port = options->port != 0 ? options->port : 6379;
    server->version = options->version;
    server->has_disk = options->has_disk;
    server->host_of_scripts = script_host_shared();
    list_init(&server->connections);
    list_init(&server->talking);
    list_init(&server->resumed);
    list_init(&server->dead);
    list_init(&server->blocked);
    list_init(&server->followers);
    list_init(&server->disk.link);
    list_init(&server->following.link);
    keyspace_init(&server->space, options->now_us);
    server->space.random = options->seed;
    keyspace_init(&server->disk_space, options->now_us);
    keyspace_init(&server->saved, options->now_us);
    server->disk.space = &server->disk_space;
    settings_init(server);
    users_init(server, options->password);
    run_begin(server);
    return server;
}

static void connection_free(struct server_connection *connection)
{
    transaction_forget(connection);
    channels_forget(connection);
    blocked_forget(connection);
    list_remove(&connection->link);
    list_remove(&connection->talking_link);
    list_remove(&connection->resumed_link);
    connection->server->connection_count--;
    buffer_fini(&connection->in);
    buffer_fini(&connection->out);
    buffer_fini(&connection->name);
    buffer_fini(&connection->queued);
    buffer_fini(&connection->blocked_for);

    free(connection);
}

static void connections_drop(struct server *server)
{
    while (!list_is_empty(&server->connections))
        connection_free(list_owner(server->connections.next, struct server_connection, link));
}

void server_destroy(struct server *server)
{
    if (server == NULL)
        return;
    connections_drop(server);
    journal_fini(server);
    keyspace_clear(&server->space);
    keyspace_clear(&server->disk_space);
    keyspace_clear(&server->saved);
    table_clear(&server->scripts);
    table_clear(&server->settings);
    table_clear(&server->ready);
    table_clear(&server->channels);
    users_fini(server);
    replies_fini(&server->replies);
    free(server->run_seed);
    free(server->host);
    free(server);
}

void server_restart(struct server *server, enum server_memory memory, int64_t now_us)
{
    const char kind = (char)memory;
    traffic_note(TRAFFIC_RESTART, server->number, 0, now_us, &kind, 1);
    connections_drop(server);
    server->space.now_us = now_us;
    journal_restart(server, memory);
    keyspace_sweep(&server->space);
    run_begin(server);
}

/* --- buffers ----------------------------------------------------------------------------------------------------- */

/* Most connections are idle, and all servers of the process take turns with these: fewer pages are touched. */
static struct buffer spare_in, spare_out;

/* Moves the memory of `from`, which is empty; nothing that anybody needs is lost. */
static void buffer_take(struct buffer *to, struct buffer *from)
{
    if (to->capacity >= from->capacity)
        return;
    buffer_fini(to);
    *to = *from;
    *from = (struct buffer){0};
}

/* --- connections -------------------------------------------------------------------------------------------------- */

struct server_connection *server_accept(struct server *server, void *context,
                                        void (*send)(void *context, const char *bytes, size_t length),
                                        void (*closed)(void *context))
{
    struct server_connection *connection = memory_new(struct server_connection);
    connection->server = server;
    connection->id = ++server->last_id;
    snprintf(connection->address, sizeof connection->address, "127.0.0.1:%llu", 20000 + connection->id % 40000);
    connection->context = context;
    connection->send = send;
    connection->closed = closed;
    connection_begin_user(connection);
    connection->began_us = connection->last_us = server->space.now_us;
    list_init(&connection->link);
    list_init(&connection->talking_link);
    list_init(&connection->resumed_link);
    list_init(&connection->blocked_link);
    list_append(&server->connections, &connection->link);
    server->connection_count++;
    traffic_note(TRAFFIC_ACCEPT, server->number, connection->id, server->space.now_us, NULL, 0);
    return connection;
}

void connection_write(struct server_connection *connection, const struct reply *reply)
{
    if (connection->is_dead)
        return;
    if (connection->out.capacity == 0)
        buffer_take(&connection->out, &spare_out);
    if (connection->out.length == 0)
        list_append(&connection->server->talking, &connection->talking_link);
    reply_write(reply, &connection->out);
    if (connection->server->output_max == 0 || connection->out.length <= connection->server->output_max)
        return;
    buffer_clear(&connection->out);
    connection->closes_after_reply = true;
}

void connection_kill(struct server_connection *connection)
{
    struct server *server = connection->server;
    if (connection->is_dead)
        return;
    connection->is_dead = true;
    transaction_forget(connection);
    channels_forget(connection);
    blocked_forget(connection);
    buffer_clear(&connection->out);
    list_remove(&connection->talking_link);
    list_remove(&connection->resumed_link);
    list_remove(&connection->link);
    list_append(&server->dead, &connection->link);
}

void server_hang_up(struct server_connection *connection)
{
    traffic_note(TRAFFIC_HANG_UP, connection->server->number, connection->id, connection->server->space.now_us, NULL,
                 0);
    if (connection->server->caller == connection)
        connection->server->caller = NULL;
    connection_free(connection);
}

/* --- commands ----------------------------------------------------------------------------------------------------- */

static struct reply *unknown(struct server *server, const struct text *arguments, size_t count)
{
    struct buffer text = {0};
    buffer_format(&text, "ERR unknown command '%.128s', with args beginning with: ", arguments[0].bytes);
    size_t before = text.length;
    for (size_t i = 1; i < count && text.length - before < 128; i++)
        buffer_format(&text, "'%.*s' ", 128 - (int)(text.length - before), arguments[i].bytes);
    struct reply *reply = reply_error(&server->replies, buffer_text(&text));
    buffer_fini(&text);
    return reply;
}

static bool server_lacks_memory(const struct server *server)
{
    return server->is_out_of_memory || (server->maxmemory > 0 && server_used_memory(server) > server->maxmemory);
}

const char *server_refuses_write(struct server *server)
{
    if (server->is_misconfigured)
        return "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. "
               "Commands that may modify the data set are disabled, because this instance is configured to report "
               "errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the "
               "Redis logs for details about the RDB error.";
    if (server_is_replica(server))
        return "READONLY You can't write against a read only replica.";
    if (server->replicas_needed > 0 && server->replicas_needed > (long long)server_replicas(server))
        return "NOREPLICAS Not enough good replicas to write.";
    return NULL;
}

/* Why it may not run now; NULL = it may. What is queued takes memory too. */
static const char *refusal(struct server *server, const struct server_connection *connection,
                           const struct command *command, unsigned flags)
{
    bool writes = (flags & COMMAND_WRITES) != 0;
    if (connection->user == NULL && (flags & COMMAND_STRANGER) == 0)
        return "NOAUTH Authentication required.";
    const char *forbidden = user_refusal(connection, command);
    if (forbidden != NULL)
        return forbidden;
    bool grows = (flags & COMMAND_GROWS) != 0 || (connection->is_queueing && (flags & COMMAND_AT_ONCE) == 0);
    if (server->was_out_of_memory && grows)
        return "OOM command not allowed when used memory > 'maxmemory'.";
    if (writes || (server->is_misconfigured && command->execute == command_ping)) {
        const char *reason = server_refuses_write(server);
        if (reason != NULL)
            return reason;
    }
    if (connection_listens(connection) && (flags & COMMAND_SUBSCRIBER) == 0)
        return replies_format(&server->replies,
                              "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET "
                              "are allowed in this context",
                              command->name)
            .bytes;
    return NULL;
}

/* What is refused spoils a transaction. */
static struct reply *refuse(struct server_connection *connection, const struct command *command, struct reply *error)
{
    struct server *server = connection->server;
    connection->is_spoilt = connection->is_queueing;
    if (command == NULL || command->execute != command_exec)
        return error;
    const char *reason = error->text.bytes + (strncmp(error->text.bytes, "ERR ", 4) == 0 ? 4 : 0);
    transaction_forget(connection);
    return reply_error(
        &server->replies,
        replies_format(&server->replies, "EXECABORT Transaction discarded because of: %s", reason).bytes);
}

static void command_observe(struct server *server, struct server_connection *connection, const struct command *command,
                            const struct text *arguments, size_t count, const struct reply *reply)
{
    struct server_event event = {.server = server,
                                 .connection = connection,
                                 .command = command->name,
                                 .arguments = arguments + 1,
                                 .count = count - 1,
                                 .reply = reply,
                                 .now_us = server->space.now_us};
    if (server->observe == NULL)
        return;
    if ((command->flags & COMMAND_RUNS_SCRIPT) != 0)
        script_event_fill(server, arguments, &event);
    server->observe(server->observer, &event);
}

struct reply *server_call(struct server *server, struct server_connection *connection, const struct command *command,
                          const struct text *arguments, size_t count, enum call_kind kind)
{
    struct command_call call = {.space = &server->space,
                                .replies = &server->replies,
                                .server = server,
                                .connection = connection,
                                .command = command,
                                .arguments = arguments,
                                .count = count,
                                .never_blocks = kind != CALL_ALONE};
    if (kind != CALL_SERVED) /* it was counted when it began to wait */
        server->counts[command_number(command)]++;
    struct reply *reply = command_execute(&call);
    bool is_whole = (command->flags & COMMAND_RUNS_SCRIPT) == 0 && command->execute != command_exec;
    if (call.changes > 0 && is_whole)
        journal_note(server, arguments, count);
    if (kind != CALL_IN_SCRIPT)
        command_observe(server, connection, command, arguments, count, reply);
    return reply;
}

struct reply *server_process(struct server *server, struct server_connection *connection, const struct text *arguments,
                             size_t count, enum call_kind kind)
{
    const struct command *command = redis_command_find(arguments[0]);
    server->commands++;
    connection->last = command != NULL ? command : connection->last;
    connection->last_us = server->space.now_us;
    if (command == NULL)
        return refuse(connection, NULL, unknown(server, arguments, count));
    if (!command_takes(command, count))
        return refuse(connection, command, reply_wrong_arity(&server->replies, command));
    unsigned flags = command->flags | (command->execute == command_exec ? connection->queued_flags : 0);
    const char *reason = refusal(server, connection, command, flags);
    if (reason != NULL) {
        struct reply *error = refuse(connection, command, reply_error(&server->replies, reason));
        command_observe(server, connection, command, arguments, count, error);
        return error;
    }
    if (connection->is_queueing && (command->flags & COMMAND_AT_ONCE) == 0)
        return transaction_queue(connection, command, arguments, count);
    return server_call(server, connection, command, arguments, count, kind);
}

static void connection_execute(struct server_connection *connection, const struct text *arguments, size_t count)
{
    struct server *server = connection->server;
    server->was_out_of_memory = server_lacks_memory(server);
    server->caller = connection;
    const struct reply *reply = server_process(server, connection, arguments, count, CALL_ALONE);
    if (reply != NULL)
        connection_write(connection, reply);
    server->caller = NULL;
    journal_end(server);
    blocked_serve(server);
    replies_clear(&server->replies);
}

static void connection_consume(struct server_connection *connection)
{
    struct text *arguments = NULL;
    const char *error = NULL;
    size_t count = 0;
    while (!connection->is_dead && !connection->is_blocked && !connection->closes_after_reply) {
        enum request_found found = request_read(connection, &arguments, &count, &error);
        if (found == REQUEST_BROKEN) {
            struct replies *replies = &connection->server->replies;
            connection_write(connection,
                             reply_error(replies, replies_format(replies, "ERR Protocol error: %s", error).bytes));
            connection->closes_after_reply = true;
        }
        if (found != REQUEST_COMMAND)
            break;
        connection_execute(connection, arguments, count);
    }
    replies_clear(&connection->server->replies);
    if (connection->read == connection->in.length) {
        buffer_clear(&connection->in);
        buffer_take(&spare_in, &connection->in);
    } else {
        buffer_drop_front(&connection->in, connection->read);
    }
    connection->read = 0;
}

void server_settle(struct server *server)
{
    for (struct list *link; (link = list_take_first(&server->resumed)) != NULL;)
        connection_consume(list_owner(link, struct server_connection, resumed_link));
    for (struct list *link; (link = list_take_first(&server->talking)) != NULL;) {
        struct server_connection *connection = list_owner(link, struct server_connection, talking_link);
        if (connection->out.length > 0)
            connection->send(connection->context, connection->out.bytes, connection->out.length);
        buffer_clear(&connection->out);
        buffer_take(&spare_out, &connection->out);

        if (connection->closes_after_reply)
            connection_kill(connection);
    }
    while (!list_is_empty(&server->dead)) {
        struct server_connection *connection = list_owner(server->dead.next, struct server_connection, link);
        connection->closed(connection->context);
        connection_free(connection);
    }
}

void server_receive(struct server_connection *connection, const char *bytes, size_t length, int64_t now_us)
{
    struct server *server = connection->server;
    traffic_note(TRAFFIC_BYTES, server->number, connection->id, now_us, bytes, length);
    server->space.now_us = now_us;
    if (connection->in.capacity == 0)
        buffer_take(&connection->in, &spare_in);
    buffer_append(&connection->in, bytes, length);
    connection_consume(connection);
    server_settle(server);
}

int64_t server_next_us(const struct server *server)
{
    int64_t blocked = blocked_next_us(server), journal = journal_next_us(server);
    return blocked < journal ? blocked : journal;
}

void server_tick(struct server *server, int64_t now_us)
{
    server->space.now_us = now_us;
    blocked_tick(server);
    journal_tick(server);
    server_settle(server);
}

/* --- trouble ------------------------------------------------------------------------------------------------------ */

void server_set_out_of_memory(struct server *server, bool is_out)
{
    const char full = is_out;
    traffic_note(TRAFFIC_FULL, server->number, 0, server->space.now_us, &full, 1);
    server->is_out_of_memory = is_out;
}

void server_set_misconf(struct server *server, bool is_failing)
{
    server->is_misconfigured = is_failing;
}

void server_set_read_only(struct server *server, bool is_read_only)
{
    server->is_read_only = is_read_only;
    if (is_read_only)
        blocked_refuse_all(server);
    server_settle(server);
}

static void key_evict(struct server *server, struct value *value)
{
    traffic_note(TRAFFIC_EVICT, server->number, 0, server->space.now_us, value->key->name, value->key->length);

    const struct text deletion[] = {text_of("DEL"), item_name(value->key)};
    journal_note(server, deletion, 2);
    keyspace_remove(&server->space, value);
    server->evicted++;
}

size_t server_evict(struct server *server, size_t how_many, uint64_t seed)
{
    struct keyspace draws = {.random = seed};
    size_t gone = 0;
    for (; gone < how_many && server->space.keys.count > 0; gone++) {
        struct value *value = table_any(&server->space.keys, keyspace_draw(&draws))->value;
        key_evict(server, value);
    }
    journal_end(server);
    return gone;
}

void server_kill_clients(struct server *server)
{
    while (!list_is_empty(&server->connections))
        connection_kill(list_owner(server->connections.next, struct server_connection, link));
    server_settle(server);
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

struct keyspace *server_keyspace(struct server *server)
{
    return &server->space;
}

const char *server_run_id(const struct server *server)
{
    return server->run_id;
}

unsigned long long server_connection_id(const struct server_connection *connection)
{
    return connection->id;
}

const char *server_connection_name(const struct server_connection *connection)
{
    return connection->name.length > 0 ? connection->name.bytes : "";
}

void server_observe(struct server *server, void (*observe)(void *context, const struct server_event *event),
                    void *context)
{
    server->observe = observe;
    server->observer = context;
}

const char *server_connection_address(const struct server_connection *connection)
{
    return connection->address;
}
