/* libholdfast and callers who are mistaken: nothing is sent, and a reason says what is wrong. */
#include "tests/support/test.h"

#include "queue/holdfast.h"
#include "tests/support/one_server.h"
#include "tests/support/queue_probe.h"

static struct hf_producer *producer;
static struct hf_receipt receipt;

static int set_up(void **state)
{
    (void)state;
    char reason[HF_REASON_SIZE];
    redis_server_heal(server);
    const struct hf_producer_options options = {.host = "127.0.0.1", .port = redis_server_port(server)};
    producer = hf_producer_create(&options, reason, sizeof reason);
    if (producer == NULL)
        fail_msg("%s", reason);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hf_producer_destroy(producer);
    return 0;
}

TEST(test_what_is_no_task)
{
    const struct {
        struct hf_task task;
        const char *says;
    } cases[] = {
        {{.args = "[]"}, "class"},
        {{.class_name = "t", .args = "5"}, "array"},
        {{.class_name = "t", .queue = "a b"}, "queue"},
        {{.class_name = "t", .at_ms = 1, .in_ms = 1}, "not both"},
        {{.class_name = "t", .retry = "often"}, "retry"},
        {{.json = "[]"}, ""},
        {{.class_name = "t", .resource_count = 2}, "a resource is counted"},
        {{.class_name = "t", .resources = (const char *const[]){NULL}, .resource_count = 1}, "a resource is NULL"},
        {{.class_name = "t", .resources = (const char *const[]){"r"}, .resource_count = 70000}, "more than 16"},
        {{.class_name = "t", .tag_count = 1}, "a tag is counted"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(hf_push(producer, &cases[i].task, &receipt), HF_PUSH_INVALID);
        assert_contains(receipt.reason, cases[i].says);
        assert_true(receipt.reason[0] != '\0');
        assert_string_equal(receipt.jid, "");
    }
    assert_reply(server, "0", "DBSIZE");
}

TEST(test_options_that_are_wrong)
{
    static const char *const one[] = {"127.0.0.1:1"};
    const struct {
        struct hf_producer_options options;
        const char *says;
    } cases[] = {
        {{.host = "h", .unix_path = "/s"}, "not several"},
        {{.port = 70000}, "port"},
        {{.user = "me"}, "password"},
        {{.wait_ms = -1}, "30 minutes"},
        {{.sentinels = (const char *const[]){"h:1"}, .sentinel_count = 1}, "name of the master"},
        {{.sentinels = (const char *const[]){"h"}, .sentinel_count = 1, .sentinel_master = "m"}, "sentinel"},
        {{.sentinel_count = 1, .sentinel_master = "m"}, "their list is NULL"},
        {{.sentinels = (const char *const[]){NULL}, .sentinel_count = 1, .sentinel_master = "m"}, "NULL"},
        {{.sentinel_master = "m"}, "needs sentinels"},
        {{.sentinels = one, .sentinel_count = 1, .sentinel_master = "m", .sentinel_user = "me"}, "sentinel_password"},
        {{.answer_ms = -1}, "30 minutes"},
        {{.connect_timeout_ms = -1}, "30 minutes"},
        {{.host = "redis://h", .tls = true}, "without TLS"},
        {{.tls = true, .tls_ca_file = "/none/ca.pem"}, "/none/ca.pem"},
        {{.tls = true, .tls_cert_file = "/none/own.pem"}, "needs its key"},
        {{.tls = true, .tls_key_file = "/none/own.key"}, "a key its certificate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char reason[HF_REASON_SIZE];
        assert_null(hf_producer_create(&cases[i].options, reason, sizeof reason));
        assert_contains(reason, cases[i].says);
        assert_null(hf_producer_create(&cases[i].options, NULL, 0));
    }
    struct hf_producer *behind_sentinels = hf_producer_create(&(struct hf_producer_options){.sentinels = one,
                                                                                            .sentinel_count = 1,
                                                                                            .sentinel_master = "m",
                                                                                            .sentinel_user = "me",
                                                                                            .sentinel_password = "s"},
                                                              NULL, 0);
    assert_non_null(behind_sentinels);
    hf_producer_destroy(behind_sentinels);
}

TEST(test_every_answer_has_its_word)
{
    static const char *const words[] = {
        [HF_PUSH_QUEUED] = "queued",           [HF_PUSH_SCHEDULED] = "scheduled", [HF_PUSH_DUPLICATE] = "duplicate",
        [HF_PUSH_REFUSED] = "refused",         [HF_PUSH_DENIED] = "denied",       [HF_PUSH_INVALID] = "invalid",
        [HF_PUSH_UNREACHABLE] = "unreachable", [HF_PUSH_DROPPED] = "dropped",     [HF_PUSH_UNKNOWN] = "unknown",
        [HF_PUSH_UNKNOWN + 1] = "?",
    };
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_string_equal(hf_push_answer_name((enum hf_push_answer)i), words[i]);
}

/* Each limit of a producer holds; another one takes the same task. */
TEST(test_tasks_beyond_the_limits_of_a_producer)
{
    char long_text[600];
    snprintf(long_text, sizeof long_text, "[\"%0500d\"]", 0);
    const struct {
        struct hf_producer_options options;
        const char *good, *bad;
    } cases[] = {
        {{.task_bytes_max = 600}, "[\"short\"]", long_text},
        {{.task_depth_max = 3}, "[[1]]", "[[[[1]]]]"},
        {{.task_keys_max = 20},
         "[]",
         "[{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5},{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5}]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char reason[HF_REASON_SIZE];
        struct hf_producer_options options = cases[i].options;
        const struct hf_task good = {.class_name = "t", .args = cases[i].good};
        const struct hf_task bad = {.class_name = "t", .args = cases[i].bad};
        options.host = "127.0.0.1";
        options.port = redis_server_port(server);
        struct hf_producer *narrow = hf_producer_create(&options, reason, sizeof reason);
        assert_non_null(narrow);
        if (hf_push(narrow, &good, &receipt) != HF_PUSH_QUEUED)
            fail_msg("%s: %s", good.args, receipt.reason);
        assert_int_equal(hf_push(narrow, &bad, &receipt), HF_PUSH_INVALID);
        assert_int_equal(hf_push(producer, &bad, &receipt), HF_PUSH_QUEUED);
        hf_producer_destroy(narrow);
    }
}

static void ended(void *context, const struct hf_stream_report *report)
{
    (void)context;
    (void)report;
}

TEST(test_what_is_null)
{
    const struct hf_task task = {.class_name = "t"};
    char reason[HF_REASON_SIZE];
    assert_null(hf_producer_create(NULL, reason, sizeof reason));
    assert_contains(reason, "NULL");
    assert_int_equal(hf_push(NULL, &task, &receipt), HF_PUSH_INVALID);
    assert_contains(receipt.reason, "the producer is NULL");
    assert_int_equal(hf_push(producer, NULL, &receipt), HF_PUSH_INVALID);
    assert_contains(receipt.reason, "the task is NULL");
    assert_int_equal(hf_push_many(producer, NULL, 0, NULL), 0);
    assert_int_equal(hf_push_many(producer, NULL, 2, NULL), 0);
    assert_null(hf_stream_open(producer, &task, NULL, NULL, reason, sizeof reason));
    assert_contains(reason, "NULL");
    struct hf_stream *stream = hf_stream_open(producer, &task, ended, NULL, reason, sizeof reason);
    assert_non_null(stream);
    assert_false(hf_stream_add(stream, NULL, 1, 0, reason, sizeof reason));
    assert_contains(reason, "NULL");
    hf_stream_close(stream);
    assert_reply(server, "0", "DBSIZE");
}

RUN_GROUP(one_server_set_up, one_server_tear_down, set_up, tear_down)
