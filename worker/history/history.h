/* What happened: who held what when, and what happened to processes and nodes meanwhile. The source is a log
 * (log_reader.h), a dry run or a test; history_sums.h adds it up, timeline_page.h draws it.
 *
 *     struct history *history = history_create();
 *     history_add(history, &(struct history_part){from, "with the lock"});
 *     history_add(history, &(struct history_fact){at, HISTORY_GOOD, "ledger", "exact"});
 *     history_add(history, &(struct history_hold){.process = "north:17", .class_name = "transfer", .jid = "a1",
 *                                .resources = names, .resource_count = 2, .from = from, .to = to, .is_locked = true});
 *     history_add(history, &(struct history_mark){.at = at, .kind = "killed", .process = "north"});
 *     history_order(history);           once, when all is in it: what is asked from now on comes in the order of time
 *     const struct history_mark *marks = history_marks(history, &count);
 *     history_destroy(history);
 *
 * All texts are copied, and each is kept once: two texts of a history are equal exactly when their pointers are. NULL
 * is taken for "". The memory is bounded: what is beyond HISTORY_HOLDS_MAX holds (or as many endings, or
 * HISTORY_NOTES_MAX marks, parts, facts and processes each) is left out and counted. Pure; one thread at a time. */
#ifndef WORKER_HISTORY_H
#define WORKER_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

enum { HISTORY_HOLDS_MAX = 1000000, HISTORY_NOTES_MAX = 20000, HISTORY_RESOURCES_MAX = 16 };

/* One run of a task: under its lock from the moment it has it, or without any. */
struct history_hold {
    struct wall_time from, to;
    const char *process; /* HOST:PID, or another text that is unique to the process */
    const char *class_name, *jid, *fence, *ending;
    const char *const *resources;
    unsigned resource_count; /* at most HISTORY_RESOURCES_MAX; what is more is left out */
    int64_t waited_us;       /* for the lock; -1 = not known */
    int64_t held_us;         /* as the process measured it; -1 = not known, then it is what lies between from and to */
    bool is_locked;          /* else it ran without a lock */
    bool is_handed_over;
    bool is_lost;
    bool is_refused; /* a sink that compares tokens refused its write */
    bool is_open;    /* nobody saw its end: its process was killed, or the log ends before */
};

/* Something that happened at one moment. Kinds that are drawn in a way of their own: frozen and resumed (a process),
 * killed (a process or a node), wiped (a node), lost and refused (a hold); others are drawn as a dot. */
struct history_mark {
    struct wall_time at;
    const char *kind;
    const char *process; /* HOST, or HOST:PID; "" = none */
    const char *node, *resource, *jid, *text;
};

/* A task that ended without a hold: parked, skipped, ... */
struct history_ending {
    struct wall_time at;
    const char *class_name, *resource, *ending;
};

/* From its moment to that of the next: an act of its own, with a title. What is before the first has none. */
struct history_part {
    struct wall_time from;
    const char *title;
};

enum history_tone { HISTORY_PLAIN, HISTORY_GOOD, HISTORY_BAD };

/* What is to be read beside the timeline of the part in which it was found out. */
struct history_fact {
    struct wall_time at;
    enum history_tone tone;
    const char *name, *value;
};

/* Tasks that went well in this time and were only added up: there are no holds of them. */
struct history_gap {
    struct wall_time from, to;
    uint64_t tasks;
};

struct history_process {
    const char *name;
    struct wall_time from, to; /* of its first and last sign of life */
};

struct history;

struct history *history_create(void);
void history_destroy(struct history *history);

/* The text as it is kept, valid until the end of the history. */
const char *history_text(struct history *history, const char *text);

enum history_kind {
    HISTORY_HOLD,
    HISTORY_MARK,
    HISTORY_ENDING,
    HISTORY_PART,
    HISTORY_FACT,
    HISTORY_GAP,
    HISTORY_PROCESS,
    HISTORY_KINDS,
};
/* An item of any kind; `kind` says which. */
void history_add_item(struct history *history, enum history_kind kind, const void *item);
#define history_add(history, ...)                                                                                      \
    history_add_item(history,                                                                                          \
                     _Generic(*(__VA_ARGS__), struct history_hold                                                      \
                              : HISTORY_HOLD, struct history_mark                                                      \
                              : HISTORY_MARK, struct history_ending                                                    \
                              : HISTORY_ENDING, struct history_part                                                    \
                              : HISTORY_PART, struct history_fact                                                      \
                              : HISTORY_FACT, struct history_gap                                                       \
                              : HISTORY_GAP),                                                                          \
                     __VA_ARGS__)
/* Again under the same name: the span grows. */
void history_add_process(struct history *history, const char *name, struct wall_time from, struct wall_time to);

/* Puts all into the order of time. Gaps less than a second apart become one. Adds a first part without a title when
 * something lies before the first one. */
void history_order(struct history *history);

/* What is in it, in the order of time after history_order; valid until the next change. Processes by name. */
const void *history_items(const struct history *history, enum history_kind kind, size_t *count);
#define history_holds(history, count)   ((const struct history_hold *)history_items(history, HISTORY_HOLD, count))
#define history_marks(history, count)   ((const struct history_mark *)history_items(history, HISTORY_MARK, count))
#define history_endings(history, count) ((const struct history_ending *)history_items(history, HISTORY_ENDING, count))
#define history_parts(history, count)   ((const struct history_part *)history_items(history, HISTORY_PART, count))
#define history_facts(history, count)   ((const struct history_fact *)history_items(history, HISTORY_FACT, count))
#define history_gaps(history, count)    ((const struct history_gap *)history_items(history, HISTORY_GAP, count))
#define history_processes(history, count)                                                                              \
    ((const struct history_process *)history_items(history, HISTORY_PROCESS, count))
size_t history_left_out(const struct history *history);

/* Whether a mark's process, HOST or HOST:PID, is this one. */
bool history_names_process(const char *marked, const char *process);
/* When the part ends: when the next one begins; never for the last. */
struct wall_time history_part_end(const struct history *history, size_t part);

#endif
