/* What operators do to the fences of a lock group (redlock_nodes.h): an upgrade moves those of all nodes from strings
 * into sets, while locks are held and taken. What comes next in which state is in test_upgrade.c. And how clocks are
 * compared. What operators do to its members is in test_redlock_nodes.c. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "redlock/marker.h"
#include "redlock/redlock_nodes.h"
#include "tests/support/one_cluster.h"

#define TTL_MS     (2 * MS_PER_S)
#define MAX_TTL_MS (4 * MS_PER_S)

static void sleep_for(int64_t ns)
{
    struct timespec time = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static struct redlock_nodes *nodes;
static char why[256];

static void scheme_set(unsigned node, char scheme)
{
    char marker[MARKER_TEXT_MAX];
    snprintf(marker, sizeof marker, "%s", lock_cluster_ask(&cluster, node, "GET " MARKER_KEY));
    marker[0] = scheme;
    lock_cluster_ask(&cluster, node, "SET " MARKER_KEY " \"%s\"", marker);
}

static int set_up(void **state)
{
    (void)state;
    cluster.max_ttl_ms = MAX_TTL_MS;
    lock_cluster_heal(&cluster);
    for (unsigned i = 0; i < NODES; i++)
        scheme_set(i, '1');
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

static char scheme_of(unsigned node)
{
    return lock_cluster_ask(&cluster, node, "GET " MARKER_KEY)[0];
}

static void expect_schemes(const char *schemes)
{
    for (unsigned i = 0; i < NODES; i++)
        if (scheme_of(i) != schemes[i])
            fail_msg("node %u has scheme %c, not %c", i, scheme_of(i), schemes[i]);
}

/* For as long as fences are in strings. */
static void fences_plant(unsigned node, unsigned count)
{
    lock_cluster_ask(&cluster, node,
                     "EVAL \"for i = 1, ARGV[1] do redis.call('SET', 'hf:fence:lock:' .. i, 1700000000000000 + i, "
                     "'PX', 600000) end\" 0 %u",
                     count);
}

static void expect_number(unsigned node, const char *command, long long number)
{
    char expected[32];
    snprintf(expected, sizeof expected, "%lld", number);
    assert_string_equal(lock_cluster_ask(&cluster, node, "%s", command), expected);
}

TEST(fences_move_into_the_set)
{
    for (unsigned i = 0; i < NODES; i++)
        fences_plant(i, 1200);                                                        /* more than a page */
    lock_cluster_ask(&cluster, 1, "ZADD hf:fences 9007199254740000 lock:1 5 lock:2"); /* it was there before */
    assert_int_equal(redlock_nodes_upgrade(nodes, NULL), REDLOCK_NODES_DONE);
    assert_string_equal(redlock_nodes_reason(nodes), "");
    expect_schemes("33333");
    for (unsigned i = 0; i < NODES; i++) {
        assert_int_equal(redlock_nodes_view(nodes, i)->fences_moved, 1200);
        assert_string_equal(redlock_nodes_view(nodes, i)->fences, "set");
        assert_true(redlock_nodes_view(nodes, i)->votes);
        expect_number(i, "ZCARD hf:fences", 1200);
        expect_number(i, "ZSCORE hf:fences lock:1200", 1700000000001200);
        expect_number(i, "DBSIZE", 2);
    }
    expect_number(1, "ZSCORE hf:fences lock:1", 9007199254740000); /* never back */
    expect_number(1, "ZSCORE hf:fences lock:2", 1700000000000002);
    assert_int_equal(redlock_nodes_upgrade(nodes, NULL), REDLOCK_NODES_DONE); /* nothing is left to do */
    assert_int_equal(redlock_nodes_view(nodes, 0)->fences_moved, 0);
}

TEST(a_long_key_becomes_a_digest)
{
    char key[101];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    lock_cluster_ask(&cluster, 0, "SET hf:fence:%s 17", key);
    lock_cluster_ask(&cluster, 0, "SET hf:fence:%.64s 18", key);
    assert_int_equal(redlock_nodes_upgrade(nodes, (const bool[NODES]){true}), REDLOCK_NODES_DONE);
    char expected[16];
    snprintf(expected, sizeof expected, "%s",
             lock_cluster_ask(&cluster, 0,
                              "EVAL \"return redis.call('ZSCORE', 'hf:fences', '#' .. "
                              "redis.sha1hex(ARGV[1]))\" 0 %s",
                              key));
    assert_string_equal(expected, "17");
    snprintf(expected, sizeof expected, "%s", lock_cluster_ask(&cluster, 0, "ZSCORE hf:fences %.64s", key));
    assert_string_equal(expected, "18");
}

