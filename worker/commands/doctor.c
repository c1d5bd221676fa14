/* What the doctor looks at: whether the queue node keeps what it is given, processes, clocks and queues, what waits,
 * keys, the lock nodes, and what the configuration itself gives to think about. */
#include "worker/commands/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/real.h"
#include "queue/dry_runs.h"
#include "worker/commands/nodes.h"
#include "worker/commands/task_view.h"
#include "worker/commands/task_walk.h"
#include "worker/nodes/node_facts.h"
#include "worker/nodes/node_probe.h"
#include "worker/print/human.h"

enum { WHAT_MAX = 700 };

void doctor_find(struct doctor *doctor, const struct doctor_kind *kind, const char *what, ...)
{
    char text[WHAT_MAX];
    va_list values;
    va_start(values, what);
    vsnprintf(text, sizeof text, what, values);
    va_end(values);
    doctor->items = memory_resize(doctor->items, doctor->count + 1, sizeof *doctor->items);
    doctor->items[doctor->count++] = (struct doctor_finding){.kind = kind, .what = memory_text(log_defuse(text))};
    doctor->counts[kind->severity]++;
}

void doctor_end(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->count; i++)
        free(doctor->items[i].what);
    free(doctor->items);
    status_free(&doctor->status);
}

/* --- the queue node --------------------------------------------------------------------------------------------- */

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
    const struct redis_reply *reply = node_client_reply_of(doctor->console->client, index, REDIS_ARRAY);
    if (reply != NULL && reply->count == 2 && reply->elements[1].bytes != NULL)
        snprintf(out, size, "%s", reply->elements[1].bytes);
}

void doctor_examine_node(struct doctor *doctor)
{
    struct node_client *client = doctor->console->client;
    struct doctor_settings settings = {.is_known = false};
    node_client_begin(client);
    node_client_ask(client, "CONFIG", "GET", "save", NULL);
    node_client_ask(client, "CONFIG", "GET", "appendfsync", NULL);
    node_client_ask(client, "CONFIG", "GET", "min-replicas-to-write", NULL);
    node_client_ask(client, "INFO", NULL);
    if (console_run(doctor->console) != EXIT_CODE_OK)
        return;
    const struct redis_reply *save = node_client_reply_of(client, 0, REDIS_ARRAY);
    settings.is_known = save != NULL && save->count == 2;
    setting_take(doctor, 0, settings.save, sizeof settings.save);
    setting_take(doctor, 1, settings.fsync, sizeof settings.fsync);
    setting_take(doctor, 2, settings.min_replicas, sizeof settings.min_replicas);
    const struct redis_reply *info = node_client_reply_of(client, 3, REDIS_STRING);
    if (info != NULL)
        doctor_judge_node(doctor, info->bytes, info->length, &settings);
    else
        doctor_find(doctor, &not_told, "the queue node does not answer INFO");
}

/* --- processes and queues ----------------------------------------------------------------------------------------- */

/* Processes, their clocks, and the queues that they serve or do not serve. */

#define CLOCK_AHEAD_US (2 * US_PER_S)
#define BEAT_LATE_US   (45 * US_PER_S) /* a heartbeat comes every few seconds, and is kept for 60 s */

static const struct doctor_kind foreign_on_our_queues = {
    "foreign-worker-on-our-queues", DOCTOR_ERROR,
    "It takes tasks for which it has no handler, and loses what it was running when it dies.",
    "Give the two programs queues of their own names, or databases of their own."};
static const struct doctor_kind foreign_worker = {
    "foreign-worker", DOCTOR_WARNING,
    "Its scheduler moves due tasks of `schedule` and `retry` in two steps and loses one when it dies in between; some "
    "(sidekiq-rs, sidekiq.cr) drop members that they do not know.",
    "Give it a database of its own."};
