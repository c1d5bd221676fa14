/* Private to trial.c (the phases and what comes in) and trial_report.c (what they print). All on the loop. */
#ifndef WORKER_DRY_RUN_TRIAL_PRIVATE_H
#define WORKER_DRY_RUN_TRIAL_PRIVATE_H

#include "base/loop.h"
#include "queue/push.h"
#include "worker/dry_run/count/stats.h"
#include "worker/dry_run/load/rate_limiter.h"
#include "worker/dry_run/load/shadow.h"
#include "worker/dry_run/nodes/faults.h"
#include "worker/dry_run/nodes/name_space.h"
#include "worker/dry_run/nodes/node_watch.h"
#include "worker/dry_run/plan/load_generator.h"
#include "worker/dry_run/run/dry_run.h"
#include "worker/dry_run/run/live_block.h"

enum trial_phase {
    TRIAL_GATHERING,
    TRIAL_STARTING,
    TRIAL_WAITING,
    TRIAL_LOADING,
    TRIAL_DRAINING,
    TRIAL_ENDING,
    TRIAL_LOOKING,
    TRIAL_CLEANING,
    TRIAL_OVER,
};

/* What a node said first, before the workers began, and last. */
struct trial_node {
    struct node_sample first, last;
    struct node_sample judged; /* by limiter */
    uint64_t asked_judged;     /* by all processes, until then */
    bool was_seen;
};

/* How busy the processors of this machine are, by the kernel's own count. */
struct machine_load {
    unsigned processors;
    double busy_s, idle_s; /* of all of them together, since the machine was started */
};

struct trial {
    struct dry_run *run;
    const struct dry_run_plan *plan;
    struct loop *loop;
    struct loop_timer tick, second, arrival;
    struct loop_signal *interrupt, *termination;
    struct instant interrupted; /* first */
    enum trial_phase phase;
    struct instant phase_until; /* then it is over whatever was waited for */
    struct instant load_from, measured_from, load_until;
    struct wall_time began;
    int64_t began_us;      /* by the queue node's clock, which all hosts of a run share */
    struct instant begins; /* the same by this host's */
    bool was_interrupted, is_drained, measures;
    struct error trouble; /* why it came to nothing, or to an early end */
    struct stats *stats;
    struct load *load;     /* NULL in a shadow */
    struct shadow *shadow; /* NULL in a rehearsal, and before the load begins */
    struct rate_limiter limiter;
    uint64_t pushed_judged;
    struct faults *faults; /* from when the load begins */
    struct push *push;     /* the producer of its tasks */
    struct push_source source;
    struct loop_hook flush;
    struct node_watch *watch;
    struct name_space *space;
    bool is_written_down;  /* the run, among those that there are */
    unsigned missing_told; /* hosts, the last time that their number was printed */
    bool has_crashes;      /* of a check(), and it was printed */
    struct live_block block;
    uint64_t keys_left[RESULT_NODES_MAX]; /* by node, the queue node first */
    struct trial_node nodes[RESULT_NODES_MAX];
    uint64_t pushed, pushed_late;
    struct machine_load machine_from, machine_to;
    int64_t cpu_from_ns, cpu_to_ns; /* of this process, while it was measured */
    unsigned unwanted_ends;         /* of workers */
    unsigned lines_told;            /* of their logs */
};

/* trial_report.c */
void trial_progress_show(struct trial *trial);
void trial_progress_clear(struct trial *trial);
void trial_say(struct trial *trial, const char *format, ...) PRINTF_LIKE(2, 3);
/* False when the kernel does not know. */
bool machine_load_read(struct machine_load *load);
void trial_node_tell(struct trial *trial, unsigned number, const struct node_sample *sample);
void trial_result_make(struct trial *trial, struct result *result);

#endif
