/* Runs our Lua scripts as a Redis server does: Lua 5.1, `redis.call`, `redis.pcall`, `redis.error_reply`,
 * `redis.sha1hex`, KEYS and ARGV; numbers of a reply lose their fraction, nil ends an array, an error ends the script.
 * One host serves all simulated servers: what a script remembers is in their keyspaces, nothing is in Lua. */
#ifndef SIM_SCRIPT_HOST_H
#define SIM_SCRIPT_HOST_H

#include "redis/request.h"
#include "tests/sim/queue/redis_reply.h"

struct script_host;

struct script_host *script_host_create(void);
void script_host_destroy(struct script_host *host);

/* The reply lives in `replies`. A script that does not compile aborts: that is no finding of a test. */
struct reply *script_run(struct script_host *host, struct keyspace *space, struct replies *replies,
                         const struct redis_script *script, const struct text *arguments, size_t keys, size_t count);

/* Commands that scripts executed so far. */
unsigned long long script_host_commands(const struct script_host *host);

#endif
