/* What `holdfast doctor` finds: each with how bad it is, what it is, why it matters, and what to do.
 *
 * Every look is bounded: states and keys are sampled, and how much was looked at is said. What the node does not let
 * us see is a finding of its own, not an error. */
#ifndef WORKER_DOCTOR_H
#define WORKER_DOCTOR_H

#include "worker/commands/status.h"

enum doctor_severity { DOCTOR_ERROR, DOCTOR_WARNING, DOCTOR_NOTE, DOCTOR_SEVERITIES };

/* Of a kind of finding; all texts are static. */
struct doctor_kind {
    const char *id; /* for programs: words-with-hyphens */
    enum doctor_severity severity;
    const char *why, *remedy;
};

struct doctor_finding {
    const struct doctor_kind *kind;
    char *what;
};

struct doctor {
    struct console *console;
    unsigned long long key_limit; /* keys of the node that are looked at */
    struct doctor_finding *items;
    size_t count;
    size_t counts[DOCTOR_SEVERITIES];
    unsigned long long keys_looked_at;
    struct status status;
};

void doctor_end(struct doctor *doctor);

/* For the parts of the examination; what could not be asked is in console->code. `what` is made safe for a terminal. */
void doctor_find(struct doctor *doctor, const struct doctor_kind *kind, const char *what, ...) PRINTF_LIKE(3, 4);
void doctor_examine_node(struct doctor *doctor);   /* what the queue node says of itself */
void doctor_examine_fleet(struct doctor *doctor);  /* processes, clocks, queues */
void doctor_examine_states(struct doctor *doctor); /* what waits, by samples */
void doctor_examine_keys(struct doctor *doctor);   /* our keys, by a bounded scan */
void doctor_examine_locks(struct doctor *doctor);  /* the lock nodes and the configuration */
void doctor_examine_rights(struct doctor *doctor); /* what the users of all nodes may do */

/* By how many ppm the kernel runs this host's clocks faster than its hardware: `tick`, in us, and `freq`, in ppm times
 * 65536, as adjtimex gives them. Pure. */
int64_t doctor_clock_slew_ppm(long tick, long freq, long ticks_per_s);

/* Judges what INFO says of the queue node, with the values of CONFIG ("" = not given). Pure. */
struct doctor_settings {
    char save[256], fsync[32], min_replicas[32];
    bool is_known; /* CONFIG was answered */
};
void doctor_judge_node(struct doctor *doctor, const char *info, size_t length, const struct doctor_settings *settings);

#endif
