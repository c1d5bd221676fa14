/* What tests of heartbeats share beside presence_fixture.h: a heartbeat with facts and a clock of the test's. */
#ifndef SUPPORT_HEARTBEAT_FIXTURE_H
#define SUPPORT_HEARTBEAT_FIXTURE_H

#include "tests/support/presence_fixture.h"

#include "queue/heartbeat.h"
#include "worker/presence/presence.h"

static struct heartbeat *heartbeat;
static struct heartbeat_facts facts;
static struct wall_time now;

/* 2026-11-21 09:05:07.25 UTC: a month, a day, an hour and a minute that show what is padded. */
static const struct wall_time at_nine = {INT64_C(1795251907250000)};

static const struct heartbeat_queue two_queues[] = {{"cjobs", 2}, {"low", 1}, {"cjobs", 2}};
static const char *const classes[] = {"echo", "mail"};
static const char *const labels[] = {"c", "red \"hot\""};

static struct envelope envelope;
static struct heartbeat_run run;

static inline void look(void *context, struct heartbeat_facts *out)
{
    (void)context;
    *out = facts;
}

static struct tally *tally;

/* A task whose handler ran and ended for good. */
static inline void ran(const char *class_name, bool failed, int64_t duration_ns)
{
    static const struct instant began = {NS_PER_S};
    tally_task(tally, &(struct observed_task){.class_name = class_name,
                                              .shown_class = class_name,
                                              .queue = "cjobs",
                                              .claimed = began,
                                              .started = began,
                                              .ended = instant_after(began, duration_ns),
                                              .waited_ns = -1,
                                              .has_failed = failed});
}

/* What is counted of locks beside that, taken with the next heartbeat. */
enum { EXTRA_MAX = 4 };
static const char *extra[EXTRA_MAX][2];
static unsigned extra_names;

static inline void extra_add(const char *name, const char *counts)
{
    assert_true(extra_names < EXTRA_MAX);
    extra[extra_names][0] = name;
    extra[extra_names++][1] = counts;
}

static inline void counts_take(void *context, struct heartbeat *taker, struct wall_time at)
{
    (void)context;
    presence_counts_take(tally, taker, at);
    for (unsigned i = 0; i < extra_names; i++) {
        struct buffer counts = {0};
        buffer_append_text(&counts, extra[i][1]);
        heartbeat_count_locks(taker, extra[i][0], &counts);
        buffer_fini(&counts);
    }
    extra_names = 0;
}

static inline struct wall_time injected_now(void)
{
    return now;
}

static inline int heartbeat_setup(void **state)
{
    (void)state;
    presence_setup();
    now = at_nine;
    tally = tally_create(&(struct tally_setup){.class_max = 1});
    facts = (struct heartbeat_facts){
        .hostname = "hostc",
        .tag = "holdfast",
        .version = "holdfast 0.1",
        .pid = 4242,
        .started = {at_nine.us - 107 * US_PER_S - 150000},
        .concurrency = 8,
        .rss_kb = 30000,
        .mode = HEARTBEAT_WEIGHTED,
        .queues = two_queues,
        .queue_count = 3,
        .classes = classes,
        .class_count = sizeof classes / sizeof classes[0],
        .labels = labels,
        .label_count = 2,
    };
    return 0;
}

static inline int heartbeat_teardown(void **state)
{
    (void)state;
    if (heartbeat != NULL)
        heartbeat_destroy(heartbeat);
    heartbeat = NULL;
    envelope_fini(&envelope);
    envelope = (struct envelope){.class_name = NULL};
    tally_destroy(tally);
    extra_names = 0;
    presence_teardown();
    return 0;
}

static inline void start(int64_t interval_ns)
{
    heartbeat = heartbeat_create(loop, &(struct heartbeat_options){.node = node,
                                                                   .keys = &keys,
                                                                   .identity = IDENTITY,
                                                                   .timeout_ns = 100 * NS_PER_MS,
                                                                   .interval_ns = interval_ns,
                                                                   .now = injected_now,
                                                                   .look = look,
                                                                   .take = counts_take,
                                                                   .others = "others|"});
}

static inline bool has_beaten(void *beats)
{
    return heartbeat_counters(heartbeat)->answered >= *(const uint64_t *)beats;
}

/* Until so many further heartbeats were answered. The first of them may have been sent before. */
static inline void wait_beats(uint64_t more)
{
    uint64_t beats = heartbeat_counters(heartbeat)->answered + more;
    assert_true(loop_until(loop, has_beaten, &beats, TEST_PATIENCE_NS));
}

static inline bool has_repeated(void *repeats)
{
    return heartbeat_counters(heartbeat)->repeats >= *(const uint64_t *)repeats;
}

static inline void wait_repeats(uint64_t more)
{
    uint64_t repeats = heartbeat_counters(heartbeat)->repeats + more;
    assert_true(loop_until(loop, has_repeated, &repeats, TEST_PATIENCE_NS));
}

static inline void run_show(const char *payload)
{
    struct error error = ERROR_NONE;
    struct envelope_limits limits = {.size = 8 << 20, .depth = 64, .keys = 4096};
    assert_true(envelope_parse(&envelope, payload, strlen(payload), &limits, &error));
    run = (struct heartbeat_run){.slot = 1, .queue = "cjobs", .envelope = &envelope, .started = {at_nine.us}};
    facts.runs = &run;
    facts.run_count = 1;
}

static const char example[] = "{\"class\":\"echo\",\"args\":[1,\"x\\u0001\\\"\"],\"jid\":\"0123456789abcdef01234567\"}";

#endif
