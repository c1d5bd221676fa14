/* What the holder of a lock of the loop must be told, and when, by the clock of its host: DANGER and LOST in time,
 * nothing after LOST, half of the ttl left at first, an extension only when a majority has done it that had the key
 * before, and how a release ended. Its process may stand still: then it is told when it goes on. */
#include "tests/sim/lock/schedule.h"

#define LATE_NS   (2 * NS_PER_MS) /* one or two cycles of the loop */
#define PRECISION (7 * NS_PER_MS) /* what is taken off for clocks that are set, and for whole milliseconds */

/* --- by its terms ------------------------------------------------------------------------------------------------- */

/* What a confirmation is worth: less than the ttl by the share that clocks may differ, and by the time that the holder
 * needs to stop. */
static int64_t worth_ns(int64_t ttl_ns)
{
    int64_t guard_ns = ttl_ns / 100 > 50 * NS_PER_MS ? ttl_ns / 100 : 50 * NS_PER_MS;
    return ttl_ns - ttl_ns / 100 - PRECISION - (guard_ns < ttl_ns / 10 ? guard_ns : ttl_ns / 10);
}

static struct instant now_of(const struct lock_user *user)
{
    return host_boot(user->client->host, world_time());
}

/* The process stood still between the decision and its report. */
static bool has_stalled(const struct lock_user *user)
{
    return user->client->process->ahead_ns > LATE_NS;
}

static void violated(const struct lock_user *user, const char *what)
{
    play_violated("told", "user %u.%u %s", user->client->number, user->number, what);
}

/* --- in time ------------------------------------------------------------------------------------------------------ */

static void watch_arm(struct lock_user *user)
{
    struct lock_told *told = &user->told;
    struct instant next = told->is_in_danger ? told->until : instant_earlier(told->until, told->danger_from);
    world_at(&told->watch, instant_after(host_truth(user->client->host, next), LATE_NS));
}

static void watch_fire(struct world_event *event)
{
    struct lock_told *told = list_owner(event, struct lock_told, watch);
    struct lock_user *user = list_owner(told, struct lock_user, told);
    struct process *process = user->client->process;
    if (!told->is_held || !process->is_alive)
        return;
    bool is_away = process->is_paused || instant_before(world_time(), process->free_at);
    if (is_away || told->was_away) {
        told->was_away = is_away;
        world_at(event, instant_after(world_time(), LATE_NS));
        return;
    }
    struct instant before = instant_after(now_of(user), -LATE_NS / 2);
    if (instant_before(told->until, before))
        violated(user, "was not told LOST at its deadline");
    else if (!told->is_in_danger && instant_before(told->danger_from, before))
        violated(user, "was not told DANGER");
    else
        watch_arm(user);
}

/* --- what it is told ---------------------------------------------------------------------------------------------- */

static void confirmed(struct lock_user *user)
{
    struct lock_told *told = &user->told;
    const struct redlock_validity *validity = redlock_lock_validity(user->lock);
    int64_t ttl_ns = user->client->terms.ttl_ms * NS_PER_MS;
    told->until = (struct instant){atomic_load(&validity->until)};
    told->danger_from = (struct instant){atomic_load(&validity->danger_from)};
    told->confirmed = world_time();
    told->is_in_danger = told->is_in_danger && !instant_before(now_of(user), told->danger_from);
    if (instant_before(instant_after(now_of(user), worth_ns(ttl_ns)), told->until))
        play_violated("told", "user %u.%u believes for %.3f ms, and its ttl of %.3f ms is worth %.3f",
                      user->client->number, user->number, (double)instant_since(now_of(user), told->until) / 1e6,
                      (double)ttl_ns / 1e6, (double)worth_ns(ttl_ns) / 1e6);
    if (instant_before(instant_after(now_of(user), ttl_ns / 3 * 2), told->danger_from))
        violated(user, "would be told DANGER too late");
    watch_arm(user);
}

static void acquired(struct lock_user *user)
{
    struct lock_told *told = &user->told;
    told->is_held = true;
    told->is_in_danger = told->may_repeat = told->was_away = false;
    told->watch.fire = watch_fire;
    confirmed(user);
    int64_t left_ns = instant_since(now_of(user), told->until), ttl_ns = user->client->terms.ttl_ms * NS_PER_MS;
    if (user->client->terms.max_hold_ms == 0 && !has_stalled(user) &&
        left_ns < ttl_ns / 2 - (ttl_ns - worth_ns(ttl_ns)))
        violated(user, "was given less than half of its ttl");
}

