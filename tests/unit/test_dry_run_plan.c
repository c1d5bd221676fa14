/* A plan: what follows from what was said, and that what cannot work is refused before anything is started. */
#include "tests/support/test.h"

#include "base/memory.h"
#include "worker/dry_run/plan/plan.h"

static struct dry_run_plan plan;
static struct findings findings;
static char transfer_name[] = "transfer", render_name[] = "render";
static struct config_class classes[2];
static struct config_node lock_nodes[3];
static struct config config;

static void set_up(void)
{
    plan_init(&plan);
    findings = (struct findings){0};
    classes[0] = (struct config_class){.name = transfer_name};
    classes[1] = (struct config_class){.name = render_name};
    config = (struct config){.classes = classes,
                             .class_count = 2,
                             .lock_nodes = lock_nodes,
                             .lock_node_count = 3,
                             .lock = {.ttl_ns = 10 * NS_PER_S}};
}

static void tear_down(void)
{
    plan_fini(&plan);
    findings_fini(&findings);
}

static void check(const struct config *with)
{
    findings_fini(&findings);
    plan_complete(&plan);
    plan_check(&plan, with, &findings);
}

static const char *first_finding(void)
{
    return findings.count > 0 ? findings.items[0].text : "nothing";
}

static void assert_fine(const struct config *with)
{
    check(with);
    if (findings.errors + findings.warnings > 0)
        fail_msg("%s", first_finding());
}

/* One error with that text, and no other. */
static void assert_error(const struct config *with, const char *part)
{
    check(with);
    if (findings_find(&findings, part) == NULL)
        fail_msg("\"%s\" was not found, but: %s", part, first_finding());
    assert_int_equal(findings.errors, 1);
}

static void assert_warning(const struct config *with, const char *part)
{
    check(with);
    if (findings_find(&findings, part) == NULL)
        fail_msg("\"%s\" was not found, but: %s", part, first_finding());
    assert_int_equal(findings.errors, 0);
    assert_int_equal(findings.warnings, 1);
}

static void make_shadow(void)
{
    plan.kind = DRY_RUN_SHADOW;
}

static void make_local(void)
{
    plan.is_local = true;
}

/* --- what follows ------------------------------------------------------------------------------------------------- */

TEST(the_usual_plan_is_fine)
{
    assert_fine(&config);
    make_local();
    assert_fine(NULL);
    assert_fine(&config);
    assert_int_equal(plan.for_ns, 20 * NS_PER_S);
    assert_int_equal(plan.warm_up_ns, 2 * NS_PER_S);
    assert_int_equal(plan.arrivals, DRY_RUN_CLOSED);
    assert_int_equal(plan.population, 32);
    assert_string_equal(plan.class_name, DRY_RUN_CLASS);
}

TEST(warm_up_and_population_follow_unless_they_were_given)
{
    plan.for_ns = 5 * NS_PER_S;
    plan.threads = 8;
    plan.processes = 3;
    plan.hosts = 2;
    plan_complete(&plan);
    assert_int_equal(plan.warm_up_ns, NS_PER_S / 2);
    assert_int_equal(plan.population, 48); /* each host has its own */
    plan.warm_up_ns = -1;
    plan.kind = DRY_RUN_SHADOW;
    plan_complete(&plan);
    assert_int_equal(plan.warm_up_ns, 0);
    plan_init(&plan);
    plan.warm_up_ns = 0;
    plan.population = 5;
    plan.is_population_given = true;
    plan_complete(&plan);
    assert_int_equal(plan.warm_up_ns, 0);
    assert_int_equal(plan.population, 5);
}

TEST(a_point_of_a_what_if_has_its_own_threads)
{
    plan.points[0] = 8;
    plan.point_count = 1;
    snprintf(plan.class_name, sizeof plan.class_name, "%s", "transfer");
    plan.popularity = (struct popularity){.kind = POPULARITY_ZIPF, .count = 10, .exponent = 1};
    plan_complete(&plan);
    struct dry_run_plan point;
    plan_at_point(&point, &plan, 64);
    plan_fini(&plan); /* it stands alone */
    assert_int_equal(point.threads, 64);
    assert_int_equal(point.point_count, 0);
    assert_int_equal(point.population, 128);
    assert_string_equal(point.class_name, "transfer");
    assert_int_equal(popularity_at(&point.popularity, 0, NULL, 0), 0);
    plan_fini(&point);
}

