/* See tally.h. What comes in, and how it stands now. */
#include "worker/dry_run/count/tally.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/memory.h"
#include "worker/dry_run/count/tally_private.h"

/* Fewer arrivals make no detail worth while where there are more resources than details. */
enum { DETAILED_FROM = 8 };

/* By this share runners are taken that lack nothing but time. */
#define RUNNERS_USED 0.75

/* --- resources ---------------------------------------------------------------------------------------------------- */

/* Resources stand in one array in the order of their numbers; a hash table of numbers with chains finds them. Doubled
 * when full, both. */
enum { AT_FIRST = 1024 };

static void resource_table_init(struct resource_table *table, size_t limit, unsigned detailed_max,
                                unsigned detailed_from)
{
    *table = (struct resource_table){.limit = limit, .detailed_max = detailed_max, .detailed_from = detailed_from};
    table->bucket_count = AT_FIRST;
    table->buckets = memory_zeroed(table->bucket_count, sizeof table->buckets[0]);
}

static void resource_table_fini(struct resource_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        free(table->resources[i].name);
        free(table->resources[i].detail);
    }
    free(table->resources);
    free(table->buckets);
}

/* A bucket has the number of its first resource and one more, so that zero is an empty one; so has `next`. */
static void chain(struct resource_table *table, uint32_t number)
{
    struct resource_count *resource = &table->resources[number];
    uint32_t *bucket = &table->buckets[resource->hash & (table->bucket_count - 1)];
    resource->next = *bucket;
    *bucket = number + 1;
}

static void resources_grow(struct resource_table *table)
{
    table->capacity = table->capacity == 0 ? AT_FIRST : table->capacity * 2;
    table->resources = memory_resize(table->resources, table->capacity, sizeof table->resources[0]);
    if (table->capacity <= table->bucket_count)
        return;
    free(table->buckets);
    table->bucket_count = table->capacity;
    table->buckets = memory_zeroed(table->bucket_count, sizeof table->buckets[0]);
    for (uint32_t i = 0; i < table->count; i++)
        chain(table, i);
}

static uint32_t resource_table_number(struct resource_table *table, const char *name)
{
    uint32_t hash = (uint32_t)hash_bytes(0, name, strlen(name));
    uint32_t at = table->buckets[hash & (table->bucket_count - 1)];
    for (; at != 0; at = table->resources[at - 1].next)
        if (table->resources[at - 1].hash == hash && strcmp(table->resources[at - 1].name, name) == 0)
            return at - 1;
    if (table->count >= table->limit)
        return RESOURCE_NONE;
    if (table->count == table->capacity)
        resources_grow(table);
    uint32_t number = (uint32_t)table->count++;
    table->resources[number] = (struct resource_count){.name = memory_text(name), .hash = hash};
    chain(table, number);
    return number;
}

static void resource_table_arrive(struct resource_table *table, uint32_t number, bool is_measured)
{
    struct resource_count *resource = resource_table_at(table, number);
    if (resource == NULL) {
        table->left_out++;
        return;
    }
    resource->arrived++;
    resource->arrived_measured += is_measured;
    if (resource->detail == NULL && resource->arrived >= table->detailed_from &&
        table->detailed < table->detailed_max) {
        resource->detail = memory_new(struct resource_detail);
        table->detailed++;
    }
}

/* --- processes ---------------------------------------------------------------------------------------------------- */

/* Adds what `now` has more than `before`. The largest of the difference is not known: that of all is taken. */
static void histogram_add_difference(struct histogram *into, const struct histogram *now,
                                     const struct histogram *before)
{
    if (now->count == before->count)
        return;
    for (size_t i = 0; i < HISTOGRAM_STEPS; i++)
        into->counts[i] += now->counts[i] - before->counts[i];
    into->count += now->count - before->count;
    into->sum_us += now->sum_us - before->sum_us;
    if (now->max_us > into->max_us)
        into->max_us = now->max_us;
}

