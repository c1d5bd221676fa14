/* Tasks that wait for a lock at the queue node: in which order, until when, who is woken and who becomes an heir. */
#include "queue/promoter.h"
#include "tests/support/waiting_list_fixture.h"

/* --- parking ------------------------------------------------------------------------------------------------------ */

static void test_only_the_oldest_is_due_soon_enough(void **state)
{
    (void)state;
    start("a");
    park_new(&probe, 0, "one");
    park_new(&probe, 1, "two");
    park_new(&probe, 0, "three");
    assert_due_near("one");
    assert_due_far("two");
    assert_due_far("three");
    assert_waiting("one=P two=P three=P");
    assert_places("schedule one\nschedule three\nschedule two");
    assert_reply(server, LIST, "ZRANGE hf:2:contended 0 -1");
}

static void test_an_end_wakes_the_oldest_of_all_processes(void **state)
{
    (void)state;
    start("a");
    queue_probe_start(&other, loop, redis_server_port(server), "a", NULL);
    push("a", "holder");
    queue_probe_claim(&probe, 0, "holder");
    park_new(&probe, 1, "one");
    park_new(&other, 0, "two");
    park_new(&probe, 1, "three");
    struct waiting_end end = end_of("holder");
    assert_int_equal(turn_free(&probe, 0, false, &end), QUEUE_NOTHING);
    assert_true(queue_has_waiters(probe.queue, 0));
    assert_places("queue:a one\nschedule three\nschedule two");
    assert_waiting("one=O two=P three=P");
    queue_probe_claim(&other, 0, "one");
    end.jid = "one";
    assert_int_equal(turn_free(&other, 0, true, &end), QUEUE_CLAIMED);
    assert_string_equal(other.slots[0].payload, "two");
    assert_waiting("two=O three=P");
    end.jid = "two";
    assert_int_equal(turn_free(&other, 0, true, &end), QUEUE_CLAIMED);
    end.jid = "three";
    assert_int_equal(turn_free(&other, 0, true, &end), QUEUE_NOTHING);
    assert_false(queue_has_waiters(other.queue, 0));
    assert_places("");
    assert_reply(server, "0", "EXISTS " ORDER " " PLACES);
}

static void test_a_task_keeps_its_place(void **state)
{
    (void)state;
    start("a");
    park_new(&probe, 0, "one");
    park_new(&probe, 0, "two");
    struct waiting_end end = end_of(NULL);
    queue_free(probe.queue, &end);
    wait_places("queue:a one\nschedule two");
    queue_probe_claim(&probe, 0, "one");
    age_freed(0);
    assert_int_equal(park(&probe, 0), QUEUE_NOTHING);
    assert_waiting("one=P two=P");
    assert_due_near("one");
    assert_due_far("two");
}

static void test_a_lock_that_was_freed_meanwhile_is_tried_again(void **state)
{
    (void)state;
    start("a");
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    int64_t seen_us = queue_seen_us(probe.queue, 0);
    struct waiting_end end = end_of(NULL);
    push("a", "holder");
    queue_probe_claim(&probe, 1, "holder");
    turn_free(&probe, 1, false, &end);
    assert_int_equal(park(&probe, 0), QUEUE_KEPT);
    assert_true(queue_seen_us(probe.queue, 0) > seen_us);
    assert_reply(server, "0", "EXISTS schedule " ORDER);
    assert_int_equal(park(&probe, 0), QUEUE_NOTHING);
    assert_due_soon("one");
}

/* --- heirs -------------------------------------------------------------------------------------------------------- */

/* The holder is in slot 0, "one" and "two" wait. */
static void hold_before_two(const char *queues)
{
    start(queues);
    push("a", "holder");
    queue_probe_claim(&probe, 0, "holder");
    park_new(&probe, 1, "one");
    park_new(&probe, 1, "two");
}

