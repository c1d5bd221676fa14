/* A worker process: worker_run as it is, with handlers that are functions of the world. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    struct fleet_worker *worker = fleet_worker_of(process_current()->pid);
    if (worker != NULL) /* else it is no fleet's */
        worker->is_quiet = signal->worker->quiet;
    free(signal);
}

void fleet_signal(struct process *process, int number)
{
    const struct signals *signals = process->signals;
    if (!process->is_alive)
        return;
    if (signals == NULL) { /* it has allocated nothing yet */
        process_kill(process, false);
        return;
    }
    struct signal_message *signal = memory_new(struct signal_message);
    signal->message.deliver = signal_deliver;
    signal->worker = signals->worker;
    signal->number = number;
    loop_post(signals->worker->loop, &signal->message);
}

void fleet_quiet(struct fleet_worker *worker, bool drains)
{
    fleet_signal(worker->process, drains ? SIGUSR2 : SIGTSTP);
}

void fleet_stop(struct fleet_worker *worker)
{
    worker->is_told_to_stop = true;
    fleet_signal(worker->process, SIGTERM);
}

/* --- the process -------------------------------------------------------------------------------------------------- */

/* A template makes tasks lock that name nothing. */
unsigned fleet_locks_of(const struct fleet_task *task, bool has_other_terms)
{
    bool is_made = has_other_terms && fleet.terms == TERMS_OF_ANOTHER_TEMPLATE && task->kind == CLASS_WORK;
    return is_made && task->resource_count == 0 ? 1 : task->resource_count;
}

static void config_write(bool has_other_terms, struct buffer *out)
{
    static const char *const beginnings[] = {NULL, "lock = { ", "class = \"work\"; ", "host = \"lock"};
    static const char *const more[] = {NULL, "prefix = \"other:\"; ", "resource = \"made\"; ", "2"};
    const char *at = has_other_terms ? strstr(fleet.config, beginnings[fleet.terms]) : fleet.config;
    size_t before = (size_t)(at - fleet.config) + (has_other_terms ? strlen(beginnings[fleet.terms]) : 0);
    buffer_append(out, fleet.config, before);
    buffer_append_text(out, has_other_terms ? more[fleet.terms] : "");
    buffer_append_text(out, fleet.config + before);
}

static void worker_live(const struct fleet_worker *worker, bool drains)
{
    struct findings findings = {0};
    struct buffer text = {0};
    struct zygote zygote;
    bool abandoned = false, is_limited = worker->number == 0 && worker->lives == 1;
    config_write(worker->has_other_terms, &text);
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
                                     .zygote = &zygote,
                                     .drain = drains,
                                     .max_tasks = is_limited ? fleet.max_tasks : 0};
    fleet_zygote_start(&zygote, options.run_table);
    process_blocks_begin();
    (void)worker_run(&options, &abandoned);
    if (!abandoned) /* else a handler goes on */
        play_freed();
}

static void worker_main(void *argument)
{
    worker_live(argument, false);
}

static void draining_main(void *argument)
{
    worker_live(argument, true);
}

static void start(struct fleet_worker *worker, void (*main)(void *argument))
{
    char name[24];
    worker->since = world_time();
    worker->is_told_to_stop = false;
    worker->is_quiet = false;
    worker->late_claims = 0;
    worker->ending_ns = worker->idle_ns = 0;
    snprintf(name, sizeof name, "worker%u.%u", worker->number, ++worker->lives);
    worker->has_other_terms = fleet.terms != TERMS_ARE_THE_SAME && chance_pick(&fleet.chance, 2) == 0;
    play_count("workers with other terms", worker->has_other_terms);
    play_count("workers with another lock node", worker->has_other_terms && fleet.terms == TERMS_OF_ANOTHER_NODE);
    worker->process = process_start(worker->host, name, main, worker);
}

void fleet_worker_start(struct fleet_worker *worker)
{
    start(worker, worker_main);
}

void fleet_worker_start_to_drain(struct fleet_worker *worker)
{
    start(worker, draining_main);
}

struct fleet_worker *fleet_worker_of(pid_t pid)
{
    for (unsigned i = 0; i < fleet.worker_count; i++)
        if (fleet.workers[i].process != NULL && fleet.workers[i].process->pid == pid)
            return &fleet.workers[i];
    return NULL;
}
