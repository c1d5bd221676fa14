/* The worker processes of a dry run on this host. Each is a whole worker as `holdfast work` starts it (its own run
 * table, zygote, connections and identity), with the configuration of the run (dry_config.h), simulated handlers
 * (simulated_handlers.h), and rings of shared memory into which it writes what it does (record.h).
 *
 *     struct workforce *workforce = workforce_start(&options, &error);    while there is one thread and no loop
 *     workforce_go(workforce);                                            they begin
 *     every few milliseconds: workforce_read, workforce_reap, workforce_read_log
 *     workforce_stop(workforce), and on until workforce_alive(workforce) == 0 and workforce_read(...) == 0
 *     workforce_end(workforce);
 *
 * Processes are numbered from 1 on. Each leads a process group of its own, so signals of a terminal reach the caller
 * alone. All die at once with the thread that started them. One that dies is not replaced, and what it had written can
 * still be read. Only workforce_end waits. One thread, that of the caller. */
#ifndef WORKER_DRY_RUN_WORKFORCE_H
#define WORKER_DRY_RUN_WORKFORCE_H

#include <sys/types.h>

#include "base/error.h"
#include "worker/config/config.h"
#include "worker/dry_run/count/record.h"
#include "worker/dry_run/plan/plan.h"
#include "worker/dry_run/run/simulated_handlers.h"

struct workforce;

/* All of it is the caller's and stays until workforce_end. */
struct workforce_options {
    const struct dry_run_plan *plan;       /* so many processes and threads */
    struct config *config;                 /* of the run: after dry_config_convert */
    const struct plugins *plugins;         /* loaded, never opened: whose classes are simulated; NULL = none */
    const struct simulated_class *classes; /* how long classes hold; others hold as the plan says */
    size_t class_count;
    const char *key_space; /* on the queue node, with its colon at the end; NULL = none */
};

/* Forks them; each prepares itself and waits until it may go. NULL when that is not possible: then none is left. */
struct workforce *workforce_start(const struct workforce_options *options, struct error *error) MUST_CHECK;
/* How many are prepared and wait (or went). Those that could not get so far end: workforce_reap reports them. */
unsigned workforce_ready(const struct workforce *workforce);
/* They begin to work. */
void workforce_go(struct workforce *workforce);
/* How many went on, and had an answer to a first claim: their nodes are up and trusted, and what comes now is
 * claimed at once. */
unsigned workforce_serving(const struct workforce *workforce);

/* --- what they say ------------------------------------------------------------------------------------------------ */

/* What is there, in the order in which each thread said it, until about `most` records were taken (those of one ring
 * are taken together). Returns how many there were: 0 = there are no more now. A record is valid during the call. */
size_t workforce_read(struct workforce *workforce, size_t most,
                      void (*take)(void *context, unsigned number, const struct record *record), void *context);
/* Records there was no room for, until now. */
uint64_t workforce_records_lost(const struct workforce *workforce);
/* The lines of their logs that are there, up to some 16 KiB of each, without the line's end, and fit for a terminal:
 * warnings and errors, but for failures that the plan wants, and what the zygote of one that was killed says of it. */
void workforce_read_log(struct workforce *workforce, void (*line)(void *context, unsigned number, const char *text),
                        void *context);

/* --- what is done to them ----------------------------------------------------------------------------------------- */

/* SIGSTOP, SIGCONT or SIGKILL to one process; false when it has ended (or there is none of this number). */
bool workforce_signal(struct workforce *workforce, unsigned number, int signal);
/* To all: an orderly end now, within a second where the nodes answer; those that never went end too. A second time:
 * they hurry. */
void workforce_stop(struct workforce *workforce);

/* --- what becomes of them ----------------------------------------------------------------------------------------- */

struct workforce_exit {
    unsigned number;
    pid_t pid;
    int wait_status;  /* as of waitpid */
    bool was_killed;  /* by workforce_signal */
    bool was_wanted;  /* it was stopped on purpose, or killed: all others ended by themselves, which is a fault */
    bool was_orderly; /* it came to its end by itself, with exit code 0 */
};
/* Reports each that has ended since, once. Returns how many that were. */
unsigned workforce_reap(struct workforce *workforce, void (*ended)(void *context, const struct workforce_exit *exit),
                        void *context);
unsigned workforce_alive(const struct workforce *workforce);
/* Of one process, 0 = it has been reaped. */
pid_t workforce_pid(const struct workforce *workforce, unsigned number);
/* Kills and reaps those that are left, and frees. NULL is fine. */
void workforce_end(struct workforce *workforce);

#endif
