#include "worker/config/surroundings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/secret.h"

/* The kernel gives a program, and the zygote's orders, some more for all of its words. */
enum { VARIABLES_BYTES_MAX = 64 * 1024 };

/* The variables while they are collected. */
struct collection {
    char **items;
    size_t count, bytes;
    struct findings *findings;
};

static bool has_text(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* --- one variable ------------------------------------------------------------------------------------------------- */

static bool is_name(const char *text, size_t length)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    return length > 0 && strspn(text, letters) >= length && (text[0] < '0' || text[0] > '9');
}

/* NULL if a program may have a variable of this name from the configuration. */
static const char *name_refusal(const char *name, size_t length)
{
    if (!is_name(name, length))
        return "a name of a variable has letters, digits and underscores, and begins with no digit";
    if (length >= strlen("HF_") && strncmp(name, "HF_", strlen("HF_")) == 0)
        return "names that begin with HF_ are those of the worker; choose another";
    if (length == strlen("TRACEPARENT") && strncmp(name, "TRACEPARENT", length) == 0)
        return "TRACEPARENT comes with the task; choose another name";
    return NULL;
}

static bool is_there(const struct collection *all, const char *name, size_t length, size_t from)
{
    for (size_t i = from; i < all->count; i++)
        if (strncmp(all->items[i], name, length) == 0 && all->items[i][length] == '=')
            return true;
    return false;
}

static void variable_add(struct collection *all, const char *name, size_t name_length, const char *value)
{
    size_t size = name_length + 1 + strlen(value) + 1;
    char *item = memory_zeroed(1, size);
    memcpy(item, name, name_length);
    item[name_length] = '=';
    memcpy(item + name_length + 1, value, strlen(value));
    all->items = memory_resize(all->items, all->count + 2, sizeof all->items[0]);
    all->items[all->count++] = item;
    all->items[all->count] = NULL;
    all->bytes += size;
}

/* --- environment -------------------------------------------------------------------------------------------------- */

/* The value itself, or that of the worker's variable; NULL with a finding. */
static const char *value_of(const struct config_pair *pair, const char *where, const char *section,
                            struct findings *findings)
{
    const char *value = pair->value, *begin = strstr(value, "${");
    size_t length = strlen(value);
    if (begin == NULL)
        return value;
    if (begin != value || value[length - 1] != '}' || !is_name(value + 2, length - 3)) {
        findings_error(findings,
                       "%s: %senvironment.%s: ${NAME} stands alone for a variable of the worker; a longer text with "
                       "it belongs into environment_file, where it is taken as it is",
                       where, section, pair->key);
        return NULL;
    }
    char *name = memory_text_of(value + 2, length - 3);
    const char *found = getenv(name);
    if (found == NULL)
        findings_error(findings,
                       "%s: %senvironment.%s: the environment variable %s is not set here; set it for the worker",
                       where, section, pair->key, name);
    free(name);
    return found;
}

static void pairs_take(struct collection *all, const struct config_pairs *pairs, const char *where, const char *section)
{
    for (size_t i = 0; i < pairs->count; i++) {
        const struct config_pair *pair = &pairs->items[i];
        const char *refusal = name_refusal(pair->key, strlen(pair->key));
        const char *value = refusal == NULL ? value_of(pair, where, section, all->findings) : NULL;
        if (refusal != NULL)
            findings_error(all->findings, "%s: %senvironment.%s: %s", where, section, pair->key, refusal);
        else if (value != NULL)
            variable_add(all, pair->key, strlen(pair->key), value);
    }
}

/* --- environment_file --------------------------------------------------------------------------------------------- */

/* Its text, to be forgotten by secret_free; NULL with a reason. */
static char *file_read(const char *path, struct error *error)
{
    struct stat facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *text = NULL;
    if (fd < 0 || fstat(fd, &facts) != 0) {
        error_set(error, "%s: cannot be opened: %s", path, strerror(errno));
    } else if (secret_facts(&facts, path, error)) {
        text = memory_zeroed(1, VARIABLES_BYTES_MAX + 1);
        ssize_t length = read(fd, text, VARIABLES_BYTES_MAX);
        if (length < 0)
            error_set(error, "%s: cannot be read: %s", path, strerror(errno));
        else if (length == VARIABLES_BYTES_MAX)
            error_set(error, "%s: is longer than %d KiB, and programs take no more", path, VARIABLES_BYTES_MAX / 1024);
        else if (strlen(text) != (size_t)length)
            error_set(error, "%s: has a NUL byte", path);
    }
    if (fd >= 0)
        close(fd);
    if (!error_is_set(error))
        return text;
    secret_free(text);
    return NULL;
}

