/* What worker and runner process say to each other: it arrives as it was sent, and what is not exactly that is refused
 * without reading beyond it. */
#include "tests/support/test.h"

#include "base/memory.h"
#include "base/random.h"
#include "queue/iteration.h"
#include "worker/isolation/runner_message.h"

enum { MUTATIONS = 20000 };

static struct buffer out;

/* The one frame that was written, in memory of its own, so that a sanitizer sees who reads too far. */
static struct copy {
    char *bytes;
    struct frame frame;
} copy;
static struct job_outcome outcome;

static void tear_down(void)
{
    free(copy.bytes);
    copy.bytes = NULL;
    job_outcome_fini(&outcome);
    job_outcome_clear(&outcome);
    buffer_fini(&out);
}

static void copy_take(void)
{
    size_t whole = 0;
    free(copy.bytes);
    copy.bytes = memory_zeroed(1, out.length);
    memcpy(copy.bytes, out.bytes, out.length);
    assert_int_equal(frame_find(copy.bytes, out.length, RUNNER_FRAME_MAX, &copy.frame, &whole), FRAME_WHOLE);
    assert_int_equal(whole, out.length);
}

/* --- frames ------------------------------------------------------------------------------------------------------- */

TEST(numbers_and_texts_arrive_as_they_were_sent)
{
    static const int64_t numbers[] = {0, 1, -1, 255, 256, INT64_MAX, INT64_MIN};
    size_t start = frame_begin(&out, FRAME_LOG);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        frame_add_number(&out, numbers[i]);
    frame_add_text(&out, "", 0);
    frame_add_string(&out, "cut here and not there", 8);
    frame_end(&out, start);
    copy_take();
    struct frame_reader reader = frame_read(&copy.frame);
    assert_int_equal(copy.frame.kind, FRAME_LOG);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        assert_int_equal(frame_take_number(&reader, INT64_MIN, INT64_MAX), numbers[i]);
    assert_string_equal(frame_take_string(&reader, 0), "");
    assert_false(frame_is_used_up(&reader));
    assert_string_equal(frame_take_string(&reader, 8), "cut here");
    assert_true(frame_is_used_up(&reader));
}

TEST(a_part_of_a_frame_is_not_taken_for_one)
{
    struct frame frame;
    size_t whole = 0, start = frame_begin(&out, FRAME_PROGRESS);
    frame_add_text(&out, "{}", 2);
    frame_end(&out, start);
    for (size_t length = 0; length < out.length; length++) {
        char *part = memory_zeroed(1, length + 1);
        memcpy(part, out.bytes, length);
        assert_int_equal(frame_find(part, length, 64, &frame, &whole), FRAME_PART);
        assert_int_equal(whole, length < FRAME_HEAD_BYTES ? FRAME_HEAD_BYTES : out.length);
        free(part);
    }
}

TEST(a_frame_of_no_kind_or_too_long_is_broken)
{
    struct frame frame;
    size_t whole = 0;
    assert_int_equal(frame_find("\0\0\0\0\0", 5, 64, &frame, &whole), FRAME_BROKEN);
    assert_int_equal(frame_find("\0\0\0\0\xff", 5, 64, &frame, &whole), FRAME_BROKEN);
    assert_int_equal(frame_find("\x41\0\0\0\x01", 5, 64, &frame, &whole), FRAME_BROKEN);
    assert_int_equal(frame_find("\xff\xff\xff\xff\x01", 5, 64, &frame, &whole), FRAME_BROKEN);
    assert_int_equal(frame_find("\x40\0\0\0\x01", 5, 64, &frame, &whole), FRAME_PART);
}

TEST(numbers_outside_of_their_bounds_break_the_reader)
{
    size_t start = frame_begin(&out, FRAME_LOG);
    frame_add_number(&out, 4);
    frame_add_number(&out, 5);
    frame_end(&out, start);
    copy_take();
    struct frame_reader reader = frame_read(&copy.frame);
    assert_int_equal(frame_take_number(&reader, 1, 3), 1);
    assert_int_equal(frame_take_number(&reader, 0, 9), 0); /* nothing more is believed */
    assert_false(frame_is_used_up(&reader));
}

