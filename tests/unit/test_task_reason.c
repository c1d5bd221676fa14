/* Why a task does not run: which reason the facts give, what is said, and what to do. */
#include "tests/support/test.h"

#include "worker/commands/task_reason.h"

#define NOW   (1795284306 * US_PER_S) /* 2026-11-21T18:05:06Z */
#define AT(s) ((struct wall_time){NOW + (s)*US_PER_S})

static struct task_facts facts;
static struct task_reason reason;

/* A task that is about to be taken. */
static int facts_reset(void **state)
{
    (void)state;
    facts = (struct task_facts){
        .jid = "j1",
        .is_found = true,
        .state = TASK_IN_QUEUE,
        .queue = "mail",
        .class_name = "Send",
        .position = 3,
        .length = 7,
        .error = "",
        .ahead = -1,
        .waiting = -1,
        .workers = {.living = 2, .of_queue = 2, .awake = 2, .able = 2, .allowed = 2, .threads = 10, .busy = 4},
        .lock = {.remaining_us = -1, .hold_us = -1, .owner = "\"vm:17 rsync\""}};
    return 0;
}

static int reason_free(void **state)
{
    (void)state;
    task_reason_fini(&reason);
    reason = (struct task_reason){.code = TASK_GONE};
    return 0;
}

static void assert_reason(enum task_reason_code code, const char *sentence, const char *advice)
{
    task_reason_find(&reason, &facts, AT(0));
    assert_string_equal(task_reason_name(reason.code), task_reason_name(code));
    assert_string_equal(buffer_text(&reason.sentence), sentence);
    assert_string_equal(buffer_text(&reason.advice), advice);
}

static void assert_code(enum task_reason_code code)
{
    task_reason_find(&reason, &facts, AT(0));
    assert_string_equal(task_reason_name(reason.code), task_reason_name(code));
}

/* --- where it is -------------------------------------------------------------------------------------------------- */

TEST(one_that_is_nowhere_is_unknown_or_has_ended)
{
    facts.is_found = false;
    assert_reason(
        TASK_GONE, "It is nowhere: it ended and left no result, was deleted, or was never pushed.",
        "The log of the workers says how it ended (ending=); only a class with a result_ttl leaves a result.");
    facts.was_cut = true;
    assert_reason(TASK_UNKNOWN, "It was not found among the entries that were looked at, and there are more.",
                  "Look further with --scan-limit.");
    facts.ended_at = AT(-60);
    assert_reason(TASK_DONE, "It was done at 2026-11-21T18:04:06Z, and left a result.",
                  "`holdfast result j1` prints it.");
    facts.was_cancelled = true;
    assert_reason(TASK_CANCELLED, "It was cancelled at 2026-11-21T18:04:06Z.",
                  "Nothing. If it is to run after all, push it again.");
}

TEST(a_dead_one_says_of_what)
{
    facts.state = TASK_IN_DEAD;
    facts.at = AT(-180);
    facts.error = "E: oops";
    facts.is_paused = true;
    assert_reason(TASK_DEAD, "It died 3m ago: \"E: oops\".", "When the cause is mended: `holdfast tasks retry j1`.");
    facts.error = "";
    task_reason_find(&reason, &facts, AT(0));
    assert_string_equal(buffer_text(&reason.sentence), "It died 3m ago.");
}

TEST(a_claim_runs_or_starts)
{
    facts.state = TASK_IN_CLAIMS;
    facts.process = "host:1:a";
    facts.is_living = true;
    facts.is_paused = true; /* it was taken before */
    assert_reason(TASK_STARTS, "host:1:a has just taken it: it starts it, or asks for its lock.",
                  "Nothing. If it stays so for a minute, see the log of that process.");
    facts.since = AT(-12);
    assert_reason(TASK_RUNS, "It runs in host:1:a since 2026-11-21T18:04:54Z (12 s ago).",
                  "Nothing. `holdfast cancel j1` stops it.");
}

