/* Everything is read into a copy of what it changes first, so that a text that is wrong changes nothing. */
#include "worker/dry_run/options/plan_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "base/real.h"
#include "queue/utf8.h"
#include "redlock/redlock.h"
#include "worker/dry_run/plan/plan_files.h"
#include "worker/dry_run/options/recorded.h"

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

static bool id_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    if (strlen(text) != DRY_RUN_ID_BYTES || strspn(text, "0123456789abcdef") != DRY_RUN_ID_BYTES)
        return error_set(
            error, "\"%.60s\" is not the id of a run: %d hexadecimal digits, as the host that began it shows them",
            text, DRY_RUN_ID_BYTES);
    memcpy(plan->id, text, DRY_RUN_ID_BYTES + 1);
    return true;
}

static bool seed_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    int64_t seed;
    if (!count_parse(text, 1, DRY_RUN_SEED_MAX, &seed))
        return error_set(error, "\"%.60s\" is not a whole number from 1 to %lld", text, (long long)DRY_RUN_SEED_MAX);
    plan->seed = (uint64_t)seed;
    return true;
}

static bool for_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    return length_read(text, DRY_RUN_FOR_MIN_NS, DRY_RUN_FOR_MAX_NS, &plan->for_ns, error);
}

static bool warm_up_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    return length_read(text, 0, DRY_RUN_FOR_MAX_NS, &plan->warm_up_ns, error);
}

static bool threads_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    return whole_read(text, 1, DRY_RUN_THREADS_MAX, &plan->threads, error);
}

static bool processes_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    return whole_read(text, 1, DRY_RUN_PROCESSES_MAX, &plan->processes, error);
}

static bool hosts_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    return whole_read(text, 1, DRY_RUN_HOSTS_MAX, &plan->hosts, error);
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

static bool per_task_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    return whole_read(text, 1, DRY_RUN_PER_TASK_MAX, &plan->resources_per_task, error);
}

/* As many resources as before, in this way, without names and weights of their own. */
static void popularity_replace(struct dry_run_plan *plan, struct popularity popularity)
{
    popularity.count = plan->popularity.count;
    popularity_fini(&plan->popularity);
    plan->popularity = popularity;
}

static bool uniform_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    (void)text;
    (void)error;
    popularity_replace(plan, (struct popularity){.kind = POPULARITY_UNIFORM});
    return true;
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

static bool popularity_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    if (plan->is_count_given)
        return error_set(error, "the file says how many resources there are: leave --resources out");
    return plan_file_popularity(text, &plan->popularity, error);
}

/* --- holds ------------------------------------------------------------------------------------------------------ */

static bool hold_is_unknown(const char *text, struct error *error)
{
    return error_set(error, "\"%.60s\": write fixed:5ms, exp:5ms, lognormal:5ms,0.8 (mean and sigma) or file:PATH",
                     text);
}

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

static bool hold_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    const char *colon = strchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : 0;
    struct distribution hold = {0};
    bool is_good;
    if (length == 5 && memcmp(text, "fixed", 5) == 0)
        is_good = mean_read(colon + 1, DISTRIBUTION_FIXED, &hold, error);
    else if (length == 3 && memcmp(text, "exp", 3) == 0)
        is_good = mean_read(colon + 1, DISTRIBUTION_EXPONENTIAL, &hold, error);
    else if (length == 9 && memcmp(text, "lognormal", 9) == 0)
        is_good = lognormal_read(colon + 1, &hold, error);
    else if (length == 4 && memcmp(text, "file", 4) == 0)
        is_good = plan_file_holds(colon + 1, &hold, error);
    else
        return hold_is_unknown(text, error);
    if (!is_good)
        return false;
    distribution_fini(&plan->hold);
    plan->hold = hold;
    return true;
}

static bool failures_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    return share_read(text, &plan->failures, error);
}

static bool is_plain(const char *text, size_t length)
{
    for (const char *at = text, *end = text + length; at < end;) {
        size_t character = utf8_length(at, end);
        if (character == 0 || (unsigned char)*at < ' ' || *at == 0x7f)
            return false;
        at += character;
    }
    return true;
}

