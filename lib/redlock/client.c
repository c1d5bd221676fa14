/* The blocking client: a loop thread, and messages to it.
 *
 * A caller fills a struct redlock_held, posts it to the loop and sleeps on its semaphore. The loop wakes it exactly
 * once per operation, at the decision. Nothing else is shared: until the semaphore is posted the struct belongs to the
 * loop, afterwards to the caller again. A release in the background gives the struct to the loop, which frees it. Posts
 * that fall into one turn of the loop leave in one write per node. */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "redlock/group.h"
#include "redlock/limits.h"

#define POLL_NS        (1 * NS_PER_MS)
#define CLOSE_LIMIT_NS (2 * NS_PER_S) /* for releases in the background; after that the ttl does the work */

struct redlock_client {
    struct loop *loop;
    struct redlock_group *group;
    pthread_t thread;
    sem_t settled;
    struct loop_timer poll_timer; /* until the group is settled, and later until it can be closed */
    struct loop_message close_message;
    struct instant close_by;
};

struct redlock_held {
    struct loop_message message;
    struct redlock_client *client;
    struct redlock_lock *lock;
    const struct redlock_terms *terms;     /* the caller's, while it sleeps */
    const struct redlock_request *request; /* likewise */
    struct redlock_counters *counters;     /* likewise */
    enum redlock_wait wait;
    enum redlock_answer answer;
    enum redlock_ending ending;
    uint64_t token;
    unsigned place;
    struct redlock_verify verify;
    bool is_verified;
    char reason[384];
    sem_t decided;
};

/* --- on the loop ---------------------------------------------------------------------------------------------- */

static void held_event(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    struct redlock_held *held = context;
    if (event->kind == REDLOCK_EVENT_ANSWER) {
        held->answer = event->answer;
        held->token = redlock_lock_token(lock);
        held->place = redlock_lock_place(lock);
        snprintf(held->reason, sizeof held->reason, "%s", event->reason);
        if (event->answer != REDLOCK_ACQUIRED)
            redlock_lock_destroy(lock);
        sem_post(&held->decided);
    } else if (event->kind == REDLOCK_EVENT_RELEASED) {
        held->ending = event->ending;
        redlock_lock_destroy(lock);
        sem_post(&held->decided);
    }
}

static void acquire_deliver(struct loop_message *message)
{
    struct redlock_held *held = list_owner(message, struct redlock_held, message);
    struct redlock_group *group = held->client->group;
    if (!redlock_request_check(held->request, group->key_prefix, held->reason, sizeof held->reason)) {
        held->answer = REDLOCK_INVALID;
        sem_post(&held->decided);
        return;
    }
    held->lock = redlock_lock_create(group, held->terms, held_event, held);
    bool is_taken = redlock_lock_acquire(held->lock, held->request);
    invariant(is_taken);
}

static void held_free(struct redlock_held *held)
{
    sem_destroy(&held->decided);
    free(held);
}

static void release_deliver(struct loop_message *message)
{
    struct redlock_held *held = list_owner(message, struct redlock_held, message);
    redlock_lock_release(held->lock);
    if (held->wait == REDLOCK_AWAIT)
        return;
    redlock_lock_destroy(held->lock);
    held_free(held);
}

static void verified(struct redlock_verify *verify, bool is_held)
{
    struct redlock_held *held = list_owner(verify, struct redlock_held, verify);
    held->is_verified = is_held;
    sem_post(&held->decided);
}

static void verify_deliver(struct loop_message *message)
{
    struct redlock_held *held = list_owner(message, struct redlock_held, message);
    held->verify.done = verified;
    redlock_lock_verify(held->lock, &held->verify);
}

static void settle_fire(struct loop_timer *timer)
{
    struct redlock_client *client = list_owner(timer, struct redlock_client, poll_timer);
    if (redlock_group_is_settled(client->group))
        sem_post(&client->settled);
    else
        loop_timer_set(client->loop, timer, loop_after(client->loop, POLL_NS));
}

static void close_fire(struct loop_timer *timer)
{
    struct redlock_client *client = list_owner(timer, struct redlock_client, poll_timer);
    struct instant now = loop_now(client->loop);
    if (redlock_group_busy(client->group) > 0 && instant_before(now, client->close_by)) {
        loop_timer_set(client->loop, timer, instant_after(now, POLL_NS));
        return;
    }
    redlock_group_destroy(client->group);
    loop_stop(client->loop);
}

static void close_deliver(struct loop_message *message)
{
    struct redlock_client *client = list_owner(message, struct redlock_client, close_message);
    client->close_by = loop_after(client->loop, CLOSE_LIMIT_NS);
    lock_waits_cancel(client->group);
    loop_timer_init(&client->poll_timer, close_fire);
    close_fire(&client->poll_timer);
}

static void *client_run(void *argument)
{
    struct redlock_client *client = argument;
    loop_run(client->loop);
    return NULL;
}

static void count_deliver(struct loop_message *message)
{
    struct redlock_held *held = list_owner(message, struct redlock_held, message);
    *held->counters = *redlock_group_counters(held->client->group);
    sem_post(&held->decided);
}

/* --- on the callers' threads ----------------------------------------------------------------------------------- */

/* The loop bounds the wait: every operation completes by its deadlines. */
static void semaphore_wait(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        continue; /* EINTR: a signal handler of the program ran here */
}

