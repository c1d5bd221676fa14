/* A process is listed before it claims, also where that is not easy. */
#include "tests/support/queue_fixture.h"

static void test_a_worker_starts_on_a_node_without_memory(void **state)
{
    (void)state;
    push("a", "one");
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    start("a");
    queue_probe_claim(&probe, 0, "one");
    assert_reply(server, probe.identity, "ZRANGE hf:2:processes 0 -1");
    queue_probe_turn(&probe, 0, false);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
    assert_places("");
}

static bool is_listed(void *unused)
{
    (void)unused;
    return queue_probe_number(server, "ZCARD hf:2:processes") == 1;
}

/* No slot has a claim that would be found lost: only the refused call tells. */
static void test_a_process_that_was_struck_off_lists_itself_again(void **state)
{
    (void)state;
    start("a");
    assert_true(loop_until(loop, is_listed, NULL, TEST_PATIENCE_NS));
    free(redis_server_command(server, "FLUSHALL"));
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    assert_true(is_listed(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(test_a_worker_starts_on_a_node_without_memory),
        queue_test(test_a_process_that_was_struck_off_lists_itself_again),
    };
    return cmocka_run_group_tests(tests, one_server_set_up, one_server_tear_down);
}
