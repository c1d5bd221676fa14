/* Which of the real servers behind a running group may vote: nodes that forget, that evict, whose clock is set. No
 * grant of theirs is counted, the others carry on, and the reason is told. The wrong nodes are in
 * test_redlock_members.c, the rules as such in the unit tests of trust. */
#include "tests/support/private_directory.h"
#include "tests/support/stepped_clock.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redlock/scripts.h"
#include "redlock/trust.h"
#include "tests/support/lock_fixture.h"
#include "tests/support/lock_group.h"
#include "tests/support/relay.h"

enum { MAX_TTL_MS = 2500, LONG_MAX_TTL_MS = 5000, TTL_MS = 4 * CLUSTER_TIMEOUT_MS };

static int all_set_up(void **state)
{
    (void)state;
    lock_cluster_start_group(&cluster, NODES, MAX_TTL_MS);
    return 0;
}

static void terms_change(int64_t ttl_ms, unsigned tries)
{
    locks_destroy();
    terms = quick_terms(ttl_ms, tries);
    lock_probe_create(&mine, loop, group, &terms);
    lock_probe_create(&theirs, loop, other_group, &terms);
}

static int set_up(void **state)
{
    cluster.max_ttl_ms = MAX_TTL_MS;
    (void)lock_set_up(state);
    terms_change(TTL_MS, 1);
    return 0;
}

#define trust_test(function) cmocka_unit_test_setup_teardown(function, set_up, lock_tear_down)

static unsigned voters(void)
{
    return redlock_group_voters(group);
}

static void marker_text_of(unsigned node, char text[MARKER_TEXT_MAX])
{
    struct marker marker = lock_group_marker(cluster.servers[node], node, NODES, cluster.max_ttl_ms);
    marker_write(&marker, text);
}

static bool is_marked_as_before(unsigned node)
{
    char text[MARKER_TEXT_MAX];
    marker_text_of(node, text);
    return strcmp(lock_cluster_ask(&cluster, node, "GET " MARKER_KEY), text) == 0;
}

/* How many markers, its own among them, give a place to this run of the server. */
static unsigned servers_that_name(struct redis_server *server)
{
    unsigned count = 0;
    char id[MARKER_ID_DIGITS + 1];
    char *info = redis_server_command(server, "INFO server");
    memcpy(id, strstr(info, "run_id:") + strlen("run_id:"), MARKER_ID_DIGITS);
    id[MARKER_ID_DIGITS] = '\0';
    free(info);
    for (unsigned i = 0; i < NODES; i++) {
        struct redis_server *at = i == 0 ? server : cluster.servers[i];
        char *marker = redis_server_command(at, "GET " MARKER_KEY);
        const char *places = strstr(marker, " places=");
        count += places != NULL && strstr(places, id) != NULL;
        free(marker);
    }
    return count;
}

static bool is_marked(unsigned node)
{
    return strcmp(lock_cluster_ask(&cluster, node, "EXISTS " MARKER_KEY), "1") == 0;
}

/* In one step, because the node may be healed at any moment: a lock is there although no marker is. */
static bool has_lock_without_marker(unsigned node)
{
    const char *both = lock_cluster_ask(
        &cluster, node, "EVAL \"return redis.call('EXISTS',KEYS[1])..#redis.call('KEYS','lock:*')\" 1 " MARKER_KEY);
    return both[0] == '0' && both[1] != '0';
}

/* The group reconnects to it, and so inspects it now. */
static void look_at(unsigned node)
{
    lock_cluster_ask(&cluster, node, "CLIENT KILL TYPE normal SKIPME yes");
}

/* That a server or this process stands still for a while is the machine's affair: nothing is learned of trust then. */

static uint64_t timeouts(void)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < NODES; i++)
        count += redlock_group_node_counters(group, i)->timeouts;
    return count;
}

struct stretch {
    struct instant began;
    uint64_t timeouts;
};

static struct stretch stretch_begin(void)
{
    return (struct stretch){instant_now(), timeouts()};
}

static bool all_went_on(const struct stretch *since)
{
    return timeouts() == since->timeouts && instant_since(since->began, instant_now()) < REDLOCK_MS(TTL_MS / 2);
}

/* Asks again when it was refused although enough nodes may vote. */
static enum redlock_answer acquire(struct lock_probe *probe, const char *resource)
{
    struct instant give_up_at = instant_after(instant_now(), TEST_PATIENCE_NS);
    for (;;) {
        enum redlock_answer answer = lock_probe_acquire(probe, resource);
        bool was_slow = answer == REDLOCK_TOO_SLOW || (answer == REDLOCK_NO_QUORUM && voters() >= QUORUM);
        if (!was_slow || instant_reached(instant_now(), give_up_at))
            return answer;
    }
}

