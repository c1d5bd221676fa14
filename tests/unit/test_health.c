/* Whether all is well, and the line that says so: from facts, without a server. */
#include "tests/support/test.h"

#include "worker/commands/health.h"

static char queue_name[] = "mail", identity[] = "h:1:a", class_names[][4] = {"a", "b", "c", "d", "e"};
static char *served;
static struct fleet_process process;
static struct backlog_queue queue;
static struct waiting_list lists[4];
static struct status_class classes[5];
static struct status status;
static struct health_bounds bounds;

/* A fleet in which all is well, and every bound that is not set. */
static int facts_reset(void **state)
{
    (void)state;
    served = queue_name;
    process = (struct fleet_process){
        .identity = identity, .state = FLEET_ALIVE, .info = {.queues = &served, .queue_count = 1}};
    queue = (struct backlog_queue){.name = queue_name, .length = 1234, .latency_us = 2 * US_PER_S};
    bounds = (struct health_bounds){.max_latency_ns = -1, .max_dead = -1, .min_processes = 1};
    status = (struct status){.fleet = {.items = &process, .count = 1},
                             .backlog = {.items = &queue, .count = 1, .knows_listed = true, .knows_paused = true},
                             .dead = DEAD_ENTRIES - 2,
                             .minute_processed = 1000,
                             .memory_used = 2000,
                             .memory_max = 2000};
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        classes[i] = (struct status_class){.name = class_names[i], .tasks = 5 - (long long)i};
    lists[0] = (struct waiting_list){.kind = "resource", .name = "acct:7", .waiters = 1500};
    lists[1] = (struct waiting_list){.kind = "resource", .name = "acct:8", .waiters = 2};
    lists[2] = (struct waiting_list){.kind = "class", .name = "render", .waiters = 1};
    lists[3] = (struct waiting_list){.kind = "resource", .name = "acct:9", .waiters = 1};
    return 0;
}

static const char *line(void)
{
    static struct buffer out;
    struct health health;
    health_judge(&health, &status, &bounds, (struct wall_time){1000 * US_PER_S});
    buffer_clear(&out);
    health_line(&health, &status, &out);
    health_free(&health);
    return buffer_text(&out);
}

/* "well: " is also a part of "not well: ". */
#define assert_begins(text, with) assert_int_equal(strncmp(text, with, strlen(with)), 0)

static void lock_nodes(unsigned voters, unsigned nodes)
{
    status.votes.nodes = nodes;
    status.votes.voters = voters;
    snprintf(status.votes.reason, sizeof status.votes.reason, "%s", voters < nodes ? "lock1: gone" : "");
}

TEST(one_line_says_that_all_is_well)
{
    lock_nodes(5, 5);
    assert_string_equal(line(), "well: 1 worker, 5 of 5 lock nodes vote, 1,234 tasks in queues, 0 waiting for locks");
}

TEST(a_worker_that_does_not_receive_its_answers_is_not_well)
{
    process.info.unreceived = 2;
    assert_begins(line(),
                  "not well: the queue node closes the connection of h:1:a before it gets 2 answers, which may be "
                  "larger than client-output-buffer-limit allows; 1 worker, ");
    process.state = FLEET_RECOVERED;
    assert_lacks(line(), "closes the connection");
}

/* A queue that nobody serves grows or not: its tasks wait for ever. Without any worker that is what is told. */
TEST(a_queue_that_nobody_serves_is_not_well)
{
    served = identity;
    assert_begins(line(), "not well: no worker serves the queue mail: 1,234 tasks wait; 1 worker, ");
    process.state = FLEET_LOST;
    assert_begins(line(), "not well: no worker takes tasks; ");
    assert_lacks(line(), "serves the queue");
    facts_reset(NULL);
    process.info.queue_count = 0; /* it does not say yet */
    assert_begins(line(), "well: ");
    facts_reset(NULL);
    queue.length = 0;
    served = identity;
    assert_begins(line(), "well: ");
}