TEST(what_is_no_fence_stays_and_is_named)
{
    static const char *const strays[] = {"SET hf:fence:text hello", "SET hf:fence:long 12345678901234567",
                                         "SET hf:fence:minus -5", "RPUSH hf:fence:list 1"};
    for (unsigned i = 0; i < 4; i++)
        lock_cluster_ask(&cluster, 2, "%s", strays[i]);
    fences_plant(2, 3);
    assert_int_equal(redlock_nodes_upgrade(nodes, NULL), REDLOCK_NODES_DONE);
    expect_schemes("33333");
    static const char *const names[] = {"text", "long", "minus", "list"};
    for (unsigned i = 0; i < 4; i++) {
        char line[64];
        snprintf(line, sizeof line, "hf:fence:%s is no fence, and stays", names[i]);
        assert_contains(redlock_nodes_reason(nodes), line);
    }
    expect_number(2, "DBSIZE", 6);
    expect_number(2, "ZCARD hf:fences", 3);
}

/* --- what is in the way ------------------------------------------------------------------------------------------- */

TEST(nothing_begins_while_another_node_has_no_vote)
{
    redis_server_kill(cluster.servers[3]);
    assert_int_equal(redlock_nodes_upgrade(nodes, NULL), REDLOCK_NODES_TOO_FEW);
    assert_contains(redlock_nodes_reason(nodes),
                    "does not vote: while the fences of a node are moved, all others must");
    redis_server_restart(cluster.servers[3]);
    lock_cluster_mark(&cluster, 3);
    for (unsigned i = 0; i < NODES; i++)
        assert_int_equal(i == 3 || scheme_of(i) == '1', 1);
}

TEST(a_wrong_type_under_the_sets_key_is_seen_first)
{
    fences_plant(0, 2);
    lock_cluster_ask(&cluster, 0, "RPUSH hf:fences x");
    assert_int_equal(redlock_nodes_upgrade(nodes, NULL), REDLOCK_NODES_REFUSED);
    assert_contains(redlock_nodes_reason(nodes), "its fences cannot be moved: ");
    assert_contains(redlock_nodes_reason(nodes), "WRONGTYPE");
    expect_schemes("11111");
    expect_number(0, "EXISTS hf:fence:lock:1", 1);
}

static bool stops_at(void *context, const char *what, int64_t left_ms)
{
    (void)left_ms;
    return strstr(what, context) == NULL;
}

/* As a process that is killed there. */
static void stop_and_go_on(char *what, const char *schemes)
{
    redlock_nodes_watch(nodes, stops_at, what);
    assert_int_equal(redlock_nodes_upgrade(nodes, NULL), REDLOCK_NODES_WAITING);
    expect_schemes(schemes);
    redlock_nodes_close(nodes);
    nodes = redlock_nodes_open(&cluster.options, why, sizeof why);
}

TEST(an_interrupted_upgrade_goes_on)
{
    for (unsigned i = 0; i < NODES; i++)
        fences_plant(i, 700);
    stop_and_go_on((char[]){"moving the fences"}, "21111");
    stop_and_go_on((char[]){"waiting until"}, "31111");
    assert_int_equal(redlock_nodes_upgrade(nodes, NULL), REDLOCK_NODES_DONE);
    for (unsigned i = 0; i < NODES; i++)
        expect_number(i, "ZCARD hf:fences", 700);
}

/* --- beside clients ----------------------------------------------------------------------------------------------- */

TEST(a_lock_stays_held_over_all_of_it)
{
    const char *resource = "r";
    struct redlock_terms terms = {.ttl_ms = TTL_MS, .tries = 3};
    struct redlock_request request = {.resources = &resource, .resource_count = 1, .owner = "o"};
    struct redlock_held *held = NULL;
    struct redlock_client *client = redlock_client_open(&cluster.options, why, sizeof why);
    assert_int_equal(redlock_client_acquire(client, &terms, &request, &held, why, sizeof why), REDLOCK_ACQUIRED);
    struct instant begun = instant_now();
    assert_int_equal(redlock_nodes_upgrade(nodes, NULL), REDLOCK_NODES_DONE);
    assert_true(instant_since(begun, instant_now()) > 5 * TTL_MS * NS_PER_MS); /* it was extended many times */
    assert_true(redlock_held_valid_for_ms(held) > 0);
    assert_true(redlock_held_verify(held));
    assert_int_equal(redlock_client_release(held, REDLOCK_AWAIT), REDLOCK_RELEASED);
    assert_int_equal(redlock_client_acquire(client, &terms, &request, &held, why, sizeof why), REDLOCK_ACQUIRED);
    assert_int_equal(redlock_client_release(held, REDLOCK_AWAIT), REDLOCK_RELEASED);
    redlock_client_close(client);
}

