#include "queue/operate.h"

#include "base/random.h"
#include "queue/scripts.h"

enum { ARGUMENTS_OF_ALL = 9, ARGUMENTS_OF_EACH = 6, KEYS_OF_ALL = 7, DROPPED_KEPT_S = 600 };

const char *operate_verb_name(enum operate_verb verb)
{
    static const char *const names[] = {
        [OPERATE_RETRY] = "retry", [OPERATE_BURY] = "bury", [OPERATE_DELETE] = "delete"};
    return names[verb];
}

static const char *kind_name(enum operate_kind kind)
{
    static const char *const names[] = {[OPERATE_SET] = "set", [OPERATE_LIST] = "list", [OPERATE_CLAIMS] = "claims"};
    return names[kind];
}

void operate_new_id(char id[OPERATE_ID_SIZE])
{
    random_digits(id, OPERATE_ID_SIZE - 1);
    id[OPERATE_ID_SIZE - 1] = '\0';
}

static void request_text_or_none(struct buffer *out, const char *text)
{
    redis_request_text(out, text != NULL ? text : "");
}

static void request_target(const struct queue_keys *keys, enum operate_verb verb, const struct operate_entry *entry,
                           struct buffer *out)
{
    if (verb == OPERATE_RETRY)
        queue_keys_request_queue(keys, entry->queue, out);
    else
        queue_keys_request(keys->unique_prefix, entry->unique != NULL ? entry->unique : "", out);
}

void operate_move(const struct queue_keys *keys, const char *id, enum operate_verb verb,
                  const struct operate_state *state, const struct operate_entry *entries, size_t count,
                  struct buffer *out)
{
    redis_request_script(out, &queue_script_operate_move, KEYS_OF_ALL + count,
                         ARGUMENTS_OF_ALL + ARGUMENTS_OF_EACH * count);
    queue_keys_request(keys->receipt_prefix, id, out);
    redis_request_texts(out, state->key, keys->queues, keys->dead, keys->processes, keys->schedule, keys->paused);
    for (size_t i = 0; i < count; i++)
        request_target(keys, verb, &entries[i], out);
    redis_request_texts(out, operate_verb_name(verb), kind_name(state->kind));
    request_text_or_none(out, state->lease_of);
    redis_request_integer(out, DEAD_AGE_S);
    redis_request_integer(out, DEAD_ENTRIES);
    redis_request_integer(out, (int64_t)state->list_look);
    redis_request_texts(out, keys->queue_prefix, keys->waiting_prefix, keys->waiters_prefix);
    for (size_t i = 0; i < count; i++) {
        const struct operate_entry *entry = &entries[i];
        redis_request_bytes(out, entry->seen.bytes, entry->seen.length);
        redis_request_bytes(out, entry->fresh.bytes, entry->fresh.length);
        request_text_or_none(out, verb == OPERATE_RETRY ? entry->queue : entry->unique != NULL ? entry->jid : NULL);
        request_text_or_none(out, entry->field);
        request_text_or_none(out, entry->jid);
        request_text_or_none(out, entry->list);
    }
}

void operate_pause(const struct queue_keys *keys, bool pause, char *const *names, size_t count, struct buffer *out)
{
    redis_request_script(out, &queue_script_operate_pause, 2, 3 + count);
    redis_request_texts(out, keys->paused, keys->processes, pause ? "pause" : "resume", keys->calls_prefix,
                        keys->process_prefix);
    for (size_t i = 0; i < count; i++)
        redis_request_text(out, names[i]);
}

void operate_drop(const struct queue_keys *keys, const char *id, const char *name, struct buffer *out)
{
    redis_request_script(out, &queue_script_operate_drop, 5, 2);
    redis_request_texts(out, keys->queues, keys->paused);
    queue_keys_request_queue(keys, name, out);
    queue_keys_request(keys->receipt_prefix, id, out);
    queue_keys_request(keys->dropped_prefix, id, out);
    redis_request_text(out, name);
    redis_request_integer(out, DROPPED_KEPT_S);
}

void operate_free(const struct queue_keys *keys, const struct operate_unique *items, size_t count, struct buffer *out)
{
    redis_request_script(out, &queue_script_operate_free, count, count);
    for (size_t i = 0; i < count; i++)
        queue_keys_request(keys->unique_prefix, items[i].digest, out);
    for (size_t i = 0; i < count; i++)
        redis_request_text(out, items[i].jid);
}
