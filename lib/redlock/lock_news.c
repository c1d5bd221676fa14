/* What a lock tells: its caller, the log, the counters, and whoever verifies. Runs on the loop. */
#include "redlock/group.h"

#include <stdio.h>

#include "base/invariant.h"
#include "base/log.h"

/* --- words ------------------------------------------------------------------------------------------------------- */

static enum redlock_answer answer_of(enum lease_refusal refusal)
{
    switch (refusal) {
    case LEASE_BUSY:
        return REDLOCK_BUSY;
    case LEASE_SPLIT:
        return REDLOCK_SPLIT;
    case LEASE_NO_QUORUM:
        return REDLOCK_NO_QUORUM;
    case LEASE_TOO_SLOW:
        return REDLOCK_TOO_SLOW;
    case LEASE_CANCELLED:
        return REDLOCK_CANCELLED;
    }
    invariant_unreachable("a refusal outside its enum");
}

static const char *answer_reason(enum redlock_answer answer)
{
    switch (answer) {
    case REDLOCK_ACQUIRED:
        return "a majority granted it";
    case REDLOCK_BUSY:
        return "somebody else holds it";
    case REDLOCK_SPLIT:
        return "several tried at once and nobody got a majority";
    case REDLOCK_NO_QUORUM:
        return "a majority of the lock nodes cannot be reached";
    case REDLOCK_TOO_SLOW:
        return "a majority granted it too late";
    case REDLOCK_CANCELLED:
        return "given up before it was acquired";
    case REDLOCK_INVALID:
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

static void ending_count(struct redlock_counters *counters, enum lease_ending ending)
{
    counters->released += ending == LEASE_ENDED_RELEASED;
    counters->expired += ending == LEASE_ENDED_EXPIRED;
    counters->foreign += ending == LEASE_ENDED_FOREIGN;
    counters->unknown += ending == LEASE_ENDED_UNKNOWN;
}

static enum redlock_ending ending_of(enum lease_ending ending)
{
    switch (ending) {
    case LEASE_ENDED_RELEASED:
        return REDLOCK_RELEASED;
    case LEASE_ENDED_EXPIRED:
        return REDLOCK_EXPIRED;
    case LEASE_ENDED_FOREIGN:
        return REDLOCK_FOREIGN;
    case LEASE_ENDED_UNKNOWN:
        return REDLOCK_UNKNOWN;
    }
    invariant_unreachable("an ending outside its enum");
}

static void trouble_log(struct redlock_lock *lock, const char *event, const char *reason)
{
    char resource[LOG_QUOTE_MAX], owner[LOG_QUOTE_MAX], why[LOG_QUOTE_MAX];
    struct key_span key = lock_key(lock, 0);
    log_event(LOG_WARN, event, "key=%s keys=%u owner=%s nodes_up=%u reason=%s",
              log_value_bytes(key.bytes, key.length, resource), lock->key_count, log_value(lock->owner, owner),
              redlock_group_nodes_up(lock->group), log_value(reason, why));
}

/* What it was when it was told, less what has passed since. */
static int64_t remaining_ns(const struct redlock_lock *lock)
{
    int64_t left = lock->remaining_ns - instant_since(lock->told_at, loop_now(lock->group->loop));
    return left > 0 ? left : 0;
}

/* Who has it, and for how long yet (E12); always of the last pass. */
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

/* A node that is connected and may not vote: first one of which it is known why, else one whose marker has just changed
 * under a grant, so that it is being asked again. Null when all of them may. */
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

/* Without a quorum the reason is the nodes': what one of them answered, or why too few of them may vote. */
static const char *no_quorum_reason(struct redlock_lock *lock)
{
    const struct redlock_group *group = lock->group;
    const struct group_node *voteless = voteless_node(group);
    if (lock->was_refused)
        return group->refusal;
    if (voteless == NULL || redlock_group_nodes_up(group) < group->node_count / 2 + 1)
        return answer_reason(REDLOCK_NO_QUORUM);
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
    event->resource = answer == REDLOCK_BUSY && lock->refused_key < lock->key_count ? lock->refused_key : 0;
    event->passes = lock->passes;
    event->may_obstruct = answer != REDLOCK_ACQUIRED && lock->passes > 0 && lock->lease.may_obstruct;
    event->waited_ns = instant_since(lock->asked_at, loop_now(lock->group->loop));
    answer_count(&lock->group->counters, answer);
}

static enum redlock_answer refusal_answer(const struct redlock_lock *lock, enum lease_refusal refusal)
{
    bool was_invalid = refusal == LEASE_NO_QUORUM && lock_outlives_quarantines(lock);
    return was_invalid ? REDLOCK_INVALID : answer_of(refusal);
}

static enum redlock_loss loss_of(enum lease_loss loss)
{
    switch (loss) {
    case LEASE_LOSS_DEADLINE:
        return REDLOCK_LOST_DEADLINE;
    case LEASE_LOSS_TAKEN:
        return REDLOCK_LOST_TAKEN;
    case LEASE_LOSS_MAX_HOLD:
        return REDLOCK_LOST_MAX_HOLD;
    case LEASE_LOSS_CLOCK:
        return REDLOCK_LOST_CLOCK;
    case LEASE_LOSS_FORFEIT:
        return REDLOCK_LOST_FORFEIT;
    }
    invariant_unreachable("a loss outside its enum");
}

static const char *loss_reason(enum lease_loss loss)
{
    static const char *const reasons[] = {
        [LEASE_LOSS_DEADLINE] = "no extension succeeded before the deadline",
        [LEASE_LOSS_TAKEN] = "a majority of nodes says that it is not ours",
        [LEASE_LOSS_MAX_HOLD] = "it was held for as long as its terms allow",
        [LEASE_LOSS_CLOCK] = "the clock of this machine stood still, so how long it was held is not known",
        [LEASE_LOSS_FORFEIT] = "it was taken away by hand",
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
        lock->acquired_at = lock->lease.pass_started;
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
        *event = (struct redlock_event){.kind = REDLOCK_EVENT_LOST,
                                        .loss = loss_of(step->loss),
                                        .reason = loss_reason(step->loss),
                                        .held_ns = held_ns};
        return;
    case LEASE_NEWS_RELEASED:
        ending_count(counters, step->ending);
        *event = (struct redlock_event){
            .kind = REDLOCK_EVENT_RELEASED, .ending = ending_of(step->ending), .held_ns = held_ns};
        return;
    case LEASE_NEWS_NONE:
        break;
    }
    invariant_unreachable("news that is none");
}

/* --- verification ---------------------------------------------------------------------------------------------- */

/* Asked while it was held, and confirmed by a round that began after the question: yes. Not held any more: no. */
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

void redlock_lock_verify(struct redlock_lock *lock, struct redlock_verify *verify)
{
    if (lock == NULL || verify == NULL || verify->done == NULL)
        return;
    struct loop *loop = lock->group->loop;
    loop_assert_inside(loop);
    bool is_held = lock->lease.state == LEASE_HELD;
    verify->asked = loop_now(loop);
    list_init(&verify->link);
    list_append(&lock->verifies, &verify->link);
    loop_timer_init(&verify->limit, verify_fire);
    loop_timer_set(loop, &verify->limit, loop_after(loop, is_held ? lock->terms.pass_limit_ns : 0));
    if (is_held)
        lock_take_step(lock, lease_verify(&lock->lease, &lock->terms, verify->asked));
}

void redlock_lock_verify_cancel(struct redlock_lock *lock, struct redlock_verify *verify)
{
    if (lock == NULL || verify == NULL)
        return;
    list_remove(&verify->link);
    loop_timer_clear(lock->group->loop, &verify->limit);
}

void lock_verifies_drop(struct redlock_lock *lock)
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

void lock_tell(struct redlock_lock *lock, const struct lease_step *step)
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
