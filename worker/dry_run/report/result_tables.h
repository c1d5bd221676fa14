/* The tables of a page about a result. Each is bounded, and says what it leaves out; one about nothing writes nothing.
 * Pure. */
#ifndef WORKER_DRY_RUN_RESULT_TABLES_H
#define WORKER_DRY_RUN_RESULT_TABLES_H

#include "base/buffer.h"
#include "worker/dry_run/result/result.h"

void table_of_totals(const struct result *result, struct buffer *out);
void table_of_times(const struct result *result, struct buffer *out);
void table_of_resources(const struct result *result, struct buffer *out);
void table_of_nodes(const struct result *result, struct buffer *out);
void table_of_hosts(const struct result *result, struct buffer *out);
void table_of_faults(const struct result *result, struct buffer *out);
void table_of_points(const struct result *result, struct buffer *out);

#endif
