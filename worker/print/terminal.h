/* A terminal that a program has for itself for a while: the other screen, no cursor, keys at once and unseen.
 *
 *     struct terminal terminal;
 *     if (terminal_enter(&terminal, &error)) {
 *         terminal_draw(&terminal, lines, length);
 *         ... terminal.input is for reading keys: non-blocking ...
 *         terminal_leave(&terminal);
 *     }
 *
 * What it was like before is restored by terminal_leave, by exit(), and when the process crashes (SIGSEGV, SIGABRT and
 * the like). Signals that are sent to a process are left to the program, which has to get to terminal_leave; after
 * SIGKILL, `reset` helps. One terminal at a time; one thread. */
#ifndef WORKER_TERMINAL_H
#define WORKER_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct terminal {
    int input; /* /dev/tty, opened anew: programs that share standard input are not disturbed */
};

/* False with a reason: standard output is no terminal that can do this. */
bool terminal_enter(struct terminal *terminal, struct error *error) MUST_CHECK;
void terminal_leave(struct terminal *terminal);
/* As before SIGSTOP, and after SIGCONT again: what stops in between finds the shell's terminal. */
void terminal_suspend(struct terminal *terminal);

/* Columns and lines; 80 and 24 when the terminal does not say. */
void terminal_size(unsigned *width, unsigned *height);
/* Puts lines, each with a line end, onto the screen, from its top, and clears what is beside and below. */
void terminal_draw(const char *lines, size_t length);

#endif
