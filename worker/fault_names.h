/* The names of all fault points of the program (base/fault.h): its scripts and the commands that it sends. */
#ifndef WORKER_FAULT_NAMES_H
#define WORKER_FAULT_NAMES_H

#ifdef HOLDFAST_FAULTS
/* Before anything else in main. */
void fault_names_read(void);
#else
static inline void fault_names_read(void) {}
#endif

#endif
