/* The log: lines are whole and in order, the caller never waits, and what could not be written is counted. */
#include "tests/unit/log_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

static _Atomic bool is_starved;

/* Instead of libc's: the log thread may find the machine so busy that it goes on late. */
int poll(struct pollfd *watched, nfds_t count, int timeout_ms)
{
    static const struct timespec late = {.tv_sec = 2};
    struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * NS_PER_MS};
    if (atomic_exchange(&is_starved, false))
        nanosleep(&late, NULL);
    return ppoll(watched, count, timeout_ms >= 0 ? &timeout : NULL, NULL);
}

/* --- lines -------------------------------------------------------------------------------------------------- */

TEST(a_line_has_time_level_event_and_pairs)
{
    start(LOG_INFO, -1);
    log_event(LOG_WARN, "node_down", "node=%s tries=%d", "n1", 3);
    log_stop();
    assert_string_equal(behind_time(logged()), "warn node_down node=n1 tries=3\n");
}

TEST(an_event_needs_no_pairs)
{
    start(LOG_INFO, -1);
    log_event(LOG_INFO, "ready", "%s", "");
    log_stop();
    assert_string_equal(behind_time(logged()), "info ready\n");
}

static int formatted;

static const char *formatting(void)
{
    formatted++;
    return "x";
}

TEST(levels_below_the_chosen_one_are_left_out)
{
    start(LOG_WARN, -1);
    assert_false(log_is_on(LOG_INFO));
    assert_true(log_is_on(LOG_WARN));
    log_event(LOG_INFO, "a", "%s", formatting());
    log_event(LOG_WARN, "b", "%s", formatting());
    log_set_level(LOG_DEBUG);
    log_event(LOG_DEBUG, "c", "%s", formatting());
    log_stop();
    assert_int_equal(lines_in(logged()), 2);
    assert_contains(content, "debug c x");
}

TEST(a_value_cannot_forge_a_line_even_if_nobody_quoted_it)
{
    start(LOG_INFO, -1);
    log_event(LOG_INFO, "task", "id=%s", "1\n2026-01-01T00:00:00.000Z error fake\x1b[31m\x7f");
    log_stop();
    assert_int_equal(lines_in(logged()), 1);
    assert_null(strchr(content, '\x1b'));
    assert_null(strchr(content, '\x7f'));
}

TEST(a_long_line_is_cut_at_a_character_and_says_so)
{
    for (size_t shift = 0; shift < 4; shift++) {
        char text[3000] = "abc";
        for (size_t i = shift; i + 4 < sizeof text; i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 4); /* the euro sign: three bytes */
        start(LOG_INFO, -1);
        assert_int_equal(truncate(path, 0), 0);
        log_event(LOG_INFO, "long", "%s", text);
        log_stop();

        size_t length = strlen(logged());
        assert_in_range(length, LOG_LINE_MAX - 3, LOG_LINE_MAX);
        assert_string_equal(content + length - 7, " [cut]\n");
        assert_memory_equal(content + length - 10, "\xE2\x82\xAC", 3);
    }
}

TEST(a_line_of_the_greatest_length_is_not_cut)
{
    start(LOG_INFO, -1);
    /* time, space and "info e " are 32 characters, and one is the newline */
    log_event(LOG_INFO, "e", "%0*d", LOG_LINE_MAX - 33, 0);
    log_event(LOG_INFO, "e", "%0*d", LOG_LINE_MAX - 32, 0);
    log_stop();
    const char *second = strchr(logged(), '\n') + 1;
    assert_int_equal(second - content, LOG_LINE_MAX);
    assert_int_equal(second[-2], '0');
    assert_int_equal(strlen(second), LOG_LINE_MAX);
    assert_contains(second, "0 [cut]\n");
}

TEST(a_line_may_be_one_json_object)
{
    start(LOG_INFO, -1);
    log_set_format(LOG_JSON);
    log_event(LOG_WARN, "node_down", "node=%s tries=%d", "n1", 3);
    log_event(LOG_INFO, "long", "text=\"%0*d\"", 2 * LOG_LINE_MAX, 0);
    log_stop();
    log_set_format(LOG_TEXT);
    assert_int_equal(lines_in(logged()), 2);
    assert_contains(content, "Z\",\"level\":\"warn\",\"msg\":\"node_down\",\"node\":\"n1\",\"tries\":3}\n");
    assert_memory_equal(content, "{\"time\":\"2", 10);
    assert_contains(content, "000 [cut]\"}\n");
}

