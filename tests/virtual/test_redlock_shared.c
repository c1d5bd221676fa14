/* Readers share a resource; a writer has it alone. Every group is a process of its own. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "redlock/scripts.h"
#include "tests/support/waiting_fixture.h"

enum { TTL_MS = 10000, TURN_MS = 200 };

static struct lock_probe *reader(unsigned of_process, int64_t wait_ms)
{
    struct lock_probe *probe = waiter(of_process, wait_ms);
    probe->shared = true;
    return probe;
}

/* Its ttl is 2 s. */
static struct lock_probe *brief_user(void)
{
    struct redlock_terms terms = quick_terms(2000, 1);
    terms.wait_ms = 60000;
    struct lock_probe *probe = &waiters[waiter_count++];
    lock_probe_create(probe, loop, process(0), &terms);
    return probe;
}

static struct lock_probe *brief_reader(void)
{
    struct lock_probe *probe = brief_user();
    probe->shared = true;
    return probe;
}

static uint64_t acquire(struct lock_probe *probe, const char *resources)
{
    assert_int_equal(lock_probe_acquire(probe, resources), REDLOCK_ACQUIRED);
    return redlock_lock_token(probe->lock);
}

/* On all nodes: some get it after the majority that decided. */
static void release(struct lock_probe *probe)
{
    struct redlock_group *group = probe->lock->group;
    assert_int_equal(lock_probe_release(probe), REDLOCK_RELEASED);
    loop_await(loop, redlock_group_busy(group) == 0 || !redlock_lock_is_free(probe->lock));
}

static unsigned number(unsigned node, const char *command)
{
    return (unsigned)strtoul(lock_cluster_ask(&cluster, node, "%s", command), NULL, 10);
}

static void run_ms(int64_t ms)
{
    loop_for(loop, ms * NS_PER_MS);
}

static void all_have(const char *command, unsigned count)
{
    for (unsigned i = 0; i < NODES; i++)
        loop_await(loop, number(i, command) == count);
}

/* --- who excludes whom -------------------------------------------------------------------------------------------- */

TEST(readers_of_one_and_of_many_processes_share_it)
{
    for (unsigned i = 0; i < 6; i++)
        acquire(reader(i / 2, 0), "r");
    all_have("ZCARD hf:readers:lock:r", 6);
    assert_string_equal(lock_cluster_ask(&cluster, 0, "GET lock:r"), "hf:shared");
}

TEST(a_writer_and_readers_exclude_each_other)
{
    struct lock_probe *one = reader(0, 0), *other = reader(1, 0), *writer = waiter(2, 0);
    acquire(one, "r");
    acquire(other, "r");
    assert_int_equal(lock_probe_acquire(writer, "r"), REDLOCK_BUSY);
    assert_contains(writer->reason, "held by readers for 9");
    release(one);
    assert_int_equal(lock_probe_acquire(writer, "r"), REDLOCK_BUSY);
    release(other);
    acquire(writer, "r");
    assert_int_equal(lock_probe_acquire(one, "r"), REDLOCK_BUSY);
    assert_contains(one->reason, "held by host:1:2:test for ");
    release(writer);
    acquire(one, "r");
}

/* Its key is another than that of the resource. */
TEST(a_holder_of_a_later_seat_and_readers_exclude_each_other)
{
    struct lock_probe *holder = waiter(0, 0), *one = reader(1, 0);
    holder->limit = holder->seat = 3;
    acquire(holder, "r");
    assert_int_equal(lock_probe_acquire(one, "r"), REDLOCK_BUSY);
    assert_contains(one->reason, "held by host:1:2:test for ");
    run_ms(3 * TTL_MS); /* it is extended */
    assert_int_equal(lock_probe_acquire(one, "r"), REDLOCK_BUSY);
    release(holder);
    acquire(one, "r");
    assert_int_equal(lock_probe_acquire(holder, "r"), REDLOCK_BUSY);
    assert_contains(holder->reason, "held by readers for ");
    release(one);
    acquire(holder, "r");
}

/* As under any key of a lock: it may stand for anything. */
TEST(a_later_seat_with_a_value_of_another_kind_keeps_readers_out)
{
    struct lock_probe *holder = waiter(0, 0), *one = reader(1, 0);
    holder->limit = holder->seat = 3;
    acquire(holder, "r");
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_ask(
            &cluster, i,
            "EVAL \"redis.call('DEL', KEYS[1]) return redis.call('RPUSH', KEYS[1], 'x')\" 1 lock:hf:seat:3:r");
    assert_int_equal(lock_probe_acquire(one, "r"), REDLOCK_BUSY);
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_ask(&cluster, i, "DEL lock:hf:seat:3:r");
    acquire(one, "r");
}

