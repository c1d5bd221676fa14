/* libholdfast as programs use it: one producer, many threads, and an answer for every task that is the truth. */
#include "tests/support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "jobs/job.h" /* both headers may be included */
#include "queue/holdfast.h"
#include "tests/support/hostile_server.h"
#include "tests/support/one_server.h"
#include "tests/support/queue_probe.h"
#include "tests/support/relay.h"

enum { THREADS = 8, EACH = 500, MANY = 100000 };

static struct hf_producer *producer;
static struct hf_receipt receipt;

static struct hf_producer *create(unsigned port, int64_t wait_ms, int64_t answer_ms)
{
    char reason[HF_REASON_SIZE];
    const struct hf_producer_options options = {
        .host = "127.0.0.1", .port = port, .wait_ms = wait_ms, .answer_ms = answer_ms};
    struct hf_producer *created = hf_producer_create(&options, reason, sizeof reason);
    if (created == NULL)
        fail_msg("%s", reason);
    return created;
}

static int set_up(void **state)
{
    (void)state;
    redis_server_heal(server);
    producer = create(redis_server_port(server), 20000, 20000);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hf_producer_destroy(producer);
    return 0;
}

/* --- one task ----------------------------------------------------------------------------------------------------- */

TEST(test_one_task)
{
    const struct hf_task task = {.class_name = "transfer",
                                 .args = "[1, 2]",
                                 .queue = "bank",
                                 .resources = (const char *const[]){"account:1", "account:2"},
                                 .resource_count = 2,
                                 .retry = "3",
                                 .tags = (const char *const[]){"night"},
                                 .tag_count = 1};
    assert_int_equal(hf_push(producer, &task, &receipt), HF_PUSH_QUEUED);
    assert_int_equal(receipt.answer, HF_PUSH_QUEUED);
    assert_int_equal(strlen(receipt.jid), 24);
    assert_string_equal(receipt.reason, "");
    char *text = redis_server_command(server, "LINDEX queue:bank 0");
    assert_contains(text, "{\"class\":\"transfer\",\"args\":[1, 2],\"jid\":\"");
    assert_contains(text, receipt.jid);
    assert_contains(text,
                    "\"queue\":\"bank\",\"resource\":[\"account:1\",\"account:2\"],\"retry\":3,\"tags\":[\"night\"]");
    free(text);
    assert_reply(server, "bank", "SMEMBERS queues");
    assert_int_equal(hf_push(producer, &task, NULL), HF_PUSH_QUEUED);
}

TEST(test_a_whole_object)
{
    const struct hf_task task = {.json = "{\"class\":\"t\",\"args\":[],\"jid\":\"mine\",\"locale\":\"fr\"}",
                                 .queue = "q"};
    assert_int_equal(hf_push(producer, &task, &receipt), HF_PUSH_QUEUED);
    assert_string_equal(receipt.jid, "mine");
    char *text = redis_server_command(server, "LINDEX queue:q 0");
    assert_contains(text, "\"jid\":\"mine\",\"locale\":\"fr\",\"queue\":\"q\"");
    free(text);
}

TEST(test_scheduled)
{
    const struct hf_task later = {.class_name = "t", .in_ms = 3600000}, past = {.class_name = "t", .at_ms = 1};
    const struct hf_task at = {.class_name = "t", .at_ms = 4102444800500, .jid = "far"};
    assert_int_equal(hf_push(producer, &later, &receipt), HF_PUSH_SCHEDULED);
    assert_int_equal(hf_push(producer, &at, &receipt), HF_PUSH_SCHEDULED);
    assert_int_equal(hf_push(producer, &past, &receipt), HF_PUSH_QUEUED);
    assert_reply(server, "2", "ZCARD schedule");
    assert_reply(server, "1", "ZCOUNT schedule 4102444800.5 4102444800.5");
    assert_reply(server, "1", "LLEN queue:default");
}

/* --- many --------------------------------------------------------------------------------------------------------- */

