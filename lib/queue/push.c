/* The producer; see push.h. Runs on the loop.
 *
 * A batch's position in the order of pushing is its serial, assigned when it is closed. Both lists, waiting and in
 * flight, keep that order: a batch that comes back without an answer returns to its position among the waiting ones.
 * The lowest serial of all, which each call tells the node, is at the head of one of the two lists, or rests.
 *
 * If another task has the class and arguments of a unique one, the batch is sent again to look for that task
 * (push_unique.lua). If it is missed, the batch rests for a moment before the look that decides. */
#include "queue/push.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/digest.h"
#include "queue/keys.h"
#include "queue/scripts.h"

/* --- batches ----------------------------------------------------------------------------------------------------- */

/* Tasks of one source that one call pushes; see push.h.
 *
 * A batch is encoded while it fills: its body holds the tasks as arguments of the call that will carry them. Bodies are
 * reused, so that bulk pushing allocates nothing in the steady state. Runs on the loop. */

enum { BATCH_TASKS = 1000, BATCH_TASKS_SCHEDULED = 100, BATCH_BYTES = 1 << 20 };

struct batch {
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
    uint64_t serial;          /* its position in the order of pushing, once it is closed */
    struct instant answer_by; /* INSTANT_NEVER until it is sent */
    bool may_be_pushed;       /* a try of it has no outcome */
    bool was_refused;         /* by the last try, for a while perhaps */
    /* Of a unique one: another task has its key, and the next try checks whether that task still exists. */
    bool seeks;
    char missed[ENVELOPE_JID_BYTES_MAX + 1]; /* the last look did not find this one; "" = it found it, or none looked */
    struct instant rested;                   /* before then it isn't tried again */
    struct redis_call call;
};

enum {
    BYTES_A_TASK = BATCH_BYTES / BATCH_TASKS,
    RECORD_KEPT_MS = 3600 * 1000, /* twice as long as any producer waits for an answer */
};

static void batch_free(struct batch *batch)
{
    buffer_fini(&batch->body);
    buffer_fini(&batch->numbers);
    free(batch);
}

/* Whether another task may join it. */
static bool batch_takes(const struct batch *batch, const struct built_task *task)
{
    bool is_scheduled = task->at_us != 0;
    return batch->is_scheduled == is_scheduled && (is_scheduled || strcmp(batch->queue, task->queue) == 0);
}

static void batch_add(struct batch *batch, const struct built_task *task, int64_t score_us, uint64_t number)
{
    if (batch->is_scheduled)
        redis_request_seconds(&batch->body, score_us);
    redis_request_bytes(&batch->body, task->payload.bytes, task->payload.length);
    buffer_append(&batch->numbers, &number, sizeof number);
    batch->bytes += task->payload.length;
    batch->count++;
}

static bool batch_is_full(const struct batch *batch)
{
    size_t most = batch->is_scheduled ? BATCH_TASKS_SCHEDULED : BATCH_TASKS;
    return batch->digest[0] != '\0' || batch->count >= most || batch->body.length >= BATCH_BYTES;
}

/* In tasks of a common size. */
static size_t batch_weight(const struct batch *batch)
{
    size_t by_bytes = batch->body.length / BYTES_A_TASK;
    return by_bytes > batch->count ? by_bytes : batch->count;
}

static void account_add(const struct batch *batch, uint64_t low, const char *queue, struct buffer *out)
{
    redis_request_integer(out, (int64_t)batch->serial);
    redis_request_integer(out, (int64_t)low);
    redis_request_integer(out, RECORD_KEPT_MS);
    redis_request_text(out, queue);
}

static void target_add(const struct batch *batch, const struct queue_keys *keys, struct buffer *out)
{
    if (batch->is_scheduled)
        redis_request_text(out, keys->schedule);
    else
        queue_keys_request_queue(keys, batch->queue, out);
}

