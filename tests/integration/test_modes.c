/* Modes and templates, with whole workers: what contradicts itself does not start and says where; what a task locks is
 * made of its arguments; what cannot be made of them, or belongs to another mode, ends in dead and never runs. */
#include "tests/support/test.h"

#include <stdio.h>

#include "tests/support/lock_group.h"
#include "tests/support/one_fleet.h"

#define PARTS "{ class = \"note\"; mode = \"efficiency\"; resource = [\"part:{2.id}\", \"whole:{2.of.0}\"]; }"

static void push(const char *class_name, const char *args, const char *jid, const char *more)
{
    fleet_push(&fleet, "{\"class\":\"%s\",\"args\":%s,\"jid\":\"%s\"%s}", class_name, args, jid, more);
}

static void work_until_drained(const char *classes)
{
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.classes = classes, .arguments = "--drain"});
    assert_int_equal(fleet_wait(&fleet, worker), 0);
}

/* The only task in dead is this one, with this class of error and this reason; and nothing has run. */
static void assert_dead(const char *jid, const char *error_class, const char *reason)
{
    char part[128];
    assert_int_equal(fleet_number(&fleet, "ZCARD dead"), 1);
    char *entry = fleet_ask(&fleet, "ZRANGE dead 0 -1");
    snprintf(part, sizeof part, "\"jid\":\"%s\"", jid);
    assert_contains(entry, part);
    snprintf(part, sizeof part, "\"error_class\":\"%s\"", error_class);
    assert_contains(entry, part);
    assert_contains(entry, reason);
    free(entry);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), 0);
}

/* --- starting ----------------------------------------------------------------------------------------------------- */

TEST(what_contradicts_itself_does_not_start_and_says_where)
{
    static const struct {
        const char *classes, *lock, *error;
    } cases[] = {
        {"{ class = \"note\"; mode = \"correctness\"; fence = \"no\"; }", NULL,
         ": the class note has the mode correctness and no fencing tokens"},
        {"{ class = \"note\"; mode = \"correctness\"; }", "fence = false;",
         ": the class note has the mode correctness and no fencing tokens"},
        {"{ class = \"note\"; mode = \"correctness\"; on_no_quorum = \"open\"; }", NULL,
         ": on_no_quorum = \"open\": the class note has the mode correctness"},
        {"{ class = \"note\"; mode = \"correctness\"; on_conflict = \"skip\"; }", NULL,
         ": on_conflict = \"skip\": the class note has the mode correctness"},
        {"{ class = \"note\"; hold_at_least = \"1s\"; }", NULL,
         ": hold_at_least: the class note has the mode correctness"},
        {"{ class = \"note\"; resource = \"r:{0\"; }", NULL,
         ": resource: byte 3 of \"r:{0\": this brace is not closed"},
        {"{ class = \"note\"; mode = \"efficiency\"; resource = \"r:{0}\"; },\n"
         "{ class = \"careful\"; mode = \"correctness\"; resource = \"r:{1}\"; }",
         NULL, " in mode efficiency, and the class careful has \"r:{1}\" in mode correctness (/tmp/"},
    };
    push("note", "[]", "waits", "");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.classes = cases[i].classes, .lock = cases[i].lock});
        assert_int_equal(fleet_wait(&fleet, worker), 1);
        char *log = fleet_log(&fleet, worker);
        assert_contains(log, cases[i].error);
        assert_contains(log, ".conf:");
        free(log);
    }
    assert_int_equal(fleet_number(&fleet, "LLEN queue:jobs"), 1);
}