TEST(fewer_nodes_than_a_majority_are_not_well_and_more_are)
{
    lock_nodes(2, 5);
    assert_string_equal(line(),
                        "not well: 2 of 5 lock nodes vote: tasks with locks are not started (lock1: gone); 1 worker, "
                        "1,234 tasks in queues, 0 waiting for locks");
    lock_nodes(2, 4); /* no majority either */
    assert_contains(line(), "not well: 2 of 4 lock nodes vote: tasks with locks are not started");
    lock_nodes(3, 5);
    assert_begins(line(), "well: 1 worker, 3 of 5 lock nodes vote (0 more may fail: lock1: gone), 1,234 ");
    lock_nodes(4, 5);
    assert_begins(line(), "well: 1 worker, 4 of 5 lock nodes vote (1 more may fail: lock1: gone), 1,234 ");
    lock_nodes(0, 1);
    assert_contains(line(), "not well: 0 of 1 lock nodes vote: ");
    lock_nodes(1, 1);
    assert_begins(line(), "well: 1 worker, 1 of 1 lock node votes, 1,234 ");
}

TEST(lock_nodes_that_nobody_has_named_are_not_told_of)
{
    assert_string_equal(line(), "well: 1 worker, 1,234 tasks in queues, 0 waiting for locks");
    status.is_lock_unknown = true;
    assert_string_equal(line(), "well: 1 worker, lock nodes not known (no configuration), 1,234 tasks in queues, 0 "
                                "waiting for locks");
}

TEST(the_hottest_three_resources_are_named)
{
    status.waiting = (struct waiting_lists){.items = lists, .count = 3};
    assert_contains(line(), "in queues, 1,503 waiting for locks (1,500 for acct:7, 2 for acct:8, 1 for class render)");
    status.waiting.count = 4;
    assert_contains(line(), "1,504 waiting for locks (1,500 for acct:7, 2 for acct:8, 1 for class render, ...)");
    status.waiting.is_cut = true;
    assert_contains(line(), "in queues, at least 1,504 waiting for locks (");
}

TEST(workers_that_are_missing_are_not_well)
{
    bounds.min_processes = 2;
    assert_contains(line(), "not well: 1 worker takes tasks, at least 2 should; 1,234 tasks in queues, ");
    bounds.min_processes = 1;
    process.is_quiet = true;
    assert_contains(line(), "not well: no worker takes tasks; 1,234 tasks in queues, ");
    bounds.min_processes = 0;
    assert_begins(line(), "well: 0 workers, ");
    process = (struct fleet_process){.identity = identity, .state = FLEET_LOST, .lease_end = {941 * US_PER_S}};
    assert_begins(line(), "well: 0 workers, "); /* the others have a minute to recover it */
    process.lease_end.us = 939 * US_PER_S;
    assert_contains(line(), "not well: the lease of h:1:a ended 61 s ago and nobody recovers its claims; 0 workers, ");
}

TEST(classes_without_a_worker_are_told_up_to_three)
{
    status.unserved = classes;
    status.unserved_count = 1;
    assert_contains(line(), "not well: no worker serves the class a: 5 tasks wait; 1 worker, ");
    classes[0].tasks = 1;
    assert_contains(line(), "not well: no worker serves the class a: 1 task waits; 1 worker, ");
    status.unserved_count = 5;
    assert_contains(line(), "the class c: 3 tasks wait; and 2 more of that kind; 1 worker, ");
}

TEST(workers_of_other_programs_that_share_a_queue_announce_no_classes)
{
    static char ours[] = "mail", own[] = "theirs";
    char *queues[] = {ours}, *foreign_queues[] = {own};
    struct fleet_process both[] = {process, {.identity = identity, .state = FLEET_FOREIGN}};
    both[0].info.queues = queues;
    both[1].info.queues = foreign_queues;
    both[0].info.queue_count = both[1].info.queue_count = 1;
    status.fleet = (struct fleet){.items = both, .count = 2};
    status.unserved = classes;
    status.unserved_count = 2;
    assert_contains(line(), "not well: no worker serves the class a: 5 tasks wait; no worker serves the class b: ");
    foreign_queues[0] = ours;
    assert_contains(line(),
                    "the class a: 5 tasks wait (what the workers of another program serve that share a queue is "
                    "not known); no worker serves the class b: 4 tasks wait; 1 worker, ");
}

