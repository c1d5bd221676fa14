/* A directory below TMPDIR (/tmp) for the files of a dry run, readable by nobody else. */
#ifndef WORKER_DRY_RUN_TEMPORARY_DIRECTORY_H
#define WORKER_DRY_RUN_TEMPORARY_DIRECTORY_H

#include "base/error.h"

/* Its path, which the caller frees; NULL when it cannot be made. */
char *temporary_directory_make(struct error *error) MUST_CHECK;
/* With everything in it. Links are not followed. */
void temporary_directory_remove(const char *path);

#endif
