/* A fleet for tests: a queue node, lock nodes, and worker processes of the built program, with the plugin
 * tests/plugins/witness.c that writes down what is run. */
#ifndef SUPPORT_FLEET_H
#define SUPPORT_FLEET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "tests/support/lock_cluster.h"
#include "tests/support/private_directory.h"
#include "tests/support/redis_server.h"

/* Started since the last fleet_clean, those that ended included. */
enum { FLEET_WORKERS_MAX = 4096 };

struct fleet_worker {
    pid_t pid; /* 0: not running */
    bool crashes;
    char name[16];
};

struct fleet {
    char directory[PRIVATE_DIRECTORY_MAX];
    struct redis_server *queue;
    struct lock_cluster locks;
    struct fleet_worker workers[FLEET_WORKERS_MAX];
    unsigned worker_count;
};

/* For the whole group; `queue` may be NULL. */
void fleet_start(struct fleet *fleet, const struct redis_server_options *queue, unsigned lock_nodes);
void fleet_stop(struct fleet *fleet);
/* After each test: ends the workers that still run, starts nodes that were ended, empties everything. Fails when a
 * sanitizer found something in one of them. */
void fleet_clean(struct fleet *fleet);

/* A worker can have a wall clock of its own: not under sanitizers, whose libraries have to be the first. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FLEET_HAS_CLOCKS false
#else
#define FLEET_HAS_CLOCKS true
#endif

/* Parts of the configuration, each as text and empty when NULL. */
struct fleet_setup {
    unsigned threads;    /* 0 = 4 */
    bool crashes;        /* on purpose, in a handler: what a sanitizer says of it is no finding */
    int64_t ahead_ns;    /* of its wall clock; 0 = it has that of this machine. See FLEET_HAS_CLOCKS */
    const char *program; /* another release of it; NULL = that of the build */
    bool forbid_root;    /* else workers may run as root, as tests in containers do */
    const char *plugin;  /* NULL = witness; "ledger"; else a file of build/jobs */
    const char
        *jobs; /* a directory of plugins, all of which are loaded; `plugin` has the settings. NULL = one plugin */
    const char *settings;   /* more settings of `plugin` */
    const char *fault;      /* HOLDFAST_FAULT for the program with fault points (base/fault.h); NULL = the usual one */
    const char *worker;     /* more settings of the section worker */
    const char *lock;       /* the section lock; NULL = one of a short ttl, many quick tries */
    const char *lock_node;  /* more settings of each of lock_nodes; NULL = timeouts */
    const char *lock_nodes; /* the list lock_nodes itself; NULL = the fleet's own */
    const char *queue_at;   /* settings that say where the queue node is; NULL = host and port of the fleet's own */
    const char *queue_node; /* more settings of the section queue_node; NULL = a timeout */
    const char *classes;    /* the list classes */
    const char *queues;     /* what is served, as in a list; NULL = "jobs" */
    const char *sections;   /* further sections */
    const char *arguments;  /* of `holdfast work`, separated by single blanks */
};

/* Starts a worker as host NAME ("host0", "host1", ...); returns its number at once. */
unsigned fleet_work(struct fleet *fleet, const struct fleet_setup *setup);
/* Writes its configuration anew, for the next reload; `arguments` are ignored. */
void fleet_configure(struct fleet *fleet, unsigned worker, const struct fleet_setup *setup);
void fleet_signal(struct fleet *fleet, unsigned worker, int number);
/* Waits for its end; the exit code, or minus the signal that ended it. Fails the test when a sanitizer found something
 * in it. */
int fleet_wait(struct fleet *fleet, unsigned worker);

/* Runs a command at the queue node as redis_server_command does, and fails the test on an error. */
char *fleet_ask(struct fleet *fleet, const char *format, ...) __attribute__((format(printf, 2, 3)));
long long fleet_number(struct fleet *fleet, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Loads a Lua file; the digest under which the queue node has it, to be freed. */
char *fleet_script(struct fleet *fleet, const char *path);
/* Pushes one task; the JSON must hold no single quote. */
void fleet_push(struct fleet *fleet, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Pushes `count` tasks of the class: jids t1, t2 and so on; resource, and thing to work at, r1 to r<resources> in turn
 * (0 = none). */
void fleet_push_many(struct fleet *fleet, const char *class_name, unsigned count, unsigned milliseconds,
                     unsigned resources);
/* Fails the test unless the first entry of a set of times is due from `least_s` after `since` on, and at most `most_s`
 * from now. What is late here only makes that wider. */
void fleet_assert_due(struct fleet *fleet, const char *set, struct wall_time since, double least_s, double most_s);
/* All that is waiting: in the queues, in schedule, in retry, in dead, and what processes have. */
unsigned fleet_left(struct fleet *fleet);
/* The keys of the queue node, without the statistics, which stay. */
unsigned fleet_keys(struct fleet *fleet);

/* What the witness wrote, and how often it has this line. */
char *fleet_journal(const struct fleet *fleet);
unsigned fleet_noted(struct fleet *fleet, const char *line);
/* How many lines begin so. */
unsigned fleet_noted_all(struct fleet *fleet, const char *what);

/* The log of a worker, whether it has this text, and how often. */
char *fleet_log(const struct fleet *fleet, unsigned worker);
bool fleet_logged(struct fleet *fleet, unsigned worker, const char *text);
unsigned fleet_logged_times(struct fleet *fleet, unsigned worker, const char *text);
/* SIGHUP to a worker; returns when it has logged the outcome. */
void fleet_reload(struct fleet *fleet, unsigned worker);
/* Prints the end of what each worker has said, to see why a test failed. */
void fleet_tell(const struct fleet *fleet);

#endif
