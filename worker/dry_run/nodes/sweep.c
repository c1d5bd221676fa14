/* One request is underway at a time: SCAN, then the deletion of what it found, then a rest, then the next SCAN. A
 * cursor outlives the connection, so after trouble the same step is made again. What a SCAN has found counts as left
 * until its deletion is answered; a deletion whose answer was lost is repeated, and answers with fewer keys then: the
 * walk that follows is what proves that nothing is left. */
#include "worker/dry_run/nodes/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { STEP_KEYS = 1000, ELEMENTS_MAX = 64 * 1024, WALKS_MAX = 5 };
#define REPLY_BYTES_MAX ((size_t)32 << 20)
#define CALL_LIMIT_NS   (5 * NS_PER_S)
#define RETRY_NS        (200 * NS_PER_MS)
#define REST_MAX_NS     (1 * NS_PER_S)

struct sweep {
    struct sweep_options options;
    struct redis_node *node;
    struct redis_call call;
    struct loop_timer rest, deadline;
    struct loop_hook over;
    char *prefixes[SWEEP_PREFIXES_MAX];
    char *pattern;
    char cursor[24];
    struct buffer found; /* the keys, encoded as arguments */
    size_t found_count;
    uint64_t found_in_walk, deleted_in_walk;
    unsigned walks;
    struct instant asked, answered; /* last */
    struct sweep_state state;
};

/* --- what is left ------------------------------------------------------------------------------------------------- */

/* The cursor of a SCAN counts the buckets of the table with its bits in reverse. So what it has seen, as a fraction of
 * all buckets, is that number behind the point, however many bits the table has. */
static double share_seen(const char *cursor)
{
    uint64_t bits = strtoull(cursor, NULL, 10);
    double share = 0;
    for (double weight = 0.5; bits != 0; bits >>= 1, weight /= 2)
        share += (bits & 1) != 0 ? weight : 0;
    return share;
}

uint64_t sweep_estimate(uint64_t found, uint64_t deleted, const char *cursor)
{
    double seen = share_seen(cursor);
    uint64_t known = found > deleted ? found - deleted : 0;
    return seen > 0 && seen < 1 ? known + (uint64_t)((double)found * (1 - seen) / seen) : known;
}

/* --- its end ------------------------------------------------------------------------------------------------------ */

static void sweep_over(struct loop_hook *hook)
{
    struct sweep *sweep = list_owner(hook, struct sweep, over);
    sweep->options.done(sweep->options.context);
}

static void sweep_end(struct sweep *sweep, const char *trouble)
{
    if (sweep->state.is_over)
        return;
    sweep->state.is_over = true;
    sweep->state.is_clean = trouble == NULL;
    sweep->state.left = sweep_estimate(sweep->found_in_walk, sweep->deleted_in_walk, sweep->cursor);
    snprintf(sweep->state.trouble, sizeof sweep->state.trouble, "%s", trouble != NULL ? trouble : "");
    redis_call_cancel(&sweep->call);
    loop_timer_clear(sweep->options.loop, &sweep->rest);
    loop_timer_clear(sweep->options.loop, &sweep->deadline);
    loop_at_turn_end(sweep->options.loop, LOOP_GATHER, &sweep->over);
}

/* The deadline, or the end of its patience as things are now. */
static struct instant end_of(const struct sweep *sweep)
{
    const struct sweep_options *options = &sweep->options;
    return options->silence_ns > 0
               ? instant_earlier(options->deadline, instant_after(sweep->answered, options->silence_ns))
               : options->deadline;
}

