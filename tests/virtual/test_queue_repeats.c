/* Calls whose reply was lost are repeated and answer the same; calls that arrive late change nothing. These are the
 * scripts alone; that a queue repeats its calls, fleets of the world show, whose connections break at any byte. */
#include "tests/support/test.h"

#include <string.h>

#include "queue/keys.h"
#include "queue/scripts.h"
#include "tests/support/queue_fixture.h"

/* A probe's connection loads the scripts; the process "p" is listed by hand. */
static void load_scripts(void)
{
    start("unused");
    queue_probe_wait_up(&probe);
    free(redis_server_command(server, "ZADD hf:2:processes 99999999999 p"));
    free(redis_server_command(server, "HSET claims queues a"));
}

/* Ids of 16 bytes, as short names. */
#define FOUR(letter) letter letter letter letter
#define ID(letter)   FOUR(letter) FOUR(letter) FOUR(letter) FOUR(letter)
#define NO_ID        "\"\""

/* Claims for one slot from queue:a of the process p: id that it holds, new id, '1' to claim. */
static void assert_claim(const char *expected, const char *slot, const char *has, const char *next, const char *wants)
{
    char *reply =
        redis_server_command(server, "EVALSHA %s 5 claims paused cancels bell queue:a 1000 2 1 a a %s %s %s%s",
                             queue_script_claim.sha1, slot, wants, has, next);
    /* Behind the answers stand paused queues, cancelled tasks, the time, who waits, and who has progress. */
    for (int notes = 0; notes < 5 && reply[0] != '-'; notes++)
        *strrchr(reply, '\n') = '\0';
    assert_string_equal(reply, expected);
    free(reply);
}

TEST(test_a_repeated_claim_answers_the_same)
{
    load_scripts();
    push("a", "one");
    push("a", "two");
    for (int i = 0; i < 3; i++)
        assert_claim(ID("A") "a\none", "0", ID("-"), ID("A"), "1");
    assert_tasks("claims one\nqueue:a two");
    for (int i = 0; i < 3; i++)
        assert_claim(ID("B") "a\ntwo", "0", ID("A"), ID("B"), "1");
    assert_tasks("claims two");
    for (int i = 0; i < 3; i++)
        assert_claim(ID("C"), "0", ID("B"), ID("C"), "1");
    for (int i = 0; i < 3; i++)
        assert_claim(ID("D"), "0", ID("C"), ID("D"), "0");
    assert_tasks("");
}

TEST(test_a_late_claim_changes_nothing)
{
    load_scripts();
    push("a", "one");
    push("a", "two");
    assert_claim(ID("A") "a\none", "0", ID("-"), ID("A"), "1");
    assert_claim(ID("B") "a\ntwo", "0", ID("A"), ID("B"), "1");
    push("a", "three");
    assert_claim(ID("B") "a\ntwo", "0", ID("-"), ID("A"), "1");
    assert_claim(ID("B") "a\ntwo", "0", ID("A"), ID("B"), "1");
    assert_claim(ID("C"), "0", ID("B"), ID("C"), "0");
    assert_claim(ID("C"), "0", ID("A"), ID("B"), "1");
    assert_tasks("queue:a three");
}

/* The late call of a process that has left, or was recovered, must not claim for nobody. */
TEST(test_only_listed_processes_open_a_place)
{
    load_scripts();
    free(redis_server_command(server, "HDEL claims queues"));
    push("a", "one");
    assert_claim("-UNLISTED claims names no queues", "0", ID("-"), ID("A"), "1");
    assert_claim("", "0", ID("A"), ID("B"), "1");
    assert_tasks("queue:a one");
    assert_reply(server, "0", "EXISTS claims");
}

TEST(test_one_call_mixes_repeats_and_new_claims)
{
    load_scripts();
    push("a", "one");
    push("a", "two");
    assert_claim(ID("A") "a\none", "0", ID("-"), ID("A"), "1");
    static const char expected[] = ID("A") "a\none\n" ID("B") "a\ntwo\n" ID("C") "\n\n00\n0\n";
    char *reply =
        redis_server_command(server, "EVALSHA %s 5 claims paused cancels bell queue:a 1000 2 4 a a \"0 1 2 3\" 1101 %s",
                             queue_script_claim.sha1, ID("-") ID("A") ID("-") ID("B") ID("-") ID("C") ID("X") ID("D"));
    assert_memory_equal(reply, expected, sizeof expected - 1); /* behind it the time */
    free(reply);
}

static void assert_postpone(const char *expected, const char *has, const char *next)
{
    assert_reply(server, expected, "EVALSHA %s 3 claims retry \"\" 0 %s %s 5 changed jid 0 0 0",
                 queue_script_postpone.sha1, has, next);
}

