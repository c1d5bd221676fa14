/* Directories and files for one test, below TMPDIR: scripts/run-tests gives each program one of its own and removes it,
 * however the program ended. A test that creates one removes it all the same, for runs by hand. */
#ifndef SUPPORT_PRIVATE_DIRECTORY_H
#define SUPPORT_PRIVATE_DIRECTORY_H

/* A unix socket in such a directory has a name that fits into its address. */
enum { PRIVATE_DIRECTORY_MAX = 80 };

/* Both write the path of what they created; the second returns it open for reading and writing. */
void private_directory_create(char path[PRIVATE_DIRECTORY_MAX]);
int private_file_create(char path[PRIVATE_DIRECTORY_MAX]);
/* Copies a file, as a plugin of the build tree: a checkout may have a mask of its own, and a worker refuses what others
 * may write. The copy is for its owner to write and for all to read. */
void private_file_copy(const char *from, const char *to);

#endif
