#include "queue/keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "queue/envelope.h"
#include "redis/request.h"

static char *key_join(const char *space, const char *name, const char *identity, const char *end)
{
    struct buffer text = {0};
    buffer_format(&text, "%s%s%s%s", space, name, identity, end);
    char *joined = memory_text(buffer_text(&text));
    buffer_fini(&text);
    return joined;
}

void queue_keys_init(struct queue_keys *keys, const char *space, const char *identity)
{
    *keys = (struct queue_keys){
        .space = memory_text(space),
        .queues = key_join(space, "queues", "", ""),
        .schedule = key_join(space, "schedule", "", ""),
        .retry = key_join(space, "retry", "", ""),
        .dead = key_join(space, "dead", "", ""),
        .paused = key_join(space, "paused", "", ""),
        .listed = key_join(space, "processes", "", ""),
        .shown = key_join(space, "", identity, ""),
        .work = key_join(space, "", identity, ":work"),
        .workers = key_join(space, "", identity, ":workers"),
        .signals = key_join(space, "", identity, "-signals"),
        .processed = key_join(space, "stat:processed", "", ""),
        .failed = key_join(space, "stat:failed", "", ""),
        .queue_prefix = key_join(space, "queue:", "", ""),
        .iteration_prefix = key_join(space, "it-", "", ""),
        .processes = key_join(space, QUEUE_SCHEME "processes", "", ""),
        .cancels = key_join(space, QUEUE_SCHEME "cancels", "", ""),
        .periodic = key_join(space, QUEUE_SCHEME "periodic", "", ""),
        .process = key_join(space, QUEUE_SCHEME "process:", identity, ""),
        .calls = key_join(space, QUEUE_SCHEME "calls:", identity, ""),
        .beat = key_join(space, QUEUE_SCHEME "beat:", identity, ""),
        .heard = key_join(space, QUEUE_SCHEME "heard:", identity, ""),
        .process_prefix = key_join(space, QUEUE_SCHEME "process:", "", ""),
        .bell_prefix = key_join(space, QUEUE_SCHEME "bell:", identity, ":"),
        .any_bell_prefix = key_join(space, QUEUE_SCHEME "bell:", "", ""),
        .calls_prefix = key_join(space, QUEUE_SCHEME "calls:", "", ""),
        .heard_prefix = key_join(space, QUEUE_SCHEME "heard:", "", ""),
        .recovered_prefix = key_join(space, QUEUE_SCHEME "recovered:", "", ""),
        .unique_prefix = key_join(space, QUEUE_SCHEME "unique:", "", ""),
        .looked_prefix = key_join(space, QUEUE_SCHEME "looked:", "", ""),
        .receipt_prefix = key_join(space, QUEUE_SCHEME "receipt:", "", ""),
        .dropped_prefix = key_join(space, QUEUE_SCHEME "dropped:", "", ""),
        .waiting_prefix = key_join(space, QUEUE_SCHEME "waiting:", "", ""),
        .places_prefix = key_join(space, QUEUE_SCHEME "places:", "", ""),
        .freed_prefix = key_join(space, QUEUE_SCHEME "freed:", "", ""),
        .contended = key_join(space, QUEUE_SCHEME "contended", "", ""),
        .heirs = key_join(space, QUEUE_SCHEME "heirs", "", ""),
        .unserved = key_join(space, QUEUE_SCHEME "unserved", "", ""),
        .unserved_prefix = key_join(space, QUEUE_SCHEME "unserved:", "", ""),
        .meeting_prefix = key_join(space, QUEUE_SCHEME "meeting:", "", ""),
        .former_processes = key_join(space, "hf:processes", "", ""),
        .former_claims_prefix = key_join(space, "hf:claims:", "", ""),
        .former_bell_prefix = key_join(space, "hf:bell:", "", ""),
        .producer_prefix = key_join(space, QUEUE_SCHEME "producer:", "", ""),
        .result_prefix = key_join(space, QUEUE_SCHEME "result:", "", ""),
    };
}

void queue_keys_fini(struct queue_keys *keys)
{
    char *const all[] = {keys->space,
                         keys->queues,
                         keys->schedule,
                         keys->retry,
                         keys->dead,
                         keys->paused,
                         keys->listed,
                         keys->shown,
                         keys->work,
                         keys->workers,
                         keys->signals,
                         keys->processed,
                         keys->meeting_prefix,
                         keys->failed,
                         keys->queue_prefix,
                         keys->iteration_prefix,
                         keys->processes,
                         keys->cancels,
                         keys->periodic,
                         keys->process,
                         keys->calls,
                         keys->beat,
                         keys->heard,
                         keys->process_prefix,
                         keys->bell_prefix,
                         keys->any_bell_prefix,
                         keys->calls_prefix,
                         keys->heard_prefix,
                         keys->recovered_prefix,
                         keys->unique_prefix,
                         keys->looked_prefix,
                         keys->receipt_prefix,
                         keys->dropped_prefix,
                         keys->waiting_prefix,
                         keys->places_prefix,
                         keys->freed_prefix,
                         keys->contended,
                         keys->heirs,
                         keys->unserved,
                         keys->unserved_prefix,
                         keys->former_processes,
                         keys->former_claims_prefix,
                         keys->former_bell_prefix,
                         keys->producer_prefix,
                         keys->result_prefix};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

void queue_keys_request(const char *prefix, const char *name, struct buffer *out)
{
    char key[1024];
    size_t prefix_length = strlen(prefix), name_length = strlen(name);
    invariant(prefix_length + name_length <= sizeof key); /* identities and names are bounded far below this */
    memcpy(key, prefix, prefix_length);
    memcpy(key + prefix_length, name, name_length);
    redis_request_bytes(out, key, prefix_length + name_length);
}

void queue_keys_request_work(const struct queue_keys *keys, const char *identity, struct buffer *out)
{
    char *key = key_join(keys->space, "", identity, ":work");
    redis_request_text(out, key);
    free(key);
}

void queue_keys_request_queue(const struct queue_keys *keys, const char *queue, struct buffer *out)
{
    queue_keys_request(keys->queue_prefix, queue, out);
}

void queue_keys_request_bell(const struct queue_keys *keys, const char *queue, struct buffer *out)
{
    queue_keys_request(keys->bell_prefix, queue, out);
}

bool queue_name_is_sound(const char *name)
{
    size_t length = strnlen(name, ENVELOPE_QUEUE_BYTES_MAX + 1);
    if (length < 1 || length > ENVELOPE_QUEUE_BYTES_MAX || strncmp(name, "hf:", 3) == 0)
        return false;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f)
            return false;
    return true;
}
