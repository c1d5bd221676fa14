/* What a child writes, line by line: however it is cut into pieces, however much of it there is. */
#include "tests/support/test.h"

#include <errno.h>

#include "base/buffer.h"
#include "tests/support/loop_until.h"
#include "tests/support/one_loop.h"
#include "worker/isolation/output.h"

static struct output *output;
static struct output_budget budget;
static int writer;
static struct buffer said; /* the lines, each in <> */
static unsigned ends;      /* how often the end was told */

static void told(void *context, const char *line, size_t length)
{
    (void)context;
    if (line == NULL) {
        ends++;
        return;
    }
    buffer_append_text(&said, "<");
    buffer_append(&said, line, length);
    buffer_append_text(&said, ">");
}

static int set_up(void **state)
{
    one_loop_set_up(state);
    int pair[2];
    assert_true(output_pipe(pair));
    writer = pair[1];
    budget = (struct output_budget){0};
    ends = 0;
    buffer_clear(&said);
    output = output_open(loop, pair[0], &budget, told, NULL);
    return 0;
}

static int tear_down(void **state)
{
    output_close(output);
    if (writer >= 0)
        close(writer);
    buffer_fini(&said);
    return one_loop_tear_down(state);
}

static void put(const char *text)
{
    assert_int_equal(write(writer, text, strlen(text)), strlen(text));
}

static void put_end(void)
{
    close(writer);
    writer = -1;
}

static bool said_all(void *context)
{
    return strcmp(buffer_text(&said), context) == 0;
}

static bool has_ended(void *context)
{
    (void)context;
    return ends > 0;
}

#define assert_says(text) assert_true(loop_until(loop, said_all, (void *)(uintptr_t)(text), TEST_PATIENCE_NS))

static void assert_ends(void)
{
    assert_true(loop_until(loop, has_ended, NULL, TEST_PATIENCE_NS));
    assert_int_equal(ends, 1);
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

TEST(a_line_is_told_when_it_has_ended)
{
    put("on");
    loop_for(loop, 10 * NS_PER_MS);
    assert_string_equal(buffer_text(&said), "");
    put("e\ntwo\n\n\nthree\r\nfo");
    assert_says("<one><two><three>");
    put_end();
    assert_ends();
    assert_string_equal(buffer_text(&said), "<one><two><three><fo>");
    size_t length = 0;
    assert_memory_equal(output_last(output, &length), "fo", 2);
    assert_int_equal(length, 2);
}

TEST(a_nul_is_a_byte_like_others)
{
    assert_int_equal(write(writer, "a\0b\n\n", 5), 5);
    put_end();
    assert_ends();
    assert_int_equal(said.length, 5);
    assert_memory_equal(said.bytes, "<a\0b>", 5);
}

TEST(a_long_line_is_cut)
{
    char much[3 * OUTPUT_LINE_MAX + 1];
    memset(much, 'x', sizeof much - 1);
    much[sizeof much - 1] = '\0';
    put(much);
    put(much);
    put("y\nz\n");
    put_end();
    assert_ends();
    assert_int_equal(said.length, OUTPUT_LINE_MAX + 2 + 3);
    assert_memory_equal(said.bytes, "<xxx", 4);
    assert_memory_equal(said.bytes + OUTPUT_LINE_MAX, "x><z>", 5);
    assert_int_equal(budget.bytes, 6 * OUTPUT_LINE_MAX + 1 + 1);
}

TEST(a_drain_takes_what_is_there_and_ends_the_line)
{
    put("one\ntwo");
    output_drain(output);
    assert_string_equal(buffer_text(&said), "<one><two>");
    output_drain(output);
    assert_string_equal(buffer_text(&said), "<one><two>");
    assert_int_equal(ends, 0);
    put("three\n");
    put_end();
    output_drain(output);
    assert_string_equal(buffer_text(&said), "<one><two><three>");
    assert_int_equal(ends, 1);
    output_drain(output);
    assert_int_equal(ends, 1);
}

/* --- too much ----------------------------------------------------------------------------------------------------- */

TEST(lines_beyond_the_budget_are_counted_and_dropped)
{
    for (int i = 0; i < OUTPUT_RUN_LINES_MAX; i++)
        put("12345\n");
    put("dropped\n\nlast");
    put_end();
    assert_ends();
    assert_int_equal(said.length, OUTPUT_RUN_LINES_MAX * 7);
    assert_int_equal(budget.lines, OUTPUT_RUN_LINES_MAX);
    assert_int_equal(budget.dropped_lines, 2);
    assert_int_equal(budget.dropped_bytes, 11);
    size_t length = 0;
    assert_memory_equal(output_last(output, &length), "last", 4);
    assert_int_equal(length, 4);
}

TEST(a_new_budget_begins_anew)
{
    budget.lines = OUTPUT_RUN_LINES_MAX;
    put("one\n");
    output_drain(output);
    assert_string_equal(buffer_text(&said), "");
    budget = (struct output_budget){0};
    put("two\n");
    output_drain(output);
    assert_string_equal(buffer_text(&said), "<two>");
}

static void write_much(const char *line)
{
    size_t length = strlen(line);
    static char block[64 * 1024];
    size_t filled = 0;
    for (; filled + length <= sizeof block; filled += length)
        memcpy(block + filled, line, length);
    for (size_t written = 0; written < (size_t)64 << 20;) {
        ssize_t more = write(writer, block, filled);
        if (more < 0 && errno != EINTR)
            break;
        written += more > 0 ? (size_t)more : 0;
    }
}

static void much_is_written(const char *line, size_t at_least)
{
    pid_t child = fork();
    if (child == 0) {
        write_much(line);
        _exit(0);
    }
    put_end();
    assert_ends();
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(said.length <= 2 * OUTPUT_RUN_BYTES_MAX);
    assert_true(budget.dropped_bytes >= at_least);
}

TEST(a_flood_of_lines_costs_no_memory)
{
    much_is_written("0123456789abcdef\n", (size_t)60 << 20);
    assert_int_equal(budget.lines, OUTPUT_RUN_LINES_MAX);
    assert_in_range(budget.dropped_lines, ((size_t)64 << 20) / 17 - OUTPUT_RUN_LINES_MAX - 1,
                    ((size_t)64 << 20) / 17 + 2 * OUTPUT_CYCLE_MAX / 17);
}

TEST(a_flood_of_empty_lines_costs_nothing)
{
    budget.lines = OUTPUT_RUN_LINES_MAX;
    much_is_written("\n", 0);
    assert_int_equal(said.length, 0);
    assert_int_equal(budget.dropped_lines, 0);
}

TEST(a_flood_without_line_end_is_one_line)
{
    budget.bytes = OUTPUT_RUN_BYTES_MAX;
    much_is_written("x", (size_t)60 << 20);
    assert_int_equal(budget.dropped_lines, 1);
}

RUN_TESTS_WITH(set_up, tear_down)
