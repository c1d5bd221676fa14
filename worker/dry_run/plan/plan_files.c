#include "worker/dry_run/plan/plan_files.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "base/real.h"
#include "queue/utf8.h"
#include "redlock/redlock.h"
#include "worker/dry_run/plan/plan.h"

#define WEIGHT_MAX 1e15

/* --- lines ------------------------------------------------------------------------------------------------------ */

/* LINE_BYTES_MAX: no line that means something is longer. */
enum { LINE_BYTES_MAX = 1024 };

struct lines {
    const char *path;
    FILE *file;
    unsigned number; /* of the line in `text` */
    char *text;
    size_t length;
    char bytes[LINE_BYTES_MAX + 2];
};

static bool lines_open(struct lines *lines, const char *path, struct error *error)
{
    *lines = (struct lines){.path = path, .file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re")};
    return lines->file != NULL ||
           error_set(error, "%s: %s", log_quote(path, (char[LOG_QUOTE_MAX]){0}), strerror(errno));
}

static void lines_close(struct lines *lines)
{
    if (lines->file != stdin)
        fclose(lines->file);
}

/* Puts the place before what is wrong with the line. */
static bool line_is_wrong(const struct lines *lines, struct error *error)
{
    error_prefix(error, "%s:%u", log_quote(lines->path, (char[LOG_QUOTE_MAX]){0}), lines->number);
    return false;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static void line_trim(struct lines *lines)
{
    lines->text = lines->bytes;
    while (lines->length > 0 && is_blank(lines->text[lines->length - 1]))
        lines->length--;
    while (lines->length > 0 && is_blank(lines->text[0])) {
        lines->text++;
        lines->length--;
    }
    lines->text[lines->length] = '\0';
}

/* The bytes up to a line end, which is not one of them. False at the end of the file. */
static bool line_read(struct lines *lines)
{
    int byte;
    lines->length = 0;
    lines->number++;
    while ((byte = getc(lines->file)) != EOF && byte != '\n')
        if (lines->length <= LINE_BYTES_MAX)
            lines->bytes[lines->length++] = (char)byte;
    return byte != EOF || lines->length > 0;
}

/* The next line that says something. False at the end, and when it is none: then the error is set. */
static bool line_next(struct lines *lines, struct error *error)
{
    while (line_read(lines)) {
        if (lines->length > LINE_BYTES_MAX) {
            error_set(error, "the line has more than %d bytes", LINE_BYTES_MAX);
            return line_is_wrong(lines, error);
        }
        line_trim(lines);
        if (memchr(lines->text, '\0', lines->length) != NULL) {
            error_set(error, "there is a byte 0 in the line: it is no text");
            return line_is_wrong(lines, error);
        }
        if (lines->length > 0 && lines->text[0] != '#')
            return true;
    }
    if (ferror(lines->file))
        error_set(error, "%s cannot be read: %s", log_quote(lines->path, (char[LOG_QUOTE_MAX]){0}), strerror(errno));
    return false;
}

static void *grown(void *items, size_t count, size_t size)
{
    bool is_full = count == 0 || (count >= 64 && (count & (count - 1)) == 0);
    return is_full ? memory_resize(items, count < 64 ? 64 : 2 * count, size) : items;
}

/* --- holds ------------------------------------------------------------------------------------------------------ */

/* A text of the file is shown only when it cannot steer a terminal. */
static bool hold_read(const struct lines *lines, double *seconds, struct error *error)
{
    int64_t ns;
    if (strspn(lines->text, "0123456789.numshd") != lines->length)
        return error_set(error, "%s is no duration; write for example 5ms",
                         log_quote(lines->text, (char[LOG_QUOTE_MAX]){0}));
    if (!duration_parse(lines->text, &ns, error))
        return false;
    *seconds = (double)ns / (double)NS_PER_S;
    return ns <= DRY_RUN_HOLD_MAX_NS || error_set(error, "%s is too long: a hold lasts at most 24h",
                                                  log_quote(lines->text, (char[LOG_QUOTE_MAX]){0}));
}

static size_t holds_read_all(struct lines *lines, double **seconds, struct error *error)
{
    size_t count = 0;
    double hold = 0;
    while (line_next(lines, error)) {
        if (count == PLAN_FILE_HOLDS_MAX)
            error_set(error, "there are more than %d durations", PLAN_FILE_HOLDS_MAX);
        if (error_is_set(error) || !hold_read(lines, &hold, error)) {
            line_is_wrong(lines, error);
            break;
        }
        *seconds = grown(*seconds, count, sizeof **seconds);
        (*seconds)[count++] = hold;
    }
    return count;
}

bool plan_file_holds(const char *path, struct distribution *hold, struct error *error)
{
    struct error wrong = ERROR_NONE;
    struct lines lines;
    double *seconds = NULL;
    if (!lines_open(&lines, path, error))
        return false;
    size_t count = holds_read_all(&lines, &seconds, &wrong);
    lines_close(&lines);
    if (!error_is_set(&wrong) && count == 0)
        error_set(&wrong, "%s has no durations in it: one a line, for example 5ms",
                  log_quote(path, (char[LOG_QUOTE_MAX]){0}));
    bool is_good = !error_is_set(&wrong);
    if (is_good)
        distribution_measure(hold, seconds, count);
    free(seconds);
    return is_good || error_set(error, "%s", wrong.text);
}

/* --- resources -------------------------------------------------------------------------------------------------- */

bool text_is_plain(const char *text, size_t length)
{
    for (const char *at = text, *end = text + length; at < end;) {
        size_t character = utf8_length(at, end);
        if (character == 0 || (unsigned char)*at < ' ' || *at == 0x7f)
            return false;
        at += character;
    }
    return true;
}

bool resource_name_is_sound(const char *name, size_t length)
{
    return length > 0 && length <= REDLOCK_RESOURCE_BYTES_MAX && !(length >= 3 && memcmp(name, "hf:", 3) == 0) &&
           text_is_plain(name, length);
}

/* NAME WEIGHT, the weight behind the last blank. */
static bool popular_read(struct lines *lines, struct popular *popular, struct error *error)
{
    size_t name = lines->length;
    while (name > 0 && !is_blank(lines->text[name - 1]))
        name--;
    const char *number = lines->text + name;
    char *rest;
    double weight = real_read(number, &rest);
    while (name > 0 && is_blank(lines->text[name - 1]))
        name--;
    if (name == 0)
        return error_set(error, "%s: a line has the name of a resource and its weight, for example account:1 5",
                         log_quote(lines->text, (char[LOG_QUOTE_MAX]){0}));
    if (*rest != '\0' || strspn(number, "0123456789.eE+-") != strlen(number) || !(weight > 0 && weight <= WEIGHT_MAX))
        return error_set(error, "%s is no weight: a number above 0 and at most %g",
                         log_quote(number, (char[LOG_QUOTE_MAX]){0}), WEIGHT_MAX);
    if (!resource_name_is_sound(lines->text, name))
        return error_set(error,
                         "%s cannot be the name of a resource: 1 to %d bytes of UTF-8 without control characters that "
                         "do not begin with hf:",
                         log_quote_bytes(lines->text, name, (char[LOG_QUOTE_MAX]){0}), REDLOCK_RESOURCE_BYTES_MAX);
    *popular = (struct popular){memory_text_of(lines->text, name), weight};
    return true;
}

static int by_name(const void *a, const void *b)
{
    const struct popular *left = a, *right = b;
    return strcmp(left->name, right->name);
}

static bool are_different(const char *path, struct popular *resources, size_t count, struct error *error)
{
    qsort(resources, count, sizeof *resources, by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(resources[i - 1].name, resources[i].name) == 0)
            return error_set(error, "%s: %s is there twice", log_quote(path, (char[LOG_QUOTE_MAX]){0}),
                             log_quote(resources[i].name, (char[LOG_QUOTE_MAX]){0}));
    return true;
}

static size_t popular_read_all(struct lines *lines, struct popular **resources, struct error *error)
{
    size_t count = 0;
    struct popular popular;
    while (line_next(lines, error)) {
        if (count == DRY_RUN_NAMED_MAX)
            error_set(error, "there are more than %d resources", DRY_RUN_NAMED_MAX);
        if (error_is_set(error) || !popular_read(lines, &popular, error)) {
            line_is_wrong(lines, error);
            break;
        }
        *resources = grown(*resources, count, sizeof **resources);
        (*resources)[count++] = popular;
    }
    return count;
}

bool plan_file_popularity(const char *path, struct popularity *popularity, struct error *error)
{
    struct error wrong = ERROR_NONE;
    struct lines lines;
    struct popular *resources = NULL;
    if (!lines_open(&lines, path, error))
        return false;
    size_t count = popular_read_all(&lines, &resources, &wrong);
    lines_close(&lines);
    if (!error_is_set(&wrong) && count == 0)
        error_set(&wrong, "%s has no resources in it: a line NAME WEIGHT for each",
                  log_quote(path, (char[LOG_QUOTE_MAX]){0}));
    bool is_good = !error_is_set(&wrong) && are_different(path, resources, count, &wrong);
    if (is_good)
        popularity_weigh(popularity, resources, (unsigned)count);
    for (size_t i = 0; !is_good && i < count; i++)
        free(resources[i].name);
    free(resources);
    return is_good || error_set(error, "%s", wrong.text);
}
