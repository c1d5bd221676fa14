/* The report for a terminal: the answer stands first, lines fit, whatever is in a result cannot steer the terminal; and
 * the block of lines that shows how a run is getting on lies upon itself. */
#include "tests/support/test.h"

#include "tests/support/dry_run_sample.h"
#include "worker/dry_run/report/plan_about.h"
#include "worker/dry_run/report/text_writer.h"
#include "worker/dry_run/run/live_block.h"
#include "worker/print/table.h"

static struct result result;
static struct buffer out;

static void tear_down(void)
{
    result_fini(&result);
    buffer_fini(&out);
}

static const char *text_of(enum sample_kind kind, unsigned width)
{
    tear_down();
    dry_run_sample(kind, &result);
    result_text_write(&result, width, false, &out);
    return buffer_text(&out);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in:\n%s", part, text);
}

/* Lines end, are no wider, end without blanks, and have nothing in them that a terminal obeys. */
static void assert_fits(const char *text, unsigned width)
{
    while (*text != '\0') {
        const char *end = strchr(text, '\n');
        char line[4096];
        assert_non_null(end);
        snprintf(line, sizeof line, "%.*s", (int)(end - text), text);
        if (table_text_width(line) > width || (end > text && end[-1] == ' '))
            fail_msg("%u wide, at most %u, and no blank at the end: \"%s\"", table_text_width(line), width, line);
        for (const char *at = line; *at != '\0'; at++)
            assert_true((unsigned char)*at >= ' ' && *at != 0x7f);
        text = end + 1;
    }
}

TEST(every_report_fits_every_width)
{
    static const unsigned widths[] = {60, 80, 100, 120};
    for (enum sample_kind kind = 0; kind < SAMPLE_KINDS; kind++)
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
            assert_fits(text_of(kind, widths[i]), widths[i]);
    assert_fits(text_of(SAMPLE_FULL, 10), RESULT_TEXT_WIDTH_MIN);
    assert_fits(text_of(SAMPLE_FULL, 1000), RESULT_TEXT_WIDTH_MAX);
}

TEST(the_answer_stands_first)
{
    const char *text = text_of(SAMPLE_FULL, 140);
    assert_int_equal(strncmp(text, "The resource r0 is the bottleneck", 33), 0);
    assert_true(strstr(text, "- More threads would not help") < strstr(text, "Dry run 3f9a0c21bb7e"));
}

TEST(everything_that_is_known_is_told)
{
    static const char *const parts[] = {"pushed 15,412",
                                        "lost 2",
                                        "waited for a lock",
                                        "(expected 770)",
                                        "Pollaczek",
                                        "r0 ",
                                        "RESOURCE 20/100",
                                        "lock3",
                                        "host-b",
                                        "lock3 stood still for 3.0 s",
                                        "(was not done)",
                                        "WHAT IF",
                                        "took 8.0 % of one processor",
                                        "seed 42",
                                        "3 records were lost"};
    const char *text = text_of(SAMPLE_FULL, 120);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_has(text, parts[i]);
    assert_has(text_of(SAMPLE_STOPPED, 120), "It was interrupted: this is the part until then.");
    assert_has(text_of(SAMPLE_MANY, 120), "4,321 more resources");
    text = text_of(SAMPLE_EMPTY, 120);
    assert_has(text, "Nothing was measured");
    assert_null(strstr(text, "RESOURCE"));
    assert_null(strstr(text, "FAULTS"));
    assert_null(strstr(text, "nan"));
}

TEST(overlaps_are_told_by_whether_a_fence_would_have_helped)
{
    text_of(SAMPLE_ONE, 100);
    buffer_clear(&out);
    result.overlaps = result.fence_refusals = 2;
    result_text_write(&result, 140, false, &out);
    assert_has(buffer_text(&out), "would have refused the late writes");
    buffer_clear(&out);
    result.overlaps_unfenced = 1;
    result_text_write(&result, 140, false, &out);
    assert_has(buffer_text(&out), "would not have refused all of it");
}

TEST(colours_come_only_when_asked_for)
{
    assert_null(strchr(text_of(SAMPLE_FULL, 100), '\x1b'));
    buffer_clear(&out);
    result_text_write(&result, 100, true, &out);
    assert_has(buffer_text(&out), "\x1b[33mThe resource r0");
}

TEST(names_are_quoted)
{
    const char *text = text_of(SAMPLE_HOSTILE, 140);
    assert_has(text, "\"\\x1B[2J");
    assert_null(strstr(text, "\xe2\x80\xae\n"));
}

/* --- paragraphs --------------------------------------------------------------------------------------------------- */

TEST(paragraphs_are_broken_at_gaps_then_blanks_then_anywhere)
{
    struct text_writer writer = {.width = 30, .out = &out};
    writer_text(&writer, TABLE_PLAIN, "- ", "one two three four five six seven");
    writer_text(&writer, TABLE_PLAIN, "", "a 1   b 2   c is another thing 3");
    writer_text(&writer, TABLE_PLAIN, "", "0123456789012345678901234567890123456789");
    writer_text(&writer, TABLE_PLAIN, "", "");
    assert_string_equal(buffer_text(&out), "- one two three four five six\n  seven\n"
                                           "a 1   b 2\nc is another thing 3\n"
                                           "012345678901234567890123456789\n0123456789\n\n");
}

/* --- plans -------------------------------------------------------------------------------------------------------- */

