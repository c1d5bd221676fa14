/* Assigns runs to processes. Each change (a new run, a process that becomes idle or ends) only requests a look,
 * which assigns runs at the end of the cycle. So nothing starts inside the calls of others, and a cycle with many new
 * runs looks once. */
#include <stdlib.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "worker/isolation/process_pool.h"

#define SNOOZE_MS 10000

static const struct process_pool_times usual_times = {
    .idle_ns = 60 * NS_PER_S,
    .open_ns = 30 * NS_PER_S,
    .leave_ns = 5 * NS_PER_S,
    .back_off_ns = NS_PER_S,
    .back_off_max = 30 * NS_PER_S,
};

/* --- kinds ------------------------------------------------------------------------------------------------------ */

static bool kind_fits(const struct process_kind *kind, const struct isolated_run *run)
{
    return kind->plugin == run->handler->plugin && kind->memory_limit == run->rules->memory_limit &&
           kind->open_files_limit == run->rules->open_files_limit;
}

static void retry_is_due(struct loop_timer *timer)
{
    process_pool_look(list_owner(timer, struct process_kind, retry)->pool);
}

static struct process_kind *kind_of(struct process_pool *pool, const struct isolated_run *run)
{
    for (struct list *at = pool->kinds.next; at != &pool->kinds; at = at->next)
        if (kind_fits(list_owner(at, struct process_kind, link), run))
            return list_owner(at, struct process_kind, link);
    struct process_kind *kind = memory_new(struct process_kind);
    *kind = (struct process_kind){.pool = pool,
                                  .plugin = run->handler->plugin,
                                  .memory_limit = run->rules->memory_limit,
                                  .open_files_limit = run->rules->open_files_limit};
    list_init(&kind->link);
    list_init(&kind->idle);
    list_init(&kind->waiting);
    loop_timer_init(&kind->retry, retry_is_due);
    list_append(&pool->kinds, &kind->link);
    return kind;
}

static void kind_free(struct process_kind *kind)
{
    list_remove(&kind->link);
    loop_timer_clear(kind->pool->options.loop, &kind->retry);
    free(kind);
}

static bool kind_is_held_back(const struct process_kind *kind)
{
    return kind->strikes > 0 && instant_before(loop_now(kind->pool->options.loop), kind->not_before);
}

/* --- runs meet processes ---------------------------------------------------------------------------------------- */

static struct isolated_run *waiting_take(struct process_kind *kind)
{
    struct list *link = list_take_first(&kind->waiting);
    struct isolated_run *run = link != NULL ? list_owner(link, struct isolated_run, link) : NULL;
    if (run != NULL)
        run->at = NULL;
    return run;
}

static unsigned waiting_count(const struct process_kind *kind)
{
    unsigned count = 0;
    for (const struct list *at = kind->waiting.next; at != &kind->waiting; at = at->next)
        count++;
    return count;
}

/* The fault is the worker's, not the task's: the task is tried again later. */
static void kind_refuse_all(struct process_kind *kind)
{
    for (struct isolated_run *run; (run = waiting_take(kind)) != NULL;) {
        job_outcome_clear(&run->job->outcome);
        (void)job_outcome_set_retry_in(&run->job->outcome, SNOOZE_MS);
        failure_set(&run->job->outcome.failure, FAILURE_NOT_STARTED, "the plugin %s did not open in its process: %s",
                    kind->plugin->descriptor.name, kind->fault);
        run->ended(run, HF_SNOOZE);
    }
}

static void kind_give(struct process_kind *kind)
{
    while (!list_is_empty(&kind->idle) && !list_is_empty(&kind->waiting)) {
        struct isolated_run *run = waiting_take(kind);
        if (!job_may_begin(run->job)) {
            run->ended(run, ISOLATION_NOT_STARTED);
        } else if (!process_give(list_owner(kind->idle.next, struct pooled_process, idle_link), run)) {
            list_prepend(&kind->waiting, &run->link);
            run->at = kind;
        }
    }
}

static unsigned process_pool_limit(const struct process_pool *pool)
{
    return pool->options.config->worker.threads;
}

static bool may_create(const struct process_pool *pool)
{
    return pool->active < process_pool_limit(pool) && pool->active + pool->leaving < 2 * process_pool_limit(pool);
}

/* The process of any kind that has been idle longest. */
static struct pooled_process *idle_oldest(const struct process_pool *pool)
{
    struct pooled_process *oldest = NULL;
    for (struct list *at = pool->kinds.next; at != &pool->kinds; at = at->next) {
        const struct process_kind *kind = list_owner(at, struct process_kind, link);
        if (list_is_empty(&kind->idle))
            continue;
        struct pooled_process *last = list_owner(kind->idle.previous, struct pooled_process, idle_link);
        if (oldest == NULL || instant_before(last->idle_since, oldest->idle_since))
            oldest = last;
    }
    return oldest;
}

/* Starts processes for runs without an idle process of their kind. */
static void kind_grow(struct process_kind *kind)
{
    struct process_pool *pool = kind->pool;
    struct error error = ERROR_NONE;
    unsigned wanted = waiting_count(kind);
    if (kind_is_held_back(kind))
        return;
    while (kind->starting < wanted) {
        struct pooled_process *idle = pool->active >= process_pool_limit(pool) ? idle_oldest(pool) : NULL;
        if (idle != NULL)
            process_retire(idle);
        if (!may_create(pool))
            return;
        if (!process_create(kind, &error)) {
            kind_struck(kind, error.text);
            return;
        }
    }
}