TEST(test_a_repeated_postponement_moves_once)
{
    load_scripts();
    push("a", "one");
    assert_claim(ID("A") "a\none", "0", ID("-"), ID("A"), "1");
    assert_postpone("1", ID("A"), ID("B"));
    assert_postpone("1", ID("A"), ID("B"));
    assert_tasks("retry changed");
    free(redis_server_command(server, "DEL retry"));
    assert_postpone("1", ID("A"), ID("B"));
    assert_tasks("");
}

/* A task that is not in the slot cannot be moved: not by an older call, not for a slot that has none. */
TEST(test_a_late_postponement_changes_nothing)
{
    load_scripts();
    assert_postpone("0", NO_ID, ID("A"));
    push("a", "one");
    push("a", "two");
    assert_claim(ID("A") "a\none", "0", ID("-"), ID("A"), "1");
    assert_claim(ID("B") "a\ntwo", "0", ID("A"), ID("B"), "1");
    assert_postpone("0", ID("A"), ID("X"));
    assert_tasks("claims two");
    assert_claim(ID("C"), "0", ID("B"), ID("C"), "0");
    assert_postpone("0", ID("C"), ID("D"));
    assert_tasks("");
}

static void assert_give_back(const char *expected, const char *has, const char *next)
{
    assert_reply(server, expected, "EVALSHA %s 2 claims queue:a 0 %s %s", queue_script_give_back.sha1, has, next);
}

static void assert_unserved(const char *expected, const char *has, const char *next, const char *may_fail)
{
    assert_reply(server, expected,
                 "EVALSHA %s 5 claims retry hf:2:others hf:2:unserved hf:2:unserved:c 0 %s %s 30 changed c jid \"\" "
                 "%s 0 hf:2:process:",
                 queue_script_unserved.sha1, has, next, may_fail);
}

TEST(test_a_repeated_wait_for_a_class_moves_once)
{
    load_scripts();
    push("a", "one");
    assert_claim(ID("A") "a\none", "0", ID("-"), ID("A"), "1");
    assert_unserved("1", ID("A"), ID("B"), "0");
    assert_unserved("1", ID("A"), ID("B"), "0");
    assert_unserved("0", ID("A"), ID("C"), "0");
    assert_tasks("retry changed");
    assert_reply(server, "jid", "ZRANGE hf:2:unserved:c 0 -1");
    assert_reply(server, "c", "ZRANGE hf:2:unserved 0 -1");
    assert_reply(
        server, "1",
        "EVAL \"local ttl = redis.call('TTL', KEYS[1]) return ttl > 60 and ttl <= 91 and 1\" 1 hf:2:unserved:c");
    assert_reply(server, "1",
                 "EVAL \"local ttl = redis.call('TTL', KEYS[1]) return ttl > 60 and ttl <= 91 and 1\" 1 hf:2:unserved");
}

/* Who waits cannot be noted there; the task moves all the same, and what is there stays. */
TEST(test_a_wait_for_a_class_survives_foreign_values)
{
    load_scripts();
    free(redis_server_command(server, "SET hf:2:unserved x"));
    push("a", "one");
    assert_claim(ID("A") "a\none", "0", ID("-"), ID("A"), "1");
    assert_unserved("1", ID("A"), ID("B"), "0");
    assert_tasks("retry changed");
    assert_reply(server, "x", "GET hf:2:unserved");
}

