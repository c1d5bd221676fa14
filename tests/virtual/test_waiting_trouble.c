/* Waiting lists at the queue node when something is wrong: lost and late calls, foreign values, no memory, a restart,
 * names from strangers. No task gets lost, and none is in two states. */
#include "queue/keys.h"
#include "queue/scripts.h"
#include "tests/support/waiting_list_fixture.h"

/* What queue_probe_tasks says of claims of these tasks, in this order, and of what else there is. */
static const char *in_claims(const char *first, const char *second, const char *rest)
{
    static char text[512];
    const char *process = queue_keys_of(probe.queue)->process;
    if (second != NULL)
        snprintf(text, sizeof text, "%s %s\n%s %s%s", process, first, process, second, rest);
    else
        snprintf(text, sizeof text, "%s %s%s", process, first, rest);
    return text;
}

/* --- the scripts alone -------------------------------------------------------------------------------------------- */

/* Ids of 16 bytes, as short names. */
#define FOUR(letter) letter letter letter letter
#define ID(letter)   FOUR(letter) FOUR(letter) FOUR(letter) FOUR(letter)

/* The process "claims" has the task "one" in its slot 0 under the id A. */
static void claim_by_hand(void)
{
    start("unused");
    queue_probe_wait_up(&probe);
    free(redis_server_command(server, "DEL schedule claims " ORDER " " WAITERS " " FREED));
    free(redis_server_command(server, "HSET claims queues a 0 \"" ID("A") "a\\none\""));
}

/* A reply of several lines: only the first says what became of it. */
static void assert_first_line(char *reply, const char *expected)
{
    reply[strcspn(reply, "\n")] = '\0';
    assert_string_equal(reply, expected);
    free(reply);
}

static void assert_parks(const char *expected, const char *has, const char *next, const char *options)
{
    assert_first_line(redis_server_command(server,
                                           "EVALSHA %s 7 claims schedule " ORDER " " WAITERS " " FREED
                                           " hf:2:contended paused 0 %s %s " LIST " one a Work set %s queue: " GROUP
                                           " one",
                                           queue_script_park.sha1, has, next, options),
                      expected);
}

/* Seen far in the future (after any stamp) or never, times in microseconds, the most, '1' = may be tried again. */
#define SEEN_LATER  "9999999999999999 600000000 3600000000 5000 0 1"
#define SEEN_NEVER  "0 600000000 3600000000 5000 0 1"
#define SEEN_FULL   "9999999999999999 600000000 3600000000 5000 1 0"
#define IN_CLAIM    "claims one"
#define IN_SCHEDULE "schedule one"

TEST(test_a_repeated_park_moves_once)
{
    claim_by_hand();
    for (int i = 0; i < 3; i++)
        assert_parks("1", ID("A"), ID("B"), SEEN_LATER);
    assert_tasks(IN_SCHEDULE);
    assert_waiting("one=P");
    assert_parks("0", ID("A"), ID("C"), SEEN_LATER);
    free(redis_server_command(server, "DEL schedule"));
    assert_parks("1", ID("A"), ID("B"), SEEN_LATER);
    assert_tasks("");
}

/* It runs when the late copy arrives: that must not park it. */
TEST(test_a_late_park_leaves_a_task_alone_that_is_tried_again)
{
    claim_by_hand();
    assert_parks("2", ID("A"), ID("B"), SEEN_NEVER);
    assert_parks("2", ID("A"), ID("B"), SEEN_LATER);
    assert_tasks(IN_CLAIM);
    assert_parks("1", ID("B"), ID("C"), SEEN_LATER);
    assert_parks("0", ID("A"), ID("B"), SEEN_LATER);
    assert_tasks(IN_SCHEDULE);
}

TEST(test_a_repeated_park_into_a_full_list)
{
    claim_by_hand();
    free(redis_server_command(server, "ZADD " ORDER " 1 other"));
    free(redis_server_command(server, "HSET " WAITERS " other \"1.000000\\n\\na\\nset\\nWork\""));
    free(redis_server_command(server, "EVAL \"local t = redis.call('TIME') return redis.call('HSET', KEYS[1], 'other', "
                                      "t[1] .. '.000000' .. string.rep(string.char(10), 2) .. 'a' .. string.char(10) "
                                      ".. 'set' .. string.char(10) .. 'Work')\" 1 " WAITERS));
    for (int i = 0; i < 3; i++)
        assert_parks("3", ID("A"), ID("B"), SEEN_FULL);
    assert_tasks(IN_CLAIM);
    assert_waiting("other=O");
}

