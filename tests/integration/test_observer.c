/* What the observer of a worker is told: each task that leaves a slot, with the instants of its way, and how the
 * process stands. The worker is a child; what it is told is written into memory that the test shares. */
#include "tests/support/test.h"

#include <stdio.h>
#include <sys/mman.h>

#include "tests/support/one_fleet.h"
#include "tests/support/worker_child.h"

enum { SEEN_MAX = 256, JID_MAX = 64 };

struct seen_task {
    char jid[JID_MAX], resources[2 * JID_MAX]; /* each behind a blank */
    struct observed_task task;
};

struct seen_look {
    struct observed_process process;
    bool has_locks;
    uint64_t granted[CLUSTER_MAX], latencies, extensions;
};

struct seen {
    _Atomic unsigned task_count, look_count;
    struct seen_task tasks[SEEN_MAX];
    struct seen_look looks[SEEN_MAX];
};

static struct seen *seen;

static void task_left(void *context, const struct observed_task *task)
{
    struct seen *into = context;
    unsigned place = atomic_load(&into->task_count);
    struct seen_task *to = &into->tasks[place < SEEN_MAX ? place : SEEN_MAX - 1];
    *to = (struct seen_task){.task = *task};
    snprintf(to->jid, sizeof to->jid, "%s", task->jid);
    for (unsigned i = 0; i < task->resource_count; i++)
        snprintf(to->resources + strlen(to->resources), sizeof to->resources - strlen(to->resources), " %s",
                 task->resources[i]);
    atomic_store(&into->task_count, place + 1);
}

static void looked(void *context, const struct observed_process *process)
{
    struct seen *into = context;
    unsigned place = atomic_load(&into->look_count);
    struct seen_look *to = &into->looks[place < SEEN_MAX ? place : SEEN_MAX - 1];
    *to = (struct seen_look){.process = *process, .has_locks = process->extensions != NULL};
    if (process->extensions != NULL)
        to->extensions = process->extensions->count;
    for (unsigned i = 0; i < process->node_count; i++) {
        to->granted[i] = process->nodes[i]->granted;
        to->latencies += process->nodes[i]->latency.count;
    }
    atomic_store(&into->look_count, place + 1);
}

static unsigned observed_work(const struct fleet_setup *setup)
{
    static struct worker_observer observer;
    static const struct fleet_setup defaults = {0};
    observer = (struct worker_observer){.task_left = task_left, .looked = looked, .context = seen};
    return worker_child_start(&fleet, setup != NULL ? setup : &defaults, NULL, &observer, NULL);
}

static unsigned tasks_seen(void)
{
    return atomic_load(&seen->task_count);
}

/* NULL when it has not left so often. */
static const struct seen_task *left_again(const char *jid, unsigned times)
{
    for (unsigned i = 0; i < tasks_seen() && i < SEEN_MAX; i++)
        if (strcmp(seen->tasks[i].jid, jid) == 0 && times-- == 0)
            return &seen->tasks[i];
    return NULL;
}

static const struct seen_task *left_first(const char *jid)
{
    test_await(left_again(jid, 0) != NULL);
    return left_again(jid, 0);
}

static const struct seen_look *last_look(void)
{
    unsigned count = atomic_load(&seen->look_count);
    return count > 0 ? &seen->looks[count - 1] : NULL;
}

/* --- a task ------------------------------------------------------------------------------------------------------- */

TEST(a_task_with_a_lock_is_told_with_all_its_instants)
{
    struct instant before = instant_now();
    unsigned worker = observed_work(NULL);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[20],\"jid\":\"a\",\"resource\":[\"y\",\"x\"]}");
    const struct seen_task *a = left_first("a");
    const struct observed_task *task = &a->task;
    assert_string_equal(a->resources, " x y");
    assert_int_equal(task->ending, FLOW_DONE);
    assert_true(before.ns < task->claimed.ns && task->claimed.ns <= task->asked.ns);
    assert_true(task->asked.ns < task->locked.ns); /* there was a round trip */
    assert_true(task->locked.ns < task->started.ns && task->started.ns + 20 * NS_PER_MS <= task->ended.ns);
    assert_true(task->ended.ns <= task->left.ns && task->left.ns < instant_now().ns);
    assert_false(task->handed_over || task->had_refusal || task->was_lost);
    one_fleet_stop(worker);
    assert_int_equal(tasks_seen(), 1); /* empty places are no tasks */
}