/* Errors never quote a value. */
static const char *line_refusal(const struct collection *all, const char *line, size_t name_length, size_t from)
{
    const char *value = line + name_length + 1;
    if (line[name_length] == '\0')
        return "expected NAME=VALUE";
    if (is_there(all, line, name_length, from))
        return "this variable is in the file twice";
    size_t length = strlen(value);
    if (length >= 2 && (value[0] == '"' || value[0] == '\'') && value[length - 1] == value[0])
        return "write the value without quotes: it goes to the end of the line as it is";
    return name_refusal(line, name_length);
}

/* `from` is the first of the variables that are of the file. */
static void line_take(struct collection *all, char *line, const char *path, unsigned number, size_t from)
{
    size_t length = strlen(line);
    if (length > 0 && line[length - 1] == '\r')
        line[--length] = '\0';
    if (length == 0 || line[0] == '#')
        return;
    size_t name_length = strcspn(line, "=");
    const char *refusal = line_refusal(all, line, name_length, from);
    if (refusal != NULL)
        findings_error(all->findings, "%s:%u: %s", path, number, refusal);
    else if (!is_there(all, line, name_length, 0)) /* environment comes first */
        variable_add(all, line, name_length, line + name_length + 1);
}

static void file_take(struct collection *all, const char *path, const char *where, const char *section)
{
    struct error error = ERROR_NONE;
    size_t from = all->count;
    char *text = file_read(path, &error), *rest = text, *line = NULL;
    if (text == NULL)
        findings_error(all->findings, "%s: %senvironment_file: %s", where, section, error.text);
    for (unsigned number = 1; text != NULL && (line = strsep(&rest, "\n")) != NULL; number++)
        line_take(all, line, path, number, from);
    if (text != NULL)
        memory_wipe(text, VARIABLES_BYTES_MAX);
    free(text);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static void directory_check(const char *directory, const char *where, const char *section, struct findings *findings)
{
    struct stat facts;
    int failure = stat(directory, &facts) != 0                            ? errno
                  : !S_ISDIR(facts.st_mode)                               ? ENOTDIR
                  : faccessat(AT_FDCWD, directory, X_OK, AT_EACCESS) != 0 ? errno
                                                                          : 0;
    if (failure != 0)
        findings_error(findings, "%s: %sdirectory: a program cannot be started in %s: %s", where, section, directory,
                       strerror(failure));
}

char **surroundings_read(const struct config_surroundings *surroundings, const char *where, const char *section,
                         struct findings *findings)
{
    struct collection all = {.items = memory_zeroed(1, sizeof all.items[0]), .findings = findings};
    pairs_take(&all, &surroundings->environment, where, section);
    if (has_text(surroundings->environment_file))
        file_take(&all, surroundings->environment_file, where, section);
    if (has_text(surroundings->directory))
        directory_check(surroundings->directory, where, section, findings);
    if (all.bytes > VARIABLES_BYTES_MAX)
        findings_error(findings, "%s: %senvironment: is longer than %d KiB, and programs take no more", where, section,
                       VARIABLES_BYTES_MAX / 1024);
    return all.items;
}

void surroundings_forget(char **variables)
{
    for (char **item = variables; item != NULL && *item != NULL; item++)
        secret_free(*item);
    free(variables);
}

void surroundings_clear(struct config_surroundings *surroundings)
{
    struct config_pairs *pairs = &surroundings->environment;
    for (size_t i = 0; i < pairs->count; i++) {
        free(pairs->items[i].key);
        secret_free(pairs->items[i].value);
    }
    free(pairs->items);
    *pairs = (struct config_pairs){0};
    surroundings->environment_file[0] = surroundings->directory[0] = '\0';
}

bool surroundings_are_empty(const struct config_surroundings *surroundings)
{
    return surroundings->environment.count == 0 && !has_text(surroundings->environment_file) &&
           !has_text(surroundings->directory);
}
