/* One run of `holdfast push`: from a task on the command line, or lines of standard input, to the queue node, and the
 * account of what became of each. Runs a loop of its own on the calling thread. */
#ifndef WORKER_PUSHER_H
#define WORKER_PUSHER_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/holdfast.h"
#include "queue/intake.h"
#include "worker/print/exit_code.h"

struct pusher_options {
    struct hf_producer_options producer;
    const char *address;   /* of the node, for people */
    struct hf_task task;   /* what the texts lack; with a jid for a single task */
    struct intake *intake; /* the same, for a dry run */
    const char *single;    /* arguments of the class; NULL = lines of `fd` */
    int fd;
    size_t line_max;
    bool dry_run;    /* checks only: no connection is made */
    bool keep_going; /* leave out bad lines instead of stopping at the first */
    bool as_json;
    bool is_awaited; /* nothing is printed of a single task that was pushed: its result will be */
};

/* Prints the result to standard output and what went wrong to standard error. */
enum exit_code pusher_run(const struct pusher_options *options);

#endif
