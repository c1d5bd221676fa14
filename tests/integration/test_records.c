/* What becomes of the record of a task that does not end well: refused arguments, and tasks near the size limit. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/one_fleet.h"

static void a_handler_that_refuses_the_arguments_buries_the_task(void **state)
{
    (void)state;
    unsigned worker = fleet_work(&fleet, NULL);
    fleet_push(&fleet, "{\"class\":\"picky\",\"args\":[],\"jid\":\"good\"}");
    fleet_push(&fleet, "{\"class\":\"picky\",\"args\":[7],\"jid\":\"bad\"}");
    test_await(fleet_number(&fleet, "zcard dead") == 1);
    test_await(fleet_noted(&fleet, "end good") == 1);
    char *dead = fleet_ask(&fleet, "zrange dead 0 -1");
    assert_contains(dead, "HF::BadArguments");
    assert_contains(dead, "wants [] and not [7]");
    free(dead);
    assert_int_equal(fleet_noted(&fleet, "begin bad"), 0);
    assert_int_equal(fleet_noted_all(&fleet, "clash "), 0);
    fleet_signal(&fleet, worker, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
}

/* A failure adds to the record; that must not make the task too large to be tried again. */
static void a_task_of_exactly_the_greatest_size_fails_and_is_tried_again(void **state)
{
    (void)state;
    enum { LIMIT = 16 * 1024 };
    static const char head[] = "{\"class\":\"fail\",\"jid\":\"big\",\"args\":[0,\"why\",\"", tail[] = "\"]}";
    char task[LIMIT + 1];
    memset(task, 'x', LIMIT);
    memcpy(task, head, sizeof head - 1);
    memcpy(task + LIMIT - (sizeof tail - 1), tail, sizeof tail);
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.worker = "max_task_size = \"16KiB\";"});
    fleet_push(&fleet, "%s", task);
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    char *moved = fleet_ask(
        &fleet,
        "eval \"local e = redis.call('zrange', 'retry', 0, 0)[1]; return redis.call('zadd', 'retry', 1, e)\" 0");
    free(moved);
    test_await(fleet_noted(&fleet, "begin big") == 2);
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    assert_int_equal(fleet_number(&fleet, "zcard dead"), 0);
    fleet_signal(&fleet, worker, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        fleet_test(a_handler_that_refuses_the_arguments_buries_the_task),
        fleet_test(a_task_of_exactly_the_greatest_size_fails_and_is_tried_again),
    };
    return cmocka_run_group_tests_name("records", tests, one_fleet_set_up, one_fleet_tear_down);
}
