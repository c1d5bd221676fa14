/* What must never happen.
 *
 *   S1  Two holders of a resource at once; a token that is not greater than the one before, as
 *       long as no lock node has lost its memory; a run without the lock.
 *   S2  A task in two places, or in none that did not end; an end that is not that of a run or of a cancellation.
 *   S3  The order. Who leaves the waiting list by a wake or as an heir is the oldest: no task with an older place is
 *       parked, and none has been on its way for less than a minute (unless the queue was paused). Allowed exceptions:
 *       tasks that an operator or another program moved, deleted or brought back early, tasks that had the lock and did
 *       not run under it to their end (their process died or was stopped), and tasks with a twin of the same jid (both
 *       on either side).
 *   S4  A lost wake: the lock of a resource is free and all of its tasks are parked for longer than WAKE_NS and the
 *       messages under way. Allowed exceptions: where a majority of lock nodes did not answer a pass or a release in
 *       time, about as long as that was late (UNDECIDED_NS); where processes die or messages get lost, a ttl and a
 *       look (LOOK_NS); once the queue was paused, the next round of the sweep (SWEEP_NS), because nobody is woken
 *       into a paused queue; once an operator or another program changed the list, also the time for which one that
 *       was woken counts as on its way (OUT_NS).
 *       So it is while the next that is to have the lock is in the hands of a process that is stopped or dead: whoever
 *       was claimed as an heir there comes back, and nobody waits for its holder then. (What such a process claimed
 *       otherwise follows its lease.)
 *   S5  A retry that no failed run has cost.
 *   S6  A task that has not ended long after the last fault.
 *   S7  A script that answers with an error.
 *   S8  A task claimed from a paused queue.
 *   S9  An heir that locks something else too.
 *   S10 An heir that starts though it was brought back from its process. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/scripts.h"
#include "tests/sim/queue/scene.h"

#define WAKE_NS       (250 * NS_PER_MS)
#define UNDECIDED_NS  (800 * NS_PER_MS) /* twice the time that a release is late at most */
#define LOOK_NS       (7 * NS_PER_S)
#define SWEEP_NS      (20 * NS_PER_S)
#define OUT_NS        (90 * NS_PER_S)
#define ON_ITS_WAY_NS (59 * NS_PER_S)

void judge_violation(struct scene *scene, const char *oracle, const char *format, ...)
{
    if (scene->violation.oracle != NULL || !scene->judges)
        return;
    va_list arguments;
    va_start(arguments, format);
    scene->violation.oracle = oracle;
    scene->violation.at = scene->now;
    vsnprintf(scene->violation.text, sizeof scene->violation.text, format, arguments);
    va_end(arguments);
    scene->over = true;
    scene_trace(scene, "VIOLATION %s: %s", oracle, scene->violation.text);
}

/* --- where tasks are --------------------------------------------------------------------------------------------- */

static void chore_seen(struct scene *scene, struct text payload, enum place place)
{
    struct chore *chore = chore_of(scene, payload);
    chore->copies++;
    chore->found = place;
}

static void process_look(struct scene *scene, struct value *process)
{
    unsigned index = 0, life = 0;
    size_t at = 0;
    if (sscanf(process->key->name, "hf:2:process:h%u:1:%u", &index, &life) != 2)
        return;
    for (struct item *item; (item = table_next(&process->table, &at)) != NULL;) {
        struct text place = item_text(item);
        const char *field = item->name;
        const char *line = place.length > ID_BYTES ? strchr(place.bytes + ID_BYTES, '\n') : NULL;
        if (field[0] < '0' || field[0] > '9' || line == NULL)
            continue;
        struct chore *chore = chore_of(scene, text_of(line + 1));
        uint64_t claim = strtoull(place.bytes, NULL, 16); /* the queue's name, which follows, begins with no digit */
        chore_seen(scene, text_of(line + 1), PLACE_CLAIM);
        chore->claimer = life << 8 | index;
        chore->is_heir = chore->is_heir && chore->claim == claim; /* a park that let it try again is about any claim */
        chore->claim = claim;
    }
}

