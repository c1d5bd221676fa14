/* What tests of the asynchronous group share: for each test a loop, two groups over the five servers, as two processes
 * have them, and a lock of each. Its state is in the header, because a test program is one file. */
#ifndef SUPPORT_LOCK_FIXTURE_H
#define SUPPORT_LOCK_FIXTURE_H

#include "tests/support/test.h"

#include "tests/support/loop_until.h"
#include "tests/support/one_cluster.h"

static struct loop *loop;
static struct redlock_group *group, *other_group; /* of `mine`, of `theirs` */
static struct redlock_terms terms;
static struct lock_probe mine, theirs;

static inline void locks_create(int64_t ttl_ms)
{
    terms = quick_terms(ttl_ms, 3);
    lock_probe_create(&mine, loop, group, &terms);
    lock_probe_create(&theirs, loop, other_group, &terms);
}

static inline void locks_destroy(void)
{
    lock_probe_destroy(&mine);
    lock_probe_destroy(&theirs);
}

static inline void group_start(void)
{
    loop = loop_create(NULL);
    group = lock_cluster_group(&cluster, loop);
    other_group = lock_cluster_group(&cluster, loop);
    locks_create(10000);
}

static inline void group_end(void)
{
    locks_destroy();
    loop_await(loop, redlock_group_busy(group) == 0 && redlock_group_busy(other_group) == 0);
    redlock_group_destroy(group);
    redlock_group_destroy(other_group);
    loop_destroy(loop);
}

static inline int lock_set_up(void **state)
{
    (void)state;
    lock_cluster_heal(&cluster);
    group_start();
    return 0;
}

static inline int lock_tear_down(void **state)
{
    (void)state;
    group_end();
    return 0;
}

#endif
