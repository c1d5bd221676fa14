/* One runner process, on the loop: its birth, what it is told and says, and its end.
 *
 * Nothing that it says is believed: what is no frame, comes at the wrong time or is out of bounds ends the process. In
 * the steady state a run is one send and one recv here: frames are looked at where they were read, and only what is not
 * whole yet is kept. A process that says much gets its turn once in a turn of the loop. */
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
#include "worker/isolation/crew_private.h"
#include "worker/isolation/program_status.h"
#include "worker/isolation/runner_process.h"

#define TELL_AGAIN_NS (60 * NS_PER_S)
enum { DOUBLINGS_MAX = 10, KEEP_BYTES_MAX = 1 << 20, ANSWERS_BYTES_MAX = 1 << 16 };

/* --- its pool ----------------------------------------------------------------------------------------------------- */

void crew_look(struct crew *crew)
{
    loop_at_turn_end(crew->options.loop, LOOP_GATHER, &crew->serve);
}

/* The timer is set for the first that became idle, and looks at all when it fires: being idle for a moment, as nearly
 * always, costs nothing. */
static void idle_plan(struct crew *crew)
{
    if (!loop_timer_is_set(&crew->idle_look))
        loop_timer_set(crew->options.loop, &crew->idle_look, loop_after(crew->options.loop, crew->times.idle_ns));
}

static void pool_opened(struct crew_pool *pool)
{
    pool->strikes = 0;
    pool->told = (struct instant){0};
}

static void refusal_tell(struct crew_pool *pool, const char *reason, int64_t wait_ns)
{
    char path[LOG_QUOTE_MAX], quoted[LOG_QUOTE_MAX];
    struct instant now = loop_now(pool->crew->options.loop);
    if (pool->told.ns != 0 && instant_since(pool->told, now) < TELL_AGAIN_NS)
        return;
    pool->told = now;
    log_event(LOG_ERROR, "plugin_refused", "plugin=%s reason=%s again_in_s=%d",
              log_value(plugin_path(pool->plugin), path), log_value(reason, quoted), (int)(wait_ns / NS_PER_S));
}

