/* Real numbers in texts, with a point whatever the locale says: a library does not know, and a worker with plugins does
 * not decide, whether somebody has called setlocale, after which strtod stops at the point of "1.5". Any thread. */
#ifndef BASE_REAL_H
#define BASE_REAL_H

#include "base/clock.h"

/* As strtod in the "C" locale; `rest` may be NULL. */
double real_read(const char *text, char **rest);

/* Seconds since 1970, as scores of Redis are written. What is no number is 0; what lies further away than any date
 * that can be shown (some 3,000 years) is brought there, infinity too. */
struct wall_time wall_read(const char *seconds);

#endif
