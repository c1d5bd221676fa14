/* Reading the logs of workers: taking lines apart, pairing what belongs together, standing whatever a file holds. */
#include "tests/support/test.h"

#include <stdio.h>

#include "worker/history/log_line.h"
#include "worker/history/log_reader.h"

#define AT "2026-11-22T01:00:0"

static struct history *history;
static struct log_reader *reader;

static int set_up(void **state)
{
    (void)state;
    history = history_create();
    reader = log_reader_create(history);
    log_reader_begin(reader, "north.log");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    log_reader_destroy(reader);
    history_destroy(history);
    return 0;
}

static void say(const char *line)
{
    log_reader_line(reader, line, strlen(line));
}

static void finish(void)
{
    log_reader_finish(reader);
    history_order(history);
}

static const struct history_hold *hold_at(size_t index)
{
    size_t count;
    const struct history_hold *holds = history_holds(history, &count);
    assert_true(index < count);
    return &holds[index];
}

static size_t hold_total(void)
{
    size_t count;
    (void)history_holds(history, &count);
    return count;
}

static int64_t span_ms(const struct history_hold *hold)
{
    return (hold->to.us - hold->from.us) / 1000;
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

static bool parse(struct log_line *line, const char *text)
{
    return log_line_parse(line, text, strlen(text));
}

static void a_line_is_taken_apart(void **state)
{
    (void)state;
    struct log_line line;
    assert_true(parse(&line, AT "1.250Z debug task_locked jid=a1 text=\"a \\\"b\\\" \\\\ c=d\" empty= last=9"));
    assert_int_equal(line.at.us, INT64_C(1795309201250000));
    assert_string_equal(line.level, "debug");
    assert_string_equal(line.event, "task_locked");
    assert_string_equal(log_line_value(&line, "jid"), "a1");
    assert_string_equal(log_line_value(&line, "text"), "a \"b\" \\ c=d");
    assert_string_equal(log_line_value(&line, "empty"), "");
    assert_string_equal(log_line_value(&line, "last"), "9");
    assert_string_equal(log_line_value(&line, "d"), "");
    assert_int_equal(line.pair_count, 4);
    assert_false(line.is_cut);
}

static void what_is_no_line_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        " ",
                                        "hello",
                                        "2026-11-22T01:00:01.250Z",
                                        "2026-11-22T01:00:01.250Z info",
                                        "2026-11-22 01:00:01 info event a=b",
                                        "2026-13-22T01:00:01.250Z info event a=b",
                                        "2026-11-22T01:00:01.250 info event a=b",
                                        "2026-11-22T01:00:01.2x0Z info event a=b",
                                        "2026-11-22T01:00:01.250Z info <b> a=b"};
    static const char with_nul[] = AT "1Z info event a=\0b";
    struct log_line line;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (parse(&line, texts[i]))
            fail_msg("taken for a line: %s", texts[i]);
    assert_false(log_line_parse(&line, with_nul, sizeof with_nul - 1));
    assert_true(parse(&line, AT "1Z info event"));
}

static void a_cut_line_loses_its_last_value_only(void **state)
{
    (void)state;
    struct log_line line;
    assert_true(parse(&line, AT "1.250Z info event a=1 resource=account:12 [cut]"));
    assert_true(line.is_cut);
    assert_string_equal(log_line_value(&line, "a"), "1");
    assert_string_equal(log_line_value(&line, "resource"), "");
    assert_true(parse(&line, AT "1.250Z info event a=1 text=\"account:12 [cut]"));
    assert_true(line.is_cut);
    assert_string_equal(log_line_value(&line, "a"), "1");
    assert_string_equal(log_line_value(&line, "text"), "");
    assert_true(parse(&line, AT "1.250Z info event a=1 text=\"half"));
    assert_true(line.is_cut);
    assert_string_equal(log_line_value(&line, "a"), "1");
}

