/* Runs a function in a child process and brings back what it wrote: for what needs a loop or threads, in a process that
 * is still to fork its workers.
 *
 *     struct buffer output = {0};
 *     int status = apart_do(ask_the_node, &question, &output);    its return value, 0 to 125; 126 = it died
 *
 * The child dies with the caller. Blocks until it has ended. Only while the process has one thread. */
#ifndef WORKER_DRY_RUN_APART_H
#define WORKER_DRY_RUN_APART_H

#include "base/buffer.h"

enum { APART_DIED = 126 };

/* `act` runs in the child; what it writes to `descriptor` is appended to `output`. */
int apart_do(int (*act)(void *context, int descriptor), void *context, struct buffer *output);
/* The same; SIGINT and SIGTERM that come meanwhile are for the child alone: it ends as it likes, and the caller goes
 * on. */
int apart_do_interruptible(int (*act)(void *context, int descriptor), void *context, struct buffer *output);

/* SIGINT and SIGTERM stay pending until a loop handles them: what is half made would stay. */
void interrupts_hold(void);
void interrupts_hear(void);

#endif
