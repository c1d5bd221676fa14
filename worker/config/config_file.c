/* Only this file uses libconfig. It gathers the text, lets libconfig parse it, and copies the tree at once, so that
 * nothing else depends on libconfig's version (1.5 and later; it never sees an @include or an integer of more than
 * 32 bits). libconfig reports only the first syntax error. Runs at the start of the program, on the main thread. */
#include "worker/config/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libconfig.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/config/trusted_file.h"

/* --- the text ----------------------------------------------------------------------------------------------------- */

/* The text with its includes inserted, and the origin of every line. libconfig resolves includes in the working
 * directory of the process, names them differently in each version, and cuts integers to 32 bits or reports a syntax
 * error. So one pass copies each file to the whole text. It recognises comments, texts, names, numbers, and an @include
 * at the beginning of a line; the parser judges the rest. A text ends in its line, so that a missing quotation mark is
 * reported there. If an integer is too large, the parser gets 0, and the line is flagged, so that the value is not
 * reported twice.
 *
 * A configuration names code to load, so it must be trusted (trusted_file.h), and an @include must be below the
 * directory of the main file (no absolute path, no ".."; CWE-73). Limits: 1 MiB a file, 64 files, 8 levels. */

struct config_line {
    const char *file; /* as the user wrote it, or joined to the directory of the main file */
    unsigned number;
    bool has_cut_number; /* an integer was too large and was replaced by 0 */
};

struct config_text {
    struct buffer bytes;
    struct config_line *lines;
    size_t line_count, line_capacity;
    char **files;
    size_t file_count;
    char *directory; /* of the main file; "." if it has none */
};

#define BYTE_ORDER_MARK "\xEF\xBB\xBF" /* some editors begin a file of UTF-8 with it */

enum { FILE_BYTES_MAX = 1 << 20, FILES_MAX = 64, DEPTH_MAX = 8 };

struct scanner {
    struct config_text *text;
    struct findings *findings;
    const char *file;
    unsigned line;
    const char *at, *end;
    unsigned depth;
    bool failed;
};

static bool file_scan(struct config_text *text, const char *path, unsigned depth, struct findings *findings);

/* --- whole files -------------------------------------------------------------------------------------------- */

static bool descriptor_read(int fd, struct buffer *out, const char *path, struct findings *findings)
{
    for (;;) {
        ssize_t got = read(fd, buffer_reserve(out, 65536), 65536);
        if (got == 0)
            return true;
        if (got < 0 && errno != EINTR) {
            findings_error(findings, "%s: cannot be read: %s", path, strerror(errno));
            return false;
        }
        if (got > 0)
            out->length += (size_t)got;
        if (out->length > FILE_BYTES_MAX) {
            findings_error(findings, "%s: is larger than 1 MiB; is it a configuration file?", path);
            return false;
        }
    }
}

static bool descriptor_check(int fd, const char *path, struct findings *findings)
{
    struct error error = ERROR_NONE;
    struct stat facts;
    if (fstat(fd, &facts) != 0) {
        findings_error(findings, "%s: cannot be examined: %s", path, strerror(errno));
        return false;
    }
    if (!S_ISREG(facts.st_mode)) {
        findings_error(findings, "%s: is not a regular file", path);
        return false;
    }
    if (trusted_file(fd, path, "decides which code runs", &error))
        return true;
    findings_error(findings, "%s", error.text);
    return false;
}

/* O_NONBLOCK: opening a FIFO must not wait for a writer. */
static bool file_read(const char *path, struct buffer *out, struct findings *findings)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        findings_error(findings, "%s: cannot be opened: %s", path[0] != '\0' ? path : "\"\"", strerror(errno));
        return false;
    }
    bool done = descriptor_check(fd, path, findings) && descriptor_read(fd, out, path, findings);
    close(fd);
    return done;
}

/* --- lines -------------------------------------------------------------------------------------------------- */

