/* holdfast why, over real nodes and real workers: every reason, as its task really comes by it. */
#include "tests/support/holding_fixture.h"

#include "base/buffer.h"

enum { FOUND = 0, GONE = 1, NOT_ASKED = 75 };

/* Whether the task has this reason now. */
static bool is_why(const char *jid, const char *reason)
{
    char member[64];
    snprintf(member, sizeof member, "\"reason\":\"%s\"", reason);
    run_with("why", "--json", jid);
    return result.out != NULL && strstr(result.out, member) != NULL;
}

static bool says(const char *jid, int exit_code, const char *sentence)
{
    return run_command("why", jid, NULL) == exit_code && strstr(result.out, sentence) != NULL;
}

/* It comes to have the reason, and to say this, for people, too. */
static void assert_why(const char *jid, const char *reason, int exit_code, const char *sentence)
{
    test_await(is_why(jid, reason) && result.exit_code == exit_code && says(jid, exit_code, sentence));
    assert_contains(result.out, "\nWhat to do: ");
    assert_string_equal(result.error, "");
}

static void push(const char *queue, const char *jid, const char *class_name, const char *more)
{
    free(fleet_ask(&fleet, "LPUSH \"queue:%s\" '{\"class\":\"%s\",\"args\":[600000,1,0],\"jid\":\"%s\"%s}'", queue,
                   class_name, jid, more));
    free(fleet_ask(&fleet, "SADD queues \"%s\"", queue));
}

static void given_value(const char *key, const char *value)
{
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "SET %s %s PX 50000", key, value);
}

/* --- beside a worker that runs ------------------------------------------------------------------------------------ */

TEST(a_task_that_runs_and_those_behind_it)
{
    given_a_holder();
    assert_why("first", "runs", FOUND, "It runs in host0:");
    holder_push("jobs", "second", "r");
    assert_why("second", "lock", FOUND, "It waits for the lock on r, held since 2");
    assert_contains(result.out, " by the task first (hold) in host0:");
    assert_contains(result.out, ", which is alive; it is ");
    assert_contains(result.out, "`holdfast cancel first` ends that task.");
    holder_push("jobs", "third", "r");
    assert_why("third", "lock", FOUND, "; it is number ");
    holder_push("jobs", "first", "r"); /* once more */
    assert_why("first", "twin", FOUND, "Another task with its jid runs in host0:");
    run_with("tasks", "show", "third");
    assert_int_equal(run_with("result", "--json", "third"), 75);
    assert_contains(result.out, "\"state\":\"schedule\",\"reason\":\"lock\"");
    free(fleet_ask(&fleet, "SADD paused jobs"));
    assert_why("third", "paused", FOUND, "Its queue jobs is paused.");
}

TEST(a_task_that_nobody_takes)
{
    given_a_holder();
    push("an odd name", "odd", "hold", "");
    assert_why("odd", "queue_unserved", FOUND, "No worker serves its queue \"an odd name\".");
    push("jobs", "what", "tomorrow", "");
    assert_why("what", "class_unserved", FOUND, "No worker of its queue jobs serves its class tomorrow");
    push("jobs", "bare", "hold", "");
    assert_why("bare", "dead", GONE, "It died ");
    assert_contains(result.out, "HF::NoResource");
    free(fleet_ask(&fleet, "ZADD schedule 9000000000 '{\"class\":\"hold\",\"args\":[],\"jid\":\"later\","
                           "\"queue\":\"jobs\"}'"));
    assert_why("later", "scheduled", FOUND, "It is scheduled for 2255-03-14T16:00:00Z");
    free(fleet_ask(&fleet,
                   "ZADD retry 9000000000 '{\"class\":\"hold\",\"args\":[],\"jid\":\"again\",\"queue\":\"jobs\","
                   "\"retry_count\":1,\"error_class\":\"E\",\"error_message\":\"oops\"}'"));
    assert_why("again", "retry", FOUND, "It failed 2 times, last with \"E: oops\", and is tried again in ");
    free(fleet_ask(&fleet, "ZADD retry 9000000001 '[]'"));
    assert_why("9000000001-", "retry", FOUND, "It is tried again in "); /* what is no task has no class */
    free(fleet_ask(&fleet, "SET hf:2:result:done '{\"jid\":\"done\",\"class\":\"hold\",\"ended_at\":1000.25,"
                           "\"result\":7}'"));
    assert_why("done", "done", FOUND, "It was done at 1970-01-01T00:16:40Z");
    assert_why("nothing", "gone", GONE, "It is nowhere: ");
}

TEST(a_lock_of_another_program)
{
    holder_start("\"jobs\"");
    given_value("lock:p", "0123456789abcdef0123456789abcdef:\"vm:17 rsync\"");
    holder_push("jobs", "behind", "p");
    assert_why("behind", "lock", FOUND,
               "It waits for the lock on p, held by \"vm:17 rsync\"; it is number 1 of 1 in the waiting list");
    assert_contains(result.out, "; the lock expires in ");
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "HSET lock:b a b");
    holder_push("jobs", "blocked", "b");
    assert_why("blocked", "blocked", FOUND, "3 lock nodes have under its key what is no lock.");
}

