/* Who waits for a lock.
 *
 *   order  who leaves a waiting list by a wake or as a successor is the oldest: no older waiter is parked,
 *          and none has been on its way for less than a minute, unless several may hold the resource
 *   wake   a seat of a resource is free, fewer than it has seats are awake, and those who wait for it sleep, for
 *          longer than a wake takes
 *   sleep  who is parked is due at once
 *   restless  a task is parked again and again
 *   kept   a successor is taken from a process that is well
 *   stuck  a successor waits for the seat of its holder, where several may hold the resource, for longer than it may
 *
 * Excused from the order are tasks that an operator may have touched, that the queue node forgot, that were given back
 * or recovered, and that wait for something else too; whose queue is paused is passed by. No wake is missed while a
 * majority of the lock nodes has forgotten the group. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/fleet/fleet.h"

#define ON_ITS_WAY_NS (59 * NS_PER_S)
/* A wake, which may wait for late replies to a release. */
#define WAKE_NS (1500 * NS_PER_MS)
/* The time for a successor, and the above. */
#define PATIENCE_NS (1600 * NS_PER_MS)
/* After trouble: a sweep of each list every 15 s, and a minute for a woken task whose process died. */
#define SWEEP_NS (25 * NS_PER_S)
#define OUT_NS   (95 * NS_PER_S)
/* How often a task is parked: at first, and while it waits. Each end of a program's hold makes it look up to four
 * times. */
#define PARKS_MAX             20
#define PARKS_BESIDE_PROGRAMS 30
#define PARKS_EACH_S          4

static unsigned ranks;
static struct instant asleep_since[FLEET_RESOURCES_MAX];
static bool is_asleep[FLEET_RESOURCES_MAX], was_paused;

static bool is_by(const struct server_event *event, const char *script)
{
    return event->script != NULL && strcmp(event->script, script) == 0;
}

/* A task that waits for one lock alone is in one list. Others are in several and change lists. */
static bool is_ordered(const struct fleet_task *task)
{
    return task->rank > 0 && task->resource_count == 1 && task->kind != CLASS_SERIAL && !task->is_unordered &&
           !task->is_unwanted && !(fleet.share > 0 && task->kind == CLASS_WORK);
}

static bool is_any_paused(void)
{
    for (unsigned i = 0; i < FLEET_QUEUES; i++)
        if (fleet_queue_is_paused(i))
            return true;
    return false;
}

/* --- the order ---------------------------------------------------------------------------------------------------- */

static bool is_named(const struct fleet_task *task, const struct server_event *event, size_t argument)
{
    return event->count > event->keys + argument &&
           text_is(event->arguments[event->keys + argument], text_of(task->jid));
}

/* The task that has the lock or will have it: its successor is claimed behind it. Or the one that leaves the list in
 * the same call. */
static bool is_holder(const struct fleet_task *task, const struct server_event *event)
{
    return (is_by(event, "claim_successor") && is_named(task, event, 5)) ||
           (is_by(event, "free") && is_named(task, event, 1));
}

static void order_check(const struct fleet_task *task, const struct server_event *event)
{
    for (unsigned i = 0; i < fleet.task_count; i++) {
        const struct fleet_task *older = &fleet.tasks[i];
        if (!is_ordered(older) || older->rank >= task->rank || strcmp(older->list, task->list) != 0)
            continue;
        bool still_waits = older->is_parked && older->state == IN_SCHEDULE; /* one call may take several */
        if (still_waits && !fleet_queue_is_paused(older->queue))
            play_violated("order", "%s takes %s before %s, which has waited longer", event->script, task->jid,
                          older->jid);
        bool is_out =
            older->is_on_its_way && !older->is_orphan && (older->state == IN_QUEUE || older->state == IN_CLAIM);
        if (is_out && fleet.limit == 1 && !was_paused && !is_holder(older, event) &&
            instant_since(older->woken_at, world_time()) < ON_ITS_WAY_NS)
            play_violated("order", "%s takes %s while %s, which has waited longer, is on its way", event->script,
                          task->jid, older->jid);
    }
}

/* It keeps its position while it waits in the same list. */
static void rank_give(struct fleet_task *task, struct text list)
{
    if (task->rank > 0 && text_is(list, text_of(task->list)))
        return;
    task->rank = ++ranks;
    snprintf(task->list, sizeof task->list, "%.*s", (int)list.length, list.bytes);
}

