#include "worker/startup_check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "worker/config/suggest.h"
#include "worker/config/surroundings.h"
#include "worker/locks/task_resources.h"
#include "worker/plugin/plugin_programs.h"
#include "worker/task/crash_note.h"
#include "worker/task/task_rules.h"

/* One finding is enough: the remedy is the same for every class. */
static void check_lock_nodes(const struct config *config, const struct plugins *plugins, struct findings *findings)
{
    for (size_t i = 0; config->lock_node_count == 0 && i < plugins_handler_count(plugins); i++) {
        const struct plugin_handler *handler = plugins_handler_at(plugins, i);
        const struct config_class *entry = config_class_find(config, handler->class_name);
        const char *where = entry != NULL && entry->source.where != NULL ? entry->source.where : config->path;
        if (class_mode_of(config, entry, handler) == CONFIG_MODE_NONE)
            continue;
        findings_error(findings,
                       "%s: there are no lock_nodes, but tasks of the class %s may need a lock; add nodes or "
                       "set lock = \"none\" for the class",
                       where, handler->class_name);
        return;
    }
}

void startup_leave_out(const struct config *config, struct plugins *plugins, struct findings *findings)
{
    if (config->lock_node_count >= CLASS_MODE_NODES_LEAST)
        return;
    for (size_t i = plugins_handler_count(plugins); i-- > 0;) {
        const struct plugin_handler *handler = plugins_handler_at(plugins, i);
        const struct config_class *entry = config_class_find(config, handler->class_name);
        if (class_mode_of(config, entry, handler) != CONFIG_MODE_CORRECTNESS)
            continue;
        findings_warn(findings,
                      "%s: this worker does not serve the class %s: its mode is correctness, which needs at least %d "
                      "lock_nodes, and there are %zu; add nodes or, when two of its tasks at once would do no harm, "
                      "give the class mode = \"efficiency\"",
                      entry != NULL && entry->source.where != NULL ? entry->source.where : handler->origin,
                      handler->class_name, CLASS_MODE_NODES_LEAST, config->lock_node_count);
        plugins_leave_out(plugins, handler->class_name);
    }
}

/* --- modes ------------------------------------------------------------------------------------------------------ */

/* Settings of a class that contradict the mode correctness. */
static void check_correctness(const struct config *config, const struct config_class *entry,
                              const struct plugin_handler *handler, struct findings *findings)
{
    const char *where = entry != NULL ? entry->source.where : handler->origin, *name = handler->class_name;
    const char *remedy = "when two of its tasks at once would do no harm, give the class mode = \"efficiency\"";
    if (!class_mode_is_fenced(config, entry))
        findings_error(findings,
                       "%s: the class %s has the mode correctness and no fencing tokens; set fence = \"yes\" for it "
                       "or, %s",
                       where, name, remedy);
    if (entry == NULL)
        return;
    if (entry->on_no_quorum == CONFIG_QUORUM_OPEN)
        findings_error(findings,
                       "%s: on_no_quorum = \"open\": the class %s has the mode correctness, which never "
                       "runs without its lock; %s",
                       where, name, remedy);
    if (entry->on_conflict == CONFIG_CONFLICT_SKIP)
        findings_error(findings,
                       "%s: on_conflict = \"skip\": the class %s has the mode correctness, and work that is "
                       "skipped is lost; %s",
                       where, name, remedy);
    if (entry->hold_at_least_ns > 0)
        findings_error(findings,
                       "%s: hold_at_least: the class %s has the mode correctness, whose locks end with their "
                       "tasks; %s",
                       where, name, remedy);
}

static void check_modes(const struct config *config, const struct plugins *plugins, struct findings *findings)
{
    for (size_t i = 0; i < plugins_handler_count(plugins); i++) {
        const struct plugin_handler *handler = plugins_handler_at(plugins, i);
        const struct config_class *entry = config_class_find(config, handler->class_name);
        enum config_mode mode = class_mode_of(config, entry, handler);
        if (mode == CONFIG_MODE_CORRECTNESS)
            check_correctness(config, entry, handler, findings);
        else if (mode == CONFIG_MODE_NONE && entry != NULL && entry->lock == CONFIG_LOCK_REQUIRED &&
                 entry->mode == CONFIG_MODE_BY_HANDLER)
            findings_error(findings,
                           "%s: lock = \"required\": the handler of %s says that its tasks are never locked; give the "
                           "class a mode",
                           entry->source.where, entry->name);
    }
    class_resources_free(class_resources_create(config, plugins, findings));
}

void startup_check_holds(const struct config *config, const struct plugins *plugins, int64_t max_ttl_ns,
                         struct findings *findings)
{
    for (size_t i = 0; max_ttl_ns > 0 && i < plugins_handler_count(plugins); i++) {
        const struct plugin_handler *handler = plugins_handler_at(plugins, i);
        const struct config_class *entry = config_class_find(config, handler->class_name);
        enum config_mode mode = class_mode_of(config, entry, handler);
        if (class_mode_hold_at_least_ns(mode, entry, handler) > max_ttl_ns)
            findings_error(findings,
                           "%s: hold_at_least of the class %s: is above the max_ttl of the lock group, which is %lld "
                           "ms",
                           entry != NULL ? entry->source.where : handler->origin, handler->class_name,
                           (long long)(max_ttl_ns / NS_PER_MS));
    }
}

