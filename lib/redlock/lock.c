/* One lock: turns what the lease asks for into requests, and replies into votes. Runs on the loop. */
#include "redlock/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "redlock/scripts.h"
#include "redlock/terms.h"

/* --- votes --------------------------------------------------------------------------------------------------- */

/* Tells owners apart without keeping their values; 0 is left for "not told". */
static uint64_t owner_digest(const char *bytes, size_t length)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        digest = (digest ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return digest | 1u;
}

static void name_clash_log(const struct redlock_lock *lock, const struct group_node *node)
{
    char text[LOG_QUOTE_MAX];
    log_event(LOG_WARN, "lock_name_clash", "node=%s key=%s advice=\"a value of another kind is under the lock's key\"",
              redis_node_name(node->node), log_quote_bytes(lock->keys.bytes, lock->keys.length, text));
}

/* A node error is never "taken" (E11). The exception is a value of another type under our key: that is taken, and
 * said loudly (E22). */
static enum lease_vote grant_vote(const struct lock_call *asked, const struct redis_result *result, uint64_t *owner)
{
    if (result->outcome == REDIS_UNKNOWN)
        return LEASE_UNKNOWN;
    if (result->outcome == REDIS_ERROR) {
        if (result->error == REDIS_ERROR_DOWN || result->error == REDIS_ERROR_OVERLOAD)
            return LEASE_UNSENT;
        if (result->error != REDIS_ERROR_WRONGTYPE) {
            asked->lock->was_refused |= group_node_refused(&asked->lock->group->nodes[asked->node], result);
            return LEASE_UNKNOWN;
        }
        name_clash_log(asked->lock, &asked->lock->group->nodes[asked->node]);
        return LEASE_NO;
    }
    const struct redis_reply *reply = result->reply;
    if (reply->kind == REDIS_STRING) {
        *owner = owner_digest(reply->bytes, reply->length);
        return LEASE_NO;
    }
    /* SET NX GET and the script answer nil when granted; SET NX alone answers OK, and nil when refused. */
    if (reply->kind == REDIS_NIL)
        return asked->plain ? LEASE_NO : LEASE_YES;
    return asked->plain && redis_reply_is_status(reply, "OK") ? LEASE_YES : LEASE_UNKNOWN;
}

/* --- sending grants ------------------------------------------------------------------------------------------ */

/* 32 digits from the kernel's generator, fresh for every pass (E4, E23), then the owner for people. */
static void value_draw(struct redlock_lock *lock)
{
    char *to = lock->value + 2 * VALUE_RANDOM_BYTES;
    random_digits(lock->value, 2 * VALUE_RANDOM_BYTES);
    size_t owner = strlen(lock->owner);
    if (owner > 0) {
        *to++ = ':';
        memcpy(to, lock->owner, owner);
        to += owner;
    }
    lock->value_length = (size_t)(to - lock->value);
}

static void grant_encode_one(struct redlock_lock *lock, bool plain, struct buffer *out)
{
    struct key_span key = lock_key(lock, 0);
    redis_request_begin(out, plain ? 6 : 7);
    redis_request_bytes(out, "SET", 3);
    redis_request_bytes(out, key.bytes, key.length);
    redis_request_bytes(out, lock->value, lock->value_length);
    redis_request_bytes(out, "NX", 2);
    if (!plain)
        redis_request_bytes(out, "GET", 3);
    redis_request_bytes(out, "PX", 2);
    redis_request_integer(out, lock->terms.ttl_ns / NS_PER_MS);
}

static void grant_encode_many(struct redlock_lock *lock, struct buffer *out)
{
    redis_request_script(out, &redlock_script_grant, lock->key_count, 2);
    for (unsigned i = 0; i < lock->key_count; i++) {
        struct key_span key = lock_key(lock, i);
        redis_request_bytes(out, key.bytes, key.length);
    }
    redis_request_bytes(out, lock->value, lock->value_length);
    redis_request_integer(out, lock->terms.ttl_ns / NS_PER_MS);
}

