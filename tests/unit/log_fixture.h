/* What tests of the log share: a file for it, and what it has become. */
#ifndef UNIT_LOG_FIXTURE_H
#define UNIT_LOG_FIXTURE_H

#include "base/log.h"
#include "tests/support/private_directory.h"
#include "tests/support/test.h"

static char path[PRIVATE_DIRECTORY_MAX];
static char content[4 * 1024 * 1024];

static inline void set_up(void)
{
    signal(SIGPIPE, SIG_IGN);
    close(private_file_create(path));
}

static inline void tear_down(void)
{
    log_stop();
    unlink(path);
}

static inline void start(enum log_level level, int fd)
{
    struct error error = ERROR_NONE;
    if (!log_start(&(struct log_options){.level = level, .fd = fd, .path = fd < 0 ? path : NULL}, &error))
        fail_msg("%s", error.text);
}

/* What is in the file by now. */
static inline const char *logged(void)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    content[fread(content, 1, sizeof content - 1, file)] = '\0';
    fclose(file);
    return content;
}

/* The text behind the time, which must be one. */
static inline const char *behind_time(const char *line)
{
    static const char shape[] = "dddd-dd-ddTdd:dd:dd.dddZ ";
    for (size_t i = 0; i < sizeof shape - 1; i++) {
        bool fits = shape[i] == 'd' ? line[i] >= '0' && line[i] <= '9' : line[i] == shape[i];
        if (!fits)
            fail_msg("no time: %s", line);
    }
    return line + sizeof shape - 1;
}

static inline size_t lines_in(const char *text)
{
    size_t lines = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++)
        lines++;
    return lines;
}

#endif
