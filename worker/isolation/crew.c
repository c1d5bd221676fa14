/* Who gets which run. Everything that changes something about it (a run that comes, a process that becomes idle or
 * ends) only asks for a look at the end of the turn, where runs and processes are brought together; so nothing happens
 * inside of the calls of others, and a turn that brings many runs looks once. */
#include <stdlib.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "worker/isolation/crew_private.h"

#define SNOOZE_MS 10000

static const struct crew_times usual_times = {
    .idle_ns = 60 * NS_PER_S,
    .open_ns = 30 * NS_PER_S,
    .leave_ns = 5 * NS_PER_S,
    .back_off_ns = NS_PER_S,
    .back_off_max = 30 * NS_PER_S,
};

/* --- pools ------------------------------------------------------------------------------------------------------ */

static bool pool_fits(const struct crew_pool *pool, const struct isolated_run *run)
{
    return pool->plugin == run->handler->plugin && pool->memory_limit == run->rules->memory_limit &&
           pool->open_files_limit == run->rules->open_files_limit;
}

static void retry_is_due(struct loop_timer *timer)
{
    crew_look(list_owner(timer, struct crew_pool, retry)->crew);
}

static struct crew_pool *pool_of(struct crew *crew, const struct isolated_run *run)
{
    for (struct list *at = crew->pools.next; at != &crew->pools; at = at->next)
        if (pool_fits(list_owner(at, struct crew_pool, link), run))
            return list_owner(at, struct crew_pool, link);
    struct crew_pool *pool = memory_new(struct crew_pool);
    *pool = (struct crew_pool){.crew = crew,
                               .plugin = run->handler->plugin,
                               .memory_limit = run->rules->memory_limit,
                               .open_files_limit = run->rules->open_files_limit};
    list_init(&pool->link);
    list_init(&pool->idle);
    list_init(&pool->waiting);
    loop_timer_init(&pool->retry, retry_is_due);
    list_append(&crew->pools, &pool->link);
    return pool;
}

static void pool_free(struct crew_pool *pool)
{
    list_remove(&pool->link);
    loop_timer_clear(pool->crew->options.loop, &pool->retry);
    free(pool);
}

static bool pool_is_held_back(const struct crew_pool *pool)
{
    return pool->strikes > 0 && instant_before(loop_now(pool->crew->options.loop), pool->not_before);
}

/* --- runs meet processes ---------------------------------------------------------------------------------------- */

static struct isolated_run *waiting_take(struct crew_pool *pool)
{
    struct list *link = list_take_first(&pool->waiting);
    struct isolated_run *run = link != NULL ? list_owner(link, struct isolated_run, link) : NULL;
    if (run != NULL)
        run->place = NULL;
    return run;
}

static unsigned waiting_count(const struct crew_pool *pool)
{
    unsigned count = 0;
    for (const struct list *at = pool->waiting.next; at != &pool->waiting; at = at->next)
        count++;
    return count;
}

/* The worker's trouble, not the task's: it comes again later. */
static void pool_refuse_all(struct crew_pool *pool)
{
    for (struct isolated_run *run; (run = waiting_take(pool)) != NULL;) {
        job_outcome_clear(&run->job->outcome);
        (void)job_outcome_set_retry_in(&run->job->outcome, SNOOZE_MS);
        run->ended(run, HF_SNOOZE);
    }
}

static void pool_give(struct crew_pool *pool)
{
    while (!list_is_empty(&pool->idle) && !list_is_empty(&pool->waiting)) {
        struct isolated_run *run = waiting_take(pool);
        if (!job_lock_is_valid(run->job)) {
            run->ended(run, ISOLATION_NOT_STARTED);
        } else if (!member_give(list_owner(pool->idle.next, struct crew_member, idle_link), run)) {
            list_prepend(&pool->waiting, &run->link);
            run->place = pool;
        }
    }
}

static unsigned crew_limit(const struct crew *crew)
{
    return crew->options.config->worker.threads;
}

static bool may_create(const struct crew *crew)
{
    return crew->active < crew_limit(crew) && crew->active + crew->leaving < 2 * crew_limit(crew);
}

/* The one that has been idle for the longest time, wherever. */
static struct crew_member *idle_oldest(const struct crew *crew)
{
    struct crew_member *oldest = NULL;
    for (struct list *at = crew->pools.next; at != &crew->pools; at = at->next) {
        const struct crew_pool *pool = list_owner(at, struct crew_pool, link);
        if (list_is_empty(&pool->idle))
            continue;
        struct crew_member *last = list_owner(pool->idle.previous, struct crew_member, idle_link);
        if (oldest == NULL || instant_before(last->idle_since, oldest->idle_since))
            oldest = last;
    }
    return oldest;
}

/* Runs that no idle process of their own waits for. */
static void pool_grow(struct crew_pool *pool)
{
    struct crew *crew = pool->crew;
    struct error error = ERROR_NONE;
    unsigned wanted = waiting_count(pool);
    if (pool_is_held_back(pool))
        return;
    while (pool->starting < wanted) {
        struct crew_member *idle = crew->active >= crew_limit(crew) ? idle_oldest(crew) : NULL;
        if (idle != NULL)
            member_retire(idle);
        if (!may_create(crew))
            return;
        if (!member_create(pool, &error)) {
            pool_struck(pool, error.text);
            return;
        }
    }
}