/* --- the journal -------------------------------------------------------------------------------------------- */

/* As systemd says which file is its stream. */
static void journal_is(const char *file)
{
    struct stat facts;
    char name[64];
    assert_int_equal(stat(file, &facts), 0);
    snprintf(name, sizeof name, "%ju:%ju", (uintmax_t)facts.st_dev, (uintmax_t)facts.st_ino);
    assert_int_equal(setenv("JOURNAL_STREAM", name, 1), 0);
}

TEST(in_the_journal_each_line_has_its_priority)
{
    int fd = open(path, O_WRONLY | O_APPEND);
    journal_is(path);
    start(LOG_DEBUG, fd);
    static const enum log_level levels[] = {LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR};
    static const char *const begins[] = {"<7>2", "<6>2", "<4>2", "<3>2", "<6>{"};
    for (size_t i = 0; i < 4; i++)
        log_event(levels[i], "one", "%s", "");
    log_set_format(LOG_JSON);
    log_event(LOG_INFO, "two", "%s", "");
    log_stop();
    log_set_format(LOG_TEXT);
    const char *line = logged();
    for (size_t i = 0; i < 5; i++, line = strchr(line, '\n') + 1)
        assert_memory_equal(line, begins[i], 4);
    assert_string_equal(line, "");
    unsetenv("JOURNAL_STREAM");
    close(fd);
}

TEST(what_is_not_the_journal_has_none)
{
    int fd = open(path, O_WRONLY | O_APPEND);
    journal_is("/dev/null");
    start(LOG_INFO, fd);
    log_event(LOG_INFO, "to_a_descriptor", "%s", "");
    log_stop();
    start(LOG_INFO, -1);
    log_event(LOG_INFO, "to_a_file", "%s", "");
    log_stop();
    assert_int_equal(lines_in(logged()), 2);
    assert_null(strchr(content, '<'));
    unsetenv("JOURNAL_STREAM");
    close(fd);
}

TEST(a_log_that_moves_from_the_journal_to_a_file_and_back_has_priorities_there_only)
{
    char journal[PRIVATE_DIRECTORY_MAX];
    int fd = private_file_create(journal);
    journal_is(journal);
    start(LOG_INFO, fd);
    log_event(LOG_INFO, "first", "%s", "");
    log_reopen(path);
    log_event(LOG_INFO, "second", "%s", "");
    test_await(lines_in(logged()) == 1);
    log_reopen("/nonexistent/log"); /* the log goes on in the file */
    test_await(strstr(logged(), "log_reopen_failed") != NULL);
    log_event(LOG_INFO, "third", "%s", "");
    log_reopen("");
    log_event(LOG_INFO, "fourth", "%s", "");
    log_stop();
    assert_int_equal(lines_in(logged()), 3);
    assert_null(strchr(content, '<'));
    assert_true(lseek(fd, 0, SEEK_SET) == 0);
    content[read(fd, content, sizeof content - 1)] = '\0';
    const char *second = strchr(content, '\n');
    assert_non_null(second);
    assert_memory_equal(content, "<6>", 3);
    assert_memory_equal(second + 1, "<6>", 3);
    assert_string_equal(behind_time(second + 4), "info fourth\n");
    unsetenv("JOURNAL_STREAM");
    unlink(journal);
    close(fd);
}

/* A process without a log thread, such as one that tells of the death of its worker. */
TEST(also_without_a_log_thread_the_journal_gets_priorities)
{
    int saved = dup(STDERR_FILENO), fd = open(path, O_WRONLY | O_APPEND);
    journal_is(path);
    dup2(fd, STDERR_FILENO);
    log_event(LOG_ERROR, "before", "%s", "");
    dup2(saved, STDERR_FILENO);
    unsetenv("JOURNAL_STREAM");
    close(saved);
    close(fd);
    assert_memory_equal(logged(), "<3>", 3);
    assert_string_equal(behind_time(content + 3), "error before\n");
}

