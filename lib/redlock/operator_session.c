/* The session of an operator over all lock nodes: connections, questions that block until they are answered, and how
 * the answers are shown. Only trust.c judges who votes, and why not. */
#include "redlock/operator_session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "redlock/holders.h"
#include "redlock/inspection_call.h"
#include "redlock/limits.h"
#include "redlock/release_notifications.h"
#include "redlock/scripts.h"

#define SETTLE_SLACK_NS   (1 * NS_PER_S)
#define ANSWER_LEAST_NS   (2 * NS_PER_S) /* an operator can wait longer than a lock */
#define REMAINING_MOST_MS (INT64_C(100) * 365 * 86400 * 1000)
#define WATCHED_NS        (250 * NS_PER_MS) /* how often a watch gets a call while nothing changes */

_Static_assert(sizeof(((struct redlock_node_view *)NULL)->eviction) == INSPECTION_POLICY_SIZE, "a view has the policy");

enum { SCAN_PAGE = 1000, REPLY_LIMIT = 64 << 20, ELEMENT_LIMIT = 1 << 16, LINE_MAX_BYTES = 600 };

/* --- reasons ------------------------------------------------------------------------------------------------------ */

void nodes_begin(struct redlock_nodes *nodes)
{
    buffer_clear(&nodes->reason);
}

enum redlock_nodes_end nodes_tell(struct redlock_nodes *nodes, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    if (nodes->reason.length > 0)
        buffer_append_text(&nodes->reason, "\n");
    buffer_append_text(&nodes->reason, line);
    buffer_text(&nodes->reason); /* read as a string from now on */
    return REDLOCK_NODES_REFUSED;
}

const char *redlock_nodes_reason(const struct redlock_nodes *nodes)
{
    if (nodes == NULL)
        return "the session is NULL";
    return nodes->reason.length > 0 ? nodes->reason.bytes : "";
}

/* --- connections -------------------------------------------------------------------------------------------------- */

static bool all_were_tried(const struct redlock_nodes *nodes)
{
    for (unsigned i = 0; i <= nodes->count; i++)
        if (nodes->servers[i].connection != NULL && !redis_node_was_tried(nodes->servers[i].connection))
            return false;
    return true;
}

static void changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    struct redlock_nodes *nodes = context;
    (void)node, (void)state, (void)reason;
    if (nodes->is_settling && all_were_tried(nodes))
        loop_stop(nodes->loop);
}

void server_open(struct redlock_nodes *nodes, struct server *server, const struct redlock_node *wanted)
{
    *server = (struct server){.all = nodes};
    redlock_node_name(wanted, server->name);
    server->view.name = server->name;
    struct redis_node_options connected = redlock_node_options(wanted, nodes->options, server->name);
    connected.reply_limit = REPLY_LIMIT;
    connected.element_limit = ELEMENT_LIMIT;
    connected.changed = changed;
    connected.context = nodes;
    server->connection = redis_node_create(nodes->loop, &connected);
}

void server_close(struct server *server)
{
    if (server->connection != NULL)
        redis_node_destroy(server->connection);
    buffer_fini(&server->found);
    *server = (struct server){.all = NULL};
}

static void timer_fire(struct loop_timer *timer)
{
    loop_stop(list_owner(timer, struct redlock_nodes, timer)->loop);
}

static void run_for(struct redlock_nodes *nodes, int64_t ns)
{
    loop_timer_set(nodes->loop, &nodes->timer, instant_after(instant_now(), ns));
    loop_run(nodes->loop);
    loop_timer_clear(nodes->loop, &nodes->timer);
}

void nodes_settle(struct redlock_nodes *nodes)
{
    int64_t patience_ns = REDLOCK_CONNECT_TIMEOUT_NS;
    for (unsigned i = 0; i < nodes->count; i++)
        if (ns_from_ms(nodes->options->nodes[i].connect_timeout_ms) > patience_ns)
            patience_ns = ns_from_ms(nodes->options->nodes[i].connect_timeout_ms);
    nodes->is_settling = true;
    if (!all_were_tried(nodes))
        run_for(nodes, patience_ns + SETTLE_SLACK_NS);
    nodes->is_settling = false;
}

