/* A plan as JSON and back: inside the JSON of a result. Times are seconds. A member that is
 * not there has its usual value (plan_init), an unknown one is passed over, and one with a value that it cannot have is
 * refused with a reason. What was read is complete and within the limits of plan.h; plan_check says whether it works
 * here. Pure. */
#ifndef WORKER_DRY_RUN_PLAN_JSON_H
#define WORKER_DRY_RUN_PLAN_JSON_H

#include "worker/dry_run/plan/json_rows.h"
#include "worker/dry_run/plan/plan.h"

void plan_json_write(struct json_writer *json, const char *name, const struct dry_run_plan *plan);
/* `object` may be NULL, which is refused. `plan` is overwritten; plan_fini frees it, also when false is returned. */
bool plan_from_json(const json_t *object, struct dry_run_plan *plan, struct error *error) MUST_CHECK;

#endif
