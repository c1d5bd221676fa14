/* JSON that commands print, written from left to right; commas come by themselves.
 *
 *     struct buffer out = {0};
 *     struct json_writer json = {.out = &out};
 *     json_open(&json, NULL, '{');
 *     json_text(&json, "host", host);
 *     json_open(&json, "queues", '[');
 *     json_text(&json, NULL, "default");        elements have no name
 *     json_close(&json, ']');
 *     json_close(&json, '}');
 *     json_print(&out);                         with a line end; empties and frees the buffer
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

/* `name` is NULL for the outermost value and in arrays. */
void json_open(struct json_writer *json, const char *name, char opening);
void json_close(struct json_writer *json, char closing);
void json_bytes(struct json_writer *json, const char *name, const char *bytes, size_t length);
void json_text(struct json_writer *json, const char *name, const char *text); /* NULL: null */
void json_number(struct json_writer *json, const char *name, int64_t number);
/* In as few digits as give the same number back when it is read; null for what is no number or has no end. */
void json_decimal(struct json_writer *json, const char *name, double number);
/* Seconds with microseconds, from microseconds. */
void json_seconds(struct json_writer *json, const char *name, int64_t us);
void json_truth(struct json_writer *json, const char *name, bool truth);
void json_nothing(struct json_writer *json, const char *name);
/* Null for what is not known: a number below 0, a text that is empty. */
void json_number_or_nothing(struct json_writer *json, const char *name, int64_t number);
void json_text_or_nothing(struct json_writer *json, const char *name, const char *text);
/* A text that is JSON already. */
void json_raw(struct json_writer *json, const char *name, const char *bytes, size_t length);

/* Appends a text of JSON in which only strings can hold such bytes, with line ends between tokens as blanks. */
void json_append_defused(struct buffer *out, const char *bytes, size_t length);
void json_print(struct buffer *out);

#endif
