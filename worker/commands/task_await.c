#include "worker/commands/task_await.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "queue/task_result.h"
#include "worker/commands/task_reason.h"
#include "worker/commands/task_why.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"

#define LOOK_FIRST_NS   (200 * NS_PER_MS)
#define LOOK_LAST_NS    (2 * NS_PER_S)
#define SEARCH_FIRST_NS NS_PER_S
#define SEARCH_LAST_NS  (4 * NS_PER_S)
#define SEARCHES_UNTOLD 3  /* after some 7 s */
#define SEARCH_SHARE    20 /* a search may take one part of so many of the time */

/* What is known of the task that has no result. */
enum standing {
    STANDS_NOWHERE, /* it has ended without one, or nobody has pushed it */
    STANDS_SOMEWHERE,
    STANDS_DEAD,
    STANDS_UNKNOWN, /* not everything was looked at */
};

struct waiting {
    const struct task_await *await;
    struct console *console;
    struct instant until;
    struct task_search search;
    struct buffer record;
    bool is_there;
    bool is_told; /* what failed */
    enum standing standing;
    struct task_why why;
};

/* --- looking ------------------------------------------------------------------------------------------------------ */

static int result_look(struct waiting *waiting)
{
    struct console *console = waiting->console;
    const struct redis_reply *reply =
        console_ask(console, "GET", console_key(console, console->keys.result_prefix, waiting->await->jid), NULL);
    if (reply->kind == REDIS_NIL)
        return console->code;
    if (reply->kind != REDIS_STRING) {
        console->is_silent = false;
        waiting->is_told = true;
        return console_refuse(console, 0);
    }
    buffer_append(&waiting->record, reply->bytes, reply->length);
    waiting->is_there = true;
    return EXIT_CODE_OK;
}

static void standing_take(struct waiting *waiting)
{
    const struct task_search *search = &waiting->search;
    waiting->standing = search->found == NULL                  ? search->was_cut ? STANDS_UNKNOWN : STANDS_NOWHERE
                        : search->found->state == TASK_IN_DEAD ? STANDS_DEAD
                                                               : STANDS_SOMEWHERE;
}

static int task_look(struct waiting *waiting)
{
    int code = task_search_run(&waiting->search, waiting->await->jid);
    if (code == EXIT_CODE_OK)
        standing_take(waiting);
    return code;
}

/* What was not found may have been on its way, so it is looked for twice. After each search its result may be there. */
static int look(struct waiting *waiting)
{
    int code = result_look(waiting);
    bool is_open = true;
    for (unsigned search = 0; search < 2 && code == EXIT_CODE_OK && !waiting->is_there && is_open; search++) {
        code = task_look(waiting);
        if (code == EXIT_CODE_OK && waiting->standing != STANDS_SOMEWHERE)
            code = result_look(waiting);
        is_open = waiting->standing == STANDS_NOWHERE;
    }
    return code;
}

static bool may_come(const struct waiting *waiting)
{
    return waiting->standing == STANDS_SOMEWHERE || waiting->standing == STANDS_UNKNOWN;
}

static int interrupted(struct waiting *waiting)
{
    char quoted[LOG_QUOTE_MAX];
    console_complain(waiting->console, "interrupted; %s has no result yet", log_quote(waiting->await->jid, quoted));
    return EXIT_CODE_TEMPORARY;
}

/* Of a look about which nothing was said. */
static int failed(struct waiting *waiting, int code)
{
    waiting->console->is_silent = false;
    if (node_client_ended(waiting->console->client) == NODE_CLIENT_INTERRUPTED)
        return interrupted(waiting);
    if (!waiting->is_told)
        node_client_complain(waiting->console->client, waiting->console->command->name);
    return code;
}

static int reason_find(struct waiting *waiting)
{
    const struct task_search *search = &waiting->search;
    if (!console_time(waiting->console))
        return EXIT_CODE_TEMPORARY;
    return task_why_look(&waiting->why, waiting->await->jid, search->found, search->was_cut);
}

/* When the next search is due after one that began and ended then. */
static struct instant search_next(struct instant began, struct instant ended, int64_t *gap_ns)
{
    int64_t rest = instant_since(began, ended) * SEARCH_SHARE, gap = *gap_ns;
    *gap_ns = 2 * gap < SEARCH_LAST_NS ? 2 * gap : SEARCH_LAST_NS;
    return instant_after(ended, rest > gap ? rest : gap);
}

/* Says on a terminal why nothing comes. */
static int delay_tell(struct waiting *waiting)
{
    char quoted[LOG_QUOTE_MAX];
    if (!isatty(STDERR_FILENO) || waiting->standing != STANDS_SOMEWHERE)
        return EXIT_CODE_OK;
    int code = reason_find(waiting);
    if (code == EXIT_CODE_OK)
        fprintf(stderr, "holdfast %s: %s: %s %s Ctrl-C ends the wait, not the task.\n", waiting->console->command->name,
                log_quote(waiting->await->jid, quoted), buffer_text(&waiting->why.reason.sentence),
                buffer_text(&waiting->why.reason.advice));
    return code;
}