/* Its class is left out; the worker serves the others. */
TEST(correctness_is_not_to_be_had_from_one_node)
{
    char nodes[128];
    struct redis_server *alone = redis_server_start(NULL); /* those of the fleet are of a group */
    snprintf(nodes, sizeof nodes, "{ host = \"127.0.0.1\"; port = %u; }", redis_server_port(alone));
    struct fleet_setup setup = {.lock_nodes = nodes, .classes = "{ class = \"note\"; mode = \"correctness\"; }"};
    unsigned worker = fleet_work(&fleet, &setup);
    push("careful", "[0]", "other", "");
    test_await(fleet_noted(&fleet, "end other") == 1);
    assert_true(fleet_logged(&fleet, worker,
                             "does not serve the class note: its mode is correctness, which needs at least 3 "
                             "lock_nodes, and there are 1"));
    one_fleet_stop(worker);
    redis_server_destroy(alone);
}

static unsigned reloaded(const struct fleet_setup *before, const struct fleet_setup *after)
{
    unsigned worker = fleet_work(&fleet, before);
    test_await(fleet_logged(&fleet, worker, "worker_started"));
    fleet_configure(&fleet, worker, after);
    fleet_signal(&fleet, worker, SIGHUP);
    test_await(fleet_logged(&fleet, worker, " reloaded "));
    return worker;
}

/* A new list of lock nodes waits for a restart, so it decides nothing before. */
TEST(a_reload_goes_by_the_lock_nodes_that_run)
{
    char nodes[128];
    struct redis_server *alone = redis_server_start(NULL);
    snprintf(nodes, sizeof nodes, "{ host = \"127.0.0.1\"; port = %u; }", redis_server_port(alone));
    struct fleet_setup many = {.classes = "{ class = \"note\"; mode = \"correctness\"; }"}, one = many;
    one.lock_nodes = nodes;
    unsigned worker = reloaded(&many, &one);
    assert_false(fleet_logged(&fleet, worker, "does not serve the class note"));
    one_fleet_stop(worker);
    worker = reloaded(&one, &many);
    push("note", "[0]", "unserved", "");
    test_await(fleet_logged(&fleet, worker, "class_unserved class=note"));
    redis_server_destroy(alone);
}

TEST(a_class_that_was_left_out_is_served_after_a_reload_that_gives_it_another_mode)
{
    char nodes[128];
    struct redis_server *alone = redis_server_start(NULL);
    snprintf(nodes, sizeof nodes, "{ host = \"127.0.0.1\"; port = %u; }", redis_server_port(alone));
    struct fleet_setup careful = {.lock_nodes = nodes, .classes = "{ class = \"note\"; mode = \"correctness\"; }"};
    struct fleet_setup quick = {.lock_nodes = nodes, .classes = "{ class = \"note\"; mode = \"efficiency\"; }"};
    (void)reloaded(&careful, &quick);
    push("note", "[0]", "served", "");
    test_await(fleet_noted(&fleet, "end served") == 1);
    redis_server_destroy(alone);
}

TEST(a_reload_into_a_contradiction_changes_nothing)
{
    struct fleet_setup setup = {.classes = "{ class = \"note\"; resource = \"part:{1}\"; }"};
    unsigned worker = fleet_work(&fleet, &setup);
    test_await(fleet_logged(&fleet, worker, "node_up node=queue "));
    setup.classes = "{ class = \"note\"; resource = \"part:{1\"; }";
    fleet_configure(&fleet, worker, &setup);
    fleet_signal(&fleet, worker, SIGHUP);
    test_await(fleet_logged(&fleet, worker, "reload_refused"));
    push("note", "[0,\"x\"]", "after", "");
    test_await(fleet_noted(&fleet, "end after") == 1);
    setup.classes = "{ class = \"note\"; resource = \"part:{5}\"; }";
    fleet_configure(&fleet, worker, &setup);
    fleet_signal(&fleet, worker, SIGHUP);
    test_await(fleet_logged(&fleet, worker, " reloaded changed=1 "));
    push("note", "[0,\"x\"]", "late", "");
    test_await(fleet_number(&fleet, "ZCARD dead") == 1);
    one_fleet_stop(worker);
}

