/* Producers, operators, other programs, and what goes wrong: processes that die, a queue node that stands still, lock
 * nodes that lose their memory. Nothing of it happens once the schedule is calm. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "queue/scripts.h"
#include "tests/sim/queue/scene.h"

#define TROUBLE_MIN_NS (50 * NS_PER_MS)
#define TROUBLE_MAX_NS (1500 * NS_PER_MS)
#define PUSH_MAX_NS    (400 * NS_PER_MS)

static struct reply *say(struct scene *scene, struct replies *replies, const char *a, const char *b, const char *c)
{
    const char *words[] = {a, b, c};
    return server_command(&scene->queue_node, replies, words, 3);
}

/* --- producers --------------------------------------------------------------------------------------------------- */

static void chore_push(struct scene *scene, struct chore *chore)
{
    struct replies replies = {0};
    char payload[PAYLOAD_BYTES];
    chore_write(chore, 0, payload);
    chore->is_pushed = true;
    scene->counters->pushed++;
    say(scene, &replies, "LPUSH", "queue:q", payload);
    judge_executed(&scene->queue_node, NULL);
    replies_fini(&replies);
}

static void push_happens(struct event *event)
{
    struct scene *scene = list_owner(event, struct scene, push);
    unsigned burst = 1 + chance_pick(&scene->chance, 5);
    for (unsigned i = 0; i < burst && scene->pushed < scene->chore_count; i++)
        chore_push(scene, &scene->chores[scene->pushed++]);
    if (scene->pushed < scene->chore_count)
        event_set_in(scene, event, chance_scale(&scene->chance, NS_PER_MS, PUSH_MAX_NS));
}

/* --- operators and other programs -------------------------------------------------------------------------------- */

static struct chore *parked_draw(struct scene *scene)
{
    unsigned from = chance_pick(&scene->chance, scene->chore_count);
    for (unsigned i = 0; i < scene->chore_count; i++) {
        struct chore *chore = &scene->chores[(from + i) % scene->chore_count];
        if (chore->is_pushed && !chore->is_over && chore->place == PLACE_SCHEDULE)
            return chore;
    }
    return NULL;
}

/* The entry's text, which only the node has. */
static bool entry_find(struct scene *scene, const struct chore *chore, char payload[PAYLOAD_BYTES])
{
    struct value *schedule = keyspace_find(&scene->queue_node.space, text_of("schedule"));
    for (size_t i = 0; schedule != NULL && i < schedule->row.count; i++) {
        struct text text = item_name(value_scored(schedule, i));
        if (chore_of(scene, text) != chore)
            continue;
        snprintf(payload, PAYLOAD_BYTES, "%s", text.bytes);
        return true;
    }
    return false;
}

static void entry_change(struct scene *scene, const char *command, bool rewrites)
{
    struct replies replies = {0};
    char payload[PAYLOAD_BYTES];
    struct chore *chore = parked_draw(scene);
    if (chore == NULL || !entry_find(scene, chore, payload))
        return;
    scene->relaxed[chore->resource] = chore->is_excused = true;
    chore->was_deleted = command == NULL;
    scene_trace(scene, "somebody %s task %u", command == NULL ? "deletes" : "moves", chore->number);
    say(scene, &replies, "ZREM", "schedule", payload);
    if (rewrites)
        chore_write(chore, (unsigned)++scene->values, payload);
    if (command != NULL)
        say(scene, &replies, command, "queue:q", payload);
    judge_executed(&scene->queue_node, NULL);
    replies_fini(&replies);
}

static void chore_cancel(struct scene *scene)
{
    struct replies replies = {0};
    struct request request;
    struct chore *chore = &scene->chores[chance_pick(&scene->chance, scene->chore_count)];
    char jid[24], iteration[32];
    snprintf(jid, sizeof jid, "j%u", chore->jid);
    snprintf(iteration, sizeof iteration, "it-%s", jid);
    for (unsigned i = 0; i < scene->chore_count; i++)
        if (scene->chores[i].jid == chore->jid)
            scene->chores[i].was_cancelled = true;
    request_begin(&request, &queue_script_cancel);
    request_key(&request, iteration);
    request_key(&request, "hf:2:cancels");
    request_text(&request, jid);
    request_text(&request, "86400");
    request_text(&request, "1000");
    server_execute(&scene->queue_node, &replies, &request);
    replies_fini(&replies);
}

