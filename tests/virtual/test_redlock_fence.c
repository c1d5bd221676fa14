/* Fencing tokens over real servers: every hold of a resource has a larger one than all before it, whatever the counters
 * of the single nodes say, and what cannot be counted on is refused. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "redlock/scripts.h"
#include "tests/support/lock_fixture.h"
#include "tests/support/lock_group.h"

/* Far above what a proposal from a clock is before the year 2090. */
#define HIGH       UINT64_C(4000000000000000)
#define TOKENS_END (UINT64_C(1) << 53)

static uint64_t acquire(struct lock_probe *probe, const char *resources)
{
    assert_int_equal(lock_probe_acquire(probe, resources), REDLOCK_ACQUIRED);
    return redlock_lock_token(probe->lock);
}

static void release(struct lock_probe *probe)
{
    assert_int_equal(lock_probe_release(probe), REDLOCK_RELEASED);
    loop_await(loop, redlock_group_busy(group) == 0);
}

static uint64_t cycle(struct lock_probe *probe, const char *resources)
{
    uint64_t token = acquire(probe, resources);
    release(probe);
    return token;
}

static uint64_t fence_of(struct lock_cluster *of, unsigned node, const char *resource)
{
    char key[32];
    snprintf(key, sizeof key, "lock:%s", resource);
    return strtoull(lock_cluster_fence(of, node, key), NULL, 10);
}

static void fence_set(unsigned node, const char *resource, uint64_t value)
{
    char key[32], text[32];
    snprintf(key, sizeof key, "lock:%s", resource);
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    lock_cluster_fence_put(&cluster, node, key, text);
}

/* Of the nodes that have the key, those whose counter is exactly the token: a token is one when they are a quorum. */
static unsigned established(const char *resource, uint64_t token)
{
    unsigned nodes = 0;
    for (unsigned i = 0; i < NODES; i++)
        nodes += fence_of(&cluster, i, resource) == token &&
                 strcmp(lock_cluster_ask(&cluster, i, "EXISTS lock:%s", resource), "1") == 0;
    return nodes;
}

/* --- what a token is -------------------------------------------------------------------------------------------- */

/* E44: written as a decimal string, every digit of it; Lua's own text of the number would be 1.78e+15. */
TEST(a_counter_is_the_token_in_digits)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)acquire(&mine, "r"));
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    for (unsigned i = 0; i < NODES; i++)
        assert_string_equal(lock_cluster_fence(&cluster, i, "lock:r"), digits);
    release(&mine);
}

TEST(an_extension_changes_no_token)
{
    locks_destroy();
    locks_create(500);
    uint64_t token = acquire(&mine, "r");
    loop_await(loop, mine.extended >= 3);
    assert_true(redlock_lock_token(mine.lock) == token);
    assert_true(established("r", token) >= QUORUM);
    release(&mine);
    assert_true(redlock_lock_token(mine.lock) == 0);
}

TEST(an_unfenced_lock_has_none_and_leaves_no_counter)
{
    struct lock_probe bare;
    struct redlock_terms unfenced = terms;
    unfenced.unfenced = true;
    lock_probe_create(&bare, loop, group, &unfenced);
    assert_true(acquire(&bare, "r") == 0);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_BUSY);
    release(&bare);
    assert_true(acquire(&bare, "r s") == 0);
    release(&bare);
    lock_probe_destroy(&bare);
    assert_int_equal(lock_cluster_holders(&cluster, "hf:fences"), 0);
}

TEST(several_resources_have_one_token_above_all_of_their_counters)
{
    for (unsigned i = 0; i < NODES; i++)
        fence_set(i, "b", HIGH);
    uint64_t token = acquire(&mine, "a b c");
    assert_true(token > HIGH);
    assert_true(established("a", token) >= QUORUM);
    assert_true(established("b", token) >= QUORUM);
    assert_true(established("c", token) >= QUORUM);
    release(&mine);
    assert_true(cycle(&theirs, "c") > token);
    assert_true(cycle(&theirs, "a") > token);
}

/* --- nodes that count differently ------------------------------------------------------------------------------- */

