/* How busy the processors of this machine are, by the kernel's own count. */
#ifndef WORKER_DRY_RUN_MACHINE_LOAD_H
#define WORKER_DRY_RUN_MACHINE_LOAD_H

#include <stdbool.h>

struct machine_load {
    unsigned processors;
    double busy_s, idle_s; /* of all of them together, since the machine was started */
};

/* False when the kernel does not tell. */
bool machine_load_read(struct machine_load *load);
/* The share of all processors that was busy from the one reading to the other; -1 = not known. */
double machine_load_share(const struct machine_load *from, const struct machine_load *to);

#endif