static void line_begin(struct scanner *scanner)
{
    struct config_text *text = scanner->text;
    if (text->line_count == text->line_capacity) {
        text->line_capacity = text->line_capacity == 0 ? 64 : text->line_capacity * 2;
        text->lines = memory_resize(text->lines, text->line_capacity, sizeof *text->lines);
    }
    text->lines[text->line_count++] = (struct config_line){.file = scanner->file, .number = scanner->line};
}

/* Copies everything up to `to` and counts the lines. */
static void scanner_copy(struct scanner *scanner, const char *to)
{
    while (scanner->at < to) {
        const char *newline = memchr(scanner->at, '\n', (size_t)(to - scanner->at));
        const char *stop = newline != NULL ? newline + 1 : to;
        buffer_append(&scanner->text->bytes, scanner->at, (size_t)(stop - scanner->at));
        scanner->at = stop;
        if (newline != NULL) {
            scanner->line++;
            line_begin(scanner);
        }
    }
}

static void scanner_fail(struct scanner *scanner, const char *what)
{
    findings_error(scanner->findings, "%s:%u: %s", scanner->file, scanner->line, what);
    scanner->failed = true;
    scanner->at = scanner->end;
}

/* --- what a line is made of --------------------------------------------------------------------------------- */

static bool starts_with(const struct scanner *scanner, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(scanner->end - scanner->at) >= length && memcmp(scanner->at, word, length) == 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void scan_line_comment(struct scanner *scanner)
{
    const char *newline = memchr(scanner->at, '\n', (size_t)(scanner->end - scanner->at));
    scanner_copy(scanner, newline != NULL ? newline : scanner->end);
}

static void scan_block_comment(struct scanner *scanner)
{
    const char *close = memmem(scanner->at + 2, (size_t)(scanner->end - scanner->at - 2), "*/", 2);
    if (close == NULL)
        scanner_fail(scanner, "this comment is not closed with */");
    else
        scanner_copy(scanner, close + 2);
}

static void scan_text(struct scanner *scanner)
{
    const char *c = scanner->at + 1;
    while (c < scanner->end && *c != '"' && *c != '\n')
        c += *c == '\\' && c + 1 < scanner->end && c[1] != '\n' ? 2 : 1;
    if (c >= scanner->end || *c == '\n')
        scanner_fail(scanner,
                     "this text has no closing quotation mark in its line; a long one goes on in a text of the "
                     "next line: \"...\" \"...\"");
    else
        scanner_copy(scanner, c + 1);
}

static void scan_name(struct scanner *scanner)
{
    const char *c = scanner->at;
    while (c < scanner->end && (is_letter(*c) || is_digit(*c) || *c == '_' || *c == '-' || *c == '*'))
        c++;
    scanner_copy(scanner, c);
}

/* Whether the literal is an integer, in any of libconfig's notations, that does not fit into 32 bits. Also true for
 * the suffix L, which versions read differently. */
static bool number_is_cut(const char *literal)
{
    const char *digits = literal + (*literal == '-' || *literal == '+');
    bool is_hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    char *rest;
    errno = 0;
    unsigned long long value = strtoull(digits, &rest, is_hex ? 16 : 10);
    if (*rest == 'L')
        return true;
    if (*rest != '\0' || rest == digits)
        return false; /* a real number, or invalid for the parser */
    return errno == ERANGE || value > (unsigned long long)INT32_MAX + (*literal == '-');
}

static void scan_number(struct scanner *scanner)
{
    enum { LITERAL_MAX = 48 };
    char literal[LITERAL_MAX] = "";
    const char *c = scanner->at + 1;
    while (c < scanner->end &&
           (is_digit(*c) || is_letter(*c) || *c == '.' || ((*c == '-' || *c == '+') && (c[-1] == 'e' || c[-1] == 'E'))))
        c++;
    size_t length = (size_t)(c - scanner->at);
    memcpy(literal, scanner->at, length < LITERAL_MAX ? length : LITERAL_MAX - 1);
    if (!number_is_cut(literal)) {
        scanner_copy(scanner, c);
        return;
    }
    findings_error(scanner->findings,
                   "%s:%u: the number %s does not fit into 32 bits (or has the suffix L); write a quantity with its "
                   "unit as a text, such as \"90s\" or \"4MiB\"",
                   scanner->file, scanner->line, literal);
    scanner->text->lines[scanner->text->line_count - 1].has_cut_number = true;
    buffer_append(&scanner->text->bytes, "0", 1);
    scanner->at = c;
}

/* --- includes ----------------------------------------------------------------------------------------------- */

static bool include_name_is_safe(const char *name)
{
    if (name[0] == '/' || name[0] == '\0')
        return false;
    for (const char *part = name; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return false;
    }
    return true;
}

static void include_follow(struct scanner *scanner, const char *name)
{
    if (!include_name_is_safe(name)) {
        scanner_fail(scanner,
                     "@include takes a file below the directory of the main file: no absolute path, no \"..\"");
        return;
    }
    if (scanner->depth + 1 >= DEPTH_MAX || scanner->text->file_count >= FILES_MAX) {
        scanner_fail(scanner, "@include is nested too deep; does a file include itself?");
        return;
    }
    buffer_append(&scanner->text->bytes, "\n", 1);
    char *path = config_path_join(scanner->text->directory, name);
    if (!file_scan(scanner->text, path, scanner->depth + 1, scanner->findings)) {
        scanner_fail(scanner, "included from here");
    }
    free(path);
    line_begin(scanner);
}

static void scan_include(struct scanner *scanner)
{
    const char *c = scanner->at + strlen("@include");
    while (c < scanner->end && (*c == ' ' || *c == '\t'))
        c++;
    const char *name = c + 1;
    const char *close = c < scanner->end && *c == '"' ? memchr(name, '"', (size_t)(scanner->end - name)) : NULL;
    if (close == NULL || memchr(name, '\n', (size_t)(close - name)) != NULL || close - name >= PATH_MAX) {
        scanner_fail(scanner, "@include is followed by the name of a file in double quotes");
        return;
    }
    char *copy = memory_text_of(name, (size_t)(close - name));
    scanner->at = close + 1;
    include_follow(scanner, copy);
    free(copy);
}

/* --- the pass over one file --------------------------------------------------------------------------------- */

static void scan_step(struct scanner *scanner, bool *at_line_start)
{
    char c = *scanner->at;
    bool was_at_line_start = *at_line_start;
    *at_line_start = c == '\n' || (was_at_line_start && (c == ' ' || c == '\t'));
    if (was_at_line_start && starts_with(scanner, "@include"))
        scan_include(scanner);
    else if (c == '#' || starts_with(scanner, "//"))
        scan_line_comment(scanner);
    else if (starts_with(scanner, "/*"))
        scan_block_comment(scanner);
    else if (c == '"')
        scan_text(scanner);
    else if (is_letter(c) || c == '*')
        scan_name(scanner);
    else if (is_digit(c) || c == '-' || c == '+' || c == '.')
        scan_number(scanner);
    else if (c == '\0')
        scanner_fail(scanner, "holds a NUL byte; is it a configuration file?");
    else
        scanner_copy(scanner, scanner->at + 1);
}

static bool file_scan(struct config_text *text, const char *path, unsigned depth, struct findings *findings)
{
    struct buffer content = {0};
    struct scanner scanner = {.text = text, .findings = findings, .line = 1, .depth = depth};
    text->files = memory_resize(text->files, text->file_count + 1, sizeof *text->files);
    scanner.file = text->files[text->file_count++] = memory_text(path);
    line_begin(&scanner);
    if (!file_read(path, &content, findings)) {
        buffer_fini(&content);
        return false;
    }
    bool has_mark = content.length >= strlen(BYTE_ORDER_MARK) &&
                    memcmp(content.bytes, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0;
    scanner.at = content.bytes + (has_mark ? strlen(BYTE_ORDER_MARK) : 0);
    scanner.end = content.bytes + content.length;
    bool at_line_start = true;
    while (scanner.at < scanner.end)
        scan_step(&scanner, &at_line_start);
    buffer_append(&text->bytes, "\n", 1);
    buffer_fini(&content);
    return !scanner.failed;
}

static const struct config_line *line_of(const struct config_text *text, unsigned line)
{
    size_t index = line == 0 ? 0 : line - 1;
    return &text->lines[index < text->line_count ? index : text->line_count - 1];
}

/* --- paths -------------------------------------------------------------------------------------------------- */

char *config_directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return memory_text(".");
    return slash == path ? memory_text("/") : memory_text_of(path, (size_t)(slash - path));
}

char *config_path_join(const char *directory, const char *name)
{
    if (name[0] == '/' || strcmp(directory, ".") == 0)
        return memory_text(name);
    struct buffer path = {0};
    buffer_format(&path, "%s%s%s", directory, directory[strlen(directory) - 1] == '/' ? "" : "/", name);
    char *joined = memory_text(buffer_text(&path));
    buffer_fini(&path);
    return joined;
}

/* --- the tree ---------------------------------------------------------------------------------------------------- */

struct config_file {
    struct config_text text;
    struct config_value root;
};

static void value_copy(struct config_file *file, config_setting_t *setting, struct config_value *value, unsigned depth,
                       struct findings *findings);

static enum config_kind kind_of(config_setting_t *setting)
{
    switch (config_setting_type(setting)) {
    case CONFIG_TYPE_GROUP:
        return CONFIG_IS_GROUP;
    case CONFIG_TYPE_ARRAY:
    case CONFIG_TYPE_LIST:
        return CONFIG_IS_LIST;
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        return CONFIG_IS_INTEGER;
    case CONFIG_TYPE_FLOAT:
        return CONFIG_IS_REAL;
    case CONFIG_TYPE_BOOL:
        return CONFIG_IS_BOOL;
    default:
        return CONFIG_IS_TEXT;
    }
}

static char *scalar_text(config_setting_t *setting, enum config_kind kind)
{
    struct buffer text = {0};
    if (kind == CONFIG_IS_INTEGER)
        buffer_format(&text, "%lld", config_setting_get_int64(setting));
    else if (kind == CONFIG_IS_REAL)
        buffer_format(&text, "%.17g", config_setting_get_float(setting));
    else if (kind == CONFIG_IS_BOOL)
        buffer_append_text(&text, config_setting_get_bool(setting) ? "true" : "false");
    else
        buffer_append_text(&text, config_setting_get_string(setting));
    char *copy = memory_text(buffer_text(&text));
    buffer_fini(&text);
    return copy;
}

static void items_copy(struct config_file *file, config_setting_t *setting, struct config_value *value, unsigned depth,
                       struct findings *findings)
{
    int count = config_setting_length(setting);
    if (depth == DEPTH_MAX) {
        findings_error(findings, "%s:%u: is nested too deep", value->file, value->line);
        return;
    }
    if (count <= 0)
        return;
    value->items = memory_zeroed((size_t)count, sizeof *value->items);
    value->count = (size_t)count;
    for (unsigned i = 0; i < (unsigned)count; i++)
        value_copy(file, config_setting_get_elem(setting, i), &value->items[i], depth + 1, findings);
}

static void value_copy(struct config_file *file, config_setting_t *setting, struct config_value *value, unsigned depth,
                       struct findings *findings)
{
    const struct config_line *line = line_of(&file->text, config_setting_source_line(setting));
    value->kind = kind_of(setting);
    value->name = config_setting_name(setting) != NULL ? memory_text(config_setting_name(setting)) : NULL;
    value->file = line->file;
    value->line = line->number;
    value->was_cut = line->has_cut_number && value->kind == CONFIG_IS_INTEGER && config_setting_get_int64(setting) == 0;
    if (value->kind == CONFIG_IS_GROUP || value->kind == CONFIG_IS_LIST)
        items_copy(file, setting, value, depth, findings);
    else
        value->text = scalar_text(setting, value->kind);
}

static void value_fini(struct config_value *value)
{
    for (size_t i = 0; i < value->count; i++)
        value_fini(&value->items[i]);
    free(value->items);
    free(value->name);
    if (value->text != NULL)
        memory_wipe(value->text, strlen(value->text)); /* a plugin's setting may be a secret */
    free(value->text);
}

enum { SETTING_NAME_MAX = 64 };

/* The setting that begins in this line, which counts from 1; "" when there are several, or none. */
static void setting_find(const char *text, unsigned line, char name[SETTING_NAME_MAX])
{
    unsigned count = 0;
    while (line > 1 && *(text = strchrnul(text, '\n')) != '\0')
        text++, line--;
    for (const char *next; *text != '\0' && *text != '\n'; text = next) {
        next = text;
        while (is_letter(*next) || is_digit(*next) || *next == '_' || *next == '-' || *next == '*')
            next++;
        const char *sign = next + strspn(next, " \t");
        if (next > text && (*sign == '=' || *sign == ':') && ++count == 1)
            snprintf(name, SETTING_NAME_MAX, "%.*s", (int)(next - text), text);
        next += next == text;
    }
    if (count != 1)
        name[0] = '\0';
}

static void parse_error_tell(struct config_file *file, const config_t *parsed, struct findings *findings)
{
    const char *reason = config_error_text(parsed);
    unsigned number = (unsigned)config_error_line(parsed);
    const struct config_line *line = line_of(&file->text, number);
    char name[SETTING_NAME_MAX] = "";
    if (strcmp(reason, "duplicate setting name") != 0) {
        findings_error(findings,
                       "%s:%u: %s here or just before; a setting is written KEY = VALUE; and a list of texts "
                       "[\"a\", \"b\"]",
                       line->file, line->number, reason);
        return;
    }
    setting_find(buffer_text(&file->text.bytes), number, name);
    findings_error(findings, "%s:%u: %s%s is here for the second time in its section; keep one of the two", line->file,
                   line->number, name[0] != '\0' ? "the setting " : "a setting", name);
}

static bool tree_read(struct config_file *file, struct findings *findings)
{
    config_t parsed;
    config_init(&parsed);
    bool understood = config_read_string(&parsed, buffer_text(&file->text.bytes)) == CONFIG_TRUE;
    if (understood) {
        value_copy(file, config_root_setting(&parsed), &file->root, 0, findings);
    } else {
        parse_error_tell(file, &parsed, findings);
    }
    config_destroy(&parsed);
    return understood;
}

struct config_file *config_file_read(const char *path, struct findings *findings)
{
    struct config_file *file = memory_new(struct config_file);
    file->text.directory = config_directory_of(path);
    if (file_scan(&file->text, path, 0, findings) && tree_read(file, findings))
        return file;
    config_file_free(file);
    return NULL;
}

void config_file_free(struct config_file *file)
{
    value_fini(&file->root);
    for (size_t i = 0; i < file->text.file_count; i++)
        free(file->text.files[i]);
    free(file->text.files);
    free(file->text.lines);
    free(file->text.directory);
    memory_wipe(file->text.bytes.bytes, file->text.bytes.length);
    buffer_fini(&file->text.bytes);
    free(file);
}

const struct config_value *config_file_root(const struct config_file *file)
{
    return &file->root;
}

const char *config_file_directory(const struct config_file *file)
{
    return file->text.directory;
}

const struct config_value *config_value_member(const struct config_value *group, const char *name)
{
    for (size_t i = 0; i < group->count; i++)
        if (group->items[i].name != NULL && strcmp(group->items[i].name, name) == 0)
            return &group->items[i];
    return NULL;
}

const char *config_kind_name(enum config_kind kind)
{
    static const char *const names[] = {
        [CONFIG_IS_TEXT] = "a text in quotes", [CONFIG_IS_INTEGER] = "a whole number", [CONFIG_IS_REAL] = "a number",
        [CONFIG_IS_BOOL] = "true or false",    [CONFIG_IS_GROUP] = "a group { }",      [CONFIG_IS_LIST] = "a list",
    };
    return names[kind];
}
