/* One worker in the world, with handlers that do as their tasks say: what it tells operators, dashboards and observers,
 * how it ends, and when. The fleets of test_fleets show what must never happen; this shows what does. */
#include "tests/support/test.h"

#include <stdio.h>
#include <sys/mman.h>

#include "base/log.h"
#include "redlock/redlock_nodes.h"
#include "tests/sim/fleet/fleet.h"
#include "tests/sim/server/simulated_client.h"
#include "worker/task/job_host.h"
#include "worker/worker.h"

enum { NODES = 3, TTL_MS = 2000, MAX_TTL_MS = 5000 };

#define STEP_NS     (10 * NS_PER_MS)
#define PATIENCE_NS (600 * NS_PER_S)

struct setting {
    unsigned threads;                           /* 0 = 2 */
    const char *worker, *lock, *classes, *more; /* for its configuration; NULL = nothing */
    bool has_no_locks, has_no_group, drains;
    uint64_t max_tasks;
    int64_t ttl_ms; /* 0 = TTL_MS */
    const char *report_path;
    const struct worker_observer *observer;
};

static struct {
    struct setting setting;
    struct node *queue, *nodes[NODES];
    struct redlock_node list[NODES];
    struct redlock_options options;
    struct host *host;
    struct process *process;
    enum exit_code exit_code;
    bool is_abandoned;
    unsigned blocks_left;
    struct instant ended_at;
    FILE *history;
    char *text;
    size_t length;
} scene;

/* --- what is told ------------------------------------------------------------------------------------------------- */

static const char *history(void)
{
    fflush(scene.history);
    return scene.text;
}

static unsigned told_times(const char *text)
{
    unsigned times = 0;
    for (const char *at = history(); (at = strstr(at, text)) != NULL; at++)
        times++;
    return times;
}

/* Each of these, once. */
#define assert_told(...) assert_each_told((const char *const[]){__VA_ARGS__, NULL})
static void assert_each_told(const char *const *texts)
{
    for (; *texts != NULL; texts++)
        if (told_times(*texts) != 1)
            fail_msg("told %u times: %s, in:\n%s", told_times(*texts), *texts, history());
}

/* What the world tells goes into the history, and what fails here does not. */
static void run_for(int64_t ns)
{
    FILE *before = stderr;
    stderr = scene.history;
    world_run(instant_after(world_time(), ns));
    stderr = before;
}

