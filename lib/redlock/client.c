/* The blocking client: a loop thread, and messages to it.
 *
 * A caller fills a struct redlock_held, posts it to the loop and sleeps on its semaphore. The loop wakes it exactly
 * once per operation, at the decision. Nothing else is shared: until the semaphore is posted the struct belongs to the
 * loop, afterwards to the caller again. A release in the background gives the struct to the loop, which frees it. Posts
 * that fall into one cycle of the loop leave in one write per node. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "redlock/client.h"
#include "redlock/limits.h"

#define POLL_NS        (1 * NS_PER_MS)
#define CLOSE_LIMIT_NS (2 * NS_PER_S) /* for releases in the background; after that the ttl does the work */

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
    unsigned seat;
    struct redlock_verify verify;
    int64_t extend_ns; /* by redlock_held_extend; 0: only to verify */
    bool is_verified;
    char reason[384];
    sem_t decided;
    struct loop_message cancel_message;
    atomic_bool is_cancelled; /* the message is on its way, and ends with `cancelled` */
    sem_t cancelled;
    bool gives_up, asks; /* on the loop: the message has come; there is a request to give up */
    void (*told)(void *context, bool is_lost);
    void *context;
};

/* --- on the loop ---------------------------------------------------------------------------------------------- */

static void held_event(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    struct redlock_held *held = context;
    if (event->kind == REDLOCK_EVENT_DANGER || event->kind == REDLOCK_EVENT_LOST) {
        if (held->told != NULL)
            held->told(held->context, event->kind == REDLOCK_EVENT_LOST);
    } else if (event->kind == REDLOCK_EVENT_ANSWER) {
        held->asks = false;
        held->answer = event->answer;
        held->token = redlock_lock_token(lock);
        held->seat = redlock_lock_seat(lock);
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
    if (held->gives_up || held->client->close_by.ns != 0) {
        held->answer = REDLOCK_CANCELLED;
        snprintf(held->reason, sizeof held->reason, "given up before any lock node was asked");
        sem_post(&held->decided);
        return;
    }
    held->asks = true;
    held->lock = redlock_lock_create(held->client->group, held->terms, held_event, held);
    bool is_taken = redlock_lock_acquire(held->lock, held->request);
    invariant(is_taken);
}

static void cancel_deliver(struct loop_message *message)
{
    struct redlock_held *held = list_owner(message, struct redlock_held, cancel_message);
    held->gives_up = true;
    if (held->asks)
        redlock_lock_release(held->lock);
    sem_post(&held->cancelled);
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
    held->is_verified = is_held && redlock_lock_ttl_ns(held->lock) >= held->extend_ns;
    sem_post(&held->decided);
}

static void verify_deliver(struct loop_message *message)
{
    struct redlock_held *held = list_owner(message, struct redlock_held, message);
    int64_t most_ns = redlock_longest_ttl_ns(trust_max_ttl_ns(&held->client->group->trust));
    if (held->extend_ns > most_ns) {
        held->is_verified = false;
        snprintf(held->reason, sizeof held->reason, "%lld ms is above the max_ttl of the lock group, %lld ms",
                 (long long)(held->extend_ns / NS_PER_MS), (long long)(most_ns / NS_PER_MS));
        sem_post(&held->decided);
        return;
    }
    snprintf(held->reason, sizeof held->reason, "a majority of the lock nodes does not confirm that it is held");
    held->verify.done = verified;
    redlock_lock_extend(held->lock, held->extend_ns, &held->verify);
}

static void settle_fire(struct loop_timer *timer)
{
    struct redlock_client *client = list_owner(timer, struct redlock_client, poll_timer);
    if (redlock_group_is_ready(client->group))
        sem_post(&client->settled);
    else
        loop_timer_set(client->loop, timer, loop_after(client->loop, POLL_NS));
}

static bool has_lockers(struct redlock_client *client)
{
    pthread_mutex_lock(&client->lock);
    bool has_some = client->lockers > 0;
    pthread_mutex_unlock(&client->lock);
    return has_some;
}

/* Threads that give up still look at the client. */
static void close_fire(struct loop_timer *timer)
{
    struct redlock_client *client = list_owner(timer, struct redlock_client, poll_timer);
    struct instant now = loop_now(client->loop);
    if (has_lockers(client) || (redlock_group_busy(client->group) > 0 && instant_before(now, client->close_by))) {
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

static struct redlock_client *client_discard(struct redlock_client *client)
{
    if (client->group != NULL)
        redlock_group_destroy(client->group);
    if (client->loop != NULL)
        loop_destroy(client->loop);
    sem_destroy(&client->settled);
    pthread_cond_destroy(&client->changed);
    pthread_mutex_destroy(&client->lock);
    if (client->news_descriptor >= 0)
        close(client->news_descriptor);
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
    client->process = getpid();
    client->news_descriptor = -1;
    sem_init(&client->settled, 0, 0);
    pthread_mutex_init(&client->lock, NULL);
    thread_condition_init(&client->changed);
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
    if (thread_spawn(&client->thread, "redlock", client_run, client) != 0) {
        redlock_refuse(reason, reason_size, "no thread could be started");
        return client_discard(client);
    }
    semaphore_wait(&client->settled);
    return client;
}

bool client_is_ours(const struct redlock_client *client)
{
    return client != NULL && client->process == getpid();
}

static bool is_thread_of(const struct redlock_client *client)
{
    return pthread_equal(client->thread, pthread_self());
}

const char *client_refusal(const struct redlock_client *client)
{
    if (client == NULL)
        return "the client is NULL";
    if (!client_is_ours(client))
        return "a parent process opened the client: open another one here";
    return is_thread_of(client) ? "a callback on the thread of the client must not wait for it" : NULL;
}

void redlock_client_close(struct redlock_client *client)
{
    if (client_refusal(client) != NULL)
        return;
    pthread_mutex_lock(&client->lock);
    client->is_closing = true;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
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
    if (!client_is_ours(client) || counters == NULL)
        return;
    if (is_thread_of(client)) {
        *counters = *redlock_group_counters(client->group);
        return;
    }
    struct redlock_held question = {.client = client, .counters = counters};
    sem_init(&question.decided, 0, 0);
    held_post(&question, count_deliver);
    semaphore_wait(&question.decided);
    sem_destroy(&question.decided);
}

struct redlock_held *held_create(struct redlock_client *client, void (*told)(void *context, bool is_lost),
                                 void *context)
{
    struct redlock_held *held = memory_new(struct redlock_held);
    sem_init(&held->decided, 0, 0);
    sem_init(&held->cancelled, 0, 0);
    held->client = client;
    held->told = told;
    held->context = context;
    return held;
}

enum redlock_answer held_acquire(struct redlock_held *held, const struct redlock_terms *terms,
                                 const struct redlock_request *request, char *reason, size_t reason_size)
{
    held->terms = terms;
    held->request = request;
    held_post(held, acquire_deliver);
    semaphore_wait(&held->decided);
    if (held->answer != REDLOCK_ACQUIRED)
        redlock_refuse(reason, reason_size, "%s", held->reason);
    return held->answer;
}

void held_cancel(struct redlock_held *held)
{
    if (atomic_exchange(&held->is_cancelled, true))
        return;
    held->cancel_message.deliver = cancel_deliver;
    loop_post(held->client->loop, &held->cancel_message);
}

void held_free(struct redlock_held *held)
{
    if (atomic_load(&held->is_cancelled))
        semaphore_wait(&held->cancelled);
    sem_destroy(&held->cancelled);
    sem_destroy(&held->decided);
    free(held);
}

enum redlock_answer redlock_client_acquire(struct redlock_client *client, const struct redlock_terms *terms,
                                           const struct redlock_request *request, struct redlock_held **held_out,
                                           char *reason, size_t reason_size)
{
    const char *missing = client == NULL     ? "the client"
                          : request == NULL  ? "the request"
                          : held_out == NULL ? "the place for what is held"
                                             : NULL;
    if (held_out != NULL)
        *held_out = NULL;
    if (missing != NULL) {
        redlock_refuse(reason, reason_size, "NULL is given as %s", missing);
        return REDLOCK_INVALID;
    }
    const char *refusal = client_refusal(client);
    if (refusal != NULL) {
        redlock_refuse(reason, reason_size, "%s", refusal);
        return REDLOCK_INVALID;
    }
    struct redlock_terms fitted = {0};
    if (terms != NULL)
        fitted = *terms;
    if (!redlock_terms_fit(&fitted, client->group->slowest_timeout_ns, reason, reason_size) ||
        !redlock_request_check(request, client->group->key_prefix, reason, reason_size))
        return REDLOCK_INVALID;
    struct redlock_held *held = held_create(client, NULL, NULL);
    enum redlock_answer answer = held_acquire(held, &fitted, request, reason, reason_size);
    if (answer == REDLOCK_ACQUIRED)
        *held_out = held;
    else
        held_free(held);
    return answer;
}

static bool is_ours(const struct redlock_held *held)
{
    return held != NULL && client_is_ours(held->client);
}

static struct redlock_validity *validity_of(const struct redlock_held *held)
{
    return is_ours(held) ? redlock_lock_validity(held->lock) : NULL;
}

int64_t held_valid_until_ns(const struct redlock_held *held)
{
    struct redlock_validity *validity = validity_of(held);
    return redlock_validity_left_ns(validity) > 0 ? atomic_load(&validity->until) : 0;
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
    return is_ours(held) ? held->token : 0;
}

unsigned redlock_held_seat(const struct redlock_held *held)
{
    return is_ours(held) ? held->seat : 0;
}

static bool verify(struct redlock_held *held, int64_t extend_ns)
{
    held->extend_ns = extend_ns;
    held_post(held, verify_deliver);
    semaphore_wait(&held->decided);
    return held->is_verified;
}

bool redlock_held_verify(struct redlock_held *held)
{
    return held != NULL && client_refusal(held->client) == NULL && verify(held, 0);
}

bool redlock_held_extend(struct redlock_held *held, int64_t ms, char *reason, size_t reason_size)
{
    if (held == NULL)
        return redlock_refuse(reason, reason_size, "NULL is given as what is held");
    const char *refusal = client_refusal(held->client);
    if (refusal != NULL)
        return redlock_refuse(reason, reason_size, "%s", refusal);
    if (ms <= 0)
        return redlock_refuse(reason, reason_size, "it can be extended by at least 1 ms");
    return verify(held, ns_from_ms(ms)) || redlock_refuse(reason, reason_size, "%s", held->reason);
}

enum redlock_ending redlock_client_release(struct redlock_held *held, enum redlock_wait wait)
{
    if (!is_ours(held))
        return REDLOCK_NOT_HELD;
    if (wait == REDLOCK_AWAIT && is_thread_of(held->client))
        return REDLOCK_STILL_HELD;
    held->wait = wait;
    held_post(held, release_deliver);
    if (wait == REDLOCK_BACKGROUND)
        return REDLOCK_RELEASED;
    semaphore_wait(&held->decided);
    enum redlock_ending ending = held->ending;
    held_free(held);
    return ending;
}
