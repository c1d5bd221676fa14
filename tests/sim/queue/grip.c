/* A lock: performs the steps of its lease over the lock nodes, as lib/redlock does. A process asks for a resource
 * once at a time: who waits here (an heir) begins when the holder lets go, with a grant that may replace the holder's
 * value; the holder's release is held back until that is decided. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "redlock/scripts.h"
#include "tests/sim/queue/scene.h"

#define LATE_NS      (50 * NS_PER_MS)  /* of worker/departures.h */
#define SLOW_MAX_NS  (400 * NS_PER_MS) /* the way of a release to all nodes, now and then */
#define FENCE_TTL_MS "604800000"

/* What a vote is about. */
#define DETAIL(round, node) ((uintptr_t)(round) << 8 | (node))

static void grip_take_step(struct grip *grip, const struct lease_step *step);

static struct scene *scene_of(const struct grip *grip)
{
    return grip->crew->scene;
}

static void grip_vote(struct grip *grip, unsigned node, uint32_t round, enum lease_vote vote, uint64_t detail)
{
    struct scene *scene = scene_of(grip);
    struct lease_step step = lease_vote(&grip->lease, &scene->terms, node, round, vote, detail, scene->now);
    grip_take_step(grip, &step);
}

static void key_write(const struct grip *grip, char key[NAME_BYTES])
{
    snprintf(key, NAME_BYTES, "lock:r%u", grip->resource);
}

/* --- what is sent ------------------------------------------------------------------------------------------------- */

static void granted(void *owner, uintptr_t detail, const struct reply *reply)
{
    struct grip *grip = owner;
    unsigned node = detail & 0xff;
    uint32_t round = (uint32_t)(detail >> 8);
    const char *text = reply != NULL ? reply_text(reply, 2) : "";
    if (text[0] == '=')
        grip->swapped |= (node_set)(1u << node);
    if (text[0] == '+' || text[0] == '=') {
        grip_vote(grip, node, round, LEASE_YES, strtoull(text + 1, NULL, 10));
    } else if (text[0] == '-') {
        char *value = NULL;
        int64_t left_ms = strtoll(text + 1, &value, 10);
        grip->left_ms = left_ms > grip->left_ms ? left_ms : grip->left_ms;
        uint64_t hash = 14695981039346656037u;
        for (; value != NULL && *value != '\0'; value++)
            hash = (hash ^ (unsigned char)*value) * 1099511628211u;
        grip_vote(grip, node, round, LEASE_NO, hash | 1);
    } else {
        grip_vote(grip, node, round, LEASE_UNKNOWN, 0);
    }
}

static void grant_send(struct grip *grip, unsigned node)
{
    struct scene *scene = scene_of(grip);
    struct server *server = &scene->lock_nodes[node];
    struct request request;
    char key[NAME_BYTES], deadline[24], ttl[24], proposal[24];
    int64_t now_us = server_now_us(server);
    key_write(grip, key);
    snprintf(deadline, sizeof deadline, "%" PRId64, now_us + scene->node_timeout_ns / NS_PER_US);
    snprintf(ttl, sizeof ttl, "%" PRId64, scene->terms.ttl_ns / NS_PER_MS);
    snprintf(proposal, sizeof proposal, "%" PRId64, now_us);
    request_begin(&request, &redlock_script_grant);
    request_key(&request, "hf:marker");
    request_key(&request, key);
    request_text(&request, server->marker);
    request_text(&request, deadline);
    request_text(&request, ttl);
    request_text(&request, proposal);
    request_text(&request, FENCE_TTL_MS);
    request_text(&request, grip->value);
    request_text(&request, grip->replaces);
    server_ask_once(server, grip->crew, &request, scene->node_timeout_ns, granted, grip,
                    DETAIL(grip->lease.round, node));
}

