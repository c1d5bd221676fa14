/* A worker's zygote and its runner processes, as the worker sees them: orders, reports and frames are those of
 * production, and so is the rule of the board by which it kills. Children are processes of the world, so they do not
 * stand still when the worker does, and die on their own. */
#include "worker/isolation/zygote_message.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "tests/sim/fleet/fleet.h"
#include "tests/sim/world/local.h"
#include "worker/isolation/runner_message.h"

#define LATENCY_MAX_NS (2 * NS_PER_MS)
#define REAP_MAX_NS    (5 * NS_PER_MS)

enum { EXIT_CRASHED = SIGSEGV, CRASH_PER_MILLE = 15, REFUSE_PER_MILLE = 5, READ_MAX = 64 << 10 };

struct zygote_world {
    struct process *worker;
    struct host *host;
    struct board *board;
    struct local *socket; /* NULL = the worker is gone */
    struct world_event work, alarm;
    struct list children;
};

struct zygote_child {
    struct list link;
    struct zygote_world *zygote;
    struct process *process;
    struct local *socket, *output;
    struct zygote_report report; /* of its end */
    struct world_event reaped;
};

/* --- reports ------------------------------------------------------------------------------------------------------ */

static void report(struct zygote_world *zygote, const struct zygote_report *report)
{
    if (zygote->socket != NULL)
        (void)local_write(zygote->socket, report, sizeof *report);
}

static void child_reaped(struct world_event *event)
{
    struct zygote_child *child = list_owner(event, struct zygote_child, reaped);
    list_remove(&child->link);
    report(child->zygote, &child->report);
    free(child);
}

static void child_ended(struct process *process)
{
    struct zygote_child *child = process->context;
    if (process->has_ended)
        child->report.end.wait_status = 0;
    local_drop(child->socket);
    local_drop(child->output);
    child->process = NULL;
    world_at(&child->reaped, instant_after(world_time(), chance_below(world_chance(), REAP_MAX_NS)));
}

static void child_kill(struct zygote_child *child, int signal)
{
    if (child->process == NULL)
        return;
    child->report.end.wait_status = signal;
    process_kill(child->process, false);
}

/* --- the runner process ------------------------------------------------------------------------------------------- */

struct runner {
    struct zygote_child *child;
    struct board *board;
    struct local *socket;
    struct buffer in, kept, out;
    size_t taken;
    struct config_pairs settings;
    struct runner_order order;
    struct hf_job job;
    int64_t question;
};

/* False when `until` comes first, or the socket is gone. */
static bool frame_await(struct runner *runner, struct instant until, struct frame *frame)
{
    struct local *rights[LOCAL_RIGHTS_MAX];
    unsigned right_count;
    size_t whole = 0;
    buffer_drop_front(&runner->in, runner->taken);
    runner->taken = 0;
    while (frame_find(runner->in.bytes, runner->in.length, UINT32_MAX, frame, &whole) != FRAME_WHOLE) {
        char *room = buffer_reserve(&runner->in, READ_MAX);
        ssize_t length = local_read(runner->socket, room, READ_MAX, rights, &right_count);
        for (unsigned i = 0; length > 0 && i < right_count; i++)
            local_drop(rights[i]);
        if (length == 0 || (length < 0 && instant_reached(instant_now(), until)))
            return false;
        if (length > 0)
            runner->in.length += (size_t)length;
        else
            local_await(runner->socket, until);
    }
    runner->taken = whole;
    return true;
}

static void out_send(struct runner *runner)
{
    (void)local_write(runner->socket, runner->out.bytes, runner->out.length);
    buffer_clear(&runner->out);
}

static bool link_verify(struct hf_job *job, int64_t limit_ns)
{
    struct runner *runner = list_owner(job, struct runner, job);
    struct instant until = instant_after(instant_now(), limit_ns);
    struct frame frame;
    size_t start = frame_begin(&runner->out, FRAME_VERIFY);
    frame_add_number(&runner->out, ++runner->question);
    frame_end(&runner->out, start);
    out_send(runner);
    while (frame_await(runner, until, &frame)) {
        struct frame_reader reader = frame_read(&frame);
        if (frame.kind == FRAME_VERIFIED && frame_take_number(&reader, 1, INT64_MAX) == runner->question)
            return frame_take_flag(&reader);
    }
    return false;
}

