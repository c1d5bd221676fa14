#include "worker/dry_run/count/second_series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void second_series_init(struct second_series *series, struct instant began)
{
    memset(series, 0, sizeof *series);
    series->began = series->closed = began;
}

void second_series_fini(struct second_series *series)
{
    free(series->lines);
}

static double quantile(const struct histogram *histogram, double share)
{
    return (double)histogram_quantile(histogram, share) / (double)US_PER_S;
}

static struct result_second line_of(const struct second_series *series, double seconds)
{
    return (struct result_second){
        .pushed = (double)series->pushed / seconds,
        .ended = (double)series->ended / seconds,
        .parked = (double)series->parked / seconds,
        .handed_over = (double)series->handed_over / seconds,
        .lost = (double)series->lost / seconds,
        .wait_p50 = quantile(&series->wait, 0.5),
        .wait_p99 = quantile(&series->wait, 0.99),
        .hold_p50 = quantile(&series->hold, 0.5),
        .hold_p99 = quantile(&series->hold, 0.99),
        .acquire_p50 = quantile(&series->acquire, 0.5),
        .acquire_p99 = quantile(&series->acquire, 0.99),
        .extend_p99 = quantile(&series->extend, 0.99),
    };
}

static void lines_make_room(struct second_series *series)
{
    if (series->count < series->capacity)
        return;
    series->capacity = series->capacity == 0 ? 64 : series->capacity * 2;
    series->lines = memory_resize(series->lines, series->capacity, sizeof series->lines[0]);
}

static double overlap(int64_t from_ns, int64_t until_ns, int64_t low_ns, int64_t high_ns)
{
    int64_t from = from_ns > low_ns ? from_ns : low_ns, until = until_ns < high_ns ? until_ns : high_ns;
    return until > from ? (double)(until - from) / (double)NS_PER_S : 0;
}

static int64_t line_end(const struct second_series *series, size_t line)
{
    return series->began.ns + llround(series->lines[line].at * (double)NS_PER_S);
}

void second_series_take(struct second_series *series, int64_t from_ns, int64_t until_ns)
{
    int64_t high = series->closed.ns;
    series->taken_s += overlap(from_ns, until_ns, high, INT64_MAX);
    for (size_t i = series->count; i-- > 0 && from_ns < high;) {
        int64_t low = i > 0 ? line_end(series, i - 1) : series->began.ns;
        series->lines[i].busy += overlap(from_ns, until_ns, low, line_end(series, i));
        high = low;
    }
}

void second_series_close(struct second_series *series, struct instant now, double waiting)
{
    double seconds = (double)instant_since(series->closed, now) / (double)NS_PER_S;
    if (seconds <= 0)
        return;
    if (series->count < SECOND_SERIES_MAX) {
        struct result_second line = line_of(series, seconds);
        line.at = (double)instant_since(series->began, now) / (double)NS_PER_S;
        line.waiting = waiting;
        line.busy = series->taken_s;
        lines_make_room(series);
        series->lines[series->count++] = line;
    }
    series->closed = now;
    series->pushed = series->ended = series->parked = series->handed_over = series->lost = 0;
    series->taken_s = 0;
    memset(&series->wait, 0, sizeof series->wait);
    memset(&series->hold, 0, sizeof series->hold);
    memset(&series->acquire, 0, sizeof series->acquire);
    memset(&series->extend, 0, sizeof series->extend);
}

struct result_second *second_series_finish(struct second_series *series, unsigned runners, size_t *count)
{
    struct result_second *lines = series->lines;
    *count = series->count;
    for (size_t i = series->count; i-- > 0;) {
        double all = (lines[i].at - (i > 0 ? lines[i - 1].at : 0)) * runners;
        lines[i].busy = all > 0 ? fmin(lines[i].busy / all, 1) : 0;
    }
    series->lines = NULL;
    series->count = series->capacity = 0;
    return lines;
}
