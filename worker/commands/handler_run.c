#include "worker/commands/handler_run.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <stdarg.h>
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
#include "worker/config/suggest.h"
#include "worker/task/crash_note.h"
#include "worker/isolation/runner_process.h"
#include "worker/plugin/plugin_file.h"
#include "worker/plugin/plugin_programs.h"
#include "worker/print/json_writer.h"

int rehearsal_complain(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "holdfast run-handler: %s\n", log_defuse(text));
    return EXIT_CODE_FAILURE;
}

struct rehearsal *rehearsal_create(const struct rehearsal_wish *wish)
{
    struct rehearsal *rehearsal = memory_new(struct rehearsal);
    rehearsal->wish = *wish;
    rehearsal->loss_event = -1;
    rehearsal->comes_again_ns = -1;
    rehearsal->out = wish->as_json ? stderr : stdout;
    job_progress_init(&rehearsal->progress);
    job_progress_start(&rehearsal->progress, NULL, 0);
    return rehearsal;
}

void rehearsal_free(struct rehearsal *rehearsal)
{
    if (rehearsal->zygote.pid != 0)
        zygote_end(&rehearsal->zygote);
    plugins_close(rehearsal->plugins);
    if (rehearsal->hosts != NULL)
        job_hosts_destroy(rehearsal->hosts);
    class_resources_free(rehearsal->known);
    task_resources_fini(&rehearsal->resources);
    envelope_fini(&rehearsal->envelope);
    buffer_fini(&rehearsal->text);
    job_finish(&rehearsal->job);
    job_outcome_fini(&rehearsal->job.outcome);
    job_progress_fini(&rehearsal->progress);
    crash_notes_end();
    run_table_destroy(rehearsal->run_table);
    config_free(rehearsal->config);
    findings_fini(&rehearsal->findings);
    free(rehearsal);
}

/* --- what the handler says meanwhile ------------------------------------------------------------------------------ */

/* How a rehearsed run reaches its host: what it says goes to the terminal, and its lock is held as long as it is
 * pretended to be. Called on the handler's thread, or on the loop for one that runs elsewhere. */

static struct rehearsal *rehearsal_of(struct hf_job *job)
{
    return list_owner(job, struct rehearsal, job);
}

/* In danger a real lock has just failed to be extended, so nobody could say for certain that it is held. */
static bool link_verify(struct hf_job *job, int64_t limit_ns)
{
    (void)limit_ns;
    return !redlock_validity_in_danger(job->validity);
}

static int link_descriptor(struct hf_job *job)
{
    return rehearsal_of(job)->loss_event;
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
    rehearsal_say(rehearsal_of(job), "log", "%-5s %s", level_name(level), text);
}

static void link_event(struct hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields,
                       size_t count)
{
    struct buffer text = {0};
    for (size_t i = 0; i < count; i++) {
        char quoted[LOG_QUOTE_MAX];
        buffer_format(&text, " %s=%s", fields[i].key, log_quote(fields[i].value, quoted));
    }
    rehearsal_say(rehearsal_of(job), "event", "%-5s %s%s", level_name(level), name, buffer_text(&text));
    buffer_fini(&text);
}

