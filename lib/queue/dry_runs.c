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

void dry_runs_lease_request(struct buffer *out, const char *run, const char *owner,
                            const struct dry_runs_record *record)
{
    redis_request_script(out, &queue_script_dry_lease, 2, record != NULL ? 8 : 4);
    keys_request(out, run);
    redis_request_texts(out, run, owner);
    redis_request_integer(out, DRY_RUNS_LEASE_S);
    redis_request_integer(out, DRY_RUNS_RECORD_MS);
    if (record == NULL)
        return;
    redis_request_texts(out, "who", record->who, "lock_prefix", record->lock_prefix);
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

bool dry_runs_take_read(const struct redis_reply *reply, struct dry_runs_record *record)
{
    if (reply->kind != REDIS_ARRAY || reply->count != 3 || reply->elements[0].kind != REDIS_STRING ||
        reply->elements[1].kind != REDIS_STRING)
        return false;
    *record = (struct dry_runs_record){.lock_prefix = reply->elements[0].bytes, .who = reply->elements[1].bytes};
    return true;
}

void dry_runs_forget_request(struct buffer *out, const char *run, const char *owner)
{
    redis_request_script(out, &queue_script_dry_forget, 2, 2);
    keys_request(out, run);
    redis_request_texts(out, run, owner);
}
