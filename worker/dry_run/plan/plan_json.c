/* Single members are rows of a table; popularity, hold and faults are objects of their own. */
#include "worker/dry_run/plan/plan_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "redlock/redlock.h"
#include "worker/dry_run/plan/plan_files.h"
#include "worker/dry_run/plan/plan_parameters.h"

#define WEIGHT_MAX 1e15

/* --- single members --------------------------------------------------------------------------------------------- */

enum member_kind { MEMBER_TRUTH, MEMBER_NUMBER, MEMBER_SEED, MEMBER_REAL, MEMBER_TIME };

struct member {
    const char *name;
    enum member_kind kind;
    size_t offset;
    double low, high;
};

#define OF_PLAN(member)  offsetof(struct dry_run_plan, member)
#define OF_FAULT(member) offsetof(struct dry_run_fault, member)
#define MEMBERS_END                                                                                                    \
    {                                                                                                                  \
        NULL, MEMBER_TRUTH, 0, 0, 0                                                                                    \
    }

#define MEMBER_SHARE                                      MEMBER_REAL
#define MEMBER_RATE                                       MEMBER_REAL
#define MEMBER_FACTOR                                     MEMBER_REAL
#define PLAN_MEMBER(kind, member, name, least, most, ...) {name, MEMBER_##kind, OF_PLAN(member), least, (double)(most)},

static const struct member plan_members[] = {
    {"local", MEMBER_TRUTH, OF_PLAN(is_local), 0, 1},
    {"local_nodes", MEMBER_NUMBER, OF_PLAN(local_nodes), 1, REDLOCK_NODES_MAX},
    {"rate", MEMBER_REAL, OF_PLAN(rate), 0, DRY_RUN_RATE_MAX},
    {"population", MEMBER_NUMBER, OF_PLAN(population), 0, DRY_RUN_POPULATION_MAX},
    {"population_given", MEMBER_TRUTH, OF_PLAN(is_population_given), 0, 1},
    PLAN_PARAMETERS(PLAN_MEMBER) MEMBERS_END};

static const struct member fault_members[] = {
    {"at", MEMBER_TIME, OF_FAULT(at_ns), 0, PLAN_SECONDS_MAX},
    {"lasts", MEMBER_TIME, OF_FAULT(lasts_ns), 0, PLAN_SECONDS_MAX},
    {"amount", MEMBER_TIME, OF_FAULT(amount_ns), -PLAN_SECONDS_MAX, PLAN_SECONDS_MAX},
    {"at_worker", MEMBER_TRUTH, OF_FAULT(at_worker), 0, 1},
    {"number", MEMBER_NUMBER, OF_FAULT(number), 0, DRY_RUN_PROCESSES_MAX},
    MEMBERS_END};

