/* How a worker ends: what runs, what waits for its lock, what was only claimed; and what is left at the queue node. */
#include "tests/support/test.h"

#include "tests/support/one_fleet.h"

/* The jids of a queue from its head on, in the order in which they would be claimed. */
static void assert_queue(const char *jids)
{
    char *queue = fleet_ask(&fleet, "EVAL \"local out = '' for _, task in ipairs(redis.call('LRANGE', 'queue:jobs', 0, "
                                    "-1)) do out = cjson.decode(task).jid .. ' ' .. out end return out\" 0");
    assert_string_equal(queue, jids);
    free(queue);
}

/* Nothing of a process is left on the queue node, and no lock on the others. When a lock was freed, and what became of
 * locks today, is about the fleet, and ends by itself. */
static void assert_no_traces(void)
{
    char *keys =
        fleet_ask(&fleet, "EVAL \"local left = {} for _, key in ipairs(redis.call('KEYS', 'hf:*')) do "
                          "if redis.call('PTTL', key) < 0 or not (key == 'hf:2:freed' or key:find('^hf:2:locks:')) "
                          "then left[#left + 1] = key end end return left\" 0");
    assert_string_equal(keys, "");
    free(keys);
    assert_int_equal(lock_cluster_keys(&fleet.locks), 0);
}

/* --- in good time ------------------------------------------------------------------------------------------------- */

TEST(what_runs_is_finished_and_what_waits_stays)
{
    fleet_push_many(&fleet, "guarded", 6, 300, 100);
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 2});
    test_await(fleet_noted_all(&fleet, "begin ") == 2);
    one_fleet_stop(worker);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), 2);
    assert_int_equal(fleet_noted_all(&fleet, "end "), 2);
    assert_queue("t3 t4 t5 t6 ");
    assert_no_traces();
}

static void locks_hold(unsigned count)
{
    for (unsigned node = 0; node < fleet.locks.count; node++)
        for (unsigned i = 1; i <= count; i++)
            lock_cluster_ask(&fleet.locks, node, "SET lock:r%u somebody PX 60000", i);
}

/* Four are claimed and wait for locks that somebody elsewhere has, two are still in the queue. */
TEST(what_waits_for_its_lock_goes_back_to_the_head_in_order)
{
    locks_hold(6);
    fleet_push_many(&fleet, "guarded", 6, 500, 6);
    unsigned worker = fleet_work(
        &fleet,
        &(struct fleet_setup){.threads = 4,
                              .classes = "{ class = \"guarded\"; on_conflict = \"delay\"; }", /* else they park */
                              .lock = "ttl = \"2s\"; tries = 1000; retry_delay = \"50ms\"; retry_jitter = \"5ms\"; "
                                      "prefix = \"lock:\";"});
    test_await(fleet_number(&fleet, "LLEN queue:jobs") == 2);
    one_fleet_stop(worker);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), 0);
    assert_queue("t1 t2 t3 t4 t5 t6 ");
    for (unsigned node = 0; node < fleet.locks.count; node++)
        assert_string_equal(lock_cluster_ask(&fleet.locks, node, "DEL lock:r1 lock:r2 lock:r3 lock:r4 lock:r5 lock:r6"),
                            "6"); /* the locks of others were let alone */
    assert_no_traces();
}

TEST(an_idle_worker_leaves_nothing)
{
    unsigned worker = fleet_work(&fleet, NULL);
    test_await(fleet_number(&fleet, "EXISTS hf:2:processes") == 1);
    one_fleet_stop(worker);
    assert_int_equal(fleet_number(&fleet, "DBSIZE"), 0);
}

TEST(a_stop_before_the_nodes_are_reached_is_a_stop)
{
    unsigned worker = fleet_work(&fleet, NULL);
    test_await(fleet_logged(&fleet, worker, "worker_started"));
    one_fleet_stop(worker);
    assert_no_traces();
}

/* --- when it takes too long --------------------------------------------------------------------------------------- */

TEST(a_handler_longer_than_the_stop_timeout_is_cancelled_and_goes_back)
{
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000],\"jid\":\"long\",\"resource\":\"r\"}");
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"next\"}");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 1, .worker = "stop_timeout = \"300ms\";"});
    test_await(fleet_noted(&fleet, "begin long") == 1);
    one_fleet_stop(worker);
    assert_int_equal(fleet_noted(&fleet, "stopped long"), 1);
    test_await(fleet_logged(&fleet, worker, "handlers_cancelled count=1"));
    assert_queue("long next ");
    assert_no_traces();
}

