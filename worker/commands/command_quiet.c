/* holdfast quiet and stop. The signal goes through the queue node, so it works from any host, and for every process
 * that reads what dashboards write. */
#include "worker/commands/command.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/commands/fleet.h"

enum { TARGETS_MAX = 100 };

#define LOOK_EVERY_NS (250 * NS_PER_MS)

struct telling {
    struct console console;
    bool all, drains, stops, waits;
    int64_t wait_ns;
    char **targets;
    int target_count;
    char **told; /* identities */
    size_t told_count;
};

#define AT(member) offsetof(struct telling, member)
static const struct option_row quiet_options[] = {
    {OPTION_FLAG, 'a', "all", NULL, "every process that the queue node knows of", .offset = AT(all)},
    {OPTION_DURATION, 'w', "wait", "[=DURATION]", "wait until they have done so, at most this long",
     .offset = AT(wait_ns), .given = GIVEN(AT(waits))},
    {OPTION_TABLE, .table = console_options, .offset = AT(console)},
    {.type = OPTION_END},
};
static const struct option_row stop_options[] = {
    {OPTION_FLAG, 0, "drain", NULL,
     "without a deadline: each ends when its last task has ended (holdfast workers only)", .offset = AT(drains)},
    {OPTION_TABLE, .table = quiet_options},
    {.type = OPTION_END},
};
#undef AT

/* --- who -------------------------------------------------------------------------------------------------------- */

static bool is_there(const struct fleet_process *process)
{
    return process->state == FLEET_ALIVE || (process->is_shown && !process->is_leased);
}

static bool is_meant(const struct fleet_process *process, const char *target)
{
    size_t length = strlen(target);
    bool is_on_host = strncmp(process->identity, target, length) == 0 && process->identity[length] == ':' &&
                      strchr(target, ':') == NULL;
    return strcmp(process->identity, target) == 0 || strcmp(process->info.host, target) == 0 || is_on_host;
}

static bool is_chosen(const struct telling *telling, const struct fleet_process *process)
{
    if (!is_there(process) || (telling->drains && process->state != FLEET_ALIVE))
        return false;
    for (int i = 0; i < telling->target_count; i++)
        if (is_meant(process, telling->targets[i]))
            return true;
    return telling->all;
}

/* Every target has to name a process. */
static int targets_check(struct telling *telling, const struct fleet *fleet)
{
    char quoted[LOG_QUOTE_MAX];
    for (int i = 0; i < telling->target_count; i++) {
        bool is_known = false;
        for (size_t j = 0; j < fleet->count && !is_known; j++)
            is_known = is_there(&fleet->items[j]) && is_meant(&fleet->items[j], telling->targets[i]);
        if (!is_known)
            return console_complain(&telling->console,
                                    "no living process is called %s or runs there; `holdfast status` lists them",
                                    log_quote(telling->targets[i], quoted));
    }
    return EXIT_CODE_OK;
}

/* --- telling ---------------------------------------------------------------------------------------------------- */

static void ask_to_tell(struct telling *telling, const char *identity)
{
    struct buffer key = {0};
    struct node_client *client = telling->console.client;
    if (telling->drains)
        buffer_format(&key, "%s%s", telling->console.keys.calls_prefix, identity);
    else
        buffer_format(&key, "%s-signals", identity);
    node_client_ask(client, "LPUSH", buffer_text(&key),
                    telling->drains  ? "DRAIN"
                    : telling->stops ? "TERM"
                                     : "TSTP",
                    NULL);
    node_client_ask(client, "EXPIRE", buffer_text(&key), "60", NULL);
    buffer_fini(&key);
}

static int tell(struct telling *telling, const struct fleet *fleet)
{
    node_client_begin(telling->console.client);
    for (size_t i = 0; i < fleet->count; i++) {
        if (!is_chosen(telling, &fleet->items[i]))
            continue;
        telling->told = memory_resize(telling->told, telling->told_count + 1, sizeof *telling->told);
        telling->told[telling->told_count++] = memory_text(fleet->items[i].identity);
        ask_to_tell(telling, fleet->items[i].identity);
    }
    if (telling->told_count == 0)
        return console_complain(&telling->console, "there is no living process to tell%s",
                                telling->drains ? "; --drain is for holdfast workers" : "");
    console_run(&telling->console);
    for (size_t i = 0; i < node_client_count(telling->console.client); i++)
        if (node_client_reply_of(telling->console.client, i, REDIS_INTEGER) == NULL)
            return console_refuse(&telling->console, i);
    return EXIT_CODE_OK;
}

/* --- waiting ---------------------------------------------------------------------------------------------------- */

static bool has_done_so(const struct telling *telling, const struct fleet_process *process)
{
    if (process == NULL || !is_there(process))
        return true;
    return !telling->stops && process->is_quiet;
}

static int left_count(struct telling *telling, size_t *left)
{
    struct fleet fleet;
    if (!console_time(&telling->console))
        return (int)node_client_complain(telling->console.client, telling->console.command->name);
    int code = fleet_read(&fleet, &telling->console);
    *left = 0;
    for (size_t i = 0; i < telling->told_count; i++)
        *left += !has_done_so(telling, fleet_find(&fleet, telling->told[i]));
    fleet_free(&fleet);
    return code;
}

