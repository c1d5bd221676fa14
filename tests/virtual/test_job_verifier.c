/* Asking on other threads whether a lock is held: answered by the nodes, by the loss, by the end of the lock, or by
 * patience; never not at all. */
#include "tests/support/test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "tests/support/lock_fixture.h"
#include "worker/task/job_verifier.h"

/* Longer than the tests wait for anything. */
#define FOR_EVER_NS (3600 * NS_PER_S)

enum { ASKERS = 4, MANY = 200 };

static struct job_verifier verifier;

struct asker {
    pthread_t thread;
    unsigned times;
    int64_t limit_ns;
    atomic_uint yes, no;
    atomic_bool is_over;
};

static void *ask_on(void *argument)
{
    struct asker *asker = argument;
    for (unsigned i = 0; i < asker->times; i++)
        atomic_fetch_add(job_verifier_ask(&verifier, asker->limit_ns) ? &asker->yes : &asker->no, 1);
    atomic_store(&asker->is_over, true);
    return NULL;
}

static void asker_start(struct asker *asker, unsigned times, int64_t limit_ns)
{
    memset(asker, 0, sizeof *asker);
    asker->times = times;
    asker->limit_ns = limit_ns;
    assert_int_equal(pthread_create(&asker->thread, NULL, ask_on, asker), 0);
}

static void asker_end(struct asker *asker)
{
    loop_await(loop, atomic_load(&asker->is_over));
    assert_int_equal(pthread_join(asker->thread, NULL), 0);
}

/* Asks once and runs the loop until there is an answer. */
static bool answer_now(void)
{
    struct asker asker;
    asker_start(&asker, 1, FOR_EVER_NS);
    asker_end(&asker);
    return atomic_load(&asker.yes) == 1;
}

static int set_up(void **state)
{
    lock_set_up(state);
    locks_destroy();
    locks_create(60000); /* not extended, nor lost, when this thread gets no processor for some seconds */
    job_verifier_init(&verifier, loop, FOR_EVER_NS);
    return 0;
}

static void lock_begin(void)
{
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    job_verifier_open(&verifier, mine.lock);
}

/* As a worker does it: the lock is destroyed, whatever became of it, and then there is nothing to ask about. */
static void lock_end(void)
{
    redlock_lock_release(mine.lock);
    redlock_lock_destroy(mine.lock);
    job_verifier_close(&verifier);
    lock_probe_create(&mine, loop, group, &terms);
}

TEST(a_held_lock_is_confirmed_and_extended)
{
    lock_begin();
    struct redlock_validity *validity = redlock_lock_validity(mine.lock);
    int64_t before = atomic_load(&validity->until);
    assert_true(answer_now());
    assert_true(atomic_load(&validity->until) > before);
    lock_end();
}

TEST(a_deleted_lock_is_not_confirmed)
{
    lock_begin();
    lock_cluster_take_away(&cluster, "lock:r");
    assert_false(answer_now());
    assert_int_equal(mine.losses, 1);
    lock_end();
}

TEST(without_a_majority_nothing_is_confirmed)
{
    lock_begin();
    pause_first(QUORUM);
    assert_false(answer_now());
    assert_int_equal(mine.losses, 0); /* a no is no loss */
    resume_first(QUORUM);
    lock_end();
}

TEST(without_a_lock_nothing_is_confirmed)
{
    assert_false(answer_now());
    lock_begin();
    lock_end();
    assert_false(answer_now());
}

/* The loop does not run at all. What it finds later it answers to nobody. */
TEST(a_stuck_loop_is_not_waited_for)
{
    struct asker asker;
    lock_begin();
    asker_start(&asker, 3, 20 * NS_PER_MS);
    assert_int_equal(pthread_join(asker.thread, NULL), 0);
    assert_int_equal(atomic_load(&asker.no), 3);
    verifier.patience_ns = 1700 * NS_PER_MS;
    struct instant asked = instant_now();
    asker_start(&asker, 1, FOR_EVER_NS);
    assert_int_equal(pthread_join(asker.thread, NULL), 0);
    assert_int_equal(atomic_load(&asker.no), 1);
    assert_true(instant_since(asked, instant_now()) >= verifier.patience_ns);
    assert_true(list_is_empty(&verifier.questions));
    unsigned extended = mine.extended;
    loop_for(loop, 100 * NS_PER_MS);
    assert_int_equal(mine.extended, extended); /* nor are the nodes asked */
    verifier.patience_ns = FOR_EVER_NS;
    assert_true(answer_now());
    lock_end();
}

/* The nodes will not answer, and then the lock is destroyed. */
TEST(the_end_of_the_lock_is_an_answer)
{
    struct asker askers[ASKERS];
    lock_begin();
    pause_first(NODES);
    for (unsigned i = 0; i < ASKERS; i++)
        asker_start(&askers[i], 1, FOR_EVER_NS);
    loop_await(loop, !list_is_empty(&verifier.questions));
    lock_end();
    for (unsigned i = 0; i < ASKERS; i++) {
        asker_end(&askers[i]);
        assert_int_equal(atomic_load(&askers[i].no), 1);
    }
    resume_first(NODES);
}

static unsigned sum_over(struct asker *askers)
{
    unsigned over = 0;
    for (unsigned i = 0; i < ASKERS; i++)
        over += atomic_load(&askers[i].is_over);
    return over;
}

static unsigned sum_yes(struct asker *askers)
{
    unsigned yes = 0;
    for (unsigned i = 0; i < ASKERS; i++)
        yes += atomic_load(&askers[i].yes);
    return yes;
}

/* Locks come and go beneath many who ask, some of whom do not wait for the answer: everybody ends, and the sanitizers
 * find nothing that is read when it is gone. The first lock is there until somebody was told that it is. */
TEST(locks_come_and_go_while_many_ask)
{
    static const int64_t limits[ASKERS] = {1, 300 * NS_PER_US, 2 * NS_PER_MS, FOR_EVER_NS};
    struct asker askers[ASKERS];
    lock_begin();
    for (unsigned i = 0; i < ASKERS; i++)
        asker_start(&askers[i], MANY, limits[i]);
    loop_await(loop, sum_yes(askers) > 0);
    lock_end();
    while (sum_over(askers) < ASKERS) {
        lock_begin();
        loop_for(loop, 2 * NS_PER_MS);
        lock_end();
    }
    for (unsigned i = 0; i < ASKERS; i++)
        asker_end(&askers[i]);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, set_up, lock_tear_down)