#define await(condition)                                                                                               \
    do {                                                                                                               \
        struct instant patience = instant_after(world_time(), PATIENCE_NS);                                            \
        while (!(condition)) {                                                                                         \
            if (instant_reached(world_time(), patience))                                                               \
                fail_msg("never came true: %s, after:\n%s", #condition, history());                                    \
            run_for(STEP_NS);                                                                                          \
        }                                                                                                              \
    } while (0)

#define await_told(said) await(told_times(said) > 0)

/* --- servers ------------------------------------------------------------------------------------------------------ */

static const char *ask(struct node *node, const char *format, ...) __attribute__((format(printf, 2, 3)));
static const char *ask(struct node *node, const char *format, ...)
{
    static char answer[8192];
    char line[2048];
    struct simulated_client client;
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    simulated_client_connect(&client, node->server);
    simulated_client_say(&client, line, node_now_us(node));
    snprintf(answer, sizeof answer, "%s", simulated_client_heard(&client));
    simulated_client_end(&client);
    node_look(node);
    return answer;
}

/* A task of a class; `more` = other members of its object, each behind a comma. */
static void push(const char *jid, const char *class_name, const char *args, const char *more)
{
    ask(scene.queue, "LPUSH queue:jobs '{\"class\":\"%s\",\"jid\":\"%s\",\"args\":%s,\"enqueued_at\":%.6f%s}'",
        class_name, jid, args, (double)node_now_us(scene.queue) / 1e6, more);
}

/* A hash of the process: its name, and so what dashboards see. */
static const char *ask_process(const char *suffix)
{
    return ask(scene.queue, "EVAL \"return redis.call('HGETALL', redis.call('SMEMBERS', 'processes')[1] .. '%s')\" 0",
               suffix);
}

/* The jids of a queue from its head on, in the order in which they would be claimed. */
static void assert_queue(const char *jids)
{
    assert_string_equal(ask(scene.queue,
                            "EVAL \"local out = '' for _, task in ipairs(redis.call('LRANGE', 'queue:jobs', 0, -1)) do "
                            "out = cjson.decode(task).jid .. ' ' .. out end return {out}\" 0"),
                        jids);
}

/* --- handlers ----------------------------------------------------------------------------------------------------- */

static const struct hf_host *host_of_handlers(void)
{
    static const struct hf_host *host;
    static const struct config none;
    if (host == NULL)
        host = job_hosts_for(job_hosts_create(&none), "world");
    return host;
}

static void speak(hf_job *job, const hf_job_api *jobs)
{
    const hf_field fields[] = {{.key = "rows", .value = "7"}, {.key = "of", .value = "two words"}};
    for (unsigned level = HF_LOG_DEBUG; level <= HF_LOG_ERROR; level++) {
        jobs->log(job, (enum hf_log_level)level, "spoken at %u", level);
        jobs->event(job, (enum hf_log_level)level, "spoken", fields, 2);
    }
}

static void child_push(hf_job *job, const struct hf_host *host)
{
    const hf_push_api *pushes = host->api("push", 1);
    char reason[256];
    assert_true(pushes->add(job, "{\"class\":\"act\",\"args\":[],\"jid\":\"child\"}", reason, sizeof reason));
}

/* What a handler does at its end; and how it ends. */
static int end_as(hf_job *job, const struct hf_host *host, const char *word)
{
    static const struct {
        const char *word, *error;
        int code;
    } ends[] = {{"fail", "Broken", HF_FAIL},
                {"bury", "Broken", HF_BURY},
                {"fenced", "HF::FencedOff", HF_FAIL},
                {"discard", NULL, HF_DISCARD},
                {"snooze", NULL, HF_SNOOZE}};
    const hf_job_api *jobs = host->api("job", 1);
    const hf_report_api *report = host->api("report", 1);
    if (strcmp(word, "speak") == 0)
        speak(job, jobs);
    if (strcmp(word, "push") == 0)
        child_push(job, host);
    if (strcmp(word, "result") == 0)
        assert_true(report->result(job, "{\"rows\":7}"));
    if (strcmp(word, "snooze") == 0)
        assert_true(report->retry_in(job, 5000));
    for (unsigned i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (strcmp(word, ends[i].word) != 0)
            continue;
        if (ends[i].error != NULL)
            jobs->error(job, ends[i].error, "as it was told");
        return ends[i].code;
    }
    return HF_OK;
}

/* [MS]: so long, unless it is cancelled. [MS, "deaf"]: also then. [MS, WORD]: and ends as the word says. */
static int act(hf_job *job, void *state)
{
    const struct hf_host *host = host_of_handlers();
    const hf_job_api *jobs = host->api("job", 1);
    const hf_cancel_api *cancel = host->api("cancel", 1);
    const hf_report_api *report = host->api("report", 1);
    const hf_lock_api *lock = host->api("lock", 1);
    const hf_checkpoint_api *checkpoint = host->api("checkpoint", 1);
    const char *word = "", *loaded = checkpoint->load(job);
    int64_t ms = 0;
    (void)state;
    (void)jobs->arg_integer(job, 0, &ms);
    (void)jobs->arg_text(job, 1, &word);
    world_tell("handler begins %s from %s, try %u at place %u", job->jid, loaded != NULL ? loaded : "nothing",
               jobs->attempt(job), lock->place(job));
    if (strcmp(job->class_name, "progress") == 0)
        assert_true(report->progress(job, "{\"done\":4}"));
    for (struct instant end = instant_after(instant_now(), ms * NS_PER_MS); instant_before(instant_now(), end);) {
        process_sleep(STEP_NS);
        if (!cancel->cancelled(job) || strcmp(word, "deaf") == 0)
            continue;
        world_tell("handler stops %s: reason %d", job->jid, (int)cancel->reason(job));
        return HF_CANCELLED;
    }
    world_tell("handler ends %s", job->jid);
    return end_as(job, host, word);
}

static struct plugins *handlers_make(void)
{
    static const struct plugin_handler kinds[] = {
        {.class_name = "act"},
        {.class_name = "serial", .flags = HF_SERIAL},
        {.class_name = "progress", .flags = HF_PROGRESS},
        {.class_name = "once", .flags = HF_AT_MOST_ONCE},
    };
    struct plugins *plugins = plugins_create_built_in("world", NULL);
    (void)host_of_handlers();
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct plugin_handler handler = kinds[i];
        handler.run = act;
        handler.isolation = HF_ISOLATION_THREAD;
        handler.origin = "world";
        assert_true(plugins_add_built_in(plugins, &handler));
    }
    return plugins;
}

