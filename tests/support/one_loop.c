#include "tests/support/one_loop.h"

#include <string.h>

#include "tests/support/test.h"

struct loop *loop;
char trace[64];
size_t traced;

static struct loop_timer guard, stopper;

void note(char letter)
{
    if (traced < sizeof trace - 1)
        trace[traced++] = letter;
}

struct instant soon(int64_t milliseconds)
{
    return instant_after(instant_now(), milliseconds * NS_PER_MS);
}

static void guard_fires(struct loop_timer *timer)
{
    (void)timer;
    fail_msg("the loop was not stopped; trace: %s", trace);
}

static void stopper_fires(struct loop_timer *timer)
{
    (void)timer;
    loop_stop(loop);
}

void stop_at(struct instant due)
{
    loop_timer_set(loop, &stopper, due);
}

int one_loop_set_up(void **state)
{
    (void)state;
    struct error error = ERROR_NONE;
    memset(trace, 0, sizeof trace);
    traced = 0;
    loop = loop_create(&error);
    if (loop == NULL)
        return -1;
    loop_timer_init(&guard, guard_fires);
    loop_timer_init(&stopper, stopper_fires);
    loop_timer_set(loop, &guard, instant_after(instant_now(), TEST_PATIENCE_NS));
    return 0;
}

int one_loop_tear_down(void **state)
{
    (void)state;
    loop_destroy(loop);
    return 0;
}
