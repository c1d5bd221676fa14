/* When the load of a dry run may begin: what its workers need until then must not be measured. */
#include "tests/support/test.h"

#include "tests/support/dry_config_fixture.h"
#include "worker/dry_run/run/workforce.h"
#include "worker/dry_run/plan/load_generator.h"

enum { PROCESSES = 2, LOCK_NODES = 3, QUORUM_NODES = 2 };

static struct redis_server *queue_node;
static struct lock_cluster locks;
static struct dry_run_plan plan;
static struct config *config;
static char space[DRY_CONFIG_SPACE_MAX];
static struct workforce *workforce;
static unsigned looks; /* at themselves, that the workers told: each has two a second */

static int set_up(void **state)
{
    struct error error = ERROR_NONE;
    (void)state;
    queue_node = redis_server_start(NULL);
    lock_cluster_start(&locks, LOCK_NODES);
    plan_init(&plan);
    memcpy(plan.id, "00112233aabb", sizeof plan.id);
    plan.is_local = true;
    plan.processes = PROCESSES;
    plan.threads = 2;
    plan.popularity = (struct popularity){.kind = POPULARITY_UNIFORM, .count = 100};
    popularity_prepare(&plan.popularity);
    plan.hold = (struct distribution){.kind = DISTRIBUTION_FIXED, .mean_s = 600};
    config = dry_config_make(&plan, queue_node, &locks);
    dry_config_key_space(&plan, space);
    looks = 0;
    workforce =
        workforce_start(&(struct workforce_options){.plan = &plan, .config = config, .key_space = space}, &error);
    if (workforce == NULL)
        fail_msg("%s", error.text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    workforce_end(workforce);
    config_free(config);
    plan_fini(&plan);
    lock_cluster_stop(&locks);
    redis_server_destroy(queue_node);
    return 0;
}

static void take(void *context, unsigned number, const struct record *record, const char *bytes, size_t length)
{
    (void)context, (void)number, (void)bytes, (void)length;
    looks += record->kind == RECORD_PROCESS;
}

/* Until every worker has had some looks more at itself, and time to do what it must not. */
static void some_looks_pass(void)
{
    unsigned before = looks;
    test_await(workforce_read(workforce, 1000, take, NULL) > 0 && looks >= before + 4 * PROCESSES);
}

TEST(nobody_serves_before_a_majority_of_the_lock_nodes_answers)
{
    for (unsigned i = 0; i < QUORUM_NODES; i++)
        redis_server_pause(locks.servers[i]);
    workforce_go(workforce);
    some_looks_pass();
    assert_int_equal(workforce_serving(workforce), 0);
    redis_server_resume(locks.servers[0]);
    test_await(workforce_serving(workforce) == PROCESSES);
}

TEST(nobody_serves_before_the_queue_node_answers)
{
    redis_server_pause(queue_node);
    workforce_go(workforce);
    some_looks_pass();
    assert_int_equal(workforce_serving(workforce), 0);
    redis_server_resume(queue_node);
    test_await(workforce_serving(workforce) == PROCESSES);
}

TEST(who_has_nothing_but_busy_threads_serves)
{
    struct load *load = load_create(&plan);
    for (unsigned i = 0; i < 200; i++) {
        struct load_task task;
        load_next(load, wall_now(), &task);
        free(redis_server_command(queue_node, "LPUSH %squeue:%s '%.*s'", space, task.queue, (int)task.text.length,
                                  task.text.bytes));
    }
    load_destroy(load);
    workforce_go(workforce);
    test_await(workforce_serving(workforce) == PROCESSES);
}

RUN_TESTS_WITH(set_up, tear_down)
