/* holdfast contention against a real server: what it tells of the counts of days, and of who waits now. */
#include "tests/support/admin_fixture.h"

#include <time.h>

/* Into the counts of so many days ago, by the server's clock; the test may cross midnight, hence the day before too. */
static void given_count(int days_ago, const char *field, int number)
{
    time_t then = time(NULL) - days_ago * 86400;
    struct tm parts;
    gmtime_r(&then, &parts);
    given("HSET hf:2:locks:%04d%02d%02d \"%s\" %d", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, field,
          number);
}

static void given_counts(int days_ago)
{
    given_count(days_ago, "transfer|acct:|acquired", 1000);
    given_count(days_ago, "transfer|acct:|waited", 70);
    given_count(days_ago, "transfer|acct:|parked", 60);
    given_count(days_ago, "transfer|acct:|handed_over", 50);
    given_count(days_ago, "transfer|acct:|lost", 2);
    given_count(days_ago, "transfer|acct:|fenced_off", 1);
    given_count(days_ago, "transfer|acct:|wait.40", 98);
    given_count(days_ago, "transfer|acct:|wait.72", 2);
    given_count(days_ago, "transfer|acct:|hold.127", 3);
    given_count(days_ago, "render|key:|acquired", 5);
    given_count(days_ago, "render|key:|skipped", 500);
}

static void given_waiting(const char *list, int waiters)
{
    given("ZADD hf:2:contended %d %s", 1000 - waiters, list);
    for (int i = 0; i < waiters; i++)
        given_parked(list, i, 9000000000 + i);
}

TEST(counts_are_told_by_class_and_kind)
{
    given_counts(1);
    admin_good("contention", "--json", "--days", "2");
    assert_contains(result.out, "\"days\":2,\"locks\":[{\"class\":\"render\",\"prefix\":\"key:\",\"acquired\":5,"
                                "\"waited\":0,\"parked\":0,\"handed_over\":0,\"skipped\":500,\"lost\":0,"
                                "\"fenced_off\":0,\"wait\":{\"count\":0,\"p50_below\":null,\"p99_below\":null,"
                                "\"steps\":[0,");
    assert_contains(result.out, "{\"class\":\"transfer\",\"prefix\":\"acct:\",\"acquired\":1000,\"waited\":70,"
                                "\"parked\":60,\"handed_over\":50,\"skipped\":0,\"lost\":2,\"fenced_off\":1,"
                                "\"wait\":{\"count\":100,\"p50_below\":0.02048,\"p99_below\":5.24288,\"steps\":[0,");
    assert_contains(result.out, "\"hold\":{\"count\":3,\"p50_below\":68719.476736,\"p99_below\":68719.476736,");
    assert_contains(result.out, "],\"waiting\":[],\"waiting_cut\":false}\n");
    admin_good("contention", "--days", "2");
    assert_contains(result.out, "CLASS     RESOURCES  ACQUIRED  WAITED  PARKED  HANDED  SKIPPED  LOST  FENCED  ");
    assert_contains(result.out, "\nrender    key:              5       0       0       0      500     0       0  ");
    assert_contains(result.out, " <20.5 ms   <5.24 s      <19h      <19h\n");
    assert_contains(result.out, "are upper bounds");
    assert_contains(result.out, "\nno task waits\n");
    assert_lacks(result.out, "\x1b");
    admin_good("contention", "--days", "2", "--class", "transfer");
    assert_lacks(result.out, "render");
    admin_good("contention", "--days", "2", "--prefix", "key");
    assert_lacks(result.out, "transfer");
    assert_contains(result.out, "render");
}

TEST(days_are_added_up_as_far_as_asked)
{
    given_counts(1);
    given_counts(3);
    given_counts(10);
    admin_good("contention", "--json", "--days", "14");
    assert_contains(result.out, "\"acquired\":3000,");
    admin_good("contention", "--json", "--days", "6");
    assert_contains(result.out, "\"acquired\":2000,");
    admin("contention", "--days", "15");
    assert_int_equal(result.exit_code, 2);
    assert_contains(result.error, "1 to 14");
    given("FLUSHALL");
    admin_good("contention");
    assert_contains(result.out, "no lock was counted today (UTC): --days looks further back\n");
}

TEST(lists_with_waiters_are_told_the_longest_first)
{
    given_waiting("resource:acct:7", 2);
    given_waiting("resource:acct:8", 5);
    given_waiting("class:render", 3);
    given("ZADD hf:2:contended 1 resource:empty 2 resource:foreign 3 strange");
    given("SET hf:2:waiting:resource:foreign x");
    given_parked("strange", 1, 9e9);
    admin_good("contention", "--json");
    assert_contains(result.out, "\"waiting\":[{\"for\":\"resource\",\"name\":\"acct:8\",\"tasks\":5},"
                                "{\"for\":\"class\",\"name\":\"render\",\"tasks\":3},"
                                "{\"for\":\"resource\",\"name\":\"acct:7\",\"tasks\":2},"
                                "{\"for\":null,\"name\":\"strange\",\"tasks\":1}],");
    admin_good("contention");
    assert_contains(result.out, "\nresource     acct:8       5\nclass        render       3\n");
}

TEST(names_cannot_steer_a_terminal_and_foreign_keys_are_told)
{
    given_count(1, "a\\x1b[2J|x\\xe2\\x80\\xae:|acquired", 1);
    given("ZADD hf:2:contended 1 \"resource:\\x1b[31mred\\n\"");
    given_parked("\"resource:\\x1b[31mred\\n\"", 1, 9e9);
    given("EVAL \"redis.call('ZADD', 'hf:2:contended', 1, string.rep('x', 5000)) return 1\" 0");
    admin_good("contention", "--days", "2");
    assert_lacks(result.out, "\x1b");
    assert_contains(result.out, "31mred");
    admin_good("contention", "--days", "2", "--json");
    assert_lacks(result.out, "\x1b");
    given("FLUSHALL");
    given("SET hf:2:contended x");
    given_count(1, "a|x:|acquired", 1);
    given("EVAL \"local day = redis.call('KEYS', 'hf:2:locks:*')[1] redis.call('SET', day, 'x') return 1\" 0");
    admin("contention", "--days", "2");
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.error, "cannot be read: WRONGTYPE");
    assert_contains(result.out, "who waits is not known");
}

RUN_ADMIN_TESTS
