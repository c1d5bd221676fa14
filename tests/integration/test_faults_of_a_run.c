/* Faults of a dry run are done to private nodes and to workers, and seen from outside; afterwards all is as it was. */
#include "worker/dry_run/nodes/faults.h"

#include <stdio.h>

#include "tests/support/lock_cluster.h"
#include "tests/support/loop_until.h"
#include "tests/support/node_talk.h"
#include "tests/support/test.h"

enum { AT_MS = 20, LONG_MS = 3600 * 1000 };

static struct private_nodes *nodes;
static struct loop *loop;
static struct faults *faults;
static struct dry_run_plan plan;
static unsigned told;

/* Of workers. */
static char calls[64];
static bool is_gone;

static int group_setup(void **state)
{
    static char library[4096];
    struct error error = ERROR_NONE;
    (void)state;
    snprintf(library, sizeof library, "%s/preload/stepped_clock.so", test_build());
    plan.fault_count = 2;
    plan.faults[0] = (struct dry_run_fault){.kind = DRY_RUN_FAULT_CLOCK, .number = 2};
    plan.faults[1] = (struct dry_run_fault){.kind = DRY_RUN_FAULT_SLOW, .number = 3};
    struct private_nodes_options options = {.lock_nodes = 3, .clock_library = library};
    faults_prepare(&plan, &options);
    assert_true(options.has_clock[2] && !options.has_clock[1] && options.is_slowed[3] && !options.is_slowed[0]);
    nodes = private_nodes_start(&options, &error);
    if (nodes == NULL)
        fail_msg("%s", error.text);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    private_nodes_end(nodes);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    loop = loop_create(NULL);
    told = 0;
    calls[0] = '\0';
    is_gone = false;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    faults_destroy(faults);
    loop_destroy(loop);
    return 0;
}

static bool worker_signal(void *context, unsigned number, int signal)
{
    size_t length = strlen(calls);
    (void)context;
    snprintf(calls + length, sizeof calls - length, "%c%u ",
             signal == SIGSTOP   ? 'f'
             : signal == SIGCONT ? 't'
                                 : 'k',
             number);
    return !is_gone;
}

static void fault_told(void *context, const struct result_fault *fault)
{
    (void)context, (void)fault;
    told++;
}

static void start(const struct dry_run_fault *fault, struct private_nodes *of)
{
    plan.fault_count = 1;
    plan.faults[0] = *fault;
    plan.faults[0].at_ns = AT_MS * NS_PER_MS;
    faults = faults_start(&(struct faults_options){.loop = loop,
                                                   .plan = &plan,
                                                   .nodes = of,
                                                   .worker_signal = worker_signal,
                                                   .began = loop_now(loop),
                                                   .told = fault_told});
}

static const struct result_fault *result(void)
{
    unsigned count = 0;
    const struct result_fault *all = faults_results(faults, &count);
    assert_int_equal(count, 1);
    return all;
}

static char *ask(unsigned number, const char *command)
{
    return node_talk(private_nodes_port(nodes, number), nodes->password, command);
}

static void assert_answer(unsigned number, const char *command, const char *wanted)
{
    char *answer = ask(number, command);
    assert_string_equal(answer, wanted);
    free(answer);
}

static char state_of(pid_t pid)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d %*s %c", &state), 1);
    fclose(file);
    return state;
}

/* What was measured, as the text says it: no machine is so quick, or so slow, that its first digits are known. */
static double number_behind(const char *words)
{
    const char *found = strstr(result()->text, words);
    assert_non_null(found);
    return strtod(found + strlen(words), NULL);
}

TEST(a_stopped_node_stands_still_for_its_time)
{
    start(&(struct dry_run_fault){.kind = DRY_RUN_FAULT_STOP, .number = 1, .lasts_ns = 300 * NS_PER_MS}, nodes);
    assert_contains(result()->text, "before its time had come");
    assert_false(result()->was_done);
    loop_await(loop, result()->was_done);
    test_await(state_of(nodes->servers[1].pid) == 'T');
    assert_string_equal(result()->text, "lock1 is stopped");
    loop_await(loop, strstr(result()->text, "meanwhile") != NULL);
    assert_true(number_behind("lock1 was stopped for ") >= 0.3);
    assert_contains(result()->text, " s: what it was asked meanwhile it answered after ");
    assert_true(number_behind("it answered after ") > 0);
    assert_true(result()->at >= 0.02);
    assert_answer(1, "PING", "+PONG");
    assert_true(told >= 2);
}

