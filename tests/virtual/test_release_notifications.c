/* Hints between processes over five lock nodes: who hears what, and what it costs. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "redlock/release_notifications.h"
#include "tests/support/loop_until.h"
#include "tests/support/one_cluster.h"

static struct loop *loop;
static struct redis_node *nodes[NODES];
static struct notifications *notifications;

struct ear {
    struct notification_want want;
    unsigned heard[NOTIFIED_DEAF + 1];
    int64_t detail; /* of what was heard last */
    void (*on_heard)(struct ear *ear);
};

static struct ear ears[4];
static struct ear *const ear = &ears[0];

static void ear_heard(struct notification_want *want, enum notification_kind kind, int64_t detail)
{
    struct ear *own = list_owner(want, struct ear, want);
    own->heard[kind]++;
    own->detail = detail;
    if (own->on_heard != NULL)
        own->on_heard(own);
}

static unsigned free_heard(const struct ear *own)
{
    return own->heard[NOTIFIED_FREE];
}

static void notifications_start(int64_t series_ns)
{
    notifications = notifications_create(
        loop, &(struct notifications_options){.nodes = nodes, .node_count = NODES, .series_ns = series_ns});
}

/* A series lasts for as long as the test. */
static void one_series(void)
{
    notifications_destroy(notifications);
    notifications_start(3600 * NS_PER_S);
}

static int set_up(void **state)
{
    (void)state;
    lock_cluster_heal(&cluster);
    ask_first(NODES, "CONFIG RESETSTAT");
    loop = loop_create(NULL);
    for (unsigned i = 0; i < NODES; i++)
        nodes[i] = redis_node_create(loop, &(struct redis_node_options){.name = "lock",
                                                                        .host = "127.0.0.1",
                                                                        .port = cluster.nodes[i].port,
                                                                        .client_name = "test",
                                                                        .backoff_min_ns = 2 * NS_PER_MS,
                                                                        .backoff_max_ns = 10 * NS_PER_MS});
    for (unsigned i = 0; i < NODES; i++)
        loop_await(loop, redis_node_state(nodes[i]) == REDIS_NODE_UP);
    memset(ears, 0, sizeof ears);
    for (unsigned i = 0; i < 4; i++)
        notification_want_init(&ears[i].want, ear_heard);
    notifications_start(NOTIFICATIONS_SERIES_NS);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    notifications_destroy(notifications);
    for (unsigned i = 0; i < NODES; i++)
        redis_node_destroy(nodes[i]);
    loop_destroy(loop);
    return 0;
}

static void listen_to(struct ear *own, const char *key)
{
    loop_for(loop, 0); /* outside it the loop's clock stands still */
    notifications_want(notifications, &own->want, key, strlen(key));
}

static bool is_live(const struct ear *own)
{
    return notification_live_since(&own->want).ns != INSTANT_NEVER.ns;
}

static const char *channel_of(const char *key)
{
    static char channel[NOTIFICATIONS_CHANNEL_MAX];
    notifications_channel(notifications, key, strlen(key), channel);
    return channel;
}

static bool is_subscribed_everywhere(const char *key)
{
    unsigned count = 0;
    for (unsigned i = 0; i < NODES; i++)
        count += strstr(lock_cluster_ask(&cluster, i, "PUBSUB NUMSUB %s", channel_of(key)), "\n1") != NULL;
    return count == NODES;
}

static void listen_and_wait(struct ear *own, const char *key)
{
    listen_to(own, key);
    loop_await(loop, is_subscribed_everywhere(key));
    loop_await(loop, is_live(own));
    loop_for(loop, 5 * NS_PER_MS); /* the others' answers are here too */
}

/* What a node says when it was told to release. */
static void node_says(unsigned node, const char *key, const char *payload)
{
    (void)lock_cluster_ask(&cluster, node, "PUBLISH %s %s", channel_of(key), payload);
}

static unsigned listeners(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < NODES; i++)
        count += strstr(lock_cluster_ask(&cluster, i, "CLIENT LIST"), "name=test-wakes ") != NULL;
    return count;
}

