/* Who holds a lock, judged from what each node has: majorities, leftovers, and what cannot be known. */
#include "tests/support/test.h"

#include "redlock/holders.h"

enum { NODES = 5 };

static struct redlock_key_view keys[NODES];
static struct key_status statuses[NODES];
static struct redlock_holder holders[REDLOCK_HOLDERS_MAX];

#define OURS "0123456789abcdef0123456789abcdef:host:1:0:jid"

/* All answer, vote and have nothing. */
static void begin(void)
{
    memset(keys, 0, sizeof keys);
    for (unsigned i = 0; i < NODES; i++) {
        keys[i].is_answered = true;
        statuses[i] = (struct key_status){.votes = true, .key = &keys[i]};
    }
}

static void given(unsigned node, const char *value, int64_t remaining_ms, uint64_t fence)
{
    keys[node].kind = REDLOCK_KEY_VALUE;
    keys[node].length = strlen(value);
    memcpy(keys[node].value, value, keys[node].length + 1);
    keys[node].remaining_ms = remaining_ms < 0 ? -1 : remaining_ms;
    keys[node].fence = fence;
}

static unsigned judge(void)
{
    return holders_judge(statuses, NODES, holders);
}

TEST(nothing_is_nobody)
{
    assert_int_equal(judge(), 0);
    for (unsigned i = 0; i < NODES; i++)
        keys[i].is_answered = false;
    assert_int_equal(judge(), 0);
}

TEST(a_majority_holds)
{
    given(1, OURS, 100, 7);
    given(2, OURS, 300, 7);
    given(4, OURS, 200, 7);
    assert_int_equal(judge(), 1);
    assert_int_equal(holders[0].standing, REDLOCK_HELD);
    assert_int_equal(holders[0].node, 1);
    assert_int_equal(holders[0].nodes, 3);
    assert_int_equal(holders[0].votes, 3);
    assert_int_equal(holders[0].remaining_ms, 300);
    assert_int_equal(holders[0].token, 7);
    assert_string_equal(holders[0].owner, "host:1:0:jid");
}

TEST(a_minority_is_a_leftover)
{
    given(0, OURS, 100, 7);
    given(1, OURS, -1, 7);
    assert_int_equal(judge(), 1);
    assert_int_equal(holders[0].standing, REDLOCK_LEFTOVER);
    assert_int_equal(holders[0].remaining_ms, -1);
    assert_int_equal(holders[0].token, 0); /* two are no majority */
}

TEST(who_does_not_answer_may_have_it_too)
{
    given(0, OURS, 100, 7);
    given(1, OURS, 100, 7);
    keys[4].is_answered = false;
    assert_int_equal(judge(), 1);
    assert_int_equal(holders[0].standing, REDLOCK_HELD_MAYBE);
    given(1, "another", 100, 7);
    assert_int_equal(judge(), 2);
    assert_int_equal(holders[0].standing, REDLOCK_LEFTOVER);
    assert_int_equal(holders[1].standing, REDLOCK_LEFTOVER);
}

/* What a quarantined node has was there before it forgot, or was planted again: nobody knows. */
TEST(who_does_not_vote_counts_for_a_maybe)
{
    for (unsigned i = 0; i < 3; i++)
        given(i, OURS, 100, 7);
    statuses[2].votes = false;
    assert_int_equal(judge(), 1);
    assert_int_equal(holders[0].nodes, 3);
    assert_int_equal(holders[0].votes, 2);
    assert_int_equal(holders[0].standing, REDLOCK_HELD_MAYBE);
}

TEST(values_are_sorted_by_their_nodes)
{
    given(0, "a", 100, 0);
    given(1, OURS, 100, 0);
    given(2, "b", 100, 0);
    given(3, OURS, 100, 0);
    assert_int_equal(judge(), 3);
    assert_int_equal(holders[0].node, 1);
    assert_int_equal(holders[0].nodes, 2);
    assert_int_equal(holders[1].node, 0);
    assert_int_equal(holders[2].node, 2);
}

