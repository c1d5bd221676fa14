/* Numbers with units, as people write them in files and on command lines. Durations: "250ms", "10s", "5m", "2h",
 * "7d", "1.5s", "800us"; sizes: "64KiB", "1MiB", "512B". A bare number is refused (except 0): its unit would be a
 * guess, and libconfig before 1.7 silently cuts integers to 32 bits. */
#ifndef BASE_QUANTITY_H
#define BASE_QUANTITY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

bool duration_parse(const char *text, int64_t *ns, struct error *error) MUST_CHECK;
bool size_parse(const char *text, int64_t *bytes, struct error *error) MUST_CHECK;

/* A whole number of digits only, from `low` (at least 0) to `high`. On failure `count` keeps its value. */
bool count_parse(const char *text, int64_t low, int64_t high, int64_t *count) MUST_CHECK;

enum { DECIMAL_MAX = 20 };
/* Writes the number without a NUL, up to DECIMAL_MAX bytes; returns what is behind it. Takes a tenth of snprintf. */
char *decimal_write(char *to, uint64_t number);

enum { QUANTITY_TEXT_MAX = 32 };
/* The shortest exact form ("1500ms", "10s"); `out` has QUANTITY_TEXT_MAX bytes; returns `out`. */
const char *duration_print(int64_t ns, char *out);
const char *size_print(int64_t bytes, char *out);

#endif
