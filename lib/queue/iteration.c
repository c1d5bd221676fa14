/* See iteration.h. The phases of one run:
 *
 *     IDLE ─begin─▶ BEGINNING ─answered─▶ RUNNING ─end─▶ ENDING ─answered─▶ IDLE, or BEGINNING the next
 *
 * A run that is new starts in BEGINNING. If it ends there, its last call follows the first on the connection, and does
 * the work of both if the first was lost.
 *
 * There is one call and one timer: it repeats the call of BEGINNING and ENDING, and asks for progress in RUNNING. */
#include "queue/iteration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/real.h"
#include "queue/scripts.h"

#define INTERVAL_NS (5 * NS_PER_S)
#define FIRST_NS    (1 * NS_PER_S) /* to the first write; then twice as long each time, up to the interval */
#define RETRY_NS    (200 * NS_PER_MS)

/* What hf:2:cancels keeps. */
enum { CANCELS_AGE_S = 86400, CANCELS_ENTRIES = 10000 };

enum phase { IDLE, BEGINNING, RUNNING, ENDING };

struct iteration {
    struct loop *loop;
    struct iteration_options options;
    enum phase phase;
    struct redis_call call;
    struct loop_timer timer;
    char jid[ENVELOPE_JID_BYTES_MAX + 1];
    char next_jid[ENVELOPE_JID_BYTES_MAX + 1]; /* "" = none waits */
    char run[ENVELOPE_NEW_JID_SIZE];
    struct buffer cursor; /* what was saved last in this run; goes with every write */
    bool is_done;
    bool is_noted;    /* the node has answered the first call */
    bool runs;        /* since `began` */
    int64_t gap_ns;   /* to the next write */
    double earlier_s; /* what earlier runs took */
    struct instant began;
    double took_s; /* this run, once it is over */
    struct buffer request;
};

bool iteration_text_is_sound(const char *json, size_t length)
{
    static const struct envelope_limits limits = {
        .size = ITERATION_BYTES_MAX, .depth = ITERATION_DEPTH_MAX, .keys = ITERATION_KEYS_MAX};
    return json_check(json, length, &limits, NULL);
}

/* --- calls ----------------------------------------------------------------------------------------------------- */

static void timer_after(struct iteration *iteration, int64_t ns)
{
    loop_timer_set(iteration->loop, &iteration->timer, loop_after(iteration->loop, ns));
}

/* Whoever waits for the first progress sees it soon, and long runs cost little. */
static void write_later(struct iteration *iteration)
{
    int64_t most = iteration->options.interval_ns;
    iteration->gap_ns = 2 * iteration->gap_ns < most ? 2 * iteration->gap_ns : most;
    timer_after(iteration, iteration->gap_ns);
}

static double seconds_so_far(const struct iteration *iteration)
{
    return (double)instant_since(iteration->began, loop_now(iteration->loop)) / (double)NS_PER_S;
}

static void begin_encode(const struct iteration *iteration, struct buffer *out)
{
    redis_request_script(out, &queue_script_iteration_begin, 1, 1);
    queue_keys_request(iteration->options.keys->iteration_prefix, iteration->jid, out);
    redis_request_text(out, iteration->run);
}

static void flush_encode(const struct iteration *iteration, struct buffer *out)
{
    bool ends = iteration->phase == ENDING;
    double took = ends ? iteration->took_s : seconds_so_far(iteration);
    redis_request_script(out, &queue_script_iteration_flush, 1, 5);
    queue_keys_request(iteration->options.keys->iteration_prefix, iteration->jid, out);
    redis_request_texts(out, iteration->run, ends && iteration->is_done ? "end" : "go on");
    redis_request_seconds(out, llround((iteration->earlier_s + took) * (double)US_PER_S));
    redis_request_bytes(out, iteration->cursor.bytes, iteration->cursor.length);
    redis_request_text(out, iteration->is_noted ? "" : "new");
}

static void iteration_send(struct iteration *iteration)
{
    struct buffer *out = &iteration->request;
    buffer_clear(out);
    if (iteration->phase == BEGINNING)
        begin_encode(iteration, out);
    else
        flush_encode(iteration, out);
    struct instant deadline = loop_after(iteration->loop, iteration->options.timeout_ns);
    if (!redis_node_call(iteration->options.node, out, deadline, &iteration->call))
        timer_after(iteration, RETRY_NS);
}

/* --- answers --------------------------------------------------------------------------------------------------- */

static void run_begin(struct iteration *iteration)
{
    iteration->phase = BEGINNING;
    iteration->is_done = iteration->is_noted = iteration->runs = false;
    iteration->earlier_s = 0;
    iteration->gap_ns = FIRST_NS / 2;
    buffer_clear(&iteration->cursor);
    envelope_new_jid(iteration->run);
    snprintf(iteration->jid, sizeof iteration->jid, "%s", iteration->next_jid);
    iteration->next_jid[0] = '\0';
    iteration_send(iteration);
}

