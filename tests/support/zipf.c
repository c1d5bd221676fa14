#include "tests/support/zipf.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

void zipf_init(struct zipf *zipf, unsigned count, double s)
{
    double sum = 0;
    zipf->count = count;
    zipf->shares = memory_zeroed(count, sizeof *zipf->shares);
    for (unsigned i = 0; i < count; i++) {
        sum += 1 / pow(i + 1.0, s);
        zipf->shares[i] = sum;
    }
    for (unsigned i = 0; i < count; i++)
        zipf->shares[i] /= sum;
}

void zipf_fini(struct zipf *zipf)
{
    free(zipf->shares);
    *zipf = (struct zipf){0};
}

/* Xorshift for a number in [0, 1), then the first whose share lies above it. */
unsigned zipf_draw(const struct zipf *zipf, uint64_t *noise)
{
    *noise ^= *noise << 13;
    *noise ^= *noise >> 7;
    *noise ^= *noise << 17;
    double at = (double)(*noise >> 11) / (double)(UINT64_C(1) << 53);
    unsigned low = 0, high = zipf->count - 1;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (zipf->shares[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
