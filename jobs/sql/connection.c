/* The database is used as it is found: its journal and its settings are those of the programs that it belongs to. */
#include "jobs/sql/connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/kit.h"

#define NS_PER_MS INT64_C(1000000)
enum { WAIT_MS = 5, STEPS_BETWEEN_QUESTIONS = 10000 };

static int must_stop(const struct sql_connection *connection)
{
    return connection->stop != NULL && connection->stop->asked(connection->stop->job);
}

/* SQLite asks whether to wait on: 0 = no. */
static int busy_wait(void *context, int times)
{
    struct sql_connection *connection = context;
    int64_t now = kit_now_ns();
    if (times == 0)
        connection->waiting_since_ns = now;
    if (must_stop(connection) || now - connection->waiting_since_ns >= connection->busy_timeout_ms * NS_PER_MS)
        return 0;
    sqlite3_sleep(WAIT_MS);
    return 1;
}

static int statement_goes_on(void *context)
{
    return must_stop(context);
}

/* SQLite does not apply the busy handler to everything that opening needs: creating the tables is repeated here. */
static int tables_create(struct sql_connection *connection, char *reason, size_t reason_size)
{
    for (int times = 0; !hf_fence_sqlite_install(connection->db, reason, reason_size); times++)
        if (sqlite3_errcode(connection->db) != SQLITE_BUSY || !busy_wait(connection, times))
            return 0;
    connection->fence = hf_fence_sqlite_create(connection->db, reason, reason_size);
    return connection->fence != NULL;
}

struct sql_connection *sql_connection_open(const char *path, int64_t busy_timeout_ms, const struct sql_stop *stop,
                                           int *is_busy, char *reason, size_t reason_size)
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

void sql_connection_close(struct sql_connection *connection)
{
    if (connection == NULL)
        return;
    hf_fence_sqlite_destroy(connection->fence);
    sqlite3_close(connection->db);
    free(connection);
}

void sql_connection_attend(struct sql_connection *connection, const struct sql_stop *stop)
{
    connection->stop = stop;
}

/* What would end the transaction that carries the fence, or reach another file. */
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

sqlite3_stmt *sql_connection_prepare(struct sql_connection *connection, const char *text, int *is_hopeless,
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
