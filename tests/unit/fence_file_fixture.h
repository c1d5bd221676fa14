/* A file of its own for each test of the file sink, and the sink's calls in short. */
#ifndef TESTS_FENCE_FILE_FIXTURE_H
#define TESTS_FENCE_FILE_FIXTURE_H

#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "jobs/fence/fence.h"
#include "tests/support/private_directory.h"

/* --- a file for each test ----------------------------------------------------------------------------------- */

struct place {
    char directory[PRIVATE_DIRECTORY_MAX];
    char path[300];
    char reason[320];
};
static struct place *place;

static inline void name_of(const char *ending, char path[340])
{
    snprintf(path, 340, "%s%s", place->path, ending);
}

static inline void place_clear(void)
{
    static const char *const endings[] = {"", ".new", ".fence", ".fence.new", ".lock"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        char path[340];
        name_of(endings[i], path);
        unlink(path);
    }
}

static inline void enter(void)
{
    place = calloc(1, sizeof *place);
    private_directory_create(place->directory);
    snprintf(place->path, sizeof place->path, "%s/file", place->directory);
}

static inline void leave(void)
{
    place_clear();
    int failed = rmdir(place->directory); /* nothing else was left there */
    free(place);
    assert_int_equal(failed, 0);
}

static inline struct hf_fence_file file_for(const char *token)
{
    return (struct hf_fence_file){.path = place->path, .resource = "account:7", .token = token};
}

/* The content; "(none)" without a file, "(stale)" or "(trouble)" when refused. */
static inline const char *read_as(const char *token)
{
    static char content[8192];
    struct hf_fence_file file = file_for(token);
    char *bytes;
    size_t length;
    enum hf_fence_outcome outcome = hf_fence_file_read(&file, &bytes, &length, place->reason, sizeof place->reason);
    if (outcome != HF_FENCE_ACCEPTED) {
        assert_null(bytes);
        return outcome == HF_FENCE_STALE ? "(stale)" : "(trouble)";
    }
    snprintf(content, sizeof content, "%s", bytes != NULL ? bytes : "(none)");
    free(bytes);
    return content;
}

static inline enum hf_fence_outcome write_as(const char *token, const char *jid, const char *text)
{
    struct hf_fence_file file = file_for(token);
    return hf_fence_file_write(&file, jid, text, strlen(text), place->reason, sizeof place->reason);
}

static inline bool exists(const char *ending)
{
    char path[340];
    name_of(ending, path);
    return access(path, F_OK) == 0;
}

static inline void put(const char *ending, const char *text, size_t length)
{
    char path[340];
    name_of(ending, path);
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    assert_int_equal(fwrite(text, 1, length, stream), length);
    fclose(stream);
}

#endif
