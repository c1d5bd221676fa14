/* A node and the way to it. What becomes of a message is drawn when it leaves: it arrives after a delay, behind those
 * that the same process sent before; or it is lost; or it is lost for now and executed much later, as a request does
 * whose connection broke. A reply takes its own time, or is lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tests/sim/server/redis_commands.h"
#include "tests/sim/queue/scene.h"

#define REPEAT_NS     (200 * NS_PER_MS)
#define LATE_MAX_NS   (3 * NS_PER_S)
#define DELAY_MIN_NS  (50 * NS_PER_US)
#define DELAY_NS      (600 * NS_PER_US)
#define NODE_BEGIN_US INT64_C(1700000000000000)

struct ask {
    struct list link; /* of the scene */
    struct event event;
    struct server *server;
    struct staff *crew;
    unsigned life;
    struct request request;
    struct replies memory; /* of the request */
    ask_told *told;
    void *owner;
    uintptr_t detail;
    int64_t timeout_ns; /* 0 = repeated until told */
    unsigned flights;
    bool is_over;
};

struct flight {
    struct event event;
    struct ask *ask;
    struct replies memory;
    struct reply *reply; /* NULL = has not been executed */
    bool loses_reply;
};

/* --- the node --------------------------------------------------------------------------------------------------- */

void server_init(struct server *server, struct scene *scene, unsigned index)
{
    keyspace_clear(&server->space);
    *server = (struct server){.scene = scene, .index = index};
    server->ahead_us = chance_between(&scene->chance, -2 * US_PER_S, 2 * US_PER_S);
    keyspace_init(&server->space, server_now_us(server));
}

int64_t server_now_us(const struct server *server)
{
    return NODE_BEGIN_US + server->scene->now.ns / NS_PER_US + server->ahead_us;
}

void server_begin_memory(struct server *server)
{
    struct replies replies = {0};
    snprintf(server->marker, sizeof server->marker, "%u", ++server->memories);
    keyspace_clear(&server->space);
    server_command(server, &replies, (const char *const[]){"SET", "hf:marker", server->marker}, 3);
    replies_fini(&replies);
}

struct reply *server_execute(struct server *server, struct replies *replies, const struct request *request)
{
    server->space.now_us = server_now_us(server);
    server->calls++;
    struct reply *reply = script_run_alone(server->scene->host, &server->space, replies, request->script,
                                           request->arguments, request->keys, request->count);
    if (reply->kind == REPLY_ERROR && strncmp(reply->text.bytes, "UNLISTED", 8) != 0)
        judge_violation(server->scene, "S7", "%s answers %s", request->script->name, reply->text.bytes);
    judge_executed(server, request->script);
    return reply;
}

struct reply *server_command(struct server *server, struct replies *replies, const char *const *words, size_t count)
{
    struct text arguments[8];
    for (size_t i = 0; i < count; i++)
        arguments[i] = text_of(words[i]);
    server->space.now_us = server_now_us(server);
    return redis_execute(&server->space, replies, arguments, count);
}

/* --- requests --------------------------------------------------------------------------------------------------- */

void request_begin(struct request *request, const struct redis_script *script)
{
    request->script = script;
    request->keys = request->count = 0;
}

void request_bytes(struct request *request, const char *bytes, size_t length)
{
    if (request->count == ARGUMENTS_MAX)
        abort();
    request->arguments[request->count++] = (struct text){bytes, length};
}

void request_text(struct request *request, const char *text)
{
    request_bytes(request, text, strlen(text));
}

void request_key(struct request *request, const char *key)
{
    request_text(request, key);
    request->keys++;
}

/* --- asks --------------------------------------------------------------------------------------------------------- */

static void ask_free(struct ask *ask)
{
    heap_remove(&ask->server->scene->heap, &ask->event.item);
    list_remove(&ask->link);
    replies_fini(&ask->memory);
    free(ask);
}

static void flight_free(struct flight *flight)
{
    struct ask *ask = flight->ask;
    replies_fini(&flight->memory);
    free(flight);
    if (--ask->flights == 0 && ask->is_over)
        ask_free(ask);
}

static void ask_tell(struct ask *ask, const struct reply *reply)
{
    if (ask->is_over)
        return;
    ask->is_over = true;
    heap_remove(&ask->server->scene->heap, &ask->event.item);
    if (ask->crew->is_alive && ask->crew->life == ask->life)
        ask->told(ask->owner, ask->detail, reply);
}

static int64_t delay_draw(struct scene *scene)
{
    if (!scene->is_calm && chance_per_mille(&scene->chance, 40))
        return chance_scale(&scene->chance, NS_PER_MS, scene->delay_max_ns);
    return chance_between(&scene->chance, DELAY_MIN_NS, DELAY_NS);
}

static bool is_lost(struct scene *scene)
{
    return !scene->is_calm && chance_per_mille(&scene->chance, scene->loss_per_mille);
}

/* A process that was stopped for longer than its lease is listed no more. It would start over by itself. */
static void unlisted_told(struct ask *ask)
{
    struct staff *crew = ask->crew;
    if (ask->is_over || crew->life != ask->life)
        return;
    if (crew->stopped_until.ns == 0)
        judge_violation(crew->scene, "S7", "%s answers UNLISTED to %s", ask->request.script->name, crew->identity);
    staff_die(crew, NS_PER_S);
}