TEST(a_task_without_a_lock_has_no_instants_of_one)
{
    unsigned worker = observed_work(NULL);
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[],\"jid\":\"a\",\"retry\":0}");
    const struct seen_task *a = left_first("a");
    assert_string_equal(a->resources, "");
    assert_int_equal(a->task.ending, FLOW_DEAD);
    assert_true(a->task.claimed.ns > 0 && a->task.started.ns > 0 && a->task.ended.ns >= a->task.started.ns);
    assert_int_equal(a->task.asked.ns + a->task.locked.ns, 0);
    one_fleet_stop(worker);
}

TEST(what_is_no_task_is_told_too)
{
    unsigned worker = observed_work(&(struct fleet_setup){.threads = 1});
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"a\",\"resource\":\"x\"}");
    (void)left_first("a");
    free(fleet_ask(&fleet, "LPUSH queue:jobs nonsense"));
    test_await(tasks_seen() == 2);
    const struct seen_task *odd = &seen->tasks[1];
    assert_int_equal(odd->task.ending, FLOW_INVALID);
    assert_string_equal(odd->resources, "");
    assert_true(odd->task.claimed.ns > seen->tasks[0].task.left.ns);
    assert_int_equal(odd->task.asked.ns + odd->task.locked.ns + odd->task.started.ns + odd->task.ended.ns, 0);
    one_fleet_stop(worker);
}

/* --- contention --------------------------------------------------------------------------------------------------- */

TEST(a_lock_that_is_refused_is_told_and_then_the_run_that_had_it)
{
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "SET lock:x other PX 1500");
    unsigned worker = observed_work(NULL);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"a\",\"resource\":\"x\"}");
    const struct seen_task *parked = left_first("a");
    assert_int_equal(parked->task.ending, FLOW_PARKED);
    assert_string_equal(parked->resources, " x");
    assert_true(parked->task.had_refusal);
    assert_true(parked->task.asked.ns >= parked->task.claimed.ns);
    assert_int_equal(parked->task.locked.ns + parked->task.started.ns + parked->task.ended.ns, 0);
    test_await(left_again("a", 1) != NULL && seen->tasks[tasks_seen() - 1].task.ending == FLOW_DONE);
    const struct observed_task *done = &seen->tasks[tasks_seen() - 1].task;
    assert_true(done->claimed.ns > parked->task.left.ns); /* the instants of its new claim */
    assert_true(done->locked.ns > done->asked.ns);
    one_fleet_stop(worker);
}

static const struct seen_task *handed_over_task(void)
{
    for (unsigned i = 0; i < tasks_seen(); i++)
        if (seen->tasks[i].task.handed_over)
            return &seen->tasks[i];
    return NULL;
}

/* The last that had the lock before that. */
static const struct observed_task *holder_before(const struct observed_task *successor)
{
    const struct observed_task *before = NULL;
    for (unsigned i = 0; i < tasks_seen(); i++) {
        const struct observed_task *task = &seen->tasks[i].task;
        if (task->locked.ns > 0 && task->locked.ns < successor->locked.ns &&
            (before == NULL || before->locked.ns < task->locked.ns))
            before = task;
    }
    return before;
}

TEST(a_lock_that_is_handed_over_was_asked_for_before_the_holder_left)
{
    enum { TASKS = 5 };
    (void)state;
    unsigned done = 0, unasked = 0;
    fleet_push_many(&fleet, "note", TASKS, 30, 1);
    unsigned worker = observed_work(NULL);
    test_await(fleet_noted_all(&fleet, "end ") == TASKS);
    one_fleet_stop(worker);
    for (unsigned i = 0; i < tasks_seen(); i++) {
        done += seen->tasks[i].task.ending == FLOW_DONE;
        unasked += seen->tasks[i].task.ending == FLOW_PARKED && seen->tasks[i].task.asked.ns == 0;
    }
    assert_int_equal(done, TASKS);
    assert_true(unasked > 0); /* of what is known to be held no node is asked */
    assert_non_null(handed_over_task());
    const struct observed_task *successor = &handed_over_task()->task, *before = holder_before(successor);
    assert_non_null(before);
    assert_true(successor->claimed.ns < before->left.ns && successor->asked.ns < before->left.ns);
    assert_true(before->ended.ns <= before->left.ns && before->left.ns < successor->locked.ns);
}

/* --- what goes wrong ---------------------------------------------------------------------------------------------- */

