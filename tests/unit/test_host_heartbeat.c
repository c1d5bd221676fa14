/* What hosts of a dry run tell one another, from a node on which anybody may write. */
#include "worker/dry_run/run/host_heartbeat.h"

#include "tests/support/test.h"

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
        .cpu_ns = 77,
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
                          "\"clock_is_known\":true,\"cpu_ns\":0,\"records_lost\":0,\"has_ended\":false}",
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

TEST(shipments_end_where_their_bytes_end)
{
    struct buffer text = {0};
    struct text_span records;
    unsigned process;
    shipment_add(&text, 300, "abc", 3);
    shipment_add(&text, 1, "de", 2);
    struct text_span shipment = span_of(&text), cut = {text.bytes, text.length - 1};
    assert_true(shipment_next(&shipment, &process, &records));
    assert_int_equal(process, 300);
    assert_int_equal(records.length, 3);
    assert_true(shipment_next(&shipment, &process, &records));
    assert_memory_equal(records.bytes, "de", 2);
    assert_false(shipment_next(&shipment, &process, &records));
    assert_true(shipment_next(&cut, &process, &records));
    assert_false(shipment_next(&cut, &process, &records));
    buffer_fini(&text);
}

RUN_TESTS
