/* A walk goes through the sources in their order. A step of it asks for one page of a source and encodes the keys that
 * follow from it; they are sent in calls of the script keep, one after the other; then comes the next page. What fails
 * ends the walk: the next one begins an interval later. */
#include "worker/dry_run/stage/keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/dry_runs.h"
#include "queue/keys.h"

enum { PAGE_NAMES = 250, CALL_KEYS = 500, QUEUES_MAX = 128, NAME_BYTES_MAX = 600 };
#define CALL_LIMIT_NS (5 * NS_PER_S)

/* Where names of keys are found. */
enum source { FROM_NOWHERE, FROM_QUEUES, FROM_PROCESSES, FROM_CONTENDED, SOURCES };

struct keeper {
    struct keeper_options options;
    struct queue_keys keys;
    struct redis_call call;
    struct loop_timer timer; /* the next step */
    struct instant asked;
    enum source source;
    char cursor[24];
    char *queues[QUEUES_MAX]; /* for the bells; of this walk */
    size_t queue_count;
    struct buffer found; /* keys, encoded */
    struct buffer sizes; /* of each of them: size_t */
    size_t sent;         /* of the bytes of found */
    size_t sent_count;
    bool is_page; /* the call that is underway asks for a page */
};

/* --- keys that were found ----------------------------------------------------------------------------------------- */

static size_t found_count(const struct keeper *keeper)
{
    return keeper->sizes.length / sizeof(size_t);
}

static void found_clear(struct keeper *keeper)
{
    buffer_clear(&keeper->found);
    buffer_clear(&keeper->sizes);
    keeper->sent = keeper->sent_count = 0;
}

/* What was appended to `found` since it had that length is one key. */
static void found_note(struct keeper *keeper, size_t before)
{
    size_t size = keeper->found.length - before;
    buffer_append(&keeper->sizes, &size, sizeof size);
}

static void found_add(struct keeper *keeper, const char *prefix, const char *name)
{
    size_t before = keeper->found.length;
    queue_keys_request(prefix, name, &keeper->found);
    found_note(keeper, before);
}

/* --- what the sources name ---------------------------------------------------------------------------------------- */

static void days_add(struct keeper *keeper)
{
    struct wall_time now = wall_now();
    for (int day = 0; day < 2; day++) {
        struct wall_time time = {now.us - day * INT64_C(86400) * US_PER_S};
        size_t before = keeper->found.length;
        queue_keys_request_day(keeper->keys.processed, time, &keeper->found);
        found_note(keeper, before);
        before = keeper->found.length;
        queue_keys_request_day(keeper->keys.failed, time, &keeper->found);
        found_note(keeper, before);
        before = keeper->found.length;
        queue_keys_request_locks(&keeper->keys, time, &keeper->found);
        found_note(keeper, before);
        before = keeper->found.length;
        queue_keys_request_runtimes(&keeper->keys, time, &keeper->found);
        found_note(keeper, before);
    }
}

/* Those whose names are known. */
static void fixed_add(struct keeper *keeper)
{
    const struct queue_keys *keys = &keeper->keys;
    const char *const fixed[] = {keys->queues,   keys->schedule,  keys->retry,     keys->dead,   keys->paused,
                                 keys->listed,   keys->cancels,   keys->processed, keys->failed, keys->processes,
                                 keys->periodic, keys->contended, keys->heirs};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        found_add(keeper, fixed[i], "");
    days_add(keeper);
}

static void queue_add(struct keeper *keeper, const char *name)
{
    found_add(keeper, keeper->keys.queue_prefix, name);
    if (keeper->queue_count < QUEUES_MAX)
        keeper->queues[keeper->queue_count++] = memory_text(name);
}

/* A bell is there while a task rings it, and stays when its process is killed then. */
static void process_add(struct keeper *keeper, const char *identity)
{
    char place[NAME_BYTES_MAX];
    found_add(keeper, keeper->keys.process_prefix, identity);
    for (size_t i = 0; i < keeper->queue_count; i++)
        if (snprintf(place, sizeof place, "%s:%s", identity, keeper->queues[i]) < (int)sizeof place)
            found_add(keeper, keeper->keys.any_bell_prefix, place);
}

static void list_add(struct keeper *keeper, const char *list)
{
    found_add(keeper, keeper->keys.waiting_prefix, list);
    found_add(keeper, keeper->keys.places_prefix, list);
}

