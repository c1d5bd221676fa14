#include "worker/commands/waiting_lists.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/waiting.h"

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

/* A list that is empty, or no list at all, is dropped. */
static int lengths_read(struct waiting_lists *lists, struct console *console)
{
    size_t kept = 0;
    inquiry_begin(console->inquiry);
    for (size_t i = 0; i < lists->count; i++) {
        struct buffer *request = inquiry_compose(console->inquiry);
        redis_request_begin(request, 2);
        redis_request_text(request, "ZCARD");
        queue_keys_request(console->keys.waiting_prefix, lists->items[i].list, request);
    }
    int code = console_run(console);
    if (code != EXIT_CODE_OK)
        return code;
    for (size_t i = 0; i < lists->count; i++) {
        struct waiting_list list = lists->items[i];
        list.waiters = inquiry_integer(console->inquiry, i, 0);
        if (list.waiters > 0)
            lists->items[kept++] = list;
        else
            free(list.list);
    }
    lists->count = kept;
    qsort(lists->items, lists->count, sizeof *lists->items, by_length);
    return code;
}

int waiting_lists_read(struct waiting_lists *lists, struct console *console)
{
    *lists = (struct waiting_lists){.count = 0};
    int code = names_read(lists, console);
    return code == EXIT_CODE_OK ? lengths_read(lists, console) : code;
}

void waiting_lists_free(struct waiting_lists *lists)
{
    for (size_t i = 0; i < lists->count; i++)
        free(lists->items[i].list);
    free(lists->items);
    *lists = (struct waiting_lists){.count = 0};
}
