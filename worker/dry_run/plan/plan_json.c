/* What is written by a row is read by it; what is behind the rows is what several members mean together. */
#include "worker/dry_run/plan/plan_json.h"

#include <string.h>

#include "redlock/redlock.h"
#include "worker/dry_run/plan/plan_parameters.h"

#define WEIGHT_MAX 1e15

/* --- rows --------------------------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {[DRY_RUN_REHEARSAL] = "rehearsal", [DRY_RUN_SHADOW] = "shadow", NULL};
static const char *const arrivals_names[] = {[DRY_RUN_OPEN] = "open", [DRY_RUN_CLOSED] = "closed", NULL};
static const char *const popularity_names[] = {[POPULARITY_UNIFORM] = "uniform",
                                               [POPULARITY_ZIPF] = "zipf",
                                               [POPULARITY_HOT] = "hot",
                                               [POPULARITY_WEIGHTS] = "weights",
                                               NULL};
static const char *const hold_names[] = {[DISTRIBUTION_FIXED] = "fixed",
                                         [DISTRIBUTION_EXPONENTIAL] = "exponential",
                                         [DISTRIBUTION_LOGNORMAL] = "lognormal",
                                         [DISTRIBUTION_MEASURED] = "measured",
                                         NULL};

_Static_assert(sizeof(enum dry_run_kind) == sizeof(int) && sizeof(enum dry_run_arrivals) == sizeof(int) &&
                   sizeof(enum popularity_kind) == sizeof(int) && sizeof(enum distribution_kind) == sizeof(int),
               "a choice is read and written as an int");

#define ROW(json_name, its_kind, owner, member, ...)                                                                   \
    {                                                                                                                  \
        json_name, JSON_ROW_##its_kind, offsetof(struct owner, member), __VA_ARGS__                                    \
    }
#define BETWEEN(least, greatest) .low = (least), .high = (double)(greatest)
#define USUAL(json_name, its_kind, owner, member, ...)                                                                 \
    ROW(json_name, its_kind, owner, member, .is_optional = true, __VA_ARGS__)
#define CHOICE(owner, member, names) USUAL(#member, CHOICE, owner, member, .choices = (names))
#define LIST_OF(its_rows, its_size, number, greatest)                                                                  \
    .rows = (its_rows), .size = (its_size), .count_offset = (number), .most = (greatest)
#define END                                                                                                            \
    {                                                                                                                  \
        .name = NULL                                                                                                   \
    }

#define JSON_ROW_SHARE                                 JSON_ROW_REAL
#define JSON_ROW_RATE                                  JSON_ROW_REAL
#define JSON_ROW_FACTOR                                JSON_ROW_REAL
#define JSON_ROW_SEED                                  JSON_ROW_COUNT
#define PLAN_ROW(kind, member, name, least, most, ...) USUAL(name, kind, dry_run_plan, member, BETWEEN(least, most)),

static const struct json_row plan_rows[] = {
    USUAL("id", TEXT, dry_run_plan, id, .size = DRY_RUN_ID_BYTES + 1, .is_whole = true),
    USUAL("run", TEXT, dry_run_plan, run_id, .size = DRY_RUN_ID_BYTES + 1, .is_whole = true),
    CHOICE(dry_run_plan, kind, kind_names),
    USUAL("class", TEXT, dry_run_plan, class_name, .size = DRY_RUN_CLASS_BYTES_MAX + 1, .is_whole = true),
    CHOICE(dry_run_plan, arrivals, arrivals_names),
    USUAL("local", TRUTH, dry_run_plan, is_local, .size = 0),
    USUAL("local_nodes", NUMBER, dry_run_plan, local_nodes, BETWEEN(1, REDLOCK_NODES_MAX)),
    USUAL("rate", REAL, dry_run_plan, rate, BETWEEN(0, DRY_RUN_RATE_MAX)),
    USUAL("population", NUMBER, dry_run_plan, population, BETWEEN(0, DRY_RUN_POPULATION_MAX)),
    USUAL("population_given", TRUTH, dry_run_plan, is_population_given, .size = 0),
    PLAN_PARAMETERS(PLAN_ROW) END};

/* Of a hold: what its kind needs. */
#define MEAN ROW("mean", REAL, distribution, mean_s, BETWEEN(0, PLAN_SECONDS_MAX))
static const struct json_row hold_kind_rows[] = {CHOICE(distribution, kind, hold_names), END};
static const struct json_row mean_rows[] = {MEAN, END};
static const struct json_row lognormal_rows[] = {MEAN, USUAL("sigma", REAL, distribution, sigma, BETWEEN(0, 5)), END};
static const struct json_row quantile_rows[] = {{"", JSON_ROW_REAL, BETWEEN(0, PLAN_SECONDS_MAX)}, END};
static const struct json_row measured_rows[] = {
    ROW("quantiles", GROWN, distribution, quantiles,
        LIST_OF(quantile_rows, sizeof(double), offsetof(struct distribution, quantile_count),
                DISTRIBUTION_QUANTILES_MAX)),
    END};
