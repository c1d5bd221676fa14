#include "worker/print/page.h"

#include <string.h>

#include "base/invariant.h"
#include "base/utf8.h"
#include "worker/print/embedded_text.h"
#include "worker/print/json_writer.h"

/* Nothing is loaded from anywhere, whatever the page says. */
#define POLICY "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"

static const char *embedded(const char *name)
{
    const struct embedded_text *found = page_texts;
    while (found->name != NULL && strcmp(found->name, name) != 0)
        found++;
    invariant(found->name != NULL);
    return found->text;
}

/* A character of a text, or its end; what is not UTF-8 becomes the character that says so. */
static size_t character_write(const char *at, const char *end, struct buffer *out)
{
    size_t length = utf8_length(at, end);
    if (length == 0)
        buffer_append_text(out, "\xef\xbf\xbd");
    else if (*at == '&')
        buffer_append_text(out, "&amp;");
    else if (*at == '<')
        buffer_append_text(out, "&lt;");
    else
        buffer_append(out, at, length);
    return length > 0 ? length : 1;
}

/* The content of an element. Controls and what reorders text show as escapes. */
static void text_write(const char *text, struct buffer *out)
{
    struct buffer safe = {0};
    for (bool has_line = true; has_line;) {
        size_t length = strcspn(text, "\n");
        has_line = text[length] == '\n';
        json_append_defused(&safe, text, length);
        buffer_append(&safe, "\n", has_line);
        text += length + has_line;
    }
    for (const char *at = safe.bytes, *end = at + safe.length; at < end;)
        at += character_write(at, end, out);
    buffer_fini(&safe);
}

/* Only texts of JSON can hold a '<'. As an escape it cannot end the element. */
static void json_write(const char *json, struct buffer *out)
{
    struct buffer safe = {0};
    json_append_defused(&safe, json, strlen(json));
    const char *at = buffer_text(&safe);
    for (const char *found; (found = strchr(at, '<')) != NULL; at = found + 1) {
        buffer_append(out, at, (size_t)(found - at));
        buffer_append_text(out, "\\u003c");
    }
    buffer_append_text(out, at);
    buffer_fini(&safe);
}

void page_write(const struct page *page, struct buffer *out)
{
    buffer_append_text(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                            "<meta http-equiv=\"Content-Security-Policy\" content=\"" POLICY);
    buffer_append_text(out, page->connects ? "; connect-src 'self'\">\n" : "\">\n");
    buffer_append_text(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    text_write(page->title, out);
    buffer_append_text(out, "</title><style>\n");
    buffer_append_text(out, embedded("page.css"));
    buffer_append_text(out, "</style></head><body>\n<h1>");
    text_write(page->title, out);
    buffer_append_text(out, "</h1>\n<main></main>\n");
    if (page->text != NULL) {
        buffer_append_text(out, "<details open><summary>The report as text</summary><pre>");
        text_write(page->text, out);
        buffer_append_text(out, "</pre></details>\n");
    }
    buffer_append_text(out, "<script type=\"application/json\">");
    json_write(page->json, out);
    buffer_append_text(out, "</script>\n<script>\n");
    buffer_append_text(out, embedded("page.js"));
    buffer_append_text(out, embedded(page->script));
    buffer_append_text(out, "start(draw);\n</script></body></html>\n");
}
