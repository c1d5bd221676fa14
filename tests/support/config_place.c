#include "tests/support/config_place.h"

#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void config_place_write(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static struct config *read_here[200]; /* by the test: freed behind it */
static size_t read_count;

int config_place_enter(void **state)
{
    struct config_place *place = calloc(1, sizeof *place);
    private_directory_create(place->directory);
    place->home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = place;
    return chdir(place->directory);
}

int config_place_leave(void **state)
{
    struct config_place *place = *state;
    int failed = fchdir(place->home);
    while (read_count > 0)
        config_free(read_here[--read_count]);
    char path[300];
    static const char *const files[] = {"t.conf",        "part.conf", "secret", "sub/part.conf",
                                        "sub/deep.conf", "fifo",      "other"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", place->directory, files[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/sub", place->directory);
    rmdir(path);
    failed |= rmdir(place->directory);
    close(place->home);
    free(place);
    return failed;
}

struct config *config_place_read(const char *text, struct findings *findings)
{
    *findings = (struct findings){.count = 0};
    config_place_write("t.conf", text, 0644);
    assert_true(read_count < sizeof read_here / sizeof read_here[0]);
    return read_here[read_count++] = config_read("t.conf", findings);
}

void config_place_expect_error(const char *text, const char *error)
{
    struct findings findings;
    config_place_read(text, &findings);
    if (findings.errors != 1 || strcmp(findings.items[0].text, error) != 0) {
        findings_print(&findings, stderr);
        print_error("expected: %s\n", error);
        print_error("in:\n%s\n", text);
        fail();
    }
    findings_fini(&findings);
}

struct config *config_place_read_good(const char *text)
{
    struct findings findings;
    struct config *config = config_place_read(text, &findings);
    if (config == NULL || findings.errors > 0) {
        findings_print(&findings, stderr);
        fail_msg("the configuration should be good:\n%s", text);
    }
    findings_fini(&findings);
    return config;
}
