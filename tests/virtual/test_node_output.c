/* What a connection keeps of what it sent. */
#include "tests/support/test.h"

#include "redis/node_private.h"
#include "tests/support/node_fixture.h"
#include "tests/support/one_server.h"

TEST(what_was_answered_is_dropped)
{
    struct call_probe call = {0};
    node_probe_start(&probe, loop,
                     &(struct redis_node_options){.name = "probe",
                                                  .host = "127.0.0.1",
                                                  .port = redis_server_port(server),
                                                  .connect_timeout_ns = TEST_PATIENCE_NS,
                                                  .backoff_min_ns = 5 * NS_PER_MS,
                                                  .backoff_max_ns = 20 * NS_PER_MS});
    node_probe_wait_up(&probe);
    for (unsigned i = 0; i < 3; i++) {
        call_probe_run(&call, &probe, "PING");
        loop_await(loop, probe.node->out.length == 0);
    }
}

RUN_GROUP(one_server_set_up, one_server_tear_down, node_setup, node_teardown)
