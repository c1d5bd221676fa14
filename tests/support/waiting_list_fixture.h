/* For tests of waiting lists at the queue node: processes park tasks, free what they held, and claim successors. A
 * task's text is its jid unless a test says otherwise. */
#ifndef SUPPORT_WAITING_LIST_FIXTURE_H
#define SUPPORT_WAITING_LIST_FIXTURE_H

#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/scripts.h"
#include "queue/waiting.h"
#include "tests/support/queue_fixture.h"

#define LIST    "resource:seat"
#define ORDER   "hf:2:waiting:" LIST
#define WAITERS "hf:2:waiters:" LIST
#define FREED   "hf:2:freed"
#define GROUP   "19857" /* of LIST (stamps.lua) */

/* To the next look of the oldest, far enough that no test sees it pass. */
#define NEAR_NS (600 * NS_PER_S)

/* --- asking ------------------------------------------------------------------------------------------------------- */

/* Of a task that was claimed after the list was freed last, long ago. */
static inline struct waiting_task waiting(struct queue_probe *process, unsigned slot, const char *jid)
{
    return (struct waiting_task){.list = LIST,
                                 .jid = jid,
                                 .queue = process->slots[slot].queue,
                                 .class_name = "Work",
                                 .set = "set",
                                 .seen_us = queue_seen_us(process->queue, slot),
                                 .near_ns = NEAR_NS,
                                 .may_retry = true};
}

static inline enum queue_answer park_as(struct queue_probe *process, unsigned slot, const struct waiting_task *task,
                                        const char *payload)
{
    process->slots[slot].asked++;
    queue_park(process->queue, slot, task, payload, strlen(payload));
    return queue_probe_wait(process, slot);
}

/* The slot's task, by its text. */
static inline enum queue_answer park(struct queue_probe *process, unsigned slot)
{
    char text[256];
    snprintf(text, sizeof text, "%s", process->slots[slot].payload);
    struct waiting_task task = waiting(process, slot, text);
    return park_as(process, slot, &task, text);
}

/* Pushed, claimed and parked. */
static inline void park_new(struct queue_probe *process, unsigned slot, const char *jid)
{
    push("a", jid);
    queue_probe_claim(process, slot, jid);
    assert_int_equal(park(process, slot), QUEUE_NOTHING);
}

static inline struct waiting_end end_of(const char *jid)
{
    static const char *const lists[] = {LIST};
    return (struct waiting_end){.lists = lists, .list_count = 1, .jid = jid};
}

static inline enum queue_answer settle_free(struct queue_probe *process, unsigned slot, bool claim_next,
                                            const struct waiting_end *end)
{
    process->slots[slot].asked++;
    queue_settle_and_free(process->queue, slot, claim_next, end);
    return queue_probe_wait(process, slot);
}

static inline enum queue_answer skip_task(struct queue_probe *process, unsigned slot, const char *jid)
{
    process->slots[slot].asked++;
    queue_skip(process->queue, slot, &(struct queue_task_name){.jid = jid},
               (const char *const[]){"resource:other", LIST}, 2);
    return queue_probe_wait(process, slot);
}

static const char *const successor_classes[] = {"Other", "Work"};

static inline struct waiting_successor successor_of(const char *holder)
{
    return (struct waiting_successor){.list = LIST,
                                      .set = "set",
                                      .holder_jid = holder,
                                      .classes = successor_classes,
                                      .class_count = 2,
                                      .kept_ns = NEAR_NS};
}

/* What arrives later than an answer. */
static inline bool counts_one(void *context)
{
    const unsigned *number = context;
    return *number == 1;
}

static inline void keep_successor(struct queue_probe *process, unsigned slot, const char *jid, int64_t kept_ns)
{
    queue_keep(process->queue, slot,
               &(struct waiting_claim){.list = LIST, .jid = jid, .holder_jid = "holder", .kept_ns = kept_ns});
}

/* As a promoter does. */
static inline void look_once(void)
{
    free(redis_server_command(server,
                              "EVALSHA %s 6 schedule hf:2:contended paused retry hf:2:processes hf:2:successors "
                              "0 100 100000 hf:2:waiting: hf:2:waiters: queue: hf:2:process: hf:2:bell:",
                              queue_script_due.sha1));
}

