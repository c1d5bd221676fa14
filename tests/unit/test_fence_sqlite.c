/* The SQLite sink: who is refused, what is undone, and that nothing of it depends on luck when many write at once. */
#include "tests/support/test.h"

#include <sqlite3.h>

#include "jobs/fence/fence.h"
#include "tests/support/crowd.h"
#include "tests/support/private_directory.h"

/* One connection to the database of the test. */
struct till {
    char path[300];
    sqlite3 *db;
    struct hf_fence_sqlite *fence;
    char reason[320];
};

static void till_open(struct till *till, int busy_ms)
{
    assert_int_equal(sqlite3_open(till->path, &till->db), SQLITE_OK);
    sqlite3_busy_timeout(till->db, busy_ms);
    if (!hf_fence_sqlite_install(till->db, till->reason, sizeof till->reason) ||
        (till->fence = hf_fence_sqlite_create(till->db, till->reason, sizeof till->reason)) == NULL)
        fail_msg("%s", till->reason);
    assert_int_equal(sqlite3_exec(till->db, "PRAGMA synchronous = off", NULL, NULL, NULL), SQLITE_OK);
}

static void till_close(struct till *till)
{
    hf_fence_sqlite_destroy(till->fence);
    assert_int_equal(sqlite3_close(till->db), SQLITE_OK); /* busy if a statement were left */
}

