/* The end of another process, and the signals of this one. Any thread. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* A descriptor that becomes readable when the process has ended; closed on exec. -1 with errno: there is none. */
int process_descriptor(pid_t pid);

/* As the caller of the program wants it (nohup, a background job of a script): then it must not be listened to. */
bool process_ignores(int signal);

#endif