static void name_add(struct keeper *keeper, const struct redis_reply *name)
{
    if (name->kind != REDIS_STRING || name->length >= NAME_BYTES_MAX || strlen(name->bytes) != name->length)
        return;
    if (keeper->source == FROM_QUEUES)
        queue_add(keeper, name->bytes);
    else if (keeper->source == FROM_PROCESSES)
        process_add(keeper, name->bytes);
    else
        list_add(keeper, name->bytes);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static void queues_forget(struct keeper *keeper)
{
    for (size_t i = 0; i < keeper->queue_count; i++)
        free(keeper->queues[i]);
    keeper->queue_count = 0;
}

static void walk_end(struct keeper *keeper)
{
    keeper->source = FROM_NOWHERE;
    keeper->cursor[0] = '\0';
    found_clear(keeper);
    queues_forget(keeper);
    loop_timer_set(keeper->options.loop, &keeper->timer, loop_after(keeper->options.loop, keeper->options.interval_ns));
}

static void request_send(struct keeper *keeper, struct buffer *request)
{
    keeper->asked = instant_now();
    struct instant deadline = loop_after(keeper->options.loop, CALL_LIMIT_NS);
    if (!redis_node_call(keeper->options.node, request, deadline, &keeper->call))
        walk_end(keeper);
    buffer_fini(request);
}

static void keep_send(struct keeper *keeper)
{
    struct buffer request = {0}, part = {0};
    size_t count = 0, length = 0, size = 0;
    for (; count < CALL_KEYS && keeper->sent_count + count < found_count(keeper); count++, length += size)
        memcpy(&size, keeper->sizes.bytes + (keeper->sent_count + count) * sizeof size, sizeof size);
    buffer_append(&part, keeper->found.bytes + keeper->sent, length);
    dry_runs_keep_request(&request, count, &part, keeper->options.ttl_ns / NS_PER_MS);
    buffer_fini(&part);
    keeper->sent += length;
    keeper->sent_count += count;
    keeper->is_page = false;
    request_send(keeper, &request);
}

static void page_ask(struct keeper *keeper)
{
    const char *const keys[SOURCES] = {[FROM_QUEUES] = keeper->keys.queues,
                                       [FROM_PROCESSES] = keeper->keys.processes,
                                       [FROM_CONTENDED] = keeper->keys.contended};
    struct buffer request = {0};
    redis_request_begin(&request, 5);
    redis_request_text(&request, keeper->source == FROM_QUEUES ? "SSCAN" : "ZSCAN");
    redis_request_text(&request, keys[keeper->source]);
    redis_request_text(&request, keeper->cursor);
    redis_request_text(&request, "COUNT");
    redis_request_integer(&request, PAGE_NAMES);
    keeper->is_page = true;
    request_send(keeper, &request);
}

/* Keys that were found go first, then the next page, then the next source. */
static void step(struct loop_timer *timer)
{
    struct keeper *keeper = list_owner(timer, struct keeper, timer);
    if (keeper->sent_count < found_count(keeper)) {
        keep_send(keeper);
        return;
    }
    found_clear(keeper);
    if (keeper->cursor[0] == '\0') { /* a walk begins */
        snprintf(keeper->cursor, sizeof keeper->cursor, "0");
        fixed_add(keeper);
        keep_send(keeper);
        return;
    }
    if (strcmp(keeper->cursor, "0") == 0)
        keeper->source++;
    if (keeper->source < SOURCES)
        page_ask(keeper);
    else
        walk_end(keeper);
}

static bool page_take(struct keeper *keeper, const struct redis_reply *reply)
{
    if (reply->kind != REDIS_ARRAY || reply->count != 2 || reply->elements[0].kind != REDIS_STRING ||
        reply->elements[0].length >= sizeof keeper->cursor || reply->elements[1].kind != REDIS_ARRAY)
        return false;
    snprintf(keeper->cursor, sizeof keeper->cursor, "%s", reply->elements[0].bytes);
    const struct redis_reply *names = &reply->elements[1];
    size_t stride = keeper->source == FROM_QUEUES ? 1 : 2; /* a sorted set tells the scores too */
    for (size_t i = 0; i < names->count; i += stride)
        name_add(keeper, &names->elements[i]);
    return true;
}

/* So long that the share is right, as if the node had worked for us all the time that the answer took. */
static void step_rest(struct keeper *keeper)
{
    double spent_ns = (double)instant_since(keeper->asked, instant_now());
    double rest_ns = spent_ns * (1 - keeper->options.share) / keeper->options.share;
    double most_ns = (double)keeper->options.interval_ns;
    loop_timer_set(keeper->options.loop, &keeper->timer,
                   loop_after(keeper->options.loop, (int64_t)(rest_ns < most_ns ? rest_ns : most_ns)));
}

static void answered(struct redis_call *call, const struct redis_result *result)
{
    struct keeper *keeper = list_owner(call, struct keeper, call);
    bool is_good = result->outcome == REDIS_VALUE;
    if (is_good && keeper->is_page)
        is_good = page_take(keeper, result->reply);
    if (is_good)
        step_rest(keeper);
    else
        walk_end(keeper);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct keeper *keeper_start(const struct keeper_options *options)
{
    struct keeper *keeper = memory_new(struct keeper);
    keeper->options = *options;
    keeper->options.space = NULL;
    queue_keys_init(&keeper->keys, options->space, "");
    keeper->call.done = answered;
    loop_timer_init(&keeper->timer, step);
    loop_timer_set(options->loop, &keeper->timer, loop_now(options->loop));
    return keeper;
}

void keeper_stop(struct keeper *keeper)
{
    if (keeper == NULL)
        return;
    redis_call_cancel(&keeper->call);
    loop_timer_clear(keeper->options.loop, &keeper->timer);
    queues_forget(keeper);
    queue_keys_fini(&keeper->keys);
    buffer_fini(&keeper->found);
    buffer_fini(&keeper->sizes);
    free(keeper);
}
