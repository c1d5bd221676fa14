/* Recovers what dead processes left at the queue node.
 *
 * Each renewal returns the processes whose leases have ended. Their claims are fetched one process after the other (a
 * bounded number of bytes at a time), read for their jid, and put back at the head of their queues by a script that
 * checks each claim once more; all processes may try, one succeeds. The script counts from how many processes a task
 * was recovered; the third time it needs a record and buries the task (poison: it kills its process). If a crash
 * suspect was recorded for the process (crash_suspect.h), only that task counts; those beside it are buried the
 * twentieth time. A process that was cut off and comes back takes its count off again (queue_uncount_recovery).
 *
 * A failed call is left to the next renewal. One whose answer was lost asks for fewer bytes then: the server may have
 * closed the connection because the answer was too large. Runs on the loop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "queue/envelope.h"
#include "queue/queue_private.h"
#include "queue/scripts.h"

/* A task is buried once this many processes have died of it within this time. */
enum { POISON_RECOVERIES = 3, POISON_MEMORY_S = 72 * 3600 };
/* The limit for tasks beside a crash suspect: a handler that damages the memory of others is never named. */
enum { BESIDE_RECOVERIES = 20 };
enum { IDENTITY_MAX = 320, ORPHAN_BYTES = 4 << 20 };
/* A move of a dead process may arrive as late as its kernel, or a stopped server, keeps what it wrote. */
enum { LAST_LOOK_S = 1800, LOOKS = 2 };

struct recovery {
    struct queue *queue;
    struct redis_call call;
    char dead[RECOVERY_DEAD_MAX][IDENTITY_MAX];
    unsigned dead_count, at; /* dead[at] is being recovered */
    bool with_records;       /* a task is buried this time, so the records are made */
    unsigned back, buried;   /* of the present one */
    int64_t bytes;           /* of claims that are requested at once */
    struct envelope envelope;
    struct buffer request, keys, claims, record;
    struct buffer jids; /* of the claims that are requested, each with its NUL */
};

static void orphans_ask(struct recovery *recovery);

static const char *identity(const struct recovery *recovery)
{
    return recovery->dead[recovery->at];
}

/* --- records ----------------------------------------------------------------------------------------------------- */

static void record_write(struct recovery *recovery, const char *queue)
{
    struct buffer text = {0};
    buffer_format(&text, "recovered from at least %d processes that died with it, the last one %s", POISON_RECOVERIES,
                  identity(recovery));
    envelope_write_failure(&recovery->envelope,
                           &(struct envelope_failure){.queue = queue,
                                                      .jid = recovery->envelope.jid,
                                                      .error_class = "HF::PoisonPill",
                                                      .error_message = text_span_of(&text),
                                                      .is_final = true,
                                                      .fence = ""},
                           queue_now(recovery->queue), &recovery->record);
    buffer_fini(&text);
}

/* --- putting back ------------------------------------------------------------------------------------------------ */

/* A text that is no task has no jid to count by: the process that claims it next buries it. */
static bool claim_add(struct recovery *recovery, const struct redis_reply *slot, const struct redis_reply *claim)
{
    const struct queue_keys *keys = &recovery->queue->keys;
    const struct envelope_limits *limits = recovery->queue->options.limits;
    char name[TASK_NAME_MAX];
    const char *task = claim->length > CLAIM_ID_BYTES
                           ? claim_cut(claim->bytes + CLAIM_ID_BYTES, claim->length - CLAIM_ID_BYTES, name)
                           : NULL;
    if (task == NULL)
        return false;
    size_t length = claim->length - (size_t)(task - claim->bytes);
    bool is_task =
        envelope_parse(&recovery->envelope, task, length, limits != NULL ? limits : &ENVELOPE_LIMITS_DEFAULT, NULL);
    const char *jid = is_task ? recovery->envelope.jid : "";
    buffer_clear(&recovery->record);
    if (recovery->with_records && jid[0] != '\0')
        record_write(recovery, name);
    queue_keys_request(keys->recovered_prefix, jid, &recovery->keys);
    queue_keys_request_queue(keys, name, &recovery->keys);
    queue_keys_request(keys->unique_prefix, is_task ? recovery->envelope.unique : "", &recovery->keys);
    redis_request_bytes(&recovery->claims, slot->bytes, slot->length);
    redis_request_bytes(&recovery->claims, claim->bytes, CLAIM_ID_BYTES);
    redis_request_text(&recovery->claims, jid);
    redis_request_bytes(&recovery->claims, recovery->record.bytes, recovery->record.length);
    buffer_append(&recovery->jids, jid, strlen(jid) + 1);
    return true;
}

