/* holdfast tasks show: everything that is known about one task. */
#include "worker/commands/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/real.h"
#include "worker/commands/process_info.h"
#include "worker/commands/task_reason.h"
#include "worker/commands/task_why.h"
#include "worker/print/human.h"

struct showing {
    struct tasks *tasks;
    const struct task_entry *entry;
    struct task_why *why;
    struct printer out;
    struct task_view view;
    char *fence; /* of a claim that runs under a lock; NULL = not known */
};

enum { RECOVERIES, ITERATION, RESULT, WORK }; /* indices of the replies */

/* --- what else the node knows ----------------------------------------------------------------------------------- */

static int facts_read(struct showing *showing)
{
    struct console *console = &showing->tasks->console;
    const struct task_entry *entry = showing->entry;
    const char *jid = showing->view.envelope.jid;
    char field[32];
    node_client_begin(console->client);
    node_client_ask(console->client, "HGETALL", console_key(console, console->keys.recovered_prefix, jid), NULL);
    node_client_ask(console->client, "HMGET", console_key(console, console->keys.iteration_prefix, jid), "ex", "c",
                    "rt", "cancelled", NULL);
    node_client_ask(console->client, "EXISTS", console_key(console, console->keys.result_prefix, jid), NULL);
    bool is_run = entry->state == TASK_IN_CLAIMS && entry->slot != NULL;
    snprintf(field, sizeof field, "t%s", is_run ? entry->slot : "");
    if (is_run)
        node_client_ask(console->client, "HGET", console_work_key(console, entry->identity), field, NULL);
    console_run(console);
    const struct redis_reply *work = is_run ? node_client_reply_of(console->client, WORK, REDIS_STRING) : NULL;
    if (work != NULL)
        showing->fence = process_run_fence(work->bytes, work->length, jid);
    return console->code;
}

static const char *iteration_field(const struct showing *showing, size_t field)
{
    const struct redis_reply *reply = node_client_reply(showing->tasks->console.client, ITERATION);
    return reply->kind == REDIS_ARRAY && reply->count == 4 ? reply->elements[field].bytes : NULL;
}

/* Of an earlier run of the same jid: a task that is done is nowhere. */
static bool has_result(const struct showing *showing)
{
    return node_client_integer(showing->tasks->console.client, RESULT, 0) == 1;
}

static bool is_json(const char *text)
{
    struct error error = ERROR_NONE;
    return text != NULL && json_check(text, strlen(text), &task_view_limits, &error);
}

static bool count_read(struct text_span object, const char *name, int64_t *count)
{
    struct text_span value;
    return json_object_member(object, (struct text_span){name, strlen(name)}, &value) == 1 &&
           json_integer_read(value, count);
}

static bool progress_read(const char *text, int64_t *done, int64_t *total)
{
    struct text_span object = {text, strlen(text)};
    return text[0] == '{' && count_read(object, "done", done) && count_read(object, "total", total) && *total > 0 &&
           *done >= 0 && *done <= *total;
}

/* --- where it is ------------------------------------------------------------------------------------------------ */

void tasks_state_json(const struct task_entry *entry, const char *jid, struct json_writer *json)
{
    json_text(json, "state", task_state_name(entry->state));
    if (task_state_is_set(entry->state)) {
        struct buffer key = {0};
        buffer_format(&key, "%s-%s", entry->score, jid);
        json_text(json, "key", buffer_text(&key));
        json_seconds_if(json, "at", isfinite(real_read(entry->score, NULL)), wall_read(entry->score).us);
        buffer_fini(&key);
    } else if (entry->state == TASK_IN_QUEUE) {
        json_text(json, "in_queue", entry->queue);
        json_number(json, "position", entry->position);
    } else {
        json_text(json, "in_queue", entry->queue);
        json_text(json, "identity", entry->identity);
        json_text(json, "slot", entry->slot);
        json_truth(json, "process_alive", entry->is_living);
    }
}

static void state_print(const struct showing *showing)
{
    const struct task_entry *entry = showing->entry;
    const struct printer *out = &showing->out;
    char quoted[LOG_QUOTE_MAX], queue[LOG_QUOTE_MAX];
    const char *state = task_state_name(entry->state);
    if (task_state_is_set(entry->state))
        printer_line(out, "state         %s, score %s", state, entry->score);
    else if (entry->state == TASK_IN_QUEUE)
        printer_line(out, "state         queue %s, number %lld to run", log_quote(entry->queue, queue),
                     entry->position);
    else
        printer_line(out, "state         claimed from queue %s by %s, %s%s", log_quote(entry->queue, queue),
                     log_quote(entry->identity, quoted), entry->slot != NULL ? "slot " : "its bell",
                     entry->slot != NULL ? entry->slot : "");
}

