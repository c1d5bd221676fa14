/* What a process asks the system about itself, in the world: clocks, randomness, its number, its memory, signals. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "tests/sim/world/local.h"
#include "tests/sim/world/world.h"
#include "tests/sim/world/wrapped.h"

/* --- clocks ------------------------------------------------------------------------------------------------------- */

WRAPPED(int, clock_gettime, clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    struct process *process = process_current();
    if (process == NULL)
        return __real_clock_gettime(clock, time);
    if (clock != CLOCK_REALTIME) /* which log lines read: whether they are read must change nothing */
        process_look(process);
    struct instant truth = world_time();
    int64_t ns = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE
                     ? host_wall(process->host, truth).us * NS_PER_US
                     : host_boot(process->host, truth).ns;
    *time = (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    return 0;
}

WRAPPED(int, clock_nanosleep, clockid_t clock, int flags, const struct timespec *time, struct timespec *left);

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    struct process *process = process_current();
    if (process == NULL)
        return __real_clock_nanosleep(clock, flags, time, left);
    int64_t ns = time->tv_sec * NS_PER_S + time->tv_nsec;
    if ((flags & TIMER_ABSTIME) != 0)
        ns -= host_boot(process->host, world_time()).ns;
    if (ns > 0)
        process_sleep(ns);
    return 0;
}

/* --- randomness: base/random.h ------------------------------------------------------------------------------------ */

static struct chance *own_chance(void)
{
    struct process *process = process_current();
    return process != NULL ? &process->chance : world_chance();
}

void random_bytes(void *out, size_t length)
{
    unsigned char *bytes = out;
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)chance_next(own_chance());
}

void random_digits(char *out, size_t digits)
{
    for (size_t i = 0; i < digits; i++)
        out[i] = "0123456789abcdef"[chance_pick(own_chance(), 16)];
}

int64_t random_between(int64_t low, int64_t high)
{
    invariant(low <= high);
    return chance_between(own_chance(), low, high);
}

/* --- itself ------------------------------------------------------------------------------------------------------- */

WRAPPED(pid_t, getpid, void);

pid_t __wrap_getpid(void)
{
    struct process *process = process_current();
    return process != NULL ? process->pid : __real_getpid();
}

WRAPPED(int, getrusage, int who, struct rusage *usage);

int __wrap_getrusage(int who, struct rusage *usage)
{
    if (process_current() == NULL)
        return __real_getrusage(who, usage);
    *usage = (struct rusage){.ru_maxrss = 10000};
    return 0;
}

WRAPPED(FILE *, fopen, const char *path, const char *mode);

/* What the system tells of the process itself is the same in each replay. */
FILE *__wrap_fopen(const char *path, const char *mode)
{
    static char statm[] = "10000 2500 1000 100 0 900 0\n";
    if (process_current() == NULL || strncmp(path, "/proc/self/", 11) != 0)
        return __real_fopen(path, mode);
    return strcmp(path, "/proc/self/statm") == 0 ? fmemopen(statm, sizeof statm - 1, "r") : NULL;
}

WRAPPED(ssize_t, write, int fd, const void *bytes, size_t length);

WRAPPED(int, poll, struct pollfd *descriptors, nfds_t count, int timeout_ms);

/* Of nothing it is how tests wait for a moment. */
int __wrap_poll(struct pollfd *descriptors, nfds_t count, int timeout_ms)
{
    if (process_current() == NULL || count > 0)
        return __real_poll(descriptors, count, timeout_ms);
    process_sleep(timeout_ms * NS_PER_MS);
    return 0;
}

WRAPPED(ssize_t, read, int fd, void *bytes, size_t size);

ssize_t __wrap_read(int fd, void *bytes, size_t size)
{
    return local_is(fd) ? local_receive(fd, bytes, size) : __real_read(fd, bytes, size);
}

WRAPPED(void, log_set_level, enum log_level level);

/* All processes share the logger here: how much it says is up to whoever reads the history. */
void __wrap_log_set_level(enum log_level level)
{
    if (process_current() == NULL)
        __real_log_set_level(level);
}

/* What processes log belongs to the history. */
ssize_t __wrap_write(int fd, const void *bytes, size_t length)
{
    if (process_current() == NULL || fd != STDERR_FILENO)
        return __real_write(fd, bytes, length);
    world_tell("%.*s", (int)(length > 0 ? length - 1 : 0), (const char *)bytes);
    return (ssize_t)length;
}
