/* The growing buffer and the allocation below it: bytes stay what they were, and no size overflows. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"

static void an_unused_buffer_is_an_empty_text(void **state)
{
    (void)state;
    struct buffer buffer = {.bytes = NULL};
    buffer_append(&buffer, NULL, 0);
    assert_string_equal(buffer_text(&buffer), "");
    assert_int_equal(buffer.length, 0);
    buffer_fini(&buffer);
    buffer_fini(&buffer);
}

static void bytes_stay_as_they_were_while_it_grows(void **state)
{
    (void)state;
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

static void formatting_appends_whatever_the_length(void **state)
{
    (void)state;
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

static void dropping_the_front_keeps_the_rest(void **state)
{
    (void)state;
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

static void dropping_more_than_there_is_aborts(void **state)
{
    (void)state;
    assert_true(test_aborts(drop_more_than_there_is));
}

static void reserved_room_can_be_written(void **state)
{
    (void)state;
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

static void copies_of_text_are_terminated(void **state)
{
    (void)state;
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

static void nothing_can_be_allocated_and_memory_is_zeroed(void **state)
{
    (void)state;
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

static void a_size_that_overflows_aborts(void **state)
{
    (void)state;
    assert_true(test_aborts(overflow_a_size));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unused_buffer_is_an_empty_text),
        cmocka_unit_test(bytes_stay_as_they_were_while_it_grows),
        cmocka_unit_test(formatting_appends_whatever_the_length),
        cmocka_unit_test(dropping_the_front_keeps_the_rest),
        cmocka_unit_test(dropping_more_than_there_is_aborts),
        cmocka_unit_test(reserved_room_can_be_written),
        cmocka_unit_test(copies_of_text_are_terminated),
        cmocka_unit_test(nothing_can_be_allocated_and_memory_is_zeroed),
        cmocka_unit_test(a_size_that_overflows_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
