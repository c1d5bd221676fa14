/* holdfast plugin new: a directory with a handler to begin with.
 *
 * The directory is made here or not at all: what exists is never written to, and when a file cannot be written, what
 * was made so far is removed again. If the process dies meanwhile, a directory with some of its files stays. */
#include "worker/commands/command.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/log.h"
#include "worker/config/suggest.h"
#include "worker/print/embedded_text.h"

/* What stands in the text where the name of the handler belongs, and in a file's name before the ending. */
#define PLUGIN_TEMPLATE_NAME "@NAME@"
#define PLUGIN_TEMPLATE_FILE "handler"

enum { NAME_MAX_BYTES = 63, FILE_NAME_MAX = NAME_MAX_BYTES + 16 };

struct plugin_new {
    const char *name, *directory, *language;
    int fd; /* of the new directory */
};

#define AT(member) offsetof(struct plugin_new, member)
static const struct option_row options[] = {
    {OPTION_TEXT, 0, "directory", "DIR", "make NAME in this directory (the current one)", .offset = AT(directory)},
    {OPTION_TEXT, 0, "language", "LANGUAGE", "c (the default), c++, shell or python", .offset = AT(language)},
    {.type = OPTION_END},
};
#undef AT

/* The names of files, without the one that the Makefile needs for itself. */
static bool name_is_sound(const char *name)
{
    size_t length = strnlen(name, NAME_MAX_BYTES + 1);
    return length > 0 && length <= NAME_MAX_BYTES && name[0] >= 'a' && name[0] <= 'z' && strcmp(name, "test") != 0 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == length;
}

static bool language_is_known(const char *language)
{
    for (const struct embedded_text *file = plugin_templates; file->directory != NULL; file++)
        if (strcmp(file->directory, language) == 0)
            return true;
    return false;
}

/* handler.c becomes NAME.c, what has another name keeps it. */
static void file_name(const struct plugin_new *plugin, const struct embedded_text *file, char out[FILE_NAME_MAX])
{
    size_t stem = strlen(PLUGIN_TEMPLATE_FILE);
    bool has_name = strncmp(file->name, PLUGIN_TEMPLATE_FILE, stem) == 0;
    snprintf(out, FILE_NAME_MAX, "%s%s", has_name ? plugin->name : "", file->name + (has_name ? stem : 0));
}

static void text_fill(const char *text, const char *name, struct buffer *out)
{
    for (const char *mark; (mark = strstr(text, PLUGIN_TEMPLATE_NAME)) != NULL;
         text = mark + strlen(PLUGIN_TEMPLATE_NAME)) {
        buffer_append(out, text, (size_t)(mark - text));
        buffer_append_text(out, name);
    }
    buffer_append_text(out, text);
}

static bool text_write(int fd, const struct buffer *text)
{
    for (size_t written = 0; written < text->length;) {
        ssize_t count = write(fd, text->bytes + written, text->length - written);
        if (count < 0 && errno != EINTR)
            return false;
        written += count > 0 ? (size_t)count : 0;
    }
    return true;
}

/* A worker refuses what others may write, so nobody else may, whatever the umask says. */
static bool file_write(const struct plugin_new *plugin, const struct embedded_text *file, struct error *error)
{
    char name[FILE_NAME_MAX];
    struct buffer text = {0};
    file_name(plugin, file, name);
    text_fill(file->text, plugin->name, &text);
    int fd = openat(plugin->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file->is_executable ? 0755 : 0644);
    bool is_written = fd >= 0 && text_write(fd, &text);
    if (!is_written)
        error_set(error, "%s: %s", name, strerror(errno));
    if (fd >= 0 && close(fd) != 0)
        is_written = error_set(error, "%s: %s", name, strerror(errno));
    buffer_fini(&text);
    return is_written;
}

static bool files_write(const struct plugin_new *plugin, struct error *error)
{
    for (const struct embedded_text *file = plugin_templates; file->directory != NULL; file++)
        if (strcmp(file->directory, plugin->language) == 0 && !file_write(plugin, file, error))
            return false;
    return true;
}

/* Only what was written here: whatever else came into the directory meanwhile keeps it from being removed. */
static void files_remove(const struct plugin_new *plugin)
{
    char name[FILE_NAME_MAX];
    for (const struct embedded_text *file = plugin_templates; file->directory != NULL; file++) {
        file_name(plugin, file, name);
        if (strcmp(file->directory, plugin->language) == 0)
            (void)unlinkat(plugin->fd, name, 0);
    }
}

