#include "worker/commands/health.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/print/human.h"

/* Of a kind, and of resources, that the line names. */
enum { NAMED = 3, TEXT_MAX = 1400 };

const struct health_bounds health_bounds_usual = {.max_latency_ns = -1, .max_dead = -1, .min_processes = 1};

static void find(struct health *health, enum health_kind kind, const char *format, ...) PRINTF_LIKE(3, 4);
static void find(struct health *health, enum health_kind kind, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    health->items = memory_resize(health->items, health->count + 1, sizeof *health->items);
    health->items[health->count++] = (struct health_finding){.kind = kind, .text = memory_text(log_defuse(text))};
}

/* --- the queue node ----------------------------------------------------------------------------------------------- */

static void judge_writes(struct health *health, const struct status *status)
{
    char used[HUMAN_TEXT_MAX], most[HUMAN_TEXT_MAX];
    if (status->has_failing_disk)
        find(health, HEALTH_WRITES, "the queue node cannot write to its disk and refuses writes");
    if (status->memory_max > 0 && status->memory_used > status->memory_max)
        find(health, HEALTH_WRITES, "the queue node uses %s of %s and refuses writes",
             human_size(status->memory_used, used), human_size(status->memory_max, most));
}

static void judge_keys(struct health *health, const struct status *status)
{
    const struct {
        const char *name, *kind;
        bool is_fine;
    } keys[] = {
        {"queues", "set", status->backlog.knows_listed},   {"paused", "set", status->backlog.knows_paused},
        {"schedule", "sorted set", status->schedule >= 0}, {"retry", "sorted set", status->retry >= 0},
        {"dead", "sorted set", status->dead >= 0},         {"hf:2:contended", "sorted set", !status->waiting.is_clash}};
    char quoted[LOG_QUOTE_MAX];
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (!keys[i].is_fine)
            find(health, HEALTH_KEY, "the key %s holds no %s", keys[i].name, keys[i].kind);
    for (size_t i = 0; i < status->fleet.count; i++)
        if (status->fleet.items[i].is_clash)
            find(health, HEALTH_KEY, "the claims of %s cannot be read: their key holds no hash",
                 log_quote(status->fleet.items[i].identity, quoted));
}

/* --- who works ---------------------------------------------------------------------------------------------------- */

static void judge_workers(struct health *health, const struct status *status, long long least)
{
    long long serving = status_serving(status);
    if (serving >= least)
        return;
    if (serving == 0)
        find(health, HEALTH_WORKERS, "no worker takes tasks");
    else
        find(health, HEALTH_WORKERS, "%lld worker%s take%s tasks, at least %lld should", serving, human_plural(serving),
             serving == 1 ? "s" : "", least);
}

static void judge_locks(struct health *health, const struct status *status)
{
    if (status->votes.nodes > 0 && status->votes.voters <= status->votes.nodes / 2)
        find(health, HEALTH_LOCKS, "%u of %u lock nodes vote: tasks with locks are not started (%s)",
             status->votes.voters, status->votes.nodes, status->votes.reason);
}

static void terms_note(void *context, const struct terms_difference *difference)
{
    struct health *health = context;
    if (difference->breaks)
        find(health, HEALTH_TERMS, "%s", difference->sentence);
    else if (health->warning == NULL)
        health->warning = log_defuse(memory_text(difference->sentence));
}

static void judge_claims(struct health *health, const struct status *status, struct wall_time now)
{
    char quoted[LOG_QUOTE_MAX], human[HUMAN_TEXT_MAX];
    for (size_t i = 0; i < status->fleet.count; i++) {
        const struct fleet_process *process = &status->fleet.items[i];
        if (process->state == FLEET_LOST && process->lease_end.us < now.us - FLEET_RECOVERY_US)
            find(health, HEALTH_CLAIMS, "the lease of %s ended %s and nobody recovers its claims",
                 log_quote(process->identity, quoted), human_moment(process->lease_end, now, human));
    }
}

static void judge_answers(struct health *health, const struct status *status)
{
    char quoted[LOG_QUOTE_MAX];
    for (size_t i = 0; i < status->fleet.count; i++) {
        const struct fleet_process *process = &status->fleet.items[i];
        if (process->state == FLEET_ALIVE && process->info.unreceived > 0)
            find(health, HEALTH_ANSWERS,
                 "the queue node closes the connection of %s before it gets %lld answer%s, which may be larger than "
                 "client-output-buffer-limit allows",
                 log_quote(process->identity, quoted), process->info.unreceived,
                 human_plural(process->info.unreceived));
    }
}

/* --- what waits --------------------------------------------------------------------------------------------------- */

