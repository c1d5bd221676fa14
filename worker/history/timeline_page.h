/* A history as one page of HTML that needs nothing else: no network, no other file. It opens from the disk, can be
 * printed, and is bounded: at most about 4 MB, however long the history is; what it leaves out it says.
 *
 *     history_order(history);
 *     struct buffer page = {0};
 *     timeline_page_write(history, "Night of the 22nd", "3 logs", &page);
 *
 * A part of the history is a section: the timeline, sums by class and resource, and what happened. What was found out
 * (history_add_fact) stands above, part beside part. Pure. */
#ifndef WORKER_TIMELINE_PAGE_H
#define WORKER_TIMELINE_PAGE_H

#include "base/buffer.h"
#include "worker/history/history.h"

void timeline_page_write(const struct history *history, const char *title, const char *about, struct buffer *out);

#endif
