#include "base/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/invariant.h"

void *memory_zeroed(size_t count, size_t size)
{
    /* calloc(0) may return NULL, which would look like exhaustion */
    void *memory = count == 0 || size == 0 ? calloc(1, 1) : calloc(count, size);
    if (memory == NULL)
        invariant_unreachable("out of memory");
    return memory;
}

void *memory_resize(void *old, size_t count, size_t size)
{
    size_t length;
    if (__builtin_mul_overflow(count, size, &length))
        invariant_unreachable("size overflow in an allocation");

    void *memory = realloc(old, length == 0 ? 1 : length);
    if (memory == NULL)
        invariant_unreachable("out of memory");
    return memory;
}

char *memory_text(const char *text)
{
    return memory_text_of(text, strlen(text));
}

char *memory_text_of(const char *bytes, size_t length)
{
    invariant(length < SIZE_MAX);
    char *copy = memory_resize(NULL, length + 1, 1);
    if (length > 0)
        memcpy(copy, bytes, length);
    copy[length] = '\0';
    return copy;
}

int64_t memory_resident(void)
{
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    int read = fscanf(file, "%ld %ld", &all, &resident);
    fclose(file);
    return read == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

void memory_wipe(void *bytes, size_t length)
{
    if (length > 0)
        explicit_bzero(bytes, length);
}
