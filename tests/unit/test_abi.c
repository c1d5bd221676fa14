/* What was built against version 1.0 of jobs/job.h works for ever: the layout of today's header begins with it, and a
 * plugin of then is loaded and runs, as source and as it was built. */
#include "tests/support/test.h"

#include <stdarg.h>
#include <sys/stat.h>

#include "tests/support/abi_layout.h"
#include "tests/support/private_directory.h"
#include "worker/plugin/plugin.h"

/* --- the layout ------------------------------------------------------------------------------------------------- */

static bool is_struct(const struct abi_fact *fact)
{
    return fact->offset == 0 && fact->size > 0 && strchr(fact->name, '.') == NULL;
}

TEST(the_layout_of_1_0_is_the_beginning_of_todays)
{
    size_t count = 0;
    for (; abi_facts_1_0[count].name != NULL; count++) {
        const struct abi_fact *then = &abi_facts_1_0[count], *today = &abi_facts_today[count];
        assert_string_equal(today->name, then->name);
        bool fits =
            today->offset == then->offset && (is_struct(then) ? today->size >= then->size : today->size == then->size);
        if (!fits)
            fail_msg("%s was at %zu with %zu bytes, and is at %zu with %zu", then->name, then->offset, then->size,
                     today->offset, today->size);
    }
    assert_null(abi_facts_today[count].name);
    assert_true(count > 100);
}

/* --- a host that has all of it ---------------------------------------------------------------------------------- */

struct hf_job {
    unsigned attempt;
    char checkpoint[64], progress[64], result[64], follower[128], error[128];
    int64_t retry_in_ms;
    unsigned logged, events;
};

static const char *job_jid(const hf_job *job)
{
    (void)job;
    return "b0b";
}

static const char *job_class_name(const hf_job *job)
{
    (void)job;
    return "abi.all";
}

static const char *job_args(const hf_job *job, size_t *length)
{
    static const char args[] = "[7,\"seven\"]";
    (void)job;
    *length = strlen(args);
    return args;
}

static unsigned job_attempt(const hf_job *job)
{
    return job->attempt;
}

static int job_arg_integer(const hf_job *job, unsigned index, int64_t *value)
{
    (void)job;
    *value = 7;
    return index == 0;
}

static int job_arg_text(const hf_job *job, unsigned index, const char **text)
{
    (void)job;
    *text = "seven";
    return index == 1;
}

__attribute__((format(printf, 3, 4))) static void job_log(hf_job *job, enum hf_log_level level, const char *format, ...)
{
    (void)format;
    job->logged += level == HF_LOG_INFO;
}

static void job_event(hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields, size_t count)
{
    assert_true(level == HF_LOG_INFO && count == 2);
    assert_string_equal(name, "abi_event");
    assert_string_equal(fields[1].key, "two");
    assert_string_equal(fields[1].value, "second");
    job->events++;
}

__attribute__((format(printf, 3, 4))) static void job_error(hf_job *job, const char *error_class, const char *format,
                                                            ...)
{
    va_list values;
    int length = snprintf(job->error, sizeof job->error, "%s: ", error_class);
    va_start(values, format);
    vsnprintf(job->error + length, sizeof job->error - (size_t)length, format, values);
    va_end(values);
}

static int64_t lock_valid_for_ms(const hf_job *job)
{
    (void)job;
    return 1000;
}

static unsigned lock_resources(const hf_job *job, const char *const **names)
{
    static const char *const resources[] = {"abi:a", "abi:b"};
    (void)job;
    *names = resources;
    return 2;
}

static const char *lock_fence(const hf_job *job, unsigned resource)
{
    (void)job;
    return resource < 2 ? "17" : "";
}

static int lock_verify(hf_job *job)
{
    (void)job;
    return 1;
}

static int no(const hf_job *job)
{
    (void)job;
    return 0;
}

static enum hf_cancel_reason no_reason(const hf_job *job)
{
    (void)job;
    return HF_NOT_CANCELLED;
}

static int keep(char *place, size_t size, const char *json)
{
    if (json[0] != '{' || json[1] == '\0')
        return 0;
    snprintf(place, size, "%s", json);
    return 1;
}

static int report_progress(hf_job *job, const char *json)
{
    return keep(job->progress, sizeof job->progress, json);
}

static int report_result(hf_job *job, const char *json)
{
    return keep(job->result, sizeof job->result, json);
}

static int report_retry_in(hf_job *job, int64_t milliseconds)
{
    if (milliseconds < 0)
        return 0;
    job->retry_in_ms = milliseconds;
    return 1;
}

static const char *checkpoint_load(const hf_job *job)
{
    return job->checkpoint[0] != '\0' ? job->checkpoint : NULL;
}

static int checkpoint_save(hf_job *job, const char *json)
{
    return keep(job->checkpoint, sizeof job->checkpoint, json);
}

static int push_add(hf_job *job, const char *task, char *reason, size_t reason_size)
{
    if (keep(job->follower, sizeof job->follower, task))
        return 1;
    snprintf(reason, reason_size, "no object");
    return 0;
}

