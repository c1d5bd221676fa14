/* What the lock promises, on hosts of their own: while a minority of the lock nodes is cut off, hangs, forgets, is
 * replaced, or has its clock stepped, work goes on and nobody holds what somebody else holds. When a worker stands
 * still for longer than its locks live, its late writes are refused by the fence; the same writes, made at the same
 * moment by the same handler to something without a fence, do damage. If they did not, the test would have proved
 * nothing, and fails.
 *
 * The faults of memory come while one worker sees no more than a bare majority: of the nodes that have its locks none
 * may then be forgotten by a node that still votes, or another majority gives them to somebody else. */
#include "tests/support/test.h"

#include <stdio.h>

#include "tests/chaos/trial.h"

enum { FAULT_MS = 1800, QUARANTINE_MS = TRIAL_MAX_TTL_MS + 400, FREEZES_MAX = 10, PROGRESS = 5, ON_THE_EDGE = 2 };

static struct trial trial;

static int set_up(void **state)
{
    (void)state;
    trial_start(&trial, "15s");
    trial_load(&trial, 500);
    return 0;
}

static int set_up_with_a_short_lease(void **state)
{
    (void)state;
    trial_start(&trial, "2s");
    trial_load(&trial, 500);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    trial_stop(&trial);
    return 0;
}

static void skip_unless_cut(void)
{
    if (hosts_can_cut(&trial.hosts))
        return;
    print_message("skipped: hosts cannot be cut off here (%s)\n", private_network_reason(trial.hosts.network));
    skip();
}

/* --- minorities --------------------------------------------------------------------------------------------------- */

static void load_goes_on(int64_t ms)
{
    unsigned before = trial_done(&trial);
    trial_load(&trial, ms);
    test_await(trial_done(&trial) >= before + PROGRESS);
}

/* What is not fenced is damaged only by runs that were told that their lock was lost, and wrote all the same. */
static void judge_minority(const char *name)
{
    struct trial_result result = trial_judge(&trial, name);
    assert_int_equal(result.verdict.overlaps, 0);
    if (result.sums.retries == 0)
        assert_int_equal(result.verdict.lost, 0);
}

static void cut_all(unsigned node, enum hosts_way way)
{
    for (unsigned worker = 0; worker < TRIAL_WORKERS; worker++)
        hosts_cut(&trial.hosts, worker, node, way);
}

/* Something happened at all: the workers say so. */
static void await_silence(unsigned node, unsigned workers)
{
    test_await(trial_logged(&trial, "lock_node_silent node=lock%u", node + 1) == workers);
}

/* What was cut is heard of again when the kernel sends once more what was lost, which takes as long as the cut did. */
static bool is_heard_by_all(unsigned node)
{
    trial_load(&trial, 100);
    return trial_logged(&trial, "lock_node_answers node=lock%u", node + 1) == TRIAL_WORKERS;
}

static void a_minority_is_cut_off_one_way_then_both_ways(void **state)
{
    (void)state;
    skip_unless_cut();
    cut_all(0, HOSTS_TO_NODE);
    cut_all(4, HOSTS_FROM_NODE);
    load_goes_on(FAULT_MS);
    await_silence(0, TRIAL_WORKERS);
    await_silence(4, TRIAL_WORKERS);
    hosts_heal(&trial.hosts);
    test_await(is_heard_by_all(0) && is_heard_by_all(4));
    trial_load(&trial, TRIAL_HOLD_MS); /* until nobody is left whose lock is only on those that are cut off next */
    cut_all(1, HOSTS_BOTH_WAYS);
    cut_all(3, HOSTS_BOTH_WAYS);
    load_goes_on(FAULT_MS);
    await_silence(1, TRIAL_WORKERS);
    await_silence(3, TRIAL_WORKERS);
    judge_minority("cut off");
}

/* Any two majorities have a node in common. */
static void every_worker_sees_another_majority(void **state)
{
    (void)state;
    skip_unless_cut();
    for (unsigned worker = 0; worker < TRIAL_WORKERS; worker++) {
        hosts_cut(&trial.hosts, worker, worker, worker % 2 == 0 ? HOSTS_TO_NODE : HOSTS_BOTH_WAYS);
        hosts_cut(&trial.hosts, worker, worker + 1, worker % 2 == 0 ? HOSTS_BOTH_WAYS : HOSTS_FROM_NODE);
    }
    load_goes_on(FAULT_MS);
    await_silence(0, 1);
    await_silence(1, 2);
    await_silence(3, 1);
    judge_minority("ring of cuts");
}

