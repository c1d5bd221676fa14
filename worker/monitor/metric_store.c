#include "worker/monitor/metric_store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/histogram.h"
#include "base/invariant.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "worker/flow.h"

/* A histogram has a cell for each bucket, and its sum. */
enum { HISTOGRAM_CELLS = METRIC_BOUNDS + 2, SUM_CELL = METRIC_BOUNDS + 1 };

struct metric_store {
    char **queues, **nodes, **classes; /* of all twins */
    char *process;
    unsigned queue_count, node_count, class_max; /* class_max counts the other, too */
    unsigned class_count;
    bool is_twin;
    unsigned begin, end;       /* the metrics that it has */
    size_t first[METRICS + 1]; /* the cells of a metric begin there */
    uint64_t *cells;
};

static unsigned words_count(const char *const *words)
{
    unsigned count = 0;
    while (words[count] != NULL)
        count++;
    return count;
}

/* How many values a label may have, for the room of its cells. */
static unsigned values_max(const struct metric_store *store, enum metric_label label)
{
    switch (label) {
    case LABEL_QUEUE:
        return store->queue_count;
    case LABEL_CLASS:
        return store->class_max;
    case LABEL_OUTCOME:
        return FLOW_ENDINGS;
    case LABEL_ANSWER:
        return words_count(metric_answers);
    case LABEL_RELEASE:
        return words_count(metric_releases);
    case LABEL_NODE:
        return store->node_count;
    case LABEL_NODE_SAID:
        return words_count(metric_node_answers);
    default:
        return 1;
    }
}

static const char *value_name(const struct metric_store *store, enum metric_label label, unsigned value)
{
    switch (label) {
    case LABEL_QUEUE:
        return store->queues[value];
    case LABEL_CLASS:
        return store->classes[value];
    case LABEL_OUTCOME:
        return flow_ending_name((enum flow_ending)value);
    case LABEL_ANSWER:
        return metric_answers[value];
    case LABEL_RELEASE:
        return metric_releases[value];
    case LABEL_NODE:
        return store->nodes[value];
    default:
        return metric_node_answers[value];
    }
}

static size_t cells_each(enum metric metric)
{
    return metric_table[metric].kind == METRIC_HISTOGRAM ? HISTOGRAM_CELLS : 1;
}

static char **texts_copy(const char *const *texts, unsigned count)
{
    char **copies = memory_zeroed(count + 1, sizeof copies[0]);
    for (unsigned i = 0; i < count; i++)
        copies[i] = memory_text(texts[i]);
    return copies;
}

static void texts_free(char **texts, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        free(texts[i]);
    free(texts);
}

struct metric_store *metric_store_create(const struct metric_names *names)
{
    struct metric_store *store = memory_new(struct metric_store);
    store->queues = texts_copy(names->queues, names->queue_count);
    store->queue_count = names->queue_count;
    store->nodes = texts_copy(names->nodes, names->node_count);
    store->node_count = names->node_count;
    store->class_max = names->class_max + 1;
    store->classes = memory_zeroed(store->class_max, sizeof store->classes[0]);
    store->classes[METRIC_CLASS_OTHER] = memory_text("other");
    store->class_count = 1;
    store->process = memory_text(names->process);
    store->begin = names->is_of_fleet ? METRICS_OF_WORKER : 0;
    store->end = names->is_of_fleet ? METRICS : METRICS_OF_WORKER;
    for (unsigned metric = store->begin; metric < store->end; metric++) {
        size_t cells = cells_each(metric);
        for (unsigned i = 0; i < METRIC_LABELS_MAX; i++)
            cells *= values_max(store, metric_table[metric].labels[i]);
        store->first[metric + 1] = store->first[metric] + cells;
    }
    store->cells = memory_zeroed(store->first[store->end], sizeof store->cells[0]);
    return store;
}

struct metric_store *metric_store_twin(const struct metric_store *store)
{
    struct metric_store *twin = memory_new(struct metric_store);
    *twin = *store;
    twin->is_twin = true;
    twin->cells = memory_zeroed(store->first[store->end], sizeof store->cells[0]);
    return twin;
}