TEST(a_killed_node_is_away_and_comes_back_empty)
{
    assert_answer(1, "SET some value", "+OK");
    start(&(struct dry_run_fault){.kind = DRY_RUN_FAULT_KILL, .number = 1, .lasts_ns = 200 * NS_PER_MS}, nodes);
    loop_await(loop, result()->was_done);
    assert_null(ask(1, "PING"));
    loop_await(loop, strstr(result()->text, "answered again") != NULL);
    assert_true(number_behind("lock1 was killed, and started again empty after ") >= 0.2);
    assert_contains(result()->text, "with 0 keys");
    assert_answer(1, "DBSIZE", ":0");
}

TEST(a_wiped_node_is_empty_and_goes_on)
{
    pid_t before = nodes->servers[0].pid;
    assert_answer(0, "SET some value", "+OK");
    assert_answer(0, "SET other value", "+OK");
    start(&(struct dry_run_fault){.kind = DRY_RUN_FAULT_WIPE, .number = 0}, nodes);
    loop_await(loop, strstr(result()->text, "right after") != NULL);
    assert_string_equal(result()->text, "queue lost all its keys (FLUSHALL): 2 keys were there before, 0 right after");
    assert_answer(0, "DBSIZE", ":0");
    assert_int_equal(nodes->servers[0].pid, before);
}

static int64_t answer_time(unsigned number)
{
    struct instant asked = instant_now();
    assert_answer(number, "PING", "+PONG");
    return instant_since(asked, instant_now());
}

TEST(a_slow_node_is_slow_for_its_time)
{
    start(
        &(struct dry_run_fault){
            .kind = DRY_RUN_FAULT_SLOW, .number = 3, .amount_ns = 150 * NS_PER_MS, .lasts_ns = 400 * NS_PER_MS},
        nodes);
    loop_await(loop, result()->was_done);
    assert_true(answer_time(3) >= 150 * NS_PER_MS);
    loop_await(loop, strstr(result()->text, "an answer took ") != NULL);
    assert_true(number_behind("an answer took ") >= 150);
    assert_contains(result()->text, "150.0 ms longer");
    loop_await(loop, answer_time(3) < 150 * NS_PER_MS);
    assert_true(number_behind("each answer of lock3 took 150.0 ms longer for ") >= 0.4);
}

static int64_t ahead_s(unsigned number)
{
    long long seconds = 0;
    char *answer = ask(number, "TIME");
    assert_int_equal(sscanf(answer, "*2 $10 %lld", &seconds), 1);
    free(answer);
    return seconds - wall_now().us / US_PER_S;
}

TEST(a_clock_jumps_and_stays_so)
{
    start(&(struct dry_run_fault){.kind = DRY_RUN_FAULT_CLOCK, .number = 2, .amount_ns = 1000 * NS_PER_S}, nodes);
    loop_await(loop, strstr(result()->text, "TIME") != NULL);
    assert_true(result()->was_done);
    assert_contains(result()->text, "the clock of lock2 jumped by +1000.000 s: its TIME is off by +");
    double off = number_behind("its TIME is off by ");
    assert_true(off > 990 && off < 1010);
    assert_in_range(ahead_s(2), 990, 1010);
    assert_in_range(ahead_s(1) + 10, 0, 20);
    faults_undo(faults);
    assert_in_range(ahead_s(2), 990, 1010);
    *nodes->servers[2].clock_offset_ns = 0;
}

TEST(a_clock_that_is_off_for_a_while_is_right_again)
{
    start(
        &(struct dry_run_fault){
            .kind = DRY_RUN_FAULT_CLOCK, .number = 2, .amount_ns = -1000 * NS_PER_S, .lasts_ns = 100 * NS_PER_MS},
        nodes);
    loop_await(loop, strstr(result()->text, "and back after ") != NULL);
    assert_in_range(ahead_s(2) + 10, 0, 20);
    assert_true(number_behind("the clock of lock2 jumped by -1000.000 s, and back after ") >= 0.1);
}

