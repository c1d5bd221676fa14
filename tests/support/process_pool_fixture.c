#include "tests/support/process_pool_fixture.h"

#include <stdio.h>

#include "base/memory.h"
#include "tests/support/launcher_fixture.h"
#include "tests/support/loop_until.h"
#include "tests/support/test.h"
#include "worker/isolation/runner_process.h"

struct process_pool *pool;
struct config *process_pool_config;
struct trip trips[TRIPS];
static struct plugins *plugins;
static struct config_plugin settings;
static struct config_pair pair;

/* --- the job's link ----------------------------------------------------------------------------------------------- */

static struct trip *trip_of(struct hf_job *job)
{
    return list_owner(job, struct trip, job);
}

static bool link_hears(struct hf_job *job, enum hf_log_level level)
{
    return level > HF_LOG_DEBUG && !trip_of(job)->is_deaf;
}

static void link_log(struct hf_job *job, enum hf_log_level level, const char *text)
{
    buffer_format(&trip_of(job)->said, "log %d %s\n", level, text);
}

static void link_event(struct hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields,
                       size_t count)
{
    buffer_format(&trip_of(job)->said, "event %d %s", level, name);
    for (size_t i = 0; i < count; i++)
        buffer_format(&trip_of(job)->said, " %s=%s", fields[i].key, fields[i].value);
    buffer_append_text(&trip_of(job)->said, "\n");
}

static bool link_progress(struct hf_job *job, const char *json)
{
    buffer_format(&trip_of(job)->said, "progress %s\n", json);
    return true;
}

static const struct job_link trip_link = {
    .hears = link_hears, .log = link_log, .event = link_event, .progress = link_progress};

/* --- trips -------------------------------------------------------------------------------------------------------- */

static void trip_began(struct isolated_run *run)
{
    struct trip *trip = list_owner(run, struct trip, run);
    trip->begun++;
    if (trip->kill_after_ns != 0)
        (void)run_entry_kill_by(run_table, run->run_entry, loop_after(loop, trip->kill_after_ns));
}

static void trip_ended(struct isolated_run *run, int code)
{
    struct trip *trip = list_owner(run, struct trip, run);
    assert_false(trip->has_ended);
    assert_int_equal(atomic_load(&run->run_entry->occupant), 0);
    trip->has_ended = true;
    trip->code = code;
    run_entry_close(run->run_entry);
}

static void trip_init(struct trip *trip, unsigned number)
{
    *trip = (struct trip){.rules = {.isolation = CONFIG_ISOLATION_PROCESS}};
    struct run_entry *run_entry = run_table_entry(run_table, number);
    run_entry_clear(run_entry);
    trip->job = (struct hf_job){.class_name = "restless",
                                .queue = "low",
                                .jid = "0123456789abcdef01234567",
                                .reports_progress = true,
                                .keeps_result = true,
                                .may_push = true,
                                .run_entry = run_entry,
                                .run_table = run_table,
                                .link = &trip_link};
    job_outcome_clear(&trip->job.outcome);
    trip->run = (struct isolated_run){.job = &trip->job,
                                      .run_entry = run_entry,
                                      .handler = plugins_find(plugins, "restless"),
                                      .rules = &trip->rules,
                                      .began = trip_began,
                                      .ended = trip_ended};
    assert_non_null(trip->run.handler);
}

void trip_start(struct trip *trip, const char *args)
{
    snprintf(trip->args, sizeof trip->args, "%s", args);
    trip->job.args = (struct text_span){trip->args, strlen(trip->args)};
    trip->has_ended = false;
    trip->begun = 0;
    buffer_clear(&trip->said);
    job_outcome_clear(&trip->job.outcome);
    if (trip->run.lock == NULL)
        run_entry_clear(trip->run.run_entry);
    run_entry_open(trip->run.run_entry, trip->job.jid, trip->job.class_name);
    process_pool_start(pool, &trip->run);
    assert_false(trip->begun > 0 || trip->has_ended);
}

static bool has_ended(void *context)
{
    return ((struct trip *)context)->has_ended;
}

