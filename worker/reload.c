#include "worker/reload.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "worker/config/config_change.h"
#include "worker/config/node_options.h"
#include "worker/config/surroundings.h"
#include "worker/events/event_commands.h"
#include "worker/locks/task_resources.h"
#include "worker/monitor/monitor.h"
#include "worker/periodic/periodic.h"
#include "worker/plugin/plugin_programs.h"
#include "worker/presence/announced_terms.h"
#include "worker/startup_check.h"
#include "worker/supervisor/service_notify.h"
#include "worker/task/job_host.h"
#include "worker/worker_state.h"

/* A fresh configuration that was taken: it holds the old values. */
struct retired {
    struct list link;
    struct config *config;
    struct class_resources *class_resources;
    uint64_t taken; /* tasks before this number may use them */
};

struct reload {
    struct worker *worker;
    struct list retired;
    pthread_t thread;
    bool is_reading; /* the thread was started, and its result is not here yet */
    bool is_wanted;  /* once more, after this one */
    struct loop_message read;
    /* the thread's until it posts `read` */
    const char *path, *queues;
    struct config *fresh;
    struct plugins *plugins;           /* NULL without a sound configuration */
    struct periodic_entries *periodic; /* of `fresh`; NULL without plugins */
    char **event_environment;          /* of `fresh`; NULL without plugins */
    struct findings findings;
};

/* --- plugins ------------------------------------------------------------------------------------------------------ */

/* From this many on the log mentions the memory of plugins that are never unloaded. */
enum { GENERATIONS_USUAL = 8 };

/* What startup_check_plugins has against it will be said again on the loop, which knows more; here it only keeps
 * plugins from being opened for nothing. */
static bool may_open(const struct config *fresh, const struct plugins *plugins, struct findings *findings)
{
    struct findings trial = {0};
    startup_check_plugins(fresh, plugins, &trial);
    size_t errors = trial.errors;
    findings_fini(&trial);
    if (errors > 0)
        startup_check_plugins(fresh, plugins, findings);
    return errors == 0;
}

static struct plugins *plugins_read(const struct worker_options *options, const struct config *fresh,
                                    struct findings *findings)
{
    struct error error = ERROR_NONE;
    const struct config_worker *worker = &fresh->worker;
    struct config soon = *fresh; /* as it will be: new lock nodes wait for a restart */
    soon.lock_nodes = options->config->lock_nodes;
    soon.lock_node_count = options->config->lock_node_count;
    struct plugins *plugins =
        plugins_load_again(options->plugins, worker->jobs_directory, worker->jobs.items, worker->jobs.count, findings);
    plugins_add_programs(plugins, options->plugins, fresh, findings);
    startup_leave_out(&soon, plugins, findings);
    if (findings->errors > 0 || !may_open(&soon, plugins, findings))
        return plugins;
    if (!startup_open(plugins, options->hosts, &soon, &error))
        findings_error(findings, "%s", error.text);
    return plugins;
}

void plugins_tell(const struct plugins *plugins, unsigned after)
{
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        const struct plugin *plugin = plugins_at(plugins, i);
        char name[LOG_QUOTE_MAX], version[LOG_QUOTE_MAX], build[LOG_QUOTE_MAX];
        if (plugin->generation > after)
            log_event(LOG_INFO, "plugin_loaded", "name=%s version=%s build=%s generation=%u",
                      log_value(plugin->descriptor.name, name), log_value(plugin->descriptor.version, version),
                      log_value(plugin->descriptor.build, build), plugin->generation);
    }
}

static bool has_plugin(const struct plugins *plugins, const char *name)
{
    for (size_t i = 0; i < plugins_count(plugins); i++)
        if (strcmp(plugins_at(plugins, i)->descriptor.name, name) == 0)
            return true;
    return false;
}

static void losses_tell(const struct plugins *running, const struct plugins *fresh)
{
    char name[LOG_QUOTE_MAX];
    for (size_t i = 0; i < plugins_count(running); i++)
        if (!has_plugin(fresh, plugins_at(running, i)->descriptor.name))
            log_event(LOG_WARN, "plugin_gone",
                      "name=%s advice=\"its file is not there any more, so its classes are not "
                      "served\"",
                      log_value(plugins_at(running, i)->descriptor.name, name));
}

