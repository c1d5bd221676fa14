/* The handlers of a dry run: they hold as long as they should, hear when they are to stop, and are treated as those
 * they stand for. */
#include "tests/support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "worker/config/findings.h"
#include "worker/dry_run/count/record.h"
#include "worker/dry_run/plan/load_generator.h"
#include "worker/dry_run/run/simulated_handlers.h"
#include "worker/plugin/plugin.h"
#include "worker/task/job_host.h"
#include "worker/task/run_table.h"

enum { RINGS = 2, CAPACITY = 4096 };

static struct dry_run_plan plan;
static struct record_ring *rings[RINGS];
static void *memory;
static _Atomic uint64_t lost;
static struct simulation *simulation;
static struct plugins *plugins;
static struct run_table *run_table;
static struct hf_job *job;
static struct redlock_validity validity;
static struct buffer bytes;
static struct record *record;
static const char *const names[] = {"account:1"};

static void set_up(void)
{
    plan_init(&plan);
    memcpy(plan.id, "00112233aabb", sizeof plan.id);
    plan.seed = 1;
    plan.hold = (struct distribution){.kind = DISTRIBUTION_FIXED, .mean_s = 0.01};
    memory = mmap(NULL, RINGS * record_ring_size(CAPACITY), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = 0; i < RINGS; i++)
        rings[i] = record_ring_place((char *)memory + i * record_ring_size(CAPACITY), CAPACITY);
    run_table = run_table_create(1);
    run_entry_open(run_table_entry(run_table, 0), "jid", "Class");
    job = memory_new(struct hf_job);
    record = memory_new(struct record);
    *job = (struct hf_job){.jid = "0123456789ab",
                           .class_name = DRY_RUN_CLASS,
                           .resources = names,
                           .resource_count = 1,
                           .fence = "42",
                           .run_table = run_table,
                           .run_entry = run_table_entry(run_table, 0)};
    atomic_store(&lost, 0);
    atomic_store(&validity.until, INT64_MAX);
}

static void tear_down(void)
{
    plugins_close(plugins);
    simulation_destroy(simulation);
    plugins = NULL;
    simulation = NULL;
    run_table_destroy(run_table);
    free(job);
    free(record);
    buffer_fini(&bytes);
    plan_fini(&plan);
    assert_int_equal(munmap(memory, RINGS * record_ring_size(CAPACITY)), 0);
}

static void simulate(const struct simulated_class *classes, size_t count, const struct plugins *real)
{
    simulation = simulation_create(&(struct simulation_options){
        .plan = &plan, .classes = classes, .class_count = count, .rings = rings, .ring_count = RINGS, .lost = &lost});
    plugins = simulated_plugins(simulation, real);
}

static int run(void)
{
    const struct plugin_handler *handler = plugins_find(plugins, job->class_name);
    assert_non_null(handler);
    return handler->run(job, plugin_handler_state(handler));
}

/* The next of what the first ring has. */
static const struct handler_event *handler_next(enum record_kind kind)
{
    static const char *at;
    static size_t left;
    if (record_ring_take(rings[0], &bytes) > 0) {
        at = bytes.bytes;
        left = bytes.length;
    }
    assert_true(record_read(&at, &left, record));
    assert_int_equal(record->kind, kind);
    return &record->event;
}

static int64_t witnessed_hold(void)
{
    struct instant entered = handler_next(RECORD_ENTER)->at;
    return instant_since(entered, handler_next(RECORD_LEAVE)->at);
}

/* --- holding ------------------------------------------------------------------------------------------------------ */

TEST(it_holds_and_tells_when)
{
    simulate(NULL, 0, NULL);
    assert_int_equal(run(), HF_OK);
    const struct handler_event *event = handler_next(RECORD_ENTER);
    struct instant entered = event->at;
    assert_string_equal(event->jid, "0123456789ab");
    assert_int_equal(event->resource_count, 1);
    assert_string_equal(event->resources[0], "account:1");
    assert_int_equal(event->token, 42);
    event = handler_next(RECORD_LEAVE);
    assert_int_equal(event->token, 42);
    assert_false(event->failed);
    assert_true(instant_since(entered, event->at) >= 10 * NS_PER_MS);
}