static void judge_queue_keys(struct health *health, const struct backlog *backlog)
{
    char quoted[LOG_QUOTE_MAX];
    for (size_t i = 0; i < backlog->count; i++)
        if (backlog->items[i].length < 0)
            find(health, HEALTH_QUEUE_KEY, "the key of queue %s holds no list",
                 log_quote(backlog->items[i].name, quoted));
}

static void judge_paused(struct health *health, const struct backlog *backlog)
{
    char quoted[LOG_QUOTE_MAX], human[HUMAN_TEXT_MAX];
    for (size_t i = 0; i < backlog->count; i++)
        if (backlog->items[i].is_paused && backlog->items[i].length > 0)
            find(health, HEALTH_PAUSED, "the queue %s is paused: %s task%s wait%s",
                 log_quote(backlog->items[i].name, quoted), human_count(backlog->items[i].length, human),
                 human_plural(backlog->items[i].length), backlog->items[i].length == 1 ? "s" : "");
}

/* A worker of another program, such as Sidekiq, has a queue in common with ours: it announces no classes. */
static bool shares_queues(const struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->count; i++)
        for (size_t j = 0; fleet->items[i].state == FLEET_FOREIGN && j < fleet->count; j++)
            for (size_t k = 0; fleet->items[j].state == FLEET_ALIVE && k < fleet->items[i].info.queue_count; k++)
                if (fleet_process_serves(&fleet->items[j], fleet->items[i].info.queues[k]))
                    return true;
    return false;
}

/* One that has just got its lease does not say yet which queues are its. */
static bool may_be_served(const struct fleet *fleet, const char *queue)
{
    for (size_t i = 0; i < fleet->count; i++)
        if (fleet->items[i].state == FLEET_ALIVE && fleet->items[i].info.queue_count == 0)
            return true;
    return fleet_servers(fleet, queue) > 0;
}

static void judge_queues(struct health *health, const struct status *status)
{
    char quoted[LOG_QUOTE_MAX], human[HUMAN_TEXT_MAX];
    for (size_t i = 0; i < status->backlog.count && status_serving(status) > 0; i++) {
        const struct backlog_queue *queue = &status->backlog.items[i];
        if (queue->length > 0 && !may_be_served(&status->fleet, queue->name))
            find(health, HEALTH_QUEUE, "no worker serves the queue %s: %s task%s wait%s",
                 log_quote(queue->name, quoted), human_count(queue->length, human), human_plural(queue->length),
                 queue->length == 1 ? "s" : "");
    }
}

static void judge_classes(struct health *health, const struct status *status)
{
    char quoted[LOG_QUOTE_MAX], human[HUMAN_TEXT_MAX];
    bool is_doubtful = status->unserved_count > 0 && shares_queues(&status->fleet);
    for (size_t i = 0; i < status->unserved_count; i++)
        find(health, HEALTH_CLASS, "no worker serves the class %s: %s task%s wait%s%s",
             log_quote(status->unserved[i].name, quoted), human_count(status->unserved[i].tasks, human),
             human_plural(status->unserved[i].tasks), status->unserved[i].tasks == 1 ? "s" : "",
             is_doubtful && i == 0 ? " (what the workers of another program serve that share a queue is not known)"
                                   : "");
}

static void judge_growth(struct health *health, const struct status *status)
{
    char quoted[LOG_QUOTE_MAX], waited[HUMAN_TEXT_MAX], pushed[HUMAN_TEXT_MAX], done[HUMAN_TEXT_MAX];
    for (size_t i = 0; i < status->backlog.count; i++) {
        const struct backlog_queue *queue = &status->backlog.items[i];
        if (queue->pushed_lately > 0)
            find(health, HEALTH_GROWTH,
                 "the queue %s grows: its oldest task has waited %s, and within a minute %s or more were pushed there, "
                 "while all workers did %s",
                 log_quote(queue->name, quoted), human_span(queue->latency_us, waited),
                 human_count(queue->pushed_lately, pushed), human_count(status->minute_processed, done));
    }
}

