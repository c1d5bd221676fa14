/* Waiting for a lock: whose turn it is in this process, and when another attempt over the nodes is worthwhile.
 * Runs on the loop.
 *
 * First the turn (local_waiters.c): of the locks of a group that want a resource, only one asks the nodes or has it.
 * A lost lock keeps its turn until it is released. A lock that waits for its turn asks no node. It gives up when its
 * time is over: `wait_ns`, or, if tries count, what its pauses between attempts would have taken. When a release hands
 * the turn on, the next lock asks in the same cycle of the loop, behind the release on the same connections, so it is
 * nearly certain to win. Other processes get no hint and go on sleeping. Once it was handed on as often or for as long
 * as the terms allow (hand_over_tasks, hand_over_ms), they get a hint and the next lock waits like them, so that a busy
 * process does not keep a resource for ever.
 *
 * Then the nodes. A lock with wait_ns goes on until then:
 *   - After a split vote it tries again soon (backoff.h), unless it hears meanwhile that somebody has the lock.
 *   - If another owner holds it, it listens for the release (release_notifications.c) and asks a random moment after
 *     it (backoff.h), or at once if no other process listens. Of many waiting processes the first to ask wins and
 *     announces that, so most of the others do not ask at all. A holder that dies announces nothing, so the lock also
 *     asks when the longest reported ttl is over.
 *   - A release may have gone unheard, before the subscription began or while too few nodes are listened to. Then it
 *     asks after 20 ms, and then ever more slowly up to a second.
 *   - With too few nodes it does the same.
 *   - One that others may starve keeps its turn at the nodes, until it gives up or is released ("Who goes first" in
 *     group_private.h).
 *   - If a client of another kind holds it, nobody announces the release, so it asks by itself. And the waiters of this
 *     process gives way to such clients now and then (other_clients.h): then a release is announced when their turn is
 *     over.
 *
 * A reader waits behind nobody here: it asks the nodes beside other readers of its process, and waits as if it were
 * alone.
 *
 * If several may hold the resource (seats.h), a refusal at one seat leads to the next at once, without the seats
 * that other locks of this process have or ask for; a pass has ended when none is left. A lock that waits listens for
 * the release of every seat, and keeps the turn of one, so that of the locks that wait in this process each asks for
 * a different one. If the process has all seats, the lock waits in a list of the resource, and gets the next seat
 * that a lock of the process leaves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "base/random.h"
#include "redlock/backoff.h"
#include "redlock/group_private.h"
#include "redlock/scripts.h"

#define EXPIRY_SPREAD_NS (50 * NS_PER_MS)
#define LONG_MAX_NS      (REDLOCK_SCRIPT_LONG_MAX_MS * NS_PER_MS)
#define POLL_MIN_NS      (20 * NS_PER_MS)
#define POLL_MAX_NS      (1 * NS_PER_S)
enum { HINT_NODES = 2 };

struct lock_want {
    struct notification_want want;
    struct redlock_lock *lock;
};

static struct instant now_of(const struct redlock_lock *lock)
{
    return loop_now(lock->group->loop);
}

static struct instant within(const struct redlock_lock *lock, int64_t spread_ns)
{
    return instant_after(now_of(lock), random_between(0, spread_ns));
}

static struct local_key local_key_of(const struct redlock_lock *lock, unsigned index)
{
    struct key_span key = lock_key(lock, index);
    return (struct local_key){key.bytes, key.length};
}

static bool searches(const struct redlock_lock *lock)
{
    return lock_has_limit(lock) && lock->seats->searches;
}

/* --- hints to others ---------------------------------------------------------------------------------------------- */

static node_set lowest(node_set set, unsigned count)
{
    node_set kept = 0;
    for (; count > 0 && set != 0; count--, set &= (node_set)(set - 1))
        kept |= (node_set)(set & -set);
    return kept;
}

/* Only if a lock of this process has waited lately: otherwise it is unlikely that anybody listens. */
static void say_held(struct redlock_lock *lock, node_set nodes, int64_t held_ns)
{
    if (lock->is_shared || lock->readers_at != 0) /* other readers need not wait for it */
        return;
    for (unsigned i = 0; i < lock->key_count; i++) {
        struct key_span key = lock_key(lock, i);
        if (notifications_are_warm(lock->group->notifications, key.bytes, key.length))
            notifications_say_held(lock->group->notifications, nodes, key.bytes, key.length, held_ns);
    }
}

/* The lock had taken its turn over without a hint to others, and did not get the lock: now they get the hint. */
static void say_free_belatedly(struct redlock_lock *lock)
{
    node_set all = (node_set)((1u << lock->group->node_count) - 1u);
    lock->wait.is_silent = false;
    for (unsigned i = 0; i < lock->key_count; i++) {
        struct key_span key = lock_key(lock, i);
        if (!lock_is_taken_over(lock, i))
            notifications_say_free(lock->group->notifications, all, key.bytes, key.length);
    }
}

/* --- listening ---------------------------------------------------------------------------------------------------- */

