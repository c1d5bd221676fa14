#include "worker/config/findings.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/print/printer.h"

enum { FINDING_TEXT_MAX = 1024 };

static void findings_add(struct findings *findings, bool is_warning, const char *format, va_list values)
    __attribute__((format(printf, 3, 0)));

static void findings_add(struct findings *findings, bool is_warning, const char *format, va_list values)
{
    if (is_warning)
        findings->warnings++;
    else
        findings->errors++;
    if (findings->count == FINDINGS_MAX)
        return;
    char text[FINDING_TEXT_MAX];
    vsnprintf(text, sizeof text, format, values);
    findings->items[findings->count++] =
        (struct finding){.is_warning = is_warning, .text = memory_text(log_defuse(text))};
}

void findings_error(struct findings *findings, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    findings_add(findings, false, format, values);
    va_end(values);
}

void findings_warn(struct findings *findings, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    findings_add(findings, true, format, values);
    va_end(values);
}

void findings_fini(struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        free(findings->items[i].text);
    *findings = (struct findings){.count = 0};
}

void findings_print(const struct findings *findings, FILE *out)
{
    for (size_t i = 0; i < findings->count; i++)
        fprintf(out, "%s: %s\n", findings->items[i].is_warning ? "warning" : "error", findings->items[i].text);
    size_t left_out = findings->errors + findings->warnings - findings->count;
    if (left_out > 0)
        fprintf(out, "... and %zu more\n", left_out);
}

static void texts_put(const struct findings *findings, bool are_warnings, struct json_writer *json)
{
    json_open(json, are_warnings ? "warnings" : "errors", '[');
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].is_warning == are_warnings)
            json_text(json, NULL, findings->items[i].text);
    json_close(json, ']');
}

void findings_put(const struct findings *findings, struct printer *out)
{
    if (out->is_json) {
        texts_put(findings, false, &out->json);
        texts_put(findings, true, &out->json);
    } else {
        fflush(stdout);
        findings_print(findings, stderr);
    }
}

const char *findings_find(const struct findings *findings, const char *part)
{
    for (size_t i = 0; i < findings->count; i++)
        if (strstr(findings->items[i].text, part) != NULL)
            return findings->items[i].text;
    return NULL;
}
