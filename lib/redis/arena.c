/* One block serves all ordinary replies. A reply that does not fit gets further blocks; the next reset replaces them by
 * one block of about that size, so that a steady stream of large replies needs no allocation either. The arena never
 * keeps more than ARENA_KEPT_MAX.
 *
 * Under AddressSanitizer a reset poisons the block, which catches code that keeps a pointer into a reply after its
 * callback. */
#include "redis/arena.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/invariant.h"
#include "base/memory.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISONS 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_POISONS 1
#endif

#ifdef ARENA_POISONS
#include <sanitizer/asan_interface.h>
#define poison(bytes, size)   __asan_poison_memory_region(bytes, size)
#define unpoison(bytes, size) __asan_unpoison_memory_region(bytes, size)
#else
#define poison(bytes, size)   ((void)(bytes), (void)(size))
#define unpoison(bytes, size) ((void)(bytes), (void)(size))
#endif

struct arena_block {
    struct arena_block *older;
    size_t size;
    _Alignas(max_align_t) char bytes[];
};

static void block_push(struct arena *arena, size_t size)
{
    invariant(size <= SIZE_MAX - sizeof(struct arena_block));
    struct arena_block *block = memory_resize(NULL, 1, sizeof *block + size);
    block->older = arena->newest;
    block->size = size;
    poison(block->bytes, size);
    arena->newest = block;
    arena->used = 0;
}

static void blocks_free(struct arena *arena)
{
    while (arena->newest != NULL) {
        struct arena_block *block = arena->newest;
        arena->newest = block->older;
        unpoison(block->bytes, block->size);
        free(block);
    }
    arena->used = 0;
}

void *arena_take(struct arena *arena, size_t size)
{
    const size_t unit = _Alignof(max_align_t);
    invariant(size <= SIZE_MAX / 2);
    size = (size + unit - 1) / unit * unit;

    if (arena->newest == NULL || arena->newest->size - arena->used < size)
        block_push(arena, size > ARENA_BLOCK_MIN ? size : ARENA_BLOCK_MIN);
    char *piece = arena->newest->bytes + arena->used;
    unpoison(piece, size);
    arena->used += size;
    arena->total += size;
    return piece;
}

void arena_reset(struct arena *arena)
{
    struct arena_block *newest = arena->newest;
    if (newest == NULL)
        return;
    if (newest->older != NULL || newest->size > ARENA_KEPT_MAX) {
        size_t wanted = arena->total < ARENA_KEPT_MAX ? arena->total : ARENA_KEPT_MAX;
        blocks_free(arena);
        block_push(arena, wanted > ARENA_BLOCK_MIN ? wanted : ARENA_BLOCK_MIN);
    } else {
        poison(newest->bytes, arena->used);
    }
    arena->used = 0;
    arena->total = 0;
}

void arena_fini(struct arena *arena)
{
    blocks_free(arena);
    arena->total = 0;
}
