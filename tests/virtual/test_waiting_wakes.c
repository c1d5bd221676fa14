/* Waiting lists at the queue node: who is woken by what, and what sets a list right that nobody wakes any more. */
#include "base/memory.h"
#include "queue/keys.h"
#include "queue/promoter.h"
#include "queue/scripts.h"
#include "tests/support/waiting_list_fixture.h"

/* --- waking ------------------------------------------------------------------------------------------------------- */

TEST(test_several_are_woken_when_told_so)
{
    start("a");
    park_new(&probe, 0, "one");
    park_new(&probe, 0, "two");
    park_new(&probe, 0, "three");
    struct waiting_end end = end_of(NULL);
    end.wakes = 2;
    queue_free(probe.queue, &end);
    wait_tasks("queue:a one\nqueue:a two\nschedule three");
    assert_waiting("one=O two=O three=P");
    assert_reply(server, "1", "HEXISTS " FREED " " GROUP);
}

TEST(test_a_lock_that_is_handed_on_wakes_nobody_but_a_successor_that_failed)
{
    start("a");
    push("a", "holder");
    queue_probe_claim(&probe, 1, "holder");
    park_new(&probe, 0, "one");
    park_new(&probe, 0, "two");
    struct waiting_successor successor = successor_of("holder");
    successor.holder = 1;
    assert_int_equal(claim_successor(&probe, 0, &successor), QUEUE_CLAIMED);
    struct waiting_end end = end_of("holder");
    end.is_handed_on = true;
    free_seat(&end);
    assert_waiting("one=O two=P");
    assert_int_equal(park(&probe, 0), QUEUE_NOTHING);
    assert_waiting("one=P two=P");
    free_seat(&end);
    assert_waiting("one=O two=P");
    assert_reply(server, "one", "LINDEX queue:a -1");
    assert_reply(server, "0", "HEXISTS " FREED " " GROUP);
}

TEST(test_who_cannot_be_claimed_is_passed_over)
{
    struct waiting_end end = end_of(NULL);
    start("a b c");
    push("b", "one");
    queue_probe_claim(&probe, 0, "one");
    assert_int_equal(park(&probe, 0), QUEUE_NOTHING);
    push("c", "two");
    queue_probe_claim(&probe, 0, "two");
    assert_int_equal(park(&probe, 0), QUEUE_NOTHING);
    park_new(&probe, 0, "three");
    free(redis_server_command(server, "SADD paused b"));
    free(redis_server_command(server, "SET queue:c foreign"));
    free_seat(&end);
    assert_tasks("queue:a three\nschedule one\nschedule two");
}

static bool is_due_earlier(void *payload)
{
    return due_in(payload) < 3000;
}

TEST(test_what_stays_locked_for_a_while_is_due_then)
{
    start("a");
    claim_new(0, "holder");
    assert_int_equal(park(&probe, 0), QUEUE_NOTHING);
    park_new(&probe, 0, "one");
    struct waiting_end end = end_of("holder");
    end.after_ns = 90 * NS_PER_S;
    free(redis_server_command(server, "ZREM schedule holder"));
    queue_free(probe.queue, &end);
    assert_true(loop_until(loop, is_due_earlier, "one", TEST_PATIENCE_NS));
    assert_due_about("one", 90);
    assert_waiting("one=P");
    assert_reply(server, "1", "HEXISTS " FREED " " GROUP); /* for who was refused before, and is parked after this */
}

/* Two slots of one call: the lists of the one are not taken for those of the other. */
TEST(test_a_call_frees_what_each_of_its_slots_held)
{
    start("a");
    claim_new(0, "holder");
    claim_new(1, "plain");
    park_new(&probe, 2, "one");
    struct waiting_end end = end_of("holder");
    end.lists = (const char *const[]){"resource:nobody", LIST};
    end.list_count = 2;
    queue_probe_settle(&probe, 1, false);
    assert_int_equal(settle_free(&probe, 0, false, &end), QUEUE_NOTHING);
    assert_int_equal(queue_probe_wait(&probe, 1), QUEUE_NOTHING);
    assert_true(queue_has_waiters(probe.queue, 0)); /* the one that was woken is still in the list */
    assert_false(queue_has_waiters(probe.queue, 1));
    assert_tasks("queue:a one");
    assert_reply(server, "1", "HEXISTS hf:2:freed 12583");
    queue_probe_claim(&probe, 1, "one");
    end.jid = "one";
    assert_int_equal(settle_free(&probe, 1, false, &end), QUEUE_NOTHING);
    assert_false(queue_has_waiters(probe.queue, 1));
}

