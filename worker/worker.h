/* A worker process: from a checked configuration to an orderly end.
 *
 * The calling thread becomes the loop thread; runner threads only run handlers; those that run elsewhere are children
 * of the zygote. Signals: SIGTERM and SIGINT stop gracefully (nothing new is started, what has not started is given
 * back, what runs has the configured time, then is cancelled; if it runs on, its task is given back after its
 * process is killed, or its thread abandoned); a second one stops now. */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include "worker/config/config.h"
#include "worker/events/observer.h"
#include "worker/isolation/launcher.h"
#include "worker/plugin/plugin.h"
#include "worker/print/exit_code.h"

/* Two slots share a runner. */
#define WORKER_SLOTS(threads) (2 * (threads))

struct job_hosts;

struct worker_options {
    struct config *config;                  /* the worker changes reloadable settings of it */
    const char *queues;                     /* as --queues gave them; NULL = those of the configuration */
    struct plugins *plugins;                /* open; the worker exchanges what is in the set */
    struct job_hosts *hosts;                /* for plugins that are opened later */
    char **event_environment;               /* of startup_check_events; the worker takes it over; NULL = none */
    bool drain;                             /* stop when there is nothing to do */
    uint64_t max_tasks;                     /* stop after that many, without those that were parked; 0 = no limit */
    unsigned process;                       /* its number under a supervisor, from 1; 0 = it is alone */
    unsigned processes;                     /* of its unit, which share a journal; 0 = it is alone */
    struct run_table *run_table;            /* with WORKER_SLOTS(threads) run entries */
    struct zygote *zygote;                  /* that has the run table */
    const char *key_space;                  /* before every key on the queue node; NULL = none */
    const struct worker_observer *observer; /* NULL = none */
    const char *report_path;                /* where the report is written at the end; NULL = nowhere */
};

/* EXIT_CODE_OK after an orderly end; EXIT_CODE_FAILURE when it could not start, or had to abandon a handler that did
 * not return: the process must then end without calling anything of the plugins, and `*abandoned` says so. */
enum exit_code worker_run(const struct worker_options *options, bool *abandoned);

#endif
