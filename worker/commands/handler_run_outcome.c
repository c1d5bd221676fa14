/* What becomes of the task of a rehearsal, in a worker's terms, and telling it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "queue/follow_up.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"
#include "worker/commands/handler_run.h"
#include "worker/task/run_result.h"

/* As the exit statuses of programs say the same things, where they do. */
static const struct {
    const char *name;
    int exit_code;
} endings[] = {
    [REHEARSAL_UNKNOWN] = {"unknown", EXIT_CODE_FAILURE},
    [REHEARSAL_DONE] = {"done", EXIT_CODE_OK},
    [REHEARSAL_RETRY] = {"retry", EXIT_CODE_TEMPORARY},
    [REHEARSAL_DEAD] = {"dead", 65},
    [REHEARSAL_DISCARDED] = {"discarded", 99},
    [REHEARSAL_SNOOZED] = {"snoozed", 98},
    [REHEARSAL_LOCK_LOST] = {"lock_lost", 97},
    [REHEARSAL_RETURNED] = {"returned", 96},
    [REHEARSAL_CANCELLED] = {"cancelled", 130},
};

int rehearsal_exit_code(const struct rehearsal *rehearsal)
{
    return endings[rehearsal->ending].exit_code;
}

/* How long a message can be, as far as it is shown. */
enum { SAID_MAX = 4096 };

