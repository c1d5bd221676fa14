/* EVAL, EVALSHA, SCRIPT. */
#include "redis/request.h"
#include "tests/sim/server/server_private.h"

/* --- names, for those who look ------------------------------------------------------------------------------------ */

void server_name_scripts(const struct redis_script *const *scripts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        script_call_by(script_host_shared(), (struct text){scripts[i]->source, scripts[i]->length}, scripts[i]->name);
}

void script_event_fill(struct server *server, const struct text *arguments, struct server_event *event)
{
    struct reply *wrong = NULL;
    long long keys = 0;
    const struct script *script = NULL;
    if (strcmp(event->command, "eval") == 0)
        script = script_load(server->host_of_scripts, arguments[1], &server->replies, &wrong);
    else if (arguments[1].length == 40)
        script = script_find(server->host_of_scripts, arguments[1].bytes);
    event->script = script == NULL ? arguments[1].bytes : script->name != NULL ? script->name : script->sha1;
    event->arguments += 2;
    event->count -= 2;
    (void)text_integer(arguments[2], &keys);
    event->keys = keys < 0 || (unsigned long long)keys > event->count ? 0 : (size_t)keys;
}

/* --- the commands of a script ------------------------------------------------------------------------------------- */

static const char *command_refusal(struct server *server, const struct command *command, size_t count)
{
    if (command == NULL)
        return "ERR Unknown Redis command called from script";
    if (!command_takes(command, count))
        return "ERR Wrong number of args calling Redis command from script";
    if ((command->flags & COMMAND_NO_SCRIPT) != 0)
        return "ERR This Redis command is not allowed from script";
    const char *forbidden = server->caller != NULL ? user_refusal_in_script(server->caller, command) : NULL;
    if (forbidden != NULL)
        return forbidden;
    /* What has written may go on. */
    if (server->script_wrote)
        return NULL;
    if ((command->flags & COMMAND_WRITES) != 0) {
        const char *reason = server_refuses_write(server);
        if (reason != NULL)
            return reason;
    }
    if (server->was_out_of_memory && (command->flags & COMMAND_GROWS) != 0)
        return "OOM command not allowed when used memory > 'maxmemory'.";
    return NULL;
}

static struct reply *script_command(void *context, const struct text *arguments, size_t count)
{
    struct server *server = context;
    const struct command *command = redis_command_find(arguments[0]);
    const char *reason = command_refusal(server, command, count);
    if (reason != NULL)
        return reply_error(&server->replies, reason);
    server->script_wrote = server->script_wrote || (command->flags & COMMAND_WRITES) != 0;
    return server_call(server, server->caller, command, arguments, count, CALL_IN_SCRIPT);
}

static struct reply *script_call_run(struct command_call *call, const struct script *script, long long keys)
{
    const struct script_call run = {.replies = call->replies,
                                    .arguments = call->arguments + 3,
                                    .keys = (size_t)keys,
                                    .count = call->count - 3,
                                    .command = script_command,
                                    .context = call->server};
    call->server->script_wrote = false;
    return script_run(call->server->host_of_scripts, script, &run);
}

/* NULL when it is right. */
static struct reply *keys_read(struct command_call *call, long long *keys)
{
    if (!call_integer(call, 2, keys))
        return reply_not_integer(call);
    if (*keys > (long long)call->count - 3)
        return reply_error(call->replies, "ERR Number of keys can't be greater than number of args");
    if (*keys < 0)
        return reply_error(call->replies, "ERR Number of keys can't be negative");
    return NULL;
}

static void script_learn(struct server *server, const struct script *script)
{
    const struct text sha1 = {script->sha1, 40};
    if (table_find(&server->scripts, sha1) == NULL)
        table_add(&server->scripts, sha1);
}

struct reply *command_eval(struct command_call *call)
{
    long long keys;
    struct reply *wrong = keys_read(call, &keys);
    if (wrong != NULL)
        return wrong;
    const struct script *script = script_load(call->server->host_of_scripts, call->arguments[1], call->replies, &wrong);
    if (script == NULL)
        return wrong;
    script_learn(call->server, script);
    return script_call_run(call, script, keys);
}

/* NULL when this server does not know it. */
static const struct script *script_known(struct server *server, struct text sha1)
{
    char small[40];
    if (sha1.length != sizeof small)
        return NULL;
    for (size_t i = 0; i < sizeof small; i++)
        small[i] = sha1.bytes[i] >= 'A' && sha1.bytes[i] <= 'Z' ? (char)(sha1.bytes[i] + 32) : sha1.bytes[i];
    if (table_find(&server->scripts, (struct text){small, sizeof small}) == NULL)
        return NULL;
    return script_find(server->host_of_scripts, small);
}

struct reply *command_evalsha(struct command_call *call)
{
    long long keys;
    const struct script *script = script_known(call->server, call->arguments[1]);
    struct reply *wrong = call->arguments[1].length == 40 ? keys_read(call, &keys) : NULL;
    if (wrong != NULL)
        return wrong;
    if (script == NULL)
        return reply_error(call->replies, "NOSCRIPT No matching script. Please use EVAL.");
    return script_call_run(call, script, keys);
}

/* --- SCRIPT ------------------------------------------------------------------------------------------------------- */

static struct reply *script_command_load(struct command_call *call)
{
    struct reply *wrong = NULL;
    const struct script *script = script_load(call->server->host_of_scripts, call->arguments[2], call->replies, &wrong);
    if (script == NULL)
        return wrong;
    script_learn(call->server, script);
    return reply_bulk(call->replies, text_of(script->sha1));
}

static struct reply *script_exists(struct command_call *call)
{
    struct reply *found = reply_array(call->replies, call->count);
    for (size_t i = 2; i < call->count; i++)
        reply_add(found, reply_integer(call->replies, script_known(call->server, call->arguments[i]) != NULL));
    return found;
}

static struct reply *script_flush(struct command_call *call)
{
    bool is_right =
        call->count == 2 || (call->count == 3 && (call_says(call, 2, "SYNC") || call_says(call, 2, "ASYNC")));
    if (!is_right)
        return reply_error(call->replies, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
    table_clear(&call->server->scripts);
    return reply_status(call->replies, "OK");
}

struct reply *command_script(struct command_call *call)
{
    static const struct subcommand subcommands[] = {
        {"load", 3, script_command_load}, {"exists", -3, script_exists}, {"flush", -2, script_flush}, {NULL, 0, NULL}};
    return subcommand_execute(call, subcommands);
}
