/* The text of a configuration file with its includes put in place, and for every line where it came from.
 *
 * This is done here and not by libconfig, which looks for included files in the working directory of the process,
 * names them differently from version to version, and cuts integers to 32 bits or takes them for a syntax error: the
 * scan that follows the includes also finds every integer that is too large. The parser reads 0 in its place, and its
 * line is flagged, so that nobody reports the value a second time. */
#ifndef WORKER_CONFIG_TEXT_H
#define WORKER_CONFIG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "worker/config/findings.h"

struct config_line {
    const char *file; /* as the user wrote it, or joined to the directory of the main file */
    unsigned number;
    bool has_cut_number; /* an integer was too large, and a 0 took its place */
};

struct config_text {
    struct buffer bytes;
    struct config_line *lines;
    size_t line_count, line_capacity;
    char **files;
    size_t file_count;
    char *directory; /* of the main file; "." if it has none */
};

/* False when a file cannot be used (every reason is in the findings). Integers that are too large are findings, not
 * failures. The struct must be zeroed and is to be freed in both cases. */
bool config_text_read(struct config_text *text, const char *path, struct findings *findings) MUST_CHECK;
void config_text_fini(struct config_text *text);

/* Where the line-th line (from 1) of the whole text was written. */
const struct config_line *config_text_line(const struct config_text *text, unsigned line);

/* The directory part of `path`, "." if it has none; to be freed. */
char *config_directory_of(const char *path);
/* `name` below `directory`, or a copy of `name` when it is absolute; to be freed. */
char *config_path_join(const char *directory, const char *name);

#endif
