/* The values of the metrics of a process, and their text. Memory is bounded by what is configured and loaded, whatever
 * names producers invent.
 *
 *     store = metric_store_create(&names);
 *     metric_set(store, METRIC_LOCK_REQUESTS, (struct metric_at){{answer}}, count);
 *     metric_spread(store, METRIC_TASK_RUN, (struct metric_at){{class}}, &runs);
 *     metric_store_copy(snapshot, store); metric_store_print(snapshot, METRIC_TEXT_OPENMETRICS, &out);
 *
 * Not thread-safe: one thread writes a store, and copies it for another one under a lock of theirs. */
#ifndef WORKER_METRIC_STORE_H
#define WORKER_METRIC_STORE_H

#include "worker/monitor/metric_table.h"

struct metric_store;

struct metric_names {
    const char *const *queues, *const *nodes; /* copied */
    unsigned queue_count, node_count;
    unsigned class_max;
    const char *process; /* the labels of METRIC_INFO, as text */
    bool is_of_fleet;    /* the store has the metrics of the fleet, else those of a worker */
};

/* The numbers of the values of its labels. */
struct metric_at {
    unsigned at[METRIC_LABELS_MAX];
};

struct metric_store *metric_store_create(const struct metric_names *names);
void metric_store_destroy(struct metric_store *store); /* NULL is fine */
/* For metric_store_copy to fill. It shares the names of `store`, and must be destroyed before it. */
struct metric_store *metric_store_twin(const struct metric_store *store);
void metric_store_copy(struct metric_store *to, const struct metric_store *from);

/* Classes are numbered as they are added, from METRIC_CLASS_OTHER + 1 on; queues and nodes as in the names. */
void metric_class_add(struct metric_store *store, const char *class_name);
unsigned metric_class_count(const struct metric_store *store); /* with the other */

void metric_set(struct metric_store *store, enum metric metric, struct metric_at at, int64_t value);
struct histogram;
/* Takes over what another histogram has counted so far. */
void metric_spread(struct metric_store *store, enum metric metric, struct metric_at at,
                   const struct histogram *histogram);

/* NAME="VALUE", behind a comma if others stand before it. */
void metric_label_append(struct buffer *labels, const char *name, const char *value);

enum metric_text { METRIC_TEXT_PROMETHEUS, METRIC_TEXT_OPENMETRICS, METRIC_TEXTS }; /* 0.0.4; 1.0.0 */
/* The form that the header Accept of a request asks for (NULL = none), and its media type. */
enum metric_text metric_text_for(const char *accept);
extern const char *const metric_text_types[METRIC_TEXTS];
void metric_store_print(const struct metric_store *store, enum metric_text form, struct buffer *out);

#endif
