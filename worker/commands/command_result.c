/* holdfast result: what a task that is done has left, now or as soon as it is there.
 *
 * With --wait it looks at the result's key, first five times a second and then every two; where the task is it asks
 * seldom, because that can be a long search. A task that moves from one place to the next while they are searched can
 * be missed, so it is gone only when it was found nowhere twice. */
#include "worker/commands/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/quantity.h"
#include "queue/task_result.h"
#include "worker/print/human.h"
#include "worker/commands/task_find.h"

enum { OPTION_CONFIG, OPTION_JSON, OPTION_WAIT, OPTION_SCAN_LIMIT };

enum { SCAN_DEFAULT = 10000 };

#define LOOK_FIRST_NS   (200 * NS_PER_MS)
#define LOOK_LAST_NS    (2 * NS_PER_S)
#define SEARCH_EVERY_NS (4 * NS_PER_S)
#define SEARCH_SHARE    20 /* a search may take one part of so many of the time */

static const struct command_option options[] = {
    [OPTION_CONFIG] = {'c', "config", "FILE", "the configuration of the workers (required)"},
    [OPTION_JSON] = {0, "json", NULL, "print one JSON object, on one line, also when there is no result"},
    [OPTION_WAIT] = {'w', "wait", "[=DURATION]", "until there is one, or there will be none; at most so long"},
    [OPTION_SCAN_LIMIT] = {0, "scan-limit", "N", "look for the task through so many entries of a place (10000)"},
    {0, NULL, NULL, NULL},
};

/* What is known of the task that has no result. */
enum standing {
    STANDS_NOWHERE, /* it has ended without one, or nobody has pushed it */
    STANDS_SOMEWHERE,
    STANDS_DEAD,
    STANDS_UNKNOWN, /* not everything was looked at */
};

struct result_command {
    struct console console;
    const char *path, *jid;
    bool as_json, waits;
    struct instant until;
    struct task_search search;
    struct buffer record;
    bool is_there;
    enum standing standing;
    const char *place; /* of STANDS_SOMEWHERE; NULL = not known */
    char *error;       /* of its last failure; NULL = none, or not known */
};

/* --- looking ------------------------------------------------------------------------------------------------------ */

static int result_look(struct result_command *command)
{
    struct console *console = &command->console;
    inquiry_begin(console->inquiry);
    struct buffer *request = inquiry_compose(console->inquiry);
    redis_request_begin(request, 2);
    redis_request_text(request, "GET");
    queue_keys_request(console->keys.result_prefix, command->jid, request);
    int code = console_run(console);
    if (code != EXIT_CODE_OK)
        return code;
    const struct redis_reply *reply = inquiry_reply(console->inquiry, 0);
    if (reply->kind == REDIS_NIL)
        return EXIT_CODE_OK;
    if (reply->kind != REDIS_STRING)
        return (int)inquiry_complain_reply(console->inquiry, 0, console->command->name);
    buffer_append(&command->record, reply->bytes, reply->length);
    command->is_there = true;
    return EXIT_CODE_OK;
}

static void standing_take(struct result_command *command)
{
    const struct task_entry *entry = command->search.found;
    struct task_view view = {.bytes = NULL};
    struct buffer error = {0};
    free(command->error);
    command->error = NULL;
    command->standing = entry == NULL ? STANDS_NOWHERE : entry->place == TASK_IN_DEAD ? STANDS_DEAD : STANDS_SOMEWHERE;
    if (entry == NULL && command->search.was_cut)
        command->standing = STANDS_UNKNOWN;
    command->place = entry != NULL ? task_place_name(entry->place) : NULL;
    if (entry == NULL)
        return;
    task_view_read(&view, entry->task.bytes, entry->task.length);
    task_view_error(&view, &error);
    if (error.length > 0)
        command->error = strdup(buffer_text(&error));
    task_view_fini(&view);
    buffer_fini(&error);
}

static int task_look(struct result_command *command)
{
    int code = task_search_run(&command->search, command->jid);
    if (code == EXIT_CODE_OK)
        standing_take(command);
    return code;
}

/* Where somebody who asks will most often find it first, what costs most last. */
static void places_choose(struct task_search *search)
{
    static const enum task_place places[] = {TASK_IN_CLAIMS, TASK_IN_RETRY, TASK_IN_DEAD, TASK_IN_SCHEDULE,
                                             TASK_IN_QUEUE};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        task_search_in(search, places[i]);
}

