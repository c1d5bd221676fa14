/* A connection to a database of somebody else, with what a fenced statement needs.
 *
 *     connection = sql_connection_open(path, busy_timeout_ms, &stop, reason, size)
 *     sql_connection_attend(connection, &stop)         before each run: who is asked whether to go on
 *     statement = sql_connection_prepare(...)
 *
 * Waiting for other writers and long statements end when stop->asked() says so. Belongs to one thread. */
#ifndef JOBS_SQL_CONNECTION_H
#define JOBS_SQL_CONNECTION_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/fence/fence.h"

struct sql_stop {
    int (*asked)(void *job);
    void *job;
};

struct sql_connection {
    sqlite3 *db;
    struct hf_fence_sqlite *fence;
    int64_t busy_timeout_ms, waiting_since_ns;
    const struct sql_stop *stop; /* NULL: nobody asks */
};

/* Opens a database that exists and creates the tables of fence.h if they are missing. NULL with a reason; `*is_busy`
 * says whether that is only because others write. */
struct sql_connection *sql_connection_open(const char *path, int64_t busy_timeout_ms, const struct sql_stop *stop,
                                           int *is_busy, char *reason, size_t reason_size);
void sql_connection_close(struct sql_connection *connection); /* NULL is fine. Statements are finalized before */
void sql_connection_attend(struct sql_connection *connection, const struct sql_stop *stop);

/* One statement, which the caller finalizes; NULL with a reason. `*is_hopeless`: it is not of the kind that may run
 * here (several statements, transactions of its own, other files, PRAGMA). */
sqlite3_stmt *sql_connection_prepare(struct sql_connection *connection, const char *text, int *is_hopeless,
                                     char *reason, size_t reason_size);

#endif
