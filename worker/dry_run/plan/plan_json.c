/* Single members are rows of a table; what depends on the kind of a hold or a popularity is written by hand. */
#include "worker/dry_run/plan/plan_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "redlock/redlock.h"
#include "worker/dry_run/plan/plan_files.h"
#include "worker/dry_run/plan/plan_parameters.h"

#define WEIGHT_MAX 1e15

/* --- rows --------------------------------------------------------------------------------------------------------- */

#define ROW(json_name, its_kind, owner, member, least, greatest)                                                       \
    {                                                                                                                  \
        json_name, JSON_ROW_##its_kind, offsetof(struct owner, member), .low = least, .high = (double)(greatest),      \
                                                                        .is_optional = true                            \
    }
#define END                                                                                                            \
    {                                                                                                                  \
        .name = NULL                                                                                                   \
    }

#define JSON_ROW_SHARE                                 JSON_ROW_REAL
#define JSON_ROW_RATE                                  JSON_ROW_REAL
#define JSON_ROW_FACTOR                                JSON_ROW_REAL
#define JSON_ROW_SEED                                  JSON_ROW_COUNT
#define PLAN_ROW(kind, member, name, least, most, ...) ROW(name, kind, dry_run_plan, member, least, most),

static const struct json_row plan_rows[] = {
    ROW("local", TRUTH, dry_run_plan, is_local, 0, 0),
    ROW("local_nodes", NUMBER, dry_run_plan, local_nodes, 1, REDLOCK_NODES_MAX),
    ROW("rate", REAL, dry_run_plan, rate, 0, DRY_RUN_RATE_MAX),
    ROW("population", NUMBER, dry_run_plan, population, 0, DRY_RUN_POPULATION_MAX),
    ROW("population_given", TRUTH, dry_run_plan, is_population_given, 0, 0),
    PLAN_PARAMETERS(PLAN_ROW) END};

static const struct json_row fault_rows[] = {
    ROW("at", TIME, dry_run_fault, at_ns, 0, PLAN_SECONDS_MAX),
    ROW("lasts", TIME, dry_run_fault, lasts_ns, 0, PLAN_SECONDS_MAX),
    ROW("amount", TIME, dry_run_fault, amount_ns, -PLAN_SECONDS_MAX, PLAN_SECONDS_MAX),
    ROW("at_worker", TRUTH, dry_run_fault, at_worker, 0, 0),
    ROW("number", NUMBER, dry_run_fault, number, 0, DRY_RUN_PROCESSES_MAX),
    END};

static const struct json_row hold_rows[] = {ROW("mean", REAL, distribution, mean_s, 0, PLAN_SECONDS_MAX),
                                            ROW("sigma", REAL, distribution, sigma, 0, 5), END};

static const struct json_row popularity_rows[] = {ROW("resources", NUMBER, popularity, count, 1, DRY_RUN_RESOURCES_MAX),
                                                  ROW("exponent", REAL, popularity, exponent, 0, 20),
                                                  ROW("hot", NUMBER, popularity, hot, 0, DRY_RUN_RESOURCES_MAX),
                                                  ROW("hot_share", REAL, popularity, hot_share, 0, 1), END};

/* --- words ------------------------------------------------------------------------------------------------------ */

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

/* The number of the word; `chosen` is left alone when there is no such member. */
static bool word_from_json(const json_t *object, const char *name, const char *const *words, int *chosen,
                           struct error *error)
{
    const json_t *value = json_object_get(object, name);
    return value == NULL || json_choice_read(value, words, chosen) ||
           error_set(error, "%s is nothing that this version knows", name);
}

/* A text of at most that many bytes; NULL = absent. */
static bool text_from_json(const json_t *object, const char *name, size_t most, const char **text, struct error *error)
{
    const json_t *value = json_object_get(object, name);
    *text = json_string_value(value);
    if (value == NULL)
        return true;
    return (*text != NULL && json_string_length(value) <= most) ||
           error_set(error, "%s is not a text of at most %zu bytes", name, most);
}

/* --- numbers in a row ------------------------------------------------------------------------------------------- */

static void reals_write(struct json_writer *json, const char *name, const double *numbers, size_t count)
{
    json_open(json, name, '[');
    for (size_t i = 0; i < count; i++)
        json_decimal(json, NULL, numbers[i]);
    json_close(json, ']');
}

/* Each at least as large as the one before when they ascend, else at most; NULL with a reason when they are not. */
static double *reals_from_json(const json_t *array, const char *name, size_t most, double low, double high,
                               bool ascending, struct error *error)
{
    size_t count = json_array_size(array);
    if (count == 0 || count > most) {
        error_set(error, "%s is not a list of 1 to %zu numbers", name, most);
        return NULL;
    }
    double *numbers = memory_zeroed(count, sizeof *numbers);
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(array, i);
        numbers[i] = json_number_value(value);
        bool in_order = i == 0 || (ascending ? numbers[i] >= numbers[i - 1] : numbers[i] <= numbers[i - 1]);
        if (json_is_number(value) && numbers[i] >= low && numbers[i] <= high && in_order)
            continue;
        error_set(error, "%s: number %zu is out of range, or out of order", name, i + 1);
        free(numbers);
        return NULL;
    }
    return numbers;
}

