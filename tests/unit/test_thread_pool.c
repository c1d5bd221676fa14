/* The runner pool: every piece of work runs once, on a runner, and comes back on the loop; what was withdrawn in time
 * does not run; long work gets a thread each, and the end of the pool waits for what runs. */
#include "tests/support/test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/loop_until.h"
#include "tests/support/one_loop.h"
#include "worker/isolation/thread_pool.h"

enum { THREADS = 4, BURST = 10000 };

static struct thread_pool *pool;

struct errand {
    struct work work;
    atomic_uint runs;
    unsigned returns; /* the loop's own */
    bool ran_elsewhere;
};

static struct errand first, second;
static unsigned returned;
static pthread_t loop_thread;

static void errand_note(struct errand *errand)
{
    errand->ran_elsewhere = !pthread_equal(pthread_self(), loop_thread);
    errand->runs++;
}

static void errand_run(struct work *work)
{
    errand_note(list_owner(work, struct errand, work));
}

static void errand_returned(struct loop_message *message)
{
    struct errand *errand = list_owner(message, struct errand, work.done);
    loop_assert_inside(loop);
    errand->returns++;
    returned++;
}

static struct errand errand_of(void (*run)(struct work *work))
{
    return (struct errand){.work = {.done.deliver = errand_returned, .run = run}};
}

static void submit(struct errand *errand)
{
    thread_pool_submit(pool, &errand->work);
}

static bool has_returned(void *count)
{
    return returned == *(const unsigned *)count;
}

static void await_returns(unsigned count)
{
    if (!loop_until(loop, has_returned, &count, TEST_PATIENCE_NS))
        fail_msg("%u of %u came back", returned, count);
}

static void assert_ran_once(const struct errand *errand)
{
    assert_int_equal(errand->runs, 1);
    assert_int_equal(errand->returns, 1);
    assert_true(errand->ran_elsewhere);
}

static void pool_create(unsigned threads)
{
    struct error error = ERROR_NONE;
    pool = thread_pool_create(loop, threads, &error);
    if (pool == NULL)
        fail_msg("%s", error.text);
}

/* --- gates: work that goes on until the test lets it -------------------------------------------------------------- */

static atomic_uint arrived;
static atomic_bool gate_is_open;

static void gate_close(void)
{
    arrived = 0;
    gate_is_open = false;
}

/* Gives up after a while, so that a broken pool fails the test instead of hanging it. */
static void gate_pass(struct work *work)
{
    struct instant patience = instant_after(instant_now(), TEST_PATIENCE_NS);
    arrived++;
    while (!gate_is_open && !instant_reached(instant_now(), patience))
        poll(NULL, 0, 1);
    errand_note(list_owner(work, struct errand, work));
}

static bool have_arrived(void *count)
{
    return arrived == *(const unsigned *)count;
}

static bool await_arrivals(unsigned count)
{
    return loop_until(loop, have_arrived, &count, TEST_PATIENCE_NS);
}

/* --- each test --------------------------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    loop_thread = pthread_self();
    returned = 0;
    return one_loop_set_up(state);
}

static int tear_down(void **state)
{
    gate_is_open = true; /* also for a test that failed */
    if (pool != NULL)
        thread_pool_destroy(pool);
    pool = NULL;
    return one_loop_tear_down(state);
}

/* --- there and back --------------------------------------------------------------------------------------------- */

TEST(work_runs_once_on_a_runner_and_comes_back_on_the_loop)
{
    enum { MANY = 100 };
    static struct errand errands[MANY];
    pool_create(THREADS);
    for (unsigned i = 0; i < MANY; i++) {
        errands[i] = errand_of(errand_run);
        submit(&errands[i]);
    }
    await_returns(MANY);
    loop_for(loop, 5 * NS_PER_MS);
    for (unsigned i = 0; i < MANY; i++)
        assert_ran_once(&errands[i]);
}

TEST(work_that_came_back_can_be_submitted_again)
{
    first = errand_of(errand_run);
    pool_create(1);
    for (unsigned i = 1; i <= 100; i++) {
        submit(&first);
        await_returns(i);
        assert_int_equal(first.runs, i);
    }
}