/* Whoever was killed counts as alive until its lease ends. */
TEST(a_claim_of_a_process_that_sends_no_heartbeat_is_doubted)
{
    facts.state = TASK_IN_CLAIMS;
    facts.process = "host:1:a";
    facts.is_living = true;
    facts.lease_end = AT(6);
    facts.beat = AT(-7);
    assert_code(TASK_STARTS);
    assert_lacks(buffer_text(&reason.sentence), "heartbeat");
    facts.beat = AT(-9);
    assert_reason(TASK_STARTS,
                  "host:1:a has taken it: it starts it, or asks for its lock; its last heartbeat came 9.0 s ago: if it "
                  "has died, a living worker gives the task back to its queue after 2026-11-21T18:05:12Z (in 6.0 s).",
                  "Nothing. If it stays so for a minute, see the log of that process.");
    facts.since = AT(-12);
    task_reason_find(&reason, &facts, AT(0));
    assert_string_equal(buffer_text(&reason.sentence),
                        "It runs in host:1:a since 2026-11-21T18:04:54Z (12 s ago); its last heartbeat came 9.0 s ago: "
                        "if it has died, a living worker gives the task back to its queue after 2026-11-21T18:05:12Z "
                        "(in 6.0 s).");
}

TEST(the_claim_of_a_dead_process_comes_back)
{
    facts.state = TASK_IN_CLAIMS;
    facts.process = "host:1:a";
    facts.since = AT(-60);
    facts.lease_end = AT(-5);
    assert_reason(TASK_BEING_RECOVERED,
                  "host:1:a had taken it and is gone: its lease ended 5.0 s ago; a living worker gives it back to its "
                  "queue, at the latest in 55 s.",
                  "Nothing.");
    assert_string_equal(task_reason_name(reason.code), "being_recovered");
    assert_int_equal(reason.expected.us, AT(55).us);
    facts.lease_end = AT(-90);
    assert_reason(TASK_BEING_RECOVERED,
                  "host:1:a had taken it and is gone: its lease ended 90 s ago, and nobody has given it back to its "
                  "queue.",
                  "`holdfast doctor` says what keeps the living workers from that.");
    facts.workers.living = 0;
    assert_reason(TASK_BEING_RECOVERED,
                  "host:1:a had taken it and is gone: its lease ended 90 s ago, and no worker is alive that would give "
                  "it back to its queue.",
                  "Start a worker, or give it back by `holdfast tasks retry j1`.");
}

TEST(a_second_task_of_a_jid_names_the_first)
{
    facts.twin = "host:1:a";
    facts.since = AT(-12);
    assert_reason(
        TASK_TWIN,
        "Another task with its jid runs in host:1:a since 2026-11-21T18:04:54Z (12 s ago); this one is number "
        "3 of 7 in the queue mail.",
        "It runs too, when a worker takes it. If it was pushed twice by mistake: `holdfast tasks delete j1 --state "
        "queue --queue mail`.");
    facts.state = TASK_IN_RETRY;
    facts.at = AT(30);
    task_reason_find(&reason, &facts, AT(0));
    assert_contains(buffer_text(&reason.sentence), "this one is in retry, and looks again in 30 s.");
    assert_contains(buffer_text(&reason.advice), "delete j1 --state retry`");
}

TEST(one_for_later_says_when)
{
    facts.state = TASK_IN_SCHEDULE;
    facts.at = AT(3600);
    assert_reason(TASK_SCHEDULED, "It is scheduled for 2026-11-21T19:05:06Z (in 60m).",
                  "Wait; or `holdfast tasks retry j1` runs it now.");
    assert_int_equal(reason.expected.us, AT(3600).us);
    facts.put_off_at = AT(-10);
    facts.at = AT(5);
    assert_reason(TASK_SCHEDULED, "It could not have its lock and is tried again in 5.0 s.",
                  "Wait; or `holdfast tasks retry j1` runs it now.");
    facts.workers.allowed = 1; /* the other one waits */
    facts.workers.terms = "class Send: one, but two";
    assert_reason(TASK_TERMS,
                  "A worker that may not run it now has put it off, and it is tried again in 5.0 s: class Send: one, "
                  "but two.",
                  "Give both the same configuration; if the new one is meant, stop the last process with the old one.");
    facts.workers.allowed = 2;
    facts.state = TASK_IN_RETRY;
    facts.put_off_at.us = 0;
    facts.failures = 2;
    facts.error = "E: oops";
    assert_reason(TASK_RETRY,
                  "It failed 2 times, last with \"E: oops\", and is tried again in 5.0 s (2026-11-21T18:05:11Z).",
                  "Wait; or `holdfast tasks retry j1` runs it now.");
}

