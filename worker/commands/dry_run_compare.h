/* `holdfast dry-run compare A.json B.json`: what changed from one run to the other. */
#ifndef WORKER_COMMANDS_DRY_RUN_COMPARE_H
#define WORKER_COMMANDS_DRY_RUN_COMPARE_H

#include <stdbool.h>

/* Prints the comparison of the results in two files; "-" is standard input. Returns an exit code; what fails is said on
 * standard error. */
int dry_run_compare(const char *before_path, const char *after_path, bool as_json);

#endif
