/* What replies mean, and the reader: every value in every fragmentation, and limits that hold before memory is
 * spent. */
#include "tests/support/test.h"

#include <malloc.h>

#include "base/buffer.h"
#include "redis/arena.h"
#include "redis/reader.h"
#include "redis/reply.h"

/* --- classes of errors -------------------------------------------------------------------------------------- */

TEST(test_e11_error_classes_by_first_word)
{
    static const struct {
        const char *text;
        enum redis_error error;
    } cases[] = {
        {"NOSCRIPT No matching script. Please use EVAL.", REDIS_ERROR_NOSCRIPT},
        {"LOADING Redis is loading the dataset in memory", REDIS_ERROR_LOADING},
        {"BUSY Redis is busy running a script.", REDIS_ERROR_BUSY},
        {"BUSYKEY Target key name already exists.", REDIS_ERROR_OTHER},
        {"MASTERDOWN Link with MASTER is down", REDIS_ERROR_MASTERDOWN},
        {"READONLY You can't write against a read only replica.", REDIS_ERROR_READONLY},
        {"NOREPLICAS Not enough good replicas to write.", REDIS_ERROR_NOREPLICAS},
        {"MISCONF Redis is configured to save RDB snapshots", REDIS_ERROR_MISCONF},
        {"OOM command not allowed when used memory > 'maxmemory'.", REDIS_ERROR_OOM},
        {"NOAUTH Authentication required.", REDIS_ERROR_AUTH},
        {"WRONGPASS invalid username-password pair or user is disabled.", REDIS_ERROR_AUTH},
        {"NOPERM this user has no permissions", REDIS_ERROR_AUTH},
        {"ERR invalid password", REDIS_ERROR_AUTH},
        {"ERR AUTH <password> called without any password configured", REDIS_ERROR_AUTH},
        {"MOVED 3999 127.0.0.1:6381", REDIS_ERROR_CLUSTER},
        {"ASK 3999 127.0.0.1:6381", REDIS_ERROR_CLUSTER},
        {"CLUSTERDOWN Hash slot not served", REDIS_ERROR_CLUSTER},
        {"CROSSSLOT Keys in request don't hash to the same slot", REDIS_ERROR_CLUSTER},
        {"TRYAGAIN Multiple keys request during rehashing of slot", REDIS_ERROR_CLUSTER},
        {"ERR max number of clients reached", REDIS_ERROR_MAXCLIENTS},
        {"WRONGTYPE Operation against a key", REDIS_ERROR_WRONGTYPE},
        {"ERR syntax error", REDIS_ERROR_SYNTAX},
        {"ERR unknown command 'FOO', with args beginning with:", REDIS_ERROR_SYNTAX},
        {"ERR wrong number of arguments for 'get' command", REDIS_ERROR_SYNTAX},
        {"ERR something else", REDIS_ERROR_OTHER},
        {"ERR", REDIS_ERROR_OTHER},
        {"OOM", REDIS_ERROR_OOM},
        {"OO", REDIS_ERROR_OTHER},
        {"", REDIS_ERROR_OTHER},
        {"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -OOM command not allowed",
         REDIS_ERROR_OOM},
        {"ERR Error running script (call to f_1): @user_script:1: attempt to index nil", REDIS_ERROR_OTHER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(redis_error_classify(cases[i].text, strlen(cases[i].text)), cases[i].error);
}

TEST(test_every_class_has_a_name_of_its_own)
{
    for (int a = REDIS_ERROR_NONE; a <= REDIS_ERROR_OTHER; a++)
        for (int b = REDIS_ERROR_NONE; b < a; b++)
            assert_string_not_equal(redis_error_name((enum redis_error)a), redis_error_name((enum redis_error)b));
    assert_string_equal(redis_error_name(REDIS_ERROR_READONLY), "READONLY");
    assert_string_equal(redis_error_name(REDIS_ERROR_DOWN), "down");
}

TEST(test_a_status_is_compared_whole)
{
    struct redis_reply reply = {.kind = REDIS_STATUS, .bytes = "OK", .length = 2};
    assert_true(redis_reply_is_status(&reply, "OK"));
    assert_false(redis_reply_is_status(&reply, "O"));
    assert_false(redis_reply_is_status(&reply, "OKAY"));
    reply.kind = REDIS_STRING;
    assert_false(redis_reply_is_status(&reply, "OK"));
}

/* --- the reader --------------------------------------------------------------------------------------------- */

static void describe(const struct redis_reply *reply, struct buffer *out)
{
    switch (reply->kind) {
    case REDIS_NIL:
        buffer_append_text(out, "nil");
        break;
    case REDIS_INTEGER:
        buffer_format(out, "%lld", reply->integer);
        break;
    case REDIS_STATUS:
    case REDIS_STRING:
    case REDIS_FAILURE:
        assert_int_equal(reply->bytes[reply->length], '\0');
        buffer_append(out, reply->kind == REDIS_STATUS ? "+" : reply->kind == REDIS_STRING ? "$" : "-", 1);
        buffer_append(out, reply->bytes, reply->length);
        break;
    case REDIS_ARRAY:
        buffer_append_text(out, "[");
        for (size_t i = 0; i < reply->count; i++) {
            if (i > 0)
                buffer_append_text(out, " ");
            describe(&reply->elements[i], out);
        }
        buffer_append_text(out, "]");
        break;
    }
}

static enum redis_reader_found read_all(struct redis_reader *reader, const char *bytes, size_t length, size_t fragment,
                                        struct buffer *out)
{
    for (size_t at = 0; at < length; at += fragment) {
        const struct redis_reply *reply = NULL;
        enum redis_reader_found found;
        redis_reader_give(reader, bytes + at, length - at < fragment ? length - at : fragment);
        while ((found = redis_reader_next(reader, &reply)) == REDIS_READER_REPLY) {
            describe(reply, out);
            buffer_append_text(out, "|");
        }
        if (found == REDIS_READER_BROKEN)
            return found;
    }
    return REDIS_READER_NOTHING;
}

TEST(test_values_in_every_fragmentation)
{
    static const char wire[] = "+OK\r\n:-42\r\n$5\r\nhe\r\no\r\n$-1\r\n*-1\r\n$0\r\n\r\n*0\r\n"
                               "*4\r\n:1\r\n*2\r\n$1\r\na\r\n-ERR inner\r\n$-1\r\n*1\r\n*1\r\n+deep\r\n"
                               "-NOSCRIPT No matching script\r\n:9223372036854775807\r\n";
    static const char expected[] = "+OK|-42|$he\r\no|nil|nil|$|[]|[1 [$a -ERR inner] nil [[+deep]]]|"
                                   "-NOSCRIPT No matching script|9223372036854775807|";
    for (size_t fragment = 1; fragment <= sizeof wire; fragment++) {
        struct redis_reader *reader = redis_reader_create(1024, 64);
        struct buffer out = {0};
        assert_int_equal(read_all(reader, wire, sizeof wire - 1, fragment, &out), REDIS_READER_NOTHING);
        assert_string_equal(buffer_text(&out), expected);
        assert_true(redis_reader_is_idle(reader));
        buffer_fini(&out);
        redis_reader_destroy(reader);
    }
}

TEST(test_it_is_idle_only_between_replies)
{
    static const char wire[] = "*2\r\n:1\r\n$3\r\nabc\r\n";
    struct redis_reader *reader = redis_reader_create(1024, 64);
    struct buffer out = {0};
    assert_true(redis_reader_is_idle(reader));
    for (size_t i = 0; i + 1 < sizeof wire; i++) {
        assert_int_equal(read_all(reader, wire + i, 1, 1, &out), REDIS_READER_NOTHING);
        assert_int_equal(redis_reader_is_idle(reader), i + 2 == sizeof wire);
    }
    buffer_fini(&out);
    redis_reader_destroy(reader);
    redis_reader_destroy(NULL);
}

TEST(test_many_replies_in_one_piece)
{
    struct buffer wire = {0};
    for (int i = 0; i < 20000; i++)
        buffer_format(&wire, ":%d\r\n", i);
    struct redis_reader *reader = redis_reader_create(1024, 64);
    const struct redis_reply *reply = NULL;
    redis_reader_give(reader, wire.bytes, wire.length);
    for (int i = 0; i < 20000; i++) {
        assert_int_equal(redis_reader_next(reader, &reply), REDIS_READER_REPLY);
        assert_int_equal(reply->integer, i);
    }
    assert_int_equal(redis_reader_next(reader, &reply), REDIS_READER_NOTHING);
    assert_true(redis_reader_is_idle(reader));
    buffer_fini(&wire);
    redis_reader_destroy(reader);
}

/* --- limits ------------------------------------------------------------------------------------------------- */

enum { REPLY_LIMIT = 64 * 1024, ELEMENT_LIMIT = 128 };

static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* The reader must refuse the bytes, and hold less than 512 KiB by then. */
static void assert_refused(const char *bytes, size_t length, const char *reason)
{
    size_t before = allocated();
    struct redis_reader *reader = redis_reader_create(REPLY_LIMIT, ELEMENT_LIMIT);
    struct buffer out = {0};
    assert_int_equal(read_all(reader, bytes, length, 4096, &out), REDIS_READER_BROKEN);
    assert_true(allocated() - before < 512 * 1024);
    assert_int_equal(out.length, 0);
    if (strstr(redis_reader_reason(reader), reason) == NULL)
        fail_msg("refused for \"%s\" instead of \"%s\"", redis_reader_reason(reader), reason);

    const struct redis_reply *reply = NULL;
    assert_int_equal(redis_reader_next(reader, &reply), REDIS_READER_BROKEN);
    redis_reader_reset(reader);
    assert_int_equal(read_all(reader, "+OK\r\n", 5, 5, &out), REDIS_READER_NOTHING);
    assert_string_equal(buffer_text(&out), "+OK|");
    buffer_fini(&out);
    redis_reader_destroy(reader);
}

static void assert_text_refused(const char *text, const char *reason)
{
    assert_refused(text, strlen(text), reason);
}

TEST(test_f40_array_bombs_are_refused_by_their_header)
{
    assert_text_refused("*2147483647\r\n", "more elements than the limit");
    assert_text_refused("*100000000\r\n", "more elements than the limit");
    assert_text_refused("*129\r\n", "more elements than the limit");
    assert_text_refused("*2\r\n*127\r\n", "elements");
    assert_text_refused("*9223372036854775807\r\n", "");
    assert_text_refused("*99999999999999999999999\r\n", "");
    assert_text_refused("*-5\r\n", "");
}

TEST(test_as_many_elements_as_the_limit_are_accepted)
{
    struct buffer wire = {0}, out = {0};
    buffer_append_text(&wire, "*128\r\n");
    for (int i = 0; i < 128; i++)
        buffer_append_text(&wire, ":7\r\n");
    struct redis_reader *reader = redis_reader_create(REPLY_LIMIT, ELEMENT_LIMIT);
    for (int i = 0; i < 3; i++)
        assert_int_equal(read_all(reader, wire.bytes, wire.length, 100, &out), REDIS_READER_NOTHING);
    assert_true(redis_reader_is_idle(reader));
    assert_int_equal(out.length, 3 * (128 * 2 + 2));
    buffer_fini(&wire);
    buffer_fini(&out);
    redis_reader_destroy(reader);
}

TEST(test_f40_deep_nesting_is_refused)
{
    struct buffer wire = {0}, out = {0};
    for (int i = 0; i < 100000; i++)
        buffer_append_text(&wire, "*1\r\n");
    assert_refused(wire.bytes, wire.length, "nested deeper than the limit");
    assert_refused(wire.bytes, 4 * 8, "nested deeper than the limit");

    struct redis_reader *reader = redis_reader_create(REPLY_LIMIT, ELEMENT_LIMIT);
    wire.length = 4 * 7;
    buffer_append_text(&wire, ":1\r\n");
    assert_int_equal(read_all(reader, wire.bytes, wire.length, 3, &out), REDIS_READER_NOTHING);
    assert_string_equal(buffer_text(&out), "[[[[[[[1]]]]]]]|");
    redis_reader_destroy(reader);
    buffer_fini(&wire);
    buffer_fini(&out);
}

TEST(test_f40_huge_bulk_is_refused_when_it_exceeds_the_limit)
{
    struct buffer wire = {0};
    buffer_append_text(&wire, "$5000000000\r\n");
    memset(buffer_reserve(&wire, 2 * REPLY_LIMIT), 'x', 2 * REPLY_LIMIT);
    wire.length += 2 * REPLY_LIMIT;
    assert_refused(wire.bytes, wire.length, "bytes");
    buffer_fini(&wire);
    assert_text_refused("$-2\r\n", "");
    assert_text_refused("$abc\r\n", "");
}

TEST(test_the_bytes_of_all_elements_count_together)
{
    struct buffer wire = {0};
    buffer_append_text(&wire, "*100\r\n");
    for (int i = 0; i < 100; i++) {
        buffer_append_text(&wire, "$1000\r\n");
        memset(buffer_reserve(&wire, 1000), 'x', 1000);
        wire.length += 1000;
        buffer_append_text(&wire, "\r\n");
    }
    assert_refused(wire.bytes, wire.length, "bytes");
    buffer_fini(&wire);
}

TEST(test_a_bulk_of_exactly_the_limit_is_accepted)
{
    struct buffer wire = {0}, out = {0};
    buffer_format(&wire, "$%d\r\n", REPLY_LIMIT);
    memset(buffer_reserve(&wire, REPLY_LIMIT), 'x', REPLY_LIMIT);
    wire.length += REPLY_LIMIT;
    buffer_append_text(&wire, "\r\n");
    struct redis_reader *reader = redis_reader_create(REPLY_LIMIT, ELEMENT_LIMIT);
    assert_int_equal(read_all(reader, wire.bytes, wire.length, 777, &out), REDIS_READER_NOTHING);
    assert_int_equal(out.length, REPLY_LIMIT + 2);
    assert_true(redis_reader_is_idle(reader));
    buffer_fini(&wire);
    buffer_fini(&out);
    redis_reader_destroy(reader);
}

TEST(test_a_line_without_an_end_is_refused)
{
    struct buffer wire = {0};
    buffer_append_text(&wire, "+");
    memset(buffer_reserve(&wire, REPLY_LIMIT / 2), 'x', REPLY_LIMIT / 2);
    wire.length += REPLY_LIMIT / 2;
    assert_refused(wire.bytes, wire.length, "line");
    buffer_fini(&wire);
}

TEST(test_f40_resp3_types_are_refused)
{
    static const char *const wires[] = {
        "%1\r\n+a\r\n+b\r\n",        "~1\r\n+a\r\n",      ">2\r\n+message\r\n+b\r\n", ",3.14\r\n",    "#t\r\n", "_\r\n",
        "(12345678901234567890\r\n", "=7\r\ntxt:abc\r\n", "*1\r\n%1\r\n+a\r\n+b\r\n", "*1\r\n#f\r\n",
    };
    for (size_t i = 0; i < sizeof wires / sizeof *wires; i++)
        assert_text_refused(wires[i], "");
}

TEST(test_garbage_is_refused)
{
    assert_text_refused("HTTP/1.1 400 Bad Request\r\n", "");
    assert_text_refused(":12a\r\n", "");
    assert_text_refused(":99999999999999999999\r\n", "");
    assert_refused("\0\0\0\0", 4, "");
}

/* --- memory ------------------------------------------------------------------------------------------------- */

TEST(test_the_steady_state_allocates_nothing)
{
    static const char wire[] = "*2\r\n$3\r\nabc\r\n:1\r\n+OK\r\n";
    struct redis_reader *reader = redis_reader_create(REPLY_LIMIT, ELEMENT_LIMIT);
    struct buffer out = {0};
    buffer_reserve(&out, 1 << 20);
    size_t before = 0;
    for (int i = 0; i < 10000; i++) {
        if (i == 1000)
            before = allocated(); /* all buffers have reached their working size */
        read_all(reader, wire, sizeof wire - 1, 100, &out);
    }
    assert_int_equal(allocated(), before);
    buffer_fini(&out);
    redis_reader_destroy(reader);
}

TEST(test_an_arena_gives_back_what_a_huge_reply_took)
{
    struct arena arena = {0};
    size_t before = allocated();
    for (int i = 0; i < 64; i++)
        memset(arena_take(&arena, 100000), 1, 100000);
    assert_true(arena.total >= 6400000);
    arena_reset(&arena);
    assert_true(allocated() - before <= ARENA_KEPT_MAX + 64 * 1024);
    char *first = arena_take(&arena, 1);
    char *second = arena_take(&arena, 1);
    assert_true(second >= first + 1);
    assert_int_equal((uintptr_t)second % _Alignof(max_align_t), 0);
    arena_fini(&arena);
}

TEST(what_ends_by_itself_is_told_from_what_does_not)
{
    assert_true(redis_error_is_passing(REDIS_ERROR_LOADING));
    assert_true(redis_error_is_passing(REDIS_ERROR_NOREPLICAS));
    assert_true(redis_error_is_passing(REDIS_ERROR_DOWN));
    assert_false(redis_error_is_passing(REDIS_ERROR_NONE));
    assert_false(redis_error_is_passing(REDIS_ERROR_OOM));
    assert_false(redis_error_is_passing(REDIS_ERROR_AUTH));
    assert_false(redis_error_is_passing(REDIS_ERROR_WRONGTYPE));
}

RUN_TESTS
