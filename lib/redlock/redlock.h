/* SPDX-License-Identifier: MIT */
/* redlock.h: a distributed lock over N independent Redis masters (the Redlock algorithm), extended in the background.
 *
 * What it promises. While clocks run at roughly the right rate, a resource has at most one holder. A minority of the
 * nodes may be down, hang or answer nonsense without any effect. A holder whose lock cannot be extended learns it
 * before anybody else can get the lock: by the clock (CLOCK_BOOTTIME, which counts suspend), not by a message.
 *
 * What it does not promise. A process that stops between "am I still the holder?" and its write may write late. Fencing
 * tokens close that gap: each hold has a token larger than that of every earlier hold of the resource, even if a pause
 * or a clock breaks exclusion itself. A resource that keeps the largest token it has seen, and refuses writes with a
 * smaller one, is safe (docs/fencing.md).
 *
 * On a node the lock has the plain Redlock format (a string key, SET NX PX, compare and delete), so other Redlock
 * clients and this one exclude each other. Key = key_prefix + resource. Value = 32 hexadecimal digits from the kernel's
 * random generator, fresh for each attempt, then ":" and the owner text. GET on any node therefore shows the holder.
 *
 * Most programs want a mutex (redlock_mutex.h), which is a thin layer on the client below.
 *
 *     char reason[256];
 *     struct redlock_node nodes[3] = {{.host = "10.0.0.1", .port = 6379},
 *                                     {.host = "10.0.0.2", .port = 6379},
 *                                     {.host = "10.0.0.3", .port = 6379}};
 *     struct redlock_options options = {.nodes = nodes, .node_count = 3};
 *     struct redlock_client *client = redlock_client_open(&options, reason, sizeof reason);
 *     if (client == NULL)
 *         return fail(reason);
 *
 *     const char *resources[] = {"account:7", "account:9"};
 *     struct redlock_request request = {.resources = resources, .resource_count = 2, .owner = "transfer"};
 *     struct redlock_held *held = NULL;
 *     if (redlock_client_acquire(client, NULL, &request, &held, reason, sizeof reason) != REDLOCK_ACQUIRED)
 *         return fail(reason);
 *     while (more_to_do() && redlock_held_valid_for_ms(held) > 200) // longer than a step takes
 *         do_a_step(redlock_held_token(held));
 *     redlock_client_release(held, REDLOCK_AWAIT);
 *     redlock_client_close(client);
 *
 * NULL for a required argument never crashes. A function with a `reason` names the argument there, an action does
 * nothing, and a question is answered as for a lost lock: no time left, in danger, no token, no descriptor. Terms and
 * `reason` may be NULL. Any other pointer must be valid.
 *
 * A child after fork must not use what its parent opened. To the child the functions say so: nothing is acquired,
 * released or closed, no time is left, and what the parent holds stays held. The memory stays until the child ends or
 * calls exec. It may open a client of its own.
 *
 * Each client has a thread of its own, which calls back (redlock_mutex.h). There nothing may wait for the client:
 * nothing is acquired, verified, extended, released with REDLOCK_AWAIT or closed.
 *
 * Durations are milliseconds (`_ms`). Texts are copied unless stated otherwise. The process ignores SIGPIPE from the
 * first client on. If it dies while it holds a lock, nothing needs cleaning up: the keys expire within one ttl.
 * Sources: the Redlock page of redis.io; the edge cases E1 to E51 of the reference, named where they apply. */
#ifndef REDLOCK_H
#define REDLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REDLOCK_API __attribute__((visibility("default")))

enum {
    REDLOCK_NODES_MAX = 15,
    REDLOCK_RESOURCES_MAX = 16,       /* of one lock */
    REDLOCK_RESOURCE_BYTES_MAX = 512, /* 1 to 512 bytes each */
    REDLOCK_PREFIX_BYTES_MAX = 256,
    REDLOCK_OWNER_BYTES_MAX = 128, /* longer owner texts are cut */
    REDLOCK_LIMIT_MAX = 64,        /* holders of one resource at once */
};

/* --- part 1: what both ways share ---------------------------------------------------------------------------- */

/* One Redis master. N is the number of configured nodes, never of connected ones (E8). Use 3 or 5. An even number is
 * refused: it tolerates no more failures than the odd number below it. 1 is no Redlock, and only good for efficiency.
 * Three or more nodes must form a lock group (`holdfast nodes init`), and their database must hold nothing else. */