/* `held`: since before it was acquired, or while it was certain. */
static void release_mine(const struct stretch *held)
{
    enum redlock_ending ending = lock_probe_release(&mine);
    if (all_went_on(held))
        assert_int_equal(ending, REDLOCK_RELEASED);
}

static void cycles_go_on(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct stretch cycle = stretch_begin();
        /* While a server is being recorded too few may vote for a moment. */
        loop_await(loop, acquire(&mine, "r") == REDLOCK_ACQUIRED);
        release_mine(&cycle);
    }
    loop_await(loop, redlock_group_busy(group) == 0);
}

/* Nothing is granted, nothing stays, and the words tell why. */
static void no_quorum_for(const char *why)
{
    struct stretch attempt = stretch_begin();
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_NO_QUORUM);
    assert_contains(mine.reason, why);
    loop_await(loop, redlock_group_busy(group) == 0);
    if (all_went_on(&attempt))
        assert_int_equal(lock_cluster_keys(&cluster), 0);
    loop_await(loop, lock_cluster_keys(&cluster) == 0);
}

static void group_close(struct redlock_group *of)
{
    loop_await(loop, redlock_group_busy(of) == 0);
    redlock_group_destroy(of);
}

/* --- nodes that forget ------------------------------------------------------------------------------------------ */

static void a_node_that_comes_back_empty_is_healed_by_who_saw_it_before_and_trusted_by_who_comes_later(void **state)
{
    (void)state;
    cycles_go_on(1);
    redis_server_restart(cluster.servers[0]);
    struct instant empty_since = instant_now();
    struct redlock_group *later = lock_cluster_group(&cluster, loop);
    loop_await(loop, voters() == NODES - 1);
    if (!is_marked(0))
        assert_true(redlock_group_voters(later) < NODES);
    do {
        cycles_go_on(1);
        assert_false(has_lock_without_marker(0));
    } while (voters() < NODES);
    assert_true(instant_since(empty_since, instant_now()) >= REDLOCK_MS(MAX_TTL_MS));
    assert_int_equal(servers_that_name(cluster.servers[0]), NODES);
    loop_await(loop, redlock_group_voters(later) == NODES);
    group_close(later);
}

/* For one of two clients. The old server and the new one never vote both, and nothing is written on the new one before
 * the others know of it. */
static void an_address_that_moves_to_an_empty_server_while_the_old_one_lives_on(void **state)
{
    (void)state;
    struct redis_server *fresh = redis_server_start(NULL);
    struct relay *relay = relay_start(redis_server_port(cluster.servers[0]));
    struct lock_cluster seen = cluster;
    seen.options.nodes = seen.nodes;
    seen.nodes[0].host = "127.0.0.1";
    seen.nodes[0].unix_path = NULL;
    seen.nodes[0].port = relay_port(relay);
    struct redlock_group *moved = lock_cluster_group(&seen, loop);
    loop_await(loop, redlock_group_voters(moved) == NODES && voters() == NODES);
    relay_lead_to(relay, redis_server_port(fresh));
    loop_await(loop, redlock_group_voters(moved) < NODES);
    struct instant moved_at = instant_now();
    while (redlock_group_voters(moved) < NODES || voters() == NODES) {
        cycles_go_on(1); /* whoever asks for locks learns it at once, the idle within seconds */
        assert_false(redlock_group_voters(moved) == NODES && voters() == NODES);
        char *marker = redis_server_command(fresh, "EXISTS " MARKER_KEY);
        if (strcmp(marker, "1") == 0)
            assert_true(servers_that_name(fresh) > QUORUM);
        free(marker);
    }
    assert_true(instant_since(moved_at, instant_now()) >= REDLOCK_MS(MAX_TTL_MS));
    assert_int_equal(servers_that_name(fresh), NODES);
    assert_int_equal(voters(), NODES - 1);
    assert_true(is_marked_as_before(0)); /* the old one was told nothing */
    group_close(moved);
    relay_destroy(relay);
    redis_server_destroy(fresh);
}

static void who_never_saw_the_node_with_a_marker_heals_nothing(void **state)
{
    (void)state;
    group_end();
    redis_server_restart(cluster.servers[0]);
    group_start();
    terms_change(TTL_MS, 1);
    struct instant end = instant_after(instant_now(), REDLOCK_MS(3 * MAX_TTL_MS));
    while (instant_before(instant_now(), end)) {
        cycles_go_on(10);
        loop_for(loop, REDLOCK_MS(50));
        assert_int_equal(voters(), NODES - 1);
    }
    assert_false(is_marked(0));
}