TEST(a_plan_is_a_sentence)
{
    text_of(SAMPLE_FULL, 100);
    buffer_clear(&out);
    plan_about(&result.plan, &out);
    assert_string_equal(buffer_text(&out),
                        "a rehearsal on 5 private lock nodes: 2 processes with 16 threads each on each "
                        "of 2 hosts, 770 tasks/s for 22s (the first 2s do not count), 100 resources "
                        "by Zipf's law with 1.1, exponential holds of 5ms, seed 42");
    buffer_clear(&out);
    result.plan.processes = result.plan.threads = 1;
    plan_about(&result.plan, &out);
    assert_contains(buffer_text(&out), ": 1 process with 1 thread on each of 2 hosts,");
    buffer_clear(&out);
    result.plan.kind = DRY_RUN_SHADOW;
    result.plan.node_share = 0.05;
    result.plan.speed = 2;
    plan_about(&result.plan, &out);
    assert_has(buffer_text(&out), "a shadow on");
    assert_has(buffer_text(&out), "at 2 times its speed, at most 5.0 % of a node's time");
}

TEST(faults_are_sentences)
{
    static const struct {
        struct dry_run_fault fault;
        const char *text;
    } cases[] = {
        {{.kind = DRY_RUN_FAULT_CLOCK, .amount_ns = -90 * NS_PER_S, .number = 2}, "lock node 2 clock back by 90s"},
        {{.kind = DRY_RUN_FAULT_SLOW, .amount_ns = 5 * NS_PER_MS, .lasts_ns = NS_PER_S},
         "queue node slower by 5ms for 1s"},
        {{.kind = DRY_RUN_FAULT_FREEZE, .lasts_ns = NS_PER_S, .at_worker = true, .number = 1},
         "worker process 1 frozen for 1s"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buffer_clear(&out);
        plan_fault_about(&cases[i].fault, &out);
        assert_string_equal(buffer_text(&out), cases[i].text);
    }
}

/* --- the block ---------------------------------------------------------------------------------------------------- */

static struct live_numbers numbers_of(const char *name)
{
    struct live_numbers numbers = {
        .phase = "measuring", .has_begun = true, .elapsed = 12, .total = 20, .rate_wanted = 770};
    numbers.stats = (struct stats_live){.pushed = 9000, .ended = 8900, .runners = 32, .busy = 0.61, .hot_count = 8};
    numbers.stats.last = (struct result_second){.pushed = 765, .ended = 771, .wait_p99 = 0.081, .waiting = 23};
    for (unsigned i = 0; i < numbers.stats.hot_count; i++)
        numbers.stats.hot[i] = (struct stats_hot){.name = name, .share_held = 0.97, .waiters = 12};
    return numbers;
}

static unsigned lines_of(const char *text)
{
    unsigned lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

TEST(the_block_has_as_many_lines_as_it_says)
{
    struct live_numbers numbers = numbers_of(SAMPLE_HOSTILE_TEXT);
    static const unsigned widths[] = {1, 20, 80, 200};
    numbers.stats.lost = 1;
    for (int has_begun = 0; has_begun <= 1; has_begun++)
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
            buffer_clear(&out);
            numbers.has_begun = has_begun;
            unsigned lines = live_block_write(&numbers, widths[i], false, &out);
            assert_int_equal(lines, lines_of(buffer_text(&out)));
            assert_int_equal(lines, has_begun ? 5 + 1 + LIVE_HOT_ROWS : 1);
            assert_null(strchr(buffer_text(&out), '\x1b'));
            if (widths[i] >= 80)
                assert_fits(buffer_text(&out), widths[i]);
        }
}

TEST(the_block_tells_how_it_is_getting_on)
{
    struct live_numbers numbers = numbers_of("r0");
    live_block_write(&numbers, 100, false, &out);
    assert_has(buffer_text(&out), "measuring   [##############..........] 12 of 20 s\n");
    assert_has(buffer_text(&out), "pushed 765 of 770  ended 771");
    assert_has(buffer_text(&out), "waiting 23  runners busy 61 % of 32");
    assert_has(buffer_text(&out), "p99 81.0 ms");
    assert_has(buffer_text(&out), "r0       97 %       12\n");
    assert_null(strstr(buffer_text(&out), "trouble"));
}

TEST(the_block_is_drawn_upon_itself_and_taken_away)
{
    struct live_block block = {.width = 80};
    struct live_numbers numbers = numbers_of("r0");
    live_block_draw(&block, &numbers, &out);
    assert_int_equal(buffer_text(&out)[0], 'm');
    unsigned lines = block.lines;
    char clear[32];
    snprintf(clear, sizeof clear, "\x1b[%uA\r\x1b[J", lines);
    buffer_clear(&out);
    numbers.stats.hot_count = 1;
    live_block_draw(&block, &numbers, &out);
    assert_int_equal(strncmp(buffer_text(&out), clear, strlen(clear)), 0);
    assert_int_equal(block.lines, lines - LIVE_HOT_ROWS + 1);
    buffer_clear(&out);
    live_block_end(&block, &out);
    snprintf(clear, sizeof clear, "\x1b[%uA\r\x1b[J", lines - LIVE_HOT_ROWS + 1);
    assert_string_equal(buffer_text(&out), clear);
    buffer_clear(&out);
    live_block_end(&block, &out);
    assert_int_equal(out.length, 0);
}

TEST(checks_that_crash_are_told)
{
    text_of(SAMPLE_ONE, 100);
    assert_null(strstr(buffer_text(&out), "check()"));
    buffer_clear(&out);
    snprintf(result.crashed_checks, sizeof result.crashed_checks, "transfer (SIGSEGV) for 2 tasks");
    result_text_write(&result, 140, false, &out);
    assert_contains(buffer_text(&out), "The check() of arguments crashed in transfer (SIGSEGV) for 2 tasks");
}

RUN_TESTS_BETWEEN(NULL, tear_down)
