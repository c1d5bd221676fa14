#include "worker/dry_run/run/machine_load.h"

#include <stdio.h>
#include <unistd.h>

bool machine_load_read(struct machine_load *load)
{
    long ticks = sysconf(_SC_CLK_TCK), processors = sysconf(_SC_NPROCESSORS_ONLN);
    double user, nice, system, idle, waiting, interrupts, softly, stolen;
    FILE *file = fopen("/proc/stat", "re");
    if (file == NULL)
        return false;
    int fields = fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &waiting,
                        &interrupts, &softly, &stolen);
    fclose(file);
    if (fields != 8 || ticks <= 0 || processors <= 0)
        return false;
    *load = (struct machine_load){.processors = (unsigned)processors,
                                  .busy_s = (user + nice + system + interrupts + softly + stolen) / (double)ticks,
                                  .idle_s = (idle + waiting) / (double)ticks};
    return true;
}

double machine_load_share(const struct machine_load *from, const struct machine_load *to)
{
    double busy = to->busy_s - from->busy_s, all = busy + to->idle_s - from->idle_s;
    return all > 0 && busy >= 0 ? busy / all : -1;
}