TEST(nodes_that_all_differ_are_brought_to_one_token_in_a_second_round)
{
    uint64_t last = 0;
    for (unsigned round = 0; round < 6; round++) {
        for (unsigned i = 0; i < NODES; i++)
            fence_set(i, "r", HIGH + 100000 * round + 1000 * ((i * 3 + round) % NODES));
        uint64_t token = acquire(&mine, "r");
        assert_true(token > last && token < TOKENS_END);
        assert_true(token > HIGH + 100000 * round + 2000); /* at least the third highest: that of some majority */
        assert_true(established("r", token) >= QUORUM);
        assert_int_equal(mine.attempts, 1);
        last = token;
        release(&mine);
    }
}

TEST(one_node_alone_counts_as_well_and_goes_on_after_a_wipe)
{
    static struct lock_cluster single;
    struct lock_probe probe;
    lock_cluster_start(&single, 1);
    struct redlock_group *alone = lock_cluster_group(&single, loop);
    lock_probe_create(&probe, loop, alone, &terms);
    uint64_t last = 0;
    for (unsigned i = 0; i < 6; i++) {
        uint64_t token = acquire(&probe, "r");
        assert_true(token > last);
        assert_int_equal(fence_of(&single, 0, "r"), token);
        last = token;
        assert_int_equal(lock_probe_release(&probe), REDLOCK_RELEASED);
        if (i == 3)
            assert_string_equal(lock_cluster_ask(&single, 0, "FLUSHALL"), "OK"); /* now the clock orders them */
    }
    lock_probe_destroy(&probe);
    loop_await(loop, redlock_group_busy(alone) == 0);
    redlock_group_destroy(alone);
    lock_cluster_stop(&single);
}

/* --- the set ------------------------------------------------------------------------------------------------------ */

static void refused_with(const char *resources, const char *command)
{
    assert_int_equal(lock_probe_acquire(&mine, resources), REDLOCK_NO_QUORUM);
    assert_contains(mine.reason, "is no token");
    loop_await(loop, redlock_group_busy(group) == 0);
    if (lock_cluster_keys(&cluster) != 0)
        fail_msg("%s, %s: keys are left", command, resources);
}

static const char *of_set(const char *what)
{
    return lock_cluster_ask(&cluster, 0, "%s", what);
}

/* What was forgotten is below the floor, and a token is above it, wherever the clocks stand. */
TEST(a_set_is_bounded_and_its_floor_keeps_tokens_in_order)
{
    enum { RESOURCES = 700, MOST = 65536 / 176 + 2 * 64 };
    struct lock_cluster small = cluster;
    struct lock_probe probe;
    small.options.fence_memory = REDLOCK_FENCE_MEMORY_MIN;
    struct redlock_group *bounded = lock_cluster_group(&small, loop);
    lock_probe_create(&probe, loop, bounded, &terms);
    uint64_t first = 0;
    for (unsigned i = 0; i < RESOURCES; i++) {
        char resource[16];
        snprintf(resource, sizeof resource, "r%u", i);
        uint64_t token = acquire(&probe, resource);
        first = i == 0 ? token : first;
        assert_int_equal(lock_probe_release(&probe), REDLOCK_RELEASED);
    }
    loop_await(loop, redlock_group_busy(bounded) == 0);
    assert_in_range(strtoul(of_set("ZCARD hf:fences"), NULL, 10), MOST / 2, MOST);
    assert_true(strtoull(of_set("GET hf:fences:floor"), NULL, 10) >= first);
    assert_string_equal(of_set("ZSCORE hf:fences lock:r0"), "(nil)");
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_ask(&cluster, i, "SET hf:fences:floor %llu", (unsigned long long)HIGH);
    assert_true(acquire(&probe, "r0") > HIGH);
    assert_int_equal(lock_probe_release(&probe), REDLOCK_RELEASED);
    assert_true(acquire(&probe, "new r1") > HIGH);
    assert_int_equal(lock_probe_release(&probe), REDLOCK_RELEASED);
    lock_probe_destroy(&probe);
    loop_await(loop, redlock_group_busy(bounded) == 0);
    redlock_group_destroy(bounded);
}

