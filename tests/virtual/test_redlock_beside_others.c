/* Locks of ours and plain Redlock clients of others want one resource: nobody waits long, and nobody starves. Every
 * group is a process of its own. The plain clients do what the libraries of others do by default: they ask again after
 * 100 to 300 ms, and announce nothing. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "tests/support/waiting_fixture.h"

#define FIRST_TURN_NS (15 * NS_PER_S) /* of holds, at most */
#define MET_NS        (5 * NS_PER_S)  /* how long they wait at most, when we know of them */
enum { HOLD_MS = 20, REST_MS = 20, PLAIN_TTL_MS = 8000, WATCHED_S = 60, USERS_MAX = 8 };

/* --- a plain client ----------------------------------------------------------------------------------------------- */

static void plain_release(unsigned number)
{
    char value[32];
    snprintf(value, sizeof value, "plain%u", number);
    for (unsigned i = 0; i < NODES; i++)
        if (strcmp(lock_cluster_ask(&cluster, i, "GET lock:r"), value) == 0)
            lock_cluster_ask(&cluster, i, "DEL lock:r");
}

static unsigned plain_count; /* of the attempts: each has a value of its own */

/* Returns its number; 0 = it was refused. */
static unsigned plain_acquire(void)
{
    unsigned granted = 0, number = ++plain_count;
    for (unsigned i = 0; i < NODES; i++)
        granted +=
            strcmp(lock_cluster_ask(&cluster, i, "SET lock:r plain%u NX PX %u", number, PLAIN_TTL_MS), "OK") == 0;
    if (granted < QUORUM)
        plain_release(number);
    return granted >= QUORUM ? number : 0;
}

/* --- users that want it again and again --------------------------------------------------------------------------- */

struct user {
    struct lock_probe *probe; /* NULL = a plain client */
    struct loop_timer timer;
    struct instant asked, granted;
    unsigned held; /* the number of a plain client's lock */
    int64_t held_ns, longest_wait_ns;
    bool has_it;
};

static struct user users[USERS_MAX];
static unsigned user_count;
static unsigned turns_left;       /* to others, by locks of ours that are released */
static const struct user *holder; /* exclusion, seen from here */

static void later(struct user *user, int64_t ms)
{
    loop_timer_set(loop, &user->timer, loop_after(loop, ms * NS_PER_MS));
}

static void granted(struct user *user)
{
    struct instant now = loop_now(loop);
    assert_null(holder);
    holder = user;
    user->has_it = true;
    user->granted = now;
    int64_t waited_ns = instant_since(user->asked, now);
    user->longest_wait_ns = waited_ns > user->longest_wait_ns ? waited_ns : user->longest_wait_ns;
    later(user, HOLD_MS);
}

static void given_back(struct user *user)
{
    holder = NULL;
    user->has_it = false;
    user->held_ns += instant_since(user->granted, loop_now(loop));
    later(user, random_between(1, REST_MS));
    user->asked = user->timer.item.at;
}

static void user_acts(struct loop_timer *timer)
{
    struct user *user = list_owner(timer, struct user, timer);
    const char *resource = "r";
    bool had_it = user->has_it;
    if (had_it)
        given_back(user);
    turns_left += user->probe != NULL && had_it && redlock_lock_gives_way(user->probe->lock);
    if (user->probe != NULL && had_it)
        redlock_lock_release(user->probe->lock);
    else if (user->probe != NULL && !redlock_lock_is_free(user->probe->lock))
        later(user, 1);
    else if (user->probe != NULL)
        assert_true(redlock_lock_acquire(
            user->probe->lock, &(struct redlock_request){.resources = &resource, .resource_count = 1, .owner = "us"}));
    else if (had_it)
        plain_release(user->held);
    else if ((user->held = plain_acquire()) != 0)
        granted(user);
    else
        later(user, random_between(100, 300));
}

static void told(struct lock_probe *probe, const struct redlock_event *event)
{
    for (unsigned i = 0; event->kind == REDLOCK_EVENT_ANSWER && i < user_count; i++)
        if (users[i].probe == probe) {
            assert_int_equal(event->answer, REDLOCK_ACQUIRED);
            granted(&users[i]);
        }
}

