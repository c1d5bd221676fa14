/* Worker processes whose tasks want the same locks: who waits holds nothing, runs in its turn, and gets the lock from
 * the hands of the one before. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "tests/support/contended.h"

#define LOCK(ttl, more)                                                                                                \
    "ttl = \"" ttl "\"; tries = 2; retry_delay = \"2ms\"; retry_jitter = \"4ms\"; prefix = \"lock:\"; " more

/* --- order -------------------------------------------------------------------------------------------------------- */

/* Who is claimed by whom, and in which order, is a matter of chance; the order of waiting is recorded by the node. */
TEST(several_hosts_run_what_waits_in_the_recorded_order)
{
    resource_hold("r1");
    for (unsigned i = 0; i < 3; i++)
        contended_start(&(struct fleet_setup){.threads = 2, .lock = LOCK("10s", "hand_over_tasks = 5;")});
    fleet_push_many(&fleet, "hold", 60, 1, 1);
    test_await(waiting_count("resource:r1") == 60 && fleet_number(&fleet, "LLEN queue:jobs") == 0);
    char *recorded = waiting_order("resource:r1");
    resource_free("r1");
    test_await(fleet_noted_all(&fleet, "end ") == 60);
    char *order = runs_order();
    assert_string_equal(order, recorded);
    assert_runs_alone();
    test_await(waiting_count("resource:r1") == 0);
    free(order);
    free(recorded);
}

/* How often another host went on. */
static unsigned turns_of_hosts(void)
{
    unsigned count, turns = 0;
    struct run *runs = runs_read(&count);
    for (unsigned i = 1; i < count; i++)
        turns += strcmp(runs[i].host, runs[i - 1].host) != 0;
    free(runs);
    return turns;
}

/* How many tasks in a row got their lock from the one before, at most. */
static unsigned longest_chain(unsigned worker)
{
    char *log = fleet_log(&fleet, worker), *rest = log, *line;
    unsigned longest = 0, row = 0;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (strstr(line, " task_started ") != NULL)
            row = strstr(line, " handed_from=") != NULL ? row + 1 : 0;
        longest = row > longest ? row : longest;
    }
    free(log);
    return longest;
}

TEST(after_a_chain_of_hand_overs_another_host_has_its_turn)
{
    enum { TASKS = 40, CHAIN = 4 };
    resource_hold("r1");
    for (unsigned i = 0; i < 2; i++)
        contended_start(
            &(struct fleet_setup){.threads = 1, .lock = LOCK("10s", "hand_over_tasks = 4; hand_over_time = \"1m\";")});
    fleet_push_many(&fleet, "hold", TASKS, 10, 1);
    test_await(waiting_count("resource:r1") == TASKS);
    resource_free("r1");
    test_await(fleet_noted_all(&fleet, "end ") == TASKS);
    assert_runs_alone();
    assert_true(turns_of_hosts() > 0);
    unsigned first = longest_chain(0), second = longest_chain(1);
    assert_int_equal(first > second ? first : second, CHAIN - 1);
}

/* --- hand-over ---------------------------------------------------------------------------------------------------- */

/* How often a lock node was asked for a lock; inspections of the nodes are scripts as well. */
static unsigned grants_asked_for(void)
{
    return lock_cluster_calls(&fleet.locks, "set");
}

TEST(what_waits_behind_its_own_process_asks_no_lock_node)
{
    contended_start(&(struct fleet_setup){.threads = 4, .lock = LOCK("1m", "")});
    contended_push("first", UNTIL_CANCELLED, "r");
    test_await(fleet_noted_all(&fleet, "begin first") == 1);
    statistics_reset();
    struct instant reset = instant_now();
    for (unsigned i = 0; i < 20; i++) {
        char jid[16];
        snprintf(jid, sizeof jid, "t%u", i);
        contended_push(jid, "[0]", "r");
    }
    test_await(waiting_count("resource:r") == 20 && fleet_number(&fleet, "LLEN queue:jobs") == 0);
    assert_int_equal(grants_asked_for(), 0);
    operator_runs("cancel", "first");
    test_await(fleet_noted_all(&fleet, "end ") == 21);
    assert_runs_alone();
    /* One round for each that took over, and one for the release of the last; inspections are seconds apart. */
    test_await(lock_cluster_holders(&fleet.locks, "lock:r") == 0);
    uint64_t inspections = 1 + (uint64_t)(instant_since(reset, instant_now()) / NS_PER_S);
    assert_in_range(lock_node_scripts(), 1, (21 + 1 + inspections) * fleet.locks.count);
}

