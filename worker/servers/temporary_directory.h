/* A directory below TMPDIR (/tmp) for the files of a dry run, readable by nobody else. Its path is known before it is
 * there, so that somebody can be called who removes it whatever happens (janitor.h). */
#ifndef WORKER_SERVERS_TEMPORARY_DIRECTORY_H
#define WORKER_SERVERS_TEMPORARY_DIRECTORY_H

#include "base/error.h"

/* Of the run with that id, which is random. The caller frees it. */
char *temporary_directory_path(const char *run);
/* False when it cannot be made, or is there already: then it is not ours. */
bool temporary_directory_make(const char *path, struct error *error) MUST_CHECK;
/* With everything in it, if it is a directory of this user. Links are not followed. False when something is left,
 * because somebody still writes there. */
bool temporary_directory_remove(const char *path);

#endif