static const struct json_row *const hold_rows[] = {[DISTRIBUTION_FIXED] = mean_rows,
                                                   [DISTRIBUTION_EXPONENTIAL] = mean_rows,
                                                   [DISTRIBUTION_LOGNORMAL] = lognormal_rows,
                                                   [DISTRIBUTION_MEASURED] = measured_rows};

static const struct json_row weight_rows[] = {{"", JSON_ROW_REAL, BETWEEN(0x1p-1000, WEIGHT_MAX)}, END};
static const struct json_row name_rows[] = {{"", JSON_ROW_NAME, .size = 0}, END};
#define NAMED(its_rows, its_size) LIST_OF(its_rows, its_size, offsetof(struct popularity, count), DRY_RUN_NAMED_MAX)
static const struct json_row popularity_rows[] = {
    CHOICE(popularity, kind, popularity_names),
    USUAL("resources", NUMBER, popularity, count, BETWEEN(1, DRY_RUN_RESOURCES_MAX)),
    USUAL("exponent", REAL, popularity, exponent, BETWEEN(0, 20)),
    USUAL("hot", NUMBER, popularity, hot, BETWEEN(0, DRY_RUN_RESOURCES_MAX)),
    USUAL("hot_share", REAL, popularity, hot_share, BETWEEN(0, 1)),
    USUAL("weights", MATCHED, popularity, weights, NAMED(weight_rows, sizeof(double))),
    USUAL("names", MATCHED, popularity, names, NAMED(name_rows, sizeof(char *))),
    END};

static const struct json_row fault_rows[] = {
    ROW("kind", CHOICE, dry_run_fault, kind, .choices = dry_run_fault_names),
    USUAL("at", TIME, dry_run_fault, at_ns, BETWEEN(0, PLAN_SECONDS_MAX)),
    USUAL("lasts", TIME, dry_run_fault, lasts_ns, BETWEEN(0, PLAN_SECONDS_MAX)),
    USUAL("amount", TIME, dry_run_fault, amount_ns, BETWEEN(-PLAN_SECONDS_MAX, PLAN_SECONDS_MAX)),
    USUAL("at_worker", TRUTH, dry_run_fault, at_worker, .size = 0),
    USUAL("number", NUMBER, dry_run_fault, number, BETWEEN(0, DRY_RUN_PROCESSES_MAX)),
    END};
static const struct json_row point_rows[] = {{"", JSON_ROW_NUMBER, BETWEEN(1, DRY_RUN_THREADS_MAX)}, END};
static const struct json_row rest_rows[] = {
    USUAL("popularity", OBJECT, dry_run_plan, popularity, .rows = popularity_rows),
    USUAL("faults", LIST, dry_run_plan, faults,
          LIST_OF(fault_rows, sizeof(struct dry_run_fault), offsetof(struct dry_run_plan, fault_count),
                  DRY_RUN_FAULTS_MAX)),
    USUAL("what_if", LIST, dry_run_plan, points,
          LIST_OF(point_rows, sizeof(unsigned), offsetof(struct dry_run_plan, point_count), DRY_RUN_POINTS_MAX)),
    END};

