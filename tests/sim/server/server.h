/* One simulated redis-server process and its disk: a state machine over (state, bytes, now), without a clock, a socket
 * or a thread. It speaks RESP2, runs real Lua scripts, and answers as Redis 7.0 does, errors included. One database.
 * From version 7.2 on servers run the command of who waited again when it is served: all its keys count again, and
 * what would refuse it now does.
 *
 * All times are microseconds since 1970 of the server's own wall clock, which may be stepped between two calls. */
#ifndef SIM_SERVER_H
#define SIM_SERVER_H

#include "tests/sim/server/redis_reply.h"

struct server;            /* one simulated redis-server process and its disk */
struct server_connection; /* of a client */
struct redis_script;

struct server_options {
    const char *run_seed; /* its run ids are made of this and of how often it was started */
    uint64_t seed;        /* of what it draws: SRANDMEMBER, evictions */
    const char *password; /* NULL = none */
    const char *host;     /* how replicas and ROLE name it; NULL = "127.0.0.1" */
    unsigned port;        /* 0 = 6379 */
    unsigned version;     /* 702 = as Redis 7.2 and later, and Valkey; 0 = as Redis 7.0 */
    bool has_disk;        /* an append-only file, synced each second: SERVER_LOSES_LAST_SECOND needs it */
    int64_t now_us;
};

struct server *server_create(const struct server_options *options);
void server_destroy(struct server *server);

/* --- clients ------------------------------------------------------------------------------------------------------ */

/* `send` and `closed` are called while the server runs one of the functions below, at their end, and must not call the
 * server. `closed` = the server hangs up (CLIENT KILL, QUIT, a protocol error): the connection is freed when that
 * function returns, and server_hang_up is not for it any more. */
struct server_connection *server_accept(struct server *server, void *context,
                                        void (*send)(void *context, const char *bytes, size_t length),
                                        void (*closed)(void *context));
/* Bytes from the client: every complete command is executed at once at now_us. They may come in any pieces. */
void server_receive(struct server_connection *connection, const char *bytes, size_t length, int64_t now_us);
/* The client is gone; frees it. */
void server_hang_up(struct server_connection *connection);

/* The time at which server_tick has something to do: a blocked client's timeout, what replicas are told. INT64_MAX =
 * nothing. */
int64_t server_next_us(const struct server *server);
void server_tick(struct server *server, int64_t now_us);

/* --- trouble ------------------------------------------------------------------------------------------------------ */

enum server_memory {
    SERVER_KEEPS,             /* all of it */
    SERVER_LOSES_LAST_SECOND, /* what was not synced to its disk */
    SERVER_SAVED,             /* all but what SAVE wrote last, if it was ever said */
    SERVER_EMPTY              /* the disk too */
};

/* A new run: another run id, no scripts, no clients. Drops all connections without calling `closed`: they are freed. A
 * replica stays one, and a primary keeps its replicas, who take what it has now. */
void server_restart(struct server *server, enum server_memory memory, int64_t now_us);
/* What needs memory is refused. */
void server_set_out_of_memory(struct server *server, bool is_out);
/* Every write is refused, and PING: a snapshot failed. */
void server_set_misconf(struct server *server, bool is_failing);
/* Every write is refused as by a replica, without a primary that is known. */
void server_set_read_only(struct server *server, bool is_read_only);
/* Removes so many keys, drawn from `seed`. Returns how many there were. */
size_t server_evict(struct server *server, size_t how_many, uint64_t seed);
/* CONFIG SET; false when there is no such setting. */
bool server_configure(struct server *server, const char *setting, const char *value);
/* CLIENT KILL TYPE normal, as Sentinel does: `closed` is called for all. */
void server_kill_clients(struct server *server);

/* `replica` takes all that `primary` has, and from then on what it changes, `lag_us` of the primary's clock later
 * (server_tick of the primary does it). It refuses writes. A primary that is restarted or destroyed leaves its replicas
 * with what they have. */
void server_follow(struct server *replica, struct server *primary, int64_t lag_us, int64_t now_us);
/* The replica is a primary from now on, and has what it was told so far: the rest is lost. */
void server_promote(struct server *replica, int64_t now_us);

/* --- looking, without changing anything --------------------------------------------------------------------------- */

struct keyspace *server_keyspace(struct server *server);
const char *server_run_id(const struct server *server);
/* Of `length` bytes: the run that a marker of it has to name (inspect.lua). */
void server_run(const struct server *server, char *run, size_t length);
unsigned long long server_connection_id(const struct server_connection *connection);
/* As CLIENT SETNAME said; "" = none. */
const char *server_connection_address(const struct server_connection *connection);
const char *server_connection_name(const struct server_connection *connection);

/* A command or script was executed. */
struct server_event {
    struct server *server;
    struct server_connection *connection; /* NULL: it is gone */
    const char *command;                  /* small letters; "evalsha" or "eval" of a script */
    const char *script;                   /* its name (server_name_scripts), else its digest; NULL of a command */
    const struct text *arguments;         /* of a command behind its name; of a script its keys, then its arguments */
    size_t keys, count;                   /* `keys` of a script only */
    const struct reply *reply;            /* NULL: it waits, and is told again when it is served */
    int64_t now_us;
};

/* Called behind every command and script, not for the commands of a script. */
void server_observe(struct server *server, void (*observe)(void *context, const struct server_event *event),
                    void *context);
/* For all servers of the process, whose names stay where they are. They are compiled now: who forks does that first. */
void server_name_scripts(const struct redis_script *const *scripts, size_t count);

#endif
