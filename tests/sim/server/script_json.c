#include "tests/sim/server/script_json.h"

#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "queue/json.h"

static void value_push(lua_State *lua, struct text_span value);

/* Without quotes when it is a name. False when Lua cannot be given it. */
static bool string_push(lua_State *lua, struct text_span quoted)
{
    struct buffer text = {0};
    bool is_read = json_string_read(quoted, &text);
    if (is_read)
        lua_pushlstring(lua, buffer_text(&text), text.length);
    buffer_fini(&text);
    return is_read;
}

static void object_push(lua_State *lua, struct text_span object)
{
    struct text_span name, value;
    lua_newtable(lua);
    for (size_t i = 0; json_object_element(object, i, &name, &value); i++) {
        struct text_span quoted = {name.bytes - 1, name.length + 2};
        if (!string_push(lua, quoted))
            luaL_error(lua, "Expected a name but found invalid unicode");
        value_push(lua, value);
        lua_rawset(lua, -3);
    }
}

static void array_push(lua_State *lua, struct text_span array)
{
    struct text_span element;
    lua_newtable(lua);
    for (int i = 0; (element = json_array_element(array, (size_t)i)).bytes != NULL; i++) {
        value_push(lua, element);
        lua_rawseti(lua, -2, i + 1);
    }
}

static void value_push(lua_State *lua, struct text_span value)
{
    luaL_checkstack(lua, 8, "JSON");
    switch (value.bytes[0]) {
    case '{':
        object_push(lua, value);
        break;
    case '[':
        array_push(lua, value);
        break;
    case '"':
        if (!string_push(lua, value))
            luaL_error(lua, "Expected value but found invalid unicode");
        break;
    case 't':
    case 'f':
        lua_pushboolean(lua, value.bytes[0] == 't');
        break;
    case 'n':
        lua_pushlightuserdata(lua, NULL);
        break;
    default:
        lua_pushnumber(lua, strtod(value.bytes, NULL)); /* what follows it is no digit */
    }
}

int script_json_decode(lua_State *lua)
{
    static const struct envelope_limits limits = {.size = SIZE_MAX, .depth = JSON_DEPTH_MAX, .keys = SIZE_MAX};
    struct text_span text;
    struct error error;
    text.bytes = luaL_checklstring(lua, 1, &text.length);
    if (!json_check(text.bytes, text.length, &limits, &error))
        return luaL_error(lua, "Expected value but found invalid token");
    while (strchr(" \t\r\n", *text.bytes) != NULL) {
        text.bytes++;
        text.length--;
    }
    value_push(lua, text);
    return 1;
}
