/* The types of configuration values: how each is parsed, stored, freed and printed. Independent of keys
 * (config_table.c) and of files (config_file.c). */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "base/real.h"
#include "worker/config/config_file.h"
#include "worker/config/config_table.h"

#define MILLION 1000000.0

/* --- parsing ------------------------------------------------------------------------------------------------ */

static bool expects(const struct config_key *key, const char *text, struct error *error)
{
    struct buffer allowed = {0};
    char quoted[LOG_QUOTE_MAX];
    bool lacks_unit = (key->type == CONFIG_DURATION || key->type == CONFIG_SIZE) &&
                      text[strspn(text, "0123456789.")] == '\0' &&
                      strpbrk(text, "123456789") != NULL; /* 0 needs none */
    config_key_expects(key, &allowed);
    log_quote(text, quoted);
    if (lacks_unit)
        error_set(error, "%s has no unit (write %s%s, for example); expected %s", quoted, quoted,
                  key->type == CONFIG_DURATION ? "s" : "B", buffer_text(&allowed));
    else
        error_set(error, "%s is not allowed here; expected %s", quoted, buffer_text(&allowed));
    buffer_fini(&allowed);
    return false;
}

static bool in_bounds(const struct config_key *key, int64_t value)
{
    return value >= key->min && value <= key->max;
}

static void text_replace(void *field, char *text_take)
{
    char **text = field;
    free(*text);
    *text = text_take;
}

/* Control characters would reach log lines and terminals. */
static bool text_is_printable(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++)
        if (*c < 0x20 || *c == 0x7f)
            return false;
    return true;
}

static bool text_parse(const struct config_key *key, const char *text, const char *directory, void *field,
                       struct error *error)
{
    bool is_path = key->type == CONFIG_PATH && text[0] != '\0';
    char *resolved = is_path ? config_path_join(directory, text) : memory_text(text);
    if (!in_bounds(key, (int64_t)strlen(resolved)) || !text_is_printable(text)) {
        free(resolved);
        return expects(key, text, error);
    }
    text_replace(field, resolved);
    return true;
}

static bool whole_parse(const struct config_key *key, const char *text, unsigned *field, struct error *error)
{
    char *rest;
    errno = 0;
    long long value = strtoll(text, &rest, 10);
    if (errno != 0 || rest == text || *rest != '\0' || !in_bounds(key, value))
        return expects(key, text, error);
    *field = (unsigned)value;
    return true;
}

static bool ratio_parse(const struct config_key *key, const char *text, double *field, struct error *error)
{
    char *rest;
    double value = real_read(text, &rest);
    if (rest == text || *rest != '\0' || !isfinite(value) || value * MILLION < (double)key->min ||
        value * MILLION > (double)key->max)
        return expects(key, text, error);
    *field = value;
    return true;
}

static bool quantity_parse(const struct config_key *key, const char *text, int64_t *field, struct error *error)
{
    int64_t value;
    bool is_quantity =
        key->type == CONFIG_DURATION ? duration_parse(text, &value, NULL) : size_parse(text, &value, NULL);
    if (!is_quantity || !in_bounds(key, value))
        return expects(key, text, error);
    *field = value;
    return true;
}

static bool flag_parse(const struct config_key *key, const char *text, bool *field, struct error *error)
{
    bool is_true = strcmp(text, "true") == 0;
    if (!is_true && strcmp(text, "false") != 0)
        return expects(key, text, error);
    *field = is_true;
    return true;
}

static bool choice_parse(const struct config_key *key, const char *text, void *field, struct error *error)
{
    for (int i = 0; key->choices[i] != NULL; i++) {
        if (strcmp(text, key->choices[i]) == 0) {
            memcpy(field, &i, sizeof i); /* an enum; the table says which */
            return true;
        }
    }
    return expects(key, text, error);
}

bool config_key_parse(const struct config_key *key, const char *text, const char *directory, void *field,
                      struct error *error)
{
    switch (key->type) {
    case CONFIG_TEXT:
    case CONFIG_PATH:
        return text_parse(key, text, directory, field, error);
    case CONFIG_COUNT:
        return whole_parse(key, text, field, error);
    case CONFIG_RATIO:
        return ratio_parse(key, text, field, error);
    case CONFIG_DURATION:
    case CONFIG_SIZE:
        return quantity_parse(key, text, field, error);
    case CONFIG_FLAG:
        return flag_parse(key, text, field, error);
    case CONFIG_CHOICE:
        return choice_parse(key, text, field, error);
    case CONFIG_WORDS:
    case CONFIG_PAIRS:
        break;
    }
    invariant_unreachable("lists and groups are not scalars");
}

