/* holdfast report: who held what when, from the logs of workers: sums for people and for programs, and a page with a
 * timeline. Reads files only: no node is asked, so it also works for a fleet that is gone. */
#include "worker/commands/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/history/history_sums.h"
#include "worker/history/log_reader.h"
#include "worker/history/timeline_page.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"
#include "worker/print/table.h"

enum { LOGS_MAX = 1024, ROWS_MAX = 40 };

struct report_command {
    const char *page, *title;
    bool as_json;
};

#define AT(member) offsetof(struct report_command, member)
static const struct option_row options[] = {
    {OPTION_TEXT, 0, "html", "FILE", "write a page with a timeline to FILE", .offset = AT(page)},
    {OPTION_TEXT, 0, "title", "TEXT", "the title of the page", .offset = AT(title)},
    {OPTION_FLAG, 0, "json", NULL, "print one JSON object, on one line", .offset = AT(as_json)},
    {.type = OPTION_END},
};
#undef AT

/* --- for people --------------------------------------------------------------------------------------------- */

static void part_print(const struct history *history, size_t part, bool has_title)
{
    size_t count;
    char quoted[LOG_QUOTE_MAX];
    const struct history_part *parts = history_parts(history, &count);
    struct history_sums sums = history_sums_of(history, part);
    if (sums.count > 0) {
        struct buffer text = {0};
        if (has_title)
            printf("%s%s\n", part > 0 ? "\n" : "", log_quote(parts[part].title, quoted));
        history_sums_text(&sums, ROWS_MAX, table_has_colour(stdout), &text);
        fwrite(text.bytes, 1, text.length, stdout);
        buffer_fini(&text);
    }
    history_sums_fini(&sums);
}

/* --- for programs ------------------------------------------------------------------------------------------- */

static void part_json(struct json_writer *json, const struct history *history, size_t part)
{
    size_t count;
    const struct history_part *parts = history_parts(history, &count);
    struct history_sums sums = history_sums_of(history, part);
    json_open(json, NULL, '{');
    json_text(json, "title", parts[part].title);
    history_sums_json(json, &sums, SIZE_MAX);
    json_close(json, '}');
    history_sums_fini(&sums);
}