void plan_json_write(struct json_writer *json, const char *name, const struct dry_run_plan *plan)
{
    json_open(json, name, '{');
    json_rows_write(json, plan_rows, plan);
    json_open(json, "hold", '{');
    json_rows_write(json, hold_kind_rows, &plan->hold);
    json_rows_write(json, hold_rows[plan->hold.kind], &plan->hold);
    json_close(json, '}');
    json_rows_write(json, rest_rows, plan);
    json_close(json, '}');
}

/* --- what no row can say ------------------------------------------------------------------------------------------ */

static bool hold_from_json(const json_t *object, struct distribution *hold, struct error *error)
{
    static const struct json_path path = {.name = "hold", .index = -1};
    *hold = (struct distribution){.kind = DISTRIBUTION_FIXED};
    if (!json_rows_read(object, hold_kind_rows, &path, hold, error) ||
        !json_rows_read(object, hold_rows[hold->kind], &path, hold, error))
        return false;
    for (size_t i = 1; i < hold->quantile_count; i++)
        if (hold->quantiles[i] < hold->quantiles[i - 1])
            return error_set(error, "hold.quantiles[%zu] is out of order", i);
    return hold->kind != DISTRIBUTION_MEASURED || hold->quantile_count > 0 ||
           error_set(error, "hold.quantiles is empty");
}

static bool popularity_fits(const struct popularity *popularity, struct error *error)
{
    if (popularity->kind == POPULARITY_HOT && popularity->hot == 0)
        return error_set(error, "popularity.hot is 0: there are no hot resources");
    if (popularity->kind == POPULARITY_WEIGHTS && popularity->weights == NULL)
        return error_set(error, "popularity.weights is missing");
    for (unsigned i = 0; i < popularity->count; i++) {
        if (popularity->weights != NULL && i > 0 && popularity->weights[i] > popularity->weights[i - 1])
            return error_set(error, "popularity.weights[%u] is out of order", i);
        if (popularity->names != NULL && !resource_name_is_sound(popularity->names[i], strlen(popularity->names[i])))
            return error_set(error, "popularity.names[%u] cannot be the name of a resource", i);
    }
    return true;
}

/* Nodes are not frozen, and workers only that, or killed; what options say is a row of a table (plan_options.c). */
static bool faults_fit(const struct dry_run_plan *plan, struct error *error)
{
    for (unsigned i = 0; i < plan->fault_count; i++) {
        const struct dry_run_fault *fault = &plan->faults[i];
        if (fault->kind != DRY_RUN_FAULT_KILL && fault->at_worker != (fault->kind == DRY_RUN_FAULT_FREEZE))
            return error_set(error, "faults[%u].kind does not fit what it is done to", i);
    }
    return true;
}

static bool is_id(const char *text)
{
    return text[0] == '\0' || strspn(text, "0123456789abcdef") == DRY_RUN_ID_BYTES;
}

static bool plan_read(const json_t *object, struct dry_run_plan *plan, struct error *error)
{
    const json_t *hold = json_object_get(object, "hold");
    if (!json_rows_read(object, plan_rows, NULL, plan, error) ||
        (hold != NULL && !hold_from_json(hold, &plan->hold, error)) ||
        !json_rows_read(object, rest_rows, NULL, plan, error) || !popularity_fits(&plan->popularity, error) ||
        !faults_fit(plan, error))
        return false;
    if (!is_id(plan->id) || !is_id(plan->run_id))
        return error_set(error, "id is not %d hexadecimal digits", DRY_RUN_ID_BYTES);
    if (plan->popularity.count < plan->resources_per_task)
        return error_set(error, "there are fewer resources than a task takes");
    return plan->arrivals != DRY_RUN_OPEN || plan->rate > 0 || error_set(error, "the rate is 0");
}

bool plan_from_json(const json_t *object, struct dry_run_plan *plan, struct error *error)
{
    plan_init(plan);
    if (!plan_read(object, plan, error)) {
        error_prefix(error, "the plan");
        return false;
    }
    plan_complete(plan);
    return true;
}
