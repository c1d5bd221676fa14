/* A queue node that closes a connection whose answers are too large for it (client-output-buffer-limit): tasks that are
 * too large together get through one after the other, and one that is too large alone is told and disturbs little. */
#include "tests/support/queue_fixture.h"

#include "base/memory.h"
#include "queue/queue.h"
#include "queue/retried_call.h"
#include "tests/support/log_capture.h"

enum { LIMIT = 4000, SIZE = 1500, SLOTS = 16 };

static void limit_set(unsigned bytes)
{
    assert_reply(server, "OK", "CONFIG SET client-output-buffer-limit 'normal %u 0 0'", bytes);
}

static int answers_teardown(void **state)
{
    limit_set(0);
    return queue_teardown(state);
}

static void push_large(const char *name, unsigned number, size_t size)
{
    char *task = memory_zeroed(size + 1, 1);
    memset(task, 'x', size);
    snprintf(task, 16, "t%u", number);
    task[strlen(task)] = '.';
    push(name, task);
    free(task);
}

static unsigned connections(void)
{
    return redis_server_info(server, "stats", "total_connections_received:");
}

static void start_with_slots(unsigned slots)
{
    queue_probe_start(&probe, loop, redis_server_port(server), "a", &(struct queue_options){.slots = slots});
    queue_probe_wait_up(&probe);
}

static void settle_all(void)
{
    for (unsigned i = 0; i < probe.slot_count; i++)
        queue_probe_settle(&probe, i, true);
}

TEST(tasks_that_are_too_large_together_get_through)
{
    unsigned claimed = 0, seen = 0;
    for (unsigned i = 0; i < 3 * SLOTS; i++)
        push_large("a", i, SIZE);
    limit_set(LIMIT);
    start_with_slots(SLOTS);
    unsigned before = connections();
    for (unsigned round = 0; round < 3; round++) {
        settle_all();
        queue_probe_wait_all(&probe);
        for (unsigned i = 0; i < SLOTS; i++) {
            claimed += probe.slots[i].answer == QUEUE_CLAIMED;
            seen |= probe.slots[i].length == SIZE;
        }
    }
    assert_int_equal(claimed, 3 * SLOTS);
    assert_true(seen);
    assert_in_range(connections() - before, 1, 15);
    assert_int_equal(queue_unreceived(probe.queue), 0);
}

static bool all_but_one_are_answered(void *unused)
{
    unsigned answered = 0;
    (void)unused;
    for (unsigned i = 0; i < probe.slot_count; i++)
        answered += probe.slots[i].asked == probe.slots[i].answers;
    return answered == probe.slot_count - 1;
}

static bool one_is_unreceived(void *unused)
{
    (void)unused;
    return queue_unreceived(probe.queue) == 1 && all_but_one_are_answered(NULL);
}

TEST(one_that_is_too_large_alone_is_told_and_the_others_get_through)
{
    size_t length;
    push_large("a", 0, 2 * LIMIT);
    for (unsigned i = 1; i < SLOTS; i++)
        push_large("a", i, 100);
    limit_set(LIMIT);
    log_capture_begin();
    start_with_slots(SLOTS);
    settle_all();
    assert_true(loop_until(loop, one_is_unreceived, NULL, 60 * NS_PER_S));
    const char *told = log_capture_end(&length);
    assert_contains(told, "error answer_unreceived node=queue times=3");
    assert_contains(told, "client-output-buffer-limit");
    assert_null(strstr(strstr(told, "answer_unreceived") + 1, "answer_unreceived"));

    unsigned before = connections();
    loop_for(loop, 60 * NS_PER_S);
    assert_in_range(connections() - before, 1, 40);
    limit_set(0);
    queue_probe_wait_all(&probe);
    assert_int_equal(queue_unreceived(probe.queue), 0);
}

/* What a process that died had claimed comes back in as many calls as it takes. */
TEST(claims_of_a_dead_process_are_recovered)
{
    static const struct queue_options leased = {.slots = SLOTS, .lease_ns = 300 * NS_PER_MS};
    for (unsigned i = 0; i < SLOTS; i++)
        push_large("a", i, SIZE);
    queue_probe_start(&probe, loop, redis_server_port(server), "a", &leased);
    queue_probe_wait_up(&probe);
    settle_all();
    queue_probe_wait_all(&probe);
    queue_probe_stop(&probe);
    limit_set(LIMIT);
    queue_probe_start(&other, loop, redis_server_port(server), "unserved", &leased);
    loop_await(loop, queue_counters(other.queue)->recovered == SLOTS);
    assert_reply(server, "16", "LLEN queue:a");
}

static void limit_is_learnt(void)
{
    for (unsigned i = 0; i < SLOTS; i++)
        push_large("a", i, SIZE);
    limit_set(LIMIT);
    start_with_slots(SLOTS);
    settle_all();
    queue_probe_wait_all(&probe);
    limit_set(0);
}

/* The connection stays, so nothing but a timer asks again. */
TEST(after_an_answer_that_came_too_late_the_others_ask_again)
{
    limit_is_learnt();
    redis_server_pause(server);
    settle_all();
    loop_for(loop, 4 * NS_PER_S);
    redis_server_resume(server);
    queue_probe_wait_all(&probe);
}

static unsigned answers;

static void answer_count(struct retried_call *call, const struct redis_reply *reply)
{
    (void)call, (void)reply;
    answers++;
}

/* Nothing else asks again: the connection stays, and no other answer is due. */
TEST(who_waits_for_the_room_of_a_call_that_is_cancelled_goes)
{
    uint64_t repeats = 0;
    struct retried_calls calls;
    struct retried_call first, second;
    start_with_slots(1);
    retried_calls_init(&calls, loop, NS_PER_S, &repeats);
    calls.node = queue_node(probe.queue);
    calls.window.limit = 1;
    retried_call_init(&first, &calls, answer_count);
    retried_call_init(&second, &calls, answer_count);
    redis_request_command(&first.request, "PING");
    redis_request_command(&second.request, "PING");
    retried_call_start(&first);
    retried_call_start(&second);
    retried_call_cancel(&first);
    loop_await(loop, answers == 1);
    retried_call_fini(&first);
    retried_call_fini(&second);
    retried_calls_fini(&calls);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, answers_teardown)
