/* sql: one statement on an SQLite database, under a fence. Class: sql. docs/jobs.md is its manual.
 *
 * Arguments: [DATABASE, STATEMENT] or [DATABASE, STATEMENT, VALUES]. Both are names from the settings: a task brings
 * values, never a path or a statement. VALUES is an array for ?1 and so on, or an object for :name.
 *
 * What it does. One transaction compares and advances the fence of every locked resource, records the jid, runs the
 * statement and commits: jobs/fence/fence.h. So a worker whose lock has gone to another cannot write (HF::FencedOff),
 * and a task that runs again after a crash changes nothing. A statement that only reads is not recorded: it reads
 * again. A task that names no resource locks the whole database, "sql:DATABASE".
 *
 * Without a token (lock.fence = false) nothing can be compared. Such a task is buried, unless the setting fence says
 * "when_there": then all rests on the lock.
 *
 * Cancellation. SQLite asks while it waits for other writers and while a statement takes long; the last question comes
 * before COMMIT, with the database's write lock held.
 *
 * Threads: each has connections of its own, one a database, made on first use.
 *
 * Settings: databases and database_NAME (paths), statements and statement_NAME (jobs/catalog.h), busy_timeout
 * (milliseconds, default "5000"), fence ("required" or "when_there"; default "required"). */
#include "jobs/arguments/arguments.h"
#include "jobs/catalog.h"
#include "jobs/fence/fence.h"
#include "jobs/kit.h"
#include "jobs/per_thread.h"
#include "jobs/sql/connection.h"
#include "jobs/sql/parameters.h"
#include "jobs/sql/rows.h"

enum { REASON_MAX = 320 };

struct sql {
    struct kit kit;
    struct catalog databases, statements;
    int64_t busy_timeout_ms;
    int is_fence_required;
    struct per_thread threads;
};

/* What a thread has of one database. */
struct open_database {
    struct sql_connection *connection;
    sqlite3_stmt *statements[CATALOG_MAX];
};

struct sql_thread {
    struct open_database databases[CATALOG_MAX];
};

struct order {
    const struct sql *sql;
    hf_job *job;
    int database, statement; /* places in the catalogs */
    struct argument values;
    const char *jid, *token;
    const char *const *resources;
    unsigned resource_count;
    struct sql_connection *connection;
    sqlite3_stmt *prepared;
};

/* --- how it ends -------------------------------------------------------------------------------------------- */

static int is_cancelled(const struct order *order)
{
    return order->sql->kit.cancel->cancelled(order->job);
}

static int must_stop(void *order)
{
    return is_cancelled(order);
}

static int end_with(const struct order *order, int code, const char *error_class, const char *what)
{
    order->sql->kit.job->error(order->job, error_class, "%s on %s: %.300s",
                               order->sql->statements.entries[order->statement].name,
                               order->sql->databases.entries[order->database].name, what);
    return code;
}

/* Of what SQLite refused; the transaction is over, and `what` was taken before. */
static int end_of_trouble(const struct order *order, int sqlite_code, const char *what)
{
    if (is_cancelled(order))
        return HF_CANCELLED;
    switch (sqlite_code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return end_with(order, HF_FAIL, "SqlBusy", what);
    case SQLITE_CONSTRAINT:
        return end_with(order, HF_FAIL, "SqlConstraint", what);
    default:
        return end_with(order, HF_FAIL, "SqlError", what);
    }
}

static int fail(const struct order *order)
{
    char what[REASON_MAX]; /* ROLLBACK would replace it */
    int code = sqlite3_errcode(order->connection->db);
    snprintf(what, sizeof what, "%.300s", sqlite3_errmsg(order->connection->db));
    hf_fence_sqlite_rollback(order->connection->fence);
    return end_of_trouble(order, code, what);
}

static int end_of_fence(const struct order *order, enum hf_fence_outcome outcome, const char *reason)
{
    if (outcome == HF_FENCE_STALE)
        return end_with(order, HF_FAIL, HF_FENCED_OFF, reason);
    return end_of_trouble(order, sqlite3_errcode(order->connection->db), reason);
}

