/* holdfast top: the fleet live in a terminal, or as one snapshot. What is read is in top_look.c and top_nodes.c, how it
 * is laid out in top_screen.c; this draws it again and again, and listens to keys and signals meanwhile.
 *
 * A look that fails is no end: what was seen before stays on the screen, with the reason above it. */
#include "worker/commands/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "worker/commands/tasks.h"
#include "worker/commands/top_look.h"
#include "worker/commands/top_nodes.h"
#include "worker/commands/top_screen.h"
#include "worker/print/json_writer.h"
#include "worker/print/table.h"
#include "worker/print/terminal.h"

#define INTERVAL_LEAST_NS (200 * NS_PER_MS)
#define PATIENCE_NS       (2 * NS_PER_S) /* with a node that does not answer */

/* A snapshot that nobody's terminal has to hold is not cut. */
enum { PAPER_WIDTH = 1000, PAPER_HEIGHT = 10000 };
enum { OPEN_SCANS = 1000 }; /* entries of a state that are looked through for a task that was chosen */

struct top_command {
    int64_t interval_ns;
    bool once, as_json;
    struct console console;
    struct top_nodes *nodes;
    struct top_facts facts; /* of the last look that succeeded */
    struct rate_window rates;
    struct instant looked; /* then */
    char away[256];
    bool is_away, has_colour;
    struct top_view view;
    bool is_live;
    enum top_action action;
    char keys[64]; /* that were typed and not taken yet */
    size_t key_count;
    struct terminal terminal;
    bool is_suspended; /* the user suspends the command */
};

#define AT(member) offsetof(struct top_command, member)
static const struct option_row options[] = {
    {OPTION_DURATION, 'i', "interval", "DURATION", "how often to look, at least 200ms (1s)", .offset = AT(interval_ns),
     .least = INTERVAL_LEAST_NS},
    {OPTION_FLAG, 0, "once", NULL, "print one snapshot; also when standard output is no terminal", .offset = AT(once)},
    {OPTION_FLAG, 0, "json", NULL, "print one snapshot as one JSON object, on one line", .offset = AT(as_json)},
    {OPTION_TABLE, .table = origin_queue_options, .help = ORIGIN_HEADLINE, .offset = AT(console.origin)},
    {.type = OPTION_END},
};
#undef AT

/* --- looking ---------------------------------------------------------------------------------------------------- */

/* False when it was interrupted. */
static bool look(struct top_command *top)
{
    struct top_facts fresh = {.away = NULL};
    struct node_client *client = top->console.client;
    top->console.code = EXIT_CODE_OK; /* the look before may have failed */
    bool is_good = console_time(&top->console) && top_look(&fresh, &top->console) == EXIT_CODE_OK;
    if (is_good) {
        top_facts_free(&top->facts);
        top->facts = fresh;
        top->looked = instant_now();
        top_rates_fill(&top->facts, &top->rates);
    } else {
        const char *reason = node_client_reason(client);
        snprintf(top->away, sizeof top->away, "%s", reason[0] != '\0' ? reason : "no answer in time");
        top_facts_free(&fresh);
    }
    top->is_away = !is_good;
    return is_good || node_client_ended(client) != NODE_CLIENT_INTERRUPTED;
}

/* --- one snapshot ----------------------------------------------------------------------------------------------- */

static void facts_write(struct top_command *top, unsigned width, unsigned height, struct buffer *out)
{
    struct redlock_node_view views[REDLOCK_NODES_MAX];
    char reason[TOP_NODES_REASON_MAX];
    struct top_facts *facts = &top->facts;
    facts->node_count = top_nodes_copy(top->nodes, views, reason);
    facts->nodes = views;
    status_votes_take(&facts->status.votes, views, NULL, facts->node_count);
    facts->nodes_reason = reason[0] != '\0' ? reason : NULL;
    facts->away = top->is_away ? top->away : NULL;
    facts->old_us = instant_since(top->looked, instant_now()) / NS_PER_US;
    if (top->as_json)
        top_json_write(facts, out);
    else
        top_screen_write(facts, top->is_live ? &top->view : NULL, width, height, top->has_colour, out);
    facts->nodes = NULL;
    facts->node_count = 0;
    facts->nodes_reason = facts->away = NULL;
}

static int print_once(struct top_command *top)
{
    struct buffer out = {0};
    unsigned width = PAPER_WIDTH, height = PAPER_HEIGHT;
    int code = top_look(&top->facts, &top->console);
    if (code != EXIT_CODE_OK)
        return code;
    top->looked = instant_now();
    top_rates_fill(&top->facts, &top->rates);
    top_nodes_wait(top->nodes);
    if (isatty(STDOUT_FILENO)) {
        terminal_size(&width, &height);
        height = PAPER_HEIGHT;
    }
    facts_write(top, width, height, &out);
    if (top->as_json) {
        json_print(&out);
        return code;
    }
    fwrite(out.bytes, 1, out.length, stdout);
    buffer_fini(&out);
    return code;
}

