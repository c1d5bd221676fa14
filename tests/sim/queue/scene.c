#include "tests/sim/queue/scene.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define BEGIN_NS    (1000 * NS_PER_S)
#define PATIENCE_NS (240 * NS_PER_S) /* for everything to end after the last fault */
#define WATCH_NS    (20 * NS_PER_MS)

const char *const scene_bug_names[BUGS] = {[BUG_NONE] = "none",
                                           [BUG_IGNORES_RETRY] = "retry",
                                           [BUG_NEVER_FREES_AGAIN] = "again",
                                           [BUG_SEEN_TOO_LATE] = "seen",
                                           [BUG_BELIEVES_HEARSAY] = "hearsay",
                                           [BUG_FORGETS_DUE] = "due",
                                           [BUG_LEAVES_REMNANTS] = "remnants"};

struct scene *scene_create(void)
{
    struct scene *scene = memory_new(struct scene);
    scene->chores = memory_zeroed(CROWD_MAX, sizeof *scene->chores);
    scene->host = script_host_create();
    return scene;
}

void scene_destroy(struct scene *scene)
{
    script_host_destroy(scene->host);
    heap_fini(&scene->heap);
    free(scene->chores);
    free(scene);
}

void event_set_in(struct scene *scene, struct event *event, int64_t ns)
{
    heap_set(&scene->heap, &event->item, instant_after(scene->now, ns));
}

void scene_note(struct scene *scene, uint64_t what)
{
    scene->digest = chance_mix(scene->digest ^ what ^ (uint64_t)scene->now.ns);
}

void scene_print(const struct scene *scene, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%12.3f ms  ", (double)(scene->now.ns - BEGIN_NS) / 1e6);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
}

struct chore *chore_of(struct scene *scene, struct text payload)
{
    unsigned number = 0;
    if (sscanf(payload.bytes, "{\"task\":%u", &number) != 1 || number >= scene->chore_count)
        abort();
    return &scene->chores[number];
}

void chore_write(const struct chore *chore, unsigned version, char payload[PAYLOAD_BYTES])
{
    snprintf(payload, PAYLOAD_BYTES, "{\"task\":%u,\"jid\":\"j%u\",\"resource\":\"r%u\",\"version\":%u}", chore->number,
             chore->jid, chore->resource, version);
}

/* --- one schedule ------------------------------------------------------------------------------------------------- */

static void terms_set(struct scene *scene, int64_t ttl_ns)
{
    scene->node_timeout_ns = chance_per_mille(&scene->chance, 500) ? 50 * NS_PER_MS : 500 * NS_PER_MS;
    scene->terms = (struct lease_terms){.nodes = LOCK_NODES,
                                        .ttl_ns = ttl_ns,
                                        .drift_factor = 0.01,
                                        .pass_limit_ns = scene->node_timeout_ns + 10 * NS_PER_MS,
                                        .tries = 1 + chance_pick(&scene->chance, 2),
                                        .retry_delay_ns = 20 * NS_PER_MS,
                                        .retry_jitter_ns = 30 * NS_PER_MS,
                                        .fenced = true};
    lease_terms_derive(&scene->terms);
}

static void chores_draw(struct scene *scene)
{
    struct chance *chance = &scene->chance;
    scene->chore_count = (unsigned)chance_between(chance, 3, CHORES_MAX);
    bool has_sets = chance_per_mille(chance, 300), has_twins = !scene->is_quiet && chance_per_mille(chance, 300);
    int64_t hold_max_ns = chance_scale(chance, NS_PER_MS, chance_per_mille(chance, 100) ? 8 * NS_PER_S : NS_PER_S);
    for (unsigned i = 0; i < scene->chore_count; i++) {
        struct chore *chore = &scene->chores[i];
        *chore = (struct chore){.number = i, .jid = i, .resource = chance_pick(chance, scene->resource_count)};
        chore->hold_ns = chance_between(chance, NS_PER_MS / 2, hold_max_ns);
        chore->set = has_sets && chance_per_mille(chance, 300);
        if (!has_twins || i == 0 || !chance_per_mille(chance, 150))
            continue;
        chore->jid = scene->chores[i - 1].jid;
        chore->resource = scene->chores[i - 1].resource;
        chore->is_excused = scene->chores[i - 1].is_excused = true;
        scene->relaxed[chore->resource] = true;
        scene->counters->same_jid++;
    }
}

static void watch_happens(struct event *event)
{
    struct scene *scene = list_owner(event, struct scene, watch);
    judge_watch(scene);
    event_set_in(scene, event, WATCH_NS);
}