/* If the pool is full, and has no process of this kind, the next that may start is of this kind. */
static bool must_yield(const struct process_kind *kind)
{
    const struct process_pool *pool = kind->pool;
    if (pool->active < process_pool_limit(pool))
        return false;
    for (struct list *at = pool->kinds.next; at != &pool->kinds; at = at->next) {
        const struct process_kind *other = list_owner(at, struct process_kind, link);
        if (other != kind && other->processes == 0 && !list_is_empty(&other->waiting) && !kind_is_held_back(other))
            return true;
    }
    return false;
}

static void kind_serve(struct process_kind *kind)
{
    if (!list_is_empty(&kind->idle) && must_yield(kind))
        process_retire(list_owner(kind->idle.previous, struct pooled_process, idle_link));
    kind_give(kind);
    if (!list_is_empty(&kind->waiting))
        kind_grow(kind);
    if (kind->processes == 0 && kind_is_held_back(kind))
        kind_refuse_all(kind);
}

static bool kind_is_used(const struct process_pool *pool, const struct process_kind *kind)
{
    for (struct list *at = pool->processes.next; at != &pool->processes; at = at->next)
        if (list_owner(at, struct pooled_process, link)->kind == kind)
            return true;
    return !list_is_empty(&kind->waiting) || kind_is_held_back(kind);
}

static void process_pool_serve(struct loop_hook *hook)
{
    struct process_pool *pool = list_owner(hook, struct process_pool, serve);
    for (struct list *at = pool->kinds.next; at != &pool->kinds; at = at->next)
        kind_serve(list_owner(at, struct process_kind, link));
}

/* --- idle processes --------------------------------------------------------------------------------------------- */

static void idle_look(struct loop_timer *timer)
{
    struct process_pool *pool = list_owner(timer, struct process_pool, idle_look);
    struct instant first = INSTANT_NEVER;
    for (struct list *at = pool->processes.next; at != &pool->processes; at = at->next) {
        struct pooled_process *process = list_owner(at, struct pooled_process, link);
        struct instant end = instant_after(process->idle_since, pool->times.idle_ns);
        if (process->state != PROCESS_IDLE)
            continue;
        if (instant_reached(loop_now(pool->options.loop), end))
            process_retire(process);
        else
            first = instant_earlier(first, end);
    }
    if (first.ns != INSTANT_NEVER.ns)
        loop_timer_set(pool->options.loop, &pool->idle_look, first);
    for (struct list *at = pool->kinds.next, *next; at != &pool->kinds; at = next) {
        next = at->next;
        if (!kind_is_used(pool, list_owner(at, struct process_kind, link)))
            kind_free(list_owner(at, struct process_kind, link));
    }
}

void process_pool_renew(struct process_pool *pool)
{
    pool->generation++;
    for (struct list *at = pool->processes.next; at != &pool->processes; at = at->next) {
        struct pooled_process *process = list_owner(at, struct pooled_process, link);
        if (process->state == PROCESS_IDLE || process->state == PROCESS_STARTING)
            process_retire(process);
    }
    for (struct list *at = pool->kinds.next; at != &pool->kinds; at = at->next)
        list_owner(at, struct process_kind, link)->strikes = 0; /* the cause may have been fixed */
    process_pool_look(pool);
}

/* --- the interface ---------------------------------------------------------------------------------------------- */

struct process_pool *process_pool_create(const struct isolation_options *options)
{
    struct process_pool *pool = memory_new(struct process_pool);
    pool->options = *options;
    pool->times = usual_times;
    list_init(&pool->kinds);
    list_init(&pool->processes);
    loop_hook_init(&pool->serve, process_pool_serve);
    loop_timer_init(&pool->idle_look, idle_look);
    return pool;
}

void process_pool_destroy(struct process_pool *pool)
{
    loop_timer_clear(pool->options.loop, &pool->idle_look);
    while (!list_is_empty(&pool->processes)) {
        struct pooled_process *process = list_owner(pool->processes.next, struct pooled_process, link);
        launcher_kill(pool->options.launcher, &process->child, SIGKILL);
        process_unask(process);
        process_free(process);
    }
    while (!list_is_empty(&pool->kinds))
        kind_free(list_owner(pool->kinds.next, struct process_kind, link));
    loop_hook_cancel(&pool->serve);
    free(pool);
}

void process_pool_start(struct process_pool *pool, struct isolated_run *run)
{
    struct process_kind *kind = kind_of(pool, run);
    list_init(&run->link);
    list_append(&kind->waiting, &run->link);
    run->at = kind;
    process_pool_look(pool);
}

bool process_pool_withdraw(struct process_pool *pool, struct isolated_run *run)
{
    (void)pool;
    if (list_is_empty(&run->link))
        return false;
    list_remove(&run->link);
    run->at = NULL;
    return true;
}

unsigned process_pool_count(const struct process_pool *pool)
{
    return pool->active + pool->leaving;
}
