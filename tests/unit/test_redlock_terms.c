/* What may be asked of a lock: every bound of the options, the terms and the request, one step inside and one step
 * outside, and the words that tell which one was broken. */
#include "tests/support/test.h"

#include "redlock/limits.h"
#include "redlock/redlock_nodes.h"

static char reason[256];

/* --- options ----------------------------------------------------------------------------------------------------- */

enum { NODES_AT_MOST = REDLOCK_NODES_MAX + 1 };

static char hosts[NODES_AT_MOST][16];
static struct redlock_node nodes[NODES_AT_MOST];

static struct redlock_options options_of(size_t count)
{
    for (size_t i = 0; i < NODES_AT_MOST; i++) {
        snprintf(hosts[i], sizeof hosts[i], "host%zu", i);
        nodes[i] = (struct redlock_node){.host = hosts[i], .port = 6379};
    }
    return (struct redlock_options){.nodes = nodes, .node_count = count};
}

static void accept_options(const struct redlock_options *options)
{
    if (!redlock_options_check(options, reason, sizeof reason))
        fail_msg("refused: %s", reason);
}

static void refuse_options(const struct redlock_options *options, const char *why)
{
    assert_false(redlock_options_check(options, reason, sizeof reason));
    assert_contains(reason, why);
}

/* E9: with an even number nobody would gain anything, and ties would be possible. */
TEST(only_odd_numbers_of_nodes_are_a_redlock)
{
    for (size_t count = 0; count <= NODES_AT_MOST; count++) {
        struct redlock_options options = options_of(count);
        if (count % 2 == 1 && count <= REDLOCK_NODES_MAX)
            accept_options(&options);
        else
            refuse_options(&options, count == 0 || count > REDLOCK_NODES_MAX ? "use 3 or 5" : "must be odd");
    }
}

/* E19, as far as the words tell; two names of one server are found by asking it. */
TEST(one_server_twice_is_refused)
{
    struct redlock_options options = options_of(3);
    nodes[2] = nodes[0];
    refuse_options(&options, "lock nodes 1 and 3 are the same server");
    nodes[2].port = 6380;
    accept_options(&options);
    nodes[0].unix_path = nodes[2].unix_path = "/run/redis.sock";
    refuse_options(&options, "lock nodes 1 and 3 are the same server");
    nodes[2].database = 1; /* a server forgets all its databases together */
    refuse_options(&options, "lock nodes 1 and 3 are the same server");
    nodes[2].unix_path = "/run/other.sock";
    accept_options(&options);
    for (size_t one = 0; one < 2; one++) { /* who has a socket is reached by that, whatever host it names */
        options = options_of(3);
        nodes[1].host = hosts[0];
        nodes[one].unix_path = "/run/redis.sock";
        accept_options(&options);
    }
}

TEST(a_node_is_connected_to_as_it_is_described)
{
    struct redlock_node node = {.host = "h",
                                .port = 1,
                                .unix_path = "/run/redis.sock",
                                .user = "u",
                                .password = "p",
                                .database = 3,
                                .connect_timeout_ms = 70,
                                .tls = true,
                                .tls_ca_file = "ca",
                                .tls_cert_file = "cert",
                                .tls_key_file = "key",
                                .tls_server_name = "server"};
    struct redlock_options options = {.client_name = "client"};
    struct redis_node_options own = redlock_node_options(&node, &options, "name");
    assert_string_equal(own.name, "name");
    assert_string_equal(own.host, "h");
    assert_string_equal(own.unix_path, "/run/redis.sock");
    assert_string_equal(own.user, "u");
    assert_string_equal(own.password, "p");
    assert_string_equal(own.client_name, "client");
    assert_true(own.port == 1 && own.database == 3 && own.connect_timeout_ns == 70 * NS_PER_MS && own.tls.is_on);
    assert_string_equal(own.tls.ca_file, "ca");
    assert_string_equal(own.tls.cert_file, "cert");
    assert_string_equal(own.tls.key_file, "key");
    assert_string_equal(own.tls.server_name, "server");
    assert_true(own.scripts != NULL && own.script_count > 0);
    node = (struct redlock_node){.host = "h"};
    options.client_name = NULL;
    own = redlock_node_options(&node, &options, "name");
    assert_string_equal(own.client_name, "redlock");
    assert_true(own.connect_timeout_ns == NS_PER_S && !own.tls.is_on);
}

