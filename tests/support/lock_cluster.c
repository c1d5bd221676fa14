#include "tests/support/lock_cluster.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/lock_group.h"
#include "tests/support/loop_until.h"
#include "tests/support/test.h"

/* --- servers -------------------------------------------------------------------------------------------------- */

/* For so long others than a majority are waited for. */
#define LATE_NS (3 * NS_PER_S)

/* A longest ttl of 0: the servers stay strangers to each other. */
static void group_make(struct lock_cluster *cluster)
{
    if (cluster->max_ttl_ms > 0)
        lock_group_make(cluster->servers, cluster->count, cluster->max_ttl_ms);
}

void lock_cluster_start(struct lock_cluster *cluster, unsigned count)
{
    lock_cluster_start_group(cluster, count, CLUSTER_MAX_TTL_MS);
}

void lock_cluster_start_group(struct lock_cluster *cluster, unsigned count, int64_t max_ttl_ms)
{
    *cluster = (struct lock_cluster){.count = count, .max_ttl_ms = max_ttl_ms};
    for (unsigned i = 0; i < count; i++) {
        cluster->servers[i] = redis_server_start(NULL);
        cluster->nodes[i] = (struct redlock_node){
            .host = "127.0.0.1", .port = redis_server_port(cluster->servers[i]), .timeout_ms = CLUSTER_TIMEOUT_MS};
    }
    group_make(cluster);
    cluster->options = (struct redlock_options){
        .nodes = cluster->nodes, .node_count = count, .key_prefix = "lock:", .client_name = "test"};
}

void lock_cluster_stop(struct lock_cluster *cluster)
{
    for (unsigned i = 0; i < cluster->count; i++)
        redis_server_destroy(cluster->servers[i]);
}

void lock_cluster_heal(struct lock_cluster *cluster)
{
    for (unsigned i = 0; i < cluster->count; i++)
        redis_server_heal(cluster->servers[i]);
    group_make(cluster);
}

void lock_cluster_mark(struct lock_cluster *cluster, unsigned server)
{
    struct marker marker = lock_group_marker(cluster->servers[server], server, cluster->count, cluster->max_ttl_ms);
    lock_group_mark(cluster->servers[server], &marker);
}

