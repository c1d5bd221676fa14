/* Each node and bucket has a subscription that follows `is_kept` of the bucket. It has at most one request under way,
 * so without one its state is that of the server. The next sweep, or the next connection, tries again what failed.
 *
 * Each node reports each release once, and messages of one node arrive in order; those of different nodes do not. So
 * the reports of each node are counted, and a release is new when some node has reported more than any node before: a
 * slow node's report of a known release is not. "Held" says that the node has reported all releases so far. A node that
 * had no key to delete falls behind in this count, so the count restarts after `series_ns`. */
#include "redlock/release_notifications.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "redis/request.h"
#include "redlock/limits.h"

#define FREE_PREFIX "hf:free:"
#define HELD_PREFIX "hf:held:" /* of the same length */

#define LINGER_NS (5 * NS_PER_S)  /* a bucket without wants stays subscribed to for so long */
#define CLOSE_NS  (30 * NS_PER_S) /* connections without wants stay for so long */

/* Many times LINGER_NS, after which it is renewed. */
#define LISTENER_TTL_MS "60000"

enum { PREFIX_MAX = NOTIFICATIONS_CHANNEL_MAX - 4 };

static const int64_t number_max = 24 * 3600 * 1000; /* milliseconds of a day */

struct subscription {
    struct redis_call call;
    struct notification_node *node;
    uint8_t bucket;
    bool asks_for_on; /* while the call is under way */
};

struct notification_node {
    struct notifications *notifications;
    unsigned index;
    struct redis_node *of;         /* the group's connection */
    struct redis_node *connection; /* for subscriptions; NULL: closed */
    bool has_logged_refusal;
    struct subscription subscriptions[NOTIFICATIONS_BUCKETS];
};

struct bucket {
    struct list wants;
    bool is_kept; /* to be subscribed to */
    struct instant idle_since;
    node_set on; /* where it is subscribed to */
    struct instant live_since;
};

struct notifications {
    struct loop *loop;
    struct notifications_options options;
    char prefix[PREFIX_MAX]; /* of channels */
    size_t prefix_length;
    struct buffer request;
    bool keeps_key; /* NOTIFICATIONS_KEY */
    unsigned want_count;
    struct instant idle_since;
    struct loop_timer sweep_timer;
    struct bucket buckets[NOTIFICATIONS_BUCKETS];
    struct notification_node nodes[]; /* options.node_count */
};

/* --- names -------------------------------------------------------------------------------------------------------- */

static unsigned bucket_of(const char *key, size_t length)
{
    return (unsigned)(hash_bytes(0, key, length) % NOTIFICATIONS_BUCKETS);
}

static void bucket_channel(const struct notifications *notifications, unsigned bucket,
                           char channel[NOTIFICATIONS_CHANNEL_MAX])
{
    size_t length = notifications->prefix_length;
    memcpy(channel, notifications->prefix, length);
    *decimal_write(channel + length, bucket) = '\0';
}

void notifications_channel(const struct notifications *notifications, const char *key, size_t length,
                           char channel[NOTIFICATIONS_CHANNEL_MAX])
{
    bucket_channel(notifications, bucket_of(key, length), channel);
}

bool notifications_are_warm(const struct notifications *notifications, const char *key, size_t length)
{
    return notifications->buckets[bucket_of(key, length)].is_kept;
}

/* All processes that share the nodes form the same name: nodes with different databases get none. */
static size_t prefix_format(char prefix[PREFIX_MAX], const char *group, bool has_database, unsigned database)
{
    int length = has_database ? snprintf(prefix, PREFIX_MAX, "hf:free:%.16s:%u:", group, database)
                              : snprintf(prefix, PREFIX_MAX, "hf:free:%.16s:-:", group);
    return (size_t)length;
}

static void prefix_write(struct notifications *notifications, const char *group)
{
    unsigned database = redis_node_options_of(notifications->nodes[0].of)->database;
    bool is_common = true;
    for (unsigned i = 1; i < notifications->options.node_count; i++)
        is_common &= redis_node_options_of(notifications->nodes[i].of)->database == database;
    notifications->prefix_length = prefix_format(notifications->prefix, group, is_common, database);
}