TEST(a_node_must_be_somewhere)
{
    struct redlock_options options = options_of(3);
    nodes[1].host = NULL;
    refuse_options(&options, "lock node 2 has neither a host nor a unix socket");
    nodes[1].host = "";
    refuse_options(&options, "lock node 2 has neither a host nor a unix socket");
    nodes[1].unix_path = "/run/redis.sock";
    accept_options(&options);
    nodes[2].port = 0;
    refuse_options(&options, "lock node 3: port 0 is outside 1..65535");
    nodes[2].port = 65536;
    refuse_options(&options, "lock node 3: port 65536 is outside 1..65535");
    nodes[2].port = 65535;
    accept_options(&options);
    nodes[2].timeout_ms = -1;
    refuse_options(&options, "its timeout is negative");
    nodes[2].timeout_ms = 1;
    accept_options(&options);
}

TEST(fences_have_some_memory_at_least)
{
    struct redlock_options options = options_of(3);
    options.fence_memory = REDLOCK_FENCE_MEMORY_MIN;
    accept_options(&options);
    options.fence_memory--;
    refuse_options(&options, "the memory for fences is less than");
}

TEST(no_prefix_may_lead_to_our_own_keys)
{
    static const char *const ours[] = {"hf:", "hf:lock:", "hf", "h"};
    static const char *const theirs[] = {"lock:", "", "hold:", "hf2:", "Hf:", ":hf:", "hg", "H"};
    struct redlock_options options = options_of(3);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        options.key_prefix = ours[i];
        refuse_options(&options, "begin with \"hf:\"");
    }
    for (size_t i = 0; i < sizeof theirs / sizeof theirs[0]; i++) {
        options.key_prefix = theirs[i];
        accept_options(&options);
    }
    char prefix[REDLOCK_PREFIX_BYTES_MAX + 2];
    memset(prefix, 'p', sizeof prefix);
    prefix[sizeof prefix - 1] = '\0';
    options.key_prefix = prefix;
    refuse_options(&options, "longer than 256 bytes");
    options.key_prefix = prefix + 1;
    accept_options(&options);
}

/* --- terms ------------------------------------------------------------------------------------------------------- */

static struct redlock_options three;

static void accept_terms(struct redlock_terms terms)
{
    if (!redlock_terms_check(&terms, &three, reason, sizeof reason))
        fail_msg("refused: %s", reason);
}

static void refuse_terms(struct redlock_terms terms, const char *why)
{
    assert_false(redlock_terms_check(&terms, &three, reason, sizeof reason));
    assert_contains(reason, why);
}

TEST(the_drift_factor_has_bounds)
{
    static const double good[] = {0, 0.001, 0.01, 0.1}, bad[] = {0.0009, 0.11, -0.01, __builtin_nan("")};
    struct redlock_options options = options_of(3);
    for (size_t i = 0; i < 4; i++) {
        options.drift_factor = good[i];
        accept_options(&options);
        options.drift_factor = bad[i];
        refuse_options(&options, "the drift factor must be from 0.001 to 0.1");
    }
}

