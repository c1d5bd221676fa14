/* Which resource how often: uniform, by Zipf's law, a hot set, or weights from a file. Resources are numbers from 0 on,
 * the most popular first. Pure. */
#ifndef WORKER_DRY_RUN_POPULARITY_H
#define WORKER_DRY_RUN_POPULARITY_H

#include <stddef.h>

enum popularity_kind { POPULARITY_UNIFORM, POPULARITY_ZIPF, POPULARITY_HOT, POPULARITY_WEIGHTS };

struct popularity {
    enum popularity_kind kind;
    unsigned count;     /* of resources */
    double exponent;    /* ZIPF */
    unsigned hot;       /* HOT: so many resources */
    double hot_share;   /* get this share of the tasks together */
    double *weights;    /* WEIGHTS: descending; its own */
    char **names;       /* of the resources, NULL = "r0", "r1", ...; its own */
    double *cumulative; /* made by popularity_prepare; its own */
};

/* Once, after the rest is set. */
void popularity_prepare(struct popularity *popularity);
double popularity_share(const struct popularity *popularity, unsigned resource);
/* `uniform` in [0, 1). */
unsigned popularity_at(const struct popularity *popularity, double uniform);
void popularity_fini(struct popularity *popularity);

#endif
