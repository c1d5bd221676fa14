/* `info` in the hash of a process that dashboards read: JSON that any worker of any program may have written. Pure. */
#ifndef WORKER_PROCESS_INFO_H
#define WORKER_PROCESS_INFO_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"

struct process_info {
    char *host, *version, *tag; /* "" when it says nothing */
    long long pid, concurrency;
    long long unreceived; /* requests whose answers are lost again and again */
    struct wall_time started;
    char **queues;
    size_t queue_count;
};

/* What is missing, or is no JSON at all, is left 0 and "". `text` may be NULL. */
void process_info_read(struct process_info *info, const char *text, size_t length);
void process_info_fini(struct process_info *info);
/* A running task, as an entry of a process's hash `work` says. Texts are "" when it says nothing, and the caller's. */
struct process_run {
    char *queue, *class_name, *jid;
    char *resource; /* the first that it locks */
    char *fence;    /* the token of its lock */
    struct wall_time started;
};
/* False when the text is no such entry; then there is nothing to free. */
bool process_run_read(struct process_run *run, const char *text, size_t length);

/* The fencing token under which a process says that it runs the task `jid`: from an entry of its hash `work`, as a
 * fresh text. NULL when there is none, or the entry is about another task. */
char *process_run_fence(const char *text, size_t length, const char *jid);
/* And since when it runs, in whole seconds of its host's clock; the zero moment when the entry does not say. */
struct wall_time process_run_since(const char *text, size_t length, const char *jid);

#endif
