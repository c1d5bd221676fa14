/* Names first, in bounded pieces; then length, oldest task and pause of each, in one pipeline for a hundred. */
#include "worker/commands/backlog.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "worker/commands/task_view.h"

enum { ASKED_AT_ONCE = 100, ASKED_OF_EACH = 3, NAME_MAX_SHOWN = 512 };

/* SSCAN may tell a name twice, and both sets may have it: names_settle sees to that. */
static void name_add(struct backlog *backlog, const struct redis_reply *name, bool is_listed)
{
    if (name->length > NAME_MAX_SHOWN) {
        backlog->long_names++;
        return;
    }
    if (backlog->count == backlog->capacity) {
        backlog->capacity = 2 * backlog->capacity + 64;
        backlog->items = memory_resize(backlog->items, backlog->capacity, sizeof *backlog->items);
    }
    backlog->items[backlog->count++] = (struct backlog_queue){.name = memory_text(name->bytes), .is_listed = is_listed};
}

static int by_name(const void *a, const void *b)
{
    const struct backlog_queue *left = a, *right = b;
    return strcmp(left->name, right->name);
}

static void names_settle(struct backlog *backlog)
{
    size_t kept = 0;
    if (backlog->count > 0)
        qsort(backlog->items, backlog->count, sizeof *backlog->items, by_name);
    for (size_t i = 0; i < backlog->count; i++) {
        struct backlog_queue *queue = &backlog->items[i], *before = kept > 0 ? &backlog->items[kept - 1] : NULL;
        if (before == NULL || strcmp(before->name, queue->name) != 0) {
            backlog->items[kept++] = *queue;
            continue;
        }
        before->is_listed |= queue->is_listed;
        free(queue->name);
    }
    backlog->count = kept;
}

/* A key that holds something else is not the end: the rest can still be shown. */
static void names_read(struct backlog *backlog, struct console *console, bool is_listed)
{
    const char *key = is_listed ? console->keys.queues : console->keys.paused;
    bool *is_known = is_listed ? &backlog->knows_listed : &backlog->knows_paused;
    char cursor[32] = "0";
    do {
        const struct redis_reply *reply = console_ask(console, "SSCAN", key, cursor, "COUNT", "500", NULL);
        *is_known = reply->kind == REDIS_ARRAY && reply->count == 2;
        if (!*is_known)
            break;
        snprintf(cursor, sizeof cursor, "%s", reply->elements[0].bytes);
        for (size_t i = 0; i < reply->elements[1].count; i++)
            name_add(backlog, &reply->elements[1].elements[i], is_listed);
    } while (strcmp(cursor, "0") != 0 && backlog->count < BACKLOG_MAX);
    backlog->is_cut |= strcmp(cursor, "0") != 0;
}

static void ask_about(struct console *console, const char *name)
{
    const char *key = console_key(console, console->keys.queue_prefix, name);
    node_client_ask(console->client, "LLEN", key, NULL);
    node_client_ask(console->client, "LINDEX", key, "-1", NULL);
    node_client_ask(console->client, "SISMEMBER", console->keys.paused, name, NULL);
}

static int64_t latency_of(const struct redis_reply *oldest, struct wall_time now)
{
    struct task_view view = {0};
    if (oldest->kind == REDIS_NIL)
        return 0;
    if (oldest->kind != REDIS_STRING)
        return -1;
    task_view_read(&view, oldest->bytes, oldest->length);
    struct wall_time since = task_view_since(&view);
    task_view_fini(&view);
    if (since.us == 0)
        return -1;
    return since.us < now.us ? now.us - since.us : 0;
}

static void details_read(struct backlog *backlog, struct console *console)
{
    for (size_t from = 0; from < backlog->count; from += ASKED_AT_ONCE) {
        size_t to = backlog->count - from < ASKED_AT_ONCE ? backlog->count : from + ASKED_AT_ONCE;
        node_client_begin(console->client);
        for (size_t i = from; i < to; i++)
            ask_about(console, backlog->items[i].name);
        console_run(console);
        for (size_t i = from; i < to; i++) {
            struct backlog_queue *queue = &backlog->items[i];
            size_t at = (i - from) * ASKED_OF_EACH;
            queue->length = node_client_integer(console->client, at, -1);
            queue->latency_us = latency_of(node_client_reply(console->client, at + 1), console->now);
            queue->is_paused = node_client_integer(console->client, at + 2, 0) == 1;
        }
    }
}

#define GROWTH_US (60 * US_PER_S)

/* Of a queue whose oldest task has waited for a minute, nothing that was pushed within the minute was taken. So it
 * grows when there is more of that than the fleet did in a minute: clearly more, because both numbers vary. The task in
 * the task at that position shows it. */
