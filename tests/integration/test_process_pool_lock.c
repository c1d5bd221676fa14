/* The lock of a run in a process: what its handler is told of it, asked over the worker, and that the process does not
 * outlive it. */
#include "tests/support/test.h"

#include "tests/support/log_capture.h"
#include "tests/support/loop_until.h"
#include "tests/support/one_cluster.h"
#include "tests/support/process_pool_fixture.h"

enum { TTL_MS = 6000 }; /* a process may take long to begin */

static struct redlock_group *group;
static struct lock_probe probe;
static struct config_node slow_node = {.call_timeout_ns = 10 * NS_PER_S};

static int group_set_up(void **state)
{
    return process_pool_group_set_up(state) == 0 && one_cluster_set_up(state) == 0 ? 0 : -1;
}

static int group_tear_down(void **state)
{
    one_cluster_tear_down(state);
    return process_pool_group_tear_down(state);
}

/* As a slot does it. */
static void lock_take(void)
{
    struct trip *trip = &trips[0];
    assert_int_equal(lock_probe_acquire(&probe, "account:1"), REDLOCK_ACQUIRED);
    run_entry_clear(trip->run.run_entry);
    trip->run.lock = probe.lock;
    trip->job.validity = redlock_lock_validity(probe.lock);
    redlock_lock_publish_to(probe.lock, &trip->run.run_entry->validity);
    atomic_store(&trip->run.run_entry->is_locked, true);
}

static int set_up(void **state)
{
    struct redlock_terms terms = quick_terms(TTL_MS, 3);
    lock_cluster_heal(&cluster);
    process_pool_set_up(state);
    process_pool_config->lock_nodes = &slow_node;
    process_pool_config->lock_node_count = 1;
    group = lock_cluster_group(&cluster, loop);
    lock_probe_create(&probe, loop, group, &terms);
    lock_take();
    return 0;
}

static int tear_down(void **state)
{
    process_pool_tear_down(state);
    if (!redlock_lock_is_free(probe.lock))
        redlock_lock_release(probe.lock);
    lock_probe_destroy(&probe);
    loop_await(loop, redlock_group_busy(group) == 0);
    redlock_group_destroy(group);
    return 0;
}

TEST(a_handler_is_told_of_its_lock)
{
    static const char *const resources[] = {"account:1"};
    struct hf_job *job = &trips[0].job;
    job->resources = resources;
    job->resource_count = 1;
    memcpy(job->fence, "42", 3);
    assert_int_equal(trip_run("[\"tell\"]"), HF_OK);
    assert_contains(buffer_text(&job->outcome.result), "\"fence\":\"42\",\"resources\":1,\"first\":\"account:1\"");
    assert_int_equal(trip_number(&trips[0], "valid"), 1);
}

TEST(a_held_lock_is_confirmed_and_extended)
{
    for (int i = 0; i < 3; i++) {
        int64_t before = atomic_load(&trips[0].job.validity->until);
        assert_int_equal(trip_run("[\"verify\"]"), HF_OK);
        assert_true(atomic_load(&trips[0].job.validity->until) > before);
    }
}

TEST(a_deleted_lock_is_not_confirmed)
{
    lock_cluster_take_away(&cluster, "lock:account:1");
    assert_int_equal(trip_run("[\"verify\"]"), HF_DISCARD);
    assert_int_equal(probe.losses, 1);
}

/* The nodes answer too late: the process has been killed, and its question goes with it. */
TEST(a_question_ends_with_its_run)
{
    pause_first(NODES);
    trip_start(&trips[0], "[\"verify\"]");
    trip_await_begin(&trips[0]);
    const struct pooled_process *process = trips[0].run.at;
    loop_await(loop, process->is_asked);
    (void)run_entry_kill_by(run_table, trips[0].run.run_entry, loop_now(loop));
    launcher_ring(launcher);
    assert_int_equal(trip_await(&trips[0]), HF_FAIL);
    assert_string_equal(trips[0].job.outcome.failure.error_class, "HF::TimedOut");
    resume_first(NODES);
    loop_for(loop, 100 * NS_PER_MS);
    atomic_store(&trips[0].run.run_entry->kill_at, INT64_MAX);
    assert_int_equal(trip_run("[\"ok\"]"), HF_OK);
}

/* Beyond its first end: the descriptor of the process is the worker's own, which goes on being set. */
TEST(the_descriptor_tells_the_end_of_the_lock_and_no_extension)
{
    trip_start(&trips[0], "[\"poll\"]");
    trip_await_begin(&trips[0]);
    loop_for(loop, (TTL_MS + TTL_MS / 4) * NS_PER_MS);
    assert_false(trips[0].has_ended);
    assert_int_equal(probe.losses, 0);
    redlock_lock_forfeit(probe.lock);
    atomic_store(&trips[0].run.run_entry->is_locked, false); /* or it would be killed */
    assert_int_equal(trip_await(&trips[0]), HF_DISCARD);
}

/* Within the handler: a lock that ends earlier than its first act is found by its process, which does not start it. */
static void loop_start(void)
{
    trip_start(&trips[0], "[\"loop\"]");
    loop_await(loop, strstr(buffer_text(&trips[0].said), "loops") != NULL);
}

TEST(a_run_is_killed_when_its_lock_ends)
{
    loop_start();
    log_capture_begin();
    redlock_lock_forfeit(probe.lock);
    launcher_ring(launcher);
    assert_int_equal(trip_await(&trips[0]), HF_CANCELLED);
    assert_contains(log_capture_end(NULL), "was killed because its run lost its lock");
}

/* Nobody extends it, and nobody says so: the zygote goes by what it can see. */
TEST(a_run_is_killed_when_its_lock_runs_out)
{
    loop_start();
    pause_first(NODES);
    assert_int_equal(trip_await(&trips[0]), HF_CANCELLED);
    resume_first(NODES);
    assert_false(job_lock_is_valid(&trips[0].job));
}

RUN_GROUP(group_set_up, group_tear_down, set_up, tear_down)
