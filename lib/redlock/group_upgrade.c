/* Moving the fences of all nodes from strings into sorted sets: performs what upgrade.c says comes next. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "redlock/inspection_call.h"
#include "redlock/operator_session.h"
#include "redlock/scripts.h"
#include "redlock/upgrade.h"

#define FENCE_SET "hf:fences"
#define SETTLE_NS (7 * NS_PER_S) /* clients inspect every node every 5 s, and soon again if it does not answer */
#define LOOK_NS   (250 * NS_PER_MS)

enum { PAGE_KEYS = 500, NAMED_MAX = 10 };

/* The strings of a node, some at a time. */
struct fence_page {
    struct buffer keys; /* as arguments of a request */
    size_t key_count;
    struct buffer names;   /* of the same, each with a NUL behind it: to tell people */
    const char *marker;    /* what the node must have */
    bool is_other;         /* it has another one */
    bool is_stopped;       /* by the caller */
    uint64_t moved, stray; /* of all pages; strays are no fences */
    struct instant told_at;
};

static bool fail(struct server *server, const char *what)
{
    nodes_tell(server->all, "%s: %s: %s", server->name, what, server->trouble);
    return false;
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

/* The cursor of the next page is in `found`. */
static bool page_read(struct server *server, const struct redis_reply *reply)
{
    struct fence_page *page = server->page;
    if (reply->kind != REDIS_ARRAY || reply->count != 2 || reply->elements[0].kind != REDIS_STRING ||
        reply->elements[1].kind != REDIS_ARRAY)
        return false;
    const struct redis_reply *keys = &reply->elements[1];
    buffer_clear(&server->found);
    buffer_append_text(&server->found, reply->elements[0].bytes);
    for (size_t i = 0; i < keys->count; i++) {
        if (keys->elements[i].kind != REDIS_STRING)
            return false;
        redis_request_bytes(&page->keys, keys->elements[i].bytes, keys->elements[i].length);
        buffer_append(&page->names, keys->elements[i].bytes, strlen(keys->elements[i].bytes) + 1);
    }
    page->key_count = keys->count;
    return true;
}

static bool page_ask(struct server *server)
{
    struct buffer request = {0};
    buffer_clear(&server->page->keys);
    buffer_clear(&server->page->names);
    redis_request_begin(&request, 6);
    redis_request_texts(&request, "SCAN", buffer_text(&server->found), "MATCH", FENCE_STRING_PREFIX "*", "COUNT");
    redis_request_integer(&request, PAGE_KEYS);
    server_ask(server, &request, page_read);
    nodes_run(server->all);
    buffer_fini(&request);
    return server->is_understood || fail(server, "its fences cannot be listed");
}

static void stray_tell(struct server *server, const char *name)
{
    char quoted[LOG_QUOTE_MAX];
    if (server->page->stray++ < NAMED_MAX)
        nodes_tell(server->all, "%s: %s is no fence, and stays", server->name, log_quote(name, quoted));
}

static bool moved_read(struct server *server, const struct redis_reply *reply)
{
    struct fence_page *page = server->page;
    if (reply->kind != REDIS_STRING)
        return false;
    const char *signs = strrchr(reply->bytes, ' '), *name = page->names.bytes;
    page->is_other = reply->bytes[0] == '1';
    if (page->is_other)
        return true;
    if (reply->bytes[0] != '0' || signs == NULL || strlen(signs + 1) != page->key_count)
        return false;
    for (const char *sign = signs + 1; *sign != '\0'; sign++, name += strlen(name) + 1) {
        page->moved += *sign == '1';
        if (*sign == '2')
            stray_tell(server, name);
    }
    return true;
}

static bool page_move(struct server *server)
{
    struct fence_page *page = server->page;
    struct buffer request = {0};
    redis_request_script(&request, &redlock_script_move_fences, page->key_count + 2, 1);
    redis_request_texts(&request, MARKER_KEY, FENCE_SET);
    buffer_append(&request, page->keys.bytes, page->keys.length);
    redis_request_text(&request, page->marker);
    server_ask(server, &request, moved_read);
    nodes_run(server->all);
    buffer_fini(&request);
    return server->is_understood || fail(server, "its fences cannot be moved");
}

/* --- one node ----------------------------------------------------------------------------------------------------- */

static bool progress_tell(struct server *server, struct fence_page *page)
{
    struct redlock_nodes *nodes = server->all;
    char what[REDLOCK_NODE_NAME_SIZE + 80];
    if (nodes->goes_on == NULL || !instant_reached(instant_now(), page->told_at))
        return true;
    page->told_at = instant_after(instant_now(), LOOK_NS);
    snprintf(what, sizeof what, "moving the fences of %s: %llu so far", server->name, (unsigned long long)page->moved);
    page->is_stopped = !nodes->goes_on(nodes->context, what, -1);
    return !page->is_stopped;
}

/* The loop runs only while an answer is awaited, so a connection that breaks shows as a missing answer. */
static bool pages_move(struct server *server)
{
    struct fence_page *page = server->page;
    do {
        if (!page_ask(server) || (page->key_count > 0 && !page_move(server)))
            return false;
        if (!page->is_other && !progress_tell(server, page))
            return false;
    } while (!page->is_other && strcmp(buffer_text(&server->found), "0") != 0);
    return true;
}

/* While nothing has changed yet: what the user of this session may not do, and something else under the set's key. */
static bool is_movable(struct server *server)
{
    if (!page_ask(server))
        return false;
    server->page->key_count = 0;
    buffer_clear(&server->page->keys);
    return page_move(server);
}

static enum redlock_nodes_end step_perform(struct server *server, const struct upgrade_step *step)
{
    struct fence_page page = {.marker = step->expected};
    server->page = &page;
    buffer_clear(&server->found);
    buffer_append_text(&server->found, "0");
    bool is_done = step->verdict == UPGRADE_MOVE ? pages_move(server) : is_movable(server);
    if (is_done && !page.is_other && server_mark(server, step->expected, step->text, TRUST_KEEPS_FENCES) == MARK_FAILED)
        is_done = fail(server, "its marker cannot be written");
    server->fences_moved += page.moved;
    server->page = NULL;
    buffer_fini(&page.keys);
    buffer_fini(&page.names);
    if (is_done)
        return REDLOCK_NODES_DONE;
    return page.is_stopped ? REDLOCK_NODES_WAITING : server->is_refused ? REDLOCK_NODES_REFUSED : REDLOCK_NODES_TOO_FEW;
}

/* --- all nodes ---------------------------------------------------------------------------------------------------- */

static struct upgrade_step plan(const struct redlock_nodes *nodes, node_set wanted, struct instant settled_at)
{
    struct upgrade upgrade = {.nodes = nodes->count,
                              .voters = trust_voters(&nodes->trust),
                              .members = trust_members(&nodes->trust),
                              .wanted = wanted,
                              .is_settled = instant_reached(instant_now(), settled_at)};
    for (unsigned i = 0; i < nodes->count; i++)
        server_member(&nodes->servers[i], &upgrade.node[i]);
    return upgrade_next(&upgrade);
}

/* Says which node is in the way, and why it is. */
static enum redlock_nodes_end too_few_tell(struct redlock_nodes *nodes, const struct upgrade_step *step)
{
    const struct server *server = &nodes->servers[step->node];
    const struct redlock_node_view *view = &server->view;
    nodes_tell(nodes, "%s (%s): %s", step->reason, server->is_reached ? view->reason : view->trouble, view->advice);
    if (!server->is_reached)
        return REDLOCK_NODES_TOO_FEW;
    return view->quarantine_left_ms > 0 ? REDLOCK_NODES_WAITING : REDLOCK_NODES_REFUSED;
}

static node_set set_wanted(const struct redlock_nodes *nodes, const bool *wanted)
{
    node_set set = 0;
    for (unsigned i = 0; i < nodes->count; i++)
        if (wanted == NULL || wanted[i])
            set |= set_of(i);
    return set;
}

enum redlock_nodes_end redlock_nodes_upgrade(struct redlock_nodes *nodes, const bool *wanted)
{
    if (nodes == NULL)
        return REDLOCK_NODES_REFUSED;
    nodes_begin(nodes);
    if (nodes->count == 1)
        return nodes_tell(nodes, "one lock node alone has no marker, and keeps its fences as they are");
    for (unsigned i = 0; i < nodes->count; i++)
        nodes->servers[i].fences_moved = 0;
    struct instant settled_at = instant_after(instant_now(), SETTLE_NS);
    for (;;) {
        nodes_inspect(nodes);
        struct upgrade_step step = plan(nodes, set_wanted(nodes, wanted), settled_at);
        enum redlock_nodes_end end = REDLOCK_NODES_DONE;
        if (step.verdict == UPGRADE_DONE)
            return REDLOCK_NODES_DONE;
        if (step.verdict == UPGRADE_TOO_FEW)
            return too_few_tell(nodes, &step);
        if (step.verdict == UPGRADE_WAIT) {
            int64_t left_ns = instant_since(instant_now(), settled_at);
            if (!nodes_pause(nodes, "waiting until all clients know", left_ns, left_ns < LOOK_NS ? left_ns : LOOK_NS))
                return REDLOCK_NODES_WAITING;
            continue;
        }
        end = step_perform(&nodes->servers[step.node], &step);
        if (end != REDLOCK_NODES_DONE)
            return end;
        settled_at = instant_after(instant_now(), SETTLE_NS);
    }
}
