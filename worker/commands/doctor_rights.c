/* Whether the users of the nodes have the rights of conf/redis-users.conf, which is part of the program. A server is
 * asked by a script, because redis.acl_check_cmd shows a user its own rights and needs none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/commands/doctor.h"
#include "worker/nodes/node_client.h"
#include "worker/print/embedded_text.h"

/* Channels are judged together with the commands that name them. */
static const char asking[] =
    "-- ARGV: how many keys, the keys, how many channels, the channels, the commands (name or name|part)\n"
    "-- Returns the positions in ARGV of what the user may not, or nothing where the server cannot tell (before 7.0).\n"
    "local may = redis.acl_check_cmd\n"
    "if not may then return false end\n"
    "local refused, at, key, channel = {}, 2, nil, nil\n"
    "local function check(position, ...)\n"
    "    local is_known, is_allowed = pcall(may, ...)\n"
    "    if is_known and not is_allowed then refused[#refused + 1] = position end\n"
    "    return is_known, is_allowed == true\n"
    "end\n"
    "for i = 2, 1 + ARGV[1] do\n"
    "    local _, is_allowed = check(i, 'EVALSHA', '0', '1', ARGV[i])\n"
    "    key = is_allowed and ARGV[i] or key\n"
    "end\n"
    "local channels = 2 + ARGV[1]\n"
    "for i = channels + 1, channels + ARGV[channels] do channel = ARGV[i] end\n"
    "for i = channels + ARGV[channels] + 1, #ARGV do\n"
    "    local name, part = string.match(ARGV[i], '([^|]+)|?(.*)')\n"
    "    local with = (name == 'publish' or name == 'subscribe') and channel or key\n"
    "    -- Redis 8.0 knows a command only with as many arguments as it takes.\n"
    "    for count = with and 5 or -1, 0, -1 do\n"
    "        local words = {name, part ~= '' and part or nil}\n"
    "        for _ = 1, count do words[#words + 1] = with end\n"
    "        if check(i, unpack(words)) then break end\n"
    "    end\n"
    "end\n"
    "return refused\n";

static const struct doctor_kind right_missing = {
    "right-missing", DOCTOR_WARNING, "What needs it is refused by this server, perhaps only in trouble.",
    "Run that command there, and change its ACL file: conf/redis-users.conf has all that is needed."};
static const struct doctor_kind rights_unknown = {
    "rights-unknown", DOCTOR_NOTE, "A right that is missing may be noticed only in trouble.",
    "Compare the user with conf/redis-users.conf. Servers from 7.0 on can tell."};

enum { RULES_MAX = 200 };

/* The rules of a user, as its line has them, and what to ask for them. */
struct rules {
    char *text;
    const char *keys[RULES_MAX], *channels[RULES_MAX], *commands[RULES_MAX];
    size_t key_count, channel_count, command_count;
};

static void rules_read(struct rules *rules, const char *user)
{
    char start[64];
    snprintf(start, sizeof start, "\nuser %s ", user);
    const char *line = strstr(user_rules[0].text, start);
    invariant(line != NULL);
    line += strlen(start);
    char *rest = rules->text = memory_text(line);
    rest[strcspn(rest, "\n")] = '\0';
    for (char *rule; (rule = strsep(&rest, " ")) != NULL;) {
        if (rule[0] == '~')
            rules->keys[rules->key_count++] = rule;
        else if (rule[0] == '&')
            rules->channels[rules->channel_count++] = rule;
        else if (rule[0] == '+')
            rules->commands[rules->command_count++] = rule;
        invariant(rules->key_count + rules->channel_count + rules->command_count < RULES_MAX);
    }
}

/* The rule as it has to be with this prefix of locks; without its sign and its star, the beginning of a name. */
static void rule_write(const char *rule, const char *lock_prefix, struct buffer *out)
{
    static const char usual[] = "~lock:*";
    if (strcmp(rule, usual) == 0)
        buffer_format(out, "~%s*", lock_prefix);
    else
        buffer_append_text(out, rule);
}

