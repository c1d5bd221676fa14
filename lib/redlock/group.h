/* Private to lib/redlock: the parts of the driver that performs what lease.c and trust.c ask for.
 *
 *   group.c             N nodes and what the locks over them share
 *   inspection.c        which of them may vote
 *   lock.c              one lock: values, timers, what callers do and hear, what other threads see
 *   lock_wait.c         whose turn it is in this process, when the next attempt is worth its while, and the handing
 *                       over to the next lock of the process (local_waiters.c, release_notifications.c, swap.c)
 *   batch.c             many locks in one script call; batch_words.c: requests and answers
 *   pending_releases.c  releases that a node must still get when it comes back
 *   group_node.c        one node: patience, pace, calls
 *
 * Each file calls only those below it. What a lower file has to report goes up through take_step, tell_answer,
 * node_sampled and node_doubted of the group. client.c, the blocking client, uses the public header.
 *
 * Everything runs on the loop thread. In one turn of the loop releases leave first, then extensions, then grants
 * (group_send), so that a resource released and asked for again in the same turn is free when the grant arrives,
 * and a fresh attempt never meets the value of the attempt before it (E4). On one node all of them go through the same
 * connection, so a release can never overtake the grant that it undoes (E2).
 *
 * Locks are never given back to the allocator while their group lives: batches refer to them by (pointer, round), and
 * a round is never used twice, so a late answer finds a lock that ignores it. */
#ifndef REDLOCK_GROUP_H
#define REDLOCK_GROUP_H

#include "base/buffer.h"
#include "base/list.h"
#include "base/loop.h"
#include "redis/node.h"
#include "redlock/lease.h"
#include "redlock/redlock_loop.h"
#include "redlock/swap.h"
#include "redlock/trust.h"
#include "redlock/local_waiters.h"
#include "redlock/release_notifications.h"

enum { REFUSAL_BYTES_MAX = 192, REASON_BYTES_MAX = 384 };
enum { VALUE_RANDOM_BYTES = 16, VALUE_BYTES_MAX = 2 * VALUE_RANDOM_BYTES + 1 + REDLOCK_OWNER_BYTES_MAX };

/* A node that is silent for so long loses its connection; until then it may still execute what it was sent. */
#define GROUP_SILENCE_LIMIT_NS (10 * NS_PER_S)

struct group_node {
    struct redlock_group *group;
    unsigned index;
    struct redis_node *node;
    int64_t timeout_ns;
    bool told_behind; /* the log says that it does not answer */
    struct instant refusal_told;
    struct redis_call inspect_call, mark_call;
    struct instant inspected_at;     /* when it was last asked, in the time of the loop */
    struct instant inspection_asked; /* the same, exactly */
    struct list owed;                /* struct pending_release */
    size_t pending_bytes;
    struct redlock_node_counters counters;
};

/* In the order in which they leave at the end of a turn. */
enum batch_kind {
    BATCH_RELEASE,
    BATCH_LINGER,
    BATCH_EXTEND,
    BATCH_REPLANT,
    BATCH_RAISE,
    BATCH_GRANT,
    BATCH_GRANT_ALL, /* one lock of several keys */
    BATCH_KINDS,
};

struct redlock_group {
    struct loop *loop;
    /* What the lower files ask of the higher ones: of lock.c, and of inspection.c. Set by group.c. */
    void (*take_step)(struct redlock_lock *lock, struct lease_step step);
    void (*tell_answer)(struct redlock_lock *lock, enum redlock_answer answer);
    void (*node_sampled)(struct group_node *node, struct instant asked, struct instant answered, int64_t node_us);
    void (*node_doubted)(struct group_node *node);
    unsigned node_count;
    struct group_node nodes[REDLOCK_NODES_MAX];
    char *key_prefix;
    size_t key_prefix_length;
    int64_t slowest_timeout_ns, fence_ttl_ns;
    double drift_factor;
    int64_t attempt_ns; /* how long attempts that were refused have taken lately */
    bool is_guest;      /* markers are for others to write */
    struct trust trust;
    struct loop_timer trust_timer;
    bool is_trust_told; /* changes of it are news from now on */
    struct local_waiters *local_waiters;
    struct notifications *notifications;
    struct redlock_lock *leaving;          /* whose turn is being handed on */
    struct buffer request;                 /* where what is sent once is encoded */
    struct batch *gathering[BATCH_KINDS];  /* NULL when nothing gathered in this turn */
    struct list full_batches[BATCH_KINDS]; /* of this turn, in the order in which they leave, before those */
    struct list batches;                   /* all that were ever made */
    struct list idle_batches;              /* finished ones, to be used again */
    struct list locks;                     /* all that were ever created */
    struct list idle_locks;                /* destroyed ones, to be used again */
    struct list swaps, idle_swaps;         /* struct lock_swap */
    struct list granting;                  /* locks whose grants leave at the end of this turn */
    struct loop_hook send;
    struct instant granted_in;    /* the turn in which grants left last */
    struct loop_timer pace_timer; /* set while grants are held back */
    struct loop_timer pending_timer;
    unsigned locks_in_use, batches_in_flight;
    char refusal[REFUSAL_BYTES_MAX]; /* which node refused a request last, and why */
    struct instant clash_told;
    char reason[REASON_BYTES_MAX]; /* of the event that is being told */
    struct redlock_counters counters;
    struct histogram extensions;
};