TEST(test_many)
{
    struct hf_task *tasks = calloc(MANY, sizeof *tasks);
    struct hf_receipt *receipts = calloc(MANY, sizeof *receipts);
    for (size_t i = 0; i < MANY; i++)
        tasks[i] = (struct hf_task){.class_name = "t", .queue = i % 2 == 0 ? "even" : "odd"};
    tasks[5].args = "nonsense";
    tasks[6].in_ms = 3600000;
    assert_int_equal(hf_push_many(producer, tasks, MANY, receipts), MANY - 1);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(receipts[i].answer, i == 5 ? HF_PUSH_INVALID : i == 6 ? HF_PUSH_SCHEDULED : HF_PUSH_QUEUED);
    assert_reply(server, "49999", "LLEN queue:even");
    assert_reply(server, "49999", "LLEN queue:odd");
    char *first = redis_server_command(server, "LINDEX queue:even -1");
    char *last = redis_server_command(server, "LINDEX queue:odd 0");
    assert_contains(first, receipts[0].jid);
    assert_contains(last, receipts[MANY - 1].jid);
    free(first);
    free(last);
    assert_int_equal(hf_push_many(producer, tasks, 10, NULL), 9);
    assert_int_equal(hf_push_many(producer, tasks, 0, NULL), 0);
    free(tasks);
    free(receipts);
}

static size_t answers[HF_PUSH_UNKNOWN + 1];

static void count(void *context, const struct hf_stream_report *report)
{
    (void)context;
    answers[report->answer] += report->count;
}

TEST(test_a_stream)
{
    char reason[HF_REASON_SIZE];
    const struct hf_task defaults = {.class_name = "t", .queue = "q"}, wrong = {.queue = "a b"};
    memset(answers, 0, sizeof answers);
    assert_null(hf_stream_open(producer, &wrong, count, NULL, reason, sizeof reason));
    assert_contains(reason, "queue");
    struct hf_stream *stream = hf_stream_open(producer, &defaults, count, NULL, reason, sizeof reason);
    for (unsigned i = 0; i < 20000; i++) {
        char text[16];
        int length = snprintf(text, sizeof text, "[%u]", i);
        assert_true(hf_stream_add(stream, text, (size_t)length, i, reason, sizeof reason));
    }
    assert_false(hf_stream_add(stream, "{}", 2, 0, reason, sizeof reason));
    assert_contains(reason, "array");
    hf_stream_flush(stream);
    test_await(hf_stream_is_idle(stream));
    assert_false(hf_stream_is_full(stream));
    hf_stream_close(stream);
    assert_int_equal(answers[HF_PUSH_QUEUED], 20000);
    assert_reply(server, "20000", "LLEN queue:q");
}

