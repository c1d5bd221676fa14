/* For tests of the configuration: each runs in a directory of its own, so that files have short names. */
#ifndef SUPPORT_CONFIG_PLACE_H
#define SUPPORT_CONFIG_PLACE_H

#include <sys/types.h>

#include "tests/support/private_directory.h"
#include "worker/config/config.h"

struct config_place {
    char directory[PRIVATE_DIRECTORY_MAX];
    int home; /* the root of the sources */
};

/* Setup and teardown; the state is the struct config_place. Files that a test makes have the names that are listed in
 * config_place.c. */
int config_place_enter(void **state);
int config_place_leave(void **state);

/* The least that a configuration needs, on one line. */
#define CONFIG_NODES "queue_node = { host = \"q\"; };\n"

void config_place_write(const char *path, const char *text, mode_t mode);
/* Writes t.conf and reads it; the teardown frees what came of it. */
struct config *config_place_read(const char *text, struct findings *findings);
/* The same; fails the test unless it is good. */
struct config *config_place_read_good(const char *text);
/* Fails the test unless the configuration has exactly this one error. */
void config_place_expect_error(const char *text, const char *error);

#endif
