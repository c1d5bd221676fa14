/* Of two processes whose terms break exclusion one serves, the one that did so first, and the other waits until it has
 * ended, whatever happens to the queue node. */
#include "tests/support/queue_fixture.h"

#include "tests/support/log_capture.h"

#define LEASE_NS (300 * NS_PER_MS)
#define LONG_NS  (60 * NS_PER_S) /* no renewal comes between */

#define LINE(name, words) name "\t" words "\tr\n"
#define REST              LINE("locks", "in group g") LINE("class other", "no lock")
#define OURS              REST LINE("class work", "a lock on \"a:{0}\"")
#define THEIRS            REST LINE("class work", "no lock")

static struct {
    unsigned answers;
    char waits[256], others[256];
} told[2]; /* of `probe` and of `other` */

static void terms_told(void *context, const char *terms, const char *waits, const struct terms_party *others,
                       size_t count)
{
    unsigned number = context == &other;
    (void)terms;
    told[number].answers++;
    snprintf(told[number].waits, sizeof told[number].waits, "%s", waits);
    told[number].others[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(told[number].others);
        snprintf(told[number].others + length, sizeof told[number].others - length, "%s ", others[i].identity);
    }
}

static void begin_with(struct queue_probe *process, const char *terms, int64_t lease_ns)
{
    const struct queue_options options = {.lease_ns = lease_ns, .terms_told = terms_told};
    told[process == &other].answers = 0;
    queue_probe_start(process, loop, redis_server_port(server), "a", &options);
    queue_announce(process->queue, terms);
}

static void begin(struct queue_probe *process, const char *terms)
{
    begin_with(process, terms, LEASE_NS);
}

struct wish {
    const struct queue_probe *process;
    const char *waits;
};

static bool waits_for(void *context)
{
    const struct wish *wish = context;
    unsigned number = wish->process == &other;
    return told[number].answers > 0 && strcmp(told[number].waits, wish->waits) == 0;
}

static void wait_told(const struct queue_probe *process, const char *waits)
{
    struct wish wish = {process, waits};
    if (!loop_until(loop, waits_for, &wish, TEST_PATIENCE_NS))
        fail_msg("waits for \"%s\" instead of \"%s\"", told[process == &other].waits, waits);
}

static void run_for(int64_t ns)
{
    (void)loop_until(loop, waits_for, &(struct wish){&probe, "never"}, ns);
}

/* An answer that was asked for after this. */
static void told_again(const struct queue_probe *process, const char *waits)
{
    told[process == &other].answers = 0;
    wait_told(process, waits);
}

TEST(the_first_serves_and_the_second_waits_until_it_has_left)
{
    begin(&probe, OURS);
    wait_told(&probe, "");
    begin(&other, THEIRS);
    wait_told(&other, "class work");
    assert_non_null(strstr(told[1].others, probe.identity));
    told_again(&other, "class work");
    assert_true(queue_probe_leave(&probe, NS_PER_S));
    wait_told(&other, "");
    assert_reply(server, "", "HGET hf:2:process:%s waits", other.identity);
}

TEST(the_same_terms_and_other_words_that_disturb_wait_for_nobody)
{
    begin(&probe, OURS);
    wait_told(&probe, "");
    begin(&other, OURS);
    wait_told(&other, "");
    assert_string_equal(told[1].others, "");
    queue_announce(other.queue, LINE("class work", "a lock on \"a:{0}\"") "locks\tin group g\tother\n");
    told_again(&other, "");
    assert_non_null(strstr(told[1].others, probe.identity));
}

/* It is not on the node's list of processes any more, and not before. */
TEST(the_second_waits_until_a_dead_one_was_recovered)
{
    begin(&probe, OURS);
    wait_told(&probe, "");
    begin(&other, THEIRS);
    wait_told(&other, "class work");
    char identity[64];
    snprintf(identity, sizeof identity, "%s", probe.identity);
    queue_probe_stop(&probe);
    wait_told(&other, "");
    assert_reply(server, "0", "HEXISTS hf:2:process:%s terms", identity);
}

TEST(who_was_recovered_while_it_was_away_waits_for_those_that_serve_now)
{
    begin(&probe, OURS);
    wait_told(&probe, "");
    begin(&other, THEIRS);
    wait_told(&other, "class work");
    free(redis_server_command(server, "ZREM hf:2:processes %s", probe.identity)); /* as scripts/recover.lua does */
    free(redis_server_command(server, "DEL hf:2:process:%s", probe.identity));
    queue_announce(other.queue, THEIRS); /* it looks before the other one renews its lease */
    wait_told(&other, "");
    told_again(&probe, "class work");
    assert_true(queue_probe_leave(&other, NS_PER_S));
    wait_told(&probe, "");
}

static char *lease_of(const struct queue_probe *process)
{
    return redis_server_command(server, "ZSCORE hf:2:processes %s", process->identity);
}

