#include "worker/commands/handler_run.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/list.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "worker/commands/command.h"
#include "worker/config/suggest.h"
#include "worker/isolation/runner_process.h"
#include "worker/plugin/plugin_programs.h"
#include "worker/print/json_writer.h"
#include "worker/task/crash_note.h"

struct handler_run *handler_run_create(const struct handler_run_request *request)
{
    struct handler_run *run = memory_new(struct handler_run);
    run->request = *request;
    run->loss_event = -1;
    run->comes_again_ns = -1;
    run->out = request->as_json ? stderr : stdout;
    job_progress_init(&run->progress);
    job_progress_start(&run->progress, NULL, 0);
    return run;
}

void handler_run_free(struct handler_run *run)
{
    if (run->zygote.pid != 0)
        zygote_end(&run->zygote);
    plugins_close(run->plugins);
    if (run->hosts != NULL)
        job_hosts_destroy(run->hosts);
    class_resources_free(run->known);
    task_resources_fini(&run->resources);
    envelope_fini(&run->envelope);
    buffer_fini(&run->text);
    job_finish(&run->job);
    job_outcome_fini(&run->job.outcome);
    job_progress_fini(&run->progress);
    crash_notes_end();
    run_table_destroy(run->run_table);
    config_free(run->config);
    findings_fini(&run->findings);
    free(run);
}

/* --- what the handler says meanwhile ------------------------------------------------------------------------------ */

/* How a handler run reaches its host: what it says goes to the terminal, and its lock is held as long as it is
 * pretended to be. Called on the handler's thread, or on the loop for one that runs elsewhere. */

static struct handler_run *run_of(struct hf_job *job)
{
    return list_owner(job, struct handler_run, job);
}

/* In danger a real lock has just failed to be extended, so nobody could say for certain that it is held. */
static bool link_verify(struct hf_job *job, int64_t limit_ns)
{
    (void)limit_ns;
    return !redlock_validity_in_danger(job->validity);
}

static int link_descriptor(struct hf_job *job)
{
    return run_of(job)->loss_event;
}

static bool link_hears(struct hf_job *job, enum hf_log_level level)
{
    (void)job;
    (void)level;
    return true;
}

static const char *level_name(enum hf_log_level level)
{
    static const char *const names[] = {
        [HF_LOG_DEBUG] = "debug", [HF_LOG_INFO] = "info", [HF_LOG_WARN] = "warn", [HF_LOG_ERROR] = "error"};
    return names[level];
}

static void link_log(struct hf_job *job, enum hf_log_level level, const char *text)
{
    handler_run_say(run_of(job), "log", "%-5s %s", level_name(level), text);
}

static void link_event(struct hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields,
                       size_t count)
{
    struct buffer text = {0};
    for (size_t i = 0; i < count; i++) {
        char quoted[LOG_QUOTE_MAX];
        buffer_format(&text, " %s=%s", fields[i].key, log_quote(fields[i].value, quoted));
    }
    handler_run_say(run_of(job), "event", "%-5s %s%s", level_name(level), name, buffer_text(&text));
    buffer_fini(&text);
}

static bool link_progress(struct hf_job *job, const char *json)
{
    struct handler_run *run = run_of(job);
    struct buffer text = {0};
    if (!job_progress_put(&run->progress, json))
        return false;
    json_append_defused(&text, json, strlen(json));
    handler_run_say(run, "progress", "%s", buffer_text(&text));
    buffer_fini(&text);
    return true;
}

static const struct job_link terminal_link = {
    .verify = link_verify,
    .descriptor = link_descriptor,
    .hears = link_hears,
    .log = link_log,
    .event = link_event,
    .progress = link_progress,
};

/* --- the configuration -------------------------------------------------------------------------------------------- */

/* The configuration of a handler run. Without a file it is written here and read like one: so the command line needs no
 * rules of its own for what a class or a program may be. */