TEST(one_for_later_says_what_is_in_the_way_now_as_well)
{
    facts.state = TASK_IN_SCHEDULE;
    facts.at = AT(3600);
    facts.workers.of_queue = 0;
    assert_reason(TASK_SCHEDULED, "It is scheduled for 2026-11-21T19:05:06Z (in 60m). No worker serves its queue mail.",
                  "Name the queue in `queues` of a worker; `holdfast status` shows which worker serves which.");
    facts.is_paused = true;
    facts.state = TASK_IN_RETRY;
    facts.failures = 1;
    assert_reason(TASK_RETRY,
                  "It failed 1 time and is tried again in 60m (2026-11-21T19:05:06Z). Its queue mail is paused.",
                  "`holdfast resume mail` lets its tasks run.");
}

TEST(one_that_is_due_and_stays_says_why)
{
    facts.state = TASK_IN_SCHEDULE;
    facts.at = AT(-29);
    assert_code(TASK_SCHEDULED);
    facts.at = AT(-60);
    assert_reason(
        TASK_OVERDUE,
        "It is due in schedule since 2026-11-21T18:04:06Z (60 s ago), and no worker has put it into its queue "
        "mail.",
        "`holdfast doctor` says what keeps the workers from it.");
    facts.workers.of_queue = 0;
    assert_code(TASK_QUEUE_UNSERVED);
    facts.workers.living = 0;
    assert_code(TASK_NO_WORKER);
}

/* --- who takes it ------------------------------------------------------------------------------------------------- */

TEST(one_in_its_queue_says_who_serves_it)
{
    assert_reason(TASK_QUEUED,
                  "It is number 3 of 7 in the queue mail, which 2 workers serve: 4 of 10 threads are busy.",
                  "Nothing, if it is taken in a moment; else see in which order its workers serve their queues.");
    facts.workers.allowed = 1;
    facts.workers.busy = 10;
    assert_reason(TASK_QUEUED,
                  "It is number 3 of 7 in the queue mail, which 1 worker serves: all, 10 of 10 threads are busy.",
                  "Wait, or start more workers; `holdfast top` shows what runs.");
    facts.workers.beat = AT(-9);
    task_reason_find(&reason, &facts, AT(0));
    assert_contains(buffer_text(&reason.sentence), "threads are busy; its last heartbeat came 9.0 s ago.");
    facts.list = TASK_LIST_RESOURCE;
    facts.list_name = "acct:7";
    facts.put_off_at = AT(-10);
    task_reason_find(&reason, &facts, AT(0));
    assert_contains(buffer_text(&reason.sentence),
                    "in the queue mail (its turn for the lock on acct:7 has come), which");
}

