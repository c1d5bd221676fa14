/* What became of a task, by the records of its slots. A task is pushed once and held once or more: it may fail,
 * lose its lock or its process, and come again. Its wait is that from the push to the first hold. */

#include "base/hash.h"
#include "base/invariant.h"
#include "base/list.h"
#include "base/memory.h"
#include "worker/dry_run/count/stats_private.h"

/* --- a task ------------------------------------------------------------------------------------------------------- */

/* Where a task is that left its slot with this ending. */
enum whereabouts { GONE, WAITS, AWAY, ELSEWHERE };

static enum whereabouts whereabouts_after(enum flow_ending ending)
{
    switch (ending) {
    case FLOW_PARKED:
    case FLOW_GIVEN_BACK:
        return WAITS;
    case FLOW_FAILED:
    case FLOW_SNOOZED:
    case FLOW_LOCK_LOST:
    case FLOW_UNKNOWN_CLASS:
    case FLOW_PUT_OFF:
        return AWAY;
    case FLOW_CLAIM_LOST: /* another process has it, and reports it */
        return ELSEWHERE;
    default:
        return GONE;
    }
}

double stats_clip(const struct stats *stats, int64_t from_ns, int64_t until_ns)
{
    int64_t from = from_ns > stats->measured_from.ns ? from_ns : stats->measured_from.ns;
    int64_t until = until_ns < stats->load_until.ns ? until_ns : stats->load_until.ns;
    return until > from ? seconds_of(until - from) : 0;
}

static struct resource_count *resource_of(const struct stats *stats, const struct outstanding *task, unsigned i)
{
    return resource_table_at(&stats->resources, task->resources[i]);
}

/* --- where it is -------------------------------------------------------------------------------------------------- */

static void waiting_change(struct stats *stats, const struct outstanding *task, bool waits)
{
    for (unsigned i = 0; i < task->resource_count; i++) {
        struct resource_count *resource = resource_of(stats, task, i);
        if (resource == NULL)
            continue;
        invariant(waits || resource->waiting > 0);
        resource->waiting = waits ? resource->waiting + 1 : resource->waiting - 1;
        if (resource->waiting > resource->waiting_max)
            resource->waiting_max = resource->waiting;
    }
}

/* Leaves the state (by -1) or enters it (by 1). */
static void state_count(struct stats *stats, const struct outstanding *task, int by)
{
    if (task->state == OUTSTANDING_WAITING)
        waiting_change(stats, task, by > 0);
    else if (task->state == OUTSTANDING_INSIDE)
        stats->inside_now += (unsigned)by;
    else
        stats->away_now += (unsigned)by;
}

static void parked_set(struct stats *stats, struct outstanding *task, bool is_parked)
{
    stats->parked_now += (unsigned)is_parked - (unsigned)task->is_parked;
    task->is_parked = is_parked;
}

void stats_task_is(struct stats *stats, struct outstanding *task, enum outstanding_state state, int64_t at_ns)
{
    if (state == OUTSTANDING_WAITING && task->waits_since == 0)
        task->waits_since = at_ns;
    if (state == OUTSTANDING_INSIDE)
        task->inside_since = at_ns;
    if (state != OUTSTANDING_WAITING)
        parked_set(stats, task, false);
    if (state == task->state)
        return;
    state_count(stats, task, -1);
    task->state = state;
    state_count(stats, task, 1);
}

void stats_task_waited(struct stats *stats, struct outstanding *task, int64_t until_ns)
{
    double waited = task->waits_since != 0 ? stats_clip(stats, task->waits_since, until_ns) : 0;
    task->waits_since = 0;
    for (unsigned i = 0; waited > 0 && i < task->resource_count; i++) {
        struct resource_count *resource = resource_of(stats, task, i);
        if (resource != NULL)
            resource->waiting_time += waited;
    }
}

