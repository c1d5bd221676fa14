/* One worker in the world, with handlers that do as their tasks say. The fleets of test_fleets show what must never
 * happen; the tests that include this show what does. */
#ifndef SIM_WORKER_FIXTURE_H
#define SIM_WORKER_FIXTURE_H

#include "tests/support/test.h"

#include <stdio.h>

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
    bool has_no_locks, drains;
    uint64_t max_tasks;
    unsigned process; /* under a supervisor; 0 = it has none */
    int64_t ttl_ms;   /* 0 = TTL_MS */
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
    struct run_table *run_table;
    struct zygote_world *zygote;
    unsigned blocks_left;
    struct instant ended_at;
    FILE *history;
    char *text;
    size_t length;
} scene;

/* --- what is told ------------------------------------------------------------------------------------------------- */

static inline const char *history(void)
{
    fflush(scene.history);
    return scene.text;
}

static inline unsigned told_times(const char *text)
{
    unsigned times = 0;
    for (const char *at = history(); (at = strstr(at, text)) != NULL; at++)
        times++;
    return times;
}

/* Each of these, once. */
#define assert_told(...) assert_each_told((const char *const[]){__VA_ARGS__, NULL})
static inline void assert_each_told(const char *const *texts)
{
    for (; *texts != NULL; texts++)
        if (told_times(*texts) != 1)
            fail_msg("told %u times: %s, in:\n%s", told_times(*texts), *texts, history());
}

/* What the world tells goes into the history, and what fails here does not. */
static inline void run_for(int64_t ns)
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

static inline const char *ask(struct node *node, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline const char *ask(struct node *node, const char *format, ...)
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
static inline void push(const char *jid, const char *class_name, const char *args, const char *more)
{
    ask(scene.queue, "LPUSH queue:jobs '{\"class\":\"%s\",\"jid\":\"%s\",\"args\":%s,\"enqueued_at\":%.6f%s}'",
        class_name, jid, args, (double)node_now_us(scene.queue) / 1e6, more);
}

/* A hash of the process: its name, and so what dashboards see. */
static inline const char *ask_process(const char *suffix)
{
    return ask(scene.queue, "EVAL \"return redis.call('HGETALL', redis.call('SMEMBERS', 'processes')[1] .. '%s')\" 0",
               suffix);
}

/* The jids of a queue from its head on, in the order in which they would be claimed. */
static inline void assert_queue(const char *jids)
{
    assert_string_equal(ask(scene.queue,
                            "EVAL \"local out = '' for _, task in ipairs(redis.call('LRANGE', 'queue:jobs', 0, -1)) do "
                            "out = cjson.decode(task).jid .. ' ' .. out end return {out}\" 0"),
                        jids);
}

/* As dashboards do, and commands. */
static inline void call(const char *list, const char *text)
{
    ask(scene.queue,
        "EVAL \"local id = redis.call('SMEMBERS', 'processes')[1] "
        "redis.call('LPUSH', string.gsub('%s', 'ID', id), '%s')\" 0",
        list, text);
}

/* --- handlers ----------------------------------------------------------------------------------------------------- */

static inline const struct hf_host *host_of_handlers(void)
{
    static const struct hf_host *host;
    static const struct config none;
    if (host == NULL)
        host = job_hosts_for(job_hosts_create(&none), "world");
    return host;
}

static inline void speak(hf_job *job, const hf_job_api *jobs)
{
    const hf_field fields[] = {{.key = "rows", .value = "7"}, {.key = "of", .value = "two words"}};
    for (unsigned level = HF_LOG_DEBUG; level <= HF_LOG_ERROR; level++) {
        jobs->log(job, (enum hf_log_level)level, "spoken at %u", level);
        jobs->event(job, (enum hf_log_level)level, "spoken", fields, 2);
    }
}

static inline void child_push(hf_job *job, const struct hf_host *host)
{
    const hf_push_api *pushes = host->api("push", 1);
    char reason[256];
    assert_true(pushes->add(job, "{\"class\":\"act\",\"args\":[],\"jid\":\"child\"}", reason, sizeof reason));
}

/* What a handler does at its end; and how it ends. */
static inline int end_as(hf_job *job, const struct hf_host *host, const char *word)
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
static inline int act(hf_job *job, void *state)
{
    const struct hf_host *host = host_of_handlers();
    const hf_job_api *jobs = host->api("job", 1);
    const hf_cancel_api *cancel = host->api("cancel", 1);
    const hf_report_api *report = host->api("report", 1);
    const hf_lock_api *lock = host->api("lock", 1);
    const hf_checkpoint_api *checkpoint = host->api("checkpoint", 1);
    const char *word = "", *loaded = checkpoint->load(job), *const * names;
    int64_t ms = 0;
    (void)state;
    (void)jobs->arg_integer(job, 0, &ms);
    (void)jobs->arg_text(job, 1, &word);
    bool is_locked = lock->resources(job, &names) > 0;
    world_tell("handler begins %s from %s, try %u at seat %u of %s for %lld ms", job->jid,
               loaded != NULL ? loaded : "nothing", jobs->attempt(job), lock->seat(job),
               is_locked ? names[0] : "nothing", (long long)lock->valid_for_ms(job) / 100 * 100);
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

static inline struct plugins *handlers_make(void)
{
    static const char *const program[] = {"/world", NULL};
    static const struct plugin_handler kinds[] = {
        {.class_name = "act"},
        {.class_name = "serial", .flags = HF_SERIAL},
        {.class_name = "progress", .flags = HF_PROGRESS},
        {.class_name = "once", .flags = HF_AT_MOST_ONCE},
        {.class_name = "runner", .isolation = HF_ISOLATION_PROCESS, .run = fleet_handler_run},
        {.class_name = "program", .isolation = HF_ISOLATION_PROCESS, .program = program},
    };
    struct plugins *plugins = plugins_create_built_in("world", NULL);
    (void)host_of_handlers();
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct plugin_handler handler = kinds[i];
        if (handler.isolation != HF_ISOLATION_PROCESS) {
            handler.run = act;
            handler.isolation = HF_ISOLATION_THREAD;
        }
        handler.origin = "world";
        assert_true(plugins_add_built_in(plugins, &handler));
    }
    return plugins;
}

/* --- the worker --------------------------------------------------------------------------------------------------- */

static inline const char *or_nothing(const char *text)
{
    return text != NULL ? text : "";
}

static inline struct config *config_make(void)
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

static inline void worker_main(void *argument)
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
                                     .process = setting->process,
                                     .observer = setting->observer,
                                     .report_path = setting->report_path};
    scene.run_table = options.run_table;
    scene.zygote = fleet_zygote_start(&zygote, options.run_table);
    process_blocks_begin();
    scene.exit_code = worker_run(&options, &scene.is_abandoned);
    scene.blocks_left = process_blocks_left(&(size_t){0});
    scene.ended_at = world_time();
    world_tell("exit code %d", (int)scene.exit_code);
}

