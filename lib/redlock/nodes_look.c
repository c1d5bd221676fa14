/* What an inspection found, and how it is shown. Who votes, and why not, is judged by trust.c alone. */
#include <stdio.h>
#include <string.h>

#include "redlock/nodes_private.h"
#include "redlock/sight.h"

_Static_assert(sizeof(((struct redlock_node_view *)NULL)->eviction) == SIGHT_POLICY_SIZE, "a view has the policy");

#define WATCHED_NS (250 * NS_PER_MS) /* how often a watch is told that time passes */

/* --- inspecting --------------------------------------------------------------------------------------------------- */

static void inspection_take(struct server *server, const struct trust_sight *sight)
{
    struct redlock_node_view *view = &server->view;
    server->is_reached = true;
    server->sight = *sight;
    server->has_marker = marker_parse(&server->marker, sight->marker_text, strlen(sight->marker_text), NULL);
    server->bad_marker = sight->has_marker && !server->has_marker;
    view->latency_ns = instant_since(sight->asked, sight->answered);
    view->clock_ahead_us = sight->node_us - (wall_now().us - view->latency_ns / 2 / NS_PER_US);
}

static void was_inspected(struct server *server, const struct redis_result *result)
{
    const struct redis_reply *reply = result->outcome == REDIS_VALUE ? result->reply : NULL;
    struct trust_sight sight = {.asked = server->asked, .answered = instant_now()};
    server->is_refused = result->outcome == REDIS_ERROR && result->error != REDIS_ERROR_DOWN;
    if (reply != NULL && sight_read(&sight, server->view.eviction, reply))
        inspection_take(server, &sight);
    else
        snprintf(server->trouble, sizeof server->trouble, "%s",
                 reply == NULL ? result->reason : "it answers an inspection in another shape than asked for");
    server->is_refused |= reply != NULL && !server->is_reached;
}

static void server_inspect(struct server *server)
{
    struct buffer request = {0};
    server->is_reached = server->is_refused = server->has_marker = server->bad_marker = server->is_due = false;
    server->view =
        (struct redlock_node_view){.name = server->name, .rate_least_ppm = INT64_MIN, .rate_most_ppm = INT64_MAX};
    sight_ask(&request);
    server_ask(server, &request, was_inspected);
    buffer_fini(&request);
}

/* Asked for at once: what trust is told next may change it. */
static void take_due(struct redlock_nodes *nodes, node_set write)
{
    for (unsigned i = 0; i < nodes->count; i++) {
        struct server *server = &nodes->servers[i];
        if ((write & (1U << i)) == 0)
            continue;
        server->is_due = true;
        memcpy(server->due_expected, nodes->trust.node[i].marker_text, sizeof server->due_expected);
        trust_marker_to_write(&nodes->trust, i, server->due_text);
    }
}

static void tell_trust(struct redlock_nodes *nodes, unsigned index)
{
    const struct server *server = &nodes->servers[index];
    struct trust_step step;
    if (server->is_reached)
        step = trust_saw(&nodes->trust, index, &server->sight, instant_now());
    else if (server->is_refused)
        step = trust_unreadable(&nodes->trust, index, instant_now());
    else
        step = trust_unseen(&nodes->trust, index, instant_now());
    take_due(nodes, step.write);
}

void nodes_inspect(struct redlock_nodes *nodes)
{
    for (unsigned i = 0; i <= nodes->count; i++)
        if (nodes->servers[i].connection != NULL)
            server_inspect(&nodes->servers[i]);
    nodes_run(nodes);
    for (unsigned i = 0; i < nodes->count; i++)
        tell_trust(nodes, i);
    nodes_show(nodes);
}

bool nodes_write_trusted(struct redlock_nodes *nodes)
{
    bool wrote = false;
    for (unsigned i = 0; i < nodes->count; i++) {
        struct server *server = &nodes->servers[i];
        bool can_write = server->is_due && server->is_reached && server->unwritable[0] == '\0';
        wrote |= can_write && server_mark(server, server->due_expected, server->due_text) != MARK_FAILED;
        server->is_due = false;
    }
    return wrote;
}

