/* What a result looks like: the plots of a page (plot.h), group by group. A group about which nothing is known draws
 * nothing and returns false. Pure. */
#ifndef WORKER_DRY_RUN_RESULT_FIGURES_H
#define WORKER_DRY_RUN_RESULT_FIGURES_H

#include "base/buffer.h"
#include "worker/dry_run/result/result.h"

bool figures_of_times(const struct result *result, struct buffer *out);  /* histograms */
bool figures_of_course(const struct result *result, struct buffer *out); /* second by second, with the faults */
bool figures_of_resources(const struct result *result, struct buffer *out);
bool figures_of_nodes(const struct result *result, struct buffer *out);
bool figures_of_points(const struct result *result, struct buffer *out); /* of a what-if */

#endif
