/* Our own keys, by SCAN with a budget: those of processes that are not listed any more, and those that nobody knows.
 *
 * The leases are read once more behind the scan, so that a process that started meanwhile is not taken for gone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/real.h"
#include "queue/dry_runs.h"
#include "worker/commands/doctor.h"

/* --- what dry runs left behind ------------------------------------------------------------------------------------ */

/* Keys of dry runs that are over, as `holdfast doctor` meets them while it walks through the keys of the queue node,
 * and runs in their index that nobody leads any more. */

enum { DRY_LEFTOVERS_MAX = 32 };

struct dry_leftovers {
    struct dry_leftover {
        char run[DRY_RUNS_ID_DIGITS + 1];
        unsigned long long keys;
    } runs[DRY_LEFTOVERS_MAX]; /* further ones are left out */
    size_t count;
};

static const struct doctor_kind dry_run_left = {
    "dry-run-left", DOCTOR_WARNING,
    "A dry run was killed, or its machine was: its keys take memory, and no worker looks at them.",
    "The next dry run on these nodes removes them. If it ended more than 90 days ago, remove them by hand: "
    "redis-cli --scan --pattern 'hf:2:dry:RUN:*' | xargs redis-cli unlink"};

static struct dry_leftover *leftover_of(struct dry_leftovers *leftovers, const char *run)
{
    for (size_t i = 0; i < leftovers->count; i++)
        if (strcmp(leftovers->runs[i].run, run) == 0)
            return &leftovers->runs[i];
    if (leftovers->count == DRY_LEFTOVERS_MAX)
        return NULL;
    struct dry_leftover *leftover = &leftovers->runs[leftovers->count++];
    *leftover = (struct dry_leftover){.keys = 0};
    snprintf(leftover->run, sizeof leftover->run, "%s", run);
    return leftover;
}

/* True when the key is one of a dry run. */
static bool dry_leftovers_note(struct dry_leftovers *leftovers, const char *key)
{
    char run[DRY_RUNS_ID_DIGITS + 1];
    if (!dry_runs_key_read(key, run))
        return false;
    struct dry_leftover *leftover = leftover_of(leftovers, run);
    if (leftover != NULL)
        leftover->keys++;
    return true;
}

static bool is_over(const struct doctor *doctor, size_t index)
{
    const struct redis_reply *score = inquiry_reply_of(doctor->console->inquiry, index, REDIS_STRING);
    return score == NULL || wall_read(score->bytes).us < doctor->console->now.us;
}

/* Those that the walk did not meet, because it ended before, or because their keys have gone by themselves. */
static int index_take(struct dry_leftovers *leftovers, struct doctor *doctor)
{
    inquiry_begin(doctor->console->inquiry);
    inquiry_ask(doctor->console->inquiry, "ZRANGE", dry_runs_index(), "0", "31", NULL);
    int code = console_run(doctor->console);
    const struct redis_reply *runs =
        code == EXIT_CODE_OK ? inquiry_reply_of(doctor->console->inquiry, 0, REDIS_ARRAY) : NULL;
    char run[DRY_RUNS_ID_DIGITS + 1];
    for (size_t i = 0; runs != NULL && i < runs->count; i++)
        if (dry_runs_ended_read(runs, i, run))
            leftover_of(leftovers, run);
    return code;
}

/* Finds those that are over. Returns an exit code. */
static int dry_leftovers_judge(struct dry_leftovers *leftovers, struct doctor *doctor)
{
    int code = index_take(leftovers, doctor);
    if (code != EXIT_CODE_OK || leftovers->count == 0)
        return code;
    inquiry_begin(doctor->console->inquiry);
    for (size_t i = 0; i < leftovers->count; i++)
        inquiry_ask(doctor->console->inquiry, "ZSCORE", dry_runs_index(), leftovers->runs[i].run, NULL);
    code = console_run(doctor->console);
    for (size_t i = 0; code == EXIT_CODE_OK && i < leftovers->count; i++)
        if (is_over(doctor, i))
            doctor_find(doctor, &dry_run_left,
                        "the dry run %s is over and was not cleaned up; %llu of its keys were met",
                        leftovers->runs[i].run, leftovers->runs[i].keys);
    return code;
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

enum { SCAN_COUNT = 1000, ORPHANS_MAX = 50 };

static const struct doctor_kind orphaned_key = {
    "orphaned-key", DOCTOR_ERROR,
    "It belongs to a process that is in no list, so nobody recovers it: a task in it runs nowhere.",
    "Look at it (HGETALL, LRANGE) and push what is in it again; it is left by a restored backup or by deleted keys."};
static const struct doctor_kind unknown_key = {
    "unknown-key", DOCTOR_NOTE, "Keys below hf: are Holdfast's; this one is of another version, or of somebody else.",
    "Nothing, when workers of another version run here."};
static const struct doctor_kind scan_cut = {"scan-cut", DOCTOR_NOTE,
                                            "Orphaned keys may be among those that were not looked at.",
                                            "Look further with --key-limit N, at a quiet time."};

struct orphans {
    struct doctor *doctor;
    char *keys[ORPHANS_MAX];
    char *identities[ORPHANS_MAX];
    size_t count, unknown;
    char unknown_example[128];
    struct dry_leftovers dry;
};

/* The identity in a key "PREFIX" HOST:PID:NONCE [":" QUEUE]; NULL when the key is not of that form. Freed by the
 * caller. */
static char *identity_of(const char *key, const char *prefix, bool has_queue)
{
    size_t length = strlen(prefix);
    if (strncmp(key, prefix, length) != 0)
        return NULL;
    const char *identity = key + length, *end = identity + strlen(identity);
    if (has_queue) { /* the queue's name holds no blanks, but may hold colons: the third one ends the nonce */
        const char *colon = identity;
        for (int i = 0; i < 3 && colon != NULL; i++)
            colon = strchr(colon + (i > 0), ':');
        if (colon == NULL)
            return NULL;
        end = colon;
    }
    return memory_text_of(identity, (size_t)(end - identity));
}

static void key_take(struct orphans *orphans, const char *key)
{
    const struct queue_keys *keys = &orphans->doctor->console->keys;
    const struct {
        const char *prefix;
        bool is_claims, has_queue;
    } known[] = {{keys->process_prefix, true, false},
                 {keys->any_bell_prefix, true, true},
                 {keys->calls_prefix, false, false},
                 {keys->recovered_prefix, false, false},
                 {keys->unique_prefix, false, false},
                 {keys->receipt_prefix, false, false},
                 {"hf:2:", false, false},
                 {"hf:fence:", false, false}, /* of locks, where one server is for everything */
                 {"hf:lock:", false, false},
                 {keys->former_claims_prefix, false, false},
                 {keys->former_bell_prefix, false, false},
                 {keys->former_processes, false, false}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strncmp(key, known[i].prefix, strlen(known[i].prefix)) != 0)
            continue;
        char *identity = known[i].is_claims && orphans->count < ORPHANS_MAX
                             ? identity_of(key, known[i].prefix, known[i].has_queue)
                             : NULL;
        if (identity != NULL) {
            orphans->keys[orphans->count] = memory_text(key);
            orphans->identities[orphans->count++] = identity;
        }
        return;
    }
    if (orphans->unknown++ == 0)
        snprintf(orphans->unknown_example, sizeof orphans->unknown_example, "%s", key);
}

