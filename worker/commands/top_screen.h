/* The screen of `holdfast top`: facts and a size in, lines out. Pure.
 *
 * Every line is at most as wide as asked, and there are at most as many as asked: totals first, then processes, running
 * tasks, resources, lock nodes and queues share what is left evenly, as long as they have rows. */
#ifndef WORKER_TOP_SCREEN_H
#define WORKER_TOP_SCREEN_H

#include "worker/commands/top_facts.h"

/* Appends the lines, each with a line end. */
void top_screen_write(const struct top_facts *facts, unsigned width, unsigned height, bool has_colour,
                      struct buffer *out);

/* The same facts as one JSON object. */
void top_json_write(const struct top_facts *facts, struct buffer *out);

#endif
