#include "redis/sentinel.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "redis/request.h"

enum { PORT_MAX = 65535, PORT_DIGITS = 5 };

/* --- addresses ---------------------------------------------------------------------------------------------- */

/* 0 if the text is no port. */
static unsigned port_parse(const char *text, size_t length)
{
    unsigned port = 0;
    if (length == 0 || length > PORT_DIGITS)
        return 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    return port <= PORT_MAX ? port : 0;
}

static bool host_copy(char host[REDIS_HOST_MAX], const char *text, size_t length)
{
    if (length == 0 || length >= REDIS_HOST_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] >= 0x7f)
            return false;
    memcpy(host, text, length);
    host[length] = '\0';
    return true;
}

bool redis_address_parse(const char *text, char host[REDIS_HOST_MAX], unsigned *port)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL)
        return false;
    size_t length = (size_t)(colon - text);
    bool is_bracketed = length >= 2 && text[0] == '[' && colon[-1] == ']';
    if (!is_bracketed && memchr(text, ':', length) != NULL)
        return false; /* an IPv6 address without brackets is ambiguous */
    *port = port_parse(colon + 1, strlen(colon + 1));
    return *port != 0 && host_copy(host, is_bracketed ? text + 1 : text, is_bracketed ? length - 2 : length);
}

/* --- the list ----------------------------------------------------------------------------------------------- */

void sentinel_search_init(struct sentinel_search *search, const struct redis_sentinels *options)
{
    *search = (struct sentinel_search){.master = options->master, .count = options->count};
    if (options->count == 0)
        return;
    search->items = memory_zeroed(options->count, sizeof *search->items);
    for (size_t i = 0; i < options->count; i++) {
        struct sentinel *sentinel = &search->items[i];
        invariant(redis_address_parse(options->addresses[i], sentinel->host, &sentinel->port));
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
    if (!is_address(reply) || !host_copy(search->master_host, reply->elements[0].bytes, reply->elements[0].length))
        return false;
    search->master_port = port_parse(reply->elements[1].bytes, reply->elements[1].length);
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
