/* The life of a lock in simulated worlds: tens of thousands of schedules, each from a seed.
 *
 *   HF_SCHEDULES  how many (default below)
 *   HF_SEED       the first seed; the others follow it
 *   HF_TRACE=1    prints the events of every schedule: for one
 *   HF_PROFILE    steady, loss, steps, wild or ruin: only schedules of this kind (parameters.h)
 *   HF_BUG        a mistake in the nodes' scripts, by one of the names below; a run that finds nothing is wrong
 *
 * A violation is printed with the command that replays it exactly. */
#include "tests/support/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/sim/environment.h"
#include "tests/sim/world.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifdef SANITIZED
enum { SCHEDULES_DEFAULT = 6000 };
#else
enum { SCHEDULES_DEFAULT = 25000 };
#endif
/* Fewer schedules cannot be expected to show everything. */
enum { SCHEDULES_FOR_COUNTERS = 3000, SCHEDULES_FOR_BUGS = 2000 };
/* So many are shared by two threads. Worlds have nothing in common. */
enum { SCHEDULES_FOR_TWO = 20000 };

static const char *const bug_names[MODEL_BUGS] = {
    [MODEL_SOUND] = "none",
    [MODEL_EXTENDS_WITHOUT_COMPARE] = "extend",
    [MODEL_RELEASES_WITHOUT_COMPARE] = "release",
    [MODEL_PROPOSAL_ONLY] = "proposal",
    [MODEL_KEEPS_FENCE] = "keep",
    [MODEL_NO_CLAMP] = "clamp",
    [MODEL_RAISES_WITHOUT_COMPARE] = "raise",
    [MODEL_IGNORES_MARKER] = "marker",
    [MODEL_IGNORES_DEADLINE] = "deadline",
    [MODEL_REPLANTS_LATE] = "late",
    [MODEL_REPLANTS_BLINDLY] = "blind",
    [MODEL_REPLANTS_OVER] = "over",
    [MODEL_REPLANTS_UNFENCED] = "unfenced",
    [MODEL_MARKS_WITHOUT_COMPARE] = "mark",
    [MODEL_FENCE_WITHOUT_TTL] = "ttl",
    [MODEL_FENCES_FIRST_KEY] = "first",
    [MODEL_SWAPS_WITHOUT_COMPARE] = "swap",
    [MODEL_SWAPS_UNFENCED] = "swap-unfenced",
    [MODEL_SWAPS_FIRST_KEY] = "swap-first",
    [MODEL_SWAPS_KEEP_TTL] = "swap-ttl",
};

static enum model_bug bug_wanted(void)
{
    const char *text = getenv("HF_BUG");
    if (text == NULL || text[0] == '\0')
        return MODEL_SOUND;
    for (int bug = MODEL_SOUND; bug < MODEL_BUGS; bug++)
        if (strcmp(text, bug_names[bug]) == 0)
            return (enum model_bug)bug;
    fail_msg("HF_BUG=%s is no bug of the node model", text);
    return MODEL_SOUND;
}

static enum profile profile_wanted(void)
{
    const char *text = getenv("HF_PROFILE");
    if (text == NULL || text[0] == '\0')
        return PROFILES;
    for (int profile = 0; profile < PROFILES; profile++)
        if (strcmp(text, profile_names[profile]) == 0)
            return (enum profile)profile;
    fail_msg("HF_PROFILE=%s is none of steady, loss, steps, wild, ruin", text);
    return PROFILES;
}

/* The first seed that breaks an oracle, or `end`. */
static uint64_t play(struct world *world, uint64_t first, uint64_t end, enum model_bug bug, struct counters *counters)
{
    for (uint64_t seed = first; seed < end; seed++) {
        world_play(world, seed, bug, counters);
        if (world->violation.oracle != NULL)
            return seed;
    }
    return end;
}

static void violation_print(const struct world *world, uint64_t seed)
{
    const struct violation *violation = &world->violation;
    printf("seed %llu breaks %s after %.3f ms: %s\nreplay: HF_TRACE=1 HF_SCHEDULES=1 HF_SEED=%llu %s%s %s\n",
           (unsigned long long)seed, violation->oracle,
           (double)instant_since(world->parameters.begin, violation->at) / 1e6, violation->text,
           (unsigned long long)seed, world->forced == PROFILES ? "" : "HF_PROFILE=",
           world->forced == PROFILES ? "" : profile_names[world->forced], program_invocation_name);
    fflush(stdout);
}

static void counters_print(const struct counters *counters)
{
#define PRINT(name) printf("  %-24s %12llu\n", #name, (unsigned long long)counters->name);
    SIM_COUNTERS(PRINT)
#undef PRINT
}

