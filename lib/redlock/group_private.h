/* Private to lib/redlock: the parts of the driver that performs what lease.c and trust.c ask for.
 *
 *   group.c             N nodes and what the locks over them share
 *   inspection.c        which of them may vote
 *   lock.c              one lock: values, timers, the callers' requests and events, what other threads see
 *   lock_wait.c         whose turn it is in this process, when the next attempt is worthwhile, and the hand-over to
 *                       the next lock of the process (local_waiters.c, release_notifications.c, swap.c), or the
 *                       turn of clients of other kinds (other_clients.c)
 *   lock_seats.c        the seats of a resource that several may hold (seats.h)
 *   batch.c             many locks in one script call; batch_codec.c: requests and answers
 *   late_releases.c     releases that a node must still get when it comes back
 *   group_node.c        one node: patience, pace, calls
 *
 * Each file calls only those below it. A lower file reports to a higher one through take_step, tell_answer,
 * node_sampled and node_doubted of the group. client.c, the blocking client, uses the public header;
 * mutex.c, with the rule of reentry.c, is a layer over it.
 *
 * Everything runs on the loop thread. In one cycle of the loop releases leave first, then extensions, then grants
 * (group_send), so that a resource released and asked for again in the same cycle is free when the grant arrives,
 * and a fresh attempt never meets the value of the attempt before it (E4). On one node all of them go through the same
 * connection, so a release can never overtake the grant that it undoes (E2).
 *
 * Who goes first. Of the locks of this process that want a key, one has its turn, and the others wait behind it
 * (local_waiters.h). Only that one asks the nodes, and readers do, who wait behind nobody. If it is refused and asks
 * again, it may leave an intent on all nodes (scripts/intent.lua), which keeps its turn from other processes:
 *
 *   of one key, or of a seat       new readers are refused, if readers are in its way
 *   of several keys ("+")          all others are refused: it needs them free at one moment
 *   of readers of several keys,    all but readers are refused, for the same reason. They ask again within a second,
 *   or of all seats ("*")          because they hear of no seat but the first
 *
 * Of two with a sign the older goes first, on every node. An intent is withdrawn by a lock that gives up, and when it
 * is released. Otherwise it ends REDLOCK_TURN_NS after the ttl, as it was when the lock asked last, of the last of its
 * keys. So a process that dies or stands still costs the others that, once: at most 60.2 s, and for "*" at least 1.2.
 * Clients of other libraries leave no intent; they are given time (other_clients.h).
 *
 * The allocator never gets a lock back while its group lives: batches refer to locks by (pointer, round), and
 * a round is never used twice, so a late answer finds a lock that ignores it. */
#ifndef REDLOCK_GROUP_PRIVATE_H
#define REDLOCK_GROUP_PRIVATE_H

#include "base/buffer.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/loop.h"
#include "redis/node.h"
#include "redlock/lease.h"
#include "redlock/local_waiters.h"
#include "redlock/other_clients.h"
#include "redlock/redlock_loop.h"
#include "redlock/release_notifications.h"
#include "redlock/seats.h"
#include "redlock/swap.h"
#include "redlock/trust.h"

enum { REFUSAL_BYTES_MAX = 192, REASON_BYTES_MAX = 384 };
/* Fences between two calls that trim the set of a node. Each may drop twice as many as may have come, so that several
 * clients, and one after an upgrade, get ahead. */
enum { TRIM_INTERVAL = 64 };
enum { VALUE_RANDOM_BYTES = 16, VALUE_BYTES_MAX = 2 * VALUE_RANDOM_BYTES + 1 + REDLOCK_OWNER_BYTES_MAX };

/* A node that is silent for this long loses its connection. Until then it may still execute what it was sent. */
#define GROUP_SILENCE_LIMIT_NS (10 * NS_PER_S)
/* After a release that a process listened to, releases announce themselves for so long. */
#define GROUP_HEARD_NS (60 * NS_PER_S)

