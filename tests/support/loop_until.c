#include "tests/support/loop_until.h"

static const int64_t look_every_ns = 2 * NS_PER_MS;

struct look {
    struct loop_timer timer;
    struct loop *loop;
    bool (*condition)(void *context);
    void *context;
    struct instant limit;
    bool holds;
};

static void look_again(struct loop_timer *timer)
{
    struct look *look = list_owner(timer, struct look, timer);
    look->holds = look->condition(look->context);
    if (look->holds || instant_reached(loop_now(look->loop), look->limit))
        loop_stop(look->loop);
    else
        loop_timer_set(look->loop, timer, instant_after(loop_now(look->loop), look_every_ns));
}

bool loop_until(struct loop *loop, bool (*condition)(void *context), void *context, int64_t limit_ns)
{
    struct look look = {.loop = loop, .condition = condition, .context = context};
    look.limit = instant_after(instant_now(), limit_ns);
    loop_timer_init(&look.timer, look_again);
    loop_timer_set(loop, &look.timer, instant_now());
    loop_run(loop);
    loop_timer_clear(loop, &look.timer);
    return look.holds;
}

static bool never(void *context)
{
    (void)context;
    return false;
}

void loop_for(struct loop *loop, int64_t duration_ns)
{
    (void)loop_until(loop, never, NULL, duration_ns);
}
