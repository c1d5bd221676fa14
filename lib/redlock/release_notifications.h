/* Hints between processes about when a lock may be free, over the lock nodes themselves (their PUBLISH). They are
 * nothing but hints: each may be lost, late, doubled or wrong, and then somebody asks the nodes later, or for nothing.
 *
 *     struct notifications *notifications = notifications_create(loop, &options);
 *     notification_want_init(&want, heard);
 *     notifications_want(notifications, &want, key, key_length);
 *         ... heard(&want, NOTIFIED_FREE, listeners) when somebody released it
 *     notifications_unwant(&want);
 *
 * A channel carries the news of many keys: `hf:free:GROUP:DATABASE:BUCKET`, where the bucket is a number of 0 to 63
 * that comes from the key. Two kinds of messages:
 *     hf:free:LISTENERS:KEY    its lock was released (said by release.lua, on each node that had it, if anybody
 *                              listens; so many processes hear it)
 *     hf:held:MILLISECONDS:KEY somebody who had waited for it has it now, for so long at least unless it is released
 * A bare KEY, as somebody else may say it, means that it was released, too.
 * No key begins with "hf:", so they cannot be mistaken for each other.
 *
 * Connections cost something only while somebody waits: the first want opens one to each node, a bucket is subscribed
 * to with its first want, unsubscribed from some seconds after its last one, and all is closed half a minute after the
 * last want of all. One connection a node and process, for however many wait.
 *
 * Threads: the loop's. If the process dies: the nodes see the connections close. */
#ifndef REDLOCK_RELEASE_NOTIFICATIONS_H
#define REDLOCK_RELEASE_NOTIFICATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/loop.h"
#include "redis/node.h"
#include "redlock/lease.h"

enum { NOTIFICATIONS_CHANNEL_MAX = 64, NOTIFICATIONS_BUCKETS = 64 };

struct notifications;

enum notification_kind {
    NOTIFIED_FREE, /* released: once a release, though each node says so. Detail: processes that hear it, 0: unknown */
    NOTIFIED_HELD, /* somebody has it. Detail: nanoseconds */
    NOTIFIED_LIVE, /* from now on a release is heard: a majority of the nodes is listened to. What was before was not */
    NOTIFIED_DEAF, /* no longer */
};

/* One who wants to hear of one key. Private but for notification_want_init. */
struct notification_want {
    void (*heard)(struct notification_want *want, enum notification_kind kind, int64_t detail);
    struct notifications *notifications; /* NULL: wants nothing */
    struct list link;                    /* in its bucket */
    unsigned bucket;
    const char *key;
    size_t length;
    uint64_t hash;
    unsigned releases;              /* of the series that began at `series_from` */
    uint16_t told[LEASE_NODES_MAX]; /* how many of them this node has spoken of */
    struct instant series_from;
    struct instant since; /* it began to want */
};

struct notifications_options {
    struct redis_node *const *nodes; /* the connections of the group: these options are used again, and hints are sent
                                        over them; they must outlive the notifications */
    unsigned node_count;
    int64_t linger_ns; /* how long a bucket stays subscribed to without wants; 0 = 5 s */
    int64_t close_ns;  /* how long connections stay without wants; 0 = 30 s */
    int64_t series_ns; /* after which whatever is heard is new; 0 = 50 ms */
};

struct notifications *notifications_create(struct loop *loop, const struct notifications_options *options);
/* Those who still want are forgotten: notifications_unwant stays harmless for them. NULL is harmless. */
void notifications_destroy(struct notifications *notifications);
/* The name of the lock group, "-" before it is known: who has another one hears nothing. Costs new subscriptions. */
void notifications_name_group(struct notifications *notifications, const char *group);

static inline void notification_want_init(struct notification_want *want,
                                          void (*heard)(struct notification_want *want, enum notification_kind kind,
                                                        int64_t detail))
{
    *want = (struct notification_want){.heard = heard};
    list_init(&want->link);
}

/* The key must stay where it is until notifications_unwant. `heard` runs on the loop, never from inside a call of this
 * want; it may want and unwant anything, but not destroy the notifications. */
void notifications_want(struct notifications *notifications, struct notification_want *want, const char *key,
                        size_t length);
/* Harmless when nothing is wanted. */
void notifications_unwant(struct notification_want *want);
/* Since when this want has been told of releases without a break; INSTANT_NEVER while it is not. */
struct instant notification_live_since(const struct notification_want *want);

/* Whether this process wanted a key of this bucket a short while ago: then others may listen as well. */
bool notifications_are_warm(const struct notifications *notifications, const char *key, size_t length);
/* The channel of a key, for the release script. */
void notifications_channel(const struct notifications *notifications, const char *key, size_t length,
                           char channel[NOTIFICATIONS_CHANNEL_MAX]);
/* Sends hints over the group's connections to these nodes; nobody waits for the outcome. */
void notifications_say_free(struct notifications *notifications, node_set nodes, const char *key, size_t length);
void notifications_say_held(struct notifications *notifications, node_set nodes, const char *key, size_t length,
                            int64_t held_ns);

#endif
