/* holdfast status: the fleet, the queues and the rates, for people, for programs and for probes. */
#include "worker/commands/command.h"

#include <stdlib.h>
#include <unistd.h>

#include "worker/commands/health.h"
#include "worker/commands/nodes.h"
#include "worker/print/human.h"

#define WATCH_LEAST_NS (200 * NS_PER_MS)

struct status_command {
    struct console console;
    bool as_check, has_bound;
    int64_t watch_ns;
    struct health_bounds bounds;
    struct top_nodes *nodes;
};

#define AT(member) offsetof(struct status_command, member)
static const struct option_row options[] = {
    {OPTION_FLAG, 0, "check", NULL, "print the first line only, and exit with 1 when not all is well",
     .offset = AT(as_check)},
    {OPTION_DURATION, 0, "max-latency", "DURATION", "not well: a task has waited, or been due, longer (not checked)",
     .offset = AT(bounds.max_latency_ns), .given = GIVEN(AT(has_bound))},
    {OPTION_COUNT, 0, "max-dead", "N", "not well: more dead tasks (not checked)", .offset = AT(bounds.max_dead),
     .given = GIVEN(AT(has_bound))},
    {OPTION_COUNT, 0, "min-processes", "N", "not well: fewer processes take tasks (1)",
     .offset = AT(bounds.min_processes), .given = GIVEN(AT(has_bound))},
    {OPTION_DURATION, 0, "watch", "DURATION", "show it again and again, every 2s say, until interrupted",
     .offset = AT(watch_ns), .least = WATCH_LEAST_NS},
    {OPTION_TABLE, .table = console_options, .offset = AT(console)},
    {.type = OPTION_END},
};
#undef AT

/* --- for people ------------------------------------------------------------------------------------------------- */

static void processes_put(const struct fleet *fleet, struct printer *out)
{
    printer_list(out, "processes");
    for (size_t i = 0; i < fleet->count; i++)
        fleet_process_put(&fleet->items[i], out);
    printer_list_end(out, "no processes");
}

/* -1 is not known. */
static const char *known_count(long long count, char out[HUMAN_TEXT_MAX])
{
    return count >= 0 ? human_count(count, out) : "?";
}

static void print_numbers(const struct status *status)
{
    char a[HUMAN_TEXT_MAX], b[HUMAN_TEXT_MAX], c[HUMAN_TEXT_MAX], d[HUMAN_TEXT_MAX];
    printf("scheduled %s   waiting for locks %s   retry %s   dead %s\n", known_count(status->schedule, a),
           human_count(waiting_lists_total(&status->waiting), b), known_count(status->retry, c),
           known_count(status->dead, d));
    printf("processed %s (today %s)   failed %s (today %s)\n", known_count(status->processed, a),
           known_count(status->processed_today, b), known_count(status->failed, c),
           known_count(status->failed_today, d));
    printf("last full minute %s processed, %s failed\n", known_count(status->minute_processed, a),
           known_count(status->minute_failed, b));
    if (status->version[0] == '\0')
        return;
    printf("%s %s   memory %s", status->server, status->version,
           status->memory_used >= 0 ? human_size(status->memory_used, a) : "?");
    if (status->memory_max > 0)
        printf(" of %s", human_size(status->memory_max, b));
    printf("   %s connection%s\n", known_count(status->connections, c), human_plural(status->connections));
}

/* --- for programs ----------------------------------------------------------------------------------------------- */

static void numbers_json(const struct status *status, struct json_writer *json)
{
    json_number_or_nothing(json, "schedule", status->schedule);
    json_number_or_nothing(json, "retry", status->retry);
    json_number_or_nothing(json, "dead", status->dead);
    json_number_or_nothing(json, "processed", status->processed);
    json_number_or_nothing(json, "failed", status->failed);
    json_number_or_nothing(json, "processed_today", status->processed_today);
    json_number_or_nothing(json, "failed_today", status->failed_today);
    json_open(json, "rate", '{');
    json_text(json, "minute", status->minute);
    json_number_or_nothing(json, "processed", status->minute_processed);
    json_number_or_nothing(json, "failed", status->minute_failed);
    json_close(json, '}');
    json_open(json, "node", '{');
    json_text(json, "server", status->server[0] != '\0' ? status->server : NULL);
    json_text(json, "version", status->version[0] != '\0' ? status->version : NULL);
    json_number_or_nothing(json, "memory_used", status->memory_used);
    json_number_or_nothing(json, "memory_max", status->memory_max);
    json_number_or_nothing(json, "connections", status->connections);
    json_close(json, '}');
}

