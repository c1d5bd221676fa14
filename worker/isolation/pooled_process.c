/* One runner process, on the loop: its start, its messages, and its end.
 *
 * The worker does not trust it: a message that is no frame, comes at the wrong time or is out of bounds ends the
 * process. In the steady state a run costs one send and one recv: frames are parsed in the read buffer, and only
 * incomplete ones are copied. One cycle of the loop reads from each process once. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/config/node_options.h"
#include "worker/isolation/process_pool.h"
#include "worker/isolation/program_status.h"
#include "worker/isolation/runner_process.h"

#define TELL_AGAIN_NS (60 * NS_PER_S)
enum { DOUBLINGS_MAX = 10, KEEP_BYTES_MAX = 1 << 20, ANSWERS_BYTES_MAX = 1 << 16 };

/* --- its kind ----------------------------------------------------------------------------------------------------- */

void process_pool_look(struct process_pool *pool)
{
    loop_at_cycle_end(pool->options.loop, LOOP_GATHER, &pool->serve);
}

static void refusal_tell(struct process_kind *kind, const char *reason, int64_t wait_ns)
{
    char path[LOG_QUOTE_MAX], quoted[LOG_QUOTE_MAX];
    struct instant now = loop_now(kind->pool->options.loop);
    if (kind->told.ns != 0 && instant_since(kind->told, now) < TELL_AGAIN_NS)
        return;
    kind->told = now;
    log_event(LOG_ERROR, "plugin_refused", "plugin=%s reason=%s again_in_s=%d", log_value(kind->plugin->path, path),
              log_value(reason, quoted), (int)(wait_ns / NS_PER_S));
}