TEST(of_several_resources_all_or_none_are_shared)
{
    struct lock_probe *writer = waiter(0, 0), *both = reader(1, 0);
    acquire(writer, "b");
    assert_int_equal(lock_probe_acquire(both, "a b"), REDLOCK_BUSY);
    all_have("EXISTS lock:a hf:readers:lock:a", 0);
    release(writer);
    uint64_t token = acquire(both, "a b");
    all_have("EXISTS lock:a lock:b hf:readers:lock:a hf:readers:lock:b", 4);
    assert_int_equal(lock_probe_acquire(writer, "a"), REDLOCK_BUSY);
    release(both);
    all_have("EXISTS lock:a lock:b hf:readers:lock:a hf:readers:lock:b", 0);
    assert_true(acquire(writer, "a") > token);
}

TEST(clients_that_know_only_set_nx_and_readers_exclude_each_other)
{
    struct lock_probe *one = reader(0, 0);
    acquire(one, "r");
    for (unsigned i = 0; i < NODES; i++)
        loop_await(loop, strcmp(lock_cluster_ask(&cluster, i, "SET lock:r foreign NX PX 5000"), "(nil)") == 0);
    release(one);
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_ask(&cluster, i, "SET lock:r foreign NX PX 5000");
    assert_int_equal(lock_probe_acquire(one, "r"), REDLOCK_BUSY);
}

/* --- how long ----------------------------------------------------------------------------------------------------- */

TEST(the_key_lasts_as_long_as_the_last_reader)
{
    struct lock_probe *brief = brief_reader(), *lasting = reader(1, 0);
    acquire(brief, "r");
    assert_true(number(0, "PTTL lock:r") <= 2000);
    acquire(lasting, "r");
    all_have("ZCARD hf:readers:lock:r", 2);
    assert_in_range(number(0, "PTTL lock:r"), TTL_MS - 1000, TTL_MS);
    assert_in_range(number(0, "PTTL hf:readers:lock:r"), TTL_MS - 1000, TTL_MS);
    release(lasting);
    all_have("ZCARD hf:readers:lock:r", 1);
    assert_true(number(0, "PTTL lock:r") <= 2000);
    assert_true(number(0, "PTTL hf:readers:lock:r") <= 2000);
}

/* For three ttls, while others come and go. */
TEST(a_reader_is_extended_beside_others)
{
    struct lock_probe *brief = brief_reader();
    acquire(brief, "r");
    for (unsigned i = 0; i < 6; i++) {
        struct lock_probe *other = reader(1, 0);
        acquire(other, "r");
        run_ms(1000);
        release(other);
    }
    assert_true(brief->extended >= 6);
    assert_int_equal(brief->losses, 0);
    all_have("ZCARD hf:readers:lock:r", 1);
}

/* An entry that a deleted key left, and a reader of the next generation. */
TEST(a_reader_whose_key_was_deleted_is_not_planted_again)
{
    struct lock_probe *lost = brief_reader(), *next = reader(1, 0);
    acquire(lost, "r");
    lock_cluster_take_away(&cluster, "lock:r");
    acquire(next, "r");
    all_have("ZCARD hf:readers:lock:r", 1);
    loop_await(loop, lost->losses == 1);
    assert_int_equal(lost->loss, REDLOCK_LOST_TAKEN);
    assert_int_equal(lock_probe_release(lost), REDLOCK_EXPIRED);
    all_have("ZCARD hf:readers:lock:r", 1);
    assert_int_equal(next->losses, 0);
}

TEST(a_reader_that_lingers_keeps_writers_out_and_readers_in)
{
    struct lock_probe *one = reader(0, 0), *other = reader(1, 0), *writer = waiter(2, 0);
    acquire(one, "r");
    loop_for(loop, 0);
    redlock_lock_linger(one->lock, 3 * NS_PER_S);
    loop_await(loop, one->releases == 1);
    assert_int_equal(one->ending, REDLOCK_RELEASED);
    all_have("ZCARD hf:readers:lock:r", 1);
    assert_in_range(number(0, "PTTL lock:r"), 1, 3000);
    assert_int_equal(lock_probe_acquire(writer, "r"), REDLOCK_BUSY);
    acquire(other, "r");
    release(other);
    run_ms(3000);
    acquire(writer, "r");
}

/* --- whose turn it is --------------------------------------------------------------------------------------------- */

TEST(a_writer_that_waits_keeps_new_readers_out_and_gets_the_next_turn)
{
    struct lock_probe *one = reader(0, 0), *late = reader(1, 0), *writer = waiter(2, 30000);
    acquire(one, "r");
    lock_probe_ask(writer, "r");
    all_have("EXISTS hf:writer:lock:r", 1);
    assert_int_equal(lock_probe_acquire(late, "r"), REDLOCK_BUSY);
    assert_contains(late->reason, "held by one that waits for ");
    assert_int_equal(writer->answers, 0);
    release(one);
    loop_await(loop, writer->answers == 1);
    assert_int_equal(writer->answer, REDLOCK_ACQUIRED);
    run_ms(2 * TURN_MS);
    all_have("EXISTS hf:writer:lock:r", 0);
    release(writer);
    acquire(late, "r");
}

