/* holdfast push: puts tasks into queues, one from the command line or many from standard input. */
#include "worker/commands/commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/quantity.h"
#include "worker/commands/console.h"
#include "worker/commands/moment.h"
#include "worker/commands/pusher.h"
#include "worker/commands/task_await.h"

struct push_command {
    struct console console;
    struct hf_task task;
    struct envelope_limits limits;
    struct option_texts resources, tags;
    char retry[32], jid[ENVELOPE_NEW_JID_SIZE];
    bool from_stdin;
    struct pusher_options run;
    struct task_await await;
};

/* --- options ---------------------------------------------------------------------------------------------------- */

static bool retry_take(void *target, const char *text, struct error *error)
{
    int64_t count = 0;
    bool is_yes = strcmp(text, "true") == 0 || strcmp(text, "yes") == 0;
    bool is_word = is_yes || strcmp(text, "false") == 0 || strcmp(text, "no") == 0;
    if (!is_word && !count_parse(text, 0, ENVELOPE_RETRIES_MAX, &count))
        return error_set(error, "it is a number up to %d, yes or no, not \"%s\"", ENVELOPE_RETRIES_MAX, text);
    if (is_word)
        snprintf(target, sizeof((struct push_command *)0)->retry, "%s", is_yes ? "true" : "false");
    else
        snprintf(target, sizeof((struct push_command *)0)->retry, "%" PRId64, count);
    return true;
}

/* In the library's unit, rounded up; 0, which means something else there, is as little as possible. */
static int64_t ms_of(int64_t ns)
{
    return ns == 0 ? 1 : (ns - 1) / NS_PER_MS + 1;
}

static bool ms_take(void *target, const char *text, struct error *error)
{
    int64_t ns = 0;
    bool is_good = duration_parse(text, &ns, error);
    *(int64_t *)target = ms_of(ns);
    return is_good;
}

static bool unique_take(void *target, const char *text, struct error *error)
{
    int64_t ns = 0;
    if (text != NULL && duration_parse(text, &ns, error) && ns == 0)
        return error_set(error, "%s would end at once; leave --unique out for a task that need not be unique", text);
    return text == NULL || ms_take(target, text, error);
}

static bool at_take(void *target, const char *text, struct error *error)
{
    struct wall_time moment = {0};
    bool is_good = moment_parse(text, &moment, error);
    *(int64_t *)target = moment.us / 1000;
    return is_good;
}

#define AT(member) offsetof(struct push_command, member)
static const struct option_row options[] = {
    {OPTION_TEXT, 'q', "queue", "NAME", "the queue, where a task names none (default)", .offset = AT(task.queue)},
    {OPTION_TEXTS, 'r', "resource", "NAME", "the task is run under the lock of NAME; may be repeated",
     .offset = AT(resources), .most = ENVELOPE_RESOURCES_MAX},
    {OPTION_TEXT, 0, "jid", "ID", "the task's id, instead of a new one", .offset = AT(task.jid)},
    {OPTION_TAKEN, 0, "retry", "N|no|yes", "how often a failed task is retried (yes: 25 times)", .offset = AT(retry),
     .take = retry_take},
    {OPTION_TAKEN, 0, "at", "TIME", "run it at this time: 2026-11-21T18:00:00Z, or seconds since 1970",
     .offset = AT(task.at_ms), .take = at_take},
    {OPTION_TAKEN, 0, "in", "DURATION", "run it in a while", .offset = AT(task.in_ms), .take = ms_take},
    {OPTION_TAKEN, 0, "expires-in", "DURATION", "drop it unless it is started by then",
     .offset = AT(task.expires_in_ms), .take = ms_take},
    {OPTION_TAKEN, 0, "unique", "[=TTL]", "not while a task with the same class and arguments waits or runs (24h)",
     .offset = AT(task.unique_ms), .given = GIVEN(AT(task.unique)), .take = unique_take},
    {OPTION_TEXTS, 't', "tag", "TEXT", "shown by dashboards; may be repeated", .offset = AT(tags), .most = HF_TAGS_MAX},
    {OPTION_DURATION, 'w', "wait", "[=DURATION]", "print its result, when it has one; wait at most so long",
     .offset = AT(await.wait_ns), .given = GIVEN(AT(await.waits))},
    {OPTION_FLAG, 0, "stdin", NULL, "read tasks from standard input, one a line; the same as -",
     .offset = AT(from_stdin)},
    {OPTION_FLAG, 'k', "keep-going", NULL, "leave out lines that are no tasks instead of stopping there",
     .offset = AT(run.keep_going)},
    {OPTION_FLAG, 0, "dry-run", NULL, "only check the tasks; nothing is pushed, no node is needed",
     .offset = AT(run.dry_run)},
    {OPTION_TABLE, .table = console_options, .offset = AT(console)},
    {.type = OPTION_END},
};
#undef AT