static void run_starts(struct iteration *iteration)
{
    iteration->runs = true;
    iteration->began = loop_now(iteration->loop);
}

/* The hash may be another program's: a Ruby job's cursor, or something unusable. */
static void begin_read(struct iteration *iteration, const struct redis_reply *reply)
{
    bool is_sound = reply->kind == REDIS_ARRAY && reply->count == 3 && reply->elements[1].kind == REDIS_STRING &&
                    reply->elements[2].kind == REDIS_STRING;
    const struct redis_reply *cursor = is_sound ? &reply->elements[1] : NULL;
    bool has_cursor =
        is_sound && iteration_text_is_sound(cursor->bytes, cursor->length) && strcmp(cursor->bytes, "null") != 0;
    bool is_cancelled = is_sound && reply->elements[0].integer == 1;
    iteration->phase = RUNNING;
    iteration->is_noted = true;
    iteration->earlier_s = is_sound ? real_read(reply->elements[2].bytes, NULL) : 0;
    if (!(iteration->earlier_s >= 0 && iteration->earlier_s < 1e12))
        iteration->earlier_s = 0;
    write_later(iteration);
    if (!iteration->runs) {
        run_starts(iteration);
        iteration->options.began(iteration->options.context, is_cancelled, has_cursor ? cursor->bytes : NULL,
                                 has_cursor ? cursor->length : 0);
    } else if (is_cancelled) {
        iteration->options.cancelled(iteration->options.context);
    }
}

static void flush_read(struct iteration *iteration, const struct redis_reply *reply)
{
    if (iteration->phase == RUNNING && reply->kind == REDIS_INTEGER && reply->integer == 1)
        iteration->options.cancelled(iteration->options.context);
}

static void iteration_answered(struct redis_call *call, const struct redis_result *result)
{
    struct iteration *iteration = list_owner(call, struct iteration, call);
    if (result->outcome != REDIS_VALUE) {
        timer_after(iteration, RETRY_NS);
        return;
    }
    switch (iteration->phase) {
    case IDLE:
        return;
    case BEGINNING:
        begin_read(iteration, result->reply);
        return;
    case RUNNING:
        write_later(iteration);
        flush_read(iteration, result->reply);
        return;
    case ENDING:
        iteration->phase = IDLE;
        if (iteration->next_jid[0] != '\0')
            run_begin(iteration);
        return;
    }
}

static void timer_fire(struct loop_timer *timer)
{
    struct iteration *iteration = list_owner(timer, struct iteration, timer);
    if (iteration->phase == RUNNING)
        iteration->options.look(iteration->options.context);
    iteration_send(iteration);
}

/* --- life ------------------------------------------------------------------------------------------------------ */

bool iteration_begin(struct iteration *iteration, const char *jid, bool is_new)
{
    snprintf(iteration->next_jid, sizeof iteration->next_jid, "%s", jid);
    if (iteration->phase != IDLE)
        return false;
    run_begin(iteration);
    if (is_new)
        run_starts(iteration);
    return is_new;
}

void iteration_save(struct iteration *iteration, const char *json, size_t length)
{
    buffer_clear(&iteration->cursor);
    buffer_append(&iteration->cursor, json, length);
}

void iteration_end(struct iteration *iteration, bool is_done)
{
    iteration->next_jid[0] = '\0';
    if (iteration->phase == IDLE || iteration->phase == ENDING)
        return;
    redis_call_cancel(&iteration->call);
    loop_timer_clear(iteration->loop, &iteration->timer);
    if (!iteration->runs && !is_done) {
        iteration->phase = IDLE; /* the progress of earlier runs is unknown here, and stays */
        return;
    }
    iteration->took_s = iteration->runs ? seconds_so_far(iteration) : 0;
    iteration->is_done = is_done;
    iteration->phase = ENDING;
    iteration_send(iteration);
}

bool iteration_is_busy(const struct iteration *iteration)
{
    return iteration->phase != IDLE;
}

struct iteration *iteration_create(struct loop *loop, const struct iteration_options *options)
{
    struct iteration *iteration = memory_new(struct iteration);
    iteration->loop = loop;
    iteration->options = *options;
    if (iteration->options.interval_ns == 0)
        iteration->options.interval_ns = INTERVAL_NS;
    iteration->call.done = iteration_answered;
    loop_timer_init(&iteration->timer, timer_fire);
    return iteration;
}

void iteration_destroy(struct iteration *iteration)
{
    loop_timer_clear(iteration->loop, &iteration->timer);
    redis_call_cancel(&iteration->call);
    buffer_fini(&iteration->cursor);
    buffer_fini(&iteration->request);
    free(iteration);
}

void iteration_request_cancel(const struct queue_keys *keys, const char *jid, struct buffer *out)
{
    redis_request_script(out, &queue_script_cancel, 2, 3);
    queue_keys_request(keys->iteration_prefix, jid, out);
    redis_request_texts(out, keys->cancels, jid);
    redis_request_integer(out, CANCELS_AGE_S);
    redis_request_integer(out, CANCELS_ENTRIES);
}
