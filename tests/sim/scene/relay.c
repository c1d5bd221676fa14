/* tests/support/relay.h in the world: a listener of its own that speaks to the server in the place of the client. */
#include "tests/support/relay.h"

#include "base/memory.h"
#include "tests/sim/scene/scene.h"
#include "tests/support/redis_server.h"

struct relay {
    struct listener listener;
    unsigned server_port;
    bool swallows;
    struct list relayed; /* with a server */
};

struct relayed {
    struct list link;
    struct relay *relay;
    struct peer *peer;          /* NULL = the relay closed it, or it is gone */
    struct node_caller *caller; /* NULL = no server is there */
};

static void replied(void *context, const char *bytes, size_t length)
{
    struct relayed *relayed = context;
    if (relayed->peer != NULL && !relayed->relay->swallows)
        peer_send(relayed->peer, bytes, length);
}

static void ended(void *context)
{
    struct relayed *relayed = context;
    relayed->caller = NULL;
    list_remove(&relayed->link);
    if (relayed->peer != NULL)
        peer_close(relayed->peer);
    relayed->peer = NULL;
}

static void *accepted(struct listener *listener, struct peer *peer)
{
    struct relayed *relayed = memory_new(struct relayed);
    struct relay *relay = list_owner(listener, struct relay, listener);
    struct node *node = scene_node(relay->server_port);
    relayed->relay = relay;
    relayed->peer = peer;
    list_init(&relayed->link);
    list_append(&relay->relayed, &relayed->link);
    if (node != NULL && node->is_up)
        relayed->caller = node_call(node, replied, ended, relayed);
    else
        ended(relayed);
    return relayed;
}

static void received(void *owner, const char *bytes, size_t length)
{
    struct relayed *relayed = owner;
    if (relayed->caller != NULL)
        node_say(relayed->caller, bytes, length);
}

static void gone(void *owner)
{
    struct relayed *relayed = owner;
    list_remove(&relayed->link);
    relayed->peer = NULL;
    if (relayed->caller != NULL)
        node_hang_up(relayed->caller);
}

struct relay *relay_start(unsigned server_port)
{
    struct relay *relay = memory_new(struct relay);
    relay->server_port = server_port;
    list_init(&relay->relayed);
    relay->listener = (struct listener){
        .host = host_create("relay"), .port = free_port(), .accepted = accepted, .received = received, .gone = gone};
    network_listen(&relay->listener);
    return relay;
}

static void hang_up(struct relay *relay)
{
    network_shut(&relay->listener, false);
    for (struct list *link = relay->relayed.next; link != &relay->relayed; link = link->next)
        list_owner(link, struct relayed, link)->peer = NULL;
}

/* Its memory goes with the world. */
void relay_destroy(struct relay *relay)
{
    if (relay == NULL)
        return;
    hang_up(relay);
    for (struct list *link; (link = list_take_first(&relay->relayed)) != NULL;)
        node_hang_up(list_owner(link, struct relayed, link)->caller);
}

unsigned relay_port(const struct relay *relay)
{
    return relay->listener.port;
}

void relay_swallow(struct relay *relay, bool swallows)
{
    relay->swallows = swallows;
}

void relay_cut(struct relay *relay)
{
    hang_up(relay);
    network_listen(&relay->listener);
}
