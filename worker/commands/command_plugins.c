/* holdfast plugins: what there is to run tasks, and whether files would be loaded. No node is asked, no worker runs,
 * and open() of the plugins is not called. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/commands/command.h"
#include "worker/commands/origin.h"
#include "worker/config/config.h"
#include "worker/plugin/plugin.h"
#include "worker/plugin/plugin_programs.h"
#include "worker/plugin/plugin_symbols.h"
#include "worker/print/printer.h"
#include "worker/startup_check.h"
#include "worker/task/task_rules.h"

/* --- one class -------------------------------------------------------------------------------------------------- */

struct class_view {
    const struct plugin_handler *handler;
    const char *isolation, *mode;
    int64_t timeout_ns; /* 0 = none */
    struct buffer resources;
};

static const char *mode_said(const struct plugin_handler *handler)
{
    static const char *const names[] = {[HF_MODE_USUAL] = "usual",
                                        [HF_CORRECTNESS] = "correctness",
                                        [HF_EFFICIENCY] = "efficiency",
                                        [HF_UNLOCKED] = "none"};
    return names[handler->mode];
}

static void resources_write(struct buffer *out, const struct config_class *entry, const struct plugin_handler *handler)
{
    if (entry != NULL && entry->resource.count > 0) {
        for (size_t i = 0; i < entry->resource.count; i++)
            buffer_format(out, "%s%s", i > 0 ? " " : "", entry->resource.items[i]);
        return;
    }
    for (size_t i = 0; handler->resources != NULL && handler->resources[i] != NULL; i++)
        buffer_format(out, "%s%s", i > 0 ? " " : "", handler->resources[i]);
}

static struct class_view class_view(const struct config *config, const struct plugin_handler *handler)
{
    const struct config_class *entry = config != NULL ? config_class_find(config, handler->class_name) : NULL;
    bool is_set = entry != NULL && entry->timeout_ns > 0;
    struct class_view view = {
        .handler = handler,
        .isolation = isolation_name(class_isolation_of(entry, handler)),
        .mode = config != NULL ? class_mode_name(class_mode_of(config, entry, handler)) : mode_said(handler),
        .timeout_ns = is_set ? entry->timeout_ns : handler->timeout_ms * NS_PER_MS,
    };
    resources_write(&view.resources, entry, handler);
    return view;
}

/* --- printing --------------------------------------------------------------------------------------------------- */

static void class_put(const struct plugin_handler *handler, const struct config *config, struct printer *out)
{
    struct class_view view = class_view(config, handler);
    printer_row(out);
    printer_text(out, "CLASS", "class", handler->class_name);
    printer_text(out, "OF", NULL, handler->plugin != NULL ? handler->plugin->descriptor.name : "(program)");
    printer_text(out, "RUNS IN", "isolation", view.isolation);
    printer_text(out, "MODE", "mode", view.mode);
    printer_text(out, NULL, "resources", buffer_text(&view.resources));
    printer_text(out, "LOCKS", NULL, printer_known(buffer_text(&view.resources)));
    printer_number(out, NULL, "timeout_ms", view.timeout_ns / NS_PER_MS);
    printer_span(out, ">TIMEOUT", NULL, view.timeout_ns > 0 ? view.timeout_ns / NS_PER_US : -1);
    printer_text(out, NULL, "about", handler->about);
    printer_text(out, ".ABOUT", NULL, handler->about != NULL ? handler->about : "");
    if (out->is_json && handler->program != NULL) {
        json_open(&out->json, "program", '[');
        for (size_t i = 0; handler->program[i] != NULL; i++)
            json_text(&out->json, NULL, handler->program[i]);
        json_close(&out->json, ']');
        json_text(&out->json, "where", handler->origin);
    }
    printer_row_end(out);
    buffer_fini(&view.resources);
}

/* Programs see the classes of one plugin, or of the programs (NULL); people see all of them. */
static void classes_put(const char *member, const struct plugins *plugins, const struct plugin *plugin,
                        const struct config *config, struct printer *out)
{
    printer_list(out, member);
    for (size_t i = 0; i < plugins_handler_count(plugins); i++)
        if (!out->is_json || plugins_handler_at(plugins, i)->plugin == plugin)
            class_put(plugins_handler_at(plugins, i), config, out);
    printer_list_end(out, NULL);
}

static void plugin_put(const struct plugins *plugins, const struct plugin *plugin, const struct config *config,
                       struct printer *out)
{
    char interface[32];
    snprintf(interface, sizeof interface, "%d.%u", HF_ABI_MAJOR, plugin->descriptor.abi_minor);
    printer_row(out);
    printer_text(out, "PLUGIN", "name", plugin->descriptor.name);
    printer_text(out, NULL, "version", plugin->descriptor.version);
    printer_text(out, "VERSION", NULL, printer_known(plugin->descriptor.version));
    printer_text(out, "BUILD", "build", printer_known(plugin->descriptor.build));
    printer_text(out, "FILE", "file", plugin->path);
    printer_text(out, "INTERFACE", "interface", interface);
    if (out->is_json)
        classes_put("classes", plugins, plugin, config, out);
    printer_row_end(out);
}

