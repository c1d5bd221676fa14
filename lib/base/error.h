/* A text that says what failed, where and what to do. The first cause wins: error_set never replaces a text, so that
 * errors during clean-up cannot hide the reason.
 *
 * A function that can fail returns bool (true = success) or a pointer (NULL = failure), is marked MUST_CHECK and
 * takes `struct error *` as its last parameter. Callers start with ERROR_NONE. Programming errors abort instead
 * (invariant.h). */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdbool.h>

#define MUST_CHECK                             __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_place, first_place) __attribute__((format(printf, format_place, first_place)))

struct error {
    char text[480]; /* NUL-terminated; empty = no error */
};

#define ERROR_NONE ((struct error){.text = ""})

/* Records a formatted text unless one is already there. `error` may be NULL. Always returns false, so that a
 * failing function can end with `return error_set(...)`. */
bool error_set(struct error *error, const char *format, ...) PRINTF_LIKE(2, 3);

/* Puts "prefix: " before the text that is already there (file and line, the name of a node, ...). */
void error_prefix(struct error *error, const char *format, ...) PRINTF_LIKE(2, 3);

static inline bool error_is_set(const struct error *error)
{
    return error->text[0] != '\0';
}

#endif
