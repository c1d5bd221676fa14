/* CLIENT, and the other commands about a connection. */

#include "tests/sim/server/server_private.h"

struct reply *subcommand_execute(struct command_call *call, const struct subcommand *subcommands)
{
    struct replies *replies = call->replies;
    for (; subcommands->name != NULL; subcommands++) {
        const struct command arity = {.name = "", .arity = subcommands->arity};
        if (!call_says(call, 1, subcommands->name))
            continue;
        if (command_takes(&arity, call->count))
            return subcommands->execute(call);
        return reply_error(replies, replies_format(replies, "ERR wrong number of arguments for '%s|%s' command",
                                                   call->command->name, subcommands->name)
                                        .bytes);
    }
    char upper[32];
    size_t length = strlen(call->command->name);
    for (size_t i = 0; i <= length; i++)
        upper[i] = (char)(call->command->name[i] - (call->command->name[i] >= 'a' ? 32 : 0));
    return reply_error(replies, replies_format(replies, "ERR unknown subcommand '%.128s'. Try %s HELP.",
                                               call->arguments[1].bytes, upper)
                                    .bytes);
}

static struct reply *reply_ok(struct command_call *call)
{
    return reply_status(call->replies, "OK");
}

/* --- CLIENT ------------------------------------------------------------------------------------------------------- */

static struct reply *client_id(struct command_call *call)
{
    return reply_integer(call->replies, (long long)call->connection->id);
}

static struct reply *client_setname(struct command_call *call)
{
    struct buffer *name = &call->connection->name;
    for (size_t i = 0; i < call->arguments[2].length; i++)
        if (call->arguments[2].bytes[i] < '!' || call->arguments[2].bytes[i] > '~')
            return reply_error(call->replies,
                               "ERR Client names cannot contain spaces, newlines or special characters.");
    buffer_clear(name);
    buffer_append(name, call->arguments[2].bytes, call->arguments[2].length);
    (void)buffer_text(name);
    return reply_ok(call);
}

static void connection_describe(const struct server_connection *connection, struct buffer *out)
{
    const struct server *server = connection->server;
    long long now_us = server->space.now_us;
    const char *flags = connection_listens(connection) ? "P"
                        : connection->is_blocked       ? "b"
                        : connection->is_queueing      ? "x"
                                                       : "N";
    buffer_format(out,
                  "id=%llu addr=%s laddr=%s:%u fd=8 name=%s age=%lld idle=%lld flags=%s db=0 sub=%zu psub=0 ssub=0 "
                  "multi=%lld qbuf=0 qbuf-free=20474 argv-mem=10 multi-mem=0 rbs=1024 rbp=0 obl=0 oll=0 omem=0 "
                  "tot-mem=22298 events=r cmd=%s user=%s redir=-1 resp=2",
                  connection->id, connection->address, server->host, server->port, server_connection_name(connection),
                  (now_us - connection->began_us) / 1000000, (now_us - connection->last_us) / 1000000, flags,
                  connection->channels.count, connection->is_queueing ? (long long)connection->queued_count : -1LL,
                  connection->last != NULL ? connection->last->name : "NULL", connection_user_name(connection));
}

static struct reply *client_info(struct command_call *call)
{
    struct buffer text = {0};
    connection_describe(call->connection, &text);
    buffer_append(&text, "\n", 1);
    struct reply *reply = reply_bulk(call->replies, (struct text){text.bytes, text.length});
    buffer_fini(&text);
    return reply;
}

static struct reply *client_list(struct command_call *call)
{
    struct buffer text = {0};
    if (call->count > 2)
        return reply_syntax(call);
    for (struct list *link = call->server->connections.next; link != &call->server->connections; link = link->next) {
        connection_describe(list_owner(link, struct server_connection, link), &text);
        buffer_append(&text, "\n", 1);
    }
    struct reply *reply = reply_bulk(call->replies, (struct text){text.bytes, text.length});
    buffer_fini(&text);
    return reply;
}

/* --- CLIENT KILL -------------------------------------------------------------------------------------------------- */

struct kill_filter {
    long long id; /* 0 = any */
    const char *address, *type;
    bool takes_me;
};

static const char *const client_types[] = {"normal", "pubsub", "replica", "slave", "master"};

