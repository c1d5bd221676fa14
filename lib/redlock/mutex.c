/* The mutex: a layer over the blocking client.
 *
 * A hold is one lock at the nodes. Its entries are the structs that are inside, more than one only with an owner. What
 * several threads touch is under the lock of the client. Nobody waits for the loop with it, because the loop takes it
 * to tell the entries of danger and loss. */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/memory.h"
#include "redlock/client.h"
#include "redlock/limits.h"
#include "redlock/redlock_mutex.h"
#include "redlock/reentry.h"

struct redlock_hold {
    struct reentry_hold rule;
    struct redlock_client *client;
    struct redlock_held *held; /* NULL until it is acquired */
    struct redlock_owner *owner;
    struct redlock_hold *next; /* of the owner */
    struct redlock_mutex *inside;
    bool is_asking; /* a thread verifies or extends it */
    unsigned news;  /* that its entries do not know yet */
    const char *names[REDLOCK_RESOURCES_MAX];
};

/* A callback that runs, on the stack of its thread. */
struct telling {
    struct redlock_mutex *mutex; /* NULL once the callback has unlocked it */
    pthread_t thread;
    struct telling *next;
};

/* --- news --------------------------------------------------------------------------------------------------------- */

static struct told_list *told_list_of(struct redlock_client *client, const struct redlock_mutex *mutex)
{
    return mutex->is_dispatched ? &client->told_elsewhere : &client->told_here;
}

static void told_append(struct told_list *list, struct redlock_mutex *mutex)
{
    mutex->next_told = NULL;
    if (list->first == NULL)
        list->first = mutex;
    else
        list->last->next_told = mutex;
    list->last = mutex;
}

static void told_remove(struct told_list *list, struct redlock_mutex *mutex)
{
    struct redlock_mutex *before = NULL, *at = list->first;
    for (; at != mutex; at = at->next_told)
        before = at;
    if (before == NULL)
        list->first = mutex->next_told;
    else
        before->next_told = mutex->next_told;
    if (list->last == mutex)
        list->last = before;
}

/* Whether a thread is inside a callback for it. */
static bool is_told_now(const struct redlock_client *client, const struct redlock_mutex *mutex)
{
    for (const struct telling *telling = client->tellings; telling != NULL; telling = telling->next)
        if (telling->mutex == mutex)
            return true;
    return false;
}

static void telling_end(struct redlock_client *client, const struct telling *telling)
{
    struct telling **at = &client->tellings;
    while (*at != telling)
        at = &(*at)->next;
    *at = telling->next;
    pthread_cond_broadcast(&client->changed);
}

/* Under the lock, which the callbacks run without. What comes for a mutex during its callback is told behind it, by the
 * same thread: so two threads in dispatch never tell one mutex at once. */
static unsigned tell_all(struct redlock_client *client, struct told_list *list)
{
    unsigned calls = 0;
    for (struct redlock_mutex *mutex = list->first; mutex != NULL; mutex = list->first) {
        struct telling telling = {.mutex = mutex, .thread = pthread_self(), .next = client->tellings};
        list->first = mutex->next_told;
        client->tellings = &telling;
        while (telling.mutex != NULL && mutex->news != 0) {
            bool is_danger = (mutex->news & 1u << REDLOCK_NEWS_DANGER) != 0; /* which is told first */
            enum redlock_news kind = is_danger ? REDLOCK_NEWS_DANGER : REDLOCK_NEWS_LOST;
            mutex->news &= ~(1u << kind);
            pthread_mutex_unlock(&client->lock);
            mutex->told(mutex, kind);
            calls++;
            pthread_mutex_lock(&client->lock);
        }
        telling_end(client, &telling);
    }
    return calls;
}

static void tell_deliver(struct loop_message *message)
{
    struct redlock_client *client = list_owner(message, struct redlock_client, tell_message);
    pthread_mutex_lock(&client->lock);
    client->is_posted = false;
    tell_all(client, &client->told_here);
    pthread_mutex_unlock(&client->lock);
}

