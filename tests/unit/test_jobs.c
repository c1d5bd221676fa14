/* The small jobs against a fake host: echo, sleep, render. */
#include "tests/support/test.h"

#include <sys/stat.h>

#include "tests/support/fake_host.h"
#include "tests/support/private_directory.h"

static struct fake_plugin *open_plugin(const char *name, const struct fake_setting *settings)
{
    char reason[512] = "";
    struct fake_plugin *plugin = fake_plugin_open(name, settings, reason);
    if (plugin == NULL)
        fail_msg("%s", reason);
    return plugin;
}

static const struct fake_setting no_settings[] = {{NULL, NULL}};

static hf_job job_with(struct fake_arg arg)
{
    return (hf_job){.jid = "j", .args = {arg}, .arg_count = 1};
}

/* --- echo --------------------------------------------------------------------------------------------------- */

TEST(echo_ends_as_it_is_asked_to)
{
    static const struct {
        const char *mode;
        int code;
        const char *error;
    } cases[] = {
        {"hello", HF_OK, ""},
        {"fail", HF_FAIL, "asked to fail"},
        {"bury", HF_BURY, "asked to bury"},
        {"discard", HF_DISCARD, ""},
        {"crash", HF_BURY, "a crash was asked for, and the setting crash is not \"allowed\""},
    };
    struct fake_plugin *plugin = open_plugin("echo", no_settings);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hf_job job = job_with(FAKE_TEXT(cases[i].mode));
        assert_int_equal(fake_plugin_run(plugin, &job), cases[i].code);
        assert_string_equal(job.error, cases[i].error);
        assert_int_equal(job.logged, 1);
    }
    hf_job empty = {.jid = "j"};
    assert_int_equal(fake_plugin_run(plugin, &empty), HF_OK);
    fake_plugin_close(plugin);
}

TEST(echo_reports_its_arguments_when_asked_to)
{
    struct fake_plugin *plugin = open_plugin("echo", no_settings);
    hf_job job = job_with(FAKE_TEXT("result")), other = job_with(FAKE_TEXT("hello"));
    assert_int_equal(fake_plugin_run(plugin, &job), HF_OK);
    assert_string_equal(job.result, "[\"result\"]");
    assert_int_equal(fake_plugin_run(plugin, &other), HF_OK);
    assert_null(other.result);
    fake_job_clear(&job);
    fake_plugin_close(plugin);
}

static void crash_when_allowed(void)
{
    static const struct fake_setting allowed[] = {{"crash", "allowed"}, {NULL, NULL}};
    char reason[512];
    struct fake_plugin *plugin = fake_plugin_open("echo", allowed, reason);
    hf_job job = job_with(FAKE_TEXT("crash"));
    if (plugin != NULL)
        fake_plugin_run(plugin, &job);
}

TEST(echo_crashes_only_where_that_is_allowed)
{
    assert_true(test_aborts(crash_when_allowed));
}

/* --- sleep -------------------------------------------------------------------------------------------------- */

static void cancel_at_the_third_question(hf_job *job)
{
    job->is_cancelled = job->asked >= 3;
}

TEST(sleep_waits_and_wakes_when_cancelled)
{
    struct fake_plugin *plugin = open_plugin("sleep", no_settings);
    hf_job job = job_with(FAKE_NUMBER(30));
    struct instant before = instant_now();
    assert_int_equal(fake_plugin_run(plugin, &job), HF_OK);
    assert_true(instant_since(before, instant_now()) >= 30 * NS_PER_MS);
    job = job_with(FAKE_NUMBER(3600 * 1000)); /* an hour */
    job.when_asked = cancel_at_the_third_question;
    assert_int_equal(fake_plugin_run(plugin, &job), HF_CANCELLED);
    fake_plugin_close(plugin);
}

TEST(sleep_buries_senseless_arguments)
{
    struct fake_plugin *plugin = open_plugin("sleep", no_settings);
    hf_job jobs[] = {
        job_with(FAKE_NUMBER(-1)), job_with(FAKE_NUMBER(INT64_MAX)), job_with(FAKE_TEXT("1")), {.jid = "j"}};
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++)
        assert_int_equal(fake_plugin_run(plugin, &jobs[i]), HF_BURY);
    fake_plugin_close(plugin);
}

