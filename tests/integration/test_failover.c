/* The queue node is replaced under a fleet at work: what a replica was known to have is done, and nothing else. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/one_fleet.h"
#include "tests/support/sentinel.h"

enum { TASKS = 600, RESOURCES = 60, WORKERS = 2 };

static struct redis_server *first, *replica, *sentinel;
static char queue_at[128];

static int enter(void **state)
{
    (void)state;
    fleet_start(&fleet, &(struct redis_server_options){.config = "appendonly yes\nappendfsync no\n"}, 3);
    first = fleet.queue;
    replica = replica_start(first);
    free(redis_server_command(first, "CONFIG SET min-replicas-to-write 1"));
    sentinel = sentinel_start(first, NULL);
    snprintf(queue_at, sizeof queue_at, "sentinels = [\"127.0.0.1:%u\"]; master = \"" SENTINEL_MASTER "\";",
             redis_server_port(sentinel));
    return 0;
}

static int leave(void **state)
{
    (void)state;
    one_fleet_tell();
    for (unsigned i = 0; i < fleet.worker_count; i++) {
        if (fleet.workers[i].pid == 0)
            continue;
        one_fleet_kill(i);
    }
    redis_server_destroy(sentinel);
    redis_server_destroy(replica);
    fleet.queue = first;
    fleet_stop(&fleet);
    return 0;
}

/* Two workers are in the middle of tasks that have all reached the replica. */
static void start_working(void)
{
    fleet_push_many(&fleet, "guarded", TASKS, 4, RESOURCES);
    replica_await_sync(first);
    for (unsigned i = 0; i < WORKERS; i++)
        fleet_work(&fleet, &(struct fleet_setup){.queue_at = queue_at, .threads = 8});
    test_await(fleet_noted_all(&fleet, "end ") >= 100);
}

/* From now on the replica is the queue node, and need not have a replica itself. */
static void await_replaced(void)
{
    test_await(sentinel_master_port(sentinel) == redis_server_port(replica));
    fleet.queue = replica;
    free(redis_server_command(replica, "CONFIG SET min-replicas-to-write 0"));
}

/* Who has not found the replica yet has nowhere to give back what it has, and says so by its exit code. */
static void workers_stop(void)
{
    char found[64];
    snprintf(found, sizeof found, "node_up node=queue address=127.0.0.1:%u", redis_server_port(replica));
    for (unsigned i = 0; i < WORKERS; i++) {
        test_await(fleet_logged(&fleet, i, found));
        one_fleet_stop(i);
    }
}

static unsigned tasks_noted(const char *what)
{
    char *journal = fleet_journal(&fleet), line[32];
    unsigned count = 0;
    for (unsigned i = 1; i <= TASKS; i++) {
        snprintf(line, sizeof line, "%s t%u\n", what, i);
        count += strstr(journal, line) != NULL;
    }
    free(journal);
    return count;
}

/* A task may have run twice, when the replica did not know yet that it was claimed or that it had ended; but never
 * beside itself or another one of its resource. */
static void assert_all_done(void)
{
    test_await(fleet_left(&fleet) == 0);
    workers_stop();
    assert_int_equal(tasks_noted("end"), TASKS);
    assert_int_equal(tasks_noted("begin"), TASKS);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), fleet_noted_all(&fleet, "begin t"));
    assert_int_equal(fleet_noted_all(&fleet, "clash "), 0);
    assert_in_range(fleet_noted_all(&fleet, "begin "), TASKS, TASKS + 100);
}

TEST(tasks_survive_the_death_of_the_master)
{
    start_working();
    redis_server_kill(first);
    sentinel_notices(sentinel);
    await_replaced();
    assert_all_done();
}

TEST(tasks_survive_a_failover_on_request)
{
    start_working();
    sentinel_fail_over(sentinel);
    await_replaced();
    test_await(fleet_logged(&fleet, 0, "NOREPLICAS"));
    assert_all_done();
}

/* What the replica does not get is lost, as the manual says; claims of such tasks are found lost, nobody stumbles. */
TEST(what_never_reached_the_replica_is_gone_and_the_rest_is_done)
{
    start_working();
    free(redis_server_command(first, "CONFIG SET min-replicas-to-write 0"));
    redis_server_pause(replica);
    unsigned done = fleet_noted_all(&fleet, "end ");
    for (unsigned i = 0; i < 20; i++)
        fleet_push(&fleet, "{\"class\":\"note\",\"args\":[1],\"jid\":\"x%u\"}", i);
    test_await(fleet_noted_all(&fleet, "end ") >= done + 50);
    redis_server_kill(first);
    redis_server_resume(replica);
    sentinel_notices(sentinel);
    await_replaced();
    test_await(fleet_left(&fleet) == 0);
    workers_stop();
    assert_int_equal(tasks_noted("end"), TASKS);
    assert_int_equal(fleet_noted_all(&fleet, "clash "), 0);
}

RUN_TESTS_WITH(enter, leave)