struct group_node {
    struct redlock_group *group;
    unsigned index;
    struct redis_node *node;
    int64_t timeout_ns;
    bool told_behind; /* the log says that it does not answer */
    struct instant refusal_told;
    struct redis_call inspect_call, mark_call;
    struct instant inspected_at;     /* when it was last asked, in loop time */
    struct instant inspection_asked; /* the same, exactly */
    struct list late;                /* struct late_release */
    size_t late_bytes;
    unsigned grants_since_trim; /* that may have put fences into its set; begins by chance, or clients that grant few
                                   locks would never trim it */
    struct redlock_node_counters counters;
};

/* In the order in which they leave at the end of a cycle. */
enum batch_kind {
    BATCH_INTENT, /* of one lock; a release may withdraw it */
    BATCH_RELEASE,
    BATCH_LINGER,
    BATCH_EXTEND,
    BATCH_REPLANT,
    BATCH_RAISE,
    BATCH_GRANT,
    BATCH_GRANT_ALL, /* one lock of several keys, or a shared one, or a seat behind the first */
    BATCH_KINDS,
};

/* What a key holds while it has readers; and what refuses new readers while a writer waits (scripts/readers.lua). */
#define READERS_VALUE "hf:shared"
#define INTENT_VALUE  "hf:writer"

struct redlock_group {
    struct loop *loop;
    /* Calls from the lower files to lock.c and inspection.c. Set by group.c. */
    void (*take_step)(struct redlock_lock *lock, struct lease_step step);
    void (*tell_answer)(struct redlock_lock *lock, enum redlock_answer answer);
    void (*node_sampled)(struct group_node *node, struct instant asked, struct instant answered, int64_t node_us);
    void (*node_doubted)(struct group_node *node);
    unsigned node_count;
    struct group_node nodes[REDLOCK_NODES_MAX];
    char *key_prefix;
    size_t key_prefix_length;
    int64_t slowest_timeout_ns;
    struct instant patience_at; /* when group_patience_ns was found last: many locks of a cycle read it */
    int64_t patience_ns;
    int64_t fences_max; /* entries of the set of a node */
    double drift_factor;
    int64_t attempt_ns;         /* how long refused attempts have taken lately (backoff.h); 0 = there was none */
    struct instant heard_until; /* a process listened to releases lately */
    bool is_guest;              /* other processes write the markers */
    char node_id[MARKER_GROUP_DIGITS + 1]; /* of the only node, at its last inspection; "" = none */
    struct trust trust;
    struct loop_timer trust_timer;
    bool is_trust_told;      /* changes of it are news from now on */
    struct instant ready_at; /* though not every node was tried; 0 = no majority has voted yet */
    struct local_waiters *local_waiters;
    struct notifications *notifications;
    struct seats_seen *seats_seen; /* NULL until the first request of a resource with a limit */
    struct other_clients others;
    struct redlock_lock *leaving;            /* whose turn is being handed on */
    struct buffer request;                   /* scratch for requests that are sent once */
    struct batch *gathering[BATCH_KINDS][2]; /* of exclusive and of shared locks; NULL: nothing in this cycle */
    struct list full_batches[BATCH_KINDS];   /* of this cycle, in the order in which they leave, before those */
    struct list batches;                     /* all that were ever made */
    struct list idle_batches;                /* finished ones, to be used again */
    struct list locks;                       /* all that were ever created */
    struct list idle_locks;                  /* destroyed ones, to be used again */
    struct list swaps, idle_swaps;           /* struct lock_swap */
    struct list granting;                    /* locks whose grants leave at the end of this cycle */
    struct loop_hook send;
    struct instant granted_in;    /* the cycle in which grants left last */
    struct loop_timer pace_timer; /* set while grants are held back */
    struct loop_timer late_timer;
    unsigned locks_in_use, batches_in_flight;
    char refusal[REFUSAL_BYTES_MAX]; /* which node refused a request last, and why */
    struct instant clash_told;
    char reason[REASON_BYTES_MAX]; /* of the event being reported */
    struct redlock_counters counters;
    struct histogram extensions;
};

