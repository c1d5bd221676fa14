/* The loop's deadlines, cycle-end hooks and messages; its descriptors, names and signals are in test_loop_watch.c. */
#include "tests/support/test.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include "base/loop.h"
#include "tests/support/one_loop.h"

/* --- deadlines ---------------------------------------------------------------------------------------------- */

struct lettered {
    struct loop_timer timer;
    struct instant due;
    char letter;
};

static void letter_fires(struct loop_timer *timer)
{
    struct lettered *lettered = list_owner(timer, struct lettered, timer);
    assert_false(loop_timer_is_set(timer));
    assert_true(instant_reached(instant_now(), lettered->due));
    assert_true(instant_reached(loop_now(loop), lettered->due));
    note(lettered->letter);
}

static void letter_set(struct lettered *lettered, char letter, struct instant due)
{
    if (lettered->timer.fire == NULL)
        loop_timer_init(&lettered->timer, letter_fires);
    lettered->letter = letter;
    lettered->due = due;
    loop_timer_set(loop, &lettered->timer, due);
}

TEST(deadlines_fire_in_order_and_not_before_time)
{
    struct lettered a = {.letter = 0}, b = {.letter = 0}, c = {.letter = 0}, d = {.letter = 0};
    struct instant first = soon(10), later = soon(30); /* before the thread may have to wait for the processor */
    letter_set(&c, 'c', later);
    letter_set(&a, 'a', (struct instant){0});
    letter_set(&b, 'b', first);
    letter_set(&d, 'd', INSTANT_NEVER);
    stop_at(soon(40));
    loop_run(loop);
    assert_string_equal(trace, "abc");
    assert_true(loop_timer_is_set(&d.timer));
    loop_timer_clear(loop, &d.timer);
}

TEST(a_cleared_deadline_does_not_fire)
{
    struct lettered a = {.letter = 0}, b = {.letter = 0};
    letter_set(&a, 'a', soon(5));
    letter_set(&b, 'b', soon(10));
    loop_timer_clear(loop, &a.timer);
    loop_timer_clear(loop, &a.timer);
    assert_false(loop_timer_is_set(&a.timer));
    stop_at(soon(20));
    loop_run(loop);
    assert_string_equal(trace, "b");
}

TEST(a_deadline_can_be_moved_both_ways)
{
    struct lettered a = {.letter = 0}, b = {.letter = 0};
    struct instant first = soon(10), later = soon(20);
    letter_set(&a, 'a', soon(5));
    letter_set(&b, 'b', soon(1000000));
    letter_set(&a, 'a', later); /* the timerfd goes off for nothing meanwhile */
    letter_set(&b, 'b', first);
    stop_at(soon(30));
    loop_run(loop);
    assert_string_equal(trace, "ba");
}

static struct lettered moved_forward;

static void message_moves_forward(struct loop_message *message)
{
    (void)message;
    letter_set(&moved_forward, 'a', soon(5));
    stop_at(soon(6));
}

/* The loop waits for the guard when it hears of an earlier deadline. Were that late, the guard would fire with it. */
TEST(an_earlier_deadline_set_while_running_is_not_late)
{
    struct loop_message message = {.deliver = message_moves_forward};
    letter_set(&moved_forward, 'a', soon(1000000));
    loop_post(loop, &message);
    loop_run(loop);
    assert_string_equal(trace, "a");
}

static int again_left;

static void again_fires(struct loop_timer *timer)
{
    note('.');
    if (--again_left > 0)
        loop_timer_set(loop, timer, soon(1));
    else
        loop_stop(loop);
}

TEST(a_deadline_may_set_itself_again)
{
    struct loop_timer timer;
    again_left = 5;
    loop_timer_init(&timer, again_fires);
    loop_timer_set(loop, &timer, soon(0));
    loop_run(loop);
    assert_string_equal(trace, ".....");
}

static struct lettered due_long_ago;

static void message_sets_what_is_due_long_ago(struct loop_message *message)
{
    (void)message;
    letter_set(&due_long_ago, 'a', (struct instant){0});
    stop_at(soon(10));
}

TEST(a_deadline_of_long_ago_fires_in_the_next_cycle)
{
    struct loop_message message = {.deliver = message_sets_what_is_due_long_ago};
    loop_post(loop, &message);
    loop_run(loop);
    assert_string_equal(trace, "a");
}

