/* The texts that dashboards read, the histogram's buckets, and what is a call. */
#include "tests/support/test.h"

#include "queue/control.h"
#include "queue/heartbeat.h"

/* --- 1.11: the buckets ------------------------------------------------------------------------------------------- */

/* To within a step of the histogram: 3 %. */
TEST(a_duration_is_in_the_first_bucket_whose_bound_is_greater)
{
    static const int64_t bounds_ms[] = {20,    30,    45,    65,     100,    150,    225,   335,   500,
                                        750,   1100,  1700,  2500,   3800,   5750,   8500,  13000, 20000,
                                        30000, 45000, 65000, 100000, 150000, 225000, 335000};
    enum { BOUNDS = sizeof bounds_ms / sizeof bounds_ms[0] };
    struct buffer text = {0}, wanted = {0};
    static struct histogram histogram;
    histogram_record(&histogram, 0);
    for (unsigned i = 0; i < BOUNDS; i++) {
        histogram_record(&histogram, bounds_ms[i] * 967);
        histogram_record(&histogram, bounds_ms[i] * 1000);
        buffer_format(&wanted, "%u 2 ", i);
    }
    histogram_record(&histogram, INT64_MAX);
    buffer_format(&wanted, "%u 2 ", BOUNDS);
    heartbeat_buckets_write(&histogram, &text);
    assert_string_equal(buffer_text(&text), buffer_text(&wanted));
    buffer_fini(&text);
    buffer_fini(&wanted);
}

/* --- info -------------------------------------------------------------------------------------------------------- */

static void assert_is_json(const struct buffer *text)
{
    struct error error = ERROR_NONE;
    struct envelope_limits limits = {.size = 8 << 20, .depth = 64, .keys = 4096};
    if (!json_check(text->bytes, text->length, &limits, &error))
        fail_msg("%s in %.*s", error.text, (int)text->length, text->bytes);
}

static const struct heartbeat_facts small = {
    .hostname = "h", .tag = "", .version = "0.1", .started = {INT64_C(1795194279000000)}, .concurrency = 1};

TEST(whole_seconds_stay_reals_and_nothing_is_a_list)
{
    struct buffer text = {0};
    heartbeat_info_write(&small, "h:1:0", &text);
    assert_is_json(&text);
    assert_contains(buffer_text(&text), "\"started_at\":1795194279.0,");
    assert_contains(buffer_text(&text), "\"queues\":[],\"labels\":[],");
    assert_contains(buffer_text(&text), "\"weights\":[{}],");
    buffer_fini(&text);
}

TEST(modes_have_the_names_of_the_data_model)
{
    static const char *const names[] = {"\"mode\":\"strict\"", "\"mode\":\"weighted\"", "\"mode\":\"random\""};
    struct heartbeat_facts facts = small;
    for (int mode = HEARTBEAT_STRICT; mode <= HEARTBEAT_RANDOM; mode++) {
        struct buffer text = {0};
        facts.mode = (enum heartbeat_mode)mode;
        heartbeat_info_write(&facts, "h:1:0", &text);
        assert_contains(buffer_text(&text), names[mode]);
        buffer_fini(&text);
    }
}

TEST(names_cannot_leave_their_quotes)
{
    struct buffer text = {0};
    struct heartbeat_queue queue = {"a\"b\\", 1};
    const char *label = "\x01\xff";
    struct heartbeat_facts facts = small;
    facts.queues = &queue;
    facts.queue_count = 1;
    facts.labels = &label;
    facts.label_count = 1;
    heartbeat_info_write(&facts, "h:1:0", &text);
    assert_is_json(&text);
    assert_contains(buffer_text(&text), "[\"a\\\"b\\\\\"]");
    assert_contains(buffer_text(&text), "[\"\\u0001\xEF\xBF\xBD\"]");
    buffer_fini(&text);
}

/* --- a running task ---------------------------------------------------------------------------------------------- */

static void run_parse(struct heartbeat_run *run, struct envelope *envelope, const struct buffer *payload)
{
    struct error error = ERROR_NONE;
    struct envelope_limits limits = {.size = 8 << 20, .depth = 64, .keys = 4096};
    *envelope = (struct envelope){.class_name = NULL};
    assert_true(envelope_parse(envelope, payload->bytes, payload->length, &limits, &error));
    *run = (struct heartbeat_run){.queue = "q", .envelope = envelope, .started = {INT64_C(1795194279900000)}};
}

static void payload_make(struct buffer *payload, size_t args, size_t extra)
{
    buffer_append_text(payload, "{\"class\":\"echo\",\"jid\":\"j1\",\"args\":[\"");
    memset(buffer_reserve(payload, args), 'a', args);
    payload->length += args;
    buffer_append_text(payload, "\"],\"extra\":\"");
    memset(buffer_reserve(payload, extra), 'e', extra);
    payload->length += extra;
    buffer_append_text(payload, "\"}");
}

static void assert_shown(size_t args, size_t extra, size_t *budget, const char *part)
{
    struct heartbeat_run run;
    struct envelope envelope;
    struct buffer payload = {0}, text = {0};
    payload_make(&payload, args, extra);
    run_parse(&run, &envelope, &payload);
    heartbeat_run_write(&run, budget, &text);
    assert_is_json(&text);
    assert_contains(buffer_text(&text), part);
    assert_contains(buffer_text(&text), "\"run_at\":1795194279}");
    assert_true(text.length < 2 * HEARTBEAT_TASK_BYTES);
    envelope_fini(&envelope);
    buffer_fini(&payload);
    buffer_fini(&text);
}