/* Readers that wait get it after the writer, all of them. */
TEST(readers_that_wait_get_it_behind_the_writer)
{
    struct lock_probe *one = reader(0, 0), *writer = waiter(1, 30000), *late[4];
    acquire(one, "r");
    lock_probe_ask(writer, "r");
    all_have("EXISTS hf:writer:lock:r", 1);
    for (unsigned i = 0; i < 4; i++) {
        late[i] = reader(2 + i % 2, 30000);
        lock_probe_ask(late[i], "r");
    }
    run_ms(500);
    release(one);
    loop_await(loop, writer->answers == 1);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(late[i]->answers, 0);
    release(writer);
    for (unsigned i = 0; i < 4; i++) {
        loop_await(loop, late[i]->answers == 1);
        assert_int_equal(late[i]->answer, REDLOCK_ACQUIRED);
        assert_true(late[i]->waited_ns < 5 * NS_PER_S);
    }
}

/* It gives up when its time is over, or is cancelled. One reader has waited since before that, another comes then. */
TEST(a_writer_that_gave_up_keeps_no_reader_out)
{
    for (int is_cancelled = 0; is_cancelled < 2; is_cancelled++) {
        struct lock_probe *one = reader(0, 0), *waits = reader(1, 30000),
                          *writer = waiter(2, is_cancelled ? 30000 : 900);
        acquire(one, "r s");
        lock_probe_ask(writer, "r s");
        all_have("EXISTS hf:writer:lock:r hf:writer:lock:s", 2);
        lock_probe_ask(waits, "r");
        run_ms(500);
        assert_int_equal(waits->answers, 0);
        if (is_cancelled)
            redlock_lock_release(writer->lock);
        loop_await(loop, writer->answers == 1 && waits->answers == 1);
        assert_int_equal(writer->answer, is_cancelled ? REDLOCK_CANCELLED : REDLOCK_BUSY);
        assert_int_equal(waits->answer, REDLOCK_ACQUIRED);
        assert_true(waits->waited_ns < 3 * NS_PER_S);
        all_have("EXISTS hf:writer:lock:r hf:writer:lock:s", 0);
        acquire(reader(3, 0), "s");
        for (unsigned i = 0; i < waiter_count; i++)
            if (!redlock_lock_is_free(waiters[i].lock))
                release(&waiters[i]);
    }
}

/* Of two that wait, the intent is that of the one who asked last; the other renews it when that one gives up. */
TEST(of_two_writers_the_one_that_still_waits_keeps_its_turn)
{
    struct lock_probe *one = reader(0, 0), *first = waiter(1, 30000), *second = waiter(2, 900);
    acquire(one, "r");
    lock_probe_ask(first, "r");
    all_have("EXISTS hf:writer:lock:r", 1);
    assert_int_equal(lock_probe_acquire(second, "r"), REDLOCK_BUSY);
    run_ms(1000);
    all_have("EXISTS hf:writer:lock:r", 1);
    release(one);
    loop_await(loop, first->answers == 1);
    assert_int_equal(first->answer, REDLOCK_ACQUIRED);
    release(first);
    all_have("EXISTS hf:writer:lock:r", 0);
}

/* On one node the first reader is the last to leave, on the others the second, a moment later. */
TEST(a_writer_hears_the_last_reader_of_each_node)
{
    struct lock_probe *one = reader(0, 0), *other = reader(1, 0), *writer = waiter(2, 30000);
    acquire(one, "r");
    acquire(other, "r");
    all_have("ZCARD hf:readers:lock:r", 2);
    lock_cluster_ask(&cluster, 4, "ZREM hf:readers:lock:r %.*s", (int)other->lock->value_length, other->lock->value);
    lock_probe_ask(writer, "r");
    lock_probe_ask(reader(3, 30000), "r"); /* else the writer hears that it alone listens */
    run_ms(1000);
    redlock_lock_release(one->lock);
    run_ms(20);
    assert_int_equal(number(4, "EXISTS lock:r"), 0);
    assert_int_equal(number(3, "EXISTS lock:r"), 1);
    redlock_lock_release(other->lock);
    loop_await(loop, writer->answers == 1);
    assert_int_equal(writer->answer, REDLOCK_ACQUIRED);
    assert_true(writer->waited_ns < 3 * NS_PER_S);
}

static void comes_back(struct lock_probe *writer)
{
    writer->leaves_when_busy = writer->comes_back = true;
}

TEST(a_writer_that_never_comes_back_keeps_readers_out_no_longer_than_the_present_ones_last)
{
    struct lock_probe *one = reader(0, 0), *late = reader(1, 0), *writer = waiter(2, 0);
    comes_back(writer);
    acquire(one, "r");
    assert_int_equal(lock_probe_acquire(writer, "r"), REDLOCK_BUSY);
    assert_int_equal(lock_probe_acquire(late, "r"), REDLOCK_BUSY);
    run_ms(TTL_MS + TURN_MS);
    acquire(late, "r"); /* beside the first, which was extended */
    assert_int_equal(one->losses, 0);
}

TEST(a_writer_that_never_comes_back_costs_the_next_readers_one_turn)
{
    struct lock_probe *one = reader(0, 0), *late = reader(1, 0), *writer = waiter(2, 0);
    comes_back(writer);
    acquire(one, "r");
    assert_int_equal(lock_probe_acquire(writer, "r"), REDLOCK_BUSY);
    release(one);
    assert_int_equal(lock_probe_acquire(late, "r"), REDLOCK_BUSY);
    run_ms(TURN_MS);
    acquire(late, "r");
}

