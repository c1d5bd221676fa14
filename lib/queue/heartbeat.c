/* Sends heartbeats; see heartbeat.h for their contents, heartbeat_text.c for the texts, scripts/heartbeat.lua for the
 * keys.
 *
 * A batch holds the counts of a numbered heartbeat, encoded when that is first sent. It stays, under its number, until
 * the node has answered; then the next heartbeat makes a new one. The displayed facts are read anew each time. A
 * leaving process first sends an unanswered batch, and then one last heartbeat with the rest. */
#include "queue/heartbeat.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "queue/scripts.h"

#define INTERVAL_NS   (5 * NS_PER_S)
#define RETRY_NS      (1 * NS_PER_S)
#define DOWN_RETRY_NS (100 * NS_PER_MS) /* while there is no connection: it costs nothing */
#define COMPLAIN_NS   (60 * NS_PER_S)

/* The script's keys and arguments before the repeated ones. */
enum { KEYS_FIXED = 15, ARGUMENTS_FIXED = 18, ARGUMENTS_OF_CLASS = 5 };

struct batch {
    bool is_open; /* sent, or about to be, and not answered */
    bool leaves;  /* it is the last one */
    uint64_t number;
    uint64_t processed, failed;
    struct wall_time at; /* the minute and the day that it counts for */
    unsigned classes, names;
    struct buffer keys, arguments; /* of its classes */
    struct buffer locks;           /* of its names */
};

struct heartbeat {
    struct loop *loop;
    struct heartbeat_options options;
    char *identity;
    struct batch batch;
    struct redis_call call, forget;
    struct instant sent;
    bool again; /* another one when this is answered */
    bool is_shown;
    bool is_doubtful; /* an unanswered heartbeat may be executed at any time */
    struct loop_timer timer;
    struct buffer request, text;
    struct heartbeat_counters counters;
    struct instant complained;
    bool leaving;
    struct instant leave_by;
    void (*left)(void *context, bool left);
};

/* --- one heartbeat -------------------------------------------------------------------------------------------- */

static void text_encode(struct heartbeat *heartbeat, struct buffer *out)
{
    redis_request_bytes(out, heartbeat->text.bytes, heartbeat->text.length);
    buffer_clear(&heartbeat->text);
}

static void batch_make(struct heartbeat *heartbeat)
{
    struct batch *batch = &heartbeat->batch;
    batch->is_open = true;
    batch->leaves = heartbeat->leaving;
    batch->number++;
    batch->at = heartbeat->options.now();
    batch->processed = batch->failed = 0;
    batch->classes = batch->names = 0;
    buffer_clear(&batch->keys);
    buffer_clear(&batch->arguments);
    buffer_clear(&batch->locks);
    if (heartbeat->options.take != NULL)
        heartbeat->options.take(heartbeat->options.context, heartbeat, batch->at);
}

void heartbeat_count_runs(struct heartbeat *heartbeat, const char *class_name, uint64_t runs, uint64_t failed,
                          const struct histogram *succeeded)
{
    struct batch *batch = &heartbeat->batch;
    uint64_t us = succeeded != NULL ? succeeded->sum_us : 0;
    batch->classes++;
    batch->processed += runs;
    batch->failed += failed;
    queue_keys_request_histogram(heartbeat->options.keys, QUEUE_MINUTE_7, class_name, batch->at, &batch->keys);
    queue_keys_request_histogram(heartbeat->options.keys, QUEUE_MINUTE_8, class_name, batch->at, &batch->keys);
    redis_request_text(&batch->arguments, class_name);
    redis_request_integer(&batch->arguments, (int64_t)((us + 500) / 1000));
    redis_request_integer(&batch->arguments, (int64_t)runs);
    redis_request_integer(&batch->arguments, (int64_t)failed);
    if (succeeded != NULL)
        heartbeat_buckets_write(succeeded, &heartbeat->text);
    text_encode(heartbeat, &batch->arguments);
}

void heartbeat_count_locks(struct heartbeat *heartbeat, const char *name, const struct buffer *counts)
{
    heartbeat->batch.names++;
    redis_request_text(&heartbeat->batch.locks, name);
    redis_request_bytes(&heartbeat->batch.locks, counts->bytes, counts->length);
}

