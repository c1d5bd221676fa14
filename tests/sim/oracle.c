/* What must never happen. All judgements are made from outside the lease: from what it told, from what the nodes
 * hold, and from the oracle's own arithmetic over the terms.
 *
 *   O1 overlap     no two locks believe in the same resource at once. A belief is the span until the published
 *                  deadline, so a paused client counts as well: it would believe when it goes on.
 *   O2 lease       while a lock is valid, fewer than a quorum of nodes would grant its resource to another value.
 *                  Looked at whenever a validity begins or a key goes away, and from there ahead to the end of the
 *                  validity, so that a key which will expire too early is found although nobody asks for it.
 *   O3 trespass    no release or extension changes a key with another value
 *   O4 liveness    after the faults somebody acquires; nothing that a lock planted is left when all is given up,
 *                  nothing is cleaned up where nothing was written, and nothing is left without a ttl
 *   O5 told        DANGER and LOST in time, nothing after LOST, half of the ttl left at ACQUIRED, a majority's "not
 *                  yours" is believed, a majority that is down is not waited for, a release's ending is what happened,
 *                  an extension is what a majority did since it was asked (oracle_told.c)
 *   O6 prompt      without faults and with quick nodes nothing is lost, slow or unknown
 *   O7 tokens      in the order of acquisitions, and held by a majority; no stale write is accepted (oracle_tokens.c)
 *   O8 quarantine  no acquisition stands on a grant of a node that forgot less than the longest ttl ago
 *   O9 blame       no node is blamed for a clock that did not jump, or is not far from the others'; a clock of our own
 *                  that stood still is noticed when a quorum of nodes show it whose clocks were known
 *
 * O1, O2 and O8 hold where exclusion is promised (parameters.h); elsewhere overlaps are counted, and the tokens judged.
 * A lock whose key was deleted by hand, or whose client's clock stood still, is exempt from O1 and O2: others may
 * rightly have the resource. */
#include "tests/sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void world_violated(struct world *world, const char *oracle, const char *format, ...)
{
    struct violation *violation = &world->violation;
    if (violation->oracle != NULL)
        return;
    violation->oracle = oracle;
    violation->at = world->now;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(violation->text, sizeof violation->text, format, arguments);
    va_end(arguments);
    world_trace(world, "VIOLATION of %s: %s", oracle, violation->text);
}

/* --- O1 ----------------------------------------------------------------------------------------------------------- */

static bool believes(const struct sim_lock *lock)
{
    return instant_before(client_now(lock->client), lock->published);
}

static bool overlaps(const struct sim_lock *lock, const struct sim_lock *other)
{
    return other != lock && (other->resources & lock->resources) != 0 && !other->tampered && believes(other);
}

static void overlapped(struct sim_lock *lock, const struct sim_lock *other)
{
    struct world *world = lock->client->world;
    world->counters->overlaps_out_of_model++;
    if (world->parameters.exclusion)
        world_violated(world, "O1", "locks %u and %u both believe that they hold", lock->number, other->number);
}

static void overlap_check(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    if (lock->tampered || !believes(lock))
        return;
    for (unsigned i = 0; i < world->parameters.clients; i++)
        for (unsigned k = 0; k < world->parameters.locks; k++)
            if (overlaps(lock, &world->clients[i].locks[k]))
                overlapped(lock, &world->clients[i].locks[k]);
}

/* --- O2 and O8 ---------------------------------------------------------------------------------------------------- */

/* Everybody keeps a node that forgot from voting until then, because of its run, its marker or its clock. */
static struct instant quarantined_until(const struct world *world, struct instant lost_at)
{
    if (lost_at.ns == 0 || !parameters_grouped(&world->parameters))
        return (struct instant){0};
    return instant_after(lost_at, world->parameters.quarantine_ns);
}

static bool would_grant_to_another(const struct sim_node *node, unsigned key, const struct sim_lock *lock,
                                   struct instant end)
{
    const struct model_key *held = &node->model.keys[key];
    if (node->down && !parameters_grouped(&node->world->parameters) && !instant_before(node->restart.item.at, end))
        return false;
    bool keeps = held->value == lock->value && !instant_before(node_model_when(&node->model, held->expires_ms), end);
    bool is_bare = parameters_grouped(&node->world->parameters) && node->model.marker == MODEL_NO_MARKER;
    struct instant lost_at = is_bare ? node->world->now : node->lost_at; /* at best it gets a marker now */
    return !keeps && instant_before(quarantined_until(node->world, lost_at), end);
}

