/* The life of locks in simulated worlds (tests/sim/world/play.h says what the environment chooses; HF_PROFILE: one of
 * steady, loss, steps, wild, ruin, any). */
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/lock/schedule.h"
#include "tests/support/test.h"

#define LIMIT_NS (12 * NS_PER_S)

static const char *const expected[] = {"acquired",      "busy",
                                       "extended",      "danger",
                                       "lost",          "verified",
                                       "fenced off",    "acquired by a plain client",
                                       "handed over",   "replaced a node",
                                       "moved address", NULL};

static void locks_keep_their_promises(void **state)
{
    (void)state;
    struct play play = {.name = "locks",
                        .schedule = lock_schedule_play,
                        .count = 100000,
                        .limit_ns = LIMIT_NS,
                        .expected = expected,
                        .expected_after = 1000};
    assert_int_equal(play_all(&play), 0);
}

static void locks_keep_their_promises_in_the_same_schedules_each_day(void **state)
{
    (void)state;
    struct play play = {
        .name = "locks", .schedule = lock_schedule_play, .count = 4000, .seed = 1, .limit_ns = LIMIT_NS};
    if (getenv("HF_SEED") != NULL)
        skip();
    assert_int_equal(play_all(&play), 0);
}

/* --- an operator -------------------------------------------------------------------------------------------------- */

static struct node *nodes[5];
static enum redlock_nodes_end healed;

static void forget_two_and_heal(void *argument)
{
    static char names[5][8];
    struct redlock_node list[5];
    struct redlock_options options = {.nodes = list, .node_count = 5};
    struct redlock_group_terms terms = {.max_ttl_ns = NS_PER_S};
    (void)argument;
    for (unsigned i = 0; i < 5; i++) {
        snprintf(names[i], sizeof names[i], "lock%u", i + 1);
        list[i] = (struct redlock_node){.name = names[i], .host = names[i], .port = 6379};
    }
    struct redlock_nodes *session = redlock_nodes_open(&options, NULL, 0);
    assert_int_equal(redlock_nodes_init(session, &terms), REDLOCK_NODES_DONE);
    redlock_nodes_close(session); /* who saw them with their markers would know their places */
    server_evict(nodes[1]->server, SIZE_MAX, 1);
    server_evict(nodes[3]->server, SIZE_MAX, 1);
    session = redlock_nodes_open(&options, NULL, 0);
    healed = redlock_nodes_heal(session, NULL, true);
    redlock_nodes_close(session);
}

static void nodes_that_forgot_are_healed_one_after_the_other(void **state)
{
    (void)state;
    world_begin(1);
    network_begin();
    for (unsigned i = 0; i < 5; i++)
        nodes[i] = node_create((const char *[]){"lock1", "lock2", "lock3", "lock4", "lock5"}[i]);
    healed = REDLOCK_NODES_REFUSED;
    process_start(host_create("operator"), "operator", forget_two_and_heal, NULL);
    world_run(instant_after(world_time(), 60 * NS_PER_S));
    assert_int_equal(healed, REDLOCK_NODES_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_that_forgot_are_healed_one_after_the_other),
        cmocka_unit_test(locks_keep_their_promises),
        cmocka_unit_test(locks_keep_their_promises_in_the_same_schedules_each_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
