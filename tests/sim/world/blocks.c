/* Whose each block of memory is, so that a judge sees what a process has not freed when it ends. The linker puts these
 * functions in the place of those of the C library. A block has a note at its end. Those of libraries have none, and
 * are nobody's. */
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/sim/world/world.h"
#include "tests/sim/world/wrapped.h"

#define SIGNATURE UINT64_C(0x6f7a1c53b94de280)

struct note {
    struct list link; /* of its process; in no list: it is the world's own */
    size_t size;
    uint64_t signature;
};

/* The last bytes of what the block has room for, which need not be aligned. */
static char *note_at(void *block)
{
    size_t room = block != NULL ? malloc_usable_size(block) : 0;
    return room >= sizeof(struct note) ? (char *)block + ((room - sizeof(struct note)) & ~(size_t)15) : NULL;
}

static struct note *note_of(void *block)
{
    struct note *note = (struct note *)(void *)note_at(block);
    return note != NULL && note->signature == SIGNATURE ? note : NULL;
}

static void *noted(void *block, size_t size)
{
    struct note *note = (struct note *)(void *)note_at(block);
    if (note == NULL)
        return block;
    struct process *process = process_current();
    *note = (struct note){.size = size, .signature = SIGNATURE};
    list_init(&note->link);
    if (process != NULL)
        list_append(&process->blocks, &note->link);
    return block;
}

static void forget(void *block)
{
    struct note *note = note_of(block);
    if (note == NULL)
        return;
    list_remove(&note->link);
    note->signature = 0;
}

WRAPPED(void *, calloc, size_t count, size_t size);
WRAPPED(void *, realloc, void *old, size_t size);
WRAPPED(void, free, void *block);

void *__wrap_calloc(size_t count, size_t size)
{
    size_t length;
    if (__builtin_mul_overflow(count, size, &length))
        return NULL;
    return noted(__real_calloc(1, length + 2 * sizeof(struct note)), length);
}

void *__wrap_realloc(void *old, size_t size)
{
    forget(old);
    return noted(__real_realloc(old, size + 2 * sizeof(struct note)), size);
}

void __wrap_free(void *block)
{
    forget(block);
    __real_free(block);
}

void *world_owns(void *block)
{
    struct note *note = note_of(block);
    if (note != NULL)
        list_remove(&note->link);
    return block;
}

void process_blocks_begin(void)
{
    while (list_take_first(&process_current()->blocks) != NULL)
        ;
}

unsigned process_blocks_left(size_t *largest)
{
    const struct list *blocks = &process_current()->blocks;
    unsigned count = 0;
    *largest = 0;
    for (struct list *link = blocks->next; link != blocks; link = link->next, count++) {
        const struct note *note = list_owner(link, struct note, link);
        *largest = note->size > *largest ? note->size : *largest;
    }
    return count;
}
