#include "tests/support/page_check.h"

#include <string.h>

#include "queue/json.h"
#include "tests/support/test.h"

/* What lies between the two, each of which the page has once. */
static char *between(const char *page, const char *opening, const char *closing)
{
    const char *from = strstr(page, opening), *to = from != NULL ? strstr(from, closing) : NULL;
    if (to == NULL || strstr(from + 1, opening) != NULL)
        fail_msg("not once in the page: %s", opening);
    from += strlen(opening);
    return strndup(from, (size_t)(to - from));
}

static void assert_count(const char *page, const char *text, unsigned expected)
{
    unsigned count = 0;
    for (const char *at = page; (at = strstr(at, text)) != NULL; at++)
        count++;
    if (count != expected)
        fail_msg("%u times, not %u: %s", count, expected, text);
}

static void check(const char *page)
{
    assert_int_equal(strncmp(page, "<!DOCTYPE html>\n", 16), 0);
    assert_contains(page, "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\"");
    static const char *const once[] = {"<title", "</title>", "<style", "</style>", "<body", "</body>",
                                       "<h1",    "</h1>",    "<pre",   "</pre>",   "<main", "</html>"};
    for (size_t i = 0; i < sizeof once / sizeof once[0]; i++)
        assert_count(page, once[i], 1);
    assert_count(page, "<script", 2);
    assert_count(page, "</script", 2);
    assert_count(page, "<!--", 0);
    assert_count(page, "\xe2\x80\xae", 0);
    assert_count(page, "\xe2\x80\xa8", 0);
    for (const char *at = page; *at != '\0'; at++)
        if (((unsigned char)*at < ' ' && *at != '\n') || *at == 0x7f)
            fail_msg("a control in the page: %.40s", at);
}

char *page_data(const char *page)
{
    struct envelope_limits limits = {.size = SIZE_MAX, .depth = 64, .keys = SIZE_MAX};
    struct error error = ERROR_NONE;
    check(page);
    char *data = between(page, "<script type=\"application/json\">", "</script>"), *to = data;
    assert_null(strchr(data, '<'));
    if (!json_check(data, strlen(data), &limits, &error))
        fail_msg("the data are no JSON: %s", error.text);
    for (const char *at = data; *at != '\0'; at++) {
        bool is_escape = strncmp(at, "\\u003c", 6) == 0;
        *to++ = is_escape ? '<' : *at;
        at += is_escape ? 5 : 0;
    }
    *to = '\0';
    return data;
}

char *page_text(const char *page)
{
    return between(page, "<pre>", "</pre>");
}