/* A dry run beside a live fleet is a guest: neither a doubt nor the end of its quarantine is written by it, however
 * long there is nobody else; and it trusts the node again when somebody has healed it. */
static void a_guest_heals_nothing_and_goes_on_when_others_did(void **state)
{
    (void)state;
    group_end();
    cluster.options.is_guest = true;
    group_start();
    cluster.options.is_guest = false;
    terms_change(TTL_MS, 1);
    cycles_go_on(1);
    lock_cluster_ask(&cluster, 0, "FLUSHALL");
    struct instant end = instant_after(instant_now(), REDLOCK_MS(3 * MAX_TTL_MS));
    while (instant_before(instant_now(), end)) {
        cycles_go_on(10);
        loop_for(loop, REDLOCK_MS(50));
        assert_false(is_marked(0));
    }
    assert_int_equal(voters(), NODES - 1);
    lock_cluster_mark(&cluster, 0);
    look_at(0);
    loop_await(loop, voters() == NODES);
}

/* With a ttl that outlasts it when this process stands still. */
static void a_flushed_node_gives_no_vote_until_everything_it_forgot_has_expired(void **state)
{
    (void)state;
    group_end();
    cluster.max_ttl_ms = LONG_MAX_TTL_MS;
    lock_cluster_heal(&cluster);
    group_start();
    terms_change(LONG_MAX_TTL_MS, 1);
    assert_int_equal(acquire(&mine, "kept"), REDLOCK_ACQUIRED);
    loop_await(loop, lock_cluster_holders(&cluster, "lock:kept") == NODES);
    for (unsigned i = 0; i < MINORITY; i++)
        lock_cluster_ask(&cluster, i, "FLUSHALL");
    struct instant empty_since = instant_now();
    while (voters() == NODES)
        assert_int_equal(acquire(&theirs, "kept"), REDLOCK_BUSY);
    while (voters() < NODES)
        assert_int_equal(acquire(&theirs, "kept"), REDLOCK_BUSY);
    assert_true(instant_since(empty_since, instant_now()) >= REDLOCK_MS(LONG_MAX_TTL_MS));
    for (unsigned i = 0; i < MINORITY; i++)
        assert_true(is_marked_as_before(i));
    struct stretch end = stretch_begin();
    assert_int_equal(mine.losses, 0);
    release_mine(&end);
    cycles_go_on(3);
}

/* A majority forgot: nothing can be locked for one quarantine, and then again. */
static void a_flushed_majority_is_no_quorum_and_comes_back(void **state)
{
    (void)state;
    cycles_go_on(1);
    ask_first(QUORUM, "FLUSHALL");
    struct instant empty_since = instant_now();
    unsigned refused = 0;
    while (acquire(&mine, "r") == REDLOCK_NO_QUORUM) {
        refused++;
        loop_for(loop, REDLOCK_MS(2));
    }
    assert_int_equal(mine.answer, REDLOCK_ACQUIRED);
    assert_true(refused > 0);
    assert_true(instant_since(empty_since, instant_now()) >= REDLOCK_MS(MAX_TTL_MS));
    struct stretch end = stretch_begin();
    release_mine(&end);
}

/* --- the marker and the vote are one step (H3) ------------------------------------------------------------------ */

static void marker_change(unsigned node, void (*change)(struct marker *marker))
{
    struct marker marker = lock_group_marker(cluster.servers[node], node, NODES, MAX_TTL_MS);
    change(&marker);
    lock_group_mark(cluster.servers[node], &marker);
}

static void group_changes(struct marker *marker)
{
    marker->group[0] = 'f';
}

static void run_changes(struct marker *marker)
{
    marker->run[0] = marker->run[0] == '0' ? '1' : '0';
}

static void run_is_nobodys(struct marker *marker)
{
    marker->run[0] = '\0';
}

static void ttl_changes(struct marker *marker)
{
    marker->max_ttl_ms = 60000;
}

static void a_marker_that_changes_between_two_acquires_takes_the_vote_with_it(void **state)
{
    (void)state;
    static void (*const changes[])(struct marker *) = {group_changes, run_changes, run_is_nobodys, ttl_changes};
    for (size_t change = 0; change < sizeof changes / sizeof changes[0]; change++) {
        group_end();
        lock_cluster_heal(&cluster);
        group_start();
        terms_change(TTL_MS, 1);
        cycles_go_on(1);
        for (unsigned i = 0; i < QUORUM; i++)
            marker_change(i, changes[change]);
        no_quorum_for("too few lock nodes may vote");
    }
}

