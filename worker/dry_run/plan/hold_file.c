#include "worker/dry_run/plan/hold_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "worker/dry_run/plan/plan.h"

#define QUOTED(text) log_quote(text, (char[LOG_QUOTE_MAX]){0})

static void line_trim(char **text, size_t length)
{
    while (length > 0 && strchr(" \t\r\n", (*text)[length - 1]) != NULL)
        length--;
    (*text)[length] = '\0';
    *text += strspn(*text, " \t");
}

/* A text of the file is shown only when it cannot steer a terminal. */
static bool hold_parse(const char *text, double *seconds, struct error *error)
{
    int64_t ns;
    if (strspn(text, "0123456789.numshd") != strlen(text))
        return error_set(error, "%s is no duration; write for example 5ms", QUOTED(text));
    if (!duration_parse(text, &ns, error))
        return false;
    *seconds = (double)ns / (double)NS_PER_S;
    return ns <= DRY_RUN_HOLD_MAX_NS || error_set(error, "%s is too long: a hold lasts at most 24h", QUOTED(text));
}

/* Returns how many holds there are; after an error it is set. */
static size_t holds_read(FILE *file, const char *path, double **holds, struct error *error)
{
    char *line = NULL;
    size_t size = 0, count = 0;
    unsigned number = 0;
    ssize_t length;
    while (!error_is_set(error) && (length = getline(&line, &size, file)) >= 0) {
        char *text = line;
        bool is_text = strlen(line) == (size_t)length;
        number++;
        line_trim(&text, (size_t)length);
        if (is_text && (text[0] == '\0' || text[0] == '#'))
            continue;
        if ((count & (count - 1)) == 0) /* grows by doubling */
            *holds = memory_resize(*holds, count > 0 ? 2 * count : 1, sizeof **holds);
        if (!is_text)
            error_set(error, "there is a byte 0 in the line: it is no text");
        else if (count == HOLD_FILE_LINES_MAX)
            error_set(error, "there are more than %d durations", HOLD_FILE_LINES_MAX);
        else if (hold_parse(text, &(*holds)[count], error))
            count++;
        if (error_is_set(error))
            error_prefix(error, "%s:%u", QUOTED(path), number);
    }
    if (ferror(file))
        error_set(error, "%s cannot be read: %s", QUOTED(path), strerror(errno));
    free(line);
    return count;
}

bool hold_file_read(const char *path, struct distribution *hold, struct error *error)
{
    struct error wrong = ERROR_NONE;
    double *holds = NULL;
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (file == NULL)
        return error_set(error, "%s: %s", QUOTED(path), strerror(errno));
    size_t count = holds_read(file, path, &holds, &wrong);
    if (file != stdin)
        fclose(file);
    if (count == 0 && !error_is_set(&wrong))
        error_set(&wrong, "%s has no durations in it: one a line, for example 5ms", QUOTED(path));
    bool is_good = !error_is_set(&wrong) || error_set(error, "%s", wrong.text);
    if (is_good)
        distribution_measure(hold, holds, count);
    free(holds);
    return is_good;
}
