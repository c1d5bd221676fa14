/* A caller formats its line on its own stack and copies it into the ring; the lock is held only for the copy. The log
 * thread takes whole lines out and writes them without the lock. So a full disk, a stopped terminal or an unread pipe
 * blocks only the log thread. When the ring is full, further lines are dropped and counted; the log reports the count
 * as soon as a write succeeds.
 *
 * The log thread prefers to wait in poll(2), which stopping the log interrupts, and not in write(2). If a write hangs
 * all the same (a dead network file system), log_stop abandons the thread, and the process can exit. The thread writes
 * at most PIPE_BUF bytes at once: a pipe takes that much atomically, so processes that share a pipe do not mix their
 * lines.
 *
 * The file is reopened between the last line logged before the request and the first one after it: the request
 * remembers how much of the ring lies before it.
 *
 * There is one log in a process, in static memory. A forked child has no log thread; it writes its lines itself. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/invariant.h"
#include "base/log_ring.h"
#include "base/thread.h"

#define CUT_MARK " [cut]"

/* log_stop lets the thread wait for room for one second in all. Then it has only to notice, unless it hangs in a write:
 * far longer than a thread gets no processor on a busy machine. */
static const int64_t STOP_WRITING_NS = NS_PER_S;
static const int64_t STOP_WAITING_NS = 15 * NS_PER_S;

enum { PRIORITY_SIZE = sizeof "<6>" - 1, LINE_ROOM = PRIORITY_SIZE + LOG_JSON_MAX + 1 };
enum { ROOM_POLL_MS = 50, DIRECT_POLL_MS = 100, BATCH_MAX = PIPE_BUF };

_Static_assert((int)BATCH_MAX >= (int)LINE_ROOM, "a line goes out in one write");

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char priorities[] = {'7', '6', '4', '3'}; /* of syslog */

static atomic_int level_now = LOG_INFO, format_now = LOG_TEXT;
static atomic_bool has_level; /* it was set */
static atomic_ulong dropped;
static _Atomic(int64_t) give_up_ns = INT64_MAX; /* when the thread has to end, on CLOCK_BOOTTIME */
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

/* Requested by log_reopen, done by the log thread. */
struct reopening {
    bool is_asked;
    bool is_running; /* the thread is opening the file; `path` may change meanwhile */
    size_t before;   /* bytes of the ring that still go to the old file */
    char path[PATH_MAX];
};

static struct {
    pthread_mutex_t lock; /* guards all members; only the thread changes `fd`, and reads it without the lock */
    pthread_cond_t filled, ended;
    struct log_ring ring;
    pthread_t thread;
    bool running;   /* lines go into the ring */
    bool has_ended; /* the thread has */
    bool given_up;  /* a thread that hangs in write still uses the ring */
    bool owns_fd;
    int fd;
    int given_fd;        /* used without a path */
    bool to_journal;     /* of systemd, for the batch being written */
    char path[PATH_MAX]; /* of the file; "" = none */
    struct reopening reopening;
    unsigned long reported; /* of `dropped`; the thread's own */
    bool mid_line;          /* the last write broke off within a line; the thread's own */
} logger = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = STDERR_FILENO, .given_fd = STDERR_FILENO};

/* --- lines -------------------------------------------------------------------------------------------------- */

const char *log_time(struct wall_time at, char out[LOG_TIME_SIZE])
{
    time_t seconds = (time_t)(at.us / US_PER_S);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    size_t length = strftime(out, LOG_TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(out + length, LOG_TIME_SIZE - length, ".%03dZ", (int)(at.us % US_PER_S / (US_PER_S / MS_PER_S)));
    return out;
}

static size_t line_start(char line[LOG_LINE_MAX], enum log_level level, const char *event)
{
    char time[LOG_TIME_SIZE];
    int length = snprintf(line, LOG_LINE_MAX, "%s %s %s", log_time(wall_now(), time), level_names[level], event);
    invariant(length > 0 && length < LOG_LINE_MAX / 2); /* `event` is a word of ours */
    return (size_t)length;
}

/* Cuts what was too long, at a character's start, and ends the line. `wanted` is the length it would have had. */
static size_t line_end(char line[LOG_LINE_MAX], size_t wanted)
{
    size_t length = wanted;
    if (wanted > LOG_LINE_MAX - 1) {
        length = LOG_LINE_MAX - 1 - strlen(CUT_MARK);
        while ((line[length] & 0xC0) == 0x80)
            length--;
        memcpy(line + length, CUT_MARK, strlen(CUT_MARK));
        length += strlen(CUT_MARK);
    }
    /* in case a caller forgot to quote: one event stays one line */
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7F)
            line[i] = '?';
    line[length] = '\n';
    return length + 1;
}

