/* What goes wrong while tasks wait for locks: processes die at every step of a hand-over, the queue node restarts,
 * operators and foreign schedulers interfere, clocks differ, locks are lost. No task is lost, and none waits for
 * ever. */
#include "tests/support/test.h"

#include <stdio.h>

#include "base/buffer.h"
#include "tests/support/contended.h"

#define SHORT_TTL "ttl = \"1s\"; tries = 2; retry_delay = \"2ms\"; retry_jitter = \"4ms\"; prefix = \"lock:\"; "
#define LEASED    "lease = \"1s\"; "

static bool is_noted(const char *beginning)
{
    return fleet_noted_all(&fleet, beginning) > 0;
}

static unsigned claimed(void)
{
    return fleet_left(&fleet) - (unsigned)fleet_number(&fleet, "ZCARD schedule") -
           (unsigned)fleet_number(&fleet, "LLEN queue:jobs");
}

/* One that holds r until it is cancelled, and so many that wait for it, of which the first is claimed as its heir. */
static unsigned given_a_holder_with_an_heir(const struct fleet_setup *setup, unsigned waiters)
{
    unsigned worker = contended_start(setup);
    contended_push("first", UNTIL_CANCELLED, "r");
    test_await(is_noted("begin first"));
    for (unsigned i = 1; i <= waiters; i++) {
        char jid[16];
        snprintf(jid, sizeof jid, "t%u", i);
        contended_push(jid, "[0]", "r");
        test_await(waiting_count("resource:r") == i);
    }
    test_await(claimed() == 2);
    return worker;
}

/* --- processes die ------------------------------------------------------------------------------------------------ */

static void a_holder_that_is_killed_with_its_heir_claimed_loses_nothing(void **state)
{
    (void)state;
    struct fleet_setup setup = {.worker = LEASED, .lock = SHORT_TTL};
    unsigned worker = given_a_holder_with_an_heir(&setup, 3);
    fleet_signal(&fleet, worker, SIGKILL);
    fleet_wait(&fleet, worker);
    operator_runs("cancel", "first");
    contended_start(&setup);
    test_await(fleet_noted_all(&fleet, "end t") == 3);
    test_await(fleet_left(&fleet) == 0);
    unsigned count;
    struct run *runs = runs_read(&count);
    assert_int_equal(count, 4);
    for (unsigned i = 1; i < count; i++)
        assert_true(runs[i].token > runs[i - 1].token);
    free(runs);
}

/* The end of the lease of a process, in milliseconds from now by the queue node's clock. */
static long long lease_left_ms(unsigned worker)
{
    char pattern[32];
    snprintf(pattern, sizeof pattern, "host%u:", worker);
    return fleet_number(&fleet,
                        "EVAL \"local t = redis.call('TIME') local all = redis.call('ZRANGE', KEYS[1], 0, -1, "
                        "'WITHSCORES') for i = 1, #all, 2 do if all[i]:find(ARGV[1], 1, true) == 1 then return "
                        "math.floor((all[i + 1] - t[1]) * 1000) end end return -1\" 1 hf:2:processes %s",
                        pattern);
}

/* It has claimed the next in line already. That one starts elsewhere when the lock is over, and not when the lease of
 * the process is, which would be a minute later. */