TEST(one_of_several_locks)
{
    given_a_holder();
    free(fleet_ask(&fleet, "LPUSH queue:jobs '{\"class\":\"hold\",\"args\":[1,1,0],\"jid\":\"both\","
                           "\"resource\":[\"a\",\"r\",\"z\"]}'"));
    assert_why("both", "lock", FOUND, "It waits for the lock on r, held ");
}

TEST(all_places_and_all_of_a_share)
{
    fleet_work(&fleet, &(struct fleet_setup){.plugin = "holder",
                                             .lock = "ttl = \"30s\"; prefix = \"lock:\"; ",
                                             .classes = "{ class = \"hold\"; limit = 2; share = 75; }"});
    holder_push("jobs", "one", "r");
    test_await(is_noted("begin one"));
    holder_push("jobs", "two", "r");
    test_await(is_noted("begin two"));
    holder_push("jobs", "three", "r");
    assert_why("three", "limit", FOUND, "It waits for a seat at r: all of 2 are taken, one ");
    holder_push("jobs", "other", "s");
    test_await(is_noted("begin other"));
    holder_push("jobs", "four", "t");
    assert_why("four", "share", FOUND,
               "As many tasks of its class hold run as its share of the threads allows; it is ");
}

/* The worker shows no run yet, and so seems to have threads left. */
TEST(the_lock_of_one_that_is_still_in_its_queue)
{
    unsigned worker =
        fleet_work(&fleet, &(struct fleet_setup){.plugin = "holder",
                                                 .threads = 1,
                                                 .lock = "ttl = \"30s\"; prefix = \"lock:\"; ",
                                                 .classes = "{ class = \"hold\"; resource = \"r:{1}\"; }"});
    push("jobs", "one", "hold", "");
    test_await(is_noted("begin one"));
    fleet_signal(&fleet, worker, SIGSTOP);
    push("jobs", "two", "hold", "");
    free(fleet_ask(&fleet, "EVAL \"local identity = redis.call('ZRANGE', 'hf:2:processes', 0, 0)[1] "
                           "redis.call('HSET', identity, 'busy', 0)\" 0"));
    assert_why("two", "lock", FOUND, "It waits for the lock on r:1, held ");
    assert_contains(result.out, " by the task one (hold) in host0:");
    assert_contains(result.out, "; it is number 1 of 1 in the queue jobs");
    fleet_signal(&fleet, worker, SIGCONT);
}

/* --- trouble ------------------------------------------------------------------------------------------------------ */

TEST(a_worker_that_dies_and_one_that_is_quiet)
{
    unsigned worker = given_a_holder();
    assert_why("first", "runs", FOUND, "It runs in host0:");
    fleet_signal(&fleet, worker, SIGTSTP);
    push("jobs", "next", "hold", ",\"resource\":\"n\"");
    assert_why("next", "quiet", FOUND,
               "Every worker of its queue jobs is quiet or stops, and takes no more tasks: host0:");
    one_fleet_kill(worker);
    free(fleet_ask(&fleet, "EVAL \"local identity = redis.call('ZRANGE', 'hf:2:processes', 0, 0)[1] "
                           "redis.call('ZADD', 'hf:2:processes', redis.call('TIME')[1] - 3, identity)\" 0"));
    assert_why("first", "being_recovered", FOUND, " had taken it and is gone: its lease ended ");
    assert_contains(result.out, ", and no worker is alive that would give it back to its queue.");
    assert_why("next", "no_worker", FOUND, "No worker is alive; the last one of its queue, host0:");
    assert_contains(result.out, ", died: its lease ended ");
    holder_start("\"jobs\"");
    test_await(run_command("why", "first", NULL) == FOUND && strstr(result.out, "no worker") == NULL);
    assert_contains(result.out, "; a living worker gives it back to its queue, at the latest in ");
    assert_contains(result.out, "\nWhat to do: Nothing.\n");
}

TEST(too_few_lock_nodes)
{
    holder_start("\"jobs\"");
    holder_push("jobs", "first", "r");
    test_await(is_noted("begin first"));
    holder_push("jobs", "second", "r");
    assert_why("second", "lock", FOUND, "It waits for the lock on r");
    redis_server_pause(fleet.locks.servers[0]);
    redis_server_kill(fleet.locks.servers[1]);
    assert_why("second", "no_quorum", FOUND,
               "It waits for the lock on r, and nobody can have it: 1 of 3 lock nodes vote (");
    assert_contains(result.out, "\nWhat to do: `holdfast nodes` says");
    redis_server_resume(fleet.locks.servers[0]);
}

