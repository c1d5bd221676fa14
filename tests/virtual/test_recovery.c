/* G5: the tasks of a process that died run again; those of one that lives stay its own, whatever happens to the node.
 * A probe that is stopped without leaving is a process that was killed. */
#include "queue/keys.h"
#include "queue/scripts.h"
#include "tests/support/queue_fixture.h"

#define LEASE_NS (300 * NS_PER_MS)

static const struct queue_options leased = {.lease_ns = LEASE_NS};

static void start_leased(struct queue_probe *process, const char *names)
{
    queue_probe_start(process, loop, redis_server_port(server), names, &leased);
    queue_probe_wait_up(process);
}

static void push_task(const char *queue, const char *jid)
{
    free(redis_server_command(server, "LPUSH queue:%s '{\"class\":\"t\",\"args\":[1],\"jid\":\"%s\"}'", queue, jid));
}

#define TASK(jid) "{\"class\":\"t\",\"args\":[1],\"jid\":\"" jid "\"}"

static void claim_task(struct queue_probe *process, unsigned slot)
{
    queue_probe_settle(process, slot, true);
    assert_int_equal(queue_probe_wait(process, slot), QUEUE_CLAIMED);
}

/* --- the dead ----------------------------------------------------------------------------------------------------- */

static bool has_recovered(void *count)
{
    return queue_counters(other.queue)->recovered + queue_counters(other.queue)->poisoned >= *(unsigned *)count;
}

static void wait_recovered(unsigned count)
{
    if (!loop_until(loop, has_recovered, &count, TEST_PATIENCE_NS))
        fail_msg("%u claims were not recovered", count);
}

TEST(G5_what_a_dead_process_had_returns_to_the_heads_of_its_queues)
{
    start_leased(&probe, "a b");
    push_task("a", "j1");
    push_task("b", "j2");
    claim_task(&probe, 0);
    claim_task(&probe, 1);
    push_task("a", "later");
    free(redis_server_command(server, "LPUSH hf:2:bell:%s:b rung", probe.identity));
    queue_probe_stop(&probe);
    start_leased(&other, "unserved");
    wait_tasks("queue:a " TASK("j1") "\nqueue:a " TASK("later") "\nqueue:b rung\nqueue:b " TASK("j2"));
    assert_reply(server, TASK("j1"), "LINDEX queue:a -1");
    wait_recovered(2);
    assert_reply(server, "1", "HLEN hf:2:recovered:j1");
    assert_in_range(queue_probe_number(server, "TTL hf:2:recovered:j1"), 72 * 3600 - 60, 72 * 3600);
}

TEST(the_third_process_that_dies_of_a_task_buries_it)
{
    start_leased(&other, "unserved");
    push_task("a", "killer");
    for (unsigned death = 1; death <= 3; death++) {
        start_leased(&probe, "a");
        claim_task(&probe, 0);
        queue_probe_stop(&probe);
        wait_recovered(death);
    }
    assert_reply(server, "0", "LLEN queue:a");
    char *record = redis_server_command(server, "ZRANGE dead 0 -1");
    assert_non_null(strstr(record, "\"error_class\":\"HF::PoisonPill\""));
    assert_non_null(strstr(record, "\"jid\":\"killer\""));
    assert_non_null(strstr(record, "\"failed_at\":"));
    free(record);
    assert_reply(server, "3", "HLEN hf:2:recovered:killer"); /* the last one too */
    assert_int_equal(queue_counters(other.queue)->poisoned, 1);
}

TEST(a_process_that_came_back_is_not_counted)
{
    start_leased(&probe, "a");
    push_task("a", "j1");
    claim_task(&probe, 0);
    free(redis_server_command(server, "HSET hf:2:recovered:j1 %s 1 another 2", probe.identity));
    queue_uncount_recovery(probe.queue, 0, "j1");
    queue_probe_settle(&probe, 0, false);
    queue_probe_wait(&probe, 0);
    assert_reply(server, "another", "HKEYS hf:2:recovered:j1");
}

