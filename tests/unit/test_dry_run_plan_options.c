/* The parts of a plan as texts: every form, and that what is none is refused with a reason and changes nothing. */
#include "tests/unit/plan_options_fixture.h"

#include "base/random.h"
#include "tests/unit/plan_text.h"

/* --- numbers ------------------------------------------------------------------------------------------------------ */

TEST(numbers_are_taken)
{
    take("threads", "64");
    take("processes", "2");
    take("hosts", "3");
    take("resources", "1000000");
    take("resources-per-task", "16");
    take("seed", "9007199254740991");
    take("for", "1m");
    take("warm-up", "0");
    assert_int_equal(plan.threads, 64);
    assert_int_equal(plan.processes, 2);
    assert_int_equal(plan.hosts, 3);
    assert_int_equal(plan.popularity.count, 1000000);
    assert_int_equal(plan.resources_per_task, 16);
    assert_int_equal(plan.seed, 9007199254740991);
    assert_int_equal(plan.for_ns, 60 * NS_PER_S);
    assert_int_equal(plan.warm_up_ns, 0);
}

TEST(numbers_out_of_range_are_refused)
{
    static const char *const hostile[] = {"",
                                          "0",
                                          "-1",
                                          "+1",
                                          " 1",
                                          "1 ",
                                          "1.0",
                                          "1e3",
                                          "0x10",
                                          "a",
                                          "\33",
                                          "1,2",
                                          "nan",
                                          "٣",
                                          "18446744073709551617",
                                          "99999999999999999999999"};
    static const char *const takes[] = {"threads", "processes", "hosts", "closed", "resources", "resources-per-task"};
    for (size_t i = 0; i < sizeof takes / sizeof takes[0]; i++)
        for (size_t j = 0; j < sizeof hostile / sizeof hostile[0]; j++)
            assert_refused(takes[i], hostile[j], "is not a whole number from 1 to ");
    assert_refused("threads", "1025", "from 1 to 1024");
    assert_refused("processes", "65", "from 1 to 64");
    assert_refused("hosts", "65", "from 1 to 64");
    assert_refused("resources", "1000001", "from 1 to 1000000");
    assert_refused("resources-per-task", "17", "from 1 to 16");
    assert_refused("seed", "0", "from 1 to 9007199254740991");
    assert_refused("seed", "9007199254740992", "from 1 to 9007199254740991");
}

TEST(durations_out_of_range_are_refused)
{
    assert_refused("for", "20", "has no unit");
    assert_refused("for", "999ms", "from 1s to 1d");
    assert_refused("for", "25h", "from 1s to 1d");
    assert_refused("for", "-5s", "is not a duration");
    assert_refused("for", "5\33[31ms", "is not a duration");
    assert_refused("for", "", "is not a duration");
    assert_refused("warm-up", "2days", "is not a duration");
    assert_refused("warm-up", "48h", "from 0 to 1d");
}

TEST(nodes_of_its_own)
{
    take("private", NULL);
    assert_true(plan.is_local);
    assert_int_equal(plan.local_nodes, 5);
    take("private", "3");
    assert_int_equal(plan.local_nodes, 3);
    assert_refused("private", "0", "from 1 to 15");
    assert_refused("private", "17", "from 1 to 15");
}

/* Nodes know a run by digits: those of its name are the same at every host. */
TEST(names_of_runs)
{
    char first[sizeof plan.run_id];
    take("name", "the night before");
    assert_int_equal(strspn(plan.run_id, "0123456789abcdef"), DRY_RUN_ID_BYTES);
    assert_string_equal(plan_run(&plan), plan.run_id);
    memcpy(first, plan.run_id, sizeof first);
    take("name", "the night after");
    assert_string_not_equal(plan.run_id, first);
    take("name", "the night before");
    assert_string_equal(plan.run_id, first);
    assert_refused("name", "", "is not a name");
    assert_refused("name", "a\n", "is not a name");
}

TEST(rates)
{
    take("rate", "200/s");
    assert_int_equal(plan.arrivals, DRY_RUN_OPEN);
    assert_near(plan.rate, 200);
    take("rate", "90/m");
    assert_near(plan.rate, 1.5);
    take("rate", "36.5e2/h");
    assert_near(plan.rate, 3650 / 3600.0);
    take("closed", "7");
    assert_int_equal(plan.arrivals, DRY_RUN_CLOSED);
    assert_int_equal(plan.population, 7);
    assert_true(plan.is_population_given);
    static const char *const hostile[] = {"",     "200",  "/s",     "200/",  "200/d", "200/s ", "200 /s", "1/s/s",
                                          "-1/s", "+1/s", "0x10/s", "inf/s", "nan/s", "1e/s",   "1..2/s", "2\n/s"};
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++)
        assert_refused("rate", hostile[i], "is not a rate: write for example 200/s");
    assert_refused("rate", "0/s", "out of range");
    assert_refused("rate", "1000001/s", "at most 1000000/s");
    assert_refused("rate", "1e999/s", "out of range");
}

TEST(shares_and_factors)
{
    take("failures", "5%");
    assert_near(plan.failures, 0.05);
    take("failures", "0.25");
    assert_near(plan.failures, 0.25);
    take("failures", "100%");
    assert_near(plan.failures, 1);
    take("node-share", "0.02");
    assert_near(plan.node_share, 0.02);
    take("speed", "2.5");
    assert_near(plan.speed, 2.5);
    static const char *const hostile[] = {"", "%", "5", "101%", "1.01", "-1%", "5%%", "5 %", "0x1p-1", "nan", "inf%"};
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++)
        assert_refused("failures", hostile[i], "is not a share: write 0.05 or 5%");
    assert_refused("speed", "0", "is not a factor");
    assert_refused("speed", "1001", "is not a factor");
    assert_refused("speed", "fast", "is not a factor");
}