static void plain_request(const struct batch *batch, const struct queue_keys *keys, const char *record, uint64_t low,
                          struct buffer *out)
{
    size_t texts = batch->is_scheduled ? 2 * batch->count : batch->count;
    redis_request_script(out, &queue_script_push, batch->is_scheduled ? 2 : 3, 4 + texts);
    redis_request_text(out, record);
    target_add(batch, keys, out);
    if (!batch->is_scheduled)
        redis_request_text(out, keys->queues);
    account_add(batch, low, batch->is_scheduled ? "" : batch->queue, out);
    buffer_append(out, batch->body.bytes, batch->body.length);
}

enum { SEEK_KEYS = 6, SEEK_ARGUMENTS = 6 };

static void seek_keys_add(const struct batch *batch, const struct queue_keys *keys, struct buffer *out)
{
    redis_request_texts(out, keys->processes, keys->listed, keys->schedule, keys->retry);
    queue_keys_request(keys->looked_prefix, batch->digest, out);
    queue_keys_request(keys->looked_prefix, "", out);
}

static void seek_arguments_add(const struct batch *batch, const struct queue_keys *keys, struct buffer *out)
{
    redis_request_texts(out, batch->missed, batch->digest, keys->queue_prefix, keys->process_prefix,
                        keys->any_bell_prefix, keys->space);
}

static void unique_request(const struct batch *batch, const struct queue_keys *keys, const char *record, uint64_t low,
                           struct buffer *out)
{
    redis_request_script(out, &queue_script_push_unique, 4 + (batch->seeks ? SEEK_KEYS : 0),
                         8 + (batch->seeks ? SEEK_ARGUMENTS : 0));
    redis_request_text(out, record);
    queue_keys_request(keys->unique_prefix, batch->digest, out);
    target_add(batch, keys, out);
    redis_request_text(out, keys->queues);
    if (batch->seeks)
        seek_keys_add(batch, keys, out);
    account_add(batch, low, batch->queue, out);
    redis_request_text(out, batch->jid);
    redis_request_integer(out, batch->unique_ms);
    if (!batch->is_scheduled)
        redis_request_text(out, "");
    buffer_append(out, batch->body.bytes, batch->body.length); /* the task; of one that is scheduled behind its score */
    if (batch->seeks)
        seek_arguments_add(batch, keys, out);
}

/* `record` is the key of the producer's record, `low` the lowest serial without an answer. */
static void batch_request(const struct batch *batch, const struct queue_keys *keys, const char *record, uint64_t low,
                          struct buffer *out)
{
    buffer_clear(out);
    if (batch->digest[0] != '\0')
        unique_request(batch, keys, record, low, out);
    else
        plain_request(batch, keys, record, low, out);
}

/* --- pushing ------------------------------------------------------------------------------------------------------ */

enum {
    FILLING_BYTES_MAX = 8 << 20, /* in batches that are not full, of all sources */
    BATCHES_DEFAULT = 4,
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
#define CLOCK_AGE_NS     (10 * NS_PER_S)
#define CLOCK_WAIT_NS    (2 * NS_PER_S)

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
    struct instant held_until;  /* a node that refuses gets no calls until then */
    struct loop_timer patience; /* also for held_until */
    char refusal[REFUSAL_MAX];
    struct buffer request;
    struct redis_call clock;
    struct instant clock_asked;
    struct loop_timer clock_wait; /* for the first answer */
    bool was_up;
    bool is_recorded, is_doubtful; /* something was sent; a try of something has no outcome */
    struct redis_call finish;
    void (*finished)(void *context);
    void *finished_context;
};

static void batch_answered(struct redis_call *call, const struct redis_result *result);

/* --- ends --------------------------------------------------------------------------------------------------------- */

static void batch_spare(struct push *push, struct batch *batch)
{
    if (batch->body.capacity > 2 * BATCH_BYTES || push->spare_count == SPARE_MAX) {
        batch_free(batch);
        return;
    }
    list_append(&push->spare, &batch->link);
    push->spare_count++;
}

