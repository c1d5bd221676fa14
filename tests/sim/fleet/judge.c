/* What must never become of a run, judged from outside: by what handlers see.
 *
 *   twice     a run that was its task's last, or goes on, has none after it, unless its process died or was recovered
 *   once      a task that runs at most once does
 *   overlap   two handlers run at a seat of a resource, and both believe in their locks
 *   seats    a run has none of the seats that there are
 *   told      a handler whose lock has ended is not cancelled when another begins
 *   untold    nor is one without a lock, when its task begins elsewhere
 *   outlives  a handler outside of the worker is not killed when its lock has ended
 *   tokens    a run has a higher token than all that ended before it at its seat
 *   terms     a task begins while another runs that its locks do not keep apart
 *   serial    two runs of a class that is one at a time, for one worker
 *   enough    more runs for a worker than it was to take
 *   share     more runs for one worker than its class may have
 *   minority  trouble at a minority of the lock nodes costs no run
 *
 * `overlap`, `told` and `tokens` hold where exclusion is promised. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/fleet/fleet.h"
#include "worker/task/job_host.h"

enum { RUNS_MAX = 4096 };

struct run {
    const struct hf_job *job; /* NULL = it has ended */
    struct fleet_task *task;
    struct process *process;
    pid_t pid;
    uint64_t token;
    unsigned seat;
    bool is_last, is_recovered; /* another process may claim its task */
    bool has_other_terms;       /* its worker */
    bool is_forced;             /* an operator may take its lock away */
    bool is_late;               /* its lock had ended when it was checked last */
    struct instant held_until;  /* when it ended: when its lock was to end, in true time */
    struct instant left_at;     /* and when its task left the claim; 0 = not yet */
};

static struct run runs[RUNS_MAX];
static unsigned run_count;
static pid_t recovered[RUNS_MAX]; /* workers that others took for dead */
static unsigned recovered_count;
static uint64_t highest[FLEET_RESOURCES_MAX][FLEET_LIMIT_MAX + 1]; /* token of those that ended, by seat */
static unsigned forced[FLEET_RESOURCES_MAX];                       /* operators that take its lock away now */

/* A runner process runs what its worker claimed. */
static pid_t worker_pid(const struct process *process)
{
    return process->parent != NULL ? process->parent->pid : process->pid;
}

static bool goes_on(const struct run *run)
{
    return run->job != NULL && run->process->is_alive;
}

static bool asks(const struct run *run, bool (*question)(const struct hf_job *job))
{
    struct process *before = process_lend(run->process);
    bool answer = question(run->job);
    process_lend(before);
    return answer;
}

/* Its process lives, or ended in order after it had reported its runs. */
static bool is_sound(const struct process *process)
{
    return process == NULL || process->is_alive || process->has_ended;
}

/* Its worker stood still until the lock had ended and only then learned of the run: the worker refuses the result, and
 * the task is tried again. */
static bool was_heard_too_late(const struct run *run)
{
    return run->left_at.ns != 0 && instant_before(run->held_until, run->left_at);
}

static bool is_current(const struct run *run)
{
    bool has_told = run->is_last && is_sound(run->process) && (run->process == NULL || is_sound(run->process->parent));
    return (goes_on(run) || has_told) && !run->is_recovered;
}

/* What a program sees comes from its worker, which may stand still. What runs at most once is nobody else's. */
static bool may_know(const struct run *run)
{
    return fleet.isolation != CONFIG_ISOLATION_EXEC && run->task->kind != CLASS_ONCE;
}

static bool share_a_resource(const struct fleet_task *one, const struct fleet_task *other)
{
    for (unsigned i = 0; i < one->resource_count; i++)
        if (fleet_task_locks(other, one->resources[i]))
            return true;
    return false;
}

