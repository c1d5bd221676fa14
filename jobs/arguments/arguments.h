/* Reads the arguments of a task piece by piece, and passes pieces on byte for byte: numbers keep their digits, texts
 * their escapes.
 *
 *     struct argument args = argument_of(text, length), first;
 *     if (argument_element(args, 0, &first) && argument_kind(first) == '{')
 *         for (size_t position = 0; argument_member(first, &position, &key, &value);)
 *             ...
 *
 * An argument is a piece of its text and lives as long as the text. Invalid JSON is harmless: an element is missing
 * then, or cannot be decoded. No state: any thread. */
#ifndef JOBS_ARGUMENTS_H
#define JOBS_ARGUMENTS_H

#include <stddef.h>
#include <stdint.h>

struct argument {
    const char *text;
    size_t length;
};

/* The text without surrounding blanks. */
struct argument argument_of(const char *text, size_t length);
/* '{', '[', '"', 'n' for null, 't' and 'f' for true and false, '0' for a number, '\0' for anything else. */
char argument_kind(struct argument argument);
/* Finds an element of an array; 0 if it has none, or is no array. */
int argument_element(struct argument array, unsigned index, struct argument *element);
/* The next member of an object; `*position` is 0 at first. The key is a text in its quotes. 0 after the last one. */
int argument_member(struct argument object, size_t *position, struct argument *key, struct argument *value);
/* The elements from `first` to the end, as the inside of an array: `2,"x"`; empty if there are none. */
struct argument argument_rest(struct argument array, unsigned first);

/* The text without quotes and escapes, which the caller frees; NULL if it is no text or contains a NUL, or without
 * memory. */
char *argument_text(struct argument argument);
/* True and the value if it is a number of 64 bits without point and exponent. */
int argument_whole(struct argument argument, int64_t *value);
/* True and the value if it is a number. */
int argument_number(struct argument argument, double *value);

#endif
