#include "worker/dry_run/count/second_series.h"

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

void second_series_close(struct second_series *series, struct instant now, double waiting, double busy)
{
    double seconds = (double)instant_since(series->closed, now) / (double)NS_PER_S;
    if (seconds <= 0)
        return;
    if (series->count < SECOND_SERIES_MAX) {
        struct result_second line = line_of(series, seconds);
        line.at = (double)instant_since(series->began, now) / (double)NS_PER_S;
        line.waiting = waiting;
        line.busy = busy;
        lines_make_room(series);
        series->lines[series->count++] = line;
    }
    series->closed = now;
    series->pushed = series->ended = series->parked = series->handed_over = series->lost = 0;
    memset(&series->wait, 0, sizeof series->wait);
    memset(&series->hold, 0, sizeof series->hold);
    memset(&series->acquire, 0, sizeof series->acquire);
    memset(&series->extend, 0, sizeof series->extend);
}
