/* A new lock group: everything is looked at first, and only then anything is written.
 *
 * The nodes are written one after the other. Until a quorum of them has its marker nobody votes; when one fails, those
 * before it are taken back by compare-and-delete. A process that dies in between leaves markers of a group that is not
 * whole, which the next `init` reports. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/random.h"
#include "redlock/nodes_private.h"

#define MAX_TTL_LEAST_NS REDLOCK_MS(1000)
#define MAX_TTL_MOST_NS  REDLOCK_MS(600000)

/* --- looking ------------------------------------------------------------------------------------------------------ */

/* True when a key is in the way, or it could not be found out whether one is. */
static bool keys_are_there(struct redlock_nodes *nodes, struct server *server)
{
    char quoted[LOG_QUOTE_MAX];
    const char *prefix = nodes->options->key_prefix != NULL ? nodes->options->key_prefix : "";
    if (!server_find_key(server, prefix)) {
        nodes_tell(nodes, "%s: it cannot be told whether there are keys: %s", server->name, server->trouble);
        return true;
    }
    if (server->found.length == 0)
        return false;
    nodes_tell(nodes,
               "%s: there are keys already, such as %s: a new group begins without locks. Empty it, or, when these "
               "nodes served a fleet before they were a group, keep the keys (--keep-keys)",
               server->name, log_quote(buffer_text(&server->found), quoted));
    return true;
}

static void server_check(struct redlock_nodes *nodes, struct server *server, const struct redlock_group_terms *terms)
{
    const struct server *same = nodes_same_server(nodes, server);
    if (!server->is_reached)
        nodes_tell(nodes, "%s: cannot be asked: %s", server->name, server->trouble);
    else if (same != NULL && same < server)
        nodes_tell(nodes, "%s: is the same server as %s (run id %s): every node needs a server of its own",
                   server->name, same->name, server->sight.run_id);
    else if (server->has_marker)
        nodes_tell(nodes,
                   "%s: belongs to a lock group already (%s, generation %u). `holdfast nodes` shows it; if that group "
                   "is of no use to anybody, remove the key %s there first",
                   server->name, server->marker.group, (unsigned)server->marker.generation, MARKER_KEY);
    else if (server->bad_marker)
        nodes_tell(nodes, "%s: what is under its key %s is no marker: remove it", server->name, MARKER_KEY);
    else if (server->sight.evicts)
        nodes_tell(nodes, "%s: evicts keys when its memory is full (maxmemory-policy %s): set it to noeviction",
                   server->name, server->view.eviction);
    else if (!terms->keep_keys)
        keys_are_there(nodes, server);
}

static enum redlock_nodes_end all_check(struct redlock_nodes *nodes, const struct redlock_group_terms *terms)
{
    unsigned away = 0, complaints = 0;
    for (unsigned i = 0; i < nodes->count; i++) {
        size_t before = nodes->reason.length;
        server_check(nodes, &nodes->servers[i], terms);
        complaints += nodes->reason.length > before;
        away += !nodes->servers[i].is_reached && !nodes->servers[i].is_refused;
    }
    if (complaints == 0)
        return REDLOCK_NODES_DONE;
    return away == complaints ? REDLOCK_NODES_TOO_FEW : REDLOCK_NODES_REFUSED;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void digits_draw(char *out, size_t digits)
{
    random_digits(out, digits);
    out[digits] = '\0';
}

static struct marker group_draw(const struct redlock_nodes *nodes, int64_t max_ttl_ns)
{
    struct marker group = {.generation = 1, .max_ttl_ms = max_ttl_ns / NS_PER_MS, .place_count = nodes->count};
    digits_draw(group.group, MARKER_GROUP_DIGITS);
    for (unsigned i = 0; i < nodes->count; i++)
        do
            digits_draw(group.places[i], MARKER_ID_DIGITS);
        while (marker_place_of(&group, group.places[i]) != (int)i);
    return group;
}

static void text_of(const struct redlock_nodes *nodes, struct marker group, unsigned index, bool keep_keys,
                    char text[MARKER_TEXT_MAX])
{
    memcpy(group.self, group.places[index], sizeof group.self);
    if (!keep_keys)
        memcpy(group.run, nodes->servers[index].sight.run_id, sizeof group.run);
    marker_write(&group, text);
}

static void take_back(struct redlock_nodes *nodes, const struct marker *group, unsigned count, bool keep_keys)
{
    char text[MARKER_TEXT_MAX];
    for (unsigned i = 0; i < count; i++) {
        text_of(nodes, *group, i, keep_keys, text);
        if (server_mark(&nodes->servers[i], text, "") == MARK_FAILED)
            nodes_tell(nodes,
                       "%s: its marker could not be taken back (%s): remove the key %s there before you try again",
                       nodes->servers[i].name, nodes->servers[i].trouble, MARKER_KEY);
    }
}

static enum redlock_nodes_end all_write(struct redlock_nodes *nodes, const struct marker *group, bool keep_keys)
{
    char text[MARKER_TEXT_MAX];
    for (unsigned i = 0; i < nodes->count; i++) {
        text_of(nodes, *group, i, keep_keys, text);
        enum mark_outcome outcome = server_mark(&nodes->servers[i], "", text);
        if (outcome == MARK_DONE)
            continue;
        nodes_tell(nodes, "%s: its marker could not be written: %s. There is no group; what was written is taken back",
                   nodes->servers[i].name,
                   outcome == MARK_FAILED ? nodes->servers[i].trouble : "somebody else wrote one at the same time");
        take_back(nodes, group, outcome == MARK_FAILED ? i + 1 : i, keep_keys); /* a lost reply may hide a success */
        return outcome == MARK_FAILED ? REDLOCK_NODES_TOO_FEW : REDLOCK_NODES_REFUSED;
    }
    return REDLOCK_NODES_DONE;
}

enum redlock_nodes_end redlock_nodes_init(struct redlock_nodes *nodes, const struct redlock_group_terms *terms)
{
    if (nodes == NULL)
        return REDLOCK_NODES_REFUSED;
    nodes_begin(nodes);
    if (terms == NULL) {
        nodes_tell(nodes, "the terms of the group are NULL");
        return REDLOCK_NODES_REFUSED;
    }
    int64_t max_ttl_ns = terms->max_ttl_ns != 0 ? terms->max_ttl_ns : REDLOCK_MAX_TTL_DEFAULT_NS;
    if (nodes->count == 1)
        nodes_tell(nodes, "one lock node alone needs no group (and is no Redlock)");
    if (max_ttl_ns < MAX_TTL_LEAST_NS || max_ttl_ns > MAX_TTL_MOST_NS)
        nodes_tell(nodes, "the longest ttl must be from 1 s to 10 min");
    if (nodes->reason.length > 0)
        return REDLOCK_NODES_REFUSED;
    nodes_inspect(nodes);
    enum redlock_nodes_end end = all_check(nodes, terms);
    if (end != REDLOCK_NODES_DONE)
        return end;
    struct marker group = group_draw(nodes, max_ttl_ns);
    end = all_write(nodes, &group, terms->keep_keys);
    nodes_inspect(nodes);
    return end;
}
