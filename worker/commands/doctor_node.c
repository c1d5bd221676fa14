/* The queue node: whether it keeps what it is given. */
#include "worker/commands/doctor.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "worker/print/human.h"
#include "worker/node_facts.h"

static const struct doctor_kind persistence_off = {
    "persistence-off", DOCTOR_ERROR, "Tasks live in the memory of this server alone: when it restarts, all are lost.",
    "Set `appendonly yes` there (CONFIG SET appendonly yes, and in its file)."};
static const struct doctor_kind snapshots_only = {
    "snapshots-only", DOCTOR_WARNING, "When this server crashes, the tasks since its last snapshot are lost.",
    "Set `appendonly yes` there."};
static const struct doctor_kind fsync_off = {
    "fsync-off", DOCTOR_WARNING, "When the machine loses power, tasks of up to half a minute are lost.",
    "Set `appendfsync everysec`, or `always` where not even a second may be lost."};
static const struct doctor_kind write_failing = {
    "persistence-failing", DOCTOR_ERROR, "The server cannot write to its disk: what is pushed now may not survive.",
    "Look at its log and its disk."};
static const struct doctor_kind eviction = {
    "eviction", DOCTOR_ERROR, "Under memory pressure the server deletes keys on its own: queues, claims, sets.",
    "Set `maxmemory-policy noeviction`."};
static const struct doctor_kind memory_nearly_full = {"memory-nearly-full", DOCTOR_WARNING,
                                                      "When maxmemory is reached, pushes are refused.",
                                                      "Raise maxmemory, or find what fills it: `holdfast status`."};
static const struct doctor_kind memory_full = {"memory-full", DOCTOR_ERROR,
                                               "The server refuses pushes, and every other write that needs memory.",
                                               "Raise maxmemory, or find what fills it: `holdfast status`."};
static const struct doctor_kind replicas_unwaited = {
    "replicas-not-waited-for", DOCTOR_WARNING,
    "A failover loses what no replica had received: tasks vanish, or run again.",
    "Set `min-replicas-to-write 1` and `min-replicas-max-lag 10`, or accept the loss."};
static const struct doctor_kind is_cluster = {
    "cluster", DOCTOR_ERROR, "Scripts here touch keys of several slots, which a Redis Cluster refuses.",
    "Use a single master, with replicas if you like."};
static const struct doctor_kind too_old = {"server-too-old", DOCTOR_ERROR,
                                           "Commands are missing that every move of a task needs.",
                                           "Update to Redis 6.2 or later."};
static const struct doctor_kind not_told = {
    "settings-unknown", DOCTOR_NOTE,
    "The user of this configuration may not ask for settings, so some of them could not be judged.",
    "Look yourself at save, appendfsync and min-replicas-to-write, or allow the user CONFIG GET."};

struct facts {
    const char *info;
    size_t length;
};

static const char *text_of(const struct facts *facts, const char *field, char out[32])
{
    return node_facts_field(facts->info, facts->length, field, out, 32);
}

static bool is(const struct facts *facts, const char *field, const char *value)
{
    char text[32];
    return strcmp(text_of(facts, field, text), value) == 0;
}

static long long number_of(const struct facts *facts, const char *field)
{
    char text[32];
    return strtoll(text_of(facts, field, text), NULL, 10);
}

static void judge_persistence(struct doctor *doctor, const struct facts *facts, const struct doctor_settings *settings)
{
    char text[32];
    bool has_aof = is(facts, "aof_enabled", "1");
    if (!has_aof && settings->is_known && settings->save[0] == '\0')
        doctor_find(doctor, &persistence_off, "the queue node writes nothing to its disk (appendonly no, save \"\")");
    else if (!has_aof)
        doctor_find(doctor, &snapshots_only, "the queue node writes snapshots only (appendonly no)");
    if (has_aof && strcmp(settings->fsync, "no") == 0)
        doctor_find(doctor, &fsync_off, "the queue node leaves it to the kernel when to write (appendfsync no)");
    if (has_aof && text_of(facts, "aof_last_write_status", text)[0] != '\0' && strcmp(text, "ok") != 0)
        doctor_find(doctor, &write_failing, "the last write to the append-only file failed");
    if (text_of(facts, "rdb_last_bgsave_status", text)[0] != '\0' && strcmp(text, "ok") != 0)
        doctor_find(doctor, &write_failing, "the last snapshot failed");
}