/* --- where it runs ---------------------------------------------------------------------------------------------- */

/* The first setting of the class that only takes effect in a process of its own. */
static const char *process_setting(const struct config_class *entry)
{
    return entry->tasks_per_process > 0    ? "tasks_per_process"
           : entry->memory_per_process > 0 ? "memory_per_process"
           : entry->memory_limit > 0       ? "memory_limit"
           : entry->open_files_limit > 0   ? "open_files_limit"
           : entry->grace_ns > 0           ? "grace"
                                           : NULL;
}

static void check_isolation(const struct config_class *entry, const struct plugins *plugins, struct findings *findings)
{
    const struct plugin_handler *handler = plugins_find(plugins, entry->name);
    if (handler == NULL || handler->program != NULL || entry->source.is_broken)
        return;
    const char *setting = process_setting(entry);
    if (entry->isolation == CONFIG_ISOLATION_THREAD && handler->isolation == HF_ISOLATION_PROCESS)
        findings_error(findings,
                       "%s: isolation = \"thread\": the handler of %s (%s) says that it must never run inside the "
                       "worker; take it out",
                       entry->source.where, entry->name, handler->origin);
    else if (class_isolation_of(entry, handler) == CONFIG_ISOLATION_THREAD && setting != NULL)
        findings_warn(findings,
                      "%s: %s has no effect: the class %s runs in a thread of the worker; set isolation = "
                      "\"process\" for it, or remove it",
                      entry->source.where, setting, entry->name);
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

enum { OPENING_PATIENCE_S = 3 };

/* A thread of its own watches, because open() blocks the one that calls it. */
struct opening {
    struct job_hosts *hosts;
    struct config *config;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const char *name; /* of the plugin whose open() is called; NULL = none yet */
    struct instant since;
    bool is_over;
};

static void *opening_watch(void *context)
{
    struct opening *opening = context;
    const char *name = NULL;
    time_t patience_s = OPENING_PATIENCE_S;
    char text[LOG_QUOTE_MAX];
    pthread_mutex_lock(&opening->mutex);
    while (!opening->is_over) {
        struct timespec until;
        patience_s = opening->name == name ? patience_s : OPENING_PATIENCE_S;
        name = opening->name;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += patience_s;
        int status = 0;
        while (status == 0 && !opening->is_over && opening->name == name)
            status = pthread_cond_timedwait(&opening->changed, &opening->mutex, &until);
        if (status != ETIMEDOUT || name == NULL || opening->is_over || opening->name != name)
            continue;
        patience_s *= 2;
        log_event(LOG_WARN, "plugin_opening",
                  "name=%s seconds=%.0f advice=\"its open() has not returned, and the worker waits for it\"",
                  log_value(name, text), (double)instant_since(opening->since, instant_now()) / (double)NS_PER_S);
    }
    pthread_mutex_unlock(&opening->mutex);
    return NULL;
}

static const struct hf_host *opening_host(void *context, const char *plugin_name)
{
    struct opening *opening = context;
    pthread_mutex_lock(&opening->mutex);
    opening->name = plugin_name;
    opening->since = instant_now();
    pthread_cond_signal(&opening->changed);
    pthread_mutex_unlock(&opening->mutex);
    crash_note_open_begin(plugin_name);
    return job_hosts_for(opening->hosts, plugin_name);
}

static bool runs_here(void *context, const struct plugin_handler *handler)
{
    const struct config *config = ((struct opening *)context)->config;
    return class_isolation_of(config_class_find(config, handler->class_name), handler) == CONFIG_ISOLATION_THREAD;
}

bool startup_open(struct plugins *plugins, struct job_hosts *hosts, struct config *config, struct error *error)
{
    struct opening opening = {.hosts = hosts, .config = config};
    struct plugin_opening options = {
        .host_for = opening_host, .hosts = &opening, .runs_here = runs_here, .context = &opening};
    pthread_t watcher;
    sigset_t all, before;
    pthread_mutex_init(&opening.mutex, NULL);
    thread_condition_init(&opening.changed);
    bool is_watched = thread_spawn(&watcher, "hf-opening", opening_watch, &opening) == 0;
    bool is_open = plugins_open_for(plugins, &options, error);
    crash_note_run_end();
    /* A signal may end the process at once. It waits until the thread is gone, which a sanitizer would call leaked. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&opening.mutex);
    opening.is_over = true;
    pthread_cond_signal(&opening.changed);
    pthread_mutex_unlock(&opening.mutex);
    if (is_watched)
        pthread_join(watcher, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_cond_destroy(&opening.changed);
    pthread_mutex_destroy(&opening.mutex);
    return is_open;
}

/* --- what reaches nobody ---------------------------------------------------------------------------------------- */

/* A warning only: another worker may serve the class, and files are shared between them. */
static void check_class(const struct config_class *entry, const struct plugins *plugins, struct findings *findings)
{
    struct suggestion suggestion = suggestion_for(entry->name);
    char hint[SUGGEST_HINT_MAX], text[512];
    snprintf(text, sizeof text, "does not serve the class %s:", entry->name); /* of startup_leave_out */
    if (entry->source.is_broken || plugins_find(plugins, entry->name) != NULL || findings_find(findings, text) != NULL)
        return;
    for (size_t i = 0; i < plugins_handler_count(plugins); i++)
        suggestion_offer(&suggestion, plugins_handler_at(plugins, i)->class_name);
    findings_warn(findings, "%s: no plugin that is loaded serves the class %s%s", entry->source.where, entry->name,
                  suggestion_hint(&suggestion, hint));
}

static void check_settings(const struct config_plugin *entry, const struct plugins *plugins, struct findings *findings)
{
    struct suggestion suggestion = suggestion_for(entry->name);
    char hint[SUGGEST_HINT_MAX];
    if (entry->source.is_broken)
        return;
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        const char *name = plugins_at(plugins, i)->descriptor.name;
        if (strcmp(name, entry->name) == 0)
            return;
        suggestion_offer(&suggestion, name);
    }
    findings_warn(findings, "%s: these settings reach nobody: no plugin that is loaded is called %s%s",
                  entry->source.where, entry->name, suggestion_hint(&suggestion, hint));
}

static void check_periodic_class(const struct config_periodic *entry, const struct plugins *plugins,
                                 struct findings *findings)
{
    struct suggestion suggestion = suggestion_for(entry->class_name);
    char hint[SUGGEST_HINT_MAX];
    if (plugins_find(plugins, entry->class_name) != NULL)
        return;
    for (size_t i = 0; i < plugins_handler_count(plugins); i++)
        suggestion_offer(&suggestion, plugins_handler_at(plugins, i)->class_name);
    findings_warn(findings, "%s: periodic task \"%s\": no plugin that is loaded serves the class %s%s",
                  entry->source.where, entry->name, entry->class_name, suggestion_hint(&suggestion, hint));
}

static void check_periodic_queue(const struct config_periodic *entry, const struct config_words *served,
                                 struct findings *findings)
{
    struct suggestion suggestion = suggestion_for(entry->queue);
    char hint[SUGGEST_HINT_MAX];
    for (size_t i = 0; i < served->count; i++) {
        if (strcmp(served->items[i], entry->queue) == 0)
            return;
        suggestion_offer(&suggestion, served->items[i]);
    }
    findings_warn(findings, "%s: periodic task \"%s\": the queue %s is not among worker.queues%s", entry->source.where,
                  entry->name, entry->queue, suggestion_hint(&suggestion, hint));
}

void startup_check_periodic(const struct config *config, const struct plugins *plugins, struct findings *findings)
{
    for (size_t i = 0; i < config->periodic_count; i++) {
        const struct config_periodic *entry = &config->periodic[i];
        if (entry->source.is_broken)
            continue;
        check_periodic_class(entry, plugins, findings);
        check_periodic_queue(entry, &config->worker.queues, findings);
    }
}

void startup_check_log(const struct config *config, struct findings *findings)
{
    const char *path = config->worker.log_file;
    struct stat facts;
    if (path[0] == '\0')
        return;
    int failure = faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0 ? 0 : errno;
    if (failure == 0 && stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        failure = EISDIR;
    if (failure == ENOENT) { /* the worker makes the file, but not its directory */
        const char *slash = strrchr(path, '/');
        char *directory = slash == NULL ? memory_text(".") : memory_text_of(path, (size_t)(slash - path) + 1);
        failure = faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
        free(directory);
    }
    if (failure != 0)
        findings_error(findings, "%s: worker.log_file: a worker cannot open %s: %s", config->path, path,
                       strerror(failure));
}

void startup_check_plugins(const struct config *config, const struct plugins *plugins, struct findings *findings)
{
    if (plugins_handler_count(plugins) == 0 && findings->errors == 0)
        findings_error(findings,
                       "%s: this worker has nothing to run: name plugins in worker.jobs, or a program in classes",
                       config->path);
    check_lock_nodes(config, plugins, findings);
    check_modes(config, plugins, findings);
    for (size_t i = 0; i < config->class_count; i++)
        check_class(&config->classes[i], plugins, findings);
    for (size_t i = 0; i < config->class_count; i++)
        check_isolation(&config->classes[i], plugins, findings);
    for (size_t i = 0; i < config->plugin_count; i++)
        check_settings(&config->plugins[i], plugins, findings);
}

char **startup_check_events(const struct config *config, struct findings *findings)
{
    const struct config_event *event = &config->on_event;
    if (event->command.count == 0)
        return NULL;
    if (event->command.items[0][0] == '/')
        program_file_check(event->command.items[0], event->source.where, "on_event.command", findings);
    return surroundings_read(&event->surroundings, event->source.where, "on_event.", findings);
}

void startup_check(const struct config *config, const struct plugins *plugins, struct findings *findings)
{
    startup_check_plugins(config, plugins, findings);
    surroundings_forget(startup_check_events(config, findings));
}
