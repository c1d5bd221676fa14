/* Call stacks. commands/task_view.c reads what is written here.
 *
 * Handlers are in other objects than this program, so the frames of a handler are those between two of ours: the
 * host function that captures, and the runner that called run(). Plugins are loaded under the name of a descriptor
 * (plugin.c), which means nothing to a reader, so the file name replaces it. */
#include "worker/task/backtrace.h"

#include <execinfo.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "queue/base64.h"
#include "queue/envelope.h"
#include "worker/task/deflate.h"

/* Before compression, which may lengthen the text slightly, and base64, which adds a third. */
enum { FRAMES_MAX = ENVELOPE_BACKTRACE_ALL + 8, JSON_BYTES_MAX = 40 * 1024 };

/* --- capturing -------------------------------------------------------------------------------------------------- */

/* The length of OBJECT in "OBJECT(FUNCTION+OFFSET) [ADDRESS]". */
static size_t object_length(const char *symbol)
{
    return strcspn(symbol, "([");
}

static bool is_of_object(const char *symbol, const char *other)
{
    size_t length = object_length(other);
    return object_length(symbol) == length && memcmp(symbol, other, length) == 0;
}

/* Appends the file of a descriptor's name, or the name itself. */
static void object_append(struct buffer *out, const char *symbol, size_t length)
{
    char name[64], file[BACKTRACE_LINE_MAX];
    ssize_t file_length = -1;
    if (length < sizeof name) {
        memcpy(name, symbol, length);
        name[length] = '\0';
        if (strncmp(name, "/proc/", strlen("/proc/")) == 0 && strstr(name, "/fd/") != NULL)
            file_length = readlink(name, file, sizeof file);
    }
    if (file_length > 0)
        buffer_append(out, file, (size_t)file_length);
    else
        buffer_append(out, symbol, length);
}

/* Omits the address, which differs between processes. */
static char *line_of(const char *symbol)
{
    struct buffer line = {0};
    size_t length = object_length(symbol);
    object_append(&line, symbol, length);
    buffer_append(&line, symbol + length, strcspn(symbol + length, " "));
    char *text = memory_text(buffer_text(&line));
    buffer_fini(&line);
    return text;
}

void backtrace_capture(struct backtrace *backtrace_into, size_t lines)
{
    void *frames[FRAMES_MAX] = {(void *)(uintptr_t)backtrace_capture};
    backtrace_clear(backtrace_into);
    int found = 1 + backtrace(frames + 1, FRAMES_MAX - 1), at = 1;
    char **symbols = backtrace_symbols(frames, found);
    if (symbols == NULL)
        return;
    const char *own = symbols[0];
    while (at < found && !is_of_object(symbols[at], own)) /* the frames of a sanitizer may come first */
        at++;
    while (at < found && is_of_object(symbols[at], own))
        at++;
    backtrace_into->lines = memory_zeroed(lines > 0 ? lines : 1, sizeof(char *));
    for (; at < found && !is_of_object(symbols[at], own) && backtrace_into->count < lines; at++)
        backtrace_into->lines[backtrace_into->count++] = line_of(symbols[at]);
    free(symbols);
}

void backtrace_clear(struct backtrace *backtrace)
{
    for (size_t i = 0; i < backtrace->count; i++)
        free(backtrace->lines[i]);
    free(backtrace->lines);
    *backtrace = (struct backtrace){.lines = NULL};
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

static void lines_append(const char *const *lines, size_t count, struct buffer *json)
{
    buffer_append(json, "[", 1);
    for (size_t i = 0; i < count; i++) {
        size_t before = json->length;
        if (i > 0)
            buffer_append(json, ",", 1);
        envelope_append_string(json, lines[i], strnlen(lines[i], BACKTRACE_LINE_MAX));
        if (json->length >= JSON_BYTES_MAX) {
            json->length = before;
            break;
        }
    }
    buffer_append(json, "]", 1);
}

void backtrace_encode(const char *const *lines, size_t count, struct buffer *out)
{
    struct buffer json = {0}, packed = {0};
    lines_append(lines, count, &json);
    deflate_append(json.bytes, json.length, &packed);
    base64_encode(packed.bytes, packed.length, out);
    buffer_fini(&json);
    buffer_fini(&packed);
}
