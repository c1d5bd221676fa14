/* Who may declare others dead, and the order in which queues are served. */
#include "tests/support/test.h"

#include "queue/recovery_permit.h"
#include "queue/serving_order.h"

static struct instant at(int64_t seconds)
{
    return (struct instant){(1000 + seconds) * NS_PER_S};
}

static struct recovery_permit permit_held(int64_t seconds)
{
    struct recovery_permit permit = {.lease_ns = 15 * NS_PER_S};
    for (int64_t second = 0; second <= seconds; second += 5)
        recovery_permit_renewed(&permit, true, "run", at(second));
    return permit;
}

TEST(G5_a_process_recovers_only_after_one_full_lease_of_its_own)
{
    struct recovery_permit fresh = {.lease_ns = 15 * NS_PER_S};
    assert_false(recovery_permit_may_recover(&fresh, at(100)));
    struct recovery_permit permit = permit_held(0);
    assert_false(recovery_permit_may_recover(&permit, at(14)));
    permit = permit_held(15);
    assert_true(recovery_permit_may_recover(&permit, at(15)));
}

TEST(a_gap_in_the_lease_starts_the_wait_anew)
{
    struct recovery_permit permit = permit_held(60);
    recovery_permit_renewed(&permit, false, "run", at(65));
    assert_false(recovery_permit_may_recover(&permit, at(79)));
    assert_true(recovery_permit_may_recover(&permit, at(80)));
}

TEST(another_run_of_the_server_starts_the_wait_anew)
{
    struct recovery_permit permit = permit_held(60);
    recovery_permit_renewed(&permit, true, "another", at(65));
    assert_false(recovery_permit_may_recover(&permit, at(79)));
    assert_true(recovery_permit_may_recover(&permit, at(80)));
}

TEST(a_lost_connection_starts_the_wait_anew)
{
    struct recovery_permit permit = permit_held(60);
    recovery_permit_broken(&permit);
    assert_false(recovery_permit_may_recover(&permit, at(100)));
    recovery_permit_renewed(&permit, true, "run", at(100));
    assert_false(recovery_permit_may_recover(&permit, at(114)));
    assert_true(recovery_permit_may_recover(&permit, at(115)));
}

/* --- the order of queues ---------------------------------------------------------------------------------------- */

static uint64_t chance(void *context, uint64_t below)
{
    uint64_t *seed = context;
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % below;
}

TEST(without_weights_the_order_is_strict)
{
    unsigned order[3];
    serving_order_draw(order, NULL, 3, chance, NULL);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(order[i], i);
}

TEST(by_weight_the_first_queue_is_drawn_in_proportion)
{
    static const unsigned weights[] = {2, 1, 1};
    unsigned first[3] = {0}, order[3];
    uint64_t seed = 7;
    for (int i = 0; i < 40000; i++) {
        serving_order_draw(order, weights, 3, chance, &seed);
        assert_int_equal((1 << order[0]) | (1 << order[1]) | (1 << order[2]), 7); /* each queue once */
        first[order[0]]++;
    }
    assert_in_range(first[0], 19000, 21000);
    assert_in_range(first[1], 9000, 11000);
    assert_in_range(first[2], 9000, 11000);
}

RUN_TESTS
