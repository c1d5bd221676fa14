#include "worker/dry_run/stage/removal.h"

#include <stdlib.h>

#include "base/memory.h"
#include "queue/dry_runs.h"
#include "worker/dry_run/stage/sweep.h"
#include "worker/config/node_options.h"

#define FENCES      "hf:fence:"
#define CLIENT_NAME "holdfast-dry-run"

struct removal {
    struct removal_options options;
    unsigned count, over;
    struct sweep *sweeps[1 + REDLOCK_NODES_MAX];
};

static const struct config_node *node_of(const struct config *config, unsigned index)
{
    return index == 0 ? &config->queue_node : &config->lock_nodes[index - 1];
}

static void removal_free(struct removal *removal)
{
    for (unsigned i = 0; i < removal->count; i++)
        sweep_close(removal->sweeps[i]);
    free(removal);
}

/* The texts stay those of the sweeps. */
static void end_fill(const struct removal *removal, struct removal_end *end)
{
    *end = (struct removal_end){.count = removal->count, .is_clean = true};
    for (unsigned i = 0; i < removal->count; i++) {
        const struct sweep_state *state = sweep_state(removal->sweeps[i]);
        end->nodes[i] = (struct removal_node){.name = node_of(removal->options.config, i)->name,
                                              .is_clean = state->is_clean,
                                              .deleted = state->deleted,
                                              .left = state->left,
                                              .trouble = state->is_clean ? NULL : state->trouble};
        end->is_clean &= state->is_clean;
        end->deleted += state->deleted;
    }
}

static void sweep_done(void *context)
{
    struct removal *removal = context;
    struct removal_end end;
    if (++removal->over < removal->count)
        return;
    end_fill(removal, &end);
    removal->options.done(removal->options.context, &end);
    removal_free(removal);
}

static void sweep_begin(struct removal *removal, const struct sweep_options *common, unsigned index, const char *prefix,
                        const char *second)
{
    struct sweep_options options = *common;
    options.node = node_options(node_of(removal->options.config, index), CLIENT_NAME);
    options.prefixes[0] = prefix;
    options.prefixes[1] = second;
    options.unlinks = index == 0;
    removal->sweeps[index] = sweep_open(&options);
}

struct removal *removal_start(const struct removal_options *options)
{
    struct removal *removal = memory_new(struct removal);
    struct buffer space = {0}, fences = {0};
    const struct sweep_options common = {.loop = options->loop,
                                         .share = options->node_share,
                                         .deadline = options->deadline,
                                         .silence_ns = options->silence_ns,
                                         .done = sweep_done,
                                         .context = removal};
    removal->options = *options;
    removal->count = 1 + (unsigned)options->config->lock_node_count;
    dry_runs_space(options->run, &space);
    buffer_format(&fences, FENCES "%s", options->lock_prefix);
    sweep_begin(removal, &common, 0, buffer_text(&space), NULL);
    for (unsigned i = 1; i < removal->count; i++)
        sweep_begin(removal, &common, i, options->lock_prefix, buffer_text(&fences));
    buffer_fini(&space);
    buffer_fini(&fences);
    return removal;
}

void removal_cancel(struct removal *removal)
{
    if (removal != NULL)
        removal_free(removal);
}