static void grant_encode(struct redlock_lock *lock, bool plain)
{
    struct buffer *out = &lock->group->request;
    buffer_clear(out);
    if (lock->key_count == 1)
        grant_encode_one(lock, plain, out);
    else
        grant_encode_many(lock, out);
}

/* False when nothing was written. The request is in group->request, without GET if `*encoded_plain`. */
static bool grant_send_to(struct redlock_lock *lock, struct group_node *node, bool *encoded_plain)
{
    if (!group_node_takes_grants(node))
        return false;
    bool plain = node->plain_set && lock->key_count == 1;
    if (plain != *encoded_plain) {
        *encoded_plain = plain;
        grant_encode(lock, plain);
    }
    struct lock_call *asked = &lock->calls[node->index];
    asked->round = lock->lease.round;
    asked->plain = plain;
    struct instant deadline = instant_after(lock->lease.pass_started, node->timeout_ns);
    return redis_node_call(node->node, &lock->group->request, deadline, &asked->call);
}

/* An older server refuses SET with both NX and GET, and did nothing: it is asked again in its own words. */
static bool grant_repeat_plain(struct lock_call *asked, const struct redis_result *result)
{
    struct redlock_lock *lock = asked->lock;
    if (result->outcome != REDIS_ERROR || result->error != REDIS_ERROR_SYNTAX || asked->plain || lock->key_count > 1 ||
        asked->round != lock->lease.round)
        return false;
    bool encoded_plain = false;
    lock->group->nodes[asked->node].plain_set = true;
    return grant_send_to(lock, &lock->group->nodes[asked->node], &encoded_plain);
}

/* All grants are written before "could not be sent" is counted: that may end the pass, and then the release must
 * already know everything that was sent, and nothing else. */
void lock_send_grants(struct redlock_lock *lock)
{
    struct redlock_group *group = lock->group;
    node_set unsent = 0;
    bool encoded_plain = false;
    grant_encode(lock, encoded_plain);
    for (unsigned i = 0; i < group->node_count; i++)
        if (!grant_send_to(lock, &group->nodes[i], &encoded_plain))
            unsent |= (node_set)(1u << i);
    if (unsent != 0)
        lock_take_step(lock,
                       lease_unsent(&lock->lease, &lock->terms, unsent, lock->lease.round, loop_now(group->loop)));
}

static void grant_done(struct redis_call *call, const struct redis_result *result)
{
    struct lock_call *asked = list_owner(call, struct lock_call, call);
    struct redlock_lock *lock = asked->lock;
    if (grant_repeat_plain(asked, result))
        return;
    uint64_t owner = 0;
    enum lease_vote vote = grant_vote(asked, result, &owner);
    lock_take_step(lock, lease_vote(&lock->lease, &lock->terms, asked->node, asked->round, vote, owner, instant_now()));
}

static void calls_cancel(struct redlock_lock *lock)
{
    for (unsigned i = 0; i < lock->group->node_count; i++)
        redis_call_cancel(&lock->calls[i].call);
}

/* A pass that ended before its grants left has nothing to undo. */
static void pass_abandon(struct redlock_lock *lock, node_set reached)
{
    if (!list_is_empty(&lock->granting_link)) {
        list_remove(&lock->granting_link);
        return;
    }
    calls_cancel(lock);
    batch_add(lock->group, BATCH_RELEASE, lock, BATCH_NO_VOTE, reached);
}

static void pass_begin(struct redlock_lock *lock)
{
    calls_cancel(lock);
    value_draw(lock);
    lock->passes++;
    lock->group->counters.passes++;
    list_append(&lock->group->granting, &lock->granting_link);
    loop_at_turn_end(lock->group->loop, LOOP_BATCH, &lock->group->send);
}

/* --- news ---------------------------------------------------------------------------------------------------- */

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
    return "the request is outside the limits";
}

