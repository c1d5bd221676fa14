/* What becomes of the task of a handler run, in a worker's terms, and how that is printed. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "queue/follow_up.h"
#include "worker/commands/handler_run.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"
#include "worker/task/run_outcome.h"

/* As the exit statuses of programs say the same things, where they do. */
static const struct {
    const char *name;
    int exit_code;
} endings[] = {
    [HANDLER_RUN_UNKNOWN] = {"unknown", EXIT_CODE_FAILURE},
    [HANDLER_RUN_DONE] = {"done", EXIT_CODE_OK},
    [HANDLER_RUN_RETRY] = {"retry", EXIT_CODE_TEMPORARY},
    [HANDLER_RUN_DEAD] = {"dead", 65},
    [HANDLER_RUN_DISCARDED] = {"discarded", 99},
    [HANDLER_RUN_SNOOZED] = {"snoozed", 98},
    [HANDLER_RUN_LOCK_LOST] = {"lock_lost", 97},
    [HANDLER_RUN_RETURNED] = {"returned", 96},
    [HANDLER_RUN_CANCELLED] = {"cancelled", 130},
};

int handler_run_exit_code(const struct handler_run *run)
{
    return endings[run->ending].exit_code;
}

/* How long a message can be, as far as it is shown. */
enum { SAID_MAX = 4096 };