/* A whole line, after the room for its priority; returns the length of both. */
PRINTF_LIKE(4, 0)
static size_t line_make(char line[LINE_ROOM], enum log_level level, const char *event, const char *format,
                        va_list values)
{
    char first[LOG_LINE_MAX];
    bool is_json = atomic_load_explicit(&format_now, memory_order_relaxed) == LOG_JSON;
    char *behind = line + PRIORITY_SIZE, *text = is_json ? first : behind;
    size_t length = line_start(text, level, event);
    text[length] = ' ';
    int more = vsnprintf(text + length + 1, LOG_LINE_MAX - length - 1, format, values);
    if (more > 0)
        length += 1 + (size_t)more;
    length = line_end(text, length);
    if (is_json) {
        length = log_json(text, length - 1, behind) + 1;
        behind[length - 1] = '\n';
    }
    memcpy(line, (char[]){'<', priorities[level], '>'}, PRIORITY_SIZE);
    return PRIORITY_SIZE + length;
}

static unsigned long lines_in(const char *bytes, size_t length)
{
    unsigned long lines = 0;
    for (size_t i = 0; i < length; i++)
        lines += bytes[i] == '\n';
    return lines;
}

/* --- writing ------------------------------------------------------------------------------------------------ */

/* Writes what the file accepts; returns how many bytes that was. */
static size_t bytes_write(int fd, const char *bytes, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t written = write(fd, bytes + done, length - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            break;
        done += (size_t)written;
    }
    return done;
}

static bool time_is_up(void)
{
    return instant_now().ns >= atomic_load(&give_up_ns);
}

/* Waits until the file accepts bytes or has an error, or the time to stop is over: then it looks only once. */
static bool room_await(int fd)
{
    struct pollfd watched = {.fd = fd, .events = POLLOUT};
    bool is_last;
    do {
        is_last = time_is_up();
        if (poll(&watched, 1, is_last ? 0 : ROOM_POLL_MS) > 0)
            return true;
    } while (!is_last);
    return false;
}

/* Runs in the log thread. Counts lost lines; returns false if there are any. */
static bool lines_write(const char *lines, size_t length)
{
    size_t done = 0;
    if (room_await(logger.fd)) {
        if (logger.mid_line && bytes_write(logger.fd, "\n", 1) == 1)
            logger.mid_line = false;
        if (!logger.mid_line)
            done = bytes_write(logger.fd, lines, length);
    }
    if (done > 0)
        logger.mid_line = lines[done - 1] != '\n';
    atomic_fetch_add(&dropped, lines_in(lines + done, length - done));
    return done == length;
}

/* systemd names the file that it made the standard error of its service. */
static bool is_journal(int fd)
{
    char name[2 * sizeof "18446744073709551615"];
    struct stat facts;
    const char *stream = getenv("JOURNAL_STREAM");
    if (stream == NULL || fstat(fd, &facts) != 0)
        return false;
    snprintf(name, sizeof name, "%ju:%ju", (uintmax_t)facts.st_dev, (uintmax_t)facts.st_ino);
    return strcmp(stream, name) == 0;
}

/* The log thread's own lines, which do not go through the ring. */
PRINTF_LIKE(3, 4)
static bool own_line_write(enum log_level level, const char *event, const char *format, ...)
{
    char line[LINE_ROOM];
    va_list values;
    va_start(values, format);
    size_t length = line_make(line, level, event, format, values);
    va_end(values);
    size_t skipped = is_journal(logger.fd) ? 0 : PRIORITY_SIZE;
    return bytes_write(logger.fd, line + skipped, length - skipped) == length - skipped;
}

static void drops_report(void)
{
    unsigned long now = atomic_load(&dropped);
    if (now != logger.reported &&
        own_line_write(LOG_WARN, "log_dropped", "lines=%lu total=%lu", now - logger.reported, now))
        logger.reported = now;
}

static int file_open(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
}

