/* Handlers whose lock is in danger, or lost: what they are told, in which order, and what becomes of their tasks. The
 * journal tells the order across processes, because each line is appended at once. */
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "jobs/job.h"
#include "tests/support/lock_group.h"
#include "tests/support/one_fleet.h"

/* Clocks may differ by a tenth: so the holder believes for a tenth of the ttl less than the nodes keep the lock. */
#define WITH_TTL(ttl) "ttl = \"" ttl "\"; drift_factor = 0.1; prefix = \"lock:\"; tries = 3; park_delay = \"50ms\"; "
#define SHORT         WITH_TTL("6s")
/* For ever, and longer than any test; listening to a cancellation, or deaf to it. */
#define LISTENING "[600000,1,0]"

static unsigned start(const struct fleet_setup *changes)
{
    struct fleet_setup setup = changes != NULL ? *changes : (struct fleet_setup){.threads = 0};
    setup.plugin = setup.plugin != NULL ? setup.plugin : "holder";
    setup.lock_node = setup.lock_node == NULL && setup.lock == NULL ? "timeout = \"1500ms\";" : setup.lock_node;
    setup.lock = setup.lock != NULL ? setup.lock : SHORT;
    return fleet_work(&fleet, &setup);
}

static void push(const char *class_name, const char *args, const char *jid, const char *resource)
{
    fleet_push(&fleet, "{\"class\":\"%s\",\"args\":%s,\"jid\":\"%s\",\"resource\":\"%s\"}", class_name, args, jid,
               resource);
}

/* A worker of another queue, so that it is known who runs what. */
static unsigned start_other(void)
{
    return start(&(struct fleet_setup){.queues = "\"other\""});
}

static void push_other(const char *args, const char *jid, const char *resource)
{
    free(fleet_ask(&fleet, "LPUSH queue:other '{\"class\":\"hold\",\"args\":%s,\"jid\":\"%s\",\"resource\":\"%s\"}'",
                   args, jid, resource));
}

static bool is_noted(const char *start_of_line)
{
    return fleet_noted_all(&fleet, start_of_line) > 0;
}

/* Where the first line that begins so stands in the journal. */
static const char *place_of(const char *journal, const char *line)
{
    size_t length = strlen(line);
    for (const char *at = journal; *at != '\0'; at = strchr(at, '\n') + 1)
        if (strncmp(at, line, length) == 0)
            return at;
    fail_msg("\"%s\" is not in the journal: %s", line, journal);
    return NULL;
}

static void assert_order(const char *first, const char *then)
{
    char *journal = fleet_journal(&fleet);
    if (place_of(journal, first) > place_of(journal, then))
        fail_msg("\"%s\" came before \"%s\": %s", then, first, journal);
    free(journal);
}

static uint64_t token_of(const char *begin)
{
    char *journal = fleet_journal(&fleet);
    const char *at = place_of(journal, begin);
    uint64_t token = strtoull(at + strlen(begin), NULL, 10);
    free(journal);
    return token;
}

/* As somebody might who takes it for a leftover. Some get it after the majority that decided. Once a majority has it no
 * more, the worker may release the rest before they are asked. */
static void lock_delete(const char *key, unsigned nodes)
{
    for (unsigned i = 0; i < nodes; i++)
        test_await(strcmp(lock_cluster_ask(&fleet.locks, i, "EXISTS %s", key), "1") == 0);
    for (unsigned i = 0; i < nodes; i++)
        lock_cluster_ask(&fleet.locks, i, "DEL %s", key);
}

/* The task is in that set, with the reason. */
static void assert_record(const char *set, const char *jid, const char *reason)
{
    test_await(fleet_number(&fleet, "ZCARD %s", set) == 1);
    char *entry = fleet_ask(&fleet, "ZRANGE %s 0 -1", set);
    assert_contains(entry, jid);
    assert_contains(entry, "\"error_class\":\"HF::LockLost\"");
    assert_contains(entry, reason);
    assert_contains(entry, "\"hf_fence\":\"");
    free(entry);
}

static char *entry_of(const char *set)
{
    return fleet_ask(&fleet, "ZRANGE %s 0 -1", set);
}

/* --- how a lock is lost ------------------------------------------------------------------------------------------- */

/* Nothing of the worker moves while its loop sleeps, but the handler sees both ends come, and only then somebody else
 * gets the lock: a third of a second later, so that a busy machine does not swap the two. */
TEST(a_stuck_loop_keeps_no_lock_alive)
{
    start(&(struct fleet_setup){.lock = WITH_TTL("3s"), .fault = "extend:before:1:pause=7000"});
    push("hold", LISTENING, "first", "r");
    test_await(is_noted("begin first host0"));
    start_other();
    push_other("[0,1,0]", "second", "r");
    test_await(is_noted("begin second host1"));
    assert_order("danger first host0", "readable first host0");
    assert_order("readable first host0", "lost first host0 1 0");
    assert_order("lost first host0 1 0", "begin second host1");
    assert_true(token_of("begin second host1") > token_of("begin first host0"));
    assert_record("retry", "first", "so its result was refused: it could not be extended in time");
    char *entry = entry_of("retry");
    assert_lacks(entry, "retry_count"); /* it was the lock that failed, not the task */
    free(entry);
}