/* Whoever has a lease and does not say what it serves may serve anything. */
TEST(test_a_task_fails_when_no_living_process_announces_its_class)
{
    static const struct {
        const char *given, *answer;
    } cases[] = {{"DEL p", "1"},
                 {"HSET p hf_classes \"bb\\nc\\nd\"", "1"},
                 {"HSET p hf_classes c", "1"},
                 {"HSET p hf_classes \"bc\\ncc\"", "2"},
                 {"HSET p hf_classes \"\"", "2"},
                 {"HSET hf:2:process:p gone 1", "2"},
                 {"ZADD hf:2:others 1 p", "2"}};
    load_scripts();
    free(redis_server_command(server, "ZADD hf:2:others 99999999999 p"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        free(redis_server_command(server, "DEL retry queue:a claims hf:2:unserved:c hf:2:process:p"));
        free(redis_server_command(server, "HSET claims queues a"));
        push("a", "one");
        assert_claim(ID("A") "a\none", "0", ID("-"), ID("A"), "1");
        free(redis_server_command(server, "HSET p hf_classes c"));
        free(redis_server_command(server, "%s", cases[i].given));
        assert_unserved(cases[i].answer, ID("A"), ID("B"), "1");
        assert_unserved(cases[i].answer, ID("A"), ID("B"), "1");
        assert_tasks(cases[i].answer[0] == '1' ? "retry changed" : "claims one");
        assert_reply(server, cases[i].answer[0] == '1' ? "1" : "0", "ZCARD hf:2:unserved:c");
    }
}

TEST(test_a_repeated_give_back_moves_once)
{
    load_scripts();
    push("a", "one");
    push("a", "two");
    assert_claim(ID("A") "a\none", "0", ID("-"), ID("A"), "1");
    assert_give_back("1", ID("A"), ID("B"));
    assert_give_back("1", ID("A"), ID("B"));
    assert_tasks("queue:a one\nqueue:a two");
}

TEST(test_a_late_give_back_changes_nothing)
{
    load_scripts();
    assert_give_back("0", NO_ID, ID("A"));
    push("a", "one");
    push("a", "two");
    assert_claim(ID("A") "a\none", "0", ID("-"), ID("A"), "1");
    assert_claim(ID("B") "a\ntwo", "0", ID("A"), ID("B"), "1");
    assert_give_back("0", ID("A"), ID("X"));
    assert_claim(ID("C"), "0", ID("B"), ID("C"), "0");
    assert_give_back("0", ID("C"), ID("X"));
    assert_tasks("");
}

TEST(test_a_repeated_leave_finds_nothing)
{
    load_scripts();
    push("a", "one");
    push("a", "two");
    free(redis_server_command(server, "LPUSH bell bell-task"));
    assert_claim(ID("A") "a\nbell-task", "0", ID("-"), ID("A"), "1");
    assert_claim(ID("B") "a\none", "1", ID("-"), ID("B"), "1");
    for (int i = 0; i < 2; i++)
        assert_reply(server, "0", "EVALSHA %s 4 hf:2:processes claims bell queue:a p queue:", queue_script_leave.sha1);
    assert_reply(server, "3", "LLEN queue:a");
    assert_reply(server, "two", "LINDEX queue:a 0");
    assert_reply(server, "0", "EXISTS claims bell");
    assert_reply(server, "0", "ZCOUNT hf:2:processes 99999999999 +inf");
}

TEST(test_a_leave_keeps_what_cannot_go_back)
{
    load_scripts();
    push("a", "one");
    push("a", "two");
    assert_claim(ID("A") "a\none", "0", ID("-"), ID("A"), "1");
    assert_reply(server, "two", "LMOVE queue:a bell RIGHT LEFT");
    free(redis_server_command(server, "SET queue:a foreign"));
    assert_reply(server, "2", "EVALSHA %s 4 hf:2:processes claims bell queue:a p queue:", queue_script_leave.sha1);
    assert_tasks("bell two\nclaims one");
    assert_reply(server, "99999999999", "ZSCORE hf:2:processes p");
}

TEST(test_a_repeated_promotion_moves_once)
{
    load_scripts();
    free(redis_server_command(server, "ZADD set 1 old"));
    for (int i = 0; i < 2; i++) {
        assert_reply(server, i == 0 ? "1" : "0", "EVALSHA %s 4 set queues dead queue:a 100 100 old new a",
                     queue_script_promote.sha1);
        assert_tasks("queue:a new");
    }
    free(redis_server_command(server, "DEL queue:a"));
    free(redis_server_command(server, "ZADD set 1 bad"));
    for (int i = 0; i < 2; i++) {
        assert_reply(server, i == 0 ? "1" : "0", "EVALSHA %s 4 set queues dead queue: 100 100 bad wrapped %s",
                     queue_script_promote.sha1, NO_ID);
        assert_tasks("dead wrapped");
    }
}

TEST(test_what_is_promoted_into_the_dead_takes_no_others_place)
{
    load_scripts();
    free(redis_server_command(server, "ZADD set 1 bad"));
    free(redis_server_command(server, "ZADD dead 9999999999 wrapped"));
    assert_reply(server, "1", "EVALSHA %s 4 set queues dead queue: 15552000 100 bad wrapped \"\"",
                 queue_script_promote.sha1);
    assert_reply(server, "2", "ZCARD dead");
}

TEST(test_a_look_gives_a_bounded_number_of_bytes)
{
    load_scripts();
    free(redis_server_command(server, "ZADD set 1 aaaa 2 bbbb 3 cccc 99999999999 later"));
    static const char *const expected[][2] = {
        {"0 10 100", "0\naaaa\nbbbb\ncccc"}, {"0 2 100", "1\naaaa\nbbbb"}, {"2 2 100", "0\ncccc"},
        {"0 10 11", "1\naaaa\nbbbb"},        {"0 10 1", "1\naaaa"},        {"3 2 100", "0"}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_reply(server, expected[i][1], "EVALSHA %s 1 set %s", queue_script_due.sha1, expected[i][0]);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, queue_teardown)
