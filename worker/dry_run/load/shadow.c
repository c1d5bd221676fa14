/* One look at the live fleet after the other, a request at a time: each queue, the processes, their claims, the
 * schedule. Tasks go the same way, from a queue to a claim and, when their lock is held, to the schedule, so a look
 * does not miss a task that moves meanwhile. Before the first look the claims are read: what runs there runs here
 * first. No request changes anything. */
#include "worker/dry_run/load/shadow.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/envelope.h"
#include "queue/keys.h"
#include "redis/node.h"
#include "worker/config/config_table.h"
#include "worker/config/node_options.h"
#include "worker/dry_run/load/seen_set.h"
#include "worker/locks/task_resources.h"

#define PAUSE_NS (100 * NS_PER_MS)
/* An entry of the schedule that was read costs so long until it is read again: a short one is part of every look, a
 * long one takes a fifth of DRY_RUN_COPY_RATE. */
#define SCHEDULE_EACH_NS (5 * NS_PER_MS)
#define PATIENCE_NS      (5 * NS_PER_S)
/* A task that waits for a lock, and is not the first, is in the schedule for so long ahead. */
#define PARKED_US (2 * 3600 * US_PER_S)
enum { PAGE = 100, CLAIM_HEAD = CLAIM_ID_BYTES, PROCESSES_MAX = 10000 };
/* Entries of the schedule, and of those that wait there for a lock, that a later look reads; the rest is seen when it
 * comes to its queue. */
enum { SCHEDULE_AGAIN = 1000 };
#define TELL_NS (5 * NS_PER_MS)
/* What was not passed on in time is made up for within this. */
#define ALLOWANCE_NS (50 * NS_PER_MS)
enum { REPLY_BYTES_MAX = 256 * 1024 * 1024, REPLY_ELEMENTS_MAX = 65536 };

/* A task that was read and not passed on yet. */
struct shadow_entry {
    struct list link;
    int64_t at_us; /* 0 = now */
    size_t length;
    char queue[ENVELOPE_QUEUE_BYTES_MAX + 1];
    char payload[];
};

enum shadow_step {
    SHADOW_PROCESSES, /* of the fleet */
    SHADOW_CLAIMS,    /* what each of them runs */
    SHADOW_LENGTH,    /* of a queue */
    SHADOW_PAGE,      /* of it */
    SHADOW_SCHEDULE,
    SHADOW_PARKED, /* those in the schedule that wait for a lock */
    SHADOW_RETRY,
    SHADOW_TOTAL, /* how many tasks the fleet has run */
};

struct shadow {
    struct shadow_options options;
    struct redis_node *node;
    struct redis_call call;
    struct buffer request;
    struct queue_keys keys;
    struct loop_timer look, tell;
    struct instant told_until; /* the allowance is counted from there */
    double rate;
    bool is_ended;
    /* the look that goes on */
    enum shadow_step step;
    bool is_opening;  /* before the first look */
    bool is_first;    /* the first look at everything */
    size_t position;  /* which process, which queue */
    int64_t offset;   /* in it */
    size_t news;      /* texts of the page that were not known */
    struct list page; /* of this queue, the oldest first */
    char **processes; /* identities */
    size_t process_count;
    int64_t lengths; /* of all queues, and how many wait for a lock, in this look */
    struct instant schedule_again;
    size_t schedule_entries; /* that this look has read of it */
    int64_t schedule_until_us;
    uint64_t timed;        /* tasks that were found waiting for their time */
    long long total_first; /* -1 = not known yet */
    /* what was found */
    struct seen_set seen;
    struct list waiting; /* to be passed on, in this order */
    struct shadow_counts counts;
    struct envelope envelope;
    struct task_resources resources;
    struct class_resources *known;
    struct envelope_limits limits;
};

static void processes_forget(struct shadow *shadow)
{
    for (size_t i = 0; i < shadow->process_count; i++)
        free(shadow->processes[i]);
    free(shadow->processes);
    shadow->processes = NULL;
    shadow->process_count = 0;
}

/* Scores of the schedule are of the node's clock, whatever this host's shows. */
static int64_t node_now_us(const struct shadow *shadow)
{
    return shadow->options.node_us + instant_since(shadow->options.node_at, instant_now()) / NS_PER_US;
}

/* --- what a text is ----------------------------------------------------------------------------------------------- */

