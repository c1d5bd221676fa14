/* Another process, watched for its end. Any thread. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <sys/types.h>

/* A descriptor that becomes readable when the process has ended; closed on exec. -1 with errno: there is none. */
int process_descriptor(pid_t pid);

#endif