/* As `holdfast lock` does: a process a lock. */
TEST(clients_of_one_lock_each_bound_the_set_too)
{
    enum { MOST = 65536 / 176, BEFORE = 2 * MOST, CLIENTS_MAX = 100 * 64 };
    struct lock_cluster small = cluster;
    small.options.fence_memory = REDLOCK_FENCE_MEMORY_MIN;
    for (unsigned i = 0; i < BEFORE; i++)
        lock_cluster_ask(&cluster, 0, "ZADD hf:fences %u lock:old:%u", i + 1, i);
    unsigned clients = 0;
    for (; strtoul(of_set("ZCARD hf:fences"), NULL, 10) > MOST && clients < CLIENTS_MAX; clients++) {
        struct redlock_group *brief = lock_cluster_group(&small, loop);
        struct lock_probe probe;
        lock_probe_create(&probe, loop, brief, &terms);
        acquire(&probe, "r");
        assert_int_equal(lock_probe_release(&probe), REDLOCK_RELEASED);
        lock_probe_destroy(&probe);
        loop_await(loop, redlock_group_busy(brief) == 0);
        redlock_group_destroy(brief);
    }
    assert_in_range(clients, 1, CLIENTS_MAX - 1);
}

static void floor_is(const char *set)
{
    for (unsigned i = 0; i < NODES; i++) {
        lock_cluster_ask(&cluster, i, "DEL hf:fences:floor");
        lock_cluster_ask(&cluster, i, "%s", set);
    }
}

/* A list reads as nothing where many keys are read at once: the next look at the node sees it. */
TEST(a_node_whose_floor_is_a_list_has_no_vote)
{
    floor_is("RPUSH hf:fences:floor 1");
    loop_await(loop, redlock_group_voters(group) < QUORUM);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_NO_QUORUM);
    assert_contains(mine.reason, "(bad_fences)");
    floor_is("SET hf:fences:floor 1700000000000000");
    loop_await(loop, redlock_group_voters(group) == NODES);
    cycle(&mine, "r");
}

TEST(a_floor_that_is_no_number_is_no_vote)
{
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_ask(&cluster, i, "SET hf:fences:floor nonsense");
    refused_with("r", "a floor");
    refused_with("a r z", "a floor");
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_ask(&cluster, i, "DEL hf:fences:floor");
    cycle(&mine, "r");
}

TEST(a_long_name_has_a_short_entry)
{
    char resource[301] = "";
    memset(resource, 'n', sizeof resource - 1);
    uint64_t token = cycle(&mine, resource);
    assert_int_equal(strlen(of_set("ZRANGE hf:fences 0 -1")), 1 + 40);
    assert_true(cycle(&theirs, resource) > token);
    assert_string_equal(of_set("ZCARD hf:fences"), "1");
}

/* All ask at one moment, with one proposal: the locks of a call whose fence is as high already get a higher token. */
TEST(a_proposal_that_is_no_news_is_counted_on)
{
    for (unsigned i = 0; i < NODES; i++)
        fence_set(i, "r", HIGH);
    struct lock_probe neighbour;
    lock_probe_create(&neighbour, loop, group, &terms);
    lock_probe_ask(&neighbour, "r");
    lock_probe_ask(&mine, "s");
    loop_await(loop, mine.answers == 1 && neighbour.answers == 1);
    assert_true(redlock_lock_token(neighbour.lock) > HIGH);
    assert_true(redlock_lock_token(mine.lock) < HIGH);
    assert_true(established("s", redlock_lock_token(mine.lock)) >= QUORUM);
    assert_int_equal(lock_probe_release(&neighbour), REDLOCK_RELEASED);
    lock_probe_destroy(&neighbour);
    release(&mine);
}

/* --- what cannot be counted on ---------------------------------------------------------------------------------- */

static const char *const unusable[] = {
    "hello", "nan", "inf", "1e300", "9007199254740992", "9007199254740990",
};

static void fence_spoil(unsigned first_nodes, const char *text)
{
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_ask(&cluster, i, "DEL hf:fences");
    for (unsigned i = 0; i < first_nodes; i++)
        lock_cluster_fence_put(&cluster, i, "lock:r", text);
}

