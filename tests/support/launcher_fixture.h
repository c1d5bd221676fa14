/* For tests with real children: each test has a run table, a zygote, a loop and a launcher of its own, and kids, which
 * are children that remember what was reported of them. */
#ifndef TESTS_SUPPORT_LAUNCHER_FIXTURE_H
#define TESTS_SUPPORT_LAUNCHER_FIXTURE_H

#include "worker/isolation/launcher.h"

enum { FIXTURE_RUN_ENTRIES = 8 };

extern struct loop *loop;
extern struct run_table *run_table;
extern struct zygote zygote;
extern struct launcher *launcher;
extern unsigned times_lost;

int launcher_set_up(void **state);
int launcher_tear_down(void **state);
/* Before kids that still run go out of scope. */
void launcher_stop(void);

/* What a runner process does in tests: "NUMBER" written to its socket makes it exit with that, "hang" makes it sleep
 * with all signals blocked, "crash" abort; "daemon" is answered by a child that has left its group, with its pid; each
 * other word is answered with itself. */
int fixture_runner(struct run_table *shared, int socket, const void *context);

struct kid {
    struct child child;
    bool was_spawned, has_exited;
    pid_t pid;
    int failure;
    struct child_exit end;
};

void kid_init(struct kid *kid);
/* The program with its arguments; its standard output goes to `output`, -1 = /dev/null. */
void kid_start(struct kid *kid, int output, const char *const *arguments);
void kid_start_plan(struct kid *kid, const struct child_plan *plan);
/* Returns our end of its socket. */
int kid_start_runner(struct kid *kid, const struct child_plan *limits);
void kid_await_birth(struct kid *kid);
/* Its wait status. */
int kid_await_end(struct kid *kid);
void launcher_until(bool (*condition)(void *context), void *context);

/* All that a shell script prints; it must end with 0. */
const char *script_output(const char *script, const char *const *environment);
/* A file in memory to which many may write. */
int output_make(void);
void script_start(struct kid *kid, int output, const char *script, struct run_entry *run_entry);
/* The run entry with a new run on it. */
struct run_entry *run_entry_begin(unsigned number);

/* A script that begins with this prints the numbers of two children in the background, one in its group and one that
 * leaves it. */
#define FAMILY "trap '' TERM; sleep 1000 & echo $!; setsid sleep 1000 & echo $!; "

struct family {
    int file;
    pid_t member, stray;
};

/* Waits until they are where they belong. */
struct family family_await(int file);
/* The number in that line of the file, once it is there. */
pid_t number_at(int file, int place);
pid_t number_await(int file, int place);

/* The process is gone, or a zombie. */
bool process_is_dead(pid_t pid);
/* A line of /proc/PID/status, "" when there is none; valid until the next call. */
const char *process_status(pid_t pid, const char *name);
unsigned descriptors_open(pid_t pid);

#endif