/* A text of libconfig, in which everything that it could take for something else is a number. */
static void text_write(struct buffer *out, const char *text)
{
    buffer_append_text(out, "\"");
    for (const unsigned char *byte = (const unsigned char *)text; *byte != '\0'; byte++)
        if (*byte < 32 || *byte == '"' || *byte == '\\')
            buffer_format(out, "\\x%02x", *byte);
        else
            buffer_append(out, byte, 1);
    buffer_append_text(out, "\"");
}

static void plugin_write(struct buffer *out, const char *path)
{
    char *directory = memory_text(path), *file = memory_text(path), *name = basename(file);
    name[strlen(name) - strlen(".so")] = '\0';
    buffer_append_text(out, "worker = { jobs_directory = ");
    text_write(out, dirname(directory));
    buffer_append_text(out, "; jobs = [");
    text_write(out, name);
    buffer_append_text(out, "]; };\n");
    free(directory);
    free(file);
}

static void program_write(struct buffer *out, const char *class_name, const char *path)
{
    buffer_append_text(out, "classes = ( { class = ");
    text_write(out, class_name);
    buffer_append_text(out, "; program = [");
    text_write(out, path);
    buffer_append_text(out, "]; } );\n");
}

/* What comes with Holdfast is loaded only by its name, which is that of its class. */
static void shipped_write(struct buffer *out, const char *class_name)
{
    char *directory = plugin_shipped_directory(class_name);
    if (directory != NULL)
        buffer_format(out, "worker = { jobs = [\"%s\"]; };\n", class_name);
    free(directory);
}

/* False after noting why. */
static bool config_write(const struct handler_run_request *request, struct buffer *out, struct findings *findings)
{
    const char *given = request->plugin != NULL ? request->plugin : request->program;
    char *path = given != NULL ? realpath(given, NULL) : NULL;
    bool is_good = given == NULL || path != NULL;
    if (!is_good)
        findings_error(findings, "%s: %s", given, strerror(errno));
    buffer_append_text(out, "queue_node = { host = \"localhost\"; };\n");
    if (path != NULL && request->plugin != NULL) {
        size_t length = strlen(path), end = strlen(".so");
        is_good = length > end && strcmp(path + length - end, ".so") == 0;
        if (is_good)
            plugin_write(out, path);
        else
            findings_error(findings, "%s: the name of a plugin ends with .so", path);
    } else if (path != NULL) {
        program_write(out, request->class_name, path);
    } else if (given == NULL) {
        shipped_write(out, request->class_name);
    }
    free(path);
    return is_good;
}

static struct config *config_of(const struct handler_run_request *request, struct findings *findings)
{
    struct buffer text = {0};
    struct config *config = NULL;
    const char *path = origin_path(&request->origin);
    if (path != NULL)
        return config_read(path, findings);
    if (config_write(request, &text, findings))
        config = config_read_written(&text, findings);
    buffer_fini(&text);
    return config;
}

/* --- settings ----------------------------------------------------------------------------------------------------- */

static struct config_pairs *settings_of(struct config *config, const char *plugin)
{
    for (size_t i = 0; i < config->plugin_count; i++)
        if (strcmp(config->plugins[i].name, plugin) == 0)
            return &config->plugins[i].settings;
    config->plugins = memory_resize(config->plugins, config->plugin_count + 1, sizeof *config->plugins);
    config->plugins[config->plugin_count] = (struct config_plugin){.name = memory_text(plugin)};
    return &config->plugins[config->plugin_count++].settings;
}

static void setting_put(struct config_pairs *settings, const struct config_pair *given)
{
    for (size_t i = 0; i < settings->count; i++)
        if (strcmp(settings->items[i].key, given->key) == 0) {
            free(settings->items[i].value);
            settings->items[i].value = memory_text(given->value);
            return;
        }
    settings->items = memory_resize(settings->items, settings->count + 1, sizeof *settings->items);
    settings->items[settings->count++] = (struct config_pair){memory_text(given->key), memory_text(given->value)};
}

/* --- the task ----------------------------------------------------------------------------------------------------- */

/* The task of a handler run: a text like any producer's, parsed and judged as a worker does. */

