#include "worker/dry_run/run/dry_run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/random.h"
#include "redlock/redlock_nodes.h"
#include "worker/config/node_options.h"
#include "worker/dry_run/nodes/cleanup.h"
#include "worker/dry_run/nodes/faults.h"
#include "worker/dry_run/nodes/private_nodes.h"
#include "worker/dry_run/report/result_json.h"
#include "worker/dry_run/run/apart.h"
#include "worker/dry_run/run/dry_config.h"
#include "worker/dry_run/run/shadow_holds.h"
#include "worker/plugin/plugin.h"
#include "worker/plugin/plugin_programs.h"
#include "worker/print/exit_code.h"
#include "worker/servers/private_server.h"
#include "worker/startup_check.h"

/* --- what is configured ------------------------------------------------------------------------------------------- */

static bool is_well(const struct dry_run *run)
{
    return run->findings->errors == 0;
}

/* Whether its tasks are of classes of production: those of the generator need no plugin. */
static bool plays_classes(const struct dry_run_plan *plan)
{
    return plan->kind == DRY_RUN_SHADOW || strcmp(plan->class_name, DRY_RUN_CLASS) != 0;
}

static void config_open(struct dry_run *run)
{
    const char *path = run->request->config_path;
    struct findings again = {0};
    run->config = path != NULL ? config_read(path, run->findings) : dry_config_built_in(run->findings);
    if (run->config == NULL || !is_well(run))
        return;
    run->live = path != NULL ? config_read(path, &again) : dry_config_built_in(&again);
    findings_fini(&again); /* the same */
    if (run->live == NULL) {
        findings_error(run->findings, "%s was changed while it was read", path != NULL ? path : "the configuration");
        return;
    }
    plan_check(run->plan, path != NULL ? run->config : NULL, run->findings);
    if (run->plan->is_local && is_well(run)) {
        /* Before private nodes are there, the rest of the configuration is checked as if it named them. */
        struct dry_config_nodes nodes = {.host = "127.0.0.1", .queue_port = 1, .lock_count = run->plan->local_nodes};
        for (unsigned i = 0; i < nodes.lock_count; i++)
            nodes.lock_ports[i] = i + 2;
        dry_config_use_nodes(run->config, &nodes);
    }
    if (path == NULL || !is_well(run) || !plays_classes(run->plan))
        return;
    const struct config_worker *worker = &run->config->worker;
    run->plugins = plugins_load_vetted(worker->jobs_directory, worker->jobs.items, worker->jobs.count, run->findings);
    plugins_add_programs(run->plugins, NULL, run->config, run->findings);
    startup_leave_out(run->config, run->plugins, run->findings);
    startup_check(run->config, run->plugins, run->findings);
}

/* What the lock nodes say of themselves, in a process apart: asking takes a loop. */
struct group_facts {
    long long max_ttl_ns;
    unsigned voters;
};

