/* tests/support/hostile_server.h in the world: a listener of its own. */
#include "tests/support/hostile_server.h"

#include <stdlib.h>

#include "base/memory.h"
#include "tests/sim/world/network.h"
#include "tests/support/hostile_client.h"
#include "tests/support/redis_server.h"

#define TICK_NS (5 * NS_PER_MS)

struct hostile_server {
    struct listener listener;
    struct world_event tick; /* there is something that drips, or waits for another mode */
    enum hostile_mode mode;
    const char *says;
    unsigned accepted;
    struct list clients;
};

struct client {
    struct list link;
    struct hostile_server *server;
    struct peer *peer;
    struct hostile_client talk;
};

static void client_free(struct client *client)
{
    list_remove(&client->link);
    hostile_client_fini(&client->talk);
    free(client);
}

static void client_write(struct client *client)
{
    struct buffer *out = &client->talk.out;
    size_t length = hostile_client_portion(&client->talk, client->server->mode);
    if (length > 0) {
        peer_send(client->peer, out->bytes, length);
        buffer_drop_front(out, length);
    }
    if (out->length > 0) {
        world_at(&client->server->tick, instant_after(world_time(), TICK_NS));
    } else if (client->talk.closes) {
        peer_close(client->peer);
        client_free(client);
    }
}

static void tick_fire(struct world_event *event)
{
    struct hostile_server *server = list_owner(event, struct hostile_server, tick);
    for (struct list *link = server->clients.next, *next; link != &server->clients; link = next) {
        next = link->next;
        client_write(list_owner(link, struct client, link));
    }
}

static void *accepted(struct listener *listener, struct peer *peer)
{
    struct hostile_server *server = list_owner(listener, struct hostile_server, listener);
    struct client *client = memory_new(struct client);
    client->server = server;
    client->peer = peer;
    list_init(&client->link);
    list_append(&server->clients, &client->link);
    server->accepted++;
    if (server->mode == HOSTILE_UNASKED)
        buffer_append_text(&client->talk.out, "+HELLO\r\n");
    client_write(client);
    return client;
}

static void received(void *owner, const char *bytes, size_t length)
{
    struct client *client = owner;
    buffer_append(&client->talk.in, bytes, length);
    if (hostile_client_answer(&client->talk, client->server->mode, client->server->says)) {
        client_write(client);
    } else {
        peer_reset(client->peer);
        client_free(client);
    }
}

static void gone(void *owner)
{
    client_free(owner);
}

struct hostile_server *hostile_server_start(enum hostile_mode mode)
{
    struct hostile_server *server = memory_new(struct hostile_server);
    server->mode = mode;
    server->tick.fire = tick_fire;
    list_init(&server->clients);
    server->listener = (struct listener){
        .host = host_create("hostile"), .port = free_port(), .accepted = accepted, .received = received, .gone = gone};
    network_listen(&server->listener);
    return server;
}

void hostile_server_destroy(struct hostile_server *server)
{
    if (server == NULL)
        return;
    network_shut(&server->listener, false);
    while (!list_is_empty(&server->clients))
        client_free(list_owner(server->clients.next, struct client, link));
    world_cancel(&server->tick);
    free(server);
}

unsigned hostile_server_port(const struct hostile_server *server)
{
    return server->listener.port;
}

unsigned hostile_server_accepted(const struct hostile_server *server)
{
    return server->accepted;
}

void hostile_server_set_mode(struct hostile_server *server, enum hostile_mode mode)
{
    server->mode = mode;
    tick_fire(&server->tick);
}

void hostile_server_say(struct hostile_server *server, const char *text)
{
    server->says = text;
    hostile_server_set_mode(server, HOSTILE_SAYS);
}
