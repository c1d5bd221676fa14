/* Plays schedules: each in a forked child, from a seed, so that a crash, a hang or a leak is a finding like any other,
 * and a replay gives the same history. What the environment says:
 *
 *   HF_SEED       the first seed; else the day decides, and it is printed
 *   HF_SCHEDULES  how many
 *   HF_SECONDS    no more begin when so much processor time is used
 *   HF_TRACE=1    the history of each, on stderr: for one; 2 = without what processes log
 *   HF_WITHOUT    moves that are left out, by their numbers: 3,7,12
 *   HF_REDUCE=1   of the first that is found: leaves out what can be left out, and prints what remains */
#ifndef SIM_PLAY_H
#define SIM_PLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

enum { PLAY_COUNTERS_MAX = 96, PLAY_TEXT_MAX = 600 };

/* --- in a schedule ------------------------------------------------------------------------------------------------ */

/* A violation: the schedule ends, and the first one counts. */
void play_violated(const char *judge, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool play_is_violated(void);
/* The process that runs has freed what it allocated since process_blocks_begin. */
void play_freed(void);
/* How often something happened; the name is a fixed text. */
void play_count(const char *name, uint64_t times);
/* Moves are numbered in the order in which they are drawn, from 0 on, before the schedule begins. False: it is left
 * out. The description is for whoever reads what remains. */
bool play_move(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* So much of the world's time has passed in the schedule. */
void play_lasted(int64_t ns);

/* --- all of them -------------------------------------------------------------------------------------------------- */

/* How often something happens in a thousand schedules. */
struct play_bound {
    const char *name; /* of its counter */
    uint64_t least, most;
};

struct play {
    const char *name;
    void (*schedule)(uint64_t seed);
    /* In 400 schedules: counters that must not be 0, else the run shows too little (of troubles, trouble_names, and of
     * what comes of them); and bounds, of which the last has no name. */
    const char *const *troubles, *const *expected;
    const struct play_bound *bounds;
};

/* When the environment says nothing: 400 schedules, the same each day; or those of the day, for eight seconds of
 * processor time. The number that violated something; all is printed. */
uint64_t play_each_day(const struct play *play);
uint64_t play_today(const struct play *play);

#endif