void metric_store_copy(struct metric_store *to, const struct metric_store *from)
{
    memcpy(to->cells, from->cells, from->first[from->end] * sizeof from->cells[0]);
    to->class_count = from->class_count; /* the texts of these stay as they are */
}

void metric_store_destroy(struct metric_store *store)
{
    if (store == NULL)
        return;
    if (!store->is_twin) {
        texts_free(store->queues, store->queue_count);
        texts_free(store->nodes, store->node_count);
        texts_free(store->classes, store->class_count);
        free(store->process);
    }
    free(store->cells);
    free(store);
}

/* --- names ------------------------------------------------------------------------------------------------------- */

unsigned metric_class_count(const struct metric_store *store)
{
    return store->class_count;
}

void metric_class_add(struct metric_store *store, const char *class_name)
{
    invariant(store->class_count < store->class_max);
    store->classes[store->class_count++] = memory_text(class_name);
}

/* --- values ------------------------------------------------------------------------------------------------------ */

static uint64_t *cells_of(const struct metric_store *store, enum metric metric, struct metric_at at)
{
    size_t index = 0;
    for (unsigned i = 0; i < METRIC_LABELS_MAX; i++) {
        unsigned count = values_max(store, metric_table[metric].labels[i]);
        invariant(at.at[i] < count);
        index = index * count + at.at[i];
    }
    return store->cells + store->first[metric] + index * cells_each(metric);
}

void metric_set(struct metric_store *store, enum metric metric, struct metric_at at, int64_t value)
{
    *cells_of(store, metric, at) = (uint64_t)value;
}

void metric_spread(struct metric_store *store, enum metric metric, struct metric_at at,
                   const struct histogram *histogram)
{
    uint64_t *cells = cells_of(store, metric, at), known = 0;
    for (unsigned i = 0; i <= METRIC_BOUNDS; i++)
        known += cells[i];
    if (known == histogram->count)
        return; /* as most are, most of the time */
    memset(cells, 0, HISTOGRAM_CELLS * sizeof cells[0]);
    histogram_spread(histogram, metric_bounds_us, METRIC_BOUNDS, cells);
    cells[SUM_CELL] = histogram->sum_us;
}

/* --- text -------------------------------------------------------------------------------------------------------- */

/* Both forms are UTF-8, and a name may be anything. */
static void escaped_append(struct buffer *out, const char *text)
{
    const char *end = text + strlen(text);
    for (size_t length; text < end; text += length) {
        length = utf8_length(text, end);
        bool is_text = length > 0;
        length = is_text ? length : 1;
        if (!is_text)
            buffer_append_text(out, UTF8_REPLACEMENT);
        else if (*text == '\n')
            buffer_append_text(out, "\\n");
        else if (*text == '\\' || *text == '"')
            buffer_append(out, (char[]){'\\', *text}, 2);
        else
            buffer_append(out, text, length);
    }
}

void metric_label_append(struct buffer *labels, const char *name, const char *value)
{
    buffer_format(labels, "%s%s=\"", labels->length > 0 ? "," : "", name);
    escaped_append(labels, value);
    buffer_append_text(labels, "\"");
}

/* queue="default",class="echo" */
static void labels_write(const struct metric_store *store, const struct metric_row *row, struct metric_at at,
                         struct buffer *labels)
{
    buffer_clear(labels);
    for (unsigned i = 0; i < METRIC_LABELS_MAX && row->labels[i] != LABEL_NONE; i++) {
        if (row->labels[i] == LABEL_PROCESS) {
            buffer_append_text(labels, store->process);
            continue;
        }
        metric_label_append(labels, metric_label_name(row->labels[i]), value_name(store, row->labels[i], at.at[i]));
    }
}

static void value_append(struct buffer *out, int64_t value, int64_t per_unit)
{
    if (per_unit == 1)
        buffer_format(out, " %" PRId64 "\n", value);
    else
        buffer_format(out, " %.15g\n", (double)value / (double)per_unit);
}