/* A move that a process had sent may arrive after it was recovered. */
TEST(what_comes_late_to_a_dead_process_is_found_by_a_second_look)
{
    start_leased(&probe, "a");
    push_task("a", "j1");
    claim_task(&probe, 0);
    char identity[64];
    snprintf(identity, sizeof identity, "%s", probe.identity);
    queue_probe_stop(&probe);
    start_leased(&other, "unserved");
    wait_recovered(1);
    char late[128];
    snprintf(late, sizeof late, "hf:2:bell:%s:a", identity);
    assert_reply(server, "1", "LPUSH %s late", late);
    wait_tasks("queue:a late\nqueue:a " TASK("j1"));
}

/* The list of processes is gone, and with it who died; what they had claimed is not: unlisted.lua finds them. */
TEST(the_claims_of_a_process_in_no_list_are_recovered)
{
    start_leased(&probe, "a b");
    push_task("a", "j1");
    claim_task(&probe, 0);
    free(redis_server_command(server, "LPUSH hf:2:bell:%s:b rung", probe.identity));
    free(redis_server_command(server, "LPUSH hf:2:bell:gone:7:x:c:d alone"));
    queue_probe_stop(&probe);
    assert_reply(server, "1", "DEL hf:2:processes");
    start_leased(&other, "unserved");
    wait_tasks("queue:a " TASK("j1") "\nqueue:b rung\nqueue:c:d alone");
}

TEST(a_living_process_that_is_in_no_list_keeps_its_claims)
{
    start_leased(&probe, "a");
    push_task("a", "j1");
    claim_task(&probe, 0);
    assert_reply(server, "1", "DEL hf:2:processes");
    start_leased(&other, "unserved");
    for (unsigned i = 0; i < 5; i++) {
        loop_for(loop, LEASE_NS);
        assert_reply(server, "1", "EXISTS hf:2:process:%s", probe.identity);
        assert_reply(server, "0", "LLEN queue:a");
    }
    assert_int_equal(queue_counters(other.queue)->recovered, 0);
}

/* One walk for all: a process that starts beside others does not look through the keys again. */
TEST(a_fleet_looks_for_processes_in_no_list_once_in_an_hour)
{
    start_leased(&probe, "a");
    loop_for(loop, 3 * LEASE_NS);
    assert_reply(server, "0", "EXISTS hf:2:walked"); /* it is alone */
    start_leased(&other, "unserved");
    loop_for(loop, 3 * LEASE_NS);
    assert_in_range(queue_probe_number(server, "TTL hf:2:walked"), 3590, 3600);
    free(redis_server_command(server, "LPUSH hf:2:bell:gone:7:x:c alone"));
    queue_probe_stop(&other);
    start_leased(&other, "unserved");
    loop_for(loop, 5 * LEASE_NS);
    assert_reply(server, "0", "LLEN queue:c");
    free(redis_server_command(server, "DEL hf:2:walked"));
    queue_probe_stop(&other);
    start_leased(&other, "unserved");
    wait_tasks("queue:c alone");
}

TEST(a_walk_that_is_refused_leaves_no_mark)
{
    start_leased(&probe, "a");
    loop_for(loop, 3 * LEASE_NS);
    free(redis_server_command(server, "LPUSH hf:2:bell:gone:7:x:c alone"));
    free(redis_server_command(server, "ACL SETUSER default -scan"));
    start_leased(&other, "unserved");
    loop_for(loop, 3 * LEASE_NS);
    free(redis_server_command(server, "ACL SETUSER default +scan"));
    wait_tasks("queue:c alone");
}

TEST(texts_that_are_no_tasks_are_recovered_without_a_count)
{
    start_leased(&other, "unserved");
    push("a", "rubbish");
    for (unsigned death = 1; death <= 4; death++) {
        start_leased(&probe, "a");
        claim_task(&probe, 0);
        queue_probe_stop(&probe);
        wait_recovered(death);
    }
    assert_tasks("queue:a rubbish");
}

/* Nobody can say where it belongs. */
TEST(a_slot_without_a_queue_stays_and_keeps_nothing_else)
{
    start_leased(&probe, "a");
    push_task("a", "j1");
    claim_task(&probe, 0);
    free(redis_server_command(server, "HSET hf:2:process:%s 7 0123456789abcdefrubbish", probe.identity));
    queue_probe_stop(&probe);
    start_leased(&other, "unserved");
    wait_recovered(1);
    assert_reply(server, TASK("j1"), "LINDEX queue:a 0");
    assert_reply(server, "0123456789abcdefrubbish", "HGET hf:2:process:%s 7", probe.identity);
}

