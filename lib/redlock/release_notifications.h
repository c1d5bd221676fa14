/* Hints between processes about when a lock may be free, over the lock nodes themselves (PUBLISH). A hint may be lost,
 * late, doubled or wrong; then a process asks the nodes later, or in vain.
 *
 *     struct notifications *notifications = notifications_create(loop, &options);
 *     notification_want_init(&want, heard);
 *     notifications_want(notifications, &want, key, key_length);
 *         ... heard(&want, NOTIFIED_FREE, listeners) after a release
 *     notifications_unwant(&want);
 *
 * A channel, `hf:free:GROUP:DATABASE:BUCKET`, serves many keys: the bucket is a number from 0 to 63 made of the key. It
 * carries two kinds of messages:
 *     hf:free:LISTENERS:KEY    the lock was released, and LISTENERS processes get this message (release.lua publishes
 *                              it on each node that had the lock, if a process is subscribed)
 *     hf:held:MILLISECONDS:KEY a waiter now has the lock, at least for so long unless it releases the lock
 * A bare KEY, which other programs may publish, means that it was released, too. No key begins with "hf:" but those of
 * places (limits.h).
 *
 * Where releases look for it, a process that listens keeps the key `hf:listeners` on each node: set on the connection
 * that will be subscribed, before it is, and renewed on the group's. So a release need not count the subscribers of
 * each channel.
 *
 * Connections exist only while a lock waits: the first want opens one to each node. A bucket is subscribed to with its
 * first want and unsubscribed from some seconds after its last. Half a minute after the last want of all, the
 * connections close. There is one connection per node and process, however many locks wait.
 *
 * Threads: the loop's. If the process dies, the nodes see the connections close. */
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

/* Exists while a process is subscribed to any channel: release_quiet.lua looks for it. */
#define NOTIFICATIONS_KEY "hf:listeners"

/* All messages about one release arrive within so long. */
#define NOTIFICATIONS_SERIES_NS (50 * NS_PER_MS)

enum { NOTIFICATIONS_CHANNEL_MAX = 64, NOTIFICATIONS_BUCKETS = 64 };

struct notifications;

enum notification_kind {
    NOTIFIED_FREE,  /* released: once a release, not once a node, but for `hears_each`. Detail: subscribed processes;
                       0 = unknown */
    NOTIFIED_ALONE, /* the same, later (with one node, instead): a majority says that no other process hears of it */
    NOTIFIED_HELD,  /* another process has it. Detail: nanoseconds */
    NOTIFIED_LIVE,  /* from now on releases arrive: subscribed to a majority of the nodes */
    NOTIFIED_DEAF,  /* not any more */
};

/* Interest in one key. Private; zeroed by notification_want_init. */
struct notification_want {
    void (*heard)(struct notification_want *want, enum notification_kind kind, int64_t detail);
    struct notifications *notifications; /* NULL: wants nothing */
    struct list link;                    /* in its bucket */
    unsigned bucket;
    const char *key;
    size_t length;
    uint64_t hash;
    bool hears_each;                    /* of the caller, at any time: it waits for readers, and the last of them leaves
                                           each node at another time. So each node is heard */
    unsigned releases;                  /* of the series that began at `series_from` */
    uint16_t reported[LEASE_NODES_MAX]; /* how many of them each node has reported */
    node_set alone;                     /* these say of the last of them that only this process hears it */
    struct instant series_from;
    struct instant since; /* when notifications_want was called */
};

struct notifications_options {
    struct redis_node *const *nodes; /* the group's connections: ours copy their options, and hints go over them. They
                                        must outlive the notifications; the array need not */
    unsigned node_count;
    int64_t series_ns; /* after that any message is a new release */
};

struct notifications *notifications_create(struct loop *loop, const struct notifications_options *options);
/* notifications_unwant stays harmless for wants that are left. NULL is harmless. */
void notifications_destroy(struct notifications *notifications);
/* The name of the lock group, "-" before it is known: only processes with the same name notify each other. A new name
 * costs new subscriptions. */
void notifications_name_group(struct notifications *notifications, const char *group);

/* Whether to keep NOTIFICATIONS_KEY, from the next connection or renewal on; at first not. */
void notifications_keep_key(struct notifications *notifications, bool keeps_key);

static inline void notification_want_init(struct notification_want *want,
                                          void (*heard)(struct notification_want *want, enum notification_kind kind,
                                                        int64_t detail))
{
    *want = (struct notification_want){.heard = heard};
    list_init(&want->link);
}

/* The key must stay in place until notifications_unwant. `heard` runs on the loop, never from inside a call for this
 * want. It may want and unwant anything, but not destroy the notifications. */
void notifications_want(struct notifications *notifications, struct notification_want *want, const char *key,
                        size_t length);
/* Harmless if nothing is wanted. */
void notifications_unwant(struct notification_want *want);
/* Since when every release reaches this want; INSTANT_NEVER while one could be missed. */
struct instant notification_live_since(const struct notification_want *want);

/* Whether this process wanted a key of this bucket a short while ago: then other processes may listen, too. */
bool notifications_are_warm(const struct notifications *notifications, const char *key, size_t length);
/* The channel of a key, for the release script. */
void notifications_channel(const struct notifications *notifications, const char *key, size_t length,
                           char channel[NOTIFICATIONS_CHANNEL_MAX]);
/* The same for whoever has none: `has_database` if all nodes of the group have this one. Pure. */
void notifications_channel_of(const char *group, bool has_database, unsigned database, const char *key, size_t length,
                              char channel[NOTIFICATIONS_CHANNEL_MAX]);
/* Both send hints over the group's connections to these nodes and ignore the outcome. */
void notifications_say_free(struct notifications *notifications, node_set nodes, const char *key, size_t length);
void notifications_say_held(struct notifications *notifications, node_set nodes, const char *key, size_t length,
                            int64_t held_ns);

#endif
