/* What the files of the verdict share: verdict.c finds the bottleneck and says so, verdict_advice.c says what would
 * help. */
#ifndef WORKER_DRY_RUN_VERDICT_PRIVATE_H
#define WORKER_DRY_RUN_VERDICT_PRIVATE_H

#include <math.h>

#include "base/log.h"
#include "worker/print/human.h"
#include "worker/dry_run/count/verdict.h"

#define VERDICT_NEARLY_FULL 0.85

struct verdict {
    struct result *result;
    const struct model_overheads *overheads;
    const struct verdict_facts *facts;
    const struct result_resource *fullest;            /* of the resources; NULL = none had a load */
    const struct result_node *lock_node, *queue_node; /* the busiest of each; NULL = not known */
    unsigned full_resources;                          /* nearly full ones */
    double busy_turn;                                 /* the turn-over of the resource that had the most */
    unsigned runners, processes;
    double full[RESULT_TROUBLE + 1]; /* how much of what it can do is asked for; 0 = not known */
};

void verdict_say(char into[RESULT_TEXT_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Fills the advice of the result. */
void verdict_advise(struct verdict *verdict);

#define SAY_TIME(seconds) human_time(fmax(seconds, 0), (char[HUMAN_TEXT_MAX]){0})
#define SAY_RATE(rate)    human_rate(fmax(rate, 0), (char[HUMAN_TEXT_MAX]){0})
#define SAY_SHARE(share)  human_share(fmin(fmax(share, 0), 1), (char[HUMAN_TEXT_MAX]){0})
#define SAY_COUNT(count)  human_count((int64_t)(count), (char[HUMAN_TEXT_MAX]){0})
#define SAY_NAME(text)    log_quote(text, (char[LOG_QUOTE_MAX]){0})

#endif
