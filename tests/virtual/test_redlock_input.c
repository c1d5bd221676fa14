/* Bad input: foreign things under the names of our keys, and names that no lock may have. Each is told for what it is,
 * nothing of others is touched, and nothing is ever granted by mistake. */
#include "tests/support/private_directory.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "redlock/marker.h"
#include "redlock/redlock_nodes.h"
#include "tests/support/lock_fixture.h"

static void keys_are(unsigned count)
{
    loop_await(loop, redlock_group_busy(group) == 0);
    assert_int_equal(lock_cluster_keys(&cluster), count);
}

/* --- foreign keys (E22) ------------------------------------------------------------------------------------------- */

static const char *const clashes[] = {
    "RPUSH lock:data 1",
    "HSET lock:data field value",
    "ZADD lock:data 1 member",
    "SADD lock:data member",
    "SET lock:data report",
    "SET lock:data \"\"",
    "SET lock:data 00000000000000000000000000000000:host:1:2:test", /* ours in all but its ttl */
};

TEST(what_is_no_lock_is_busy_and_stays_and_is_told_as_a_clash)
{
    for (size_t i = 0; i < sizeof clashes / sizeof clashes[0]; i++) {
        char before[64], now[64];
        ask_first(NODES, "DEL lock:data");
        ask_first(QUORUM, clashes[i]);
        snprintf(before, sizeof before, "%s", lock_cluster_ask(&cluster, 0, "DUMP lock:data"));
        assert_int_equal(lock_probe_acquire(&mine, "data"), REDLOCK_BUSY);
        assert_string_equal(mine.reason, "something that is no lock is under its key");
        assert_int_equal(lock_probe_acquire(&mine, "a data z"), REDLOCK_BUSY);
        assert_string_equal(mine.reason, "something that is no lock is under its key");
        keys_are(QUORUM);
        snprintf(now, sizeof now, "%s", lock_cluster_ask(&cluster, 0, "DUMP lock:data"));
        assert_string_equal(now, before);
    }
}

TEST(a_clash_on_a_minority_is_a_vote_less)
{
    for (size_t i = 0; i < sizeof clashes / sizeof clashes[0]; i++) {
        ask_first(NODES, "DEL lock:data");
        ask_first(MINORITY, clashes[i]);
        assert_int_equal(lock_probe_acquire(&mine, "data"), REDLOCK_ACQUIRED);
        assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
        keys_are(MINORITY);
    }
}

TEST(a_clash_is_in_the_log_with_key_and_advice)
{
    char path[PRIVATE_DIRECTORY_MAX], text[4096] = "";
    int fd = private_file_create(path);
    assert_true(log_start(&(struct log_options){.level = LOG_INFO, .path = path}, NULL));
    ask_first(QUORUM, clashes[0]);
    enum redlock_answer answer = lock_probe_acquire(&mine, "data");
    log_stop();
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    unlink(path);
    assert_int_equal(answer, REDLOCK_BUSY);
    assert_contains(text, "lock_name_clash");
    assert_contains(text, "key=lock:data");
    assert_contains(text, "use another prefix");
}

/* A ttl of 285 000 years, in nanoseconds more than a number can hold. */
TEST(a_ttl_beyond_all_measure_is_only_long)
{
    ask_first(QUORUM, "SET lock:r 5f8c1e PX 9000000000000000");
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_BUSY);
    assert_true(mine.remaining_ns > INT64_C(365) * 24 * 3600 * NS_PER_S);
    assert_contains(mine.reason, "held by 5f8c1e for ");
    assert_int_equal(lock_probe_acquire(&mine, "a r"), REDLOCK_BUSY);
    assert_true(mine.remaining_ns > INT64_C(365) * 24 * 3600 * NS_PER_S);
    keys_are(QUORUM);
}