static void what_is_no_marker_excludes_and_is_told(void **state)
{
    (void)state;
    static const char *const others[] = {"RPUSH " MARKER_KEY " 1", "SET " MARKER_KEY " hello",
                                         "SET " MARKER_KEY " \"\""};
    char text[MARKER_TEXT_MAX];
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        ask_first(QUORUM, "DEL " MARKER_KEY);
        ask_first(QUORUM, others[i]);
        assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_NO_QUORUM);
        loop_await(loop, voters() == MINORITY);
        if (i < 2)
            no_quorum_for("bad_marker");
    }
    for (unsigned i = 0; i < QUORUM; i++) {
        marker_text_of(i, text);
        lock_cluster_ask(&cluster, i, "SET " MARKER_KEY " \"%s\\x00\"", text); /* one byte more, which C does not see */
        look_at(i);
    }
    loop_await(loop, lock_probe_acquire(&mine, "r") == REDLOCK_NO_QUORUM && strstr(mine.reason, "bad_marker") != NULL);
    no_quorum_for("bad_marker");
    assert_int_equal(voters(), MINORITY);
}

/* --- nodes that evict (E21) ------------------------------------------------------------------------------------- */

static void configure(unsigned node, const char *maxmemory, const char *policy)
{
    assert_string_equal(lock_cluster_ask(&cluster, node, "CONFIG SET maxmemory-policy %s", policy), "OK");
    assert_string_equal(lock_cluster_ask(&cluster, node, "CONFIG SET maxmemory %s", maxmemory), "OK");
    look_at(node);
}

static void a_node_that_may_evict_has_no_vote_while_it_does_and_for_one_quarantine(void **state)
{
    (void)state;
    cycles_go_on(1);
    configure(0, "100mb", "allkeys-lru");
    loop_await(loop, voters() == NODES - 1 && redlock_group_nodes_up(group) == NODES);
    cycles_go_on(3);
    for (unsigned i = 1; i < QUORUM; i++)
        configure(i, "100mb", i == 1 ? "volatile-ttl" : "allkeys-random");
    loop_await(loop, voters() == MINORITY && redlock_group_nodes_up(group) == NODES);
    no_quorum_for("(evicts)");
    struct instant safe_since = instant_now();
    for (unsigned i = 0; i < QUORUM; i++)
        configure(i, "100mb", "noeviction");
    loop_await(loop, voters() == NODES);
    assert_true(instant_since(safe_since, instant_now()) >= REDLOCK_MS(MAX_TTL_MS));
    cycles_go_on(3);
    for (unsigned i = 0; i < QUORUM; i++)
        assert_true(is_marked_as_before(i));
}

/* What an inspection says of eviction, in the third of its lines. */
static bool is_said_to_evict(unsigned node)
{
    const char *reply = lock_cluster_ask(&cluster, node, "EVALSHA %s 1 " MARKER_KEY, redlock_script_inspect.sha1);
    const char *run_id = strchr(reply, '\n');
    assert_non_null(run_id);
    const char *evicts = strchr(run_id + 1, '\n');
    assert_true(evicts != NULL && (evicts[1] == '0' || evicts[1] == '1'));
    return evicts[1] == '1';
}

static void a_node_evicts_when_it_has_both_a_limit_and_a_policy(void **state)
{
    (void)state;
    configure(0, "0", "allkeys-lru");
    assert_false(is_said_to_evict(0));
    configure(0, "100mb", "volatile-lru");
    assert_true(is_said_to_evict(0));
    configure(0, "100mb", "noeviction");
    assert_false(is_said_to_evict(0));
}

/* --- limits and clocks ------------------------------------------------------------------------------------------ */

static void a_ttl_above_the_groups_longest_is_invalid_and_sends_nothing(void **state)
{
    (void)state;
    char reason[256];
    struct redlock_held *held = NULL;
    const char *resource = "r";
    struct redlock_request request = {.resources = &resource, .resource_count = 1};
    terms_change(MAX_TTL_MS + 1, 1);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_INVALID);
    assert_contains(mine.reason, "its ttl of 2501 ms is above the max_ttl of the lock group, 2500 ms");
    assert_true(redlock_lock_is_free(mine.lock));
    assert_int_equal(redlock_group_counters(group)->invalid, 1);
    lock_probe_ask(&mine, "r"); /* and given up before the answer */
    redlock_lock_release(mine.lock);
    assert_int_equal(mine.answer, REDLOCK_CANCELLED);
    struct redlock_client *client = redlock_client_open(&cluster.options, reason, sizeof reason);
    assert_non_null(client);
    assert_int_equal(redlock_client_acquire(client, &terms, &request, &held, reason, sizeof reason), REDLOCK_INVALID);
    assert_contains(reason, "its ttl of 2501 ms is above the max_ttl of the lock group, 2500 ms");
    redlock_client_close(client);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
    terms_change(MAX_TTL_MS, 1);
    cycles_go_on(1);
}

