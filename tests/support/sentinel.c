#include "tests/support/sentinel.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* A sentinel that stood still for two seconds does nothing for half a minute (it calls that tilt). */
static const int64_t wait_limit_ns = 100 * NS_PER_S;

_Noreturn static void give_up(const char *what)
{
    fprintf(stderr, "sentinel: %s\n", what);
    abort();
}

/* Waits until the reply of the command contains `part`. */
static void wait_for_reply(struct redis_server *server, const char *command, const char *part)
{
    struct instant limit = instant_after(instant_now(), wait_limit_ns);
    for (;;) {
        char *reply = redis_server_command(server, "%s", command);
        bool has_part = strstr(reply, part) != NULL;
        if (!has_part && instant_reached(instant_now(), limit))
            give_up(reply);
        free(reply);
        if (has_part)
            return;
        poll(NULL, 0, 10);
    }
}

struct redis_server *replica_start(struct redis_server *master)
{
    char config[160];
    snprintf(config, sizeof config, "appendonly yes\nappendfsync no\nmin-replicas-to-write 1\nreplicaof 127.0.0.1 %u\n",
             redis_server_port(master));
    free(redis_server_command(master, "CONFIG SET repl-diskless-sync-delay 0"));
    struct redis_server *replica = redis_server_start(&(struct redis_server_options){.config = config});
    wait_for_reply(replica, "INFO replication", "master_link_status:up");
    wait_for_reply(master, "INFO replication", "state=online");
    return replica;
}

/* WAIT would not do: it waits for what its own connection wrote. */
void replica_await_sync(struct redis_server *master)
{
    struct instant limit = instant_after(instant_now(), wait_limit_ns);
    unsigned written = redis_server_info(master, "replication", "master_repl_offset:");
    while (redis_server_info(master, "replication", "state=online,offset=") < written) {
        if (instant_reached(instant_now(), limit))
            give_up("the replica does not get in sync");
        poll(NULL, 0, 10);
    }
}

struct redis_server *sentinel_start(struct redis_server *master, const char *password)
{
    char config[400] = "";
    if (master != NULL)
        snprintf(config, sizeof config,
                 "sentinel monitor " SENTINEL_MASTER " 127.0.0.1 %u 1\n"
                 "sentinel down-after-milliseconds " SENTINEL_MASTER " 600000\n"
                 "sentinel failover-timeout " SENTINEL_MASTER " 5000\n",
                 redis_server_port(master));
    struct redis_server *sentinel =
        redis_server_start(&(struct redis_server_options){.config = config, .password = password, .is_sentinel = true});
    if (master != NULL)
        wait_for_reply(sentinel, "SENTINEL master " SENTINEL_MASTER, "num-slaves\n1");
    return sentinel;
}

void sentinel_notices(struct redis_server *sentinel)
{
    wait_for_reply(sentinel, "SENTINEL SET " SENTINEL_MASTER " down-after-milliseconds 300", "OK");
}

unsigned sentinel_master_port(struct redis_server *sentinel)
{
    char *reply = redis_server_command(sentinel, "SENTINEL get-master-addr-by-name " SENTINEL_MASTER);
    const char *line = strchr(reply, '\n');
    unsigned port = line != NULL ? (unsigned)strtoul(line + 1, NULL, 10) : 0;
    free(reply);
    return port;
}

void sentinel_fail_over(struct redis_server *sentinel)
{
    wait_for_reply(sentinel, "SENTINEL FAILOVER " SENTINEL_MASTER, "OK");
}

char *server_address(const struct redis_server *server)
{
    char *text = NULL;
    if (asprintf(&text, "127.0.0.1:%u", redis_server_port(server)) < 0)
        give_up("no memory");
    return text;
}