/* What was not found may have been on its way, and its result may be there since. */
static int look(struct result_command *command)
{
    int code = result_look(command);
    if (code == EXIT_CODE_OK && !command->is_there)
        code = task_look(command);
    if (code == EXIT_CODE_OK && !command->is_there && command->standing != STANDS_SOMEWHERE)
        code = result_look(command);
    if (code == EXIT_CODE_OK && !command->is_there && command->standing == STANDS_NOWHERE)
        code = task_look(command);
    return code;
}

static bool may_come(const struct result_command *command)
{
    return command->standing == STANDS_SOMEWHERE || command->standing == STANDS_UNKNOWN;
}

static int interrupted(struct result_command *command)
{
    char quoted[LOG_QUOTE_MAX];
    console_complain(&command->console, "interrupted; %s has no result yet", log_quote(command->jid, quoted));
    return EXIT_CODE_TEMPORARY;
}

/* When the next search is due after one that began and ended then. */
static struct instant search_next(struct instant began, struct instant ended)
{
    int64_t rest = instant_since(began, ended) * SEARCH_SHARE;
    return instant_after(ended, rest > SEARCH_EVERY_NS ? rest : SEARCH_EVERY_NS);
}

static int await_end(struct result_command *command)
{
    int64_t pause = LOOK_FIRST_NS;
    struct instant searched = instant_now(), next_search = search_next(searched, searched);
    int code = EXIT_CODE_OK;
    command->console.is_silent = true; /* the first look has said what is in its way */
    while (code == EXIT_CODE_OK && !command->is_there && may_come(command) &&
           !instant_reached(instant_now(), command->until)) {
        int64_t left = instant_since(instant_now(), command->until);
        if (!inquiry_pause(command->console.inquiry, left < pause ? left : pause)) {
            command->console.is_silent = false;
            return interrupted(command);
        }
        pause = pause + pause / 4 < LOOK_LAST_NS ? pause + pause / 4 : LOOK_LAST_NS;
        struct instant now = instant_now();
        bool searches = instant_reached(now, next_search);
        code = searches ? look(command) : result_look(command);
        if (searches)
            next_search = search_next(now, instant_now());
    }
    command->console.is_silent = false;
    if (code != EXIT_CODE_OK && inquiry_ended(command->console.inquiry) == INQUIRY_INTERRUPTED)
        return interrupted(command);
    if (code != EXIT_CODE_OK)
        inquiry_complain(command->console.inquiry, command->console.command->name);
    return code;
}

/* A signal that comes between two looks would be lost with the watch of the look before. */
static int await(struct result_command *command)
{
    inquiry_hold_signals(command->console.inquiry, true);
    int code = await_end(command);
    inquiry_hold_signals(command->console.inquiry, false);
    return code;
}

/* --- telling ------------------------------------------------------------------------------------------------------ */

static int absence_tell(const struct result_command *command)
{
    const struct console *console = &command->console;
    char quoted[LOG_QUOTE_MAX], error[LOG_QUOTE_MAX];
    const char *jid = log_quote(command->jid, quoted);
    const char *why = command->error != NULL ? log_quote(command->error, error) : NULL;
    switch (command->standing) {
    case STANDS_NOWHERE:
        return console_complain(console,
                                "%s has no result: it has ended without one, its result was kept for long enough, or "
                                "nobody has pushed it",
                                jid);
    case STANDS_DEAD:
        return console_complain(console, "%s has no result: it is dead%s%s", jid, why != NULL ? ": " : "",
                                why != NULL ? why : "");
    case STANDS_SOMEWHERE:
        console_complain(console, "%s has no result yet: it is in %s%s%s", jid, command->place,
                         why != NULL ? "; its last run failed: " : "", why != NULL ? why : "");
        return EXIT_CODE_TEMPORARY;
    case STANDS_UNKNOWN:
        console_complain(console, "%s has no result yet, and was not found where was looked", jid);
        return EXIT_CODE_TEMPORARY;
    }
    return EXIT_CODE_FAILURE;
}

static int absence_print(const struct result_command *command)
{
    static const char *const states[] = {[STANDS_NOWHERE] = "gone",
                                         [STANDS_SOMEWHERE] = "pending",
                                         [STANDS_DEAD] = "dead",
                                         [STANDS_UNKNOWN] = "unknown"};
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_open(&json, NULL, '{');
    json_text(&json, "jid", command->jid);
    json_text(&json, "state", states[command->standing]);
    json_text(&json, "place", command->place);
    json_text(&json, "error", command->error);
    json_close(&json, '}');
    json_print(&out);
    return may_come(command) ? EXIT_CODE_TEMPORARY : EXIT_CODE_FAILURE;
}

