/* holdfast contention: what became of locks, by class and kind of resource, and who waits now. */
#include "worker/commands/command.h"

#include <stdlib.h>
#include <string.h>

#include "worker/commands/waiting_lists.h"
#include "worker/presence/lock_counts.h"
#include "worker/print/human.h"

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
    const struct redis_reply *reply = node_client_reply(console->client, day);
    if (reply->kind == REDIS_FAILURE)
        console_complain(console, "the counts of %s cannot be read: %s", day == 0 ? "today" : "an earlier day",
                         reply->bytes);
    lock_counts_read(&command->counts, reply);
}

static void counts_read(struct contention_command *command, struct console *console)
{
    node_client_begin(console->client);
    for (int64_t day = 0; day < command->days; day++) {
        struct buffer *request = node_client_compose(console->client);
        redis_request_begin(request, 2);
        redis_request_text(request, "HGETALL");
        queue_keys_request_locks(&console->keys, (struct wall_time){console->now.us - day * DAY_US}, request);
    }
    console_run(console);
    for (size_t day = 0; day < (size_t)command->days; day++)
        day_take(command, console, day);
    lock_counts_fold(&command->counts);
    size_t kept = 0;
    for (size_t i = 0; i < command->counts.row_count; i++)
        if (is_wanted(command, &command->counts.rows[i]))
            command->counts.rows[kept++] = command->counts.rows[i];
    command->counts.row_count = kept;
}

/* --- printing --------------------------------------------------------------------------------------------------- */

/* "<20.5 ms"; "-" when there is nothing. */
static const char *quantile_text(const struct lock_histogram *histogram, double share, char out[HUMAN_TEXT_MAX])
{
    int step = lock_histogram_quantile(histogram, share);
    if (step < 0)
        return "-";
    char bound[HUMAN_TEXT_MAX];
    human_time((double)histogram_coarse_end((size_t)step) / (double)US_PER_S, bound);
    snprintf(out, HUMAN_TEXT_MAX, "<%.40s", bound);
    return out;
}

static void event_put(struct printer *out, const struct lock_counts_row *row, enum tally_count event)
{
    static const char *const titles[TALLY_LOCK_COUNTS] = {
        [TALLY_ACQUIRED] = ">ACQUIRED",  [TALLY_WAITED] = ">WAITED",   [TALLY_PARKED] = ">PARKED",
        [TALLY_HANDED_OVER] = ">HANDED", [TALLY_SKIPPED] = ">SKIPPED", [TALLY_LOST] = ">LOST",
        [TALLY_FENCED_OFF] = ">FENCED"};
    bool is_bad = event == TALLY_LOST || event == TALLY_FENCED_OFF;
    printer_count(out, titles[event], tally_count_name(event), row->events[event]);
    printer_style(out, row->events[event] == 0 ? TABLE_DIM : is_bad ? TABLE_BAD : TABLE_PLAIN);
}

static void quantile_json(struct json_writer *json, const char *name, const struct lock_histogram *histogram,
                          double share)
{
    int step = lock_histogram_quantile(histogram, share);
    json_seconds_if(json, name, step >= 0, step >= 0 ? histogram_coarse_end((size_t)step) : 0);
}

static void histogram_json(struct json_writer *json, const char *name, const struct lock_histogram *histogram)
{
    json_open(json, name, '{');
    json_number(json, "count", (int64_t)lock_histogram_total(histogram));
    quantile_json(json, "p50_below", histogram, 0.5);
    quantile_json(json, "p99_below", histogram, 0.99);
    json_open(json, "steps", '[');
    for (int i = 0; i < HISTOGRAM_COARSE_STEPS; i++)
        json_number(json, NULL, (int64_t)histogram->steps[i]);
    json_close(json, ']');
    json_close(json, '}');
}

