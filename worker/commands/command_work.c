/* holdfast work: runs tasks until a signal stops it. */
#include "worker/commands/command.h"

#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "queue/crash_suspect.h"
#include "queue/scripts.h"
#include "worker/commands/origin.h"
#include "worker/config/config.h"
#include "worker/config/surroundings.h"
#include "worker/isolation/runner_process.h"
#include "worker/nodes/node_client.h"
#include "worker/plugin/plugin.h"
#include "worker/plugin/plugin_programs.h"
#include "worker/reload.h"
#include "worker/servers/local_nodes.h"
#include "worker/signals.h"
#include "worker/startup_check.h"
#include "worker/supervisor/supervisor.h"
#include "worker/task/crash_note.h"
#include "worker/task/job_host.h"
#include "worker/worker.h"

/* Runners allocate little and briefly; one pool of memory for each of them would cost more than it saves. */
#define MALLOC_ARENAS 2

struct work_command {
    struct origin origin;
    const char *path;
    bool allow_root;
    int64_t max_tasks;                        /* 0 = no limit */
    int64_t processes;                        /* 0 = this one alone */
    const struct supervised_process *process; /* which of them this is; NULL = of none */
    struct worker_options worker;
    struct findings findings;
    struct config *config;
    struct plugins *plugins;
    struct job_hosts *hosts;
    char **event_environment;
    struct run_table *run_table;
    struct zygote zygote;
};

#define AT(member) offsetof(struct work_command, member)
static const struct option_row options[] = {
    {OPTION_TEXT, 0, "queues", "A,B", "serve these queues instead of those in the configuration",
     .offset = AT(worker.queues)},
    {OPTION_COUNT, 0, "max-tasks", "N", "stop after N tasks were taken, not counting those that were parked",
     .offset = AT(max_tasks), .least = 1, .most = INT64_MAX},
    {OPTION_FLAG, 0, "drain", NULL, "stop when nothing is left to do (above)", .offset = AT(worker.drain)},
    {OPTION_TEXT, 0, "report", "FILE", "write what was done, as one JSON object, at the end",
     .offset = AT(worker.report_path)},
    {OPTION_COUNT, 0, "processes", "N", "keep N worker processes running (1 to 64)", .offset = AT(processes),
     .least = 1, .most = SUPERVISION_MAX},
    {OPTION_FLAG, 0, "allow-root", NULL, "run although the user is root (or worker.allow_root)",
     .offset = AT(allow_root)},
    {OPTION_TABLE, .table = origin_options, .help = ORIGIN_HEADLINE, .offset = AT(origin)},
    {.type = OPTION_END},
};
#undef AT

/* --- the last word of the zygote ---------------------------------------------------------------------------------- */

#define PATIENCE_NS (10 * NS_PER_S)

static void failure_tell(const char *reason)
{
    char text[LOG_QUOTE_MAX];
    log_event(LOG_WARN, "culprit_not_noted",
              "reason=%s advice=\"the tasks that ran beside it count as if they had crashed the worker, too\"",
              log_value(reason, text));
}

static void outcome_tell(const struct node_client *client, const struct run_entry *run_entry)
{
    char jid[LOG_QUOTE_MAX];
    const struct redis_reply *reply = node_client_reply(client, 0);
    if (reply->kind == REDIS_FAILURE)
        failure_tell(reply->bytes);
    else if (node_client_integer(client, 0, 0) != 1)
        failure_tell("it was recovered before");
    else
        log_event(LOG_INFO, "culprit_noted", "jid=%s", log_value(run_entry->jid, jid));
}

/* Notes at the queue node whose handler crashed the worker (queue/crash_suspect.h), so that the tasks beside it are not
 * blamed when they are recovered. Runs in the zygote, whose children are gone by then: a single thread with a copy of
 * the configuration as it was when the worker began. If the node cannot be reached within ten seconds, or the zygote
 * was killed too, nothing is noted, and all tasks of the worker are counted. */
static void suspect_note(const void *config, const struct run_table *run_table, unsigned suspect)
{
    static const struct redis_script *const scripts[] = {&queue_script_crash_suspect};
    const struct config *own = config;
    struct error error = ERROR_NONE;
    struct queue_keys keys;
    struct node_client *client = node_client_open(&(struct node_client_options){.node = &own->queue_node,
                                                                                .client_name = "holdfast-zygote",
                                                                                .scripts = scripts,
                                                                                .script_count = 1,
                                                                                .patience_ns = PATIENCE_NS,
                                                                                .keeps_trying = true},
                                                  &error);
    if (client == NULL) {
        failure_tell(error.text);
        return;
    }
    queue_keys_init(&keys, "", "");
    node_client_begin(client);
    crash_suspect_request(node_client_compose(client), &keys, run_table->identity, suspect);
    if (node_client_run(client))
        outcome_tell(client, &run_table->run_entries[suspect]);
    else
        failure_tell(node_client_reason(client));
    queue_keys_fini(&keys);
    node_client_close(client);
}