static const struct doctor_kind clock_here = {
    "clock-offset", DOCTOR_WARNING,
    "Times in tasks and on dashboards are wrong by as much; scheduled tasks come early or late.",
    "Synchronise the clocks of both machines (NTP)."};
static const struct doctor_kind clock_process = {"clock-offset-of-process", DOCTOR_WARNING,
                                                 "Times that this process writes into tasks are wrong by as much.",
                                                 "Synchronise the clock of its host (NTP)."};
static const struct doctor_kind beat_late = {
    "heartbeat-late", DOCTOR_WARNING,
    "Its lease runs, but what dashboards show of it is old: its clock is behind, or it is overloaded.",
    "Look at the clock and the load of its host."};
static const struct doctor_kind queue_paused = {"queue-paused", DOCTOR_NOTE,
                                                "No worker claims from it until it is resumed.",
                                                "`holdfast resume NAME` when that is not meant."};
static const struct doctor_kind fleet_cut = {"fleet-cut", DOCTOR_NOTE,
                                             "Only the first ten thousand processes were looked at.",
                                             "Remove what foreign workers left in `processes`."};

static bool is_ours(const struct doctor *doctor, const char *queue)
{
    const struct config_worker *worker = &doctor->console->config->worker;
    for (size_t i = 0; i < worker->queues.count; i++)
        if (strcmp(worker->queues.items[i], queue) == 0)
            return true;
    for (size_t i = 0; i < doctor->status.fleet.count; i++) {
        const struct fleet_process *process = &doctor->status.fleet.items[i];
        if (process->state == FLEET_ALIVE && fleet_process_serves(process, queue))
            return true;
    }
    return false;
}

/* The queue of this process that is ours too, or NULL. */
static const char *shared_queue(const struct doctor *doctor, const struct fleet_process *process)
{
    for (size_t i = 0; i < process->info.queue_count; i++)
        if (is_ours(doctor, process->info.queues[i]))
            return process->info.queues[i];
    return NULL;
}

/* One finding for all of them, with the first as the example: a foreign fleet has hundreds, and the remedy is one. */
static void examine_foreign(struct doctor *doctor, bool on_our_queues)
{
    const struct fleet *fleet = &doctor->status.fleet;
    const struct fleet_process *first = NULL;
    char quoted[LOG_QUOTE_MAX], version[LOG_QUOTE_MAX], queue[LOG_QUOTE_MAX], others[64] = "";
    size_t count = 0;
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_process *process = &fleet->items[i];
        if (process->state != FLEET_FOREIGN || (on_our_queues && shared_queue(doctor, process) == NULL))
            continue;
        first = first != NULL ? first : process;
        count++;
    }
    if (first == NULL)
        return;
    if (count > 1)
        snprintf(others, sizeof others, ", and so %s %zu more", on_our_queues ? "do" : "are", count - 1);
    log_quote(first->identity, quoted);
    log_quote(first->info.version, version);
    if (on_our_queues)
        doctor_find(doctor, &foreign_on_our_queues, "%s (version %s) serves the queue %s, which is ours%s", quoted,
                    version, log_quote(shared_queue(doctor, first), queue), others);
    else
        doctor_find(doctor, &foreign_worker, "%s (version %s) is a worker of another program%s", quoted, version,
                    others);
}

static void examine_clock(struct doctor *doctor, const struct fleet_process *process)
{
    char quoted[LOG_QUOTE_MAX], human[HUMAN_TEXT_MAX];
    int64_t age = doctor->console->now.us - process->beat.us;
    if (process->beat.us == 0 || process->state != FLEET_ALIVE)
        return;
    if (age < -CLOCK_AHEAD_US)
        doctor_find(doctor, &clock_process, "the clock of %s is ahead of the queue node's by %s",
                    log_quote(process->identity, quoted), human_span(-age, human));
    else if (age > BEAT_LATE_US)
        doctor_find(doctor, &beat_late, "the last heartbeat of %s is %s old", log_quote(process->identity, quoted),
                    human_span(age, human));
}