static void pass_begin(struct grip *grip, node_set nodes)
{
    struct scene *scene = scene_of(grip);
    node_set unsent = 0;
    uint32_t round = grip->lease.round;
    snprintf(grip->value, sizeof grip->value, "%016llx:%u", (unsigned long long)++scene->values, grip->crew->index);
    grip->left_ms = 0;
    for (unsigned i = 0; i < LOCK_NODES; i++) {
        if (((unsigned)nodes >> i & 1u) == 0)
            continue;
        if (instant_before(scene->now, scene->lock_nodes[i].trusted_from))
            unsent |= (node_set)(1u << i);
        else
            grant_send(grip, i);
    }
    if (unsent == 0)
        return;
    struct lease_step step = lease_unsent(&grip->lease, &scene->terms, unsent, round, scene->now);
    grip_take_step(grip, &step);
}

static void raised(void *owner, uintptr_t detail, const struct reply *reply)
{
    const char *text = reply != NULL ? reply_text(reply, 2) : "";
    enum lease_vote vote = text[0] == '+' ? LEASE_YES : text[0] == '0' ? LEASE_NO : LEASE_UNKNOWN;
    grip_vote(owner, detail & 0xff, (uint32_t)(detail >> 8), vote,
              vote == LEASE_YES ? strtoull(text + 1, NULL, 10) : 0);
}

static void extended(void *owner, uintptr_t detail, const struct reply *reply)
{
    const char *text = reply != NULL ? reply_text(reply, 2) : "";
    enum lease_vote vote = text[0] == '1' ? LEASE_YES : text[0] == '0' ? LEASE_NO : LEASE_UNKNOWN;
    grip_vote(owner, detail & 0xff, (uint32_t)(detail >> 8), vote, 0);
}

static void released(void *owner, uintptr_t detail, const struct reply *reply)
{
    struct grip *grip = owner;
    char answer = reply->text.bytes[0];
    enum lease_vote vote = answer == '1' ? LEASE_YES : answer == '2' ? LEASE_FOREIGN : LEASE_NO;
    if (detail >> 8 != 0)
        grip_vote(grip, detail & 0xff, (uint32_t)(detail >> 8), vote, 0);
}

static void raise_send(struct grip *grip, unsigned node)
{
    struct request request;
    char key[NAME_BYTES], token[24], ttl[24];
    key_write(grip, key);
    snprintf(token, sizeof token, "%" PRIu64, grip->lease.token);
    snprintf(ttl, sizeof ttl, "%" PRId64, scene_of(grip)->terms.ttl_ns / NS_PER_MS);
    request_begin(&request, &redlock_script_raise);
    request_key(&request, "hf:marker");
    request_key(&request, key);
    request_text(&request, "");
    request_text(&request, grip->value);
    request_text(&request, token);
    request_text(&request, ttl);
    request_text(&request, FENCE_TTL_MS);
    server_ask_once(&scene_of(grip)->lock_nodes[node], grip->crew, &request, scene_of(grip)->node_timeout_ns, raised,
                    grip, DETAIL(grip->lease.round, node));
}

static void extension_send(struct grip *grip, unsigned node)
{
    struct request request;
    char key[NAME_BYTES], ttl[24];
    key_write(grip, key);
    snprintf(ttl, sizeof ttl, "%" PRId64, scene_of(grip)->terms.ttl_ns / NS_PER_MS);
    request_begin(&request, &redlock_script_extend);
    request_key(&request, "hf:marker");
    request_key(&request, key);
    request_text(&request, "");
    request_text(&request, grip->value);
    request_text(&request, ttl);
    server_ask_once(&scene_of(grip)->lock_nodes[node], grip->crew, &request, scene_of(grip)->node_timeout_ns, extended,
                    grip, DETAIL(grip->lease.round, node));
}

