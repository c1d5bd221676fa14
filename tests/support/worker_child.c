#include "tests/support/worker_child.h"

#include <stdio.h>
#include <sys/prctl.h>

#include "base/log.h"
#include "tests/support/test.h"
#include "worker/isolation/runner_process.h"
#include "worker/signals.h"
#include "worker/startup_check.h"
#include "worker/task/job_host.h"
#include "worker/worker.h"

static void output_open(const struct fleet *fleet, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s.log", fleet->directory, name);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
}

static void plugins_begin(struct worker_options *options)
{
    const struct config_worker *worker = &options->config->worker;
    struct findings findings = {0};
    struct error error = ERROR_NONE;
    options->plugins = plugins_load(worker->jobs_directory, worker->jobs.items, worker->jobs.count, &findings);
    startup_check(options->config, options->plugins, &findings);
    findings_print(&findings, stderr);
    options->hosts = job_hosts_create(options->config);
    if (findings.errors > 0 || !startup_open(options->plugins, options->hosts, options->config, &error))
        abort();
}

_Noreturn static void child_run(const char *path, const char *key_space, const struct worker_observer *observer,
                                struct run_table *run_table)
{
    struct log_options log = {.level = LOG_DEBUG, .fd = STDERR_FILENO};
    struct findings findings = {0};
    struct error error = ERROR_NONE;
    struct zygote zygote;
    bool abandoned = false;
    struct worker_options options = {.key_space = key_space, .observer = observer};
    signals_hold();
    options.config = config_read(path, &findings);
    findings_print(&findings, stderr);
    if (options.config == NULL || findings.errors > 0)
        abort();
    options.run_table = run_table != NULL ? run_table : run_table_create(WORKER_SLOTS(options.config->worker.threads));
    if (!zygote_start(&zygote,
                      &(struct zygote_options){.run_table = options.run_table, .runner = runner_main, .log = log},
                      &error))
        abort();
    options.zygote = &zygote;
    plugins_begin(&options);
    if (!log_start(&log, &error))
        abort();
    int code = (int)worker_run(&options, &abandoned);
    log_stop();
    if (!abandoned)
        zygote_end(&zygote);
    _exit(code);
}

unsigned worker_child_start(struct fleet *fleet, const struct fleet_setup *setup, const char *key_space,
                            const struct worker_observer *observer, struct run_table *run_table)
{
    char path[256];
    unsigned number = fleet->worker_count++;
    struct fleet_worker *worker = &fleet->workers[number];
    pid_t parent = getpid();
    snprintf(worker->name, sizeof worker->name, "host%u", number);
    fleet_configure(fleet, number, setup);
    snprintf(path, sizeof path, "%s/%s.conf", fleet->directory, worker->name);
    worker->pid = fork();
    assert_true(worker->pid >= 0);
    if (worker->pid > 0)
        return number;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(127);
    output_open(fleet, worker->name);
    child_run(path, key_space, observer, run_table);
}
