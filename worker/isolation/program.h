/* The programs that a worker runs: isolation `exec`, as isolation.h offers it. Any executable file is a handler.
 *
 *     struct programs *programs = programs_create(&options);
 *     programs_start(programs, &run);      ... run.began(), run.ended()
 *
 * A run is one process: its standard input is the array of arguments, its environment tells of the task
 * (program_environment.h), its standard output and standard error become lines of the log (output.h), on descriptor 3
 * it reports (program_report.h), and its exit status says what becomes of the task (program_status.h). It begins in
 * the directory / with umask 077, as the leader of a process group.
 *
 * It is asked to stop by SIGTERM to its group, and killed when its time on the run table is over. When it has ended the
 * rest of its group is killed too; what is in its pipes then is read, and nobody waits for more: descendants that
 * left the group may keep them open.
 *
 * If the worker dies, the zygote kills all of them.
 *
 * Threads: the loop's, but for programs_create, which reads the environment of the process. */
#ifndef WORKER_PROGRAM_H
#define WORKER_PROGRAM_H

#include "worker/isolation/isolation.h"

struct programs;

struct programs *programs_create(const struct isolation_options *options);
/* Kills what runs; no `ended` follows. The launcher must end before its loop runs again. */
void programs_destroy(struct programs *programs);

void programs_start(struct programs *programs, struct isolated_run *run);
/* Only one that has not been ordered yet, because its lock was gone. */
bool programs_withdraw(struct programs *programs, struct isolated_run *run);
void programs_interrupt(struct programs *programs, struct isolated_run *run);

#endif