static void examine_processes(struct doctor *doctor)
{
    const struct fleet *fleet = &doctor->status.fleet;
    for (size_t i = 0; i < fleet->count; i++)
        examine_clock(doctor, &fleet->items[i]);
    examine_foreign(doctor, true);
    examine_foreign(doctor, false);
    if (fleet->is_cut)
        doctor_find(doctor, &fleet_cut, "there are more than %d processes", FLEET_MAX);
}

static void examine_own_clock(struct doctor *doctor)
{
    const struct console *console = doctor->console;
    char human[HUMAN_TEXT_MAX];
    int64_t apart = console->here.us - console->now.us;
    int64_t certain = (apart < 0 ? -apart : apart) - console->round_trip_us;
    if (certain > US_PER_S)
        doctor_find(doctor, &clock_here, "the clock of this machine is %s the queue node's by %s",
                    apart > 0 ? "ahead of" : "behind", human_span(certain, human));
}

static void examine_queues(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->status.backlog.count; i++) {
        const struct backlog_queue *queue = &doctor->status.backlog.items[i];
        char quoted[LOG_QUOTE_MAX];
        log_quote(queue->name, quoted);
        if (queue->is_paused)
            doctor_find(doctor, &queue_paused, "the queue %s is paused", quoted);
    }
}

void doctor_examine_fleet(struct doctor *doctor)
{
    examine_own_clock(doctor);
    examine_processes(doctor);
    examine_queues(doctor);
}

/* --- states ------------------------------------------------------------------------------------------------------- */

/* What waits in the sets and in claims, by samples from the beginning. */

enum { SAMPLE = 1000, PAGE = 100, NAMES_MAX = 20 };

static const struct doctor_kind due_unserved = {
    "scheduled-for-unserved-queue", DOCTOR_WARNING, "When these tasks become due, they wait in a queue for ever.",
    "Let a worker serve the queue (worker.queues), or delete them: `holdfast tasks delete --all --state STATE --queue "
    "NAME`."};
static const struct doctor_kind due_invalid = {
    "invalid-in-set", DOCTOR_WARNING, "These entries are no tasks: when they become due, they are buried.",
    "Find out who writes them; `holdfast tasks list` says what is wrong with each."};
static const struct doctor_kind dead_invalid = {
    "invalid-in-dead", DOCTOR_WARNING, "Somebody pushes texts that are no tasks; nobody will run them.",
    "`holdfast tasks list dead --class hf.invalid` shows them and why; mend who pushes them."};
static const struct doctor_kind key_clash = {
    "key-clash", DOCTOR_ERROR, "A key that every worker needs holds something of another kind: moves to it fail.",
    "Find out who writes this key, rename or delete it; or use another database."};

static const struct doctor_kind dead_nearly_full = {
    "dead-nearly-full", DOCTOR_NOTE,
    "When it is full, the oldest entries are trimmed away for new ones, without a word.",
    "Look at them, `holdfast tasks list dead`; retry or delete what is done with."};

struct sample {
    struct doctor *doctor;
    enum task_state state;
    struct task_view view;
    unsigned long long looked, invalid;
    char *unserved[NAMES_MAX]; /* queues */
    size_t unserved_count;
};

static void unserved_note(struct sample *sample, const char *queue)
{
    for (size_t i = 0; i < sample->unserved_count; i++)
        if (strcmp(sample->unserved[i], queue) == 0)
            return;
    if (sample->unserved_count < NAMES_MAX)
        sample->unserved[sample->unserved_count++] = memory_text(queue);
}

