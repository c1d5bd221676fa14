/* ACL, AUTH: who may run which commands, and use channels. Of the rules those that name a command, or everything. */
#include <stdlib.h>

#include "base/memory.h"
#include "tests/sim/server/server_private.h"

struct user {
    struct list link; /* of the server */
    char *name;
    char *password; /* NULL = none */
    bool is_on, needs_no_password, may_use_channels;
    bool may_all;            /* commands, but for the exceptions; else only those */
    struct table exceptions; /* names of commands */
};

static struct user *user_find(const struct server *server, struct text name)
{
    for (const struct list *link = server->users.next; link != &server->users; link = link->next) {
        struct user *user = list_owner(link, struct user, link);
        if (text_is(text_of(user->name), name))
            return user;
    }
    return NULL;
}

static struct user *user_create(struct server *server, struct text name)
{
    struct user *user = memory_new(struct user);
    user->name = memory_text(name.bytes);
    list_init(&user->link);
    list_append(&server->users, &user->link);
    return user;
}

static void user_free(struct user *user)
{
    list_remove(&user->link);
    table_clear(&user->exceptions);
    free(user->name);
    free(user->password);
    free(user);
}

static void user_set_password(struct user *user, const char *password)
{
    free(user->password);
    user->password = password != NULL ? memory_text(password) : NULL;
    user->needs_no_password = password == NULL;
}

void users_init(struct server *server, const char *password)
{
    list_init(&server->users);
    struct user *user = user_create(server, text_of("default"));
    user->is_on = user->may_all = user->may_use_channels = true;
    user_set_password(user, password);
}

void users_fini(struct server *server)
{
    while (!list_is_empty(&server->users))
        user_free(list_owner(server->users.next, struct user, link));
}

void connection_begin_user(struct server_connection *connection)
{
    struct user *user = user_find(connection->server, text_of("default"));
    connection->user = user->is_on && user->needs_no_password ? user : NULL;
}