/* Each is told although the later ones are true as well. */
TEST(the_first_thing_in_the_way_is_told)
{
    facts.workers.terms = "class Send: one, but two";
    facts.workers.allowed = 0;
    assert_reason(TASK_TERMS, "No worker may run it now: class Send: one, but two.",
                  "Give both the same configuration; if the new one is meant, stop the last process with the old one.");
    facts.workers.able = 0;
    assert_reason(
        TASK_CLASS_UNSERVED, "No worker of its queue mail serves its class Send.",
        "Deploy a handler of the class to a worker of the queue (`holdfast plugins` shows what a worker has), "
        "or correct the name that is pushed.");
    facts.workers.elsewhere = "host:2:b";
    task_reason_find(&reason, &facts, AT(0));
    assert_contains(buffer_text(&reason.sentence), "; host:2:b does, which does not serve the queue.");
    facts.workers.awake = 0;
    facts.workers.quiet = "host:1:a";
    assert_reason(TASK_QUIET, "Every worker of its queue mail is quiet or stops, and takes no more tasks: host:1:a.",
                  "Start a worker, or restart one that is quiet: no quiet worker takes tasks again.");
    facts.workers.of_queue = 0;
    assert_reason(TASK_QUEUE_UNSERVED, "No worker serves its queue mail.",
                  "Name the queue in `queues` of a worker; `holdfast status` shows which worker serves which.");
    facts.workers.living = 0;
    assert_code(TASK_NO_WORKER);
    facts.is_paused = true;
    assert_reason(TASK_PAUSED, "Its queue mail is paused.", "`holdfast resume mail` lets its tasks run.");
}

TEST(the_worker_that_died_is_named)
{
    facts.workers.living = facts.workers.of_queue = 0;
    facts.workers.dead = "host:1:a";
    facts.workers.dead_lease_end = AT(-180);
    facts.workers.dead_beat = AT(-190);
    task_reason_find(&reason, &facts, AT(0));
    assert_string_equal(buffer_text(&reason.sentence),
                        "No worker is alive; the last one of its queue, host:1:a, died: its lease ended 3m ago.");
    facts.workers.living = 1;
    facts.workers.dead_lease_end.us = 0; /* its claims were recovered */
    facts.workers.dead_beat = AT(-50);
    assert_reason(TASK_QUEUE_UNSERVED,
                  "No worker serves its queue mail; the last one of its queue, host:1:a, died: its last heartbeat came "
                  "50 s ago.",
                  "Start that one again (its log says how it ended), or name the queue in `queues` of another; "
                  "`holdfast status` shows which worker serves which.");
    facts.workers.dead_beat.us = 0;
    task_reason_find(&reason, &facts, AT(0));
    assert_contains(buffer_text(&reason.sentence), "host:1:a, died.");
}

TEST(a_class_that_was_met_unserved_says_since_when)
{
    facts.state = TASK_IN_RETRY;
    facts.at = AT(30);
    facts.unserved_at = AT(-60);
    assert_code(TASK_RETRY); /* a worker serves it by now */
    facts.workers.able = 0;
    task_reason_find(&reason, &facts, AT(0));
    assert_string_equal(task_reason_name(reason.code), "class_unserved");
    assert_contains(buffer_text(&reason.sentence), "seen 60 s ago for the first time, and it is tried again in 30 s.");
}

/* --- its lock ----------------------------------------------------------------------------------------------------- */

static void given_a_list(enum task_list list, const char *name)
{
    facts.state = TASK_IN_SCHEDULE;
    facts.at = AT(30);
    facts.put_off_at = AT(-10);
    facts.list = list;
    facts.list_name = name;
    facts.is_listed = true;
    facts.ahead = 1;
    facts.waiting = 5;
    facts.lock.is_asked = true;
    facts.lock.nodes = facts.lock.voters = 3;
    facts.lock.quorum = 2;
    facts.lock.state = LOCK_IS_HELD;
    facts.lock.holders = 1;
    facts.lock.remaining_us = 8 * US_PER_S;
}

TEST(what_was_cancelled_ends_without_a_run)
{
    facts.is_cancelled = true;
    assert_reason(TASK_QUEUED,
                  "It is number 3 of 7 in the queue mail, which 2 workers serve: 4 of 10 threads are busy. It was "
                  "cancelled, so it ends without a run when a worker takes it.",
                  "Nothing.");
}

/* Whatever it locks. */
TEST(without_a_quorum_nobody_claims)
{
    facts.lock.is_asked = true;
    facts.lock.nodes = 3;
    facts.lock.voters = 1;
    facts.lock.quorum = 2;
    facts.lock.trouble = "lock1: gone";
    assert_reason(TASK_NO_QUORUM, "Its workers claim nothing: 1 of 3 lock nodes vote (lock1: gone).",
                  "`holdfast nodes` says of each node why it does not vote, and what to do.");
}

