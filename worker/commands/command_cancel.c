/* holdfast cancel: a task is marked, so that it does not start, or does not start again; and the process that runs it
 * is called.
 *
 * The mark comes first: a process that is called looks only at what it runs at that moment. Whether there are such
 * tasks is looked for last, because it can take long. */
#include "worker/commands/command.h"

#include <string.h>

#include "base/log.h"
#include "queue/control.h"
#include "queue/iteration.h"
#include "queue/task_result.h"
#include "worker/commands/task_find.h"
#include "worker/commands/tasks.h"
#include "worker/print/human.h"
#include "worker/print/printer.h"

enum { JIDS_MAX = 100 };

int tasks_cancel(struct console *console, char *const *jids, int count, long long *called)
{
    node_client_begin(console->client);
    for (int i = 0; i < count; i++)
        iteration_request_cancel(&console->keys, jids[i], node_client_compose(console->client));
    console_run(console);
    for (int i = 0; i < count; i++)
        if (node_client_reply_of(console->client, (size_t)i, REDIS_INTEGER) == NULL)
            return console_refuse(console, (size_t)i);
    node_client_begin(console->client);
    for (int i = 0; i < count; i++) {
        struct buffer call = {0};
        buffer_format(&call, "CANCEL %s", jids[i]);
        control_request_call(&console->keys, "", buffer_text(&call), node_client_compose(console->client));
        buffer_fini(&call);
    }
    console_run(console);
    for (int i = 0; i < count; i++) {
        *called = node_client_integer(console->client, (size_t)i, -1);
        if (*called < 0)
            return console_refuse(console, (size_t)i);
    }
    return EXIT_CODE_OK;
}

/* --- which of them there are -------------------------------------------------------------------------------------- */

struct cancel_command {
    struct console console;
    int64_t scan_limit;
    char **jids;
    size_t count;
    bool seen[JIDS_MAX], is_dead[JIDS_MAX]; /* and nowhere else */
    struct wall_time ended_at[JIDS_MAX];    /* before it was cancelled; 0 = not known */
    bool was_cut;                           /* not everything was looked at */
};

/* One that has ended meanwhile is seen by what it left. */
static void records_read(struct cancel_command *cancel)
{
    struct console *console = &cancel->console;
    node_client_begin(console->client);
    for (size_t i = 0; i < cancel->count; i++)
        node_client_ask(console->client, "GET", console_key(console, console->keys.result_prefix, cancel->jids[i]),
                        NULL);
    console_run(console);
    for (size_t i = 0; i < cancel->count; i++) {
        struct task_result record;
        const struct redis_reply *reply = node_client_reply_of(console->client, i, REDIS_STRING);
        if (cancel->seen[i] || reply == NULL || !task_result_read(reply->bytes, reply->length, &record))
            continue;
        cancel->seen[i] = record.was_cancelled;
        cancel->ended_at[i] = record.ended_at;
    }
}

/* None of them is where it could run. */
static int dead_look(struct cancel_command *cancel)
{
    bool found[JIDS_MAX];
    memcpy(found, cancel->seen, sizeof found);
    struct task_search search = {.console = &cancel->console,
                                 .scan_limit = cancel->scan_limit,
                                 .jids = cancel->jids,
                                 .seen = found,
                                 .jid_count = cancel->count};
    task_search_in(&search, TASK_IN_DEAD);
    int code = task_search_run(&search, "");
    cancel->was_cut = cancel->was_cut || search.was_cut;
    for (size_t i = 0; i < cancel->count; i++)
        cancel->is_dead[i] = found[i] && !cancel->seen[i];
    task_search_end(&search);
    return code;
}

static bool all_are_seen(const struct cancel_command *cancel)
{
    bool all = true;
    for (size_t i = 0; i < cancel->count; i++)
        all = all && cancel->seen[i];
    return all;
}