static void entry_take(struct sample *sample, const struct task_entry *entry)
{
    sample->looked++;
    task_view_read(&sample->view, entry->task.bytes, entry->task.length);
    bool is_record = sample->view.is_task && strcmp(sample->view.envelope.class_name, "hf.invalid") == 0;
    sample->invalid += !sample->view.is_task || is_record;
    if (!sample->view.is_task || entry->state == TASK_IN_DEAD)
        return;
    const char *queue = sample->view.envelope.queue[0] != '\0' ? sample->view.envelope.queue : "default";
    if (fleet_servers(&sample->doctor->status.fleet, queue) == 0)
        unserved_note(sample, queue);
}

static void sample_take(struct sample *sample)
{
    struct task_walk walk;
    struct error error = ERROR_NONE;
    if (!task_walk_begin(&walk, sample->doctor->console, sample->state, NULL, NULL, &error))
        sample->doctor->console->code = console_complain(sample->doctor->console, "%s", error.text);
    walk.is_sample = true; /* foreign keys are findings already */
    while (!walk.is_over && sample->looked < SAMPLE && task_walk_next(&walk, PAGE) == EXIT_CODE_OK) {
        for (size_t i = 0; i < walk.count; i++)
            entry_take(sample, &walk.entries[i]);
        task_walk_advance(&walk, walk.count);
    }
    task_walk_end(&walk);
}

static void sample_judge(struct sample *sample)
{
    struct doctor *doctor = sample->doctor;
    const char *state = task_state_name(sample->state);
    char quoted[LOG_QUOTE_MAX];
    if (sample->invalid > 0)
        doctor_find(doctor, sample->state == TASK_IN_DEAD ? &dead_invalid : &due_invalid,
                    "%llu of the first %llu entries of %s are no tasks", sample->invalid, sample->looked, state);
    /* Without any worker, every queue is unserved, and that is a finding of its own. */
    bool any = status_serving(&doctor->status) > 0;
    for (size_t i = 0; i < sample->unserved_count; i++) {
        if (any)
            doctor_find(doctor, &due_unserved, "%s holds tasks for the queue %s, which no process serves", state,
                        log_quote(sample->unserved[i], quoted));
        free(sample->unserved[i]);
    }
}

/* Whether the shared keys are what they should be; those that are not cannot be sampled. */
static void kinds_examine(struct doctor *doctor, bool is_fine[TASK_STATES])
{
    const struct queue_keys *keys = &doctor->console->keys;
    const struct {
        const char *key, *kind;
        int state; /* -1: none that is sampled */
    } wanted[] = {{keys->schedule, "zset", TASK_IN_SCHEDULE},
                  {keys->retry, "zset", TASK_IN_RETRY},
                  {keys->dead, "zset", TASK_IN_DEAD},
                  {keys->queues, "set", -1},
                  {keys->paused, "set", -1},
                  {keys->listed, "set", -1},
                  {keys->processes, "zset", -1},
                  {keys->cancels, "zset", -1},
                  {keys->contended, "zset", -1},
                  {keys->processed, "string", -1},
                  {keys->failed, "string", -1}};
    size_t count = sizeof wanted / sizeof wanted[0];
    node_client_begin(doctor->console->client);
    for (size_t i = 0; i < count; i++)
        node_client_ask(doctor->console->client, "TYPE", wanted[i].key, NULL);
    console_run(doctor->console);
    for (size_t i = 0; i < count; i++) {
        const struct redis_reply *reply = node_client_reply_of(doctor->console->client, i, REDIS_STATUS);
        bool fits = reply == NULL || strcmp(reply->bytes, "none") == 0 || strcmp(reply->bytes, wanted[i].kind) == 0;
        if (!fits)
            doctor_find(doctor, &key_clash, "the key %s holds a %s, where a %s should be", wanted[i].key, reply->bytes,
                        wanted[i].kind);
        if (wanted[i].state >= 0)
            is_fine[wanted[i].state] = fits;
    }
    for (size_t i = 0; i < doctor->status.fleet.count; i++) {
        const struct fleet_process *process = &doctor->status.fleet.items[i];
        char quoted[LOG_QUOTE_MAX];
        if (process->is_clash)
            doctor_find(doctor, &key_clash, "the key %s%s holds something else, where a hash should be",
                        keys->process_prefix, log_quote(process->identity, quoted));
    }
}

