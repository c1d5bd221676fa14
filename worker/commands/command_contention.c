/* holdfast contention: what became of locks, by class and kind of resource, and who waits now. */
#include "worker/commands/command.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"
#include "worker/commands/lock_counts.h"
#include "worker/print/table.h"
#include "worker/commands/waiting_lists.h"

/* As long as the node keeps a day. */
enum { DAYS_MAX = 14, LISTS_SHOWN = 20 };

#define DAY_US (86400 * US_PER_S)

struct contention_command {
    struct console console;
    const char *class_name, *prefix;
    int64_t days;
    struct lock_counts counts;
    struct waiting_lists lists;
};

#define AT(member) offsetof(struct contention_command, member)
static const struct option_row options[] = {
    {OPTION_TEXT, 0, "class", "CLASS", "only this class", .offset = AT(class_name)},
    {OPTION_TEXT, 0, "prefix", "TEXT",
     "only resources that begin so, as far as their kind tells: acct:", .offset = AT(prefix)},
    {OPTION_COUNT, 0, "days", "N", "count the last N days (UTC), today included: 1 to 14 (1)", .offset = AT(days),
     .least = 1, .most = DAYS_MAX},
    {OPTION_TABLE, .table = console_options, .offset = AT(console)},
    {.type = OPTION_END},
};
#undef AT

/* --- reading ---------------------------------------------------------------------------------------------------- */

static bool is_wanted(const struct contention_command *command, const struct lock_counts_row *row)
{
    return (command->class_name == NULL || strcmp(row->class_name, command->class_name) == 0) &&
           (command->prefix == NULL || strncmp(row->prefix, command->prefix, strlen(command->prefix)) == 0);
}

static void day_take(struct contention_command *command, struct console *console, size_t day)
{
    const struct redis_reply *reply = inquiry_reply(console->inquiry, day);
    if (reply->kind == REDIS_FAILURE)
        console_complain(console, "the counts of %s cannot be read: %s", day == 0 ? "today" : "an earlier day",
                         reply->bytes);
    for (size_t i = 0; reply->kind == REDIS_ARRAY && i + 1 < reply->count; i += 2)
        lock_counts_add(&command->counts, reply->elements[i].bytes, reply->elements[i].length,
                        strtoll(reply->elements[i + 1].bytes, NULL, 10));
}

static int counts_read(struct contention_command *command, struct console *console)
{
    inquiry_begin(console->inquiry);
    for (int64_t day = 0; day < command->days; day++) {
        struct buffer *request = inquiry_compose(console->inquiry);
        redis_request_begin(request, 2);
        redis_request_text(request, "HGETALL");
        queue_keys_request_our_day(&console->keys, "locks", (struct wall_time){console->now.us - day * DAY_US},
                                   request);
    }
    int code = console_run(console);
    for (size_t day = 0; code == EXIT_CODE_OK && day < (size_t)command->days; day++)
        day_take(command, console, day);
    lock_counts_fold(&command->counts);
    size_t kept = 0;
    for (size_t i = 0; i < command->counts.row_count; i++)
        if (is_wanted(command, &command->counts.rows[i]))
            command->counts.rows[kept++] = command->counts.rows[i];
    command->counts.row_count = kept;
    return code;
}

/* --- for people ------------------------------------------------------------------------------------------------- */

/* "<30 ms"; ">=335 s" of the last bucket, "-" when there is nothing. Exact, as it is a bound. */
static const char *quantile_text(const struct lock_histogram *histogram, double share, char out[HUMAN_TEXT_MAX])
{
    int bucket = lock_histogram_quantile(histogram, share);
    if (bucket < 0)
        return "-";
    bool is_last = bucket == METRICS_BUCKETS - 1;
    int64_t bound_ms = metrics_bucket_bound((unsigned)(is_last ? bucket - 1 : bucket));
    const char *sign = is_last ? ">=" : "<";
    if (bound_ms < 1000)
        snprintf(out, HUMAN_TEXT_MAX, "%s%lld ms", sign, (long long)bound_ms);
    else
        snprintf(out, HUMAN_TEXT_MAX, "%s%g s", sign, (double)bound_ms / 1000);
    return out;
}