void backlog_growth_read(struct backlog *backlog, struct console *console, long long done)
{
    long long more = done + done / 10 + 10;
    char position[24];
    snprintf(position, sizeof position, "%lld", more - 1);
    node_client_begin(console->client);
    for (size_t i = 0; done >= 0 && i < backlog->count; i++) {
        struct backlog_queue *queue = &backlog->items[i];
        if (queue->is_paused || queue->latency_us <= GROWTH_US || queue->length < more)
            continue;
        node_client_ask(console->client, "LINDEX", console_key(console, console->keys.queue_prefix, queue->name),
                        position, NULL);
        queue->pushed_lately = more;
    }
    console_run(console);
    for (size_t i = 0, asked = 0; i < backlog->count; i++) {
        struct backlog_queue *queue = &backlog->items[i];
        if (queue->pushed_lately == 0)
            continue;
        const struct redis_reply *task = node_client_reply(console->client, asked++);
        int64_t waited_us = task->kind == REDIS_STRING ? latency_of(task, console->now) : -1;
        if (waited_us < 0 || waited_us > GROWTH_US)
            queue->pushed_lately = 0;
    }
}

int backlog_read(struct backlog *backlog, struct console *console)
{
    *backlog = (struct backlog){.count = 0};
    names_read(backlog, console, true);
    names_read(backlog, console, false);
    names_settle(backlog);
    details_read(backlog, console);
    return console->code;
}

/* What people read beside its numbers; "" when there is nothing. */
static const char *remark_of(const struct backlog *backlog, const struct backlog_queue *queue)
{
    if (queue->length < 0)
        return "its key holds no list";
    if (!backlog->knows_paused)
        return "paused: ?";
    return queue->is_paused ? "paused" : "";
}

void backlog_complain(const struct backlog *backlog, struct console *console)
{
    if (!backlog->knows_listed)
        console_complain(console, "the key %s holds no set: which queues there are is not known", console->keys.queues);
    if (!backlog->knows_paused)
        console_complain(console, "the key %s holds no set: which queues are paused is not known",
                         console->keys.paused);
    backlog_complain_cut(backlog, console);
}

void backlog_complain_cut(const struct backlog *backlog, struct console *console)
{
    if (backlog->is_cut)
        console_complain(console, "there are more queues than the %zu that were looked at", backlog->count);
    if (backlog->long_names > 0)
        console_complain(console,
                         "%zu name%s of more than %d bytes in %s or %s, which can be no queue%s: left out (SREM it)",
                         backlog->long_names, backlog->long_names == 1 ? "" : "s", NAME_MAX_SHOWN, console->keys.queues,
                         console->keys.paused, backlog->long_names == 1 ? "" : "s");
}

void backlog_free(struct backlog *backlog)
{
    for (size_t i = 0; i < backlog->count; i++)
        free(backlog->items[i].name);
    free(backlog->items);
    *backlog = (struct backlog){.count = 0};
}

const struct backlog_queue *backlog_find(const struct backlog *backlog, const char *name)
{
    for (size_t i = 0; i < backlog->count; i++)
        if (strcmp(backlog->items[i].name, name) == 0)
            return &backlog->items[i];
    return NULL;
}

static void servers_put(const struct fleet *fleet, const char *queue, struct printer *out)
{
    size_t servers = fleet_servers(fleet, queue);
    printer_cell(out, ">PROCESSES", servers > 0 ? TABLE_PLAIN : TABLE_WARN, "%zu", servers);
    if (!out->is_json)
        return;
    json_open(&out->json, "served_by", '[');
    for (size_t i = 0; i < fleet->count; i++)
        if (fleet_process_serves(&fleet->items[i], queue))
            json_text(&out->json, NULL, fleet->items[i].identity);
    json_close(&out->json, ']');
}

void backlog_put_rows(const struct backlog *backlog, const struct fleet *fleet, struct printer *out)
{
    printer_unknown(out, "?");
    for (size_t i = 0; i < backlog->count; i++) {
        const struct backlog_queue *queue = &backlog->items[i];
        printer_row(out);
        printer_name(out, "QUEUE:10", "name", queue->name);
        printer_count(out, ">TASKS", "length", queue->length);
        printer_span(out, ">LATENCY:0,1", "latency", queue->latency_us);
        if (out->is_json)
            json_truth_if(&out->json, "paused", backlog->knows_paused, queue->is_paused);
        if (fleet != NULL)
            servers_put(fleet, queue->name, out);
        printer_cell(out, ":6,2", TABLE_WARN, "%s", remark_of(backlog, queue));
        printer_about(out, queue->name);
        printer_row_end(out);
    }
}

void backlog_put(const struct backlog *backlog, const struct fleet *fleet, struct printer *out)
{
    if (out->is_json && !backlog->knows_listed) {
        json_nothing(&out->json, "queues");
        return;
    }
    printer_list(out, "queues");
    backlog_put_rows(backlog, fleet, out);
    printer_list_end(out, backlog->knows_listed ? "no queues" : "queues ?");
}
