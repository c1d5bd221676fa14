/* Opening the log file again: what was logged before goes to the old file, the rest to the new one, and no line is lost
 * or split. */
#include "tests/unit/log_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>

static char moved[sizeof path + 8];

static void file_move(void)
{
    snprintf(moved, sizeof moved, "%s.1", path);
    assert_int_equal(rename(path, moved), 0);
}

/* The lines of the file must be numbered on from `from`; returns the next number. */
static unsigned numbered_lines(const char *file, unsigned from)
{
    char line[2 * LOG_LINE_MAX], expected[64];
    FILE *in = fopen(file, "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in) != NULL) {
        snprintf(expected, sizeof expected, "info count n=%u\n", from++);
        assert_string_equal(behind_time(line), expected);
    }
    fclose(in);
    return from;
}

TEST(what_was_logged_before_goes_to_the_old_file_and_the_rest_to_the_new)
{
    enum { HALF = 1000 };
    start(LOG_INFO, -1);
    for (unsigned i = 0; i < HALF; i++)
        log_event(LOG_INFO, "count", "n=%u", i);
    file_move();
    log_reopen(NULL);
    for (unsigned i = HALF; i < 2 * HALF; i++)
        log_event(LOG_INFO, "count", "n=%u", i);
    log_stop();
    assert_int_equal(numbered_lines(moved, 0), HALF);
    assert_int_equal(numbered_lines(path, HALF), 2 * HALF);
    unlink(moved);
}

TEST(another_path_is_opened_and_the_next_time_again)
{
    start(LOG_INFO, -1);
    snprintf(moved, sizeof moved, "%s.2", path);
    log_event(LOG_INFO, "count", "n=%u", 0U);
    log_reopen(moved);
    log_event(LOG_INFO, "count", "n=%u", 1U);
    log_reopen(NULL);
    log_event(LOG_INFO, "count", "n=%u", 2U);
    log_stop();
    assert_int_equal(numbered_lines(path, 0), 1);
    assert_int_equal(numbered_lines(moved, 1), 3);
    unlink(moved);
}

/* A pipe without a reader holds the log thread in open(2), so that the second request comes meanwhile. */
TEST(a_request_during_the_opening_keeps_the_new_path)
{
    char line[LOG_LINE_MAX] = "";
    start(LOG_INFO, -1);
    snprintf(moved, sizeof moved, "%s.2", path);
    assert_int_equal(mkfifo(moved, 0600), 0);
    log_reopen(moved);
    for (unsigned i = 0; i < 1000; i++)
        sched_yield();
    log_reopen(NULL);
    log_event(LOG_INFO, "count", "n=%u", 1U);
    int reader = open(moved, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    log_stop();
    assert_true(read(reader, line, sizeof line - 1) > 0);
    assert_string_equal(behind_time(line), "info count n=1\n");
    assert_int_equal(lines_in(logged()), 0);
    close(reader);
    unlink(moved);
}

TEST(a_file_that_cannot_be_opened_leaves_the_old_one)
{
    start(LOG_INFO, -1);
    log_event(LOG_INFO, "first", "n=1");
    log_reopen("/nowhere/at/all/log");
    log_event(LOG_INFO, "second", "n=2");
    log_stop();
    assert_int_equal(lines_in(logged()), 3);
    assert_contains(content, "error log_reopen_failed path=/nowhere/at/all/log reason=\"No such file or directory\"");
    assert_contains(content, "info second n=2\n");
}

TEST(a_descriptor_cannot_be_opened_again)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    start(LOG_INFO, fd);
    log_reopen(NULL);
    log_event(LOG_INFO, "still", "n=1");
    log_stop();
    assert_int_equal(lines_in(logged()), 1);
    assert_true(fcntl(fd, F_GETFD) >= 0);
    close(fd);
}

static void *many_lines(void *number)
{
    for (unsigned i = 0; i < 2000; i++)
        log_event(LOG_INFO, "many", "thread=%d n=%u", *(int *)number, i);
    return NULL;
}

/* The lines of a file, each of which must be whole. */
static unsigned whole_lines(const char *file)
{
    char line[2 * LOG_LINE_MAX];
    unsigned count = 0;
    FILE *in = fopen(file, "r");
    assert_non_null(in);
    for (; fgets(line, sizeof line, in) != NULL; count++)
        assert_true(strncmp(behind_time(line), "info many thread=", 17) == 0 && strchr(line, '\n') != NULL);
    fclose(in);
    return count;
}

TEST(no_line_is_lost_or_split_while_threads_log)
{
    enum { THREADS = 2, MOVES = 5 };
    pthread_t threads[THREADS];
    int numbers[THREADS];
    char names[MOVES][96];
    unsigned lines = 0;
    unsigned long dropped = log_dropped();
    start(LOG_INFO, -1);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, many_lines, &numbers[i]), 0);
    }
    for (int i = 0; i < MOVES; i++) {
        snprintf(names[i], sizeof names[i], "%s.m%d", path, i);
        if (rename(path, names[i]) != 0)
            names[i][0] = '\0'; /* the last one was not opened again yet */
        log_reopen(NULL);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    log_reopen(NULL);
    log_stop();
    for (int i = 0; i < MOVES; i++) {
        lines += names[i][0] != '\0' ? whole_lines(names[i]) : 0;
        unlink(names[i]);
    }
    lines += whole_lines(path);
    assert_int_equal(lines + (log_dropped() - dropped), 2 * 2000);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
