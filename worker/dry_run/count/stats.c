/* See stats.h. What comes in, and how it stands now. */
#include "worker/dry_run/count/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/memory.h"
#include "worker/dry_run/count/stats_private.h"

/* Fewer arrivals make no detail worth while where there are more resources than details. */
enum { DETAILED_FROM = 8 };

/* By this share runners are taken that lack nothing but time. */
#define RUNNERS_USED 0.75

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

/* A process that came back although no death of it was reported. */
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
    sums->claim_calls += said->claim_calls - count->claim_calls;
    count->claim_calls = said->claim_calls;
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

/* --- life --------------------------------------------------------------------------------------------------------- */

static void note_overlap(void *context, unsigned resource, bool is_fenced)
{
    struct stats *stats = context;
    stats->overlaps++;
    stats->overlaps_unfenced += !is_fenced;
    resource_table_at(&stats->resources, resource)->overlaps++;
}

static void note_refusal(void *context, unsigned resource)
{
    struct stats *stats = context;
    stats->fence_refusals++;
    resource_table_at(&stats->resources, resource)->fence_refusals++;
}

static void text_set(char *into, size_t size, const char *text)
{
    size_t length = text != NULL ? strnlen(text, size - 1) : 0;
    if (length > 0)
        memcpy(into, text, length);
    into[length] = '\0';
}

struct stats *stats_create(const struct dry_run_plan *plan, const char *host, struct instant load_from,
                           struct instant measured_from)
{
    struct stats *stats = memory_new(struct stats);
    bool are_few = plan->kind == DRY_RUN_REHEARSAL && plan->popularity.count <= STATS_DETAILED_MAX;
    stats->plan = plan;
    text_set(stats->host.name, sizeof stats->host.name, host);
    stats->host.processes = plan->processes;
    stats->host.threads = plan->threads;
    stats->load_from = load_from;
    stats->measured_from = measured_from;
    stats->load_until = stats->calm_until = INSTANT_NEVER;
    outstanding_init(&stats->tasks);
    resource_table_init(&stats->resources, STATS_RESOURCES_MAX, STATS_DETAILED_MAX, are_few ? 1 : DETAILED_FROM);
    second_series_init(&stats->series, load_from);
    stats->detector = overlap_detector_create(&(struct overlap_told){note_overlap, note_refusal, stats});
    return stats;
}