/* --- the worker --------------------------------------------------------------------------------------------------- */

static const char *or_nothing(const char *text)
{
    return text != NULL ? text : "";
}

static struct config *config_make(void)
{
    const struct setting *setting = &scene.setting;
    struct buffer text = {0};
    struct findings findings = {0};
    buffer_format(&text,
                  "worker = { host = \"host\"; threads = %u; queues = [\"jobs\"]; allow_root = true; %s };\n"
                  "queue_node = { host = \"queue\"; port = 6379; };\nlock = { ttl = \"%lldms\"; %s };\n",
                  setting->threads, or_nothing(setting->worker), (long long)setting->ttl_ms, or_nothing(setting->lock));
    if (!setting->has_no_locks)
        buffer_append_text(&text, "lock_nodes = ( { host = \"lock1\"; port = 6379; }, { host = \"lock2\"; "
                                  "port = 6379; }, { host = \"lock3\"; port = 6379; } );\n");
    buffer_format(&text, "classes = ( %s );\n%s", or_nothing(setting->classes), or_nothing(setting->more));
    struct config *config = config_read_written(&text, &findings);
    findings_print(&findings, stdout);
    assert_true(config != NULL && findings.errors == 0);
    return config;
}

static void worker_main(void *argument)
{
    const struct setting *setting = &scene.setting;
    struct config *config = config_make();
    struct zygote zygote;
    (void)argument;
    struct worker_options options = {.config = config,
                                     .plugins = handlers_make(),
                                     .hosts = job_hosts_create(config),
                                     .run_table = run_table_create(WORKER_SLOTS(config->worker.threads)),
                                     .zygote = &zygote,
                                     .drain = setting->drains,
                                     .max_tasks = setting->max_tasks,
                                     .observer = setting->observer,
                                     .report_path = setting->report_path};
    fleet_zygote_start(&zygote, options.run_table);
    process_blocks_begin();
    scene.exit_code = worker_run(&options, &scene.is_abandoned);
    scene.blocks_left = process_blocks_left(&(size_t){0});
    scene.ended_at = world_time();
    world_tell("exit code %d", (int)scene.exit_code);
}

static void group_main(void *argument)
{
    char reason[256] = "";
    (void)argument;
    struct redlock_nodes *session = redlock_nodes_open(&scene.options, reason, sizeof reason);
    assert_int_equal(redlock_nodes_init(session, &(struct redlock_group_terms){.max_ttl_ms = MAX_TTL_MS}),
                     REDLOCK_NODES_DONE);
    redlock_nodes_close(session);
}

/* Nothing has begun yet: tasks may be pushed before the worker is started. */
static void scene_make(const struct setting *setting)
{
    static const char *const names[NODES] = {"lock1", "lock2", "lock3"};
    world_begin(1);
    hosts_set_apart(0);
    network_begin();
    world_tell_to_stderr(true);
    fleet = (struct fleet){.is_calm = true}; /* so that no process crashes by chance */
    scene.setting = *setting;
    scene.setting.threads = setting->threads > 0 ? setting->threads : 2;
    scene.setting.ttl_ms = setting->ttl_ms > 0 ? setting->ttl_ms : TTL_MS;
    scene.queue = node_create("queue");
    for (unsigned i = 0; i < NODES; i++) {
        scene.nodes[i] = node_create(names[i]);
        scene.list[i] = (struct redlock_node){.name = names[i], .host = names[i], .port = 6379};
    }
    scene.options = (struct redlock_options){.nodes = scene.list, .node_count = NODES};
    scene.host = host_create("host");
    if (!setting->has_no_group) {
        struct process *operator= process_start(host_create("operator"), "operator", group_main, NULL);
        await(operator->has_ended);
    }
}

static void worker_start(void)
{
    scene.process = process_start(scene.host, "worker", worker_main, NULL);
}

/* A worker that is ready. */
static void work(const struct setting *setting)
{
    scene_make(setting);
    worker_start();
    await_told("worker_started");
    run_for(NS_PER_S);
}

/* So long after `since`, more or less a tenth of a second; everything was freed. */
static void assert_ends(enum exit_code exit_code, struct instant since, int64_t after_ms)
{
    await(!scene.process->is_alive);
    int64_t ms = instant_since(since, scene.ended_at) / NS_PER_MS;
    if (scene.exit_code != exit_code || ms < after_ms - 100 || ms > after_ms + 100)
        fail_msg("it ended with %d after %lld ms:\n%s", (int)scene.exit_code, (long long)ms, history());
    assert_true(scene.is_abandoned || scene.blocks_left == 0);
}

