#include "worker/isolation/program_environment.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/envelope.h"

enum { CAPACITY_FIRST = 32 };

void program_inheritance_take(struct program_inheritance *inheritance)
{
    static const char *const names[PROGRAM_INHERITED] = {"PATH", "HOME", "LANG", "TZ"};
    for (size_t i = 0; i < PROGRAM_INHERITED; i++) {
        const char *value = getenv(names[i]);
        struct buffer text = {0};
        if (value != NULL)
            buffer_format(&text, "%s=%s", names[i], value);
        inheritance->variables[i] = value != NULL ? memory_text(buffer_text(&text)) : NULL;
        buffer_fini(&text);
    }
}

void program_inheritance_fini(struct program_inheritance *inheritance)
{
    for (size_t i = 0; i < PROGRAM_INHERITED; i++)
        free(inheritance->variables[i]);
}

/* --- one variable after the other, each with its NUL ------------------------------------------------------------- */

static void text_put(struct buffer *text, const char *name, const char *value)
{
    buffer_append_text(text, name);
    buffer_append(text, "=", 1);
    buffer_append(text, value, strlen(value) + 1);
}

static void number_put(struct buffer *text, const char *name, int64_t value)
{
    buffer_format(text, "%s=%lld", name, (long long)value);
    buffer_append(text, "", 1);
}

static void resources_put(struct buffer *text, const struct hf_job *job, unsigned count)
{
    if (count > 0)
        text_put(text, "HF_RESOURCE", job->resources[0]);
    buffer_append_text(text, "HF_RESOURCES=[");
    for (unsigned i = 0; i < count; i++) {
        buffer_append(text, ",", i > 0 ? 1 : 0);
        envelope_append_string(text, job->resources[i], strlen(job->resources[i]));
    }
    buffer_append(text, "]", sizeof "]");
}

static void lock_put(struct buffer *text, const struct hf_job *job)
{
    bool is_locked = job->validity != NULL;
    resources_put(text, job, is_locked ? job->resource_count : 0);
    if (!is_locked)
        return;
    if (job->fence[0] != '\0')
        text_put(text, "HF_FENCE", job->fence);
    if (job->seat > 0)
        number_put(text, "HF_SEAT", job->seat);
    number_put(text, "HF_LOCK_UNTIL_MS", atomic_load(&job->validity->until) / NS_PER_MS);
}

static void job_put(struct buffer *text, const struct hf_job *job)
{
    text_put(text, "HF_JID", job->jid);
    text_put(text, "HF_CLASS", job->class_name);
    text_put(text, "HF_QUEUE", job->queue);
    number_put(text, "HF_ATTEMPT", job->attempt);
    if (job->traceparent[0] != '\0')
        text_put(text, "TRACEPARENT", job->traceparent);
    text_put(text, "HF_RESULT_FD", "3");
    if (job->checkpoint != NULL)
        text_put(text, "HF_CHECKPOINT", job->checkpoint);
}

void program_environment_put(struct program_environment *environment, const char *name, const char *value)
{
    text_put(&environment->text, name, value);
}

static bool is_configured(const char *const *configured, const char *variable)
{
    size_t length = strcspn(variable, "=") + 1;
    for (; configured != NULL && *configured != NULL; configured++)
        if (strncmp(*configured, variable, length) == 0)
            return true;
    return false;
}

static void variable_append(struct program_environment *environment, size_t *count, const char *variable)
{
    if (*count == environment->capacity) {
        environment->capacity = environment->capacity == 0 ? CAPACITY_FIRST : 2 * environment->capacity;
        environment->variables =
            memory_resize(environment->variables, environment->capacity, sizeof environment->variables[0]);
    }
    environment->variables[(*count)++] = variable;
}

void program_environment_list(struct program_environment *environment, const struct program_inheritance *inheritance,
                              const char *const *configured)
{
    const struct buffer *text = &environment->text;
    size_t count = 0;
    for (size_t i = 0; i < PROGRAM_INHERITED; i++)
        if (inheritance->variables[i] != NULL && !is_configured(configured, inheritance->variables[i]))
            variable_append(environment, &count, inheritance->variables[i]);
    for (const char *const *variable = configured; variable != NULL && *variable != NULL; variable++)
        variable_append(environment, &count, *variable);
    for (const char *at = text->bytes; at < text->bytes + text->length; at += strlen(at) + 1)
        variable_append(environment, &count, at);
    variable_append(environment, &count, NULL);
}

void program_environment_set(struct program_environment *environment, const struct program_inheritance *inheritance,
                             const struct isolated_run *run)
{
    struct buffer *text = &environment->text;
    buffer_clear(text);
    job_put(text, run->job);
    lock_put(text, run->job);
    if (run->rules->timeout_ns > 0)
        number_put(text, "HF_TIMEOUT_MS", run->rules->timeout_ns / NS_PER_MS);
    program_environment_list(environment, inheritance, run->handler->environment);
}

void program_environment_fini(struct program_environment *environment)
{
    buffer_fini(&environment->text);
    free(environment->variables);
}
