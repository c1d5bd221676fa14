/* Contention in simulated fleets: what waits for a lock, who is woken, who inherits (tests/sim/queue), each schedule
 * from a seed.
 *
 *   HF_SCHEDULES  how many (default below)
 *   HF_SEED       the first seed; the others follow it
 *   HF_TRACE=1    prints the events of every schedule: for one
 *   HF_CROWD      how many wait in the test of what waiting costs, at most 10001
 *   HF_BUG        a mistake in the simulated worker, by one of the names in scene.c; a run that finds nothing is wrong
 *
 * A violation is printed with the command that replays it exactly. */
#include "tests/support/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/sim/environment.h"
#include "tests/sim/queue/scene.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifdef SANITIZED
enum { SCHEDULES_DEFAULT = 150, CROWD = 500 };
#else
enum { SCHEDULES_DEFAULT = 5000, CROWD = CROWD_MAX };
#endif
/* Fewer schedules cannot be expected to show everything. */
enum { SCHEDULES_FOR_COUNTERS = 500 };

static enum scene_bug bug_wanted(void)
{
    const char *text = getenv("HF_BUG");
    if (text == NULL || text[0] == '\0')
        return BUG_NONE;
    for (int bug = BUG_NONE; bug < BUGS; bug++)
        if (strcmp(text, scene_bug_names[bug]) == 0)
            return (enum scene_bug)bug;
    fail_msg("HF_BUG=%s is no bug of the simulated worker", text);
    return BUG_NONE;
}

static void violation_print(const struct scene *scene)
{
    printf("seed %llu breaks %s after %.3f ms: %s\nreplay: HF_TRACE=1 HF_SCHEDULES=1 HF_SEED=%llu %s\n",
           (unsigned long long)scene->seed, scene->violation.oracle,
           (double)(scene->violation.at.ns - 1000 * NS_PER_S) / 1e6, scene->violation.text,
           (unsigned long long)scene->seed, program_invocation_name);
    fflush(stdout);
}

static unsigned counters_print(const struct scene_counters *counters)
{
    unsigned missing = 0;
#define PRINT(name)                                                                                                    \
    printf("  %-20s %10llu%s\n", #name, counters->name, counters->name == 0 ? "  never happened" : "");                \
    missing += counters->name == 0;
    SCENE_COUNTERS(PRINT)
#undef PRINT
    fflush(stdout);
    return missing;
}

static void test_no_schedule_breaks_an_oracle_and_everything_happens(void **state)
{
    (void)state;
    uint64_t first = environment_number("HF_SEED", 1), count = environment_number("HF_SCHEDULES", SCHEDULES_DEFAULT);
    struct scene_counters counters = {0};
    struct scene *scene = scene_create();
    bool sound = true;
    scene->tracing = environment_number("HF_TRACE", 0) != 0;
    clock_t begin = clock();
    for (uint64_t seed = first; seed < first + count && sound; seed++) {
        scene_play(scene, seed, bug_wanted(), &counters);
        sound = scene->violation.oracle == NULL;
    }
    double seconds = (double)(clock() - begin) / (double)CLOCKS_PER_SEC;
    if (!sound)
        violation_print(scene);
    scene_destroy(scene);
    assert_true(sound);
    printf("%llu schedules from seed %llu in %.1f s of processor time\n", (unsigned long long)count,
           (unsigned long long)first, seconds);
    unsigned missing = counters_print(&counters);
    if (count >= SCHEDULES_FOR_COUNTERS && bug_wanted() == BUG_NONE)
        assert_int_equal(missing, 0);
}

static void test_the_same_seed_gives_the_same_events(void **state)
{
    (void)state;
    struct scene_counters counters = {0};
    struct scene *one = scene_create(), *two = scene_create();
    scene_play(two, 4711, BUG_NONE, &counters); /* what was played before must not matter */
    for (uint64_t seed = 1; seed <= 20; seed++) {
        scene_play(one, seed, BUG_NONE, &counters);
        scene_play(two, seed, BUG_NONE, &counters);
        assert_int_equal(one->digest, two->digest);
        assert_int_equal(one->events, two->events);
    }
    scene_destroy(one);
    scene_destroy(two);
}

static void test_ten_thousand_parked_tasks_cost_less_than_ten_calls_a_second(void **state)
{
    (void)state;
    struct scene *scene = scene_create();
    unsigned crowd = (unsigned)environment_number("HF_CROWD", CROWD);
    double calls = scene_idle_calls(scene, crowd);
    printf("%u tasks behind one hold: %.2f calls a second at all nodes\n", crowd, calls);
    fflush(stdout);
    scene_destroy(scene);
    assert_true(calls > 0 && calls < 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_schedule_breaks_an_oracle_and_everything_happens),
        cmocka_unit_test(test_the_same_seed_gives_the_same_events),
        cmocka_unit_test(test_ten_thousand_parked_tasks_cost_less_than_ten_calls_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
