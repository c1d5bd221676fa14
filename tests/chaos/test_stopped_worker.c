/* Workers that are stopped for longer than their lease, and wake up: others have their tasks by then. */
#include "tests/support/test.h"

#include <stdio.h>

#include "tests/support/one_fleet.h"

static const struct fleet_setup leased = {.worker = "lease = \"1s\";", .threads = 2};

static long long recoveries(const char *jid)
{
    return fleet_number(&fleet, "HLEN hf:2:recovered:%s", jid);
}

static void stop(unsigned worker)
{
    fleet_signal(&fleet, worker, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
}

/* The first run is stopped with its process, the second ends while it is; then the first ends too, which is nobody's
 * result any more. */
static void the_old_owner_finds_that_it_lost(void **state)
{
    (void)state;
    unsigned old = fleet_work(&fleet, &leased);
    test_await(fleet_logged(&fleet, old, "node_up node=queue address"));
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[2500],\"jid\":\"held\"}");
    test_await(fleet_noted(&fleet, "begin held") == 1);
    fleet_signal(&fleet, old, SIGSTOP);
    unsigned other = fleet_work(&fleet, &leased);
    test_await(fleet_noted(&fleet, "end held") == 1);
    assert_int_equal(fleet_noted(&fleet, "begin held"), 2);
    test_await(fleet_left(&fleet) == 0);
    assert_int_equal(recoveries("held"), 1);
    fleet_signal(&fleet, old, SIGCONT);
    test_await(fleet_logged(&fleet, old, "ending=claim_lost jid=held"));
    test_await(recoveries("held") == 0);
    test_await(fleet_logged(&fleet, other, "task_recovered jid=held from=host0"));
    stop(old);
    stop(other);
    assert_int_equal(fleet_noted(&fleet, "begin held"), 2);
    assert_int_equal(fleet_left(&fleet), 0);
}

/* Nobody took its task, and it holds no lock that could run out: the clock alone tells. */
static void a_worker_that_stood_still_tells_its_handlers_at_once(void **state)
{
    (void)state;
    unsigned worker = fleet_work(&fleet, &leased);
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[60000],\"jid\":\"still\"}");
    test_await(fleet_noted(&fleet, "begin still") == 1);
    fleet_signal(&fleet, worker, SIGSTOP);
    struct instant awake = instant_after(instant_now(), 1500 * NS_PER_MS); /* longer than the lease */
    test_await(instant_reached(instant_now(), awake));
    fleet_signal(&fleet, worker, SIGCONT);
    test_await(fleet_noted(&fleet, "stopped still") == 1);
    test_await(fleet_logged(&fleet, worker, "process_was_away"));
    test_await(fleet_noted(&fleet, "begin still") == 2); /* given back, and claimed again */
    fleet_signal(&fleet, worker, SIGKILL);
    fleet_wait(&fleet, worker);
}

/* It is told while it runs, and what it says then, that it was cancelled, would put the task back into its queue. */
static void the_result_of_the_old_owner_is_not_applied(void **state)
{
    (void)state;
    unsigned old = fleet_work(&fleet, &leased);
    test_await(fleet_logged(&fleet, old, "node_up node=queue address"));
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[60000],\"jid\":\"torn\"}");
    test_await(fleet_noted(&fleet, "begin torn") == 1);
    fleet_signal(&fleet, old, SIGSTOP);
    unsigned other = fleet_work(&fleet, &leased);
    test_await(fleet_noted(&fleet, "begin torn") == 2);
    fleet_signal(&fleet, old, SIGCONT);
    test_await(fleet_noted(&fleet, "stopped torn") == 1);
    test_await(fleet_logged(&fleet, old, "ending=claim_lost jid=torn"));
    stop(old);
    assert_int_equal(fleet_left(&fleet), 1); /* the claim of the other */
    assert_int_equal(fleet_noted(&fleet, "begin torn"), 2);
    fleet_signal(&fleet, other, SIGKILL);
    fleet_wait(&fleet, other);
}

static long long bells(void)
{
    return fleet_number(&fleet, "EVAL \"return #redis.call('KEYS', 'hf:2:bell:*')\" 0");
}