/* --- render ------------------------------------------------------------------------------------------------- */

struct place {
    char directory[PRIVATE_DIRECTORY_MAX], log[300], result[300];
    struct fake_setting settings[4];
    struct fake_plugin *plugin;
};
static struct place *place;

static void enter(void)
{
    place = calloc(1, sizeof *place);
    private_directory_create(place->directory);
    snprintf(place->log, sizeof place->log, "%s/log", place->directory);
    snprintf(place->result, sizeof place->result, "%s/page-1.txt", place->directory);
    place->settings[0] = (struct fake_setting){"directory", place->directory};
    place->settings[1] = (struct fake_setting){"log", place->log};
    place->plugin = open_plugin("render", place->settings);
}

static void leave(void)
{
    fake_plugin_close(place->plugin);
    unlink(place->log);
    unlink(place->result);
    int failed = rmdir(place->directory); /* fails if an unfinished file was left */
    free(place);
    assert_int_equal(failed, 0);
}

static unsigned lines_in(const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned lines = 0;
    if (file == NULL)
        return 0;
    for (int c; (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

static hf_job page(const char *key, int64_t work_ms)
{
    return (hf_job){.jid = "jid-1", .args = {FAKE_TEXT(key), FAKE_NUMBER(work_ms)}, .arg_count = 2};
}

TEST(render_computes_a_result_once)
{
    char text[64] = "";
    for (int i = 0; i < 3; i++) {
        hf_job job = page("page-1", 1);
        assert_int_equal(fake_plugin_run(place->plugin, &job), HF_OK);
    }
    assert_int_equal(lines_in(place->log), 1);
    FILE *result = fopen(place->result, "r");
    assert_non_null(fgets(text, sizeof text, result));
    fclose(result);
    assert_string_equal(text, "page-1, rendered by task jid-1\n");
}

TEST(render_computes_again_what_is_not_fresh)
{
    fake_plugin_close(place->plugin);
    place->settings[2] = (struct fake_setting){"fresh_for", "0"};
    place->plugin = open_plugin("render", place->settings);
    for (int i = 0; i < 2; i++) {
        hf_job job = page("page-1", 0);
        assert_int_equal(fake_plugin_run(place->plugin, &job), HF_OK);
    }
    assert_int_equal(lines_in(place->log), 2);
}

static void run_another_in_between(hf_job *job)
{
    hf_job other = page("page-1", 0);
    job->when_asked = NULL;
    assert_int_equal(fake_plugin_run(place->plugin, &other), HF_OK);
}

TEST(render_interleaved_computes_twice)
{
    hf_job job = page("page-1", 0);
    job.when_asked = run_another_in_between;
    assert_int_equal(fake_plugin_run(place->plugin, &job), HF_OK);
    assert_int_equal(lines_in(place->log), 2);
}

static void cancel_at_the_second_question(hf_job *job)
{
    job->is_cancelled = job->asked >= 2;
}

TEST(render_cancelled_leaves_no_result)
{
    hf_job job = page("page-1", 0);
    job.when_asked = cancel_at_the_second_question; /* the one before the rename */
    assert_int_equal(fake_plugin_run(place->plugin, &job), HF_CANCELLED);
    assert_int_equal(access(place->result, F_OK), -1);
}

TEST(render_takes_no_paths_for_keys)
{
    static const char *const keys[] = {
        "../x", "", ".x", "a/b", "a b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        hf_job job = page(keys[i], 0);
        assert_int_equal(fake_plugin_run(place->plugin, &job), HF_BURY);
    }
}

TEST(render_fails_when_it_cannot_write)
{
    assert_int_equal(mkdir(place->result, 0700), 0); /* in the way of the rename, and old */
    struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, place->result, old, 0), 0);
    hf_job job = page("page-1", 0);
    assert_int_equal(fake_plugin_run(place->plugin, &job), HF_FAIL);
    assert_string_equal(job.error_class, "FileError");
    assert_int_equal(rmdir(place->result), 0);
}

RUN_TESTS_BETWEEN(enter, leave)