/* The check of the configuration has reported what is wrong with them. */
struct class_resources *worker_resources_take(struct worker *worker)
{
    struct findings findings = {0};
    struct class_resources *former = worker->class_resources;
    worker->class_resources = class_resources_create(worker->options.config, worker->options.plugins, &findings);
    findings_fini(&findings);
    return former;
}

void worker_classes_take(struct worker *worker)
{
    const struct plugins *plugins = worker->options.plugins;
    free(worker->class_names);
    worker->class_count = (unsigned)plugins_handler_count(plugins);
    worker->class_names = memory_zeroed(worker->class_count + 1, sizeof worker->class_names[0]);
    for (unsigned i = 0; i < worker->class_count; i++)
        worker->class_names[i] = plugins_handler_at(plugins, i)->class_name;
    for (unsigned i = 0; worker->tally != NULL && i < worker->class_count; i++)
        tally_class_add(worker->tally, worker->class_names[i]);
}

void worker_terms_take(struct worker *worker)
{
    struct buffer text = {0};
    struct redlock_group_status status;
    redlock_group_status_read(worker->locks, &status);
    worker->knows_group = worker->locks == NULL || status.knows_group;
    memcpy(worker->group, status.group, sizeof worker->group);
    worker->terms_order = worker->taken;
    announced_terms_write(worker->options.config, worker->options.plugins,
                          worker->locks != NULL && worker->knows_group ? status.group : NULL, &text);
    announced_terms_set(worker->announced, buffer_text(&text));
    buffer_fini(&text);
}

const char *worker_status(const struct worker *worker)
{
    const char *reason = announced_terms_reason(worker->announced);
    return worker->quiet ? "quiet" : reason[0] != '\0' ? reason : "running";
}

static void plugins_take(struct worker *worker, struct plugins *fresh)
{
    struct plugins *running = worker->options.plugins;
    unsigned before = plugins_generation(running);
    if (plugins_are_same(running, fresh)) {
        plugins_keep(running, fresh);
        return;
    }
    losses_tell(running, fresh);
    plugins_become(running, fresh);
    worker_classes_take(worker);
    isolation_renew(worker->isolation);
    plugins_tell(running, before);
    unsigned generation = plugins_generation(running);
    if (generation > before && generation > GENERATIONS_USUAL)
        log_event(LOG_WARN, "plugin_generations",
                  "generation=%u advice=\"plugins that were replaced stay in memory: restart the workers one after the "
                  "other when there is time\"",
                  generation);
}

/* --- periodic tasks ----------------------------------------------------------------------------------------------- */

static struct periodic_entries *periodic_read(const struct config *fresh, struct findings *findings)
{
    struct error error = ERROR_NONE;
    struct envelope_limits limits = config_task_limits(fresh);
    struct periodic_entries *entries = periodic_entries_make(fresh, &limits, &error);
    if (entries == NULL)
        findings_error(findings, "%s", error.text);
    return entries;
}