TEST(the_larger_a_task_the_less_of_it_is_shown)
{
    size_t budget = HEARTBEAT_BYTES;
    assert_shown(5, 3, &budget, "\\\"args\\\":[\\\"aaaaa\\\"],\\\"extra\\\":\\\"eee\\\"");
    assert_shown(1 << 20, 3, &budget, "[\\\"(1048580 bytes of arguments are not shown)\\\"],\\\"extra\\\":\\\"eee\\\"");
    assert_shown(
        5, 1 << 20, &budget,
        "\"{\\\"class\\\":\\\"echo\\\",\\\"queue\\\":\\\"q\\\",\\\"args\\\":[\\\"(9 bytes of arguments are not "
        "shown)\\\"],\\\"jid\\\":\\\"j1\\\"}\"");
    assert_true(budget > HEARTBEAT_BYTES - 1024);
}

TEST(the_token_of_a_lock_is_shown_with_the_task)
{
    static const char *const tokens[] = {NULL, "", "1764000000000123"};
    for (size_t i = 0; i < 3; i++) {
        struct heartbeat_run run;
        struct envelope envelope;
        struct buffer payload = {0}, text = {0};
        size_t budget = HEARTBEAT_BYTES;
        payload_make(&payload, 1, 1);
        run_parse(&run, &envelope, &payload);
        run.fence = tokens[i];
        heartbeat_run_write(&run, &budget, &text);
        assert_is_json(&text);
        assert_contains(buffer_text(&text),
                        i < 2 ? "\"run_at\":1795194279}" : "\"run_at\":1795194279,\"hf_fence\":\"1764000000000123\"}");
        envelope_fini(&envelope);
        buffer_fini(&payload);
        buffer_fini(&text);
    }
}

TEST(what_is_locked_is_shown_as_long_as_there_is_room)
{
    static const char *const names[] = {"acct:1", "a\"\x1b"};
    struct heartbeat_run run;
    struct envelope envelope;
    struct buffer payload = {0}, text = {0};
    size_t budget = HEARTBEAT_BYTES, before;
    payload_make(&payload, 1, 1);
    run_parse(&run, &envelope, &payload);
    run.resources = names;
    run.resource_count = 2;
    heartbeat_run_write(&run, &budget, &text);
    assert_is_json(&text);
    assert_contains(buffer_text(&text), "\"run_at\":1795194279,\"hf_resources\":[\"acct:1\",\"a\\\"\\u001b\"]}");
    before = budget = envelope.text.length + 8; /* one byte too few */
    buffer_clear(&text);
    heartbeat_run_write(&run, &budget, &text);
    assert_int_equal(before - budget, envelope.text.length);
    assert_lacks(buffer_text(&text), "hf_resources");
    envelope_fini(&envelope);
    buffer_fini(&payload);
    buffer_fini(&text);
}

TEST(many_tasks_share_one_budget)
{
    size_t budget = HEARTBEAT_BYTES;
    for (int i = 0; i < 200; i++)
        assert_shown(3900, 3, &budget, "\\\"jid\\\":\\\"j1\\\"");
    assert_int_equal(budget, 0);
    assert_shown(5, 3, &budget, "bytes of arguments are not shown");
}

/* --- calls ------------------------------------------------------------------------------------------------------- */

static bool parses(const char *text, enum control_call expected, const char *expected_jid)
{
    enum control_call call;
    const char *jid;
    if (!control_parse(text, strlen(text), &call, &jid))
        return false;
    assert_int_equal(call, expected);
    assert_true((jid == NULL) == (expected_jid == NULL));
    if (jid != NULL)
        assert_string_equal(jid, expected_jid);
    return true;
}

TEST(calls_are_known_by_their_words)
{
    assert_true(parses("TSTP", CONTROL_QUIET, NULL));
    assert_true(parses("TERM", CONTROL_STOP, NULL));
    assert_true(parses("INT", CONTROL_STOP, NULL));
    assert_true(parses("TTIN", CONTROL_DUMP, NULL));
    assert_true(parses("LOOK", CONTROL_LOOK, NULL));
    assert_true(parses("DRAIN", CONTROL_DRAIN, NULL));
    assert_true(parses("CANCEL 0123456789abcdef01234567", CONTROL_CANCEL, "0123456789abcdef01234567"));
    assert_true(parses("LOSE 0123456789abcdef01234567", CONTROL_LOSE, "0123456789abcdef01234567"));
    assert_false(parses("LOSE ", CONTROL_LOSE, NULL));
    assert_false(parses("LOSE\n0123456789abcdef01234567", CONTROL_LOSE, NULL));
}

TEST(other_texts_are_none)
{
    static const char *const others[] = {"",       "TST",     "TSTPP",      "tstp",        "TERM ",          "KILL",
                                         "CANCEL", "CANCEL ", "CANCEL\tj1", "CANCEL j\n1", "CANCEL \xc3\xa4"};
    char long_jid[7 + ENVELOPE_JID_BYTES_MAX + 2] = "CANCEL ";
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(parses(others[i], CONTROL_QUIET, NULL));
    memset(long_jid + 7, 'j', ENVELOPE_JID_BYTES_MAX + 1);
    assert_false(parses(long_jid, CONTROL_CANCEL, NULL));
    long_jid[7 + ENVELOPE_JID_BYTES_MAX] = '\0';
    assert_true(parses(long_jid, CONTROL_CANCEL, long_jid + 7));
    assert_true(parses("CANCEL j 1", CONTROL_CANCEL, "j 1")); /* a task may have it */
}

RUN_TESTS
