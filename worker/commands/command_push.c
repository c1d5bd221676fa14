/* holdfast push: puts tasks into queues, one from the command line or many from standard input. */
#include "worker/commands/commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/quantity.h"
#include "worker/config/config.h"
#include "worker/config/config_secret.h"
#include "queue/producer.h"
#include "worker/commands/moment.h"
#include "worker/commands/pusher.h"

enum {
    OPTION_CONFIG,
    OPTION_HOST,
    OPTION_PORT,
    OPTION_SOCKET,
    OPTION_USER,
    OPTION_PASSWORD_FILE,
    OPTION_PASSWORD_ENV,
    OPTION_DATABASE,
    OPTION_QUEUE,
    OPTION_RESOURCE,
    OPTION_JID,
    OPTION_RETRY,
    OPTION_AT,
    OPTION_IN,
    OPTION_EXPIRES_IN,
    OPTION_UNIQUE,
    OPTION_TAG,
    OPTION_STDIN,
    OPTION_KEEP_GOING,
    OPTION_DRY_RUN,
    OPTION_WAIT,
    OPTION_JSON,
};

static const struct command_option options[] = {
    [OPTION_CONFIG] = {'c', "config", "FILE", "take the queue node from the configuration of a worker"},
    [OPTION_HOST] = {0, "host", "NAME", "the queue node's name or address (127.0.0.1)"},
    [OPTION_PORT] = {'p', "port", "N", "its port (6379)"},
    [OPTION_SOCKET] = {0, "socket", "PATH", "its unix socket, instead of host and port"},
    [OPTION_USER] = {0, "user", "NAME", "log in as this user"},
    [OPTION_PASSWORD_FILE] = {0, "password-file", "FILE", "with the password in the first line of FILE"},
    [OPTION_PASSWORD_ENV] = {0, "password-env", "NAME", "with the password in this environment variable"},
    [OPTION_DATABASE] = {'n', "database", "N", "its database (0)"},
    [OPTION_QUEUE] = {'q', "queue", "NAME", "the queue, where a task names none (default)"},
    [OPTION_RESOURCE] = {'r', "resource", "NAME", "the task is run under the lock of NAME; may be repeated"},
    [OPTION_JID] = {0, "jid", "ID", "the task's id, instead of a new one"},
    [OPTION_RETRY] = {0, "retry", "N|no|yes", "how often a failed task is retried (yes: 25 times)"},
    [OPTION_AT] = {0, "at", "TIME", "run it at this time: 2026-11-21T18:00:00Z, or seconds since 1970"},
    [OPTION_IN] = {0, "in", "DURATION", "run it in a while"},
    [OPTION_EXPIRES_IN] = {0, "expires-in", "DURATION", "drop it unless it is started by then"},
    [OPTION_UNIQUE] = {0, "unique", "[=TTL]", "not while a task with the same class and arguments waits or runs (24h)"},
    [OPTION_TAG] = {0, "tag", "TEXT", "shown by dashboards; may be repeated"},
    [OPTION_STDIN] = {0, "stdin", NULL, "read tasks from standard input, one a line; the same as -"},
    [OPTION_KEEP_GOING] = {'k', "keep-going", NULL, "leave out lines that are no tasks instead of stopping there"},
    [OPTION_DRY_RUN] = {0, "dry-run", NULL, "only check the tasks; nothing is pushed, no node is needed"},
    [OPTION_WAIT] = {0, "wait", "DURATION", "how long to wait for a node that cannot be reached (2s)"},
    [OPTION_JSON] = {0, "json", NULL, "print the result as JSON"},
    {0, NULL, NULL, NULL},
};

enum { PORT_DEFAULT = 6379 };

