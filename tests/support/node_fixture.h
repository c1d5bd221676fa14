/* What tests of one connection share: a loop and a node for each test. Its state is in the header, because a test
 * program is one file. */
#ifndef SUPPORT_NODE_FIXTURE_H
#define SUPPORT_NODE_FIXTURE_H

#include "tests/support/test.h"

#include "tests/support/loop_until.h"
#include "tests/support/node_probe.h"

static struct loop *loop;
static struct node_probe probe;

static inline int node_setup(void **state)
{
    (void)state;
    loop = loop_create(NULL);
    assert_non_null(loop);
    probe = (struct node_probe){.node = NULL};
    return 0;
}

static inline int node_teardown(void **state)
{
    (void)state;
    node_probe_stop(&probe);
    loop_destroy(loop);
    return 0;
}

#endif