static bool has_begun(void *context)
{
    return ((struct trip *)context)->begun > 0;
}

int trip_await(struct trip *trip)
{
    assert_true(loop_until(loop, has_ended, trip, TEST_PATIENCE_NS));
    return trip->code;
}

void trip_await_begin(struct trip *trip)
{
    assert_true(loop_until(loop, has_begun, trip, TEST_PATIENCE_NS));
}

int trip_run(const char *args)
{
    trip_start(&trips[0], args);
    return trip_await(&trips[0]);
}

const char *trip_result(void)
{
    assert_true(trips[0].job.outcome.has_result);
    return buffer_text(&trips[0].job.outcome.result);
}

int64_t trip_number(const struct trip *trip, const char *name)
{
    struct text_span value, whole = text_span_of(&trip->job.outcome.result);
    int64_t number = -1;
    assert_true(trip->job.outcome.has_result);
    assert_int_equal(json_object_member(whole, (struct text_span){name, strlen(name)}, &value), 1);
    assert_true(json_integer_read(value, &number));
    return number;
}

void restless_set(const char *key, const char *value)
{
    pair = (struct config_pair){(char *)(uintptr_t)key, (char *)(uintptr_t)value};
    settings = (struct config_plugin){.name = (char *)(uintptr_t) "restless", .settings = {&pair, 1}};
    process_pool_config->plugins = &settings;
    process_pool_config->plugin_count = 1;
}

/* --- setting up --------------------------------------------------------------------------------------------------- */

static void was_lost(void *context)
{
    (void)context;
    fail_msg("the zygote has died");
}

void process_pool_zygote_start(void)
{
    struct error error = ERROR_NONE;
    struct zygote_options options = {.runner = runner_main, .log = {.level = LOG_WARN, .fd = STDERR_FILENO}};
    run_table = options.run_table = run_table_create(TRIPS);
    assert_non_null(run_table);
    if (!zygote_start(&zygote, &options, &error))
        fail_msg("%s", error.text);
}

void process_pool_zygote_end(void)
{
    launcher_destroy(launcher);
    plugins_close(plugins);
    run_table_destroy(run_table);
}

void process_pool_zygote_use(struct loop *on)
{
    struct findings findings = {.count = 0};
    char directory[256], restless[] = "restless", *names[] = {restless};
    snprintf(directory, sizeof directory, "%s/tests/plugins", test_build());
    plugins = plugins_load(directory, names, 1, &findings);
    if (findings.errors > 0)
        fail_msg("%s", findings.items[0].text);
    findings_fini(&findings);
    launcher = launcher_create(on, &zygote, run_table, was_lost, NULL);
}

void process_pool_begin(struct loop *on)
{
    process_pool_config = memory_new(struct config);
    process_pool_config->worker.threads = 2;
    process_pool_config->worker.max_task_size = 1 << 20;
    process_pool_config->worker.log_level = LOG_INFO;
    const struct isolation_options options = {on, launcher, run_table, process_pool_config};
    pool = process_pool_create(&options);
    for (unsigned i = 0; i < TRIPS; i++)
        trip_init(&trips[i], i);
}

void process_pool_end(void)
{
    process_pool_destroy(pool);
    for (unsigned i = 0; i < TRIPS; i++) {
        job_outcome_fini(&trips[i].job.outcome);
        buffer_fini(&trips[i].said);
    }
    free(process_pool_config);
}

/* --- for all tests of a program, and for each --------------------------------------------------------------------- */

int process_pool_group_set_up(void **state)
{
    (void)state;
    process_pool_zygote_start();
    loop = loop_create(NULL);
    if (loop == NULL)
        return -1;
    process_pool_zygote_use(loop);
    return 0;
}

int process_pool_group_tear_down(void **state)
{
    (void)state;
    process_pool_zygote_end();
    loop_destroy(loop);
    return 0;
}

int process_pool_set_up(void **state)
{
    (void)state;
    process_pool_begin(loop);
    return 0;
}

int process_pool_tear_down(void **state)
{
    (void)state;
    process_pool_end();
    return 0;
}
