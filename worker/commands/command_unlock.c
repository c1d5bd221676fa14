/* holdfast unlock: takes a lock away from its holder.
 *
 * The order keeps the damage small. First the holder is notified, so that its handler knows of the loss before another
 * owner can get the lock. Then the value is deleted where it was seen, by comparison. Then the next waiter is woken. A
 * holder that cannot be notified (dead, stopped, of another program) relies on its lock until it asks the nodes, or
 * until its validity ends: fenced sinks refuse it, others do not. So --force is required. */
#include "worker/commands/command.h"

#include <string.h>

#include "base/log.h"
#include "queue/control.h"
#include "worker/commands/lock_view.h"
#include "worker/print/human.h"

#define HEAR_WITHIN_NS (2 * NS_PER_S)
#define HEAR_STEP_NS   (10 * NS_PER_MS)

/* What became of the message to the holder. */
enum telling {
    TELLING_NOBODY,   /* no holder that is known to live */
    TELLING_HEARD,    /* its process confirmed the call */
    TELLING_NOT_HEARD /* it did not: stopped, or stuck */
};

struct unlock {
    struct lock_view view;
    bool is_forced;
    enum telling telling[REDLOCK_HOLDERS_MAX]; /* of the view's holders */
    bool is_interrupted;
    bool woke;       /* those that wait were let go */
    bool is_in_vain; /* so many nodes keep what they have that nobody gets the lock */
};

static const struct option_row options[] = {
    {OPTION_FLAG, 0, "force", NULL, "do it; else it is only said what would be done",
     .offset = offsetof(struct unlock, is_forced)},
    {OPTION_TABLE, .table = lock_view_options, .offset = offsetof(struct unlock, view)},
    {.type = OPTION_END},
};

/* --- telling the holder ------------------------------------------------------------------------------------------- */

/* It may believe that it holds the lock, also when only a minority has its value (any more). */
static bool may_be_told(const struct lock_view *view, unsigned holder)
{
    const struct lock_runner *runner = &view->runners[holder];
    return runner->identity != NULL && runner->is_living && runner->jid != NULL;
}

/* The process confirms what it acted upon. A signal ends the command here, where nothing is deleted yet. */
static int hear(struct unlock *unlock, unsigned holder, struct console *console, const char *identity, const char *call)
{
    struct instant patience = instant_after(instant_now(), HEAR_WITHIN_NS);
    for (;;) {
        node_client_begin(console->client);
        control_request_heard(&console->keys, identity, node_client_compose(console->client));
        if (console_run(console) != EXIT_CODE_OK)
            return console->code;
        const struct redis_reply *heard = node_client_reply_of(console->client, 0, REDIS_STRING);
        if (heard != NULL && strcmp(heard->bytes, call) == 0) {
            unlock->telling[holder] = TELLING_HEARD;
            return EXIT_CODE_OK;
        }
        if (instant_reached(instant_now(), patience))
            return EXIT_CODE_OK;
        if (!node_client_pause(console->client, HEAR_STEP_NS))
            unlock->is_interrupted = true;
        if (unlock->is_interrupted)
            return console_complain(console, "interrupted when the holder had been called; nothing was deleted");
    }
}

static int hear_wait(struct unlock *unlock, unsigned holder, struct console *console, const char *identity,
                     const char *call)
{
    node_client_hold_signals(console->client, true);
    int code = hear(unlock, holder, console, identity, call);
    node_client_hold_signals(console->client, false);
    return code;
}

static int holder_tell(struct unlock *unlock, unsigned holder)
{
    struct lock_view *view = &unlock->view;
    struct buffer call = {0};
    const struct lock_runner *runner = &view->runners[holder];
    buffer_format(&call, "LOSE %s", runner->jid);
    node_client_begin(view->console->client);
    control_request_call(&view->console->keys, runner->identity, buffer_text(&call),
                         node_client_compose(view->console->client));
    console_run(view->console);
    long long called = node_client_integer(view->console->client, 0, -1);
    int code = called < 0 ? console_refuse(view->console, 0) : EXIT_CODE_OK;
    unlock->telling[holder] = called > 0 ? TELLING_NOT_HEARD : TELLING_NOBODY; /* till it is known */
    if (called > 0)
        code = hear_wait(unlock, holder, view->console, runner->identity, buffer_text(&call));
    buffer_fini(&call);
    return code;
}

static int holders_tell(struct unlock *unlock)
{
    struct lock_view *view = &unlock->view;
    int code = EXIT_CODE_OK;
    for (unsigned i = 0; i < view->holder_count && code == EXIT_CODE_OK; i++)
        if (may_be_told(view, i))
            code = holder_tell(unlock, i);
    return code;
}

/* --- letting the next one go -------------------------------------------------------------------------------------- */

static bool is_free(const struct lock_view *view)
{
    return view->holder_count == 0 && view->state == LOCK_IS_FREE;
}

