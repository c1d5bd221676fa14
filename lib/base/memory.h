/* Allocation that does not return NULL. Sizes that come from outside are checked against their limits before they
 * get here, so running out of memory means the machine is out of it: the process says so and aborts, and its tasks
 * are recovered by another one. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>

/* Zeroed memory; freed with free(). */
void *memory_zeroed(size_t count, size_t size) __attribute__((malloc, alloc_size(1, 2)));
void *memory_resize(void *old, size_t count, size_t size) __attribute__((alloc_size(2, 3)));
char *memory_text(const char *text);                    /* a copy of a NUL-terminated string */
char *memory_text_of(const char *bytes, size_t length); /* a NUL-terminated copy of `length` bytes */

/* Overwrites a secret in a way that the compiler cannot leave out. */
void memory_wipe(void *bytes, size_t length);

#define memory_new(type) ((type *)memory_zeroed(1, sizeof(type)))

#endif
