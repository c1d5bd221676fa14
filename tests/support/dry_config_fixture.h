/* For tests of the workers of a dry run: the plan's configuration on nodes of the test. */
#ifndef SUPPORT_DRY_CONFIG_FIXTURE_H
#define SUPPORT_DRY_CONFIG_FIXTURE_H

#include "tests/support/test.h"

#include "tests/support/lock_cluster.h"
#include "worker/dry_run/run/dry_config.h"

static inline struct config *dry_config_make(const struct dry_run_plan *plan, struct redis_server *queue_node,
                                             const struct lock_cluster *locks)
{
    struct findings findings = {0};
    struct error error = ERROR_NONE;
    struct dry_config_nodes nodes = {
        .host = "127.0.0.1", .queue_port = redis_server_port(queue_node), .lock_count = locks->count};
    for (unsigned i = 0; i < locks->count; i++)
        nodes.lock_ports[i] = redis_server_port(locks->servers[i]);
    struct config *config = dry_config_built_in(&findings);
    assert_non_null(config);
    assert_int_equal(findings.errors, 0);
    dry_config_use_nodes(config, &nodes);
    for (unsigned i = 0; i < locks->count; i++)
        config->lock_nodes[i].call_timeout_ns = (int64_t)CLUSTER_TIMEOUT_MS * NS_PER_MS;
    assert_true(dry_config_turn(config, plan, &error));
    return config;
}

#endif
