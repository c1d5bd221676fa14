/* A node behind sentinels that are wrong, hang, refuse, or are behind the times: scripted ones, which say one text. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/node.h"
#include "tests/support/hostile_server.h"
#include "tests/support/node_fixture.h"
#include "tests/support/redis_server.h"

enum { ASKED_MAX = 3 };

/* What a test started; it is all ended after the test. */
static struct redis_server *master, *replica;
static struct hostile_server *sentinels[ASKED_MAX];
static char asked[ASKED_MAX][32];
static const char *addresses[ASKED_MAX];
static size_t asked_count;

static int teardown(void **state)
{
    (void)node_teardown(state);
    redis_server_destroy(replica);
    redis_server_destroy(master);
    master = replica = NULL;
    for (; asked_count > 0; asked_count--) {
        hostile_server_destroy(sentinels[asked_count - 1]);
        sentinels[asked_count - 1] = NULL;
    }
    return 0;
}

/* --- who is there ------------------------------------------------------------------------------------------- */

static void ask(unsigned port)
{
    snprintf(asked[asked_count], sizeof asked[0], "127.0.0.1:%u", port);
    addresses[asked_count] = asked[asked_count];
    asked_count++;
}

static struct hostile_server *sentinel_start(void)
{
    struct hostile_server *sentinel = sentinels[asked_count] = hostile_server_start(HOSTILE_GOOD);
    ask(hostile_server_port(sentinel));
    return sentinel;
}

static const char *address_reply(const struct redis_server *server)
{
    static char text[2][64];
    static unsigned next;
    char port[8];
    next = 1 - next;
    snprintf(port, sizeof port, "%u", redis_server_port(server));
    snprintf(text[next], sizeof text[next], "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(port), port);
    return text[next];
}

/* A second one that knows better than the first. */
static struct hostile_server *liar_start(void)
{
    master = redis_server_start(NULL);
    struct hostile_server *liar = sentinel_start();
    hostile_server_say(sentinel_start(), address_reply(master));
    return liar;
}

static void replica_begin(void)
{
    replica = redis_server_start(NULL);
    free(redis_server_command(replica, "REPLICAOF 127.0.0.1 %u", redis_server_port(master)));
}

static struct redis_node_options options_by_sentinels(void)
{
    struct redis_node_options options = node_options_for(0);
    options.host = NULL;
    options.sentinels = (struct redis_sentinels){
        .master = "mymaster", .addresses = addresses, .count = asked_count, .timeout_ns = 3 * NS_PER_S};
    return options;
}

static void start_by_sentinels(void)
{
    struct redis_node_options options = options_by_sentinels();
    probe = (struct node_probe){.node = NULL};
    node_probe_start(&probe, loop, &options);
}

static void assert_is_at(const struct redis_server *server)
{
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", redis_server_port(server));
    assert_string_equal(redis_node_address(probe.node), address);
}

static void connection_lose(void)
{
    unsigned downs = probe.downs;
    free(redis_server_command(master, "CLIENT KILL TYPE normal"));
    node_probe_wait_downs(&probe, downs + 1);
    node_probe_wait_up(&probe);
}

/* --- where is it? -------------------------------------------------------------------------------------------- */

TEST(test_one_that_is_dead_is_skipped_and_the_other_asked_first_from_then_on)
{
    master = redis_server_start(NULL);
    ask(free_port());
    hostile_server_say(sentinel_start(), address_reply(master));
    start_by_sentinels();
    node_probe_wait_up(&probe);
    assert_is_at(master);
    assert_int_equal(probe.downs, 0);
    assert_int_equal(counters()->sentinels_asked, 2);
    connection_lose();
    assert_int_equal(counters()->sentinels_asked, 3);
    assert_int_equal(probe.downs, 1);
}

/* Each time another one of three knows: the one that helped last is asked first, and the others in their order. */
TEST(test_the_one_that_helped_last_is_asked_first)
{
    static const char unknown[] = "*-1\r\n";
    static const struct {
        unsigned knows, asked; /* which one of the three, and how many were asked until then */
    } steps[] = {{2, 3}, {2, 1}, {0, 2}, {1, 3}, {1, 1}, {2, 3}};
    uint64_t before = 0;
    master = redis_server_start(NULL);
    for (unsigned i = 0; i < ASKED_MAX; i++)
        (void)sentinel_start();
    for (size_t step = 0; step < sizeof steps / sizeof steps[0]; step++) {
        for (unsigned i = 0; i < ASKED_MAX; i++)
            hostile_server_say(sentinels[i], i == steps[step].knows ? address_reply(master) : unknown);
        if (step == 0)
            start_by_sentinels();
        else
            connection_lose();
        node_probe_wait_up(&probe);
        assert_int_equal(counters()->sentinels_asked - before, steps[step].asked);
        before = counters()->sentinels_asked;
    }
}

/* It has a time of its own, however long a connection may take; this one is what it is without being set. */
TEST(test_one_that_hangs_is_skipped_in_time)
{
    hostile_server_set_mode(liar_start(), HOSTILE_MUTE);
    struct redis_node_options options = options_by_sentinels();
    options.sentinels.timeout_ns = 0;
    struct instant began = instant_now();
    node_probe_start(&probe, loop, &options);
    node_probe_wait_up(&probe);
    assert_is_at(master);
    assert_int_equal(probe.downs, 0);
    assert_true(instant_since(began, instant_now()) >= 300 * NS_PER_MS);
    assert_true(instant_since(began, instant_now()) < TEST_PATIENCE_NS / 4);
}

TEST(test_that_none_of_them_helps_is_told_once)
{
    static const struct {
        const char *says, *reason;
    } cases[] = {{"*-1\r\n", "knows no master called \"mymaster\""},
                 {"-ERR not now\r\n", "refused: ERR not now"},
                 {":7\r\n", "did not answer with an address"},
                 {"-NOAUTH Authentication required.\r\n", "refused: NOAUTH"}};
    (void)sentinel_start();
    ask(free_port());
    struct redis_node_options options = options_by_sentinels();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hostile_server_say(sentinels[0], cases[i].says);
        sentinels[1] = NULL;
        options.sentinels.count = 1;
        probe = (struct node_probe){.node = NULL};
        assert_never_up(&options, cases[i].reason);
        assert_contains(probe.reason, "no sentinel of 1 told where master \"mymaster\" is");
        node_probe_stop(&probe);
    }
    probe = (struct node_probe){.node = NULL};
    options.sentinels.count = 2;
    assert_never_up(&options,
                    "no sentinel of 2 told where master \"mymaster\" is; the last: connect to sentinel 127.0");
}

