/* Everything is read into a copy of what it changes first, so that a text that is wrong changes nothing. */
#include "worker/dry_run/load/plan_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "base/real.h"
#include "redlock/redlock.h"
#include "worker/dry_run/load/recording.h"
#include "worker/dry_run/plan/hold_file.h"
#include "worker/dry_run/plan/plan_parameters.h"

enum { NUMBER_BYTES_MAX = 64, USUAL_LOCAL_NODES = 5 };

/* --- pieces ----------------------------------------------------------------------------------------------------- */

static bool whole_read(const char *text, int64_t low, int64_t high, unsigned *number, struct error *error)
{
    int64_t count;
    if (!count_parse(text, low, high, &count))
        return error_set(error, "\"%.60s\" is not a whole number from %lld to %lld", text, (long long)low,
                         (long long)high);
    *number = (unsigned)count;
    return true;
}

/* Digits, a point, an exponent; nothing that only strtod would take for a number. */
static bool real_parse(const char *text, double *number)
{
    char *rest;
    size_t length = strlen(text);
    if (length == 0 || length > NUMBER_BYTES_MAX || strspn(text, "0123456789.eE+-") != length || text[0] == '+' ||
        text[0] == '-')
        return false;
    *number = real_read(text, &rest);
    return *rest == '\0' && rest != text;
}

/* "0.05" or "5%". */
static bool share_read(const char *text, double *share, struct error *error)
{
    char number[NUMBER_BYTES_MAX + 1];
    size_t length = strlen(text);
    bool is_percent = length > 0 && text[length - 1] == '%';
    snprintf(number, sizeof number, "%.*s", (int)(length < NUMBER_BYTES_MAX ? length - is_percent : 0), text);
    double read;
    if (!real_parse(number, &read) || read > (is_percent ? 100 : 1))
        return error_set(error, "\"%.60s\" is not a share: write 0.05 or 5%%", text);
    *share = is_percent ? read / 100 : read;
    return true;
}

static bool length_read(const char *text, int64_t low, int64_t high, int64_t *ns, struct error *error)
{
    int64_t read;
    if (strspn(text, "0123456789.numshd") != strlen(text) || strlen(text) > NUMBER_BYTES_MAX)
        return error_set(error, "\"%.60s\" is not a duration; write for example 20ms, 10s or 5m", text);
    if (!duration_parse(text, &read, error))
        return false;
    if (read < low || read > high)
        return error_set(error, "\"%.60s\" is out of range: from %s to %s", text,
                         duration_print(low, (char[QUANTITY_TEXT_MAX]){0}),
                         duration_print(high, (char[QUANTITY_TEXT_MAX]){0}));
    *ns = read;
    return true;
}

/* "200/s", "12000/m", "40/h", in units a second. */
static bool rate_read(const char *text, double *rate, struct error *error)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"/s", 1}, {"/m", 60}, {"/h", 3600}};
    char number[NUMBER_BYTES_MAX + 1];
    size_t length = strcspn(text, "/");
    double read;
    snprintf(number, sizeof number, "%.*s", (int)(length < NUMBER_BYTES_MAX ? length : 0), text);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + length, units[i].name) != 0 || !real_parse(number, &read))
            continue;
        if (!(read > 0 && read / units[i].seconds <= DRY_RUN_RATE_MAX))
            return error_set(error, "\"%.60s\" is out of range: more than 0 and at most %.0f/s", text,
                             DRY_RUN_RATE_MAX);
        *rate = read / units[i].seconds;
        return true;
    }
    return error_set(error, "\"%.60s\" is not a rate: write for example 200/s, 12000/m or 40/h", text);
}

static bool factor_read(const char *text, double low, double high, double *factor, struct error *error)
{
    double read;
    if (!real_parse(text, &read) || !(read >= low && read <= high))
        return error_set(error, "\"%.60s\" is not a factor from %g to %g", text, low, high);
    *factor = read;
    return true;
}

static bool seed_read(const char *text, uint64_t *seed, struct error *error)
{
    int64_t read;
    if (!count_parse(text, 1, DRY_RUN_SEED_MAX, &read))
        return error_set(error, "\"%.60s\" is not a whole number from 1 to %lld", text, (long long)DRY_RUN_SEED_MAX);
    *seed = (uint64_t)read;
    return true;
}

/* --- single values ------------------------------------------------------------------------------------------------ */

#define READ_TIME(text, least, most, ns)       length_read(text, (least)*NS_PER_S, (int64_t)(most)*NS_PER_S, ns, error)
#define READ_NUMBER(text, least, most, number) whole_read(text, least, most, number, error)
#define READ_SHARE(text, least, most, share)   share_read(text, share, error)
#define READ_RATE(text, least, most, rate)     rate_read(text, rate, error)
#define READ_FACTOR(text, least, most, factor) factor_read(text, least, most, factor, error)
#define READ_SEED(text, least, most, seed)     seed_read(text, seed, error)

