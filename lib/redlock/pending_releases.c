/* Releases that a node must still get.
 *
 * A grant whose connection broke may have been executed; so may the release behind it, or not. The node that missed
 * a release would refuse the resource to everybody until the ttl has passed, so the encoded call is kept and sent
 * again when the node is back (E18), or a moment later when it was refused for a passing reason (E40: bounded retries
 * on errors). A server may still execute what it received on the old connection after what comes on the new one, so
 * a call that did not find everything is repeated once, a moment later (E2). Comparing values makes a repetition
 * harmless (E41). It is dropped once the keys have expired by
 * themselves, and when a node owes too much: then the ttl does the work. */
#include "redlock/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define OWED_BYTES_MAX (1 << 20)
#define OWED_RETRY_NS  (100 * NS_PER_MS)

struct owed_release {
    struct list link;
    struct group_node *node;
    struct buffer request;
    struct instant until;
    enum owed_when when;
    bool was_executed;
    struct redis_call call;
};

static void owed_forget(struct owed_release *owed)
{
    redis_call_cancel(&owed->call);
    list_remove(&owed->link);
    owed->node->owed_bytes -= owed->request.length;
    buffer_fini(&owed->request);
    free(owed);
}

static void owed_timer_arm(struct redlock_group *group)
{
    if (!loop_timer_is_set(&group->owed_timer))
        loop_timer_set(group->loop, &group->owed_timer, loop_after(group->loop, OWED_RETRY_NS));
}

static bool deleted_all(const struct redis_reply *reply)
{
    return reply->kind == REDIS_STRING && strspn(reply->bytes, "1") == reply->length;
}

static void owed_done(struct redis_call *call, const struct redis_result *result)
{
    struct owed_release *owed = list_owner(call, struct owed_release, call);
    node_counts_result(owed->node, result);
    if (result->outcome == REDIS_VALUE && (owed->was_executed || deleted_all(result->reply))) {
        owed_forget(owed);
        return;
    }
    owed->was_executed = result->outcome == REDIS_VALUE;
    bool is_connected = owed->was_executed || (result->outcome == REDIS_ERROR && result->error != REDIS_ERROR_DOWN);
    owed->when = is_connected ? OWED_SOON : OWED_AFTER_RECONNECT;
    owed_timer_arm(owed->node->group);
}

static void owed_send(struct owed_release *owed)
{
    struct group_node *node = owed->node;
    if (redis_call_is_outstanding(&owed->call))
        return;
    node->group->counters.owed++;
    if (!group_node_call(node, &owed->request, &owed->call))
        owed->when = OWED_AFTER_RECONNECT;
}

void owed_add(struct group_node *node, const struct buffer *request, struct instant until, enum owed_when when)
{
    if (node->owed_bytes + request->length > OWED_BYTES_MAX)
        return;
    struct owed_release *owed = memory_new(struct owed_release);
    list_init(&owed->link);
    owed->node = node;
    owed->until = until;
    owed->when = when;
    owed->call.done = owed_done;
    buffer_append(&owed->request, request->bytes, request->length);
    node->owed_bytes += request->length;
    list_append(&node->owed, &owed->link);
    owed_timer_arm(node->group);
}

static void owed_visit(struct group_node *node, bool reconnected)
{
    struct instant now = loop_now(node->group->loop);
    for (struct list *link = node->owed.next, *next = NULL; link != &node->owed; link = next) {
        struct owed_release *owed = list_owner(link, struct owed_release, link);
        next = link->next;
        if (instant_reached(now, owed->until))
            owed_forget(owed);
        else if (reconnected || owed->when == OWED_SOON)
            owed_send(owed);
    }
}

void owed_reconnected(struct group_node *node)
{
    owed_visit(node, true);
}

void owed_fire(struct loop_timer *timer)
{
    struct redlock_group *group = list_owner(timer, struct redlock_group, owed_timer);
    bool any = false;
    for (unsigned i = 0; i < group->node_count; i++) {
        owed_visit(&group->nodes[i], false);
        any = any || !list_is_empty(&group->nodes[i].owed);
    }
    if (any)
        owed_timer_arm(group);
}

void owed_dispose(struct group_node *node)
{
    while (!list_is_empty(&node->owed))
        owed_forget(list_owner(node->owed.next, struct owed_release, link));
}
