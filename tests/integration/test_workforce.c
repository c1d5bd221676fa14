/* The worker processes of a dry run, on real nodes: what they say adds up, nobody else is disturbed, and what is done
 * to them is seen. */
#include "tests/support/test.h"

#include <stdio.h>
#include <sys/prctl.h>

#include "base/memory.h"
#include "tests/support/dry_config_fixture.h"

enum { LOCK_NODES = 5, TASKS = 200, RESOURCES = 5, SEEN_MAX = 20000, LINES_MAX = 200, RESOURCE_TEXT = 32 };

/* What was told: tasks and what the overlap detector saw. */
struct seen {
    enum record_kind kind;
    unsigned process;
    char jid[LOAD_JID_DIGITS + 1];
    char resource[RESOURCE_TEXT];
    struct instant at;
    uint64_t token;
    bool failed;
    enum flow_ending ending;
};

static struct {
    struct seen items[SEEN_MAX];
    unsigned count, looks, ended, exits;
    struct workforce_exit exit[DRY_RUN_PROCESSES_MAX + 1]; /* by number */
    char lines[LINES_MAX][512];
    unsigned line_count;
} told;

/* --- life --------------------------------------------------------------------------------------------------------- */

static int group_set_up(void **state)
{
    (void)state;
    dry_nodes_start(LOCK_NODES);
    return 0;
}

static int group_tear_down(void **state)
{
    (void)state;
    dry_nodes_stop();
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    memset(&told, 0, sizeof told);
    plan_begin(2, 4, RESOURCES, (struct distribution){.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = 0.002});
    plan.for_ns = 60 * NS_PER_S;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    plan_end();
    redis_server_heal(queue_node);
    lock_cluster_heal(&locks);
    return 0;
}

static void work_begin(unsigned tasks)
{
    workforce_make();
    push(tasks);
    workforce_go(workforce);
}

/* --- what they say ------------------------------------------------------------------------------------------------ */

static void take(void *context, unsigned number, const struct record *record)
{
    (void)context;
    assert_in_range(number, 1, plan.processes);
    if (record->kind == RECORD_PROCESS) {
        told.looks++;
        assert_int_equal(record->process.runners, plan.threads);
        assert_int_equal(record->process.node_count, LOCK_NODES);
        return;
    }
    assert_true(told.count < SEEN_MAX);
    struct seen *seen = &told.items[told.count++];
    bool is_task = record->kind == RECORD_TASK;
    const struct handler_event *event = &record->event;
    const struct observed_task *task = &record->task;
    *seen = (struct seen){.kind = record->kind, .process = number};
    snprintf(seen->jid, sizeof seen->jid, "%s", is_task ? task->jid : event->jid);
    assert_int_equal(is_task ? task->resource_count : event->resource_count, 1);
    snprintf(seen->resource, sizeof seen->resource, "%s", is_task ? task->resources[0] : event->resources[0]);
    seen->at = is_task ? task->left : event->at;
    seen->token = is_task ? 0 : event->token;
    seen->failed = !is_task && event->failed;
    seen->ending = is_task ? task->ending : FLOW_ENDINGS;
    told.ended += is_task && (task->ending == FLOW_DONE || task->ending == FLOW_FAILED);
}

static void line_take(void *context, unsigned number, const char *text)
{
    (void)context;
    if (told.line_count < LINES_MAX)
        snprintf(told.lines[told.line_count++], sizeof told.lines[0], "%u: %s", number, text);
}

static void exit_take(void *context, const struct workforce_exit *end)
{
    (void)context;
    told.exits++;
    told.exit[end->number] = *end;
}

/* What a coordinator does every few milliseconds. */
static bool look(void)
{
    workforce_read(workforce, 1000, take, NULL);
    workforce_reap(workforce, exit_take, NULL);
    workforce_read_log(workforce, line_take, NULL);
    return true;
}

static void all_ended_await(void)
{
    test_await(look() && workforce_alive(workforce) == 0);
    while (workforce_read(workforce, 1000, take, NULL) > 0)
        continue;
    workforce_read_log(workforce, line_take, NULL);
}

