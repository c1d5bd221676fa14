/* What the environment says of a simulation: HF_SEED, HF_SCHEDULES. */
#ifndef SIM_ENVIRONMENT_H
#define SIM_ENVIRONMENT_H

#include "tests/support/test.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* Fails the test when it is there and no number. */
static inline uint64_t environment_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0')
        return otherwise;
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0')
        fail_msg("%s=%s is not a number", name, text);
    return number;
}

#endif