static void dead_judge(struct doctor *doctor)
{
    enum { MOST = DEAD_ENTRIES - 1 };
    long long count = doctor->status.dead;
    char human[HUMAN_TEXT_MAX];
    if (count >= MOST - MOST / 10 && count < MOST)
        doctor_find(doctor, &dead_nearly_full, "dead has %s entries; it keeps %d, for %d days",
                    human_count(count, human), MOST, DEAD_AGE_S / 86400);
}

void doctor_examine_states(struct doctor *doctor)
{
    static const enum task_state states[] = {TASK_IN_SCHEDULE, TASK_IN_RETRY, TASK_IN_DEAD, TASK_IN_CLAIMS};
    bool is_fine[TASK_STATES] = {[TASK_IN_CLAIMS] = true};
    kinds_examine(doctor, is_fine);
    dead_judge(doctor);
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        struct sample sample = {.doctor = doctor, .state = states[i]};
        if (!is_fine[states[i]])
            continue;
        sample_take(&sample);
        sample_judge(&sample);
        task_view_fini(&sample.view);
    }
}

/* --- our own keys ------------------------------------------------------------------------------------------------- */

/* Our own keys, by SCAN with a budget: those of processes that are not listed any more, and those that nobody knows.
 *
 * The leases are read once more behind the scan, so that a process that started meanwhile is not taken for gone. */

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
    const struct redis_reply *score = node_client_reply_of(doctor->console->client, index, REDIS_STRING);
    return score == NULL || wall_read(score->bytes).us < doctor->console->now.us;
}

/* Those that the walk did not meet, because it ended before, or because their keys have gone by themselves. */
static void index_take(struct dry_leftovers *leftovers, struct doctor *doctor)
{
    const struct redis_reply *runs = console_ask(doctor->console, "ZRANGE", dry_runs_index(), "0", "31", NULL);
    char run[DRY_RUNS_ID_DIGITS + 1];
    for (size_t i = 0; runs->kind == REDIS_ARRAY && i < runs->count; i++)
        if (dry_runs_ended_read(runs, i, run))
            leftover_of(leftovers, run);
}

/* Finds those that are over. */
static void dry_leftovers_judge(struct dry_leftovers *leftovers, struct doctor *doctor)
{
    index_take(leftovers, doctor);
    node_client_begin(doctor->console->client);
    for (size_t i = 0; i < leftovers->count; i++)
        node_client_ask(doctor->console->client, "ZSCORE", dry_runs_index(), leftovers->runs[i].run, NULL);
    int code = console_run(doctor->console);
    for (size_t i = 0; code == EXIT_CODE_OK && i < leftovers->count; i++)
        if (is_over(doctor, i))
            doctor_find(doctor, &dry_run_left,
                        "the dry run %s is over and was not cleaned up; %llu of its keys were met",
                        leftovers->runs[i].run, leftovers->runs[i].keys);
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

enum { SCAN_COUNT = 1000, ORPHANS_MAX = 50 };

static const struct doctor_kind orphaned_key = {
    "orphaned-key", DOCTOR_ERROR,
    "It belongs to a process that is in no list, as after a restored backup or deleted keys: a task in it runs "
    "nowhere.",
    "The workers list the process within an hour, or when the first of them starts, and then recover it."};
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
                 {"hf:lock:", false, false}};
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

