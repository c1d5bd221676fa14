/* What must never become of a task, and what must become of each, judged from outside: from what producers were
 * answered, what handlers saw, and what the queue node holds.
 *
 *   place     a task is in one place at a time: its queue, a claim, a bell, schedule, retry or dead; or it has ended
 *   twice     a run that was done, or goes on, is the last one, unless its process died or was recovered
 *   overlap   two handlers run at a resource, and both believe in their locks
 *   tokens    a run has a higher token than all that ended before it at its resource
 *   minority  trouble at a minority of the lock nodes costs no run
 *   liveness  when the trouble is over, each task ends in time, and workers stop when they are asked to
 *
 * `overlap` and `tokens` hold where exclusion is promised. */
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
    bool is_done, is_recovered; /* others may have its task */
};

static struct run runs[RUNS_MAX];
static unsigned run_count;
static uint64_t highest[FLEET_RESOURCES_MAX]; /* token of those that ended */

/* A runner process runs what its worker claimed. */
static pid_t worker_pid(const struct process *process)
{
    return process->parent != NULL ? process->parent->pid : process->pid;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

static bool believes(const struct run *run)
{
    if (run->job == NULL || !run->process->is_alive)
        return false;
    struct process *before = process_lend(run->process);
    bool is_valid = job_lock_is_valid(run->job);
    process_lend(before);
    return is_valid;
}

static bool is_current(const struct run *run)
{
    return (run->job != NULL || run->is_done) && run->process->is_alive && !run->is_recovered;
}

static void run_check(const struct fleet_task *task, uint64_t token)
{
    bool is_locked = task->resource < FLEET_RESOURCES_MAX;
    for (unsigned i = 0; i < run_count; i++) {
        const struct run *run = &runs[i];
        if (run->task == task && is_current(run))
            play_violated("twice", "%s begins again, and its run in process %d %s", task->jid, (int)run->pid,
                          run->is_done ? "was done" : "goes on");
        if (is_locked && !fleet.is_wild && run->task->resource == task->resource && believes(run))
            play_violated("overlap", "%s begins at resource %u while %s runs there", task->jid, task->resource,
                          run->task->jid);
    }
    if (is_locked && !fleet.is_wild && token <= highest[task->resource])
        play_violated("tokens", "%s begins with token %llu, and %llu has ended at its resource", task->jid,
                      (unsigned long long)token, (unsigned long long)highest[task->resource]);
}

void fleet_judge_begun(struct fleet_task *task, const struct hf_job *job)
{
    uint64_t token = strtoull(job->fence, NULL, 10);
    world_tell("begins %s, fence %s", task->jid, job->fence);
    play_count("begun", 1);
    task->begun++;
    run_check(task, token);
    if (run_count < RUNS_MAX)
        runs[run_count++] = (struct run){.job = job,
                                         .task = task,
                                         .process = process_current(),
                                         .pid = worker_pid(process_current()),
                                         .token = token};
}

void fleet_judge_ended(struct fleet_task *task, const struct hf_job *job, bool is_done)
{
    for (unsigned i = 0; i < run_count; i++) {
        struct run *run = &runs[i];
        if (run->job != job || run->process != process_current())
            continue;
        run->job = NULL;
        run->is_done = is_done;
        if (task->resource < FLEET_RESOURCES_MAX && run->token > highest[task->resource])
            highest[task->resource] = run->token;
    }
    task->ended += is_done;
    play_count(is_done ? "done" : "not done", 1);
    world_tell("ends %s%s", task->jid, is_done ? "" : ", not done");
    if (!is_done && fleet.is_minor && job_lock_loss(job) != HF_NOT_CANCELLED)
        play_violated("minority", "%s lost its lock, and a majority of the lock nodes was well", task->jid);
}

/* --- places ------------------------------------------------------------------------------------------------------- */

static unsigned places[FLEET_TASKS_MAX];

static void place_note(struct text text)
{
    static const char mark[] = "\"jid\":\"t";
    const char *found = memmem(text.bytes, text.length, mark, sizeof mark - 1);
    unsigned long number = found == NULL ? FLEET_TASKS_MAX : strtoul(found + sizeof mark - 1, NULL, 10);
    if (number < FLEET_TASKS_MAX)
        places[number]++;
}

static bool begins_with(struct text name, const char *word)
{
    return name.length >= strlen(word) && memcmp(name.bytes, word, strlen(word)) == 0;
}

static bool holds_tasks(struct text name)
{
    static const char *const sorted[] = {"schedule", "retry", "dead"};
    for (unsigned i = 0; i < 3; i++)
        if (text_is(name, text_of(sorted[i])))
            return true;
    return begins_with(name, "queue:") || begins_with(name, "hf:2:process:") || begins_with(name, "hf:2:bell:");
}

static void places_count(void)
{
    const struct keyspace *space = server_keyspace(fleet.queue->server);
    const struct item *key, *item;
    memset(places, 0, sizeof places);
    for (size_t at = 0; (key = table_next(&space->keys, &at)) != NULL;) {
        const struct value *value = key->value;
        if (!holds_tasks(item_name(key)))
            continue;
        for (size_t i = 0; value->type == VALUE_LIST && i < value_count(value); i++)
            place_note(value_entry(value, i));
        for (size_t i = 0; value->type != VALUE_LIST && (item = table_next(&value->table, &i)) != NULL;)
            place_note(value->type == VALUE_HASH ? item_text(item) : item_name(item));
    }
}

static bool is_there(const struct fleet_task *task)
{
    return task->pushed == HF_PUSH_QUEUED || task->pushed == HF_PUSH_SCHEDULED;
}

static void places_check(void)
{
    places_count();
    for (unsigned i = 0; i < fleet.task_count; i++) {
        const struct fleet_task *task = &fleet.tasks[i];
        if (places[i] > 1)
            play_violated("place", "%s is in %u places", task->jid, places[i]);
        if (places[i] == 0 && is_there(task) && task->ended == 0 && !task->is_unwanted)
            play_violated("place", "%s is nowhere, and has not ended", task->jid);
    }
}

/* --- what the queue node does ------------------------------------------------------------------------------------- */

/* HOST:PID:NONCE */
static void recovered(struct text identity)
{
    const char *colon = memchr(identity.bytes, ':', identity.length);
    long pid = colon != NULL ? strtol(colon + 1, NULL, 10) : 0;
    for (unsigned i = 0; i < run_count; i++)
        runs[i].is_recovered |= runs[i].pid == pid;
    play_count("recoveries", 1);
}

/* Scripts that the server has not seen since it started, a process that is listed no more, and a full node. */
static bool is_expected(const char *error)
{
    return strncmp(error, "NOSCRIPT", 8) == 0 || strncmp(error, "UNLISTED", 8) == 0 ||
           (fleet.is_refusing && strncmp(error, "OOM", 3) == 0);
}

static void executed(void *context, const struct server_event *event)
{
    (void)context;
    if (event->script == NULL || event->reply == NULL)
        return;
    if (event->reply->kind == REPLY_ERROR && !is_expected(event->reply->text.bytes))
        play_violated("script", "%s answers %s", event->script, event->reply->text.bytes);
    if (strcmp(event->script, "recover") == 0)
        recovered(event->arguments[event->keys]);
    if (++fleet.scripts % PLACES_EACH == 0)
        places_check();
}

void fleet_judge_watch(void)
{
    server_observe(fleet.queue->server, executed, NULL);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

bool fleet_is_idle(void)
{
    places_count();
    for (unsigned i = 0; i < fleet.task_count; i++)
        if (places[i] > 0)
            return false;
    return true;
}

void fleet_judge_end(void)
{
    for (unsigned i = 0; i < fleet.node_count; i++)
        node_tell(fleet.nodes[i], "hf:lock:group");
    places_check();
    for (unsigned i = 0; i < fleet.task_count; i++) {
        const struct fleet_task *task = &fleet.tasks[i];
        if (places[i] > 0)
            play_violated("liveness", "%s has not ended long after the trouble", task->jid);
        if (task->pushed == HF_PUSH_INVALID)
            play_violated("push", "%s was called invalid", task->jid);
    }
}
