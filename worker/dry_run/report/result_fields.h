/* What the structs of a result have in them, as tables: result_json.c writes by them and result_read.c reads by them,
 * so that what was written is read again, member by member. The names are those in the JSON, and stay as they are. */
#ifndef WORKER_DRY_RUN_RESULT_FIELDS_H
#define WORKER_DRY_RUN_RESULT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

enum result_field_kind {
    FIELD_REAL,     /* double */
    FIELD_COUNT,    /* uint64_t, at most INT64_MAX */
    FIELD_SIGNED,   /* int64_t */
    FIELD_NUMBER,   /* unsigned */
    FIELD_TRUTH,    /* bool */
    FIELD_TEXT,     /* char[size] */
    FIELD_NAME,     /* char *, its own, never NULL */
    FIELD_CHOICE,   /* an enum: one of `choices` */
    FIELD_SPREAD,   /* struct result_spread */
    FIELD_EXPECTED, /* struct result_expected */
};

struct result_field {
    const char *name; /* NULL ends the table */
    enum result_field_kind kind;
    size_t offset, size;
    bool came_later;            /* a result that has none of it is older, and read all the same */
    const char *const *choices; /* FIELD_CHOICE: ends with NULL */
};

extern const struct result_field result_fields[]; /* of struct result, what is no list */
extern const struct result_field result_spread_fields[];
extern const struct result_field result_expected_fields[];
extern const struct result_field result_second_fields[];
extern const struct result_field result_resource_fields[];
extern const struct result_field result_node_fields[];
extern const struct result_field result_host_fields[];
extern const struct result_field result_fault_fields[];
extern const struct result_field result_point_fields[];

#define RESULT_FORMAT "holdfast dry run"
/* Raised when a member changes its meaning or goes away. */
enum { RESULT_FORMAT_VERSION = 1 };

#endif