/* Also to a node that has to be asked again: whatever is owed is sent until it is answered. */
static void release_send(struct grip *grip, node_set nodes, uint32_t round)
{
    struct request request;
    char key[NAME_BYTES];
    key_write(grip, key);
    request_begin(&request, &redlock_script_release);
    request_key(&request, key);
    request_text(&request, grip->value);
    request_text(&request, "");
    struct scene *scene = scene_of(grip);
    if (!scene->is_calm && chance_per_mille(&scene->chance, 40))
        scene->extra_delay_ns = chance_between(&scene->chance, 0, SLOW_MAX_NS);
    for (unsigned i = 0; i < LOCK_NODES; i++)
        if ((unsigned)nodes >> i & 1u)
            server_ask_until_told(&scene_of(grip)->lock_nodes[i], grip->crew, &request, released, grip,
                                  DETAIL(round, i));
    scene->extra_delay_ns = 0;
}

/* --- handing over ------------------------------------------------------------------------------------------------- */

/* The swap of the successor is decided: what it did not replace is released. */
static void release_go_on(struct grip *successor, bool succeeded)
{
    struct grip *grip = successor->releasing;
    if (grip == NULL)
        return;
    successor->releasing = NULL;
    successor->replaces[0] = '\0';
    node_set done = succeeded ? successor->swapped & grip->withheld : 0, rest = (node_set)(grip->withheld & ~done);
    uint32_t round = grip->lease.round;
    grip->withheld = 0;
    release_send(grip, rest, round);
    for (unsigned i = 0; i < LOCK_NODES; i++)
        if ((unsigned)done >> i & 1u)
            grip_vote(grip, i, round, LEASE_YES, 0);
}

static void successor_begin(struct grip *grip)
{
    struct scene *scene = scene_of(grip);
    struct grip *successor = grip->successor;
    grip->successor = NULL;
    if (successor == NULL)
        return;
    if (grip->withheld != 0) {
        memcpy(successor->replaces, grip->value, sizeof successor->replaces);
        successor->releasing = grip;
    }
    successor->swapped = 0;
    struct lease_step step = lease_acquire(&successor->lease, &scene->terms, scene->now);
    grip_take_step(successor, &step);
}

/* --- the steps of the lease --------------------------------------------------------------------------------------- */

static void grip_acquired(struct grip *grip)
{
    struct scene *scene = scene_of(grip);
    grip->is_held = true;
    grip->token = grip->lease.token;
    grip->was_handed_over = grip->releasing != NULL;
    scene->counters->handed_over += grip->was_handed_over;
    judge_acquired(grip);
    release_go_on(grip, true);
    seat_locked(grip->seat);
}

static enum flow_refusal refusal_of(enum lease_refusal refusal)
{
    return refusal == LEASE_BUSY ? FLOW_BUSY : refusal == LEASE_NO_QUORUM ? FLOW_NO_QUORUM : FLOW_UNDECIDED;
}

static void grip_refused(struct grip *grip, enum lease_refusal refusal)
{
    bool was_heir = grip->seat != NULL && grip->seat->is_heir;
    if (refusal == LEASE_NO_QUORUM || refusal == LEASE_TOO_SLOW)
        scene_of(grip)->is_undecided[grip->resource] = true;
    if (grip->lease.may_obstruct || was_heir)
        staff_doubt(grip->crew, grip->resource);
    if (grip->seat != NULL)
        seat_refused(grip->seat, refusal_of(refusal));
    successor_begin(grip);
}

static void grip_released(struct grip *grip, enum lease_ending ending)
{
    struct scene *scene = scene_of(grip);
    /* Nobody knows when it will be free, and the ttl is what ends it. */
    scene->is_undecided[grip->resource] = scene->is_undecided[grip->resource] || ending == LEASE_ENDED_UNKNOWN;
    bool is_late = instant_since(grip->let_go_at, scene->now) > LATE_NS;
    scene->counters->slow_releases += is_late;
    if (grip->frees_again && ending == LEASE_ENDED_UNKNOWN)
        staff_doubt(grip->crew, grip->resource);
    if (!is_late || !grip->frees_again || scene->bug == BUG_NEVER_FREES_AGAIN)
        return;
    scene->counters->freed_again++;
    call_free(grip->crew, grip->resource, NULL, false);
}

