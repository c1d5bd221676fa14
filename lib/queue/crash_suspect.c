#include "queue/crash_suspect.h"

#include "queue/scripts.h"
#include "redis/request.h"

void crash_suspect_request(struct buffer *out, const struct queue_keys *keys, const char *identity, unsigned slot)
{
    redis_request_script(out, &queue_script_crash_suspect, 2, 2);
    redis_request_text(out, keys->processes);
    queue_keys_request(keys->process_prefix, identity, out);
    redis_request_text(out, identity);
    redis_request_integer(out, slot);
}