TEST(bytes_are_compared_behind_a_nul)
{
    given(0, "a", 100, 0);
    given(1, "a", 100, 0);
    keys[0].length = keys[1].length = 3;
    memcpy(keys[0].value, "a\0b", 3);
    memcpy(keys[1].value, "a\0c", 3);
    assert_int_equal(judge(), 2);
}

/* A value that was not read to its end is not compared with anything. */
TEST(what_was_not_read_is_alone)
{
    keys[2].kind = keys[3].kind = REDLOCK_KEY_LONG;
    assert_int_equal(judge(), 2);
    assert_null(holders[0].owner);
}

/* Hashes, lists and the like are shown together: a node each. */
TEST(what_is_no_string_is_one)
{
    keys[0].kind = keys[1].kind = REDLOCK_KEY_NO_STRING;
    given(2, "a", 100, 0);
    assert_int_equal(judge(), 2);
    assert_int_equal(holders[0].nodes, 2);
    assert_null(holders[0].owner);
}

TEST(values_of_others_have_no_owner)
{
    given(0, "0123456789abcdef0123456789abcdeX:host:1:0:jid", 100, 0);
    given(1, "0123456789abcdef0123456789abcdef", 100, 0);
    given(2, OURS, 100, 0);
    keys[2].value[keys[2].length - 2] = '\0';
    assert_int_equal(judge(), 3);
    for (unsigned i = 0; i < 3; i++)
        assert_null(holders[i].owner);
}

/* A node that took part late has another counter until the token is raised there. */
TEST(a_token_needs_a_majority)
{
    given(0, OURS, 100, 3);
    for (unsigned i = 1; i < 4; i++)
        given(i, OURS, 100, 9);
    assert_int_equal(judge(), 1);
    assert_int_equal(holders[0].token, 9);
    keys[3].fence = 10;
    assert_int_equal(judge(), 1);
    assert_int_equal(holders[0].token, 0);
}

static void given_reader(unsigned node, const char *value, int64_t remaining_ms)
{
    struct redlock_reader_view *reader = &keys[node].readers[keys[node].reader_count++];
    given(node, "hf:shared", remaining_ms, 7);
    reader->length = (size_t)snprintf(reader->value, sizeof reader->value, "%s", value);
    reader->remaining_ms = remaining_ms;
}

TEST(each_reader_holds_by_a_majority_of_its_own)
{
    static const char other[] = "fedcba9876543210fedcba9876543210:host:2:0:jid";
    for (unsigned i = 0; i < 3; i++)
        given_reader(i, OURS, 100 + i);
    for (unsigned i = 1; i < 5; i++)
        given_reader(i, other, 200);
    given_reader(4, "0000000000000000ffffffffffffffff:left", 50);
    assert_int_equal(judge(), 3);
    assert_string_equal(holders[0].owner, "host:2:0:jid");
    assert_int_equal(holders[0].nodes, 4);
    assert_int_equal(holders[0].token, 7);
    assert_string_equal(holders[1].owner, "host:1:0:jid");
    assert_int_equal(holders[1].standing, REDLOCK_HELD);
    assert_int_equal(holders[1].remaining_ms, 102);
    assert_int_equal(holders[2].standing, REDLOCK_LEFTOVER);
    for (unsigned i = 0; i < 3; i++)
        assert_true(holders[i].is_reader);
}

TEST(of_too_many_readers_those_on_most_nodes_are_shown)
{
    char value[80];
    for (unsigned i = 0; i < 2 * REDLOCK_READERS_MAX; i++) {
        snprintf(value, sizeof value, "0123456789abcdef0123456789abcdef:host:%u:0:jid", i);
        given_reader(i < REDLOCK_READERS_MAX ? 0 : 1, value, 100);
        if (i >= REDLOCK_READERS_MAX)
            given_reader(2, value, 100);
    }
    assert_int_equal(judge(), REDLOCK_HOLDERS_MAX);
    for (unsigned i = 0; i < REDLOCK_HOLDERS_MAX; i++)
        assert_int_equal(holders[i].nodes, 2);
}

RUN_TESTS_BETWEEN(begin, NULL)