const char *connection_user_name(const struct server_connection *connection)
{
    return connection->user != NULL ? connection->user->name : "default";
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static bool command_is(const struct command *command, const char *name)
{
    return strcmp(command->name, name) == 0;
}

static bool user_may(const struct user *user, const struct command *command)
{
    return (table_find(&user->exceptions, text_of(command->name)) != NULL) != user->may_all;
}

static bool needs_channels(const struct command *command)
{
    return command_is(command, "publish") || command_is(command, "subscribe");
}

const char *user_refusal(const struct server_connection *connection, const struct command *command)
{
    const struct user *user = connection->user;
    if (user == NULL || (command->flags & COMMAND_STRANGER) != 0)
        return NULL;
    if (!user_may(user, command))
        return replies_format(&connection->server->replies,
                              "NOPERM this user has no permissions to run the '%s' command", command->name)
            .bytes;
    if (needs_channels(command) && !user->may_use_channels)
        return "NOPERM this user has no permissions to access one of the channels used as arguments";
    return NULL;
}

const char *user_refusal_in_script(const struct server_connection *connection, const struct command *command)
{
    const struct user *user = connection->user;
    if (user == NULL)
        return NULL;
    if (!user_may(user, command))
        return "ERR The user executing the script can't run this command or subcommand";
    if (needs_channels(command) && !user->may_use_channels)
        return "ERR The user executing the script can't publish to the channel mentioned in the command";
    return NULL;
}

/* --- ACL ---------------------------------------------------------------------------------------------------------- */

static void user_allow_all(struct user *user, bool may)
{
    user->may_all = may;
    table_clear(&user->exceptions);
}

static void user_allow(struct user *user, const struct command *command, bool may)
{
    struct item *item = table_find(&user->exceptions, text_of(command->name));
    if (may == user->may_all && item != NULL)
        table_remove(&user->exceptions, item);
    else if (may != user->may_all && item == NULL)
        table_add(&user->exceptions, text_of(command->name));
}

/* Why the rule is not taken; NULL = it is. Keys are everybody's. */
static const char *user_change(struct user *user, struct text rule)
{
    const struct command *command =
        rule.length > 1 ? redis_command_find((struct text){rule.bytes + 1, rule.length - 1}) : NULL;
    bool adds = rule.bytes[0] == '+';
    if (text_is(rule, text_of("on")) || text_is(rule, text_of("off")))
        user->is_on = rule.length == 2;
    else if (text_is(rule, text_of("nopass")))
        user_set_password(user, NULL);
    else if (rule.bytes[0] == '>')
        user_set_password(user, rule.bytes + 1);
    else if (text_is(rule, text_of("allchannels")) || text_is(rule, text_of("&*")))
        user->may_use_channels = true;
    else if (text_is(rule, text_of("resetchannels")))
        user->may_use_channels = false;
    else if (text_is(rule, text_of("+@all")) || text_is(rule, text_of("-@all")))
        user_allow_all(user, adds);
    else if ((adds || rule.bytes[0] == '-') && command != NULL)
        user_allow(user, command, adds);
    else if (adds || rule.bytes[0] == '-')
        return "Unknown command or category name in ACL";
    else if (!text_is(rule, text_of("~*")))
        return "Syntax error";
    return NULL;
}

/* Those of the user who listen. */
static void listeners_kill(struct server *server, const struct user *user)
{
    for (struct list *link = server->connections.next, *next; link != &server->connections; link = next) {
        struct server_connection *connection = list_owner(link, struct server_connection, link);
        next = link->next;
        if (connection->user == user && connection_listens(connection))
            connection_kill(connection);
    }
}

static struct reply *acl_setuser(struct command_call *call)
{
    struct user *user = user_find(call->server, call->arguments[2]);
    if (user == NULL)
        user = user_create(call->server, call->arguments[2]);
    for (size_t i = 3; i < call->count; i++) {
        const char *wrong = user_change(user, call->arguments[i]);
        if (wrong != NULL)
            return reply_error(call->replies,
                               replies_format(call->replies, "ERR Error in ACL SETUSER modifier '%s': %s",
                                              call->arguments[i].bytes, wrong)
                                   .bytes);
    }
    if (!user->may_use_channels)
        listeners_kill(call->server, user);
    return reply_status(call->replies, "OK");
}

static void user_forget(struct server *server, struct user *user)
{
    for (struct list *link = server->connections.next, *next; link != &server->connections; link = next) {
        struct server_connection *connection = list_owner(link, struct server_connection, link);
        next = link->next;
        if (connection->user != user)
            continue;
        connection->user = NULL;
        if (connection == server->caller)
            connection->closes_after_reply = true;
        else
            connection_kill(connection);
    }
    user_free(user);
}

static struct reply *acl_deluser(struct command_call *call)
{
    long long gone = 0;
    for (size_t i = 2; i < call->count; i++)
        if (text_is(call->arguments[i], text_of("default")))
            return reply_error(call->replies, "ERR The 'default' user cannot be removed");
    for (size_t i = 2; i < call->count; i++) {
        struct user *user = user_find(call->server, call->arguments[i]);
        if (user != NULL)
            user_forget(call->server, user);
        gone += user != NULL;
    }
    return reply_integer(call->replies, gone);
}

static struct reply *acl_whoami(struct command_call *call)
{
    return reply_bulk(call->replies, text_of(connection_user_name(call->connection)));
}

struct reply *command_acl(struct command_call *call)
{
    static const struct subcommand subcommands[] = {
        {"setuser", -3, acl_setuser}, {"deluser", -3, acl_deluser}, {"whoami", 2, acl_whoami}, {NULL, 0, NULL}};
    return subcommand_execute(call, subcommands);
}

/* --- AUTH --------------------------------------------------------------------------------------------------------- */

struct reply *command_auth(struct command_call *call)
{
    if (call->count > 3)
        return reply_syntax(call);
    struct user *user = user_find(call->server, call->count == 2 ? text_of("default") : call->arguments[1]);
    if (call->count == 2 && user->needs_no_password)
        return reply_error(call->replies, "ERR AUTH <password> called without any password configured for the default "
                                          "user. Are you sure your configuration is correct?");
    bool is_right = user != NULL && user->is_on &&
                    (user->needs_no_password ||
                     (user->password != NULL && text_is(call->arguments[call->count - 1], text_of(user->password))));
    if (!is_right)
        return reply_error(call->replies, "WRONGPASS invalid username-password pair or user is disabled.");
    call->connection->user = user;
    return reply_status(call->replies, "OK");
}
