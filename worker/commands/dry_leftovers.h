/* Keys of dry runs that are over, as `holdfast doctor` meets them while it walks through the keys of the queue node,
 * and runs in their index that nobody leads any more. */
#ifndef WORKER_DRY_LEFTOVERS_H
#define WORKER_DRY_LEFTOVERS_H

#include "queue/dry_runs.h"
#include "worker/commands/doctor.h"

enum { DRY_LEFTOVERS_MAX = 32 };

struct dry_leftovers {
    struct dry_leftover {
        char run[DRY_RUNS_ID_DIGITS + 1];
        unsigned long long keys;
    } runs[DRY_LEFTOVERS_MAX]; /* further ones are left out */
    size_t count;
};

/* True when the key is one of a dry run. */
bool dry_leftovers_note(struct dry_leftovers *leftovers, const char *key);
/* Finds those that are over. Returns an exit code. */
int dry_leftovers_judge(struct dry_leftovers *leftovers, struct doctor *doctor) MUST_CHECK;

#endif