static void gaps_json(struct json_writer *json, const struct history *history)
{
    size_t count;
    const struct history_gap *gaps = history_gaps(history, &count);
    char at[LOG_TIME_SIZE];
    json_open(json, "summed", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(json, NULL, '{');
        json_text(json, "from", log_time(gaps[i].from, at));
        json_text(json, "to", log_time(gaps[i].to, at));
        json_number(json, "tasks", (int64_t)gaps[i].tasks);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void print_json(const struct history *history, const struct log_counts *counts)
{
    struct json_writer json = json_begin(&(struct buffer){0});
    size_t parts;
    (void)history_parts(history, &parts);
    json_open(&json, "parts", '[');
    for (size_t i = 0; i < parts; i++)
        part_json(&json, history, i);
    json_close(&json, ']');
    json_open(&json, "lines", '{');
    json_number(&json, "read", (int64_t)counts->lines);
    json_number(&json, "used", (int64_t)counts->used);
    json_number(&json, "passed_over", (int64_t)counts->passed_over);
    json_number(&json, "broken", (int64_t)counts->broken);
    json_number(&json, "cut", (int64_t)counts->cut);
    json_number(&json, "dropped", (int64_t)counts->dropped);
    json_close(&json, '}');
    gaps_json(&json, history);
    json_number(&json, "left_out", (int64_t)history_left_out(history));
    json_finish(&json);
}

/* --- files -------------------------------------------------------------------------------------------------- */

static bool log_read(struct log_reader *reader, const char *path)
{
    struct error error = ERROR_NONE;
    bool is_input = strcmp(path, "-") == 0;
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    FILE *file = is_input ? stdin : fopen(path, "rbe");
    if (file == NULL) {
        command_complain(&command_report, "%s cannot be opened: %s", path, strerror(errno));
        return false;
    }
    bool is_read = log_reader_file(reader, name, file, &error);
    if (!is_read)
        command_complain(&command_report, "%s", error.text);
    if (!is_input)
        fclose(file);
    return is_read;
}

/* Beside its place and renamed, so that nobody sees half a page. */
static bool page_save(const struct buffer *page, const char *path)
{
    struct buffer beside = {0};
    buffer_format(&beside, "%s.new", path);
    FILE *file = fopen(buffer_text(&beside), "wbe");
    bool is_saved = file != NULL && fwrite(page->bytes, 1, page->length, file) == page->length;
    if (file != NULL)
        is_saved = fclose(file) == 0 && is_saved;
    is_saved = is_saved && rename(buffer_text(&beside), path) == 0;
    if (!is_saved) {
        command_complain(&command_report, "the page %s cannot be written: %s", path, strerror(errno));
        if (file != NULL)
            remove(buffer_text(&beside));
    }
    buffer_fini(&beside);
    return is_saved;
}

static bool page_write(const struct history *history, const char *title, const char *path,
                       const struct log_counts *counts)
{
    struct buffer page = {0}, about = {0};
    char lines[HUMAN_TEXT_MAX], broken[HUMAN_TEXT_MAX];
    buffer_format(&about, "From %s lines of logs%s%s%s.", human_count((int64_t)counts->lines, lines),
                  counts->broken > 0 ? ", of which could not be read: " : "",
                  counts->broken > 0 ? human_count((int64_t)counts->broken, broken) : "",
                  history_left_out(history) > 0 ? "; there was more than a report can hold" : "");
    timeline_page_write(history, title, buffer_text(&about), &page);
    bool is_saved = page_save(&page, path);
    buffer_fini(&page);
    buffer_fini(&about);
    return is_saved;
}

/* --- the command -------------------------------------------------------------------------------------------- */

static void gaps_print(const struct history *history)
{
    size_t count;
    const struct history_gap *gaps = history_gaps(history, &count);
    char from[LOG_TIME_SIZE], to[LOG_TIME_SIZE];
    for (size_t i = 0; i < count && i < ROWS_MAX; i++)
        command_complain(&command_report, "%llu more tasks went well from %s to %s and were only added up",
                         (unsigned long long)gaps[i].tasks, log_time(gaps[i].from, from), log_time(gaps[i].to, to));
    if (count > ROWS_MAX)
        command_complain(&command_report, "and so at %zu more times; --json has all", count - ROWS_MAX);
    if (count > 0)
        fprintf(stderr,
                "holdfast report: so there are more holds than these: worker.log_tasks = \"all\" tells of each\n");
}

static void complain(const struct history *history, const struct log_counts *counts)
{
    size_t holds;
    (void)history_holds(history, &holds);
    if (counts->broken + counts->cut > 0)
        command_complain(&command_report, "%llu of %llu lines were no sound lines of a log, and %llu were cut",
                         (unsigned long long)counts->broken, (unsigned long long)counts->lines,
                         (unsigned long long)counts->cut);
    if (counts->dropped > 0)
        command_complain(&command_report, "the workers could not write %llu lines, so some of it is missing here",
                         (unsigned long long)counts->dropped);
    if (history_left_out(history) > 0)
        command_complain(&command_report, "%zu holds, tasks and marks are too many for one report and left out",
                         history_left_out(history));
    gaps_print(history);
    if (holds == 0)
        fprintf(stderr, "holdfast report: nobody held anything: workers tell of their tasks at the level info or debug "
                        "(worker.log_level), of those that went well unless worker.log_tasks = \"failures\"\n");
}

static int report(char **paths, int path_count, const char *page, const char *title, bool as_json)
{
    struct history *history = history_create();
    struct log_reader *reader = log_reader_create(history);
    bool is_good = true;
    for (int i = 0; i < path_count; i++)
        is_good &= log_read(reader, paths[i]);
    log_reader_finish(reader);
    history_order(history);
    struct log_counts counts = log_reader_counts(reader);
    size_t parts;
    (void)history_parts(history, &parts);
    if (as_json)
        print_json(history, &counts);
    else
        for (size_t i = 0; i < parts; i++)
            part_print(history, i, parts > 1);
    fflush(stdout);
    complain(history, &counts);
    if (page != NULL)
        is_good &= page_write(history, title, page, &counts);
    is_good &= counts.lines == 0 || counts.broken < counts.lines;
    log_reader_destroy(reader);
    history_destroy(history);
    return is_good ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

static int run(int argc, char **argv)
{
    struct report_command command = {.title = "Who held what when"};
    struct command_line line;
    if (!command_line_read(&line, &command_report, argc, argv, &command))
        return line.exit_code;
    if (line.argument_count == 0)
        return command_misused(&command_report, "name the logs to read");
    return report(line.arguments, line.argument_count, command.page, command.title, command.as_json);
}

const struct command command_report = {
    .name = "report",
    .summary = "who held what when, from the logs of workers, also as a page",
    .arguments = "LOGFILE...",
    .about =
        "Reads the logs of workers, one file each (- is standard input), and adds up by class and resource: how often\n"
        "and how long it was held, how long tasks waited for it (the median and the 99th of 100), locks that were\n"
        "handed over, tasks that were parked or skipped, locks that were lost, writes that a sink refused, and how\n"
        "often a task began while another one was still at the same resource. Without a lock that is damage; under a\n"
        "lock it happens to those that stand still for longer than their lock lives, and fences refuse their writes.\n"
        "\n"
        "Reads the line of each task's end, as text or as JSON. It is complete with worker.log_tasks = \"all\". With\n"
        "\"auto\" it says when tasks were only added up. Where no log tells of a parked task, their number is not "
        "known.\n"
        "A task whose process was killed is seen at the level debug only, which tells of starts. Other lines are\n"
        "passed over, and broken ones counted.\n"
        "The moments are those of the logs, so clocks of hosts should agree. Of a rotated log give the pieces as one,\n"
        "the oldest first.\n"
        "\n"
        "--html writes one page that needs nothing else: a timeline of who held what when, with losses, refusals and\n"
        "what was done to processes and nodes, as far as lines `demo_mark kind=KIND host=HOST node=NODE` in one of\n"
        "the logs say so (kinds: killed, frozen, resumed, wiped, and any other).\n"
        "\n"
        "JSON: parts, each with title, rows (class, resource, holds, without_lock, held, wait_p50, wait_p99 in\n"
        "seconds, handed_over, parked (null is not known), skipped, lost, refused, overlaps) and total; lines (read,\n"
        "used, passed_over, broken, cut, dropped); summed (from, to, tasks); left_out. Exits with 1 when a file\n"
        "cannot be read or written, or is no log at all.\n",
    .examples = "  holdfast report north.log south.log\n"
                "  holdfast report north.log south.log --html locks.html\n"
                "  zcat -f $(ls -tr north.log*) | holdfast report - --json\n",
    .options = options,
    .arguments_max = LOGS_MAX,
    .run = run,
};