/* Plugins and classes. Without a configuration (NULL) the classes are as their handlers say. */
static void plugins_put(const struct plugins *plugins, const struct config *config, struct printer *out)
{
    printer_list(out, "plugins");
    for (size_t i = 0; i < plugins_count(plugins); i++)
        plugin_put(plugins, plugins_at(plugins, i), config, out);
    printer_list_end(out, NULL);
    if (plugins_count(plugins) > 0)
        printer_line(out, "%s", "");
    classes_put("programs", plugins, NULL, config, out);
}

enum { FILES_MAX = 64 };

struct plugins_command {
    struct origin origin;
    bool as_json;
};

#define AT(member) offsetof(struct plugins_command, member)
static const struct option_row options[] = {
    {OPTION_FLAG, 0, "json", NULL, "print JSON", .offset = AT(as_json)},
    {OPTION_TABLE, .table = origin_options, .help = ORIGIN_HEADLINE, .offset = AT(origin)},
    {.type = OPTION_END},
};
#undef AT

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
        startup_leave_out(config, plugins, &findings);
        startup_check(config, plugins, &findings);
    }
    struct printer out = printer_begin(as_json, (struct wall_time){0}, &(struct buffer){0});
    if (plugins != NULL)
        plugins_put(plugins, config, &out);
    findings_put(&findings, &out);
    printer_end(&out);
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
        size_t shown = plugin_symbols_shown(plugin->file, &names);
        if (shown > 0)
            findings_warn(findings,
                          "%s: shows %zu names besides holdfast_plugin (%s), which may be taken for those of another "
                          "library; build it with -fvisibility=hidden",
                          plugin->path, shown, buffer_text(&names));
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
    if (access(file, F_OK) != 0) {
        findings_error(&checked->findings, "%s: %s", file, strerror(errno));
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

static int check(char *const *files, int count, bool as_json)
{
    struct printer out = printer_begin(as_json, (struct wall_time){0}, &(struct buffer){0});
    int code = EXIT_CODE_OK;
    if (as_json)
        json_open(&out.json, "files", '[');
    for (int i = 0; i < count; i++) {
        struct checked checked = {.file = files[i]};
        file_check(&checked, files[i]);
        bool is_good = checked.findings.errors == 0;
        printer_row(&out);
        printer_text(&out, NULL, "file", checked.file);
        printer_truth(&out, "ok", is_good);
        if (checked.plugins != NULL)
            plugins_put(checked.plugins, NULL, &out);
        findings_put(&checked.findings, &out);
        if (is_good)
            printer_line(&out, "%s: would be loaded", checked.file);
        else
            code = EXIT_CODE_FAILURE;
        printer_row_end(&out);
        plugins_close(checked.plugins);
        findings_fini(&checked.findings);
    }
    if (as_json)
        json_close(&out.json, ']');
    printer_end(&out);
    return code;
}

/* --- the command ------------------------------------------------------------------------------------------------ */

static int run(int argc, char **argv)
{
    struct plugins_command command = {0};
    struct command_line line;
    if (!command_line_read(&line, &command_plugins, argc, argv, &command))
        return line.exit_code;
    bool checks = line.argument_count > 0 && strcmp(line.arguments[0], "check") == 0;
    bool has_origin = command.origin.path != NULL || command.origin.is_local;
    if (line.argument_count > 0 && !checks && strcmp(line.arguments[0], "list") != 0)
        return command_misused(&command_plugins, "there is no 'plugins %s': it is list or check", line.arguments[0]);
    if (checks && (line.argument_count == 1 || has_origin))
        return command_misused(&command_plugins, has_origin ? "check wants no configuration" : "name a file to check");
    if (!checks && line.argument_count > 1)
        return command_misused(&command_plugins, "list takes no name");
    log_set_level(LOG_ERROR);
    if (checks)
        return check(line.arguments + 1, line.argument_count - 1, command.as_json);
    int code = origin_find(&command.origin, &command_plugins, ORIGIN_NEEDS_LOCKS);
    if (code == EXIT_CODE_OK)
        code = list(origin_path(&command.origin), command.as_json);
    if (code == EXIT_CODE_FAILURE)
        origin_tell(&command.origin, &command_plugins);
    origin_close(&command.origin);
    return code;
}

const struct command command_plugins = {
    .name = "plugins",
    .summary = "list what runs tasks, or check files of plugins",
    .arguments = "[list | check FILE...]",
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
    .examples = "  holdfast plugins\n"
                "  holdfast plugins check ./hello.so\n",
    .options = options,
    .arguments_max = FILES_MAX + 1,
    .run = run,
};
