#include "worker/commands/rate_window.h"

#include <string.h>

static void oldest_drop(struct rate_window *window)
{
    memmove(window->samples, window->samples + 1, --window->count * sizeof window->samples[0]);
}

/* Samples that come closer to each other than the window can hold replace the last one. */
void rate_window_add(struct rate_window *window, struct wall_time at, long long processed, long long failed)
{
    struct rate_sample sample = {.at = at, .processed = processed, .failed = failed};
    const struct rate_sample *last = window->count > 0 ? &window->samples[window->count - 1] : NULL;
    if (last != NULL && (at.us < last->at.us || processed < last->processed || failed < last->failed))
        window->count = 0;
    while (window->count >= 2 && window->samples[1].at.us <= at.us - RATE_WINDOW_US)
        oldest_drop(window);
    bool is_close =
        window->count >= 2 && at.us - window->samples[window->count - 2].at.us < RATE_WINDOW_US / (RATE_SAMPLES / 2);
    if (is_close)
        window->count--;
    if (window->count == RATE_SAMPLES)
        oldest_drop(window);
    window->samples[window->count++] = sample;
}

int64_t rate_window_span_us(const struct rate_window *window)
{
    return window->count > 0 ? window->samples[window->count - 1].at.us - window->samples[0].at.us : 0;
}

bool rate_window_read(const struct rate_window *window, double *processed, double *failed)
{
    int64_t span_us = rate_window_span_us(window);
    if (span_us < RATE_LEAST_US)
        return false;
    const struct rate_sample *first = &window->samples[0], *last = &window->samples[window->count - 1];
    double seconds = (double)span_us / (double)US_PER_S;
    *processed = (double)(last->processed - first->processed) / seconds;
    *failed = (double)(last->failed - first->failed) / seconds;
    return true;
}