#define TAKER(kind, member, name, least, most, ...)                                                                    \
    static bool member##_take(void *target, const char *text, struct error *error)                                     \
    {                                                                                                                  \
        return READ_##kind(text, least, most, &((struct dry_run_plan *)target)->member);                               \
    }
PLAN_PARAMETERS(TAKER)

/* --- the run ---------------------------------------------------------------------------------------------------- */

static bool local_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    unsigned nodes = USUAL_LOCAL_NODES;
    if (text != NULL && !whole_read(text, 1, REDLOCK_NODES_MAX, &nodes, error))
        return false;
    plan->is_local = true;
    plan->local_nodes = nodes;
    return true;
}

/* Runs are known by digits, a named one by those that its name gives. */
static bool name_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    size_t length = strlen(text);
    if (length == 0 || length > NUMBER_BYTES_MAX || !text_is_plain(text, length))
        return error_set(error, "\"%.60s\" is not a name: 1 to %d bytes without control characters", text,
                         NUMBER_BYTES_MAX);
    uint64_t digits = hash_bytes(0, text, length) & ((UINT64_C(1) << (4 * DRY_RUN_ID_BYTES)) - 1);
    snprintf(plan->run_id, sizeof plan->run_id, "%0*" PRIx64, DRY_RUN_ID_BYTES, digits);
    return true;
}

/* --- arrivals --------------------------------------------------------------------------------------------------- */

static bool closed_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    if (!whole_read(text, 1, DRY_RUN_POPULATION_MAX, &plan->population, error))
        return false;
    plan->arrivals = DRY_RUN_CLOSED;
    plan->is_population_given = true;
    return true;
}

static bool rate_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    if (!rate_read(text, &plan->rate, error))
        return false;
    plan->arrivals = DRY_RUN_OPEN;
    return true;
}

/* --- resources -------------------------------------------------------------------------------------------------- */

static bool resources_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    unsigned count = 0;
    if (!whole_read(text, 1, DRY_RUN_RESOURCES_MAX, &count, error))
        return false;
    if (plan->popularity.kind == POPULARITY_WEIGHTS)
        return error_set(error, "the resources have names and weights already, from a file; leave it out");
    plan->popularity.count = count;
    plan->is_count_given = true;
    return true;
}

/* As many resources as before, in this way, without names and weights of their own. */
static void popularity_replace(struct dry_run_plan *plan, struct popularity popularity)
{
    popularity.count = plan->popularity.count;
    popularity_fini(&plan->popularity);
    plan->popularity = popularity;
}

static bool zipf_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    double exponent;
    if (!real_parse(text, &exponent) || exponent > 20)
        return error_set(error, "\"%.60s\" is not an exponent from 0 to 20; 1.1 is usual", text);
    popularity_replace(plan, (struct popularity){.kind = POPULARITY_ZIPF, .exponent = exponent});
    return true;
}

static bool hot_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    char share_text[NUMBER_BYTES_MAX + 1];
    const char *colon = strchr(text, ':');
    unsigned hot = 0;
    double share;
    if (colon == NULL || colon - text > NUMBER_BYTES_MAX)
        return error_set(error, "\"%.60s\": write SHARE:N, for example 0.9:10 when 10 resources get 90 %% of the tasks",
                         text);
    snprintf(share_text, sizeof share_text, "%.*s", (int)(colon - text), text);
    if (!share_read(share_text, &share, error) || !whole_read(colon + 1, 1, DRY_RUN_RESOURCES_MAX, &hot, error))
        return false;
    popularity_replace(plan, (struct popularity){.kind = POPULARITY_HOT, .hot = hot, .hot_share = share});
    return true;
}

/* --- holds ------------------------------------------------------------------------------------------------------ */

/* A mean of nothing is no distribution, but a fixed hold of 0 is one: only the lock is taken. */
static bool mean_read(const char *text, enum distribution_kind kind, struct distribution *hold, struct error *error)
{
    int64_t ns;
    if (!length_read(text, kind == DISTRIBUTION_FIXED ? 0 : NS_PER_US, DRY_RUN_HOLD_MAX_NS, &ns, error))
        return false;
    *hold = (struct distribution){.kind = kind, .mean_s = (double)ns / (double)NS_PER_S};
    return true;
}

static bool lognormal_read(const char *text, struct distribution *hold, struct error *error)
{
    char mean[NUMBER_BYTES_MAX + 1];
    const char *comma = strchr(text, ',');
    double sigma;
    if (comma == NULL || comma - text > NUMBER_BYTES_MAX)
        return error_set(error, "\"%.60s\": write lognormal:MEAN,SIGMA, for example lognormal:5ms,0.8", text);
    snprintf(mean, sizeof mean, "%.*s", (int)(comma - text), text);
    if (!mean_read(mean, DISTRIBUTION_LOGNORMAL, hold, error))
        return false;
    if (!real_parse(comma + 1, &sigma) || !(sigma > 0 && sigma <= 5))
        return error_set(error, "\"%.60s\" is not a sigma: a number above 0 and at most 5; 0.8 is usual", comma + 1);
    hold->sigma = sigma;
    return true;
}

