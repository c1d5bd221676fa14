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
        .queues = key_join(space, "queues", "", ""),
        .schedule = key_join(space, "schedule", "", ""),
        .retry = key_join(space, "retry", "", ""),
        .dead = key_join(space, "dead", "", ""),
        .processes = key_join(space, "hf:processes", "", ""),
        .claims = key_join(space, "hf:claims:", identity, ""),
        .queue_prefix = key_join(space, "queue:", "", ""),
        .bell_prefix = key_join(space, "hf:bell:", identity, ":"),
    };
}

void queue_keys_fini(struct queue_keys *keys)
{
    free(keys->queues);
    free(keys->schedule);
    free(keys->retry);
    free(keys->dead);
    free(keys->processes);
    free(keys->claims);
    free(keys->queue_prefix);
    free(keys->bell_prefix);
}

static void request_joined(const char *prefix, const char *queue, struct buffer *out)
{
    char key[1024];
    size_t prefix_length = strlen(prefix), queue_length = strlen(queue);
    invariant(prefix_length + queue_length <= sizeof key); /* identities and names are bounded far below this */
    memcpy(key, prefix, prefix_length);
    memcpy(key + prefix_length, queue, queue_length);
    redis_request_bytes(out, key, prefix_length + queue_length);
}

void queue_keys_request_queue(const struct queue_keys *keys, const char *queue, struct buffer *out)
{
    request_joined(keys->queue_prefix, queue, out);
}

void queue_keys_request_bell(const struct queue_keys *keys, const char *queue, struct buffer *out)
{
    request_joined(keys->bell_prefix, queue, out);
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