static void scene_reset(struct scene *scene, uint64_t seed, enum scene_bug bug)
{
    scene->seed = seed;
    scene->bug = bug;
    scene->chance.state = seed * UINT64_C(0x9e3779b97f4a7c15);
    scene->now = (struct instant){BEGIN_NS};
    scene->is_calm = scene->over = scene->was_paused = scene->was_wiped = false;
    scene->pushed = scene->ranks = 0;
    scene->values = scene->digest = scene->events = 0;
    scene->violation.oracle = NULL;
    memset(scene->relaxed, 0, sizeof scene->relaxed);
    memset(scene->is_undecided, 0, sizeof scene->is_undecided);
    memset(scene->tokens, 0, sizeof scene->tokens);
    for (unsigned r = 0; r < RESOURCES_MAX; r++) {
        scene->holders[r] = NULL;
        scene->idle_since[r] = INSTANT_NEVER;
    }
    list_init(&scene->asks);
    server_init(&scene->queue_node, scene, 0);
    for (unsigned i = 0; i < LOCK_NODES; i++) {
        server_init(&scene->lock_nodes[i], scene, i);
        server_begin_memory(&scene->lock_nodes[i]);
    }
}

static void fleet_begin(struct scene *scene, unsigned crews, unsigned runners)
{
    scene->staff_count = crews;
    scene->seat_count = 2 * runners;
    for (unsigned i = 0; i < crews; i++)
        staff_init(&scene->crews[i], scene, i);
}

static bool all_is_done(const struct scene *scene)
{
    if (scene->pushed < scene->chore_count)
        return false;
    for (unsigned i = 0; i < scene->chore_count; i++)
        if (!scene->chores[i].is_over)
            return false;
    return true;
}

static void scene_run(struct scene *scene, struct instant until)
{
    while (!scene->over) {
        struct heap_item *item = heap_first(&scene->heap);
        if (item == NULL || instant_before(until, item->at))
            break;
        struct event *event = list_owner(item, struct event, item);
        scene->now = item->at;
        heap_remove(&scene->heap, item);
        if (event->crew != NULL && staff_is_stopped(event->crew)) {
            heap_set(&scene->heap, item, event->crew->stopped_until);
            continue;
        }
        scene->events++;
        event->happens(event);
        if (scene->judges && all_is_done(scene))
            return;
    }
    scene->now = scene->over ? scene->now : until;
}

static void scene_end(struct scene *scene)
{
    for (unsigned i = 0; i < scene->staff_count; i++)
        staff_end(&scene->crews[i]);
    server_end(scene);
    keyspace_clear(&scene->queue_node.space);
    for (unsigned i = 0; i < LOCK_NODES; i++)
        keyspace_clear(&scene->lock_nodes[i].space);
}

void scene_play(struct scene *scene, uint64_t seed, enum scene_bug bug, struct scene_counters *counters)
{
    struct chance *chance = &scene->chance;
    scene->counters = counters;
    scene_reset(scene, seed, bug);
    scene->judges = true;
    scene->is_quiet = chance_per_mille(chance, 400);
    scene->loss_per_mille = scene->is_quiet ? 0 : (unsigned)chance_scale(chance, 1, 80);
    scene->delay_max_ns = chance_scale(chance, NS_PER_MS, scene->is_quiet ? 250 * NS_PER_MS : 600 * NS_PER_MS);
    scene->resource_count = 1 + chance_pick(chance, RESOURCES_MAX);
    terms_set(scene, 4 * NS_PER_S);
    chores_draw(scene);
    fleet_begin(scene, 1 + chance_pick(chance, CREWS_MAX), 1 + chance_pick(chance, SEATS_MAX / 2));
    trouble_begin(scene);
    scene->watch.happens = watch_happens;
    event_set_in(scene, &scene->watch, WATCH_NS);
    scene_run(scene, instant_after(scene->now, 8 * NS_PER_S + PATIENCE_NS));
    if (scene->violation.oracle == NULL)
        judge_end(scene);
    scene_end(scene);
}

/* --- waiting costs nothing ---------------------------------------------------------------------------------------- */

static unsigned long long calls_so_far(const struct scene *scene)
{
    unsigned long long calls = scene->queue_node.calls;
    for (unsigned i = 0; i < LOCK_NODES; i++)
        calls += scene->lock_nodes[i].calls;
    return calls;
}

double scene_idle_calls(struct scene *scene, unsigned tasks)
{
    enum { SECONDS = 120 };
    struct scene_counters counters = {0};
    scene->counters = &counters;
    scene_reset(scene, 1, BUG_NONE);
    scene->judges = false;
    scene->is_quiet = scene->is_calm = true;
    scene->loss_per_mille = 0;
    scene->delay_max_ns = NS_PER_MS;
    scene->resource_count = 1;
    terms_set(scene, 10 * NS_PER_S);
    scene->chore_count = tasks;
    for (unsigned i = 0; i < tasks; i++)
        scene->chores[i] = (struct chore){.number = i, .jid = i, .hold_ns = 3600 * NS_PER_S};
    fleet_begin(scene, 2, 2);
    trouble_begin(scene);
    scene->queue_node.scene = scene;
    while (counters.parked + 1 < tasks && heap_first(&scene->heap) != NULL)
        scene_run(scene, instant_after(scene->now, NS_PER_S));
    scene_run(scene, instant_after(scene->now, 30 * NS_PER_S));
    unsigned long long before = calls_so_far(scene);
    struct instant from = scene->now;
    scene_run(scene, instant_after(from, SECONDS * NS_PER_S));
    double seconds = (double)instant_since(from, scene->now) / 1e9;
    double calls = (double)(calls_so_far(scene) - before) / seconds;
    scene_end(scene);
    return calls;
}