static void task_gone(struct stats *stats, struct outstanding *task)
{
    parked_set(stats, task, false);
    state_count(stats, task, -1);
    for (unsigned i = 0; i < task->resource_count; i++) {
        struct resource_count *resource = resource_of(stats, task, i);
        if (resource != NULL)
            resource->outstanding--;
    }
    outstanding_remove(&stats->tasks, task);
}

/* --- changeovers -------------------------------------------------------------------------------------------------- */

static void event_tell(struct stats *stats, const struct outstanding *task, const struct resource_event *event)
{
    for (unsigned i = 0; i < task->resource_count; i++) {
        if (task->resources[i] == RESOURCE_NONE)
            continue;
        struct resource_event of_resource = *event;
        of_resource.resource = task->resources[i];
        event_order_add(&stats->events, &of_resource);
    }
}

void stats_task_comes(struct stats *stats, struct outstanding *task, int64_t at_ns)
{
    bool finds_runner = task->had_runner && task->tries == 0 && task->resource_count == 1;
    event_tell(stats, task, &(struct resource_event){.kind = EVENT_COMES, .at = at_ns, .found_runner = finds_runner});
    task->is_there = true;
}

void stats_task_goes(struct stats *stats, struct outstanding *task, int64_t at_ns)
{
    if (task->is_there)
        event_tell(stats, task, &(struct resource_event){.kind = EVENT_GOES, .at = at_ns});
    task->is_there = false;
}

static void task_leaves(struct stats *stats, struct outstanding *task, const struct observed_task *left)
{
    event_tell(stats, task,
               &(struct resource_event){.kind = EVENT_LEAVES,
                                        .at = left->left.ns,
                                        .found_runner = task->had_runner && task->tries == 0,
                                        .locked = left->locked.ns,
                                        .handed_over = left->handed_over,
                                        .had_refusal = left->had_refusal,
                                        .asked_since = task->asked_since});
    task->is_there = false;
}

/* Between two holders, the first of which left so many behind. */
static void changeover_count(struct stats *stats, struct resource_count *resource, double seconds)
{
    moments_add(&stats->changeover, seconds);
    moments_add(&resource->changeovers, seconds);
    if (resource->behind <= 1 && resource->detail != NULL)
        moments_add(&resource->detail->lone_changeovers, seconds);
}

/* How its hold began: it found the resource free; or a task was waiting when the one before left, it or another one.
 * A task that waited for a runner then is no measure of how a lock is handed on. Nor is one that came after a task of
 * another host, which only a refusal shows, or that it was not handed over here. */
static void hold_began(struct stats *stats, struct resource_count *resource, const struct resource_event *event)
{
    int64_t before = resource->last_left;
    bool is_broken = resource->is_broken;
    bool is_own = stats->plan->hosts <= 1 || (resource->behind == 0 ? !event->had_refusal : event->handed_over);
    resource->is_broken = false;
    if (is_broken || !is_own)
        return;
    if (resource->behind == 0) {
        if (resource->first_found_runner && stats_is_measured(stats, resource->first_came) &&
            stats_is_calm(stats, event->locked))
            moments_add(&stats->base, seconds_of(event->locked - resource->first_came));
        return;
    }
    bool had_asked = event->asked_since != 0 && event->asked_since < before;
    if (stats_is_measured(stats, before) && stats_is_calm(stats, event->locked) && (had_asked || event->found_runner))
        changeover_count(stats, resource, event->locked > before ? seconds_of(event->locked - before) : 0);
}

static void event_take(struct stats *stats, const struct resource_event *event)
{
    struct resource_count *resource = resource_table_at(&stats->resources, event->resource);
    switch (event->kind) {
    case EVENT_COMES:
        if (resource->there++ == 0) {
            resource->first_came = event->at;
            resource->first_found_runner = event->found_runner;
        }
        return;
    case EVENT_GOES:
        resource->there -= resource->there > 0;
        return;
    case EVENT_BREAKS:
        resource->is_broken = true;
        return;
    case EVENT_LEAVES:
        hold_began(stats, resource, event);
        resource->there -= resource->there > 0;
        resource->behind = resource->there;
        resource->last_left = event->at;
    }
}

