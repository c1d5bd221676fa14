/* A handler that notes how long its task was under way: argument 0 is the instant of the push, in nanoseconds of
 * CLOCK_BOOTTIME, which all processes of a machine share. When the worker ends, the microseconds of all runs are
 * written to the file of the setting `out`, one a line, in no order. */
#include <pthread.h>
#include <time.h>

#include "jobs/kit.h"

enum { STAMPS_MAX = 1 << 20 };

struct stamps {
    struct kit kit;
    const char *out;
    pthread_mutex_t mutex;
    size_t count;
    int64_t microseconds[STAMPS_MAX];
};

static int stamp(hf_job *job, void *state)
{
    struct stamps *stamps = state;
    struct timespec now;
    int64_t pushed = 0;
    clock_gettime(CLOCK_BOOTTIME, &now);
    stamps->kit.job->arg_integer(job, 0, &pushed);
    pthread_mutex_lock(&stamps->mutex);
    if (stamps->count < STAMPS_MAX)
        stamps->microseconds[stamps->count++] = (now.tv_sec * KIT_NS_PER_S + now.tv_nsec - pushed) / 1000;
    pthread_mutex_unlock(&stamps->mutex);
    return HF_OK;
}

static int open_stamps(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    struct stamps *stamps = kit_state(sizeof *stamps, host, reason, reason_size);
    if (stamps == NULL)
        return -1;
    stamps->out = kit_setting(host, "out", "stamps");
    pthread_mutex_init(&stamps->mutex, NULL);
    *state = stamps;
    return 0;
}

static void close_stamps(void *state)
{
    struct stamps *stamps = state;
    FILE *file = fopen(stamps->out, "we");
    for (size_t i = 0; file != NULL && i < stamps->count; i++)
        fprintf(file, "%lld\n", (long long)stamps->microseconds[i]);
    if (file == NULL || fclose(file) != 0)
        abort();
    free(stamps);
}

static const hf_handler stamp_handler = {
    .size = sizeof stamp_handler, .name = "stamp", .run = stamp, .isolation = HF_ISOLATION_THREAD};
static const hf_handler *const handlers[] = {&stamp_handler, NULL};

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("stamp", "1.0"), .open = open_stamps, .close = close_stamps,
                                             .handlers = handlers};
