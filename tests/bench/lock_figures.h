/* What lock-bench counts: whole cycles of acquire, hold and release. */
#ifndef BENCH_LOCK_FIGURES_H
#define BENCH_LOCK_FIGURES_H

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/histogram.h"

struct figures {
    uint64_t cycles, fails;
    struct histogram acquire, cycle;
    int64_t held_ns; /* of all cycles */
};

/* When a user asked, had the lock, gave it back, and was rid of it. */
static inline void figures_count(struct figures *figures, struct instant asked, struct instant had,
                                 struct instant gave_back, struct instant over)
{
    figures->cycles++;
    figures->held_ns += instant_since(had, gave_back);
    histogram_record(&figures->acquire, instant_since(asked, had) / NS_PER_US);
    histogram_record(&figures->cycle, instant_since(asked, over) / NS_PER_US);
}

static inline void figures_merge(struct figures *into, const struct figures *from)
{
    into->cycles += from->cycles;
    into->held_ns += from->held_ns;
    histogram_merge(&into->acquire, &from->acquire);
    histogram_merge(&into->cycle, &from->cycle);
}

/* The end of an object of JSON that has begun. */
static inline void figures_print(const struct figures *figures, double seconds, int64_t cpu_us)
{
    double cycles = figures->cycles > 0 ? (double)figures->cycles : 1;
    printf("\"cycles\": %" PRIu64 ", \"secs\": %.3f, \"fails\": %" PRIu64 ", \"acq_p50_us\": %" PRId64
           ", \"acq_p99_us\": %" PRId64 ", \"held_us\": %.1f, \"p50_us\": %" PRId64 ", \"p99_us\": %" PRId64
           ", \"client_cpu_us\": %.2f}\n",
           figures->cycles, seconds, figures->fails, histogram_quantile(&figures->acquire, 0.5),
           histogram_quantile(&figures->acquire, 0.99), (double)figures->held_ns / cycles / (double)NS_PER_US,
           histogram_quantile(&figures->cycle, 0.5), histogram_quantile(&figures->cycle, 0.99),
           (double)cpu_us / cycles);
}

#endif
