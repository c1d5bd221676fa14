#include "tests/sim/world/play.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "queue/scripts.h"
#include "redlock/scripts.h"
#include "tests/sim/server/server.h"
#include "tests/sim/world/network.h"
#include "tests/sim/world/world.h"

/* All that is expected happens in so many schedules. */
enum { SCHEDULES = 400, SCHEDULES_MAX = 100000, SECONDS = 8 };

enum { MOVES_MAX = 1024, HANG_S = 120, LOGGED_EACH = 16 };

struct counter {
    const char *name; /* the same address in each child */
    uint64_t times;
};

/* What a child leaves behind, in shared memory. */
struct result {
    char judge[24], text[PLAY_TEXT_MAX];
    struct instant at;
    unsigned moves;
    int64_t lasted_ns;
    struct counter counters[PLAY_COUNTERS_MAX];
};

static struct {
    struct result *result; /* of the schedule */
    bool without[MOVES_MAX];
    bool are_moves_told;
    FILE *reader; /* of moves: a schedule may replace stderr */
} play;

/* --- in a schedule ------------------------------------------------------------------------------------------------ */

void play_violated(const char *judge, const char *format, ...)
{
    struct result *result = play.result;
    if (result->judge[0] != '\0')
        return;
    va_list values;
    va_start(values, format);
    vsnprintf(result->text, sizeof result->text, format, values);
    va_end(values);
    snprintf(result->judge, sizeof result->judge, "%s", judge);
    result->at = world_time();
    world_tell("VIOLATION of %s: %s", judge, result->text);
    world_stop();
}

bool play_is_violated(void)
{
    return play.result->judge[0] != '\0';
}

void play_freed(void)
{
    size_t largest;
    unsigned left = process_blocks_left(&largest);
    if (left > 0)
        play_violated("freed", "%s ends and has not freed %u blocks, the largest of %zu bytes", process_current()->name,
                      left, largest);
}

static void count(struct result *result, const char *name, uint64_t times)
{
    unsigned i = 0;
    while (i < PLAY_COUNTERS_MAX && result->counters[i].name != NULL && strcmp(result->counters[i].name, name) != 0)
        i++;
    invariant(i < PLAY_COUNTERS_MAX);
    result->counters[i].name = name;
    result->counters[i].times += times;
}

void play_count(const char *name, uint64_t times)
{
    if (play.result != NULL) /* else a test plays no schedule */
        count(play.result, name, times);
}

bool play_move(const char *format, ...)
{
    unsigned number = play.result->moves++;
    invariant(number < MOVES_MAX);
    if (play.without[number])
        return false;
    if (play.are_moves_told || world_is_told()) {
        va_list values;
        va_start(values, format);
        fprintf(play.reader, "move %-3u ", number);
        vfprintf(play.reader, format, values);
        fputc('\n', play.reader);
        va_end(values);
    }
    return true;
}

void play_lasted(int64_t ns)
{
    play.result->lasted_ns += ns;
}

/* --- one of them -------------------------------------------------------------------------------------------------- */

static void child_main(const struct play *of, uint64_t seed)
{
    alarm(HANG_S);
    world_begin(seed);
    network_begin();
    world_tell_to_stderr(getenv("HF_TRACE") != NULL);
    /* Now and then all is formatted, though nobody reads it. */
    bool is_logged = world_is_told() ? strcmp(getenv("HF_TRACE"), "2") != 0 : seed % LOGGED_EACH == 0;
    log_set_level(is_logged ? LOG_DEBUG : LOG_NOTHING);
    of->schedule(seed);
    fflush(NULL);
    if (getenv("HF_COVERAGE") != NULL)
        exit(EXIT_SUCCESS); /* which writes down what was reached */
    _exit(EXIT_SUCCESS);
}

