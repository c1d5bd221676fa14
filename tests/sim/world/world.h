/* A world in virtual time, in one operating system process: hosts with clocks of their own, processes on them, and a
 * network between them (network.h). The production objects run in it as they are; the linker gives them this world
 * instead of the kernel's: the loop (loop.c), threads, semaphores and condition variables (threads.c), clocks,
 * randomness and what a process asks about itself (system.c), and sockets (network.c).
 *
 *     world_begin(seed);
 *     struct host *host = host_create("a");
 *     struct process *process = process_start(host, "worker", main_of_worker, argument);
 *     world_run(instant_after(world_time(), 10 * NS_PER_S));
 *
 * One thing happens at a time, in an order that depends on the seed alone: the same seed gives the same history to the
 * byte. There is one world, and nothing takes it down: a schedule is played in a forked child, whose end frees all of
 * it, the memory of killed processes too.
 *
 * A thread runs until it waits: for a loop that is one cycle. That takes no time of the world, but each look at a clock
 * costs its process CLOCK_LOOK_NS, and what it sends leaves at the time that it has by then. So a process can be made
 * to stand still between any two looks at the clock (process_stall). */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/list.h"
#include "tests/sim/world/chance.h"

#define CLOCK_LOOK_NS INT64_C(150)

void world_begin(uint64_t seed);
/* The true time, which nobody in the world can read. Inside a slice: the time that its process has by now. */
struct instant world_time(void);
/* All that happens by chance is drawn from here. */
struct chance *world_chance(void);
/* Until `end`, or until world_stop, or until nothing is left to happen. */
void world_run(struct instant end);
void world_stop(void);
/* A line of the history, when somebody wants to read it: TIME NAME TEXT. */
void world_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
void world_tell_to_stderr(bool is_wanted);
bool world_is_told(void);

struct world_event {
    struct heap_item item;
    void (*fire)(struct world_event *event);
};

/* Sets or moves. */
void world_at(struct world_event *event, struct instant at);
void world_cancel(struct world_event *event);

/* --- hosts -------------------------------------------------------------------------------------------------------- */

struct host {
    unsigned number;
    char name[24];
    struct instant since; /* the true time from which on its clocks go as they do now */
    int64_t boot_ns, wall_ns;
    int64_t rate_ppb; /* how much faster than the truth they go, in parts of 10^9 */
    int64_t stood_ns; /* the sum of the times for which they stood still */
    bool is_frozen;   /* trouble.c */
    struct list processes;
};

struct host *host_create(const char *name);
/* How far apart the wall clocks of hosts may be that are made from now on. */
void hosts_set_apart(int64_t ns);
struct instant host_boot(const struct host *host, struct instant truth);
struct wall_time host_wall(const struct host *host, struct instant truth);
/* From now on. Both clocks go at this rate. */
void host_set_rate(struct host *host, int64_t rate_ppb);
void host_step_wall(struct host *host, int64_t ns);
/* Both clocks stood still for so long until now, as those of a machine that was suspended. None of its processes may
 * have run meanwhile. */
void host_stood(struct host *host, int64_t ns);
/* When its boot clock shows this, if it goes on as now. */
struct instant host_truth(const struct host *host, struct instant boot);

/* --- processes ---------------------------------------------------------------------------------------------------- */

struct process {
    struct list link; /* of its host */
    struct host *host;
    struct process *parent; /* whose child it is; NULL = nobody's */
    char name[32];
    pid_t pid;
    bool is_alive, is_paused, has_ended; /* ended by itself: its main function returned */
    struct chance chance;                /* what its kernel gives it as randomness */
    int64_t ahead_ns;                    /* of the world's time, in the slice that runs */
    struct instant free_at;              /* its last slice takes until then */
    unsigned stall_after;                /* looks at the clock; 0 = it does not stall */
    int64_t stall_ns;
    struct list threads;
    struct list sockets; /* network.c */
    struct list blocks;  /* blocks.c: of memory */
    void *signals;       /* system.c: what hears its signals */
    void (*ended)(struct process *process);
    void *context; /* of whoever started it */
};

/* `main` runs in a thread of the process, which ends when it returns. */
struct process *process_start(struct host *host, const char *name, void (*main)(void *argument), void *argument);
/* The process whose code runs now; NULL = the world's own. */
struct process *process_current(void);
/* What runs now sees the clocks of that process, until the former one, which is returned, is lent again: for judges. */
struct process *process_lend(struct process *process);
/* At once, even in the middle of its own slice, as by SIGKILL: sockets are closed, and nothing of it runs any more.
 * `is_silent`: as by a loss of power; nobody is told that its sockets are gone. */
void process_kill(struct process *process, bool is_silent);
void process_pause(struct process *process); /* SIGSTOP */
void process_resume(struct process *process);
/* It stands still for so long at the `looks`th look at the clock from now on: between two instructions. */
void process_stall(struct process *process, unsigned looks, int64_t ns);
/* What a handler does on a thread: nothing, for so long by the clock of its host. */
void process_sleep(int64_t ns);

/* --- threads ------------------------------------------------------------------------------------------------------ */

struct thread;

/* In a process that lives, from the world's own code: what a test or an operator does there. */
struct thread *thread_start(struct process *process, void (*main)(void *argument), void *argument);
/* NULL = the world's own code runs. */
struct thread *thread_current(void);
/* The calling thread waits for thread_wake; false when the clock of its host reaches `until` before. A cycle of a loop
 * must not wait: that ends the program. */
bool thread_wait(const void *what, struct instant until);
/* Of those that wait for it: one, whichever, or all. */
void thread_wake(struct process *process, const void *what, bool all);
/* Inside a cycle of a loop, where nothing may block. */
void thread_set_in_cycle(bool is_in_cycle);

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* The process that runs has nothing so far; and what it has allocated since then and not freed: how many blocks, and
 * the size of the largest. */
void process_blocks_begin(void);
unsigned process_blocks_left(size_t *largest);
/* The block belongs to the kernel, whoever runs. Returns it. */
void *world_owns(void *block);

/* --- what the parts of the kernel have of one another ------------------------------------------------------------- */

/* world.c: a thread of the process runs from here to there; and it looks at a clock. */
void process_enter(struct process *process);
void process_leave(struct process *process);
void process_look(struct process *process);

void threads_end(struct process *process);
/* It was paused, or the rate of its host's clock changed: computes anew when its threads wake. */
void threads_look(struct process *process);

struct loop;
void loop_wake(struct loop *loop);

void sockets_end(struct process *process, bool is_silent); /* network.c */
int socket_ready(int fd);                                  /* mask of LOOP_* */
void socket_watch(int fd, struct loop *loop);              /* who is told when it is ready; NULL = nobody */

#endif