/* --- connections and channels ------------------------------------------------------------------------------------- */

TEST(test_nothing_is_opened_before_somebody_wants)
{
    notifications_say_free(notifications, 0x1f, "lock:a", 6);
    loop_for(loop, 30 * NS_PER_MS);
    assert_int_equal(listeners(), 0);
    listen_and_wait(ear, "lock:a");
    assert_int_equal(listeners(), NODES);
    assert_int_equal(ear->heard[NOTIFIED_LIVE], 1);
    for (unsigned i = 1; i < 4; i++)
        listen_to(&ears[i], "lock:a");
    loop_for(loop, 30 * NS_PER_MS);
    for (unsigned i = 0; i < NODES; i++)
        assert_int_equal(redis_server_calls(cluster.servers[i], "subscribe"), 1);
    assert_true(is_live(&ears[3]));
}

TEST(test_the_channel_names_group_database_and_bucket)
{
    char prefix[NOTIFICATIONS_CHANNEL_MAX];
    unsigned buckets = 0, bucket = 0;
    uint64_t seen = 0;
    for (unsigned i = 0; i < 1000; i++) {
        char key[16];
        snprintf(key, sizeof key, "lock:%u", i);
        assert_int_equal(sscanf(channel_of(key), "hf:free:%31[-]:0:%u", prefix, &bucket), 2);
        assert_true(bucket < NOTIFICATIONS_BUCKETS);
        seen |= UINT64_C(1) << bucket;
    }
    for (; seen != 0; seen &= seen - 1)
        buckets++;
    assert_int_equal(buckets, NOTIFICATIONS_BUCKETS);
    snprintf(prefix, sizeof prefix, "%s", channel_of("lock:a"));
    notifications_name_group(notifications, "5f2a90c41b7d3e88");
    assert_contains(channel_of("lock:a"), "hf:free:5f2a90c41b7d3e88:0:");
    assert_string_equal(strrchr(channel_of("lock:a"), ':'), strrchr(prefix, ':'));
}

TEST(test_another_group_means_other_channels)
{
    listen_and_wait(ear, "lock:a");
    char before[NOTIFICATIONS_CHANNEL_MAX];
    snprintf(before, sizeof before, "%s", channel_of("lock:a"));
    notifications_name_group(notifications, "-"); /* no other */
    assert_true(is_live(ear));
    notifications_name_group(notifications, "5f2a90c41b7d3e88");
    assert_int_equal(ear->heard[NOTIFIED_DEAF], 1);
    loop_await(loop, is_subscribed_everywhere("lock:a"));
    loop_await(loop, ear->heard[NOTIFIED_LIVE] == 2);
    for (unsigned i = 0; i < NODES; i++)
        assert_contains(lock_cluster_ask(&cluster, i, "PUBSUB NUMSUB %s", before), "\n0");
    node_says(0, "lock:a", "lock:a");
    loop_await(loop, free_heard(ear) == 1);
}

static bool is_subscribed_anywhere(const char *key)
{
    for (unsigned i = 0; i < NODES; i++)
        if (strstr(lock_cluster_ask(&cluster, i, "PUBSUB NUMSUB %s", channel_of(key)), "\n1") != NULL)
            return true;
    return false;
}

TEST(test_what_is_not_wanted_for_a_while_is_left)
{
    listen_and_wait(&ears[1], "lock:b");
    loop_for(loop, 7 * NS_PER_S); /* as long as somebody wants it, it stays */
    assert_true(is_subscribed_everywhere("lock:b"));
    assert_true(notifications_are_warm(notifications, "lock:b", 6));
    notifications_unwant(&ears[1].want);
    listen_to(ear, "lock:a");
    loop_for(loop, 4 * NS_PER_S);
    assert_true(is_subscribed_everywhere("lock:b"));
    loop_for(loop, 7 * NS_PER_S);
    assert_false(is_subscribed_anywhere("lock:b"));
    assert_false(notifications_are_warm(notifications, "lock:b", 6));
    assert_true(is_subscribed_everywhere("lock:a"));
    assert_int_equal(listeners(), NODES);
    listen_and_wait(&ears[1], "lock:b");
}

