/* What operators see of a lock group (redlock_nodes.h): fences, how clocks are compared, what a look shows, and a lock
 * that is taken away. What they do to its members is in test_redlock_nodes.c. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "redlock/marker.h"
#include "redlock/redlock_nodes.h"
#include "tests/support/one_cluster.h"

#define MAX_TTL_MS (4 * MS_PER_S)

static struct redlock_nodes *nodes;
static char why[256];

static int set_up(void **state)
{
    (void)state;
    cluster.max_ttl_ms = MAX_TTL_MS;
    lock_cluster_heal(&cluster);
    nodes = redlock_nodes_open(&cluster.options, why, sizeof why);
    assert_non_null(nodes);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    redlock_nodes_close(nodes);
    return 0;
}

TEST(fences_are_counted)
{
    lock_cluster_ask(&cluster, 0, "ZADD hf:fences 5 lock:a 6 lock:b");
    lock_cluster_ask(&cluster, 0, "SET hf:fences:floor 4");
    lock_cluster_ask(&cluster, 1, "SET hf:fences 1"); /* no set */
    redlock_nodes_look(nodes);
    redlock_nodes_count_fences(nodes);
    const struct redlock_node_view *first = redlock_nodes_view(nodes, 0), *second = redlock_nodes_view(nodes, 1);
    const struct redlock_node_view *third = redlock_nodes_view(nodes, 2);
    assert_true(first->has_fence_count && first->fence_count == 2 && first->fence_floor == 4);
    assert_true(!second->has_fence_count && second->fence_count == 0);
    assert_true(third->has_fence_count && third->fence_count == 0 && third->fence_floor == 0);
}

static void expect_bad_fences(bool has)
{
    const struct redlock_node_view *view = redlock_nodes_view(nodes, 1);
    assert_string_equal(view->state, has ? "excluded" : "votes");
    assert_string_equal(view->reason, has ? "bad_fences" : "fine");
    assert_int_equal(redlock_nodes_group(nodes).voters, NODES - has);
    if (has)
        assert_contains(redlock_nodes_reason(nodes), "Under hf:fences or hf:fences:floor is something else");
}

TEST(what_is_no_fence_is_told)
{
    static const char *const spoilt[] = {"RPUSH hf:fences:floor 1", "SET hf:fences:floor none", "HSET hf:fences a 1"};
    for (unsigned i = 0; i < sizeof spoilt / sizeof spoilt[0]; i++) {
        lock_cluster_ask(&cluster, 1, "%s", spoilt[i]);
        assert_int_equal(redlock_nodes_look(nodes), REDLOCK_NODES_DONE);
        expect_bad_fences(true);
        lock_cluster_ask(&cluster, 1, "DEL hf:fences hf:fences:floor");
        lock_cluster_ask(&cluster, 1, "SET hf:fences:floor 1700000000000000");
        redlock_nodes_look(nodes);
        expect_bad_fences(false);
        lock_cluster_ask(&cluster, 1, "DEL hf:fences:floor");
    }
    /* Nor does a floor that is none keep a marker from being written. */
    lock_cluster_ask(&cluster, 1, "RPUSH hf:fences:floor 1");
    lock_cluster_ask(&cluster, 1, "DEL hf:lock:group");
    assert_int_equal(redlock_nodes_heal(nodes, NULL, INT64_MAX), REDLOCK_NODES_REFUSED);
    expect_bad_fences(true);
}

/* --- clocks ------------------------------------------------------------------------------------------------------- */

static bool restart_first(void *context, const char *what, int64_t left_ms)
{
    (void)what, (void)left_ms;
    if (!*(bool *)context)
        redis_server_restart(cluster.servers[0]);
    return *(bool *)context = true;
}

TEST(a_server_that_restarted_between_two_looks_has_no_rate)
{
    bool was_restarted = false;
    redlock_nodes_watch(nodes, restart_first, &was_restarted);
    redlock_nodes_compare_clocks(nodes, 4000);
    const struct redlock_node_view *first = redlock_nodes_view(nodes, 0), *second = redlock_nodes_view(nodes, 1);
    assert_true(first->is_reached && first->rate_least_ppm == INT64_MIN && first->rate_most_ppm == INT64_MAX);
    assert_true(second->rate_least_ppm > INT64_MIN && second->rate_most_ppm < INT64_MAX);
}

/* --- looking again ------------------------------------------------------------------------------------------------ */