static bool link_progress(struct hf_job *job, const char *json)
{
    struct rehearsal *rehearsal = rehearsal_of(job);
    struct buffer text = {0};
    if (!job_progress_put(&rehearsal->progress, json))
        return false;
    json_append_defused(&text, json, strlen(json));
    rehearsal_say(rehearsal, "progress", "%s", buffer_text(&text));
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

/* The configuration of a rehearsal. Without a file it is written here and read like one: so the command line needs no
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

static bool file_ends_with(const char *path, const char *ending)
{
    size_t length = strlen(path), end = strlen(ending);
    return length > end && strcmp(path + length - end, ending) == 0;
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
static bool config_write(const struct rehearsal_wish *wish, struct buffer *out, struct findings *findings)
{
    const char *given = wish->plugin != NULL ? wish->plugin : wish->program;
    char *path = given != NULL ? realpath(given, NULL) : NULL;
    bool is_good = given == NULL || path != NULL;
    if (!is_good)
        findings_error(findings, "%s: %s", given, strerror(errno));
    buffer_append_text(out, "queue_node = { host = \"localhost\"; };\n");
    if (path != NULL && wish->plugin != NULL) {
        is_good = file_ends_with(path, ".so");
        if (is_good)
            plugin_write(out, path);
        else
            findings_error(findings, "%s: the name of a plugin ends with .so", path);
    } else if (path != NULL) {
        program_write(out, wish->class_name, path);
    } else if (given == NULL) {
        shipped_write(out, wish->class_name);
    }
    free(path);
    return is_good;
}

static struct config *config_of(const struct rehearsal_wish *wish, struct findings *findings)
{
    struct buffer text = {0};
    struct config *config = NULL;
    if (wish->config_path != NULL)
        return config_read(wish->config_path, findings);
    if (config_write(wish, &text, findings))
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

static void settings_add(const struct rehearsal_wish *wish, struct config *config, const char *plugin)
{
    for (size_t i = 0; i < wish->settings.count; i++)
        setting_put(settings_of(config, plugin), &wish->settings.items[i]);
}

/* --- the task ----------------------------------------------------------------------------------------------------- */

/* The task of a rehearsal: a text like any producer's, parsed and judged as a worker does. */

static void task_write(const struct rehearsal_wish *wish, struct buffer *out)
{
    struct buffer resources = {0};
    buffer_append_text(&resources, "[");
    for (size_t i = 0; i < wish->resources.count; i++) {
        buffer_append_text(&resources, i > 0 ? "," : "");
        envelope_append_string(&resources, wish->resources.items[i], strlen(wish->resources.items[i]));
    }
    buffer_append_text(&resources, "]");
    struct envelope_draft draft = {
        .class_name = wish->class_name,
        .queue = "default",
        .args = wish->args,
        .resources_json = wish->resources.count > 0 ? text_span_of(&resources) : (struct text_span){0},
    };
    envelope_write(&draft, wall_now(), out);
    buffer_fini(&resources);
}

/* As if it had failed before: the n-th retry has counted the failures before it, from 0 on. */
static void attempt_write(struct rehearsal *rehearsal, struct error *error)
{
    char count[24];
    struct buffer text = {0};
    snprintf(count, sizeof count, "%" PRId64, rehearsal->wish.attempt - 1);
    struct envelope_change change = {"retry_count", {count, strlen(count)}};
    envelope_rewrite(&rehearsal->envelope, &change, 1, &text);
    buffer_fini(&rehearsal->text);
    rehearsal->text = text;
    invariant(envelope_parse(&rehearsal->envelope, text.bytes, text.length, &ENVELOPE_LIMITS_DEFAULT, error));
}

/* What it locks, as a worker would: what it names, else what the templates of its class make of its arguments. */
static void resources_find(struct rehearsal *rehearsal)
{
    struct error error = ERROR_NONE;
    struct task_rules *rules = &rehearsal->rules;
    switch (task_resources_resolve(&rehearsal->resources, &rehearsal->envelope, rules, rehearsal->known, &error)) {
    case TASK_RESOURCES_OK:
        rehearsal->is_locked = true;
        return;
    case TASK_RESOURCES_BAD:
        rehearsal_bury(rehearsal, rehearsal->resources.fault, error.text);
        return;
    case TASK_RESOURCES_NONE:
        if (rules->must_lock)
            rehearsal_bury(rehearsal, "HF::NoResource", "its class needs a lock, and it names no resource");
        return;
    }
}

static void facts_set(struct rehearsal *rehearsal)
{
    const struct rehearsal_wish *wish = &rehearsal->wish;
    struct hf_job *job = &rehearsal->job;
    job->class_name = rehearsal->envelope.class_name;
    job->queue = rehearsal->envelope.queue;
    job->jid = rehearsal->envelope.jid;
    job->args = rehearsal->envelope.args;
    job->attempt = (unsigned)wish->attempt;
    job->resources = rehearsal->resources.names;
    job->resource_count = rehearsal->is_locked ? rehearsal->resources.count : 0;
    if (rehearsal->is_locked && !rehearsal->rules.unfenced)
        snprintf(job->fence, sizeof job->fence, "%lld", (long long)wish->fence);
    job->checkpoint = wish->checkpoint;
    job->reports_progress = (rehearsal->handler->flags & HF_PROGRESS) != 0;
    job->keeps_result = true;
    job->may_push = !rehearsal->rules.at_most_once;
    job->task_limits = config_task_limits(rehearsal->config);
    job->link = &terminal_link;
    job->run_table = rehearsal->run_table;
    job->run_entry = run_table_entry(rehearsal->run_table, 0);
    job->validity = rehearsal->is_locked ? &job->run_entry->validity : NULL;
}

static bool task_make(struct rehearsal *rehearsal, struct error *error)
{
    struct envelope_limits limits = config_task_limits(rehearsal->config);
    job_outcome_clear(&rehearsal->job.outcome);
    task_write(&rehearsal->wish, &rehearsal->text);
    if (!envelope_parse(&rehearsal->envelope, rehearsal->text.bytes, rehearsal->text.length, &limits, error))
        return false;
    if (rehearsal->wish.attempt > 0)
        attempt_write(rehearsal, error);
    rehearsal->rules = task_rules_of(&rehearsal->envelope, rehearsal->config, rehearsal->handler);
    if (rehearsal->wish.timeout_ns >= 0)
        rehearsal->rules.timeout_ns = rehearsal->wish.timeout_ns;
    if (rehearsal->wish.in_process && rehearsal->handler->program != NULL)
        return error_set(error, "the class %s is a program, which cannot run in this process",
                         rehearsal->wish.class_name);
    if (rehearsal->wish.in_process)
        rehearsal->rules.isolation = CONFIG_ISOLATION_THREAD;
    rehearsal->known = class_resources_create(rehearsal->config, rehearsal->plugins, &rehearsal->findings);
    resources_find(rehearsal);
    facts_set(rehearsal);
    if (rehearsal->rules.refused_class != NULL)
        rehearsal_bury(rehearsal, rehearsal->rules.refused_class, rehearsal->rules.refused_reason);
    return true;
}

/* --- getting ready ------------------------------------------------------------------------------------------------ */

/* What was said so far is written, as exit() would have done. */
static void exit_tell(const struct run_entry *whose)
{
    fflush(stdout);
    if (whose != NULL)
        rehearsal_complain("the handler of %s called exit(), which ends the whole process, in a worker with all its "
                           "tasks: return from run() instead",
                           whose->class_name);
    else
        rehearsal_complain("a plugin called exit(), which ends the whole process");
}

/* Before a plugin is loaded, which may start threads, or end the process. */
static bool run_table_begin(struct rehearsal *rehearsal)
{
    struct error error = ERROR_NONE;
    rehearsal->run_table = run_table_create(1);
    const struct zygote_options options = {
        .run_table = rehearsal->run_table, .runner = runner_main, .log = {.level = LOG_WARN, .fd = STDERR_FILENO}};
    if (rehearsal->run_table == NULL)
        error_set(&error, "out of memory");
    else if (rehearsal->wish.in_process || zygote_start(&rehearsal->zygote, &options, &error)) {
        crash_notes_begin(rehearsal->run_table);
        crash_note_tell_exit(exit_tell);
        return true;
    }
    rehearsal_complain("%s", error.text);
    return false;
}

/* A class with a program needs no plugin. For a debugger nothing is tried in a child first: there a crash is what it is
 * about, and forks would only be in its way. */
static void handlers_load(struct rehearsal *rehearsal)
{
    const struct config_worker *worker = &rehearsal->config->worker;
    const struct config_class *entry = config_class_find(rehearsal->config, rehearsal->wish.class_name);
    struct findings *findings = &rehearsal->findings;
    if (entry != NULL && entry->program.count > 0)
        rehearsal->plugins = plugins_create();
    else if (rehearsal->wish.in_process)
        rehearsal->plugins = plugins_load(worker->jobs_directory, worker->jobs.items, worker->jobs.count, findings);
    else
        rehearsal->plugins =
            plugins_load_vetted(worker->jobs_directory, worker->jobs.items, worker->jobs.count, findings);
    plugins_add_programs(rehearsal->plugins, NULL, rehearsal->config, findings);
}

/* What is wrong with handlers of other classes is no concern of this run. */
static const struct plugin_handler *handler_find(struct rehearsal *rehearsal)
{
    const char *class_name = rehearsal->wish.class_name;
    char quoted[LOG_QUOTE_MAX], hint[SUGGEST_HINT_MAX];
    handlers_load(rehearsal);
    const struct plugin_handler *handler = plugins_find(rehearsal->plugins, class_name);
    if (handler != NULL)
        return handler;
    struct suggestion suggestion = suggestion_for(class_name);
    for (size_t i = 0; i < plugins_handler_count(rehearsal->plugins); i++)
        suggestion_offer(&suggestion, plugins_handler_at(rehearsal->plugins, i)->class_name);
    size_t count;
    char **shipped = plugin_shipped_list(&count); /* they are called as their classes */
    for (size_t i = 0; i < count; i++)
        suggestion_offer(&suggestion, shipped[i]);
    findings_print(&rehearsal->findings, stderr);
    rehearsal_complain("nobody serves the class %s%s", log_quote(class_name, quoted),
                       suggestion_hint(&suggestion, hint));
    for (size_t i = 0; i < count; i++)
        free(shipped[i]);
    free(shipped);
    return NULL;
}

static bool config_begin(struct rehearsal *rehearsal)
{
    struct findings *findings = &rehearsal->findings;
    rehearsal->config = config_of(&rehearsal->wish, findings);
    if (findings->errors == 0)
        return true;
    findings_print(findings, stderr);
    return false;
}

/* What others do in their open() is no concern of this run. */
static bool runs_here(void *context, const struct plugin_handler *handler)
{
    const struct rehearsal *rehearsal = context;
    return handler == rehearsal->handler && rehearsal->rules.isolation == CONFIG_ISOLATION_THREAD;
}

static bool plugin_begin(struct rehearsal *rehearsal)
{
    struct error error = ERROR_NONE;
    rehearsal->hosts = job_hosts_create(rehearsal->config);
    struct plugin_opening opening = {
        .host_for = job_hosts_for, .hosts = rehearsal->hosts, .runs_here = runs_here, .context = rehearsal};
    if (plugins_open_for(rehearsal->plugins, &opening, &error))
        return true;
    rehearsal_complain("%s", error.text);
    return false;
}

static bool log_begin(void)
{
    struct error error = ERROR_NONE;
    if (log_start(&(struct log_options){.level = LOG_INFO, .fd = STDERR_FILENO}, &error))
        return true;
    rehearsal_complain("%s", error.text);
    return false;
}

bool rehearsal_prepare(struct rehearsal *rehearsal)
{
    struct error error = ERROR_NONE;
    if (!config_begin(rehearsal) || !run_table_begin(rehearsal))
        return false;
    rehearsal->handler = handler_find(rehearsal);
    if (rehearsal->handler == NULL)
        return false;
    if (rehearsal->handler->plugin != NULL)
        settings_add(&rehearsal->wish, rehearsal->config, plugin_name(rehearsal->handler->plugin));
    if (!task_make(rehearsal, &error)) {
        rehearsal_complain("%s", error.text);
        return false;
    }
    if (rehearsal->wish.lose_after_ns >= 0 && !rehearsal->is_locked) {
        rehearsal_complain("there is no lock that could be lost: name what it locks with --resource");
        return false;
    }
    return plugin_begin(rehearsal) && log_begin();
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

/* The run of a rehearsal: the loop, the pretended lock, and being asked to stop.
 *
 * A handler in a thread is asked to stop and waited for, for ever: a second interrupt ends this process. One in a
 * process or a program is killed by the zygote as a worker's would be: when its lock is lost, when its grace is over,
 * and at the second interrupt. */

enum { EXIT_INTERRUPTED = 130 };

/* --- the lock ----------------------------------------------------------------------------------------------------- */

static void lock_tell(struct rehearsal *rehearsal, const struct pretended_view *view, struct instant now)
{
    bool in_danger = instant_reached(now, view->danger_from);
    if (view->lost == HF_NOT_CANCELLED && in_danger && !rehearsal->was_in_danger)
        rehearsal_say(rehearsal, "lock", "in danger");
    rehearsal->was_in_danger = in_danger;
    if (view->lost != HF_NOT_CANCELLED && !rehearsal->was_lost)
        rehearsal_say(rehearsal, "lock", "lost%s",
                      view->lost == HF_HELD_TOO_LONG ? ": it was held for as long as its class may" : "");
}

/* The end comes by the words alone, and is told afterwards, as with a real lock. */
static void lock_show(struct rehearsal *rehearsal)
{
    struct hf_job *job = &rehearsal->job;
    struct instant now = instant_now();
    struct pretended_view view = pretended_lock_at(&rehearsal->lock, now);
    bool was_in_danger = rehearsal->was_in_danger;
    atomic_store(&job->run_entry->validity.danger_from, view.danger_from.ns);
    atomic_store(&job->run_entry->validity.until, view.until.ns);
    lock_tell(rehearsal, &view, now);
    if (view.lost != HF_NOT_CANCELLED && !rehearsal->was_lost) {
        rehearsal->was_lost = true;
        job_lock_lost(job, view.lost);
        (void)eventfd_write(rehearsal->loss_event, 1);
        if (rehearsal->pool != NULL)
            rehearsal_say(rehearsal, "wait", "for the handler to return");
    }
    if (rehearsal->isolation != NULL && rehearsal->was_in_danger && !was_in_danger)
        isolation_interrupt(rehearsal->isolation, &rehearsal->away);
    if (view.next.ns != INSTANT_NEVER.ns)
        loop_timer_set(rehearsal->loop, &rehearsal->lock_timer, view.next);
}

static void lock_timer_fired(struct loop_timer *timer)
{
    lock_show(list_owner(timer, struct rehearsal, lock_timer));
}

static void lock_tell_names(struct rehearsal *rehearsal)
{
    struct buffer names = {0};
    for (unsigned i = 0; i < rehearsal->job.resource_count; i++)
        buffer_format(&names, "%s%s", i > 0 ? ", " : "", rehearsal->job.resources[i]);
    rehearsal_say(rehearsal, "lock", "held on %s%s%s", buffer_text(&names),
                  rehearsal->job.fence[0] != '\0' ? ", its token is " : "", rehearsal->job.fence);
    buffer_fini(&names);
}

/* An hour, when a debugger may stop this process for as long as its user thinks. */
static bool lock_begin(struct rehearsal *rehearsal)
{
    int64_t ttl_ns = rehearsal->pool != NULL ? 3600 * NS_PER_S : rehearsal->config->lock.ttl_ns;
    rehearsal->lock = (struct pretended_lock){.taken = instant_now(),
                                              .danger_after_ns = rehearsal->wish.danger_after_ns,
                                              .lose_after_ns = rehearsal->wish.lose_after_ns,
                                              .max_hold_ns = rehearsal->rules.max_hold_ns,
                                              .ttl_ns = ttl_ns};
    rehearsal->loss_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (rehearsal->loss_event < 0) {
        rehearsal_complain("no descriptor for the lock: %s", strerror(errno));
        return false;
    }
    if (rehearsal->rules.max_hold_ns > 0)
        atomic_store(&rehearsal->job.run_entry->hold_until,
                     instant_after(rehearsal->lock.taken, rehearsal->rules.max_hold_ns).ns);
    lock_tell_names(rehearsal);
    lock_show(rehearsal);
    return true;
}

/* --- being asked to stop ------------------------------------------------------------------------------------------ */

static void kill_by(struct rehearsal *rehearsal, struct instant at)
{
    if (rehearsal->isolation != NULL && run_entry_kill_by(rehearsal->run_table, rehearsal->job.run_entry, at))
        launcher_ring(rehearsal->launcher);
}

static void stop_ask(struct rehearsal *rehearsal, enum hf_cancel_reason reason, const char *why)
{
    rehearsal_say(rehearsal, "cancel", "%s", why);
    job_cancel(&rehearsal->job, reason);
    if (rehearsal->isolation != NULL)
        isolation_interrupt(rehearsal->isolation, &rehearsal->away);
    kill_by(rehearsal, loop_after(rehearsal->loop, rehearsal->rules.grace_ns));
}

static void cancel_fired(struct loop_timer *timer)
{
    stop_ask(list_owner(timer, struct rehearsal, cancel), HF_USER, "asked to stop: the task is cancelled");
}

static void timeout_fired(struct loop_timer *timer)
{
    struct rehearsal *rehearsal = list_owner(timer, struct rehearsal, timeout);
    char text[64], duration[QUANTITY_TEXT_MAX];
    snprintf(text, sizeof text, "asked to stop: it took longer than %s",
             duration_print(rehearsal->rules.timeout_ns, duration));
    stop_ask(rehearsal, HF_TIMEOUT, text);
}

static void interrupted(void *context, int number)
{
    struct rehearsal *rehearsal = context;
    (void)number;
    if (rehearsal->interrupts++ == 0) {
        stop_ask(rehearsal, HF_USER, "asked to stop: interrupted (once more kills it)");
        return;
    }
    rehearsal_say(rehearsal, "cancel", "killed");
    kill_by(rehearsal, instant_now());
    if (rehearsal->isolation == NULL)
        _exit(EXIT_INTERRUPTED); /* the handler still runs: nothing of it may be torn down */
}

static void times_begin(struct rehearsal *rehearsal)
{
    struct loop *loop = rehearsal->loop;
    int64_t timeout_ns = rehearsal->rules.timeout_ns;
    if (rehearsal->wish.cancel_after_ns >= 0)
        loop_timer_set(loop, &rehearsal->cancel, loop_after(loop, rehearsal->wish.cancel_after_ns));
    if (timeout_ns == 0)
        return;
    loop_timer_set(loop, &rehearsal->timeout, loop_after(loop, timeout_ns));
    kill_by(rehearsal, loop_after(loop, timeout_ns + rehearsal->rules.grace_ns));
}

/* --- in a thread -------------------------------------------------------------------------------------------------- */

/* The handler's own opinion of the arguments, if it has one. */
static bool arguments_pass(struct rehearsal *rehearsal)
{
    char reason[256] = "";
    const struct hf_job *job = &rehearsal->job;
    const struct plugin_handler *handler = rehearsal->handler;
    if (handler->check == NULL || handler->check(job->args.bytes, job->args.length, reason, sizeof reason))
        return true;
    reason[sizeof reason - 1] = '\0';
    failure_set(&rehearsal->job.outcome.failure, "HF::BadArguments", "%s", reason);
    return false;
}

/* On the handler's thread. */
static void thread_run(struct work *work)
{
    struct rehearsal *rehearsal = list_owner(work, struct rehearsal, work);
    const struct plugin_handler *handler = rehearsal->handler;
    rehearsal->began = instant_now();
    rehearsal->started = job_lock_is_valid(&rehearsal->job);
    if (!rehearsal->started)
        return;
    crash_note_run_begin(0);
    rehearsal->code =
        arguments_pass(rehearsal) ? handler->run(&rehearsal->job, plugin_handler_state(handler)) : HF_BURY;
    crash_note_run_end();
}

/* A run that was put off before it began could not be begun here, and the log says why. */
static void run_ended(struct rehearsal *rehearsal)
{
    bool has_begun = rehearsal->began.ns != 0;
    if (has_begun)
        rehearsal->took_ns = instant_since(rehearsal->began, instant_now());
    if (has_begun || rehearsal->code != HF_SNOOZE)
        rehearsal_judge(rehearsal);
    loop_stop(rehearsal->loop);
}

static void thread_ran(struct loop_message *message)
{
    run_ended(list_owner(message, struct rehearsal, work.done));
}

static bool thread_begin(struct rehearsal *rehearsal, struct error *error)
{
    rehearsal->pool = runner_pool_create(rehearsal->loop, 1, error);
    if (rehearsal->pool == NULL)
        return false;
    rehearsal->work = (struct work){.done.deliver = thread_ran, .run = thread_run};
    list_init(&rehearsal->work.link);
    return true;
}

/* --- in a process ------------------------------------------------------------------------------------------------- */

static void away_began(struct isolated_run *run)
{
    struct rehearsal *rehearsal = list_owner(run, struct rehearsal, away);
    rehearsal->began = instant_now();
    times_begin(rehearsal);
}

static void away_ended(struct isolated_run *run, int code)
{
    struct rehearsal *rehearsal = list_owner(run, struct rehearsal, away);
    rehearsal->started = code != ISOLATION_NOT_STARTED;
    rehearsal->code = code;
    run_ended(rehearsal);
}

static void zygote_lost(void *context)
{
    (void)context;
    rehearsal_complain("the process that runs the handler's processes has ended");
    crash_notes_end();
    exit(EXIT_FAILURE);
}

static void away_begin(struct rehearsal *rehearsal)
{
    struct loop *loop = rehearsal->loop;
    rehearsal->launcher = launcher_create(loop, &rehearsal->zygote, rehearsal->run_table, zygote_lost, rehearsal);
    rehearsal->isolation = isolation_create(&(struct isolation_options){
        .loop = loop, .launcher = rehearsal->launcher, .run_table = rehearsal->run_table, .config = rehearsal->config});
    rehearsal->away = (struct isolated_run){.job = &rehearsal->job,
                                            .run_entry = rehearsal->job.run_entry,
                                            .handler = rehearsal->handler,
                                            .rules = &rehearsal->rules,
                                            .began = away_began,
                                            .ended = away_ended};
    list_init(&rehearsal->away.link);
    atomic_store(&rehearsal->job.run_entry->is_locked, rehearsal->is_locked);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static void start(struct rehearsal *rehearsal)
{
    run_entry_open(rehearsal->job.run_entry, rehearsal->job.jid, rehearsal->job.class_name);
    if (rehearsal->isolation != NULL) {
        isolation_start(rehearsal->isolation, &rehearsal->away);
        return;
    }
    times_begin(rehearsal);
    runner_pool_submit(rehearsal->pool, &rehearsal->work);
}

static bool parts_make(struct rehearsal *rehearsal)
{
    struct error error = ERROR_NONE;
    loop_timer_init(&rehearsal->lock_timer, lock_timer_fired);
    loop_timer_init(&rehearsal->timeout, timeout_fired);
    loop_timer_init(&rehearsal->cancel, cancel_fired);
    rehearsal->loop = loop_create(&error);
    if (rehearsal->loop == NULL ||
        (rehearsal->rules.isolation == CONFIG_ISOLATION_THREAD && !thread_begin(rehearsal, &error))) {
        rehearsal_complain("%s", error.text);
        return false;
    }
    if (rehearsal->rules.isolation != CONFIG_ISOLATION_THREAD)
        away_begin(rehearsal);
    rehearsal->interrupt = loop_signal_start(rehearsal->loop, SIGINT, interrupted, rehearsal);
    return true;
}

static void parts_free(struct rehearsal *rehearsal)
{
    if (rehearsal->loop == NULL)
        return;
    if (rehearsal->pool != NULL)
        runner_pool_destroy(rehearsal->pool);
    isolation_destroy(rehearsal->isolation);
    if (rehearsal->launcher != NULL)
        launcher_destroy(rehearsal->launcher);
    loop_timer_clear(rehearsal->loop, &rehearsal->lock_timer);
    loop_timer_clear(rehearsal->loop, &rehearsal->timeout);
    loop_timer_clear(rehearsal->loop, &rehearsal->cancel);
    if (rehearsal->interrupt != NULL)
        loop_signal_stop(rehearsal->interrupt);
    loop_destroy(rehearsal->loop);
    if (rehearsal->loss_event >= 0)
        close(rehearsal->loss_event);
    rehearsal->loss_event = -1;
}

bool rehearsal_run(struct rehearsal *rehearsal)
{
    bool is_ready = parts_make(rehearsal) && (!rehearsal->is_locked || lock_begin(rehearsal));
    if (is_ready) {
        start(rehearsal);
        loop_run(rehearsal->loop);
    }
    parts_free(rehearsal);
    return is_ready && rehearsal->ending != REHEARSAL_UNKNOWN;
}
