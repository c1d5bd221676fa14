/* SPDX-License-Identifier: MIT */
/* redlock_mutex.h: a mutex that is shared by programs on several hosts: a Redlock with the handling of a mutex.
 *
 * redlock.h says what a lock promises, and opens the client. A mutex is a plain struct, without a function to create or
 * destroy it. Set `client`, and `name` or `names`; zero in the others means the default.
 *
 *     struct redlock_mutex mutex = {.client = client, .name = "report:2026"};
 *     if (redlock_mutex_lock(&mutex) != REDLOCK_ACQUIRED)
 *         return fail(mutex.reason);
 *     while (more_to_do() && redlock_mutex_valid_for_ms(&mutex) > 200) // longer than a step takes
 *         do_a_step(redlock_mutex_token(&mutex));
 *     redlock_mutex_unlock(&mutex);
 *
 * Threads. A struct is used by one thread at a time; it must stay where and as it is, with its names, until it is
 * unlocked. Only redlock_mutex_cancel may be called from any thread at any time. Give each thread a struct of its own
 * with the same names: the client lets one of them in after the other. They are cheap: ten thousand cost no connection,
 * no thread and no descriptor.
 *
 * Entering again. A mutex without an owner is locked once; to lock it twice is refused. With an owner it may be entered
 * again, on any thread, through the same struct or another one with the same names or a part of them:
 *
 *     struct redlock_owner owner = {.name = "nightly"};
 *     struct redlock_mutex both = {.client = client, .names = names, .name_count = 2, .owner = &owner};
 *     struct redlock_mutex one = {.client = client, .name = names[0], .owner = &owner};
 *     if (redlock_mutex_lock(&both) == REDLOCK_ACQUIRED && redlock_mutex_lock(&one) == REDLOCK_ACQUIRED) {
 *         do_a_step(redlock_mutex_token(&one)); // the token of both
 *         redlock_mutex_unlock(&one);           // REDLOCK_STILL_HELD
 *     }
 *     redlock_mutex_unlock(&both); // the last exit releases
 *
 * All entries share one lock: its token, its ttl as it is, and its end. Once it is in danger or lost, it can only be
 * left (REDLOCK_IN_DANGER). An owner that has some of the names and wants others as well is refused
 * (REDLOCK_INVALID), because it might wait for itself. So is one that reads and wants to write; one that writes may
 * enter to read. And so is one that has a seat beyond the limit that it wants now: without a limit it wants the first.
 * Another owner waits like another program.
 *
 * Readers. Any number of `shared` mutexes of a name may be locked at once, and none that is not (redlock_request):
 *
 *     struct redlock_mutex reader = {.client = client, .name = "report:2026", .shared = true};
 *     if (redlock_mutex_lock(&reader) == REDLOCK_ACQUIRED) {
 *         do_a_step(redlock_mutex_token(&reader)); // while others read, too
 *         redlock_mutex_unlock(&reader);
 *     }
 *
 * If the process dies, the lock expires within its ttl. What a child after fork may do: redlock.h. NULL never crashes:
 * it is refused, or it is a mutex that is not locked. Durations are milliseconds. */
#ifndef REDLOCK_MUTEX_H
#define REDLOCK_MUTEX_H

#include "redlock/redlock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who may enter again. Starts with zeros; must stay where it is while something of it is locked. Of one client. */
struct redlock_owner {
    const char *name; /* shown to people who ask for the holder; NULL = none */
    struct redlock_client *client;
    struct redlock_hold *holds; /* private, like `client` */
};

enum redlock_news {
    REDLOCK_NEWS_DANGER, /* finish what is safe to finish (redlock_held_in_danger) */
    REDLOCK_NEWS_LOST,   /* final; still unlock it */
};

enum { REDLOCK_REASON_SIZE = 256 };

