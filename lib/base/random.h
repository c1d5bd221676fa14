/* Randomness from the kernel, bought in blocks so that a lock value costs no system call.
 *
 * Each thread has its own block; a forked child finds its copy wiped and draws anew (MADV_WIPEONFORK), so that two
 * processes never share a lock value (E23). A kernel that gives no randomness is fatal. Any thread may call these. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

void random_bytes(void *out, size_t length);
/* That many hexadecimal digits, an even number, without a NUL behind them. */
void random_digits(char *out, size_t digits);

/* Uniform in [low, high], both included; low <= high. For jitter and back-off. */
int64_t random_between(int64_t low, int64_t high);

#endif