static int link_descriptor(struct hf_job *job)
{
    (void)job;
    return -1;
}

static bool link_hears(struct hf_job *job, enum hf_log_level level)
{
    (void)job;
    (void)level;
    return false;
}

static bool link_progress(struct hf_job *job, const char *json)
{
    struct runner *runner = list_owner(job, struct runner, job);
    size_t start = frame_begin(&runner->out, FRAME_PROGRESS);
    frame_add_string(&runner->out, json, strlen(json));
    frame_end(&runner->out, start);
    out_send(runner);
    return true;
}

static const struct job_link runner_link = {
    .verify = link_verify, .descriptor = link_descriptor, .hears = link_hears, .progress = link_progress};

static void crash_perhaps(struct runner *runner)
{
    struct fleet_task *task = runner->job.jid != NULL ? fleet_task_of(runner->job.jid) : NULL;
    if (!fleet.is_calm && chance_per_mille(&process_current()->chance, CRASH_PER_MILLE)) {
        if (task != NULL) {
            task->failures++;
            task->crashes++;
        }
        play_count("a runner process crashes", 1);
        child_kill(runner->child, EXIT_CRASHED);
    }
}

static bool runner_open(struct runner *runner, const struct frame *frame)
{
    struct runner_hello hello;
    bool is_refused = !fleet.is_calm && chance_per_mille(&process_current()->chance, REFUSE_PER_MILLE);
    invariant(runner_hello_read(frame, &hello, &runner->settings));
    process_sleep(chance_below(&process_current()->chance, LATENCY_MAX_NS));
    crash_perhaps(runner);
    size_t start = frame_begin(&runner->out, is_refused ? FRAME_REFUSED : FRAME_READY);
    if (is_refused)
        frame_add_string(&runner->out, "it does not want to", RUNNER_REASON_MAX);
    frame_end(&runner->out, start);
    out_send(runner);
    return !is_refused;
}

static void runner_run(struct runner *runner, const struct frame *frame)
{
    struct hf_job *job = &runner->job;
    struct runner_end end = {.memory = -1};
    struct frame kept = *frame;
    buffer_clear(&runner->kept);
    buffer_append(&runner->kept, frame->body, frame->length);
    kept.body = runner->kept.bytes;
    job_outcome_clear(&job->outcome);
    invariant(runner_order_read(&kept, &runner->order, job) && runner->order.berth < runner->board->berth_count);
    job->board = runner->board;
    job->berth = board_berth(runner->board, runner->order.berth);
    job->validity = runner->order.has_lock ? &job->berth->validity : NULL;
    job->link = &runner_link;
    crash_perhaps(runner);
    end.started = job_lock_is_valid(job);
    if (end.started)
        end.code = job_is_unwanted(job) ? HF_CANCELLED : fleet_handler_run(job, NULL);
    crash_perhaps(runner);
    end.run = runner->order.run;
    runner_end_write(&end, &job->outcome, &runner->out);
    out_send(runner);
    job_finish(job);
}

static void runner_main(void *argument)
{
    struct zygote_child *child = argument;
    struct runner *runner = memory_new(struct runner);
    struct frame frame;
    runner->child = child;
    runner->board = child->zygote->board;
    runner->socket = child->socket;
    while (frame_await(runner, INSTANT_NEVER, &frame) && frame.kind != FRAME_BYE) {
        if (frame.kind == FRAME_HELLO && !runner_open(runner, &frame))
            return;
        if (frame.kind == FRAME_RUN)
            runner_run(runner, &frame);
    }
}

/* --- orders ------------------------------------------------------------------------------------------------------- */

/* The plan gives it /dev/null, its output twice, and its socket; the plugin's file is none here. */
static void spawn(struct zygote_world *zygote, const struct zygote_order *order, struct local *const *rights)
{
    struct zygote_child *child = memory_new(struct zygote_child);
    child->zygote = zygote;
    child->reaped.fire = child_reaped;
    child->output = rights[0];
    local_drop(rights[1]);
    child->socket = rights[2];
    child->report = (struct zygote_report){.kind = REPORT_EXITED, .number = order->number};
    list_init(&child->link);
    list_append(&zygote->children, &child->link);
    child->process = process_start(zygote->host, "runner", runner_main, child);
    child->process->parent = zygote->worker;
    child->process->context = child;
    child->process->ended = child_ended;
    report(zygote, &(struct zygote_report){
                       .kind = REPORT_SPAWNED, .number = order->number, .pid = (int32_t)child->process->pid});
}

