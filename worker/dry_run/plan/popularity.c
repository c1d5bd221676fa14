/* Resource i has the stretch [cumulative[i - 1], cumulative[i]) of a line; a uniform number is a point on the line, and
 * a binary search finds whose stretch it is. The line is as long as the sum of all weights, so that a stretch is
 * exactly a difference of two of its ends. */
#include "worker/dry_run/plan/popularity.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "redlock/redlock.h"

static double weight_of(const struct popularity *popularity, unsigned resource)
{
    switch (popularity->kind) {
    case POPULARITY_UNIFORM:
        return 1;
    case POPULARITY_ZIPF:
        return pow(resource + 1.0, -popularity->exponent);
    case POPULARITY_HOT:
        if (popularity->hot >= popularity->count)
            return 1;
        return resource < popularity->hot ? popularity->hot_share / popularity->hot
                                          : (1 - popularity->hot_share) / (popularity->count - popularity->hot);
    case POPULARITY_WEIGHTS:
        return popularity->weights[resource];
    }
    invariant_unreachable("a kind that does not exist");
}

void popularity_prepare(struct popularity *popularity)
{
    invariant(popularity->count > 0);
    free(popularity->cumulative);
    popularity->cumulative = NULL;
    if (popularity->kind == POPULARITY_UNIFORM)
        return;
    double sum = 0;
    popularity->cumulative = memory_zeroed(popularity->count, sizeof *popularity->cumulative);
    for (unsigned i = 0; i < popularity->count; i++)
        popularity->cumulative[i] = sum += weight_of(popularity, i);
}

/* --- the line --------------------------------------------------------------------------------------------------- */

/* Where the stretch of the resource begins; that of the one behind the last: where the line ends. */
static double begin_of(const struct popularity *popularity, unsigned resource)
{
    if (popularity->cumulative == NULL)
        return resource;
    return resource > 0 ? popularity->cumulative[resource - 1] : 0;
}

static double length_of(const struct popularity *popularity)
{
    return begin_of(popularity, popularity->count);
}

static double stretch_of(const struct popularity *popularity, unsigned resource)
{
    return begin_of(popularity, resource + 1) - begin_of(popularity, resource);
}

/* Whose stretch a point is on; rounding may put it on the very end of the line. */
static unsigned owner_of(const struct popularity *popularity, double point)
{
    unsigned low = 0, high = popularity->count - 1;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (begin_of(popularity, middle + 1) > point)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool is_taken(unsigned resource, const unsigned *taken, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (taken[i] == resource)
            return true;
    return false;
}

unsigned popularity_at(const struct popularity *popularity, double uniform, const unsigned *taken, unsigned taken_count)
{
    invariant(uniform >= 0 && uniform < 1 && taken_count < popularity->count);
    double length = length_of(popularity);
    for (unsigned i = 0; i < taken_count; i++)
        length -= stretch_of(popularity, taken[i]);
    /* A point on the line without the stretches that are taken; each of them that lies before it moves it on. */
    double point = uniform * (length > 0 ? length : 0);
    for (unsigned i = 0; i < taken_count && point >= begin_of(popularity, taken[i]); i++)
        point += stretch_of(popularity, taken[i]);
    unsigned owner = owner_of(popularity, point);
    while (is_taken(owner, taken, taken_count)) /* by rounding */
        owner = (owner + 1) % popularity->count;
    return owner;
}

/* --- names and weights ------------------------------------------------------------------------------------------ */

/* Equal weights by name, so that the order does not depend on that of a file. */
static int by_weight(const void *a, const void *b)
{
    const struct popular *left = a, *right = b;
    if (left->weight != right->weight)
        return left->weight < right->weight ? 1 : -1;
    return strcmp(left->name, right->name);
}

int popular_by_name(const void *a, const void *b)
{
    return strcmp(((const struct popular *)a)->name, ((const struct popular *)b)->name);
}

void popularity_weigh(struct popularity *popularity, struct popular *resources, size_t count)
{
    unsigned kept = count < DRY_RUN_NAMED_MAX ? (unsigned)count : DRY_RUN_NAMED_MAX;
    invariant(count > 0);
    popularity_fini(popularity);
    qsort(resources, count, sizeof *resources, by_weight);
    *popularity = (struct popularity){.kind = POPULARITY_WEIGHTS,
                                      .count = kept,
                                      .weights = memory_zeroed(kept, sizeof(double)),
                                      .names = memory_zeroed(kept, sizeof(char *))};
    for (unsigned i = 0; i < kept; i++) {
        popularity->weights[i] = resources[i].weight;
        popularity->names[i] = memory_text(resources[i].name);
    }
}

const char *popularity_name(const struct popularity *popularity, unsigned resource, char *out)
{
    if (popularity->names != NULL)
        return popularity->names[resource];
    snprintf(out, POPULARITY_NAME_MAX, "r%u", resource);
    return out;
}

void popularity_copy(struct popularity *copy, const struct popularity *popularity)
{
    size_t count = popularity->count;
    *copy = *popularity;
    copy->cumulative = NULL;
    if (popularity->weights != NULL) {
        copy->weights = memory_zeroed(count, sizeof *copy->weights);
        memcpy(copy->weights, popularity->weights, count * sizeof *copy->weights);
    }
    if (popularity->names != NULL) {
        copy->names = memory_zeroed(count, sizeof *copy->names);
        for (size_t i = 0; i < count; i++)
            copy->names[i] = memory_text(popularity->names[i]);
    }
    if (popularity->cumulative != NULL)
        popularity_prepare(copy);
}

void popularity_fini(struct popularity *popularity)
{
    for (unsigned i = 0; popularity->names != NULL && i < popularity->count; i++)
        free(popularity->names[i]);
    free(popularity->names);
    free(popularity->weights);
    free(popularity->cumulative);
    popularity->names = NULL;
    popularity->weights = popularity->cumulative = NULL;
}

/* --- names -------------------------------------------------------------------------------------------------------- */

bool text_is_plain(const char *text, size_t length)
{
    for (const char *at = text, *end = text + length; at < end;) {
        size_t character = utf8_length(at, end);
        if (character == 0 || (unsigned char)*at < ' ' || *at == 0x7f)
            return false;
        at += character;
    }
    return true;
}

bool resource_name_is_sound(const char *name, size_t length)
{
    return length > 0 && length <= REDLOCK_RESOURCE_BYTES_MAX && !(length >= 3 && memcmp(name, "hf:", 3) == 0) &&
           text_is_plain(name, length);
}
