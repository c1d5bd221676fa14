/* The configuration of a dry run: what differs from that of production, and that all the rest does not. */
#include "tests/support/test.h"

#include "base/memory.h"
#include "worker/dry_run/plan/load_generator.h"
#include "worker/dry_run/run/dry_config.h"

static struct dry_run_plan plan;
static struct config *config;

static void set_up(void)
{
    plan_init(&plan);
    memcpy(plan.id, "00112233aabb", sizeof plan.id);
    plan.threads = 12;
    plan.for_ns = 30 * NS_PER_S;
}

static void tear_down(void)
{
    config_free(config);
    config = NULL;
    plan_fini(&plan);
}

static void config_of(const char *text)
{
    struct buffer written = {0};
    struct findings findings = {0};
    buffer_append_text(&written, text);
    config = config_read_written(&written, &findings);
    if (config == NULL || findings.errors > 0)
        findings_print(&findings, stderr);
    assert_true(config != NULL && findings.errors == 0);
    findings_fini(&findings);
    buffer_fini(&written);
}

static void changeover(void)
{
    struct error error = ERROR_NONE;
    if (!dry_config_convert(config, &plan, &error))
        fail_msg("%s", error.text);
}

#define CONFIGURED                                                                                                     \
    "queue_node = { host = \"redis.example\"; call_timeout = \"3s\"; };\n"                                             \
    "lock_nodes = ( { host = \"a\"; timeout = \"70ms\"; }, { host = \"b\"; timeout = \"80ms\"; },\n"                   \
    "               { host = \"c\"; timeout = \"90ms\"; } );\n"                                                        \
    "worker = { threads = 3; queues = [\"jobs\", \"mail\"]; lease = \"33s\"; log_file = \"/var/log/holdfast\"; };\n"   \
    "lock = { prefix = \"mine:\"; ttl = \"7s\"; max_hold = \"9m\"; };\n"                                               \
    "queue_settings = ( { queue = \"jobs\"; classes = [\"a\"]; } );\n"                                                 \
    "classes = ( { class = \"a\"; program = [\"/bin/true\", \"x\"]; memory_limit = \"1GiB\"; share = 50; },\n"         \
    "            { class = \"b\"; isolation = \"process\"; result_ttl = \"1h\"; timeout = \"5s\"; } );\n"              \
    "periodic = ( { cron = \"* * * * *\"; class = \"a\"; queue = \"jobs\"; } );\n"                                     \
    "on_event = { command = [\"/bin/true\"]; events = [\"dead\"]; };\n"

TEST(what_would_reach_production_is_gone)
{
    config_of(CONFIGURED);
    changeover();
    assert_string_equal(config->lock.prefix, "mine:dry:00112233aabb:");
    assert_true(config->lock.is_guest);
    assert_int_equal(config->periodic_count, 0);
    assert_int_equal(config->on_event.command.count, 0);
    assert_int_equal(config->queue_count, 0);
    assert_int_equal(config->worker.queues.count, 1);
    assert_string_equal(config->worker.queues.items[0], LOAD_QUEUE);
    assert_string_equal(config->worker.log_file, "");
    assert_int_equal(config->worker.log_level, LOG_WARN);
    assert_int_equal(config->worker.threads, 12);
    for (size_t i = 0; i < 2; i++) {
        const struct config_class *entry = &config->classes[i];
        assert_int_equal(entry->isolation, CONFIG_ISOLATION_THREAD);
        assert_int_equal(entry->program.count, 0);
        assert_int_equal(entry->memory_limit, 0);
        assert_int_equal(entry->result_ttl_ns, 0);
    }
}

TEST(all_the_rest_is_as_configured)
{
    config_of(CONFIGURED);
    changeover();
    assert_int_equal(config->lock.ttl_ns, 7 * NS_PER_S);
    assert_int_equal(config->lock.max_hold_ns, 540 * NS_PER_S);
    assert_int_equal(config->worker.lease_ns, 33 * NS_PER_S);
    assert_string_equal(config->queue_node.host, "redis.example");
    assert_int_equal(config->lock_node_count, 3);
    assert_int_equal(config->classes[0].share, 50);
    assert_int_equal(config->classes[1].timeout_ns, 5 * NS_PER_S);
}