static void node_add(struct redlock_node_counters *into, const struct redlock_node_counters *now,
                     const struct redlock_node_counters *before, bool is_measured)
{
    into->requests += now->requests - before->requests;
    into->granted += now->granted - before->granted;
    into->refused += now->refused - before->refused;
    into->errors += now->errors - before->errors;
    into->timeouts += now->timeouts - before->timeouts;
    into->split_votes += now->split_votes - before->split_votes;
    if (is_measured)
        histogram_add_difference(&into->latency, &now->latency, &before->latency);
}

/* A process that came back without anybody having told that it died. */
static bool began_anew(const struct process_count *count, const struct observed_process *said)
{
    return said->cpu_ns < count->cpu_ns ||
           (said->extensions != NULL && said->extensions->count < count->extensions.count);
}

static void process_count_end(struct process_count *count)
{
    memset(count, 0, sizeof *count);
}

static int64_t process_count_add(struct process_count *count, const struct observed_process *said, struct instant at,
                                 bool is_measured, struct process_sums *sums, struct histogram *extensions)
{
    if (began_anew(count, said))
        process_count_end(count);
    int64_t cpu_ns = said->cpu_ns - count->cpu_ns;
    count->heard = at;
    count->runners = said->runners;
    count->busy = said->busy;
    count->cpu_ns = said->cpu_ns;
    if (said->extensions != NULL) {
        histogram_add_difference(extensions, said->extensions, &count->extensions);
        if (is_measured)
            histogram_add_difference(&sums->extensions, said->extensions, &count->extensions);
        count->extensions = *said->extensions;
    }
    for (unsigned i = 0; i < said->node_count && i < RECORD_NODES_MAX; i++) {
        node_add(&sums->nodes[i], said->nodes[i], &count->nodes[i], is_measured);
        count->nodes[i] = *said->nodes[i];
        if (i >= sums->node_count)
            sums->node_count = i + 1;
    }
    return cpu_ns;
}

/* --- crashes ------------------------------------------------------------------------------------------------------ */

static struct crash_count *class_of(struct crash_list *list, const struct crash *crash)
{
    for (unsigned i = 0; i < list->count; i++)
        if (strncmp(list->classes[i].class_name, crash->class_name, CRASH_LIST_NAME_MAX - 1) == 0)
            return &list->classes[i];
    if (list->count == CRASH_LIST_CLASSES_MAX)
        return NULL;
    struct crash_count *count = &list->classes[list->count++];
    snprintf(count->class_name, sizeof count->class_name, "%s", crash->class_name);
    count->signal = crash->signal;
    count->hangs = crash->hangs;
    return count;
}

static void crash_list_note(struct crash_list *list, const struct crash *crash)
{
    struct crash_count *count = class_of(list, crash);
    if (count != NULL)
        count->count++;
    else
        list->others++;
}

static void end_tell(const struct crash_count *count, struct buffer *out)
{
    const char *name = sigabbrev_np(count->signal);
    if (count->hangs)
        buffer_append_text(out, "it hangs");
    else if (count->signal == 0)
        buffer_append_text(out, "it ended its process");
    else if (name != NULL)
        buffer_format(out, "SIG%s", name);
    else
        buffer_format(out, "signal %d", count->signal);
}

