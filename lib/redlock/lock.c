/* One lock: performs what its rules (lease.h) and its caller ask for. Runs on the loop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "redlock/group_private.h"
#include "redlock/limits.h"
#include "redlock/redlock_loop.h"

/* --- how long it is valid ----------------------------------------------------------------------------------------- */

/* What other threads may know about a lock: two words to compare with the clock, and a descriptor for poll.
 *
 * The loop publishes, any thread reads. The descriptor is a timerfd on CLOCK_BOOTTIME that the kernel makes readable at
 * the end of the validity, so it works even if the loop is stuck. The first thread that asks for it creates it. A
 * thread that changes the end or creates the descriptor sets it from the word and reads the word again, so that the
 * last setting always belongs to the last word. */

/* Fires at once for a lock that is not held: a timer set to zero would never fire. */
static void timer_arm(int descriptor, int64_t until)
{
    int64_t at = until > 0 ? until : 1;
    struct itimerspec when = {.it_value = {.tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S}};
    (void)timerfd_settime(descriptor, TFD_TIMER_ABSTIME, &when, NULL);
}

static void timer_follow(struct redlock_validity *validity, int descriptor)
{
    int64_t until = 0;
    do {
        until = atomic_load(&validity->until);
        timer_arm(descriptor, until);
    } while (atomic_load(&validity->until) != until);
}

/* Stored as one more than it is, so that zeroed memory has none. */
static int descriptor_of(const struct redlock_validity *validity)
{
    return atomic_load(&validity->descriptor) - 1;
}

static void validity_publish(struct redlock_validity *validity, struct instant until, struct instant danger_from)
{
    if (atomic_load_explicit(&validity->danger_from, memory_order_relaxed) != danger_from.ns)
        atomic_store_explicit(&validity->danger_from, danger_from.ns, memory_order_release);
    if (atomic_load_explicit(&validity->until, memory_order_relaxed) == until.ns)
        return;
    atomic_store(&validity->until, until.ns);
    if (descriptor_of(validity) >= 0)
        timer_follow(validity, descriptor_of(validity));
}

/* Closes the descriptor; no thread asks any more. */
static void validity_end(struct redlock_validity *validity)
{
    int descriptor = atomic_exchange(&validity->descriptor, 0) - 1;
    if (descriptor >= 0)
        close(descriptor);
}

int64_t redlock_validity_left_ns(const struct redlock_validity *validity)
{
    if (validity == NULL)
        return 0;
    int64_t left = atomic_load_explicit(&validity->until, memory_order_acquire) - instant_now().ns;
    return left > 0 ? left : 0;
}

bool redlock_validity_in_danger(const struct redlock_validity *validity)
{
    return validity == NULL || atomic_load_explicit(&validity->danger_from, memory_order_acquire) <= instant_now().ns;
}

int redlock_validity_descriptor(struct redlock_validity *validity)
{
    if (validity == NULL)
        return -1;
    if (descriptor_of(validity) >= 0)
        return descriptor_of(validity);
    int made = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC), none = 0;
    if (made < 0)
        return -1;
    if (!atomic_compare_exchange_strong(&validity->descriptor, &none, made + 1))
        close(made);
    timer_follow(validity, descriptor_of(validity));
    return descriptor_of(validity);
}

static bool lock_outlives_quarantines(const struct redlock_lock *lock)
{
    int64_t longest = trust_max_ttl_ns(&lock->group->trust);
    return longest > 0 && lock->terms.ttl_ns > longest;
}

static void lock_retire(struct redlock_lock *lock)
{
    loop_timer_clear(lock->group->loop, &lock->timer);
    list_append(&lock->group->idle_locks, &lock->idle_link);
}

/* Reports news of a lock: to its caller, the log, the counters, and the callers that verify. Runs on the loop. */

/* --- words ------------------------------------------------------------------------------------------------------- */

