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

void dry_runs_lease_request(struct buffer *out, const struct dry_runs_host *host, enum dry_runs_step step)
{
    static const char *const steps[] = {
        [DRY_RUNS_COME] = "come", [DRY_RUNS_STAY] = "stay", [DRY_RUNS_READY] = "ready", [DRY_RUNS_LEAVE] = "leave"};
    redis_request_script(out, &queue_script_dry_lease, 2, 8);
    keys_request(out, host->run);
    redis_request_texts(out, host->run, host->host, steps[step]);
    redis_request_integer(out, DRY_RUNS_LEASE_S);
    redis_request_integer(out, DRY_RUNS_RECORD_MS);
    redis_request_integer(out, host->hosts);
    redis_request_texts(out, host->who, host->lock_prefix);
}

bool dry_runs_lease_read(const struct redis_reply *reply, struct dry_runs_lease *lease)
{
    if (reply->kind != REDIS_ARRAY || reply->count != 3)
        return false;
    for (size_t i = 0; i < reply->count; i++)
        if (reply->elements[i].kind != REDIS_INTEGER || reply->elements[i].integer < 0)
            return false;
    *lease = (struct dry_runs_lease){.node_us = reply->elements[0].integer,
                                     .begins_us = reply->elements[1].integer,
                                     .hosts = (unsigned)reply->elements[2].integer};
    return true;
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

void dry_runs_take_request(struct buffer *out, const char *run, const char *taker)
{
    redis_request_script(out, &queue_script_dry_take, 2, 4);
    keys_request(out, run);
    redis_request_texts(out, run, taker);
    redis_request_integer(out, DRY_RUNS_LEASE_S);
    redis_request_integer(out, DRY_RUNS_RECORD_MS);
}

const char *dry_runs_take_read(const struct redis_reply *reply)
{
    return reply->kind == REDIS_STRING ? reply->bytes : NULL;
}

void dry_runs_forget_request(struct buffer *out, const char *run, const char *remover)
{
    redis_request_script(out, &queue_script_dry_forget, 2, 2);
    keys_request(out, run);
    redis_request_texts(out, run, remover);
}
