#include "worker/isolation/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "worker/isolation/input.h"
#include "worker/isolation/output.h"
#include "worker/isolation/program_environment.h"
#include "worker/isolation/program_report.h"
#include "worker/isolation/program_status.h"

/* After a failure of the worker itself. */
enum { WORKER_TROUBLE_RETRY_MS = 10000 };

/* Most small programs have ended by then, and their output is read at once, in one cycle of the loop, not in four. */
#define WATCH_AFTER_NS (10 * NS_PER_MS)

enum { STDOUT, STDERR, STREAMS };

struct programs {
    struct isolation_options options;
    struct program_inheritance inheritance;
    struct program_environment environment; /* of the starting run */
    struct list all;
};

struct program {
    struct programs *programs;
    struct isolated_run *run;
    struct list link;
    struct child child;
    struct loop_hook refused; /* it did not start: reported at the end of the cycle */
    int refused_code;
    struct output *streams[STREAMS];
    struct output_budget budget;
    int report_fd; /* -1 = none */
    struct loop_watch *report_watch;
    struct loop_timer watch_later;
    struct program_report report;
    bool was_interrupted;
    enum hf_cancel_reason interrupted_for;
    bool was_warned;
};

/* --- what it says ------------------------------------------------------------------------------------------------- */

static void line_tell(const struct program *program, int stream, const char *line, size_t length)
{
    const struct hf_job *job = program->run->job;
    if (line != NULL)
        output_log(job->jid, job->class_name, stream == STDOUT ? "stdout" : "stderr", line, length);
}

static void stdout_told(void *context, const char *line, size_t length)
{
    line_tell(context, STDOUT, line, length);
}

static void stderr_told(void *context, const char *line, size_t length)
{
    line_tell(context, STDERR, line, length);
}

static void report_close(struct program *program)
{
    if (program->report_watch != NULL)
        loop_watch_stop(program->report_watch);
    program->report_watch = NULL;
    if (program->report_fd >= 0)
        close(program->report_fd);
    program->report_fd = -1;
}

/* Returns how many bytes were read; 0 if there are none. */
static size_t report_read(struct program *program)
{
    char bytes[OUTPUT_CYCLE_MAX];
    ssize_t length = read(program->report_fd, bytes, sizeof bytes);
    if (length > 0) {
        program_report_take(&program->report, bytes, (size_t)length, program->run->job);
        return (size_t)length;
    }
    if (length == 0 || (errno != EAGAIN && errno != EINTR))
        report_close(program);
    return 0;
}

static void report_ready(void *context, int events)
{
    (void)events;
    report_read(context);
}

static void report_drain(struct program *program)
{
    size_t total = 0, length = 0;
    while (program->report_fd >= 0 && total < OUTPUT_DRAIN_MAX && (length = report_read(program)) > 0)
        total += length;
    program_report_end(&program->report, program->run->job);
}