static inline void group_main(void *argument)
{
    char reason[256] = "";
    (void)argument;
    struct redlock_nodes *session = redlock_nodes_open(&scene.options, reason, sizeof reason);
    assert_int_equal(redlock_nodes_init(session, &(struct redlock_group_terms){.max_ttl_ms = MAX_TTL_MS}),
                     REDLOCK_NODES_DONE);
    redlock_nodes_close(session);
}

/* Nothing has begun yet: tasks may be pushed before the worker is started. */
static inline void scene_make(const struct setting *setting)
{
    static const char *const names[NODES] = {"lock1", "lock2", "lock3"};
    world_begin(1);
    hosts_set_apart(0);
    network_begin();
    world_tell_to_stderr(true);
    fleet = (struct fleet){.is_calm = true, .hold_ns = 8 * 3600 * NS_PER_S}; /* so that no process crashes by chance */
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
    struct process *operator= process_start(host_create("operator"), "operator", group_main, NULL);
    await(operator->has_ended);
}

static inline void worker_start(void)
{
    scene.process = process_start(scene.host, "worker", worker_main, NULL);
}

/* A worker that is ready. */
static inline void work(const struct setting *setting)
{
    scene_make(setting);
    worker_start();
    await_told("worker_started");
    run_for(NS_PER_S);
}

/* So long after `since`, more or less a tenth of a second; everything was freed. */
static inline void assert_ends(enum exit_code exit_code, struct instant since, int64_t after_ms)
{
    await(!scene.process->is_alive);
    int64_t ms = instant_since(since, scene.ended_at) / NS_PER_MS;
    if (scene.exit_code != exit_code || ms < after_ms - 100 || ms > after_ms + 100)
        fail_msg("it ended with %d after %lld ms:\n%s", (int)scene.exit_code, (long long)ms, history());
    assert_true(scene.is_abandoned || scene.blocks_left == 0);
}

static inline struct instant stop(void)
{
    fleet_signal(scene.process, SIGTERM);
    return world_time();
}

static inline int set_up(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof scene);
    scene.history = open_memstream(&scene.text, &scene.length);
    log_set_level(LOG_INFO);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    fclose(scene.history);
    free(scene.text);
    return 0;
}

#endif