static bool text_read(struct shadow *shadow, const char *payload, size_t length)
{
    struct error error = ERROR_NONE;
    return envelope_parse(&shadow->envelope, payload, length, &shadow->limits, &error) &&
           shadow->envelope.jid[0] != '\0';
}

/* Where its workers look for it: as NULL, or with a name that is none, in what the task says itself. */
static const char *queue_for(const struct shadow *shadow, const char *queue)
{
    const char *name = queue != NULL ? queue : shadow->envelope.queue;
    return queue_name_is_sound(name) ? name : "default";
}

/* Others may serve it in the live fleet; here it would wait for ever. */
static bool is_served(const struct shadow *shadow, const char *queue)
{
    return config_words_hold(&shadow->options.live->worker.queues, queue) &&
           plugins_find(shadow->options.plugins, shadow->envelope.class_name) != NULL;
}

/* Due only after the run, and not because it waits for a lock. */
static bool is_far(const struct shadow *shadow, int64_t at_us)
{
    return at_us > shadow->schedule_until_us && shadow->envelope.parked_at.us == 0;
}

/* Each once. */
static bool is_new(struct shadow *shadow, const char *payload, size_t length, bool is_task)
{
    const char *jid = shadow->envelope.jid;
    if (shadow->seen.count >= SHADOW_SEEN_MAX)
        return false;
    return is_task ? seen_set_add(&shadow->seen, jid, strlen(jid)) : seen_set_add(&shadow->seen, payload, length);
}

/* Notes a task, unless it is known or none. NULL: it is not to be passed on. */
static struct shadow_entry *entry_take(struct shadow *shadow, const char *queue, const char *payload, size_t length,
                                       int64_t at_us)
{
    bool is_task = text_read(shadow, payload, length);
    if ((is_task && is_far(shadow, at_us)) || !is_new(shadow, payload, length, is_task))
        return NULL;
    shadow->news++;
    if (!is_task || !is_served(shadow, queue_for(shadow, queue))) {
        shadow->counts.invalid++;
        return NULL;
    }
    const char *name = queue_for(shadow, queue);
    struct shadow_entry *entry = memory_zeroed(1, sizeof *entry + length);
    list_init(&entry->link);
    entry->length = length;
    entry->at_us = shadow->envelope.parked_at.us > 0 ? 0 : at_us; /* what waits for a lock waits here too */
    memcpy(entry->payload, payload, length);
    memcpy(entry->queue, name, strlen(name));
    return entry;
}

static void entry_tell(struct shadow *shadow, const struct shadow_entry *entry)
{
    struct error error = ERROR_NONE;
    if (!text_read(shadow, entry->payload, entry->length))
        return;
    int64_t ahead_us = entry->at_us - node_now_us(shadow);
    const struct plugin_handler *handler = plugins_find(shadow->options.plugins, shadow->envelope.class_name);
    struct task_rules rules = task_rules_of(&shadow->envelope, shadow->options.live, handler);
    if (task_resources_resolve(&shadow->resources, &shadow->envelope, &rules, shadow->known, &error) !=
        TASK_RESOURCES_OK)
        shadow->resources.count = 0;
    shadow->options.found(
        shadow->options.context,
        &(struct shadow_task){.task = {.payload = {entry->payload, entry->length},
                                       .class_name = shadow->envelope.class_name,
                                       .queue = entry->queue,
                                       .jid = shadow->envelope.jid,
                                       .at_us = ahead_us > 0 ? entry->at_us : 0,
                                       .digest = ""},
                              .due = instant_after(instant_now(), ahead_us > 0 ? ahead_us * NS_PER_US : 0),
                              .resources = shadow->resources.names,
                              .resource_count = shadow->resources.count});
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

static const char *queue_of(const struct shadow *shadow)
{
    return shadow->options.live->worker.queues.items[shadow->position];
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
    redis_request_texts(&shadow->request, "ZRANGEBYSCORE", key, from, until, "WITHSCORES", "LIMIT");
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
        redis_request_texts(out, "ZRANGE", shadow->keys.processes, "0");
        redis_request_integer(out, PROCESSES_MAX - 1);
        break;
    case SHADOW_CLAIMS:
        redis_request_begin(out, 2);
        redis_request_text(out, "HGETALL");
        queue_keys_request(shadow->keys.process_prefix, shadow->processes[shadow->position], out);
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
        redis_request_command(out, "GET", shadow->keys.processed);
        break;
    }
}