/* --- where they go ------------------------------------------------------------------------------------------ */

TEST(a_file_is_appended_to_and_private)
{
    unlink(path);
    for (int i = 0; i < 2; i++) {
        start(LOG_INFO, -1);
        log_event(LOG_INFO, "again", "i=%d", i);
        log_stop();
    }
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0137, 0);
    assert_int_equal(lines_in(logged()), 2);
}

TEST(a_file_that_cannot_be_opened_is_an_error)
{
    struct error error = ERROR_NONE;
    assert_false(log_start(&(struct log_options){.level = LOG_INFO, .path = "/nonexistent/log"}, &error));
    assert_contains(error.text, "/nonexistent/log");
    start(LOG_INFO, -1);
    log_stop();
    assert_true(fcntl(STDERR_FILENO, F_GETFD) >= 0); /* nothing of this is closed that is not the log's */
}

TEST(starting_twice_is_an_error)
{
    struct error error = ERROR_NONE;
    start(LOG_INFO, -1);
    assert_false(log_start(&(struct log_options){.level = LOG_INFO, .fd = 2}, &error));
    assert_string_equal(error.text, "the log has been started already");
    log_event(LOG_INFO, "still_there", "%s", "");
    log_stop();
    log_stop();
    assert_int_equal(lines_in(logged()), 1);
}

TEST(a_line_is_written_without_waiting_for_more)
{
    start(LOG_INFO, -1);
    for (size_t lines = 1; lines < 4; lines++) {
        log_event(LOG_INFO, "one", "%s", "");
        test_await(lines_in(logged()) == lines);
    }
}

TEST(without_a_log_thread_lines_go_to_standard_error)
{
    int saved = dup(STDERR_FILENO), fd = open(path, O_WRONLY | O_APPEND);
    dup2(fd, STDERR_FILENO);
    log_event(LOG_ERROR, "before", "%s", "");
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(fd);
    assert_string_equal(behind_time(logged()), "error before\n");
}