TEST(an_unusable_counter_on_a_majority_refuses_with_its_name_and_stays_as_it_is)
{
    for (size_t i = 0; i < sizeof unusable / sizeof unusable[0]; i++) {
        char before[2][96];
        fence_spoil(QUORUM, unusable[i]);
        for (unsigned node = 0; node < 2; node++)
            snprintf(before[node], sizeof before[node], "%s", lock_cluster_fence(&cluster, node, "lock:r"));
        refused_with("r", unusable[i]);
        refused_with("a r z", unusable[i]);
        for (unsigned node = 0; node < 2; node++)
            assert_string_equal(lock_cluster_fence(&cluster, node, "lock:r"), before[node]);
        cycle(&mine, "a"); /* its neighbours in the call are not concerned */
    }
    fence_spoil(QUORUM, NULL);
    refused_with("r", "a list");
    refused_with("a r z", "a list");
    for (unsigned node = 0; node < 2; node++)
        assert_contains(lock_cluster_fence(&cluster, node, "lock:r"), "WRONGTYPE");
}

TEST(an_unusable_counter_on_a_minority_is_a_vote_less)
{
    uint64_t last = cycle(&mine, "r");
    for (size_t i = 0; i < sizeof unusable / sizeof unusable[0]; i++) {
        for (unsigned node = 0; node < MINORITY; node++)
            lock_cluster_fence_put(&cluster, node, "lock:r", unusable[i]);
        uint64_t token = acquire(&mine, "r");
        assert_true(token > last);
        assert_int_equal(established("r", token), QUORUM);
        release(&mine);
        assert_int_equal(lock_cluster_keys(&cluster), 0);
        last = token;
    }
}

/* Two locks in one call to each node, one of them with an unusable counter. */
TEST(one_bad_counter_does_not_harm_others_in_the_same_call)
{
    fence_spoil(NODES, "inf");
    struct lock_probe neighbour;
    lock_probe_create(&neighbour, loop, group, &terms);
    lock_probe_ask(&neighbour, "r");
    lock_probe_ask(&mine, "s");
    loop_await(loop, mine.answers == 1 && neighbour.answers == 1);
    assert_int_equal(mine.answer, REDLOCK_ACQUIRED);
    assert_int_equal(mine.attempts, 1);
    assert_int_equal(neighbour.answer, REDLOCK_NO_QUORUM);
    lock_probe_destroy(&neighbour);
    release(&mine);
}

static uint64_t granted_by_hand(const struct redis_script *script, const char *key, uint64_t proposal)
{
    char marker[MARKER_TEXT_MAX];
    snprintf(marker, sizeof marker, "%s", lock_cluster_ask(&cluster, 0, "GET " MARKER_KEY));
    const char *reply =
        lock_cluster_ask(&cluster, 0, "EVALSHA %s 2 " MARKER_KEY " %s \"%s\" %llu 5000 %llu v", script->sha1, key,
                         marker, (unsigned long long)TOKENS_END, (unsigned long long)proposal);
    if (reply[0] != '0' || strchr(reply, '+') == NULL)
        fail_msg("not granted: %s", reply);
    for (unsigned word = 0; word < 3; word++) /* the code and the time */
        reply = strchr(reply, ' ') + 1;
    return strtoull(reply + (*reply == '+'), NULL, 10);
}

static uint64_t now_us(void)
{
    return (uint64_t)wall_now().us;
}

/* A client whose idea of the time is far ahead cannot drive the counters there: a minute is all it can do. */
TEST(a_proposal_far_ahead_is_cut_to_a_minute_from_now)
{
    const uint64_t minute = UINT64_C(60000000);
    uint64_t before = now_us();
    uint64_t token = granted_by_hand(&redlock_script_grant, "lock:r", HIGH);
    assert_in_range(token, before + minute, now_us() + minute);
    token = granted_by_hand(&redlock_script_grant_all, "lock:s", HIGH);
    assert_in_range(token, before + minute, now_us() + minute);
    token = granted_by_hand(&redlock_script_grant, "lock:t", before - minute);
    assert_int_equal(token, before - minute);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, lock_set_up, lock_tear_down)