static void keys_encode(struct heartbeat *heartbeat, struct buffer *out)
{
    const struct queue_keys *keys = heartbeat->options.keys;
    const struct batch *batch = &heartbeat->batch;
    const char *const own[] = {keys->listed,  keys->shown, keys->work,      keys->workers, keys->beat,
                               keys->signals, keys->calls, keys->processed, keys->failed};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        redis_request_text(out, own[i]);
    queue_keys_request_day(keys->processed, batch->at, out);
    queue_keys_request_day(keys->failed, batch->at, out);
    queue_keys_request_period(keys, QUEUE_MINUTE_7, batch->at, out);
    queue_keys_request_period(keys, QUEUE_MINUTE_8, batch->at, out);
    queue_keys_request_period(keys, QUEUE_TEN_MINUTES_8, batch->at, out);
    queue_keys_request_locks(keys, batch->at, out);
    buffer_append(out, batch->keys.bytes, batch->keys.length);
}

/* One a line. */
static void classes_encode(struct heartbeat *heartbeat, const struct heartbeat_facts *facts, struct buffer *out)
{
    for (size_t i = 0; i < facts->class_count; i++)
        buffer_format(&heartbeat->text, "%s%s", i > 0 ? "\n" : "", facts->classes[i]);
    text_encode(heartbeat, out);
}

static void runs_encode(struct heartbeat *heartbeat, const struct heartbeat_facts *facts, struct buffer *out)
{
    size_t budget = HEARTBEAT_BYTES;
    redis_request_integer(out, (int64_t)facts->run_count);
    for (size_t i = 0; i < facts->run_count; i++) {
        char tid[16];
        int length = snprintf(tid, sizeof tid, "t%u", facts->runs[i].slot);
        redis_request_bytes(out, tid, (size_t)length);
        heartbeat_run_write(&facts->runs[i], &budget, &heartbeat->text);
        text_encode(heartbeat, out);
    }
}

static void beat_encode(struct heartbeat *heartbeat, const struct heartbeat_facts *facts)
{
    struct buffer *out = &heartbeat->request;
    const struct batch *batch = &heartbeat->batch;
    buffer_clear(out);
    redis_request_script(out, &queue_script_heartbeat, KEYS_FIXED + 2 * (size_t)batch->classes,
                         ARGUMENTS_FIXED + 2 * facts->run_count + ARGUMENTS_OF_CLASS * (size_t)batch->classes +
                             2 * (size_t)batch->names);
    keys_encode(heartbeat, out);
    redis_request_text(out, heartbeat->identity);
    redis_request_integer(out, (int64_t)batch->number);
    redis_request_texts(out, batch->leaves ? "leave" : "stay", heartbeat->options.keys->space);
    heartbeat_info_write(facts, heartbeat->identity, &heartbeat->text);
    text_encode(heartbeat, out);
    redis_request_integer(out, facts->concurrency);
    redis_request_integer(out, (int64_t)facts->run_count);
    envelope_append_time(&heartbeat->text, heartbeat->options.now());
    text_encode(heartbeat, out);
    redis_request_integer(out, heartbeat->counters.rtt_us);
    redis_request_text(out, facts->quiet ? "true" : "false");
    redis_request_integer(out, facts->rss_kb);
    redis_request_integer(out, (int64_t)batch->processed);
    redis_request_integer(out, (int64_t)batch->failed);
    redis_request_integer(out, batch->classes);
    redis_request_integer(out, HEARTBEAT_FIELDS_MAX);
    redis_request_text(out, heartbeat->options.others);
    classes_encode(heartbeat, facts, out);
    runs_encode(heartbeat, facts, out);
    buffer_append(out, batch->arguments.bytes, batch->arguments.length);
    buffer_append(out, batch->locks.bytes, batch->locks.length);
}

static void beat_later(struct heartbeat *heartbeat, struct instant at)
{
    loop_timer_set(heartbeat->loop, &heartbeat->timer, at);
}

static void beat_failed(struct heartbeat *heartbeat, int64_t rest)
{
    int64_t interval = heartbeat->options.interval_ns;
    heartbeat->counters.repeats++;
    beat_later(heartbeat, loop_after(heartbeat->loop, rest < interval ? rest : interval));
}

