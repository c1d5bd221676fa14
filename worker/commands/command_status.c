/* holdfast status: the fleet, the queues and the rates, for people, for programs and for probes. */
#include "worker/commands/commands.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/quantity.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"
#include "worker/commands/status.h"
#include "worker/print/table.h"

enum {
    OPTION_CONFIG,
    OPTION_JSON,
    OPTION_CHECK,
    OPTION_MAX_LATENCY,
    OPTION_MAX_DEAD,
    OPTION_MIN_PROCESSES,
    OPTION_WATCH,
};

static const struct command_option options[] = {
    [OPTION_CONFIG] = {'c', "config", "FILE", "the configuration of the workers (required)"},
    [OPTION_JSON] = {0, "json", NULL, "print one JSON object, on one line"},
    [OPTION_CHECK] = {0, "check", NULL, "print one line, and exit with 1 when something is not healthy"},
    [OPTION_MAX_LATENCY] = {0, "max-latency", "DURATION",
                            "not healthy: a task has waited, or been due, longer (not checked)"},
    [OPTION_MAX_DEAD] = {0, "max-dead", "N", "not healthy: more dead tasks (not checked)"},
    [OPTION_MIN_PROCESSES] = {0, "min-processes", "N", "not healthy: fewer processes take tasks (1)"},
    [OPTION_WATCH] = {'w', "watch", "DURATION", "show it again and again, every 2s say, until interrupted"},
    {0, NULL, NULL, NULL},
};

#define WATCH_LEAST_NS (200 * NS_PER_MS)

struct status_command {
    const char *path;
    bool as_json, as_check, has_bound;
    int64_t watch_ns;
    struct status_bounds bounds;
};

/* --- for people ------------------------------------------------------------------------------------------------- */

static void state_text(const struct fleet_process *process, struct wall_time now, char *out, size_t size)
{
    char since[HUMAN_TEXT_MAX];
    if (process->is_clash)
        snprintf(out, size, "%s, claims ?", fleet_state_name(process->state));
    else if (process->state == FLEET_ALIVE)
        snprintf(out, size, "%s", process->is_quiet ? "quiet" : "alive");
    else if (process->state == FLEET_LOST)
        snprintf(out, size, "lost, lease ended %s", human_moment(process->lease_end, now, since));
    else
        snprintf(out, size, "%s", fleet_state_name(process->state));
}

static void print_processes(const struct status *status, struct wall_time now)
{
    static const struct table_column columns[] = {{"PROCESS", false}, {"STATE", false}, {"BUSY", true},
                                                  {"MEMORY", true},   {"BEAT", false},  {"QUEUES", false},
                                                  {NULL, false}};
    static const enum table_style styles[] = {[FLEET_ALIVE] = TABLE_GOOD,
                                              [FLEET_LOST] = TABLE_BAD,
                                              [FLEET_RECOVERED] = TABLE_DIM,
                                              [FLEET_UNLEASED] = TABLE_DIM,
                                              [FLEET_FOREIGN] = TABLE_WARN};
    if (status->fleet.count == 0) {
        printf("no processes\n");
        return;
    }
    struct table *table = table_create(columns);
    for (size_t i = 0; i < status->fleet.count; i++) {
        const struct fleet_process *process = &status->fleet.items[i];
        struct buffer queues = {0};
        char text[128], quoted[LOG_QUOTE_MAX], human[HUMAN_TEXT_MAX];
        for (size_t j = 0; j < process->info.queue_count; j++)
            buffer_format(&queues, "%s%s", j > 0 ? "," : "", log_quote(process->info.queues[j], quoted));
        state_text(process, now, text, sizeof text);
        table_cell(table, TABLE_PLAIN, "%s", log_quote(process->identity, quoted));
        table_cell(table, styles[process->state], "%s", text);
        table_cell(table, TABLE_PLAIN, process->is_shown ? "%lld/%lld" : "-", process->busy, process->concurrency);
        table_cell(table, TABLE_PLAIN, "%s", process->is_shown ? human_size(process->rss_kb * 1024, human) : "-");
        table_cell(table, TABLE_PLAIN, "%s", human_moment(process->beat, now, human));
        table_cell(table, TABLE_PLAIN, "%s", buffer_text(&queues));
        buffer_fini(&queues);
    }
    table_print(table, stdout);
}