static void grip_tell(struct grip *grip, const struct lease_step *step)
{
    switch (step->news) {
    case LEASE_NEWS_ACQUIRED:
        grip_acquired(grip);
        return;
    case LEASE_NEWS_REFUSED:
        grip_refused(grip, step->refusal);
        return;
    case LEASE_NEWS_LOST:
        if (grip->seat != NULL)
            seat_lost(grip->seat);
        return;
    case LEASE_NEWS_RELEASED:
        grip_released(grip, step->ending);
        return;
    default:
        return;
    }
}

static void for_nodes(struct grip *grip, node_set nodes, void (*send)(struct grip *grip, unsigned node))
{
    for (unsigned i = 0; i < LOCK_NODES; i++)
        if ((unsigned)nodes >> i & 1u)
            send(grip, i);
}

static void grip_take_step(struct grip *grip, const struct lease_step *step)
{
    struct scene *scene = scene_of(grip);
    uint32_t round = grip->lease.round;
    if (step->abandon)
        release_send(grip, step->abandon, 0);
    if (step->abandon || step->news == LEASE_NEWS_REFUSED)
        release_go_on(grip, false);
    if (step->grant)
        pass_begin(grip, step->grant);
    for_nodes(grip, step->raise, raise_send);
    for_nodes(grip, step->extend, extension_send);
    if (step->release && grip->successor != NULL && grip->is_held)
        grip->withheld = step->release;
    else if (step->release)
        release_send(grip, step->release, round);
    struct instant next = lease_next(&grip->lease, &scene->terms);
    if (next.ns == INSTANT_NEVER.ns)
        heap_remove(&scene->heap, &grip->timer.item);
    else
        heap_set(&scene->heap, &grip->timer.item, next.ns < scene->now.ns ? scene->now : next);
    grip_tell(grip, step);
}

static void grip_timer(struct event *event)
{
    struct grip *grip = list_owner(event, struct grip, timer);
    struct scene *scene = scene_of(grip);
    struct lease_step step = lease_tick(&grip->lease, &scene->terms, scene->now);
    grip_take_step(grip, &step);
}

/* --- what seats do ------------------------------------------------------------------------------------------------ */

struct grip *grip_acquire(struct seat *seat, unsigned resource, bool waits_here)
{
    struct scene *scene = seat->crew->scene;
    struct grip *grip = memory_new(struct grip);
    struct grip *holder = waits_here ? seat->mate->grip : NULL;
    grip->crew = seat->crew;
    grip->seat = seat;
    seat->grip = grip;
    grip->resource = resource;
    grip->timer.happens = grip_timer;
    grip->timer.crew = seat->crew;
    lease_init(&grip->lease, (uint32_t)chance_next(&scene->chance));
    list_append(&seat->crew->grips, &grip->link);
    if (holder != NULL && holder->is_held && holder->lease.state == LEASE_HELD) {
        holder->successor = grip;
        return grip;
    }
    struct lease_step step = lease_acquire(&grip->lease, &scene->terms, scene->now);
    grip_take_step(grip, &step);
    return grip;
}

bool grip_is_valid(const struct grip *grip)
{
    struct scene *scene = scene_of(grip);
    return grip->is_held && instant_before(scene->now, lease_believed_until(&grip->lease, &scene->terms));
}

void grip_let_go(struct grip *grip, bool frees_again)
{
    struct scene *scene = scene_of(grip);
    grip->seat = NULL;
    grip->let_go_at = scene->now;
    grip->frees_again = frees_again && grip->is_held;
    judge_let_go(grip);
    if (grip->lease.state == LEASE_LOST || grip->lease.state == LEASE_HELD) {
        struct lease_step step = lease_release(&grip->lease, &scene->terms, scene->now);
        grip_take_step(grip, &step);
    }
    successor_begin(grip);
}

void grips_forget(struct staff *crew)
{
    for (struct list *link; (link = list_take_first(&crew->grips)) != NULL;) {
        struct grip *grip = list_owner(link, struct grip, link);
        heap_remove(&crew->scene->heap, &grip->timer.item);
        judge_let_go(grip);
        free(grip);
    }
}