/* --- resources ---------------------------------------------------------------------------------------------------- */

TEST(ways_to_be_popular)
{
    take("resources", "50");
    take("zipf", "1.1");
    assert_int_equal(plan.popularity.kind, POPULARITY_ZIPF);
    assert_near(plan.popularity.exponent, 1.1);
    take("hot", "90%:10");
    assert_int_equal(plan.popularity.kind, POPULARITY_HOT);
    assert_near(plan.popularity.hot_share, 0.9);
    assert_int_equal(plan.popularity.hot, 10);
    assert_int_equal(plan.popularity.count, 50);
    assert_refused("zipf", "-1", "is not an exponent from 0 to 20");
    assert_refused("zipf", "21", "is not an exponent from 0 to 20");
    assert_refused("zipf", "", "is not an exponent");
    assert_refused("hot", "0.9", "write SHARE:N");
    assert_refused("hot", "0.9:0", "whole number from 1");
    assert_refused("hot", "9:10", "is not a share");
    assert_refused("hot", ":", "is not a share");
    assert_refused("hot", "0.9:10:3", "whole number from 1");
}

/* --- holds -------------------------------------------------------------------------------------------------------- */

TEST(forms_of_holds)
{
    take("hold", "fixed:0");
    assert_int_equal(plan.hold.kind, DISTRIBUTION_FIXED);
    assert_near(plan.hold.mean_s, 0);
    take("hold", "exp:1.5ms");
    assert_int_equal(plan.hold.kind, DISTRIBUTION_EXPONENTIAL);
    assert_near(plan.hold.mean_s, 0.0015);
    take("hold", "lognormal:5ms,0.8");
    assert_int_equal(plan.hold.kind, DISTRIBUTION_LOGNORMAL);
    assert_near(plan.hold.mean_s, 0.005);
    assert_near(plan.hold.sigma, 0.8);
}

TEST(hostile_holds_are_refused)
{
    static const char forms[] = "write fixed:5ms, exp:5ms, lognormal:5ms,0.8 (mean and sigma) or file:PATH";
    static const char *const unknown[] = {"",        ":",       "5ms",      "exp",        "exponential:5ms",
                                          "fix:5ms", "EXP:5ms", " exp:5ms", "\33[2J:5ms", "uniform:1ms,2ms"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        assert_refused("hold", unknown[i], forms);
    assert_refused("hold", "exp:", "is not a duration");
    assert_refused("hold", "exp:5", "has no unit");
    assert_refused("hold", "exp:0", "from 1us to 1d");
    assert_refused("hold", "exp:25h", "from 1us to 1d");
    assert_refused("hold", "fixed:-5ms", "is not a duration");
    assert_refused("hold", "fixed:5ms,1", "is not a duration");
    assert_refused("hold", "lognormal:5ms", "write lognormal:MEAN,SIGMA");
    assert_refused("hold", "lognormal:5ms,", "is not a sigma");
    assert_refused("hold", "lognormal:5ms,0", "is not a sigma");
    assert_refused("hold", "lognormal:5ms,6", "is not a sigma");
    assert_refused("hold", "lognormal:,1", "is not a duration");
    char large[5000];
    memset(large, '9', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    memcpy(large, "exp:", 4);
    assert_refused("hold", large, "is not a duration");
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

TEST(classes)
{
    take("class", "Transfer::Money");
    assert_string_equal(plan.class_name, "Transfer::Money");
    assert_refused("class", "", "is not the name of a class");
    assert_refused("class", "a\nb", "is not the name of a class");
    char large[300];
    memset(large, 'a', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    assert_refused("class", large, "1 to 256 bytes");
}

/* Whatever is thrown at an option, it answers, and what it takes is within the limits of a plan: its JSON can be read
 * again. */
TEST(random_texts_are_answered)
{
    static const char *const takes[] = {
        "private",  "name",   "seed",       "for",   "warm-up", "threads", "processes",
        "hosts",    "closed", "resources",  "rate",  "zipf",    "hot",     "hold",
        "failures", "class",  "node-share", "speed", "fault",   "what-if", "resources-per-task"};
    static const char *const pieces[] = {"1",     "0",        "9",    ".",      ":",    ",",         "%",
                                         "/s",    "/h",       "ms",   "s",      "-",    "+",         "e",
                                         "exp:",  "fixed:",   "lock", "worker", "stop", "kill",      "slow",
                                         "queue", "threads=", "\33",  "\xff",   " ",    "lognormal:"};
    unsigned taken = 0;
    for (int i = 0; i < 200000; i++) {
        char text[128] = "";
        for (int64_t left = random_between(0, 8); left > 0; left--) {
            const char *piece = pieces[random_between(0, sizeof pieces / sizeof pieces[0] - 1)];
            memcpy(text + strlen(text), piece, strlen(piece) + 1);
        }
        struct error error = ERROR_NONE;
        bool is_taken = option(takes[random_between(0, sizeof takes / sizeof takes[0] - 1)])->take(&plan, text, &error);
        assert_int_equal(is_taken, !error_is_set(&error));
        taken += is_taken;
        if (plan.fault_count == DRY_RUN_FAULTS_MAX)
            plan.fault_count = 0;
    }
    assert_true(taken > 1000);
    struct buffer text = {0};
    struct dry_run_plan again;
    struct error error = ERROR_NONE;
    plan.resources_per_task = 1;
    plan_complete(&plan);
    plan_json_write(&(struct json_writer){.out = &text}, NULL, &plan);
    if (!plan_text_read(text.bytes, text.length, &again, &error))
        fail_msg("%s: %s", error.text, buffer_text(&text));
    plan_fini(&again);
    buffer_fini(&text);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
