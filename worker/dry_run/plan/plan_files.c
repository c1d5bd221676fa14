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
#include "base/utf8.h"
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

/* Reads one item of a line into the place for it. */
typedef bool item_read(const struct lines *lines, void *item, struct error *error);

struct items {
    char *bytes; /* its own */
    size_t size, count, most;
    const char *name, *form; /* of the items, and of what a line has */
};

static bool items_read_all(struct lines *lines, struct items *items, item_read *read, struct error *error)
{
    while (line_next(lines, error)) {
        bool is_full = items->count == 0 || (items->count >= 64 && (items->count & (items->count - 1)) == 0);
        if (items->count == items->most)
            error_set(error, "there are more than %zu %s", items->most, items->name);
        else if (is_full)
            items->bytes = memory_resize(items->bytes, items->count < 64 ? 64 : 2 * items->count, items->size);
        if (error_is_set(error) || !read(lines, items->bytes + items->count * items->size, error))
            return line_is_wrong(lines, error);
        items->count++;
    }
    return !error_is_set(error);
}

/* All of the file, of which there must be at least one. The caller frees them in any case. */
static bool items_read(const char *path, struct items *items, item_read *read, struct error *error)
{
    struct error wrong = ERROR_NONE;
    struct lines lines;
    if (!lines_open(&lines, path, error))
        return false;
    bool is_good = items_read_all(&lines, items, read, &wrong);
    lines_close(&lines);
    if (is_good && items->count == 0)
        is_good = error_set(&wrong, "%s has no %s in it: %s", log_quote(path, (char[LOG_QUOTE_MAX]){0}), items->name,
                            items->form);
    return is_good || error_set(error, "%s", wrong.text);
}

/* --- holds ------------------------------------------------------------------------------------------------------ */

/* A text of the file is shown only when it cannot steer a terminal. */
static bool hold_read(const struct lines *lines, void *seconds, struct error *error)
{
    int64_t ns;
    if (strspn(lines->text, "0123456789.numshd") != lines->length)
        return error_set(error, "%s is no duration; write for example 5ms",
                         log_quote(lines->text, (char[LOG_QUOTE_MAX]){0}));
    if (!duration_parse(lines->text, &ns, error))
        return false;
    *(double *)seconds = (double)ns / (double)NS_PER_S;
    return ns <= DRY_RUN_HOLD_MAX_NS || error_set(error, "%s is too long: a hold lasts at most 24h",
                                                  log_quote(lines->text, (char[LOG_QUOTE_MAX]){0}));
}

bool plan_file_holds(const char *path, struct distribution *hold, struct error *error)
{
    struct items seconds = {.size = sizeof(double),
                            .most = PLAN_FILE_HOLDS_MAX,
                            .name = "durations",
                            .form = "one a line, for example 5ms"};
    bool is_good = items_read(path, &seconds, hold_read, error);
    if (is_good)
        distribution_measure(hold, (double *)(void *)seconds.bytes, seconds.count);
    free(seconds.bytes);
    return is_good;
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
static bool popular_read(const struct lines *lines, void *popular, struct error *error)
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
    *(struct popular *)popular = (struct popular){memory_text_of(lines->text, name), weight};
    return true;
}

static bool are_different(const char *path, struct popular *resources, size_t count, struct error *error)
{
    qsort(resources, count, sizeof *resources, popular_by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(resources[i - 1].name, resources[i].name) == 0)
            return error_set(error, "%s: %s is there twice", log_quote(path, (char[LOG_QUOTE_MAX]){0}),
                             log_quote(resources[i].name, (char[LOG_QUOTE_MAX]){0}));
    return true;
}

bool plan_file_popularity(const char *path, struct popularity *popularity, struct error *error)
{
    struct items items = {.size = sizeof(struct popular),
                          .most = DRY_RUN_NAMED_MAX,
                          .name = "resources",
                          .form = "a line NAME WEIGHT for each"};
    bool is_good = items_read(path, &items, popular_read, error);
    struct popular *resources = (struct popular *)(void *)items.bytes;
    is_good = is_good && are_different(path, resources, items.count, error);
    if (is_good)
        popularity_weigh(popularity, resources, items.count);
    for (size_t i = 0; i < items.count; i++)
        free((void *)(uintptr_t)resources[i].name);
    free(items.bytes);
    return is_good;
}