TEST(the_same_task_holds_the_same_in_every_run_of_the_seed)
{
    plan.hold = (struct distribution){.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = 0.005};
    plan.speed = 2;
    simulate(NULL, 0, NULL);
    for (unsigned i = 0; i < 10; i++) {
        char jid[] = {(char)('a' + i), '\0'};
        job->jid = jid;
        assert_int_equal(run(), HF_OK);
        assert_true(witnessed_hold() >= load_hold_ns(&plan, &plan.hold, jid, 0));
        buffer_clear(&bytes);
    }
}

TEST(a_listed_class_has_a_hold_of_its_own)
{
    const struct simulated_class classes[] = {{DRY_RUN_CLASS, {.kind = DISTRIBUTION_FIXED, .mean_s = 7200}},
                                              {"a", {.kind = DISTRIBUTION_FIXED, .mean_s = 1e9}},
                                              {"z", {.kind = DISTRIBUTION_FIXED, .mean_s = 1e9}}};
    plan.hold.mean_s = 0;
    plan.speed = 360000;
    simulate(classes, 3, NULL);
    assert_int_equal(run(), HF_OK);
    assert_true(witnessed_hold() >= 20 * NS_PER_MS);
}

TEST(it_fails_as_the_plan_says)
{
    plan.failures = 1;
    simulate(NULL, 0, NULL);
    assert_int_equal(run(), HF_FAIL);
    assert_string_equal(job->outcome.failure.error_class, "HF::Simulated");
    handler_next(RECORD_ENTER);
    assert_true(handler_next(RECORD_LEAVE)->failed);
}

/* --- stopping ----------------------------------------------------------------------------------------------------- */

static void is_stopped(void)
{
    plan.hold.mean_s = 3600;
    plan.failures = 1;
    simulate(NULL, 0, NULL);
    assert_int_equal(run(), HF_CANCELLED);
    handler_next(RECORD_ENTER);
    assert_false(handler_next(RECORD_LEAVE)->failed);
}

TEST(it_hears_that_the_task_was_cancelled)
{
    job_cancel(job, HF_USER);
    is_stopped();
}

TEST(it_hears_that_the_worker_stops)
{
    atomic_store(&run_table->must_stop, true);
    is_stopped();
}

/* Nobody tells it: it looks when the lock was to end. */
TEST(it_stops_when_its_lock_is_over)
{
    job->validity = &validity;
    struct instant until = instant_after(instant_now(), 20 * NS_PER_MS);
    atomic_store(&validity.until, until.ns);
    is_stopped();
    assert_true(!instant_before(record->event.at, until));
}

static void *lose_later(void *unused)
{
    (void)unused;
    poll(NULL, 0, 5);
    atomic_store(&validity.until, 0);
    return NULL;
}

TEST(it_hears_that_its_lock_was_lost)
{
    pthread_t other;
    job->validity = &validity;
    assert_int_equal(pthread_create(&other, NULL, lose_later, NULL), 0);
    is_stopped();
    pthread_join(other, NULL);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static void *run_once(void *unused)
{
    (void)unused;
    struct hf_job own = *job;
    const struct plugin_handler *handler = plugins_find(plugins, DRY_RUN_CLASS);
    handler->run(&own, plugin_handler_state(handler));
    return NULL;
}

TEST(each_thread_has_a_ring_and_who_has_none_is_counted)
{
    plan.hold.mean_s = 0;
    simulate(NULL, 0, NULL);
    for (unsigned i = 0; i < RINGS + 1; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, run_once, NULL), 0);
        pthread_join(thread, NULL);
    }
    for (unsigned i = 0; i < RINGS; i++)
        assert_true(record_ring_take(rings[i], &bytes) > 0);
    assert_int_equal(atomic_load(&lost), 2);
}

/* --- what they stand for ------------------------------------------------------------------------------------------ */

static int must_not_run(hf_job *unused, void *none)
{
    (void)unused;
    (void)none;
    fail_msg("a handler of production ran");
    return HF_FAIL;
}

static int check(const char *args, size_t length, char *reason, size_t reason_size)
{
    (void)args;
    (void)length;
    (void)reason;
    (void)reason_size;
    return 1;
}

