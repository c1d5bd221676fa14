/* What a handler is told about its lock, by the clock alone: there is no loop in these tests that could tell it. */
#include "tests/support/test.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "worker/plugin/job_host.h"

#define SOON_NS (30 * NS_PER_MS)
#define LONG_NS (3600 * NS_PER_S)

static struct job_hosts *hosts;
static const hf_lock_api *lock;
static const hf_cancel_api *cancel;
static struct config config;
static struct envelope envelope;
static const char *const resources[] = {"a", "b"};
static struct redlock_validity validity;
static atomic_bool must_stop;
static _Atomic int64_t pulse;
static hf_job job;

static int set_up(void **state)
{
    (void)state;
    hosts = job_hosts_create(&config);
    const hf_host *host = job_hosts_for(hosts, "any");
    lock = host->api("lock", 1);
    cancel = host->api("cancel", 1);
    memset(&validity, 0, sizeof validity);
    atomic_store(&must_stop, false);
    atomic_store(&pulse, INT64_MAX);
    memset(&job, 0, sizeof job);
    job.envelope = &envelope;
    job.resources = resources;
    job.resource_count = 2;
    job.validity = &validity;
    job.must_stop = &must_stop;
    job.pulse = &pulse;
    snprintf(job.fence, sizeof job.fence, "17");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (atomic_load(&validity.descriptor) > 0)
        close(atomic_load(&validity.descriptor) - 1);
    job_hosts_destroy(hosts);
    return 0;
}

static int64_t now_ns(void)
{
    return instant_now().ns;
}

static void hold_for(int64_t ns, int64_t danger_after_ns)
{
    int64_t now = now_ns();
    atomic_store(&validity.until, now + ns);
    atomic_store(&validity.danger_from, now + danger_after_ns);
}

static void wait_until_lost(void)
{
    test_await(lock->valid_for_ms(&job) == 0 && !job_lock_is_valid(&job));
}

static void without_a_lock_nothing_can_be_lost(void **state)
{
    (void)state;
    job.validity = NULL;
    const char *const *names = NULL;
    assert_true(lock->valid_for_ms(&job) == INT64_MAX);
    assert_int_equal(lock->resources(&job, &names), 0);
    assert_false(lock->in_danger(&job));
    assert_string_equal(lock->fence(&job, 0), "");
    assert_int_equal(lock->verify(&job), 1);
    assert_int_equal(lock->descriptor(&job), -1);
    assert_false(cancel->cancelled(&job));
}

static void every_resource_has_the_token_and_nothing_else_has_one(void **state)
{
    (void)state;
    hold_for(LONG_NS, LONG_NS);
    assert_string_equal(lock->fence(&job, 0), "17");
    assert_string_equal(lock->fence(&job, 1), "17");
    assert_string_equal(lock->fence(&job, 2), "");
    assert_string_equal(lock->fence(&job, UINT32_MAX), "");
    job.fence[0] = '\0';
    assert_string_equal(lock->fence(&job, 0), "");
}

static void danger_and_loss_come_by_the_clock(void **state)
{
    (void)state;
    hold_for(LONG_NS, SOON_NS);
    assert_false(lock->in_danger(&job));
    test_await(lock->in_danger(&job));
    assert_false(cancel->cancelled(&job));
    hold_for(SOON_NS, 0);
    assert_true(lock->in_danger(&job));
    wait_until_lost();
    assert_true(lock->in_danger(&job));
    assert_int_equal(cancel->reason(&job), HF_LOCK_LOST);
    assert_int_equal(lock->verify(&job), 0); /* and nobody is asked: there is no verifier */
}

static void the_descriptor_is_readable_when_the_lock_is_lost(void **state)
{
    (void)state;
    hold_for(SOON_NS, SOON_NS);
    int descriptor = lock->descriptor(&job);
    assert_true(descriptor >= 0);
    assert_int_equal(lock->descriptor(&job), descriptor);
    struct pollfd lost = {.fd = descriptor, .events = POLLIN};
    assert_int_equal(poll(&lost, 1, (int)(TEST_PATIENCE_NS / NS_PER_MS)), 1);
    assert_false(job_lock_is_valid(&job));
}

static void a_lock_that_was_held_too_long_says_so_without_the_loop(void **state)
{
    (void)state;
    hold_for(SOON_NS, SOON_NS);
    job.hold_until = atomic_load(&validity.until);
    assert_int_equal(cancel->reason(&job), HF_NOT_CANCELLED);
    wait_until_lost();
    assert_int_equal(cancel->reason(&job), HF_HELD_TOO_LONG);
    atomic_store(&validity.until, 0); /* as the loop does, a moment before it tells */
    assert_int_equal(cancel->reason(&job), HF_HELD_TOO_LONG);
}

/* The end of its validity came first, and stays the reason for as long as the handler goes on. */
static void a_lock_that_was_lost_earlier_was_not_held_too_long(void **state)
{
    (void)state;
    hold_for(SOON_NS, SOON_NS);
    job.hold_until = atomic_load(&validity.until) + 1;
    wait_until_lost();
    test_await(now_ns() > job.hold_until);
    assert_int_equal(cancel->reason(&job), HF_LOCK_LOST);
}

static void what_the_loop_was_told_is_the_reason(void **state)
{
    (void)state;
    job.hold_until = now_ns() - 1;
    job_lock_lost(&job, HF_LOCK_LOST);
    job_lock_lost(&job, HF_HELD_TOO_LONG);
    assert_int_equal(cancel->reason(&job), HF_LOCK_LOST);
    atomic_store(&job.lost, HF_NOT_CANCELLED);
    job_lock_lost(&job, HF_HELD_TOO_LONG);
    assert_int_equal(cancel->reason(&job), HF_HELD_TOO_LONG);
}

/* What is told about an earlier lock, or too early, does not take away one that is held. */
static void while_it_is_held_it_is_not_lost(void **state)
{
    (void)state;
    hold_for(LONG_NS, LONG_NS);
    job_lock_lost(&job, HF_HELD_TOO_LONG);
    assert_int_equal(cancel->reason(&job), HF_NOT_CANCELLED);
}

static void the_loss_comes_before_other_reasons(void **state)
{
    (void)state;
    hold_for(LONG_NS, LONG_NS);
    job_cancel(&job, HF_USER);
    atomic_store(&must_stop, true);
    assert_int_equal(cancel->reason(&job), HF_USER);
    atomic_store(&validity.until, 0);
    assert_int_equal(cancel->reason(&job), HF_LOCK_LOST);
}

#define host_test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        host_test(without_a_lock_nothing_can_be_lost),
        host_test(every_resource_has_the_token_and_nothing_else_has_one),
        host_test(danger_and_loss_come_by_the_clock),
        host_test(the_descriptor_is_readable_when_the_lock_is_lost),
        host_test(a_lock_that_was_held_too_long_says_so_without_the_loop),
        host_test(a_lock_that_was_lost_earlier_was_not_held_too_long),
        host_test(what_the_loop_was_told_is_the_reason),
        host_test(while_it_is_held_it_is_not_lost),
        host_test(the_loss_comes_before_other_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
