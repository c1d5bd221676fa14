#include "queue/dry_run_hosts.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "queue/scripts.h"
#include "queue/keys.h"

const struct redis_script *const dry_run_host_scripts[] = {&queue_script_dry_coordinate, &queue_script_dry_join};

static void keys_request(struct buffer *out, const char *space)
{
    static const char *const names[] = {"run", "guests", "records"};
    struct queue_keys keys;
    queue_keys_init(&keys, space, "");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        queue_keys_request(keys.meeting_prefix, names[i], out);
    queue_keys_fini(&keys);
}

void coordinator_request(struct buffer *out, const struct coordinator_call *call)
{
    redis_request_script(out, &queue_script_dry_coordinate, 3, 5);
    keys_request(out, call->space);
    redis_request_bytes(out, call->run.bytes, call->run.length);
    redis_request_text(out, call->state);
    redis_request_integer(out, call->ttl_ms);
    redis_request_text(out, call->taken);
    redis_request_integer(out, call->batches);
}

static const struct redis_reply *element_of(const struct redis_reply *reply, size_t index, enum redis_reply_kind kind)
{
    bool is_there = reply->kind == REDIS_ARRAY && index < reply->count;
    return is_there && reply->elements[index].kind == kind ? &reply->elements[index] : NULL;
}

static bool time_read(const struct redis_reply *reply, int64_t *node_us)
{
    const struct redis_reply *time = element_of(reply, 0, REDIS_INTEGER);
    if (time == NULL || time->integer < 0 || time->integer > INT64_MAX / (4 * NS_PER_US))
        return false;
    *node_us = time->integer;
    return true;
}

static struct text_span span_of(const struct redis_reply *reply)
{
    return (struct text_span){reply->bytes, reply->length};
}

/* Names with a NUL are nobody's: they would be cut. */
static bool is_text(const struct redis_reply *reply)
{
    return reply->kind == REDIS_STRING && strlen(reply->bytes) == reply->length;
}

static bool hosts_read(const struct redis_reply *hosts, const struct coordinator_handler *handler)
{
    static const char beat[] = "beat:";
    if (hosts == NULL || hosts->count % 2 != 0)
        return false;
    for (size_t i = 0; i + 1 < hosts->count; i += 2) {
        const struct redis_reply *field = &hosts->elements[i], *value = &hosts->elements[i + 1];
        if (!is_text(field) || value->kind != REDIS_STRING)
            return false;
        if (strncmp(field->bytes, beat, sizeof beat - 1) == 0)
            handler->host(handler->context, field->bytes + sizeof beat - 1, span_of(value));
    }
    return true;
}

static bool records_read(const struct redis_reply *batches, const struct coordinator_handler *handler,
                         char taken[HOST_RECORD_ID_MAX])
{
    for (size_t i = 0; batches != NULL && i < batches->count; i++) {
        const struct redis_reply *id = element_of(&batches->elements[i], 0, REDIS_STRING);
        const struct redis_reply *fields = element_of(&batches->elements[i], 1, REDIS_ARRAY);
        if (id == NULL || fields == NULL || fields->count != 2 || !is_text(id) || id->length >= HOST_RECORD_ID_MAX ||
            !is_text(&fields->elements[0]) || fields->elements[1].kind != REDIS_STRING)
            return false;
        handler->records(handler->context, fields->elements[0].bytes, span_of(&fields->elements[1]));
        memcpy(taken, id->bytes, id->length + 1);
    }
    return batches != NULL;
}

bool coordinator_read(const struct redis_reply *reply, const struct coordinator_handler *handler,
                      struct coordinator_answer *answer)
{
    const struct redis_reply *is_there = element_of(reply, 3, REDIS_INTEGER);
    if (is_there == NULL || !time_read(reply, &answer->node_us))
        return false;
    answer->is_there = is_there->integer != 0;
    return hosts_read(element_of(reply, 1, REDIS_ARRAY), handler) &&
           records_read(element_of(reply, 2, REDIS_ARRAY), handler, answer->taken);
}

void remote_host_request(struct buffer *out, const struct remote_host_call *visit)
{
    redis_request_script(out, &queue_script_dry_join, 3, 6);
    keys_request(out, visit->space);
    redis_request_text(out, visit->name);
    redis_request_bytes(out, visit->beat.bytes, visit->beat.length);
    redis_request_integer(out, visit->ttl_ms);
    redis_request_integer(out, (int64_t)visit->number);
    redis_request_bytes(out, visit->records.bytes, visit->records.length);
    redis_request_integer(out, visit->waiting_max);
}

bool remote_host_read(const struct redis_reply *reply, struct text_span *state, uint64_t *left, int64_t *node_us)
{
    const struct redis_reply *time = element_of(reply, 0, REDIS_INTEGER);
    const struct redis_reply *text = element_of(reply, 1, REDIS_STRING);
    const struct redis_reply *number = element_of(reply, 2, REDIS_INTEGER);
    if (time == NULL)
        return false;
    *node_us = time->integer;
    *state = text != NULL ? span_of(text) : (struct text_span){NULL, 0};
    *left = number != NULL && number->integer > 0 ? (uint64_t)number->integer : 0;
    return true;
}
