/* The life of locks in simulated worlds (tests/sim/world/play.h says what the environment chooses; HF_PROFILE: one of
 * steady, loss, steps, wild, ruin, any; HF_READERS=1: readers in all;
 * HF_ROLLING=1: restarts one after the other wherever nothing else may go wrong; HF_PRESSED=1: some want all of what
 * others never leave free). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redlock/group_private.h"
#include "tests/sim/lock/schedule.h"
#include "tests/sim/world/trouble.h"
#include "tests/support/test.h"

static const char *const expected[] = {"acquired",
                                       "busy",
                                       "extended",
                                       "danger",
                                       "lost",
                                       "verified",
                                       "fenced off",
                                       "acquired by a plain client",
                                       "handed over",
                                       "replaced a node",
                                       "moved address",
                                       "acquired another seat than the first",
                                       "acquired to read",
                                       "readers kept out for a writer",
                                       "torn membership",
                                       "given again",
                                       "rolling restart",
                                       "pressed by users of one resource",
                                       "clocks apart",
                                       "healed with a limit",
                                       "frozen host",
                                       "both pause",
                                       NULL};

/* A third of what is usual, and three times that, or what is five standard deviations away in 400 schedules, if that
 * is more: one schedule may count hundreds of excuses. Schedules differ much, and rules that make waiters slow, or
 * leave to operators what clients do by themselves, break no promise. */
static const struct play_bound bounds[] = {{"acquired", 25000, 220000},
                                           {"acquired to read", 3000, 100000},
                                           {"extended", 5000, 42000},
                                           {"handed over", 1100, 9900},
                                           {"verified", 3000, 100000},
                                           {"replaced a node", 0, 200},
                                           {"readers kept out for a writer", 380000, 3500000},
                                           {"lost", 150, 1400},
                                           {"danger", 120, 1600},
                                           {"split_vote", 0, 11000},
                                           {"no_quorum", 0, 250000},
                                           {"not verified", 0, 600},
                                           {"helped by an operator", 0, 60},
                                           {"votes given back by an operator", 0, 250},
                                           {"servers emptied by an operator", 0, 30},
                                           {"replaced a node by healing", 0, 40},
                                           {"excused: deleted by hand", 0, 2500},
                                           {"excused: its clock stood still", 0, 5000},
                                           {"excused: a server is recorded", 0, 3000},
                                           {"excused: others were in its way at some nodes", 0, 300},
                                           {NULL, 0, 0}};

static const struct play play = {
    .name = "locks", .schedule = lock_schedule_play, .troubles = trouble_names, .expected = expected, .bounds = bounds};

TEST(locks_keep_their_promises)
{
    assert_int_equal(play_today(&play), 0);
}

TEST(locks_keep_their_promises_in_the_same_schedules_each_day)
{
    if (getenv("HF_SEED") != NULL)
        test_skip("HF_SEED asks for other schedules");
    assert_int_equal(play_each_day(&play), 0);
}

/* --- an operator -------------------------------------------------------------------------------------------------- */

static struct node *nodes[5];
static enum redlock_nodes_end healed;

static void forget_two_and_heal(void *argument)
{
    static char names[5][8];
    struct redlock_node list[5];
    struct redlock_options options = {.nodes = list, .node_count = 5};
    struct redlock_group_terms terms = {.max_ttl_ms = 1000};
    (void)argument;
    for (unsigned i = 0; i < 5; i++) {
        snprintf(names[i], sizeof names[i], "lock%u", i + 1);
        list[i] = (struct redlock_node){.name = names[i], .host = names[i], .port = 6379};
    }
    struct redlock_nodes *session = redlock_nodes_open(&options, NULL, 0);
    assert_int_equal(redlock_nodes_init(session, &terms), REDLOCK_NODES_DONE);
    redlock_nodes_close(session); /* who saw them with their markers would know their numbers */
    server_evict(nodes[1]->server, SIZE_MAX, 1);
    server_evict(nodes[3]->server, SIZE_MAX, 1);
    session = redlock_nodes_open(&options, NULL, 0);
    healed = redlock_nodes_heal(session, NULL, INT64_MAX);
    redlock_nodes_close(session);
}