/* Each of them says that the other one has a place: only then can one quorum have both. */
static bool are_of_one_group(const struct sim_node *one, const struct sim_node *other)
{
    struct marker own = marker_read(one), its = marker_read(other);
    return own.generation > 0 && its.generation > 0 && marker_place_of(&its, own.self) >= 0 &&
           marker_place_of(&own, its.self) >= 0;
}

/* Too few of the other nodes say that the place is this server's for a quorum with it. One without a marker says
 * nothing, and is told nothing by so few. */
static bool is_replaced(const struct sim_node *node)
{
    const struct world *world = node->world;
    unsigned with_it = 1;
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        with_it += i != node->index && (are_of_one_group(node, &world->nodes[i]) ||
                                        (world->former[i].lives_on && are_of_one_group(node, &world->former[i])));
    return marker_read(node).generation > 0 && with_it < quorum_of(world);
}

/* Of two servers at one address, any that is still one of the group. */
static bool place_would_grant(const struct world *world, unsigned index, unsigned key, const struct sim_lock *lock,
                              struct instant end)
{
    const struct sim_node *node = &world->nodes[index], *former = &world->former[index];
    if (!former->lives_on)
        return would_grant_to_another(node, key, lock, end);
    return (would_grant_to_another(node, key, lock, end) && !is_replaced(node)) ||
           (would_grant_to_another(former, key, lock, end) && !is_replaced(former));
}

void oracle_lease_check(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    struct instant end = client_to_world(lock->client, lock->lease.valid_until);
    if (!world->parameters.exclusion || !lock->hold.active || lock->tampered || !instant_before(world->now, end))
        return;
    for (unsigned key = 0; key < world->parameters.resources; key++) {
        unsigned count = 0;
        for (unsigned i = 0; i < world->parameters.nodes && set_has(lock->resources, key); i++)
            count += place_would_grant(world, i, key, lock, end);
        if (count >= quorum_of(world))
            world_violated(world, "O2", "lock %u holds key %u for %.3f ms more, but %u of %u nodes do not keep it",
                           lock->number, key, (double)instant_since(world->now, end) / 1e6, count,
                           world->parameters.nodes);
    }
}

void oracle_node_changed(struct sim_node *node, uint32_t value)
{
    struct sim_lock *lock = value == MODEL_NO_VALUE ? NULL : lock_of_value(node->world, value);
    if (lock != NULL)
        oracle_lease_check(lock);
}

static bool is_visible(const struct world *world, int64_t moved_ns)
{
    return moved_ns <= -world->parameters.step_least_ns || moved_ns >= world->parameters.step_least_ns;
}

/* A newcomer compares clocks. Those of a majority may have jumped to one time, one after the other. */
static bool is_with_majority(const struct connection *connection)
{
    const struct world *world = connection->client->world;
    int64_t own = node_model_clock_ns(&connection->node->model, world->now);
    unsigned agree = 0;
    for (unsigned i = 0; i < world->parameters.nodes; i++) {
        int64_t other = node_model_clock_ns(&connection->client->connections[i].node->model, world->now);
        agree += own - other <= NS_PER_S && other - own <= NS_PER_S;
    }
    return agree >= quorum_of(world);
}

/* Whoever knew the clock before a jump is shown it by the next time he is told, and so is whoever meets the node while
 * its clock is wrong beside those of the others. A time that waited for a paused client tells too little. */
void oracle_clock_told(struct connection *connection, const struct message *message)
{
    struct sim_client *client = connection->client;
    struct world *world = client->world;
    if (instant_since(message->asked, client_now(client)) > 2 * client->timeout_ns)
        return;
    bool is_known = connection->clock_run == message->run;
    int64_t moved = message->answer.stepped_ns - (is_known ? connection->stepped_ns : 0);
    int64_t stood = is_known ? client->stood_ns - connection->stood_ns : 0;
    if (is_visible(world, moved) && is_visible(world, moved + stood) && (is_known || !is_with_majority(connection)))
        connection->noticed_at = world->now;
    connection->clock_run = message->run;
    connection->stepped_ns = message->answer.stepped_ns;
    connection->stood_ns = client->stood_ns;
}

