/* Users of locks on a loop: as code of the worker uses them. Some act from inside the events. */

#include "base/invariant.h"
#include "base/memory.h"
#include "tests/sim/lock/schedule.h"

static void act_in(struct lock_user *user, int64_t ns)
{
    loop_timer_set(user->client->loop, &user->timer, instant_after(instant_now(), ns));
}

static void give_back(struct lock_user *user)
{
    bool is_held = user->told.is_held;
    loop_timer_clear(user->client->loop, &user->timer);
    lock_judge_given_back(user);
    if (is_held && chance_pick(&user->chance, 16) == 0) {
        user->is_lingering = true;
        redlock_lock_linger(user->lock, chance_below(&user->chance, user->client->terms.ttl_ms * NS_PER_MS));
    } else {
        redlock_lock_release(user->lock);
    }
}

static void rest(struct lock_user *user)
{
    user->resources = 0;
    if (!lock_schedule.is_quitting) {
        act_in(user, lock_user_rest_ns(user));
        return;
    }
    redlock_lock_destroy(user->lock);
    user->lock = NULL;
    if (--user->client->busy_users == 0)
        loop_stop(user->client->loop);
}

static void was_verified(struct redlock_verify *verify, bool is_held)
{
    (void)verify;
    play_count(is_held ? "verified" : "not verified", 1);
}

static void work(struct lock_user *user)
{
    lock_judge_holds(user);
    lock_judge_write(user);
    if (user->verify.done != NULL)
        redlock_lock_verify_cancel(user->lock, &user->verify);
    if (lock_user_is_steward(user) && !lock_schedule.is_calm) {
        act_in(user, user->client->terms.ttl_ms * NS_PER_MS);
        return;
    }
    switch (chance_pick(&user->chance, 32)) {
    case 0:
        user->verify = (struct redlock_verify){.done = was_verified};
        redlock_lock_verify(user->lock, &user->verify);
        act_in(user, 500 * NS_PER_MS);
        return;
    case 1:
        redlock_lock_forfeit(user->lock);
        return;
    default:
        give_back(user);
        return;
    }
}

static void acquire(struct lock_user *user)
{
    struct redlock_request request;
    lock_user_wants(user, &request);
    invariant(redlock_lock_acquire(user->lock, &request));
    if (chance_pick(&user->chance, 8) == 0) /* it gives up waiting */
        act_in(user, chance_scale(&user->chance, 100 * NS_PER_US, user->client->terms.ttl_ms * NS_PER_MS / 2));
}

static void timer_fire(struct loop_timer *timer)
{
    struct lock_user *user = list_owner(timer, struct lock_user, timer);
    if (redlock_lock_is_free(user->lock)) {
        if (lock_schedule.is_quitting)
            rest(user);
        else if (!redlock_group_is_settled(user->client->group))
            act_in(user, 5 * NS_PER_MS);
        else
            acquire(user);
    } else if (user->told.is_held) {
        work(user);
    } else {
        give_back(user);
    }
}

static void answered(struct lock_user *user, const struct redlock_event *event)
{
    play_count(redlock_answer_name(event->answer), 1);
    world_tell("%s wants set %#x: %s %s", user->owner, user->resources, redlock_answer_name(event->answer),
               event->reason);
    loop_timer_clear(user->client->loop, &user->timer);
    if (event->handed_over)
        play_count("handed over", 1);
    if (event->answer != REDLOCK_ACQUIRED) {
        lock_judge_refused(user, event->answer);
        rest(user);
        return;
    }
    user->token = redlock_lock_token(user->lock);
    lock_user_has(user, redlock_lock_seat(user->lock));
    lock_judge_acquired(user);
    int64_t ns = lock_user_hold_ns(user);
    if (ns == 0 || (chance_pick(&user->chance, 16) == 0 && !lock_user_is_steward(user)))
        give_back(user);
    else
        act_in(user, ns);
}

static void on_event(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    struct lock_user *user = context;
    (void)lock;
    lock_judge_event(user, event);
    switch (event->kind) {
    case REDLOCK_EVENT_ANSWER:
        answered(user, event);
        return;
    case REDLOCK_EVENT_EXTENDED:
        play_count("extended", 1);
        return;
    case REDLOCK_EVENT_DANGER:
        play_count("danger", 1);
        return;
    case REDLOCK_EVENT_LOST:
        if (event->loss != REDLOCK_LOST_FORFEIT && event->loss != REDLOCK_LOST_MAX_HOLD)
            lock_judge_lost(user);
        if (chance_pick(&user->chance, 2) == 0)
            give_back(user);
        else
            act_in(user, chance_below(&user->chance, NS_PER_S));
        return;
    case REDLOCK_EVENT_RELEASED:
        world_tell("%s gave it back: %s", user->owner, redlock_ending_name(event->ending));
        rest(user);
        return;
    }
}

void lock_loop_main(void *argument)
{
    struct lock_client *client = argument;
    struct error error = ERROR_NONE;
    char reason[256] = "";
    process_blocks_begin();
    client->loop = loop_create(&error);
    invariant(client->loop != NULL);
    client->group = redlock_group_create(client->loop, &client->options, reason, sizeof reason);
    invariant(client->group != NULL);
    client->busy_users = lock_schedule.user_count;
    struct redlock_terms terms = client->terms;
    invariant(redlock_terms_check(&terms, &client->options, reason, sizeof reason));
    for (unsigned i = 0; i < lock_schedule.user_count; i++) {
        struct lock_user *user = &client->users[i];
        user->lock = redlock_lock_create(client->group, &terms, on_event, user);
        loop_timer_init(&user->timer, timer_fire);
        act_in(user, lock_user_rest_ns(user));
    }
    loop_run(client->loop);
    redlock_group_destroy(client->group);
    client->group = NULL;
    loop_destroy(client->loop);
    play_freed();
}
