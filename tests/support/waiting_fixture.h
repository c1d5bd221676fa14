/* What tests of waiting share: up to 16 groups over the five servers. Every group is what a process is: it has
 * connections, turns and subscriptions of its own; all of them run on one loop. Its state is in the header, because a
 * test program is one file. */
#ifndef SUPPORT_WAITING_FIXTURE_H
#define SUPPORT_WAITING_FIXTURE_H

#include "tests/support/test.h"

#include "redlock/group_private.h"
#include "tests/support/loop_until.h"
#include "tests/support/one_cluster.h"

enum { PROCESSES_MAX = 16, WAITERS_MAX = 1100 };

static struct loop *loop;
static struct redlock_group *processes[PROCESSES_MAX];
static struct lock_probe waiters[WAITERS_MAX];
static unsigned waiter_count;

static inline int waiting_set_up(void **state)
{
    (void)state;
    lock_cluster_heal(&cluster);
    loop = loop_create(NULL);
    waiter_count = 0;
    return 0;
}

static inline struct redlock_group *process(unsigned index)
{
    if (processes[index] == NULL)
        processes[index] = lock_cluster_group(&cluster, loop);
    return processes[index];
}

static inline int waiting_tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < waiter_count; i++) {
        loop_for(loop, 0); /* outside it the loop's clock stands still */
        bool is_to_release = waiters[i].lock->lease.state != LEASE_RELEASING; /* it may be under way already */
        if (is_to_release && !redlock_lock_is_free(waiters[i].lock))
            redlock_lock_release(waiters[i].lock);
        loop_await(loop, redlock_lock_is_free(waiters[i].lock));
        lock_probe_destroy(&waiters[i]);
    }
    ask_first(NODES, "ACL SETUSER default allchannels");
    for (unsigned i = 0; i < PROCESSES_MAX; i++)
        if (processes[i] != NULL)
            redlock_group_destroy(processes[i]);
    memset(processes, 0, sizeof processes);
    loop_destroy(loop);
    return 0;
}

static inline struct lock_probe *waiter(unsigned of_process, int64_t wait_ms)
{
    struct redlock_terms terms = quick_terms(10000, 3);
    terms.wait_ms = wait_ms;
    struct lock_probe *probe = &waiters[waiter_count++];
    lock_probe_create(probe, loop, process(of_process), &terms);
    return probe;
}

static inline unsigned calls(const char *command)
{
    return lock_cluster_calls(&cluster, command);
}

#endif
