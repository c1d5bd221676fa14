/* "Did you mean": finds the known word nearest to a mistyped one.
 *
 *     struct suggestion suggestion = suggestion_for(wrong);
 *     for (each known word)
 *         suggestion_offer(&suggestion, word);
 *     if (suggestion.best != NULL) ...
 *
 * The words are not copied. Pure; any thread. */
#ifndef WORKER_SUGGEST_H
#define WORKER_SUGGEST_H

#include <stddef.h>

struct suggestion {
    const char *wrong;
    const char *best; /* NULL until a word near enough was offered */
    unsigned distance;
};

enum { SUGGEST_WORD_MAX = 64 }; /* longer words are never suggested */

struct suggestion suggestion_for(const char *wrong);
void suggestion_offer(struct suggestion *suggestion, const char *word);

/* Number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`; words longer than
 * SUGGEST_WORD_MAX are infinitely far apart (UINT_MAX). */
unsigned suggest_distance(const char *a, const char *b);

/* " (did you mean X?)" or "", written to `out`, which has SUGGEST_HINT_MAX bytes; returns `out`. */
enum { SUGGEST_HINT_MAX = SUGGEST_WORD_MAX + 32 };
const char *suggestion_hint(const struct suggestion *suggestion, char *out);

#endif
