/* holdfast doctor: what is wrong with the queue node, the fleet and what waits, why it matters, and what to do. */
#include "worker/commands/commands.h"

#include <stdlib.h>
#include <string.h>

#include "worker/commands/doctor.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"
#include "worker/print/table.h"

#define KEY_LIMIT_DEFAULT 100000

struct doctor_command {
    struct console console;
    int64_t key_limit;
};

#define AT(member) offsetof(struct doctor_command, member)
static const struct option_row options[] = {
    {OPTION_COUNT, 0, "key-limit", "N", "look at so many keys of the node for orphans (100000)",
     .offset = AT(key_limit)},
    {OPTION_TABLE, .table = console_options, .offset = AT(console)},
    {.type = OPTION_END},
};
#undef AT

static void print_for_people(const struct doctor *doctor)
{
    static const enum table_style styles[] = {
        [DOCTOR_ERROR] = TABLE_BAD, [DOCTOR_WARNING] = TABLE_WARN, [DOCTOR_NOTE] = TABLE_DIM};
    for (int severity = 0; severity < DOCTOR_SEVERITIES; severity++)
        for (size_t i = 0; i < doctor->count; i++) {
            const struct doctor_finding *finding = &doctor->items[i];
            if (finding->kind->severity != (enum doctor_severity)severity)
                continue;
            printf("%s%s%s: %s (%s)\n", table_style_text(stdout, styles[severity]),
                   doctor_severity_name(finding->kind->severity), table_style_text(stdout, TABLE_PLAIN), finding->what,
                   finding->kind->id);
            printf("    why  %s\n    do   %s\n", finding->kind->why, finding->kind->remedy);
        }
    if (doctor->count == 0)
        printf("all is well\n");
    else
        printf("%zu error%s, %zu warning%s, %zu note%s\n", doctor->counts[DOCTOR_ERROR],
               human_plural((int64_t)doctor->counts[DOCTOR_ERROR]), doctor->counts[DOCTOR_WARNING],
               human_plural((int64_t)doctor->counts[DOCTOR_WARNING]), doctor->counts[DOCTOR_NOTE],
               human_plural((int64_t)doctor->counts[DOCTOR_NOTE]));
}

static void print_json(const struct doctor *doctor)
{
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_open(&json, NULL, '{');
    json_truth(&json, "healthy", doctor->counts[DOCTOR_ERROR] == 0);
    json_number(&json, "errors", (int64_t)doctor->counts[DOCTOR_ERROR]);
    json_number(&json, "warnings", (int64_t)doctor->counts[DOCTOR_WARNING]);
    json_number(&json, "notes", (int64_t)doctor->counts[DOCTOR_NOTE]);
    json_open(&json, "findings", '[');
    for (size_t i = 0; i < doctor->count; i++) {
        const struct doctor_finding *finding = &doctor->items[i];
        json_open(&json, NULL, '{');
        json_text(&json, "severity", doctor_severity_name(finding->kind->severity));
        json_text(&json, "id", finding->kind->id);
        json_text(&json, "what", finding->what);
        json_text(&json, "why", finding->kind->why);
        json_text(&json, "do", finding->kind->remedy);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    json_print(&out);
}

static int examine(struct console *console, int64_t key_limit)
{
    struct doctor doctor = {.console = console, .key_limit = (unsigned long long)key_limit};
    int code = doctor_examine(&doctor);
    if (code == EXIT_CODE_OK && console->as_json)
        print_json(&doctor);
    else if (code == EXIT_CODE_OK)
        print_for_people(&doctor);
    if (code == EXIT_CODE_OK && doctor.counts[DOCTOR_ERROR] > 0)
        code = EXIT_CODE_FAILURE;
    doctor_end(&doctor);
    return code;
}

static int run(int argc, char **argv)
{
    struct doctor_command command = {.key_limit = KEY_LIMIT_DEFAULT};
    struct command_line line;
    if (!command_line_read(&line, &command_doctor, argc, argv, &command))
        return line.exit_code;
    int code = console_open(&command.console, &command_doctor, ORIGIN_NEEDS_QUEUE, false);
    if (code == EXIT_CODE_OK)
        code = examine(&command.console, command.key_limit);
    return console_close(&command.console, code);
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "find what is wrong with the queue node, the fleet and what waits",
    .about =
        "Looks at the settings of the queue node (persistence, eviction, memory, replicas, version), at processes "
        "that\n"
        "died and were not recovered, workers of other programs, clocks, queues that nobody serves or that are\n"
        "paused, entries that are no tasks, keys that belong to nobody, the lock nodes, and the rates of their clocks\n"
        "and of this host's, which takes a second. Each finding says what it is, why it matters, and what to do.\n"
        "Nothing is changed, and every look is bounded: the first thousand entries of a set, the first --key-limit\n"
        "keys. What the node does not let us ask is a note.\n"
        "\n"
        "Exits with 1 when there is an error; warnings and notes do not count.\n"
        "\n"
        "JSON: healthy, errors, warnings, notes, findings (severity, id, what, why, do).\n",
    .examples = "  holdfast doctor\n"
                "  holdfast doctor --json | jq -r '.findings[] | select(.severity == \"error\") | .id'\n",
    .options = options,
    .run = run,
};