/* --- live ------------------------------------------------------------------------------------------------------- */

static void draw(struct top_command *top)
{
    struct buffer lines = {0};
    unsigned width, height;
    terminal_size(&width, &height);
    facts_write(top, width, height, &lines);
    terminal_draw(lines.bytes, lines.length);
    buffer_fini(&lines);
}

/* Up to the first key with an action; the others wait until that is done. */
static void keys_take(struct top_command *top)
{
    size_t at = 0;
    for (size_t used; at < top->key_count && top->action == TOP_NOTHING; at += used)
        top->action = top_view_type(&top->view, top->keys + at, top->key_count - at, &used);
    top->key_count -= at;
    memmove(top->keys, top->keys + at, top->key_count);
}

/* An action is done between two looks: a run of the client may be going on here. */
static enum node_client_typed typed(void *context)
{
    struct top_command *top = context;
    enum node_client_typed answer = NODE_CLIENT_TYPED_NOTHING;
    char spare;
    for (;;) {
        size_t room = sizeof top->keys - top->key_count;
        ssize_t length = read(top->terminal.input, room > 0 ? top->keys + top->key_count : &spare, room > 0 ? room : 1);
        if (length < 0)
            return errno == EAGAIN || errno == EINTR ? answer : NODE_CLIENT_TYPED_END;
        if (length == 0)
            return NODE_CLIENT_TYPED_END;
        answer = NODE_CLIENT_TYPED_KEY;
        top->key_count += room > 0 ? (size_t)length : 0;
        keys_take(top);
        if (top->action == TOP_QUIT)
            return NODE_CLIENT_TYPED_END;
    }
}

/* --- what keys ask for -------------------------------------------------------------------------------------------- */

static void task_open(struct top_command *top, char *jid)
{
    size_t length = 0;
    struct top_view *view = &top->view;
    free(view->text);
    view->text = NULL;
    struct tasks tasks = {.console = top->console, .ids = &jid, .id_count = 1, .scan_limit = OPEN_SCANS};
    tasks.out = open_memstream(&view->text, &length);
    if (tasks.out == NULL)
        return;
    int code = tasks_show(&tasks);
    fclose(tasks.out);
    view->text_line = 0;
    if (code == EXIT_CODE_OK)
        view->mode = TOP_READS;
    else
        snprintf(view->note, sizeof view->note, "%s is not there any more, or cannot be asked for", jid);
}

static bool queue_is_paused(const struct top_facts *facts, const char *name)
{
    const struct backlog_queue *queue = backlog_find(&facts->status.backlog, name);
    return queue != NULL && queue->is_paused;
}

/* The answer decides, so what it is about is kept: rows go on moving. */
static void action_ask(struct top_command *top, const char *chosen)
{
    struct top_view *view = &top->view;
    bool is_queue = top->action == TOP_PAUSE;
    bool fits = is_queue ? view->section == TOP_QUEUES : view->section == TOP_TASKS || view->section == TOP_RESOURCES;
    if (!fits || chosen[0] == '\0') {
        snprintf(view->note, sizeof view->note, "choose a %s first: Tab and the arrows", is_queue ? "queue" : "task");
        return;
    }
    char quoted[LOG_QUOTE_MAX];
    view->asked = is_queue && queue_is_paused(&top->facts, chosen) ? TOP_RESUME : top->action;
    const char *verb = view->asked == TOP_CANCEL ? "cancel the task" : view->asked == TOP_PAUSE ? "pause" : "resume";
    snprintf(view->target, sizeof view->target, "%s", chosen);
    snprintf(view->note, sizeof view->note, "%s %s? [y/N]", verb, log_quote(chosen, quoted));
    view->mode = TOP_CONFIRMS;
}

static void action_do(struct top_command *top)
{
    struct top_view *view = &top->view;
    struct console *console = &top->console;
    char *name = view->target, quoted[LOG_QUOTE_MAX];
    long long told = 0;
    console->code = EXIT_CODE_OK;
    if (view->asked == TOP_CANCEL) {
        tasks_cancel(console, &name, 1, &told);
    } else {
        node_client_begin(console->client);
        operate_pause(&console->keys, view->asked == TOP_PAUSE, &name, 1, node_client_compose(console->client));
        console_run(console);
    }
    snprintf(view->note, sizeof view->note, "%s: %s", log_quote(name, quoted),
             console->code != EXIT_CODE_OK ? "the queue node could not be asked"
             : view->asked == TOP_CANCEL   ? "is to be cancelled"
                                           : "done");
}

static void action_take(struct top_command *top)
{
    char chosen[TOP_NAME_MAX];
    top_screen_chosen(&top->facts, &top->view, chosen);
    if (top->action == TOP_DO)
        action_do(top);
    else if (top->action == TOP_CANCEL || top->action == TOP_PAUSE)
        action_ask(top, chosen);
    else if (top->action == TOP_OPEN && (top->view.section == TOP_TASKS || top->view.section == TOP_RESOURCES) &&
             chosen[0] != '\0')
        task_open(top, chosen);
    top->action = TOP_NOTHING;
}