static const char *answer_reason(enum redlock_answer answer)
{
    switch (answer) {
    case REDLOCK_ACQUIRED:
        return "a majority granted it";
    case REDLOCK_BUSY:
        return "somebody else holds it";
    case REDLOCK_SPLIT:
        return "several tried at once and none got a majority";
    case REDLOCK_NO_QUORUM:
        return "a majority of the lock nodes cannot be reached";
    case REDLOCK_TOO_SLOW:
        return "a majority granted it too late";
    case REDLOCK_CANCELLED:
        return "given up before it was acquired";
    case REDLOCK_INVALID:
    case REDLOCK_IN_DANGER:
        break;
    }
    return "outside the limits";
}

static void answer_count(struct redlock_counters *counters, enum redlock_answer answer)
{
    counters->acquired += answer == REDLOCK_ACQUIRED;
    counters->busy += answer == REDLOCK_BUSY;
    counters->split += answer == REDLOCK_SPLIT;
    counters->no_quorum += answer == REDLOCK_NO_QUORUM;
    counters->too_slow += answer == REDLOCK_TOO_SLOW;
    counters->cancelled += answer == REDLOCK_CANCELLED;
    counters->invalid += answer == REDLOCK_INVALID;
}

static void ending_count(struct redlock_counters *counters, enum redlock_ending ending)
{
    counters->released += ending == REDLOCK_RELEASED;
    counters->expired += ending == REDLOCK_EXPIRED;
    counters->foreign += ending == REDLOCK_FOREIGN;
    counters->unknown += ending == REDLOCK_UNKNOWN;
}

static void trouble_log(struct redlock_lock *lock, const char *event, const char *reason)
{
    char resource[LOG_QUOTE_MAX], owner[LOG_QUOTE_MAX], why[LOG_QUOTE_MAX];
    struct key_span key = lock_key(lock, 0);
    log_event(LOG_WARN, event, "key=%s keys=%u owner=%s nodes_up=%u reason=%s",
              log_value_bytes(key.bytes, key.length, resource), lock->key_count, log_value(lock->owner, owner),
              redlock_group_nodes_up(lock->group), log_value(reason, why));
}

/* The reported remaining time, less what has passed since; what is known to be over is not unknown. */
static int64_t remaining_ns(const struct redlock_lock *lock)
{
    int64_t left = lock->remaining_ns - instant_since(lock->told_at, loop_now(lock->group->loop));
    return lock->remaining_ns <= 0 ? 0 : left > 0 ? left : 1;
}

/* The owner and its remaining time (E12), always of the last attempt. */
static const char *busy_reason(struct redlock_lock *lock)
{
    char *reason = lock->group->reason;
    size_t size = sizeof lock->group->reason;
    if (lock->clashes)
        snprintf(reason, size, "something that is no lock is under its key");
    else if (remaining_ns(lock) > 0)
        snprintf(reason, size, "held by %s for %lld ms more unless extended",
                 lock->holder[0] != '\0' ? lock->holder : "somebody", (long long)(remaining_ns(lock) / NS_PER_MS));
    else if (lock->holder[0] != '\0')
        snprintf(reason, size, "held by %s", lock->holder);
    else
        return answer_reason(REDLOCK_BUSY);
    return reason;
}

/* A node that is connected and may not vote. Prefers one whose reason is known; otherwise one whose marker has just
 * changed under a grant, so that it is inspected again. NULL if all may vote. */
static const struct group_node *voteless_node(const struct redlock_group *group)
{
    const struct group_node *unseen = NULL;
    for (unsigned i = 0; i < group->node_count; i++) {
        enum trust_state state = group->trust.node[i].state;
        if (state == TRUST_QUARANTINED || state == TRUST_EXCLUDED)
            return &group->nodes[i];
        if (state == TRUST_UNSEEN && redis_node_state(group->nodes[i].node) == REDIS_NODE_UP)
            unseen = &group->nodes[i];
    }
    return unseen;
}