struct push_command {
    const char *config_path;
    struct config *config;
    struct config_node node; /* from the options; its texts are not owned, but for the password */
    bool has_node_option;
    const char *password_file, *password_env;
    struct hf_task task;
    struct envelope_limits limits;
    const char *resources[ENVELOPE_RESOURCES_MAX];
    const char *tags[INTAKE_TAGS_MAX];
    char retry[32], jid[ENVELOPE_NEW_JID_SIZE];
    bool from_stdin;
    struct pusher_options run;
};

/* --- options ---------------------------------------------------------------------------------------------------- */

static int node_option(struct push_command *command, int option, const char *value)
{
    int64_t number = 0;
    command->has_node_option = true;
    switch (option) {
    case OPTION_HOST:
        command->node.host = (char *)value;
        break;
    case OPTION_SOCKET:
        command->node.unix_path = (char *)value;
        break;
    case OPTION_USER:
        command->node.user = (char *)value;
        break;
    case OPTION_PASSWORD_FILE:
        command->password_file = value;
        break;
    case OPTION_PASSWORD_ENV:
        command->password_env = value;
        break;
    case OPTION_PORT:
        if (!count_parse(value, 1, UINT16_MAX, &number))
            return command_misused(&command_push, "--port wants a number from 1 to 65535, not '%s'", value);
        command->node.port = (unsigned)number;
        break;
    case OPTION_DATABASE:
        if (!count_parse(value, 0, UINT16_MAX, &number))
            return command_misused(&command_push, "--database wants a number, not '%s'", value);
        command->node.database = (unsigned)number;
        break;
    default:
        break;
    }
    return EXIT_CODE_OK;
}

static int resource_option(struct push_command *command, const char *value)
{
    if (command->task.resource_count == ENVELOPE_RESOURCES_MAX)
        return command_misused(&command_push, "more than %d resources", ENVELOPE_RESOURCES_MAX);
    command->resources[command->task.resource_count++] = value;
    return EXIT_CODE_OK;
}

static int retry_option(struct push_command *command, const char *value)
{
    int64_t count = 0;
    bool is_yes = strcmp(value, "true") == 0 || strcmp(value, "yes") == 0;
    bool is_word = is_yes || strcmp(value, "false") == 0 || strcmp(value, "no") == 0;
    if (!is_word && !count_parse(value, 0, ENVELOPE_RETRIES_MAX, &count))
        return command_misused(&command_push, "--retry wants a number up to %d, yes or no, not '%s'",
                               ENVELOPE_RETRIES_MAX, value);
    if (is_word)
        snprintf(command->retry, sizeof command->retry, "%s", is_yes ? "true" : "false");
    else
        snprintf(command->retry, sizeof command->retry, "%" PRId64, count);
    command->task.retry = command->retry;
    return EXIT_CODE_OK;
}

static int tag_option(struct push_command *command, const char *value)
{
    if (command->task.tag_count == INTAKE_TAGS_MAX)
        return command_misused(&command_push, "more than %d tags", INTAKE_TAGS_MAX);
    command->tags[command->task.tag_count++] = value;
    return EXIT_CODE_OK;
}

/* In the library's unit, rounded up; 0, which means something else there, is as little as possible. */
static int duration_option(const char *name, const char *value, int64_t *ms)
{
    struct error error = ERROR_NONE;
    int64_t ns = 0;
    if (!duration_parse(value, &ns, &error))
        return command_misused(&command_push, "--%s: %s", name, error.text);
    *ms = ns == 0 ? 1 : (ns - 1) / NS_PER_MS + 1;
    return EXIT_CODE_OK;
}

static int unique_option(struct push_command *command, const char *value)
{
    struct error error = ERROR_NONE;
    int64_t ns = 0;
    command->task.unique = true;
    if (value != NULL && duration_parse(value, &ns, &error) && ns == 0)
        return command_misused(&command_push,
                               "--unique=%s would end at once; leave --unique out for a task that need not be unique",
                               value);
    return value == NULL ? EXIT_CODE_OK : duration_option("unique", value, &command->task.unique_ms);
}