TEST(a_foreign_value_under_a_queue_loses_nothing)
{
    start_leased(&probe, "a b");
    push_task("a", "j1");
    push_task("b", "j2");
    claim_task(&probe, 0);
    claim_task(&probe, 1);
    queue_probe_stop(&probe);
    free(redis_server_command(server, "SET queue:a foreign"));
    start_leased(&other, "unserved");
    wait_recovered(1);
    assert_reply(server, TASK("j2"), "LINDEX queue:b 0");
    free(redis_server_command(server, "DEL queue:a"));
    wait_recovered(2);
    assert_reply(server, TASK("j1"), "LINDEX queue:a 0");
}

TEST(G1_a_recovery_that_is_repeated_moves_nothing_twice)
{
    start_leased(&probe, "unused");
    free(redis_server_command(server, "ZADD hf:2:processes 1 dead"));
    free(redis_server_command(server, "HSET claims queues a 0 \"0123456789abcdefa\\none\""));
    static const char recover[] = "EVALSHA %s 6 hf:2:processes claims dead who queue:a \"\" dead bell: queue: 3 20 100 "
                                  "100 100 1 60 0 0123456789abcdef j1 \"\"";
    assert_reply(server, "back\nclear", recover, queue_script_recover.sha1);
    assert_reply(server, "came back", recover, queue_script_recover.sha1);
    free(redis_server_command(server, "ZADD hf:2:processes 1 dead"));
    assert_reply(server, "moved\nclear", recover, queue_script_recover.sha1);
    assert_reply(server, "1", "LLEN queue:a");
    assert_reply(server, "1", "HLEN who");
}

TEST(every_claim_has_its_outcome)
{
    start_leased(&probe, "unused");
    free(redis_server_command(server, "ZADD hf:2:processes 1 dead"));
    free(
        redis_server_command(server, "HSET claims queues a 0 \"0123456789abcdefa\\nx\" 1 \"0123456789abcdefb\\ntwo\""));
    free(redis_server_command(server, "SET queue:a foreign"));
    assert_reply(server, "stuck\nback\nmoved\nmore",
                 "EVALSHA %s 12 hf:2:processes claims dead who queue:a \"\" who queue:b \"\" who queue:c \"\" dead "
                 "bell: queue: 3 20 100 100 100 1 60 0 0123456789abcdef j1 \"\" 1 0123456789abcdef j2 \"\" "
                 "2 0123456789abcdef j3 \"\"",
                 queue_script_recover.sha1);
    assert_reply(server, "two", "LRANGE queue:b 0 -1");
}

/* A late move of the dead process put another task there, of another queue, after its claims were read. */
TEST(a_claim_that_changed_meanwhile_is_left_for_the_next_look)
{
    start_leased(&probe, "unused");
    free(redis_server_command(server, "ZADD hf:2:processes 1 dead"));
    free(redis_server_command(server, "HSET claims queues a 0 \"fedcba9876543210b\\nlater\""));
    assert_reply(server, "moved\nmore",
                 "EVALSHA %s 6 hf:2:processes claims dead who queue:a \"\" dead bell: queue: 3 20 100 100 100 1 60 0 "
                 "0123456789abcdef j1 \"\"",
                 queue_script_recover.sha1);
    assert_reply(server, "0", "EXISTS queue:a");
    assert_reply(server, "0", "EXISTS who");
    assert_reply(server, "1", "HEXISTS claims 0");
}

/* --- the living --------------------------------------------------------------------------------------------------- */

static bool is_lost(void *process)
{
    return ((struct queue_probe *)process)->slots[0].lost == 1;
}