static void queue_pause(struct scene *scene, bool pauses)
{
    struct replies replies = {0};
    scene->was_paused = scene->was_paused || pauses;
    say(scene, &replies, pauses ? "SADD" : "SREM", "paused", "q");
    crews_ring(scene);
    replies_fini(&replies);
}

/* --- nodes and processes ----------------------------------------------------------------------------------------- */

/* As in the product: what a node may have forgotten it does not vote on for the longest ttl, and its new marker refuses
 * the grants that are still on their way to it. */
static void lock_node_wipe(struct scene *scene)
{
    struct server *node = &scene->lock_nodes[chance_pick(&scene->chance, LOCK_NODES)];
    for (unsigned i = 0; i < LOCK_NODES; i++)
        if (instant_before(scene->now, scene->lock_nodes[i].trusted_from))
            return;
    scene->counters->lock_wipes++;
    scene->was_wiped = true;
    scene_trace(scene, "lock node %u loses its memory", node->index);
    server_begin_memory(node);
    node->trusted_from = instant_after(scene->now, scene->terms.ttl_ns + NS_PER_S);
}

static void queue_node_pause(struct scene *scene)
{
    scene->counters->queue_pauses++;
    scene->queue_node.paused_until =
        instant_after(scene->now, chance_scale(&scene->chance, 10 * NS_PER_MS, 3 * NS_PER_S));
}

static void staff_kill(struct scene *scene)
{
    struct staff *crew = &scene->crews[chance_pick(&scene->chance, scene->staff_count)];
    if (crew->is_alive)
        staff_die(crew, chance_scale(&scene->chance, 10 * NS_PER_MS, 10 * NS_PER_S));
}

/* SIGSTOP, and SIGCONT after a while. What is on its way from it arrives, what it is sent waits for it. Mostly one that
 * holds a lock, and often for about as long as that lasts. */
static void staff_stop(struct scene *scene)
{
    const struct grip *holder = scene->holders[chance_pick(&scene->chance, scene->resource_count)];
    struct staff *crew = holder != NULL ? holder->crew : &scene->crews[chance_pick(&scene->chance, scene->staff_count)];
    if (!crew->is_alive || staff_is_stopped(crew))
        return;
    scene->counters->stops++;
    int64_t for_ns = chance_per_mille(&scene->chance, 500)
                         ? chance_between(&scene->chance, scene->terms.ttl_ns / 2, scene->terms.ttl_ns)
                         : chance_scale(&scene->chance, 100 * NS_PER_MS, 30 * NS_PER_S);
    crew->stopped_until = instant_after(scene->now, for_ns);
    scene_trace(scene, "%s is stopped for %" PRId64 " ms", crew->identity,
                instant_since(scene->now, crew->stopped_until) / NS_PER_MS);
}

static void trouble_happens(struct event *event)
{
    struct scene *scene = list_owner(event, struct scene, trouble);
    event_set_in(scene, event, chance_between(&scene->chance, TROUBLE_MIN_NS, TROUBLE_MAX_NS));
    switch (chance_pick(&scene->chance, 11)) {
    case 0:
        staff_kill(scene);
        return;
    case 1:
        queue_node_pause(scene);
        return;
    case 2:
        lock_node_wipe(scene);
        return;
    case 3:
        scene->counters->deleted++;
        entry_change(scene, NULL, false);
        return;
    case 4:
        scene->counters->moved++;
        entry_change(scene, "RPUSH", false);
        return;
    case 5:
        scene->counters->promoted_early++;
        entry_change(scene, "LPUSH", true);
        return;
    case 6:
        chore_cancel(scene);
        return;
    case 7:
        staff_stop(scene);
        return;
    default:
        queue_pause(scene, chance_per_mille(&scene->chance, 300));
    }
}

static void calm_comes(struct event *event)
{
    struct scene *scene = list_owner(event, struct scene, calm);
    scene->is_calm = true;
    scene_trace(scene, "calm");
    heap_remove(&scene->heap, &scene->trouble.item);
    queue_pause(scene, false);
}

void trouble_begin(struct scene *scene)
{
    scene->push.happens = push_happens;
    scene->trouble.happens = trouble_happens;
    scene->calm.happens = calm_comes;
    event_set_in(scene, &scene->push, 0);
    event_set_in(scene, &scene->calm, chance_between(&scene->chance, 2 * NS_PER_S, 8 * NS_PER_S));
    if (!scene->is_quiet && chance_per_mille(&scene->chance, 700))
        event_set_in(scene, &scene->trouble, chance_between(&scene->chance, TROUBLE_MIN_NS, TROUBLE_MAX_NS));
}