/* CLASS [ARGS], CLASS -, or - alone. */
static int arguments_take(struct push_command *command, char **arguments, int count)
{
    bool dash = count > 0 && strcmp(arguments[count - 1], "-") == 0;
    command->from_stdin = command->from_stdin || dash;
    count -= dash;
    if (count > 0)
        command->task.class_name = arguments[0];
    if (command->from_stdin && count > 1)
        return command_misused(&command_push, "the arguments come from standard input, not also from \"%s\"",
                               arguments[1]);
    if (!command->from_stdin && count == 0)
        return command_misused(&command_push, "name a class, or - to read tasks from standard input");
    if (!command->from_stdin)
        command->run.single = count > 1 ? arguments[1] : "[]";
    if (command->from_stdin && command->task.jid != NULL)
        return command_misused(&command_push, "--jid is for one task, not for standard input");
    if (command->task.at_ms != 0 && command->task.in_ms != 0)
        return command_misused(&command_push, "a task runs --at a time or --in a while, not both");
    if (command->await.waits && (command->from_stdin || command->run.dry_run || command->task.jid != NULL))
        return command_misused(&command_push, "--wait is for one task that is pushed, with a jid that is made for it");
    return EXIT_CODE_OK;
}

/* --- the node --------------------------------------------------------------------------------------------------- */

