/* Tasks that want the same locks, in the fleet of one_fleet.h. They run in the plugin "holder", whose journal records
 * which worker ran what when, under which token. */
#ifndef SUPPORT_CONTENDED_H
#define SUPPORT_CONTENDED_H

#include "tests/support/one_fleet.h"

/* For ever, and longer than any test, but listening to a cancellation. */
#define UNTIL_CANCELLED "[600000,1]"

/* A worker with the plugin "holder" that logs everything; the rest of the setup may be NULL. */
unsigned contended_start(const struct fleet_setup *setup);
void contended_push(const char *jid, const char *args, const char *resource);
void contended_push_to(const char *queue, const char *class_name, const char *jid, const char *args,
                       const char *resource);

/* As a worker of another fleet does, on every lock node; nothing of the fleet can have it meanwhile. It lasts longer
 * than any test. */
void resource_hold(const char *resource);
/* What an operator does about that, with the configuration of the first worker: the oldest waiter is let go. */
void resource_free(const char *resource);
/* Runs `holdfast COMMAND -c ... ARGUMENTS` with the configuration of the first worker; fails the test if it fails. */
void operator_runs(const char *command, const char *arguments);

/* How many have a place in the waiting list, and who, in its order, each with a blank behind it. */
unsigned waiting_count(const char *list);
char *waiting_order(const char *list);
/* The statistics of all nodes begin anew. */
void statistics_reset(void);
/* How often lock nodes were asked to run a script since then: everything about a lock is one. */
unsigned lock_node_scripts(void);

struct run {
    char jid[32], host[16];
    unsigned long long token;
};
/* The runs that began, in order; allocated. Other plugins record neither host nor token. */
struct run *runs_read(unsigned *count);
/* The only run of this task that began. */
struct run run_of(const char *jid);
/* The jids of all that began, in order, each with a blank behind it. */
char *runs_order(void);
/* They ran one after the other, each under a larger token than the one before. */
void assert_runs_alone(void);

#endif
