/* Sets and queues; task_claims.c has the claims. */
#include "worker/commands/task_walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/real.h"

static const char *const place_names[TASK_PLACES] = {[TASK_IN_QUEUE] = "queue",
                                                     [TASK_IN_SCHEDULE] = "schedule",
                                                     [TASK_IN_RETRY] = "retry",
                                                     [TASK_IN_DEAD] = "dead",
                                                     [TASK_IN_CLAIMS] = "claims"};

const char *task_place_name(enum task_place place)
{
    return place_names[place];
}

bool task_place_parse(const char *name, enum task_place *place)
{
    for (int i = 0; i < TASK_PLACES; i++)
        if (strcmp(name, place_names[i]) == 0) {
            *place = (enum task_place)i;
            return true;
        }
    return false;
}

const char *task_place_key(const struct console *console, enum task_place place)
{
    return place == TASK_IN_SCHEDULE ? console->keys.schedule
           : place == TASK_IN_RETRY  ? console->keys.retry
                                     : console->keys.dead;
}

/* --- the page --------------------------------------------------------------------------------------------------- */

struct task_entry *task_walk_add(struct task_walk *walk)
{
    if (walk->count == walk->capacity) {
        walk->capacity = walk->capacity * 2 + 64;
        walk->entries = memory_resize(walk->entries, walk->capacity, sizeof *walk->entries);
    }
    struct task_entry *entry = &walk->entries[walk->count++];
    *entry = (struct task_entry){.place = walk->place, .scheme = 2};
    return entry;
}

const struct redis_reply *task_walk_keep(struct task_walk *walk, struct redis_reply *reply)
{
    walk->replies = memory_resize(walk->replies, walk->reply_count + 1, sizeof *walk->replies);
    walk->replies[walk->reply_count++] = reply;
    return reply;
}

char *task_walk_keep_name(struct task_walk *walk, const char *prefix, const char *name, const char *end)
{
    struct buffer text = {0};
    buffer_format(&text, "%s%s%s", prefix, name, end);
    walk->names = memory_resize(walk->names, walk->name_count + 1, sizeof *walk->names);
    walk->names[walk->name_count] = memory_text(buffer_text(&text));
    buffer_fini(&text);
    return walk->names[walk->name_count++];
}

static void page_clear(struct task_walk *walk)
{
    for (size_t i = 0; i < walk->reply_count; i++)
        free(walk->replies[i]);
    for (size_t i = 0; i < walk->name_count; i++)
        free(walk->names[i]);
    walk->count = walk->reply_count = walk->name_count = 0;
}

static int wrong_kind(struct task_walk *walk, const char *key)
{
    char quoted[LOG_QUOTE_MAX];
    const struct redis_reply *reply = inquiry_reply(walk->console->inquiry, 0);
    return console_complain(walk->console, "%s: %s", log_quote(key, quoted),
                            reply->kind == REDIS_FAILURE ? reply->bytes : "an answer of an unexpected kind");
}

/* --- sets ------------------------------------------------------------------------------------------------------- */

static bool set_begin(struct task_walk *walk, const char *cursor, struct error *error)
{
    snprintf(walk->from, sizeof walk->from, "%s", walk->place == TASK_IN_DEAD ? "+inf" : "-inf");
    if (cursor == NULL)
        return true;
    const char *plus = strrchr(cursor, '+');
    char *after = NULL;
    size_t length = plus != NULL ? (size_t)(plus - cursor) : 0;
    if (length == 0 || length >= sizeof walk->from || plus[1] < '0' || plus[1] > '9')
        return error_set(error, "\"%s\" is no cursor of a set, which looks like 1795194409.25+1", cursor);
    memcpy(walk->from, cursor, length);
    walk->from[length] = '\0';
    double score = real_read(walk->from, &after);
    if (*after != '\0' || isnan(score))
        return error_set(error, "\"%s\" is no cursor of a set, which looks like 1795194409.25+1", cursor);
    walk->skip = strtoull(plus + 1, &after, 10);
    return *after == '\0' || error_set(error, "\"%s\" is no cursor of a set", cursor);
}

static int set_next(struct task_walk *walk, size_t limit)
{
    char skip[32], count[32];
    const char *key = task_place_key(walk->console, walk->place);
    bool falls = walk->place == TASK_IN_DEAD;
    snprintf(skip, sizeof skip, "%llu", walk->skip);
    snprintf(count, sizeof count, "%zu", limit);
    inquiry_begin(walk->console->inquiry);
    inquiry_ask(walk->console->inquiry, falls ? "ZREVRANGEBYSCORE" : "ZRANGEBYSCORE", key, walk->from,
                falls ? "-inf" : "+inf", "WITHSCORES", "LIMIT", skip, count, NULL);
    int code = console_run(walk->console);
    if (code != EXIT_CODE_OK)
        return code;
    if (inquiry_reply_of(walk->console->inquiry, 0, REDIS_ARRAY) == NULL)
        return wrong_kind(walk, key);
    const struct redis_reply *reply = task_walk_keep(walk, inquiry_take(walk->console->inquiry, 0));
    for (size_t i = 0; i + 1 < reply->count; i += 2) {
        const struct redis_reply *task = &reply->elements[i];
        struct task_entry *entry = task_walk_add(walk);
        entry->seen = entry->task = (struct text_span){task->bytes, task->length};
        entry->score = reply->elements[i + 1].bytes;
    }
    walk->was_short = walk->count < limit;
    return code;
}

