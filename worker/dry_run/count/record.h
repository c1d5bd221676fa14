/* What a process of a dry run reports to the one that counts: records in a ring of shared memory.
 *
 *     record_write_task(&out, &task);
 *     while (record_read(&bytes, &length, &record)) ...     texts point into the bytes
 *
 * Times are CLOCK_BOOTTIME. Pure. */
#ifndef WORKER_DRY_RUN_RECORD_H
#define WORKER_DRY_RUN_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "worker/events/observer.h"

enum record_kind {
    RECORD_TASK,    /* observed_task: a task left its slot */
    RECORD_PROCESS, /* observed_process */
    RECORD_ENTER,   /* the overlap detector: a handler begins what only one at a time may do */
    RECORD_LEAVE,   /* and ends it */
    RECORD_CRASH,   /* the check() of a class came to a bad end (argument_check.h) */
};

enum { RECORD_RESOURCES_MAX = 16, RECORD_NODES_MAX = REDLOCK_NODES_MAX, RECORD_BYTES_MAX = 256 * 1024 };

/* What a handler itself saw, by its own clock: it knows nothing of what the worker believes about its lock. */
struct handler_event {
    struct instant at;
    const char *jid;
    const char *const *resources;
    unsigned resource_count;
    uint64_t token; /* 0 = none */
    bool failed;    /* LEAVE: as the plan wanted */
};

struct crash {
    struct instant at;
    const char *class_name;
    int signal; /* 0 = it ended its process */
    bool hangs; /* it had to be killed */
};

struct record {
    enum record_kind kind;
    union {
        struct observed_task task;
        struct observed_process process; /* its pointers point to what follows */
        struct handler_event event;
        struct crash crash;
    };
    const char *texts[RECORD_RESOURCES_MAX]; /* where `resources` points to after record_read */
    struct histogram extensions;
    struct redlock_node_counters nodes[RECORD_NODES_MAX];
    const struct redlock_node_counters *node_list[RECORD_NODES_MAX];
};

void record_write_task(struct buffer *out, const struct observed_task *task);
void record_write_process(struct buffer *out, const struct observed_process *process);
/* `kind` is RECORD_ENTER or RECORD_LEAVE. */
void record_write_handler(struct buffer *out, enum record_kind kind, const struct handler_event *event);
void record_write_crash(struct buffer *out, const struct crash *crash);
/* Takes the first record off the bytes. False when there is none, or not all of one yet, or it is none: then *length
 * is 0. */
bool record_read(const char **bytes, size_t *length, struct record *record);

#endif