/* One whose key lives for less than a node needs, which is begun and not finished. */
TEST(a_lock_is_extended_on_a_node_whose_fences_move)
{
    const char *resource = "r";
    struct redlock_terms terms = {.ttl_ms = TTL_MS, .tries = 3};
    struct redlock_request request = {.resources = &resource, .resource_count = 1, .owner = "o"};
    struct redlock_held *held = NULL;
    struct redlock_client *client = redlock_client_open(&cluster.options, why, sizeof why);
    assert_int_equal(redlock_client_acquire(client, &terms, &request, &held, why, sizeof why), REDLOCK_ACQUIRED);
    while (lock_cluster_holders(&cluster, "lock:r") < NODES)
        sleep_for(NS_PER_MS);
    for (unsigned i = 0; i < NODES; i++) /* all of them, which no operator does */
        scheme_set(i, '2');
    for (unsigned i = 0; i < 4; i++) {
        sleep_for(TTL_MS * NS_PER_MS);
        assert_true(redlock_held_valid_for_ms(held) > 0);
    }
    assert_int_equal(lock_cluster_holders(&cluster, "lock:r"), NODES);
    struct redlock_held *other = NULL; /* and nothing else is granted there */
    resource = "s";
    assert_int_equal(redlock_client_acquire(client, &terms, &request, &other, why, sizeof why), REDLOCK_NO_QUORUM);
    assert_contains(why, "(fences_move)");
    assert_int_equal(lock_cluster_holders(&cluster, "lock:s"), 0);
    assert_int_equal(redlock_client_release(held, REDLOCK_AWAIT), REDLOCK_RELEASED);
    redlock_client_close(client);
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

TEST(places_that_any_node_knows_are_found)
{
    unsigned places[REDLOCK_LIMIT_MAX];
    char name[REDLOCK_PLACE_NAME_SIZE];
    static const struct {
        unsigned node, place;
    } taken[] = {{0, 1}, {1, 1}, {1, 3}, {2, REDLOCK_LIMIT_MAX}, {3, 2}};
    for (unsigned i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        redlock_place_name("r", taken[i].place, name);
        lock_cluster_ask(&cluster, taken[i].node, "SET lock:%s x PX 60000", name);
    }
    redis_server_pause(cluster.servers[3]);
    assert_int_equal(redlock_nodes_places(nodes, "other", places), 0);
    assert_int_equal(redlock_nodes_places(nodes, "r", places), 3);
    assert_int_equal(places[0], 1);
    assert_int_equal(places[1], 3);
    assert_int_equal(places[2], REDLOCK_LIMIT_MAX);
    redis_server_pause(cluster.servers[2]);
    assert_int_equal(redlock_nodes_places(nodes, "r", places), 2); /* what that one said is not said again */
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
static void expect_waiter_hears(const char *taken, bool is_shared, unsigned place)
{
    struct loop *loop = loop_create(NULL);
    struct contender holder, waits;
    contender_begin(&holder, loop, 0);
    contender_begin(&waits, loop, HOLDS_MS);
    holder.probe.shared = is_shared;
    waits.probe.limit = holder.probe.limit = place > 0 ? 3 : 0;
    waits.probe.place = holder.probe.place = place;
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
    char place[REDLOCK_PLACE_NAME_SIZE];
    redlock_place_name("r", 2, place);
    redlock_nodes_close(nodes);
    cluster.max_ttl_ms = HOLDS_MS;
    lock_cluster_heal(&cluster);
    nodes = redlock_nodes_open(&cluster.options, why, sizeof why);
    expect_waiter_hears("r", false, 0);
    expect_waiter_hears("r", true, 0);
    expect_waiter_hears(place, false, 2);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, set_up, tear_down)