static void a_holder_that_is_stopped_keeps_nobody_waiting_beyond_its_lock(void **state)
{
    (void)state;
    struct fleet_setup setup = {.worker = "lease = \"60s\"; ", .lock = SHORT_TTL, .threads = 3};
    unsigned stopped = given_a_holder_with_an_heir(&setup, 2);
    unsigned other = contended_start(&setup);
    fleet_signal(&fleet, stopped, SIGSTOP);
    test_await(is_noted("end t1") && is_noted("end t2"));
    test_await(fleet_left(&fleet) == 1);
    assert_true(lease_left_ms(stopped) > 0);
    fleet_signal(&fleet, stopped, SIGCONT); /* it hears that its heir is another's, and tells it once */
    test_await(fleet_logged(&fleet, stopped, "ending=claim_lost jid=t1"));
    test_await(fleet_number(&fleet, "ZCARD retry") == 1); /* the first has lost its lock */
    operator_runs("tasks", "delete first --place retry");
    test_await(fleet_left(&fleet) == 0);
    unsigned count;
    struct run *runs = runs_read(&count);
    assert_int_equal(count, 3);
    assert_string_equal(run_of("t1").host, runs[1].host);
    assert_string_equal(run_of("t2").host, runs[1].host);
    for (unsigned i = 1; i < count; i++)
        assert_true(runs[i].token > runs[i - 1].token);
    free(runs);
    char *log = fleet_log(&fleet, stopped);
    const char *lost = strstr(log, "ending=claim_lost jid=t1");
    assert_null(strstr(lost + 1, "ending=claim_lost jid=t1"));
    free(log);
    fleet_signal(&fleet, other, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, other), 0);
}

/* Every request of parking, handing over and freeing; of the locks' the second round, which changes hands. */
static const struct {
    const char *fault, *classes;
} points[] = {
    {"park:before:1", ""},
    {"park:after:1", ""},
    {"park:after:3", ""},
    {"heir:before:1", ""},
    {"heir:after:1", ""},
    {"heir:after:2", ""},
    {"grant:before:4", ""},
    {"grant:before:5", ""},
    {"grant:after:4", ""},
    {"grant:after:6", ""},
    {"free:before:1", "{ class = \"hold\"; mode = \"efficiency\"; hold_at_least = \"300ms\"; }"},
    {"free:after:1", "{ class = \"hold\"; mode = \"efficiency\"; hold_at_least = \"300ms\"; }"},
    {"skip:before:1", "{ class = \"hold\"; mode = \"efficiency\"; on_conflict = \"skip\"; }"},
    {"skip:after:1", "{ class = \"hold\"; mode = \"efficiency\"; on_conflict = \"skip\"; }"},
};

enum { POINTS = sizeof points / sizeof points[0], TASKS = 5 };

static void start_to_die(unsigned point)
{
    char queue[16], fault[64], resource[16];
    snprintf(queue, sizeof queue, "q%u", point);
    snprintf(fault, sizeof fault, "%s:kill", points[point].fault);
    snprintf(resource, sizeof resource, "r%u", point);
    for (unsigned i = 0; i < TASKS; i++) {
        char jid[32];
        snprintf(jid, sizeof jid, "p%ut%u", point, i);
        contended_push_to(queue, "hold", jid, "[100]", resource);
    }
    snprintf(queue, sizeof queue, "\"q%u\"", point);
    contended_start(&(struct fleet_setup){.threads = 2,
                                          .worker = LEASED,
                                          .lock = SHORT_TTL,
                                          .queues = queue,
                                          .fault = fault,
                                          .classes = points[point].classes});
}

static void start_cleaner(void)
{
    struct buffer queues = {0};
    for (unsigned i = 0; i < POINTS; i++)
        buffer_format(&queues, "%s\"q%u\"", i > 0 ? ", " : "", i);
    contended_start(
        &(struct fleet_setup){.threads = 16, .worker = LEASED, .lock = SHORT_TTL, .queues = buffer_text(&queues)});
    buffer_fini(&queues);
}

static void killed_at_every_request_of_waiting_nothing_is_lost(void **state)
{
    (void)state;
    for (unsigned i = 0; i < POINTS; i++)
        start_to_die(i);
    for (unsigned i = 0; i < POINTS; i++) {
        int end = fleet_wait(&fleet, i);
        if (end != -SIGKILL)
            fail_msg("%s: it was not killed there, but ended with %d", points[i].fault, end);
    }
    start_cleaner();
    test_await(fleet_left(&fleet) == 0);
    for (unsigned i = 0; i < POINTS; i++)
        for (unsigned task = 0; task < TASKS; task++) {
            char line[32];
            snprintf(line, sizeof line, "end p%ut%u ", i, task);
            unsigned ends = fleet_noted_all(&fleet, line);
            if (ends > 2 || (ends == 0 && strncmp(points[i].fault, "skip", 4) != 0))
                fail_msg("%s: %s: %u times", points[i].fault, line, ends);
        }
}

