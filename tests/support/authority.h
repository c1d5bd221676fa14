/* Certificates for tests: an authority of our own, and what it issues, as files in PEM in a private directory. */
#ifndef SUPPORT_AUTHORITY_H
#define SUPPORT_AUTHORITY_H

#include <stdbool.h>

struct authority;

/* Each is another authority, whose certificate is in the file that authority_file names. */
struct authority *authority_create(void);
void authority_destroy(struct authority *authority); /* with all files; NULL is harmless */
const char *authority_file(const struct authority *authority);

/* A certificate for 127.0.0.1 and the name "localhost", or only for `name` if there is one, and its key: the files
 * NAME.pem and NAME.key of the directory, replaced if they are there. `ends_in_s` may be past. */
void authority_issue(struct authority *authority, const char *file, const char *name, long ends_in_s);
/* The path of a file that was issued; valid until the authority is destroyed. Up to 8 different ones. */
const char *authority_path(struct authority *authority, const char *file, const char *suffix);

#endif