static void given_a_holder(bool is_living)
{
    facts.lock.is_ours = true;
    facts.lock.jid = "j0";
    facts.lock.class_name = "Send";
    facts.lock.process = "host:1:a";
    facts.lock.is_living = is_living;
    facts.lock.since = AT(-2);
}

TEST(a_held_lock_names_its_holder)
{
    given_a_list(TASK_LIST_RESOURCE, "acct:7");
    given_a_holder(true);
    assert_reason(
        TASK_LOCK,
        "It waits for the lock on acct:7, held since 2026-11-21T18:05:04Z (2.0 s ago) by the task j0 (Send) in "
        "host:1:a, which is alive; it is number 2 of 5 in the waiting list.",
        "`holdfast who acct:7` shows more. If its holder hangs, `holdfast cancel j0` ends that task.");
    assert_int_equal(reason.expected.us, 0);
    facts.is_paused = true;
    assert_code(TASK_PAUSED); /* that keeps it from its turn, whoever holds the lock */
}

/* Its worker shows no run yet, so it seems to have a thread for the task. */
TEST(one_in_its_queue_may_need_a_lock_that_is_held)
{
    given_a_list(TASK_LIST_SEATS, "acct:7");
    given_a_holder(true);
    facts.state = TASK_IN_QUEUE;
    facts.put_off_at.us = 0;
    facts.is_listed = false;
    facts.lock.holders = facts.lock.limit = 3;
    facts.lock.beat = AT(-9);
    task_reason_find(&reason, &facts, AT(0));
    assert_string_equal(task_reason_name(reason.code), "limit");
    assert_contains(buffer_text(&reason.sentence), "all of 3 are taken, one since 2026-11-21T18:05:04Z (2.0 s ago) by "
                                                   "the task j0 (Send) in host:1:a, whose last heartbeat came 9.0 s "
                                                   "ago; it is number 3 of 7 in the queue mail.");
    facts.lock.holders = 2;
    assert_code(TASK_QUEUED);
    facts.lock.holders = 3;
    facts.put_off_at = AT(-10); /* it has waited in the waiting list, and its turn has come */
    assert_code(TASK_QUEUED);
    facts.workers.allowed = 0;
    assert_code(TASK_TERMS);
}

TEST(a_claim_may_wait_for_its_lock)
{
    given_a_list(TASK_LIST_RESOURCE, "acct:7");
    given_a_holder(true);
    facts.state = TASK_IN_CLAIMS;
    facts.process = "host:2:b";
    facts.is_living = true;
    facts.ahead = 0;
    facts.lock.hold_us = 12 * US_PER_S;
    task_reason_find(&reason, &facts, AT(0));
    assert_string_equal(task_reason_name(reason.code), "lock");
    assert_contains(buffer_text(&reason.sentence),
                    "; it is claimed by host:2:b, which takes the lock for it, and starts in about 10 s (");
    facts.lock.jid = "j1"; /* it has it by now, and does not show its run yet */
    assert_code(TASK_STARTS);
}

TEST(the_start_is_expected_by_the_mean_hold)
{
    given_a_list(TASK_LIST_RESOURCE, "acct:7");
    given_a_holder(true);
    facts.lock.hold_us = 12 * US_PER_S;
    task_reason_find(&reason, &facts, AT(0));
    assert_contains(buffer_text(&reason.sentence), "number 2 of 5 in the waiting list, and starts in about 22 s (such "
                                                   "a lock is held for 12 s, the mean of today).");
    assert_int_equal(reason.expected.us, AT(22).us);
    facts.lock.since = AT(-13); /* nobody knows when such a one ends */
    task_reason_find(&reason, &facts, AT(0));
    assert_contains(buffer_text(&reason.sentence),
                    "5 in the waiting list (such a lock is held for 12 s, the mean of today).");
    assert_int_equal(reason.expected.us, 0);
}