/* Stands in front of the C library's, to count. */
static int alarms_moved;

int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
    alarms_moved++;
    return (int)syscall(SYS_timerfd_settime, fd, flags, new, old);
}

enum { STEADY_CYCLES = 1000 };

static struct lettered steady_deadline;
static int steady_cycles;

/* What a connection does all day: a deadline for an answer, cleared when it is there, set for the next. */
static void steady_cycle(struct loop_message *message)
{
    loop_timer_clear(loop, &steady_deadline.timer);
    letter_set(&steady_deadline, 'a', soon(100000));
    if (++steady_cycles < STEADY_CYCLES)
        loop_post(loop, message);
    else
        loop_stop(loop);
}

TEST(deadlines_cost_no_system_call_in_the_steady_state)
{
    struct loop_message message = {.deliver = steady_cycle};
    alarms_moved = steady_cycles = 0;
    loop_post(loop, &message);
    loop_run(loop);
    loop_timer_clear(loop, &steady_deadline.timer);
    assert_int_equal(alarms_moved, 1); /* for the guard */
}

/* --- the end of the cycle ------------------------------------------------------------------------------------ */

struct lettered_hook {
    struct loop_hook hook;
    char letter;
    struct lettered_hook *asks; /* when it runs */
    enum loop_stage asks_stage;
    int asks_times;
};

static void hook_runs(struct loop_hook *hook)
{
    struct lettered_hook *lettered = list_owner(hook, struct lettered_hook, hook);
    note(lettered->letter);
    if (lettered->letter == '!')
        loop_stop(loop);
    if (lettered->asks_times-- > 0)
        loop_at_cycle_end(loop, lettered->asks_stage, &lettered->asks->hook);
}

static void hook_set_up(struct lettered_hook *hook, char letter)
{
    *hook = (struct lettered_hook){.letter = letter};
    loop_hook_init(&hook->hook, hook_runs);
}

TEST(hooks_run_stage_by_stage_before_the_loop_first_waits)
{
    struct lettered_hook a, b, c, stop;
    hook_set_up(&a, 'a');
    hook_set_up(&b, 'b');
    hook_set_up(&c, 'c');
    hook_set_up(&stop, '!');
    loop_at_cycle_end(loop, LOOP_WRITE, &stop.hook);
    loop_at_cycle_end(loop, LOOP_BATCH, &b.hook);
    loop_at_cycle_end(loop, LOOP_GATHER, &a.hook);
    loop_at_cycle_end(loop, LOOP_GATHER, &c.hook);
    loop_at_cycle_end(loop, LOOP_GATHER, &a.hook); /* twice is once */
    loop_run(loop);
    assert_string_equal(trace, "acb!");
}

TEST(hooks_may_ask_for_themselves_and_for_any_stage)
{
    struct lettered_hook a, b, stop;
    hook_set_up(&a, 'a');
    hook_set_up(&b, 'b');
    hook_set_up(&stop, '!');
    a.asks = &a; /* its own stage, twice */
    a.asks_stage = LOOP_GATHER;
    a.asks_times = 2;
    b.asks = &a; /* an earlier stage, which then goes before what is left of this one */
    b.asks_stage = LOOP_GATHER;
    b.asks_times = 1;
    loop_at_cycle_end(loop, LOOP_GATHER, &a.hook);
    loop_at_cycle_end(loop, LOOP_WRITE, &b.hook);
    loop_at_cycle_end(loop, LOOP_WRITE, &stop.hook);
    loop_run(loop);
    assert_string_equal(trace, "aaaba!");
}

TEST(a_cancelled_hook_does_not_run)
{
    struct lettered_hook a, stop;
    hook_set_up(&a, 'a');
    hook_set_up(&stop, '!');
    loop_at_cycle_end(loop, LOOP_GATHER, &a.hook);
    loop_at_cycle_end(loop, LOOP_WRITE, &stop.hook);
    loop_hook_cancel(&a.hook);
    loop_hook_cancel(&a.hook);
    loop_run(loop);
    assert_string_equal(trace, "!");
}

static struct lettered_hook hook_of_message;

struct lettered_message {
    struct loop_message message;
    char letter;
};

static void message_asks_for_hook(struct loop_message *message)
{
    note(list_owner(message, struct lettered_message, message)->letter);
    loop_at_cycle_end(loop, LOOP_BATCH, &hook_of_message.hook);
}