struct redlock_node {
    const char *name; /* for logs; NULL = host:port */
    const char *host; /* a name, an IP address, or redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], with TLS rediss:// */
    unsigned port;    /* 0 = that of the address, else 6379 */
    const char *unix_path;
    const char *user;     /* NULL: AUTH with the password alone */
    const char *password; /* NULL: none. Copied; never logged */
    /* Instead of a password: a file that only its owner may read, or one of root with a group of ours. Its first line
     * is the password. It is read for each connection, so it can be replaced at any time. */
    const char *password_file;
    unsigned database;
    int64_t timeout_ms;         /* of one operation on this node; 0 = 50. Up to ten times that while the node is
                                   slow, and at most a quarter of the ttl (docs/lock-nodes.md) */
    int64_t connect_timeout_ms; /* connecting happens only in the background (E17); 0 = 1000 */
    bool tls;                   /* speak TLS; the certificate has to be for the host, or for tls_server_name */
    const char *tls_ca_file;    /* PEM: the authorities that are trusted; NULL: those of the system */
    const char *tls_cert_file;  /* PEM: sent to a server that requests it; with its key, in a file without passphrase */
    const char *tls_key_file;
    const char *tls_server_name;
};

#define REDLOCK_FENCE_MEMORY_MIN 65536

struct redlock_options {
    const struct redlock_node *nodes;
    size_t node_count;
    const char *key_prefix;  /* NULL = none; not "h" or "hf", and no key may begin with "hf:": those keys are ours */
    size_t fence_memory;     /* bytes, about, that the tokens take on a node; 64 KiB at least, 0 = 64 MiB. The lowest
                                are forgotten first; new ones begin above all that were */
    double drift_factor;     /* how much the rates of two clocks may differ, 0.001 to 0.1; 0 = 0.01. A lock is trusted
                                for that share less than its ttl. A node whose clock differs by more has no vote */
    const char *client_name; /* shown by CLIENT LIST; NULL = "redlock" */
    bool logs_to_stderr; /* logs what happens to nodes and locks; otherwise the library is silent. The process has one
                                such setting: each client sets it, and a session (redlock_nodes.h) if it comes first */
    bool is_guest;       /* others maintain the lock group: never write a marker. A node that forgot its locks gets
                                its vote back when another client, or an operator, heals it */
};

/* Terms of a lock. Zero means the default in brackets. */
struct redlock_terms {
    int64_t ttl_ms;           /* [10000], 500 to 60000, and at most the max_ttl of the group */
    unsigned tries;           /* attempts before the answer is no [3], at most 1000 */
    int64_t retry_delay_ms;   /* between attempts, when somebody holds the lock [20] */
    int64_t retry_jitter_ms;  /* at most this much more, at random [30] */
    int64_t wait_ms;          /* wait this long for a release; `tries` does not count then [0 = do not wait] */
    int64_t max_hold_ms;      /* LOST after this long, however often it was extended (E37) [0 = never] */
    unsigned hand_over_tasks; /* how often in a row the lock passes straight to another user in this process [8], */
    int64_t hand_over_ms;     /* and for how long [1000], before other processes get their chance */
    bool unfenced;            /* no fencing token: cheaper, and only good for efficiency; a node that was away for
                                 longer than the ttl stays out of the hold (docs/lock-nodes.md) */
    double drift_factor;      /* more than that of the options counts for this lock, up to 0.1; less does not */
    double timeout_factor;    /* the share of the ttl that one attempt may take [0.25], 0.01 to 0.25 */
};

/* What to lock, and for whom. Several resources are locked all or none; order and repetition do not matter. Who waits
 * for several (`wait_ms`) is not starved by users of single ones: the nodes keep all of them for the oldest such
 * request, and refuse others, until it has its lock or gives up. If its process dies or stands still meanwhile, that
 * ends 200 ms after the ttl that the last of their holders had when it asked last: at most 60.2 s later.
 *
 * With a `limit` of N, N may hold the resource at once: it has N seats, and each is an exclusive lock of its own. The
 * lock takes any seat that is free. Its token is ordered only among the holds of the same seat, so a sink compares
 * tokens for each seat (redlock_held_seat). Seat 1 has the key of the resource itself, so a client that asks for
 * the resource without a limit competes for seat 1; seat k has the key key_prefix + "hf:seat:k:" + resource. Clients
 * that disagree about N admit as many holders as the largest of their limits. Such a request names one resource.
 *
 * A `shared` lock is for readers: any number of them may hold the resource at once, and nobody who asks for it without
 * `shared` does meanwhile, other Redlock clients included: on a node the key then holds "hf:shared". A writer is any
 * other request. One that waits (`wait_ms`, `comes_back`) is not starved by readers that overlap: while it waits, the
 * nodes refuse new readers, and for 200 ms after the last one has left. A reader has the token of the last writer, or a
 * greater one below that of the next writer, and may share it with other readers. So a sink remembers the tokens of
 * writers, and a reader is stale once the sink has seen a greater one. Holders of seats exclude readers, and readers
 * them: while a later seat than the first may be held, a node has the key "hf:seats:" + key_prefix + resource. Who
 * waits for a seat is a writer in this, and a reader that waits for seats, or for several resources, has them kept as
 * above, but not from readers. The token of a reader is ordered only with those of seat 1. */
