#include "tests/sim/world/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "tests/sim/world/play.h"

#define PIECE_NS (4 * NS_PER_US)

enum { PORT = 6379 };

/* A client as the node sees it. */
struct node_caller {
    struct list link;
    struct node *node;
    struct peer *peer;         /* NULL = it is gone, or was never there */
    bool runs_script, is_lost; /* now; the reply was: it gets no more */
    void (*replied)(void *context, const char *bytes, size_t length);
    void (*ended)(void *context);
    void *context;
    struct server_connection *connection;
};

struct piece {
    struct list link;
    struct node_caller *caller;
    size_t length; /* 0 = the client is gone */
    char bytes[];
};

int64_t node_now_us(const struct node *node)
{
    return host_wall(node->host, world_time()).us;
}

/* --- what the server does ----------------------------------------------------------------------------------------- */

static void reply_sent(void *context, const char *bytes, size_t length)
{
    struct node_caller *caller = context;
    unsigned per_mille = caller->runs_script ? caller->node->lost_per_mille : 0;
    if (caller->peer != NULL && per_mille > 0 && chance_per_mille(world_chance(), per_mille))
        caller->is_lost = caller->node->has_lost = true;
    if (caller->peer != NULL && !caller->is_lost)
        peer_send(caller->peer, bytes, length);
    if (caller->replied != NULL)
        caller->replied(caller->context, bytes, length);
}

/* What it has sent may still be in the inbox. */
static void caller_end(struct node_caller *caller)
{
    caller->peer = NULL;
    caller->connection = NULL;
    caller->replied = NULL;
    if (caller->ended != NULL)
        caller->ended(caller->context);
    caller->ended = NULL;
}

static void server_closed(void *context)
{
    struct node_caller *caller = context;
    if (caller->peer != NULL)
        peer_close(caller->peer);
    caller_end(caller);
}

/* When it has something to do next. */
static void tick_arm(struct node *node)
{
    int64_t next_us = server_next_us(node->server), now_us = node_now_us(node);
    if (next_us == INT64_MAX || !node->is_up || node->is_paused)
        world_cancel(&node->tick);
    else
        world_at(&node->tick,
                 instant_after(world_time(), next_us <= now_us ? NS_PER_US : (next_us - now_us) * NS_PER_US));
}

static void gone(void *owner);

/* Their connections end, and the outcome of their requests is unknown to them. */
static void lost_reset(struct node *node)
{
    for (struct list *link = node->callers.next; node->has_lost && link != &node->callers; link = link->next) {
        struct node_caller *caller = list_owner(link, struct node_caller, link);
        if (caller->peer == NULL || !caller->is_lost)
            continue;
        play_count("lost replies", 1);
        peer_reset(caller->peer);
        gone(caller);
    }
    node->has_lost = false;
}

static void tick_fire(struct world_event *event)
{
    struct node *node = list_owner(event, struct node, tick);
    server_tick(node->server, node_now_us(node));
    lost_reset(node);
    tick_arm(node);
}

void node_look(struct node *node)
{
    tick_arm(node);
}

static void work_arm(struct node *node)
{
    if (list_is_empty(&node->inbox) || node->is_paused)
        world_cancel(&node->work);
    else
        world_at(&node->work, instant_after(node->free_at, PIECE_NS + node->slow_ns));
}

static void caller_free(struct node_caller *caller)
{
    if (caller->connection != NULL)
        server_hang_up(caller->connection);
    list_remove(&caller->link);
    free(caller);
}

static void caller_serve(struct node_caller *caller, const struct piece *piece)
{
    struct node *node = caller->node;
    node->client = caller->peer == NULL ? NULL : peer_client(caller->peer);
    caller->runs_script = memmem(piece->bytes, piece->length, "EVALSHA", strlen("EVALSHA")) != NULL;
    server_receive(caller->connection, piece->bytes, piece->length, node_now_us(node));
    caller->runs_script = false;
    node->client = NULL;
    lost_reset(node);
}

static void work_fire(struct world_event *event)
{
    struct node *node = list_owner(event, struct node, work);
    struct piece *piece = list_owner(list_take_first(&node->inbox), struct piece, link);
    struct node_caller *caller = piece->caller;
    node->free_at = world_time();
    if (piece->length == 0)
        caller_free(caller);
    else if (caller->connection != NULL)
        caller_serve(caller, piece);
    free(piece);
    work_arm(node);
    tick_arm(node);
}

void node_catch_up(struct node *node)
{
    invariant(node->is_up && !node->is_paused);
    network_arrive(&node->listener);
    while (!list_is_empty(&node->inbox)) {
        world_cancel(&node->work);
        work_fire(&node->work);
    }
}

/* --- what comes --------------------------------------------------------------------------------------------------- */

static void piece_add(struct node_caller *caller, const char *bytes, size_t length)
{
    struct node *node = caller->node;
    struct piece *piece = memory_zeroed(1, sizeof *piece + length);
    piece->caller = caller;
    piece->length = length;
    if (length > 0)
        memcpy(piece->bytes, bytes, length);
    list_init(&piece->link);
    bool was_idle = list_is_empty(&node->inbox);
    list_append(&node->inbox, &piece->link);
    if (was_idle && instant_before(node->free_at, world_time()))
        node->free_at = world_time();
    if (was_idle)
        work_arm(node);
}

