#include "tests/sim/server/script_json.h"

#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 1000 };

struct scan {
    lua_State *lua;
    const char *at; /* NUL behind the text */
    unsigned depth;
};

static void value_push(struct scan *scan);

static void blanks_skip(struct scan *scan)
{
    scan->at += strspn(scan->at, " \t\r\n");
}

static void fail(struct scan *scan)
{
    luaL_error(scan->lua, "Expected value but found invalid token");
}

static void expect(struct scan *scan, char wanted)
{
    if (*scan->at != wanted)
        fail(scan);
    scan->at++;
}

static void code_point_add(luaL_Buffer *text, unsigned long code)
{
    if (code < 0x80) {
        luaL_addchar(text, (char)code);
        return;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    luaL_addchar(text, (char)(first[more] | (code >> (6 * more))));
    while (more-- > 0)
        luaL_addchar(text, (char)(0x80 | ((code >> (6 * more)) & 0x3f)));
}

static unsigned long hex_read(struct scan *scan)
{
    char digits[5] = "";
    for (unsigned i = 0; i < 4; i++) {
        if (strchr("0123456789abcdefABCDEF", scan->at[i]) == NULL || scan->at[i] == '\0')
            fail(scan);
        digits[i] = scan->at[i];
    }
    scan->at += 4;
    return strtoul(digits, NULL, 16);
}

static void escape_push(struct scan *scan, luaL_Buffer *text)
{
    static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char letter = *scan->at++;
    const char *found = letter != '\0' ? strchr(plain, letter) : NULL;
    if (found != NULL) {
        luaL_addchar(text, meant[found - plain]);
        return;
    }
    if (letter != 'u')
        fail(scan);
    unsigned long code = hex_read(scan);
    if (code >= 0xd800 && code < 0xdc00) {
        expect(scan, '\\');
        expect(scan, 'u');
        code = 0x10000 + ((code - 0xd800) << 10) + (hex_read(scan) - 0xdc00);
    }
    code_point_add(text, code);
}

static void string_push(struct scan *scan)
{
    luaL_Buffer text;
    luaL_buffinit(scan->lua, &text);
    expect(scan, '"');
    while (*scan->at != '"') {
        if ((unsigned char)*scan->at < 0x20)
            fail(scan);
        if (*scan->at == '\\') {
            scan->at++;
            escape_push(scan, &text);
        } else {
            luaL_addchar(&text, *scan->at++);
        }
    }
    scan->at++;
    luaL_pushresult(&text);
}

static void number_push(struct scan *scan)
{
    char *end = NULL;
    double number = strtod(scan->at, &end);
    if (end == scan->at)
        fail(scan);
    scan->at = end;
    lua_pushnumber(scan->lua, number);
}

static void object_push(struct scan *scan)
{
    lua_newtable(scan->lua);
    expect(scan, '{');
    blanks_skip(scan);
    while (*scan->at != '}') {
        string_push(scan);
        blanks_skip(scan);
        expect(scan, ':');
        value_push(scan);
        lua_rawset(scan->lua, -3);
        blanks_skip(scan);
        if (*scan->at == '}')
            break;
        expect(scan, ',');
        blanks_skip(scan);
        if (*scan->at == '}')
            fail(scan);
    }
    scan->at++;
}

static void array_push(struct scan *scan)
{
    lua_newtable(scan->lua);
    expect(scan, '[');
    blanks_skip(scan);
    for (int i = 1; *scan->at != ']'; i++) {
        value_push(scan);
        lua_rawseti(scan->lua, -2, i);
        blanks_skip(scan);
        if (*scan->at == ']')
            break;
        expect(scan, ',');
        blanks_skip(scan);
        if (*scan->at == ']')
            fail(scan);
    }
    scan->at++;
}

static bool word_takes(struct scan *scan, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(scan->at, word, length) != 0)
        return false;
    scan->at += length;
    return true;
}

static void value_push(struct scan *scan)
{
    if (++scan->depth > DEPTH_MAX)
        luaL_error(scan->lua, "Found too many nested data structures (%d)", DEPTH_MAX + 1);
    luaL_checkstack(scan->lua, 8, "JSON");
    blanks_skip(scan);
    if (*scan->at == '{')
        object_push(scan);
    else if (*scan->at == '[')
        array_push(scan);
    else if (*scan->at == '"')
        string_push(scan);
    else if (word_takes(scan, "true"))
        lua_pushboolean(scan->lua, 1);
    else if (word_takes(scan, "false"))
        lua_pushboolean(scan->lua, 0);
    else if (word_takes(scan, "null"))
        lua_pushlightuserdata(scan->lua, NULL);
    else
        number_push(scan);
    scan->depth--;
}

int script_json_decode(lua_State *lua)
{
    size_t length;
    struct scan scan = {.lua = lua, .at = luaL_checklstring(lua, 1, &length)};
    const char *end = scan.at + length;
    value_push(&scan);
    blanks_skip(&scan);
    if (scan.at != end)
        luaL_error(lua, "Expected the end but found invalid token");
    return 1;
}
