/* holdfast report on the logs of real workers: what they wrote about their locks is what the report says, as sums and
 * as a page; and on what is no log. */
#include "tests/support/test.h"

#include <stdio.h>

#include "tests/support/one_fleet.h"
#include "tests/support/page_check.h"
#include "tests/support/program_run.h"

enum { TASKS = 60, ALONE = 20, RESOURCES = 4 };

static void logs_of(char paths[400], unsigned workers)
{
    size_t used = 0;
    for (unsigned i = 0; i < workers; i++)
        used += (size_t)snprintf(paths + used, 400 - used, "%s%.63s/%.15s.log", i > 0 ? " " : "", fleet.directory,
                                 fleet.workers[i].name);
}

static struct program_result report(const char *format, ...) __attribute__((format(printf, 1, 2)));
static struct program_result report(const char *format, ...)
{
    char line[900] = "report ";
    va_list values;
    va_start(values, format);
    vsnprintf(line + strlen(line), sizeof line - strlen(line), format, values);
    va_end(values);
    return program_run(line);
}

/* The number of that name behind `where` in a text of JSON. */
static double number_behind(const char *text, const char *where, const char *name)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"%s\":", name);
    const char *from = strstr(text, where), *found = from != NULL ? strstr(from, wanted) : NULL;
    if (found == NULL)
        fail_msg("no %s behind %s in: %s", name, where, text);
    return strtod(found + strlen(wanted), NULL);
}

static unsigned total(const char *text, const char *name)
{
    return (unsigned)number_behind(text, "\"total\":{", name);
}

static unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        count++;
    return count;
}

static char *file_text(const char *path)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    char *text = calloc(1, 4000000);
    assert_true(fread(text, 1, 4000000 - 1, file) > 0);
    fclose(file);
    return text;
}

/* `count` workers do all there is and end. */
static void fleet_drain(unsigned count, const struct fleet_setup *setup)
{
    unsigned workers[4];
    for (unsigned i = 0; i < count; i++)
        workers[i] = fleet_work(&fleet, setup);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(fleet_wait(&fleet, workers[i]), 0);
}

TEST(locked_work_is_reported_as_it_was)
{
    char paths[400];
    static const struct fleet_setup setup = {.worker = "log_tasks = \"all\";", .arguments = "--drain"};
    static const struct fleet_setup as_json = {.worker = "log_tasks = \"all\"; log_format = \"json\";",
                                               .arguments = "--drain"};
    for (unsigned i = 0; i < ALONE; i++)
        fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[5],\"jid\":\"a%u\",\"resource\":\"r%u\"}", i,
                   i % RESOURCES + 1);
    fleet_drain(1, &as_json); /* whoever else is there may be idle */
    fleet_push_many(&fleet, "guarded", TASKS - ALONE, 5, RESOURCES);
    fleet_drain(2, &setup);
    logs_of(paths, 3);
    struct program_result result = report("%s --json --title night --html %s/page.html", paths, fleet.directory);
    assert_int_equal(result.exit_code, 0);
    assert_string_equal(result.error, "");
    assert_int_equal(total(result.out, "holds"), TASKS);
    assert_int_equal(total(result.out, "without_lock"), 0);
    assert_int_equal(total(result.out, "overlaps"), 0);
    assert_true(number_behind(result.out, "\"total\":{", "held") >= TASKS * 0.004);
    assert_int_equal(count_of(result.out, "{\"class\":\"guarded\",\"resource\":\"r"), RESOURCES);
    assert_int_equal(number_behind(result.out, "{\"class\":\"guarded\",\"resource\":\"r2\"", "holds"),
                     TASKS / RESOURCES);
    assert_int_equal(number_behind(result.out, "\"lines\":{", "broken"), 0);
    program_result_free(&result);

    char path[300];
    snprintf(path, sizeof path, "%s/page.html", fleet.directory);
    char *page = file_text(path), *data = page_data(page);
    assert_contains(page, "<h1>night</h1>");
    assert_contains(data, "{\"name\":\"host0:");
    assert_contains(data, "{\"resource\":\"r4\",");
    free(page);
    free(data);
    unlink(path);
}

/* The same tasks without a lock: they overlap, and the report says so. */
TEST(unlocked_work_is_seen_to_overlap)
{
    char paths[400];
    fleet_push_many(&fleet, "note", 40, 20, 1);
    fleet_drain(1, &(struct fleet_setup){.classes = "{ class = \"note\"; lock = \"none\"; }", .arguments = "--drain"});
    logs_of(paths, 1);
    struct program_result result = report("%s", paths);
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.out, "OVERLAPS");
    assert_contains(result.out,
                    "overlaps: runs that began while another one was at the same resource. They had no lock");
    assert_contains(result.out, "40 of them ran without a lock");
    program_result_free(&result);
    result = report("%s --json", paths);
    assert_int_equal(total(result.out, "holds"), 40);
    assert_int_equal(total(result.out, "without_lock"), 40);
    assert_true(total(result.out, "overlaps") >= 20);
    program_result_free(&result);
}

TEST(a_log_that_says_too_little_is_told)
{
    char paths[400];
    fleet_push_many(&fleet, "guarded", 4, 1, 1);
    fleet_drain(1, &(struct fleet_setup){.worker = "log_level = \"warn\";", .arguments = "--drain"});
    logs_of(paths, 1);
    struct program_result result = report("%s", paths);
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.error, "worker.log_level");
    program_result_free(&result);
}

/* Of a thousand quick tasks most are added up; the report says so, and when that was. */
TEST(seconds_that_were_summed_up_are_told)
{
    char paths[400];
    fleet_push_many(&fleet, "note", 1000, 0, 0);
    fleet_drain(1, &(struct fleet_setup){.threads = 8, .arguments = "--drain"});
    logs_of(paths, 1);
    struct program_result result = report("%s --json", paths);
    assert_int_equal(result.exit_code, 0);
    unsigned summed = 0;
    for (const char *at = strstr(result.out, "\"summed\":["); (at = strstr(at, "\"tasks\":")) != NULL; at++)
        summed += (unsigned)number_behind(at, "", "tasks");
    assert_int_equal(total(result.out, "holds") + summed, 1000);
    assert_true(total(result.out, "holds") >= 100);
    if (summed > 0) { /* else the machine took ten seconds and more */
        assert_contains(result.error, " more tasks went well from 2");
        assert_contains(result.error, "worker.log_tasks = \"all\" tells of each");
    }
    program_result_free(&result);
}

TEST(what_is_no_log_is_refused)
{
    struct program_result result = report("README.md");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "no sound lines of a log");
    program_result_free(&result);
    result = report("no/such/file");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "no/such/file cannot be opened");
    program_result_free(&result);
    result = program_run("report");
    assert_int_equal(result.exit_code, 2);
    program_result_free(&result);
    result = report("/dev/null --html /no/such/directory/page.html");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "/no/such/directory/page.html cannot be written");
    program_result_free(&result);
}

RUN_FLEET_TESTS
