/* One request is underway at a time: SCAN, then the deletion of what it found, then a rest, then the next SCAN; behind
 * the keys the same with ZSCAN. A
 * cursor outlives the connection, so after trouble the same step is made again. What a SCAN has found counts as left
 * until its deletion is answered; a deletion whose answer was lost is repeated, and answers with fewer keys then: the
 * walk that follows is what proves that nothing is left. */
#include "worker/dry_run/nodes/key_deletion.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { STEP_KEYS = 1000, ELEMENTS_MAX = 64 * 1024, WALKS_MAX = 5 };
#define REPLY_BYTES_MAX ((size_t)32 << 20)
#define CALL_LIMIT_NS   (5 * NS_PER_S)
#define RETRY_NS        (200 * NS_PER_MS)
#define REST_MAX_NS     (1 * NS_PER_S)

struct key_deletion {
    struct key_deletion_options options;
    struct redis_node *node;
    struct redis_call call;
    struct loop_timer rest, deadline;
    struct loop_hook over;
    char *pattern;
    bool is_in_set; /* else in the keys */
    char cursor[24];
    struct buffer found; /* keys or members, encoded as arguments */
    size_t found_count;
    uint64_t found_in_walk, deleted_in_walk;
    unsigned walks;
    struct instant asked, answered; /* last */
    struct key_deletion_state state;
};

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

uint64_t key_deletion_estimate(uint64_t found, uint64_t deleted, const char *cursor)
{
    double seen = share_seen(cursor);
    uint64_t known = found > deleted ? found - deleted : 0;
    return seen > 0 && seen < 1 ? known + (uint64_t)((double)found * (1 - seen) / seen) : known;
}

/* --- its end ------------------------------------------------------------------------------------------------------ */

static void key_deletion_over(struct loop_hook *hook)
{
    struct key_deletion *deletion = list_owner(hook, struct key_deletion, over);
    deletion->options.done(deletion->options.context);
}

static void key_deletion_end(struct key_deletion *deletion, const char *trouble)
{
    if (deletion->state.is_over)
        return;
    deletion->state.is_over = true;
    deletion->state.is_clean = trouble == NULL;
    deletion->state.left = key_deletion_estimate(deletion->found_in_walk, deletion->deleted_in_walk, deletion->cursor);
    snprintf(deletion->state.trouble, sizeof deletion->state.trouble, "%s", trouble != NULL ? trouble : "");
    redis_call_cancel(&deletion->call);
    loop_timer_clear(deletion->options.loop, &deletion->rest);
    loop_timer_clear(deletion->options.loop, &deletion->deadline);
    loop_at_cycle_end(deletion->options.loop, LOOP_GATHER, &deletion->over);
}

/* The deadline, or the end of its timeout as things are now. */
static struct instant end_of(const struct key_deletion *deletion)
{
    const struct key_deletion_options *options = &deletion->options;
    return options->silence_ns > 0
               ? instant_earlier(options->deadline, instant_after(deletion->answered, options->silence_ns))
               : options->deadline;
}