/* --- the longest hold --------------------------------------------------------------------------------------------- */

#define HOLD_6S "{ class = \"hold\"; max_hold = \"6s\"; }"

/* It is extended, so nothing else ends it. */
TEST(a_lock_is_held_for_as_long_as_its_class_may)
{
    unsigned worker = start(&(struct fleet_setup){.classes = HOLD_6S});
    push("hold", LISTENING, "long", "r");
    push("verify", LISTENING, "other", "s");
    test_await(is_noted("lost long host0 5 0"));
    assert_int_equal(HF_HELD_TOO_LONG, 5);
    assert_order("danger long host0", "lost long host0");
    test_await(fleet_logged(&fleet, worker, "lock_in_danger "));
    assert_record("retry", "long", "it was held for as long as its class may (max_hold)");
    char *entry = entry_of("retry");
    assert_contains(entry, "\"retry_count\":0"); /* this is the task's own failure */
    free(entry);
    test_await(fleet_logged(&fleet, worker, "task_ended ending=failed jid=long"));
    assert_int_equal(fleet_noted_all(&fleet, "lost other"), 0);
}

TEST(a_task_that_holds_too_long_too_often_is_buried)
{
    start(&(struct fleet_setup){.lock = SHORT "max_hold = \"6s\";"});
    fleet_push(&fleet, "{\"class\":\"hold\",\"args\":" LISTENING ",\"jid\":\"long\",\"resource\":\"r\",\"retry\":0}");
    test_await(is_noted("lost long host0 5 0"));
    assert_record("dead", "long", "max_hold");
}

/* --- verify ------------------------------------------------------------------------------------------------------- */

TEST(verify_finds_out_that_the_lock_is_gone)
{
    start(&(struct fleet_setup){.lock = "prefix = \"lock:\"; ttl = \"60s\";"}); /* nothing else would, for 20 s */
    push("verify", LISTENING, "first", "r");
    test_await(is_noted("verified first host0 1"));
    lock_delete("lock:r", 2);
    test_await(is_noted("verified first host0 0"));
    test_await(is_noted("lost first host0 1 0"));
    assert_record("retry", "first", "a majority of the lock nodes had it no more");
}

/* It asks on and on while its process ends around it. */
TEST(a_handler_that_asks_for_ever_is_abandoned_like_any_other)
{
    unsigned worker = start(&(struct fleet_setup){.worker = "stop_timeout = \"100ms\";"});
    push("verify", "[600000,0,0]", "deaf", "r");
    test_await(is_noted("verified deaf host0 1"));
    fleet_signal(&fleet, worker, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, worker), 1);
    test_await(fleet_logged(&fleet, worker, "handlers_abandoned count=1"));
    assert_int_equal(fleet_number(&fleet, "LLEN queue:jobs"), 1);
}

/* --- tokens ------------------------------------------------------------------------------------------------------- */

TEST(all_resources_of_a_task_have_its_token)
{
    char line[128];
    start(NULL);
    fleet_push(&fleet, "{\"class\":\"hold\",\"args\":[0,1,0],\"jid\":\"two\",\"resource\":[\"a\",\"b\"]}");
    test_await(is_noted("end two"));
    uint64_t token = token_of("begin two host0");
    snprintf(line, sizeof line, "fences two host0 %" PRIu64 "|%" PRIu64 "||", token, token);
    assert_int_equal(fleet_noted(&fleet, line), 1);
}

TEST(a_class_may_do_without_tokens)
{
    start(&(struct fleet_setup){.classes = "{ class = \"hold\"; fence = \"no\"; }"});
    push("hold", "[0,1,0]", "none", "r");
    push("verify", "[0,1,0]", "some", "r");
    test_await(is_noted("end none") && is_noted("end some"));
    assert_int_equal(fleet_noted(&fleet, "begin none host0"), 1);
    assert_true(token_of("begin some host0") > 0);
    assert_int_equal(fleet_number(&fleet, "ZCARD retry"), 0);
}

/* By any process, of a task that it runs. */
static bool is_shown(const char *text)
{
    char *shown = fleet_ask(&fleet, "EVAL \"local all = '' for _, key in ipairs(redis.call('KEYS', '*:work')) do "
                                    "all = all .. table.concat(redis.call('HVALS', key)) end return all\" 0");
    bool found = strstr(shown, text) != NULL;
    free(shown);
    return found;
}

