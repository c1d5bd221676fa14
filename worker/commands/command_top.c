/* holdfast top: the fleet live in a terminal, or as one snapshot. What is read is in top_look.c and top_nodes.c, how it
 * is laid out in top_screen.c; this draws it again and again, and listens to keys and signals meanwhile.
 *
 * A look that fails is no end: what was seen before stays on the screen, with the reason above it. */
#include "worker/commands/commands.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/quantity.h"
#include "worker/print/json_writer.h"
#include "worker/commands/rate_window.h"
#include "worker/print/table.h"
#include "worker/print/terminal.h"
#include "worker/commands/top_look.h"
#include "worker/commands/top_nodes.h"
#include "worker/commands/top_screen.h"

enum { OPTION_CONFIG, OPTION_INTERVAL, OPTION_ONCE, OPTION_JSON };

static const struct command_option options[] = {
    [OPTION_CONFIG] = {'c', "config", "FILE", "the configuration of the workers (required)"},
    [OPTION_INTERVAL] = {'i', "interval", "DURATION", "how often to look, at least 200ms (1s)"},
    [OPTION_ONCE] = {0, "once", NULL, "print one snapshot; also when standard output is no terminal"},
    [OPTION_JSON] = {0, "json", NULL, "print one snapshot as one JSON object, on one line"},
    {0, NULL, NULL, NULL},
};

#define INTERVAL_LEAST_NS (200 * NS_PER_MS)
#define PATIENCE_NS       (2 * NS_PER_S) /* with a node that does not answer */

/* A snapshot that nobody's terminal has to hold is not cut. */
enum { PAPER_WIDTH = 1000, PAPER_HEIGHT = 10000 };

struct top_command {
    const char *path;
    int64_t interval_ns;
    bool once, as_json;
    struct console console;
    struct top_nodes *nodes;
    struct top_facts facts; /* of the last look that succeeded */
    struct rate_window rates;
    struct instant looked; /* then */
    char away[256];
    bool is_away, has_colour;
    struct terminal terminal;
    bool is_suspended; /* somebody wants the terminal for a while */
};

/* --- looking ---------------------------------------------------------------------------------------------------- */

/* When there are too few samples: what was counted in the last full minute. */
static void rates_fill(struct top_command *top)
{
    struct top_facts *facts = &top->facts;
    const struct status *status = &facts->status;
    if (status->processed >= 0 && status->failed >= 0)
        rate_window_add(&top->rates, facts->now, status->processed, status->failed);
    facts->has_rate = rate_window_read(&top->rates, &facts->processed_rate, &facts->failed_rate);
    facts->rate_us = rate_window_span_us(&top->rates);
    if (facts->has_rate || status->minute_processed < 0 || status->minute_failed < 0)
        return;
    facts->has_rate = true;
    facts->rate_us = 60 * US_PER_S;
    facts->processed_rate = (double)status->minute_processed / 60;
    facts->failed_rate = (double)status->minute_failed / 60;
}

/* False when it was interrupted. */
static bool look(struct top_command *top)
{
    struct top_facts fresh = {.away = NULL};
    struct inquiry *inquiry = top->console.inquiry;
    bool is_good = console_time(&top->console) && top_look(&fresh, &top->console) == EXIT_CODE_OK;
    if (is_good) {
        top_facts_free(&top->facts);
        top->facts = fresh;
        top->looked = instant_now();
        rates_fill(top);
    } else {
        const char *reason = inquiry_reason(inquiry);
        snprintf(top->away, sizeof top->away, "%s", reason[0] != '\0' ? reason : "no answer in time");
        top_facts_free(&fresh);
    }
    top->is_away = !is_good;
    return is_good || inquiry_ended(inquiry) != INQUIRY_INTERRUPTED;
}

/* --- one snapshot ----------------------------------------------------------------------------------------------- */