TEST(test_a_foreign_value_in_place_of_the_times_is_replaced)
{
    start("a");
    claim_new(0, "holder");
    free(redis_server_command(server, "SET " FREED " foreign"));
    struct waiting_end end = end_of("holder");
    assert_int_equal(settle_free(&probe, 0, false, &end), QUEUE_NOTHING);
    assert_reply(server, "1", "HEXISTS " FREED " " GROUP);
}

TEST(test_who_lost_its_claim_frees_nothing)
{
    start("a");
    claim_new(0, "holder");
    park_new(&probe, 1, "one");
    free(redis_server_command(server, "HDEL %s 0", queue_keys_of(probe.queue)->process));
    struct waiting_end end = end_of("holder");
    assert_int_equal(settle_free(&probe, 0, false, &end), QUEUE_LOST);
    assert_tasks("schedule one");
    assert_reply(server, "0", "HEXISTS " FREED " " GROUP);
}

/* --- examinations ------------------------------------------------------------------------------------------------- */

static void examine(void)
{
    free(redis_server_command(server, "ZADD hf:2:contended XX 1 " LIST));
    assert_reply(server, "0", "EVALSHA %s 2 schedule hf:2:contended 100 100 1000 hf:2:waiting: hf:2:waiters:",
                 queue_script_due.sha1);
}

TEST(test_a_list_whose_head_has_vanished_goes_on)
{
    hold_before_two("a");
    examine();
    assert_waiting("one=P two=P");
    assert_true(due_in("one") < 1); /* it would have slept for ten minutes */
    free(redis_server_command(server, "ZREM schedule one"));
    examine();
    assert_waiting("one=P two=P"); /* it was due: somebody promoted it */
    assert_due_far("two");
    age_waiter("one", 70);
    examine();
    assert_true(due_in("two") < 1);
    assert_reply(server, "1", "ZCARD hf:2:contended");
    age_waiter("one", 86400);
    examine();
    assert_waiting("two=P");
}

TEST(test_who_is_due_is_left_alone)
{
    start("a");
    claim_new(0, "one");
    struct waiting_task task = waiting(&probe, 0, "one");
    task.near_ns = 25 * NS_PER_S;
    assert_int_equal(park_as(&probe, 0, &task, "one"), QUEUE_NOTHING);
    char *before = redis_server_command(server, "ZSCORE schedule one");
    examine();
    assert_reply(server, before, "ZSCORE schedule one");
    free(before);
}

static bool is_not_contended(void *context)
{
    (void)context;
    return queue_probe_number(server, "EXISTS hf:2:contended") == 0;
}

/* Every process's promoter examines. */
TEST(test_a_list_without_waiters_is_forgotten)
{
    static const struct envelope_limits limits = {.size = 1 << 20, .depth = 64, .keys = 1000};
    start("a");
    queue_probe_wait_up(&probe);
    free(redis_server_command(server, "ZADD hf:2:contended 1 " LIST " 1 resource:never"));
    free(redis_server_command(server, "HSET " WAITERS " gone x"));
    struct promoter *promoter =
        promoter_create(loop, probe.queue, &(struct promoter_options){.limits = &limits, .timeout_ns = NS_PER_S});
    if (!loop_until(loop, is_not_contended, NULL, TEST_PATIENCE_NS))
        fail_msg("nobody examines the list");
    promoter_destroy(promoter);
    assert_reply(server, "0", "EXISTS " WAITERS);
}

static bool is_promoted(void *context)
{
    (void)context;
    return queue_probe_number(server, "ZCARD schedule") == 0;
}

/* Without being told, a promoter first looks after 700 ms. A machine may be too slow for this once, but not always. */
TEST(test_what_is_due_soon_is_looked_for)
{
    static const struct envelope_limits limits = {.size = 1 << 20, .depth = 64, .keys = 1000};
    static const struct promoter_options options = {.limits = &limits, .timeout_ns = NS_PER_S};
    bool was_in_time = false;
    start("a");
    for (int i = 0; i < 20 && !was_in_time; i++) {
        claim_new(0, "one");
        struct waiting_task task = waiting(&probe, 0, "one");
        task.near_ns = 0;
        assert_int_equal(park_as(&probe, 0, &task, "one"), QUEUE_NOTHING);
        struct promoter *promoter = promoter_create(loop, probe.queue, &options);
        struct instant began = instant_now();
        promoter_expect(promoter, 900 * NS_PER_MS);
        promoter_expect(promoter, 20 * NS_PER_MS);
        promoter_expect(promoter, 400 * NS_PER_MS);
        assert_true(loop_until(loop, is_promoted, NULL, TEST_PATIENCE_NS));
        was_in_time = instant_since(began, instant_now()) < 350 * NS_PER_MS;
        promoter_destroy(promoter);
    }
    assert_true(was_in_time);
}