/* The lock probe's own release is quicker than its rest: an end before the next request. */
static struct user *user_add(struct lock_probe *probe)
{
    struct user *user = &users[user_count];
    *user = (struct user){
        .probe = probe,
    };
    user_count++;
    loop_timer_init(&user->timer, user_acts);
    later(user, probe != NULL ? 10 : 1);
    user->asked = user->timer.item.at;
    if (probe != NULL)
        probe->on_event = told;
    return user;
}

static void ours_add(unsigned of_process)
{
    user_add(waiter(of_process, 60000));
}

struct share {
    double ours, theirs;     /* of the time in which somebody had it, as a part of what is fair by heads */
    double held;             /* of the time */
    int64_t longest_wait_ns; /* of theirs */
};

/* The plain ones have it first: before they had it once, they leave no trace. */
static struct share share_watch(void)
{
    int64_t ours_ns = 0, theirs_ns = 0, longest_ns = 0;
    unsigned ours = 0, theirs = 0;
    loop_for(loop, (WATCHED_S * 1000) * NS_PER_MS);
    for (unsigned i = 0; i < user_count; i++) {
        const struct user *user = &users[i];
        *(user->probe != NULL ? &ours_ns : &theirs_ns) += user->held_ns;
        *(user->probe != NULL ? &ours : &theirs) += 1;
        if (user->probe == NULL && user->longest_wait_ns > longest_ns)
            longest_ns = user->longest_wait_ns;
    }
    double all_ns = (double)(ours_ns + theirs_ns), all = ours + theirs;
    struct share share = {.ours = (double)ours_ns / all_ns / (ours / all),
                          .theirs = (double)theirs_ns / all_ns / (theirs / all),
                          .held = all_ns / 1e9 / WATCHED_S,
                          .longest_wait_ns = longest_ns};
    print_message("ours %u, theirs %u: %.2f and %.2f of what is fair; theirs waited at most %.1f s; held %.3f\n", ours,
                  theirs, share.ours, share.theirs, (double)longest_ns / 1e9, share.held);
    return share;
}

static int set_up(void **state)
{
    user_count = turns_left = 0;
    holder = NULL;
    return waiting_set_up(state);
}

static int tear_down(void **state)
{
    for (unsigned i = 0; i < user_count; i++) {
        loop_timer_clear(loop, &users[i].timer);
        if (users[i].probe != NULL)
            users[i].probe->on_event = NULL;
    }
    return waiting_tear_down(state);
}

static void both_have_their_share(int64_t longest_wait_ns)
{
    struct share share = share_watch();
    assert_true(share.ours >= 0.5);
    assert_true(share.theirs >= 0.5);
    assert_in_range(share.longest_wait_ns, 0, longest_wait_ns);
}

/* --- waiting behind them ------------------------------------------------------------------------------------------ */

static int64_t waited_behind_ns(int64_t held_ms)
{
    struct lock_probe *probe = waiter(0, 20000);
    unsigned held = plain_acquire();
    assert_true(held > 0);
    lock_probe_ask(probe, "r");
    loop_for(loop, held_ms * NS_PER_MS);
    assert_int_equal(probe->answers, 0);
    struct instant freed = instant_now();
    plain_release(held);
    loop_await(loop, probe->answers == 1);
    assert_int_equal(probe->answer, REDLOCK_ACQUIRED);
    int64_t waited_ns = instant_since(freed, instant_now());
    assert_int_equal(lock_probe_release(probe), REDLOCK_RELEASED);
    loop_await(loop, lock_cluster_keys(&cluster) == 0);
    return waited_ns;
}

TEST(a_lock_that_they_give_back_early_is_ours_soon)
{
    assert_in_range(waited_behind_ns(20), 0, 65 * NS_PER_MS);
    assert_in_range(waited_behind_ns(500), 0, 170 * NS_PER_MS);
    assert_in_range(waited_behind_ns(3000), 0, 950 * NS_PER_MS);
    assert_in_range(waited_behind_ns(7500), 0, 1270 * NS_PER_MS);
}

