/* The session of an operator: who holds one lock, and taking it away. A value is deleted only where it was seen, and
 * only while it is the one that was seen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redlock/holding.h"
#include "redlock/nodes_private.h"
#include "redlock/scripts.h"

enum { KIND, VALUE, REMAINING, FENCE, PARTS };

/* --- finding ------------------------------------------------------------------------------------------------------ */

static bool has_shape(const struct redis_reply *reply)
{
    return reply->kind == REDIS_ARRAY && reply->count == PARTS && reply->elements[KIND].kind == REDIS_STRING &&
           reply->elements[KIND].length == 1 && reply->elements[VALUE].kind == REDIS_STRING &&
           reply->elements[REMAINING].kind == REDIS_INTEGER && reply->elements[FENCE].kind == REDIS_STRING;
}

/* Above what a counter of Lua can be, or no number at all: no token. */
static uint64_t fence_read(const struct redis_reply *text)
{
    enum { DIGITS_MAX = 16 };
    bool is_number =
        text->length > 0 && text->length <= DIGITS_MAX && strspn(text->bytes, "0123456789") == text->length;
    return is_number ? strtoull(text->bytes, NULL, 10) : 0;
}

static bool key_read(struct redlock_key_view *key, const struct redis_reply *reply)
{
    const struct redis_reply *parts = reply->elements;
    if (!has_shape(reply))
        return false;
    char kind = parts[KIND].bytes[0];
    if (kind < '0' || kind > '3' || parts[VALUE].length > REDLOCK_KEY_VALUE_MAX)
        return false;
    key->kind = (enum redlock_key_kind)(kind - '0');
    memcpy(key->value, parts[VALUE].bytes, parts[VALUE].length);
    key->length = parts[VALUE].length;
    key->remaining_ns = parts[REMAINING].integer < 0 ? -1 : parts[REMAINING].integer * NS_PER_MS;
    key->fence = fence_read(&parts[FENCE]);
    return true;
}

static void was_found(struct server *server, const struct redis_result *result)
{
    struct redlock_key_view *key = &server->key;
    const struct redis_reply *reply = result->outcome == REDIS_VALUE ? result->reply : NULL;
    *key = (struct redlock_key_view){.kind = REDLOCK_KEY_NOTHING};
    key->is_answered = reply != NULL && key_read(key, reply);
    if (!key->is_answered)
        snprintf(key->trouble, sizeof key->trouble, "%s",
                 reply == NULL ? result->reason : "an answer of another shape than asked for");
}

static void request_key(const struct redlock_nodes *nodes, const char *resource, struct buffer *request)
{
    struct buffer key = {0};
    if (nodes->options->key_prefix != NULL)
        buffer_append_text(&key, nodes->options->key_prefix);
    buffer_append_text(&key, resource);
    redis_request_bytes(request, key.bytes, key.length);
    buffer_fini(&key);
}

static bool find_begin(struct redlock_nodes *nodes, const char *resource)
{
    if (nodes == NULL)
        return false;
    nodes_begin(nodes);
    if (resource == NULL)
        nodes_tell(nodes, "the resource is NULL");
    return resource != NULL;
}

enum redlock_nodes_end redlock_nodes_find(struct redlock_nodes *nodes, const char *resource)
{
    if (!find_begin(nodes, resource))
        return REDLOCK_NODES_REFUSED;
    struct buffer request = {0};
    unsigned answered = 0;
    nodes_inspect(nodes);
    redis_request_script(&request, &redlock_script_holder, 1, 1);
    request_key(nodes, resource, &request);
    redis_request_integer(&request, REDLOCK_KEY_VALUE_MAX);
    for (unsigned i = 0; i < nodes->count; i++)
        server_ask(&nodes->servers[i], &request, was_found);
    nodes_run(nodes);
    buffer_fini(&request);
    for (unsigned i = 0; i < nodes->count; i++) {
        answered += nodes->servers[i].key.is_answered;
        if (!nodes->servers[i].key.is_answered)
            nodes_tell(nodes, "%s: %s", nodes->servers[i].name, nodes->servers[i].key.trouble);
    }
    return answered == nodes->count ? REDLOCK_NODES_DONE : REDLOCK_NODES_TOO_FEW;
}

const struct redlock_key_view *redlock_nodes_key(const struct redlock_nodes *nodes, size_t index)
{
    return nodes != NULL && index < nodes->count ? &nodes->servers[index].key : NULL;
}

unsigned redlock_nodes_holders(const struct redlock_nodes *nodes, struct redlock_holder holders[REDLOCK_NODES_MAX])
{
    if (nodes == NULL || holders == NULL)
        return 0;
    struct holding_sight sights[REDLOCK_NODES_MAX];
    for (unsigned i = 0; i < nodes->count; i++) {
        const struct server *server = &nodes->servers[i];
        sights[i] = (struct holding_sight){
            .is_answered = server->key.is_answered, .votes = server->view.votes, .key = &server->key};
    }
    return holding_judge(sights, nodes->count, holders);
}

/* --- taking ------------------------------------------------------------------------------------------------------- */

static void was_taken(struct server *server, const struct redis_result *result)
{
    struct redlock_key_view *key = &server->key;
    const struct redis_reply *reply = result->outcome == REDIS_VALUE ? result->reply : NULL;
    char answer = reply != NULL && reply->kind == REDIS_STRING && reply->length == 1 ? reply->bytes[0] : '?';
    if (answer == '1')
        key->taking = REDLOCK_TAKING_DONE;
    else if (answer == '0')
        key->taking = REDLOCK_TAKING_GONE;
    else
        key->taking = answer == '2' ? REDLOCK_TAKING_CHANGED : REDLOCK_TAKING_FAILED;
    if (key->taking == REDLOCK_TAKING_FAILED)
        snprintf(key->trouble, sizeof key->trouble, "%s",
                 reply == NULL ? result->reason : "an answer of another shape than asked for");
}

enum redlock_nodes_end redlock_nodes_take(struct redlock_nodes *nodes, const char *resource)
{
    if (!find_begin(nodes, resource))
        return REDLOCK_NODES_REFUSED;
    struct buffer request = {0};
    enum redlock_nodes_end end = REDLOCK_NODES_DONE;
    for (unsigned i = 0; i < nodes->count; i++) {
        struct server *server = &nodes->servers[i];
        server->key.taking = server->key.is_answered ? REDLOCK_TAKING_NOTHING : REDLOCK_TAKING_FAILED;
        if (!server->key.is_answered || server->key.kind == REDLOCK_KEY_NOTHING)
            continue;
        if (server->key.kind != REDLOCK_KEY_VALUE) {
            server->key.taking = REDLOCK_TAKING_REFUSED;
            continue;
        }
        buffer_clear(&request);
        redis_request_script(&request, &redlock_script_release, 1, 1);
        request_key(nodes, resource, &request);
        redis_request_bytes(&request, server->key.value, server->key.length);
        server_ask(server, &request, was_taken);
    }
    nodes_run(nodes);
    buffer_fini(&request);
    for (unsigned i = 0; i < nodes->count; i++) {
        const struct redlock_key_view *key = &nodes->servers[i].key;
        if (key->taking == REDLOCK_TAKING_FAILED) {
            nodes_tell(nodes, "%s: %s", nodes->servers[i].name, key->trouble);
            end = end == REDLOCK_NODES_DONE ? REDLOCK_NODES_TOO_FEW : end;
        } else if (key->taking == REDLOCK_TAKING_REFUSED) {
            end = REDLOCK_NODES_REFUSED;
        }
    }
    return end;
}