static int group_ask(void *context, int descriptor)
{
    const struct config *config = context;
    struct redlock_node lock_nodes[REDLOCK_NODES_MAX];
    struct redlock_options options = lock_setup_options(config, "dry-run", lock_nodes);
    struct group_facts facts = {0};
    char reason[256];
    struct redlock_nodes *nodes = redlock_nodes_open(&options, reason, sizeof reason);
    if (nodes == NULL)
        return EXIT_CODE_FAILURE;
    (void)redlock_nodes_look(nodes); /* what it saw is all that is wanted */
    struct redlock_group_view group = redlock_nodes_group(nodes);
    facts.max_ttl_ns = ns_from_ms(group.max_ttl_ms);
    facts.voters = group.reached < group.quorum ? group.reached : group.voters; /* too few to know which may vote */
    redlock_nodes_close(nodes);
    return write(descriptor, &facts, sizeof facts) == sizeof facts ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

static void group_check(struct dry_run *run)
{
    struct buffer output = {0};
    struct group_facts facts;
    unsigned count = (unsigned)run->config->lock_node_count;
    if (run->plan->is_local || count == 0)
        return;
    if (apart_do(group_ask, run->config, &output) == EXIT_CODE_OK && output.length == sizeof facts) {
        memcpy(&facts, output.bytes, sizeof facts);
        run->is_unreachable = facts.voters <= count / 2;
        plan_check_group(run->plan, run->config, facts.max_ttl_ns, facts.voters, count, run->findings);
        if (run->plugins != NULL)
            startup_check_holds(run->config, run->plugins, facts.max_ttl_ns, run->findings);
    }
    buffer_fini(&output);
}

/* The trial cleans up; when it is killed, this process does. Started before there is anything. */
static void cleanup_call(struct dry_run *run)
{
    struct error error = ERROR_NONE;
    if (run->plan->is_local)
        run->directory = temporary_directory_path(run->plan->id);
    run->cleanup = cleanup_start(&(struct cleanup_options){.run = plan_run(run->plan),
                                                           .host = run->plan->id,
                                                           .hosts = run->plan->hosts,
                                                           .config = run->plan->is_local ? NULL : run->live,
                                                           .directory = run->directory},
                                 &error);
    if (run->cleanup == 0)
        findings_error(run->findings, "%s", error.text);
}

static void nodes_start(struct dry_run *run)
{
    struct error error = ERROR_NONE;
    struct private_nodes_options wishes = {.lock_nodes = run->plan->local_nodes, .directory = run->directory};
    if (!run->plan->is_local)
        return;
    faults_prepare(run->plan, &wishes);
    run->nodes = private_nodes_start(&wishes, &error);
    if (run->nodes == NULL) {
        findings_error(run->findings, "%s", error.text);
        return;
    }
    struct dry_config_nodes nodes = {.host = PRIVATE_NODES_HOST,
                                     .password = run->nodes->password,
                                     .queue_port = private_nodes_port(run->nodes, PRIVATE_QUEUE_NODE),
                                     .lock_count = run->nodes->count - 1};
    for (unsigned i = 0; i < nodes.lock_count; i++)
        nodes.lock_ports[i] = private_nodes_port(run->nodes, i + 1);
    dry_config_use_nodes(run->config, &nodes);
    dry_config_use_nodes(run->live, &nodes);
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static void workers_start(struct dry_run *run)
{
    struct error error = ERROR_NONE;
    dry_config_key_space(run->plan, run->key_space);
    snprintf(run->host, sizeof run->host, "%s", run->config->worker.host);
    if (!dry_config_convert(run->config, run->plan, &error)) {
        findings_error(run->findings, "%s", error.text);
        return;
    }
    run->workforce = workforce_start(&(struct workforce_options){.plan = run->plan,
                                                                 .config = run->config,
                                                                 .plugins = run->plugins,
                                                                 .classes = run->holds.classes,
                                                                 .class_count = run->holds.count,
                                                                 .key_space = run->key_space},
                                     &error);
    if (run->workforce == NULL)
        findings_error(run->findings, "the workers could not be started: %s", error.text);
}

static bool prepare(struct dry_run *run)
{
    config_open(run);
    if (run->config != NULL && is_well(run))
        group_check(run);
    if (run->config != NULL && is_well(run))
        cleanup_call(run);
    if (run->config != NULL && is_well(run))
        nodes_start(run);
    if (run->config != NULL && is_well(run) && run->plan->kind == DRY_RUN_SHADOW)
        shadow_holds_read(&run->holds, run->live, run->plugins, run->findings);
    if (run->config != NULL && is_well(run))
        workers_start(run);
    return run->config != NULL && is_well(run);
}

static void run_end(struct dry_run *run)
{
    workforce_end(run->workforce);
    shadow_holds_fini(&run->holds);
    private_nodes_end(run->nodes);
    if (!run->leaves_names || run->nodes != NULL)
        cleanup_dismiss(run->cleanup);
    free(run->directory);
    plugins_close(run->plugins);
    config_free(run->config);
    config_free(run->live);
}

/* Ends the run, which has come to something or not. */
static enum exit_code run_end_as(struct dry_run *run, bool ran)
{
    run_end(run);
    return ran ? EXIT_CODE_OK : run->is_unreachable ? EXIT_CODE_TEMPORARY : EXIT_CODE_FAILURE;
}

enum exit_code dry_run_perform(const struct dry_run_request *request, struct result *result, struct findings *findings)
{
    struct dry_run run = {.request = request, .plan = request->plan, .findings = findings};
    struct error error = ERROR_NONE;
    interrupts_hold();
    bool ran = prepare(&run);
    if (ran) {
        ran = trial_run(&run, result, &error);
        if (!ran)
            findings_error(findings, "%s", error.text);
    }
    return run_end_as(&run, ran);
}

/* --- a what-if ---------------------------------------------------------------------------------------------------- */

/* One point, in a process of its own, because each run forks its workers. */
static int point_run(void *context, int descriptor)
{
    const struct dry_run_request *request = context;
    struct findings findings = {0};
    struct result result = {0};
    struct buffer json = {0};
    enum exit_code code = dry_run_perform(request, &result, &findings);
    if (code != EXIT_CODE_OK) {
        for (size_t i = 0; i < findings.count; i++)
            if (!findings.items[i].is_warning)
                dprintf(descriptor, "%s\n", findings.items[i].text);
        return (int)code;
    }
    result_json_write(&result, &json);
    FILE *out = fdopen(descriptor, "w");
    bool is_written = out != NULL && fwrite(json.bytes, 1, json.length, out) == json.length && fflush(out) == 0;
    return is_written ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

static enum exit_code point_perform(const struct dry_run_request *request, const struct dry_run_plan *point,
                                    struct result *result, struct findings *findings)
{
    struct dry_run_request asked = *request;
    struct buffer output = {0};
    struct error error = ERROR_NONE;
    asked.plan = point;
    if (request->says != NULL)
        fprintf(request->says, "with %u threads a process:\n", point->threads);
    int status = apart_do_interruptible(point_run, &asked, &output);
    bool ran = status == EXIT_CODE_OK && result_read(output.bytes, output.length, result, &error);
    if (!ran)
        findings_error(findings, "with %u threads: %s", point->threads,
                       error.text[0] != '\0' ? error.text
                       : output.length > 0   ? buffer_text(&output)
                                             : "it was ended by a signal");
    buffer_fini(&output);
    return ran ? EXIT_CODE_OK : status == EXIT_CODE_TEMPORARY ? EXIT_CODE_TEMPORARY : EXIT_CODE_FAILURE;
}

static struct result_point point_of(const struct result *result)
{
    return (struct result_point){.threads = result->plan.threads,
                                 .processes = result->plan.processes,
                                 .throughput = result->throughput,
                                 .wait_mean = result->wait.mean,
                                 .wait_p99 = result->wait.p99,
                                 .share_busy = result->utilisation,
                                 .expected = result->expected};
}

static unsigned distance(unsigned a, unsigned b)
{
    return a > b ? a - b : b - a;
}

enum exit_code dry_run_explore(const struct dry_run_request *request, struct result *result, struct findings *findings)
{
    const struct dry_run_plan *plan = request->plan;
    struct result_point points[DRY_RUN_POINTS_MAX];
    unsigned count = 0;
    bool is_interrupted = false;
    enum exit_code code = EXIT_CODE_FAILURE;
    interrupts_hold(); /* one that comes between two points is for the next one */
    for (unsigned i = 0; i < plan->point_count && !is_interrupted; i++) {
        struct dry_run_plan point;
        struct result found = {0};
        plan_at_point(&point, plan, plan->points[i]);
        random_digits(point.id, DRY_RUN_ID_BYTES);
        code = point_perform(request, &point, &found, findings);
        plan_fini(&point);
        if (code != EXIT_CODE_OK)
            break;
        points[count++] = point_of(&found);
        is_interrupted = found.was_interrupted;
        if (count > 1 && distance(found.plan.threads, plan->threads) >= distance(result->plan.threads, plan->threads)) {
            result_fini(&found);
            continue;
        }
        if (count > 1)
            result_fini(result);
        *result = found;
    }
    if (count == 0)
        return code;
    memcpy(result->points, points, count * sizeof points[0]);
    result->point_count = count;
    memcpy(result->plan.points, plan->points, sizeof plan->points);
    result->plan.point_count = plan->point_count;
    return EXIT_CODE_OK;
}