static bool hold_read(const char *text, struct distribution *hold, struct error *error)
{
    static const char fixed[] = "fixed:", exponential[] = "exp:", lognormal[] = "lognormal:", file[] = "file:";
    if (strncmp(text, fixed, strlen(fixed)) == 0)
        return mean_read(text + strlen(fixed), DISTRIBUTION_FIXED, hold, error);
    if (strncmp(text, exponential, strlen(exponential)) == 0)
        return mean_read(text + strlen(exponential), DISTRIBUTION_EXPONENTIAL, hold, error);
    if (strncmp(text, lognormal, strlen(lognormal)) == 0)
        return lognormal_read(text + strlen(lognormal), hold, error);
    if (strncmp(text, file, strlen(file)) == 0)
        return hold_file_read(text + strlen(file), hold, error);
    return error_set(error, "\"%.60s\": write fixed:5ms, exp:5ms, lognormal:5ms,0.8 (mean and sigma) or file:PATH",
                     text);
}

static bool hold_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    struct distribution hold = {0};
    if (!hold_read(text, &hold, error))
        return false;
    distribution_fini(&plan->hold);
    plan->hold = hold;
    return true;
}

static bool class_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    size_t length = strlen(text);
    if (length == 0 || length > DRY_RUN_CLASS_BYTES_MAX || !text_is_plain(text, length))
        return error_set(error,
                         "\"%.60s\" is not the name of a class: 1 to %d bytes of UTF-8 without control characters",
                         text, DRY_RUN_CLASS_BYTES_MAX);
    snprintf(plan->class_name, sizeof plan->class_name, "%s", text);
    return true;
}

static bool recorded_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    struct recorded recorded;
    if (plan->is_count_given)
        return error_set(error, "the file says how many resources there are: leave --resources out");
    if (!recorded_read_file(&recorded, text, error))
        return false;
    recorded_apply(&recorded, plan);
    recorded_fini(&recorded);
    return true;
}

static bool shadow_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    (void)text, (void)error;
    plan->kind = DRY_RUN_SHADOW;
    return true;
}

/* --- faults and what-ifs ------------------------------------------------------------------------------------------ */

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
        if (strcmp(dry_run_fault_names[faults[i].kind], name) != 0)
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

/* WHEN:WHAT:WHOM[:HOW], one more fault; the node `queue` can be stopped, slowed and given
 * another time:
 *
 *     5s:stop:lock2:3s   5s:kill:lock2:3s   6s:wipe:lock1   5s:slow:lock3:20ms:4s   5s:clock:lock2:+5s
 *     5s:freeze:worker1:4s   5s:kill:worker2 */
static bool fault_take(void *target, const char *text, struct error *error)
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

/* threads=8,16,32 */
static bool what_if_take(void *target, const char *text, struct error *error)
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

/* --- the table ---------------------------------------------------------------------------------------------------- */

#define PARAMETER(kind, member, name, least, most, option, value, help) ROW(option, value, member##_take, help)
#define ROW(name, value, taker, help)                                                                                  \
    {                                                                                                                  \
        OPTION_TAKEN, 0, name, value, help, .take = taker                                                              \
    }

const struct option_row plan_options[] = {
    ROW("private", "[=NODES]", local_take, "on nodes of its own, so many lock nodes (5)"),
    ROW("shadow", NULL, shadow_take, "play what the live fleet has and gets"),
    PLAN_FOR(PARAMETER),
    PLAN_WARM_UP(PARAMETER),
    PLAN_THREADS(PARAMETER),
    PLAN_PROCESSES(PARAMETER),
    ROW("name", "NAME", name_take, "of a run of several hosts: the same on each"),
    PLAN_HOSTS(PARAMETER),
    ROW("rate", "RATE", rate_take, "tasks come at random, so many a second: 200/s"),
    ROW("closed", "N", closed_take, "so many tasks are always there (twice the threads)"),
    ROW("resources", "N", resources_take, "so many can be locked, all alike (100)"),
    ROW("zipf", "S", zipf_take, "the k-th resource is wanted like 1/k^S: 1.1"),
    ROW("hot", "SHARE:N", hot_take, "a share of the tasks wants N of them: 0.9:10"),
    PLAN_PER_TASK(PARAMETER),
    ROW("hold", "HOLD", hold_take, "fixed:10ms, exp:5ms, lognormal:5ms,0.8, file:PATH"),
    PLAN_FAILURES(PARAMETER),
    ROW("class", "CLASS", class_take, "whose settings hold for the tasks"),
    ROW("recorded", "FILE", recorded_take, "the load of a worker's log, or an earlier run"),
    PLAN_NODE_SHARE(PARAMETER),
    PLAN_SPEED(PARAMETER),
    ROW("fault", "FAULT", fault_take, "5s:stop:lock2:3s; again for more"),
    ROW("what-if", "threads=A,B", what_if_take, "a run with each number of threads"),
    PLAN_SEED(PARAMETER),
    {.type = OPTION_END},
};