void stats_events_take(struct stats *stats, struct instant until)
{
    struct resource_event event;
    while (event_order_take(&stats->events, until, &event))
        event_take(stats, &event);
}

/* --- its hold ----------------------------------------------------------------------------------------------------- */

/* From its push to its first hold. */
static void wait_count(struct stats *stats, const struct outstanding *task, int64_t locked)
{
    int64_t wait = locked - task->pushed;
    stats->first_holds++;
    histogram_record(&stats->series.wait, microseconds_of(wait));
    if (!stats_is_measured(stats, task->pushed))
        return;
    histogram_record(&stats->wait, microseconds_of(wait));
    batch_means_add(&stats->wait_means, seconds_of(wait));
    for (unsigned i = 0; i < task->resource_count; i++) {
        struct resource_count *resource = resource_of(stats, task, i);
        if (resource == NULL)
            continue;
        moments_add(&resource->waits, seconds_of(wait));
        if (resource->detail != NULL) {
            histogram_record(&resource->detail->waits, microseconds_of(wait));
            batch_means_add(&resource->detail->means, seconds_of(wait));
        }
    }
}

/* What it costs beside its hold. */
static void overheads_count(struct stats *stats, const struct outstanding *task, const struct observed_task *left)
{
    bool was_at_once = !left->handed_over && !left->had_refusal && task->asked_since == left->asked.ns;
    if (was_at_once && stats_is_calm(stats, left->left.ns))
        moments_add(&stats->claim_extra, seconds_of(instant_since(left->claimed, left->locked)));
    bool is_several = task->resource_count != 1; /* of one resource it is judged in the order of its holds */
    if (is_several && was_at_once && task->was_alone && task->tries == 0 && stats_is_measured(stats, task->pushed) &&
        stats_is_calm(stats, left->left.ns))
        moments_add(&stats->base, seconds_of(left->locked.ns - task->pushed));
}

static void hold_of_resource(struct stats *stats, struct resource_count *resource, const struct observed_task *left)
{
    double hold = seconds_of(instant_since(left->locked, left->left));
    resource->held++;
    resource->hand_overs += left->handed_over;
    resource->held_time += stats_clip(stats, left->locked.ns, left->left.ns);
    if (stats_is_measured(stats, left->left.ns))
        moments_add(&resource->holds, hold);
}

static void hold_count(struct stats *stats, struct outstanding *task, const struct observed_task *left)
{
    int64_t hold = instant_since(left->locked, left->left), acquire = instant_since(left->asked, left->locked);
    stats->holds++;
    histogram_record(&stats->series.hold, microseconds_of(hold));
    if (!left->handed_over)
        histogram_record(&stats->series.acquire, microseconds_of(acquire));
    stats->series.handed_over += left->handed_over;
    if (stats_is_measured(stats, left->left.ns)) {
        histogram_record(&stats->hold, microseconds_of(hold));
        if (!left->handed_over) { /* what is handed over waited for its holder, without a request */
            histogram_record(&stats->acquire, microseconds_of(acquire));
            batch_means_add(&stats->acquire_means, seconds_of(acquire));
        }
        batch_means_add(&stats->hold_means, seconds_of(hold));
    }
    if (stats_is_calm(stats, left->left.ns)) {
        moments_add(&stats->holds_measured, seconds_of(hold));
        if (left->started.ns != 0 && left->ended.ns != 0)
            moments_add(&stats->runs_measured, seconds_of(instant_since(left->started, left->ended)));
    }
    stats_task_waited(stats, task, left->locked.ns);
    overheads_count(stats, task, left);
    if (task->tries == 0)
        wait_count(stats, task, left->locked.ns);
    for (unsigned i = 0; i < task->resource_count; i++) {
        struct resource_count *resource = resource_of(stats, task, i);
        if (resource != NULL)
            hold_of_resource(stats, resource, left);
    }
    task_leaves(stats, task, left);
    task->tries++;
    task->asked_since = 0;
}