TEST(only_a_writer_that_will_ask_again_keeps_readers_out)
{
    struct lock_probe *one = reader(0, 0), *late = reader(1, 0), *writer = waiter(2, 0);
    acquire(one, "r");
    assert_int_equal(lock_probe_acquire(writer, "r"), REDLOCK_BUSY);
    writer->leaves_when_busy = true;
    assert_int_equal(lock_probe_acquire(writer, "r"), REDLOCK_BUSY);
    run_ms(100);
    acquire(late, "r");
    writer->comes_back = true;
    assert_int_equal(lock_probe_acquire(writer, "r"), REDLOCK_BUSY);
    all_have("EXISTS hf:writer:lock:r", 1);
    assert_int_equal(lock_probe_acquire(reader(3, 0), "r"), REDLOCK_BUSY);
}

/* Without end: each asks again at once when it has given back. */
static void reads_again(struct lock_probe *probe, const struct redlock_event *event)
{
    if (event->kind == REDLOCK_EVENT_RELEASED)
        lock_probe_ask(probe, "r");
    else if (event->kind == REDLOCK_EVENT_ANSWER && event->answer != REDLOCK_ACQUIRED)
        fail_msg("a reader was refused: %s", event->reason);
}

TEST(readers_that_overlap_without_end_do_not_starve_writers)
{
    enum { READERS = 6, WRITERS = 2, ROUNDS = 5 };
    struct lock_probe *readers[READERS], *writers[WRITERS];
    for (unsigned i = 0; i < READERS; i++) {
        readers[i] = reader(i % 3, 30000);
        readers[i]->on_event = reads_again;
        lock_probe_ask(readers[i], "r");
    }
    for (unsigned i = 0; i < WRITERS; i++)
        writers[i] = waiter(2 + i, 30000);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < WRITERS; i++)
            lock_probe_ask(writers[i], "r");
        for (unsigned ms = 0; ms < 3000; ms += 50) { /* one leaves after the other, and comes back */
            struct lock_probe *one = readers[ms / 50 % READERS];
            run_ms(50);
            if (one->lock->lease.state == LEASE_HELD)
                redlock_lock_release(one->lock);
            for (unsigned i = 0; i < WRITERS; i++)
                if (writers[i]->lock->lease.state == LEASE_HELD)
                    redlock_lock_release(writers[i]->lock);
        }
        for (unsigned i = 0; i < WRITERS; i++)
            assert_int_equal(writers[i]->releases, round + 1);
    }
    for (unsigned i = 0; i < READERS; i++) {
        assert_true(readers[i]->releases >= ROUNDS);
        readers[i]->on_event = NULL;
    }
}

/* --- the turn of several resources -------------------------------------------------------------------------------- */

/* USERS of each of three resources hold it for 400 ms, one after the other or overlapping, without end. */
enum { OF_EACH = 3, USERS = 4, HOLD_MS = 400 };
static struct lock_probe *users[OF_EACH][USERS];
static const char *const each[OF_EACH] = {"a", "b", "c"};

static void users_come(bool are_readers)
{
    for (unsigned of = 0; of < OF_EACH; of++)
        for (unsigned i = 0; i < USERS; i++) {
            users[of][i] = are_readers ? reader(i, 60000) : waiter(i, 60000);
            lock_probe_ask(users[of][i], each[of]);
        }
}

static unsigned user_holds(unsigned of)
{
    unsigned holds = 0;
    for (unsigned i = 0; i < USERS; i++)
        holds += users[of][i]->releases;
    return holds;
}

/* One user of each resource leaves after the other, at other moments than those of the others, and asks again. */
static void users_go_on(unsigned ms)
{
    for (unsigned past = 0; past < ms; past += HOLD_MS / USERS / OF_EACH)
        for (unsigned of = 0; of < OF_EACH; of++) {
            struct lock_probe *user = users[of][past / (HOLD_MS / USERS) % USERS];
            run_ms(of == 0 ? HOLD_MS / USERS / OF_EACH : 0);
            bool is_its_moment = past / (HOLD_MS / USERS / OF_EACH) % OF_EACH == of;
            if (is_its_moment && user->lock->lease.state == LEASE_HELD)
                redlock_lock_release(user->lock);
            else if (redlock_lock_is_free(user->lock))
                lock_probe_ask(user, each[of]);
        }
}

static void await_among_users(struct lock_probe *probe, unsigned at_most_ms)
{
    for (unsigned ms = 0; ms < at_most_ms && probe->answers == 0; ms += HOLD_MS)
        users_go_on(HOLD_MS);
    assert_int_equal(probe->answers, 1);
    assert_int_equal(probe->answer, REDLOCK_ACQUIRED);
}