static struct instant stop(void)
{
    fleet_signal(scene.process, SIGTERM);
    return world_time();
}

static int set_up(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof scene);
    scene.history = open_memstream(&scene.text, &scene.length);
    log_set_level(LOG_INFO);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fclose(scene.history);
    free(scene.text);
    return 0;
}

/* --- whether it may lock ------------------------------------------------------------------------------------------ */

TEST(lock_nodes_that_are_no_group_end_it)
{
    static const struct {
        unsigned blank;
        bool ends;
    } cases[] = {{1, false}, {2, true}, {3, true}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scene_make(&(struct setting){.threads = 1});
        for (unsigned n = 0; n < cases[i].blank; n++)
            ask(scene.nodes[n], "FLUSHALL");
        worker_start();
        run_for(10 * NS_PER_S);
        assert_int_equal(told_times("lock_group_missing nodes=3 blank="), i);
        assert_int_equal(scene.process->is_alive, !cases[i].ends);
    }
    assert_int_equal(scene.exit_code, EXIT_CODE_FAILURE);
    assert_int_equal(told_times("worker_stopping reason=lock_group_missing busy=0"), 2);
}

TEST(a_ttl_above_that_of_the_group_ends_it)
{
    work(&(struct setting){.ttl_ms = MAX_TTL_MS});
    assert_int_equal(told_times("lock_ttl_too_long"), 0);
    assert_ends(EXIT_CODE_OK, stop(), 0);
    work(&(struct setting){.ttl_ms = MAX_TTL_MS + 1});
    assert_told("lock_ttl_too_long ttl_ms=5001 max_ttl_ms=5000 ");
    assert_ends(EXIT_CODE_FAILURE, instant_after(world_time(), -NS_PER_S), 100);
}