static void assert_skips(const char *expected, const char *has, const char *next)
{
    assert_reply(server, expected,
                 "EVALSHA %s 6 claims unique cancels it-one hf:2:recovered:one " ORDER " 0 %s %s one 0",
                 queue_script_skip.sha1, has, next);
}

TEST(test_a_repeated_skip_ends_it_once)
{
    claim_by_hand();
    free(redis_server_command(server, "SET hf:2:recovered:one x"));
    for (int i = 0; i < 2; i++)
        assert_skips("2", ID("A"), ID("B"));
    free(redis_server_command(server, "DEL hf:2:recovered:one"));
    assert_skips("2", ID("A"), ID("B")); /* a late copy */
    assert_tasks(IN_CLAIM);
    free(redis_server_command(server, "SET unique one"));
    for (int i = 0; i < 2; i++)
        assert_skips("1", ID("B"), ID("C"));
    assert_skips("0", ID("B"), ID("D"));
    assert_tasks("");
    assert_reply(server, "0", "EXISTS unique");
}

static void assert_successors(const char *expected, const char *has, const char *next)
{
    char *reply =
        redis_server_command(server,
                             "EVALSHA %s 7 claims paused cancels schedule " ORDER " " WAITERS
                             " hf:2:successors 1 %s %s 5 " ID("X") " holder \"\" set queue: " LIST " 0 1 a Work",
                             queue_script_claim_successor.sha1, has, next);
    char *notes = strrchr(reply, '\n');
    assert_non_null(notes);
    for (int i = 0; i < 2; i++) {
        *notes = '\0';
        notes = strrchr(reply, '\n');
    }
    *notes = '\0'; /* before the flag, the time, and whether the holder is there */
    assert_string_equal(reply, expected);
    free(reply);
}

TEST(test_a_repeated_claim_of_a_successor_claims_one)
{
    claim_by_hand();
    assert_parks("1", ID("A"), ID("B"), SEEN_LATER);
    free(redis_server_command(server, "HDEL claims 0"));
    free(redis_server_command(server, "HSET claims 5 " ID("X") "a/holder"));
    for (int i = 0; i < 3; i++)
        assert_successors(ID("H") "a\none", "\"\"", ID("H"));
    assert_successors(ID("H") "a\none", "\"\"", ID("I"));
    assert_successors(ID("H") "a\none", ID("H"), ID("I")); /* the slot has a task */
    assert_tasks(IN_CLAIM);
    free(redis_server_command(server, "HSET claims 1 " ID("K")));
    for (int i = 0; i < 2; i++)
        assert_successors(ID("L"), ID("K"), ID("L"));
    free(redis_server_command(server, "DEL claims"));
    assert_first_line(redis_server_command(server,
                                           "EVALSHA %s 7 claims paused cancels schedule " ORDER " " WAITERS
                                           " hf:2:successors 1 \"\" %s 5 " ID("X") " holder \"\" set queue: " LIST
                                                                                   " 0 1 a Work",
                                           queue_script_claim_successor.sha1, ID("M")),
                      "-UNLISTED claims names no queues");
}

static void assert_confirms(const char *expected, const char *kept_us)
{
    assert_reply(server, expected, "EVALSHA %s 2 claims hf:2:successors 1 " ID("H") " " LIST " one holder %s",
                 queue_script_confirm.sha1, kept_us);
}

/* The id that a slot has from whom its claim was taken. */
static const char *sha1_beginning(const char *id)
{
    static char text[17];
    char *digest = redis_server_command(server, "EVAL \"return redis.sha1hex(ARGV[1])\" 0 %s", id);
    snprintf(text, sizeof text, "%s", digest);
    free(digest);
    return text;
}

