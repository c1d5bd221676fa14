#include "tests/support/private_directory.h"

#include <stdio.h>

#include "tests/support/test.h"

void private_directory_create(char path[PRIVATE_DIRECTORY_MAX])
{
    const char *above = getenv("TMPDIR");
    snprintf(path, PRIVATE_DIRECTORY_MAX, "%s/holdfast-test-XXXXXX", above != NULL ? above : "/tmp");
    assert_non_null(mkdtemp(path));
}
