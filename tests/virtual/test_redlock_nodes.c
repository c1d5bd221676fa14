/* Making a lock group, every reason not to, looking at it, healing its nodes and replacing one, with the calls of
 * redlock_nodes.h. What comes next in which state is in tests/unit/test_membership.c; what `holdfast nodes` makes of it
 * is in tests/integration/test_nodes_command.c. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redlock/lease.h"
#include "redlock/limits.h"
#include "redlock/redlock_nodes.h"
#include "tests/support/lock_group.h"

enum { MEMBERS = 3, NEW = 3, SERVERS = 5, MAX_TTL_MS = 1000 };

#define OTHERS_RETURN_NS (6 * NS_PER_S) /* for so long a lost marker may come back by itself */
#define LOOK_NS          (250 * NS_PER_MS)

static struct redis_server *servers[SERVERS];
static struct redlock_node list[SERVERS];
static struct redlock_options options;
static struct redlock_nodes *nodes; /* of the last call */
static struct marker founding[SERVERS];

/* --- the servers -------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static const char *ask(unsigned server, const char *format, ...)
{
    static char *reply;
    char command[512];
    va_list values;
    va_start(values, format);
    vsnprintf(command, sizeof command, format, values);
    va_end(values);
    free(reply);
    return reply = redis_server_command(servers[server], "%s", command);
}

static bool is_unmarked(unsigned server)
{
    return strcmp(ask(server, "EXISTS " MARKER_KEY), "0") == 0;
}

static struct marker marker_of(unsigned server)
{
    struct marker marker;
    const char *text = ask(server, "GET " MARKER_KEY);
    if (!marker_parse(&marker, text, strlen(text)))
        fail_msg("'%s' is no marker", text);
    return marker;
}

/* --- sessions: each call has one of its own, as a command has ----------------------------------------------------- */

static void session_end(void)
{
    redlock_nodes_close(nodes);
    nodes = NULL;
}

static void session_begin(void)
{
    char reason[256] = "";
    session_end();
    nodes = redlock_nodes_open(&options, reason, sizeof reason);
    if (nodes == NULL)
        fail_msg("%s", reason);
}

static enum redlock_nodes_end init(struct redlock_group_terms terms)
{
    session_begin();
    return redlock_nodes_init(nodes, &terms);
}

static enum redlock_nodes_end look(void)
{
    session_begin();
    return redlock_nodes_look(nodes);
}

static enum redlock_nodes_end heal(bool wait)
{
    session_begin();
    return redlock_nodes_heal(nodes, NULL, wait ? INT64_MAX : 0);
}

static struct redlock_node successor(void)
{
    return (struct redlock_node){.name = "new", .host = "127.0.0.1", .port = redis_server_port(servers[NEW])};
}

static enum redlock_nodes_end replace(unsigned index)
{
    struct redlock_node by = successor();
    session_begin();
    return redlock_nodes_replace(nodes, index, &by);
}

/* With these words among its reasons; "" = there is none, NULL = whatever they are. */
static void expect(enum redlock_nodes_end end, enum redlock_nodes_end expected, const char *words)
{
    const char *reason = redlock_nodes_reason(nodes);
    bool is_said = words == NULL || (words[0] == '\0' ? reason[0] == '\0' : strstr(reason, words) != NULL);
    if (end != expected || !is_said)
        fail_msg("it ends with %d, not %d (%s): %s", (int)end, (int)expected, words != NULL ? words : "", reason);
}

static void expect_node(unsigned index, const char *state, const char *reason)
{
    const struct redlock_node_view *view = redlock_nodes_view(nodes, index);
    if (strcmp(view->state, state) != 0 || strcmp(view->reason, reason) != 0)
        fail_msg("%s is %s (%s)", view->name, view->state, view->reason);
    assert_int_equal(view->votes, strcmp(state, "votes") == 0);
}

static void expect_all_vote(void)
{
    expect(look(), REDLOCK_NODES_DONE, "");
    for (unsigned i = 0; i < options.node_count; i++)
        expect_node(i, "votes", "fine");
}

/* For so long nobody knows what may still be held. */
static int64_t wait_ns(void)
{
    return lease_wait_ns(MAX_TTL_MS * NS_PER_MS, redlock_drift_factor(&options),
                         redlock_longest_patience_ns(redlock_slowest_timeout_ns(&options)));
}

/* What round trips, and a pause that ends late, may add. At real servers, which have sockets, other processes may take
 * any time. */
static int64_t slack_ns(void)
{
    return redis_server_unix_path(servers[0]) == NULL ? 100 * NS_PER_MS : TEST_PATIENCE_NS;
}

static void expect_took(struct instant begin, int64_t ns)
{
    int64_t took_ns = instant_since(begin, instant_now());
    if (took_ns < ns || took_ns > ns + slack_ns())
        fail_msg("it took %.3f s, not %.3f", (double)took_ns / 1e9, (double)ns / 1e9);
}

/* That was `most` a moment ago. */
static void expect_left(int64_t ms, int64_t most_ns)
{
    if (ms * NS_PER_MS > most_ns || ms * NS_PER_MS < most_ns - slack_ns())
        fail_msg("%lld ms are left, of %lld", (long long)ms, (long long)(most_ns / NS_PER_MS));
}

static void list_set(unsigned index, unsigned server)
{
    list[index].host = "127.0.0.1";
    list[index].port = redis_server_port(servers[server]);
}

static void group_begin_of(unsigned count)
{
    options.node_count = count;
    expect(init((struct redlock_group_terms){.max_ttl_ms = MAX_TTL_MS}), REDLOCK_NODES_DONE, "");
    for (unsigned i = 0; i < count; i++)
        founding[i] = marker_of(i);
}

