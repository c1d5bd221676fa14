/* The producer; see push.h. Runs on the loop.
 *
 * A slice's place in the order of pushing is its serial, given when it is closed. Waiting ones and those in flight are
 * both kept in that order: a slice that comes back without an answer returns to its place among the waiting ones, and
 * the lowest serial of all, which each call tells the node, is at the head of one of the two lists, or rests.
 *
 * A unique task whose class and arguments another one has is sent again to look for that one (push_unique.lua). When it
 * is missed, the slice rests for a moment before the look that decides. */
#include "queue/push.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/digest.h"
#include "queue/keys.h"
#include "queue/scripts.h"

/* --- slices ------------------------------------------------------------------------------------------------------- */

/* Some tasks of one source that are pushed by one call; see push.h.
 *
 * A slice is encoded while it fills: its body holds the tasks as arguments of the call that will carry them. Bodies are
 * used again, so that bulk pushing allocates nothing in the steady state. Runs on the loop. */

enum { SLICE_TASKS = 1000, SLICE_TASKS_SCHEDULED = 100, SLICE_BYTES = 1 << 20 };

struct slice {
    struct list link; /* filling, waiting, in flight or spare */
    struct push *push;
    struct push_source *source;
    char queue[ENVELOPE_QUEUE_BYTES_MAX + 1];
    bool is_scheduled;
    char digest[DIGEST_TEXT_SIZE]; /* "" unless it is a single unique task, and then */
    char jid[ENVELOPE_JID_BYTES_MAX + 1];
    int64_t unique_ms;
    struct buffer body, numbers;
    size_t count, bytes;      /* of the tasks */
    uint64_t serial;          /* its place in the order of pushing, once it is closed */
    struct instant answer_by; /* INSTANT_NEVER until it is sent */
    bool may_be_pushed;       /* a try of it has no outcome */
    bool was_refused;         /* by the last try, for a while perhaps */
    /* Of a unique one: another task has its key, and the next try looks whether that is still there. */
    bool seeks;
    char missed[ENVELOPE_JID_BYTES_MAX + 1]; /* the last look did not find this one; "" = it found it, or none looked */
    struct instant rested;                   /* before then it isn't tried again */
    struct redis_call call;
};

enum {
    BYTES_A_TASK = SLICE_BYTES / SLICE_TASKS,
    RECORD_KEPT_MS = 3600 * 1000, /* twice as long as anybody waits for an answer */
};

/* A new one, or `spare` used again. */
static struct slice *slice_open(struct slice *spare, struct push_source *source, const struct built_task *task)
{
    struct slice *slice = spare != NULL ? spare : memory_new(struct slice);
    struct slice opened = {.source = source, .body = slice->body, .numbers = slice->numbers};
    opened.is_scheduled = task->at_us != 0;
    opened.unique_ms = task->unique_ms;
    opened.answer_by = INSTANT_NEVER;
    memcpy(opened.queue, task->queue, strlen(task->queue) + 1);
    memcpy(opened.digest, task->digest, strlen(task->digest) + 1);
    if (task->digest[0] != '\0')
        memcpy(opened.jid, task->jid, strlen(task->jid) + 1);
    *slice = opened;
    list_init(&slice->link);
    buffer_clear(&slice->body);
    buffer_clear(&slice->numbers);
    return slice;
}

static void slice_free(struct slice *slice)
{
    buffer_fini(&slice->body);
    buffer_fini(&slice->numbers);
    free(slice);
}

/* Whether another task may join it. */
static bool slice_takes(const struct slice *slice, const struct built_task *task)
{
    bool is_scheduled = task->at_us != 0;
    return slice->is_scheduled == is_scheduled && (is_scheduled || strcmp(slice->queue, task->queue) == 0);
}

static void slice_add(struct slice *slice, const struct built_task *task, int64_t score_us, uint64_t number)
{
    if (slice->is_scheduled)
        redis_request_seconds(&slice->body, score_us);
    redis_request_bytes(&slice->body, task->payload.bytes, task->payload.length);
    buffer_append(&slice->numbers, &number, sizeof number);
    slice->bytes += task->payload.length;
    slice->count++;
}

static bool slice_is_full(const struct slice *slice)
{
    size_t most = slice->is_scheduled ? SLICE_TASKS_SCHEDULED : SLICE_TASKS;
    return slice->digest[0] != '\0' || slice->count >= most || slice->body.length >= SLICE_BYTES;
}

