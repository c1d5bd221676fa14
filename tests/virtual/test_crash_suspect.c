/* Whom recovery blames when a process has died, by the scripts that count (tests of workers: test_supervisor.c). */
#include "queue/scripts.h"
#include "tests/support/queue_fixture.h"

#define PROCESS(death) "dead" #death
#define CLAIM          "0123456789abcdef"

/* `identity`, whose lease has ended, has two tasks: a move of it may arrive late. */
static void given_two_tasks_of(const char *identity)
{
    free(redis_server_command(server, "ZADD hf:2:processes 1 %s", identity));
    free(redis_server_command(server, "HSET place queues a 0 \"" CLAIM "a\\nguilty\" 1 \"" CLAIM "b\\ninnocent\""));
}

/* A new one. The scripts are loaded by a probe. */
static void given_the_dead(const char *identity)
{
    if (probe.queue == NULL) {
        start("unused");
        queue_probe_wait_up(&probe);
    }
    free(redis_server_command(server, "DEL place"));
    given_two_tasks_of(identity);
}

/* What the node answers to the note that the handler of slot 0 did it. */
static long long blame(const char *identity)
{
    char *answer = redis_server_command(server, "EVALSHA %s 2 hf:2:processes place %s 0",
                                        queue_script_crash_suspect.sha1, identity);
    long long number = strtoll(answer, NULL, 10);
    free(answer);
    return number;
}

/* Both tasks are recovered, and may be buried. */
static char *recover(const char *identity)
{
    return redis_server_command(server,
                                "EVALSHA %s 9 hf:2:processes place dead who:guilty queue:a \"\" who:innocent queue:b "
                                "\"\" %s bell: queue: 3 20 100 100 100 1 60 0 " CLAIM " guilty guilty 1 " CLAIM
                                " innocent innocent",
                                queue_script_recover.sha1, identity);
}

static void assert_recovered(const char *identity, const char *became)
{
    char *answer = recover(identity);
    assert_string_equal(answer, became);
    free(answer);
}

TEST(a_task_beside_a_culprit_is_not_counted)
{
    given_the_dead(PROCESS(1));
    assert_int_equal(blame(PROCESS(1)), 1);
    assert_recovered(PROCESS(1), "back\nback\nclear");
    given_the_dead(PROCESS(2));
    assert_int_equal(blame(PROCESS(2)), 1);
    assert_int_equal(blame(PROCESS(2)), 1); /* repeated after a lost reply */
    assert_recovered(PROCESS(2), "back\nback\nclear");
    given_the_dead(PROCESS(3));
    assert_int_equal(blame(PROCESS(3)), 1);
    assert_recovered(PROCESS(3), "dead\nback\nclear");
    assert_reply(server, "guilty", "ZRANGE dead 0 -1");
    assert_reply(server, "3", "HLEN who:innocent");
    assert_true(queue_probe_number(server, "HGET who:innocent dead3") < 0);
    assert_true(queue_probe_number(server, "HGET who:guilty dead3") > 0);
}

/* Nobody could say who it was, or what was said got lost: all are counted. */
TEST(without_a_note_all_are_counted)
{
    given_the_dead(PROCESS(1));
    assert_recovered(PROCESS(1), "back\nback\nclear");
    given_the_dead(PROCESS(2));
    assert_recovered(PROCESS(2), "back\nback\nclear");
    given_the_dead(PROCESS(3));
    assert_recovered(PROCESS(3), "dead\ndead\nclear");
}

/* An earlier absolution does not help the culprit of today, nor does the guilt of before harm who was beside. */
TEST(each_death_is_judged_by_itself)
{
    free(redis_server_command(server, "HSET who:guilty a -1 b -2 c 3 d 4"));
    free(redis_server_command(server, "HSET who:innocent a 1 b 2 c 3 d -4"));
    given_the_dead(PROCESS(1));
    assert_int_equal(blame(PROCESS(1)), 1);
    assert_recovered(PROCESS(1), "dead\nback\nclear");
}

/* Who damages the memory of others has them crash instead of itself. */
TEST(the_twentieth_death_beside_a_culprit_buries_too)
{
    for (unsigned i = 1; i <= 18; i++)
        free(redis_server_command(server, "HSET who:innocent h%u -%u", i, i));
    given_the_dead(PROCESS(1));
    assert_int_equal(blame(PROCESS(1)), 1);
    assert_recovered(PROCESS(1), "back\nback\nclear");
    given_the_dead(PROCESS(2));
    assert_int_equal(blame(PROCESS(2)), 1);
    assert_recovered(PROCESS(2), "back\ndead\nclear");
}

/* What comes late to the dead process is judged by the same note. */
TEST(the_note_stays_until_the_last_look)
{
    given_the_dead(PROCESS(1));
    assert_int_equal(blame(PROCESS(1)), 1);
    assert_recovered(PROCESS(1), "back\nback\nclear");
    assert_reply(server, "0", "HGET place culprit");
    given_two_tasks_of(PROCESS(1));
    assert_recovered(PROCESS(1), "back\nback\nclear");
    assert_reply(server, "0", "EXISTS place");
    assert_reply(server, "1", "HLEN who:guilty");
}

TEST(a_note_that_comes_too_late_leaves_nothing)
{
    given_the_dead(PROCESS(1));
    assert_recovered(PROCESS(1), "back\nback\nclear");
    assert_int_equal(blame(PROCESS(1)), 0); /* it is still looked at */
    assert_reply(server, "0", "HEXISTS place culprit");
    free(redis_server_command(server, "DEL place"));
    assert_int_equal(blame("unknown"), 0);
    assert_reply(server, "0", "EXISTS place");
}

TEST(who_enlists_itself_has_no_culprit)
{
    given_the_dead(PROCESS(1));
    assert_int_equal(blame(PROCESS(1)), 1);
    free(redis_server_command(server,
                              "EVALSHA %s 2 hf:2:processes place " PROCESS(1) " 60 a hf:2:process: \"\" first \"\" 0",
                              queue_script_enlist.sha1));
    assert_reply(server, "a", "HGET place queues");
    assert_reply(server, "0", "HEXISTS place culprit");
}

/* A foreign value where recoveries are counted: nothing is lost, and nothing is buried. */
TEST(a_foreign_value_under_the_count_loses_nothing)
{
    free(redis_server_command(server, "SET who:guilty foreign"));
    given_the_dead(PROCESS(1));
    assert_recovered(PROCESS(1), "back\nback\nclear");
    assert_reply(server, "1", "LLEN queue:a");
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, queue_teardown)
