#include "worker/commands/task_walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/real.h"

static const char *const state_names[TASK_STATES] = {[TASK_IN_QUEUE] = "queue",
                                                     [TASK_IN_SCHEDULE] = "schedule",
                                                     [TASK_IN_RETRY] = "retry",
                                                     [TASK_IN_DEAD] = "dead",
                                                     [TASK_IN_CLAIMS] = "claims"};

const char *task_state_name(enum task_state state)
{
    return state_names[state];
}

bool task_state_parse(const char *name, enum task_state *state)
{
    for (int i = 0; i < TASK_STATES; i++)
        if (strcmp(name, state_names[i]) == 0) {
            *state = (enum task_state)i;
            return true;
        }
    return false;
}

const char *task_state_key(const struct console *console, enum task_state state)
{
    return state == TASK_IN_SCHEDULE ? console->keys.schedule
           : state == TASK_IN_RETRY  ? console->keys.retry
                                     : console->keys.dead;
}

/* --- the page --------------------------------------------------------------------------------------------------- */

static struct task_entry *entry_add(struct task_walk *walk)
{
    if (walk->count == walk->capacity) {
        walk->capacity = walk->capacity * 2 + 64;
        walk->entries = memory_resize(walk->entries, walk->capacity, sizeof *walk->entries);
    }
    struct task_entry *entry = &walk->entries[walk->count++];
    *entry = (struct task_entry){.state = walk->state};
    return entry;
}

static const struct redis_reply *reply_keep(struct task_walk *walk, struct redis_reply *reply)
{
    walk->replies = memory_resize(walk->replies, walk->reply_count + 1, sizeof *walk->replies);
    walk->replies[walk->reply_count++] = reply;
    return reply;
}

static char *name_keep(struct task_walk *walk, const char *prefix, const char *name, const char *end)
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

/* The one reply, which is an array; NULL after a complaint. */
static const struct redis_reply *page_take(struct task_walk *walk, const char *key, const struct redis_reply *reply)
{
    struct console *console = walk->console;
    char quoted[LOG_QUOTE_MAX];
    if (reply->kind == REDIS_ARRAY)
        return reply_keep(walk, node_client_take(console->client, 0));
    if (console->code == EXIT_CODE_OK)
        console->code =
            console_complain(console, "%s: %s", log_quote(key, quoted),
                             reply->kind == REDIS_FAILURE ? reply->bytes : "an answer of an unexpected kind");
    return NULL;
}

/* --- sets ------------------------------------------------------------------------------------------------------- */

