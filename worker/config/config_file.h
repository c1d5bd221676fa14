/* A configuration file as a tree of values, each with its file and line. */
#ifndef WORKER_CONFIG_FILE_H
#define WORKER_CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "worker/config/findings.h"

enum config_kind { CONFIG_IS_TEXT, CONFIG_IS_INTEGER, CONFIG_IS_REAL, CONFIG_IS_BOOL, CONFIG_IS_GROUP, CONFIG_IS_LIST };

struct config_value {
    enum config_kind kind;
    char *name;       /* NULL for the items of a list */
    const char *file; /* belongs to the config_file */
    unsigned line;
    bool was_cut;               /* the integer was too large; already reported */
    char *text;                 /* the scalar as text: "16", "0.01", "true", or the text itself */
    struct config_value *items; /* of a group or list */
    size_t count;
};

struct config_file;

/* NULL if the file cannot be read or parsed; the findings say why. */
struct config_file *config_file_read(const char *path, struct findings *findings) MUST_CHECK;
void config_file_free(struct config_file *file);

const struct config_value *config_file_root(const struct config_file *file); /* a group */
const char *config_file_directory(const struct config_file *file);

/* The member of a group with this name, or NULL. */
const struct config_value *config_value_member(const struct config_value *group, const char *name);
/* The name of a kind for errors: "a whole number". */
const char *config_kind_name(enum config_kind kind);

/* The directory part of `path`, "." if it has none; the caller frees it. */
char *config_directory_of(const char *path);
/* `name` below `directory`, or a copy of `name` if it is absolute; the caller frees it. */
char *config_path_join(const char *directory, const char *name);

#endif