struct redlock_request {
    const char *const *resources; /* NUL-terminated */
    size_t resource_count;
    const char *owner;     /* for people: "host:pid:slot:jid"; NULL = none */
    bool waits_here;       /* wait without limit for other users in this process, even without `wait_ms`; `tries` and
                              `wait_ms` begin to count when none of them is ahead any more */
    bool leaves_when_busy; /* answer BUSY as soon as one attempt meets a holder; `tries` still covers other failures */
    unsigned limit;        /* how many may hold the resource at once, at most REDLOCK_LIMIT_MAX; 0 = 1. BUSY then means
                              that each seat has a holder, and `tries` counts rounds through all seats */
    unsigned seat;         /* with a limit: ask for this seat only, 1 to limit; 0 = any */
    bool shared;           /* for a reader; not with a limit above 1 */
    bool comes_back;       /* after BUSY it will be asked for again, when the remaining time that was told is over: of a
                              writer, new readers leave it that turn, as they do to one that waits. Several resources
                              are not kept for it: for these use `wait_ms` */
};

enum redlock_answer {
    REDLOCK_ACQUIRED,
    REDLOCK_BUSY,      /* another holder has it */
    REDLOCK_SPLIT,     /* several clients tried at once and none got a majority: try again soon */
    REDLOCK_NO_QUORUM, /* too few nodes can be reached, or too many answer with errors; the reason says which */
    REDLOCK_TOO_SLOW,  /* a majority granted it, but more than half of the ttl had passed by then (E5) */
    REDLOCK_CANCELLED, /* released before it was acquired */
    REDLOCK_INVALID,   /* the request or the terms exceed a limit, such as the group's max_ttl; nothing was sent */
    REDLOCK_IN_DANGER, /* of a mutex: its owner has entered before, and is to leave, because that lock is in danger */
};

/* Why a lock was lost. */
enum redlock_loss {
    REDLOCK_LOST_DEADLINE, /* no extension succeeded in time */
    REDLOCK_LOST_TAKEN,    /* a majority says that it is not ours: it expired there, or somebody deleted it (E49) */
    REDLOCK_LOST_MAX_HOLD, /* it was held for as long as its terms allow */
    REDLOCK_LOST_CLOCK,    /* this machine stood still, and its clock with it */
    REDLOCK_LOST_FORFEIT,  /* the program declared it lost (redlock_lock_forfeit) */
};

/* The outcome of a release (E39). Each of the first four ends the lock. */
enum redlock_ending {
    REDLOCK_RELEASED,   /* a majority deleted it */
    REDLOCK_EXPIRED,    /* it had expired or been deleted before */
    REDLOCK_FOREIGN,    /* another client already held it */
    REDLOCK_UNKNOWN,    /* too few nodes answered; the ttl removes what is left (E51) */
    REDLOCK_STILL_HELD, /* a mutex whose owner has entered more often than it left; or the outcome cannot be waited for
                           on the thread of the client */
    REDLOCK_NOT_HELD,   /* there was nothing to release: it was not locked, or a parent process has it */
};

REDLOCK_API const char *redlock_answer_name(enum redlock_answer answer); /* "acquired", "busy", ... */
REDLOCK_API const char *redlock_ending_name(enum redlock_ending ending);

/* Replaces zeros by the defaults. False, with a reason, if a value is out of bounds or does not fit the options: the
 * slowest node's timeout must be at most a quarter of the ttl. */
REDLOCK_API bool redlock_terms_check(struct redlock_terms *terms, const struct redlock_options *options, char *reason,
                                     size_t reason_size);