const struct server *nodes_same_server(const struct redlock_nodes *nodes, const struct server *server)
{
    for (unsigned i = 0; i < nodes->count; i++)
        if (&nodes->servers[i] != server && nodes->servers[i].is_reached && server->is_reached &&
            strcmp(nodes->servers[i].sight.run_id, server->sight.run_id) == 0)
            return &nodes->servers[i];
    return NULL;
}

/* --- showing ------------------------------------------------------------------------------------------------------ */

/* Whom it doubles, in words. That it does was judged by trust. */
static void duplicate_show(struct server *server)
{
    const struct redlock_nodes *nodes = server->all;
    const struct server *same = nodes_same_server(nodes, server);
    char text[sizeof server->view.trouble] = "";
    if (same != NULL)
        snprintf(text, sizeof text, "it is the same server as %s (run id %s)", same->name, server->sight.run_id);
    for (unsigned i = 0; i < nodes->count && same == NULL; i++)
        if (&nodes->servers[i] != server && nodes->servers[i].has_marker &&
            strcmp(nodes->servers[i].marker.self, server->marker.self) == 0)
            snprintf(text, sizeof text, "%s has the same place %s", nodes->servers[i].name, server->marker.self);
    memcpy(server->view.trouble, text, sizeof text);
}

static void server_show(struct server *server, const struct trust *trust, unsigned index)
{
    const struct trust_node *trusted = &trust->node[index];
    struct redlock_node_view *view = &server->view;
    int64_t left_ns = instant_since(instant_now(), trust_node_until(trust, index));
    snprintf(view->address, sizeof view->address, "%s", redis_node_address(server->connection));
    snprintf(view->trouble, sizeof view->trouble, "%s", server->is_reached ? "" : server->trouble);
    if (trusted->reason == TRUST_DUPLICATE)
        duplicate_show(server);
    view->is_reached = server->is_reached;
    view->votes = trusted->state == TRUST_VOTES;
    view->state = trust_state_name(trusted->state);
    view->reason = trust_reason_name(trusted->reason);
    view->advice = trust_advice(trust, index);
    view->quarantine_left_ns = trusted->state == TRUST_QUARANTINED && left_ns > 0 ? left_ns : 0;
    if (!server->is_reached)
        return;
    snprintf(view->run_id, sizeof view->run_id, "%s", server->sight.run_id);
    if (!server->has_marker)
        return;
    snprintf(view->group, sizeof view->group, "%s", server->marker.group);
    snprintf(view->id, sizeof view->id, "%s", server->marker.self);
    view->generation = server->marker.generation;
}

void nodes_show(struct redlock_nodes *nodes)
{
    for (unsigned i = 0; i < nodes->count; i++)
        server_show(&nodes->servers[i], &nodes->trust, i);
}

const struct redlock_node_view *redlock_nodes_view(const struct redlock_nodes *nodes, size_t index)
{
    return nodes != NULL && index < nodes->count ? &nodes->servers[index].view : NULL;
}

struct redlock_group_view redlock_nodes_group(const struct redlock_nodes *nodes)
{
    if (nodes == NULL)
        return (struct redlock_group_view){0};
    const struct trust *trust = &nodes->trust;
    struct redlock_group_view all = {
        .nodes = nodes->count, .quorum = nodes->count / 2 + 1, .has_group = trust->has_group && nodes->count > 1};
    for (unsigned i = 0; i < nodes->count; i++) {
        all.reached += nodes->servers[i].is_reached;
        all.voters += nodes->servers[i].view.votes;
    }
    if (!all.has_group)
        return all;
    snprintf(all.group, sizeof all.group, "%s", trust->group.group);
    all.generation = trust->group.generation;
    all.max_ttl_ns = trust_max_ttl_ns(trust);
    for (unsigned place = 0; place < trust->group.place_count; place++)
        all.vacant += trust->group.places[place][0] == '\0';
    return all;
}