static void numbers_are_read_to_the_thousandth(void **state)
{
    (void)state;
    struct log_line line;
    assert_true(parse(&line, AT "1Z info event a=3 b=3.25 c=0.0019 d=x e=1.5x f=1234567890123456 g=12. h=-1"));
    assert_int_equal(log_line_thousandths(&line, "a"), 3000);
    assert_int_equal(log_line_thousandths(&line, "b"), 3250);
    assert_int_equal(log_line_thousandths(&line, "c"), 1);
    assert_int_equal(log_line_thousandths(&line, "d"), -1);
    assert_int_equal(log_line_thousandths(&line, "e"), -1);
    assert_int_equal(log_line_thousandths(&line, "f"), -1);
    assert_int_equal(log_line_thousandths(&line, "g"), 12000);
    assert_int_equal(log_line_thousandths(&line, "h"), -1);
    assert_int_equal(log_line_thousandths(&line, "none"), -1);
}

/* Every cut of a good line, and every byte of it replaced: nothing may be read beyond it (the sanitizers watch). */
static void no_bytes_are_too_odd(void **state)
{
    (void)state;
    static const char good[] =
        AT "1.250Z debug task_locked jid=\"a\\\\ \\\"1\" resource=r fence=12 waited_ms=1.5 [cut]";
    static const char odd[] = "\"\\= \n\x80\xff{[";
    char text[sizeof good];
    for (size_t length = 0; length < sizeof good; length++)
        log_reader_line(reader, good, length);
    for (size_t i = 0; i + 1 < sizeof good; i++)
        for (size_t j = 0; j < sizeof odd; j++) {
            memcpy(text, good, sizeof good);
            text[i] = odd[j];
            log_reader_line(reader, text, sizeof good - 1);
        }
    finish();
    assert_int_equal(log_reader_counts(reader).lines, sizeof good + (sizeof good - 1) * sizeof odd);
}

/* --- pairs -------------------------------------------------------------------------------------------------------- */

static void locked_started_and_ended_are_one_hold(void **state)
{
    (void)state;
    say(AT "0.000Z info worker_started identity=north:17:abc threads=2");
    say(AT
        "1.000Z debug task_locked jid=a1 slot=0 resource=account:1 resources=2 fence=7 handed_over=yes waited_ms=2.5");
    say(AT "1.001Z debug task_started jid=a1 class=transfer slot=0 resource=account:1 resource=account:2");
    say(AT "1.020Z debug task_ended ending=done jid=a1 class=transfer queue=q slot=0 fence=7 held_ms=19 reason=\"\"");
    finish();
    assert_int_equal(hold_total(), 1);
    const struct history_hold *hold = hold_at(0);
    assert_string_equal(hold->process, "north:17");
    assert_string_equal(hold->class_name, "transfer");
    assert_string_equal(hold->jid, "a1");
    assert_string_equal(hold->fence, "7");
    assert_string_equal(hold->ending, "done");
    assert_int_equal(hold->resource_count, 2);
    assert_string_equal(hold->resources[1], "account:2");
    assert_int_equal(span_ms(hold), 20);
    assert_int_equal(hold->waited_us, 2500);
    assert_int_equal(hold->held_us, -1); /* whole milliseconds: the moments of the lines are as good */
    assert_true(hold->is_locked && hold->is_handed_over && !hold->is_lost && !hold->is_refused && !hold->is_open);
    assert_int_equal(log_reader_counts(reader).used, 4);
}

static void tasks_at_the_same_time_are_told_apart(void **state)
{
    (void)state;
    say(AT "1.000Z debug task_locked jid=a slot=0 resource=r1 resources=1 fence=-");
    say(AT "1.001Z debug task_locked jid=b slot=1 resource=r2 resources=1 fence=9");
    say(AT "1.010Z debug task_ended ending=done jid=b class=c slot=1");
    say(AT "1.030Z debug task_ended ending=done jid=a class=c slot=0");
    finish();
    assert_int_equal(hold_total(), 2);
    assert_string_equal(hold_at(0)->resources[0], "r1");
    assert_string_equal(hold_at(0)->fence, "");
    assert_int_equal(span_ms(hold_at(0)), 30);
    assert_int_equal(span_ms(hold_at(1)), 9);
    assert_int_equal(hold_at(0)->waited_us, -1);
}