static struct instant live_since(const struct redlock_lock *lock)
{
    struct instant latest = {0};
    if (lock->wait.want_count == 0)
        return INSTANT_NEVER;
    for (unsigned i = 0; i < lock->wait.want_count; i++) {
        struct instant since = notification_live_since(&lock->wait.wants[i].want);
        if (instant_before(latest, since))
            latest = since;
    }
    return latest;
}

static bool is_live(const struct redlock_lock *lock)
{
    return live_since(lock).ns != INSTANT_NEVER.ns;
}

static void heard(struct notification_want *want, enum notification_kind kind, int64_t detail);

static void listen_for_release(struct redlock_lock *lock)
{
    struct lock_wait *wait = &lock->wait;
    if (wait->want_count > 0)
        return;
    bool hears_readers = lock_has_later_seat(lock) && !searches(lock); /* these leave the resource */
    wait->want_count = searches(lock) ? lock->seats->limit : lock->key_count + hears_readers;
    wait->wants = memory_zeroed(wait->want_count, sizeof *wait->wants);
    for (unsigned i = 0; i < wait->want_count; i++) {
        bool is_of_seat = searches(lock) || i == lock->key_count;
        struct key_span key = is_of_seat ? lock_seat_key(lock, searches(lock) ? i + 1 : 1) : lock_key(lock, i);
        wait->wants[i].lock = lock;
        notification_want_init(&wait->wants[i].want, heard);
        notifications_want(lock->group->notifications, &wait->wants[i].want, key.bytes, key.length);
    }
}

static void listen_no_more(struct redlock_lock *lock)
{
    struct lock_wait *wait = &lock->wait;
    for (unsigned i = 0; i < wait->want_count; i++)
        notifications_unwant(&wait->wants[i].want);
    free(wait->wants);
    wait->wants = NULL;
    wait->want_count = 0;
}

/* --- clients of other kinds --------------------------------------------------------------------------------------- */

/* Nothing is wanted by several, and none was met for long; none knows the seats of a resource with a limit; and
 * readers hand nothing on. */
static bool is_alone(const struct redlock_lock *lock)
{
    return lock_has_limit(lock) || lock->is_shared || instant_reached(now_of(lock), lock->group->others.until);
}

int64_t lock_others_look_ns(const struct redlock_lock *lock)
{
    if (__builtin_popcount(lock->others_at) <= (int)lock->group->node_count / 2)
        return 0;
    int64_t look_ns = other_clients_look_ns(&lock->group->others, lock_refused_key(lock), now_of(lock));
    return random_between(look_ns - look_ns / 4, look_ns + look_ns / 4);
}

static void others_passed(struct redlock_lock *lock)
{
    for (unsigned i = 0; !is_alone(lock) && i < lock->key_count; i++)
        other_clients_passed(&lock->group->others, lock_key_hash(lock, i), lock->wait.row_limit_ns, now_of(lock));
}

static int64_t held_ns(const struct redlock_lock *lock)
{
    return lock->lease.state == LEASE_HELD ? instant_since(lock->acquired_at, now_of(lock)) : 0;
}

static void others_had(struct redlock_lock *lock)
{
    bool begins = lock->wait.has_waited && lock->lease.state == LEASE_HELD && !lock_has_limit(lock) && !lock->is_shared;
    for (unsigned i = 0; (begins || !is_alone(lock)) && i < lock->key_count; i++)
        other_clients_had(&lock->group->others, lock_key_hash(lock, i), held_ns(lock), lock->wait.has_waited,
                          now_of(lock));
}

bool redlock_lock_gives_way(const struct redlock_lock *lock)
{
    bool gives_way = false;
    if (lock == NULL || is_alone(lock))
        return false;
    for (unsigned i = 0; i < lock->key_count; i++)
        gives_way |= other_clients_are_next(&lock->group->others, lock_key_hash(lock, i), held_ns(lock), now_of(lock));
    return gives_way;
}

/* No lock of this process asks before then. Waiters in other processes get the hint that the lock is held. */
static void give_way(struct redlock_lock *lock)
{
    struct instant until = instant_after(now_of(lock), REDLOCK_TURN_NS);
    for (unsigned i = 0; i < lock->key_count; i++)
        other_clients_let(&lock->group->others, lock_key_hash(lock, i), now_of(lock), until);
    say_held(lock, lowest(lock->lease.yes, HINT_NODES), REDLOCK_TURN_NS);
}

/* Whether it waits for the turn of others. One that tries once, or that gives up before that, does not. */
static bool must_give_way(struct redlock_lock *lock, struct instant until)
{
    struct lock_wait *wait = &lock->wait;
    bool must = wait->limit_ns > 0 && instant_before(now_of(lock), until) && instant_before(until, wait->give_up_at);
    wait->not_before = must ? until : (struct instant){0};
    return must;
}

static struct instant let_until(const struct redlock_lock *lock)
{
    struct instant latest = {0};
    for (unsigned i = 0; !is_alone(lock) && i < lock->key_count; i++) {
        struct instant until = other_clients_let_until(&lock->group->others, lock_key_hash(lock, i));
        latest = instant_before(latest, until) ? until : latest;
    }
    return latest;
}