static void locks_json(const struct status *status, struct json_writer *json)
{
    if (status->is_lock_unknown) {
        json_nothing(json, "lock_nodes");
        return;
    }
    json_open(json, "lock_nodes", '{');
    json_number(json, "nodes", status->votes.nodes);
    json_number(json, "vote", status->votes.voters);
    json_text_or_nothing(json, "reason", status->votes.reason);
    json_close(json, '}');
}

/* The facts of the first line. */
static void health_put(const struct health *health, const struct status *status, struct printer *out)
{
    enum { HOTTEST = 3 };
    struct json_writer *json = &out->json;
    json_open(json, "health", '{');
    json_truth(json, "well", health->count == 0);
    json_open(json, "findings", '[');
    for (size_t i = 0; i < health->count; i++)
        json_text(json, NULL, health->items[i].text);
    json_close(json, ']');
    json_number(json, "workers", status_serving(status));
    locks_json(status, json);
    json_open(json, "waiting", '{');
    json_number(json, "tasks", waiting_lists_total(&status->waiting));
    printer_list(out, "hottest");
    waiting_lists_put(&status->waiting, HOTTEST, out);
    printer_list_end(out, NULL);
    json_close(json, '}');
    printer_list(out, "unserved");
    for (size_t i = 0; i < status->unserved_count; i++) {
        printer_row(out);
        json_text(json, "class", status->unserved[i].name);
        json_number(json, "tasks", status->unserved[i].tasks);
        printer_row_end(out);
    }
    printer_list_end(out, NULL);
    json_text_or_nothing(json, "warning", health->warning != NULL ? health->warning : "");
    json_truth(json, "dead_full", status->dead >= DEAD_ENTRIES - 1);
    json_open(json, "growing", '[');
    for (size_t i = 0; i < status->backlog.count; i++)
        if (status->backlog.items[i].pushed_lately > 0)
            json_text(json, NULL, status->backlog.items[i].name);
    json_close(json, ']');
    json_close(json, '}');
}

/* --- the command ------------------------------------------------------------------------------------------------ */

static void status_print(const struct status_command *command, const struct status *status, struct wall_time now,
                         const struct health *health)
{
    struct printer out = printer_begin(command->console.as_json, now, &(struct buffer){0});
    struct buffer line = {0};
    printer_moment(&out, NULL, "time", now);
    if (out.is_json)
        health_put(health, status, &out);
    health_line(health, status, &line);
    printer_line(&out, "%s", buffer_text(&line));
    buffer_fini(&line);
    if (health->warning != NULL && !command->as_check)
        printer_line(&out, "warning: %s", health->warning);
    if (out.is_json || !command->as_check) {
        printer_line(&out, "%s", "");
        processes_put(&status->fleet, &out);
        printer_line(&out, "%s", "");
        backlog_put(&status->backlog, NULL, &out);
        printer_line(&out, "%s", "");
        if (out.is_json)
            numbers_json(status, &out.json);
        else
            print_numbers(status);
    }
    printer_end(&out);
}

static int status_once(struct status_command *command, struct console *console)
{
    struct status status;
    struct health health;
    int code = status_read(&status, console);
    backlog_complain_cut(&status.backlog, console);
    if (code == EXIT_CODE_OK)
        code = status_ask_locks(&status, console, command->nodes);
    if (code == EXIT_CODE_OK) {
        health_judge(&health, &status, &command->bounds, console->now);
        status_print(command, &status, console->now, &health);
        if (command->as_check && health.count > 0)
            code = EXIT_CODE_FAILURE;
        health_free(&health);
    }
    status_free(&status);
    return code;
}

static int status_watch(struct status_command *command, struct console *console)
{
    bool is_terminal = isatty(STDOUT_FILENO) && !command->console.as_json;
    int code = EXIT_CODE_OK;
    node_client_hold_signals(console->client, true);
    while (code == EXIT_CODE_OK && ferror(stdout) == 0) {
        if (is_terminal)
            printf("\x1b[H\x1b[2J");
        code = status_once(command, console);
        fflush(stdout);
        if (code == EXIT_CODE_OK && (!node_client_pause(console->client, command->watch_ns) || !console_time(console)))
            break;
    }
    node_client_hold_signals(console->client, false);
    return code;
}