static void task_write(const struct handler_run_request *request, struct buffer *out)
{
    struct buffer resources = {0};
    buffer_append_text(&resources, "[");
    for (size_t i = 0; i < request->resources.count; i++) {
        buffer_append_text(&resources, i > 0 ? "," : "");
        envelope_append_string(&resources, request->resources.items[i], strlen(request->resources.items[i]));
    }
    buffer_append_text(&resources, "]");
    struct envelope_draft draft = {
        .class_name = request->class_name,
        .queue = "default",
        .args = request->args,
        .resources_json = request->resources.count > 0 ? text_span_of(&resources) : (struct text_span){0},
    };
    envelope_write(&draft, wall_now(), out);
    buffer_fini(&resources);
}

/* As if it had failed before: the n-th retry has counted the failures before it, from 0 on. */
static void attempt_write(struct handler_run *run, struct error *error)
{
    char count[24];
    struct buffer text = {0};
    snprintf(count, sizeof count, "%" PRId64, run->request.attempt - 1);
    struct envelope_change change = {"retry_count", {count, strlen(count)}};
    envelope_rewrite(&run->envelope, &change, 1, &text);
    buffer_fini(&run->text);
    run->text = text;
    invariant(envelope_parse(&run->envelope, text.bytes, text.length, &ENVELOPE_LIMITS_DEFAULT, error));
}

/* What it locks, as a worker would: what it names, else what the templates of its class make of its arguments. */
static void resources_find(struct handler_run *run)
{
    struct error error = ERROR_NONE;
    struct task_rules *rules = &run->rules;
    switch (task_resources_resolve(&run->resources, &run->envelope, rules, run->known, &error)) {
    case TASK_RESOURCES_OK:
        run->is_locked = true;
        return;
    case TASK_RESOURCES_BAD:
        handler_run_bury(run, run->resources.fault, error.text);
        return;
    case TASK_RESOURCES_NONE:
        if (rules->must_lock)
            handler_run_bury(run, "HF::NoResource", "its class needs a lock, and it names no resource");
        return;
    }
}

static void facts_set(struct handler_run *run)
{
    const struct handler_run_request *request = &run->request;
    struct hf_job *job = &run->job;
    job->class_name = run->envelope.class_name;
    job->queue = run->envelope.queue;
    job->jid = run->envelope.jid;
    job->args = run->envelope.args;
    job->attempt = (unsigned)request->attempt;
    job->resources = run->resources.names;
    job->resource_count = run->is_locked ? run->resources.count : 0;
    if (run->is_locked && !run->rules.unfenced)
        snprintf(job->fence, sizeof job->fence, "%lld", (long long)request->fence);
    job->checkpoint = request->checkpoint;
    job->reports_progress = (run->handler->flags & HF_PROGRESS) != 0;
    job->keeps_result = true;
    job->may_push = !run->rules.at_most_once;
    job->task_limits = config_task_limits(run->config);
    job->link = &terminal_link;
    job->run_table = run->run_table;
    job->run_entry = run_table_entry(run->run_table, 0);
    job->validity = run->is_locked ? &job->run_entry->validity : NULL;
}

static bool task_make(struct handler_run *run, struct error *error)
{
    struct envelope_limits limits = config_task_limits(run->config);
    job_outcome_clear(&run->job.outcome);
    task_write(&run->request, &run->text);
    if (!envelope_parse(&run->envelope, run->text.bytes, run->text.length, &limits, error))
        return false;
    if (run->request.attempt > 0)
        attempt_write(run, error);
    run->rules = task_rules_of(&run->envelope, run->config, run->handler);
    if (run->request.timeout_ns >= 0)
        run->rules.timeout_ns = run->request.timeout_ns;
    if (run->request.in_process && run->handler->program != NULL)
        return error_set(error, "the class %s is a program, which cannot run in this process", run->request.class_name);
    if (run->request.in_process)
        run->rules.isolation = CONFIG_ISOLATION_THREAD;
    run->known = class_resources_create(run->config, run->plugins, &run->findings);
    resources_find(run);
    facts_set(run);
    if (run->rules.refused_class != NULL)
        handler_run_bury(run, run->rules.refused_class, run->rules.refused_reason);
    return true;
}

