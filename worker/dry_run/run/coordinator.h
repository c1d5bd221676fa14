/* The host that leads a dry run receives its guests: says how the run stands, knows who is there, and takes what their
 * workers told. A few times a second, in one call to the queue node (queue/meeting.h).
 *
 *     struct reception *reception = reception_create(loop, &options);
 *     reception_tell(reception, RUN_GOES_ON);
 *     reception_destroy(reception);
 *
 * Runs on the loop. A guest that is not heard of for GUEST_SILENCE_NS is gone: what it has brought counts. */
#ifndef WORKER_DRY_RUN_RECEPTION_H
#define WORKER_DRY_RUN_RECEPTION_H

#include "base/loop.h"
#include "worker/config/config.h"
#include "worker/dry_run/run/guest_beat.h"

#define GUEST_SILENCE_NS (10 * NS_PER_S)
enum { RECEPTION_GUESTS_MAX = 63 };

struct reception_guest {
    char *name; /* its own */
    struct guest_beat beat;
    struct instant heard; /* when its beat last changed */
    bool is_gone;
};

struct reception_options {
    const struct config_node *node;
    const char *space;
    const struct dry_run_plan *plan;
    /* Records of a guest's process; `guest` is its place in the table, from 0 on. */
    void (*brought)(void *context, unsigned guest, unsigned process, struct text_span records);
    /* Nothing was heard of it for GUEST_SILENCE_NS, and it had not said that it ends. Once, unless it comes back. */
    void (*missed)(void *context, unsigned guest);
    void *context;
};

struct reception;

struct reception *reception_create(struct loop *loop, const struct reception_options *options);
void reception_destroy(struct reception *reception); /* NULL is fine */

void reception_tell(struct reception *reception, enum run_state state);
/* From now on nothing is asked or written; what was heard stays. */
void reception_stop(struct reception *reception);
/* True once the node has the last state that was told. */
bool reception_is_heard(const struct reception *reception);
unsigned reception_guest_count(const struct reception *reception);
const struct reception_guest *reception_guest(const struct reception *reception, unsigned guest);
/* The first guest that is there and whose processes do not all claim yet; NULL = there is none. */
const struct reception_guest *reception_laggard(const struct reception *reception);
/* No guest is at work any more, and all that they brought was taken. */
bool reception_is_over(const struct reception *reception);
/* This host's view of the queue node's clock. */
const struct node_clock *reception_clock(const struct reception *reception);

#endif