/* Without a quorum the reason comes from the nodes: the answer of one of them, or why too few of them may vote. */
static const char *no_quorum_reason(struct redlock_lock *lock)
{
    const struct redlock_group *group = lock->group;
    const struct group_node *voteless = voteless_node(group);
    if (lock->was_refused)
        return group->refusal;
    if (voteless == NULL || redlock_group_nodes_up(group) < group->node_count / 2 + 1) {
        const char *trouble = redlock_group_trouble(group);
        snprintf(lock->group->reason, sizeof lock->group->reason, "%s%s%s", answer_reason(REDLOCK_NO_QUORUM),
                 trouble[0] != '\0' ? ": " : "", trouble);
        return group->reason;
    }
    const struct trust_node *node = &group->trust.node[voteless->index];
    snprintf(lock->group->reason, sizeof lock->group->reason, "too few lock nodes may vote: %s is %s (%s): %s",
             redis_node_name(voteless->node), trust_state_name(node->state), trust_reason_name(node->reason),
             trust_advice(&group->trust, voteless->index));
    return group->reason;
}

/* A longer ttl than the group's longest would outlive its quarantines. */
static const char *invalid_reason(struct redlock_lock *lock)
{
    snprintf(lock->group->reason, sizeof lock->group->reason,
             "its ttl of %lld ms is above the max_ttl of the lock group, %lld ms",
             (long long)(lock->terms.ttl_ns / NS_PER_MS),
             (long long)(trust_max_ttl_ns(&lock->group->trust) / NS_PER_MS));
    return lock->group->reason;
}

static void answer_fill(struct redlock_lock *lock, struct redlock_event *event, enum redlock_answer answer)
{
    event->kind = REDLOCK_EVENT_ANSWER;
    event->answer = answer;
    event->reason = answer == REDLOCK_NO_QUORUM ? no_quorum_reason(lock)
                    : answer == REDLOCK_BUSY    ? busy_reason(lock)
                    : answer == REDLOCK_INVALID ? invalid_reason(lock)
                                                : answer_reason(answer);
    event->holder = answer == REDLOCK_BUSY ? lock->holder : "";
    event->remaining_ns = answer == REDLOCK_BUSY ? remaining_ns(lock) : 0;
    event->look_again_ns = answer == REDLOCK_BUSY ? lock_others_look_ns(lock) : 0;
    event->resource = answer == REDLOCK_BUSY && lock->refused_key < lock->key_count ? lock->refused_key : 0;
    event->attempts = lock->attempts;
    event->may_obstruct = answer != REDLOCK_ACQUIRED && lock->attempts > 0 && lock->lease.may_obstruct;
    event->waited_ns = instant_since(lock->asked_at, loop_now(lock->group->loop));
    answer_count(&lock->group->counters, answer);
}

static enum redlock_answer refusal_answer(const struct redlock_lock *lock, enum redlock_answer refusal)
{
    bool was_invalid = refusal == REDLOCK_NO_QUORUM && lock_outlives_quarantines(lock);
    return was_invalid ? REDLOCK_INVALID : refusal;
}

static const char *loss_reason(enum redlock_loss loss)
{
    static const char *const reasons[] = {
        [REDLOCK_LOST_DEADLINE] = "no extension succeeded before the deadline",
        [REDLOCK_LOST_TAKEN] = "a majority of nodes says that it is not ours",
        [REDLOCK_LOST_MAX_HOLD] = "it was held for as long as its terms allow",
        [REDLOCK_LOST_CLOCK] = "the clock of this machine stood still, so how long it was held is not known",
        [REDLOCK_LOST_FORFEIT] = "it was taken away by hand",
    };
    return reasons[loss];
}

static const char *danger_reason(const struct redlock_lock *lock)
{
    struct instant starved_at = instant_after(lock->lease.confirmed, lock->terms.danger_after_ns);
    return instant_reached(instant_now(), starved_at) ? "no extension succeeded for two thirds of the ttl"
                                                      : "its maximum hold is nearly over";
}

