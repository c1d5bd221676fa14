#include "worker/commands/rehearsal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/config/suggest.h"
#include "worker/crash_note.h"
#include "worker/isolation/runner_process.h"
#include "worker/plugin/plugin_file.h"
#include "worker/plugin/plugin_programs.h"

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
    board_destroy(rehearsal->board);
    config_free(rehearsal->config);
    findings_fini(&rehearsal->findings);
    free(rehearsal);
}

/* --- getting ready ------------------------------------------------------------------------------------------------ */

/* What was said so far is written, as exit() would have done. */
static void exit_tell(const struct berth *whose)
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
static bool board_begin(struct rehearsal *rehearsal)
{
    struct error error = ERROR_NONE;
    rehearsal->board = board_create(1);
    const struct zygote_options options = {
        .board = rehearsal->board, .runner = runner_main, .log = {.level = LOG_WARN, .fd = STDERR_FILENO}};
    if (rehearsal->board == NULL)
        error_set(&error, "out of memory");
    else if (rehearsal->wish.in_process || zygote_start(&rehearsal->zygote, &options, &error)) {
        crash_notes_begin(rehearsal->board);
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
    rehearsal->config = rehearsal_config(&rehearsal->wish, findings);
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
    if (!config_begin(rehearsal) || !board_begin(rehearsal))
        return false;
    rehearsal->handler = handler_find(rehearsal);
    if (rehearsal->handler == NULL)
        return false;
    if (rehearsal->handler->plugin != NULL)
        rehearsal_settings_add(&rehearsal->wish, rehearsal->config, plugin_name(rehearsal->handler->plugin));
    if (!rehearsal_task_make(rehearsal, &error)) {
        rehearsal_complain("%s", error.text);
        return false;
    }
    if (rehearsal->wish.lose_after_ns >= 0 && !rehearsal->is_locked) {
        rehearsal_complain("there is no lock that could be lost: name what it locks with --resource");
        return false;
    }
    return plugin_begin(rehearsal) && log_begin();
}