static void event_cell(struct table *table, const struct lock_counts_row *row, enum lock_event event)
{
    char human[HUMAN_TEXT_MAX];
    bool is_bad = event == LOCK_EVENT_LOST || event == LOCK_EVENT_FENCED_OFF;
    enum table_style style = row->events[event] == 0 ? TABLE_DIM : is_bad ? TABLE_BAD : TABLE_PLAIN;
    table_cell(table, style, "%s", human_count(row->events[event], human));
}

static void print_counts(const struct contention_command *command)
{
    if (command->counts.row_count == 0) {
        printf("no lock was counted %s\n",
               command->days == 1 ? "today (UTC): --days looks further back" : "in these days");
        return;
    }
    struct table *table = table_create("CLASS|RESOURCES|>ACQUIRED|>WAITED|>PARKED|>HANDED|>SKIPPED|"
                                       ">LOST|>FENCED|>WAIT P50|>WAIT P99|>HOLD P50|>HOLD P99");
    for (size_t i = 0; i < command->counts.row_count; i++) {
        const struct lock_counts_row *row = &command->counts.rows[i];
        char quoted[LOG_QUOTE_MAX], text[HUMAN_TEXT_MAX];
        table_cell(table, TABLE_PLAIN, "%s", log_quote(row->class_name, quoted));
        table_cell(table, TABLE_PLAIN, "%s", row->prefix[0] != '\0' ? log_quote(row->prefix, quoted) : "-");
        for (int event = 0; event < LOCK_EVENTS; event++)
            event_cell(table, row, (enum lock_event)event);
        table_cell(table, TABLE_PLAIN, "%s", quantile_text(&row->wait, 0.5, text));
        table_cell(table, TABLE_PLAIN, "%s", quantile_text(&row->wait, 0.99, text));
        table_cell(table, TABLE_PLAIN, "%s", quantile_text(&row->hold, 0.5, text));
        table_cell(table, TABLE_PLAIN, "%s", quantile_text(&row->hold, 0.99, text));
    }
    table_print(table, stdout);
    puts("P50 and P99 are bounds of the bucket in which they lie.");
}

static void print_lists(const struct waiting_lists *lists)
{
    if (lists->count == 0) {
        puts(lists->is_clash ? "who waits is not known: the key hf:2:contended holds no sorted set" : "no task waits");
        return;
    }
    struct table *table = table_create("WAITING FOR|NAME|>TASKS");
    for (size_t i = 0; i < lists->count && i < LISTS_SHOWN; i++) {
        const struct waiting_list *list = &lists->items[i];
        char quoted[LOG_QUOTE_MAX], human[HUMAN_TEXT_MAX];
        table_cell(table, TABLE_PLAIN, "%s", list->kind[0] != '\0' ? list->kind : "?");
        table_cell(table, TABLE_PLAIN, "%s", log_quote(list->name, quoted));
        table_cell(table, TABLE_PLAIN, "%s", human_count(list->waiters, human));
    }
    table_print(table, stdout);
    if (lists->count > LISTS_SHOWN)
        printf("and %zu shorter ones: --json has them all\n", lists->count - LISTS_SHOWN);
    if (lists->is_cut)
        printf("There are more than %d lists; only the %d that are looked at next were asked for.\n", WAITING_LISTS_MAX,
               WAITING_LISTS_MAX);
}

/* --- for programs ----------------------------------------------------------------------------------------------- */

static void quantile_json(struct json_writer *json, const char *name, const struct lock_histogram *histogram,
                          double share)
{
    int bucket = lock_histogram_quantile(histogram, share);
    if (bucket < 0 || bucket == METRICS_BUCKETS - 1)
        json_nothing(json, name);
    else
        json_seconds(json, name, metrics_bucket_bound((unsigned)bucket) * (NS_PER_MS / NS_PER_US));
}

static void histogram_json(struct json_writer *json, const char *name, const struct lock_histogram *histogram)
{
    json_open(json, name, '{');
    json_number(json, "count", lock_histogram_total(histogram));
    quantile_json(json, "p50_below", histogram, 0.5);
    quantile_json(json, "p99_below", histogram, 0.99);
    json_open(json, "buckets", '[');
    for (int i = 0; i < METRICS_BUCKETS; i++)
        json_number(json, NULL, histogram->buckets[i]);
    json_close(json, ']');
    json_close(json, '}');
}

