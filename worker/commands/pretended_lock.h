/* The lock of a run that has none: what its handler would see of a real one, with an end that somebody chose.
 *
 *     struct pretended_lock lock = {.taken = now, .danger_after_ns = -1, .lose_after_ns = 2 * NS_PER_S};
 *     struct pretended_view view = pretended_lock_at(&lock, now);      publish it, and come again at view.next
 *
 * As long as nothing was chosen it is extended for ever. Pure; any thread. */
#ifndef WORKER_PRETENDED_LOCK_H
#define WORKER_PRETENDED_LOCK_H

#include "base/clock.h"
#include "jobs/job.h"

struct pretended_lock {
    struct instant taken;
    int64_t danger_after_ns, lose_after_ns; /* since it was taken; -1 = never */
    int64_t max_hold_ns;                    /* 0 = no limit */
    int64_t ttl_ns;                         /* so long it is certain after each extension */
};

struct pretended_view {
    struct instant until, danger_from; /* as in struct redlock_validity */
    struct instant next;               /* when the view changes; INSTANT_NEVER once it is lost */
    enum hf_cancel_reason lost;        /* HF_LOCK_LOST, HF_HELD_TOO_LONG; HF_NOT_CANCELLED while it is held */
};

/* When it is lost; INSTANT_NEVER = never. */
struct instant pretended_lock_end(const struct pretended_lock *lock);
struct pretended_view pretended_lock_at(const struct pretended_lock *lock, struct instant now);

#endif
