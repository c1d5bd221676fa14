/* A worker's zygote and its children, runner processes and programs, as the worker sees them: orders, reports, frames
 * and words are those of production, and so is the rule of the run table by which it kills. Children are processes of
 * the world, so they do not stand still when the worker does, and die on their own.
 *
 *   input  a program reads the arguments of its task
 *   asked  it is asked to stop before it is killed because its time is over
 *   grace  and is killed when its grace is over */
#include "worker/isolation/zygote_message.h"

#include <errno.h>
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
#define GRACE_NS       ((FLEET_GRACE_MS + 100) * NS_PER_MS) /* and the time to learn of it */
#define SETTLES_NS     (20 * NS_PER_S)

enum { EXIT_CRASHED = SIGSEGV, CRASH_PER_MILLE = 15, REFUSE_PER_MILLE = 5, READ_MAX = 64 << 10, INPUT_MAX = 64 };

struct zygote_world {
    struct process *worker;
    struct host *host;
    struct run_table *run_table;
    struct local *socket; /* NULL = the worker is gone */
    struct world_event work, alarm;
    struct list children;
};

struct zygote_child {
    struct list link;
    struct zygote_world *zygote;
    struct process *process;
    struct local *socket, *output; /* of a runner process */
    struct program *program;       /* NULL = it is a runner process */
    struct zygote_report report;   /* of its end */
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

static void program_ended(struct program *program);

static void child_ended(struct process *process)
{
    struct zygote_child *child = process->context;
    if (child->program != NULL) {
        program_ended(child->program);
    } else {
        local_drop(child->socket);
        local_drop(child->output);
    }
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

/* `jid` = NULL: it has no task. */
static void crash_perhaps(struct zygote_child *child, const char *jid)
{
    struct fleet_task *task = jid != NULL ? fleet_task_of(jid) : NULL;
    if (!fleet.is_calm && chance_per_mille(&process_current()->chance, CRASH_PER_MILLE)) {
        if (task != NULL) {
            task->failures++;
            task->crashes++;
        }
        play_count(child->program != NULL ? "a program crashes" : "a runner process crashes", 1);
        child_kill(child, EXIT_CRASHED);
    }
}

/* --- the runner process ------------------------------------------------------------------------------------------- */

struct runner {
    struct zygote_child *child;
    struct run_table *run_table;
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

static bool runner_open(struct runner *runner, const struct frame *frame)
{
    struct runner_hello hello;
    bool is_refused = !fleet.is_calm && chance_per_mille(&process_current()->chance, REFUSE_PER_MILLE);
    invariant(runner_hello_read(frame, &hello, &runner->settings));
    process_sleep(chance_below(&process_current()->chance, LATENCY_MAX_NS));
    crash_perhaps(runner->child, runner->job.jid);
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
    invariant(runner_order_read(&kept, &runner->order, job) &&
              runner->order.run_entry < runner->run_table->run_entry_count);
    job->run_table = runner->run_table;
    job->run_entry = run_table_entry(runner->run_table, runner->order.run_entry);
    job->validity = runner->order.has_lock ? &job->run_entry->validity : NULL;
    job->link = &runner_link;
    crash_perhaps(runner->child, runner->job.jid);
    end.started = job_may_begin(job);
    if (end.started)
        end.code = job_is_unwanted(job) ? HF_CANCELLED : fleet_handler_run(job, NULL);
    crash_perhaps(runner->child, runner->job.jid);
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
    runner->run_table = child->zygote->run_table;
    runner->socket = child->socket;
    while (frame_await(runner, INSTANT_NEVER, &frame) && frame.kind != FRAME_BYE) {
        if (frame.kind == FRAME_HELLO && !runner_open(runner, &frame))
            return;
        if (frame.kind == FRAME_RUN)
            runner_run(runner, &frame);
    }
}

/* --- the program -------------------------------------------------------------------------------------------------- */

enum { INPUT, OUTPUT, ERRORS, REPORTS, PROGRAM_ENDS };

struct program {
    struct zygote_child *child;
    struct local *ends[PROGRAM_ENDS];
    char *words, **environment;
    bool dies_of_it;              /* of SIGTERM, as a careless program does */
    struct instant asked_at;      /* to stop, not only because its lock was in danger, by its host; 0 = it was not */
    const struct run_entry *told; /* on its worker's run table, for judges */
    struct run_entry run_entry;   /* its own, where SIGTERM shows */
    struct hf_job job;
};

static const char *variable(const struct program *program, const char *name)
{
    size_t length = strlen(name);
    for (char **at = program->environment; *at != NULL; at++)
        if (strncmp(*at, name, length) == 0 && (*at)[length] == '=')
            return *at + length + 1;
    return NULL;
}

/* In two pieces, as it may come. */
static void say(struct local *end, struct buffer *text)
{
    size_t first = text->length == 0 ? 0 : (size_t)chance_between(&process_current()->chance, 1, (int64_t)text->length);
    if (first > 0)
        (void)local_write(end, text->bytes, first);
    if (first < text->length)
        (void)local_write(end, text->bytes + first, text->length - first);
    buffer_fini(text);
}

static bool program_progress(struct hf_job *job, const char *json)
{
    struct buffer text = {0};
    buffer_format(&text, "{\"progress\":%s}\n", json);
    say(list_owner(job, struct program, job)->ends[REPORTS], &text);
    return true;
}

static void input_read(struct program *program)
{
    struct local *rights[LOCAL_RIGHTS_MAX];
    unsigned right_count;
    ssize_t length;
    struct buffer input = {0};
    while ((length = local_read(program->ends[INPUT], buffer_reserve(&input, INPUT_MAX), INPUT_MAX, rights,
                                &right_count)) > 0)
        input.length += (size_t)length;
    const struct fleet_task *task = fleet_task_of(program->job.jid);
    const char *text = buffer_text(&input);
    if (task != NULL && (text[0] != '[' || strtoul(text + 1, NULL, 10) != task->key))
        play_violated("input", "the program of %s is told %s", task->jid, text);
    buffer_fini(&input);
}

/* The facts in its environment. */
static void job_read(struct program *program)
{
    static const struct run_table nobody = {.lease_end = INT64_MAX};
    static const struct job_link link = {.progress = program_progress};
    struct hf_job *job = &program->job;
    const char *seat = variable(program, "HF_SEAT");
    const char *fence = variable(program, "HF_FENCE"), *resources = variable(program, "HF_RESOURCES");
    bool is_locked = variable(program, "HF_LOCK_UNTIL_MS") != NULL;
    *job =
        (struct hf_job){.jid = variable(program, "HF_JID"),
                        .class_name = variable(program, "HF_CLASS"),
                        .queue = variable(program, "HF_QUEUE"),
                        .reports_progress = true,
                        .may_push = true,
                        .seat = seat != NULL ? (unsigned)strtoul(seat, NULL, 10) : 0,
                        .validity = is_locked ? (struct redlock_validity *)(uintptr_t)&program->told->validity : NULL,
                        .run_entry = &program->run_entry,
                        .run_table = &nobody,
                        .link = &link};
    snprintf(job->fence, sizeof job->fence, "%s", fence != NULL ? fence : "");
    for (const char *at = resources; at != NULL && (at = strchr(at, '"')) != NULL; at = strchr(at + 1, '"') + 1)
        job->resource_count++;
    run_entry_clear(&program->run_entry);
    atomic_store(&program->run_entry.hold_until, atomic_load(&program->told->hold_until)); /* for the judges */
    job_outcome_clear(&job->outcome);
}

static void outcome_say(struct program *program, int code)
{
    const struct job_outcome *outcome = &program->job.outcome;
    struct buffer reports = {0}, errors = {0};
    for (size_t i = 0; i < outcome->follow_up_count; i++)
        buffer_format(&reports, "{\"push\":%s}\n", outcome->follow_ups[i]);
    if (outcome->retry_in_ms >= 0)
        buffer_format(&reports, "{\"retry_in\":%.3f}\n", (double)outcome->retry_in_ms / 1000);
    if (code == HF_BURY)
        buffer_append_text(&reports, "{\"error\":{\"class\":\"HF::Buried\"}}"); /* to its end */
    buffer_format(&errors, "%s ends: %d\n", program->job.jid, code);
    say(program->ends[REPORTS], &reports);
    say(program->ends[ERRORS], &errors);
}

static void program_main(void *argument)
{
    static const int statuses[] = {
        [HF_OK] = 0, [HF_FAIL] = 1, [HF_DISCARD] = 99, [HF_BURY] = 65, [HF_CANCELLED] = 1, [HF_SNOOZE] = 98};
    struct program *program = argument;
    struct buffer begins = {0};
    process_sleep(chance_below(&process_current()->chance, LATENCY_MAX_NS));
    input_read(program);
    buffer_format(&begins, "%s begins", program->job.jid);
    say(program->ends[OUTPUT], &begins);
    crash_perhaps(program->child, program->job.jid);
    int code = fleet_handler_run(&program->job, NULL);
    outcome_say(program, code);
    crash_perhaps(program->child, program->job.jid);
    program->child->report.end.wait_status = statuses[code] << 8;
    play_count("a program ends", 1);
}

static void program_ask(struct program *program)
{
    const struct zygote_world *zygote = program->child->zygote;
    bool is_for_good =
        atomic_load(&program->told->asked) != HF_NOT_CANCELLED || atomic_load(&zygote->run_table->must_stop);
    bool stalls = instant_before(world_time(), zygote->worker->free_at); /* its grace may begin later */
    play_count("a program is asked to stop", 1);
    if (is_for_good && !stalls && program->asked_at.ns == 0)
        program->asked_at = host_boot(zygote->host, world_time());
    atomic_store(&program->run_entry.asked, HF_SHUTDOWN);
    if (program->dies_of_it)
        child_kill(program->child, SIGTERM);
}

/* Nobody stands still, or has until lately. */
static bool is_undisturbed(void)
{
    struct instant settled = instant_after(fleet.calm_at, SETTLES_NS);
    return fleet.peace == PEACE_OF_MIND || fleet.peace == PEACE_KILLS ||
           (fleet.is_calm && instant_reached(world_time(), settled));
}

static void program_overdue(const struct program *program, struct instant now)
{
    bool is_late = atomic_load(&program->told->kill_at) <= now.ns; /* and not for its lock */
    if (is_late && atomic_load(&program->run_entry.asked) == HF_NOT_CANCELLED && is_undisturbed())
        play_violated("asked", "the program of %s is killed, and was not asked to stop", program->job.jid);
}

static void program_ended(struct program *program)
{
    struct instant now = host_boot(program->child->zygote->host, world_time());
    int64_t ns = program->asked_at.ns == 0 ? 0 : instant_since(program->asked_at, now);
    if (ns > GRACE_NS)
        play_violated("grace", "the program of %s runs on for %.1f s", program->job.jid, (double)ns / 1e9);
    for (unsigned i = 0; i < PROGRAM_ENDS; i++)
        local_drop(program->ends[i]);
}

/* --- orders ------------------------------------------------------------------------------------------------------- */

static struct zygote_child *child_make(struct zygote_world *zygote, uint64_t number)
{
    struct zygote_child *child = memory_new(struct zygote_child);
    child->zygote = zygote;
    child->reaped.fire = child_reaped;
    child->report = (struct zygote_report){.kind = REPORT_EXITED, .number = number};
    list_init(&child->link);
    list_append(&zygote->children, &child->link);
    return child;
}

static void child_start(struct zygote_child *child, const char *name, void (*main)(void *argument), void *argument)
{
    struct zygote_world *zygote = child->zygote;
    child->process = process_start(zygote->host, name, main, argument);
    child->process->parent = zygote->worker;
    child->process->context = child;
    child->process->ended = child_ended;
}

static void child_announce(const struct zygote_child *child)
{
    report(child->zygote, &(struct zygote_report){.kind = REPORT_SPAWNED,
                                                  .number = child->report.number,
                                                  .pid = (int32_t)child->process->pid});
}

/* The plan gives it /dev/null, its output twice, and its socket; the plugin's file is none here. */
static void runner_spawn(struct zygote_world *zygote, const struct zygote_order *order, struct local *const *rights)
{
    struct zygote_child *child = child_make(zygote, order->number);
    child->output = rights[0];
    local_drop(rights[1]);
    child->socket = rights[2];
    child_start(child, "runner", runner_main, child);
    child_announce(child);
}

static struct program *program_make(struct zygote_world *zygote, const struct zygote_order *order, const char *words,
                                    struct local *const *rights)
{
    struct program *program = memory_new(struct program);
    char **pointers = memory_zeroed(order->argument_count + order->environment_count + 2, sizeof *pointers);
    program->words = memory_text_of(words, order->words_length);
    invariant(zygote_words_split(order, program->words, pointers));
    program->environment = pointers + order->argument_count + 1;
    memcpy(program->ends, rights, sizeof program->ends);
    for (unsigned i = 0; i < zygote->run_table->run_entry_count; i++)
        if (atomic_load(&zygote->run_table->run_entries[i].occupant) == order->number)
            program->told = &zygote->run_table->run_entries[i];
    invariant(program->told != NULL);
    job_read(program);
    return program;
}

/* 0, or why it does not start. */
static int start_failure(const struct program *program)
{
    struct fleet_task *task = fleet_task_of(program->job.jid);
    bool is_its_fault = chance_pick(world_chance(), 2) == 0;
    if (fleet.is_calm || !chance_per_mille(world_chance(), REFUSE_PER_MILLE))
        return 0;
    play_count("a program does not start", 1);
    if (is_its_fault && task != NULL) {
        task->failures++;
        task->refusals++;
    }
    return is_its_fault ? EACCES : EAGAIN;
}

static void program_spawn(struct zygote_world *zygote, const struct zygote_order *order, const char *words,
                          struct local *const *rights)
{
    struct program *program = program_make(zygote, order, words, rights);
    struct zygote_report refusal = {.kind = REPORT_SPAWNED, .number = order->number};
    refusal.failure = start_failure(program);
    if (refusal.failure != 0) {
        for (unsigned i = 0; i < PROGRAM_ENDS; i++)
            local_drop(program->ends[i]);
        report(zygote, &refusal);
        return;
    }
    struct fleet_task *task = fleet_task_of(program->job.jid);
    if (task != NULL)
        task->programs++;
    program->dies_of_it = (task == NULL || !task->is_slow) && chance_pick(world_chance(), 2) == 0;
    program->child = child_make(zygote, order->number);
    program->child->program = program;
    child_start(program->child, "program", program_main, program);
    if (!order->is_quiet)
        child_announce(program->child);
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

/* Kills the children whose time has come. Returns when to check again, by the clock of the host. */
static struct instant overdue_kill(struct zygote_world *zygote)
{
    struct instant now = host_boot(zygote->host, world_time());
    struct run_table_verdict verdict = run_table_look(zygote->run_table, 0, now);
    for (; verdict.child != 0; verdict = run_table_look(zygote->run_table, verdict.run_entry + 1, now)) {
        struct zygote_child *child = child_find(zygote, verdict.child);
        if (child == NULL || child->process == NULL)
            continue;
        if (child->program != NULL)
            program_overdue(child->program, now);
        const struct run_entry *entry = run_table_entry(zygote->run_table, verdict.run_entry);
        bool is_lockless = atomic_load(&entry->is_locked) && atomic_load(&entry->validity.until) <= now.ns;
        play_count(is_lockless ? "lost its lock" : "killed at the end of its time", 1);
        child->report.end.killed_run = verdict.run;
        child->report.end.killed_run_entry = verdict.run_entry;
        child_kill(child, SIGKILL);
    }
    return verdict.next;
}

static void deadlines_keep(struct zygote_world *zygote)
{
    struct instant next = overdue_kill(zygote);
    atomic_store(&zygote->run_table->wakes_at, next.ns);
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
        bool is_program = order.child_kind == CHILD_PROGRAM;
        invariant(!order.words_in_file && right_count == (is_program ? PROGRAM_ENDS : 3));
        if (is_program)
            program_spawn(zygote, &order, bytes + sizeof order, rights);
        else
            runner_spawn(zygote, &order, rights);
    } else if (order.kind == ORDER_KILL && child != NULL && child->process != NULL) {
        if (child->program != NULL && order.signal == SIGTERM)
            program_ask(child->program);
        else
            child_kill(child, order.signal);
    } else if (order.kind == ORDER_BYE) {
        all_kill(zygote);
    }
}

void fleet_zygote_die(struct zygote_world *zygote)
{
    world_cancel(&zygote->work);
    local_listen(zygote->socket, NULL, NULL);
    local_drop(zygote->socket);
    zygote->socket = NULL;
    all_kill(zygote);
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
    if (length < 0)
        deadlines_keep(zygote);
    else
        fleet_zygote_die(zygote);
}

static void socket_told(void *context)
{
    struct zygote_world *zygote = context;
    world_at(&zygote->work, instant_after(world_time(), chance_below(world_chance(), LATENCY_MAX_NS)));
}

struct zygote_world *fleet_zygote_start(struct zygote *zygote, struct run_table *run_table)
{
    int ends[2];
    struct zygote_world *world = memory_new(struct zygote_world);
    invariant(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    world->worker = process_current();
    world->host = world->worker->host;
    world->run_table = run_table;
    world->work.fire = work_fire;
    world->alarm.fire = alarm_fire;
    world->socket = local_take(ends[1]);
    list_init(&world->children);
    close(ends[1]);
    local_listen(world->socket, socket_told, world);
    atomic_store(&run_table->wakes_at, INT64_MAX);
    *zygote = (struct zygote){.socket = ends[0]}; /* without a number: nobody waits for its end */
    return world;
}
