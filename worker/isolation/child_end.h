/* How a child process ended, in words. Any thread. */
#ifndef WORKER_CHILD_END_H
#define WORKER_CHILD_END_H

#include <stddef.h>

/* "exited with status 3", "was killed by signal 11 (Segmentation fault)"; `wait_status` as of waitpid. */
void child_end_describe(int wait_status, char *text, size_t size);

#endif
