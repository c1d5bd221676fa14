/* Reading the logs of workers: taking lines apart, pairing what belongs together, standing whatever a file holds. */
#include "tests/support/test.h"

#include "base/log.h"
#include "base/random.h"
#include "worker/history/log_reader.h"

#define AT "2026-11-22T01:00:0"

static struct history *history;
static struct log_reader *reader;

static void set_up(void)
{
    history = history_create();
    reader = log_reader_create(history);
    log_reader_begin(reader, "north.log");
}

static void tear_down(void)
{
    log_reader_destroy(reader);
    history_destroy(history);
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

TEST(a_line_is_taken_apart)
{
    struct log_line line;
    assert_true(parse(&line, AT "1.250Z debug task_started jid=a1 text=\"a \\\"b\\\" \\\\ c=d\" empty= last=9"));
    assert_int_equal(line.at.us, INT64_C(1795309201250000));
    assert_string_equal(line.level, "debug");
    assert_string_equal(line.event, "task_started");
    assert_string_equal(log_line_value(&line, "jid"), "a1");
    assert_string_equal(log_line_value(&line, "text"), "a \"b\" \\ c=d");
    assert_string_equal(log_line_value(&line, "empty"), "");
    assert_string_equal(log_line_value(&line, "last"), "9");
    assert_string_equal(log_line_value(&line, "d"), "");
    assert_int_equal(line.pair_count, 4);
    assert_false(line.is_cut);
}

TEST(what_is_no_line_is_refused)
{
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

TEST(a_cut_line_loses_its_last_value_only)
{
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

#define JSON_AT "{\"time\":\"2026-11-22T01:00:01.250Z\",\"level\":\"info\",\"msg\":\"event\""

TEST(a_line_of_json_says_the_same)
{
    struct log_line line;
    assert_true(parse(&line, JSON_AT
                      ",\"jid\":\"a\\\"1\\\\\",\"n\":-2.5,\"resource\":[\"r,1\",\"r]2\"],\"none\":null,\"x\":\"\"}"));
    assert_int_equal(line.at.us, INT64_C(1795309201250000));
    assert_string_equal(line.level, "info");
    assert_string_equal(line.event, "event");
    assert_string_equal(log_line_value(&line, "jid"), "a\"1\\");
    assert_string_equal(log_line_value(&line, "n"), "-2.5");
    assert_string_equal(log_line_value(&line, "resource"), "r,1");
    assert_string_equal(line.pairs[6].key, "resource");
    assert_string_equal(line.pairs[6].value, "r]2");
    assert_string_equal(log_line_value(&line, "none"), "-");
    assert_string_equal(log_line_value(&line, "x"), "");
    assert_false(line.is_cut);
    assert_true(
        parse(&line, "{\"msg\": \"event\", \"a\": 1, \"time\": \"2026-11-22T01:00:01Z\", \"level\": \"warn\"}"));
    assert_string_equal(log_line_value(&line, "a"), "1");
    assert_true(parse(&line, JSON_AT ",\"a\":1,\"resource\":\"account:12\",\"text\":\"[cut]\"}"));
    assert_true(line.is_cut);
    assert_string_equal(log_line_value(&line, "a"), "1");
    assert_string_equal(log_line_value(&line, "resource"), "");
    assert_true(parse(&line, JSON_AT ",\"a\":1,\"text\":\"half [cut]\"}"));
    assert_true(line.is_cut);
    assert_string_equal(log_line_value(&line, "text"), "");
    assert_true(parse(&line, JSON_AT ",\"resource\":[\"a\",\"b\",\"half [cut]\"]}"));
    assert_true(line.is_cut);
    assert_string_equal(line.pairs[line.pair_count - 1].value, "b");
    assert_true(parse(&line, JSON_AT ",\"a\":1,\"b\":\"torn"));
    assert_true(line.is_cut);
    assert_string_equal(log_line_value(&line, "a"), "1");
    static const char *const bad[] = {"{",
                                      "{}",
                                      "{\"time\":\"2026-11-22T01:00:01Z\"}",
                                      "{\"time\":7,\"msg\":\"event\"}",
                                      "{\"time\":\"2026-11-22T01:00:01Z\",\"msg\":\"<b>\"}",
                                      "{{{{[[[[,,,,"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (parse(&line, bad[i]))
            fail_msg("taken for a line: %s", bad[i]);
}

/* What the log writes is what is read, whatever the value. */
TEST(a_value_is_read_the_same_from_text_and_from_json)
{
    static const char bytes[] = "a1. =\"\"\\\\{}[],:\xC3\xAF";
    struct log_line as_text, as_json;
    for (int round = 0; round < 20000; round++) {
        char value[32] = "", quoted[LOG_QUOTE_MAX], text[LOG_LINE_MAX], json[LOG_JSON_MAX];
        size_t length = (size_t)random_between(0, 20);
        for (size_t i = 0; i < length; i++) {
            size_t at = (size_t)random_between(0, sizeof bytes - 3);
            strncat(value, bytes + at, at == sizeof bytes - 3 ? 2 : 1);
        }
        log_value(value, quoted);
        int size = snprintf(text, sizeof text, AT "1.250Z info event first=%s second=%s last=5", quoted, quoted);
        assert_true(log_line_parse(&as_text, text, (size_t)size));
        assert_true(log_line_parse(&as_json, json, log_json(text, (size_t)size, json)));
        assert_string_equal(log_line_value(&as_text, "second"), value);
        assert_string_equal(log_line_value(&as_json, "second"), value);
        assert_string_equal(log_line_value(&as_json, "last"), "5");
        assert_int_equal(as_json.at.us, as_text.at.us);
    }
}

TEST(numbers_are_read_to_the_thousandth)
{
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

static unsigned odd_lines(const char *good, size_t length)
{
    static const char odd[] = "\"\\= \n\x80\xff{[]},:";
    char text[256];
    unsigned lines = 0;
    for (size_t i = 0; i <= length; i++, lines++)
        log_reader_line(reader, good, i);
    for (size_t i = 0; i < length; i++)
        for (size_t j = 0; j < sizeof odd; j++, lines++) {
            memcpy(text, good, length);
            text[i] = odd[j];
            log_reader_line(reader, text, length);
        }
    return lines;
}

/* Every cut of a good line, and every byte of it replaced: nothing may be read beyond it (the sanitizers watch). */
TEST(no_bytes_are_too_odd)
{
    static const char good[] =
        AT "1.250Z debug task_started jid=\"a\\\\ \\\"1\" resource=r fence=12 waited_ms=1.5 [cut]";
    static const char good_json[] = "{\"time\":\"2026-11-22T01:00:01.250Z\",\"level\":\"info\",\"msg\":\"task_ended\","
                                    "\"jid\":\"a\\\"\",\"resource\":[\"r\",7],"
                                    "\"none\":null}";
    unsigned lines = odd_lines(good, sizeof good - 1) + odd_lines(good_json, sizeof good_json - 1);
    finish();
    assert_int_equal(log_reader_counts(reader).lines, lines);
}

/* --- pairs -------------------------------------------------------------------------------------------------------- */

#define ENDED                                                                                                          \
    "info task_ended ending=done jid=a1 class=transfer queue=q slot=0 waited_ms=40.5 ran_ms=15.000 fence=7 "           \
    "locked=" AT "1.000Z lock_waited_ms=2.500 handed_from=a0 released=" AT "1.019Z held_ms=19.250 "                    \
    "resource=account:1 resource=account:2"

static void hold_check(void)
{
    assert_int_equal(hold_total(), 1);
    const struct history_hold *hold = hold_at(0);
    assert_string_equal(hold->process, "north:17");
    assert_string_equal(hold->class_name, "transfer");
    assert_string_equal(hold->jid, "a1");
    assert_string_equal(hold->fence, "7");
    assert_string_equal(hold->ending, "done");
    assert_int_equal(hold->resource_count, 2);
    assert_string_equal(hold->resources[1], "account:2");
    assert_int_equal(span_ms(hold), 19);
    assert_int_equal(hold->waited_us, 2500);
    assert_int_equal(hold->held_us, 19250);
    assert_true(hold->is_locked && hold->is_handed_over && !hold->is_lost && !hold->is_refused && !hold->is_open);
}

TEST(the_line_of_its_end_is_a_hold)
{
    say(AT "0.000Z info worker_started identity=north:17:abc threads=2");
    say(AT "1.020Z " ENDED);
    finish();
    hold_check();
    assert_int_equal(log_reader_counts(reader).used, 2);
}

TEST(with_the_line_of_its_start_it_is_the_same_hold)
{
    say(AT "0.000Z info worker_started identity=north:17:abc threads=2");
    say(AT "1.001Z debug task_started jid=a1 class=transfer queue=q slot=0 fence=7 locked=" AT
           "1.000Z lock_waited_ms=2.500 handed_from=a0 resource=account:1 resource=account:2");
    say(AT "1.020Z " ENDED);
    finish();
    hold_check();
    assert_int_equal(log_reader_counts(reader).used, 3);
}

TEST(the_same_as_json_is_the_same_hold)
{
    char line[LOG_JSON_MAX];
    say(AT "0.000Z info worker_started identity=north:17:abc threads=2");
    log_reader_line(reader, line, log_json(AT "1.020Z " ENDED, strlen(AT "1.020Z " ENDED), line));
    finish();
    hold_check();
}

TEST(a_run_without_a_lock_is_as_long_as_it_ran)
{
    say(AT
        "1.250Z info task_ended ending=failed jid=a class=c queue=q slot=0 waited_ms=3.000 ran_ms=200.000 resource=r1");
    say(AT "1.500Z info task_ended ending=given_back jid=b class=c queue=q slot=0 waited_ms=3.000 resource=r1");
    finish();
    assert_int_equal(hold_total(), 1);
    assert_false(hold_at(0)->is_locked);
    assert_string_equal(hold_at(0)->resources[0], "r1");
    assert_int_equal(span_ms(hold_at(0)), 200);
}

/* Its loss and its refusal are told before its end, and again there. */
TEST(a_lost_hold_is_one_without_its_start)
{
    say(AT "2.000Z warn lock_lost key=r1 keys=1 owner=north:17:0:a nodes_up=5 reason=\"too late\"");
    say(AT "2.001Z warn write_refused jid=a resource=r1 fence=7 reason=\"token 9 was seen\"");
    say(AT "2.002Z warn task_ended ending=dead jid=a class=c queue=q slot=0 ran_ms=9 fence=7 locked=" AT
           "1.500Z lock_waited_ms=0 released=" AT "2.002Z held_ms=502 lost=yes refused=yes resource=r1");
    finish();
    assert_int_equal(hold_total(), 1);
    assert_true(hold_at(0)->is_lost && hold_at(0)->is_refused);
}

/* --- sums --------------------------------------------------------------------------------------------------------- */

#define SUMMED(from, to, done)                                                                                         \
    AT "9Z info tasks_summed done=" done " skipped=2 snoozed=0 ran_ms=8 since=" AT from "Z until=" AT to               \
       "Z advice=\"x\""

TEST(seconds_that_were_summed_up_are_kept)
{
    say(SUMMED("1.000", "2.000", "300"));
    say(SUMMED("2.400", "3.400", "5"));
    log_reader_begin(reader, "south.log");
    say(SUMMED("0.500", "1.500", "1"));
    say(SUMMED("4.400", "5.400", "7"));
    say(AT "9Z info tasks_summed done=3 since=never");
    finish();
    size_t count;
    const struct history_gap *gaps = history_gaps(history, &count);
    assert_int_equal(count, 2);
    assert_int_equal(gaps[0].tasks, 306 + 3 * 2);
    assert_int_equal((gaps[0].to.us - gaps[0].from.us) / 1000, 2900);
    assert_int_equal(gaps[1].tasks, 9);
    assert_int_equal(log_reader_counts(reader).broken, 1);
}

TEST(tasks_at_the_same_time_are_told_apart)
{
    say(AT "1.000Z debug task_started jid=a slot=0 resource=r1 fence=-");
    say(AT "1.001Z debug task_started jid=b slot=1 resource=r2 fence=9");
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

TEST(a_run_without_a_lock_may_tell_of_its_start)
{
    say(AT "1.000Z debug task_started jid=a class=c slot=0 resource=r1");
    say(AT "1.010Z debug task_ended ending=done jid=a class=c slot=0");
    finish();
    assert_int_equal(hold_total(), 1);
    assert_false(hold_at(0)->is_locked);
    assert_string_equal(hold_at(0)->resources[0], "r1");
}

TEST(what_never_held_ends_without_a_hold)
{
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
TEST(losses_and_refusals_belong_to_their_holds)
{
    say(AT "1.000Z debug task_started jid=a:b slot=0 resource=r1 fence=7");
    say(AT "1.100Z debug task_started jid=c slot=1 resource=r2 fence=8");
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

TEST(an_open_hold_ends_with_the_last_word_of_its_process)
{
    say(AT "1.000Z debug task_started jid=a slot=0 resource=r1 fence=7");
    say(AT "3.500Z info node_up node=lock1");
    log_reader_begin(reader, "south.log");
    say(AT "9.000Z info node_up node=lock1");
    finish();
    assert_true(hold_at(0)->is_open);
    assert_string_equal(hold_at(0)->process, "north.log");
    assert_int_equal(span_ms(hold_at(0)), 2500);
}

TEST(an_open_hold_ends_when_its_process_is_killed)
{
    say(AT "0.000Z info worker_started identity=north:17:abc threads=2");
    say(AT "1.000Z debug task_started jid=a slot=0 resource=r1 fence=7");
    say(AT "4.000Z info worker_started identity=north:18:abd threads=2");
    say(AT "5.000Z debug task_started jid=b slot=0 resource=r1 fence=9");
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
TEST(a_task_started_twice_is_two_holds)
{
    say(AT "1.000Z debug task_started jid=a slot=0 resource=r1 fence=7");
    say(AT "2.000Z debug task_started jid=a slot=1 resource=r1 fence=8");
    say(AT "3.000Z debug task_ended ending=done jid=a class=c slot=1");
    finish();
    assert_int_equal(hold_total(), 2);
    assert_true(hold_at(0)->is_open);
    assert_string_equal(hold_at(1)->fence, "8");
    assert_false(hold_at(1)->is_open);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

TEST(a_file_is_read_whatever_is_in_it)
{
    static const char zero[] = AT "1.000Z info node_up node=\0x\n";
    struct error error = ERROR_NONE;
    FILE *file = tmpfile();
    assert_non_null(file);
    fputs(AT "1.000Z debug task_started jid=a slot=0 resource=r1 fence=7\n\n", file);
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

TEST(what_scripts_say_makes_parts_marks_and_facts)
{
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

RUN_TESTS_BETWEEN(set_up, tear_down)