static struct zygote_child *child_find(struct zygote_world *zygote, uint64_t number)
{
    for (struct list *link = zygote->children.next; link != &zygote->children; link = link->next) {
        struct zygote_child *child = list_owner(link, struct zygote_child, link);
        if (child->report.number == number)
            return child;
    }
    return NULL;
}

/* Whoever has to be killed by now. Returns when to look again, by the clock of the host. */
static struct instant overdue_kill(struct zygote_world *zygote)
{
    struct instant now = host_boot(zygote->host, world_time());
    struct board_verdict verdict = board_look(zygote->board, 0, now);
    for (; verdict.child != 0; verdict = board_look(zygote->board, verdict.berth + 1, now)) {
        struct zygote_child *child = child_find(zygote, verdict.child);
        if (child == NULL || child->process == NULL)
            continue;
        play_count("killed at the end of its time", 1);
        child->report.end.killed_run = verdict.run;
        child->report.end.killed_berth = verdict.berth;
        child_kill(child, SIGKILL);
    }
    return verdict.next;
}

static void deadlines_keep(struct zygote_world *zygote)
{
    struct instant next = overdue_kill(zygote);
    atomic_store(&zygote->board->wakes_at, next.ns);
    if (next.ns == INT64_MAX)
        world_cancel(&zygote->alarm);
    else
        world_at(&zygote->alarm, host_truth(zygote->host, next));
}

static void alarm_fire(struct world_event *event)
{
    deadlines_keep(list_owner(event, struct zygote_world, alarm));
}

static void all_kill(struct zygote_world *zygote)
{
    world_cancel(&zygote->alarm);
    for (struct list *link = zygote->children.next, *next; link != &zygote->children; link = next) {
        next = link->next;
        child_kill(list_owner(link, struct zygote_child, link), SIGKILL);
    }
}

static void order_take(struct zygote_world *zygote, const char *bytes, ssize_t length, struct local **rights,
                       unsigned right_count)
{
    struct zygote_order order;
    memcpy(&order, bytes, sizeof order);
    invariant(length >= (ssize_t)sizeof order);
    struct zygote_child *child = child_find(zygote, order.number);
    if (order.kind == ORDER_SPAWN) {
        invariant(order.child_kind == CHILD_RUNNER && right_count == 3);
        spawn(zygote, &order, rights);
    } else if (order.kind == ORDER_KILL && child != NULL) {
        child_kill(child, order.signal);
    } else if (order.kind == ORDER_BYE) {
        all_kill(zygote);
    }
}

static void work_fire(struct world_event *event)
{
    struct zygote_world *zygote = list_owner(event, struct zygote_world, work);
    struct local *rights[LOCAL_RIGHTS_MAX];
    char bytes[sizeof(struct zygote_order) + ZYGOTE_WORDS_INLINE_MAX];
    unsigned right_count;
    ssize_t length;
    while ((length = local_read(zygote->socket, bytes, sizeof bytes, rights, &right_count)) > 0)
        order_take(zygote, bytes, length, rights, right_count);
    if (length < 0) {
        deadlines_keep(zygote);
        return;
    }
    local_listen(zygote->socket, NULL, NULL);
    local_drop(zygote->socket);
    zygote->socket = NULL;
    all_kill(zygote);
}

static void socket_told(void *context)
{
    struct zygote_world *zygote = context;
    world_at(&zygote->work, instant_after(world_time(), chance_below(world_chance(), LATENCY_MAX_NS)));
}

void fleet_zygote_start(struct zygote *zygote, struct board *board)
{
    int ends[2];
    struct zygote_world *world = memory_new(struct zygote_world);
    invariant(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    world->worker = process_current();
    world->host = world->worker->host;
    world->board = board;
    world->work.fire = work_fire;
    world->alarm.fire = alarm_fire;
    world->socket = local_take(ends[1]);
    list_init(&world->children);
    close(ends[1]);
    local_listen(world->socket, socket_told, world);
    atomic_store(&board->wakes_at, INT64_MAX);
    *zygote = (struct zygote){.socket = ends[0]}; /* no number: nobody waits for its end */
}