static void test_the_oldest_becomes_the_heir(void **state)
{
    (void)state;
    hold_before_two("a");
    struct waiting_heir heir = heir_of("holder");
    assert_int_equal(claim_heir(&probe, 1, &heir), QUEUE_CLAIMED);
    assert_string_equal(probe.slots[1].payload, "one");
    assert_string_equal(probe.slots[1].queue, "a");
    assert_true(queue_seen_us(probe.queue, 1) > 0);
    assert_waiting("one=O two=P");
    struct waiting_end end = end_of("holder");
    end.is_handed_on = true;
    push("a", "other");
    assert_int_equal(turn_free(&probe, 0, false, &end), QUEUE_NOTHING);
    assert_true(queue_has_waiters(probe.queue, 0));
    assert_reply(server, "0", "EXISTS " FREED);
    assert_waiting("one=O two=P");
    heir.holder_jid = "one";
    assert_int_equal(claim_heir(&probe, 0, &heir), QUEUE_CLAIMED);
    assert_string_equal(probe.slots[0].payload, "two");
    assert_waiting("two=O");
    heir.holder_jid = "two";
    assert_int_equal(claim_heir(&probe, 2, &heir), QUEUE_NOTHING);
    assert_waiting("");
}

/* --- skipping ----------------------------------------------------------------------------------------------------- */

static void test_a_task_is_skipped(void **state)
{
    (void)state;
    start("a");
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    assert_int_equal(skip_task(&probe, 0, "one"), QUEUE_NOTHING);
    assert_places("");
    queue_probe_claim(&probe, 0, NULL);
}

static void test_a_task_that_was_recovered_is_not_skipped(void **state)
{
    (void)state;
    start("a");
    push("a", "one");
    free(redis_server_command(server, "HSET hf:2:recovered:one dead:1:1 1"));
    queue_probe_claim(&probe, 0, "one");
    assert_int_equal(skip_task(&probe, 0, "one"), QUEUE_KEPT);
    assert_int_equal(park(&probe, 0), QUEUE_NOTHING);
    assert_waiting("one=P");
}

static void test_a_task_that_has_waited_is_not_skipped(void **state)
{
    (void)state;
    start("a");
    park_new(&probe, 0, "one");
    queue_free(probe.queue, &(struct waiting_end){.lists = (const char *const[]){LIST}, .list_count = 1});
    wait_places("queue:a one");
    queue_probe_claim(&probe, 0, "one");
    assert_int_equal(skip_task(&probe, 0, "one"), QUEUE_KEPT);
    queue_probe_give_back(&probe, 0);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_places("queue:a one");
}

/* --- examinations ------------------------------------------------------------------------------------------------- */

static struct promoter *promoter;

/* The lists are examined by the next look. */
static void examine(void)
{
    static const struct envelope_limits limits = {.size = 1 << 20, .depth = 64, .keys = 1000};
    static const struct promoter_options options = {.limits = &limits, .timeout_ns = NS_PER_S};
    free(redis_server_command(server, "ZADD hf:2:contended 1 " LIST));
    promoter = promoter_create(loop, probe.queue, &options);
}

static bool is_examined(void *context)
{
    (void)context;
    char *score = redis_server_command(server, "ZSCORE hf:2:contended " LIST);
    bool is_done = strcmp(score, "1") != 0;
    free(score);
    return is_done;
}

static void wait_examined(void)
{
    if (!loop_until(loop, is_examined, NULL, TEST_PATIENCE_NS))
        fail_msg("nobody examines the list");
    promoter_destroy(promoter);
}

static void test_a_list_whose_head_has_vanished_goes_on(void **state)
{
    (void)state;
    hold_before_two("a");
    free(redis_server_command(server, "ZREM schedule one"));
    examine();
    wait_examined();
    assert_true(due_in("two") <= 0);
    assert_waiting("two=P");
    assert_reply(server, "1", "ZCARD hf:2:contended");
}

static void test_an_empty_list_is_examined_once(void **state)
{
    (void)state;
    start("a");
    queue_probe_wait_up(&probe);
    examine();
    wait_examined();
    assert_reply(server, "0", "EXISTS hf:2:contended");
}

static const struct CMUnitTest tests[] = {
    queue_test(test_only_the_oldest_is_due_soon_enough),
    queue_test(test_an_end_wakes_the_oldest_of_all_processes),
    queue_test(test_a_task_keeps_its_place),
    queue_test(test_a_lock_that_was_freed_meanwhile_is_tried_again),
    queue_test(test_the_oldest_becomes_the_heir),
    queue_test(test_a_task_is_skipped),
    queue_test(test_a_task_that_was_recovered_is_not_skipped),
    queue_test(test_a_task_that_has_waited_is_not_skipped),
    queue_test(test_a_list_whose_head_has_vanished_goes_on),
    queue_test(test_an_empty_list_is_examined_once),
};

int main(void)
{
    return cmocka_run_group_tests(tests, one_server_set_up, one_server_tear_down);
}
