#include "worker/isolation/program_report.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "queue/iteration.h"
#include "queue/json.h"

enum { FIELDS_MAX = JOB_FIELDS_MAX, WORD_MAX = 64 };

static const struct envelope_limits bounds = {.size = PROGRAM_REPORT_LINE_MAX, .depth = 64, .keys = 100000};

/* --- one member each --------------------------------------------------------------------------------------------- */

struct speech {
    struct program_report *report;
    struct hf_job *job;
    struct text_span value;
    struct error *error;
    struct text_span pushed; /* `value` as the program wrote it; bytes == NULL: that is not UTF-8 */
};

#define SPAN(text) ((struct text_span){(text), strlen(text)})

/* Appends a text; a value that is none stays as written. */
static void value_append(struct text_span value, struct buffer *out)
{
    if (!json_string_read(value, out))
        buffer_append(out, value.bytes, value.length);
}

/* False if there is none. */
static bool member_text(struct text_span object, const char *name, struct buffer *out)
{
    struct text_span value = {NULL, 0};
    bool is_there = json_object_member(object, SPAN(name), &value) > 0;
    if (is_there)
        value_append(value, out);
    return is_there;
}

static bool is_object(struct text_span value)
{
    return value.length > 0 && value.bytes[0] == '{';
}

static bool progress_take(const struct speech *speech)
{
    struct hf_job *job = speech->job;
    struct buffer text = {0};
    if (!job->reports_progress)
        return error_set(speech->error, "its class reports no progress");
    buffer_append(&text, speech->value.bytes, speech->value.length);
    bool taken = job->link->progress(job, buffer_text(&text));
    buffer_fini(&text);
    return taken || error_set(speech->error, "its progress is longer than %d bytes", ITERATION_BYTES_MAX - 1);
}

static bool result_take(const struct speech *speech)
{
    if (!speech->job->keeps_result)
        return error_set(speech->error, "the class keeps no results (result_ttl)");
    struct job_outcome *outcome = &speech->job->outcome;
    return job_outcome_set_result(outcome, speech->value.bytes, speech->value.length) ||
           error_set(speech->error, "its result was refused: %s", outcome->refusal.text);
}

static bool error_take(const struct speech *speech)
{
    struct buffer error_class = {0}, message = {0};
    if (!is_object(speech->value))
        return error_set(speech->error, "\"error\" is no object");
    if (!member_text(speech->value, "class", &error_class))
        buffer_append_text(&error_class, "HF::Failed");
    member_text(speech->value, "message", &message);
    failure_clear(&speech->job->outcome.failure); /* the last report counts */
    failure_set(&speech->job->outcome.failure, buffer_text(&error_class), "%s", buffer_text(&message));
    buffer_fini(&error_class);
    buffer_fini(&message);
    return true;
}

static bool retry_in_take(const struct speech *speech)
{
    int64_t microseconds = 0;
    return (json_seconds_read(speech->value, &microseconds) && microseconds >= 0 &&
            job_outcome_set_retry_in(&speech->job->outcome, microseconds / 1000)) ||
           error_set(speech->error, "\"retry_in\" is no number of seconds up to a year");
}

/* Records the first refusal of the run. */
static bool push_take(const struct speech *speech)
{
    struct error *refusal = &speech->report->refusal;
    if (!speech->job->may_push)
        error_set(refusal, "its class runs at most once, so its task has ended before it runs, and nothing can be "
                           "pushed with its end");
    else if (speech->pushed.bytes == NULL)
        error_set(refusal, "it has bytes that are not UTF-8, and another argument is not what was meant");
    else if (!is_object(speech->value))
        error_set(refusal, "it is no JSON object");
    else
        job_outcome_add_follow_up(&speech->job->outcome, speech->pushed.bytes, speech->pushed.length, refusal);
    return true;
}

/* --- log ---------------------------------------------------------------------------------------------------------- */

static enum hf_log_level level_of(struct text_span log)
{
    static const char *const names[] = {
        [HF_LOG_DEBUG] = "debug", [HF_LOG_INFO] = "info", [HF_LOG_WARN] = "warn", [HF_LOG_ERROR] = "error"};
    struct buffer name = {0};
    enum hf_log_level level = HF_LOG_INFO;
    if (member_text(log, "level", &name))
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (strcmp(names[i], buffer_text(&name)) == 0)
                level = (enum hf_log_level)i;
    buffer_fini(&name);
    return level;
}

static bool is_word(struct text_span text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    for (size_t i = 0; i < text.length; i++)
        if (memchr(letters, text.bytes[i], sizeof letters - 1) == NULL)
            return false;
    return text.length > 0 && text.length <= WORD_MAX;
}

/* Appends a name or a value with its NUL to `texts`; returns its offset. */
static size_t text_keep(struct buffer *texts, struct text_span value)
{
    size_t start = texts->length;
    value_append(value, texts);
    buffer_append(texts, "", 1);
    return start;
}