/* Counts and logs the news and describes it as an event. */
static void news_fill(struct redlock_lock *lock, const struct lease_step *step, struct redlock_event *event)
{
    struct redlock_counters *counters = &lock->group->counters;
    int64_t held_ns = instant_since(lock->acquired_at, loop_now(lock->group->loop));
    switch (step->news) {
    case LEASE_NEWS_ACQUIRED:
        lock->acquired_at = lock->lease.attempt_started;
        answer_fill(lock, event, REDLOCK_ACQUIRED);
        event->handed_over = lock->was_handed_over;
        counters->handed_over += lock->was_handed_over;
        return;
    case LEASE_NEWS_REFUSED:
        answer_fill(lock, event, refusal_answer(lock, step->refusal));
        return;
    case LEASE_NEWS_EXTENDED:
        counters->extensions++;
        histogram_record(&lock->group->extensions, instant_since(lock->lease.confirmed, instant_now()) / NS_PER_US);
        event->kind = REDLOCK_EVENT_EXTENDED;
        return;
    case LEASE_NEWS_DANGER:
        counters->dangers++;
        trouble_log(lock, "lock_in_danger", danger_reason(lock));
        event->kind = REDLOCK_EVENT_DANGER;
        return;
    case LEASE_NEWS_LOST:
        counters->lost++;
        trouble_log(lock, "lock_lost", loss_reason(step->loss));
        *event = (struct redlock_event){
            .kind = REDLOCK_EVENT_LOST, .loss = step->loss, .reason = loss_reason(step->loss), .held_ns = held_ns};
        return;
    case LEASE_NEWS_RELEASED:
        ending_count(counters, step->ending);
        *event = (struct redlock_event){.kind = REDLOCK_EVENT_RELEASED, .ending = step->ending, .held_ns = held_ns};
        return;
    case LEASE_NEWS_NONE:
        break;
    }
    invariant_unreachable("news that is none");
}

/* --- verification ---------------------------------------------------------------------------------------------- */

/* Answers callers that verify. Yes: they asked while it was held, and a later round confirmed it. No: it is lost. */
static void verifies_answer(struct redlock_lock *lock, bool is_held)
{
    struct list answered, *link = NULL;
    list_init(&answered);
    for (struct list *next = NULL, *at = lock->verifies.next; at != &lock->verifies; at = next) {
        next = at->next;
        if (is_held && instant_before(lock->lease.confirmed, list_owner(at, struct redlock_verify, link)->asked))
            continue;
        list_remove(at);
        list_append(&answered, at);
    }
    while ((link = list_take_first(&answered)) != NULL) {
        struct redlock_verify *verify = list_owner(link, struct redlock_verify, link);
        loop_timer_clear(lock->group->loop, &verify->limit);
        verify->done(verify, is_held);
    }
}

static void verify_fire(struct loop_timer *timer)
{
    struct redlock_verify *verify = list_owner(timer, struct redlock_verify, limit);
    list_remove(&verify->link);
    verify->done(verify, false);
}

/* With the ttl of the terms. */
static void confirmation_ask(struct redlock_lock *lock, struct redlock_verify *verify)
{
    struct loop *loop = lock->group->loop;
    loop_assert_inside(loop);
    bool is_held = lock->lease.state == LEASE_HELD;
    verify->asked = loop_now(loop);
    list_init(&verify->link);
    list_append(&lock->verifies, &verify->link);
    loop_timer_init(&verify->limit, verify_fire);
    loop_timer_set(loop, &verify->limit, loop_after(loop, is_held ? lock->terms.attempt_limit_ns : 0));
    if (is_held)
        lock_take_step(lock, lease_verify(&lock->lease, &lock->terms, verify->asked));
}

/* In the same cycle of the loop it takes the place of a round with a longer ttl. */
void redlock_lock_verify(struct redlock_lock *lock, struct redlock_verify *verify)
{
    if (lock == NULL || verify == NULL || verify->done == NULL)
        return;
    lock->longer_ns = 0;
    confirmation_ask(lock, verify);
}

/* Only the requests of this round have the longer ttl; the hold has it once they won. */
void redlock_lock_extend(struct redlock_lock *lock, int64_t ttl_ns, struct redlock_verify *verify)
{
    if (lock == NULL || verify == NULL || verify->done == NULL)
        return;
    int64_t usual_ns = lock->terms.ttl_ns;
    lock->longer_ns = ttl_ns > usual_ns ? ttl_ns : 0;
    lock->longer_from = loop_now(lock->group->loop);
    if (ttl_ns > usual_ns)
        lock->terms.ttl_ns = ttl_ns;
    confirmation_ask(lock, verify);
    if (lock->lease.state == LEASE_HELD)
        lock->terms.ttl_ns = usual_ns;
}

