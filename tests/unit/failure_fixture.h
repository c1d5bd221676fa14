/* Failing tasks and their records: what tests/unit/test_failure_outcome.c and test_record.c share. A task is failed
 * with what `failure`, `config`, `handler` and `trace` say; all are as new for every test. */
#ifndef TESTS_UNIT_FAILURE_FIXTURE_H
#define TESTS_UNIT_FAILURE_FIXTURE_H

#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "worker/task/failure_outcome.h"

static const struct envelope_limits limits = ENVELOPE_LIMITS_DEFAULT;
static const struct wall_time now = {INT64_C(1795194374500000)};

static struct envelope envelope, record;
static struct buffer written;
static struct failure failure;
static struct config config;          /* says nothing */
static struct plugin_handler handler; /* neither, unless a test makes it */
static const char *const *trace;
static size_t trace_count;
static const char *fence;
static struct wall_time unserved_at;
static bool started, is_final;

static void set_up(void)
{
    failure_clear(&failure);
    config = (struct config){.path = NULL};
    handler = (struct plugin_handler){.class_name = "c"};
    trace = NULL;
    fence = "";
    unserved_at = (struct wall_time){0};
    trace_count = 0;
    started = is_final = false;
}

static void tear_down(void)
{
    envelope_fini(&envelope);
    envelope_fini(&record);
    buffer_fini(&written);
    envelope = record = (struct envelope){.jid = NULL};
}

static void parse(struct envelope *into, const char *text)
{
    struct error error = ERROR_NONE;
    if (!envelope_parse(into, text, strlen(text), &limits, &error))
        fail_msg("%s: %s", text, error.text);
}

static struct task_rules rules_now(void)
{
    return task_rules_of(&envelope, &config, &handler);
}

/* Writes the record of this task, and parses it. */
static void write_record(const char *task, bool counts)
{
    buffer_clear(&written);
    parse(&envelope, task);
    struct task_rules rules = rules_now();
    failure_write(&failure,
                  &(struct failure_record){.envelope = &envelope,
                                           .rules = &rules,
                                           .queue = "jobs",
                                           .jid = envelope.jid[0] != '\0' ? envelope.jid : "given",
                                           .started = started,
                                           .counts = counts,
                                           .is_final = is_final,
                                           .fence = fence,
                                           .unserved_at = unserved_at,
                                           .keep_ms = config.worker.timestamps == CONFIG_TIMES_AS_CAME,
                                           .backtrace = trace,
                                           .backtrace_count = trace_count},
                  now, &written);
    parse(&record, buffer_text(&written));
}

/* NULL: there is no such member. */
static void assert_member(const char *name, const char *value)
{
    for (size_t i = 0; i < record.member_count; i++) {
        const struct envelope_member *member = &record.members[i];
        if (member->name.length != strlen(name) || memcmp(member->name.bytes, name, member->name.length) != 0)
            continue;
        if (value == NULL || member->value.length != strlen(value) ||
            memcmp(member->value.bytes, value, member->value.length) != 0)
            fail_msg("%s is %.*s", name, (int)member->value.length, member->value.bytes);
        return;
    }
    if (value != NULL)
        fail_msg("%s is not in %s", name, buffer_text(&written));
}

#endif
