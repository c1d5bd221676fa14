/* Faults and the points of a what-if, as the command line names them. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/quantity.h"
#include "worker/dry_run/options/plan_options.h"

enum { PARTS_MAX = 5, PART_BYTES = 40 };

#define FORMS                                                                                                          \
    "5s:stop:lock2:3s, 5s:kill:lock2:3s, 6s:wipe:lock1, 5s:slow:lock3:20ms:4s, 5s:clock:lock2:+5s, "                   \
    "5s:freeze:worker1:4s or 5s:kill:worker2"
#define AMOUNT_MAX_NS (24 * 3600 * NS_PER_S)

/* WHEN:WHAT:WHOM[:HOW[:HOW LONG]] */
struct parts {
    char text[PARTS_MAX][PART_BYTES];
    unsigned count;
};

static bool parts_split(const char *text, struct parts *parts)
{
    parts->count = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ":");
        if (parts->count == PARTS_MAX || length >= PART_BYTES)
            return false;
        memcpy(parts->text[parts->count], at, length);
        parts->text[parts->count++][length] = '\0';
        at += length;
        if (*at == '\0')
            return parts->count >= 3;
    }
}

/* What follows WHOM, by what is done. */
enum how { HOW_NOTHING, HOW_LONG, HOW_SLOW, HOW_CLOCK };

static const struct {
    enum dry_run_fault_kind kind;
    bool at_worker;
    enum how how;
    bool spares_queue; /* the tasks of the run are there */
} faults[] = {
    {DRY_RUN_FAULT_STOP, false, HOW_LONG, false},   {DRY_RUN_FAULT_KILL, false, HOW_LONG, true},
    {DRY_RUN_FAULT_WIPE, false, HOW_NOTHING, true}, {DRY_RUN_FAULT_SLOW, false, HOW_SLOW, false},
    {DRY_RUN_FAULT_CLOCK, false, HOW_CLOCK, false}, {DRY_RUN_FAULT_FREEZE, true, HOW_LONG, false},
    {DRY_RUN_FAULT_KILL, true, HOW_NOTHING, false},
};

/* "lock2", "queue", "worker1" */
static bool whom_read(const char *text, struct dry_run_fault *fault, struct error *error)
{
    int64_t number = 0;
    fault->at_worker = strncmp(text, "worker", 6) == 0;
    bool is_lock = strncmp(text, "lock", 4) == 0;
    if (strcmp(text, "queue") != 0 &&
        !((fault->at_worker || is_lock) && count_parse(text + (is_lock ? 4 : 6), 1, DRY_RUN_PROCESSES_MAX, &number)))
        return error_set(error, "\"%.60s\" is nobody: lock1, lock2, ..., queue, worker1, worker2, ...", text);
    fault->number = (unsigned)number;
    return true;
}

static bool time_read(const char *text, const char *what, int64_t least, int64_t *ns, struct error *error)
{
    int64_t read;
    if (strspn(text, "0123456789.numshd") != strlen(text) || !duration_parse(text, &read, NULL) || read < least ||
        read > AMOUNT_MAX_NS)
        return error_set(error, "\"%.60s\" is not %s: a duration as 20ms or 3s, at most 24h", text, what);
    *ns = read;
    return true;
}

/* "+5s" or "-5s" */
static bool step_read(const char *text, int64_t *ns, struct error *error)
{
    if (text[0] != '+' && text[0] != '-')
        return error_set(error, "\"%.60s\" is not a step of a clock: write +5s or -5s", text);
    if (!time_read(text + 1, "a step of a clock", 1, ns, error))
        return false;
    *ns = text[0] == '-' ? -*ns : *ns;
    return true;
}

