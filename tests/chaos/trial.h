/* A trial of the promises about locks: workers on hosts of their own add to numbers under the lock of five lock nodes
 * on theirs (tests/plugins/fenced_witness.c), while a test makes something happen to them. Then it all heals, the work
 * comes to its end, and is judged: by the witness, and by the account of every task (account.h). */
#ifndef CHAOS_TRIAL_H
#define CHAOS_TRIAL_H

#include "tests/chaos/account.h"
#include "tests/support/fenced_witness.h"
#include "tests/support/hosts.h"

/* TRIAL_HOLD_MS: nobody holds a lock for longer. */
enum { TRIAL_WORKERS = 3, TRIAL_NODES = 5, TRIAL_TTL_MS = 1000, TRIAL_MAX_TTL_MS = 2000, TRIAL_HOLD_MS = 1600 };

struct trial {
    struct hosts hosts;
    struct fenced_witness *witness;
    unsigned workers[TRIAL_WORKERS]; /* of the fleet */
    unsigned pushed;
    unsigned long_every; /* one task in so many holds its lock for more than one ttl */
};

/* One worker process on each worker host; `lease` as in the configuration. Says when hosts cannot be cut. */
void trial_start(struct trial *trial, const char *lease);
/* Ends everything, however far it came. */
void trial_stop(struct trial *trial);

/* Goes on pushing tasks for so long. Most hold their locks for some ten milliseconds. */
void trial_load(struct trial *trial, int64_t ms);
/* How many runs have come to a good end. */
unsigned trial_done(struct trial *trial);
/* How many runs of this worker have begun and not ended. */
unsigned trial_running(struct trial *trial, unsigned worker);
/* In how many workers' logs this is. */
unsigned trial_logged(struct trial *trial, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct trial_result {
    struct fenced_verdict verdict;
    struct account_sums sums;
};

/* Heals, waits until nothing is left to do, ends the workers, prints what was found under that name, and fails the test
 * when a task was lost or counted wrongly in spite of the fence, or when tokens do not tell who came later. The rest is
 * up to the test. */
struct trial_result trial_judge(struct trial *trial, const char *name);

#endif