/* Of a free resource of which no seat was named, in either list. */
static int waiters_free(struct unlock *unlock)
{
    struct lock_view *view = &unlock->view;
    node_client_begin(view->console->client);
    for (unsigned i = 0; i < 2; i++)
        if (i == 0 || (is_free(view) && view->lists[i][0] != '\0'))
            lock_waiters_request_free(view->console, view->lists[i], node_client_compose(view->console->client));
    console_run(view->console);
    unlock->woke = node_client_integer(view->console->client, 0, -1) >= 0;
    return unlock->woke ? EXIT_CODE_OK : console_refuse(view->console, 0);
}

/* --- telling the operator ----------------------------------------------------------------------------------------- */

static void telling_print(const struct unlock *unlock)
{
    const struct lock_view *view = &unlock->view;
    char quoted[LOG_QUOTE_MAX];
    for (unsigned i = 0; i < view->holder_count; i++) {
        const char *identity = view->runners[i].identity;
        if (redlock_nodes_key(view->session.nodes, view->holders[i].node)->kind != REDLOCK_KEY_VALUE)
            continue; /* no holder */
        if (unlock->telling[i] == TELLING_HEARD)
            printf("#%u, %s, was told that it lost the lock.\n", i + 1, log_quote(identity, quoted));
        else if (unlock->telling[i] == TELLING_NOT_HEARD)
            printf("#%u, %s, was called and did not answer within 2 s: it is stopped or stuck. It may go on with its\n"
                   "task until it asks the lock nodes, or until the lock would have expired.\n",
                   i + 1, log_quote(identity, quoted));
        else
            printf("#%u could not be told: it is no process of this fleet that is known to live. If it lives, it goes\n"
                   "on until it asks the lock nodes, or until the lock would have expired.\n",
                   i + 1);
    }
}

static void taking_print(const struct lock_view *view)
{
    static const char *const words[] = {
        [REDLOCK_TAKING_NOTHING] = "had nothing",
        [REDLOCK_TAKING_DONE] = "deleted",
        [REDLOCK_TAKING_GONE] = "was gone already",
        [REDLOCK_TAKING_CHANGED] = "another value is there by now, of the next holder, and stays",
        [REDLOCK_TAKING_REFUSED] = "not deleted: it is nothing that could be shown, so delete it by hand",
        [REDLOCK_TAKING_FAILED] = "not known: "};
    struct redlock_group_view group = redlock_nodes_group(view->session.nodes);
    for (unsigned i = 0; i < group.nodes; i++) {
        const struct redlock_key_view *key = redlock_nodes_key(view->session.nodes, i);
        char quoted[LOG_QUOTE_MAX];
        printf("%s: %s%s\n", redlock_nodes_view(view->session.nodes, i)->name, words[key->taking],
               key->taking == REDLOCK_TAKING_FAILED ? log_quote(key->trouble, quoted) : "");
    }
}

static void show(struct unlock *unlock)
{
    struct lock_view *view = &unlock->view;
    static const char *const tellings[] = {
        [TELLING_NOBODY] = "nobody", [TELLING_HEARD] = "heard", [TELLING_NOT_HEARD] = "not heard"};
    struct printer out = printer_begin(view->console->as_json, view->console->now, &(struct buffer){0});
    lock_view_put(view, &out);
    printer_truth(&out, "forced", unlock->is_forced);
    printer_list(&out, "told");
    bool was_told = unlock->is_forced && !lock_view_has_several(view);
    for (unsigned i = 0; i < view->holder_count && was_told && out.is_json; i++)
        json_text(&out.json, NULL, tellings[unlock->telling[i]]);
    printer_list_end(&out, NULL);
    printer_truth(&out, "woke", unlock->woke);
    printer_end(&out);
}

static int refuse(struct unlock *unlock)
{
    struct lock_view *view = &unlock->view;
    show(unlock);
    if (lock_view_has_several(view))
        return console_complain(view->console,
                                "several of its seats are in use, so nothing was done: name one with --seat");
    if (is_free(view))
        return console_complain(view->console, "nobody holds it; with --force, who waits for it would be let go");
    bool tells = false, deletes = false;
    for (unsigned i = 0; i < redlock_nodes_group(view->session.nodes).nodes; i++)
        deletes |= redlock_nodes_key(view->session.nodes, i)->kind == REDLOCK_KEY_VALUE;
    if (!deletes && view->state == LOCK_IS_BLOCKED)
        return console_complain(view->console, "nothing was done, and --force deletes nothing of this: it is no lock");
    for (unsigned i = 0; i < view->holder_count; i++)
        tells |= may_be_told(view, i);
    return console_complain(view->console,
                            "nothing was done: say --force to %sdelete this on every lock node and let who waits go",
                            tells ? "tell its process that it lost the lock, " : "");
}

/* --- doing it ----------------------------------------------------------------------------------------------------- */

