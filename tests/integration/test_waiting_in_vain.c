/* Tasks that wait for what nobody tells them: one before them that was woken and then does not ask for its lock, or a
 * holder that is no more. */
#include "tests/support/test.h"

#include "tests/support/contended.h"

static void who_has_expired_wakes_the_next(void **state)
{
    (void)state;
    enum { LIFE_S = 2 };
    resource_hold("r1");
    contended_start(NULL);
    long long expiry_s = (long long)(wall_now().us / US_PER_S) + LIFE_S;
    fleet_push(&fleet, "{\"class\":\"hold\",\"args\":[0],\"jid\":\"late\",\"resource\":\"r1\",\"expires_at\":%lld}",
               expiry_s);
    test_await(waiting_count("resource:r1") == 1);
    contended_push("next", "[0]", "r1");
    contended_push("last", "[0]", "r1");
    test_await(waiting_count("resource:r1") == 3);
    test_await(wall_now().us > expiry_s * US_PER_S);
    resource_free("r1");
    test_await(fleet_noted_all(&fleet, "end last") == 1);
    char *order = runs_order();
    assert_string_equal(order, "next last ");
    free(order);
    test_await(waiting_count("resource:r1") == 0); /* the last is settled behind its end */
}

/* For longer than the slack that there is anyway, and less long than its ttl. */
static void drain_outlasts_the_lock_of_the_dead(void **state)
{
    (void)state;
    for (unsigned i = 0; i < fleet.locks.count; i++)
        assert_string_equal(lock_cluster_ask(&fleet.locks, i, "SET lock:r1 somebody NX PX 9000"), "OK");
    contended_push("heir", "[0]", "r1");
    unsigned worker = contended_start(&(struct fleet_setup){.arguments = "--drain"});
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_noted_all(&fleet, "end heir"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        fleet_test(who_has_expired_wakes_the_next),
        fleet_test(drain_outlasts_the_lock_of_the_dead),
    };
    return cmocka_run_group_tests(tests, one_fleet_set_up, one_fleet_tear_down);
}