/* The configuration says "" where the library says NULL. */
static const char *text_or_null(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static void node_take(struct push_command *command)
{
    const struct config_node *node = &command->console.config->queue_node;
    struct hf_producer_options *producer = &command->run.producer;
    bool has_sentinels = node->sentinels.count > 0;
    producer->unix_path = text_or_null(node->unix_path);
    producer->host = producer->unix_path != NULL || has_sentinels ? NULL : text_or_null(node->host);
    producer->port = producer->host != NULL ? node->port : 0;
    producer->sentinel_master = has_sentinels ? node->master : NULL;
    producer->sentinels = (const char *const *)node->sentinels.items;
    producer->sentinel_count = node->sentinels.count;
    producer->sentinel_user = has_sentinels ? text_or_null(node->sentinel_user) : NULL;
    producer->sentinel_password = node->sentinel_password;
    producer->user = text_or_null(node->user);
    producer->password = text_or_null(node->password);
    producer->database = node->database;
    producer->client_name = "holdfast-push";
    producer->connect_timeout_ms = node->connect_timeout_ns / NS_PER_MS;
    producer->wait_ms =
        command->console.origin.node_timeout_ns > 0 ? ms_of(command->console.origin.node_timeout_ns) : 0;
    producer->task_bytes_max = command->limits.size;
    producer->task_depth_max = command->limits.depth;
    producer->task_keys_max = command->limits.keys;
}

/* --- the run ---------------------------------------------------------------------------------------------------- */

/* A task that is wrong on the command line is a mistake of the caller. */
static int single_check(struct push_command *command)
{
    struct intake_task task;
    struct error error = ERROR_NONE;
    const char *text = command->run.single;
    if (intake_take(command->run.intake, text, strlen(text), wall_now(), &task, &error))
        return EXIT_CODE_OK;
    return command_misused(&command_push, "%s: %.200s", error.text, text);
}

/* What will be printed about a single task is known from the beginning. */
static void single_settle(struct push_command *command)
{
    struct hf_task *task = &command->task;
    if (task->jid == NULL) {
        envelope_new_jid(command->jid);
        task->jid = command->jid;
    }
    if (task->in_ms != 0)
        task->at_ms = wall_now().us / 1000 + task->in_ms;
    task->in_ms = 0;
}

static int push(struct push_command *command)
{
    struct error error = ERROR_NONE;
    struct buffer address = {0};
    command->limits = config_task_limits(command->console.config);
    command->task.resources = command->resources.items;
    command->task.resource_count = command->resources.count;
    command->task.tags = command->tags.items;
    command->task.tag_count = command->tags.count;
    command->task.retry = command->retry[0] != '\0' ? command->retry : NULL;
    if (command->run.single != NULL)
        single_settle(command);
    command->run.intake = intake_create(&command->task, &command->limits, NULL, &error);
    if (command->run.intake == NULL)
        return command_misused(&command_push, "%s", error.text);
    int code = command->run.single != NULL ? single_check(command) : EXIT_CODE_OK;
    if (code == EXIT_CODE_OK) {
        node_take(command);
        command->run.task = command->task;
        command->run.address = config_node_address(&command->console.config->queue_node, &address);
        command->run.line_max = command->limits.size;
        command->run.fd = STDIN_FILENO;
        command->run.as_json = command->console.as_json;
        command->run.is_awaited = command->await.waits;
        code = (int)pusher_run(&command->run);
        command->console.has_complained = code != EXIT_CODE_OK;
    }
    intake_destroy(command->run.intake);
    buffer_fini(&address);
    return code;
}

/* What was pushed is there, whatever keeps us from waiting for it. */
static int await_result(struct push_command *command)
{
    struct task_await *await = &command->await;
    await->console = &command->console;
    await->jid = command->task.jid;
    int code = console_connect(&command->console, false);
    if (code == EXIT_CODE_OK)
        code = task_await(await);
    if (code == EXIT_CODE_TEMPORARY)
        fprintf(stderr, "holdfast push: the task was pushed; `holdfast result %s%s --wait` goes on waiting\n",
                await->jid, command->console.origin.kind == ORIGIN_LOCAL ? " --local" : "");
    return code;
}

static int run(int argc, char **argv)
{
    struct push_command command = {.await = {.wait_ns = INT64_MAX, .scan_limit = TASK_AWAIT_SCAN, .was_pushed = true}};
    struct command_line line;
    if (!command_line_read(&line, &command_push, argc, argv, &command))
        return line.exit_code;
    int code = arguments_take(&command, line.arguments, line.argument_count);
    if (code != EXIT_CODE_OK)
        return code;
    code = console_configure(&command.console, &command_push, ORIGIN_NEEDS_QUEUE);
    if (code == EXIT_CODE_OK)
        code = push(&command);
    if (code == EXIT_CODE_OK && command.await.waits)
        code = await_result(&command);
    return console_close(&command.console, code);
}

const struct command command_push = {
    .name = "push",
    .summary = "put tasks into queues",
    .arguments = "CLASS [ARGS] | [CLASS] -",
    .about =
        "Pushes one task and prints its id, or pushes the tasks that come on standard input, one a line.\n"
        "\n"
        "CLASS names the handler and ARGS are its arguments as a JSON array, [] by default. With - each line is a\n"
        "whole task, a JSON object with at least \"class\" and \"args\"; with CLASS and - each line is an array of\n"
        "arguments. What a task lacks (jid, queue, created_at, enqueued_at, retry) is added, what it has stays byte\n"
        "for byte. Blank lines are skipped.\n"
        "\n"
        "With --at or --in, or with \"at\" in a task, it waits in the schedule until then; a time that is past means\n"
        "now. A number of seconds since 1970 has ten digits or more: --at refuses a smaller one, which is hardly\n"
        "meant, and as \"at\" of a task it counts from now, as in Sidekiq. With --unique a task is refused while\n"
        "another with the same class and the same bytes of arguments waits or runs: until that one is done, dead,\n"
        "discarded, expired or cancelled, or an operator buries or deletes it, or for TTL after it may run. Whether\n"
        "another program deleted it is looked for; a push that finds it gone takes a second longer.\n"
        "\n"
        "Every task is accounted for. At the first line that is no task the reading stops, and the tasks before it\n"
        "are pushed; with --keep-going such lines are left out. Nothing is ever pushed twice: a lost answer is asked\n"
        "for again in a way that the node recognises. Lines whose outcome is still unknown when --node-timeout (2s) "
        "is\n"
        "over are named, and it is for you to decide about them.\n"
        "\n"
        "With --wait the result of the task is printed instead of its id, as `holdfast result` does, with its exit\n"
        "codes: 1 when there will be none, 75 when there is none yet. Standard error then names the task.\n"
        "\n"
        "Exit codes without --wait: 0 all were pushed; 1 not all were, or standard output could not be written, and\n"
        "standard error says what was pushed; 2 wrong use; 75 the node could not be reached and nothing was pushed,\n"
        "so that the same call may simply be repeated.\n",
    .examples = "  holdfast push transfer '[\"alice\",\"bob\",25]' -r account:alice -r account:bob\n"
                "  holdfast push echo --queue urgent --retry 3\n"
                "  holdfast push --host redis.example -p 6380 --password-file secret - < tasks.jsonl\n"
                "  holdfast push report '[2026]' --at 2026-12-01T06:00:00Z --unique=1h\n"
                "  seq 1000 | sed 's/.*/[&]/' | holdfast push render - -r screen\n",
    .options = options,
    .arguments_max = 2,
    .run = run,
};
