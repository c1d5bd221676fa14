/* holdfast who: who holds a lock, and who waits for it. Changes nothing. */
#include "worker/commands/command.h"

#include "worker/commands/lock_view.h"

enum { LIMIT_DEFAULT = 50, LIMIT_MOST = 100000 };

struct who {
    struct lock_view view;
    int64_t limit;
};

static const struct option_row options[] = {
    {OPTION_COUNT, 'n', "limit", "N", "list so many waiting tasks (50)", .offset = offsetof(struct who, limit),
     .least = 1, .most = LIMIT_MOST},
    {OPTION_TABLE, .table = lock_view_options, .offset = offsetof(struct who, view)},
    {.type = OPTION_END},
};

/* Those of the waiting list that has some; where both have, `others` wait in the second. */
static int waiters_read(struct lock_waiters *waiters, struct lock_view *view, size_t limit, long long *others)
{
    struct lock_waiters second = {.items = NULL};
    int code = lock_waiters_read(waiters, view->console, view->lists[0], limit);
    if (code != EXIT_CODE_OK || view->lists[1][0] == '\0')
        return code;
    code = lock_waiters_read(&second, view->console, view->lists[1], limit);
    bool is_only_second = waiters->total == 0;
    *others = is_only_second ? 0 : second.total;
    lock_waiters_free(is_only_second ? waiters : &second);
    if (is_only_second)
        *waiters = second;
    return code;
}

static void show(struct lock_view *view, const struct lock_waiters *waiters, long long others)
{
    struct printer out = printer_begin(view->console->as_json, view->console->now, &(struct buffer){0});
    lock_view_put(view, &out);
    if (view->has_queue) {
        lock_waiters_put(waiters, &out);
        printer_number(&out, NULL, "waiting_under_other_limit", others);
        if (others > 0)
            printer_line(&out, "And %lld in the waiting list of another limit, which the class had, or has elsewhere.",
                         others);
    } else {
        printer_text(&out, NULL, "waiting", NULL);
        printer_text(&out, NULL, "waiters", NULL);
        printer_text(&out, NULL, "waiting_under_other_limit", NULL);
    }
    printer_end(&out);
}

static int exit_code_of(const struct lock_view *view)
{
    if (view->queue_code != EXIT_CODE_OK)
        return view->queue_code;
    if (view->state == LOCK_IS_UNKNOWN)
        return EXIT_CODE_TEMPORARY;
    return lock_view_is_taken(view) ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

static int look(struct lock_view *view, int64_t limit)
{
    struct lock_waiters waiters = {.items = NULL};
    long long others = 0;
    int code = lock_view_look(view);
    if (view->has_queue)
        code = waiters_read(&waiters, view, (size_t)limit, &others);
    if (code == EXIT_CODE_OK) {
        show(view, &waiters, others);
        code = exit_code_of(view);
    }
    lock_waiters_free(&waiters);
    return code;
}

static int run(int argc, char **argv)
{
    struct who who = {.view = {.command = &command_who}, .limit = LIMIT_DEFAULT};
    struct command_line line;
    if (!command_line_read(&line, &command_who, argc, argv, &who))
        return line.exit_code;
    int code = lock_view_open(&who.view, &line);
    if (code == EXIT_CODE_OK)
        code = look(&who.view, who.limit);
    return lock_view_close(&who.view, code);
}

const struct command command_who = {
    .name = "who",
    .summary = "show who holds a lock, and which tasks wait for it",
    .arguments = "RESOURCE",
    .about =
        "Asks every lock node what it has under the key of the resource, and says who that is: the process, the task,\n"
        "since when, the fencing token, when it expires if nobody extends it, and on how many nodes. A lock is held\n"
        "when a majority of the nodes that vote has one value. What a minority has is left over from a client that\n"
        "died or gave up, or two that try at this moment: nobody holds it, and it expires. It is blocked when so many\n"
        "nodes have something else under the key that nobody can lock it: a hash, a value of more than 512 bytes, or\n"
        "one without an end, which no lock client of ours leaves there.\n"
        "\n"
        "RESOURCE is what tasks name; the prefix of the configuration is put before it. If several tasks may hold it\n"
        "(`limit` of a class), each has one of its seats: all that are in use are shown, and with --seat one of\n"
        "them in full. Of a shared lock every reader is shown.\n"
        "\n"
        "Then the tasks that wait for it, in the order in which they get it: parked ones are woken by the one before\n"
        "them, and LOOKS AGAIN says when they would look by themselves; the others are on their way since that time.\n"
        "A task that locks several resources waits for the one that was refused. Nothing is changed.\n"
        "\n"
        "With --node or HOLDFAST_LOCK_NODES (separated by commas) no configuration is needed, and no task is known.\n"
        "\n"
        "Exit status: 0 it is held, or blocked; 1 nobody holds it, or the command failed, which standard error says; "
        "75 too few\n"
        "lock nodes answer, or vote, to tell, or the queue node cannot be asked.\n"
        "\n"
        "JSON: resource, prefix, state (held, blocked, free, leftover, unknown), quorum, holders: a list of value, "
        "value_hex,\n"
        "standing (held, blocked, leftover, unknown), nodes, votes, remaining (seconds), token, owner, host, pid, "
        "slot, jid,\n"
        "class, queue, identity, process_alive, since, reader, seat; nodes: a list of name, state, votes, answered,\n"
        "trouble, holder (its position in holders), readers (how many it has, 64 at most), remaining, fence (these "
        "four\n"
        "are null with several seats); seat; limit (of the class whose `resource` makes such names);\n"
        "waiting: how many; waiters: a list of jid, class, queue, state (parked, on its way, vanished, unknown), at;\n"
        "waiting_under_other_limit: how many are in the waiting list of another limit. null is not known.\n",
    .examples = "  holdfast who acct:42\n"
                "  holdfast who acct:42 --json | jq .holders[0].jid\n",
    .options = options,
    .arguments_max = 1,
    .run = run,
};
