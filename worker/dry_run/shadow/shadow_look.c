/* One look at the live fleet after the other, a request at a time: each queue, who is there, what each runs, the
 * schedule. That is the way that tasks go, from a queue to a claim and, when their lock is held, from there to the
 * schedule: so who moves on during a look is not missed by it. Before the first look the claims are read, because what
 * runs there is to run here first. What is asked changes nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "worker/dry_run/shadow/shadow_private.h"

#define PAUSE_NS (100 * NS_PER_MS)
/* An entry of the schedule that was read costs so long until it is read again: a short one is part of every look, a
 * long one takes a fifth of the default --copy-rate. */
#define SCHEDULE_EACH_NS (5 * NS_PER_MS)
#define PATIENCE_NS      (5 * NS_PER_S)
/* Who waits for a lock and is not the first of them is in the schedule for so long ahead. */
#define PARKED_US (2 * 3600 * US_PER_S)
enum { PAGE = 100, CLAIM_HEAD = CLAIM_ID_BYTES, PROCESSES_MAX = 10000 };
/* Entries of the schedule, and of those that wait there for a lock, that a later look reads; the rest is seen when it
 * comes to its queue. */
enum { SCHEDULE_AGAIN = 1000 };

void shadow_processes_forget(struct shadow *shadow)
{
    for (size_t i = 0; i < shadow->process_count; i++)
        free(shadow->processes[i]);
    free(shadow->processes);
    shadow->processes = NULL;
    shadow->process_count = 0;
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

static const char *queue_of(const struct shadow *shadow)
{
    return shadow->options.live->worker.queues.items[shadow->place];
}

/* What is due during the run; or behind that, where those are that wait for a lock. */
static void range_request(struct shadow *shadow, const char *key)
{
    char from[40] = "-inf", until[32];
    bool is_parked = shadow->step == SHADOW_PARKED;
    int64_t end_us = shadow->schedule_until_us;
    if (is_parked)
        snprintf(from, sizeof from, "(%.6f", (double)end_us / (double)US_PER_S);
    snprintf(until, sizeof until, "%.6f", (double)(end_us + (is_parked ? PARKED_US : 0)) / (double)US_PER_S);
    redis_request_begin(&shadow->request, 8);
    redis_request_text(&shadow->request, "ZRANGEBYSCORE");
    redis_request_text(&shadow->request, key);
    redis_request_text(&shadow->request, from);
    redis_request_text(&shadow->request, until);
    redis_request_text(&shadow->request, "WITHSCORES");
    redis_request_text(&shadow->request, "LIMIT");
    redis_request_integer(&shadow->request, shadow->offset);
    redis_request_integer(&shadow->request, PAGE);
}

static void request_make(struct shadow *shadow)
{
    struct buffer *out = &shadow->request;
    buffer_clear(out);
    switch (shadow->step) {
    case SHADOW_PROCESSES:
        redis_request_begin(out, 4);
        redis_request_text(out, "ZRANGE");
        redis_request_text(out, shadow->keys.processes);
        redis_request_integer(out, 0);
        redis_request_integer(out, PROCESSES_MAX - 1);
        break;
    case SHADOW_CLAIMS:
        redis_request_begin(out, 2);
        redis_request_text(out, "HGETALL");
        queue_keys_request(shadow->keys.process_prefix, shadow->processes[shadow->place], out);
        break;
    case SHADOW_LENGTH:
        redis_request_begin(out, 2);
        redis_request_text(out, "LLEN");
        queue_keys_request_queue(&shadow->keys, queue_of(shadow), out);
        break;
    case SHADOW_PAGE:
        redis_request_begin(out, 4);
        redis_request_text(out, "LRANGE");
        queue_keys_request_queue(&shadow->keys, queue_of(shadow), out);
        redis_request_integer(out, shadow->offset);
        redis_request_integer(out, shadow->offset + PAGE - 1);
        break;
    case SHADOW_SCHEDULE:
    case SHADOW_PARKED:
        range_request(shadow, shadow->keys.schedule);
        break;
    case SHADOW_RETRY:
        range_request(shadow, shadow->keys.retry);
        break;
    case SHADOW_TOTAL:
        redis_request_begin(out, 2);
        redis_request_text(out, "GET");
        redis_request_text(out, shadow->keys.processed);
        break;
    }
}

static void look_after(struct shadow *shadow, int64_t ns)
{
    if (!shadow->is_ended)
        loop_timer_set(shadow->options.loop, &shadow->look, loop_after(shadow->options.loop, ns));
}

void shadow_look(struct loop_timer *timer)
{
    struct shadow *shadow = list_owner(timer, struct shadow, look);
    request_make(shadow);
    if (!redis_node_call(shadow->node, &shadow->request, loop_after(shadow->options.loop, PATIENCE_NS), &shadow->call))
        look_after(shadow, PAUSE_NS);
}

/* --- what comes next ---------------------------------------------------------------------------------------------- */

static void step_enter(struct shadow *shadow, enum shadow_step step, size_t place)
{
    shadow->step = step;
    shadow->place = place;
    shadow->offset = 0;
}

static void schedule_enter(struct shadow *shadow)
{
    bool is_time = instant_before(shadow->schedule_again, loop_now(shadow->options.loop));
    shadow->schedule_entries = 0;
    step_enter(shadow, is_time ? SHADOW_SCHEDULE : SHADOW_TOTAL, 0);
}

static void schedule_leave(struct shadow *shadow)
{
    shadow->schedule_again = loop_after(shadow->options.loop, (int64_t)shadow->schedule_entries * SCHEDULE_EACH_NS);
    step_enter(shadow, SHADOW_TOTAL, 0);
}

static void queue_enter(struct shadow *shadow, size_t place)
{
    if (place < shadow->options.live->worker.queues.count)
        step_enter(shadow, SHADOW_LENGTH, place);
    else
        step_enter(shadow, SHADOW_PROCESSES, 0);
}

static void look_enter(struct shadow *shadow)
{
    shadow->lengths = 0;
    queue_enter(shadow, 0);
}

static void claims_enter(struct shadow *shadow, size_t place)
{
    if (place < shadow->process_count) {
        step_enter(shadow, SHADOW_CLAIMS, place);
    } else if (shadow->is_opening) {
        shadow->is_opening = false;
        look_enter(shadow);
    } else {
        schedule_enter(shadow);
    }
}

/* --- what is there ------------------------------------------------------------------------------------------------ */

static void entry_wait(struct shadow *shadow, struct shadow_entry *entry, uint64_t *count)
{
    list_append(&shadow->waiting, &entry->link);
    shadow->counts.waiting++;
    ++*(shadow->is_first ? count : &shadow->counts.followed);
}

static size_t processes_take(struct shadow *shadow, const struct redis_reply *reply)
{
    shadow_processes_forget(shadow);
    shadow->processes = memory_zeroed(reply->count + 1, sizeof shadow->processes[0]);
    for (size_t i = 0; i < reply->count; i++)
        if (reply->elements[i].kind == REDIS_STRING)
            shadow->processes[shadow->process_count++] = memory_text(reply->elements[i].bytes);
    claims_enter(shadow, 0);
    return reply->count;
}

/* Behind the claim's id: the queue's name, a line feed, the task. */
static void claim_take(struct shadow *shadow, const struct redis_reply *value)
{
    char queue[ENVELOPE_QUEUE_BYTES_MAX + 1];
    const char *text = value->bytes + CLAIM_HEAD;
    const char *end = memchr(text, '\n', value->length - CLAIM_HEAD);
    if (end == NULL || (size_t)(end - text) >= sizeof queue)
        return;
    memcpy(queue, text, (size_t)(end - text));
    queue[end - text] = '\0';
    size_t length = (size_t)(value->bytes + value->length - (end + 1));
    struct shadow_entry *entry = shadow_take(shadow, queue, end + 1, length, 0);
    if (entry != NULL)
        entry_wait(shadow, entry, &shadow->counts.running);
}

static bool is_slot(const struct redis_reply *field)
{
    return field->kind == REDIS_STRING && field->length > 0 && field->bytes[0] >= '0' && field->bytes[0] <= '9';
}

static size_t claims_take(struct shadow *shadow, const struct redis_reply *reply)
{
    size_t count = 0;
    for (size_t i = 0; i + 1 < reply->count; i += 2) {
        const struct redis_reply *value = &reply->elements[i + 1];
        if (!is_slot(&reply->elements[i]) || value->kind != REDIS_STRING || value->length <= CLAIM_HEAD)
            continue;
        claim_take(shadow, value);
        count++;
    }
    claims_enter(shadow, shadow->place + 1);
    return count;
}

/* Those that come first are at the right end. */
static size_t length_take(struct shadow *shadow, long long length)
{
    shadow->lengths += length;
    step_enter(shadow, SHADOW_PAGE, shadow->place);
    if (shadow->is_first && length > SHADOW_QUEUE_MAX)
        shadow->offset = length - SHADOW_QUEUE_MAX;
    return 1;
}

static void page_end(struct shadow *shadow)
{
    for (struct list *link; (link = list_take_first(&shadow->page)) != NULL;)
        entry_wait(shadow, list_owner(link, struct shadow_entry, link), &shadow->counts.queued);
}

/* A later look ends where nothing is new, not at the first task that is known: one that came back to its queue may be
 * before others that are new. */
static size_t page_take(struct shadow *shadow, const struct redis_reply *reply)
{
    shadow->news = 0;
    for (size_t i = 0; i < reply->count; i++) {
        const struct redis_reply *task = &reply->elements[i];
        struct shadow_entry *entry =
            task->kind == REDIS_STRING ? shadow_take(shadow, queue_of(shadow), task->bytes, task->length, 0) : NULL;
        if (entry != NULL)
            list_prepend(&shadow->page, &entry->link);
    }
    shadow->offset += PAGE;
    if (reply->count < PAGE || (shadow->news == 0 && !shadow->is_first)) {
        page_end(shadow);
        queue_enter(shadow, shadow->place + 1);
    }
    return reply->count;
}

static void scheduled_take(struct shadow *shadow, const struct redis_reply *task, const struct redis_reply *score)
{
    double score_us = strtod(score->bytes, NULL) * (double)US_PER_S; /* may be -inf */
    int64_t at_us = score_us > (double)wall_now().us ? (int64_t)score_us : 0;
    struct shadow_entry *entry = shadow_take(shadow, NULL, task->bytes, task->length, at_us);
    bool is_parked = shadow->envelope.parked_at.us > 0;
    if (is_parked)
        shadow->lengths++;
    if (entry == NULL)
        return;
    if (!is_parked)
        shadow->timed++;
    entry_wait(shadow, entry, &shadow->counts.scheduled);
}

static size_t schedule_take(struct shadow *shadow, const struct redis_reply *reply)
{
    for (size_t i = 0; i + 1 < reply->count; i += 2)
        if (reply->elements[i].kind == REDIS_STRING && reply->elements[i + 1].kind == REDIS_STRING)
            scheduled_take(shadow, &reply->elements[i], &reply->elements[i + 1]);
    shadow->offset += PAGE;
    shadow->schedule_entries += reply->count / 2;
    int64_t most = shadow->is_first ? SHADOW_QUEUE_MAX : SCHEDULE_AGAIN;
    if (reply->count == 2 * (size_t)PAGE && shadow->offset < most)
        return reply->count / 2;
    if (shadow->step == SHADOW_RETRY)
        schedule_leave(shadow);
    else
        step_enter(shadow, shadow->step == SHADOW_SCHEDULE ? SHADOW_PARKED : SHADOW_RETRY, 0);
    return reply->count / 2;
}

/* What ran meanwhile and what is left, less what was seen in queues and claims: some came and went between two looks.
 * Retries count as runs again, and so does what came from the schedule: it is the most that may have been. */
static size_t total_take(struct shadow *shadow, const struct redis_reply *reply)
{
    long long total = reply->kind == REDIS_STRING ? strtoll(reply->bytes, NULL, 10) : 0;
    if (shadow->total_first < 0)
        shadow->total_first = total;
    long long unseen = total - shadow->total_first + shadow->lengths - (long long)(shadow->seen.count - shadow->timed);
    if (unseen > (long long)shadow->counts.missed)
        shadow->counts.missed = (uint64_t)unseen;
    if (shadow->is_first)
        shadow->options.copied(shadow->options.context);
    shadow->is_first = false;
    look_enter(shadow);
    return 1;
}

/* Returns how many entries were read. */
static size_t reply_take(struct shadow *shadow, const struct redis_reply *reply)
{
    static const struct redis_reply nothing = {.kind = REDIS_ARRAY};
    const struct redis_reply *list = reply->kind == REDIS_ARRAY ? reply : &nothing;
    switch (shadow->step) {
    case SHADOW_PROCESSES:
        return processes_take(shadow, list);
    case SHADOW_CLAIMS:
        return claims_take(shadow, list);
    case SHADOW_LENGTH:
        return length_take(shadow, reply->kind == REDIS_INTEGER ? reply->integer : 0);
    case SHADOW_PAGE:
        return page_take(shadow, list);
    case SHADOW_SCHEDULE:
    case SHADOW_PARKED:
    case SHADOW_RETRY:
        return schedule_take(shadow, list);
    case SHADOW_TOTAL:
        break;
    }
    return total_take(shadow, reply);
}

/* A value of another kind under one of the keys is an error reply: nothing is there for us. */
void shadow_answered(struct redis_call *call, const struct redis_result *result)
{
    static const struct redis_reply nothing = {.kind = REDIS_NIL};
    struct shadow *shadow = list_owner(call, struct shadow, call);
    bool is_answered = result->outcome == REDIS_VALUE || result->error == REDIS_ERROR_WRONGTYPE;
    if (!is_answered) {
        look_after(shadow, PAUSE_NS);
        return;
    }
    size_t entries = reply_take(shadow, result->outcome == REDIS_VALUE ? result->reply : &nothing);
    int64_t paced_ns = (int64_t)((double)entries / shadow->options.plan->copy_rate * (double)NS_PER_S);
    bool is_new_look = shadow->step == SHADOW_LENGTH && shadow->place == 0;
    look_after(shadow, is_new_look && paced_ns < PAUSE_NS ? PAUSE_NS : paced_ns);
}