/* Else judge_nodes.c does not see all that is done to its keys. */
static bool are_nodes_steady(const struct lock_user *user)
{
    for (unsigned i = 0; i < lock_schedule.node_count; i++) {
        struct instant lost_at = lock_schedule.nodes[i]->lost_at;
        if (lost_at.ns != 0 && !instant_before(lost_at, user->asked))
            return false;
    }
    return lock_schedule.moves == 0 && lock_schedule.replaced == lock_schedule.node_count;
}

/* When the round began that confirmed it. 0 = that cannot be told. */
static struct instant round_began(const struct lock_user *user)
{
    const struct host *host = user->client->host;
    struct instant until = {atomic_load(&redlock_lock_validity(user->lock)->until)};
    bool is_told = user->client->terms.max_hold_ms == 0 && !host->is_frozen && host->stood_ns == user->stood_ns;
    return is_told ? host_truth(host, instant_after(until, -worth_ns(user->client->terms.ttl_ms * NS_PER_MS)))
                   : (struct instant){0};
}

/* A node that did not have it when the round began does not count yet. */
static unsigned nodes_that_extended(const struct lock_user *user)
{
    struct instant began = round_began(user);
    unsigned nodes = 0;
    for (unsigned i = 0; i < lock_schedule.node_count; i++) {
        bool is_new = began.ns != 0 && user->given_at[i].ns != 0 && !instant_before(user->given_at[i], began);
        nodes +=
            user->confirmed_at[i].ns != 0 && !instant_before(user->confirmed_at[i], user->told.confirmed) && !is_new;
    }
    return nodes;
}

static void extended(struct lock_user *user)
{
    struct lock_told *told = &user->told;
    unsigned nodes = nodes_that_extended(user);
    if (!told->is_held)
        violated(user, "was told EXTENDED of what it does not hold");
    else if (!instant_before(instant_after(now_of(user), -user->client->process->ahead_ns), told->until))
        violated(user, "was told EXTENDED after its deadline");
    else if (nodes <= lock_schedule.node_count / 2 && are_nodes_steady(user))
        violated(user, "was told EXTENDED, and no majority had done it");
    /* The round may have begun before the end of a maximum hold was near: then that is reported once more. */
    told->may_repeat = told->is_in_danger;
    confirmed(user);
}

static void lost(struct lock_user *user)
{
    if (!user->told.is_held)
        violated(user, "was told LOST of what it does not hold");
    user->told.is_held = false;
    world_cancel(&user->told.watch);
    if (lock_judge_belief_ns(user) > 0)
        violated(user, "is told LOST and may believe on");
}

static void in_danger(struct lock_user *user)
{
    if (!user->told.is_held || (user->told.is_in_danger && !user->told.may_repeat))
        violated(user, "was told DANGER of what it does not hold, or twice");
    if (instant_before(now_of(user), user->told.danger_from))
        violated(user, "was told DANGER too early");
    user->told.is_in_danger = true;
    user->told.may_repeat = false;
}

static void released(const struct lock_user *user, enum redlock_ending ending)
{
    bool was_deleted = (unsigned)__builtin_popcount(user->deleted) > lock_schedule.node_count / 2;
    if (user->told.is_held)
        violated(user, "was told RELEASED of what it holds");
    if (ending == REDLOCK_RELEASED && !was_deleted && !user->is_lingering && are_nodes_steady(user))
        violated(user, "was told RELEASED, but no majority deleted it");
}

void lock_judge_event(struct lock_user *user, const struct redlock_event *event)
{
    switch (event->kind) {
    case REDLOCK_EVENT_ANSWER:
        if (event->answer == REDLOCK_ACQUIRED)
            acquired(user);
        return;
    case REDLOCK_EVENT_EXTENDED:
        extended(user);
        return;
    case REDLOCK_EVENT_DANGER:
        in_danger(user);
        return;
    case REDLOCK_EVENT_LOST:
        lost(user);
        return;
    case REDLOCK_EVENT_RELEASED:
        released(user, event->ending);
        return;
    }
}

void lock_judge_given_back(struct lock_user *user)
{
    user->told.is_held = false;
    world_cancel(&user->told.watch);
}

void lock_judge_process_died(struct lock_client *client)
{
    for (unsigned i = 0; i < lock_schedule.user_count; i++)
        lock_judge_given_back(&client->users[i]);
}