/* The waiting state of a lock that is being acquired. See lock_wait.c. */
struct lock_wait {
    struct local_waiter claim;
    struct local_key keys[REDLOCK_RESOURCES_MAX];
    struct lock_want *wants; /* one a key; NULL until it had to wait for another process */
    unsigned want_count;
    unsigned tries;            /* of the terms, whatever the limit of the resource */
    struct loop_timer timer;   /* starts_at or give_up_at */
    int64_t limit_ns;          /* of the terms; 0: tries count */
    int64_t local_limit_ns;    /* how long it waits for other locks of this process, if tries count */
    struct instant give_up_at; /* INSTANT_NEVER: the tries end it */
    struct instant starts_at;  /* queued, and it has its turn: when its first attempt begins */
    struct instant freed_at;   /* when the last notice of a release arrived */
    struct instant row_began;  /* since when this process has held or requested the resource without a break */
    unsigned row_most;         /* of the terms: how often it may be handed over, */
    int64_t row_limit_ns;      /* and for how long */
    uint32_t planned_round;    /* of the lease, when it was decided how long to wait */
    unsigned polls;            /* waits in a row that only time ends */
    bool is_queued;            /* requested, but its lease has not started: waits for its turn or for starts_at */
    bool is_long;              /* waits for a wake, or for the ttl of the holder */
    bool is_silent;            /* took its turn over from a lock of this process, and no other process was notified */
    bool is_quiet;             /* its releases need no hint */
    bool has_waited;           /* for another lock, so what it wants was not free before */
    bool gives_way;            /* its release leaves the key to other clients */
    struct instant not_before; /* the key is left to other clients until then */
    bool waits_here;           /* of the request: for others of this process without limit */
    bool leaves_when_busy;     /* of the request: one refusal by a holder is the last */
    bool comes_back;           /* of the request */
};

/* Of a lock whose resource several may hold. It has the turn of one seat, at which it asks, or waits for a release;
 * if this process has all seats, it waits in a list of their resource for one of them. */
struct lock_seats {
    struct redlock_lock *lock;
    unsigned limit; /* 0: the present request has none */
    unsigned seat;  /* its key is the lock's */
    bool searches;  /* any seat will do */
    struct seat_pass pass;
    bool was_asked;            /* in this pass */
    struct instant pass_began; /* with its first attempt */
    struct instant free_at;    /* the earliest that was reported in this pass; INSTANT_NEVER = not known */
    unsigned next;             /* where to ask at once, after a refusal; 0 = nowhere */
    unsigned freed;            /* reported since the pass began; 0 = none */
    unsigned row;              /* how often in a row a seat passed from lock to lock of this process */
    struct local_waiter waiter;
    struct local_key waiting_key;
    struct buffer waiting_text, scratch;
    struct buffer keys; /* of all seats, while it listens for releases */
    uint16_t key_ends[REDLOCK_LIMIT_MAX + 1];
    uint64_t hash;
    char resource[REDLOCK_RESOURCE_BYTES_MAX + 1];
};

struct lock_swap;
struct redlock_lock {
    struct lease lease;
    struct lease_terms terms;
    struct lock_wait wait;
    struct lock_seats *seats; /* NULL until the first request with a limit */
    struct redlock_group *group;
    struct lock_swap *swaps_in;    /* its first attempt takes over what another lock held, and is undecided */
    struct lock_swap *swapped_out; /* what it holds is taken over; between that and its release */
    struct list link;              /* in group->locks */
    struct list idle_link;         /* in group->idle_locks */
    struct list granting_link;     /* in group->granting */
    struct loop_timer timer;
    struct redlock_validity validity;
    struct redlock_validity *elsewhere; /* a second place to write it to; NULL = none */
    void (*event)(struct redlock_lock *lock, void *context, const struct redlock_event *event); /* NULL: destroyed */
    void *context;
    struct instant asked_at, acquired_at;
    unsigned attempts;
    int64_t longer_ns; /* the ttl of the round of longer_from, until it won; 0 = usual */
    struct instant longer_from;
    int64_t linger_ns;                        /* how long its keys stay at the release; 0 = not at all */
    bool is_shared;                           /* of the request */
    bool was_handed_over;                     /* in the attempt that won */
    bool was_refused;                         /* in this attempt: a node answered with an error */
    bool clashes;                             /* in this attempt: something that is no lock is under a key */
    char holder[REDLOCK_OWNER_BYTES_MAX + 1]; /* the owner that refused in this attempt, "" = unknown */
    node_set others_at;                       /* a client of another kind refused in this attempt, */
    node_set readers_at;                      /* readers did */
    bool meets_seats;                         /* the same: a reader met the holder of a later seat */
    unsigned refused_key;                     /* index of the key that was taken */
    int64_t remaining_ns;                     /* the longest that a node reported in this attempt; 0 = unknown */
    struct instant told_at;
    struct list verifies; /* struct redlock_verify */
    struct buffer keys;   /* all keys one after the other, prefix included */
    uint16_t key_ends[REDLOCK_RESOURCES_MAX];
    unsigned key_count;
    char owner[REDLOCK_OWNER_BYTES_MAX + 1];
    size_t owner_length;
    char value[VALUE_BYTES_MAX];
    size_t value_length;
    char intent[VALUE_BYTES_MAX]; /* what keeps its turn at the nodes */
    size_t intent_length;         /* 0 = nothing was sent */
    bool keeps_all;               /* it keeps everybody out ("+") */
};

