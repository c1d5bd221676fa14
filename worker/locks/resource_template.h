/* A template for the name of a resource, filled from the task's arguments: "account:{0}", "user:{0.id}".
 *
 *     text            stands for itself, 1 to 512 bytes of UTF-8 without control characters
 *     {N}             argument N, counted from 0
 *     {N.a.b}         the member b of the member a of argument N; where there is a list, a number counts its elements
 *                     from 0: "{0.2}". A name has no dot, no brace and no control character in it
 *     {{              the character {; a } that closes nothing stands for itself
 *
 * Only texts and whole numbers fill a place: a text unescaped, a number by its digits exactly as the producer wrote
 * them, however many. Everything else is refused, because two producers may write the same value in two ways and would
 * then lock different resources: numbers with a fraction or an exponent, true, false, null, lists, objects, duplicate
 * members. Also refused: a missing value, an empty text, and a name that no resource can have (longer than 512 bytes,
 * with a NUL, or beginning with "hf:").
 *
 * A template is parsed once and then filled for each task. Pure; a parsed template may be read by any thread. */
#ifndef WORKER_RESOURCE_TEMPLATE_H
#define WORKER_RESOURCE_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "queue/json.h"

enum { RESOURCE_TEMPLATE_BYTES_MAX = 512, RESOURCE_TEMPLATE_PLACES_MAX = 16 };

struct resource_part {
    bool is_place;         /* to be filled; else literal text */
    struct text_span text; /* the literal text; of a place, the text between the braces */
};

struct resource_template {
    char *text;
    struct resource_part *parts;
    size_t count;
    /* The common beginning of all its names: the text before the first place, up to the first ":". Without either,
     * the whole name: is_exact. Empty if the template begins with a place. */
    char *prefix;
    bool is_exact;
};

/* False if `text` is no template: `error` says what is wrong at which byte (from 1), and `made` is empty. Copies
 * `text`; resource_template_fini frees it. */
bool resource_template_parse(struct resource_template *made, const char *text, struct error *error) MUST_CHECK;
void resource_template_fini(struct resource_template *made);

/* Appends the name for these arguments, a valid JSON array, without NUL. False if they do not fill it: `error` says
 * why, and `out` may have a part of the name. */
bool resource_template_fill(const struct resource_template *template, struct text_span args, struct buffer *out,
                            struct error *error) MUST_CHECK;

/* Whether both templates can make the same name. */
bool resource_templates_meet(const struct resource_template *a, const struct resource_template *b);
/* Whether this name belongs to the template: has its prefix or, if is_exact, equals it. */
bool resource_template_owns(const struct resource_template *template, const char *name);

#endif