void kind_struck(struct process_kind *kind, const char *reason)
{
    const struct process_pool_times *times = &kind->pool->times;
    int64_t wait_ns = times->back_off_ns << (kind->strikes < DOUBLINGS_MAX ? kind->strikes : DOUBLINGS_MAX);
    if (wait_ns > times->back_off_max)
        wait_ns = times->back_off_max;
    kind->strikes++;
    snprintf(kind->fault, sizeof kind->fault, "%s", reason);
    kind->not_before = loop_after(kind->pool->options.loop, wait_ns);
    loop_timer_set(kind->pool->options.loop, &kind->retry, kind->not_before);
    refusal_tell(kind, reason, wait_ns);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void writing_follow(struct pooled_process *process, bool waits)
{
    if (process->waits_to_write == waits)
        return;
    process->waits_to_write = waits;
    if (process->watch != NULL)
        loop_watch_change(process->watch, waits ? LOOP_READABLE | LOOP_WRITABLE : LOOP_READABLE);
}

static bool process_flush(struct pooled_process *process)
{
    size_t sent = 0;
    ssize_t count = 0;
    while (sent < process->out.length && count >= 0) {
        count = send(process->socket, process->out.bytes + sent, process->out.length - sent, MSG_NOSIGNAL);
        if (count > 0)
            sent += (size_t)count;
        else if (errno == EINTR)
            count = 0;
        else if (errno != EAGAIN)
            return false;
    }
    buffer_drop_front(&process->out, sent);
    if (process->out.length == 0 && process->out.capacity > KEEP_BYTES_MAX)
        buffer_fini(&process->out);
    writing_follow(process, process->out.length > 0);
    return true;
}

/* --- questions about the lock ------------------------------------------------------------------------------------- */

static void answer_add(struct pooled_process *process, enum frame_kind kind, int64_t question, bool is_yes)
{
    size_t start = frame_begin(&process->out, kind);
    frame_add_number(&process->out, question);
    frame_add_number(&process->out, is_yes);
    frame_end(&process->out, start);
}

static void verified(struct redlock_verify *verify, bool is_held)
{
    struct pooled_process *process = list_owner(verify, struct pooled_process, verify);
    process->is_asked = false;
    answer_add(process, FRAME_VERIFIED, process->question, is_held);
    (void)process_flush(process); /* a failure shows at the socket */
}

void process_unask(struct pooled_process *process)
{
    if (process->is_asked)
        redlock_lock_verify_cancel(process->run->lock, &process->verify);
    process->is_asked = false;
}

/* A process that asks without reading the answers would fill the worker's memory. */
static bool question_read(const struct pooled_process *process, const struct frame *frame, int64_t *question)
{
    struct frame_reader reader = frame_read(frame);
    *question = frame_take_number(&reader, 1, INT64_MAX);
    return frame_is_used_up(&reader) && process->out.length <= ANSWERS_BYTES_MAX;
}

/* A new question means that the process has given up on the previous one. */
static bool verify_came(struct pooled_process *process, const struct frame *frame)
{
    int64_t question = 0;
    if (!question_read(process, frame, &question))
        return false;
    process_unask(process);
    process->question = question;
    struct hf_job *job = process->run->job;
    if (process->run->lock == NULL) { /* no lock, or a simulated one, for which its link answers at once */
        answer_add(process, FRAME_VERIFIED, question, job->validity == NULL || job->link->verify(job, 0));
        (void)process_flush(process);
        return true;
    }
    process->is_asked = true;
    process->verify.done = verified;
    redlock_lock_verify(process->run->lock, &process->verify);
    return true;
}

/* False if the descriptor cannot be sent now. */
static bool descriptor_send(struct pooled_process *process, int64_t question, int descriptor)
{
    struct buffer whole = {0};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    if (descriptor < 0 || process->out.length > 0)
        return false;
    size_t start = frame_begin(&whole, FRAME_DESCRIBED);
    frame_add_number(&whole, question);
    frame_add_number(&whole, true);
    frame_end(&whole, start);
    struct iovec part = {.iov_base = whole.bytes, .iov_len = whole.length};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    ssize_t sent = sendmsg(process->socket, &message, MSG_NOSIGNAL);
    if (sent > 0 && (size_t)sent < whole.length) /* send the rest */
        buffer_append(&process->out, whole.bytes + sent, whole.length - (size_t)sent);
    buffer_fini(&whole);
    return sent > 0;
}

/* Passes the lock's own timer, which the worker continues to set. */
static int descriptor_of(const struct isolated_run *run)
{
    if (run->lock != NULL)
        return redlock_validity_descriptor(redlock_lock_validity(run->lock));
    return run->job->validity != NULL ? run->job->link->descriptor(run->job) : -1;
}

static bool descriptor_came(struct pooled_process *process, const struct frame *frame)
{
    int64_t question = 0;
    if (!question_read(process, frame, &question))
        return false;
    if (!descriptor_send(process, question, descriptor_of(process->run)))
        answer_add(process, FRAME_DESCRIBED, question, false);
    (void)process_flush(process);
    return true;
}

/* --- what it is in ------------------------------------------------------------------------------------------------ */

static bool is_active(enum process_state state)
{
    return state == PROCESS_STARTING || state == PROCESS_IDLE || state == PROCESS_BUSY;
}

static void counts_change(struct pooled_process *process, enum process_state to)
{
    struct process_kind *kind = process->kind;
    bool was_active = is_active(process->state), stays_active = is_active(to);
    kind->starting -= process->state == PROCESS_STARTING;
    kind->starting += to == PROCESS_STARTING;
    if (was_active == stays_active)
        return;
    invariant(was_active); /* CONDEMNED and gone are final */
    kind->processes--;
    process->pool->active--;
    process->pool->leaving++;
}

static void process_enter(struct pooled_process *process, enum process_state state)
{
    struct loop *loop = process->pool->options.loop;
    counts_change(process, state);
    list_remove(&process->idle_link);
    if (process->state == PROCESS_STARTING && state != PROCESS_STARTING)
        loop_timer_clear(loop, &process->patience);
    process->state = state;
    if (state == PROCESS_IDLE) {
        process->idle_since = loop_now(loop);
        list_prepend(&process->kind->idle, &process->idle_link);
        /* It is set for the first idle process and checks all when it fires, so a short idle time, the usual case,
         * costs nothing. */
        if (!loop_timer_is_set(&process->pool->idle_look))
            loop_timer_set(loop, &process->pool->idle_look, loop_after(loop, process->pool->times.idle_ns));
    }
    if (state == PROCESS_LEAVING)
        loop_timer_set(loop, &process->patience, loop_after(loop, process->pool->times.leave_ns));
    if (state == PROCESS_CONDEMNED && process->watch != NULL) {
        loop_watch_stop(process->watch);
        process->watch = NULL;
    }
    if (state != PROCESS_BUSY)
        process_pool_look(process->pool);
}

static void strike(struct pooled_process *process, const char *reason)
{
    if (process->was_opened || process->has_struck || process->was_dismissed)
        return;
    process->has_struck = true;
    kind_struck(process->kind, reason);
}

static void process_condemn(struct pooled_process *process, const char *format, ...) PRINTF_LIKE(2, 3);
static void process_condemn(struct pooled_process *process, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(process->complaint, sizeof process->complaint, format, arguments);
    va_end(arguments);
    strike(process, process->complaint);
    process_unask(process);
    launcher_kill(process->pool->options.launcher, &process->child, SIGKILL);
    if (process->state != PROCESS_CONDEMNED)
        process_enter(process, PROCESS_CONDEMNED);
}

/* It closed its socket before its first run. It may be dead, or its plugin hangs. */
static void process_cut_off(struct pooled_process *process)
{
    launcher_kill(process->pool->options.launcher, &process->child, SIGKILL);
    process_enter(process, PROCESS_CONDEMNED);
}

static void patience_is_over(struct loop_timer *timer)
{
    struct pooled_process *process = list_owner(timer, struct pooled_process, patience);
    if (process->state == PROCESS_STARTING)
        process_condemn(process, "did not open its plugin in time");
    else
        process_condemn(process, "did not close its plugin in time");
}

/* --- the end of a run --------------------------------------------------------------------------------------------- */

static void end_log(const struct pooled_process *process, const char *ending)
{
    char path[LOG_QUOTE_MAX], jid[LOG_QUOTE_MAX], reason[LOG_QUOTE_MAX];
    const char *plugin = log_value(process->kind->plugin->path, path);
    if (process->run != NULL)
        log_event(LOG_WARN, "runner_crashed", "pid=%ld plugin=%s jid=%s reason=%s", (long)process->pid, plugin,
                  log_value(process->run->job->jid, jid), log_value(ending, reason));
    else if (!process->was_dismissed)
        log_event(LOG_INFO, "runner_ended", "pid=%ld plugin=%s reason=%s", (long)process->pid, plugin,
                  log_value(ending, reason));
    else
        log_event(LOG_DEBUG, "runner_ended", "pid=%ld plugin=%s runs=%u", (long)process->pid, plugin, process->runs);
}

/* Detaches the run first, because `ended` may begin another. */
static void run_end(struct pooled_process *process, int code)
{
    struct isolated_run *run = process->run;
    process_unask(process);
    atomic_store(&run->run_entry->occupant, 0);
    process->run = NULL;
    run->at = NULL;
    output_log_dropped(run->job->jid, run->job->class_name, &process->budget);
    run->ended(run, code);
}

static void process_finish(struct pooled_process *process, int code)
{
    const struct task_rules *rules = process->run->rules;
    process->runs++;
    output_drain(process->output); /* while its run is known */
    bool is_worn = (rules->tasks_per_process > 0 && process->runs >= rules->tasks_per_process) ||
                   (rules->memory_per_process > 0 && process->memory > rules->memory_per_process) ||
                   process->generation != process->pool->generation;
    if (is_worn)
        process_retire(process);
    else
        process_enter(process, PROCESS_IDLE);
    run_end(process, code);
}

/* --- what is only said -------------------------------------------------------------------------------------------- */

static bool log_came(struct pooled_process *process, const struct frame *frame)
{
    enum hf_log_level level = HF_LOG_INFO;
    const char *text = NULL;
    struct hf_job *job = process->run->job;
    if (!runner_log_read(frame, &level, &text))
        return false;
    if (job->link->hears(job, level))
        job->link->log(job, level, text);
    return true;
}

static bool event_came(struct pooled_process *process, const struct frame *frame)
{
    struct runner_event event;
    struct hf_job *job = process->run->job;
    if (!runner_event_read(frame, &event))
        return false;
    if (job->link->hears(job, event.level))
        job->link->event(job, event.level, event.name, event.fields, event.count);
    return true;
}

static bool progress_came(struct pooled_process *process, const struct frame *frame)
{
    struct frame_reader reader = frame_read(frame);
    struct text_span json = frame_take_text(&reader, ITERATION_BYTES_MAX);
    struct hf_job *job = process->run->job;
    if (!frame_is_used_up(&reader) || !job->reports_progress || !iteration_text_is_sound(json.bytes, json.length))
        return false;
    (void)job->link->progress(job, json.bytes);
    return true;
}

/* --- the beginning and the end ------------------------------------------------------------------------------------ */

static bool ready_came(struct pooled_process *process, const struct frame *frame)
{
    if (process->was_opened || frame->length != 0)
        return false;
    process->was_opened = true;
    process->kind->strikes = 0;
    process->kind->told = (struct instant){0};
    if (process->state == PROCESS_STARTING)
        process_enter(process, PROCESS_IDLE);
    return true;
}

static bool refused_came(struct pooled_process *process, const struct frame *frame)
{
    struct frame_reader reader = frame_read(frame);
    const char *reason = frame_take_string(&reader, RUNNER_REASON_MAX);
    if (process->was_opened || !frame_is_used_up(&reader))
        return false;
    process->has_struck = true;
    kind_struck(process->kind, reason);
    process_condemn(process, "refused to open its plugin");
    return true;
}

static bool end_came(struct pooled_process *process, const struct frame *frame)
{
    struct runner_end end;
    struct job_outcome *outcome = &process->run->job->outcome;
    job_outcome_clear(outcome);
    if (!runner_end_read(frame, &end, outcome) || end.run != process->run_number)
        return false;
    if (end.memory >= 0)
        process->memory = end.memory;
    process_finish(process, end.started ? end.code : ISOLATION_NOT_STARTED);
    return true;
}

static bool frame_came(struct pooled_process *process, const struct frame *frame)
{
    if (frame->kind == FRAME_READY)
        return ready_came(process, frame);
    if (frame->kind == FRAME_REFUSED)
        return refused_came(process, frame);
    if (process->run == NULL)
        return false;
    switch ((int)frame->kind) {
    case FRAME_END:
        return end_came(process, frame);
    case FRAME_LOG:
        return log_came(process, frame);
    case FRAME_EVENT:
        return event_came(process, frame);
    case FRAME_PROGRESS:
        return progress_came(process, frame);
    case FRAME_VERIFY:
        return verify_came(process, frame);
    case FRAME_DESCRIPTOR:
        return descriptor_came(process, frame);
    default:
        return false;
    }
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Handles the complete frames; returns their bytes. Stops if the process is condemned. */
static size_t frames_take(struct pooled_process *process, const char *bytes, size_t length)
{
    size_t used = 0, whole = 0;
    struct frame frame;
    while (process->complaint[0] == '\0') {
        enum frame_found found = frame_find(bytes + used, length - used, RUNNER_FRAME_MAX, &frame, &whole);
        if (found == FRAME_PART)
            return used;
        if (found == FRAME_BROKEN || !frame_came(process, &frame))
            process_condemn(process, "sent an invalid message to the worker");
        else
            used += whole;
    }
    return length;
}

static void bytes_came(struct pooled_process *process, const char *bytes, size_t length)
{
    if (process->in.length > 0) {
        buffer_append(&process->in, bytes, length);
        buffer_drop_front(&process->in, frames_take(process, process->in.bytes, process->in.length));
    } else {
        size_t used = frames_take(process, bytes, length);
        buffer_append(&process->in, bytes + used, length - used);
    }
    if (process->in.length == 0 && process->in.capacity > KEEP_BYTES_MAX)
        buffer_fini(&process->in);
}

/* Reads once: a full buffer is rare, and then the socket is still readable. */
static bool part_listen(struct pooled_process *process, bool *is_full)
{
    struct process_pool *pool = process->pool;
    ssize_t count = recv(process->socket, pool->scratch, sizeof pool->scratch, 0);
    *is_full = count == (ssize_t)sizeof pool->scratch;
    if (count > 0)
        bytes_came(process, pool->scratch, (size_t)count);
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

/* The end of the socket means the end of the process: now, or at the end of its run if the handler closed it. A
 * process that has not opened its plugin stays active until the reason is known, so that no other is tried first. */
static void socket_ended(struct pooled_process *process)
{
    if (process->state != PROCESS_STARTING) {
        process_enter(process, PROCESS_CONDEMNED);
        return;
    }
    loop_watch_stop(process->watch);
    process->watch = NULL;
}

static void process_watched(void *context, int events)
{
    struct pooled_process *process = context;
    bool is_full = false;
    if ((events & LOOP_WRITABLE) != 0 && process->waits_to_write && !process_flush(process))
        events |= LOOP_READABLE;
    if ((events & LOOP_READABLE) != 0 && !part_listen(process, &is_full) && process->state != PROCESS_CONDEMNED)
        socket_ended(process);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* Why the zygote killed the run, in the handler's order of reasons; HF_TIMEOUT if there is no other. */
static enum hf_cancel_reason kill_reason(const struct isolated_run *run, const struct run_table *run_table)
{
    enum hf_cancel_reason loss = job_lock_loss(run->job);
    int asked = atomic_load_explicit(&run->run_entry->asked, memory_order_relaxed);
    if (loss != HF_NOT_CANCELLED)
        return loss;
    if (asked != HF_NOT_CANCELLED)
        return (enum hf_cancel_reason)asked;
    return atomic_load(&run_table->must_stop) ? HF_SHUTDOWN : HF_TIMEOUT;
}

/* False if the kill was meant for an earlier run of the process, which ended at the same moment. */
static bool was_killed_for(const struct child_exit *end, const struct isolated_run *run, uint64_t run_number,
                           const struct run_table *run_table)
{
    return end->killed_run == run_number && run_table->run_entries + end->killed_run_entry == run->run_entry;
}

static const char *kill_text(const struct pooled_process *process, const struct child_exit *end)
{
    const struct run_table *run_table = process->pool->options.run_table;
    if (process->run == NULL || !was_killed_for(end, process->run, process->run_number, run_table))
        return "was killed because of a run that had just ended";
    switch ((int)kill_reason(process->run, run_table)) {
    case HF_LOCK_LOST:
        return "was killed because its run lost its lock";
    case HF_HELD_TOO_LONG:
        return "was killed because its run held its lock for longer than its class may";
    case HF_SHUTDOWN:
        return "was killed because the worker stops";
    case HF_CLAIM_LOST:
        return "was killed because another worker may have its task";
    case HF_TIMEOUT:
        return "was killed because its run took longer than its class may";
    default:
        return "was killed because its task was cancelled";
    }
}

int process_pool_verdict(struct isolated_run *run, uint64_t run_number, const struct run_table *run_table,
                         const struct child_exit *end, const char *complaint)
{
    char text[CHILD_END_TEXT_MAX];
    struct job_outcome *outcome = &run->job->outcome;
    job_outcome_clear(outcome);
    if (end->killed_run != 0) {
        if (!was_killed_for(end, run, run_number, run_table))
            return ISOLATION_NOT_STARTED;
        if (kill_reason(run, run_table) != HF_TIMEOUT)
            return HF_CANCELLED;
        failure_set(&outcome->failure, "HF::TimedOut", "it ran for longer than its class may, and was killed");
        return HF_FAIL;
    }
    child_end_describe(end->wait_status, run->rules->memory_limit, text);
    if (complaint[0] != '\0')
        failure_set(&outcome->failure, "HF::Crashed", "its process %s", complaint);
    else if (WIFEXITED(end->wait_status) && WEXITSTATUS(end->wait_status) == RUNNER_CUT_OFF)
        failure_set(&outcome->failure, "HF::Crashed", "it closed a descriptor of its process that was not its own");
    else
        failure_set(&outcome->failure, "HF::Crashed", "its process %s", text);
    return HF_FAIL;
}

/* The process was reaped. Its last messages are still in the socket, perhaps the end of its run. */
static void exited(struct child *child, const struct child_exit *end)
{
    struct pooled_process *process = list_owner(child, struct pooled_process, child);
    struct process_pool *pool = process->pool;
    char ending[RUNNER_REASON_MAX];
    _Static_assert((int)RUNNER_REASON_MAX >= (int)CHILD_END_TEXT_MAX, "both fit");
    bool is_full = process->watch != NULL, is_open = true;
    while (is_full && is_open && process->complaint[0] == '\0')
        is_open = part_listen(process, &is_full);
    output_drain(process->output);
    child_end_describe(end->wait_status, process->kind->memory_limit, ending);
    if (end->killed_run != 0)
        snprintf(ending, sizeof ending, "%s", kill_text(process, end));
    else if (process->complaint[0] != '\0')
        snprintf(ending, sizeof ending, "%s", process->complaint);
    end_log(process, ending);
    strike(process, ending);
    if (process->run != NULL)
        run_end(process, process_pool_verdict(process->run, process->run_number, pool->options.run_table, end,
                                              process->complaint));
    process_free(process);
    process_pool_look(pool);
}

void process_free(struct pooled_process *process)
{
    struct process_pool *pool = process->pool;
    list_remove(&process->link);
    list_remove(&process->idle_link);
    list_remove(&process->child.link);
    loop_timer_clear(pool->options.loop, &process->patience);
    if (process->watch != NULL)
        loop_watch_stop(process->watch);
    if (process->socket >= 0)
        close(process->socket);
    output_close(process->output);
    if (is_active(process->state)) {
        process->kind->starting -= process->state == PROCESS_STARTING;
        process->kind->processes--;
        pool->active--;
    } else {
        pool->leaving--;
    }
    buffer_fini(&process->in);
    buffer_fini(&process->out);
    free(process);
}

/* --- the start ---------------------------------------------------------------------------------------------------- */

static void spawned(struct child *child, pid_t pid, int failure)
{
    struct pooled_process *process = list_owner(child, struct pooled_process, child);
    struct process_pool *pool = process->pool;
    char reason[160], path[LOG_QUOTE_MAX];
    process->pid = pid;
    if (failure == 0) {
        log_event(LOG_DEBUG, "runner_started", "pid=%ld plugin=%s", (long)pid,
                  log_value(process->kind->plugin->path, path));
        return;
    }
    snprintf(reason, sizeof reason, "no process could be started for it: %s", strerror(failure));
    strike(process, reason);
    process_free(process);
    process_pool_look(pool);
}

static void output_told(void *context, const char *line, size_t length)
{
    const struct pooled_process *process = context;
    char path[LOG_QUOTE_MAX], text[LOG_QUOTE_MAX];
    if (line == NULL)
        return;
    if (process->run != NULL)
        output_log(process->run->job->jid, process->run->job->class_name, "output", line, length);
    else
        log_event(LOG_INFO, "runner_output", "pid=%ld plugin=%s text=%s", (long)process->pid,
                  log_value(process->kind->plugin->path, path), log_value_bytes(line, length, text));
}

static const struct config_pairs *settings_of(const struct config *config, const char *plugin)
{
    for (size_t i = 0; i < config->plugin_count; i++)
        if (strcmp(config->plugins[i].name, plugin) == 0)
            return &config->plugins[i].settings;
    return NULL;
}

static void hello_send(struct pooled_process *process)
{
    const struct config *config = process->pool->options.config;
    const struct plugin *plugin = process->kind->plugin;
    const struct runner_hello hello = {
        .path = plugin->path,
        .plugin = plugin->descriptor.name,
        .settings = settings_of(config, plugin->descriptor.name),
        .patience_ns = lock_setup_verify_patience_ns(config),
    };
    runner_hello_write(&hello, &process->out);
    (void)process_flush(process); /* the socket is new; a failure shows when it is read */
}

struct ends {
    int socket[2], output[2];
};

/* Only the worker's end of the socket does not block. */
static bool ends_open(struct ends *ends)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends->socket) != 0)
        return false;
    if (fcntl(ends->socket[0], F_SETFL, O_NONBLOCK) == 0 && output_pipe(ends->output))
        return true;
    int failure = errno;
    close(ends->socket[0]);
    close(ends->socket[1]);
    errno = failure;
    return false;
}

static struct pooled_process *process_new(struct process_kind *kind, const struct ends *ends)
{
    struct process_pool *pool = kind->pool;
    struct loop *loop = pool->options.loop;
    struct pooled_process *process = memory_new(struct pooled_process);
    *process =
        (struct pooled_process){.pool = pool, .kind = kind, .generation = pool->generation, .socket = ends->socket[0]};
    list_init(&process->link);
    list_init(&process->idle_link);
    list_append(&pool->processes, &process->link);
    child_init(&process->child, spawned, exited);
    loop_timer_init(&process->patience, patience_is_over);
    loop_timer_set(loop, &process->patience, loop_after(loop, pool->times.open_ns));
    process->watch = loop_watch_start(loop, process->socket, LOOP_READABLE, process_watched, process);
    process->output = output_open(loop, ends->output[0], &process->budget, output_told, process);
    kind->processes++;
    kind->starting++;
    pool->active++;
    return process;
}

bool process_create(struct process_kind *kind, struct error *error)
{
    struct ends ends;
    if (!ends_open(&ends))
        return error_set(error, "no process could be started for it: %s", strerror(errno));
    struct pooled_process *process = process_new(kind, &ends);
    const struct child_plan plan = {
        .kind = CHILD_RUNNER,
        .descriptors = {-1, ends.output[1], ends.output[1], ends.socket[1], kind->plugin->file},
        .descriptor_count = RUNNER_PLUGIN_DESCRIPTOR + 1,
        .memory_bytes = kind->memory_limit,
        .open_files = kind->open_files_limit,
    };
    launcher_spawn(kind->pool->options.launcher, &process->child, &plan);
    close(ends.socket[1]);
    close(ends.output[1]);
    hello_send(process);
    return true;
}

/* --- its work ----------------------------------------------------------------------------------------------------- */

/* The lowest level that the log shows; the process sends nothing below it. */
static enum hf_log_level level_heard(struct hf_job *job)
{
    enum hf_log_level level = HF_LOG_DEBUG;
    while (level <= HF_LOG_ERROR && !job->link->hears(job, level))
        level++;
    return level;
}

bool process_give(struct pooled_process *process, struct isolated_run *run)
{
    struct run_table *run_table = process->pool->options.run_table;
    invariant(process->state == PROCESS_IDLE && process->out.length == 0);
    struct runner_order order = {
        .run_entry = (unsigned)(run->run_entry - run_table->run_entries),
        .run = atomic_load_explicit(&run->run_entry->run, memory_order_relaxed),
        .log_level = level_heard(run->job),
        .has_lock = run->job->validity != NULL,
        .measures_memory = run->rules->memory_per_process > 0,
    };
    process->run = run;
    process->run_number = order.run;
    process->budget = (struct output_budget){.lines = 0};
    run->at = process;
    process_enter(process, PROCESS_BUSY);
    /* Set the occupant of the run entry before the process gets the run. */
    atomic_store(&run->run_entry->occupant, process->child.number);
    run->began(run);
    if (run_table_must_ring(run_table, run->run_entry))
        launcher_ring(process->pool->options.launcher);
    runner_order_write(&order, run->job, &process->out);
    if (process_flush(process))
        return true;
    atomic_store(&run->run_entry->occupant, 0);
    process->run = NULL;
    process_cut_off(process);
    return false;
}

/* The message is a few bytes, and the process has read all earlier ones: it fits into the socket. */
void process_retire(struct pooled_process *process)
{
    process->was_dismissed = true;
    size_t start = frame_begin(&process->out, FRAME_BYE);
    frame_end(&process->out, start);
    if (process_flush(process))
        process_enter(process, PROCESS_LEAVING);
    else
        process_cut_off(process);
}