/* The clock jumped there and back, and the client was told no time in between; or to where a majority's clocks are, and
 * the client is told its time for the first time. Nothing but a doubt in the marker, by
 * somebody who was, can keep it from counting the grant. */
static bool is_hidden(const struct sim_lock *lock, unsigned node)
{
    struct instant forgot_until = quarantined_until(lock->client->world, lock->forgot_before[node]);
    bool forgot = instant_before(lock->granted_at[node], forgot_until);
    return !forgot && instant_before(lock->client->connections[node].noticed_at, lock->lost_before[node]);
}

/* What nobody could see is no mistake; nothing is promised for that one hold then. */
static void quarantine_check(struct sim_lock *lock)
{
    struct world *world = lock->client->world;
    for (unsigned i = 0; i < world->parameters.nodes; i++) {
        bool is_fresh = set_has(lock->lease.yes, i) &&
                        instant_before(lock->granted_at[i], quarantined_until(world, lock->lost_before[i]));
        if (is_fresh && is_hidden(lock, i)) {
            lock->tampered = true;
            world->counters->hidden_jumps++;
        } else if (is_fresh && world->parameters.exclusion)
            world_violated(world, "O8", "lock %u counts the grant of node %u, which forgot %.3f ms before it",
                           lock->number, i, (double)instant_since(lock->lost_before[i], lock->granted_at[i]) / 1e6);
    }
}

/* --- O9 ----------------------------------------------------------------------------------------------------------- */

/* The server whose clock the client knows; NULL when none at this address is that run of it any more. */
static const struct sim_node *server_known(const struct sim_client *client, unsigned node)
{
    const struct sim_node *servers[] = {&client->world->nodes[node], &client->world->former[node]};
    uint32_t run = client->connections[node].clock_run;
    for (unsigned i = 0; i < 2; i++)
        if (run != 0 && servers[i]->model.run == run)
            return servers[i];
    return NULL;
}

/* Whether its clock was more than a second away from so many others that no quorum agreed with it, at some moment since
 * the client knows its clock: clocks go on to move apart, and together. */
static bool is_far_off(const struct sim_client *client, unsigned node)
{
    const struct world *world = client->world;
    const struct sim_node *own = server_known(client, node);
    int64_t since = instant_since(client->trust.node[node].clock.steady_since, client_now(client));
    int64_t near = NS_PER_S - (int64_t)(2 * client->terms->drift_factor * (double)since);
    unsigned agree = 0;
    for (unsigned i = 0; own != NULL && i < world->parameters.nodes; i++) {
        const struct sim_node *other = server_known(client, i);
        int64_t apart = other == NULL ? INT64_MAX
                                      : node_model_clock_ns(&own->model, world->now) -
                                            node_model_clock_ns(&other->model, world->now);
        agree += apart <= near && -apart <= near;
    }
    return agree < quorum_of(world);
}

/* Where nobody's clock jumps, neither now nor since it was sampled. At once, whatever else speaks against the node: the
 * others' servers may be replaced before it is told. */
static void outlier_check(struct sim_client *client, unsigned index)
{
    struct world *world = client->world;
    bool is_outlier = client->trust.node[index].quarantine == TRUST_CLOCK_OUTLIER;
    bool is_news = is_outlier && !set_has(client->outliers, index);
    client->outliers = (node_set)((client->outliers & ~(1u << index)) | ((unsigned)is_outlier << index));
    if (is_news && !set_has(world->parameters.faults, FAULT_STEP) && client->stood_ns == 0 &&
        !is_far_off(client, index))
        world_violated(world, "O9", "client %u says that the clock of node %u is far from the others', and it is not",
                       client->index, index);
}