/* Under the lock. */
static void news_pass_on(struct redlock_hold *hold)
{
    struct redlock_client *client = hold->client;
    for (struct redlock_mutex *mutex = hold->inside; mutex != NULL; mutex = mutex->next_inside) {
        if (mutex->told == NULL || hold->news == 0)
            continue;
        if (mutex->news == 0 && !is_told_now(client, mutex))
            told_append(told_list_of(client, mutex), mutex);
        mutex->news |= hold->news;
    }
    hold->news = 0;
    if (client->told_elsewhere.first != NULL && client->news_descriptor >= 0)
        (void)eventfd_write(client->news_descriptor, 1);
    if (pthread_equal(client->thread, pthread_self())) {
        tell_all(client, &client->told_here);
    } else if (client->told_here.first != NULL && !client->is_posted) {
        client->is_posted = true;
        client->tell_message.deliver = tell_deliver;
        loop_post(client->loop, &client->tell_message);
    }
}

/* On the loop. The thread that locks may not know yet that it has it: then it passes on what came before. */
static void hold_told(void *context, bool is_lost)
{
    struct redlock_hold *hold = context;
    struct redlock_client *client = hold->client;
    pthread_mutex_lock(&client->lock);
    hold->news |= 1u << (is_lost ? REDLOCK_NEWS_LOST : REDLOCK_NEWS_DANGER);
    if (hold->rule.is_acquired)
        news_pass_on(hold);
    pthread_mutex_unlock(&client->lock);
}

/* Whether another thread is inside a callback for it. One on this thread learns that the mutex no longer exists. */
static bool is_told_elsewhere(struct redlock_client *client, const struct redlock_mutex *mutex)
{
    bool is_elsewhere = false;
    for (struct telling *telling = client->tellings; telling != NULL; telling = telling->next) {
        if (telling->mutex != mutex)
            continue;
        if (pthread_equal(telling->thread, pthread_self()))
            telling->mutex = NULL;
        else
            is_elsewhere = true;
    }
    return is_elsewhere;
}

int redlock_client_news_fd(struct redlock_client *client)
{
    if (!client_is_ours(client))
        return -1;
    pthread_mutex_lock(&client->lock);
    if (client->news_descriptor < 0)
        client->news_descriptor = eventfd(client->told_elsewhere.first != NULL, EFD_NONBLOCK | EFD_CLOEXEC);
    int descriptor = client->news_descriptor;
    pthread_mutex_unlock(&client->lock);
    return descriptor;
}

unsigned redlock_client_dispatch(struct redlock_client *client)
{
    if (!client_is_ours(client))
        return 0;
    eventfd_t seen = 0;
    pthread_mutex_lock(&client->lock);
    if (client->news_descriptor >= 0)
        (void)eventfd_read(client->news_descriptor, &seen);
    unsigned calls = tell_all(client, &client->told_elsewhere);
    pthread_mutex_unlock(&client->lock);
    return calls;
}

/* --- holds -------------------------------------------------------------------------------------------------------- */

/* One call that locks. */
struct asking {
    struct redlock_mutex *mutex;
    struct redlock_client *client;
    struct redlock_terms terms; /* with the defaults in them */
    struct redlock_request request;
    const char *names[REDLOCK_RESOURCES_MAX]; /* sorted */
    unsigned name_count, cancels;
};

static enum redlock_answer refuse(struct redlock_mutex *mutex, enum redlock_answer answer, const char *why)
{
    redlock_refuse(mutex->reason, sizeof mutex->reason, "%s", why);
    return answer;
}

/* With one entry, which gets notifications from now on. */
static struct redlock_hold *hold_begin(const struct asking *asking)
{
    struct redlock_owner *owner = asking->mutex->owner;
    struct redlock_hold *hold = memory_new(struct redlock_hold);
    for (unsigned i = 0; i < asking->name_count; i++)
        hold->names[i] = memory_text(asking->names[i]);
    hold->rule = (struct reentry_hold){
        .names = hold->names, .name_count = asking->name_count, .is_shared = asking->request.shared, .entries = 1};
    hold->client = asking->client;
    hold->owner = owner;
    hold->inside = asking->mutex;
    asking->mutex->next_inside = NULL;
    if (owner != NULL) {
        hold->next = owner->holds;
        owner->holds = hold;
    }
    return hold;
}