static void recover_encode(struct recovery *recovery, size_t claims)
{
    const struct queue *queue = recovery->queue;
    struct buffer *out = &recovery->request;
    buffer_clear(out);
    redis_request_script(out, &queue_script_recover, 3 + 3 * claims, 9 + LOOKS + 4 * claims);
    redis_request_text(out, queue->keys.processes);
    queue_keys_request(queue->keys.process_prefix, identity(recovery), out);
    redis_request_text(out, queue->keys.dead);
    buffer_append(out, recovery->keys.bytes, recovery->keys.length);
    struct buffer bells = {0};
    buffer_format(&bells, "%s%s:", queue->keys.any_bell_prefix, identity(recovery));
    redis_request_text(out, identity(recovery));
    redis_request_bytes(out, bells.bytes, bells.length);
    buffer_fini(&bells);
    redis_request_text(out, queue->keys.queue_prefix);
    redis_request_integer(out, POISON_RECOVERIES);
    redis_request_integer(out, BESIDE_RECOVERIES);
    redis_request_integer(out, POISON_MEMORY_S);
    redis_request_integer(out, DEAD_AGE_S);
    redis_request_integer(out, DEAD_ENTRIES);
    redis_request_integer(out, LOOKS);
    queue_request_lease(queue, out);
    redis_request_integer(out, LAST_LOOK_S);
    buffer_append(out, recovery->claims.bytes, recovery->claims.length);
}

static struct instant call_deadline(const struct recovery *recovery)
{
    return loop_after(recovery->queue->loop, recovery->queue->options.timeout_ns);
}

static void recover_send(struct recovery *recovery,
                         void (*done)(struct redis_call *call, const struct redis_result *result))
{
    recovery->call.done = done;
    if (!redis_node_call(recovery->queue->node, &recovery->request, call_deadline(recovery), &recovery->call))
        recovery_stop(recovery);
}

/* --- answers ----------------------------------------------------------------------------------------------------- */

static void next_one(struct recovery *recovery)
{
    if (recovery->back + recovery->buried > 0) {
        char text[LOG_QUOTE_MAX];
        log_event(LOG_WARN, "process_recovered", "identity=%s tasks=%u buried=%u advice=\"its lease had ended\"",
                  log_value(identity(recovery), text), recovery->back, recovery->buried);
    }
    recovery->back = recovery->buried = 0;
    recovery->with_records = false;
    if (++recovery->at < recovery->dead_count)
        orphans_ask(recovery);
    else
        recovery_stop(recovery);
}

static void task_tell(const struct recovery *recovery, const char *jid, bool is_buried)
{
    char text[LOG_QUOTE_MAX], from[LOG_QUOTE_MAX];
    log_event(LOG_INFO, is_buried ? "task_buried" : "task_recovered", "jid=%s from=%s", log_value(jid, text),
              log_value(identity(recovery), from));
}