static void several_get_in(bool are_readers)
{
    users_come(are_readers);
    users_go_on(2000);
    struct lock_probe *all = waiter(4, 60000), *overlaps = waiter(5, 60000);
    lock_probe_ask(all, "a b c");
    users_go_on(HOLD_MS);
    lock_probe_ask(overlaps, "b c");
    await_among_users(all, 12 * HOLD_MS);
    redlock_lock_release(all->lock);
    await_among_users(overlaps, 12 * HOLD_MS);
    redlock_lock_release(overlaps->lock);
    unsigned before[OF_EACH];
    for (unsigned of = 0; of < OF_EACH; of++)
        before[of] = user_holds(of);
    users_go_on(6000);
    for (unsigned of = 0; of < OF_EACH; of++)
        assert_true(user_holds(of) > before[of]);
}

TEST(readers_of_each_that_overlap_do_not_starve_a_writer_of_several)
{
    several_get_in(true);
}

TEST(users_of_each_do_not_starve_a_writer_of_several)
{
    several_get_in(false);
}

TEST(users_of_each_do_not_starve_readers_of_several)
{
    users_come(false);
    users_go_on(2000);
    struct lock_probe *all = reader(4, 60000), *other = reader(5, 60000);
    lock_probe_ask(all, "a b c");
    lock_probe_ask(other, "b c");
    await_among_users(all, 12 * HOLD_MS);
    users_go_on(2000);
    assert_int_equal(other->answers, 1); /* beside it */
    redlock_lock_release(all->lock);
    redlock_lock_release(other->lock);
    unsigned before = user_holds(0);
    users_go_on(6000);
    assert_true(user_holds(0) > before);
}

TEST(the_turn_of_several_is_kept_from_all_others_until_it_is_withdrawn)
{
    struct lock_probe *one = waiter(0, 0), *all = waiter(1, 900), *other = waiter(2, 0);
    acquire(one, "a");
    lock_probe_ask(all, "a b");
    all_have("EXISTS hf:writer:lock:a hf:writer:lock:b hf:turns", 3);
    assert_int_equal(lock_probe_acquire(other, "b"), REDLOCK_BUSY);
    assert_contains(other->reason, "held by one that waits for ");
    assert_int_equal(lock_probe_acquire(other, "b c"), REDLOCK_BUSY);
    loop_await(loop, all->answers == 1);
    all_have("EXISTS hf:writer:lock:a hf:writer:lock:b", 0);
    acquire(other, "b");
}

/* The others hear how long it lingers, which is longer than the turn that was planted before. */
TEST(the_turn_of_several_is_kept_while_a_holder_lingers)
{
    enum { LINGERS_MS = 8000 };
    struct lock_probe *one = brief_user(), *all = waiter(1, 60000), *other = waiter(2, 0);
    acquire(other, "b");
    lock_probe_ask(one, "b");
    run_ms(500);
    release(other);
    loop_await(loop, one->answers == 1);
    lock_probe_ask(all, "a b");
    all_have("EXISTS hf:writer:lock:a hf:writer:lock:b", 2);
    run_ms(500);
    redlock_lock_linger(one->lock, REDLOCK_MS(LINGERS_MS));
    run_ms(LINGERS_MS / 2);
    all_have("EXISTS hf:writer:lock:a hf:writer:lock:b", 2);
    assert_int_equal(lock_probe_acquire(other, "a"), REDLOCK_BUSY);
    loop_await(loop, all->answers == 1);
    assert_int_equal(all->answer, REDLOCK_ACQUIRED);
}

/* As when the process dies: nobody renews what it planted. */
TEST(the_turn_of_a_dead_writer_of_several_ends)
{
    enum { REMAINS_MS = 3000 };
    struct lock_probe *late = waiter(1, 30000);
    char digits[] = "0000000000000122222222222222222+:dead";
    for (unsigned i = 0; i < NODES; i++) {
        lock_cluster_ask(&cluster, i, "SET hf:writer:lock:b %s PX %d", digits, REMAINS_MS);
        lock_cluster_ask(&cluster, i, "SET hf:turns 1 PX %d", REMAINS_MS);
    }
    lock_probe_ask(late, "b");
    run_ms(REMAINS_MS - 500);
    assert_int_equal(late->answers, 0);
    loop_await(loop, late->answers == 1);
    assert_int_equal(late->answer, REDLOCK_ACQUIRED);
    assert_true(late->waited_ns < (REMAINS_MS + 1000) * NS_PER_MS);
}

/* Each of two waiters has the turn on a part of the nodes: the older gets all. */
TEST(of_turns_that_are_split_the_older_gets_in)
{
    struct lock_probe *one = waiter(0, 0), *old = waiter(1, 30000), *young = waiter(2, 30000);
    acquire(one, "a");
    lock_probe_ask(old, "a b");
    all_have("EXISTS hf:writer:lock:a hf:writer:lock:b", 2);
    for (unsigned i = 0; i < 3; i++)
        lock_cluster_ask(&cluster, i, "DEL hf:writer:lock:a hf:writer:lock:b");
    lock_probe_ask(young, "b a");
    run_ms(500);
    release(one);
    loop_await(loop, old->answers == 1);
    assert_int_equal(old->answer, REDLOCK_ACQUIRED);
    assert_int_equal(young->answers, 0);
    release(old);
    loop_await(loop, young->answers == 1);
    assert_int_equal(young->answer, REDLOCK_ACQUIRED);
}