/* --- several holders ---------------------------------------------------------------------------------------------- */

/* Other programs have two seats of three. */
TEST(as_many_tasks_run_as_there_are_seats)
{
    enum { TASKS = 12 };
    static const char classes[] = "{ class = \"hold\"; limit = 3; }";
    resource_hold("r");
    resource_hold("hf:seat:3:r");
    for (unsigned i = 0; i < 2; i++)
        contended_start(&(struct fleet_setup){.threads = 4, .classes = classes, .lock = LOCK("10s", "")});
    contended_push("first", UNTIL_CANCELLED, "r");
    test_await(fleet_noted_all(&fleet, "begin first") == 1);
    for (unsigned i = 0; i < TASKS; i++) {
        char jid[16];
        snprintf(jid, sizeof jid, "t%u", i);
        contended_push(jid, UNTIL_CANCELLED, "r");
    }
    test_await(waiting_count("seats:r") == TASKS && fleet_number(&fleet, "LLEN queue:jobs") == 0);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), 1);
    resource_free("--seat 1 r");
    test_await(fleet_noted_all(&fleet, "begin ") == 2);
    resource_free("--seat 3 r");
    test_await(fleet_noted_all(&fleet, "begin ") == 3);
    for (unsigned seat = 1; seat <= 3; seat++)
        test_await(lock_cluster_holders(&fleet.locks, seat == 1   ? "lock:r"
                                                      : seat == 2 ? "lock:hf:seat:2:r"
                                                                  : "lock:hf:seat:3:r") == fleet.locks.count);
}

/* --- names -------------------------------------------------------------------------------------------------------- */

TEST(resources_may_be_called_like_keys_but_not_like_ours)
{
    static const char *const names[] = {"schedule", "class:hold", "queue:jobs", "resource:r"};
    enum { NAMES = sizeof names / sizeof names[0] };
    contended_start(NULL);
    contended_push("ours", "[0]", "hf:2:processes");
    test_await(fleet_number(&fleet, "ZCARD dead") == 1);
    for (unsigned i = 0; i < NAMES; i++) {
        char list[64];
        resource_hold(names[i]);
        contended_push(names[i], "[0]", names[i]);
        snprintf(list, sizeof list, "resource:%s", names[i]);
        test_await(waiting_count(list) == 1);
    }
    assert_int_equal(fleet_number(&fleet, "ZCARD schedule"), NAMES);
    for (unsigned i = 0; i < NAMES; i++)
        resource_free(names[i]);
    test_await(fleet_left(&fleet) == 1);
    assert_int_equal(fleet_noted_all(&fleet, "end "), NAMES);
    assert_int_equal(fleet_number(&fleet, "ZCARD hf:2:processes"), 1);
}

/* --- who waits costs nothing -------------------------------------------------------------------------------------- */

TEST(who_waits_has_neither_a_runner_nor_a_retry)
{
    resource_hold("r");
    contended_start(&(struct fleet_setup){.threads = 1});
    fleet_push(&fleet, "{\"class\":\"hold\",\"args\":[0],\"jid\":\"fresh\",\"queue\":\"jobs\",\"resource\":\"r\"}");
    fleet_push(&fleet, "{\"class\":\"hold\",\"args\":[0],\"jid\":\"tried\",\"queue\":\"jobs\",\"resource\":\"r\","
                       "\"retry\":3,\"retry_count\":2}");
    contended_push("free", "[0]", "s");
    test_await(fleet_noted_all(&fleet, "end free") == 1);
    char *order = waiting_order("resource:r"), *parked = fleet_ask(&fleet, "ZRANGE schedule 0 -1");
    assert_string_equal(order, "fresh tried ");
    assert_contains(parked, "\"retry\":3,\"retry_count\":2");
    assert_lacks(parked, "\"retry_count\":0");
    assert_lacks(parked, "\"retry_count\":3");
    assert_lacks(parked, "error_");
    assert_int_equal(fleet_number(&fleet, "EXISTS retry dead"), 0);
    resource_free("r");
    test_await(fleet_noted_all(&fleet, "end ") == 3);
    assert_int_equal(fleet_number(&fleet, "EXISTS retry dead"), 0);
    free(order);
    free(parked);
}

