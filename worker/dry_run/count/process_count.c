#include "worker/dry_run/count/process_count.h"

#include <string.h>

/* Adds what `now` has more than `before`. The largest of the difference is not known: that of all is taken. */
static void histogram_add_difference(struct histogram *into, const struct histogram *now,
                                     const struct histogram *before)
{
    if (now->count == before->count)
        return;
    for (size_t i = 0; i < HISTOGRAM_STEPS; i++)
        into->counts[i] += now->counts[i] - before->counts[i];
    into->count += now->count - before->count;
    into->sum_us += now->sum_us - before->sum_us;
    if (now->max_us > into->max_us)
        into->max_us = now->max_us;
}

static void node_add(struct redlock_node_counters *into, const struct redlock_node_counters *now,
                     const struct redlock_node_counters *before, bool is_measured)
{
    into->requests += now->requests - before->requests;
    into->granted += now->granted - before->granted;
    into->refused += now->refused - before->refused;
    into->errors += now->errors - before->errors;
    into->timeouts += now->timeouts - before->timeouts;
    into->split_votes += now->split_votes - before->split_votes;
    if (is_measured)
        histogram_add_difference(&into->latency, &now->latency, &before->latency);
}

/* A process that came back without anybody having told that it died. */
static bool began_anew(const struct process_count *count, const struct observed_process *said)
{
    return said->cpu_ns < count->cpu_ns ||
           (said->extensions != NULL && said->extensions->count < count->extensions.count);
}

int64_t process_count_add(struct process_count *count, const struct observed_process *said, struct instant at,
                          bool is_measured, struct process_sums *sums, struct histogram *extensions)
{
    if (began_anew(count, said))
        process_count_end(count);
    int64_t cpu_ns = said->cpu_ns - count->cpu_ns;
    count->heard = at;
    count->runners = said->runners;
    count->busy = said->busy;
    count->cpu_ns = said->cpu_ns;
    if (said->extensions != NULL) {
        histogram_add_difference(extensions, said->extensions, &count->extensions);
        if (is_measured)
            histogram_add_difference(&sums->extensions, said->extensions, &count->extensions);
        count->extensions = *said->extensions;
    }
    for (unsigned i = 0; i < said->node_count && i < RECORD_NODES_MAX; i++) {
        node_add(&sums->nodes[i], said->nodes[i], &count->nodes[i], is_measured);
        count->nodes[i] = *said->nodes[i];
        if (i >= sums->node_count)
            sums->node_count = i + 1;
    }
    return cpu_ns;
}

void process_count_end(struct process_count *count)
{
    memset(count, 0, sizeof *count);
}
