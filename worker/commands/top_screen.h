/* The screen of `holdfast top`: facts and a size in, lines out. Pure.
 *
 * Every line is at most as wide as asked, and there are at most as many as asked: totals first, then processes, running
 * tasks, resources, lock nodes and queues share what is left evenly, as long as they have rows. */
#ifndef WORKER_TOP_SCREEN_H
#define WORKER_TOP_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/commands/top_look.h"

/* A rate from totals that are looked at again and again: of the last RATE_WINDOW_US, because workers write what they
 * have done every 5 s, in one piece. */
#define RATE_WINDOW_US (15 * US_PER_S)
/* A shorter one shows when workers write rather than what they do. */
#define RATE_LEAST_US (5 * US_PER_S)

enum { RATE_SAMPLES = 32 };

struct rate_sample {
    struct wall_time at;
    long long processed, failed;
};

struct rate_window {
    struct rate_sample samples[RATE_SAMPLES]; /* the oldest first */
    unsigned count;
};

/* Totals that are smaller than before, or a clock that went back, begin a new window. */
void rate_window_add(struct rate_window *window, struct wall_time at, long long processed, long long failed);
/* How far apart the first and the last sample are. */
int64_t rate_window_span_us(const struct rate_window *window);
/* A second, over the window; false when it is shorter than RATE_LEAST_US. */
bool rate_window_read(const struct rate_window *window, double *processed, double *failed);
/* Adds what was counted, and fills the rate: of the window, or of the last full minute while the window is short. */
void top_rates_fill(struct top_facts *facts, struct rate_window *window);

/* What the user has chosen to see in `holdfast top`, and what a key means: pure, so that it is the same whatever the
 * terminal is.
 *
 *     struct top_view view = {.section = TOP_TASKS};
 *     enum top_action action = top_view_type(&view, bytes, length, &used);     until all bytes are used
 *     top_screen_write(&facts, &view, ...);                                moves the chosen row to one that is there */
enum top_section { TOP_PROCESSES, TOP_TASKS, TOP_RESOURCES, TOP_NODES, TOP_QUEUES, TOP_SECTIONS };

enum top_mode {
    TOP_LISTS,
    TOP_FILTERS,  /* a filter is being typed */
    TOP_CONFIRMS, /* a question is on the screen */
    TOP_READS,    /* a text covers the lists */
};

enum top_action {
    TOP_NOTHING, /* but drawing again */
    TOP_QUIT,
    TOP_OPEN,   /* the task of the chosen row */
    TOP_CANCEL, /* the task of the chosen row: ask */
    TOP_PAUSE,  /* the queue of the chosen row, or resume it: ask */
    TOP_RESUME, /* what is asked then of a queue that is paused */
    TOP_DO,     /* what was asked is to be done */
};

enum { TOP_FILTER_MAX = 64, TOP_NAME_MAX = 256, TOP_NOTE_MAX = 400 };

struct top_view {
    enum top_mode mode;
    enum top_section section; /* that the keys are about */
    size_t row;
    unsigned sorted[TOP_SECTIONS]; /* column + 1; 0 = as they come */
    bool is_descending[TOP_SECTIONS];
    char filter[TOP_FILTER_MAX]; /* "" = all rows */
    enum top_action asked;       /* of TOP_CONFIRMS */
    char target[TOP_NAME_MAX];   /* of it: the jid, or the queue */
    char note[TOP_NOTE_MAX];     /* the question, or what came of the last action; "" */
    char *text;                  /* of TOP_READS; owned by its setter */
    size_t text_line;            /* the first that is shown */
};

/* Takes one key from the front of the bytes; `used` is its length. */
enum top_action top_view_type(struct top_view *view, const char *bytes, size_t length, size_t *used);

/* Appends the lines, each with a line end. `view` is what the user has chosen, with a last line that says
 * which keys there are; NULL for a snapshot. A row and a column that are not there become one that is. */
void top_screen_write(const struct top_facts *facts, struct top_view *view, unsigned width, unsigned height,
                      bool has_colour, struct buffer *out);

/* What the chosen row is about: a process, a task (by its jid; of a resource, its holder), a queue. "" when there is no
 * such row, or nobody knows. */
void top_screen_chosen(const struct top_facts *facts, const struct top_view *view, char name[TOP_NAME_MAX]);

/* The same facts as one JSON object. */
void top_json_write(const struct top_facts *facts, struct buffer *out);

#endif
