/* Classes whose check() of arguments came to a bad end in a dry run, and how often. Pure. */
#ifndef WORKER_DRY_RUN_CRASH_LIST_H
#define WORKER_DRY_RUN_CRASH_LIST_H

#include <stddef.h>

#include "worker/dry_run/crew/record.h"

enum { CRASH_LIST_CLASSES_MAX = 16, CRASH_LIST_NAME_MAX = 128 };

/* Zeroed: none. */
struct crash_list {
    struct crash_count {
        char class_name[CRASH_LIST_NAME_MAX];
        int signal; /* of the first */
        bool hangs;
        uint64_t count;
    } classes[CRASH_LIST_CLASSES_MAX];
    unsigned count;
    uint64_t others; /* crashes of classes there was no room for */
};

void crash_list_note(struct crash_list *list, const struct crash *crash);
/* "transfer (SIGSEGV) for 12 tasks, render (it hangs) for 1 task"; nothing when there are none. */
void crash_list_tell(const struct crash_list *list, char *text, size_t size);

#endif
