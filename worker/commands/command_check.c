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
#include "worker/commands/fleet.h"
#include "worker/commands/nodes.h"
#include "worker/commands/origin.h"
#include "worker/config/config.h"
#include "worker/config/config_print.h"
#include "worker/nodes/node_probe.h"
#include "worker/plugin/plugin.h"
#include "worker/plugin/plugin_programs.h"
#include "worker/presence/announced_terms.h"
#include "worker/print/human.h"
#include "worker/print/printer.h"
#include "worker/startup_check.h"
#include "worker/task/task_rules.h"

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
        if (probe->node->sentinels.count > 0 && probe->facts.run_id[0] != '\0')
            node_facts_judge_failover(&probe->facts, name, &check->findings);
    }
    buffer_fini(&address);
}

/* The addresses may differ and still lead to one server. Lock nodes among themselves are judged as a group. With one
 * lock node, one server for everything may well be intended. */
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

/* A worker that waits for others is as it should be while a fleet changes. */
static void terms_note(void *context, const struct terms_difference *difference)
{
    struct check *check = context;
    findings_warn(&check->findings, "%s", difference->sentence);
}

/* With the processes that live. `group`: as in announced_terms_write. */
static void check_terms(struct check *check, const char *group)
{
    struct console console = {.command = &command_check, .config = check->config, .is_silent = true};
    struct buffer text = {0}, waits = {0};
    struct fleet fleet;
    struct terms_item item;
    announced_terms_write(check->config, check->plugins, group, &text);
    for (const char *at = buffer_text(&text); terms_next(&at, &item);)
        buffer_format(&waits, "%.*s\n", (int)item.name.length, item.name.bytes);
    struct terms_party own = {"a worker with this configuration", buffer_text(&text), buffer_text(&waits)};
    queue_keys_init(&console.keys, "", "");
    if (console_connect(&console, false) == EXIT_CODE_OK) {
        if (fleet_read(&fleet, &console) == EXIT_CODE_OK)
            fleet_compare_terms(&fleet, &own, terms_note, check);
        fleet_free(&fleet);
    }
    node_client_close(console.client);
    buffer_fini(&console.key);
    queue_keys_fini(&console.keys);
    buffer_fini(&text);
    buffer_fini(&waits);
}

static void check_group(struct check *check)
{
    struct nodes_session session;
    char id[REDLOCK_GROUP_ID_DIGITS + 1] = "";
    bool is_known = false;
    for (size_t i = 0; i < check->config->lock_node_count; i++)
        if (check->config->lock_nodes[i].source.is_broken)
            return;
    if (nodes_session_open(&session, check->config, NULL)) {
        redlock_nodes_look(session.nodes);
        nodes_judge(session.nodes, &check->findings);
        struct redlock_group_view group = redlock_nodes_group(session.nodes);
        check_ttl(check, &group);
        is_known = group.has_group || (group.nodes == 1 && group.reached == 1);
        memcpy(id, group.has_group ? group.group : group.node_id, sizeof id);
    }
    nodes_session_close(&session);
    if (check->probes[0].state == PROBE_ANSWERED && check->findings.errors == 0)
        check_terms(check, is_known ? id : NULL);
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

/* --- printing ----------------------------------------------------------------------------------------------- */

static const char *isolation_of(const struct check *check, const struct plugin_handler *handler)
{
    return isolation_name(class_isolation_of(config_class_find(check->config, handler->class_name), handler));
}

static void print_plugins(const struct plugins *plugins, const struct check *check)
{
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        const struct plugin *plugin = plugins_at(plugins, i);
        printf("plugin  %s %s:", plugin->descriptor.name, plugin->descriptor.version);
        for (size_t j = 0; j < plugins_handler_count(plugins); j++) {
            const struct plugin_handler *handler = plugins_handler_at(plugins, j);
            if (handler->plugin == plugin)
                printf(" %s (%s)", handler->class_name, isolation_of(check, handler));
        }
        putchar('\n');
    }
    for (size_t i = 0; i < plugins_handler_count(plugins); i++) {
        const struct plugin_handler *handler = plugins_handler_at(plugins, i);
        if (handler->program != NULL)
            printf("program %s: %s\n", handler->program[0], handler->class_name);
    }
}

