#include "worker/commands/waiting_lists.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/waiting.h"
#include "worker/commands/lock_waiters.h"

/* As many places as waiting_list.lua looks through for the oldest that is parked. */
enum { LISTS_AT_ONCE = 100, PLACES_LOOKED_AT = 128 };

static void list_name(struct waiting_list *list)
{
    static const char *const kinds[] = {"resource", "class"};
    list->kind = "";
    list->name = list->list;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t length = strlen(kinds[i]);
        if (strncmp(list->list, kinds[i], length) != 0 || list->list[length] != ':')
            continue;
        list->kind = kinds[i];
        list->name = list->list + length + 1;
    }
}

/* Whoever may write to the node may have put anything there. */
static bool is_list_name(const struct redis_reply *name)
{
    return name->bytes != NULL && name->length <= WAITING_LIST_BYTES_MAX && strlen(name->bytes) == name->length;
}

static int names_read(struct waiting_lists *lists, struct console *console)
{
    char last[24];
    snprintf(last, sizeof last, "%d", WAITING_LISTS_MAX);
    inquiry_begin(console->inquiry);
    inquiry_ask(console->inquiry, "ZRANGE", console->keys.contended, "0", last, NULL);
    int code = console_run(console);
    if (code != EXIT_CODE_OK)
        return code;
    const struct redis_reply *reply = inquiry_reply_of(console->inquiry, 0, REDIS_ARRAY);
    lists->is_clash = reply == NULL;
    size_t count = reply != NULL ? reply->count : 0;
    lists->is_cut = count > WAITING_LISTS_MAX;
    lists->items = memory_zeroed(count + 1, sizeof *lists->items);
    for (size_t i = 0; i < count && i < WAITING_LISTS_MAX; i++) {
        if (!is_list_name(&reply->elements[i]))
            continue;
        struct waiting_list *list = &lists->items[lists->count++];
        list->list = memory_text_of(reply->elements[i].bytes, reply->elements[i].length);
        list_name(list);
    }
    return code;
}

static int by_length(const void *a, const void *b)
{
    const struct waiting_list *left = a, *right = b;
    if (left->waiters != right->waiters)
        return left->waiters < right->waiters ? 1 : -1;
    return strcmp(left->list, right->list);
}

/* The caller adds the rest. */
static struct buffer *request_begin(struct console *console, size_t parts, const char *command, const char *prefix,
                                    const struct waiting_list *list)
{
    struct buffer *request = inquiry_compose(console->inquiry);
    redis_request_begin(request, parts);
    redis_request_text(request, command);
    queue_keys_request(prefix, list->list, request);
    return request;
}

/* How many have a place. The jids at the front become the caller's, one reply a list. */
static int places_count(struct waiting_list *lists, size_t count, struct console *console, struct redis_reply **jids)
{
    inquiry_begin(console->inquiry);
    for (size_t i = 0; i < count; i++) {
        request_begin(console, 2, "ZCARD", console->keys.waiting_prefix, &lists[i]);
        struct buffer *request = request_begin(console, 4, "ZRANGE", console->keys.waiting_prefix, &lists[i]);
        redis_request_integer(request, 0);
        redis_request_integer(request, PLACES_LOOKED_AT - 1);
    }
    int code = console_run(console);
    for (size_t i = 0; code == EXIT_CODE_OK && i < count; i++) {
        lists[i].waiters = inquiry_integer(console->inquiry, 2 * i, 0);
        jids[i] = inquiry_take(console->inquiry, 2 * i + 1);
    }
    return code;
}

static bool is_parked(const struct redis_reply *place)
{
    struct lock_waiter waiter = {.state = LOCK_WAITER_UNKNOWN};
    if (place->kind == REDIS_STRING)
        lock_waiter_read(&waiter, place->bytes, place->length);
    free(waiter.queue);
    free(waiter.class_name);
    return waiter.state == LOCK_WAITER_PARKED;
}

/* Those behind the front are taken for parked. So is for some seconds one that another program put into its queue. */
static int places_read(struct waiting_list *lists, size_t count, struct console *console, struct redis_reply **jids)
{
    inquiry_begin(console->inquiry);
    for (size_t i = 0; i < count; i++) {
        size_t total = jids[i]->kind == REDIS_ARRAY ? jids[i]->count : 0;
        struct buffer *request = request_begin(console, 3 + total, "HMGET", console->keys.places_prefix, &lists[i]);
        for (size_t j = 0; j < total; j++)
            redis_request_bytes(request, jids[i]->elements[j].bytes, jids[i]->elements[j].length);
        redis_request_text(request, ""); /* nobody's place: a request that names none is an error */
    }
    int code = console_run(console);
    for (size_t i = 0; code == EXIT_CODE_OK && i < count; i++) {
        const struct redis_reply *places = inquiry_reply_of(console->inquiry, i, REDIS_ARRAY);
        for (size_t j = 0; places != NULL && j + 1 < places->count; j++)
            lists[i].waiters -= !is_parked(&places->elements[j]);
    }
    return code;
}

static int lengths_read(struct waiting_lists *lists, struct console *console)
{
    int code = EXIT_CODE_OK;
    for (size_t from = 0; code == EXIT_CODE_OK && from < lists->count; from += LISTS_AT_ONCE) {
        struct redis_reply *jids[LISTS_AT_ONCE] = {NULL};
        size_t count = lists->count - from < LISTS_AT_ONCE ? lists->count - from : LISTS_AT_ONCE;
        code = places_count(&lists->items[from], count, console, jids);
        if (code == EXIT_CODE_OK)
            code = places_read(&lists->items[from], count, console, jids);
        for (size_t i = 0; i < count; i++)
            free(jids[i]);
    }
    return code;
}

/* A list in which nobody waits, or that is none at all. */
static void empty_drop(struct waiting_lists *lists)
{
    size_t kept = 0;
    for (size_t i = 0; i < lists->count; i++)
        if (lists->items[i].waiters > 0)
            lists->items[kept++] = lists->items[i];
        else
            free(lists->items[i].list);
    lists->count = kept;
    if (kept > 0)
        qsort(lists->items, kept, sizeof *lists->items, by_length);
}

int waiting_lists_read(struct waiting_lists *lists, struct console *console)
{
    *lists = (struct waiting_lists){.count = 0};
    int code = names_read(lists, console);
    if (code == EXIT_CODE_OK)
        code = lengths_read(lists, console);
    empty_drop(lists);
    return code;
}

long long waiting_lists_total(const struct waiting_lists *lists)
{
    long long total = 0;
    for (size_t i = 0; i < lists->count; i++)
        total += lists->items[i].waiters;
    return total;
}

void waiting_lists_free(struct waiting_lists *lists)
{
    for (size_t i = 0; i < lists->count; i++)
        free(lists->items[i].list);
    free(lists->items);
    *lists = (struct waiting_lists){.count = 0};
}
