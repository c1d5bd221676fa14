/* What becomes of the tasks of a worker: of those whose lock is held or lost, that take too long, or must not run. */
#include "tests/sim/worker_fixture.h"

/* --- locks that are held ------------------------------------------------------------------------------------------ */

/* What the fleet has counted today. */
static void assert_counted(const char *field, const char *count)
{
    char *wanted = NULL;
    assert_true(asprintf(&wanted, "|%s|$%zu|%s|", field, strlen(count), count) > 0);
    assert_contains(ask(scene.queue, "HGETALL hf:2:locks:20231114"), wanted);
    free(wanted);
}

TEST(what_becomes_of_a_task_whose_lock_is_held)
{
    work(&(struct setting){.threads = 8,
                           .worker = "log_tasks = \"all\";",
                           .classes = "{ class = \"once\"; on_conflict = \"skip\"; mode = \"efficiency\"; }, "
                                      "{ class = \"serial\"; on_conflict = \"delay\"; conflict_delay = \"4s\"; }, "
                                      "{ class = \"progress\"; on_conflict = \"fail\"; }"});
    push("holder", "act", "[900]", ",\"resource\":\"r\"");
    await_told("handler begins holder");
    for (unsigned i = 0; i < NODES; i++)
        ask(scene.nodes[i], "MSET other somebody another somebody");
    push("parked", "act", "[10]", ",\"resource\":\"r\"");
    push("skipped", "once", "[10]", ",\"resource\":\"r\"");
    push("delayed", "serial", "[10]", ",\"resource\":\"r\"");
    push("failed", "progress", "[10]", ",\"resource\":\"r\"");
    push("skipped2", "once", "[10]", ",\"resource\":\"other\"");
    push("failed2", "progress", "[10]", ",\"resource\":\"another\",\"retry\":0");
    run_for(2500 * NS_PER_MS);
    assert_told("ending=parked jid=parked ", "ending=skipped jid=skipped ", "ending=parked jid=delayed ",
                "handler ends parked", "ending=skipped jid=skipped2 ", "ending=dead jid=failed2 ",
                "reason=\"r: another task holds it\" resource=r\n");
    assert_int_equal(told_times("handler begins delayed"), 0);
    assert_contains(ask(scene.queue, "ZRANGE schedule 0 -1"), "\"jid\":\"delayed\",");
    assert_contains(ask(scene.queue, "ZRANGE schedule 0 -1"), "\"hf_parked\":17");
    assert_int_equal(told_times("reason=\"r: held by"), 0); /* it knows that without asking the lock nodes */
    run_for(6 * NS_PER_S);
    assert_told("handler begins delayed", " handed_from=holder ",
                "handler begins parked from nothing, try 0 at seat 0 of r for 1900 ms");
    assert_counted("act|r|acquired", "2");
    assert_counted("act|r|waited", "1");
    assert_counted("act|r|parked", "1");
    assert_counted("act|r|handed_over", "1");
    assert_counted("once|r|skipped", "1");
    assert_counted("serial|r|parked", "1");
    assert_contains(ask(scene.queue, "ZRANGE retry 0 -1"), "\"jid\":\"failed\",");
    assert_contains(ask(scene.queue, "ZRANGE retry 0 -1"), "\"error_class\":\"HF::LockRefused\",");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

/* The worker looks for it then; its usual looks are about a second apart. */
TEST(who_waits_for_a_lock_that_stays_begins_when_it_is_over)
{
    work(&(struct setting){.classes = "{ class = \"act\"; mode = \"efficiency\"; hold_at_least = \"500ms\"; }"});
    for (unsigned i = 0; i < 8; i++) {
        char holder[8], waiter[8], resource[24], said[32];
        snprintf(holder, sizeof holder, "h%u", i);
        snprintf(waiter, sizeof waiter, "w%u", i);
        snprintf(resource, sizeof resource, ",\"resource\":\"r%u\"", i);
        push(holder, "act", "[100]", resource);
        snprintf(said, sizeof said, "handler begins %s", holder);
        await_told(said);
        struct instant began = world_time();
        push(waiter, "act", "[10]", resource);
        snprintf(said, sizeof said, "handler begins %s", waiter);
        await_told(said);
        int64_t ms = instant_since(began, world_time()) / NS_PER_MS;
        if (ms < 400 || ms > 600)
            fail_msg("it began after %lld ms:\n%s", (long long)ms, history());
    }
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

/* Of each of three resources some task always runs, and more wait. */
TEST(a_task_of_several_resources_is_not_starved_by_those_of_one)
{
    enum { NAMES = 3, BACKLOG = 4, HOLD_MS = 100, MOST_MS = 60000 };
    unsigned pushed = 0;
    struct instant asked = {0};
    work(&(struct setting){.threads = 8});
    while (told_times("handler begins all") == 0 &&
           (asked.ns == 0 || instant_since(asked, world_time()) < MOST_MS * NS_PER_MS)) {
        for (unsigned ended = told_times("handler ends s"); pushed < ended + NAMES * BACKLOG; pushed++) {
            char jid[16], hold[16], resource[24];
            unsigned hold_ms =
                pushed < NAMES ? HOLD_MS * (pushed + 1) / NAMES : HOLD_MS; /* they end one after the other */
            snprintf(jid, sizeof jid, "s%u", pushed);
            snprintf(hold, sizeof hold, "[%u]", hold_ms);
            snprintf(resource, sizeof resource, ",\"resource\":\"r%u\"", pushed % NAMES);
            push(jid, "act", hold, resource);
        }
        if (pushed > 3 * NAMES * BACKLOG && asked.ns == 0) {
            push("all", "act", "[10]", ",\"resource\":[\"r0\",\"r1\",\"r2\"]");
            asked = world_time();
        }
        run_for(STEP_NS);
    }
    assert_int_equal(told_times("handler begins all"), 1);
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

/* Its record has to bring it back to where it came from. */
TEST(a_parked_task_comes_back_to_its_queue)
{
    work(&(struct setting){.threads = 2});
    push("holder", "act", "[2000]", ",\"resource\":\"r\"");
    run_for(1500 * NS_PER_MS); /* so that nobody is claimed to follow it */
    push("moved", "act", "[10]",
         ",\"resource\":\"r\",\"queue\":\"elsewhere\",\"hf_parked\":1700000000.5,\"hf_list\":\"resource:r\"");
    run_for(100 * NS_PER_MS);
    assert_contains(ask(scene.queue, "ZRANGE schedule 0 -1"), "\"queue\":\"jobs\"");
    assert_lacks(ask(scene.queue, "ZRANGE schedule 0 -1"), "elsewhere");
    assert_contains(ask(scene.queue, "ZRANGE schedule 0 -1"), "\"hf_parked\":1700000000.5");
    await_told("handler ends moved");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

TEST(a_class_says_what_its_tasks_lock)
{
    work(&(struct setting){.classes = "{ class = \"act\"; resource = [\"account:{0}\"]; }"});
    push("one", "act", "[10]", "");
    await_told("handler begins one from nothing, try 0 at seat 0 of account:10 for 1900 ms\n");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

TEST(what_becomes_of_a_task_for_whose_lock_too_many_wait)
{
    work(&(struct setting){.threads = 8,
                           .worker = "log_tasks = \"all\";",
                           .classes = "{ class = \"act\"; max_waiters = 1; }, "
                                      "{ class = \"serial\"; max_waiters = 1; on_crowd = \"drop\"; }, "
                                      "{ class = \"progress\"; max_waiters = 1; on_crowd = \"delay\"; "
                                      "conflict_delay = \"3s\"; }"});
    push("holder", "act", "[2000]", ",\"resource\":\"r\"");
    await_told("handler begins holder");
    push("first", "act", "[10]", ",\"resource\":\"r\"");
    run_for(200 * NS_PER_MS);
    push("second", "act", "[10]", ",\"resource\":\"r\"");
    push("dropped", "serial", "[10]", ",\"resource\":\"r\"");
    push("delayed", "progress", "[10]", ",\"resource\":\"r\"");
    run_for(2500 * NS_PER_MS);
    assert_told("ending=parked jid=first ", "ending=dead jid=second ", "ending=dropped jid=dropped ",
                "ending=parked jid=delayed ", "handler ends first");
    assert_contains(ask(scene.queue, "ZRANGE dead 0 -1"), "\"error_message\":\"r: 1 tasks wait for it already\"");
    assert_int_equal(told_times("handler begins delayed"), 0);
    await_told("handler ends delayed");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

/* Of the end of this task, in the last of the worlds. */
static const char *line_of(char jid)
{
    static char line[1024];
    char ended[] = "ending=done jid=? ";
    *strchr(ended, '?') = jid;
    const char *at = history(), *last = NULL;
    for (; (at = strstr(at, ended)) != NULL; at++)
        last = at;
    assert_non_null(last);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(last, "\n"), last);
    return line;
}

static void assert_handed_to(char jid, const char *from)
{
    char handed[32];
    snprintf(handed, sizeof handed, " handed_from=%s", from != NULL ? from : "");
    if (from != NULL)
        assert_contains(line_of(jid), handed);
    else
        assert_lacks(line_of(jid), handed);
}

/* Others have their turn after so many tasks, or so long a time. */
TEST(locks_are_handed_over_for_a_while)
{
    static const struct {
        const char *lock, *from[5]; /* NULL = nobody */
    } cases[] = {{"hand_over_tasks = 3;", {"a", "b", NULL, "d", "e"}},
                 {"hand_over_time = \"250ms\";", {"a", "b", NULL, "d", "e"}},
                 {"hand_over_tasks = 1;", {NULL}},
                 {"", {"a", "b", "c", "d", "e"}}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        work(&(struct setting){.threads = 2, .worker = "log_tasks = \"all\";", .lock = cases[i].lock});
        for (char jid = 'a'; jid < 'g'; jid++)
            push((char[]){jid, '\0'}, "act", "[100]", ",\"resource\":\"r\"");
        run_for(7 * NS_PER_S);
        assert_int_equal(told_times("r: held by"), 0); /* nobody asks the lock nodes for what is taken here */
        for (unsigned task = 0; task < 5; task++)
            assert_handed_to('b' + (char)task, cases[i].from[task]);
        assert_ends(EXIT_CODE_OK, stop(), 0);
    }
}

/* Of several that may hold a resource, and of a class's share of the runners. */
TEST(as_many_run_at_once_as_may)
{
    static const struct {
        const char *classes, *more;
    } cases[] = {{"{ class = \"act\"; limit = 2; }", ",\"resource\":\"r\""}, {"{ class = \"act\"; share = 50; }", ""}};
    for (unsigned i = 0; i < 2; i++) {
        work(&(struct setting){.threads = 4, .classes = cases[i].classes});
        push("one", "act", "[1000]", cases[i].more);
        push("two", "act", "[2000]", cases[i].more);
        run_for(200 * NS_PER_MS);
        push("three", "act", "[10]", cases[i].more);
        push("other", "serial", "[10]", "");
        run_for(700 * NS_PER_MS);
        assert_int_equal(told_times("handler begins three"), i);
        assert_int_equal(told_times("handler ends other"), i + 1);
        run_for(200 * NS_PER_MS);
        assert_int_equal(told_times("handler ends three"), i + 1);
        assert_ends(EXIT_CODE_OK, stop(), 900);
    }
    unsigned at_first = told_times("at seat 1 of r for"); /* which of the two has three, chance decides */
    assert_in_range(at_first, 1, 2);
    assert_int_equal(told_times("at seat 2 of r for"), 3 - at_first);
}

TEST(a_class_that_asks_for_it_runs_one_task_at_a_time_in_order)
{
    work(&(struct setting){.threads = 8});
    for (char jid = 'a'; jid < 'f'; jid++)
        push((char[]){jid, '\0'}, "serial", "[100]", "");
    run_for(50 * NS_PER_MS);
    for (char jid = 'a'; jid < 'f'; jid++) {
        char begun[] = "handler begins ? ";
        *strchr(begun, '?') = jid;
        assert_int_equal(told_times("handler begins"), jid - 'a' + 1);
        assert_int_equal(told_times(begun), 1);
        run_for(102 * NS_PER_MS);
    }
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

/* From its beginning on, and only if the task was done. */
TEST(a_lock_stays_for_as_long_as_its_class_says)
{
    work(&(struct setting){.threads = 4,
                           .classes = "{ class = \"act\"; mode = \"efficiency\"; on_conflict = \"park\"; "
                                      "hold_at_least = \"1s\"; }"});
    push("one", "act", "[200]", ",\"resource\":\"r\"");
    run_for(400 * NS_PER_MS);
    push("two", "act", "[10,\"fail\"]", ",\"resource\":\"r\"");
    run_for(550 * NS_PER_MS);
    assert_told("handler ends one", " stays_ms=79");
    assert_int_equal(told_times("handler begins two"), 0);
    run_for(200 * NS_PER_MS);
    push("three", "act", "[10]", ",\"resource\":\"r\"");
    run_for(100 * NS_PER_MS);
    assert_told("handler ends two", "handler ends three");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

/* In how many milliseconds a task comes back from `schedule` or `retry`. */
static int64_t due_ms(const char *set, const char *jid)
{
    const char *score = ask(scene.queue,
                            "EVAL \"for _, task in ipairs(redis.call('ZRANGE', '%s', 0, -1)) do "
                            "if cjson.decode(task).jid == '%s' then return {redis.call('ZSCORE', '%s', task)} "
                            "end end return {0}\" 0",
                            set, jid, set);
    const char *text = strchr(score + 4, '|');
    assert_non_null(text);
    return (int64_t)(strtod(text + 1, NULL) * 1000) - node_now_us(scene.queue) / 1000;
}

TEST(what_may_run_without_a_majority_does)
{
    work(&(struct setting){.threads = 4,
                           .classes = "{ class = \"act\"; mode = \"efficiency\"; on_no_quorum = \"open\"; }"});
    node_stop(scene.nodes[0], false);
    node_stop(scene.nodes[1], false);
    run_for(2 * NS_PER_S);
    push("open", "act", "[10]", ",\"resource\":\"r\"");
    push("closed", "serial", "[10]", ",\"resource\":\"q\"");
    run_for(900 * NS_PER_MS);
    assert_told("handler begins open from nothing, try 0 at seat 0 of nothing ", "lock_no_quorum nodes_up=1 ");
    assert_in_range(due_ms("schedule", "closed"), 150, 700); /* 1 to 1.5 s later */
    assert_int_equal(told_times("handler begins closed"), 0);
    run_for(5 * NS_PER_S);
    assert_in_range(told_times("lock_no_quorum "), 3, 6);
    node_start(scene.nodes[0], SERVER_KEEPS);
    await_told("handler ends closed");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

TEST(a_task_waits_for_the_lock_of_another_process)
{
    work(&(struct setting){.threads = 1, .worker = "log_tasks = \"all\";"});
    struct process *first = scene.process;
    push("one", "act", "[3000]", ",\"resource\":\"r\"");
    await_told("handler begins one");
    worker_start();
    run_for(1500 * NS_PER_MS);
    push("two", "act", "[10]", ",\"resource\":\"r\"");
    run_for(100 * NS_PER_MS);
    assert_told("ending=parked jid=two ", "reason=\"r: held by host:");
    int64_t left_ms = strtol(ask(scene.nodes[0], "PTTL r") + 1, NULL, 10);
    assert_in_range(due_ms("schedule", "two"), left_ms, left_ms + 60); /* if nobody wakes it before */
    await_told("handler ends one");
    run_for(30 * NS_PER_MS);
    assert_told("handler ends two");
    assert_int_equal(told_times("ending=parked jid=two "), 1);
    fleet_signal(first, SIGTERM);
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

/* --- runs that must end ------------------------------------------------------------------------------------------- */

TEST(the_time_of_a_run_is_limited)
{
    work(&(struct setting){.threads = 8,
                           .classes = "{ class = \"act\"; timeout = \"2s\"; }, "
                                      "{ class = \"progress\"; max_hold = \"3s\"; }"});
    push("long", "act", "[60000]", "");
    push("short", "act", "[1900]", "");
    push("held", "progress", "[60000]", ",\"resource\":\"r\"");
    run_for(2200 * NS_PER_MS);
    assert_told("task_timed_out jid=long class=act slot=7 seconds=2.0\n", "handler stops long: reason 6",
                "handler ends short", "reason=\"it took longer than its class may, which is 2 s\"");
    run_for(3 * NS_PER_S);
    assert_told("handler stops held: reason 5", "it was held for as long as its class may (max_hold)\" resource=r\n");
    assert_string_equal(ask(scene.queue, "MGET stat:processed stat:failed"), "*2|$1|3|$1|2|");
    await_told("handler begins held from {\"done\":4}, try 1 ");
    await_told("handler begins long from nothing, try 1 ");
    (void)stop();
    await(!scene.process->is_alive);
}

/* A majority of the lock nodes is gone; a class says where its tasks go then. */
TEST(a_lock_that_cannot_be_extended_is_lost)
{
    work(&(struct setting){.threads = 8,
                           .classes = "{ class = \"act\"; on_lost = \"dead\"; }, "
                                      "{ class = \"progress\"; on_lost = \"requeue\"; }, "
                                      "{ class = \"serial\"; on_lost = \"retry\"; }"});
    push("one", "act", "[60000]", ",\"resource\":\"r1\"");
    push("two", "progress", "[60000]", ",\"resource\":\"r2\"");
    push("three", "serial", "[60000]", ",\"resource\":\"r3\"");
    push("four", "once", "[60000]", "");
    run_for(5 * NS_PER_S);
    node_stop(scene.nodes[0], false);
    node_stop(scene.nodes[1], false);
    run_for(TTL_MS * NS_PER_MS);
    assert_told("handler stops one: reason 1", "handler stops two: reason 1", "handler stops three: reason 1",
                "ending=dead jid=one ", "ending=lock_lost jid=two ", "ending=lock_lost jid=three ");
    assert_int_equal(told_times(" lost=yes "), 3);
    assert_contains(ask(scene.queue, "ZRANGE dead 0 -1"), "it could not be extended in time\"");
    assert_contains(ask(scene.queue, "ZRANGE retry 0 -1"), "\"jid\":\"three\",");
    assert_contains(ask(scene.queue, "ZRANGE retry 0 -1"), "\"error_class\":\"HF::LockLost\",");
    assert_queue("*1|$4|two |");
    run_for(6 * NS_PER_S);
    assert_counted("progress|r2|lost", "1");
    assert_string_equal(ask(scene.queue, "MGET stat:processed stat:failed"), "*2|$1|2|$1|2|");
    assert_ends(EXIT_CODE_OK, stop(), 25000);
}

TEST(what_must_not_run)
{
    work(&(struct setting){.threads = 1,
                           .classes = "{ class = \"serial\"; lock = \"required\"; }",
                           .more = "queue_settings = ( { queue = \"jobs\"; classes = [\"act\", \"serial\"]; } );"});
    ask(scene.queue, "LPUSH queue:jobs 'no task'");
    push("late", "act", "[10]", ",\"expires_at\":1700000000.5");
    push("unlocked", "serial", "[10]", "");
    push("refused", "progress", "[10]", "");
    push("twice", "act", "[10]", "");
    run_for(NS_PER_S);
    push("twice", "act", "[10]", "");
    ask(scene.queue, "LPUSH queue:jobs 'nor this'");
    push("again", "act", "[10,\"fail\"]", ",\"retry\":1");
    push("later", "act", "[10,\"snooze\"]", "");
    push("nobody", "nobody", "[]", "");
    run_for(40 * NS_PER_S);
    assert_int_equal(told_times("ending=invalid jid=\"\" class=- "), 2);
    assert_told("ending=expired jid=late ", "ending=no_resource jid=unlocked ", "ending=refused jid=refused ",
                "task_seen_before jid=twice class=act queue=jobs seconds=0.9", "ending=failed jid=again ",
                "ending=dead jid=again ");
    assert_int_equal(told_times("handler ends twice"), 2);
    assert_in_range(told_times("ending=snoozed jid=later "), 5, 8);
    assert_contains(ask(scene.queue, "ZRANGE dead 0 -1"), "\"error_class\":\"HF::InvalidTask\",");
    assert_contains(ask(scene.queue, "ZRANGE dead 0 -1"), "\"error_class\":\"HF::NoResource\",");
    assert_contains(ask(scene.queue, "ZRANGE dead 0 -1"), "\"error_class\":\"HF::ClassNotAllowed\",");
    assert_contains(ask(scene.queue, "ZRANGE schedule 0 -1"), "\"jid\":\"later\",");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

/* Another worker of the fleet may serve it; if nobody does in time, it fails like others. */
TEST(a_class_that_nobody_serves_waits_for_a_while)
{
    work(&(struct setting){.threads = 1, .worker = "unknown_class_grace = \"40s\"; log_tasks = \"all\";"});
    push("one", "nobody", "[]", ",\"retry\":1");
    run_for(5 * NS_PER_S);
    assert_told("ending=unknown_class jid=one ", "class_unserved class=nobody tasks=1 ");
    assert_contains(ask(scene.queue, "ZRANGE retry 0 -1"), ",\"hf_unserved_at\":17");
    assert_string_equal(ask(scene.queue, "ZRANGE hf:2:unserved:nobody 0 -1"), "*1|$3|one|");
    await(told_times("ending=unknown_class jid=one ") == 2);
    await_told("ending=failed jid=one ");
    assert_contains(ask(scene.queue, "ZRANGE retry 0 -1"), "\"error_class\":\"HF::UnknownClass\",");
    assert_contains(ask(scene.queue, "ZRANGE retry 0 -1"), ",\"retry_count\":0}");
    assert_in_range(due_ms("retry", "one"), 1000, 60000);
    await_told("ending=dead jid=one ");
    run_for(60 * NS_PER_S);
    unsigned lines = told_times("class_unserved class=nobody ");
    push("two", "nobody", "[]", "");
    run_for(100 * NS_PER_MS);
    assert_contains(ask(scene.queue, "ZRANGE dead 0 -1"), "\"error_class\":\"HF::UnknownClass\",");
    assert_ends(EXIT_CODE_OK, stop(), 0);
    assert_int_equal(told_times("class_unserved class=nobody "), lines + 1); /* at the latest when it ends */
}

/* So many seconds ago, by the queue node's clock; -1: the first task of the set has no such time. */
static double seconds_since(const char *set, const char *member)
{
    const char *answer = ask(scene.queue,
                             "EVAL \"local task = redis.call('ZRANGE', '%s', 0, 0)[1] "
                             "return {string.match(task or '', '\\\"%s\\\":([0-9.]+)') or '0'}\" 0",
                             set, member);
    const char *text = strchr(answer + 4, '|');
    assert_non_null(text);
    double since = strtod(text + 1, NULL);
    return since > 0 ? (double)node_now_us(scene.queue) / US_PER_S - since : -1;
}

static void failed_since(char *more, size_t size, int64_t seconds, int64_t retried_for)
{
    snprintf(more, size, ",\"retry_for\":%lld,\"retry_count\":1,\"failed_at\":%.6f", (long long)retried_for,
             (double)(node_now_us(scene.queue) - seconds * US_PER_S) / US_PER_S);
}

static void work_on_another_clock(int64_t ahead_ns)
{
    char early[96], late[96];
    scene_make(
        &(struct setting){.threads = 8,
                          .worker = "log_tasks = \"all\";",
                          .classes = "{ class = \"serial\"; on_conflict = \"delay\"; conflict_delay = \"4s\"; }"});
    host_step_wall(scene.host, ahead_ns);
    worker_start();
    await_told("worker_started");
    run_for(NS_PER_S);
    failed_since(early, sizeof early, 30, 60);
    failed_since(late, sizeof late, 30, 20);
    push("early", "act", "[10,\"fail\"]", early);
    push("late", "act", "[10,\"fail\"]", late);
    push("holder", "act", "[900]", ",\"resource\":\"r\"");
    await_told("handler begins holder");
    push("parked", "serial", "[10]", ",\"resource\":\"r\"");
    run_for(500 * NS_PER_MS);
    assert_told("ending=failed jid=early ", "ending=dead jid=late ", "ending=parked jid=parked ");
    assert_float_equal(seconds_since("retry", "retried_at"), 1, 1);
    assert_float_equal(seconds_since("dead", "retried_at"), 1, 1);
    assert_float_equal(seconds_since("schedule", "hf_parked"), 1, 1);
    assert_ends(EXIT_CODE_OK, stop(), 400);
    assert_int_equal(told_times(" waited_ms=0.000 "), 0);
    assert_int_equal(told_times(" waited_ms=36"), 0);
}

TEST(durations_count_by_the_clock_of_the_queue_node_if_that_of_the_worker_is_late)
{
    work_on_another_clock(-3600 * NS_PER_S);
}

TEST(durations_count_by_the_clock_of_the_queue_node_if_that_of_the_worker_is_early)
{
    work_on_another_clock(3600 * NS_PER_S);
}

TEST(runs_are_counted_by_their_endings)
{
    work(&(struct setting){.threads = 1});
    push("one", "act", "[10]", "");
    push("two", "act", "[10,\"fail\"]", "");
    push("three", "act", "[10,\"bury\"]", "");
    push("four", "act", "[10,\"discard\"]", "");
    push("five", "act", "[10,\"snooze\"]", "");
    push("six", "act", "[10,\"fail\"]", ",\"retry\":false");
    run_for(3 * NS_PER_S);
    assert_ends(EXIT_CODE_OK, stop(), 0);
    assert_told("ending=done jid=one ", "ending=failed jid=two ", "ending=dead jid=three ",
                "info task_ended ending=discarded jid=four ", "ending=snoozed jid=five ",
                "warn task_ended ending=discarded jid=six ", " done=1 failed=2 dead=1 ");
    assert_string_equal(ask(scene.queue, "MGET stat:processed stat:failed"), "*2|$1|5|$1|3|");
}

TEST(a_dashboard_may_cancel_what_reports_progress)
{
    work(&(struct setting){.threads = 1});
    push("one", "progress", "[60000]", "");
    run_for(NS_PER_S);
    ask(scene.queue, "HSET it-one cancelled 1700000002");
    run_for(10 * NS_PER_S);
    assert_told("handler stops one: reason 4", "ending=cancelled jid=one ");
    assert_contains(ask(scene.queue, "GET hf:2:result:one"), ",\"cancelled\":true}|");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

TEST(a_task_that_is_cancelled_before_it_begins_leaves_a_record)
{
    work(&(struct setting){.threads = 1});
    ask(scene.queue, "ZADD hf:2:cancels 1700000002 one");
    push("one", "act", "[10]", "");
    run_for(NS_PER_S);
    assert_told("ending=cancelled jid=one ");
    assert_contains(ask(scene.queue, "GET hf:2:result:one"), "{\"jid\":\"one\",\"class\":\"act\",\"ended_at\":");
    assert_contains(ask(scene.queue, "GET hf:2:result:one"), ",\"cancelled\":true}|");
    assert_contains(ask(scene.queue, "EVAL \"return redis.call('TTL', 'hf:2:result:one') > 86000 and 1 or 0\" 0"), "1");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

TEST(the_end_of_a_unique_task_lets_another_in)
{
    static const char digest[] = "0123456789abcdef0123456789abcdef01234567";
    char more[80];
    snprintf(more, sizeof more, ",\"hf_unique\":\"%s\"", digest);
    work(&(struct setting){.threads = 1});
    ask(scene.queue, "SET hf:2:unique:%s one", digest);
    push("one", "act", "[1000]", more);
    run_for(500 * NS_PER_MS);
    assert_string_equal(ask(scene.queue, "EXISTS hf:2:unique:%s", digest), ":1|");
    run_for(600 * NS_PER_MS);
    assert_string_equal(ask(scene.queue, "EXISTS hf:2:unique:%s", digest), ":0|");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

/* --- elsewhere ---------------------------------------------------------------------------------------------------- */

TEST(runs_in_processes_and_programs_are_stopped_like_those_in_threads)
{
    work(&(struct setting){.threads = 8,
                           .worker = "stop_timeout = \"3s\";",
                           .classes = "{ class = \"program\"; timeout = \"500ms\"; grace = \"1s\"; }"});
    push("one", "runner", "[]", ",\"resource\":\"r\"");
    push("two", "runner", "[]", "");
    push("three", "program", "[]", ",\"resource\":\"q\"");
    push("four", "program", "[]", ",\"resource\":\"s\"");
    run_for(300 * NS_PER_MS);
    call("ID-signals", "TTIN");
    await_told("tasks_running count=4 busy=4 threads=8\n");
    call("hf:2:calls:ID", "CANCEL two");
    call("hf:2:calls:ID", "LOSE four");
    run_for(100 * NS_PER_MS);
    assert_told("ending=cancelled jid=two ", "ending=lock_lost jid=four ");
    run_for(200 * NS_PER_MS);
    assert_told("task_timed_out jid=three class=program slot=5 seconds=0.5\n", "ending=failed jid=three ",
                "text=\"three begins\"\n");
    assert_contains(ask(scene.queue, "ZRANGE retry 0 -1"), "\"error_class\":\"HF::TimedOut\",");
    assert_ends(EXIT_CODE_OK, stop(), 3000);
    assert_told("ending=given_back jid=one ");
    assert_queue("*1|$4|one |");
}

/* A task whose handler outside of the worker runs on. */
static void push_deaf(const char *class_name, const char *more)
{
    fleet.tasks[0] = (struct fleet_task){.jid = "t0", .is_slow = true, .queue = 1, .resource_count = more[0] != '\0'};
    fleet.task_count = 1;
    push("t0", class_name, "[0]", more);
    run_for(500 * NS_PER_MS);
}

/* It is killed when its grace is over, and before the worker gives it up. */
TEST(a_process_that_does_not_listen_is_killed)
{
    static const struct {
        const char *class_name, *classes;
        bool hurries;
        int64_t ms;
    } cases[] = {
        {"runner", "{ class = \"runner\"; grace = \"1s\"; timeout = \"2s\"; }", false, 2500},
        {"program", "{ class = \"program\"; grace = \"1s\"; timeout = \"2s\"; }", false, 2500},
        {"runner", "{ class = \"runner\"; grace = \"10s\"; }", false, 4500},
        {"program", "{ class = \"program\"; grace = \"10s\"; }", false, 4500},
        {"program", "{ class = \"program\"; grace = \"1s\"; }", false, 4000},
        {"runner", "{ class = \"runner\"; grace = \"10s\"; }", true, 50},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        work(&(struct setting){.threads = 1, .worker = "stop_timeout = \"3s\";", .classes = cases[i].classes});
        push_deaf(cases[i].class_name, "");
        struct instant told = stop();
        if (cases[i].hurries)
            (void)stop();
        assert_ends(EXIT_CODE_OK, told, cases[i].ms);
    }
    assert_int_equal(told_times("ending=failed jid=t0 "), 2);
    assert_int_equal(told_times("ending=given_back jid=t0 "), 4);
    assert_string_equal(ask(scene.queue, "EXISTS hf:2:processes"), ":0|");
}

TEST(a_process_that_does_not_listen_is_killed_at_the_end_of_its_lock)
{
    work(&(struct setting){.threads = 1, .classes = "{ class = \"runner\"; grace = \"1h\"; }"});
    push_deaf("runner", ",\"resource\":\"r\"");
    run_for(5 * NS_PER_S);
    node_stop(scene.nodes[0], false);
    node_stop(scene.nodes[1], false);
    run_for(TTL_MS * NS_PER_MS);
    assert_told("runner_crashed ", "ending=lock_lost jid=t0 ");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

/* As after a pause that was too long, or when an operator has moved the task. */
TEST(a_claim_that_is_gone_ends_its_run)
{
    work(&(struct setting){.threads = 3});
    push("one", "act", "[60000]", ",\"resource\":\"r\"");
    push("two", "act", "[60000]", "");
    run_for(NS_PER_S);
    ask(scene.queue, "EVAL \"local id = redis.call('SMEMBERS', 'processes')[1] "
                     "return redis.call('HDEL', 'hf:2:process:' .. id, '2')\" 0");
    run_for(6 * NS_PER_S);
    assert_told("handler stops one: reason 3", "ending=claim_lost jid=one ");
    assert_int_equal(told_times("handler stops two"), 0);
    assert_string_equal(ask(scene.nodes[0], "EXISTS r"), ":0|");
    assert_queue("*1|$0||");
    assert_ends(EXIT_CODE_OK, stop(), 25000);
    assert_queue("*1|$4|two |");
}

RUN_TESTS_WITH(set_up, tear_down)