TEST(a_copy_stands_alone)
{
    popularity_weigh(&plan.popularity, &(struct popular){"a", 1}, 1);
    distribution_measure(&plan.hold, (double[]){1, 2}, 2);
    snprintf(plan.class_name, sizeof plan.class_name, "%s", "transfer");
    plan_complete(&plan);
    struct dry_run_plan copy;
    plan_copy(&copy, &plan);
    plan_fini(&plan);
    assert_string_equal(copy.class_name, "transfer");
    assert_string_equal(copy.popularity.names[0], "a");
    assert_true(distribution_mean(&copy.hold) == 1.5);
    plan_fini(&copy);
}

/* --- what cannot work --------------------------------------------------------------------------------------------- */

TEST(numbers_that_do_not_fit_together)
{
    make_local();
    plan.population = 1;
    plan.is_population_given = true;
    plan.hold.mean_s = 0;
    plan.threads = 1024;
    plan.processes = 5;
    assert_error(NULL, "5 processes with 1024 threads are more than 4096");
    plan.processes = 1;
    plan.for_ns = 2 * NS_PER_S;
    plan.warm_up_ns = 2 * NS_PER_S;
    assert_error(NULL, "--warm-up 2s: it is part of --for 2s");
}

TEST(nodes_that_do_not_fit)
{
    assert_error(NULL, "there is no configuration that names nodes");
    make_local();
    plan.local_nodes = 4;
    assert_error(NULL, "--private=4: an even number of lock nodes survives no more failures than one node less: use 3");
    plan.local_nodes = 1;
    assert_fine(NULL);
    plan.hosts = 2;
    memcpy(plan.run_id, "0123456789ab", sizeof plan.run_id);
    assert_error(NULL, "private nodes can be reached from this host only");
}

TEST(points_that_do_not_fit)
{
    plan.points[0] = 1024;
    plan.point_count = 1;
    plan.processes = 5;
    plan.threads = 4;
    assert_error(&config, "--what-if threads=1024: with 5 processes");
    plan.points[0] = 8;
    plan.hosts = 2;
    memcpy(plan.run_id, "0123456789ab", sizeof plan.run_id);
    assert_error(&config, "each point is a run of its own");
}

TEST(hosts_that_do_not_fit)
{
    plan.hosts = 2;
    assert_error(&config, "--name and --hosts go together");
    memcpy(plan.run_id, "0123456789ab", sizeof plan.run_id);
    assert_fine(&config);
    plan.kind = DRY_RUN_SHADOW;
    assert_error(&config, "each host would play the same tasks");
    plan.kind = DRY_RUN_REHEARSAL;
    plan.hosts = 1;
    assert_error(&config, "--name and --hosts go together");
}

TEST(arrivals_beyond_reason)
{
    plan.arrivals = DRY_RUN_OPEN;
    assert_error(&config, "--rate 0/s: must be more than 0");
    plan.rate = 2e6;
    assert_error(&config, "at most 1e+06 tasks a second");
    plan.rate = 1e6;
    plan.for_ns = 60 * NS_PER_S;
    assert_error(&config, "are 60 million tasks, which are too many to remember");
    plan.rate = 0.01;
    assert_error(&config, "is less than one task");
    plan.rate = 100;
    assert_fine(&config);
}

TEST(resources_that_do_not_fit)
{
    plan.popularity.count = 3;
    plan.resources_per_task = 4;
    assert_error(&config, "--resources-per-task 4: there are only 3 resources");
    plan.resources_per_task = 3;
    assert_fine(&config);
    plan.popularity = (struct popularity){.kind = POPULARITY_HOT, .count = 10, .hot = 10, .hot_share = 0.9};
    assert_error(&config, "10 hot resources of 10: there must be others too");
    plan.popularity.hot = 5;
    plan.popularity.hot_share = 0.3;
    assert_error(&config, "they are not hot");
    plan.popularity.hot_share = 0.5;
    assert_fine(&config);
}

TEST(holds_longer_than_max_hold)
{
    config.lock.max_hold_ns = 30 * NS_PER_MS;
    assert_fine(&config);
    plan.hold = (struct distribution){.kind = DISTRIBUTION_FIXED, .mean_s = 0.031};
    assert_error(&config, "--hold: a hold lasts 31ms, and lock.max_hold ends it after 30ms however often");
    plan.hold = (struct distribution){.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = 0.0043}; /* p99.9 is 29.7 ms */
    assert_fine(&config);
    plan.hold.mean_s = 0.0044; /* and 30.4 ms */
    assert_error(&config, "one hold in a thousand lasts");
    distribution_measure(&plan.hold, (double[]){0.001, 0.001, 0.5}, 3);
    assert_error(&config, "the longest hold lasts 500ms");
    snprintf(plan.class_name, sizeof plan.class_name, "%s", "transfer");
    classes[0].max_hold_ns = NS_PER_S; /* that of the class goes before */
    assert_fine(&config);
    classes[0].max_hold_ns = 499 * NS_PER_MS;
    assert_error(&config, "max_hold of the class ends it after 499ms");
}

