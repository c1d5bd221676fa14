/* Lists the process at the node, and announces its terms. An unlisted process may claim nothing. While an item of its
 * terms waits for other processes to end, it asks again. Runs on the loop. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "queue/queue_private.h"
#include "queue/scripts.h"
#include "queue/terms.h"

/* Each look costs the node a command for each listed process, and in a large fleet many may wait. */
#define LOOK_NS             (1 * NS_PER_S)
#define LOOK_PER_PROCESS_NS (20 * NS_PER_MS)

enum { ANSWER_HAS_FORGOTTEN, ANSWER_WAITS, ANSWER_LISTED, ANSWER_OTHERS, OTHER_FIELDS = 3 };

/* --- what may be served ------------------------------------------------------------------------------------------- */

/* The items of `announced` that the node lets the process serve and whose words are still the same. */
static void served_write(const struct queue_announcement *announcement, struct buffer *out)
{
    struct terms_item item, now;
    const char *at = announcement->answered != NULL ? announcement->answered : "";
    while (terms_next(&at, &item))
        if (!terms_lists(announcement->waits, item.name) && terms_find(announcement->terms, item.name, &now) &&
            terms_span_equals(item.breaking, now.breaking))
            buffer_format(out, "%s%.*s", out->length > 0 ? "\n" : "", (int)item.name.length, item.name.bytes);
}

static void look_plan(struct queue *queue, int64_t listed)
{
    struct queue_announcement *announcement = &queue->announcement;
    loop_timer_clear(queue->loop, &announcement->look);
    if (announcement->waits[0] != '\0' && !queue->leaving)
        loop_timer_set(queue->loop, &announcement->look,
                       loop_after(queue->loop, LOOK_NS + listed * LOOK_PER_PROCESS_NS));
}

static void others_tell(struct queue *queue, const struct redis_reply *reply)
{
    size_t count = (reply->count - ANSWER_OTHERS) / OTHER_FIELDS;
    struct terms_party *others = memory_zeroed(count + 1, sizeof others[0]);
    for (size_t i = 0; i < count; i++) {
        const struct redis_reply *fields = &reply->elements[ANSWER_OTHERS + i * OTHER_FIELDS];
        for (size_t f = 0; f < OTHER_FIELDS; f++)
            if (fields[f].kind != REDIS_STRING)
                count = i; /* our script did not write this */
        if (i < count)
            others[i] = (struct terms_party){fields[0].bytes, fields[1].bytes, fields[2].bytes};
    }
    if (queue->options.terms_told != NULL)
        queue->options.terms_told(queue->options.context, queue->announcement.answered, queue->announcement.waits,
                                  others, count);
    free(others);
}