static void json_classes(struct json_writer *json, const struct plugins *plugins, const struct check *check)
{
    json_open(json, "classes", '[');
    for (size_t i = 0; plugins != NULL && i < plugins_handler_count(plugins); i++) {
        const struct plugin_handler *handler = plugins_handler_at(plugins, i);
        json_open(json, NULL, '{');
        json_text(json, "class", handler->class_name);
        if (handler->plugin != NULL) {
            json_text(json, "plugin", handler->plugin->descriptor.name);
            json_text(json, "file", handler->plugin->path);
        } else {
            json_text(json, "program", handler->program[0]);
        }
        json_text(json, "isolation", isolation_of(check, handler));
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void probe_put(const struct node_probe *probe, struct printer *out)
{
    static const char *const states[] = {[PROBE_SKIPPED] = "skipped",
                                         [PROBE_UNREACHABLE] = "unreachable",
                                         [PROBE_REFUSED] = "refused",
                                         [PROBE_ANSWERED] = "answered"};
    struct buffer address = {0}, said = {0};
    bool is_answered = probe->state == PROBE_ANSWERED, has_facts = is_answered && probe->facts.run_id[0] != '\0';
    bool is_found = is_answered && probe->node->sentinels.count > 0;
    if (is_found)
        buffer_format(&said, "is %s: ", probe->address);
    if (has_facts)
        buffer_format(&said, "%s %s, %s, ", probe->facts.server, probe->facts.version, probe->facts.role);
    if (is_answered)
        buffer_format(&said, "answers in %.1f ms", (double)probe->answer_ns / (double)NS_PER_MS);
    printer_line(out, "node    %-8s %-22s %s", probe->node->name, config_node_address(probe->node, &address),
                 is_answered ? buffer_text(&said) : states[probe->state]);
    printer_row(out);
    printer_text(out, NULL, "name", probe->node->name);
    printer_text(out, NULL, "address", buffer_text(&address));
    printer_text(out, NULL, "use", probe->use == NODE_FOR_LOCKS ? "locks" : "queues");
    printer_text(out, NULL, "state", states[probe->state]);
    if (is_found)
        printer_text(out, NULL, "found", probe->address);
    if (has_facts) {
        printer_text(out, NULL, "server", probe->facts.server);
        printer_text(out, NULL, "version", probe->facts.version);
        printer_text(out, NULL, "role", probe->facts.role);
        printer_text(out, NULL, "run_id", probe->facts.run_id);
    }
    if (is_answered)
        printer_number(out, NULL, "answer_us", probe->answer_ns / NS_PER_US);
    printer_row_end(out);
    buffer_fini(&address);
    buffer_fini(&said);
}

static void check_print(const struct check *check)
{
    const struct findings *findings = &check->findings;
    struct printer out = printer_begin(check->as_json, (struct wall_time){0}, &(struct buffer){0});
    printer_text(&out, NULL, "file", check->path);
    printer_truth(&out, "ok", findings->errors == 0);
    if (out.is_json) {
        findings_put(findings, &out);
        json_classes(&out.json, check->plugins, check);
    } else if (check->plugins != NULL) {
        print_plugins(check->plugins, check);
    }
    printer_list(&out, "nodes");
    for (size_t i = 0; i < check->probe_count; i++)
        probe_put(&check->probes[i], &out);
    printer_list_end(&out, NULL);
    if (!out.is_json)
        findings_put(findings, &out);
    if (findings->count == 0)
        printer_line(&out, "%s: all is well", check->path);
    else if (!out.is_json)
        fprintf(stderr, "%s: %zu error%s, %zu warning%s\n", check->path[0] != '\0' ? check->path : "\"\"",
                findings->errors, human_plural((int64_t)findings->errors), findings->warnings,
                human_plural((int64_t)findings->warnings));
    printer_end(&out);
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
    if (check->as_config)
        print_config(check);
    else
        check_print(check);
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
        "errors and warnings are reported, not only the first. Nothing else is changed anywhere. A worker whose terms\n"
        "would break exclusion beside those of a living one (another lock group or prefix, or a class that locks\n"
        "something else) would wait for it to end: that is a warning.\n"
        "\n"
        "Exits with 0 when there is no error (warnings do not count), with 1 when something has to be mended, and\n"
        "with 75 when the only errors are nodes that cannot be reached.\n",
    .examples = "  holdfast check\n"
                "  holdfast check --no-nodes --json\n",
    .options = options,
    .run = run,
};