/* --- what it says ----------------------------------------------------------------------------------------------- */

static void member_print(const struct showing *showing, const struct envelope_member *member)
{
    struct buffer safe = {0};
    char name[64], human[HUMAN_TEXT_MAX];
    struct wall_time moment = {0};
    snprintf(name, sizeof name, "%.*s", (int)(member->name.length < 60 ? member->name.length : 60), member->name.bytes);
    json_append_defused(&safe, name, strlen(name));
    buffer_format(&safe, "%*s ", safe.length < 13 ? (int)(13 - safe.length) : 0, "");
    json_append_defused(&safe, member->value.bytes, member->value.length);
    if (strlen(name) > 3 && strcmp(name + strlen(name) - 3, "_at") == 0)
        moment = task_view_time(&showing->view, name);
    if (moment.us != 0)
        buffer_format(&safe, "  (%s)", human_moment(moment, showing->out.now, human));
    fprintf(showing->out.file, "%s\n", buffer_text(&safe));
    buffer_fini(&safe);
}

static void backtrace_print(const struct showing *showing, const struct buffer *backtrace)
{
    struct buffer safe = {0};
    struct text_span array = {backtrace->bytes, backtrace->length}, element;
    printer_line(&showing->out, "backtrace");
    for (size_t i = 0; (element = json_array_element(array, i)).bytes != NULL; i++) {
        buffer_clear(&safe);
        json_append_defused(&safe, element.bytes, element.length);
        printer_line(&showing->out, "    %s", buffer_text(&safe));
    }
    buffer_fini(&safe);
}

static void members_print(struct showing *showing)
{
    struct buffer backtrace = {0};
    for (size_t i = 0; i < showing->view.envelope.member_count; i++) {
        const struct envelope_member *member = &showing->view.envelope.members[i];
        bool is_backtrace = member->name.length == strlen("error_backtrace") &&
                            memcmp(member->name.bytes, "error_backtrace", member->name.length) == 0;
        if (!is_backtrace)
            member_print(showing, member);
    }
    if (task_view_backtrace(&showing->view, &backtrace))
        backtrace_print(showing, &backtrace);
    buffer_fini(&backtrace);
}

static void members_json(struct showing *showing)
{
    struct buffer backtrace = {0};
    task_view_json(&showing->view, &showing->out.json);
    bool has_backtrace = task_view_backtrace(&showing->view, &backtrace);
    json_raw(&showing->out.json, "error_backtrace", has_backtrace ? backtrace.bytes : NULL, backtrace.length);
    buffer_fini(&backtrace);
}

/* --- what else is known ----------------------------------------------------------------------------------------- */

static void recoveries_put(struct showing *showing)
{
    const struct redis_reply *reply = node_client_reply(showing->tasks->console.client, RECOVERIES);
    struct printer *out = &showing->out;
    char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    printer_list(out, "recoveries");
    for (size_t i = 0; reply->kind == REDIS_ARRAY && i + 1 < reply->count; i += 2) {
        const char *identity = reply->elements[i].bytes, *at = reply->elements[i + 1].bytes;
        bool is_beside = at[0] == '-';
        struct wall_time moment = wall_read(at + is_beside);
        printer_line(out, "recovered     from %s, %s%s", log_quote(identity, quoted),
                     human_moment(moment, out->now, human), is_beside ? "; another task had crashed it" : "");
        printer_row(out);
        printer_text(out, NULL, "identity", identity);
        printer_moment(out, NULL, "at", moment);
        printer_truth(out, "beside_culprit", is_beside);
        printer_row_end(out);
    }
    printer_list_end(out, NULL);
}

/* {"done":40,"total":100}: filled so far; false for anything else. */
static bool bar_write(const char *text, char *bar, size_t width, int *percent)
{
    int64_t done = 0, total = 0;
    if (!progress_read(text, &done, &total))
        return false;
    double share = (double)done / (double)total;
    *percent = (int)(share * 100);
    memset(bar, '-', width);
    memset(bar, '#', (size_t)(share * (double)width));
    bar[width] = '\0';
    return true;
}

static void progress_print(const struct printer *out, const char *text)
{
    enum { BAR = 20 };
    char bar[BAR + 1], drawn[BAR + 16] = "", quoted[LOG_QUOTE_MAX];
    struct buffer safe = {0};
    int percent = 0;
    if (is_json(text) && bar_write(text, bar, BAR, &percent))
        snprintf(drawn, sizeof drawn, "[%s] %d %%  ", bar, percent);
    json_append_defused(&safe, text, strlen(text));
    printer_line(out, "progress      %s%s", drawn, is_json(text) ? buffer_text(&safe) : log_quote(text, quoted));
    buffer_fini(&safe);
}

