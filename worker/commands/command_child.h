/* Runs one of our own commands as a child process beside a loop. `holdfast serve` searches and changes by the commands
 * that operators type, with their checks and their messages.
 *
 *     command_child_start(&children, (const char *const[]){"pause", "--json", "--", name, NULL}, done, context)
 *
 *     static void done(void *context, int exit_code, struct buffer *out, struct buffer *error)
 *
 * `done` runs once, from the loop, when the child has ended; the buffers are freed behind it. A child that takes longer
 * than 30 s, or prints more than 4 MiB, is killed: exit code -1. Threads: the loop's. If this process dies, the child
 * goes on to its end. */
#ifndef WORKER_COMMAND_CHILD_H
#define WORKER_COMMAND_CHILD_H

#include "base/buffer.h"
#include "base/loop.h"

/* All children of a loop. */
struct command_children {
    struct loop *loop;
    struct list running;
    unsigned count;
};

void command_children_init(struct command_children *children, struct loop *loop);
/* Kills those that run; their `done` runs before this returns. */
void command_children_end(struct command_children *children);

/* False when no process can be started; `done` does not run then. */
bool command_child_start(struct command_children *children, const char *const *arguments,
                         void (*done)(void *context, int exit_code, struct buffer *out, struct buffer *error),
                         void *context) MUST_CHECK;

#endif
