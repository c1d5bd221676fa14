/* A class that may use a share of the runners only, with whole workers: what waits for the share is neither lost nor
 * buried, and takes no more than its share. */
#include "tests/support/test.h"

#include <string.h>

#include "tests/support/contended.h"

#define HALF(more) "{ class = \"careful\"; share = 50; " more " }"

/* The most tasks of the class that ran at once, as far as the journal tells. */
static int most_at_once(void)
{
    char *journal = fleet_journal(&fleet);
    int running = 0, most = 0;
    for (const char *line = journal; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        running += strncmp(line, "begin ", 6) == 0;
        running -= strncmp(line, "end ", 4) == 0;
        most = running > most ? running : most;
    }
    free(journal);
    return most;
}

static void work_until_drained(const char *classes)
{
    unsigned worker =
        fleet_work(&fleet, &(struct fleet_setup){.threads = 4, .classes = classes, .arguments = "--drain"});
    assert_int_equal(fleet_wait(&fleet, worker), 0);
}

/* Shares are used up and become free all the time, also while a task that lacks one is being parked. */
TEST(many_short_tasks_get_through_a_share)
{
    enum { TASKS = 300 };
    fleet_push_many(&fleet, "careful", TASKS, 1, 0);
    work_until_drained(HALF(""));
    assert_int_equal(fleet_noted_all(&fleet, "end "), TASKS);
    assert_int_equal(fleet_left(&fleet), 0);
    assert_true(most_at_once() <= 2);
}

/* A stamp from after every claim: each task that is parked first is sent back to try again. */
TEST(what_is_sent_back_still_lacks_its_share)
{
    unsigned worker = fleet_work(
        &fleet, &(struct fleet_setup){.threads = 2, .worker = "stop_timeout = \"100ms\";", .classes = HALF("")});
    fleet_push_many(&fleet, "careful", 1, 600000, 0);
    test_await(fleet_noted(&fleet, "begin t1") == 1);
    free(fleet_ask(&fleet, "HSET hf:2:freed 11417 4000000000000000"));
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[0],\"jid\":\"t2\"}");
    test_await(fleet_number(&fleet, "ZCARD hf:2:waiting:class:careful") == 1);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[0],\"jid\":\"n\"}");
    test_await(fleet_noted(&fleet, "end n") == 1);
    assert_int_equal(fleet_noted(&fleet, "begin t2"), 0);
    one_fleet_stop(worker);
    assert_int_equal(fleet_left(&fleet), 2);
}

/* The bound is for those who wait for one resource. */
TEST(who_waits_for_a_share_is_no_crowd)
{
    enum { TASKS = 12 };
    fleet_push_many(&fleet, "careful", TASKS, 30, 0);
    work_until_drained(HALF("max_waiters = 1;"));
    assert_int_equal(fleet_noted_all(&fleet, "end "), TASKS);
    assert_int_equal(fleet_number(&fleet, "ZCARD dead"), 0);
}

/* Two runners: one holds r1 while its successor waits for that, so the other is free. */
TEST(a_successor_that_waits_has_no_share_of_its_own)
{
    contended_start(&(struct fleet_setup){.threads = 4, .classes = "{ class = \"hold\"; share = 50; }"});
    contended_push("holder", UNTIL_CANCELLED, "r1");
    contended_push("successor", UNTIL_CANCELLED, "r1");
    test_await(fleet_noted_all(&fleet, "begin holder") == 1);
    test_await(fleet_number(&fleet, "ZCARD schedule") == 0 && waiting_count("resource:r1") == 1);
    contended_push("free", UNTIL_CANCELLED, "r2");
    test_await(fleet_noted_all(&fleet, "begin free") == 1);
    contended_push("third", UNTIL_CANCELLED, "r3");
    test_await(waiting_count("class:hold") == 1);
    operator_runs("cancel", "holder");
    test_await(fleet_noted_all(&fleet, "begin successor") == 1);
    assert_int_equal(fleet_noted_all(&fleet, "begin third"), 0);
    operator_runs("cancel", "free");
    test_await(fleet_noted_all(&fleet, "begin third") == 1);
}

TEST(what_lacks_a_share_and_its_lock_waits_for_the_lock)
{
    contended_start(&(struct fleet_setup){.threads = 2, .classes = "{ class = \"hold\"; share = 50; }"});
    contended_push("a", UNTIL_CANCELLED, "r1");
    test_await(fleet_noted_all(&fleet, "begin a") == 1);
    contended_push("b", "[0]", "r1");
    test_await(waiting_count("resource:r1") == 1);
    assert_int_equal(waiting_count("class:hold"), 0);
    operator_runs("cancel", "a");
    test_await(fleet_noted_all(&fleet, "begin b") == 1);
}

/* The lock stays for much longer than anybody has to wait for the share. */
TEST(a_share_is_free_while_the_lock_lingers)
{
    contended_start(&(struct fleet_setup){
        .threads = 2, .classes = "{ class = \"hold\"; mode = \"efficiency\"; share = 50; hold_at_least = \"50s\"; }"});
    contended_push("a", UNTIL_CANCELLED, "r1");
    test_await(fleet_noted_all(&fleet, "begin a") == 1);
    contended_push("b", "[0]", "r2");
    contended_push("c", "[0]", "r3");
    test_await(waiting_count("class:hold") == 2);
    operator_runs("cancel", "a");
    test_await(fleet_noted_all(&fleet, "begin b") == 1 && fleet_noted_all(&fleet, "begin c") == 1);
}

RUN_FLEET_TESTS
