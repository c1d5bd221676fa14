#include "worker/periodic/periodic.h"

#include <stdlib.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "queue/keys.h"
#include "queue/scripts.h"
#include "worker/periodic/periodic_entry.h"

#define LOOK_EVERY_NS (60 * NS_PER_S)
#define JITTER_NS     (300 * NS_PER_MS)
#define RETRY_MIN_NS  (300 * NS_PER_MS)
#define RETRY_MAX_NS  (1000 * NS_PER_MS)
#define COMPLAIN_NS   (10 * NS_PER_S)
#define WAIT_MAX_S    86400 /* then it is planned again */

/* What tick.lua answers. */
enum { TICK_PUSHED = 1, TICK_HAD = 0, TICK_EARLY = -1, TICK_OLD = -2, TICK_ANSWERS = 4 };

struct task {
    struct periodic *periodic;
    struct periodic_entry *entry;
    int64_t noted;      /* from when on ticks can be missed: ticks.lua */
    int64_t told;       /* up to where missed ticks were logged */
    int64_t trying;     /* the tick of the call */
    struct instant due; /* when to try the next one */
    struct redis_call call;
};

struct periodic {
    struct loop *loop;
    struct periodic_options options;
    struct periodic_entries *entries;
    struct task *tasks; /* one for each entry */
    size_t count;
    struct loop_timer timer;
    struct redis_call look;
    struct instant look_at; /* 0 = at once */
    struct instant complained;
    /* The node's clock showed `node_us` at `asked`. */
    struct instant asked;
    int64_t node_us;
    bool is_paused;
    struct buffer request;
};

/* --- time ------------------------------------------------------------------------------------------------------- */

static int64_t node_now_us(const struct periodic *periodic)
{
    return periodic->node_us + instant_since(periodic->asked, loop_now(periodic->loop)) / NS_PER_US;
}

/* Numbers that a node sends are believed within bounds. */
static int64_t seconds_of(const struct redis_reply *reply)
{
    int64_t seconds = reply->integer < -PERIODIC_LATEST_S ? PERIODIC_LATEST_S : llabs(reply->integer);
    return seconds < PERIODIC_LATEST_S ? seconds : PERIODIC_LATEST_S;
}

/* The answer's time is that of the node a moment ago: we are late by that, never early. */
static void node_time_take(struct periodic *periodic, const struct redis_reply *seconds, const struct redis_reply *us)
{
    periodic->asked = loop_now(periodic->loop);
    periodic->node_us = seconds_of(seconds) * US_PER_S + seconds_of(us) % US_PER_S;
}

static struct instant call_deadline(const struct periodic *periodic)
{
    return loop_after(periodic->loop, periodic->options.timeout_ns);
}

/* One timer, for the earliest of all. */
static void timer_set(struct periodic *periodic)
{
    struct instant at = periodic->look_at;
    for (size_t i = 0; i < periodic->count; i++)
        at = instant_earlier(at, periodic->tasks[i].due);
    if (periodic->is_paused || at.ns == INSTANT_NEVER.ns)
        loop_timer_clear(periodic->loop, &periodic->timer);
    else
        loop_timer_set(periodic->loop, &periodic->timer, at);
}

/* After any failure: reads the state from the node again, after a pause. */
static void look_again(struct periodic *periodic)
{
    struct instant at = loop_after(periodic->loop, random_between(RETRY_MIN_NS, RETRY_MAX_NS));
    periodic->look_at = instant_earlier(periodic->look_at, at);
    timer_set(periodic);
}

/* --- planning --------------------------------------------------------------------------------------------------- */

static void missed_tell(struct task *task)
{
    char name[LOG_QUOTE_MAX];
    if (task->told == task->noted)
        return;
    task->told = task->noted;
    log_event(LOG_WARN, "periodic_missed",
              "name=%s since=%lld advice=\"of missed ticks only the latest is pushed, and none that is too old: "
              "missed, catch_up\"",
              log_value(task->entry->config->name, name), (long long)task->noted);
}

