/* One run of `holdfast push`: from a task on the command line, or lines of standard input, to the queue node, and the
 * account of what became of each. Runs a loop of its own on the calling thread. */
#ifndef WORKER_PUSHER_H
#define WORKER_PUSHER_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/intake.h"
#include "redis/node.h"
#include "worker/exit_code.h"

struct pusher_options {
    struct redis_node_options node;
    const char *address; /* of the node, for people */
    int64_t timeout_ns;  /* for the reply to what was sent */
    int64_t wait_ns;     /* for a node that cannot be reached */
    struct intake *intake;
    const char *single; /* the task, or its arguments; NULL = lines of `fd` */
    int fd;
    size_t line_max;
    bool dry_run;    /* checks only: no connection is made */
    bool keep_going; /* leave out bad lines instead of stopping at the first */
    bool as_json;
};

/* Prints the result to standard output and what went wrong to standard error. */
enum exit_code pusher_run(const struct pusher_options *options);

#endif