TEST(test_connections_without_wants_stay_for_a_while)
{
    listen_and_wait(ear, "lock:a");
    loop_for(loop, 40 * NS_PER_S);
    assert_int_equal(listeners(), NODES);
    notifications_unwant(&ear->want);
    loop_for(loop, 28 * NS_PER_S);
    assert_int_equal(listeners(), NODES);
    loop_for(loop, 8 * NS_PER_S);
    assert_int_equal(listeners(), 0);
    assert_false(notifications_are_warm(notifications, "lock:a", 6));
    listen_and_wait(ear, "lock:a");
    assert_int_equal(listeners(), NODES);
    assert_int_equal(ear->heard[NOTIFIED_LIVE], 2);
}

/* Those who release look for it, if all nodes have been told to. */
TEST(test_the_key_of_listeners_lasts_as_long_as_they_do)
{
    listen_and_wait(ear, "lock:a");
    assert_string_equal(lock_cluster_ask(&cluster, 0, "EXISTS " NOTIFICATIONS_KEY), "0");
    notifications_keep_key(notifications, true);
    loop_for(loop, 6 * NS_PER_S);
    for (unsigned i = 0; i < NODES; i++)
        assert_string_equal(lock_cluster_ask(&cluster, i, "EXISTS " NOTIFICATIONS_KEY), "1");
    redis_server_kill(cluster.servers[0]);
    redis_server_restart(cluster.servers[0]); /* empty: it is there before anything can be missed */
    loop_await(loop, is_subscribed_everywhere("lock:a"));
    assert_string_equal(lock_cluster_ask(&cluster, 0, "EXISTS " NOTIFICATIONS_KEY), "1");
    loop_for(loop, 100 * NS_PER_S);
    assert_string_equal(lock_cluster_ask(&cluster, 1, "EXISTS " NOTIFICATIONS_KEY), "1");
    notifications_unwant(&ear->want);
    loop_for(loop, 100 * NS_PER_S);
    for (unsigned i = 0; i < NODES; i++)
        assert_string_equal(lock_cluster_ask(&cluster, i, "EXISTS " NOTIFICATIONS_KEY), "0");
}

TEST(test_a_pause_between_wants_costs_nothing)
{
    listen_and_wait(ear, "lock:a");
    for (unsigned i = 0; i < 50; i++) {
        notifications_unwant(&ear->want);
        loop_for(loop, NS_PER_MS);
        listen_to(ear, "lock:a");
        assert_true(is_live(ear));
    }
    for (unsigned i = 0; i < NODES; i++) {
        assert_int_equal(redis_server_calls(cluster.servers[i], "subscribe"), 1);
        assert_int_equal(redis_server_calls(cluster.servers[i], "unsubscribe"), 0);
    }
}

/* --- releases ----------------------------------------------------------------------------------------------------- */

TEST(test_a_release_is_told_once_to_all_who_want_that_key)
{
    char neighbour[16] = "";
    one_series();
    for (unsigned i = 0; i < 1000; i++) { /* another key on the same channel */
        char channel[NOTIFICATIONS_CHANNEL_MAX];
        snprintf(channel, sizeof channel, "%s", channel_of("lock:a"));
        snprintf(neighbour, sizeof neighbour, "lock:%u", i);
        if (strcmp(channel, channel_of(neighbour)) == 0)
            break;
    }
    assert_string_equal(channel_of("lock:a"), channel_of(neighbour));
    listen_and_wait(ear, "lock:a");
    listen_to(&ears[1], neighbour);
    listen_to(&ears[2], "lock:a");
    listen_to(&ears[3], "lock:"); /* the beginning of a key is another key */
    notifications_say_free(notifications, 0x1f, "lock:a", 6);
    loop_await(loop, free_heard(ear) > 0);
    loop_for(loop, 20 * NS_PER_MS);
    assert_int_equal(free_heard(ear), 1);
    assert_int_equal(free_heard(&ears[1]), 0);
    assert_int_equal(free_heard(&ears[2]), 1);
    assert_int_equal(free_heard(&ears[3]), 0);
    notifications_say_free(notifications, 0x1f, neighbour, strlen(neighbour));
    loop_await(loop, free_heard(&ears[1]) == 1);
    assert_int_equal(free_heard(ear), 1);
}