/* A held lock passes to the next one of the same process (swap.h): everything needed to undo the old value. Both locks
 * may be released, destroyed and reused before the last node has answered. The swap ends once the attempt is decided
 * and the grants are answered. */
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

/* Of the table of group->others. */
static inline uint64_t lock_key_hash(const struct redlock_lock *lock, unsigned index)
{
    struct key_span key = lock_key(lock, index);
    return hash_bytes(0, key.bytes, key.length);
}

static inline uint64_t lock_refused_key(const struct redlock_lock *lock)
{
    return lock_key_hash(lock, lock->refused_key < lock->key_count ? lock->refused_key : 0);
}

/* group_node.c. How long to wait for an answer of the node, and of the slowest node, now. */
int64_t group_node_patience_ns(const struct group_node *node);
int64_t group_patience_ns(struct redlock_group *group);
/* Whether a grant sent to the node now is useful. Logs when that changes. */
bool group_node_takes_grants(struct group_node *node);
/* Whether grants stay here until a busy node has caught up. */
bool group_must_wait(const struct redlock_group *group);
/* True when the node itself answered with an error, which is then logged, and kept in group->refusal. */
bool group_node_refused(struct group_node *node, const struct redis_result *result);
/* True if it was sent: it is answered, or has failed, within group_node_patience_ns. */
bool group_node_call(struct group_node *node, const struct buffer *request, struct redis_call *call) MUST_CHECK;
/* No process is known to listen to releases; one that did would have left NOTIFICATIONS_KEY. */
bool group_is_unheard(const struct redlock_group *group);
/* Up to `fences` may be new in its set: now and then the node is asked to drop the lowest ones beyond the limit. */
void group_node_put_fences(struct group_node *node, unsigned fences);
void node_counts_result(struct group_node *node, const struct redis_result *result);
/* An attempt failed because no owner can have a majority; these nodes had granted to it. */
void node_counts_split(struct redlock_group *group, node_set granted);

/* late_releases.c: `request` is a release script call that must still run on the node, until its keys expire. */
enum late_when { LATE_SOON, LATE_AFTER_RECONNECT };
void late_release_add(struct group_node *node, const struct buffer *request, struct instant until, enum late_when when);
void late_release_reconnected(struct group_node *node);
void late_release_fire(struct loop_timer *timer);
void late_release_dispose(struct group_node *node);

/* batch_codec.c: another lock of this process asks for the key at once, or has already done so. */
bool lock_is_taken_over(const struct redlock_lock *lock, unsigned index);

/* batch.c */
enum { BATCH_NO_VOTE = 0 }; /* round of a release whose outcome nobody waits for; leases never use round 0 */
void batch_add(enum batch_kind kind, struct redlock_lock *lock, uint32_t round, node_set nodes);
/* Withdraws its intent at all nodes. `is_told`: readers that wait are to ask again. */
void batch_add_withdrawal(struct redlock_lock *lock, bool is_told);
/* Releases the old value of a swap; at the `unsure` nodes it may have been replaced. `failed`: the lock that did not
 * get it, else NULL. */
