/* Which resource how often: uniform, by Zipf's law, a hot set, or weights from a file. Resources are numbers from 0 on,
 * the most popular first. Pure; once prepared, any thread.
 *
 *     struct popularity popularity = {.kind = POPULARITY_ZIPF, .count = 100, .exponent = 1.1};
 *     popularity_prepare(&popularity);
 *     unsigned resource = popularity_at(&popularity, uniform, NULL, 0);
 *     popularity_fini(&popularity); */
#ifndef WORKER_DRY_RUN_POPULARITY_H
#define WORKER_DRY_RUN_POPULARITY_H

#include <stdbool.h>

#include <stddef.h>

enum popularity_kind { POPULARITY_UNIFORM, POPULARITY_ZIPF, POPULARITY_HOT, POPULARITY_WEIGHTS };

struct popularity {
    enum popularity_kind kind;
    unsigned count;     /* of resources, at least 1 */
    double exponent;    /* ZIPF: the n-th is wanted 1/n^exponent as often as the first */
    unsigned hot;       /* HOT: so many resources */
    double hot_share;   /* get this share of the tasks together */
    double *weights;    /* WEIGHTS: descending, all above 0; its own */
    char **names;       /* of the resources, NULL = "r0", "r1", ...; its own */
    double *cumulative; /* made by popularity_prepare; NULL for UNIFORM; its own */
};

enum { DRY_RUN_NAMED_MAX = 100000 }; /* resources with names of their own */

struct popular {
    const char *name;
    double weight;
};
int popular_by_name(const void *a, const void *b); /* for qsort */
/* The DRY_RUN_NAMED_MAX with the most weight; `resources` are put into order, and their names copied. What the
 * popularity owned before is freed; popularity_prepare comes next. */
void popularity_weigh(struct popularity *popularity, struct popular *resources, size_t count);

/* Once, after the rest is set; and again whenever it was changed. */
void popularity_prepare(struct popularity *popularity);
/* `uniform` in [0, 1): a resource that is not in `taken`, which is ascending and shorter than the number of resources.
 * What is left is drawn by its weights, so a second draw is never rejected. */
unsigned popularity_at(const struct popularity *popularity, double uniform, const unsigned *taken,
                       unsigned taken_count);

enum { POPULARITY_NAME_MAX = 16 };
/* Its name; written to `out`, which has POPULARITY_NAME_MAX bytes, when it has none of its own. */
const char *popularity_name(const struct popularity *popularity, unsigned resource, char *out);

void popularity_copy(struct popularity *copy, const struct popularity *popularity);
void popularity_fini(struct popularity *popularity);

/* UTF-8 without control characters. */
bool text_is_plain(const char *text, size_t length);
/* Whether a resource can have this name: 1 to 512 bytes of UTF-8 without control characters, not beginning "hf:". */
bool resource_name_is_sound(const char *name, size_t length);

#endif