/* True when all keys were looked at. */
static bool scan(struct orphans *orphans)
{
    struct doctor *doctor = orphans->doctor;
    char cursor[32] = "0", count[16];
    snprintf(count, sizeof count, "%d", SCAN_COUNT);
    do {
        const struct redis_reply *reply =
            console_ask(doctor->console, "SCAN", cursor, "MATCH", "hf:*", "COUNT", count, NULL);
        if (reply->kind != REDIS_ARRAY || reply->count != 2)
            break;
        snprintf(cursor, sizeof cursor, "%s", reply->elements[0].bytes);
        doctor->keys_looked_at += SCAN_COUNT;
        for (size_t i = 0; i < reply->elements[1].count; i++)
            key_consider(orphans, reply->elements[1].elements[i].bytes);
    } while (strcmp(cursor, "0") != 0 && doctor->keys_looked_at < doctor->key_limit);
    return strcmp(cursor, "0") == 0;
}

static void orphans_judge(struct orphans *orphans)
{
    struct doctor *doctor = orphans->doctor;
    char quoted[LOG_QUOTE_MAX];
    node_client_begin(doctor->console->client);
    for (size_t i = 0; i < orphans->count; i++) {
        node_client_ask(doctor->console->client, "ZSCORE", doctor->console->keys.processes, orphans->identities[i],
                        NULL);
        node_client_ask(doctor->console->client, "EXISTS", orphans->keys[i], NULL);
    }
    int code = console_run(doctor->console);
    for (size_t i = 0; code == EXIT_CODE_OK && i < orphans->count; i++)
        if (node_client_reply(doctor->console->client, 2 * i)->kind == REDIS_NIL &&
            node_client_integer(doctor->console->client, 2 * i + 1, 0) == 1)
            doctor_find(doctor, &orphaned_key, "the key %s belongs to no process that is listed",
                        log_quote(orphans->keys[i], quoted));
}

void doctor_examine_keys(struct doctor *doctor)
{
    struct orphans orphans = {.doctor = doctor};
    char quoted[LOG_QUOTE_MAX];
    bool is_whole = scan(&orphans);
    orphans_judge(&orphans);
    dry_leftovers_judge(&orphans.dry, doctor);
    for (size_t i = 0; i < orphans.count; i++) {
        free(orphans.keys[i]);
        free(orphans.identities[i]);
    }
    if (orphans.unknown > 0)
        doctor_find(doctor, &unknown_key, "%zu key%s below hf: that this version does not know, %s", orphans.unknown,
                    orphans.unknown == 1 ? "" : "s", log_quote(orphans.unknown_example, quoted));
    if (!is_whole)
        doctor_find(doctor, &scan_cut, "only about %llu keys of the node were looked at", doctor->keys_looked_at);
}

/* --- the lock nodes ----------------------------------------------------------------------------------------------- */

static const struct doctor_kind lock_node_away = {
    "lock-node-unreachable", DOCTOR_WARNING,
    "Locks go on while a majority of the nodes answers; one less can fail now.",
    "Bring the node back, or mend its address."};
static const struct doctor_kind lock_node_away_too = {"lock-node-unreachable", DOCTOR_WARNING,
                                                      "It is one of those without which there is no majority.",
                                                      "Bring the node back, or mend its address."};
static const struct doctor_kind lock_node_refuses = {
    "lock-node-refuses", DOCTOR_ERROR, "A node that answers with errors has no vote: it is as good as down.",
    "Mend what it says: memory, its user's rights, lock.prefix."};
static const struct doctor_kind lock_node_unfit = {"lock-node-unfit", DOCTOR_ERROR,
                                                   "A node like this may forget or refuse locks that are held.",
                                                   "See `holdfast check`, which says more."};
static const struct doctor_kind lock_node_doubtful = {"lock-node-doubtful", DOCTOR_WARNING,
                                                      "A node like this may forget or refuse locks that are held.",
                                                      "See `holdfast check`, which says more."};
static const struct doctor_kind lock_group_missing = {
    "lock-group-missing", DOCTOR_ERROR,
    "Several lock nodes that are no group have no votes: every task that needs a lock waits.",
    "Run `holdfast nodes init` once, with all lock nodes up."};