/* --- the queue node ----------------------------------------------------------------------------------------------- */

/* They are long: told is where they part. */
static void assert_same_order(const char *order, const char *recorded)
{
    size_t same = 0, word = 0;
    for (; order[same] != '\0' && order[same] == recorded[same]; same++)
        if (order[same] == ' ')
            word = same + 1;
    if (order[same] != recorded[same])
        fail_msg("they ran as %.60s..., and not as %.60s...", order + word, recorded + word);
}

/* Two hosts, and so many that wait for r1, which another program holds; the order in which they were recorded. */
static char *given_a_crowd(unsigned count)
{
    resource_hold("r1");
    for (unsigned i = 0; i < 2; i++)
        contended_start(&(struct fleet_setup){.plugin = "witness"});
    fleet_push_many(&fleet, "guarded", count, 0, 1);
    test_await(waiting_count("resource:r1") == count && fleet_number(&fleet, "LLEN queue:jobs") == 0);
    return waiting_order("resource:r1");
}

/* All of them, one after the other; frees the order. */
static void assert_crowd_ran(unsigned count, char *recorded)
{
    test_await(fleet_noted_all(&fleet, "end ") == count);
    char *order = runs_order();
    assert_same_order(order, recorded);
    assert_int_equal(fleet_noted_all(&fleet, "clash"), 0);
    test_await(fleet_left(&fleet) == 0);
    free(order);
    free(recorded);
}

static void the_queue_node_restarts_with_thousands_parked(void **state)
{
    (void)state;
    enum { CROWD = 3000 };
    char *recorded = given_a_crowd(CROWD);
    redis_server_restart(fleet.queue);
    assert_int_equal(waiting_count("resource:r1"), CROWD);
    resource_free("r1");
    assert_crowd_ran(CROWD, recorded);
}

/* --- lock nodes stutter ------------------------------------------------------------------------------------------- */

static unsigned told(const char *event)
{
    unsigned count = 0;
    for (unsigned i = 0; i < fleet.worker_count; i++) {
        char *log = fleet_log(&fleet, i);
        for (const char *at = log; (at = strstr(at, event)) != NULL; at++)
            count++;
        free(log);
    }
    return count;
}

/* Whom a majority does not answer in time gets nothing, and goes back to its place; its heir, which is claimed by then
 * and would get it from nodes that answer again, is not to go first. */
static void nodes_that_stutter_change_nobodys_turn(void **state)
{
    (void)state;
    enum { CROWD = 600, STEP = 30 };
    char *recorded = given_a_crowd(CROWD);
    resource_free("r1");
    for (unsigned ended = STEP; ended < CROWD; ended += STEP) {
        test_await(fleet_noted_all(&fleet, "end ") >= ended);
        /* A node that is still taken for silent would not be told of again. */
        test_await(told("lock_node_answers") == told("lock_node_silent") || fleet_noted_all(&fleet, "end ") == CROWD);
        unsigned before = told("lock_node_silent");
        for (unsigned i = 0; i < 2; i++)
            redis_server_pause(fleet.locks.servers[i]);
        test_await(told("lock_node_silent") > before || fleet_noted_all(&fleet, "end ") == CROWD);
        for (unsigned i = 0; i < 2; i++)
            redis_server_resume(fleet.locks.servers[i]);
    }
    assert_crowd_ran(CROWD, recorded);
}

/* --- others interfere --------------------------------------------------------------------------------------------- */

/* Two hosts; t1 to t<count> wait in this order. */
static void given_waiters(unsigned count)
{
    resource_hold("r");
    for (unsigned i = 0; i < 2; i++)
        contended_start(NULL);
    for (unsigned i = 1; i <= count; i++) {
        char jid[16];
        snprintf(jid, sizeof jid, "t%u", i);
        contended_push(jid, "[0]", "r");
        test_await(waiting_count("resource:r") == i);
    }
}

