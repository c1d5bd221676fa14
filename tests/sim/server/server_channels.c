/* Subscriptions. */
#include "tests/sim/server/server_private.h"

/* A channel of the server counts who listens to it in the score. */

bool connection_listens(const struct server_connection *connection)
{
    return connection->channels.count > 0;
}

static struct reply *change_tell(struct command_call *call, const char *word, const struct text *channel)
{
    struct reply *told = reply_array(call->replies, 3);
    reply_add(told, reply_bulk(call->replies, text_of(word)));
    reply_add(told, channel != NULL ? reply_bulk(call->replies, *channel) : reply_nil(call->replies));
    reply_add(told, reply_integer(call->replies, (long long)call->connection->channels.count));
    return told;
}

static void listener_count(struct server *server, struct text channel, int step)
{
    struct item *item = table_find(&server->channels, channel);
    if (item == NULL)
        item = table_add(&server->channels, channel);
    item->score += step;
    if (item->score == 0)
        table_remove(&server->channels, item);
}

struct reply *command_subscribe(struct command_call *call)
{
    struct table *channels = &call->connection->channels;
    struct reply *several = reply_several(call->replies, call->count);
    for (size_t i = 1; i < call->count; i++) {
        if (table_find(channels, call->arguments[i]) == NULL) {
            table_add(channels, call->arguments[i]);
            listener_count(call->server, call->arguments[i], 1);
        }
        reply_add(several, change_tell(call, "subscribe", &call->arguments[i]));
    }
    return several;
}

static void channel_leave(struct server_connection *connection, struct item *channel)
{
    listener_count(connection->server, item_name(channel), -1);
    table_remove(&connection->channels, channel);
}

struct reply *command_unsubscribe(struct command_call *call)
{
    struct table *channels = &call->connection->channels;
    size_t position = 0, most = call->count > 1 ? call->count : channels->count + 1;
    struct reply *several = reply_several(call->replies, most);
    for (size_t i = 1; i < call->count; i++) {
        struct item *item = table_find(channels, call->arguments[i]);
        if (item != NULL)
            channel_leave(call->connection, item);
        reply_add(several, change_tell(call, "unsubscribe", &call->arguments[i]));
    }
    for (struct item *item; call->count == 1 && (item = table_next(channels, &position)) != NULL;) {
        struct text channel = replies_text(call->replies, item_name(item));
        channel_leave(call->connection, item);
        reply_add(several, change_tell(call, "unsubscribe", &channel));
    }
    if (several->count == 0)
        reply_add(several, change_tell(call, "unsubscribe", NULL));
    return several;
}

void channels_forget(struct server_connection *connection)
{
    size_t position = 0;
    for (struct item *item; (item = table_next(&connection->channels, &position)) != NULL;)
        listener_count(connection->server, item_name(item), -1);
    table_clear(&connection->channels);
}

struct reply *command_publish(struct command_call *call)
{
    long long heard = 0;
    struct reply *message = reply_array(call->replies, 3);
    reply_add(message, reply_bulk(call->replies, text_of("message")));
    reply_add(message, reply_bulk(call->replies, call->arguments[1]));
    reply_add(message, reply_bulk(call->replies, call->arguments[2]));
    for (struct list *link = call->server->connections.next; link != &call->server->connections; link = link->next) {
        struct server_connection *connection = list_owner(link, struct server_connection, link);
        if (table_find(&connection->channels, call->arguments[1]) == NULL)
            continue;
        connection_write(connection, message);
        heard++;
    }
    return reply_integer(call->replies, heard);
}

/* --- PUBSUB ------------------------------------------------------------------------------------------------------- */

static struct reply *channels_tell(struct command_call *call)
{
    size_t position = 0;
    struct reply *channels = reply_array(call->replies, call->server->channels.count);
    for (struct item *item; (item = table_next(&call->server->channels, &position)) != NULL;)
        if (call->count < 3 || pattern_matches(call->arguments[2], item_name(item)))
            reply_add(channels, reply_bulk(call->replies, item_name(item)));
    return channels;
}

static struct reply *listeners_tell(struct command_call *call)
{
    struct reply *told = reply_array(call->replies, 2 * call->count);
    for (size_t i = 2; i < call->count; i++) {
        const struct item *item = table_find(&call->server->channels, call->arguments[i]);
        reply_add(told, reply_bulk(call->replies, call->arguments[i]));
        reply_add(told, reply_integer(call->replies, item != NULL ? (long long)item->score : 0));
    }
    return told;
}

struct reply *command_pubsub(struct command_call *call)
{
    static const struct subcommand subcommands[] = {
        {"channels", -2, channels_tell}, {"numsub", -2, listeners_tell}, {NULL, 0, NULL}};
    return subcommand_execute(call, subcommands);
}
