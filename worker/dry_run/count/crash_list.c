#include "worker/dry_run/count/crash_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"

static struct crash_count *class_of(struct crash_list *list, const struct crash *crash)
{
    for (unsigned i = 0; i < list->count; i++)
        if (strncmp(list->classes[i].class_name, crash->class_name, CRASH_LIST_NAME_MAX - 1) == 0)
            return &list->classes[i];
    if (list->count == CRASH_LIST_CLASSES_MAX)
        return NULL;
    struct crash_count *count = &list->classes[list->count++];
    snprintf(count->class_name, sizeof count->class_name, "%s", crash->class_name);
    count->signal = crash->signal;
    count->hangs = crash->hangs;
    return count;
}

void crash_list_note(struct crash_list *list, const struct crash *crash)
{
    struct crash_count *count = class_of(list, crash);
    if (count != NULL)
        count->count++;
    else
        list->others++;
}

static void end_tell(const struct crash_count *count, struct buffer *out)
{
    const char *name = sigabbrev_np(count->signal);
    if (count->hangs)
        buffer_append_text(out, "it hangs");
    else if (count->signal == 0)
        buffer_append_text(out, "it ended its process");
    else if (name != NULL)
        buffer_format(out, "SIG%s", name);
    else
        buffer_format(out, "signal %d", count->signal);
}

void crash_list_tell(const struct crash_list *list, char *text, size_t size)
{
    struct buffer out = {0};
    for (unsigned i = 0; i < list->count; i++) {
        const struct crash_count *count = &list->classes[i];
        buffer_format(&out, "%s%s (", i > 0 ? ", " : "", count->class_name);
        end_tell(count, &out);
        buffer_format(&out, ") for %" PRIu64 " task%s", count->count, count->count == 1 ? "" : "s");
    }
    if (list->others > 0)
        buffer_format(&out, ", and more classes for %" PRIu64, list->others);
    snprintf(text, size, "%s", buffer_text(&out));
    buffer_fini(&out);
}
