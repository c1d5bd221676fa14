/* A relay in front of a server, which makes its answers late: a process of its own that listens on a port of 127.0.0.1,
 * connects to the server for each client, and holds back what the server says. Many answers are late by the same time
 * at once: the server is as fast as before, the way from it is long. Without a delay it costs some ten microseconds an
 * exchange.
 *
 * It is in a session of its own and dies with the thread that started it. A client of a server that does not run is
 * accepted and hung up on. */
#ifndef WORKER_DRY_RUN_SLOW_RELAY_H
#define WORKER_DRY_RUN_SLOW_RELAY_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct slow_relay {
    unsigned port; /* 0 = there is none */
    pid_t pid;
    _Atomic int64_t *delay_ns; /* shared with its process */
};

/* Forks: the process must have one thread and no loop. Clients may connect as soon as it returns. */
bool slow_relay_start(struct slow_relay *relay, unsigned server_port, struct error *error) MUST_CHECK;
/* For what the server says from now on. Does not block. */
void slow_relay_set(struct slow_relay *relay, int64_t delay_ns);
/* Harmless when there is none. */
void slow_relay_end(struct slow_relay *relay);

#endif