/* Of the claims that were met, only those of unlisted processes are kept. */
static void key_consider(struct orphans *orphans, const char *key)
{
    size_t before = orphans->count;
    if (dry_leftovers_note(&orphans->dry, key))
        return;
    key_take(orphans, key);
    if (orphans->count == before)
        return;
    const struct fleet_process *process = fleet_find(&orphans->doctor->status.fleet, orphans->identities[before]);
    if (process == NULL || !process->is_leased)
        return;
    free(orphans->keys[before]);
    free(orphans->identities[before]);
    orphans->count = before;
}

static int scan(struct orphans *orphans, bool *is_whole)
{
    struct doctor *doctor = orphans->doctor;
    char cursor[32] = "0", count[16];
    snprintf(count, sizeof count, "%d", SCAN_COUNT);
    do {
        inquiry_begin(doctor->console->inquiry);
        inquiry_ask(doctor->console->inquiry, "SCAN", cursor, "MATCH", "hf:*", "COUNT", count, NULL);
        int code = console_run(doctor->console);
        if (code != EXIT_CODE_OK)
            return code;
        const struct redis_reply *reply = inquiry_reply_of(doctor->console->inquiry, 0, REDIS_ARRAY);
        if (reply == NULL || reply->count != 2)
            break;
        snprintf(cursor, sizeof cursor, "%s", reply->elements[0].bytes);
        doctor->keys_looked_at += SCAN_COUNT;
        for (size_t i = 0; i < reply->elements[1].count; i++)
            key_consider(orphans, reply->elements[1].elements[i].bytes);
    } while (strcmp(cursor, "0") != 0 && doctor->keys_looked_at < doctor->key_limit);
    *is_whole = strcmp(cursor, "0") == 0;
    return EXIT_CODE_OK;
}

static int orphans_judge(struct orphans *orphans)
{
    struct doctor *doctor = orphans->doctor;
    char quoted[LOG_QUOTE_MAX];
    inquiry_begin(doctor->console->inquiry);
    for (size_t i = 0; i < orphans->count; i++) {
        inquiry_ask(doctor->console->inquiry, "ZSCORE", doctor->console->keys.processes, orphans->identities[i], NULL);
        inquiry_ask(doctor->console->inquiry, "EXISTS", orphans->keys[i], NULL);
    }
    int code = console_run(doctor->console);
    for (size_t i = 0; code == EXIT_CODE_OK && i < orphans->count; i++)
        if (inquiry_reply(doctor->console->inquiry, 2 * i)->kind == REDIS_NIL &&
            inquiry_integer(doctor->console->inquiry, 2 * i + 1, 0) == 1)
            doctor_find(doctor, &orphaned_key, "the key %s belongs to no process that is listed",
                        log_quote(orphans->keys[i], quoted));
    return code;
}

int doctor_examine_keys(struct doctor *doctor)
{
    struct orphans orphans = {.doctor = doctor};
    char quoted[LOG_QUOTE_MAX];
    bool is_whole = true;
    int code = scan(&orphans, &is_whole);
    if (code == EXIT_CODE_OK)
        code = orphans_judge(&orphans);
    if (code == EXIT_CODE_OK)
        code = dry_leftovers_judge(&orphans.dry, doctor);
    for (size_t i = 0; i < orphans.count; i++) {
        free(orphans.keys[i]);
        free(orphans.identities[i]);
    }
    if (orphans.unknown > 0)
        doctor_find(doctor, &unknown_key, "%zu key%s below hf: that this version does not know, %s", orphans.unknown,
                    orphans.unknown == 1 ? "" : "s", log_quote(orphans.unknown_example, quoted));
    if (!is_whole)
        doctor_find(doctor, &scan_cut, "only about %llu keys of the node were looked at", doctor->keys_looked_at);
    return code;
}
