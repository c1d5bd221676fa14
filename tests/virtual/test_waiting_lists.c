/* Tasks that wait for a lock at the queue node: in which order, until when, who becomes a successor, who is skipped. */
#include "queue/keys.h"
#include "queue/queue_private.h"
#include "tests/support/waiting_list_fixture.h"

/* --- parking ------------------------------------------------------------------------------------------------------ */

TEST(test_only_the_oldest_is_due_soon_enough)
{
    start("a");
    park_new(&probe, 0, "one");
    park_new(&probe, 1, "two");
    park_new(&probe, 0, "three");
    assert_due_near("one");
    assert_due_far("two");
    assert_due_far("three");
    assert_waiting("one=P two=P three=P");
    assert_tasks("schedule one\nschedule three\nschedule two");
    assert_reply(server, LIST, "ZRANGE hf:2:contended 0 -1");
}

TEST(test_the_oldest_is_due_soon_after_the_lock_was_freed)
{
    start("a");
    claim_new(0, "one");
    struct waiting_task task = waiting(&probe, 0, "one");
    freed_at(task.seen_us - 20000);
    assert_int_equal(park_as(&probe, 0, &task, "one"), QUEUE_NOTHING);
    assert_due_soon("one");
    free(redis_server_command(server, "DEL schedule"));
    claim_new(0, "one");
    task.seen_us = queue_seen_us(probe.queue, 0);
    freed_at(task.seen_us - 90000);
    assert_int_equal(park_as(&probe, 0, &task, "one"), QUEUE_NOTHING);
    assert_true(due_in("one") > 0.07 && due_in("one") <= 0.1);
    free(redis_server_command(server, "DEL schedule"));
    claim_new(0, "one");
    task.seen_us = queue_seen_us(probe.queue, 0);
    freed_at(task.seen_us - 101000);
    assert_int_equal(park_as(&probe, 0, &task, "one"), QUEUE_NOTHING);
    assert_due_near("one");
}

/* A process believes such a refusal for longer than the release takes. */
TEST(test_a_refusal_shortly_after_the_lock_was_freed_is_not_believed_for_long)
{
    start("a");
    claim_new(0, "one");
    struct waiting_task task = waiting(&probe, 0, "one");
    task.seen_us = node_time() - 200000;
    freed_at(task.seen_us - 50000);
    assert_int_equal(park_as(&probe, 0, &task, "one"), QUEUE_KEPT);
    task.may_retry = false;
    assert_int_equal(park_as(&probe, 0, &task, "one"), QUEUE_NOTHING);
    assert_due_soon("one");
}

/* The one before it will be woken, or was. */
TEST(test_behind_another_it_sleeps_long_whatever_was_freed)
{
    start("a");
    park_new(&probe, 0, "one");
    claim_new(0, "two");
    freed_at(queue_seen_us(probe.queue, 0) + 1);
    assert_int_equal(park(&probe, 0), QUEUE_NOTHING);
    assert_due_far("two");
}

TEST(test_what_a_refusal_of_long_ago_says_is_not_believed)
{
    start("a");
    claim_new(0, "one");
    struct waiting_task task = waiting(&probe, 0, "one");
    task.seen_us = node_time() - 60 * 1000000;
    assert_int_equal(park_as(&probe, 0, &task, "one"), QUEUE_KEPT);
    assert_true(queue_seen_us(probe.queue, 0) > task.seen_us);
    task.seen_us = node_time() - 50 * 1000000;
    assert_int_equal(park_as(&probe, 0, &task, "one"), QUEUE_NOTHING);
    assert_due_near("one");
}

TEST(test_a_full_list_takes_only_who_is_in_it)
{
    start("a");
    park_new(&probe, 0, "one");
    park_new(&probe, 0, "two");
    claim_new(0, "three");
    struct waiting_task task = waiting(&probe, 0, "three");
    task.waiters_max = 2;
    assert_int_equal(park_as(&probe, 0, &task, "three"), QUEUE_FULL);
    assert_waiting("one=P two=P");
    struct waiting_end end = end_of(NULL);
    assert_int_equal(settle_free(&probe, 1, true, &end), QUEUE_CLAIMED);
    assert_string_equal(probe.slots[1].payload, "one");
    age_freed(1000);
    task.jid = "one";
    assert_int_equal(park_as(&probe, 1, &task, "one"), QUEUE_NOTHING);
    assert_waiting("one=P two=P");
    task.jid = "three";
    task.waiters_max = 3;
    assert_int_equal(park_as(&probe, 0, &task, "three"), QUEUE_NOTHING);
    assert_waiting("one=P two=P three=P");
}

