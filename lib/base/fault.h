/* Fault points: places by name at which a test makes the process die, stop or wait. They exist only in a program
 * of its own, build/faults/holdfast (made by `make tests`, with -DHOLDFAST_FAULTS for the sources that include a
 * header fault*.h); elsewhere nothing of them is left.
 *
 * Every request to a Redis node has two of them, without further ado (redis/fault_request.h): before it is written,
 * and after its reply was read but before anything is done with it. Which one is wanted says the environment:
 *
 *     HOLDFAST_FAULT=NAME[@KEY]:before|after[:N]:kill|stop|pause=MS
 *
 * NAME is the name of a script or, in small letters, of a command; with @KEY it is only meant when that is one of its
 * keys. N: at the N-th time (1). kill: SIGKILL, stop: SIGSTOP, pause: the loop sleeps so long. HOLDFAST_FAULT=list
 * prints the names and ends. A name that does not exist is an error at the start, so that no test tests nothing. */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stddef.h>

enum fault_side { FAULT_BEFORE, FAULT_AFTER };

#ifdef HOLDFAST_FAULTS
/* First of all, once. The names must outlive the process. May end it. */
void faults_read(const char *const *names, size_t count);
/* `key` may be NULL. */
void fault_point(const char *name, const char *key, size_t key_length, enum fault_side side);
#endif

#endif