TEST(test_every_release_is_told)
{
    one_series();
    listen_and_wait(ear, "lock:a");
    for (unsigned i = 1; i <= 200; i++) {
        unsigned before = free_heard(ear);
        notifications_say_free(notifications, 0x1f, "lock:a", 6);
        loop_await(loop, free_heard(ear) > before);
    }
    loop_for(loop, 20 * NS_PER_MS);
    assert_int_equal(free_heard(ear), 200); /* of 1000 messages */
}

/* Publishes on one node and waits until it must have been heard. */
static void hear(unsigned node, const char *payload)
{
    char marker[32];
    static unsigned count;
    snprintf(marker, sizeof marker, "lock:marker%u", count++);
    node_says(node, "lock:a", payload);
    struct ear probe = {0};
    notification_want_init(&probe.want, ear_heard);
    notifications_want(notifications, &probe.want, marker, strlen(marker));
    for (unsigned i = 0; i < 2; i++) /* on the channel that is listened to, behind it */
        node_says(node, "lock:a", marker);
    loop_await(loop, free_heard(&probe) > 0);
    notifications_unwant(&probe.want);
}

TEST(test_a_late_node_is_not_taken_for_another_release)
{
    one_series();
    listen_and_wait(ear, "lock:a");
    hear(0, "lock:a");
    hear(1, "lock:a");
    assert_int_equal(free_heard(ear), 1);
    hear(1, "lock:a"); /* says it again */
    assert_int_equal(free_heard(ear), 2);
    hear(0, "hf:held:5000:lock:a");
    assert_int_equal(ear->heard[NOTIFIED_HELD], 1);
    assert_true(ear->detail == 5 * NS_PER_S);
    hear(3, "lock:a"); /* of the release before */
    assert_int_equal(free_heard(ear), 2);
    hear(0, "lock:a"); /* knows of the holder, so this is the next */
    assert_int_equal(free_heard(ear), 3);
    hear(4, "hf:held:5000:lock:a"); /* late */
    hear(4, "lock:a");              /* so that nobody goes on believing it */
    assert_int_equal(free_heard(ear), 4);
}

TEST(test_after_a_while_every_word_is_news)
{
    listen_and_wait(ear, "lock:a");
    hear(0, "lock:a");
    loop_for(loop, 80 * NS_PER_MS);
    hear(1, "lock:a");
    assert_int_equal(free_heard(ear), 2);
}

TEST(test_who_hears_alone_is_told_by_a_majority)
{
    one_series();
    listen_and_wait(ear, "lock:a");
    hear(0, "hf:free:1:lock:a");
    hear(1, "hf:free:1:lock:a");
    hear(2, "hf:free:2:lock:a"); /* another process hears it, or heard the one before */
    hear(3, "lock:a");           /* does not say */
    assert_int_equal(ear->heard[NOTIFIED_ALONE], 0);
    hear(4, "hf:free:1:lock:a");
    assert_int_equal(ear->heard[NOTIFIED_ALONE], 1);
    assert_int_equal(free_heard(ear), 1);
}

TEST(test_each_release_has_its_own_majority)
{
    one_series();
    listen_and_wait(ear, "lock:a");
    for (unsigned i = 0; i < 3; i++)
        hear(i, "hf:free:1:lock:a");
    assert_int_equal(ear->heard[NOTIFIED_ALONE], 1);
    hear(0, "hf:free:1:lock:a"); /* the next release */
    hear(1, "hf:free:1:lock:a");
    hear(3, "hf:free:1:lock:a"); /* late, of the one before */
    assert_int_equal(free_heard(ear), 2);
    assert_int_equal(ear->heard[NOTIFIED_ALONE], 1);
    hear(3, "hf:free:1:lock:a");
    assert_int_equal(ear->heard[NOTIFIED_ALONE], 2);
    hear(2, "hf:free:1:lock:a"); /* told already */
    assert_int_equal(ear->heard[NOTIFIED_ALONE], 2);
}

