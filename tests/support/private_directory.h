/* A directory for one test: below TMPDIR, where scripts/run-tests wants temporary files, or /tmp. */
#ifndef SUPPORT_PRIVATE_DIRECTORY_H
#define SUPPORT_PRIVATE_DIRECTORY_H

enum { PRIVATE_DIRECTORY_MAX = 256 };

/* Creates it and writes its path. Whoever asked for it removes it. */
void private_directory_create(char path[PRIVATE_DIRECTORY_MAX]);

#endif
