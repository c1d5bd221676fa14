/* Thousands that wait: the queue node restarts, and all of them come back, each once and in the order in which they
 * were parked. And who dies while tasks wait. */
#include "base/memory.h"
#include "queue/keys.h"
#include "tests/support/waiting_list_fixture.h"

enum { WAITERS = 5000, SLOTS = 50 };

static const struct queue_options many_slots = {.slots = SLOTS};

/* The node of one test, which keeps what it was told. */
static int durable_set_up(void **state)
{
    server = redis_server_start(&(struct redis_server_options){.config = "appendonly yes\nappendfsync always\n"});
    return queue_setup(state);
}

static int durable_tear_down(void **state)
{
    queue_teardown(state);
    redis_server_destroy(server);
    return 0;
}

/* The tasks are called 0, 1, 2, ... */
static void push_numbers(unsigned count)
{
    free(redis_server_command(server, "EVAL \"for i = 0, ARGV[1] - 1 do redis.call('LPUSH', 'queue:a', i) end\" 0 %u",
                              count));
}

static void park_number(unsigned slot)
{
    const char *text = probe.slots[slot].payload;
    struct waiting_task task = waiting(&probe, slot, text);
    probe.slots[slot].asked++;
    queue_park(probe.queue, slot, &task, text, strlen(text));
}

static void park_all(void)
{
    for (unsigned parked = 0; parked < WAITERS; parked += SLOTS) {
        for (unsigned slot = 0; slot < SLOTS; slot++)
            queue_probe_turn(&probe, slot, true);
        queue_probe_wait_all(&probe);
        for (unsigned slot = 0; slot < SLOTS; slot++)
            park_number(slot);
        queue_probe_wait_all(&probe);
    }
}

static void assert_number(unsigned number)
{
    char text[16];
    snprintf(text, sizeof text, "%u", number);
    assert_string_equal(probe.slots[0].payload, text);
}

static void test_a_restart_keeps_who_waits_and_in_which_order(void **state)
{
    (void)state;
    struct waiting_end end = end_of(NULL);
    queue_probe_start(&probe, loop, redis_server_port(server), "a", &many_slots);
    push_numbers(WAITERS);
    park_all();
    char *before = redis_server_command(server, "ZRANGE schedule 0 -1 WITHSCORES");
    redis_server_restart(server);
    char *after = redis_server_command(server, "ZRANGE schedule 0 -1 WITHSCORES");
    assert_string_equal(before, after);
    free(before);
    free(after);
    free(redis_server_command(server, "CONFIG SET appendfsync no"));
    assert_int_equal(turn_free(&probe, 0, true, &end), QUEUE_CLAIMED);
    for (unsigned number = 0; number < WAITERS; number++) {
        char *jid = memory_text(probe.slots[0].payload);
        assert_number(number);
        end.jid = jid;
        enum queue_answer last = number + 1 < WAITERS ? QUEUE_CLAIMED : QUEUE_NOTHING;
        assert_int_equal(turn_free(&probe, 0, true, &end), last);
        free(jid);
    }
    assert_places("");
    assert_reply(server, "0", "EXISTS " ORDER " " PLACES);
}

static bool is_claimable(void *context)
{
    (void)context;
    return queue_probe_number(server, "LLEN queue:a") == 1;
}

static void test_a_task_whose_process_died_keeps_its_place(void **state)
{
    (void)state;
    static const struct queue_options leased = {.lease_ns = 300 * NS_PER_MS};
    struct waiting_end end = end_of(NULL);
    queue_probe_start(&probe, loop, redis_server_port(server), "a", &leased);
    park_new(&probe, 0, "one");
    park_new(&probe, 0, "two");
    assert_int_equal(turn_free(&probe, 0, true, &end), QUEUE_CLAIMED);
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

static void test_no_two_have_one_time(void **state)
{
    (void)state;
    char *script = included("local list = waiting_list(KEYS[1], KEYS[2], 'schedule', 'paused', 1000000)\n"
                            "for i = 1, 50 do list.park('j' .. i, 2000000000000000, 't' .. i, 'a') end\n"
                            "return redis.call('ZCOUNT', 'schedule', '2000000000', '2000000000.000049')");
    free(redis_server_command(server, "ZADD schedule 2000000000.000003 foreign"));
    assert_reply(server, "50", "EVAL \"%s\" 2 " ORDER " " PLACES, script);
    assert_reply(server, "foreign", "ZRANGEBYSCORE schedule 2000000000.000003 2000000000.000003");
    assert_reply(server, "1", "ZCOUNT schedule 2000000000.000050 2000000000.000050");
    free(script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_restart_keeps_who_waits_and_in_which_order, durable_set_up,
                                        durable_tear_down),
        cmocka_unit_test_setup_teardown(test_a_task_whose_process_died_keeps_its_place, durable_set_up,
                                        durable_tear_down),
        cmocka_unit_test_setup_teardown(test_no_two_have_one_time, durable_set_up, durable_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