static struct reply *kill_filter_read(struct command_call *call, struct kill_filter *filter)
{
    for (size_t i = 2; i < call->count; i += 2) {
        bool has_value = i + 1 < call->count;
        if (has_value && call_says(call, i, "ID")) {
            if (!call_integer(call, i + 1, &filter->id) || filter->id <= 0)
                return reply_error(call->replies, "ERR client-id should be greater than 0");
        } else if (has_value && call_says(call, i, "ADDR")) {
            filter->address = call->arguments[i + 1].bytes;
        } else if (has_value && call_says(call, i, "TYPE")) {
            for (size_t type = 0; type < sizeof client_types / sizeof client_types[0]; type++)
                if (call_says(call, i + 1, client_types[type]))
                    filter->type = client_types[type];
            if (filter->type == NULL)
                return reply_error(
                    call->replies,
                    replies_format(call->replies, "ERR Unknown client type '%s'", call->arguments[i + 1].bytes).bytes);
        } else if (has_value && call_says(call, i, "SKIPME")) {
            filter->takes_me = call_says(call, i + 1, "no");
            if (!filter->takes_me && !call_says(call, i + 1, "yes"))
                return reply_syntax(call);
        } else {
            return reply_syntax(call);
        }
    }
    return NULL;
}

static bool kill_fits(const struct server_connection *connection, const struct kill_filter *filter,
                      const struct server_connection *me)
{
    const char *type = connection_listens(connection) ? "pubsub" : "normal";
    return (filter->id == 0 || connection->id == (unsigned long long)filter->id) &&
           (filter->address == NULL || strcmp(connection->address, filter->address) == 0) &&
           (filter->type == NULL || strcmp(type, filter->type) == 0) && (connection != me || filter->takes_me);
}

/* A client that kills itself gets its reply first. */
static long long kill_those(struct command_call *call, const struct kill_filter *filter)
{
    long long killed = 0;
    for (struct list *link = call->server->connections.next, *next; link != &call->server->connections; link = next) {
        struct server_connection *connection = list_owner(link, struct server_connection, link);
        next = link->next;
        if (!kill_fits(connection, filter, call->connection))
            continue;
        killed++;
        if (connection == call->connection)
            connection->closes_after_reply = true;
        else
            connection_kill(connection);
    }
    return killed;
}

static struct reply *client_kill(struct command_call *call)
{
    struct kill_filter filter = {.id = 0};
    struct reply *wrong = kill_filter_read(call, &filter);
    return wrong != NULL ? wrong : reply_integer(call->replies, kill_those(call, &filter));
}

static struct reply *client_unblock(struct command_call *call)
{
    long long id;
    bool with_error = call->count == 4 && call_says(call, 3, "ERROR");
    if (call->count > 4 || (call->count == 4 && !with_error && !call_says(call, 3, "TIMEOUT")))
        return call->count == 4 ? reply_error(call->replies, "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
                                : reply_syntax(call);
    if (!call_integer(call, 2, &id))
        return reply_not_integer(call);
    for (struct list *link = call->server->blocked.next; link != &call->server->blocked; link = link->next) {
        struct server_connection *connection = list_owner(link, struct server_connection, blocked_link);
        if (connection->id == (unsigned long long)id)
            return reply_integer(call->replies, blocked_end(connection, with_error));
    }
    return reply_integer(call->replies, 0);
}

struct reply *command_client(struct command_call *call)
{
    static const struct subcommand subcommands[] = {{"id", 2, client_id},
                                                    {"info", 2, client_info},
                                                    {"list", -2, client_list},
                                                    {"kill", -3, client_kill},
                                                    {"unblock", -3, client_unblock},
                                                    {"setname", 3, client_setname},
                                                    {NULL, 0, NULL}};
    return subcommand_execute(call, subcommands);
}

/* --- others ------------------------------------------------------------------------------------------------------- */

struct reply *command_ping(struct command_call *call)
{
    if (call->count > 2)
        return reply_wrong_arity(call->replies, call->command);
    if (call->connection != NULL && connection_listens(call->connection)) {
        struct reply *both = reply_array(call->replies, 2);
        reply_add(both, reply_bulk(call->replies, text_of("pong")));
        reply_add(both, reply_bulk(call->replies, call->count == 2 ? call->arguments[1] : text_of("")));
        return both;
    }
    return call->count == 2 ? reply_bulk(call->replies, call->arguments[1]) : reply_status(call->replies, "PONG");
}

struct reply *command_echo(struct command_call *call)
{
    return reply_bulk(call->replies, call->arguments[1]);
}

struct reply *command_select(struct command_call *call)
{
    long long database;
    if (!call_integer(call, 1, &database))
        return reply_error(call->replies, "ERR value is not an integer or out of range");
    return database == 0 ? reply_ok(call) : reply_error(call->replies, "ERR DB index is out of range");
}

struct reply *command_quit(struct command_call *call)
{
    call->connection->closes_after_reply = true;
    return reply_ok(call);
}