static void row_json(struct json_writer *json, const struct lock_counts_row *row)
{
    json_open(json, NULL, '{');
    json_text(json, "class", row->class_name);
    json_text(json, "prefix", row->prefix);
    for (int event = 0; event < LOCK_EVENTS; event++)
        json_number(json, lock_event_name((enum lock_event)event), row->events[event]);
    histogram_json(json, "wait", &row->wait);
    histogram_json(json, "hold", &row->hold);
    json_close(json, '}');
}

static void print_json(const struct contention_command *command, struct wall_time now)
{
    struct json_writer json = json_begin(&(struct buffer){0});
    json_seconds(&json, "time", now.us);
    json_number(&json, "days", command->days);
    json_open(&json, "locks", '[');
    for (size_t i = 0; i < command->counts.row_count; i++)
        row_json(&json, &command->counts.rows[i]);
    json_close(&json, ']');
    json_open(&json, "waiting", '[');
    for (size_t i = 0; i < command->lists.count; i++) {
        json_open(&json, NULL, '{');
        json_text(&json, "for", command->lists.items[i].kind[0] != '\0' ? command->lists.items[i].kind : NULL);
        json_text(&json, "name", command->lists.items[i].name);
        json_number(&json, "tasks", command->lists.items[i].waiters);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_truth(&json, "waiting_cut", command->lists.is_cut);
    json_finish(&json);
}

/* --- the command ------------------------------------------------------------------------------------------------ */

static int show(struct contention_command *command, struct console *console)
{
    int code = counts_read(command, console);
    if (code == EXIT_CODE_OK)
        code = waiting_lists_read(&command->lists, console);
    if (code != EXIT_CODE_OK)
        return code;
    if (console->as_json) {
        print_json(command, console->now);
        return code;
    }
    print_counts(command);
    putchar('\n');
    print_lists(&command->lists);
    return code;
}

static int run(int argc, char **argv)
{
    struct contention_command command = {.days = 1};
    struct command_line line;
    if (!command_line_read(&line, &command_contention, argc, argv, &command))
        return line.exit_code;
    int code = console_open(&command.console, &command_contention, ORIGIN_NEEDS_QUEUE, false);
    if (code == EXIT_CODE_OK)
        code = show(&command, &command.console);
    lock_counts_free(&command.counts);
    waiting_lists_free(&command.lists);
    return console_close(&command.console, code);
}

const struct command command_contention = {
    .name = "contention",
    .summary = "show what became of locks by class and resource, and who waits now",
    .about =
        "Shows for each class, and each kind of resource that its tasks lock, what workers of the whole fleet "
        "counted:\n"
        "\n"
        "  acquired    tasks that had their lock\n"
        "  waited      those of them that had been parked, or did not have it at the first pass over the lock nodes\n"
        "  parked      times that a task was put aside because it could not have its lock\n"
        "  handed      locks that came from the task before without being free in between\n"
        "  skipped     tasks that ended because their lock was held (on_conflict)\n"
        "  lost        locks that were lost while their task ran\n"
        "  fenced      runs whose write a fence refused (HF::FencedOff)\n"
        "\n"
        "The kind of a resource is its text up to and including the first ':', or all of it. The most contended come\n"
        "first. How long tasks waited and held is counted in 26 buckets, the first below 20 ms, the last from 335 s\n"
        "on; P50 and P99 are told as bounds of the bucket in which they lie. Workers write every 5 s. What comes\n"
        "beyond 127 kinds a process and day, or 20,000 numbers a day, is counted as class hf.others.\n"
        "\n"
        "Then, by resource, how many tasks wait now. `holdfast who RESOURCE` tells which.\n"
        "\n"
        "JSON: time, days, locks: a list of class, prefix, acquired, waited, parked, handed_over, skipped, lost,\n"
        "fenced_off, wait and hold (count, p50_below and p99_below in seconds, null when nothing was counted or from\n"
        "335 s on, buckets: 26 numbers); waiting: a list of for (\"resource\", or \"class\" when a share of the "
        "threads is\n"
        "used up), name, tasks; waiting_cut: there are more lists.\n",
    .examples = "  holdfast contention --days 7\n"
                "  holdfast contention --class transfer --prefix acct:\n"
                "  holdfast contention --json | jq '.waiting[:5]'\n",
    .options = options,
    .run = run,
};