void rehearsal_say(struct rehearsal *rehearsal, const char *about, const char *format, ...)
{
    char text[SAID_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(rehearsal->out, "%-9s %s\n", about, log_defuse(text));
    fflush(rehearsal->out);
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

void rehearsal_bury(struct rehearsal *rehearsal, const char *error_class, const char *reason)
{
    rehearsal->ending = REHEARSAL_DEAD;
    failure_set(&rehearsal->job.outcome.failure, error_class, "%s", reason);
}

/* What it said does not count any more. */
static void judge_loss(struct rehearsal *rehearsal)
{
    struct job_outcome *outcome = &rehearsal->job.outcome;
    bool was_held_too_long = job_lock_loss(&rehearsal->job) == HF_HELD_TOO_LONG;
    job_outcome_clear(outcome);
    failure_set(&outcome->failure, "HF::LockLost", "the lock was lost while it ran, so its result was refused%s",
                was_held_too_long ? ": it was held for as long as its class may (max_hold)" : "");
    rehearsal->ending = REHEARSAL_LOCK_LOST;
    if (rehearsal->rules.on_lost == CONFIG_LOST_RETRY)
        rehearsal->comes_again_ns = failure_delay_ns(&rehearsal->envelope);
}

/* They would be pushed with its end. */
static bool follow_ups_fit(struct rehearsal *rehearsal, struct error *error)
{
    const struct hf_job *job = &rehearsal->job;
    struct follow_ups tasks = {0};
    struct follow_up_parent parent = {
        .jid = job->jid, .queue = job->queue, .limits = config_task_limits(rehearsal->config)};
    bool fit =
        follow_ups_read(&tasks, &parent, job->outcome.follow_ups, job->outcome.follow_up_count, wall_now(), error);
    follow_ups_fini(&tasks);
    return fit;
}

static enum flow_result result_find(struct rehearsal *rehearsal)
{
    struct error error = ERROR_NONE;
    struct job_outcome *outcome = &rehearsal->job.outcome;
    struct run_end end = {.job = &rehearsal->job,
                          .envelope = &rehearsal->envelope,
                          .rules = &rehearsal->rules,
                          .started = true,
                          .code = rehearsal->code};
    enum flow_result result = run_result_of(&end, wall_now(), &rehearsal->fate);
    if (result != FLOW_RUN_OK || follow_ups_fit(rehearsal, &error))
        return result;
    job_outcome_clear(outcome);
    failure_set(&outcome->failure, "HF::FollowUpRefused", "%s", error.text);
    return run_failed_result(&rehearsal->envelope, &rehearsal->rules, wall_now(), &rehearsal->fate);
}

static void judge_result(struct rehearsal *rehearsal)
{
    const struct hf_job *job = &rehearsal->job;
    switch ((int)result_find(rehearsal)) {
    case FLOW_RUN_OK:
        rehearsal->ending = REHEARSAL_DONE;
        return;
    case FLOW_RUN_FAILED:
        rehearsal->ending = REHEARSAL_RETRY;
        rehearsal->comes_again_ns = run_retry_delay_ns(job, &rehearsal->envelope);
        return;
    case FLOW_RUN_EXHAUSTED:
    case FLOW_RUN_BURIED:
        rehearsal->ending = REHEARSAL_DEAD;
        return;
    case FLOW_RUN_HOPELESS:
    case FLOW_RUN_DISCARDED:
        rehearsal->ending = REHEARSAL_DISCARDED;
        return;
    case FLOW_RUN_SNOOZED:
        rehearsal->ending = REHEARSAL_SNOOZED;
        rehearsal->comes_again_ns = run_snooze_ns(job);
        return;
    case FLOW_RUN_CANCELLED:
        rehearsal->ending = REHEARSAL_RETURNED;
        return;
    case FLOW_RUN_UNWANTED:
        rehearsal->ending = REHEARSAL_CANCELLED;
        return;
    default:
        invariant_unreachable("a run that was started has another result");
    }
}

void rehearsal_judge(struct rehearsal *rehearsal)
{
    if (!job_lock_is_valid(&rehearsal->job))
        judge_loss(rehearsal);
    else if (rehearsal->started)
        judge_result(rehearsal);
    else
        rehearsal->ending = REHEARSAL_RETURNED;
}

/* --- for people --------------------------------------------------------------------------------------------------- */

enum { ENDING_TEXT_MAX = HUMAN_TEXT_MAX + 32 };

static const char *comes_again(const struct rehearsal *rehearsal, char out[ENDING_TEXT_MAX])
{
    char span[HUMAN_TEXT_MAX];
    snprintf(out, ENDING_TEXT_MAX, ": it comes again in %s", human_span(rehearsal->comes_again_ns / NS_PER_US, span));
    return out;
}

/* Behind the name of the ending. */
static const char *ending_text(const struct rehearsal *rehearsal, char out[ENDING_TEXT_MAX])
{
    static const char *const back = ": it goes back to the head of its queue";
    if (rehearsal->comes_again_ns >= 0)
        return comes_again(rehearsal, out);
    if (rehearsal->ending == REHEARSAL_RETURNED)
        return back;
    if (rehearsal->ending == REHEARSAL_LOCK_LOST)
        return rehearsal->rules.on_lost == CONFIG_LOST_REQUEUE ? back : ": it goes to the dead set";
    return "";
}

static void json_say(struct rehearsal *rehearsal, const char *about, const char *json, size_t length)
{
    struct buffer text = {0};
    json_append_defused(&text, json, length);
    fprintf(rehearsal->out, "%-9s %s\n", about, buffer_text(&text));
    buffer_fini(&text);
}

/* What is pushed and kept with the end of the task, is when it is done. */
static void tell_people(struct rehearsal *rehearsal)
{
    char text[ENDING_TEXT_MAX], span[HUMAN_TEXT_MAX];
    const struct job_outcome *outcome = &rehearsal->job.outcome;
    bool is_done = rehearsal->ending == REHEARSAL_DONE;
    if (is_done && outcome->has_result)
        json_say(rehearsal, "result", outcome->result.bytes, outcome->result.length);
    for (size_t i = 0; is_done && i < outcome->follow_up_count; i++)
        json_say(rehearsal, "push", outcome->follow_ups[i], strlen(outcome->follow_ups[i]));
    if (outcome->failure.error_class[0] != '\0')
        rehearsal_say(rehearsal, "error", "%s: %s%s%s%s", outcome->failure.error_class, outcome->failure.message,
                      rehearsal->fate != NULL ? " (" : "", rehearsal->fate != NULL ? rehearsal->fate : "",
                      rehearsal->fate != NULL ? ")" : "");
    rehearsal_say(rehearsal, "outcome", "%s%s, after %s", endings[rehearsal->ending].name, ending_text(rehearsal, text),
                  human_span(rehearsal->took_ns / NS_PER_US, span));
}

/* --- for programs ------------------------------------------------------------------------------------------------- */

static void json_error(struct json_writer *json, const struct rehearsal *rehearsal)
{
    const struct failure *failure = &rehearsal->job.outcome.failure;
    if (failure->error_class[0] == '\0') {
        json_nothing(json, "error");
        return;
    }
    json_open(json, "error", '{');
    json_text(json, "class", failure->error_class);
    json_text(json, "message", failure->message);
    json_close(json, '}');
}

static void json_outcome(struct json_writer *json, struct rehearsal *rehearsal)
{
    const struct job_outcome *outcome = &rehearsal->job.outcome;
    bool is_done = rehearsal->ending == REHEARSAL_DONE;
    const struct job_progress *progress = &rehearsal->progress;
    json_raw(json, "progress", progress->length > 0 ? progress->text : NULL, progress->length);
    json_raw(json, "result", is_done && outcome->has_result ? outcome->result.bytes : NULL, outcome->result.length);
    json_open(json, "pushed", '[');
    for (size_t i = 0; is_done && i < outcome->follow_up_count; i++)
        json_raw(json, NULL, outcome->follow_ups[i], strlen(outcome->follow_ups[i]));
    json_close(json, ']');
}

static void tell_programs(struct rehearsal *rehearsal)
{
    struct json_writer json = json_begin(&(struct buffer){0});
    json_text(&json, "class", rehearsal->job.class_name);
    json_text(&json, "jid", rehearsal->job.jid);
    json_text(&json, "isolation", isolation_name(rehearsal->rules.isolation));
    json_text(&json, "outcome", endings[rehearsal->ending].name);
    json_error(&json, rehearsal);
    json_seconds_if(&json, "comes_again_in", rehearsal->comes_again_ns >= 0, rehearsal->comes_again_ns / NS_PER_US);
    json_seconds(&json, "ran_for", rehearsal->took_ns / NS_PER_US);
    json_outcome(&json, rehearsal);
    json_finish(&json);
}

void rehearsal_tell(struct rehearsal *rehearsal)
{
    if (rehearsal->wish.as_json)
        tell_programs(rehearsal);
    else
        tell_people(rehearsal);
}
