/* Those who take locks, one after the other: what they want, and for how long. The threads of a process with the
 * blocking client work under their lock, ask whether they still have it, write, and give it back. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/invariant.h"
#include "tests/sim/lock/schedule.h"

enum { PRESSED = 2 };
#define PRESSED_MIN_NS (20 * NS_PER_MS)
#define PRESSED_MAX_NS (60 * NS_PER_MS)

const char *lock_key_name(unsigned resource)
{
    static const char *const names[LOCK_RESOURCES_MAX] = {"a", "b", "c"};
    static const char *const seats[LOCK_RESOURCES_MAX] = {"a", "hf:seat:2:a", "hf:seat:3:a"};
    return lock_schedule.limit > 0 ? seats[resource] : names[resource];
}

/* --- what they want ----------------------------------------------------------------------------------------------- */

bool lock_user_is_steward(const struct lock_user *user)
{
    return lock_schedule.is_rolling && user->client->number == 0 && user->number == 0;
}

bool lock_user_is_pressed(const struct lock_user *user)
{
    return lock_schedule.is_pressed && !lock_schedule.is_calm && user->client->number < PRESSED && user->number == 0;
}

int64_t lock_user_hold_ns(struct lock_user *user)
{
    int64_t ttl_ns = user->client->terms.ttl_ms * NS_PER_MS;
    if (lock_schedule.is_quitting)
        return 0;
    if (lock_schedule.is_pressed && !lock_schedule.is_calm)
        return chance_between(&user->chance, PRESSED_MIN_NS, PRESSED_MAX_NS);
    if (lock_schedule.is_calm) /* every user is to have its turn */
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

/* After the trouble, users leave the locks to those that have had none yet. */
int64_t lock_user_rest_ns(struct lock_user *user)
{
    int64_t ns = chance_below(&user->chance, user->client->terms.ttl_ms * NS_PER_MS);
    if (lock_schedule.is_crowded && user->is_reader)
        return ns / 32;
    if (lock_user_is_pressed(user))
        return ns;
    if (lock_schedule.is_pressed && !lock_schedule.is_calm) /* each of the pressed is alone in its process */
        return user->client->number < PRESSED ? 20 * NS_PER_S : ns / 1024;
    if (lock_schedule.is_calm && user->acquired > user->acquired_before)
        return NS_PER_S + ns;
    if (lock_schedule.is_herd)
        ns = NS_PER_S - world_time().ns % NS_PER_S;
    return lock_schedule.is_calm ? ns / 8 : ns;
}

/* Nearly everybody wants any seat; some want a certain one, some know nothing of seats, and want the first, and some
 * know fewer than the others. */
static void seat_wants(struct lock_user *user, struct redlock_request *request)
{
    unsigned seat = chance_pick(&user->chance, 8) == 0 ? 1 + chance_pick(&user->chance, lock_schedule.limit) : 0;
    bool knows = chance_pick(&user->chance, 8) != 0 && user->client->kind != LOCK_FOREIGN;
    user->wanted[0] = lock_key_name(0);
    request->resource_count = 1;
    user->searches = knows && seat == 0;
    request->limit = !knows ? 0 : user->searches && user->number % 3 == 2 ? 2 : lock_schedule.limit;
    request->seat = knows ? seat : 0;
    user->resources = user->searches ? (1u << request->limit) - 1 : knows ? 1u << (seat - 1) : 1;
}

/* In a crowd each user is one or the other. Readers know nothing of seats. */
static void share_wants(struct lock_user *user, struct redlock_request *request)
{
    bool wants =
        lock_schedule.is_crowded ? (user->client->number + user->number) % 3 != 0 : chance_pick(&user->chance, 3) != 0;
    user->is_reader = wants && user->client->kind != LOCK_FOREIGN && !lock_user_is_pressed(user);
    request->shared = user->is_reader;
    if (lock_schedule.limit > 0 && user->is_reader) {
        request->limit = request->seat = 0;
        user->searches = false;
        user->resources = 1;
    }
    user->comes_back = request->comes_back = request->leaves_when_busy && chance_pick(&user->chance, 2) == 0;
}

void lock_user_wants(struct lock_user *user, struct redlock_request *request)
{
    unsigned count = lock_schedule.resource_count - lock_schedule.is_rolling;
    unsigned first = chance_pick(&user->chance, count), second = first;
    if (lock_schedule.is_herd)
        first = second = 0;
    if (chance_pick(&user->chance, 4) == 0)
        second = chance_pick(&user->chance, count);
    if (lock_user_is_steward(user))
        first = second = count;
    if (lock_schedule.is_pressed && !lock_schedule.is_calm) {
        first = (user->client->number + user->number) % count;
        second = lock_user_is_pressed(user) ? 1 - first : first;
    }
    user->resources = 1u << first | 1u << second;
    user->wanted[0] = lock_key_name(first);
    user->wanted[1] = lock_key_name(second);
    snprintf(user->owner, sizeof user->owner, "%u.%u.%u", user->client->number, user->number, ++user->tries);
    *request = (struct redlock_request){.resources = user->wanted,
                                        .owner = user->owner,
                                        .resource_count = first == second ? 1 : 2,
                                        .waits_here = chance_pick(&user->chance, 4) == 0,
                                        .leaves_when_busy = chance_pick(&user->chance, 8) == 0};
    if (lock_schedule.limit > 0)
        seat_wants(user, request);
    if (lock_schedule.is_pressed)
        request->leaves_when_busy = false;
    if (lock_schedule.has_readers)
        share_wants(user, request);
    lock_judge_asked(user);
}

void lock_user_has(struct lock_user *user, unsigned seat)
{
    if (seat > lock_schedule.limit || (seat == 0 && user->searches))
        play_violated("seats", "user %u.%u has seat %u of %u", user->client->number, user->number, seat,
                      lock_schedule.limit);
    if (seat > 0)
        user->resources = 1u << (seat - 1);
    if (seat > 1)
        play_count("acquired another seat than the first", 1);
    user->searches = false;
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

/* Until it is enough, or the lock is lost. */
static void hold(struct lock_user *user)
{
    int64_t left_ns = lock_user_hold_ns(user);
    while (left_ns > 0 && redlock_held_valid_for_ms(user->held) > 0) {
        int64_t ns = chance_between(&user->chance, left_ns / 4 + 1, left_ns);
        process_sleep(ns);
        if (lock_schedule.is_calm || !lock_user_is_steward(user))
            left_ns -= ns;
        lock_judge_holds(user);
        lock_judge_write(user); /* as a user does that does not check first */
        if (chance_pick(&user->chance, 16) == 0)
            play_count(redlock_held_verify(user->held) ? "verified" : "not verified", 1);
    }
    if (redlock_held_valid_for_ms(user->held) == 0)
        lock_judge_lost(user);
}

static void take(struct lock_user *user, struct redlock_client *client)
{
    char reason[384] = "";
    struct redlock_request request;
    struct redlock_held *held = NULL;
    lock_user_wants(user, &request);
    struct redlock_terms terms = user->client->terms; /* each user its own mixture of the waits */
    if (chance_pick(&user->chance, 4) == 0 && !lock_schedule.is_crowded && !lock_schedule.is_pressed)
        terms.wait_ms = 0;
    const char *first = request.resources[0];
    enum redlock_answer answer = redlock_client_acquire(client, &terms, &request, &held, reason, sizeof reason);
    play_count(redlock_answer_name(answer), 1);
    world_tell("%s wants %s%s%s: %s %s", user->owner, first, request.resource_count > 1 ? " and another" : "",
               user->is_reader ? " to read" : "", redlock_answer_name(answer), reason);
    if (answer != REDLOCK_ACQUIRED) {
        lock_judge_refused(user, answer);
        user->resources = 0;
        return;
    }
    user->token = redlock_held_token(held);
    lock_user_has(user, redlock_held_seat(held));
    user->held = held;
    lock_judge_acquired(user);
    hold(user);
    user->held = NULL;
    enum redlock_ending ending =
        redlock_client_release(held, chance_pick(&user->chance, 3) == 0 ? REDLOCK_BACKGROUND : REDLOCK_AWAIT);
    user->resources = 0;
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
    while (!lock_schedule.is_quitting) {
        process_sleep(lock_user_rest_ns(user));
        take(user, use->client);
    }
    return NULL;
}

static void blocking_main(void *argument)
{
    struct lock_client *client = argument;
    pthread_t threads[LOCK_USERS_MAX];
    struct use uses[LOCK_USERS_MAX];
    char reason[256] = "";
    process_blocks_begin();
    struct redlock_client *redlock = redlock_client_open(&client->options, reason, sizeof reason);
    invariant(redlock != NULL);
    for (unsigned i = 0; i < lock_schedule.user_count; i++) {
        uses[i] = (struct use){.user = &client->users[i], .client = redlock};
        invariant(pthread_create(&threads[i], NULL, user_main, &uses[i]) == 0);
    }
    for (unsigned i = 0; i < lock_schedule.user_count; i++)
        pthread_join(threads[i], NULL);
    redlock_client_close(redlock);
    play_freed();
}

/* --- processes ---------------------------------------------------------------------------------------------------- */

static void client_died(struct process *process)
{
    struct lock_client *client = process->context;
    if (client->process == process)
        lock_judge_process_died(client);
}

void lock_client_start(struct lock_client *client)
{
    static void (*const mains[])(void *argument) = {[LOCK_BLOCKING] = blocking_main,
                                                    [LOCK_LOOP] = lock_loop_main,
                                                    [LOCK_OLD] = blocking_main,
                                                    [LOCK_FOREIGN] = lock_foreign_main};
    char name[24];
    snprintf(name, sizeof name, "client%u", client->number);
    for (unsigned i = 0; i < lock_schedule.user_count; i++) {
        struct lock_user *user = &client->users[i];
        unsigned tries = user->tries, acquired = user->acquired, before = user->acquired_before;
        *user = (struct lock_user){.client = client,
                                   .number = i,
                                   .tries = tries,
                                   .acquired = acquired,
                                   .acquired_before = before,
                                   .chance = {.state = chance_next(world_chance())}};
    }
    memset(client->met_at, 0, sizeof client->met_at);
    client->process = process_start(client->host, name, mains[client->kind], client);
    client->process->context = client;
    client->process->ended = client_died;
}
