/* Tasks that name what cannot be locked, and lock nodes that have something else under a task's key: nothing of it
 * runs, nothing of others is touched, and the reason is where people look. The prefix is empty: a resource is a key. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "redlock/marker.h"
#include "tests/support/one_fleet.h"

#define BARE "ttl = \"1s\"; prefix = \"\"; tries = 3; park_delay = \"50ms\"; "

static void work_until_drained(void)
{
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.lock = BARE, .arguments = "--drain"});
    assert_int_equal(fleet_wait(&fleet, worker), 0);
}

/* All keys of a lock node but its marker. */
static unsigned lock_keys(unsigned node)
{
    return (unsigned)strtoul(lock_cluster_ask(&fleet.locks, node, "DBSIZE"), NULL, 10) - 1;
}

static void buried_because(const char *resource, const char *reason)
{
    char marker[MARKER_TEXT_MAX];
    snprintf(marker, sizeof marker, "%s", lock_cluster_ask(&fleet.locks, 0, "GET " MARKER_KEY));
    free(fleet_ask(&fleet, "DEL dead"));
    free(fleet_ask(&fleet, "LPUSH queue:jobs '{\"class\":\"note\",\"args\":[],\"jid\":\"bad\",\"resource\":%s}'",
                   resource));
    work_until_drained();
    assert_int_equal(fleet_number(&fleet, "ZCARD dead"), 1);
    char *entry = fleet_ask(&fleet, "ZRANGE dead 0 -1");
    if (strstr(entry, reason) == NULL || strstr(entry, "hf.invalid") == NULL)
        fail_msg("resource %s: not buried because of \"%s\": %s", resource, reason, entry);
    free(entry);
    for (unsigned i = 0; i < fleet.locks.count; i++)
        assert_int_equal(lock_keys(i), 0);
    assert_string_equal(lock_cluster_ask(&fleet.locks, 0, "GET " MARKER_KEY), marker);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), 0);
}

TEST(a_task_with_a_name_that_no_lock_may_have_is_buried_with_the_reason)
{
    char longest[600];
    snprintf(longest, sizeof longest, "\"%0513d\"", 0);
    buried_because("\"\"", "not 1 to 512");
    buried_because(longest, "not 1 to 512");
    buried_because("\"a\\u0000b\"", "NUL");
    buried_because("\"a\xff\xfe\"", "UTF-8");
    buried_because("\"hf:lock:group\"", "begins with \\\"hf:\\\"");
    buried_because("[\"a\",\"hf:fence:a\"]", "begins with \\\"hf:\\\"");
    buried_because("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", "not a string");
    buried_because("[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\",\"12\",\"13\",\"14\",\"15\","
                   "\"16\",\"17\"]",
                   "more than 16");
}

TEST(the_longest_name_and_the_oddest_characters_are_locked)
{
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"long\",\"resource\":\"%0512d\"}", 0);
    fleet_push(&fleet,
               "{\"class\":\"note\",\"args\":[],\"jid\":\"odd\",\"resource\":[\"* {}\\r\\n\\t%%\",\"\xc3\xa9\"]}");
    work_until_drained();
    assert_int_equal(fleet_noted(&fleet, "end long"), 1);
    assert_int_equal(fleet_noted(&fleet, "end odd"), 1);
}

/* On a majority of the nodes, so that there is no way around it. */
static void put_in_the_way(const char *command)
{
    for (unsigned i = 0; i < 2; i++)
        lock_cluster_ask(&fleet.locks, i, "%s", command);
}

TEST(a_task_whose_key_is_something_else_waits_and_says_so)
{
    static const char *const others[] = {"RPUSH data 1", "SET data report", "HSET data field value"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        put_in_the_way(others[i]);
        unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.lock = BARE});
        fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"t%zu\",\"resource\":\"data\"}", i);
        test_await(fleet_logged(&fleet, worker, "lock_name_clash"));
        test_await(fleet_number(&fleet, "ZCARD schedule") == 1);
        assert_int_equal(fleet_noted_all(&fleet, "begin "), i);
        assert_string_equal(lock_cluster_ask(&fleet.locks, 0, "EXISTS data"), "1");
        put_in_the_way("DEL data");
        test_await(fleet_noted_all(&fleet, "end ") == i + 1);
        one_fleet_stop(worker);
    }
}

/* Once a class. */
TEST(a_task_that_locks_nothing_by_mistake_is_told)
{
    unsigned worker =
        fleet_work(&fleet, &(struct fleet_setup){.classes = "{ class = \"note\"; mode = \"correctness\"; }"});
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"one\",\"resuorce\":\"r\"}");
    test_await(fleet_noted(&fleet, "end one") == 1);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"two\",\"resources\":\"r\"}");
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"three\"}");
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"four\",\"resource\":\"r\"}");
    test_await(fleet_noted(&fleet, "end four") == 1 && fleet_noted(&fleet, "end three") == 1);
    one_fleet_stop(worker);
    assert_int_equal(fleet_logged_times(&fleet, worker, "warn task_member_misspelt jid=one class=note member=resuorce"),
                     1);
    assert_int_equal(fleet_logged_times(&fleet, worker, "task_member_misspelt"), 1);
    assert_int_equal(fleet_logged_times(&fleet, worker, "warn task_unlocked jid=three class=note"), 1);
    assert_int_equal(fleet_logged_times(&fleet, worker, "task_unlocked"), 1);
}

RUN_FLEET_TESTS