/* After they are marked, which may be urgent. One that moves from state to state can be missed once. */
static int look(struct cancel_command *cancel)
{
    struct task_search search = {.console = &cancel->console,
                                 .scan_limit = cancel->scan_limit,
                                 .jids = cancel->jids,
                                 .seen = cancel->seen,
                                 .jid_count = cancel->count};
    task_search_alive(&search);
    int code = EXIT_CODE_OK;
    for (int looks = 0; looks < 2 && code == EXIT_CODE_OK && !cancel->was_cut && !all_are_seen(cancel); looks++) {
        code = task_search_run(&search, "");
        cancel->was_cut = search.was_cut;
        if (code == EXIT_CODE_OK && !all_are_seen(cancel))
            records_read(cancel);
    }
    task_search_end(&search);
    return cancel->console.code != EXIT_CODE_OK || all_are_seen(cancel) ? cancel->console.code : dead_look(cancel);
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static void missing_tell(struct cancel_command *cancel, size_t index)
{
    char quoted[LOG_QUOTE_MAX], human[HUMAN_TEXT_MAX];
    const char *jid = log_quote(cancel->jids[index], quoted);
    if (cancel->is_dead[index])
        console_complain(&cancel->console,
                         "%s is dead, so there is nothing to cancel; if it is retried within a day, it does not start. "
                         "`holdfast tasks delete %s --state dead` takes it away",
                         jid, jid);
    else if (cancel->ended_at[index].us != 0)
        console_complain(&cancel->console, "%s had ended before, at %s", jid,
                         human_date(cancel->ended_at[index], human));
    else
        console_complain(&cancel->console,
                         "%s is nowhere: it ended before, or was never pushed; if it is pushed within a day, it does "
                         "not start",
                         jid);
}

/* What may be where nobody looked is marked as well, and counts as found. */
static int tell(struct cancel_command *cancel, long long called)
{
    const struct console *console = &cancel->console;
    char quoted[LOG_QUOTE_MAX], *found[JIDS_MAX], *unknown[JIDS_MAX];
    size_t found_count = 0, unknown_count = 0;
    struct printer out = printer_begin(console->as_json, console->now, &(struct buffer){0});
    for (size_t i = 0; i < cancel->count; i++) {
        bool has_ended = cancel->is_dead[i] || cancel->ended_at[i].us != 0;
        bool is_known = cancel->seen[i] || (cancel->was_cut && !has_ended);
        if (is_known)
            printer_line(&out, "%s is to be cancelled", log_quote(cancel->jids[i], quoted));
        else
            missing_tell(cancel, i);
        (is_known ? found : unknown)[is_known ? found_count++ : unknown_count++] = cancel->jids[i];
    }
    printer_texts(&out, NULL, "cancelled", found, found_count);
    printer_texts(&out, NULL, "unknown", unknown, unknown_count);
    printer_number(&out, NULL, "processes_called", called);
    printer_line(&out, "%lld process%s called", called, called == 1 ? " was" : "es were");
    printer_end(&out);
    return unknown_count > 0 ? EXIT_CODE_FAILURE : EXIT_CODE_OK;
}

#define AT(member) offsetof(struct cancel_command, member)
static const struct option_row options[] = {
    {OPTION_COUNT, 0, "scan-limit", "N", "look for the tasks through so many entries of a state (10000)",
     .offset = AT(scan_limit), .least = 1},
    {OPTION_TABLE, .table = console_options, .offset = AT(console)},
    {.type = OPTION_END},
};
#undef AT

static int run(int argc, char **argv)
{
    struct cancel_command cancel = {.scan_limit = 10000};
    struct console *console = &cancel.console;
    struct command_line line;
    if (!command_line_read(&line, &command_cancel, argc, argv, &cancel))
        return line.exit_code;
    if (line.argument_count == 0)
        return command_misused(&command_cancel, "name the tasks by their jids");
    for (int i = 0; i < line.argument_count; i++)
        if (!envelope_jid_is_sound(line.arguments[i], strlen(line.arguments[i])))
            return command_misused(&command_cancel, "argument %d cannot be a jid", i + 1);
    cancel.jids = line.arguments;
    cancel.count = (size_t)line.argument_count;
    long long called = 0;
    int code = console_open(console, &command_cancel, ORIGIN_NEEDS_QUEUE, true);
    if (code == EXIT_CODE_OK) {
        origin_tell(&console->origin, &command_cancel);
        code = tasks_cancel(console, line.arguments, line.argument_count, &called);
    }
    if (code == EXIT_CODE_OK)
        code = look(&cancel);
    if (code == EXIT_CODE_OK)
        code = tell(&cancel, called);
    return console_close(console, code);
}

const struct command command_cancel = {
    .name = "cancel",
    .summary = "end tasks, or keep them from starting",
    .arguments = "JID...",
    .about =
        "Marks tasks to be cancelled, wherever they are, and calls every living process, so that a running one hears\n"
        "of it at once: its handler is told and should return. One that has not started yet does not start, if that\n"
        "would be within a day; it ends as cancelled. `holdfast result` and `holdfast why` say so for a day. What is\n"
        "in a set can also be taken away with `tasks delete`.\n"
        "\n"
        "Then it looks where they are. A jid that is nowhere is marked as well, because it may be pushed later; and "
        "so\n"
        "is a dead task, which runs only if it is retried.\n"
        "\n"
        "Exit codes: 0 all are to be cancelled; 1 some had ended, are dead or nowhere, or it failed; 2 wrong use; 75 "
        "the\n"
        "queue node could not be reached.\n"
        "\n"
        "JSON: cancelled and unknown (jids; those that had ended, are dead, or are nowhere), processes_called.\n",
    .examples = "  holdfast cancel 0123456789abcdef01234567\n",
    .options = options,
    .arguments_max = JIDS_MAX,
    .run = run,
};