static void value_look(struct scene *scene, struct value *value)
{
    static const char *const keys[] = {
        [PLACE_QUEUE] = "queue:q", [PLACE_SCHEDULE] = "schedule", [PLACE_RETRY] = "retry", [PLACE_DEAD] = "dead"};
    if (strncmp(value->key->name, "hf:2:process:", 13) == 0)
        process_look(scene, value);
    for (int place = PLACE_QUEUE; place <= PLACE_DEAD; place++)
        for (size_t i = 0; strcmp(value->key->name, keys[place]) == 0 && i < value->row.count; i++)
            chore_seen(scene, place == PLACE_QUEUE ? value_entry(value, i) : item_name(value_scored(value, i)),
                       (enum place)place);
}

static void places_look(struct scene *scene)
{
    for (unsigned i = 0; i < scene->chore_count; i++)
        scene->chores[i].copies = 0;
    size_t at = 0;
    for (struct item *key; (key = table_next(&scene->queue_node.space.keys, &at)) != NULL;)
        value_look(scene, key->value);
}

/* --- the order ---------------------------------------------------------------------------------------------------- */

static struct value *order_of(struct scene *scene, unsigned resource)
{
    char key[64];
    snprintf(key, sizeof key, "hf:2:waiting:resource:r%u", resource);
    return keyspace_find(&scene->queue_node.space, text_of(key));
}

/* `chore` has just left the list, to its queue or into a claim. What it was before is still in `place` of others. */
static void order_check(struct scene *scene, struct chore *chore, const struct redis_script *script)
{
    const char *name = script->name;
    if (chore->is_excused)
        return;
    if (chore->rank == 0)
        judge_violation(scene, "S3", "task %u was woken by %s and has no place", chore->number, name);
    for (unsigned i = 0; i < scene->chore_count; i++) {
        const struct chore *older = &scene->chores[i];
        if (older->resource != chore->resource || older->rank == 0 || older->rank >= chore->rank || older->is_excused ||
            older->copies == 0)
            continue;
        if (older->found == PLACE_SCHEDULE)
            judge_violation(scene, "S3", "%s takes task %u before task %u, which has waited longer", name,
                            chore->number, older->number);
        /* An heir may be claimed for the one that is to get the lock. */
        bool is_before = script == &queue_script_heir && older->found == PLACE_CLAIM && older->is_successor;
        bool is_out = !scene->was_paused && !is_before && (older->found == PLACE_QUEUE || older->found == PLACE_CLAIM);
        if (is_out && older->since.ns != 0 && instant_since(older->since, scene->now) < ON_ITS_WAY_NS)
            judge_violation(scene, "S3", "%s takes task %u while task %u, which has waited longer, is on its way", name,
                            chore->number, older->number);
    }
}

/* --- moves ------------------------------------------------------------------------------------------------------- */

static bool is_paused(struct scene *scene)
{
    return keyspace_find(&scene->queue_node.space, text_of("paused")) != NULL;
}

static void chore_ended(struct scene *scene, struct chore *chore, const struct redis_script *script)
{
    bool ends = script == &queue_script_claim || script == &queue_script_finish || script == &queue_script_heir;
    chore->is_over = true;
    scene_trace(scene, "task %u r%u j%u: ended by %s", chore->number, chore->resource, chore->jid,
                script != NULL ? script->name : "an operator");
    if (!ends && !chore->was_deleted)
        judge_violation(scene, "S2", "task %u is nowhere, after %s", chore->number, script->name);
    if (ends && chore->runs == 0 && !chore->was_cancelled)
        judge_violation(scene, "S2", "task %u ended, and never ran", chore->number);
}

/* Nobody waits for the one that had the lock before it, or was about to, and may wait in the same process now. */
static void chore_brought_back(struct scene *scene, struct chore *chore)
{
    scene->counters->brought_back++;
    chore->taken_from = chore->claimer;
    for (unsigned i = 0; i < scene->chore_count; i++) {
        struct chore *holder = &scene->chores[i];
        bool is_of_same = holder->resource == chore->resource && holder->claimer == chore->claimer;
        holder->is_passed = is_of_same && holder->found == PLACE_CLAIM;
        holder->is_excused = holder->is_excused || holder->is_passed;
    }
}

