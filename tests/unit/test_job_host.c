/* What a handler is told about its lock, by the clock alone: there is no loop in these tests that could tell it. */
#include "tests/support/test.h"

#include "base/memory.h"
#include "worker/task/job_host.h"

#define SOON_NS (30 * NS_PER_MS)
#define LONG_NS (3600 * NS_PER_S)

static struct job_hosts *hosts;
static const hf_lock_api *lock;
static const hf_cancel_api *cancel;
static struct config config;
static const char *const resources[] = {"a", "b"};
static struct redlock_validity validity;
static struct run_table *run_table;
static hf_job job;
static char said[512];

static bool link_verify(struct hf_job *asked, int64_t limit_ns)
{
    (void)asked;
    return limit_ns > 0;
}

static int link_descriptor(struct hf_job *asked)
{
    return redlock_validity_descriptor(asked->validity);
}

static bool link_hears(struct hf_job *asked, enum hf_log_level level)
{
    (void)asked;
    return level != HF_LOG_DEBUG;
}

static void link_log(struct hf_job *asked, enum hf_log_level level, const char *text)
{
    snprintf(said, sizeof said, "%s %d %s", asked->jid, (int)level, text);
}

static void link_event(struct hf_job *asked, enum hf_log_level level, const char *name, const hf_field *fields,
                       size_t count)
{
    int used = snprintf(said, sizeof said, "%s %d %s", asked->jid, (int)level, name);
    for (size_t i = 0; i < count; i++)
        used += snprintf(said + used, sizeof said - (size_t)used, " %s=%s", fields[i].key, fields[i].value);
}

static bool link_progress(struct hf_job *asked, const char *json)
{
    snprintf(said, sizeof said, "%s at %s", asked->jid, json);
    return true;
}

static const struct job_link test_link = {.verify = link_verify,
                                          .descriptor = link_descriptor,
                                          .hears = link_hears,
                                          .log = link_log,
                                          .event = link_event,
                                          .progress = link_progress};

static void set_up(void)
{
    hosts = job_hosts_create(&config);
    const hf_host *host = job_hosts_for(hosts, "any");
    lock = host->api("lock", 1);
    cancel = host->api("cancel", 1);
    memset(&validity, 0, sizeof validity);
    run_table = run_table_create(1);
    assert_non_null(run_table);
    memset(&job, 0, sizeof job);
    job.resources = resources;
    job.resource_count = 2;
    job.validity = &validity;
    job.run_table = run_table;
    job.run_entry = run_table_entry(run_table, 0);
    job.link = &test_link;
    job.jid = "j1";
    job.class_name = "any";
    job_outcome_clear(&job.outcome);
    said[0] = '\0';
    snprintf(job.fence, sizeof job.fence, "17");
}

static void tear_down(void)
{
    if (atomic_load(&validity.descriptor) > 0)
        close(atomic_load(&validity.descriptor) - 1);
    job_outcome_fini(&job.outcome);
    run_table_destroy(run_table);
    job_hosts_destroy(hosts);
}

static int64_t now_ns(void)
{
    return instant_now().ns;
}

static void hold_for(int64_t ns, int64_t danger_after_ns)
{
    int64_t now = now_ns();
    atomic_store(&validity.until, now + ns);
    atomic_store(&validity.danger_from, now + danger_after_ns);
}

static void wait_until_lost(void)
{
    test_await(lock->valid_for_ms(&job) == 0 && !job_lock_is_valid(&job));
}

TEST(without_a_lock_nothing_can_be_lost)
{
    job.validity = NULL;
    const char *const *names = NULL;
    assert_true(lock->valid_for_ms(&job) == INT64_MAX);
    assert_int_equal(lock->resources(&job, &names), 0);
    assert_false(lock->in_danger(&job));
    assert_string_equal(lock->fence(&job, 0), "");
    assert_int_equal(lock->verify(&job), 1);
    assert_int_equal(lock->descriptor(&job), -1);
    assert_false(cancel->cancelled(&job));
}

TEST(every_resource_has_the_token_and_nothing_else_has_one)
{
    hold_for(LONG_NS, LONG_NS);
    assert_string_equal(lock->fence(&job, 0), "17");
    assert_string_equal(lock->fence(&job, 1), "17");
    assert_string_equal(lock->fence(&job, 2), "");
    assert_string_equal(lock->fence(&job, UINT32_MAX), "");
    job.fence[0] = '\0';
    assert_string_equal(lock->fence(&job, 0), "");
}

TEST(danger_and_loss_come_by_the_clock)
{
    hold_for(LONG_NS, SOON_NS);
    assert_false(lock->in_danger(&job));
    test_await(lock->in_danger(&job));
    assert_false(cancel->cancelled(&job));
    hold_for(SOON_NS, 0);
    assert_true(lock->in_danger(&job));
    wait_until_lost();
    assert_true(lock->in_danger(&job));
    assert_int_equal(cancel->reason(&job), HF_LOCK_LOST);
    assert_int_equal(lock->verify(&job), 0); /* and nobody is asked: there is no verifier */
}