TEST(test_a_full_stream_and_what_is_dropped)
{
    char reason[HF_REASON_SIZE];
    const struct hf_task defaults = {.class_name = "t"};
    memset(answers, 0, sizeof answers);
    assert_int_equal(hf_push(producer, &defaults, NULL), HF_PUSH_QUEUED);
    redis_server_pause(server);
    struct hf_stream *stream = hf_stream_open(producer, &defaults, count, NULL, reason, sizeof reason);
    size_t added = 0;
    for (; !hf_stream_is_full(stream); added++)
        assert_true(hf_stream_add(stream, "[]", 2, added, reason, sizeof reason));
    assert_int_equal(added, 8000);
    hf_stream_drop(stream);
    test_await(!hf_stream_is_full(stream));
    redis_server_resume(server);
    hf_stream_close(stream);
    assert_true(answers[HF_PUSH_DROPPED] >= 4000);
    assert_int_equal(answers[HF_PUSH_QUEUED] + answers[HF_PUSH_DROPPED], added);
    assert_int_equal(queue_probe_number(server, "LLEN queue:default"), answers[HF_PUSH_QUEUED] + 1);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static _Atomic unsigned queued, duplicates, failures;

static void *push_some(void *argument)
{
    const struct hf_task task = {.class_name = "t", .queue = argument};
    for (unsigned i = 0; i < EACH; i++)
        if (hf_push(producer, &task, NULL) == HF_PUSH_QUEUED)
            queued++;
        else
            failures++;
    struct hf_task tasks[EACH];
    for (unsigned i = 0; i < EACH; i++)
        tasks[i] = task;
    queued += (unsigned)hf_push_many(producer, tasks, EACH, NULL);
    return NULL;
}

static void run_threads(void *(*run)(void *), void *argument)
{
    pthread_t threads[THREADS];
    queued = duplicates = failures = 0;
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, argument), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

TEST(test_threads_share_a_producer)
{
    char name[] = "shared";
    run_threads(push_some, name);
    assert_int_equal(failures, 0);
    assert_int_equal(queued, 2 * THREADS * EACH);
    assert_int_equal(queue_probe_number(server, "LLEN queue:shared"), 2 * THREADS * EACH);
}

/* Each with a producer of its own. */
static void *push_unique(void *argument)
{
    struct hf_producer *own = create(redis_server_port(argument), 20000, 20000);
    for (unsigned i = 0; i < 50; i++) {
        char args[16];
        snprintf(args, sizeof args, "[%u]", i);
        const struct hf_task task = {.class_name = "t", .args = args, .unique = true, .in_ms = i % 2 * 3600000};
        enum hf_push_answer answer = hf_push(own, &task, NULL);
        queued += answer == HF_PUSH_QUEUED || answer == HF_PUSH_SCHEDULED;
        duplicates += answer == HF_PUSH_DUPLICATE;
    }
    hf_producer_destroy(own);
    return NULL;
}

TEST(test_exactly_one_unique_task_wins)
{
    run_threads(push_unique, server);
    assert_int_equal(queued, 50);
    assert_int_equal(duplicates, (THREADS - 1) * 50);
    assert_reply(server, "25", "LLEN queue:default");
    assert_reply(server, "25", "ZCARD schedule");
    assert_reply(server, "0", "EVAL \"return #redis.call('KEYS', 'hf:2:producer:*')\" 0");
    const struct hf_task again = {.class_name = "t", .args = "[0]", .unique = true};
    assert_int_equal(hf_push(producer, &again, &receipt), HF_PUSH_DUPLICATE);
    assert_int_equal(strlen(receipt.holder), 24);
    struct hf_task mine = again;
    mine.jid = receipt.holder;
    struct hf_receipt second;
    assert_int_equal(hf_push(producer, &mine, &second), HF_PUSH_QUEUED); /* it is there already */
    assert_reply(server, "25", "LLEN queue:default");
    int64_t left = queue_probe_number(server, "EVAL \"local least = 1e15 for _, k in ipairs(redis.call('KEYS', "
                                              "'hf:2:unique:*')) do least = math.min(least, redis.call('PTTL', k)) "
                                              "end return least\" 0");
    assert_true(left > 86000000 && left <= 86400000);
}

/* --- trouble ------------------------------------------------------------------------------------------------------ */

TEST(test_nobody_there)
{
    const struct hf_task task = {.class_name = "t"};
    struct hf_producer *lost = create(free_port(), 50, 20000);
    assert_int_equal(hf_push(lost, &task, &receipt), HF_PUSH_UNREACHABLE);
    assert_true(receipt.reason[0] != '\0');
    assert_int_equal(hf_push(lost, &task, &receipt), HF_PUSH_UNREACHABLE);
    hf_producer_destroy(lost);
}

TEST(test_the_wrong_password)
{
    const struct hf_task task = {.class_name = "t"};
    struct redis_server *secret = redis_server_start(&(struct redis_server_options){.password = "open-sesame"});
    struct hf_producer *stranger = create(redis_server_port(secret), 20000, 20000);
    assert_int_equal(hf_push(stranger, &task, &receipt), HF_PUSH_DENIED);
    assert_contains(receipt.reason, "NOAUTH");
    hf_producer_destroy(stranger);
    redis_server_destroy(secret);
}

TEST(test_refusals)
{
    const struct hf_task task = {.class_name = "t"};
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    assert_int_equal(hf_push(producer, &task, &receipt), HF_PUSH_REFUSED);
    assert_contains(receipt.reason, "OOM");
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
    free(redis_server_command(server, "SET queue:default foreign"));
    assert_int_equal(hf_push(producer, &task, &receipt), HF_PUSH_REFUSED);
    assert_contains(receipt.reason, "WRONGTYPE");
    assert_reply(server, "foreign", "GET queue:default");
}

/* --node-timeout of the command line is the same: nothing that a server says makes a push wait longer. */
TEST(test_hostile_servers_are_no_longer_than_bounded)
{
    const struct hf_task task = {.class_name = "t"};
    for (int mode = 0; mode < HOSTILE_SAYS; mode++) {
        struct hostile_server *hostile = hostile_server_start((enum hostile_mode)mode);
        struct hf_producer *bounded = create(hostile_server_port(hostile), 150, 300);
        struct instant before = instant_now();
        enum hf_push_answer answer = hf_push(bounded, &task, &receipt);
        if (answer == HF_PUSH_QUEUED || answer == HF_PUSH_SCHEDULED || answer == HF_PUSH_DUPLICATE)
            fail_msg("%s: %s", hostile_mode_name((enum hostile_mode)mode), hf_push_answer_name(answer));
        if (instant_since(before, instant_now()) > TEST_PATIENCE_NS / 3)
            fail_msg("%s: %s", hostile_mode_name((enum hostile_mode)mode), receipt.reason);
        hf_producer_destroy(bounded);
        hostile_server_destroy(hostile);
    }
}

RUN_GROUP(one_server_set_up, one_server_tear_down, set_up, tear_down)
