/* Structs as JSON objects and back, by a table of rows: what is written by a row is read again by it, member by member.
 * Names in the JSON stay as they are. What is read is believed only as far as it fits; members that no row names are
 * passed over. Pure.
 *
 *     static const struct json_row rows[] = {{"threads", JSON_ROW_NUMBER, offsetof(struct plan, threads)}, {NULL}};
 *     json_rows_write(&json, rows, &plan);                     inside of an object that is open
 *     json_rows_read(object, rows, NULL, &plan, &error)        "resources[3].name is no text" */
#ifndef WORKER_DRY_RUN_JSON_ROWS_H
#define WORKER_DRY_RUN_JSON_ROWS_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "base/histogram.h"
#include "worker/print/json_writer.h"

enum json_row_kind {
    JSON_ROW_REAL,      /* double; null is 0, unless there are limits */
    JSON_ROW_TIME,      /* int64_t of nanoseconds, in JSON seconds */
    JSON_ROW_COUNT,     /* uint64_t, at most INT64_MAX */
    JSON_ROW_SIGNED,    /* int64_t */
    JSON_ROW_NUMBER,    /* unsigned */
    JSON_ROW_TRUTH,     /* bool */
    JSON_ROW_TEXT,      /* char[size]: as much of it as there is room for; is_whole: or it is refused */
    JSON_ROW_NAME,      /* char *, its own, never NULL */
    JSON_ROW_CHOICE,    /* an enum: one of `choices` */
    JSON_ROW_OBJECT,    /* a struct with `rows` */
    JSON_ROW_HISTOGRAM, /* struct histogram *, its own, may be NULL */
    /* Lists. Elements are structs with `rows`; or values, when `rows` has one row, with the name "". */
    JSON_ROW_LIST,    /* an array in the struct, and an unsigned that says how many of it there are */
    JSON_ROW_GROWN,   /* a pointer to memory of its own, and a size_t */
    JSON_ROW_MATCHED, /* a pointer to memory of its own, NULL = none: as many as the unsigned before it says */
};

struct json_row {
    const char *name; /* NULL ends the table */
    enum json_row_kind kind;
    size_t offset, size;         /* size: of a text, of an element */
    double low, high;            /* of REAL, TIME, COUNT and NUMBER; low == high: whatever fits */
    bool is_optional;            /* what is not there is left as it was */
    bool is_whole;               /* of a TEXT */
    const char *const *choices;  /* ends with NULL */
    const struct json_row *rows; /* of an OBJECT, of the elements of a list */
    size_t count_offset, most;   /* of a list; 0 = any number */
};

/* The kind follows from the type, so the two cannot differ. */
#define JSON_ROW_KIND(value)                                                                                           \
    _Generic((value), double                                                                                           \
             : JSON_ROW_REAL, uint64_t                                                                                 \
             : JSON_ROW_COUNT, int64_t                                                                                 \
             : JSON_ROW_SIGNED, unsigned                                                                               \
             : JSON_ROW_NUMBER, bool                                                                                   \
             : JSON_ROW_TRUTH)

void json_rows_write(struct json_writer *json, const struct json_row *rows, const void *owner);

/* Where the reader stands, for the text of an error. */
struct json_path {
    const struct json_path *owner; /* NULL: the outermost object */
    const char *name;              /* of the member that is an object or a list */
    long index;                    /* of its element; below 0: it is no list */
};

/* The first fault ends it; what was read until then is there. */
bool json_rows_read(const json_t *object, const struct json_row *rows, const struct json_path *path, void *owner,
                    struct error *error) MUST_CHECK;

#endif
