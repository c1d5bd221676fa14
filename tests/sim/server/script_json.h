/* cjson.decode for scripts. Private to the script host. */
#ifndef SIM_SCRIPT_JSON_H
#define SIM_SCRIPT_JSON_H

struct lua_State;

int script_json_decode(struct lua_State *lua);

#endif