/* Processes that were recovered. */
static long long gone(void)
{
    return fleet_number(&fleet, "EVAL \"local gone = 0 for _, key in ipairs(redis.call('KEYS', 'hf:2:process:*')) do "
                                "gone = gone + redis.call('HEXISTS', key, 'gone') end return gone\" 0");
}

/* By the next look of another, which does not wait for the lease. */
static void what_rang_for_a_stopped_worker_comes_back(void **state)
{
    (void)state;
    unsigned old = fleet_work(&fleet, &leased);
    test_await(redis_server_info(fleet.queue, "clients", "blocked_clients:") > 0);
    test_await(fleet_logged(&fleet, old, "node_up node=queue/bell:jobs"));
    do { /* until a task is in its bell: it may not have waited yet when it was stopped */
        fleet_signal(&fleet, old, SIGSTOP);
        fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"rung\"}");
        if (bells() == 1)
            break;
        free(fleet_ask(&fleet, "DEL queue:jobs"));
        fleet_signal(&fleet, old, SIGCONT);
        poll(NULL, 0, 20);
    } while (true);
    unsigned other = fleet_work(&fleet, &leased);
    test_await(fleet_noted(&fleet, "end rung") == 1);
    test_await(fleet_left(&fleet) == 0);
    test_await(gone() == 1);
    fleet_signal(&fleet, old, SIGCONT);
    test_await(fleet_logged(&fleet, old, "lease_lost"));
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"more\"}");
    test_await(fleet_noted(&fleet, "end more") == 1);
    stop(old);
    stop(other);
    assert_int_equal(fleet_noted(&fleet, "begin rung"), 1);
    assert_int_equal(fleet_left(&fleet), 0);
}

/* Stopped three times, which is no death. */
static void stops_are_not_counted_as_deaths(void **state)
{
    (void)state;
    unsigned worker[2] = {fleet_work(&fleet, &leased), 0};
    unsigned owner = 0;
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[60000],\"jid\":\"calm\"}");
    test_await(fleet_noted(&fleet, "begin calm") == 1);
    worker[1] = fleet_work(&fleet, &leased);
    for (unsigned times = 1; times <= 4; times++) {
        fleet_signal(&fleet, worker[owner], SIGSTOP);
        test_await(fleet_noted(&fleet, "begin calm") == times + 1);
        fleet_signal(&fleet, worker[owner], SIGCONT);
        test_await(recoveries("calm") == 0);
        owner = 1 - owner;
    }
    assert_int_equal(fleet_number(&fleet, "ZCARD dead"), 0);
}

/* --- deaths ------------------------------------------------------------------------------------------------------- */

static void the_third_worker_that_a_task_kills_buries_it(void **state)
{
    (void)state;
    struct fleet_setup killed = leased;
    killed.plugin = "ledger";
    fleet_push(&fleet, "{\"class\":\"work\",\"args\":[0,\"crash\"],\"jid\":\"k1\"}");
    for (unsigned death = 1; death <= 3; death++)
        assert_int_equal(fleet_wait(&fleet, fleet_work(&fleet, &killed)), -SIGKILL);
    unsigned last = fleet_work(&fleet, &killed);
    test_await(fleet_number(&fleet, "ZCARD dead") == 1);
    char *dead = fleet_ask(&fleet, "ZRANGE dead 0 -1");
    assert_contains(dead, "\"error_class\":\"HF::PoisonPill\"");
    free(dead);
    stop(last);
    assert_int_equal(fleet_noted_all(&fleet, "begin k1"), 3);
    assert_int_equal(fleet_left(&fleet), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        fleet_test(the_old_owner_finds_that_it_lost),
        fleet_test(a_worker_that_stood_still_tells_its_handlers_at_once),
        fleet_test(the_result_of_the_old_owner_is_not_applied),
        fleet_test(what_rang_for_a_stopped_worker_comes_back),
        fleet_test(stops_are_not_counted_as_deaths),
        fleet_test(the_third_worker_that_a_task_kills_buries_it),
    };
    return cmocka_run_group_tests(tests, one_fleet_set_up, one_fleet_tear_down);
}
