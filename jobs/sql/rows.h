/* The rows of a statement as JSON: objects by the names of their columns, up to a limit. */
#ifndef JOBS_SQL_ROWS_H
#define JOBS_SQL_ROWS_H

#include <sqlite3.h>
#include <stddef.h>

enum { SQL_ROWS_MAX = 1000, SQL_BYTES_MAX = 262144 };

/* Zeroed = none. */
struct sql_rows {
    char *text; /* the objects with commas between */
    size_t length;
    unsigned count;
    int is_cut; /* there were more */
};

/* Adds the row on which the statement stands. 0 without memory. Beyond the limit nothing is added. A blob becomes its
 * bytes in hexadecimal, an infinite number null. */
int sql_rows_add(struct sql_rows *rows, sqlite3_stmt *statement);
void sql_rows_fini(struct sql_rows *rows);
/* {"changes":1,"rows":[...],"cut":false}, to be freed; NULL without memory. */
char *sql_rows_result(const struct sql_rows *rows, long long changes);

#endif
