/* The host that leads a dry run tells its guests what the run is: once, and again when that is gone. */
#include "tests/support/test.h"

#include <stdio.h>

#include "tests/support/loop_until.h"
#include "tests/support/one_server.h"
#include "tests/support/queue_probe.h"
#include "worker/dry_run/run/coordinator.h"

#define SPACE  "hf:2:dry:00112233aabb:"
#define RUN    SPACE "hf:2:meeting:run"
#define GUESTS SPACE "hf:2:meeting:guests"

static struct loop *loop;
static struct dry_run_plan plan;
static struct coordinator *coordinator;

static void brought(void *context, unsigned guest, struct text_span records)
{
    (void)context, (void)guest, (void)records;
}

static void missed(void *context, unsigned guest)
{
    (void)context, (void)guest;
}

static int set_up(void **state)
{
    (void)state;
    static struct config_node node = {.name = "queue", .host = "127.0.0.1"};
    free(redis_server_command(server, "FLUSHALL"));
    free(redis_server_command(server, "CONFIG RESETSTAT"));
    node.port = redis_server_port(server);
    node.call_timeout_ns = node.connect_timeout_ns = 10 * NS_PER_S;
    plan_init(&plan);
    loop = loop_create(NULL);
    coordinator = coordinator_create(
        loop, &(struct coordinator_options){
                  .node = &node, .space = SPACE, .plan = &plan, .brought = brought, .missed = missed});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    coordinator_destroy(coordinator);
    loop_destroy(loop);
    plan_fini(&plan);
    return 0;
}

static unsigned long calls_of(const char *command)
{
    char wanted[64];
    char *stats = redis_server_command(server, "INFO commandstats");
    snprintf(wanted, sizeof wanted, "cmdstat_%s:calls=", command);
    const char *found = strstr(stats, wanted);
    unsigned long calls = found != NULL ? strtoul(found + strlen(wanted), NULL, 10) : 0;
    free(stats);
    return calls;
}

static bool is_heard(void *context)
{
    (void)context;
    return coordinator_is_heard(coordinator);
}

static bool is_there(void *context)
{
    (void)context;
    return queue_probe_number(server, "EXISTS " RUN) == 1;
}

/* It goes on looking, and writes no more. (A call that is not answered in time is made again, as often as that is.) */
static bool is_quiet(void *context)
{
    static unsigned long sets, since;
    unsigned long looks = calls_of("hgetall");
    (void)context;
    if (calls_of("set") != sets || looks < since) {
        sets = calls_of("set");
        since = looks;
    }
    return looks >= since + 3;
}

static void assert_written(const char *part)
{
    char *run = redis_server_command(server, "GET " RUN);
    assert_contains(run, part);
    free(run);
}

TEST(the_plan_is_written_when_it_changes_and_when_it_is_gone)
{
    assert_true(loop_until(loop, is_heard, NULL, TEST_PATIENCE_NS));
    assert_true(loop_until(loop, is_quiet, NULL, TEST_PATIENCE_NS));
    assert_written("\"gathers\"");

    coordinator_tell(coordinator, RUN_GOES_ON);
    assert_true(loop_until(loop, is_heard, NULL, TEST_PATIENCE_NS));
    assert_written("\"goes on\"");

    free(redis_server_command(server, "DEL " RUN));
    assert_true(loop_until(loop, is_there, NULL, TEST_PATIENCE_NS));
    assert_true(loop_until(loop, is_quiet, NULL, TEST_PATIENCE_NS));
    assert_written("\"goes on\"");
}

static void host_beats(const char *name, unsigned processes, unsigned serving, bool has_ended)
{
    struct buffer text = {0};
    struct host_heartbeat beat = {.processes = processes, .threads = 1, .serving = serving, .has_ended = has_ended};
    host_heartbeat_write(&text, &beat);
    free(redis_server_command(server, "HSET " GUESTS " beat:%s '%s'", name, buffer_text(&text)));
    buffer_fini(&text);
}

/* NULL = nobody. */
static bool laggard_is(void *name)
{
    const struct remote_host *guest = coordinator_laggard(coordinator);
    return guest != NULL && name != NULL ? strcmp(guest->name, name) == 0 : guest == NULL && name == NULL;
}

TEST(who_is_there_and_does_not_serve_yet_is_waited_for)
{
    assert_true(laggard_is(NULL));
    host_beats("a", 2, 1, false);
    assert_true(loop_until(loop, laggard_is, "a", TEST_PATIENCE_NS));
    host_beats("b", 1, 0, false);
    host_beats("a", 2, 2, false);
    assert_true(loop_until(loop, laggard_is, "b", TEST_PATIENCE_NS));
    host_beats("b", 1, 0, true);
    assert_true(loop_until(loop, laggard_is, NULL, TEST_PATIENCE_NS));
}

RUN_GROUP(one_server_set_up, one_server_tear_down, set_up, tear_down)