TEST(terms_have_bounds)
{
    three = options_of(3);
    accept_terms((struct redlock_terms){.ttl_ms = 500});
    refuse_terms((struct redlock_terms){.ttl_ms = 499}, "ttl must be from 500 ms to 60 s");
    accept_terms((struct redlock_terms){.ttl_ms = 60000});
    refuse_terms((struct redlock_terms){.ttl_ms = 60001}, "ttl must be from 500 ms to 60 s");
    refuse_terms((struct redlock_terms){.ttl_ms = -1}, "ttl must be");
    accept_terms((struct redlock_terms){.tries = 1000});
    refuse_terms((struct redlock_terms){.tries = 1001}, "tries must be at most 1000");
    refuse_terms((struct redlock_terms){.retry_delay_ms = -1}, "retry delay and jitter");
    refuse_terms((struct redlock_terms){.retry_delay_ms = 60001}, "retry delay and jitter");
    refuse_terms((struct redlock_terms){.retry_jitter_ms = -1}, "retry delay and jitter");
    refuse_terms((struct redlock_terms){.retry_jitter_ms = 60001}, "retry delay and jitter");
    accept_terms((struct redlock_terms){.retry_delay_ms = 60000, .retry_jitter_ms = 60000});
    refuse_terms((struct redlock_terms){.wait_ms = -1}, "wait must not be negative");
    refuse_terms((struct redlock_terms){.max_hold_ms = -1}, "maximum hold must not be negative");
    accept_terms((struct redlock_terms){.wait_ms = INT64_MAX, .max_hold_ms = INT64_MAX});
    accept_terms((struct redlock_terms){.hand_over_tasks = 1000000, .hand_over_ms = 3600000});
    refuse_terms((struct redlock_terms){.hand_over_tasks = 1000001}, "handed over at most");
    refuse_terms((struct redlock_terms){.hand_over_ms = -1}, "handed over for up to 1 h");
    refuse_terms((struct redlock_terms){.hand_over_ms = 3600001}, "handed over for up to 1 h");
    accept_terms((struct redlock_terms){.drift_factor = 0.1, .timeout_factor = 0.25});
    refuse_terms((struct redlock_terms){.drift_factor = 0.11}, "drift factor must be from 0 to 0.1");
    refuse_terms((struct redlock_terms){.timeout_factor = 0.009}, "timeout factor must be from 0.01 to 0.25");
    refuse_terms((struct redlock_terms){.timeout_factor = 0.26}, "timeout factor must be from 0.01 to 0.25");
    assert_false(redlock_terms_check(NULL, &three, reason, sizeof reason));
    assert_false(redlock_terms_check(&(struct redlock_terms){0}, NULL, reason, sizeof reason));
}

TEST(what_is_not_said_is_usual)
{
    three = options_of(3);
    struct redlock_terms terms = {0};
    assert_true(redlock_terms_check(&terms, &three, reason, sizeof reason));
    assert_int_equal(terms.ttl_ms, 10000);
    assert_int_equal(terms.tries, 3);
    assert_int_equal(terms.retry_delay_ms, 20);
    assert_int_equal(terms.retry_jitter_ms, 30);
    assert_int_equal(terms.hand_over_tasks, 8);
    assert_int_equal(terms.hand_over_ms, 1000);
}

