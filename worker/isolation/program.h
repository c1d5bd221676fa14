/* The programs that a worker runs: isolation `exec`, behind isolation.h. Any executable file can be a handler.
 *
 *     struct programs *programs = programs_create(&options);
 *     programs_start(programs, &run);      ... run.began(), run.ended()
 *
 * A run is one process. Its standard input is the array of arguments, and its environment describes the task
 * (program_environment.h). Its standard output and error become log lines (output.h), it reports on descriptor 3
 * (program_report.h), and its exit status decides what happens to the task (program_status.h). It begins in the
 * directory / with umask 077, as the leader of a process group.
 *
 * SIGTERM to its group asks it to stop, and the zygote kills it when its time on the run table is over. When it has
 * ended, the rest of its group is killed too. The worker reads what is in its pipes then, and does not wait for more,
 * because descendants that left the group may keep them open.
 *
 * If the worker dies, the zygote kills all programs.
 *
 * Threads: the loop's. programs_create reads the environment of the process. */
#ifndef WORKER_PROGRAM_H
#define WORKER_PROGRAM_H

#include "worker/isolation/isolation.h"

struct programs;

struct programs *programs_create(const struct isolation_options *options);
/* Kills all runs; no `ended` follows. The launcher must end before its loop runs again. */
void programs_destroy(struct programs *programs);

void programs_start(struct programs *programs, struct isolated_run *run);
/* Possible only for a run that was not ordered, because its lock was lost. */
bool programs_withdraw(struct programs *programs, struct isolated_run *run);
void programs_interrupt(struct programs *programs, struct isolated_run *run);

#endif