static struct node_caller *caller_create(struct node *node)
{
    struct node_caller *caller = memory_new(struct node_caller);
    caller->node = node;
    list_init(&caller->link);
    list_append(&node->callers, &caller->link);
    caller->connection = server_accept(node->server, caller, reply_sent, server_closed);
    return caller;
}

static void *accepted(struct listener *listener, struct peer *peer)
{
    struct node_caller *caller = caller_create(list_owner(listener, struct node, listener));
    caller->peer = peer;
    return caller;
}

struct node_caller *node_call(struct node *node, void (*replied)(void *context, const char *bytes, size_t length),
                              void (*ended)(void *context), void *context)
{
    struct node_caller *caller = caller_create(node);
    caller->replied = replied;
    caller->ended = ended;
    caller->context = context;
    return caller;
}

void node_say(struct node_caller *caller, const char *bytes, size_t length)
{
    piece_add(caller, bytes, length);
}

void node_hang_up(struct node_caller *caller)
{
    caller->replied = NULL;
    caller->ended = NULL;
    piece_add(caller, NULL, 0);
}

static void received(void *owner, const char *bytes, size_t length)
{
    piece_add(owner, bytes, length);
}

static void gone(void *owner)
{
    struct node_caller *caller = owner;
    caller->peer = NULL;
    piece_add(caller, NULL, 0);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct node *node_create_with(const char *name, unsigned port, const char *password)
{
    struct node *node = memory_new(struct node);
    char run_seed[64]; /* a server that takes over this name is another one */
    snprintf(node->name, sizeof node->name, "%s", name);
    node->host = host_create(name);
    snprintf(run_seed, sizeof run_seed, "%s %u", name, node->host->number);
    node->work.fire = work_fire;
    node->tick.fire = tick_fire;
    node->free_at = world_time();
    node->is_up = true;
    list_init(&node->inbox);
    list_init(&node->callers);
    node->listener =
        (struct listener){.host = node->host, .port = port, .accepted = accepted, .received = received, .gone = gone};
    node->server = server_create(&(struct server_options){.run_seed = run_seed,
                                                          .password = password,
                                                          .has_disk = true,
                                                          .seed = chance_next(world_chance()),
                                                          .now_us = node_now_us(node)});
    network_listen(&node->listener);
    network_name(name, node->host);
    return node;
}

struct node *node_create(const char *name)
{
    return node_create_with(name, PORT, NULL);
}

void node_stop(struct node *node, bool is_silent)
{
    if (!node->is_up)
        return;
    world_tell("%s dies%s", node->name, is_silent ? " with its host" : "");
    node->is_up = node->is_paused = false;
    if (is_silent)
        node->vanished_at = world_time();
    /* The callers stay: the memory of a schedule goes as a whole. */
    for (struct list *link; (link = list_take_first(&node->inbox)) != NULL;)
        free(list_owner(link, struct piece, link));
    network_shut(&node->listener, is_silent);
    for (struct list *link; (link = list_take_first(&node->callers)) != NULL;)
        caller_end(list_owner(link, struct node_caller, link));
    world_cancel(&node->work);
    world_cancel(&node->tick);
}

void node_start(struct node *node, enum server_memory memory)
{
    invariant(!node->is_up);
    world_tell("%s starts", node->name);
    node->is_up = true;
    node->free_at = node->started_at = world_time();
    server_restart(node->server, memory, node_now_us(node));
    network_listen(&node->listener);
    tick_arm(node);
}

static void copy_end(struct node *node)
{
    server_destroy(node->copy);
    node->copy = NULL;
}

void node_copy(struct node *node)
{
    copy_end(node);
    node->copy = server_create(&(struct server_options){.run_seed = "copy", .now_us = node_now_us(node)});
    server_follow(node->copy, node->server, 0, node_now_us(node));
    server_promote(node->copy, node_now_us(node));
}

bool node_fall_back(struct node *node)
{
    if (node->copy == NULL)
        return false;
    world_tell("%s falls back to an older memory", node->name);
    server_follow(node->server, node->copy, 0, node_now_us(node));
    server_promote(node->server, node_now_us(node));
    server_kill_clients(node->server);
    copy_end(node);
    return true;
}

void node_pause(struct node *node)
{
    if (!node->is_up || node->is_paused)
        return;
    world_tell("%s stands still", node->name);
    node->is_paused = true;
    world_cancel(&node->work);
    world_cancel(&node->tick);
}

void node_resume(struct node *node)
{
    if (!node->is_paused)
        return;
    world_tell("%s goes on", node->name);
    node->is_paused = false;
    node->free_at = world_time();
    work_arm(node);
    tick_arm(node);
}

void node_tell(const struct node *node, const char *key)
{
    const struct item *item = table_find(&server_keyspace(node->server)->keys, text_of(key));
    if (item == NULL || item->value->type != VALUE_STRING)
        world_tell("%s: no %s", node->name, key);
    else
        world_tell("%s: %s %.*s", node->name, key, (int)item->value->string.length, item->value->string.bytes);
}