TEST(looking_at_a_long_hold_of_theirs_costs_little)
{
    struct lock_probe *probe = waiter(0, 60000);
    unsigned held = plain_acquire();
    lock_probe_ask(probe, "r");
    loop_for(loop, 50 * NS_PER_MS);
    ask_first(NODES, "CONFIG RESETSTAT");
    loop_for(loop, 7000 * NS_PER_MS);
    assert_in_range(calls("time") / NODES, 1, 40);
    plain_release(held);
}

/* What a task does: one refusal, and the word how soon to come back. */
TEST(who_leaves_when_it_is_busy_hears_when_to_look_again)
{
    struct lock_probe *probe = waiter(0, 0), *ours = waiter(1, 0);
    probe->leaves_when_busy = true;
    assert_int_equal(lock_probe_acquire(ours, "q"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_acquire(probe, "q"), REDLOCK_BUSY);
    assert_int_equal(lock_others_look_ns(probe->lock), 0);
    unsigned held = plain_acquire();
    assert_int_equal(lock_probe_acquire(probe, "r"), REDLOCK_BUSY);
    assert_in_range(lock_others_look_ns(probe->lock), 37 * NS_PER_MS, 63 * NS_PER_MS);
    plain_release(held);
}

/* --- turns -------------------------------------------------------------------------------------------------------- */

TEST(one_of_ours_and_one_of_theirs)
{
    ours_add(0);
    user_add(NULL);
    both_have_their_share(MET_NS);
}

TEST(a_line_of_ours_and_one_of_theirs)
{
    for (unsigned i = 0; i < 4; i++)
        ours_add(0);
    user_add(NULL);
    both_have_their_share(FIRST_TURN_NS + MET_NS);
}

/* It finds the resource in our hands: the next turn that we leave to the unknown is up to 30 s of holds away. */
static void comes_later(unsigned of_processes)
{
    for (unsigned i = 0; i < 6; i++)
        ours_add(i % of_processes);
    loop_for(loop, 15000 * NS_PER_MS);
    user_add(NULL);
    loop_for(loop, 3 * FIRST_TURN_NS);
    for (unsigned i = 0; i < user_count; i++)
        users[i].held_ns = 0;
    both_have_their_share(3 * FIRST_TURN_NS);
}

TEST(a_line_of_ours_without_end_and_one_of_theirs_that_comes_later)
{
    comes_later(1);
}

TEST(lines_of_ours_without_end_and_one_of_theirs_that_comes_later)
{
    comes_later(3);
}

TEST(turns_for_the_unknown_cost_little)
{
    for (unsigned i = 0; i < 6; i++)
        ours_add(0);
    struct share share = share_watch();
    assert_true(share.held >= 0.93);
    assert_in_range(turns_left, 2, 6); /* the first after 5 to 15 s of holds, then one after each 10 to 30 s */
}

TEST(one_of_ours_and_some_of_theirs)
{
    ours_add(0);
    for (unsigned i = 0; i < 4; i++)
        user_add(NULL);
    both_have_their_share(MET_NS);
}

TEST(processes_of_ours_and_one_of_theirs)
{
    for (unsigned i = 0; i < 4; i++)
        ours_add(i);
    user_add(NULL);
    both_have_their_share(MET_NS);
}

TEST(their_turn_lasts_though_a_lock_that_waited_for_its_end_gives_up)
{
    struct lock_probe *first = waiter(0, 60000), *second = waiter(0, 60000), *third = waiter(0, 60000);
    unsigned held = plain_acquire();
    lock_probe_ask(first, "r");
    loop_for(loop, 100 * NS_PER_MS);
    plain_release(held);
    loop_await(loop, first->answers == 1);
    loop_for(loop, 500 * NS_PER_MS);
    assert_true(redlock_lock_gives_way(first->lock));
    lock_probe_ask(second, "r");
    lock_probe_ask(third, "r");
    struct instant began = loop_now(loop);
    redlock_lock_release(first->lock);
    redlock_lock_release(second->lock);
    assert_int_equal(second->answer, REDLOCK_CANCELLED);
    loop_await(loop, third->answers == 1);
    assert_int_equal(third->answer, REDLOCK_ACQUIRED);
    assert_true(instant_since(began, loop_now(loop)) >= REDLOCK_TURN_NS);
    assert_int_equal(lock_probe_release(third), REDLOCK_RELEASED);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, set_up, tear_down)
