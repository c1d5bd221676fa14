/* holdfast plugins: what there is to run tasks, and whether files would be loaded. No node is asked, no worker runs,
 * and open() of the plugins is not called. */
#include "worker/commands/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/commands/plugin_view.h"
#include "worker/plugin/plugin_programs.h"
#include "worker/plugin/plugin_symbols.h"
#include "worker/startup.h"

enum { OPTION_CONFIG, OPTION_JSON };
enum { FILES_MAX = 64 };

static const struct command_option options[] = {
    [OPTION_CONFIG] = {'c', "config", "FILE", "the configuration of the worker (of list: required)"},
    [OPTION_JSON] = {0, "json", NULL, "print JSON"},
    {0, NULL, NULL, NULL},
};

/* --- list ------------------------------------------------------------------------------------------------------- */

static int list(const char *path, bool as_json)
{
    struct findings findings = {0};
    struct plugins *plugins = NULL;
    struct config *config = config_read(path, &findings);
    if (config != NULL) {
        const struct config_worker *worker = &config->worker;
        plugins = plugins_load_vetted(worker->jobs_directory, worker->jobs.items, worker->jobs.count, &findings);
        plugins_add_programs(plugins, NULL, config, &findings);
        startup_check(config, plugins, &findings);
    }
    if (as_json) {
        struct buffer out = {0};
        struct json_writer json = {.out = &out};
        json_open(&json, NULL, '{');
        if (plugins != NULL)
            plugin_view_json(&json, plugins, config);
        plugin_findings_json(&json, &findings);
        json_close(&json, '}');
        json_print(&out);
    } else {
        if (plugins != NULL)
            plugin_view_print(plugins, config);
        fflush(stdout);
        findings_print(&findings, stderr);
    }
    int code = findings.errors == 0 ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
    plugins_close(plugins);
    config_free(config);
    findings_fini(&findings);
    return code;
}

/* --- check ------------------------------------------------------------------------------------------------------ */

struct checked {
    const char *file;
    struct plugins *plugins;
    struct findings findings;
};

/* What a worker would load, and an author might want to know all the same. */
static void advise(const struct plugins *plugins, struct findings *findings)
{
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        struct buffer names = {0};
        const struct plugin *plugin = plugins_at(plugins, i);
        size_t shown = plugin_symbols_shown(plugin_file(plugin), &names);
        if (shown > 0)
            findings_warn(findings,
                          "%s: shows %zu names besides holdfast_plugin (%s), which may be taken for those of another "
                          "library; build it with -fvisibility=hidden",
                          plugin_path(plugin), shown, buffer_text(&names));
        buffer_fini(&names);
    }
    for (size_t i = 0; i < plugins_handler_count(plugins); i++) {
        const struct plugin_handler *handler = plugins_handler_at(plugins, i);
        if (handler->isolation == HF_ISOLATION_USUAL)
            findings_warn(findings,
                          "%s: the handler of %s does not say where it runs (.isolation); so it runs in a process of "
                          "its own unless the configuration says thread",
                          handler->origin, handler->class_name);
    }
}

/* As a worker would that has the directory of the file as its worker.jobs_directory. */
static void file_check(struct checked *checked, const char *file)
{
    size_t length = strlen(file);
    const char *slash = strrchr(file, '/'), *name = slash != NULL ? slash + 1 : file;
    checked->file = file;
    if (length < 4 || strcmp(file + length - 3, ".so") != 0) {
        findings_error(&checked->findings, "%s: a plugin has a name that ends with .so", file);
        return;
    }
    char *directory = slash == NULL   ? memory_text(".")
                      : slash == file ? memory_text("/")
                                      : memory_text_of(file, (size_t)(slash - file));
    char *names[] = {memory_text_of(name, strlen(name) - 3)};
    checked->plugins = plugins_load_vetted(directory, names, 1, &checked->findings);
    advise(checked->plugins, &checked->findings);
    free(names[0]);
    free(directory);
}

