/* For tests of the engine of libholdfast: one producer with one source at the server of queue_fixture.h, and what
 * became of the tasks that were added. Its state is in the header, because a test program is one file. */
#ifndef SUPPORT_PRODUCER_FIXTURE_H
#define SUPPORT_PRODUCER_FIXTURE_H

#include "queue/push.h"
#include "tests/support/queue_fixture.h"

static struct push *producer;
static struct push_source source;
static int64_t patience_ns;                /* timeout of the next `produce`; long at first */
static unsigned ends[HF_PUSH_UNKNOWN + 1]; /* batches */
static size_t added, ended, tasks[HF_PUSH_UNKNOWN + 1];
static uint64_t last_first, last_last;
static char last_reason[256], last_holder[64];

static inline void slice_ended(struct push_source *from, const struct hf_stream_report *report, size_t bytes)
{
    (void)bytes;
    assert_ptr_equal(from, &source);
    ends[report->answer]++;
    tasks[report->answer] += report->count;
    ended += report->count;
    last_first = report->numbers[0];
    last_last = report->numbers[report->count - 1];
    snprintf(last_reason, sizeof last_reason, "%s", report->reason);
    snprintf(last_holder, sizeof last_holder, "%s", report->holder);
}

static inline int producer_setup(void **state)
{
    memset(ends, 0, sizeof ends);
    memset(tasks, 0, sizeof tasks);
    added = ended = 0;
    patience_ns = TEST_PATIENCE_NS;
    push_source_init(&source, slice_ended);
    return queue_setup(state);
}

static inline int producer_teardown(void **state)
{
    push_destroy(producer);
    producer = NULL;
    push_source_fini(&source);
    return queue_teardown(state);
}

static inline void produce(unsigned port, unsigned batches_max, int64_t timeout_ns)
{
    producer = push_create(loop, &(struct push_options){.node = {.name = "queue",
                                                                 .host = "127.0.0.1",
                                                                 .port = port,
                                                                 .backoff_min_ns = 2 * NS_PER_MS,
                                                                 .backoff_max_ns = 20 * NS_PER_MS},
                                                        .timeout_ns = timeout_ns,
                                                        .patience_ns = patience_ns,
                                                        .batches_max = batches_max});
}

static inline bool is_idle(void *context)
{
    (void)context;
    return ended == added;
}

static inline bool is_true(void *context)
{
    return *(bool *)context;
}

static inline void finish(void *context)
{
    *(bool *)context = true;
}

static inline void wait_idle(void)
{
    if (!loop_until(loop, is_idle, NULL, TEST_PATIENCE_NS))
        fail_msg("%zu tasks have ended", ended);
}

static inline bool is_up(void *context)
{
    (void)context;
    return redis_node_state(push_node(producer)) == REDIS_NODE_UP;
}

static inline void wait_up(void)
{
    assert_true(loop_until(loop, is_up, NULL, TEST_PATIENCE_NS));
}

/* --- adding ------------------------------------------------------------------------------------------------------- */

static inline void add_task(const struct built_task *task, uint64_t number)
{
    added++;
    push_add(producer, &source, task, number);
}

static inline void add_bytes(const char *queue, const char *payload, size_t length, uint64_t number)
{
    add_task(&(struct built_task){.payload = {payload, length}, .queue = queue, .jid = "j", .digest = ""}, number);
}

/* The payload is its number. */
static inline void add(const char *queue, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        char payload[16];
        int length = snprintf(payload, sizeof payload, "%u", i);
        add_bytes(queue, payload, (size_t)length, i);
    }
}

/* All tasks of the queue, in the order in which workers would get them, are first, first + 1, ... */
static inline void assert_in_order(const char *queue, unsigned first, unsigned count)
{
    char expected[32];
    snprintf(expected, sizeof expected, "%u", count);
    assert_reply(server, expected, "LLEN queue:%s", queue);
    assert_reply(server, "in order",
                 "EVAL \"local all = redis.call('LRANGE', KEYS[1], 0, -1) for i = #all, 1, -1 do if all[i] ~= "
                 "tostring(ARGV[1] + #all - i) then return all[i] end end return 'in order'\" 1 queue:%s %u",
                 queue, first);
}

#endif