static void set_advance(struct task_walk *walk, size_t seen)
{
    for (size_t i = 0; i < seen; i++) {
        const struct task_entry *entry = &walk->entries[i];
        if (strcmp(entry->score, walk->from) != 0) {
            snprintf(walk->from, sizeof walk->from, "%s", entry->score);
            walk->skip = 0;
        }
        walk->skip += !entry->was_removed;
    }
    walk->is_over = walk->was_short && seen == walk->count;
}

/* --- queues ----------------------------------------------------------------------------------------------------- */

static bool list_begin(struct task_walk *walk, const char *cursor, struct error *error)
{
    char *after = NULL;
    walk->at = -1;
    walk->length = -1;
    if (cursor == NULL)
        return true;
    walk->at = strtoll(cursor, &after, 10);
    if (cursor[0] < '0' || cursor[0] > '9' || *after != '\0' || walk->at < 0)
        return error_set(error, "\"%s\" is no cursor of a queue, which is a number", cursor);
    return true;
}

static int list_measure(struct task_walk *walk, const char *key)
{
    inquiry_begin(walk->console->inquiry);
    inquiry_ask(walk->console->inquiry, "LLEN", key, NULL);
    int code = console_run(walk->console);
    if (code != EXIT_CODE_OK)
        return code;
    walk->length = inquiry_integer(walk->console->inquiry, 0, -1);
    if (walk->length < 0)
        return wrong_kind(walk, key);
    if (walk->at < 0 || walk->at >= walk->length)
        walk->at = walk->length - 1;
    return code;
}

static int list_next(struct task_walk *walk, size_t limit)
{
    char first[32], last[32];
    const char *key = task_walk_keep_name(walk, walk->console->keys.queue_prefix, walk->queue, "");
    int code = walk->length < 0 ? list_measure(walk, key) : EXIT_CODE_OK;
    walk->start = walk->at < (long long)limit ? 0 : walk->at - (long long)limit + 1;
    if (code != EXIT_CODE_OK || walk->at < 0)
        return code;
    snprintf(first, sizeof first, "%lld", walk->start);
    snprintf(last, sizeof last, "%lld", walk->at);
    inquiry_begin(walk->console->inquiry);
    inquiry_ask(walk->console->inquiry, "LRANGE", key, first, last, NULL);
    code = console_run(walk->console);
    if (code != EXIT_CODE_OK)
        return code;
    if (inquiry_reply_of(walk->console->inquiry, 0, REDIS_ARRAY) == NULL)
        return wrong_kind(walk, key);
    const struct redis_reply *reply = task_walk_keep(walk, inquiry_take(walk->console->inquiry, 0));
    for (size_t i = reply->count; i-- > 0;) {
        const struct redis_reply *task = &reply->elements[i];
        struct task_entry *entry = task_walk_add(walk);
        entry->seen = entry->task = (struct text_span){task->bytes, task->length};
        entry->queue = walk->queue;
        entry->key = key;
        entry->index = walk->start + (long long)i;
        entry->position = walk->length - entry->index;
    }
    return code;
}

static void list_advance(struct task_walk *walk, size_t seen)
{
    if (seen < walk->count && seen > 0)
        walk->at = walk->entries[seen - 1].index - 1;
    else if (seen == walk->count)
        walk->at = walk->start - 1;
    walk->is_over = walk->at < 0;
}

/* --- any place -------------------------------------------------------------------------------------------------- */

bool task_walk_begin(struct task_walk *walk, struct console *console, enum task_place place, const char *queue,
                     const char *cursor, struct error *error)
{
    *walk = (struct task_walk){.console = console, .place = place};
    if (queue != NULL)
        walk->queue = memory_text(queue);
    if (task_place_is_set(place))
        return set_begin(walk, cursor, error);
    return place == TASK_IN_QUEUE ? list_begin(walk, cursor, error) : task_claims_begin(walk, cursor, error);
}

int task_walk_next(struct task_walk *walk, size_t limit)
{
    page_clear(walk);
    if (task_place_is_set(walk->place))
        return set_next(walk, limit);
    return walk->place == TASK_IN_QUEUE ? list_next(walk, limit) : task_claims_next(walk, limit);
}

void task_walk_advance(struct task_walk *walk, size_t seen)
{
    if (task_place_is_set(walk->place))
        set_advance(walk, seen);
    else if (walk->place == TASK_IN_QUEUE)
        list_advance(walk, seen);
    else
        task_claims_advance(walk);
}

void task_walk_cursor(const struct task_walk *walk, struct buffer *out)
{
    if (walk->is_over)
        return;
    if (task_place_is_set(walk->place))
        buffer_format(out, "%s+%llu", walk->from, walk->skip);
    else if (walk->place == TASK_IN_QUEUE)
        buffer_format(out, "%lld", walk->at);
    else
        task_claims_cursor(walk, out);
}

void task_walk_end(struct task_walk *walk)
{
    page_clear(walk);
    task_claims_end(walk);
    free(walk->entries);
    free(walk->replies);
    free(walk->names);
    free(walk->queue);
}
