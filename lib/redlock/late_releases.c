/* Releases that a node must still get.
 *
 * A grant whose connection broke may have been executed; the release behind it may have been, too. A node that missed
 * a release would refuse the resource to every process until the ttl has passed. So the encoded call is kept and sent
 * again when the node is back (E18), or a moment later if it was refused for a passing reason (E40: bounded retries
 * on errors). A server may still execute what it received on the old connection after what comes on the new one, so
 * a call that did not find everything is repeated once, a moment later (E2). Comparing values makes a repetition
 * harmless (E41). A call is dropped once the keys have expired, or if too many bytes wait for the node: then
 * the ttl does the work. */
#include "redlock/group_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define LATE_BYTES_MAX (1 << 20)
#define LATE_RETRY_NS  (100 * NS_PER_MS)

struct late_release {
    struct list link;
    struct group_node *node;
    struct buffer request;
    struct instant until;
    enum late_when when;
    bool was_executed;
    struct redis_call call;
};

static void late_release_forget(struct late_release *release)
{
    redis_call_cancel(&release->call);
    list_remove(&release->link);
    release->node->late_bytes -= release->request.length;
    buffer_fini(&release->request);
    free(release);
}

static void late_timer_arm(struct redlock_group *group)
{
    if (!loop_timer_is_set(&group->late_timer))
        loop_timer_set(group->loop, &group->late_timer, loop_after(group->loop, LATE_RETRY_NS));
}

static bool deleted_all(const struct redis_reply *reply)
{
    return reply->kind == REDIS_STRING && strspn(reply->bytes, "1") == reply->length;
}

static void late_release_done(struct redis_call *call, const struct redis_result *result)
{
    struct late_release *release = list_owner(call, struct late_release, call);
    node_counts_result(release->node, result);
    if (result->outcome == REDIS_VALUE && (release->was_executed || deleted_all(result->reply))) {
        late_release_forget(release);
        return;
    }
    release->was_executed = result->outcome == REDIS_VALUE;
    bool is_connected = release->was_executed || (result->outcome == REDIS_ERROR && result->error != REDIS_ERROR_DOWN);
    release->when = is_connected ? LATE_SOON : LATE_AFTER_RECONNECT;
    late_timer_arm(release->node->group);
}

static void late_release_send(struct late_release *release)
{
    struct group_node *node = release->node;
    if (redis_call_is_outstanding(&release->call))
        return;
    node->group->counters.owed++;
    if (!group_node_call(node, &release->request, &release->call))
        release->when = LATE_AFTER_RECONNECT;
}

void late_release_add(struct group_node *node, const struct buffer *request, struct instant until, enum late_when when)
{
    if (node->late_bytes + request->length > LATE_BYTES_MAX)
        return;
    struct late_release *release = memory_new(struct late_release);
    list_init(&release->link);
    release->node = node;
    release->until = until;
    release->when = when;
    release->call.done = late_release_done;
    buffer_append(&release->request, request->bytes, request->length);
    node->late_bytes += request->length;
    list_append(&node->late, &release->link);
    late_timer_arm(node->group);
}

static void late_release_visit(struct group_node *node, bool reconnected)
{
    struct instant now = loop_now(node->group->loop);
    for (struct list *link = node->late.next, *next = NULL; link != &node->late; link = next) {
        struct late_release *release = list_owner(link, struct late_release, link);
        next = link->next;
        if (instant_reached(now, release->until))
            late_release_forget(release);
        else if (reconnected || release->when == LATE_SOON)
            late_release_send(release);
    }
}

void late_release_reconnected(struct group_node *node)
{
    late_release_visit(node, true);
}

void late_release_fire(struct loop_timer *timer)
{
    struct redlock_group *group = list_owner(timer, struct redlock_group, late_timer);
    bool any = false;
    for (unsigned i = 0; i < group->node_count; i++) {
        late_release_visit(&group->nodes[i], false);
        any = any || !list_is_empty(&group->nodes[i].late);
    }
    if (any)
        late_timer_arm(group);
}

void late_release_dispose(struct group_node *node)
{
    while (!list_is_empty(&node->late))
        late_release_forget(list_owner(node->late.next, struct late_release, link));
}