TEST(values_of_other_formats_are_holders_like_any_other)
{
    static const struct {
        const char *value, *holder;
    } formats[] = {
        {"00000000000000000000000000000000", "00000000000000000000000000000000"}, /* ours without an owner */
        {"0000000000000000000000000000000:x", "0000000000000000000000000000000:x"},
        {"00000000000000000000000000000000:", ""},
        {"00000000000000000000000000000000:host:1", "host:1"},
        {"{\"pid\":7}", "{\"pid\":7}"},
        {"42", "42"},
        {"-1:x", "-1:x"},
        {"\"\"", ""},
    };
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        char command[128];
        snprintf(command, sizeof command, "SET lock:r %s PX 60000",
                 formats[i].value[0] == '{' ? "\"{\\\"pid\\\":7}\"" : formats[i].value);
        ask_first(QUORUM, command);
        assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_BUSY);
        assert_string_equal(mine.holder, formats[i].holder);
        assert_in_range(mine.remaining_ns, 1, 60000 * NS_PER_MS);
        keys_are(QUORUM);
    }
}

TEST(a_value_of_a_megabyte_is_told_in_brief)
{
    ask_first(QUORUM, "EVAL \"return redis.call('SET','lock:r',string.rep('x',1048576),'PX',60000)\" 0");
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_BUSY);
    assert_in_range(strlen(mine.holder), 1, 200);
    assert_int_equal(lock_probe_acquire(&mine, "a r"), REDLOCK_BUSY);
    keys_are(QUORUM);
}

/* --- names -------------------------------------------------------------------------------------------------------- */

TEST(names_are_bytes_and_nothing_else)
{
    static const char *const names[] = {"*",        "a*",     "[ab]",     "\xff\xfe\x01", "\xc3\x28", "a\nb",
                                        "a\r\nDEL", "{slot}", "%s%n%08x", "\"quoted\"",   "'",        "\x1b[31m"};
    enum { COUNT = sizeof names / sizeof names[0] };
    struct lock_probe probes[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        struct redlock_request request = {.resources = &names[i], .resource_count = 1, .owner = "o"};
        lock_probe_create(&probes[i], loop, group, &terms);
        loop_for(loop, 0);
        assert_true(redlock_lock_acquire(probes[i].lock, &request));
        loop_await(loop, probes[i].answers == 1);
        assert_int_equal(probes[i].answer, REDLOCK_ACQUIRED); /* none of them is another one's */
    }
    for (size_t i = 0; i < COUNT; i++) {
        struct redlock_request request = {.resources = &names[i], .resource_count = 1};
        unsigned answers = theirs.answers;
        loop_for(loop, 0);
        assert_true(redlock_lock_acquire(theirs.lock, &request));
        loop_await(loop, theirs.answers > answers);
        assert_int_equal(theirs.answer, REDLOCK_BUSY);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(lock_probe_release(&probes[i]), REDLOCK_RELEASED);
        lock_probe_destroy(&probes[i]);
    }
    keys_are(0);
}

static bool is_taken(struct redlock_lock *lock, const char *resource)
{
    loop_for(loop, 0);
    return redlock_lock_acquire(lock, &(struct redlock_request){.resources = &resource, .resource_count = 1});
}

TEST(without_a_prefix_the_names_of_our_own_keys_are_refused)
{
    static const char *const ours[] = {"hf:lock:group", "hf:fence:r", "hf:", "hf:2:anything"};
    struct lock_cluster bare = cluster;
    struct lock_probe probe;
    char before[MARKER_TEXT_MAX], now[MARKER_TEXT_MAX];
    bare.options.key_prefix = NULL;
    snprintf(before, sizeof before, "%s", lock_cluster_ask(&cluster, 0, "GET " MARKER_KEY));
    struct redlock_group *unprefixed = lock_cluster_group(&bare, loop);
    lock_probe_create(&probe, loop, unprefixed, &terms);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        assert_false(is_taken(probe.lock, ours[i]));
        assert_true(redlock_lock_is_free(probe.lock));
        assert_int_equal(lock_cluster_holders(&cluster, ours[i]), i == 0 ? NODES : 0);
    }
    snprintf(now, sizeof now, "%s", lock_cluster_ask(&cluster, 0, "GET " MARKER_KEY));
    assert_string_equal(now, before);
    assert_int_equal(lock_probe_acquire(&probe, "hf"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_cluster_holders(&cluster, "hf"), NODES);
    assert_int_equal(lock_probe_release(&probe), REDLOCK_RELEASED);
    lock_probe_destroy(&probe);
    loop_await(loop, redlock_group_busy(unprefixed) == 0);
    redlock_group_destroy(unprefixed);
    assert_int_equal(lock_probe_acquire(&mine, "hf:lock:group"), REDLOCK_ACQUIRED); /* its key is lock:hf:lock:group */
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

TEST(a_prefix_that_could_make_keys_of_ours_makes_no_group)
{
    static const char *const prefixes[] = {"hf:", "hf:lock:", "hf", "h"};
    char reason[256];
    struct redlock_options options = cluster.options;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        options.key_prefix = prefixes[i];
        assert_null(redlock_group_create(loop, &options, reason, sizeof reason));
        assert_contains(reason, "begin with \"hf:\"");
        assert_null(redlock_client_open(&options, reason, sizeof reason));
        assert_contains(reason, "begin with \"hf:\"");
    }
}

