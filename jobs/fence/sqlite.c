/* The SQLite sink of fence.h. BEGIN IMMEDIATE takes the write lock of the whole database before the comparison, so
 * no other writer comes between the comparison and the COMMIT. SQLite knows whether a transaction is open; this file
 * keeps no state of its own, which a ROLLBACK by the caller or by SQLite would make wrong. */
#include "jobs/fence/fence.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "jobs/fence/rule.h"

enum statement { BEGIN, COMMIT, ROLLBACK, STORED, ADVANCE, RECORD, STATEMENTS };

static const char *const statement_texts[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [STORED] = "SELECT token FROM holdfast_fence WHERE resource = ?1",
    [ADVANCE] = "INSERT INTO holdfast_fence VALUES (?1, ?2) ON CONFLICT (resource) DO UPDATE SET token = ?2",
    [RECORD] = "INSERT OR IGNORE INTO holdfast_done (jid) VALUES (?1)",
};

struct hf_fence_sqlite {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
};

/* --- statements --------------------------------------------------------------------------------------------- */

static int step(struct hf_fence_sqlite *fence, enum statement which, const char *text, int64_t number)
{
    sqlite3_stmt *statement = fence->statements[which];
    int parameters = sqlite3_bind_parameter_count(statement);
    if (parameters >= 1)
        sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC);
    if (parameters >= 2)
        sqlite3_bind_int64(statement, 2, number);
    int code = sqlite3_step(statement);
    sqlite3_reset(statement);
    return code;
}

void hf_fence_sqlite_rollback(struct hf_fence_sqlite *fence)
{
    if (!sqlite3_get_autocommit(fence->db))
        step(fence, ROLLBACK, NULL, 0);
}

/* Takes the text first, because ROLLBACK would replace it. */
static enum hf_fence_outcome trouble(struct hf_fence_sqlite *fence, char *reason, size_t reason_size)
{
    snprintf(reason, reason_size, "%.300s", sqlite3_errmsg(fence->db));
    hf_fence_sqlite_rollback(fence);
    return HF_FENCE_TROUBLE;
}

static enum hf_fence_outcome senseless(const char *what, char *reason, size_t reason_size)
{
    snprintf(reason, reason_size, "%s", what);
    return HF_FENCE_TROUBLE;
}

/* --- tables ------------------------------------------------------------------------------------------------- */

int hf_fence_sqlite_install(struct sqlite3 *db, char *reason, size_t reason_size)
{
    static const char tables[] =
        "CREATE TABLE IF NOT EXISTS holdfast_fence (resource TEXT PRIMARY KEY, token INTEGER NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE IF NOT EXISTS holdfast_done (jid TEXT PRIMARY KEY) WITHOUT ROWID";
    if (sqlite3_exec(db, tables, NULL, NULL, NULL) == SQLITE_OK)
        return 1;
    snprintf(reason, reason_size, "%.300s", sqlite3_errmsg(db));
    return 0;
}

struct hf_fence_sqlite *hf_fence_sqlite_create(struct sqlite3 *db, char *reason, size_t reason_size)
{
    struct hf_fence_sqlite *fence = calloc(1, sizeof *fence);
    if (fence == NULL) {
        snprintf(reason, reason_size, "out of memory");
        return NULL;
    }
    fence->db = db;
    for (int i = 0; i < STATEMENTS; i++) {
        if (sqlite3_prepare_v3(db, statement_texts[i], -1, SQLITE_PREPARE_PERSISTENT, &fence->statements[i], NULL) !=
            SQLITE_OK) {
            snprintf(reason, reason_size, "%.300s", sqlite3_errmsg(db));
            hf_fence_sqlite_destroy(fence);
            return NULL;
        }
    }
    return fence;
}

void hf_fence_sqlite_destroy(struct hf_fence_sqlite *fence)
{
    if (fence == NULL)
        return;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(fence->statements[i]);
    free(fence);
}

/* --- the transaction ---------------------------------------------------------------------------------------- */

/* The largest token seen, 0 before the first. If the stored value is no number, no sink wrote it, and stale tokens
 * cannot be recognised. */
static int stored_read(struct hf_fence_sqlite *fence, const char *resource, int64_t *stored)
{
    sqlite3_stmt *statement = fence->statements[STORED];
    sqlite3_bind_text(statement, 1, resource, -1, SQLITE_STATIC);
    int code = sqlite3_step(statement);
    *stored = 0;
    if (code == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_INTEGER)
        code = SQLITE_MISMATCH;
    else if (code == SQLITE_ROW)
        *stored = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return code;
}

static enum hf_fence_outcome resource_advance(struct hf_fence_sqlite *fence, const char *resource, int64_t number,
                                              char *reason, size_t reason_size)
{
    int64_t stored;
    int code = stored_read(fence, resource, &stored);
    if (code == SQLITE_MISMATCH) {
        hf_fence_sqlite_rollback(fence);
        return senseless("holdfast_fence holds a token that is no number", reason, reason_size);
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return trouble(fence, reason, reason_size);
    if (!hf_fence_admits(stored, number)) {
        hf_fence_sqlite_rollback(fence);
        return hf_fence_stale(resource, stored, number, reason, reason_size);
    }
    return step(fence, ADVANCE, resource, number) == SQLITE_DONE ? HF_FENCE_ACCEPTED
                                                                 : trouble(fence, reason, reason_size);
}

enum hf_fence_outcome hf_fence_sqlite_begin(struct hf_fence_sqlite *fence, const char *const *resources, unsigned count,
                                            const char *token, char *reason, size_t reason_size)
{
    int64_t number;
    enum hf_fence_outcome outcome = HF_FENCE_ACCEPTED;
    if (!hf_fence_offered(token, &number, reason, reason_size))
        return HF_FENCE_TROUBLE;
    if (count == 0)
        return senseless("there is no resource to fence", reason, reason_size);
    if (!sqlite3_get_autocommit(fence->db))
        return senseless("a transaction is open already", reason, reason_size);
    if (step(fence, BEGIN, NULL, 0) != SQLITE_DONE)
        return trouble(fence, reason, reason_size);
    for (unsigned i = 0; i < count && outcome == HF_FENCE_ACCEPTED; i++)
        outcome = resource_advance(fence, resources[i], number, reason, reason_size);
    return outcome;
}

enum hf_fence_outcome hf_fence_sqlite_once(struct hf_fence_sqlite *fence, const char *jid, char *reason,
                                           size_t reason_size)
{
    if (sqlite3_get_autocommit(fence->db))
        return senseless("no transaction is open: what is done is recorded with what was written", reason, reason_size);
    if (jid == NULL || jid[0] == '\0') {
        hf_fence_sqlite_rollback(fence);
        return senseless("the task has no jid, so a repeat could not be noticed", reason, reason_size);
    }
    if (step(fence, RECORD, jid, 0) != SQLITE_DONE)
        return trouble(fence, reason, reason_size);
    if (sqlite3_changes(fence->db) > 0)
        return HF_FENCE_ACCEPTED;
    hf_fence_sqlite_rollback(fence);
    snprintf(reason, reason_size, "the task %.128s was done before", jid);
    return HF_FENCE_REPEAT;
}

enum hf_fence_outcome hf_fence_sqlite_commit(struct hf_fence_sqlite *fence, char *reason, size_t reason_size)
{
    if (sqlite3_get_autocommit(fence->db))
        return senseless("no transaction is open", reason, reason_size);
    return step(fence, COMMIT, NULL, 0) == SQLITE_DONE ? HF_FENCE_ACCEPTED : trouble(fence, reason, reason_size);
}