/* --- holds ------------------------------------------------------------------------------------------------------ */

static void hold_write(struct json_writer *json, const struct distribution *hold)
{
    json_open(json, "hold", '{');
    json_text(json, "kind", hold_names[hold->kind]);
    if (hold->kind == DISTRIBUTION_MEASURED)
        reals_write(json, "quantiles", hold->quantiles, hold->quantile_count);
    else
        json_decimal(json, "mean", hold->mean_s);
    if (hold->kind == DISTRIBUTION_LOGNORMAL)
        json_decimal(json, "sigma", hold->sigma);
    json_close(json, '}');
}

static bool hold_from_json(const json_t *object, struct distribution *hold, struct error *error)
{
    int kind = DISTRIBUTION_FIXED;
    if (!json_is_object(object))
        return error_set(error, "it is no object");
    if (!word_from_json(object, "kind", hold_names, &kind, error))
        return false;
    *hold = (struct distribution){.kind = (enum distribution_kind)kind};
    if (hold->kind != DISTRIBUTION_MEASURED && json_object_get(object, "mean") == NULL)
        return error_set(error, "it has no mean");
    if (hold->kind != DISTRIBUTION_MEASURED)
        return json_rows_read(object, hold_rows, NULL, hold, error);
    const json_t *quantiles = json_object_get(object, "quantiles");
    hold->quantiles =
        reals_from_json(quantiles, "quantiles", DISTRIBUTION_QUANTILES_MAX, 0, PLAN_SECONDS_MAX, true, error);
    hold->quantile_count = hold->quantiles != NULL ? json_array_size(quantiles) : 0;
    return hold->quantiles != NULL;
}

/* --- resources -------------------------------------------------------------------------------------------------- */

static void popularity_write(struct json_writer *json, const struct popularity *popularity)
{
    json_open(json, "popularity", '{');
    json_text(json, "kind", popularity_names[popularity->kind]);
    json_rows_write(json, popularity_rows, popularity);
    if (popularity->weights != NULL)
        reals_write(json, "weights", popularity->weights, popularity->count);
    if (popularity->names != NULL)
        json_texts(json, "names", popularity->names, popularity->count);
    json_close(json, '}');
}

static bool names_from_json(const json_t *array, struct popularity *popularity, struct error *error)
{
    if (array == NULL)
        return true;
    if (json_array_size(array) != popularity->count || popularity->count > DRY_RUN_NAMED_MAX)
        return error_set(error, "names is not a list of as many names as there are resources, at most %d",
                         DRY_RUN_NAMED_MAX);
    popularity->names = memory_zeroed(popularity->count, sizeof *popularity->names);
    for (unsigned i = 0; i < popularity->count; i++) {
        const json_t *name = json_array_get(array, i);
        if (!json_is_string(name) || !resource_name_is_sound(json_string_value(name), json_string_length(name)))
            return error_set(error, "names: number %u cannot be the name of a resource", i + 1);
        popularity->names[i] = memory_text(json_string_value(name));
    }
    return true;
}

static bool popularity_from_json(const json_t *object, struct popularity *popularity, struct error *error)
{
    int kind = (int)popularity->kind;
    if (!json_is_object(object))
        return error_set(error, "it is no object");
    if (!word_from_json(object, "kind", popularity_names, &kind, error) ||
        !json_rows_read(object, popularity_rows, NULL, popularity, error))
        return false;
    popularity->kind = (enum popularity_kind)kind;
    if (popularity->kind == POPULARITY_HOT && popularity->hot == 0)
        return error_set(error, "hot is 0: there are no hot resources");
    if (popularity->kind == POPULARITY_WEIGHTS) {
        const json_t *weights = json_object_get(object, "weights");
        popularity->weights =
            reals_from_json(weights, "weights", DRY_RUN_NAMED_MAX, 0x1p-1000, WEIGHT_MAX, false, error);
        if (popularity->weights == NULL)
            return false;
        if (json_array_size(weights) != popularity->count)
            return error_set(error, "there are not as many weights as resources");
    }
    return names_from_json(json_object_get(object, "names"), popularity, error);
}

/* --- faults and points ------------------------------------------------------------------------------------------ */

/* Nodes are not frozen, and workers only that, or killed; what options say is a row of a table (plan_options.c). */
static bool fault_fits(const struct dry_run_fault *fault)
{
    if (fault->kind == DRY_RUN_FAULT_KILL)
        return true;
    return fault->at_worker == (fault->kind == DRY_RUN_FAULT_FREEZE);
}

