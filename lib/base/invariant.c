/* The last words of a process that can no longer trust itself. Nothing here allocates, locks or uses stdio, because
 * the broken invariant may lie in any of those, or the caller may be a signal handler. */
#include "base/invariant.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct line {
    char bytes[512];
    size_t length;
};

static void line_add(struct line *line, const char *text)
{
    size_t room = sizeof line->bytes - 1 - line->length; /* one byte stays free for the newline */
    size_t length = strnlen(text, room);
    memcpy(line->bytes + line->length, text, length);
    line->length += length;
}

static void line_add_number(struct line *line, int number)
{
    char digits[16];
    char *first = digits + sizeof digits;
    *--first = '\0';
    do {
        *--first = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    line_add(line, first);
}

_Noreturn void invariant_broken(const char *condition, const char *file, int line, const char *function)
{
    struct line text = {.length = 0};
    line_add(&text, "invariant broken: ");
    line_add(&text, condition);
    line_add(&text, " in ");
    line_add(&text, function);
    line_add(&text, " at ");
    line_add(&text, file);
    line_add(&text, ":");
    line_add_number(&text, line);
    text.bytes[text.length++] = '\n';

    ssize_t written = write(STDERR_FILENO, text.bytes, text.length);
    (void)written; /* no one is left to report a failure to */
    abort();
}