/* When all places are taken and none of them by this pool, the next that is free anywhere is for it. */
static bool must_yield(const struct crew_pool *pool)
{
    const struct crew *crew = pool->crew;
    if (crew->active < crew_limit(crew))
        return false;
    for (struct list *at = crew->pools.next; at != &crew->pools; at = at->next) {
        const struct crew_pool *other = list_owner(at, struct crew_pool, link);
        if (other != pool && other->members == 0 && !list_is_empty(&other->waiting) && !pool_is_held_back(other))
            return true;
    }
    return false;
}

static void pool_serve(struct crew_pool *pool)
{
    if (!list_is_empty(&pool->idle) && must_yield(pool))
        member_retire(list_owner(pool->idle.previous, struct crew_member, idle_link));
    pool_give(pool);
    if (!list_is_empty(&pool->waiting))
        pool_grow(pool);
    if (pool->members == 0 && pool_is_held_back(pool))
        pool_refuse_all(pool);
}

static bool pool_is_used(const struct crew *crew, const struct crew_pool *pool)
{
    for (struct list *at = crew->members.next; at != &crew->members; at = at->next)
        if (list_owner(at, struct crew_member, link)->pool == pool)
            return true;
    return !list_is_empty(&pool->waiting) || pool_is_held_back(pool);
}

static void crew_serve(struct loop_hook *hook)
{
    struct crew *crew = list_owner(hook, struct crew, serve);
    for (struct list *at = crew->pools.next; at != &crew->pools; at = at->next)
        pool_serve(list_owner(at, struct crew_pool, link));
}

/* --- idle processes --------------------------------------------------------------------------------------------- */

static void pools_tidy(struct crew *crew)
{
    for (struct list *at = crew->pools.next, *next; at != &crew->pools; at = next) {
        next = at->next;
        if (!pool_is_used(crew, list_owner(at, struct crew_pool, link)))
            pool_free(list_owner(at, struct crew_pool, link));
    }
}

static void idle_look(struct loop_timer *timer)
{
    struct crew *crew = list_owner(timer, struct crew, idle_look);
    struct instant first = INSTANT_NEVER;
    for (struct list *at = crew->members.next; at != &crew->members; at = at->next) {
        struct crew_member *member = list_owner(at, struct crew_member, link);
        struct instant end = instant_after(member->idle_since, crew->times.idle_ns);
        if (member->state != MEMBER_IDLE)
            continue;
        if (instant_reached(loop_now(crew->options.loop), end))
            member_retire(member);
        else
            first = instant_earlier(first, end);
    }
    if (first.ns != INSTANT_NEVER.ns)
        loop_timer_set(crew->options.loop, &crew->idle_look, first);
    pools_tidy(crew);
}

void crew_renew(struct crew *crew)
{
    crew->generation++;
    for (struct list *at = crew->members.next; at != &crew->members; at = at->next) {
        struct crew_member *member = list_owner(at, struct crew_member, link);
        if (member->state == MEMBER_IDLE || member->state == MEMBER_STARTING)
            member_retire(member);
    }
    for (struct list *at = crew->pools.next; at != &crew->pools; at = at->next)
        list_owner(at, struct crew_pool, link)->strikes = 0; /* what was in their way may be mended */
    crew_look(crew);
}

/* --- the interface ---------------------------------------------------------------------------------------------- */

struct crew *crew_create(const struct isolation_options *options)
{
    struct crew *crew = memory_new(struct crew);
    crew->options = *options;
    crew->times = usual_times;
    list_init(&crew->pools);
    list_init(&crew->members);
    loop_hook_init(&crew->serve, crew_serve);
    loop_timer_init(&crew->idle_look, idle_look);
    return crew;
}

void crew_destroy(struct crew *crew)
{
    loop_timer_clear(crew->options.loop, &crew->idle_look);
    while (!list_is_empty(&crew->members)) {
        struct crew_member *member = list_owner(crew->members.next, struct crew_member, link);
        launcher_kill(crew->options.launcher, &member->child, SIGKILL);
        member_unask(member);
        member_free(member);
    }
    while (!list_is_empty(&crew->pools))
        pool_free(list_owner(crew->pools.next, struct crew_pool, link));
    loop_hook_cancel(&crew->serve);
    free(crew);
}

void crew_start(struct crew *crew, struct isolated_run *run)
{
    struct crew_pool *pool = pool_of(crew, run);
    list_init(&run->link);
    list_append(&pool->waiting, &run->link);
    run->place = pool;
    crew_look(crew);
}

bool crew_withdraw(struct crew *crew, struct isolated_run *run)
{
    (void)crew;
    if (list_is_empty(&run->link))
        return false;
    list_remove(&run->link);
    run->place = NULL;
    return true;
}

unsigned crew_count(const struct crew *crew)
{
    return crew->active + crew->leaving;
}
