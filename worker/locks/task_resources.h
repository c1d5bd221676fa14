/* The resources that a task locks: those that it names, else those that the templates of its class make from its
 * arguments.
 *
 *     enum task_resources_answer answer = task_resources_resolve(&resources, &envelope, &rules, known, &error);
 *     if (answer == TASK_RESOURCES_OK)
 *         lock resources.names[0 .. count - 1]
 *     else if (answer == TASK_RESOURCES_BAD)
 *         bury it with resources.fault and error.text
 *     else if (rules.must_lock)
 *         bury it: HF::NoResource
 *
 * A task of a class without locks has none, whatever it names. Pure; any thread. */
#ifndef WORKER_TASK_RESOURCES_H
#define WORKER_TASK_RESOURCES_H

#include "queue/envelope.h"
#include "worker/config/config.h"
#include "worker/config/findings.h"
#include "worker/locks/resource_template.h"
#include "worker/plugin/plugin.h"
#include "worker/task/task_rules.h"

/* --- what the tasks of a class lock ------------------------------------------------------------------------------- */

/* For each class: the templates for tasks that name no resource (resource_template.h), and the mode (task_rules.h) to
 * which the names from these templates belong.
 *
 * A resource belongs to one mode. A class that locks it for efficiency may run unlocked or keep the lock longer, so a
 * class that locks it for correctness would not be protected from it. The names are unknown before the tasks arrive, so
 * the beginnings of the templates stand for them. Two classes of different modes whose templates could make the same
 * name are refused at the start. A task that names a resource is refused if the name begins like a template of another
 * mode. This does not concern classes without locks. The same holds for limits: a class that admits more holders would
 * break the promise to the others. A class with a limit locks one resource.
 *
 * Created from the configuration and the plugins at the start and at every reload, constant afterwards; any thread. */

struct class_resources; /* opaque */

struct resource_templates {
    struct resource_template *items;
    unsigned count; /* at most ENVELOPE_RESOURCES_MAX */
};

/* Covers all classes that a plugin serves. Errors go to `findings`, also those of unserved classes; invalid
 * templates are skipped. Keeps no pointers to config and plugins. */
struct class_resources *class_resources_create(const struct config *config, const struct plugins *plugins,
                                               struct findings *findings);
void class_resources_free(struct class_resources *resources); /* NULL is fine */

/* NULL if the class has none. */
const struct resource_templates *class_resources_find(const struct class_resources *resources, const char *class_name);
/* False, with a reason, if the name belongs to another mode than that of the rules, or has another limit. */
bool class_resources_allow(const struct class_resources *resources, const char *name, const struct task_rules *rules,
                           struct error *error) MUST_CHECK;

/* --- what a task locks -------------------------------------------------------------------------------------------- */

enum task_resources_answer {
    TASK_RESOURCES_OK,   /* there is at least one */
    TASK_RESOURCES_NONE, /* it names none, and its class has no template */
    TASK_RESOURCES_BAD,  /* they cannot be determined, or this class must not lock them: the task must not run */
};

/* Begins zeroed; task_resources_fini frees it. Reusable. */
struct task_resources {
    const char *names[ENVELOPE_RESOURCES_MAX]; /* sorted by bytes, without duplicates */
    unsigned count;
    const char *fault; /* the class of the error: HF::BadResource, HF::ResourceMode; NULL = none */
    struct buffer texts;
};

/* `known` has the templates; NULL = there are none. The names live as long as the envelope, and until the next call. */
enum task_resources_answer task_resources_resolve(struct task_resources *resources, const struct envelope *envelope,
                                                  const struct task_rules *rules, const struct class_resources *known,
                                                  struct error *error);
void task_resources_fini(struct task_resources *resources);

#endif
