#include "worker/commands/doctor.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/commands/health.h"

enum { WHAT_MAX = 700 };

/* What `status` tells too. */
static const struct doctor_kind no_workers = {"no-workers", DOCTOR_WARNING,
                                              "Nothing is run, and tasks that become due wait in their sets.",
                                              "Start a worker: `holdfast work -c FILE`."};
static const struct doctor_kind orphaned_claims = {
    "orphaned-claims", DOCTOR_ERROR, "What this process had claimed runs nowhere and waits in no queue.",
    "Start a worker, which recovers it; or `holdfast tasks retry --all --place claims`."};
static const struct doctor_kind lock_majority_away = {"lock-majority-unreachable", DOCTOR_ERROR,
                                                      "No lock can be taken: every task that needs one waits.",
                                                      "Bring the lock nodes back, or mend what they say."};
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
    [HEALTH_WORKERS] = &no_workers,    [HEALTH_LOCKS] = &lock_majority_away, [HEALTH_CLAIMS] = &orphaned_claims,
    [HEALTH_QUEUE_KEY] = &queue_clash, [HEALTH_CLASS] = &class_unserved,     [HEALTH_DEAD] = &dead_full,
    [HEALTH_GROWTH] = &queue_grows,    [HEALTH_QUEUE] = &queue_unserved};

const char *doctor_severity_name(enum doctor_severity severity)
{
    static const char *const names[] = {[DOCTOR_ERROR] = "error", [DOCTOR_WARNING] = "warning", [DOCTOR_NOTE] = "note"};
    return names[severity];
}

void doctor_find(struct doctor *doctor, const struct doctor_kind *kind, const char *what, ...)
{
    char text[WHAT_MAX];
    va_list values;
    va_start(values, what);
    vsnprintf(text, sizeof text, what, values);
    va_end(values);
    doctor->items = memory_resize(doctor->items, doctor->count + 1, sizeof *doctor->items);
    doctor->items[doctor->count++] = (struct doctor_finding){.kind = kind, .what = memory_text(log_defuse(text))};
    doctor->counts[kind->severity]++;
}

static int health_examine(struct doctor *doctor)
{
    struct health health;
    health_judge(&health, &doctor->status, &health_bounds_usual, doctor->console->now);
    for (size_t i = 0; i < health.count; i++)
        if (of_health[health.items[i].kind] != NULL)
            doctor_find(doctor, of_health[health.items[i].kind], "%s", health.items[i].text);
    health_free(&health);
    return EXIT_CODE_OK;
}

int doctor_examine(struct doctor *doctor)
{
    static int (*const parts[])(struct doctor *) = {doctor_examine_node, doctor_examine_fleet, doctor_examine_places,
                                                    doctor_examine_keys, doctor_examine_locks, health_examine};
    int code = status_read(&doctor->status, doctor->console);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && code == EXIT_CODE_OK; i++)
        code = parts[i](doctor);
    return code;
}

void doctor_end(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->count; i++)
        free(doctor->items[i].what);
    free(doctor->items);
    status_free(&doctor->status);
}
