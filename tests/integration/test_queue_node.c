/* What only a real queue node shows: it refuses everything while it loads its data, and time passes between moves. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "queue/keys.h"
#include "tests/support/queue_fixture.h"

/* --- loading ------------------------------------------------------------------------------------------------------ */

static bool is_refused_as_loading(void *context)
{
    return strstr(redis_node_reason(context), "LOADING") != NULL;
}

/* It would load for ten seconds, and is not slow any more once somebody was refused. */
TEST(test_the_node_loads_its_data)
{
    struct redis_server *slow = redis_server_start(&(struct redis_server_options){
        .config = "appendonly yes\nappendfsync no\nauto-aof-rewrite-percentage 0\nkey-load-delay 500\n"});
    queue_probe_start(&probe, loop, redis_server_port(slow), "a", NULL);
    free(redis_server_command(slow, "EVAL \"for i = 1, 20000 do redis.call('SET', 'key' .. i, i) end\" 0"));
    free(redis_server_command(slow, "LPUSH queue:a one two"));
    queue_probe_claim(&probe, 0, "one");
    queue_listen(probe.queue, true);

    redis_server_restart_begin(slow);
    queue_probe_settle(&probe, 0, true);
    assert_true(loop_until(loop, is_refused_as_loading, queue_node(probe.queue), TEST_PATIENCE_NS));
    char *reply = redis_server_command(slow, "CONFIG SET key-load-delay 0");
    assert_string_equal(reply, "OK");
    free(reply);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_CLAIMED);
    assert_string_equal(probe.slots[0].payload, "two");

    queue_probe_stop(&probe);
    redis_server_destroy(slow);
}

/* --- time --------------------------------------------------------------------------------------------------------- */

/* A burst of moves must leave scores that differ: dashboards handle equal ones badly. */
TEST(test_scores_of_a_burst_differ)
{
    queue_probe_start(&probe, loop, redis_server_port(server), "a", &(struct queue_options){.slots = 64});
    for (int i = 0; i < 64; i++) {
        char payload[16];
        snprintf(payload, sizeof payload, "task%d", i);
        push("a", payload);
    }
    for (unsigned slot = 0; slot < 64; slot++)
        queue_probe_settle(&probe, slot, true);
    queue_probe_wait_all(&probe);
    for (unsigned slot = 0; slot < 64; slot++)
        queue_probe_postpone(&probe, slot, QUEUE_RETRY, 0, probe.slots[slot].payload);
    queue_probe_wait_all(&probe);
    assert_reply(server, "64",
                 "EVAL \"local seen, n = {}, 0 local e = redis.call('ZRANGE', 'retry', 0, -1, 'WITHSCORES') "
                 "for i = 2, #e, 2 do if not seen[e[i]] then seen[e[i]] = true n = n + 1 end end return n\" 0");
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, queue_teardown)