/* Nothing else happens after the messages: the hook must not wait for it. */
TEST(a_hook_asked_for_by_messages_runs_in_the_same_cycle)
{
    hook_set_up(&hook_of_message, '!');
    struct lettered_message m = {.message.deliver = message_asks_for_hook, .letter = 'm'};
    struct lettered_message n = {.message.deliver = message_asks_for_hook, .letter = 'n'};
    loop_post(loop, &m.message);
    loop_post(loop, &n.message);
    loop_run(loop);
    assert_string_equal(trace, "mn!");
}

static struct lettered_hook hook_of_timer;

static void timer_asks_for_hook(struct loop_timer *timer)
{
    (void)timer;
    loop_at_cycle_end(loop, LOOP_WRITE, &hook_of_timer.hook);
}

TEST(a_hook_asked_for_by_a_deadline_runs_in_the_same_cycle)
{
    struct loop_timer timer;
    hook_set_up(&hook_of_timer, '!');
    loop_timer_init(&timer, timer_asks_for_hook);
    loop_timer_set(loop, &timer, soon(5));
    loop_run(loop);
    assert_string_equal(trace, "!");
}

TEST(hooks_of_the_last_cycle_run_before_loop_run_returns)
{
    hook_set_up(&hook_of_message, 'h');
    struct lettered_message m = {.message.deliver = message_asks_for_hook, .letter = 'm'};
    loop_post(loop, &m.message);
    loop_stop(loop);
    loop_run(loop);
    assert_string_equal(trace, "mh");
}

/* --- messages ----------------------------------------------------------------------------------------------- */

enum { POSTERS = 4, POSTS = 5000 };

struct post {
    struct loop_message message;
    int poster, number;
};

static int posts_next[POSTERS], posts_seen;

static void post_delivered(struct loop_message *message)
{
    struct post *post = list_owner(message, struct post, message);
    loop_assert_inside(loop);
    assert_int_equal(post->number, posts_next[post->poster]++);
    free(post);
    if (++posts_seen == POSTERS * POSTS)
        loop_stop(loop);
}

static void *poster_run(void *index)
{
    for (int i = 0; i < POSTS; i++) {
        struct post *post = calloc(1, sizeof *post);
        *post = (struct post){.message.deliver = post_delivered, .poster = *(int *)index, .number = i};
        loop_post(loop, &post->message);
    }
    return NULL;
}

TEST(messages_of_many_threads_arrive_once_and_in_order)
{
    pthread_t threads[POSTERS];
    int indices[POSTERS];
    memset(posts_next, 0, sizeof posts_next);
    posts_seen = 0;
    for (int i = 0; i < POSTERS; i++) {
        indices[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, poster_run, &indices[i]), 0);
    }
    loop_run(loop);
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(posts_next[i], POSTS);
    }
}

static void message_posts_itself(struct loop_message *message)
{
    note('m');
    if (traced < 3)
        loop_post(loop, message);
    else
        loop_stop(loop);
}

TEST(a_delivered_message_can_be_posted_again)
{
    struct loop_message message = {.deliver = message_posts_itself};
    loop_post(loop, &message);
    loop_run(loop);
    assert_string_equal(trace, "mmm");
}

static void message_noted(struct loop_message *message)
{
    (void)message;
    note('m');
}

TEST(a_message_left_over_is_delivered_when_the_loop_is_destroyed)
{
    struct error error = ERROR_NONE;
    struct loop *other = loop_create(&error);
    struct loop_message message = {.deliver = message_noted};
    loop_post(other, &message);
    loop_destroy(other);
    assert_string_equal(trace, "m");
}

static void *thread_runs_loop(void *unused)
{
    (void)unused;
    loop_run(loop);
    return NULL;
}

TEST(another_thread_may_run_and_another_stop)
{
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, thread_runs_loop, NULL), 0);
        loop_stop(loop); /* perhaps before the thread is there: it counts all the same */
        pthread_join(thread, NULL);
    }
}

static void *thread_asserts(void *unused)
{
    (void)unused;
    loop_assert_inside(loop);
    return NULL;
}

static void touch_from_another_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_asserts, NULL) == 0)
        pthread_join(thread, NULL);
}

TEST(another_thread_is_caught)
{
    loop_assert_inside(loop);
    assert_true(test_aborts(touch_from_another_thread));
}

RUN_TESTS_WITH(one_loop_set_up, one_loop_tear_down)