static void submit_and_look(struct loop_message *message)
{
    (void)message;
    submit(&first);
    poll(NULL, 0, 10); /* the runners have all the time they want */
    assert_int_equal(first.runs, 0);
}

TEST(nothing_starts_before_the_end_of_the_turn)
{
    struct loop_message message = {.deliver = submit_and_look};
    first = errand_of(errand_run);
    pool_create(THREADS);
    loop_post(loop, &message);
    await_returns(1);
    assert_ran_once(&first);
}

static unsigned order[BURST], runs;

struct numbered {
    struct errand errand; /* first: see numbered_run */
    unsigned number;
};

/* Of a single runner, so nobody else writes. */
static void numbered_run(struct work *work)
{
    errand_run(work);
    order[runs++] = ((struct numbered *)(void *)list_owner(work, struct errand, work))->number;
}

TEST(the_oldest_work_runs_first)
{
    enum { MANY = 200 };
    static struct numbered items[MANY];
    runs = 0;
    pool_create(1);
    for (unsigned i = 0; i < MANY; i++) {
        items[i] = (struct numbered){.errand = errand_of(numbered_run), .number = i};
        submit(&items[i].errand);
    }
    await_returns(MANY);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(order[i], i);
}

/* --- bursts ----------------------------------------------------------------------------------------------------- */

static struct errand burst[BURST];

TEST(a_burst_of_short_work_completes)
{
    pool_create(THREADS);
    for (unsigned i = 0; i < BURST; i++) {
        burst[i] = errand_of(errand_run);
        submit(&burst[i]);
    }
    await_returns(BURST);
    for (unsigned i = 0; i < BURST; i++)
        assert_ran_once(&burst[i]);
}

static unsigned submitted;

/* Each return is followed by the next submission: the pool is never empty and never full. */
static void next_submit(struct loop_message *message)
{
    errand_returned(message);
    if (submitted < BURST)
        submit(&burst[submitted++]);
}

TEST(a_stream_of_short_work_completes)
{
    pool_create(THREADS);
    for (unsigned i = 0; i < BURST; i++) {
        burst[i] = errand_of(errand_run);
        burst[i].work.done.deliver = next_submit;
    }
    for (submitted = 0; submitted < 3 * THREADS; submitted++)
        submit(&burst[submitted]);
    await_returns(BURST);
    for (unsigned i = 0; i < BURST; i++)
        assert_ran_once(&burst[i]);
}

/* --- at the same time --------------------------------------------------------------------------------------------- */

TEST(long_work_submitted_together_runs_at_the_same_time)
{
    static struct errand errands[THREADS];
    gate_close();
    pool_create(THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        errands[i] = errand_of(gate_pass);
        submit(&errands[i]);
    }
    bool met = await_arrivals(THREADS);
    gate_is_open = true;
    await_returns(THREADS);
    assert_true(met);
}

TEST(long_work_submitted_turn_by_turn_runs_at_the_same_time)
{
    static struct errand errands[THREADS];
    bool met = true;
    gate_close();
    pool_create(THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        errands[i] = errand_of(gate_pass);
        submit(&errands[i]);
        met = met && await_arrivals(i + 1);
    }
    gate_is_open = true;
    await_returns(THREADS);
    assert_true(met);
}

TEST(short_work_passes_by_long_work)
{
    static struct errand errands[THREADS - 1];
    gate_close();
    pool_create(THREADS);
    for (unsigned i = 0; i < THREADS - 1; i++) {
        errands[i] = errand_of(gate_pass);
        submit(&errands[i]);
    }
    for (unsigned i = 0; i < 1000; i++) {
        burst[i] = errand_of(errand_run);
        submit(&burst[i]);
    }
    await_returns(1000);
    gate_is_open = true;
    await_returns(1000 + THREADS - 1);
}

/* --- withdrawing -------------------------------------------------------------------------------------------------- */

TEST(what_is_withdrawn_in_the_turn_of_its_submission_never_runs)
{
    first = errand_of(errand_run);
    second = errand_of(errand_run);
    pool_create(THREADS);
    submit(&first);
    submit(&second);
    assert_true(thread_pool_withdraw(pool, &first.work));
    assert_false(thread_pool_withdraw(pool, &first.work));
    await_returns(1);
    thread_pool_destroy(pool);
    pool = NULL;
    assert_int_equal(first.runs, 0);
    assert_int_equal(first.returns, 0);
    assert_ran_once(&second);
}

