/* SPDX-License-Identifier: MIT */
/* redlock.h: a distributed lock over N independent Redis masters (the Redlock algorithm), with background extension.
 *
 * What it promises. While clocks run at roughly the right rate, at most one holder has a resource. A minority of the
 * nodes may be down, hang or answer nonsense without any effect. A holder whose lock cannot be extended learns it
 * before another one can have the lock, by the clock (CLOCK_BOOTTIME, which counts suspend), not by a message. What it
 * does not promise: a process that is stopped between "am I still the holder?" and its write may write late. Fencing
 * tokens close that gap: every hold has a token, a number larger than that of every earlier hold of the resource, even
 * if a pause or a clock breaks exclusion itself. A resource that keeps the largest token it has seen, and refuses
 * writes with a smaller one, is safe (docs/fencing.md).
 *
 * The lock on a node is the plain Redlock format (a string key, SET NX PX, deletion by compare), so any other Redlock
 * client excludes us and we exclude it. Key = key_prefix + resource. Value = 32 hexadecimal digits from the kernel's
 * generator, fresh for every attempt, then ":" and the owner text, so that GET on any node shows the holder.
 *
 * Two ways to use it. A program with threads of its own uses the blocking client below. Code that runs on a loop of
 * this project uses the asynchronous group (redlock_loop.h); the blocking client is a thin layer over it.
 *
 *     struct redlock_client *client = redlock_client_open(&options, reason, sizeof reason);
 *     struct redlock_held *held = NULL;
 *     enum redlock_answer answer = redlock_client_acquire(client, &terms, &request, &held, reason, sizeof reason);
 *     if (answer == REDLOCK_ACQUIRED) {
 *         while (more_to_do && redlock_held_valid_for_ns(held) > longest_step_ns)
 *             do_a_step();
 *         redlock_client_release(held, REDLOCK_AWAIT);
 *     }
 *     redlock_client_close(client);
 *
 * NULL for a required argument crashes nothing. A function with a reason names the argument, an action does nothing,
 * and a question is answered as for a lost lock: no time left, in danger, no token, no descriptor. A `reason` may be
 * NULL. Any other pointer must be valid.
 * Durations are nanoseconds in int64_t (REDLOCK_MS(250)). Texts are copied unless said otherwise.
 * If the process dies while it holds a lock, nothing needs to be cleaned up: the keys expire after at most one ttl, and
 * others can have the resource.
 * Sources: the Redlock page of redis.io; the edge cases E1 to E51 of the reference, named where they apply. */
#ifndef REDLOCK_H
#define REDLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REDLOCK_API              __attribute__((visibility("default")))
#define REDLOCK_MS(milliseconds) ((int64_t)(milliseconds)*INT64_C(1000000))

enum {
    REDLOCK_NODES_MAX = 15,
    REDLOCK_RESOURCES_MAX = 16,       /* of one lock */
    REDLOCK_RESOURCE_BYTES_MAX = 512, /* 1 to 512 bytes each */
    REDLOCK_PREFIX_BYTES_MAX = 256,
    REDLOCK_OWNER_BYTES_MAX = 128, /* longer owner texts are cut */
};

/* --- part 1: what both ways share ---------------------------------------------------------------------------- */

/* One Redis master. N is the number of nodes configured, never the number connected (E8). Use 3 or 5. An even number
 * tolerates no more failures than the odd one below it and is refused; 1 is not a Redlock and only good for efficiency.
 * Three and more must have been made a lock group (`holdfast nodes init`), and the database must be theirs alone. */
struct redlock_node {
    const char *name; /* for logs; NULL = host:port */
    const char *host; /* or unix_path */
    unsigned port;
    const char *unix_path;
    const char *user;     /* NULL: AUTH with the password alone */
    const char *password; /* NULL: none. Copied; never logged */
    unsigned database;
    int64_t timeout_ns;         /* for one operation on this node, 0 = 50 ms; while it is slow of late up to ten times
                                   that, and at most a quarter of the ttl (docs/lock-nodes.md) */
    int64_t connect_timeout_ns; /* in the background only (E17); 0 = 1 s */
};