TEST(the_descriptor_is_readable_when_the_lock_is_lost)
{
    hold_for(SOON_NS, SOON_NS);
    int descriptor = lock->descriptor(&job);
    assert_true(descriptor >= 0);
    assert_int_equal(lock->descriptor(&job), descriptor);
    struct pollfd lost = {.fd = descriptor, .events = POLLIN};
    assert_int_equal(poll(&lost, 1, (int)(TEST_PATIENCE_NS / NS_PER_MS)), 1);
    assert_false(job_lock_is_valid(&job));
}

TEST(a_lock_that_was_held_too_long_says_so_without_the_loop)
{
    hold_for(SOON_NS, SOON_NS);
    atomic_store(&job.run_entry->hold_until, atomic_load(&validity.until));
    assert_int_equal(cancel->reason(&job), HF_NOT_CANCELLED);
    wait_until_lost();
    assert_int_equal(cancel->reason(&job), HF_HELD_TOO_LONG);
    atomic_store(&validity.until, 0); /* as the loop does, a moment before it tells */
    assert_int_equal(cancel->reason(&job), HF_HELD_TOO_LONG);
}

/* The end of its validity came first, and stays the reason for as long as the handler goes on. */
TEST(a_lock_that_was_lost_earlier_was_not_held_too_long)
{
    hold_for(SOON_NS, SOON_NS);
    atomic_store(&job.run_entry->hold_until, atomic_load(&validity.until) + 1);
    wait_until_lost();
    test_await(now_ns() > atomic_load(&job.run_entry->hold_until));
    assert_int_equal(cancel->reason(&job), HF_LOCK_LOST);
}

TEST(what_the_loop_was_told_is_the_reason)
{
    atomic_store(&job.run_entry->hold_until, now_ns() - 1);
    job_lock_lost(&job, HF_LOCK_LOST);
    job_lock_lost(&job, HF_HELD_TOO_LONG);
    assert_int_equal(cancel->reason(&job), HF_LOCK_LOST);
    atomic_store(&job.run_entry->lost, HF_NOT_CANCELLED);
    job_lock_lost(&job, HF_HELD_TOO_LONG);
    assert_int_equal(cancel->reason(&job), HF_HELD_TOO_LONG);
}

/* What is told about an earlier lock, or too early, does not take away one that is held. */
TEST(while_it_is_held_it_is_not_lost)
{
    hold_for(LONG_NS, LONG_NS);
    job_lock_lost(&job, HF_HELD_TOO_LONG);
    assert_int_equal(cancel->reason(&job), HF_NOT_CANCELLED);
}

TEST(the_loss_comes_before_other_reasons)
{
    hold_for(LONG_NS, LONG_NS);
    job_cancel(&job, HF_USER);
    atomic_store(&run_table->must_stop, true);
    assert_int_equal(cancel->reason(&job), HF_USER);
    atomic_store(&validity.until, 0);
    assert_int_equal(cancel->reason(&job), HF_LOCK_LOST);
}

/* A lock keeps others away, so only what has none is asked to stop; and what ended before it ran has no claim. */
TEST(a_lease_that_is_over_lets_nothing_begin)
{
    static const struct {
        bool is_locked, is_claimed, may_begin;
        enum hf_cancel_reason reason;
    } cases[] = {{false, true, false, HF_CLAIM_LOST},
                 {true, true, false, HF_NOT_CANCELLED},
                 {false, false, true, HF_NOT_CANCELLED},
                 {true, false, true, HF_NOT_CANCELLED}};
    hold_for(LONG_NS, LONG_NS);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        job.validity = cases[i].is_locked ? &validity : NULL;
        atomic_store(&job.run_entry->is_claimed, cases[i].is_claimed);
        atomic_store(&run_table->lease_end, now_ns() + LONG_NS);
        assert_true(job_may_begin(&job));
        assert_int_equal(cancel->reason(&job), HF_NOT_CANCELLED);
        atomic_store(&run_table->lease_end, now_ns());
        assert_int_equal(job_may_begin(&job), cases[i].may_begin);
        assert_int_equal(cancel->reason(&job), cases[i].reason);
    }
    job.validity = &validity;
    atomic_store(&validity.until, 0);
    assert_false(job_may_begin(&job));
}

/* --- what a run says and leaves behind ---------------------------------------------------------------------------- */

static const void *table(const char *name)
{
    return job_hosts_for(hosts, "any")->api(name, 1);
}

TEST(an_event_is_made_of_words)
{
    const hf_job_api *api = table("job");
    const hf_field fields[] = {{"to", "a b"}, {"two words", "x"}, {"none", NULL}, {NULL, "y"}, {"cost", "7"}};
    api->event(&job, HF_LOG_INFO, "mail_sent", fields, 5);
    assert_string_equal(said, "j1 1 mail_sent to=a b cost=7 fields_dropped=3");
    said[0] = '\0';
    api->event(&job, HF_LOG_INFO, "no word", fields, 5);
    api->event(&job, HF_LOG_INFO, NULL, fields, 5);
    api->event(&job, HF_LOG_DEBUG, "not_heard", NULL, 0);
    assert_string_equal(said, "");
    api->event(&job, (enum hf_log_level)99, "odd_level", NULL, 7);
    assert_string_equal(said, "j1 1 odd_level");
    api->log(&job, HF_LOG_WARN, "%d %s", 5, "times");
    assert_string_equal(said, "j1 2 5 times");
}

