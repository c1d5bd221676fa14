/* Nodes of its own for a dry run: a queue node and a lock group, on this machine, empty, and gone with it.
 *
 *     struct private_nodes *nodes = private_nodes_start(&options, &error);
 *     ... private_nodes_port(nodes, 0) is the queue node, 1 to N are the lock nodes; all have one password
 *     private_nodes_end(nodes);
 *
 * They listen on 127.0.0.1, keep nothing on disk, evict nothing, and want a password that is drawn for them, so that
 * nobody else on this machine has a say. Their files are in a directory of their own below TMPDIR (/tmp). They are in
 * sessions of their own: SIGINT of a terminal does not reach them. All this blocks for as long as servers need to
 * start, with a deadline.
 *
 * Threads: started by a process with one thread and no loop; afterwards by the thread that started them, because the
 * kernel kills the servers when that one ends. If the process dies, so do they; the directory is left to the
 * cleanup (cleanup.h). */
#ifndef WORKER_DRY_RUN_PRIVATE_NODES_H
#define WORKER_DRY_RUN_PRIVATE_NODES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "redlock/redlock.h"

struct private_nodes;

enum { PRIVATE_NODES_MAX = REDLOCK_NODES_MAX + 1, PRIVATE_QUEUE_NODE = 0 };

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

unsigned private_nodes_count(const struct private_nodes *nodes); /* of lock nodes */
const char *private_nodes_host(const struct private_nodes *nodes);
/* For clients. */
unsigned private_nodes_port(const struct private_nodes *nodes, unsigned number);
const char *private_nodes_password(const struct private_nodes *nodes);
/* "queue", "lock1", ... */
const char *private_nodes_name(const struct private_nodes *nodes, unsigned number);
const char *private_nodes_directory(const struct private_nodes *nodes);
/* 0 = it does not run. */
pid_t private_nodes_pid(const struct private_nodes *nodes, unsigned number);

/* --- what faults do; none of these blocks ------------------------------------------------------------------------- */

/* Of the server itself, behind the relay if it has one. */
unsigned private_nodes_server_port(const struct private_nodes *nodes, unsigned number);
void private_nodes_stop(struct private_nodes *nodes, unsigned number);     /* SIGSTOP */
void private_nodes_continue(struct private_nodes *nodes, unsigned number); /* SIGCONT */
void private_nodes_kill(struct private_nodes *nodes, unsigned number);     /* SIGKILL */
/* Empty, on the same port. It answers a moment later. */
bool private_nodes_restart(struct private_nodes *nodes, unsigned number, struct error *error) MUST_CHECK;
/* Its wall clock is off by so much from now on; it must have a clock. */
void private_nodes_step_clock(struct private_nodes *nodes, unsigned number, int64_t offset_ns);
/* Each answer takes so much longer from now on, 0 = as long as it does; it must be slowed. */
void private_nodes_delay(struct private_nodes *nodes, unsigned number, int64_t delay_ns);

#endif