static void group_begin(void)
{
    group_begin_of(MEMBERS);
}

static void assert_unchanged_but(unsigned other)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        if (i == other)
            continue;
        struct marker marker = marker_of(i);
        assert_true(marker_same_membership(&marker, &founding[i]));
        assert_string_equal(marker.self, founding[i].self);
        assert_string_equal(marker.run, founding[i].run);
    }
}

static void assert_unchanged(void)
{
    assert_unchanged_but(SERVERS);
}

static int servers_start(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SERVERS; i++)
        servers[i] = redis_server_start(&(struct redis_server_options){.config = "appendonly yes\n"
                                                                                 "appendfsync always\n"});
    return 0;
}

static int servers_stop(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SERVERS; i++)
        redis_server_destroy(servers[i]);
    return 0;
}

/* Three strangers in the list. */
static int set_up(void **state)
{
    static const char *const names[SERVERS] = {"lock1", "lock2", "lock3", "lock4", "lock5"};
    (void)state;
    for (unsigned i = 0; i < SERVERS; i++) {
        redis_server_heal(servers[i]);
        ask(i, "ACL SETUSER default +@all");
        ask(i, "CONFIG SET maxmemory-policy noeviction");
        list[i] = (struct redlock_node){.name = names[i]};
        list_set(i, i);
    }
    options = (struct redlock_options){.nodes = list, .node_count = MEMBERS, .key_prefix = "lock:"};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    session_end();
    return 0;
}

/* --- a new group -------------------------------------------------------------------------------------------------- */

TEST(a_group_is_made_of_strangers)
{
    expect(look(), REDLOCK_NODES_REFUSED, "lock1: The lock nodes are no lock group yet: run `holdfast nodes init`");
    struct redlock_group_view none = redlock_nodes_group(nodes);
    assert_false(none.has_group);
    assert_string_equal(none.group, "");
    expect_node(2, "excluded", "no_group");
    expect(init((struct redlock_group_terms){.max_ttl_ms = 0}), REDLOCK_NODES_DONE, "");
    struct redlock_group_view all = redlock_nodes_group(nodes);
    struct marker first = marker_of(0);
    assert_true(all.has_group && all.nodes == 3 && all.reached == 3 && all.voters == 3 && all.quorum == 2);
    assert_true(all.generation == 1 && all.max_ttl_ms == 60000 && all.vacant == 0);
    assert_string_equal(all.group, first.group);
    assert_true(first.max_ttl_ms == 60000 && first.member_count == 3 && first.generation == 1);
    for (unsigned i = 0; i < MEMBERS; i++) {
        const struct redlock_node_view *view = redlock_nodes_view(nodes, i);
        struct marker marker = marker_of(i), expected = lock_group_marker(servers[i], i, 3, 60000);
        assert_true(marker_same_membership(&marker, &first));
        assert_string_equal(marker.self, first.members[i]);
        assert_string_equal(marker.run, expected.run);
        assert_string_equal(view->id, marker.self);
        assert_string_equal(view->group, first.group);
        assert_string_equal(view->run_id, expected.run);
        assert_string_equal(view->eviction, "noeviction");
        assert_string_equal(view->trouble, "");
        assert_true(view->generation == 1 && view->is_reached && view->quarantine_left_ms == 0);
        assert_true(view->latency_us > 0 && llabs(view->clock_ahead_us) <= view->latency_us);
    }
    assert_string_equal(ask(0, "TTL " MARKER_KEY), "-1");
    assert_null(redlock_nodes_view(nodes, 3));
}

TEST(a_group_is_made_once)
{
    char again[128];
    group_begin();
    snprintf(again, sizeof again, "lock2: belongs to a lock group already (%s, generation 1)", founding[0].group);
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_REFUSED, again);
    assert_unchanged();
    ask(0, "DEL " MARKER_KEY);
    ask(2, "DEL " MARKER_KEY);
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_REFUSED, again);
    assert_lacks(redlock_nodes_reason(nodes), "lock1");
    assert_true(is_unmarked(0) && is_unmarked(2));
}

TEST(all_nodes_have_to_be_there)
{
    redis_server_kill(servers[2]);
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_TOO_FEW, "lock3: cannot be asked: ");
    redis_server_restart(servers[2]);
    redis_server_pause(servers[2]);
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_TOO_FEW, "lock3: cannot be asked: ");
    ask(1, "SET lock:held 1");
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_REFUSED, "lock2: there are keys");
    redis_server_resume(servers[2]);
    assert_true(is_unmarked(0) && is_unmarked(1) && is_unmarked(2));
}

/* E19: names and addresses may differ, the server is one. */
TEST(one_server_is_not_two_nodes)
{
    list[1] = (struct redlock_node){.name = "lock2", .host = "127.1", .port = list[0].port};
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_REFUSED,
           "lock2: is the same server as lock1 (run id ");
    assert_lacks(redlock_nodes_reason(nodes), "lock1: ");
    assert_true(is_unmarked(0));
}

TEST(keys_are_in_the_way)
{
    ask(1, "SET lock:held 1");
    ask(1, "SET other 1");
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_REFUSED,
           "lock2: there are keys already, such as lock:held: ");
    ask(1, "DEL lock:held");
    group_begin();
    for (unsigned i = 0; i < MEMBERS; i++)
        ask(i, "DEL " MARKER_KEY);
    options.key_prefix = NULL;
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_REFUSED,
           "lock2: there are keys already, such as other: ");
    assert_true(is_unmarked(0));
    ask(1, "ACL SETUSER default -scan");
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_REFUSED,
           "lock2: whether there are keys is not known: ");
}