static const struct doctor_kind lock_node_quarantined = {
    "lock-node-quarantined", DOCTOR_WARNING,
    "It may have forgotten locks that are held, so it has no vote until they have expired.",
    "Nothing, when workers run; else `holdfast nodes heal --wait`."};
static const struct doctor_kind lock_node_excluded = {
    "lock-node-excluded", DOCTOR_ERROR, "It has no vote until somebody does something; fewer of the others may fail.",
    "See `holdfast nodes`, and docs/lock-nodes.md."};
static const struct doctor_kind lock_member_vacant = {
    "lock-member-vacant", DOCTOR_WARNING, "A member of the lock group is vacant: one node less may fail.",
    "Finish what was begun: `holdfast nodes replace`, or `heal --wait`, again."};
static const struct doctor_kind lock_clock_rate = {
    "lock-clock-rate", DOCTOR_ERROR,
    "Locks exclude only while the clocks of lock nodes and workers keep to lock.drift_factor.",
    "It is this host's clock when the other nodes show the same, else the node's. Slew each clock by at most half of "
    "lock.drift_factor (chrony: maxslewrate) and never set it; see docs/lock-nodes.md."};
static const struct doctor_kind host_clock_rate = {
    "host-clock-rate", DOCTOR_WARNING,
    "Workers of this host measure their locks by CLOCK_BOOTTIME, which follows this rate.",
    "Slew it by at most half of lock.drift_factor (chrony: maxslewrate); see docs/lock-nodes.md."};
static const struct doctor_kind configuration = {"configuration", DOCTOR_WARNING,
                                                 "The configuration works, but perhaps not as it was meant.",
                                                 "See `holdfast check`, which looks at the plugins too."};

static void probe_judge(struct doctor *doctor, const struct node_probe *probe, bool has_majority)
{
    struct findings findings = {0};
    if (probe->state == PROBE_UNREACHABLE || probe->state == PROBE_REFUSED)
        doctor_find(doctor, has_majority ? &lock_node_away : &lock_node_away_too, "%s %s: %s", probe->node->name,
                    probe->state == PROBE_UNREACHABLE ? "cannot be reached" : "does not let us in", probe->reason);
    if (probe->state == PROBE_ANSWERED && probe->refusal[0] != '\0')
        doctor_find(doctor, &lock_node_refuses, "%s refuses a lock below lock.prefix \"%s\": %s", probe->node->name,
                    probe->lock_prefix, probe->refusal);
    if (probe->state == PROBE_ANSWERED)
        node_facts_judge(&probe->facts, probe->node->name, NODE_FOR_LOCKS, &findings);
    for (size_t i = 0; i < findings.count; i++)
        doctor_find(doctor, findings.items[i].is_warning ? &lock_node_doubtful : &lock_node_unfit, "%s",
                    findings.items[i].text);
    findings_fini(&findings);
}

