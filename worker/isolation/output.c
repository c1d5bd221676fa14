#include "worker/isolation/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

struct line {
    char bytes[OUTPUT_LINE_MAX];
    size_t length;
};

struct output {
    struct loop *loop;
    int fd;
    struct loop_watch *watch; /* NULL = not yet, or no longer */
    bool has_ended;
    struct output_budget *budget;
    void (*told)(void *context, const char *line, size_t length);
    void *context;
    struct line line;  /* the unfinished line */
    size_t line_bytes; /* of the unfinished line, including those cut */
    struct line last;
};

bool output_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0)
        return true;
    int failure = errno;
    close(ends[0]);
    close(ends[1]);
    errno = failure;
    return false;
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

static void line_add(struct output *output, const char *bytes, size_t length)
{
    struct line *line = &output->line;
    size_t room = sizeof line->bytes - line->length, kept = length < room ? length : room;
    memcpy(line->bytes + line->length, bytes, kept);
    line->length += kept;
    output->line_bytes += length;
}

static bool budget_is_spent(const struct output_budget *budget)
{
    return budget->lines >= OUTPUT_RUN_LINES_MAX || budget->bytes >= OUTPUT_RUN_BYTES_MAX;
}

static void line_end(struct output *output)
{
    struct output_budget *budget = output->budget;
    struct line *line = &output->line;
    size_t bytes = output->line_bytes;
    if (bytes <= sizeof line->bytes && line->length > 0 && line->bytes[line->length - 1] == '\r')
        line->length--;
    if (line->length > 0) {
        output->last = *line;
        for (char *at = output->last.bytes; (at = memchr(at, '\0', line->length - (size_t)(at - output->last.bytes)));)
            *at = '\xFF'; /* no UTF-8 either: it becomes U+FFFD instead of the end of the text */
        if (budget_is_spent(budget)) {
            budget->dropped_lines++;
            budget->dropped_bytes += bytes;
        } else {
            budget->lines++;
            budget->bytes += bytes;
            output->told(output->context, line->bytes, line->length);
        }
    }
    line->length = output->line_bytes = 0;
}

/* Skips the lines that end in these bytes, except the last one: they exceed the budget, and there may be a gigabyte. */
static size_t lines_skip(struct output *output, const char *bytes, size_t length)
{
    const char *last_end = memrchr(bytes, '\n', length);
    const char *before = last_end == NULL ? NULL : memrchr(bytes, '\n', (size_t)(last_end - bytes));
    if (before == NULL)
        return 0;
    size_t skipped = (size_t)(before - bytes) + 1, newlines = 0;
    bool is_empty = output->line_bytes == 0;
    for (size_t i = 0; i < skipped; i++) {
        bool ends = bytes[i] == '\n';
        newlines += ends;
        output->budget->dropped_lines += ends && !is_empty;
        is_empty = ends;
    }
    output->budget->dropped_bytes += output->line_bytes + skipped - newlines;
    output->line.length = output->line_bytes = 0;
    return skipped;
}

static void lines_take(struct output *output, const char *bytes, size_t length)
{
    while (length > 0) {
        size_t skipped = budget_is_spent(output->budget) ? lines_skip(output, bytes, length) : 0;
        bytes += skipped, length -= skipped;
        const char *end = memchr(bytes, '\n', length);
        size_t taken = end == NULL ? length : (size_t)(end - bytes);
        line_add(output, bytes, taken);
        if (end == NULL)
            return;
        line_end(output);
        bytes += taken + 1, length -= taken + 1;
    }
}

/* --- the descriptor ----------------------------------------------------------------------------------------------- */

static void end_meet(struct output *output)
{
    if (output->watch != NULL)
        loop_watch_stop(output->watch);
    output->watch = NULL;
    output->has_ended = true;
    line_end(output);
    output->told(output->context, NULL, 0);
}

/* Returns how many bytes were read, 0 if there are none. At the end the owner may close the output. */
static size_t output_read(struct output *output)
{
    char bytes[OUTPUT_CYCLE_MAX];
    ssize_t length = read(output->fd, bytes, sizeof bytes);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (length <= 0) {
        end_meet(output);
        return 0;
    }
    lines_take(output, bytes, (size_t)length);
    return (size_t)length;
}

static void output_ready(void *context, int events)
{
    (void)events;
    output_read(context);
}

struct output *output_open_unwatched(struct loop *loop, int fd, struct output_budget *budget,
                                     void (*told)(void *context, const char *line, size_t length), void *context)
{
    struct output *output = memory_new(struct output);
    output->loop = loop;
    output->fd = fd;
    output->budget = budget;
    output->told = told;
    output->context = context;
    return output;
}

void output_watch(struct output *output)
{
    if (output->watch == NULL && !output->has_ended)
        output->watch = loop_watch_start(output->loop, output->fd, LOOP_READABLE, output_ready, output);
}

struct output *output_open(struct loop *loop, int fd, struct output_budget *budget,
                           void (*told)(void *context, const char *line, size_t length), void *context)
{
    struct output *output = output_open_unwatched(loop, fd, budget, told, context);
    output_watch(output);
    return output;
}

void output_drain(struct output *output)
{
    size_t total = 0, length = 0;
    while (!output->has_ended && total < OUTPUT_DRAIN_MAX && (length = output_read(output)) > 0)
        total += length;
    line_end(output);
}

void output_close(struct output *output)
{
    if (output == NULL)
        return;
    if (output->watch != NULL)
        loop_watch_stop(output->watch);
    close(output->fd);
    free(output);
}

const char *output_last(const struct output *output, size_t *length)
{
    *length = output->last.length;
    return output->last.bytes;
}

/* --- the log ------------------------------------------------------------------------------------------------------ */

void output_log(const char *jid, const char *class_name, const char *stream, const char *line, size_t length)
{
    if (!log_is_on(LOG_INFO))
        return;
    char id[LOG_QUOTE_MAX], class_text[LOG_QUOTE_MAX], text[LOG_QUOTE_MAX];
    log_event(LOG_INFO, "job_output", "jid=%s class=%s stream=%s text=%s", log_value(jid, id),
              log_value(class_name, class_text), stream, log_value_bytes(line, length, text));
}

void output_log_dropped(const char *jid, const char *class_name, const struct output_budget *budget)
{
    if (budget->dropped_bytes == 0)
        return;
    char id[LOG_QUOTE_MAX], class_text[LOG_QUOTE_MAX];
    log_event(LOG_WARN, "job_output_dropped", "jid=%s class=%s lines=%llu bytes=%llu", log_value(jid, id),
              log_value(class_name, class_text), (unsigned long long)budget->dropped_lines,
              (unsigned long long)budget->dropped_bytes);
}