static void deadline_fire(struct loop_timer *timer)
{
    struct key_deletion *deletion = list_owner(timer, struct key_deletion, deadline);
    if (instant_before(instant_now(), end_of(deletion))) {
        loop_timer_set(deletion->options.loop, timer, end_of(deletion));
        return;
    }
    const char *reason = redis_node_reason(deletion->node);
    bool is_up = redis_node_state(deletion->node) == REDIS_NODE_UP;
    char text[KEY_DELETION_TROUBLE_MAX];
    snprintf(text, sizeof text, "%s", is_up ? "there was no time to look through all its keys" : reason);
    key_deletion_end(deletion, text);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static void step_send(struct key_deletion *deletion)
{
    struct buffer request = {0};
    struct loop *loop = deletion->options.loop;
    const char *set = deletion->is_in_set ? deletion->options.set : NULL;
    bool deletes = deletion->found_count > 0;
    redis_request_begin(&request, (deletes ? 1 + deletion->found_count : 6) + (set != NULL));
    if (set != NULL)
        redis_request_texts(&request, deletes ? "ZREM" : "ZSCAN", set);
    else
        redis_request_text(&request, !deletes ? "SCAN" : deletion->options.unlinks ? "UNLINK" : "DEL");
    if (deletes) {
        buffer_append(&request, deletion->found.bytes, deletion->found.length);
    } else {
        redis_request_texts(&request, deletion->cursor, "MATCH", deletion->pattern, "COUNT");
        redis_request_integer(&request, STEP_KEYS);
    }
    deletion->asked = instant_now();
    if (!redis_node_call(deletion->node, &request, loop_after(loop, CALL_LIMIT_NS), &deletion->call))
        loop_timer_set(loop, &deletion->rest, loop_after(loop, RETRY_NS));
    buffer_fini(&request);
}

static void step_go_on(struct key_deletion *deletion)
{
    if (!deletion->state.is_over && !redis_call_is_outstanding(&deletion->call) &&
        !loop_timer_is_set(&deletion->rest) && redis_node_state(deletion->node) == REDIS_NODE_UP)
        step_send(deletion);
}

static void rest_over(struct loop_timer *timer)
{
    step_go_on(list_owner(timer, struct key_deletion, rest));
}

static void walk_ended(struct key_deletion *deletion)
{
    bool found_none = deletion->found_in_walk == 0;
    deletion->walks++;
    if (found_none)
        key_deletion_end(deletion, NULL);
    else if (deletion->walks == WALKS_MAX)
        key_deletion_end(deletion, "keys are made there faster than they are removed: something still runs");
    if (!deletion->state.is_over)
        deletion->found_in_walk = deletion->deleted_in_walk = 0;
}

static bool scan_take(struct key_deletion *deletion, const struct redis_reply *reply)
{
    if (reply->kind != REDIS_ARRAY || reply->count != 2 || reply->elements[0].kind != REDIS_STRING ||
        reply->elements[0].length >= sizeof deletion->cursor || reply->elements[1].kind != REDIS_ARRAY)
        return false;
    snprintf(deletion->cursor, sizeof deletion->cursor, "%s", reply->elements[0].bytes);
    for (size_t i = 0; i < reply->elements[1].count; i += deletion->is_in_set ? 2 : 1) { /* a score behind a member */
        const struct redis_reply *key = &reply->elements[1].elements[i];
        if (key->kind != REDIS_STRING)
            continue;
        redis_request_bytes(&deletion->found, key->bytes, key->length);
        deletion->found_count++;
    }
    deletion->found_in_walk += deletion->found_count;
    return true;
}

static void step_take(struct key_deletion *deletion, const struct redis_reply *reply)
{
    if (deletion->found_count > 0) {
        uint64_t deleted = reply->kind == REDIS_INTEGER ? (uint64_t)reply->integer : 0;
        deletion->state.deleted += deleted;
        deletion->deleted_in_walk += deleted;
        deletion->found_count = 0;
        buffer_clear(&deletion->found);
    } else if (!scan_take(deletion, reply)) {
        key_deletion_end(deletion, "what it answers to SCAN is not understood");
        return;
    }
    if (deletion->found_count == 0 && strcmp(deletion->cursor, "0") == 0) {
        deletion->is_in_set = !deletion->is_in_set && deletion->options.set != NULL;
        if (!deletion->is_in_set)
            walk_ended(deletion);
    }
    if (!deletion->state.is_over) {
        /* As long as makes the share right, as if the node had worked for us all the time that the answer took. */
        double spent_ns = (double)instant_since(deletion->asked, instant_now());
        double rest_ns = spent_ns * (1 - deletion->options.share) / deletion->options.share;
        int64_t least_ns = rest_ns < (double)REST_MAX_NS ? (int64_t)rest_ns : REST_MAX_NS;
        loop_timer_set(deletion->options.loop, &deletion->rest, loop_after(deletion->options.loop, least_ns));
    }
}

static void step_answered(struct redis_call *call, const struct redis_result *result)
{
    struct key_deletion *deletion = list_owner(call, struct key_deletion, call);
    struct loop *loop = deletion->options.loop;
    if (result->outcome == REDIS_VALUE) {
        deletion->answered = instant_now();
        step_take(deletion, result->reply);
    } else if (result->outcome == REDIS_ERROR && result->reply != NULL && !redis_error_is_passing(result->error)) {
        deletion->state.is_refused = true;
        key_deletion_end(deletion, result->reason);
    } else {
        loop_timer_set(loop, &deletion->rest, loop_after(loop, RETRY_NS));
    }
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)node, (void)state, (void)reason;
    step_go_on(context);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

/* What matches all that begins with the prefix, and nothing else. */
static char *pattern_make(const char *prefix)
{
    struct buffer pattern = {0};
    for (const char *at = prefix; *at != '\0'; at++) {
        buffer_append_text(&pattern, strchr("*?[]\\^-", *at) != NULL ? "\\" : "");
        buffer_append(&pattern, at, 1);
    }
    buffer_append_text(&pattern, "*");
    char *copy = memory_text(buffer_text(&pattern));
    buffer_fini(&pattern);
    return copy;
}

struct key_deletion *key_deletion_open(const struct key_deletion_options *options)
{
    struct key_deletion *deletion = memory_new(struct key_deletion);
    deletion->options = *options;
    deletion->state.name = options->node.name;
    deletion->pattern = pattern_make(options->prefix);
    snprintf(deletion->cursor, sizeof deletion->cursor, "0");
    deletion->call.done = step_answered;
    loop_timer_init(&deletion->rest, rest_over);
    loop_timer_init(&deletion->deadline, deadline_fire);
    loop_hook_init(&deletion->over, key_deletion_over);
    deletion->answered = instant_now();
    loop_timer_set(options->loop, &deletion->deadline, end_of(deletion));
    struct redis_node_options node = options->node;
    node.changed = node_changed;
    node.context = deletion;
    node.element_limit = ELEMENTS_MAX;
    node.reply_limit = REPLY_BYTES_MAX;
    node.unanswered_limit = REPLY_BYTES_MAX;
    deletion->node = redis_node_create(options->loop, &node);
    return deletion;
}

void key_deletion_close(struct key_deletion *deletion)
{
    if (deletion == NULL)
        return;
    redis_call_cancel(&deletion->call);
    loop_timer_clear(deletion->options.loop, &deletion->rest);
    loop_timer_clear(deletion->options.loop, &deletion->deadline);
    loop_hook_cancel(&deletion->over);
    redis_node_destroy(deletion->node);
    free(deletion->pattern);
    buffer_fini(&deletion->found);
    free(deletion);
}

const struct key_deletion_state *key_deletion_state(const struct key_deletion *deletion)
{
    return &deletion->state;
}