static void assert_run_and_gone(const char *order)
{
    test_await(fleet_left(&fleet) == 0);
    char *ran = runs_order();
    assert_string_equal(ran, order);
    assert_runs_alone();
    assert_int_equal(waiting_count("resource:r"), 0);
    free(ran);
}

static void who_is_cancelled_while_it_waits_lets_the_next_pass(void **state)
{
    (void)state;
    given_waiters(5);
    operator_runs("cancel", "t1");
    operator_runs("cancel", "t3");
    resource_free("r");
    assert_run_and_gone("t2 t4 t5 ");
}

static void who_is_deleted_while_it_waits_is_missed_by_nobody(void **state)
{
    (void)state;
    given_waiters(5);
    operator_runs("tasks", "delete t1 t3 --place schedule");
    resource_free("r");
    assert_run_and_gone("t2 t4 t5 ");
}

/* As Sidekiq's poller does: it keeps its place, whatever time it was due. */
static void what_a_foreign_scheduler_promotes_comes_back_to_its_place(void **state)
{
    (void)state;
    given_waiters(5);
    assert_int_equal(fleet_number(&fleet, "EVAL \"local moved = 0 "
                                          "for _, task in ipairs(redis.call('ZRANGE', 'schedule', 0, -1)) do "
                                          "if task:find('t[234]') then redis.call('ZREM', 'schedule', task) "
                                          "redis.call('LPUSH', 'queue:jobs', task) moved = moved + 1 end "
                                          "end return moved\" 0"),
                     3);
    test_await(fleet_number(&fleet, "ZCARD schedule") == 5);
    char *order = waiting_order("resource:r");
    assert_string_equal(order, "t1 t2 t3 t4 t5 ");
    resource_free("r");
    assert_run_and_gone("t1 t2 t3 t4 t5 ");
    free(order);
}

/* The second has no place: it comes back when the lock, as it was known, should be over, or somebody brings it. */
static void two_tasks_of_one_jid_both_run(void **state)
{
    (void)state;
    given_waiters(2);
    fleet_push(&fleet, "{\"class\":\"hold\",\"args\":[0,0],\"jid\":\"t1\",\"resource\":\"r\"}");
    test_await(fleet_number(&fleet, "ZCARD schedule") == 3);
    resource_free("r");
    test_await(fleet_left(&fleet) == 1 && is_noted("end t1") && is_noted("end t2"));
    assert_int_equal(fleet_number(&fleet,
                                  "EVAL \"local twin = redis.call('ZPOPMIN', 'schedule') "
                                  "redis.call('LPUSH', 'queue:jobs', twin[1]) return twin[2] + 0 > "
                                  "redis.call('TIME')[1] + 0 and redis.call('TIME')[1] + 601 > twin[2] + 0 and 1\" 0"),
                     1);
    test_await(fleet_left(&fleet) == 0);
    assert_int_equal(fleet_noted_all(&fleet, "end t1"), 2);
    assert_int_equal(fleet_noted_all(&fleet, "end t2"), 1);
    assert_runs_alone();
}

/* As it is found when somebody copies an entry of `schedule` back into its queue: it is parked as it is. */
static void two_tasks_of_the_same_bytes_both_run(void **state)
{
    (void)state;
    given_waiters(1);
    for (int i = 0; i < 2; i++)
        fleet_push(&fleet, "{\"class\":\"hold\",\"args\":[0],\"jid\":\"twin\",\"queue\":\"jobs\",\"resource\":\"r\","
                           "\"hf_parked\":1.5,\"hf_line\":\"resource:r\"}");
    test_await(fleet_number(&fleet, "LLEN queue:jobs") == 0 && waiting_count("resource:r") == 2 && claimed() == 0);
    assert_int_equal(fleet_number(&fleet, "ZCARD schedule"), 3);
    resource_free("r");
    test_await(is_noted("end t1"));
    fleet_number(&fleet,
                 "EVAL \"for _, task in ipairs(redis.call('ZRANGE', 'schedule', 0, -1)) do "
                 "redis.call('ZREM', 'schedule', task) redis.call('LPUSH', 'queue:jobs', task) end return 1\" 0");
    test_await(fleet_left(&fleet) == 0);
    assert_int_equal(fleet_noted_all(&fleet, "end twin"), 2);
    assert_runs_alone();
}