static void chore_moved(struct scene *scene, struct chore *chore, const struct redis_script *script)
{
    enum place from = chore->place, to = chore->found;
    const char *name = script != NULL ? script->name : "an operator";
    chore->place = to;
    chore->is_successor = chore->is_successor && to == PLACE_CLAIM;
    if (from == PLACE_SCHEDULE) /* on its way since then, wherever it goes */
        chore->since = scene->now;
    scene_trace(scene, "task %u r%u j%u: place %d -> %d by %s", chore->number, chore->resource, chore->jid, (int)from,
                (int)to, name);
    scene_note(scene, (uint64_t)chore->number << 8 ^ (uint64_t)to);
    bool is_claimed = to == PLACE_CLAIM && (script == &queue_script_claim || script == &queue_script_heir);
    if (to == PLACE_CLAIM && chore->claimer == chore->taken_from)
        chore->taken_from = 0;
    if (to == PLACE_CLAIM)
        chore->holds = chore->is_passed = false;
    chore->is_heir = to == PLACE_CLAIM && script == &queue_script_heir;
    if (from == PLACE_CLAIM && script == &queue_script_due)
        chore_brought_back(scene, chore);
    if (is_claimed && is_paused(scene))
        judge_violation(scene, "S8", "%s claims task %u, whose queue is paused", name, chore->number);
    bool is_woken = from == PLACE_SCHEDULE && script != NULL && script != &queue_script_promote;
    scene->counters->woken += is_woken && script != &queue_script_heir;
    if (is_woken)
        order_check(scene, chore, script);
    if (script == &queue_script_park && chore->rank == 0)
        chore->rank = ++scene->ranks;
    bool is_back = script == &queue_script_recover || script == &queue_script_give_back;
    if (is_back && chore->had_lock) /* it may have given up its place for an heir */
        chore->is_excused = true;
    if (to == PLACE_RETRY) /* it had the lock, and gives up its place */
        chore->rank = 0;
    chore->retries += to == PLACE_RETRY;
    if (chore->retries > chore->failures)
        judge_violation(scene, "S5", "task %u is retried, and did not fail", chore->number);
}

void judge_executed(struct server *server, const struct redis_script *script)
{
    struct scene *scene = server->scene;
    if (server != &scene->queue_node)
        return;
    crews_ring(scene);
    if (!scene->judges)
        return;
    places_look(scene);
    for (unsigned i = 0; i < scene->chore_count; i++) {
        struct chore *chore = &scene->chores[i];
        if (!chore->is_pushed)
            continue;
        if (chore->copies > 1 || (chore->is_over && chore->copies > 0))
            judge_violation(scene, "S2", "task %u is there %u times%s, after %s", chore->number, chore->copies,
                            chore->is_over ? " after its end" : "", script != NULL ? script->name : "a command");
        else if (chore->copies == 0 && !chore->is_over)
            chore_ended(scene, chore, script);
        else if (!chore->is_over && chore->found != chore->place)
            chore_moved(scene, chore, script);
    }
}

/* --- locks ------------------------------------------------------------------------------------------------------- */

void judge_acquired(struct grip *grip)
{
    struct scene *scene = grip->crew->scene;
    struct grip *holder = scene->holders[grip->resource];
    scene_trace(scene, "%s slot %u holds r%u, token %" PRIu64, grip->crew->identity, grip->seat->number, grip->resource,
                grip->token);
    if (holder != NULL && grip_is_valid(holder))
        judge_violation(scene, "S1", "%s and %s both hold r%u", holder->crew->identity, grip->crew->identity,
                        grip->resource);
    if (!scene->was_wiped && grip->token <= scene->tokens[grip->resource])
        judge_violation(scene, "S1", "token %" PRIu64 " of r%u is not above %" PRIu64, grip->token, grip->resource,
                        scene->tokens[grip->resource]);
    scene->tokens[grip->resource] = grip->token;
    scene->holders[grip->resource] = grip;
    grip->seat->chore->had_lock = grip->seat->chore->holds = true;
    grip->seat->chore->since = (struct instant){0}; /* not on its way any more */
}

void judge_let_go(struct grip *grip)
{
    struct scene *scene = grip->crew->scene;
    if (scene->holders[grip->resource] == grip)
        scene->holders[grip->resource] = NULL;
}

void judge_runs(struct seat *seat)
{
    struct scene *scene = seat->crew->scene;
    scene_trace(scene, "%s slot %u runs task %u", seat->crew->identity, seat->number, seat->chore->number);
    if (seat->grip == NULL || !grip_is_valid(seat->grip))
        judge_violation(scene, "S1", "task %u runs without its lock", seat->chore->number);
    if (seat->chore->taken_from == (seat->crew->life << 8 | seat->crew->index))
        judge_violation(scene, "S10", "task %u was brought back, and %s starts it", seat->chore->number,
                        seat->crew->identity);
}