static inline enum queue_answer claim_successor(struct queue_probe *process, unsigned slot,
                                                const struct waiting_successor *successor)
{
    process->slots[slot].asked++;
    queue_claim_successor(process->queue, slot, successor);
    return queue_probe_wait(process, slot);
}

/* --- what is on the node ------------------------------------------------------------------------------------------ */

/* How far in the future a task is due in `schedule`, in seconds. */
static inline double due_in(const char *payload)
{
    char *text = redis_server_command(server,
                                      "EVAL \"local t = redis.call('TIME') return string.format('%%.6f', "
                                      "redis.call('ZSCORE', 'schedule', ARGV[1]) - t[1] - t[2] / 1000000)\" 0 %s",
                                      payload);
    double seconds = strtod(text, NULL);
    free(text);
    return seconds;
}

#define assert_due_about(payload, seconds)                                                                             \
    do {                                                                                                               \
        double due = due_in(payload);                                                                                  \
        if (due > (seconds) || due < (seconds)-60)                                                                     \
            fail_msg("%s is due in %f s", payload, due);                                                               \
    } while (0)
/* Between one and two hours: it is not the oldest. */
#define assert_due_far(payload)                                                                                        \
    do {                                                                                                               \
        double due = due_in(payload);                                                                                  \
        if (due > 7200 || due < 3500)                                                                                  \
            fail_msg("%s is due in %f s", payload, due);                                                               \
    } while (0)
#define assert_due_near(payload) assert_due_about(payload, 600)
/* Milliseconds after it was parked, which may have passed. */
#define assert_due_soon(payload) assert_due_about(payload, 0.05)

/* The list's waiters, oldest first, "jid=P" when it has a time in `schedule`, "jid=O" when it is out. */
static inline void assert_waiting(const char *expected)
{
    assert_reply(server, expected,
                 "EVAL \"local out = {} for _, jid in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do "
                 "out[#out + 1] = jid .. (string.find(redis.call('HGET', KEYS[2], jid), '^[^%%c]+%%c%%c') and '=O' or "
                 "'=P') end return table.concat(out, ' ')\" 2 " ORDER " " WAITERS);
}

/* Sets the time of a waiter back, in microseconds and by rewriting it: as if it had been woken that long ago. */
static inline void age_waiter(const char *jid, long long seconds)
{
    free(redis_server_command(server,
                              "EVAL \"local t = redis.call('HGET', KEYS[1], ARGV[1]) local due, rest = "
                              "string.match(t, '^([^%%c]+)(.*)$') return redis.call('HSET', KEYS[1], ARGV[1], "
                              "string.format('%%.6f', due - ARGV[2]) .. rest)\" 1 " WAITERS " %s %lld",
                              jid, seconds));
}

/* As if the list had been freed so long ago; 0 = never. */
static inline void age_freed(long long milliseconds)
{
    if (milliseconds == 0)
        free(redis_server_command(server, "DEL " FREED));
    else
        free(redis_server_command(server,
                                  "EVAL \"local t = redis.call('TIME') return redis.call('HSET', KEYS[1], '" GROUP "', "
                                  "string.format('%%.0f', t[1] * 1000000 + t[2] - ARGV[1] * 1000))\" 1 " FREED " %lld",
                                  milliseconds));
}

/* --- what tests begin with ---------------------------------------------------------------------------------------- */

/* The node's time, which the times in these tests are set against. */
static inline long long node_time(void)
{
    return queue_probe_number(server, "EVAL \"local t = redis.call('TIME') return t[1] * 1000000 + t[2]\" 0");
}

static inline void freed_at(long long time)
{
    free(redis_server_command(server, "HSET " FREED " " GROUP " %lld", time));
}

static inline void claim_new(unsigned slot, const char *jid)
{
    push("a", jid);
    queue_probe_claim(&probe, slot, jid);
}

static inline void free_seat(const struct waiting_end *end)
{
    assert_int_equal(settle_free(&probe, 3, false, end), QUEUE_NOTHING);
}

/* The holder is in slot 0, "one" and "two" wait. */
static inline void hold_before_two(const char *queues)
{
    start(queues);
    push("a", "holder");
    queue_probe_claim(&probe, 0, "holder");
    park_new(&probe, 1, "one");
    park_new(&probe, 1, "two");
}

#endif
