/* Threads of a client process: each takes locks, works under them, asks whether it still has them, and gives them
 * back. */
#include <pthread.h>
#include <stdio.h>

#include "base/invariant.h"
#include "tests/sim/lock/schedule.h"

const char *const lock_resource_names[LOCK_RESOURCES_MAX] = {"a", "b", "c"};

static int64_t hold_draw(struct lock_user *user)
{
    int64_t ttl_ns = user->client->terms.ttl_ns;
    if (user->client->schedule->is_quitting)
        return 0;
    if (user->client->schedule->is_calm) /* everybody is to have its turn */
        return chance_below(&user->chance, ttl_ns / 20);
    switch (chance_pick(&user->chance, 8)) {
    case 0:
        return chance_between(&user->chance, ttl_ns, 3 * ttl_ns);
    case 1:
    case 2:
    case 3:
        return chance_below(&user->chance, ttl_ns);
    default:
        return chance_below(&user->chance, ttl_ns / 5);
    }
}

/* Until it is enough, or the lock is lost. */
static void hold(struct lock_user *user)
{
    int64_t left_ns = hold_draw(user);
    while (left_ns > 0 && redlock_held_valid_for_ns(user->held) > 0) {
        int64_t ns = chance_between(&user->chance, left_ns / 4 + 1, left_ns);
        process_sleep(ns);
        left_ns -= ns;
        lock_judge_holds(user);
        if (chance_pick(&user->chance, 16) == 0)
            play_count(redlock_held_verify(user->held) ? "verified" : "not verified", 1);
    }
    if (redlock_held_valid_for_ns(user->held) == 0)
        lock_judge_lost(user);
}

/* Returns how many it wants. */
static unsigned want(struct lock_user *user, const char *wanted[2])
{
    unsigned count = user->client->schedule->resource_count, first = chance_pick(&user->chance, count);
    unsigned second = chance_pick(&user->chance, 4) == 0 ? chance_pick(&user->chance, count) : first;
    user->resources = 1u << first | 1u << second;
    wanted[0] = lock_resource_names[first];
    wanted[1] = lock_resource_names[second];
    return second == first ? 1 : 2;
}

static void take(struct lock_user *user, struct redlock_client *client)
{
    const char *wanted[2];
    char reason[384] = "";
    struct redlock_request request = {.resources = wanted, .owner = user->owner};
    struct redlock_held *held = NULL;
    request.resource_count = want(user, wanted);
    snprintf(user->owner, sizeof user->owner, "%u.%u.%u", user->client->number, user->number, ++user->tries);
    user->asked = world_time();
    enum redlock_answer answer =
        redlock_client_acquire(client, &user->client->terms, &request, &held, reason, sizeof reason);
    play_count(redlock_answer_name(answer), 1);
    world_tell("%s wants %s%s: %s %s", user->owner, wanted[0], request.resource_count > 1 ? " and another" : "",
               redlock_answer_name(answer), reason);
    if (answer != REDLOCK_ACQUIRED) {
        lock_judge_refused(user, answer);
        return;
    }
    user->token = redlock_held_token(held);
    user->held = held;
    lock_judge_acquired(user);
    hold(user);
    user->held = NULL;
    enum redlock_ending ending =
        redlock_client_release(held, chance_pick(&user->chance, 3) == 0 ? REDLOCK_BACKGROUND : REDLOCK_AWAIT);
    world_tell("%s gave it back: %s", user->owner, redlock_ending_name(ending));
}

struct use {
    struct lock_user *user;
    struct redlock_client *client;
};

static void *user_main(void *argument)
{
    struct use *use = argument;
    struct lock_user *user = use->user;
    while (!user->client->schedule->is_quitting) {
        process_sleep(chance_below(&user->chance, user->client->terms.ttl_ns));
        take(user, use->client);
    }
    return NULL;
}

static void client_main(void *argument)
{
    struct lock_client *client = argument;
    pthread_t threads[LOCK_USERS_MAX];
    struct use uses[LOCK_USERS_MAX];
    char reason[256] = "";
    struct redlock_client *redlock = redlock_client_open(&client->options, reason, sizeof reason);
    invariant(redlock != NULL);
    for (unsigned i = 0; i < client->schedule->user_count; i++) {
        uses[i] = (struct use){.user = &client->users[i], .client = redlock};
        client->users[i].chance = (struct chance){.state = chance_next(&process_current()->chance)};
        client->users[i].held = NULL;
        invariant(pthread_create(&threads[i], NULL, user_main, &uses[i]) == 0);
    }
    for (unsigned i = 0; i < client->schedule->user_count; i++)
        pthread_join(threads[i], NULL);
    redlock_client_close(redlock);
}

void lock_client_start(struct lock_client *client)
{
    char name[24];
    snprintf(name, sizeof name, "client%u", client->number);
    client->process = process_start(client->host, name, client_main, client);
}