TEST(nodes_that_forgot_are_healed_one_after_the_other)
{
    world_begin(1);
    network_begin();
    for (unsigned i = 0; i < 5; i++)
        nodes[i] = node_create((const char *[]){"lock1", "lock2", "lock3", "lock4", "lock5"}[i]);
    healed = REDLOCK_NODES_REFUSED;
    process_start(host_create("operator"), "operator", forget_two_and_heal, NULL);
    world_run(instant_after(world_time(), 60 * NS_PER_S));
    assert_int_equal(healed, REDLOCK_NODES_DONE);
}

/* --- clocks that step, as a client sees them ---------------------------------------------------------------------- */

#define STEP_NS       (3600 * NS_PER_S)
#define LOOK_NS       (100 * NS_PER_MS)
#define PULSE_NS      (6 * NS_PER_S) /* within it a client at rest looks at each node */
#define QUARANTINE_NS (40 * NS_PER_S)

static struct {
    struct host *host;
    struct process *process;
    struct redlock_group *group;
    char marker[256]; /* of the third node, while it is trusted */
} client;

static const struct redlock_options *three_nodes(void)
{
    static struct redlock_node list[3];
    static const struct redlock_options options = {.nodes = list, .node_count = 3};
    for (unsigned i = 0; i < 3; i++)
        list[i] = (struct redlock_node){.name = nodes[i]->name, .host = nodes[i]->name, .port = 6379};
    return &options;
}

static void client_main(void *argument)
{
    (void)argument;
    struct redlock_group_terms terms = {.max_ttl_ms = 30000};
    struct redlock_nodes *session = redlock_nodes_open(three_nodes(), NULL, 0);
    assert_int_equal(redlock_nodes_init(session, &terms), REDLOCK_NODES_DONE);
    redlock_nodes_close(session);
    struct loop *loop = loop_create(NULL);
    client.group = redlock_group_create(loop, three_nodes(), NULL, 0);
    loop_run(loop);
}

static struct value *marker(void)
{
    return keyspace_find(server_keyspace(nodes[2]->server), text_of("hf:lock:group"));
}

static bool is_doubted(void)
{
    return strcmp(buffer_text(&marker()->string), client.marker) != 0;
}

static void run_for(int64_t ns)
{
    world_run(instant_after(world_time(), ns));
}

static void third_steps(int64_t ns)
{
    host_step_wall(nodes[2]->host, ns);
    node_look(nodes[2]);
}

static void expect_third(enum trust_state state, enum trust_reason reason)
{
    const struct trust_node *third = &client.group->trust.node[2];
    assert_string_equal(trust_state_name(third->state), trust_state_name(state));
    assert_string_equal(trust_reason_name(third->reason), trust_reason_name(reason));
}

static int client_begin(void **state)
{
    (void)state;
    world_begin(1);
    network_begin();
    for (unsigned i = 0; i < 3; i++)
        nodes[i] = node_create((const char *[]){"lock1", "lock2", "lock3"}[i]);
    client.host = host_create("client");
    client.process = process_start(client.host, "client", client_main, NULL);
    run_for(2 * PULSE_NS);
    expect_third(TRUST_VOTES, TRUST_FINE);
    snprintf(client.marker, sizeof client.marker, "%s", buffer_text(&marker()->string));
    return 0;
}

