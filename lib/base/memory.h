/* Allocation that does not return NULL. Callers check sizes from outside against their limits first, so a failed
 * allocation means that the machine is out of memory. Then the process says so and aborts, and another one recovers
 * its tasks. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory; freed with free(). */
void *memory_zeroed(size_t count, size_t size) __attribute__((malloc, alloc_size(1, 2)));
void *memory_resize(void *old, size_t count, size_t size) __attribute__((alloc_size(2, 3)));
char *memory_text(const char *text);                    /* a copy of a NUL-terminated string */
char *memory_text_of(const char *bytes, size_t length); /* a NUL-terminated copy of `length` bytes */

/* Resident bytes of this process; 0 = not known. */
int64_t memory_resident(void);

/* Overwrites a secret in a way that the compiler cannot leave out. */
void memory_wipe(void *bytes, size_t length);

#define memory_new(type) ((type *)memory_zeroed(1, sizeof(type)))

#endif
