#include "worker/locks/task_resources.h"

#include <string.h>

static enum task_resources_answer bad(struct task_resources *resources, const char *fault)
{
    resources->count = 0;
    resources->fault = fault;
    return TASK_RESOURCES_BAD;
}

/* What it names itself, in the order of the envelope. */
static enum task_resources_answer own_take(struct task_resources *resources, const struct envelope *envelope,
                                           const struct task_rules *rules, const struct class_resources *known,
                                           struct error *error)
{
    for (unsigned i = 0; i < envelope->resource_count; i++) {
        if (known != NULL && !class_resources_allow(known, envelope->resources[i], rules->mode, error))
            return bad(resources, "HF::ResourceMode");
        resources->names[i] = envelope->resources[i];
    }
    resources->count = envelope->resource_count;
    return TASK_RESOURCES_OK;
}

/* Sorted, so that all tasks lock in one order, and each name once. */
static void name_insert(struct task_resources *resources, const char *name)
{
    unsigned place = resources->count;
    while (place > 0 && strcmp(resources->names[place - 1], name) > 0)
        place--;
    if (place > 0 && strcmp(resources->names[place - 1], name) == 0)
        return;
    memmove(&resources->names[place + 1], &resources->names[place],
            (resources->count - place) * sizeof resources->names[0]);
    resources->names[place] = name;
    resources->count++;
}

static enum task_resources_answer templates_fill(struct task_resources *resources,
                                                 const struct resource_templates *templates, struct text_span args,
                                                 struct error *error)
{
    size_t starts[ENVELOPE_RESOURCES_MAX];
    for (unsigned i = 0; i < templates->count; i++) {
        starts[i] = resources->texts.length;
        if (!resource_template_fill(&templates->items[i], args, &resources->texts, error))
            return bad(resources, "HF::BadResource");
        buffer_append(&resources->texts, "", 1);
    }
    /* Only now: the texts may have moved while they grew. */
    for (unsigned i = 0; i < templates->count; i++)
        name_insert(resources, resources->texts.bytes + starts[i]);
    return TASK_RESOURCES_OK;
}

enum task_resources_answer task_resources_resolve(struct task_resources *resources, const struct envelope *envelope,
                                                  const struct task_rules *rules, const struct class_resources *known,
                                                  struct error *error)
{
    resources->count = 0;
    resources->fault = NULL;
    buffer_clear(&resources->texts);
    if (rules->mode == CONFIG_MODE_NONE)
        return TASK_RESOURCES_NONE;
    if (envelope->resource_count > 0)
        return own_take(resources, envelope, rules, known, error);
    const struct resource_templates *templates =
        known != NULL ? class_resources_find(known, envelope->class_name) : NULL;
    return templates != NULL ? templates_fill(resources, templates, envelope->args, error) : TASK_RESOURCES_NONE;
}

void task_resources_fini(struct task_resources *resources)
{
    buffer_fini(&resources->texts);
}