TEST(a_look_shows_nothing_of_the_one_before)
{
    const struct redlock_node_view *first = redlock_nodes_view(nodes, 0);
    assert_int_equal(redlock_nodes_look(nodes), REDLOCK_NODES_DONE);
    assert_true(first->votes && first->run_id[0] != '\0' && first->id[0] != '\0');
    redis_server_kill(cluster.servers[0]);
    assert_int_equal(redlock_nodes_look(nodes), REDLOCK_NODES_TOO_FEW);
    assert_false(first->is_reached || first->votes);
    assert_string_equal(first->run_id, "");
    assert_string_equal(first->id, "");
    assert_true(first->trouble[0] != '\0');
    assert_int_equal(redlock_nodes_group(nodes).reached, NODES - 1);
    redis_server_restart(cluster.servers[0]); /* with nothing */
    redlock_nodes_compare_clocks(nodes, 4000);
    assert_true(first->is_reached);
    assert_string_equal(first->trouble, "");
    assert_string_equal(first->id, "");
}

TEST(seats_that_any_node_knows_are_found)
{
    unsigned seats[REDLOCK_LIMIT_MAX];
    char name[REDLOCK_SEAT_NAME_SIZE];
    static const struct {
        unsigned node, seat;
    } taken[] = {{0, 1}, {1, 1}, {1, 3}, {2, REDLOCK_LIMIT_MAX}, {3, 2}};
    for (unsigned i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        redlock_seat_name("r", taken[i].seat, name);
        lock_cluster_ask(&cluster, taken[i].node, "SET lock:%s x PX 60000", name);
    }
    redis_server_pause(cluster.servers[3]);
    assert_int_equal(redlock_nodes_seats(nodes, "other", seats), 0);
    assert_int_equal(redlock_nodes_seats(nodes, "r", seats), 3);
    assert_int_equal(seats[0], 1);
    assert_int_equal(seats[1], 3);
    assert_int_equal(seats[2], REDLOCK_LIMIT_MAX);
    redis_server_pause(cluster.servers[2]);
    assert_int_equal(redlock_nodes_seats(nodes, "r", seats), 2); /* what that one said is not said again */
    redis_server_resume(cluster.servers[2]);
    redis_server_resume(cluster.servers[3]);
}

/* --- a lock that is taken away ------------------------------------------------------------------------------------ */

enum { HOLDS_MS = 30000, SOON_MS = 5000 };

struct contender {
    struct redlock_group *group;
    struct lock_probe probe;
};

static void contender_begin(struct contender *contender, struct loop *loop, int64_t wait_ms)
{
    struct redlock_terms terms = quick_terms(HOLDS_MS, 3);
    terms.wait_ms = wait_ms;
    contender->group = lock_cluster_group(&cluster, loop);
    lock_probe_create(&contender->probe, loop, contender->group, &terms);
}

static void contender_end(struct contender *contender, struct loop *loop)
{
    loop_for(loop, 0); /* outside it the loop's clock stands still */
    if (!redlock_lock_is_free(contender->probe.lock))
        redlock_lock_release(contender->probe.lock);
    loop_await(loop, redlock_lock_is_free(contender->probe.lock));
    lock_probe_destroy(&contender->probe);
    redlock_group_destroy(contender->group);
}

/* Long before the ttl of the holder is over. */
static void expect_waiter_hears(const char *taken, bool is_shared, unsigned seat)
{
    struct loop *loop = loop_create(NULL);
    struct contender holder, waits;
    contender_begin(&holder, loop, 0);
    contender_begin(&waits, loop, HOLDS_MS);
    holder.probe.shared = is_shared;
    waits.probe.limit = holder.probe.limit = seat > 0 ? 3 : 0;
    waits.probe.seat = holder.probe.seat = seat;
    assert_int_equal(lock_probe_acquire(&holder.probe, "r"), REDLOCK_ACQUIRED);
    lock_probe_ask(&waits.probe, "r");
    loop_for(loop, 2 * NS_PER_S); /* it listens, and has asked again since */
    assert_int_equal(waits.probe.answers, 0);
    redlock_nodes_find(nodes, taken);
    assert_int_equal(redlock_nodes_take(nodes, taken), REDLOCK_NODES_DONE);
    loop_await(loop, waits.probe.answers == 1);
    assert_int_equal(waits.probe.answer, REDLOCK_ACQUIRED);
    assert_true(waits.probe.waited_ns < SOON_MS * NS_PER_MS);
    contender_end(&waits, loop);
    contender_end(&holder, loop);
    loop_destroy(loop);
}

TEST(who_waits_hears_that_a_lock_was_taken_away)
{
    char seat[REDLOCK_SEAT_NAME_SIZE];
    redlock_seat_name("r", 2, seat);
    redlock_nodes_close(nodes);
    cluster.max_ttl_ms = HOLDS_MS;
    lock_cluster_heal(&cluster);
    nodes = redlock_nodes_open(&cluster.options, why, sizeof why);
    expect_waiter_hears("r", false, 0);
    expect_waiter_hears("r", true, 0);
    expect_waiter_hears(seat, false, 2);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, set_up, tear_down)