TEST(a_shadow_serves_the_queues_of_its_fleet)
{
    plan.kind = DRY_RUN_SHADOW;
    config_of(CONFIGURED);
    changeover();
    assert_int_equal(config->worker.queues.count, 2);
    assert_string_equal(config->worker.queues.items[1], "mail");
    assert_int_equal(config->queue_count, 1);
}

/* Else a signal would bring the handlers of production in. */
TEST(it_cannot_be_read_again)
{
    struct findings findings = {0};
    config_of(CONFIGURED);
    free(config->path);
    config->path = memory_text("conf/holdfast.conf");
    changeover();
    assert_null(config_read(config->path, &findings));
    assert_true(findings.errors > 0);
    findings_fini(&findings);
}

TEST(private_nodes_take_the_place_of_the_configured_ones)
{
    const struct dry_config_nodes nodes = {.host = "127.0.0.1",
                                           .password = "secret",
                                           .queue_port = 7000,
                                           .lock_ports = {7001, 7002, 7003, 7004, 7005},
                                           .lock_count = 5};
    config_of(CONFIGURED);
    dry_config_use_nodes(config, &nodes);
    assert_string_equal(config->queue_node.host, "127.0.0.1");
    assert_int_equal(config->queue_node.port, 7000);
    assert_string_equal(config->queue_node.password, "secret");
    assert_string_equal(config->queue_node.name, "queue");
    assert_int_equal(config->queue_node.call_timeout_ns, 3 * NS_PER_S);
    assert_int_equal(config->lock_node_count, 5);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(config->lock_nodes[i].port, 7001 + i);
        assert_string_equal(config->lock_nodes[i].password, "secret");
        assert_int_equal(config->lock_nodes[i].call_timeout_ns, (i < 3 ? 70 + 10 * i : 90) * NS_PER_MS);
    }
    changeover();
    assert_string_equal(config->lock.prefix, "mine:dry:00112233aabb:");
}

TEST(without_a_file_all_is_usual)
{
    struct findings findings = {0};
    config = dry_config_built_in(&findings);
    assert_non_null(config);
    assert_int_equal(findings.errors + findings.warnings, 0);
    findings_fini(&findings);
    dry_config_use_nodes(
        config, &(struct dry_config_nodes){.host = "127.0.0.1", .queue_port = 1, .lock_ports = {2}, .lock_count = 1});
    changeover();
    assert_null(config->queue_node.password);
    assert_int_equal(config->lock_node_count, 1);
    assert_string_equal(config->lock.prefix, "dry:00112233aabb:");
}

TEST(a_prefix_that_becomes_too_long_is_refused)
{
    char prefix[REDLOCK_PREFIX_BYTES_MAX + 1] = "";
    struct error error = ERROR_NONE;
    config_of(CONFIGURED);
    memset(prefix, 'p', REDLOCK_PREFIX_BYTES_MAX - strlen("dry:00112233aabb:") + 1);
    free(config->lock.prefix);
    config->lock.prefix = memory_text(prefix);
    assert_false(dry_config_convert(config, &plan, &error));
    assert_contains(error.text, "lock.prefix");
    assert_int_equal(config->periodic_count, 1);
    config->lock.prefix[strlen(prefix) - 1] = '\0';
    changeover();
    assert_int_equal(strlen(config->lock.prefix), REDLOCK_PREFIX_BYTES_MAX);
}

TEST(the_key_space_names_the_run)
{
    char space[DRY_CONFIG_SPACE_MAX];
    assert_string_equal(dry_config_key_space(&plan, space), "hf:2:dry:00112233aabb:");
}

RUN_TESTS_BETWEEN(set_up, tear_down)