/* What is beyond the most, or has no word for a name, is left out and counted. */
static void fields_tell(struct hf_job *job, enum hf_log_level level, const char *text, struct text_span from)
{
    size_t keys[FIELDS_MAX], values[FIELDS_MAX], count = 0, all = json_object_count(from);
    hf_field fields[FIELDS_MAX + 1] = {{"text", text}};
    char dropped[24];
    struct text_span name, value;
    struct buffer texts = {0};
    for (size_t i = 0; i < FIELDS_MAX - 1 && json_object_element(from, i, &name, &value); i++) {
        if (!is_word(name))
            continue;
        keys[count] = text_keep(&texts, name);
        values[count++] = text_keep(&texts, value);
    }
    for (size_t i = 0; i < count; i++)
        fields[i + 1] = (hf_field){texts.bytes + keys[i], texts.bytes + values[i]};
    snprintf(dropped, sizeof dropped, "%zu", all - count);
    if (all > count)
        fields[++count] = (hf_field){JOB_FIELDS_DROPPED, dropped};
    job->link->event(job, level, "log", fields, count + 1);
    buffer_fini(&texts);
}

static void log_tell(struct hf_job *job, struct text_span log)
{
    enum hf_log_level level = level_of(log);
    struct text_span fields = {NULL, 0};
    struct buffer text = {0};
    if (!job->link->hears(job, level))
        return;
    member_text(log, "text", &text);
    if (json_object_member(log, SPAN("fields"), &fields) > 0 && is_object(fields))
        fields_tell(job, level, buffer_text(&text), fields);
    else
        job->link->log(job, level, buffer_text(&text));
    buffer_fini(&text);
}

static bool log_take(const struct speech *speech)
{
    struct program_report *report = speech->report;
    if (!is_object(speech->value))
        return error_set(speech->error, "\"log\" is no object");
    if (report->logs == PROGRAM_REPORT_LOGS_MAX) {
        report->dropped_logs++;
        return true;
    }
    report->logs++;
    log_tell(speech->job, speech->value);
    return true;
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

/* Takes the members of a valid line. `line` is as the program wrote it; NULL: that is not UTF-8. */
static bool members_take(struct program_report *report, struct text_span object, const char *line, struct hf_job *job,
                         struct error *error)
{
    static const struct {
        const char *name;
        bool (*take)(const struct speech *speech);
    } members[] = {{"progress", progress_take}, {"result", result_take}, {"error", error_take},
                   {"retry_in", retry_in_take}, {"log", log_take},       {"push", push_take}};
    struct speech speech = {.report = report, .job = job, .error = error};
    unsigned known = 0;
    bool is_fine = true;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (json_object_member(object, SPAN(members[i].name), &speech.value) == 0)
            continue;
        known++;
        speech.pushed =
            (struct text_span){line != NULL ? line + (speech.value.bytes - object.bytes) : NULL, speech.value.length};
        is_fine = members[i].take(&speech) && is_fine;
    }
    return known > 0 ? is_fine : error_set(error, "it has no known member");
}

bool program_report_line(struct program_report *report, const char *line, size_t length, struct hf_job *job,
                         struct error *error)
{
    struct buffer mended = {0};
    struct job_outcome *outcome = &job->outcome;
    json_mend(line, length, &mended);
    bool is_valid = json_check(mended.bytes, mended.length, &bounds, error);
    if (!is_valid && job->keeps_result && !outcome->has_result) /* it may have been the result */
        error_set(&outcome->refusal, "a line of its report is %s", error->text);
    bool is_fine =
        is_valid && members_take(report, text_span_of(&mended), mended.length == length ? line : NULL, job, error);
    buffer_fini(&mended);
    return is_fine;
}

static void complain(struct program_report *report, const struct hf_job *job, const char *reason, const char *line,
                     size_t length)
{
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX], why[LOG_QUOTE_MAX], text[LOG_QUOTE_MAX];
    report->ignored++;
    if (report->has_complained)
        return;
    report->has_complained = true;
    log_event(LOG_WARN, "job_report_ignored", "jid=%s class=%s reason=%s line=%s", log_value(job->jid, jid),
              log_value(job->class_name, class_name), log_value(reason, why), log_value_bytes(line, length, text));
}

static void line_end(struct program_report *report, struct hf_job *job)
{
    struct buffer *line = &report->line;
    struct error error = ERROR_NONE;
    if (report->is_too_long && job->keeps_result)
        error_set(&job->outcome.refusal, "a line of its report is longer than 1 MiB");
    if (report->is_too_long)
        complain(report, job, "it is longer than 1 MiB", line->bytes, line->length);
    else if (line->length > 0 && !program_report_line(report, line->bytes, line->length, job, &error))
        complain(report, job, error.text, line->bytes, line->length);
    report->is_too_long = false;
    buffer_clear(line);
}

static void line_add(struct program_report *report, const char *bytes, size_t length)
{
    if (report->line.length + length > PROGRAM_REPORT_LINE_MAX)
        report->is_too_long = true;
    if (!report->is_too_long)
        buffer_append(&report->line, bytes, length);
}

void program_report_take(struct program_report *report, const char *bytes, size_t length, struct hf_job *job)
{
    const char *end = NULL;
    while (length > 0 && (end = memchr(bytes, '\n', length)) != NULL) {
        size_t taken = (size_t)(end - bytes);
        line_add(report, bytes, taken);
        line_end(report, job);
        bytes += taken + 1;
        length -= taken + 1;
    }
    line_add(report, bytes, length);
}

void program_report_end(struct program_report *report, struct hf_job *job)
{
    line_end(report, job);
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX];
    if (report->ignored > 1 || report->dropped_logs > 0)
        log_event(LOG_WARN, "job_report_dropped", "jid=%s class=%s ignored=%u logs=%u", log_value(job->jid, jid),
                  log_value(job->class_name, class_name), report->ignored, report->dropped_logs);
}

void program_report_fini(struct program_report *report)
{
    buffer_fini(&report->line);
}