/* Of a lock that is being acquired. See lock_wait.c. */
struct lock_wait {
    struct local_waiter claim;
    struct local_key keys[REDLOCK_RESOURCES_MAX];
    struct lock_want *wants; /* one a key; NULL until it had to wait for another process */
    unsigned want_count;
    struct loop_timer timer;   /* starts_at or give_up_at */
    int64_t limit_ns;          /* of the terms; 0: tries count */
    int64_t local_limit_ns;    /* how long it waits for others of this process, if tries count */
    struct instant give_up_at; /* INSTANT_NEVER: the tries end it */
    struct instant starts_at;  /* queued, and has its turn: when its first attempt begins */
    struct instant freed_at;   /* when a release was heard last */
    struct instant row_began;  /* since when this process has had the resource, or asked for it, without a break */
    unsigned row_most;         /* of the terms: so often it may be handed over, */
    int64_t row_limit_ns;      /* and for so long */
    uint32_t planned_round;    /* of the lease, when it was decided how long to wait */
    unsigned polls;            /* waits in a row that only time ends */
    bool is_queued;            /* asked for, and its lease not yet: waits for its turn or for starts_at */
    bool is_long;              /* waits for a wake, or for the ttl of the holder */
    bool is_silent;            /* took its turn over from another of this process, and no other process was told */
    bool is_quiet;             /* what is being released is not worth a hint */
    bool waits_here;           /* of the request: for others of this process without limit */
    bool leaves_when_busy;     /* of the request: one refusal by a holder is the last */
};

struct lock_swap;
struct redlock_lock {
    struct lease lease;
    struct lease_terms terms;
    struct lock_wait wait;
    struct redlock_group *group;
    struct lock_swap *swaps_in;    /* its first attempt takes over what another one held, and is not decided */
    struct lock_swap *swapped_out; /* what it holds is taken over; between that and its release */
    struct list link;              /* in group->locks */
    struct list idle_link;         /* in group->idle_locks */
    struct list granting_link;     /* in group->granting */
    struct loop_timer timer;
    struct redlock_validity validity;
    struct redlock_validity *elsewhere; /* where it is written, too; NULL = nowhere */
    void (*event)(struct redlock_lock *lock, void *context, const struct redlock_event *event); /* NULL: destroyed */
    void *context;
    struct instant asked_at, acquired_at;
    unsigned attempts;
    int64_t linger_ns;                        /* what is being released stays for so long; 0 = not */
    bool was_handed_over;                     /* in the attempt that won */
    bool was_refused;                         /* in this attempt: a node answered with an error */
    bool clashes;                             /* in this attempt: something that is no lock is under a key */
    char holder[REDLOCK_OWNER_BYTES_MAX + 1]; /* who refused in this attempt, "" = not told */
    unsigned refused_key;                     /* which of its keys was taken, by its place */
    int64_t remaining_ns;                     /* the longest that a node told in this attempt; 0 = not told */
    struct instant told_at;
    struct list verifies; /* struct redlock_verify */
    struct buffer keys;   /* all keys one after the other, prefix included */
    uint16_t key_ends[REDLOCK_RESOURCES_MAX];
    unsigned key_count;
    char owner[REDLOCK_OWNER_BYTES_MAX + 1];
    char value[VALUE_BYTES_MAX];
    size_t value_length;
};

/* A held lock goes to the next one of the same process (swap.h): all that is needed to undo the old value. Both locks
 * may be released, destroyed and used for something else before the last node has answered. It ends when the attempt is
 * decided and the grants are answered. */
struct lock_swap {
    struct list link; /* in group->swaps or group->idle_swaps */
    struct redlock_group *group;
    struct swap swap;
    struct redlock_lock *before; /* votes for its release are those of before_round */
    uint32_t before_round;
    struct redlock_lock *next; /* NULL once its attempt is decided */
    bool is_sent;              /* a batch refers to it */
    int64_t ttl_ns;            /* of the old value */
    struct buffer keys;
    uint16_t key_ends[REDLOCK_RESOURCES_MAX];
    unsigned key_count;
    char value[VALUE_BYTES_MAX];
    size_t value_length;
};

