/* Workers that are stopped for longer than their lease, and wake up: others have their tasks by then. */
#include "tests/support/test.h"

#include "tests/support/one_fleet.h"

static const struct fleet_setup leased = {.worker = "lease = \"1s\";", .threads = 2};

static long long recoveries(const char *jid)
{
    return fleet_number(&fleet, "HLEN hf:2:recovered:%s", jid);
}

/* The first run is stopped with its process, the second ends while it is; then the first ends too, which is nobody's
 * result any more. */
TEST(the_old_owner_finds_that_it_lost)
{
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
    test_await(fleet_logged(&fleet, old, "lease_lost"));
    test_await(fleet_logged(&fleet, old, "ending=claim_lost jid=held"));
    test_await(recoveries("held") == 0);
    test_await(fleet_logged(&fleet, other, "task_recovered jid=held from=host0"));
    test_await(fleet_logged(&fleet, other, "process_recovered identity=host0"));
    one_fleet_stop(old);
    one_fleet_stop(other);
    assert_int_equal(fleet_noted(&fleet, "begin held"), 2);
    assert_int_equal(fleet_left(&fleet), 0);
}

/* Nobody took its task, and it holds no lock that could run out: the clock alone tells. */
TEST(a_worker_that_stood_still_tells_its_handlers_at_once)
{
    unsigned worker = fleet_work(&fleet, &leased);
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[60000],\"jid\":\"still\"}");
    test_await(fleet_noted(&fleet, "begin still") == 1);
    fleet_signal(&fleet, worker, SIGSTOP);
    struct instant awake = instant_after(instant_now(), 1500 * NS_PER_MS); /* longer than the lease */
    test_await(instant_reached(instant_now(), awake));
    fleet_signal(&fleet, worker, SIGCONT);
    test_await(fleet_noted(&fleet, "stopped still") == 1);
    test_await(fleet_logged(&fleet, worker, "lease_over"));
    test_await(fleet_noted(&fleet, "begin still") == 2); /* given back, and claimed again */
    one_fleet_kill(worker);
}

RUN_FLEET_TESTS
