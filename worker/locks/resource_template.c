#include "worker/locks/resource_template.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "queue/envelope.h"

/* More arguments than any task has. */
enum { INDEX_DIGITS_MAX = 6, NUMBER_SHOWN_MAX = 40 };

/* --- parsing ------------------------------------------------------------------------------------------------------ */

/* Reports an error at the byte `at`. */
static bool wrong(const char *text, const char *at, struct error *error, const char *what)
{
    return error_set(error, "byte %zu of \"%.200s\": %s", (size_t)(at - text) + 1, text, what);
}

static bool text_is_sound(const char *text, struct error *error)
{
    size_t length = strnlen(text, RESOURCE_TEMPLATE_BYTES_MAX + 1);
    if (length < 1 || length > RESOURCE_TEMPLATE_BYTES_MAX)
        return error_set(error, "a template is a text of 1 to %d bytes", RESOURCE_TEMPLATE_BYTES_MAX);
    for (const char *at = text, *end = text + length; at < end;) {
        size_t bytes = utf8_length(at, end);
        if (bytes == 0 || (unsigned char)*at < 0x20 || *at == 0x7f)
            return error_set(error, "a template, byte %zu: a control character, or no UTF-8", (size_t)(at - text) + 1);
        at += bytes;
    }
    return true;
}

static bool is_number(struct text_span word)
{
    size_t digits = 0;
    while (digits < word.length && word.bytes[digits] >= '0' && word.bytes[digits] <= '9')
        digits++;
    return digits > 0 && digits == word.length && digits <= INDEX_DIGITS_MAX && (word.bytes[0] != '0' || digits == 1);
}

/* Takes the next word off the front of `path`; false at the end. */
static bool word_take(struct text_span *path, struct text_span *word)
{
    if (path->bytes == NULL)
        return false;
    const char *dot = memchr(path->bytes, '.', path->length);
    *word = (struct text_span){path->bytes, dot != NULL ? (size_t)(dot - path->bytes) : path->length};
    *path = dot != NULL ? (struct text_span){dot + 1, path->length - word->length - 1} : (struct text_span){NULL, 0};
    return true;
}

static bool place_is_sound(const char *text, struct text_span place, struct error *error)
{
    struct text_span word;
    if (!word_take(&place, &word) || !is_number(word))
        return wrong(text, word.bytes, error,
                     "a place begins with the number of an argument, as {0} or {1.name}; a brace that is meant as such "
                     "is written {{");
    while (word_take(&place, &word))
        if (word.length == 0)
            return wrong(text, word.bytes, error, "the name of a member is missing between the dots");
    return true;
}

static void part_add(struct resource_template *made, bool is_place, const char *from, const char *to)
{
    if (from == to)
        return;
    made->parts = memory_resize(made->parts, made->count + 1, sizeof *made->parts);
    made->parts[made->count++] = (struct resource_part){is_place, {from, (size_t)(to - from)}};
}

/* Parses one place from its opening brace, and advances `at` past its closing brace. */
static bool place_parse(struct resource_template *made, const char **at, struct error *error)
{
    const char *from = *at + 1, *to = from + strcspn(from, "{}");
    if (*to != '}')
        return wrong(made->text, *at, error,
                     "this brace is not closed; one that is meant as such is written {{ in a template");
    if (!place_is_sound(made->text, (struct text_span){from, (size_t)(to - from)}, error))
        return false;
    part_add(made, true, from, to);
    *at = to + 1;
    return true;
}

static bool parts_parse(struct resource_template *made, struct error *error)
{
    const char *from = made->text, *at = from;
    size_t places = 0;
    while (*at != '\0') {
        if (at[0] != '{') {
            at++;
            continue;
        }
        bool is_brace = at[1] == '{';
        part_add(made, false, from, is_brace ? at + 1 : at);
        if (is_brace)
            at += 2;
        else if (++places > RESOURCE_TEMPLATE_PLACES_MAX)
            return wrong(made->text, at, error, "more than 16 places to fill");
        else if (!place_parse(made, &at, error))
            return false;
        from = at;
    }
    part_add(made, false, from, at);
    return true;
}

static void prefix_make(struct resource_template *made)
{
    struct buffer text = {0};
    size_t i = 0;
    for (; i < made->count && !made->parts[i].is_place; i++)
        buffer_append(&text, made->parts[i].text.bytes, made->parts[i].text.length);
    made->prefix = memory_text(buffer_text(&text));
    buffer_fini(&text);
    char *colon = strchr(made->prefix, ':');
    made->is_exact = colon == NULL && i == made->count;
    if (colon != NULL)
        colon[1] = '\0';
}

bool resource_template_parse(struct resource_template *made, const char *text, struct error *error)
{
    *made = (struct resource_template){.text = NULL};
    if (!text_is_sound(text, error))
        return false;
    made->text = memory_text(text);
    bool understood = parts_parse(made, error);
    if (understood) {
        prefix_make(made);
        understood = strncmp(made->prefix, "hf:", 3) != 0 ||
                     error_set(error, "\"%s\": begins with \"hf:\", which is kept for Holdfast's own keys", text);
    }
    if (!understood)
        resource_template_fini(made);
    return understood;
}