static int await_end(struct waiting *waiting)
{
    int64_t pause = LOOK_FIRST_NS, gap = SEARCH_FIRST_NS;
    unsigned searches = 0;
    struct instant searched = instant_now(), next_search = search_next(searched, searched, &gap);
    int code = EXIT_CODE_OK;
    waiting->console->is_silent = true; /* the first look has said what is in its way */
    while (code == EXIT_CODE_OK && !waiting->is_there && may_come(waiting) &&
           !instant_reached(instant_now(), waiting->until)) {
        int64_t left = instant_since(instant_now(), waiting->until);
        if (!node_client_pause(waiting->console->client, left < pause ? left : pause)) {
            waiting->console->is_silent = false;
            return interrupted(waiting);
        }
        pause = pause + pause / 4 < LOOK_LAST_NS ? pause + pause / 4 : LOOK_LAST_NS;
        struct instant now = instant_now();
        if (!instant_reached(now, next_search)) {
            code = result_look(waiting);
            continue;
        }
        code = look(waiting);
        next_search = search_next(now, instant_now(), &gap);
        if (code == EXIT_CODE_OK && !waiting->is_there && ++searches == SEARCHES_UNTOLD)
            code = delay_tell(waiting);
    }
    waiting->console->is_silent = false;
    return code == EXIT_CODE_OK ? code : failed(waiting, code);
}

/* A signal that comes between two looks would be lost with the watch of the look before. */
static int wait_for_it(struct waiting *waiting)
{
    node_client_hold_signals(waiting->console->client, true);
    int code = await_end(waiting);
    node_client_hold_signals(waiting->console->client, false);
    return code;
}

/* --- telling ------------------------------------------------------------------------------------------------------ */

static void absence_print(struct waiting *waiting)
{
    struct printer out = printer_begin(true, waiting->console->now, &(struct buffer){0});
    printer_text(&out, NULL, "jid", waiting->await->jid);
    task_reason_put(&waiting->why.reason, &waiting->why.facts, &out);
    printer_text(&out, NULL, "error", printer_known(waiting->why.facts.error));
    printer_end(&out);
}

static int absence_tell(struct waiting *waiting)
{
    char quoted[LOG_QUOTE_MAX];
    int code = reason_find(waiting);
    if (code != EXIT_CODE_OK)
        return failed(waiting, code);
    if (waiting->console->as_json)
        absence_print(waiting);
    else
        console_complain(waiting->console, "%s has no result%s. %s %s", log_quote(waiting->await->jid, quoted),
                         may_come(waiting) ? " yet" : "", buffer_text(&waiting->why.reason.sentence),
                         buffer_text(&waiting->why.reason.advice));
    return may_come(waiting) ? EXIT_CODE_TEMPORARY : EXIT_CODE_FAILURE;
}

static int result_print(struct waiting *waiting)
{
    struct task_result result;
    struct buffer out = {0};
    char quoted[LOG_QUOTE_MAX];
    if (!task_result_read(waiting->record.bytes, waiting->record.length, &result))
        return console_complain(waiting->console, "what is kept as the result of %s was not written by a worker",
                                log_quote(waiting->await->jid, quoted));
    bool is_json = waiting->console->as_json;
    if (result.was_cancelled && !is_json) {
        char human[HUMAN_TEXT_MAX];
        return console_complain(waiting->console, "%s has no result: it was cancelled at %s",
                                log_quote(waiting->await->jid, quoted), human_date(result.ended_at, human));
    }
    if (is_json) {
        struct json_writer json = json_begin(&out);
        json_text(&json, "jid", waiting->await->jid);
        json_text(&json, "state", result.was_cancelled ? "cancelled" : "done");
        json_seconds(&json, "ended_at", result.ended_at.us);
        json_raw(&json, "result", result.result.bytes, result.result.length);
        json_close(&json, '}');
    } else {
        json_append_defused(&out, result.result.bytes, result.result.length);
    }
    json_print(&out);
    return result.was_cancelled ? EXIT_CODE_FAILURE : EXIT_CODE_OK;
}

int task_await(const struct task_await *await)
{
    struct console *console = await->console;
    struct waiting waiting = {.await = await,
                              .console = console,
                              .why = {.console = console},
                              .until = instant_after(instant_now(), await->wait_ns),
                              .search = {.console = console, .scan_limit = await->scan_limit}};
    task_search_everywhere(&waiting.search);
    console->is_silent = await->was_pushed; /* who has just pushed it did not ask how far was looked */
    int code = look(&waiting);
    if (code != EXIT_CODE_OK && await->was_pushed)
        code = failed(&waiting, code);
    console->is_silent = false;
    if (code == EXIT_CODE_OK && await->waits)
        code = wait_for_it(&waiting);
    if (code == EXIT_CODE_OK)
        code = waiting.is_there ? result_print(&waiting) : absence_tell(&waiting);
    task_why_end(&waiting.why);
    task_search_end(&waiting.search);
    buffer_fini(&waiting.record);
    return code;
}