static void checked_print(struct checked *checked)
{
    if (checked->plugins != NULL)
        plugin_view_print(checked->plugins, NULL);
    fflush(stdout);
    findings_print(&checked->findings, stderr);
    if (checked->findings.errors == 0)
        printf("%s: would be loaded\n", checked->file);
}

static void checked_json(struct json_writer *json, struct checked *checked)
{
    json_open(json, NULL, '{');
    json_text(json, "file", checked->file);
    json_truth(json, "ok", checked->findings.errors == 0);
    if (checked->plugins != NULL)
        plugin_view_json(json, checked->plugins, NULL);
    plugin_findings_json(json, &checked->findings);
    json_close(json, '}');
}

static int check(char *const *files, int count, bool as_json)
{
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    int code = EXIT_CODE_OK;
    json_open(&json, NULL, '{');
    json_open(&json, "files", '[');
    for (int i = 0; i < count; i++) {
        struct checked checked = {.file = files[i]};
        file_check(&checked, files[i]);
        if (as_json)
            checked_json(&json, &checked);
        else
            checked_print(&checked);
        if (checked.findings.errors > 0)
            code = EXIT_CODE_FAILURE;
        plugins_close(checked.plugins);
        findings_fini(&checked.findings);
    }
    json_close(&json, ']');
    json_close(&json, '}');
    if (as_json)
        json_print(&out);
    buffer_fini(&out);
    return code;
}

/* --- the command ------------------------------------------------------------------------------------------------ */

static int run(int argc, char **argv)
{
    const char *path = NULL;
    bool as_json = false;
    struct command_line line = command_line_begin(&command_plugins, argc, argv);
    for (int option; (option = command_line_next(&line)) >= 0;) {
        if (option == OPTION_CONFIG)
            path = line.value;
        as_json |= option == OPTION_JSON;
    }
    if (line.is_over)
        return line.exit_code;
    bool checks = line.argument_count > 0 && strcmp(line.arguments[0], "check") == 0;
    if (line.argument_count > 0 && !checks && strcmp(line.arguments[0], "list") != 0)
        return command_misused(&command_plugins, "there is no 'plugins %s': it is list or check", line.arguments[0]);
    if (checks && (line.argument_count == 1 || path != NULL))
        return command_misused(&command_plugins,
                               path != NULL ? "check wants no configuration" : "name a file to check");
    if (!checks && (line.argument_count > 1 || path == NULL))
        return command_misused(&command_plugins, path == NULL ? "-c FILE is missing" : "list takes no name");
    log_set_level(LOG_ERROR);
    return checks ? check(line.arguments + 1, line.argument_count - 1, as_json) : list(path, as_json);
}

const struct command command_plugins = {
    .name = "plugins",
    .summary = "list what runs tasks, or check files of plugins",
    .synopsis = "[list -c FILE | check FILE...] [--json]",
    .about =
        "Lists the plugins that a worker with this configuration would load, and for each class of tasks where its\n"
        "handler runs (thread, process; exec: a program), what its locks are for, what its tasks lock that name\n"
        "nothing themselves, and how long a run may take.\n"
        "\n"
        "`check` tells of files what a worker would say: who may write them, whether they can be loaded (which a\n"
        "child process tries, so that a constructor may crash), and what their descriptors say; besides, it warns\n"
        "of what works and may surprise. The directory of the file is judged as well.\n"
        "\n"
        "Neither needs a node, and open() of the plugins is not called.\n"
        "\n"
        "JSON: plugins, a list of name, version, build, interface, file and classes (class, isolation, mode,\n"
        "resources, timeout_ms, about); programs, a list of classes with program and where; errors; warnings. Of\n"
        "check: files, a list of these with file and ok.\n"
        "\n"
        "Exits with 0 when there is no error (warnings do not count), else with 1.\n",
    .examples = "  holdfast plugins list -c holdfast.conf\n"
                "  holdfast plugins check ./hello.so\n",
    .options = options,
    .arguments_max = FILES_MAX + 1,
    .run = run,
};