static enum redlock_nodes_end look_ends(struct redlock_nodes *nodes, unsigned *waiting)
{
    struct redlock_group_view all = redlock_nodes_group(nodes);
    for (unsigned i = 0; i < nodes->count; i++) {
        const struct redlock_node_view *view = &nodes->servers[i].view;
        *waiting += view->quarantine_left_ns > 0;
        if (!view->is_reached)
            nodes_tell(nodes, "%s: %s", view->name, view->trouble);
        else if (!view->votes)
            nodes_tell(nodes, "%s: %s", view->name, view->advice);
    }
    if (all.voters < all.quorum && all.voters + *waiting >= all.quorum)
        return REDLOCK_NODES_WAITING;
    if (all.voters < all.quorum && all.reached >= all.quorum)
        return REDLOCK_NODES_REFUSED;
    return all.reached < all.nodes ? REDLOCK_NODES_TOO_FEW : REDLOCK_NODES_DONE;
}

enum redlock_nodes_end redlock_nodes_look(struct redlock_nodes *nodes)
{
    if (nodes == NULL)
        return REDLOCK_NODES_REFUSED;
    unsigned waiting = 0;
    nodes_begin(nodes);
    nodes_inspect(nodes);
    return look_ends(nodes, &waiting);
}

static struct trust_reading reading_of(const struct trust_sight *sight)
{
    return (struct trust_reading){.asked = sight->asked, .answered = sight->answered, .node_us = sight->node_us};
}

/* A step lies in one stretch between two looks, a rate in each. */
static void clock_compare(struct server *server, const struct trust_sight *before, struct trust_span *rate)
{
    struct trust_reading first = reading_of(before), second = reading_of(&server->sight);
    bool is_one_run = server->is_reached && strcmp(before->run_id, server->sight.run_id) == 0;
    struct trust_span here = is_one_run ? trust_rate_ppm(&first, &second) : (struct trust_span){INT64_MIN, INT64_MAX};
    rate->least = here.least < rate->least ? here.least : rate->least;
    rate->most = here.most > rate->most ? here.most : rate->most;
    server->view.rate_least_ppm = rate->least;
    server->view.rate_most_ppm = rate->most;
}

static bool time_passes(struct redlock_nodes *nodes, struct instant until)
{
    for (int64_t left_ns; (left_ns = instant_since(instant_now(), until)) > 0;)
        if (!nodes_pause(nodes, "comparing the clocks", left_ns, left_ns < WATCHED_NS ? left_ns : WATCHED_NS))
            return false;
    return true;
}

static bool is_any_reached(const struct redlock_nodes *nodes)
{
    bool reached = false;
    for (unsigned i = 0; i < nodes->count; i++)
        reached |= nodes->servers[i].is_reached;
    return reached;
}

enum redlock_nodes_end redlock_nodes_compare_clocks(struct redlock_nodes *nodes, int64_t for_ns)
{
    enum { STRETCHES = 2 };
    struct trust_span rates[REDLOCK_NODES_MAX];
    if (nodes == NULL)
        return REDLOCK_NODES_REFUSED;
    unsigned waiting = 0;
    nodes_begin(nodes);
    nodes_inspect(nodes);
    for (unsigned i = 0; i < nodes->count; i++)
        rates[i] = (struct trust_span){INT64_MAX, INT64_MIN};
    for (unsigned stretch = 0; stretch < STRETCHES && is_any_reached(nodes); stretch++) {
        struct trust_sight before[REDLOCK_NODES_MAX] = {0};
        for (unsigned i = 0; i < nodes->count; i++)
            if (nodes->servers[i].is_reached)
                before[i] = nodes->servers[i].sight;
        if (!time_passes(nodes, instant_after(instant_now(), for_ns / STRETCHES)))
            return REDLOCK_NODES_WAITING;
        nodes_inspect(nodes);
        for (unsigned i = 0; i < nodes->count; i++)
            clock_compare(&nodes->servers[i], &before[i], &rates[i]);
    }
    return look_ends(nodes, &waiting);
}
