/* The progress line: what it shows, in how much room, and who gets to see it. */
#include "tests/support/test.h"

#include "worker/commands/progress_bar.h"

#include "tests/support/terminal.h"

static struct progress of_total(uint64_t total)
{
    return (struct progress){.label = "pushing", .total = total};
}

static void assert_renders(const struct progress *progress, uint64_t done, unsigned width, const char *expected)
{
    struct buffer out = {0};
    progress_render(progress, done, 10 * NS_PER_S, width, &out);
    assert_string_equal(buffer_text(&out), expected);
    buffer_fini(&out);
}

TEST(the_line_shows_share_rate_and_time_left)
{
    struct progress progress = of_total(1000);
    assert_renders(&progress, 250, 56, "pushing ####.............. 250 of 1000, 25/s, 30 s left");
    assert_renders(&progress, 1000, 46, "pushing ################# 1000 of 1000, 100/s");
    assert_renders(&progress, 0, 45, "pushing ..................... 0 of 1000, 0/s");
}

TEST(a_narrow_terminal_gets_no_bar)
{
    struct progress progress = of_total(1000);
    assert_renders(&progress, 250, 40, "pushing 250 of 1000, 25/s, 30 s left");
    assert_renders(&progress, 250, 30, "pushing 250 of 1000, 25/s, 3");
}

TEST(an_unknown_total_gets_no_bar)
{
    struct progress progress = of_total(0);
    assert_renders(&progress, 1234, 80, "pushing 1234, 123/s");
}

TEST(colours_are_left_out_when_not_wanted)
{
    struct buffer out = {0};
    struct progress progress = of_total(10);
    progress.has_colour = true;
    progress_render(&progress, 5, NS_PER_S, 80, &out);
    assert_non_null(strchr(buffer_text(&out), '\x1b'));
    setenv("NO_COLOR", "1", 1);
    progress_start(&progress, 1, "x", 1);
    assert_false(progress.has_colour);
    setenv("NO_COLOR", "", 1);
    progress_start(&progress, 1, "x", 1);
    assert_true(progress.has_colour);
    unsetenv("NO_COLOR");
    buffer_fini(&out);
}

static size_t shown(int other_side)
{
    char bytes[512];
    struct pollfd readable = {.fd = other_side, .events = POLLIN};
    return poll(&readable, 1, 0) == 1 ? (size_t)read(other_side, bytes, sizeof bytes) : 0;
}

TEST(only_a_capable_terminal_sees_it)
{
    struct progress progress;
    int pipe_ends[2], other_side = terminal_open();
    int terminal = open(ptsname(other_side), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(terminal >= 0);
    setenv("TERM", "xterm", 1);
    progress_start(&progress, terminal, "x", 10);
    progress_update(&progress, 1);
    assert_true(shown(other_side) > 0);
    progress_end(&progress);
    assert_true(shown(other_side) > 0);

    setenv("TERM", "dumb", 1);
    progress_start(&progress, terminal, "x", 10);
    progress_update(&progress, 1);
    progress_end(&progress);
    assert_int_equal(shown(other_side), 0);

    setenv("TERM", "xterm", 1);
    assert_int_equal(pipe(pipe_ends), 0);
    progress_start(&progress, pipe_ends[1], "x", 10);
    progress_update(&progress, 1);
    progress_end(&progress);
    assert_int_equal(shown(pipe_ends[0]), 0);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    close(terminal);
    close(other_side);
}

RUN_TESTS
