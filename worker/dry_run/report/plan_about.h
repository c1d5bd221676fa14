/* What a plan says, for people: one sentence, one of a fault, and the command that does it again. Pure. */
#ifndef WORKER_DRY_RUN_PLAN_ABOUT_H
#define WORKER_DRY_RUN_PLAN_ABOUT_H

#include "base/buffer.h"
#include "worker/dry_run/plan/plan.h"

/* "a rehearsal on 5 private lock nodes: 2 processes with 16 threads each, 770 tasks/s for 20s (the first 2s do not
 * count), 100 resources by Zipf's law with 1.1, exponential holds of 5ms, seed 42" */
void plan_about(const struct dry_run_plan *plan, struct buffer *out);
/* "holdfast dry-run --private=5 --for 20s --rate 770/s ... --seed 42"; FILE stands for what came from a file. */
void plan_command(const struct dry_run_plan *plan, struct buffer *out);
/* "lock node 3 stopped for 3s", "worker process 2 killed". */
void plan_fault_about(const struct dry_run_fault *fault, struct buffer *out);

#endif