static int at_option(struct push_command *command, const char *value)
{
    struct error error = ERROR_NONE;
    struct wall_time moment;
    if (!moment_parse(value, &moment, &error))
        return command_misused(&command_push, "--at: %s", error.text);
    command->task.at_ms = moment.us / 1000;
    return EXIT_CODE_OK;
}

static int time_option(struct push_command *command, int option, const char *value)
{
    switch (option) {
    case OPTION_AT:
        return at_option(command, value);
    case OPTION_IN:
        return duration_option("in", value, &command->task.in_ms);
    case OPTION_EXPIRES_IN:
        return duration_option("expires-in", value, &command->task.expires_in_ms);
    case OPTION_WAIT:
        return duration_option("wait", value, &command->run.producer.wait_ms);
    default:
        return unique_option(command, value);
    }
}

static int option_take(struct push_command *command, int option, const char *value)
{
    switch (option) {
    case OPTION_CONFIG:
        command->config_path = value;
        return EXIT_CODE_OK;
    case OPTION_QUEUE:
        command->task.queue = value;
        return EXIT_CODE_OK;
    case OPTION_RESOURCE:
        return resource_option(command, value);
    case OPTION_JID:
        command->task.jid = value;
        return EXIT_CODE_OK;
    case OPTION_RETRY:
        return retry_option(command, value);
    case OPTION_STDIN:
        command->from_stdin = true;
        return EXIT_CODE_OK;
    case OPTION_KEEP_GOING:
        command->run.keep_going = true;
        return EXIT_CODE_OK;
    case OPTION_DRY_RUN:
        command->run.dry_run = true;
        return EXIT_CODE_OK;
    case OPTION_TAG:
        return tag_option(command, value);
    case OPTION_AT:
    case OPTION_IN:
    case OPTION_EXPIRES_IN:
    case OPTION_UNIQUE:
    case OPTION_WAIT:
        return time_option(command, option, value);
    case OPTION_JSON:
        command->run.as_json = true;
        return EXIT_CODE_OK;
    default:
        return node_option(command, option, value);
    }
}

/* CLASS [ARGS], CLASS -, or - alone. */
static int arguments_take(struct push_command *command, char **arguments, int count)
{
    bool dash = count > 0 && strcmp(arguments[count - 1], "-") == 0;
    command->from_stdin = command->from_stdin || dash;
    count -= dash;
    if (count > 0)
        command->task.class_name = arguments[0];
    if (command->from_stdin && count > 1)
        return command_misused(&command_push, "the arguments come from standard input, not also from '%s'",
                               arguments[1]);
    if (!command->from_stdin && count == 0)
        return command_misused(&command_push, "name a class, or - to read tasks from standard input");
    if (!command->from_stdin)
        command->run.single = count > 1 ? arguments[1] : "[]";
    if (command->from_stdin && command->task.jid != NULL)
        return command_misused(&command_push, "--jid is for one task, not for standard input");
    if (command->task.at_ms != 0 && command->task.in_ms != 0)
        return command_misused(&command_push, "a task runs --at a time or --in a while, not both");
    if (command->config_path != NULL && command->has_node_option)
        return command_misused(&command_push, "the queue node comes from -c FILE, not also from other options");
    if (command->node.unix_path != NULL && (command->node.host != NULL || command->node.port != 0))
        return command_misused(&command_push, "a node has a --socket, or a --host and --port, not both");
    if (command->node.user != NULL && command->password_file == NULL && command->password_env == NULL)
        return command_misused(&command_push, "--user needs --password-file or --password-env");
    return EXIT_CODE_OK;
}

/* --- the node --------------------------------------------------------------------------------------------------- */

static bool config_take(struct push_command *command)
{
    struct findings findings = {0};
    command->config = config_read(command->config_path, &findings);
    bool is_good = command->config != NULL && findings.errors == 0;
    if (!is_good)
        findings_print(&findings, stderr);
    findings_fini(&findings);
    if (!is_good)
        return false;
    command->node = command->config->queue_node;
    command->limits = config_task_limits(command->config);
    return true;
}

