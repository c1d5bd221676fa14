#include "queue/terms.h"

#include <string.h>

#define SPAN(span) (int)(span).length, (span).bytes

/* --- the text ----------------------------------------------------------------------------------------------------- */

static void field_append(struct buffer *text, const char *field, char end)
{
    for (const char *at = field; *at != '\0'; at++) {
        char byte = (unsigned char)*at < ' ' || *at == '\x7f' ? '_' : *at;
        buffer_append(text, &byte, 1);
    }
    buffer_append(text, &end, 1);
}

void terms_append(struct buffer *text, const char *name, const char *breaking, const char *disturbing)
{
    field_append(text, name, '\t');
    field_append(text, breaking, '\t');
    field_append(text, disturbing, '\n');
}

static bool field_next(const char **at, char end, struct text_span *field)
{
    const char *stop = strchr(*at, end);
    if (stop == NULL)
        return false;
    *field = (struct text_span){*at, (size_t)(stop - *at)};
    *at = stop + 1;
    return memchr(field->bytes, '\n', field->length) == NULL;
}

bool terms_next(const char **at, struct terms_item *item)
{
    return field_next(at, '\t', &item->name) && field_next(at, '\t', &item->breaking) &&
           field_next(at, '\n', &item->disturbing);
}

bool terms_span_equals(struct text_span one, struct text_span other)
{
    return one.length == other.length && memcmp(one.bytes, other.bytes, one.length) == 0;
}

bool terms_find(const char *text, struct text_span name, struct terms_item *item)
{
    while (terms_next(&text, item))
        if (terms_span_equals(item->name, name))
            return true;
    return false;
}

bool terms_lists(const char *lines, struct text_span name)
{
    for (const char *end; *lines != '\0'; lines = *end == '\n' ? end + 1 : end) {
        end = strchrnul(lines, '\n');
        if (terms_span_equals((struct text_span){lines, (size_t)(end - lines)}, name))
            return true;
    }
    return false;
}

/* --- two processes ------------------------------------------------------------------------------------------------ */

static const char *consequence_of(bool one_waits, bool other_waits)
{
    if (one_waits && other_waits)
        return "both wait for a third one";
    return one_waits || other_waits ? "does not serve this until all with other terms have ended"
                                    : "both serve it: stop one of them";
}

static void sentence_write(const struct terms_party *one, const struct terms_party *other,
                           const struct terms_difference *difference, struct buffer *out)
{
    struct text_span name = difference->name;
    bool one_waits = terms_lists(one->waits, name), other_waits = terms_lists(other->waits, name);
    buffer_clear(out);
    buffer_format(out, "%.*s: %.*s in %s, but %.*s in %s", SPAN(name), SPAN(difference->here), one->identity,
                  SPAN(difference->there), other->identity);
    if (!difference->breaks)
        return;
    buffer_append_text(out, ", so that locks would not keep their tasks apart; ");
    if (one_waits != other_waits)
        buffer_format(out, "%s ", one_waits ? one->identity : other->identity);
    buffer_append_text(out, consequence_of(one_waits, other_waits));
}

void terms_compare(const struct terms_party *one, const struct terms_party *other,
                   void (*tell)(void *context, const struct terms_difference *difference), void *context)
{
    struct buffer sentence = {0};
    struct terms_item mine, theirs;
    for (const char *at = one->terms; terms_next(&at, &mine);) {
        if (!terms_find(other->terms, mine.name, &theirs))
            continue;
        struct terms_difference difference = {mine.name, mine.breaking, theirs.breaking, other->identity, true, NULL};
        if (terms_span_equals(mine.breaking, theirs.breaking)) {
            if (terms_span_equals(mine.disturbing, theirs.disturbing))
                continue;
            difference.here = mine.disturbing;
            difference.there = theirs.disturbing;
            difference.breaks = false;
        }
        sentence_write(one, other, &difference, &sentence);
        difference.sentence = buffer_text(&sentence);
        tell(context, &difference);
    }
    buffer_fini(&sentence);
}