TEST(a_dead_holder_has_the_lock_until_it_expires)
{
    given_a_list(TASK_LIST_RESOURCE, "acct:7");
    given_a_holder(false);
    facts.ahead = 0;
    task_reason_find(&reason, &facts, AT(0));
    assert_contains(
        buffer_text(&reason.sentence),
        "in host:1:a, whose lease has ended; it is number 1 of 5 in the waiting list, and starts in about 8.0 s.");
    assert_contains(buffer_text(&reason.advice), "`holdfast unlock acct:7` takes it from a holder that is gone.");
    facts.ahead = 1; /* for how long that one holds it is not known */
    task_reason_find(&reason, &facts, AT(0));
    assert_contains(buffer_text(&reason.sentence), "in the waiting list; the lock expires in 8.0 s, if nobody extends "
                                                   "it.");
    facts.lock.hold_us = 12 * US_PER_S;
    task_reason_find(&reason, &facts, AT(0));
    assert_int_equal(reason.expected.us, AT(20).us);
}

TEST(a_lock_of_a_program_shows_what_it_says)
{
    given_a_list(TASK_LIST_RESOURCE, "acct:7");
    facts.lock.hold_us = 12 * US_PER_S; /* of tasks */
    task_reason_find(&reason, &facts, AT(0));
    assert_contains(
        buffer_text(&reason.sentence),
        "on acct:7, held by \"vm:17 rsync\"; it is number 2 of 5 in the waiting list; the lock expires in 8.0 s, if "
        "nobody extends it");
    assert_int_equal(reason.expected.us, 0);
    facts.lock.is_shared = true;
    facts.lock.holders = 3;
    task_reason_find(&reason, &facts, AT(0));
    assert_contains(buffer_text(&reason.sentence), "held by 3 readers, one of them \"vm:17 rsync\"; it is");
}

TEST(the_lock_of_its_own_earlier_run_is_told_as_that)
{
    given_a_list(TASK_LIST_RESOURCE, "acct:7");
    given_a_holder(false);
    facts.lock.jid = "j1";
    assert_reason(TASK_TWIN,
                  "It waits for the lock on acct:7, which an earlier run of the same task still has in host:1:a, whose "
                  "lease has ended; that lock expires in 8.0 s, if nobody extends it.",
                  "Nothing: it runs when that run has ended, or its lock has expired.");
}

TEST(seats_are_taken_or_free)
{
    given_a_list(TASK_LIST_SEATS, "acct:7");
    given_a_holder(true);
    facts.lock.holders = facts.lock.limit = 3;
    facts.lock.hold_us = 12 * US_PER_S;
    facts.ahead = 4;
    facts.waiting = 5;
    task_reason_find(&reason, &facts, AT(0));
    assert_string_equal(task_reason_name(reason.code), "limit");
    assert_contains(
        buffer_text(&reason.sentence),
        "It waits for a seat at acct:7: all of 3 are taken, one since 2026-11-21T18:05:04Z (2.0 s ago) by "
        "the task j0 (Send) in host:1:a, which is alive; it is number 5 of 5 in the waiting list, and starts in about "
        "22 s (");
    facts.lock.holders = 2;
    assert_reason(TASK_TURN,
                  "It waits for a seat at acct:7, which is free; it is number 5 of 5 in the waiting list, and comes at "
                  "the latest "
                  "in 30 s.",
                  "Nothing.");
}

TEST(a_share_that_is_used_up_is_told)
{
    given_a_list(TASK_LIST_CLASS, "Send");
    facts.lock.is_asked = false;
    assert_reason(TASK_SHARE,
                  "As many tasks of its class Send run as its share of the threads allows; it is number 2 of 5 in the "
                  "waiting list.",
                  "Wait, raise `share` of the class, or start more workers.");
}