/* --- its end ------------------------------------------------------------------------------------------------------ */

void stats_runner_taken(struct stats *stats, int64_t from_ns, int64_t until_ns)
{
    stats->taken_s += stats_clip(stats, from_ns, until_ns);
    second_series_take(&stats->series, from_ns, until_ns);
}

/* A runner was taken: from the claim on, or by a successor from when its holder had left. */
static void runner_count(struct stats *stats, const struct observed_task *left)
{
    int64_t from = left->handed_over ? left->locked.ns : left->claimed.ns;
    if (from == 0)
        return;
    stats_runner_taken(stats, from, left->left.ns);
    stats->taken_this_second += seconds_of(left->left.ns - from);
    if (left->ending != FLOW_PARKED)
        stats->left_this_second++;
    else if (stats_is_calm(stats, left->left.ns))
        moments_add(&stats->parks, seconds_of(left->left.ns - from));
}

static bool lost_its_lock(const struct observed_task *left)
{
    return left->was_lost || left->ending == FLOW_LOCK_LOST;
}

static void troubles_count(struct stats *stats, const struct outstanding *task, const struct observed_task *left)
{
    bool is_parked = left->ending == FLOW_PARKED;
    stats->series.parked += is_parked;
    for (unsigned i = 0; i < task->resource_count; i++) {
        struct resource_count *resource = resource_of(stats, task, i);
        if (resource == NULL)
            continue;
        resource->parks += is_parked;
        resource->refusals += left->had_refusal;
        resource->lost += lost_its_lock(left);
    }
}

static void task_end(struct stats *stats, struct outstanding *task, const struct observed_task *left)
{
    stats_task_waited(stats, task, left->left.ns);
    stats_task_goes(stats, task, left->left.ns);
    stats->ended++;
    stats->series.ended++;
    stats->ended_measured += stats_is_measured(stats, left->left.ns);
    stats->made_room = left->left.ns;
    task_gone(stats, task);
}

static void task_goes_on(struct stats *stats, struct outstanding *task, const struct observed_task *left)
{
    int64_t at = left->left.ns;
    task->left = at;
    switch (whereabouts_after(left->ending)) {
    case WAITS:
        stats_task_is(stats, task, OUTSTANDING_WAITING, at);
        if (!task->is_there)
            stats_task_comes(stats, task, at);
        parked_set(stats, task, left->ending == FLOW_PARKED);
        if (left->ending == FLOW_PARKED && task->asked_since == 0)
            task->asked_since = at;
        return;
    case AWAY:
        stats_task_waited(stats, task, at);
        stats_task_goes(stats, task, at);
        stats_task_is(stats, task, OUTSTANDING_AWAY, at);
        stats->made_room = at;
        return;
    default:
        return;
    }
}

void stats_task_left(struct stats *stats, const struct observed_task *left)
{
    bool is_gone = whereabouts_after(left->ending) == GONE;
    struct outstanding *task = outstanding_find(&stats->tasks, left->jid);
    stats->endings[left->ending]++;
    stats->asks += left->asked.ns != 0;
    runner_count(stats, left);
    stats->lost += lost_its_lock(left); /* also when another process has ended the task meanwhile */
    stats->series.lost += lost_its_lock(left);
    if (task == NULL) {
        stats->twice += is_gone;
        return;
    }
    if (task->state == OUTSTANDING_AWAY)
        stats_task_is(stats, task, OUTSTANDING_WAITING, left->claimed.ns);
    if (!task->is_there)
        stats_task_comes(stats, task, left->claimed.ns);
    if (task->asked_since == 0)
        task->asked_since = left->asked.ns;
    troubles_count(stats, task, left);
    if (left->locked.ns != 0)
        hold_count(stats, task, left);
    if (is_gone)
        task_end(stats, task, left);
    else
        task_goes_on(stats, task, left);
}