void handler_run_say(struct handler_run *run, const char *about, const char *format, ...)
{
    char text[SAID_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(run->out, "%-9s %s\n", about, log_defuse(text));
    fflush(run->out);
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

void handler_run_bury(struct handler_run *run, const char *error_class, const char *reason)
{
    run->ending = HANDLER_RUN_DEAD;
    failure_set(&run->job.outcome.failure, error_class, "%s", reason);
}

/* What it said does not count any more. */
static void judge_loss(struct handler_run *run)
{
    struct job_outcome *outcome = &run->job.outcome;
    bool was_held_too_long = job_lock_loss(&run->job) == HF_HELD_TOO_LONG;
    job_outcome_clear(outcome);
    failure_set(&outcome->failure, "HF::LockLost", "the lock was lost while it ran, so its result was refused%s",
                was_held_too_long ? ": it was held for as long as its class may (max_hold)" : "");
    run->ending = HANDLER_RUN_LOCK_LOST;
    if (run->rules.on_lost == CONFIG_LOST_RETRY)
        run->comes_again_ns = failure_delay_ns(&run->envelope);
}

/* They would be pushed with its end. */
static bool follow_ups_fit(struct handler_run *run, struct error *error)
{
    const struct hf_job *job = &run->job;
    struct follow_ups tasks = {0};
    struct follow_up_parent parent = {.jid = job->jid,
                                      .queue = job->queue,
                                      .traceparent = job->traceparent,
                                      .limits = config_task_limits(run->config)};
    bool fit =
        follow_ups_read(&tasks, &parent, job->outcome.follow_ups, job->outcome.follow_up_count, wall_now(), error);
    follow_ups_fini(&tasks);
    return fit;
}

static enum flow_result result_find(struct handler_run *run)
{
    struct error error = ERROR_NONE;
    struct job_outcome *outcome = &run->job.outcome;
    struct run_end end = {
        .job = &run->job, .envelope = &run->envelope, .rules = &run->rules, .started = true, .code = run->code};
    enum flow_result result = run_result_of(&end, wall_now(), &run->failure_outcome);
    if (result != FLOW_RUN_OK || follow_ups_fit(run, &error))
        return result;
    job_outcome_clear(outcome);
    failure_set(&outcome->failure, "HF::FollowUpRefused", "%s", error.text);
    return run_failed_result(&run->envelope, &run->rules, wall_now(), &run->failure_outcome);
}

static void judge_result(struct handler_run *run)
{
    const struct hf_job *job = &run->job;
    switch ((int)result_find(run)) {
    case FLOW_RUN_OK:
        run->ending = HANDLER_RUN_DONE;
        return;
    case FLOW_RUN_FAILED:
        run->ending = HANDLER_RUN_RETRY;
        run->comes_again_ns = run_retry_delay_ns(job, &run->envelope);
        return;
    case FLOW_RUN_EXHAUSTED:
    case FLOW_RUN_BURIED:
        run->ending = HANDLER_RUN_DEAD;
        return;
    case FLOW_RUN_HOPELESS:
    case FLOW_RUN_DISCARDED:
        run->ending = HANDLER_RUN_DISCARDED;
        return;
    case FLOW_RUN_SNOOZED:
        run->ending = HANDLER_RUN_SNOOZED;
        run->comes_again_ns = run_snooze_ns(job);
        return;
    case FLOW_RUN_CANCELLED:
        run->ending = HANDLER_RUN_RETURNED;
        return;
    case FLOW_RUN_UNWANTED:
        run->ending = HANDLER_RUN_CANCELLED;
        return;
    default:
        invariant_unreachable("a run that was started has another result");
    }
}

void handler_run_judge(struct handler_run *run)
{
    if (!job_lock_is_valid(&run->job))
        judge_loss(run);
    else if (run->started)
        judge_result(run);
    else
        run->ending = HANDLER_RUN_RETURNED;
}

/* --- for people --------------------------------------------------------------------------------------------------- */

enum { ENDING_TEXT_MAX = HUMAN_TEXT_MAX + 32 };

/* Behind the name of the ending. */
static const char *ending_text(const struct handler_run *run, char out[ENDING_TEXT_MAX])
{
    static const char *const back = ": it goes back to the head of its queue";
    if (run->comes_again_ns >= 0) {
        char span[HUMAN_TEXT_MAX];
        snprintf(out, ENDING_TEXT_MAX, ": it comes again in %s", human_span(run->comes_again_ns / NS_PER_US, span));
        return out;
    }
    if (run->ending == HANDLER_RUN_RETURNED)
        return back;
    if (run->ending == HANDLER_RUN_LOCK_LOST)
        return run->rules.on_lost == CONFIG_LOST_REQUEUE ? back : ": it goes to the dead set";
    return "";
}

static void json_say(struct handler_run *run, const char *about, const char *json, size_t length)
{
    struct buffer text = {0};
    json_append_defused(&text, json, length);
    fprintf(run->out, "%-9s %s\n", about, buffer_text(&text));
    buffer_fini(&text);
}

/* What is pushed and kept with the end of the task, is when it is done. */
static void tell_people(struct handler_run *run)
{
    char text[ENDING_TEXT_MAX], span[HUMAN_TEXT_MAX];
    const struct job_outcome *outcome = &run->job.outcome;
    bool is_done = run->ending == HANDLER_RUN_DONE;
    if (is_done && outcome->has_result)
        json_say(run, "result", outcome->result.bytes, outcome->result.length);
    for (size_t i = 0; is_done && i < outcome->follow_up_count; i++)
        json_say(run, "push", outcome->follow_ups[i], strlen(outcome->follow_ups[i]));
    if (outcome->failure.error_class[0] != '\0')
        handler_run_say(run, "error", "%s: %s%s%s%s", outcome->failure.error_class, outcome->failure.message,
                        run->failure_outcome != NULL ? " (" : "",
                        run->failure_outcome != NULL ? run->failure_outcome : "",
                        run->failure_outcome != NULL ? ")" : "");
    handler_run_say(run, "outcome", "%s%s%s%s", endings[run->ending].name, ending_text(run, text),
                    run->started ? "; it ran for " : "",
                    run->started ? human_span(run->took_ns / NS_PER_US, span) : "");
}

/* --- for programs ------------------------------------------------------------------------------------------------- */

static void json_error(struct json_writer *json, const struct handler_run *run)
{
    const struct failure *failure = &run->job.outcome.failure;
    if (failure->error_class[0] == '\0') {
        json_nothing(json, "error");
        return;
    }
    json_open(json, "error", '{');
    json_text(json, "class", failure->error_class);
    json_text(json, "message", failure->message);
    json_close(json, '}');
}

static void json_outcome(struct json_writer *json, struct handler_run *run)
{
    const struct job_outcome *outcome = &run->job.outcome;
    bool is_done = run->ending == HANDLER_RUN_DONE;
    const struct job_progress *progress = &run->progress;
    json_raw(json, "progress", progress->length > 0 ? progress->text : NULL, progress->length);
    json_raw(json, "result", is_done && outcome->has_result ? outcome->result.bytes : NULL, outcome->result.length);
    json_open(json, "pushed", '[');
    for (size_t i = 0; is_done && i < outcome->follow_up_count; i++)
        json_raw(json, NULL, outcome->follow_ups[i], strlen(outcome->follow_ups[i]));
    json_close(json, ']');
}

static void tell_programs(struct handler_run *run)
{
    struct json_writer json = json_begin(&(struct buffer){0});
    json_text(&json, "class", run->job.class_name);
    json_text(&json, "jid", run->job.jid);
    json_text(&json, "isolation", isolation_name(run->rules.isolation));
    json_text(&json, "outcome", endings[run->ending].name);
    json_error(&json, run);
    json_seconds_if(&json, "comes_again_in", run->comes_again_ns >= 0, run->comes_again_ns / NS_PER_US);
    json_seconds(&json, "ran_for", run->took_ns / NS_PER_US);
    json_outcome(&json, run);
    json_finish(&json);
}

void handler_run_print(struct handler_run *run)
{
    if (run->request.as_json)
        tell_programs(run);
    else
        tell_people(run);
}