/* Reports the end of a batch; its source may be gone afterwards. */
static void batch_end(struct batch *batch, enum hf_push_answer answer, const char *reason, const char *holder)
{
    struct hf_stream_report report = {.answer = answer,
                                      .queue = batch->queue,
                                      .count = batch->count,
                                      .numbers = (const uint64_t *)(const void *)batch->numbers.bytes,
                                      .holder = holder,
                                      .reason = reason};
    batch->source->ended(batch->source, &report, batch->bytes);
    batch_spare(batch->push, batch);
}

/* A reachable server that denies us access will go on doing so; the texts are those of lib/redis. */
static bool is_denial(const char *reason)
{
    return strstr(reason, " refused AUTH") != NULL || strstr(reason, " refused SELECT") != NULL ||
           strstr(reason, ": NOAUTH") != NULL || strstr(reason, ": NOPERM") != NULL;
}

static void batch_give_up(struct batch *batch, const char *reason)
{
    const char *refusal = batch->push->refusal;
    if (batch->may_be_pushed)
        batch_end(batch, HF_PUSH_UNKNOWN, reason, "");
    else if (batch->was_refused)
        batch_end(batch, HF_PUSH_REFUSED, refusal, "");
    else
        batch_end(batch, is_denial(reason) ? HF_PUSH_DENIED : HF_PUSH_UNREACHABLE, reason, "");
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
        batch_give_up(list_owner(link, struct batch, link), reason);
}

/* --- timeouts ----------------------------------------------------------------------------------------------------- */

/* While a call is in flight, the node has the time for an answer. */
static struct instant patience_end(const struct push *push)
{
    int64_t limit = list_is_empty(&push->flying) ? push->options.patience_ns : push->options.timeout_ns;
    return instant_after(push->progressed, limit);
}

static void batches_send(struct push *push);
static void patience_arm(struct push *push);

/* What denies us access goes on doing so, unless it has let us in: its password may be about to be replaced. */
static void go_on(struct push *push)
{
    const char *reason = redis_node_reason(push->node);
    batches_send(push);
    if (!push->was_up && is_denial(reason))
        waiting_give_up(push, reason);
    patience_arm(push);
}

