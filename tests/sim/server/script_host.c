#include "tests/sim/server/script_host.h"

#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <lua5.1/lualib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "queue/digest.h"
#include "tests/sim/server/redis_commands.h"
#include "tests/sim/server/script_json.h"

enum { ARGUMENTS_MAX = 8000 };

struct script_host {
    lua_State *lua;
    const struct script_call *call; /* of the script that runs */
    struct table scripts;           /* by digest; each item's text is the struct script */
    int error_handler;
};

static struct script_host *host_of(lua_State *lua)
{
    return lua_touserdata(lua, lua_upvalueindex(1));
}

/* --- replies ------------------------------------------------------------------------------------------------------ */

static int push_table_of_one(lua_State *lua, const char *field, struct text text)
{
    lua_createtable(lua, 0, 1);
    lua_pushlstring(lua, text.bytes, text.length);
    lua_setfield(lua, -2, field);
    return 1;
}

static void reply_push(lua_State *lua, const struct reply *reply)
{
    luaL_checkstack(lua, 4, "reply");
    switch (reply->kind) {
    case REPLY_NIL:
    case REPLY_NIL_ARRAY:
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
    case REPLY_SEVERAL:
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
    /* The length that Lua tells may be any number before a nil. */
    size_t count = 0;
    for (bool ends = false; !ends; count += !ends) {
        lua_rawgeti(lua, index, (int)count + 1);
        ends = lua_isnil(lua, -1);
        lua_pop(lua, 1);
    }
    struct reply *reply = reply_array(replies, count);
    for (size_t i = 1; i <= count; i++) {
        lua_rawgeti(lua, index, (int)i);
        reply_add(reply, reply_from(lua, replies, lua_gettop(lua)));
        lua_pop(lua, 1);
    }
    return reply;
}

static struct reply *reply_from(lua_State *lua, struct replies *replies, int index)
{
    luaL_checkstack(lua, 4, "reply");
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

/* --- what scripts call -------------------------------------------------------------------------------------------- */

static struct reply *command_run(struct script_host *host)
{
    struct replies *replies = host->call->replies;
    lua_State *lua = host->lua;
    int count = lua_gettop(lua);
    if (count == 0)
        return reply_error(replies, "ERR Please specify at least one argument for this redis lib call");
    if (count > ARGUMENTS_MAX)
        luaL_error(lua, "too many arguments");
    struct text *arguments = replies_take(replies, (size_t)count * sizeof *arguments);
    for (int i = 1; i <= count; i++) {
        if (lua_type(lua, i) == LUA_TSTRING)
            arguments[i - 1] = text_at(lua, i);
        else if (lua_type(lua, i) == LUA_TNUMBER)
            arguments[i - 1] = replies_format(replies, "%.17g", (double)lua_tonumber(lua, i));
        else
            return reply_error(replies, "ERR Lua redis lib command arguments must be strings or integers");
    }
    return host->call->command(host->call->context, arguments, (size_t)count);
}

static int redis_call(lua_State *lua)
{
    const struct reply *reply = command_run(host_of(lua));
    reply_push(lua, reply);
    return reply->kind == REPLY_ERROR ? lua_error(lua) : 1;
}

static int redis_pcall(lua_State *lua)
{
    reply_push(lua, command_run(host_of(lua)));
    return 1;
}

/* Of a text that begins with its code. */
static int redis_error_reply(lua_State *lua)
{
    luaL_checkstring(lua, 1);
    return push_table_of_one(lua, "err", text_at(lua, 1));
}

static int redis_sha1hex(lua_State *lua)
{
    char hex[DIGEST_TEXT_SIZE];
    if (lua_gettop(lua) != 1)
        luaL_error(lua, "wrong number of arguments");
    struct text text = text_at(lua, 1);
    digest_text(text.bytes, text.length, hex);
    lua_pushstring(lua, hex);
    return 1;
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

/* Notes where it happened, as servers do. */
static int error_handle(lua_State *lua)
{
    lua_Debug where;
    bool is_known = lua_getstack(lua, 1, &where) != 0 && lua_getinfo(lua, "Sl", &where) != 0;
    if (is_known && strcmp(where.what, "C") == 0)
        is_known = lua_getstack(lua, 2, &where) != 0 && lua_getinfo(lua, "Sl", &where) != 0;
    if (lua_type(lua, 1) != LUA_TTABLE) {
        lua_pushliteral(lua, "ERR ");
        if (lua_isstring(lua, 1))
            lua_pushvalue(lua, 1);
        else
            lua_pushstring(lua, luaL_typename(lua, 1));
        lua_concat(lua, 2);
        push_table_of_one(lua, "err", text_at(lua, -1));
        lua_replace(lua, 1);
    }
    if (is_known) {
        lua_pushfstring(lua, "%s:%d", where.source, where.currentline);
        lua_setfield(lua, 1, "where");
    }
    lua_settop(lua, 1);
    return 1;
}

static struct reply *error_tell(lua_State *lua, const struct script *script, struct replies *replies)
{
    int at = lua_gettop(lua);
    if (lua_type(lua, at) != LUA_TTABLE)
        return reply_error(replies, lua_isstring(lua, at) ? lua_tostring(lua, at) : "ERR execution failure");
    lua_getfield(lua, at, "err");
    lua_getfield(lua, at, "where");
    const char *text = lua_tostring(lua, -2), *where = lua_tostring(lua, -1);
    text = text != NULL ? text : "ERR unknown error";
    if (where == NULL)
        return reply_error(replies, text);
    return reply_error(replies, replies_format(replies, "%s script: %s, on %s.", text, script->sha1, where).bytes);
}

/* As of Lua, but what a command has raised is its text. */
static int protected_call(lua_State *lua)
{
    luaL_checkany(lua, 1);
    lua_pushboolean(lua, 1);
    lua_insert(lua, 1);
    if (lua_pcall(lua, lua_gettop(lua) - 2, LUA_MULTRET, 0) == 0)
        return lua_gettop(lua);
    if (lua_type(lua, -1) == LUA_TTABLE) {
        lua_getfield(lua, -1, "err");
        if (lua_isstring(lua, -1))
            lua_remove(lua, -2);
        else
            lua_pop(lua, 1);
    }
    lua_pushboolean(lua, 0);
    lua_insert(lua, -2);
    return 2;
}

static int global_missing(lua_State *lua)
{
    const char *name = lua_tostring(lua, 2);
    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'", name != NULL ? name : "?");
}

static int global_made(lua_State *lua)
{
    return luaL_error(lua, "Attempt to modify a readonly table");
}

/* --- the host ----------------------------------------------------------------------------------------------------- */

static void functions_set(struct script_host *host, const char *table, const luaL_Reg *functions)
{
    lua_newtable(host->lua);
    for (; functions->name != NULL; functions++) {
        lua_pushlightuserdata(host->lua, host);
        lua_pushcclosure(host->lua, functions->func, 1);
        lua_setfield(host->lua, -2, functions->name);
    }
    lua_setglobal(host->lua, table);
}

/* What a server does not have, and what would not be the same in each run. */
static void globals_close(lua_State *lua)
{
    static const char *const gone[] = {"dofile",  "loadfile", "print",  "io",       "os",
                                       "package", "require",  "module", "newproxy", "debug"};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        lua_pushnil(lua);
        lua_setglobal(lua, gone[i]);
    }
    lua_pushcfunction(lua, protected_call);
    lua_setglobal(lua, "pcall");
    lua_getglobal(lua, "math");
    lua_pushnil(lua);
    lua_setfield(lua, -2, "random");
    lua_pushvalue(lua, LUA_GLOBALSINDEX);
    lua_createtable(lua, 0, 2);
    lua_pushcfunction(lua, global_missing);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, global_made);
    lua_setfield(lua, -2, "__newindex");
    lua_setmetatable(lua, -2);
}

static struct script_host *script_host_create(void)
{
    static const luaL_Reg redis[] = {{"call", redis_call},
                                     {"pcall", redis_pcall},
                                     {"error_reply", redis_error_reply},
                                     {"sha1hex", redis_sha1hex},
                                     {NULL, NULL}};
    static const luaL_Reg cjson[] = {{"decode", script_json_decode}, {NULL, NULL}};
    struct script_host *host = memory_new(struct script_host);
    host->lua = luaL_newstate();
    luaL_openlibs(host->lua);
    functions_set(host, "redis", redis);
    functions_set(host, "cjson", cjson);
    globals_close(host->lua);
    lua_pushcfunction(host->lua, error_handle);
    host->error_handler = luaL_ref(host->lua, LUA_REGISTRYINDEX);
    lua_settop(host->lua, 0);
    return host;
}

struct script_host *script_host_shared(void)
{
    static struct script_host *shared;
    if (shared == NULL)
        shared = script_host_create();
    return shared;
}

/* --- scripts ------------------------------------------------------------------------------------------------------ */

const struct script *script_find(const struct script_host *host, const char sha1[static 40])
{
    const struct item *item = table_find(&host->scripts, (struct text){sha1, 40});
    return item == NULL ? NULL : (const struct script *)(const void *)item->text;
}

/* The text tells sooner than its digest. */
static const struct script *script_of_source(const struct script_host *host, struct text source)
{
    size_t position = 0;
    for (struct item *item; (item = table_next(&host->scripts, &position)) != NULL;) {
        const struct script *script = (const struct script *)(const void *)item->text;
        if (text_is((struct text){script->source, script->length}, source))
            return script;
    }
    return NULL;
}

const struct script *script_load(struct script_host *host, struct text source, struct replies *replies,
                                 struct reply **wrong)
{
    const struct script *known = script_of_source(host, source);
    if (known != NULL)
        return known;
    if (luaL_loadbuffer(host->lua, source.bytes, source.length, "@user_script") != 0) {
        *wrong = reply_error(replies, replies_format(replies, "ERR Error compiling script (new function): %s",
                                                     lua_tostring(host->lua, -1))
                                          .bytes);
        lua_settop(host->lua, 0);
        return NULL;
    }
    struct script script = {.function = luaL_ref(host->lua, LUA_REGISTRYINDEX), .length = source.length};
    script.source = memory_text_of(source.bytes, source.length);
    digest_text(source.bytes, source.length, script.sha1);
    item_set_text(table_add(&host->scripts, (struct text){script.sha1, 40}),
                  (struct text){(const char *)&script, sizeof script});
    return script_find(host, script.sha1);
}

void script_call_by(struct script_host *host, struct text source, const char *name)
{
    struct reply *wrong = NULL;
    struct replies replies = {0};
    const struct script *script = script_load(host, source, &replies, &wrong);
    invariant(script != NULL);
    struct item *item = table_find(&host->scripts, (struct text){script->sha1, 40});
    ((struct script *)(void *)item->text)->name = name;
    replies_fini(&replies);
}

static void table_set(lua_State *lua, const char *name, const struct text *texts, size_t count)
{
    lua_pushstring(lua, name);
    lua_createtable(lua, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(lua, texts[i].bytes, texts[i].length);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    lua_rawset(lua, LUA_GLOBALSINDEX);
}

struct reply *script_run(struct script_host *host, const struct script *script, const struct script_call *call)
{
    lua_State *lua = host->lua;
    host->call = call;
    lua_rawgeti(lua, LUA_REGISTRYINDEX, host->error_handler);
    table_set(lua, "KEYS", call->arguments, call->keys);
    table_set(lua, "ARGV", call->arguments + call->keys, call->count - call->keys);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, script->function);
    int failed = lua_pcall(lua, 0, 1, 1);
    struct reply *reply =
        failed != 0 ? error_tell(lua, script, call->replies) : reply_from(lua, call->replies, lua_gettop(lua));
    lua_settop(lua, 0);
    host->call = NULL;
    return reply;
}