/* Its lock must outlive it: whoever comes next must not work beside it. */
TEST(a_handler_that_ignores_that_is_abandoned)
{
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[600000],\"jid\":\"deaf\",\"resource\":\"r\"}");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 1, .worker = "stop_timeout = \"100ms\";"});
    test_await(fleet_noted(&fleet, "begin deaf") == 1);
    fleet_signal(&fleet, worker, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, worker), 1);
    test_await(fleet_logged(&fleet, worker, "handlers_abandoned count=1"));
    test_await(fleet_logged(&fleet, worker, "handler_abandoned slot=0 jid=deaf class=guarded queue=jobs seconds="));
    assert_queue("deaf ");
    assert_int_equal(fleet_number(&fleet, "EXISTS hf:2:processes"), 0);
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:r"), 3);
}

TEST(a_second_signal_stops_now)
{
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000],\"jid\":\"long\"}");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 1, .worker = "stop_timeout = \"10m\";"});
    test_await(fleet_noted(&fleet, "begin long") == 1);
    fleet_signal(&fleet, worker, SIGINT);
    test_await(fleet_logged(&fleet, worker, "worker_stopping reason=SIGINT"));
    fleet_signal(&fleet, worker, SIGTERM);
    int exit_code = fleet_wait(&fleet, worker);
    assert_true(exit_code == 0 || exit_code == 1); /* whether the handler noticed in time */
    test_await(fleet_logged(&fleet, worker, "worker_stopping_now"));
    assert_queue("long ");
    assert_int_equal(fleet_number(&fleet, "EXISTS hf:2:processes"), 0);
}

/* Some notice, some do not. */
TEST(a_second_signal_gives_back_in_order_what_it_abandons)
{
    for (unsigned i = 1; i <= 12; i++)
        fleet_push(&fleet, "{\"class\":\"%s\",\"args\":[600000],\"jid\":\"t%u\"}", i % 3 == 0 ? "careful" : "note", i);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"next\"}");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 12, .worker = "stop_timeout = \"10m\";"});
    test_await(fleet_noted_all(&fleet, "begin ") == 12);
    fleet_signal(&fleet, worker, SIGTERM);
    test_await(fleet_logged(&fleet, worker, "worker_stopping "));
    fleet_signal(&fleet, worker, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, worker), 1);
    assert_queue("t1 t2 t3 t4 t5 t6 t7 t8 t9 t10 t11 t12 next ");
    test_await(fleet_logged(&fleet, worker, "jid=t1 class=note"));
    assert_int_equal(fleet_number(&fleet, "EXISTS hf:2:processes"), 0);
}

/* --- in trouble --------------------------------------------------------------------------------------------------- */

/* Its claims are kept where whoever recovers them will look. */
TEST(without_the_queue_node_it_ends_with_a_failure_and_loses_nothing)
{
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[600000],\"jid\":\"kept\"}");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 1});
    test_await(fleet_noted(&fleet, "begin kept") == 1);
    redis_server_pause(fleet.queue);
    fleet_signal(&fleet, worker, SIGTERM);
    test_await(fleet_logged(&fleet, worker, "worker_stopping "));
    fleet_signal(&fleet, worker, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, worker), 1);
    test_await(fleet_logged(&fleet, worker, "leave_failed"));
    redis_server_resume(fleet.queue);
    assert_int_equal(fleet_left(&fleet), 1);
}

/* Its handler has long ended when the stop_timeout begins; nobody waits for it to run out. */
TEST(one_signal_is_enough_when_the_queue_node_hangs)
{
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[100],\"jid\":\"kept\"}");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 1, .worker = "stop_timeout = \"10m\";"});
    test_await(fleet_noted(&fleet, "begin kept") == 1);
    redis_server_pause(fleet.queue);
    test_await(fleet_noted(&fleet, "end kept") == 1);
    fleet_signal(&fleet, worker, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, worker), 1);
    test_await(fleet_logged(&fleet, worker, "leave_failed"));
    assert_false(fleet_logged(&fleet, worker, "handlers_abandoned"));
    redis_server_resume(fleet.queue);
}

/* Nothing can have been claimed, so there is nothing to wait for. */
TEST(a_worker_that_never_reached_its_queue_node_stops_at_once)
{
    redis_server_kill(fleet.queue);
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.worker = "stop_timeout = \"10m\";"});
    test_await(fleet_logged(&fleet, worker, "node_down node=queue"));
    one_fleet_stop(worker);
    assert_false(fleet_logged(&fleet, worker, "handlers_abandoned"));
}

RUN_FLEET_TESTS