/* The others vouch for our clock when they are heard the next time. */
static void third_is_doubted(void)
{
    third_steps(STEP_NS);
    run_for(2 * PULSE_NS);
    expect_third(TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    assert_true(is_doubted());
}

/* Who waited since the first doubt does not know of the second step. */
TEST_WITH(a_healed_marker_does_not_excuse_a_later_step, client_begin, NULL)
{
    third_is_doubted();
    run_for(QUARANTINE_NS / 2);
    third_steps(STEP_NS);
    run_for(PULSE_NS);
    buffer_clear(&marker()->string);
    buffer_append_text(&marker()->string, client.marker);
    run_for(PULSE_NS);
    expect_third(TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    run_for(QUARANTINE_NS);
    expect_third(TRUST_VOTES, TRUST_FINE);
}

TEST_WITH(who_was_away_looks_before_it_heals, client_begin, NULL)
{
    third_is_doubted();
    process_pause(client.process);
    run_for(2 * QUARANTINE_NS);
    third_steps(STEP_NS);
    process_resume(client.process);
    run_for(PULSE_NS);
    assert_true(is_doubted());
    expect_third(TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    run_for(QUARANTINE_NS + PULSE_NS);
    assert_false(is_doubted());
    expect_third(TRUST_VOTES, TRUST_FINE);
}

/* The third is heard only after the others have shown that our clock stood: it shows the same step, or
 * its clock stood with ours. A later step is its own. */
TEST(a_node_is_excused_for_a_step_of_ours_once)
{
    for (int with_us = 0; with_us < 2; with_us++) {
        client_begin(NULL);
        node_pause(nodes[2]);
        process_pause(client.process);
        run_for(2 * NS_PER_S);
        host_stood(client.host, 2 * NS_PER_S);
        if (with_us)
            host_stood(nodes[2]->host, 2 * NS_PER_S);
        process_resume(client.process);
        run_for(PULSE_NS);
        const struct trust_node *third = &client.group->trust.node[2];
        assert_true(third->owed.least != 0);
        node_resume(nodes[2]);
        for (int64_t ns = 0; ns < 2 * PULSE_NS && third->owed.least != 0; ns += LOOK_NS)
            run_for(LOOK_NS);
        assert_true(third->owed.least == 0);
        expect_third(TRUST_VOTES, TRUST_FINE);
        third_steps(2 * NS_PER_S);
        run_for(PULSE_NS);
        expect_third(TRUST_QUARANTINED, TRUST_CLOCK_STEPPED);
    }
}

/* --- tokens that a node forgot ------------------------------------------------------------------------------------ */

static uint64_t tokens[2];

static uint64_t token_of(struct redlock_client *user, const char *name)
{
    struct redlock_request request = {.resources = &name, .resource_count = 1};
    struct redlock_terms terms = {.ttl_ms = 500, .wait_ms = 20000};
    struct redlock_held *held = NULL;
    redlock_client_acquire(user, &terms, &request, &held, NULL, 0);
    uint64_t token = redlock_held_token(held);
    redlock_client_release(held, REDLOCK_AWAIT);
    return token;
}

/* While one node is away, whose clock the client knows, or not. */
static uint64_t token_take(struct node *away, bool knows_clock)
{
    if (!knows_clock)
        node_pause(away);
    struct redlock_client *user = redlock_client_open(three_nodes(), NULL, 0);
    if (knows_clock)
        assert_true(token_of(user, "another") > 0);
    node_pause(away);
    uint64_t token = token_of(user, "r");
    redlock_client_close(user);
    node_resume(away);
    return token;
}

/* The third node knows nothing of the first token, and the second one is away for the other. */
static void token_forget_and_heal(void *argument)
{
    struct redlock_group_terms terms = {.max_ttl_ms = 1000};
    struct redlock_nodes *session = redlock_nodes_open(three_nodes(), NULL, 0);
    assert_int_equal(redlock_nodes_init(session, &terms), REDLOCK_NODES_DONE);
    redlock_nodes_close(session);
    tokens[0] = token_take(nodes[2], argument != NULL);
    server_evict(nodes[0]->server, SIZE_MAX, 1);
    session = redlock_nodes_open(three_nodes(), NULL, 0);
    healed = redlock_nodes_heal(session, NULL, INT64_MAX);
    redlock_nodes_close(session);
    tokens[1] = token_take(nodes[1], false);
}

/* The clock that is an hour behind is that of a node which never knew the token, or of the one which forgot it. */
TEST(a_token_stays_below_those_after_a_heal_whatever_clocks_show)
{
    for (unsigned behind = 0; behind < 3; behind += 2) {
        world_begin(1);
        network_begin();
        for (unsigned i = 0; i < 3; i++)
            nodes[i] = node_create((const char *[]){"lock1", "lock2", "lock3"}[i]);
        host_step_wall(nodes[behind]->host, -STEP_NS);
        tokens[0] = tokens[1] = 0;
        healed = REDLOCK_NODES_REFUSED;
        process_start(host_create("operator"), "operator", token_forget_and_heal, behind == 0 ? nodes : NULL);
        world_run(instant_after(world_time(), 120 * NS_PER_S));
        assert_int_equal(healed, REDLOCK_NODES_DONE);
        assert_true(tokens[0] > 0 && tokens[1] > tokens[0]);
    }
}

/* --- a memory that goes back -------------------------------------------------------------------------------------- */

TEST_WITH(a_server_that_fell_back_to_an_older_memory_has_no_vote, client_begin, NULL)
{
    node_copy(nodes[2]);
    run_for(NS_PER_S);
    node_fall_back(nodes[2]);
    run_for(PULSE_NS);
    assert_string_equal(buffer_text(&marker()->string), client.marker);
    expect_third(TRUST_QUARANTINED, TRUST_NEW_RUN);
    run_for(QUARANTINE_NS);
    expect_third(TRUST_VOTES, TRUST_FINE);
}

/* --- a key that is given again ------------------------------------------------------------------------------------ */

#define HOLD_TTL_NS (2 * NS_PER_S)

static void holder_main(void *argument)
{
    (void)argument;
    const char *name = "r";
    struct redlock_held *held = NULL;
    struct redlock_client *user = redlock_client_open(three_nodes(), NULL, 0);
    struct redlock_request request = {.resources = &name, .resource_count = 1};
    struct redlock_terms terms = {.ttl_ms = HOLD_TTL_NS / NS_PER_MS};
    assert_int_equal(redlock_client_acquire(user, &terms, &request, &held, NULL, 0), REDLOCK_ACQUIRED);
    process_sleep(INT64_C(3600) * NS_PER_S);
}

static int64_t key_expires_ms(struct node *node)
{
    const struct value *key = keyspace_peek(server_keyspace(node->server), text_of("r"), node_now_us(node));
    return key != NULL ? key->expires_ms : 0;
}

static void await_extension(void)
{
    int64_t before_ms = key_expires_ms(nodes[0]);
    while (key_expires_ms(nodes[0]) == before_ms)
        run_for(100 * NS_PER_US);
}

/* The third did not have it, because it was away, and then because somebody deleted it. The second time the call is on
 * its way when the node begins to stand still, and is executed when its holder is long dead. */
TEST_WITH(a_key_is_given_again_in_time_or_not_at_all, client_begin, NULL)
{
    struct host *host = host_create("holder");
    node_pause(nodes[2]);
    struct process *holder = process_start(host, "holder", holder_main, NULL);
    await_extension();
    node_resume(nodes[2]);
    run_for(2 * HOLD_TTL_NS);
    assert_true(key_expires_ms(nodes[2]) > 0);
    struct keyspace *space = server_keyspace(nodes[2]->server);
    keyspace_remove(space, keyspace_find(space, text_of("r")));
    network_path(host, nodes[2]->host)->least_ns = network_path(host, nodes[2]->host)->most_ns = 5 * NS_PER_MS;
    await_extension();
    run_for(100 * NS_PER_MS);
    assert_int_equal(key_expires_ms(nodes[2]), 0);
    await_extension();
    node_pause(nodes[2]);
    run_for(NS_PER_MS * 100);
    process_kill(holder, true);
    run_for(2 * HOLD_TTL_NS);
    node_resume(nodes[2]);
    run_for(NS_PER_S);
    assert_int_equal(key_expires_ms(nodes[2]), 0);
}

RUN_TESTS
