/* How a run of a slot reaches its worker: what is behind the function tables of jobs/job.h for handlers in threads, and
 * behind what runs in processes say, which the loop hands on here. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "worker/task/job_progress.h"
#include "worker/worker_state.h"

static struct slot *slot_of(struct hf_job *job)
{
    return list_owner(job, struct slot, job);
}

static bool link_verify(struct hf_job *job, int64_t limit_ns)
{
    return job_verifier_ask(&slot_of(job)->verifier, limit_ns);
}

static int link_descriptor(struct hf_job *job)
{
    return redlock_validity_descriptor(job->validity);
}

static enum log_level level_of(enum hf_log_level level)
{
    static const enum log_level levels[] = {
        [HF_LOG_DEBUG] = LOG_DEBUG, [HF_LOG_INFO] = LOG_INFO, [HF_LOG_WARN] = LOG_WARN, [HF_LOG_ERROR] = LOG_ERROR};
    return levels[level];
}

static bool link_hears(struct hf_job *job, enum hf_log_level level)
{
    (void)job;
    return log_is_on(level_of(level));
}

static void link_log(struct hf_job *job, enum hf_log_level level, const char *text)
{
    char said[LOG_QUOTE_MAX], jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX];
    log_event(level_of(level), "job_says", "jid=%s class=%s text=%s", log_value(job->jid, jid),
              log_value(job->class_name, class_name), log_value(text, said));
}

static void link_event(struct hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields,
                       size_t count)
{
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX], quoted[LOG_QUOTE_MAX], text[LOG_LINE_MAX / 2] = "";
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const char *value = log_value(fields[i].value, quoted);
        if (used + strlen(fields[i].key) + strlen(value) + sizeof " =" > sizeof text)
            break;
        used += (size_t)snprintf(text + used, sizeof text - used, " %s=%s", fields[i].key, value);
    }
    log_event(level_of(level), "job_event", "event=%s jid=%s class=%s%s", name, log_value(job->jid, jid),
              log_value(job->class_name, class_name), text);
}

static bool link_progress(struct hf_job *job, const char *json)
{
    return slot_progress_put(slot_of(job), json);
}

const struct job_link slot_link = {
    .verify = link_verify,
    .descriptor = link_descriptor,
    .hears = link_hears,
    .log = link_log,
    .event = link_event,
    .progress = link_progress,
};
