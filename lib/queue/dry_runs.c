#include "queue/dry_runs.h"

#include <stdio.h>
#include <string.h>

#include "queue/keys.h"
#include "queue/scripts.h"

#define DRY   QUEUE_SCHEME "dry:"
#define INDEX DRY "runs"

const struct redis_script *const dry_runs_scripts[] = {&queue_script_dry_lease, &queue_script_dry_ended,
                                                       &queue_script_dry_take, &queue_script_dry_forget};
_Static_assert(sizeof dry_runs_scripts / sizeof dry_runs_scripts[0] == DRY_RUNS_SCRIPTS, "all of them");

/* --- names -------------------------------------------------------------------------------------------------------- */

void dry_runs_space(const char *run, struct buffer *out)
{
    buffer_format(out, DRY "%s:", run);
}

void dry_runs_lock_space(const char *run, struct buffer *out)
{
    buffer_format(out, "dry:%s:", run);
}

const char *dry_runs_index(void)
{
    return INDEX;
}

bool dry_runs_id_is_sound(const char *run)
{
    return strspn(run, "0123456789abcdef") == DRY_RUNS_ID_DIGITS && run[DRY_RUNS_ID_DIGITS] == '\0';
}

bool dry_runs_key_read(const char *key, char run[DRY_RUNS_ID_DIGITS + 1])
{
    if (strncmp(key, DRY, strlen(DRY)) != 0)
        return false;
    const char *id = key + strlen(DRY);
    if (strspn(id, "0123456789abcdef") != DRY_RUNS_ID_DIGITS || id[DRY_RUNS_ID_DIGITS] != ':')
        return false;
    memcpy(run, id, DRY_RUNS_ID_DIGITS);
    run[DRY_RUNS_ID_DIGITS] = '\0';
    return true;
}

static void keys_request(struct buffer *out, const char *run)
{
    redis_request_text(out, INDEX);
    queue_keys_request(DRY "run:", run, out);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

void dry_runs_lease_request(struct buffer *out, const char *run, const char *owner, const char *who,
                            const char *lock_prefix)
{
    redis_request_script(out, &queue_script_dry_lease, 2, lock_prefix != NULL ? 8 : 4);
    keys_request(out, run);
    redis_request_texts(out, run, owner);
    redis_request_integer(out, DRY_RUNS_LEASE_S);
    redis_request_integer(out, DRY_RUNS_RECORD_MS);
    if (lock_prefix != NULL)
        redis_request_texts(out, "who", who, "lock_prefix", lock_prefix);
}

void dry_runs_ended_request(struct buffer *out, unsigned count)
{
    redis_request_script(out, &queue_script_dry_ended, 1, 1);
    redis_request_text(out, INDEX);
    redis_request_integer(out, count);
}

bool dry_runs_ended_read(const struct redis_reply *reply, size_t index, char run[DRY_RUNS_ID_DIGITS + 1])
{
    if (reply->kind != REDIS_ARRAY || index >= reply->count || reply->elements[index].kind != REDIS_STRING ||
        !dry_runs_id_is_sound(reply->elements[index].bytes))
        return false;
    snprintf(run, DRY_RUNS_ID_DIGITS + 1, "%s", reply->elements[index].bytes);
    return true;
}

void dry_runs_take_request(struct buffer *out, const char *run, const char *owner)
{
    redis_request_script(out, &queue_script_dry_take, 2, 4);
    keys_request(out, run);
    redis_request_texts(out, run, owner);
    redis_request_integer(out, DRY_RUNS_LEASE_S);
    redis_request_integer(out, DRY_RUNS_RECORD_MS);
}

const char *dry_runs_take_read(const struct redis_reply *reply)
{
    bool is_taken = reply->kind == REDIS_ARRAY && reply->count == 3 && reply->elements[0].kind == REDIS_STRING;
    return is_taken ? reply->elements[0].bytes : NULL;
}

void dry_runs_forget_request(struct buffer *out, const char *run, const char *owner)
{
    redis_request_script(out, &queue_script_dry_forget, 2, 2);
    keys_request(out, run);
    redis_request_texts(out, run, owner);
}

/* --- the hosts of one dry run ------------------------------------------------------------------------------------- */

const struct redis_script *const dry_run_host_scripts[] = {&queue_script_dry_coordinate, &queue_script_dry_join};

static void host_keys_request(struct buffer *out, const char *space)
{
    static const char *const names[] = {"run", "guests", "records"};
    struct queue_keys keys;
    queue_keys_init(&keys, space, "");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        queue_keys_request(keys.meeting_prefix, names[i], out);
    queue_keys_fini(&keys);
}

void coordinator_request(struct buffer *out, const char *space, struct text_span run, const char *state,
                         const char *taken, unsigned batches)
{
    redis_request_script(out, &queue_script_dry_coordinate, 3, 5);
    host_keys_request(out, space);
    redis_request_bytes(out, run.bytes, run.length);
    redis_request_text(out, state);
    redis_request_integer(out, DRY_RUN_HOSTS_TTL_MS);
    redis_request_text(out, taken);
    redis_request_integer(out, batches);
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

/* A name with a NUL is not ours: it would be cut. */
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

void remote_host_request(struct buffer *out, const char *space, const char *name, struct text_span heartbeat,
                         uint64_t number, struct text_span records, unsigned waiting_max)
{
    redis_request_script(out, &queue_script_dry_join, 3, 6);
    host_keys_request(out, space);
    redis_request_text(out, name);
    redis_request_bytes(out, heartbeat.bytes, heartbeat.length);
    redis_request_integer(out, DRY_RUN_HOSTS_TTL_MS);
    redis_request_integer(out, (int64_t)number);
    redis_request_bytes(out, records.bytes, records.length);
    redis_request_integer(out, waiting_max);
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
