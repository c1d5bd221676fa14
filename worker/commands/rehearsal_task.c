/* The task of a rehearsal: a text like any producer's, parsed and judged as a worker does. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/invariant.h"
#include "worker/commands/rehearsal.h"

static void task_write(const struct rehearsal_wish *wish, struct buffer *out)
{
    struct buffer resources = {0};
    buffer_append_text(&resources, "[");
    for (size_t i = 0; i < wish->resources.count; i++) {
        buffer_append_text(&resources, i > 0 ? "," : "");
        envelope_append_string(&resources, wish->resources.items[i], strlen(wish->resources.items[i]));
    }
    buffer_append_text(&resources, "]");
    struct envelope_draft draft = {
        .class_name = wish->class_name,
        .queue = "default",
        .args = wish->args,
        .resources_json = wish->resources.count > 0 ? text_span_of(&resources) : (struct text_span){0},
    };
    envelope_write(&draft, wall_now(), out);
    buffer_fini(&resources);
}

/* As if it had failed before: the n-th retry has counted the failures before it, from 0 on. */
static void attempt_write(struct rehearsal *rehearsal, struct error *error)
{
    char count[24];
    struct buffer text = {0};
    snprintf(count, sizeof count, "%" PRId64, rehearsal->wish.attempt - 1);
    struct envelope_change change = {"retry_count", {count, strlen(count)}};
    envelope_rewrite(&rehearsal->envelope, &change, 1, &text);
    buffer_fini(&rehearsal->text);
    rehearsal->text = text;
    invariant(envelope_parse(&rehearsal->envelope, text.bytes, text.length, &ENVELOPE_LIMITS_DEFAULT, error));
}

/* What it locks, as a worker would: what it names, else what the templates of its class make of its arguments. */
static void resources_find(struct rehearsal *rehearsal)
{
    struct error error = ERROR_NONE;
    struct task_rules *rules = &rehearsal->rules;
    switch (task_resources_resolve(&rehearsal->resources, &rehearsal->envelope, rules, rehearsal->known, &error)) {
    case TASK_RESOURCES_OK:
        rehearsal->is_locked = true;
        return;
    case TASK_RESOURCES_BAD:
        rehearsal_bury(rehearsal, rehearsal->resources.fault, error.text);
        return;
    case TASK_RESOURCES_NONE:
        if (rules->must_lock)
            rehearsal_bury(rehearsal, "HF::NoResource", "its class needs a lock, and it names no resource");
        return;
    }
}

static void facts_set(struct rehearsal *rehearsal)
{
    const struct rehearsal_wish *wish = &rehearsal->wish;
    struct hf_job *job = &rehearsal->job;
    job->class_name = rehearsal->envelope.class_name;
    job->queue = rehearsal->envelope.queue;
    job->jid = rehearsal->envelope.jid;
    job->args = rehearsal->envelope.args;
    job->attempt = (unsigned)wish->attempt;
    job->resources = rehearsal->resources.names;
    job->resource_count = rehearsal->is_locked ? rehearsal->resources.count : 0;
    if (rehearsal->is_locked && !rehearsal->rules.unfenced)
        snprintf(job->fence, sizeof job->fence, "%lld", (long long)wish->fence);
    job->checkpoint = wish->checkpoint;
    job->reports_progress = (rehearsal->handler->flags & HF_PROGRESS) != 0;
    job->keeps_result = true;
    job->may_push = !rehearsal->rules.at_most_once;
    job->task_limits = config_task_limits(rehearsal->config);
    job->link = &rehearsal_link;
    job->board = rehearsal->board;
    job->berth = board_berth(rehearsal->board, 0);
    job->validity = rehearsal->is_locked ? &job->berth->validity : NULL;
}

bool rehearsal_task_make(struct rehearsal *rehearsal, struct error *error)
{
    struct envelope_limits limits = config_task_limits(rehearsal->config);
    job_outcome_clear(&rehearsal->job.outcome);
    task_write(&rehearsal->wish, &rehearsal->text);
    if (!envelope_parse(&rehearsal->envelope, rehearsal->text.bytes, rehearsal->text.length, &limits, error))
        return false;
    if (rehearsal->wish.attempt > 0)
        attempt_write(rehearsal, error);
    rehearsal->rules = task_rules_of(&rehearsal->envelope, rehearsal->config, rehearsal->handler);
    if (rehearsal->wish.timeout_ns >= 0)
        rehearsal->rules.timeout_ns = rehearsal->wish.timeout_ns;
    if (rehearsal->wish.in_process && rehearsal->handler->program != NULL)
        return error_set(error, "the class %s is a program, which cannot run in this process",
                         rehearsal->wish.class_name);
    if (rehearsal->wish.in_process)
        rehearsal->rules.isolation = CONFIG_ISOLATION_THREAD;
    rehearsal->known = class_resources_create(rehearsal->config, rehearsal->plugins, &rehearsal->findings);
    resources_find(rehearsal);
    facts_set(rehearsal);
    if (rehearsal->rules.refused_class != NULL)
        rehearsal_bury(rehearsal, rehearsal->rules.refused_class, rehearsal->rules.refused_reason);
    return true;
}