/* Pushed twice: to the node the same bytes would be one entry of `schedule`. The first is in the list. */
TEST(test_the_same_task_twice_is_parked_twice)
{
    start("a");
    park_new(&probe, 0, "older");
    park_new(&probe, 0, "one");
    park_new(&probe, 1, "one");
    assert_waiting("older=P one=P");
    assert_due_far("one");
    assert_reply(server, "3", "ZCARD schedule");
    char *twin = redis_server_command(server, "ZRANGE schedule 1 1");
    assert_memory_equal(twin, "one", 3);
    assert_int_equal(strspn(twin + 3, " \t"), strlen(twin + 3));
    free(twin);
}

TEST(test_two_tasks_of_one_jid_are_both_parked)
{
    start("a");
    park_new(&probe, 0, "older");
    park_new(&probe, 0, "one");
    claim_new(0, "two");
    struct waiting_task task = waiting(&probe, 0, "one");
    assert_int_equal(park_as(&probe, 0, &task, "two"), QUEUE_NOTHING);
    assert_tasks("schedule older\nschedule one\nschedule two");
    assert_due_far("one");
    assert_due_near("two");
    assert_waiting("older=P one=P");
}

static const char *const seat[] = {LIST}, *const table[] = {"resource:table"};

/* "one" needs a seat and a table. It was woken when a seat was free, and finds no table. */
TEST(test_who_has_to_wait_elsewhere_lets_the_next_pass)
{
    start("a");
    park_new(&probe, 0, "one");
    park_new(&probe, 0, "two");
    struct waiting_end end = end_of(NULL);
    assert_int_equal(settle_free(&probe, 0, true, &end), QUEUE_CLAIMED);
    struct waiting_task task = waiting(&probe, 0, "one");
    task.list = table[0];
    task.others = seat;
    task.other_count = 1;
    assert_int_equal(park_as(&probe, 0, &task, "one"), QUEUE_NOTHING);
    assert_tasks("queue:a two\nschedule one");
    assert_waiting("one=O two=O");
    end.lists = table;
    queue_free(probe.queue, &end);
    wait_tasks("queue:a one\nqueue:a two");
    /* And when it comes back, and has to wait for the seat again, it is still before the other. */
    queue_probe_claim(&probe, 0, "one");
    task.list = seat[0];
    task.others = table;
    age_freed(1000);
    assert_int_equal(park_as(&probe, 0, &task, "one"), QUEUE_NOTHING);
    assert_waiting("one=P two=O");
}

/* --- bells ------------------------------------------------------------------------------------------------------ */

/* It rang for a process that does not come for it: nobody has begun with it. */
TEST(test_what_rang_in_vain_goes_back)
{
    start("a");
    queue_probe_wait_up(&probe);
    free(redis_server_command(server, "RPUSH hf:2:bell:%s:a two one", probe.identity));
    push("a", "newer");
    look_once();
    assert_reply(server, "newer\ntwo\none", "LRANGE queue:a 0 -1");
    look_once();
    assert_tasks("queue:a newer\nqueue:a one\nqueue:a two");
}

/* It stood still, was recovered, and its last blocking move was served before it died. */
TEST(test_what_rang_for_the_recovered_goes_back)
{
    start("a");
    queue_probe_wait_up(&probe);
    free(redis_server_command(server, "ZADD hf:2:processes 9999999999 h:1:gone"));
    free(redis_server_command(server, "HSET hf:2:process:h:1:gone gone 1a"));
    free(redis_server_command(server, "RPUSH hf:2:bell:h:1:gone:a late"));
    look_once();
    assert_reply(server, "late", "LRANGE queue:a 0 -1");
    assert_reply(server, "0", "EXISTS hf:2:bell:h:1:gone:a");
}

/* --- successors --------------------------------------------------------------------------------------------------- */

/* The tasks that the process has claimed, and what else there is. */
static void assert_claims(const char *first, const char *second, const char *rest)
{
    char text[512];
    const char *process = queue_keys_of(probe.queue)->process;
    if (second != NULL)
        snprintf(text, sizeof text, "%s %s\n%s %s%s", process, first, process, second, rest);
    else
        snprintf(text, sizeof text, "%s %s%s", process, first, rest);
    assert_tasks(text);
}

/* What the slot's claim before it said does not hold for the successor. */
TEST(test_whether_a_successor_has_progress_is_not_known)
{
    static const char task[] = "{\"jid\":\"new\"}";
    hold_before_two("a");
    assert_false(queue_has_no_progress(probe.queue, 1)); /* from now on claims tell */
    free(redis_server_command(server, "LPUSH queue:a '%s'", task));
    queue_probe_claim(&probe, 1, task);
    assert_true(queue_has_no_progress(probe.queue, 1));
    queue_probe_postpone(&probe, 1, QUEUE_DEAD, 0, task);
    assert_int_equal(queue_probe_wait(&probe, 1), QUEUE_NOTHING);
    struct waiting_successor successor = successor_of("holder");
    assert_int_equal(claim_successor(&probe, 1, &successor), QUEUE_CLAIMED);
    assert_false(queue_has_no_progress(probe.queue, 1));
}