static void iteration_put(struct showing *showing)
{
    const char *runs = iteration_field(showing, 0), *progress = iteration_field(showing, 1);
    const char *seconds = iteration_field(showing, 2), *cancelled = iteration_field(showing, 3);
    struct wall_time called = {cancelled != NULL ? strtoll(cancelled, NULL, 10) * US_PER_S : 0};
    int64_t count = runs != NULL ? strtoll(runs, NULL, 10) : 0, took_us = seconds != NULL ? wall_read(seconds).us : 0;
    struct printer *out = &showing->out;
    char human[HUMAN_TEXT_MAX];
    if (progress != NULL && !out->is_json)
        progress_print(out, progress);
    if (runs != NULL)
        printer_line(out, "runs          %lld, which took %s", (long long)count, human_span(took_us, human));
    if (has_result(showing))
        printer_line(out, "result        an earlier run left one: holdfast result");
    if (cancelled != NULL)
        printer_line(out, "cancelled     %s", human_moment(called, out->now, human));
    if (runs == NULL && progress == NULL && cancelled == NULL) {
        printer_text(out, NULL, "iteration", NULL);
        return;
    }
    if (!out->is_json)
        return;
    json_open(&out->json, "iteration", '{');
    json_number(&out->json, "runs", count);
    if (is_json(progress))
        json_raw(&out->json, "progress", progress, strlen(progress));
    else
        json_text(&out->json, "progress", progress);
    json_seconds(&out->json, "seconds", took_us);
    json_number_if(&out->json, "cancelled", cancelled != NULL, called.us / US_PER_S);
    json_close(&out->json, '}');
}

/* --- the command ------------------------------------------------------------------------------------------------ */

static void why_put(struct showing *showing)
{
    task_reason_put(&showing->why->reason, &showing->why->facts, &showing->out);
}

static int found_show(struct showing *showing)
{
    task_view_read(&showing->view, showing->entry->task.bytes, showing->entry->task.length);
    int code = facts_read(showing);
    if (code != EXIT_CODE_OK)
        return code;
    const struct console *console = &showing->tasks->console;
    struct buffer text = {0};
    struct printer *out = &showing->out;
    char quoted[LOG_QUOTE_MAX];
    *out = printer_begin(console->as_json, console->now, &text);
    out->file = showing->tasks->out != NULL ? showing->tasks->out : stdout;
    if (out->is_json) {
        tasks_state_json(showing->entry, showing->view.envelope.jid, &out->json);
        members_json(showing);
    } else {
        why_put(showing);
        state_print(showing);
        members_print(showing);
    }
    recoveries_put(showing);
    if (showing->fence != NULL)
        printer_line(out, "fence         %s", log_quote(showing->fence, quoted));
    iteration_put(showing);
    printer_truth(out, "has_result", has_result(showing));
    printer_text(out, NULL, "fence", showing->fence);
    if (out->is_json) {
        json_open(&out->json, "why", '{');
        why_put(showing);
        json_close(&out->json, '}');
    }
    printer_end(out);
    return EXIT_CODE_OK;
}

static int absence_tell(struct task_why *why, const char *id)
{
    char quoted[LOG_QUOTE_MAX];
    return console_complain(why->console, "the task %s was not found. %s %s", log_quote(id, quoted),
                            buffer_text(&why->reason.sentence), buffer_text(&why->reason.advice));
}

int tasks_show(struct tasks *tasks)
{
    struct task_search search = {.console = &tasks->console, .queue = tasks->queue, .scan_limit = tasks->scan_limit};
    struct task_why why = {.console = &tasks->console};
    int code = EXIT_CODE_OK;
    if (tasks->has_state)
        task_search_in(&search, tasks->state);
    else
        task_search_everywhere(&search);
    for (int i = 0; i < tasks->id_count && (code == EXIT_CODE_OK || code == EXIT_CODE_FAILURE); i++) {
        struct showing showing = {.tasks = tasks, .why = &why};
        tasks->console.code = EXIT_CODE_OK; /* what keeps one from being found need not hide the others */
        int found = task_search_run(&search, tasks->ids[i]);
        showing.entry = search.found;
        if (found == EXIT_CODE_OK)
            found = task_why_look(&why, tasks->ids[i], search.found, search.was_cut || tasks->has_state);
        if (found == EXIT_CODE_OK && search.found == NULL)
            found = absence_tell(&why, tasks->ids[i]);
        else if (found == EXIT_CODE_OK)
            found = found_show(&showing);
        task_view_fini(&showing.view);
        free(showing.fence);
        code = found != EXIT_CODE_OK ? found : code;
    }
    task_why_end(&why);
    task_search_end(&search);
    return code;
}
