/* holdfast check: everything that would keep a worker from running well, found without running one.
 *
 * The steps do not stop at the first error: plugins and nodes are looked at also when the configuration has mistakes,
 * as far as it could be understood. open() of the plugins is not called: it may create files. */
#include "worker/commands/command.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/commands/nodes.h"
#include "worker/commands/origin.h"
#include "worker/config/config.h"
#include "worker/config/config_print.h"
#include "worker/nodes/node_probe.h"
#include "worker/plugin/plugin.h"
#include "worker/plugin/plugin_programs.h"
#include "worker/print/json_writer.h"
#include "worker/task/task_rules.h"
#include "worker/startup_check.h"

struct check {
    struct origin origin;
    const char *path;
    bool as_json, as_config, without_nodes;
    struct findings findings;
    struct config *config;   /* NULL when it cannot be read */
    struct plugins *plugins; /* NULL without a configuration */
    struct node_probe *probes;
    size_t probe_count;
    size_t unreachable;
};

#define AT(member) offsetof(struct check, member)
static const struct option_row options[] = {
    {OPTION_FLAG, 0, "json", NULL, "print the result as one JSON object", .offset = AT(as_json)},
    {OPTION_FLAG, 0, "print-config", NULL, "print the effective configuration, without secrets",
     .offset = AT(as_config)},
    {OPTION_FLAG, 0, "no-nodes", NULL, "do not connect to the nodes", .offset = AT(without_nodes)},
    {OPTION_TABLE, .table = origin_options, .help = ORIGIN_HEADLINE, .offset = AT(origin)},
    {.type = OPTION_END},
};
#undef AT

/* --- checking ----------------------------------------------------------------------------------------------- */

static void check_probe(struct check *check, const struct node_probe *probe)
{
    struct buffer address = {0};
    const char *name = probe->node->name;
    config_node_address(probe->node, &address);
    if (probe->state == PROBE_UNREACHABLE) {
        check->unreachable++;
        findings_error(&check->findings, "%s: %s cannot be reached: %s (%s)", name, buffer_text(&address),
                       probe->reason, probe->node->source.where);
    } else if (probe->state == PROBE_REFUSED) {
        findings_error(&check->findings, "%s: %s is there, but: %s (%s)", name, buffer_text(&address), probe->reason,
                       probe->node->source.where);
    } else if (probe->state == PROBE_ANSWERED) {
        node_facts_judge(&probe->facts, name, probe->use, &check->findings);
        if (probe->refusal[0] != '\0')
            findings_error(&check->findings, "%s: %s refuses a lock below lock.prefix \"%s\": %s", name,
                           buffer_text(&address), probe->lock_prefix, probe->refusal);
        if (probe->node->sentinels.count > 0)
            node_facts_judge_failover(&probe->facts, name, &check->findings);
    }
    buffer_fini(&address);
}

/* The addresses may differ and still lead to one server. Lock nodes among themselves are judged as a group. Somebody
 * who has one lock node may well mean one server for everything. */
static void check_distinct(struct check *check, const struct node_probe *probe, const struct node_probe *other)
{
    if (probe->state != PROBE_ANSWERED || other->state != PROBE_ANSWERED ||
        strcmp(probe->facts.run_id, other->facts.run_id) != 0)
        return;
    if (probe->use != other->use && check->config->lock_node_count > 1)
        findings_warn(&check->findings, "%s: is the same server as %s: long work on the queues delays locks",
                      probe->node->name, other->node->name);
}

/* No lock could be had then: the group's quarantines are too short for it. */
static void check_ttl(struct check *check, const struct redlock_group_view *group)
{
    const struct config *config = check->config;
    if (group->has_group && config->lock.ttl_ns > ns_from_ms(group->max_ttl_ms))
        findings_error(&check->findings, "%s: lock.ttl: is above the max_ttl of the lock group, which is %lld ms",
                       config->lock.source.where != NULL ? config->lock.source.where : config->path,
                       (long long)group->max_ttl_ms);
    if (group->has_group)
        startup_check_holds(config, check->plugins, ns_from_ms(group->max_ttl_ms), &check->findings);
}

static void check_group(struct check *check)
{
    struct nodes_session session;
    for (size_t i = 0; i < check->config->lock_node_count; i++)
        if (check->config->lock_nodes[i].source.is_broken)
            return;
    if (nodes_session_open(&session, check->config, NULL)) {
        redlock_nodes_look(session.nodes);
        nodes_judge(session.nodes, &check->findings);
        struct redlock_group_view group = redlock_nodes_group(session.nodes);
        check_ttl(check, &group);
    }
    nodes_session_close(&session);
}