struct redlock_nodes *redlock_nodes_open(const struct redlock_options *options, char *reason, size_t reason_size)
{
    struct error error = ERROR_NONE;
    if (!redlock_options_check(options, reason, reason_size))
        return NULL;
    struct loop *loop = loop_create(&error);
    if (loop == NULL) {
        redlock_refuse(reason, reason_size, "%s", error.text);
        return NULL;
    }
    log_suggest_level(options->logs_to_stderr ? LOG_INFO : LOG_NOTHING);
    struct redlock_nodes *nodes = memory_new(struct redlock_nodes);
    nodes->loop = loop;
    nodes->options = options;
    nodes->count = (unsigned)options->node_count;
    nodes->timeout_ns = redlock_slowest_timeout_ns(options);
    nodes->longest_patience_ns = redlock_longest_patience_ns(nodes->timeout_ns);
    loop_timer_init(&nodes->timer, timer_fire);
    trust_init(&nodes->trust, nodes->count, nodes->longest_patience_ns, redlock_drift_factor(options));
    for (unsigned i = 0; i < nodes->count; i++)
        server_open(nodes, &nodes->servers[i], &options->nodes[i]);
    nodes_settle(nodes);
    return nodes;
}

void redlock_nodes_close(struct redlock_nodes *nodes)
{
    if (nodes == NULL)
        return;
    for (unsigned i = 0; i <= nodes->count; i++)
        server_close(&nodes->servers[i]);
    loop_destroy(nodes->loop);
    buffer_fini(&nodes->reason);
    free(nodes);
}

void redlock_nodes_watch(struct redlock_nodes *nodes, bool (*goes_on)(void *context, const char *what, int64_t left_ms),
                         void *context)
{
    if (nodes == NULL)
        return;
    nodes->goes_on = goes_on;
    nodes->context = context;
}