void redlock_lock_verify_cancel(struct redlock_lock *lock, struct redlock_verify *verify)
{
    if (lock == NULL || verify == NULL)
        return;
    list_remove(&verify->link);
    loop_timer_clear(lock->group->loop, &verify->limit);
}

/* Drops the verifications without an answer. */
static void lock_verifies_drop(struct redlock_lock *lock)
{
    struct list *link = NULL;
    while ((link = list_take_first(&lock->verifies)) != NULL)
        loop_timer_clear(lock->group->loop, &list_owner(link, struct redlock_verify, link)->limit);
}

/* --- telling ------------------------------------------------------------------------------------------------------ */

static void event_tell(struct redlock_lock *lock, const struct redlock_event *event)
{
    if (redlock_lock_is_free(lock))
        lock->group->locks_in_use--;
    if (lock->event != NULL)
        lock->event(lock, lock->context, event);
    else if (lock->lease.state == LEASE_FREE)
        lock_retire(lock);
}

static void lock_tell(struct redlock_lock *lock, const struct lease_step *step)
{
    struct redlock_event event = {0};
    news_fill(lock, step, &event);
    if (step->news == LEASE_NEWS_EXTENDED)
        verifies_answer(lock, true);
    else if (step->news == LEASE_NEWS_LOST || step->news == LEASE_NEWS_RELEASED)
        verifies_answer(lock, false);
    event_tell(lock, &event);
}

void lock_tell_answer(struct redlock_lock *lock, enum redlock_answer answer)
{
    struct redlock_event event = {0};
    answer_fill(lock, &event, answer);
    event_tell(lock, &event);
}

/* --- an attempt --------------------------------------------------------------------------------------------------- */

/* 32 digits from the kernel's generator, fresh for every attempt (E4, E23), then the owner for people. */
static void value_draw(struct redlock_lock *lock)
{
    char *to = lock->value + 2 * VALUE_RANDOM_BYTES;
    random_digits(lock->value, 2 * VALUE_RANDOM_BYTES);
    *to++ = ':'; /* also without an owner: it tells our values from those of other clients */
    memcpy(to, lock->owner, lock->owner_length);
    lock->value_length = (size_t)(to - lock->value) + lock->owner_length;
}

/* Another attempt would not end better. */
static void refuse_for_good(struct redlock_lock *lock, node_set all)
{
    struct lease *lease = &lock->lease;
    lease_last_try(lease);
    lock_take_step(lock, lease_unsent(lease, &lock->terms, all, lease->round, loop_now(lock->group->loop)));
}

/* Asks all nodes; batch.c skips those that may not vote. The limits of the group are known for certain only now, when
 * a grant would leave. */
void lock_grants_gather(struct redlock_lock *lock)
{
    node_set all = (node_set)((1u << lock->group->node_count) - 1u);
    if (lock_outlives_quarantines(lock)) {
        refuse_for_good(lock, all);
        return;
    }
    bool is_single = lock->key_count == 1 && !lock->is_shared && !lock_has_later_seat(lock);
    batch_add(is_single ? BATCH_GRANT : BATCH_GRANT_ALL, lock, lock->lease.round, all);
}

/* Others need no hint about keys that nobody could take now, or that this lock asks for again at once. */
static bool abandon_is_quiet(const struct lease *lease)
{
    return lease->refusal == REDLOCK_BUSY || (lease->refusal == REDLOCK_SPLIT && lease->state == LEASE_WAITING);
}

/* An attempt that ended before its grants left has nothing to undo. */
static void attempt_abandon(struct redlock_lock *lock, node_set reached)
{
    if (!list_is_empty(&lock->granting_link)) {
        list_remove(&lock->granting_link);
        return;
    }
    batch_add(BATCH_RELEASE, lock, BATCH_NO_VOTE, reached);
}

static void patience_follow(struct redlock_lock *lock)
{
    redlock_lease_terms_wait(&lock->terms, group_patience_ns(lock->group));
}