/* Under the lock. Nobody of its owner finds it any more. */
static void hold_leave_owner(struct redlock_hold *hold)
{
    struct redlock_hold **at = hold->owner != NULL ? &hold->owner->holds : NULL;
    while (at != NULL && *at != hold)
        at = &(*at)->next;
    if (at != NULL)
        *at = hold->next;
    pthread_cond_broadcast(&hold->client->changed);
}

static void hold_free(struct redlock_hold *hold)
{
    for (unsigned i = 0; i < hold->rule.name_count; i++)
        free((char *)hold->names[i]);
    free(hold);
}

/* What has no limit is the first seat. */
static unsigned first_if_none(unsigned seat)
{
    return seat > 0 ? seat : 1;
}

static enum reentry owner_judge(const struct asking *asking, struct redlock_hold **hold_out)
{
    const struct redlock_owner *owner = asking->mutex->owner;
    const struct reentry_request request = {.names = asking->names,
                                            .name_count = asking->name_count,
                                            .is_shared = asking->request.shared,
                                            .limit = first_if_none(asking->request.limit)};
    for (struct redlock_hold *hold = owner != NULL ? owner->holds : NULL; hold != NULL; hold = hold->next) {
        bool in_danger = redlock_held_in_danger(hold->held);
        enum reentry judged = reentry_judge(&hold->rule, &request, in_danger);
        *hold_out = hold;
        if (judged != REENTRY_NEW)
            return judged;
    }
    return REENTRY_NEW;
}

/* --- waiting in this process -------------------------------------------------------------------------------------- */

static int64_t monotonic_after_ms(int64_t ms)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return instant_after((struct instant){now.tv_sec * NS_PER_S + now.tv_nsec}, ns_from_ms(ms)).ns;
}

static bool is_cancelled(const struct asking *asking)
{
    return asking->client->is_closing || asking->mutex->cancels != asking->cancels;
}