static void a_minority_hangs(void **state)
{
    (void)state;
    hosts_hang(&trial.hosts, 1);
    hosts_hang(&trial.hosts, 2);
    load_goes_on(FAULT_MS);
    await_silence(1, TRIAL_WORKERS);
    await_silence(2, TRIAL_WORKERS);
    judge_minority("hang");
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* All that the first worker is given from now on, it is given by nodes 0 to 2. */
static void leave_a_bare_majority_to_the_first_worker(void)
{
    for (unsigned node = 3; hosts_can_cut(&trial.hosts) && node < TRIAL_NODES; node++)
        hosts_cut(&trial.hosts, 0, node, HOSTS_BOTH_WAYS);
    trial.long_every = 10;
    trial_load(&trial, TRIAL_TTL_MS + 200);
}

/* `reason` may be a beginning: who comes second may learn from the marker that it is doubted, and not why. */
static bool is_doubted_by_all(unsigned node, const char *reason)
{
    return trial_logged(&trial, "lock_node_trust node=lock%u state=quarantined reason=%s", node + 1, reason) ==
           TRIAL_WORKERS;
}

/* Everybody doubts it, until it has waited for as long as any lock that it forgot could live. */
static void await_quarantine(unsigned node)
{
    test_await(is_doubted_by_all(node, ""));
    test_await(hosts_node_is_trusted(&trial.hosts, node));
}

static void a_node_is_wiped_and_another_one_restarts_empty(void **state)
{
    (void)state;
    leave_a_bare_majority_to_the_first_worker();
    hosts_wipe(&trial.hosts, ON_THE_EDGE);
    load_goes_on(QUARANTINE_MS);
    await_quarantine(ON_THE_EDGE);
    hosts_restart(&trial.hosts, ON_THE_EDGE - 1);
    load_goes_on(QUARANTINE_MS);
    await_quarantine(ON_THE_EDGE - 1);
    judge_minority("wipe and restart");
}

static void an_empty_server_takes_over_an_address(void **state)
{
    (void)state;
    leave_a_bare_majority_to_the_first_worker();
    hosts_replace(&trial.hosts, ON_THE_EDGE);
    load_goes_on(QUARANTINE_MS);
    await_quarantine(ON_THE_EDGE);
    judge_minority("replacement");
}

/* What it has expires at once, and later not for an hour. */
static void a_clock_is_stepped_ahead_and_then_back(void **state)
{
    (void)state;
    leave_a_bare_majority_to_the_first_worker();
    hosts_set_clock(&trial.hosts, ON_THE_EDGE, 3600);
    load_goes_on(QUARANTINE_MS);
    test_await(is_doubted_by_all(ON_THE_EDGE, "clock_stepped"));
    hosts_set_clock(&trial.hosts, ON_THE_EDGE, 0);
    load_goes_on(QUARANTINE_MS);
    judge_minority("clock ahead and back");
}

/* --- freezing ----------------------------------------------------------------------------------------------------- */

/* True when it was stopped in the middle of a run. */
static bool is_stopped_at_work(unsigned worker)
{
    fleet_signal(&trial.hosts.fleet, trial.workers[worker], SIGSTOP);
    waitpid(trial.hosts.fleet.workers[trial.workers[worker]].pid, NULL, WUNTRACED);
    if (trial_running(&trial, worker) > 0)
        return true;
    fleet_signal(&trial.hosts.fleet, trial.workers[worker], SIGCONT);
    trial_load(&trial, 50);
    return false;
}

static void freeze(unsigned worker, int64_t ms)
{
    test_await(is_stopped_at_work(worker));
    trial_load(&trial, ms);
    fleet_signal(&trial.hosts.fleet, trial.workers[worker], SIGCONT);
    trial_load(&trial, 500);
}

static void a_worker_stands_still_for_longer_than_its_locks(void **state)
{
    (void)state;
    struct fenced_verdict verdict = {0};
    unsigned freezes = 0;
    for (; freezes < FREEZES_MAX && (verdict.lost == 0 || verdict.refused == 0); freezes++) {
        freeze(freezes % TRIAL_WORKERS, 2 * TRIAL_TTL_MS);
        verdict = fenced_witness_judge(trial.witness, NULL);
    }
    struct trial_result result = trial_judge(&trial, "freeze");
    printf("freeze: %u times\n", freezes);
    assert_int_equal(result.verdict.overlaps, 0);
    if (result.verdict.lost == 0)
        fail_msg("%u freezes did no damage to what has no fence: that it did none to what has one proves nothing",
                 freezes);
    assert_true(result.verdict.refused > 0);
}

/* For longer than the lease too: others run its tasks. */
static void a_worker_stands_still_until_it_is_taken_for_dead(void **state)
{
    (void)state;
    freeze(0, 4000);
    struct trial_result result = trial_judge(&trial, "long freeze");
    assert_int_equal(result.verdict.overlaps, 0);
    assert_true(result.sums.recoveries > 0);
}

#define hosts_test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        hosts_test(a_minority_is_cut_off_one_way_then_both_ways),
        hosts_test(every_worker_sees_another_majority),
        hosts_test(a_minority_hangs),
        hosts_test(a_node_is_wiped_and_another_one_restarts_empty),
        hosts_test(an_empty_server_takes_over_an_address),
        hosts_test(a_clock_is_stepped_ahead_and_then_back),
        hosts_test(a_worker_stands_still_for_longer_than_its_locks),
        cmocka_unit_test_setup_teardown(a_worker_stands_still_until_it_is_taken_for_dead, set_up_with_a_short_lease,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