TEST(without_a_majority_nothing_is_claimed)
{
    work(&(struct setting){.threads = 1});
    node_stop(scene.nodes[0], false);
    run_for(NS_PER_S);
    push("first", "act", "[10]", ",\"resource\":\"r\"");
    await_told("handler ends first");
    assert_int_equal(told_times("lock_quorum_missing"), 0);
    node_stop(scene.nodes[1], false);
    await_told("lock_quorum_missing nodes=3 nodes_up=1 voters=1 ");
    push("second", "act", "[10]", ",\"resource\":\"r\"");
    run_for(60 * NS_PER_S);
    assert_queue("*1|$7|second |");
    node_start(scene.nodes[0], SERVER_KEEPS);
    await_told("handler ends second");
    assert_told("lock_quorum_missing");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

/* --- that it turns ------------------------------------------------------------------------------------------------ */

TEST(handlers_of_a_worker_that_stood_still_for_its_lease_are_cancelled)
{
    work(&(struct setting){.threads = 2, .worker = "lease = \"3s\";"});
    push("long", "act", "[60000]", "");
    await_told("handler begins long");
    process_pause(scene.process);
    run_for(2700 * NS_PER_MS);
    process_resume(scene.process);
    run_for(NS_PER_S);
    assert_int_equal(told_times("process_was_away") + told_times("handler stops"), 0);
    process_pause(scene.process);
    run_for(3200 * NS_PER_MS);
    process_resume(scene.process);
    await_told("process_was_away seconds=3.");
    await_told("handler stops long: reason 3");
}

TEST(a_worker_that_has_nothing_to_do_ends_at_once)
{
    work(&(struct setting){.threads = 3});
    assert_told("worker_started identity=host:");
    assert_ends(EXIT_CODE_OK, stop(), 0);
    assert_told("worker_stopping reason=SIGTERM busy=0");
    assert_string_equal(ask(scene.queue, "DBSIZE"), ":0|");
}

/* --- stopping ----------------------------------------------------------------------------------------------------- */

static const struct setting stopping = {.threads = 2, .worker = "stop_timeout = \"3s\";"};

TEST(what_runs_may_end_before_the_worker_does)
{
    work(&stopping);
    push("one", "act", "[2000]", "");
    push("two", "act", "[10]", "");
    await_told("handler begins one");
    await_told("handler ends two");
    struct instant told = stop();
    push("next", "act", "[10]", "");
    assert_ends(EXIT_CODE_OK, told, 2000);
    assert_queue("*1|$5|next |");
}

TEST(what_takes_longer_is_cancelled_and_given_back)
{
    work(&stopping);
    push("one", "act", "[60000]", ",\"resource\":\"r\"");
    push("two", "act", "[60000]", "");
    push("next", "act", "[10]", "");
    await_told("handler begins two");
    assert_ends(EXIT_CODE_OK, stop(), 3000);
    assert_told("handlers_cancelled count=2 waiting_for_queue_node=0", "handler stops one: reason 2");
    assert_queue("*1|$13|one two next |");
    assert_string_equal(ask(scene.nodes[0], "EXISTS r"), ":0|");
}

TEST(what_does_not_listen_is_abandoned)
{
    work(&stopping);
    push("one", "act", "[60000,\"deaf\"]", ",\"resource\":\"r\"");
    await_told("handler begins one");
    struct instant told = stop();
    push("next", "act", "[10]", "");
    assert_ends(EXIT_CODE_FAILURE, told, 5000);
    await_told("handlers_abandoned count=1 ");
    await_told("handler_abandoned slot=1 jid=one class=act queue=jobs seconds=5.0\n");
    assert_queue("*1|$9|one next |");
    for (unsigned i = 0; i < NODES; i++)
        assert_string_equal(ask(scene.nodes[i], "EXISTS r"), ":1|");
}

TEST(a_second_signal_stops_now)
{
    work(&stopping);
    push("one", "act", "[60000,\"deaf\"]", "");
    push("two", "act", "[60000]", "");
    await_told("handler begins two");
    (void)stop();
    run_for(NS_PER_S);
    assert_int_equal(told_times("handler stops two"), 0);
    assert_ends(EXIT_CODE_FAILURE, stop(), 200);
    assert_told("worker_stopping_now reason=SIGTERM busy=2");
    assert_queue("*1|$8|one two |");
}

TEST(a_queue_node_that_is_gone_delays_the_end_by_so_much)
{
    static const struct {
        bool runs, hurries;
        int64_t ms;
    } cases[] = {{false, false, 4000}, {true, false, 7000}, {true, true, 1200}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        work(&stopping);
        push("one", "act", cases[i].runs ? "[60000,\"deaf\"]" : "[1000]", "");
        run_for(500 * NS_PER_MS);
        node_stop(scene.queue, false);
        run_for(NS_PER_S);
        struct instant told = stop();
        if (cases[i].hurries)
            (void)stop();
        assert_ends(EXIT_CODE_FAILURE, told, cases[i].ms);
        assert_int_equal(told_times("leave_failed"), i + 1);
        assert_int_equal(told_times("heartbeat_unwritten"), i + 1);
    }
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* As dashboards do, and commands. */
static void call(const char *list, const char *text)
{
    ask(scene.queue,
        "EVAL \"local id = redis.call('SMEMBERS', 'processes')[1] "
        "redis.call('LPUSH', string.gsub('%s', 'ID', id), '%s')\" 0",
        list, text);
}

TEST(it_does_as_it_is_called)
{
    work(&(struct setting){.threads = 3, .worker = "stop_timeout = \"3s\";"});
    await_told("node_up node=queue/control");
    push("one", "act", "[600000]", ",\"resource\":\"r\"");
    push("two", "act", "[600000]", "");
    push("three", "act", "[3000]", "");
    await_told("handler begins three");
    run_for(6 * NS_PER_S);
    call("ID-signals", "TTIN");
    await_told("tasks_running count=2 busy=2 threads=3\n");
    await_told("task_running slot=");
    assert_int_equal(told_times("task_running slot="), 2);
    call("hf:2:calls:ID", "CANCEL two");
    await_told("handler stops two: reason 4");
    await_told("ending=cancelled jid=two ");
    call("hf:2:calls:ID", "LOSE one");
    await_told("handler stops one: reason 1");
    assert_contains(ask(scene.queue, "ZRANGE retry 0 -1"), "an operator took it away");
    call("ID-signals", "TSTP");
    await_told("worker_quiet reason=called busy=0");
    push("next", "act", "[10]", "");
    run_for(10 * NS_PER_S);
    assert_contains(ask_process(""), "|quiet|$4|true|");
    assert_queue("*1|$5|next |");
    call("ID-signals", "TERM");
    await_told("worker_stopping reason=called busy=0");
    assert_ends(EXIT_CODE_OK, world_time(), 0);
}

TEST(a_call_to_drain_ends_it_when_nothing_runs)
{
    work(&(struct setting){.threads = 2});
    await_told("node_up node=queue/control");
    push("one", "act", "[3000]", "");
    await_told("handler begins one");
    run_for(NS_PER_S);
    call("hf:2:calls:ID", "DRAIN");
    await_told("worker_draining reason=called busy=1");
    push("next", "act", "[10]", "");
    assert_ends(EXIT_CODE_OK, world_time(), 2000);
    assert_told("worker_stopping reason=drained busy=0");
    assert_queue("*1|$5|next |");
}

/* --- with nothing left to do -------------------------------------------------------------------------------------- */

TEST(it_takes_as_many_tasks_as_it_is_to_take)
{
    work(&(struct setting){.threads = 2, .max_tasks = 3});
    for (unsigned i = 0; i < 5; i++)
        push(&"12345"[i], "act", "[100]", "");
    await_told("worker_stopping reason=max_tasks busy=0");
    assert_ends(EXIT_CODE_OK, world_time(), 0);
    assert_int_equal(told_times("handler ends"), 3);
}

TEST(it_ends_when_nothing_is_left)
{
    scene_make(&(struct setting){.threads = 2, .drains = true});
    ask(scene.queue, "ZADD schedule %lld '{\"class\":\"act\",\"jid\":\"soon\",\"args\":[],\"queue\":\"jobs\"}'",
        (long long)(node_now_us(scene.queue) / US_PER_S + 6));
    ask(scene.queue, "ZADD schedule %lld '{\"class\":\"act\",\"jid\":\"later\",\"args\":[],\"queue\":\"jobs\"}'",
        (long long)(node_now_us(scene.queue) / US_PER_S + 60));
    push("one", "act", "[2000]", ",\"resource\":\"r\"");
    push("two", "act", "[10]", ",\"resource\":\"r\"");
    worker_start();
    await_told("worker_stopping reason=drained busy=0");
    assert_ends(EXIT_CODE_OK, world_time(), 0);
    assert_int_equal(told_times("handler ends"), 3);
    assert_int_equal(told_times("handler ends later"), 0);
}

/* --- what it shows ------------------------------------------------------------------------------------------------ */

static struct {
    unsigned looks;
    struct observed_process process;
    const struct redlock_node_counters *third;
} observed;

static void looked(void *context, const struct observed_process *process)
{
    (void)context;
    observed.looks++;
    observed.process = *process;
    observed.third = process->node_count == NODES ? process->nodes[NODES - 1] : NULL;
}

/* Since its claim; the time in tenths of a second, so that no small delay matters. */
static int tenths(const struct observed_task *task, struct instant at)
{
    return at.ns == 0 ? -1 : (int)(instant_since(task->claimed, at) / (100 * NS_PER_MS));
}

static void task_left(void *context, const struct observed_task *task)
{
    (void)context;
    world_tell("left %s %s of %s with %u: %s, waited %lld, %d %d %d %d %d%s%s%s%s", task->jid, task->class_name,
               task->queue, task->resource_count, flow_ending_name(task->ending),
               (long long)(task->waited_ns / (100 * NS_PER_MS)), tenths(task, task->asked), tenths(task, task->locked),
               tenths(task, task->started), tenths(task, task->ended), tenths(task, task->left),
               task->handed_over ? " handed over" : "", task->had_refusal ? " refused" : "",
               task->was_lost ? " lost" : "", task->was_fenced_off ? " fenced off" : "");
}

static const struct worker_observer observer = {.looked = looked, .task_left = task_left};

TEST(an_observer_sees_how_the_process_stands)
{
    observed.looks = 0;
    work(&(struct setting){.threads = 4, .observer = &observer});
    assert_in_range(observed.looks, 2, 3);
    assert_int_equal(observed.process.busy, 0);
    assert_int_equal(observed.process.runners, 4);
    push("one", "serial", "[3000]", "");
    push("two", "serial", "[3000]", "");
    push("three", "act", "[3000]", ",\"resource\":\"r\"");
    run_for(2 * NS_PER_S);
    assert_int_equal(observed.process.busy, 2);
    assert_non_null(observed.third);
    assert_true(observed.process.extensions->count > 0);
    assert_in_range(observed.process.claim_calls, 3, 8);
    assert_ends(EXIT_CODE_OK, stop(), 1000);
    assert_int_equal(told_times("left "), 3);
    assert_told("left two serial of jobs with 0: given_back, ");
}

TEST(an_observer_sees_what_became_of_tasks)
{
    work(&(struct setting){.threads = 8, .observer = &observer});
    push("one", "serial", "[3050]", "");
    push("two", "serial", "[1000]", "");
    push("three", "act", "[2050]", ",\"resource\":\"r\"");
    push("four", "act", "[550,\"fenced\"]", ",\"resource\":\"q\"");
    push("five", "act", "[850]", ",\"resource\":\"x\"");
    run_for(500 * NS_PER_MS);
    push("six", "act", "[1000]", ",\"resource\":\"x\"");
    run_for(6 * NS_PER_S);
    assert_ends(EXIT_CODE_OK, stop(), 0);
    assert_told("left one serial of jobs with 0: done, waited 0, -1 -1 0 30 30\n",
                "left two serial of jobs with 0: done, waited 30, -1 -1 30 40 40\n",
                "left three act of jobs with 1: done, waited 0, 0 0 0 20 20\n",
                "left four act of jobs with 1: failed, waited 0, 0 0 0 5 5 fenced off\n",
                "left five act of jobs with 1: done, waited 0, 0 0 0 8 8\n",
                "left six act of jobs with 1: parked, waited 0, -1 -1 -1 -1 0\n",
                "left six act of jobs with 1: done, waited 3, 0 3 3 13 13 handed over\n");
}

TEST(dashboards_see_what_runs)
{
    work(&(struct setting){.threads = 3});
    push("one", "act", "[60000]", ",\"resource\":\"r\"");
    run_for(2 * NS_PER_S);
    push("two", "act", "[60000]", "");
    run_for(8 * NS_PER_S);
    assert_contains(ask_process(""), "|busy|$1|2|");
    assert_contains(ask_process(""), "\"concurrency\":3,");
    assert_contains(ask_process(""), "|quiet|$5|false|");
    assert_contains(ask_process(""), "|hf_classes|$24|act|once|progress|serial|");
    const char *work = ask_process(":work");
    assert_contains(work, "{\"queue\":\"jobs\",\"payload\":\"{\\\"class\\\":\\\"act\\\",\\\"jid\\\":\\\"two\\\",");
    assert_contains(work, "\"run_at\":1700000001,\"hf_fence\":\"17");
    assert_contains(work, "\"run_at\":1700000003}");
    assert_contains(work, "\"hf_resources\":[\"r\"]}");
    assert_ends(EXIT_CODE_OK, stop(), 25000);
}

TEST(handlers_are_heard)
{
    work(&(struct setting){.threads = 1});
    push("one", "act", "[10,\"speak\"]", "");
    push("two", "act", "[10,\"push\"]", "");
    push("three", "act", "[10,\"result\"]", "");
    push("four", "progress", "[10,\"fail\"]", "");
    run_for(5 * NS_PER_S);
    assert_ends(EXIT_CODE_OK, stop(), 0);
    assert_int_equal(told_times("job_says") + told_times("job_event"), 6);
    assert_told("info job_says jid=one class=act text=\"spoken at 1\"\n",
                "warn job_event event=spoken jid=one class=act rows=\"7\" of=\"two words\"\n",
                "error job_says jid=one class=act text=\"spoken at 3\"\n", "handler ends child");
    assert_contains(ask(scene.queue, "GET hf:2:result:three"), "\"class\":\"act\",");
    assert_contains(ask(scene.queue, "GET hf:2:result:three"), "\"result\":{\"rows\":7}}|");
    assert_contains(ask(scene.queue, "HGETALL it-four"), "|c|$10|{\"done\":4}|");
}

TEST(it_reports_what_it_did)
{
    char path[32], text[4096] = "";
    int fd = memfd_create("report", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    work(&(struct setting){.threads = 2, .report_path = path});
    push("one", "act", "[100]", ",\"resource\":\"r\"");
    push("two", "act", "[300,\"fail\"]", "");
    run_for(5 * NS_PER_S);
    assert_ends(EXIT_CODE_OK, stop(), 0);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    assert_contains(text, "{\"host\":\"host\",\"pid\":");
    assert_contains(text, ",\"threads\":2,\"seconds\":6.0");
    assert_contains(text, ",\"active_seconds\":0.3");
    assert_contains(text, ",\"runs\":2,\"claims\":2,\"claim_calls\":");
    assert_contains(text, ",\"locks_acquired\":1,");
    work(&(struct setting){.threads = 2, .report_path = "/nowhere/report"});
    assert_ends(EXIT_CODE_FAILURE, stop(), 0);
    assert_told("report_failed reason=\"/nowhere/report: No such file or directory\"");
}

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
        ask(scene.nodes[i], "SET other somebody PX 60000");
    push("parked", "act", "[10]", ",\"resource\":\"r\"");
    push("skipped", "once", "[10]", ",\"resource\":\"r\"");
    push("delayed", "serial", "[10]", ",\"resource\":\"r\"");
    push("failed", "progress", "[10]", ",\"resource\":\"r\"");
    push("skipped2", "once", "[10]", ",\"resource\":\"other\"");
    push("failed2", "progress", "[10]", ",\"resource\":\"other\"");
    run_for(2500 * NS_PER_MS);
    assert_told("ending=parked jid=parked ", "ending=skipped jid=skipped ", "ending=parked jid=delayed ",
                "handler ends parked", "ending=skipped jid=skipped2 ", "ending=failed jid=failed2 ",
                "reason=\"r: another task holds it\" resource=r\n");
    assert_int_equal(told_times("handler begins delayed"), 0);
    run_for(6 * NS_PER_S);
    assert_told("handler begins delayed", "handed_from=holder");
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
    run_for(3 * NS_PER_S);
    assert_told("handler ends delayed");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

/* In the last of the worlds. */
static void assert_handed_to(char jid, const char *from)
{
    char ended[] = "ending=done jid=? ", handed[] = " handed_from=? ";
    *strchr(ended, '?') = jid;
    const char *at = history(), *line = NULL;
    for (; (at = strstr(at, ended)) != NULL; at++)
        line = at;
    assert_non_null(line);
    char *text = strndup(line, strcspn(line, "\n"));
    *strchr(handed, '?') = from != NULL ? *from : '\0';
    if (from != NULL)
        assert_contains(text, handed);
    else
        assert_lacks(text, " handed_from=");
    free(text);
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
        work(&(struct setting){.threads = 2, .lock = cases[i].lock});
        for (char jid = 'a'; jid < 'g'; jid++)
            push((char[]){jid, '\0'}, "act", "[100]", ",\"resource\":\"r\"");
        run_for(7 * NS_PER_S);
        for (unsigned task = 0; task < 5; task++)
            assert_handed_to('b' + (char)task, cases[i].from[task]);
        assert_ends(EXIT_CODE_OK, stop(), 0);
    }
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
    run_for(20 * NS_PER_S);
    assert_told("handler begins held from {\"done\":4}, try 1 ", "handler begins long from nothing, try 1 ");
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
    work(&(struct setting){.threads = 2,
                           .classes = "{ class = \"serial\"; lock = \"required\"; }",
                           .more = "queue_settings = ( { queue = \"jobs\"; classes = [\"act\", \"serial\"]; } );"});
    ask(scene.queue, "LPUSH queue:jobs 'no task'");
    push("late", "act", "[10]", ",\"expires_at\":1700000000.5");
    push("unlocked", "serial", "[10]", "");
    push("refused", "progress", "[10]", "");
    push("twice", "act", "[10]", "");
    run_for(NS_PER_S);
    push("twice", "act", "[10]", "");
    push("again", "act", "[10,\"fail\"]", ",\"retry\":1");
    push("later", "act", "[10,\"snooze\"]", "");
    run_for(40 * NS_PER_S);
    assert_told("ending=invalid jid=\"\" class=- ", "ending=expired jid=late ", "ending=no_resource jid=unlocked ",
                "ending=refused jid=refused ", "task_seen_before jid=twice class=act queue=jobs seconds=0.9",
                "ending=failed jid=again ", "ending=dead jid=again ");
    assert_int_equal(told_times("handler ends twice"), 2);
    assert_in_range(told_times("ending=snoozed jid=later "), 5, 8);
    assert_contains(ask(scene.queue, "ZRANGE dead 0 -1"), "\"error_class\":\"HF::InvalidTask\",");
    assert_contains(ask(scene.queue, "ZRANGE dead 0 -1"), "\"error_class\":\"HF::NoResource\",");
    assert_contains(ask(scene.queue, "ZRANGE dead 0 -1"), "\"error_class\":\"HF::ClassNotAllowed\",");
    assert_contains(ask(scene.queue, "ZRANGE schedule 0 -1"), "\"jid\":\"later\",");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

RUN_TESTS_WITH(set_up, tear_down)
