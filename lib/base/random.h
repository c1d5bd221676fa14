/* Randomness from the kernel, read in blocks so that most lock values cost no system call.
 *
 * Each thread has its own block; the kernel wipes it in a forked child (MADV_WIPEONFORK), so two processes never
 * share a lock value (E23). A failing getrandom is fatal. Any thread may call these. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

void random_bytes(void *out, size_t length);
/* Writes `digits` hexadecimal digits, an even number, without a NUL. */
void random_digits(char *out, size_t digits);

/* Uniform in [low, high], both included; low <= high. For jitter and back-off. */
int64_t random_between(int64_t low, int64_t high);

#endif