/* In tasks of a common size. */
static size_t slice_weight(const struct slice *slice)
{
    size_t by_bytes = slice->body.length / BYTES_A_TASK;
    return by_bytes > slice->count ? by_bytes : slice->count;
}

static void account_add(const struct slice *slice, uint64_t low, const char *queue, struct buffer *out)
{
    redis_request_integer(out, (int64_t)slice->serial);
    redis_request_integer(out, (int64_t)low);
    redis_request_integer(out, RECORD_KEPT_MS);
    redis_request_text(out, queue);
}

static void place_add(const struct slice *slice, const struct queue_keys *keys, struct buffer *out)
{
    if (slice->is_scheduled)
        redis_request_text(out, keys->schedule);
    else
        queue_keys_request_queue(keys, slice->queue, out);
}

static void plain_request(const struct slice *slice, const struct queue_keys *keys, const char *record, uint64_t low,
                          struct buffer *out)
{
    size_t texts = slice->is_scheduled ? 2 * slice->count : slice->count;
    redis_request_script(out, &queue_script_push, slice->is_scheduled ? 2 : 3, 4 + texts);
    redis_request_text(out, record);
    place_add(slice, keys, out);
    if (!slice->is_scheduled)
        redis_request_text(out, keys->queues);
    account_add(slice, low, slice->is_scheduled ? "" : slice->queue, out);
    buffer_append(out, slice->body.bytes, slice->body.length);
}

enum { SEEK_KEYS = 6, SEEK_ARGUMENTS = 6 };

static void seek_keys_add(const struct slice *slice, const struct queue_keys *keys, struct buffer *out)
{
    redis_request_texts(out, keys->processes, keys->listed, keys->schedule, keys->retry);
    queue_keys_request(keys->looked_prefix, slice->digest, out);
    queue_keys_request(keys->looked_prefix, "", out);
}

static void seek_arguments_add(const struct slice *slice, const struct queue_keys *keys, struct buffer *out)
{
    redis_request_texts(out, slice->missed, slice->digest, keys->queue_prefix, keys->process_prefix,
                        keys->any_bell_prefix, keys->space);
}

static void unique_request(const struct slice *slice, const struct queue_keys *keys, const char *record, uint64_t low,
                           struct buffer *out)
{
    redis_request_script(out, &queue_script_push_unique, 4 + (slice->seeks ? SEEK_KEYS : 0),
                         8 + (slice->seeks ? SEEK_ARGUMENTS : 0));
    redis_request_text(out, record);
    queue_keys_request(keys->unique_prefix, slice->digest, out);
    place_add(slice, keys, out);
    redis_request_text(out, keys->queues);
    if (slice->seeks)
        seek_keys_add(slice, keys, out);
    account_add(slice, low, slice->queue, out);
    redis_request_text(out, slice->jid);
    redis_request_integer(out, slice->unique_ms);
    if (!slice->is_scheduled)
        redis_request_text(out, "");
    buffer_append(out, slice->body.bytes, slice->body.length); /* the task; of one that is scheduled behind its score */
    if (slice->seeks)
        seek_arguments_add(slice, keys, out);
}

/* `record` is the key of the producer's record, `low` the lowest serial without an answer. */
static void slice_request(const struct slice *slice, const struct queue_keys *keys, const char *record, uint64_t low,
                          struct buffer *out)
{
    buffer_clear(out);
    if (slice->digest[0] != '\0')
        unique_request(slice, keys, record, low, out);
    else
        plain_request(slice, keys, record, low, out);
}

/* --- pushing ------------------------------------------------------------------------------------------------------ */

enum {
    FILLING_BYTES_MAX = 8 << 20, /* in slices that are not full, of all sources */
    SLICES_DEFAULT = 4,
    SPARE_MAX = 16,
    REFUSAL_MAX = 200,
};
#define TIMEOUT_NS       (10 * NS_PER_S)
#define TIMEOUT_MAX_NS   (1800 * NS_PER_S)
#define PATIENCE_NS      (2 * NS_PER_S)
#define REFUSED_AGAIN_NS (50 * NS_PER_MS)
#define MISSED_AGAIN_NS  (1 * NS_PER_S) /* longer than other programs hold a task that they move */
#define BURST_US         US_PER_S
#define FINISH_NS        (200 * NS_PER_MS)

