/* E26: a long hold survives lock nodes that forget it, one after the other, because its holder plants its key again;
 * and only where nobody else can rightly have had it meanwhile: on a node that acknowledged it in this hold, before
 * the time at which it would have expired there, and where neither key nor fence speak of somebody else. A node that
 * votes and does not have the key is given it again, too, where neither speaks of somebody else. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "redlock/group_private.h"
#include "redlock/scripts.h"
#include "tests/support/lock_fixture.h"
#include "tests/support/lock_group.h"

/* The quarantine (of the usual 60 s) is longer than any wait here: what comes back to a node comes from the hold,
 * not from a new grant. */
enum { TTL_MS = 3000, SHORT_TTL_MS = 4 * CLUSTER_TIMEOUT_MS };

static void terms_change(int64_t ttl_ms, bool unfenced)
{
    locks_destroy();
    locks_create(ttl_ms);
    redlock_lock_destroy(mine.lock);
    terms.unfenced = unfenced;
    lock_probe_create(&mine, loop, group, &terms);
}

static uint64_t hold(const char *resources)
{
    assert_int_equal(lock_probe_acquire(&mine, resources), REDLOCK_ACQUIRED);
    return redlock_lock_token(mine.lock);
}

static bool node_has(unsigned node, const char *key)
{
    return strcmp(lock_cluster_ask(&cluster, node, "EXISTS %s", key), "1") == 0;
}

static void let_go(enum redlock_ending ending)
{
    assert_int_equal(mine.losses, 0);
    assert_int_equal(lock_probe_release(&mine), ending);
    loop_await(loop, redlock_group_busy(group) == 0);
}

/* So many more extensions have succeeded: what was to be planted again would be there by now. */
static void await_extensions(unsigned more)
{
    unsigned before = mine.extended;
    loop_await(loop, mine.extended >= before + more);
}

/* The loop goes on meanwhile, so that a hold lasts however long a server takes to end, or to start. */
static void node_kill(unsigned node)
{
    redis_server_kill_begin(cluster.servers[node]);
    loop_await(loop, redis_server_is_gone(cluster.servers[node]));
}

static void node_restart(unsigned node)
{
    node_kill(node);
    redis_server_restart_begin(cluster.servers[node]);
    loop_await(loop, redis_server_is_back(cluster.servers[node]));
}

/* In one step, so that nothing comes in between: the node forgets everything, and then knows this. */
static void forget_but(unsigned node, const char *command)
{
    lock_cluster_ask(&cluster, node, "EVAL \"redis.call('FLUSHALL') %s\" 0", command);
    assert_false(node_has(node, MARKER_KEY));
}

TEST(a_hold_survives_all_its_nodes_restarted_empty_one_after_the_other)
{
    terms_change(TTL_MS, false);
    uint64_t token = hold("q r");
    char value[128], digits[32];
    snprintf(value, sizeof value, "%s", lock_cluster_ask(&cluster, 0, "GET lock:r"));
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)token);
    loop_await(loop, lock_cluster_keys(&cluster) == 2 * NODES);
    for (unsigned i = 0; i < NODES; i++) {
        node_restart(i);
        loop_await(loop, node_has(i, "lock:r") || mine.losses > 0);
        assert_int_equal(mine.losses, 0);
        assert_true(node_has(i, "lock:q"));
        assert_string_equal(lock_cluster_ask(&cluster, i, "GET lock:r"), value);
        assert_string_equal(lock_cluster_fence(&cluster, i, "lock:r"), digits);
        assert_string_equal(lock_cluster_fence(&cluster, i, "lock:q"), digits);
        assert_in_range(strtoll(lock_cluster_ask(&cluster, i, "PTTL lock:r"), NULL, 10), 1, TTL_MS);
        await_extensions(1);
    }
    assert_true(redlock_lock_token(mine.lock) == token);
    assert_int_equal(redlock_group_voters(group), 0); /* and yet no restarted node has granted anything to anybody */
    assert_int_equal(lock_probe_acquire(&theirs, "r"), REDLOCK_NO_QUORUM);
    await_extensions(3);
    let_go(REDLOCK_RELEASED);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
}

/* Condition a. */
TEST(a_node_that_never_granted_this_hold_gets_nothing)
{
    terms_change(SHORT_TTL_MS, false);
    node_kill(0);
    loop_await(loop, redlock_group_nodes_up(group) == NODES - 1);
    hold("r");
    node_restart(0);
    loop_await(loop, redlock_group_nodes_up(group) == NODES && redlock_group_is_settled(group));
    await_extensions(4);
    assert_false(node_has(0, "lock:r"));
    let_go(REDLOCK_RELEASED);
}