TEST(a_forked_child_writes_its_own_lines_once)
{
    start(LOG_INFO, -1);
    for (int i = 0; i < 100; i++)
        log_event(LOG_INFO, "parent", "%d", i); /* some of these may be in the ring at the fork */
    pid_t child = fork();
    if (child == 0) {
        log_event(LOG_INFO, "child", "%s", "");
        log_stop();
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    log_stop();
    assert_int_equal(lines_in(logged()), 101);
    assert_contains(content, "info child\n");
}

/* --- when they cannot go ------------------------------------------------------------------------------------ */

static void flood(int lines)
{
    for (int i = 0; i < lines; i++)
        log_event(LOG_INFO, "flood", "number=%d %0*d", i, 200, 0);
}

/* Whole lines in the pipe, and the numbers that the log says it dropped. */
static void drain(int fd, unsigned long *lines, unsigned long *reported)
{
    static char tail[LOG_LINE_MAX + 1];
    static size_t kept;
    for (;;) {
        ssize_t length = read(fd, content, sizeof content - 1);
        if (length <= 0)
            return;
        for (ssize_t i = 0; i < length; i++) {
            assert_true(kept < LOG_LINE_MAX);
            tail[kept++] = content[i];
            if (content[i] != '\n')
                continue;
            tail[kept] = '\0';
            kept = 0;
            unsigned long some;
            const char *line = behind_time(tail);
            if (sscanf(line, "warn log_dropped lines=%lu", &some) == 1)
                *reported += some;
            else if (strncmp(line, "info flood number=", 18) == 0)
                (*lines)++;
        }
    }
}

TEST(a_pipe_that_nobody_reads_drops_lines_and_later_says_how_many)
{
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0); /* the writing end blocks */
    fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
    unsigned long before = log_dropped(), lines = 0, reported = 0;
    start(LOG_INFO, pipe_fds[1]);
    flood(5000); /* a megabyte: more than pipe and ring hold */
    unsigned long lost = log_dropped() - before;
    assert_true(lost > 1000);
    while (lines + lost < 5000)
        test_await((drain(pipe_fds[0], &lines, &reported), true));

    log_event(LOG_INFO, "room", "%s", "");
    test_await((drain(pipe_fds[0], &lines, &reported), reported >= lost)); /* perhaps in several lines */
    assert_int_equal(reported, lost);
    assert_int_equal(lines, 5000 - lost);
    log_stop();
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

TEST(stopping_does_not_wait_for_a_reader_who_never_comes)
{
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    unsigned long before = log_dropped();
    start(LOG_INFO, pipe_fds[1]);
    flood(2000);
    log_stop(); /* hangs if it is wrong */
    unsigned long lost = log_dropped() - before;
    assert_in_range(lost, 2000 - 65536 / 200, 1999); /* all but what the pipe took */
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

TEST(a_log_thread_that_gets_no_processor_is_waited_for)
{
    unsigned long before = log_dropped();
    start(LOG_INFO, -1);
    is_starved = true;
    flood(500); /* more than one write */
    log_stop();
    assert_false(is_starved);
    assert_non_null(strstr(logged(), "info flood number=0 "));
    assert_non_null(strstr(logged(), "info flood number=499 "));
    assert_int_equal(log_dropped(), before);
    start(LOG_INFO, -1); /* the thread has ended */
}

TEST(a_forked_child_that_starts_its_own_log_leaves_the_parents_lines_alone)
{
#ifdef TEST_THREAD_SANITIZER
    test_skip("the thread sanitizer allows no threads in a forked child");
#endif
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    start(LOG_INFO, pipe_fds[1]);
    flood(2000); /* the ring is full from now on */
    pid_t child = fork();
    if (child == 0) {
        struct error error = ERROR_NONE;
        bool started = log_start(&(struct log_options){.level = LOG_INFO, .path = path}, &error);
        log_event(LOG_INFO, "child", "%s", "");
        log_stop();
        _exit(started ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_string_equal(behind_time(logged()), "info child\n");
    close(pipe_fds[0]); /* so that the parent's end at once */
    log_stop();
    close(pipe_fds[1]);
}

TEST(a_reader_who_has_gone_costs_lines_and_nothing_else)
{
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    close(pipe_fds[0]);
    unsigned long before = log_dropped();
    start(LOG_INFO, pipe_fds[1]);
    flood(10);
    test_await(log_dropped() - before == 10);
    log_stop();
    close(pipe_fds[1]);
}

TEST(a_full_disk_costs_lines_and_nothing_else)
{
    int full = open("/dev/full", O_WRONLY);
    if (full < 0)
        test_skip("there is no /dev/full");
    unsigned long before = log_dropped();
    start(LOG_INFO, full);
    flood(10);
    log_stop();
    assert_int_equal(log_dropped() - before, 10);
    close(full);
}

enum { WRITERS = 4, LINES = 3000 };

static void *writer_logs(void *name)
{
    for (int i = 0; i < LINES; i++)
        log_event(LOG_INFO, "thread", "name=%s number=%d padding=%0*d", (const char *)name, i, i % 300, 0);
    return NULL;
}

TEST(lines_of_many_threads_stay_whole_and_in_order)
{
    static char names[WRITERS][2] = {"0", "1", "2", "3"};
    pthread_t threads[WRITERS];
    unsigned long before = log_dropped(), lines = 0;
    int last[WRITERS] = {-1, -1, -1, -1};
    start(LOG_INFO, -1);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, writer_logs, names[i]), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    log_stop();

    const char *text_end = strchr(logged(), '\0');
    char *line = content, *line_end = NULL;
    for (; (line_end = memchr(line, '\n', (size_t)(text_end - line))) != NULL; line = line_end + 1) {
        int writer, number, end = 0;
        *line_end = '\0'; /* sscanf looks for the end of all that it is given */
        if (strncmp(behind_time(line), "warn log_dropped", 16) == 0)
            continue;
        assert_int_equal(
            sscanf(behind_time(line), "info thread name=%d number=%d padding=%*[0]%n", &writer, &number, &end), 2);
        assert_ptr_equal(behind_time(line) + end, line_end);
        assert_true(number > last[writer]);
        last[writer] = number;
        lines++;
    }
    assert_ptr_equal(line, text_end);
    assert_int_equal(lines + (log_dropped() - before), WRITERS * LINES);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