static void beat_send(struct heartbeat *heartbeat)
{
    struct heartbeat_facts facts = {.hostname = "", .tag = "", .version = ""};
    if (!heartbeat->batch.is_open)
        batch_make(heartbeat);
    heartbeat->options.look(heartbeat->options.context, &facts);
    if (heartbeat->batch.leaves)
        facts.run_count = 0;
    beat_encode(heartbeat, &facts);
    heartbeat->again = false;
    heartbeat->sent = instant_now();
    struct instant deadline = loop_after(heartbeat->loop, heartbeat->options.timeout_ns);
    if (!redis_node_call(heartbeat->options.node, &heartbeat->request, deadline, &heartbeat->call))
        beat_failed(heartbeat, DOWN_RETRY_NS);
    else if (heartbeat->leaving)
        beat_later(heartbeat, heartbeat->leave_by);
}

/* --- the answer ----------------------------------------------------------------------------------------------- */

static void leave_end(struct heartbeat *heartbeat, bool left)
{
    loop_timer_clear(heartbeat->loop, &heartbeat->timer);
    redis_call_cancel(&heartbeat->call);
    redis_call_cancel(&heartbeat->forget);
    void (*done)(void *context, bool left) = heartbeat->left;
    heartbeat->left = NULL;
    if (done != NULL)
        done(heartbeat->options.context, left);
}

static void forgotten(struct redis_call *call, const struct redis_result *result)
{
    (void)result;
    leave_end(list_owner(call, struct heartbeat, forget), true);
}

/* The number of the last heartbeat guards against late and repeated ones. If all were answered, there are none and
 * the number is deleted; otherwise it expires. */
static void number_forget(struct heartbeat *heartbeat)
{
    struct buffer *out = &heartbeat->request;
    buffer_clear(out);
    redis_request_command(out, "UNLINK", heartbeat->options.keys->beat);
    if (heartbeat->is_doubtful ||
        !redis_node_call(heartbeat->options.node, out, heartbeat->leave_by, &heartbeat->forget))
        leave_end(heartbeat, true);
}

static bool may_complain(struct heartbeat *heartbeat)
{
    struct instant now = loop_now(heartbeat->loop);
    if (heartbeat->complained.ns != 0 && instant_before(now, instant_after(heartbeat->complained, COMPLAIN_NS)))
        return false;
    heartbeat->complained = now;
    return true;
}

static void beat_read(struct heartbeat *heartbeat, const struct redis_reply *reply)
{
    if (reply->kind != REDIS_ARRAY || reply->count != 2)
        return;
    const struct redis_reply *state = &reply->elements[0], *refused = &reply->elements[1];
    bool is_new = redis_reply_is_text(state, "new");
    if (is_new && heartbeat->is_shown && !heartbeat->batch.leaves)
        log_event(LOG_WARN, "heartbeat_recovered",
                  "advice=\"the queue node had not heard of this process for a minute, or lost its data\"");
    heartbeat->is_shown = true;
    if (refused->integer > 0 && may_complain(heartbeat))
        log_event(LOG_WARN, "heartbeat_incomplete",
                  "commands=%lld advice=\"a foreign value is under a key of the statistics: remove it\"",
                  refused->integer);
}

static void beat_refused(struct heartbeat *heartbeat, const struct redis_result *result)
{
    char why[LOG_QUOTE_MAX];
    if (result->outcome == REDIS_ERROR && result->error != REDIS_ERROR_DOWN && may_complain(heartbeat))
        log_event(LOG_WARN, "heartbeat_refused", "error=%s reason=%s advice=\"it is sent again\"",
                  redis_error_name(result->error), log_value(result->reason, why));
}

static void beat_answered(struct redis_call *call, const struct redis_result *result)
{
    struct heartbeat *heartbeat = list_owner(call, struct heartbeat, call);
    if (result->outcome != REDIS_VALUE) {
        beat_refused(heartbeat, result);
        heartbeat->is_doubtful = heartbeat->is_doubtful || result->outcome == REDIS_UNKNOWN;
        beat_failed(heartbeat, heartbeat->leaving ? DOWN_RETRY_NS : RETRY_NS);
        return;
    }
    beat_read(heartbeat, result->reply);
    heartbeat->counters.answered++;
    heartbeat->counters.rtt_us = instant_since(heartbeat->sent, instant_now()) / NS_PER_US;
    heartbeat->batch.is_open = false;
    if (heartbeat->batch.leaves)
        number_forget(heartbeat);
    else if (heartbeat->again || heartbeat->leaving)
        beat_send(heartbeat);
    else
        beat_later(heartbeat, instant_after(heartbeat->sent, heartbeat->options.interval_ns));
}

