/* What tests of the promoter share: up to two of them on a queue node, beside a process that serves the queue a; what
 * is planned there, and what becomes of it. Its state is in the header, because a test program is one file. */
#ifndef SUPPORT_PROMOTER_FIXTURE_H
#define SUPPORT_PROMOTER_FIXTURE_H

#include "queue/promoter.h"
#include "tests/support/queue_fixture.h"

static struct promoter *promoters[2];

static inline int promoter_setup(void **state)
{
    (void)queue_setup(state);
    start("a");
    queue_probe_wait_up(&probe);
    return 0;
}

static inline int promoter_teardown(void **state)
{
    for (int i = 0; i < 2; i++) {
        if (promoters[i] != NULL)
            promoter_destroy(promoters[i]);
        promoters[i] = NULL;
    }
    return queue_teardown(state);
}

static const struct envelope_limits limits = ENVELOPE_LIMITS_DEFAULT;

/* A node that stands still for a moment makes no look begin anew: some tests count calls. */
#define CALL_NS (9 * NS_PER_S)

static inline struct promoter *promoter_of(const char *const *names, unsigned count)
{
    return promoter_create(
        loop, probe.queue,
        &(struct promoter_options){.limits = &limits, .timeout_ns = CALL_NS, .names = names, .name_count = count});
}

/* For all queues. */
static inline void promote(void)
{
    promoters[0] = promoter_of(NULL, 0);
}

/* For the queue a only. */
static inline void promote_a(void)
{
    static const char *const names[] = {"a"};
    promoters[0] = promoter_of(names, 1);
}

/* So many due entries, the oldest with this score, of queue `queue`. */
static inline void plan_many(const char *set, const char *queue, unsigned count, unsigned score)
{
    free(redis_server_command(server,
                              "EVAL \"for i = 1, ARGV[2] do redis.call('ZADD', KEYS[1], ARGV[3] + i, "
                              "'{\\\"class\\\":\\\"t\\\",\\\"args\\\":[' .. i .. '],\\\"queue\\\":\\\"' .. "
                              "ARGV[1] .. '\\\"}') end\" 1 %s %s %u %u",
                              set, queue, count, score));
}

/* Due `seconds` from now by the node's clock. */
static inline void plan(const char *set, double seconds, const char *entry)
{
    free(redis_server_command(server,
                              "EVAL \"local t = redis.call('TIME') return redis.call('ZADD', KEYS[1], "
                              "string.format('%%.6f', t[1] + t[2] / 1000000 + ARGV[1]), ARGV[2])\" 1 %s %f '%s'",
                              set, seconds, entry));
}

static inline bool is_reply(void *context)
{
    const char *const *pair = context;
    char *reply = redis_server_command(server, "%s", pair[0]);
    bool same = strcmp(reply, pair[1]) == 0;
    free(reply);
    return same;
}

static inline void wait_reply(const char *command, const char *expected)
{
    const char *pair[] = {command, expected};
    if (!loop_until(loop, is_reply, pair, TEST_PATIENCE_NS))
        fail_msg("%s did not become %s", command, expected);
}

#endif