/* A lock is extended while its task runs, so its ttl bounds no hold. */
TEST(holds_longer_than_the_ttl_are_fine)
{
    plan.for_ns = 600 * NS_PER_S;
    plan.hold = (struct distribution){.kind = DISTRIBUTION_FIXED, .mean_s = 30};
    assert_fine(&config);
}

TEST(holds_longer_than_the_run)
{
    plan.hold = (struct distribution){.kind = DISTRIBUTION_FIXED, .mean_s = 20};
    assert_error(&config, "no task would end");
    plan.hold.mean_s = 5;
    assert_warning(&config, "few tasks will end");
    plan.hold.mean_s = 1e9;
    assert_error(&config, "at most 1d");
    plan.hold = (struct distribution){.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = 60}; /* 1 % are shorter than 0.6 s */
    assert_warning(&config, "few tasks will end");
    plan.hold.mean_s = 3600;
    assert_error(&config, "no task would end");
}

TEST(a_timeout_that_production_has)
{
    snprintf(plan.class_name, sizeof plan.class_name, "%s", "transfer");
    classes[0].timeout_ns = 5 * NS_PER_MS;
    assert_warning(&config, "in production the class ends its runs after its timeout, 5ms");
}

TEST(classes_that_do_not_fit)
{
    snprintf(plan.class_name, sizeof plan.class_name, "%s", "transfre");
    assert_error(&config,
                 "--class transfre: the configuration says nothing about such a class (did you mean transfer?)");
    make_local();
    assert_error(NULL, "--class transfre: there is no configuration");
    plan.is_local = false;
    snprintf(plan.class_name, sizeof plan.class_name, "%s", "transfer");
    classes[0].mode = CONFIG_MODE_NONE;
    assert_warning(&config, "it takes no locks");
    classes[0].mode = CONFIG_MODE_BY_HANDLER;
    classes[0].lock = CONFIG_LOCK_NONE;
    assert_warning(&config, "it takes no locks");
    classes[0].lock = CONFIG_LOCK_BY_HANDLER;
    config.lock_node_count = 0;
    assert_error(&config, "takes locks and the configuration names no lock nodes");
    make_local();
    assert_fine(&config);
}

TEST(shadows_that_do_not_fit)
{
    make_shadow();
    assert_fine(&config);
    assert_error(NULL, "--shadow needs the configuration");
    config.lock_node_count = 0;
    assert_error(&config, "--shadow: the configuration names no lock nodes");
    config.lock_node_count = 3;
    make_local();
    assert_error(&config, "--shadow with --private");
    plan.is_local = false;
    plan.node_share = 0;
    assert_error(&config, "the share of a node's time");
    plan.node_share = 0.51;
    assert_error(&config, "the share of a node's time");
    plan.node_share = 0.1;
    plan.points[0] = 8;
    plan.point_count = 1;
    assert_error(&config, "--shadow with --what-if");
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

static void set_fault(struct dry_run_fault fault)
{
    plan.faults[0] = fault;
    plan.fault_count = 1;
}

TEST(only_private_nodes_are_hurt)
{
    static const enum dry_run_fault_kind kinds[] = {DRY_RUN_FAULT_STOP, DRY_RUN_FAULT_KILL, DRY_RUN_FAULT_WIPE,
                                                    DRY_RUN_FAULT_SLOW, DRY_RUN_FAULT_CLOCK};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        set_fault((struct dry_run_fault){.kind = kinds[i], .at_ns = 5 * NS_PER_S, .number = 1});
        plan.is_local = false;
        assert_error(&config, "that is a node of others; only private nodes (--private)");
        make_shadow();
        assert_error(&config, "that is a node of others");
        plan.kind = DRY_RUN_REHEARSAL;
        make_local();
        assert_fine(&config);
    }
    plan.is_local = false;
    set_fault((struct dry_run_fault){.kind = DRY_RUN_FAULT_FREEZE, .at_ns = NS_PER_S, .at_worker = true, .number = 1});
    assert_fine(&config);
    make_shadow();
    assert_fine(&config);
}