/* --- when to ask -------------------------------------------------------------------------------------------------- */

static struct instant poll_at(struct redlock_lock *lock)
{
    int64_t bound = POLL_MIN_NS;
    for (unsigned i = 0; i < lock->wait.polls && bound < POLL_MAX_NS; i++)
        bound *= 2;
    lock->wait.polls++;
    return within(lock, bound < POLL_MAX_NS ? bound : POLL_MAX_NS);
}

static struct instant expiry_at(struct redlock_lock *lock, int64_t remaining_ns)
{
    int64_t at_most = remaining_ns < LONG_MAX_NS ? remaining_ns : LONG_MAX_NS;
    lock->wait.is_long = true;
    return instant_after(within(lock, EXPIRY_SPREAD_NS), at_most + NS_PER_MS);
}

static double draw(void)
{
    return (double)random_between(0, UINT32_MAX) / UINT32_MAX;
}

static struct instant after_release(const struct redlock_lock *lock, int64_t listeners)
{
    return instant_after(now_of(lock), backoff_after_release_ns(listeners, lock->group->attempt_ns, draw()));
}

/* It listens, because of many that split a vote most hear soon that somebody has the lock. */
static struct instant split_until(struct redlock_lock *lock)
{
    listen_for_release(lock);
    return instant_after(now_of(lock), backoff_after_split_ns(lock->lease.splits, lock->group->attempt_ns, draw()));
}

/* Every attempt has a value of its own, so the waiter has one that lasts. See scripts/intent.lua for the form. */
static void intent_draw(struct redlock_lock *lock, bool has_sign)
{
    enum { AGE_DIGITS = 14 };
    char age[AGE_DIGITS + 1];
    int64_t since_us = trust_median_us(&lock->group->trust, now_of(lock));
    memcpy(lock->intent, lock->value, lock->value_length);
    lock->intent_length = lock->value_length;
    if (!has_sign)
        return;
    snprintf(age, sizeof age, "%014llx", (unsigned long long)(since_us > 0 ? since_us : wall_now().us));
    memcpy(lock->intent, age, AGE_DIGITS);
    lock->intent[2 * VALUE_RANDOM_BYTES - 1] = lock->is_shared ? '*' : '+';
    lock->keeps_all = !lock->is_shared;
}

/* A lock that comes back is another one then, which the intent of the first would keep out. */
void lock_wait_keeps_turn(struct redlock_lock *lock)
{
    node_set all = (node_set)((1u << lock->group->node_count) - 1u);
    bool has_sign = (lock->key_count > 1 || lock->meets_seats) && !lock->wait.comes_back;
    if (!has_sign && (lock->is_shared || lock->readers_at == 0))
        return;
    if (lock->intent_length == 0)
        intent_draw(lock, has_sign);
    batch_add(BATCH_INTENT, lock, BATCH_NO_VOTE, all);
}

/* One that comes back leaves it for its next request. After a hold the release tells those who wait. */
static void turn_give_up(struct redlock_lock *lock)
{
    const struct lease *lease = &lock->lease;
    bool comes_back = lock->wait.comes_back && lease->state == LEASE_FREE && lease->refusal == REDLOCK_BUSY;
    if (lock->intent_length > 0 && !comes_back)
        batch_add_withdrawal(lock, lease->state != LEASE_HELD);
    lock->intent_length = 0;
    lock->keeps_all = false;
}

/* When to repeat an attempt that another holder refused. */
static struct instant busy_until(struct redlock_lock *lock, bool by_expiry)
{
    struct lock_wait *wait = &lock->wait;
    struct instant asked = searches(lock) ? lock->seats->pass_began : lock->lease.validity_from;
    int64_t look_ns = lock_others_look_ns(lock);
    lock_wait_keeps_turn(lock);
    listen_for_release(lock);
    for (unsigned i = 0; i < wait->want_count; i++)
        wait->wants[i].want.hears_each = lock->readers_at != 0;
    if (look_ns > 0)
        return instant_after(now_of(lock), look_ns);
    bool is_deaf = lock->is_shared && lock->intent_length > 0; /* to later seats, and to what its turn displaced */
    if (is_deaf || !is_live(lock) || lock->remaining_ns <= 0)
        return poll_at(lock);
    /* A release before the subscription, or during this attempt, may have been missed. */
    if (instant_before(asked, live_since(lock)) || !instant_before(wait->freed_at, asked))
        return after_release(lock, 1);
    wait->polls = 0;
    /* The holder has extended it. Others that wait for the same moment need not find that out themselves. */
    if (by_expiry && !searches(lock))
        say_held(lock, lowest(lock->lease.no, 1), lock->remaining_ns);
    return expiry_at(lock, lock->remaining_ns);
}

/* --- seats ------------------------------------------------------------------------------------------------------- */

static void pass_begin(struct redlock_lock *lock, unsigned start)
{
    struct lock_seats *seats = lock->seats;
    seat_pass_begin(&seats->pass, seats->limit, start);
    seats->was_asked = false;
    seats->free_at = INSTANT_NEVER;
    seats->next = seats->freed = 0;
}

