/* JSON that commands print, written from left to right; commas come by themselves.
 *
 *     struct json_writer json = json_begin(&(struct buffer){0});
 *     json_text(&json, "host", host);
 *     json_open(&json, "queues", '[');
 *     json_text(&json, NULL, "default");        elements have no name
 *     json_close(&json, ']');
 *     json_finish(&json);                       closes and prints it, and frees the buffer
 *
 * What is printed cannot steer a terminal: the controls beyond ASCII, and what reorders text, are escaped too. Names
 * are ours and need no escapes. */
#ifndef WORKER_JSON_WRITER_H
#define WORKER_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct json_writer {
    struct buffer *out;
    bool needs_comma;
};

/* An object as the outermost value, and its end: it is printed with a line end, and the buffer freed. */
struct json_writer json_begin(struct buffer *out);
void json_finish(struct json_writer *json);

/* `name` is NULL for the outermost value and in arrays. */
void json_open(struct json_writer *json, const char *name, char opening);
void json_close(struct json_writer *json, char closing);
void json_bytes(struct json_writer *json, const char *name, const char *bytes, size_t length);
void json_text(struct json_writer *json, const char *name, const char *text); /* NULL: null; of json_bytes too */
void json_texts(struct json_writer *json, const char *name, char *const *texts, size_t count);
void json_number(struct json_writer *json, const char *name, int64_t number);
/* In as few digits as give the same number back when it is read; null for what is no number or has no end. */
void json_decimal(struct json_writer *json, const char *name, double number);
/* Seconds with microseconds, from microseconds. */
void json_seconds(struct json_writer *json, const char *name, int64_t us);
void json_truth(struct json_writer *json, const char *name, bool truth);
void json_nothing(struct json_writer *json, const char *name);
/* Null for what is not known: as said, a number below 0, a text that is empty. */
void json_number_if(struct json_writer *json, const char *name, bool is_known, int64_t number);
void json_seconds_if(struct json_writer *json, const char *name, bool is_known, int64_t us);
void json_truth_if(struct json_writer *json, const char *name, bool is_known, bool truth);
void json_number_or_nothing(struct json_writer *json, const char *name, int64_t number);
void json_text_or_nothing(struct json_writer *json, const char *name, const char *text);
/* A text that is JSON already; NULL: null. */
void json_raw(struct json_writer *json, const char *name, const char *bytes, size_t length);

/* Appends a text of JSON in which only strings can hold such bytes, with line ends between tokens as blanks. */
void json_append_defused(struct buffer *out, const char *bytes, size_t length);
/* Appends valid JSON for readers whose numbers are doubles, as those of a page: a number that they would round or
 * cannot have becomes a string of the same characters. */
void json_append_exact(struct buffer *out, const char *bytes, size_t length);
void json_print(struct buffer *out);

#endif