static void resources_may_be_called_like_keys_but_not_like_ours(void **state)
{
    (void)state;
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

/* --- clocks ------------------------------------------------------------------------------------------------------- */

static void clocks_of_hosts_may_be_hours_apart(void **state)
{
    (void)state;
    if (!FLEET_HAS_CLOCKS)
        skip();
    resource_hold("r1");
    contended_start(&(struct fleet_setup){.threads = 2, .ahead_ns = 3600 * NS_PER_S});
    contended_start(&(struct fleet_setup){.threads = 2, .ahead_ns = -3600 * NS_PER_S});
    fleet_push_many(&fleet, "hold", 20, 0, 1);
    test_await(waiting_count("resource:r1") == 20 && fleet_number(&fleet, "LLEN queue:jobs") == 0);
    char *recorded = waiting_order("resource:r1");
    resource_free("r1");
    test_await(fleet_noted_all(&fleet, "end ") == 20);
    char *order = runs_order();
    assert_string_equal(order, recorded);
    assert_runs_alone();
    free(order);
    free(recorded);
}

/* --- locks are lost, workers stop --------------------------------------------------------------------------------- */

/* Somebody else has it by then: the heir takes nothing over, and waits. */
static void a_lock_that_is_lost_is_not_handed_over(void **state)
{
    (void)state;
    given_a_holder_with_an_heir(NULL, 2);
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "SET lock:r thief PX 60000");
    operator_runs("cancel", "first");
    test_await(is_noted("end first") && claimed() == 0);
    test_await(fleet_logged(&fleet, 0, "ending=parked jid=t1"));
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:r"), 3);
    assert_false(is_noted("begin t"));
    resource_free("r");
    test_await(fleet_noted_all(&fleet, "end t") == 2);
    assert_runs_alone();
}

static void a_lock_that_is_deleted_goes_to_the_heir_or_to_nobody(void **state)
{
    (void)state;
    given_a_holder_with_an_heir(NULL, 3);
    lock_cluster_take_away(&fleet.locks, "lock:r");
    operator_runs("cancel", "first");
    test_await(fleet_noted_all(&fleet, "end t") == 3);
    assert_runs_alone();
}

/* Its handler goes on for long: the heir is left to others, and so is the lock. */
static void a_lock_that_is_lost_under_its_handler_is_not_kept_from_others(void **state)
{
    (void)state;
    unsigned worker = contended_start(NULL);
    contended_push("first", "[600000,1,600000]", "r");
    test_await(is_noted("begin first"));
    contended_push("t1", "[0]", "r");
    test_await(waiting_count("resource:r") == 1 && claimed() == 2);
    lock_cluster_take_away(&fleet.locks, "lock:r");
    test_await(is_noted("lost first"));
    test_await(fleet_logged(&fleet, worker, "ending=parked jid=t1"));
    fleet_signal(&fleet, worker, SIGTSTP); /* or it may be the one that claims it again, each time, and parks it */
    contended_start(NULL);
    test_await(is_noted("end t1"));
    assert_false(is_noted("end first"));
    fleet_signal(&fleet, worker, SIGKILL);
    fleet_wait(&fleet, worker);
}

static void lock_nodes_have_memory(bool have)
{
    for (unsigned i = 1; i < fleet.locks.count; i++)
        assert_string_equal(lock_cluster_ask(&fleet.locks, i, "CONFIG SET maxmemory %d", have ? 0 : 1), "OK");
}

/* Somebody has r at all lock nodes, and goes without a word, as what is left of a lock does when its late release
 * arrives. Who waits for it believes in a holder; until when, in seconds of the queue node's clock, is the answer. */
