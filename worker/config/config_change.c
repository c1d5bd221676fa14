#include "worker/config/config_change.h"

#include <string.h>

#include "base/invariant.h"
#include "worker/config/config_table.h"

enum { SETTING_MAX = 128, FIELD_MAX = 32 };

typedef void (*tell_function)(void *context, const struct config_change *change);

/* --- one value ---------------------------------------------------------------------------------------------------- */

static bool words_equal(const struct config_words *a, const struct config_words *b)
{
    for (size_t i = 0; a->count == b->count && i < a->count; i++)
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    return a->count == b->count;
}

static bool pairs_equal(const struct config_pairs *a, const struct config_pairs *b)
{
    for (size_t i = 0; a->count == b->count && i < a->count; i++)
        if (strcmp(a->items[i].key, b->items[i].key) != 0 || strcmp(a->items[i].value, b->items[i].value) != 0)
            return false;
    return a->count == b->count;
}

static size_t field_size(enum config_type type)
{
    switch (type) {
    case CONFIG_TEXT:
    case CONFIG_PATH:
        return sizeof(char *);
    case CONFIG_COUNT:
        return sizeof(unsigned);
    case CONFIG_RATIO:
        return sizeof(double);
    case CONFIG_DURATION:
    case CONFIG_SIZE:
        return sizeof(int64_t);
    case CONFIG_FLAG:
        return sizeof(bool);
    case CONFIG_CHOICE:
        return sizeof(int);
    case CONFIG_WORDS:
        return sizeof(struct config_words);
    case CONFIG_PAIRS:
        return sizeof(struct config_pairs);
    }
    invariant_unreachable("a type outside its enum");
}

static bool field_equals(const struct config_key *key, const void *a, const void *b)
{
    switch (key->type) {
    case CONFIG_TEXT:
    case CONFIG_PATH:
        return strcmp(*(char *const *)a, *(char *const *)b) == 0;
    case CONFIG_WORDS:
        return words_equal(a, b);
    case CONFIG_PAIRS:
        return pairs_equal(a, b);
    default:
        return memcmp(a, b, field_size(key->type)) == 0;
    }
}

static void bytes_exchange(void *a, void *b, size_t size)
{
    char kept[FIELD_MAX];
    invariant(size <= sizeof kept);
    memcpy(kept, a, size);
    memcpy(a, b, size);
    memcpy(b, kept, size);
}

/* --- sections ----------------------------------------------------------------------------------------------------- */

struct pair {
    const struct config_section *section;
    char *before, *after; /* the first items */
    size_t before_count, after_count;
};

static struct pair pair_of(const struct config_section *section, const struct config *before,
                           const struct config *after)
{
    struct pair pair = {.section = section};
    pair.before = config_section_items(section, before, &pair.before_count);
    pair.after = config_section_items(section, after, &pair.after_count);
    return pair;
}

static bool key_differs(const struct pair *pair, const struct config_key *key, size_t index)
{
    size_t offset = index * pair->section->item_size + key->offset;
    return !field_equals(key, pair->before + offset, pair->after + offset);
}

/* For a list: true if something changed, and all changes are reloadable. Added or removed entries change every key. */
static bool list_is_reloadable(const struct pair *pair)
{
    bool any_differs = false;
    for (const struct config_key *key = pair->section->keys; key->name != NULL; key++) {
        bool differs = pair->before_count != pair->after_count;
        for (size_t i = 0; !differs && i < pair->before_count; i++)
            differs = key_differs(pair, key, i);
        if (differs && !key->is_reloadable)
            return false;
        any_differs = any_differs || differs;
    }
    return any_differs;
}

static void key_tell(const struct pair *pair, const struct config_key *key, size_t index, bool is_reloadable,
                     tell_function tell, void *context)
{
    struct buffer setting = {0}, before = {0}, after = {0};
    size_t offset = index * pair->section->item_size + key->offset;
    buffer_append_text(&setting, pair->section->name);
    if (pair->section->is_list)
        buffer_format(&setting, "[%zu]", index);
    buffer_format(&setting, ".%s", key->name);
    config_key_print(key, pair->before + offset, &before);
    config_key_print(key, pair->after + offset, &after);
    tell(context,
         &(struct config_change){buffer_text(&setting), buffer_text(&before), buffer_text(&after), is_reloadable});
    buffer_fini(&setting);
    buffer_fini(&before);
    buffer_fini(&after);
}