static void patience_fire(struct loop_timer *timer)
{
    struct push *push = list_owner(timer, struct push, patience);
    const char *reason = redis_node_reason(push->node);
    if (instant_reached(loop_now(push->loop), patience_end(push)))
        waiting_give_up(push, reason[0] != '\0' ? reason : "no answer");
    go_on(push);
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
static void batch_put(struct list *batches, struct batch *batch)
{
    struct list *before = batches;
    while (before->previous != batches && list_owner(before->previous, struct batch, link)->serial > batch->serial)
        before = before->previous;
    list_append(before, &batch->link);
}

static uint64_t serial_of_first(const struct list *batches)
{
    return list_is_empty(batches) ? UINT64_MAX : list_owner(batches->next, struct batch, link)->serial;
}

/* The lowest serial of all batches without an end. */
static uint64_t serial_lowest(const struct push *push)
{
    uint64_t waiting = serial_of_first(&push->waiting), flying = serial_of_first(&push->flying);
    uint64_t lowest = waiting < flying ? waiting : flying;
    for (const struct list *link = push->resting.next; link != &push->resting; link = link->next) {
        uint64_t serial = list_owner(link, const struct batch, link)->serial;
        lowest = serial < lowest ? serial : lowest;
    }
    return lowest;
}

static void clock_tell(const struct push *push, struct wall_time node)
{
    if (push->options.told != NULL)
        push->options.told(push->options.told_context, node, loop_now(push->loop));
}

static void clock_answered(struct redis_call *call, const struct redis_result *result)
{
    struct push *push = list_owner(call, struct push, clock);
    const struct redis_reply *time = result->reply;
    bool is_time = result->outcome == REDIS_VALUE && time->kind == REDIS_ARRAY && time->count == 2 &&
                   time->elements[0].kind == REDIS_STRING && time->elements[1].kind == REDIS_STRING;
    struct wall_time node = {0};
    if (is_time)
        node.us = strtoll(time->elements[0].bytes, NULL, 10) * US_PER_S + strtoll(time->elements[1].bytes, NULL, 10);
    if (result->outcome != REDIS_UNKNOWN) /* the next connection asks again */
        clock_tell(push, node);
}

static void clock_wait_fire(struct loop_timer *timer)
{
    clock_tell(list_owner(timer, struct push, clock_wait), (struct wall_time){0});
}

static void clock_ask(struct push *push)
{
    struct buffer request = {0};
    if (push->options.told == NULL || redis_call_is_outstanding(&push->clock))
        return;
    redis_request_command(&request, "TIME");
    push->clock.done = clock_answered;
    push->clock_asked = loop_now(push->loop);
    bool is_asked =
        redis_node_call(push->node, &request, loop_after(push->loop, push->options.timeout_ns), &push->clock);
    (void)is_asked; /* else the next connection asks, or nobody waits for it any more */
    buffer_fini(&request);
}

static bool batch_send(struct push *push, struct batch *batch)
{
    if (redis_node_state(push->node) == REDIS_NODE_UP &&
        instant_since(push->clock_asked, loop_now(push->loop)) >= CLOCK_AGE_NS)
        clock_ask(push);
    struct instant answer_by = batch->answer_by;
    if (answer_by.ns == INSTANT_NEVER.ns)
        answer_by = loop_after(push->loop, push->options.timeout_ns);
    batch_request(batch, &push->keys, push->record, serial_lowest(push), &push->request);
    if (!redis_node_call(push->node, &push->request, answer_by, &batch->call))
        return false;
    batch->answer_by = answer_by;
    push->is_recorded = true;
    return true;
}

static void batches_send(struct push *push)
{
    size_t most = (size_t)push->options.batches_max * BATCH_TASKS;
    if (instant_before(loop_now(push->loop), push->held_until))
        return;
    while (push->flying_weight < most && !list_is_empty(&push->waiting)) {
        struct batch *batch = list_owner(push->waiting.next, struct batch, link);
        if (!batch_send(push, batch))
            return; /* goes on when the connection is up */
        list_remove(&batch->link);
        batch_put(&push->flying, batch);
        push->flying_weight += batch_weight(batch);
    }
}

/* --- looking for the holder --------------------------------------------------------------------------------------- */

static void rest_fire(struct loop_timer *timer)
{
    struct push *push = list_owner(timer, struct push, rest);
    while (!list_is_empty(&push->resting)) {
        struct batch *batch = list_owner(push->resting.next, struct batch, link);
        if (!instant_reached(loop_now(push->loop), batch->rested)) {
            loop_timer_set(push->loop, timer, batch->rested);
            break;
        }
        list_remove(&batch->link);
        batch_put(&push->waiting, batch);
    }
    go_on(push);
}

/* False if the batch has no time left for that. */
static bool batch_seeks(struct push *push, struct batch *batch, const struct redis_reply *holder)
{
    struct instant rested = loop_after(push->loop, MISSED_AGAIN_NS);
    if (!batch->seeks) {
        batch->seeks = true;
        batch_put(&push->waiting, batch);
        return true;
    }
    if (batch->missed[0] != '\0' || holder->length >= sizeof batch->missed || instant_reached(rested, batch->answer_by))
        return false;
    memcpy(batch->missed, holder->bytes, holder->length + 1);
    batch->rested = rested;
    if (list_is_empty(&push->resting))
        loop_timer_set(push->loop, &push->rest, rested);
    list_append(&push->resting, &batch->link);
    return true;
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* A list of one element is the holder: to look for, or missed. */
static void value_take(struct push *push, struct batch *batch, const struct redis_reply *reply)
{
    bool is_unique = batch->digest[0] != '\0', is_list = reply->kind == REDIS_ARRAY && reply->count == 1;
    if (is_unique && is_list) {
        reply = &reply->elements[0];
        if (reply->kind == REDIS_STRING && batch_seeks(push, batch, reply))
            return;
    }
    bool is_sound = is_unique ? reply->kind == REDIS_STRING && reply->length > 0
                              : reply->kind == REDIS_INTEGER && reply->integer >= 0;
    if (!is_sound)
        batch_end(batch, HF_PUSH_UNKNOWN, "an answer that makes no sense: is this a Redis server?", "");
    else if (is_unique && (is_list || strcmp(reply->bytes, batch->jid) != 0))
        batch_end(batch, HF_PUSH_DUPLICATE, "a task with this class and these arguments waits or runs", reply->bytes);
    else
        batch_end(batch, batch->is_scheduled ? HF_PUSH_SCHEDULED : HF_PUSH_QUEUED, "", "");
}

static void error_take(struct push *push, struct batch *batch, const struct redis_result *result)
{
    if (result->reply == NULL) { /* no byte of it was written */
        if (!batch->may_be_pushed)
            batch->answer_by = INSTANT_NEVER;
        batch_put(&push->waiting, batch);
    } else if (redis_error_is_passing(result->error)) {
        snprintf(push->refusal, sizeof push->refusal, "%s", result->reason);
        batch->was_refused = true;
        push->held_until = loop_after(push->loop, REFUSED_AGAIN_NS);
        batch_put(&push->waiting, batch);
    } else {
        push->progressed = loop_now(push->loop);
        batch_end(batch, batch->may_be_pushed ? HF_PUSH_UNKNOWN : HF_PUSH_REFUSED, result->reason, "");
    }
}

static void batch_answered(struct redis_call *call, const struct redis_result *result)
{
    struct batch *batch = list_owner(call, struct batch, call);
    struct push *push = batch->push;
    struct instant now = loop_now(push->loop);
    list_remove(&batch->link);
    push->flying_weight -= batch_weight(batch);
    if (result->outcome == REDIS_VALUE) {
        push->progressed = now;
        value_take(push, batch, result->reply);
    } else if (result->outcome == REDIS_ERROR) {
        error_take(push, batch, result);
    } else {
        batch->may_be_pushed = push->is_doubtful = true;
        if (instant_reached(now, batch->answer_by))
            batch_end(batch, HF_PUSH_UNKNOWN, result->reason, "");
        else
            batch_put(&push->waiting, batch);
    }
    go_on(push);
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)node;
    struct push *push = context;
    if (state == REDIS_NODE_UP) {
        push->was_up = true;
        clock_ask(push);
        batches_send(push);
    } else if (is_denial(reason)) {
        clock_tell(push, (struct wall_time){0});
        waiting_give_up(push, reason);
    }
    patience_arm(push);
}

/* --- adding ------------------------------------------------------------------------------------------------------- */

void push_source_init(struct push_source *source,
                      void (*ended)(struct push_source *source, const struct hf_stream_report *report, size_t bytes))
{
    source->ended = ended;
    list_init(&source->filling);
}

static void batch_close(struct batch *batch)
{
    struct push *push = batch->push;
    if (list_is_empty(&push->waiting) && list_is_empty(&push->flying))
        push->progressed = loop_now(push->loop);
    list_remove(&batch->link);
    push->filling_bytes -= batch->body.length;
    batch->serial = ++push->serial;
    batch_put(&push->waiting, batch);
}

static void source_close(struct push_source *source)
{
    while (!list_is_empty(&source->filling)) /* the one used first has been waiting longest */
        batch_close(list_owner(source->filling.previous, struct batch, link));
}

static struct batch *batch_new(struct push *push, struct push_source *source, const struct built_task *task)
{
    struct list *spare = list_take_first(&push->spare);
    push->spare_count -= spare != NULL;
    struct batch *batch = spare != NULL ? list_owner(spare, struct batch, link) : memory_new(struct batch);
    *batch = (struct batch){.push = push,
                            .source = source,
                            .is_scheduled = task->at_us != 0,
                            .unique_ms = task->unique_ms,
                            .body = batch->body,
                            .numbers = batch->numbers,
                            .answer_by = INSTANT_NEVER,
                            .call.done = batch_answered};
    memcpy(batch->queue, task->queue, strlen(task->queue) + 1);
    memcpy(batch->digest, task->digest, strlen(task->digest) + 1);
    if (task->digest[0] != '\0')
        memcpy(batch->jid, task->jid, strlen(task->jid) + 1);
    list_init(&batch->link);
    buffer_clear(&batch->body);
    buffer_clear(&batch->numbers);
    return batch;
}

/* Producers use few queues, and usually the one they used last. */
static struct batch *batch_for(struct push *push, struct push_source *source, const struct built_task *task)
{
    struct batch *batch = NULL;
    for (struct list *link = source->filling.next; link != &source->filling && batch == NULL; link = link->next)
        if (batch_takes(list_owner(link, struct batch, link), task))
            batch = list_owner(link, struct batch, link);
    if (batch != NULL && (task->digest[0] != '\0' || batch->body.length + task->payload.length > BATCH_BYTES)) {
        batch_close(batch);
        batch = NULL;
    }
    if (batch == NULL)
        batch = batch_new(push, source, task);
    list_remove(&batch->link);
    list_prepend(&source->filling, &batch->link);
    return batch;
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
    struct batch *batch = batch_for(push, source, task);
    size_t before = batch->body.length;
    batch_add(batch, task, batch->is_scheduled ? score_next(push, task->at_us) : 0, number);
    push->filling_bytes += batch->body.length - before;
    if (batch_is_full(batch))
        batch_close(batch);
    if (push->filling_bytes > FILLING_BYTES_MAX)
        source_close(source);
    if (serial == push->serial)
        return;
    go_on(push);
}

void push_flush(struct push *push, struct push_source *source)
{
    source_close(source);
    go_on(push);
}

void push_drop(struct push *push, struct push_source *source)
{
    struct list dropped, *next = NULL;
    list_init(&dropped);
    source_close(source);
    for (struct list *link = push->waiting.next; link != &push->waiting; link = next) {
        struct batch *batch = list_owner(link, struct batch, link);
        next = link->next;
        if (batch->source != source || batch->may_be_pushed)
            continue;
        list_remove(link);
        list_append(&dropped, link);
    }
    while ((next = list_take_first(&dropped)) != NULL)
        batch_end(list_owner(next, struct batch, link), HF_PUSH_DROPPED, "not sent", "");
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
    if (options->batches_max == 0)
        options->batches_max = BATCHES_DEFAULT;
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
    loop_timer_init(&push->clock_wait, clock_wait_fire);
    int64_t wait_ns = push->options.patience_ns < CLOCK_WAIT_NS ? push->options.patience_ns : CLOCK_WAIT_NS;
    loop_timer_set(loop, &push->clock_wait, loop_after(loop, wait_ns));
    queue_keys_init(&push->keys, options->space != NULL ? options->space : "", "");
    push->record = record_key(&push->keys);
    struct redis_node_options *node = &push->options.node;
    node->changed = node_changed;
    node->context = push;
    node->scripts = scripts;
    node->script_count = sizeof scripts / sizeof scripts[0];
    node->unanswered_limit = (size_t)1 << 30; /* one task of any size; batches_max bounds what is in flight */
    push->node = redis_node_create(loop, node);
    return push;
}

static void batches_free(struct list *batches)
{
    struct list *link = NULL;
    while ((link = list_take_first(batches)) != NULL)
        batch_free(list_owner(link, struct batch, link));
}

void push_source_fini(struct push_source *source)
{
    batches_free(&source->filling);
}

void push_destroy(struct push *push)
{
    if (push == NULL)
        return;
    redis_call_cancel(&push->clock);
    redis_node_destroy(push->node);
    loop_timer_clear(push->loop, &push->patience);
    loop_timer_clear(push->loop, &push->clock_wait);
    loop_timer_clear(push->loop, &push->rest);
    batches_free(&push->resting);
    batches_free(&push->waiting);
    batches_free(&push->flying);
    batches_free(&push->spare);
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
