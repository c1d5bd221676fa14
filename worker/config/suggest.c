#include "worker/config/suggest.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { FARTHEST_SUGGESTED = 2 };

static unsigned smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Keeps three rows of the table of edit distances, because a swap of neighbours looks two rows back. */
unsigned suggest_distance(const char *a, const char *b)
{
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > SUGGEST_WORD_MAX || b_length > SUGGEST_WORD_MAX)
        return UINT_MAX;
    unsigned rows[3][SUGGEST_WORD_MAX + 1];
    unsigned *before_last = rows[0], *last = rows[1], *current = rows[2];
    for (unsigned j = 0; j <= b_length; j++)
        last[j] = before_last[j] = j;
    for (unsigned i = 1; i <= a_length; i++) {
        current[0] = i;
        for (unsigned j = 1; j <= b_length; j++) {
            unsigned replaced = last[j - 1] + (a[i - 1] != b[j - 1]);
            current[j] = smaller(replaced, smaller(last[j], current[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                current[j] = smaller(current[j], before_last[j - 2] + 1);
        }
        unsigned *oldest = before_last;
        before_last = last;
        last = current;
        current = oldest;
    }
    return last[b_length];
}

struct suggestion suggestion_for(const char *wrong)
{
    return (struct suggestion){.wrong = wrong, .distance = UINT_MAX};
}

/* A word is near enough if at most two edits, and fewer than half of its letters, separate the two: "ab" is not a
 * plausible typo of "xy". */
void suggestion_offer(struct suggestion *suggestion, const char *word)
{
    unsigned distance = suggest_distance(suggestion->wrong, word);
    if (distance > FARTHEST_SUGGESTED || distance * 2 > strlen(word) || distance >= suggestion->distance)
        return;
    suggestion->best = word;
    suggestion->distance = distance;
}

const char *suggestion_hint(const struct suggestion *suggestion, char *out)
{
    if (suggestion->best == NULL)
        out[0] = '\0';
    else
        snprintf(out, SUGGEST_HINT_MAX, " (did you mean %s?)", suggestion->best);
    return out;
}
