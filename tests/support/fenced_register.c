#include "tests/support/fenced_register.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { NAME_MAX_BYTES = 64 };

struct hold {
    struct hold *next;
    uint64_t token;
    int64_t from, until;
    char jid[NAME_MAX_BYTES];
};

struct effect {
    struct effect *next;
    char jid[NAME_MAX_BYTES];
};

struct number {
    uint64_t value, token; /* the largest that was said, or written with */
    struct effect *effects;
    unsigned applied;
};

struct resource {
    struct resource *next;
    char name[NAME_MAX_BYTES];
    struct number fenced, plain;
    struct hold *holds;
};

struct fenced_register {
    struct resource *resources;
    struct fenced_verdict counts; /* of what is counted as it happens */
};

static void name_copy(char to[NAME_MAX_BYTES], const char *name)
{
    if (snprintf(to, NAME_MAX_BYTES, "%s", name) >= NAME_MAX_BYTES) {
        fprintf(stderr, "fenced_register: the name is too long: %s\n", name);
        abort();
    }
}

static struct resource *resource_of(struct fenced_register *all, const char *name)
{
    for (struct resource *resource = all->resources; resource != NULL; resource = resource->next)
        if (strcmp(resource->name, name) == 0)
            return resource;
    struct resource *resource = memory_new(struct resource);
    name_copy(resource->name, name);
    resource->next = all->resources;
    all->resources = resource;
    return resource;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct fenced_register *fenced_register_create(void)
{
    return memory_new(struct fenced_register);
}

static void number_fini(struct number *number)
{
    for (struct effect *effect = number->effects, *next; effect != NULL; effect = next) {
        next = effect->next;
        free(effect);
    }
}

void fenced_register_destroy(struct fenced_register *all)
{
    for (struct resource *resource = all->resources, *next; resource != NULL; resource = next) {
        next = resource->next;
        number_fini(&resource->fenced);
        number_fini(&resource->plain);
        for (struct hold *hold = resource->holds, *other; hold != NULL; hold = other) {
            other = hold->next;
            free(hold);
        }
        free(resource);
    }
    free(all);
}

/* --- reading and writing ------------------------------------------------------------------------------------------ */

/* False when the jid has added before. */
static bool number_write(struct number *number, const char *jid, uint64_t value)
{
    for (const struct effect *effect = number->effects; effect != NULL; effect = effect->next)
        if (strcmp(effect->jid, jid) == 0)
            return false;
    struct effect *effect = memory_new(struct effect);
    name_copy(effect->jid, jid);
    effect->next = number->effects;
    number->effects = effect;
    number->applied++;
    number->value = value;
    return true;
}

static bool passes_fence(struct fenced_register *all, struct number *number, uint64_t token)
{
    if (token < number->token || token == 0) {
        all->counts.refused += token != 0;
        return false;
    }
    number->token = token;
    return true;
}

enum fenced_answer fenced_register_read(struct fenced_register *all, const char *resource, uint64_t token,
                                        uint64_t *value)
{
    struct number *number = &resource_of(all, resource)->fenced;
    if (!passes_fence(all, number, token))
        return FENCED_STALE;
    *value = number->value;
    return FENCED_DONE;
}

static enum fenced_answer write_counted(struct fenced_register *all, struct number *number, const char *jid,
                                        uint64_t value)
{
    if (number_write(number, jid, value))
        return FENCED_DONE;
    all->counts.repeated++;
    return FENCED_REPEATED;
}

enum fenced_answer fenced_register_write(struct fenced_register *all, const char *resource, uint64_t token,
                                         const char *jid, uint64_t value)
{
    struct number *number = &resource_of(all, resource)->fenced;
    if (!passes_fence(all, number, token))
        return FENCED_STALE;
    return write_counted(all, number, jid, value);
}

uint64_t plain_register_read(struct fenced_register *all, const char *resource)
{
    return resource_of(all, resource)->plain.value;
}

enum fenced_answer plain_register_write(struct fenced_register *all, const char *resource, uint64_t token,
                                        const char *jid, uint64_t value)
{
    struct number *number = &resource_of(all, resource)->plain;
    enum fenced_answer answer = write_counted(all, number, jid, value);
    if (answer == FENCED_DONE && token < number->token)
        all->counts.stale++;
    if (answer == FENCED_DONE && token > number->token)
        number->token = token;
    return answer;
}

void fenced_register_held(struct fenced_register *all, const char *resource, uint64_t token, const char *jid,
                          int64_t from, int64_t until)
{
    struct resource *place = resource_of(all, resource);
    struct hold *hold = memory_new(struct hold);
    *hold = (struct hold){.next = place->holds, .token = token, .from = from, .until = until};
    name_copy(hold->jid, jid);
    place->holds = hold;
    all->counts.holds++;
    all->counts.unfenced += token == 0;
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

static void complain(FILE *out, const struct resource *resource, const char *what, const struct hold *a,
                     const struct hold *b)
{
    if (out != NULL)
        fprintf(out,
                "%s: %s: %s with token %" PRIu64 " from %" PRId64 " until %" PRId64 ", %s with token %" PRIu64
                " from %" PRId64 " until %" PRId64 "\n",
                resource->name, what, a->jid, a->token, a->from, a->until, b->jid, b->token, b->from, b->until);
}

static void pair_judge(const struct resource *resource, const struct hold *a, const struct hold *b,
                       struct fenced_verdict *verdict, FILE *out)
{
    const struct hold *first = a->from <= b->from ? a : b, *second = first == a ? b : a;
    if (first->until < first->from || second->until < second->from)
        return;
    if (second->from <= first->until) {
        verdict->overlaps++;
        complain(out, resource, "certain at once", first, second);
    } else if (first->token != 0 && second->token != 0 && second->token <= first->token) {
        verdict->disorder++;
        complain(out, resource, "tokens in the wrong order", first, second);
    }
}

static void resource_judge(const struct resource *resource, struct fenced_verdict *verdict, FILE *out)
{
    const struct number *fenced = &resource->fenced, *plain = &resource->plain;
    verdict->resources++;
    verdict->applied += fenced->applied;
    verdict->miscounted +=
        (unsigned)(fenced->value > fenced->applied ? fenced->value - fenced->applied : fenced->applied - fenced->value);
    verdict->lost += (unsigned)(plain->applied - plain->value); /* each write adds one to what was there once */
    for (const struct hold *a = resource->holds; a != NULL; a = a->next)
        for (const struct hold *b = a->next; b != NULL; b = b->next)
            pair_judge(resource, a, b, verdict, out);
}

struct fenced_verdict fenced_register_judge(const struct fenced_register *all, FILE *out)
{
    struct fenced_verdict verdict = all->counts;
    for (const struct resource *resource = all->resources; resource != NULL; resource = resource->next)
        resource_judge(resource, &verdict, out);
    return verdict;
}
