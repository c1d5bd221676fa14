/* holdfast why: what keeps a task from running, in one sentence, and what to do. */
#include "worker/commands/command.h"

#include "base/log.h"
#include "worker/commands/task_reason.h"
#include "worker/commands/task_why.h"

struct why_command {
    struct console console;
    int64_t scan_limit;
};

#define AT(member) offsetof(struct why_command, member)
static const struct option_row options[] = {
    {OPTION_COUNT, 0, "scan-limit", "N", "look for the task through so many entries of a state (10000)",
     .offset = AT(scan_limit), .least = 1},
    {OPTION_TABLE, .table = console_options, .offset = AT(console)},
    {.type = OPTION_END},
};
#undef AT

/* One that moves from state to state while they are searched can be missed. */
static int find(struct task_search *search, const char *jid)
{
    int code = task_search_run(search, jid);
    bool is_gone = code == EXIT_CODE_OK && search->found == NULL && !search->was_cut;
    return is_gone ? task_search_run(search, jid) : code;
}

static int explain(struct why_command *command, const char *jid)
{
    struct console *console = &command->console;
    struct task_search search = {.console = console, .scan_limit = command->scan_limit};
    struct task_why why = {.console = console};
    task_search_everywhere(&search);
    int code = find(&search, jid);
    if (code == EXIT_CODE_OK)
        code = task_why_look(&why, jid, search.found, search.was_cut);
    if (code == EXIT_CODE_OK) {
        struct printer out = printer_begin(console->as_json, console->now, &(struct buffer){0});
        printer_text(&out, NULL, "jid", jid);
        task_reason_put(&why.reason, &why.facts, &out);
        printer_end(&out);
        bool is_lost = why.reason.code <= TASK_CANCELLED || why.reason.code == TASK_DEAD;
        code = is_lost ? EXIT_CODE_FAILURE : EXIT_CODE_OK;
    }
    task_why_end(&why);
    task_search_end(&search);
    return code;
}

static int run(int argc, char **argv)
{
    struct why_command command = {.scan_limit = 10000};
    struct command_line line;
    if (!command_line_read(&line, &command_why, argc, argv, &command))
        return line.exit_code;
    if (line.argument_count != 1 || line.arguments[0][0] == '\0')
        return command_misused(&command_why, "name the task by its jid");
    int code = console_open(&command.console, &command_why, ORIGIN_NEEDS_QUEUE, false);
    if (code == EXIT_CODE_OK)
        code = explain(&command, line.arguments[0]);
    return console_close(&command.console, code);
}

const struct command command_why = {
    .name = "why",
    .summary = "say why a task does not run, and what to do",
    .arguments = "JID",
    .about =
        "Prints one sentence that says what keeps the task from running, or where it is, and a line that says what to\n"
        "do. JID may also be SCORE-JID, the KEY of a list. Nothing is changed.\n"
        "\n"
        "It reads where the task is, who serves its queue and class, and who waits before it; the lock nodes are "
        "asked\n"
        "about a task that waits for a lock, or will. For that a configuration is needed. A node that hangs costs "
        "about two\n"
        "seconds. When it starts is an estimate: the tasks ahead of it, by how long such locks were held today.\n"
        "\n"
        "Exit status: 0 the task waits, runs, or is done; 1 it is dead, was cancelled or was not found, or the "
        "command\n"
        "failed, which standard error says; 75 the queue node cannot be asked.\n"
        "\n"
        "JSON: jid, state, reason, sentence, advice; queue, class, at (in a set), position (in its queue), identity\n"
        "and since (of a claim); resource, ahead (how many wait before it), holder (owner, jid, class,\n"
        "identity, process_alive, since, expires_in, holders); expected_at. null is not known. reason is\n"
        "\n"
        "  gone, unknown      it is nowhere; it was not found where was looked\n"
        "  done, dead         it is done, with a result; it failed for good\n"
        "  cancelled          somebody cancelled it within the last day\n"
        "  runs, starts       a process runs it; a process has just taken it\n"
        "  being_recovered    a process that is gone has it\n"
        "  twin               another run with its jid goes on\n"
        "  paused, quiet      its queue is paused; all workers that could take it are quiet\n"
        "  no_worker, queue_unserved, class_unserved\n"
        "                     no worker is alive, serves its queue, serves its class there\n"
        "  terms              who could run it waits until processes with other terms have ended\n"
        "  queued             it is in its queue, behind others\n"
        "  scheduled, retry   it is for later; it comes again after a failure\n"
        "  overdue            it is due, and nobody has put it into its queue\n"
        "  lock, limit        its lock is held; all seats of its lock are taken\n"
        "  share              its class uses up its share of the threads\n"
        "  no_quorum          too few lock nodes vote\n"
        "  blocked, turn      what is no lock is in the way of its lock; its lock is free\n",
    .examples = "  holdfast why 0123456789abcdef01234567\n"
                "  holdfast why 0123456789abcdef01234567 --json | jq -r .reason\n",
    .options = options,
    .arguments_max = 1,
    .run = run,
};