/* Its turn was lost with what the nodes forgot, and a younger waiter that overlaps has planted one since. */
TEST(the_turn_of_a_younger_wish_does_not_hold_up_an_older_one)
{
    struct lock_probe *one = waiter(0, 0), *other = waiter(3, 0), *old = waiter(1, 30000), *young = waiter(2, 30000);
    acquire(one, "a");
    acquire(other, "c");
    lock_probe_ask(old, "a b");
    all_have("EXISTS hf:writer:lock:a hf:writer:lock:b", 2);
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_ask(&cluster, i, "DEL hf:writer:lock:a hf:writer:lock:b");
    lock_probe_ask(young, "b c");
    all_have("EXISTS hf:writer:lock:b hf:writer:lock:c", 2);
    run_ms(500);
    release(one);
    run_ms(200);
    assert_int_equal(old->answers, 1);
    assert_int_equal(old->answer, REDLOCK_ACQUIRED);
    assert_int_equal(young->answers, 0);
}

/* Its process stands still, as after SIGSTOP, and the holder for whom it waits goes on. */
TEST(the_turn_of_a_stopped_writer_of_several_costs_others_one_ttl)
{
    struct loop *stopped = loop_create(NULL);
    struct redlock_group *group = lock_cluster_group(&cluster, stopped);
    struct redlock_terms terms = quick_terms(TTL_MS, 1);
    struct lock_probe *one = waiter(0, 0), *late = waiter(1, 60000), writer;
    terms.wait_ms = 120000;
    lock_probe_create(&writer, stopped, group, &terms);
    acquire(one, "a");
    lock_probe_ask(&writer, "a b");
    for (unsigned i = 0; i < NODES; i++)
        loop_await(stopped, number(i, "EXISTS hf:writer:lock:a hf:writer:lock:b hf:turns") == 3);
    run_ms(0);
    lock_probe_ask(late, "b");
    loop_await(loop, late->answers == 1);
    assert_int_equal(late->answer, REDLOCK_ACQUIRED);
    assert_in_range(late->waited_ns / NS_PER_MS, 1000, TTL_MS + TURN_MS + 100);
    assert_int_equal(one->losses, 0);
    all_have("EXISTS hf:writer:lock:a hf:writer:lock:b hf:turns", 0);
    release(one);
    release(late);
    loop_await(stopped, writer.answers == 1); /* it goes on */
    assert_int_equal(writer.answer, REDLOCK_ACQUIRED);
    redlock_lock_release(writer.lock);
    loop_await(stopped, redlock_lock_is_free(writer.lock));
    lock_probe_destroy(&writer);
    redlock_group_destroy(group);
    loop_destroy(stopped);
}

/* --- the turn of seats ------------------------------------------------------------------------------------------- */

static struct lock_probe *seat_user(unsigned of_process, unsigned seat)
{
    struct lock_probe *probe = waiter(of_process, 60000);
    probe->limit = 3;
    probe->seat = seat;
    return probe;
}

static void seats_get_in(unsigned seat)
{
    struct lock_probe *mine[USERS], *wants = seat_user(4, seat);
    for (unsigned i = 0; i < USERS; i++) {
        mine[i] = reader(i, 60000);
        lock_probe_ask(mine[i], "r");
    }
    run_ms(200);
    lock_probe_ask(wants, "r");
    for (unsigned ms = 0; ms < 5000 && wants->answers == 0; ms += 50) { /* one leaves after the other, and comes back */
        struct lock_probe *one = mine[ms / 50 % USERS];
        run_ms(50);
        if (one->lock->lease.state == LEASE_HELD)
            redlock_lock_release(one->lock);
        for (unsigned i = 0; i < USERS; i++)
            if (i != ms / 50 % USERS && redlock_lock_is_free(mine[i]->lock))
                lock_probe_ask(mine[i], "r");
    }
    assert_int_equal(wants->answers, 1);
    assert_int_equal(wants->answer, REDLOCK_ACQUIRED);
    unsigned releases = mine[0]->releases;
    release(wants);
    all_have("EXISTS hf:writer:lock:r", 0);
    loop_await(loop, mine[0]->lock->lease.state == LEASE_HELD || mine[0]->releases > releases);
}

TEST(readers_that_overlap_do_not_starve_users_of_any_seat)
{
    seats_get_in(0);
}

TEST(readers_that_overlap_do_not_starve_the_user_of_a_later_seat)
{
    seats_get_in(2);
}

TEST(a_reader_soon_finds_a_later_seat_free)
{
    struct lock_probe *holder = seat_user(0, 3), *waits = reader(1, 60000);
    acquire(holder, "r");
    lock_probe_ask(waits, "r");
    run_ms(3000);
    release(holder);
    loop_await(loop, waits->answers == 1);
    assert_int_equal(waits->answer, REDLOCK_ACQUIRED);
    assert_true(waits->waited_ns < 5 * NS_PER_S);
}