/* It is taken from a process that stands still or is dead: nobody waits any more for the tasks there that had the lock
 * or were to have it. */
static void brought_back(struct fleet_task *task)
{
    for (unsigned i = 0; i < fleet.task_count; i++) {
        struct fleet_task *other = &fleet.tasks[i];
        if (other->claimer == task->claimer && (other->state == IN_CLAIM || other == task))
            other->is_unordered = true;
    }
}

/* A holder leaves the list to its first successor, so it is not on its way any more. */
void fleet_line_executed(const struct server_event *event)
{
    if (!is_by(event, "claim_successor") || event->count < event->keys + 7 ||
        event->arguments[event->keys + 6].length > 0)
        return;
    for (unsigned i = 0; i < fleet.task_count; i++)
        if (is_holder(&fleet.tasks[i], event))
            fleet.tasks[i].is_on_its_way = false;
}

/* Waiting costs nothing: a woken task is the next one, or nearly. */
static void rest_check(struct fleet_task *task)
{
    if (task->parks++ == 0)
        task->parked_first_at = world_time();
    int64_t waited_s = instant_since(task->parked_first_at, world_time()) / NS_PER_S;
    unsigned at_first = fleet_has_programs() ? PARKS_BESIDE_PROGRAMS : PARKS_MAX;
    if (fleet_is_quiet() && task->parks > at_first + (unsigned)waited_s * PARKS_EACH_S)
        play_violated("restless", "%s is parked for the %u. time in %lld s", task->jid, task->parks,
                      (long long)waited_s);
}

void fleet_waiter_moved(struct fleet_task *task, enum fleet_state from, const struct server_event *event)
{
    bool was_parked = task->is_parked;
    was_paused = was_paused || is_any_paused();
    task->is_parked = task->state == IN_SCHEDULE && is_by(event, "park");
    if (from == IN_SCHEDULE && was_parked) {
        task->is_on_its_way = true;
        task->woken_at = world_time();
    }
    if (task->is_parked) {
        play_count("parked", 1);
        world_tell("%s parks in %.*s", task->jid, (int)event->arguments[event->keys + 3].length,
                   event->arguments[event->keys + 3].bytes);
        task->is_on_its_way = false;
        rest_check(task);
        if (task->due <= (double)node_now_us(fleet.queue) / 1e6)
            play_violated("sleep", "%s is parked, and due at once", task->jid);
        rank_give(task, event->arguments[event->keys + 3]);
    } else if (task->state == IN_RETRY || task->state == IN_DEAD || task->state == NOWHERE ||
               task->state == IN_SCHEDULE)
        task->rank = 0;
    if (from == IN_CLAIM && (is_by(event, "give_back") || is_by(event, "leave") || is_by(event, "operate_move")))
        task->is_unordered = true;
    if (from == IN_CLAIM && is_by(event, "due") && fleet_is_quiet())
        play_violated("kept", "%s is taken from process %d, which is well", task->jid, (int)task->claimer);
    if (from == IN_CLAIM && (is_by(event, "recover") || is_by(event, "due")))
        brought_back(task);
    bool is_woken = was_parked && from == IN_SCHEDULE && event->script != NULL && !is_by(event, "promote");
    if (is_woken)
        play_count(is_by(event, "claim_successor") ? "successors" : "woken", 1);
    if (is_woken && is_ordered(task))
        order_check(task, event);
    bool is_successor = is_woken && is_by(event, "claim_successor") && fleet.limit > 1;
    task->successor_since = is_successor ? world_time() : (struct instant){0};
    play_count("successors at a seat", is_successor);
}

static void successors_check(void)
{
    for (unsigned i = 0; fleet.limit > 1 && fleet_is_quiet() && i < fleet.task_count; i++) {
        const struct fleet_task *task = &fleet.tasks[i];
        if (task->successor_since.ns != 0 && task->state == IN_CLAIM && !task->is_orphan &&
            instant_since(task->successor_since, world_time()) > PATIENCE_NS)
            play_violated("stuck", "%s is the successor at one seat since %.3f s", task->jid,
                          (double)instant_since(task->successor_since, world_time()) / 1e9);
    }
}