TEST(a_lock_that_is_lost_is_told)
{
    unsigned worker = observed_work(NULL);
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[60000],\"jid\":\"a\",\"resource\":\"x\"}");
    test_await(fleet_noted(&fleet, "begin a") == 1);
    lock_cluster_take_away(&fleet.locks, "lock:x");
    const struct seen_task *a = left_first("a");
    assert_int_equal(a->task.ending, FLOW_LOCK_LOST);
    assert_true(a->task.was_lost);
    assert_true(a->task.locked.ns > 0 && a->task.ended.ns > a->task.started.ns);
    one_fleet_stop(worker);
}

TEST(what_a_stop_gives_back_is_told)
{
    unsigned worker = observed_work(&(struct fleet_setup){.worker = "stop_timeout = \"100ms\";"});
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[60000],\"jid\":\"a\",\"resource\":\"x\"}");
    test_await(fleet_noted(&fleet, "begin a") == 1);
    one_fleet_stop(worker);
    const struct seen_task *a = left_first("a");
    assert_int_equal(a->task.ending, FLOW_GIVEN_BACK);
    assert_true(a->task.ended.ns > a->task.started.ns && a->task.started.ns > a->task.locked.ns);
    assert_true(last_look()->process.at.ns > a->task.left.ns); /* the last look is behind all */
    assert_int_equal(last_look()->process.busy, 0);
}

/* Nobody knows when it will end. */
TEST(a_handler_that_is_abandoned_has_no_end)
{
    unsigned worker = observed_work(&(struct fleet_setup){.worker = "stop_timeout = \"100ms\";"});
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[60000],\"jid\":\"a\",\"resource\":\"x\"}");
    test_await(fleet_noted(&fleet, "begin a") == 1);
    fleet_signal(&fleet, worker, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, worker), 1);
    const struct seen_task *a = left_first("a");
    assert_int_equal(a->task.ending, FLOW_GIVEN_BACK);
    assert_true(a->task.started.ns > 0);
    assert_int_equal(a->task.ended.ns, 0);
}

/* --- the process -------------------------------------------------------------------------------------------------- */

static bool is_seen_busy(void)
{
    const struct seen_look *look = last_look();
    return look != NULL && look->process.busy == 1 && look->extensions > 0 && atomic_load(&seen->look_count) >= 3;
}

TEST(how_the_process_stands_is_told_again_and_again)
{
    struct instant before = instant_now();
    observed_work(&(struct fleet_setup){.threads = 3});
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[60000],\"jid\":\"a\",\"resource\":\"x\"}");
    test_await(is_seen_busy());
    const struct seen_look *look = last_look();
    assert_int_equal(look->process.runners, 3);
    assert_true(look->process.at.ns > before.ns && look->process.cpu_ns > 0);
    assert_true(look->process.claim_calls >= 1);
    assert_true(look->has_locks);
    assert_int_equal(look->process.node_count, fleet.locks.count);
    for (unsigned i = 0; i < fleet.locks.count; i++)
        assert_int_equal(look->granted[i], 1);
    assert_true(look->latencies > fleet.locks.count);
    for (unsigned i = 1; i < atomic_load(&seen->look_count); i++)
        assert_true(seen->looks[i - 1].process.at.ns < seen->looks[i].process.at.ns &&
                    seen->looks[i - 1].process.cpu_ns <= seen->looks[i].process.cpu_ns);
}

TEST(without_lock_nodes_nothing_is_told_of_locks)
{
    unsigned worker = observed_work(
        &(struct fleet_setup){.lock_nodes = "", .plugin = "echo", .classes = "{ class = \"echo\"; lock = \"none\"; }"});
    fleet_push(&fleet, "{\"class\":\"echo\",\"args\":[],\"jid\":\"a\"}");
    assert_int_equal(left_first("a")->task.ending, FLOW_DONE);
    one_fleet_stop(worker);
    assert_false(last_look()->has_locks);
    assert_int_equal(last_look()->process.node_count, 0);
    assert_null(last_look()->process.extensions);
}

static int seen_clear(void **state)
{
    (void)state;
    memset(seen, 0, sizeof *seen);
    return 0;
}

static int seen_set_up(void **state)
{
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return seen == MAP_FAILED ? -1 : one_fleet_set_up(state);
}

RUN_GROUP(seen_set_up, one_fleet_tear_down, seen_clear, one_fleet_clean)