static void attempt_begin(struct redlock_lock *lock)
{
    patience_follow(lock);
    value_draw(lock);
    lock->attempts++;
    lock->holder[0] = '\0';
    lock->remaining_ns = 0;
    lock->refused_key = REFUSED_KEY_UNKNOWN;
    lock->others_at = lock->readers_at = 0;
    lock->meets_seats = lock->clashes = lock->was_refused = lock->was_handed_over = false;
    lock->group->counters.attempts++;
    list_append(&lock->group->granting, &lock->granting_link);
    loop_at_cycle_end(lock->group->loop, LOOP_BATCH, &lock->group->send);
}

/* --- the mover ------------------------------------------------------------------------------------------------ */

/* A node without a vote may have forgotten who had the key there. */
static void regrants_ask(struct redlock_lock *lock, node_set voters)
{
    lease_regranted(&lock->lease, voters);
    batch_add(BATCH_REPLANT, lock, lock->lease.round, voters);
}

/* Skips nodes that are no longer members of the group: their missing vote is all that they are worth. */
static void votes_ask(struct redlock_lock *lock, const struct lease_step *step)
{
    struct redlock_group *group = lock->group;
    uint32_t round = lock->lease.round;
    if (step->raise)
        batch_add(BATCH_RAISE, lock, round, step->raise & trust_voters(&group->trust));
    if (step->extend)
        batch_add(BATCH_EXTEND, lock, round, step->extend & trust_members(&group->trust));
    if (step->replant)
        batch_add(BATCH_REPLANT, lock, round, step->replant & trust_replanters(&group->trust));
    if (step->regrant)
        regrants_ask(lock, step->regrant & trust_voters(&group->trust));
    lock->wait.is_quiet = lock->wait.gives_way;
    if (step->release && !lock_swap_holds_back(lock, step->release))
        batch_add(lock->linger_ns > 0 ? BATCH_LINGER : BATCH_RELEASE, lock, round, step->release);
}

static void lock_publish(struct redlock_lock *lock)
{
    struct instant until = lease_believed_until(&lock->lease, &lock->terms);
    struct instant danger_from = lease_danger_from(&lock->lease, &lock->terms);
    validity_publish(&lock->validity, until, danger_from);
    if (lock->elsewhere != NULL)
        validity_publish(lock->elsewhere, until, danger_from);
}

static void leave_when_busy(struct redlock_lock *lock, struct lease_step *step)
{
    struct lease *lease = &lock->lease;
    if (!lock->wait.leaves_when_busy || lease->state != LEASE_WAITING || lease->refusal != REDLOCK_BUSY)
        return;
    struct lease_step refused = lease_last_try(lease);
    if (lock->wait.comes_back)
        lock_wait_keeps_turn(lock);
    step->news = refused.news;
    step->refusal = refused.refusal;
}

static void lengthen(struct redlock_lock *lock)
{
    if (lock->longer_ns > lock->terms.ttl_ns && lock->lease.confirmed.ns == lock->longer_from.ns)
        lease_lengthen(&lock->lease, &lock->terms, lock->longer_ns);
}

/* A vote that decides nothing yet, as most do: it can change no more than when the round ends. */
static bool is_undecided(const struct redlock_lock *lock, const struct lease_step *step)
{
    enum lease_state state = lock->lease.state;
    bool asks =
        step->abandon || step->grant || step->raise || step->extend || step->replant || step->regrant || step->release;
    bool is_published = atomic_load_explicit(&lock->validity.until, memory_order_relaxed) != 0;
    return !asks && step->news == LEASE_NEWS_NONE && !is_published &&
           (state == LEASE_ACQUIRING || state == LEASE_RELEASING);
}