static bool set_begin(struct task_walk *walk, const char *cursor, struct error *error)
{
    snprintf(walk->from, sizeof walk->from, "%s", walk->state == TASK_IN_DEAD ? "+inf" : "-inf");
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

static void set_next(struct task_walk *walk, size_t limit)
{
    char skip[32], count[32];
    const char *key = task_state_key(walk->console, walk->state);
    bool falls = walk->state == TASK_IN_DEAD;
    snprintf(skip, sizeof skip, "%llu", walk->skip);
    snprintf(count, sizeof count, "%zu", limit);
    const struct redis_reply *reply =
        page_take(walk, key,
                  console_ask(walk->console, falls ? "ZREVRANGEBYSCORE" : "ZRANGEBYSCORE", key, walk->from,
                              falls ? "-inf" : "+inf", "WITHSCORES", "LIMIT", skip, count, NULL));
    if (reply == NULL)
        return;
    for (size_t i = 0; i + 1 < reply->count; i += 2) {
        const struct redis_reply *task = &reply->elements[i];
        struct task_entry *entry = entry_add(walk);
        entry->seen = entry->task = (struct text_span){task->bytes, task->length};
        entry->score = reply->elements[i + 1].bytes;
    }
    walk->was_short = walk->count < limit;
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

static void list_measure(struct task_walk *walk, const char *key)
{
    const struct redis_reply *length = console_ask(walk->console, "LLEN", key, NULL);
    if (length->kind != REDIS_INTEGER) {
        page_take(walk, key, length);
        return;
    }
    walk->length = length->integer;
    if (walk->at < 0 || walk->at >= walk->length)
        walk->at = walk->length - 1;
}

static void list_next(struct task_walk *walk, size_t limit)
{
    char first[32], last[32];
    const char *key = name_keep(walk, walk->console->keys.queue_prefix, walk->queue, "");
    if (walk->length < 0)
        list_measure(walk, key);
    walk->start = walk->at < (long long)limit ? 0 : walk->at - (long long)limit + 1;
    if (walk->at < 0)
        return;
    snprintf(first, sizeof first, "%lld", walk->start);
    snprintf(last, sizeof last, "%lld", walk->at);
    const struct redis_reply *reply =
        page_take(walk, key, console_ask(walk->console, "LRANGE", key, first, last, NULL));
    if (reply == NULL)
        return;
    for (size_t i = reply->count; i-- > 0;) {
        const struct redis_reply *task = &reply->elements[i];
        struct task_entry *entry = entry_add(walk);
        entry->seen = entry->task = (struct text_span){task->bytes, task->length};
        entry->queue = walk->queue;
        entry->key = key;
        entry->index = walk->start + (long long)i;
        entry->position = walk->length - entry->index;
    }
}

static void list_advance(struct task_walk *walk, size_t seen)
{
    if (seen < walk->count && seen > 0)
        walk->at = walk->entries[seen - 1].index - 1;
    else if (seen == walk->count)
        walk->at = walk->start - 1;
    walk->is_over = walk->at < 0;
}

/* --- claims ------------------------------------------------------------------------------------------------------- */

/* The claims of all processes. These are listed once, in the order of their names; then each page reads whole
 * processes: the hash of its slots in pieces, and the bells of the queues that it served. */

enum { QUEUES_TRIED_MAX = 1000, SLOTS_PAGE = 100 };

struct task_process {
    char *identity;
    bool is_living;
};

/* --- the processes ---------------------------------------------------------------------------------------------- */

static bool claims_begin(struct task_walk *walk, const char *cursor, struct error *error)
{
    if (cursor == NULL)
        return true;
    if (strchr(cursor, ':') == NULL)
        return error_set(error, "\"%s\" is no cursor of claims, which looks like HOST:PID:NONCE", cursor);
    walk->queue = memory_text(cursor); /* the state has no queue: it holds the cursor until the processes are known */
    return true;
}

static void process_add(struct task_walk *walk, const char *identity, bool is_living)
{
    walk->processes = memory_resize(walk->processes, walk->process_count + 1, sizeof *walk->processes);
    walk->processes[walk->process_count++] =
        (struct task_process){.identity = memory_text(identity), .is_living = is_living};
}

static int by_identity(const void *a, const void *b)
{
    const struct task_process *left = a, *right = b;
    return strcmp(left->identity, right->identity);
}

static void cursor_find(struct task_walk *walk)
{
    if (walk->queue == NULL)
        return;
    while (walk->process_at < walk->process_count &&
           strcmp(walk->queue, walk->processes[walk->process_at].identity) >= 0)
        walk->process_at++;
}

static void processes_read(struct task_walk *walk)
{
    const struct console *console = walk->console;
    const struct redis_reply *reply =
        console_ask(walk->console, "ZRANGE", console->keys.processes, "0", "9999", "WITHSCORES", NULL);
    for (size_t i = 0; reply->kind == REDIS_ARRAY && i + 1 < reply->count; i += 2) {
        struct wall_time end = wall_read(reply->elements[i + 1].bytes);
        process_add(walk, reply->elements[i].bytes, end.us >= console->now.us);
    }
    if (walk->process_count > 0)
        qsort(walk->processes, walk->process_count, sizeof *walk->processes, by_identity);
    cursor_find(walk);
}

/* --- the claims of one ------------------------------------------------------------------------------------------ */

static struct task_entry *claim_add(struct task_walk *walk, const struct task_process *process, const char *key)
{
    struct task_entry *entry = entry_add(walk);
    entry->identity = process->identity;
    entry->is_living = process->is_living;
    entry->key = key;
    return entry;
}

static bool is_seen(const struct task_walk *walk, size_t first, const char *slot)
{
    for (size_t i = first; i < walk->count; i++)
        if (walk->entries[i].slot != NULL && strcmp(walk->entries[i].slot, slot) == 0)
            return true;
    return false;
}

/* A slot holds 16 bytes of id, then the queue's name, a newline and the task; or the id alone. */
static void slot_take(struct task_walk *walk, const struct task_process *process, const char *key, size_t first,
                      const struct redis_reply *field, const struct redis_reply *slot)
{
    if (slot->length <= CLAIM_ID_BYTES || field->length == 0 || strspn(field->bytes, "0123456789") != field->length ||
        is_seen(walk, first, field->bytes))
        return;
    const char *name = slot->bytes + CLAIM_ID_BYTES, *end = slot->bytes + slot->length;
    const char *newline = memchr(name, '\n', (size_t)(end - name));
    if (newline == NULL)
        return;
    struct task_entry *entry = claim_add(walk, process, key);
    char *queue = memory_text_of(name, (size_t)(newline - name));
    entry->slot = field->bytes;
    entry->queue = name_keep(walk, "", queue, "");
    entry->seen = (struct text_span){slot->bytes, slot->length};
    entry->task = (struct text_span){newline + 1, (size_t)(end - newline - 1)};
    free(queue);
}

/* Reads the slots; `names` becomes the queues that the process says it serves, one a line. */
static void slots_read(struct task_walk *walk, const struct task_process *process, size_t limit, struct buffer *names)
{
    const char *key = name_keep(walk, walk->console->keys.process_prefix, process->identity, "");
    size_t first = walk->count;
    char cursor[32] = "0", count[32];
    snprintf(count, sizeof count, "%zu", limit < SLOTS_PAGE ? limit : SLOTS_PAGE);
    do {
        if (console_ask(walk->console, "HSCAN", key, cursor, "COUNT", count, NULL)->kind != REDIS_ARRAY) {
            if (!walk->is_sample && walk->console->code == EXIT_CODE_OK)
                console_complain(walk->console, "the key %s holds no hash: what it claimed is not known", key);
            return;
        }
        const struct redis_reply *reply = reply_keep(walk, node_client_take(walk->console->client, 0));
        const struct redis_reply *fields = &reply->elements[1];
        snprintf(cursor, sizeof cursor, "%s", reply->elements[0].bytes);
        for (size_t i = 0; i + 1 < fields->count; i += 2) {
            const char *field = fields->elements[i].bytes, *value = fields->elements[i + 1].bytes;
            bool is_gone = strcmp(field, "gone") == 0 && value[0] != '\0';
            if (is_gone || strcmp(field, "queues") == 0)
                buffer_format(names, "%s\n", value + is_gone);
            else
                slot_take(walk, process, key, first, &fields->elements[i], &fields->elements[i + 1]);
        }
    } while (strcmp(cursor, "0") != 0);
}

/* A bell holds at most one task, for a moment; more only by mistake. */
static void bells_read(struct task_walk *walk, const struct task_process *process, char *names)
{
    struct node_client *client = walk->console->client;
    const struct queue_keys *keys = &walk->console->keys;
    char *queues[QUEUES_TRIED_MAX], *bells[QUEUES_TRIED_MAX], *rest = names;
    size_t count = 0;
    node_client_begin(client);
    for (char *name; (name = strsep(&rest, "\n")) != NULL && count < QUEUES_TRIED_MAX;) {
        if (name[0] == '\0')
            continue;
        char *end = name_keep(walk, ":", name, "");
        queues[count] = end + 1;
        bells[count] = name_keep(walk, keys->any_bell_prefix, process->identity, end);
        node_client_ask(client, "LRANGE", bells[count++], "-10", "-1", NULL);
    }
    console_run(walk->console);
    for (size_t i = 0; i < count; i++) {
        if (node_client_reply_of(client, i, REDIS_ARRAY) == NULL)
            continue;
        const struct redis_reply *reply = reply_keep(walk, node_client_take(client, i));
        for (size_t j = reply->count; j-- > 0;) {
            struct task_entry *entry = claim_add(walk, process, bells[i]);
            entry->queue = queues[i];
            entry->seen = entry->task = (struct text_span){reply->elements[j].bytes, reply->elements[j].length};
        }
    }
}

static void process_read(struct task_walk *walk, const struct task_process *process, size_t limit)
{
    struct buffer names = {0};
    slots_read(walk, process, limit, &names);
    char *copy = memory_text(buffer_text(&names));
    bells_read(walk, process, copy);
    free(copy);
    buffer_fini(&names);
}

/* --- pages ------------------------------------------------------------------------------------------------------ */

static void claims_next(struct task_walk *walk, size_t limit)
{
    if (walk->processes == NULL)
        processes_read(walk);
    for (walk->process_next = walk->process_at; walk->process_next < walk->process_count && walk->count < limit;
         walk->process_next++)
        process_read(walk, &walk->processes[walk->process_next], limit);
}

static void claims_cursor(const struct task_walk *walk, struct buffer *out)
{
    if (walk->process_at > 0)
        buffer_append_text(out, walk->processes[walk->process_at - 1].identity);
    else if (walk->queue != NULL)
        buffer_append_text(out, walk->queue);
}

/* --- any state ---------------------------------------------------------------------------------------------------- */

bool task_walk_begin(struct task_walk *walk, struct console *console, enum task_state state, const char *queue,
                     const char *cursor, struct error *error)
{
    *walk = (struct task_walk){.console = console, .state = state};
    if (queue != NULL)
        walk->queue = memory_text(queue);
    if (task_state_is_set(state))
        return set_begin(walk, cursor, error);
    return state == TASK_IN_QUEUE ? list_begin(walk, cursor, error) : claims_begin(walk, cursor, error);
}

static void page_read(struct task_walk *walk, size_t limit)
{
    page_clear(walk);
    if (task_state_is_set(walk->state))
        set_next(walk, limit);
    else if (walk->state == TASK_IN_QUEUE)
        list_next(walk, limit);
    else
        claims_next(walk, limit);
}

int task_walk_next(struct task_walk *walk, size_t limit)
{
    size_t asked = walk->most > 0 && walk->most < limit ? walk->most : limit, least = asked;
    do {
        node_client_may_divide(walk->console->client, least > 1);
        page_read(walk, least);
    } while (console_asks_less(walk->console, &least));
    if (least < asked)
        walk->most = least;
    return walk->console->code;
}

void task_walk_advance(struct task_walk *walk, size_t seen)
{
    if (task_state_is_set(walk->state)) {
        set_advance(walk, seen);
    } else if (walk->state == TASK_IN_QUEUE) {
        list_advance(walk, seen);
    } else {
        walk->process_at = walk->process_next;
        walk->is_over = walk->process_at == walk->process_count;
    }
}

void task_walk_cursor(const struct task_walk *walk, struct buffer *out)
{
    if (walk->is_over)
        return;
    if (task_state_is_set(walk->state))
        buffer_format(out, "%s+%llu", walk->from, walk->skip);
    else if (walk->state == TASK_IN_QUEUE)
        buffer_format(out, "%lld", walk->at);
    else
        claims_cursor(walk, out);
}

void task_walk_end(struct task_walk *walk)
{
    page_clear(walk);
    for (size_t i = 0; i < walk->process_count; i++)
        free(walk->processes[i].identity);
    free(walk->processes);
    free(walk->entries);
    free(walk->replies);
    free(walk->names);
    free(walk->queue);
}
