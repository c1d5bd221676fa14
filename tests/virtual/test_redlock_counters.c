/* What a group counts of each of its nodes, and of its extensions, over real servers: every counter is seen to move by
 * what it stands for, on the nodes where that happens, and nowhere else. */
#include "tests/support/test.h"

#include "tests/support/lock_fixture.h"

static const struct redlock_node_counters *counters_of(unsigned node)
{
    return redlock_group_node_counters(group, node);
}

/* Every answer of what was sent for `mine` is there, which is free. */
static void all_answered(void)
{
    loop_await(loop, redlock_group_busy(group) == 0);
}

static uint64_t requests_to(unsigned node)
{
    return counters_of(node)->requests + redlock_group_node_counters(other_group, node)->requests;
}

TEST(every_node_counts_what_it_was_asked_and_granted)
{
    enum { CYCLES = 10 };
    uint64_t requests[NODES], calls[NODES];
    (void)state;
    for (unsigned i = 0; i < NODES; i++) {
        calls[i] = redis_server_calls(cluster.servers[i], "evalsha");
        requests[i] = requests_to(i);
        assert_int_equal(counters_of(i)->granted, 0);
    }
    for (int i = 0; i < CYCLES; i++) {
        assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
        assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    }
    all_answered();
    for (unsigned i = 0; i < NODES; i++) {
        const struct redlock_node_counters *counters = counters_of(i);
        assert_int_equal(counters->granted, CYCLES);
        assert_true(requests_to(i) >= requests[i] + 2 * CYCLES);
        loop_await(loop, redis_server_calls(cluster.servers[i], "evalsha") - calls[i] == requests_to(i) - requests[i]);
        assert_int_equal(counters->latency.count, 2 * CYCLES); /* grants and releases, and not the looks at it */
        assert_true(counters->latency.max_us > 0);
        assert_int_equal(counters->refused + counters->errors + counters->timeouts + counters->split_votes, 0);
    }
    assert_null(redlock_group_node_counters(group, NODES));
}

TEST(a_node_that_has_it_for_somebody_else_counts_a_refusal)
{
    assert_int_equal(lock_probe_acquire(&theirs, "r"), REDLOCK_ACQUIRED);
    for (unsigned i = 0; i < NODES; i++)
        loop_await(loop, redlock_group_node_counters(other_group, i)->granted == 1);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_BUSY);
    all_answered();
    for (unsigned i = 0; i < NODES; i++) {
        assert_int_equal(counters_of(i)->refused, mine.attempts);
        assert_int_equal(counters_of(i)->granted, 0);
        assert_int_equal(counters_of(i)->errors + counters_of(i)->timeouts + counters_of(i)->split_votes, 0);
    }
    assert_int_equal(lock_probe_release(&theirs), REDLOCK_RELEASED);
}