void oracle_trust_judged(struct sim_client *client, node_set changed)
{
    struct world *world = client->world;
    for (unsigned i = 0; i < world->parameters.nodes; i++) {
        const struct trust_node *node = &client->trust.node[i];
        outlier_check(client, i);
        if (!set_has(changed, i) || node->state != TRUST_QUARANTINED)
            continue;
        world->counters->quarantined++;
        if (node->reason == TRUST_CLOCK_STEPPED && !world->nodes[i].stepped && client->stood_ns == 0)
            world_violated(world, "O9", "client %u says that the clock of node %u jumped, and it did not",
                           client->index, i);
    }
}

/* Whether what the node tells next can be compared with what it told last. The clock of another run is unknown: while
 * no inspection was answered since it restarted, its connection is up and the clock that is known is that of the run
 * before. And who was blamed for something is no witness. */
static bool is_comparable(const struct sim_client *client, unsigned node)
{
    const struct connection *connection = &client->connections[node];
    char run[MARKER_RUN_DIGITS + 1];
    run_tell(connection->node->model.run, run);
    return connection->up && !connection->broke && strcmp(client->trust.node[node].run_id, run) == 0 &&
           client->trust.node[node].quarantine == TRUST_FINE;
}

/* Clocks of nodes may differ from ours by what is promised since they were told, and by the width of that sample; and
 * they ran at their own rates while ours stood. */
void oracle_clock_stood(struct sim_client *client, int64_t ns)
{
    const struct parameters *parameters = &client->world->parameters;
    client->sharp = client->heard = 0;
    client->went_on_at = (struct instant){0};
    if (!client->trusts || !parameters_grouped(parameters) || set_has(parameters->faults, FAULT_STEP))
        return;
    for (unsigned i = 0; i < parameters->nodes; i++) {
        struct instant now = client_now(client);
        int64_t width =
            NS_PER_US * (trust_node_time_us(&client->trust, i, now) - trust_node_time_low_us(&client->trust, i, now));
        bool is_sharp = is_comparable(client, i) && client->trust.node[i].clock.is_known &&
                        2 * width + 4 * client->timeout_ns + NS_PER_S < ns;
        client->sharp |= (node_set)(is_sharp << i);
    }
    client->went_on_at = client->world->now;
    client->stood_last_ns = ns;
    for (unsigned i = 0; i < parameters->locks; i++)
        client->locks[i].until_then = client->locks[i].hold.until;
}

/* What may be forgiven once more while a clock stood. */
#define TOLERANCE_NS (10 * NS_PER_MS)

/* One node is enough to believe for no longer than if our clock had gone on, or for as long as an extension takes. */
static void belief_check(struct sim_client *client)
{
    struct world *world = client->world;
    struct instant grace = instant_after(client_now(client), client->terms->pass_limit_ns + NS_PER_MS);
    for (unsigned i = 0; i < world->parameters.locks; i++) {
        const struct sim_lock *lock = &client->locks[i];
        bool began_before = instant_before(client_to_world(client, lock->hold.confirmed), client->went_on_at);
        struct instant end = instant_after(lock->until_then, -client->stood_last_ns + TOLERANCE_NS);
        if (lock->hold.active && began_before && instant_before(end, lock->published) &&
            instant_before(grace, lock->published))
            world_violated(world, "O9", "lock %u is believed for %.3f ms more although a node shows that we stood",
                           lock->number, (double)instant_since(client_now(client), lock->published) / 1e6);
    }
}

void oracle_time_heard(struct sim_client *client, unsigned node, struct instant asked)
{
    struct world *world = client->world;
    if (client->went_on_at.ns == 0 || instant_before(client_to_world(client, asked), client->went_on_at))
        return;
    client->heard |= (node_set)(client->sharp & 1u << node);
    if (instant_since(client->went_on_at, world->now) > 2 * NS_PER_S)
        client->went_on_at = (struct instant){0}; /* too long to be put down to one cause */
    if (client->went_on_at.ns != 0 && client->heard != 0)
        belief_check(client);
    if (client->went_on_at.ns == 0 || count_of(client->heard & client->sharp) < quorum_of(world))
        return;
    world->counters->stood_unmistakably++;
    for (unsigned i = 0; i < world->parameters.locks; i++)
        if (client->locks[i].hold.active &&
            instant_before(client_to_world(client, client->locks[i].hold.confirmed), client->went_on_at))
            world_violated(world, "O9", "lock %u is held although our clock stood still", client->locks[i].number);
    /* A sample that was on its way meanwhile shows less than the whole step, and the rest is put down to that node. */
    unsigned blamed = 0;
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        blamed += set_has(client->heard, i) && client->trust.node[i].reason == TRUST_CLOCK_STEPPED;
    if (blamed >= quorum_of(world))
        world_violated(world, "O9", "client %u blames %u nodes for its own clock", client->index, blamed);
    client->went_on_at = (struct instant){0};
}

