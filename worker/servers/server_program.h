/* The server that private nodes are made of: what the environment names as REDIS_SERVER, else a redis-server or
 * valkey-server of the PATH that is new enough. scripts/redis-program does the same for scripts. */
#ifndef WORKER_SERVERS_SERVER_PROGRAM_H
#define WORKER_SERVERS_SERVER_PROGRAM_H

#include "base/error.h"

/* What it works with, in words. */
#define SERVER_PROGRAMS "Redis 6.2 or newer, Valkey 7.2 or newer"

struct server_program {
    char path[4096];
    unsigned major, minor; /* of its version */
};

/* Looks for it and asks it for its version, for at most a few seconds. False, with what is missing and which package
 * has it. Blocks; forks, so the process must have one thread and no loop. */
bool server_program_find(struct server_program *program, struct error *error) MUST_CHECK;

#endif