void config_words_add(struct config_words *words, const char *text)
{
    words->items = memory_resize(words->items, words->count + 1, sizeof *words->items);
    words->items[words->count++] = memory_text(text);
}

bool config_words_hold(const struct config_words *words, const char *text)
{
    for (size_t i = 0; i < words->count; i++)
        if (strcmp(words->items[i], text) == 0)
            return true;
    return false;
}

void config_pairs_add(struct config_pairs *pairs, const char *name, const char *value)
{
    pairs->items = memory_resize(pairs->items, pairs->count + 1, sizeof *pairs->items);
    pairs->items[pairs->count++] = (struct config_pair){.key = memory_text(name), .value = memory_text(value)};
}

/* --- sections ----------------------------------------------------------------------------------------------- */

static void words_init(const struct config_key *key, struct config_words *words)
{
    for (const char *at = key->fallback; at != NULL && *at != '\0';) {
        size_t length = strcspn(at, " ");
        char *word = memory_text_of(at, length);
        config_words_add(words, word);
        free(word);
        at += length + (at[length] == ' ');
    }
}

static void key_init(const struct config_key *key, void *field)
{
    if (key->type == CONFIG_PAIRS)
        return;
    if (key->type == CONFIG_WORDS) {
        words_init(key, field);
    } else if (key->fallback == NULL) {
        invariant(key->type == CONFIG_TEXT || key->type == CONFIG_PATH);
        text_replace(field, memory_text(""));
    } else {
        struct error error = ERROR_NONE;
        invariant(config_key_parse(key, key->fallback, ".", field, &error));
    }
}

void config_section_init(const struct config_section *section, void *item)
{
    for (const struct config_key *key = section->keys; key->name != NULL; key++)
        key_init(key, (char *)item + key->offset);
}

static void words_fini(struct config_words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->items[i]);
    free(words->items);
}

static void pairs_fini(struct config_pairs *pairs)
{
    for (size_t i = 0; i < pairs->count; i++) {
        memory_wipe(pairs->items[i].value, strlen(pairs->items[i].value)); /* may be a secret */
        free(pairs->items[i].key);
        free(pairs->items[i].value);
    }
    free(pairs->items);
}

void config_section_fini(const struct config_section *section, void *item)
{
    free(((struct config_source *)item)->where);
    for (const struct config_key *key = section->keys; key->name != NULL; key++) {
        void *field = (char *)item + key->offset;
        if (key->type == CONFIG_TEXT || key->type == CONFIG_PATH)
            free(*(char **)field);
        else if (key->type == CONFIG_WORDS)
            words_fini(field);
        else if (key->type == CONFIG_PAIRS)
            pairs_fini(field);
    }
}

void *config_section_items(const struct config_section *section, const struct config *config, size_t *count)
{
    char *member = (char *)config + section->offset;
    if (!section->is_list) {
        *count = 1;
        return member;
    }
    void *items;
    memcpy(&items, member, sizeof items); /* a pointer to the section's own struct */
    memcpy(count, (const char *)config + section->count_offset, sizeof *count);
    return items;
}

/* --- printing ----------------------------------------------------------------------------------------------- */

void config_text_print(const char *text, struct buffer *out)
{
    buffer_append_text(out, "\"");
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            buffer_append(out, "\\", 1);
        if (*c == '\n')
            buffer_append_text(out, "\\n");
        else
            buffer_append(out, c, 1);
    }
    buffer_append_text(out, "\"");
}

/* Prints plain decimals with a point: libconfig does not read every form of %g. */
static void ratio_print(double value, struct buffer *out)
{
    buffer_format(out, "%.6f", value);
    while (out->bytes[out->length - 1] == '0' && out->bytes[out->length - 2] != '.')
        out->length--;
}