/* --- through the blocking client ----------------------------------------------------------------------------- */

static struct redlock_client *client;
static char why[256];

static void refused(const char *const *resources, size_t count, const struct redlock_terms *under, const char *reason)
{
    struct redlock_request request = {.resources = resources, .resource_count = count};
    struct redlock_held *held = NULL;
    assert_int_equal(redlock_client_acquire(client, under, &request, &held, why, sizeof why), REDLOCK_INVALID);
    assert_null(held);
    assert_contains(why, reason);
}

TEST(the_client_says_which_limit_was_broken)
{
    char longest[REDLOCK_RESOURCE_BYTES_MAX + 2];
    const char *names[REDLOCK_RESOURCES_MAX + 1];
    struct redlock_terms sound = quick_terms(10000, 1), wrong = sound;
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    for (size_t i = 0; i <= REDLOCK_RESOURCES_MAX; i++)
        names[i] = "r";
    struct redlock_options options = cluster.options;
    options.key_prefix = "";
    client = redlock_client_open(&options, why, sizeof why);
    assert_non_null(client);
    refused(names, 0, &sound, "no resource was named");
    refused(names, REDLOCK_RESOURCES_MAX + 1, &sound, "17 resources: one lock has at most 16");
    names[1] = "";
    refused(names, 2, &sound, "resource 2 has no name");
    names[1] = longest;
    refused(names, 2, &sound, "resource 2 is longer than 512 bytes");
    names[1] = "hf:fence:r";
    refused(names, 2, &sound, "resource 2 begins with \"hf:\"");
    wrong.ttl_ms = 499;
    refused(names, 1, &wrong, "ttl must be from 500 ms to 60 s");
    redlock_client_close(client);
    keys_are(0);
}

/* --- NULL ----------------------------------------------------------------------------------------------------- */

TEST(null_opens_nothing_and_is_named)
{
    struct redlock_options unnamed = {.node_count = 3};
    struct redlock_terms sound = quick_terms(10000, 1);
    assert_null(redlock_client_open(NULL, why, sizeof why));
    assert_string_equal(why, "the options are NULL");
    assert_null(redlock_client_open(&unnamed, why, sizeof why));
    assert_string_equal(why, "the lock nodes are NULL");
    assert_null(redlock_client_open(NULL, NULL, 100));
    assert_null(redlock_nodes_open(NULL, why, sizeof why));
    assert_string_equal(why, "the options are NULL");
    assert_null(redlock_group_create(NULL, &cluster.options, why, sizeof why));
    assert_string_equal(why, "the loop is NULL");
    assert_null(redlock_group_create(loop, NULL, why, sizeof why));
    assert_string_equal(why, "the options are NULL");
    assert_false(redlock_terms_check(NULL, &cluster.options, why, sizeof why));
    assert_string_equal(why, "the terms are NULL");
    assert_false(redlock_terms_check(&sound, NULL, why, sizeof why));
    assert_string_equal(why, "the options are NULL");
    assert_false(redlock_terms_check(&sound, &unnamed, why, sizeof why));
    assert_string_equal(why, "the lock nodes are NULL");
}

