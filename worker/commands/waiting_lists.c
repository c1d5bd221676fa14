#include "worker/commands/waiting_lists.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/real.h"
#include "queue/waiting.h"
#include "worker/print/human.h"

enum { ASKED_AT_ONCE = 1000, WAITER_PARTS = 5, TAKEN_ON_ITS_WAY_S = 10 };

/* --- a waiter ----------------------------------------------------------------------------------------------------- */

static bool part_fits(const char *part, size_t length, size_t size, const char *allowed)
{
    return length < size && strspn(part, allowed) >= length;
}

void lock_waiter_read(struct lock_waiter *waiter, const char *text, size_t length)
{
    const char *part[WAITER_PARTS], *at = text, *end = text + length;
    size_t size[WAITER_PARTS];
    waiter->state = LOCK_WAITER_UNKNOWN;
    for (unsigned i = 0; i < WAITER_PARTS; i++) {
        const char *newline = i + 1 < WAITER_PARTS ? memchr(at, '\n', (size_t)(end - at)) : end;
        if (newline == NULL)
            return;
        part[i] = at;
        size[i] = (size_t)(newline - at);
        at = newline + (newline < end);
    }
    if (size[0] == 0 || !part_fits(part[0], size[0], sizeof waiter->due_text, "0123456789.") ||
        !part_fits(part[1], size[1], sizeof waiter->digest, "0123456789abcdef"))
        return;
    memcpy(waiter->due_text, part[0], size[0]);
    waiter->due_text[size[0]] = '\0';
    memcpy(waiter->digest, part[1], size[1]);
    waiter->digest[size[1]] = '\0';
    free(waiter->queue);
    free(waiter->class_name);
    waiter->queue = memory_text_of(part[2], size[2]);
    waiter->class_name = memory_text_of(part[4], size[4]);
    waiter->due = wall_read(waiter->due_text);
    waiter->state = waiter->digest[0] == '\0' ? LOCK_WAITER_ON_WAY : LOCK_WAITER_PARKED;
}

