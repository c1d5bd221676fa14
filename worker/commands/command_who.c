/* holdfast who: who holds a lock, and who waits for it. Changes nothing. */
#include "worker/commands/commands.h"

#include "base/quantity.h"
#include "worker/print/json_writer.h"
#include "worker/commands/lock_view.h"

enum { OPTION_CONFIG, OPTION_JSON, OPTION_LIMIT, OPTION_USER, OPTION_PASSWORD_FILE };
enum { LIMIT_DEFAULT = 50, LIMIT_MOST = 100000 };

static const struct command_option options[] = {
    [OPTION_CONFIG] = {'c', "config", "FILE", "the configuration of the workers (required)"},
    [OPTION_JSON] = {0, "json", NULL, "print one JSON object, on one line"},
    [OPTION_LIMIT] = {'n', "limit", "N", "list so many waiting tasks (50)"},
    [OPTION_USER] = {0, "user", "NAME", "log in to the lock nodes as this user"},
    [OPTION_PASSWORD_FILE] = {0, "password-file", "FILE", "and with the password in this file"},
    {0, NULL, NULL, NULL},
};

struct who {
    struct lock_view_options view;
    bool as_json;
    int64_t limit;
};

static bool option_take(struct who *who, int option, const char *value)
{
    if (option == OPTION_CONFIG)
        who->view.path = value;
    if (option == OPTION_USER)
        who->view.user = value;
    if (option == OPTION_PASSWORD_FILE)
        who->view.password_file = value;
    who->as_json |= option == OPTION_JSON;
    return option != OPTION_LIMIT || count_parse(value, 1, LIMIT_MOST, &who->limit);
}

static int command_read(struct who *who, int argc, char **argv)
{
    struct command_line line = command_line_begin(&command_who, argc, argv);
    for (int option; (option = command_line_next(&line)) >= 0;)
        if (!option_take(who, option, line.value))
            return command_misused(&command_who, "--limit wants a number from 1 to %d, not '%s'", LIMIT_MOST,
                                   line.value);
    if (line.is_over)
        return line.exit_code;
    if (line.argument_count != 1)
        return command_misused(&command_who, "name the resource, as tasks name it: without the prefix of its keys");
    if (who->view.path == NULL)
        return command_misused(&command_who, "-c FILE is missing");
    if (who->view.user != NULL && who->view.password_file == NULL)
        return command_misused(&command_who, "--user wants --password-file");
    who->view.resource = line.arguments[0];
    return -1;
}

static void show(const struct who *who, const struct lock_view *view, const struct lock_waiters *waiters)
{
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    if (!who->as_json) {
        lock_view_print(view);
        if (view->has_queue)
            lock_waiters_print(waiters, &view->console);
        return;
    }
    json_open(&json, NULL, '{');
    lock_view_json(view, &json);
    if (view->has_queue) {
        lock_waiters_json(waiters, &json);
    } else {
        json_nothing(&json, "waiting");
        json_nothing(&json, "waiters");
    }
    json_close(&json, '}');
    json_print(&out);
}

static int exit_code_of(const struct lock_view *view)
{
    if (!view->has_queue)
        return view->queue_code;
    if (view->state == LOCK_IS_UNKNOWN)
        return EXIT_CODE_TEMPORARY;
    return view->state == LOCK_IS_HELD ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

static int look(const struct who *who, struct lock_view *view)
{
    struct lock_waiters waiters = {.items = NULL};
    int code = lock_view_look(view);
    if (code == EXIT_CODE_OK && view->has_queue)
        code = lock_waiters_read(&waiters, &view->console, who->view.resource, (size_t)who->limit);
    if (code == EXIT_CODE_OK) {
        show(who, view, &waiters);
        code = exit_code_of(view);
    }
    lock_waiters_free(&waiters);
    return code;
}

static int run(int argc, char **argv)
{
    struct who who = {.view = {.command = &command_who}, .limit = LIMIT_DEFAULT};
    struct lock_view view;
    int code = command_read(&who, argc, argv);
    if (code >= 0)
        return code;
    code = lock_view_open(&view, &who.view);
    if (code == EXIT_CODE_OK)
        code = look(&who, &view);
    lock_view_close(&view);
    return code;
}

const struct command command_who = {
    .name = "who",
    .summary = "show who holds a lock, and which tasks wait for it",
    .synopsis = "-c FILE RESOURCE [--limit N] [--json]",
    .about =
        "Asks every lock node what it has under the key of the resource, and says who that is: the process, the task,\n"
        "since when, the fencing token, when it expires if nobody extends it, and on how many nodes. A lock is held\n"
        "when a majority of the nodes that vote has one value. What a minority has is left over from a client that\n"
        "died or gave up, or two that try at this moment: nobody holds it, and it expires. RESOURCE is what tasks\n"
        "name; the prefix of the configuration is put before it.\n"
        "\n"
        "Then the tasks that wait for it, in the order in which they get it: parked ones are woken by the one before\n"
        "them, and LOOKS AGAIN says when they would look by themselves; the others are on their way since that time.\n"
        "A task that locks several resources waits for the one that was refused. Nothing is changed.\n"
        "\n"
        "Exit status: 0 it is held; 1 nobody holds it, or the command failed, which standard error says; 75 too few\n"
        "lock nodes answer, or vote, to tell, or the queue node cannot be asked.\n"
        "\n"
        "JSON: resource, prefix, state (held, free, leftover, unknown), quorum, holders: a list of value, value_hex,\n"
        "standing (held, leftover, unknown), nodes, votes, remaining (seconds), token, owner, host, pid, slot, jid,\n"
        "class, queue, identity, process_alive, since; nodes: a list of name, state, votes, answered, trouble, holder\n"
        "(its place in holders), remaining, fence; waiting: how many; waiters: a list of jid, class, queue, state\n"
        "(parked, on its way, vanished, unknown), at. null is not known.\n",
    .examples = "  holdfast who -c holdfast.conf acct:42\n"
                "  holdfast who -c holdfast.conf acct:42 --json | jq .holders[0].jid\n",
    .options = options,
    .arguments_max = 1,
    .run = run,
};
