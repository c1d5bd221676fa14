/* The transfer job against a fake host: right when one runs after the other, wrong when two interleave. That is the
 * whole reason for its lock, so both halves are proved.
 * (With a fence it is right in every order: test_transfer_fence.c.) */
#include "tests/unit/transfer_fixture.h"

#include <pthread.h>

/* --- what it does ------------------------------------------------------------------------------------------- */

TEST(money_moves_and_accounts_may_go_negative)
{
    assert_int_equal(transfer("1", "a", "b", 30), HF_OK);
    assert_int_equal(transfer("2", "b", "c", 50), HF_OK);
    assert_int_equal(balance("a"), -30);
    assert_int_equal(balance("b"), -20);
    assert_int_equal(balance("c"), 50);
}

TEST(one_after_the_other_gives_what_adding_up_gives)
{
    int64_t expected[7] = {0};
    unsigned random = 12345;
    for (int i = 0; i < 300; i++) {
        random = random * 1103515245 + 12345;
        unsigned from = (random >> 16) % 7, to = (from + 1 + (random >> 20) % 6) % 7;
        int64_t amount = 1 + (random >> 24);
        char jid[32], names[2][16];
        snprintf(jid, sizeof jid, "jid-%d", i);
        snprintf(names[0], sizeof names[0], "%u", from);
        snprintf(names[1], sizeof names[1], "%u", to);
        assert_int_equal(transfer(jid, names[0], names[1], amount), HF_OK);
        expected[from] -= amount;
        expected[to] += amount;
    }
    for (unsigned i = 0; i < 7; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        assert_int_equal(balance(name), expected[i]);
    }
    assert_int_equal(ask("SELECT count(*) FROM done"), 300);
    assert_int_equal(ask("SELECT sum(balance) FROM accounts"), 0);
}

TEST(a_repeat_changes_nothing)
{
    for (int i = 0; i < 3; i++) {
        hf_job job = order("once", "a", "b", 10);
        assert_int_equal(fake_plugin_run(bank->plugin, &job), HF_OK);
        assert_int_equal(job.asked > 0, i == 0); /* a repeat is noticed before it thinks */
        assert_string_equal(job.last_event, i == 0 ? "" : "task_seen_before");
    }
    assert_int_equal(balance("b"), 10);
    assert_int_equal(ask("SELECT count(*) FROM done"), 1);
}

TEST(accounts_may_be_integers_and_begin_with_the_opening_balance)
{
    fake_plugin_close(bank->plugin);
    bank->settings[3] = (struct fake_setting){"opening_balance", "1000"};
    bank_open();
    hf_job job = {.jid = "1", .args = {FAKE_NUMBER(17), FAKE_TEXT("b"), FAKE_NUMBER(5)}, .arg_count = 3};
    assert_int_equal(fake_plugin_run(bank->plugin, &job), HF_OK);
    assert_int_equal(balance("17"), 995);
    assert_int_equal(balance("b"), 1005);
}

/* --- why it needs its lock ---------------------------------------------------------------------------------- */

static void run_another_in_between(hf_job *job)
{
    job->when_asked = NULL;
    assert_int_equal(transfer("second", "b", "c", 40), HF_OK);
}

/* Both read b = 0. The first one writes last, so that it overwrites what the second did to b. */
TEST(interleaved_without_a_lock_it_loses_money)
{
    hf_job first = order("first", "a", "b", 100);
    first.when_asked = run_another_in_between; /* it asks after it has read and thought */
    assert_int_equal(fake_plugin_run(bank->plugin, &first), HF_OK);
    assert_int_equal(balance("a"), -100);
    assert_int_equal(balance("c"), 40);
    assert_int_equal(balance("b"), 100); /* 60 would be right */
    assert_int_equal(ask("SELECT sum(balance) FROM accounts"), 40);
}

static void run_the_same_in_between(hf_job *job)
{
    job->when_asked = NULL;
    assert_int_equal(transfer(job->jid, "a", "b", 100), HF_OK);
    assert_int_equal(transfer("later", "b", "c", 40), HF_OK);
}