static void pipes_watch(struct loop_timer *timer)
{
    struct program *program = list_owner(timer, struct program, watch_later);
    for (int i = 0; i < STREAMS; i++)
        output_watch(program->streams[i]);
    program->report_watch =
        loop_watch_start(program->programs->options.loop, program->report_fd, LOOP_READABLE, report_ready, program);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void program_free(struct program *program)
{
    list_remove(&program->link);
    loop_hook_cancel(&program->refused);
    loop_timer_clear(program->programs->options.loop, &program->watch_later);
    for (int i = 0; i < STREAMS; i++)
        output_close(program->streams[i]);
    report_close(program);
    program_report_fini(&program->report);
    program->run->at = NULL;
    free(program);
}

/* The slot may start its next run inside `ended`. */
static void program_end(struct program *program, int code)
{
    struct isolated_run *run = program->run;
    program_free(program);
    run->ended(run, code);
}

static void refused_tell(struct loop_hook *hook)
{
    struct program *program = list_owner(hook, struct program, refused);
    program_end(program, program->refused_code);
}

static void program_refuse(struct program *program, int code)
{
    program->refused_code = code;
    loop_at_cycle_end(program->programs->options.loop, LOOP_GATHER, &program->refused);
}

/* The code of a run that could not start. */
static int trouble_code(const struct program *program, int failure)
{
    char reason[512], quoted[LOG_QUOTE_MAX], jid[LOG_QUOTE_MAX];
    struct hf_job *job = program->run->job;
    bool is_failure = program_start_verdict(program->run->handler->program[0], failure, reason, sizeof reason);
    if (!is_failure && failure == EPIPE)
        return ISOLATION_NOT_STARTED;
    failure_set(&job->outcome.failure, FAILURE_NOT_STARTED, "%s", reason);
    if (is_failure)
        return HF_FAIL;
    log_event(LOG_WARN, "program_not_started", "jid=%s reason=%s", log_value(job->jid, jid), log_value(reason, quoted));
    job_outcome_set_retry_in(&job->outcome, WORKER_TROUBLE_RETRY_MS);
    return HF_SNOOZE;
}

static void program_spawned(struct child *child, pid_t pid, int failure)
{
    (void)pid;
    struct program *program = list_owner(child, struct program, child);
    if (failure != 0)
        program_end(program, trouble_code(program, failure));
    else
        program->run->began(program->run);
}

/* Why the run was asked to stop. */
static enum hf_cancel_reason reason_of(const struct program *program)
{
    const struct hf_job *job = program->run->job;
    enum hf_cancel_reason loss = job_lock_loss(job);
    int asked = atomic_load_explicit(&job->run_entry->asked, memory_order_relaxed);
    if (loss != HF_NOT_CANCELLED)
        return loss;
    if (asked != HF_NOT_CANCELLED)
        return (enum hf_cancel_reason)asked;
    return job_was_cancelled(job) ? HF_SHUTDOWN : HF_NOT_CANCELLED;
}

/* If the run pushed an invalid task, or its result is invalid, it fails, so that it is not lost silently. */
static int refusal_heed(struct program *program, int code)
{
    const struct error *refusal = &program->report.refusal;
    if (code != HF_OK || !error_is_set(refusal))
        return job_outcome_code(&program->run->job->outcome, code);
    failure_set(&program->run->job->outcome.failure, "HF::BadFollowUp", "the task that it pushed was refused: %s",
                refusal->text);
    return HF_FAIL;
}

static void program_exited(struct child *child, const struct child_exit *end)
{
    struct program *program = list_owner(child, struct program, child);
    struct hf_job *job = program->run->job;
    for (int i = 0; i < STREAMS; i++)
        output_drain(program->streams[i]);
    report_drain(program);
    output_log_dropped(job->jid, job->class_name, &program->budget);
    struct program_end facts = {.wait_status = end->wait_status,
                                .was_killed = end->killed_run != 0,
                                .was_warned = program->was_warned,
                                .asked = reason_of(program),
                                .memory_limit = program->run->rules->memory_limit};
    facts.last_line = output_last(program->streams[STDERR], &facts.last_length);
    int code = program_verdict(&facts, &job->outcome.failure);
    program_end(program, refusal_heed(program, code));
}

/* --- the start ---------------------------------------------------------------------------------------------------- */

enum { INPUT, OUTPUT, ERRORS, REPORT, ENDS };

static void ends_close(int ends[ENDS])
{
    for (int i = 0; i < ENDS; i++)
        if (ends[i] >= 0)
            close(ends[i]);
}

static bool stream_open(struct program *program, int stream, int *end)
{
    int pair[2];
    if (!output_pipe(pair))
        return false;
    program->streams[stream] = output_open_unwatched(program->programs->options.loop, pair[0], &program->budget,
                                                     stream == STDOUT ? stdout_told : stderr_told, program);
    *end = pair[1];
    return true;
}

static bool report_open(struct program *program, int *end)
{
    int pair[2];
    if (!output_pipe(pair))
        return false;
    program->report_fd = pair[0];
    *end = pair[1];
    return true;
}

/* Opens the child's ends of all pipes and files; false with errno. */
static bool ends_open(struct program *program, int ends[ENDS])
{
    struct text_span args = program->run->job->args;
    return (ends[INPUT] = input_open(args.bytes, args.length)) >= 0 && stream_open(program, STDOUT, &ends[OUTPUT]) &&
           stream_open(program, STDERR, &ends[ERRORS]) && report_open(program, &ends[REPORT]);
}

static void program_order(struct program *program)
{
    struct programs *programs = program->programs;
    const struct isolated_run *run = program->run;
    int ends[ENDS] = {-1, -1, -1, -1};
    if (!ends_open(program, ends)) {
        program_refuse(program, trouble_code(program, errno));
        ends_close(ends);
        return;
    }
    program_environment_set(&programs->environment, &programs->inheritance, run);
    struct child_plan plan = {.kind = CHILD_PROGRAM,
                              .descriptor_count = ENDS,
                              .arguments = run->handler->program,
                              .environment = programs->environment.variables,
                              .directory = run->handler->directory,
                              .run_entry = run->run_entry,
                              .is_quiet = run->began == NULL,
                              .memory_bytes = run->rules->memory_limit,
                              .open_files = run->rules->open_files_limit};
    memcpy(plan.descriptors, ends, sizeof ends);
    launcher_spawn(programs->options.launcher, &program->child, &plan);
    ends_close(ends);
    loop_timer_set(programs->options.loop, &program->watch_later, loop_after(programs->options.loop, WATCH_AFTER_NS));
}

void programs_start(struct programs *programs, struct isolated_run *run)
{
    struct program *program = memory_new(struct program);
    program->programs = programs;
    program->run = run;
    program->report_fd = -1;
    run->at = program;
    list_init(&program->link);
    list_append(&programs->all, &program->link);
    child_init(&program->child, program_spawned, program_exited);
    loop_hook_init(&program->refused, refused_tell);
    loop_timer_init(&program->watch_later, pipes_watch);
    if (!job_may_begin(run->job))
        program_refuse(program, ISOLATION_NOT_STARTED);
    else if (job_is_unwanted(run->job))
        program_refuse(program, HF_CANCELLED);
    else
        program_order(program);
}

bool programs_withdraw(struct programs *programs, struct isolated_run *run)
{
    (void)programs;
    struct program *program = run->at;
    if (list_is_empty(&program->refused.link))
        return false;
    program_free(program);
    return true;
}

void programs_interrupt(struct programs *programs, struct isolated_run *run)
{
    struct program *program = run->at;
    enum hf_cancel_reason reason = reason_of(program);
    if (program->was_interrupted && program->interrupted_for == reason)
        return;
    program->was_interrupted = true;
    program->interrupted_for = reason;
    program->was_warned = program->was_warned || reason == HF_NOT_CANCELLED;
    launcher_kill(programs->options.launcher, &program->child, SIGTERM);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct programs *programs_create(const struct isolation_options *options)
{
    struct programs *programs = memory_new(struct programs);
    programs->options = *options;
    list_init(&programs->all);
    program_inheritance_take(&programs->inheritance);
    return programs;
}

void programs_destroy(struct programs *programs)
{
    if (programs == NULL)
        return;
    while (!list_is_empty(&programs->all)) {
        struct program *program = list_owner(programs->all.next, struct program, link);
        launcher_kill(programs->options.launcher, &program->child, SIGKILL);
        list_remove(&program->child.link);
        program_free(program);
    }
    program_inheritance_fini(&programs->inheritance);
    program_environment_fini(&programs->environment);
    free(programs);
}