TEST(what_waits_for_a_runner_can_be_withdrawn)
{
    gate_close();
    first = errand_of(gate_pass);
    second = errand_of(errand_run);
    pool_create(1);
    submit(&first);
    assert_true(await_arrivals(1));
    submit(&second);
    loop_for(loop, NS_PER_MS); /* it is ready now */
    assert_true(thread_pool_withdraw(pool, &second.work));
    gate_is_open = true;
    await_returns(1);
    submit(&second); /* withdrawn is not forbidden */
    await_returns(2);
    assert_ran_once(&second);
}

TEST(what_runs_or_has_run_cannot_be_withdrawn)
{
    gate_close();
    first = errand_of(gate_pass);
    pool_create(1);
    submit(&first);
    assert_true(await_arrivals(1));
    assert_false(thread_pool_withdraw(pool, &first.work));
    gate_is_open = true;
    test_await(first.runs == 1);
    assert_false(thread_pool_withdraw(pool, &first.work));
    await_returns(1);
    assert_false(thread_pool_withdraw(pool, &first.work));
    assert_ran_once(&first);
}

/* While runners take work away, each piece is either withdrawn or comes back: never both, never neither. */
TEST(withdrawing_while_runners_take_loses_and_doubles_nothing)
{
    unsigned withdrawn = 0, ran = 0;
    pool_create(THREADS);
    for (unsigned start = 0; start < BURST; start += 100) {
        for (unsigned i = start; i < start + 100; i++) {
            burst[i] = errand_of(errand_run);
            submit(&burst[i]);
        }
        loop_for(loop, 0);
        for (unsigned i = start + 100; i > start; i--)
            withdrawn += thread_pool_withdraw(pool, &burst[i - 1].work);
    }
    await_returns(BURST - withdrawn);
    thread_pool_destroy(pool);
    pool = NULL;
    for (unsigned i = 0; i < BURST; i++) {
        assert_int_equal(burst[i].runs, burst[i].returns);
        ran += burst[i].runs;
    }
    assert_int_equal(ran + withdrawn, BURST);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void *gate_open_later(void *nothing)
{
    poll(NULL, 0, 20);
    gate_is_open = true;
    return nothing;
}

TEST(the_end_waits_for_what_runs_and_its_return_is_delivered)
{
    pthread_t opener;
    gate_close();
    first = errand_of(gate_pass);
    pool_create(THREADS);
    submit(&first);
    assert_true(await_arrivals(1));
    assert_int_equal(pthread_create(&opener, NULL, gate_open_later, NULL), 0);
    thread_pool_destroy(pool);
    pool = NULL;
    assert_int_equal(first.runs, 1);
    pthread_join(opener, NULL);
    await_returns(1);
    assert_ran_once(&first);
}

TEST(a_pool_that_never_worked_ends)
{
    pool_create(64);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static sigset_t blocked;
static char thread_name[16];

static void thread_look(struct work *work)
{
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    pthread_getname_np(pthread_self(), thread_name, sizeof thread_name); /* submitted after its creator named it */
    errand_run(work);
}

TEST(runners_get_no_signals_and_have_names)
{
    sigset_t ours;
    first = errand_of(thread_look);
    pool_create(1);
    submit(&first);
    await_returns(1);
    assert_true(sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGHUP));
    assert_string_equal(thread_name, "hf-run-1");
    pthread_sigmask(SIG_SETMASK, NULL, &ours);
    assert_false(sigismember(&ours, SIGTERM));
}

/* No address space has room for such a stack. */
TEST(threads_that_cannot_be_started_are_an_error)
{
    struct error error = ERROR_NONE;
    pthread_attr_t usual, absurd;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    pthread_attr_init(&absurd);
    assert_int_equal(pthread_attr_setstacksize(&absurd, (size_t)1 << 48), 0);
    assert_int_equal(pthread_setattr_default_np(&absurd), 0);
    pool = thread_pool_create(loop, 3, &error);
    pthread_setattr_default_np(&usual);
    assert_null(pool);
    assert_contains(error.text, "only 0 of 3 runner threads");
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&absurd);
}

RUN_TESTS_WITH(set_up, tear_down)
