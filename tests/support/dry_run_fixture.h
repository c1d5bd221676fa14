/* For tests of the whole command `holdfast dry-run`: it is run in a directory of its own, with a mark in its
 * environment, so that whatever it leaves (a directory, a server, a worker, a cleanup process) is found. Its state is
 * in the header, because a test program is one file. */
#ifndef SUPPORT_DRY_RUN_FIXTURE_H
#define SUPPORT_DRY_RUN_FIXTURE_H

#include "tests/support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "tests/support/private_directory.h"
#include "tests/support/program_run.h"
#include "worker/dry_run/report/result_json.h"

#define MARK "HOLDFAST_TEST_OF_DRY_RUN"

enum { LINE_MAX_BYTES = 2048, ID_BYTES = 12 };

static char place[PRIVATE_DIRECTORY_MAX]; /* where the runs have their temporary files */
static struct program_result printed;
static struct result found;

/* --- what is left ------------------------------------------------------------------------------------------------- */

static inline size_t proc_read(const char *pid, const char *file, char *bytes, size_t size)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%.200s/%s", pid, file);
    FILE *stream = fopen(path, "re");
    size_t length = stream != NULL ? fread(bytes, 1, size - 1, stream) : 0;
    if (stream != NULL)
        fclose(stream);
    bytes[length] = '\0';
    return length;
}

/* By its environment; a server writes its title over that, and is known by its log. Other tests have runs as well. */
static inline bool is_of_a_run(const char *pid)
{
    static char bytes[256 * 1024];
    char path[300], log[4096], mark[sizeof MARK + sizeof place];
    size_t length = proc_read(pid, "environ", bytes, sizeof bytes);
    int mark_length = snprintf(mark, sizeof mark, MARK "=%s", place);
    snprintf(path, sizeof path, "/proc/%.200s/fd/1", pid);
    ssize_t size = readlink(path, log, sizeof log - 1);
    log[size > 0 ? size : 0] = '\0';
    return memmem(bytes, length, mark, (size_t)mark_length + 1) != NULL ||
           (strncmp(log, place, strlen(place)) == 0 && log[strlen(place)] == '/');
}

/* Those that have ended and are not waited for count no more: they have neither environment nor directory. */
static inline unsigned processes_left(void)
{
    unsigned count = 0;
    DIR *all = opendir("/proc");
    assert_non_null(all);
    for (struct dirent *entry; (entry = readdir(all)) != NULL;)
        count += entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && is_of_a_run(entry->d_name);
    closedir(all);
    return count;
}

static inline unsigned files_left(void)
{
    unsigned count = 0;
    DIR *all = opendir(place);
    assert_non_null(all);
    for (struct dirent *entry; (entry = readdir(all)) != NULL;)
        count += strncmp(entry->d_name, "holdfast-dry-", strlen("holdfast-dry-")) == 0;
    closedir(all);
    return count;
}

/* The zygote of a worker ends a moment after it. */
static inline void assert_nothing_is_left(void)
{
    assert_int_equal(files_left(), 0);
    test_await(processes_left() == 0);
}

/* After a kill: the cleanup process has some seconds. */
static inline void await_that_nothing_is_left(void)
{
    test_await(processes_left() == 0 && files_left() == 0);
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

static inline void forget(void)
{
    program_result_free(&printed);
    result_fini(&found);
    printed = (struct program_result){.out = NULL};
}

__attribute__((format(printf, 1, 0))) static inline struct program run_start_with(const char *format, va_list values)
{
    char line[LINE_MAX_BYTES], *rest = line;
    const char *arguments[64];
    unsigned count = 0;
    assert_true(vsnprintf(line, sizeof line, format, values) < LINE_MAX_BYTES);
    arguments[count++] = "dry-run";
    for (char *argument; (argument = strsep(&rest, " ")) != NULL && count < 63;)
        if (argument[0] != '\0')
            arguments[count++] = argument;
    arguments[count] = NULL;
    return program_start(arguments, -1);
}

/* Starts `holdfast dry-run` with these arguments, which hold no blanks. */
__attribute__((format(printf, 1, 2))) static inline struct program run_start(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    struct program program = run_start_with(format, values);
    va_end(values);
    return program;
}

/* Waits for its end; its exit code. What it printed is in `printed`, the result of its JSON, if any, in `found`. */
static inline int run_end(struct program *program)
{
    struct error error = ERROR_NONE;
    forget();
    printed = program_wait(program);
    if (printed.out[0] == '{' && !result_read(printed.out, strlen(printed.out), &found, &error))
        fail_msg("%s: %s", error.text, printed.out);
    return printed.exit_code;
}

static inline void run_end_well(struct program *program)
{
    if (run_end(program) != 0 || printed.out[0] != '{')
        fail_msg("exit code %d, signal %d: %s%s", printed.exit_code, printed.signal, printed.error, printed.out);
}

/* The whole of it; fails the test unless it ends well and prints its result as JSON. */
__attribute__((format(printf, 1, 2))) static inline void run_well(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    struct program program = run_start_with(format, values);
    va_end(values);
    run_end_well(&program);
}

/* It says this and nothing else, prints nothing, and ends with that code. */
__attribute__((format(printf, 3, 4))) static inline void assert_refused(int code, const char *message,
                                                                        const char *format, ...)
{
    va_list values;
    va_start(values, format);
    struct program program = run_start_with(format, values);
    va_end(values);
    int ended = run_end(&program);
    assert_string_equal(printed.error, message);
    assert_string_equal(printed.out, "");
    assert_int_equal(ended, code);
}

static inline bool has_said(const struct program *program, const char *text)
{
    char *said = program_error_text(program);
    bool has = strstr(said, text) != NULL;
    free(said);
    return has;
}

/* Waits for it; prints what it said instead, when it ended or took too long. */
static inline void await_said(const struct program *program, const char *text)
{
    struct instant patience = instant_after(instant_now(), TEST_PATIENCE_NS);
    siginfo_t end = {.si_pid = 0};
    while (!has_said(program, text)) {
        if (end.si_pid != 0 || instant_reached(instant_now(), patience))
            fail_msg("it did not say \"%s\", but: %s", text, program_error_text(program));
        assert_int_equal(waitid(P_PID, (id_t)program->pid, &end, WEXITED | WNOHANG | WNOWAIT), 0);
        poll(NULL, 0, 1);
    }
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static inline int place_make(void **state)
{
    (void)state;
    private_directory_create(place);
    setenv("TMPDIR", place, 1);
    setenv(MARK, place, 1);
    return 0;
}

static inline int place_remove(void **state)
{
    (void)state;
    forget();
    return rmdir(place);
}

#endif