static void sample_write(const char *rule, const char *lock_prefix, struct buffer *request)
{
    struct buffer name = {0};
    rule_write(rule, lock_prefix, &name);
    if (buffer_text(&name)[name.length - 1] == '*')
        name.bytes[name.length - 1] = 'x';
    redis_request_bytes(request, name.bytes + 1, name.length - 1);
    buffer_fini(&name);
}

static void asking_write(const struct rules *rules, const char *digest, const char *lock_prefix, struct buffer *request)
{
    redis_request_begin(request, 5 + rules->key_count + rules->channel_count + rules->command_count);
    redis_request_texts(request, "EVALSHA", digest, "0");
    redis_request_integer(request, (int64_t)rules->key_count);
    for (size_t i = 0; i < rules->key_count; i++)
        sample_write(rules->keys[i], lock_prefix, request);
    redis_request_integer(request, (int64_t)rules->channel_count);
    for (size_t i = 0; i < rules->channel_count; i++)
        sample_write(rules->channels[i], lock_prefix, request);
    for (size_t i = 0; i < rules->command_count; i++)
        redis_request_text(request, rules->commands[i] + 1);
}

/* By its position among the arguments of the script. */
static const char *rule_at(const struct rules *rules, long long position)
{
    size_t at = (size_t)(position - 2);
    if (at < rules->key_count)
        return rules->keys[at];
    at -= rules->key_count + 1 + rules->channel_count;
    return at < rules->command_count ? rules->commands[at] : "";
}

static void refusals_find(struct doctor *doctor, const struct config_node *node, const struct rules *rules,
                          const struct redis_reply *reply)
{
    struct buffer missing = {0};
    const char *user = node->user != NULL && node->user[0] != '\0' ? node->user : "default";
    for (size_t i = 0; i < reply->count; i++) {
        const char *rule = rule_at(rules, reply->elements[i].integer);
        buffer_append_text(&missing, " ");
        rule_write(rule, doctor->console->config->lock.prefix, &missing);
        if (strcmp(rule, "+publish") == 0 || strcmp(rule, "+subscribe") == 0)
            buffer_format(&missing, " %s", rules->channels[0]);
    }
    if (reply->count > 0)
        doctor_find(doctor, &right_missing, "%s: the user %s lacks rights: ACL SETUSER %s%s", node->name, user, user,
                    buffer_text(&missing));
    buffer_fini(&missing);
}

/* Nodes that cannot be asked are reported by others. */
static void rights_examine(struct doctor *doctor, const struct config_node *node, const char *file_user)
{
    struct error error = ERROR_NONE;
    struct rules rules = {0};
    struct node_client *client =
        node_client_open(&(struct node_client_options){.node = node, .client_name = "holdfast-console"}, &error);
    if (client == NULL)
        return;
    rules_read(&rules, file_user);
    node_client_begin(client);
    node_client_ask(client, "SCRIPT", "LOAD", asking, NULL);
    bool is_answered = node_client_run(client);
    const struct redis_reply *digest = node_client_reply(client, 0);
    if (is_answered && digest->kind == REDIS_FAILURE)
        doctor_find(doctor, &right_missing, "%s: %s", node->name, digest->bytes);
    if (is_answered && digest->kind == REDIS_STRING) {
        char *text = memory_text(digest->bytes);
        node_client_begin(client);
        asking_write(&rules, text, doctor->console->config->lock.prefix, node_client_compose(client));
        is_answered = node_client_run(client);
        const struct redis_reply *reply = node_client_reply(client, 0);
        if (is_answered && reply->kind == REDIS_ARRAY)
            refusals_find(doctor, node, &rules, reply);
        else if (is_answered && reply->kind == REDIS_FAILURE)
            doctor_find(doctor, &right_missing, "%s: %s", node->name, reply->bytes);
        else if (is_answered)
            doctor_find(doctor, &rights_unknown, "%s cannot tell what its user may do", node->name);
        free(text);
    }
    node_client_close(client);
    free(rules.text);
}

void doctor_examine_rights(struct doctor *doctor)
{
    const struct config *config = doctor->console->config;
    rights_examine(doctor, &config->queue_node, "holdfast-queue");
    for (size_t i = 0; i < config->lock_node_count; i++)
        rights_examine(doctor, &config->lock_nodes[i], "holdfast-lock");
}
