/* Runs Lua scripts as a Redis server does: Lua 5.1; KEYS and ARGV; `redis.call`, `pcall`, `error_reply` and `sha1hex`;
 * `cjson.decode`. Numbers of a reply lose their fraction, nil ends an array, an error ends the script. One host serves
 * all simulated servers of the process: what a script remembers is in their keyspaces, nothing is in Lua, so each is
 * compiled once. */
#ifndef SIM_SCRIPT_HOST_H
#define SIM_SCRIPT_HOST_H

#include "tests/sim/server/redis_reply.h"

struct script_host;

struct script {
    char sha1[41];
    const char *name; /* NULL = none was given */
    int function;     /* in Lua */
    size_t length;
    char *source;
};

struct script_call {
    struct replies *replies; /* of the script's reply, and of all replies on the way */
    const struct text *arguments;
    size_t keys, count; /* keys first */
    /* Runs one command of the script. */
    struct reply *(*command)(void *context, const struct text *arguments, size_t count);
    void *context;
};

/* The one of the process. It is never destroyed. */
struct script_host *script_host_shared(void);

/* NULL when it does not compile; `wrong` is the error then. */
const struct script *script_load(struct script_host *host, struct text source, struct replies *replies,
                                 struct reply **wrong);
/* NULL when none of that digest was ever loaded. */
const struct script *script_find(const struct script_host *host, const char sha1[static 40]);
/* Under that name from now on, which stays where it is. */
void script_call_by(struct script_host *host, struct text source, const char *name);
struct reply *script_run(struct script_host *host, const struct script *script, const struct script_call *call);

#endif