static bool has_line(const char *part)
{
    for (unsigned i = 0; i < told.line_count; i++)
        if (strstr(told.lines[i], part) != NULL)
            return true;
    return false;
}

static unsigned count_of(enum record_kind kind, const char *jid)
{
    unsigned count = 0;
    for (unsigned i = 0; i < told.count; i++)
        count += told.items[i].kind == kind && strcmp(told.items[i].jid, jid) == 0 &&
                 (kind != RECORD_TASK || told.items[i].ending == FLOW_DONE);
    return count;
}

static int compare_times(const void *a, const void *b)
{
    const struct seen *left = a, *right = b;
    return left->at.ns < right->at.ns ? -1 : left->at.ns > right->at.ns;
}

/* In the order of time a resource is entered and left in changeover, with ever larger tokens. */
static void overlaps_check(void)
{
    struct {
        char name[RESOURCE_TEXT];
        bool is_held;
        uint64_t token;
    } all[RESOURCES] = {0};
    qsort(told.items, told.count, sizeof told.items[0], compare_times);
    for (unsigned i = 0; i < told.count; i++) {
        const struct seen *seen = &told.items[i];
        unsigned r = 0;
        if (seen->kind != RECORD_ENTER && seen->kind != RECORD_LEAVE)
            continue;
        while (all[r].name[0] != '\0' && strcmp(all[r].name, seen->resource) != 0)
            assert_true(++r < RESOURCES);
        snprintf(all[r].name, sizeof all[r].name, "%s", seen->resource);
        assert_int_equal(all[r].is_held, seen->kind == RECORD_LEAVE);
        assert_true(seen->kind == RECORD_LEAVE ? seen->token == all[r].token : seen->token > all[r].token);
        all[r].is_held = seen->kind == RECORD_ENTER;
        all[r].token = seen->token;
    }
}

/* --- what is the others' ------------------------------------------------------------------------------------------ */

/* Every key outside of the run, with what is in it. */
static void others_write(struct redis_server *server, struct buffer *out)
{
    char *keys = redis_server_command(server,
                                      "EVAL 'local keys = redis.call(\"KEYS\", \"*\") table.sort(keys) return keys' 0"),
         *rest = keys, *key;
    buffer_clear(out);
    while ((key = strsep(&rest, "\n")) != NULL) {
        if (key[0] == '\0' || strncmp(key, space, strlen(space)) == 0 || strstr(key, "dry:00112233aabb:") != NULL ||
            strcmp(key, "hf:fences") == 0) /* which all use */
            continue;
        char *digest =
            redis_server_command(server, "EVAL 'return redis.sha1hex(redis.call(\"DUMP\", KEYS[1]))' 1 %s", key);
        char *ttl = redis_server_command(server, "PEXPIRETIME %s", key);
        buffer_format(out, "%s %s %s\n", key, digest, ttl);
        free(digest);
        free(ttl);
    }
    free(keys);
}

static void others_make(void)
{
    free(redis_server_command(queue_node, "LPUSH queue:default '{\"class\":\"dry.hold\",\"jid\":\"real\"}'"));
    free(redis_server_command(queue_node, "SADD queues default"));
    free(redis_server_command(queue_node, "ZADD schedule 1 '{\"class\":\"dry.hold\",\"jid\":\"due\"}'"));
    free(redis_server_command(queue_node, "ZADD retry 1 '{\"class\":\"dry.hold\",\"jid\":\"again\"}'"));
    free(redis_server_command(queue_node, "HSET hf:2:locks:x a b"));
    for (unsigned i = 0; i < LOCK_NODES; i++) {
        free(redis_server_command(locks.servers[i], "SET r0 somebody PX 600000"));
        free(redis_server_command(locks.servers[i], "ZADD hf:fences 5 r0"));
    }
}