static void check_nodes(struct check *check)
{
    struct error error = ERROR_NONE;
    check->probe_count = check->config->lock_node_count + 1;
    check->probes = memory_zeroed(check->probe_count, sizeof *check->probes);
    check->probes[0] = (struct node_probe){.node = &check->config->queue_node, .use = NODE_FOR_QUEUES};
    for (size_t i = 1; i < check->probe_count; i++)
        check->probes[i] = (struct node_probe){.node = &check->config->lock_nodes[i - 1],
                                               .use = NODE_FOR_LOCKS,
                                               .lock_prefix = check->config->lock.prefix};
    if (!node_probe_all(check->probes, check->probe_count, &error)) {
        findings_error(&check->findings, "%s", error.text);
        return;
    }
    for (size_t i = 0; i < check->probe_count; i++) {
        check_probe(check, &check->probes[i]);
        for (size_t j = 0; j < i; j++)
            check_distinct(check, &check->probes[i], &check->probes[j]);
    }
    check_group(check);
}

static void check_all(struct check *check)
{
    check->config = config_read(check->path, &check->findings);
    if (check->config == NULL)
        return;
    const struct config_worker *worker = &check->config->worker;
    check->plugins =
        plugins_load_vetted(worker->jobs_directory, worker->jobs.items, worker->jobs.count, &check->findings);
    plugins_add_programs(check->plugins, NULL, check->config, &check->findings);
    startup_leave_out(check->config, check->plugins, &check->findings);
    startup_check(check->config, check->plugins, &check->findings);
    startup_check_log(check->config, &check->findings);
    startup_check_periodic(check->config, check->plugins, &check->findings);
    if (!check->without_nodes)
        check_nodes(check);
}

static int check_exit_code(const struct check *check)
{
    if (check->findings.errors == 0)
        return EXIT_CODE_OK;
    return check->findings.errors == check->unreachable ? EXIT_CODE_TEMPORARY : EXIT_CODE_FAILURE;
}

/* --- for people --------------------------------------------------------------------------------------------- */

static void print_plugins(const struct check *check)
{
    const struct plugins *plugins = check->plugins;
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        const struct plugin *plugin = plugins_at(plugins, i);
        printf("plugin  %s %s:", plugin->descriptor.name, plugin->descriptor.version);
        for (size_t j = 0; j < plugins_handler_count(plugins); j++)
            if (plugins_handler_at(plugins, j)->plugin == plugin) {
                const struct plugin_handler *handler = plugins_handler_at(plugins, j);
                const struct config_class *entry = config_class_find(check->config, handler->class_name);
                printf(" %s (%s)", handler->class_name, isolation_name(class_isolation_of(entry, handler)));
            }
        putchar('\n');
    }
    for (size_t i = 0; i < plugins_handler_count(plugins); i++) {
        const struct plugin_handler *handler = plugins_handler_at(plugins, i);
        if (handler->program != NULL)
            printf("program %s: %s\n", handler->program[0], handler->class_name);
    }
}

static const char *probe_state_name(enum probe_state state)
{
    static const char *const names[] = {[PROBE_SKIPPED] = "skipped",
                                        [PROBE_UNREACHABLE] = "unreachable",
                                        [PROBE_REFUSED] = "refused",
                                        [PROBE_ANSWERED] = "answered"};
    return names[state];
}

static void print_probe(const struct node_probe *probe)
{
    struct buffer address = {0};
    printf("node    %-8s %-22s ", probe->node->name, config_node_address(probe->node, &address));
    if (probe->state == PROBE_ANSWERED && probe->node->sentinels.count > 0)
        printf("is %s: ", probe->address);
    if (probe->state == PROBE_ANSWERED)
        printf("%s %s, %s, answers in %.1f ms\n", probe->facts.server, probe->facts.version, probe->facts.role,
               (double)probe->answer_ns / (double)NS_PER_MS);
    else
        printf("%s\n", probe_state_name(probe->state));
    buffer_fini(&address);
}

static void print_for_people(const struct check *check)
{
    if (check->plugins != NULL)
        print_plugins(check);
    for (size_t i = 0; i < check->probe_count; i++)
        print_probe(&check->probes[i]);
    fflush(stdout);
    findings_print(&check->findings, stderr);
    if (check->findings.errors + check->findings.warnings == 0)
        printf("%s: all is well\n", check->path);
    else
        fprintf(stderr, "%s: %zu error%s, %zu warning%s\n", check->path, check->findings.errors,
                check->findings.errors == 1 ? "" : "s", check->findings.warnings,
                check->findings.warnings == 1 ? "" : "s");
}

/* --- for programs ------------------------------------------------------------------------------------------- */