/* Under the lock: until something changed. False once the time is over. */
static bool wait_for_change(struct redlock_client *client, int64_t until_ns)
{
    struct timespec until = {.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
    return pthread_cond_timedwait(&client->changed, &client->lock, &until) == 0;
}

/* --- locking ------------------------------------------------------------------------------------------------------ */

/* Under the lock, which nobody has while the nodes are asked. */
static enum redlock_answer ask_nodes(const struct asking *asking, struct redlock_hold *hold,
                                     const struct redlock_terms *terms)
{
    struct redlock_mutex *mutex = asking->mutex;
    struct redlock_held *held = held_create(asking->client, hold_told, hold);
    mutex->asks = held;
    pthread_mutex_unlock(&asking->client->lock);
    enum redlock_answer answer = held_acquire(held, terms, &asking->request, mutex->reason, sizeof mutex->reason);
    pthread_mutex_lock(&asking->client->lock);
    mutex->asks = NULL;
    bool is_late = answer == REDLOCK_ACQUIRED && asking->client->is_closing;
    if (answer == REDLOCK_ACQUIRED && !is_late) {
        hold->held = held;
        return answer;
    }
    pthread_mutex_unlock(&asking->client->lock);
    if (is_late)
        redlock_client_release(held, REDLOCK_AWAIT);
    else
        held_free(held);
    pthread_mutex_lock(&asking->client->lock);
    return is_late ? refuse(mutex, REDLOCK_CANCELLED, "given up because its client closes") : answer;
}

/* With delays of the caller's own, so one attempt at a time. */
static enum redlock_answer ask_with_delays(const struct asking *asking, struct redlock_hold *hold)
{
    struct redlock_mutex *mutex = asking->mutex;
    struct redlock_terms once = asking->terms;
    once.tries = 1;
    for (unsigned attempts = 1;; attempts++) {
        enum redlock_answer answer = ask_nodes(asking, hold, &once);
        bool is_final = answer == REDLOCK_ACQUIRED || answer == REDLOCK_CANCELLED || answer == REDLOCK_INVALID;
        if (is_final || attempts >= asking->terms.tries)
            return answer;
        pthread_mutex_unlock(&asking->client->lock);
        int64_t delay_ms = mutex->delay_ms(mutex, attempts);
        pthread_mutex_lock(&asking->client->lock);
        int64_t until_ns = monotonic_after_ms(delay_ms > 0 ? delay_ms : 0);
        while (!is_cancelled(asking) && wait_for_change(asking->client, until_ns))
            continue;
        if (is_cancelled(asking))
            return refuse(mutex, REDLOCK_CANCELLED, "given up before it was acquired");
    }
}

static enum redlock_answer acquire(const struct asking *asking)
{
    struct redlock_mutex *mutex = asking->mutex;
    struct redlock_hold *hold = hold_begin(asking);
    bool has_delays = mutex->delay_ms != NULL && asking->terms.wait_ms == 0;
    enum redlock_answer answer = has_delays ? ask_with_delays(asking, hold) : ask_nodes(asking, hold, &asking->terms);
    if (answer == REDLOCK_ACQUIRED) {
        hold->rule.is_acquired = true;
        hold->rule.seat = first_if_none(redlock_held_seat(hold->held));
        mutex->hold = hold;
        mutex->entries = 1;
        pthread_cond_broadcast(&asking->client->changed);
        if (hold->news != 0)
            news_pass_on(hold);
        return answer;
    }
    hold_leave_owner(hold);
    hold_free(hold);
    return answer;
}

static enum redlock_answer enter(struct redlock_mutex *mutex, struct redlock_hold *hold)
{
    if (mutex->hold != NULL && mutex->hold != hold)
        return refuse(mutex, REDLOCK_INVALID, "it is locked already, with other names");
    reentry_enter(&hold->rule);
    if (mutex->entries++ > 0)
        return REDLOCK_ACQUIRED;
    mutex->hold = hold;
    mutex->next_inside = hold->inside;
    hold->inside = mutex;
    return REDLOCK_ACQUIRED;
}

/* A thread that waited for another one of its owner has less time for the nodes. */
static void wait_shorten(struct asking *asking, int64_t until_ns)
{
    int64_t left_ns = until_ns - monotonic_after_ms(0);
    if (asking->terms.wait_ms > 0)
        asking->terms.wait_ms = left_ns > NS_PER_MS ? ms_from_ns(left_ns) : 1;
}

/* Under the lock. */
static enum redlock_answer lock_or_enter(struct asking *asking)
{
    struct redlock_mutex *mutex = asking->mutex;
    struct redlock_hold *hold = NULL;
    const struct redlock_terms *terms = &asking->terms;
    int64_t retries_ms = (int64_t)(terms->tries - 1) * (terms->retry_delay_ms + terms->retry_jitter_ms);
    int64_t until_ns = monotonic_after_ms(terms->wait_ms > 0 ? terms->wait_ms : retries_ms);
    for (;;) {
        if (is_cancelled(asking))
            return refuse(mutex, REDLOCK_CANCELLED, "given up before it was acquired");
        switch (owner_judge(asking, &hold)) {
        case REENTRY_NEW:
            return mutex->hold == NULL ? acquire(asking)
                                       : refuse(mutex, REDLOCK_INVALID,
                                                "it is locked already: only an owner may enter "
                                                "again, and only with names that it has");
        case REENTRY_AGAIN:
            return enter(mutex, hold);
        case REENTRY_OVERLAP:
            return refuse(mutex, REDLOCK_INVALID, "its owner has some of the names and would wait for itself");
        case REENTRY_UPGRADE:
            return refuse(mutex, REDLOCK_INVALID,
                          "its owner has it for reading: unlock it before it is locked to write");
        case REENTRY_BEYOND:
            return refuse(mutex, REDLOCK_INVALID,
                          "its owner has a seat beyond this limit: unlock it before another is locked");
        case REENTRY_DANGER:
            return refuse(mutex, REDLOCK_IN_DANGER, "its owner has it, and it is in danger or lost: unlock it first");
        case REENTRY_UNDECIDED:
            break;
        }
        if (!wait_for_change(asking->client, until_ns))
            return refuse(mutex, REDLOCK_BUSY, "another thread of its owner is asking for it");
        wait_shorten(asking, until_ns);
    }
}

/* False, with an answer, if nothing can be asked. */
static bool asking_begin(struct asking *asking, struct redlock_mutex *mutex, const struct redlock_terms *terms)
{
    char *reason = mutex->reason;
    size_t size = sizeof mutex->reason;
    const char *refusal = client_refusal(mutex->client);
    if (refusal != NULL)
        return redlock_refuse(reason, size, "%s", refusal);
    if (mutex->name != NULL && mutex->name_count > 0)
        return redlock_refuse(reason, size, "it has a name and names: set one of them");
    *asking = (struct asking){.mutex = mutex, .client = mutex->client, .terms = *terms};
    asking->request = (struct redlock_request){
        .resources = mutex->name != NULL ? &mutex->name : mutex->names,
        .resource_count = mutex->name != NULL ? 1 : mutex->name_count,
        .owner = mutex->owner != NULL ? mutex->owner->name : NULL,
        .limit = mutex->limit,
        .shared = mutex->shared,
    };
    if (!redlock_request_check(&asking->request, mutex->client->group->key_prefix, reason, size) ||
        !redlock_terms_fit(&asking->terms, mutex->client->group->slowest_timeout_ns, reason, size))
        return false;
    asking->name_count = redlock_resources_sort(&asking->request, asking->names);
    return true;
}

static enum redlock_answer lock_on(struct redlock_mutex *mutex, const struct redlock_terms *terms)
{
    struct asking asking;
    mutex->reason[0] = '\0';
    if (!asking_begin(&asking, mutex, terms))
        return REDLOCK_INVALID;
    struct redlock_owner *owner = mutex->owner;
    enum redlock_answer answer = REDLOCK_INVALID;
    pthread_mutex_lock(&asking.client->lock);
    asking.client->lockers++;
    asking.cancels = mutex->cancels;
    if (owner != NULL && owner->holds == NULL)
        owner->client = asking.client;
    if (owner != NULL && owner->client != asking.client)
        (void)refuse(mutex, REDLOCK_INVALID, "its owner has locks of another client");
    else
        answer = lock_or_enter(&asking);
    asking.client->lockers--;
    pthread_mutex_unlock(&asking.client->lock);
    return answer;
}

enum redlock_answer redlock_mutex_lock(struct redlock_mutex *mutex)
{
    return mutex != NULL ? lock_on(mutex, &mutex->terms) : REDLOCK_INVALID;
}

enum redlock_answer redlock_mutex_try_lock_for(struct redlock_mutex *mutex, int64_t wait_ms, int64_t lease_ms)
{
    if (mutex == NULL)
        return REDLOCK_INVALID;
    struct redlock_terms terms = mutex->terms;
    terms.wait_ms = wait_ms;
    terms.tries = 1;
    if (lease_ms != 0)
        terms.max_hold_ms = lease_ms;
    return lock_on(mutex, &terms);
}

enum redlock_answer redlock_mutex_try_lock(struct redlock_mutex *mutex)
{
    return redlock_mutex_try_lock_for(mutex, 0, 0);
}

void redlock_mutex_cancel(struct redlock_mutex *mutex)
{
    if (mutex == NULL || !client_is_ours(mutex->client))
        return;
    pthread_mutex_lock(&mutex->client->lock);
    mutex->cancels++;
    if (mutex->asks != NULL)
        held_cancel(mutex->asks);
    pthread_cond_broadcast(&mutex->client->changed);
    pthread_mutex_unlock(&mutex->client->lock);
}

/* --- leaving ------------------------------------------------------------------------------------------------------ */

/* Under the lock: once this has returned, no new callback runs for it. One that runs may read the hold. */
static void leave(struct redlock_client *client, struct redlock_mutex *mutex)
{
    struct redlock_mutex **at = &mutex->hold->inside;
    while (*at != mutex)
        at = &(*at)->next_inside;
    *at = mutex->next_inside;
    if (mutex->news != 0 && !is_told_now(client, mutex))
        told_remove(told_list_of(client, mutex), mutex);
    mutex->news = 0;
    while (is_told_elsewhere(client, mutex))
        pthread_cond_wait(&client->changed, &client->lock);
    mutex->hold = NULL;
}

enum redlock_ending redlock_mutex_unlock(struct redlock_mutex *mutex)
{
    if (mutex == NULL || mutex->hold == NULL || !client_is_ours(mutex->client))
        return REDLOCK_NOT_HELD;
    struct redlock_client *client = mutex->client;
    struct redlock_hold *hold = mutex->hold;
    mutex->reason[0] = '\0';
    const char *refusal = client_refusal(client);
    if (refusal != NULL) {
        (void)refuse(mutex, REDLOCK_INVALID, refusal);
        return REDLOCK_STILL_HELD;
    }
    pthread_mutex_lock(&client->lock);
    bool is_last = reentry_leave(&hold->rule);
    if (is_last)
        hold_leave_owner(hold);
    if (--mutex->entries == 0)
        leave(client, mutex);
    pthread_mutex_unlock(&client->lock);
    if (!is_last)
        return REDLOCK_STILL_HELD;
    enum redlock_ending ending = redlock_client_release(hold->held, REDLOCK_AWAIT);
    hold_free(hold);
    return ending;
}

/* --- while it is held --------------------------------------------------------------------------------------------- */

static struct redlock_held *held_of(const struct redlock_mutex *mutex)
{
    return mutex != NULL && mutex->hold != NULL && client_is_ours(mutex->client) ? mutex->hold->held : NULL;
}

/* One thread at a time asks the nodes about a hold. */
static void asking_turn(struct redlock_hold *hold, bool begins)
{
    pthread_mutex_lock(&hold->client->lock);
    while (begins && hold->is_asking)
        pthread_cond_wait(&hold->client->changed, &hold->client->lock);
    hold->is_asking = begins;
    pthread_cond_broadcast(&hold->client->changed);
    pthread_mutex_unlock(&hold->client->lock);
}

bool redlock_mutex_extend(struct redlock_mutex *mutex, int64_t ms)
{
    if (mutex == NULL)
        return false;
    mutex->reason[0] = '\0';
    if (mutex->hold == NULL)
        return redlock_refuse(mutex->reason, sizeof mutex->reason, "it is not locked");
    const char *refusal = client_refusal(mutex->client);
    if (refusal != NULL)
        return redlock_refuse(mutex->reason, sizeof mutex->reason, "%s", refusal);
    asking_turn(mutex->hold, true);
    bool is_held = redlock_held_extend(mutex->hold->held, ms, mutex->reason, sizeof mutex->reason);
    asking_turn(mutex->hold, false);
    return is_held;
}

/* No ttl is shorter, so it stays as it is. */
bool redlock_mutex_touch(struct redlock_mutex *mutex)
{
    return redlock_mutex_extend(mutex, 1);
}

int64_t redlock_mutex_valid_until_ms(const struct redlock_mutex *mutex)
{
    return held_valid_until_ns(held_of(mutex)) / NS_PER_MS;
}

int64_t redlock_mutex_valid_for_ms(const struct redlock_mutex *mutex)
{
    return redlock_held_valid_for_ms(held_of(mutex));
}

bool redlock_mutex_in_danger(const struct redlock_mutex *mutex)
{
    return redlock_held_in_danger(held_of(mutex));
}

uint64_t redlock_mutex_token(const struct redlock_mutex *mutex)
{
    return redlock_held_token(held_of(mutex));
}

unsigned redlock_mutex_seat(const struct redlock_mutex *mutex)
{
    const struct redlock_held *held = held_of(mutex);
    return held != NULL && mutex->limit > 1 ? first_if_none(redlock_held_seat(held)) : 0;
}

int redlock_mutex_lost_fd(struct redlock_mutex *mutex)
{
    return redlock_held_descriptor(held_of(mutex));
}
