#include "jobs/exec/lines.h"

#include <string.h>

static void line_tell(struct exec_lines *lines)
{
    struct exec_budget *budget = lines->budget;
    if (lines->length == 0)
        return;
    lines->text[lines->length] = '\0';
    memcpy(lines->last, lines->text, lines->length + 1);
    lines->length = 0;
    if (budget->lines == EXEC_LINES_MAX) {
        budget->dropped++;
        return;
    }
    budget->lines++;
    budget->tell(budget->context, lines->stream, lines->text);
}

void exec_lines_put(struct exec_lines *lines, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == '\n') {
            line_tell(lines);
            continue;
        }
        if (lines->length == EXEC_LINE_MAX)
            line_tell(lines);
        lines->text[lines->length++] = bytes[i] != '\0' ? bytes[i] : '?';
    }
}

void exec_lines_end(struct exec_lines *lines)
{
    line_tell(lines);
}