static void facts_write(struct top_command *top, unsigned width, unsigned height, struct buffer *out)
{
    struct redlock_node_view views[REDLOCK_NODES_MAX];
    char reason[TOP_NODES_REASON_MAX];
    struct top_facts *facts = &top->facts;
    facts->node_count = top_nodes_copy(top->nodes, views, reason);
    facts->nodes = views;
    facts->nodes_reason = reason[0] != '\0' ? reason : NULL;
    facts->away = top->is_away ? top->away : NULL;
    facts->old_us = instant_since(top->looked, instant_now()) / NS_PER_US;
    if (top->as_json)
        top_json_write(facts, out);
    else
        top_screen_write(facts, width, height, top->has_colour, out);
    facts->nodes = NULL;
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
    rates_fill(top);
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

/* True: somebody typed q, or the terminal is gone. */
static bool typed(void *context)
{
    struct top_command *top = context;
    char keys[64];
    for (;;) {
        ssize_t length = read(top->terminal.input, keys, sizeof keys);
        if (length < 0)
            return errno != EAGAIN && errno != EINTR;
        if (length == 0 || memchr(keys, 'q', (size_t)length) != NULL || memchr(keys, 'Q', (size_t)length) != NULL)
            return true;
    }
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

/* Draws, and again when the terminal changes, until it is time to look. False: it is over. */
static bool show_until(struct top_command *top, struct instant until)
{
    do {
        if (top->is_suspended)
            terminal_suspend(&top->terminal);
        top->is_suspended = false;
        draw(top);
        int64_t left_ns = instant_since(instant_now(), until);
        if (!inquiry_pause(top->console.inquiry, left_ns > 0 ? left_ns : 0))
            return false;
    } while (!instant_reached(instant_now(), until));
    return true;
}

static int run_live(struct top_command *top)
{
    struct error error = ERROR_NONE;
    if (!terminal_enter(&top->terminal, &error))
        return print_once(top);
    inquiry_attend(
        top->console.inquiry,
        &(struct inquiry_terminal){
            .input = top->terminal.input, .typed = typed, .resized = resized, .suspended = suspended, .context = top});
    inquiry_set_patience(top->console.inquiry, PATIENCE_NS);
    top->console.is_silent = true;
    top->looked = instant_now();
    struct instant next;
    do
        next = instant_after(instant_now(), top->interval_ns);
    while (look(top) && show_until(top, next));
    terminal_leave(&top->terminal);
    return EXIT_CODE_OK;
}

/* --- the command ------------------------------------------------------------------------------------------------ */

static int options_read(struct top_command *top, int argc, char **argv)
{
    struct error error = ERROR_NONE;
    struct command_line line = command_line_begin(&command_top, argc, argv);
    for (int option; (option = command_line_next(&line)) >= 0;) {
        if (option == OPTION_CONFIG)
            top->path = line.value;
        if (option == OPTION_INTERVAL && !duration_parse(line.value, &top->interval_ns, &error))
            return command_misused(&command_top, "--interval: %s", error.text);
        if (top->interval_ns < INTERVAL_LEAST_NS)
            return command_misused(&command_top, "--interval: at least 200ms");
        top->once |= option == OPTION_ONCE || option == OPTION_JSON;
        top->as_json |= option == OPTION_JSON;
    }
    return line.is_over ? line.exit_code : -1;
}

static int run(int argc, char **argv)
{
    struct top_command top = {.interval_ns = NS_PER_S};
    int code = options_read(&top, argc, argv);
    if (code >= 0)
        return code;
    code = console_begin(&top.console, &command_top, top.path, false);
    if (code == EXIT_CODE_OK) {
        top.has_colour = table_has_colour(stdout);
        top.nodes = top_nodes_start(top.console.config, top.interval_ns > NS_PER_S ? top.interval_ns : NS_PER_S);
        code = top.once || !isatty(STDOUT_FILENO) ? print_once(&top) : run_live(&top);
    }
    top_nodes_stop(top.nodes);
    top_facts_free(&top.facts);
    console_end(&top.console);
    return code;
}

const struct command command_top = {
    .name = "top",
    .summary = "show the fleet live in a terminal",
    .synopsis = "-c FILE [--interval DURATION] [--once] [--json]",
    .about =
        "Shows tasks a second, every process with its busy threads, running tasks (the oldest first) with what they\n"
        "lock and the token of their lock, the hottest resources with how many tasks wait and who holds them, the "
        "lock\n"
        "nodes with their latency and whether they vote, and the queues. Drawn anew every second; q or Ctrl-C ends it\n"
        "and leaves the terminal as it was. What does not fit is left out, and counted (RUNNING 8/40).\n"
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
        "retry, dead, processes (identity, state, busy, threads, quiet, rss_kb), running (class, jid, queue, process,\n"
        "age, resource, token), resources (for, name, waiters, holder, process), lock_nodes (name, address, reached,\n"
        "votes, state, reason, latency, quarantine_left), queues (name, length, latency, paused). Times are seconds\n"
        "since 1970, spans are seconds; null is not known.\n",
    .examples = "  holdfast top -c holdfast.conf\n"
                "  holdfast top -c holdfast.conf --json | jq '.resources[:5]'\n",
    .options = options,
    .run = run,
};
