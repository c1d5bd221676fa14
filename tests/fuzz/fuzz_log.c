/* Any bytes as the log of a worker. Every line is counted once, and what was read can be drawn. */
#include "queue/json.h"
#include "tests/fuzz/fuzz.h"
#include "worker/history/history_sums.h"
#include "worker/history/log_reader.h"
#include "worker/history/timeline_page.h"

static void counts_hold(const struct log_reader *reader)
{
    struct log_counts counts = log_reader_counts(reader);
    invariant(counts.lines == counts.used + counts.passed_over + counts.broken);
    invariant(counts.cut <= counts.lines);
}

static void history_holds_up(struct history *history)
{
    struct buffer page = {.bytes = NULL};
    size_t count;
    history_order(history);
    const struct history_hold *holds = history_holds(history, &count);
    for (size_t i = 0; i < count; i++) {
        invariant(holds[i].from.us <= holds[i].to.us && holds[i].resource_count <= HISTORY_RESOURCES_MAX);
        invariant(i == 0 || holds[i - 1].from.us <= holds[i].from.us);
    }
    size_t parts;
    (void)history_parts(history, &parts);
    for (size_t part = 0; part < parts; part++) {
        struct history_sums sums = history_sums_of(history, part);
        invariant(sums.total.overlaps <= sums.uses.count);
        history_sums_fini(&sums);
    }
    timeline_page_write(history, "fuzz", "", &page);
    buffer_fini(&page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = ERROR_NONE;
    struct history *history = history_create();
    struct log_reader *reader = log_reader_create(history);
    FILE *file = size > 0 ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
    if (file != NULL) {
        invariant(log_reader_file(reader, "fuzz.log", file, &error));
        fclose(file);
    }
    log_reader_finish(reader);
    counts_hold(reader);
    history_holds_up(history);
    log_reader_destroy(reader);
    history_destroy(history);
    return 0;
}
