/* holdfast doctor: what is wrong with the queue node, the fleet and what waits, why it matters, and what to do. */
#include "worker/commands/command.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/commands/doctor.h"
#include "worker/commands/health.h"
#include "worker/print/human.h"
#include "worker/print/printer.h"

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

/* What `status` shows, too. */
static const struct doctor_kind no_workers = {"no-workers", DOCTOR_WARNING,
                                              "Nothing is run, and tasks that become due wait in their sets.",
                                              "Start a worker: `holdfast work -c FILE`."};
static const struct doctor_kind orphaned_claims = {
    "orphaned-claims", DOCTOR_ERROR, "What this process had claimed runs nowhere and waits in no queue.",
    "Start a worker, which recovers it; or `holdfast tasks retry --all --state claims`."};
static const struct doctor_kind answers_unreceived = {
    "answers-unreceived", DOCTOR_ERROR, "These tasks are claimed again and again and never run.",
    "Raise client-output-buffer-limit for normal clients on the queue node, or push smaller tasks."};
static const struct doctor_kind lock_majority_away = {"lock-majority-unreachable", DOCTOR_ERROR,
                                                      "No lock can be taken: every task that needs one waits.",
                                                      "Bring the lock nodes back, or mend what they say."};
static const struct doctor_kind terms_break = {
    "terms-break", DOCTOR_ERROR,
    "Locks keep tasks apart only among processes that agree on what is locked, and where. One of the two waits.",
    "Give both the same configuration; when the new one is meant, stop all that have the old one."};
static const struct doctor_kind terms_differ = {"terms-differ", DOCTOR_WARNING,
                                                "It does no harm to exclusion, but is probably not what was meant.",
                                                "Give all workers the same."};
static const struct doctor_kind queue_clash = {"queue-key-clash", DOCTOR_ERROR,
                                               "No task can be pushed to this queue or taken from it.",
                                               "Find out who writes this key, rename or delete it."};
static const struct doctor_kind class_unserved = {
    "class-unserved", DOCTOR_WARNING,
    "These tasks come back again and again; after worker.unknown_class_grace each time is a failure, and in the end "
    "they are dead.",
    "Start a worker whose plugins serve the class, or mend the name where they are pushed."};
static const struct doctor_kind dead_full = {
    "dead-full", DOCTOR_WARNING, "It keeps no more: what dies now makes the oldest entries vanish, without a word.",
    "Look at them, `holdfast tasks list dead`; retry or delete what is done with."};
static const struct doctor_kind queue_grows = {"queue-grows", DOCTOR_WARNING,
                                               "Each task waits longer than the one before it.",
                                               "Start more workers or threads; `holdfast top` says what they do, "
                                               "`holdfast contention` whether they wait for locks."};

/* The other kinds are found here with more that is known of them. */
static const struct doctor_kind queue_unserved = {
    "queue-unserved", DOCTOR_WARNING, "These tasks wait for ever.",
    "Let a worker serve the queue (worker.queues), or mend the name where they are pushed."};
static const struct doctor_kind *const of_health[HEALTH_KINDS] = {
    [HEALTH_WORKERS] = &no_workers,         [HEALTH_LOCKS] = &lock_majority_away,
    [HEALTH_TERMS] = &terms_break,          [HEALTH_CLAIMS] = &orphaned_claims,
    [HEALTH_ANSWERS] = &answers_unreceived, [HEALTH_QUEUE_KEY] = &queue_clash,
    [HEALTH_CLASS] = &class_unserved,       [HEALTH_DEAD] = &dead_full,
    [HEALTH_GROWTH] = &queue_grows,         [HEALTH_QUEUE] = &queue_unserved};

static const char *severity_name(enum doctor_severity severity)
{
    static const char *const names[] = {[DOCTOR_ERROR] = "error", [DOCTOR_WARNING] = "warning", [DOCTOR_NOTE] = "note"};
    return names[severity];
}

