/* A node behind real sentinels. Those that lie: tests/virtual/test_node_sentinels.c. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/node.h"
#include "tests/support/node_fixture.h"
#include "tests/support/sentinel.h"

/* For one sentinel: longer than one that answers stands still. */
#define SENTINEL_TIMEOUT_NS (3 * NS_PER_S)

enum { ASKED_MAX = 3 };

/* What a test started; it is all ended after the test. */
static struct redis_server *master, *replica, *sentinel, *other_sentinel;
static char *asked[ASKED_MAX];
static size_t asked_count;

static int teardown(void **state)
{
    (void)node_teardown(state);
    struct redis_server **servers[] = {&sentinel, &other_sentinel, &replica, &master};
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
        redis_server_destroy(*servers[i]);
        *servers[i] = NULL;
    }
    while (asked_count > 0)
        free(asked[--asked_count]);
    return 0;
}

static void start_pair(void)
{
    master = redis_server_start(
        &(struct redis_server_options){.config = "appendonly yes\nappendfsync no\nmin-replicas-to-write 1\n"});
    replica = replica_start(master);
}

static void start_all(void)
{
    start_pair();
    sentinel = sentinel_start(master, NULL);
}

static void ask(unsigned port)
{
    if (asprintf(&asked[asked_count++], "127.0.0.1:%u", port) < 0)
        abort();
}

static struct redis_node_options quick_options(void)
{
    return (struct redis_node_options){.name = "probe",
                                       .connect_timeout_ns = 2 * NS_PER_S,
                                       .backoff_min_ns = 5 * NS_PER_MS,
                                       .backoff_max_ns = 50 * NS_PER_MS};
}

/* Behind all sentinels that were named by `ask`. */
static struct redis_node_options options_by_sentinels(void)
{
    struct redis_node_options options = quick_options();
    options.connect_timeout_ns = 60 * NS_PER_S; /* not what bounds the time for a sentinel */
    options.sentinels = (struct redis_sentinels){.master = SENTINEL_MASTER,
                                                 .addresses = (const char *const *)asked,
                                                 .count = asked_count,
                                                 .timeout_ns = SENTINEL_TIMEOUT_NS};
    return options;
}

static void start_by_sentinels(void)
{
    struct redis_node_options options = options_by_sentinels();
    node_probe_start(&probe, loop, &options);
}

static void assert_is_at(const struct redis_server *server)
{
    char *address = server_address(server);
    assert_string_equal(redis_node_address(probe.node), address);
    free(address);
}

static bool is_at(void *context)
{
    char *address = server_address(context);
    bool is_there =
        redis_node_state(probe.node) == REDIS_NODE_UP && strcmp(redis_node_address(probe.node), address) == 0;
    free(address);
    return is_there;
}

/* --- discovery ---------------------------------------------------------------------------------------------- */

TEST(test_the_sentinel_tells_where_the_master_is)
{
    start_all();
    ask(redis_server_port(sentinel));
    start_by_sentinels();
    node_probe_wait_up(&probe);
    assert_is_at(master);
    assert_int_equal(probe.downs, 0);
    assert_int_equal(probe.ups, 1);
    assert_int_equal(counters()->sentinels_asked, 1);
    run_one("SET key value");
}

TEST(test_a_dead_sentinel_is_skipped_and_the_other_asked_first_from_then_on)
{
    start_all();
    ask(free_port());
    ask(redis_server_port(sentinel));
    start_by_sentinels();
    node_probe_wait_up(&probe);
    assert_is_at(master);
    assert_int_equal(probe.downs, 0);
    assert_int_equal(counters()->sentinels_asked, 2);
    free(redis_server_command(master, "CLIENT KILL TYPE normal"));
    node_probe_wait_downs(&probe, 1);
    node_probe_wait_up(&probe);
    assert_int_equal(counters()->sentinels_asked, 3);
}

TEST(test_a_sentinel_that_does_not_know_the_master_is_skipped)
{
    start_all();
    other_sentinel = sentinel_start(NULL, NULL);
    ask(redis_server_port(other_sentinel));
    ask(redis_server_port(sentinel));
    start_by_sentinels();
    node_probe_wait_up(&probe);
    assert_is_at(master);
    assert_int_equal(probe.downs, 0);
}

TEST(test_a_master_that_no_sentinel_knows_is_told_once)
{
    sentinel = sentinel_start(NULL, NULL);
    ask(free_port());
    ask(redis_server_port(sentinel));
    start_by_sentinels();
    assert_stays_down("no sentinel of 2 told where master \"mymaster\" is");
    assert_contains(probe.reason, "knows no master");
    assert_true(redis_node_was_tried(probe.node));
}

TEST(test_a_sentinel_is_no_node)
{
    sentinel = sentinel_start(NULL, NULL);
    struct redis_node_options options = quick_options();
    options.host = "127.0.0.1";
    options.port = redis_server_port(sentinel);
    node_probe_start(&probe, loop, &options);
    assert_stays_down("is a sentinel");
}

