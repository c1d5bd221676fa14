/* What a task locks: what it names itself, else what the templates of its class make of its arguments.
 *
 *     enum task_resources_answer answer = task_resources_resolve(&resources, &envelope, &rules, known, &error);
 *     if (answer == TASK_RESOURCES_OK)
 *         lock resources.names[0 .. count - 1]
 *     else if (answer == TASK_RESOURCES_BAD)
 *         bury it with resources.fault and error.text
 *     else if (rules.must_lock)
 *         bury it: HF::NoResource
 *
 * A task of a class that locks nothing has none, whatever it names. Pure; any thread. */
#ifndef WORKER_TASK_RESOURCES_H
#define WORKER_TASK_RESOURCES_H

#include "queue/envelope.h"
#include "worker/locks/class_resources.h"
#include "worker/task/task_rules.h"

enum task_resources_answer {
    TASK_RESOURCES_OK,   /* there are some */
    TASK_RESOURCES_NONE, /* it names none, and its class has no template */
    TASK_RESOURCES_BAD,  /* they cannot be told, or must not be locked by this class: it must not run */
};

/* Begins zeroed; task_resources_fini frees. May be used again and again. */
struct task_resources {
    const char *names[ENVELOPE_RESOURCES_MAX]; /* sorted by bytes, without duplicates */
    unsigned count;
    const char *fault; /* the class of the error: HF::BadResource, HF::ResourceMode; NULL = none */
    struct buffer texts;
};

/* `known` is what the templates are found in; NULL = there are none. The names live as long as the envelope and until
 * the next call. */
enum task_resources_answer task_resources_resolve(struct task_resources *resources, const struct envelope *envelope,
                                                  const struct task_rules *rules, const struct class_resources *known,
                                                  struct error *error);
void task_resources_fini(struct task_resources *resources);

#endif