/* The pause ends with it, and then it is drawn again. */
static void resized(void *context)
{
    (void)context;
}

static void suspended(void *context)
{
    struct top_command *top = context;
    top->is_suspended = true;
}

/* False: it is over. */
static bool actions_take(struct top_command *top)
{
    while (top->action != TOP_NOTHING && top->action != TOP_QUIT) {
        action_take(top);
        keys_take(top);
    }
    return top->action != TOP_QUIT;
}

/* Draws, and again when the terminal changes, until it is time to look. False: it is over. */
static bool show_until(struct top_command *top, struct instant until)
{
    do {
        if (top->is_suspended)
            terminal_suspend(&top->terminal);
        top->is_suspended = false;
        if (!actions_take(top))
            return false;
        draw(top);
        int64_t left_ns = instant_since(instant_now(), until);
        if (!node_client_pause(top->console.client, left_ns > 0 ? left_ns : 0))
            return false;
    } while (!instant_reached(instant_now(), until));
    return true;
}

static int run_live(struct top_command *top)
{
    struct error error = ERROR_NONE;
    if (!terminal_enter(&top->terminal, &error))
        return print_once(top);
    node_client_attend(
        top->console.client,
        &(struct node_client_terminal){
            .input = top->terminal.input, .typed = typed, .resized = resized, .suspended = suspended, .context = top});
    node_client_set_patience(top->console.client, PATIENCE_NS);
    top->console.is_silent = top->is_live = true;
    top->view.section = TOP_TASKS;
    top->looked = instant_now();
    struct instant next;
    do
        next = instant_after(instant_now(), top->interval_ns);
    while (look(top) && show_until(top, next));
    terminal_leave(&top->terminal);
    top->console.code = EXIT_CODE_OK; /* the last look may have failed, as the screen said */
    return EXIT_CODE_OK;
}

/* --- the command ------------------------------------------------------------------------------------------------ */

static int run(int argc, char **argv)
{
    struct top_command top = {.interval_ns = NS_PER_S};
    struct command_line line;
    if (!command_line_read(&line, &command_top, argc, argv, &top))
        return line.exit_code;
    int code = console_configure(&top.console, &command_top, ORIGIN_NEEDS_QUEUE);
    if (code == EXIT_CODE_OK) /* what its keys change its screen names */
        code = console_connect(&top.console, true);
    if (code == EXIT_CODE_OK) {
        top.has_colour = table_has_colour(stdout);
        top.nodes = top_nodes_start(top.console.config, top.interval_ns > NS_PER_S ? top.interval_ns : NS_PER_S);
        code = top.once || top.as_json || !isatty(STDOUT_FILENO) ? print_once(&top) : run_live(&top);
    }
    top_nodes_stop(top.nodes);
    top_facts_free(&top.facts);
    free(top.view.text);
    return console_close(&top.console, code);
}

const struct command command_top = {
    .name = "top",
    .summary = "show the fleet live in a terminal",
    .about =
        "Shows tasks a second, every process with its busy threads, running tasks (the oldest first) with what they\n"
        "lock and the token of their lock, the hottest resources with how many tasks wait and who holds them, the\n"
        "lock nodes with their latency and whether they vote, and the queues. Above that a line says what is not "
        "well,\n"
        "as the first line of holdfast status does; only that no node is tried for a lock. Drawn anew every second; q\n"
        "or Ctrl-C ends it and leaves the terminal as it was. What does not fit is left out, and counted (RUNNING\n"
        "8/40).\n"
        "\n"
        "Keys: Tab and the arrows choose a row, / keeps the rows that have a text, s sorts by the next column, r the\n"
        "other way round, Enter shows all that is known of a task, c cancels it, p pauses or resumes a queue; the "
        "last\n"
        "two ask first.\n"
        "\n"
        "Workers show what they run and what they have done every 5 s, so tasks are seen when they run for longer, "
        "and\n"
        "tasks a second are those of the last 15 s (of the last full minute, as long as nothing else is known). A\n"
        "queue node that is away is told above what was seen before. Lock nodes are asked as `holdfast nodes` does.\n"
        "\n"
        "With --once, and when standard output is no terminal, one snapshot is printed. Colours only on a terminal,\n"
        "and not with NO_COLOR.\n"
        "\n"
        "JSON: time, away (null), rate (processed and failed a second, over: seconds), processed, failed, schedule,\n"
        "retry, dead, processes (as of holdfast status), running (class, jid, queue, process, age, resource, token),\n"
        "resources (for, name, waiters, holder, process), lock_nodes (name, address, reached, votes, state, reason,\n"
        "latency, quarantine_left), queues (name, length, latency, paused). Times are seconds since 1970, spans are\n"
        "seconds; null is not known.\n",
    .examples = "  holdfast top\n"
                "  holdfast top --json | jq '.resources[:5]'\n",
    .options = options,
    .run = run,
};