void notifications_channel_of(const char *group, bool has_database, unsigned database, const char *key, size_t length,
                              char channel[NOTIFICATIONS_CHANNEL_MAX])
{
    size_t prefix_length = prefix_format(channel, group, has_database, database);
    *decimal_write(channel + prefix_length, bucket_of(key, length)) = '\0';
}

/* --- telling ------------------------------------------------------------------------------------------------------ */

struct news {
    enum notification_kind kind;
    unsigned node;
    const char *key; /* NULL: of all keys of the bucket */
    size_t length;
    int64_t detail;
};

static bool is_majority(const struct notifications *notifications, node_set nodes)
{
    return (unsigned)__builtin_popcount(nodes) > notifications->options.node_count / 2;
}

/* Whoever hears of releases hears them from a majority of the nodes, so two majorities cannot both miss him. */
static bool is_alone_now(struct notification_want *want, const struct news *news)
{
    bool was_alone = is_majority(want->notifications, want->alone);
    if (news->detail == 1 && want->reported[news->node] == want->releases)
        want->alone |= set_of(news->node);
    return !was_alone && is_majority(want->notifications, want->alone);
}

/* Whether the news is to be told. Its kind becomes NOTIFIED_ALONE if it shows that. */
static bool is_new(struct notification_want *want, struct news *news, struct instant now)
{
    if (instant_reached(now, instant_after(want->series_from, want->notifications->options.series_ns))) {
        want->releases = want->alone = 0;
        memset(want->reported, 0, sizeof want->reported);
        want->series_from = now;
    }
    if (news->kind == NOTIFIED_HELD)
        want->reported[news->node] = (uint16_t)want->releases;
    if (news->kind != NOTIFIED_FREE)
        return true;
    bool is_new = want->reported[news->node]++ >= want->releases;
    if (is_new) {
        want->releases++;
        want->alone = 0;
    }
    if (is_alone_now(want, news))
        news->kind = NOTIFIED_ALONE;
    return is_new || want->hears_each || news->kind == NOTIFIED_ALONE;
}

