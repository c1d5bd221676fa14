#include "tests/sim/queue/script_host.h"

#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <lua5.1/lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/digest.h"
#include "tests/sim/queue/redis_commands.h"

enum { SCRIPTS_MAX = 64 };

struct script_host {
    lua_State *lua;
    struct keyspace *space; /* of the script that runs */
    struct replies *replies;
    const struct redis_script *loaded[SCRIPTS_MAX];
    int functions[SCRIPTS_MAX];
    unsigned count;
    unsigned long long commands;
};

static struct script_host *host_of(lua_State *lua)
{
    return lua_touserdata(lua, lua_upvalueindex(1));
}

/* --- replies ------------------------------------------------------------------------------------------------- */

static void push_table_of_one(lua_State *lua, const char *field, struct text text)
{
    lua_createtable(lua, 0, 1);
    lua_pushlstring(lua, text.bytes, text.length);
    lua_setfield(lua, -2, field);
}

static void reply_push(lua_State *lua, const struct reply *reply)
{
    switch (reply->kind) {
    case REPLY_NIL:
        lua_pushboolean(lua, 0);
        break;
    case REPLY_INTEGER:
        lua_pushnumber(lua, (lua_Number)reply->integer);
        break;
    case REPLY_BULK:
        lua_pushlstring(lua, reply->text.bytes, reply->text.length);
        break;
    case REPLY_STATUS:
        push_table_of_one(lua, "ok", reply->text);
        break;
    case REPLY_ERROR:
        push_table_of_one(lua, "err", reply->text);
        break;
    case REPLY_ARRAY:
        lua_createtable(lua, (int)reply->count, 0);
        for (size_t i = 0; i < reply->count; i++) {
            reply_push(lua, reply->items[i]);
            lua_rawseti(lua, -2, (int)i + 1);
        }
        break;
    }
}

static struct text text_at(lua_State *lua, int index)
{
    struct text text;
    text.bytes = lua_tolstring(lua, index, &text.length);
    return text;
}

static struct reply *reply_from(lua_State *lua, struct replies *replies, int index);

static struct reply *reply_from_table(lua_State *lua, struct replies *replies, int index)
{
    static const char *const fields[] = {"err", "ok"};
    for (unsigned i = 0; i < 2; i++) {
        lua_getfield(lua, index, fields[i]);
        if (lua_type(lua, -1) == LUA_TSTRING) {
            const char *text = lua_tostring(lua, -1);
            struct reply *reply = i == 0 ? reply_error(replies, text) : reply_status(replies, text);
            lua_pop(lua, 1);
            return reply;
        }
        lua_pop(lua, 1);
    }
    struct reply *reply = reply_array(replies, lua_objlen(lua, index) + 1);
    for (int i = 1; i <= (int)lua_objlen(lua, index); i++) {
        lua_rawgeti(lua, index, i);
        bool ends = lua_isnil(lua, -1);
        if (!ends)
            reply_add(reply, reply_from(lua, replies, lua_gettop(lua)));
        lua_pop(lua, 1);
        if (ends)
            break;
    }
    return reply;
}

static struct reply *reply_from(lua_State *lua, struct replies *replies, int index)
{
    switch (lua_type(lua, index)) {
    case LUA_TSTRING:
        return reply_bulk(replies, text_at(lua, index));
    case LUA_TNUMBER:
        return reply_integer(replies, (long long)lua_tonumber(lua, index));
    case LUA_TBOOLEAN:
        return lua_toboolean(lua, index) ? reply_integer(replies, 1) : reply_nil(replies);
    case LUA_TTABLE:
        return reply_from_table(lua, replies, index);
    default:
        return reply_nil(replies);
    }
}

/* --- what scripts call ------------------------------------------------------------------------------------------ */

/* Numbers as servers write those of scripts. */
static bool argument_read(struct script_host *host, int index, struct text *argument)
{
    if (lua_type(host->lua, index) == LUA_TNUMBER) {
        char text[64];
        snprintf(text, sizeof text, "%.17g", (double)lua_tonumber(host->lua, index));
        *argument = replies_text(host->replies, text_of(text));
        return true;
    }
    if (lua_type(host->lua, index) != LUA_TSTRING)
        return false;
    *argument = text_at(host->lua, index);
    return true;
}