static void print_queues(const struct status *status)
{
    static const struct table_column columns[] = {
        {"QUEUE", false}, {"TASKS", true}, {"LATENCY", true}, {"", false}, {NULL, false}};
    if (status->backlog.count == 0) {
        printf("%s\n", status->backlog.knows_listed ? "no queues" : "queues ?");
        return;
    }
    struct table *table = table_create(columns);
    for (size_t i = 0; i < status->backlog.count; i++) {
        const struct backlog_queue *queue = &status->backlog.items[i];
        char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
        table_cell(table, TABLE_PLAIN, "%s", log_quote(queue->name, quoted));
        table_cell(table, TABLE_PLAIN, "%s", queue->length < 0 ? "?" : human_count(queue->length, human));
        table_cell(table, TABLE_PLAIN, "%s", queue->latency_us < 0 ? "?" : human_span(queue->latency_us, human));
        table_cell(table, TABLE_WARN, "%s", backlog_queue_remark(&status->backlog, queue));
    }
    table_print(table, stdout);
}

/* -1 is not known. */
static const char *known_count(long long count, char out[HUMAN_TEXT_MAX])
{
    return count >= 0 ? human_count(count, out) : "?";
}

static void print_numbers(const struct status *status)
{
    char a[HUMAN_TEXT_MAX], b[HUMAN_TEXT_MAX], c[HUMAN_TEXT_MAX], d[HUMAN_TEXT_MAX];
    printf("scheduled %s   retry %s   dead %s\n", known_count(status->schedule, a), known_count(status->retry, b),
           known_count(status->dead, c));
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
    printf("   %s connections\n", known_count(status->connections, c));
}

static void print_for_people(const struct status *status, struct wall_time now)
{
    print_processes(status, now);
    putchar('\n');
    print_queues(status);
    putchar('\n');
    print_numbers(status);
}

/* --- for programs ----------------------------------------------------------------------------------------------- */

static void process_json(const struct fleet_process *process, struct json_writer *json)
{
    json_open(json, NULL, '{');
    json_text(json, "identity", process->identity);
    json_text(json, "state", fleet_state_name(process->state));
    if (process->is_leased)
        json_seconds(json, "lease_end", process->lease_end.us);
    else
        json_nothing(json, "lease_end");
    json_text(json, "host", process->info.host);
    json_number(json, "pid", process->info.pid);
    json_text(json, "version", process->info.version);
    json_number(json, "busy", process->busy);
    json_number(json, "concurrency", process->concurrency);
    json_truth(json, "quiet", process->is_quiet);
    json_number(json, "rss_kb", process->rss_kb);
    if (process->beat.us != 0)
        json_seconds(json, "beat", process->beat.us);
    else
        json_nothing(json, "beat");
    json_open(json, "queues", '[');
    for (size_t i = 0; i < process->info.queue_count; i++)
        json_text(json, NULL, process->info.queues[i]);
    json_close(json, ']');
    json_close(json, '}');
}

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

static void print_json(const struct status *status, struct wall_time now, struct buffer *reasons)
{
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_open(&json, NULL, '{');
    json_seconds(&json, "time", now.us);
    json_truth(&json, "healthy", reasons->length == 0);
    json_text(&json, "reason", reasons->length > 0 ? buffer_text(reasons) : NULL);
    json_open(&json, "processes", '[');
    for (size_t i = 0; i < status->fleet.count; i++)
        process_json(&status->fleet.items[i], &json);
    json_close(&json, ']');
    backlog_json(&status->backlog, &json);
    numbers_json(status, &json);
    json_close(&json, '}');
    json_print(&out);
}

static void print_check(const struct status *status, struct buffer *reasons)
{
    long long waiting = 0, serving = status_serving(status);
    for (size_t i = 0; i < status->backlog.count; i++)
        waiting += status->backlog.items[i].length > 0 ? status->backlog.items[i].length : 0;
    if (reasons->length == 0) {
        printf("healthy: %lld process%s, %lld task%s waiting\n", serving, serving == 1 ? "" : "es", waiting,
               human_plural(waiting));
        return;
    }
    char *text = (char *)(uintptr_t)buffer_text(reasons);
    printf("not healthy: %s\n", log_defuse(text));
}

/* --- the command ------------------------------------------------------------------------------------------------ */

static int status_once(struct status_command *command, struct console *console)
{
    struct status status;
    struct buffer reasons = {0};
    int code = status_read(&status, console);
    if (code == EXIT_CODE_OK && (command->as_check || command->as_json))
        code = status_ask_locks(&status, console);
    if (code == EXIT_CODE_OK) {
        status_judge(&status, &command->bounds, console->now, &reasons);
        if (command->as_json)
            print_json(&status, console->now, &reasons);
        else if (command->as_check)
            print_check(&status, &reasons);
        else
            print_for_people(&status, console->now);
        if (command->as_check && reasons.length > 0)
            code = EXIT_CODE_FAILURE;
    }
    buffer_fini(&reasons);
    status_free(&status);
    return code;
}