/* --- getting ready ------------------------------------------------------------------------------------------------ */

/* What was said so far is written, as exit() would have done. */
static void exit_tell(const struct run_entry *whose)
{
    fflush(stdout);
    if (whose != NULL)
        command_complain(&command_run_handler,
                         "the handler of %s called exit(), which ends the whole process, in a worker with all its "
                         "tasks: return from run() instead",
                         whose->class_name);
    else
        command_complain(&command_run_handler, "a plugin called exit(), which ends the whole process");
}

/* Before a plugin is loaded, which may start threads, or end the process. */
static bool run_table_begin(struct handler_run *run)
{
    struct error error = ERROR_NONE;
    run->run_table = run_table_create(1);
    const struct zygote_options options = {
        .run_table = run->run_table, .runner = runner_main, .log = {.level = LOG_WARN, .fd = STDERR_FILENO}};
    if (run->run_table == NULL)
        error_set(&error, "out of memory");
    else if (run->request.in_process || zygote_start(&run->zygote, &options, &error)) {
        crash_notes_begin(run->run_table);
        crash_note_tell_exit(exit_tell);
        return true;
    }
    command_complain(&command_run_handler, "%s", error.text);
    return false;
}

/* A class with a program needs no plugin. For a debugger nothing is tried in a child first: there a crash is what it is
 * about, and forks would only be in its way. */
static void handlers_load(struct handler_run *run)
{
    const struct config_worker *worker = &run->config->worker;
    const struct config_class *entry = config_class_find(run->config, run->request.class_name);
    struct findings *findings = &run->findings;
    if (entry != NULL && entry->program.count > 0)
        run->plugins = plugins_create();
    else if (run->request.in_process)
        run->plugins = plugins_load(worker->jobs_directory, worker->jobs.items, worker->jobs.count, findings);
    else
        run->plugins = plugins_load_vetted(worker->jobs_directory, worker->jobs.items, worker->jobs.count, findings);
    plugins_add_programs(run->plugins, NULL, run->config, findings);
}

/* One that a worker refuses would only be retried here; what else keeps it from starting is the run's to tell. */
static bool program_check(const char *program)
{
    struct error error = ERROR_NONE;
    int fd = program_file_open(program, &error), failure = errno;
    if (fd >= 0)
        close(fd);
    return fd >= 0 || failure != EPERM || (command_complain(&command_run_handler, "%s", error.text), false);
}

/* What is wrong with handlers of other classes is no concern of this run. */
static const struct plugin_handler *handler_find(struct handler_run *run)
{
    const char *class_name = run->request.class_name;
    char quoted[LOG_QUOTE_MAX], hint[SUGGEST_HINT_MAX];
    handlers_load(run);
    const struct plugin_handler *handler = plugins_find(run->plugins, class_name);
    if (handler != NULL)
        return handler->program == NULL || program_check(handler->program[0]) ? handler : NULL;
    struct suggestion suggestion = suggestion_for(class_name);
    for (size_t i = 0; i < plugins_handler_count(run->plugins); i++)
        suggestion_offer(&suggestion, plugins_handler_at(run->plugins, i)->class_name);
    size_t count;
    char **shipped = plugin_shipped_list(&count); /* they are called as their classes */
    for (size_t i = 0; i < count; i++)
        suggestion_offer(&suggestion, shipped[i]);
    findings_print(&run->findings, stderr);
    command_complain(&command_run_handler, "nobody serves the class %s%s", log_quote(class_name, quoted),
                     suggestion_hint(&suggestion, hint));
    for (size_t i = 0; i < count; i++)
        free(shipped[i]);
    free(shipped);
    return NULL;
}

static bool config_begin(struct handler_run *run)
{
    struct findings *findings = &run->findings;
    run->config = config_of(&run->request, findings);
    if (findings->errors == 0)
        return true;
    findings_print(findings, stderr);
    return false;
}

/* What others do in their open() is no concern of this run. */
static bool runs_here(void *context, const struct plugin_handler *handler)
{
    const struct handler_run *run = context;
    return handler == run->handler && run->rules.isolation == CONFIG_ISOLATION_THREAD;
}