static int result_print(const struct result_command *command)
{
    struct task_result result;
    struct buffer out = {0};
    char quoted[LOG_QUOTE_MAX];
    if (!task_result_read(command->record.bytes, command->record.length, &result))
        return console_complain(&command->console, "what is kept as the result of %s was not written by a worker",
                                log_quote(command->jid, quoted));
    struct json_writer json = {.out = &out};
    if (command->as_json) {
        json_open(&json, NULL, '{');
        json_text(&json, "jid", command->jid);
        json_text(&json, "state", "done");
        json_seconds(&json, "ended_at", result.ended_at.us);
        json_raw(&json, "result", result.result.bytes, result.result.length);
        json_close(&json, '}');
    } else {
        json_append_defused(&out, result.result.bytes, result.result.length);
    }
    json_print(&out);
    return EXIT_CODE_OK;
}

static int tell(const struct result_command *command)
{
    if (command->is_there)
        return result_print(command);
    return command->as_json ? absence_print(command) : absence_tell(command);
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static bool option_take(struct result_command *command, int option, const char *value, struct error *error)
{
    int64_t wait_ns = 0, number = 0;
    switch (option) {
    case OPTION_CONFIG:
        command->path = value;
        return true;
    case OPTION_JSON:
        command->as_json = true;
        return true;
    case OPTION_WAIT:
        command->waits = true;
        command->until = INSTANT_NEVER;
        if (value == NULL)
            return true;
        if (!duration_parse(value, &wait_ns, error)) {
            error_prefix(error, "--wait");
            return false;
        }
        command->until = instant_after(instant_now(), wait_ns);
        return true;
    default:
        if (!count_parse(value, 1, INT32_MAX, &number))
            return error_set(error, "--scan-limit wants a number from 1 to %d, not '%s'", INT32_MAX, value);
        command->search.scan_limit = (unsigned long long)number;
        return true;
    }
}

static int run(int argc, char **argv)
{
    struct result_command command = {.search = {.scan_limit = SCAN_DEFAULT}};
    struct error error = ERROR_NONE;
    struct command_line line = command_line_begin(&command_result, argc, argv);
    for (int option; (option = command_line_next(&line)) >= 0;)
        if (!option_take(&command, option, line.value, &error))
            return command_misused(&command_result, "%s", error.text);
    if (line.is_over)
        return line.exit_code;
    if (line.argument_count != 1)
        return command_misused(&command_result, "name the task by its jid");
    command.jid = line.arguments[0];
    if (!envelope_jid_is_sound(command.jid, strlen(command.jid)))
        return command_misused(&command_result, "the argument cannot be a jid");
    command.search.console = &command.console;
    places_choose(&command.search);
    int code = console_begin(&command.console, &command_result, command.path, false);
    if (code == EXIT_CODE_OK)
        code = look(&command);
    if (code == EXIT_CODE_OK && command.waits)
        code = await(&command);
    if (code == EXIT_CODE_OK)
        code = tell(&command);
    task_search_end(&command.search);
    console_end(&command.console);
    buffer_fini(&command.record);
    free(command.error);
    return code;
}

const struct command command_result = {
    .name = "result",
    .summary = "what a task that is done has left as its result",
    .synopsis = "-c FILE JID [--wait[=DURATION]] [--json]",
    .about =
        "Prints the result of a task as JSON. Results are kept for as long as the class of the task says\n"
        "(result_ttl). With --wait it waits until there is one, or until it is clear that there will be none: the\n"
        "task is dead, or is nowhere. It looks up to five times a second, later every two seconds.\n"
        "\n"
        "Exits with 0 when there is a result; with 1 when there is none and none is to be expected: the task is\n"
        "dead, has ended without one, or nobody knows it; with 75 when there is none yet: the task waits, runs or\n"
        "is to be tried again, or nodes could not be reached.\n"
        "\n"
        "JSON: jid, state (done, pending, dead, gone, unknown); of a task that is done also ended_at and result; of\n"
        "any other place (queue, schedule, retry, dead, claims or null) and error (of its last run, or null).\n",
    .examples = "  holdfast result -c holdfast.conf 0123456789abcdef01234567\n"
                "  holdfast result -c holdfast.conf 0123456789abcdef01234567 --wait=30s\n",
    .options = options,
    .arguments_max = 1,
    .run = run,
};