TEST(test_what_makes_no_sense_is_not_told)
{
    static const char *const senseless[] = {"hf:held::lock:a",
                                            "hf:held:-1:lock:a",
                                            "hf:held:99999999999999999999:lock:a",
                                            "hf:held:1x:lock:a",
                                            "hf:held:1",
                                            "hf:held:",
                                            "lock:a:",
                                            "lock:",
                                            "x"};
    listen_and_wait(ear, "lock:a");
    for (size_t i = 0; i < sizeof senseless / sizeof senseless[0]; i++)
        hear(0, senseless[i]);
    assert_int_equal(free_heard(ear), 0);
    assert_int_equal(ear->heard[NOTIFIED_HELD], 0);
    hear(0, "hf:free:17:lock:a");
    assert_int_equal(free_heard(ear), 1);
    assert_int_equal(ear->detail, 17);
    notifications_say_held(notifications, 1, "lock:a", 6, 1234567890);
    loop_await(loop, ear->heard[NOTIFIED_HELD] == 1);
    assert_true(ear->detail == 1234 * NS_PER_MS);
}

/* --- live and deaf ------------------------------------------------------------------------------------------------ */

TEST(test_a_majority_must_be_heard)
{
    listen_and_wait(ear, "lock:a");
    kill_first(MINORITY);
    loop_for(loop, 50 * NS_PER_MS);
    assert_true(is_live(ear));
    assert_int_equal(ear->heard[NOTIFIED_DEAF], 0);
    redis_server_kill(cluster.servers[MINORITY]);
    loop_await(loop, ear->heard[NOTIFIED_DEAF] == 1);
    assert_false(is_live(ear));
    node_says(NODES - 1, "lock:a", "lock:a"); /* still heard */
    loop_await(loop, free_heard(ear) == 1);
    lock_cluster_heal(&cluster);
    loop_await(loop, ear->heard[NOTIFIED_LIVE] == 2);
    assert_true(is_live(ear));
    loop_await(loop, is_subscribed_everywhere("lock:a"));
    loop_for(loop, 80 * NS_PER_MS); /* long enough for another release */
    node_says(0, "lock:a", "lock:a");
    loop_await(loop, free_heard(ear) == 2);
}

TEST(test_who_may_not_listen_is_deaf_until_it_may)
{
    ask_first(QUORUM, "ACL SETUSER default resetchannels");
    listen_to(ear, "lock:a");
    loop_for(loop, 100 * NS_PER_MS);
    assert_false(is_live(ear));
    ask_first(QUORUM, "ACL SETUSER default allchannels");
    loop_await(loop, is_live(ear));
}

/* --- what the one who hears may do -------------------------------------------------------------------------------- */

static void leave_all(struct ear *own)
{
    (void)own;
    for (unsigned i = 0; i < 4; i++)
        notifications_unwant(&ears[i].want);
}

static void want_again(struct ear *own)
{
    notifications_unwant(&own->want);
    notifications_want(notifications, &own->want, "lock:a", 6);
}

TEST(test_who_hears_may_leave_and_come)
{
    one_series();
    listen_and_wait(ear, "lock:a");
    for (unsigned i = 1; i < 4; i++)
        listen_to(&ears[i], "lock:a");
    ear->on_heard = want_again;
    ears[1].on_heard = leave_all;
    hear(0, "lock:a");
    assert_int_equal(free_heard(ear), 1);
    assert_int_equal(free_heard(&ears[1]), 1);
    assert_int_equal(free_heard(&ears[2]), 0);
    assert_int_equal(free_heard(&ears[3]), 0);
    for (unsigned i = 0; i < 4; i++)
        assert_null(ears[i].want.notifications);
}

TEST(test_those_who_want_survive_the_end)
{
    listen_to(ear, "lock:a"); /* with its request under way */
    loop_for(loop, 0);
    notifications_destroy(notifications);
    notifications_unwant(&ear->want);
    notifications = NULL;
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, set_up, tear_down)