void lock_take_step(struct redlock_lock *lock, struct lease_step step)
{
    if (is_undecided(lock, &step)) {
        lock_timer_follow(lock);
        return;
    }
    if (!lock_has_limit(lock) || !lock_wait_seeks(lock, &step))
        leave_when_busy(lock, &step);
    if (step.news == LEASE_NEWS_REFUSED)
        lock_wait_end(lock);
    lock->wait.is_quiet = abandon_is_quiet(&lock->lease);
    if (step.abandon && lock->lease.refusal == REDLOCK_SPLIT)
        node_counts_split(lock->group, lock->lease.yes);
    if (step.abandon)
        attempt_abandon(lock, step.abandon);
    lock_swap_follow(lock);
    if (step.grant)
        attempt_begin(lock);
    votes_ask(lock, &step);
    if (step.news == LEASE_NEWS_EXTENDED)
        lengthen(lock);
    lock_publish(lock);
    if (lock->lease.state == LEASE_WAITING)
        lock_wait_plan(lock);
    lock_timer_follow(lock);
    if (step.news == LEASE_NEWS_ACQUIRED)
        lock_wait_won(lock);
    if (step.news != LEASE_NEWS_NONE)
        lock_tell(lock, &step);
}

static void timer_fired(struct loop_timer *timer)
{
    struct redlock_lock *lock = list_owner(timer, struct redlock_lock, timer);
    if (lock->lease.state == LEASE_HELD) /* an extension may begin */
        patience_follow(lock);
    lock_take_step(lock, lease_tick(&lock->lease, &lock->terms, instant_now()));
}

/* --- what callers do ------------------------------------------------------------------------------------------ */

struct redlock_lock *redlock_lock_create(struct redlock_group *group, const struct redlock_terms *terms,
                                         void (*event)(struct redlock_lock *lock, void *context,
                                                       const struct redlock_event *event),
                                         void *context)
{
    if (group == NULL || terms == NULL || event == NULL)
        return NULL;
    struct list *idle = list_take_first(&group->idle_locks);
    struct redlock_lock *lock = NULL;
    if (idle != NULL) {
        lock = list_owner(idle, struct redlock_lock, idle_link);
    } else {
        lock = memory_new(struct redlock_lock);
        lock->group = group;
        list_init(&lock->idle_link);
        list_init(&lock->granting_link);
        list_init(&lock->link);
        list_append(&group->locks, &lock->link);
        loop_timer_init(&lock->timer, timer_fired);
        list_init(&lock->verifies);
        lock_wait_init(lock);
        lease_init(&lock->lease, (uint32_t)random_between(0, UINT32_MAX));
    }
    lock->event = event;
    lock->context = context;
    lock->terms = redlock_lease_terms(terms, group->node_count, group->drift_factor, group->slowest_timeout_ns);
    lock->longer_ns = 0;
    lock_wait_take_terms(lock, terms);
    return lock;
}

void redlock_lock_tell_to(struct redlock_lock *lock,
                          void (*event)(struct redlock_lock *lock, void *context, const struct redlock_event *event),
                          void *context)
{
    if (lock == NULL || event == NULL)
        return;
    lock_verifies_drop(lock);
    lock->event = event;
    lock->context = context;
}

void redlock_lock_destroy(struct redlock_lock *lock)
{
    if (lock == NULL)
        return;
    invariant(lock->lease.state == LEASE_FREE || lock->lease.state == LEASE_RELEASING);
    invariant(!lock->wait.is_queued);
    lock->event = NULL;
    lock->elsewhere = NULL;
    lock_verifies_drop(lock);
    validity_end(&lock->validity);
    if (lock->lease.state == LEASE_FREE)
        lock_retire(lock);
}

void lock_dispose(struct redlock_lock *lock)
{
    loop_timer_clear(lock->group->loop, &lock->timer);
    lock_wait_dispose(lock);
    validity_end(&lock->validity);
    lock_seats_dispose(lock);
    buffer_fini(&lock->keys);
    free(lock);
}

static bool request_take(struct redlock_lock *lock, const struct redlock_request *request)
{
    const char *sorted[REDLOCK_RESOURCES_MAX];
    char reason[REASON_BYTES_MAX];
    if (!redlock_request_check(request, lock->group->key_prefix, reason, sizeof reason))
        return false;
    lock->key_count = redlock_resources_sort(request, sorted);
    buffer_clear(&lock->keys);
    for (unsigned i = 0; i < lock->key_count; i++) {
        buffer_append(&lock->keys, lock->group->key_prefix, lock->group->key_prefix_length);
        buffer_append_text(&lock->keys, sorted[i]);
        lock->key_ends[i] = (uint16_t)lock->keys.length;
    }
    if (lock_seats_begin(lock, request))
        lock_wait_init_seats(lock);
    lock->owner_length = request->owner != NULL ? strnlen(request->owner, REDLOCK_OWNER_BYTES_MAX) : 0;
    if (lock->owner_length > 0)
        memcpy(lock->owner, request->owner, lock->owner_length);
    lock->owner[lock->owner_length] = '\0';
    lock->wait.waits_here = request->waits_here;
    lock->wait.leaves_when_busy = request->leaves_when_busy;
    lock->wait.comes_back = request->comes_back;
    lock->is_shared = request->shared;
    return true;
}