TEST(a_full_dead_set_and_a_queue_that_grows_are_not_well)
{
    status.dead = DEAD_ENTRIES - 1;
    assert_contains(line(), "not well: dead is full with 9,999 tasks: each one more pushes out the oldest; 1 worker, ");
    status.dead = 0;
    queue.latency_us = 300 * US_PER_S;
    assert_begins(line(), "well: 1 worker, "); /* that it has waited long is no growth */
    queue.pushed_lately = 1110;
    assert_contains(line(), "not well: the queue mail grows: its oldest task has waited 5m, and within a minute 1,110 "
                            "or more were pushed there, while all workers did 1,000; 1 worker, ");
}

TEST(what_keeps_workers_from_working_is_not_well)
{
    status.memory_used = 2001;
    assert_contains(line(), "not well: the queue node uses 2.0 KiB of 2.0 KiB and refuses writes; 1 worker, ");
    status.memory_used = 0;
    status.has_failing_disk = true;
    assert_contains(line(), "not well: the queue node cannot write to its disk and refuses writes; 1 worker, ");
    status.has_failing_disk = false;
    status.schedule = status.retry = status.dead = queue.length = -1;
    assert_contains(line(), "not well: the key schedule holds no sorted set; the key retry holds no sorted set; the "
                            "key dead holds no sorted set; the key of queue mail holds no list; 1 worker, 0 tasks ");
    status.backlog.knows_listed = status.backlog.knows_paused = false;
    status.waiting.is_clash = true;
    process.is_clash = true;
    assert_contains(line(), "not well: the key queues holds no set; the key paused holds no set; the key schedule "
                            "holds no sorted set; and 4 more of that kind; ");
}

TEST(bounds_are_those_that_were_set)
{
    status.dead = 5;
    status.overdue_us[0] = 3 * US_PER_S;
    assert_begins(line(), "well: 1 worker, ");
    bounds = (struct health_bounds){.max_latency_ns = 3 * NS_PER_S, .max_dead = 5, .min_processes = 1};
    assert_begins(line(), "well: 1 worker, ");
    bounds = (struct health_bounds){.max_latency_ns = 1 * NS_PER_S, .max_dead = 4, .min_processes = 1};
    assert_contains(line(), "not well: the oldest task of queue mail has waited 2.0 s; an entry of schedule has been "
                            "due for 3.0 s and was not moved to its queue; 5 dead tasks, at most 4 are accepted; ");
    queue.is_paused = true;
    status.overdue_us[0] = 0;
    status.dead = 4;
    assert_begins(line(), "not well: the queue mail is paused: 1,234 tasks wait; 1 worker, ");
}

/* An operator may have forgotten it. */
TEST(a_paused_queue_with_tasks_is_not_well)
{
    queue.is_paused = true;
    queue.length = 1;
    assert_begins(line(), "not well: the queue mail is paused: 1 task waits; 1 worker, ");
    queue.length = 0;
    assert_begins(line(), "well: 1 worker, ");
}

/* A probe reads no further than the first. */
TEST(the_worst_comes_first)
{
    lock_nodes(2, 5);
    status.unserved = classes;
    status.unserved_count = 1;
    status.dead = DEAD_ENTRIES;
    process.is_quiet = true;
    status.memory_used = 2001;
    const char *text = line();
    const char *const order[] = {"not well: the queue node uses", "no worker takes", "2 of 5 lock nodes",
                                 "no worker serves the class", "dead is full"};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        const char *at = strstr(text, order[i]);
        assert_non_null(at);
        text = at;
    }
}

TEST(each_lock_node_has_its_own_reason)
{
    static const struct redlock_node_view views[] = {
        {.name = "a", .trouble = "gone"}, {.name = "b", .trouble = "gone"}, {.name = "c", .votes = true},
        {.name = "d", .trouble = "OOM"},  {.name = "e", .trouble = "gone"},
    };
    status_votes_take(&status.votes, views, NULL, 5);
    assert_int_equal(status.votes.voters, 1);
    assert_string_equal(status.votes.reason, "a, b: gone; d: OOM; e: gone");
    status_votes_take(&status.votes, views + 2, NULL, 1);
    assert_string_equal(status.votes.reason, "");
}

TEST(names_cannot_steer_a_terminal)
{
    static char hostile[] = "\x1b[2J\n";
    lists[0].name = hostile;
    classes[0].name = hostile;
    status.waiting = (struct waiting_lists){.items = lists, .count = 1};
    status.unserved = classes;
    status.unserved_count = 1;
    assert_null(strpbrk(line(), "\x1b\n"));
}

RUN_TESTS_WITH(facts_reset, NULL)