static void deadline_fire(struct loop_timer *timer)
{
    struct sweep *sweep = list_owner(timer, struct sweep, deadline);
    if (instant_before(instant_now(), end_of(sweep))) {
        loop_timer_set(sweep->options.loop, timer, end_of(sweep));
        return;
    }
    const char *reason = redis_node_reason(sweep->node);
    bool is_up = redis_node_state(sweep->node) == REDIS_NODE_UP;
    char text[SWEEP_TROUBLE_MAX];
    snprintf(text, sizeof text, "%s", is_up ? "there was no time to look through all its keys" : reason);
    sweep_end(sweep, text);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static void step_send(struct sweep *sweep)
{
    struct buffer request = {0};
    struct loop *loop = sweep->options.loop;
    if (sweep->found_count > 0) {
        redis_request_begin(&request, 1 + sweep->found_count);
        redis_request_text(&request, sweep->options.unlinks ? "UNLINK" : "DEL");
        buffer_append(&request, sweep->found.bytes, sweep->found.length);
    } else {
        redis_request_begin(&request, 6);
        redis_request_text(&request, "SCAN");
        redis_request_text(&request, sweep->cursor);
        redis_request_text(&request, "MATCH");
        redis_request_text(&request, sweep->pattern);
        redis_request_text(&request, "COUNT");
        redis_request_integer(&request, STEP_KEYS);
    }
    sweep->asked = instant_now();
    if (!redis_node_call(sweep->node, &request, loop_after(loop, CALL_LIMIT_NS), &sweep->call))
        loop_timer_set(loop, &sweep->rest, loop_after(loop, RETRY_NS));
    buffer_fini(&request);
}

static void step_go_on(struct sweep *sweep)
{
    if (!sweep->state.is_over && !redis_call_is_outstanding(&sweep->call) && !loop_timer_is_set(&sweep->rest) &&
        redis_node_state(sweep->node) == REDIS_NODE_UP)
        step_send(sweep);
}

static void rest_over(struct loop_timer *timer)
{
    step_go_on(list_owner(timer, struct sweep, rest));
}

/* As long as makes the share right, as if the node had worked for us all the time that the answer took. */
static void step_rest(struct sweep *sweep)
{
    double spent_ns = (double)instant_since(sweep->asked, instant_now());
    double rest_ns = spent_ns * (1 - sweep->options.share) / sweep->options.share;
    int64_t least_ns = rest_ns < (double)REST_MAX_NS ? (int64_t)rest_ns : REST_MAX_NS;
    loop_timer_set(sweep->options.loop, &sweep->rest, loop_after(sweep->options.loop, least_ns));
}

static void walk_ended(struct sweep *sweep)
{
    bool found_none = sweep->found_in_walk == 0;
    sweep->walks++;
    if (found_none)
        sweep_end(sweep, NULL);
    else if (sweep->walks == WALKS_MAX)
        sweep_end(sweep, "keys are made there faster than they are removed: something still runs");
    if (!sweep->state.is_over)
        sweep->found_in_walk = sweep->deleted_in_walk = 0;
}

static bool is_wanted(const struct sweep *sweep, const struct redis_reply *key)
{
    for (size_t i = 0; i < SWEEP_PREFIXES_MAX; i++) {
        const char *prefix = sweep->prefixes[i];
        if (prefix != NULL && key->length >= strlen(prefix) && memcmp(key->bytes, prefix, strlen(prefix)) == 0)
            return true;
    }
    return false;
}

static bool scan_take(struct sweep *sweep, const struct redis_reply *reply)
{
    if (reply->kind != REDIS_ARRAY || reply->count != 2 || reply->elements[0].kind != REDIS_STRING ||
        reply->elements[0].length >= sizeof sweep->cursor || reply->elements[1].kind != REDIS_ARRAY)
        return false;
    snprintf(sweep->cursor, sizeof sweep->cursor, "%s", reply->elements[0].bytes);
    for (size_t i = 0; i < reply->elements[1].count; i++) {
        const struct redis_reply *key = &reply->elements[1].elements[i];
        if (key->kind != REDIS_STRING || !is_wanted(sweep, key))
            continue;
        redis_request_bytes(&sweep->found, key->bytes, key->length);
        sweep->found_count++;
    }
    sweep->found_in_walk += sweep->found_count;
    return true;
}

static void step_take(struct sweep *sweep, const struct redis_reply *reply)
{
    if (sweep->found_count > 0) {
        uint64_t deleted = reply->kind == REDIS_INTEGER ? (uint64_t)reply->integer : 0;
        sweep->state.deleted += deleted;
        sweep->deleted_in_walk += deleted;
        sweep->found_count = 0;
        buffer_clear(&sweep->found);
    } else if (!scan_take(sweep, reply)) {
        sweep_end(sweep, "what it answers to SCAN is not understood");
        return;
    }
    if (sweep->found_count == 0 && strcmp(sweep->cursor, "0") == 0)
        walk_ended(sweep);
    if (!sweep->state.is_over)
        step_rest(sweep);
}

static void step_answered(struct redis_call *call, const struct redis_result *result)
{
    struct sweep *sweep = list_owner(call, struct sweep, call);
    struct loop *loop = sweep->options.loop;
    if (result->outcome == REDIS_VALUE) {
        sweep->answered = instant_now();
        step_take(sweep, result->reply);
    } else if (result->outcome == REDIS_ERROR && result->reply != NULL && !redis_error_is_passing(result->error))
        sweep_end(sweep, result->reason);
    else
        loop_timer_set(loop, &sweep->rest, loop_after(loop, RETRY_NS));
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)node, (void)state, (void)reason;
    step_go_on(context);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

/* What matches all keys that begin with one of the prefixes; few others do. */
static char *pattern_make(const struct sweep_options *options)
{
    struct buffer pattern = {0};
    buffer_append_text(&pattern, options->prefixes[1] != NULL ? "*" : "");
    for (const char *at = options->prefixes[0]; *at != '\0'; at++) {
        buffer_append_text(&pattern, strchr("*?[]\\^-", *at) != NULL ? "\\" : "");
        buffer_append(&pattern, at, 1);
    }
    buffer_append_text(&pattern, "*");
    char *copy = memory_text(buffer_text(&pattern));
    buffer_fini(&pattern);
    return copy;
}

struct sweep *sweep_open(const struct sweep_options *options)
{
    struct sweep *sweep = memory_new(struct sweep);
    sweep->options = *options;
    for (size_t i = 0; i < SWEEP_PREFIXES_MAX; i++)
        sweep->prefixes[i] = options->prefixes[i] != NULL ? memory_text(options->prefixes[i]) : NULL;
    sweep->pattern = pattern_make(options);
    snprintf(sweep->cursor, sizeof sweep->cursor, "0");
    sweep->call.done = step_answered;
    loop_timer_init(&sweep->rest, rest_over);
    loop_timer_init(&sweep->deadline, deadline_fire);
    loop_hook_init(&sweep->over, sweep_over);
    sweep->answered = instant_now();
    loop_timer_set(options->loop, &sweep->deadline, end_of(sweep));
    struct redis_node_options node = options->node;
    node.changed = node_changed;
    node.context = sweep;
    node.element_limit = ELEMENTS_MAX;
    node.reply_limit = REPLY_BYTES_MAX;
    node.unanswered_limit = REPLY_BYTES_MAX;
    sweep->node = redis_node_create(options->loop, &node);
    return sweep;
}

void sweep_close(struct sweep *sweep)
{
    if (sweep == NULL)
        return;
    redis_call_cancel(&sweep->call);
    loop_timer_clear(sweep->options.loop, &sweep->rest);
    loop_timer_clear(sweep->options.loop, &sweep->deadline);
    loop_hook_cancel(&sweep->over);
    redis_node_destroy(sweep->node);
    for (size_t i = 0; i < SWEEP_PREFIXES_MAX; i++)
        free(sweep->prefixes[i]);
    free(sweep->pattern);
    buffer_fini(&sweep->found);
    free(sweep);
}

const struct sweep_state *sweep_state(const struct sweep *sweep)
{
    return &sweep->state;
}