/* Its process stands still: whoever looks brings the successor back, at the head of its queue and before the other. */
TEST(test_a_successor_that_is_not_kept_goes_back_and_keeps_its_position)
{
    hold_before_two("a");
    struct waiting_successor successor = successor_of("holder");
    successor.kept_ns = 0;
    assert_int_equal(claim_successor(&probe, 1, &successor), QUEUE_CLAIMED);
    push("a", "newer");
    look_once();
    look_once();
    assert_claims("holder", NULL, "\nqueue:a newer\nqueue:a one\nschedule two");
    assert_reply(server, "newer\none", "LRANGE queue:a 0 -1");
    assert_waiting("one=O two=P");
    assert_reply(server, "0", "EXISTS hf:2:successors");

    queue_probe_start(&other, loop, redis_server_port(server), "a", NULL);
    queue_probe_claim(&other, 0, "one");
    assert_int_equal(park(&other, 0), QUEUE_NOTHING);
    assert_due_near("one");
    assert_waiting("one=P two=P");

    keep_successor(&probe, 1, "one", 0); /* it goes on, and asks */
    assert_true(loop_until(loop, counts_one, &probe.slots[1].lost, TEST_PATIENCE_NS));
    assert_int_equal(probe.slots[1].confirmed, 0);
    queue_probe_settle(&probe, 1, false);
    assert_int_equal(queue_probe_wait(&probe, 1), QUEUE_LOST);
    queue_probe_claim(&probe, 1, "newer");
}

/* In seconds from now. */
static double successor_kept_for(void)
{
    char *text = redis_server_command(server, "EVAL \"local t = redis.call('TIME') return string.format('%%.6f', "
                                              "redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] - t[1] - t[2] / "
                                              "1000000)\" 1 hf:2:successors");
    double seconds = strtod(text, NULL);
    free(text);
    return seconds;
}

static bool is_kept_for_longer(void *context)
{
    (void)context;
    return successor_kept_for() > 1000;
}

TEST(test_a_successor_that_is_confirmed_follows_the_lease)
{
    hold_before_two("a");
    struct waiting_successor successor = successor_of("holder");
    assert_int_equal(claim_successor(&probe, 1, &successor), QUEUE_CLAIMED);
    assert_true(successor_kept_for() > 500 && successor_kept_for() <= 600);
    keep_successor(&probe, 1, "one", 2 * NEAR_NS);
    assert_true(loop_until(loop, is_kept_for_longer, NULL, TEST_PATIENCE_NS));
    keep_successor(&probe, 1, "one", 0);
    assert_true(loop_until(loop, counts_one, &probe.slots[1].confirmed, TEST_PATIENCE_NS));
    assert_reply(server, "0", "EXISTS hf:2:successors");
    look_once();
    assert_claims("holder", "one", "\nschedule two");
    assert_int_equal(probe.slots[1].lost, 0);
}

TEST(test_the_end_of_a_holder_confirms_its_successor_if_it_is_there)
{
    for (int is_there = 0; is_there < 2; is_there++) {
        free(redis_server_command(server, "FLUSHALL"));
        hold_before_two("a");
        struct waiting_successor successor = successor_of("holder");
        successor.kept_ns = 0;
        assert_int_equal(claim_successor(&probe, 1, &successor), QUEUE_CLAIMED);
        if (!is_there)
            look_once();
        successor.holder = 1;
        successor.holder_jid = "one";
        successor.ended_jid = "holder";
        assert_int_equal(claim_successor(&probe, 0, &successor), is_there ? QUEUE_CLAIMED : QUEUE_NOTHING);
        assert_int_equal(probe.slots[1].confirmed, is_there);
        assert_int_equal(probe.slots[1].lost, !is_there);
        assert_reply(server, is_there ? "1" : "0", "ZCARD hf:2:successors"); /* that of the next */
        assert_true(!is_there || queue_probe_number(server, "TTL hf:2:successors") > 3590);
        queue_probe_stop(&probe);
    }
}

static void assert_no_successor(const struct waiting_successor *successor)
{
    assert_int_equal(claim_successor(&probe, 1, successor), QUEUE_NOTHING);
    assert_waiting("one=P two=P");
}