/* A task that was recovered while its first run was still alive: only one of them counts. */
TEST(the_same_task_interleaved_with_itself_counts_once)
{
    hf_job job = order("same", "a", "b", 100);
    job.when_asked = run_the_same_in_between;
    assert_int_equal(fake_plugin_run(bank->plugin, &job), HF_OK);
    assert_int_equal(balance("b"), 60);
}

/* --- being cancelled ---------------------------------------------------------------------------------------- */

static void cancel_at_the_second_question(hf_job *job)
{
    job->is_cancelled = job->asked >= 2;
}

TEST(a_lock_lost_before_the_commit_leaves_nothing_behind)
{
    hf_job job = order("1", "a", "b", 100);
    job.when_asked = cancel_at_the_second_question; /* the first follows the thinking, the second precedes COMMIT */
    assert_int_equal(fake_plugin_run(bank->plugin, &job), HF_CANCELLED);
    assert_int_equal(job.asked, 2);
    assert_int_equal(ask("SELECT count(*) FROM accounts"), 0);
    assert_int_equal(ask("SELECT count(*) FROM done"), 0);
    assert_int_equal(transfer("1", "a", "b", 100), HF_OK);
    assert_int_equal(balance("b"), 100);
}

TEST(thinking_ends_when_cancelled)
{
    hf_job job = order("1", "a", "b", 100);
    job.args[job.arg_count++] = FAKE_NUMBER(60 * 1000 * 1000); /* a minute: longer than the test may take */
    job.when_asked = cancel_at_once;
    assert_int_equal(fake_plugin_run(bank->plugin, &job), HF_CANCELLED);
    assert_int_equal(ask("SELECT count(*) FROM done"), 0);
}

/* As a program that is in the middle of a call; the lock alone does not stop it. */
TEST(one_that_goes_on_writes_all_the_same)
{
    fake_plugin_close(bank->plugin);
    bank->settings[3] = (struct fake_setting){"when_lost", "go_on"};
    bank_open();
    hf_job job = order("1", "a", "b", 100);
    job.when_asked = cancel_at_once;
    assert_int_equal(fake_plugin_run(bank->plugin, &job), HF_OK);
    assert_int_equal(balance("b"), 100);
}

/* --- what goes wrong ---------------------------------------------------------------------------------------- */

TEST(senseless_orders_are_buried)
{
    hf_job jobs[] = {
        order("1", "a", "a", 5),      order("2", "a", "b", 0),
        order("3", "a", "b", -5),     order("4", "a", "b", INT64_C(1000000000001)),
        order("5", "", "b", 5),       order("", "a", "b", 5),
        {.jid = "7", .arg_count = 0}, {.jid = "8", .args = {FAKE_TEXT("a"), FAKE_TEXT("b")}, .arg_count = 2},
        order("9", "a", "b", 5),
    };
    jobs[8].args[jobs[8].arg_count++] = FAKE_NUMBER(-1);
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        assert_int_equal(fake_plugin_run(bank->plugin, &jobs[i]), HF_BURY);
        assert_string_equal(jobs[i].error_class, "HF::BadArguments");
        assert_true(jobs[i].error[0] != '\0');
    }
    assert_int_equal(ask("SELECT count(*) FROM accounts"), 0);
}

TEST(balances_out_of_range_are_buried)
{
    assert_int_equal(transfer("1", "a", "b", 1), HF_OK);
    ask("UPDATE accounts SET balance = 9223372036854775807 WHERE name = 'b'");
    assert_int_equal(transfer("2", "a", "b", 1), HF_BURY);
    assert_int_equal(balance("a"), -1);
}