TEST(each_task_is_told_once_and_nobody_else_is_touched)
{
    struct buffer before[1 + LOCK_NODES] = {0}, after = {0};
    config_make();
    config->lock.is_guest = true; /* of the fleet whose keys are compared */
    others_make();
    for (unsigned i = 0; i <= LOCK_NODES; i++)
        others_write(i == 0 ? queue_node : locks.servers[i - 1], &before[i]);
    workforce_make();
    push(TASKS);
    test_await(workforce_ready(workforce) == 2);
    workforce_go(workforce);
    test_await(look() && told.ended == TASKS && told.looks >= 4);
    assert_int_equal(workforce_serving(workforce), 2);
    workforce_stop(workforce);
    all_ended_await();
    for (unsigned i = 0; i <= LOCK_NODES; i++) {
        others_write(i == 0 ? queue_node : locks.servers[i - 1], &after);
        assert_string_equal(buffer_text(&after), buffer_text(&before[i]));
        buffer_fini(&before[i]);
    }
    for (unsigned i = 0; i < LOCK_NODES; i++) {
        char *fence = redis_server_command(locks.servers[i], "ZSCORE hf:fences r0");
        assert_string_equal(fence, "5");
        free(fence);
    }
    buffer_fini(&after);

    assert_int_equal(told.ended, TASKS);
    assert_int_equal(workforce_records_lost(workforce), 0);
    for (unsigned i = 0; i < told.count; i++)
        for (enum record_kind kind = RECORD_TASK; kind <= RECORD_LEAVE; kind++)
            assert_int_equal(count_of(kind, told.items[i].jid), kind != RECORD_PROCESS);
    overlaps_check();
    for (unsigned number = 1; number <= 2; number++) {
        assert_true(told.exit[number].was_orderly && told.exit[number].was_wanted && !told.exit[number].was_killed);
    }
    for (unsigned i = 0; i < told.line_count; i++)
        fail_msg("%s", told.lines[i]);
}

TEST(a_killed_worker_is_seen_and_the_other_goes_on)
{
    config_make();
    config->lock.ttl_ns = 2 * NS_PER_S; /* so long the other waits for what it had locked */
    work_begin(TASKS);
    test_await(look() && told.ended >= 20);
    assert_true(workforce_signal(workforce, 2, SIGKILL));
    test_await(look() && told.exits == 1);
    const struct workforce_exit *end = &told.exit[2];
    assert_int_equal(end->number, 2);
    assert_true(end->was_killed && end->was_wanted && !end->was_orderly);
    assert_true(WIFSIGNALED(end->wait_status) && WTERMSIG(end->wait_status) == SIGKILL);
    assert_int_equal(workforce_pid(workforce, 2), 0);
    assert_int_equal(workforce_alive(workforce), 1);
    assert_false(workforce_signal(workforce, 2, SIGKILL));
    assert_false(workforce_signal(workforce, 2, SIGSTOP));
    unsigned before = told.ended;
    test_await(look() && told.ended > before + 20);
    workforce_stop(workforce);
    all_ended_await();
    assert_true(told.exit[1].was_orderly && !told.exit[1].was_killed);
    assert_int_equal(workforce_records_lost(workforce), 0);
}

/* Not by us: somebody else's kill, or a crash. Its zygote tells. */
TEST(a_worker_that_dies_by_itself_is_a_fault)
{
    work_begin(0);
    test_await(look() && workforce_serving(workforce) == 2);
    assert_int_equal(kill(workforce_pid(workforce, 1), SIGKILL), 0);
    test_await(look() && told.exits == 1);
    assert_false(told.exit[1].was_wanted || told.exit[1].was_orderly || told.exit[1].was_killed);
    test_await(look() && has_line("1: "));
}