/* What is due and stays in its set waits as much as what is in a queue: nobody moves it. */
static void judge_bounds(struct health *health, const struct status *status, const struct health_bounds *bounds)
{
    static const char *const names[] = {"schedule", "retry"};
    char waited[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    int64_t most_us = bounds->max_latency_ns >= 0 ? bounds->max_latency_ns / NS_PER_US : INT64_MAX;
    for (size_t i = 0; i < status->backlog.count; i++) {
        const struct backlog_queue *queue = &status->backlog.items[i];
        if (!queue->is_paused && queue->latency_us > most_us)
            find(health, HEALTH_BOUND, "the oldest task of queue %s has waited %s", log_quote(queue->name, quoted),
                 human_span(queue->latency_us, waited));
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (status->overdue_us[i] > most_us)
            find(health, HEALTH_BOUND, "an entry of %s has been due for %s and was not moved to its queue", names[i],
                 human_span(status->overdue_us[i], waited));
    if (bounds->max_dead >= 0 && status->dead > bounds->max_dead)
        find(health, HEALTH_BOUND, "%lld dead task%s, at most %lld are accepted", status->dead,
             human_plural(status->dead), bounds->max_dead);
}

void health_judge(struct health *health, const struct status *status, const struct health_bounds *bounds,
                  struct wall_time now)
{
    char human[HUMAN_TEXT_MAX];
    *health = (struct health){.count = 0};
    judge_writes(health, status);
    judge_keys(health, status);
    judge_workers(health, status, bounds->min_processes);
    judge_locks(health, status);
    fleet_compare_terms(&status->fleet, NULL, terms_note, health);
    judge_claims(health, status, now);
    judge_answers(health, status);
    judge_queue_keys(health, &status->backlog);
    judge_paused(health, &status->backlog);
    judge_queues(health, status);
    judge_classes(health, status);
    if (status->dead >= DEAD_ENTRIES - 1)
        find(health, HEALTH_DEAD, "dead is full with %s tasks: each one more pushes out the oldest",
             human_count(status->dead, human));
    judge_growth(health, status);
    judge_bounds(health, status, bounds);
}

void health_free(struct health *health)
{
    for (size_t i = 0; i < health->count; i++)
        free(health->items[i].text);
    free(health->items);
    free(health->warning);
    *health = (struct health){.count = 0};
}

/* --- one line ----------------------------------------------------------------------------------------------------- */

/* A few of each kind: names come from tasks, so there may be any number. Returns which kinds there are. */
static unsigned findings_write(const struct health *health, struct buffer *out)
{
    unsigned kinds = 0;
    for (size_t i = 0, end; i < health->count; i = end) {
        enum health_kind kind = health->items[i].kind;
        for (end = i; end < health->count && health->items[end].kind == kind; end++)
            if (end - i < NAMED)
                buffer_format(out, "%s; ", health->items[end].text);
        if (end - i > NAMED)
            buffer_format(out, "and %zu more of that kind; ", end - i - NAMED);
        kinds |= 1U << kind;
    }
    return kinds;
}

static void nodes_write(const struct status *status, struct buffer *out)
{
    if (status->is_lock_unknown)
        buffer_append_text(out, "lock nodes not known (no configuration), ");
    if (status->votes.nodes == 0)
        return;
    buffer_format(out, "%u of %u lock node%s vote%s", status->votes.voters, status->votes.nodes,
                  human_plural(status->votes.nodes), status->votes.voters == 1 && status->votes.nodes == 1 ? "s" : "");
    if (status->votes.voters < status->votes.nodes)
        buffer_format(out, " (%u more may fail: %s)", status->votes.voters - status->votes.nodes / 2 - 1,
                      status->votes.reason);
    buffer_append_text(out, ", ");
}

static void waiting_write(const struct waiting_lists *waiting, struct buffer *out)
{
    char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    buffer_format(out, "%s%s waiting for locks", waiting->is_cut ? "at least " : "",
                  human_count(waiting_lists_total(waiting), human));
    for (size_t i = 0; i < waiting->count && i < NAMED; i++)
        buffer_format(out, "%s%s for %s%s", i == 0 ? " (" : ", ", human_count(waiting->items[i].waiters, human),
                      strcmp(waiting->items[i].kind, "class") == 0 ? "class " : "",
                      log_quote(waiting->items[i].name, quoted));
    if (waiting->count > 0)
        buffer_append_text(out, waiting->count > NAMED ? ", ...)" : ")");
}

void health_line(const struct health *health, const struct status *status, struct buffer *out)
{
    char human[HUMAN_TEXT_MAX];
    long long serving = status_serving(status), queued = 0;
    for (size_t i = 0; i < status->backlog.count; i++)
        queued += status->backlog.items[i].length > 0 ? status->backlog.items[i].length : 0;
    buffer_append_text(out, health->count > 0 ? "not well: " : "well: ");
    unsigned told = findings_write(health, out);
    if ((told & 1U << HEALTH_WORKERS) == 0)
        buffer_format(out, "%s worker%s, ", human_count(serving, human), human_plural(serving));
    if ((told & 1U << HEALTH_LOCKS) == 0)
        nodes_write(status, out);
    buffer_format(out, "%s task%s in queues, ", human_count(queued, human), human_plural(queued));
    waiting_write(&status->waiting, out);
}
