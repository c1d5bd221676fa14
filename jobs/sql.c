/* sql: one statement on an SQLite database, under a fence. Class: sql. docs/jobs.md is its manual.
 *
 * Arguments: [DATABASE, STATEMENT] or [DATABASE, STATEMENT, VALUES]. Both are names from the settings: a task supplies
 * values, never a path or a statement. VALUES is an array for ?1 and so on, or an object for :name.
 *
 * One transaction compares and advances the fence of every locked resource, records the jid, runs the statement and
 * commits: jobs/fence/fence.h. So a worker that lost its lock to another cannot write (HF::FencedOff), and a task that
 * runs again after a crash changes nothing. Read-only statements are not recorded and simply run again. A task that
 * names no resource locks the whole database, "sql:DATABASE".
 *
 * Without a token (lock.fence = false) there is nothing to compare. Such a task is buried, unless the setting fence is
 * "when_there": then safety depends on the lock alone.
 *
 * Cancellation. Checked while SQLite waits for other writers, during long statements, and last before COMMIT, with the
 * database's write lock held.
 *
 * Threads: each has its own connection to each database, created on first use.
 *
 * Settings: databases and database_NAME (paths), statements and statement_NAME (jobs/catalog.h), busy_timeout
 * (milliseconds, default "5000"), fence ("required" or "when_there"; default "required"). */
#include <jansson.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/arguments/arguments.h"
#include "jobs/catalog.h"
#include "jobs/fence/fence.h"
#include "jobs/kit.h"
#include "jobs/per_thread.h"

/* --- connection --------------------------------------------------------------------------------------------------- */

/* A connection to a database of other programs; does not change its journal or settings.
 *
 *     connection = sql_connection_open(path, busy_timeout_ms, &stop, reason, size)
 *     connection->stop = &stop;                        before each run: says whether to stop
 *     statement = sql_connection_prepare(...)
 *
 * stop->asked() ends waits for other writers and long statements. Belongs to one thread. */

struct sql_stop {
    int (*asked)(const void *job);
    const void *job;
};

struct sql_connection {
    sqlite3 *db;
    struct hf_fence_sqlite *fence;
    int64_t busy_timeout_ms, waiting_since_ns;
    const struct sql_stop *stop; /* NULL: never stops */
};

enum { WAIT_MS = 5, STEPS_BETWEEN_QUESTIONS = 10000 };

static int is_to_stop(const struct sql_connection *connection)
{
    return connection->stop != NULL && connection->stop->asked(connection->stop->job);
}

/* SQLite asks whether to continue waiting: 0 = no. */
static int busy_wait(void *context, int times)
{
    struct sql_connection *connection = context;
    int64_t now = kit_now_ns();
    if (times == 0)
        connection->waiting_since_ns = now;
    if (is_to_stop(connection) || now - connection->waiting_since_ns >= connection->busy_timeout_ms * NS_PER_MS)
        return 0;
    sqlite3_sleep(WAIT_MS);
    return 1;
}

static int statement_goes_on(void *context)
{
    return is_to_stop(context);
}

/* Repeats the creation of tables, because SQLite does not apply the busy handler to all steps of opening. */
static int tables_create(struct sql_connection *connection, char *reason, size_t reason_size)
{
    for (int times = 0; !hf_fence_sqlite_install(connection->db, reason, reason_size); times++)
        if (sqlite3_errcode(connection->db) != SQLITE_BUSY || !busy_wait(connection, times))
            return 0;
    connection->fence = hf_fence_sqlite_create(connection->db, reason, reason_size);
    return connection->fence != NULL;
}

/* NULL is harmless. Finalize the statements first. */
static void sql_connection_close(struct sql_connection *connection)
{
    if (connection == NULL)
        return;
    hf_fence_sqlite_destroy(connection->fence);
    sqlite3_close(connection->db);
    free(connection);
}

/* Opens an existing database and creates missing tables of fence.h. NULL with a reason; `*is_busy` if the only
 * reason is other writers. */
