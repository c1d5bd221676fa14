/* A row is made as a whole and counted as text: what does not fit any more is left out as a whole. */
#include "jobs/sql/rows.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* A text that is no UTF-8 is taken for a blob. */
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

int sql_rows_add(struct sql_rows *rows, sqlite3_stmt *statement)
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

void sql_rows_fini(struct sql_rows *rows)
{
    free(rows->text);
    *rows = (struct sql_rows){0};
}

char *sql_rows_result(const struct sql_rows *rows, long long changes)
{
    char *text = NULL;
    if (asprintf(&text, "{\"changes\":%lld,\"rows\":[%s],\"cut\":%s}", changes, rows->text != NULL ? rows->text : "",
                 rows->is_cut ? "true" : "false") < 0)
        return NULL;
    return text;
}