/* With the lock held. */
static void target_set(int fd, const char *path)
{
    if (logger.owns_fd)
        close(logger.fd);
    logger.fd = fd;
    logger.owns_fd = path[0] != '\0';
    logger.to_journal = is_journal(fd);
    if (path != logger.path)
        snprintf(logger.path, sizeof logger.path, "%s", path);
}

/* Runs in the log thread with the lock held, but opens the file without it, because that may take long. */
static void target_renew(void)
{
    char path[PATH_MAX], quoted[LOG_QUOTE_MAX];
    snprintf(path, sizeof path, "%s", logger.reopening.path);
    logger.reopening.is_asked = false;
    logger.reopening.is_running = true;
    pthread_mutex_unlock(&logger.lock);
    int fd = path[0] != '\0' ? file_open(path) : logger.given_fd;
    const char *reason = fd < 0 ? strerror(errno) : NULL;
    pthread_mutex_lock(&logger.lock);
    logger.reopening.is_running = false;
    if (fd < 0) {
        logger.to_journal = is_journal(logger.fd);
        (void)own_line_write(LOG_ERROR, "log_reopen_failed",
                             "path=%s reason=\"%s\" advice=\"lines still go to the file that was open before\"",
                             log_quote(path, quoted), reason);
        return;
    }
    target_set(fd, path);
    logger.mid_line = false;
}

static void *writer_run(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&logger.lock);
    for (;;) {
        struct reopening *reopening = &logger.reopening;
        while (logger.running && log_ring_is_empty(&logger.ring) && !reopening->is_asked)
            pthread_cond_wait(&logger.filled, &logger.lock);
        if (reopening->is_asked && reopening->before == 0) {
            target_renew();
            continue;
        }
        if (log_ring_is_empty(&logger.ring))
            break;
        size_t length, limit = BATCH_MAX;
        if (reopening->is_asked && reopening->before < limit)
            limit = reopening->before;
        const char *lines = log_ring_peek(&logger.ring, limit, &length);
        pthread_mutex_unlock(&logger.lock);

        if (lines_write(lines, length))
            drops_report();

        pthread_mutex_lock(&logger.lock);
        log_ring_drop(&logger.ring, length);
        reopening->before -= reopening->is_asked ? length : 0;
    }
    logger.has_ended = true;
    pthread_cond_signal(&logger.ended);
    pthread_mutex_unlock(&logger.lock);
    return NULL;
}

/* --- life --------------------------------------------------------------------------------------------------- */

static void fork_begins(void)
{
    pthread_mutex_lock(&logger.lock);
}

static void fork_done_in_parent(void)
{
    pthread_mutex_unlock(&logger.lock);
}

static void conditions_init(void)
{
    thread_condition_init(&logger.ended);
    pthread_cond_init(&logger.filled, NULL);
}

/* The parent's thread writes what is in the ring and reports the dropped lines. It also waits for the conditions. */
static void fork_done_in_child(void)
{
    logger.running = logger.given_up = logger.reopening.is_asked = logger.reopening.is_running = false;
    logger.ring.head = logger.ring.tail = 0;
    logger.ring.wrapped = false;
    logger.reported = atomic_load(&dropped);
    conditions_init();
    pthread_mutex_unlock(&logger.lock);
}

static void prepare(void)
{
    conditions_init();
    pthread_atfork(fork_begins, fork_done_in_parent, fork_done_in_child);
}

static bool target_open(const struct log_options *options, struct error *error)
{
    logger.given_fd = options->path == NULL ? options->fd : STDERR_FILENO;
    if (options->path == NULL) {
        target_set(options->fd, "");
        return true;
    }
    if (strlen(options->path) >= sizeof logger.path)
        return error_set(error, "the path of the log file is longer than %zu bytes", sizeof logger.path - 1);
    int fd = file_open(options->path);
    if (fd < 0)
        return error_set(error, "cannot open the log file %s: %s", options->path, strerror(errno));
    target_set(fd, options->path);
    return true;
}

static void target_close(void)
{
    target_set(STDERR_FILENO, "");
}