struct redlock_options {
    const struct redlock_node *nodes;
    size_t node_count;
    const char *key_prefix;  /* NULL = none. Keys that begin with "hf:" are ours: no prefix and resource may make one,
                                so it must not begin with "hf:" or be a beginning of that */
    int64_t fence_ttl_ns;    /* how long a node remembers the token of a resource after its grant; 0 = 7 days */
    double drift_factor;     /* share by which the clocks of nodes and ours may differ in rate, 0.001 to 0.1; 0 = 0.01.
                                A lock is trusted for that much less, and who differs by more gets no vote */
    const char *client_name; /* shown by CLIENT LIST; NULL = "redlock" */
    bool logs_to_stderr;     /* of a client: write what happens to nodes and locks; otherwise it is silent */
    bool is_guest;           /* of a lock group that others look after: it never writes a marker, so a node that forgot
                                gets its vote back when one of the others, or an operator, has healed it */
};

/* Terms of a lock. Zero means the default in brackets. */
struct redlock_terms {
    int64_t ttl_ns;           /* [10 s], 500 ms to 60 s */
    unsigned tries;           /* attempts over the nodes before the answer is no [3], at most 1000 */
    int64_t retry_delay_ns;   /* between attempts, when somebody holds it [20 ms] */
    int64_t retry_jitter_ns;  /* up to this much more, at random [30 ms] */
    int64_t wait_ns;          /* wait for it for so long, woken by its release; tries do not count then [0 = do not] */
    int64_t max_hold_ns;      /* LOST after so long, however often it was extended (E37) [0 = never] */
    unsigned hand_over_tasks; /* in this process it goes straight from one to the next so often in a row [8], */
    int64_t hand_over_ns;     /* or for so long [1 s]; then other processes get their chance */
    bool unfenced;            /* no fencing token: cheaper, and only good for efficiency */
};

/* What to lock, and who wants it. Several resources are locked all or none; order and repetition do not matter. */
struct redlock_request {
    const char *const *resources; /* NUL-terminated */
    size_t resource_count;
    const char *owner; /* for people: "host:pid:slot:jid"; NULL = none */
    bool waits_here;   /* wait for others of this process without limit, also without `wait_ns`; `tries` and `wait_ns`
                          begin to count when none of them is before it any more */
    bool leaves_when_busy; /* refused at once when somebody holds it: `tries` are for what may be had a moment later */
};

enum redlock_answer {
    REDLOCK_ACQUIRED,
    REDLOCK_BUSY,      /* another holder has it */
    REDLOCK_SPLIT,     /* several tried at once and none got a majority: try again soon */
    REDLOCK_NO_QUORUM, /* a majority of the nodes cannot be reached, or answers with errors; the reason tells which */
    REDLOCK_TOO_SLOW,  /* a majority granted it, but more than half of the ttl was gone by then (E5) */
    REDLOCK_CANCELLED, /* released before it was acquired */
    REDLOCK_INVALID,   /* the request or the terms are outside the limits, the group's max_ttl too; nothing was sent */
};

/* Why a lock was lost. */
enum redlock_loss {
    REDLOCK_LOST_DEADLINE, /* no extension succeeded in time */
    REDLOCK_LOST_TAKEN,    /* a majority says that it is not ours: it expired there, or was deleted by hand (E49) */
    REDLOCK_LOST_MAX_HOLD, /* it was held for as long as its terms allow */
    REDLOCK_LOST_CLOCK,    /* the machine stood still and its clock with it */
    REDLOCK_LOST_FORFEIT,  /* it was declared lost (redlock_lock_forfeit) */
};

/* The outcome of a release (E39). Each ends the lock. */
enum redlock_ending {
    REDLOCK_RELEASED, /* a majority deleted it */
    REDLOCK_EXPIRED,  /* it had expired or been deleted before */
    REDLOCK_FOREIGN,  /* another holder had it already */
    REDLOCK_UNKNOWN,  /* too few nodes answered; what is left expires by its ttl (E51) */
};

