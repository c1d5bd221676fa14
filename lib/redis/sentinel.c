#include "redis/sentinel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "redis/request.h"

/* --- the list ----------------------------------------------------------------------------------------------- */

void sentinel_search_init(struct sentinel_search *search, const struct redis_sentinels *options)
{
    *search = (struct sentinel_search){.master = options->master, .count = options->count};
    if (options->count == 0)
        return;
    search->items = memory_zeroed(options->count, sizeof *search->items);
    for (size_t i = 0; i < options->count; i++) {
        struct sentinel *sentinel = &search->items[i];
        struct redis_address address;
        struct error error = ERROR_NONE;
        invariant(redis_address_parse(options->addresses[i], &address, &error));
        memcpy(sentinel->host, address.host, sizeof address.host);
        sentinel->port = address.port != 0 ? address.port : SENTINEL_PORT_DEFAULT;
        redis_address_drop(&address);
    }
}

void sentinel_search_fini(struct sentinel_search *search)
{
    free(search->items);
}

void sentinel_search_begin(struct sentinel_search *search)
{
    search->next = 0;
    search->found = false;
}

struct sentinel *sentinel_search_current(struct sentinel_search *search)
{
    return search->next < search->count && !search->found ? &search->items[search->next] : NULL;
}

bool sentinel_search_skip(struct sentinel_search *search)
{
    search->next++;
    return search->next < search->count;
}

static void move_to_front(struct sentinel_search *search, size_t index)
{
    struct sentinel moved = search->items[index];
    memmove(&search->items[1], &search->items[0], index * sizeof moved);
    search->items[0] = moved;
}

void sentinel_search_distrust(struct sentinel_search *search)
{
    struct sentinel moved = search->items[0];
    memmove(&search->items[0], &search->items[1], (search->count - 1) * sizeof moved);
    search->items[search->count - 1] = moved;
}

/* --- question and answer ------------------------------------------------------------------------------------ */

void sentinel_ask(const struct sentinel_search *search, struct buffer *out)
{
    redis_request_command(out, "SENTINEL", "get-master-addr-by-name", search->master);
}

static bool is_address(const struct redis_reply *reply)
{
    return reply->kind == REDIS_ARRAY && reply->count == 2 && reply->elements[0].kind == REDIS_STRING &&
           reply->elements[1].kind == REDIS_STRING;
}

static bool address_take(struct sentinel_search *search, const struct redis_reply *reply)
{
    if (!is_address(reply) ||
        !redis_host_copy(search->master_host, reply->elements[0].bytes, reply->elements[0].length))
        return false;
    search->master_port = redis_port_parse(reply->elements[1].bytes, reply->elements[1].length);
    return search->master_port != 0;
}

bool sentinel_take(struct sentinel_search *search, const struct redis_reply *reply, char reason[SENTINEL_REASON_MAX])
{
    search->found = address_take(search, reply);
    if (search->found) {
        search->items[search->next].is_told = false;
        move_to_front(search, search->next);
        return true;
    }
    if (reply->kind == REDIS_NIL)
        snprintf(reason, SENTINEL_REASON_MAX, "knows no master called \"%.60s\"", search->master);
    else if (reply->kind == REDIS_FAILURE)
        snprintf(reason, SENTINEL_REASON_MAX, "refused: %.120s", reply->bytes);
    else
        snprintf(reason, SENTINEL_REASON_MAX, "did not answer with an address");
    return false;
}