void resource_template_fini(struct resource_template *made)
{
    free(made->text);
    free(made->parts);
    free(made->prefix);
    *made = (struct resource_template){.text = NULL};
}

/* --- filling ------------------------------------------------------------------------------------------------------ */

/* Reports a place that cannot be filled. `path` is the text between its braces. */
static bool unfilled(const struct resource_template *template, struct text_span path, struct error *error,
                     const char *what, struct text_span shown)
{
    int length = shown.length > NUMBER_SHOWN_MAX ? NUMBER_SHOWN_MAX : (int)shown.length;
    return error_set(error, "the resource \"%.200s\": {%.*s} is %s%s%.*s%s", template->text, (int)path.length,
                     path.bytes, what, length > 0 ? " (" : "", length, shown.bytes != NULL ? shown.bytes : "",
                     length > 0 ? ")" : "");
}

static bool number_is_whole(struct text_span value)
{
    for (size_t i = 0; i < value.length; i++)
        if (value.bytes[i] == '.' || value.bytes[i] == 'e' || value.bytes[i] == 'E')
            return false;
    return true;
}

static const struct text_span nothing_shown;

static bool value_append(const struct resource_template *template, struct text_span path, struct text_span value,
                         struct buffer *out, struct error *error)
{
    size_t before = out->length;
    switch (value.bytes[0]) {
    case '"':
        if (!json_string_read(value, out))
            return unfilled(template, path, error, "a text with half a surrogate pair", nothing_shown);
        return out->length > before || unfilled(template, path, error, "an empty text", nothing_shown);
    case '[':
        return unfilled(template, path, error, "a list, and only a text or a whole number can stand there",
                        nothing_shown);
    case '{':
        return unfilled(template, path, error, "an object, and only a text or a whole number can stand there",
                        nothing_shown);
    case 't':
    case 'f':
    case 'n':
        return unfilled(template, path, error, "neither a text nor a whole number", value);
    default:
        if (!number_is_whole(value))
            return unfilled(template, path, error, "no whole number", value);
        buffer_append(out, value.bytes, value.length);
        return true;
    }
}

/* Goes one word down; value.bytes == NULL if there is nothing, and sets `twice` if the member is ambiguous. */
static struct text_span value_below(struct text_span value, struct text_span word, bool *twice)
{
    struct text_span found = {NULL, 0};
    if (value.bytes[0] == '[' && is_number(word))
        return json_array_element(value, strtoul(word.bytes, NULL, 10));
    if (value.bytes[0] == '{')
        *twice = json_object_member(value, word, &found) > 1;
    return found;
}

static bool place_fill(const struct resource_template *template, struct text_span path, struct text_span args,
                       struct buffer *out, struct error *error)
{
    struct text_span value = args, rest = path, word;
    bool twice = false;
    while (value.bytes != NULL && !twice && word_take(&rest, &word))
        value = value_below(value, word, &twice);
    if (twice)
        return unfilled(template, path, error, "there twice", nothing_shown);
    if (value.bytes == NULL)
        return unfilled(template, path, error, "missing in the arguments", nothing_shown);
    return value_append(template, path, value, out, error);
}

static bool name_is_sound(const struct resource_template *template, const char *name, size_t length,
                          struct error *error)
{
    if (length > ENVELOPE_RESOURCE_BYTES_MAX)
        return error_set(error, "the resource \"%.200s\" would have a name of %zu bytes, at most %d are possible",
                         template->text, length, ENVELOPE_RESOURCE_BYTES_MAX);
    if (memchr(name, '\0', length) != NULL)
        return error_set(error, "the resource \"%.200s\" would have a name with the character NUL", template->text);
    if (length >= 3 && memcmp(name, "hf:", 3) == 0)
        return error_set(error,
                         "the resource \"%.200s\" would begin with \"hf:\", which is kept for Holdfast's own keys",
                         template->text);
    return true;
}

bool resource_template_fill(const struct resource_template *template, struct text_span args, struct buffer *out,
                            struct error *error)
{
    size_t start = out->length;
    for (size_t i = 0; i < template->count; i++) {
        const struct resource_part *part = &template->parts[i];
        if (!part->is_place)
            buffer_append(out, part->text.bytes, part->text.length);
        else if (!place_fill(template, part->text, args, out, error))
            return false;
    }
    return name_is_sound(template, out->bytes + start, out->length - start, error);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

bool resource_template_owns(const struct resource_template *template, const char *name)
{
    return template->is_exact ? strcmp(name, template->prefix) == 0
                              : strncmp(name, template->prefix, strlen(template->prefix)) == 0;
}

bool resource_templates_meet(const struct resource_template *a, const struct resource_template *b)
{
    return resource_template_owns(a, b->prefix) || resource_template_owns(b, a->prefix);
}