/* --- lost wakes --------------------------------------------------------------------------------------------------- */

/* For how long nodes keep the key of a seat of the resource: so many of them for longer than that. */
static unsigned nodes_that_keep(unsigned resource, unsigned seat, int64_t longer_than_ms)
{
    char key[32];
    unsigned nodes = 0;
    snprintf(key, sizeof key, seat == 1 ? "r%u" : "hf:seat:%2$u:r%1$u", resource, seat);
    for (unsigned i = 0; i < fleet.node_count; i++) {
        struct keyspace *space = server_keyspace(fleet.nodes[i]->server);
        const struct item *item = table_find(&space->keys, text_of(key));
        int64_t expires_ms = item == NULL ? 0 : item->value->expires_ms;
        nodes += item != NULL && (expires_ms == 0 || expires_ms - longer_than_ms > node_now_us(fleet.nodes[i]) / 1000);
    }
    return nodes;
}

static bool seat_is_free(unsigned resource, unsigned seat)
{
    return nodes_that_keep(resource, seat, 0) < fleet.node_count / 2 + 1;
}

bool fleet_lock_is_stuck(unsigned resource)
{
    return fleet.is_wild && nodes_that_keep(resource, 1, FLEET_TTL_MAX_MS) > 0;
}

static bool lock_is_free(unsigned resource)
{
    for (unsigned seat = 1; seat <= fleet.limit; seat++)
        if (seat_is_free(resource, seat))
            return true;
    return false;
}

/* Without one nobody gets a lock before an operator makes the group again. */
bool fleet_group_is_known(void)
{
    unsigned known = 0;
    for (unsigned i = 0; i < fleet.node_count; i++)
        known += table_find(&server_keyspace(fleet.nodes[i]->server)->keys, text_of("hf:lock:group")) != NULL;
    return fleet.node_count == 1 || known >= fleet.node_count / 2 + 1;
}

/* A task waits for it, and too few are awake. */
static bool all_sleep(unsigned resource)
{
    unsigned asleep = 0, awake = 0;
    for (unsigned i = 0; i < fleet.task_count; i++) {
        const struct fleet_task *task = &fleet.tasks[i];
        if (!fleet_task_locks(task, resource) || task->state == NOWHERE || task->state == IN_DEAD)
            continue;
        bool sleeps = task->state == IN_RETRY || task->state == IN_SCHEDULE;
        awake += !sleeps;
        bool wants_runner = strncmp(task->list, "class:", 6) == 0;
        asleep += task->is_parked && task->resource_count == 1 && !wants_runner;
    }
    return asleep > 0 && awake < fleet.limit;
}

/* So many go on with what waits; quiet ones leave that to the others. */
static unsigned serving_workers(void)
{
    unsigned serving = 0;
    for (unsigned i = 0; i < fleet.worker_count; i++) {
        const struct fleet_worker *worker = &fleet.workers[i];
        serving += worker->process->is_alive && !worker->is_quiet && !worker->is_told_to_stop;
    }
    return serving;
}

void fleet_line_tick(void)
{
    unsigned serving = serving_workers();
    bool may_judge = (fleet_is_quiet() || fleet.is_calm) && fleet_group_is_known() && serving > 0;
    bool is_paused = is_any_paused();
    was_paused = was_paused || is_paused;
    successors_check();
    for (unsigned r = 0; r < fleet.resource_count; r++) {
        bool sleeps = may_judge && !is_paused && all_sleep(r) && lock_is_free(r);
        if (sleeps && !is_asleep[r])
            asleep_since[r] = world_time();
        is_asleep[r] = sleeps;
        bool do_all_serve = serving == fleet.worker_count;
        int64_t bound_ns = fleet_is_quiet() && do_all_serve                                   ? WAKE_NS
                           : fleet.limit > 1                                                  ? SWEEP_NS
                           : fleet.was_killed || fleet.was_rolled_back || fleet.has_operators ? OUT_NS
                                                                                              : SWEEP_NS;
        if (sleeps && instant_since(asleep_since[r], world_time()) > bound_ns)
            play_violated("wake", "r%u is free, and all who wait for it sleep since %.3f s", r,
                          (double)instant_since(asleep_since[r], world_time()) / 1e9);
    }
}