static void a_run_without_a_lock_is_one_that_only_started(void **state)
{
    (void)state;
    say(AT "1.000Z debug task_started jid=a class=c slot=0 resource=r1");
    say(AT "1.010Z debug task_ended ending=done jid=a class=c slot=0");
    finish();
    assert_int_equal(hold_total(), 1);
    assert_false(hold_at(0)->is_locked);
    assert_string_equal(hold_at(0)->resources[0], "r1");
}

static void what_never_held_ends_without_a_hold(void **state)
{
    (void)state;
    say(AT "1.000Z debug task_ended ending=skipped jid=a class=c resource=r1 slot=0");
    finish();
    size_t count;
    const struct history_ending *endings = history_endings(history, &count);
    assert_int_equal(count, 1);
    assert_string_equal(endings[0].ending, "skipped");
    assert_string_equal(endings[0].resource, "r1");
    assert_int_equal(hold_total(), 0);
}

/* The jid may hold colons, the host may not. */
static void losses_and_refusals_belong_to_their_holds(void **state)
{
    (void)state;
    say(AT "1.000Z debug task_locked jid=a:b slot=0 resource=r1 resources=1 fence=7");
    say(AT "1.100Z debug task_locked jid=c slot=1 resource=r2 resources=1 fence=8");
    say(AT "2.000Z warn lock_lost key=r1 keys=1 owner=north:17:0:a:b nodes_up=5 reason=\"too late\"");
    say(AT "2.001Z warn write_refused jid=a:b resource=r1 fence=7 reason=\"token 9 was seen\"");
    say(AT "2.002Z warn task_ended ending=lock_lost jid=a:b class=c slot=0");
    say(AT "2.003Z debug task_ended ending=done jid=c class=c slot=1");
    finish();
    assert_true(hold_at(0)->is_lost && hold_at(0)->is_refused);
    assert_false(hold_at(1)->is_lost || hold_at(1)->is_refused);
    size_t count;
    const struct history_mark *marks = history_marks(history, &count);
    assert_int_equal(count, 2);
    assert_string_equal(marks[0].kind, "lost");
    assert_string_equal(marks[0].resource, "r1");
    assert_string_equal(marks[0].jid, "a:b");
    assert_string_equal(marks[1].kind, "refused");
    assert_string_equal(marks[1].text, "token 9 was seen");
}

/* --- what has no end ---------------------------------------------------------------------------------------------- */

static void an_open_hold_ends_with_the_last_word_of_its_process(void **state)
{
    (void)state;
    say(AT "1.000Z debug task_locked jid=a slot=0 resource=r1 resources=1 fence=7");
    say(AT "3.500Z info node_up node=lock1");
    log_reader_begin(reader, "south.log");
    say(AT "9.000Z info node_up node=lock1");
    finish();
    assert_true(hold_at(0)->is_open);
    assert_string_equal(hold_at(0)->process, "north.log");
    assert_int_equal(span_ms(hold_at(0)), 2500);
}

static void an_open_hold_ends_when_its_process_is_killed(void **state)
{
    (void)state;
    say(AT "0.000Z info worker_started identity=north:17:abc threads=2");
    say(AT "1.000Z debug task_locked jid=a slot=0 resource=r1 resources=1 fence=7");
    say(AT "4.000Z info worker_started identity=north:18:abd threads=2");
    say(AT "5.000Z debug task_locked jid=b slot=0 resource=r1 resources=1 fence=9");
    log_reader_begin(reader, "script.log");
    say(AT "0.500Z info demo_mark kind=killed host=north");
    say(AT "2.250Z info demo_mark kind=killed host=northern");
    say(AT "2.500Z info demo_mark kind=killed host=north");
    say(AT "6.000Z info demo_mark kind=killed host=north");
    finish();
    assert_int_equal(hold_total(), 2);
    assert_int_equal(span_ms(hold_at(0)), 1500);
    assert_string_equal(hold_at(1)->process, "north:18");
    assert_int_equal(span_ms(hold_at(1)), 1000);
}

