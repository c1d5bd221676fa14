/* Follow-up tasks: completes the tasks that a run hands in, for queue_finish_with.
 *
 *     while the parent runs      follow_up_check    each text, so that the handler learns why it cannot be pushed
 *     when it is done            follow_ups_read    all of them, as of now
 *                                queue_finish_with  which copies them
 *
 * A text is a task object as producers hand it in, and is completed as theirs (task_builder.h), with two differences:
 * without a queue or a traceparent it gets those of the parent, and the member `hf_parent` is the parent's jid.
 * Relative times (`at`, `expires_in`) count from the end of the parent. No follow-up task is unique.
 *
 * Pure, but for the kernel's randomness, from which jids come. Any thread, one at a time per struct. */
#ifndef QUEUE_FOLLOW_UP_H
#define QUEUE_FOLLOW_UP_H

#include "base/buffer.h"
#include "queue/queue.h"

struct follow_up_parent {
    const char *jid, *queue;
    const char *traceparent;       /* that its follow-up tasks get, too; NULL or "" = none */
    struct envelope_limits limits; /* for its follow-up tasks */
};

/* Whether a text can be completed and pushed. */
bool follow_up_check(const struct follow_up_parent *parent, const char *text, size_t length,
                     struct error *error) MUST_CHECK;

/* Zeroed memory is an empty list. Reuse it to reuse its memory. */
struct follow_ups {
    struct queue_follow_up *list; /* in the order of the texts; what it points to is in `texts` */
    size_t count;
    struct buffer texts;
};

/* False if one cannot be pushed, with a reason that names its number (from 1); then the list is empty. */
bool follow_ups_read(struct follow_ups *tasks, const struct follow_up_parent *parent, char *const *texts, size_t count,
                     struct wall_time now, struct error *error) MUST_CHECK;
void follow_ups_clear(struct follow_ups *tasks);
void follow_ups_fini(struct follow_ups *tasks);

#endif