struct push {
    struct loop *loop;
    struct redis_node *node;
    struct push_options options;
    struct queue_keys keys;
    char *record; /* key of the producer's record */
    struct list waiting, flying, spare;
    struct list resting; /* those that rested first come first */
    struct loop_timer rest;
    unsigned spare_count;
    size_t flying_weight, filling_bytes;
    uint64_t serial;
    int64_t last_score_us;
    struct instant progressed;  /* when something became busy, or the node last said yes or no */
    struct instant held_until;  /* a node that refuses for a while is left alone */
    struct loop_timer patience; /* also for held_until */
    char refusal[REFUSAL_MAX];
    struct buffer request;
    bool is_recorded, is_doubtful; /* something was sent; a try of something has no outcome */
    struct redis_call finish;
    void (*finished)(void *context);
    void *finished_context;
};

static void slice_answered(struct redis_call *call, const struct redis_result *result);
static void patience_arm(struct push *push);

/* --- ends --------------------------------------------------------------------------------------------------------- */

static void slice_spare(struct push *push, struct slice *slice)
{
    if (slice->body.capacity > 2 * SLICE_BYTES || push->spare_count == SPARE_MAX) {
        slice_free(slice);
        return;
    }
    list_append(&push->spare, &slice->link);
    push->spare_count++;
}

/* The last that is heard of a slice; its source may be gone afterwards. */
static void slice_end(struct slice *slice, enum hf_push_answer answer, const char *reason, const char *holder)
{
    struct hf_stream_report report = {.answer = answer,
                                      .queue = slice->queue,
                                      .count = slice->count,
                                      .numbers = (const uint64_t *)(const void *)slice->numbers.bytes,
                                      .holder = holder,
                                      .reason = reason};
    slice->source->ended(slice->source, &report, slice->bytes);
    slice_spare(slice->push, slice);
}

/* A server that is there and refuses us will go on doing so; the texts are those of lib/redis. */
static bool is_denial(const char *reason)
{
    return strstr(reason, " refused AUTH") != NULL || strstr(reason, " refused SELECT") != NULL ||
           strstr(reason, ": NOAUTH") != NULL || strstr(reason, ": NOPERM") != NULL;
}

static void slice_give_up(struct slice *slice, const char *reason)
{
    const char *refusal = slice->push->refusal;
    if (slice->may_be_pushed)
        slice_end(slice, HF_PUSH_UNKNOWN, reason, "");
    else if (slice->was_refused)
        slice_end(slice, HF_PUSH_REFUSED, refusal, "");
    else
        slice_end(slice, is_denial(reason) ? HF_PUSH_DENIED : HF_PUSH_UNREACHABLE, reason, "");
}

static void waiting_give_up(struct push *push, const char *why)
{
    char reason[REFUSAL_MAX];
    struct list ending, *link = NULL;
    snprintf(reason, sizeof reason, "%s", why);
    list_init(&ending);
    while ((link = list_take_first(&push->waiting)) != NULL)
        list_append(&ending, link);
    while ((link = list_take_first(&ending)) != NULL)
        slice_give_up(list_owner(link, struct slice, link), reason);
}

/* --- patience ----------------------------------------------------------------------------------------------------- */

/* While something is in flight the node has the time for an answer. */
static struct instant patience_end(const struct push *push)
{
    int64_t limit = list_is_empty(&push->flying) ? push->options.patience_ns : push->options.timeout_ns;
    return instant_after(push->progressed, limit);
}

static void slices_send(struct push *push);

static void patience_fire(struct loop_timer *timer)
{
    struct push *push = list_owner(timer, struct push, patience);
    const char *reason = redis_node_reason(push->node);
    if (instant_reached(loop_now(push->loop), patience_end(push)))
        waiting_give_up(push, reason[0] != '\0' ? reason : "no answer");
    slices_send(push);
    patience_arm(push);
}

