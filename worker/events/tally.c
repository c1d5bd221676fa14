#include "worker/events/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"

#define DAY_US (86400 * US_PER_S)

/* Rows by name; row NAME_SET_OTHERS is that of all others. */
struct table {
    struct name_set names;
    struct tally_row *rows;
};

struct tally {
    char **queues;
    unsigned queue_count;
    struct table classes, runs, locks;
    unsigned last_class; /* the next task is often of the same */
    unsigned *run_rows;  /* by class: its row of runs under its own name; 0 = it has none yet */
    uint64_t *endings;   /* by class, then queue, then ending */
    int64_t day;         /* that the names of locks are of; 0 = nothing was taken yet */
    struct instant first_claim, last_ending;
    int64_t slowest_lock_us;
    char slowest_resource[TALLY_RESOURCE_MAX];
};

static const char *const count_names[TALLY_LOCK_COUNTS] = {
    [TALLY_ACQUIRED] = "acquired",       [TALLY_WAITED] = "waited",   [TALLY_PARKED] = "parked",
    [TALLY_HANDED_OVER] = "handed_over", [TALLY_SKIPPED] = "skipped", [TALLY_LOST] = "lost",
    [TALLY_FENCED_OFF] = "fenced_off",
};

const char *tally_count_name(enum tally_count count)
{
    invariant(count < TALLY_LOCK_COUNTS);
    return count_names[count];
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void table_init(struct table *table, unsigned max, const char *others)
{
    name_set_init(&table->names, max);
    table->rows = memory_zeroed(max, sizeof table->rows[0]);
    table->rows[NAME_SET_OTHERS].name = others;
}

/* Of a class and kind: the histograms stay, for the next values. */
static void row_clear(struct tally_row *row)
{
    row->is_counted = false;
    memset(row->counts, 0, sizeof row->counts);
    for (unsigned i = 0; i < TALLY_TIMES; i++)
        if (row->coarse[i] != NULL)
            memset(row->coarse[i], 0, sizeof *row->coarse[i]);
}

static void row_fini(struct tally_row *row)
{
    for (unsigned i = 0; i < TALLY_TIMES; i++) {
        free(row->times[i]);
        free(row->coarse[i]);
    }
    *row = (struct tally_row){.name = row->name};
}

static void table_clear(struct table *table)
{
    for (unsigned i = 0; i < table->names.count; i++)
        row_fini(&table->rows[i]);
    name_set_clear(&table->names);
}

static void table_fini(struct table *table)
{
    table_clear(table);
    name_set_fini(&table->names);
    free(table->rows);
}

static struct tally_row *row_of(struct table *table, const char *name)
{
    unsigned number = name_set_add(&table->names, name);
    struct tally_row *row = &table->rows[number];
    if (number != NAME_SET_OTHERS)
        row->name = name_set_text(&table->names, number);
    row->is_counted = true;
    return row;
}

static void time_add(struct tally_row *row, enum tally_time time, int64_t ns)
{
    if (row->times[time] == NULL)
        row->times[time] = memory_new(struct histogram);
    histogram_record(row->times[time], ns / NS_PER_US);
}

static void coarse_add(struct tally_row *row, enum tally_time time, int64_t ns)
{
    if (row->coarse[time] == NULL)
        row->coarse[time] = memory_new(struct histogram_coarse);
    histogram_coarse_record(row->coarse[time], ns / NS_PER_US);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct tally *tally_create(const struct tally_setup *setup)
{
    struct tally *tally = memory_new(struct tally);
    tally->queue_count = setup->queue_count > 0 ? setup->queue_count : 1;
    tally->queues = memory_zeroed(tally->queue_count, sizeof tally->queues[0]);
    for (unsigned i = 0; i < setup->queue_count; i++)
        tally->queues[i] = memory_text(setup->queues[i]);
    table_init(&tally->classes, setup->class_max + 1, NAME_SET_OTHERS_NAME);
    table_init(&tally->runs, NAME_SET_MAX, NAME_SET_OTHERS_NAME);
    table_init(&tally->locks, NAME_SET_MAX, TALLY_LOCK_OTHERS);
    tally->run_rows = memory_zeroed(tally->classes.names.max, sizeof tally->run_rows[0]);
    tally->endings =
        memory_zeroed((size_t)tally->classes.names.max * tally->queue_count, FLOW_ENDINGS * sizeof tally->endings[0]);
    return tally;
}

void tally_destroy(struct tally *tally)
{
    if (tally == NULL)
        return;
    for (unsigned i = 0; i < tally->queue_count; i++)
        free(tally->queues[i]);
    free(tally->queues);
    table_fini(&tally->classes);
    table_fini(&tally->runs);
    table_fini(&tally->locks);
    free(tally->run_rows);
    free(tally->endings);
    free(tally);
}

void tally_class_add(struct tally *tally, const char *class_name)
{
    if (name_set_find(&tally->classes.names, class_name) == NAME_SET_OTHERS)
        (void)row_of(&tally->classes, class_name);
}

/* --- counting ----------------------------------------------------------------------------------------------------- */

static uint64_t *endings_of(const struct tally *tally, unsigned class_number, unsigned queue)
{
    return tally->endings + ((size_t)class_number * tally->queue_count + queue) * FLOW_ENDINGS;
}

static void ending_count(struct tally *tally, unsigned class_number, const struct observed_task *task)
{
    unsigned queue = tally->queue_count - 1;
    while (queue > 0 && strcmp(tally->queues[queue], task->queue) != 0)
        queue--;
    endings_of(tally, class_number, queue)[task->ending]++;
    tally->classes.rows[class_number].counts[TALLY_DISCARDED_FAILURES] +=
        task->is_failure && task->ending == FLOW_DISCARDED;
    tally->last_ending = task->left;
}

static unsigned class_number(struct tally *tally, const char *class_name)
{
    const char *last = tally->classes.rows[tally->last_class].name;
    if (strcmp(last, class_name) != 0)
        tally->last_class = name_set_find(&tally->classes.names, class_name);
    return tally->last_class;
}

static struct tally_row *shown_row(struct tally *tally, unsigned class_number, const struct observed_task *task)
{
    bool is_own = task->shown_class == task->class_name && class_number != NAME_SET_OTHERS;
    unsigned *known = &tally->run_rows[class_number];
    if (is_own && *known != 0)
        return &tally->runs.rows[*known];
    char name[ENVELOPE_CLASS_BYTES_MAX + 1];
    *name_part_write(name, task->shown_class, strnlen(task->shown_class, ENVELOPE_CLASS_BYTES_MAX)) = '\0';
    struct tally_row *row = row_of(&tally->runs, name);
    if (is_own)
        *known = (unsigned)(row - tally->runs.rows);
    return row;
}

static void run_count(struct tally *tally, unsigned number, const struct observed_task *task)
{
    struct tally_row *class = &tally->classes.rows[number];
    int64_t ran_ns = instant_since(task->started, task->ended);
    if (task->waited_ns >= 0)
        time_add(class, TALLY_QUEUED, task->waited_ns);
    if (task->ended.ns == 0)
        return; /* it was abandoned */
    class->counts[TALLY_RUNS]++;
    time_add(class, TALLY_RUN, ran_ns);
    if (task->shown_class == NULL)
        return;
    struct tally_row *shown = shown_row(tally, number, task);
    shown->counts[TALLY_RUNS]++;
    shown->counts[TALLY_FAILED] += task->has_failed;
    if (!task->has_failed)
        time_add(shown, TALLY_RUN, ran_ns);
}

static void slowest_note(struct tally *tally, const struct observed_task *task)
{
    int64_t us = task->lock_took_ns / NS_PER_US;
    if (us <= tally->slowest_lock_us)
        return;
    tally->slowest_lock_us = us;
    snprintf(tally->slowest_resource, sizeof tally->slowest_resource, "%s", task->resources[0]);
}

static void lock_count(struct tally *tally, struct tally_row *class, const struct observed_task *task)
{
    bool has_lock = task->locked.ns != 0;
    const bool counts[TALLY_LOCK_COUNTS] = {
        [TALLY_ACQUIRED] = has_lock,
        [TALLY_WAITED] = has_lock && task->had_to_wait,
        [TALLY_PARKED] = task->wants_lock && task->ending == FLOW_PARKED,
        [TALLY_HANDED_OVER] = has_lock && task->handed_over,
        [TALLY_SKIPPED] = task->wants_lock && task->ending == FLOW_SKIPPED,
        [TALLY_LOST] = has_lock && task->was_lost,
        [TALLY_FENCED_OFF] = task->was_fenced_off,
    };
    if (!has_lock && !counts[TALLY_PARKED] && !counts[TALLY_SKIPPED] && !counts[TALLY_FENCED_OFF])
        return;
    char name[TALLY_LOCK_NAME_SIZE];
    tally_lock_name(task->class_name, task->resources[0], name);
    struct tally_row *kind = row_of(&tally->locks, name);
    for (unsigned i = 0; i < TALLY_LOCK_COUNTS; i++) {
        class->counts[i] += counts[i];
        kind->counts[i] += counts[i];
    }
    if (!has_lock)
        return;
    slowest_note(tally, task);
    time_add(class, TALLY_LOCK, task->lock_took_ns);
    coarse_add(kind, TALLY_WAIT, task->lock_waited_ns);
    if (task->held_ns < 0)
        return; /* a run that was abandoned has it still */
    time_add(class, TALLY_HOLD, task->held_ns);
    coarse_add(kind, TALLY_HOLD, task->held_ns);
}

void tally_task(struct tally *tally, const struct observed_task *task)
{
    unsigned number = class_number(tally, task->class_name);
    ending_count(tally, number, task);
    if (task->claimed.ns == 0)
        return; /* it was counted already */
    if (tally->first_claim.ns == 0 || instant_before(task->claimed, tally->first_claim))
        tally->first_claim = task->claimed;
    if (task->started.ns != 0)
        run_count(tally, number, task);
    if (task->resource_count > 0)
        lock_count(tally, &tally->classes.rows[number], task);
}

/* --- since the start ---------------------------------------------------------------------------------------------- */

unsigned tally_class_count(const struct tally *tally)
{
    return tally->classes.names.count;
}

const struct tally_row *tally_class(const struct tally *tally, unsigned number)
{
    invariant(number < tally->classes.names.count);
    return &tally->classes.rows[number];
}

const uint64_t *tally_endings(const struct tally *tally, unsigned class_number, unsigned queue)
{
    invariant(class_number < tally->classes.names.count && queue < tally->queue_count);
    return endings_of(tally, class_number, queue);
}

static void row_sum(const struct tally_row *row, struct tally_total *total)
{
    for (unsigned i = 0; i < TALLY_COUNTS; i++)
        total->counts[i] += row->counts[i];
    for (unsigned i = 0; i < TALLY_TIMES; i++)
        if (row->times[i] != NULL)
            histogram_merge(&total->times[i], row->times[i]);
}

void tally_total(const struct tally *tally, struct tally_total *total)
{
    *total = (struct tally_total){.first_claim = tally->first_claim,
                                  .last_ending = tally->last_ending,
                                  .slowest_lock_us = tally->slowest_lock_us};
    memcpy(total->slowest_resource, tally->slowest_resource, sizeof total->slowest_resource);
    for (unsigned class = 0; class < tally->classes.names.count; class ++) {
        row_sum(&tally->classes.rows[class], total);
        for (unsigned i = 0; i < tally->queue_count * FLOW_ENDINGS; i++)
            total->endings[i % FLOW_ENDINGS] += endings_of(tally, class, 0)[i];
    }
    uint64_t failures = total->counts[TALLY_DISCARDED_FAILURES];
    total->endings[FLOW_DISCARDED] -= failures;
    total->endings[FLOW_FAILED] += failures;
}

/* --- since they were taken ---------------------------------------------------------------------------------------- */

struct tally_rows tally_runs(const struct tally *tally)
{
    return (struct tally_rows){tally->runs.rows, tally->runs.names.count};
}

struct tally_rows tally_locks(const struct tally *tally)
{
    return (struct tally_rows){tally->locks.rows, tally->locks.names.count};
}

void tally_taken(struct tally *tally, struct wall_time at)
{
    int64_t day = at.us / DAY_US;
    table_clear(&tally->runs);
    memset(tally->run_rows, 0, tally->classes.names.max * sizeof tally->run_rows[0]);
    if (tally->day != 0 && tally->day != day)
        table_clear(&tally->locks);
    for (unsigned i = 0; i < tally->locks.names.count; i++)
        row_clear(&tally->locks.rows[i]);
    tally->day = day;
}

static size_t prefix_length(const char *resource)
{
    const char *colon = strchr(resource, ':');
    size_t length = colon != NULL ? (size_t)(colon - resource) + 1 : strlen(resource);
    if (length <= TALLY_PREFIX_BYTES)
        return length;
    length = TALLY_PREFIX_BYTES;
    while (length > 0 && ((unsigned char)resource[length] & 0xc0) == 0x80)
        length--; /* not within a character */
    return length;
}

void tally_lock_name(const char *class_name, const char *resource, char out[TALLY_LOCK_NAME_SIZE])
{
    char *end = name_part_write(out, class_name, strnlen(class_name, ENVELOPE_CLASS_BYTES_MAX));
    *end++ = '|';
    end = name_part_write(end, resource, prefix_length(resource));
    *end++ = '|';
    *end = '\0';
}
