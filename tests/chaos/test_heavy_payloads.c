/* Large tasks, and texts that are none: the worker's memory stays bounded, its log has one line an event whatever tasks
 * say, and what cannot be run can be had back. */
#include "tests/support/test.h"

#include <ctype.h>
#include <stdio.h>

#include "tests/support/one_fleet.h"

/* --- large -------------------------------------------------------------------------------------------------------- */

static long peak_mib(pid_t pid)
{
    char path[64], line[256];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (kib < 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmHWM: %ld", &kib) != 1)
            kib = -1;
    fclose(file);
    return kib / 1024;
}

enum { LARGE_TASKS = 200, LARGE_THREADS = 8 };

#define PUSH_LARGE                                                                                                     \
    "local fill = string.rep('x', 1000000) "                                                                           \
    "for i = 1, tonumber(ARGV[1]) do redis.call('LPUSH', KEYS[1], '{\\\"class\\\":\\\"' .. ARGV[2] .. "                \
    "'\\\",\\\"args\\\":[1,\\\"' .. fill .. '\\\"],\\\"jid\\\":\\\"t' .. i .. '\\\",\\\"retry\\\":3}') end"

TEST(tasks_of_a_megabyte_cost_memory_by_threads_only)
{
    free(fleet_ask(&fleet, "EVAL \"%s\" 1 queue:jobs %u picky", PUSH_LARGE, LARGE_TASKS / 2));
    unsigned worker =
        fleet_work(&fleet, &(struct fleet_setup){.threads = LARGE_THREADS, .worker = "log_tasks = \"all\";"});
    test_await(fleet_number(&fleet, "ZCARD dead") == LARGE_TASKS / 2); /* refused by its handler: written whole */
    free(fleet_ask(&fleet, "DEL dead"));
    free(fleet_ask(&fleet, "EVAL \"%s\" 1 queue:jobs %u unknown", PUSH_LARGE, LARGE_TASKS / 2));
    for (unsigned i = 1; i <= LARGE_TASKS / 2; i++) { /* the first may be in the queue again when the last is tried */
        char ending[64];
        snprintf(ending, sizeof ending, "ending=unknown_class jid=t%u ", i);
        test_await(fleet_logged(&fleet, worker, ending));
    }
    long mib = peak_mib(fleet.workers[worker].pid);
    print_message("peak of the resident memory: %ld MiB for %d threads\n", mib, (int)LARGE_THREADS);
    if (getenv("HOLDFAST_SANITIZED") == NULL)
        assert_in_range(mib, 1, 128);
    one_fleet_stop(worker);
    assert_int_equal(fleet_left(&fleet), LARGE_TASKS / 2);
}

/* --- hostile ------------------------------------------------------------------------------------------------------ */

/* "2026-11-21T18:56:41.428Z level event ...", and nothing that a terminal would act upon. */
static void assert_line(const char *line)
{
    unsigned year = 0, month = 0, day = 0, word = 0;
    char level[8] = "", event[40] = "";
    for (const char *at = line; *at != '\0'; at++)
        if (iscntrl((unsigned char)*at) || (unsigned char)*at >= 0x80)
            fail_msg("a byte %u in the log: %s", (unsigned char)*at, line);
    if (sscanf(line, "%4u-%2u-%2uT%2u:%*u:%*fZ %7[a-z] %39[a-z_]", &year, &month, &day, &word, level, event) != 6)
        fail_msg("no line of ours: %s", line);
    if (strncmp(event, "forged", 6) == 0)
        fail_msg("a task wrote this line: %s", line);
}

static void assert_log(unsigned worker)
{
    char *log = fleet_log(&fleet, worker), *rest = log, *line;
    while ((line = strsep(&rest, "\n")) != NULL)
        if (line[0] != '\0')
            assert_line(line);
    free(log);
}

/* Each is what a dashboard can read; those that are text are found whole among the arguments. */
#define COUNT_RECORDS                                                                                                  \
    "local whole, texts = 0, {} "                                                                                      \
    "for _, text in ipairs(redis.call('LRANGE', 'sent', 0, -1)) do texts[text] = true end "                            \
    "for _, record in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do "                                                \
    "  local task = cjson.decode(record) "                                                                             \
    "  if type(task.class) ~= 'string' or type(task.args) ~= 'table' or not task.jid then return 99999 end "           \
    "  if record:find('%c') then return 99999 end "                                                                    \
    "  if texts[task.args[1]] then whole = whole + 1 end "                                                             \
    "end "                                                                                                             \
    "return whole"

TEST(texts_that_are_no_tasks_harm_nobody)
{
    enum { NOT_TEXT = 5 }; /* of them cannot be JSON strings, and are kept in base64 */
    char *script = fleet_script(&fleet, "tests/support/hostile_tasks.lua");
    long long bad = fleet_number(&fleet, "EVALSHA %s 2 queue:jobs sent", script);
    free(script);
    unsigned worker = fleet_work(&fleet, NULL);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"after\"}");
    test_await(fleet_noted(&fleet, "end after") == 1);
    test_await(fleet_number(&fleet, "ZCARD dead") == bad);
    test_await(fleet_number(&fleet, "ZCARD retry") == 4);
    assert_int_equal(fleet_number(&fleet, "EVAL \"%s\" 1 dead", COUNT_RECORDS), bad - NOT_TEXT);
    assert_int_equal(fleet_number(&fleet, "EVAL \"%s\" 1 retry", COUNT_RECORDS), 0);
    assert_int_equal(fleet_noted(&fleet, "end odd1"), 1);
    one_fleet_stop(worker);
    assert_log(worker);
    test_await(fleet_logged(&fleet, worker, "forged=1")); /* where it belongs: in quotes */
}

RUN_FLEET_TESTS