/* What the group allows is known only when its nodes have been inspected. */
static void a_ttl_above_the_groups_longest_is_invalid_when_it_was_asked_for_before_any_node_was_seen(void **state)
{
    (void)state;
    char reason[256];
    struct lock_probe early;
    struct redlock_terms longer = quick_terms(MAX_TTL_MS + 1, 1000);
    struct redlock_group *fresh = redlock_group_create(loop, &cluster.options, reason, sizeof reason);
    assert_non_null(fresh);
    lock_probe_create(&early, loop, fresh, &longer);
    assert_int_equal(lock_probe_acquire(&early, "r"), REDLOCK_INVALID);
    assert_contains(early.reason, "its ttl of 2501 ms is above the max_ttl of the lock group, 2500 ms");
    assert_true(redlock_group_voters(fresh) > 0);
    lock_probe_destroy(&early);
    redlock_group_destroy(fresh);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
}

static char clock_path[PRIVATE_DIRECTORY_MAX];

static void clock_step(int64_t offset_ns)
{
    int file = open(clock_path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(file, &offset_ns, sizeof offset_ns), sizeof offset_ns);
    close(file);
}

/* The first server again, with a clock that can be set; its marker knows the new run. */
static void restart_with_a_clock_of_its_own(void)
{
    close(private_file_create(clock_path));
    clock_step(0);
    stepped_clock_enter(clock_path);
    redis_server_restart(cluster.servers[0]);
    stepped_clock_leave();
    lock_cluster_heal(&cluster);
}

/* E36: keys expire by the clock of the node, so a step forward forgets them. */
static void a_node_whose_clock_steps_is_quarantined(void **state)
{
    (void)state;
    group_end();
    restart_with_a_clock_of_its_own();
    group_start();
    terms_change(TTL_MS, 1);
    cycles_go_on(3);
    assert_int_equal(voters(), NODES);
    clock_step(20 * NS_PER_S);
    struct instant stepped = instant_now(), give_up_at = instant_after(stepped, TEST_PATIENCE_NS);
    while (voters() == NODES && !instant_reached(instant_now(), give_up_at))
        cycles_go_on(1);
    assert_int_equal(voters(), NODES - 1);
    loop_await(loop, voters() == NODES);
    assert_true(instant_since(stepped, instant_now()) >= REDLOCK_MS(MAX_TTL_MS));
    assert_true(is_marked_as_before(0));
    group_end();
    redis_server_restart(cluster.servers[0]);
    unlink(clock_path);
    lock_cluster_heal(&cluster);
    group_start();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        trust_test(a_node_that_comes_back_empty_is_healed_by_who_saw_it_before_and_trusted_by_who_comes_later),
        trust_test(an_address_that_moves_to_an_empty_server_while_the_old_one_lives_on),
        trust_test(who_never_saw_the_node_with_a_marker_heals_nothing),
        trust_test(a_guest_heals_nothing_and_goes_on_when_others_did),
        trust_test(a_flushed_node_gives_no_vote_until_everything_it_forgot_has_expired),
        trust_test(a_flushed_majority_is_no_quorum_and_comes_back),
        trust_test(a_marker_that_changes_between_two_acquires_takes_the_vote_with_it),
        trust_test(what_is_no_marker_excludes_and_is_told),
        trust_test(a_node_that_may_evict_has_no_vote_while_it_does_and_for_one_quarantine),
        trust_test(a_node_evicts_when_it_has_both_a_limit_and_a_policy),
        trust_test(a_ttl_above_the_groups_longest_is_invalid_and_sends_nothing),
        trust_test(a_node_evicts_when_it_has_both_a_limit_and_a_policy),
        trust_test(a_ttl_above_the_groups_longest_is_invalid_when_it_was_asked_for_before_any_node_was_seen),
        trust_test(a_node_whose_clock_steps_is_quarantined),
    };
    return cmocka_run_group_tests(tests, all_set_up, one_cluster_tear_down);
}