/* --- the transaction ---------------------------------------------------------------------------------------- */

static int transaction_begin(const struct order *order)
{
    char reason[REASON_MAX];
    if (order->token[0] == '\0')
        return sqlite3_exec(order->connection->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK ? HF_OK
                                                                                                     : fail(order);
    enum hf_fence_outcome outcome = hf_fence_sqlite_begin(order->connection->fence, order->resources,
                                                          order->resource_count, order->token, reason, sizeof reason);
    return outcome == HF_FENCE_ACCEPTED ? HF_OK : end_of_fence(order, outcome, reason);
}

/* `*is_repeat`: the task was done before, and the transaction is over. */
static int record(const struct order *order, int *is_repeat)
{
    char reason[REASON_MAX];
    if (sqlite3_stmt_readonly(order->prepared))
        return HF_OK;
    enum hf_fence_outcome outcome = hf_fence_sqlite_once(order->connection->fence, order->jid, reason, sizeof reason);
    *is_repeat = outcome == HF_FENCE_REPEAT;
    return outcome == HF_FENCE_ACCEPTED || *is_repeat ? HF_OK : end_of_fence(order, outcome, reason);
}

/* A statement that writes goes to its end whatever it returns; of one that reads, what is not kept need not be read. */
static int statement_run(const struct order *order, struct sql_rows *rows)
{
    int code;
    while ((code = sqlite3_step(order->prepared)) == SQLITE_ROW) {
        if (!sql_rows_add(rows, order->prepared)) {
            hf_fence_sqlite_rollback(order->connection->fence);
            return end_with(order, HF_FAIL, "SqlError", "out of memory");
        }
        if (rows->is_cut && sqlite3_stmt_readonly(order->prepared))
            return HF_OK;
    }
    return code == SQLITE_DONE ? HF_OK : fail(order);
}

static int commit(const struct order *order)
{
    char reason[REASON_MAX];
    if (is_cancelled(order)) {
        hf_fence_sqlite_rollback(order->connection->fence);
        return HF_CANCELLED;
    }
    enum hf_fence_outcome outcome = hf_fence_sqlite_commit(order->connection->fence, reason, sizeof reason);
    return outcome == HF_FENCE_ACCEPTED ? HF_OK : end_of_fence(order, outcome, reason);
}

static int transaction_run(const struct order *order, struct sql_rows *rows)
{
    long long changes = 0;
    int is_repeat = 0, code = transaction_begin(order);
    if (code == HF_OK)
        code = record(order, &is_repeat);
    if (code == HF_OK && is_repeat) {
        order->sql->kit.job->event(order->job, HF_LOG_WARN, "task_seen_before", NULL, 0);
        kit_result(&order->sql->kit, order->job, "{\"repeat\":true}");
        return HF_OK;
    }
    if (code == HF_OK)
        code = statement_run(order, rows);
    if (code == HF_OK && !sqlite3_stmt_readonly(order->prepared))
        changes = sqlite3_changes(order->connection->db);
    sqlite3_reset(order->prepared);
    if (code == HF_OK)
        code = commit(order);
    if (code != HF_OK)
        return code;
    char *result = sql_rows_result(rows, changes);
    if (result != NULL)
        kit_result(&order->sql->kit, order->job, result);
    free(result);
    return HF_OK;
}

/* --- connections and statements ----------------------------------------------------------------------------- */

static void thread_free(void *value)
{
    struct sql_thread *thread = value;
    for (int i = 0; i < CATALOG_MAX; i++) {
        for (int j = 0; j < CATALOG_MAX; j++)
            sqlite3_finalize(thread->databases[i].statements[j]);
        sql_connection_close(thread->databases[i].connection);
    }
    free(thread);
}

static struct sql_thread *thread_of(struct sql *sql)
{
    struct sql_thread *thread = per_thread_get(&sql->threads);
    if (thread != NULL)
        return thread;
    thread = calloc(1, sizeof *thread);
    if (thread == NULL || per_thread_set(&sql->threads, thread) == 0)
        return thread;
    free(thread);
    return NULL;
}

static int connect_to(struct order *order, struct open_database *database, const struct sql_stop *stop)
{
    const struct sql *sql = order->sql;
    char reason[REASON_MAX];
    int is_busy = 0;
    if (database->connection == NULL)
        database->connection = sql_connection_open(sql->databases.entries[order->database].value, sql->busy_timeout_ms,
                                                   stop, &is_busy, reason, sizeof reason);
    order->connection = database->connection;
    if (order->connection != NULL)
        return HF_OK;
    return end_of_trouble(order, is_busy ? SQLITE_BUSY : SQLITE_CANTOPEN, reason);
}

static int prepare(struct order *order, struct open_database *database)
{
    sqlite3_stmt **prepared = &database->statements[order->statement];
    char reason[REASON_MAX];
    int is_hopeless = 0;
    if (*prepared == NULL)
        *prepared = sql_connection_prepare(order->connection, order->sql->statements.entries[order->statement].value,
                                           &is_hopeless, reason, sizeof reason);
    order->prepared = *prepared;
    if (order->prepared != NULL)
        return HF_OK;
    if (is_hopeless)
        return end_with(order, HF_BURY, "SqlStatement", reason);
    return end_of_trouble(order, sqlite3_errcode(order->connection->db), reason);
}

static int order_run(struct order *order, struct open_database *database)
{
    const struct sql_stop stop = {must_stop, order};
    struct sql_rows rows = {0};
    char reason[REASON_MAX];
    int code = connect_to(order, database, &stop);
    if (code != HF_OK)
        return code;
    sql_connection_attend(order->connection, &stop);
    code = prepare(order, database);
    if (code == HF_OK && !sql_parameters_bind(order->prepared, order->values, reason, sizeof reason))
        code = end_with(order, HF_BURY, "HF::BadArguments", reason);
    if (code == HF_OK)
        code = transaction_run(order, &rows);
    if (order->prepared != NULL) {
        sqlite3_reset(order->prepared);
        sqlite3_clear_bindings(order->prepared);
    }
    sql_connection_attend(order->connection, NULL);
    sql_rows_fini(&rows);
    return code;
}

/* --- arguments ---------------------------------------------------------------------------------------------- */

/* The names are to be freed in any case. */
static int arguments_read(const char *args, size_t length, char **database, char **statement, struct argument *values,
                          char *reason, size_t reason_size)
{
    struct argument array = argument_of(args, length), piece;
    *database = argument_element(array, 0, &piece) ? argument_text(piece) : NULL;
    *statement = argument_element(array, 1, &piece) ? argument_text(piece) : NULL;
    if (*database == NULL || *statement == NULL || argument_element(array, 3, &piece))
        return kit_refuse(reason, reason_size, "expected [DATABASE, STATEMENT] or [DATABASE, STATEMENT, VALUES]");
    if (!argument_element(array, 2, values))
        *values = argument_of("[]", 2);
    return sql_parameters_check(*values, reason, reason_size);
}

static int check(const char *args, size_t length, char *reason, size_t reason_size)
{
    char *database, *statement;
    struct argument values;
    int is_good = arguments_read(args, length, &database, &statement, &values, reason, reason_size);
    free(database);
    free(statement);
    return is_good;
}

/* NULL, or what is wrong with the task. */
static const char *order_read(struct order *order, char *reason, size_t reason_size)
{
    const struct kit *kit = &order->sql->kit;
    char *database, *statement;
    size_t length = 0;
    const char *args = kit->job->args(order->job, &length);
    int is_good = arguments_read(args, length, &database, &statement, &order->values, reason, reason_size);
    if (is_good) {
        order->database = catalog_find(&order->sql->databases, database);
        order->statement = catalog_find(&order->sql->statements, statement);
    }
    free(database);
    free(statement);
    order->jid = kit->job->jid(order->job);
    order->resource_count = kit->lock->resources(order->job, &order->resources);
    order->token = order->resource_count > 0 ? kit->lock->fence(order->job, 0) : "";
    if (!is_good)
        return reason;
    if (order->database < 0)
        return "the setting databases does not name this database";
    if (order->statement < 0)
        return "the setting statements does not name this statement";
    if (order->token[0] == '\0' && order->sql->is_fence_required)
        return "its lock has no token, so nothing can be fenced: see lock.fence, and the setting fence of this plugin";
    return NULL;
}

static int run(hf_job *job, void *state)
{
    struct sql *sql = state;
    struct order order = {.sql = sql, .job = job};
    char reason[REASON_MAX];
    const char *mistake = order_read(&order, reason, sizeof reason);
    if (mistake != NULL)
        return kit_bury(&sql->kit, job, "HF::BadArguments", mistake);
    struct sql_thread *thread = thread_of(sql);
    if (thread == NULL)
        return end_with(&order, HF_FAIL, "SqlError", "out of memory");
    return order_run(&order, &thread->databases[order.database]);
}

/* --- opening ------------------------------------------------------------------------------------------------ */

/* Where a worker serves databases it has to be able to open them: it says so now and not with every task. */
static int databases_try(const struct sql *sql, char *reason, size_t reason_size)
{
    char why[REASON_MAX];
    for (size_t i = 0; i < sql->databases.count; i++) {
        int is_busy = 0;
        struct sql_connection *connection =
            sql_connection_open(sql->databases.entries[i].value, sql->busy_timeout_ms, NULL, &is_busy, why, sizeof why);
        sql_connection_close(connection);
        if (connection == NULL && !is_busy) {
            snprintf(reason, reason_size, "the setting database_%s: %.128s: %.100s", sql->databases.entries[i].name,
                     sql->databases.entries[i].value, why);
            return -1;
        }
    }
    return 0;
}

static int settings_read(struct sql *sql, const hf_host *host, char *reason, size_t reason_size)
{
    const char *fence = kit_setting(host, "fence", "required");
    sql->busy_timeout_ms = 5000;
    sql->is_fence_required = strcmp(fence, "required") == 0;
    if (!sql->is_fence_required && strcmp(fence, "when_there") != 0) {
        snprintf(reason, reason_size, "the setting fence is to be \"required\" or \"when_there\"");
        return -1;
    }
    if (kit_setting_number(host, "busy_timeout", 600000, &sql->busy_timeout_ms, reason, reason_size) != 0 ||
        catalog_read(&sql->databases, host, "database", reason, reason_size) != 0 ||
        catalog_read(&sql->statements, host, "statement", reason, reason_size) != 0)
        return -1;
    return databases_try(sql, reason, reason_size);
}

static void sql_free(struct sql *sql)
{
    catalog_fini(&sql->databases);
    catalog_fini(&sql->statements);
    free(sql);
}

static int open_sql(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    struct sql *sql = kit_state(sizeof *sql, host, reason, reason_size);
    if (sql == NULL)
        return -1;
    int failed = settings_read(sql, host, reason, reason_size);
    if (failed == 0 && per_thread_init(&sql->threads, thread_free) != 0) {
        snprintf(reason, reason_size, "no thread can have anything of its own");
        failed = -1;
    }
    if (failed != 0)
        sql_free(sql);
    else
        *state = sql;
    return failed;
}

static void close_sql(void *state)
{
    struct sql *sql = state;
    per_thread_fini(&sql->threads);
    sql_free(sql);
}

static const char *const resources[] = {"sql:{0}", NULL};

static const hf_handler handler = {
    .size = sizeof handler,
    .name = "sql",
    .about = "a fenced statement on SQLite; arguments: [DATABASE, STATEMENT, VALUES]",
    .flags = HF_LOCK_REQUIRED,
    .run = run,
    .check = check,
    .resources = resources,
    .isolation = HF_ISOLATION_THREAD,
};
static const hf_handler *const handlers[] = {&handler, NULL};

const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("sql", "1.0"), .open = open_sql, .close = close_sql,
                                   .handlers = handlers};