static long long given_who_believes_in_a_holder(const char *jid)
{
    for (unsigned i = 0; i < fleet.locks.count; i++)
        assert_string_equal(lock_cluster_ask(&fleet.locks, i, "SET lock:r left PX 29000"), "OK");
    contended_push(jid, "[0]", "r");
    test_await(waiting_count("resource:r") == 1);
    for (unsigned i = 0; i < fleet.locks.count; i++)
        assert_string_equal(lock_cluster_ask(&fleet.locks, i, "DEL lock:r"), "1");
    return fleet_number(&fleet, "EVAL \"return math.floor(redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])\" 1 "
                                "schedule");
}

/* It was refused, and nobody knows whether nodes have granted it, and refuse others for that: those are woken, and need
 * not wait until a ttl is over. */
static void whom_the_rest_of_a_refused_lock_may_have_refused_is_woken(void **state)
{
    (void)state;
    contended_start(NULL);
    contended_start(&(struct fleet_setup){.queues = "\"others\""});
    contended_push_to("others", "hold", "warm", "[0]", "elsewhere");
    test_await(is_noted("end warm"));
    long long believed_until = given_who_believes_in_a_holder("waits");
    lock_nodes_have_memory(false);
    contended_push_to("others", "hold", "asks", "[0]", "r");
    test_await(waiting_count("resource:r") == 2);
    lock_nodes_have_memory(true);
    test_await(is_noted("end waits"));
    assert_true(fleet_number(&fleet, "EVAL \"return tonumber(redis.call('TIME')[1])\" 0") < believed_until);
    test_await(is_noted("end asks"));
}

/* What is claimed goes back, what is parked stays; whoever comes next goes on in the same order. */
static void a_worker_that_stops_leaves_what_waits_in_order(void **state)
{
    (void)state;
    unsigned worker = given_a_holder_with_an_heir(&(struct fleet_setup){.worker = "stop_timeout = \"100ms\"; "}, 4);
    fleet_signal(&fleet, worker, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_left(&fleet), 4); /* the first has ended when it was told to */
    assert_int_equal(lock_cluster_keys(&fleet.locks), 0);
    char *kept = fleet_ask(&fleet, "EVAL \"local left = {} for _, key in ipairs(redis.call('KEYS', 'hf:*')) do "
                                   "if not (key:find('^hf:2:waiting:') or key:find('^hf:2:places:') or key == "
                                   "'hf:2:contended' or redis.call('PTTL', key) > 0) "
                                   "then left[#left + 1] = key end end return left\" 0");
    assert_string_equal(kept, "");
    contended_start(NULL);
    test_await(fleet_left(&fleet) == 0);
    char *order = runs_order();
    assert_string_equal(order, "first t1 t2 t3 t4 ");
    assert_int_equal(waiting_count("resource:r"), 0);
    free(order);
    free(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        fleet_test(a_holder_that_is_killed_with_its_heir_claimed_loses_nothing),
        fleet_test(a_holder_that_is_stopped_keeps_nobody_waiting_beyond_its_lock),
        fleet_test(killed_at_every_request_of_waiting_nothing_is_lost),
        fleet_test(the_queue_node_restarts_with_thousands_parked),
        fleet_test(nodes_that_stutter_change_nobodys_turn),
        fleet_test(who_is_cancelled_while_it_waits_lets_the_next_pass),
        fleet_test(who_is_deleted_while_it_waits_is_missed_by_nobody),
        fleet_test(what_a_foreign_scheduler_promotes_comes_back_to_its_place),
        fleet_test(two_tasks_of_the_same_bytes_both_run),
        fleet_test(two_tasks_of_one_jid_both_run),
        fleet_test(resources_may_be_called_like_keys_but_not_like_ours),
        fleet_test(clocks_of_hosts_may_be_hours_apart),
        fleet_test(a_lock_that_is_lost_is_not_handed_over),
        fleet_test(a_lock_that_is_deleted_goes_to_the_heir_or_to_nobody),
        fleet_test(a_lock_that_is_lost_under_its_handler_is_not_kept_from_others),
        fleet_test(whom_the_rest_of_a_refused_lock_may_have_refused_is_woken),
        fleet_test(a_worker_that_stops_leaves_what_waits_in_order),
    };
    return cmocka_run_group_tests(tests, one_fleet_set_up, one_fleet_tear_down);
}