/* `heard` may remove itself and others, and add them again. */
static void bucket_tell(struct notifications *notifications, struct bucket *bucket, const struct news *news)
{
    struct list todo, *link = NULL;
    uint64_t hash = news->key != NULL ? hash_bytes(0, news->key, news->length) : 0;
    struct instant now = loop_now(notifications->loop);
    list_init(&todo);
    while ((link = list_take_first(&bucket->wants)) != NULL)
        list_append(&todo, link);
    while ((link = list_take_first(&todo)) != NULL) {
        struct notification_want *want = list_owner(link, struct notification_want, link);
        list_append(&bucket->wants, link);
        bool is_about = news->key == NULL || (want->hash == hash && want->length == news->length &&
                                              memcmp(want->key, news->key, news->length) == 0);
        struct news told = *news;
        if (is_about && is_new(want, &told, now))
            want->heard(want, told.kind, told.detail);
    }
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static bool begins_with(const char *text, size_t length, const char *prefix)
{
    return length >= strlen(prefix) && memcmp(text, prefix, strlen(prefix)) == 0;
}

/* "hf:WORD:NUMBER:KEY", or a bare key, which begins with "hf:" only if it is that of a place. An absurd number is no
 * message of ours. */
static bool news_parse(const char *text, size_t length, struct news *news)
{
    static const size_t skip = sizeof HELD_PREFIX - 1;
    char digits[12];
    bool is_held = begins_with(text, length, HELD_PREFIX);
    if (!is_held && !begins_with(text, length, FREE_PREFIX))
        return !begins_with(text, length, "hf:") || begins_with(text, length, REDLOCK_SEAT_PREFIX);
    const char *number = text + skip, *colon = memchr(number, ':', length - skip);
    if (colon == NULL || (size_t)(colon - number) >= sizeof digits)
        return false;
    snprintf(digits, sizeof digits, "%.*s", (int)(colon - number), number);
    news->kind = is_held ? NOTIFIED_HELD : NOTIFIED_FREE;
    news->key = colon + 1;
    news->length = length - (size_t)(news->key - text);
    bool is_sound = count_parse(digits, 0, number_max, &news->detail);
    news->detail *= is_held ? NS_PER_MS : 1;
    return is_sound;
}

static void message_came(void *context, struct redis_node *connection, const char *channel, size_t channel_length,
                         const char *payload, size_t payload_length)
{
    (void)connection, (void)channel, (void)channel_length;
    struct notification_node *node = context;
    struct news news = {.kind = NOTIFIED_FREE, .node = node->index, .key = payload, .length = payload_length};
    if (!news_parse(payload, payload_length, &news))
        return;
    bucket_tell(node->notifications, &node->notifications->buckets[bucket_of(news.key, news.length)], &news);
}

static void hint_send(struct notifications *notifications, node_set nodes, const char *key, size_t key_length,
                      const char *before)
{
    char channel[NOTIFICATIONS_CHANNEL_MAX];
    struct buffer payload = {0};
    notifications_channel(notifications, key, key_length, channel);
    buffer_append_text(&payload, before);
    buffer_append(&payload, key, key_length);
    buffer_clear(&notifications->request);
    redis_request_begin(&notifications->request, 3);
    redis_request_texts(&notifications->request, "PUBLISH", channel);
    redis_request_bytes(&notifications->request, payload.bytes, payload.length);
    buffer_fini(&payload);
    for (unsigned i = 0; i < notifications->options.node_count; i++)
        if (nodes & (1u << i))
            (void)!redis_node_call(notifications->nodes[i].of, &notifications->request, INSTANT_NEVER, NULL);
}

void notifications_say_free(struct notifications *notifications, node_set nodes, const char *key, size_t length)
{
    hint_send(notifications, nodes, key, length, "");
}

void notifications_say_held(struct notifications *notifications, node_set nodes, const char *key, size_t length,
                            int64_t held_ns)
{
    char before[32];
    snprintf(before, sizeof before, HELD_PREFIX "%lld:", (long long)(held_ns / NS_PER_MS));
    hint_send(notifications, nodes, key, length, before);
}

/* --- subscriptions ------------------------------------------------------------------------------------------------ */

/* Reports LIVE or DEAF if that has changed. */
static void subscription_set(struct subscription *subscription, bool is_on)
{
    struct notifications *notifications = subscription->node->notifications;
    struct bucket *bucket = &notifications->buckets[subscription->bucket];
    node_set node = set_of(subscription->node->index);
    bool was_live = bucket->live_since.ns != INSTANT_NEVER.ns;
    bucket->on = (node_set)(is_on ? bucket->on | node : bucket->on & ~node);
    bool is_live = is_majority(notifications, bucket->on);
    if (is_live == was_live)
        return;
    bucket->live_since = is_live ? loop_now(notifications->loop) : INSTANT_NEVER;
    bucket_tell(notifications, bucket, &(struct news){.kind = is_live ? NOTIFIED_LIVE : NOTIFIED_DEAF});
}

/* Subscribes or unsubscribes as the wants require, unless a request is under way. */
static void subscription_follow(struct subscription *subscription)
{
    struct notification_node *node = subscription->node;
    struct notifications *notifications = node->notifications;
    const struct bucket *bucket = &notifications->buckets[subscription->bucket];
    bool is_on = (bucket->on & set_of(node->index)) != 0;
    if (node->connection == NULL || redis_call_is_outstanding(&subscription->call) || is_on == bucket->is_kept)
        return;
    char channel[NOTIFICATIONS_CHANNEL_MAX];
    bucket_channel(notifications, subscription->bucket, channel);
    buffer_clear(&notifications->request);
    redis_request_command(&notifications->request, is_on ? "UNSUBSCRIBE" : "SUBSCRIBE", channel);
    /* The silence limit ends what is not answered, so that the state is never a guess. */
    if (!redis_node_call(node->connection, &notifications->request, INSTANT_NEVER, &subscription->call))
        return;
    subscription->asks_for_on = !is_on;
    subscription_set(subscription, false);
}

static void subscription_done(struct redis_call *call, const struct redis_result *result)
{
    struct subscription *subscription = list_owner(call, struct subscription, call);
    if (result->outcome == REDIS_ERROR && result->reply != NULL) {
        struct notification_node *node = subscription->node;
        char why[LOG_QUOTE_MAX];
        log_event(node->has_logged_refusal ? LOG_DEBUG : LOG_WARN, "lock_hints_refused",
                  "node=%s reason=%s advice=\"allow the channels hf:free:*, or waiting for a lock is slower\"",
                  redis_node_name(node->connection), log_value(result->reason, why));
        node->has_logged_refusal = true;
    }
    subscription_set(subscription, subscription->asks_for_on && result->outcome == REDIS_VALUE);
    if (result->outcome == REDIS_VALUE)
        subscription_follow(subscription); /* what it wants may have changed */
}

static void node_follow(struct notification_node *node)
{
    for (unsigned i = 0; i < NOTIFICATIONS_BUCKETS; i++)
        subscription_follow(&node->subscriptions[i]);
}

/* The server has forgotten the subscriptions. A request under way reports that with its own end. */
static void node_forget(struct notification_node *node)
{
    for (unsigned i = 0; i < NOTIFICATIONS_BUCKETS; i++)
        if (!redis_call_is_outstanding(&node->subscriptions[i].call))
            subscription_set(&node->subscriptions[i], false);
}

/* Before the first subscription on a connection: once a want is live, the node has the key. */
static void listener_tell(struct notification_node *node, struct redis_node *connection)
{
    struct notifications *notifications = node->notifications;
    if (!notifications->keeps_key)
        return;
    buffer_clear(&notifications->request);
    redis_request_command(&notifications->request, "SET", NOTIFICATIONS_KEY, "1", "PX", LISTENER_TTL_MS);
    (void)!redis_node_call(connection, &notifications->request, INSTANT_NEVER, NULL);
}

static void node_changed(void *context, struct redis_node *connection, enum redis_node_state state, const char *reason)
{
    (void)connection, (void)reason;
    struct notification_node *node = context;
    node->has_logged_refusal = false;
    if (state == REDIS_NODE_UP) {
        listener_tell(node, connection);
        node_follow(node);
    } else
        node_forget(node);
}

/* --- connections -------------------------------------------------------------------------------------------------- */

static void node_open(struct notification_node *node)
{
    struct notifications *notifications = node->notifications;
    struct redis_node_options own = *redis_node_options_of(node->of);
    char name[128], client_name[128];
    snprintf(name, sizeof name, "%s-wakes", own.name);
    snprintf(client_name, sizeof client_name, "%s-wakes", own.client_name != NULL ? own.client_name : "redlock");
    own.name = name;
    own.client_name = client_name;
    own.scripts = NULL;
    own.script_count = 0;
    own.silence_limit_ns = 3 * NS_PER_S;
    own.changed = node_changed;
    own.message = message_came;
    own.context = node;
    node->connection = redis_node_create(notifications->loop, &own);
}

static void notifications_open(struct notifications *notifications)
{
    if (notifications->nodes[0].connection != NULL)
        return;
    for (unsigned i = 0; i < notifications->options.node_count; i++)
        node_open(&notifications->nodes[i]);
    loop_timer_set(notifications->loop, &notifications->sweep_timer, loop_after(notifications->loop, LINGER_NS));
}

static void notifications_close(struct notifications *notifications)
{
    loop_timer_clear(notifications->loop, &notifications->sweep_timer);
    for (unsigned i = 0; i < notifications->options.node_count; i++) {
        struct notification_node *node = &notifications->nodes[i];
        redis_node_destroy(node->connection);
        node->connection = NULL;
        node_forget(node);
    }
}

/* Unsubscribes from buckets that have been without wants for a while, and tries again what was refused. */
static void sweep(struct loop_timer *timer)
{
    struct notifications *notifications = list_owner(timer, struct notifications, sweep_timer);
    struct instant now = loop_now(notifications->loop);
    if (notifications->want_count == 0 && instant_reached(now, instant_after(notifications->idle_since, CLOSE_NS))) {
        for (unsigned i = 0; i < NOTIFICATIONS_BUCKETS; i++)
            notifications->buckets[i].is_kept = false;
        notifications_close(notifications);
        return;
    }
    loop_timer_set(notifications->loop, timer, loop_after(notifications->loop, LINGER_NS));
    for (unsigned i = 0; i < NOTIFICATIONS_BUCKETS; i++) {
        struct bucket *bucket = &notifications->buckets[i];
        if (list_is_empty(&bucket->wants) && instant_reached(now, instant_after(bucket->idle_since, LINGER_NS)))
            bucket->is_kept = false;
    }
    for (unsigned i = 0; i < notifications->options.node_count; i++) {
        listener_tell(&notifications->nodes[i], notifications->nodes[i].of);
        node_follow(&notifications->nodes[i]);
    }
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct notifications *notifications_create(struct loop *loop, const struct notifications_options *options)
{
    invariant(options->node_count >= 1 && options->node_count <= LEASE_NODES_MAX);
    struct notifications *notifications =
        memory_zeroed(1, sizeof *notifications + options->node_count * sizeof notifications->nodes[0]);
    notifications->loop = loop;
    notifications->options = *options;
    loop_timer_init(&notifications->sweep_timer, sweep);
    for (unsigned i = 0; i < NOTIFICATIONS_BUCKETS; i++) {
        list_init(&notifications->buckets[i].wants);
        notifications->buckets[i].live_since = INSTANT_NEVER;
    }
    for (unsigned i = 0; i < options->node_count; i++) {
        struct notification_node *node = &notifications->nodes[i];
        node->notifications = notifications;
        node->index = i;
        node->of = options->nodes[i];
        for (unsigned k = 0; k < NOTIFICATIONS_BUCKETS; k++)
            node->subscriptions[k] =
                (struct subscription){.call.done = subscription_done, .node = node, .bucket = (uint8_t)k};
    }
    prefix_write(notifications, "-");
    return notifications;
}

void notifications_destroy(struct notifications *notifications)
{
    if (notifications == NULL)
        return;
    for (unsigned i = 0; i < NOTIFICATIONS_BUCKETS; i++)
        for (struct list *link = NULL; (link = list_take_first(&notifications->buckets[i].wants)) != NULL;)
            list_owner(link, struct notification_want, link)->notifications = NULL;
    notifications_close(notifications);
    buffer_fini(&notifications->request);
    free(notifications);
}

void notifications_name_group(struct notifications *notifications, const char *group)
{
    char before[sizeof notifications->prefix];
    memcpy(before, notifications->prefix, sizeof before);
    prefix_write(notifications, group);
    if (notifications->nodes[0].connection == NULL || strcmp(before, notifications->prefix) == 0)
        return;
    notifications_close(notifications);
    notifications_open(notifications);
}

void notifications_keep_key(struct notifications *notifications, bool keeps_key)
{
    notifications->keeps_key = keeps_key;
}

/* --- wants -------------------------------------------------------------------------------------------------------- */

void notifications_want(struct notifications *notifications, struct notification_want *want, const char *key,
                        size_t length)
{
    invariant(want->notifications == NULL);
    uint64_t hash = hash_bytes(0, key, length);
    want->notifications = notifications;
    want->key = key;
    want->length = length;
    want->hash = hash;
    want->series_from = (struct instant){0};
    want->since = loop_now(notifications->loop);
    want->bucket = (unsigned)(hash % NOTIFICATIONS_BUCKETS);
    struct bucket *bucket = &notifications->buckets[want->bucket];
    list_append(&bucket->wants, &want->link);
    notifications->want_count++;
    bucket->is_kept = true;
    notifications_open(notifications);
    for (unsigned i = 0; i < notifications->options.node_count; i++)
        subscription_follow(&notifications->nodes[i].subscriptions[want->bucket]);
}

void notifications_unwant(struct notification_want *want)
{
    struct notifications *notifications = want->notifications;
    if (notifications == NULL)
        return;
    want->notifications = NULL;
    list_remove(&want->link);
    notifications->want_count--;
    notifications->idle_since = notifications->buckets[want->bucket].idle_since = loop_now(notifications->loop);
}

struct instant notification_live_since(const struct notification_want *want)
{
    if (want->notifications == NULL)
        return INSTANT_NEVER;
    struct instant live_since = want->notifications->buckets[want->bucket].live_since;
    return instant_before(live_since, want->since) ? want->since : live_since;
}
