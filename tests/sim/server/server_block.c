/* Clients that wait for a list. */
#include <math.h>
#include <stdlib.h>

#include "tests/sim/server/server_private.h"

/* --- waiting ------------------------------------------------------------------------------------------------------ */

/* NULL when it is right; `until_us` is INT64_MAX for ever. */
static struct reply *timeout_read(struct command_call *call, size_t argument, int64_t *until_us)
{
    double seconds;
    if (!text_float(call->arguments[argument], &seconds))
        return reply_error(call->replies, "ERR timeout is not a float or out of range");
    if (seconds * 1000 > 9.2e18)
        return reply_error(call->replies, "ERR timeout is out of range");
    /* With the same digits as a server's, which shows in the last millisecond. */
    long double ms = ceill(strtold(call->arguments[argument].bytes, NULL) * 1000);

    if (ms < 0)
        return reply_error(call->replies, "ERR timeout is negative");
    if (ms > 9e15)
        return reply_error(call->replies, "ERR timeout is out of range");
    *until_us = ms > 0 ? (call->space->now_us / 1000 + (int64_t)ms + 1) * 1000 : INT64_MAX;
    return NULL;
}

static struct reply *connection_block(struct command_call *call, int64_t until_us)
{
    struct server_connection *connection = call->connection;
    connection->is_blocked = true;
    connection->blocked_until_us = until_us;
    connection->blocked_command = call->command;
    buffer_clear(&connection->blocked_for);
    record_append(&connection->blocked_for, call->arguments, call->count, call->space->now_us);
    list_append(&call->server->blocked, &connection->blocked_link);
    return NULL;
}

void blocked_forget(struct server_connection *connection)
{
    list_remove(&connection->blocked_link);
    connection->is_blocked = false;
}

static void connection_resume(struct server_connection *connection, const struct reply *reply)
{
    blocked_forget(connection);
    connection_write(connection, reply);
    if (connection->in.length > 0)
        list_append(&connection->server->resumed, &connection->resumed_link);
}

/* --- commands ----------------------------------------------------------------------------------------------------- */

struct reply *command_blmove(struct command_call *call)
{
    for (size_t i = 3; i <= 4; i++)
        if (!call_says(call, i, "LEFT") && !call_says(call, i, "RIGHT"))
            return reply_syntax(call);
    int64_t until_us;
    struct reply *wrong = timeout_read(call, 5, &until_us);
    if (wrong != NULL)
        return wrong;
    return call->value != NULL || call->never_blocks ? command_lmove(call) : connection_block(call, until_us);
}

struct reply *command_brpop(struct command_call *call)
{
    int64_t until_us;
    struct reply *wrong = timeout_read(call, call->count - 1, &until_us);
    if (wrong != NULL)
        return wrong;
    for (size_t i = 1; i + 1 < call->count; i++) {
        call->value = keyspace_find(call->space, call->arguments[i]);
        if (call->value == NULL)
            continue;
        if (call_is_other(call, VALUE_LIST))
            return reply_wrong_type(call);
        struct reply *both = reply_array(call->replies, 2);
        size_t count = call->count;
        reply_add(both, reply_bulk(call->replies, call->arguments[i]));
        call->count = 2;
        reply_add(both, command_rpop(call));
        call->count = count;
        return both;
    }
    return call->never_blocks ? reply_nil_array(call->replies) : connection_block(call, until_us);
}

/* --- serving ------------------------------------------------------------------------------------------------------ */

static bool is_list(struct server *server, struct text key)
{
    const struct value *value = keyspace_find(&server->space, key);
    return value != NULL && value->type == VALUE_LIST;
}

static bool moves(const struct server_connection *connection)
{
    return connection->blocked_command->execute == command_blmove;
}

void call_fed(struct command_call *call, struct text key)
{
    if (call->server == NULL || list_is_empty(&call->server->blocked))
        return;
    if (table_find(&call->server->ready, key) == NULL)
        table_add(&call->server->ready, key);
}

static void connection_serve(struct server *server, struct server_connection *connection, struct text key)
{
    struct record record;
    struct text *arguments = record_unpack(connection->blocked_for.bytes, &server->replies, &record);
    size_t at = 1, last = moves(connection) ? 1 : record.count - 2, count = record.count;
    while (at <= last && !text_is(arguments[at], key))
        at++;
    if (at > last)
        return;
    bool runs_again = server->version >= 702;
    if (!runs_again && !moves(connection)) {
        arguments[1] = arguments[at];
        arguments[2] = arguments[record.count - 1];
        count = 3;
    }
    const struct reply *reply =
        runs_again ? server_process(server, connection, arguments, count, CALL_SERVED)
                   : server_call(server, connection, connection->blocked_command, arguments, count, CALL_SERVED);
    connection_resume(connection, reply);
    journal_end(server);
}

/* Key by key in the order in which they were pushed to; of each the longest waiting first. */
void blocked_serve(struct server *server)
{
    while (server->ready.count > 0) {
        struct table ready = server->ready;
        size_t position = 0;
        server->ready = (struct table){.items = NULL};
        for (struct item *key; (key = table_next(&ready, &position)) != NULL;)
            for (struct list *link = server->blocked.next, *next;
                 link != &server->blocked && is_list(server, item_name(key)); link = next) {
                next = link->next;
                connection_serve(server, list_owner(link, struct server_connection, blocked_link), item_name(key));
            }
        table_clear(&ready);
    }
}

/* --- ending ------------------------------------------------------------------------------------------------------- */

bool blocked_end(struct server_connection *connection, bool with_error)
{
    struct replies *replies = &connection->server->replies;
    if (!connection->is_blocked)
        return false;
    connection_resume(connection, with_error ? reply_error(replies, "UNBLOCKED client unblocked via CLIENT UNBLOCK")
                                             : reply_nil_array(replies));
    return true;
}

void blocked_refuse_all(struct server *server)
{
    while (!list_is_empty(&server->blocked)) {
        struct server_connection *connection = list_owner(server->blocked.next, struct server_connection, blocked_link);
        blocked_forget(connection);
        connection_write(connection, reply_error(&server->replies, "UNBLOCKED force unblock from blocking operation, "
                                                                   "instance state changed (master -> replica?)"));
        connection->closes_after_reply = true;
    }
}

int64_t blocked_next_us(const struct server *server)
{
    int64_t next = INT64_MAX;
    for (const struct list *link = server->blocked.next; link != &server->blocked; link = link->next) {
        int64_t until_us = list_owner(link, struct server_connection, blocked_link)->blocked_until_us;
        next = until_us < next ? until_us : next;
    }
    return next;
}

void blocked_tick(struct server *server)
{
    for (struct list *link = server->blocked.next, *next; link != &server->blocked; link = next) {
        struct server_connection *connection = list_owner(link, struct server_connection, blocked_link);
        next = link->next;
        if (connection->blocked_until_us <= server->space.now_us)
            (void)blocked_end(connection, false);
    }
}
