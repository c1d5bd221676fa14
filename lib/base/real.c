#include "base/real.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/invariant.h"

#define SECONDS_MAX 1e11

static locale_t plain;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void prepare(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    invariant(plain != (locale_t)0);
}

double real_read(const char *text, char **rest)
{
    pthread_once(&prepared, prepare);
    return strtod_l(text, rest, plain);
}

struct wall_time wall_read(const char *seconds)
{
    double value = real_read(seconds, NULL);
    if (isnan(value))
        return (struct wall_time){0};
    return (struct wall_time){llround(fmax(-SECONDS_MAX, fmin(value, SECONDS_MAX)) * (double)US_PER_S)};
}