const char *lock_cluster_ask(struct lock_cluster *cluster, unsigned server, const char *format, ...)
{
    static char *reply;
    char command[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    free(reply);
    reply = redis_server_command(cluster->servers[server], "%s", command);
    return reply;
}

const char *lock_cluster_fence(struct lock_cluster *cluster, unsigned server, const char *key)
{
    return lock_cluster_ask(cluster, server, "ZSCORE hf:fences %s", key);
}

void lock_cluster_fence_put(struct lock_cluster *cluster, unsigned server, const char *key, const char *text)
{
    char *end = NULL;
    bool is_score = text != NULL && !isnan(strtod(text, &end)) && *end == '\0';
    if (text != NULL)
        lock_cluster_ask(cluster, server, "ZADD hf:fences %s %s", is_score ? text : "inf", key);
    else
        lock_cluster_ask(cluster, server,
                         "EVAL \"redis.call('DEL', 'hf:fences') redis.call('RPUSH', 'hf:fences', 1)\" 0");
}

static unsigned sum(struct lock_cluster *cluster, const char *command)
{
    unsigned total = 0;
    for (unsigned i = 0; i < cluster->count; i++)
        if (redis_server_pid(cluster->servers[i]) != 0)
            total += (unsigned)strtoul(lock_cluster_ask(cluster, i, "%s", command), NULL, 10);
    return total;
}

static unsigned lines_of(const char *text)
{
    unsigned lines = text[0] != '\0';
    for (const char *at = text; (at = strchr(at, '\n')) != NULL && at[1] != '\0'; at++)
        lines++;
    return lines;
}

unsigned lock_cluster_keys(struct lock_cluster *cluster)
{
    unsigned keys = 0;
    for (unsigned i = 0; i < cluster->count; i++)
        if (redis_server_pid(cluster->servers[i]) != 0)
            keys += lines_of(lock_cluster_ask(cluster, i, "KEYS %s*", cluster->options.key_prefix));
    return keys;
}

unsigned lock_cluster_holders(struct lock_cluster *cluster, const char *key)
{
    char command[600];
    snprintf(command, sizeof command, "EXISTS %s", key);
    return sum(cluster, command);
}

void lock_cluster_take_away(struct lock_cluster *cluster, const char *key)
{
    struct instant late = instant_after(instant_now(), LATE_NS);
    unsigned majority = cluster->count / 2 + 1, deleted = 0;
    test_await(lock_cluster_holders(cluster, key) >=
               (instant_reached(instant_now(), late) ? majority : cluster->count));
    for (unsigned i = 0; i < cluster->count; i++)
        deleted += strcmp(lock_cluster_ask(cluster, i, "DEL %s", key), "1") == 0;
    assert_in_range(deleted, majority, cluster->count);
}

unsigned lock_cluster_calls(struct lock_cluster *cluster, const char *command)
{
    unsigned calls = 0;
    for (unsigned i = 0; i < cluster->count; i++)
        if (redis_server_pid(cluster->servers[i]) != 0)
            calls += redis_server_calls(cluster->servers[i], command);
    return calls;
}

static bool is_settled(void *context)
{
    return redlock_group_is_settled(context);
}

struct redlock_group *lock_cluster_group(struct lock_cluster *cluster, struct loop *loop)
{
    char reason[256];
    struct redlock_group *group = redlock_group_create(loop, &cluster->options, reason, sizeof reason);
    if (group == NULL)
        fail_msg("%s", reason);
    assert_true(loop_until(loop, is_settled, group, TEST_PATIENCE_NS));
    return group;
}

struct redlock_terms quick_terms(int64_t ttl_ms, unsigned tries)
{
    char reason[256];
    struct redlock_node any = {.host = "any", .port = 1};
    struct redlock_options options = {.nodes = &any, .node_count = 1};
    struct redlock_terms terms = {.ttl_ms = ttl_ms, .tries = tries, .retry_delay_ms = 2, .retry_jitter_ms = 3};
    if (!redlock_terms_check(&terms, &options, reason, sizeof reason))
        fail_msg("%s", reason);
    return terms;
}

/* --- locks ---------------------------------------------------------------------------------------------------- */

static void probe_event(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    struct lock_probe *probe = context;
    assert_ptr_equal(lock, probe->lock);
    if (event->reason != NULL)
        snprintf(probe->reason, sizeof probe->reason, "%s", event->reason);
    switch (event->kind) {
    case REDLOCK_EVENT_ANSWER:
        probe->answers++;
        probe->answer = event->answer;
        probe->attempts = event->attempts;
        probe->waited_ns = event->waited_ns;
        probe->remaining_ns = event->remaining_ns;
        snprintf(probe->holder, sizeof probe->holder, "%s", event->holder != NULL ? event->holder : "");
        probe->handed_over = event->handed_over;
        break;
    case REDLOCK_EVENT_EXTENDED:
        probe->extended++;
        break;
    case REDLOCK_EVENT_DANGER:
        probe->dangers++;
        break;
    case REDLOCK_EVENT_LOST:
        probe->losses++;
        probe->loss = event->loss;
        break;
    case REDLOCK_EVENT_RELEASED:
        probe->releases++;
        probe->ending = event->ending;
        break;
    }
    if (probe->on_event != NULL)
        probe->on_event(probe, event);
}

void lock_probe_create(struct lock_probe *probe, struct loop *loop, struct redlock_group *group,
                       const struct redlock_terms *terms)
{
    *probe = (struct lock_probe){.loop = loop};
    probe->lock = redlock_lock_create(group, terms, probe_event, probe);
}

void lock_probe_destroy(struct lock_probe *probe)
{
    redlock_lock_destroy(probe->lock);
    probe->lock = NULL;
}

void lock_probe_ask(struct lock_probe *probe, const char *resources)
{
    const char *names[REDLOCK_RESOURCES_MAX + 1];
    size_t count = 0;
    char *copy = strdup(resources), *rest = copy, *name = NULL;
    while ((name = strsep(&rest, " ")) != NULL && count < REDLOCK_RESOURCES_MAX)
        names[count++] = name;
    loop_for(probe->loop, 0); /* outside it the loop's clock stands still */
    struct redlock_request request = {.resources = names,
                                      .resource_count = count,
                                      .owner = "host:1:2:test",
                                      .waits_here = probe->waits_here,
                                      .limit = probe->limit,
                                      .seat = probe->seat,
                                      .shared = probe->shared,
                                      .comes_back = probe->comes_back,
                                      .leaves_when_busy = probe->leaves_when_busy};
    assert_true(redlock_lock_acquire(probe->lock, &request));
    free(copy);
}

struct expectation {
    const unsigned *count;
    unsigned before;
};

static bool has_grown(void *context)
{
    struct expectation *expectation = context;
    return *expectation->count > expectation->before;
}

enum redlock_answer lock_probe_acquire(struct lock_probe *probe, const char *resources)
{
    struct expectation answer = {&probe->answers, probe->answers};
    lock_probe_ask(probe, resources);
    if (!loop_until(probe->loop, has_grown, &answer, TEST_PATIENCE_NS))
        fail_msg("no answer to an acquire of %s", resources);
    return probe->answer;
}

enum redlock_ending lock_probe_release(struct lock_probe *probe)
{
    struct expectation release = {&probe->releases, probe->releases};
    loop_for(probe->loop, 0);
    redlock_lock_release(probe->lock);
    if (!loop_until(probe->loop, has_grown, &release, TEST_PATIENCE_NS))
        fail_msg("a release did not end");
    return probe->ending;
}