TEST(a_node_may_not_take_more_than_a_quarter_of_the_ttl)
{
    three = options_of(3);
    nodes[1].timeout_ms = 500;
    accept_terms((struct redlock_terms){.ttl_ms = 2000});
    refuse_terms((struct redlock_terms){.ttl_ms = 1999}, "at most a quarter of the ttl");
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

static const char *names[REDLOCK_RESOURCES_MAX + 1];

static bool check(size_t count, const char *prefix)
{
    struct redlock_request request = {.resources = names, .resource_count = count};
    return redlock_request_check(&request, prefix, reason, sizeof reason);
}

static void refuse_request(size_t count, const char *prefix, const char *why)
{
    assert_false(check(count, prefix));
    assert_contains(reason, why);
}

TEST(a_lease_has_the_terms_of_its_lock)
{
    struct redlock_terms terms = {.ttl_ms = 9000,
                                  .tries = 3,
                                  .retry_delay_ms = 40,
                                  .retry_jitter_ms = 50,
                                  .max_hold_ms = 70000,
                                  .drift_factor = 0.02};
    struct lease_terms lease = redlock_lease_terms(&terms, 5, 0.01, 100 * NS_PER_MS);
    assert_int_equal(lease.nodes, 5);
    assert_int_equal(lease.ttl_ns, 9 * NS_PER_S);
    assert_int_equal(lease.tries, 3);
    assert_int_equal(lease.retry_delay_ns, 40 * NS_PER_MS);
    assert_int_equal(lease.retry_jitter_ns, 50 * NS_PER_MS);
    assert_int_equal(lease.max_hold_ns, 70 * NS_PER_S);
    assert_true(lease.fenced);
    assert_true(lease.drift_factor == 0.02); /* the less exact clocks count */
    terms.unfenced = true;
    terms.wait_ms = 1;
    lease = redlock_lease_terms(&terms, 5, 0.03, 100 * NS_PER_MS);
    assert_true(lease.drift_factor == 0.03);
    assert_int_equal(lease.tries, LEASE_TRIES_ENDLESS);
    assert_false(lease.fenced);
}

TEST(a_node_without_a_name_is_called_as_it_is_reached)
{
    static const struct {
        struct redlock_node node;
        const char *name;
    } cases[] = {{{.name = "a", .host = "b", .unix_path = "/c"}, "a"},
                 {{.unix_path = "/c"}, "/c"},
                 {{.host = "b"}, "b:6379"},
                 {{.host = "b", .port = 7}, "b:7"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[REDLOCK_NODE_NAME_SIZE];
        redlock_node_name(&cases[i].node, name);
        assert_string_equal(name, cases[i].name);
    }
}

/* What quarantines count with is never exceeded, and a pass that waits leaves as much of the ttl as any other. */
TEST(patience_has_bounds)
{
    static const int64_t timeouts_ms[] = {1, 50, 125, 1000, 2500, 5000, 15000};
    for (size_t i = 0; i < sizeof timeouts_ms / sizeof timeouts_ms[0]; i++) {
        int64_t timeout_ns = timeouts_ms[i] * NS_PER_MS, longest_ns = redlock_longest_patience_ns(timeout_ns);
        assert_int_equal(longest_ns, timeouts_ms[i] < 1500 ? 10 * timeout_ns : 15000 * NS_PER_MS);
        for (int64_t ttl_ms = 500; ttl_ms <= 60000; ttl_ms *= 2) {
            struct redlock_terms terms = {.ttl_ms = ttl_ms, .tries = 1};
            if (timeout_ns > ttl_ms * NS_PER_MS / 4)
                continue;
            struct lease_terms lease = redlock_lease_terms(&terms, 3, 0.01, timeout_ns);
            int64_t usual_ns = lease.silence_limit_ns;
            assert_int_equal(usual_ns, lease.attempt_limit_ns);
            redlock_lease_terms_wait(&lease, longest_ns);
            assert_int_equal(lease.silence_limit_ns > usual_ns, timeout_ns < ttl_ms * NS_PER_MS / 4);
            assert_true(lease.silence_limit_ns <= longest_ns + 10 * NS_PER_MS);
            assert_true(lease.silence_limit_ns <= ttl_ms * NS_PER_MS / 4 + 10 * NS_PER_MS);
            assert_int_equal(lease.attempt_limit_ns, usual_ns);
            assert_true(lease.extend_retry_ns >= lease.silence_limit_ns);
            redlock_lease_terms_wait(&lease, timeout_ns);
            assert_int_equal(lease.silence_limit_ns, usual_ns);
        }
    }
}

TEST(requests_have_bounds)
{
    char name[REDLOCK_RESOURCE_BYTES_MAX + 2];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    for (size_t i = 0; i <= REDLOCK_RESOURCES_MAX; i++)
        names[i] = "same";
    refuse_request(0, "", "no resource");
    assert_false(redlock_request_check(&(struct redlock_request){.resource_count = 1}, "", reason, sizeof reason));
    refuse_request(REDLOCK_RESOURCES_MAX + 1, "", "17 resources: one lock has at most 16");
    assert_true(check(REDLOCK_RESOURCES_MAX, ""));
    names[2] = "";
    refuse_request(3, "", "resource 3 has no name");
    names[2] = NULL;
    refuse_request(3, "", "resource 3 has no name");
    names[2] = name;
    refuse_request(3, "", "resource 3 is longer than 512 bytes");
    names[2] = name + 1;
    assert_true(check(3, ""));
}

TEST(names_of_our_own_keys_are_refused_where_they_would_be_keys)
{
    names[0] = "fine";
    names[1] = "hf:lock:group";
    refuse_request(2, "", "resource 2 begins with \"hf:\"");
    names[1] = "hf:fence:x";
    refuse_request(2, "", "resource 2 begins with \"hf:\"");
    names[1] = "hf:";
    refuse_request(2, "", "resource 2 begins with \"hf:\"");
    assert_true(check(2, "lock:")); /* the key is lock:hf: */
    names[1] = "hf";
    assert_true(check(2, ""));
}

static void refuse_limit(unsigned limit, unsigned seat, size_t count, const char *why)
{
    struct redlock_request request = {.resources = names, .resource_count = count, .limit = limit, .seat = seat};
    assert_false(redlock_request_check(&request, "lock:", reason, sizeof reason));
    assert_contains(reason, why);
}

TEST(limits_have_bounds_and_are_for_one_resource)
{
    names[0] = names[1] = "r";
    refuse_limit(REDLOCK_LIMIT_MAX + 1, 0, 1, "at most 64");
    refuse_limit(2, 0, 2, "one resource");
    refuse_limit(2, 3, 1, "beyond the limit");
    refuse_limit(1, 1, 1, "beyond the limit");
    assert_false(redlock_request_check(
        &(struct redlock_request){.resources = names, .resource_count = 1, .limit = 2, .shared = true}, "", reason,
        sizeof reason));
    assert_contains(reason, "a shared lock has no limit");
    for (unsigned seat = 0; seat <= REDLOCK_LIMIT_MAX; seat++)
        assert_true(redlock_request_check(
            &(struct redlock_request){
                .resources = names, .resource_count = 1, .limit = REDLOCK_LIMIT_MAX, .seat = seat},
            "", reason, sizeof reason));
    names[0] = "hf:seat:2:r"; /* a seat of r */
    refuse_limit(0, 0, 1, "begins with \"hf:seat:\"");
}

TEST(only_the_first_seat_has_the_name_of_its_resource)
{
    char name[REDLOCK_SEAT_NAME_SIZE], longest[REDLOCK_RESOURCE_BYTES_MAX + 1];
    redlock_seat_name("r", 1, name);
    assert_string_equal(name, "r");
    redlock_seat_name("r", 64, name);
    assert_string_equal(name, "hf:seat:64:r");
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    redlock_seat_name(longest, 64, name);
    assert_int_equal(strlen(name), strlen("hf:seat:64:") + REDLOCK_RESOURCE_BYTES_MAX);
}

/* E45: everybody asks for several in one order, each once. Bytes decide, whatever they are. */
TEST(resources_are_sorted_and_taken_once)
{
    static const char *const wanted[] = {"b", "\xff\xfe", "a", "b", "\x01", "a\nb", "a"};
    static const char *const expected[] = {"\x01", "a", "a\nb", "b", "\xff\xfe"};
    const char *sorted[REDLOCK_RESOURCES_MAX];
    struct redlock_request request = {.resources = wanted, .resource_count = sizeof wanted / sizeof wanted[0]};
    assert_true(redlock_request_check(&request, "", reason, sizeof reason));
    assert_int_equal(redlock_resources_sort(&request, sorted), sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_string_equal(sorted[i], expected[i]);
}

/* --- words ------------------------------------------------------------------------------------------------------- */

TEST(every_answer_and_every_ending_has_its_word)
{
    static const char *const answers[] = {
        [REDLOCK_ACQUIRED] = "acquired",   [REDLOCK_BUSY] = "busy",          [REDLOCK_SPLIT] = "split_vote",
        [REDLOCK_NO_QUORUM] = "no_quorum", [REDLOCK_TOO_SLOW] = "too_slow",  [REDLOCK_CANCELLED] = "cancelled",
        [REDLOCK_INVALID] = "invalid",     [REDLOCK_IN_DANGER] = "in_danger"};
    static const char *const endings[] = {
        [REDLOCK_RELEASED] = "released", [REDLOCK_EXPIRED] = "expired",       [REDLOCK_FOREIGN] = "foreign",
        [REDLOCK_UNKNOWN] = "unknown",   [REDLOCK_STILL_HELD] = "still_held", [REDLOCK_NOT_HELD] = "not_held"};
    for (unsigned i = 0; i < sizeof answers / sizeof answers[0]; i++)
        assert_string_equal(redlock_answer_name((enum redlock_answer)i), answers[i]);
    for (unsigned i = 0; i < sizeof endings / sizeof endings[0]; i++)
        assert_string_equal(redlock_ending_name((enum redlock_ending)i), endings[i]);
}

RUN_TESTS
