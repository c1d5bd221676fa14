/* Reading is strict by writing: a text is taken apart with some patience, what came out is checked and written again,
 * and only if that gives the same bytes is the text a marker. So there is one form of every marker, and no second
 * description of it that could be a little different. */
#include "redlock/marker.h"

#include <stdio.h>
#include <string.h>

#include "base/invariant.h"

_Static_assert(MARKER_PLACES_MAX *(MARKER_ID_DIGITS + 1) + MARKER_GROUP_DIGITS + MARKER_RUN_DIGITS + 100 <
                   MARKER_TEXT_MAX,
               "every marker fits, with its words and numbers");

bool marker_is_hex(const char *text, size_t digits)
{
    return strspn(text, "0123456789abcdef") == digits && text[digits] == '\0';
}

static const char *place_text(const char *id)
{
    return id[0] != '\0' ? id : "-";
}

/* All of a marker fits (above). */
static size_t append(char text[MARKER_TEXT_MAX], size_t length, const char *what)
{
    size_t more = strlen(what);
    invariant(length + more < MARKER_TEXT_MAX);
    memcpy(text + length, what, more + 1);
    return length + more;
}

size_t marker_write(const struct marker *marker, char text[MARKER_TEXT_MAX])
{
    size_t length =
        (size_t)snprintf(text, MARKER_TEXT_MAX, "1 group=%s generation=%u max_ttl_ms=%lld places=", marker->group,
                         (unsigned)marker->generation, (long long)marker->max_ttl_ms);
    for (unsigned i = 0; i < marker->place_count; i++) {
        length = append(text, length, i > 0 ? "," : "");
        length = append(text, length, place_text(marker->places[i]));
    }
    length = append(text, length, " self=");
    length = append(text, length, marker->self);
    length = append(text, length, " run=");
    return append(text, length, place_text(marker->run));
}

/* A number of at most 10 digits, or -1. A leading zero is noticed when the marker is written again. */
static int64_t take_number(const char **at)
{
    size_t digits = strspn(*at, "0123456789");
    int64_t value = digits > 0 && digits <= 10 ? 0 : -1;
    for (size_t i = 0; i < digits && value >= 0; i++)
        value = value * 10 + ((*at)[i] - '0');
    *at += digits;
    return value;
}

static bool take_word(const char **at, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

/* `digits` hexadecimal ones, or "-", which gives "". */
static bool take_id(const char **at, char *id, size_t digits)
{
    if (take_word(at, "-")) {
        id[0] = '\0';
        return true;
    }
    if (strspn(*at, "0123456789abcdef") < digits)
        return false;
    memcpy(id, *at, digits);
    id[digits] = '\0';
    *at += digits;
    return true;
}

static bool take_places(const char **at, struct marker *marker)
{
    do {
        if (marker->place_count == MARKER_PLACES_MAX ||
            !take_id(at, marker->places[marker->place_count++], MARKER_ID_DIGITS))
            return false;
    } while (take_word(at, ","));
    return true;
}

static bool take_apart(struct marker *marker, const char *at)
{
    bool begins = take_word(&at, "1 group=") && take_id(&at, marker->group, MARKER_GROUP_DIGITS);
    if (!begins || !take_word(&at, " generation="))
        return false;
    int64_t generation = take_number(&at);
    if (generation < 1 || generation > UINT32_MAX || !take_word(&at, " max_ttl_ms="))
        return false;
    marker->generation = (uint32_t)generation;
    marker->max_ttl_ms = take_number(&at);
    return take_word(&at, " places=") && take_places(&at, marker) && take_word(&at, " self=") &&
           take_id(&at, marker->self, MARKER_ID_DIGITS) && take_word(&at, " run=") &&
           take_id(&at, marker->run, MARKER_RUN_DIGITS) && *at == '\0';
}

static bool names_a_place_twice(const struct marker *marker)
{
    for (unsigned i = 0; i < marker->place_count; i++)
        if (marker->places[i][0] != '\0' && marker_place_of(marker, marker->places[i]) != (int)i)
            return true;
    return false;
}

static bool check_sense(const struct marker *marker, struct error *error)
{
    if (marker->group[0] == '\0')
        return error_set(error, "the marker names no group");
    if (marker->max_ttl_ms < 1 || marker->max_ttl_ms > MARKER_TTL_MS_MAX)
        return error_set(error, "the marker's max_ttl_ms is not between 1 and %d", MARKER_TTL_MS_MAX);
    if (marker->place_count < 3 || marker->place_count % 2 == 0)
        return error_set(error, "the marker has %u places; a lock group has 3, 5, 7, ... of them", marker->place_count);
    if (names_a_place_twice(marker))
        return error_set(error, "the marker names a place twice");
    if (marker_place_of(marker, marker->self) < 0)
        return error_set(error, "the marker's self is not one of its places");
    return true;
}

bool marker_parse(struct marker *marker, const char *text, size_t length, struct error *error)
{
    char copy[MARKER_TEXT_MAX], again[MARKER_TEXT_MAX];
    *marker = (struct marker){.generation = 0};
    if (length >= sizeof copy || memchr(text, '\0', length) != NULL)
        return error_set(error, "not a marker: %zu bytes of something else", length);
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (!take_apart(marker, copy))
        return error_set(error, "not a marker of this version");
    if (!check_sense(marker, error))
        return false;
    if (marker_write(marker, again) != length || memcmp(again, text, length) != 0)
        return error_set(error, "the marker is not in the form in which markers are written");
    return true;
}

bool marker_same_membership(const struct marker *a, const struct marker *b)
{
    if (strcmp(a->group, b->group) != 0 || a->generation != b->generation || a->max_ttl_ms != b->max_ttl_ms ||
        a->place_count != b->place_count)
        return false;
    for (unsigned i = 0; i < a->place_count; i++)
        if (strcmp(a->places[i], b->places[i]) != 0)
            return false;
    return true;
}

bool marker_follows(const struct marker *marker, const struct marker *before)
{
    uint32_t changed = 0;
    if (strcmp(marker->group, before->group) != 0 || marker->place_count != before->place_count ||
        marker->max_ttl_ms != before->max_ttl_ms)
        return false;
    for (unsigned place = 0; place < before->place_count; place++)
        changed += strcmp(marker->places[place], before->places[place]) != 0;
    return marker->generation == before->generation + changed;
}

int marker_place_of(const struct marker *marker, const char *id)
{
    for (unsigned i = 0; i < marker->place_count && id[0] != '\0'; i++)
        if (strcmp(marker->places[i], id) == 0)
            return (int)i;
    return -1;
}
