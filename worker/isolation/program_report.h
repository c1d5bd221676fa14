/* Reports of a program on descriptor 3: lines of JSON objects with one or more of these members. What is no text in
 * them becomes U+FFFD (json_mend), but in a pushed task, which stays as it is or is refused.
 *
 *     {"progress": {...}}                                             as report.progress of jobs/job.h
 *     {"result": ...}                                                 as report.result
 *     {"error": {"class": "Net::Timeout", "message": "no answer"}}    as job.error
 *     {"retry_in": 5.5}                                               seconds, as report.retry_in
 *     {"log": {"level": "info", "text": "hello", "fields": {"rows": "7"}}}
 *     {"push": {"class": "mail", "args": [7]}}                        as push.add
 *
 *     program_report_take(&report, bytes, length, &job);       the bytes read, in any pieces
 *     program_report_end(&report, &job);                       a last line without its end
 *
 * Any other line is ignored, and the log shows the first one of a run. But if a pushed task is invalid, or a line is no
 * JSON that may have been the result, the run fails, because it would be lost silently.
 *
 * Uses only the report, the job's outcome, and the job's link and log. One thread at a time. */
#ifndef WORKER_PROGRAM_REPORT_H
#define WORKER_PROGRAM_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "worker/task/job_host.h"

enum {
    PROGRAM_REPORT_LINE_MAX = JOB_RESULT_BYTES_MAX + 1024, /* the largest result and the text around it */
    PROGRAM_REPORT_LOGS_MAX = 1000,                        /* of a run */
};

/* Zeroed = a run without reports. */
struct program_report {
    struct buffer line; /* the unfinished line */
    bool is_too_long;   /* the unfinished line, so its rest is skipped */
    bool has_complained;
    unsigned ignored, logs, dropped_logs;
    struct error refusal; /* why a task that it pushed was refused */
};

void program_report_take(struct program_report *report, const char *bytes, size_t length, struct hf_job *job);
void program_report_end(struct program_report *report, struct hf_job *job);
void program_report_fini(struct program_report *report);

/* Takes one line, without its end. False, with the reason, if the line is ignored as a whole or in part. */
bool program_report_line(struct program_report *report, const char *line, size_t length, struct hf_job *job,
                         struct error *error);

#endif