/* A task that comes back while the log still has it open: both are kept. */
static void a_task_locked_twice_is_two_holds(void **state)
{
    (void)state;
    say(AT "1.000Z debug task_locked jid=a slot=0 resource=r1 resources=1 fence=7");
    say(AT "2.000Z debug task_locked jid=a slot=1 resource=r1 resources=1 fence=8");
    say(AT "3.000Z debug task_ended ending=done jid=a class=c slot=1");
    finish();
    assert_int_equal(hold_total(), 2);
    assert_true(hold_at(0)->is_open);
    assert_string_equal(hold_at(1)->fence, "8");
    assert_false(hold_at(1)->is_open);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static void a_file_is_read_whatever_is_in_it(void **state)
{
    (void)state;
    static const char zero[] = AT "1.000Z info node_up node=\0x\n";
    struct error error = ERROR_NONE;
    FILE *file = tmpfile();
    assert_non_null(file);
    fputs(AT "1.000Z debug task_locked jid=a slot=0 resource=r1 resources=1 fence=7\n\n", file);
    fwrite(zero, 1, sizeof zero - 1, file);
    for (int i = 0; i < 300000; i++)
        fputc('x', file);
    fputs("\nTraceback: something else wrote here\n" AT "1.500Z warn log_dropped lines=12 total=12\n", file);
    fputs(AT "2.000Z debug task_ended ending=done jid=a class=c slot=0", file); /* no line end */
    rewind(file);
    if (!log_reader_file(reader, "north.log", file, &error))
        fail_msg("%s", error.text);
    fclose(file);
    finish();
    struct log_counts counts = log_reader_counts(reader);
    assert_int_equal(counts.lines, 7);
    assert_int_equal(counts.used, 3);
    assert_int_equal(counts.broken, 4);
    assert_int_equal(counts.dropped, 12);
    assert_int_equal(span_ms(hold_at(0)), 1000);
}

static void what_scripts_say_makes_parts_marks_and_facts(void **state)
{
    (void)state;
    say(AT "0.000Z info demo_part title=\"with the lock\"");
    say(AT "1.000Z info demo_mark kind=wiped node=lock2 text=\"FLUSHALL\"");
    say(AT "2.000Z info demo_fact name=ledger value=\"exact\" tone=good");
    say(AT "3.000Z info demo_mark host=north");
    finish();
    size_t parts, facts, marks;
    assert_string_equal(history_parts(history, &parts)[0].title, "with the lock");
    assert_int_equal(parts, 1);
    assert_string_equal(history_marks(history, &marks)[0].node, "lock2");
    assert_int_equal(history_facts(history, &facts)[0].tone, HISTORY_GOOD);
    assert_int_equal(log_reader_counts(reader).broken, 1);
}

#define reader_test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        reader_test(a_line_is_taken_apart),
        reader_test(what_is_no_line_is_refused),
        reader_test(a_cut_line_loses_its_last_value_only),
        reader_test(numbers_are_read_to_the_thousandth),
        reader_test(no_bytes_are_too_odd),
        reader_test(locked_started_and_ended_are_one_hold),
        reader_test(tasks_at_the_same_time_are_told_apart),
        reader_test(a_run_without_a_lock_is_one_that_only_started),
        reader_test(what_never_held_ends_without_a_hold),
        reader_test(losses_and_refusals_belong_to_their_holds),
        reader_test(an_open_hold_ends_with_the_last_word_of_its_process),
        reader_test(an_open_hold_ends_when_its_process_is_killed),
        reader_test(a_task_locked_twice_is_two_holds),
        reader_test(a_file_is_read_whatever_is_in_it),
        reader_test(what_scripts_say_makes_parts_marks_and_facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