static void flight_lands(struct event *event)
{
    struct flight *flight = list_owner(event, struct flight, event);
    if (flight->reply->kind == REPLY_ERROR)
        unlisted_told(flight->ask);
    else
        ask_tell(flight->ask, flight->reply);
    flight_free(flight);
}

static void flight_arrives(struct event *event)
{
    struct flight *flight = list_owner(event, struct flight, event);
    struct server *server = flight->ask->server;
    struct scene *scene = server->scene;
    if (instant_before(scene->now, server->paused_until)) {
        heap_set(&scene->heap, &event->item, instant_after(server->paused_until, 1000));
        return;
    }
    flight->reply = server_execute(server, &flight->memory, &flight->ask->request);
    if (flight->loses_reply) {
        flight_free(flight);
        return;
    }
    event->happens = flight_lands;
    event->crew = flight->ask->crew;
    event_set_in(scene, event, delay_draw(scene));
}

static void flight_start(struct ask *ask, struct instant arrives, bool loses_reply)
{
    struct flight *flight = memory_new(struct flight);
    flight->ask = ask;
    flight->loses_reply = loses_reply;
    flight->event.happens = flight_arrives;
    ask->flights++;
    heap_set(&ask->server->scene->heap, &flight->event.item, arrives);
}

static void ask_send(struct ask *ask)
{
    struct server *server = ask->server;
    struct scene *scene = server->scene;
    if (is_lost(scene)) {
        scene->counters->requests_lost++;
        /* A lock node refuses it by its deadline. */
        if (server == &scene->queue_node && chance_per_mille(&scene->chance, 500)) {
            scene->counters->executed_late++;
            flight_start(ask, instant_after(scene->now, chance_scale(&scene->chance, NS_PER_MS, LATE_MAX_NS)), true);
        }
        return;
    }
    struct instant *last = &server->last_arrival[ask->crew->index],
                   at = instant_after(scene->now, delay_draw(scene) + scene->extra_delay_ns);
    if (!instant_before(*last, at))
        at = instant_after(*last, 1000);
    *last = at;
    bool loses_reply = is_lost(scene);
    scene->counters->replies_lost += loses_reply;
    flight_start(ask, at, loses_reply);
}

static void ask_waited(struct event *event)
{
    struct ask *ask = list_owner(event, struct ask, event);
    if (ask->timeout_ns > 0) {
        ask_tell(ask, NULL);
        if (ask->flights == 0)
            ask_free(ask);
        return;
    }
    ask_send(ask);
    event_set_in(ask->server->scene, event, REPEAT_NS);
}

static void ask_start(struct server *server, struct staff *crew, const struct request *request, int64_t timeout_ns,
                      ask_told *told, void *owner, uintptr_t detail)
{
    struct ask *ask = memory_new(struct ask);
    ask->server = server;
    ask->crew = crew;
    ask->life = crew->life;
    ask->request = *request;
    for (size_t i = 0; i < request->count; i++)
        ask->request.arguments[i] = replies_text(&ask->memory, request->arguments[i]);
    ask->told = told;
    ask->owner = owner;
    ask->detail = detail;
    ask->timeout_ns = timeout_ns;
    ask->event.happens = ask_waited;
    ask->event.crew = crew;
    list_append(&server->scene->asks, &ask->link);
    ask_send(ask);
    event_set_in(server->scene, &ask->event, timeout_ns > 0 ? timeout_ns : REPEAT_NS);
}

void server_ask_until_told(struct server *server, struct staff *crew, const struct request *request, ask_told *told,
                           void *owner, uintptr_t detail)
{
    ask_start(server, crew, request, 0, told, owner, detail);
}

void server_ask_once(struct server *server, struct staff *crew, const struct request *request, int64_t timeout_ns,
                     ask_told *told, void *owner, uintptr_t detail)
{
    ask_start(server, crew, request, timeout_ns, told, owner, detail);
}

void server_forget(struct staff *crew)
{
    for (struct list *link = crew->scene->asks.next, *next; link != &crew->scene->asks; link = next) {
        struct ask *ask = list_owner(link, struct ask, link);
        next = link->next;
        if (ask->crew != crew || ask->is_over)
            continue;
        ask->is_over = true;
        heap_remove(&crew->scene->heap, &ask->event.item);
        if (ask->flights == 0)
            ask_free(ask);
    }
}

/* What is on its way is in the heap of events and belongs to its ask. */
void server_end(struct scene *scene)
{
    for (struct heap_item *item; (item = heap_first(&scene->heap)) != NULL;) {
        struct event *event = list_owner(item, struct event, item);
        heap_remove(&scene->heap, item);
        if (event->happens == flight_arrives || event->happens == flight_lands)
            flight_free(list_owner(event, struct flight, event));
    }
    for (struct list *link; (link = list_take_first(&scene->asks)) != NULL;) {
        struct ask *ask = list_owner(link, struct ask, link);
        replies_fini(&ask->memory);
        free(ask);
    }
}