static void pass_begin_anywhere(struct redlock_lock *lock)
{
    uint64_t noise = (uint64_t)random_between(0, UINT32_MAX);
    pass_begin(lock, seats_start(lock->group->seats_seen, lock->seats->hash, lock->seats->limit, noise));
}

/* Begins with the seat that it has. */
static void pass_begin_here(struct redlock_lock *lock)
{
    pass_begin(lock, lock->seats->seat);
    (void)seat_pass_next(&lock->seats->pass);
}

/* The next seat that no other lock of this process has or asks for; 0 = none is left in this pass. */
static unsigned seat_seek(struct redlock_lock *lock)
{
    unsigned seat = 0;
    while ((seat = seat_pass_next(&lock->seats->pass)) != 0)
        if (lock_seat_owner(lock, seat) == NULL)
            break;
    return seat;
}

/* Takes the turn of a seat that nobody in this process has. */
static void seat_take(struct redlock_lock *lock, unsigned seat)
{
    struct lock_wait *wait = &lock->wait;
    lock_seat_set(lock, seat);
    bool has_turn = local_waiters_want(lock->group->local_waiters, &wait->claim, wait->keys, 1);
    invariant(has_turn);
}

static void seat_hand_on(struct redlock_lock *lock, struct local_waiter *first, unsigned seat, unsigned row);

/* The seat before may be the only one that some waiter knows of. */
static void seat_change(struct redlock_lock *lock, unsigned seat)
{
    struct local_waiters *waiters = lock->group->local_waiters;
    unsigned left = lock->seats->seat;
    lock->group->leaving = lock;
    local_waiters_leave(waiters, &lock->wait.claim);
    seat_take(lock, seat);
    seat_hand_on(lock, local_waiters_owner(waiters, lock->seats->waiting_key), left, 0);
}

bool lock_wait_seeks(struct redlock_lock *lock, const struct lease_step *step)
{
    struct lock_seats *seats = lock->seats;
    bool is_refused = lock->lease.state == LEASE_WAITING || step->news == LEASE_NEWS_REFUSED;
    bool is_new = lock->lease.state != LEASE_WAITING || lock->wait.planned_round != lock->lease.round;
    if (!seats->searches || !is_refused || !is_new || lock->lease.refusal != REDLOCK_BUSY)
        return false;
    if (!seats->was_asked)
        seats->pass_began = lock->lease.validity_from;
    seats->was_asked = true;
    if (lock->remaining_ns > 0)
        seats->free_at = instant_earlier(seats->free_at, instant_after(lock->told_at, lock->remaining_ns));
    seats->next = seat_seek(lock);
    if (seats->next == 0 && seats->freed != 0 && lock_seat_owner(lock, seats->freed) == NULL) {
        unsigned freed = seats->freed;
        pass_begin(lock, freed);
        seats->next = seat_pass_next(&seats->pass);
    }
    if (seats->next == 0 || lock->lease.state != LEASE_WAITING) { /* what it tells is about all seats */
        lock->told_at = now_of(lock);
        lock->remaining_ns = seats->free_at.ns != INSTANT_NEVER.ns ? instant_since(lock->told_at, seats->free_at) : 0;
    }
    return seats->next != 0;
}

/* False: the pass is over, and the next one begins here. */
static bool pass_goes_on(struct redlock_lock *lock)
{
    struct lock_seats *seats = lock->seats;
    unsigned next = seats->next;
    seats->next = 0;
    if (next == 0 || lock_seat_owner(lock, next) != NULL) {
        pass_begin_here(lock);
        return false;
    }
    seat_change(lock, next);
    lease_wait_until(&lock->lease, now_of(lock));
    return true;
}

/* --- after an attempt --------------------------------------------------------------------------------------------- */

void lock_wait_plan(struct redlock_lock *lock)
{
    struct lock_wait *wait = &lock->wait;
    if (wait->planned_round == lock->lease.round)
        return;
    wait->planned_round = lock->lease.round;
    wait->has_waited = true;
    lock->group->attempt_ns =
        backoff_attempt_ns(lock->group->attempt_ns, instant_since(lock->lease.validity_from, now_of(lock)));
    bool by_expiry = wait->is_long;
    wait->is_long = false;
    if (wait->is_silent && lock->lease.refusal != REDLOCK_SPLIT) {
        wait->is_silent = false;
        if (lock->lease.refusal != REDLOCK_BUSY)
            say_free_belatedly(lock);
    }
    if (searches(lock) && lock->lease.refusal == REDLOCK_BUSY && pass_goes_on(lock))
        return;
    if (wait->limit_ns == 0)
        return;
    enum redlock_answer refusal = lock->lease.refusal;
    lease_wait_until(&lock->lease, refusal == REDLOCK_BUSY    ? busy_until(lock, by_expiry)
                                   : refusal == REDLOCK_SPLIT ? split_until(lock)
                                                              : poll_at(lock));
}