/* The entries belong to the list of the fresh configuration: they are of use only when that is taken. */
static void periodic_take(struct reload *reload, const struct config_periodic *before)
{
    if (reload->worker->options.config->periodic == before)
        return;
    periodic_change(reload->worker->periodic, reload->periodic);
    reload->periodic = NULL;
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

static void *reader_run(void *argument)
{
    struct reload *reload = argument;
    reload->fresh = config_read(reload->path, &reload->findings);
    if (reload->fresh != NULL && reload->queues != NULL)
        config_serve_queues(reload->fresh, reload->queues, &reload->findings);
    if (reload->fresh != NULL && reload->findings.errors == 0)
        reload->plugins = plugins_read(&reload->worker->options, reload->fresh, &reload->findings);
    if (reload->plugins != NULL)
        reload->periodic = periodic_read(reload->fresh, &reload->findings);
    if (reload->findings.errors == 0)
        reload->event_environment = startup_check_events(reload->fresh, &reload->findings);
    loop_post(reload->worker->loop, &reload->read);
    return NULL;
}

/* --- judging and taking ------------------------------------------------------------------------------------------- */

static void findings_tell(const struct findings *findings)
{
    char text[LOG_QUOTE_MAX];
    for (size_t i = 0; i < findings->count; i++)
        log_event(findings->items[i].is_warning ? LOG_WARN : LOG_ERROR, "config_finding", "text=%s",
                  log_value(findings->items[i].text, text));
}

struct telling {
    unsigned taken, waiting;
};

static void change_tell(void *context, const struct config_change *change)
{
    struct telling *telling = context;
    char before[LOG_QUOTE_MAX], after[LOG_QUOTE_MAX];
    log_quote(change->before, before);
    log_quote(change->after, after);
    if (change->is_reloadable) {
        telling->taken++;
        log_event(LOG_INFO, "setting_changed", "setting=\"%s\" before=%s after=%s", change->setting, before, after);
    } else {
        telling->waiting++;
        log_event(LOG_WARN, "setting_waits",
                  "setting=\"%s\" before=%s after=%s advice=\"takes effect after a restart\"", change->setting, before,
                  after);
    }
}

static void ttl_check(const struct worker *worker, const struct plugins *plugins, struct findings *findings)
{
    struct redlock_group_status status;
    const struct config *config = worker->options.config;
    redlock_group_status_read(worker->locks, &status);
    if (status.max_ttl_ns > 0 && config->lock.ttl_ns > status.max_ttl_ns)
        findings_error(findings, "%s: lock.ttl: is above the max_ttl of the lock group, which is %lld ms", config->path,
                       (long long)(status.max_ttl_ns / NS_PER_MS));
    startup_check_holds(config, plugins, status.max_ttl_ns, findings);
}

/* What the plugins, and the lock nodes that run, say to the configuration as it would be. */
static bool running_fits(struct worker *worker, const struct plugins *plugins, struct findings *findings)
{
    struct error error = ERROR_NONE;
    struct redlock_terms terms;
    startup_check_plugins(worker->options.config, plugins, findings);
    if (worker->locks != NULL && !lock_setup_terms(worker->options.config, &terms, &error))
        findings_error(findings, "%s", error.text);
    else if (worker->locks != NULL)
        ttl_check(worker, plugins, findings);
    return findings->errors == 0;
}

/* To where it is used in another form. */
static void settings_apply(struct worker *worker, const struct config *old)
{
    const struct config *config = worker->options.config;
    struct error error = ERROR_NONE;
    worker_log_sums(worker); /* a higher level would swallow them */
    log_set_level(config->worker.log_level);
    log_set_format(config->worker.log_format);
    if (strcmp(config->worker.log_file, old->worker.log_file) != 0)
        log_reopen(config->worker.log_file);
    worker->limits = config_task_limits(config);
    if (worker->monitor != NULL && config->http.token != NULL)
        monitor_change_token(worker->monitor, config->http.token);
    if (worker->locks != NULL && !lock_setup_terms(config, &worker->terms, &error))
        log_event(LOG_ERROR, "lock_terms_refused", "reason=\"%s\"", error.text);
}

/* The number of the oldest task that a slot has. */
static uint64_t oldest_task(const struct worker *worker)
{
    uint64_t oldest = UINT64_MAX;
    for (unsigned i = 0; i < worker->slot_count; i++)
        if (worker->slots[i].flow.has_task && worker->slots[i].order < oldest)
            oldest = worker->slots[i].order;
    return oldest;
}

static void retired_free(struct reload *reload, uint64_t oldest)
{
    for (struct list *link = reload->retired.next, *next; link != &reload->retired; link = next) {
        struct retired *retired = list_owner(link, struct retired, link);
        next = link->next;
        if (retired->taken > oldest)
            continue;
        list_remove(link);
        config_free(retired->config);
        class_resources_free(retired->class_resources);
        free(retired);
    }
}

static void fresh_retire(struct reload *reload)
{
    struct retired *retired = memory_new(struct retired);
    retired->config = reload->fresh;
    retired->class_resources = worker_resources_take(reload->worker);
    retired->taken = reload->worker->taken;
    reload->fresh = NULL;
    list_init(&retired->link);
    list_append(&reload->retired, &retired->link);
    retired_free(reload, oldest_task(reload->worker));
}

static bool fresh_take(struct reload *reload)
{
    struct worker *worker = reload->worker;
    struct config *running = worker->options.config;
    struct telling telling = {0};
    if (reload->fresh == NULL || reload->findings.errors > 0)
        return false;
    config_exchange(running, reload->fresh);
    bool fits = running_fits(worker, reload->plugins, &reload->findings);
    config_exchange(running, reload->fresh);
    if (!fits)
        return false;
    findings_tell(&reload->findings);
    config_changes(running, reload->fresh, change_tell, &telling);
    const struct config_periodic *periodic = running->periodic;
    config_exchange(running, reload->fresh);
    periodic_take(reload, periodic);
    settings_apply(worker, reload->fresh);
    event_commands_set_environment(worker->event_commands, reload->event_environment);
    reload->event_environment = NULL;
    plugins_take(worker, reload->plugins);
    reload->plugins = NULL;
    fresh_retire(reload);
    worker_terms_take(worker);
    log_event(LOG_INFO, "reloaded", "changed=%u after_restart=%u", telling.taken, telling.waiting);
    return true;
}

/* A worker that leaves takes over nothing, and logs nothing of it. */
static void fresh_judge(struct reload *reload)
{
    if (reload->worker->leaving)
        return;
    if (!fresh_take(reload)) {
        findings_tell(&reload->findings);
        log_event(LOG_ERROR, "reload_refused",
                  "errors=%zu advice=\"nothing was changed; mend what is wrong and reload\"", reload->findings.errors);
    }
    if (!reload->worker->stopping)
        service_notify_ready(worker_status(reload->worker));
}

static void fresh_arrived(struct loop_message *message)
{
    struct reload *reload = list_owner(message, struct reload, read);
    pthread_join(reload->thread, NULL); /* it posted, and has nothing more to do */
    reload->is_reading = false;
    fresh_judge(reload);
    if (reload->plugins != NULL) /* refused: nothing uses them */
        plugins_keep(reload->worker->options.plugins, reload->plugins);
    reload->plugins = NULL;
    periodic_entries_free(reload->periodic);
    reload->periodic = NULL;
    surroundings_forget(reload->event_environment);
    reload->event_environment = NULL;
    config_free(reload->fresh);
    findings_fini(&reload->findings);
    reload->fresh = NULL;
    reload->findings = (struct findings){0};
    if (reload->is_wanted) {
        reload->is_wanted = false;
        worker_reload(reload->worker, "again");
    }
}

void worker_reload(struct worker *worker, const char *reason)
{
    struct reload *reload = worker->reload;
    log_reopen(NULL);
    if (reload->is_reading || worker->stopping) {
        reload->is_wanted = !worker->stopping;
        return;
    }
    log_event(LOG_INFO, "reloading", "reason=%s", reason);
    service_notify_reloading();
    int status = thread_spawn(&reload->thread, "hf-reload", reader_run, reload);
    reload->is_reading = status == 0;
    if (status == 0)
        return;
    log_event(LOG_ERROR, "reload_refused", "reason=\"no thread to read it: %s\"", strerror(status));
    service_notify_ready(worker_status(worker));
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct reload *reload_create(struct worker *worker)
{
    struct reload *reload = memory_new(struct reload);
    reload->worker = worker;
    list_init(&reload->retired);
    reload->path = worker->options.config->path;
    reload->queues = worker->options.queues;
    reload->read.deliver = fresh_arrived;
    return reload;
}

bool reload_is_reading(const struct reload *reload)
{
    return reload->is_reading;
}

bool reload_end(struct reload *reload)
{
    if (reload->is_reading)
        pthread_detach(reload->thread);
    return !reload->is_reading;
}

void reload_destroy(struct reload *reload)
{
    retired_free(reload, UINT64_MAX);
    free(reload);
}
