/* What hosts of one dry run send each other (queue/dry_runs.h), as JSON: the state of a remote host, and the
 * state of the run. Records go as they are, with marks. Pure. */
#ifndef WORKER_DRY_RUN_HOST_HEARTBEAT_H
#define WORKER_DRY_RUN_HOST_HEARTBEAT_H

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "queue/json.h"
#include "worker/dry_run/plan/plan.h"

/* --- clocks ------------------------------------------------------------------------------------------------------- */

/* The clock of a Redis node as seen from this machine, so that times of several hosts can be compared: each measures
 * how far its own CLOCK_BOOTTIME is from the node's TIME, by the round trip that took least (Cristian, "Probabilistic
 * clock synchronization", 1989).
 *
 *     node_clock_note(&clock, asked, answered, node_us);
 *     here = theirs.ns + node_clock_between(&of_their_host, &of_this_host)        */
struct node_clock {
    bool is_known;
    int64_t offset_ns; /* the node's time since 1970 less CLOCK_BOOTTIME here */
    int64_t error_ns;  /* at most, when it was noted */
    struct instant noted;
};

/* `answered` came to a question that was sent at `asked`; both of this host. */
void node_clock_note(struct node_clock *clock, struct instant asked, struct instant answered, int64_t node_us);

/* How far the offset may be off by now, with what the clocks may have drifted since. */
int64_t node_clock_error(const struct node_clock *clock, struct instant now);

/* What has to be added to an instant of the one host to have that of the other. */
static inline int64_t node_clock_between(const struct node_clock *from, const struct node_clock *to)
{
    return from->offset_ns - to->offset_ns;
}

/* --- what they report --------------------------------------------------------------------------------------------- */

struct host_heartbeat {
    unsigned processes, threads;
    unsigned serving;        /* processes that claim what comes */
    struct node_clock clock; /* of the remote host */
    uint64_t records_lost;
    bool has_ended; /* its workers are gone, and all their records are there */
};

void host_heartbeat_write(struct buffer *out, const struct host_heartbeat *beat);
bool host_heartbeat_read(struct text_span text, struct host_heartbeat *beat);

enum run_state { RUN_GATHERS, RUN_GOES_ON, RUN_ENDS };

const char *run_state_name(enum run_state state);
/* False when it is the name of none. */
bool run_state_named(struct text_span name, enum run_state *state);

void run_state_write(struct buffer *out, enum run_state state, const struct dry_run_plan *plan);
/* Of another version it is refused: records have no names for what is in them. The caller frees the plan with
 * plan_fini. */
bool run_state_read(struct text_span text, enum run_state *state, struct dry_run_plan *plan, struct error *error);

#endif
