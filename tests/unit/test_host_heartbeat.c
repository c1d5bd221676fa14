/* What hosts of a dry run tell one another, from a node on which anybody may write. */
#include "worker/dry_run/run/host_heartbeat.h"

#include "tests/support/test.h"
#include "worker/print/version.h"

static struct text_span span_of(const struct buffer *text)
{
    return (struct text_span){text->bytes, text->length};
}

TEST(a_beat_comes_back)
{
    const struct host_heartbeat beat = {
        .processes = 2,
        .threads = 16,
        .serving = 1,
        .clock = {.is_known = true, .offset_ns = -INT64_C(1700000000000000000), .error_ns = 9},
        .records_lost = 5,
        .has_ended = true};
    struct buffer text = {0};
    struct host_heartbeat back;
    host_heartbeat_write(&text, &beat);
    assert_true(host_heartbeat_read(span_of(&text), &back));
    assert_memory_equal(&back, &beat, sizeof beat);
    buffer_fini(&text);
}

static bool reads(const char *processes, const char *serving, const char *offset, const char *error)
{
    struct host_heartbeat beat;
    char text[400];
    int length = snprintf(text, sizeof text,
                          "{\"processes\":%s,\"threads\":1,\"serving\":%s,\"clock_offset_ns\":%s,\"clock_error_ns\":%s,"
                          "\"clock_is_known\":true,\"records_lost\":0,\"has_ended\":false}",
                          processes, serving, offset, error);
    return host_heartbeat_read((struct text_span){text, (size_t)length}, &beat);
}

TEST(what_cannot_be_is_refused)
{
    assert_true(reads("1", "0", "0", "0"));
    assert_true(reads("2", "2", "0", "0"));
    assert_false(reads("2", "3", "0", "0"));
    assert_false(reads("2", "-1", "0", "0"));
    assert_false(reads("0", "0", "0", "0"));
    assert_false(reads("65", "0", "0", "0"));
    assert_false(reads("1", "0", "9223372036854775807", "0"));
    assert_false(reads("1", "0", "-9223372036854775808", "0"));
    assert_false(reads("1", "0", "0", "9223372036854775807"));
    assert_false(reads("1", "0", "0", "-1"));
    assert_false(reads("1", "0", "\"0\"", "0"));
}

TEST(a_run_of_another_version_is_refused)
{
    struct dry_run_plan plan, back;
    struct buffer text = {0};
    struct error error = ERROR_NONE;
    enum run_state told = RUN_GATHERS;
    plan_init(&plan);
    plan_complete(&plan);
    run_state_write(&text, RUN_GOES_ON, &plan);
    assert_true(run_state_read(span_of(&text), &told, &back, &error));
    assert_int_equal(told, RUN_GOES_ON);
    plan_fini(&back);
    char *version = strstr((char *)(uintptr_t)buffer_text(&text), HOLDFAST_VERSION);
    assert_non_null(version);
    version[0]++;
    assert_false(run_state_read(span_of(&text), &told, &back, &error));
    assert_contains(error.text, "and this is " HOLDFAST_VERSION);
    memcpy(strstr((char *)(uintptr_t)buffer_text(&text), "\"version"), "\"older", 6);
    error = ERROR_NONE;
    assert_false(run_state_read(span_of(&text), &told, &back, &error));
    assert_contains(error.text, "of an earlier version");
    buffer_fini(&text);
    plan_fini(&plan);
}

RUN_TESTS
