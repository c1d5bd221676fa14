/* Writing makes reading strict: a text is taken apart with patience, checked, and written again. It is a marker only if
 * that gives the same bytes. So each marker has one form, described in one place. */
#include "redlock/marker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS_SIZE = MARKER_MEMBERS_MAX * (MARKER_ID_DIGITS + 1) };

_Static_assert(MEMBERS_SIZE + MARKER_GROUP_DIGITS + MARKER_RUN_DIGITS + 100 < MARKER_TEXT_MAX, "every marker fits");
_Static_assert(MARKER_GROUP_DIGITS == 16 && MARKER_ID_DIGITS == 8 && MARKER_RUN_DIGITS == 40 && MEMBERS_SIZE == 135,
               "the widths in take_apart");

bool marker_is_hex(const char *text, size_t digits)
{
    return strspn(text, "0123456789abcdef") == digits && text[digits] == '\0';
}

static const char *or_dash(const char *digits)
{
    return digits[0] != '\0' ? digits : "-";
}

size_t marker_write(const struct marker *marker, char text[MARKER_TEXT_MAX])
{
    char members[MEMBERS_SIZE] = "";
    size_t used = 0;
    for (unsigned i = 0; i < marker->member_count; i++)
        used += (size_t)snprintf(members + used, sizeof members - used, "%s%s", i > 0 ? "," : "",
                                 or_dash(marker->members[i]));
    return (size_t)snprintf(text, MARKER_TEXT_MAX,
                            "%u group=%s generation=%u max_ttl_ms=%lld members=%s self=%s run=%s",
                            (unsigned)MARKER_SCHEME, marker->group, (unsigned)marker->generation,
                            (long long)marker->max_ttl_ms, members, marker->self, or_dash(marker->run));
}

/* Takes the text apart with patience. "-" stands for a vacant number, and for the run of nobody. */
static bool take_apart(struct marker *marker, const char *text)
{
    char members[MEMBERS_SIZE];
    unsigned scheme = 0;
    long long generation = 0, max_ttl_ms = 0;
    if (sscanf(text,
               "%1u group=%16[0-9a-f] generation=%10lld max_ttl_ms=%10lld members=%134[-,0-9a-f] self=%8[0-9a-f] "
               "run=%40[-0-9a-f]",
               &scheme, marker->group, &generation, &max_ttl_ms, members, marker->self, marker->run) != 7 ||
        scheme != MARKER_SCHEME || generation < 1 || generation > UINT32_MAX)
        return false;
    marker->generation = (uint32_t)generation;
    marker->max_ttl_ms = max_ttl_ms;
    if (strcmp(marker->run, "-") == 0)
        marker->run[0] = '\0';
    for (const char *id = members, *end = NULL; id != NULL; id = end != NULL ? end + 1 : NULL) {
        end = strchr(id, ',');
        size_t length = end != NULL ? (size_t)(end - id) : strlen(id);
        if (marker->member_count == MARKER_MEMBERS_MAX || length > MARKER_ID_DIGITS)
            return false;
        char *member = marker->members[marker->member_count++];
        if (length != 1 || id[0] != '-')
            memcpy(member, id, length);
    }
    return true;
}

static bool is_sound(const struct marker *marker)
{
    if (!marker_is_hex(marker->group, MARKER_GROUP_DIGITS) || marker->max_ttl_ms < 1 ||
        marker->max_ttl_ms > MARKER_TTL_MS_MAX || marker->member_count < 3 || marker->member_count % 2 == 0 ||
        marker_number_of(marker, marker->self) < 0 ||
        (marker->run[0] != '\0' && !marker_is_hex(marker->run, MARKER_RUN_DIGITS)))
        return false;
    for (unsigned i = 0; i < marker->member_count; i++) {
        const char *id = marker->members[i];
        if (id[0] != '\0' && (!marker_is_hex(id, MARKER_ID_DIGITS) || marker_number_of(marker, id) != (int)i))
            return false;
    }
    return true;
}

bool marker_parse(struct marker *marker, const char *text, size_t length)
{
    char copy[MARKER_TEXT_MAX], again[MARKER_TEXT_MAX];
    *marker = (struct marker){.generation = 0};
    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return take_apart(marker, copy) && is_sound(marker) && marker_write(marker, again) == length &&
           memcmp(again, text, length) == 0;
}

bool marker_is_of_other_scheme(const char *text)
{
    static const char group[] = " group=";
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && strncmp(text + digits, group, strlen(group)) == 0 && strtoul(text, NULL, 10) != MARKER_SCHEME;
}

bool marker_same_membership(const struct marker *a, const struct marker *b)
{
    if (strcmp(a->group, b->group) != 0 || a->generation != b->generation || a->max_ttl_ms != b->max_ttl_ms ||
        a->member_count != b->member_count)
        return false;
    for (unsigned i = 0; i < a->member_count; i++)
        if (strcmp(a->members[i], b->members[i]) != 0)
            return false;
    return true;
}

bool marker_follows(const struct marker *marker, const struct marker *before)
{
    uint32_t changed = 0;
    if (strcmp(marker->group, before->group) != 0 || marker->member_count != before->member_count ||
        marker->max_ttl_ms != before->max_ttl_ms)
        return false;
    for (unsigned number = 0; number < before->member_count; number++)
        changed += strcmp(marker->members[number], before->members[number]) != 0;
    return marker->generation == before->generation + changed;
}

int marker_number_of(const struct marker *marker, const char *id)
{
    for (unsigned i = 0; i < marker->member_count && id[0] != '\0'; i++)
        if (strcmp(marker->members[i], id) == 0)
            return (int)i;
    return -1;
}
