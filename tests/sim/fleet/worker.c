/* A worker process: worker_run as it is, with handlers that are functions of the world. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "tests/sim/fleet/fleet.h"
#include "worker/signals.h"
#include "worker/task/job_host.h"
#include "worker/worker.h"
#include "worker/worker_state.h"

/* --- signals: worker/signals.h in the world ----------------------------------------------------------------------- */

struct signals {
    struct worker *worker;
};

struct signal_message {
    struct loop_message message;
    struct worker *worker;
    int number;
};

void signals_hold(void) {}

struct signals *signals_create(struct worker *worker, struct error *error)
{
    (void)error;
    struct signals *signals = memory_new(struct signals);
    signals->worker = worker;
    process_current()->signals = signals;
    return signals;
}

void signals_destroy(struct signals *signals)
{
    process_current()->signals = NULL;
    free(signals);
}

static void signal_deliver(struct loop_message *message)
{
    struct signal_message *signal = list_owner(message, struct signal_message, message);
    if (signal->number == SIGTERM)
        worker_stop_asked(signal->worker, "SIGTERM");
    else if (signal->number == SIGTSTP)
        worker_quiet(signal->worker, "SIGTSTP");
    else
        worker_drain(signal->worker, "SIGUSR2");
    free(signal);
}

void fleet_signal(struct process *process, int number)
{
    const struct signals *signals = process->signals;
    if (!process->is_alive)
        return;
    if (signals == NULL) { /* it has nothing yet */
        process_kill(process, false);
        return;
    }
    struct signal_message *signal = memory_new(struct signal_message);
    signal->message.deliver = signal_deliver;
    signal->worker = signals->worker;
    signal->number = number;
    loop_post(signals->worker->loop, &signal->message);
}

/* --- the process -------------------------------------------------------------------------------------------------- */

static void worker_main(void *argument)
{
    (void)argument;
    struct findings findings = {0};
    struct buffer text = {0};
    struct zygote zygote;
    bool abandoned = false;
    buffer_format(&text, "%s", fleet.config);
    struct config *config = config_read_written(&text, &findings);
    if (config == NULL || findings.errors > 0)
        findings_print(&findings, stderr);
    invariant(config != NULL && findings.errors == 0);
    free(config->worker.host);
    config->worker.host = memory_text(process_current()->host->name);
    struct worker_options options = {.config = config,
                                     .plugins = fleet_handlers_make(),
                                     .hosts = job_hosts_create(config),
                                     .run_table = run_table_create(WORKER_SLOTS(config->worker.threads)),
                                     .zygote = &zygote};
    fleet_zygote_start(&zygote, options.run_table);
    process_blocks_begin();
    (void)worker_run(&options, &abandoned);
    if (!abandoned) /* else a handler goes on */
        play_freed();
}

void fleet_worker_start(struct fleet_worker *worker)
{
    char name[24];
    worker->since = world_time();
    snprintf(name, sizeof name, "worker%u.%u", worker->number, ++worker->lives);
    worker->process = process_start(worker->host, name, worker_main, worker);
}