static void histogram_print(const struct metric_row *row, const uint64_t *cells, const char *labels, struct buffer *out)
{
    const char *comma = labels[0] != '\0' ? "," : "";
    uint64_t count = 0;
    for (unsigned i = 0; i < METRIC_BOUNDS; i++) {
        count += cells[i];
        buffer_format(out, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", row->name, labels, comma,
                      (double)metric_bounds_us[i] / (double)row->per_unit, count);
    }
    count += cells[METRIC_BOUNDS];
    buffer_format(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", row->name, labels, comma, count);
    const char *open = labels[0] != '\0' ? "{" : "", *close = labels[0] != '\0' ? "}" : "";
    buffer_format(out, "%s_sum%s%s%s", row->name, open, labels, close);
    value_append(out, (int64_t)cells[SUM_CELL], row->per_unit);
    buffer_format(out, "%s_count%s%s%s %" PRIu64 "\n", row->name, open, labels, close, count);
}

static void sample_print(const struct metric_row *row, const uint64_t *cells, const char *labels, struct buffer *out)
{
    if (row->kind == METRIC_HISTOGRAM) {
        histogram_print(row, cells, labels, out);
        return;
    }
    buffer_format(out, "%s%s", row->name, row->kind == METRIC_COUNTER ? "_total" : "");
    if (labels[0] != '\0')
        buffer_format(out, "{%s}", labels);
    value_append(out, (int64_t)cells[0], row->per_unit);
}

static void head_print(const struct metric_row *row, enum metric_text form, struct buffer *out)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    const char *end = row->kind == METRIC_COUNTER && form == METRIC_TEXT_PROMETHEUS ? "_total" : "";
    buffer_format(out, "# HELP %s%s %s.\n# TYPE %s%s %s\n", row->name, end, row->help, row->name, end,
                  kinds[row->kind]);
    if (form == METRIC_TEXT_OPENMETRICS && row->unit != NULL)
        buffer_format(out, "# UNIT %s %s\n", row->name, row->unit);
}

/* False after the last. */
static bool next_at(const struct metric_store *store, const struct metric_row *row, struct metric_at *at)
{
    for (unsigned i = METRIC_LABELS_MAX; i-- > 0;) {
        unsigned count = row->labels[i] == LABEL_CLASS ? store->class_count : values_max(store, row->labels[i]);
        if (++at->at[i] < count)
            return true;
        at->at[i] = 0;
    }
    return false;
}

static bool is_nothing(const uint64_t *cells, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (cells[i] != 0)
            return false;
    return true;
}

/* An alert looks how much this counter grew: it would not see the first task of one that begins with it. */
static bool is_watched(unsigned metric, struct metric_at at)
{
    static const bool watched[FLOW_ENDINGS] = {[FLOW_DONE] = true,    [FLOW_FAILED] = true,  [FLOW_DEAD] = true,
                                               [FLOW_REFUSED] = true, [FLOW_INVALID] = true, [FLOW_NO_RESOURCE] = true};
    return metric == METRIC_TASKS && watched[at.at[2]];
}

const char *const metric_text_types[METRIC_TEXTS] = {"text/plain; version=0.0.4; charset=utf-8",
                                                     "application/openmetrics-text; version=1.0.0; charset=utf-8"};

enum metric_text metric_text_for(const char *accept)
{
    return accept != NULL && strstr(accept, "application/openmetrics-text") != NULL ? METRIC_TEXT_OPENMETRICS
                                                                                    : METRIC_TEXT_PROMETHEUS;
}

void metric_store_print(const struct metric_store *store, enum metric_text form, struct buffer *out)
{
    struct buffer labels = {0};
    for (unsigned metric = store->begin; metric < store->end; metric++) {
        const struct metric_row *row = &metric_table[metric];
        struct metric_at at = {{0}};
        if (store->first[metric] == store->first[metric + 1])
            continue; /* without lock nodes */
        head_print(row, form, out);
        do {
            const uint64_t *cells = cells_of(store, metric, at);
            if (row->is_sparse && is_nothing(cells, cells_each(metric)) && !is_watched(metric, at))
                continue;
            labels_write(store, row, at, &labels);
            sample_print(row, cells, buffer_text(&labels), out);
        } while (next_at(store, row, &at));
    }
    if (form == METRIC_TEXT_OPENMETRICS)
        buffer_append_text(out, "# EOF\n");
    buffer_fini(&labels);
}