TEST(too_few_lock_nodes_are_told_with_their_trouble)
{
    given_a_list(TASK_LIST_RESOURCE, "acct:7");
    facts.lock.voters = 1;
    facts.lock.trouble = "lock2, lock3: gone";
    assert_reason(
        TASK_NO_QUORUM,
        "It waits for the lock on acct:7, and nobody can have it: 1 of 3 lock nodes vote (lock2, lock3: gone).",
        "`holdfast nodes` says of each node why it does not vote, and what to do.");
    facts.list = TASK_LIST_NONE; /* put off, since no worker knows the group */
    task_reason_find(&reason, &facts, AT(0));
    assert_contains(buffer_text(&reason.sentence), "It waits for its lock, and nobody can have it: 1 of 3");
    facts.lock.voters = 3;
    facts.lock.state = LOCK_IS_UNKNOWN;
    assert_code(TASK_NO_QUORUM);
    facts.state = TASK_IN_CLAIMS; /* a worker asks for it */
    facts.is_living = true;
    assert_code(TASK_NO_QUORUM);
    facts.lock.state = LOCK_IS_FREE;
    assert_code(TASK_STARTS);
}

TEST(what_is_no_lock_is_told)
{
    given_a_list(TASK_LIST_RESOURCE, "acct:7");
    facts.lock.state = LOCK_IS_BLOCKED;
    facts.lock.blocked = 2;
    assert_reason(TASK_BLOCKED,
                  "It waits for the lock on acct:7, and nobody can get it: 2 lock nodes have under its key what is no "
                  "lock.",
                  "`holdfast who acct:7` shows what it is, and how to delete it.");
}

TEST(a_free_lock_is_its_turn)
{
    given_a_list(TASK_LIST_RESOURCE, "acct:7");
    facts.lock.state = LOCK_IS_LEFTOVER;
    assert_code(TASK_TURN);
    facts.lock.state = LOCK_IS_FREE;
    assert_code(TASK_TURN);
    facts.is_listed = false; /* another task of its jid has the entry */
    task_reason_find(&reason, &facts, AT(0));
    assert_contains(buffer_text(&reason.sentence),
                    "which is free; it is in schedule, and looks again in 30 s, and comes");
}

TEST(a_lock_without_a_configuration_is_told_all_the_same)
{
    given_a_list(TASK_LIST_RESOURCE, "acct:7");
    facts.lock.is_asked = false;
    facts.lock.why_not = "the configuration names no lock nodes";
    task_reason_find(&reason, &facts, AT(0));
    assert_string_equal(task_reason_name(reason.code), "lock");
    assert_string_equal(buffer_text(&reason.sentence),
                        "It waits for the lock on acct:7; who holds it is not known (\"the configuration names no lock "
                        "nodes\"); it is number 2 of 5 in the waiting list.");
    facts.list = TASK_LIST_SEATS;
    assert_code(TASK_LIMIT);
}

/* --- both --------------------------------------------------------------------------------------------------------- */

TEST(names_cannot_steer_a_terminal)
{
    facts.queue = "a\x1b[2J";
    facts.is_paused = true;
    task_reason_find(&reason, &facts, AT(0));
    assert_lacks(buffer_text(&reason.sentence), "\x1b");
    assert_lacks(buffer_text(&reason.advice), "\x1b");
}

TEST(commands_for_a_local_fleet_can_be_copied)
{
    facts.is_local = true;
    given_a_list(TASK_LIST_RESOURCE, "acct:7");
    given_a_holder(true);
    task_reason_find(&reason, &facts, AT(0));
    assert_string_equal(buffer_text(&reason.advice),
                        "`holdfast who acct:7 --local` shows more. If its holder hangs, `holdfast cancel j0 --local` "
                        "ends that task.");
    facts.list = TASK_LIST_CLASS;
    task_reason_find(&reason, &facts, AT(0));
    assert_string_equal(buffer_text(&reason.advice),
                        "Wait, raise `share` of the class, or start more workers."); /* that is no command */
}

RUN_TESTS_WITH(facts_reset, reason_free)
