/* The standard input of a child: complete from the start, and immutable. Any thread. */
#ifndef WORKER_INPUT_H
#define WORKER_INPUT_H

#include <stddef.h>

/* Returns a close-on-exec descriptor at the start of the bytes, or -1 with errno. The caller owns it. */
int input_open(const char *bytes, size_t length);

#endif
