/* For tests of locks: five servers that live as long as the test program. */
#ifndef SUPPORT_ONE_CLUSTER_H
#define SUPPORT_ONE_CLUSTER_H

#include "tests/support/lock_cluster.h"

enum { NODES = 5, QUORUM = 3, MINORITY = NODES - QUORUM };

extern struct lock_cluster cluster;

/* For the whole group of tests. */
int one_cluster_set_up(void **state);
int one_cluster_tear_down(void **state);

/* What is done to the first `count` servers. */
void pause_first(unsigned count);
void resume_first(unsigned count);
void kill_first(unsigned count);
void ask_first(unsigned count, const char *command);

#endif
