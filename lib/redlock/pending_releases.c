/* Releases that a node must still get.
 *
 * A grant whose connection broke may have been executed; the release behind it may have been, too. A node that missed
 * a release would refuse the resource to every process until the ttl has passed. So the encoded call is kept and sent
 * again when the node is back (E18), or a moment later if it was refused for a passing reason (E40: bounded retries
 * on errors). A server may still execute what it received on the old connection after what comes on the new one, so
 * a call that did not find everything is repeated once, a moment later (E2). Comparing values makes a repetition
 * harmless (E41). A call is dropped once the keys have expired, or if too many bytes are pending for the node: then
 * the ttl does the work. */
#include "redlock/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define PENDING_BYTES_MAX (1 << 20)
#define PENDING_RETRY_NS  (100 * NS_PER_MS)

struct pending_release {
    struct list link;
    struct group_node *node;
    struct buffer request;
    struct instant until;
    enum pending_when when;
    bool was_executed;
    struct redis_call call;
};

static void pending_release_forget(struct pending_release *release)
{
    redis_call_cancel(&release->call);
    list_remove(&release->link);
    release->node->pending_bytes -= release->request.length;
    buffer_fini(&release->request);
    free(release);
}

static void pending_timer_arm(struct redlock_group *group)
{
    if (!loop_timer_is_set(&group->pending_timer))
        loop_timer_set(group->loop, &group->pending_timer, loop_after(group->loop, PENDING_RETRY_NS));
}

static bool deleted_all(const struct redis_reply *reply)
{
    return reply->kind == REDIS_STRING && strspn(reply->bytes, "1") == reply->length;
}

static void pending_release_done(struct redis_call *call, const struct redis_result *result)
{
    struct pending_release *release = list_owner(call, struct pending_release, call);
    node_counts_result(release->node, result);
    if (result->outcome == REDIS_VALUE && (release->was_executed || deleted_all(result->reply))) {
        pending_release_forget(release);
        return;
    }
    release->was_executed = result->outcome == REDIS_VALUE;
    bool is_connected = release->was_executed || (result->outcome == REDIS_ERROR && result->error != REDIS_ERROR_DOWN);
    release->when = is_connected ? PENDING_SOON : PENDING_AFTER_RECONNECT;
    pending_timer_arm(release->node->group);
}

static void pending_release_send(struct pending_release *release)
{
    struct group_node *node = release->node;
    if (redis_call_is_outstanding(&release->call))
        return;
    node->group->counters.owed++;
    if (!group_node_call(node, &release->request, &release->call))
        release->when = PENDING_AFTER_RECONNECT;
}

void pending_release_add(struct group_node *node, const struct buffer *request, struct instant until,
                         enum pending_when when)
{
    if (node->pending_bytes + request->length > PENDING_BYTES_MAX)
        return;
    struct pending_release *release = memory_new(struct pending_release);
    list_init(&release->link);
    release->node = node;
    release->until = until;
    release->when = when;
    release->call.done = pending_release_done;
    buffer_append(&release->request, request->bytes, request->length);
    node->pending_bytes += request->length;
    list_append(&node->pending, &release->link);
    pending_timer_arm(node->group);
}

static void pending_release_visit(struct group_node *node, bool reconnected)
{
    struct instant now = loop_now(node->group->loop);
    for (struct list *link = node->pending.next, *next = NULL; link != &node->pending; link = next) {
        struct pending_release *release = list_owner(link, struct pending_release, link);
        next = link->next;
        if (instant_reached(now, release->until))
            pending_release_forget(release);
        else if (reconnected || release->when == PENDING_SOON)
            pending_release_send(release);
    }
}

void pending_release_reconnected(struct group_node *node)
{
    pending_release_visit(node, true);
}

void pending_release_fire(struct loop_timer *timer)
{
    struct redlock_group *group = list_owner(timer, struct redlock_group, pending_timer);
    bool any = false;
    for (unsigned i = 0; i < group->node_count; i++) {
        pending_release_visit(&group->nodes[i], false);
        any = any || !list_is_empty(&group->nodes[i].pending);
    }
    if (any)
        pending_timer_arm(group);
}

void pending_release_dispose(struct group_node *node)
{
    while (!list_is_empty(&node->pending))
        pending_release_forget(list_owner(node->pending.next, struct pending_release, link));
}