static bool schedule_play(const struct play *of, uint64_t seed)
{
    int status;
    memset(play.result, 0, sizeof *play.result);
    fflush(NULL);
    pid_t child = fork();
    invariant(child >= 0);
    if (child == 0)
        child_main(of, seed);
    while (waitpid(child, &status, 0) < 0)
        invariant(errno == EINTR);
    if (status == 0)
        return !play_is_violated();
    if (!play_is_violated()) {
        snprintf(play.result->judge, sizeof play.result->judge, "crash");
        snprintf(play.result->text, sizeof play.result->text, "wait status %#x%s", (unsigned)status,
                 WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ": it does not end" : "");
    }
    return false;
}

/* --- what can be left out ----------------------------------------------------------------------------------------- */

static void without_print(unsigned moves)
{
    const char *between = " HF_WITHOUT=";
    for (unsigned i = 0; i < moves; i++)
        if (play.without[i]) {
            printf("%s%u", between, i);
            between = ",";
        }
}

static void replay_print(uint64_t seed, unsigned moves)
{
    printf("replay: HF_TRACE=1 HF_SCHEDULES=1 HF_SEED=%llu", (unsigned long long)seed);
    without_print(moves);
    printf(" %s\n", program_invocation_name);
    fflush(stdout);
}

static void without_read(void)
{
    const char *text = getenv("HF_WITHOUT");
    while (text != NULL && *text != '\0') {
        char *end;
        unsigned long number = strtoul(text, &end, 10);
        if (end == text || number >= MOVES_MAX)
            return;
        play.without[number] = true;
        text = *end == ',' ? end + 1 : end;
    }
}

