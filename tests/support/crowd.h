/* Processes that hammer one place, all at once and with random pauses, and what they count. Each of them gets tokens as
 * if from a lock that keeps nobody out, so every mistake of a fence has the occasion to show. */
#ifndef SUPPORT_CROWD_H
#define SUPPORT_CROWD_H

#include <stdatomic.h>
#include <stdint.h>

struct crowd {
    _Atomic int64_t token; /* the last one that was given out */
    _Atomic int64_t accepted, refused, failed;
};

/* Runs `member` in that many processes, each with a seed of its own, and waits for all of them. A process that dies
 * counts as failed. The caller frees the result with crowd_destroy(). */
struct crowd *crowd_run(unsigned processes, void (*member)(struct crowd *crowd, void *context, unsigned *seed),
                        void *context);
void crowd_destroy(struct crowd *crowd);

/* For members: the next token in digits, larger than all before. */
void crowd_token(struct crowd *crowd, char token[24]);
void crowd_pause(unsigned *seed); /* none, or up to three milliseconds */

#endif
