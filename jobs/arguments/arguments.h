/* Reading the arguments of a task piece by piece, without changing a byte of what is passed on: numbers keep their
 * digits, texts their escapes.
 *
 *     struct argument args = argument_of(text, length), first;
 *     if (argument_element(args, 0, &first) && argument_kind(first) == '{')
 *         for (size_t position = 0; argument_member(first, &position, &key, &value);)
 *             ...
 *
 * An argument is a piece of the text that it was found in and lives as long as that. Texts that are no JSON do no harm:
 * an element is not found then, or is found and cannot be decoded. No state: any thread. */
#ifndef JOBS_ARGUMENTS_H
#define JOBS_ARGUMENTS_H

#include <stddef.h>
#include <stdint.h>

struct argument {
    const char *text;
    size_t length;
};

/* The piece without the blanks around it. */
struct argument argument_of(const char *text, size_t length);
/* '{', '[', '"', 'n' for null, 't' and 'f' for true and false, '0' for a number, '\0' for what is none of these. */
char argument_kind(struct argument argument);
/* The element of an array; 0 when it has none, or is no array. */
int argument_element(struct argument array, unsigned index, struct argument *element);
/* The next member of an object; `*position` is 0 at first. The key is a text in its quotes. 0 after the last one. */
int argument_member(struct argument object, size_t *position, struct argument *key, struct argument *value);
/* From element `first` to the end of the array, as the inside of an array: `2,"x"`; empty when there is none. */
struct argument argument_rest(struct argument array, unsigned first);

/* The text without quotes and escapes, which the caller frees; NULL when it is no text, has a NUL in it, or there is no
 * memory. */
char *argument_text(struct argument argument);
/* True and the value when it is a number without point and exponent, of 64 bits. */
int argument_whole(struct argument argument, int64_t *value);
/* True and the value when it is a number. */
int argument_number(struct argument argument, double *value);

#endif
