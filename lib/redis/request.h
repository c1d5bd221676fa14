/* Commands in the wire format, written straight into a buffer: length-prefixed arguments, so that no byte of a task
 * or a resource name can be taken for protocol (CWE-77). A request is encoded once and may be sent to many nodes.
 *
 *     redis_request_command(&out, "GET", key);
 *
 *     redis_request_begin(&out, 5);                 number of arguments, the command's name included
 *     redis_request_text(&out, "SET");
 *     redis_request_bytes(&out, key, key_length); ...
 *
 * Scripts are Lua files beside the code that uses them; the build embeds each one with its SHA-1 digest. */
#ifndef REDIS_REQUEST_H
#define REDIS_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct redis_script {
    const char *name; /* the file's name without .lua */
    const char *sha1; /* 40 hexadecimal digits of `source` */
    const char *source;
    size_t length;
};

void redis_request_begin(struct buffer *out, size_t arguments);
void redis_request_bytes(struct buffer *out, const void *bytes, size_t length);
void redis_request_text(struct buffer *out, const char *text);
void redis_request_joined(struct buffer *out, const char *first, const char *second); /* one argument */
/* Appends texts, or a whole command of texts, whose arguments it counts. */
#define redis_request_texts(out, ...)                                                                                  \
    redis_request_all((out), (const char *const[]){__VA_ARGS__},                                                       \
                      sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), false)
#define redis_request_command(out, ...)                                                                                \
    redis_request_all((out), (const char *const[]){__VA_ARGS__},                                                       \
                      sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), true)
void redis_request_all(struct buffer *out, const char *const *texts, size_t count, bool is_whole);
void redis_request_integer(struct buffer *out, int64_t value);
/* Microseconds (at least 0) as seconds with six decimals: for scores and Lua. Writes a point in every locale. */
void redis_request_seconds(struct buffer *out, int64_t us);
/* EVALSHA sha1 keys: the caller appends `keys` keys and then `arguments` further arguments. */
void redis_request_script(struct buffer *out, const struct redis_script *script, size_t keys, size_t arguments);

#endif
