#include "worker/commands/console.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "queue/scripts.h"

enum { COMPLAINT_MAX = 1024 };

#define AT(member) offsetof(struct console, member)
#define JSON_ROW                                                                                                       \
    {                                                                                                                  \
        OPTION_FLAG, 0, "json", NULL, "print one JSON object, on one line", .offset = AT(as_json)                      \
    }
const struct option_row console_options[] = {
    JSON_ROW,
    {OPTION_TABLE, .table = origin_queue_options, .help = ORIGIN_HEADLINE, .offset = AT(origin)},
    {.type = OPTION_END},
};
const struct option_row console_config_options[] = {
    JSON_ROW,
    {OPTION_TABLE, .table = origin_options, .help = ORIGIN_HEADLINE, .offset = AT(origin)},
    {.type = OPTION_END},
};
#undef AT

int console_complain(struct console *console, const char *format, ...)
{
    va_list values;
    console->has_complained = true;
    va_start(values, format);
    if (!console->is_silent)
        command_complain_list(console->command, format, values);
    va_end(values);
    return EXIT_CODE_FAILURE;
}

const char *console_key(struct console *console, const char *prefix, const char *name)
{
    buffer_clear(&console->key);
    buffer_format(&console->key, "%s%s", prefix, name);
    return buffer_text(&console->key);
}

const char *console_work_key(struct console *console, const char *identity)
{
    return console_key(console, identity, ":work");
}

int console_run(struct console *console)
{
    if (console->code != EXIT_CODE_OK || node_client_run(console->client))
        return console->code;
    console->code = EXIT_CODE_TEMPORARY;
    if (node_client_ended(console->client) == NODE_CLIENT_CUT)
        return console->code;
    console->has_complained = true;
    if (!console->is_silent)
        console->code = (int)node_client_complain(console->client, console->command->name);
    return console->code;
}

const struct redis_reply *console_ask(struct console *console, ...)
{
    va_list texts;
    node_client_begin(console->client);
    va_start(texts, console);
    node_client_ask_list(console->client, texts);
    va_end(texts);
    console_run(console);
    return node_client_reply(console->client, 0);
}

bool console_asks_less(struct console *console, size_t *limit)
{
    bool is_cut = console->code != EXIT_CODE_OK && node_client_ended(console->client) == NODE_CLIENT_CUT;
    node_client_may_divide(console->client, false);
    if (!is_cut)
        return false;
    *limit /= 2;
    console->code = EXIT_CODE_OK;
    return true;
}

int console_refuse(struct console *console, size_t index)
{
    if (console->code != EXIT_CODE_OK)
        return console->code;
    console->code = EXIT_CODE_FAILURE;
    if (!console->is_silent)
        console->code = (int)node_client_complain_reply(console->client, index, console->command->name);
    return console->code;
}

bool console_time(struct console *console)
{
    struct instant asked = instant_now();
    node_client_begin(console->client);
    node_client_ask(console->client, "TIME", NULL);
    if (!node_client_run(console->client))
        return false;
    const struct redis_reply *time = node_client_reply_of(console->client, 0, REDIS_ARRAY);
    console->here = wall_now();
    console->round_trip_us = instant_since(asked, instant_now()) / NS_PER_US;
    console->now = console->here;
    if (time != NULL && time->count == 2 && time->elements[0].bytes != NULL && time->elements[1].bytes != NULL)
        console->now.us =
            strtoll(time->elements[0].bytes, NULL, 10) * US_PER_S + strtoll(time->elements[1].bytes, NULL, 10);
    return true;
}

/* The marker of a lock group, or the id of a single lock node. One server may be for locks and for queues. */
int console_refuse_lock_node(struct console *console)
{
    struct node_client *client = console->client;
    struct buffer address = {0};
    if (console->origin.kind != ORIGIN_OPTIONS)
        return EXIT_CODE_OK;
    node_client_begin(client);
    node_client_ask(client, "EXISTS", "hf:lock:group", "hf:lock:node", NULL);
    node_client_ask(client, "EXISTS", console->keys.queues, console->keys.listed, console->keys.processes, NULL);
    if (!node_client_run(client) || node_client_integer(client, 0, 0) == 0 || node_client_integer(client, 1, 1) > 0)
        return EXIT_CODE_OK;
    int code = console_complain(console, "%s is a lock node, and no worker or task was ever there: name the queue node",
                                config_node_address(&console->config->queue_node, &address));
    buffer_fini(&address);
    return code;
}

int console_connect(struct console *console, bool changes)
{
    struct error error = ERROR_NONE;
    if (console->origin.kind == ORIGIN_DEFAULT)
        origin_tell(&console->origin, console->command);
    log_set_level(LOG_NOTHING); /* instead of what connections log, the command has its own words */
    console->client = node_client_open(&(struct node_client_options){.node = &console->config->queue_node,
                                                                     .client_name = "holdfast-console",
                                                                     .scripts = changes ? queue_scripts : NULL,
                                                                     .script_count = changes ? QUEUE_SCRIPT_COUNT : 0,
                                                                     .patience_ns = console->origin.node_timeout_ns},
                                       &error);
    if (console->client == NULL)
        return console_complain(console, "%s", error.text);
    /* The first question pays for the connection; the second one measures the clocks. */
    if (console_time(console) && console_time(console))
        return changes ? console_refuse_lock_node(console) : EXIT_CODE_OK;
    if (console->is_silent)
        return EXIT_CODE_TEMPORARY;
    console->has_complained = true;
    return (int)node_client_complain(console->client, console->command->name);
}

int console_configure(struct console *console, const struct command *command, enum origin_needs needs)
{
    console->command = command;
    queue_keys_init(&console->keys, "", "");
    return origin_open(&console->origin, command, needs, &console->config, &console->warnings);
}

int console_open(struct console *console, const struct command *command, enum origin_needs needs, bool changes)
{
    console->origin.changes |= changes;
    int code = console_configure(console, command, needs);
    return code == EXIT_CODE_OK ? console_connect(console, changes) : code;
}

int console_close(struct console *console, int code)
{
    if (console->has_complained)
        origin_tell(&console->origin, console->command);
    node_client_close(console->client);
    buffer_fini(&console->key);
    queue_keys_fini(&console->keys);
    config_free(console->config);
    findings_fini(&console->warnings);
    origin_close(&console->origin);
    return console->code != EXIT_CODE_OK ? console->code : code;
}

bool console_confirm(struct console *console, bool is_sure, const char *format, ...)
{
    char question[COMPLAINT_MAX], answer[16];
    origin_tell(&console->origin, console->command);
    if (is_sure)
        return true;
    va_list values;
    va_start(values, format);
    vsnprintf(question, sizeof question, format, values);
    va_end(values);
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        console_complain(console, "%s: say --yes to do it without being asked", log_defuse(question));
        return false;
    }
    fprintf(stderr, "%s? [y/N] ", log_defuse(question));
    return fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y');
}