/* Also after a step without requests: an attempt that reached no node goes to wait silently. */
void lock_timer_follow(struct redlock_lock *lock)
{
    struct instant next = lease_next(&lock->lease, &lock->terms);
    if (next.ns == INSTANT_NEVER.ns)
        loop_timer_clear(lock->group->loop, &lock->timer);
    else if (!loop_timer_is_set(&lock->timer) || lock->timer.item.at.ns != next.ns)
        loop_timer_set(lock->group->loop, &lock->timer, next);
}

static void timer_follow(struct redlock_lock *lock)
{
    struct lock_wait *wait = &lock->wait;
    struct instant next = wait->is_queued ? instant_earlier(wait->starts_at, wait->give_up_at) : wait->give_up_at;
    if (next.ns == INSTANT_NEVER.ns)
        loop_timer_clear(lock->group->loop, &wait->timer);
    else
        loop_timer_set(lock->group->loop, &wait->timer, next);
}

/* Starts the next attempt then; or the first one, if the lock has its turn and waits only for that. */
static void ask_at(struct redlock_lock *lock, struct instant at)
{
    if (lock->wait.is_queued) {
        lock->wait.starts_at = instant_before(at, lock->wait.not_before) ? lock->wait.not_before : at;
        timer_follow(lock);
    } else {
        lease_wait_until(&lock->lease, at);
        lock_timer_follow(lock);
    }
}

static struct instant asks_at(const struct redlock_lock *lock)
{
    return lock->wait.is_queued ? lock->wait.starts_at : lock->lease.act_at;
}

/* --- what notifications bring ------------------------------------------------------------------------------------- */

static void free_heard(struct redlock_lock *lock, int64_t listeners)
{
    lock->wait.is_long = false;
    ask_at(lock, instant_earlier(asks_at(lock), after_release(lock, listeners)));
}

/* The last refusal named another holder, so it no longer says who has the lock (E12). A lock that keeps its turn asks
 * no later for that: the turn lasts as long as the nodes knew when it asked. */
static void held_heard(struct redlock_lock *lock, int64_t held_ns)
{
    if (!is_live(lock))
        return;
    others_passed(lock);
    lock->holder[0] = '\0';
    lock->remaining_ns = held_ns;
    lock->told_at = now_of(lock);
    struct instant at = expiry_at(lock, held_ns);
    ask_at(lock, lock->intent_length > 0 ? instant_earlier(asks_at(lock), at) : at);
}

/* A seat is free: the lock asks there, unless another lock of this process is about to. */
static bool seat_heard(struct redlock_lock *lock, unsigned seat, bool waits)
{
    struct lock_seats *seats = lock->seats;
    const struct local_waiter *owner = lock_seat_owner(lock, seat);
    if (owner != NULL && owner != &lock->wait.claim)
        return false;
    seats_note_free(lock->group->seats_seen, seats->hash, seat);
    seats->freed = seat;
    if (!waits)
        return owner != NULL;
    if (owner == NULL)
        seat_change(lock, seat);
    pass_begin_here(lock);
    return true;
}

/* It split a vote, so whoever has the lock now is in its way. Readers are not in the way of readers. */
static bool is_outvoted(const struct redlock_lock *lock)
{
    return lock->lease.refusal == REDLOCK_SPLIT && !lock->wait.is_silent && !lock->is_shared;
}

static void heard(struct notification_want *want, enum notification_kind kind, int64_t detail)
{
    struct lock_want *heard_of = list_owner(want, struct lock_want, want);
    struct redlock_lock *lock = heard_of->lock;
    struct lock_wait *wait = &lock->wait;
    bool waits = lock->lease.state == LEASE_WAITING &&
                 (lock->lease.refusal == REDLOCK_BUSY || wait->is_long || (kind == NOTIFIED_HELD && is_outvoted(lock)));
    bool is_free = kind == NOTIFIED_FREE || kind == NOTIFIED_ALONE;
    if (searches(lock) && is_free && !seat_heard(lock, (unsigned)(heard_of - wait->wants) + 1, waits))
        return;
    if (lock_has_limit(lock) && kind == NOTIFIED_HELD) /* others may be free */
        return;
    if (is_free)
        wait->freed_at = now_of(lock);
    if (!waits && !wait->is_queued)
        return;
    switch (kind) {
    case NOTIFIED_FREE:
        free_heard(lock, detail);
        break;
    case NOTIFIED_ALONE:
        wait->is_long = false;
        ask_at(lock, now_of(lock));
        break;
    case NOTIFIED_HELD:
        held_heard(lock, detail);
        break;
    case NOTIFIED_LIVE:
        if (waits && is_live(lock))
            free_heard(lock, 0); /* perhaps it was, before */
        break;
    case NOTIFIED_DEAF:
        if (wait->is_long) {
            wait->is_long = false;
            ask_at(lock, instant_earlier(asks_at(lock), poll_at(lock)));
        }
        break;
    }
}

/* --- handing a lock on -------------------------------------------------------------------------------------------- */

static struct lock_swap *swap_new(struct redlock_group *group)
{
    struct list *idle = list_take_first(&group->idle_swaps);
    struct lock_swap *swap = idle != NULL ? list_owner(idle, struct lock_swap, link) : memory_new(struct lock_swap);
    list_init(&swap->link);
    list_append(&group->swaps, &swap->link);
    swap->group = group;
    return swap;
}