/* How often tasks were parked before the log tells that. */
static unsigned parked_before(const char *event)
{
    char *log = fleet_log(&fleet, 0), *end = strstr(log, event);
    unsigned count = 0;
    assert_non_null(end);
    for (char *at = log; (at = strstr(at, "ending=parked")) != NULL && at < end; at++)
        count++;
    free(log);
    return count;
}

TEST(behind_a_hot_resource_others_start_when_each_was_parked_once)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    enum { CROWD = 2000 }; /* parking more takes so long that the oldest looks again */
#else
    enum { CROWD = 10000 };
#endif
    resource_hold("r1");
    fleet_push_many(&fleet, "hold", CROWD, 0, 1);
    contended_push("other", "[0]", "s");
    contended_start(&(struct fleet_setup){.threads = 1, .lock = LOCK("1m", "")});
    test_await(fleet_noted_all(&fleet, "end other") == 1);
    /* The oldest looks again once its worker listens for the release of what holds the lock. */
    assert_in_range(parked_before("task_started jid=other"), CROWD, CROWD + 1);
    assert_int_equal(waiting_count("resource:r1"), CROWD);
}

TEST(a_class_has_no_more_than_its_share_of_the_runners)
{
    contended_start(
        &(struct fleet_setup){.plugin = "witness", .threads = 4, .classes = "{ class = \"careful\"; share = 50; }"});
    fleet_push_many(&fleet, "careful", 6, 600000, 0);
    test_await(waiting_count("class:careful") == 4);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[0],\"jid\":\"note\"}");
    test_await(fleet_noted(&fleet, "end note") == 1);
    for (unsigned ended = 0; ended < 6; ended++) {
        unsigned began = 0;
        test_await(fleet_noted_all(&fleet, "begin t") == (ended < 4 ? ended + 2 : 6));
        struct run *runs = runs_read(&began);
        unsigned next = 0; /* of the careful ones; the note may have begun before them */
        for (unsigned left = ended; left > 0 || strcmp(runs[next].jid, "note") == 0; next++)
            left -= strcmp(runs[next].jid, "note") != 0;
        operator_runs("cancel", runs[next].jid);
        test_await(fleet_noted_all(&fleet, "stopped ") == ended + 1);
        free(runs);
    }
    test_await(waiting_count("class:careful") == 0); /* a run may begin before its position is taken away */
}

/* --- what it costs ------------------------------------------------------------------------------------------------ */

/* What processes send when nothing happens, but for an INFO with each beat, which this test sends as well; other
 * commands are run by these scripts. */
static unsigned commands_sent(void)
{
    static const char *const names[] = {"evalsha", "eval", "blmove", "brpop"};
    unsigned count = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        count += redis_server_calls(fleet.queue, names[i]) + lock_cluster_calls(&fleet.locks, names[i]);
    return count;
}

static void wait_for(int64_t ns)
{
    struct instant end = instant_after(instant_now(), ns);
    test_await(instant_reached(instant_now(), end));
}

/* Some nodes are asked a little after the majority that decided. */
static bool lock_nodes_are_quiet(void)
{
    unsigned before = lock_node_scripts();
    wait_for(200 * NS_PER_MS);
    return lock_node_scripts() == before;
}

/* These are the looks at what is due, twice a second for all together, the beats of processes that have nothing to do,
 * and their inspections of the lock nodes. When it has waited for 15 s, and again and again, the oldest has a try, of
 * two passes; so there is none here, unless the machine is slow. */
TEST(ten_thousand_that_wait_cost_next_to_nothing)
{
    enum { CROWD = 10000, PROCESSES = 4, SECONDS = 10, TRY = 2 * 5, TRY_EVERY_S = 15 };
    resource_hold("r1");
    fleet_push_many(&fleet, "hold", CROWD, 0, 1);
    struct instant began = instant_now();
    for (unsigned i = 0; i < PROCESSES; i++)
        contended_start(&(struct fleet_setup){.threads = 8, .lock = LOCK("1m", "")});
    test_await(waiting_count("resource:r1") == CROWD && fleet_number(&fleet, "ZCARD schedule") == CROWD);
    test_await(lock_nodes_are_quiet());
    statistics_reset();
    struct instant reset = instant_now();
    wait_for(SECONDS * NS_PER_S);
    unsigned asked_for = grants_asked_for(), commands = commands_sent();
    unsigned tries = (unsigned)(instant_since(began, instant_now()) / (TRY_EVERY_S * NS_PER_S));
    assert_in_range(asked_for, 0, tries * TRY);
    assert_in_range(commands, 1, 10 * (uint64_t)instant_since(reset, instant_now()) / NS_PER_S);
}