TEST(test_sentinels_with_a_password)
{
    start_pair();
    sentinel = sentinel_start(master, "s3cret");
    ask(redis_server_port(sentinel));
    struct redis_node_options options = options_by_sentinels();
    options.sentinels.password = "wr0ng";
    node_probe_start(&probe, loop, &options);
    assert_stays_down("refused AUTH (WRONGPASS)");
    assert_contains(probe.reason, "user and password of the sentinels");
    assert_lacks(probe.reason, "wr0ng");
    node_probe_stop(&probe);

    probe = (struct node_probe){.node = NULL};
    options.sentinels.password = "s3cret";
    node_probe_start(&probe, loop, &options);
    node_probe_wait_up(&probe);
    node_probe_stop(&probe);

    probe = (struct node_probe){.node = NULL};
    options.sentinels.password = NULL;
    node_probe_start(&probe, loop, &options);
    assert_stays_down("refused: NOAUTH");
}

/* --- failover ----------------------------------------------------------------------------------------------- */

/* A user that adds one number after the other and keeps in mind which of them a replica is known to have. */
struct user {
    struct call_probe add, wait;
    unsigned number;
    bool confirmed[100000];
    unsigned confirmed_count;
    struct loop_timer pause;
};

static struct user user;

static void user_rest(void)
{
    loop_timer_set(loop, &user.pause, instant_after(loop_now(loop), 2 * NS_PER_MS));
}

static void user_waited(struct call_probe *call)
{
    if (call->outcome == REDIS_VALUE && call->integer >= 1) {
        user.confirmed[user.number] = true;
        user.confirmed_count++;
    }
    user_rest();
}

static void user_added(struct call_probe *call)
{
    user.wait = (struct call_probe){.on_done = user_waited};
    if (call->outcome != REDIS_VALUE || !call_probe_send(&user.wait, &probe, NS_PER_S, "WAIT 1 200"))
        user_rest();
}

static void user_goes_on(struct loop_timer *timer)
{
    (void)timer;
    user.number++;
    user.add = (struct call_probe){.on_done = user_added};
    if (!call_probe_send(&user.add, &probe, NS_PER_S, "SADD numbers %u", user.number))
        user_rest();
}

static bool has_confirmed(void *context)
{
    return user.confirmed_count >= *(unsigned *)context;
}

static void user_confirms(unsigned more)
{
    unsigned wanted = user.confirmed_count + more;
    if (!loop_until(loop, has_confirmed, &wanted, 10 * NS_PER_S))
        fail_msg("%u of %u numbers were confirmed", user.confirmed_count, wanted);
}

static void start_user(void)
{
    start_all();
    ask(free_port());
    ask(redis_server_port(sentinel));
    start_by_sentinels();
    node_probe_wait_up(&probe);
    memset(&user, 0, sizeof user);
    loop_timer_init(&user.pause, user_goes_on);
    user_rest();
    user_confirms(20);
}

static void end_user(void)
{
    loop_timer_clear(loop, &user.pause);
    redis_call_cancel(&user.add.call);
    redis_call_cancel(&user.wait.call);
}

/* The answer to the user's last call may still end the connection, so it is tried until it works. */
static bool has_written(void *context)
{
    struct call_probe *call = context;
    if (redis_call_is_outstanding(&call->call) || (call->completions > 0 && call->outcome == REDIS_VALUE))
        return call->completions > 0;
    *call = (struct call_probe){.completions = 0};
    if (redis_node_state(probe.node) == REDIS_NODE_UP)
        (void)!call_probe_send(call, &probe, 5 * NS_PER_S, "SET after failover");
    return false;
}

/* At the new master: all that a replica was known to have is there, and it takes more. That it has no replica itself
 * is forgiven; the old one becomes its replica only some seconds later. */
static void assert_failed_over(void)
{
    assert_true(loop_until(loop, is_at, replica, TEST_PATIENCE_NS));
    end_user();
    free(redis_server_command(replica, "CONFIG SET min-replicas-to-write 0"));
    static struct call_probe call;
    call = (struct call_probe){.completions = 0};
    assert_true(loop_until(loop, has_written, &call, TEST_PATIENCE_NS));
    assert_true(loop_until(loop, is_at, replica, TEST_PATIENCE_NS)); /* what was refused before may end a connection */
    for (unsigned i = 1; i < user.number; i++) {
        if (!user.confirmed[i])
            continue;
        char *reply = redis_server_command(replica, "SISMEMBER numbers %u", i);
        assert_string_equal(reply, "1");
        free(reply);
    }
}

TEST(test_failover_on_request)
{
    start_user();
    sentinel_fail_over(sentinel);
    assert_failed_over();
}

TEST(test_failover_because_the_master_died)
{
    start_user();
    redis_server_kill(master);
    sentinel_notices(sentinel);
    assert_failed_over();
}

RUN_TESTS_WITH(node_setup, teardown)