static void pinged(struct redis_call *call, const struct redis_result *result)
{
    struct heartbeat *heartbeat = list_owner(call, struct heartbeat, call);
    if (result->outcome == REDIS_VALUE)
        heartbeat->counters.rtt_us = instant_since(heartbeat->sent, instant_now()) / NS_PER_US;
    heartbeat->call.done = beat_answered;
    beat_send(heartbeat);
}

/* Measures how long an answer takes, for the first heartbeat. */
static void ping_send(struct heartbeat *heartbeat)
{
    struct buffer *out = &heartbeat->request;
    buffer_clear(out);
    redis_request_command(out, "PING");
    heartbeat->sent = instant_now();
    struct instant deadline = loop_after(heartbeat->loop, heartbeat->options.timeout_ns);
    if (!redis_node_call(heartbeat->options.node, out, deadline, &heartbeat->call))
        beat_failed(heartbeat, DOWN_RETRY_NS);
}

static void timer_fire(struct loop_timer *timer)
{
    struct heartbeat *heartbeat = list_owner(timer, struct heartbeat, timer);
    if (heartbeat->leaving && instant_reached(loop_now(heartbeat->loop), heartbeat->leave_by)) {
        leave_end(heartbeat, false);
        return;
    }
    if (heartbeat->call.done == pinged && !heartbeat->leaving) {
        ping_send(heartbeat);
        return;
    }
    heartbeat->call.done = beat_answered;
    beat_send(heartbeat);
}

/* --- life ----------------------------------------------------------------------------------------------------- */

void heartbeat_soon(struct heartbeat *heartbeat)
{
    heartbeat->again = true;
    if (!redis_call_is_outstanding(&heartbeat->call) && !heartbeat->leaving)
        beat_later(heartbeat, loop_now(heartbeat->loop));
}

void heartbeat_leave(struct heartbeat *heartbeat, struct instant deadline, void (*done)(void *context, bool left))
{
    heartbeat->leaving = true;
    heartbeat->leave_by = deadline;
    heartbeat->left = done;
    beat_later(heartbeat, redis_call_is_outstanding(&heartbeat->call) ? deadline : loop_now(heartbeat->loop));
}

struct heartbeat *heartbeat_create(struct loop *loop, const struct heartbeat_options *options)
{
    struct heartbeat *heartbeat = memory_new(struct heartbeat);
    heartbeat->loop = loop;
    heartbeat->options = *options;
    if (heartbeat->options.interval_ns == 0)
        heartbeat->options.interval_ns = INTERVAL_NS;
    if (heartbeat->options.now == NULL)
        heartbeat->options.now = wall_now;
    if (heartbeat->options.others == NULL)
        heartbeat->options.others = "";
    heartbeat->identity = memory_text(options->identity);
    heartbeat->call.done = pinged;
    heartbeat->forget.done = forgotten;
    loop_timer_init(&heartbeat->timer, timer_fire);
    beat_later(heartbeat, loop_now(loop));
    return heartbeat;
}

void heartbeat_destroy(struct heartbeat *heartbeat)
{
    loop_timer_clear(heartbeat->loop, &heartbeat->timer);
    redis_call_cancel(&heartbeat->call);
    redis_call_cancel(&heartbeat->forget);
    buffer_fini(&heartbeat->batch.keys);
    buffer_fini(&heartbeat->batch.arguments);
    buffer_fini(&heartbeat->batch.locks);
    buffer_fini(&heartbeat->request);
    buffer_fini(&heartbeat->text);
    free(heartbeat->identity);
    free(heartbeat);
}

const struct heartbeat_counters *heartbeat_counters(const struct heartbeat *heartbeat)
{
    return &heartbeat->counters;
}