bool nodes_pause(struct redlock_nodes *nodes, const char *what, int64_t left_ns, int64_t pause_ns)
{
    if (nodes->goes_on != NULL && !nodes->goes_on(nodes->context, what, left_ns < 0 ? -1 : ms_from_ns(left_ns)))
        return false;
    run_for(nodes, pause_ns);
    return true;
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

static void answer_take(struct server *server, const struct redis_result *result)
{
    const struct redis_reply *reply = result->outcome == REDIS_VALUE ? result->reply : NULL;
    server->is_understood = reply != NULL && server->read(server, reply);
    server->is_refused = !server->is_understood &&
                         (reply != NULL || (result->outcome == REDIS_ERROR && result->error != REDIS_ERROR_DOWN));
    bool is_cluster = result->outcome == REDIS_ERROR && result->error == REDIS_ERROR_CLUSTER;
    if (!server->is_understood)
        snprintf(server->trouble, sizeof server->trouble, "%s",
                 is_cluster      ? "it is part of a Redis Cluster; the nodes have to be single masters"
                 : reply == NULL ? result->reason
                                 : "an answer of another shape than asked for");
}

static void was_answered(struct redis_call *call, const struct redis_result *result)
{
    struct server *server = list_owner(call, struct server, call);
    answer_take(server, result);
    if (--server->all->open == 0)
        loop_stop(server->all->loop);
}

void server_ask(struct server *server, const struct buffer *request,
                bool (*read)(struct server *server, const struct redis_reply *reply))
{
    int64_t patience_ns = server->all->timeout_ns > ANSWER_LEAST_NS ? server->all->timeout_ns : ANSWER_LEAST_NS;
    invariant(!redis_call_is_outstanding(&server->call));
    server->read = read;
    server->call.done = was_answered;
    server->asked = instant_now();
    server->trouble[0] = '\0';
    if (redis_node_call(server->connection, request, instant_after(server->asked, patience_ns), &server->call)) {
        server->all->open++;
        return;
    }
    const char *reason = redis_node_reason(server->connection);
    answer_take(server, &(struct redis_result){.outcome = REDIS_ERROR,
                                               .error = REDIS_ERROR_DOWN,
                                               .reason = reason[0] != '\0' ? reason : "it is not connected"});
}

void nodes_run(struct redlock_nodes *nodes)
{
    if (nodes->open > 0)
        loop_run(nodes->loop);
    invariant(nodes->open == 0);
}

/* --- a marker ----------------------------------------------------------------------------------------------------- */

static bool mark_read(struct server *server, const struct redis_reply *reply)
{
    if (reply->kind != REDIS_ARRAY || reply->count == 0)
        return false;
    server->is_done = reply->elements[0].kind == REDIS_INTEGER && reply->elements[0].integer == 1;
    return server->is_done || (reply->count == 2 && reply->elements[1].kind == REDIS_STRING);
}

enum mark_outcome server_mark(struct server *server, const char *expected, const char *text, int64_t highest)
{
    struct buffer request = {0};
    server->is_done = false;
    inspection_call_mark(&request, expected, text, highest);
    server_ask(server, &request, mark_read);
    nodes_run(server->all);
    buffer_fini(&request);
    if (server->is_done)
        return MARK_DONE;
    snprintf(server->unwritable, sizeof server->unwritable, "%s", server->trouble);
    return server->is_understood ? MARK_FOUND_OTHER : MARK_FAILED;
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

/* While the search goes on, `found` is the cursor; at its end it is the key, or empty. */
static bool page_read(struct server *server, const struct redis_reply *reply)
{
    buffer_clear(&server->found);
    if (reply->kind != REDIS_ARRAY || reply->count != 2 || reply->elements[0].kind != REDIS_STRING ||
        reply->elements[1].kind != REDIS_ARRAY)
        return false;
    const struct redis_reply *cursor = &reply->elements[0], *keys = &reply->elements[1];
    for (size_t i = 0; i < keys->count; i++) {
        const struct redis_reply *key = &keys->elements[i];
        bool is_ours = key->length >= 3 && memcmp(key->bytes, "hf:", 3) == 0;
        if (key->kind == REDIS_STRING && is_ours == server->finds_ours) {
            buffer_append(&server->found, key->bytes, key->length);
            return true;
        }
    }
    server->is_done = strcmp(cursor->bytes, "0") == 0;
    if (!server->is_done)
        buffer_append(&server->found, cursor->bytes, cursor->length);
    return true;
}

/* Bytes that mean something in a pattern stand for themselves. */
static void pattern_write(const char *prefix, struct buffer *pattern)
{
    for (; *prefix != '\0'; prefix++) {
        if (strchr("*?[]^\\", *prefix) != NULL)
            buffer_append_text(pattern, "\\");
        buffer_append(pattern, prefix, 1);
    }
    buffer_append_text(pattern, "*");
}

bool server_find_key(struct server *server, const char *prefix)
{
    struct buffer request = {0}, pattern = {0};
    pattern_write(prefix, &pattern);
    server->finds_ours = strncmp(prefix, "hf:", 3) == 0;
    buffer_clear(&server->found);
    buffer_append_text(&server->found, "0");
    do {
        buffer_clear(&request);
        redis_request_begin(&request, 6);
        redis_request_texts(&request, "SCAN", buffer_text(&server->found), "MATCH", buffer_text(&pattern), "COUNT");
        redis_request_integer(&request, SCAN_PAGE);
        server->is_done = true;
        server_ask(server, &request, page_read);
        nodes_run(server->all);
    } while (!server->is_done);
    buffer_fini(&request);
    buffer_fini(&pattern);
    return server->is_understood;
}

/* --- inspecting --------------------------------------------------------------------------------------------------- */

static bool inspection_read(struct server *server, const struct redis_reply *reply)
{
    struct redlock_node_view *view = &server->view;
    struct trust_inspection inspection = {.reading = {.asked = server->asked, .answered = instant_now()}};
    if (!inspection_call_read(&inspection, view->eviction, reply))
        return false;
    const char *text = inspection.marker_text;
    server->is_reached = true;
    server->inspection = inspection;
    server->has_marker = marker_parse(&server->marker, text, strlen(text));
    server->bad_marker = text[0] != '\0' && !server->has_marker;
    server->is_of_other_scheme = marker_is_of_other_scheme(text);
    view->latency_us = instant_since(inspection.reading.asked, inspection.reading.answered) / NS_PER_US;
    view->clock_ahead_us = inspection.reading.node_us - (wall_now().us - view->latency_us / 2);
    return true;
}

static void server_inspect(struct server *server)
{
    struct buffer request = {0};
    server->is_reached = server->has_marker = server->bad_marker = server->is_of_other_scheme = server->is_due = false;
    server->view =
        (struct redlock_node_view){.name = server->name, .rate_least_ppm = INT64_MIN, .rate_most_ppm = INT64_MAX};
    inspection_call_ask(&request, server->all->count > 1 ? NULL : "");
    server_ask(server, &request, inspection_read);
    buffer_fini(&request);
}

void server_member(const struct server *server, struct membership_node *node)
{
    *node = (struct membership_node){.name = server->name,
                                     .is_reached = server->is_reached && server->unwritable[0] == '\0',
                                     .has_marker = server->has_marker,
                                     .bad_marker = server->bad_marker,
                                     .is_of_other_scheme = server->is_of_other_scheme,
                                     .marker = server->marker};
    memcpy(node->text, server->inspection.marker_text, sizeof node->text);
    memcpy(node->run_id, server->inspection.run_id, sizeof node->run_id);
}

static void tell_trust(struct redlock_nodes *nodes, unsigned index)
{
    const struct server *server = &nodes->servers[index];
    struct trust_step step;
    if (server->is_reached)
        step = trust_saw(&nodes->trust, index, &server->inspection, instant_now());
    else if (server->is_refused)
        step = trust_unreadable(&nodes->trust, index, instant_now());
    else
        step = trust_unseen(&nodes->trust, index, instant_now());
    for (unsigned i = 0; i < nodes->count; i++) { /* now, because the next news may change what is to be written */
        struct server *due = &nodes->servers[i];
        if ((step.write & set_of(i)) == 0)
            continue;
        due->is_due = true;
        memcpy(due->due_expected, nodes->trust.node[i].marker_text, sizeof due->due_expected);
        due->due_highest = trust_marker_to_write(&nodes->trust, i, due->due_text);
    }
}

const struct server *nodes_same_server(const struct redlock_nodes *nodes, const struct server *server)
{
    for (unsigned i = 0; i < nodes->count; i++)
        if (&nodes->servers[i] != server && nodes->servers[i].is_reached && server->is_reached &&
            strcmp(nodes->servers[i].inspection.run_id, server->inspection.run_id) == 0)
            return &nodes->servers[i];
    return NULL;
}

/* Says which node it duplicates, as trust has judged. */
static void duplicate_show(struct server *server)
{
    const struct redlock_nodes *nodes = server->all;
    const struct server *same = nodes_same_server(nodes, server);
    char text[sizeof server->view.trouble] = ""; /* gcc cannot tell the view from the names beside it */
    if (same != NULL)
        snprintf(text, sizeof text, "it is the same server as %s (run id %s)", same->name, server->inspection.run_id);
    for (unsigned i = 0; i < nodes->count && same == NULL; i++)
        if (&nodes->servers[i] != server && nodes->servers[i].has_marker &&
            strcmp(nodes->servers[i].marker.self, server->marker.self) == 0)
            snprintf(text, sizeof text, "%s is the same member %s", nodes->servers[i].name, server->marker.self);
    memcpy(server->view.trouble, text, sizeof text);
}

static void server_show(struct server *server, const struct trust *trust, unsigned index)
{
    const struct trust_node *trusted = &trust->node[index];
    struct redlock_node_view *view = &server->view;
    int64_t left_ns = instant_since(instant_now(), trust_node_until(trust, index));
    snprintf(view->address, sizeof view->address, "%s", redis_node_address(server->connection));
    snprintf(view->trouble, sizeof view->trouble, "%s", server->is_reached ? "" : server->trouble);
    if (trusted->reason == TRUST_DUPLICATE)
        duplicate_show(server);
    view->is_reached = server->is_reached;
    view->votes = trusted->state == TRUST_VOTES;
    view->state = trust_state_name(trusted->state);
    view->reason = trust_reason_name(trusted->reason);
    view->advice = trust_advice(trust, index);
    view->quarantine_left_ms = trusted->state == TRUST_QUARANTINED && left_ns > 0 ? ms_from_ns(left_ns) : 0;
    if (!server->is_reached)
        return;
    snprintf(view->run_id, sizeof view->run_id, "%s", server->inspection.run_id);
    if (!server->has_marker)
        return;
    snprintf(view->group, sizeof view->group, "%s", server->marker.group);
    snprintf(view->id, sizeof view->id, "%s", server->marker.self);
    view->generation = server->marker.generation;
}

void nodes_inspect(struct redlock_nodes *nodes)
{
    for (unsigned i = 0; i <= nodes->count; i++)
        if (nodes->servers[i].connection != NULL)
            server_inspect(&nodes->servers[i]);
    nodes_run(nodes);
    for (unsigned i = 0; i < nodes->count; i++)
        tell_trust(nodes, i);
    for (unsigned i = 0; i < nodes->count; i++)
        server_show(&nodes->servers[i], &nodes->trust, i);
}

bool nodes_write_trusted(struct redlock_nodes *nodes)
{
    bool wrote = false;
    for (unsigned i = 0; i < nodes->count; i++) {
        struct server *server = &nodes->servers[i];
        bool can_write = server->is_due && server->is_reached && server->unwritable[0] == '\0';
        wrote |= can_write &&
                 server_mark(server, server->due_expected, server->due_text, server->due_highest) != MARK_FAILED;
        server->is_due = false;
    }
    return wrote;
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

const struct redlock_node_view *redlock_nodes_view(const struct redlock_nodes *nodes, size_t index)
{
    return nodes != NULL && index < nodes->count ? &nodes->servers[index].view : NULL;
}

struct redlock_group_view redlock_nodes_group(const struct redlock_nodes *nodes)
{
    if (nodes == NULL)
        return (struct redlock_group_view){0};
    const struct trust *trust = &nodes->trust;
    struct redlock_group_view all = {
        .nodes = nodes->count, .quorum = nodes->count / 2 + 1, .has_group = trust->has_group && nodes->count > 1};
    for (unsigned i = 0; i < nodes->count; i++) {
        all.reached += nodes->servers[i].is_reached;
        all.voters += nodes->servers[i].view.votes;
    }
    if (nodes->count == 1 && all.reached == 1)
        memcpy(all.node_id, nodes->servers[0].inspection.node_id, sizeof all.node_id);
    if (!all.has_group)
        return all;
    snprintf(all.group, sizeof all.group, "%s", trust->group.group);
    all.generation = trust->group.generation;
    all.max_ttl_ms = trust->group.max_ttl_ms;
    for (unsigned number = 0; number < trust->group.member_count; number++)
        all.vacant += trust->group.members[number][0] == '\0';
    return all;
}

static enum redlock_nodes_end look_ends(struct redlock_nodes *nodes)
{
    unsigned waiting = 0;
    struct redlock_group_view all = redlock_nodes_group(nodes);
    for (unsigned i = 0; i < nodes->count; i++) {
        const struct redlock_node_view *view = &nodes->servers[i].view;
        waiting += view->quarantine_left_ms > 0;
        if (!view->is_reached)
            nodes_tell(nodes, "%s: %s", view->name, view->trouble);
        else if (!view->votes)
            nodes_tell(nodes, "%s: %s", view->name, view->advice);
    }
    if (all.voters < all.quorum && all.voters + waiting >= all.quorum)
        return REDLOCK_NODES_WAITING;
    if (all.voters < all.quorum && all.reached >= all.quorum)
        return REDLOCK_NODES_REFUSED;
    return all.reached < all.nodes ? REDLOCK_NODES_TOO_FEW : REDLOCK_NODES_DONE;
}

enum redlock_nodes_end redlock_nodes_look(struct redlock_nodes *nodes)
{
    if (nodes == NULL)
        return REDLOCK_NODES_REFUSED;
    nodes_begin(nodes);
    nodes_inspect(nodes);
    return look_ends(nodes);
}

static bool fence_count_read(struct server *server, const struct redis_reply *reply)
{
    server->view.has_fence_count = reply->kind == REDIS_INTEGER;
    server->view.fence_count = server->view.has_fence_count ? (uint64_t)reply->integer : 0;
    return server->view.has_fence_count;
}

static bool fence_floor_read(struct server *server, const struct redis_reply *reply)
{
    server->view.fence_floor = reply->kind == REDIS_STRING ? strtoull(reply->bytes, NULL, 10) : 0;
    return true;
}

static void sets_ask(struct redlock_nodes *nodes, const struct buffer *request,
                     bool (*read)(struct server *server, const struct redis_reply *reply))
{
    for (unsigned i = 0; i < nodes->count; i++)
        if (nodes->servers[i].is_reached && nodes->servers[i].has_marker)
            server_ask(&nodes->servers[i], request, read);
    nodes_run(nodes);
}

void redlock_nodes_count_fences(struct redlock_nodes *nodes)
{
    struct buffer request = {0};
    if (nodes == NULL)
        return;
    redis_request_command(&request, "ZCARD", "hf:fences");
    sets_ask(nodes, &request, fence_count_read);
    buffer_clear(&request);
    redis_request_command(&request, "GET", "hf:fences:floor");
    sets_ask(nodes, &request, fence_floor_read);
    buffer_fini(&request);
}

/* A step lies in one stretch between two looks, a rate in each. */
static void clock_compare(struct server *server, const struct trust_inspection *before, struct trust_span *rate)
{
    const struct trust_inspection *after = &server->inspection;
    bool is_one_run = server->is_reached && strcmp(before->run_id, after->run_id) == 0;
    struct trust_span here =
        is_one_run ? trust_rate_ppm(&before->reading, &after->reading) : (struct trust_span){INT64_MIN, INT64_MAX};
    rate->least = here.least < rate->least ? here.least : rate->least;
    rate->most = here.most > rate->most ? here.most : rate->most;
    server->view.rate_least_ppm = rate->least;
    server->view.rate_most_ppm = rate->most;
}

static bool time_passes(struct redlock_nodes *nodes, struct instant until)
{
    for (int64_t left_ns; (left_ns = instant_since(instant_now(), until)) > 0;)
        if (!nodes_pause(nodes, "comparing the clocks", left_ns, left_ns < WATCHED_NS ? left_ns : WATCHED_NS))
            return false;
    return true;
}

enum redlock_nodes_end redlock_nodes_compare_clocks(struct redlock_nodes *nodes, int64_t for_ms)
{
    enum { STRETCHES = 2 };
    struct trust_span rates[REDLOCK_NODES_MAX];
    if (nodes == NULL)
        return REDLOCK_NODES_REFUSED;
    nodes_begin(nodes);
    nodes_inspect(nodes);
    for (unsigned i = 0; i < nodes->count; i++)
        rates[i] = (struct trust_span){INT64_MAX, INT64_MIN};
    for (unsigned stretch = 0; stretch < STRETCHES && redlock_nodes_group(nodes).reached > 0; stretch++) {
        struct trust_inspection before[REDLOCK_NODES_MAX] = {0};
        for (unsigned i = 0; i < nodes->count; i++)
            if (nodes->servers[i].is_reached)
                before[i] = nodes->servers[i].inspection;
        if (!time_passes(nodes, instant_after(instant_now(), ns_from_ms(for_ms) / STRETCHES)))
            return REDLOCK_NODES_WAITING;
        nodes_inspect(nodes);
        for (unsigned i = 0; i < nodes->count; i++)
            clock_compare(&nodes->servers[i], &before[i], &rates[i]);
    }
    return look_ends(nodes);
}

/* --- who holds a lock --------------------------------------------------------------------------------------------- */

enum { KIND, VALUE, REMAINING, FENCE, READERS, PARTS };

/* Above what a counter of Lua can be, or no number at all: no token. */
static uint64_t fence_read(const struct redis_reply *text)
{
    enum { DIGITS_MAX = 16 };
    bool is_number =
        text->length > 0 && text->length <= DIGITS_MAX && strspn(text->bytes, "0123456789") == text->length;
    return is_number ? strtoull(text->bytes, NULL, 10) : 0;
}

/* Values and remaining times by turns. What is no value of ours is left out: a number shows that readers are there. */
static void readers_read(struct redlock_key_view *key, const struct redis_reply *list)
{
    key->reader_count = 0;
    for (size_t i = 0; i + 1 < list->count && key->reader_count < REDLOCK_READERS_MAX; i += 2) {
        const struct redis_reply *value = &list->elements[i], *remaining = &list->elements[i + 1];
        struct redlock_reader_view *reader = &key->readers[key->reader_count];
        if (value->kind != REDIS_STRING || value->length >= sizeof reader->value || remaining->kind != REDIS_INTEGER)
            continue;
        memcpy(reader->value, value->bytes, value->length);
        reader->value[value->length] = '\0';
        reader->length = value->length;
        reader->remaining_ms = remaining->integer > 0 ? remaining->integer : 0;
        key->reader_count++;
    }
}

static bool key_read(struct server *server, const struct redis_reply *reply)
{
    struct redlock_key_view *key = &server->key;
    const struct redis_reply *parts = reply->elements;
    if (reply->kind != REDIS_ARRAY || reply->count != PARTS || parts[KIND].kind != REDIS_STRING ||
        parts[KIND].length != 1 || parts[VALUE].kind != REDIS_STRING || parts[REMAINING].kind != REDIS_INTEGER ||
        parts[FENCE].kind != REDIS_STRING || parts[READERS].kind != REDIS_ARRAY)
        return false;
    char kind = parts[KIND].bytes[0];
    if (kind < '0' || kind > '3' || parts[VALUE].length > REDLOCK_KEY_VALUE_MAX)
        return false;
    key->kind = (enum redlock_key_kind)(kind - '0');
    memcpy(key->value, parts[VALUE].bytes, parts[VALUE].length);
    key->length = parts[VALUE].length;
    /* Another program may have given its key any ttl: what is beyond a century is one. */
    key->remaining_ms = parts[REMAINING].integer < 0 ? -1 : parts[REMAINING].integer;
    if (key->remaining_ms > REMAINING_MOST_MS)
        key->remaining_ms = REMAINING_MOST_MS;
    key->fence = fence_read(&parts[FENCE]);
    readers_read(key, &parts[READERS]);
    return true;
}

static void key_write(const struct redlock_nodes *nodes, const char *resource, struct buffer *key)
{
    if (nodes->options->key_prefix != NULL)
        buffer_append_text(key, nodes->options->key_prefix);
    buffer_append_text(key, resource);
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

static bool seats_read(struct server *server, const struct redis_reply *reply)
{
    if (reply->kind != REDIS_ARRAY || reply->count != REDLOCK_LIMIT_MAX)
        return false;
    for (unsigned i = 0; i < REDLOCK_LIMIT_MAX; i++)
        if (reply->elements[i].kind == REDIS_STRING)
            server->seats |= UINT64_C(1) << i;
    return true;
}

_Static_assert(REDLOCK_LIMIT_MAX <= 64, "a bit for each seat");

unsigned redlock_nodes_seats(struct redlock_nodes *nodes, const char *resource, unsigned seats[REDLOCK_LIMIT_MAX])
{
    struct buffer request = {0}, key = {0};
    char name[REDLOCK_SEAT_NAME_SIZE];
    uint64_t found = 0;
    unsigned count = 0;
    if (seats == NULL || !find_begin(nodes, resource))
        return 0;
    redis_request_begin(&request, 1 + REDLOCK_LIMIT_MAX);
    redis_request_text(&request, "MGET");
    for (unsigned seat = 1; seat <= REDLOCK_LIMIT_MAX; seat++) {
        redlock_seat_name(resource, seat, name);
        buffer_clear(&key);
        key_write(nodes, name, &key);
        redis_request_bytes(&request, key.bytes, key.length);
    }
    for (unsigned i = 0; i < nodes->count; i++) {
        nodes->servers[i].seats = 0;
        server_ask(&nodes->servers[i], &request, seats_read);
    }
    nodes_run(nodes);
    for (unsigned i = 0; i < nodes->count; i++)
        found |= nodes->servers[i].seats;
    for (unsigned seat = 1; seat <= REDLOCK_LIMIT_MAX; seat++)
        if ((found >> (seat - 1) & 1) != 0)
            seats[count++] = seat;
    buffer_fini(&request);
    buffer_fini(&key);
    return count;
}

enum redlock_nodes_end redlock_nodes_find(struct redlock_nodes *nodes, const char *resource)
{
    if (!find_begin(nodes, resource))
        return REDLOCK_NODES_REFUSED;
    struct buffer request = {0}, key = {0};
    unsigned answered = 0;
    nodes_inspect(nodes);
    key_write(nodes, resource, &key);
    redis_request_script(&request, &redlock_script_holder, 1, 1);
    redis_request_bytes(&request, key.bytes, key.length);
    redis_request_integer(&request, REDLOCK_KEY_VALUE_MAX);
    for (unsigned i = 0; i < nodes->count; i++) {
        nodes->servers[i].key = (struct redlock_key_view){.kind = REDLOCK_KEY_NOTHING};
        server_ask(&nodes->servers[i], &request, key_read);
    }
    nodes_run(nodes);
    buffer_fini(&request);
    buffer_fini(&key);
    for (unsigned i = 0; i < nodes->count; i++) {
        struct server *server = &nodes->servers[i];
        answered += server->key.is_answered = server->is_understood;
        memcpy(server->key.trouble, server->trouble, sizeof server->key.trouble);
        if (!server->is_understood)
            nodes_tell(nodes, "%s: %s", server->name, server->trouble);
    }
    return answered == nodes->count ? REDLOCK_NODES_DONE : REDLOCK_NODES_TOO_FEW;
}

const struct redlock_key_view *redlock_nodes_key(const struct redlock_nodes *nodes, size_t index)
{
    return nodes != NULL && index < nodes->count ? &nodes->servers[index].key : NULL;
}

unsigned redlock_nodes_holders(const struct redlock_nodes *nodes, struct redlock_holder holders[REDLOCK_HOLDERS_MAX])
{
    if (nodes == NULL || holders == NULL)
        return 0;
    struct key_status statuses[REDLOCK_NODES_MAX];
    for (unsigned i = 0; i < nodes->count; i++) {
        const struct server *server = &nodes->servers[i];
        statuses[i] = (struct key_status){.votes = server->view.votes, .key = &server->key};
    }
    return holders_judge(statuses, nodes->count, holders);
}

/* --- taking a lock ------------------------------------------------------------------------------------------------ */

static bool taking_read(struct server *server, const struct redis_reply *reply)
{
    static const enum redlock_taking takings[] = {REDLOCK_TAKING_GONE, REDLOCK_TAKING_DONE, REDLOCK_TAKING_CHANGED};
    if (reply->kind != REDIS_STRING || reply->length != 1 || reply->bytes[0] < '0' || reply->bytes[0] > '2')
        return false;
    server->key.taking = takings[reply->bytes[0] - '0'];
    return true;
}

/* Where those listen that wait for the key. */
static void channel_write(const struct redlock_nodes *nodes, const struct buffer *name,
                          char channel[NOTIFICATIONS_CHANNEL_MAX])
{
    unsigned database = redis_node_options_of(nodes->servers[0].connection)->database;
    bool is_common = true;
    for (unsigned i = 1; i < nodes->count; i++)
        is_common &= redis_node_options_of(nodes->servers[i].connection)->database == database;
    notifications_channel_of(nodes->trust.has_group ? nodes->trust.group.group : "-", is_common, database, name->bytes,
                             name->length, channel);
}

/* A value is deleted only where the find saw it, and only while it is the one that was seen. Who waits for it hears
 * that, as of any release. */
static void take_begin(struct server *server, const struct buffer *name, const char *channel)
{
    struct buffer request = {0};
    struct redlock_key_view *key = &server->key;
    key->taking = REDLOCK_TAKING_FAILED;
    if (!key->is_answered)
        return;
    if (key->kind != REDLOCK_KEY_VALUE) {
        key->taking = key->kind == REDLOCK_KEY_NOTHING ? REDLOCK_TAKING_NOTHING : REDLOCK_TAKING_REFUSED;
        return;
    }
    redis_request_script(&request, &redlock_script_release, 1, 2);
    redis_request_bytes(&request, name->bytes, name->length);
    redis_request_bytes(&request, key->value, key->length);
    redis_request_text(&request, channel);
    server_ask(server, &request, taking_read);
    buffer_fini(&request);
}

enum redlock_nodes_end redlock_nodes_take(struct redlock_nodes *nodes, const char *resource)
{
    if (!find_begin(nodes, resource))
        return REDLOCK_NODES_REFUSED;
    unsigned failed = 0, refused = 0;
    struct buffer name = {0};
    char channel[NOTIFICATIONS_CHANNEL_MAX];
    key_write(nodes, resource, &name);
    channel_write(nodes, &name, channel);
    for (unsigned i = 0; i < nodes->count; i++)
        take_begin(&nodes->servers[i], &name, channel);
    nodes_run(nodes);
    buffer_fini(&name);
    for (unsigned i = 0; i < nodes->count; i++) {
        struct server *server = &nodes->servers[i];
        refused += server->key.taking == REDLOCK_TAKING_REFUSED;
        if (server->key.taking != REDLOCK_TAKING_FAILED)
            continue;
        failed++;
        memcpy(server->key.trouble, server->trouble, sizeof server->key.trouble);
        nodes_tell(nodes, "%s: %s", server->name, server->trouble);
    }
    return refused > 0 ? REDLOCK_NODES_REFUSED : failed > 0 ? REDLOCK_NODES_TOO_FEW : REDLOCK_NODES_DONE;
}