TEST(a_hold_above_what_keys_may_live_is_refused)
{
    lock_group_make(fleet.locks.servers, fleet.locks.count, 2000);
    push("note", "[]", "waits", "");
    unsigned worker = fleet_work(
        &fleet,
        &(struct fleet_setup){.lock = "ttl = \"2s\"; prefix = \"lock:\";",
                              .classes = "{ class = \"note\"; mode = \"efficiency\"; hold_at_least = \"3s\"; }"});
    assert_int_equal(fleet_wait(&fleet, worker), 1);
    assert_true(fleet_logged(&fleet, worker, "hold_at_least_too_long reason="));
    assert_true(fleet_logged(
        &fleet, worker, "hold_at_least of the class note: is above the max_ttl of the lock group, which is 2000 ms"));
    assert_int_equal(fleet_number(&fleet, "LLEN queue:jobs"), 1);
}

/* --- what is locked ----------------------------------------------------------------------------------------------- */

/* The lock nodes hold these keys while it runs. */
TEST(what_is_locked_is_made_of_the_arguments)
{
    push("note", "[600000,\"x\",{\"id\":12345678901234567890,\"of\":[\"caf\\u00e9\"]}]", "long", "");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.classes = PARTS});
    test_await(fleet_noted(&fleet, "begin long") == 1);
    test_await(lock_cluster_holders(&fleet.locks, "lock:part:12345678901234567890") >= 2);
    test_await(lock_cluster_holders(&fleet.locks, "lock:whole:caf\xc3\xa9") >= 2);
    one_fleet_kill(worker);
}

TEST(two_tasks_of_the_same_arguments_do_not_run_at_once)
{
    for (unsigned i = 0; i < 6; i++) {
        char jid[16];
        snprintf(jid, sizeof jid, "t%u", i);
        push("note", "[20,\"x\"]", jid, "");
    }
    work_until_drained("{ class = \"note\"; resource = \"part:{1}\"; }");
    assert_int_equal(fleet_noted_all(&fleet, "end "), 6);
    assert_int_equal(fleet_noted_all(&fleet, "clash "), 0);
}

TEST(a_required_lock_is_satisfied_by_a_template)
{
    push("guarded", "[0,\"x\"]", "made", "");
    work_until_drained("{ class = \"guarded\"; resource = \"part:{1}\"; }");
    assert_int_equal(fleet_noted(&fleet, "end made"), 1);
}

/* --- what is not run ---------------------------------------------------------------------------------------------- */

TEST(arguments_that_do_not_fill_a_template_are_buried)
{
    push("note", "[0,\"x\",{\"id\":1.5,\"of\":[1]}]", "half", "");
    work_until_drained(PARTS);
    assert_dead("half", "HF::BadResource", "the resource \\\"part:{2.id}\\\": {2.id} is no whole number (1.5)");
}

TEST(a_class_that_needs_a_lock_and_has_nothing_to_lock_is_buried)
{
    push("note", "[]", "bare", "");
    work_until_drained("{ class = \"note\"; lock = \"required\"; }");
    assert_dead("bare", "HF::NoResource", "the class note needs a lock");
}

TEST(a_resource_of_another_mode_is_buried)
{
    push("careful", "[]", "stray", ",\"resource\":\"part:7\"");
    work_until_drained(PARTS);
    assert_dead("stray", "HF::ResourceMode",
                "a resource that begins with \\\"part:\\\" belongs to the mode efficiency");
}

TEST(a_class_that_locks_nothing_runs_whatever_it_names)
{
    push("careful", "[]", "free", ",\"resource\":\"part:7\"");
    work_until_drained(PARTS ", { class = \"careful\"; mode = \"none\"; resource = \"part:{9}\"; }");
    assert_int_equal(fleet_noted(&fleet, "end free"), 1);
    assert_int_equal(fleet_number(&fleet, "ZCARD dead"), 0);
}

RUN_FLEET_TESTS
