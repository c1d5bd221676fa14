/* The screen of `holdfast top`: facts and a size in, lines out. Pure.
 *
 * Every line is at most as wide as asked, and there are at most as many as asked: totals first, then processes, running
 * tasks, resources, lock nodes and queues share what is left evenly, as long as they have rows. */
#ifndef WORKER_TOP_SCREEN_H
#define WORKER_TOP_SCREEN_H

#include "worker/commands/top_facts.h"
#include "worker/commands/top_view.h"

/* Appends the lines, each with a line end. `view` is what somebody at a terminal has chosen, with a last line that says
 * which keys there are; NULL for a snapshot. A row and a column that are not there become one that is. */
void top_screen_write(const struct top_facts *facts, struct top_view *view, unsigned width, unsigned height,
                      bool has_colour, struct buffer *out);

/* What the chosen row is about: a process, a task (by its jid; of a resource, its holder), a queue. "" when there is no
 * such row, or nobody knows. */
void top_screen_chosen(const struct top_facts *facts, const struct top_view *view, char name[TOP_NAME_MAX]);

/* The same facts as one JSON object. */
void top_json_write(const struct top_facts *facts, struct buffer *out);

#endif