static bool options_complete(struct push_command *command, struct error *error)
{
    static char local[] = "127.0.0.1", none[] = "";
    struct config_node *node = &command->node;
    if (node->unix_path == NULL) {
        node->unix_path = none;
        node->host = node->host != NULL ? node->host : local;
        node->port = node->port != 0 ? node->port : PORT_DEFAULT;
    }
    if (command->password_file != NULL)
        node->password = secret_read_file(command->password_file, error);
    else if (command->password_env != NULL)
        node->password = secret_read_environment(command->password_env, error);
    return node->password != NULL || (command->password_file == NULL && command->password_env == NULL);
}

/* The configuration says "" where the library says NULL. */
static const char *text_or_null(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static void node_take(struct push_command *command)
{
    const struct config_node *node = &command->node;
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
    command->task.resources = command->resources;
    command->task.tags = command->tags;
    if (command->run.single != NULL)
        single_settle(command);
    struct intake_options defaults = task_intake(&command->task, &command->limits);
    command->run.intake = intake_create(&defaults, &error);
    if (command->run.intake == NULL)
        return command_misused(&command_push, "%s", error.text);
    int code = command->run.single != NULL ? single_check(command) : EXIT_CODE_OK;
    if (code == EXIT_CODE_OK) {
        node_take(command);
        command->run.task = command->task;
        command->run.address = config_node_address(&command->node, &address);
        command->run.line_max = command->limits.size;
        command->run.fd = STDIN_FILENO;
        code = (int)pusher_run(&command->run);
    }
    intake_destroy(command->run.intake);
    buffer_fini(&address);
    return code;
}

static int start(struct push_command *command)
{
    struct error error = ERROR_NONE;
    if (command->config_path != NULL)
        return config_take(command) ? push(command) : EXIT_CODE_FAILURE;
    if (!options_complete(command, &error)) {
        fprintf(stderr, "holdfast push: %s\n", error.text);
        return EXIT_CODE_FAILURE;
    }
    return push(command);
}

static int run(int argc, char **argv)
{
    struct push_command command = {.limits = ENVELOPE_LIMITS_DEFAULT};
    struct command_line line = command_line_begin(&command_push, argc, argv);
    for (int option; (option = command_line_next(&line)) >= 0;) {
        int code = option_take(&command, option, line.value);
        if (code != EXIT_CODE_OK)
            return code;
    }
    if (line.is_over)
        return line.exit_code;
    int code = arguments_take(&command, line.arguments, line.argument_count);
    if (code == EXIT_CODE_OK)
        code = start(&command);
    if (command.config == NULL)
        secret_free(command.node.password);
    config_free(command.config);
    return code;
}

const struct command command_push = {
    .name = "push",
    .summary = "put tasks into queues",
    .synopsis = "[-c FILE] CLASS [ARGS] | [CLASS] - [options]",
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
        "for again in a way that the node recognises. Lines whose outcome is still unknown when --wait is over are\n"
        "named, and it is for you to decide about them.\n"
        "\n"
        "Exit codes: 0 all were pushed; 1 not all were, or standard output could not be written, and standard error\n"
        "says what was pushed; 2 wrong use; 75 the node could not be reached and nothing was\n"
        "pushed, so that the same call may simply be repeated.\n",
    .examples = "  holdfast push transfer '[\"alice\",\"bob\",25]' -r account:alice -r account:bob\n"
                "  holdfast push -c holdfast.conf echo --queue urgent --retry 3\n"
                "  holdfast push --host redis.example -p 6380 --password-file secret - < tasks.jsonl\n"
                "  holdfast push report '[2026]' --at 2026-12-01T06:00:00Z --unique=1h\n"
                "  seq 1000 | sed 's/.*/[&]/' | holdfast push render - -r screen\n",
    .options = options,
    .arguments_max = 2,
    .run = run,
};
