/* Real servers to lock over, and locks as tests see them: everything that happens to them is written down. */
#ifndef SUPPORT_LOCK_CLUSTER_H
#define SUPPORT_LOCK_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "redlock/marker.h"
#include "redlock/redlock_loop.h"
#include "tests/support/loop_until.h"
#include "tests/support/redis_server.h"

/* A node may take that long to answer: on a loaded machine servers are slow without being at fault. */
enum { CLUSTER_MAX = 5, CLUSTER_MAX_TTL_MS = 60000, CLUSTER_TIMEOUT_MS = 500 };

/* Servers that live as long as the test program; the options are what a group or a client over them wants. */
struct lock_cluster {
    unsigned count;
    struct redis_server *servers[CLUSTER_MAX];
    struct redlock_node nodes[CLUSTER_MAX];
    struct redlock_options options;
    int64_t max_ttl_ms; /* of the group that they are; 0 = none is made */
};

/* Three or more are made a lock group. */
void lock_cluster_start(struct lock_cluster *cluster, unsigned count);
/* With another longest ttl, and so other quarantines; 0: the servers stay strangers to each other. */
void lock_cluster_start_group(struct lock_cluster *cluster, unsigned count, int64_t max_ttl_ms);
void lock_cluster_stop(struct lock_cluster *cluster);
/* Every server runs, answers, and holds nothing but its marker in a new lock group; those that were killed are started
 * again. */
void lock_cluster_heal(struct lock_cluster *cluster);
/* As an operator who knows that no lock can be held: the server may vote at once, whatever it forgot. */
void lock_cluster_mark(struct lock_cluster *cluster, unsigned server);
/* All lock keys on the servers that run. */
unsigned lock_cluster_keys(struct lock_cluster *cluster);
/* The reply of one server; valid until the next call. */
const char *lock_cluster_ask(struct lock_cluster *cluster, unsigned server, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The fence of a lock on a server; valid until the next call. "(nil)" = none. */
const char *lock_cluster_fence(struct lock_cluster *cluster, unsigned server, const char *key);
/* Puts another one there. What no score can be becomes one that is no token; NULL = a list. */
void lock_cluster_fence_put(struct lock_cluster *cluster, unsigned server, const char *key, const char *text);
/* How many of the servers that run have the key. */
unsigned lock_cluster_holders(struct lock_cluster *cluster, const char *key);
/* Waits until every server has the key, as some get it after the majority that decided, and deletes it everywhere. A
 * minority that was too late never gets it. */
void lock_cluster_take_away(struct lock_cluster *cluster, const char *key);
/* How often all servers together have run commands of this name. */
unsigned lock_cluster_calls(struct lock_cluster *cluster, const char *command);

/* A group over them, every node of it tried. */
struct redlock_group *lock_cluster_group(struct lock_cluster *cluster, struct loop *loop);

/* Terms for tests: a short ttl, few tries, quick repetition. */
struct redlock_terms quick_terms(int64_t ttl_ms, unsigned tries);

struct lock_probe {
    struct loop *loop;
    struct redlock_lock *lock;
    unsigned answers, extended, dangers, losses, releases;
    enum redlock_answer answer;
    enum redlock_ending ending;
    unsigned attempts;
    int64_t waited_ns, remaining_ns;
    char holder[REDLOCK_OWNER_BYTES_MAX + 128]; /* when it was answered; "" = nobody said who */
    bool handed_over;
    enum redlock_loss loss;
    bool leaves_when_busy;
    bool waits_here, shared, comes_back;                                           /* what it requests */
    unsigned limit, seat;                                                          /* the same */
    char reason[384];                                                              /* of the last event that had one */
    void (*on_event)(struct lock_probe *probe, const struct redlock_event *event); /* may be NULL; runs last */
};

void lock_probe_create(struct lock_probe *probe, struct loop *loop, struct redlock_group *group,
                       const struct redlock_terms *terms);
void lock_probe_destroy(struct lock_probe *probe);
/* Requests the resources, whose names are separated by single spaces, and does not wait. */
void lock_probe_ask(struct lock_probe *probe, const char *resources);
/* Asks and runs the loop until there is an answer. */
enum redlock_answer lock_probe_acquire(struct lock_probe *probe, const char *resources);
/* Releases and runs the loop until that is over. */
enum redlock_ending lock_probe_release(struct lock_probe *probe);

#endif