static json_t *real_json(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

static json_t *member_to_json(const struct member *member, const void *owner)
{
    const void *value = (const char *)owner + member->offset;
    switch (member->kind) {
    case MEMBER_TRUTH:
        return json_boolean(*(const bool *)value);
    case MEMBER_NUMBER:
        return json_integer(*(const unsigned *)value);
    case MEMBER_SEED:
        return json_integer((json_int_t) * (const uint64_t *)value);
    case MEMBER_REAL:
        return real_json(*(const double *)value);
    case MEMBER_TIME:
        return real_json((double)*(const int64_t *)value / (double)NS_PER_S);
    }
    invariant_unreachable("a kind that does not exist");
}

static void members_to_json(json_t *object, const struct member *members, const void *owner)
{
    for (; members->name != NULL; members++)
        json_object_set_new(object, members->name, member_to_json(members, owner));
}

static bool member_from_json(const struct member *member, const json_t *value, void *owner, struct error *error)
{
    void *place = (char *)owner + member->offset;
    if (member->kind == MEMBER_TRUTH) {
        *(bool *)place = json_is_true(value);
        return json_is_boolean(value) || error_set(error, "%s is neither true nor false", member->name);
    }
    bool is_whole = member->kind == MEMBER_NUMBER || member->kind == MEMBER_SEED;
    double number = json_number_value(value);
    if (!(is_whole ? json_is_integer(value) : json_is_number(value)) || !(number >= member->low) ||
        !(number <= member->high))
        return error_set(error, "%s is not a %snumber from %.16g to %.16g", member->name, is_whole ? "whole " : "",
                         member->low, member->high);
    if (member->kind == MEMBER_NUMBER)
        *(unsigned *)place = (unsigned)number;
    else if (member->kind == MEMBER_SEED)
        *(uint64_t *)place = (uint64_t)json_integer_value(value);
    else if (member->kind == MEMBER_REAL)
        *(double *)place = number;
    else
        *(int64_t *)place = llround(number * (double)NS_PER_S);
    return true;
}

static bool members_from_json(const json_t *object, const struct member *members, void *owner, struct error *error)
{
    for (; members->name != NULL; members++) {
        const json_t *value = json_object_get(object, members->name);
        if (value != NULL && !member_from_json(members, value, owner, error))
            return false;
    }
    return true;
}

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
static bool word_from_json(const json_t *object, const char *name, const char *const *words, unsigned *chosen,
                           struct error *error)
{
    const json_t *value = json_object_get(object, name);
    if (value == NULL)
        return true;
    const char *text = json_string_value(value);
    for (unsigned i = 0; text != NULL && words[i] != NULL; i++)
        if (strcmp(text, words[i]) == 0) {
            *chosen = i;
            return true;
        }
    return error_set(error, "%s is nothing that this version knows", name);
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

static json_t *reals_to_json(const double *numbers, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, real_json(numbers[i]));
    return array;
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

static json_t *hold_to_json(const struct distribution *hold)
{
    json_t *object = json_object();
    json_object_set_new(object, "kind", json_string(hold_names[hold->kind]));
    if (hold->kind == DISTRIBUTION_MEASURED) {
        json_object_set_new(object, "quantiles", reals_to_json(hold->quantiles, hold->quantile_count));
        return object;
    }
    json_object_set_new(object, "mean", real_json(hold->mean_s));
    if (hold->kind == DISTRIBUTION_LOGNORMAL)
        json_object_set_new(object, "sigma", real_json(hold->sigma));
    return object;
}

static const struct member hold_members[] = {
    {"mean", MEMBER_REAL, offsetof(struct distribution, mean_s), 0, PLAN_SECONDS_MAX},
    {"sigma", MEMBER_REAL, offsetof(struct distribution, sigma), 0, 5},
    MEMBERS_END};

static bool hold_from_json(const json_t *object, struct distribution *hold, struct error *error)
{
    unsigned kind = DISTRIBUTION_FIXED;
    if (!json_is_object(object))
        return error_set(error, "it is no object");
    if (!word_from_json(object, "kind", hold_names, &kind, error))
        return false;
    *hold = (struct distribution){.kind = (enum distribution_kind)kind};
    if (hold->kind != DISTRIBUTION_MEASURED && json_object_get(object, "mean") == NULL)
        return error_set(error, "it has no mean");
    if (hold->kind != DISTRIBUTION_MEASURED)
        return members_from_json(object, hold_members, hold, error);
    const json_t *quantiles = json_object_get(object, "quantiles");
    hold->quantiles =
        reals_from_json(quantiles, "quantiles", DISTRIBUTION_QUANTILES_MAX, 0, PLAN_SECONDS_MAX, true, error);
    hold->quantile_count = hold->quantiles != NULL ? json_array_size(quantiles) : 0;
    return hold->quantiles != NULL;
}

/* --- resources -------------------------------------------------------------------------------------------------- */

static const struct member popularity_members[] = {
    {"resources", MEMBER_NUMBER, offsetof(struct popularity, count), 1, DRY_RUN_RESOURCES_MAX},
    {"exponent", MEMBER_REAL, offsetof(struct popularity, exponent), 0, 20},
    {"hot", MEMBER_NUMBER, offsetof(struct popularity, hot), 0, DRY_RUN_RESOURCES_MAX},
    {"hot_share", MEMBER_REAL, offsetof(struct popularity, hot_share), 0, 1},
    MEMBERS_END};

static json_t *names_to_json(const struct popularity *popularity)
{
    json_t *array = json_array();
    for (unsigned i = 0; i < popularity->count; i++)
        json_array_append_new(array, json_string(popularity->names[i]));
    return array;
}

static json_t *popularity_to_json(const struct popularity *popularity)
{
    json_t *object = json_object();
    json_object_set_new(object, "kind", json_string(popularity_names[popularity->kind]));
    members_to_json(object, popularity_members, popularity);
    if (popularity->weights != NULL)
        json_object_set_new(object, "weights", reals_to_json(popularity->weights, popularity->count));
    if (popularity->names != NULL)
        json_object_set_new(object, "names", names_to_json(popularity));
    return object;
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
    unsigned kind = popularity->kind;
    if (!json_is_object(object))
        return error_set(error, "it is no object");
    if (!word_from_json(object, "kind", popularity_names, &kind, error) ||
        !members_from_json(object, popularity_members, popularity, error))
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

static json_t *faults_to_json(const struct dry_run_plan *plan)
{
    json_t *array = json_array();
    for (unsigned i = 0; i < plan->fault_count; i++) {
        json_t *object = json_object();
        json_object_set_new(object, "kind", json_string(dry_run_fault_names[plan->faults[i].kind]));
        members_to_json(object, fault_members, &plan->faults[i]);
        json_array_append_new(array, object);
    }
    return array;
}

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
        unsigned kind = DRY_RUN_FAULT_KINDS;
        bool is_good = word_from_json(object, "kind", dry_run_fault_names, &kind, error) &&
                       (kind < DRY_RUN_FAULT_KINDS || error_set(error, "kind is no fault that this version knows")) &&
                       members_from_json(object, fault_members, fault, error);
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

static json_t *points_to_json(const struct dry_run_plan *plan)
{
    json_t *array = json_array();
    for (unsigned i = 0; i < plan->point_count; i++)
        json_array_append_new(array, json_integer(plan->points[i]));
    return array;
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

json_t *plan_to_json(const struct dry_run_plan *plan)
{
    json_t *object = json_object();
    json_object_set_new(object, "id", json_string(plan->id));
    json_object_set_new(object, "kind", json_string(kind_names[plan->kind]));
    json_object_set_new(object, "class", json_string(plan->class_name));
    json_object_set_new(object, "arrivals", json_string(arrivals_names[plan->arrivals]));
    members_to_json(object, plan_members, plan);
    json_object_set_new(object, "hold", hold_to_json(&plan->hold));
    json_object_set_new(object, "popularity", popularity_to_json(&plan->popularity));
    json_object_set_new(object, "faults", faults_to_json(plan));
    json_object_set_new(object, "what_if", points_to_json(plan));
    return object;
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
    unsigned kind = plan->kind, arrivals = plan->arrivals;
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
    bool is_good = words_from_json(object, plan, error) && members_from_json(object, plan_members, plan, error) &&
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

void plan_json_write(const struct dry_run_plan *plan, struct buffer *out)
{
    json_t *object = plan_to_json(plan);
    char *text = json_dumps(object, JSON_COMPACT);
    invariant(text != NULL);
    buffer_append_text(out, text);
    free(text);
    json_decref(object);
}
