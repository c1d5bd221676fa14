#include "worker/plugin_reload.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/task/job_host.h"
#include "worker/plugin/plugin_programs.h"
#include "worker/startup.h"
#include "worker/worker_state.h"

/* From here on the memory of what is never unloaded is worth a word. */
enum { GENERATIONS_USUAL = 8 };

/* What startup_check has against it will be said again on the loop, which knows more; here it only keeps plugins from
 * being opened for nothing. */
static bool may_open(const struct config *fresh, const struct plugins *plugins, struct findings *findings)
{
    struct findings trial = {0};
    startup_check(fresh, plugins, &trial);
    size_t errors = trial.errors;
    findings_fini(&trial);
    if (errors > 0)
        startup_check(fresh, plugins, findings);
    return errors == 0;
}

struct plugins *plugin_reload_read(const struct worker_options *options, const struct config *fresh,
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
    struct plugin_opening opening = {
        .host_for = job_hosts_for, .hosts = options->hosts, .runs_here = startup_runs_here, .context = &soon};
    if (!plugins_open_for(plugins, &opening, &error))
        findings_error(findings, "%s", error.text);
    return plugins;
}

void plugins_tell(const struct plugins *plugins, unsigned after)
{
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        const struct plugin *plugin = plugins_at(plugins, i);
        char name[LOG_QUOTE_MAX], version[LOG_QUOTE_MAX], build[LOG_QUOTE_MAX];
        if (plugin_generation(plugin) > after)
            log_event(LOG_INFO, "plugin_loaded", "name=%s version=%s build=%s generation=%u",
                      log_value(plugin_name(plugin), name), log_value(plugin_version(plugin), version),
                      log_value(plugin_build(plugin), build), plugin_generation(plugin));
    }
}

static bool has_plugin(const struct plugins *plugins, const char *name)
{
    for (size_t i = 0; i < plugins_count(plugins); i++)
        if (strcmp(plugin_name(plugins_at(plugins, i)), name) == 0)
            return true;
    return false;
}

static void losses_tell(const struct plugins *running, const struct plugins *fresh)
{
    char name[LOG_QUOTE_MAX];
    for (size_t i = 0; i < plugins_count(running); i++)
        if (!has_plugin(fresh, plugin_name(plugins_at(running, i))))
            log_event(LOG_WARN, "plugin_gone",
                      "name=%s advice=\"its file is not there any more, so its classes are not "
                      "served\"",
                      log_value(plugin_name(plugins_at(running, i)), name));
}

void worker_classes_take(struct worker *worker)
{
    const struct plugins *plugins = worker->options.plugins;
    free(worker->class_names);
    worker->class_count = (unsigned)plugins_handler_count(plugins);
    worker->class_names = memory_zeroed(worker->class_count + 1, sizeof worker->class_names[0]);
    for (unsigned i = 0; i < worker->class_count; i++)
        worker->class_names[i] = plugins_handler_at(plugins, i)->class_name;
}

void plugin_reload_take(struct worker *worker, struct plugins *fresh)
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
