#include "jobs/exec/surroundings.h"

#include <jansson.h>

static int add(struct exec_environment *environment, const char *name, const char *value)
{
    if (asprintf(&environment->variables[environment->count], "%s=%s", name, value) < 0) {
        environment->variables[environment->count] = NULL;
        return 0;
    }
    environment->count++;
    return 1;
}

static int add_number(struct exec_environment *environment, const char *name, long long value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", value);
    return add(environment, name, digits);
}

static int add_ours(struct exec_environment *environment)
{
    static const char *const names[] = {"PATH", "HOME", "LANG", "TZ"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && !add(environment, names[i], value))
            return 0;
    }
    return 1;
}

/* A name that is no UTF-8 has no JSON: then the list is left out, and HF_RESOURCE is still there. */
static int add_list(struct exec_environment *environment, const char *const *names, unsigned count)
{
    json_t *list = json_array();
    int is_whole = list != NULL;
    for (unsigned i = 0; is_whole && i < count; i++)
        is_whole = json_array_append_new(list, json_string(names[i])) == 0;
    char *text = is_whole ? json_dumps(list, JSON_COMPACT) : NULL;
    int is_good = text == NULL || add(environment, "HF_RESOURCES", text);
    free(text);
    json_decref(list);
    return is_good;
}

static int add_lock(struct exec_environment *environment, const struct kit *kit, const hf_job *job)
{
    const char *const *names;
    unsigned count = kit->lock->resources(job, &names);
    int64_t left_ms = kit->lock->valid_for_ms(job);
    if (count == 0)
        return 1;
    return add(environment, "HF_RESOURCE", names[0]) && add_list(environment, names, count) &&
           add(environment, "HF_FENCE", kit->lock->fence(job, 0)) &&
           (left_ms == INT64_MAX ||
            add_number(environment, "HF_LOCK_UNTIL_MS", (long long)(kit_now_ns() / 1000000 + left_ms)));
}

int exec_environment_make(struct exec_environment *environment, const struct kit *kit, const hf_job *job)
{
    *environment = (struct exec_environment){0};
    return add_ours(environment) && add(environment, "HF_JID", kit->job->jid(job)) &&
           add(environment, "HF_CLASS", kit->job->class_name(job)) &&
           add(environment, "HF_QUEUE", kit->job->queue(job)) &&
           add_number(environment, "HF_ATTEMPT", kit->job->attempt(job)) && add_lock(environment, kit, job);
}

void exec_environment_fini(struct exec_environment *environment)
{
    for (unsigned i = 0; i < environment->count; i++)
        free(environment->variables[i]);
}