/* --- getting ready ------------------------------------------------------------------------------------------------ */

/* Handlers act on what others push; nothing of that needs to be able to do everything. */
static void root_check(const struct work_command *command, struct findings *findings)
{
    if (geteuid() != 0 || command->allow_root || command->config->worker.allow_root)
        return;
    if (command->origin.kind == ORIGIN_LOCAL) {
        findings_warn(findings, "this worker runs as root: so does every task that is pushed to these local nodes");
        return;
    }
    findings_error(findings,
                   "%s: a worker does not run as root: a mistake in a handler, or a task made for one, would own the "
                   "machine. Run it as a user of its own (su, or User= or DynamicUser= of a systemd service), or allow "
                   "it with worker.allow_root = true or --allow-root",
                   command->path);
}

static struct log_options log_options_of(const struct config *config)
{
    const struct config_worker *worker = &config->worker;
    return (struct log_options){.level = worker->log_level,
                                .format = worker->log_format,
                                .fd = STDERR_FILENO,
                                .path = worker->log_file[0] != '\0' ? worker->log_file : NULL};
}

/* A supervisor has made it, from the configuration as it was a moment before. */
static void run_table_begin(struct work_command *command)
{
    const struct config *config = command->config;
    unsigned run_entries = WORKER_SLOTS(config->worker.threads);
    command->run_table = command->process != NULL ? command->process->run_table : run_table_create(run_entries);
    if (command->run_table == NULL)
        findings_error(&command->findings, "%s: there is no memory for worker.threads = %u", config->path,
                       config->worker.threads);
    else if (command->run_table->run_entry_count < run_entries)
        findings_error(&command->findings, "%s: worker.threads was changed in this moment", config->path);
}

/* Before plugins are loaded, which may start threads. */
static void zygote_begin(struct work_command *command)
{
    struct error error = ERROR_NONE;
    const struct config *config = command->config;
    run_table_begin(command);
    if (command->findings.errors > 0)
        return;
    if (!zygote_start(&command->zygote,
                      &(struct zygote_options){.run_table = command->run_table,
                                               .runner = runner_main,
                                               .log = log_options_of(config),
                                               .on_worker_death = suspect_note,
                                               .context = config},
                      &error))
        findings_error(&command->findings, "%s: %s", config->path, error.text);
    else
        command->worker.zygote = &command->zygote;
    command->worker.run_table = command->run_table;
    crash_notes_begin(command->run_table);
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
        startup_leave_out(command->config, command->plugins, findings);
        startup_check_plugins(command->config, command->plugins, findings);
        command->event_environment = startup_check_events(command->config, findings);
        root_check(command, findings);
    }
    if (findings->errors > 0 || command->process == NULL || command->process->number == 1)
        findings_print(findings, stderr); /* warnings are the same in all */
    if (findings->errors > 0)
        origin_tell(&command->origin, &command_work);
    return command->config != NULL && findings->errors == 0;
}

static bool open_plugins(struct work_command *command)
{
    struct error error = ERROR_NONE;
    char text[LOG_QUOTE_MAX];
    command->hosts = job_hosts_create(command->config);
    if (startup_open(command->plugins, command->hosts, command->config, &error))
        return true;
    log_event(LOG_ERROR, "plugin_refused", "reason=%s", log_value(error.text, text));
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
        command->worker.event_environment = command->event_environment;
        command->event_environment = NULL;
        plugins_tell(command->plugins, 0);
        code = (int)worker_run(&command->worker, &abandoned);
    }
    crash_note_own_end();
    log_event(LOG_INFO, "worker_stopped", "host=%s exit_code=%d", worker->host, code);
    log_stop();
    if (abandoned)
        _exit(code); /* a handler is still running: nothing of its plugin may be torn down */
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
        command_complain(&command_work, "%s", error.text);
        return EXIT_CODE_FAILURE;
    }
    if (command->process != NULL)
        supervised_process_tell(command->process);
    return work(command);
}

static int run_worker(struct work_command *command)
{
    int code = start(command);
    surroundings_forget(command->event_environment);
    plugins_close(command->plugins);
    if (command->hosts != NULL)
        job_hosts_destroy(command->hosts);
    if (command->zygote.pid != 0)
        zygote_end(&command->zygote);
    crash_notes_end();
    run_table_destroy(command->run_table);
    config_free(command->config);
    findings_fini(&command->findings);
    return code;
}

/* --- several processes -------------------------------------------------------------------------------------------- */

static struct supervisor_terms terms_of(const struct config *config)
{
    return (struct supervisor_terms){.log = log_options_of(config),
                                     .run_entries = WORKER_SLOTS(config->worker.threads)};
}

static void terms_renew(void *context, struct supervisor_terms *terms)
{
    struct work_command *command = context;
    struct findings findings = {0};
    struct config *fresh = config_read(command->path, &findings);
    if (fresh != NULL && findings.errors == 0) {
        *terms = terms_of(fresh);
        config_free(command->config);
        command->config = fresh;
    } else {
        config_free(fresh); /* a worker that starts says what is wrong with it */
    }
    findings_fini(&findings);
}