bool redlock_lock_acquire(struct redlock_lock *lock, const struct redlock_request *request)
{
    if (lock == NULL)
        return false;
    loop_assert_inside(lock->group->loop);
    if (!request_take(lock, request))
        return false;
    lock->group->locks_in_use++;
    lock->asked_at = loop_now(lock->group->loop);
    lock->attempts = 0;
    lock->linger_ns = 0;
    lock_wait_begin(lock);
    return true;
}

/* The next lock of this process asks behind it, and learns how long it has to wait. */
void redlock_lock_linger(struct redlock_lock *lock, int64_t ns)
{
    if (lock == NULL)
        return;
    int64_t longest = trust_max_ttl_ns(&lock->group->trust);
    bool is_held = lock->lease.state == LEASE_HELD;
    lock->linger_ns = !is_held ? 0 : longest > 0 && ns > longest ? longest : ns;
    if (lock->linger_ns > 0)
        lock_wait_lingers(lock);
    redlock_lock_release(lock);
}

void redlock_lock_forfeit(struct redlock_lock *lock)
{
    if (lock == NULL)
        return;
    loop_assert_inside(lock->group->loop);
    lock_take_step(lock, lease_forfeit(&lock->lease));
}

void redlock_lock_release(struct redlock_lock *lock)
{
    if (lock == NULL)
        return;
    loop_assert_inside(lock->group->loop);
    bool was_asked = lock->lease.state != LEASE_FREE; /* the nodes, that is */
    invariant(was_asked || lock->wait.is_queued);
    lock_wait_end(lock);
    if (was_asked)
        lock_take_step(lock, lease_release(&lock->lease, &lock->terms, loop_now(lock->group->loop)));
    else
        lock_tell_answer(lock, REDLOCK_CANCELLED);
}

void lock_waits_cancel(struct redlock_group *group)
{
    for (struct list *link = group->locks.next; link != &group->locks; link = link->next) {
        struct redlock_lock *lock = list_owner(link, struct redlock_lock, link);
        bool asks = lock->lease.state == LEASE_ACQUIRING || lock->lease.state == LEASE_FENCING ||
                    lock->lease.state == LEASE_WAITING;
        if (asks || lock->wait.is_queued)
            redlock_lock_release(lock);
    }
}

bool redlock_lock_is_free(const struct redlock_lock *lock)
{
    return lock == NULL || (lock->lease.state == LEASE_FREE && !lock->wait.is_queued);
}

void redlock_lock_publish_to(struct redlock_lock *lock, struct redlock_validity *elsewhere)
{
    if (lock == NULL)
        return;
    lock->elsewhere = elsewhere;
    if (elsewhere != NULL)
        lock_publish(lock);
}

struct redlock_validity *redlock_lock_validity(struct redlock_lock *lock)
{
    return lock != NULL ? &lock->validity : NULL;
}

uint64_t redlock_lock_token(const struct redlock_lock *lock)
{
    return lock != NULL ? lock->lease.token : 0;
}

unsigned redlock_lock_seat(const struct redlock_lock *lock)
{
    return lock != NULL && lock_has_limit(lock) ? lock->seats->seat : 0;
}

int64_t redlock_lock_ttl_ns(const struct redlock_lock *lock)
{
    return lock != NULL ? lock->terms.ttl_ns : 0;
}

struct instant redlock_lock_hold_until(const struct redlock_lock *lock)
{
    return lock != NULL ? lock->lease.hold_until : INSTANT_NEVER;
}