/* It is asked for the grant, and for the release behind it. */
TEST(a_node_that_is_stopped_counts_timeouts)
{
    pause_first(1);
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    loop_await(loop, counters_of(0)->timeouts > 0);
    assert_int_equal(counters_of(0)->granted + counters_of(0)->latency.count, 0);
    for (unsigned i = 1; i < NODES; i++)
        assert_int_equal(counters_of(i)->granted, 1);
    resume_first(1);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

TEST(a_node_whose_connection_breaks_counts_timeouts)
{
    pause_first(1);
    lock_probe_ask(&mine, "r");
    loop_await(loop, mine.answers == 1);
    kill_first(1);
    loop_await(loop, counters_of(0)->timeouts > 0);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    loop_await(loop, redlock_group_nodes_up(group) == NODES - 1);
    uint64_t requests = counters_of(0)->requests;
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    assert_int_equal(counters_of(0)->requests, requests); /* nothing is sent to one that is not there */
}

TEST(a_node_that_answers_with_errors_counts_them)
{
    ask_first(1, "CONFIG SET maxmemory 1");
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    loop_await(loop, counters_of(0)->errors > 0);
    assert_int_equal(counters_of(0)->granted, 0);
    ask_first(1, "CONFIG SET maxmemory 0");
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
    for (unsigned i = 1; i < NODES; i++)
        assert_int_equal(counters_of(i)->errors, 0);
}

/* It says that it is not the node that the group knows. */
TEST(a_node_that_refuses_to_vote_counts_an_error)
{
    lock_cluster_ask(&cluster, 0, "SET hf:lock:group other");
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    loop_await(loop, counters_of(0)->errors > 0);
    assert_int_equal(counters_of(0)->granted, 0);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

/* So does one whose counter of tokens is none: no vote, and no refusal by another holder either. */
TEST(a_node_with_an_unusable_token_counts_an_error)
{
    lock_cluster_fence_put(&cluster, 0, "lock:r", "none");
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_ACQUIRED);
    loop_await(loop, counters_of(0)->errors > 0);
    assert_int_equal(counters_of(0)->granted + counters_of(0)->refused, 0);
    assert_int_equal(lock_probe_release(&mine), REDLOCK_RELEASED);
}

/* The first three are held by three, and answer when others have granted. */
static void split_ask(struct lock_probe *once, unsigned late)
{
    static struct redlock_terms single;
    single = quick_terms(10000, 1);
    lock_probe_create(once, loop, group, &single);
    for (unsigned i = 0; i < QUORUM; i++)
        lock_cluster_ask(&cluster, i, "SET lock:r owner%u PX 60000", i);
    pause_first(QUORUM);
    if (late < NODES)
        redis_server_pause(cluster.servers[late]);
    lock_probe_ask(once, "r");
    for (unsigned i = QUORUM; i < NODES; i++)
        loop_await(loop, i == late || counters_of(i)->granted == 1);
    resume_first(QUORUM);
    loop_await(loop, once->answers == 1);
    assert_int_equal(once->answer, REDLOCK_SPLIT);
}

TEST(a_vote_for_nobody_is_counted_where_it_was_given)
{
    struct lock_probe once;
    split_ask(&once, NODES);
    all_answered();
    for (unsigned i = 0; i < NODES; i++) {
        assert_int_equal(counters_of(i)->split_votes, i >= QUORUM);
        assert_int_equal(counters_of(i)->granted, i >= QUORUM);
        assert_int_equal(counters_of(i)->refused, i < QUORUM);
    }
    lock_probe_destroy(&once);
}

TEST(a_vote_for_nobody_is_counted_also_when_it_comes_late)
{
    struct lock_probe once;
    split_ask(&once, NODES - 1);
    assert_int_equal(counters_of(NODES - 2)->split_votes, 1);
    assert_int_equal(counters_of(NODES - 1)->split_votes, 0);
    redis_server_resume(cluster.servers[NODES - 1]);
    all_answered();
    assert_int_equal(counters_of(NODES - 1)->granted, 1);
    assert_int_equal(counters_of(NODES - 1)->split_votes, 1);
    lock_probe_destroy(&once);
}

/* A majority that is held by one is no split vote, whatever the others granted. */
TEST(a_vote_against_a_holder_is_no_split_vote)
{
    for (unsigned i = 0; i < QUORUM; i++)
        lock_cluster_ask(&cluster, i, "SET lock:r one PX 60000");
    assert_int_equal(lock_probe_acquire(&mine, "r"), REDLOCK_BUSY);
    all_answered();
    for (unsigned i = 0; i < NODES; i++)
        assert_int_equal(counters_of(i)->split_votes, 0);
    assert_int_equal(counters_of(NODES - 1)->granted, mine.attempts);
}

TEST(every_round_that_extends_a_lock_is_timed)
{
    struct lock_probe brief;
    struct redlock_terms quick = quick_terms(600, 3);
    const struct histogram *rounds = redlock_group_extensions(group);
    lock_probe_create(&brief, loop, group, &quick);
    assert_int_equal(rounds->count, 0);
    assert_int_equal(lock_probe_acquire(&brief, "r"), REDLOCK_ACQUIRED);
    assert_int_equal(rounds->count, 0);
    loop_await(loop, brief.extended >= 3);
    assert_int_equal(rounds->count, brief.extended);
    assert_int_equal(redlock_group_counters(group)->extensions, brief.extended);
    assert_true(rounds->sum_us > 0);
    assert_true(rounds->max_us < 600000); /* a round, and not what lies between them */
    assert_int_equal(lock_probe_release(&brief), REDLOCK_RELEASED);
    lock_probe_destroy(&brief);
}

/* On a loaded machine servers are slow without being at fault, and here every answer counts. */
static int patient_set_up(void **state)
{
    (void)one_cluster_set_up(state);
    for (unsigned i = 0; i < NODES; i++)
        cluster.nodes[i].timeout_ms = 2000;
    return 0;
}

RUN_GROUP(patient_set_up, one_cluster_tear_down, lock_set_up, lock_tear_down)