static void counts_put(const struct contention_command *command, struct printer *out)
{
    printer_list(out, "locks");
    for (size_t i = 0; i < command->counts.row_count; i++) {
        const struct lock_counts_row *row = &command->counts.rows[i];
        char text[HUMAN_TEXT_MAX];
        printer_row(out);
        printer_name(out, "CLASS", "class", row->class_name);
        printer_text(out, NULL, "prefix", row->prefix);
        printer_name(out, "RESOURCES", NULL, printer_known(row->prefix));
        for (int event = 0; event < TALLY_LOCK_COUNTS; event++)
            event_put(out, row, (enum tally_count)event);
        printer_cell(out, ">WAIT P50", TABLE_PLAIN, "%s", quantile_text(&row->wait, 0.5, text));
        printer_cell(out, ">WAIT P99", TABLE_PLAIN, "%s", quantile_text(&row->wait, 0.99, text));
        printer_cell(out, ">HOLD P50", TABLE_PLAIN, "%s", quantile_text(&row->hold, 0.5, text));
        printer_cell(out, ">HOLD P99", TABLE_PLAIN, "%s", quantile_text(&row->hold, 0.99, text));
        if (out->is_json) {
            histogram_json(&out->json, "wait", &row->wait);
            histogram_json(&out->json, "hold", &row->hold);
        }
        printer_row_end(out);
    }
    printer_list_end(out, command->days == 1 ? "no lock was counted today (UTC): --days looks further back"
                                             : "no lock was counted in these days");
    if (command->counts.row_count > 0)
        printer_line(out, "P50 and P99 are upper bounds, a quarter too high at most.");
}

static void lists_put(const struct waiting_lists *lists, struct printer *out)
{
    printer_list(out, "waiting");
    waiting_lists_put(lists, out->is_json ? SIZE_MAX : LISTS_SHOWN, out);
    printer_list_end(out, lists->is_clash ? "who waits is not known: the key hf:2:contended holds no sorted set"
                                          : "no task waits");
    printer_truth(out, "waiting_cut", lists->is_cut);
    if (lists->count > LISTS_SHOWN)
        printer_line(out, "and %zu shorter ones: --json has them all", lists->count - LISTS_SHOWN);
    if (lists->count > 0 && lists->is_cut)
        printer_line(out, "There are more than %d lists; only the %d that are looked at next were asked for.",
                     WAITING_LISTS_MAX, WAITING_LISTS_MAX);
}

/* --- the command ------------------------------------------------------------------------------------------------ */

static int show(struct contention_command *command, struct console *console)
{
    counts_read(command, console);
    if (waiting_lists_read(&command->lists, console) != EXIT_CODE_OK)
        return console->code;
    struct printer out = printer_begin(console->as_json, console->now, &(struct buffer){0});
    printer_moment(&out, NULL, "time", console->now);
    printer_number(&out, NULL, "days", command->days);
    counts_put(command, &out);
    printer_line(&out, "%s", "");
    lists_put(&command->lists, &out);
    printer_end(&out);
    return EXIT_CODE_OK;
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
        "first. P50 and P99 of how long tasks waited and held are upper bounds, a quarter too high at most. Workers\n"
        "write every 5 s. What comes beyond 127 kinds a process and day, or 20,000 numbers a day, is counted as\n"
        "class hf.others.\n"
        "\n"
        "Then, by resource, how many tasks wait now. `holdfast who RESOURCE` tells which.\n"
        "\n"
        "JSON: time, days, locks: a list of class, prefix, acquired, waited, parked, handed_over, skipped, lost,\n"
        "fenced_off, wait and hold (count, p50_below and p99_below in seconds, null when nothing was counted, steps:\n"
        "128 numbers, whose bounds docs/data-model.md has); waiting: a list of for (\"resource\", or \"class\" when a\n"
        "share of the threads is used up), name, tasks; waiting_cut: there are more lists.\n",
    .examples = "  holdfast contention --days 7\n"
                "  holdfast contention --class transfer --prefix acct:\n"
                "  holdfast contention --json | jq '.waiting[:5]'\n",
    .options = options,
    .run = run,
};