static void health_examine(struct doctor *doctor)
{
    struct health health;
    health_judge(&health, &doctor->status, &health_bounds_usual, doctor->console->now);
    for (size_t i = 0; i < health.count; i++)
        if (of_health[health.items[i].kind] != NULL)
            doctor_find(doctor, of_health[health.items[i].kind], "%s", health.items[i].text);
    if (health.warning != NULL)
        doctor_find(doctor, &terms_differ, "%s", health.warning);
    health_free(&health);
}

static void finding_put(const struct doctor_finding *finding, struct printer *out)
{
    static const enum table_style styles[] = {
        [DOCTOR_ERROR] = TABLE_BAD, [DOCTOR_WARNING] = TABLE_WARN, [DOCTOR_NOTE] = TABLE_DIM};
    const struct doctor_kind *kind = finding->kind;
    const char *severity = severity_name(kind->severity);
    printer_line(out, "%s%s%s: %s (%s)", table_style_text(stdout, styles[kind->severity]), severity,
                 table_style_text(stdout, TABLE_PLAIN), finding->what, kind->id);
    printer_line(out, "    why  %s\n    do   %s", kind->why, kind->remedy);
    printer_row(out);
    printer_text(out, NULL, "severity", severity);
    printer_text(out, NULL, "id", kind->id);
    printer_text(out, NULL, "what", finding->what);
    printer_text(out, NULL, "why", kind->why);
    printer_text(out, NULL, "do", kind->remedy);
    printer_row_end(out);
}

static void doctor_print(const struct doctor *doctor)
{
    const int64_t errors = (int64_t)doctor->counts[DOCTOR_ERROR], warnings = (int64_t)doctor->counts[DOCTOR_WARNING],
                  notes = (int64_t)doctor->counts[DOCTOR_NOTE];
    struct printer out = printer_begin(doctor->console->as_json, doctor->console->now, &(struct buffer){0});
    printer_truth(&out, "healthy", errors == 0);
    printer_number(&out, NULL, "errors", errors);
    printer_number(&out, NULL, "warnings", warnings);
    printer_number(&out, NULL, "notes", notes);
    printer_list(&out, "findings");
    for (int severity = 0; severity < DOCTOR_SEVERITIES; severity++)
        for (size_t i = 0; i < doctor->count; i++)
            if (doctor->items[i].kind->severity == (enum doctor_severity)severity)
                finding_put(&doctor->items[i], &out);
    printer_list_end(&out, doctor->count == 0 ? "all is well" : NULL);
    if (doctor->count > 0)
        printer_line(&out, "%lld error%s, %lld warning%s, %lld note%s", (long long)errors, human_plural(errors),
                     (long long)warnings, human_plural(warnings), (long long)notes, human_plural(notes));
    printer_end(&out);
}

static int examine(struct console *console, int64_t key_limit)
{
    struct doctor doctor = {.console = console, .key_limit = (unsigned long long)key_limit};
    static void (*const parts[])(struct doctor *) = {doctor_examine_node, doctor_examine_fleet, doctor_examine_states,
                                                     doctor_examine_keys, doctor_examine_locks, doctor_examine_rights,
                                                     health_examine};
    status_read(&doctor.status, console);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && console->code == EXIT_CODE_OK; i++)
        parts[i](&doctor);
    if (console->code == EXIT_CODE_OK)
        doctor_print(&doctor);
    int code = console->code;
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
        "Looks at the settings of the queue node (persistence, eviction, memory, replicas, version), at processes\n"
        "that died and were not recovered, workers of other programs, clocks, queues that nobody serves or that are\n"
        "paused, entries that are no tasks, keys that belong to nobody, the rights of the nodes' users, the lock\n"
        "nodes, and the rates of their clocks and of this host's, which takes a second. Each finding says what it\n"
        "is, why it matters, and what to do.\n"
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
