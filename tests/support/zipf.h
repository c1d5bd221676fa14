/* Which of many: the n-th is drawn 1/n^s as often as the first. s = 0 draws all alike. */
#ifndef SUPPORT_ZIPF_H
#define SUPPORT_ZIPF_H

#include <stdint.h>

struct zipf {
    unsigned count;
    double *shares; /* of the first i + 1, rising to 1 */
};

void zipf_init(struct zipf *zipf, unsigned count, double s);
void zipf_fini(struct zipf *zipf);
/* From 0 to count - 1. `noise` is the caller's state, any number but 0; so threads can draw from one zipf. */
unsigned zipf_draw(const struct zipf *zipf, uint64_t *noise);

#endif