static void words_print(const struct config_words *words, struct buffer *out)
{
    buffer_append_text(out, "[");
    for (size_t i = 0; i < words->count; i++) {
        buffer_append_text(out, i == 0 ? "" : ", ");
        config_text_print(words->items[i], out);
    }
    buffer_append_text(out, "]");
}

/* Recognises secrets among the settings of plugins, and the variables of programs, by their names. */
static bool names_a_secret(const char *key)
{
    static const char *const words[] = {"password", "secret", "token", "credential", "private", "key"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasestr(key, words[i]) != NULL)
            return true;
    return false;
}

static void pairs_print(const struct config_pairs *pairs, struct buffer *out)
{
    buffer_append_text(out, "{ ");
    for (size_t i = 0; i < pairs->count; i++) {
        const struct config_pair *pair = &pairs->items[i];
        buffer_format(out, "%s = ", pair->key);
        config_text_print(names_a_secret(pair->key) ? "(redacted)" : pair->value, out);
        buffer_append_text(out, "; ");
    }
    buffer_append_text(out, "}");
}

static const char *choice_name(const struct config_key *key, const void *field)
{
    int position;
    memcpy(&position, field, sizeof position);
    return key->choices[position];
}

void config_key_print(const struct config_key *key, const void *field, struct buffer *out)
{
    char text[QUANTITY_TEXT_MAX];
    switch (key->type) {
    case CONFIG_TEXT:
    case CONFIG_PATH:
        config_text_print(*(char *const *)field, out);
        break;
    case CONFIG_COUNT:
        buffer_format(out, "%u", *(const unsigned *)field);
        break;
    case CONFIG_RATIO:
        ratio_print(*(const double *)field, out);
        break;
    case CONFIG_DURATION:
        buffer_format(out, "\"%s\"", duration_print(*(const int64_t *)field, text));
        break;
    case CONFIG_SIZE:
        buffer_format(out, "\"%s\"", size_print(*(const int64_t *)field, text));
        break;
    case CONFIG_FLAG:
        buffer_append_text(out, *(const bool *)field ? "true" : "false");
        break;
    case CONFIG_CHOICE:
        buffer_format(out, "\"%s\"", choice_name(key, field));
        break;
    case CONFIG_WORDS:
        words_print(field, out);
        break;
    case CONFIG_PAIRS:
        pairs_print(field, out);
        break;
    }
}

static void choices_print(const struct config_key *key, struct buffer *out)
{
    for (size_t i = 0; key->choices[i] != NULL; i++)
        buffer_format(out, "%s\"%s\"", i == 0 ? "" : (key->choices[i + 1] == NULL ? " or " : ", "), key->choices[i]);
}

void config_key_expects(const struct config_key *key, struct buffer *out)
{
    char low[QUANTITY_TEXT_MAX], high[QUANTITY_TEXT_MAX];
    switch (key->type) {
    case CONFIG_TEXT:
    case CONFIG_PATH:
        buffer_format(out, "a text of %lld to %lld printable bytes", (long long)key->min, (long long)key->max);
        break;
    case CONFIG_COUNT:
        buffer_format(out, "a whole number from %lld to %lld", (long long)key->min, (long long)key->max);
        break;
    case CONFIG_RATIO:
        buffer_append_text(out, "a number from ");
        ratio_print((double)key->min / MILLION, out);
        buffer_append_text(out, " to ");
        ratio_print((double)key->max / MILLION, out);
        break;
    case CONFIG_DURATION:
        buffer_format(out, "a duration from \"%s\" to \"%s\"", duration_print(key->min, low),
                      duration_print(key->max, high));
        break;
    case CONFIG_SIZE:
        buffer_format(out, "a size from \"%s\" to \"%s\"", size_print(key->min, low), size_print(key->max, high));
        break;
    case CONFIG_FLAG:
        buffer_append_text(out, "true or false");
        break;
    case CONFIG_CHOICE:
        choices_print(key, out);
        break;
    case CONFIG_WORDS:
        buffer_format(out, "%sa list of %lld to %lld texts: [\"a\", \"b\"]", key->may_be_one ? "a text, or " : "",
                      (long long)key->min, (long long)key->max);
        break;
    case CONFIG_PAIRS:
        buffer_append_text(out, "a group of texts: { key = \"value\"; }");
        break;
    }
}