static bool class_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    size_t length = strlen(text);
    if (length == 0 || length > DRY_RUN_CLASS_BYTES_MAX || !is_plain(text, length))
        return error_set(error,
                         "\"%.60s\" is not the name of a class: 1 to %d bytes of UTF-8 without control characters",
                         text, DRY_RUN_CLASS_BYTES_MAX);
    plan_set_class(plan, text);
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

/* --- shadows ---------------------------------------------------------------------------------------------------- */

static bool node_share_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    return share_read(text, &plan->node_share, error);
}

static bool copy_rate_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    return rate_read(text, &plan->copy_rate, error);
}

static bool speed_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    double speed;
    if (!real_parse(text, &speed) || !(speed >= DRY_RUN_SPEED_MIN && speed <= DRY_RUN_SPEED_MAX))
        return error_set(error, "\"%.60s\" is not a factor from %g to %g", text, DRY_RUN_SPEED_MIN, DRY_RUN_SPEED_MAX);
    plan->speed = speed;
    return true;
}

static bool shadow_take(void *target, const char *text, struct error *error)
{
    struct dry_run_plan *plan = target;
    (void)text, (void)error;
    plan->kind = DRY_RUN_SHADOW;
    return true;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

#define ROW(name, value, taker, help)                                                                                  \
    {                                                                                                                  \
        OPTION_TAKEN, 0, name, value, help, .take = taker                                                              \
    }

const struct option_row plan_options[] = {
    ROW("private", "[=NODES]", local_take, "on private nodes on this machine, with so many lock nodes (5)"),
    ROW("shadow", NULL, shadow_take, "play what the live fleet has in its queues, and gets meanwhile"),
    ROW("join", "RUN", id_take, "take part in the run of another host, with workers of this one"),
    ROW("for", "DURATION", for_take, "how long the load lasts (20s)"),
    ROW("warm-up", "DURATION", warm_up_take, "how much of that is not measured (a tenth, 2s at most)"),
    ROW("threads", "N", threads_take, "of each process (16)"),
    ROW("processes", "N", processes_take, "worker processes on this host (1)"),
    ROW("hosts", "N", hosts_take, "begin when so many hosts take part, this one included (1)"),
    ROW("rate", "RATE", rate_take, "tasks come by chance, so many a second: 200/s"),
    ROW("closed", "N", closed_take, "so many tasks are there all the time (this, and twice the threads)"),
    ROW("resources", "N", resources_take, "how many there are to be locked (100)"),
    ROW("uniform", NULL, uniform_take, "all resources are wanted equally often (this)"),
    ROW("zipf", "S", zipf_take, "the k-th resource is wanted in proportion to 1/k^S: 1.1"),
    ROW("hot", "SHARE:N", hot_take, "a share of the tasks wants N of the resources: 0.9:10"),
    ROW("popularity", "FILE", popularity_take, "resources and their weights: a line NAME WEIGHT each"),
    ROW("resources-per-task", "N", per_task_take, "how many a task locks at once (1)"),
    ROW("hold", "HOLD", hold_take, "fixed:5ms, exp:5ms, lognormal:5ms,0.8 or file:PATH (fixed:10ms)"),
    ROW("failures", "SHARE", failures_take, "of the runs that fail: 0.05 or 5% (0)"),
    ROW("class", "CLASS", class_take, "whose settings in the configuration hold for the tasks"),
    ROW("recorded", "FILE", recorded_take, "resources, holds and rate as in a worker's log, or an earlier run"),
    ROW("node-share", "SHARE", node_share_take, "shadow: of the time of a node that it may use (0.1)"),
    ROW("copy-rate", "RATE", copy_rate_take, "shadow: entries of live queues that are read (1000/s)"),
    ROW("speed", "FACTOR", speed_take, "holds are shorter by this factor (1)"),
    ROW("fault", "FAULT", plan_fault_take, "5s:stop:lock2:3s; again for more. WHEN:WHAT:WHOM[:HOW]"),
    ROW("what-if", "threads=A,B", plan_what_if_take, "a run with each of these numbers of threads"),
    ROW("seed", "N", seed_take, "the same seed gives the same load (drawn)"),
    {.type = OPTION_END},
};
