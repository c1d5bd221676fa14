/* For tests of the workers of a dry run: the plan's configuration on nodes of the test. Its state is in the header,
 * because a test program is one file. */
#ifndef SUPPORT_DRY_CONFIG_FIXTURE_H
#define SUPPORT_DRY_CONFIG_FIXTURE_H

#include "tests/support/test.h"

#include "tests/support/lock_cluster.h"
#include "worker/dry_run/plan/load_generator.h"
#include "worker/dry_run/run/dry_config.h"
#include "worker/dry_run/run/workforce.h"

static struct redis_server *queue_node;
static struct lock_cluster locks;
static struct dry_run_plan plan;
static struct config *config;
static char space[DRY_CONFIG_SPACE_MAX];
static struct load *load;
static struct workforce *workforce;

static inline void dry_nodes_start(unsigned lock_nodes)
{
    queue_node = redis_server_start(NULL);
    lock_cluster_start(&locks, lock_nodes);
}

static inline void dry_nodes_stop(void)
{
    lock_cluster_stop(&locks);
    redis_server_destroy(queue_node);
}

/* A rehearsal with a closed load. */
static inline void plan_begin(unsigned processes, unsigned threads, unsigned resources, struct distribution hold)
{
    plan_init(&plan);
    memcpy(plan.id, "00112233aabb", sizeof plan.id);
    plan.is_local = true;
    plan.seed = 7;
    plan.processes = processes;
    plan.threads = threads;
    plan.arrivals = DRY_RUN_CLOSED;
    plan.popularity = (struct popularity){.kind = POPULARITY_UNIFORM, .count = resources};
    popularity_prepare(&plan.popularity);
    plan.hold = hold;
    load = load_create(&plan);
}

/* With what was made of it. */
static inline void plan_end(void)
{
    workforce_end(workforce);
    workforce = NULL;
    load_destroy(load);
    config_free(config);
    config = NULL;
    plan_fini(&plan);
}

static inline void config_make(void)
{
    struct findings findings = {0};
    struct error error = ERROR_NONE;
    struct dry_config_nodes nodes = {
        .host = "127.0.0.1", .queue_port = redis_server_port(queue_node), .lock_count = locks.count};
    for (unsigned i = 0; i < locks.count; i++)
        nodes.lock_ports[i] = redis_server_port(locks.servers[i]);
    config = dry_config_built_in(&findings);
    assert_non_null(config);
    assert_int_equal(findings.errors, 0);
    dry_config_use_nodes(config, &nodes);
    for (unsigned i = 0; i < locks.count; i++)
        config->lock_nodes[i].call_timeout_ns = (int64_t)CLUSTER_TIMEOUT_MS * NS_PER_MS;
    assert_true(dry_config_convert(config, &plan, &error));
    dry_config_key_space(&plan, space);
}

static inline void workforce_make(void)
{
    struct error error = ERROR_NONE;
    if (config == NULL)
        config_make();
    workforce =
        workforce_start(&(struct workforce_options){.plan = &plan, .config = config, .key_space = space}, &error);
    if (workforce == NULL)
        fail_msg("%s", error.text);
}

static inline void push(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct load_task task;
        load_next(load, wall_now(), &task);
        free(redis_server_command(queue_node, "LPUSH %squeue:%s '%.*s'", space, task.queue, (int)task.text.length,
                                  task.text.bytes));
    }
}

#endif
