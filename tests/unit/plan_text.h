/* A plan from the text of its JSON. */
#ifndef UNIT_PLAN_TEXT_H
#define UNIT_PLAN_TEXT_H

#include "worker/dry_run/plan/plan_json.h"

static inline bool plan_text_read(const char *bytes, size_t length, struct dry_run_plan *into, struct error *error)
{
    json_error_t why;
    json_t *object = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &why);
    if (object == NULL) {
        plan_init(into);
        return error_set(error, "the plan is no JSON: %s, at byte %d", why.text, why.position);
    }
    bool is_good = plan_from_json(object, into, error);
    json_decref(object);
    return is_good;
}

#endif
