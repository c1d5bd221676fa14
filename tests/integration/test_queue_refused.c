/* What a queue node refuses for a while: writing while it is out of memory, everything while it loads its data. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "queue/keys.h"
#include "tests/support/queue_fixture.h"

/* --- out of memory ------------------------------------------------------------------------------------------------ */

/* What frees a slot works without memory; a finish does so together with the next claim. */
static void test_settling_works_without_memory(void **state)
{
    (void)state;
    start("a");
    free(redis_server_command(server, "LPUSH queue:a one two three four five six"));
    queue_probe_claim(&probe, 0, "one");
    queue_probe_claim(&probe, 1, "two");
    queue_probe_claim(&probe, 2, "three");
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    uint64_t repeats = queue_counters(probe.queue)->repeats;
    queue_probe_claim(&probe, 0, "four");
    queue_probe_postpone(&probe, 1, QUEUE_RETRY, 0, "two");
    assert_int_equal(queue_probe_wait(&probe, 1), QUEUE_NOTHING);
    queue_probe_give_back(&probe, 2);
    assert_int_equal(queue_probe_wait(&probe, 2), QUEUE_NOTHING);
    queue_probe_claim(&probe, 3, "three");
    queue_probe_turn(&probe, 3, false);
    assert_int_equal(queue_probe_wait(&probe, 3), QUEUE_NOTHING);
    assert_int_equal(queue_counters(probe.queue)->repeats, repeats);
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
    char *places = queue_probe_places(server), expected[256];
    const char *claims = queue_keys_of(probe.queue)->process;
    snprintf(expected, sizeof expected, "%s four\nqueue:a five\nqueue:a six\nretry two", claims);
    assert_string_equal(places, expected);
    free(places);
}

/* --- loading ------------------------------------------------------------------------------------------------------ */

static bool is_refused_as_loading(void *context)
{
    return strstr(redis_node_reason(context), "LOADING") != NULL;
}

/* It would load for ten seconds, and is not slow any more once somebody was refused. */
static void test_the_node_loads_its_data(void **state)
{
    (void)state;
    struct redis_server *slow = redis_server_start(&(struct redis_server_options){
        .config = "appendonly yes\nappendfsync no\nauto-aof-rewrite-percentage 0\nkey-load-delay 500\n"});
    queue_probe_start(&probe, loop, redis_server_port(slow), "a", NULL);
    free(redis_server_command(slow, "EVAL \"for i = 1, 20000 do redis.call('SET', 'key' .. i, i) end\" 0"));
    free(redis_server_command(slow, "LPUSH queue:a one two"));
    queue_probe_claim(&probe, 0, "one");
    queue_listen(probe.queue, true);

    redis_server_restart_begin(slow);
    queue_probe_turn(&probe, 0, true);
    assert_true(loop_until(loop, is_refused_as_loading, queue_node(probe.queue), TEST_PATIENCE_NS));
    char *reply = redis_server_command(slow, "CONFIG SET key-load-delay 0");
    assert_string_equal(reply, "OK");
    free(reply);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_CLAIMED);
    assert_string_equal(probe.slots[0].payload, "two");

    queue_probe_stop(&probe);
    redis_server_destroy(slow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(test_settling_works_without_memory),
        queue_test(test_the_node_loads_its_data),
    };
    return cmocka_run_group_tests(tests, one_server_set_up, one_server_tear_down);
}