static void answer_count(struct redlock_counters *counters, enum redlock_answer answer)
{
    counters->acquired += answer == REDLOCK_ACQUIRED;
    counters->busy += answer == REDLOCK_BUSY;
    counters->split += answer == REDLOCK_SPLIT;
    counters->no_quorum += answer == REDLOCK_NO_QUORUM;
    counters->too_slow += answer == REDLOCK_TOO_SLOW;
    counters->cancelled += answer == REDLOCK_CANCELLED;
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
              log_quote_bytes(key.bytes, key.length, resource), lock->key_count, log_quote(lock->owner, owner),
              redlock_group_nodes_up(lock->group), log_quote(reason, why));
}

static void answer_fill(struct redlock_lock *lock, struct redlock_event *event, enum redlock_answer answer)
{
    event->kind = REDLOCK_EVENT_ANSWER;
    event->answer = answer;
    event->reason = answer == REDLOCK_NO_QUORUM && lock->was_refused ? lock->group->refusal : answer_reason(answer);
    event->passes = lock->passes;
    event->waited_ns = instant_since(lock->asked_at, loop_now(lock->group->loop));
    answer_count(&lock->group->counters, answer);
}

static const char *loss_reason(enum lease_loss loss)
{
    return loss == LEASE_LOSS_TAKEN ? "a majority of nodes says that it is not ours"
                                    : "no extension succeeded before the deadline";
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
        return;
    case LEASE_NEWS_REFUSED:
        answer_fill(lock, event, answer_of(step->refusal));
        return;
    case LEASE_NEWS_EXTENDED:
        counters->extensions++;
        event->kind = REDLOCK_EVENT_EXTENDED;
        return;
    case LEASE_NEWS_DANGER:
        counters->dangers++;
        trouble_log(lock, "lock_in_danger", "no extension succeeded for two thirds of the ttl");
        event->kind = REDLOCK_EVENT_DANGER;
        return;
    case LEASE_NEWS_LOST:
        counters->lost++;
        trouble_log(lock, "lock_lost", loss_reason(step->loss));
        *event =
            (struct redlock_event){.kind = REDLOCK_EVENT_LOST, .reason = loss_reason(step->loss), .held_ns = held_ns};
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

static void retire(struct redlock_lock *lock)
{
    loop_timer_clear(lock->group->loop, &lock->timer);
    calls_cancel(lock);
    list_append(&lock->group->idle_locks, &lock->idle_link);
}

static void news_tell(struct redlock_lock *lock, const struct lease_step *step)
{
    struct redlock_event event = {0};
    news_fill(lock, step, &event);
    if (lock->lease.state == LEASE_FREE)
        lock->group->locks_in_use--;
    if (lock->event != NULL)
        lock->event(lock, lock->context, &event);
    else if (lock->lease.state == LEASE_FREE)
        retire(lock);
}

/* --- the mover ------------------------------------------------------------------------------------------------ */

static void deadline_publish(struct redlock_lock *lock)
{
    int64_t until = lease_believed_until(&lock->lease, &lock->terms).ns;
    if (atomic_load_explicit(&lock->deadline, memory_order_relaxed) != until)
        atomic_store_explicit(&lock->deadline, until, memory_order_release);
}

/* Also after a step that asks for nothing: a pass that reached no node at all goes to wait without a word. */
static void timer_follow(struct redlock_lock *lock)
{
    struct instant next = lease_next(&lock->lease, &lock->terms);
    if (next.ns == INSTANT_NEVER.ns)
        loop_timer_clear(lock->group->loop, &lock->timer);
    else if (!loop_timer_is_set(&lock->timer) || lock->timer.item.at.ns != next.ns)
        loop_timer_set(lock->group->loop, &lock->timer, next);
}

void lock_take_step(struct redlock_lock *lock, struct lease_step step)
{
    if (step.abandon)
        pass_abandon(lock, step.abandon);
    if (step.grant)
        pass_begin(lock);
    if (step.extend)
        batch_add(lock->group, BATCH_EXTEND, lock, lock->lease.round, step.extend);
    if (step.release) {
        calls_cancel(lock);
        batch_add(lock->group, BATCH_RELEASE, lock, lock->lease.round, step.release);
    }
    deadline_publish(lock);
    timer_follow(lock);
    if (step.news != LEASE_NEWS_NONE)
        news_tell(lock, &step);
}

static void timer_fired(struct loop_timer *timer)
{
    struct redlock_lock *lock = list_owner(timer, struct redlock_lock, timer);
    lock_take_step(lock, lease_tick(&lock->lease, &lock->terms, instant_now()));
}

/* --- what callers do ------------------------------------------------------------------------------------------ */

struct redlock_lock *redlock_lock_create(struct redlock_group *group, const struct redlock_terms *terms,
                                         void (*event)(struct redlock_lock *lock, void *context,
                                                       const struct redlock_event *event),
                                         void *context)
{
    struct list *idle = list_take_first(&group->idle_locks);
    struct redlock_lock *lock = NULL;
    if (idle != NULL) {
        lock = list_owner(idle, struct redlock_lock, idle_link);
    } else {
        lock = memory_zeroed(1, sizeof *lock + group->node_count * sizeof lock->calls[0]);
        lock->group = group;
        list_init(&lock->idle_link);
        list_init(&lock->granting_link);
        list_init(&lock->link);
        list_append(&group->locks, &lock->link);
        loop_timer_init(&lock->timer, timer_fired);
        lease_init(&lock->lease, (uint32_t)random_between(0, UINT32_MAX));
        for (unsigned i = 0; i < group->node_count; i++)
            lock->calls[i] = (struct lock_call){.call.done = grant_done, .lock = lock, .node = (uint16_t)i};
    }
    lock->event = event;
    lock->context = context;
    lock->terms = redlock_lease_terms(terms, group->node_count, group->slowest_timeout_ns);
    return lock;
}

void redlock_lock_destroy(struct redlock_lock *lock)
{
    invariant(lock->lease.state == LEASE_FREE || lock->lease.state == LEASE_RELEASING);
    lock->event = NULL;
    if (lock->lease.state == LEASE_FREE)
        retire(lock);
}

void lock_dispose(struct redlock_lock *lock)
{
    loop_timer_clear(lock->group->loop, &lock->timer);
    buffer_fini(&lock->keys);
    free(lock);
}

static bool request_take(struct redlock_lock *lock, const struct redlock_request *request)
{
    const char *sorted[REDLOCK_RESOURCES_MAX];
    lock->key_count = redlock_resources_sort(request, sorted);
    if (lock->key_count == 0)
        return false;
    buffer_clear(&lock->keys);
    for (unsigned i = 0; i < lock->key_count; i++) {
        buffer_append(&lock->keys, lock->group->key_prefix, lock->group->key_prefix_length);
        buffer_append_text(&lock->keys, sorted[i]);
        lock->key_ends[i] = (uint16_t)lock->keys.length;
    }
    snprintf(lock->owner, sizeof lock->owner, "%s", request->owner != NULL ? request->owner : "");
    return true;
}

bool redlock_lock_acquire(struct redlock_lock *lock, const struct redlock_request *request)
{
    loop_assert_inside(lock->group->loop);
    if (!request_take(lock, request))
        return false;
    lock->group->locks_in_use++;
    lock->asked_at = loop_now(lock->group->loop);
    lock->passes = 0;
    lock->was_refused = false;
    lock_take_step(lock, lease_acquire(&lock->lease, &lock->terms, lock->asked_at));
    return true;
}

void redlock_lock_release(struct redlock_lock *lock)
{
    loop_assert_inside(lock->group->loop);
    lock_take_step(lock, lease_release(&lock->lease, &lock->terms, loop_now(lock->group->loop)));
}

bool redlock_lock_is_free(const struct redlock_lock *lock)
{
    return lock->lease.state == LEASE_FREE;
}

const _Atomic int64_t *redlock_lock_deadline(const struct redlock_lock *lock)
{
    return &lock->deadline;
}