/* A prefix is no pattern, and what is looked for may be far behind. */
TEST(keys_are_found_among_many)
{
    ask(2, "EVAL \"for i = 1, 5000 do redis.call('SET', 'lock[1]:' .. i, '') end\" 0");
    options.key_prefix = "lock[a]:";
    group_begin();
    for (unsigned i = 0; i < MEMBERS; i++)
        ask(i, "DEL " MARKER_KEY);
    ask(2, "SET lock[a]:x 1");
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_REFUSED,
           "lock3: there are keys already, such as \"lock[a]:x\": ");
}

TEST(nodes_that_evict_are_refused)
{
    group_begin();
    ask(1, "CONFIG SET maxmemory-policy volatile-lru");
    expect_all_vote(); /* while there is no limit */
    ask(1, "CONFIG SET maxmemory 1000000000");
    expect(look(), REDLOCK_NODES_DONE, "lock2: The server may evict locks");
    expect_node(1, "excluded", "evicts");
    for (unsigned i = 0; i < MEMBERS; i++)
        ask(i, "DEL " MARKER_KEY);
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_REFUSED,
           "lock2: evicts keys when its memory is full (maxmemory-policy volatile-lru)");
    assert_true(is_unmarked(0));
}

TEST(what_is_no_marker_is_told)
{
    ask(0, "LPUSH " MARKER_KEY " x");
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_REFUSED,
           "lock1: what is under its key hf:lock:group is no marker: remove it");
    ask(0, "SET " MARKER_KEY " \"9 group=x\"");
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_REFUSED,
           "lock1: another version of Holdfast, with another scheme, made the group that its key hf:lock:group names");
    ask(0, "DEL " MARKER_KEY);
    group_begin();
    ask(0, "SET " MARKER_KEY " x");
    expect(heal(true), REDLOCK_NODES_REFUSED, "lock1: What is under the key hf:lock:group is no marker.");
    expect_node(0, "excluded", "bad_marker");
    assert_string_equal(redlock_nodes_view(nodes, 0)->group, "");
    ask(0, "SET " MARKER_KEY " \"9 group=x\"");
    expect(look(), REDLOCK_NODES_DONE, "lock1: Another version of Holdfast locks on this node, with another scheme.");
    expect_node(0, "excluded", "other_scheme");
    expect(heal(true), REDLOCK_NODES_REFUSED, "update this program first");
}

TEST(numbers_of_nodes_and_ttls_have_bounds)
{
    static const char why[] = "the longest ttl must be from 1 s to 10 min";
    expect(init((struct redlock_group_terms){.max_ttl_ms = 999}), REDLOCK_NODES_REFUSED, why);
    expect(init((struct redlock_group_terms){.max_ttl_ms = 600001}), REDLOCK_NODES_REFUSED, why);
    assert_true(is_unmarked(0));
    expect(init((struct redlock_group_terms){.max_ttl_ms = 600000}), REDLOCK_NODES_DONE, "");
    assert_int_equal(marker_of(0).max_ttl_ms, 600000);
    ask(0, "DEL " MARKER_KEY);
    options.node_count = 1;
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_REFUSED,
           "one lock node alone needs no group");
    assert_true(is_unmarked(0));
    expect(look(), REDLOCK_NODES_DONE, "");
    assert_false(redlock_nodes_group(nodes).has_group);
    expect(replace(0), REDLOCK_NODES_REFUSED, "only a node of a lock group can be replaced");
}

/* A node that refuses to be written: the others are as they were. */
TEST(a_failure_in_the_middle_is_taken_back)
{
    ask(2, "ACL SETUSER default -set");
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_TOO_FEW,
           "lock3: its marker could not be written: ");
    assert_contains(redlock_nodes_reason(nodes), "There is no group; what was written is taken back");
    assert_lacks(redlock_nodes_reason(nodes), "could not be taken back");
    assert_true(is_unmarked(0) && is_unmarked(1) && is_unmarked(2));
    ask(0, "ACL SETUSER default -del");
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000}), REDLOCK_NODES_TOO_FEW,
           "lock1: its marker could not be taken back (");
    assert_true(!is_unmarked(0) && is_unmarked(1));
}

