/* The wire format of requests. */
#include "tests/support/test.h"

#include "redis/request.h"

static void assert_encoded(const struct buffer *out, const char *expected, size_t length)
{
    assert_int_equal(out->length, length);
    assert_memory_equal(out->bytes, expected, length);
}

TEST(test_arguments_are_length_prefixed)
{
    struct buffer out = {0};
    redis_request_begin(&out, 3);
    redis_request_text(&out, "SET");
    redis_request_text(&out, "key");
    redis_request_text(&out, "");
    static const char expected[] = "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n";
    assert_encoded(&out, expected, sizeof expected - 1);
    buffer_fini(&out);
}

TEST(test_bytes_cannot_become_protocol)
{
    struct buffer out = {0};
    static const char evil[] = "x\r\n$5\r\nevil\0\r\n";
    redis_request_begin(&out, 1);
    redis_request_bytes(&out, evil, sizeof evil - 1);
    static const char expected[] = "*1\r\n$14\r\nx\r\n$5\r\nevil\0\r\n\r\n";
    assert_encoded(&out, expected, sizeof expected - 1);
    buffer_fini(&out);
}

TEST(test_integers_at_their_limits)
{
    struct buffer out = {0};
    redis_request_integer(&out, 0);
    redis_request_integer(&out, -1);
    redis_request_integer(&out, INT64_MAX);
    redis_request_integer(&out, INT64_MIN);
    static const char expected[] =
        "$1\r\n0\r\n$2\r\n-1\r\n$19\r\n9223372036854775807\r\n$20\r\n-9223372036854775808\r\n";
    assert_encoded(&out, expected, sizeof expected - 1);
    buffer_fini(&out);
}

TEST(test_every_length_of_header_is_right)
{
    static const size_t lengths[] = {0, 9, 10, 11, 99, 100, 999, 1000, 65536, 1048576};
    char *payload = calloc(1, 1048576);
    assert_non_null(payload);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct buffer out = {0};
        char header[32];
        redis_request_bytes(&out, payload, lengths[i]);
        size_t header_length = (size_t)snprintf(header, sizeof header, "$%zu\r\n", lengths[i]);
        assert_int_equal(out.length, header_length + lengths[i] + 2);
        assert_memory_equal(out.bytes, header, header_length);
        assert_memory_equal(out.bytes + out.length - 2, "\r\n", 2);
        buffer_fini(&out);
    }
    free(payload);
}

TEST(test_requests_follow_each_other_in_one_buffer)
{
    struct buffer out = {0};
    for (int i = 0; i < 1000; i++) {
        redis_request_begin(&out, 1);
        redis_request_text(&out, "PING");
    }
    assert_int_equal(out.length, 14 * 1000);
    for (size_t i = 0; i < 1000; i++)
        assert_memory_equal(out.bytes + 14 * i, "*1\r\n$4\r\nPING\r\n", 14);
    buffer_fini(&out);
}

TEST(test_a_script_is_called_by_its_digest)
{
    static const struct redis_script script = {
        .name = "one", .sha1 = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", .source = "return 1", .length = 8};
    struct buffer out = {0};
    redis_request_script(&out, &script, 2, 10);
    static const char expected[] =
        "*15\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n$1\r\n2\r\n";
    assert_encoded(&out, expected, sizeof expected - 1);
    buffer_fini(&out);
}

RUN_TESTS
