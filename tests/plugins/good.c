/* A plugin as it should be: two classes, and an open() that shows in its state what it was given. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plugins/descriptor.h"

static int open_good(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    const char *answer = host->setting(host, "answer");
    if (answer != NULL && strcmp(answer, "refuse") == 0) {
        snprintf(reason, reason_size, "the answer is %s", answer);
        return 1;
    }
    *state = strdup(answer != NULL ? answer : "none");
    return 0;
}

static int check_nothing(const char *args, size_t length, char *reason, size_t reason_size)
{
    (void)args;
    (void)reason;
    (void)reason_size;
    return length > 0;
}

static const hf_handler first = {.size = sizeof first,
                                 .name = "good.first",
                                 .about = "the first",
                                 .flags = HF_LOCK_REQUIRED | HF_SERIAL,
                                 .run = run_nothing,
                                 .isolation = HF_ISOLATION_THREAD,
                                 .check = check_nothing};
HANDLER(second, "another");
HANDLERS(&first, &second);

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("good", "1.2"), .open = open_good, .close = free,
                                             .handlers = handlers};