static struct reply *command_run(struct script_host *host)
{
    struct text arguments[COMMAND_ARGUMENTS_MAX];
    int count = lua_gettop(host->lua);
    host->commands++;
    if (count == 0 || count > COMMAND_ARGUMENTS_MAX)
        return reply_error(host->replies, "ERR Please specify at least one argument for this redis.call() call");
    for (int i = 0; i < count; i++)
        if (!argument_read(host, i + 1, &arguments[i]))
            return reply_error(host->replies, "ERR Lua redis lib command arguments must be strings or integers");
    return redis_execute(host->space, host->replies, arguments, (size_t)count);
}

static int redis_call(lua_State *lua)
{
    struct reply *reply = command_run(host_of(lua));
    reply_push(lua, reply);
    return reply->kind == REPLY_ERROR ? lua_error(lua) : 1;
}

static int redis_pcall(lua_State *lua)
{
    reply_push(lua, command_run(host_of(lua)));
    return 1;
}

static int redis_error_reply(lua_State *lua)
{
    push_table_of_one(lua, "err", text_at(lua, 1));
    return 1;
}

static int redis_sha1hex(lua_State *lua)
{
    struct text text = text_at(lua, 1);
    struct digest digest;
    char hex[DIGEST_TEXT_SIZE];
    digest_begin(&digest);
    digest_add(&digest, text.bytes, text.length);
    digest_end(&digest, hex);
    lua_pushstring(lua, hex);
    return 1;
}

/* --- the host ------------------------------------------------------------------------------------------------ */

struct script_host *script_host_create(void)
{
    static const struct {
        const char *name;
        lua_CFunction function;
    } functions[] = {
        {"call", redis_call}, {"pcall", redis_pcall}, {"error_reply", redis_error_reply}, {"sha1hex", redis_sha1hex}};
    struct script_host *host = memory_new(struct script_host);
    host->lua = luaL_newstate();
    luaL_openlibs(host->lua);
    lua_createtable(host->lua, 0, 4);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        lua_pushlightuserdata(host->lua, host);
        lua_pushcclosure(host->lua, functions[i].function, 1);
        lua_setfield(host->lua, -2, functions[i].name);
    }
    lua_setglobal(host->lua, "redis");
    return host;
}

void script_host_destroy(struct script_host *host)
{
    if (host == NULL)
        return;
    lua_close(host->lua);
    free(host);
}

static int function_of(struct script_host *host, const struct redis_script *script)
{
    for (unsigned i = 0; i < host->count; i++)
        if (host->loaded[i] == script)
            return host->functions[i];
    if (host->count == SCRIPTS_MAX || luaL_loadbuffer(host->lua, script->source, script->length, script->name) != 0) {
        fprintf(stderr, "script %s: %s\n", script->name,
                host->count == SCRIPTS_MAX ? "too many scripts" : lua_tostring(host->lua, -1));
        abort();
    }
    host->loaded[host->count] = script;
    host->functions[host->count] = luaL_ref(host->lua, LUA_REGISTRYINDEX);
    return host->functions[host->count++];
}

static void table_set(lua_State *lua, const char *name, const struct text *texts, size_t count)
{
    lua_createtable(lua, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(lua, texts[i].bytes, texts[i].length);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    lua_setglobal(lua, name);
}

static struct reply *reply_lua_error(struct replies *replies, const char *message)
{
    char text[512];
    snprintf(text, sizeof text, "ERR %s", message);
    return reply_error(replies, text);
}

struct reply *script_run(struct script_host *host, struct keyspace *space, struct replies *replies,
                         const struct redis_script *script, const struct text *arguments, size_t keys, size_t count)
{
    host->space = space;
    host->replies = replies;
    table_set(host->lua, "KEYS", arguments, keys);
    table_set(host->lua, "ARGV", arguments + keys, count - keys);
    lua_rawgeti(host->lua, LUA_REGISTRYINDEX, function_of(host, script));
    int failed = lua_pcall(host->lua, 0, 1, 0);
    struct reply *reply = NULL;
    if (failed != 0 && lua_type(host->lua, -1) == LUA_TSTRING)
        reply = reply_lua_error(replies, lua_tostring(host->lua, -1));
    else
        reply = reply_from(host->lua, replies, lua_gettop(host->lua));
    lua_settop(host->lua, 0);
    return reply;
}

unsigned long long script_host_commands(const struct script_host *host)
{
    return host->commands;
}
