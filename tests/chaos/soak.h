/* The soak: tasks from several producers, and workers that are killed, stopped, ended and started again at random while
 * they work. Afterwards every task is accounted for (account.h).
 *
 * Half of the tasks come through `holdfast push`, most others by LPUSH of minimal payloads, some are scheduled. Most
 * succeed, some fail once, are buried, discarded, locked, or run at most once. Once all are pushed, the queue node is
 * stopped and killed now and then, too. Everything is drawn from the seed, but what the processes make of it is up to
 * the machine. */
#ifndef CHAOS_SOAK_H
#define CHAOS_SOAK_H

#include "tests/chaos/account.h"

struct soak_options {
    unsigned tasks, workers;
    unsigned ms;      /* how long most tasks run, on the average; a few take longer than the lease */
    unsigned seconds; /* after which the faults end, if work is left */
    unsigned long seed;
};

struct soak_faults {
    unsigned kills, stops, long_stops, ends, stopped_kills, node_stops, node_kills;
};

struct soak_result {
    struct account_sums sums;
    struct soak_faults faults;
    unsigned starts;
    double seconds;
};

/* The fleet must be fresh, its queue node configured with ACCOUNT_NODE. Fails the test when the work does not end. */
struct soak_result soak_run(struct fleet *fleet, const struct soak_options *options);
void soak_print(const struct soak_result *result, FILE *out);

#endif