static void swaps_free(struct list *swaps)
{
    struct list *link = NULL;
    while ((link = list_take_first(swaps)) != NULL) {
        struct lock_swap *swap = list_owner(link, struct lock_swap, link);
        buffer_fini(&swap->keys);
        free(swap);
    }
}

void lock_swaps_dispose(struct redlock_group *group)
{
    swaps_free(&group->swaps);
    swaps_free(&group->idle_swaps);
}

static bool have_equal_keys(const struct redlock_lock *a, const struct redlock_lock *b)
{
    return a->key_count == b->key_count && a->keys.length == b->keys.length &&
           memcmp(a->key_ends, b->key_ends, a->key_count * sizeof a->key_ends[0]) == 0 &&
           memcmp(a->keys.bytes, b->keys.bytes, a->keys.length) == 0;
}

/* Called inside the release of `before`, before its lease knows of it: `next` is about to ask the nodes in its place.
 * False, and nothing is done, if what `before` has cannot be swapped: it is released, and `next` asks for free keys. */
static bool lock_swap_begin(struct redlock_lock *before, struct redlock_lock *next)
{
    bool can_be_swapped =
        swap_may_begin(&before->lease, &before->terms, loop_now(before->group->loop), instant_now()) &&
        before->linger_ns == 0 && have_equal_keys(before, next);
    if (!can_be_swapped)
        return false;
    struct lock_swap *swap = swap_new(before->group);
    swap->before = before;
    swap->next = next;
    swap->is_sent = false;
    swap->ttl_ns = before->terms.ttl_ns;
    buffer_clear(&swap->keys);
    buffer_append(&swap->keys, before->keys.bytes, before->keys.length);
    memcpy(swap->key_ends, before->key_ends, sizeof swap->key_ends);
    swap->key_count = before->key_count;
    memcpy(swap->value, before->value, before->value_length);
    swap->value_length = before->value_length;
    before->swapped_out = next->swaps_in = swap;
    return true;
}

bool lock_swap_holds_back(struct redlock_lock *lock, node_set nodes)
{
    struct lock_swap *swap = lock->swapped_out;
    lock->swapped_out = NULL;
    if (swap == NULL)
        return false;
    swap_begin(&swap->swap, nodes);
    swap->before_round = lock->lease.round;
    return true;
}

void lock_swap_follow(struct redlock_lock *next)
{
    struct lock_swap *swap = next->swaps_in;
    if (swap == NULL || next->lease.state == LEASE_ACQUIRING || next->lease.state == LEASE_FENCING)
        return;
    bool has_won = next->lease.state == LEASE_HELD;
    next->swaps_in = NULL;
    next->was_handed_over = has_won && swap->swap.taken != 0;
    if (!has_won) {
        node_set release = swap_failed(&swap->swap);
        batch_add_swapped(swap, release, swap->is_sent ? release : 0, next);
    }
    swap->next = NULL;
    lock_swap_end_if_over(swap);
}

/* --- turns -------------------------------------------------------------------------------------------------------- */

/* With an existing subscription it costs nothing to listen from the beginning. It saves the attempt that would have to
 * follow the first one to find a release missed meanwhile. */
static bool is_warm(const struct redlock_lock *lock)
{
    bool is_warm = true;
    for (unsigned i = 0; i < lock->key_count; i++) {
        struct key_span key = lock_key(lock, i);
        is_warm &= notifications_are_warm(lock->group->notifications, key.bytes, key.length);
    }
    return is_warm;
}

/* Until when it waits for other locks of this process. */
static struct instant local_give_up_at(const struct redlock_lock *lock)
{
    const struct lock_wait *wait = &lock->wait;
    int64_t limit_ns = wait->limit_ns > 0 ? wait->limit_ns : wait->local_limit_ns;
    return wait->waits_here ? INSTANT_NEVER : instant_after(lock->asked_at, limit_ns);
}

static void start(struct redlock_lock *lock)
{
    if (lock->wait.limit_ns > 0 && is_warm(lock))
        listen_for_release(lock);
    lock->wait.is_queued = false;
    lock->wait.starts_at = INSTANT_NEVER;
    timer_follow(lock);
    lock->group->take_step(lock, lease_acquire(&lock->lease, &lock->terms, now_of(lock)));
}

/* Whether the process has had the resource neither too often in a row nor for too long. */
static bool may_take_over(struct redlock_lock *lock)
{
    struct lock_wait *wait = &lock->wait;
    unsigned handed = searches(lock) ? lock->seats->row : local_waiter_handed(&wait->claim);
    wait->row_began = lock->group->leaving->wait.row_began;
    return handed <= wait->row_most && instant_since(wait->row_began, now_of(lock)) < wait->row_limit_ns;
}

/* Until when others have their turn: it begins now, or a lock that waited for its end has given up. */
static struct instant left_until(const struct redlock_lock *lock)
{
    return lock->group->leaving->wait.gives_way ? instant_after(now_of(lock), REDLOCK_TURN_NS) : let_until(lock);
}