/* --- where several may hold the resource -------------------------------------------------------------------------- */

#define SEATS "seats:seat"

static void park_for_a_seat(unsigned slot, const char *jid, int64_t near_ns)
{
    claim_new(slot, jid);
    struct waiting_task task = waiting(&probe, slot, jid);
    task.list = SEATS;
    task.near_ns = near_ns;
    assert_int_equal(park_as(&probe, slot, &task, jid), QUEUE_NOTHING);
}

static void assert_parked(unsigned tasks)
{
    assert_int_equal(queue_probe_number(server, "ZCARD schedule"), tasks);
}

/* "a" runs, and "b" is on its way. */
static void start_with_two_seats_taken(void)
{
    start("a");
    claim_new(0, "a");
    park_for_a_seat(1, "b", NEAR_NS);
    struct waiting_end end = {.lists = (const char *const[]){SEATS}, .list_count = 1, .wakes = 1};
    queue_free(probe.queue, &end);
    queue_probe_claim(&probe, 1, "b");
    age_freed(0);
    park_for_a_seat(2, "c", NEAR_NS);
    park_for_a_seat(2, "d", NEAR_NS);
    park_for_a_seat(2, "e", NEAR_NS);
}

TEST(test_a_successor_is_claimed_whoever_has_another_seat)
{
    start_with_two_seats_taken();
    struct waiting_successor successor = successor_of("a");
    successor.list = SEATS;
    successor.holder = 0;
    assert_int_equal(claim_successor(&probe, 2, &successor), QUEUE_CLAIMED);
    assert_string_equal(probe.slots[2].payload, "c");
    assert_parked(2);
    struct waiting_end end = {.lists = (const char *const[]){SEATS}, .list_count = 1, .jid = "a", .is_handed_on = true};
    assert_int_equal(settle_free(&probe, 0, true, &end), QUEUE_NOTHING); /* the seat goes to "c": "d" stays */
    assert_parked(2);
    queue_free(probe.queue, &(struct waiting_end){.lists = end.lists, .list_count = 1, .is_handed_on = true});
    successor.holder = 2;
    successor.holder_jid = "c";
    successor.ended_jid = NULL;
    assert_int_equal(claim_successor(&probe, 0, &successor), QUEUE_CLAIMED);
    assert_string_equal(probe.slots[0].payload, "d");
    assert_parked(1);
    end.is_handed_on = false;
    end.jid = "b";
    assert_int_equal(settle_free(&probe, 1, false, &end), QUEUE_NOTHING);
    assert_parked(0);
    assert_reply(server, "e", "LINDEX queue:a -1"); /* the seat of "b" goes to nobody: one is woken for it */
}

/* Whoever comes back by time was woken by nobody: there may be more than one free seat. */
TEST(test_each_that_comes_back_by_time_lets_the_next_look)
{
    static const struct envelope_limits limits = {.size = 1 << 20, .depth = 64, .keys = 1000};
    static const char text[] =
        "{\"class\":\"Work\",\"args\":[],\"queue\":\"a\",\"jid\":\"%s\",\"hf_list\":\"" SEATS "\"}";
    start("a");
    for (unsigned i = 0; i < 3; i++) {
        char jid[4], task[160];
        snprintf(jid, sizeof jid, "t%u", i);
        snprintf(task, sizeof task, text, jid);
        push("a", jid);
        queue_probe_claim(&probe, 0, jid);
        struct waiting_task waits = waiting(&probe, 0, jid);
        waits.list = SEATS;
        waits.near_ns = i == 0 ? 0 : NEAR_NS;
        assert_int_equal(park_as(&probe, 0, &waits, task), QUEUE_NOTHING);
    }
    struct promoter *promoter =
        promoter_create(loop, probe.queue, &(struct promoter_options){.limits = &limits, .timeout_ns = NS_PER_S});
    assert_true(loop_until(loop, is_promoted, NULL, TEST_PATIENCE_NS));
    promoter_destroy(promoter);
}

static void promote_for_a_seat(const char *jid)
{
    assert_reply(server, "1",
                 "EVALSHA %s 4 schedule queues dead queue:a 100 100 %s %s a hf:2:waiting: hf:2:waiters: 1 %s " SEATS,
                 queue_script_promote.sha1, jid, jid, jid);
    queue_probe_claim(&probe, 0, jid);
}

