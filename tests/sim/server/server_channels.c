/* Subscriptions. */
#include "tests/sim/server/server_private.h"

/* A channel of the server counts who listens to it in the score. */

bool connection_listens(const struct server_connection *connection)
{
    return connection->channels.count + connection->patterns.count > 0;
}

static struct reply *change_tell(struct command_call *call, const char *word, const struct text *channel)
{
    struct reply *told = reply_array(call->replies, 3);
    const struct server_connection *connection = call->connection;
    reply_add(told, reply_bulk(call->replies, text_of(word)));
    reply_add(told, channel != NULL ? reply_bulk(call->replies, *channel) : reply_nil(call->replies));
    reply_add(told, reply_integer(call->replies, (long long)(connection->channels.count + connection->patterns.count)));
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

static struct reply *listen(struct command_call *call, struct table *table, const char *word, bool counts)
{
    struct reply *several = reply_several(call->replies, call->count);
    for (size_t i = 1; i < call->count; i++) {
        if (table_find(table, call->arguments[i]) == NULL) {
            table_add(table, call->arguments[i]);
            if (counts)
                listener_count(call->server, call->arguments[i], 1);
        }
        reply_add(several, change_tell(call, word, &call->arguments[i]));
    }
    return several;
}

static void listen_no_more(struct command_call *call, struct table *table, struct item *item, bool counts)
{
    if (counts)
        listener_count(call->server, item_name(item), -1);
    table_remove(table, item);
}

static struct reply *leave(struct command_call *call, struct table *table, const char *word, bool counts)
{
    size_t place = 0, most = call->count > 1 ? call->count : table->count + 1;
    struct reply *several = reply_several(call->replies, most);
    for (size_t i = 1; i < call->count; i++) {
        struct item *item = table_find(table, call->arguments[i]);
        if (item != NULL)
            listen_no_more(call, table, item, counts);
        reply_add(several, change_tell(call, word, &call->arguments[i]));
    }
    for (struct item *item; call->count == 1 && (item = table_next(table, &place)) != NULL;) {
        struct text channel = replies_text(call->replies, item_name(item));
        listen_no_more(call, table, item, counts);
        reply_add(several, change_tell(call, word, &channel));
    }
    if (several->count == 0)
        reply_add(several, change_tell(call, word, NULL));
    return several;
}

struct reply *command_subscribe(struct command_call *call)
{
    return listen(call, &call->connection->channels, "subscribe", true);
}

struct reply *command_unsubscribe(struct command_call *call)
{
    return leave(call, &call->connection->channels, "unsubscribe", true);
}

struct reply *command_psubscribe(struct command_call *call)
{
    return listen(call, &call->connection->patterns, "psubscribe", false);
}

struct reply *command_punsubscribe(struct command_call *call)
{
    return leave(call, &call->connection->patterns, "punsubscribe", false);
}

void channels_forget(struct server_connection *connection)
{
    size_t place = 0;
    for (struct item *item; (item = table_next(&connection->channels, &place)) != NULL;)
        listener_count(connection->server, item_name(item), -1);
    table_clear(&connection->channels);
    table_clear(&connection->patterns);
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static struct reply *message(struct command_call *call, const struct item *pattern)
{
    struct reply *told = reply_array(call->replies, 4);
    reply_add(told, reply_bulk(call->replies, text_of(pattern != NULL ? "pmessage" : "message")));
    if (pattern != NULL)
        reply_add(told, reply_bulk(call->replies, item_name(pattern)));
    reply_add(told, reply_bulk(call->replies, call->arguments[1]));
    reply_add(told, reply_bulk(call->replies, call->arguments[2]));
    return told;
}

static long long connection_tell(struct command_call *call, struct server_connection *connection)
{
    long long heard = 0;
    size_t place = 0;
    if (table_find(&connection->channels, call->arguments[1]) != NULL) {
        connection_write(connection, message(call, NULL));
        heard++;
    }
    for (struct item *item; (item = table_next(&connection->patterns, &place)) != NULL;)
        if (pattern_matches(item_name(item), call->arguments[1])) {
            connection_write(connection, message(call, item));
            heard++;
        }
    return heard;
}

struct reply *command_publish(struct command_call *call)
{
    long long heard = 0;
    for (struct list *link = call->server->connections.next; link != &call->server->connections; link = link->next)
        heard += connection_tell(call, list_owner(link, struct server_connection, link));
    return reply_integer(call->replies, heard);
}

/* --- PUBSUB ------------------------------------------------------------------------------------------------------- */

static struct reply *channels_tell(struct command_call *call)
{
    size_t place = 0;
    struct reply *channels = reply_array(call->replies, call->server->channels.count);
    for (struct item *item; (item = table_next(&call->server->channels, &place)) != NULL;)
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

static struct reply *patterns_count(struct command_call *call)
{
    struct table all = {.places = NULL};
    for (struct list *link = call->server->connections.next; link != &call->server->connections; link = link->next) {
        const struct server_connection *connection = list_owner(link, struct server_connection, link);
        size_t place = 0;
        for (struct item *item; (item = table_next(&connection->patterns, &place)) != NULL;)
            if (table_find(&all, item_name(item)) == NULL)
                table_add(&all, item_name(item));
    }
    struct reply *reply = reply_integer(call->replies, (long long)all.count);
    table_clear(&all);
    return reply;
}

struct reply *command_pubsub(struct command_call *call)
{
    static const struct subcommand subcommands[] = {{"channels", -2, channels_tell},
                                                    {"numpat", 2, patterns_count},
                                                    {"numsub", -2, listeners_tell},
                                                    {NULL, 0, NULL}};
    return subcommand_execute(call, subcommands);
}
