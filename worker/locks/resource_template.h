/* A template for the name of what a task locks, filled from the task's arguments: "account:{0}", "user:{0.id}".
 *
 *     text            stands for itself, 1 to 512 bytes of UTF-8 without control characters
 *     {N}             argument N, counted from 0
 *     {N.a.b}         the member b of the member a of argument N; where there is a list, a number counts its elements
 *                     from 0: "{0.2}". A name has no dot, no brace and no control character in it
 *     {{              the character {; a } that closes nothing stands for itself
 *
 * Only texts and whole numbers fill a place: a text unescaped, a number by its digits exactly as the producer wrote
 * them, however many. Everything else is refused, because two producers may write the same value in two ways and would
 * then lock different things: numbers with a fraction or an exponent, true, false, null, lists, objects, a member that
 * is there twice. So is what is missing, an empty text (it names nothing), and a name that no resource can have: longer
 * than 512 bytes, with the character NUL, or beginning with "hf:".
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
    bool is_place;         /* to be filled; else it stands for itself */
    struct text_span text; /* of the template's text; of a place, what is between the braces */
};

struct resource_template {
    char *text;
    struct resource_part *parts;
    size_t count;
    /* What every name begins with that is made of it: all before the first place, up to the first ":". When there is
     * neither, the name itself: is_exact. Empty for a template that begins with a place. */
    char *prefix;
    bool is_exact;
};

/* False, with what is wrong and at which byte (counted from 1), when `text` is no template; `made` is then empty.
 * `text` is copied; resource_template_fini frees it. */
bool resource_template_parse(struct resource_template *made, const char *text, struct error *error) MUST_CHECK;
void resource_template_fini(struct resource_template *made);

/* Appends the name for these arguments, a valid JSON array, without NUL. False when they do not fill it; `error` says
 * what was there, and `out` may have a part of the name then. */
bool resource_template_fill(const struct resource_template *template, struct text_span args, struct buffer *out,
                            struct error *error) MUST_CHECK;

/* Whether some name can be made of both. */
bool resource_templates_meet(const struct resource_template *a, const struct resource_template *b);
/* Whether a resource with this name belongs to the template: begins as it does, or is the name itself. */
bool resource_template_owns(const struct resource_template *template, const char *name);

#endif