/* The late copies of the calls about a successor: that claimed it, kept it, confirmed it, brought it back. */
TEST(test_late_calls_about_a_successor_change_nothing)
{
    for (int comes_back = 0; comes_back < 2; comes_back++) {
        free(redis_server_command(server, "FLUSHALL"));
        claim_by_hand();
        assert_parks("1", ID("A"), ID("B"), SEEN_LATER);
        free(redis_server_command(server, "HSET claims 5 " ID("X") "a/holder"));
        free(redis_server_command(server, "HDEL claims 0"));
        assert_successors(ID("H") "a\none", "\"\"", ID("H"));
        for (int i = 0; i < 2 && !comes_back; i++)
            assert_confirms("1", "0");
        assert_confirms("1", "1000000");
        assert_reply(server, comes_back ? "1" : "0", "ZCARD hf:2:successors");
        free(redis_server_command(server,
                                  "EVAL \"for _, successor in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do "
                                  "redis.call('ZADD', KEYS[1], 1, successor) end return 0\" 1 hf:2:successors"));
        for (int i = 0; i < 2; i++)
            look_once();
        assert_tasks(comes_back ? "queue:a one" : IN_CLAIM);
        assert_confirms(comes_back ? "0" : "1", "0");
        if (comes_back) /* the slot is empty, and holds another id */
            assert_successors(sha1_beginning(ID("H")), "\"\"", ID("H"));
        assert_tasks(comes_back ? "queue:a one" : IN_CLAIM);
        assert_reply(server, "0", "ZCARD hf:2:successors");
        queue_probe_stop(&probe);
    }
}

/* --- what is foreign ---------------------------------------------------------------------------------------------- */

TEST(test_foreign_values_keep_no_task)
{
    static const char *const keys[] = {ORDER, WAITERS, FREED, "hf:2:contended", "paused", "hf:2:recovered:one"};
    struct waiting_end end = end_of("holder");
    struct waiting_successor successor = successor_of("holder");
    start("a");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        free(redis_server_command(server, "DEL schedule " FREED " %s", i > 0 ? keys[i - 1] : "none"));
        free(redis_server_command(server, "LPUSH %s foreign", keys[i]));
        push("a", "one");
        queue_probe_claim(&probe, 0, "one");
        assert_int_equal(park(&probe, 0), QUEUE_NOTHING);
        assert_due_near("one");
        assert_int_equal(claim_successor(&probe, 1, &successor), i < 2 ? QUEUE_NOTHING : QUEUE_CLAIMED);
        if (i < 2) {
            assert_int_equal(settle_free(&probe, 0, false, &end), QUEUE_NOTHING);
            queue_free(probe.queue, &end);
            assert_reply(server, "1", "ZCARD schedule");
            assert_reply(server, "foreign", "LRANGE %s 0 -1", keys[i]);
        }
        queue_probe_settle(&probe, 1, false);
        queue_probe_wait(&probe, 1);
    }
}

/* What stands for a waiter and says nothing, or has no queue, is removed, and is in nobody's way. */
TEST(test_a_foreign_waiter_is_removed)
{
    static const char *const texts[] = {"redis.call('TIME')[1] .. '.000000' .. string.char(10, 10) .. 'foreign'",
                                        "'foreign'", "''", NULL};
    struct waiting_end end = end_of(NULL);
    start("a");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        park_new(&probe, 0, "one");
        free(redis_server_command(server, "ZADD " ORDER " 0 ghost"));
        if (texts[i] != NULL)
            free(redis_server_command(server, "EVAL \"return redis.call('HSET', KEYS[1], 'ghost', %s)\" 1 " WAITERS,
                                      texts[i]));
        queue_free(probe.queue, &end);
        wait_tasks("queue:a one");
        assert_waiting("one=O");
        free(redis_server_command(server, "DEL queue:a " ORDER " " WAITERS));
    }
}

static bool is_stamped(void *context)
{
    (void)context;
    char *fields = redis_server_command(server, "HLEN " FREED); /* a group of lists, and what the others are */
    bool is_two = strcmp(fields, "2") == 0;
    free(fields);
    return is_two;
}