/* Leaves out pieces of half the moves, then of a quarter, and so on, as long as the same judge objects. */
static void reduce(const struct play *of, uint64_t seed)
{
    char judge[sizeof play.result->judge];
    unsigned moves = play.result->moves;
    snprintf(judge, sizeof judge, "%s", play.result->judge);
    for (unsigned size = (moves + 1) / 2; size > 0; size = size == 1 ? 0 : (size + 1) / 2)
        for (unsigned first = 0; first < moves; first += size) {
            bool before[MOVES_MAX];
            memcpy(before, play.without, sizeof before);
            for (unsigned i = first; i < first + size && i < moves; i++)
                play.without[i] = true;
            if (schedule_play(of, seed) || strcmp(play.result->judge, judge) != 0)
                memcpy(play.without, before, sizeof before);
        }
    unsigned left = 0;
    for (unsigned i = 0; i < moves; i++)
        left += !play.without[i];
    printf("reduced to %u of %u moves:\n", left, moves);
    replay_print(seed, moves);
    play.are_moves_told = true;
    (void)schedule_play(of, seed);
    play.are_moves_told = false;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

static void violation_print(const struct play *of, uint64_t seed)
{
    printf("%s: seed %llu breaks %s: %s\n", of->name, (unsigned long long)seed, play.result->judge, play.result->text);
    replay_print(seed, play.result->moves);
}

/* Of the processors, also by schedules that have ended: how much is played depends on nobody else. */
static int64_t used_ns(void)
{
    struct rusage own, children;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    int64_t us = own.ru_utime.tv_usec + own.ru_stime.tv_usec + children.ru_utime.tv_usec + children.ru_stime.tv_usec;
    int64_t s = own.ru_utime.tv_sec + own.ru_stime.tv_sec + children.ru_utime.tv_sec + children.ru_stime.tv_sec;
    return s * NS_PER_S + us * NS_PER_US;
}

static uint64_t times_of(const struct result *sum, const char *name)
{
    for (unsigned i = 0; i < PLAY_COUNTERS_MAX && sum->counters[i].name != NULL; i++)
        if (strcmp(sum->counters[i].name, name) == 0)
            return sum->counters[i].times;
    return 0;
}

/* Names that are expected; with a sum, only those that happened. */
static unsigned expected_count(const struct play *of, const struct result *sum)
{
    unsigned found = 0;
    for (unsigned i = 0; i < 2; i++)
        for (const char *const *name = i == 0 ? of->troubles : of->expected; *name != NULL; name++)
            found += sum == NULL || times_of(sum, *name) > 0;
    return found;
}

static uint64_t missing_print(const struct play *of, const char *const *names, const struct result *sum)
{
    uint64_t missing = 0;
    for (const char *const *name = names; *name != NULL; name++) {
        if (times_of(sum, *name) > 0)
            continue;
        printf("%s: %s never happened\n", of->name, *name);
        missing++;
    }
    return missing;
}

static uint64_t expectations_check(const struct play *of, const struct result *sum, uint64_t played)
{
    uint64_t broken = missing_print(of, of->troubles, sum) + missing_print(of, of->expected, sum);
    for (const struct play_bound *bound = of->bounds; bound->name != NULL; bound++) {
        uint64_t rate = times_of(sum, bound->name) * 1000 / played;
        if (rate >= bound->least && rate <= bound->most)
            continue;
        printf("%s: %s happened %llu times in a thousand schedules, not %llu to %llu\n", of->name, bound->name,
               (unsigned long long)rate, (unsigned long long)bound->least, (unsigned long long)bound->most);
        broken++;
    }
    return broken;
}

static void sum_print(const struct play *of, const struct result *sum, uint64_t seed, uint64_t played, double seconds)
{
    printf("simulated %s: %llu schedules from seed %llu on with %u of %u kinds of trouble and what comes of it, %.0f "
           "virtual seconds, %.1f a second\n",
           of->name, (unsigned long long)played, (unsigned long long)seed, expected_count(of, sum),
           expected_count(of, NULL), (double)sum->lasted_ns / 1e9, (double)played / (seconds > 0 ? seconds : 1));
    for (unsigned i = 0; i < PLAY_COUNTERS_MAX && sum->counters[i].name != NULL; i++)
        printf("  %-36s %12llu\n", sum->counters[i].name, (unsigned long long)sum->counters[i].times);
    fflush(stdout);
}

static uint64_t play_all(const struct play *of, uint64_t count_usual, uint64_t first_usual, uint64_t seconds_usual)
{
    static struct result sum;
    uint64_t violations = 0, played = 0, wanted = number_of("HF_SCHEDULES", count_usual);
    uint64_t first = number_of("HF_SEED", first_usual);
    int64_t limit_ns = (int64_t)number_of("HF_SECONDS", seconds_usual) * NS_PER_S;
    int64_t begun_ns = used_ns();
    struct instant begun = instant_now();
    memset(&sum, 0, sizeof sum);
    play.result = mmap(NULL, sizeof *play.result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    invariant(play.result != MAP_FAILED);
    play.reader = stderr;
    without_read();
    server_name_scripts(queue_scripts, QUEUE_SCRIPT_COUNT);
    server_name_scripts(redlock_scripts, REDLOCK_SCRIPT_COUNT);
    for (; played < wanted && violations < 10; played++) {
        if (limit_ns > 0 && used_ns() - begun_ns > limit_ns)
            break;
        bool is_sound = schedule_play(of, first + played);
        for (unsigned i = 0; i < PLAY_COUNTERS_MAX && play.result->counters[i].name != NULL; i++)
            count(&sum, play.result->counters[i].name, play.result->counters[i].times);
        sum.lasted_ns += play.result->lasted_ns;
        if (is_sound)
            continue;
        violations++;
        violation_print(of, first + played);
        if (getenv("HF_REDUCE") != NULL)
            reduce(of, first + played);
    }
    sum_print(of, &sum, first, played, (double)instant_since(begun, instant_now()) / 1e9);
    if (played >= SCHEDULES)
        violations += expectations_check(of, &sum, played);
    munmap(play.result, sizeof *play.result);
    return violations;
}

uint64_t play_each_day(const struct play *of)
{
    return play_all(of, SCHEDULES, 1, 0);
}

uint64_t play_today(const struct play *of)
{
    return play_all(of, SCHEDULES_MAX, (uint64_t)(wall_now().us / US_PER_S / 86400) * 1000003, SECONDS);
}
