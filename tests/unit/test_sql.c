/* The sql job: named statements on named databases, fenced, once. */
#include "tests/support/test.h"

#include <pthread.h>
#include <sqlite3.h>

#include "tests/support/fake_host.h"
#include "tests/support/private_directory.h"

struct office {
    char directory[PRIVATE_DIRECTORY_MAX], path[300];
    struct fake_setting settings[FAKE_SETTINGS_MAX];
    struct fake_plugin *plugin;
    sqlite3 *db; /* of the program that owns the database */
};
static struct office *office;

static void execute(const char *text)
{
    assert_int_equal(sqlite3_exec(office->db, text, NULL, NULL, NULL), SQLITE_OK);
}

static int64_t ask(const char *query)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(office->db, query, -1, &statement, NULL), SQLITE_OK);
    int64_t value = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : INT64_MIN;
    sqlite3_finalize(statement);
    return value;
}

static void enter(void)
{
    char reason[512] = "";
    office = calloc(1, sizeof *office);
    private_directory_create(office->directory);
    snprintf(office->path, sizeof office->path, "%s/main.db", office->directory);
    assert_int_equal(sqlite3_open(office->path, &office->db), SQLITE_OK);
    sqlite3_busy_timeout(office->db, 5000);
    execute("CREATE TABLE account (name TEXT PRIMARY KEY, balance NOT NULL CHECK (balance >= 0));"
            "INSERT INTO account VALUES ('a', 10), ('b', 20)");
    const struct fake_setting settings[] = {
        {"databases", "main"},
        {"database_main", office->path},
        {"statements", "set add all typed slow many two begin pragma wide"},
        {"statement_set", "UPDATE account SET balance = :balance WHERE name = :name RETURNING name, balance"},
        {"statement_add", "UPDATE account SET balance = balance + ?2 WHERE name = ?1"},
        {"statement_all", "SELECT * FROM account ORDER BY name"},
        {"statement_typed", "SELECT ?1 AS a, ?2 AS b, ?3 AS c, ?4 AS d, ?5 AS e, x'00ff' AS f, 9e999 AS g"},
        {"statement_slow", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"},
        {"statement_many", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"},
        {"statement_two", "DELETE FROM account; DELETE FROM account"},
        {"statement_begin", "COMMIT"},
        {"statement_pragma", "PRAGMA journal_mode = off"},
        {"statement_wide", "SELECT printf('%.*c', ?1, 'x') AS text FROM account"},
        {"busy_timeout", "50"},
        {NULL, NULL}};
    memcpy(office->settings, settings, sizeof settings);
    office->plugin = fake_plugin_open("sql", office->settings, reason);
    if (office->plugin == NULL)
        fail_msg("%s", reason);
}

static void leave(void)
{
    fake_plugin_close(office->plugin);
    sqlite3_close(office->db);
    unlink(office->path);
    int failed = rmdir(office->directory);
    free(office);
    assert_int_equal(failed, 0);
}

static const char *const locked[] = {"sql:main"};

static hf_job task(const char *jid, const char *token, const char *args)
{
    return (hf_job){.jid = jid, .json = args, .resources = locked, .resource_count = 1, .token = token};
}

/* Runs it; what it left is in `job` until fake_job_clear. */
static int run(hf_job *job)
{
    return fake_plugin_run(office->plugin, job);
}

static void expect(const char *args, int code, const char *text)
{
    static unsigned number;
    char jid[16];
    snprintf(jid, sizeof jid, "e%u", number++);
    hf_job job = task(jid, "9007199254740991", args);
    assert_int_equal(run(&job), code);
    assert_contains(code == HF_OK ? job.result : job.error, text);
    fake_job_clear(&job);
}

/* --- statements --------------------------------------------------------------------------------------------- */

TEST(values_go_in_and_rows_come_out)
{
    expect("[\"main\",\"set\",{\"name\":\"a\",\"balance\":11}]", HF_OK,
           "{\"changes\":1,\"rows\":[{\"name\":\"a\",\"balance\":11}],\"cut\":false}");
    expect("[\"main\",\"add\",[\"b\",-5]]", HF_OK, "{\"changes\":1,\"rows\":[],\"cut\":false}");
    expect("[\"main\",\"add\",[\"nobody\",1]]", HF_OK, "{\"changes\":0,");
    expect("[\"main\",\"all\"]", HF_OK,
           "{\"changes\":0,\"rows\":[{\"name\":\"a\",\"balance\":11},{\"name\":\"b\",\"balance\":15}],\"cut\":false}");
    expect("[\"main\",\"typed\",[null,true,1.5,\"\\u00e9\\\"\",{\"x\":[1]}]]", HF_OK,
           "{\"a\":null,\"b\":1,\"c\":1.5,\"d\":\"\xc3\xa9\\\"\",\"e\":\"{\\\"x\\\":[1]}\",\"f\":\"00ff\",\"g\":null}");
    expect("[\"main\",\"typed\",[9223372036854775807,-9223372036854775808,0,\"\",false]]", HF_OK,
           "{\"a\":9223372036854775807,\"b\":-9223372036854775808,\"c\":0,\"d\":\"\",\"e\":0");
}

TEST(results_are_cut_at_their_limits)
{
    hf_job job = task("1", "5", "[\"main\",\"many\"]");
    assert_int_equal(run(&job), HF_OK); /* it has no end, and stops */
    assert_contains(job.result, ",{\"i\":1000}],\"cut\":true}");
    fake_job_clear(&job);
    job = task("2", "5", "[\"main\",\"wide\",[200000]]");
    assert_int_equal(run(&job), HF_OK);
    assert_contains(job.result, "xx\"}],\"cut\":true}");
    assert_in_range(strlen(job.result), 200000, 262144);
    fake_job_clear(&job);
    expect("[\"main\",\"wide\",[300000]]", HF_OK, "\"rows\":[],\"cut\":true}");
}

TEST(what_cannot_work_is_buried)
{
    static const char *const cases[][2] = {
        {"[]", "expected"},
        {"[\"main\"]", "expected"},
        {"[\"main\",\"all\",[],1]", "expected"},
        {"[\"main\",\"all\",7]", "an array or an object"},
        {"[\"other\",\"all\"]", "does not name this database"},
        {"[\"/etc/passwd\",\"all\"]", "does not name this database"},
        {"[\"main\",\"DELETE FROM account\"]", "does not name this statement"},
        {"[\"main\",\"add\",[\"a\"]]", "fewer values"},
        {"[\"main\",\"add\",[\"a\",1,2]]", "more values"},
        {"[\"main\",\"set\",{\"name\":\"a\"}]", "has no value"},
        {"[\"main\",\"set\",{\"name\":\"a\",\"balance\":1,\"x\":1}]", "no parameter"},
        {"[\"main\",\"set\",{\"name\":\"a\",\"name\":\"a\",\"balance\":1}]", "twice"},
        {"[\"main\",\"add\",[\"a\",9223372036854775808]]", "beyond 64 bits"},
        {"[\"main\",\"add\",[\"a\\u0000\",1]]", "NUL"},
        {"[\"main\",\"two\"]", "one statement"},
        {"[\"main\",\"begin\"]", "may not control transactions"},
        {"[\"main\",\"pragma\"]", "PRAGMA"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect(cases[i][0], HF_BURY, cases[i][1]);
    assert_int_equal(ask("SELECT sum(balance) FROM account"), 30);
    assert_int_equal(ask("SELECT count(*) FROM holdfast_done"), 0);
}

TEST(what_the_database_refuses_is_tried_again_and_leaves_nothing)
{
    hf_job job = task("j", "5", "[\"main\",\"add\",[\"a\",-100]]");
    assert_int_equal(run(&job), HF_FAIL);
    assert_string_equal(job.error_class, "SqlConstraint");
    assert_int_equal(ask("SELECT count(*) FROM holdfast_done"), 0);
    execute("UPDATE account SET balance = 200");
    assert_int_equal(run(&job), HF_OK);
    fake_job_clear(&job);
    assert_int_equal(ask("SELECT balance FROM account WHERE name = 'a'"), 100);
}

/* --- fence and repeats -------------------------------------------------------------------------------------- */

TEST(a_late_writer_is_fenced_off)
{
    hf_job first = task("1", "10", "[\"main\",\"add\",[\"a\",1]]"),
           late = task("2", "9", "[\"main\",\"add\",[\"a\",50]]");
    assert_int_equal(run(&first), HF_OK);
    assert_int_equal(run(&late), HF_FAIL);
    assert_string_equal(late.error_class, "HF::FencedOff");
    assert_int_equal(ask("SELECT balance FROM account WHERE name = 'a'"), 11);
    late.token = "11"; /* tried again */
    assert_int_equal(run(&late), HF_OK);
    assert_int_equal(ask("SELECT balance FROM account WHERE name = 'a'"), 61);
    fake_job_clear(&first);
    fake_job_clear(&late);
}

TEST(a_late_reader_is_fenced_off_too)
{
    hf_job first = task("1", "10", "[\"main\",\"all\"]"), late = task("2", "9", "[\"main\",\"add\",[\"a\",50]]");
    assert_int_equal(run(&first), HF_OK);
    assert_int_equal(run(&late), HF_FAIL);
    assert_string_equal(late.error_class, "HF::FencedOff");
    fake_job_clear(&first);
}

TEST(a_repeat_changes_nothing)
{
    hf_job job = task("1", "10", "[\"main\",\"add\",[\"a\",1]]"),
           again = task("1", "11", "[\"main\",\"add\",[\"a\",1]]");
    assert_int_equal(run(&job), HF_OK);
    assert_int_equal(run(&again), HF_OK);
    assert_string_equal(again.result, "{\"repeat\":true}");
    assert_string_equal(job.last_event, "");
    assert_string_equal(again.last_event, "task_seen_before");
    assert_int_equal(ask("SELECT balance FROM account WHERE name = 'a'"), 11);
    fake_job_clear(&job);
    fake_job_clear(&again);
}

TEST(reading_is_repeated)
{
    for (int i = 0; i < 2; i++) {
        hf_job job = task("1", "10", "[\"main\",\"all\"]");
        assert_int_equal(run(&job), HF_OK);
        assert_contains(job.result, "\"name\":\"a\"");
        fake_job_clear(&job);
    }
}

TEST(without_a_token_it_runs_only_when_that_is_set)
{
    char reason[512] = "";
    hf_job job = task("1", NULL, "[\"main\",\"add\",[\"a\",1]]"), again;
    assert_int_equal(run(&job), HF_BURY);
    assert_contains(job.error, "no token");
    office->settings[14] = (struct fake_setting){"fence", "when_there"};
    struct fake_plugin *lenient = fake_plugin_open("sql", office->settings, reason);
    again = job;
    assert_int_equal(fake_plugin_run(lenient, &job), HF_OK);
    assert_int_equal(fake_plugin_run(lenient, &again), HF_OK);
    assert_string_equal(again.result, "{\"repeat\":true}");
    assert_int_equal(ask("SELECT balance FROM account WHERE name = 'a'"), 11);
    fake_job_clear(&job);
    fake_job_clear(&again);
    fake_plugin_close(lenient);
}

/* --- waiting and stopping ----------------------------------------------------------------------------------- */

TEST(a_database_that_stays_busy_fails)
{
    hf_job job = task("1", "10", "[\"main\",\"add\",[\"a\",1]]");
    execute("BEGIN IMMEDIATE");
    assert_int_equal(run(&job), HF_FAIL);
    assert_string_equal(job.error_class, "SqlBusy");
    execute("COMMIT");
    assert_int_equal(run(&job), HF_OK);
    fake_job_clear(&job);
}

static void cancel_at_the_third_question(hf_job *job)
{
    job->is_cancelled = job->asked >= 3;
}

TEST(a_statement_without_end_stops_when_cancelled)
{
    hf_job job = task("1", "10", "[\"main\",\"slow\"]");
    job.when_asked = cancel_at_the_third_question;
    assert_int_equal(run(&job), HF_CANCELLED);
    fake_job_clear(&job);
    job = task("2", "10", "[\"main\",\"all\"]"); /* the connection is good for another */
    assert_int_equal(run(&job), HF_OK);
    fake_job_clear(&job);
}

TEST(waiting_for_others_ends_when_cancelled)
{
    char reason[512] = "";
    hf_job job = task("1", "10", "[\"main\",\"add\",[\"a\",1]]");
    job.when_asked = cancel_at_the_third_question;
    office->settings[13].value = "600000";
    struct fake_plugin *patient = fake_plugin_open("sql", office->settings, reason);
    execute("BEGIN IMMEDIATE");
    assert_int_equal(fake_plugin_run(patient, &job), HF_CANCELLED);
    execute("COMMIT");
    fake_plugin_close(patient);
}

static void cancel_at_once(hf_job *job)
{
    job->is_cancelled = true;
}

TEST(a_lock_lost_before_the_commit_leaves_nothing_behind)
{
    hf_job job = task("1", "10", "[\"main\",\"add\",[\"a\",1]]");
    job.when_asked = cancel_at_once;
    assert_int_equal(run(&job), HF_CANCELLED);
    assert_int_equal(ask("SELECT balance FROM account WHERE name = 'a'"), 10);
    assert_int_equal(ask("SELECT count(*) FROM holdfast_done"), 0);
}

enum { THREADS = 4, ADDITIONS = 20 };

static void *add_many(void *value)
{
    (void)value;
    for (int i = 0; i < ADDITIONS; i++) {
        char jid[40];
        snprintf(jid, sizeof jid, "%lx-%d", (unsigned long)pthread_self(), i);
        hf_job job = task(jid, "7", "[\"main\",\"add\",[\"a\",1]]");
        int code;
        do
            code = run(&job);
        while (code == HF_FAIL && strcmp(job.error_class, "SqlBusy") == 0);
        fake_job_clear(&job);
        if (code != HF_OK)
            abort();
    }
    return NULL;
}

TEST(threads_do_not_disturb_each_other)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(ask("SELECT balance FROM account WHERE name = 'a'"), 10 + THREADS * ADDITIONS);
}

TEST(wrong_settings_are_refused_with_a_reason)
{
    static const struct {
        struct fake_setting settings[4];
        const char *reason;
    } cases[] = {{{{"databases", "x"}}, "database_x"},
                 {{{"databases", "x"}, {"database_x", "/none/there"}}, "/none/there"},
                 {{{"statements", "a b"}, {"statement_a", "SELECT 1"}}, "statement_b"},
                 {{{"fence", "no"}}, "fence"},
                 {{{"busy_timeout", "-1"}}, "busy_timeout"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char reason[512] = "";
        assert_null(fake_plugin_open("sql", cases[i].settings, reason));
        assert_contains(reason, cases[i].reason);
    }
}

RUN_TESTS_BETWEEN(enter, leave)