/* Goes on with the same process while it makes progress. */
static void recovered(struct redis_call *call, const struct redis_result *result)
{
    struct recovery *recovery = list_owner(call, struct recovery, call);
    const struct redis_reply *reply = result->reply;
    if (result->outcome != REDIS_VALUE || reply->kind != REDIS_ARRAY || reply->count == 0) {
        recovery_stop(recovery);
        return;
    }
    unsigned back = 0, buried = 0;
    bool poison = false;
    const char *jid = recovery->jids.bytes, *end = jid + recovery->jids.length;
    for (size_t i = 0; i + 1 < reply->count && jid < end; i++, jid += strlen(jid) + 1) {
        bool is_back = redis_reply_is_text(&reply->elements[i], "back"),
             is_dead = redis_reply_is_text(&reply->elements[i], "dead");
        back += is_back;
        buried += is_dead;
        poison = poison || redis_reply_is_text(&reply->elements[i], "poison");
        if (is_back || is_dead)
            task_tell(recovery, jid, is_dead);
    }
    recovery->back += back;
    recovery->buried += buried;
    recovery->queue->counters.recovered += back;
    recovery->queue->counters.poisoned += buried;
    bool more = redis_reply_is_text(&reply->elements[reply->count - 1], "more");
    if (more && (back + buried > 0 || (poison && !recovery->with_records))) {
        recovery->with_records = poison;
        orphans_ask(recovery);
        return;
    }
    next_one(recovery);
}

static void orphans_told(struct redis_call *call, const struct redis_result *result)
{
    struct recovery *recovery = list_owner(call, struct recovery, call);
    const struct redis_reply *reply = result->reply;
    size_t claims = 0;
    if (result->outcome == REDIS_UNKNOWN)
        recovery->bytes = recovery->bytes / 2 + 1;
    else if (result->outcome == REDIS_VALUE)
        recovery->bytes = recovery->bytes < ORPHAN_BYTES / 2 ? recovery->bytes * 2 : ORPHAN_BYTES;
    if (result->outcome != REDIS_VALUE || reply->kind != REDIS_ARRAY) {
        recovery_stop(recovery);
        return;
    }
    buffer_clear(&recovery->keys);
    buffer_clear(&recovery->claims);
    buffer_clear(&recovery->jids);
    for (size_t i = 0; i + 1 < reply->count; i += 2)
        claims += claim_add(recovery, &reply->elements[i], &reply->elements[i + 1]);
    recover_encode(recovery, claims);
    recover_send(recovery, recovered);
}

static void orphans_ask(struct recovery *recovery)
{
    const struct queue *queue = recovery->queue;
    struct buffer *out = &recovery->request;
    buffer_clear(out);
    redis_request_script(out, &queue_script_orphans, 2, 2);
    redis_request_text(out, queue->keys.processes);
    queue_keys_request(queue->keys.process_prefix, identity(recovery), out);
    redis_request_text(out, identity(recovery));
    redis_request_integer(out, recovery->bytes);
    recover_send(recovery, orphans_told);
}

/* --- life -------------------------------------------------------------------------------------------------------- */

void recovery_start(struct recovery *recovery, const struct redis_reply *dead)
{
    if (recovery->dead_count > 0 || dead->kind != REDIS_ARRAY)
        return;
    recovery->at = 0;
    for (size_t i = 0; i < dead->count && recovery->dead_count < RECOVERY_DEAD_MAX; i++)
        if (dead->elements[i].kind == REDIS_STRING && dead->elements[i].length < IDENTITY_MAX)
            snprintf(recovery->dead[recovery->dead_count++], IDENTITY_MAX, "%s", dead->elements[i].bytes);
    if (recovery->dead_count > 0)
        orphans_ask(recovery);
}

void recovery_stop(struct recovery *recovery)
{
    redis_call_cancel(&recovery->call);
    recovery->dead_count = 0;
    recovery->with_records = false;
    recovery->back = recovery->buried = 0;
}

struct recovery *recovery_create(struct queue *queue)
{
    struct recovery *recovery = memory_new(struct recovery);
    recovery->queue = queue;
    recovery->bytes = ORPHAN_BYTES;
    return recovery;
}

void recovery_destroy(struct recovery *recovery)
{
    redis_call_cancel(&recovery->call);
    envelope_fini(&recovery->envelope);
    buffer_fini(&recovery->request);
    buffer_fini(&recovery->keys);
    buffer_fini(&recovery->claims);
    buffer_fini(&recovery->record);
    buffer_fini(&recovery->jids);
    free(recovery);
}