struct key_span {
    const char *bytes;
    size_t length;
};

static inline struct key_span lock_key(const struct redlock_lock *lock, unsigned index)
{
    size_t start = index == 0 ? 0 : lock->key_ends[index - 1];
    return (struct key_span){lock->keys.bytes + start, lock->key_ends[index] - start};
}

/* group_node.c. How long an answer of the node, and of the slowest, is waited for now. */
int64_t group_node_patience_ns(const struct group_node *node);
int64_t group_patience_ns(const struct redlock_group *group);
/* Whether a grant sent to the node now is of any use. Logs when that changes. */
bool group_node_takes_grants(struct group_node *node);
/* Whether grants stay here until a busy node has caught up. */
bool group_must_wait(const struct redlock_group *group);
/* True when the node itself answered with an error, which is then logged, and kept in group->refusal. */
bool group_node_refused(struct group_node *node, const struct redis_result *result);
/* True when it was sent: it is answered, or has failed, within group_node_patience_ns. */
bool group_node_call(struct group_node *node, const struct buffer *request, struct redis_call *call) MUST_CHECK;
void node_counts_result(struct group_node *node, const struct redis_result *result);
/* An attempt failed because nobody can have a majority; these had granted to it. */
void node_counts_split(struct redlock_group *group, node_set granted);

/* pending_releases.c: `request` is a release script call that must still run on the node, until its keys expire. */
enum pending_when { PENDING_SOON, PENDING_AFTER_RECONNECT };
void pending_release_add(struct group_node *node, const struct buffer *request, struct instant until,
                         enum pending_when when);
void pending_release_reconnected(struct group_node *node);
void pending_release_fire(struct loop_timer *timer);
void pending_release_dispose(struct group_node *node);

/* batch_words.c: another lock of this process asks for the key at once, or has done so by now. */
bool lock_is_taken_over(const struct redlock_lock *lock, unsigned index);

/* batch.c */
enum { BATCH_NO_VOTE = 0 }; /* round of a release whose outcome nobody waits for; leases never use round 0 */
void batch_add(enum batch_kind kind, struct redlock_lock *lock, uint32_t round, node_set nodes);
/* Releases the old value of a swap; at `unsure` of the nodes it may have been replaced. `failed`: the lock that did not
 * get it, else NULL. */
void batch_add_swapped(struct lock_swap *swap, node_set nodes, node_set unsure, const struct redlock_lock *failed);
/* Once the attempt is decided and the grants are answered. */
void lock_swap_end_if_over(struct lock_swap *swap);
void batches_flush(struct redlock_group *group); /* all but grants */
void batches_flush_grants(struct redlock_group *group);
void batches_dispose(struct redlock_group *group);

/* lock_wait.c */
enum { REFUSED_KEY_UNKNOWN = REDLOCK_RESOURCES_MAX };
void lock_wait_init(struct redlock_lock *lock);
void lock_wait_take_terms(struct redlock_lock *lock, const struct redlock_terms *terms);
void lock_wait_dispose(struct redlock_lock *lock);
/* Begins with the keys that the lock has: asks the nodes as soon as it is its turn. */
void lock_wait_begin(struct redlock_lock *lock);
/* An attempt was refused, and another will follow: decides when. */
void lock_wait_plan(struct redlock_lock *lock);
void lock_wait_won(struct redlock_lock *lock);
/* It is given up, and its keys stay for linger_ns: the others wait so long. */
void lock_wait_lingers(struct redlock_lock *lock);
/* It is free again, or on the way there: whoever is next in this process has its turn. Before its releases gather. */
void lock_wait_end(struct redlock_lock *lock);
void lock_timer_follow(struct redlock_lock *lock);
/* A held lock goes on without being free in between. The lease of `lock` wants it released at these nodes: false when
 * nobody takes it over. */
bool lock_swap_holds_back(struct redlock_lock *lock, node_set nodes);
/* After each step of a lock that takes over: its attempt may be decided. */
void lock_swap_follow(struct redlock_lock *next);
void lock_swaps_dispose(struct redlock_group *group);

/* lock.c: performs what a step of the lease asks for. */
void lock_take_step(struct redlock_lock *lock, struct lease_step step);
void lock_grants_gather(struct redlock_lock *lock);
void lock_dispose(struct redlock_lock *lock);
/* The answer to a request that no node was asked about. */
void lock_tell_answer(struct redlock_lock *lock, enum redlock_answer answer);
/* Ends all that wait or ask, with CANCELLED. */
void lock_waits_cancel(struct redlock_group *group);

#endif