TEST(null_is_no_request_to_the_client)
{
    static const char *const name = "r";
    struct redlock_terms sound = quick_terms(10000, 1);
    struct redlock_request request = {.resources = &name, .resource_count = 1}, nothing = {.resource_count = 1};
    struct redlock_held *held = NULL;
    struct redlock_counters counted = {.attempts = 7};
    client = redlock_client_open(&cluster.options, NULL, 0);
    const struct {
        struct redlock_client *client;
        const struct redlock_terms *terms;
        const struct redlock_request *request;
        struct redlock_held **held;
        const char *reason;
    } cases[] = {
        {NULL, &sound, &request, &held, "NULL is given as the client"},
        {client, &sound, NULL, &held, "NULL is given as the request"},
        {client, &sound, &request, NULL, "NULL is given as the place for what is held"},
        {client, &sound, &nothing, &held, "the resources are NULL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        held = (struct redlock_held *)why;
        assert_int_equal(
            redlock_client_acquire(cases[i].client, cases[i].terms, cases[i].request, cases[i].held, why, sizeof why),
            REDLOCK_INVALID);
        assert_string_equal(why, cases[i].reason);
        assert_true(cases[i].held == NULL || held == NULL);
    }
    assert_int_equal(redlock_client_acquire(client, &sound, &nothing, &held, NULL, 100), REDLOCK_INVALID);
    redlock_client_counters(client, NULL);
    redlock_client_counters(NULL, &counted);
    assert_int_equal(counted.attempts, 0);
    redlock_client_close(client);
    redlock_client_close(NULL);
    keys_are(0);
}

TEST(null_is_a_hold_that_is_lost)
{
    assert_int_equal(redlock_held_valid_for_ms(NULL), 0);
    assert_true(redlock_held_in_danger(NULL));
    assert_int_equal(redlock_held_token(NULL), 0);
    assert_false(redlock_held_verify(NULL));
    assert_int_equal(redlock_held_descriptor(NULL), -1);
    assert_int_equal(redlock_client_release(NULL, REDLOCK_AWAIT), REDLOCK_NOT_HELD);
    assert_int_equal(redlock_validity_left_ns(NULL), 0);
    assert_true(redlock_validity_in_danger(NULL));
    assert_int_equal(redlock_validity_descriptor(NULL), -1);
}

static void heard(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    (void)lock, (void)context, (void)event;
}

TEST(null_is_a_lock_that_is_free)
{
    struct redlock_verify verify = {.done = NULL};
    assert_null(redlock_lock_create(NULL, &terms, heard, NULL));
    assert_null(redlock_lock_create(group, NULL, heard, NULL));
    assert_null(redlock_lock_create(group, &terms, NULL, NULL));
    assert_false(redlock_lock_acquire(NULL, &(struct redlock_request){0}));
    assert_false(redlock_lock_acquire(mine.lock, NULL));
    assert_false(redlock_lock_acquire(mine.lock, &(struct redlock_request){.resource_count = 1}));
    redlock_lock_tell_to(NULL, heard, NULL);
    redlock_lock_tell_to(mine.lock, NULL, NULL);
    redlock_lock_release(NULL);
    redlock_lock_linger(NULL, 1);
    redlock_lock_forfeit(NULL);
    redlock_lock_publish_to(NULL, NULL);
    redlock_lock_verify(NULL, &verify);
    redlock_lock_verify(mine.lock, NULL);
    redlock_lock_verify(mine.lock, &verify);
    redlock_lock_verify_cancel(NULL, &verify);
    redlock_lock_verify_cancel(mine.lock, NULL);
    redlock_lock_destroy(NULL);
    assert_true(redlock_lock_is_free(NULL));
    assert_null(redlock_lock_validity(NULL));
    assert_int_equal(redlock_lock_token(NULL), 0);
    assert_int_equal(redlock_lock_hold_until(NULL).ns, INSTANT_NEVER.ns);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED); /* it still hears of it */
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

TEST(null_is_a_group_without_nodes)
{
    struct redlock_group_status standing = {.nodes = 7};
    redlock_group_status_read(NULL, &standing);
    assert_int_equal(standing.nodes, 0);
    redlock_group_status_read(group, NULL);
    redlock_group_status_read(group, &standing);
    assert_true(standing.nodes == NODES && standing.up == NODES && standing.voters == NODES);
    assert_null(redlock_group_counters(NULL));
    assert_null(redlock_group_node_counters(NULL, 0));
    assert_null(redlock_group_extensions(NULL));
    assert_int_equal(redlock_group_nodes_up(NULL), 0);
    assert_int_equal(redlock_group_voters(NULL), 0);
    assert_int_equal(redlock_group_busy(NULL), 0);
    assert_false(redlock_group_is_settled(NULL));
    redlock_group_destroy(NULL);
}

TEST(null_is_a_session_that_refuses)
{
    struct redlock_holder holders[REDLOCK_HOLDERS_MAX];
    assert_int_equal(redlock_nodes_look(NULL), REDLOCK_NODES_REFUSED);
    assert_int_equal(redlock_nodes_compare_clocks(NULL, 1), REDLOCK_NODES_REFUSED);
    assert_int_equal(redlock_nodes_init(NULL, &(struct redlock_group_terms){0}), REDLOCK_NODES_REFUSED);
    assert_int_equal(redlock_nodes_heal(NULL, NULL, 0), REDLOCK_NODES_REFUSED);
    assert_int_equal(redlock_nodes_replace(NULL, 0, &cluster.options.nodes[0]), REDLOCK_NODES_REFUSED);
    assert_int_equal(redlock_nodes_find(NULL, "r"), REDLOCK_NODES_REFUSED);
    assert_int_equal(redlock_nodes_seats(NULL, "r", (unsigned[REDLOCK_LIMIT_MAX]){0}), 0);
    assert_int_equal(redlock_nodes_take(NULL, "r"), REDLOCK_NODES_REFUSED);
    assert_string_equal(redlock_nodes_reason(NULL), "the session is NULL");
    redlock_nodes_watch(NULL, NULL, NULL);
    assert_null(redlock_nodes_view(NULL, 0));
    assert_null(redlock_nodes_key(NULL, 0));
    assert_int_equal(redlock_nodes_group(NULL).nodes, 0);
    assert_int_equal(redlock_nodes_holders(NULL, holders), 0);
    redlock_nodes_close(NULL);
}

static bool has_no_rate(const struct redlock_node_view *view)
{
    return view->rate_least_ppm == INT64_MIN && view->rate_most_ppm == INT64_MAX;
}

static bool goes_on_while(void *context, const char *what, int64_t left_ms)
{
    assert_string_equal(what, "comparing the clocks");
    assert_true(left_ms > 0);
    return *(bool *)context;
}

TEST(rates_of_clocks_are_known_after_looks)
{
    bool goes_on = true;
    struct redlock_nodes *nodes = redlock_nodes_open(&cluster.options, why, sizeof why);
    redlock_nodes_watch(nodes, goes_on_while, &goes_on);
    redlock_nodes_compare_clocks(nodes, 20);
    for (size_t i = 0; i < NODES; i++) { /* their clocks are ours */
        const struct redlock_node_view *view = redlock_nodes_view(nodes, i);
        assert_true(view->rate_least_ppm > INT64_MIN && view->rate_most_ppm < INT64_MAX);
        assert_true(view->rate_least_ppm < 1000 && view->rate_most_ppm > -1000);
    }
    redlock_nodes_look(nodes);
    assert_true(has_no_rate(redlock_nodes_view(nodes, 0)));
    goes_on = false;
    assert_int_equal(redlock_nodes_compare_clocks(nodes, 100000), REDLOCK_NODES_WAITING);
    assert_true(redlock_nodes_view(nodes, 0)->is_reached && has_no_rate(redlock_nodes_view(nodes, 0)));
    redlock_nodes_close(nodes);
}

TEST(a_session_refuses_null)
{
    struct redlock_node nowhere = {.port = 1};
    struct redlock_nodes *nodes = redlock_nodes_open(&cluster.options, why, sizeof why);
    assert_int_equal(redlock_nodes_init(nodes, NULL), REDLOCK_NODES_REFUSED);
    assert_string_equal(redlock_nodes_reason(nodes), "the terms of the group are NULL");
    assert_int_equal(redlock_nodes_replace(nodes, 0, NULL), REDLOCK_NODES_REFUSED);
    assert_string_equal(redlock_nodes_reason(nodes), "the new server: it is NULL");
    assert_int_equal(redlock_nodes_replace(nodes, 0, &nowhere), REDLOCK_NODES_REFUSED);
    assert_contains(redlock_nodes_reason(nodes), "has neither a host nor a unix socket");
    assert_int_equal(redlock_nodes_find(nodes, NULL), REDLOCK_NODES_REFUSED);
    assert_string_equal(redlock_nodes_reason(nodes), "the resource is NULL");
    assert_int_equal(redlock_nodes_take(nodes, NULL), REDLOCK_NODES_REFUSED);
    assert_string_equal(redlock_nodes_reason(nodes), "the resource is NULL");
    assert_int_equal(redlock_nodes_holders(nodes, NULL), 0);
    assert_null(redlock_nodes_view(nodes, NODES));
    assert_null(redlock_nodes_key(nodes, NODES));
    redlock_nodes_close(nodes);
}

TEST(who_holds_a_lock_is_found_and_loses_it)
{
    struct redlock_holder holders[REDLOCK_HOLDERS_MAX];
    struct redlock_nodes *nodes = redlock_nodes_open(&cluster.options, why, sizeof why);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:r") == NODES);
    lock_cluster_ask(&cluster, 1, "SET lock:r other PX 60000");
    assert_int_equal(redlock_nodes_find(nodes, "r"), REDLOCK_NODES_DONE);
    assert_int_equal(redlock_nodes_holders(nodes, holders), 2);
    assert_int_equal(holders[0].standing, REDLOCK_HELD);
    assert_int_equal(holders[0].nodes, NODES - 1);
    assert_int_equal(holders[0].votes, NODES - 1);
    assert_true(holders[0].token == redlock_lock_token(mine.lock));
    assert_in_range(holders[0].remaining_ms, 1, 10000);
    assert_int_equal(strncmp(holders[0].owner, "host:1:2:test", strlen("host:1:2:test")), 0);
    assert_int_equal(holders[1].standing, REDLOCK_LEFTOVER);
    assert_int_equal(holders[1].node, 1);
    assert_true(holders[1].token == 0);
    assert_null(holders[1].owner);
    assert_string_equal(redlock_nodes_key(nodes, 1)->value, "other");
    assert_int_equal(redlock_nodes_take(nodes, "r"), REDLOCK_NODES_DONE);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
    assert_int_equal(redlock_nodes_find(nodes, "r"), REDLOCK_NODES_DONE);
    assert_int_equal(redlock_nodes_holders(nodes, holders), 0);
    redlock_nodes_close(nodes);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_EXPIRED);
}