static void count_tell(const struct pair *pair, bool is_reloadable, tell_function tell, void *context)
{
    char before[32], after[32];
    snprintf(before, sizeof before, "%zu entries", pair->before_count);
    snprintf(after, sizeof after, "%zu entries", pair->after_count);
    tell(context, &(struct config_change){pair->section->name, before, after, is_reloadable});
}

/* Reports only the number if it changed, because the later entries have other indexes then. */
static void section_tell(const struct pair *pair, tell_function tell, void *context)
{
    bool is_list = pair->section->is_list;
    bool list_reloadable = is_list && list_is_reloadable(pair);
    if (pair->before_count != pair->after_count) {
        count_tell(pair, list_reloadable, tell, context);
        return;
    }
    for (size_t i = 0; i < pair->before_count; i++)
        for (const struct config_key *key = pair->section->keys; key->name != NULL; key++)
            if (key_differs(pair, key, i))
                key_tell(pair, key, i, is_list ? list_reloadable : key->is_reloadable, tell, context);
}

/* --- passwords ---------------------------------------------------------------------------------------------------- */

static void secret_tell(const char *setting, const char *before, const char *after, bool is_reloadable,
                        tell_function tell, void *context)
{
    if (strcmp(before != NULL ? before : "", after != NULL ? after : "") != 0)
        tell(context, &(struct config_change){setting, "(secret)", "(secret)", is_reloadable});
}

static void password_tell(const char *setting, const char *before, const char *after, tell_function tell, void *context)
{
    secret_tell(setting, before, after, false, tell, context);
}

/* The same file is read again; what others may do depends on whether there is one. */
static bool token_is_reloadable(const struct config *running, const struct config *fresh)
{
    return strcmp(running->http.token_file, fresh->http.token_file) == 0;
}

/* Passwords are not keys: they come from the environment. Those in files are read again for each connection. */
static void passwords_tell(const struct config *before, const struct config *after, tell_function tell, void *context)
{
    password_tell("queue_node password", before->queue_node.password, after->queue_node.password, tell, context);
    secret_tell("http token", before->http.token, after->http.token, token_is_reloadable(before, after), tell, context);
    for (size_t i = 0; i < before->lock_node_count && before->lock_node_count == after->lock_node_count; i++) {
        char setting[SETTING_MAX];
        snprintf(setting, sizeof setting, "lock_nodes[%zu] password", i);
        password_tell(setting, before->lock_nodes[i].password, after->lock_nodes[i].password, tell, context);
    }
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

void config_changes(const struct config *before, const struct config *after, tell_function tell, void *context)
{
    for (const struct config_section *section = config_sections; section->name != NULL; section++) {
        struct pair pair = pair_of(section, before, after);
        section_tell(&pair, tell, context);
    }
    passwords_tell(before, after, tell, context);
}

void config_exchange(struct config *running, struct config *fresh)
{
    if (token_is_reloadable(running, fresh))
        bytes_exchange(&running->http.token, &fresh->http.token, sizeof running->http.token);
    for (const struct config_section *section = config_sections; section->name != NULL; section++) {
        struct pair pair = pair_of(section, running, fresh);
        if (!section->is_list) {
            for (const struct config_key *key = section->keys; key->name != NULL; key++)
                if (key->is_reloadable)
                    bytes_exchange(pair.before + key->offset, pair.after + key->offset, field_size(key->type));
        } else if (list_is_reloadable(&pair)) {
            bytes_exchange((char *)running + section->offset, (char *)fresh + section->offset, sizeof(void *));
            bytes_exchange((char *)running + section->count_offset, (char *)fresh + section->count_offset,
                           sizeof(size_t));
        }
    }
}