static int run(int argc, char **argv)
{
    struct status_command command = {.bounds = health_bounds_usual};
    struct command_line line;
    if (!command_line_read(&line, &command_status, argc, argv, &command))
        return line.exit_code;
    if (command.has_bound && !command.as_check)
        return command_misused(&command_status, "bounds are for --check");
    if (command.as_check && command.watch_ns > 0)
        return command_misused(&command_status, "--check looks once, --watch does not end");
    struct console *console = &command.console;
    int code = console_open(console, &command_status, ORIGIN_NEEDS_QUEUE, false);
    if (code == EXIT_CODE_OK) {
        nodes_patience_bound(console->config, console->origin.node_timeout_ns);
        command.nodes = top_nodes_start(console->config, command.watch_ns > 0 ? command.watch_ns : NS_PER_S);
        code = command.watch_ns > 0 ? status_watch(&command, console) : status_once(&command, console);
    }
    top_nodes_stop(command.nodes);
    return console_close(console, code);
}

const struct command command_status = {
    .name = "status",
    .summary = "show whether all is well, the fleet, the queues and the rates",
    .about =
        "The first line answers whether all is well: \"well:\" and what there is, or \"not well:\" and why, the worst\n"
        "first. Not well is it when\n"
        "\n"
        "  - the queue node is beyond its maxmemory, or one of the keys that workers cannot do without holds "
        "something\n"
        "    else;\n"
        "  - no worker takes tasks (or fewer than --min-processes);\n"
        "  - no majority of the lock nodes votes: tasks with locks are not started. A node votes when its lock group\n"
        "    lets it (see holdfast nodes) and it grants a lock, which is tried for a moment;\n"
        "  - two processes have terms that break exclusion: another lock group, single lock node or lock.prefix,\n"
        "    or a class with other resources, another kind of limit or no lock. One of them waits; when both serve "
        "it,\n"
        "    stop one;\n"
        "  - nobody has recovered the tasks of a dead process for a minute;\n"
        "  - tasks wait in a paused queue;\n"
        "  - tasks wait in a queue, or for a class, that no worker serves;\n"
        "  - dead is full: each further task that dies pushes out the oldest;\n"
        "  - a queue grows: its oldest task has waited for over a minute, and within a minute more tasks were pushed\n"
        "    there (by a tenth and ten at least) than all workers did of all queues.\n"
        "\n"
        "Which lock nodes there are is known from a configuration only. One that hangs costs about two seconds, or\n"
        "--node-timeout and one.\n"
        "\n"
        "Then come every process that the queue node knows of, the queues with their lengths and how long the oldest\n"
        "task has waited (latency), the sizes of schedule, retry and dead, and what was processed. Who waits for a\n"
        "lock does not count as scheduled. Reads a bounded amount a process and queue, whatever the sizes are.\n"
        "\n"
        "A process is alive while its lease runs, lost when it has ended and nobody has recovered its tasks yet, and\n"
        "recovered afterwards; foreign ones are workers of other programs, and unleased ones have stopped.\n"
        "\n"
        "With --check only the first line is printed, for probes, and the exit code is 1 when not all is well. With\n"
        "--max-latency, entries of schedule and retry that are due count as tasks in queues do; paused queues may\n"
        "wait.\n"
        "\n"
        "JSON: time, health, processes, queues, schedule, retry, dead, processed, failed, processed_today,\n"
        "failed_today, rate, node. health has the facts of the first line: well, findings (texts, the worst first),\n"
        "workers, lock_nodes (nodes, vote, reason; null is not known), waiting (tasks, hottest: for, name, tasks),\n"
        "unserved (class, tasks), warning (terms that differ without harm), dead_full, growing (queues). processes is\n"
        "a list of identity, state, lease_end, host, pid, version, busy, concurrency (also as threads), quiet, "
        "rss_kb,\n"
        "beat, queues; queues one of name, length, latency, paused. Times are seconds since 1970, spans are seconds;\n"
        "null is not known.\n",
    .examples = "  holdfast status --watch 2s\n"
                "  holdfast status --check --max-latency 30s --max-dead 100\n"
                "  holdfast status --json | jq '.queues[] | select(.length > 1000)'\n",
    .options = options,
    .run = run,
};