static bool faults_from_json(const json_t *array, struct dry_run_plan *plan, struct error *error)
{
    if (array == NULL)
        return true;
    if (!json_is_array(array) || json_array_size(array) > DRY_RUN_FAULTS_MAX)
        return error_set(error, "faults is not a list of at most %d", DRY_RUN_FAULTS_MAX);
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *object = json_array_get(array, i);
        struct dry_run_fault *fault = &plan->faults[i];
        int kind = DRY_RUN_FAULT_KINDS;
        bool is_good = word_from_json(object, "kind", dry_run_fault_names, &kind, error) &&
                       (kind < DRY_RUN_FAULT_KINDS || error_set(error, "kind is no fault that this version knows")) &&
                       json_rows_read(object, fault_rows, NULL, fault, error);
        fault->kind = (enum dry_run_fault_kind)kind;
        is_good = is_good && (fault_fits(fault) || error_set(error, "kind does not fit what it is done to"));
        if (!is_good) {
            error_prefix(error, "faults: number %zu", i + 1);
            return false;
        }
        plan->fault_count++;
    }
    return true;
}

static bool points_from_json(const json_t *array, struct dry_run_plan *plan, struct error *error)
{
    if (array == NULL)
        return true;
    if (!json_is_array(array) || json_array_size(array) > DRY_RUN_POINTS_MAX)
        return error_set(error, "what_if is not a list of at most %d", DRY_RUN_POINTS_MAX);
    for (size_t i = 0; i < json_array_size(array); i++) {
        json_int_t threads = json_integer_value(json_array_get(array, i)); /* 0 when it is none */
        if (threads < 1 || threads > DRY_RUN_THREADS_MAX)
            return error_set(error, "what_if: number %zu is not from 1 to %d", i + 1, DRY_RUN_THREADS_MAX);
        plan->points[plan->point_count++] = (unsigned)threads;
    }
    return true;
}

/* --- a plan ----------------------------------------------------------------------------------------------------- */

void plan_json_write(struct json_writer *json, const char *name, const struct dry_run_plan *plan)
{
    json_open(json, name, '{');
    json_text(json, "id", plan->id);
    json_text(json, "kind", kind_names[plan->kind]);
    json_text(json, "class", plan->class_name);
    json_text(json, "arrivals", arrivals_names[plan->arrivals]);
    json_rows_write(json, plan_rows, plan);
    hold_write(json, &plan->hold);
    popularity_write(json, &plan->popularity);
    json_open(json, "faults", '[');
    for (unsigned i = 0; i < plan->fault_count; i++) {
        json_open(json, NULL, '{');
        json_text(json, "kind", dry_run_fault_names[plan->faults[i].kind]);
        json_rows_write(json, fault_rows, &plan->faults[i]);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_open(json, "what_if", '[');
    for (unsigned i = 0; i < plan->point_count; i++)
        json_number(json, NULL, plan->points[i]);
    json_close(json, ']');
    json_close(json, '}');
}

static bool id_from_json(const json_t *object, struct dry_run_plan *plan, struct error *error)
{
    const char *id;
    if (!text_from_json(object, "id", DRY_RUN_ID_BYTES, &id, error))
        return false;
    if (id == NULL || id[0] == '\0')
        return true;
    if (strspn(id, "0123456789abcdef") != DRY_RUN_ID_BYTES)
        return error_set(error, "id is not %d hexadecimal digits", DRY_RUN_ID_BYTES);
    memcpy(plan->id, id, DRY_RUN_ID_BYTES + 1);
    return true;
}

static bool words_from_json(const json_t *object, struct dry_run_plan *plan, struct error *error)
{
    int kind = (int)plan->kind, arrivals = (int)plan->arrivals;
    const char *class_name;
    if (!id_from_json(object, plan, error) || !word_from_json(object, "kind", kind_names, &kind, error) ||
        !word_from_json(object, "arrivals", arrivals_names, &arrivals, error) ||
        !text_from_json(object, "class", DRY_RUN_CLASS_BYTES_MAX, &class_name, error))
        return false;
    plan->kind = (enum dry_run_kind)kind;
    plan->arrivals = (enum dry_run_arrivals)arrivals;
    if (class_name != NULL)
        plan_set_class(plan, class_name);
    return true;
}

static bool load_from_json(const json_t *object, struct dry_run_plan *plan, struct error *error)
{
    const json_t *hold = json_object_get(object, "hold"), *popularity = json_object_get(object, "popularity");
    if (hold != NULL && !hold_from_json(hold, &plan->hold, error)) {
        error_prefix(error, "hold");
        return false;
    }
    if (popularity != NULL && !popularity_from_json(popularity, &plan->popularity, error)) {
        error_prefix(error, "popularity");
        return false;
    }
    return faults_from_json(json_object_get(object, "faults"), plan, error) &&
           points_from_json(json_object_get(object, "what_if"), plan, error);
}

bool plan_from_json(const json_t *object, struct dry_run_plan *plan, struct error *error)
{
    plan_init(plan);
    if (!json_is_object(object))
        return error_set(error, "the plan is no object");
    bool is_good = words_from_json(object, plan, error) && json_rows_read(object, plan_rows, NULL, plan, error) &&
                   load_from_json(object, plan, error);
    if (!is_good) {
        error_prefix(error, "the plan");
        return false;
    }
    if (plan->popularity.count < plan->resources_per_task)
        return error_set(error, "the plan: there are fewer resources than a task takes");
    if (plan->arrivals == DRY_RUN_OPEN && plan->rate <= 0)
        return error_set(error, "the plan: the rate is 0");
    plan_complete(plan);
    return true;
}