static bool how_read(const struct parts *parts, enum how how, struct dry_run_fault *fault, struct error *error)
{
    static const unsigned wanted[] = {[HOW_NOTHING] = 3, [HOW_LONG] = 4, [HOW_SLOW] = 5, [HOW_CLOCK] = 4};
    static const char *const what[] = {[HOW_NOTHING] = "nothing follows whom it is done to",
                                       [HOW_LONG] = "how long follows whom it is done to",
                                       [HOW_SLOW] = "how much slower and how long follow whom it is done to",
                                       [HOW_CLOCK] = "the step, as +5s, follows whom it is done to"};
    if (parts->count != wanted[how])
        return error_set(error, "%s", what[how]);
    switch (how) {
    case HOW_NOTHING:
        return true;
    case HOW_LONG:
        return time_read(parts->text[3], "how long it lasts", 1, &fault->lasts_ns, error);
    case HOW_SLOW:
        return time_read(parts->text[3], "how much slower it is", 1, &fault->amount_ns, error) &&
               time_read(parts->text[4], "how long it lasts", 1, &fault->lasts_ns, error);
    case HOW_CLOCK:
        return step_read(parts->text[3], &fault->amount_ns, error);
    }
    return false;
}

static bool fault_read(const struct parts *parts, struct dry_run_fault *fault, struct error *error)
{
    const char *name = parts->text[1];
    bool is_known = false;
    if (!time_read(parts->text[0], "when it is done", 0, &fault->at_ns, error) ||
        !whom_read(parts->text[2], fault, error))
        return false;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (strcmp(dry_run_fault_name(faults[i].kind), name) != 0)
            continue;
        is_known = true;
        if (faults[i].at_worker != fault->at_worker)
            continue;
        fault->kind = faults[i].kind;
        if (faults[i].spares_queue && !fault->at_worker && fault->number == 0)
            return error_set(error, "the queue node has the tasks of the run; it can be stopped, slowed and given "
                                    "another time only");
        return how_read(parts, faults[i].how, fault, error);
    }
    if (is_known)
        return error_set(error, "that cannot be done to a %s", fault->at_worker ? "worker" : "node");
    return error_set(error, "\"%.60s\" is not a fault: stop, kill, wipe, slow, clock and freeze are", name);
}

bool plan_fault_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    struct dry_run_fault fault = {0};
    struct parts parts;
    if (plan->fault_count == DRY_RUN_FAULTS_MAX)
        return error_set(error, "there are %d faults already, and no more are possible", DRY_RUN_FAULTS_MAX);
    if (!parts_split(text, &parts))
        return error_set(error, "\"%.60s\": write WHEN:WHAT:WHOM and how: " FORMS, text);
    struct error why = ERROR_NONE;
    if (!fault_read(&parts, &fault, &why))
        return error_set(error, "\"%.60s\": %s. Write " FORMS, text, why.text);
    plan->faults[plan->fault_count++] = fault;
    return true;
}

bool plan_what_if_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    static const char prefix[] = "threads=";
    unsigned points[DRY_RUN_POINTS_MAX], count = 0;
    const char *at = text + (strncmp(text, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : strlen(text));
    for (; *at != '\0'; at += *at == ',') {
        size_t length = strcspn(at, ",");
        char number[16];
        int64_t threads;
        snprintf(number, sizeof number, "%.*s", (int)(length < sizeof number ? length : 0), at);
        if (count == DRY_RUN_POINTS_MAX || !count_parse(number, 1, DRY_RUN_THREADS_MAX, &threads))
            return error_set(error, "\"%.60s\": write threads=8,16,32, at most %d numbers from 1 to %d", text,
                             DRY_RUN_POINTS_MAX, DRY_RUN_THREADS_MAX);
        for (unsigned i = 0; i < count; i++)
            if (points[i] == threads)
                return error_set(error, "\"%.60s\": %u is there twice", text, points[i]);
        points[count++] = (unsigned)threads;
        at += length;
    }
    if (count == 0 || text[strlen(text) - 1] == ',')
        return error_set(error, "\"%.60s\": write threads=8,16,32", text);
    memcpy(plan->points, points, sizeof points);
    plan->point_count = count;
    return true;
}
