/* `holdfast periodic`, and a worker that pushes and runs a periodic task, as programs. */
#include "tests/support/admin_fixture.h"

#include <time.h>

static void entries_write(const char *entries)
{
    FILE *file = fopen(admin_config, "ae");
    assert_non_null(file);
    fprintf(file, "periodic = ( %s );\n", entries);
    assert_int_equal(fclose(file), 0);
}

#define NIGHTLY "{ name = \"nightly\"; cron = \"30 2 29 2 *\"; zone = \"Europe/Vienna\"; class = \"echo\"; }"
#define HOURLY  "{ cron = \"@hourly\"; class = \"echo\"; queue = \"low\"; }"

TEST(it_lists_ticks_and_what_the_node_knows)
{
    entries_write(NIGHTLY ", " HOURLY);
    given("HSET hf:2:periodic nightly '1709170200 1700000000 30 2 29 2 * Europe/Vienna' 'echo @hourly' '0 1795194374 "
          "@hourly UTC'");
    admin_good("periodic", "--json", "--next", "2");
    assert_contains(result.out, "{\"node_answers\":true,\"now\":");
    assert_contains(result.out,
                    "{\"name\":\"nightly\",\"cron\":\"30 2 29 2 *\",\"zone\":\"Europe/Vienna\",\"class\":\"echo\","
                    "\"queue\":\"default\",\"last_pushed\":1709170200.0,\"known_since\":1700000000.0,"
                    "\"workers_have\":null,\"next\":[{\"time\":");
    assert_contains(result.out, "-02-29T02:30:00+01:00\"}]}");
    assert_contains(result.out, "{\"name\":\"echo @hourly\",\"cron\":\"@hourly\",\"zone\":\"UTC\",\"class\":\"echo\","
                                "\"queue\":\"low\",\"last_pushed\":null,\"known_since\":1795194374.0,"
                                "\"workers_have\":null,\"next\":[");
    admin_good("periodic", "--next", "1");
    assert_contains(result.out, "NAME            LAST PUSHED");
    assert_contains(result.out, "-02-29T01:30:00Z  ");
    assert_contains(result.out, "-02-29 02:30:00 +01:00  Europe/Vienna\n");
    assert_contains(result.out, "\n\"echo @hourly\"  never ");
    assert_lacks(result.out, " \n");
}

/* A worker that runs has not read the file that was changed. */
TEST(it_tells_a_schedule_that_workers_do_not_have_yet)
{
    entries_write(NIGHTLY);
    given("HSET hf:2:periodic nightly '1709170200 1700000000 0 3 * * * UTC'");
    admin("periodic");
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.error, "holdfast periodic: nightly: workers have the schedule \"0 3 * * * UTC\" (SIGHUP ");
    admin_good("periodic", "--json");
    assert_contains(result.out, "\"known_since\":1700000000.0,\"workers_have\":\"0 3 * * * UTC\",\"next\":[");
}

TEST(it_lists_without_the_node)
{
    admin_config_write(free_port());
    entries_write(NIGHTLY);
    admin("periodic");
    assert_int_equal(result.exit_code, 75);
    assert_contains(result.error, "holdfast periodic: ");
    assert_contains(result.out, "\nnightly  ?  ");
    admin("periodic", "--json");
    assert_contains(result.out, "{\"node_answers\":false,");
    assert_contains(result.out, "\"last_pushed\":null,\"known_since\":null,\"workers_have\":null,\"next\":[{");
}

TEST(it_takes_what_it_finds)
{
    admin_good("periodic");
    assert_string_equal(result.out, "no periodic tasks\n");
    admin_good("periodic", "--json");
    assert_contains(result.out, "\"node_answers\":true,");
    assert_contains(result.out, "\"periodic\":[]}");
    entries_write(NIGHTLY);
    given("SET hf:2:periodic foreign");
    admin("periodic");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "WRONGTYPE");
    admin("periodic", "--next", "101");
    assert_int_equal(result.exit_code, 2);
    admin("periodic", "--next", "5x");
    assert_int_equal(result.exit_code, 2);
}

TEST(mistakes_are_told_with_their_line)
{
    entries_write("{ cron = \"61 * * * *\"; class = \"echo\"; },\n"
                  "{ name = \"x\"; cron = \"@daily\"; class = \"echo\"; zone = \"Nowhere/Land\"; },\n"
                  "{ name = \"y\"; cron = \"@daily\"; class = \"echo\"; args = \"[1],\\\"queue\\\":[2]\"; },\n"
                  "{ name = \"x\"; cron = \"@daily\"; class = \"echo\"; }");
    static const char *const commands[] = {"periodic", "check", "work"};
    for (unsigned i = 0; i < 3; i++) {
        admin(commands[i]);
        assert_int_equal(result.exit_code, 1);
        assert_contains(result.error,
                        "t.conf:4: periodic task \"echo 61 * * * *\": cron \"61 * * * *\": the minute: 61 is "
                        "out of range; allowed are 0 to 59");
        assert_contains(result.error, "t.conf:5: periodic task \"x\": zone: ");
        assert_contains(result.error, "t.conf:6: periodic task \"y\": args: not valid JSON");
        assert_contains(result.error, "t.conf:7: the periodic task \"x\" has a second entry");
    }
}

/* The tick of this hour was missed: the worker pushes it, and runs it. */
TEST(a_worker_pushes_and_runs_it)
{
    entries_write("{ name = \"e\"; cron = \"*/10 * * * *\"; class = \"echo\"; args = \"[\\\"tick\\\"]\"; }");
    given("HSET hf:2:periodic e '1700000000 0 */10 * * * * UTC'");
    admin("work", "--allow-root", "--max-tasks", "1");
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.error, " periodic_missed name=e since=1700000000 ");
    assert_contains(result.error, " periodic_pushed name=e class=echo tick=");
    assert_contains(result.error, "tick");
    char *noted = redis_server_command(server, "HGET hf:2:periodic e");
    assert_int_equal(strtoll(noted, NULL, 10) % 600, 0);
    assert_true(llabs((long long)time(NULL) - strtoll(noted, NULL, 10)) < 700);
    free(noted);
    assert_reply(server, "0", "LLEN queue:default");
}

RUN_ADMIN_TESTS
