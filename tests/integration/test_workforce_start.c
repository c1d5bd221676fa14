/* When the load of a dry run may begin: what its workers need until then must not be measured. */
#include "tests/support/test.h"

#include "tests/support/dry_config_fixture.h"

enum { PROCESSES = 2, LOCK_NODES = 3, QUORUM_NODES = 2 };

static unsigned looks; /* at themselves, that the workers told: each has two a second */

static int set_up(void **state)
{
    (void)state;
    dry_nodes_start(LOCK_NODES);
    plan_begin(PROCESSES, 2, 100, (struct distribution){.kind = DISTRIBUTION_FIXED, .mean_s = 600});
    looks = 0;
    workforce_make();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    plan_end();
    dry_nodes_stop();
    return 0;
}

static void take(void *context, unsigned number, const struct record *record)
{
    (void)context, (void)number;
    looks += record->kind == RECORD_PROCESS;
}

/* Until every worker has had some looks more at itself, and time to do what it must not. */
static void some_looks_pass(void)
{
    unsigned before = looks;
    test_await(workforce_read(workforce, 1000, take, NULL) > 0 && looks >= before + 4 * PROCESSES);
}

TEST(nobody_serves_before_a_majority_of_the_lock_nodes_answers)
{
    for (unsigned i = 0; i < QUORUM_NODES; i++)
        redis_server_pause(locks.servers[i]);
    workforce_go(workforce);
    some_looks_pass();
    assert_int_equal(workforce_serving(workforce), 0);
    redis_server_resume(locks.servers[0]);
    test_await(workforce_serving(workforce) == PROCESSES);
}

TEST(nobody_serves_before_the_queue_node_answers)
{
    redis_server_pause(queue_node);
    workforce_go(workforce);
    some_looks_pass();
    assert_int_equal(workforce_serving(workforce), 0);
    redis_server_resume(queue_node);
    test_await(workforce_serving(workforce) == PROCESSES);
}

TEST(who_has_nothing_but_busy_threads_serves)
{
    push(200);
    workforce_go(workforce);
    test_await(workforce_serving(workforce) == PROCESSES);
}

RUN_TESTS_WITH(set_up, tear_down)
