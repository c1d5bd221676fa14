/* What waits in the sets and in claims, by samples from the beginning. */
#include "worker/commands/doctor.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/print/human.h"
#include "worker/commands/task_view.h"
#include "worker/commands/task_walk.h"

enum { SAMPLE = 1000, PAGE = 100, NAMES_MAX = 20 };

static const struct doctor_kind due_unserved = {
    "scheduled-for-unserved-queue", DOCTOR_WARNING, "When these tasks become due, they wait in a queue for ever.",
    "Let a worker serve the queue (worker.queues), or delete them: `holdfast tasks delete --all --place PLACE --queue "
    "NAME`."};
static const struct doctor_kind due_invalid = {
    "invalid-in-set", DOCTOR_WARNING, "These entries are no tasks: when they become due, they are buried.",
    "Find out who writes them; `holdfast tasks list` says what is wrong with each."};
static const struct doctor_kind dead_invalid = {
    "invalid-in-dead", DOCTOR_WARNING, "Somebody pushes texts that are no tasks; nobody will run them.",
    "`holdfast tasks list dead --class hf.invalid` shows them and why; mend who pushes them."};
static const struct doctor_kind former_claims = {
    "claims-of-the-previous-version", DOCTOR_ERROR,
    "A worker of the previous version was killed while it ran these tasks. It had no lease, so nobody recovers them.",
    "When no worker of the previous version runs any more: `holdfast tasks retry --all --place claims`."};
static const struct doctor_kind key_clash = {
    "key-clash", DOCTOR_ERROR, "A key that every worker needs holds something of another kind: moves to it fail.",
    "Find out who writes this key, rename or delete it; or use another database."};

static const struct doctor_kind dead_nearly_full = {
    "dead-nearly-full", DOCTOR_NOTE,
    "When it is full, the oldest entries are trimmed away for new ones, without a word.",
    "Look at them, `holdfast tasks list dead`; retry or delete what is done with."};

struct sample {
    struct doctor *doctor;
    enum task_place place;
    struct task_view view;
    unsigned long long looked, invalid, former;
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
    if (entry->place == TASK_IN_CLAIMS) {
        sample->former += entry->scheme == 1;
        return;
    }
    task_view_read(&sample->view, entry->task.bytes, entry->task.length);
    bool is_record = sample->view.is_task && strcmp(sample->view.envelope.class_name, "hf.invalid") == 0;
    sample->invalid += !sample->view.is_task || is_record;
    if (!sample->view.is_task || entry->place == TASK_IN_DEAD)
        return;
    const char *queue = sample->view.envelope.queue[0] != '\0' ? sample->view.envelope.queue : "default";
    if (fleet_servers(&sample->doctor->status.fleet, queue) == 0)
        unserved_note(sample, queue);
}

static int sample_take(struct sample *sample)
{
    struct task_walk walk;
    struct error error = ERROR_NONE;
    int code = EXIT_CODE_OK;
    if (!task_walk_begin(&walk, sample->doctor->console, sample->place, NULL, NULL, &error))
        return console_complain(sample->doctor->console, "%s", error.text);
    walk.is_sample = true; /* foreign keys are findings already */
    while (code == EXIT_CODE_OK && !walk.is_over && sample->looked < SAMPLE) {
        code = task_walk_next(&walk, PAGE);
        for (size_t i = 0; code == EXIT_CODE_OK && i < walk.count; i++)
            entry_take(sample, &walk.entries[i]);
        task_walk_advance(&walk, walk.count);
    }
    task_walk_end(&walk);
    return code;
}

static void sample_judge(struct sample *sample)
{
    struct doctor *doctor = sample->doctor;
    const char *place = task_place_name(sample->place);
    char quoted[LOG_QUOTE_MAX];
    if (sample->invalid > 0)
        doctor_find(doctor, sample->place == TASK_IN_DEAD ? &dead_invalid : &due_invalid,
                    "%llu of the first %llu entries of %s are no tasks", sample->invalid, sample->looked, place);
    if (sample->former > 0)
        doctor_find(doctor, &former_claims, "%llu task%s claimed by processes of the previous version", sample->former,
                    sample->former == 1 ? " is" : "s are");
    /* Without any worker, every queue is unserved, and that is a finding of its own. */
    bool any = status_serving(&doctor->status) > 0;
    for (size_t i = 0; i < sample->unserved_count; i++) {
        if (any)
            doctor_find(doctor, &due_unserved, "%s holds tasks for the queue %s, which no process serves", place,
                        log_quote(sample->unserved[i], quoted));
        free(sample->unserved[i]);
    }
}

/* Whether the shared keys are what they should be; those that are not cannot be sampled. */
static int kinds_examine(struct doctor *doctor, bool is_fine[TASK_PLACES])
{
    const struct queue_keys *keys = &doctor->console->keys;
    const struct {
        const char *key, *kind;
        int place; /* -1: none that is sampled */
    } wanted[] = {{keys->schedule, "zset", TASK_IN_SCHEDULE},
                  {keys->retry, "zset", TASK_IN_RETRY},
                  {keys->dead, "zset", TASK_IN_DEAD},
                  {keys->queues, "set", -1},
                  {keys->paused, "set", -1},
                  {keys->listed, "set", -1},
                  {keys->processes, "zset", -1},
                  {keys->cancels, "zset", -1},
                  {keys->contended, "zset", -1},
                  {keys->former_processes, "set", -1},
                  {keys->processed, "string", -1},
                  {keys->failed, "string", -1}};
    size_t count = sizeof wanted / sizeof wanted[0];
    inquiry_begin(doctor->console->inquiry);
    for (size_t i = 0; i < count; i++)
        inquiry_ask(doctor->console->inquiry, "TYPE", wanted[i].key, NULL);
    int code = console_run(doctor->console);
    for (size_t i = 0; i < count && code == EXIT_CODE_OK; i++) {
        const struct redis_reply *reply = inquiry_reply_of(doctor->console->inquiry, i, REDIS_STATUS);
        bool fits = reply == NULL || strcmp(reply->bytes, "none") == 0 || strcmp(reply->bytes, wanted[i].kind) == 0;
        if (!fits)
            doctor_find(doctor, &key_clash, "the key %s holds a %s, where a %s should be", wanted[i].key, reply->bytes,
                        wanted[i].kind);
        if (wanted[i].place >= 0)
            is_fine[wanted[i].place] = fits;
    }
    for (size_t i = 0; i < doctor->status.fleet.count; i++) {
        const struct fleet_process *process = &doctor->status.fleet.items[i];
        char quoted[LOG_QUOTE_MAX];
        if (process->is_clash)
            doctor_find(doctor, &key_clash, "the key %s%s holds something else, where a hash should be",
                        keys->process_prefix, log_quote(process->identity, quoted));
    }
    return code;
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

int doctor_examine_places(struct doctor *doctor)
{
    static const enum task_place places[] = {TASK_IN_SCHEDULE, TASK_IN_RETRY, TASK_IN_DEAD, TASK_IN_CLAIMS};
    bool is_fine[TASK_PLACES] = {[TASK_IN_CLAIMS] = true};
    int code = kinds_examine(doctor, is_fine);
    dead_judge(doctor);
    for (size_t i = 0; i < sizeof places / sizeof places[0] && code == EXIT_CODE_OK; i++) {
        struct sample sample = {.doctor = doctor, .place = places[i]};
        if (!is_fine[places[i]])
            continue;
        code = sample_take(&sample);
        sample_judge(&sample);
        task_view_fini(&sample.view);
    }
    return code;
}
