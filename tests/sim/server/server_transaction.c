/* MULTI, EXEC. */
#include "tests/sim/server/server_private.h"

void transaction_forget(struct server_connection *connection)
{
    connection->is_queueing = connection->is_spoilt = false;
    connection->queued_count = 0;
    connection->queued_flags = 0;
    buffer_clear(&connection->queued);
}

struct reply *transaction_queue(struct server_connection *connection, const struct command *command,
                                const struct text *arguments, size_t count)
{
    struct server *server = connection->server;
    record_append(&connection->queued, arguments, count, server->space.now_us);
    connection->queued_count++;
    connection->queued_flags |= command->flags & (COMMAND_WRITES | COMMAND_GROWS);
    return reply_status(&server->replies, "QUEUED");
}

struct reply *command_multi(struct command_call *call)
{
    if (call->connection->is_queueing)
        return reply_error(call->replies, "ERR MULTI calls can not be nested");
    call->connection->is_queueing = true;
    return reply_status(call->replies, "OK");
}

struct reply *command_discard(struct command_call *call)
{
    if (!call->connection->is_queueing)
        return reply_error(call->replies, "ERR DISCARD without MULTI");
    transaction_forget(call->connection);
    return reply_status(call->replies, "OK");
}

static struct reply *queued_run(struct command_call *call, const char *queued, size_t count)
{
    struct reply *replies = reply_array(call->replies, count);
    for (size_t i = 0; i < count; i++) {
        struct record record;
        const struct text *arguments = record_unpack(queued, call->replies, &record);
        reply_add(replies, server_call(call->server, call->connection, redis_command_find(arguments[0]), arguments,
                                       record.count, CALL_IN_TRANSACTION));
        queued += record.length;
    }
    return replies;
}

struct reply *command_exec(struct command_call *call)
{
    struct server_connection *connection = call->connection;
    if (!connection->is_queueing)
        return reply_error(call->replies, "ERR EXEC without MULTI");
    struct reply *reply = NULL;
    if (connection->is_spoilt)
        reply = reply_error(call->replies, "EXECABORT Transaction discarded because of previous errors.");
    struct buffer queued = connection->queued;
    size_t count = connection->queued_count;
    connection->queued = (struct buffer){0};
    transaction_forget(connection);
    if (reply == NULL)
        reply = queued_run(call, queued.bytes, count);
    buffer_fini(&queued);
    return reply;
}
