#include "worker/dry_run/load/recording.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/dry_run/report/result_json.h"
#include "worker/history/log_reader.h"

/* --- resources -------------------------------------------------------------------------------------------------- */

/* Each name once, with the sum of its weights; the names are not copied. Returns how many there are. */
static size_t popular_merge(struct popular *wanted, size_t count)
{
    size_t kept = 0;
    qsort(wanted, count, sizeof *wanted, popular_by_name);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && strcmp(wanted[kept - 1].name, wanted[i].name) == 0)
            wanted[kept - 1].weight += wanted[i].weight;
        else
            wanted[kept++] = wanted[i];
    }
    return kept;
}

/* False when there are none. */
static bool resources_take(struct recorded *recorded, struct popular *wanted, size_t count)
{
    size_t kept = popular_merge(wanted, count);
    recorded->left_out = kept > DRY_RUN_NAMED_MAX ? kept - DRY_RUN_NAMED_MAX : 0;
    if (kept > 0)
        popularity_weigh(&recorded->popularity, wanted, kept);
    return kept > 0;
}

/* As many as the mean says, as far as there are so many. */
static void per_task_take(struct recorded *recorded, double mean)
{
    unsigned most =
        recorded->popularity.count < DRY_RUN_PER_TASK_MAX ? recorded->popularity.count : DRY_RUN_PER_TASK_MAX;
    unsigned rounded = mean > 1 ? (unsigned)lround(fmin(mean, DRY_RUN_PER_TASK_MAX)) : 1;
    recorded->resources_per_task = rounded < most ? rounded : most;
}

/* --- from a history --------------------------------------------------------------------------------------------- */

static bool is_whole(const struct history_hold *hold)
{
    return hold->is_locked && !hold->is_open && hold->to.us >= hold->from.us && hold->resource_count > 0;
}

static double seconds_of(const struct history_hold *hold)
{
    int64_t us = hold->held_us >= 0 ? hold->held_us : hold->to.us - hold->from.us;
    return fmin((double)us / (double)US_PER_S, (double)(DRY_RUN_HOLD_MAX_NS / NS_PER_S));
}

struct gathering {
    double *seconds;
    struct popular *wanted;
    size_t holds, names;
    struct wall_time first, last; /* the first and the last that began */
};

static void hold_gather(struct gathering *gathering, const struct history_hold *hold)
{
    if (gathering->holds == 0)
        gathering->first = hold->from;
    gathering->last = hold->from;
    gathering->seconds[gathering->holds++] = seconds_of(hold);
    for (unsigned i = 0; i < hold->resource_count; i++)
        if (resource_name_is_sound(hold->resources[i], strlen(hold->resources[i])))
            gathering->wanted[gathering->names++] = (struct popular){hold->resources[i], 1};
}

static size_t names_in(const struct history_hold *holds, size_t count)
{
    size_t names = 0;
    for (size_t i = 0; i < count; i++)
        names += is_whole(&holds[i]) ? holds[i].resource_count : 0;
    return names;
}

bool recorded_from_history(struct recorded *recorded, const struct history *history, struct error *error)
{
    size_t count;
    (void)history_gaps(history, &count);
    *recorded = (struct recorded){0};
    if (count > 0)
        return error_set(error,
                         "tasks of it were only added up (tasks_summed), so it says too little of their rate and "
                         "locks: record with worker.log_tasks = \"all\"");
    const struct history_hold *holds = history_holds(history, &count);
    struct gathering gathering = {.seconds = memory_zeroed(count + 1, sizeof(double)),
                                  .wanted = memory_zeroed(names_in(holds, count) + 1, sizeof(struct popular))};
    for (size_t i = 0; i < count; i++)
        if (is_whole(&holds[i]))
            hold_gather(&gathering, &holds[i]);
    bool is_good = resources_take(recorded, gathering.wanted, gathering.names);
    if (is_good) {
        double span = (double)(gathering.last.us - gathering.first.us) / (double)US_PER_S;
        recorded->tasks = gathering.holds;
        recorded->rate = span > 0 ? (double)(gathering.holds - 1) / span : 0;
        per_task_take(recorded, (double)gathering.names / (double)gathering.holds);
        distribution_measure(&recorded->hold, gathering.seconds, gathering.holds);
    }
    free(gathering.seconds);
    free(gathering.wanted);
    return is_good || error_set(error, "there is no lock in it that was taken and ended; workers tell of each when "
                                       "worker.log_tasks is \"all\"");
}

/* --- from a result ---------------------------------------------------------------------------------------------- */

/* The value below which `rank` of the records lie: those of one step are spread evenly over it. */
static double histogram_at(const struct histogram *histogram, double rank)
{
    double before = 0;
    for (size_t step = 0; step < HISTOGRAM_STEPS; step++) {
        double here = (double)histogram->counts[step];
        if (here == 0 || before + here < rank) {
            before += here;
            continue;
        }
        double low = step > 0 ? (double)histogram_step_top(step - 1) : 0, high = (double)histogram_step_top(step);
        return fmin(low + (high - low) * (rank - before) / here, (double)histogram->max_us);
    }
    return (double)histogram->max_us;
}

