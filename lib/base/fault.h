/* Fault points: named places at which a test makes the process die, stop or wait. They exist only in
 * build/faults/holdfast, which `make tests` builds with -DHOLDFAST_FAULTS for the sources that include a header
 * fault*.h. All other programs contain nothing of them.
 *
 * Every request to a Redis node has two of them (redis/fault_request.h): before it is written, and after its reply was
 * read but before the reply takes effect. The environment selects one:
 *
 *     HOLDFAST_FAULT=NAME[@KEY]:before|after[:N]:kill|stop|pause=MS
 *
 * NAME is a script, or a command in lower case; @KEY limits it to requests with that key. N: at the N-th time
 * (default 1). kill: SIGKILL, stop: SIGSTOP, pause: the loop sleeps for MS milliseconds. HOLDFAST_FAULT=list prints
 * the names and exits. An unknown name is an error at the start, so that no test passes without its fault. */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stddef.h>

enum fault_side { FAULT_BEFORE, FAULT_AFTER };

#ifdef HOLDFAST_FAULTS
/* Call once, before anything else. The names must live as long as the process. May exit. */
void faults_read(const char *const *names, size_t count);
/* `key` may be NULL. */
void fault_point(const char *name, const char *key, size_t key_length, enum fault_side side);
#endif

#endif
