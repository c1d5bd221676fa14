#include "worker/commands/doctor.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"

enum { WHAT_MAX = 700 };

const char *doctor_severity_name(enum doctor_severity severity)
{
    static const char *const names[] = {[DOCTOR_ERROR] = "error", [DOCTOR_WARNING] = "warning", [DOCTOR_NOTE] = "note"};
    return names[severity];
}

void doctor_find(struct doctor *doctor, const struct doctor_kind *kind, const char *what, ...)
{
    char text[WHAT_MAX];
    va_list values;
    va_start(values, what);
    vsnprintf(text, sizeof text, what, values);
    va_end(values);
    doctor->items = memory_resize(doctor->items, doctor->count + 1, sizeof *doctor->items);
    doctor->items[doctor->count++] = (struct doctor_finding){.kind = kind, .what = memory_text(log_defuse(text))};
    doctor->counts[kind->severity]++;
}

int doctor_examine(struct doctor *doctor)
{
    static int (*const parts[])(struct doctor *) = {doctor_examine_node, doctor_examine_fleet, doctor_examine_places,
                                                    doctor_examine_keys, doctor_examine_locks};
    int code = status_read(&doctor->status, doctor->console);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && code == EXIT_CODE_OK; i++)
        code = parts[i](doctor);
    return code;
}

void doctor_end(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->count; i++)
        free(doctor->items[i].what);
    free(doctor->items);
    status_free(&doctor->status);
}