TEST(a_result_is_json_and_kept_where_the_class_keeps_results)
{
    const hf_report_api *api = table("report");
    assert_false(api->result(&job, "[1]"));
    job.keeps_result = true;
    assert_true(api->result(&job, "[1]"));
    assert_true(api->result(&job, "{\"a\":2}"));
    assert_false(api->result(&job, "{\"a\":"));
    assert_int_equal(job_outcome_code(&job.outcome, HF_OK), HF_FAIL);
    assert_contains(job.outcome.failure.message, "its result was refused: not valid JSON");
    assert_true(api->result(&job, "\"caf\xE9 \\ud83d\""));
    assert_string_equal(buffer_text(&job.outcome.result), "\"caf\xEF\xBF\xBD \\ufffd\"");
    assert_int_equal(job_outcome_code(&job.outcome, HF_OK), HF_OK);
    assert_true(api->result(&job, "{\"a\":2}"));
    assert_false(api->result(&job, NULL));
    char *large = memory_zeroed(1, JOB_RESULT_BYTES_MAX + 3);
    memset(large, ' ', JOB_RESULT_BYTES_MAX + 2);
    large[0] = '1';
    assert_false(api->result(&job, large));
    large[JOB_RESULT_BYTES_MAX] = '\0';
    assert_true(job.outcome.has_result);
    assert_string_equal(buffer_text(&job.outcome.result), "{\"a\":2}");
    assert_true(api->result(&job, large));
    free(large);
}

TEST(a_run_says_when_it_comes_again)
{
    const hf_report_api *api = table("report");
    assert_int_equal(job.outcome.retry_in_ms, -1);
    assert_false(api->retry_in(&job, -1));
    assert_false(api->retry_in(&job, JOB_RETRY_IN_MS_MAX + 1));
    assert_int_equal(job.outcome.retry_in_ms, -1);
    assert_true(api->retry_in(&job, 0));
    assert_true(api->retry_in(&job, 1500));
    assert_int_equal(job.outcome.retry_in_ms, 1500);
}

TEST(progress_is_for_those_that_report_it)
{
    const hf_report_api *report = table("report");
    const hf_checkpoint_api *checkpoint = table("checkpoint");
    assert_false(report->progress(&job, "1"));
    assert_null(checkpoint->load(&job));
    job.reports_progress = true;
    job.checkpoint = "5";
    assert_true(report->progress(&job, "6"));
    assert_string_equal(said, "j1 at 6");
    assert_false(checkpoint->save(&job, NULL));
    assert_string_equal(checkpoint->load(&job), "5");
}

TEST(the_newest_progress_is_taken_once)
{
    struct job_progress progress;
    char text[ITERATION_BYTES_MAX];
    size_t length = 0;
    job_progress_init(&progress);
    job_progress_start(&progress, "[1]x", 3);
    assert_string_equal(progress.loaded, "[1]");
    assert_false(job_progress_take(&progress, text, &length));
    assert_true(job_progress_put(&progress, "[1]"));
    assert_true(job_progress_put(&progress, "[22]"));
    assert_false(job_progress_put(&progress, "[3"));
    assert_false(job_progress_put(&progress, NULL));
    assert_true(job_progress_take(&progress, text, &length));
    assert_int_equal(length, 4);
    assert_memory_equal(text, "[22]", 4);
    assert_false(job_progress_take(&progress, text, &length));
    assert_true(job_progress_put(&progress, "5"));
    job_progress_start(&progress, NULL, 0); /* of the run before */
    assert_null(progress.loaded);
    assert_false(job_progress_take(&progress, text, &length));
    job_progress_fini(&progress);
}

TEST(follow_ups_are_bounded)
{
    const hf_push_api *api = table("push");
    char reason[128] = "";
    assert_false(api->add(&job, "{\"class\":\"t\",\"args\":[]}", reason, sizeof reason));
    assert_non_null(strstr(reason, "at most once"));
    job.may_push = true;
    assert_false(api->add(&job, "{", reason, sizeof reason));
    assert_contains(reason, "not valid JSON");
    assert_false(api->add(&job, NULL, NULL, 0));
    for (size_t i = 0; i < JOB_FOLLOW_UPS_MAX; i++)
        assert_true(api->add(&job, "{\"class\":\"t\",\"args\":[]}", reason, sizeof reason));
    assert_false(api->add(&job, "{\"class\":\"t\",\"args\":[]}", reason, sizeof reason));
    assert_non_null(strstr(reason, "1000"));
    assert_int_equal(job.outcome.follow_up_count, JOB_FOLLOW_UPS_MAX);
    job_outcome_clear(&job.outcome);
    assert_int_equal(job.outcome.follow_up_count, 0);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
