/* Real numbers in texts, with a decimal point in every locale. The program or a plugin may call setlocale, after
 * which strtod may stop at the point of "1.5". Any thread. */
#ifndef BASE_REAL_H
#define BASE_REAL_H

#include "base/clock.h"

/* As strtod in the "C" locale; `rest` may be NULL. */
double real_read(const char *text, char **rest);

/* Seconds since 1970, as Redis writes scores. What is no number becomes 0. Dates too far away to be printed (some
 * 3,000 years), and infinity, are clamped. */
struct wall_time wall_read(const char *seconds);

#endif