static const void *api(const char *name, unsigned version)
{
    static const hf_job_api job = {.size = sizeof job,
                                   .jid = job_jid,
                                   .class_name = job_class_name,
                                   .queue = job_jid,
                                   .args = job_args,
                                   .attempt = job_attempt,
                                   .arg_integer = job_arg_integer,
                                   .arg_text = job_arg_text,
                                   .log = job_log,
                                   .event = job_event,
                                   .error = job_error};
    static const hf_lock_api lock = {.size = sizeof lock,
                                     .valid_for_ms = lock_valid_for_ms,
                                     .resources = lock_resources,
                                     .in_danger = no,
                                     .fence = lock_fence,
                                     .verify = lock_verify,
                                     .descriptor = no};
    static const hf_cancel_api cancel = {.size = sizeof cancel, .cancelled = no, .reason = no_reason};
    static const hf_report_api report = {
        .size = sizeof report, .progress = report_progress, .result = report_result, .retry_in = report_retry_in};
    static const hf_checkpoint_api checkpoint = {
        .size = sizeof checkpoint, .load = checkpoint_load, .save = checkpoint_save};
    static const hf_push_api push = {.size = sizeof push, .add = push_add};
    static const struct {
        const char *name;
        const void *table;
    } tables[] = {
        {"job", &job},  {"lock", &lock}, {"cancel", &cancel}, {"report", &report}, {"checkpoint", &checkpoint},
        {"push", &push}};
    for (size_t i = 0; version == 1 && i < sizeof tables / sizeof tables[0]; i++)
        if (strcmp(name, tables[i].name) == 0)
            return tables[i].table;
    return NULL;
}

static const char *setting(const hf_host *host, const char *key)
{
    (void)host;
    return strcmp(key, "word") == 0 ? "seven" : NULL;
}

static const struct hf_host *host_for(void *context, const char *plugin_name)
{
    static const hf_host host = {sizeof host, HF_ABI_MAJOR, HF_ABI_MINOR, api, setting};
    (void)context;
    assert_string_equal(plugin_name, "abi_1_0");
    return &host;
}

/* --- the plugin ------------------------------------------------------------------------------------------------- */

static void runs_are_as_they_were(const struct plugins *plugins)
{
    const struct plugin_handler *handler = plugins_find(plugins, "abi.all");
    hf_job job = {.attempt = 0};
    int code = handler->run(&job, plugin_handler_state(handler));
    assert_string_equal(job.error, "Abi::FirstRun: it fails once");
    assert_int_equal(code, HF_FAIL);
    assert_string_equal(job.progress, "{\"step\":1,\"steps\":2}");
    assert_int_equal(job.retry_in_ms, 10);
    job = (hf_job){.attempt = 1, .checkpoint = "{\"step\":1}"};
    code = handler->run(&job, plugin_handler_state(handler));
    assert_string_equal(job.error, "");
    assert_int_equal(code, HF_OK);
    assert_string_equal(job.result, "{\"abi\":\"1.0\"}");
    assert_string_equal(job.follower, "{\"class\":\"abi.follower\",\"args\":[]}");
    assert_true(job.logged == 1 && job.events == 1);
}

static void members_are_as_they_were(const struct plugins *plugins)
{
    const struct plugin_handler *handler = plugins_find(plugins, "abi.members");
    char reason[100] = "";
    assert_string_equal(handler->about, "says everything");
    assert_int_equal(handler->flags, HF_SERIAL | HF_NO_GRAVE);
    assert_int_equal(handler->check("[]", 2, reason, sizeof reason), 0);
    assert_string_equal(reason, "there are no arguments");
    assert_true(handler->retries == 3 && handler->retry_for_ms == 4 && handler->expires_in_ms == 5);
    assert_string_equal(handler->retry_queue, "abi_later");
    assert_true(handler->mode == HF_EFFICIENCY && handler->on_conflict == HF_CONFLICT_DELAY);
    assert_string_equal(handler->resources[1], "abi_members");
    assert_int_equal(handler->isolation, HF_ISOLATION_PROCESS);
    assert_true(handler->hold_at_least_ms == 6 && handler->timeout_ms == 7 && handler->grace_ms == 8 &&
                handler->max_hold_ms == 9);
}

/* A checkout may have a mask of its own, so the plugin is loaded from a directory of ours. */
static void works_from(const char *file)
{
    char directory[PRIVATE_DIRECTORY_MAX], path[PRIVATE_DIRECTORY_MAX + 32];
    struct findings findings = {0};
    struct error error = ERROR_NONE;
    private_directory_create(directory);
    snprintf(path, sizeof path, "%s/abi.so", directory);
    private_file_copy(file, path);
    struct plugins *plugins = plugins_load(directory, NULL, 0, &findings);
    findings_print(&findings, stderr);
    assert_int_equal(findings.errors, 0);
    assert_true(plugins_open(plugins, host_for, NULL, &error));
    assert_int_equal(plugins_handler_count(plugins), 3);
    runs_are_as_they_were(plugins);
    members_are_as_they_were(plugins);
    plugins_close(plugins);
    unlink(path);
    assert_int_equal(rmdir(directory), 0);
}

TEST(a_plugin_of_1_0_that_is_built_anew_works)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/plugins/abi_1_0/plugin.so", test_build());
    works_from(path);
}

TEST(a_plugin_that_was_built_when_1_0_was_new_works)
{
#ifdef __x86_64__
    works_from("tests/plugins/abi_1_0/x86_64.so");
#else
    test_skip("the plugin of 1.0 is for x86-64");
#endif
}

RUN_TESTS