/* A waiter says nothing of a task that needs the list's resource alone, or names its digest. */
TEST(test_a_successor_may_need_what_the_list_is_for)
{
    static const char own_set[] = "ac6f21194a0446a685f35a811eebd322734ba283"; /* SHA-1 of LIST and its NUL */
    start("a");
    push("a", "holder");
    queue_probe_claim(&probe, 0, "holder");
    push("a", "one");
    queue_probe_claim(&probe, 1, "one");
    struct waiting_task task = waiting(&probe, 1, "one");
    task.set = own_set;
    assert_int_equal(park_as(&probe, 1, &task, "one"), QUEUE_NOTHING);
    park_new(&probe, 1, "two");
    assert_reply(server, "a\n\nWork", "EVAL \"return string.sub(redis.call('HGET', KEYS[1], 'one'), -7)\" 1 " WAITERS);

    struct waiting_successor successor = successor_of("holder");
    assert_no_successor(&successor);
    successor.set = own_set;
    assert_int_equal(claim_successor(&probe, 1, &successor), QUEUE_CLAIMED);
    assert_string_equal(probe.slots[1].payload, "one");
    task = waiting(&probe, 1, "one");
    task.set = own_set;
    assert_int_equal(park_as(&probe, 1, &task, "one"), QUEUE_NOTHING);
    free(redis_server_command(server,
                              "EVAL \"local waiter = redis.call('HGET', KEYS[1], 'one') redis.call('HSET', KEYS[1], "
                              "'one', string.sub(waiter, 1, -6) .. ARGV[1] .. string.sub(waiter, -5))\" 1 " WAITERS
                              " %s",
                              own_set));
    assert_int_equal(claim_successor(&probe, 1, &successor), QUEUE_CLAIMED);
    assert_string_equal(probe.slots[1].payload, "one");
}

TEST(test_a_successor_locks_the_same_and_is_of_a_class_of_the_process)
{
    hold_before_two("a");
    struct waiting_successor successor = successor_of("holder");
    successor.set = "more";
    assert_no_successor(&successor);
    successor.set = "set";
    successor.class_count = 1;
    assert_no_successor(&successor);
    successor.class_count = 2;
    assert_int_equal(claim_successor(&probe, 1, &successor), QUEUE_CLAIMED);
}

/* The oldest is of a queue that the holder's process does not serve: it claims nobody behind it either. */
TEST(test_a_successor_is_of_a_queue_of_the_process)
{
    struct waiting_successor successor = successor_of("holder");
    start("b");
    push("b", "holder");
    queue_probe_claim(&probe, 0, "holder");
    queue_probe_start(&other, loop, redis_server_port(server), "a", NULL);
    park_new(&other, 0, "one");
    push("b", "two");
    queue_probe_claim(&probe, 1, "two");
    assert_int_equal(park(&probe, 1), QUEUE_NOTHING);
    assert_no_successor(&successor);
    free(redis_server_command(server, "ZREM schedule one"));
    assert_int_equal(claim_successor(&probe, 1, &successor), QUEUE_CLAIMED);
    assert_string_equal(probe.slots[1].payload, "two");
}

/* --- skipping ----------------------------------------------------------------------------------------------------- */

TEST(test_a_task_is_skipped)
{
    start("a");
    push("a", "one");
    queue_probe_claim(&probe, 0, "one");
    assert_int_equal(skip_task(&probe, 0, "one"), QUEUE_NOTHING);
    assert_tasks("");
    queue_probe_claim(&probe, 0, NULL);
}

TEST(test_a_task_that_was_recovered_is_not_skipped)
{
    start("a");
    push("a", "one");
    free(redis_server_command(server, "HSET hf:2:recovered:one dead:1:1 1"));
    queue_probe_claim(&probe, 0, "one");
    assert_int_equal(skip_task(&probe, 0, "one"), QUEUE_KEPT);
    assert_int_equal(park(&probe, 0), QUEUE_NOTHING);
    assert_waiting("one=P");
}

TEST(test_a_task_that_has_waited_is_not_skipped)
{
    start("a");
    park_new(&probe, 0, "one");
    queue_free(probe.queue, &(struct waiting_end){.lists = (const char *const[]){LIST}, .list_count = 1});
    wait_tasks("queue:a one");
    queue_probe_claim(&probe, 0, "one");
    assert_int_equal(skip_task(&probe, 0, "one"), QUEUE_KEPT);
    queue_probe_give_back(&probe, 0);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_tasks("queue:a one");
}

TEST(test_a_call_that_frees_is_used_again)
{
    start("a");
    for (unsigned times = 0; times < 3; times++) {
        queue_free(probe.queue, &(struct waiting_end){.lists = (const char *const[]){LIST}, .list_count = 1});
        loop_await(loop, !waiting_frees(probe.queue));
    }
    assert_ptr_equal(probe.queue->frees.next->next, &probe.queue->frees);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, queue_teardown)