static struct sql_connection *sql_connection_open(const char *path, int64_t busy_timeout_ms,
                                                  const struct sql_stop *stop, int *is_busy, char *reason,
                                                  size_t reason_size)
{
    struct sql_connection *connection = calloc(1, sizeof *connection);
    snprintf(reason, reason_size, "out of memory");
    if (connection == NULL)
        return NULL;
    connection->busy_timeout_ms = busy_timeout_ms;
    connection->stop = stop;
    int code = sqlite3_open_v2(path, &connection->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK) {
        sqlite3_busy_handler(connection->db, busy_wait, connection);
        sqlite3_progress_handler(connection->db, STEPS_BETWEEN_QUESTIONS, statement_goes_on, connection);
        sqlite3_db_config(connection->db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
        if (tables_create(connection, reason, reason_size))
            return connection;
    } else if (connection->db != NULL)
        snprintf(reason, reason_size, "%.200s", sqlite3_errmsg(connection->db));
    *is_busy = connection->db != NULL && sqlite3_errcode(connection->db) == SQLITE_BUSY;
    sql_connection_close(connection);
    return NULL;
}

/* Denies what would end the transaction with the fence, or reach another file. */
static int may_prepare(void *context, int action, const char *first, const char *second, const char *database,
                       const char *trigger)
{
    (void)context;
    (void)first;
    (void)second;
    (void)database;
    (void)trigger;
    switch (action) {
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
    case SQLITE_PRAGMA:
        return SQLITE_DENY;
    default:
        return SQLITE_OK;
    }
}

/* Prepares one statement, which the caller finalizes; NULL with a reason. `*is_hopeless`: such a statement may never
 * run here (several statements, transaction control, other files, PRAGMA). */
static sqlite3_stmt *sql_connection_prepare(struct sql_connection *connection, const char *text, int *is_hopeless,
                                            char *reason, size_t reason_size)
{
    sqlite3_stmt *statement = NULL;
    const char *rest = "";
    *is_hopeless = 0;
    sqlite3_set_authorizer(connection->db, may_prepare, NULL);
    int code = sqlite3_prepare_v3(connection->db, text, -1, SQLITE_PREPARE_PERSISTENT, &statement, &rest);
    sqlite3_set_authorizer(connection->db, NULL, NULL);
    if (code == SQLITE_OK && statement != NULL && rest[strspn(rest, " \t\r\n;")] == '\0')
        return statement;
    *is_hopeless = code == SQLITE_OK || code == SQLITE_AUTH;
    if (code == SQLITE_OK)
        snprintf(reason, reason_size, "it is to be one statement");
    else if (code == SQLITE_AUTH)
        snprintf(reason, reason_size, "it may not control transactions, attach files or use PRAGMA");
    else
        snprintf(reason, reason_size, "%.200s", sqlite3_errmsg(connection->db));
    sqlite3_finalize(statement);
    return NULL;
}

/* --- parameters --------------------------------------------------------------------------------------------------- */

/* Binds parameters of a statement from the arguments of a task: an array for ?1, ?2 ..., an object for :a, @a or $a.
 * Whole numbers are bound exactly or refused, never rounded. */

enum { SQL_PARAMETERS_MAX = 256 };

static int is_whole(struct argument number)
{
    return memchr(number.text, '.', number.length) == NULL && memchr(number.text, 'e', number.length) == NULL &&
           memchr(number.text, 'E', number.length) == NULL;
}

static int number_bind(sqlite3_stmt *statement, int index, struct argument value)
{
    int64_t whole;
    double number;
    if (is_whole(value))
        return argument_whole(value, &whole) && sqlite3_bind_int64(statement, index, whole) == SQLITE_OK;
    return argument_number(value, &number) && sqlite3_bind_double(statement, index, number) == SQLITE_OK;
}

static int text_bind(sqlite3_stmt *statement, int index, struct argument value)
{
    char *text = argument_text(value);
    return text != NULL && sqlite3_bind_text(statement, index, text, -1, free) == SQLITE_OK;
}

static int value_bind(sqlite3_stmt *statement, int index, struct argument value)
{
    switch (argument_kind(value)) {
    case 'n':
        return sqlite3_bind_null(statement, index) == SQLITE_OK;
    case 't':
    case 'f':
        return sqlite3_bind_int(statement, index, argument_kind(value) == 't') == SQLITE_OK;
    case '0':
        return number_bind(statement, index, value);
    case '"':
        return text_bind(statement, index, value);
    default:
        return sqlite3_bind_text64(statement, index, value.text, value.length, SQLITE_TRANSIENT, SQLITE_UTF8) ==
               SQLITE_OK;
    }
}

/* 0: the statement has no parameter of that name. */
static int index_of(sqlite3_stmt *statement, struct argument key)
{
    char *name = argument_text(key), *whole = name != NULL ? malloc(strlen(name) + 2) : NULL;
    int index = 0;
    for (const char *mark = ":@$"; whole != NULL && index == 0 && *mark != '\0'; mark++) {
        whole[0] = *mark;
        memcpy(whole + 1, name, strlen(name) + 1);
        index = sqlite3_bind_parameter_index(statement, whole);
    }
    free(name);
    free(whole);
    return index;
}

static int listed_bind(sqlite3_stmt *statement, struct argument array, int count, char *reason, size_t reason_size)
{
    struct argument value;
    for (int i = 1; i <= count; i++) {
        if (!argument_element(array, (unsigned)(i - 1), &value))
            return kit_refuse(reason, reason_size, "there are fewer values than the statement has parameters");
        if (!value_bind(statement, i, value))
            return kit_refuse(reason, reason_size, "a value is beyond 64 bits, too long, or has a NUL in it");
    }
    return !argument_element(array, (unsigned)count, &value) ||
           kit_refuse(reason, reason_size, "there are more values than the statement has parameters");
}

static int named_bind(sqlite3_stmt *statement, struct argument object, int count, char *reason, size_t reason_size)
{
    char is_bound[SQL_PARAMETERS_MAX + 1] = {0};
    struct argument key, value;
    for (size_t position = 0; argument_member(object, &position, &key, &value);) {
        int index = index_of(statement, key);
        if (index == 0)
            return kit_refuse(reason, reason_size, "a value has a name that is no parameter of the statement");
        if (is_bound[index])
            return kit_refuse(reason, reason_size, "a value is there twice");
        if (!value_bind(statement, index, value))
            return kit_refuse(reason, reason_size, "a value is beyond 64 bits, too long, or has a NUL in it");
        is_bound[index] = 1;
    }
    for (int i = 1; i <= count; i++)
        if (!is_bound[i])
            return kit_refuse(reason, reason_size, "a parameter of the statement has no value");
    return 1;
}

/* Whether the argument can hold parameters; 0 with a reason. */
static int sql_parameters_check(struct argument parameters, char *reason, size_t reason_size)
{
    char kind = argument_kind(parameters);
    return kind == '[' || kind == '{' || kit_refuse(reason, reason_size, "the values are to be an array or an object");
}

/* Binds every parameter of the statement. 0 with a reason about the arguments if one is missing or superfluous. null
 * is NULL, true and false are 1 and 0, arrays and objects are their JSON as text. */
static int sql_parameters_bind(sqlite3_stmt *statement, struct argument parameters, char *reason, size_t reason_size)
{
    int count = sqlite3_bind_parameter_count(statement);
    if (count > SQL_PARAMETERS_MAX)
        return kit_refuse(reason, reason_size, "the statement has more than 256 parameters");
    if (argument_kind(parameters) == '{')
        return named_bind(statement, parameters, count, reason, reason_size);
    return listed_bind(statement, parameters, count, reason, reason_size);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* The rows of a statement as JSON objects, by the names of their columns. Omits whole rows beyond the limit. */

enum { SQL_ROWS_MAX = 1000, SQL_BYTES_MAX = 262144 };

/* Zeroed = no rows. */
struct sql_rows {
    char *text; /* the objects, separated by commas */
    size_t length;
    unsigned count;
    int is_cut; /* there were more */
};

static json_t *hex_of(const unsigned char *bytes, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    char *hex = malloc(2 * length + 1);
    if (hex == NULL)
        return NULL;
    for (size_t i = 0; i < length; i++) {
        hex[2 * i] = digits[bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    json_t *text = json_stringn(hex, 2 * length);
    free(hex);
    return text;
}

/* A text that is not UTF-8 counts as a blob. */
static json_t *value_of(sqlite3_stmt *statement, int column)
{
    size_t length;
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        return json_integer(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT: {
        json_t *number = json_real(sqlite3_column_double(statement, column));
        return number != NULL ? number : json_null();
    }
    case SQLITE_NULL:
        return json_null();
    case SQLITE_TEXT: {
        const char *text = (const char *)sqlite3_column_text(statement, column);
        json_t *value = text != NULL ? json_stringn(text, (size_t)sqlite3_column_bytes(statement, column)) : NULL;
        if (value != NULL)
            return value;
        break;
    }
    default:
        break;
    }
    const unsigned char *bytes = sqlite3_column_blob(statement, column);
    length = (size_t)sqlite3_column_bytes(statement, column);
    return hex_of(bytes, bytes != NULL ? length : 0);
}

static int is_too_long(sqlite3_stmt *statement)
{
    size_t length = 0;
    for (int i = 0; i < sqlite3_column_count(statement); i++)
        length += sqlite3_column_type(statement, i) == SQLITE_NULL ? 0 : (size_t)sqlite3_column_bytes(statement, i);
    return length > SQL_BYTES_MAX;
}

static char *row_print(sqlite3_stmt *statement)
{
    json_t *row = json_object();
    int is_good = row != NULL;
    for (int i = 0; is_good && i < sqlite3_column_count(statement); i++) {
        const char *name = sqlite3_column_name(statement, i);
        is_good = name != NULL && json_object_set_new(row, name, value_of(statement, i)) == 0;
    }
    char *text = is_good ? json_dumps(row, JSON_COMPACT) : NULL;
    json_decref(row);
    return text;
}

static int text_add(struct sql_rows *rows, const char *row, size_t length)
{
    char *longer = realloc(rows->text, rows->length + length + 2);
    if (longer == NULL)
        return 0;
    rows->text = longer;
    rows->length += (size_t)snprintf(longer + rows->length, length + 2, "%s%s", rows->count > 0 ? "," : "", row);
    rows->count++;
    return 1;
}

/* Adds the current row of the statement, unless it exceeds the limit. 0 without memory. A blob becomes hexadecimal
 * text, an infinite number null. */
static int sql_rows_add(struct sql_rows *rows, sqlite3_stmt *statement)
{
    if (rows->is_cut || rows->count == SQL_ROWS_MAX || is_too_long(statement)) {
        rows->is_cut = 1;
        return 1;
    }
    char *row = row_print(statement);
    size_t length = row != NULL ? strlen(row) : 0;
    rows->is_cut = rows->length + length + 1 > SQL_BYTES_MAX;
    int is_good = row != NULL && (rows->is_cut || text_add(rows, row, length));
    free(row);
    return is_good;
}

/* {"changes":1,"rows":[...],"cut":false}, which the caller frees; NULL without memory. */
static char *sql_rows_result(const struct sql_rows *rows, long long changes)
{
    char *text = NULL;
    if (asprintf(&text, "{\"changes\":%lld,\"rows\":[%s],\"cut\":%s}", changes, rows->text != NULL ? rows->text : "",
                 rows->is_cut ? "true" : "false") < 0)
        return NULL;
    return text;
}

/* --- the job ------------------------------------------------------------------------------------------------------ */

enum { REASON_MAX = 320 };

struct sql {
    struct kit kit;
    struct catalog databases, statements;
    int64_t busy_timeout_ms;
    int is_fence_required;
    struct per_thread threads;
};

/* A thread's connection to one database. */
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
    int database, statement; /* indexes in the catalogs */
    struct argument values;
    const char *jid, *token;
    const char *const *resources;
    unsigned resource_count;
    struct sql_connection *connection;
    sqlite3_stmt *prepared;
};

/* --- how it ends -------------------------------------------------------------------------------------------- */

static int is_cancelled(const void *context)
{
    const struct order *order = context;
    return order->sql->kit.cancel->cancelled(order->job);
}

static int end_with(const struct order *order, int code, const char *error_class, const char *what)
{
    order->sql->kit.job->error(order->job, error_class, "%s on %s: %.300s",
                               order->sql->statements.entries[order->statement].name,
                               order->sql->databases.entries[order->database].name, what);
    return code;
}

/* The outcome after a refusal of SQLite. The transaction is over, and `what` was copied before. */
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

/* Sets `*is_repeat` if the task was done before; then the transaction is over. */
static int record(const struct order *order, int *is_repeat)
{
    char reason[REASON_MAX];
    if (sqlite3_stmt_readonly(order->prepared))
        return HF_OK;
    enum hf_fence_outcome outcome = hf_fence_sqlite_once(order->connection->fence, order->jid, reason, sizeof reason);
    *is_repeat = outcome == HF_FENCE_REPEAT;
    return outcome == HF_FENCE_ACCEPTED || *is_repeat ? HF_OK : end_of_fence(order, outcome, reason);
}

/* A statement that writes runs to its end, whatever rows it returns. One that reads stops at the limit of rows. */
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
    const struct sql_stop stop = {is_cancelled, order};
    struct sql_rows rows = {0};
    char reason[REASON_MAX];
    int code = connect_to(order, database, &stop);
    if (code != HF_OK)
        return code;
    order->connection->stop = &stop;
    code = prepare(order, database);
    if (code == HF_OK && !sql_parameters_bind(order->prepared, order->values, reason, sizeof reason))
        code = end_with(order, HF_BURY, "HF::BadArguments", reason);
    if (code == HF_OK)
        code = transaction_run(order, &rows);
    if (order->prepared != NULL) {
        sqlite3_reset(order->prepared);
        sqlite3_clear_bindings(order->prepared);
    }
    order->connection->stop = NULL;
    free(rows.text);
    return code;
}

/* --- arguments ---------------------------------------------------------------------------------------------- */

/* The caller frees the names in any case. */
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

/* NULL, or why the task is invalid. */
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

/* Makes a worker that cannot open a database fail at its start, and not with every task. */
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
    if (!sql->is_fence_required && strcmp(fence, "when_there") != 0)
        return kit_fail(reason, reason_size, "the setting fence is to be \"required\" or \"when_there\"");
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
    if (failed == 0 && per_thread_init(&sql->threads, thread_free) != 0)
        failed = kit_fail(reason, reason_size, "there is no key for thread-specific data");
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