/* Else its next renewal could not tell that there was a gap, nor that others have taken over its claims. */
TEST(an_announcement_renews_no_lease_and_lists_nobody_who_was_recovered)
{
    size_t length;
    begin_with(&probe, OURS, LONG_NS);
    wait_told(&probe, "");
    run_for(100 * NS_PER_MS); /* the renewal that follows the enlisting */
    char *before = lease_of(&probe);
    queue_announce(probe.queue, THEIRS);
    told_again(&probe, "");
    char *after = lease_of(&probe);
    assert_string_equal(before, after);
    free(before);
    free(after);
    log_capture_begin();
    free(redis_server_command(server, "ZREM hf:2:processes %s", probe.identity)); /* as scripts/recover.lua does */
    free(redis_server_command(server, "DEL hf:2:process:%s", probe.identity));
    free(redis_server_command(server, "ZADD hf:2:processes 1e15 %s", probe.identity)); /* to be looked at again */
    free(redis_server_command(server, "HSET hf:2:process:%s gone 1a", probe.identity));
    queue_announce(probe.queue, OURS);
    told_again(&probe, "class work"); /* others that serve it may have been forgotten, too */
    assert_contains(log_capture_end(&length), "lease_lost");
    assert_reply(server, "0", "HEXISTS hf:2:process:%s gone", probe.identity);
}

/* Whoever announces itself first afterwards. */
TEST(a_node_that_lost_its_memory_lets_only_those_serve_that_did)
{
    begin(&probe, OURS);
    wait_told(&probe, "");
    begin(&other, THEIRS);
    wait_told(&other, "class work");
    for (unsigned i = 0; i < 4; i++) {
        struct queue_probe *first = i % 2 == 0 ? &probe : &other, *second = first == &probe ? &other : &probe;
        free(redis_server_command(server, "FLUSHALL"));
        queue_announce(first->queue, first == &other ? THEIRS : OURS);
        told_again(first, first == &other ? "class work" : "");
        queue_announce(second->queue, second == &other ? THEIRS : OURS);
        told_again(second, second == &other ? "class work" : "");
        run_for(2 * LEASE_NS);
        told_again(&other, "class work");
    }
}

TEST(what_is_new_in_the_terms_of_one_that_serves_is_compared_too)
{
    begin(&probe, LINE("class other", "no lock"));
    wait_told(&probe, "");
    begin(&other, THEIRS);
    wait_told(&other, "");
    queue_announce(probe.queue, OURS);
    told_again(&probe, "class work");
    queue_announce(other.queue, LINE("class other", "no lock"));
    told_again(&probe, "");
}

TEST(who_waits_is_in_nobodys_way)
{
    begin(&probe, OURS);
    wait_told(&probe, "");
    begin(&other, THEIRS);
    wait_told(&other, "class work");
    queue_announce(probe.queue, OURS LINE("class more", "no lock"));
    told_again(&probe, "");
}

/* It asks about its terms again and again, and the node refuses that. */
/* Each of the two serves what the other waits for, if who may not lock were in the way of a class that locks. */
TEST(two_that_wait_do_not_wait_for_each_other)
{
    free(redis_server_command(server, "ZADD hf:2:processes 9000000000 first"));
    free(redis_server_command(server, "HSET hf:2:process:first queues a waits \"\" "
                                      "terms \"locks\\tin group g\\tr\\nclass work\\ta lock on \\\"a\\\"\\tr\\n\""));
    begin(&probe, LINE("locks", "in group h") LINE("class work", "a lock on \"a\"") LINE("class other", "no lock"));
    wait_told(&probe, "class work\nlocks");
    begin(&other, LINE("locks", "in group g") LINE("class work", "a lock on \"b\"") LINE("class other", "no lock"));
    wait_told(&other, "class work");
    free(redis_server_command(server, "ZREM hf:2:processes first"));
    free(redis_server_command(server, "DEL hf:2:process:first"));
    wait_told(&other, "");
    told_again(&probe, "class work\nlocks");
    queue_probe_stop(&other);
    wait_told(&probe, "");
}

TEST(who_waits_keeps_its_lease_while_it_asks)
{
    begin(&probe, OURS);
    wait_told(&probe, "");
    begin(&other, THEIRS);
    wait_told(&other, "class work");
    free(redis_server_command(server, "ACL SETUSER default -hset"));
    for (unsigned i = 0; i < 20; i++) {
        loop_for(loop, LEASE_NS / 2);
        assert_true(instant_before(loop_now(loop), other.lease_end));
        assert_true(queue_is_listed(other.queue));
    }
    free(redis_server_command(server, "ACL SETUSER default +hset"));
    told_again(&other, "class work");
}

RUN_GROUP(one_server_set_up, one_server_tear_down, queue_setup, queue_teardown)