/* The log, and what the process shows of what it runs. */
TEST(the_token_of_a_running_task_is_told)
{
    char text[256];
    unsigned worker = start(&(struct fleet_setup){.worker = "log_level = \"debug\";"});
    push("hold", LISTENING, "first", "r");
    test_await(is_noted("begin first host0"));
    uint64_t token = token_of("begin first host0");
    snprintf(text, sizeof text, "task_started jid=first class=hold queue=jobs slot=0 fence=%" PRIu64 " locked=", token);
    test_await(fleet_logged(&fleet, worker, text));
    snprintf(text, sizeof text, "\"hf_fence\":\"%" PRIu64 "\"", token);
    test_await(is_shown(text));
    lock_delete("lock:r", 3);
    test_await(fleet_logged(&fleet, worker, "warn task_ended ending=lock_lost jid=first"));
    snprintf(text, sizeof text, " fence=%" PRIu64, token);
    char *log = fleet_log(&fleet, worker), *ended = strstr(log, "task_ended ending=lock_lost jid=first");
    *strchr(ended, '\n') = '\0';
    assert_contains(ended, text);
    assert_contains(ended, " lost=yes ");
    free(log);
    assert_record("retry", "first", text + strlen(" fence="));
}

/* --- where the task goes ------------------------------------------------------------------------------------------ */

TEST(a_class_may_have_its_tasks_back_in_their_queue)
{
    unsigned worker = start(&(struct fleet_setup){.classes = "{ class = \"hold\"; on_lost = \"requeue\"; }"});
    push("hold", LISTENING, "again", "r");
    test_await(fleet_noted_all(&fleet, "begin again") == 1);
    lock_delete("lock:r", 3);
    while (fleet_noted_all(&fleet, "begin again") < 2) /* and it is nowhere else meanwhile */
        assert_int_equal(fleet_number(&fleet, "ZCARD retry") + fleet_number(&fleet, "ZCARD dead"), 0);
    test_await(fleet_logged(&fleet, worker, "task_ended ending=lock_lost jid=again"));
}

TEST(a_class_may_have_its_tasks_looked_at)
{
    unsigned worker = start(&(struct fleet_setup){.classes = "{ class = \"hold\"; on_lost = \"dead\"; }"});
    push("hold", LISTENING, "grave", "r");
    test_await(is_noted("begin grave"));
    lock_delete("lock:r", 3);
    assert_record("dead", "grave", "a majority of the lock nodes had it no more");
    assert_int_equal(fleet_number(&fleet, "ZCARD retry"), 0);
    test_await(fleet_logged(&fleet, worker, "task_ended ending=dead jid=grave"));
}

/* --- the resource afterwards -------------------------------------------------------------------------------------- */

/* What a handler waits for after a loss, when its third argument says so. */
static void first_may_go_on(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/journal.go", fleet.directory);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fclose(file);
}

/* In its own process it is occupied until the old handler has returned, although no lock node has it any more. */
TEST(the_resource_stays_occupied_until_the_handler_has_returned)
{
    unsigned worker = start(&(struct fleet_setup){.worker = "log_level = \"debug\";"});
    push("hold", "[600000,1,600000]", "first", "r");
    test_await(is_noted("begin first host0"));
    lock_delete("lock:r", 3);
    test_await(is_noted("lost first host0 1 0"));
    push("hold", "[0,1,0]", "second", "r");
    push("hold", "[0,1,0]", "elsewhere", "s");
    test_await(fleet_logged(&fleet, worker, "task_ended ending=parked jid=second"));
    test_await(is_noted("end elsewhere host0"));
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:r"), 0);
    assert_int_equal(fleet_noted_all(&fleet, "begin second"), 0);
    first_may_go_on();
    test_await(is_noted("end second host0"));
    assert_order("end first host0", "begin second host0");
    assert_record("retry", "first", "HF::LockLost");
}

/* --- lock nodes that are not what the configuration takes them for ------------------------------------------------ */

TEST(lock_nodes_that_are_no_group_are_refused)
{
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "FLUSHALL");
    push("hold", "[0,1,0]", "first", "r");
    unsigned worker = start(NULL);
    assert_int_equal(fleet_wait(&fleet, worker), 1);
    test_await(fleet_logged(&fleet, worker, "lock_group_missing nodes=3 blank=3 advice="));
    test_await(fleet_logged(&fleet, worker, "holdfast nodes init"));
    assert_int_equal(fleet_number(&fleet, "LLEN queue:jobs"), 1);
}

TEST(a_ttl_above_that_of_the_group_is_refused)
{
    lock_group_make(fleet.locks.servers, fleet.locks.count, 900);
    push("hold", "[0,1,0]", "first", "r");
    unsigned worker = start(NULL);
    assert_int_equal(fleet_wait(&fleet, worker), 1);
    test_await(fleet_logged(&fleet, worker, "lock_ttl_too_long ttl_ms=6000 max_ttl_ms=900"));
    assert_int_equal(fleet_number(&fleet, "LLEN queue:jobs"), 1);

    struct fleet_setup fitting = {
        .plugin = "holder", .lock = "ttl = \"900ms\"; prefix = \"lock:\";", .lock_node = "timeout = \"200ms\";"};
    worker = start(&fitting);
    test_await(is_noted("end first"));
    fitting.lock = "ttl = \"901ms\"; prefix = \"lock:\";";
    fleet_configure(&fleet, worker, &fitting);
    fleet_signal(&fleet, worker, SIGHUP);
    test_await(fleet_logged(&fleet, worker, "reload_refused"));
    test_await(fleet_logged(&fleet, worker, "is above the max_ttl of the lock group, which is 900 ms"));
}

RUN_FLEET_TESTS