/* A process of its own: it reads the configuration anew. */
static int run_supervised(void *context, const struct supervised_process *process)
{
    struct work_command *command = context;
    char *report_path = NULL;
    struct error error = ERROR_NONE;
    crash_notes_begin(process->run_table);
    signals_hold();
    if (command->origin.kind == ORIGIN_LOCAL && local_nodes_join(&error) != EXIT_CODE_OK) {
        command_complain(&command_work, "%s", error.text);
        return EXIT_CODE_FAILURE;
    }
    config_free(command->config);
    command->process = process;
    command->worker.process = process->number;
    command->worker.processes = (unsigned)command->processes;
    if (command->worker.report_path != NULL &&
        asprintf(&report_path, "%s.%u", command->worker.report_path, process->number) < 0)
        return EXIT_CODE_FAILURE;
    command->worker.report_path = report_path;
    int code = run_worker(command);
    free(report_path);
    return code;
}

/* Only processes that load the plugins find out what is wrong with them. */
static int supervise(struct work_command *command)
{
    struct findings *findings = &command->findings;
    int code = EXIT_CODE_FAILURE;
    command->config = config_read(command->path, findings);
    if (command->config != NULL && command->worker.queues != NULL)
        config_serve_queues(command->config, command->worker.queues, findings);
    if (command->config != NULL)
        root_check(command, findings);
    bool is_well = command->config != NULL && findings->errors == 0;
    if (!is_well) {
        findings_print(findings, stderr);
        origin_tell(&command->origin, &command_work);
    }
    findings_fini(findings);
    *findings = (struct findings){0};
    if (is_well)
        code = supervisor_run(&(struct supervisor_options){.processes = (unsigned)command->processes,
                                                           .terms = terms_of(command->config),
                                                           .renew = terms_renew,
                                                           .run = run_supervised,
                                                           .context = command});
    config_free(command->config);
    return code;
}

/* The nodes outlive this worker, so it says how to be rid of them, too. */
static int local_start(struct work_command *command)
{
    struct error error = ERROR_NONE;
    command->origin.kind = ORIGIN_LOCAL;
    int code = (int)local_nodes_start(&command->origin.found, stderr, &error);
    if (code == EXIT_CODE_OK)
        fputs("The local nodes run until `holdfast local stop`. To go on with a configuration of your own: "
              "holdfast config --from-local > holdfast.conf\n",
              stderr);
    else
        command_complain(&command_work, "%s", error.text);
    return code;
}

static int run(int argc, char **argv)
{
    signals_hold();
    struct work_command command = {0};
    struct command_line line;
    if (!command_line_read(&line, &command_work, argc, argv, &command))
        return line.exit_code;
    if (command.processes > 0 && command.max_tasks > 0)
        return command_misused(&command_work, "--max-tasks counts in one process: leave it out with --processes");
    bool is_new = command.origin.is_local && command.origin.path == NULL;
    command.origin.changes = true;
    int code = is_new ? local_start(&command) : origin_find(&command.origin, &command_work, ORIGIN_NEEDS_LOCKS);
    if (code == EXIT_CODE_OK) {
        command.worker.max_tasks = (uint64_t)command.max_tasks;
        command.path = origin_path(&command.origin);
        code = command.processes > 0 ? supervise(&command) : run_worker(&command);
    }
    origin_close(&command.origin);
    return code;
}

const struct command command_work = {
    .name = "work",
    .summary = "run tasks from the queues",
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
        "With --processes the command does no work itself: it keeps that many worker processes running, forwards "
        "these\n"
        "signals to them, and starts again who crashed or failed, after 1 s, 2 s, 4 s and so on up to 60 s. Its exit\n"
        "code is the worst of theirs. The reports go to FILE.1, FILE.2 and so on.\n"
        "\n"
        "With --drain it ends when its queues are empty and nothing of them is left elsewhere: no process has one of\n"
        "their tasks (those of a process that died it recovers), none waits for a lock, for a share of the threads "
        "or\n"
        "for lock nodes, and nothing is due. What is scheduled for the next seconds is waited for too (5 s, and the\n"
        "longest of lock.ttl, twice park_delay and twice conflict_delay). It does not wait for what is scheduled for\n"
        "later, for failed tasks until their retry is due, and for paused queues. Workers that drain the same queues\n"
        "end together.\n"
        "\n"
        "With --local it needs no configuration and no nodes: it starts private ones on this machine, or finds those\n"
        "that run, and serves the classes echo and sleep. Every other command finds them with --local, too. They go\n"
        "on when the worker ends, until `holdfast local stop`, and keep the tasks that are queued.\n"
        "\n"
        "A worker refuses to run as root unless it is allowed to. Run as many workers, on as many hosts, as you "
        "like.\n",
    .examples = "  holdfast work --local\n"
                "  holdfast work\n"
                "  holdfast work --processes 4\n"
                "  holdfast work --drain --report report.json\n",
    .options = options,
    .run = run,
};
