/* What a child reads from its standard input: bytes that are there from the start, whole, and for nobody to change.
 * Any thread. */
#ifndef WORKER_INPUT_H
#define WORKER_INPUT_H

#include <stddef.h>

/* A descriptor, closed by exec, that is read from the front; -1 with errno. The caller's. */
int input_open(const char *bytes, size_t length);

#endif