/* `noted` has just been read from the node: ticks missed since then are logged. */
static void task_plan(struct task *task)
{
    struct periodic *periodic = task->periodic;
    bool missed;
    int64_t now_us = node_now_us(periodic);
    int64_t tick = periodic_entry_plan(task->entry, task->noted, now_us / US_PER_S, &missed);
    if (missed)
        missed_tell(task);
    int64_t wait_us = tick - now_us / US_PER_S < WAIT_MAX_S ? tick * US_PER_S - now_us : WAIT_MAX_S * US_PER_S;
    task->due = loop_after(periodic->loop,
                           (wait_us > 0 ? wait_us : 0) * NS_PER_US + random_between(0, periodic->options.jitter_ns));
}

/* --- pushing ---------------------------------------------------------------------------------------------------- */

static void pushed_tell(const struct task *task, int64_t late_s)
{
    char name[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX];
    log_event(LOG_INFO, "periodic_pushed", "name=%s class=%s tick=%lld late_s=%lld",
              log_value(task->entry->config->name, name), log_value(task->entry->config->class_name, class_name),
              (long long)task->trying, (long long)late_s);
}

static void failure_tell(struct periodic *periodic, const char *what, const struct redis_result *result)
{
    char name[LOG_QUOTE_MAX], text[LOG_QUOTE_MAX];
    const char *reason = result->outcome == REDIS_VALUE ? "the node's answer is not understood" : result->reason;
    if (instant_before(loop_now(periodic->loop), periodic->complained))
        return;
    periodic->complained = loop_after(periodic->loop, COMPLAIN_NS);
    log_event(LOG_WARN, "periodic_failed", "name=%s reason=%s advice=\"it is tried again\"", log_value(what, name),
              log_value(reason, text));
}

static bool reply_has(const struct redis_reply *reply, size_t count)
{
    bool fits = reply->kind == REDIS_ARRAY && reply->count == count;
    for (size_t i = 0; fits && i < count; i++)
        fits = reply->elements[i].kind == REDIS_INTEGER;
    return fits;
}

static void tick_answered(struct redis_call *call, const struct redis_result *result)
{
    struct task *task = list_owner(call, struct task, call);
    struct periodic *periodic = task->periodic;
    if (result->outcome != REDIS_VALUE || !reply_has(result->reply, TICK_ANSWERS)) {
        failure_tell(periodic, task->entry->config->name, result);
        look_again(periodic);
        return;
    }
    const struct redis_reply *answers = result->reply->elements;
    node_time_take(periodic, &answers[1], &answers[2]);
    task->noted = seconds_of(&answers[3]);
    if (answers[0].integer == TICK_PUSHED)
        pushed_tell(task, answers[1].integer - task->trying);
    task_plan(task);
    timer_set(periodic);
}

static bool tick_encode(struct task *task, struct error *error)
{
    struct periodic *periodic = task->periodic;
    const struct queue_keys *keys = periodic->options.keys;
    struct built_task pushed;
    struct wall_time now = {node_now_us(periodic)};
    if (!periodic_entry_task(task->entry, task->trying, now, &pushed, error))
        return false;
    struct buffer *out = &periodic->request;
    buffer_clear(out);
    redis_request_script(out, &queue_script_tick, 3, 5);
    redis_request_text(out, keys->periodic);
    redis_request_text(out, keys->queues);
    queue_keys_request_queue(keys, pushed.queue, out);
    redis_request_text(out, task->entry->config->name);
    redis_request_text(out, pushed.queue);
    redis_request_integer(out, task->trying);
    redis_request_integer(out, periodic_entry_patience_s(task->entry));
    redis_request_bytes(out, pushed.payload.bytes, pushed.payload.length);
    return true;
}

/* Plans again first: while this process stood still, later ticks may have come. */
static void task_push(struct task *task)
{
    struct periodic *periodic = task->periodic;
    struct error error = ERROR_NONE;
    bool missed;
    int64_t now = node_now_us(periodic) / US_PER_S;
    task->due = INSTANT_NEVER;
    task->trying = periodic_entry_plan(task->entry, task->noted, now, &missed);
    if (task->trying > now) {
        periodic->look_at = loop_now(periodic->loop);
        return;
    }
    invariant(tick_encode(task, &error)); /* it was tried when the entry was made */
    if (!redis_node_call(periodic->options.node, &periodic->request, call_deadline(periodic), &task->call))
        look_again(periodic);
}

/* --- looking ---------------------------------------------------------------------------------------------------- */

