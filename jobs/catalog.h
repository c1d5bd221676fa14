/* A catalog of what tasks may name: the settings of a plugin list it, so that no task supplies a path, a command or a
 * statement.
 *
 *     programs = "thumbnail report";           the names, separated by blanks
 *     program_thumbnail = "/usr/bin/convert";  and the meaning of each
 *
 * Static inline, because a plugin is one file. */
#ifndef JOBS_CATALOG_H
#define JOBS_CATALOG_H

#include "jobs/kit.h"

enum { CATALOG_MAX = 64, CATALOG_NAME_MAX = 48 };

struct catalog {
    size_t count;
    struct {
        char name[CATALOG_NAME_MAX + 1];
        char *value;
    } entries[CATALOG_MAX];
};

static inline void catalog_fini(struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->count; i++)
        free(catalog->entries[i].value);
    catalog->count = 0;
}

/* The index of the name; -1 if there is no such entry. */
static inline int catalog_find(const struct catalog *catalog, const char *name)
{
    for (size_t i = 0; i < catalog->count; i++)
        if (strcmp(catalog->entries[i].name, name) == 0)
            return (int)i;
    return -1;
}

static inline int catalog_add(struct catalog *catalog, const hf_host *host, const char *kind, const char *name,
                              size_t length, char *reason, size_t reason_size)
{
    char key[CATALOG_NAME_MAX + 32];
    if (catalog->count == CATALOG_MAX || length > CATALOG_NAME_MAX) {
        snprintf(reason, reason_size, "the setting %ss has more than %d names, or one longer than %d bytes", kind,
                 CATALOG_MAX, CATALOG_NAME_MAX);
        return -1;
    }
    snprintf(catalog->entries[catalog->count].name, CATALOG_NAME_MAX + 1, "%.*s", (int)length, name);
    snprintf(key, sizeof key, "%s_%.*s", kind, (int)length, name);
    const char *value = host->setting(host, key);
    if (value == NULL || value[0] == '\0') {
        snprintf(reason, reason_size, "the setting %ss names one for which there is no setting %s", kind, key);
        return -1;
    }
    catalog->entries[catalog->count].value = strdup(value);
    if (catalog->entries[catalog->count].value != NULL) {
        catalog->count++;
        return 0;
    }
    return kit_fail(reason, reason_size, "out of memory");
}

/* For open(): reads the setting KINDs and the settings KIND_NAME. 0, or -1 after writing a reason; fini in any case. */
static inline int catalog_read(struct catalog *catalog, const hf_host *host, const char *kind, char *reason,
                               size_t reason_size)
{
    char key[32];
    snprintf(key, sizeof key, "%ss", kind);
    const char *names = kit_setting(host, key, "");
    for (size_t length; *(names += strspn(names, " ")) != '\0'; names += length) {
        length = strcspn(names, " ");
        if (catalog_add(catalog, host, kind, names, length, reason, reason_size) != 0)
            return -1;
    }
    return 0;
}

#endif