/* --- beside other programs ---------------------------------------------------------------------------------------- */

/* A plain Redlock client, which announces no release. */
static bool other_takes(const char *resource)
{
    unsigned granted = 0;
    for (unsigned i = 0; i < fleet.locks.count; i++)
        granted += strcmp(lock_cluster_ask(&fleet.locks, i, "SET lock:%s plain NX PX 600000", resource), "OK") == 0;
    return granted > fleet.locks.count / 2;
}

/* Also what it got at a minority. */
static void other_releases(const char *resource)
{
    for (unsigned i = 0; i < fleet.locks.count; i++)
        if (strcmp(lock_cluster_ask(&fleet.locks, i, "GET lock:%s", resource), "plain") == 0)
            lock_cluster_ask(&fleet.locks, i, "DEL lock:%s", resource);
}

TEST(what_another_program_gives_back_early_is_found_long_before_its_ttl)
{
    assert_true(other_takes("r"));
    contended_start(&(struct fleet_setup){.threads = 2, .lock = LOCK("1m", "")});
    contended_push("waits", "[0,1]", "r");
    test_await(waiting_count("resource:r") == 1);
    other_releases("r");
    test_await(fleet_noted_all(&fleet, "end waits") == 1);
}

/* A program with libredlock on the same nodes and prefix. It knows no queue node that could wake the task. */
TEST(locks_of_tasks_and_of_programs_exclude_each_other)
{
    struct loop *loop = loop_create(NULL);
    struct redlock_group *group = lock_cluster_group(&fleet.locks, loop);
    struct redlock_terms terms = quick_terms(50000, 1);
    struct lock_probe program;
    lock_probe_create(&program, loop, group, &terms);
    contended_start(&(struct fleet_setup){.threads = 2, .lock = LOCK("1m", "")});
    contended_push("holds", UNTIL_CANCELLED, "a");
    test_await(fleet_noted_all(&fleet, "begin holds") == 1);
    assert_int_equal(lock_probe_acquire(&program, "a"), REDLOCK_BUSY);
    assert_int_equal(lock_probe_acquire(&program, "b"), REDLOCK_ACQUIRED);
    contended_push("waits", "[0,1]", "b");
    test_await(waiting_count("resource:b") == 1);
    assert_int_equal(fleet_noted_all(&fleet, "begin waits"), 0);
    assert_int_equal(lock_probe_release(&program), REDLOCK_RELEASED);
    struct instant released_at = instant_now();
    test_await(fleet_noted_all(&fleet, "end waits") == 1);
    assert_true(instant_since(released_at, instant_now()) < 30 * NS_PER_S); /* else after 50 s */
    lock_probe_destroy(&program);
    loop_await(loop, redlock_group_busy(group) == 0);
    redlock_group_destroy(group);
    loop_destroy(loop);
}

/* By luck it gets the lock once in some hundred tasks. */
TEST(a_line_of_tasks_leaves_turns_to_another_program)
{
    enum { TASKS = 600, TURNS = 3 };
    unsigned turns = 1;
    assert_true(other_takes("r1"));
    for (unsigned i = 0; i < 2; i++)
        contended_start(&(struct fleet_setup){.threads = 2, .lock = LOCK("10s", "")});
    fleet_push_many(&fleet, "hold", TASKS, 5, 1);
    test_await(waiting_count("resource:r1") > 0);
    while (turns < TURNS && fleet_noted_all(&fleet, "end ") < TASKS) {
        other_releases("r1");
        wait_for(20 * NS_PER_MS);
        turns += other_takes("r1");
    }
    other_releases("r1");
    assert_int_equal(turns, TURNS);
    test_await(fleet_noted_all(&fleet, "end ") == TASKS);
    assert_runs_alone();
}

RUN_FLEET_TESTS
