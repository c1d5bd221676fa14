/* SPDX-License-Identifier: MIT-0 */
/* @NAME@: counts to a number, one step in a tenth of a second. Class: @NAME@.
 *
 * Put your work into one_step(). The rest shows how a handler works with its lock: it calls cancelled() before every
 * irreversible step, and returns if that is true. <holdfast/job.h> documents every function.
 *
 * Arguments: [STEPS], from 1 to 1000. Settings: pause_ms, of a step. Result: {"steps":STEPS}. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <holdfast/job.h>

enum { STEPS_MAX = 1000, PAUSE_MS_DEFAULT = 100 };

struct state {
    const hf_job_api *job;
    const hf_cancel_api *cancel;
    const hf_report_api *report;
    long pause_ms;
};

static void one_step(const struct state *state)
{
    struct timespec pause = {state->pause_ms / 1000, state->pause_ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static int run(hf_job *job, void *context)
{
    const struct state *state = context;
    int64_t steps = 0;
    char text[64];
    if (!state->job->arg_integer(job, 0, &steps) || steps < 1 || steps > STEPS_MAX) {
        state->job->error(job, "BadArguments", "expected [STEPS], a number from 1 to %d", STEPS_MAX);
        return HF_BURY; /* a retry would not help */
    }
    for (int64_t step = 1; step <= steps; step++) {
        if (state->cancel->cancelled(job))
            return HF_CANCELLED; /* the lock was lost, the worker stops, or the task was cancelled: the host knows */
        one_step(state);
        snprintf(text, sizeof text, "{\"done\":%lld,\"total\":%lld}", (long long)step, (long long)steps);
        state->report->progress(job, text);
    }
    state->job->log(job, HF_LOG_INFO, "counted to %lld", (long long)steps);
    snprintf(text, sizeof text, "{\"steps\":%lld}", (long long)steps);
    state->report->result(job, text); /* kept if the class has a result_ttl */
    return HF_OK;
}

static int open_plugin(const hf_host *host, void **context, char *reason, size_t reason_size)
{
    const char *pause_ms = host->setting(host, "pause_ms");
    struct state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        snprintf(reason, reason_size, "out of memory");
        return -1;
    }
    state->job = host->api("job", 1);
    state->cancel = host->api("cancel", 1);
    state->report = host->api("report", 1);
    state->pause_ms = pause_ms != NULL ? strtol(pause_ms, NULL, 10) : PAUSE_MS_DEFAULT;
    if (state->job == NULL || state->cancel == NULL || state->report == NULL || state->pause_ms < 0) {
        snprintf(reason, reason_size, state->pause_ms < 0 ? "pause_ms is below 0" : "the host lacks functions");
        free(state);
        return -1;
    }
    *context = state;
    return 0;
}

static const hf_handler handler = {
    .size = sizeof handler,
    .name = "@NAME@",
    .about = "counts; arguments: [STEPS]",
    .flags = HF_PROGRESS,
    .run = run,
};
static const hf_handler *const handlers[] = {&handler, NULL};

const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("@NAME@", "0.1"), .open = open_plugin, .close = free,
                                   .handlers = handlers};
