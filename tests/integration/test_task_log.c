/* The line that real workers write when a task has ended: what is in it, in both formats, and what becomes of it when
 * there are many. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "queue/json.h"
#include "tests/support/one_fleet.h"

static char *log_text; /* of the last worker */

static void log_read(unsigned worker)
{
    free(log_text);
    log_text = fleet_log(&fleet, worker);
}

/* The text behind `mark` in the only line that has it, up to its end. */
static const char *line_with(const char *mark, char line[2048])
{
    const char *found = strstr(log_text, mark);
    if (found == NULL || strstr(found + 1, mark) != NULL)
        fail_msg("%s %s in: %s", mark, found == NULL ? "is not" : "is more than once", log_text);
    snprintf(line, 2048, "%.*s", (int)strcspn(found, "\n"), found);
    return line;
}

static unsigned count_of(const char *part)
{
    unsigned count = 0;
    for (const char *at = log_text; (at = strstr(at, part)) != NULL; at += strlen(part))
        count++;
    return count;
}

/* The sum of the numbers behind this mark. */
static unsigned sum_of(const char *mark)
{
    unsigned sum = 0;
    for (const char *at = log_text; (at = strstr(at, mark)) != NULL;)
        sum += (unsigned)strtoul(at += strlen(mark), NULL, 10);
    return sum;
}

static double number_of(const char *line, const char *key)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, " %s=", key);
    const char *found = strstr(line, wanted);
    if (found == NULL)
        fail_msg("no %s in %s", key, line);
    return strtod(found + strlen(wanted), NULL);
}

static unsigned drain(const struct fleet_setup *setup)
{
    struct fleet_setup all = *setup;
    all.arguments = "--drain";
    unsigned worker = fleet_work(&fleet, &all);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    log_read(worker);
    return worker;
}

/* --- what is in it ------------------------------------------------------------------------------------------------ */

TEST(a_task_without_a_lock_says_how_long_it_waited_and_ran)
{
    char line[2048];
    double enqueued = (double)(wall_now().us - 5 * US_PER_S) / US_PER_S;
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[20],\"jid\":\"a\",\"created_at\":1,\"enqueued_at\":%.3f}",
               enqueued);
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"out of ink\"],\"jid\":\"17\"}");
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[0],\"jid\":\"late\",\"expires_at\":1}");
    (void)drain(&(struct fleet_setup){.threads = 1});
    line_with("info task_ended ending=done jid=a class=note queue=jobs slot=", line);
    assert_true(number_of(line, "waited_ms") >= 5000 && number_of(line, "waited_ms") < 1e6);
    assert_true(number_of(line, "ran_ms") >= 20 && number_of(line, "ran_ms") < 1e5);
    assert_null(strstr(line, "fence="));
    assert_null(strstr(line, "reason="));
    line_with("warn task_ended ending=failed jid=\"17\" class=fail queue=jobs slot=", line);
    assert_contains(line, " ran_ms=");
    assert_contains(line, " fate=\"");
    assert_contains(line, " reason=\"out of ink, attempt 0\"");
    line_with("info task_ended ending=expired jid=late class=note", line);
    assert_null(strstr(line, "ran_ms"));
}

/* The second and the third wait for the first, which hands its lock on. */
TEST(a_task_with_a_lock_says_what_became_of_it)
{
    char line[2048];
    for (unsigned i = 1; i <= 3; i++)
        fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[150],\"jid\":\"t%u\",\"resource\":[\"r\",\"s\"]}", i);
    (void)drain(&(struct fleet_setup){.threads = 2});
    line_with("info task_ended ending=done jid=t1 class=guarded queue=jobs slot=", line);
    assert_true(number_of(line, "fence") > 0);
    assert_true(number_of(line, "held_ms") >= 150);
    assert_contains(line, " locked=2");
    assert_contains(line, " released=2");
    assert_contains(line, " resource=r resource=s");
    assert_null(strstr(line, "handed_from"));
    line_with("info task_ended ending=done jid=t2 class=guarded queue=jobs slot=", line);
    assert_contains(line, " handed_from=t1");
    assert_true(number_of(line, "lock_waited_ms") >= 100);
    line_with("info task_ended ending=done jid=t3 class=guarded queue=jobs slot=", line);
    assert_contains(line, " handed_from=t2");
    assert_null(strstr(log_text, "debug"));
}

TEST(every_line_may_be_json)
{
    static const char *const odd = "\"jid\":\"17\",\"resource\":[\"a \\\\ \\\"b\\\"\",\"\\u00e4\\u0007\\u202e\"]";
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[1],%s}", odd);
    (void)drain(&(struct fleet_setup){.worker = "log_format = \"json\";"});
    char *rest = log_text, *line, ended[2048] = "";
    struct error error = ERROR_NONE;
    while ((line = strsep(&rest, "\n")) != NULL && line[0] != '\0') {
        if (!json_check(line, strlen(line), &ENVELOPE_LIMITS_DEFAULT, &error))
            fail_msg("%s: %s", error.text, line);
        if (strstr(line, "\"task_ended\"") != NULL)
            snprintf(ended, sizeof ended, "%s", line);
    }
    assert_contains(
        ended, "\"level\":\"info\",\"msg\":\"task_ended\",\"ending\":\"done\",\"jid\":\"17\",\"class\":\"guarded\"");
    assert_contains(ended, "\"resource\":[\"a \\\\ \\\"b\\\"\",\"\xC3\xA4\\u0007\\u202E\"]}");
    assert_contains(ended, ",\"slot\":");
    assert_null(strstr(ended, "\"fence\":\""));
}

/* --- many of them ------------------------------------------------------------------------------------------------- */

enum { MANY = 3000, BAD = 30 };

static void many_push(void)
{
    fleet_push_many(&fleet, "note", MANY, 0, 0);
    for (unsigned i = 0; i < BAD; i++)
        fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[],\"jid\":\"f%u\",\"retry\":false}", i);
}

/* However long the machine takes: at most 100 lines in each second that was summed up, and each task told once. */
TEST(successes_beyond_a_hundred_a_second_are_added_up)
{
    many_push();
    (void)drain(&(struct fleet_setup){.threads = 8});
    unsigned lines = count_of(" task_ended ending=done "), summed = sum_of(" tasks_summed done=");
    assert_int_equal(lines + summed, MANY);
    assert_true(lines >= 100);
    assert_int_equal(count_of(" task_ended ending=discarded "), BAD);
    assert_int_equal(count_of(" since=2"), count_of(" tasks_summed "));
}

TEST(all_is_every_task_and_failures_is_none_that_went_well)
{
    many_push();
    (void)drain(&(struct fleet_setup){.threads = 8, .worker = "log_tasks = \"all\";"});
    assert_int_equal(count_of(" task_ended ending=done "), MANY);
    assert_int_equal(count_of(" task_ended ending=discarded "), BAD);
    assert_int_equal(count_of(" tasks_summed "), 0);
    many_push();
    (void)drain(&(struct fleet_setup){.threads = 8, .worker = "log_tasks = \"failures\";"});
    assert_int_equal(count_of(" task_ended ending=done "), 0);
    assert_int_equal(count_of(" task_ended ending=discarded "), BAD);
    assert_int_equal(count_of(" tasks_summed "), 0);
}

RUN_FLEET_TESTS