/* Counts since the client or group was created. */
struct redlock_counters {
    uint64_t acquired, busy, split, no_quorum, too_slow, cancelled, invalid;
    uint64_t attempts;    /* over all acquires */
    uint64_t extensions;  /* that succeeded */
    uint64_t handed_over; /* of `acquired`: straight from another user in this process */
    uint64_t dangers, lost;
    uint64_t released, expired, foreign, unknown;
    uint64_t owed; /* releases that had to be sent again on a new connection */
};

/* --- part 2: the blocking client ------------------------------------------------------------------------------ */

struct redlock_client; /* a loop thread of its own and a connection to every node */
struct redlock_held;   /* one lock that is held */

/* Returns after the first attempt to connect to each node; a node that is down is no error. While a majority can be
 * used, one that hangs is waited for no longer than a moment. NULL, with a reason, if the options are wrong. */
REDLOCK_API struct redlock_client *redlock_client_open(const struct redlock_options *options, char *reason,
                                                       size_t reason_size);
/* Release every lock first. Waits until releases in the background are on their way. Calls that still wait for a lock
 * return CANCELLED; those of mutexes have returned before. Harmless in a callback on the thread of the client. */
REDLOCK_API void redlock_client_close(struct redlock_client *client);

/* Any thread. Blocks for at most tries x (the slowest node's present timeout + retry delay + jitter), or with `wait_ms`
 * for that long and one attempt. On REDLOCK_ACQUIRED `*held` is set, and the lock is extended in the background until
 * it is released. Otherwise `*held` is NULL, and `reason` says more. */
REDLOCK_API enum redlock_answer redlock_client_acquire(struct redlock_client *client, const struct redlock_terms *terms,
                                                       const struct redlock_request *request,
                                                       struct redlock_held **held, char *reason, size_t reason_size);

/* How much longer the lock is certain, rounded down; 0 once it is lost. Any thread. Compares the clock with a published
 * deadline: it waits for nothing, and is right even if the loop thread is stuck. */
REDLOCK_API int64_t redlock_held_valid_for_ms(const struct redlock_held *held);
/* No extension has succeeded for two thirds of the ttl, or the maximum hold is near: finish what is safe to finish. Any
 * thread, by the clock as well. */
REDLOCK_API bool redlock_held_in_danger(const struct redlock_held *held);
/* The fencing token of the hold, valid for each of its resources; it never changes during the hold. 0 = unfenced. It is
 * below 2^53, so the numbers of every language can carry it; still, write it as a decimal string in JSON and Redis. */
REDLOCK_API uint64_t redlock_held_token(const struct redlock_held *held);
/* Which of the seats of the resource is held, from 1; 0 without a limit in the request. It never changes during the
 * hold. */
REDLOCK_API unsigned redlock_held_seat(const struct redlock_held *held);
/* For an irreversible step that cannot check the token: asks a majority of the nodes now. True if the lock is still
 * ours; the question has extended it. Blocks for little more than a node's timeout. Any thread, one at a time. */
REDLOCK_API bool redlock_held_verify(struct redlock_held *held);
/* The same before a step that takes long: the lock is then certain for about `ms` from now (less its drift), and later
 * extensions keep it so. At most the max_ttl of the group. False, with a reason, if it is not; what it had before
 * stays. */
REDLOCK_API bool redlock_held_extend(struct redlock_held *held, int64_t ms, char *reason, size_t reason_size);
/* For poll: a descriptor that becomes readable when the lock is lost, by the kernel's clock. It belongs to the lock and
 * ends with the release: do not read or close it. -1 if the process has no descriptor left. Any thread. */
REDLOCK_API int redlock_held_descriptor(struct redlock_held *held);

enum redlock_wait {
    REDLOCK_AWAIT,      /* return the outcome when a majority has acknowledged */
    REDLOCK_BACKGROUND, /* return REDLOCK_RELEASED at once; only the counters show the outcome */
};

/* Any thread. Ends the lock and frees `held`, whatever the outcome; NOT_HELD if `held` is NULL. A callback on the
 * thread of the client cannot await it: STILL_HELD, and nothing has changed. */
REDLOCK_API enum redlock_ending redlock_client_release(struct redlock_held *held, enum redlock_wait wait);

/* Any thread. All counters are 0 if `client` is NULL. */
REDLOCK_API void redlock_client_counters(struct redlock_client *client, struct redlock_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
