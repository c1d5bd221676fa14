/* The transfer job, opened on a ledger of its own for each test. */
#ifndef TESTS_TRANSFER_FIXTURE_H
#define TESTS_TRANSFER_FIXTURE_H

#include "tests/support/test.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/fake_host.h"
#include "tests/support/private_directory.h"

struct bank {
    char directory[PRIVATE_DIRECTORY_MAX];
    char ledger[300];
    struct fake_plugin *plugin;
    struct fake_setting settings[FAKE_SETTINGS_MAX];
};
static struct bank *bank;

static inline void bank_open(void)
{
    char reason[512] = "";
    bank->plugin = fake_plugin_open("transfer", bank->settings, reason);
    if (bank->plugin == NULL)
        fail_msg("%s", reason);
}

static inline void enter(void)
{
    bank = calloc(1, sizeof *bank);
    private_directory_create(bank->directory);
    snprintf(bank->ledger, sizeof bank->ledger, "%s/ledger.db", bank->directory);
    bank->settings[0] = (struct fake_setting){"ledger", bank->ledger};
    bank->settings[1] = (struct fake_setting){"synchronous", "off"};
    bank->settings[2] = (struct fake_setting){"busy_timeout", "100000"}; /* as long as TEST_PATIENCE_NS */
    bank_open();
}

static inline void leave(void)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    if (bank->plugin != NULL)
        fake_plugin_close(bank->plugin);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        char path[320];
        snprintf(path, sizeof path, "%s%s", bank->ledger, endings[i]);
        unlink(path);
    }
    int failed = rmdir(bank->directory);
    free(bank);
    assert_int_equal(failed, 0);
}

/* The first column of the first row. */
static inline int64_t ask(const char *query)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(bank->ledger, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, TEST_PATIENCE_NS / NS_PER_MS);
    assert_int_equal(sqlite3_prepare_v2(db, query, -1, &statement, NULL), SQLITE_OK);
    int code = sqlite3_step(statement);
    int64_t value = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : INT64_MIN;
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
}

static inline int64_t balance(const char *account)
{
    char query[160];
    snprintf(query, sizeof query, "SELECT balance FROM accounts WHERE name = '%s'", account);
    return ask(query);
}

static inline hf_job order(const char *jid, const char *from, const char *to, int64_t amount)
{
    return (hf_job){.jid = jid, .args = {FAKE_TEXT(from), FAKE_TEXT(to), FAKE_NUMBER(amount)}, .arg_count = 3};
}

static inline int transfer(const char *jid, const char *from, const char *to, int64_t amount)
{
    hf_job job = order(jid, from, to, amount);
    return fake_plugin_run(bank->plugin, &job);
}

static inline void cancel_at_once(hf_job *job)
{
    job->is_cancelled = true;
}

#endif
