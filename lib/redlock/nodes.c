/* The session of an operator over all lock nodes: connections, and questions that block until they are answered. */
#include "redlock/nodes_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "redlock/scripts.h"
#include "redlock/terms.h"
#include "redlock/node_options.h"
#include "redlock/sight.h"

#define SETTLE_SLACK_NS (1 * NS_PER_S)
#define ANSWER_LEAST_NS (2 * NS_PER_S) /* an operator has more patience than a lock */

enum { SCAN_PAGE = 1000, REPLY_LIMIT = 64 << 20, ELEMENT_LIMIT = 1 << 16, LINE_MAX_BYTES = 600 };

/* --- reasons ------------------------------------------------------------------------------------------------------ */

void nodes_begin(struct redlock_nodes *nodes)
{
    buffer_clear(&nodes->reason);
}

void nodes_tell(struct redlock_nodes *nodes, const char *format, ...)
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
    node_name_write(wanted, server->name);
    server->view.name = server->name;
    struct redis_node_options connected = node_options_of(wanted, nodes->options, server->name);
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
    int64_t patience_ns = NODE_CONNECT_TIMEOUT_NS;
    for (unsigned i = 0; i < nodes->count; i++)
        if (nodes->options->nodes[i].connect_timeout_ns > patience_ns)
            patience_ns = nodes->options->nodes[i].connect_timeout_ns;
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

void redlock_nodes_watch(struct redlock_nodes *nodes, bool (*goes_on)(void *context, const char *what, int64_t left_ns),
                         void *context)
{
    if (nodes == NULL)
        return;
    nodes->goes_on = goes_on;
    nodes->context = context;
}

bool nodes_pause(struct redlock_nodes *nodes, const char *what, int64_t left_ns, int64_t pause_ns)
{
    if (nodes->goes_on != NULL && !nodes->goes_on(nodes->context, what, left_ns))
        return false;
    run_for(nodes, pause_ns);
    return true;
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

static void was_answered(struct redis_call *call, const struct redis_result *result)
{
    struct server *server = list_owner(call, struct server, call);
    struct redlock_nodes *nodes = server->all;
    server->answered(server, result);
    if (--nodes->open == 0)
        loop_stop(nodes->loop);
}

void server_ask(struct server *server, const struct buffer *request,
                void (*answered)(struct server *server, const struct redis_result *result))
{
    int64_t patience_ns = server->all->timeout_ns > ANSWER_LEAST_NS ? server->all->timeout_ns : ANSWER_LEAST_NS;
    invariant(!redis_call_is_outstanding(&server->call));
    server->answered = answered;
    server->call.done = was_answered;
    server->asked = instant_now();
    server->trouble[0] = '\0';
    if (redis_node_call(server->connection, request, instant_after(server->asked, patience_ns), &server->call)) {
        server->all->open++;
        return;
    }
    const char *reason = redis_node_reason(server->connection);
    answered(server, &(struct redis_result){.outcome = REDIS_ERROR,
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

static void was_marked(struct server *server, const struct redis_result *result)
{
    const struct redis_reply *reply = result->outcome == REDIS_VALUE ? result->reply : NULL;
    buffer_clear(&server->found);
    server->is_done = reply != NULL && reply->kind == REDIS_ARRAY && reply->count >= 1 &&
                      reply->elements[0].kind == REDIS_INTEGER && reply->elements[0].integer == 1;
    if (server->is_done)
        return;
    if (reply == NULL)
        snprintf(server->trouble, sizeof server->trouble, "%s", result->reason);
    else if (reply->kind == REDIS_ARRAY && reply->count == 2 && reply->elements[1].kind == REDIS_STRING)
        buffer_append(&server->found, reply->elements[1].bytes, reply->elements[1].length);
    else
        snprintf(server->trouble, sizeof server->trouble, "an answer of another shape than asked for");
}

enum mark_outcome server_mark(struct server *server, const char *expected, const char *text)
{
    struct buffer request = {0};
    sight_mark(&request, expected, text);
    server_ask(server, &request, was_marked);
    nodes_run(server->all);
    buffer_fini(&request);
    if (server->is_done)
        return MARK_DONE;
    snprintf(server->unwritable, sizeof server->unwritable, "%s", server->trouble);
    return server->trouble[0] != '\0' ? MARK_FAILED : MARK_FOUND_OTHER;
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static bool key_is_ours(const struct redis_reply *key)
{
    return key->length >= 3 && memcmp(key->bytes, "hf:", 3) == 0;
}

/* While the search goes on, `found` is the cursor; at its end it is the key, or empty. */
static void was_scanned(struct server *server, const struct redis_result *result)
{
    const struct redis_reply *reply = result->outcome == REDIS_VALUE ? result->reply : NULL;
    bool is_page = reply != NULL && reply->kind == REDIS_ARRAY && reply->count == 2 &&
                   reply->elements[0].kind == REDIS_STRING && reply->elements[1].kind == REDIS_ARRAY;
    buffer_clear(&server->found);
    server->is_done = true;
    if (!is_page) {
        snprintf(server->trouble, sizeof server->trouble, "%s",
                 reply == NULL ? result->reason : "an answer of another shape than asked for");
        return;
    }
    const struct redis_reply *keys = &reply->elements[1];
    for (size_t i = 0; i < keys->count; i++) {
        if (keys->elements[i].kind != REDIS_STRING || key_is_ours(&keys->elements[i]))
            continue;
        buffer_append(&server->found, keys->elements[i].bytes, keys->elements[i].length);
        return;
    }
    server->is_done = strcmp(reply->elements[0].bytes, "0") == 0;
    if (!server->is_done)
        buffer_append(&server->found, reply->elements[0].bytes, reply->elements[0].length);
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
    buffer_clear(&server->found);
    buffer_append_text(&server->found, "0");
    do {
        buffer_clear(&request);
        redis_request_begin(&request, 6);
        redis_request_text(&request, "SCAN");
        redis_request_text(&request, buffer_text(&server->found));
        redis_request_text(&request, "MATCH");
        redis_request_text(&request, buffer_text(&pattern));
        redis_request_text(&request, "COUNT");
        redis_request_integer(&request, SCAN_PAGE);
        server_ask(server, &request, was_scanned);
        nodes_run(server->all);
    } while (!server->is_done);
    buffer_fini(&request);
    buffer_fini(&pattern);
    return server->trouble[0] == '\0';
}
