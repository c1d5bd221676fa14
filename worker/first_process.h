/* The first process of a container (PID 1) inherits every orphan of it, and has to reap them; the kernel also ignores
 * its default actions of signals. A command knows only its own children, and parts of it wait for theirs. So as PID 1
 * the program does that and nothing else, and a child of it is the command. */
#ifndef WORKER_FIRST_PROCESS_H
#define WORKER_FIRST_PROCESS_H

/* Returns in the child, which is the command. The caller, which has one thread, passes signals on to it, reaps what
 * it inherits, and ends as the child does: with its status, or 128 and the signal. Without a child it returns. */
void first_process_become(void);

#endif
