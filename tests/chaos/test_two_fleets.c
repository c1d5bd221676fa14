/* Two fleets in one database, with queues of their own and the same lock nodes. */
#include "tests/support/test.h"

#include <stdio.h>

#include "tests/support/one_fleet.h"

static unsigned work_on(const char *queues)
{
    return fleet_work(&fleet, &(struct fleet_setup){.worker = "lease = \"1s\";", .queues = queues});
}

static void push_to(const char *queue, const char *jid, const char *class_name, const char *args, const char *more)
{
    free(fleet_ask(&fleet, "LPUSH queue:%s '{\"class\":\"%s\",\"args\":%s,\"jid\":\"%s\"%s}'", queue, class_name, args,
                   jid, more));
}

static void put_into(const char *set, const char *queue, const char *jid)
{
    free(fleet_ask(&fleet, "ZADD %s 1 '{\"class\":\"note\",\"args\":[],\"jid\":\"%s\",\"queue\":\"%s\"}'", set, jid,
                   queue));
}

TEST(neither_runs_nor_promotes_what_is_the_others)
{
    unsigned red = work_on("\"red\"");
    for (unsigned i = 0; i < 2; i++) {
        const char *queue = i == 0 ? "red" : "blue";
        push_to(queue, i == 0 ? "red1" : "blue1", "note", "[]", "");
        put_into("schedule", queue, i == 0 ? "red2" : "blue2");
        put_into("retry", queue, i == 0 ? "red3" : "blue3");
    }
    test_await(fleet_noted_all(&fleet, "end red") == 3);
    put_into("schedule", "red", "red4"); /* by now it has looked at those of the other */
    test_await(fleet_noted_all(&fleet, "end red") == 4);
    test_await(fleet_left(&fleet) == 3); /* its end is noted before it is settled */
    assert_int_equal(fleet_number(&fleet, "LLEN queue:blue"), 1);
    assert_int_equal(fleet_number(&fleet, "ZCARD schedule"), 1);
    assert_int_equal(fleet_number(&fleet, "ZCARD retry"), 1);
    one_fleet_stop(red);
    unsigned blue = work_on("\"blue\"");
    test_await(fleet_noted_all(&fleet, "end blue") == 3);
    one_fleet_stop(blue);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), 7);
    assert_int_equal(fleet_left(&fleet), 0);
}

/* A lease says nothing of queues: a process that sees that it has ended puts the tasks back, and runs none of them. */
TEST(each_recovers_the_dead_of_the_other)
{
    unsigned red = work_on("\"red\""), blue = work_on("\"blue\"");
    push_to("red", "red1", "note", "[2000]", "");
    test_await(fleet_noted(&fleet, "begin red1") == 1);
    push_to("blue", "blue1", "note", "[100]", "");
    test_await(fleet_noted(&fleet, "end blue1") == 1);
    one_fleet_kill(red);
    test_await(fleet_number(&fleet, "LLEN queue:red") == 1);
    test_await(fleet_logged(&fleet, blue, "task_recovered jid=red1"));
    push_to("blue", "blue2", "note", "[]", "");
    test_await(fleet_noted(&fleet, "end blue2") == 1);
    assert_int_equal(fleet_number(&fleet, "LLEN queue:red"), 1);
    red = work_on("\"red\"");
    test_await(fleet_noted(&fleet, "end red1") == 1);
    one_fleet_stop(red);
    one_fleet_stop(blue);
    assert_int_equal(fleet_noted(&fleet, "begin red1"), 2);
    assert_int_equal(fleet_left(&fleet), 0);
}

TEST(they_share_the_locks)
{
    for (unsigned i = 0; i < 40; i++) {
        char jid[16];
        snprintf(jid, sizeof jid, "t%u", i);
        push_to(i % 2 == 0 ? "red" : "blue", jid, "guarded", "[5, \"thing\"]", ",\"resource\":\"thing\"");
    }
    unsigned red = work_on("\"red\""), blue = work_on("\"blue\"");
    test_await(fleet_noted_all(&fleet, "end t") == 40);
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(red);
    one_fleet_stop(blue);
    assert_int_equal(fleet_noted_all(&fleet, "begin t"), 40);
    assert_int_equal(fleet_noted_all(&fleet, "clash "), 0);
}

RUN_FLEET_TESTS