void pool_struck(struct crew_pool *pool, const char *reason)
{
    const struct crew_times *times = &pool->crew->times;
    int64_t wait_ns = times->back_off_ns << (pool->strikes < DOUBLINGS_MAX ? pool->strikes : DOUBLINGS_MAX);
    if (wait_ns > times->back_off_max)
        wait_ns = times->back_off_max;
    pool->strikes++;
    pool->not_before = loop_after(pool->crew->options.loop, wait_ns);
    loop_timer_set(pool->crew->options.loop, &pool->retry, pool->not_before);
    refusal_tell(pool, reason, wait_ns);
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

static void writing_follow(struct crew_member *member, bool waits)
{
    if (member->waits_to_write == waits)
        return;
    member->waits_to_write = waits;
    if (member->watch != NULL)
        loop_watch_change(member->watch, waits ? LOOP_READABLE | LOOP_WRITABLE : LOOP_READABLE);
}

static bool member_flush(struct crew_member *member)
{
    size_t sent = 0;
    ssize_t count = 0;
    while (sent < member->out.length && count >= 0) {
        count = send(member->socket, member->out.bytes + sent, member->out.length - sent, MSG_NOSIGNAL);
        if (count > 0)
            sent += (size_t)count;
        else if (errno == EINTR)
            count = 0;
        else if (errno != EAGAIN)
            return false;
    }
    buffer_drop_front(&member->out, sent);
    if (member->out.length == 0 && member->out.capacity > KEEP_BYTES_MAX)
        buffer_fini(&member->out);
    writing_follow(member, member->out.length > 0);
    return true;
}

/* --- questions about the lock ----------------------------------------------------------------------------------- */

static void answer_add(struct crew_member *member, enum frame_kind kind, int64_t question, bool is_yes)
{
    size_t start = frame_begin(&member->out, kind);
    frame_add_number(&member->out, question);
    frame_add_number(&member->out, is_yes);
    frame_end(&member->out, start);
}

static void verified(struct redlock_verify *verify, bool is_held)
{
    struct crew_member *member = list_owner(verify, struct crew_member, verify);
    member->is_asked = false;
    answer_add(member, FRAME_VERIFIED, member->question, is_held);
    (void)member_flush(member); /* that nobody reads it shows at the socket */
}

void member_unask(struct crew_member *member)
{
    if (member->is_asked)
        redlock_lock_verify_cancel(member->run->lock, &member->verify);
    member->is_asked = false;
}

/* Who only asks, and does not read what it is answered, would fill the memory of the worker. */
static bool question_read(const struct crew_member *member, const struct frame *frame, int64_t *question)
{
    struct frame_reader reader = frame_read(frame);
    *question = frame_take_number(&reader, 1, INT64_MAX);
    return frame_is_used_up(&reader) && member->out.length <= ANSWERS_BYTES_MAX;
}

/* Who asks again has given up on the question before. */
static bool verify_came(struct crew_member *member, const struct frame *frame)
{
    int64_t question = 0;
    if (!question_read(member, frame, &question))
        return false;
    member_unask(member);
    member->question = question;
    struct hf_job *job = member->run->job;
    if (member->run->lock == NULL) { /* there is none, or a pretended one, of which its link knows at once */
        answer_add(member, FRAME_VERIFIED, question, job->validity == NULL || job->link->verify(job, 0));
        (void)member_flush(member);
        return true;
    }
    member->is_asked = true;
    member->verify.done = verified;
    redlock_lock_verify(member->run->lock, &member->verify);
    return true;
}

/* False when it cannot come along now. */
static bool descriptor_send(struct crew_member *member, int64_t question, int descriptor)
{
    struct buffer whole = {0};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    if (descriptor < 0 || member->out.length > 0)
        return false;
    size_t start = frame_begin(&whole, FRAME_DESCRIBED);
    frame_add_number(&whole, question);
    frame_add_number(&whole, true);
    frame_end(&whole, start);
    struct iovec place = {.iov_base = whole.bytes, .iov_len = whole.length};
    struct msghdr message = {
        .msg_iov = &place, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    ssize_t sent = sendmsg(member->socket, &message, MSG_NOSIGNAL);
    if (sent > 0 && (size_t)sent < whole.length) /* the rest follows */
        buffer_append(&member->out, whole.bytes + sent, whole.length - (size_t)sent);
    buffer_fini(&whole);
    return sent > 0;
}

/* What is passed is the lock's own timer: the worker goes on setting it. */
static int descriptor_of(const struct isolated_run *run)
{
    if (run->lock != NULL)
        return redlock_validity_descriptor(redlock_lock_validity(run->lock));
    return run->job->validity != NULL ? run->job->link->descriptor(run->job) : -1;
}

static bool descriptor_came(struct crew_member *member, const struct frame *frame)
{
    int64_t question = 0;
    if (!question_read(member, frame, &question))
        return false;
    if (!descriptor_send(member, question, descriptor_of(member->run)))
        answer_add(member, FRAME_DESCRIBED, question, false);
    (void)member_flush(member);
    return true;
}

/* --- what it is in ------------------------------------------------------------------------------------------------ */

static bool has_place(enum member_state state)
{
    return state == MEMBER_STARTING || state == MEMBER_IDLE || state == MEMBER_BUSY;
}

static void counts_change(struct crew_member *member, enum member_state to)
{
    struct crew_pool *pool = member->pool;
    bool had_place = has_place(member->state), keeps_place = has_place(to);
    pool->starting -= member->state == MEMBER_STARTING;
    pool->starting += to == MEMBER_STARTING;
    if (had_place == keeps_place)
        return;
    invariant(had_place); /* nobody comes back */
    pool->members--;
    member->crew->active--;
    member->crew->leaving++;
}

static void idle_begin(struct crew_member *member)
{
    struct crew *crew = member->crew;
    member->idle_since = loop_now(crew->options.loop);
    list_prepend(&member->pool->idle, &member->idle_link);
    idle_plan(crew);
}

static void member_enter(struct crew_member *member, enum member_state state)
{
    struct loop *loop = member->crew->options.loop;
    counts_change(member, state);
    list_remove(&member->idle_link);
    if (member->state == MEMBER_STARTING && state != MEMBER_STARTING)
        loop_timer_clear(loop, &member->patience);
    member->state = state;
    if (state == MEMBER_IDLE)
        idle_begin(member);
    if (state == MEMBER_LEAVING)
        loop_timer_set(loop, &member->patience, loop_after(loop, member->crew->times.leave_ns));
    if (state == MEMBER_CONDEMNED && member->watch != NULL) {
        loop_watch_stop(member->watch);
        member->watch = NULL;
    }
    if (state != MEMBER_BUSY)
        crew_look(member->crew);
}

static void strike(struct crew_member *member, const char *reason)
{
    if (member->was_opened || member->has_struck || member->was_dismissed)
        return;
    member->has_struck = true;
    pool_struck(member->pool, reason);
}

static void member_condemn(struct crew_member *member, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(member->complaint, sizeof member->complaint, format, arguments);
    va_end(arguments);
    strike(member, member->complaint);
    member_unask(member);
    launcher_kill(member->crew->options.launcher, &member->child, SIGKILL);
    if (member->state != MEMBER_CONDEMNED)
        member_enter(member, MEMBER_CONDEMNED);
}

/* It hung up before it was given anything to do. It may be dead, or in a plugin that hangs with its socket closed. */
static void member_cut_off(struct crew_member *member)
{
    launcher_kill(member->crew->options.launcher, &member->child, SIGKILL);
    member_enter(member, MEMBER_CONDEMNED);
}

static void patience_is_over(struct loop_timer *timer)
{
    struct crew_member *member = list_owner(timer, struct crew_member, patience);
    if (member->state == MEMBER_STARTING)
        member_condemn(member, "did not open its plugin in time");
    else
        member_condemn(member, "did not close its plugin in time");
}

/* --- the end of a run --------------------------------------------------------------------------------------------- */

static void end_log(const struct crew_member *member, const char *ending)
{
    char path[LOG_QUOTE_MAX], jid[LOG_QUOTE_MAX], reason[LOG_QUOTE_MAX];
    const char *plugin = log_value(plugin_path(member->pool->plugin), path);
    if (member->run != NULL)
        log_event(LOG_WARN, "runner_crashed", "pid=%ld plugin=%s jid=%s reason=%s", (long)member->pid, plugin,
                  log_value(member->run->job->jid, jid), log_value(ending, reason));
    else if (!member->was_dismissed)
        log_event(LOG_INFO, "runner_ended", "pid=%ld plugin=%s reason=%s", (long)member->pid, plugin,
                  log_value(ending, reason));
    else
        log_event(LOG_DEBUG, "runner_ended", "pid=%ld plugin=%s runs=%u", (long)member->pid, plugin, member->runs);
}

/* The process is free of the run before that is told: what is told may begin another. */
static void run_end(struct crew_member *member, int code)
{
    struct isolated_run *run = member->run;
    member_unask(member);
    atomic_store(&run->berth->occupant, 0);
    member->run = NULL;
    run->place = NULL;
    output_log_dropped(run->job->jid, run->job->class_name, &member->budget);
    run->ended(run, code);
}

static void member_finish(struct crew_member *member, int code)
{
    const struct task_rules *rules = member->run->rules;
    member->runs++;
    output_drain(member->output); /* while it is known whose it is */
    bool is_worn = (rules->tasks_per_process > 0 && member->runs >= rules->tasks_per_process) ||
                   (rules->memory_per_process > 0 && member->memory > rules->memory_per_process) ||
                   member->generation != member->crew->generation;
    if (is_worn)
        member_retire(member);
    else
        member_enter(member, MEMBER_IDLE);
    run_end(member, code);
}

/* --- what is only said ------------------------------------------------------------------------------------------ */

static bool log_came(struct crew_member *member, const struct frame *frame)
{
    enum hf_log_level level = HF_LOG_INFO;
    const char *text = NULL;
    struct hf_job *job = member->run->job;
    if (!runner_log_read(frame, &level, &text))
        return false;
    if (job->link->hears(job, level))
        job->link->log(job, level, text);
    return true;
}

static bool event_came(struct crew_member *member, const struct frame *frame)
{
    struct runner_event event;
    struct hf_job *job = member->run->job;
    if (!runner_event_read(frame, &event))
        return false;
    if (job->link->hears(job, event.level))
        job->link->event(job, event.level, event.name, event.fields, event.count);
    return true;
}

static bool progress_came(struct crew_member *member, const struct frame *frame)
{
    struct frame_reader reader = frame_read(frame);
    struct text_span json = frame_take_text(&reader, ITERATION_BYTES_MAX);
    struct hf_job *job = member->run->job;
    if (!frame_is_used_up(&reader) || !job->reports_progress || !iteration_text_is_sound(json.bytes, json.length))
        return false;
    (void)job->link->progress(job, json.bytes);
    return true;
}

/* --- the beginning and the end ---------------------------------------------------------------------------------- */

static bool ready_came(struct crew_member *member, const struct frame *frame)
{
    if (member->was_opened || frame->length != 0)
        return false;
    member->was_opened = true;
    pool_opened(member->pool);
    if (member->state == MEMBER_STARTING)
        member_enter(member, MEMBER_IDLE);
    return true;
}

static bool refused_came(struct crew_member *member, const struct frame *frame)
{
    struct frame_reader reader = frame_read(frame);
    const char *reason = frame_take_string(&reader, RUNNER_REASON_MAX);
    if (member->was_opened || !frame_is_used_up(&reader))
        return false;
    member->has_struck = true;
    pool_struck(member->pool, reason);
    member_condemn(member, "refused to open its plugin");
    return true;
}

static bool end_came(struct crew_member *member, const struct frame *frame)
{
    struct runner_end end;
    struct job_outcome *outcome = &member->run->job->outcome;
    job_outcome_clear(outcome);
    if (!runner_end_read(frame, &end, outcome) || end.run != member->run_number)
        return false;
    if (end.memory >= 0)
        member->memory = end.memory;
    member_finish(member, end.started ? end.code : ISOLATION_NOT_STARTED);
    return true;
}

static bool frame_came(struct crew_member *member, const struct frame *frame)
{
    if (frame->kind == FRAME_READY)
        return ready_came(member, frame);
    if (frame->kind == FRAME_REFUSED)
        return refused_came(member, frame);
    if (member->run == NULL)
        return false;
    switch ((int)frame->kind) {
    case FRAME_END:
        return end_came(member, frame);
    case FRAME_LOG:
        return log_came(member, frame);
    case FRAME_EVENT:
        return event_came(member, frame);
    case FRAME_PROGRESS:
        return progress_came(member, frame);
    case FRAME_VERIFY:
        return verify_came(member, frame);
    case FRAME_DESCRIPTOR:
        return descriptor_came(member, frame);
    default:
        return false;
    }
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

/* Looks at the whole frames there are; returns the bytes of these. Stops when it is condemned. */
static size_t frames_take(struct crew_member *member, const char *bytes, size_t length)
{
    size_t used = 0, whole = 0;
    struct frame frame;
    while (member->complaint[0] == '\0') {
        enum frame_found found = frame_find(bytes + used, length - used, RUNNER_FRAME_MAX, &frame, &whole);
        if (found == FRAME_PART)
            return used;
        if (found == FRAME_BROKEN || !frame_came(member, &frame))
            member_condemn(member, "said nonsense to the worker");
        else
            used += whole;
    }
    return length;
}

static void bytes_came(struct crew_member *member, const char *bytes, size_t length)
{
    if (member->in.length > 0) {
        buffer_append(&member->in, bytes, length);
        buffer_drop_front(&member->in, frames_take(member, member->in.bytes, member->in.length));
    } else {
        size_t used = frames_take(member, bytes, length);
        buffer_append(&member->in, bytes + used, length - used);
    }
    if (member->in.length == 0 && member->in.capacity > KEEP_BYTES_MAX)
        buffer_fini(&member->in);
}

/* One read: a full buffer is rare, and then it is readable again. */
static bool part_listen(struct crew_member *member, bool *is_full)
{
    struct crew *crew = member->crew;
    ssize_t count = recv(member->socket, crew->scratch, sizeof crew->scratch, 0);
    *is_full = count == (ssize_t)sizeof crew->scratch;
    if (count > 0)
        bytes_came(member, crew->scratch, (size_t)count);
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool member_listen(struct crew_member *member)
{
    bool is_full = true, is_open = true;
    while (is_full && is_open && member->complaint[0] == '\0')
        is_open = part_listen(member, &is_full);
    return is_open;
}

/* An end of the socket means the end of the process, now or, when a handler has closed it, at the end of its run. One
 * that has not opened its plugin keeps its place until it is known why, so that no other is tried before. */
static void socket_ended(struct crew_member *member)
{
    if (member->state != MEMBER_STARTING) {
        member_enter(member, MEMBER_CONDEMNED);
        return;
    }
    loop_watch_stop(member->watch);
    member->watch = NULL;
}

static void member_watched(void *context, int events)
{
    struct crew_member *member = context;
    bool is_full = false;
    if ((events & LOOP_WRITABLE) != 0 && member->waits_to_write && !member_flush(member))
        events |= LOOP_READABLE;
    if ((events & LOOP_READABLE) != 0 && !part_listen(member, &is_full) && member->state != MEMBER_CONDEMNED)
        socket_ended(member);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* The zygote did, because the time of the run was over: whose time that was is on the board. */
static int killed_in_time(struct isolated_run *run, const struct board *board)
{
    struct hf_job *job = run->job;
    int asked = atomic_load_explicit(&run->berth->asked, memory_order_relaxed);
    bool was_asked = asked != HF_NOT_CANCELLED && asked != HF_TIMEOUT;
    if (was_asked || !job_lock_is_valid(job) || (asked != HF_TIMEOUT && atomic_load(&board->must_stop)))
        return HF_CANCELLED;
    failure_set(&job->outcome.failure, "HF::TimedOut", "it ran for longer than its class may, and was killed");
    return HF_FAIL;
}

int crew_verdict(struct isolated_run *run, uint64_t run_number, const struct board *board, const struct child_exit *end,
                 const char *complaint)
{
    char text[128];
    struct job_outcome *outcome = &run->job->outcome;
    job_outcome_clear(outcome);
    if (end->killed_run == run_number && board->berths + end->killed_berth == run->berth)
        return killed_in_time(run, board);
    if (end->killed_run != 0) /* the kill was meant for its run before: this one has nothing to do with it */
        return ISOLATION_NOT_STARTED;
    child_end_describe(end->wait_status, text, sizeof text);
    if (complaint[0] != '\0')
        failure_set(&outcome->failure, "HF::Crashed", "its process %s", complaint);
    else if (WIFEXITED(end->wait_status) && WEXITSTATUS(end->wait_status) == RUNNER_CUT_OFF)
        failure_set(&outcome->failure, "HF::Crashed", "it closed a descriptor of its process that was not its own");
    else
        failure_set(&outcome->failure, "HF::Crashed", "its process %s", text);
    return HF_FAIL;
}

/* It was reaped. What it said before is still in the socket: perhaps the end of its run. */
static void exited(struct child *child, const struct child_exit *end)
{
    struct crew_member *member = list_owner(child, struct crew_member, child);
    struct crew *crew = member->crew;
    char ending[sizeof member->complaint];
    if (member->watch != NULL)
        (void)member_listen(member);
    output_drain(member->output);
    child_end_describe(end->wait_status, ending, sizeof ending);
    if (end->killed_run != 0)
        snprintf(ending, sizeof ending, "was killed because the time of its run was over");
    else if (member->complaint[0] != '\0')
        snprintf(ending, sizeof ending, "%s", member->complaint);
    end_log(member, ending);
    strike(member, ending);
    if (member->run != NULL)
        run_end(member, crew_verdict(member->run, member->run_number, crew->options.board, end, member->complaint));
    member_free(member);
    crew_look(crew);
}

void member_free(struct crew_member *member)
{
    struct crew *crew = member->crew;
    list_remove(&member->link);
    list_remove(&member->idle_link);
    list_remove(&member->child.link);
    loop_timer_clear(crew->options.loop, &member->patience);
    if (member->watch != NULL)
        loop_watch_stop(member->watch);
    if (member->socket >= 0)
        close(member->socket);
    output_close(member->output);
    if (has_place(member->state)) {
        member->pool->starting -= member->state == MEMBER_STARTING;
        member->pool->members--;
        crew->active--;
    } else {
        crew->leaving--;
    }
    buffer_fini(&member->in);
    buffer_fini(&member->out);
    free(member);
}

/* --- the birth -------------------------------------------------------------------------------------------------- */

static void spawned(struct child *child, pid_t pid, int failure)
{
    struct crew_member *member = list_owner(child, struct crew_member, child);
    struct crew *crew = member->crew;
    char reason[160], path[LOG_QUOTE_MAX];
    member->pid = pid;
    if (failure == 0) {
        log_event(LOG_DEBUG, "runner_started", "pid=%ld plugin=%s", (long)pid,
                  log_value(plugin_path(member->pool->plugin), path));
        return;
    }
    snprintf(reason, sizeof reason, "no process could be started for it: %s", strerror(failure));
    strike(member, reason);
    member_free(member);
    crew_look(crew);
}

static void output_told(void *context, const char *line, size_t length)
{
    const struct crew_member *member = context;
    char path[LOG_QUOTE_MAX], text[LOG_QUOTE_MAX];
    if (line == NULL)
        return;
    if (member->run != NULL)
        output_log(member->run->job->jid, member->run->job->class_name, "output", line, length);
    else
        log_event(LOG_INFO, "runner_output", "pid=%ld plugin=%s text=%s", (long)member->pid,
                  log_value(plugin_path(member->pool->plugin), path), log_value_bytes(line, length, text));
}

static const struct config_pairs *settings_of(const struct config *config, const char *plugin)
{
    for (size_t i = 0; i < config->plugin_count; i++)
        if (strcmp(config->plugins[i].name, plugin) == 0)
            return &config->plugins[i].settings;
    return NULL;
}

static void hello_send(struct crew_member *member)
{
    const struct config *config = member->crew->options.config;
    const struct plugin *plugin = member->pool->plugin;
    const struct runner_hello hello = {
        .path = plugin_path(plugin),
        .plugin = plugin_name(plugin),
        .settings = settings_of(config, plugin_name(plugin)),
        .patience_ns = lock_setup_verify_patience_ns(config),
    };
    runner_hello_write(&hello, &member->out);
    (void)member_flush(member); /* it has just been made; an end shows at the socket */
}

struct ends {
    int socket[2], output[2];
};

static void pair_close(const int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

/* Only the worker's end of the socket does not block. */
static bool ends_open(struct ends *ends)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends->socket) != 0)
        return false;
    if (fcntl(ends->socket[0], F_SETFL, O_NONBLOCK) == 0 && output_pipe(ends->output))
        return true;
    int failure = errno;
    pair_close(ends->socket);
    errno = failure;
    return false;
}

static struct crew_member *member_new(struct crew_pool *pool, const struct ends *ends)
{
    struct crew *crew = pool->crew;
    struct loop *loop = crew->options.loop;
    struct crew_member *member = memory_new(struct crew_member);
    *member =
        (struct crew_member){.crew = crew, .pool = pool, .generation = crew->generation, .socket = ends->socket[0]};
    list_init(&member->link);
    list_init(&member->idle_link);
    list_append(&crew->members, &member->link);
    child_init(&member->child, spawned, exited);
    loop_timer_init(&member->patience, patience_is_over);
    loop_timer_set(loop, &member->patience, loop_after(loop, crew->times.open_ns));
    member->watch = loop_watch_start(loop, member->socket, LOOP_READABLE, member_watched, member);
    member->output = output_open(loop, ends->output[0], &member->budget, output_told, member);
    pool->members++;
    pool->starting++;
    crew->active++;
    return member;
}

bool member_create(struct crew_pool *pool, struct error *error)
{
    struct ends ends;
    if (!ends_open(&ends))
        return error_set(error, "no process could be started for it: %s", strerror(errno));
    struct crew_member *member = member_new(pool, &ends);
    const struct child_plan plan = {
        .kind = CHILD_RUNNER,
        .descriptors = {-1, ends.output[1], ends.output[1], ends.socket[1], plugin_file(pool->plugin)},
        .descriptor_count = RUNNER_PLUGIN_DESCRIPTOR + 1,
        .memory_bytes = pool->memory_limit,
        .open_files = pool->open_files_limit,
    };
    launcher_spawn(pool->crew->options.launcher, &member->child, &plan);
    close(ends.socket[1]);
    close(ends.output[1]);
    hello_send(member);
    return true;
}

/* --- its work --------------------------------------------------------------------------------------------------- */

/* The berth says whose time it is before the process hears of the run. */
static void berth_take(struct crew_member *member)
{
    const struct isolation_options *options = &member->crew->options;
    struct isolated_run *run = member->run;
    atomic_store(&run->berth->occupant, member->child.number);
    run->began(run);
    if (board_must_ring(options->board, run->berth))
        launcher_ring(options->launcher);
}

/* What the process need not even say. */
static enum hf_log_level level_heard(struct hf_job *job)
{
    enum hf_log_level level = HF_LOG_DEBUG;
    while (level <= HF_LOG_ERROR && !job->link->hears(job, level))
        level++;
    return level;
}

bool member_give(struct crew_member *member, struct isolated_run *run)
{
    const struct board *board = member->crew->options.board;
    invariant(member->state == MEMBER_IDLE && member->out.length == 0);
    struct runner_order order = {
        .berth = (unsigned)(run->berth - board->berths),
        .run = atomic_load_explicit(&run->berth->run, memory_order_relaxed),
        .log_level = level_heard(run->job),
        .has_lock = run->job->validity != NULL,
    };
    member->run = run;
    member->run_number = order.run;
    member->budget = (struct output_budget){.lines = 0};
    run->place = member;
    member_enter(member, MEMBER_BUSY);
    berth_take(member);
    runner_order_write(&order, run->job, &member->out);
    if (member_flush(member))
        return true;
    atomic_store(&run->berth->occupant, 0);
    member->run = NULL;
    member_cut_off(member);
    return false;
}

/* What it is to read takes no more than a few bytes, and it has read all that was sent before. */
void member_retire(struct crew_member *member)
{
    member->was_dismissed = true;
    size_t start = frame_begin(&member->out, FRAME_BYE);
    frame_end(&member->out, start);
    if (member_flush(member))
        member_enter(member, MEMBER_LEAVING);
    else
        member_cut_off(member);
}