/* The load ended long before its time. */
TEST(what_is_undone_early_tells_how_long_it_lasted)
{
    start(&(struct dry_run_fault){.kind = DRY_RUN_FAULT_STOP, .number = 1, .lasts_ns = 3600 * NS_PER_S}, nodes);
    loop_await(loop, result()->was_done);
    faults_undo(faults);
    assert_true(number_behind("lock1 was stopped for ") < 3600);
    faults_destroy(faults);
    start(
        &(struct dry_run_fault){
            .kind = DRY_RUN_FAULT_FREEZE, .at_worker = true, .number = 2, .lasts_ns = 3600 * NS_PER_S},
        NULL);
    loop_await(loop, result()->was_done);
    assert_string_equal(result()->text, "worker process 2 is stopped");
    faults_undo(faults);
    assert_true(number_behind("worker process 2 was stopped for ") < 3600);
}

TEST(workers_are_frozen_and_killed)
{
    start(
        &(struct dry_run_fault){
            .kind = DRY_RUN_FAULT_FREEZE, .at_worker = true, .number = 2, .lasts_ns = 50 * NS_PER_MS},
        NULL);
    loop_await(loop, strcmp(calls, "f2 t2 ") == 0);
    assert_true(number_behind("worker process 2 was stopped for ") >= 0);
    assert_true(result()->was_done);
    faults_destroy(faults);
    calls[0] = '\0';
    start(&(struct dry_run_fault){.kind = DRY_RUN_FAULT_KILL, .at_worker = true, .number = 1}, NULL);
    loop_await(loop, result()->was_done);
    faults_undo(faults);
    assert_string_equal(calls, "k1 ");
    assert_string_equal(result()->text, "worker process 1 was killed, and no other took its place");
}

TEST(a_worker_that_is_gone_is_told)
{
    is_gone = true;
    start(
        &(struct dry_run_fault){
            .kind = DRY_RUN_FAULT_FREEZE, .at_worker = true, .number = 2, .lasts_ns = 50 * NS_PER_MS},
        NULL);
    loop_await(loop, told == 1);
    assert_false(result()->was_done);
    assert_string_equal(result()->text, "worker process 2 does not run any more");
}

TEST(nodes_that_are_not_ours_are_left_alone)
{
    start(&(struct dry_run_fault){.kind = DRY_RUN_FAULT_WIPE, .number = 1}, NULL);
    loop_await(loop, told == 1);
    assert_false(result()->was_done);
    assert_contains(result()->text, "no such node of our own");
}

TEST(what_goes_on_is_undone)
{
    pid_t before = nodes->servers[1].pid;
    start(&(struct dry_run_fault){.kind = DRY_RUN_FAULT_STOP, .number = 1, .lasts_ns = LONG_MS * NS_PER_MS}, nodes);
    loop_await(loop, result()->was_done);
    faults_undo(faults);
    assert_answer(1, "PING", "+PONG");
    faults_destroy(faults);
    start(&(struct dry_run_fault){.kind = DRY_RUN_FAULT_KILL, .number = 1, .lasts_ns = LONG_MS * NS_PER_MS}, nodes);
    loop_await(loop, result()->was_done);
    faults_undo(faults);
    loop_await(loop, strstr(result()->text, "answered again") != NULL);
    assert_int_not_equal(nodes->servers[1].pid, before);
}

TEST(what_was_not_begun_is_not_done)
{
    start(&(struct dry_run_fault){.kind = DRY_RUN_FAULT_WIPE, .number = 1}, nodes);
    assert_answer(1, "SET some value", "+OK");
    faults_undo(faults);
    loop_for(loop, 3 * AT_MS * NS_PER_MS);
    assert_answer(1, "EXISTS some", ":1");
    assert_false(result()->was_done);
    assert_answer(1, "DEL some", ":1");
}

RUN_GROUP(group_setup, group_teardown, set_up, tear_down)