/* It begins for the worker with this number, at this seat. */
static void run_compare(const struct fleet_task *task, pid_t pid, unsigned seat, const struct run *run)
{
    if (run->task == task && is_current(run) && run->job == NULL && was_heard_too_late(run))
        play_count("excused: its end was heard after that of its lock", 1);
    else if (run->task == task && is_current(run))
        play_violated("twice", "%s begins again, and its run in process %d %s", task->jid, (int)run->pid,
                      run->is_last ? "was its last" : "goes on");
    if (!goes_on(run))
        return;
    if (run->task == task && run->job->validity == NULL && may_know(run) && !asks(run, job_was_cancelled))
        play_violated("untold", "%s begins again, and its run in process %d goes on untold", task->jid, (int)run->pid);
    if (task->kind == CLASS_SERIAL && run->task->kind == CLASS_SERIAL && run->pid == pid)
        play_violated("serial", "%s begins while %s runs for the same worker", task->jid, run->task->jid);
    if (fleet.is_wild || seat != run->seat || !share_a_resource(task, run->task))
        return;
    if (run->is_forced) {
        play_count("excused: forced", 1);
        return;
    }
    if (asks(run, job_lock_is_valid))
        play_violated("overlap", "%s begins while %s runs at its resource", task->jid, run->task->jid);
    else if (!asks(run, job_was_cancelled))
        play_violated("told", "%s begins while %s runs at its resource untold", task->jid, run->task->jid);
}

static bool was_recovered(pid_t pid)
{
    for (unsigned i = 0; i < recovered_count; i++)
        if (recovered[i] == pid)
            return true;
    return false;
}

/* Locks of one prefix, or node, exclude nothing of another; of one class some tasks lock what others do not. A worker
 * that others took for dead may run on until it learns of it, and a queue node that forgot does not know who serves. */
static void terms_check(const struct fleet_task *task, pid_t pid)
{
    const struct fleet_worker *worker = fleet_worker_of(pid);
    if (fleet.terms == TERMS_ARE_THE_SAME || worker == NULL || fleet.was_rolled_back || was_recovered(pid))
        return;
    for (unsigned i = 0; i < run_count; i++) {
        const struct run *run = &runs[i];
        bool is_apart = fleet.terms == TERMS_OF_ANOTHER_TEMPLATE
                            ? task->kind == CLASS_WORK && run->task->kind == CLASS_WORK
                            : task->resource_count > 0 && run->task->resource_count > 0;
        if (goes_on(run) && !run->is_recovered && is_apart && run->has_other_terms != worker->has_other_terms)
            play_violated("terms", "%s begins in process %d while %s runs by other terms in %d", task->jid, (int)pid,
                          run->task->jid, (int)run->pid);
    }
}

bool fleet_judge_runs_for(pid_t pid)
{
    for (unsigned i = 0; i < run_count; i++)
        if (goes_on(&runs[i]) && runs[i].pid == pid)
            return true;
    return false;
}

static unsigned runs_of(pid_t pid)
{
    unsigned count = 0;
    for (unsigned i = 0; i < run_count; i++)
        count += runs[i].pid == pid;
    return count;
}

static void share_check(const struct fleet_task *task, pid_t pid)
{
    unsigned running = 1;
    for (unsigned i = 0; i < run_count; i++)
        running += goes_on(&runs[i]) && runs[i].pid == pid && runs[i].task->kind == CLASS_WORK;
    if (fleet.share > 0 && task->kind == CLASS_WORK && running > fleet.share)
        play_violated("share", "%s begins as one of %u of its class, and %u may run", task->jid, running, fleet.share);
}

static void enough_check(const struct fleet_task *task, pid_t pid)
{
    const struct fleet_worker *worker = fleet_worker_of(pid);
    bool is_limited = worker != NULL && worker->number == 0 && worker->lives == 1 && fleet.max_tasks > 0;
    if (is_limited && runs_of(pid) >= fleet.max_tasks)
        play_violated("enough", "%s begins in %s, which has taken %llu tasks", task->jid, worker->process->name,
                      (unsigned long long)fleet.max_tasks);
}

void fleet_judge_taken(unsigned resource, unsigned seat)
{
    for (unsigned i = 0; i < run_count && !fleet.is_wild && !fleet.has_operators; i++)
        if (goes_on(&runs[i]) && runs[i].seat == seat && fleet_task_locks(runs[i].task, resource) &&
            asks(&runs[i], job_lock_is_valid))
            play_violated("beside", "a program takes seat %u of r%u while %s runs there", seat, resource,
                          runs[i].task->jid);
}

