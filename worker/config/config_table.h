/* The table of all configuration keys: what the file may contain, and where it goes in struct config. */
#ifndef WORKER_CONFIG_TABLE_H
#define WORKER_CONFIG_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "worker/config/config.h"

/* The syntax in the file, and the type of the field. */
enum config_type {
    CONFIG_TEXT,     /* "..."           char *; bounds: its length in bytes */
    CONFIG_PATH,     /* "..."           char *, relative to the directory of the file */
    CONFIG_WORDS,    /* ["a", "b"]      struct config_words; bounds: the number of words */
    CONFIG_COUNT,    /* 16              unsigned */
    CONFIG_RATIO,    /* 0.01            double; bounds in millionths */
    CONFIG_DURATION, /* "10s"           int64_t, nanoseconds */
    CONFIG_SIZE,     /* "64KiB"         int64_t, bytes */
    CONFIG_FLAG,     /* true            bool */
    CONFIG_CHOICE,   /* "info"          an enum whose values are the positions in `choices` */
    CONFIG_PAIRS,    /* { key = "v"; }  struct config_pairs */
};

enum { CONFIG_ITEM_MAX = 128 };

struct config_key {
    const char *name;
    enum config_type type;
    size_t offset; /* in the struct of its section */
    /* The default as in the file but without quotes; words separated by blanks; NULL = empty. */
    const char *fallback;
    int64_t min, max;
    size_t item_max;            /* bytes of one of CONFIG_WORDS; 0 = CONFIG_ITEM_MAX */
    bool may_be_one;            /* for CONFIG_WORDS: a single text is a list of one */
    const char *const *choices; /* ends with NULL */
    bool is_required;
    bool is_reloadable; /* can change while the worker runs: only the loop thread reads it */
    bool in_sample;     /* active in the sample file; the others are comments there */
    const char *help;
    const char *example; /* for the sample file instead of the default; numbers and lists as in the file */
};

/* The beginning of every row. Each table defines FIELD(member), the offset of the member in its struct. */
#define KEY(key_name, key_type, member, value, least, most)                                                            \
    .name = key_name, .type = key_type, FIELD(member), .fallback = value, .min = least, .max = most

struct config_section {
    const char *name;
    bool is_list; /* a list of groups: ( { ... }, { ... } ) */
    bool is_required;
    bool is_optional;    /* commented out in the sample file */
    size_t offset;       /* in struct config: the struct itself, or a pointer to an array of it */
    size_t count_offset; /* of a list: a size_t in struct config */
    size_t item_size;
    const struct config_key *keys; /* ends with name == NULL */
    const char *help;
    const char *sample_more; /* of a list in the sample file: the items after the first */
};

extern const struct config_section config_sections[]; /* ends with name == NULL */

/* Parses the text of one scalar (not CONFIG_WORDS, CONFIG_PAIRS) into its field, which has a valid value before and
 * after. Relative paths are joined to `directory`. */
bool config_key_parse(const struct config_key *key, const char *text, const char *directory, void *field,
                      struct error *error) MUST_CHECK;
void config_words_add(struct config_words *words, const char *text);
bool config_words_hold(const struct config_words *words, const char *text);
void config_pairs_add(struct config_pairs *pairs, const char *name, const char *value);
/* Sets every field of a section to its default. The struct must be zeroed. */
void config_section_init(const struct config_section *section, void *item);
void config_section_fini(const struct config_section *section, void *item);

/* Prints the field's value as in the file, in quotes if necessary. */
void config_key_print(const struct config_key *key, const void *field, struct buffer *out);
/* Prints a text in quotes, escaped for the file. */
void config_text_print(const char *text, struct buffer *out);
/* Prints what a key expects, for errors and the manual: "a whole number from 1 to 1024". */
void config_key_expects(const struct config_key *key, struct buffer *out);
/* The items of a section in a configuration: the first one and their number. */
void *config_section_items(const struct config_section *section, const struct config *config, size_t *count);

#endif