static void execute(struct till *till, const char *text)
{
    if (sqlite3_exec(till->db, text, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", text, sqlite3_errmsg(till->db));
}

static int enter(void **state)
{
    struct till *till = calloc(1, sizeof *till);
    private_directory_create(till->path);
    strncat(till->path, "/till.db", sizeof till->path - strlen(till->path) - 1);
    till_open(till, 20000);
    execute(till, "CREATE TABLE money (value INTEGER); INSERT INTO money VALUES (0);"
                  "CREATE TABLE history (place INTEGER PRIMARY KEY, token INTEGER, value INTEGER)");
    *state = till;
    return 0;
}

static int leave(void **state)
{
    struct till *till = *state;
    till_close(till);
    unlink(till->path);
    *strrchr(till->path, '/') = '\0';
    int failed = rmdir(till->path);
    free(till);
    return failed;
}

/* The first column of the first row. */
static int64_t ask(struct till *till, const char *query)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(till->db, query, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", query, sqlite3_errmsg(till->db));
    int64_t value = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : INT64_MIN;
    sqlite3_finalize(statement);
    return value;
}

static enum hf_fence_outcome begin(struct till *till, const char *resource, const char *token)
{
    return hf_fence_sqlite_begin(till->fence, &resource, 1, token, till->reason, sizeof till->reason);
}

static enum hf_fence_outcome once(struct till *till, const char *jid)
{
    return hf_fence_sqlite_once(till->fence, jid, till->reason, sizeof till->reason);
}

static enum hf_fence_outcome commit(struct till *till)
{
    return hf_fence_sqlite_commit(till->fence, till->reason, sizeof till->reason);
}

/* A whole transaction that changes nothing but the fence: what a new holder does before it works. */
static enum hf_fence_outcome advance(struct till *till, const char *resource, const char *token)
{
    enum hf_fence_outcome outcome = begin(till, resource, token);
    return outcome == HF_FENCE_ACCEPTED ? commit(till) : outcome;
}

/* A whole transaction that writes. */
static enum hf_fence_outcome deposit(struct till *till, const char *token, const char *jid, const char *statement)
{
    enum hf_fence_outcome outcome = begin(till, "till", token);
    if (outcome == HF_FENCE_ACCEPTED)
        outcome = once(till, jid);
    if (outcome != HF_FENCE_ACCEPTED)
        return outcome;
    execute(till, statement);
    return commit(till);
}

/* --- tokens ------------------------------------------------------------------------------------------------- */

TEST(tokens_are_whole_numbers_below_2_to_53)
{
    static const char *const wrong[] = {"",     "0",
                                        "01",   "-1",
                                        "+1",   " 1",
                                        "1 ",   "1.0",
                                        "1e3",  "x",
                                        "0x10", "9007199254740992",
                                        "1\n",  "99999999999999999999999999"};
    int64_t number = -7;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(hf_fence_token(wrong[i], &number));
    assert_false(hf_fence_token(NULL, &number));
    assert_int_equal(number, -7);
    assert_true(hf_fence_token("1", &number));
    assert_int_equal(number, 1);
    assert_true(hf_fence_token("9007199254740991", &number));
    assert_int_equal(number, INT64_C(9007199254740991));
}

TEST(without_a_token_nothing_begins)
{
    struct till *till = *state;
    assert_int_equal(begin(till, "till", ""), HF_FENCE_TROUBLE);
    assert_contains(till->reason, "lock.fence");
    assert_int_equal(begin(till, "till", NULL), HF_FENCE_TROUBLE);
    assert_int_equal(begin(till, "till", "12a"), HF_FENCE_TROUBLE);
    assert_contains(till->reason, "12a");
    assert_int_equal(hf_fence_sqlite_begin(till->fence, NULL, 0, "1", till->reason, sizeof till->reason),
                     HF_FENCE_TROUBLE);
    assert_true(sqlite3_get_autocommit(till->db));
}

/* --- who is refused ----------------------------------------------------------------------------------------- */

TEST(the_same_holder_may_come_again_and_later_ones_too)
{
    struct till *till = *state;
    assert_int_equal(advance(till, "till", "9"), HF_FENCE_ACCEPTED);
    assert_int_equal(advance(till, "till", "9"), HF_FENCE_ACCEPTED);
    assert_int_equal(advance(till, "till", "10"), HF_FENCE_ACCEPTED); /* a number, not a text */
    assert_int_equal(advance(till, "till", "9"), HF_FENCE_STALE);
    assert_contains(till->reason, "till");
    assert_contains(till->reason, "10");
    assert_int_equal(advance(till, "till", "9007199254740991"), HF_FENCE_ACCEPTED);
    assert_int_equal(advance(till, "till", "9007199254740990"), HF_FENCE_STALE);
    assert_int_equal(advance(till, "another", "1"), HF_FENCE_ACCEPTED);
}

/* The order that a sink misses which only compares when it is written to. */
TEST(a_stale_writer_is_refused_before_the_new_holder_has_written)
{
    struct till *till = *state;
    assert_int_equal(advance(till, "till", "1"), HF_FENCE_ACCEPTED);
    assert_int_equal(advance(till, "till", "2"), HF_FENCE_ACCEPTED); /* reads 0 and works on it */
    assert_int_equal(deposit(till, "1", "old", "UPDATE money SET value = 100"), HF_FENCE_STALE);
    assert_int_equal(deposit(till, "2", "new", "UPDATE money SET value = 7"), HF_FENCE_ACCEPTED);
    assert_int_equal(ask(till, "SELECT value FROM money"), 7);
    assert_int_equal(ask(till, "SELECT count(*) FROM holdfast_done WHERE jid = 'old'"), 0);
}

TEST(a_stale_writer_is_refused_after_the_new_holder_has_written)
{
    struct till *till = *state;
    assert_int_equal(advance(till, "till", "1"), HF_FENCE_ACCEPTED);
    assert_int_equal(deposit(till, "2", "new", "UPDATE money SET value = 7"), HF_FENCE_ACCEPTED);
    assert_int_equal(deposit(till, "1", "old", "UPDATE money SET value = 100"), HF_FENCE_STALE);
    assert_int_equal(ask(till, "SELECT value FROM money"), 7);
}

TEST(of_several_resources_all_advance_or_none)
{
    struct till *till = *state;
    static const char *const both[] = {"a", "b"};
    assert_int_equal(advance(till, "b", "5"), HF_FENCE_ACCEPTED);
    assert_int_equal(hf_fence_sqlite_begin(till->fence, both, 2, "3", till->reason, sizeof till->reason),
                     HF_FENCE_STALE);
    assert_true(sqlite3_get_autocommit(till->db));
    assert_int_equal(ask(till, "SELECT count(*) FROM holdfast_fence"), 1);
    assert_int_equal(hf_fence_sqlite_begin(till->fence, both, 2, "6", till->reason, sizeof till->reason),
                     HF_FENCE_ACCEPTED);
    assert_int_equal(commit(till), HF_FENCE_ACCEPTED);
    assert_int_equal(ask(till, "SELECT sum(token) FROM holdfast_fence"), 12);
}

/* --- repeats ------------------------------------------------------------------------------------------------ */

TEST(a_task_counts_once)
{
    struct till *till = *state;
    static const char add[] = "UPDATE money SET value = value + 5";
    assert_int_equal(deposit(till, "1", "jid", add), HF_FENCE_ACCEPTED);
    assert_int_equal(deposit(till, "2", "jid", add), HF_FENCE_REPEAT); /* it runs again, under a newer token */
    assert_contains(till->reason, "jid");
    assert_true(sqlite3_get_autocommit(till->db));
    assert_int_equal(ask(till, "SELECT value FROM money"), 5);
}

TEST(what_was_undone_does_not_count)
{
    struct till *till = *state;
    assert_int_equal(begin(till, "till", "3"), HF_FENCE_ACCEPTED);
    execute(till, "UPDATE money SET value = 5");
    assert_int_equal(once(till, "jid"), HF_FENCE_ACCEPTED);
    hf_fence_sqlite_rollback(till->fence);
    hf_fence_sqlite_rollback(till->fence); /* harmless */
    assert_int_equal(ask(till, "SELECT value FROM money"), 0);
    assert_int_equal(ask(till, "SELECT count(*) FROM holdfast_fence"), 0);
    assert_int_equal(deposit(till, "3", "jid", "UPDATE money SET value = 6"), HF_FENCE_ACCEPTED);
}

/* A repeat undoes what was written before it was noticed. */
TEST(a_repeat_that_is_noticed_late_leaves_nothing)
{
    struct till *till = *state;
    assert_int_equal(deposit(till, "1", "jid", "UPDATE money SET value = 5"), HF_FENCE_ACCEPTED);
    assert_int_equal(begin(till, "till", "2"), HF_FENCE_ACCEPTED);
    execute(till, "UPDATE money SET value = 50");
    assert_int_equal(once(till, "jid"), HF_FENCE_REPEAT);
    assert_int_equal(ask(till, "SELECT value FROM money"), 5);
}

TEST(a_process_killed_inside_the_transaction_has_done_nothing)
{
    struct till *till = *state;
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct till mine = {0};
        snprintf(mine.path, sizeof mine.path, "%s", till->path);
        till_open(&mine, 1000);
        if (begin(&mine, "till", "8") == HF_FENCE_ACCEPTED && once(&mine, "jid") == HF_FENCE_ACCEPTED) {
            execute(&mine, "UPDATE money SET value = 50");
            kill(getpid(), SIGKILL);
        }
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(ask(till, "SELECT value FROM money"), 0);
    assert_int_equal(deposit(till, "7", "jid", "UPDATE money SET value = 5"), HF_FENCE_ACCEPTED);
}

/* --- what goes wrong ---------------------------------------------------------------------------------------- */

TEST(steps_out_of_order_are_trouble)
{
    struct till *till = *state;
    assert_int_equal(once(till, "jid"), HF_FENCE_TROUBLE); /* it would be recorded without what it did */
    assert_contains(till->reason, "no transaction");
    assert_int_equal(ask(till, "SELECT count(*) FROM holdfast_done"), 0);
    assert_int_equal(commit(till), HF_FENCE_TROUBLE);
    execute(till, "BEGIN; UPDATE money SET value = 3");
    assert_int_equal(begin(till, "till", "1"), HF_FENCE_TROUBLE);
    assert_contains(till->reason, "open already");
    execute(till, "COMMIT"); /* was left alone */
    assert_int_equal(ask(till, "SELECT value FROM money"), 3);
    assert_int_equal(begin(till, "till", "1"), HF_FENCE_ACCEPTED);
    assert_int_equal(once(till, ""), HF_FENCE_TROUBLE);
    assert_true(sqlite3_get_autocommit(till->db));
}

TEST(a_database_that_stays_busy_is_trouble)
{
    struct till *till = *state;
    struct till other = {0};
    snprintf(other.path, sizeof other.path, "%s", till->path);
    till_open(&other, 10);
    assert_int_equal(begin(till, "till", "5"), HF_FENCE_ACCEPTED);
    assert_int_equal(begin(&other, "till", "6"), HF_FENCE_TROUBLE);
    assert_contains(other.reason, "locked");
    assert_int_equal(commit(till), HF_FENCE_ACCEPTED);
    assert_int_equal(begin(&other, "till", "6"), HF_FENCE_ACCEPTED);
    assert_int_equal(commit(&other), HF_FENCE_ACCEPTED);
    till_close(&other);
}

/* With this journal a reader is in the way of the COMMIT, not of the BEGIN. */
TEST(a_commit_that_fails_has_undone_all)
{
    struct till *till = *state;
    struct till reader = {0};
    snprintf(reader.path, sizeof reader.path, "%s", till->path);
    till_open(&reader, 10);
    execute(&reader, "BEGIN; SELECT * FROM money");
    sqlite3_busy_timeout(till->db, 10);
    assert_int_equal(deposit(till, "5", "jid", "UPDATE money SET value = 5"), HF_FENCE_TROUBLE);
    assert_contains(till->reason, "locked");
    assert_true(sqlite3_get_autocommit(till->db));
    execute(&reader, "COMMIT");
    till_close(&reader);
    assert_int_equal(ask(till, "SELECT value FROM money"), 0);
    assert_int_equal(deposit(till, "4", "jid", "UPDATE money SET value = 6"), HF_FENCE_ACCEPTED);
}

TEST(tables_that_are_missing_or_hold_nonsense_are_trouble)
{
    struct till *till = *state;
    execute(till, "INSERT INTO holdfast_fence VALUES ('till', 'many')");
    assert_int_equal(begin(till, "till", "9"), HF_FENCE_TROUBLE);
    assert_contains(till->reason, "no number");
    assert_true(sqlite3_get_autocommit(till->db));
    execute(till, "DROP TABLE holdfast_fence");
    assert_int_equal(begin(till, "till", "9"), HF_FENCE_TROUBLE);
    assert_contains(till->reason, "no such table");
    assert_null(hf_fence_sqlite_create(till->db, till->reason, sizeof till->reason));
    assert_contains(till->reason, "holdfast_fence");
}

/* --- many at once ------------------------------------------------------------------------------------------- */

enum { PROCESSES = 6, ROUNDS = 60 };

/* Reads, thinks, writes what it made of what it read: all that a lock is for, with a lock that keeps nobody out. */
static void member(struct crowd *crowd, void *context, unsigned *seed)
{
    struct till till = {0};
    snprintf(till.path, sizeof till.path, "%s", (const char *)context);
    till_open(&till, 20000);
    for (int i = 0; i < ROUNDS; i++) {
        char token[24], text[200];
        crowd_token(crowd, token);
        crowd_pause(seed); /* so that the larger token may be there first */
        enum hf_fence_outcome outcome = begin(&till, "till", token);
        int64_t value = outcome == HF_FENCE_ACCEPTED ? ask(&till, "SELECT value FROM money") : 0;
        if (outcome == HF_FENCE_ACCEPTED)
            outcome = commit(&till);
        crowd_pause(seed);
        snprintf(text, sizeof text,
                 "UPDATE money SET value = %lld; INSERT INTO history (token, value) VALUES (%s, %lld)",
                 (long long)value + 1, token, (long long)value + 1);
        if (outcome == HF_FENCE_ACCEPTED)
            outcome = deposit(&till, token, token, text);
        atomic_fetch_add(outcome == HF_FENCE_ACCEPTED ? &crowd->accepted
                         : outcome == HF_FENCE_STALE  ? &crowd->refused
                                                      : &crowd->failed,
                         1);
    }
    till_close(&till);
}

TEST(many_at_once_lose_nothing)
{
    struct till *till = *state;
    struct crowd *crowd = crowd_run(PROCESSES, member, till->path);
    assert_int_equal(crowd->failed, 0);
    assert_int_equal(crowd->accepted + crowd->refused, PROCESSES * ROUNDS);
    assert_true(crowd->accepted > 0);
    assert_int_equal(ask(till, "SELECT value FROM money"), crowd->accepted);
    assert_int_equal(ask(till, "SELECT count(*) FROM history WHERE value <> place"), 0);
    assert_int_equal(ask(till, "SELECT count(*) FROM holdfast_done"), crowd->accepted);
    /* Tokens only rise. */
    assert_int_equal(ask(till, "SELECT count(*) FROM history a JOIN history b ON b.place = a.place + 1"
                               " WHERE b.token <= a.token"),
                     0);
    crowd_destroy(crowd);
}

RUN_TESTS_WITH(enter, leave)