static int await_end(struct telling *telling)
{
    struct instant until = instant_after(instant_now(), telling->wait_ns);
    const char *done = telling->stops ? "stopped" : "gone quiet";
    size_t left = telling->told_count;
    while (left > 0) {
        int code = left_count(telling, &left);
        if (code != EXIT_CODE_OK)
            return code;
        if (left > 0 && instant_reached(instant_now(), until))
            return console_complain(&telling->console, "%zu of %zu have not %s in time", left, telling->told_count,
                                    done);
        if (left > 0 && !node_client_pause(telling->console.client, LOOK_EVERY_NS))
            return console_complain(&telling->console, "interrupted; %zu of %zu have not %s yet", left,
                                    telling->told_count, done);
    }
    return EXIT_CODE_OK;
}

/* Signals are watched between two looks, too, so that the output says what is left. */
static int await(struct telling *telling)
{
    node_client_hold_signals(telling->console.client, true);
    int code = await_end(telling);
    node_client_hold_signals(telling->console.client, false);
    return code;
}

/* --- the commands ----------------------------------------------------------------------------------------------- */

static void print_told(const struct telling *telling)
{
    char quoted[LOG_QUOTE_MAX];
    const char *what = telling->drains ? "drain" : telling->stops ? "stop" : "quiet";
    struct printer out = printer_begin(telling->console.as_json, telling->console.now, &(struct buffer){0});
    printer_text(&out, NULL, "verb", what);
    printer_texts(&out, NULL, "told", telling->told, telling->told_count);
    for (size_t i = 0; i < telling->told_count; i++)
        printer_line(&out, "told %s: %s", log_quote(telling->told[i], quoted), what);
    printer_end(&out);
    fflush(stdout);
}

static int tell_and_wait(struct telling *telling)
{
    struct fleet fleet;
    int code = fleet_read(&fleet, &telling->console);
    if (code == EXIT_CODE_OK)
        code = targets_check(telling, &fleet);
    if (code == EXIT_CODE_OK)
        code = tell(telling, &fleet);
    fleet_free(&fleet);
    if (code == EXIT_CODE_OK) {
        print_told(telling);
        if (telling->waits)
            code = await(telling);
    }
    for (size_t i = 0; i < telling->told_count; i++)
        free(telling->told[i]);
    free(telling->told);
    return code;
}

static int run_either(const struct command *command, bool stops, int argc, char **argv)
{
    struct telling telling = {.stops = stops, .wait_ns = INT64_MAX};
    struct command_line line;
    if (!command_line_read(&line, command, argc, argv, &telling))
        return line.exit_code;
    telling.targets = line.arguments;
    telling.target_count = line.argument_count;
    if (telling.all == (line.argument_count > 0))
        return command_misused(command, "name processes or hosts, or say --all");
    telling.console.origin.changes = true;
    int code = console_open(&telling.console, command, ORIGIN_NEEDS_QUEUE, false);
    if (code == EXIT_CODE_OK) {
        origin_tell(&telling.console.origin, command);
        code = tell_and_wait(&telling);
    }
    return console_close(&telling.console, code);
}

static int run_quiet(int argc, char **argv)
{
    return run_either(&command_quiet, false, argc, argv);
}

static int run_stop(int argc, char **argv)
{
    return run_either(&command_stop, true, argc, argv);
}

const struct command command_quiet = {
    .name = "quiet",
    .summary = "tell processes to take no more tasks",
    .arguments = "[IDENTITY|HOST...]",
    .about =
        "Tells processes to finish what they run and take nothing new, by the queue node: the same as the button of\n"
        "a dashboard, so it works for every worker that follows these. A process cannot be made to take tasks\n"
        "again; start another one.\n"
        "\n"
        "With --wait it waits for that, and exits with 1 when somebody has not become quiet, or ended, in time.\n"
        "\n"
        "JSON: verb, told (identities).\n",
    .examples = "  holdfast quiet web-3 --wait=10s\n",
    .options = quiet_options,
    .arguments_max = TARGETS_MAX,
    .run = run_quiet,
};

const struct command command_stop = {
    .name = "stop",
    .summary = "tell processes to stop",
    .arguments = "[IDENTITY|HOST...]",
    .about =
        "Tells processes to stop, by the queue node: they take nothing new, have their stop_timeout to finish, and\n"
        "give back the rest. It works for every worker that follows dashboards. With --drain a process has all\n"
        "the time it needs: it takes nothing new and ends when its last task has ended, as after SIGUSR2. That is how\n"
        "an old process makes room for a new one without a gap.\n"
        "\n"
        "With --wait it waits for that, and exits with 1 when somebody has not stopped in time.\n"
        "\n"
        "JSON: verb, told (identities).\n",
    .examples = "  holdfast stop --all --wait=60s\n"
                "  holdfast stop web-3:4242:abcdef012345 --drain\n",
    .options = stop_options,
    .arguments_max = TARGETS_MAX,
    .run = run_stop,
};