static void patience_arm(struct push *push)
{
    if (list_is_empty(&push->waiting)) {
        loop_timer_clear(push->loop, &push->patience);
        return;
    }
    struct instant now = loop_now(push->loop), at = patience_end(push);
    if (instant_before(now, push->held_until))
        at = instant_earlier(at, push->held_until);
    loop_timer_set(push->loop, &push->patience, at);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

/* By serial; a new one has the highest. */
static void slice_put(struct list *slices, struct slice *slice)
{
    struct list *before = slices;
    while (before->previous != slices && list_owner(before->previous, struct slice, link)->serial > slice->serial)
        before = before->previous;
    list_append(before, &slice->link);
}

static uint64_t serial_of_first(const struct list *slices)
{
    return list_is_empty(slices) ? UINT64_MAX : list_owner(slices->next, struct slice, link)->serial;
}

/* Of all that have no end. */
static uint64_t serial_lowest(const struct push *push)
{
    uint64_t waiting = serial_of_first(&push->waiting), flying = serial_of_first(&push->flying);
    uint64_t lowest = waiting < flying ? waiting : flying;
    for (const struct list *link = push->resting.next; link != &push->resting; link = link->next) {
        uint64_t serial = list_owner(link, const struct slice, link)->serial;
        lowest = serial < lowest ? serial : lowest;
    }
    return lowest;
}

static bool slice_send(struct push *push, struct slice *slice)
{
    struct instant answer_by = slice->answer_by;
    if (answer_by.ns == INSTANT_NEVER.ns)
        answer_by = loop_after(push->loop, push->options.timeout_ns);
    slice_request(slice, &push->keys, push->record, serial_lowest(push), &push->request);
    if (!redis_node_call(push->node, &push->request, answer_by, &slice->call))
        return false;
    slice->answer_by = answer_by;
    push->is_recorded = true;
    return true;
}

static void slices_send(struct push *push)
{
    size_t most = (size_t)push->options.slices_max * SLICE_TASKS;
    if (instant_before(loop_now(push->loop), push->held_until))
        return;
    while (push->flying_weight < most && !list_is_empty(&push->waiting)) {
        struct slice *slice = list_owner(push->waiting.next, struct slice, link);
        if (!slice_send(push, slice))
            return; /* goes on when the connection is up */
        list_remove(&slice->link);
        slice_put(&push->flying, slice);
        push->flying_weight += slice_weight(slice);
    }
}

/* --- looking for the holder --------------------------------------------------------------------------------------- */

static void rest_fire(struct loop_timer *timer)
{
    struct push *push = list_owner(timer, struct push, rest);
    while (!list_is_empty(&push->resting)) {
        struct slice *slice = list_owner(push->resting.next, struct slice, link);
        if (!instant_reached(loop_now(push->loop), slice->rested)) {
            loop_timer_set(push->loop, timer, slice->rested);
            break;
        }
        list_remove(&slice->link);
        slice_put(&push->waiting, slice);
    }
    slices_send(push);
    patience_arm(push);
}

/* False when it has no more time for that. */
static bool slice_seeks(struct push *push, struct slice *slice, const struct redis_reply *holder)
{
    struct instant rested = loop_after(push->loop, MISSED_AGAIN_NS);
    if (!slice->seeks) {
        slice->seeks = true;
        slice_put(&push->waiting, slice);
        return true;
    }
    if (slice->missed[0] != '\0' || holder->length >= sizeof slice->missed || instant_reached(rested, slice->answer_by))
        return false;
    memcpy(slice->missed, holder->bytes, holder->length + 1);
    slice->rested = rested;
    if (list_is_empty(&push->resting))
        loop_timer_set(push->loop, &push->rest, rested);
    list_append(&push->resting, &slice->link);
    return true;
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* A list of one is the holder, which is to be looked for or was missed. */
static void value_take(struct push *push, struct slice *slice, const struct redis_reply *reply)
{
    bool is_unique = slice->digest[0] != '\0', is_list = reply->kind == REDIS_ARRAY && reply->count == 1;
    if (is_unique && is_list) {
        reply = &reply->elements[0];
        if (reply->kind == REDIS_STRING && slice_seeks(push, slice, reply))
            return;
    }
    bool is_sound = is_unique ? reply->kind == REDIS_STRING && reply->length > 0
                              : reply->kind == REDIS_INTEGER && reply->integer >= 0;
    if (!is_sound)
        slice_end(slice, HF_PUSH_UNKNOWN, "an answer that makes no sense: is this a Redis server?", "");
    else if (is_unique && (is_list || strcmp(reply->bytes, slice->jid) != 0))
        slice_end(slice, HF_PUSH_DUPLICATE, "a task with this class and these arguments waits or runs", reply->bytes);
    else
        slice_end(slice, slice->is_scheduled ? HF_PUSH_SCHEDULED : HF_PUSH_QUEUED, "", "");
}

static void error_take(struct push *push, struct slice *slice, const struct redis_result *result)
{
    if (result->reply == NULL) { /* not a byte of it was written */
        if (!slice->may_be_pushed)
            slice->answer_by = INSTANT_NEVER;
        slice_put(&push->waiting, slice);
    } else if (redis_error_is_passing(result->error)) {
        snprintf(push->refusal, sizeof push->refusal, "%s", result->reason);
        slice->was_refused = true;
        push->held_until = loop_after(push->loop, REFUSED_AGAIN_NS);
        slice_put(&push->waiting, slice);
    } else {
        push->progressed = loop_now(push->loop);
        slice_end(slice, slice->may_be_pushed ? HF_PUSH_UNKNOWN : HF_PUSH_REFUSED, result->reason, "");
    }
}

static void slice_answered(struct redis_call *call, const struct redis_result *result)
{
    struct slice *slice = list_owner(call, struct slice, call);
    struct push *push = slice->push;
    struct instant now = loop_now(push->loop);
    list_remove(&slice->link);
    push->flying_weight -= slice_weight(slice);
    if (result->outcome == REDIS_VALUE) {
        push->progressed = now;
        value_take(push, slice, result->reply);
    } else if (result->outcome == REDIS_ERROR) {
        error_take(push, slice, result);
    } else {
        slice->may_be_pushed = push->is_doubtful = true;
        if (instant_reached(now, slice->answer_by))
            slice_end(slice, HF_PUSH_UNKNOWN, result->reason, "");
        else
            slice_put(&push->waiting, slice);
    }
    slices_send(push);
    patience_arm(push);
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)node;
    struct push *push = context;
    if (state == REDIS_NODE_UP)
        slices_send(push);
    else if (is_denial(reason))
        waiting_give_up(push, reason);
    patience_arm(push);
}

/* --- adding ------------------------------------------------------------------------------------------------------- */

void push_source_init(struct push_source *source,
                      void (*ended)(struct push_source *source, const struct hf_stream_report *report, size_t bytes))
{
    source->ended = ended;
    list_init(&source->filling);
}

static void slice_close(struct slice *slice)
{
    struct push *push = slice->push;
    if (list_is_empty(&push->waiting) && list_is_empty(&push->flying))
        push->progressed = loop_now(push->loop);
    list_remove(&slice->link);
    push->filling_bytes -= slice->body.length;
    slice->serial = ++push->serial;
    slice_put(&push->waiting, slice);
}

static void source_close(struct push_source *source)
{
    while (!list_is_empty(&source->filling)) /* the one used first has been waiting longest */
        slice_close(list_owner(source->filling.previous, struct slice, link));
}

static struct slice *slice_new(struct push *push, struct push_source *source, const struct built_task *task)
{
    struct list *spare = list_take_first(&push->spare);
    push->spare_count -= spare != NULL;
    struct slice *slice = slice_open(spare != NULL ? list_owner(spare, struct slice, link) : NULL, source, task);
    slice->push = push;
    slice->call.done = slice_answered;
    return slice;
}

/* Producers use few queues, and mostly the one they used last. */
static struct slice *slice_for(struct push *push, struct push_source *source, const struct built_task *task)
{
    struct slice *slice = NULL;
    for (struct list *link = source->filling.next; link != &source->filling && slice == NULL; link = link->next)
        if (slice_takes(list_owner(link, struct slice, link), task))
            slice = list_owner(link, struct slice, link);
    if (slice != NULL && (task->digest[0] != '\0' || slice->body.length + task->payload.length > SLICE_BYTES)) {
        slice_close(slice);
        slice = NULL;
    }
    if (slice == NULL)
        slice = slice_new(push, source, task);
    list_remove(&slice->link);
    list_prepend(&source->filling, &slice->link);
    return slice;
}

/* Dashboards address an entry of the schedule by its score, so the scores of one burst must differ. */
static int64_t score_next(struct push *push, int64_t at_us)
{
    bool is_of_burst = push->last_score_us >= at_us && push->last_score_us - at_us < BURST_US;
    push->last_score_us = is_of_burst ? push->last_score_us + 1 : at_us;
    return push->last_score_us;
}

void push_add(struct push *push, struct push_source *source, const struct built_task *task, uint64_t number)
{
    uint64_t serial = push->serial;
    struct slice *slice = slice_for(push, source, task);
    size_t before = slice->body.length;
    slice_add(slice, task, slice->is_scheduled ? score_next(push, task->at_us) : 0, number);
    push->filling_bytes += slice->body.length - before;
    if (slice_is_full(slice))
        slice_close(slice);
    if (push->filling_bytes > FILLING_BYTES_MAX)
        source_close(source);
    if (serial == push->serial)
        return;
    slices_send(push);
    patience_arm(push);
}

void push_flush(struct push *push, struct push_source *source)
{
    source_close(source);
    slices_send(push);
    patience_arm(push);
}

void push_drop(struct push *push, struct push_source *source)
{
    struct list dropped, *next = NULL;
    list_init(&dropped);
    source_close(source);
    for (struct list *link = push->waiting.next; link != &push->waiting; link = next) {
        struct slice *slice = list_owner(link, struct slice, link);
        next = link->next;
        if (slice->source != source || slice->may_be_pushed)
            continue;
        list_remove(link);
        list_append(&dropped, link);
    }
    while ((next = list_take_first(&dropped)) != NULL)
        slice_end(list_owner(next, struct slice, link), HF_PUSH_DROPPED, "not sent", "");
    patience_arm(push);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static char *record_key(const struct queue_keys *keys)
{
    char id[ENVELOPE_NEW_JID_SIZE];
    struct buffer key = {0};
    envelope_new_jid(id); /* random digits like any others */
    buffer_format(&key, "%s%s", keys->producer_prefix, id);
    char *text = memory_text(buffer_text(&key));
    buffer_fini(&key);
    return text;
}

static void options_complete(struct push_options *options)
{
    if (options->slices_max == 0)
        options->slices_max = SLICES_DEFAULT;
    if (options->timeout_ns <= 0)
        options->timeout_ns = TIMEOUT_NS;
    if (options->timeout_ns > TIMEOUT_MAX_NS)
        options->timeout_ns = TIMEOUT_MAX_NS;
    if (options->patience_ns <= 0)
        options->patience_ns = PATIENCE_NS;
}

struct push *push_create(struct loop *loop, const struct push_options *options)
{
    static const struct redis_script *const scripts[] = {&queue_script_push, &queue_script_push_unique};
    struct push *push = memory_new(struct push);
    push->loop = loop;
    push->options = *options;
    options_complete(&push->options);
    list_init(&push->waiting);
    list_init(&push->flying);
    list_init(&push->spare);
    list_init(&push->resting);
    loop_timer_init(&push->rest, rest_fire);
    loop_timer_init(&push->patience, patience_fire);
    queue_keys_init(&push->keys, options->space != NULL ? options->space : "", "");
    push->record = record_key(&push->keys);
    struct redis_node_options *node = &push->options.node;
    node->changed = node_changed;
    node->context = push;
    node->scripts = scripts;
    node->script_count = sizeof scripts / sizeof scripts[0];
    node->unanswered_limit = (size_t)1 << 30; /* one task of any size; slices_max bounds what is in flight */
    push->node = redis_node_create(loop, node);
    return push;
}

static void slices_free(struct list *slices)
{
    struct list *link = NULL;
    while ((link = list_take_first(slices)) != NULL)
        slice_free(list_owner(link, struct slice, link));
}

void push_source_fini(struct push_source *source)
{
    slices_free(&source->filling);
}

void push_destroy(struct push *push)
{
    if (push == NULL)
        return;
    redis_node_destroy(push->node);
    loop_timer_clear(push->loop, &push->patience);
    loop_timer_clear(push->loop, &push->rest);
    slices_free(&push->resting);
    slices_free(&push->waiting);
    slices_free(&push->flying);
    slices_free(&push->spare);
    queue_keys_fini(&push->keys);
    buffer_fini(&push->request);
    free(push->record);
    free(push);
}

static void finish_answered(struct redis_call *call, const struct redis_result *result)
{
    (void)result; /* else it expires */
    struct push *push = list_owner(call, struct push, finish);
    push->finished(push->finished_context);
}

void push_finish(struct push *push, void (*finished)(void *context), void *context)
{
    push->finished = finished;
    push->finished_context = context;
    push->finish.done = finish_answered;
    buffer_clear(&push->request);
    redis_request_command(&push->request, "DEL", push->record);
    struct instant deadline = loop_after(push->loop, FINISH_NS);
    if (!push->is_recorded || push->is_doubtful ||
        !redis_node_call(push->node, &push->request, deadline, &push->finish))
        finished(context);
}

struct redis_node *push_node(const struct push *push)
{
    return push->node;
}
