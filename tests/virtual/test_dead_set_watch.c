/* That `dead` is full is said. */
#include "tests/support/test.h"

#include "queue/dead_set_watch.h"
#include "tests/support/log_capture.h"
#include "tests/support/queue_fixture.h"

/* What is said after the first look, at so many entries. */
static const char *said_at(unsigned entries)
{
    size_t length;
    unsigned looks = redis_server_calls(server, "zcard");
    free(redis_server_command(server, "DEL dead"));
    free(redis_server_command(server, "EVAL \"for i = 1, %u do redis.call('ZADD', 'dead', i, i) end\" 0", entries));
    log_capture_begin();
    struct dead_set_watch *watch =
        dead_set_watch_create(loop, queue_node(probe.queue), queue_keys_of(probe.queue), NS_PER_S);
    loop_await(loop, redis_server_calls(server, "zcard") > looks);
    loop_for(loop, 50 * NS_PER_MS);
    dead_set_watch_destroy(watch);
    return log_capture_end(&length);
}

TEST(one_task_more_would_remove_the_oldest)
{
    start("a");
    queue_probe_wait_up(&probe);
    assert_lacks(said_at(9998), "dead_full");
    assert_contains(said_at(9999), "dead_full entries=9999 ");
    assert_contains(said_at(10005), "dead_full entries=10005 ");
}

TEST(a_node_that_is_away_is_asked_again_soon)
{
    size_t length;
    start("a");
    queue_probe_wait_up(&probe);
    redis_server_pause(server);
    struct dead_set_watch *watch =
        dead_set_watch_create(loop, queue_node(probe.queue), queue_keys_of(probe.queue), 100 * NS_PER_MS);
    loop_for(loop, 1500 * NS_PER_MS);
    redis_server_resume(server);
    free(redis_server_command(server, "EVAL \"for i = 1, 9999 do redis.call('ZADD', 'dead', i, i) end\" 0"));
    log_capture_begin();
    loop_for(loop, 1500 * NS_PER_MS);
    dead_set_watch_destroy(watch);
    assert_contains(log_capture_end(&length), "dead_full");
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, queue_teardown)
