/* How many answers of the queue node may be outstanding at once, as a pure function of what was answered and lost.
 *
 * A server closes a connection for which more waits than its client-output-buffer-limit allows, so several large tasks
 * are lost together although each could be received alone. After a loss half as many are asked for at once, down to
 * one; after enough answers in a row twice as many, until there is no limit any more. An answer that would bring
 * several tasks counts as so many. */
#ifndef QUEUE_ANSWER_WINDOW_H
#define QUEUE_ANSWER_WINDOW_H

#include <limits.h>
#include <stdbool.h>

enum { ANSWER_WINDOW_GROWTH = 64, ANSWER_WINDOW_MAX = 1024 };

struct answer_window {
    unsigned limit;    /* 0 = none */
    unsigned lost;     /* since the last request */
    unsigned answered; /* in a row, since the limit changed */
};

/* What one request may bring at most. */
static inline unsigned answer_window_most(const struct answer_window *window)
{
    return window->limit > 0 ? window->limit : UINT_MAX;
}

/* A request that brings more than may be outstanding goes alone. */
static inline bool answer_window_takes(const struct answer_window *window, unsigned outstanding, unsigned brings)
{
    return window->limit == 0 || outstanding == 0 || outstanding + brings <= window->limit;
}

static inline void answer_window_sent(struct answer_window *window)
{
    window->lost = 0;
}

static inline void answer_window_answered(struct answer_window *window)
{
    if (window->limit == 0 || ++window->answered < ANSWER_WINDOW_GROWTH)
        return;
    window->answered = 0;
    window->limit = window->limit * 2 < ANSWER_WINDOW_MAX ? window->limit * 2 : 0;
}

/* Those that are lost together are told one after the other. */
static inline void answer_window_lost(struct answer_window *window, unsigned brought)
{
    window->lost += brought;
    window->limit = window->lost > 1 ? window->lost / 2 : 1;
    window->answered = 0;
}

#endif
