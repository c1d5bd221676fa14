/* A result as one page of HTML that needs nothing else: the plain answer in big words, plots, and tables with the
 * details. It opens from the disk, follows light and dark, can be printed, has no script, and is bounded:
 * RESULT_PAGE_MAX bytes, however long the run was and however many resources it had. Pure. */
#ifndef WORKER_DRY_RUN_RESULT_PAGE_H
#define WORKER_DRY_RUN_RESULT_PAGE_H

#include "base/buffer.h"
#include "worker/dry_run/report/result.h"

enum { RESULT_PAGE_MAX = 2 * 1024 * 1024 };

void result_page_write(const struct result *result, struct buffer *out);

#endif