void batch_add_swapped(struct lock_swap *swap, node_set nodes, node_set unsure, const struct redlock_lock *failed);
/* Once the attempt is decided and the grants are answered. */
void lock_swap_end_if_over(struct lock_swap *swap);
void batches_flush(struct redlock_group *group); /* all but grants */
void batches_flush_grants(struct redlock_group *group);
void batches_dispose(struct redlock_group *group);

/* lock_seats.c. */
/* Takes limit and resource of the request, and the key of a seat. True when there were no seats before: their waiting
 * list has to be initialised. */
bool lock_seats_begin(struct redlock_lock *lock, const struct redlock_request *request);
/* The lock has no turn. */
void lock_seat_set(struct redlock_lock *lock, unsigned seat);
/* The lock of this process that has the turn of a seat; NULL = none. */
struct local_waiter *lock_seat_owner(const struct redlock_lock *lock, unsigned seat);
/* The first that waits for any seat of the resource behind one of the keys of a lock without a limit; NULL = none. */
struct local_waiter *lock_first_waiter(const struct redlock_lock *lock, unsigned index);
/* Valid until the next call with seat 1, which has to be the first call. */
struct key_span lock_seat_key(struct redlock_lock *lock, unsigned seat);
/* The key under which it keeps a turn: of a seat that of the resource, whose readers are in its way. Valid until the
 * next call. */
struct key_span lock_turn_key(const struct redlock_lock *lock, unsigned index);
void lock_seats_dispose(struct redlock_lock *lock);

static inline bool lock_has_limit(const struct redlock_lock *lock)
{
    return lock->seats != NULL && lock->seats->limit > 0;
}

/* Its key is not that of the resource. */
static inline bool lock_has_later_seat(const struct redlock_lock *lock)
{
    return lock_has_limit(lock) && lock->seats->seat > 1;
}

/* lock_wait.c */
void lock_wait_init_seats(struct redlock_lock *lock);
/* After a refusal: decides where else to ask at once, if the resource has several seats. Call it before the step is
 * performed. True: somewhere, which lock_wait_plan does. */
bool lock_wait_seeks(struct redlock_lock *lock, const struct lease_step *step);
enum { REFUSED_KEY_UNKNOWN = REDLOCK_RESOURCES_MAX };
void lock_wait_init(struct redlock_lock *lock);
void lock_wait_take_terms(struct redlock_lock *lock, const struct redlock_terms *terms);
void lock_wait_dispose(struct redlock_lock *lock);
/* Begins to acquire the keys of the lock: asks the nodes as soon as it is its turn. */
void lock_wait_begin(struct redlock_lock *lock);
/* An attempt was refused, and another will follow: decides when to start it. */
void lock_wait_plan(struct redlock_lock *lock);
/* It was refused and will ask again: leaves its intent, if it may starve otherwise. */
void lock_wait_keeps_turn(struct redlock_lock *lock);
void lock_wait_won(struct redlock_lock *lock);
/* The lock is given up, but its keys stay for linger_ns: the other locks wait for that long. */
void lock_wait_lingers(struct redlock_lock *lock);
/* The lock is free or about to be: the next lock of this process has its turn. Call it before the releases gather. */
void lock_wait_end(struct redlock_lock *lock);
void lock_timer_follow(struct redlock_lock *lock);
/* A client of another kind has a majority: when to look again; 0 = none has. */
int64_t lock_others_look_ns(const struct redlock_lock *lock);
/* A held lock passes on without becoming free in between. The lease of `lock` wants it released at these nodes: false
 * if no other lock takes it over. */
bool lock_swap_holds_back(struct redlock_lock *lock, node_set nodes);
/* Call it after each step of a lock that takes over: its attempt may be decided. */
void lock_swap_follow(struct redlock_lock *next);
void lock_swaps_dispose(struct redlock_group *group);

/* lock.c: performs a step of the lease. */
void lock_take_step(struct redlock_lock *lock, struct lease_step step);
void lock_grants_gather(struct redlock_lock *lock);
void lock_dispose(struct redlock_lock *lock);
/* Answers a request for which no node was asked. */
void lock_tell_answer(struct redlock_lock *lock, enum redlock_answer answer);
/* Ends all locks that wait or ask, with CANCELLED. */
void lock_waits_cancel(struct redlock_group *group);

#endif