/* --- O3 ----------------------------------------------------------------------------------------------------------- */

void oracle_executed(struct sim_node *node)
{
    if (node->model.trespasses > 0)
        world_violated(node->world, "O3", "node %u changed a key for a value that is not the key's", node->index);
}

/* --- all news --------------------------------------------------------------------------------------------------- */

void oracle_step(struct sim_lock *lock, const struct lease_step *step)
{
    oracle_told(lock, step);
    if (step->news == LEASE_NEWS_ACQUIRED) {
        quarantine_check(lock);
        oracle_acquired(lock);
    }
    overlap_check(lock);
}

/* --- O4 ----------------------------------------------------------------------------------------------------------- */

void oracle_calm_over(struct world *world)
{
    bool lives_on = false; /* a key whose node's clock was set back */
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        lives_on = lives_on || (world->parameters.profile == PROFILE_WILD && world->nodes[i].stepped);
    if (world->acquired_in_calm == 0 && !lives_on)
        world_violated(world, "O4", "nobody acquired although all faults were over for %.3f ms",
                       (double)instant_since(world->parameters.calm_from, world->now) / 1e6);
}

/* An outage of many nodes would leave them much to do that nobody needs when they are back. */
void oracle_cleans_up(struct sim_lock *lock, node_set nodes)
{
    if (nodes & lock->unsent)
        world_violated(lock->client->world, "O4", "lock %u cleans up at nodes %#x, where nothing was written",
                       lock->number, nodes & lock->unsent);
}

static bool is_orphan(const struct world *world, uint32_t value)
{
    unsigned number = value % (SIM_CLIENTS_MAX * SIM_LOCKS_MAX);
    const struct sim_client *client = &world->clients[number / SIM_LOCKS_MAX];
    return value <= client->locks[number % SIM_LOCKS_MAX].orphans_below;
}

/* By so much a clock may have been moved back since, and what it shows was cut to the millisecond. */
enum { MOVED_BACK_MS = 6 };

static void leak_check(struct world *world, const struct sim_node *node, unsigned key)
{
    int64_t clock_ms = node_model_clock_ms(&node->model, world->now);
    uint32_t value = node_model_get(&node->model, key, clock_ms);
    if (value == MODEL_NO_VALUE)
        return;
    if (node->model.keys[key].expires_ms - clock_ms > world->parameters.longest_ttl_ns / NS_PER_MS + MOVED_BACK_MS &&
        !node->stepped)
        world_violated(world, "O4", "key %u of node %u lives longer than any ttl", key, node->index);
    if (set_has(node->excused, key) || is_orphan(world, value))
        world->counters->orphans_excused++;
    else
        world_violated(world, "O4", "key %u of node %u still holds value %u after everything was given up", key,
                       node->index, value);
}

static void fence_check(struct world *world, const struct sim_node *node, unsigned key)
{
    int64_t expires_ms = node->model.fences[key].expires_ms;
    int64_t latest_ms = node_model_clock_ms(&node->model, world->now) + world->parameters.fence_ttl_ms + MOVED_BACK_MS;
    if (expires_ms == MODEL_NEVER_MS || (expires_ms > latest_ms && !node->stepped))
        world_violated(world, "O4", "the fence of key %u of node %u stays longer than its ttl", key, node->index);
}

void oracle_end(struct world *world)
{
    for (unsigned i = 0; i < world->parameters.nodes; i++)
        for (unsigned key = 0; key < world->parameters.resources; key++) {
            fence_check(world, &world->nodes[i], key);
            if (!world->nodes[i].down)
                leak_check(world, &world->nodes[i], key);
        }
}