struct redlock_mutex {
    struct redlock_client *client;
    const char *name;         /* what to lock, */
    const char *const *names; /* or all of these, or none of them */
    size_t name_count;
    struct redlock_owner *owner; /* who may enter again [NULL = nobody] */
    unsigned limit;              /* how many may hold it at once, each at a seat (redlock_request) [0 = 1] */
    bool shared;                 /* for a reader: others may read at the same time */
    struct redlock_terms terms;  /* ttl, tries, delay and jitter, wait, drift factor, timeout factor, ... */
    /* How long to wait before the next attempt, after so many: instead of the delay and jitter of the terms. Runs on
     * the thread that locks, and must not close the client, which waits for it. Such a waiter is not among those
     * of this process that are served in turn. */
    int64_t (*delay_ms)(struct redlock_mutex *mutex, unsigned attempts);
    /* Called for each danger, and once for loss, while it is locked, one after the other, and not after
     * redlock_mutex_unlock has returned. A danger has passed when redlock_mutex_in_danger says no. It runs on the
     * thread of the client, where it may ask about a lock or cancel, but must not block, lock, extend or unlock. Or,
     * with `is_dispatched`, inside redlock_client_dispatch, where it may do all that. The clock alone decides: a call
     * may come late, so go by redlock_mutex_valid_for_ms or redlock_mutex_lost_fd. */
    void (*told)(struct redlock_mutex *mutex, enum redlock_news news);
    bool is_dispatched;
    void *context;                    /* for the callbacks */
    char reason[REDLOCK_REASON_SIZE]; /* why the last call did not succeed */
    struct redlock_hold *hold;        /* private, like what follows */
    struct redlock_held *asks;
    struct redlock_mutex *next_inside, *next_told;
    unsigned entries, cancels, news;
};

/* Locks it as the terms say: makes `tries` attempts, or waits for `wait_ms`. */
REDLOCK_API enum redlock_answer redlock_mutex_lock(struct redlock_mutex *mutex);
/* Makes one attempt. */
REDLOCK_API enum redlock_answer redlock_mutex_try_lock(struct redlock_mutex *mutex);
/* Waits for up to `wait_ms` (0: makes one attempt). The lock is lost `lease_ms` after it was acquired, however often it
 * is extended (0: as the terms say). */
REDLOCK_API enum redlock_answer redlock_mutex_try_lock_for(struct redlock_mutex *mutex, int64_t wait_ms,
                                                           int64_t lease_ms);
/* The attempts that other threads make with this struct end with REDLOCK_CANCELLED, unless they are decided already.
 * Later ones are not affected. */
REDLOCK_API void redlock_mutex_cancel(struct redlock_mutex *mutex);
/* Leaves once. Waits for a callback that another thread makes for it, and for the outcome if it was the last exit;
 * REDLOCK_NOT_HELD if it is not locked. */
REDLOCK_API enum redlock_ending redlock_mutex_unlock(struct redlock_mutex *mutex);

/* Asks a majority of the nodes now, and extends it by its ttl. False if it is not certainly held. */
REDLOCK_API bool redlock_mutex_touch(struct redlock_mutex *mutex);
/* The same by `ms`, at most the max_ttl of the group (redlock_held_extend). */
REDLOCK_API bool redlock_mutex_extend(struct redlock_mutex *mutex, int64_t ms);

/* Until when it is certain, in milliseconds of CLOCK_BOOTTIME, and for how long from now; 0 = it is not. */
REDLOCK_API int64_t redlock_mutex_valid_until_ms(const struct redlock_mutex *mutex);
REDLOCK_API int64_t redlock_mutex_valid_for_ms(const struct redlock_mutex *mutex);
REDLOCK_API bool redlock_mutex_in_danger(const struct redlock_mutex *mutex);
/* The fencing token; 0 = not locked, or unfenced. */
REDLOCK_API uint64_t redlock_mutex_token(const struct redlock_mutex *mutex);
/* The seat that it has, with a limit; else 0. */
REDLOCK_API unsigned redlock_mutex_seat(const struct redlock_mutex *mutex);
/* For poll: becomes readable when the lock is lost (redlock_held_descriptor). */
REDLOCK_API int redlock_mutex_lost_fd(struct redlock_mutex *mutex);

/* For poll: becomes readable when redlock_client_dispatch has callbacks to make. It belongs to the client. -1 if the
 * process has no descriptor left. */
REDLOCK_API int redlock_client_news_fd(struct redlock_client *client);
/* Calls `told` of the mutexes with `is_dispatched`, on this thread. Does not wait. Returns the number of calls. */
REDLOCK_API unsigned redlock_client_dispatch(struct redlock_client *client);

#ifdef __cplusplus
}
#endif

#endif