static int status_watch(struct status_command *command, struct console *console)
{
    bool is_terminal = isatty(STDOUT_FILENO) && !command->as_json;
    int code = EXIT_CODE_OK;
    inquiry_hold_signals(console->inquiry, true);
    while (code == EXIT_CODE_OK && ferror(stdout) == 0) {
        if (is_terminal)
            printf("\x1b[H\x1b[2J");
        code = status_once(command, console);
        fflush(stdout);
        if (code == EXIT_CODE_OK && (!inquiry_pause(console->inquiry, command->watch_ns) || !console_time(console)))
            break;
    }
    inquiry_hold_signals(console->inquiry, false);
    return code;
}

static int bound_take(struct status_command *command, int option, const char *value)
{
    struct error error = ERROR_NONE;
    int64_t count = 0;
    command->has_bound = command->has_bound || option != OPTION_WATCH;
    if (option == OPTION_MAX_LATENCY && !duration_parse(value, &command->bounds.max_latency_ns, &error))
        return command_misused(&command_status, "--max-latency: %s", error.text);
    if (option == OPTION_WATCH && !duration_parse(value, &command->watch_ns, &error))
        return command_misused(&command_status, "--watch: %s", error.text);
    if (option == OPTION_WATCH && command->watch_ns < WATCH_LEAST_NS)
        return command_misused(&command_status, "--watch: at least 200ms");
    if (option == OPTION_MAX_DEAD && !count_parse(value, 0, INT64_MAX, &count))
        return command_misused(&command_status, "--max-dead wants a number, not '%s'", value);
    if (option == OPTION_MIN_PROCESSES && !count_parse(value, 0, INT64_MAX, &count))
        return command_misused(&command_status, "--min-processes wants a number, not '%s'", value);
    if (option == OPTION_MAX_DEAD)
        command->bounds.max_dead = count;
    if (option == OPTION_MIN_PROCESSES)
        command->bounds.min_processes = count;
    return EXIT_CODE_OK;
}

static int run(int argc, char **argv)
{
    struct status_command command = {
        .bounds = {.max_latency_ns = -1, .max_dead = -1, .min_processes = 1},
    };
    struct command_line line = command_line_begin(&command_status, argc, argv);
    for (int option; (option = command_line_next(&line)) >= 0;) {
        if (option == OPTION_CONFIG)
            command.path = line.value;
        command.as_json |= option == OPTION_JSON;
        command.as_check |= option == OPTION_CHECK;
        int code = option >= OPTION_MAX_LATENCY ? bound_take(&command, option, line.value) : EXIT_CODE_OK;
        if (code != EXIT_CODE_OK)
            return code;
    }
    if (line.is_over)
        return line.exit_code;
    if (command.has_bound && !command.as_check)
        return command_misused(&command_status, "bounds are for --check");
    if (command.as_check && command.watch_ns > 0)
        return command_misused(&command_status, "--check looks once, --watch does not end");
    struct console console;
    int code = console_begin(&console, &command_status, command.path, false);
    if (code == EXIT_CODE_OK)
        code = command.watch_ns > 0 ? status_watch(&command, &console) : status_once(&command, &console);
    console_end(&console);
    return code;
}

const struct command command_status = {
    .name = "status",
    .summary = "show the fleet, the queues and the rates",
    .synopsis = "-c FILE [--json] [--check [bounds]] [--watch DURATION]",
    .about =
        "Shows every process that the queue node knows of, the queues with their lengths and how long the oldest task\n"
        "has waited (latency), the sizes of schedule, retry and dead, and what was processed. Reads a bounded amount\n"
        "a process and queue, whatever the sizes are.\n"
        "\n"
        "A process is alive while its lease runs, lost when it has ended and nobody has recovered its tasks yet, and\n"
        "recovered afterwards; foreign ones are workers of other programs, and unleased ones have stopped.\n"
        "\n"
        "With --check one line says whether all is healthy, for probes: exit code 0, or 1 with the reasons. Always\n"
        "checked is that a process takes tasks; that dead processes are recovered within a minute; that a majority of\n"
        "the lock nodes grants locks, when there are any; that the queue node is within its maxmemory; and that "
        "queues,\n"
        "paused, schedule, retry, dead, every queue and the claims of every process hold what they should. With\n"
        "--max-latency, entries of schedule and retry that are due count as tasks in queues do; paused queues may\n"
        "wait.\n"
        "\n"
        "JSON: time, healthy, reason, processes, queues, schedule, retry, dead, processed, failed, processed_today,\n"
        "failed_today, rate, node. Times are seconds since 1970, spans are seconds; null is not known.\n",
    .examples = "  holdfast status -c holdfast.conf --watch 2s\n"
                "  holdfast status -c holdfast.conf --check --max-latency 30s --max-dead 100\n"
                "  holdfast status -c holdfast.conf --json | jq '.queues[] | select(.length > 1000)'\n",
    .options = options,
    .run = run,
};