/* Called inside the release of the lock that had the turn before; that release has not gathered yet. */
static void has_turn(struct local_waiter *claim)
{
    struct redlock_lock *lock = list_owner(claim, struct redlock_lock, wait.claim);
    struct lock_wait *wait = &lock->wait;
    if (wait->limit_ns == 0)
        wait->give_up_at = INSTANT_NEVER;
    else if (wait->waits_here)
        wait->give_up_at = instant_after(now_of(lock), wait->limit_ns);
    struct instant until = left_until(lock);
    bool is_left = instant_before(now_of(lock), until);
    if (may_take_over(lock) && (!is_left || wait->waits_here)) {
        wait->is_silent = true;
        (void)lock_swap_begin(lock->group->leaving, lock);
        start(lock);
        return;
    }
    local_waiter_restart(claim);
    if (searches(lock))
        lock->seats->row = 0;
    if (is_left)
        (void)must_give_way(lock, until);
    ask_at(lock, after_release(lock, 1));
    wait->row_began = wait->starts_at;
    if (wait->limit_ns > 0)
        listen_for_release(lock); /* and for a quicker process */
}

/* --- waiters for a resource whose seats this process has --------------------------------------------------------- */

/* The first waiter that may have this seat: others may know of fewer. NULL = nobody. */
static struct lock_seats *seat_successor(struct local_waiter *first, unsigned seat)
{
    while (first != NULL && list_owner(first, struct lock_seats, waiter)->limit < seat)
        first = local_waiter_behind(first);
    return first != NULL ? list_owner(first, struct lock_seats, waiter) : NULL;
}

/* The seat that a lock leaves goes to the first waiter, unless a lock of the process requested this very seat. */
static void seat_hand_on(struct redlock_lock *lock, struct local_waiter *first, unsigned seat, unsigned row)
{
    struct lock_seats *nexts = seat_successor(first, seat);
    if (nexts == NULL || lock_seat_owner(nexts->lock, seat) != NULL)
        return;
    seat_take(nexts->lock, seat);
    pass_begin_here(nexts->lock);
    nexts->row = row + 1;
    local_waiters_leave(lock->group->local_waiters, &nexts->waiter);
    lock->group->leaving = lock;
    has_turn(&nexts->lock->wait.claim);
}

static void seat_left(struct redlock_lock *lock)
{
    struct lock_seats *seats = lock->seats;
    struct local_waiters *waiters = lock->group->local_waiters;
    local_waiters_leave(waiters, &seats->waiter);
    if (lock->lease.state == LEASE_HELD)
        seats_note_free(lock->group->seats_seen, seats->hash, seats->seat);
    seat_hand_on(lock, local_waiters_owner(waiters, seats->waiting_key), seats->seat, seats->row);
}

/* What a lock without a limit leaves is the first seat of each resource. A reader had no turn that it could leave. */
static void first_seats_left(struct redlock_lock *lock)
{
    bool may_matter = lock->group->seats_seen != NULL && !lock->is_shared;
    for (unsigned i = 0; may_matter && i < lock->key_count; i++)
        seat_hand_on(lock, lock_first_waiter(lock, i), 1, 0);
}

/* Asks at a seat that no other lock of this process has, or waits for one. */
static void seats_wait_begin(struct redlock_lock *lock)
{
    struct lock_wait *wait = &lock->wait;
    pass_begin_anywhere(lock);
    unsigned seat = seat_seek(lock);
    if (seat != 0) {
        seat_take(lock, seat);
        wait->give_up_at = wait->limit_ns > 0 ? instant_after(lock->asked_at, wait->limit_ns) : INSTANT_NEVER;
        start(lock);
        return;
    }
    wait->is_queued = true;
    wait->give_up_at = local_give_up_at(lock);
    (void)local_waiters_want(lock->group->local_waiters, &lock->seats->waiter, &lock->seats->waiting_key, 1);
    timer_follow(lock);
}

/* Names the lock of this process that is in the way. */
static void name_blocker(struct redlock_lock *lock)
{
    const struct local_waiter *claim = local_waiter_blocker(&lock->wait.claim);
    if (claim == NULL)
        return;
    const struct redlock_lock *blocker = list_owner(claim, const struct redlock_lock, wait.claim);
    struct instant until = lease_believed_until(&blocker->lease, &blocker->terms);
    snprintf(lock->holder, sizeof lock->holder, "%s", blocker->owner);
    lock->remaining_ns = until.ns > 0 ? instant_since(now_of(lock), until) : 0;
    lock->refused_key = lock->wait.claim.had;
    lock->told_at = now_of(lock);
}

static void timer_fired(struct loop_timer *timer)
{
    struct redlock_lock *lock = list_owner(timer, struct redlock_lock, wait.timer);
    if (!lock->wait.is_queued) {
        lock->wait.give_up_at = INSTANT_NEVER;
        lock->group->take_step(lock, lease_last_try(&lock->lease));
    } else if (instant_reached(now_of(lock), lock->wait.starts_at)) {
        start(lock);
    } else if (instant_reached(now_of(lock), lock->wait.give_up_at)) {
        name_blocker(lock);
        lock_wait_end(lock);
        lock->group->tell_answer(lock, REDLOCK_BUSY);
    } else {
        timer_follow(lock);
    }
}