TEST(nodes_that_hold_locks_begin_in_quarantine)
{
    ask(0, "SET lock:held 1 PX 60000");
    expect(init((struct redlock_group_terms){.max_ttl_ms = 1000, .keep_keys = true}), REDLOCK_NODES_DONE, "");
    assert_int_equal(redlock_nodes_group(nodes).voters, 0);
    assert_string_equal(marker_of(0).run, "");
    expect(look(), REDLOCK_NODES_WAITING, "lock1: Its marker says that it is not trusted");
    expect_node(0, "quarantined", "doubted");
    expect_left(redlock_nodes_view(nodes, 0)->quarantine_left_ms, wait_ns() + NS_PER_MS);
    struct instant begin = instant_now();
    expect(heal(true), REDLOCK_NODES_DONE, "");
    expect_took(begin, wait_ns());
    struct marker marker = marker_of(0), expected = lock_group_marker(servers[0], 0, 3, 1000);
    assert_string_equal(marker.run, expected.run);
    assert_int_equal(marker.generation, 1);
    expect_all_vote();
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

/* While a majority is away nobody is told to make another group. */
TEST(a_group_whose_majority_is_away_is_named)
{
    group_begin();
    redis_server_pause(servers[1]);
    redis_server_pause(servers[2]);
    expect(look(), REDLOCK_NODES_TOO_FEW, "lock1: Its marker names a lock group");
    redis_server_resume(servers[1]);
    redis_server_resume(servers[2]);
    expect_node(0, "excluded", "no_group");
    expect_node(1, "unseen", "not_inspected");
    assert_lacks(redlock_nodes_reason(nodes), "init");
    assert_int_equal(redlock_nodes_group(nodes).reached, 1);
    redis_server_kill(servers[1]);
    expect(look(), REDLOCK_NODES_TOO_FEW, "lock2: connect to 127.0.0.1:");
    assert_false(redlock_nodes_view(nodes, 1)->is_reached);
    assert_int_equal(redlock_nodes_group(nodes).voters, 2);
    redis_server_restart(servers[1]);
    expect(look(), REDLOCK_NODES_DONE, "lock2: The server was restarted");
    redis_server_restart(servers[2]);
    expect(look(), REDLOCK_NODES_WAITING, "lock3: The server was restarted");
}

TEST(an_emptied_majority_is_not_made_a_group_of)
{
    group_begin();
    ask(1, "FLUSHALL");
    ask(2, "FLUSHALL");
    expect(look(), REDLOCK_NODES_REFUSED, "lock2: It has no marker, but other lock nodes name a group");
    expect_node(1, "excluded", "no_group");
    assert_lacks(redlock_nodes_reason(nodes), "init");
}

TEST(a_member_that_is_reached_twice_votes_once)
{
    group_begin();
    list[2] = (struct redlock_node){.name = "lock3", .host = "127.1", .port = list[0].port};
    expect(look(), REDLOCK_NODES_DONE, "lock3: Another configured lock node is the same server");
    expect_node(2, "excluded", "duplicate");
    expect_node(0, "votes", "fine");
    assert_contains(redlock_nodes_view(nodes, 2)->trouble, "it is the same server as lock1 (run id ");
    list_set(2, 3); /* and a copy of one */
    struct marker copy = founding[0];
    lock_group_mark(servers[3], &copy);
    expect(look(), REDLOCK_NODES_DONE, "lock3: ");
    expect_node(2, "excluded", "duplicate");
    char same[64];
    snprintf(same, sizeof same, "lock1 is the same member %s", copy.self);
    assert_string_equal(redlock_nodes_view(nodes, 2)->trouble, same);
}

TEST(a_node_of_another_group_is_foreign)
{
    group_begin();
    struct marker foreign = lock_group_marker(servers[3], 2, 3, 1000);
    lock_group_mark(servers[3], &foreign);
    list_set(2, 3);
    expect(look(), REDLOCK_NODES_DONE, "lock3: The server belongs to another lock group");
    expect_node(2, "excluded", "other_group");
    expect(heal(true), REDLOCK_NODES_REFUSED, "lock3: The server belongs to another lock group");
    session_begin();
    expect(redlock_nodes_heal(nodes, (const bool[]){true, true, false}, INT64_MAX), REDLOCK_NODES_DONE, "");
}

/* E20: who knows fewer nodes, or more, would count other majorities. */
TEST(the_number_of_nodes_is_that_of_the_group)
{
    group_begin();
    options.node_count = 5;
    expect(look(), REDLOCK_NODES_REFUSED, "lock1: The lock group has another number of nodes than are configured");
    expect_node(0, "excluded", "node_count");
    assert_int_equal(redlock_nodes_group(nodes).voters, 0);
    expect(heal(true), REDLOCK_NODES_REFUSED, "the group has 3 members, but 5 nodes are configured");
}

/* --- healing ------------------------------------------------------------------------------------------------------ */

static void expect_told_to_wait(int64_t ns)
{
    const char *about = strstr(redlock_nodes_reason(nodes), "before it can vote: about ");
    assert_non_null(about);
    expect_left(MS_PER_S * strtol(about + strlen("before it can vote: about "), NULL, 10),
                (ns / NS_PER_S + 1) * NS_PER_S);
}

TEST(a_restarted_node_votes_after_its_quarantine)
{
    group_begin();
    redis_server_restart(servers[1]);
    expect(look(), REDLOCK_NODES_DONE, "lock2: The server was restarted");
    expect_node(1, "quarantined", "new_run");
    expect(heal(false), REDLOCK_NODES_WAITING, "1 node needs time before it can vote: about ");
    expect_told_to_wait(wait_ns());
    session_begin();
    expect(redlock_nodes_heal(nodes, (const bool[]){true, false, true}, INT64_MAX), REDLOCK_NODES_DONE, "");
    assert_string_equal(marker_of(1).run, founding[1].run);
    struct instant begin = instant_now();
    session_begin();
    expect(redlock_nodes_heal(nodes, (const bool[]){false, true, false}, INT64_MAX), REDLOCK_NODES_DONE, "");
    expect_took(begin, wait_ns());
    struct marker after = marker_of(1);
    assert_true(marker_same_membership(&founding[1], &after));
    assert_string_equal(after.self, founding[1].self);
    assert_string_not_equal(after.run, founding[1].run);
    expect_all_vote();
}

static struct {
    unsigned calls, stop_after; /* 0 = never */
    int64_t least_ms, most_ms;  /* that were left */
    char what[128];
    int empties; /* the server whose memory is lost at the first call; -1 = none */
} watch;

static bool watched(void *context, const char *what, int64_t left_ms)
{
    (void)context;
    if (watch.calls++ == 0) {
        watch.least_ms = watch.most_ms = left_ms;
        if (watch.empties >= 0)
            ask((unsigned)watch.empties, "FLUSHALL");
    }
    watch.least_ms = left_ms < watch.least_ms ? left_ms : watch.least_ms;
    watch.most_ms = left_ms > watch.most_ms ? left_ms : watch.most_ms;
    snprintf(watch.what, sizeof watch.what, "%s", what);
    return watch.stop_after == 0 || watch.calls < watch.stop_after;
}

static void session_watch(unsigned stop_after, int empties)
{
    session_begin();
    watch.calls = 0;
    watch.stop_after = stop_after;
    watch.empties = empties;
    redlock_nodes_watch(nodes, watched, NULL);
}

TEST(who_waits_is_told_and_may_stop)
{
    group_begin();
    redis_server_restart(servers[0]);
    redis_server_restart(servers[2]);
    session_watch(2, -1);
    expect(redlock_nodes_heal(nodes, NULL, INT64_MAX), REDLOCK_NODES_WAITING,
           "2 nodes need time before they can vote: ");
    assert_int_equal(watch.calls, 2);
    session_watch(0, -1);
    expect(redlock_nodes_heal(nodes, NULL, INT64_MAX), REDLOCK_NODES_DONE, "");
    assert_string_equal(watch.what, "waiting until what nodes may have forgotten has expired");
    assert_true(watch.calls * LOOK_NS + slack_ns() >= wait_ns() && watch.calls <= wait_ns() / LOOK_NS + 2);
    expect_left(watch.most_ms, wait_ns() + NS_PER_MS);
    assert_in_range(watch.least_ms, 0, LOOK_NS / NS_PER_MS);
    expect_all_vote();
}

/* Also one that was up for long, elsewhere, and is empty. */
TEST(a_node_that_lost_its_marker_comes_in_under_a_new_id)
{
    group_begin();
    ask(1, "FLUSHALL");
    expect(look(), REDLOCK_NODES_DONE, "lock2: The server lost its marker, or never had one");
    expect_node(1, "excluded", "no_marker");
    expect(heal(false), REDLOCK_NODES_WAITING, "1 node needs time");
    expect_told_to_wait(OTHERS_RETURN_NS + wait_ns());
    assert_true(is_unmarked(1));
    struct instant begin = instant_now();
    expect(heal(true), REDLOCK_NODES_DONE, "");
    expect_took(begin, OTHERS_RETURN_NS + wait_ns());
    struct marker after = marker_of(1), other = marker_of(0);
    assert_int_equal(after.generation, 2);
    assert_int_equal(marker_number_of(&after, after.self), 1);
    assert_string_not_equal(after.self, founding[1].self);
    assert_true(marker_same_membership(&after, &other));
    expect_all_vote();
}

static void expect_refused_as_too_short(int64_t wait_ms, int64_t needed_ns)
{
    session_begin();
    struct instant begin = instant_now();
    expect(redlock_nodes_heal(nodes, NULL, wait_ms), REDLOCK_NODES_WAITING, "1 node needs time before it can vote: ");
    assert_true(instant_since(begin, instant_now()) < NS_PER_S);
    const char *needed = strstr(redlock_nodes_reason(nodes), "does not add up: let one wait for ");
    assert_non_null(needed);
    expect_left(MS_PER_S * strtol(needed + strlen("does not add up: let one wait for "), NULL, 10),
                (needed_ns / NS_PER_S + 2) * NS_PER_S);
}

/* The limit that it names is enough. */
TEST(a_limit_that_is_too_short_is_refused_and_begins_nothing)
{
    group_begin();
    ask(1, "FLUSHALL");
    int64_t needed_ns = OTHERS_RETURN_NS + wait_ns();
    expect_refused_as_too_short(1, needed_ns);
    expect_refused_as_too_short(needed_ns / NS_PER_MS - 100, needed_ns);
    assert_true(is_unmarked(1));
    assert_unchanged_but(1);
    session_begin();
    expect(redlock_nodes_heal(nodes, NULL, (needed_ns / NS_PER_S + 2) * MS_PER_S), REDLOCK_NODES_DONE, "");
    expect_all_vote();
    redis_server_restart(servers[2]);
    expect_refused_as_too_short(wait_ns() / NS_PER_MS - 100, wait_ns());
    session_begin();
    expect(redlock_nodes_heal(nodes, NULL, (wait_ns() / NS_PER_S + 2) * MS_PER_S), REDLOCK_NODES_DONE, "");
    expect_all_vote();
}

/* Whenever it is interrupted, a client that never knew the node finishes the rest. */
TEST(a_client_finishes_what_healing_has_begun)
{
    group_begin();
    ask(1, "FLUSHALL");
    session_watch(OTHERS_RETURN_NS / LOOK_NS + 2, -1);
    expect(redlock_nodes_heal(nodes, NULL, INT64_MAX), REDLOCK_NODES_WAITING, "1 node needs time");
    struct marker begun = marker_of(0);
    assert_int_equal(begun.generation, 2);
    session_end();
    struct redlock_client *client = redlock_client_open(&options, NULL, 0);
    assert_non_null(client);
    test_await(!is_unmarked(1) && marker_of(1).run[0] != '\0' && strncmp(marker_of(1).run, "ffffffff", 8) != 0);
    redlock_client_close(client);
    expect_all_vote();
}

TEST(nodes_that_lost_their_markers_come_in_one_after_the_other)
{
    group_begin_of(5);
    ask(1, "FLUSHALL");
    ask(3, "FLUSHALL");
    expect(heal(false), REDLOCK_NODES_WAITING, "2 nodes need time before they can vote: ");
    assert_unchanged_but(1);
    struct instant begin = instant_now();
    expect(heal(true), REDLOCK_NODES_DONE, "");
    expect_took(begin, OTHERS_RETURN_NS + wait_ns() + NS_PER_S); /* a marker is written once a second */
    struct marker after = marker_of(1);
    assert_int_equal(after.generation, 3);
    expect_all_vote();
}

/* Whoever saw which number it had gives it back that number. */
TEST(a_node_that_is_emptied_meanwhile_keeps_its_id)
{
    group_begin();
    redis_server_restart(servers[1]);
    session_watch(0, 0);
    expect(redlock_nodes_heal(nodes, NULL, INT64_MAX), REDLOCK_NODES_DONE, "");
    struct marker after = marker_of(0);
    assert_true(marker_same_membership(&founding[0], &after));
    assert_string_equal(after.self, founding[0].self);
    expect_all_vote();
}

TEST(an_empty_server_at_the_address_of_a_node_is_healed)
{
    group_begin();
    redis_server_kill(servers[1]);
    list_set(1, 3); /* which was there all the time */
    expect(look(), REDLOCK_NODES_DONE, "lock2: ");
    expect_node(1, "excluded", "no_marker");
    expect(heal(true), REDLOCK_NODES_DONE, "");
    struct marker marker = marker_of(3);
    assert_int_equal(marker.generation, 2);
    assert_string_equal(marker.self, marker.members[1]);
    expect_all_vote();
}

TEST(a_majority_that_forgot_cannot_be_healed)
{
    group_begin();
    ask(0, "FLUSHALL");
    ask(1, "FLUSHALL");
    expect(heal(true), REDLOCK_NODES_REFUSED, "only 1 of 3 nodes remember the group ");
    assert_true(is_unmarked(0));
}

TEST(too_few_nodes_may_come_back)
{
    group_begin();
    redis_server_kill(servers[0]);
    expect(heal(true), REDLOCK_NODES_TOO_FEW, "lock1: cannot be asked: ");
    redis_server_kill(servers[1]);
    expect(heal(true), REDLOCK_NODES_TOO_FEW, "can be reached: 2 are needed");
    redis_server_restart(servers[0]);
    redis_server_restart(servers[1]);
    assert_unchanged();
}

/* Of a node that is not written although it answers, healing says so. */
TEST(a_marker_that_cannot_be_written_is_named)
{
    group_begin();
    redis_server_restart(servers[1]);
    ask(1, "ACL SETUSER default -set");
    expect(heal(true), REDLOCK_NODES_REFUSED, "lock2: its marker cannot be written: ");
    assert_string_equal(marker_of(1).run, founding[1].run);
    ask(1, "ACL SETUSER default +set");
    ask(1, "DEL " MARKER_KEY);
    ask(0, "ACL SETUSER default -set"); /* it is to record that the number is vacant */
    expect(heal(true), REDLOCK_NODES_REFUSED, "lock1: its marker cannot be written: ");
}

/* --- replacing ---------------------------------------------------------------------------------------------------- */

/* The new server has the number of the second, the others know of it, and nothing else changed. */
static void assert_replaced(void)
{
    struct marker new = marker_of(NEW), expected = lock_group_marker(servers[NEW], 0, 3, 1000);
    assert_string_equal(new.group, founding[0].group);
    assert_int_equal(new.generation, 3);
    assert_int_equal(marker_number_of(&new, new.self), 1);
    assert_string_equal(new.run, expected.run);
    for (unsigned i = 0; i < MEMBERS; i += 2) {
        struct marker marker = marker_of(i);
        assert_true(marker_same_membership(&marker, &new));
        assert_string_equal(marker.self, founding[i].self);
        assert_string_equal(marker.run, founding[i].run);
    }
    list_set(1, NEW);
    expect_all_vote();
    list_set(1, 1);
}

TEST(a_living_node_is_replaced)
{
    group_begin();
    struct instant begin = instant_now();
    expect(replace(1), REDLOCK_NODES_DONE, "");
    expect_took(begin, wait_ns());
    expect(look(), REDLOCK_NODES_DONE, "lock2: The server was replaced by another one"); /* the list is the old one */
    expect_node(1, "excluded", "not_a_member");
    expect(heal(true), REDLOCK_NODES_REFUSED, "lock2: lock2 is no member of the group any more: it was replaced");
    begin = instant_now();
    expect(replace(1), REDLOCK_NODES_DONE, ""); /* and again, which changes nothing */
    expect_took(begin, 0);
    assert_replaced();
    expect(replace(0), REDLOCK_NODES_REFUSED, "new is a member of this group already");
}

TEST(a_dead_node_is_replaced)
{
    group_begin();
    redis_server_kill(servers[1]);
    expect(replace(1), REDLOCK_NODES_DONE, "");
    assert_replaced();
}

static void mark_vacant(unsigned server)
{
    struct marker marker = founding[server];
    marker.generation = 2;
    marker.members[1][0] = '\0';
    lock_group_mark(servers[server], &marker);
}

static void mark_filled(unsigned server)
{
    struct marker marker = founding[server == NEW ? 0 : server], own = lock_group_marker(servers[server], 0, 3, 1000);
    marker.generation = 3;
    memcpy(marker.members[1], "feedbeef", MARKER_ID_DIGITS);
    if (server == NEW) {
        memcpy(marker.self, "feedbeef", MARKER_ID_DIGITS);
        memcpy(marker.run, own.run, sizeof marker.run);
    }
    lock_group_mark(servers[server], &marker);
}

TEST(another_replacement_under_way_is_told)
{
    group_begin();
    mark_vacant(0);
    mark_vacant(2);
    look();
    assert_int_equal(redlock_nodes_group(nodes).vacant, 1);
    expect(replace(0), REDLOCK_NODES_REFUSED, "another node than lock1 is being replaced");
}

/* All that a process can leave behind, one write further each time. */
TEST(it_goes_on_wherever_it_stopped)
{
    static void (*const marks[])(unsigned server) = {mark_vacant, mark_vacant, mark_filled, mark_filled, mark_filled};
    static const unsigned marked[] = {0, 2, NEW, 0, 2};
    for (unsigned written = 0; written <= 5; written++) {
        set_up(NULL);
        group_begin();
        for (unsigned i = 0; i < written; i++)
            marks[i](marked[i]);
        struct instant begin = instant_now();
        expect(replace(1), REDLOCK_NODES_DONE, "");
        expect_took(begin, written < 3 ? wait_ns() : 0);
        assert_replaced();
        assert_int_equal(strcmp(marker_of(NEW).self, "feedbeef") == 0, written >= 3);
    }
}

TEST(who_stopped_is_followed_by_another)
{
    group_begin();
    struct redlock_node by = successor();
    session_watch(2, -1);
    expect(redlock_nodes_replace(nodes, 1, &by), REDLOCK_NODES_WAITING,
           "the replacement was begun and is not finished: call it again, it goes on");
    assert_string_equal(watch.what, "waiting until what was granted with the old node has expired");
    expect_left(watch.most_ms, wait_ns() + NS_PER_MS);
    assert_true(is_unmarked(NEW));
    look();
    assert_int_equal(redlock_nodes_group(nodes).vacant, 1);
    assert_int_equal(redlock_nodes_group(nodes).voters, 2);
    expect(replace(1), REDLOCK_NODES_DONE, "");
    assert_replaced();
}

TEST(changes_that_met_are_settled)
{
    group_begin();
    mark_vacant(0);
    struct marker recorded = marker_of(2);
    recorded.generation++;
    memcpy(recorded.members[1], "feedbeef", MARKER_ID_DIGITS);
    lock_group_mark(servers[2], &recorded);
    ask(1, "FLUSHALL");
    expect(heal(false), REDLOCK_NODES_WAITING, "two changes of the group met");
    struct instant begin = instant_now();
    expect(heal(true), REDLOCK_NODES_DONE, "");
    expect_took(begin, 2 * OTHERS_RETURN_NS + wait_ns());
    expect_all_vote();
}

/* Who was away meanwhile learns of it later. */
TEST(a_member_that_was_away_is_brought_up_to_date)
{
    group_begin();
    mark_vacant(0);
    mark_vacant(2);
    mark_filled(NEW);
    mark_filled(0);
    list_set(1, NEW);
    expect(look(), REDLOCK_NODES_DONE, "lock3: A lock node is being replaced");
    expect_node(2, "excluded", "other_generation");
    expect(heal(false), REDLOCK_NODES_DONE, ""); /* it needs no time */
    assert_replaced();
}

TEST(the_new_server_has_to_be_fit)
{
    group_begin();
    ask(NEW, "SET something 1");
    expect(replace(1), REDLOCK_NODES_REFUSED,
           "new: there are keys, such as something: only an empty server can become a member");
    struct marker foreign = lock_group_marker(servers[NEW], 0, 3, 1000);
    lock_group_mark(servers[NEW], &foreign);
    expect(replace(1), REDLOCK_NODES_REFUSED, "belongs to another lock group (00000000deadbeef)");
    ask(NEW, "DEL something");
    ask(NEW, "SET " MARKER_KEY " x");
    expect(replace(1), REDLOCK_NODES_REFUSED, "what is under its key hf:lock:group is no marker");
    ask(NEW, "DEL " MARKER_KEY);
    ask(NEW, "CONFIG SET maxmemory 1000000000");
    ask(NEW, "CONFIG SET maxmemory-policy allkeys-lru");
    expect(replace(1), REDLOCK_NODES_REFUSED,
           "new: evicts keys when its memory is full (maxmemory-policy allkeys-lru)");
    struct redlock_node third = {.name = "new", .host = "127.1", .port = list[2].port};
    session_begin();
    expect(redlock_nodes_replace(nodes, 1, &third), REDLOCK_NODES_REFUSED, "new: is the same server as lock3 (run id ");
    assert_unchanged();
}

TEST(too_few_nodes_replace_nothing)
{
    group_begin();
    redis_server_kill(servers[2]);
    expect(replace(1), REDLOCK_NODES_TOO_FEW, "only 1 of the 2 nodes that stay can be reached: 2 are needed");
    redis_server_restart(servers[2]);
    redis_server_kill(servers[NEW]);
    expect(replace(1), REDLOCK_NODES_TOO_FEW, "new: cannot be asked: ");
    expect(replace(MEMBERS), REDLOCK_NODES_REFUSED, "only a node of a lock group can be replaced");
    assert_unchanged();
}

TEST(strangers_cannot_be_replaced)
{
    expect(replace(1), REDLOCK_NODES_REFUSED, "these nodes are no lock group yet: run `nodes init`");
}

/* A member that takes no writes is as good as away: with two of three nothing goes on. */
TEST(a_member_that_cannot_be_written_stops_it)
{
    group_begin();
    ask(2, "ACL SETUSER default -set");
    expect(replace(1), REDLOCK_NODES_TOO_FEW, NULL);
    ask(2, "ACL SETUSER default +set");
    assert_true(is_unmarked(NEW));
    expect(replace(1), REDLOCK_NODES_DONE, "");
    assert_replaced();
}

/* --- who holds a lock --------------------------------------------------------------------------------------------- */

TEST(what_is_under_a_key_is_shown_as_it_is)
{
    char *longest = malloc(REDLOCK_KEY_VALUE_MAX + 2);
    memset(longest, 'x', REDLOCK_KEY_VALUE_MAX + 1);
    longest[REDLOCK_KEY_VALUE_MAX + 1] = '\0';
    group_begin_of(5);
    ask(0, "EVAL \"redis.call('SET', 'lock:r', string.rep('x', %d))\" 0", REDLOCK_KEY_VALUE_MAX + 1);
    ask(1, "EVAL \"redis.call('SET', 'lock:r', string.rep('x', %d), 'PX', 5000)\" 0", REDLOCK_KEY_VALUE_MAX);
    ask(2, "RPUSH lock:r a");
    ask(3, "SET lock:r a PX 9000000000000000");
    ask(3, "ZADD hf:fences 17 lock:r");
    session_begin();
    expect(redlock_nodes_find(nodes, "r"), REDLOCK_NODES_DONE, "");
    const struct redlock_key_view *key = redlock_nodes_key(nodes, 0);
    assert_true(key->is_answered && key->kind == REDLOCK_KEY_LONG && key->remaining_ms == -1 && key->fence == 0);
    assert_string_equal(key->value, "513");
    key = redlock_nodes_key(nodes, 1);
    assert_true(key->kind == REDLOCK_KEY_VALUE && key->length == REDLOCK_KEY_VALUE_MAX);
    expect_left(key->remaining_ms, 5000 * NS_PER_MS);
    longest[REDLOCK_KEY_VALUE_MAX] = '\0';
    assert_string_equal(key->value, longest);
    assert_true(redlock_nodes_key(nodes, 2)->kind == REDLOCK_KEY_NO_STRING);
    key = redlock_nodes_key(nodes, 3);
    assert_true(key->fence == 17 && key->remaining_ms == INT64_C(100) * 365 * 86400 * 1000);
    assert_true(redlock_nodes_key(nodes, 4)->kind == REDLOCK_KEY_NOTHING);
    assert_null(redlock_nodes_key(nodes, 5));
    free(longest);
    expect(redlock_nodes_take(nodes, "r"), REDLOCK_NODES_REFUSED, "");
    static const enum redlock_taking takings[] = {REDLOCK_TAKING_REFUSED, REDLOCK_TAKING_DONE, REDLOCK_TAKING_REFUSED,
                                                  REDLOCK_TAKING_DONE, REDLOCK_TAKING_NOTHING};
    for (unsigned i = 0; i < 5; i++) {
        assert_true(redlock_nodes_key(nodes, i)->taking == takings[i]);
        assert_string_equal(ask(i, "EXISTS lock:r"), takings[i] == REDLOCK_TAKING_REFUSED ? "1" : "0");
    }
}

TEST(only_what_was_found_is_taken)
{
    group_begin_of(5);
    for (unsigned i = 0; i < 4; i++)
        ask(i, "SET lock:r one PX 60000");
    redis_server_kill(servers[4]);
    session_begin();
    expect(redlock_nodes_find(nodes, "r"), REDLOCK_NODES_TOO_FEW, "lock5: ");
    assert_false(redlock_nodes_key(nodes, 4)->is_answered);
    assert_contains(redlock_nodes_key(nodes, 4)->trouble, "refused");
    assert_string_equal(redlock_nodes_key(nodes, 3)->trouble, "");
    ask(1, "DEL lock:r");
    ask(2, "SET lock:r two PX 60000");
    redis_server_pause(servers[3]);
    expect(redlock_nodes_take(nodes, "r"), REDLOCK_NODES_TOO_FEW, "lock4: ");
    redis_server_resume(servers[3]);
    static const enum redlock_taking takings[] = {REDLOCK_TAKING_DONE, REDLOCK_TAKING_GONE, REDLOCK_TAKING_CHANGED,
                                                  REDLOCK_TAKING_FAILED, REDLOCK_TAKING_FAILED};
    for (unsigned i = 0; i < 5; i++)
        assert_true(redlock_nodes_key(nodes, i)->taking == takings[i]);
    assert_string_equal(ask(2, "GET lock:r"), "two");
    expect(redlock_nodes_find(nodes, "r"), REDLOCK_NODES_TOO_FEW, "lock5: ");
    assert_string_equal(redlock_nodes_key(nodes, 3)->trouble, ""); /* that was the matter with it before */
    assert_true(redlock_nodes_key(nodes, 3)->is_answered);
}

TEST(readers_are_shown_with_what_they_have_left)
{
    group_begin();
    for (unsigned i = 0; i < 2; i++) {
        ask(i, "SET lock:r hf:shared PX 9000");
        ask(i, "EVAL \"local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) "
               "redis.call('ZADD', 'hf:readers:lock:r', now + 9000, 'one', now + 4000, 'two', now - 1000, 'gone')\" 0");
    }
    session_begin();
    struct redlock_holder holders[REDLOCK_HOLDERS_MAX];
    expect(redlock_nodes_find(nodes, "r"), REDLOCK_NODES_DONE, "");
    const struct redlock_key_view *key = redlock_nodes_key(nodes, 1);
    assert_int_equal(key->reader_count, 2);
    assert_string_equal(key->readers[0].value, "two");
    assert_string_equal(key->readers[1].value, "one");
    expect_left(key->readers[0].remaining_ms, 4000 * NS_PER_MS);
    expect_left(key->readers[1].remaining_ms, 9000 * NS_PER_MS);
    assert_int_equal(redlock_nodes_holders(nodes, holders), 2);
    assert_true(holders[0].is_reader && holders[0].standing == REDLOCK_HELD && holders[0].nodes == 2);
}

RUN_GROUP(servers_start, servers_stop, set_up, tear_down)
