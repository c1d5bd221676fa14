/* holdfast work: runs tasks until it is told to stop. */
#include "worker/commands.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "worker/config.h"
#include "worker/job_host.h"
#include "worker/plugin.h"
#include "worker/startup.h"
#include "worker/worker.h"

enum { OPTION_CONFIG, OPTION_MAX_TASKS, OPTION_DRAIN, OPTION_REPORT };

static const struct command_option options[] = {
    [OPTION_CONFIG] = {'c', "config", "FILE", "the configuration of the worker (required)"},
    [OPTION_MAX_TASKS] = {0, "max-tasks", "N", "stop after N tasks were taken"},
    [OPTION_DRAIN] = {0, "drain", NULL, "stop when the queues are empty and nothing that was parked is due soon"},
    [OPTION_REPORT] = {0, "report", "FILE", "write what was done, as one JSON object, at the end"},
    {0, NULL, NULL, NULL},
};

/* Runners allocate little and briefly; one pool of memory for each of them would cost more than it saves. */
#define MALLOC_ARENAS 2

struct work_command {
    const char *path;
    struct worker_options worker;
    struct findings findings;
    struct config *config;
    struct plugins *plugins;
    struct job_hosts *hosts;
};

static bool max_tasks_parse(const char *text, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text || number < 1)
        return false;
    *value = (uint64_t)number;
    return true;
}

/* Everything that is wrong is said at once, as `holdfast check` does, and then nothing is started. */
static bool prepare(struct work_command *command)
{
    struct findings *findings = &command->findings;
    command->config = config_read(command->path, findings);
    if (command->config != NULL) {
        const struct config_worker *worker = &command->config->worker;
        command->plugins = plugins_load(worker->jobs_directory, worker->jobs.items, worker->jobs.count, findings);
        startup_check(command->config, command->plugins, findings);
    }
    findings_print(findings, stderr);
    return command->config != NULL && findings->errors == 0;
}

static bool open_plugins(struct work_command *command)
{
    struct error error = ERROR_NONE;
    char text[LOG_QUOTE_MAX];
    command->hosts = job_hosts_create(command->config);
    if (plugins_open(command->plugins, job_hosts_for, command->hosts, &error))
        return true;
    log_event(LOG_ERROR, "plugin_refused", "reason=%s", log_quote(error.text, text));
    return false;
}

static int work(struct work_command *command)
{
    const struct config_worker *worker = &command->config->worker;
    bool abandoned = false;
    int code = EXIT_CODE_FAILURE;
    if (open_plugins(command)) {
        command->worker.config = command->config;
        command->worker.plugins = command->plugins;
        code = (int)worker_run(&command->worker, &abandoned);
    }
    log_event(LOG_INFO, "worker_stopped", "host=%s exit_code=%d", worker->host, code);
    log_stop();
    if (abandoned)
        _exit(code); /* a handler is still running: nothing of its plugin may be torn down */
    plugins_close(command->plugins);
    job_hosts_destroy(command->hosts);
    return code;
}

static int start(struct work_command *command)
{
    struct error error = ERROR_NONE;
    if (!prepare(command))
        return EXIT_CODE_FAILURE;
    const struct config_worker *worker = &command->config->worker;
    struct log_options log = {
        .level = worker->log_level, .fd = STDERR_FILENO, .path = worker->log_file[0] != '\0' ? worker->log_file : NULL};
    mallopt(M_ARENA_MAX, MALLOC_ARENAS);
    if (!log_start(&log, &error)) {
        fprintf(stderr, "holdfast work: %s\n", error.text);
        return EXIT_CODE_FAILURE;
    }
    return work(command);
}

static int run(int argc, char **argv)
{
    struct work_command command = {0};
    struct command_line line = command_line_begin(&command_work, argc, argv);
    for (int option; (option = command_line_next(&line)) >= 0;) {
        if (option == OPTION_CONFIG)
            command.path = line.value;
        else if (option == OPTION_DRAIN)
            command.worker.drain = true;
        else if (option == OPTION_REPORT)
            command.worker.report_path = line.value;
        else if (!max_tasks_parse(line.value, &command.worker.max_tasks))
            return command_misused(&command_work, "--max-tasks wants a number from 1 on, not '%s'", line.value);
    }
    if (line.is_over)
        return line.exit_code;
    if (command.path == NULL)
        return command_misused(&command_work, "the configuration is missing: -c FILE");
    int code = start(&command);
    config_free(command.config);
    findings_fini(&command.findings);
    return code;
}

const struct command command_work = {
    .name = "work",
    .summary = "run tasks from the queues",
    .synopsis = "-c FILE [--drain] [--max-tasks N] [--report FILE]",
    .about =
        "Takes tasks from the queues of the configuration, locks what each of them names, runs its handler on one of\n"
        "the worker's threads while the lock is extended in the background, and settles it.\n"
        "\n"
        "SIGTERM and SIGINT stop gracefully: nothing new is started, what no thread has taken is given back, and\n"
        "what runs may end within stop_timeout. A second signal stops now. Run as many workers, on as many hosts,\n"
        "as you like.\n",
    .examples = "  holdfast work -c holdfast.conf\n"
                "  holdfast work -c holdfast.conf --drain --report report.json\n",
    .options = options,
    .run = run,
};