TEST(a_process_that_was_away_learns_that_its_claim_is_lost)
{
    start_leased(&probe, "a");
    start_leased(&other, "unserved");
    push_task("a", "j1");
    claim_task(&probe, 0);
    /* What a stop that is longer than the lease looks like to the node. */
    unsigned recovered = 0;
    while (queue_counters(other.queue)->recovered == recovered) {
        free(redis_server_command(server, "ZADD hf:2:processes XX 1 %s", probe.identity));
        loop_for(loop, 10 * NS_PER_MS);
    }
    assert_true(loop_until(loop, is_lost, &probe, TEST_PATIENCE_NS));
    queue_probe_settle(&probe, 0, true);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_CLAIMED);
    assert_string_equal(probe.slots[0].payload, TASK("j1"));
}

/* Others count from when the node executes a renewal. It is later than the end that the process relies on. */
TEST(a_process_knows_until_when_nobody_takes_its_claims)
{
    start_leased(&probe, "a");
    push_task("a", "j1");
    claim_task(&probe, 0);
    for (unsigned i = 0; i < 20; i++) {
        loop_for(loop, LEASE_NS / 10);
        int64_t left_ns = instant_since(loop_now(loop), probe.lease_end);
        assert_in_range(left_ns, LEASE_NS / 2, LEASE_NS - 1);
        assert_true(queue_probe_number(server, "EVAL \"local time = redis.call('TIME') return math.floor(1000000 * "
                                               "(redis.call('ZRANGE', 'hf:2:processes', 0, 0, 'WITHSCORES')[2] - "
                                               "time[1] - time[2] / 1000000))\" 0") *
                        NS_PER_US >
                    left_ns);
    }
}

TEST(a_node_that_was_away_makes_nobody_look_dead)
{
    start_leased(&probe, "a");
    start_leased(&other, "unserved");
    push_task("a", "j1");
    claim_task(&probe, 0);
    loop_for(loop, 2 * LEASE_NS); /* both hold their leases long enough to recover others */
    redis_server_pause(server);
    loop_for(loop, 3 * LEASE_NS);
    redis_server_resume(server);
    loop_for(loop, 4 * LEASE_NS);
    assert_int_equal(queue_counters(other.queue)->recovered, 0);
    assert_int_equal(probe.slots[0].lost, 0);
    assert_reply(server, "0", "EXISTS hf:2:recovered:j1");
    queue_probe_claim(&probe, 0, NULL);
}

TEST(a_restarted_node_makes_nobody_look_dead)
{
    start_leased(&probe, "a");
    start_leased(&other, "unserved");
    push_task("a", "j1");
    claim_task(&probe, 0);
    loop_for(loop, 2 * LEASE_NS);
    assert_reply(server, "OK", "SAVE");
    redis_server_kill(server);
    loop_for(loop, 3 * LEASE_NS);
    redis_server_restart(server);
    loop_for(loop, 4 * LEASE_NS);
    assert_int_equal(queue_counters(other.queue)->recovered, 0);
    assert_int_equal(probe.slots[0].lost, 0);
    queue_probe_claim(&probe, 0, NULL);
}

/* What a late call claimed in a slot that asks for nothing any more. */
TEST(a_claim_that_nobody_knows_of_is_given_back)
{
    start_leased(&probe, "a");
    queue_probe_claim(&probe, 0, NULL);
    free(redis_server_command(server, "HSET %s 2 \"0123456789abcdefa\\nstray\"", queue_keys_of(probe.queue)->process));
    free(redis_server_command(server, "HSET %s 0 \"0123456789abcdefa\\nother\"", queue_keys_of(probe.queue)->process));
    wait_tasks("queue:a other\nqueue:a stray");
}

/* --- pauses ------------------------------------------------------------------------------------------------------- */

TEST(a_paused_queue_is_not_claimed_from)
{
    start_leased(&probe, "a b");
    queue_listen(probe.queue, true);
    wait_blocked(2);
    free(redis_server_command(server, "SADD paused a"));
    queue_probe_claim(&probe, 0, NULL);
    wait_blocked(1);
    push("a", "one");
    push("b", "two");
    queue_probe_wait_rings(&probe, 1);
    queue_probe_claim(&probe, 0, "two");
    queue_probe_claim(&probe, 0, NULL);
    assert_tasks("queue:a one");
    free(redis_server_command(server, "SREM paused a"));
    unsigned rings = probe.rings;
    queue_look(probe.queue);
    queue_probe_wait_rings(&probe, rings + 1);
    queue_probe_claim(&probe, 0, "one");
}

