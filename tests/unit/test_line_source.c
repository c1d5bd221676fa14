/* Lines from a descriptor, however they arrive. */
#include "tests/support/test.h"

#include <pthread.h>

#include "base/buffer.h"
#include "tests/support/loop_until.h"
#include "worker/commands/line_source.h"

enum { LINE_MAX_BYTES = 1000000 };

static struct loop *loop;
static struct line_source *source;
static struct buffer seen; /* each line with '|' behind it; a long one is "LONG|" */
static unsigned lines, readies;
static bool is_over, takes;

static void ready(void *context)
{
    (void)context;
    readies++;
    struct line line;
    enum line_found found = LINE_NONE;
    while (takes && (found = line_source_next(source, &line)) <= LINE_TOO_LONG) {
        lines++;
        if (found == LINE_TOO_LONG)
            buffer_append_text(&seen, "LONG");
        else
            buffer_append(&seen, line.text, line.length);
        buffer_append(&seen, "|", 1);
    }
    is_over = is_over || found == LINE_END || found == LINE_FAILED;
}

static bool is_at_end(void *context)
{
    (void)context;
    return is_over;
}

static void setup(void)
{
    loop = loop_create(NULL);
    assert_non_null(loop);
    buffer_clear(&seen);
    lines = readies = 0;
    is_over = false;
    takes = true;
}

static void teardown(void)
{
    line_source_stop(source);
    loop_destroy(loop);
    line_source_free(source);
    buffer_fini(&seen);
}

static void start(int fd, size_t line_max)
{
    source = line_source_start(loop, fd, line_max, ready, NULL, NULL);
    assert_non_null(source);
}

struct writer {
    pthread_t thread;
    int fd;
    const char *bytes;
    size_t length, piece;
};

static void *write_all(void *context)
{
    struct writer *writer = context;
    for (size_t done = 0; done < writer->length;) {
        size_t piece = writer->length - done < writer->piece ? writer->length - done : writer->piece;
        ssize_t sent = write(writer->fd, writer->bytes + done, piece);
        assert_true(sent > 0);
        done += (size_t)sent;
    }
    close(writer->fd);
    return NULL;
}

static void read_through_a_pipe(const char *bytes, size_t length, size_t piece, size_t line_max)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    struct writer writer = {.fd = fds[1], .bytes = bytes, .length = length, .piece = piece};
    start(fds[0], line_max);
    assert_int_equal(pthread_create(&writer.thread, NULL, write_all, &writer), 0);
    assert_true(loop_until(loop, is_at_end, NULL, TEST_PATIENCE_NS));
    pthread_join(writer.thread, NULL);
    close(fds[0]);
}

TEST(test_lines_arrive_as_they_are)
{
    static const char text[] = "one\n\n two \r\nthr\0ee\nlast";
    read_through_a_pipe(text, sizeof text - 1, 100, LINE_MAX_BYTES);
    static const char expected[] = "one|| two \r|thr\0ee|last|";
    assert_int_equal(seen.length, sizeof expected - 1);
    assert_memory_equal(seen.bytes, expected, seen.length);
}

TEST(test_lines_arrive_in_pieces)
{
    static const char text[] = "one\ntwo\nthree\n";
    read_through_a_pipe(text, sizeof text - 1, 1, LINE_MAX_BYTES);
    assert_string_equal(buffer_text(&seen), "one|two|three|");
}

TEST(test_nothing_at_all)
{
    read_through_a_pipe("", 0, 1, LINE_MAX_BYTES);
    assert_int_equal(lines, 0);
}

/* Lines of every length up to 3000 cross the borders of chunks in all places; nothing is lost or mixed up. */
TEST(test_lines_across_chunks)
{
    struct buffer text = {0}, expected = {0};
    for (size_t length = 0; length < 3000; length++)
        for (size_t i = 0; i <= length; i++) {
            char byte = (char)('a' + (length + i) % 26);
            buffer_append(&text, i < length ? &byte : "\n", 1);
            buffer_append(&expected, i < length ? &byte : "|", 1);
        }
    read_through_a_pipe(text.bytes, text.length, 1 << 16, LINE_MAX_BYTES);
    assert_int_equal(lines, 3000);
    assert_int_equal(seen.length, expected.length);
    assert_memory_equal(seen.bytes, expected.bytes, seen.length);
    buffer_fini(&text);
    buffer_fini(&expected);
}

TEST(test_a_line_longer_than_all_chunks)
{
    struct buffer text = {0};
    buffer_append_text(&text, "a\n");
    memset(buffer_reserve(&text, LINE_MAX_BYTES), 'x', LINE_MAX_BYTES);
    text.length += LINE_MAX_BYTES;
    buffer_append_text(&text, "\nb\n");
    read_through_a_pipe(text.bytes, text.length, 1 << 16, LINE_MAX_BYTES);
    assert_int_equal(lines, 3);
    assert_int_equal(seen.length, LINE_MAX_BYTES + 5);
    assert_memory_equal(seen.bytes + 2, text.bytes + 2, LINE_MAX_BYTES);
    buffer_fini(&text);
}

TEST(test_a_line_that_is_too_long_costs_bounded_memory)
{
    struct buffer text = {0};
    buffer_append_text(&text, "a\n");
    memset(buffer_reserve(&text, 4 * LINE_MAX_BYTES), 'x', 4 * LINE_MAX_BYTES);
    text.length += 4 * LINE_MAX_BYTES;
    buffer_append_text(&text, "\nb\nxxxxxx\nxxxxx\nc");
    read_through_a_pipe(text.bytes, text.length, 1 << 16, 5);
    assert_string_equal(buffer_text(&seen), "a|LONG|b|LONG|xxxxx|c|");
    buffer_fini(&text);
}

TEST(test_a_last_line_that_is_too_long)
{
    static char text[600000];
    memset(text, 'x', sizeof text);
    read_through_a_pipe(text, sizeof text, 1 << 16, 500000);
    assert_string_equal(buffer_text(&seen), "LONG|");
}

TEST(test_a_regular_file)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    for (int i = 0; i < 100000; i++)
        fprintf(file, "%d\n", i);
    rewind(file);
    start(fileno(file), LINE_MAX_BYTES);
    assert_true(loop_until(loop, is_at_end, NULL, TEST_PATIENCE_NS));
    assert_int_equal(lines, 100000);
    assert_int_equal(line_source_bytes(source), 588890);
    fclose(file);
}

TEST(test_a_descriptor_that_cannot_be_read)
{
    int fd = open("/", O_RDONLY | O_CLOEXEC);
    start(fd, LINE_MAX_BYTES);
    assert_true(loop_until(loop, is_at_end, NULL, TEST_PATIENCE_NS));
    assert_contains(line_source_reason(source), "directory");
    close(fd);
}

/* Nobody takes lines: the thread reads ahead two chunks and waits; stopping ends it. */
TEST(test_it_stops_while_nobody_takes)
{
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    takes = false;
    start(fd, LINE_MAX_BYTES);
    loop_await(loop, readies == 2);
    loop_for(loop, NS_PER_MS);
    assert_int_equal(readies, 2);
    line_source_stop(source);
    close(fd);
}

TEST(test_it_stops_while_input_is_awaited)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    start(fds[0], LINE_MAX_BYTES);
    loop_for(loop, 5 * NS_PER_MS);
    line_source_stop(source);
    assert_int_equal(readies, 0);
    close(fds[0]);
    close(fds[1]);
}

RUN_TESTS_BETWEEN(setup, teardown)
