#include "worker/print/printer.h"

#include <stdarg.h>

#include "base/log.h"
#include "worker/print/human.h"

enum { CELL_MAX = 512 };

struct printer printer_begin(bool as_json, struct wall_time now, struct buffer *buffer)
{
    return (struct printer){.is_json = as_json, .json = json_begin(buffer), .now = now, .file = stdout};
}

void printer_end(struct printer *out)
{
    if (out->is_json)
        json_finish(&out->json);
    else
        buffer_fini(out->json.out);
}

void printer_drop(struct printer *out)
{
    if (out->table != NULL)
        table_free(out->table);
    buffer_fini(out->json.out);
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

void printer_list(struct printer *out, const char *member)
{
    out->unknown = "-";
    out->has_titles = false;
    if (out->is_json)
        json_open(&out->json, member, '[');
    else
        out->table = table_create(NULL);
}

void printer_list_end(struct printer *out, const char *none)
{
    if (out->is_json) {
        json_close(&out->json, ']');
        return;
    }
    bool is_empty = table_rows(out->table) == 0;
    if (is_empty)
        table_free(out->table);
    else
        table_print(out->table, out->file);
    out->table = NULL;
    if (is_empty && none != NULL)
        fprintf(out->file, "%s\n", none);
}

void printer_row(struct printer *out)
{
    if (out->is_json)
        json_open(&out->json, NULL, '{');
}

void printer_row_end(struct printer *out)
{
    if (out->is_json)
        json_close(&out->json, '}');
    out->has_titles = true;
}

void printer_about(struct printer *out, const char *name)
{
    if (!out->is_json)
        table_name(out->table, name);
}

void printer_unknown(struct printer *out, const char *text)
{
    out->unknown = text;
}

void printer_style(struct printer *out, enum table_style style)
{
    if (!out->is_json)
        table_restyle(out->table, style);
}

void printer_rank(struct printer *out, int64_t number)
{
    if (!out->is_json)
        table_number(out->table, number);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

/* False if this output does not have the value. */
static bool is_shown(struct printer *out, const char *title, const char *member)
{
    if (!out->is_json && title != NULL && !out->has_titles)
        table_add_columns(out->table, title);
    return (out->is_json ? member : title) != NULL;
}

static void cell_put(struct printer *out, const char *text)
{
    table_cell(out->table, TABLE_PLAIN, "%s", text != NULL ? text : out->unknown);
}

void printer_text(struct printer *out, const char *title, const char *member, const char *text)
{
    if (!is_shown(out, title, member))
        return;
    if (out->is_json)
        json_text(&out->json, member, text);
    else
        cell_put(out, text);
}

void printer_name(struct printer *out, const char *title, const char *member, const char *name)
{
    char quoted[LOG_QUOTE_MAX];
    printer_text(out, title, member, name == NULL || out->is_json ? name : log_quote(name, quoted));
}

void printer_texts(struct printer *out, const char *title, const char *member, char *const *texts, size_t count)
{
    struct buffer joined = {0};
    char quoted[LOG_QUOTE_MAX];
    if (!is_shown(out, title, member))
        return;
    for (size_t i = 0; !out->is_json && i < count; i++)
        buffer_format(&joined, "%s%s", i > 0 ? "," : "", log_quote(texts[i], quoted));
    if (out->is_json)
        json_texts(&out->json, member, texts, count);
    else
        cell_put(out, buffer_text(&joined));
    buffer_fini(&joined);
}

/* `text` is what people see of it, when it is known. */
static void number_put(struct printer *out, const char *title, const char *member, int64_t number, const char *text)
{
    if (!is_shown(out, title, member))
        return;
    if (out->is_json) {
        json_number_or_nothing(&out->json, member, number);
        return;
    }
    cell_put(out, number >= 0 ? text : NULL);
    table_number(out->table, number);
}

void printer_number(struct printer *out, const char *title, const char *member, int64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)number);
    number_put(out, title, member, number, text);
}

void printer_count(struct printer *out, const char *title, const char *member, int64_t count)
{
    char human[HUMAN_TEXT_MAX];
    number_put(out, title, member, count, human_count(count, human));
}

static void time_put(struct printer *out, const char *title, const char *member, int64_t us, bool is_known,
                     const char *text)
{
    if (!is_shown(out, title, member))
        return;
    if (out->is_json) {
        json_seconds_if(&out->json, member, is_known, us);
        return;
    }
    cell_put(out, is_known ? text : NULL);
    table_number(out->table, us);
}

void printer_span(struct printer *out, const char *title, const char *member, int64_t us)
{
    char human[HUMAN_TEXT_MAX];
    time_put(out, title, member, us, us >= 0, human_span(us, human));
}

void printer_moment(struct printer *out, const char *title, const char *member, struct wall_time moment)
{
    char human[HUMAN_TEXT_MAX];
    time_put(out, title, member, moment.us, moment.us != 0, human_moment(moment, out->now, human));
}

void printer_truth(struct printer *out, const char *member, bool truth)
{
    if (out->is_json)
        json_truth(&out->json, member, truth);
}

void printer_cell(struct printer *out, const char *title, enum table_style style, const char *format, ...)
{
    char text[CELL_MAX];
    va_list values;
    if (!is_shown(out, title, NULL))
        return;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    table_cell(out->table, style, "%s", text);
}

void printer_line(const struct printer *out, const char *format, ...)
{
    va_list values;
    if (out->is_json)
        return;
    va_start(values, format);
    vfprintf(out->file, format, values);
    va_end(values);
    fputc('\n', out->file);
}

const char *printer_known(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : NULL;
}