TEST(faults_that_do_not_fit)
{
    make_local();
    set_fault((struct dry_run_fault){.kind = DRY_RUN_FAULT_STOP, .number = 6});
    assert_error(NULL, "--fault stop:lock6: the lock nodes are 1 to 5");
    set_fault((struct dry_run_fault){.kind = DRY_RUN_FAULT_FREEZE, .at_worker = true, .number = 2});
    assert_error(NULL, "--fault freeze:worker2: the worker processes of this host are 1 to 1");
    set_fault((struct dry_run_fault){.kind = DRY_RUN_FAULT_KILL, .at_worker = true, .number = 0});
    assert_error(NULL, "--fault kill:worker0");
    set_fault((struct dry_run_fault){.kind = DRY_RUN_FAULT_WIPE, .number = 0});
    assert_error(NULL, "--fault wipe:queue: the tasks of the run are there");
    set_fault((struct dry_run_fault){.kind = DRY_RUN_FAULT_KILL, .number = 0});
    assert_error(NULL, "--fault kill:queue: the tasks of the run are there");
    set_fault((struct dry_run_fault){.kind = DRY_RUN_FAULT_STOP, .number = 0, .lasts_ns = NS_PER_S});
    assert_fine(NULL);
}

TEST(faults_after_the_end)
{
    make_local();
    set_fault((struct dry_run_fault){.kind = DRY_RUN_FAULT_WIPE, .number = 1, .at_ns = 20 * NS_PER_S});
    assert_error(NULL, "--fault wipe:lock1: at 20s the load has ended, after 20s");
    plan.faults[0].at_ns = -1;
    assert_error(NULL, "--fault wipe:lock1");
    set_fault((struct dry_run_fault){
        .kind = DRY_RUN_FAULT_STOP, .number = 1, .at_ns = 19 * NS_PER_S, .lasts_ns = 2 * NS_PER_S});
    assert_warning(NULL, "it is undone when the load ends, not after 2s");
}

TEST(all_that_is_wrong_is_told_at_once)
{
    plan.threads = 1024;
    plan.processes = 5;
    plan.warm_up_ns = plan.for_ns;
    plan.popularity.count = 10;
    plan.resources_per_task = 16;
    snprintf(plan.class_name, sizeof plan.class_name, "%s", "nobody");
    check(&config);
    assert_int_equal(findings.errors, 4);
}

/* --- the group ---------------------------------------------------------------------------------------------------- */

TEST(what_the_lock_nodes_say)
{
    plan_complete(&plan);
    snprintf(plan.class_name, sizeof plan.class_name, "%s", "transfer");
    classes[0].hold_at_least_ns = 30 * NS_PER_S;
    plan_check_group(&plan, &config, 60 * NS_PER_S, 2, 3, &findings);
    plan_check_group(&plan, &config, 0, 1, 1, &findings);
    assert_int_equal(findings.errors + findings.warnings, 0);
    plan_check_group(&plan, &config, 60 * NS_PER_S, 1, 3, &findings);
    assert_int_equal(findings.errors, 1);
    assert_non_null(
        findings_find(&findings, "no quorum: only 1 of the 3 lock nodes can be asked now, and a lock needs 2"));
    plan_check_group(&plan, &config, 20 * NS_PER_S, 3, 3, &findings);
    assert_int_equal(findings.errors, 2);
    assert_non_null(findings_find(&findings, "hold_at_least of the class transfer is 30s, which nobody extends"));
    plan_check_group(&plan, &config, 5 * NS_PER_S, 3, 3, &findings);
    assert_non_null(findings_find(&findings, "lock.ttl is 10s, and the lock nodes keep no lock for longer"));
    findings_fini(&findings);
    plan_check_group(&plan, &config, 60 * NS_PER_S, 2, 4, &findings); /* half is no majority */
    assert_int_equal(findings.errors, 1);
}

TEST(names_of_faults_and_targets)
{
    char target[DRY_RUN_TARGET_MAX];
    assert_string_equal(dry_run_fault_names[DRY_RUN_FAULT_CLOCK], "clock");
    assert_string_equal(dry_run_fault_target(&(struct dry_run_fault){.number = 2}, target), "lock2");
    assert_string_equal(dry_run_fault_target(&(struct dry_run_fault){.number = 0}, target), "queue");
    assert_string_equal(dry_run_fault_target(&(struct dry_run_fault){.at_worker = true, .number = 1}, target),
                        "worker1");
}

RUN_TESTS_BETWEEN(set_up, tear_down)