TEST(a_ledger_that_stays_busy_fails_and_can_be_tried_again)
{
    sqlite3 *other;
    fake_plugin_close(bank->plugin);
    bank->settings[2] = (struct fake_setting){"busy_timeout", "20"};
    bank_open();
    assert_int_equal(transfer("0", "a", "b", 1), HF_OK); /* the thread has its connection */
    assert_int_equal(sqlite3_open(bank->ledger, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    hf_job job = order("1", "a", "b", 5);
    assert_int_equal(fake_plugin_run(bank->plugin, &job), HF_FAIL);
    assert_string_equal(job.error_class, "LedgerError");
    assert_contains(job.error, "database is locked");
    assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    assert_int_equal(transfer("1", "a", "b", 5), HF_OK);
    assert_int_equal(balance("b"), 6);
}

/* A limit on the size of files is what a full disk looks like to the program. */
TEST(a_full_disk_fails_and_loses_nothing)
{
    struct rlimit before, full;
    assert_int_equal(transfer("0", "a", "b", 1), HF_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    full = (struct rlimit){.rlim_cur = 1, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    hf_job job = order("1", "a", "b", 5);
    int code = fake_plugin_run(bank->plugin, &job);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(code, HF_FAIL);
    assert_string_equal(job.error_class, "LedgerError");
    assert_contains(job.error, "ledger.db: ");
    assert_int_equal(balance("b"), 1);
    assert_int_equal(transfer("1", "a", "b", 5), HF_OK);
    assert_int_equal(balance("b"), 6);
}

TEST(wrong_settings_are_refused_with_a_reason)
{
    char reason[512] = "";
    static const struct fake_setting wrong[][2] = {
        {{"journal", "wall"}, {0}},       {{"synchronous", "never"}, {0}},    {{"busy_timeout", "5s"}, {0}},
        {{"opening_balance", "-1"}, {0}}, {{"think_us", "99999999999"}, {0}}, {{"ledger", "/nowhere/at/all.db"}, {0}},
    };
    (void)bank;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_null(fake_plugin_open("transfer", wrong[i], reason));
        assert_contains(reason, i == 5 ? "unable to open database file" : wrong[i][0].key);
    }
    unlink("ledger.db"); /* in case one of them got that far */
}

/* --- threads and processes ---------------------------------------------------------------------------------- */

enum { THREADS = 4, EACH = 50 };

struct teller {
    int number;
    pthread_t thread;
    bool failed;
};

/* Every thread has accounts of its own: what the locks see to. */
static void *teller_run(void *context)
{
    struct teller *teller = context;
    for (int i = 0; i < EACH; i++) {
        char jid[32], from[16], to[16];
        snprintf(jid, sizeof jid, "%d-%d", teller->number, i);
        snprintf(from, sizeof from, "from%d", teller->number);
        snprintf(to, sizeof to, "to%d", teller->number);
        hf_job job = order(jid, from, to, 2);
        teller->failed |= fake_plugin_run(bank->plugin, &job) != HF_OK;
    }
    return NULL;
}

TEST(threads_with_accounts_of_their_own_do_not_disturb_each_other)
{
    struct teller tellers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        tellers[i] = (struct teller){.number = i};
        assert_int_equal(pthread_create(&tellers[i].thread, NULL, teller_run, &tellers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        char account[16];
        pthread_join(tellers[i].thread, NULL);
        assert_false(tellers[i].failed);
        snprintf(account, sizeof account, "to%d", i);
        assert_int_equal(balance(account), 2 * EACH);
    }
}

TEST(workers_that_start_together_share_a_new_ledger)
{
    int gate[2], status, failed = 0;
    fake_plugin_close(bank->plugin);
    bank->plugin = NULL;
    unlink(bank->ledger);
    assert_int_equal(pipe(gate), 0);
    for (int i = 0; i < 8; i++) {
        if (fork() != 0)
            continue;
        char byte, reason[512];
        close(gate[1]);
        bool at_the_gate = read(gate[0], &byte, 1) == 0; /* opens for all when the parent closes it */
        struct fake_plugin *plugin = fake_plugin_open("transfer", bank->settings, reason);
        _exit(at_the_gate && plugin != NULL ? 0 : 1);
    }
    close(gate[0]);
    close(gate[1]);
    for (int i = 0; i < 8; i++) {
        assert_true(wait(&status) > 0);
        failed += status != 0;
    }
    assert_int_equal(failed, 0);
}

RUN_TESTS_BETWEEN(enter, leave)
