/* One run of one handler without a worker and without Redis: what is behind holdfast run-handler.
 *
 *     struct handler_run *run = handler_run_create(&request);
 *     if (handler_run_prepare(run))           reads the configuration, loads the plugin, makes the task
 *         handler_run_execute(run);           returns when the handler has
 *     handler_run_print(run);
 *     int code = handler_run_exit_code(run);
 *     handler_run_free(run);
 *
 * The parts are those of a worker, but for two: the lock is a pretended one (pretended_lock.h), and what the handler
 * says goes to the terminal. What its answer means for the task is decided by the worker's own rules (run_outcome.h).
 *
 * Threads: the main thread is the loop. In the isolation `thread` the handler has a thread of its own; what is in the
 * job is handed over to it and back, as in a worker. */
#ifndef WORKER_HANDLER_RUN_H
#define WORKER_HANDLER_RUN_H

#include <stdio.h>

#include "base/buffer.h"
#include "base/loop.h"
#include "worker/commands/origin.h"
#include "worker/commands/pretended_lock.h"
#include "worker/config/command_options.h"
#include "worker/config/config.h"
#include "worker/isolation/isolation.h"
#include "worker/isolation/thread_pool.h"
#include "worker/locks/task_resources.h"
#include "worker/plugin/plugin.h"
#include "worker/print/exit_code.h"
#include "worker/task/job_host.h"
#include "worker/task/task_rules.h"

enum { HANDLER_RUN_SETTINGS_MAX = 64 };

/* What the command line wants. The texts stay the caller's. */
struct handler_run_request {
    const char *class_name;
    struct text_span args;        /* a JSON array */
    struct origin origin;         /* the caller finds its file, and closes it */
    const char *plugin, *program; /* instead of a configuration; without any of them the usual plugins are taken */
    struct option_texts resources;
    int64_t fence;                                           /* the token of its lock */
    int64_t lose_after_ns, danger_after_ns, cancel_after_ns; /* -1 = never */
    int64_t timeout_ns;                                      /* -1 = as the class says */
    int64_t attempt;
    const char *checkpoint; /* JSON; NULL = none */
    struct handler_run_settings {
        struct config_pair items[HANDLER_RUN_SETTINGS_MAX];
        size_t count;
    } settings;
    bool in_process; /* in this process, whatever the class says */
    bool as_json;
};

/* What becomes of the task. */
enum handler_run_ending {
    HANDLER_RUN_UNKNOWN, /* there was no run: it could not be prepared */
    HANDLER_RUN_DONE,
    HANDLER_RUN_RETRY,
    HANDLER_RUN_DEAD,
    HANDLER_RUN_DISCARDED,
    HANDLER_RUN_SNOOZED,
    HANDLER_RUN_LOCK_LOST, /* what it said was refused */
    HANDLER_RUN_RETURNED,  /* to its queue: it was asked to stop */
    HANDLER_RUN_CANCELLED, /* an operator cancelled it */
};

struct handler_run {
    struct handler_run_request request;
    struct config *config;
    struct findings findings;
    struct plugins *plugins; /* those that were looked through */
    struct job_hosts *hosts;
    const struct plugin_handler *handler;
    /* the task */
    struct buffer text;
    struct envelope envelope;
    struct task_rules rules;
    struct class_resources *known;
    struct task_resources resources;
    bool is_locked;
    /* the run */
    struct run_table *run_table;
    struct hf_job job;
    struct job_progress progress;
    int loss_event; /* eventfd that is readable once the lock is lost; -1 = there is no lock */
    struct loop *loop;
    struct thread_pool *pool; /* NULL = it does not run in a thread */
    struct work work;
    struct zygote zygote;
    struct launcher *launcher;
    struct isolation *isolation; /* NULL = it runs in a thread */
    struct isolated_run away;
    struct pretended_lock lock;
    struct loop_timer lock_timer, timeout, cancel;
    struct loop_signal *interrupt;
    unsigned interrupts;
    bool was_in_danger, was_lost;
    /* its end */
    bool started;
    int code;
    struct instant began;
    int64_t took_ns;
    enum handler_run_ending ending;
    const char *failure_outcome; /* of a failure; NULL = none */
    int64_t comes_again_ns;      /* after so long; -1 = it does not, or at once */
    FILE *out;                   /* for what it prints while it runs */
};

struct handler_run *handler_run_create(const struct handler_run_request *request);
void handler_run_free(struct handler_run *run);

/* False after complaining on standard error. A task that must not run is prepared, and has its ending. */
bool handler_run_prepare(struct handler_run *run);
/* False after complaining on standard error. */
bool handler_run_execute(struct handler_run *run);
void handler_run_print(struct handler_run *run);
int handler_run_exit_code(const struct handler_run *run);

/* --- handler_run_outcome.c, for handler_run.c --------------------------------------------------------------------- */

/* A line about the run: what it is about, and a text in which nothing can steer a terminal. Any thread. */
void handler_run_say(struct handler_run *run, const char *about, const char *format, ...) PRINTF_LIKE(3, 4);
/* Decides what becomes of the task when its handler has returned. */
void handler_run_judge(struct handler_run *run);
/* It is buried before it runs. */
void handler_run_bury(struct handler_run *run, const char *error_class, const char *reason);

#endif