/* As long as waiting_list.lua waits for it. */
void lock_waiter_gone(struct lock_waiter *waiter, struct wall_time now)
{
    bool may_come = waiter->due.us <= now.us && now.us - waiter->due.us < TAKEN_ON_ITS_WAY_S * US_PER_S;
    waiter->state = may_come ? LOCK_WAITER_ON_WAY : LOCK_WAITER_VANISHED;
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

static void jids_read(struct lock_waiters *waiters, struct console *console, const char *list, size_t limit)
{
    char last[24];
    const char *key = console_key(console, console->keys.waiting_prefix, list);
    snprintf(last, sizeof last, "%lld", (long long)limit - 1);
    node_client_begin(console->client);
    node_client_ask(console->client, "ZCARD", key, NULL);
    node_client_ask(console->client, "ZRANGE", key, "0", last, NULL);
    console_run(console);
    const struct redis_reply *jids = node_client_reply(console->client, 1);
    waiters->total = node_client_integer(console->client, 0, -1);
    if (waiters->total < 0 || jids->kind != REDIS_ARRAY) {
        console_refuse(console, 0);
        return;
    }
    waiters->items = memory_zeroed(jids->count + 1, sizeof *waiters->items);
    for (size_t i = 0; i < jids->count && limit > 0; i++)
        waiters->items[waiters->count++] = (struct lock_waiter){.jid = memory_text(jids->elements[i].bytes),
                                                                .queue = memory_text(""),
                                                                .class_name = memory_text(""),
                                                                .state = LOCK_WAITER_UNKNOWN};
}

static void records_read(struct lock_waiters *waiters, size_t from, size_t to, struct console *console,
                         const char *list)
{
    node_client_begin(console->client);
    struct buffer *request = node_client_compose(console->client);
    redis_request_begin(request, 2 + to - from);
    redis_request_text(request, "HMGET");
    redis_request_text(request, console_key(console, console->keys.waiters_prefix, list));
    for (size_t i = from; i < to; i++)
        redis_request_text(request, waiters->items[i].jid);
    console_run(console);
    const struct redis_reply *records = node_client_reply(console->client, 0);
    for (size_t i = from; records->kind == REDIS_ARRAY && i < to && i - from < records->count; i++)
        if (records->elements[i - from].kind == REDIS_STRING)
            lock_waiter_read(&waiters->items[i], records->elements[i - from].bytes, records->elements[i - from].length);
}

/* Times in `schedule` are unique where tasks are parked, so a number says as much as the tasks, which may be large. */
static void schedule_look(struct lock_waiters *waiters, size_t from, size_t to, struct console *console)
{
    node_client_begin(console->client);
    for (size_t i = from; i < to; i++) {
        const char *due = waiters->items[i].state == LOCK_WAITER_PARKED ? waiters->items[i].due_text : "0";
        node_client_ask(console->client, "ZCOUNT", console->keys.schedule, due, due, NULL);
    }
    console_run(console);
    for (size_t i = from; i < to; i++)
        if (waiters->items[i].state == LOCK_WAITER_PARKED && node_client_integer(console->client, i - from, 0) == 0)
            lock_waiter_gone(&waiters->items[i], console->now);
}

int lock_waiters_read(struct lock_waiters *waiters, struct console *console, const char *list, size_t limit)
{
    *waiters = (struct lock_waiters){.items = NULL};
    jids_read(waiters, console, list, limit);
    for (size_t from = 0; from < waiters->count; from += ASKED_AT_ONCE) {
        size_t to = waiters->count - from < ASKED_AT_ONCE ? waiters->count : from + ASKED_AT_ONCE;
        records_read(waiters, from, to, console, list);
        schedule_look(waiters, from, to, console);
    }
    return console->code;
}

void lock_waiters_free(struct lock_waiters *waiters)
{
    for (size_t i = 0; i < waiters->count; i++) {
        free(waiters->items[i].jid);
        free(waiters->items[i].queue);
        free(waiters->items[i].class_name);
    }
    free(waiters->items);
    *waiters = (struct lock_waiters){.items = NULL};
}

void lock_waiters_request_free(const struct console *console, const char *list, struct buffer *out)
{
    waiting_request_free(&console->keys, &(struct waiting_end){.lists = &list, .list_count = 1}, out);
}

/* --- how it is shown ---------------------------------------------------------------------------------------------- */

static const char *state_name(enum lock_waiter_state state)
{
    static const char *const names[] = {[LOCK_WAITER_PARKED] = "parked",
                                        [LOCK_WAITER_ON_WAY] = "on its way",
                                        [LOCK_WAITER_VANISHED] = "vanished",
                                        [LOCK_WAITER_UNKNOWN] = "unknown"};
    return names[state];
}

void lock_waiters_put(const struct lock_waiters *waiters, struct printer *out)
{
    char human[HUMAN_TEXT_MAX];
    printer_number(out, NULL, "waiting", waiters->total);
    if (waiters->total > 0)
        printer_line(out, "%s task%s wait%s for it:", human_count(waiters->total, human), human_plural(waiters->total),
                     waiters->total == 1 ? "s" : "");
    printer_list(out, "waiters");
    for (size_t i = 0; i < waiters->count; i++) {
        const struct lock_waiter *waiter = &waiters->items[i];
        bool is_known = waiter->state != LOCK_WAITER_UNKNOWN;
        printer_row(out);
        printer_number(out, ">POSITION", NULL, (int64_t)i + 1);
        printer_text(out, "JID", "jid", waiter->jid);
        printer_text(out, "CLASS", "class", is_known ? waiter->class_name : NULL);
        printer_text(out, "QUEUE", "queue", is_known ? waiter->queue : NULL);
        printer_text(out, "STATE", "state", state_name(waiter->state));
        printer_style(out, waiter->state == LOCK_WAITER_PARKED ? TABLE_PLAIN : TABLE_WARN);
        printer_moment(out, ".>LOOKS AGAIN", "at", is_known ? waiter->due : (struct wall_time){0});
        printer_row_end(out);
    }
    printer_list_end(out, waiters->total == 0 ? "No task waits for it." : NULL);
    if (waiters->total > (long long)waiters->count)
        printer_line(out, "and %s more: say --limit", human_count(waiters->total - (long long)waiters->count, human));
}

/* --- all lists ---------------------------------------------------------------------------------------------------- */

/* As many waiters as waiting_list.lua looks through for the oldest that is parked. */
enum { LISTS_AT_ONCE = 100, WAITERS_LOOKED_AT = 128 };

static void list_name(struct waiting_list *list)
{
    static const char *const kinds[] = {"resource", "seats", "class"};
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

/* Any client of the node may have put anything there. */
static bool is_list_name(const struct redis_reply *name)
{
    return name->bytes != NULL && name->length <= WAITING_LIST_BYTES_MAX && strlen(name->bytes) == name->length;
}

static void names_read(struct waiting_lists *lists, struct console *console)
{
    char last[24];
    snprintf(last, sizeof last, "%d", WAITING_LISTS_MAX);
    const struct redis_reply *reply = console_ask(console, "ZRANGE", console->keys.contended, "0", last, NULL);
    lists->is_clash = reply->kind != REDIS_ARRAY;
    size_t count = reply->kind == REDIS_ARRAY ? reply->count : 0;
    lists->is_cut = count > WAITING_LISTS_MAX;
    lists->items = memory_zeroed(count + 1, sizeof *lists->items);
    for (size_t i = 0; i < count && i < WAITING_LISTS_MAX; i++) {
        if (!is_list_name(&reply->elements[i]))
            continue;
        struct waiting_list *list = &lists->items[lists->count++];
        list->list = memory_text_of(reply->elements[i].bytes, reply->elements[i].length);
        list_name(list);
    }
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
    struct buffer *request = node_client_compose(console->client);
    redis_request_begin(request, parts);
    redis_request_text(request, command);
    queue_keys_request(prefix, list->list, request);
    return request;
}

/* How many are in each. The jids at the front become the caller's, one reply a list. */
static void waiters_count(struct waiting_list *lists, size_t count, struct console *console, struct redis_reply **jids)
{
    node_client_begin(console->client);
    for (size_t i = 0; i < count; i++) {
        request_begin(console, 2, "ZCARD", console->keys.waiting_prefix, &lists[i]);
        struct buffer *request = request_begin(console, 4, "ZRANGE", console->keys.waiting_prefix, &lists[i]);
        redis_request_integer(request, 0);
        redis_request_integer(request, WAITERS_LOOKED_AT - 1);
    }
    console_run(console);
    for (size_t i = 0; i < count; i++) {
        lists[i].waiters = node_client_integer(console->client, 2 * i, 0);
        jids[i] = node_client_take(console->client, 2 * i + 1);
    }
}

static bool is_parked(const struct redis_reply *record)
{
    struct lock_waiter waiter = {.state = LOCK_WAITER_UNKNOWN};
    if (record->kind == REDIS_STRING)
        lock_waiter_read(&waiter, record->bytes, record->length);
    free(waiter.queue);
    free(waiter.class_name);
    return waiter.state == LOCK_WAITER_PARKED;
}

/* Those behind the front are taken for parked. So is for some seconds one that another program put into its queue. */
static void parked_count(struct waiting_list *lists, size_t count, struct console *console, struct redis_reply **jids)
{
    node_client_begin(console->client);
    for (size_t i = 0; i < count; i++) {
        size_t total = jids[i]->kind == REDIS_ARRAY ? jids[i]->count : 0;
        struct buffer *request = request_begin(console, 3 + total, "HMGET", console->keys.waiters_prefix, &lists[i]);
        for (size_t j = 0; j < total; j++)
            redis_request_bytes(request, jids[i]->elements[j].bytes, jids[i]->elements[j].length);
        redis_request_text(request, ""); /* nobody's record: a request that names none is an error */
    }
    console_run(console);
    for (size_t i = 0; i < count; i++) {
        const struct redis_reply *records = node_client_reply(console->client, i);
        for (size_t j = 0; records->kind == REDIS_ARRAY && j + 1 < records->count; j++)
            lists[i].waiters -= !is_parked(&records->elements[j]);
    }
}

static void lengths_read(struct waiting_lists *lists, struct console *console)
{
    for (size_t from = 0; from < lists->count; from += LISTS_AT_ONCE) {
        struct redis_reply *jids[LISTS_AT_ONCE] = {NULL};
        size_t count = lists->count - from < LISTS_AT_ONCE ? lists->count - from : LISTS_AT_ONCE;
        waiters_count(&lists->items[from], count, console, jids);
        parked_count(&lists->items[from], count, console, jids);
        for (size_t i = 0; i < count; i++)
            free(jids[i]);
    }
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
    names_read(lists, console);
    lengths_read(lists, console);
    empty_drop(lists);
    return console->code;
}

long long waiting_lists_total(const struct waiting_lists *lists)
{
    long long total = 0;
    for (size_t i = 0; i < lists->count; i++)
        total += lists->items[i].waiters;
    return total;
}

void waiting_lists_put(const struct waiting_lists *lists, size_t most, struct printer *out)
{
    printer_unknown(out, "?");
    for (size_t i = 0; i < lists->count && i < most; i++) {
        printer_row(out);
        printer_text(out, "WAITING FOR", "for", printer_known(lists->items[i].kind));
        printer_name(out, "NAME", "name", lists->items[i].name);
        printer_count(out, ">TASKS", "tasks", lists->items[i].waiters);
        printer_row_end(out);
    }
}

void waiting_lists_free(struct waiting_lists *lists)
{
    for (size_t i = 0; i < lists->count; i++)
        free(lists->items[i].list);
    free(lists->items);
    *lists = (struct waiting_lists){.count = 0};
}