static void terms_answered(struct queue *queue, const struct redis_reply *reply)
{
    struct queue_announcement *announcement = &queue->announcement;
    if (announcement->sent == NULL || reply->kind != REDIS_ARRAY || reply->count < ANSWER_OTHERS ||
        reply->elements[ANSWER_WAITS].kind != REDIS_STRING)
        return;
    if (redis_reply_is_text(&reply->elements[ANSWER_HAS_FORGOTTEN], "1"))
        announcement->cautious_until = loop_after(queue->loop, queue->options.lease_ns);
    free(announcement->answered);
    free(announcement->waits);
    announcement->answered = announcement->sent;
    announcement->sent = NULL;
    announcement->waits = memory_text(reply->elements[ANSWER_WAITS].bytes);
    look_plan(queue, reply->elements[ANSWER_LISTED].integer);
    others_tell(queue, reply);
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

static void terms_encode(struct queue *queue, struct buffer *out)
{
    struct queue_announcement *announcement = &queue->announcement;
    struct buffer served = {0};
    bool is_cautious = instant_before(loop_now(queue->loop), announcement->cautious_until);
    free(announcement->sent);
    announcement->sent = announcement->terms != NULL ? memory_text(announcement->terms) : NULL;
    if (announcement->terms != NULL)
        served_write(announcement, &served);
    redis_request_text(out, announcement->terms != NULL ? announcement->terms : "");
    redis_request_text(out, announcement->answered == NULL ? "first" : is_cautious ? "same" : "more");
    redis_request_bytes(out, served.bytes, served.length);
    buffer_fini(&served);
}

static void enlist_send(struct queue *queue)
{
    struct buffer names = {0}, *out = &queue->presence.request;
    queue->presenting = true;
    queue->must_enlist = queue->announcement.is_due = false;
    for (unsigned i = 0; i < queue->options.name_count; i++)
        buffer_format(&names, "%s%s", i > 0 ? "\n" : "", queue->names[i]);
    buffer_clear(out);
    redis_request_script(out, &queue_script_enlist, 2 + QUEUE_SCHEMES - 1, 8);
    redis_request_texts(out, queue->keys.processes, queue->keys.process);
    queue_keys_request_others(&queue->keys, out);
    redis_request_text(out, queue->identity);
    queue_request_lease(queue, out);
    redis_request_bytes(out, names.bytes, names.length);
    redis_request_text(out, queue->keys.process_prefix);
    terms_encode(queue, out);
    redis_request_text(out, queue->is_listed ? "1" : "0");
    buffer_fini(&names);
    retried_call_start(&queue->presence);
}

void queue_look(struct queue *queue)
{
    if (loop_timer_is_set(&queue->lease_timer))
        loop_timer_set(queue->loop, &queue->lease_timer, loop_now(queue->loop));
}

/* An answer that is on its way may be older than what made us ask. */
void queue_enlist(struct queue *queue)
{
    if (queue->leaving)
        return;
    queue->is_listed = false;
    queue->must_enlist = true;
    if (!queue->presenting)
        enlist_send(queue);
}

void queue_enlist_anew(struct queue *queue)
{
    recovery_permit_broken(&queue->permit);
    log_event(LOG_WARN, "lease_lost",
              "advice=\"this process was stopped or cut off for longer than its lease; others took over its claims\"");
    queue_enlist(queue);
}

/* The processes of another scheme are at the node. */
static void scheme_differs(struct queue *queue, long long scheme)
{
    if (queue->announcement.other_scheme != scheme)
        log_event(
            LOG_ERROR, "other_scheme",
            "theirs=%lld ours=%d advice=\"workers of another version are at the queue node; if it is the newer one, "
            "update this worker first, else it begins when they have ended\"",
            scheme, QUEUE_SCHEME_NUMBER);
    queue->announcement.other_scheme = scheme;
    queue->must_enlist = true;
    if (!queue->leaving)
        loop_timer_set(queue->loop, &queue->announcement.look, loop_after(queue->loop, LOOK_NS));
}

static void enlisted(struct retried_call *retried_call, const struct redis_reply *reply)
{
    struct queue *queue = list_owner(retried_call, struct queue, presence);
    bool was_listed = queue->is_listed;
    queue->presenting = false;
    if (reply->kind == REDIS_INTEGER) {
        scheme_differs(queue, reply->integer);
        return;
    }
    queue->announcement.other_scheme = 0;
    if (redis_reply_is_text(reply, "lost") && !queue->must_enlist) {
        queue_enlist_anew(queue);
        return;
    }
    queue->is_listed = !queue->must_enlist;
    terms_answered(queue, reply);
    blocking_claims_arm(queue);
    if (!was_listed && queue->is_listed) {
        queue_look(queue);
        unlisted_look(queue);
    }
    if ((queue->must_enlist || queue->announcement.is_due) && !queue->leaving)
        enlist_send(queue);
}

/* Nothing is lost by it: a listed process stays so. */
static void announce_again(struct queue *queue)
{
    queue->announcement.is_due = true;
    if (queue->is_listed && !queue->presenting && !queue->leaving)
        enlist_send(queue);
}

static void look_fire(struct loop_timer *timer)
{
    struct queue *queue = list_owner(timer, struct queue, announcement.look);
    if (queue->announcement.other_scheme == 0)
        announce_again(queue);
    else if (!queue->presenting)
        enlist_send(queue);
}

void queue_announce(struct queue *queue, const char *terms)
{
    free(queue->announcement.terms);
    queue->announcement.terms = memory_text(terms);
    announce_again(queue);
}

bool queue_is_listed(const struct queue *queue)
{
    return queue->is_listed;
}

void enlist_init(struct queue *queue)
{
    retried_call_init(&queue->presence, &queue->retried_calls, enlisted);
    loop_timer_init(&queue->announcement.look, look_fire);
}

void enlist_stop(struct queue *queue)
{
    retried_call_cancel(&queue->presence);
    loop_timer_clear(queue->loop, &queue->announcement.look);
}

void enlist_fini(struct queue *queue)
{
    enlist_stop(queue);
    retried_call_fini(&queue->presence);
    free(queue->announcement.terms);
    free(queue->announcement.sent);
    free(queue->announcement.answered);
    free(queue->announcement.waits);
}
