#include "worker/dry_run/feeder.h"

#include <stdlib.h>

#include "base/memory.h"
#include "worker/config/node_options.h"

/* Of full slices: as much as a fast generator needs. */
enum { SLICES_MAX = 16 };

struct feeder {
    struct loop *loop;
    struct feeder_options options;
    struct push *push;
    struct push_source source;
    struct loop_hook flush;
};

static void slice_ended(struct push_source *source, const struct push_report *report)
{
    struct feeder *feeder = list_owner(source, struct feeder, source);
    if (report->end != PUSH_ACKNOWLEDGED)
        feeder->options.refused(feeder->options.context, report->count, report->reason);
}

static void flush(struct loop_hook *hook)
{
    struct feeder *feeder = list_owner(hook, struct feeder, flush);
    push_flush(feeder->push, &feeder->source);
}

struct feeder *feeder_create(struct loop *loop, const struct feeder_options *options)
{
    struct feeder *feeder = memory_new(struct feeder);
    feeder->loop = loop;
    feeder->options = *options;
    feeder->push = push_create(loop, &(struct push_options){.node = node_options(options->node, "dry-run"),
                                                            .space = options->space,
                                                            .slices_max = SLICES_MAX});
    push_source_init(&feeder->source, slice_ended);
    loop_hook_init(&feeder->flush, flush);
    return feeder;
}

void feeder_destroy(struct feeder *feeder)
{
    if (feeder == NULL)
        return;
    loop_hook_cancel(&feeder->flush);
    push_destroy(feeder->push);
    push_source_fini(&feeder->source);
    free(feeder);
}

void feeder_add(struct feeder *feeder, const struct intake_task *task)
{
    push_add(feeder->push, &feeder->source, task, 0);
    loop_at_turn_end(feeder->loop, LOOP_GATHER, &feeder->flush);
}