void stats_destroy(struct stats *stats)
{
    if (stats == NULL)
        return;
    for (unsigned i = 0; i < DRY_RUN_PROCESSES_MAX; i++)
        free(stats->processes[i]);
    outstanding_fini(&stats->tasks);
    resource_table_fini(&stats->resources);
    second_series_fini(&stats->series);
    event_order_fini(&stats->events);
    overlap_detector_destroy(stats->detector);
    free(stats);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

void stats_records_lost(struct stats *stats, uint64_t lost)
{
    stats->host.records_lost = lost;
}

/* A node that was started anew counts from nothing. */
void stats_node(struct stats *stats, unsigned node, const struct stats_node_sample *sample)
{
    invariant(node < RESULT_NODES_MAX);
    struct stats_node_count *count = &stats->nodes[node];
    const struct stats_node_sample *last = &count->last;
    if (count->is_known) {
        bool anew = sample->commands < last->commands || sample->cpu_s < last->cpu_s;
        double cpu_s = anew ? sample->cpu_s : sample->cpu_s - last->cpu_s;
        count->told.commands_counted += anew ? sample->commands : sample->commands - last->commands;
        if (last->at.ns >= stats->measured_from.ns && sample->at.ns <= stats->load_until.ns) {
            count->cpu_s += cpu_s;
            count->cpu_over_s += seconds_of(instant_since(last->at, sample->at));
        }
    }
    text_set(count->told.name, sizeof count->told.name, sample->name);
    text_set(count->told.address, sizeof count->told.address, sample->address);
    count->told.is_queue_node = sample->is_queue_node;
    count->is_known = true;
    count->last = *sample;
    count->last.name = count->last.address = NULL;
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

/* No other task is at the resources of the task that was just added. */
static bool is_alone(const struct stats *stats, const uint32_t *numbers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct resource_count *resource = resource_table_at(&stats->resources, numbers[i]);
        if (resource == NULL || resource->outstanding > 0)
            return false;
    }
    return true;
}

static void next_push_count(struct stats *stats, struct instant at)
{
    if (stats->made_room != 0 && at.ns < stats->calm_until.ns)
        moments_add(&stats->next_push, seconds_of(at.ns - stats->made_room));
    stats->made_room = 0;
}

void stats_pushed(struct stats *stats, const char *jid, const char *const *resources, unsigned resource_count,
                  struct instant at)
{
    uint32_t numbers[RECORD_RESOURCES_MAX];
    if (resource_count > RECORD_RESOURCES_MAX)
        resource_count = RECORD_RESOURCES_MAX;
    for (unsigned i = 0; i < resource_count; i++)
        numbers[i] = resource_table_number(&stats->resources, resources[i]);

    struct outstanding *task = outstanding_add(&stats->tasks, jid, numbers, resource_count);
    if (task == NULL)
        return;
    task->pushed = at.ns;
    task->had_runner = stats->tasks.count - stats->parked_now - stats->away_now <= stats_runners(stats);
    task->was_alone = task->had_runner && is_alone(stats, numbers, resource_count);
    task->state = OUTSTANDING_AWAY;
    stats->away_now++;
    for (unsigned i = 0; i < resource_count; i++) {
        resource_table_arrive(&stats->resources, numbers[i], stats_is_measured(stats, at.ns));
        if (numbers[i] != RESOURCE_NONE)
            resource_table_at(&stats->resources, numbers[i])->outstanding++;
    }
    stats_task_is(stats, task, OUTSTANDING_WAITING, at.ns);
    stats_task_comes(stats, task, at.ns);
    stats->pushed++;
    stats->pushed_measured += stats_is_measured(stats, at.ns);
    stats->arrived_measured += stats_is_measured(stats, at.ns) ? resource_count : 0;
    stats->series.pushed++;
    next_push_count(stats, at);
}

uint64_t stats_outstanding(const struct stats *stats)
{
    return stats->tasks.count;
}

uint64_t stats_missing(const struct stats *stats)
{
    const struct dry_run_plan *plan = stats->plan;
    uint64_t there = stats->tasks.count - stats->away_now;
    bool has_room = plan_is_closed(plan) && stats->tasks.count < DRY_RUN_TASKS_MAX;
    return has_room && there < plan->population ? plan->population - there : 0;
}

uint64_t stats_asked(const struct stats *stats, unsigned node)
{
    return node == 0 ? stats->sums.claim_calls : stats->sums.nodes[node - 1].requests;
}

/* --- records ------------------------------------------------------------------------------------------------------ */

static struct process_count *process_of(struct stats *stats, unsigned process)
{
    invariant(process < DRY_RUN_PROCESSES_MAX);
    if (stats->processes[process] == NULL)
        stats->processes[process] = memory_new(struct process_count);
    return stats->processes[process];
}

static void process_said(struct stats *stats, unsigned process, const struct observed_process *said)
{
    struct process_count *count = process_of(stats, process);
    struct instant before = count->heard, at = said->at;
    bool is_measured = before.ns != 0 && before.ns >= stats->measured_from.ns && at.ns <= stats->load_until.ns;
    int64_t cpu_ns = process_count_add(count, said, at, is_measured, &stats->sums, &stats->series.extend);
    if (is_measured) {
        stats->cpu_ns += cpu_ns;
        stats->cpu_over_ns += instant_since(before, at);
    }
}

/* The rings of the threads of a process are read one after the other: it may have left already. */
static void task_entered(struct stats *stats, unsigned process, const struct overlap_visit *visit)
{
    struct outstanding *task = outstanding_find(&stats->tasks, visit->jid);
    if (task == NULL || visit->at.ns < task->left)
        return;
    task->process = process;
    stats_task_is(stats, task, OUTSTANDING_INSIDE, visit->at.ns);
}

static void visit_note(struct stats *stats, unsigned process, const struct record *record)
{
    const struct handler_event *seen = &record->event;
    struct overlap_visit visit = {.process = process, .jid = seen->jid, .token = seen->token, .at = seen->at};
    for (unsigned i = 0; i < seen->resource_count; i++) {
        visit.resource = resource_table_number(&stats->resources, seen->resources[i]);
        if (visit.resource == RESOURCE_NONE)
            continue;
        if (record->kind == RECORD_ENTER)
            overlap_detector_entered(stats->detector, &visit);
        else
            overlap_detector_left(stats->detector, &visit);
    }
    if (record->kind == RECORD_ENTER)
        task_entered(stats, process, &visit);
}

static void heard(struct stats *stats, unsigned process, struct instant at)
{
    overlap_detector_heard(stats->detector, process, at);
    if (instant_before(stats->latest, at))
        stats->latest = at;
    stats_events_take(stats, instant_after(stats->latest, -EVENT_ORDER_NS));
}

/* The worker's own word on when the handler returned: it counts when the handler's is lost. */
static void task_returned(struct stats *stats, unsigned process, const struct observed_task *left)
{
    struct overlap_visit visit = {.process = process, .jid = left->jid, .at = left->ended};
    for (unsigned i = 0; left->ended.ns != 0 && i < left->resource_count; i++) {
        visit.resource = resource_table_number(&stats->resources, left->resources[i]);
        if (visit.resource != RESOURCE_NONE)
            overlap_detector_returned(stats->detector, &visit);
    }
}

static void crash_count(struct stats *stats, const struct crash *crash)
{
    struct crash_count *count = class_of(&stats->crashes, crash);
    if (count != NULL)
        count->count++;
    else
        stats->crashes.others++;
}

void stats_record(struct stats *stats, unsigned process, const struct record *record)
{
    switch (record->kind) {
    case RECORD_TASK:
        task_returned(stats, process, &record->task);
        stats_task_left(stats, &record->task);
        heard(stats, process, record->task.left);
        break;
    case RECORD_PROCESS:
        process_said(stats, process, &record->process);
        heard(stats, process, record->process.at);
        break;
    case RECORD_CRASH:
        crash_count(stats, &record->crash);
        heard(stats, process, record->crash.at);
        break;
    default:
        visit_note(stats, process, record);
        heard(stats, process, record->event.at);
    }
}

struct death {
    struct stats *stats;
    unsigned process;
    struct instant at;
};

/* What it held was held until then at the latest; the task is recovered, and waits until that. */
static void task_died(void *context, struct outstanding *task)
{
    const struct death *death = context;
    struct stats *stats = death->stats;
    if (task->state != OUTSTANDING_INSIDE || task->process != death->process)
        return;
    stats_task_waited(stats, task, task->inside_since);
    stats_runner_taken(stats, task->inside_since, death->at.ns);
    for (unsigned i = 0; i < task->resource_count; i++) {
        struct resource_count *resource = resource_table_at(&stats->resources, task->resources[i]);
        if (resource == NULL)
            continue;
        resource->held_time += stats_clip(stats, task->inside_since, death->at.ns);
        event_order_add(&stats->events, &(struct resource_event){
                                            .kind = EVENT_BREAKS, .resource = task->resources[i], .at = death->at.ns});
    }
    stats_task_goes(stats, task, death->at.ns); /* until it is recovered */
    stats_task_is(stats, task, OUTSTANDING_WAITING, death->at.ns);
}

void stats_process_died(struct stats *stats, unsigned process, struct instant at)
{
    struct death death = {stats, process, at};
    outstanding_each(&stats->tasks, task_died, &death);
    process_count_end(process_of(stats, process));
    overlap_detector_died(stats->detector, process, at);
}

/* --- how it stands ------------------------------------------------------------------------------------------------ */

/* Share of the runners that run a handler now, as far as their processes said. */
static double busy_share(const struct stats *stats)
{
    unsigned busy = 0, runners = 0;
    for (unsigned i = 0; i < DRY_RUN_PROCESSES_MAX; i++) {
        const struct process_count *process = stats->processes[i];
        busy += process != NULL ? process->busy : 0;
        runners += process != NULL ? process->runners : 0;
    }
    return runners > 0 ? (double)busy / runners : 0;
}

/* True while there are tasks enough that a runner which ends one has the next. */
static bool is_backlog(const struct stats *stats)
{
    size_t runners = stats_runners(stats), ready = stats->tasks.count - stats->parked_now - stats->away_now;
    return ready > runners + runners / 4 + 2;
}

/* The runners' time that no task took, in a second in which tasks were there at its beginning and its end. When tasks
 * took little of it, it was something else that kept them from the runners. */
static void runner_changeover_count(struct stats *stats, struct instant from, struct instant until)
{
    double all = seconds_of(instant_since(from, until)) * stats_runners(stats);
    bool is_full = is_backlog(stats), is_used = stats->taken_this_second > RUNNERS_USED * all;
    if (is_full && stats->was_backlog && is_used && stats_is_calm(stats, from.ns)) {
        stats->runner_idle_s += all - stats->taken_this_second;
        stats->runner_changeovers += stats->left_this_second;
    }
    stats->was_backlog = is_full;
    stats->taken_this_second = 0;
    stats->left_this_second = 0;
}

void stats_disturbed(struct stats *stats, struct instant at)
{
    stats->calm_until = instant_earlier(stats->calm_until, at);
}

void stats_second(struct stats *stats, struct instant now)
{
    runner_changeover_count(stats, stats->series.closed, now);
    double waiting = (double)(stats->tasks.count - stats->inside_now - stats->away_now);
    second_series_close(&stats->series, now, waiting);
    overlap_detector_tidy(stats->detector);
}

void stats_load_ended(struct stats *stats, struct instant at)
{
    stats->load_until = at;
}

static double heat_of(const struct stats_hot *hot)
{
    return hot->waiters + hot->share_held;
}

/* Keeps the hottest, in order. */
static void hot_insert(struct stats_live *live, const struct stats_hot *hot)
{
    if (live->hot_count == STATS_HOT_MAX && heat_of(&live->hot[STATS_HOT_MAX - 1]) >= heat_of(hot))
        return;
    if (live->hot_count < STATS_HOT_MAX)
        live->hot_count++;
    unsigned at = live->hot_count - 1;
    for (; at > 0 && heat_of(&live->hot[at - 1]) < heat_of(hot); at--)
        live->hot[at] = live->hot[at - 1];
    live->hot[at] = *hot;
}

void stats_live(struct stats *stats, struct instant now, struct stats_live *live)
{
    double measured = stats_clip(stats, stats->measured_from.ns, now.ns);
    *live = (struct stats_live){.pushed = stats->pushed,
                                .ended = stats->ended,
                                .outstanding = stats->tasks.count,
                                .parked = stats->endings[FLOW_PARKED],
                                .lost = stats->lost,
                                .overlaps = stats->overlaps,
                                .busy = busy_share(stats),
                                .runners = stats_runners(stats)};
    live->wait_p50 = (double)histogram_quantile(&stats->wait, 0.5) / (double)US_PER_S;
    live->wait_p99 = (double)histogram_quantile(&stats->wait, 0.99) / (double)US_PER_S;
    if (stats->series.count > 0)
        live->last = stats->series.lines[stats->series.count - 1];
    for (size_t i = 0; i < stats->resources.count; i++) {
        const struct resource_count *resource = &stats->resources.resources[i];
        if (resource->arrived == 0)
            continue;
        hot_insert(live, &(struct stats_hot){.name = resource->name,
                                             .share_held = measured > 0 ? resource->held_time / measured : 0,
                                             .waiters = resource->waiting});
    }
}