static int taken_code(struct unlock *unlock, enum redlock_nodes_end end, int code)
{
    if (end == REDLOCK_NODES_REFUSED)
        return EXIT_CODE_FAILURE;
    if (end != REDLOCK_NODES_DONE || code != EXIT_CODE_OK)
        return end == REDLOCK_NODES_DONE ? code : EXIT_CODE_TEMPORARY;
    return is_free(&unlock->view) ? console_complain(unlock->view.console, "nobody held it") : EXIT_CODE_OK;
}

static bool keeps_blocking(const struct lock_view *view)
{
    struct redlock_group_view group = redlock_nodes_group(view->session.nodes);
    unsigned refused = 0;
    for (unsigned i = 0; i < group.nodes; i++)
        refused += redlock_nodes_key(view->session.nodes, i)->taking == REDLOCK_TAKING_REFUSED;
    return group.nodes - refused < group.quorum;
}

/* From here on nothing keeps it from being done but nodes that do not answer. */
static int take(struct unlock *unlock)
{
    struct lock_view *view = &unlock->view;
    int code = view->has_queue ? EXIT_CODE_OK : view->queue_code;
    origin_tell(&view->console->origin, view->command);
    if (!view->console->as_json)
        show(unlock);
    if (view->has_queue)
        code = holders_tell(unlock);
    if (unlock->is_interrupted)
        return code;
    enum redlock_nodes_end end = redlock_nodes_take(view->session.nodes, view->name);
    unlock->is_in_vain = keeps_blocking(view);
    if (view->has_queue && !unlock->is_in_vain) {
        view->console->code = EXIT_CODE_OK; /* also when the holders could not be notified */
        int freed = waiters_free(unlock);
        code = code == EXIT_CODE_OK ? freed : code;
    }
    if (view->console->as_json) {
        show(unlock);
        return taken_code(unlock, end, code);
    }
    telling_print(unlock);
    if (!is_free(view))
        taking_print(view);
    puts(unlock->is_in_vain ? "No task was let go: nobody gets the lock until the rest is deleted, too."
         : unlock->woke     ? "The task that has waited longest for it, if any does, was let go."
         : view->queue_code != EXIT_CODE_OK
             ? "A task that waits for it looks again when its time has come: the queue node could not be asked."
             : "A task that waits for it looks again when its time has come: only lock nodes are named here.");
    return taken_code(unlock, end, code);
}

static int run(int argc, char **argv)
{
    struct unlock unlock = {.view = {.command = &command_unlock, .changes = true}};
    struct command_line line;
    if (!command_line_read(&line, &command_unlock, argc, argv, &unlock))
        return line.exit_code;
    int code = lock_view_open(&unlock.view, &line);
    if (code == EXIT_CODE_OK)
        code = lock_view_look(&unlock.view);
    if (code == EXIT_CODE_OK)
        code = unlock.is_forced && !lock_view_has_several(&unlock.view) ? take(&unlock) : refuse(&unlock);
    return lock_view_close(&unlock.view, code);
}

const struct command command_unlock = {
    .name = "unlock",
    .summary = "take a lock away from its holder",
    .arguments = "RESOURCE",
    .about =
        "Without --force: shows who holds the lock, as `holdfast who` does, and does nothing.\n"
        "\n"
        "With it, what was shown is taken away, whoever holds it, other programs included. First the holder is told,\n"
        "if it is a process of this fleet: its handler sees at once that the lock is lost, and its task is treated as\n"
        "one that lost its lock (on_lost). That is waited for, for at most 2 s. Then the value is deleted on every\n"
        "lock node, but only where the value is the one that was shown. Programs that wait for it ask at once, and\n"
        "the task that has waited longest is let go. Of a lock over several resources only this one is freed at\n"
        "once; a holder that was told gives up the others too.\n"
        "\n"
        "WHAT IS AT STAKE: a holder that does not hear of it (stopped, cut off, of another program) goes on, and two\n"
        "work at one thing until it notices, for up to the ttl of the lock, or for as long as it is stopped. Sinks\n"
        "that compare fencing tokens refuse the old one; others do not. A lock of a process that has died needs none\n"
        "of this: it expires by itself. docs/contention.md has more.\n"
        "\n"
        "Of a resource with several seats in use, name one (--seat). What cannot be shown (a hash, a long value) is\n"
        "no lock, and is left to be deleted by hand; while it blocks the lock, no task is let go. With --node or "
        "HOLDFAST_LOCK_NODES (separated by commas) no\n"
        "configuration is needed; then no holder is told, and no task is let go.\n"
        "\n"
        "Exit status: 0 no lock node has what was shown any more, though the next holder may have the lock by now;\n"
        "1 nobody held it, nothing was done without --force or --seat, or what is there cannot be shown;\n"
        "75 a node did not answer: the same command may be repeated.\n"
        "\n"
        "JSON: the members of `holdfast who` without the waiters; of each node also taking (nothing, deleted, gone,\n"
        "changed, refused, failed); forced, told (of each holder: heard, not heard, nobody), woke.\n",
    .examples = "  holdfast unlock acct:42\n"
                "  holdfast unlock acct:42 --force\n",
    .options = options,
    .arguments_max = 1,
    .run = run,
};