static void programs_compare(const struct fleet_task *task, unsigned seat)
{
    for (unsigned i = 0; i < task->resource_count && !fleet.is_wild && !fleet.has_operators; i++)
        if (fleet_program_holds(task->resources[i], seat))
            play_violated("beside", "%s begins while a program holds seat %u of r%u", task->jid, seat,
                          task->resources[i]);
}

void fleet_judge_begun(struct fleet_task *task, const struct hf_job *job)
{
    uint64_t token = strtoull(job->fence, NULL, 10);
    world_tell("begins %s, fence %s", task->jid, job->fence);
    play_count("begun", 1);
    task->begun++;
    task->is_on_its_way = false;
    task->successor_since = (struct instant){0};
    if (task->kind == CLASS_ONCE && task->begun > 1 + task->snoozed && !task->is_unwanted && !task->was_forgotten)
        play_violated("once", "%s begins for the second time", task->jid);
    const struct fleet_worker *worker = fleet_worker_of(worker_pid(process_current()));
    bool has_other_terms = worker != NULL && worker->has_other_terms;
    if (worker != NULL && job->resource_count != fleet_locks_of(task, has_other_terms))
        play_violated("unlocked", "%s begins with %u locks", task->jid, job->resource_count);
    for (unsigned i = 0; i < run_count; i++)
        run_compare(task, worker_pid(process_current()), job->seat, &runs[i]);
    programs_compare(task, job->seat);
    terms_check(task, worker_pid(process_current()));
    share_check(task, worker_pid(process_current()));
    enough_check(task, worker_pid(process_current()));
    if (task->comes_late)
        play_violated("quiet", "%s begins for process %d, which claimed it when it was quiet", task->jid,
                      (int)worker_pid(process_current()));
    bool has_seats = fleet.limit > 1 && task->resource_count > 0;
    if (job->seat > fleet.limit || (job->seat > 0) != has_seats)
        play_violated("seats", "%s begins at seat %u of %u", task->jid, job->seat, fleet.limit);
    if (job->seat > 1)
        play_count("another seat than the first", 1);
    for (unsigned i = 0; i < task->resource_count; i++)
        if (!fleet.is_wild && token <= highest[task->resources[i]][job->seat])
            play_violated("tokens", "%s begins with token %llu, and %llu has ended at its seat", task->jid,
                          (unsigned long long)token, (unsigned long long)highest[task->resources[i]][job->seat]);
    bool is_forced = false;
    for (unsigned i = 0; i < task->resource_count; i++)
        is_forced |= forced[task->resources[i]] > 0;
    if (run_count < RUNS_MAX)
        runs[run_count++] = (struct run){.job = job,
                                         .task = task,
                                         .process = process_current(),
                                         .pid = worker_pid(process_current()),
                                         .token = token,
                                         .seat = job->seat,
                                         .has_other_terms = has_other_terms,
                                         .is_forced = is_forced};
}

/* It stands still: it writes later what it would have written meanwhile. */
static bool is_ahead(const struct process *process)
{
    return instant_before(world_time(), process->free_at);
}

/* A run that is late twice was not killed in time. */
void fleet_judge_tick(void)
{
    for (unsigned i = 0; i < run_count && fleet.isolation != CONFIG_ISOLATION_THREAD; i++) {
        struct run *run = &runs[i];
        bool was_late = run->is_late;
        run->is_late = goes_on(run) && !is_ahead(run->process->parent) && run->job->validity != NULL &&
                       atomic_load(&run->job->validity->until) <= host_boot(run->process->host, world_time()).ns;
        if (was_late && run->is_late)
            play_violated("outlives", "%s runs on without its lock", run->task->jid);
    }
}

static const char *code_name(int code)
{
    static const char *const names[] = {"done", "failed", "discarded", "buried", "cancelled", "snoozed"};
    return names[code];
}