/* One after the other leaves, and comes back, so that some seat is always held. */
static void user_goes_on(struct lock_probe *user, const char *resource, bool is_its_moment)
{
    if (is_its_moment && user->lock->lease.state == LEASE_HELD)
        redlock_lock_release(user->lock);
    else if (redlock_lock_is_free(user->lock))
        lock_probe_ask(user, resource);
}

TEST(users_of_seats_that_overlap_do_not_starve_readers)
{
    struct lock_probe *holders[USERS], *mine[2] = {reader(4, 60000), reader(5, 60000)};
    for (unsigned i = 0; i < USERS; i++)
        holders[i] = seat_user(i, 0);
    for (unsigned ms = 0; ms < 6000; ms += 50) {
        for (unsigned i = 0; i < USERS; i++)
            user_goes_on(holders[i], "r", ms / 50 % USERS == i);
        for (unsigned i = 0; i < 2 && ms == 1000; i++)
            lock_probe_ask(mine[i], "r");
        run_ms(50);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(mine[i]->answers, 1);
        assert_int_equal(mine[i]->answer, REDLOCK_ACQUIRED);
        release(mine[i]);
    }
    all_have("EXISTS hf:writer:lock:r", 0);
    unsigned holds = holders[0]->releases;
    for (unsigned ms = 0; ms < 3000; ms += 50, run_ms(50))
        for (unsigned i = 0; i < USERS; i++)
            user_goes_on(holders[i], "r", ms / 50 % USERS == i);
    assert_true(holders[0]->releases > holds);
}

TEST(a_user_of_seats_that_gave_up_keeps_no_reader_out)
{
    struct lock_probe *one = reader(0, 0), *wants = seat_user(1, 0);
    acquire(one, "r");
    lock_probe_ask(wants, "r");
    all_have("EXISTS hf:writer:lock:r", 1);
    assert_int_equal(lock_probe_acquire(reader(2, 0), "r"), REDLOCK_BUSY);
    run_ms(0);
    redlock_lock_release(wants->lock);
    all_have("EXISTS hf:writer:lock:r", 0);
    acquire(reader(3, 0), "r");
}

/* --- tokens ------------------------------------------------------------------------------------------------------- */

TEST(readers_share_the_token_of_the_last_writer)
{
    struct lock_probe *writer = waiter(0, 0), *one = reader(1, 0), *other = reader(2, 0);
    uint64_t first = acquire(writer, "r");
    release(writer);
    assert_int_equal(acquire(one, "r"), first);
    assert_int_equal(acquire(other, "r"), first);
    release(one);
    release(other);
    assert_int_equal(acquire(one, "r"), first);
    release(one);
    assert_true(acquire(writer, "r") > first);
}

/* From the clocks, as that of a writer: the nodes may have forgotten one. */
TEST(where_no_token_is_known_the_first_reader_has_a_new_one)
{
    struct lock_probe *writer = waiter(0, 0), *one = reader(1, 0), *other = reader(2, 0);
    uint64_t written = acquire(writer, "r");
    release(writer);
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_ask(&cluster, i, "DEL hf:fences");
    uint64_t read = acquire(one, "r");
    assert_true(read > written);
    assert_int_equal(acquire(other, "r"), read);
    release(one);
    release(other);
    assert_true(acquire(writer, "r") > read);
}

/* The fence of each node is another; those that have less are raised to the highest. */
TEST(a_reader_has_no_less_than_any_node_that_granted_it)
{
    static const char *const fences[NODES] = {"3000000000000001", "3000000000000002", "3000000000000003",
                                              "3000000000000004", "3000000000000005"};
    struct lock_probe *writer = waiter(0, 0), *one = reader(1, 0);
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_fence_put(&cluster, i, "lock:r", fences[i]);
    uint64_t token = acquire(one, "r");
    assert_in_range(token, UINT64_C(3000000000000003), UINT64_C(3000000000000005));
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)token);
    unsigned having = 0;
    for (unsigned i = 0; i < NODES; i++)
        having += strtoull(lock_cluster_fence(&cluster, i, "lock:r"), NULL, 10) >= token;
    assert_true(having >= QUORUM);
    release(one);
    assert_true(acquire(writer, "r") > token);
    release(writer);
    /* A raise that comes when the reader is gone does nothing. */
    snprintf(text, sizeof text, "%s", lock_cluster_fence(&cluster, 0, "lock:r"));
    char *marker = memory_text(lock_cluster_ask(&cluster, 0, "GET hf:lock:group"));
    const char *answer =
        lock_cluster_ask(&cluster, 0, "EVALSHA %s 2 hf:lock:group lock:r \"%s\" late 4000000000000000 500 shared",
                         redlock_script_raise.sha1, marker);
    assert_string_equal(answer + strlen(answer) - 2, " 0");
    assert_string_equal(lock_cluster_fence(&cluster, 0, "lock:r"), text);
    assert_int_equal(number(0, "EXISTS lock:r hf:readers:lock:r"), 0);
    free(marker);
}

/* The floor of a node's set stands for what it dropped. */
TEST(a_reader_has_no_less_than_what_was_dropped)
{
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_ask(&cluster, i, "SET hf:fences:floor 4000000000000000");
    assert_int_equal(acquire(reader(0, 0), "r"), UINT64_C(4000000000000000));
}