/* The largest durations that a caller can write mean "for ever", and not a moment long ago. */
TEST(limits_at_their_ends_work)
{
    struct lock_cluster patient = cluster;
    struct lock_probe probe;
    struct redlock_terms longest = quick_terms(60000, 1000);
    longest.wait_ms = longest.max_hold_ms = INT64_MAX;
    patient.options.drift_factor = 0.1;
    longest.retry_delay_ms = longest.retry_jitter_ms = 60000;
    struct redlock_group *group_of_patient = lock_cluster_group(&patient, loop);
    lock_probe_create(&probe, loop, group_of_patient, &longest);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    lock_probe_ask(&probe, "r");
    loop_await(loop, redlock_group_counters(group_of_patient)->attempts > 0);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    loop_await(loop, probe.answers == 1);
    assert_int_equal(probe.answer, REDLOCK_ACQUIRED);
    assert_true(redlock_validity_left_ns(redlock_lock_validity(probe.lock)) > REDLOCK_MS(30000));
    assert_false(redlock_validity_in_danger(redlock_lock_validity(probe.lock)));
    assert_int_equal(lock_probe_release(&probe), REDLOCK_RELEASED);
    lock_probe_destroy(&probe);
    loop_await(loop, redlock_group_busy(group_of_patient) == 0);
    redlock_group_destroy(group_of_patient);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, lock_set_up, lock_tear_down)