/* A step of a histogram is up to 3 % wide; the mean was measured exactly, so the holds are made to have it. */
static void hold_of_histogram(struct distribution *hold, const struct histogram *histogram, double mean_s)
{
    enum { QUANTILES = 1001 };
    double *seconds = memory_zeroed(QUANTILES, sizeof *seconds);
    for (size_t i = 0; i < QUANTILES; i++)
        seconds[i] = histogram_at(histogram, (double)histogram->count * (double)i / (QUANTILES - 1)) / (double)US_PER_S;
    distribution_measure(hold, seconds, QUANTILES);
    free(seconds);
    double factor = mean_s / distribution_mean(hold);
    for (size_t i = 0; isfinite(factor) && i < hold->quantile_count; i++)
        hold->quantiles[i] *= factor;
}

/* A closed loop had the load that it could take, which says nothing of what would come: it is repeated as such. Of a
 * shadow the rate is what came in the seconds in which something did. */
static void arrivals_take(struct recorded *recorded, const struct result *result)
{
    const struct dry_run_plan *plan = &result->plan;
    double pushed = 0;
    size_t last = result->second_count;
    while (last > 0 && result->seconds[last - 1].pushed <= 0)
        last--;
    for (size_t i = 0; i < last; i++)
        pushed += result->seconds[i].pushed;
    recorded->population = plan_is_closed(plan) ? plan->population : 0;
    if (recorded->population == 0)
        recorded->rate = plan->kind == DRY_RUN_REHEARSAL ? plan->rate : last > 0 ? pushed / (double)last : 0;
}

bool recorded_from_result(struct recorded *recorded, const struct result *result, struct error *error)
{
    *recorded = (struct recorded){0};
    const struct histogram *histogram = result->hold.histogram;
    if (histogram == NULL || histogram->count == 0 || !(result->hold.mean >= 0))
        return error_set(error, "nothing was held in that run");
    struct popular *wanted = memory_zeroed(result->resource_count + 1, sizeof *wanted);
    size_t names = 0;
    for (size_t i = 0; i < result->resource_count; i++) {
        const struct result_resource *resource = &result->resources[i];
        if (resource->arrived > 0 && resource_name_is_sound(resource->name, strlen(resource->name)))
            wanted[names++] = (struct popular){resource->name, (double)resource->arrived};
    }
    bool is_good = resources_take(recorded, wanted, names);
    free(wanted);
    if (!is_good)
        return error_set(error, "no task of that run wanted a resource");
    recorded->left_out += result->resources_left_out;
    recorded->tasks = result->hold.count;
    arrivals_take(recorded, result);
    per_task_take(recorded, result->plan.resources_per_task);
    hold_of_histogram(&recorded->hold, histogram, result->hold.mean);
    return true;
}

/* --- files ------------------------------------------------------------------------------------------------------ */

static bool log_read(struct recorded *recorded, const char *path, FILE *file, struct error *error)
{
    struct history *history = history_create();
    struct log_reader *reader = log_reader_create(history);
    bool is_read = log_reader_file(reader, path, file, error);
    log_reader_finish(reader);
    log_reader_destroy(reader);
    history_order(history);
    is_read = is_read && recorded_from_history(recorded, history, error);
    history_destroy(history);
    return is_read;
}

static bool json_read(struct recorded *recorded, FILE *file, struct error *error)
{
    struct result result;
    bool is_good = result_read_stream(file, &result, error) && recorded_from_result(recorded, &result, error);
    result_fini(&result);
    return is_good;
}

/* A line of a log begins with its time. */
static bool is_json(FILE *file)
{
    int first = getc(file);
    if (first != EOF)
        ungetc(first, file);
    return first == '{';
}

bool recorded_read_file(struct recorded *recorded, const char *path, struct error *error)
{
    char name[LOG_QUOTE_MAX];
    log_quote(path, name);
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (file == NULL)
        return error_set(error, "%s: %s", name, strerror(errno));
    struct error why = ERROR_NONE;
    bool is_good = is_json(file) ? json_read(recorded, file, &why) : log_read(recorded, name, file, &why);
    if (file != stdin)
        fclose(file);
    return is_good || error_set(error, "%s: %s", name, why.text);
}

/* --- a plan ----------------------------------------------------------------------------------------------------- */

void recorded_apply(struct recorded *recorded, struct dry_run_plan *plan)
{
    distribution_fini(&plan->hold);
    popularity_fini(&plan->popularity);
    plan->hold = recorded->hold;
    plan->popularity = recorded->popularity;
    plan->resources_per_task = recorded->resources_per_task;
    recorded->hold = (struct distribution){0};
    recorded->popularity = (struct popularity){0};
    if (recorded->rate > 0) {
        plan->arrivals = DRY_RUN_OPEN;
        plan->rate = recorded->rate;
    } else if (recorded->population > 0) {
        plan->arrivals = DRY_RUN_CLOSED;
        plan->population = recorded->population;
        plan->is_population_given = true;
    }
}

void recorded_fini(struct recorded *recorded)
{
    distribution_fini(&recorded->hold);
    popularity_fini(&recorded->popularity);
    *recorded = (struct recorded){0};
}