static void look_after(struct shadow *shadow, int64_t ns)
{
    if (!shadow->is_ended)
        loop_timer_set(shadow->options.loop, &shadow->look, loop_after(shadow->options.loop, ns));
}

static void look(struct loop_timer *timer)
{
    struct shadow *shadow = list_owner(timer, struct shadow, look);
    request_make(shadow);
    if (!redis_node_call(shadow->node, &shadow->request, loop_after(shadow->options.loop, PATIENCE_NS), &shadow->call))
        look_after(shadow, PAUSE_NS);
}

/* --- what comes next ---------------------------------------------------------------------------------------------- */

static void step_enter(struct shadow *shadow, enum shadow_step step, size_t position)
{
    shadow->step = step;
    shadow->position = position;
    shadow->offset = 0;
}

static void queue_enter(struct shadow *shadow, size_t position)
{
    if (position < shadow->options.live->worker.queues.count)
        step_enter(shadow, SHADOW_LENGTH, position);
    else
        step_enter(shadow, SHADOW_PROCESSES, 0);
}

static void look_enter(struct shadow *shadow)
{
    shadow->lengths = 0;
    queue_enter(shadow, 0);
}

static void claims_enter(struct shadow *shadow, size_t position)
{
    if (position < shadow->process_count) {
        step_enter(shadow, SHADOW_CLAIMS, position);
    } else if (shadow->is_opening) {
        shadow->is_opening = false;
        look_enter(shadow);
    } else {
        bool is_time = instant_before(shadow->schedule_again, loop_now(shadow->options.loop));
        shadow->schedule_entries = 0;
        step_enter(shadow, is_time ? SHADOW_SCHEDULE : SHADOW_TOTAL, 0);
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
    processes_forget(shadow);
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
    struct shadow_entry *entry = entry_take(shadow, queue, end + 1, length, 0);
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
    claims_enter(shadow, shadow->position + 1);
    return count;
}

/* Those that come first are at the right end. */
static size_t length_take(struct shadow *shadow, long long length)
{
    shadow->lengths += length;
    step_enter(shadow, SHADOW_PAGE, shadow->position);
    if (shadow->is_first && length > SHADOW_QUEUE_MAX)
        shadow->offset = length - SHADOW_QUEUE_MAX;
    return 1;
}

/* A later look ends where nothing is new, not at the first task that is known: one that came back to its queue may be
 * before others that are new. */
static size_t page_take(struct shadow *shadow, const struct redis_reply *reply)
{
    shadow->news = 0;
    for (size_t i = 0; i < reply->count; i++) {
        const struct redis_reply *task = &reply->elements[i];
        struct shadow_entry *entry =
            task->kind == REDIS_STRING ? entry_take(shadow, queue_of(shadow), task->bytes, task->length, 0) : NULL;
        if (entry != NULL)
            list_prepend(&shadow->page, &entry->link);
    }
    shadow->offset += PAGE;
    if (reply->count < PAGE || (shadow->news == 0 && !shadow->is_first)) {
        for (struct list *link; (link = list_take_first(&shadow->page)) != NULL;)
            entry_wait(shadow, list_owner(link, struct shadow_entry, link), &shadow->counts.queued);
        queue_enter(shadow, shadow->position + 1);
    }
    return reply->count;
}

static void scheduled_take(struct shadow *shadow, const struct redis_reply *task, const struct redis_reply *score)
{
    double score_us = strtod(score->bytes, NULL) * (double)US_PER_S; /* may be -inf */
    int64_t at_us = score_us > (double)node_now_us(shadow) ? (int64_t)score_us : 0;
    struct shadow_entry *entry = entry_take(shadow, NULL, task->bytes, task->length, at_us);
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
    if (shadow->step == SHADOW_RETRY) {
        shadow->schedule_again = loop_after(shadow->options.loop, (int64_t)shadow->schedule_entries * SCHEDULE_EACH_NS);
        step_enter(shadow, SHADOW_TOTAL, 0);
    } else
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
static void answered(struct redis_call *call, const struct redis_result *result)
{
    static const struct redis_reply nothing = {.kind = REDIS_NIL};
    struct shadow *shadow = list_owner(call, struct shadow, call);
    bool is_answered = result->outcome == REDIS_VALUE || result->error == REDIS_ERROR_WRONGTYPE;
    if (!is_answered) {
        look_after(shadow, PAUSE_NS);
        return;
    }
    size_t entries = reply_take(shadow, result->outcome == REDIS_VALUE ? result->reply : &nothing);
    int64_t paced_ns = (int64_t)((double)entries / DRY_RUN_COPY_RATE * (double)NS_PER_S);
    bool is_new_look = shadow->step == SHADOW_LENGTH && shadow->position == 0;
    look_after(shadow, is_new_look && paced_ns < PAUSE_NS ? PAUSE_NS : paced_ns);
}

/* As many as the rate allows by now. */
static void tell_some(struct loop_timer *timer)
{
    struct shadow *shadow = list_owner(timer, struct shadow, tell);
    struct instant now = loop_now(shadow->options.loop);
    int64_t each_ns = (int64_t)((double)NS_PER_S / shadow->rate);
    struct instant earliest = instant_after(now, -ALLOWANCE_NS);
    if (instant_before(shadow->told_until, earliest))
        shadow->told_until = earliest;
    loop_timer_set(shadow->options.loop, timer, loop_after(shadow->options.loop, TELL_NS));
    while (!shadow->is_ended && instant_before(shadow->told_until, now) && !list_is_empty(&shadow->waiting)) {
        struct shadow_entry *entry = list_owner(list_take_first(&shadow->waiting), struct shadow_entry, link);
        shadow->told_until = instant_after(shadow->told_until, each_ns);
        shadow->counts.waiting--;
        entry_tell(shadow, entry);
        free(entry);
    }
}

/* --- life --------------------------------------------------------------------------------------------------------- */

void shadow_limit(struct shadow *shadow, double rate)
{
    shadow->rate = rate;
}

struct shadow_counts shadow_counts(const struct shadow *shadow)
{
    return shadow->counts;
}

void shadow_begin(struct shadow *shadow)
{
    shadow->told_until = instant_now();
    shadow->schedule_until_us = node_now_us(shadow) + shadow->options.plan->for_ns / NS_PER_US;
    loop_timer_set(shadow->options.loop, &shadow->look, instant_now());
    loop_timer_set(shadow->options.loop, &shadow->tell, instant_now());
}

void shadow_end(struct shadow *shadow)
{
    shadow->is_ended = true;
    loop_timer_clear(shadow->options.loop, &shadow->look);
    loop_timer_clear(shadow->options.loop, &shadow->tell);
    redis_call_cancel(&shadow->call);
}

struct shadow *shadow_create(const struct shadow_options *options)
{
    struct shadow *shadow = memory_new(struct shadow);
    struct findings findings = {0}; /* were reported when the configuration was checked */
    struct redis_node_options node = node_options(&options->live->queue_node, "dry-run");
    node.reply_limit = REPLY_BYTES_MAX;
    node.element_limit = REPLY_ELEMENTS_MAX;
    shadow->options = *options;
    shadow->rate = DRY_RUN_COPY_RATE;
    shadow->is_opening = shadow->is_first = true;
    shadow->total_first = -1;
    shadow->limits = config_task_limits(options->live);
    shadow->known = class_resources_create(options->live, options->plugins, &findings);
    findings_fini(&findings);
    list_init(&shadow->page);
    list_init(&shadow->waiting);
    loop_timer_init(&shadow->look, look);
    loop_timer_init(&shadow->tell, tell_some);
    shadow->call.done = answered;
    queue_keys_init(&shadow->keys, "", "");
    shadow->node = redis_node_create(options->loop, &node);
    return shadow;
}

static void entries_free(struct list *entries)
{
    for (struct list *link; (link = list_take_first(entries)) != NULL;)
        free(list_owner(link, struct shadow_entry, link));
}

void shadow_destroy(struct shadow *shadow)
{
    if (shadow == NULL)
        return;
    shadow_end(shadow);
    redis_node_destroy(shadow->node);
    entries_free(&shadow->page);
    entries_free(&shadow->waiting);
    processes_forget(shadow);
    queue_keys_fini(&shadow->keys);
    seen_set_fini(&shadow->seen);
    class_resources_free(shadow->known);
    task_resources_fini(&shadow->resources);
    envelope_fini(&shadow->envelope);
    buffer_fini(&shadow->request);
    free(shadow);
}