/* --- life --------------------------------------------------------------------------------------------------------- */

void lock_wait_init(struct redlock_lock *lock)
{
    local_waiter_init(&lock->wait.claim, has_turn);
    loop_timer_init(&lock->wait.timer, timer_fired);
}

void lock_wait_init_seats(struct redlock_lock *lock)
{
    /* Who is first waits on: each seat that it knows has a lock of this process, which hands it on (seat_hand_on). */
    local_waiter_init(&lock->seats->waiter, NULL);
}

void lock_wait_take_terms(struct redlock_lock *lock, const struct redlock_terms *terms)
{
    lock->wait.tries = lock->terms.tries;
    lock->wait.limit_ns = ns_from_ms(terms->wait_ms);
    lock->wait.row_most = terms->hand_over_tasks;
    lock->wait.row_limit_ns = ns_from_ms(terms->hand_over_ms);
    lock->wait.local_limit_ns = (terms->tries - 1) * ns_from_ms(terms->retry_delay_ms + terms->retry_jitter_ms);
}

void lock_wait_dispose(struct redlock_lock *lock)
{
    loop_timer_clear(lock->group->loop, &lock->wait.timer);
    free(lock->wait.wants);
}

void lock_wait_begin(struct redlock_lock *lock)
{
    struct lock_wait *wait = &lock->wait;
    wait->starts_at = INSTANT_NEVER;
    wait->freed_at = (struct instant){0};
    wait->row_began = now_of(lock);
    wait->planned_round = lock->lease.round;
    wait->polls = 0;
    wait->is_long = wait->is_silent = wait->gives_way = wait->has_waited = false;
    wait->not_before = (struct instant){0};
    lock->others_at = lock->readers_at = 0;
    lock->intent_length = 0;
    lock->keeps_all = false;
    lock->holder[0] = '\0';
    lock->remaining_ns = 0;
    lock->refused_key = REFUSED_KEY_UNKNOWN;
    lock->meets_seats = lock->clashes = lock->was_refused = false;
    for (unsigned i = 0; i < lock->key_count; i++)
        wait->keys[i] = local_key_of(lock, i);
    lock->terms.tries = wait->tries;
    if (searches(lock)) {
        if (wait->tries != LEASE_TRIES_ENDLESS)
            lock->terms.tries *= lock->seats->limit;
        seats_wait_begin(lock);
        return;
    }
    if (lock->is_shared || local_waiters_want(lock->group->local_waiters, &wait->claim, wait->keys, lock->key_count)) {
        wait->give_up_at = wait->limit_ns > 0 ? instant_after(lock->asked_at, wait->limit_ns) : INSTANT_NEVER;
        wait->is_queued = must_give_way(lock, let_until(lock));
        if (wait->is_queued)
            ask_at(lock, after_release(lock, 1));
        else
            start(lock);
        return;
    }
    wait->is_queued = wait->has_waited = true;
    wait->give_up_at = local_give_up_at(lock);
    timer_follow(lock);
}

void lock_wait_won(struct redlock_lock *lock)
{
    loop_timer_clear(lock->group->loop, &lock->wait.timer);
    listen_no_more(lock);
    others_passed(lock);
    if (!lock->wait.is_silent)
        lock->wait.row_began = now_of(lock);
    if (lock_has_limit(lock))
        seats_note_taken(lock->group->seats_seen, lock->seats->hash, lock->seats->seat);
    if (!lock->wait.is_silent) /* else no other process was notified that it was free */
        say_held(lock, lowest(lock->lease.yes, HINT_NODES), lock->terms.ttl_ns);
    lock->wait.is_silent = false;
}

void lock_wait_lingers(struct redlock_lock *lock)
{
    say_held(lock, lowest(lock->lease.yes, HINT_NODES), lock->linger_ns);
}

void lock_wait_end(struct redlock_lock *lock)
{
    struct lock_wait *wait = &lock->wait;
    bool is_cancelled = lock->lease.state != LEASE_FREE;
    bool says_free = wait->is_silent && (is_cancelled || lock->lease.refusal != REDLOCK_BUSY);
    loop_timer_clear(lock->group->loop, &wait->timer);
    listen_no_more(lock);
    turn_give_up(lock);
    wait->is_queued = wait->is_silent = false;
    wait->gives_way = lock->lease.state == LEASE_HELD && lock->linger_ns == 0 && redlock_lock_gives_way(lock);
    others_had(lock);
    lock->group->leaving = lock;
    local_waiters_leave(lock->group->local_waiters, &wait->claim);
    if (lock_has_limit(lock))
        seat_left(lock);
    else
        first_seats_left(lock);
    for (unsigned i = 0; wait->gives_way && i < lock->key_count; i++)
        wait->gives_way = !lock_is_taken_over(lock, i);
    if (wait->gives_way)
        give_way(lock);
    if (says_free)
        say_free_belatedly(lock);
}
