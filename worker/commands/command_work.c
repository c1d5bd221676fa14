/* holdfast work: runs tasks until it is told to stop. */
#include "worker/commands/commands.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/quantity.h"
#include "base/log.h"
#include "worker/config/config.h"
#include "worker/isolation/runner_process.h"
#include "worker/plugin/job_host.h"
#include "worker/plugin/plugin.h"
#include "worker/plugin/plugin_programs.h"
#include "worker/plugin_reload.h"
#include "worker/startup.h"
#include "worker/worker.h"

enum { OPTION_CONFIG, OPTION_QUEUES, OPTION_MAX_TASKS, OPTION_DRAIN, OPTION_REPORT, OPTION_ALLOW_ROOT };

static const struct command_option options[] = {
    [OPTION_CONFIG] = {'c', "config", "FILE", "the configuration of the worker (required)"},
    [OPTION_QUEUES] = {0, "queues", "A,B", "serve these queues instead of those in the configuration"},
    [OPTION_MAX_TASKS] = {0, "max-tasks", "N", "stop after N tasks were taken"},
    [OPTION_DRAIN] = {0, "drain", NULL, "stop when the queues are empty and nothing that was parked is due soon"},
    [OPTION_REPORT] = {0, "report", "FILE", "write what was done, as one JSON object, at the end"},
    [OPTION_ALLOW_ROOT] = {0, "allow-root", NULL, "run although the user is root (or worker.allow_root)"},
    {0, NULL, NULL, NULL},
};

/* Runners allocate little and briefly; one pool of memory for each of them would cost more than it saves. */
#define MALLOC_ARENAS 2

struct work_command {
    const char *path;
    bool allow_root;
    struct worker_options worker;
    struct findings findings;
    struct config *config;
    struct plugins *plugins;
    struct job_hosts *hosts;
    struct board *board;
    struct zygote zygote;
};

/* Handlers act on what others push; nothing of that needs to be able to do everything. */
static void root_check(const struct work_command *command, struct findings *findings)
{
    if (geteuid() != 0 || command->allow_root || command->config->worker.allow_root)
        return;
    findings_error(findings,
                   "%s: a worker does not run as root: a mistake in a handler, or a task made for one, would own the "
                   "machine. Run it as a user of its own (su, or User= or DynamicUser= of a systemd service), or allow "
                   "it with worker.allow_root = true or --allow-root",
                   command->path);
}

static struct log_options log_options_of(const struct config *config)
{
    const struct config_worker *worker = &config->worker;
    return (struct log_options){
        .level = worker->log_level, .fd = STDERR_FILENO, .path = worker->log_file[0] != '\0' ? worker->log_file : NULL};
}

/* Before plugins are loaded, which may start threads. */
static void zygote_begin(struct work_command *command)
{
    struct error error = ERROR_NONE;
    const struct config *config = command->config;
    command->board = board_create(WORKER_SLOTS(config->worker.threads));
    if (command->board == NULL)
        findings_error(&command->findings, "%s: there is no memory for worker.threads = %u", config->path,
                       config->worker.threads);
    else if (!zygote_start(&command->zygote,
                           &(struct zygote_options){
                               .board = command->board, .runner = runner_main, .log = log_options_of(config)},
                           &error))
        findings_error(&command->findings, "%s: %s", config->path, error.text);
    else
        command->worker.zygote = &command->zygote;
    command->worker.board = command->board;
}

/* Everything that is wrong is said at once, as `holdfast check` does, and then nothing is started. */
static bool prepare(struct work_command *command)
{
    struct findings *findings = &command->findings;
    command->config = config_read(command->path, findings);
    if (command->config != NULL) {
        if (command->worker.queues != NULL)
            config_serve_queues(command->config, command->worker.queues, findings);
        const struct config_worker *worker = &command->config->worker;
        zygote_begin(command);
        command->plugins =
            plugins_load_vetted(worker->jobs_directory, worker->jobs.items, worker->jobs.count, findings);
        plugins_add_programs(command->plugins, NULL, command->config, findings);
        startup_check(command->config, command->plugins, findings);
        root_check(command, findings);
    }
    findings_print(findings, stderr);
    return command->config != NULL && findings->errors == 0;
}

static bool open_plugins(struct work_command *command)
{
    struct error error = ERROR_NONE;
    char text[LOG_QUOTE_MAX];
    command->hosts = job_hosts_create(command->config);
    struct plugin_opening opening = {
        .host_for = job_hosts_for, .hosts = command->hosts, .runs_here = startup_runs_here, .context = command->config};
    if (plugins_open_for(command->plugins, &opening, &error))
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
        command->worker.hosts = command->hosts;
        plugins_tell(command->plugins, 0);
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
    struct log_options log = log_options_of(command->config);
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
    int64_t max_tasks = 0; /* no limit */
    struct command_line line = command_line_begin(&command_work, argc, argv);
    for (int option; (option = command_line_next(&line)) >= 0;) {
        if (option == OPTION_CONFIG)
            command.path = line.value;
        else if (option == OPTION_QUEUES)
            command.worker.queues = line.value;
        else if (option == OPTION_ALLOW_ROOT)
            command.allow_root = true;
        else if (option == OPTION_DRAIN)
            command.worker.drain = true;
        else if (option == OPTION_REPORT)
            command.worker.report_path = line.value;
        else if (!count_parse(line.value, 1, INT64_MAX, &max_tasks))
            return command_misused(&command_work, "--max-tasks wants a number from 1 on, not '%s'", line.value);
    }
    if (line.is_over)
        return line.exit_code;
    command.worker.max_tasks = (uint64_t)max_tasks;
    if (command.path == NULL)
        return command_misused(&command_work, "the configuration is missing: -c FILE");
    int code = start(&command);
    if (command.zygote.pid != 0)
        zygote_end(&command.zygote);
    board_destroy(command.board);
    config_free(command.config);
    findings_fini(&command.findings);
    return code;
}

const struct command command_work = {
    .name = "work",
    .summary = "run tasks from the queues",
    .synopsis = "-c FILE [--queues A,B] [--drain] [--max-tasks N] [--report FILE]",
    .about =
        "Takes tasks from the queues of the configuration, locks what each of them names, runs its handler on one of\n"
        "the worker's threads while the lock is extended in the background, and settles it.\n"
        "\n"
        "Signals:\n"
        "  SIGTERM, SIGINT  stop gracefully: nothing new is started, what no thread has taken is given back, what "
        "runs\n"
        "                   may end within stop_timeout; a second one stops now\n"
        "  SIGTSTP          quiet: claim nothing more, finish what runs, stay; for good (SIGCONT does not undo it)\n"
        "  SIGUSR2          drain: quiet, then end with exit code 0 when nothing runs any more, without a deadline\n"
        "  SIGHUP           read the configuration again, load plugins that changed, and open the log file again\n"
        "  SIGUSR1          open the log file again\n"
        "  SIGTTIN          write a line into the log for each task that runs\n"
        "\n"
        "A worker refuses to run as root unless it is allowed to. Run as many workers, on as many hosts, as you "
        "like.\n",
    .examples = "  holdfast work -c holdfast.conf\n"
                "  holdfast work -c holdfast.conf --drain --report report.json\n",
    .options = options,
    .run = run,
};