TEST(texts_with_a_nul_or_too_long_break_the_reader)
{
    static const struct {
        const char *bytes;
        size_t length, longest;
        bool is_sound;
    } cases[] = {{"abc", 3, 3, true}, {"abc", 3, 2, false}, {"a\0c", 3, 3, false}, {"\0", 1, 3, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buffer_clear(&out);
        size_t start = frame_begin(&out, FRAME_LOG);
        frame_add_text(&out, cases[i].bytes, cases[i].length);
        frame_end(&out, start);
        copy_take();
        struct frame_reader reader = frame_read(&copy.frame);
        assert_int_equal(frame_take_text(&reader, cases[i].longest).length, cases[i].is_sound ? cases[i].length : 0);
        assert_int_equal(frame_is_used_up(&reader), cases[i].is_sound);
    }
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static void hello_write(void)
{
    struct config_pair pairs[] = {{(char *)(uintptr_t) "colour", (char *)(uintptr_t) "blue"},
                                  {(char *)(uintptr_t) "size", (char *)(uintptr_t) ""}};
    struct config_pairs settings = {pairs, 2};
    struct runner_hello hello = {
        .path = "/jobs/paint.so", .plugin = "paint", .settings = &settings, .patience_ns = 67890};
    runner_hello_write(&hello, &out);
}

TEST(a_greeting_arrives_as_it_was_sent)
{
    struct runner_hello hello;
    struct config_pairs settings = {.items = NULL};
    hello_write();
    copy_take();
    assert_true(runner_hello_read(&copy.frame, &hello, &settings));
    assert_string_equal(hello.path, "/jobs/paint.so");
    assert_string_equal(hello.plugin, "paint");
    assert_int_equal(hello.patience_ns, 67890);
    assert_int_equal(hello.settings->count, 2);
    assert_string_equal(settings.items[0].key, "colour");
    assert_string_equal(settings.items[0].value, "blue");
    assert_string_equal(settings.items[1].value, "");
    free(settings.items);
}

static const char args[] = "[1,\"two\",{\"three\":null}]";

static void order_write(const char *checkpoint)
{
    static const char *const resources[] = {"account:1", "account:2"};
    static struct hf_job job;
    job = (struct hf_job){.class_name = "paint",
                          .queue = "low",
                          .jid = "0123456789abcdef01234567",
                          .args = {args, sizeof args - 1},
                          .attempt = 3,
                          .resources = resources,
                          .resource_count = 2,
                          .fence = "42",
                          .traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                          .checkpoint = checkpoint,
                          .reports_progress = true,
                          .may_push = true,
                          .backtrace_lines = 7};
    const struct runner_order order = {
        .run_entry = 5, .run = 99, .log_level = HF_LOG_WARN, .has_lock = true, .measures_memory = true};
    runner_order_write(&order, &job, &out);
}

TEST(an_order_arrives_as_it_was_sent)
{
    static struct hf_job job;
    struct runner_order order;
    order_write("{\"done\":1}");
    copy_take();
    assert_true(runner_order_read(&copy.frame, &order, &job));
    assert_int_equal(order.run_entry, 5);
    assert_int_equal(order.run, 99);
    assert_int_equal(order.log_level, HF_LOG_WARN);
    assert_true(order.has_lock);
    assert_true(order.measures_memory);
    assert_string_equal(job.class_name, "paint");
    assert_string_equal(job.queue, "low");
    assert_string_equal(job.jid, "0123456789abcdef01234567");
    assert_string_equal(job.args.bytes, args);
    assert_int_equal(job.args.length, sizeof args - 1);
    assert_int_equal(job.attempt, 3);
    assert_int_equal(job.resource_count, 2);
    assert_string_equal(job.resources[1], "account:2");
    assert_string_equal(job.fence, "42");
    assert_string_equal(job.traceparent, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    assert_string_equal(job.checkpoint, "{\"done\":1}");
    assert_true(job.reports_progress);
    assert_false(job.keeps_result);
    assert_true(job.may_push);
    assert_int_equal(job.backtrace_lines, 7);
}

TEST(an_order_without_a_checkpoint_has_none)
{
    static struct hf_job job;
    struct runner_order order;
    order_write(NULL);
    copy_take();
    assert_true(runner_order_read(&copy.frame, &order, &job));
    assert_null(job.checkpoint);
}

static void outcome_fill(void)
{
    job_outcome_clear(&outcome);
    failure_set(&outcome.failure, "Paint::Dry", "%s", "the paint was dry");
    outcome.backtrace.lines = memory_zeroed(2, sizeof(char *));
    outcome.backtrace.lines[0] = memory_text("paint.so(stroke+0x10)");
    outcome.backtrace.lines[1] = memory_text("paint.so(run+0x20)");
    outcome.backtrace.count = 2;
    assert_true(job_outcome_set_retry_in(&outcome, 5000));
    assert_true(job_outcome_set_result(&outcome, "{\"ok\":1}", 8));
    assert_true(job_outcome_add_follow_up(&outcome, "{\"class\":\"dry\"}", 15, NULL));
    assert_true(job_outcome_add_follow_up(&outcome, "{\"class\":\"hang\"}", 16, NULL));
}

static void end_write(void)
{
    const struct runner_end end = {.run = 99, .started = true, .code = HF_FAIL, .memory = 1 << 20};
    outcome_fill();
    runner_end_write(&end, &outcome, &out);
    job_outcome_fini(&outcome);
}

TEST(an_end_arrives_as_it_was_sent)
{
    struct runner_end end;
    end_write();
    copy_take();
    job_outcome_clear(&outcome);
    assert_true(runner_end_read(&copy.frame, &end, &outcome));
    assert_int_equal(end.run, 99);
    assert_true(end.started);
    assert_int_equal(end.code, HF_FAIL);
    assert_int_equal(end.memory, 1 << 20);
    assert_string_equal(outcome.failure.error_class, "Paint::Dry");
    assert_string_equal(outcome.failure.message, "the paint was dry");
    assert_int_equal(outcome.backtrace.count, 2);
    assert_string_equal(outcome.backtrace.lines[1], "paint.so(run+0x20)");
    assert_int_equal(outcome.retry_in_ms, 5000);
    assert_true(outcome.has_result);
    assert_string_equal(buffer_text(&outcome.result), "{\"ok\":1}");
    assert_int_equal(outcome.follow_up_count, 2);
    assert_string_equal(outcome.follow_ups[1], "{\"class\":\"hang\"}");
}

TEST(an_end_with_nothing_says_nothing)
{
    struct runner_end end = {.run = 1, .started = false, .code = HF_OK, .memory = -1};
    job_outcome_clear(&outcome);
    runner_end_write(&end, &outcome, &out);
    copy_take();
    assert_true(runner_end_read(&copy.frame, &end, &outcome));
    assert_false(end.started);
    assert_int_equal(end.memory, -1);
    assert_string_equal(outcome.failure.error_class, "");
    assert_int_equal(outcome.retry_in_ms, -1);
    assert_false(outcome.has_result);
    assert_int_equal(outcome.follow_up_count, 0);
}

/* What no host function would have taken is not taken from a process either. */
TEST(a_result_that_is_no_json_is_refused)
{
    struct runner_end end = {.run = 1, .started = true};
    job_outcome_clear(&outcome);
    outcome.has_result = true;
    buffer_append_text(&outcome.result, "{no json");
    runner_end_write(&end, &outcome, &out);
    copy_take();
    job_outcome_clear(&outcome);
    assert_false(runner_end_read(&copy.frame, &end, &outcome));
    assert_false(outcome.has_result);
}

TEST(more_follow_ups_than_allowed_are_refused)
{
    struct runner_end end = {.run = 1, .started = true};
    job_outcome_clear(&outcome);
    for (int i = 0; i < JOB_FOLLOW_UPS_MAX; i++)
        assert_true(job_outcome_add_follow_up(&outcome, "{}", 2, NULL));
    outcome.follow_ups = memory_resize(outcome.follow_ups, JOB_FOLLOW_UPS_MAX + 1, sizeof(char *));
    outcome.follow_ups[outcome.follow_up_count++] = memory_text("{}");
    runner_end_write(&end, &outcome, &out);
    copy_take();
    job_outcome_clear(&outcome);
    assert_false(runner_end_read(&copy.frame, &end, &outcome));
}

static void event_write(const char *name, const char *key)
{
    const hf_field fields[] = {{"colour", "blue"}, {key, "a \"b\"\n"}};
    runner_event_write(HF_LOG_WARN, name, fields, 2, &out);
}

TEST(log_lines_arrive_as_they_were_sent)
{
    enum hf_log_level level = HF_LOG_DEBUG;
    const char *text = NULL;
    struct runner_event event;
    char longer[RUNNER_TEXT_MAX + 10];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    runner_log_write(HF_LOG_ERROR, longer, &out);
    copy_take();
    assert_true(runner_log_read(&copy.frame, &level, &text));
    assert_int_equal(level, HF_LOG_ERROR);
    assert_int_equal(strlen(text), RUNNER_TEXT_MAX);
    buffer_clear(&out);
    event_write("painted", "size_2");
    copy_take();
    assert_true(runner_event_read(&copy.frame, &event));
    assert_int_equal(event.level, HF_LOG_WARN);
    assert_string_equal(event.name, "painted");
    assert_int_equal(event.count, 2);
    assert_string_equal(event.fields[1].key, "size_2");
    assert_string_equal(event.fields[1].value, "a \"b\"\n");
}

/* They stand in a line of the log without quotes. */
TEST(words_that_are_none_are_refused)
{
    static const char *const words[] = {"", "two words", "new\nline", "k=v", "h\xc3\xa9"};
    struct runner_event event;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        for (int as_key = 0; as_key <= 1; as_key++) {
            buffer_clear(&out);
            event_write(as_key ? "painted" : words[i], as_key ? words[i] : "size");
            copy_take();
            assert_false(runner_event_read(&copy.frame, &event));
        }
    }
}

/* --- hostile bytes ------------------------------------------------------------------------------------------------ */

static bool message_read(const struct frame *frame)
{
    static struct hf_job job;
    struct runner_order order;
    struct runner_hello hello;
    struct runner_end end;
    struct runner_event event;
    struct config_pairs settings = {.items = NULL};
    enum hf_log_level level;
    const char *text = NULL;
    bool is_sound = false;
    switch ((int)frame->kind) {
    case FRAME_HELLO:
        is_sound = runner_hello_read(frame, &hello, &settings);
        free(settings.items);
        return is_sound;
    case FRAME_RUN:
        return runner_order_read(frame, &order, &job);
    case FRAME_END:
        job_outcome_clear(&outcome);
        is_sound = runner_end_read(frame, &end, &outcome);
        job_outcome_clear(&outcome);
        return is_sound;
    case FRAME_LOG:
        return runner_log_read(frame, &level, &text);
    default:
        return runner_event_read(frame, &event);
    }
}

static void (*const writers[])(void) = {hello_write, end_write};

static void write_one(int64_t which)
{
    buffer_clear(&out);
    if (which < 2)
        writers[which]();
    else if (which == 2)
        order_write("{}");
    else if (which == 3)
        event_write("painted", "size");
    else
        runner_log_write(HF_LOG_INFO, "hello", &out);
}

/* As short as it gets at every byte: never a whole message, never a read beyond the end. */
TEST(messages_that_were_cut_are_refused)
{
    for (int64_t which = 0; which <= 4; which++) {
        write_one(which);
        copy_take();
        assert_true(message_read(&copy.frame));
        for (size_t length = 0; length < copy.frame.length; length++) {
            char *body = memory_zeroed(1, length + (length == 0));
            memcpy(body, copy.frame.body, length);
            assert_false(message_read(&(struct frame){copy.frame.kind, body, length}));
            free(body);
        }
    }
}

/* Whatever comes is read within its bounds; a sanitizer watches. Some changes make another sound message. */
TEST(changed_bytes_do_no_harm)
{
    unsigned refused = 0;
    for (int i = 0; i < MUTATIONS; i++) {
        write_one(random_between(0, 4));
        copy_take();
        for (int64_t changes = random_between(1, 4); changes > 0; changes--)
            copy.bytes[random_between(FRAME_HEAD_BYTES, (int64_t)out.length - 1)] = (char)random_between(0, 255);
        refused += !message_read(&copy.frame);
    }
    assert_true(refused > MUTATIONS / 10);
}

RUN_TESTS_BETWEEN(NULL, tear_down)
