/* A walk for claims of processes in no list that takes more than one step: the pages of SCAN come in an order that each
 * server chooses. What one step shows is in test_recovery. */
#include "queue/keys.h"
#include "tests/support/queue_fixture.h"

#define LEASE_NS (300 * NS_PER_MS)

static const struct queue_options leased = {.lease_ns = LEASE_NS};

static bool is_walking(void *unused)
{
    (void)unused;
    char *mark = redis_server_command(server, "GET hf:2:walked");
    bool is = strcmp(mark, other.identity) == 0;
    free(mark);
    return is;
}

/* The mark of its own walk does not keep it from that. */
TEST(who_lost_its_connection_during_a_walk_begins_anew)
{
    queue_probe_start(&probe, loop, redis_server_port(server), "a", &leased);
    queue_probe_wait_up(&probe);
    loop_for(loop, 3 * LEASE_NS);
    free(redis_server_command(server, "EVAL \"for i = 1, 5000 do redis.call('SET', 'hf:2:n:' .. i, 1) end\" 0"));
    queue_probe_start(&other, loop, relay_port(relay), "unserved", &leased);
    assert_true(loop_until(loop, is_walking, NULL, TEST_PATIENCE_NS));
    relay_swallow(relay, true);
    loop_for(loop, LEASE_NS / 3); /* the node has taken the step that was on its way */
    free(redis_server_command(server, "LPUSH hf:2:bell:gone:7:x:c alone"));
    relay_cut(relay);
    relay_swallow(relay, false);
    wait_tasks("queue:c alone");
    assert_reply(server, "over", "GET hf:2:walked");
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, queue_teardown)