/* Else two tasks send each other back and forth. */
TEST(test_who_finds_no_seat_ends_the_looking)
{
    start("a");
    park_for_a_seat(0, "c", 0);
    park_for_a_seat(0, "d", NEAR_NS);
    promote_for_a_seat("c");
    assert_true(due_in("d") < 1);
    struct waiting_task task = waiting(&probe, 0, "c");
    task.list = SEATS;
    assert_int_equal(park_as(&probe, 0, &task, "c"), QUEUE_NOTHING);
    promote_for_a_seat("d");
    assert_true(due_in("c") > 300);
}

/* A seat that stayed locked for a while is free since it was due, and another one is now. */
TEST(test_who_is_woken_when_due_already_lets_the_next_look)
{
    start("a");
    park_for_a_seat(0, "c", 0);
    park_for_a_seat(0, "d", NEAR_NS);
    struct waiting_end end = {.lists = (const char *const[]){SEATS}, .list_count = 1, .wakes = 1};
    queue_free(probe.queue, &end);
    wait_tasks("queue:a c\nschedule d");
    assert_true(due_in("d") < 1);
}

/* Other tasks run all the time. */
TEST(test_the_oldest_looks_now_and_then_though_others_are_out)
{
    start_with_two_seats_taken();
    assert_true(due_in("c") > 300);
    free(redis_server_command(server, "ZADD hf:2:contended XX 1 " SEATS));
    look_once();
    assert_true(due_in("c") < 1);
    assert_true(due_in("d") > 300);
}

/* --- who dies ----------------------------------------------------------------------------------------------------- */

static bool is_claimable(void *context)
{
    (void)context;
    return queue_probe_number(server, "LLEN queue:a") == 1;
}

TEST(test_a_task_whose_process_died_keeps_its_position)
{
    static const struct queue_options leased = {.lease_ns = 300 * NS_PER_MS};
    struct waiting_end end = end_of(NULL);
    queue_probe_start(&probe, loop, redis_server_port(server), "a", &leased);
    park_new(&probe, 0, "one");
    park_new(&probe, 0, "two");
    assert_int_equal(settle_free(&probe, 0, true, &end), QUEUE_CLAIMED);
    queue_probe_stop(&probe); /* as if it had been killed */
    queue_probe_start(&other, loop, redis_server_port(server), "unserved", &leased);
    assert_true(loop_until(loop, is_claimable, NULL, TEST_PATIENCE_NS));
    queue_probe_stop(&other);
    start("a");
    queue_probe_claim(&probe, 0, "one");
    age_freed(1000);
    assert_int_equal(park(&probe, 0), QUEUE_NOTHING);
    assert_waiting("one=P two=P");
    assert_due_near("one");
}

/* --- times -------------------------------------------------------------------------------------------------------- */

/* The files that our scripts include, and code behind them, as one argument. */
static char *included(const char *code)
{
    static const char *const paths[] = {"lib/queue/scripts/include/entry_add.lua",
                                        "lib/queue/scripts/include/waiting_list.lua"};
    char text[32768], *argument = memory_zeroed(4, sizeof text);
    size_t length = 0;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        FILE *file = fopen(paths[i], "r");
        assert_non_null(file);
        length += fread(text + length, 1, sizeof text / 2 - length, file);
        fclose(file);
    }
    length += (size_t)snprintf(text + length, sizeof text - length, "%s", code);
    for (size_t i = 0; i < length; i++)
        snprintf(argument + 4 * i, 5, "\\x%02x", (unsigned char)text[i]);
    return argument;
}

TEST(test_no_two_have_one_time)
{
    char *script = included("local list = waiting_list(KEYS[1], KEYS[2], 'schedule', 'paused', 1000000)\n"
                            "for i = 1, 50 do list.park('j' .. i, 2000000000000000, 't' .. i, 'a') end\n"
                            "return redis.call('ZCOUNT', 'schedule', '2000000000', '2000000000.000049')");
    free(redis_server_command(server, "ZADD schedule 2000000000.000003 foreign"));
    assert_reply(server, "50", "EVAL \"%s\" 2 " ORDER " " WAITERS, script);
    assert_reply(server, "foreign", "ZRANGEBYSCORE schedule 2000000000.000003 2000000000.000003");
    assert_reply(server, "1", "ZCOUNT schedule 2000000000.000050 2000000000.000050");
    free(script);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, queue_teardown)