static bool directory_make(struct plugin_new *plugin, int parent, struct error *error)
{
    if (mkdirat(parent, plugin->name, 0755) != 0)
        return error_set(error, "%s", errno == EEXIST ? "it exists already, and is left alone" : strerror(errno));
    plugin->fd = openat(parent, plugin->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool is_made = plugin->fd >= 0 ? files_write(plugin, error) : error_set(error, "%s", strerror(errno));
    if (!is_made && plugin->fd >= 0)
        files_remove(plugin);
    if (!is_made)
        (void)unlinkat(parent, plugin->name, AT_REMOVEDIR);
    return is_made;
}

static void made_tell(const struct plugin_new *plugin)
{
    char name[FILE_NAME_MAX];
    const char *slash = plugin->directory[strlen(plugin->directory) - 1] == '/' ? "" : "/";
    bool is_here = strcmp(plugin->directory, ".") == 0;
    printf("made %s%s%s:", is_here ? "" : plugin->directory, is_here ? "" : slash, plugin->name);
    for (const struct embedded_text *file = plugin_templates; file->directory != NULL; file++) {
        file_name(plugin, file, name);
        if (strcmp(file->directory, plugin->language) == 0)
            printf(" %s", name);
    }
    printf("\ntry it: cd %s%s%s && make && make test\n", is_here ? "" : plugin->directory, is_here ? "" : slash,
           plugin->name);
}

static int plugin_make(struct plugin_new *plugin)
{
    struct error error = ERROR_NONE;
    char quoted[LOG_QUOTE_MAX];
    int parent = open(plugin->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_made = parent >= 0 ? directory_make(plugin, parent, &error) : error_set(&error, "%s", strerror(errno));
    if (is_made)
        made_tell(plugin);
    else
        command_complain(&command_plugin, "%s in %s: %s; nothing was made", plugin->name,
                         log_quote(plugin->directory, quoted), error.text);
    if (parent >= 0)
        close(parent);
    if (plugin->fd >= 0)
        close(plugin->fd);
    return is_made ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

static int misused_language(const char *language)
{
    struct suggestion suggestion = suggestion_for(language);
    char hint[SUGGEST_HINT_MAX], quoted[LOG_QUOTE_MAX];
    for (const struct embedded_text *file = plugin_templates; file->directory != NULL; file++)
        suggestion_offer(&suggestion, file->directory);
    return command_misused(&command_plugin, "--language takes c, c++, shell or python, not %s%s",
                           log_quote(language, quoted), suggestion_hint(&suggestion, hint));
}

static int run(int argc, char **argv)
{
    struct plugin_new plugin = {.directory = ".", .language = "c", .fd = -1};
    struct command_line line;
    if (!command_line_read(&line, &command_plugin, argc, argv, &plugin))
        return line.exit_code;
    char quoted[LOG_QUOTE_MAX];
    if (line.argument_count == 0 || strcmp(line.arguments[0], "new") != 0)
        return command_misused(&command_plugin, "say what to do: plugin new NAME (plugins lists those that are there)");
    if (line.argument_count != 2)
        return command_misused(&command_plugin, "name the handler: plugin new NAME");
    plugin.name = line.arguments[1];
    if (!name_is_sound(plugin.name))
        return command_misused(&command_plugin,
                               "%s cannot be the name of a handler: a small letter, then up to 62 small letters, "
                               "digits, _ and -, and not \"test\"",
                               log_quote(plugin.name, quoted));
    if (plugin.directory[0] == '\0')
        return command_misused(&command_plugin, "--directory is empty");
    if (!language_is_known(plugin.language))
        return misused_language(plugin.language);
    return plugin_make(&plugin);
}

const struct command command_plugin = {
    .name = "plugin",
    .summary = "make a directory with a handler to begin with",
    .arguments = "new NAME",
    .about =
        "Makes the directory NAME with a small handler for tasks of the class NAME that works: its source, a Makefile\n"
        "(make, make test, make install), a test that tries it without Redis, what the configuration may say about\n"
        "it, and ten lines about all that. In c and c++ it is a plugin, a shared library; in shell and python a\n"
        "program. docs/tutorial.md goes on from there.\n"
        "\n"
        "NAME is a small letter, then up to 62 small letters, digits, _ and -. What is there already is left alone.\n"
        "\n"
        "Exit codes: 0 it was made; 1 it was not, and standard error says why; 2 wrong use.\n",
    .examples = "  holdfast plugin new resize\n"
                "  holdfast plugin new report --language python --directory ~/handlers\n",
    .options = options,
    .arguments_max = 2,
    .run = run,
};