static unsigned counters_missing(const struct counters *counters)
{
    unsigned missing = 0;
#define CHECK(name)                                                                                                    \
    if (counters->name == 0) {                                                                                         \
        printf("%s never happened: the run is invalid\n", #name);                                                      \
        missing++;                                                                                                     \
    }
    SIM_COUNTERS(CHECK)
#undef CHECK
    return missing;
}

struct part {
    uint64_t first, end, seed; /* the first that breaks an oracle, or `end` */
    struct world *world;
    enum model_bug bug;
    struct counters counters;
    pthread_t thread;
};

static void *part_play(void *argument)
{
    struct part *part = argument;
    part->seed = play(part->world, part->first, part->end, part->bug, &part->counters);
    return NULL;
}

static void part_begin(struct part *part, uint64_t first, uint64_t end)
{
    *part = (struct part){.first = first, .end = end, .world = world_create(), .bug = bug_wanted()};
    part->world->tracing = environment_number("HF_TRACE", 0) != 0;
    part->world->forced = profile_wanted();
    assert_int_equal(pthread_create(&part->thread, NULL, part_play, part), 0);
}

static void counters_add(struct counters *sum, const struct counters *counters)
{
#define ADD(name) sum->name += counters->name;
    SIM_COUNTERS(ADD)
#undef ADD
}

/* Returns whether no oracle was broken. */
static bool part_end(struct part *part, struct counters *sum)
{
    assert_int_equal(pthread_join(part->thread, NULL), 0);
    bool sound = part->seed == part->end;
    if (!sound)
        violation_print(part->world, part->seed);
    counters_add(sum, &part->counters);
    world_destroy(part->world);
    return sound;
}

static bool play_in_parts(uint64_t first, uint64_t count, struct counters *sum)
{
    struct part parts[2];
    unsigned number = count >= SCHEDULES_FOR_TWO ? 2 : 1, sound = 0;
    for (unsigned i = 0; i < number; i++)
        part_begin(&parts[i], first + count * i / number, first + count * (i + 1) / number);
    for (unsigned i = 0; i < number; i++)
        sound += part_end(&parts[i], sum);
    return sound == number;
}

static void test_no_schedule_breaks_an_oracle_and_everything_happens(void **state)
{
    (void)state;
    uint64_t first = environment_number("HF_SEED", 1), count = environment_number("HF_SCHEDULES", SCHEDULES_DEFAULT);
    struct counters counters = {0};
    clock_t begin = clock();
    bool sound = play_in_parts(first, count, &counters);
    double seconds = (double)(clock() - begin) / (double)CLOCKS_PER_SEC;
    assert_true(sound);
    printf("%llu schedules from seed %llu in %.1f s of processor time: %.0f a second, %.0f virtual seconds a second\n",
           (unsigned long long)count, (unsigned long long)first, seconds, (double)count / seconds,
           (double)counters.virtual_ms / (double)MS_PER_S / seconds);
    counters_print(&counters);
    fflush(stdout);
    if (count >= SCHEDULES_FOR_COUNTERS && profile_wanted() == PROFILES)
        assert_int_equal(counters_missing(&counters), 0);
}

static void test_the_same_seed_gives_the_same_events(void **state)
{
    (void)state;
    struct counters counters = {0};
    struct world *one = world_create(), *two = world_create();
    world_play(two, 4711, MODEL_SOUND, &counters); /* what was played before must not matter */
    uint64_t before = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        world_play(one, seed, MODEL_SOUND, &counters);
        world_play(two, seed, MODEL_SOUND, &counters);
        assert_int_equal(one->digest, two->digest);
        assert_int_equal(one->events, two->events);
        assert_int_not_equal(one->digest, before);
        before = one->digest;
    }
    world_destroy(one);
    world_destroy(two);
}

static void bug_is_found(enum model_bug bug)
{
    struct counters counters = {0};
    struct world *world = world_create();
    uint64_t seed = play(world, 1, SCHEDULES_FOR_BUGS, bug, &counters);
    bool found = seed < SCHEDULES_FOR_BUGS;
    world_destroy(world);
    assert_true(found);
}

static void test_an_extension_that_does_not_compare_is_found(void **state)
{
    (void)state;
    bug_is_found(MODEL_EXTENDS_WITHOUT_COMPARE);
}

static void test_a_release_that_does_not_compare_is_found(void **state)
{
    (void)state;
    bug_is_found(MODEL_RELEASES_WITHOUT_COMPARE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_schedule_breaks_an_oracle_and_everything_happens),
        cmocka_unit_test(test_the_same_seed_gives_the_same_events),
        cmocka_unit_test(test_an_extension_that_does_not_compare_is_found),
        cmocka_unit_test(test_a_release_that_does_not_compare_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