/* --- a node that forgets ------------------------------------------------------------------------------------------ */

static void forget_first(unsigned nodes)
{
    for (unsigned i = 0; i < nodes; i++)
        lock_cluster_ask(&cluster, i, "FLUSHALL");
}

TEST(a_node_that_forgot_gets_the_reader_back_but_for_a_later_writer)
{
    struct redlock_terms terms = quick_terms(3000, 1);
    struct lock_probe *writer = waiter(0, 0), *one = &waiters[waiter_count++];
    lock_probe_create(one, loop, process(1), &terms);
    one->shared = true;
    acquire(writer, "r");
    release(writer);
    acquire(one, "r");
    all_have("ZCARD hf:readers:lock:r", 1);
    forget_first(1);
    loop_await(loop, number(0, "ZCARD hf:readers:lock:r") == 1);
    assert_string_equal(lock_cluster_ask(&cluster, 0, "GET lock:r"), "hf:shared");
    assert_true(strtoull(lock_cluster_fence(&cluster, 0, "lock:r"), NULL, 10) == redlock_lock_token(one->lock));
    lock_cluster_ask(&cluster, 1, "FLUSHALL");
    lock_cluster_ask(&cluster, 1, "ZADD hf:fences 4000000000000000 lock:r");
    run_ms(4000);
    assert_int_equal(number(1, "EXISTS lock:r"), 0);
    assert_int_equal(one->losses, 0);
    lock_cluster_ask(&cluster, 0, "EVAL \"redis.call('FLUSHALL') redis.call('SET','lock:r','other','PX',60000)\" 0");
    run_ms(4000);
    assert_string_equal(lock_cluster_ask(&cluster, 0, "GET lock:r"), "other");
    assert_int_equal(number(0, "EXISTS hf:readers:lock:r"), 0);
}

/* It holds at the others still. */
TEST(a_reader_whose_entry_is_over_has_left)
{
    struct lock_probe *one = reader(0, 0), *other = reader(1, 0);
    acquire(one, "r");
    acquire(other, "r");
    all_have("ZCARD hf:readers:lock:r", 2);
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_ask(
            &cluster, i,
            "EVAL \"local r = redis.call('ZRANGE', KEYS[1], 0, 0)[1] return redis.call('ZADD', KEYS[1], 1, r)"
            "\" 1 hf:readers:lock:r");
    loop_await(loop, one->losses + other->losses == 1);
    struct lock_probe *lost = one->losses > 0 ? one : other;
    assert_int_equal(lock_probe_release(lost), REDLOCK_EXPIRED);
    all_have("ZCARD hf:readers:lock:r", 1);
}

/* Somebody has written there. Both releases leave in one call. */
TEST(what_is_no_set_of_readers_harms_its_own_key_alone)
{
    struct lock_probe *spoilt = reader(0, 0), *other = reader(0, 0);
    acquire(spoilt, "r");
    acquire(other, "s");
    all_have("ZCARD hf:readers:lock:s", 1);
    for (unsigned i = 0; i < NODES; i++)
        lock_cluster_ask(&cluster, i, "SET hf:readers:lock:r x");
    loop_for(loop, 0); /* outside it the loop's clock stands still */
    redlock_lock_release(spoilt->lock);
    redlock_lock_release(other->lock);
    loop_await(loop, redlock_lock_is_free(spoilt->lock) && redlock_lock_is_free(other->lock));
    assert_int_equal(spoilt->ending, REDLOCK_EXPIRED);
    assert_int_equal(other->ending, REDLOCK_RELEASED);
    all_have("EXISTS lock:s hf:readers:lock:s", 0);
    run_ms(TTL_MS + 1000);
    acquire(spoilt, "r"); /* what was written there does not outlive the key */
    all_have("ZCARD hf:readers:lock:r", 1);
}

/* As after a power failure: what it wrote last is gone, and its marker names another run. */
static void fall_back(unsigned node, uint64_t token)
{
    char marker[512];
    snprintf(marker, sizeof marker, "%s", lock_cluster_ask(&cluster, node, "GET hf:lock:group"));
    memset(strstr(marker, " run=") + 5, 'e', 40);
    lock_cluster_ask(&cluster, node, "ZADD hf:fences %llu lock:r", (unsigned long long)token);
    lock_cluster_ask(&cluster, node, "SET hf:lock:group \"%s\"", marker);
}

TEST(a_reader_has_no_less_than_what_nodes_forgot_in_part)
{
    struct lock_probe *writer = waiter(0, 0), *one = reader(1, 0);
    uint64_t first = acquire(writer, "r");
    release(writer);
    run_ms(1000);
    uint64_t second = acquire(writer, "r");
    release(writer);
    for (unsigned node = 0; node < QUORUM; node++) {
        fall_back(node, first);
        run_ms(CLUSTER_MAX_TTL_MS * 11 / 10 + 10000);
        assert_int_equal(redlock_group_voters(process(0)), NODES);
    }
    assert_true(acquire(one, "r") >= second);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, waiting_set_up, waiting_tear_down)
