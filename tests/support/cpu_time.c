#include "tests/support/cpu_time.h"

#include <sys/resource.h>

#include "base/clock.h"
#include "base/invariant.h"

int64_t cpu_time_us(void)
{
    struct rusage use;
    invariant(getrusage(RUSAGE_SELF, &use) == 0);
    return (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * US_PER_S + use.ru_utime.tv_usec + use.ru_stime.tv_usec;
}
