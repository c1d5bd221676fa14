/* A clock that can be stepped, for a server of a dry run or of a test. It is a library of its own, preloaded into the
 * server (LD_PRELOAD): it adds an offset to the wall clock and leaves the other clocks alone, as a step by hand or by
 * NTP does. The file that HOLDFAST_STEPPED_CLOCK names holds the offset (int64_t, nanoseconds), which takes effect when
 * it is written. A second int64_t behind it, unless it is 0, is the time at which the clock stands still.
 *
 * An allocator may read the time before anything is set up, so nothing here allocates, and until the file is open
 * the offset is zero. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

enum { NS_PER_S = 1000000000, NS_PER_US = 1000 };

struct clock {
    int64_t offset_ns, stands_at_ns;
};

static const struct clock plain;
static const volatile struct clock *wall = &plain;

__attribute__((constructor)) static void clock_open(void)
{
    const char *path = getenv("HOLDFAST_STEPPED_CLOCK");
    int file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *content = file >= 0 ? mmap(NULL, sizeof *wall, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    if (content == MAP_FAILED)
        abort();
    wall = content;
    close(file);
}

static int64_t stepped_ns(void)
{
    struct timespec real;
    int64_t stands_at_ns = wall->stands_at_ns;
    if (stands_at_ns != 0)
        return stands_at_ns;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
    return (int64_t)real.tv_sec * NS_PER_S + real.tv_nsec + wall->offset_ns;
}

SHOWN int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, now);
    int64_t ns = stepped_ns();
    *now = (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    return 0;
}

SHOWN int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int64_t ns = stepped_ns();
    (void)zone;
    *now = (struct timeval){.tv_sec = ns / NS_PER_S, .tv_usec = ns % NS_PER_S / NS_PER_US};
    return 0;
}

SHOWN time_t time(time_t *now)
{
    time_t seconds = stepped_ns() / NS_PER_S;
    if (now != NULL)
        *now = seconds;
    return seconds;
}