TEST(test_sentinels_that_answer_badly_are_skipped)
{
    static const char *const lies[] = {"*2\r\n$1\r\nx\r\n$1\r\nx\r\n",
                                       "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n0\r\n",
                                       "*1\r\n$9\r\n127.0.0.1\r\n",
                                       "$-1\r\n",
                                       "*-1\r\n",
                                       "*0\r\n",
                                       "*2\r\n$-1\r\n$-1\r\n",
                                       "+127.0.0.1:1\r\n",
                                       "-ERR no\r\n",
                                       ":1\r\n"};
    struct hostile_server *liar = liar_start();
    for (enum hostile_mode mode = HOSTILE_GOOD; mode < HOSTILE_MODES; mode++) {
        if (mode == HOSTILE_SAYS)
            continue;
        hostile_server_set_mode(liar, mode);
        start_by_sentinels();
        node_probe_wait_up(&probe);
        assert_is_at(master);
        assert_int_equal(probe.downs, 0);
        assert_int_equal(counters()->sentinels_asked, 2);
        node_probe_stop(&probe);
    }
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        hostile_server_say(liar, lies[i]);
        start_by_sentinels();
        node_probe_wait_up(&probe);
        assert_int_equal(counters()->sentinels_asked, 2);
        node_probe_stop(&probe);
    }
}

TEST(test_their_password_is_apart_from_that_of_the_node)
{
    hostile_server_say(sentinel_start(), "-WRONGPASS invalid username-password pair: s3cret\r\n");
    struct redis_node_options options = options_by_sentinels();
    options.sentinels.password = "s3cret";
    assert_never_up(&options, "refused AUTH (WRONGPASS)");
    assert_contains(probe.reason, "user and password of the sentinels");
    assert_lacks(probe.reason, "s3cret");
}

/* --- only a master ------------------------------------------------------------------------------------------ */

TEST(test_a_sentinel_that_points_to_a_replica_is_not_believed)
{
    master = redis_server_start(NULL);
    replica_begin();
    struct hostile_server *liar = sentinel_start();
    hostile_server_say(liar, address_reply(replica));
    struct redis_node_options options = options_by_sentinels();
    assert_never_up(&options, "is a replica of 127.0.0.1");
    assert_int_equal(redis_server_calls(replica, "script|load"), 0);
    hostile_server_say(liar, address_reply(master));
    node_probe_wait_up(&probe);
    assert_is_at(master);
}

TEST(test_a_sentinel_that_is_behind_the_times_is_asked_last)
{
    struct hostile_server *liar = liar_start();
    replica_begin();
    hostile_server_say(liar, address_reply(replica));
    start_by_sentinels();
    node_probe_wait_up(&probe);
    assert_is_at(master);
    assert_int_equal(probe.downs, 1);
    assert_int_equal(counters()->sentinels_asked, 2);
}

TEST(test_behind_sentinels_the_role_has_to_be_known)
{
    master = redis_server_start(
        &(struct redis_server_options){.acl = "user default on nopass ~* &* +@all\nuser w on >w ~* &* +@all -role\n"});
    hostile_server_say(sentinel_start(), address_reply(master));
    struct redis_node_options options = options_by_sentinels();
    options.user = options.password = "w";
    assert_never_up(&options, "does not say whether it is a master");
}

TEST(test_noreplicas_behind_sentinels_asks_them_again)
{
    master = redis_server_start(NULL);
    hostile_server_say(sentinel_start(), address_reply(master));
    start_by_sentinels();
    node_probe_wait_up(&probe);
    free(redis_server_command(master, "CONFIG SET min-replicas-to-write 2"));
    struct call_probe call = {.completions = 0};
    assert_true(call_probe_send(&call, &probe, TEST_PATIENCE_NS, "SET key value"));
    call_probe_wait(&call, loop);
    assert_int_equal(call.error, REDIS_ERROR_NOREPLICAS);
    node_probe_wait_downs(&probe, 1);
    node_probe_wait_up(&probe);
    assert_int_equal(counters()->sentinels_asked, 2);
}

RUN_TESTS_WITH(node_setup, teardown)