/* Condition b: by then its key would have expired there, and somebody else might have had the node's vote. */
TEST(a_node_that_was_away_for_longer_than_the_ttl_gets_nothing)
{
    terms_change(SHORT_TTL_MS, false);
    hold("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    node_kill(0);
    struct instant gone = instant_now();
    loop_await(loop, instant_since(gone, instant_now()) > REDLOCK_MS(SHORT_TTL_MS));
    node_restart(0);
    loop_await(loop, redlock_group_nodes_up(group) == NODES && redlock_group_is_settled(group));
    await_extensions(4);
    assert_false(node_has(0, "lock:r"));
    let_go(REDLOCK_RELEASED);
}

/* Condition c: the fence was counted up, so somebody else was granted the key in between. */
TEST(a_node_whose_fence_is_higher_gets_nothing)
{
    static const char *const commands[] = {
        "'ZADD','hf:fences',n,'lock:r'",
        "'RPUSH','hf:fences',n",
        "'SET','hf:fences:floor','text'",
    };
    for (size_t kind = 0; kind < sizeof commands / sizeof commands[0]; kind++) {
        lock_tear_down(NULL);
        lock_set_up(NULL);
        terms_change(SHORT_TTL_MS, false);
        char command[128];
        snprintf(command, sizeof command, "local n = '%llu' redis.call(%s)", (unsigned long long)hold("r") + 1,
                 commands[kind]);
        loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
        forget_but(0, command);
        await_extensions(4);
        assert_false(node_has(0, "lock:r"));
        let_go(REDLOCK_RELEASED);
    }
}

TEST(a_node_whose_fence_is_ours_or_lower_gets_the_key_back)
{
    terms_change(TTL_MS, false);
    char command[160];
    snprintf(command, sizeof command,
             "redis.call('SET','hf:fences:floor','%llu') redis.call('ZADD','hf:fences','7','lock:r')",
             (unsigned long long)hold("r") + 1);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    forget_but(0, command);
    forget_but(1, "redis.call('ZADD','hf:fences','7','lock:r')");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES || mine.losses > 0);
    let_go(REDLOCK_RELEASED);
}

TEST(what_somebody_else_has_there_stays_his)
{
    terms_change(SHORT_TTL_MS, false);
    hold("q r");
    loop_await(loop, lock_cluster_keys(&cluster) == 2 * NODES);
    forget_but(0, "redis.call('SET','lock:r','other','PX',60000)");
    await_extensions(4);
    assert_string_equal(lock_cluster_ask(&cluster, 0, "GET lock:r"), "other");
    assert_false(node_has(0, "lock:q")); /* all of its keys or none */
    let_go(REDLOCK_RELEASED);
    assert_string_equal(lock_cluster_ask(&cluster, 0, "GET lock:r"), "other");
}

/* Without a fence nothing would tell whether somebody else was there. */
TEST(an_unfenced_hold_plants_nothing_again)
{
    terms_change(SHORT_TTL_MS, true);
    hold("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    for (unsigned i = 0; i < MINORITY; i++)
        forget_but(i, "");
    await_extensions(4);
    assert_int_equal(lock_cluster_holders(&cluster, "lock:r"), QUORUM);
    let_go(REDLOCK_RELEASED);
}

/* --- nodes that vote ---------------------------------------------------------------------------------------------- */

static void all_vote(void)
{
    loop_for(loop, REDLOCK_MS(CLUSTER_MAX_TTL_MS));
    loop_await(loop, redlock_group_voters(group) == NODES);
}

/* E25, E49: what is deleted at a majority is lost; at fewer nodes the hold goes on, and has it there again. */
TEST(a_key_that_a_minority_lost_is_given_again)
{
    terms_change(SHORT_TTL_MS, false);
    uint64_t token = hold("q r");
    char digits[32];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)token);
    loop_await(loop, lock_cluster_keys(&cluster) == 2 * NODES);
    ask_first(MINORITY, "DEL lock:r");
    loop_await(loop, lock_cluster_keys(&cluster) == 2 * NODES);
    for (unsigned i = 0; i < MINORITY; i++)
        assert_string_equal(lock_cluster_fence(&cluster, i, "lock:r"), digits);
    await_extensions(2);
    ask_first(QUORUM, "DEL lock:r");
    loop_await(loop, mine.losses == 1);
    assert_int_equal(mine.loss, REDLOCK_LOST_TAKEN);
    lock_probe_release(&mine);
}

static void keep_gone(const char *command)
{
    ask_first(MINORITY, command);
    await_extensions(4);
    assert_int_equal(lock_cluster_holders(&cluster, "lock:r"), QUORUM);
    let_go(REDLOCK_RELEASED);
}