void crash_list_tell(const struct crash_list *list, char *text, size_t size)
{
    struct buffer out = {0};
    for (unsigned i = 0; i < list->count; i++) {
        const struct crash_count *count = &list->classes[i];
        buffer_format(&out, "%s%s (", i > 0 ? ", " : "", count->class_name);
        end_tell(count, &out);
        buffer_format(&out, ") for %" PRIu64 " task%s", count->count, count->count == 1 ? "" : "s");
    }
    if (list->others > 0)
        buffer_format(&out, ", and more classes for %" PRIu64, list->others);
    snprintf(text, size, "%s", buffer_text(&out));
    buffer_fini(&out);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void note_overlap(void *context, unsigned resource, bool is_fenced)
{
    struct tally *tally = context;
    tally->overlaps++;
    tally->overlaps_unfenced += !is_fenced;
    resource_table_at(&tally->resources, resource)->overlaps++;
}

static void note_refusal(void *context, unsigned resource)
{
    struct tally *tally = context;
    tally->fence_refusals++;
    resource_table_at(&tally->resources, resource)->fence_refusals++;
}

struct tally *tally_create(const struct dry_run_plan *plan, struct instant load_from, struct instant measured_from)
{
    struct tally *tally = memory_new(struct tally);
    bool are_few = plan->kind == DRY_RUN_REHEARSAL && plan->popularity.count <= TALLY_DETAILED_MAX;
    tally->plan = plan;
    tally->load_from = load_from;
    tally->measured_from = measured_from;
    tally->load_until = INSTANT_NEVER;
    outstanding_init(&tally->tasks);
    resource_table_init(&tally->resources, TALLY_RESOURCES_MAX, TALLY_DETAILED_MAX, are_few ? 1 : DETAILED_FROM);
    second_series_init(&tally->series, load_from);
    tally->detector = overlap_detector_create(&(struct overlap_told){note_overlap, note_refusal, tally});
    tally->end_capacity = plan->arrivals == DRY_RUN_CLOSED ? plan->population : 0;
    if (tally->end_capacity > 0)
        tally->ends = memory_zeroed(tally->end_capacity, sizeof tally->ends[0]);
    return tally;
}

void tally_destroy(struct tally *tally)
{
    if (tally == NULL)
        return;
    for (unsigned i = 0; i < TALLY_HOSTS_MAX; i++) {
        for (unsigned j = 0; tally->hosts[i] != NULL && j < DRY_RUN_PROCESSES_MAX; j++)
            free(tally->hosts[i]->process[j]);
        free(tally->hosts[i]);
    }
    outstanding_fini(&tally->tasks);
    resource_table_fini(&tally->resources);
    second_series_fini(&tally->series);
    turn_order_fini(&tally->turns);
    overlap_detector_destroy(tally->detector);
    free(tally->ends);
    free(tally);
}

/* --- hosts and nodes ---------------------------------------------------------------------------------------------- */

static struct tally_host_count *host_of(struct tally *tally, unsigned host)
{
    invariant(host < TALLY_HOSTS_MAX);
    if (tally->hosts[host] == NULL)
        tally->hosts[host] = memory_new(struct tally_host_count);
    if (host >= tally->host_count)
        tally->host_count = host + 1;
    return tally->hosts[host];
}

static void text_set(char *into, size_t size, const char *text)
{
    size_t length = text != NULL ? strnlen(text, size - 1) : 0;
    if (length > 0)
        memcpy(into, text, length);
    into[length] = '\0';
}

void tally_host(struct tally *tally, unsigned host, const struct tally_host *facts)
{
    struct tally_host_count *count = host_of(tally, host);
    text_set(count->name, sizeof count->name, facts->name);
    count->processes = facts->processes;
    count->threads = facts->threads;
    count->clock_error_ns = facts->clock_error_ns;
    overlap_detector_host(tally->detector, host, facts->clock_error_ns);
}

void tally_records_lost(struct tally *tally, unsigned host, uint64_t lost)
{
    host_of(tally, host)->records_lost = lost;
}

unsigned tally_runners(const struct tally *tally)
{
    unsigned runners = 0;
    for (unsigned i = 0; i < tally->host_count; i++)
        if (tally->hosts[i] != NULL)
            runners += tally->hosts[i]->processes * tally->hosts[i]->threads;
    return runners;
}

/* A node that was started anew counts from nothing. */
void tally_node(struct tally *tally, unsigned node, const struct tally_node_sample *sample)
{
    invariant(node < RESULT_NODES_MAX);
    struct tally_node_count *count = &tally->nodes[node];
    const struct tally_node_sample *last = &count->last;
    if (count->is_known) {
        bool anew = sample->commands < last->commands || sample->cpu_s < last->cpu_s;
        double cpu_s = anew ? sample->cpu_s : sample->cpu_s - last->cpu_s;
        count->commands += anew ? sample->commands : sample->commands - last->commands;
        if (last->at.ns >= tally->measured_from.ns && sample->at.ns <= tally->load_until.ns) {
            count->cpu_s += cpu_s;
            count->cpu_over_s += seconds_of(instant_since(last->at, sample->at));
        }
    }
    text_set(count->name, sizeof count->name, sample->name);
    text_set(count->address, sizeof count->address, sample->address);
    count->is_queue_node = sample->is_queue_node;
    count->is_known = true;
    count->last = *sample;
    count->last.name = count->last.address = NULL;
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

/* Nobody has to do with the resources of the task that was just added. */
static bool is_alone(const struct tally *tally, const uint32_t *numbers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct resource_count *resource = resource_table_at(&tally->resources, numbers[i]);
        if (resource == NULL || resource->outstanding > 0)
            return false;
    }
    return true;
}

static void next_push_count(struct tally *tally, struct instant at)
{
    if (tally->end_count == 0)
        return;
    int64_t ended = tally->ends[tally->end_first];
    tally->end_first = (tally->end_first + 1) % tally->end_capacity;
    tally->end_count--;
    moments_add(&tally->next_push, seconds_of(at.ns - ended));
}

void tally_pushed(struct tally *tally, const char *jid, const char *const *resources, unsigned resource_count,
                  struct instant at)
{
    uint32_t numbers[RECORD_RESOURCES_MAX];
    if (resource_count > RECORD_RESOURCES_MAX)
        resource_count = RECORD_RESOURCES_MAX;
    for (unsigned i = 0; i < resource_count; i++)
        numbers[i] = resource_table_number(&tally->resources, resources[i]);

    struct outstanding *task = outstanding_add(&tally->tasks, jid, numbers, resource_count);
    if (task == NULL)
        return;
    task->pushed = at.ns;
    task->had_runner = tally->tasks.count - tally->parked_now - tally->away_now <= tally_runners(tally);
    task->was_alone = task->had_runner && is_alone(tally, numbers, resource_count);
    task->state = OUTSTANDING_AWAY;
    tally->away_now++;
    for (unsigned i = 0; i < resource_count; i++) {
        resource_table_arrive(&tally->resources, numbers[i], tally_is_measured(tally, at.ns));
        if (numbers[i] != RESOURCE_NONE)
            resource_table_at(&tally->resources, numbers[i])->outstanding++;
    }
    tally_task_is(tally, task, OUTSTANDING_WAITING, at.ns);
    tally_task_comes(tally, task, at.ns);
    tally->pushed++;
    tally->pushed_measured += tally_is_measured(tally, at.ns);
    tally->series.pushed++;
    next_push_count(tally, at);
}

uint64_t tally_outstanding(const struct tally *tally)
{
    return tally->tasks.count;
}

/* --- records ------------------------------------------------------------------------------------------------------ */

static struct process_count *process_of(struct tally_host_count *host, unsigned process)
{
    invariant(process < DRY_RUN_PROCESSES_MAX);
    if (host->process[process] == NULL)
        host->process[process] = memory_new(struct process_count);
    return host->process[process];
}

static void process_said(struct tally *tally, unsigned host_number, unsigned process,
                         const struct observed_process *said, struct instant at)
{
    struct tally_host_count *host = host_of(tally, host_number);
    struct process_count *count = process_of(host, process);
    struct instant before = count->heard;
    bool is_measured = before.ns != 0 && before.ns >= tally->measured_from.ns && at.ns <= tally->load_until.ns;
    int64_t cpu_ns = process_count_add(count, said, at, is_measured, &tally->sums, &tally->series.extend);
    if (is_measured) {
        host->cpu_ns += cpu_ns;
        host->cpu_over_ns += instant_since(before, at);
    }
}

/* The rings of the threads of a process are read one after the other: it may have left already. */
static void task_entered(struct tally *tally, unsigned host, unsigned process, const struct overlap_visit *visit)
{
    struct outstanding *task = outstanding_find(&tally->tasks, visit->jid);
    if (task == NULL || visit->at.ns < task->left)
        return;
    task->host = host;
    task->process = process;
    tally_task_is(tally, task, OUTSTANDING_INSIDE, visit->at.ns);
}

/* 0 stays 0: it means that it did not happen. */
static struct instant moved(struct instant at, int64_t offset_ns)
{
    return at.ns == 0 ? at : instant_after(at, offset_ns);
}

static void visit_note(struct tally *tally, unsigned host, unsigned process, const struct record *record,
                       int64_t offset_ns)
{
    const struct witnessed *seen = &record->witnessed;
    struct overlap_visit visit = {.host = host,
                                  .process = process,
                                  .jid = seen->jid,
                                  .token = seen->token,
                                  .at = moved(seen->at, offset_ns),
                                  .moved_ns = offset_ns};
    for (unsigned i = 0; i < seen->resource_count; i++) {
        visit.resource = resource_table_number(&tally->resources, seen->resources[i]);
        if (visit.resource == RESOURCE_NONE)
            continue;
        if (record->kind == RECORD_ENTER)
            overlap_detector_entered(tally->detector, &visit);
        else
            overlap_detector_left(tally->detector, &visit);
    }
    if (record->kind == RECORD_ENTER)
        task_entered(tally, host, process, &visit);
}

static struct observed_task task_moved(const struct observed_task *task, int64_t offset_ns)
{
    struct observed_task left = *task;
    left.claimed = moved(task->claimed, offset_ns);
    left.asked = moved(task->asked, offset_ns);
    left.locked = moved(task->locked, offset_ns);
    left.started = moved(task->started, offset_ns);
    left.ended = moved(task->ended, offset_ns);
    left.left = moved(task->left, offset_ns);
    return left;
}

static void heard(struct tally *tally, unsigned host, unsigned process, struct instant at)
{
    overlap_detector_heard(tally->detector, host, process, at);
    if (instant_before(tally->latest, at))
        tally->latest = at;
    tally_turns_take(tally, instant_after(tally->latest, -TURN_ORDER_NS));
}

/* The worker's own word on when the handler returned: it counts when the handler's is lost. */
static void task_returned(struct tally *tally, unsigned host, unsigned process, const struct observed_task *left,
                          int64_t offset_ns)
{
    struct overlap_visit visit = {
        .host = host, .process = process, .jid = left->jid, .at = left->ended, .moved_ns = offset_ns};
    for (unsigned i = 0; left->ended.ns != 0 && i < left->resource_count; i++) {
        visit.resource = resource_table_number(&tally->resources, left->resources[i]);
        if (visit.resource != RESOURCE_NONE)
            overlap_detector_returned(tally->detector, &visit);
    }
}

bool tally_record(struct tally *tally, unsigned host, unsigned process, const struct record *record, int64_t offset_ns)
{
    struct instant at;
    switch (record->kind) {
    case RECORD_TASK: {
        struct observed_task left = task_moved(&record->task, offset_ns);
        task_returned(tally, host, process, &left, offset_ns);
        bool is_gone = tally_task_left(tally, &left);
        heard(tally, host, process, left.left);
        return is_gone;
    }
    case RECORD_PROCESS:
        at = moved(record->process.at, offset_ns);
        process_said(tally, host, process, &record->process, at);
        break;
    case RECORD_CRASH:
        at = moved(record->crash.at, offset_ns);
        crash_list_note(&tally->crashes, &record->crash);
        break;
    default:
        at = moved(record->witnessed.at, offset_ns);
        visit_note(tally, host, process, record, offset_ns);
    }
    heard(tally, host, process, at);
    return false;
}

struct death {
    struct tally *tally;
    unsigned host, process;
    struct instant at;
};

/* What it held was held until then at the latest; the task is recovered, and waits until that. */
static void task_died(void *context, struct outstanding *task)
{
    const struct death *death = context;
    struct tally *tally = death->tally;
    if (task->state != OUTSTANDING_INSIDE || task->host != death->host || task->process != death->process)
        return;
    tally_task_waited(tally, task, task->inside_since);
    tally_runner_taken(tally, task->inside_since, death->at.ns);
    for (unsigned i = 0; i < task->resource_count; i++) {
        struct resource_count *resource = resource_table_at(&tally->resources, task->resources[i]);
        if (resource == NULL)
            continue;
        resource->held_time += tally_clip(tally, task->inside_since, death->at.ns);
        turn_order_add(&tally->turns,
                       &(struct turn){.kind = TURN_BREAKS, .resource = task->resources[i], .at = death->at.ns});
    }
    tally_task_goes(tally, task, death->at.ns); /* until it is recovered */
    tally_task_is(tally, task, OUTSTANDING_WAITING, death->at.ns);
}

void tally_process_died(struct tally *tally, unsigned host, unsigned process, struct instant at)
{
    struct death death = {tally, host, process, at};
    outstanding_each(&tally->tasks, task_died, &death);
    process_count_end(process_of(host_of(tally, host), process));
    overlap_detector_died(tally->detector, host, process, at);
}

/* --- how it stands ------------------------------------------------------------------------------------------------ */

/* Share of the runners that run a handler now, as far as their processes said. */
static double busy_share(const struct tally *tally)
{
    unsigned busy = 0, runners = 0;
    for (unsigned i = 0; i < tally->host_count; i++) {
        for (unsigned j = 0; tally->hosts[i] != NULL && j < DRY_RUN_PROCESSES_MAX; j++) {
            const struct process_count *process = tally->hosts[i]->process[j];
            busy += process != NULL ? process->busy : 0;
            runners += process != NULL ? process->runners : 0;
        }
    }
    return runners > 0 ? (double)busy / runners : 0;
}

/* True while there are tasks enough that a runner which ends one has the next. */
static bool is_backlog(const struct tally *tally)
{
    size_t runners = tally_runners(tally), ready = tally->tasks.count - tally->parked_now - tally->away_now;
    return ready > runners + runners / 4 + 2;
}

/* The runners' time that no task took, in a second in which tasks were there at its beginning and its end. When tasks
 * took little of it, it was something else that kept them from the runners. */
static void runner_turn_count(struct tally *tally, struct instant from, struct instant until)
{
    double all = seconds_of(instant_since(from, until)) * tally_runners(tally);
    bool is_full = is_backlog(tally), is_used = tally->taken_this_second > RUNNERS_USED * all;
    if (is_full && tally->was_backlog && is_used && tally_is_measured(tally, from.ns)) {
        tally->runner_idle_s += all - tally->taken_this_second;
        tally->runner_turns += tally->left_this_second;
    }
    tally->was_backlog = is_full;
    tally->taken_this_second = 0;
    tally->left_this_second = 0;
}

void tally_second(struct tally *tally, struct instant now)
{
    runner_turn_count(tally, tally->series.closed, now);
    double waiting = (double)(tally->tasks.count - tally->inside_now - tally->away_now);
    second_series_close(&tally->series, now, waiting);
    overlap_detector_tidy(tally->detector);
}

void tally_load_ended(struct tally *tally, struct instant at)
{
    tally->load_until = at;
}

static double heat_of(const struct tally_hot *hot)
{
    return hot->waiters + hot->share_held;
}

/* Keeps the hottest, in order. */
static void hot_insert(struct tally_live *live, const struct tally_hot *hot)
{
    if (live->hot_count == TALLY_HOT_MAX && heat_of(&live->hot[TALLY_HOT_MAX - 1]) >= heat_of(hot))
        return;
    if (live->hot_count < TALLY_HOT_MAX)
        live->hot_count++;
    unsigned at = live->hot_count - 1;
    for (; at > 0 && heat_of(&live->hot[at - 1]) < heat_of(hot); at--)
        live->hot[at] = live->hot[at - 1];
    live->hot[at] = *hot;
}

void tally_live(struct tally *tally, struct instant now, struct tally_live *live)
{
    double measured = tally_clip(tally, tally->measured_from.ns, now.ns);
    *live = (struct tally_live){.pushed = tally->pushed,
                                .ended = tally->ended,
                                .outstanding = tally->tasks.count,
                                .parked = tally->endings[FLOW_PARKED],
                                .lost = tally->lost,
                                .overlaps = tally->overlaps,
                                .busy = busy_share(tally),
                                .runners = tally_runners(tally)};
    live->wait_p50 = (double)histogram_quantile(&tally->wait, 0.5) / (double)US_PER_S;
    live->wait_p99 = (double)histogram_quantile(&tally->wait, 0.99) / (double)US_PER_S;
    if (tally->series.count > 0)
        live->last = tally->series.lines[tally->series.count - 1];
    for (size_t i = 0; i < tally->resources.count; i++) {
        const struct resource_count *resource = &tally->resources.resources[i];
        if (resource->arrived == 0)
            continue;
        hot_insert(live, &(struct tally_hot){.name = resource->name,
                                             .share_held = measured > 0 ? resource->held_time / measured : 0,
                                             .waiters = resource->waiting});
    }
}
