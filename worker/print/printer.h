/* What a command prints, described once: lists of things, each thing a row of a table for people, or an object of JSON
 * for programs.
 *
 *     struct printer out = printer_begin(as_json, now, &(struct buffer){0});
 *     printer_list(&out, "queues");
 *     for (...) {
 *         printer_row(&out);
 *         printer_name(&out, "QUEUE", "name", name);            its title, its member, its value
 *         printer_count(&out, ">TASKS", "length", length);
 *         printer_truth(&out, "paused", is_paused);             only for programs
 *         printer_cell(&out, "", TABLE_WARN, "%s", remark);     only for people
 *         printer_row_end(&out);
 *     }
 *     printer_list_end(&out, "no queues");                      prints the table, or this when there is no row
 *     printer_end(&out);                                        prints the JSON
 *
 * Lists within rows are for programs. Titles are those of table.h; every row of a list has the same ones. A value is
 * unknown when it is NULL, or negative: programs see null, people "-", or what printer_unknown sets. Members beside
 * lists, and within rows, are also written to `json` when `is_json`. */
#ifndef WORKER_PRINTER_H
#define WORKER_PRINTER_H

#include "base/clock.h"
#include "worker/print/json_writer.h"
#include "worker/print/table.h"

struct printer {
    bool is_json;
    struct json_writer json;
    struct table *table; /* of the list that is open, for people */
    bool has_titles;     /* the first row is complete */
    const char *unknown;
    FILE *file;           /* for people: standard output, unless the caller sets another one */
    struct wall_time now; /* from which ages are counted */
};

struct printer printer_begin(bool as_json, struct wall_time now, struct buffer *buffer);
void printer_end(struct printer *out);
void printer_drop(struct printer *out); /* instead, in or behind a list: prints no more */

void printer_list(struct printer *out, const char *member);
void printer_list_end(struct printer *out, const char *none); /* `none` may be NULL */
void printer_row(struct printer *out);
void printer_row_end(struct printer *out);
/* What the row is about, to find it in the table (table_name). */
void printer_about(struct printer *out, const char *name);
/* What people see of unknown values from here to the end of the list. */
void printer_unknown(struct printer *out, const char *text);
/* Of the cell that was put last: how it looks, and the number by which it is sorted. */
void printer_style(struct printer *out, enum table_style style);
void printer_rank(struct printer *out, int64_t number);

/* `title` is NULL for what only programs see, `member` for what only people see. */
void printer_name(struct printer *out, const char *title, const char *member, const char *name); /* quoted if need be */
void printer_text(struct printer *out, const char *title, const char *member, const char *text);
void printer_texts(struct printer *out, const char *title, const char *member, char *const *texts, size_t count);
void printer_number(struct printer *out, const char *title, const char *member, int64_t number);
void printer_count(struct printer *out, const char *title, const char *member, int64_t count);
void printer_span(struct printer *out, const char *title, const char *member, int64_t us);
void printer_moment(struct printer *out, const char *title, const char *member,
                    struct wall_time moment);                            /* 0: unknown */
void printer_truth(struct printer *out, const char *member, bool truth); /* only for programs */
void printer_cell(struct printer *out, const char *title, enum table_style style, const char *format, ...)
    PRINTF_LIKE(4, 5);

/* A line for people. */
void printer_line(const struct printer *out, const char *format, ...) PRINTF_LIKE(2, 3);

/* The text, or NULL for an empty one: where that means that it is not known. */
const char *printer_known(const char *text);

#endif