/* Whoever frees a lock, with the call that settles its task or on its own, stamps that. */
TEST(test_a_foreign_value_gives_way_to_stamps)
{
    struct waiting_end end = end_of("holder");
    start("a");
    for (int i = 0; i < 2; i++) {
        push("a", "one");
        queue_probe_claim(&probe, 0, "one");
        free(redis_server_command(server, "DEL " FREED));
        free(redis_server_command(server, "LPUSH " FREED " foreign"));
        if (i == 0)
            queue_free(probe.queue, &end);
        assert_int_equal(settle_free(&probe, 0, false, &end), QUEUE_NOTHING);
        assert_true(loop_until(loop, is_stamped, NULL, TEST_PATIENCE_NS));
    }
}

/* Nothing can be parked where `schedule` is no sorted set: the task stays claimed, and its call is repeated. */
TEST(test_a_foreign_schedule_keeps_the_claim)
{
    start("a");
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    free(redis_server_command(server, "SET schedule foreign"));
    struct waiting_task task = waiting(&probe, 0, "one");
    probe.slots[0].asked++;
    queue_park(probe.queue, 0, &task, "one", 3);
    loop_for(loop, 500 * NS_PER_MS);
    assert_int_equal(probe.slots[0].answers + 1, probe.slots[0].asked);
    assert_tasks(in_claims("one", NULL, ""));
    free(redis_server_command(server, "DEL schedule"));
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_waiting("one=P");
}

TEST(test_names_from_strangers)
{
    char longest[WAITING_LIST_BYTES_MAX + 1] = "resource:";
    memset(longest + 9, '\xc3', sizeof longest - 10);
    const char *const lists[] = {"resource:hf:2:processes", "resource:",      "resource:a b\r\n\"c\\{}",
                                 "class:Work\nhf",          "resource:%s%n*", longest};
    start("a");
    push("a", "holder");
    queue_probe_claim(&probe, 1, "holder");
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        push("a", "one");
        queue_probe_claim(&probe, 0, "one");
        struct waiting_task task = waiting(&probe, 0, "one");
        task.list = lists[i];
        task.class_name = "Wo\nrk\n\n1.000000\n";
        assert_int_equal(park_as(&probe, 0, &task, "one"), QUEUE_NOTHING);
        assert_due_near("one");
        struct waiting_successor successor = successor_of("holder");
        successor.holder = 1;
        successor.list = lists[i];
        successor.classes = &task.class_name;
        successor.class_count = 1;
        assert_int_equal(claim_successor(&probe, 0, &successor), QUEUE_CLAIMED);
        struct waiting_end end = end_of("one");
        end.lists = &lists[i];
        assert_int_equal(settle_free(&probe, 0, false, &end), QUEUE_NOTHING);
        assert_false(queue_has_waiters(probe.queue, 0));
    }
    queue_probe_claim(&probe, 1, NULL); /* it ends */
    assert_tasks("");
    assert_reply(server, "zset", "TYPE hf:2:processes");
    assert_reply(server, "0", "EXISTS hf:2:waiting:resource:hf:2:processes");
}

/* --- the node ----------------------------------------------------------------------------------------------------- */

TEST(test_it_works_without_memory)
{
    start("a");
    park_new(&probe, 0, "one");
    park_new(&probe, 0, "two");
    push("a", "holder");
    queue_probe_claim(&probe, 0, "holder");
    push("a", "three");
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    queue_probe_claim(&probe, 1, "three");
    assert_int_equal(park(&probe, 1), QUEUE_NOTHING);
    struct waiting_end end = end_of("holder");
    assert_int_equal(settle_free(&probe, 0, true, &end), QUEUE_CLAIMED);
    assert_string_equal(probe.slots[0].payload, "one");
    struct waiting_successor successor = successor_of("one");
    assert_int_equal(claim_successor(&probe, 1, &successor), QUEUE_CLAIMED);
    end.jid = "two";
    queue_free(probe.queue, &end);
    wait_tasks(in_claims("one", "two", "\nqueue:a three"));
    free(redis_server_command(server, "ZADD hf:2:contended XX 1 " LIST));
    assert_reply(server, "0", "EVALSHA %s 2 schedule hf:2:contended 100 100 1000 hf:2:waiting: hf:2:waiters:",
                 queue_script_due.sha1);
    assert_int_equal(skip_task(&probe, 0, "one"), QUEUE_NOTHING);
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, queue_teardown)