static bool nodes_examine(struct doctor *doctor, struct node_probe probes[REDLOCK_NODES_MAX])
{
    const struct config *config = doctor->console->config;
    struct error error = ERROR_NONE;
    size_t count = config->lock_node_count, granted = 0;
    for (size_t i = 0; i < count; i++)
        probes[i] = (struct node_probe){
            .node = &config->lock_nodes[i], .use = NODE_FOR_LOCKS, .lock_prefix = config->lock.prefix};
    if (!node_probe_all(probes, count, &error)) {
        doctor->console->code = console_complain(doctor->console, "%s", error.text);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        granted += node_probe_grants(&probes[i]);
    for (size_t i = 0; i < count; i++)
        probe_judge(doctor, &probes[i], granted > count / 2);
    return true;
}

static void member_judge(struct doctor *doctor, const struct redlock_node_view *view)
{
    struct buffer text = {0};
    nodes_verdict_text(view, &text);
    doctor_find(doctor, view->quarantine_left_ms > 0 ? &lock_node_quarantined : &lock_node_excluded, "%s is %s",
                view->name, buffer_text(&text));
    buffer_fini(&text);
}

static void group_judge(struct doctor *doctor, const struct redlock_nodes *nodes)
{
    struct redlock_group_view group = redlock_nodes_group(nodes);
    if (group.vacant > 0)
        doctor_find(doctor, &lock_member_vacant, "%u member of the lock group is vacant", group.vacant);
    bool is_told_by_nodes = group.reached >= group.quorum && nodes_markers_of(nodes).marked > 0;
    if (!group.has_group && group.nodes > 1 && !is_told_by_nodes) {
        if (group.reached >= group.quorum)
            doctor_find(doctor, &lock_group_missing, "the %u lock nodes are no lock group", group.nodes);
        return;
    }
    for (unsigned i = 0; i < group.nodes; i++) {
        const struct redlock_node_view *view = redlock_nodes_view(nodes, i);
        if (!view->votes && strcmp(view->state, "unseen") != 0)
            member_judge(doctor, view);
    }
}

/* --- clocks ------------------------------------------------------------------------------------------------------- */

enum { CLOCKS_COMPARED_MS = 1000 };

static void rate_judge(struct doctor *doctor, const struct redlock_node_view *view, int64_t bound_ppm)
{
    bool is_fast = view->rate_least_ppm > bound_ppm, is_slow = view->rate_most_ppm < -bound_ppm;
    if (!is_fast && !is_slow)
        return;
    doctor_find(doctor, &lock_clock_rate,
                "%s's clock runs %lld ppm %s than ours (at least; lock.drift_factor allows %lld)", view->name,
                (long long)(is_fast ? view->rate_least_ppm : -view->rate_most_ppm), is_fast ? "faster" : "slower",
                (long long)bound_ppm);
}

int64_t doctor_clock_slew_ppm(long tick, long freq, long ticks_per_s)
{
    return (int64_t)tick * ticks_per_s - 1000000 + freq / 65536;
}

static void host_clock_judge(struct doctor *doctor, int64_t bound_ppm)
{
    struct timex kernel = {.modes = 0}; /* reads only */
    if (adjtimex(&kernel) < 0)
        return;
    int64_t ppm = doctor_clock_slew_ppm(kernel.tick, kernel.freq, sysconf(_SC_CLK_TCK));
    if (ppm > bound_ppm || ppm < -bound_ppm)
        doctor_find(doctor, &host_clock_rate,
                    "the clock of this host is slewed by %lld ppm (half of lock.drift_factor allows %lld)",
                    (long long)ppm, (long long)bound_ppm);
}

static void group_examine(struct doctor *doctor, const struct node_probe *probes)
{
    struct nodes_session session;
    struct redlock_node_view views[REDLOCK_NODES_MAX];
    int64_t drift_ppm = (int64_t)(doctor->console->config->lock.drift_factor * 1e6 + 0.5);
    if (nodes_session_open(&session, doctor->console->config, NULL)) {
        (void)redlock_nodes_compare_clocks(session.nodes, CLOCKS_COMPARED_MS);
        group_judge(doctor, session.nodes);
        for (size_t i = 0; i < session.options.node_count; i++) {
            views[i] = *redlock_nodes_view(session.nodes, i);
            rate_judge(doctor, &views[i], drift_ppm);
        }
        status_votes_take(&doctor->status.votes, views, probes, session.options.node_count);
        host_clock_judge(doctor, drift_ppm / 2);
    }
    nodes_session_close(&session);
}

void doctor_examine_locks(struct doctor *doctor)
{
    const struct findings *warnings = &doctor->console->warnings;
    for (size_t i = 0; i < warnings->count; i++)
        doctor_find(doctor, &configuration, "%s", warnings->items[i].text);
    struct node_probe probes[REDLOCK_NODES_MAX] = {0};
    if (doctor->console->config->lock_node_count > 0 && nodes_examine(doctor, probes))
        group_examine(doctor, probes);
}