/* The bell had it when the queue was paused. */
TEST(a_pause_puts_back_what_rang)
{
    start_leased(&probe, "a b");
    free(redis_server_command(server, "SADD paused a"));
    free(redis_server_command(server, "LPUSH hf:2:bell:%s:a rung", probe.identity));
    push("a", "one");
    queue_probe_claim(&probe, 0, NULL);
    assert_tasks("queue:a one\nqueue:a rung");
    assert_reply(server, "rung", "LINDEX queue:a -1");
}

/* --- the last question before a run ------------------------------------------------------------------------------- */

static enum queue_answer open_slot(unsigned slot, bool finishes)
{
    probe.slots[slot].asked++;
    queue_open(probe.queue, slot, "j1", finishes);
    return queue_probe_wait(&probe, slot);
}

TEST(a_task_is_opened_unless_it_is_cancelled)
{
    start_leased(&probe, "a");
    push_task("a", "j1");
    claim_task(&probe, 0);
    assert_false(queue_has_cancels(probe.queue));
    assert_int_equal(open_slot(0, false), QUEUE_OPENED);
    queue_probe_give_back(&probe, 0);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    free(redis_server_command(server, "ZADD hf:2:cancels 1 j1"));
    claim_task(&probe, 0);
    assert_true(queue_has_cancels(probe.queue));
    assert_int_equal(open_slot(0, true), QUEUE_CANCELLED);
    free(redis_server_command(server, "DEL hf:2:cancels"));
    free(redis_server_command(server, "HSET it-j1 cancelled 1"));
    assert_int_equal(open_slot(0, false), QUEUE_CANCELLED);
    queue_probe_claim(&probe, 0, NULL);
    assert_tasks("");
}

TEST(a_task_that_runs_at_most_once_has_ended_when_it_is_opened)
{
    start_leased(&probe, "a");
    push_task("a", "j1");
    claim_task(&probe, 0);
    assert_int_equal(open_slot(0, true), QUEUE_OPENED);
    assert_tasks("");
    loop_for(loop, 2 * LEASE_NS);
    assert_int_equal(probe.slots[0].lost, 0);
    probe.slots[0].asked++;
    queue_postpone(probe.queue, 0, QUEUE_DEAD, 0, &(struct queue_task_name){.jid = "j1", .is_ended = true}, "x", 1);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_tasks("dead x");
}

TEST(a_unique_task_gives_its_key_free_when_it_ends)
{
    static const struct queue_task_name name = {.jid = "j1", .unique = "digest"};
    start_leased(&probe, "a");
    for (int way = 0; way < 3; way++) {
        push_task("a", "j1");
        claim_task(&probe, 0);
        free(redis_server_command(server, "SET hf:2:unique:digest %s", way < 2 ? "j1" : "j2"));
        probe.slots[0].asked++;
        if (way == 1)
            queue_postpone(probe.queue, 0, QUEUE_DEAD, 0, &name, "x", 1);
        else
            queue_finish(probe.queue, 0, &name);
        assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
        assert_reply(server, way < 2 ? "0" : "1", "EXISTS hf:2:unique:digest");
    }
}

TEST(a_cancelled_task_takes_its_marks_along_when_it_ends)
{
    static const struct queue_task_name name = {.jid = "j1", .is_cancelled = true};
    start_leased(&probe, "a");
    free(redis_server_command(server, "ZADD hf:2:cancels 1 j1 1 j2"));
    free(redis_server_command(server, "HSET it-j1 cancelled 1 ex 0"));
    push_task("a", "j1");
    claim_task(&probe, 0);
    assert_int_equal(open_slot(0, false), QUEUE_CANCELLED);
    probe.slots[0].asked++;
    queue_finish(probe.queue, 0, &name);
    assert_int_equal(queue_probe_wait(&probe, 0), QUEUE_NOTHING);
    assert_tasks("");
    assert_reply(server, "j2", "ZRANGE hf:2:cancels 0 -1");
    assert_reply(server, "0", "EXISTS it-j1");
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, queue_teardown)