static bool plugin_begin(struct handler_run *run)
{
    struct error error = ERROR_NONE;
    run->hosts = job_hosts_create(run->config);
    struct plugin_opening opening = {
        .host_for = job_hosts_for, .hosts = run->hosts, .runs_here = runs_here, .context = run};
    if (plugins_open_for(run->plugins, &opening, &error))
        return true;
    command_complain(&command_run_handler, "%s", error.text);
    return false;
}

static bool log_begin(void)
{
    struct error error = ERROR_NONE;
    if (log_start(&(struct log_options){.level = LOG_INFO, .fd = STDERR_FILENO}, &error))
        return true;
    command_complain(&command_run_handler, "%s", error.text);
    return false;
}

bool handler_run_prepare(struct handler_run *run)
{
    struct error error = ERROR_NONE;
    if (!config_begin(run) || !run_table_begin(run))
        return false;
    run->handler = handler_find(run);
    if (run->handler == NULL)
        return false;
    if (run->handler->plugin != NULL)
        for (size_t i = 0; i < run->request.settings.count; i++)
            setting_put(settings_of(run->config, run->handler->plugin->descriptor.name),
                        &run->request.settings.items[i]);
    if (!task_make(run, &error)) {
        command_complain(&command_run_handler, "%s", error.text);
        return false;
    }
    if (run->request.lose_after_ns >= 0 && !run->is_locked) {
        command_complain(&command_run_handler,
                         "there is no lock that could be lost: name what it locks with --resource");
        return false;
    }
    return plugin_begin(run) && log_begin();
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

/* The run itself: the loop, the pretended lock, and being asked to stop.
 *
 * A handler in a thread is asked to stop and waited for, for ever: a second interrupt ends this process. One in a
 * process or a program is killed by the zygote as a worker's would be: when its lock is lost, when its grace is over,
 * and at the second interrupt. */

enum { EXIT_INTERRUPTED = 130 };

/* --- the lock ----------------------------------------------------------------------------------------------------- */

static void lock_tell(struct handler_run *run, const struct pretended_view *view, struct instant now)
{
    bool in_danger = instant_reached(now, view->danger_from);
    if (view->lost == HF_NOT_CANCELLED && in_danger && !run->was_in_danger)
        handler_run_say(run, "lock", "in danger");
    run->was_in_danger = in_danger;
    if (view->lost != HF_NOT_CANCELLED && !run->was_lost)
        handler_run_say(run, "lock", "lost%s",
                        view->lost == HF_HELD_TOO_LONG ? ": it was held for as long as its class may" : "");
}

/* The lock words alone bring the end, which is printed afterwards, as with a real lock. */
static void lock_show(struct handler_run *run)
{
    struct hf_job *job = &run->job;
    struct instant now = instant_now();
    struct pretended_view view = pretended_lock_at(&run->lock, now);
    bool was_in_danger = run->was_in_danger;
    atomic_store(&job->run_entry->validity.danger_from, view.danger_from.ns);
    atomic_store(&job->run_entry->validity.until, view.until.ns);
    lock_tell(run, &view, now);
    if (view.lost != HF_NOT_CANCELLED && !run->was_lost) {
        run->was_lost = true;
        job_lock_lost(job, view.lost);
        (void)eventfd_write(run->loss_event, 1);
        if (run->pool != NULL)
            handler_run_say(run, "wait", "for the handler to return");
    }
    if (run->isolation != NULL && run->was_in_danger && !was_in_danger)
        isolation_interrupt(run->isolation, &run->away);
    if (view.next.ns != INSTANT_NEVER.ns)
        loop_timer_set(run->loop, &run->lock_timer, view.next);
}

static void lock_timer_fired(struct loop_timer *timer)
{
    lock_show(list_owner(timer, struct handler_run, lock_timer));
}

static void lock_tell_names(struct handler_run *run)
{
    struct buffer names = {0};
    for (unsigned i = 0; i < run->job.resource_count; i++)
        buffer_format(&names, "%s%s", i > 0 ? ", " : "", run->job.resources[i]);
    handler_run_say(run, "lock", "held on %s%s%s", buffer_text(&names),
                    run->job.fence[0] != '\0' ? ", its token is " : "", run->job.fence);
    buffer_fini(&names);
}

/* An hour, when a debugger may stop this process for as long as its user thinks. */
static bool lock_begin(struct handler_run *run)
{
    int64_t ttl_ns = run->pool != NULL ? 3600 * NS_PER_S : run->config->lock.ttl_ns;
    run->lock = (struct pretended_lock){.taken = instant_now(),
                                        .danger_after_ns = run->request.danger_after_ns,
                                        .lose_after_ns = run->request.lose_after_ns,
                                        .max_hold_ns = run->rules.max_hold_ns,
                                        .ttl_ns = ttl_ns};
    run->loss_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (run->loss_event < 0) {
        command_complain(&command_run_handler, "no descriptor for the lock: %s", strerror(errno));
        return false;
    }
    if (run->rules.max_hold_ns > 0)
        atomic_store(&run->job.run_entry->hold_until, instant_after(run->lock.taken, run->rules.max_hold_ns).ns);
    lock_tell_names(run);
    lock_show(run);
    return true;
}

/* --- being asked to stop ------------------------------------------------------------------------------------------ */

static void kill_by(struct handler_run *run, struct instant at)
{
    if (run->isolation != NULL && run_entry_kill_by(run->run_table, run->job.run_entry, at))
        launcher_ring(run->launcher);
}

static void stop_ask(struct handler_run *run, enum hf_cancel_reason reason, const char *why)
{
    handler_run_say(run, "cancel", "%s", why);
    job_cancel(&run->job, reason);
    if (run->isolation != NULL)
        isolation_interrupt(run->isolation, &run->away);
    kill_by(run, loop_after(run->loop, run->rules.grace_ns));
}

static void cancel_fired(struct loop_timer *timer)
{
    stop_ask(list_owner(timer, struct handler_run, cancel), HF_USER, "asked to stop: the task is cancelled");
}

static void timeout_fired(struct loop_timer *timer)
{
    struct handler_run *run = list_owner(timer, struct handler_run, timeout);
    char text[64], duration[QUANTITY_TEXT_MAX];
    snprintf(text, sizeof text, "asked to stop: it took longer than %s",
             duration_print(run->rules.timeout_ns, duration));
    stop_ask(run, HF_TIMEOUT, text);
}

static void interrupted(void *context, int number)
{
    struct handler_run *run = context;
    (void)number;
    if (run->interrupts++ == 0) {
        stop_ask(run, HF_USER, "asked to stop: interrupted (once more kills it)");
        return;
    }
    handler_run_say(run, "cancel", "killed");
    kill_by(run, instant_now());
    if (run->isolation == NULL)
        _exit(EXIT_INTERRUPTED); /* the handler still runs: nothing of it may be torn down */
}

static void times_begin(struct handler_run *run)
{
    struct loop *loop = run->loop;
    int64_t timeout_ns = run->rules.timeout_ns;
    if (run->request.cancel_after_ns >= 0)
        loop_timer_set(loop, &run->cancel, loop_after(loop, run->request.cancel_after_ns));
    if (timeout_ns == 0)
        return;
    loop_timer_set(loop, &run->timeout, loop_after(loop, timeout_ns));
    kill_by(run, loop_after(loop, timeout_ns + run->rules.grace_ns));
}

/* --- in a thread -------------------------------------------------------------------------------------------------- */

/* On the handler's thread. */
static void thread_run(struct work *work)
{
    struct handler_run *run = list_owner(work, struct handler_run, work);
    run->began = instant_now();
    run->started = job_lock_is_valid(&run->job);
    if (!run->started)
        return;
    crash_note_run_begin(0);
    run->code = job_run(&run->job, run->handler);
    crash_note_run_end();
}

/* A run that was put off before it began could not be begun here, and the log says why. */
static void run_ended(struct handler_run *run)
{
    bool has_begun = run->began.ns != 0;
    if (has_begun)
        run->took_ns = instant_since(run->began, instant_now());
    if (has_begun || run->code != HF_SNOOZE)
        handler_run_judge(run);
    loop_stop(run->loop);
}

static void thread_ran(struct loop_message *message)
{
    run_ended(list_owner(message, struct handler_run, work.done));
}

static bool thread_begin(struct handler_run *run, struct error *error)
{
    run->pool = thread_pool_create(run->loop, 1, error);
    if (run->pool == NULL)
        return false;
    run->work = (struct work){.done.deliver = thread_ran, .run = thread_run};
    list_init(&run->work.link);
    return true;
}

/* --- in a process ------------------------------------------------------------------------------------------------- */

static void away_began(struct isolated_run *isolated)
{
    struct handler_run *run = list_owner(isolated, struct handler_run, away);
    run->began = instant_now();
    times_begin(run);
}

static void away_ended(struct isolated_run *isolated, int code)
{
    struct handler_run *run = list_owner(isolated, struct handler_run, away);
    run->started = code != ISOLATION_NOT_STARTED;
    run->code = code;
    run_ended(run);
}

static void zygote_lost(void *context)
{
    (void)context;
    command_complain(&command_run_handler, "the process that runs the handler's processes has ended");
    crash_notes_end();
    exit(EXIT_FAILURE);
}

static void away_begin(struct handler_run *run)
{
    struct loop *loop = run->loop;
    run->launcher = launcher_create(loop, &run->zygote, run->run_table, zygote_lost, run);
    run->isolation = isolation_create(&(struct isolation_options){
        .loop = loop, .launcher = run->launcher, .run_table = run->run_table, .config = run->config});
    run->away = (struct isolated_run){.job = &run->job,
                                      .run_entry = run->job.run_entry,
                                      .handler = run->handler,
                                      .rules = &run->rules,
                                      .began = away_began,
                                      .ended = away_ended};
    list_init(&run->away.link);
    atomic_store(&run->job.run_entry->is_locked, run->is_locked);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static void start(struct handler_run *run)
{
    run_entry_open(run->job.run_entry, run->job.jid, run->job.class_name);
    if (run->isolation != NULL) {
        isolation_start(run->isolation, &run->away);
        return;
    }
    times_begin(run);
    thread_pool_submit(run->pool, &run->work);
}

static bool parts_make(struct handler_run *run)
{
    struct error error = ERROR_NONE;
    loop_timer_init(&run->lock_timer, lock_timer_fired);
    loop_timer_init(&run->timeout, timeout_fired);
    loop_timer_init(&run->cancel, cancel_fired);
    run->loop = loop_create(&error);
    if (run->loop == NULL || (run->rules.isolation == CONFIG_ISOLATION_THREAD && !thread_begin(run, &error))) {
        command_complain(&command_run_handler, "%s", error.text);
        return false;
    }
    if (run->rules.isolation != CONFIG_ISOLATION_THREAD)
        away_begin(run);
    run->interrupt = loop_signal_start(run->loop, SIGINT, interrupted, run);
    return true;
}

static void parts_free(struct handler_run *run)
{
    if (run->loop == NULL)
        return;
    if (run->pool != NULL)
        thread_pool_destroy(run->pool);
    isolation_destroy(run->isolation);
    if (run->launcher != NULL)
        launcher_destroy(run->launcher);
    loop_timer_clear(run->loop, &run->lock_timer);
    loop_timer_clear(run->loop, &run->timeout);
    loop_timer_clear(run->loop, &run->cancel);
    if (run->interrupt != NULL)
        loop_signal_stop(run->interrupt);
    loop_destroy(run->loop);
    if (run->loss_event >= 0)
        close(run->loss_event);
    run->loss_event = -1;
}

bool handler_run_execute(struct handler_run *run)
{
    bool is_ready = parts_make(run) && (!run->is_locked || lock_begin(run));
    if (is_ready) {
        start(run);
        loop_run(run->loop);
    }
    parts_free(run);
    return is_ready && run->ending != HANDLER_RUN_UNKNOWN;
}