TEST(it_is_not_given_again_where_somebody_was_granted_it)
{
    terms_change(SHORT_TTL_MS, false);
    hold("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    keep_gone("EVAL \"redis.call('DEL','lock:r') redis.call('ZADD','hf:fences',9007199254740000,'lock:r')\" 0");
}

TEST(it_is_not_given_again_in_an_unfenced_hold)
{
    terms_change(SHORT_TTL_MS, true);
    hold("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    keep_gone("DEL lock:r");
}

/* Not while it may have forgotten locks. */
TEST(a_node_that_was_down_is_given_it_when_it_votes)
{
    terms_change(SHORT_TTL_MS, false);
    node_kill(0);
    loop_await(loop, redlock_group_nodes_up(group) == NODES - 1);
    hold("r");
    node_restart(0);
    loop_await(loop, redlock_group_nodes_up(group) == NODES && redlock_group_is_settled(group));
    await_extensions(4);
    assert_false(node_has(0, "lock:r"));
    all_vote();
    loop_await(loop, node_has(0, "lock:r") || mine.losses > 0);
    let_go(REDLOCK_RELEASED);
    assert_int_equal(lock_cluster_keys(&cluster), 0); /* the release reached it, too */
}

/* The code that the script answers, and behind it whether it planted. */
static const char *planted_by_hand(const char *marker, const char *value, unsigned token, const char *deadline)
{
    static char outcome[4];
    const char *reply = lock_cluster_ask(&cluster, 0, "EVALSHA %s 2 " MARKER_KEY " lock:r \"%s\" %s %s %u 60000",
                                         redlock_script_replant.sha1, marker, deadline, value, token);
    size_t length = strlen(reply);
    while (length > 1 && reply[length - 1] == '\n')
        length--;
    snprintf(outcome, sizeof outcome, "%c%c", reply[0], reply[0] == '0' ? reply[length - 1] : ' ');
    return outcome;
}

/* The node has the last word, in its own time: a request may lie in its socket for long (condition b), and the marker
 * may have changed meanwhile. */
TEST(a_replant_that_comes_late_or_to_another_marker_does_nothing)
{
    char marker[MARKER_TEXT_MAX], now[32], soon[32];
    snprintf(marker, sizeof marker, "%s", lock_cluster_ask(&cluster, 0, "GET " MARKER_KEY));
    snprintf(now, sizeof now, "%lld", (long long)wall_now().us);
    snprintf(soon, sizeof soon, "%lld", (long long)wall_now().us + 60000000);
    assert_string_equal(planted_by_hand(marker, "v", 7, now), "2 ");
    assert_string_equal(planted_by_hand(MARKER_NONE, "v", 7, soon), "1 ");
    assert_int_equal(lock_cluster_keys(&cluster), 0);
    assert_string_equal(planted_by_hand(marker, "v", 7, soon), "01");
    assert_string_equal(lock_cluster_ask(&cluster, 0, "GET lock:r"), "v");
    assert_string_equal(planted_by_hand(marker, "v", 7, soon), "01"); /* repeated after a lost reply */
    assert_string_equal(planted_by_hand(marker, "w", 8, soon), "00");
    assert_string_equal(planted_by_hand(marker, "v", 6, soon), "00");
}

static bool is_over, is_confirmed;

static void verified(struct redlock_verify *verify, bool is_held)
{
    (void)verify;
    is_over = true;
    is_confirmed = is_held;
}

/* An extension now. */
static void extend_now(struct redlock_verify *verify)
{
    *verify = (struct redlock_verify){.done = verified};
    is_over = false;
    redlock_lock_verify(mine.lock, verify);
}

/* E30. In a cycle of the loop releases leave first: what was to be planted again must not leave behind them. */
TEST(a_key_that_is_released_in_the_same_turn_is_not_planted_again)
{
    struct redlock_verify verify;
    const struct trust_node *trusted = &group->trust.node[0];
    terms_change(10000, false);
    hold("r");
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    forget_but(0, "");
    extend_now(&verify);
    loop_await(loop, is_over);
    assert_true(is_confirmed);
    loop_await(loop, trusted->state == TRUST_QUARANTINED && trusted->has_marker);
    assert_false(node_has(0, "lock:r"));
    extend_now(&verify); /* would plant it */
    redlock_lock_release(mine.lock);
    loop_await(loop, mine.releases == 1 && redlock_group_busy(group) == 0);
    assert_int_equal(mine.ending, REDLOCK_RELEASED);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, lock_set_up, lock_tear_down)