static bool start_locked(const struct log_options *options, struct error *error)
{
    if (logger.running)
        return error_set(error, "the log has been started already");
    if (logger.given_up)
        return error_set(error, "the log thread still hangs in a write from before; start a new process");
    target_close(); /* a forked child may have its parent's */
    if (!target_open(options, error))
        return false;

    log_set_level(options->level);
    log_set_format(options->format);
    atomic_store(&give_up_ns, INT64_MAX);
    logger.has_ended = logger.mid_line = logger.reopening.is_asked = logger.reopening.is_running = false;
    logger.running = true;
    int status = thread_spawn(&logger.thread, "hf-log", writer_run, NULL);
    if (status != 0) {
        logger.running = false;
        target_close();
        return error_set(error, "cannot start the log thread: %s", strerror(status));
    }
    return true;
}

bool log_start(const struct log_options *options, struct error *error)
{
    pthread_once(&prepared, prepare);
    pthread_mutex_lock(&logger.lock);
    bool started = start_locked(options, error);
    pthread_mutex_unlock(&logger.lock);
    return started;
}

/* True when the log thread has ended in time. */
static bool writer_await(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t until_ns = until.tv_sec * NS_PER_S + until.tv_nsec + STOP_WAITING_NS;
    until = (struct timespec){.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
    while (!logger.has_ended)
        if (pthread_cond_timedwait(&logger.ended, &logger.lock, &until) == ETIMEDOUT)
            break;
    return logger.has_ended;
}

void log_stop(void)
{
    pthread_mutex_lock(&logger.lock);
    if (logger.running) {
        logger.running = false;
        atomic_store(&give_up_ns, instant_after(instant_now(), STOP_WRITING_NS).ns);
        pthread_cond_signal(&logger.filled);
        if (writer_await()) {
            pthread_join(logger.thread, NULL);
            target_close();
        } else {
            pthread_detach(logger.thread);
            logger.given_up = true;
        }
    }
    pthread_mutex_unlock(&logger.lock);
}

void log_reopen(const char *path)
{
    struct reopening *reopening = &logger.reopening;
    pthread_mutex_lock(&logger.lock);
    bool is_under_way = reopening->is_asked || reopening->is_running;
    const char *wanted = path != NULL ? path : is_under_way ? reopening->path : logger.path;
    bool is_file = wanted[0] != '\0';
    if (logger.running && (is_file || path != NULL) && strlen(wanted) < sizeof reopening->path) {
        if (wanted != reopening->path)
            snprintf(reopening->path, sizeof reopening->path, "%s", wanted);
        if (!reopening->is_asked)
            reopening->before = log_ring_filled(&logger.ring);
        reopening->is_asked = true;
        logger.to_journal = !is_file && is_journal(logger.given_fd);
        pthread_cond_signal(&logger.filled);
    }
    pthread_mutex_unlock(&logger.lock);
}

/* --- events ------------------------------------------------------------------------------------------------- */

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&has_level, true, memory_order_relaxed);
    atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
}

void log_suggest_level(enum log_level level)
{
    if (!atomic_load_explicit(&has_level, memory_order_relaxed))
        log_set_level(level);
}

void log_set_format(enum log_format format)
{
    atomic_store_explicit(&format_now, (int)format, memory_order_relaxed);
}

bool log_is_on(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&level_now, memory_order_relaxed);
}

/* Without a log thread the caller writes, but does not wait long for a reader. It keeps the lock, so that log_stop
 * cannot close the file meanwhile. */
static bool line_write_directly(const char *line, size_t length)
{
    struct pollfd watched = {.fd = logger.fd, .events = POLLOUT};
    return poll(&watched, 1, DIRECT_POLL_MS) > 0 && bytes_write(logger.fd, line, length) == length;
}

static void line_hand_over(const char *line, size_t length)
{
    pthread_mutex_lock(&logger.lock);
    if (logger.running ? !logger.to_journal : !is_journal(logger.fd)) {
        line += PRIORITY_SIZE;
        length -= PRIORITY_SIZE;
    }
    bool was_empty = log_ring_is_empty(&logger.ring);
    bool taken = logger.running ? log_ring_add(&logger.ring, line, length) : line_write_directly(line, length);
    if (!taken)
        atomic_fetch_add(&dropped, 1);
    else if (logger.running && was_empty)
        pthread_cond_signal(&logger.filled);
    pthread_mutex_unlock(&logger.lock);
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    if (!log_is_on(level))
        return;

    char line[LINE_ROOM];
    va_list arguments;
    va_start(arguments, format);
    size_t length = line_make(line, level, event, format, arguments);
    va_end(arguments);
    line_hand_over(line, length);
}

unsigned long log_dropped(void)
{
    return atomic_load(&dropped);
}
