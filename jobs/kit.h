/* Shared by the handlers that ship with Holdfast: the host's tables, settings, and pauses that notice cancellation.
 * Static inline, because a plugin is one file. */
#ifndef JOBS_KIT_H
#define JOBS_KIT_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jobs/job.h"

struct kit {
    const hf_job_api *job;
    const hf_lock_api *lock;
    const hf_cancel_api *cancel;
    const hf_report_api *report;
};

/* Returns 0, or -1 after writing the reason: what open() returns. */
static inline int kit_find(struct kit *kit, const hf_host *host, char *reason, size_t reason_size)
{
    kit->job = host->api("job", 1);
    kit->lock = host->api("lock", 1);
    kit->cancel = host->api("cancel", 1);
    kit->report = host->api("report", 1);
    if (kit->job != NULL && kit->lock != NULL && kit->cancel != NULL && kit->report != NULL)
        return 0;
    snprintf(reason, reason_size, "the host lacks the functions job, lock, cancel or report in version 1");
    return -1;
}

/* For open(): zeroed memory of that size that begins with a usable struct kit; the caller frees it. NULL with a
 * reason. */
static inline void *kit_state(size_t size, const hf_host *host, char *reason, size_t reason_size)
{
    struct kit *kit = calloc(1, size);
    if (kit != NULL && kit_find(kit, host, reason, reason_size) == 0)
        return kit;
    if (kit == NULL)
        snprintf(reason, reason_size, "out of memory");
    free(kit);
    return NULL;
}

/* For run(): buries a task that cannot run. */
static inline int kit_bury(const struct kit *kit, hf_job *job, const char *error_class, const char *why)
{
    kit->job->error(job, error_class, "%s", why);
    return HF_BURY;
}

/* Reports the result, as JSON; a class that keeps no results ignores it. */
static inline void kit_result(const struct kit *kit, hf_job *job, const char *json)
{
    kit->report->result(job, json);
}

/* For check(): refuses with that reason. */
static inline int kit_refuse(char *reason, size_t reason_size, const char *why)
{
    snprintf(reason, reason_size, "%s", why);
    return 0;
}

/* For open(): fails with that reason. */
static inline int kit_fail(char *reason, size_t reason_size, const char *why)
{
    snprintf(reason, reason_size, "%s", why);
    return -1;
}

static inline const char *kit_setting(const hf_host *host, const char *key, const char *fallback)
{
    const char *value = host->setting(host, key);
    return value != NULL ? value : fallback;
}

/* A setting that is a whole number from 0 to `most`. Returns 0, or -1 after writing the reason. */
static inline int kit_setting_number(const hf_host *host, const char *key, int64_t most, int64_t *value, char *reason,
                                     size_t reason_size)
{
    const char *text = host->setting(host, key);
    char *rest = NULL;
    if (text == NULL)
        return 0;
    errno = 0;
    long long number = strtoll(text, &rest, 10);
    if (errno == 0 && rest != text && *rest == '\0' && number >= 0 && number <= most) {
        *value = number;
        return 0;
    }
    snprintf(reason, reason_size, "the setting %s is to be a whole number from 0 to %lld", key, (long long)most);
    return -1;
}

#define NS_PER_MS    INT64_C(1000000)
#define KIT_STEP_NS  (20 * NS_PER_MS)
#define KIT_NS_PER_S INT64_C(1000000000)

static inline int64_t kit_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * KIT_NS_PER_S + now.tv_nsec;
}

/* Waits in steps short enough to notice a cancellation. Returns 1 if the time has passed, 0 if cancelled; checks at
 * least once, after the last step. */
static inline int kit_pause(const struct kit *kit, const hf_job *job, int64_t duration_ns)
{
    int64_t end = kit_now_ns() + duration_ns;
    for (;;) {
        int64_t now = kit_now_ns();
        if (now >= end)
            return !kit->cancel->cancelled(job);
        int64_t until = end - now > KIT_STEP_NS ? now + KIT_STEP_NS : end;
        struct timespec at = {.tv_sec = until / KIT_NS_PER_S, .tv_nsec = until % KIT_NS_PER_S};
        clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &at, NULL);
        if (kit->cancel->cancelled(job))
            return 0;
    }
}

#endif