/* What happens while the only worker stands still. */
TEST(what_no_worker_sees)
{
    unsigned worker = given_a_holder();
    holder_push("jobs", "second", "r"); /* the worker keeps it ready to hand the lock on to it */
    assert_why("second", "lock", FOUND, "It waits for the lock on r");
    holder_push("jobs", "third", "r");
    assert_why("third", "lock", FOUND, " in the waiting list");
    fleet_signal(&fleet, worker, SIGSTOP);
    free(fleet_ask(&fleet, "ZADD schedule 1000000000 '{\"class\":\"hold\",\"args\":[],\"jid\":\"late\","
                           "\"queue\":\"jobs\"}'"));
    assert_why("late", "overdue", FOUND, "It is due in schedule since 2001-09-09T01:46:40Z ");
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "DEL lock:r");
    assert_why("third", "turn", FOUND, "It waits for the lock on r, which is free; it is ");
    fleet_signal(&fleet, worker, SIGCONT);
}

/* A worker that was killed counts as alive until its lease ends. */
TEST(a_worker_that_sends_no_heartbeat)
{
    unsigned worker = given_a_holder();
    assert_why("first", "runs", FOUND, "It runs in host0:");
    one_fleet_kill(worker);
    test_await(says("first", FOUND, "; its last heartbeat came "));
    assert_contains(result.out, ": if it has died, a living worker gives the task back to its queue after 2");
}

/* The second worker waits, and the first one gets a signal. */
static unsigned given_terms(const struct fleet_setup *ours, const struct fleet_setup *theirs, int number)
{
    unsigned first = fleet_work(&fleet, ours);
    test_await(fleet_number(&fleet, "EVAL \"local identity = redis.call('ZRANGE', 'hf:2:processes', 0, 0)[1] or '' "
                                    "return redis.call('HEXISTS', 'hf:2:process:' .. identity, 'terms')\" 0") == 1);
    unsigned second = fleet_work(&fleet, theirs);
    test_await(fleet_logged(&fleet, second, "terms_wait"));
    fleet_signal(&fleet, first, number);
    test_await(number != SIGTSTP || fleet_logged(&fleet, first, "worker_quiet"));
    holder_push("jobs", "put-off", "r");
    return first;
}

TEST(terms_of_all_locks_that_differ)
{
    given_terms(&(struct fleet_setup){.plugin = "holder", .lock = "ttl = \"30s\"; prefix = \"lock:\"; "},
                &(struct fleet_setup){.plugin = "holder", .lock = "ttl = \"30s\"; prefix = \"other:\"; "}, SIGTSTP);
    assert_why("put-off", "terms", FOUND, "No worker may run it now: locks: in lock group ");
}

TEST(terms_of_a_class_that_differ)
{
    given_terms(&(struct fleet_setup){.plugin = "holder", .classes = "{ class = \"hold\"; resource = \"a:{0}\"; }"},
                &(struct fleet_setup){.plugin = "holder", .classes = "{ class = \"hold\"; resource = \"b:{0}\"; }"},
                SIGTSTP);
    assert_why("put-off", "terms", FOUND, "No worker may run it now: class hold: a lock on \"b:{0}\" in ");
}

/* The first one could run it, and the other one was quicker. */
TEST(terms_that_one_of_two_waits_for)
{
    unsigned first = given_terms(
        &(struct fleet_setup){.plugin = "holder", .classes = "{ class = \"hold\"; resource = \"a:{0}\"; }"},
        &(struct fleet_setup){.plugin = "holder", .classes = "{ class = \"hold\"; resource = \"b:{0}\"; }"}, SIGSTOP);
    assert_why("put-off", "terms", FOUND, "A worker that may not run it now has put it off, and it is tried again ");
    fleet_signal(&fleet, first, SIGCONT);
}

TEST(a_queue_node_that_does_not_answer)
{
    given_a_configuration();
    redis_server_pause(fleet.queue);
    assert_int_equal(run_with("why", "--node-timeout=200ms", "first"), NOT_ASKED);
    redis_server_resume(fleet.queue);
    assert_string_equal(result.out, "");
    assert_contains(result.error, "cannot be reached");
}

TEST(mistakes_are_told)
{
    given_a_configuration();
    assert_int_equal(run_command("why", "a", "b"), 2);
    assert_int_equal(run_command("why", "", NULL), 2);
    assert_int_equal(run_with("why", "--scan-limit=0", "a"), 2);
    free(fleet_ask(&fleet, "EVAL \"for i = 1, 30 do redis.call('ZADD', 'schedule', i, i) end\" 0"));
    assert_int_equal(run_with("why", "--scan-limit=10", "a"), GONE);
    assert_contains(result.out, "It was not found among the entries that were looked at, and there are more.");
}

RUN_GROUP(one_fleet_set_up, one_fleet_tear_down, NULL, holding_clean)