TEST(a_frozen_worker_says_nothing_until_it_is_thawed)
{
    plan.processes = 1;
    work_begin(20);
    test_await(look() && told.ended == 20);
    assert_true(workforce_signal(workforce, 1, SIGSTOP));
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)workforce_pid(workforce, 1), &info, WSTOPPED | WNOWAIT), 0);
    look();
    unsigned looks = told.looks;
    push(20);
    poll(NULL, 0, 700); /* longer than between two looks of a worker */
    look();
    assert_int_equal(told.ended, 20);
    assert_int_equal(told.looks, looks);
    assert_true(workforce_signal(workforce, 1, SIGCONT));
    test_await(look() && told.ended == 40);
    workforce_signal(workforce, 1, SIGSTOP);
    workforce_stop(workforce); /* also one that is frozen */
    all_ended_await();
    assert_true(told.exit[1].was_orderly);
}

TEST(failures_are_as_the_plan_says)
{
    plan.failures = 0.5;
    work_begin(60);
    test_await(look() && told.ended >= 60);
    workforce_stop(workforce);
    all_ended_await();
    unsigned failed = 0;
    for (unsigned i = 0; i < told.count; i++) {
        const struct seen *seen = &told.items[i];
        if (seen->kind == RECORD_LEAVE) {
            assert_int_equal(seen->failed, load_fails(&plan, seen->jid, 0));
            failed += seen->failed;
        }
    }
    assert_in_range(failed, 15, 45);
    char *retry = redis_server_command(queue_node, "ZCARD %sretry", space);
    assert_int_equal(strtoul(retry, NULL, 10), failed);
    free(retry);
}

/* --- before and after --------------------------------------------------------------------------------------------- */

/* A terminal's signals go to a group: that of the caller. */
TEST(who_never_went_is_in_a_group_of_its_own_and_ends_when_told)
{
    workforce_make();
    test_await(workforce_ready(workforce) == 2);
    assert_int_equal(workforce_serving(workforce), 0);
    for (unsigned number = 1; number <= 2; number++)
        assert_int_equal(getpgid(workforce_pid(workforce, number)), workforce_pid(workforce, number));
    workforce_stop(workforce);
    all_ended_await();
    assert_int_equal(told.exits, 2);
    assert_true(told.exit[1].was_wanted && told.exit[2].was_wanted);
}

/* Its own lines say why. */
TEST(a_worker_that_cannot_start_says_why)
{
    config_make();
    config->lock.ttl_ns = 2 * (int64_t)CLUSTER_MAX_TTL_MS * NS_PER_MS; /* more than any may be */
    work_begin(0);
    all_ended_await();
    assert_false(told.exit[1].was_orderly || told.exit[1].was_wanted);
    assert_true(has_line("1: ") && has_line("ttl must be"));
}

/* A signal to read the configuration again must not bring that of production in. */
TEST(a_worker_reads_no_other_configuration)
{
    work_begin(0);
    test_await(look() && workforce_serving(workforce) == 2);
    assert_int_equal(kill(workforce_pid(workforce, 1), SIGHUP), 0);
    test_await(look() && has_line("1: ") && has_line("dry run 00112233aabb"));
    push(10);
    test_await(look() && told.ended == 10);
}

/* The child is what would count; it dies without a word. */
static _Noreturn void caller_run(int out)
{
    workforce_make();
    workforce_go(workforce);
    while (workforce_serving(workforce) < 2)
        poll(NULL, 0, 1);
    pid_t pids[2] = {workforce_pid(workforce, 1), workforce_pid(workforce, 2)};
    if (write(out, pids, sizeof pids) != sizeof pids)
        _exit(1);
    for (;;)
        pause();
}

TEST(all_die_with_the_caller)
{
    int ends[2];
    pid_t pids[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    pid_t caller = fork();
    assert_true(caller >= 0);
    if (caller == 0)
        caller_run(ends[1]);
    assert_int_equal(read(ends[0], pids, sizeof pids), sizeof pids);
    assert_int_equal(kill(caller, SIGKILL), 0);
    assert_int_equal(waitpid(caller, NULL, 0), caller);
    for (unsigned i = 0; i < 2; i++) {
        int status = 0;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    close(ends[0]);
    close(ends[1]);
}

RUN_GROUP(group_set_up, group_tear_down, set_up, tear_down)