TEST(classes_are_treated_as_they_were)
{
    static const char *const templates[] = {"account:{0}", NULL}, *const program[] = {"/bin/true", NULL};
    const struct plugin_handler transfer = {.class_name = "transfer",
                                            .about = "moves money",
                                            .flags = HF_LOCK_REQUIRED | HF_PROGRESS,
                                            .run = must_not_run,
                                            .check = check,
                                            .retries = 3,
                                            .retry_for_ms = 4,
                                            .retry_queue = "later",
                                            .expires_in_ms = 5,
                                            .mode = HF_CORRECTNESS,
                                            .resources = templates,
                                            .on_conflict = HF_CONFLICT_DELAY,
                                            .hold_at_least_ms = 6,
                                            .isolation = HF_ISOLATION_PROCESS,
                                            .timeout_ms = 7,
                                            .grace_ms = 8,
                                            .max_hold_ms = 9,
                                            .origin = "transfer.so"};
    const struct plugin_handler report = {.class_name = "report", .program = program, .flags = HF_PROGRESS};
    struct plugins *real = plugins_create_built_in("real", NULL);
    assert_true(plugins_add_built_in(real, &transfer));
    assert_true(plugins_add_built_in(real, &report));
    simulate(NULL, 0, real);
    assert_int_equal(plugins_handler_count(plugins), 3);
    struct plugin_handler simulated = *plugins_find(plugins, "transfer");
    assert_true(simulated.run != must_not_run);
    assert_ptr_equal(plugin_handler_state(&simulated), simulation);
    assert_int_equal(simulated.isolation, HF_ISOLATION_THREAD);
    assert_null(simulated.check); /* run() asks */
    simulated.check = transfer.check;
    simulated.run = transfer.run;
    simulated.isolation = transfer.isolation;
    simulated.grace_ms = transfer.grace_ms;
    simulated.plugin = transfer.plugin;
    assert_memory_equal(&simulated, &transfer, sizeof transfer);
    assert_null(plugins_find(plugins, "report")->program);
    job->class_name = "report";
    assert_int_equal(run(), HF_OK);
    job->class_name = "transfer";
    assert_int_equal(run(), HF_OK);
    plugins_close(real);
}

static int check_number(const char *args, size_t length, char *reason, size_t reason_size)
{
    if (length == 7 && memcmp(args, "[\"boom\"", 7) == 0)
        abort();
    snprintf(reason, reason_size, "it wants a number");
    return length == 3 && memcmp(args, "[1]", 3) == 0;
}

static int run_with(const char *args)
{
    buffer_clear(&bytes);
    job_outcome_clear(&job->outcome);
    job->args = (struct text_span){args, strlen(args)};
    return run();
}

/* As in production, and the handler does not hold. */
TEST(arguments_are_checked_apart)
{
    const struct plugin_handler transfer = {.class_name = "transfer", .run = must_not_run, .check = check_number};
    struct argument_check *apart;
    struct error error = ERROR_NONE;
    struct plugins *real = plugins_create_built_in("real", NULL);
    assert_true(plugins_add_built_in(real, &transfer));
    assert_true(argument_check_start(&apart, real, 100, 0, &error));
    simulation = simulation_create(&(struct simulation_options){
        .plan = &plan, .rings = rings, .ring_count = RINGS, .lost = &lost, .check = apart});
    plugins = simulated_plugins(simulation, real);
    job->class_name = "transfer";

    assert_int_equal(run_with("[1]"), HF_OK);
    witnessed_hold();
    assert_int_equal(run_with("[2]"), HF_BURY);
    assert_string_equal(job->outcome.failure.error_class, "HF::BadArguments");
    assert_string_equal(job->outcome.failure.message, "it wants a number");
    assert_int_equal(record_ring_take(rings[0], &bytes), 0);
    assert_int_equal(run_with("[\"boom\""), HF_BURY);
    assert_string_equal(job->outcome.failure.error_class, "HF::Crashed");
    handler_next(RECORD_CRASH);
    assert_string_equal(record->crash.class_name, "transfer");
    assert_int_equal(record->crash.signal, SIGABRT);
    assert_int_equal(run_with("[1]"), HF_OK);

    argument_check_end(apart);
    plugins_close(real);
}

TEST(the_class_of_rehearsals_needs_a_lock_in_the_usual_mode)
{
    simulate(NULL, 0, NULL);
    const struct plugin_handler *handler = plugins_find(plugins, DRY_RUN_CLASS);
    assert_int_equal(handler->flags, HF_LOCK_REQUIRED);
    assert_int_equal(handler->mode, HF_MODE_USUAL);
    assert_null(handler->check);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