/* --- time -------------------------------------------------------------------------------------------------------- */

static bool lock_is_free(struct scene *scene, unsigned resource)
{
    char key[32];
    unsigned taken = 0;
    snprintf(key, sizeof key, "lock:r%u", resource);
    for (unsigned i = 0; i < LOCK_NODES; i++) {
        scene->lock_nodes[i].space.now_us = server_now_us(&scene->lock_nodes[i]);
        taken += keyspace_find(&scene->lock_nodes[i].space, text_of(key)) != NULL ||
                 instant_before(scene->now, scene->lock_nodes[i].trusted_from);
    }
    return taken < LOCK_NODES / 2 + 1;
}

/* What the node knows of a waiting list. */
static void list_trace(struct scene *scene, unsigned resource)
{
    char key[64];
    snprintf(key, sizeof key, "hf:2:places:resource:r%u", resource);
    struct value *order = order_of(scene, resource), *places = keyspace_find(&scene->queue_node.space, text_of(key));
    scene_trace(scene, "r%u, the node's time is %" PRId64, resource, server_now_us(&scene->queue_node));
    for (size_t i = 0; order != NULL && places != NULL && i < order->row.count; i++) {
        const struct item *member = value_scored(order, i), *place = table_find(&places->table, item_name(member));
        scene_trace(scene, "r%u, %s: %.60s", resource, member->name, place == NULL ? "nothing" : place->text);
    }
}

/* Claimed by a process that is stopped or dead. */
static bool is_forsaken(const struct scene *scene, const struct chore *chore)
{
    const struct staff *crew = &scene->crews[chore->claimer & 0xff];
    bool acts = crew->is_alive && crew->life == chore->claimer >> 8 && !staff_is_stopped(crew);
    return chore->place == PLACE_CLAIM && !acts;
}

static bool all_sleep(const struct scene *scene, unsigned resource)
{
    unsigned parked = 0, heirs = 0, holders = 0;
    for (unsigned i = 0; i < scene->chore_count; i++) {
        const struct chore *chore = &scene->chores[i];
        if (!chore->is_pushed || chore->is_over || chore->resource != resource)
            continue;
        if (chore->place == PLACE_SCHEDULE)
            parked++;
        else if (is_forsaken(scene, chore) && chore->holds)
            holders += !chore->is_passed;
        else if (is_forsaken(scene, chore) && chore->is_heir && !chore->is_successor)
            heirs++;
        else
            return false;
    }
    return heirs > 0 || (parked > 0 && holders == 0);
}

void judge_watch(struct scene *scene)
{
    bool is_stopped = instant_before(scene->now, scene->queue_node.paused_until) || is_paused(scene);
    bool anybody = false;
    for (unsigned i = 0; i < scene->staff_count; i++)
        anybody = anybody || (scene->crews[i].is_enlisted && !staff_is_stopped(&scene->crews[i]));
    for (unsigned r = 0; r < scene->resource_count; r++) {
        bool sleeps = all_sleep(scene, r) && lock_is_free(scene, r) && !is_stopped && anybody;
        struct instant *since = &scene->idle_since[r];
        if (!sleeps)
            *since = INSTANT_NEVER;
        else if (since->ns == INSTANT_NEVER.ns)
            *since = scene->now;
        int64_t late_ns = scene->is_undecided[r] ? UNDECIDED_NS : 0;
        int64_t bound = scene->is_quiet ? WAKE_NS + 4 * scene->delay_max_ns + late_ns : LOOK_NS;
        bound = scene->relaxed[r] ? OUT_NS : scene->was_paused ? SWEEP_NS : bound;
        bool is_lost = sleeps && instant_since(*since, scene->now) > bound;
        if (is_lost)
            list_trace(scene, r);
        if (is_lost)
            judge_violation(scene, "S4", "r%u is free, and all who wait for it sleep since %" PRId64 " ms", r,
                            instant_since(*since, scene->now) / NS_PER_MS);
    }
}

void judge_end(struct scene *scene)
{
    for (unsigned i = 0; i < scene->chore_count; i++) {
        const struct chore *chore = &scene->chores[i];
        if (chore->is_pushed && !chore->is_over)
            judge_violation(scene, "S6", "task %u never ended: place %d", chore->number, (int)chore->place);
    }
}