REDLOCK_API const char *redlock_answer_name(enum redlock_answer answer); /* "acquired", "busy", ... */
REDLOCK_API const char *redlock_ending_name(enum redlock_ending ending);

/* Fills the zeros with the defaults; false, with a reason, when a value is out of bounds or does not fit these
 * options (the attempt over the nodes must leave half of the ttl). */
REDLOCK_API bool redlock_terms_check(struct redlock_terms *terms, const struct redlock_options *options, char *reason,
                                     size_t reason_size);

/* What happened since the client or group was made. */
struct redlock_counters {
    uint64_t acquired, busy, split, no_quorum, too_slow, cancelled, invalid;
    uint64_t attempts;    /* over all acquires */
    uint64_t extensions;  /* successful rounds */
    uint64_t handed_over; /* of the acquired: straight from another one of this process */
    uint64_t dangers, lost;
    uint64_t released, expired, foreign, unknown;
    uint64_t owed; /* releases that had to be sent again on a new connection */
};

/* --- part 2: the blocking client ------------------------------------------------------------------------------ */

struct redlock_client; /* a loop thread of its own and a connection to every node */
struct redlock_held;   /* one lock that is held */

/* Connects in the background: a node that is down is no error here. NULL with a reason when the options are wrong.
 * Returns when every node was tried once. */
REDLOCK_API struct redlock_client *redlock_client_open(const struct redlock_options *options, char *reason,
                                                       size_t reason_size);
/* Every lock must have been released; waits until releases in the background are on their way. Calls that still wait
 * for a lock return CANCELLED. */
REDLOCK_API void redlock_client_close(struct redlock_client *client);

/* Any thread; blocks for at most tries x (the slowest node's timeout, or what it has become + retry delay + jitter), or
 * with `wait_ns` for that long and an attempt over the nodes. On REDLOCK_ACQUIRED `*held` is set, and the lock is
 * extended in the background until it is released. Otherwise `*held` is NULL and a reason says more. */
REDLOCK_API enum redlock_answer redlock_client_acquire(struct redlock_client *client, const struct redlock_terms *terms,
                                                       const struct redlock_request *request,
                                                       struct redlock_held **held, char *reason, size_t reason_size);

/* How much longer the lock is certain; 0 once it is lost. Compares the clock with the published deadline: any thread,
 * no lock, no system call, right even when the loop thread is stuck. */
REDLOCK_API int64_t redlock_held_valid_for_ns(const struct redlock_held *held);
/* No extension succeeded for two thirds of the ttl, or the maximum hold is near: finish what is safe to finish. By the
 * clock as well, any thread. */
REDLOCK_API bool redlock_held_in_danger(const struct redlock_held *held);
/* The fencing token of the hold, valid for each of its resources; it never changes while it is held. 0 = unfenced.
 * Below 2^53, so that every language's numbers can carry it; in JSON and in Redis write it as a decimal string all the
 * same. */
REDLOCK_API uint64_t redlock_held_token(const struct redlock_held *held);
/* Asks a majority of the nodes now, for an irreversible step that cannot check the token: true when it is still ours,
 * and was extended by the question. Blocks for at most a node's timeout and a little; any thread but one at a time. */
REDLOCK_API bool redlock_held_verify(struct redlock_held *held);
/* A descriptor that becomes readable when the lock is lost, by the kernel's clock: for poll. The lock's own: do not
 * read or close it; gone with the release. -1 when there is none to be had. Any thread. */
REDLOCK_API int redlock_held_descriptor(struct redlock_held *held);

enum redlock_wait {
    REDLOCK_AWAIT,      /* return when a majority acknowledged, with the outcome */
    REDLOCK_BACKGROUND, /* return at once with REDLOCK_RELEASED; the outcome goes to the counters */
};

/* Any thread. Ends the lock and frees `held`, whatever the outcome; UNKNOWN when that is NULL. */
REDLOCK_API enum redlock_ending redlock_client_release(struct redlock_held *held, enum redlock_wait wait);

/* Any thread: what the client has counted since it was opened; nothing when it is NULL. */
REDLOCK_API void redlock_client_counters(struct redlock_client *client, struct redlock_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
