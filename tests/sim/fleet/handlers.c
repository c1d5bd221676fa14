/* Handlers that hold their locks for the time in their arguments, and end in every way in which a handler can end. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/invariant.h"
#include "tests/sim/fleet/fleet.h"
#include "worker/plugin/plugin.h"
#include "worker/task/job_host.h"

#define STEP_NS    (20 * NS_PER_MS)
#define TIMEOUT_MS 700

/* Its time counts from now on, and it is there when the run has ended. */
static void child_push(struct hf_job *job, const struct hf_host *host, const struct fleet_task *task)
{
    struct fleet_task *child = &fleet.tasks[task->child];
    const hf_push_api *push = host->api("push", 1);
    char reason[256];
    struct buffer text = {0};
    if (child->said_at.ns == 0)
        child->said_at = world_time();
    fleet_task_write(child, &text);
    if (!push->add(job, buffer_text(&text), reason, sizeof reason))
        play_violated("push", "a handler may not push %s: %s", buffer_text(&text), reason);
    buffer_fini(&text);
}

/* A program receives only SIGTERM; the judges ask for the state of its lock. */
static bool was_told(const struct hf_job *job)
{
    return fleet.isolation == CONFIG_ISOLATION_EXEC ? atomic_load(&job->run_entry->asked) != HF_NOT_CANCELLED
                                                    : job_was_cancelled(job);
}

static void report(struct hf_job *job, const struct hf_host *host, struct chance *chance)
{
    const hf_report_api *reports = host->api("report", 1);
    const hf_lock_api *lock = host->api("lock", 1);
    if (job->reports_progress && chance_pick(chance, 4) == 0)
        reports->progress(job, "{\"done\":1}");
    if (fleet.isolation != CONFIG_ISOLATION_EXEC && chance_pick(chance, 16) == 0)
        play_count(lock->verify(job) ? "verified" : "not verified", 1);
}

/* False when it was cancelled and obeyed. */
static bool work(struct hf_job *job, const struct hf_host *host, const struct fleet_task *task)
{
    struct chance *chance = &process_current()->chance;
    bool is_slow = task != NULL && task->is_slow;
    int64_t left_ns = chance_below(chance, fleet.hold_ns) * (is_slow ? 2 : 1);
    if (fleet.loses_locks)
        left_ns = (left_ns + fleet.hold_ns) / 2;
    if (is_slow && task->kind == CLASS_HELD)
        left_ns = chance_below(chance, 2 * fleet.ttl_ms * NS_PER_MS);
    if (fleet.is_calm)
        left_ns /= 8;
    if (is_slow && task->kind == CLASS_BRIEF)
        left_ns += (TIMEOUT_MS + 2 * FLEET_GRACE_MS) * NS_PER_MS;
    while (left_ns > 0) {
        int64_t ns = left_ns < STEP_NS ? left_ns : STEP_NS;
        if (was_told(job) && !is_slow)
            return false;
        process_sleep(ns);
        left_ns -= ns;
        if (task != NULL && chance_pick(chance, 8) == 0)
            report(job, host, chance);
    }
    return true;
}

static int code_of(struct hf_job *job, const struct hf_host *host, const struct fleet_task *task)
{
    struct chance *chance = &process_current()->chance;
    const hf_report_api *reports = host->api("report", 1);
    bool is_last = fleet.is_calm || chance_pick(chance, 3) == 0;
    if (task->habit == HABIT_FAILS && !is_last) {
        reports->retry_in(job, chance_below(chance, 3000));
        return HF_FAIL;
    }
    if (task->habit == HABIT_SNOOZES && !is_last) {
        reports->retry_in(job, chance_below(chance, 3000));
        return HF_SNOOZE;
    }
    return task->habit == HABIT_DISCARDS ? HF_DISCARD : task->habit == HABIT_BURIES ? HF_BURY : HF_OK;
}

static const struct hf_host *host_find(void)
{
    static const struct hf_host *host;
    static const struct config none;
    if (host == NULL)
        host = job_hosts_for(job_hosts_create(&none), "world");
    return host;
}

int fleet_handler_run(hf_job *job, void *state)
{
    (void)state;
    const struct hf_host *host = host_find();
    struct fleet_task *task = fleet_task_of(job->jid);
    if (task == NULL) { /* a tick */
        if (strcmp(job->jid, "sealed") == 0)
            play_violated("nonsense", "%s begins, and nobody here can read its arguments", job->jid);
        play_count("ticks", 1);
        fleet.runs++;
        bool is_through = work(job, host, NULL);
        fleet.vague_runs += !is_through;
        return is_through ? HF_OK : HF_CANCELLED;
    }
    fleet_judge_begun(task, job);
    if (task->child > 0)
        child_push(job, host, task);
    bool is_through = work(job, host, task);
    int code = is_through ? code_of(job, host, task) : HF_CANCELLED;
    fleet_judge_ended(task, job, code);
    return code;
}

struct plugins *fleet_handlers_make(void)
{
    static const struct plugin_handler kinds[CLASS_NOBODY] = {
        [CLASS_WORK] = {.flags = HF_PROGRESS},
        [CLASS_SERIAL] = {.flags = HF_SERIAL},
        [CLASS_ONCE] = {.flags = HF_AT_MOST_ONCE},
        [CLASS_CACHE] = {.mode = HF_EFFICIENCY, .on_conflict = HF_CONFLICT_SKIP, .hold_at_least_ms = 500},
        [CLASS_LATER] = {.on_conflict = HF_CONFLICT_DELAY},
        [CLASS_STRICT] = {.on_conflict = HF_CONFLICT_FAIL, .retries = 2},
        [CLASS_BRIEF] = {.timeout_ms = TIMEOUT_MS, .retries = 2},
        [CLASS_HELD] = {.retries = 2},
        [CLASS_FRAIL] = {.retries = 1},
        [CLASS_GONE] = {.flags = HF_NO_RETRY | HF_NO_GRAVE},
    };
    static const char *const program[] = {"/world", NULL};
    struct plugins *plugins = plugins_create_built_in("world", NULL);
    (void)host_find(); /* made here, it is shared by all processes and stays */
    for (unsigned i = 0; i < CLASS_NOBODY; i++) {
        struct plugin_handler handler = kinds[i];
        handler.class_name = fleet_class_names[i];
        if (fleet.isolation == CONFIG_ISOLATION_EXEC)
            handler.program = program;
        else
            handler.run = fleet_handler_run;
        if (i == CLASS_HELD)
            handler.max_hold_ms = fleet.ttl_ms;
        handler.isolation = fleet.isolation == CONFIG_ISOLATION_THREAD ? HF_ISOLATION_THREAD : HF_ISOLATION_PROCESS;
        handler.grace_ms = FLEET_GRACE_MS;
        handler.origin = "world";
        invariant(plugins_add_built_in(plugins, &handler));
    }
    return plugins;
}
