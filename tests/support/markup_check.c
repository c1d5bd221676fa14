/* What is called for every piece of a page does not look at the rest of it, as functions for strings may: a sanitizer's
 * look for its end every time. */
#include "tests/support/markup_check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64, NAME_BYTES = 32, ATTRIBUTES_MAX = 32 };

struct check {
    const char *at;
    char open[DEPTH_MAX][NAME_BYTES];
    size_t depth;
    const char *mistake;
};

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == ':';
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names != NULL && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

static bool is_void(const char *name)
{
    static const char *const names[] = {"meta", "link", "br", "img", "input", "hr", NULL};
    return is_one_of(name, names);
}

static bool is_raw(const char *name)
{
    static const char *const names[] = {"script", "style", NULL};
    return is_one_of(name, names);
}

static bool refuse(struct check *check, const char *mistake)
{
    check->mistake = mistake;
    return false;
}

static bool name_take(struct check *check, char name[NAME_BYTES])
{
    size_t length = 0;
    while (is_name_byte(check->at[length]))
        length++;
    if (length == 0 || length >= NAME_BYTES)
        return refuse(check, "a name was expected");
    memcpy(name, check->at, length);
    name[length] = '\0';
    check->at += length;
    return true;
}

/* &name; or &#digits; */
static bool reference_take(struct check *check)
{
    size_t length = 1;
    if (check->at[length] == '#')
        length++;
    while (is_name_byte(check->at[length]) && length < 10)
        length++;
    if (check->at[length] != ';' || length < 3)
        return refuse(check, "a bare &");
    check->at += length + 1;
    return true;
}

static bool value_take(struct check *check)
{
    if (check->at[0] != '=' || check->at[1] != '"')
        return refuse(check, "an attribute without a value in double quotes");
    check->at += 2;
    while (*check->at != '"') {
        if (*check->at == '\0' || *check->at == '<')
            return refuse(check, "a value without an end");
        if (*check->at == '&') {
            if (!reference_take(check))
                return false;
        } else {
            check->at++;
        }
    }
    check->at++;
    return true;
}

/* From behind the name to behind the >. */
static bool attributes_take(struct check *check, bool *is_closed)
{
    char names[ATTRIBUTES_MAX][NAME_BYTES];
    for (size_t count = 0;; count++) {
        size_t blanks = 0;
        for (; *check->at == ' ' || *check->at == '\n'; check->at++)
            blanks++;
        *is_closed = check->at[0] == '/' && check->at[1] == '>';
        if (*check->at == '>' || *is_closed) {
            check->at += *is_closed ? 2 : 1;
            return true;
        }
        if (blanks == 0 || count == ATTRIBUTES_MAX)
            return refuse(check, "an attribute was expected");
        if (!name_take(check, names[count]) || !value_take(check))
            return false;
        for (size_t i = 0; i < count; i++)
            if (strcmp(names[i], names[count]) == 0)
                return refuse(check, "an attribute twice");
    }
}

static bool raw_take(struct check *check, const char *name)
{
    char end[NAME_BYTES + 4];
    snprintf(end, sizeof end, "</%s>", name);
    const char *found = strstr(check->at, end);
    if (found == NULL)
        return refuse(check, "a script or style without an end");
    check->at = found + strlen(end);
    return true;
}

static bool opening_take(struct check *check)
{
    char name[NAME_BYTES];
    bool is_closed = false;
    check->at++;
    if (!name_take(check, name) || !attributes_take(check, &is_closed))
        return false;
    if (is_raw(name))
        return raw_take(check, name);
    if (is_closed || is_void(name))
        return true;
    if (check->depth == DEPTH_MAX)
        return refuse(check, "too deep");
    snprintf(check->open[check->depth++], NAME_BYTES, "%s", name);
    return true;
}

static bool closing_take(struct check *check)
{
    char name[NAME_BYTES];
    check->at += 2;
    if (!name_take(check, name))
        return false;
    if (*check->at != '>')
        return refuse(check, "a closing tag with more than its name");
    check->at++;
    if (check->depth == 0 || strcmp(check->open[check->depth - 1], name) != 0)
        return refuse(check, "an element is closed that is not the innermost");
    check->depth--;
    return true;
}

static bool piece_take(struct check *check)
{
    if (*check->at == '&')
        return reference_take(check);
    if (*check->at == '>')
        return refuse(check, "a bare >");
    if (*check->at != '<') {
        check->at++;
        return true;
    }
    return check->at[1] == '/' ? closing_take(check) : opening_take(check);
}

char *markup_check(const char *page)
{
    static const char type[] = "<!DOCTYPE html>\n";
    struct check check = {.at = page};
    if (strncmp(page, type, strlen(type)) != 0)
        check.mistake = "no document type";
    else
        check.at += strlen(type);
    while (check.mistake == NULL && *check.at != '\0' && piece_take(&check))
        ;
    if (check.mistake == NULL && check.depth > 0)
        check.mistake = "an element is not closed";
    if (check.mistake == NULL)
        return NULL;
    char *text = NULL;
    if (asprintf(&text, "%s at byte %zu: %.60s", check.mistake, (size_t)(check.at - page), check.at) < 0)
        abort();
    return text;
}

size_t markup_count(const char *page, const char *element)
{
    char opening[NAME_BYTES + 2];
    size_t count = 0;
    snprintf(opening, sizeof opening, "<%s", element);
    size_t length = strlen(opening);
    const char *at = page, *end = page + strlen(page);
    for (; (at = memmem(at, (size_t)(end - at), opening, length)) != NULL; at += length)
        count += !is_name_byte(at[length]);
    return count;
}
