/* The terms of this process (queue/terms.h): made from the configuration and the plugins, announced at the queue node,
 * and what of them may be served.
 *
 * A reload may change the terms of a class while its tasks run by the former ones. The class is not served, and the
 * former terms stay announced, until none of these tasks is left: so no other process begins with third ones, and the
 * new ones are compared with those of all others before they are served. Runs on the loop. */
#ifndef WORKER_ANNOUNCED_TERMS_H
#define WORKER_ANNOUNCED_TERMS_H

#include "queue/queue.h"
#include "worker/config/config.h"
#include "worker/plugin/plugin.h"

/* Appends the terms of a process with this configuration. `group` is the id of its lock group, or of its single
 * lock node ("" = that has none), NULL = not known; then nothing is said about locks. Pure. */
void announced_terms_write(const struct config *config, const struct plugins *plugins, const char *group,
                           struct buffer *out);

struct announced_terms;

struct announced_terms_options {
    struct queue *queue;
    const char *identity;
    /* Whether a task of this class, claimed by former terms, is still in a slot. */
    bool (*is_busy)(void *context, const char *class_name);
    /* What may be served has changed, or is known for the first time. */
    void (*changed)(void *context);
    void *context;
};

struct announced_terms *announced_terms_create(const struct announced_terms_options *options);
void announced_terms_destroy(struct announced_terms *terms); /* NULL is fine */

/* As they are from now on: the text of announced_terms_write. */
void announced_terms_set(struct announced_terms *terms, const char *text);
/* Now and then: announces what had to wait for tasks of the former terms. Cheap while there is nothing of the kind. */
void announced_terms_look(struct announced_terms *terms);
/* The answer of the queue (queue_options.terms_told). */
void announced_terms_told(struct announced_terms *terms, const char *text, const char *waits,
                          const struct terms_party *others, size_t count);

/* Whether the queue node has answered at all. */
bool announced_terms_are_known(const struct announced_terms *terms);
/* Whether tasks of this class may be run here; `locks`: under locks. */
bool announced_terms_allow(const struct announced_terms *terms, const char *class_name, bool locks);
/* Why something is not served, in a sentence; "" = all is. */
const char *announced_terms_reason(const struct announced_terms *terms);

#endif