static void look_answered(struct redis_call *call, const struct redis_result *result)
{
    struct periodic *periodic = list_owner(call, struct periodic, look);
    if (result->outcome != REDIS_VALUE || !reply_has(result->reply, periodic->count + 2)) {
        failure_tell(periodic, "(all)", result);
        look_again(periodic);
        return;
    }
    const struct redis_reply *answers = result->reply->elements;
    node_time_take(periodic, &answers[0], &answers[1]);
    for (size_t i = 0; i < periodic->count; i++) {
        struct task *task = &periodic->tasks[i];
        task->noted = seconds_of(&answers[i + 2]);
        if (!redis_call_is_outstanding(&task->call))
            task_plan(task);
    }
    timer_set(periodic);
}

static void look_send(struct periodic *periodic)
{
    struct buffer *out = &periodic->request;
    periodic->look_at = loop_after(periodic->loop, periodic->options.look_every_ns);
    if (redis_call_is_outstanding(&periodic->look))
        return;
    buffer_clear(out);
    redis_request_script(out, &queue_script_ticks, 1, 2 * periodic->count);
    redis_request_text(out, periodic->options.keys->periodic);
    for (size_t i = 0; i < periodic->count; i++) {
        redis_request_text(out, periodic->tasks[i].entry->config->name);
        redis_request_text(out, periodic->tasks[i].entry->schedule);
    }
    if (!redis_node_call(periodic->options.node, out, call_deadline(periodic), &periodic->look))
        look_again(periodic);
}

static void timer_fire(struct loop_timer *timer)
{
    struct periodic *periodic = list_owner(timer, struct periodic, timer);
    struct instant now = loop_now(periodic->loop);
    for (size_t i = 0; i < periodic->count; i++)
        if (instant_reached(now, periodic->tasks[i].due))
            task_push(&periodic->tasks[i]);
    if (instant_reached(now, periodic->look_at))
        look_send(periodic);
    timer_set(periodic);
}

/* --- life ------------------------------------------------------------------------------------------------------- */

static void tasks_take(struct periodic *periodic, struct periodic_entries *entries)
{
    periodic->entries = entries;
    periodic->count = entries->count;
    periodic->tasks = memory_zeroed(entries->count + 1, sizeof *periodic->tasks);
    for (size_t i = 0; i < entries->count; i++)
        periodic->tasks[i] = (struct task){.periodic = periodic,
                                           .entry = &entries->items[i],
                                           .due = INSTANT_NEVER,
                                           .told = -1,
                                           .call = {.done = tick_answered}};
    periodic->look_at = entries->count > 0 ? loop_now(periodic->loop) : INSTANT_NEVER;
    timer_set(periodic);
}

static void tasks_drop(struct periodic *periodic)
{
    redis_call_cancel(&periodic->look);
    for (size_t i = 0; i < periodic->count; i++)
        redis_call_cancel(&periodic->tasks[i].call);
    free(periodic->tasks);
    periodic_entries_free(periodic->entries);
}

struct periodic *periodic_create(struct loop *loop, const struct periodic_options *options,
                                 struct periodic_entries *entries)
{
    struct periodic *periodic = memory_new(struct periodic);
    periodic->loop = loop;
    periodic->options = *options;
    if (periodic->options.look_every_ns == 0)
        periodic->options.look_every_ns = LOOK_EVERY_NS;
    if (periodic->options.jitter_ns == 0)
        periodic->options.jitter_ns = JITTER_NS;
    periodic->look.done = look_answered;
    loop_timer_init(&periodic->timer, timer_fire);
    tasks_take(periodic, entries);
    return periodic;
}

void periodic_change(struct periodic *periodic, struct periodic_entries *entries)
{
    tasks_drop(periodic);
    tasks_take(periodic, entries);
}

void periodic_destroy(struct periodic *periodic)
{
    if (periodic == NULL)
        return;
    loop_timer_clear(periodic->loop, &periodic->timer);
    tasks_drop(periodic);
    buffer_fini(&periodic->request);
    free(periodic);
}

void periodic_pause(struct periodic *periodic, bool is_paused)
{
    for (size_t i = 0; i < periodic->count; i++)
        periodic->tasks[i].due = INSTANT_NEVER; /* the first look plans anew */
    if (!is_paused && periodic->count > 0)
        periodic->look_at = loop_now(periodic->loop);
    periodic->is_paused = is_paused;
    timer_set(periodic);
}
