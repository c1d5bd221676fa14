/* What becomes of the processes of `holdfast work --processes N`, as a pure function of (state, event, now): when
 * each is started, after what pause it is started again, and when all is over. supervisor.c asks and acts.
 *
 *                    started                  ended: unasked, or not well
 *     DUE (at `at`) ────────▶ ALIVE ─────────────────────────────────────▶ DUE, after a pause
 *       │                       └─ ended well; or while ending; or before it was ever up ─▶ OVER
 *       └─ supervision_end ─▶ OVER
 *
 * The pause before a restart is 1 s, then twice the one before, up to 60 s; and 1 s again after the process has lived
 * for 60 s. The first process is started alone, the others when it is up: what is wrong with the configuration or the
 * plugins is said once. A process that ends before it was up for the first time will not do better the next time: then
 * all is brought to an end.
 *
 * A process without heartbeats for SUPERVISION_SILENT_NS is stuck, or stopped, and is to be killed. Only time in which
 * the supervisor itself looked on counts: after a suspend of the machine nobody is to blame. */
#ifndef WORKER_SUPERVISION_H
#define WORKER_SUPERVISION_H

#include <stdbool.h>

#include "base/clock.h"

enum { SUPERVISION_MAX = 64 };

#define SUPERVISION_PAUSE_MIN_NS (1 * NS_PER_S)
#define SUPERVISION_PAUSE_MAX_NS (60 * NS_PER_S)
#define SUPERVISION_SILENT_NS    (20 * NS_PER_S)
#define SUPERVISION_LOOK_NS      (1 * NS_PER_S) /* how often to look */

struct supervised {
    enum { SUPERVISED_DUE, SUPERVISED_ALIVE, SUPERVISED_OVER } state;
    struct instant at;   /* DUE: it is to be started then; ALIVE: it was */
    int64_t pause_ns;    /* before its last restart; 0 = it had none */
    bool is_up;          /* ALIVE: and serves */
    bool has_been_up;    /* at any time */
    uint64_t heartbeats; /* the count at its last sign of life; 0 = none yet */
    struct instant heard;
};

struct supervision {
    struct supervised processes[SUPERVISION_MAX];
    unsigned count;
    struct instant looked; /* when the supervisor did last */
    bool has_begun;        /* one was up */
    bool is_ending;        /* nothing is started any more */
    int exit_code;         /* the worst of those that are over */
};

/* All are due now, the first of them before the others. */
void supervision_begin(struct supervision *supervision, unsigned count, struct instant now);

/* The first that is to be started now; `count` = none. */
unsigned supervision_due(const struct supervision *supervision, struct instant now);
/* When one will be; INSTANT_NEVER = nobody waits for it. */
struct instant supervision_next(const struct supervision *supervision);

void supervision_started(struct supervision *supervision, unsigned number, struct instant now);
void supervision_up(struct supervision *supervision, unsigned number);

/* Once before a round of supervision_is_silent, which says of each living process whether it is to be killed now. */
void supervision_look(struct supervision *supervision, struct instant now);
bool supervision_is_silent(struct supervision *supervision, unsigned number, uint64_t heartbeats, struct instant now);

/* `exit_code`: of an orderly end, or what stands for another one, which is never 0. HOPELESS: the others are to be
 * stopped, all is ending. */
enum supervision_verdict { SUPERVISION_OVER, SUPERVISION_RESTART, SUPERVISION_HOPELESS };
enum supervision_verdict supervision_ended(struct supervision *supervision, unsigned number, int exit_code,
                                           struct instant now);

/* Nothing is started any more; a process that was due is over. */
void supervision_end(struct supervision *supervision);

unsigned supervision_alive(const struct supervision *supervision);
/* A worker is alive, and not up yet. */
bool supervision_awaits(const struct supervision *supervision);
bool supervision_is_over(const struct supervision *supervision);

#endif
