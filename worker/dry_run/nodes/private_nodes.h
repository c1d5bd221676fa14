/* Nodes of its own for a dry run: a queue node and a lock group, on this machine, empty, and gone with it.
 *
 *     struct private_nodes *nodes = private_nodes_start(&options, &error);
 *     ... private_nodes_port(nodes, 0) is the queue node, 1 to N are the lock nodes; all have one password
 *     kill(nodes->servers[2].pid, SIGSTOP);                     what faults do, they do to the servers themselves
 *     private_nodes_end(nodes);
 *
 * They listen on 127.0.0.1, keep nothing on disk, evict nothing, and want a password that is drawn for them. Their
 * files are in a directory of their own below TMPDIR (/tmp). They are in sessions of their own, out of reach of the
 * terminal's SIGINT.
 *
 * Started by a process with one thread and no loop, and used by that thread: the kernel kills the servers when it ends,
 * and the cleanup process removes the directory (cleanup.h). Starting blocks, with a deadline. */
#ifndef WORKER_DRY_RUN_PRIVATE_NODES_H
#define WORKER_DRY_RUN_PRIVATE_NODES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "redlock/redlock.h"
#include "worker/servers/private_server.h"
#include "worker/servers/server_program.h"

enum { PRIVATE_NODES_MAX = REDLOCK_NODES_MAX + 1, PRIVATE_QUEUE_NODE = 0 };
#define PRIVATE_NODES_HOST "127.0.0.1"

/* A process in front of a server, through which its clients come. */
struct slow_relay {
    unsigned port; /* 0 = there is none */
    pid_t pid;
    _Atomic int64_t *delay_ns; /* so much longer takes each answer from now on */
};

struct private_nodes {
    unsigned count;                                   /* of servers */
    struct private_server servers[PRIVATE_NODES_MAX]; /* "queue", "lock1", ... */
    struct slow_relay relays[PRIVATE_NODES_MAX];
    struct server_program program;
    char *directory;
    char password[32 + 1];
};

struct private_nodes_options {
    unsigned lock_nodes; /* 1, or an odd number up to REDLOCK_NODES_MAX */
    int64_t max_ttl_ns;  /* of the lock group, 1 s to 10 min; 0 = as `holdfast nodes init` has it: 60 s */
    /* By number of the node: what a fault wants to do to it, and what it has to be started with for that. */
    bool has_clock[PRIVATE_NODES_MAX]; /* its clock will be stepped */
    bool is_slowed[PRIVATE_NODES_MAX]; /* its answers will be delayed: clients reach it through a relay, all the time */
    const char *directory;             /* to be made; NULL = one with a random name */
    const char *clock_library;         /* NULL = where this program was built or installed */
};

struct private_nodes *private_nodes_start(const struct private_nodes_options *options, struct error *error) MUST_CHECK;
/* Kills them, whatever state they are in, and removes their directory. NULL is fine. */
void private_nodes_end(struct private_nodes *nodes);

/* For clients: of the relay where there is one. */
unsigned private_nodes_port(const struct private_nodes *nodes, unsigned number);

#endif