void fleet_judge_ended(struct fleet_task *task, const struct hf_job *job, int code)
{
    enum hf_cancel_reason loss = job_lock_loss(job);
    bool is_last = code == HF_OK || code == HF_DISCARD || code == HF_BURY;
    /* When the worker learns of the end of a program, its time limit may have passed. */
    bool may_be_late = fleet.isolation == CONFIG_ISOLATION_EXEC && task->kind == CLASS_BRIEF && code != HF_OK;
    for (unsigned i = 0; i < run_count; i++) {
        struct run *run = &runs[i];
        if (run->job != job || run->process != process_current())
            continue;
        run->job = NULL;
        /* The product decides the outcome of a cancelled run; one that lost its lock runs again. */
        run->is_last = is_last && !may_be_late && !job_was_cancelled(job);
        run->held_until = job->validity == NULL ? INSTANT_NEVER
                                                : host_truth(process_current()->host,
                                                             (struct instant){atomic_load(&job->validity->until)});
        for (unsigned r = 0; r < task->resource_count; r++)
            if (run->token > highest[task->resources[r]][run->seat])
                highest[task->resources[r]][run->seat] = run->token;
    }
    task->ended += is_last;
    task->failures += code == HF_FAIL || task->kind == CLASS_BRIEF || task->kind == CLASS_HELD;
    task->snoozed += code == HF_SNOOZE;
    fleet.runs += code != HF_SNOOZE;
    fleet.vague_runs += job_was_cancelled(job);
    play_count("lost its lock", loss != HF_NOT_CANCELLED);
    play_count(code_name(code), 1);
    world_tell("ends %s: %s", task->jid, code_name(code));
    if (!fleet.is_minor || loss != HF_LOCK_LOST || task->is_unwanted || fleet.has_operators)
        return;
    if (votes_are_narrow(&task->votes, fleet.node_count))
        play_count("excused: others were in its way at some nodes", 1);
    else
        play_violated("minority", "%s lost its lock, and a majority of the lock nodes was well", task->jid);
}

/* What a lock node holds under this key now, if the command or script names it. The value ends with the jid. */
static void key_look(unsigned index, const struct server_event *event, struct text key)
{
    char jid[sizeof fleet.tasks[0].jid];
    const struct value *value = keyspace_find(server_keyspace(event->server), key);
    if (value == NULL || value->type != VALUE_STRING)
        return;
    struct text text = {.bytes = value->string.bytes, .length = value->string.length};
    const char *colon = memrchr(text.bytes, ':', text.length);
    if (colon == NULL || !votes_names(event, text))
        return;
    snprintf(jid, sizeof jid, "%.*s", (int)(text.bytes + text.length - colon - 1), colon + 1);
    struct fleet_task *task = fleet_task_of(jid);
    if (task != NULL)
        votes_note(&task->votes, index, text);
}

static void lock_executed(void *context, const struct server_event *event)
{
    const struct node *node = context;
    unsigned index = 0;
    while (index < fleet.node_count && fleet.nodes[index] != node)
        index++;
    for (size_t i = 0; event->reply != NULL && i < event->keys; i++)
        key_look(index, event, event->arguments[i]);
}

void fleet_judge_watch(struct node *node)
{
    server_observe(node->server, lock_executed, node);
}

void fleet_judge_left(const struct fleet_task *task)
{
    for (unsigned i = 0; i < run_count; i++)
        if (runs[i].task == task && runs[i].is_last && runs[i].left_at.ns == 0)
            runs[i].left_at = world_time();
}

void fleet_judge_recovered(pid_t pid)
{
    if (recovered_count < RUNS_MAX && !was_recovered(pid))
        recovered[recovered_count++] = pid;
    for (unsigned i = 0; i < run_count; i++)
        runs[i].is_recovered |= runs[i].pid == pid && runs[i].left_at.ns == 0;
}

void fleet_judge_excuse(const struct fleet_task *task)
{
    for (unsigned i = 0; i < run_count; i++)
        runs[i].is_recovered |= runs[i].task == task;
}

void fleet_judge_force(unsigned resource, bool begins)
{
    forced[resource] += begins ? 1 : -1U;
    for (unsigned i = 0; i < run_count && begins; i++)
        runs[i].is_forced |= fleet_task_locks(runs[i].task, resource);
}

/* Failed runs: those that returned a failure, and those whose process crashed or was killed. */
unsigned fleet_failures(const struct fleet_task *task)
{
    unsigned failures = task->failures;
    for (unsigned i = 0; i < run_count; i++)
        failures += runs[i].task == task && runs[i].process != NULL && runs[i].process->parent != NULL &&
                    !is_sound(runs[i].process);
    return failures;
}