static void held_post(struct redlock_held *held, void (*deliver)(struct loop_message *message))
{
    held->message.deliver = deliver;
    loop_post(held->client->loop, &held->message);
}

/* The program's signal handlers must not run on our thread. */
static bool thread_start(struct redlock_client *client)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&client->thread, NULL, client_run, client) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_setname_np(client->thread, "redlock");
    return started;
}

static struct redlock_client *client_discard(struct redlock_client *client)
{
    if (client->group != NULL)
        redlock_group_destroy(client->group);
    if (client->loop != NULL)
        loop_destroy(client->loop);
    sem_destroy(&client->settled);
    free(client);
    return NULL;
}

struct redlock_client *redlock_client_open(const struct redlock_options *options, char *reason, size_t reason_size)
{
    if (!redlock_options_check(options, reason, reason_size))
        return NULL;
    struct redlock_client *client = memory_new(struct redlock_client);
    struct error error = ERROR_NONE;
    log_set_level(options->logs_to_stderr ? LOG_INFO : LOG_NOTHING);
    sem_init(&client->settled, 0, 0);
    loop_timer_init(&client->poll_timer, settle_fire);
    client->loop = loop_create(&error);
    if (client->loop == NULL) {
        redlock_refuse(reason, reason_size, "%s", error.text);
        return client_discard(client);
    }
    client->group = redlock_group_create(client->loop, options, reason, reason_size);
    if (client->group == NULL)
        return client_discard(client);
    loop_timer_set(client->loop, &client->poll_timer, loop_now(client->loop));
    if (!thread_start(client)) {
        redlock_refuse(reason, reason_size, "no thread could be started");
        return client_discard(client);
    }
    semaphore_wait(&client->settled);
    return client;
}

void redlock_client_close(struct redlock_client *client)
{
    if (client == NULL)
        return;
    client->close_message.deliver = close_deliver;
    loop_post(client->loop, &client->close_message);
    pthread_join(client->thread, NULL);
    client->group = NULL;
    client_discard(client);
}

void redlock_client_counters(struct redlock_client *client, struct redlock_counters *counters)
{
    if (counters != NULL)
        *counters = (struct redlock_counters){0};
    if (client == NULL || counters == NULL)
        return;
    struct redlock_held question = {.client = client, .counters = counters};
    sem_init(&question.decided, 0, 0);
    held_post(&question, count_deliver);
    semaphore_wait(&question.decided);
    sem_destroy(&question.decided);
}

enum redlock_answer redlock_client_acquire(struct redlock_client *client, const struct redlock_terms *terms,
                                           const struct redlock_request *request, struct redlock_held **held_out,
                                           char *reason, size_t reason_size)
{
    const char *missing = client == NULL     ? "the client"
                          : terms == NULL    ? "the terms"
                          : request == NULL  ? "the request"
                          : held_out == NULL ? "the place for what is held"
                                             : NULL;
    if (held_out != NULL)
        *held_out = NULL;
    if (missing != NULL) {
        redlock_refuse(reason, reason_size, "NULL is given as %s", missing);
        return REDLOCK_INVALID;
    }
    struct redlock_terms checked = *terms;
    if (!redlock_terms_fit(&checked, client->group->slowest_timeout_ns, reason, reason_size))
        return REDLOCK_INVALID;
    struct redlock_held *held = memory_new(struct redlock_held);
    sem_init(&held->decided, 0, 0);
    held->client = client;
    held->terms = &checked;
    held->request = request;
    held_post(held, acquire_deliver);
    semaphore_wait(&held->decided);
    enum redlock_answer answer = held->answer;
    if (answer == REDLOCK_ACQUIRED) {
        *held_out = held;
        return answer;
    }
    redlock_refuse(reason, reason_size, "%s", held->reason);
    held_free(held);
    return answer;
}

static struct redlock_validity *validity_of(const struct redlock_held *held)
{
    return held != NULL ? redlock_lock_validity(held->lock) : NULL;
}

int64_t redlock_held_valid_for_ms(const struct redlock_held *held)
{
    return redlock_validity_left_ns(validity_of(held)) / NS_PER_MS;
}

bool redlock_held_in_danger(const struct redlock_held *held)
{
    return redlock_validity_in_danger(validity_of(held));
}

int redlock_held_descriptor(struct redlock_held *held)
{
    return redlock_validity_descriptor(validity_of(held));
}

uint64_t redlock_held_token(const struct redlock_held *held)
{
    return held != NULL ? held->token : 0;
}

unsigned redlock_held_place(const struct redlock_held *held)
{
    return held != NULL ? held->place : 0;
}

bool redlock_held_verify(struct redlock_held *held)
{
    if (held == NULL)
        return false;
    held_post(held, verify_deliver);
    semaphore_wait(&held->decided);
    return held->is_verified;
}

enum redlock_ending redlock_client_release(struct redlock_held *held, enum redlock_wait wait)
{
    if (held == NULL)
        return REDLOCK_UNKNOWN;
    held->wait = wait;
    held_post(held, release_deliver);
    if (wait == REDLOCK_BACKGROUND)
        return REDLOCK_RELEASED;
    semaphore_wait(&held->decided);
    enum redlock_ending ending = held->ending;
    held_free(held);
    return ending;
}
