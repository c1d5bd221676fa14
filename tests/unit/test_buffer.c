/* The growing buffer and the allocation below it: bytes stay what they were, and no size overflows. */
#include "tests/support/test.h"

#include "base/buffer.h"
#include "base/memory.h"

TEST(an_unused_buffer_is_an_empty_text)
{
    struct buffer buffer = {.bytes = NULL};
    buffer_append(&buffer, NULL, 0);
    assert_string_equal(buffer_text(&buffer), "");
    assert_int_equal(buffer.length, 0);
    buffer_fini(&buffer);
    buffer_fini(&buffer);
}

TEST(bytes_stay_as_they_were_while_it_grows)
{
    struct buffer buffer = {.bytes = NULL};
    for (int i = 0; i < 100000; i++) {
        char byte = (char)(i * 31);
        buffer_append(&buffer, &byte, 1);
    }
    assert_int_equal(buffer.length, 100000);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(buffer.bytes[i], (char)(i * 31));
    buffer_fini(&buffer);
}

TEST(formatting_appends_whatever_the_length)
{
    char expected[2000] = "";
    for (int width = 0; width < 200; width++) {
        struct buffer buffer = {.bytes = NULL};
        buffer_append_text(&buffer, "start:");
        buffer_format(&buffer, "%*d|", width, width);
        buffer_format(&buffer, "%s", "end");
        snprintf(expected, sizeof expected, "start:%*d|end", width, width);
        assert_string_equal(buffer_text(&buffer), expected);
        assert_int_equal(buffer.length, strlen(expected));
        buffer_fini(&buffer);
    }
}

TEST(dropping_the_front_keeps_the_rest)
{
    struct buffer buffer = {.bytes = NULL};
    buffer_append_text(&buffer, "abcdef");
    buffer_drop_front(&buffer, 0);
    buffer_drop_front(&buffer, 2);
    assert_string_equal(buffer_text(&buffer), "cdef");
    buffer_drop_front(&buffer, 4);
    assert_string_equal(buffer_text(&buffer), "");
    buffer_fini(&buffer);
}

static void drop_more_than_there_is(void)
{
    struct buffer buffer = {.bytes = NULL};
    buffer_append_text(&buffer, "abc");
    buffer_drop_front(&buffer, 4);
}

TEST(dropping_more_than_there_is_aborts)
{
    assert_true(test_aborts(drop_more_than_there_is));
}

TEST(reserved_room_can_be_written)
{
    struct buffer buffer = {.bytes = NULL};
    memset(buffer_reserve(&buffer, 1000), 'x', 1000);
    buffer.length += 1000;
    memset(buffer_reserve(&buffer, 5000), 'y', 5000);
    buffer.length += 5000;
    assert_int_equal(buffer.bytes[999], 'x');
    assert_int_equal(buffer.bytes[5999], 'y');
    buffer_clear(&buffer);
    assert_string_equal(buffer_text(&buffer), "");
    buffer_fini(&buffer);
}

TEST(copies_of_text_are_terminated)
{
    char *whole = memory_text("whole");
    char *part = memory_text_of("partly", 4);
    char *none = memory_text_of(NULL, 0);
    assert_string_equal(whole, "whole");
    assert_string_equal(part, "part");
    assert_string_equal(none, "");
    free(whole);
    free(part);
    free(none);
}

TEST(nothing_can_be_allocated_and_memory_is_zeroed)
{
    void *nothing = memory_zeroed(0, 8);
    assert_non_null(nothing);
    free(nothing);
    unsigned char *bytes = memory_zeroed(100, 3);
    for (int i = 0; i < 300; i++)
        assert_int_equal(bytes[i], 0);
    memset(bytes, 1, 300);
    memory_wipe(bytes, 300);
    for (int i = 0; i < 300; i++)
        assert_int_equal(bytes[i], 0);
    memory_wipe(NULL, 0);
    free(bytes);
}

static void overflow_a_size(void)
{
    volatile size_t many = SIZE_MAX / 2;
    free(memory_resize(NULL, many, 16));
}

TEST(a_size_that_overflows_aborts)
{
    assert_true(test_aborts(overflow_a_size));
}

RUN_TESTS