static void json_findings(struct json_writer *json, const struct findings *findings, bool warnings)
{
    json_open(json, warnings ? "warnings" : "errors", '[');
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].is_warning == warnings)
            json_text(json, NULL, findings->items[i].text);
    json_close(json, ']');
}

static void json_class(struct json_writer *json, const struct check *check, const struct plugin_handler *handler)
{
    const struct config_class *entry = config_class_find(check->config, handler->class_name);
    json_open(json, NULL, '{');
    json_text(json, "class", handler->class_name);
    if (handler->plugin != NULL) {
        json_text(json, "plugin", handler->plugin->descriptor.name);
        json_text(json, "file", handler->plugin->path);
    } else {
        json_text(json, "program", handler->program[0]);
    }
    json_text(json, "isolation", isolation_name(class_isolation_of(entry, handler)));
    json_close(json, '}');
}

static void json_probe(struct json_writer *json, const struct node_probe *probe)
{
    struct buffer address = {0};
    json_open(json, NULL, '{');
    json_text(json, "name", probe->node->name);
    json_text(json, "address", config_node_address(probe->node, &address));
    json_text(json, "use", probe->use == NODE_FOR_LOCKS ? "locks" : "queues");
    json_text(json, "state", probe_state_name(probe->state));
    if (probe->state == PROBE_ANSWERED) {
        if (probe->node->sentinels.count > 0)
            json_text(json, "found", probe->address);
        json_text(json, "server", probe->facts.server);
        json_text(json, "version", probe->facts.version);
        json_text(json, "role", probe->facts.role);
        json_text(json, "run_id", probe->facts.run_id);
        json_number(json, "answer_us", probe->answer_ns / NS_PER_US);
    }
    json_close(json, '}');
    buffer_fini(&address);
}

static void print_json(const struct check *check)
{
    struct json_writer json = json_begin(&(struct buffer){0});
    size_t classes = check->plugins != NULL ? plugins_handler_count(check->plugins) : 0;
    json_text(&json, "file", check->path);
    json_truth(&json, "ok", check->findings.errors == 0);
    json_findings(&json, &check->findings, false);
    json_findings(&json, &check->findings, true);
    json_open(&json, "classes", '[');
    for (size_t i = 0; i < classes; i++)
        json_class(&json, check, plugins_handler_at(check->plugins, i));
    json_close(&json, ']');
    json_open(&json, "nodes", '[');
    for (size_t i = 0; i < check->probe_count; i++)
        json_probe(&json, &check->probes[i]);
    json_close(&json, ']');
    json_finish(&json);
}

/* --- the command -------------------------------------------------------------------------------------------- */

static void print_config(const struct check *check)
{
    struct buffer out = {0};
    if (check->config != NULL)
        config_print(check->config, &out);
    fwrite(out.bytes, 1, out.length, stdout);
    buffer_fini(&out);
    findings_print(&check->findings, stderr);
}

static int check_run(struct check *check)
{
    log_set_level(LOG_ERROR); /* what connections log is among the findings */
    check->path = origin_path(&check->origin);
    check_all(check);
    if (check->as_json)
        print_json(check);
    else if (check->as_config)
        print_config(check);
    else
        print_for_people(check);
    int exit_code = check_exit_code(check);
    if (exit_code != EXIT_CODE_OK)
        origin_tell(&check->origin, &command_check);
    free(check->probes);
    plugins_close(check->plugins);
    config_free(check->config);
    findings_fini(&check->findings);
    return exit_code;
}

static int run(int argc, char **argv)
{
    struct check check = {0};
    struct command_line line;
    if (!command_line_read(&line, &command_check, argc, argv, &check))
        return line.exit_code;
    if (check.as_json && check.as_config)
        return command_misused(&command_check, "give either --json or --print-config");
    int code = origin_find(&check.origin, &command_check, ORIGIN_NEEDS_LOCKS);
    if (code == EXIT_CODE_OK)
        code = check_run(&check);
    origin_close(&check.origin);
    return code;
}

const struct command command_check = {
    .name = "check",
    .summary = "check a configuration, its plugins and its nodes",
    .about =
        "Reads the configuration, loads the plugins and asks every node who it is, all nodes at the same time. Each\n"
        "lock node is also asked for a lock with a random name below lock.prefix, which is given back at once. All\n"
        "errors and warnings are reported, not only the first. Nothing else is changed anywhere.\n"
        "\n"
        "Exits with 0 when there is no error (warnings do not count), with 1 when something has to be mended, and\n"
        "with 75 when the only errors are nodes that cannot be reached.\n",
    .examples = "  holdfast check\n"
                "  holdfast check --no-nodes --json\n",
    .options = options,
    .run = run,
};