static void judge_memory(struct doctor *doctor, const struct facts *facts)
{
    char policy[32], used_text[HUMAN_TEXT_MAX], most_text[HUMAN_TEXT_MAX];
    long long used = number_of(facts, "used_memory"), most = number_of(facts, "maxmemory");
    text_of(facts, "maxmemory_policy", policy);
    if (policy[0] != '\0' && strcmp(policy, "noeviction") != 0)
        doctor_find(doctor, &eviction, "maxmemory-policy of the queue node is %s", policy);
    if (most > 0 && used > most / 10 * 9)
        doctor_find(doctor, used > most ? &memory_full : &memory_nearly_full, "the queue node uses %s of %s",
                    human_size(used, used_text), human_size(most, most_text));
}

void doctor_judge_node(struct doctor *doctor, const char *info, size_t length, const struct doctor_settings *settings)
{
    struct facts facts = {info, length};
    struct node_facts read;
    judge_persistence(doctor, &facts, settings);
    judge_memory(doctor, &facts);
    long long replicas = number_of(&facts, "connected_slaves");
    if (replicas > 0 && strcmp(settings->min_replicas, "0") == 0)
        doctor_find(doctor, &replicas_unwaited, "%lld replica%s, and min-replicas-to-write is 0", replicas,
                    human_plural(replicas));
    if (is(&facts, "cluster_enabled", "1"))
        doctor_find(doctor, &is_cluster, "the queue node is part of a Redis Cluster");
    if (node_facts_parse(&read, info, length) && (read.major < 6 || (read.major == 6 && read.minor < 2)))
        doctor_find(doctor, &too_old, "the queue node is %s %s", read.server, read.version);
    if (!settings->is_known)
        doctor_find(doctor, &not_told, "the queue node does not answer CONFIG GET");
}

/* CONFIG GET answers a name and a value. */
static void setting_take(const struct doctor *doctor, size_t index, char *out, size_t size)
{
    const struct redis_reply *reply = inquiry_reply_of(doctor->console->inquiry, index, REDIS_ARRAY);
    if (reply != NULL && reply->count == 2 && reply->elements[1].bytes != NULL)
        snprintf(out, size, "%s", reply->elements[1].bytes);
}

int doctor_examine_node(struct doctor *doctor)
{
    struct inquiry *inquiry = doctor->console->inquiry;
    struct doctor_settings settings = {.is_known = false};
    inquiry_begin(inquiry);
    inquiry_ask(inquiry, "CONFIG", "GET", "save", NULL);
    inquiry_ask(inquiry, "CONFIG", "GET", "appendfsync", NULL);
    inquiry_ask(inquiry, "CONFIG", "GET", "min-replicas-to-write", NULL);
    inquiry_ask(inquiry, "INFO", NULL);
    int code = console_run(doctor->console);
    if (code != EXIT_CODE_OK)
        return code;
    const struct redis_reply *save = inquiry_reply_of(inquiry, 0, REDIS_ARRAY);
    settings.is_known = save != NULL && save->count == 2;
    setting_take(doctor, 0, settings.save, sizeof settings.save);
    setting_take(doctor, 1, settings.fsync, sizeof settings.fsync);
    setting_take(doctor, 2, settings.min_replicas, sizeof settings.min_replicas);
    const struct redis_reply *info = inquiry_reply_of(inquiry, 3, REDIS_STRING);
    if (info != NULL)
        doctor_judge_node(doctor, info->bytes, info->length, &settings);
    else
        doctor_find(doctor, &not_told, "the queue node does not answer INFO");
    return code;
}
