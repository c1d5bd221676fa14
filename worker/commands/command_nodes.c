/* holdfast nodes: the lock group. What is done, and in which order, is in lib/redlock (redlock_nodes.h); here are its
 * words.
 *
 * A signal ends the process at once, and the same command goes on where it stopped. Only `init`, which is over in a
 * moment and cannot be repeated, is not interrupted while it writes. */
#include "worker/commands/command.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "redis/address.h"
#include "worker/commands/nodes.h"
#include "worker/commands/origin.h"
#include "worker/config/node_options.h"
#include "worker/config/suggest.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"

enum action { ACTION_LIST, ACTION_INIT, ACTION_HEAL, ACTION_REPLACE, ACTIONS };
static const char *const action_names[ACTIONS] = {"list", "init", "heal", "replace"};

struct nodes_command {
    enum action action;
    struct origin origin;
    struct nodes_login login;
    bool as_json, keeps_keys, waits, has_max_ttl;
    int64_t max_ttl_ns, wait_ns;
    struct instant until; /* heal gives up then */
    char **names;         /* what follows the action */
    int name_count;
    struct config *config;
    struct nodes_session session;
    bool has_line; /* of progress, on the terminal */
};

#define AT(member) offsetof(struct nodes_command, member)
static const struct option_row options[] = {
    {OPTION_FLAG, 0, "json", NULL, "print one JSON object, on one line", .offset = AT(as_json)},
    {OPTION_DURATION, 0, "max-ttl", "DURATION", "init: the longest ttl of any lock, and length of quarantines (60s)",
     .offset = AT(max_ttl_ns), .given = GIVEN(AT(has_max_ttl))},
    {OPTION_FLAG, 0, "keep-keys", NULL, "init: the nodes hold locks already; each starts in quarantine",
     .offset = AT(keeps_keys)},
    {OPTION_DURATION, 'w', "wait", "[=DURATION]",
     "heal: wait for what takes time, one longest ttl or more; at most so long", .offset = AT(wait_ns),
     .given = GIVEN(AT(waits))},
    {OPTION_TABLE, .table = origin_lock_options, .help = ORIGIN_HEADLINE, .offset = AT(origin)},
    {OPTION_TABLE, .table = nodes_login_options, .help = NODES_LOGIN_HEADLINE, .offset = AT(login)},
    {.type = OPTION_END},
};
#undef AT

/* --- words -------------------------------------------------------------------------------------------------------- */

/* Every line of the reason is a problem of its own. */
static void complain_reason(const struct nodes_command *command)
{
    const char *line = redlock_nodes_reason(command->session.nodes);
    while (*line != '\0') {
        size_t length = strcspn(line, "\n");
        command_complain(&command_nodes, "%.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

static int exit_code_of(enum redlock_nodes_end end)
{
    if (end == REDLOCK_NODES_DONE)
        return EXIT_CODE_OK;
    return end == REDLOCK_NODES_REFUSED ? EXIT_CODE_FAILURE : EXIT_CODE_TEMPORARY;
}

static bool on_terminal(void)
{
    const char *terminal = getenv("TERM");
    return isatty(STDERR_FILENO) && (terminal == NULL || strcmp(terminal, "dumb") != 0);
}

static void line_end(struct nodes_command *command)
{
    if (command->has_line)
        fputs("\r\033[K", stderr);
    command->has_line = false;
}

static bool show_progress(void *context, const char *what, int64_t left_ms)
{
    struct nodes_command *command = context;
    char human[HUMAN_TEXT_MAX];
    if (!on_terminal())
        return !instant_reached(instant_now(), command->until);
    fprintf(stderr, "\r%s%s%s\033[K", what, left_ms >= 0 ? ": " : "",
            left_ms >= 0 ? human_span(left_ms * 1000, human) : "");
    command->has_line = true;
    return !instant_reached(instant_now(), command->until);
}

/* --- actions ------------------------------------------------------------------------------------------------------ */

static void show(const struct nodes_command *command)
{
    redlock_nodes_count_fences(command->session.nodes);
    nodes_print(command->session.nodes, command->as_json);
}

/* The state of the nodes is the result: it goes to standard output, and the exit code sums it up. */
static int list(struct nodes_command *command)
{
    struct redlock_group_view group;
    unsigned excluded = 0;
    redlock_nodes_look(command->session.nodes);
    show(command);
    group = redlock_nodes_group(command->session.nodes);
    for (unsigned i = 0; i < group.nodes; i++)
        excluded += strcmp(redlock_nodes_view(command->session.nodes, i)->state, "excluded") == 0;
    if (group.voters == group.nodes)
        return EXIT_CODE_OK;
    bool is_known = group.has_group || group.reached >= group.quorum;
    return excluded > 0 && is_known ? EXIT_CODE_FAILURE : EXIT_CODE_TEMPORARY;
}

static int init(struct nodes_command *command)
{
    struct redlock_group_terms terms = {.max_ttl_ms = ms_from_ns(command->max_ttl_ns),
                                        .keep_keys = command->keeps_keys};
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, &before);
    enum redlock_nodes_end end = redlock_nodes_init(command->session.nodes, &terms);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (end == REDLOCK_NODES_DONE)
        show(command);
    else
        complain_reason(command);
    return exit_code_of(end);
}

/* The index of the node of this name; -1 after a complaint. */
static int node_find(const struct config *config, const char *name)
{
    struct suggestion suggestion = suggestion_for(name);
    char hint[SUGGEST_HINT_MAX], quoted[LOG_QUOTE_MAX];
    for (size_t i = 0; i < config->lock_node_count; i++) {
        if (strcmp(config->lock_nodes[i].name, name) == 0)
            return (int)i;
        suggestion_offer(&suggestion, config->lock_nodes[i].name);
    }
    command_complain(&command_nodes, "%s: there is no lock node %s%s", config->path, log_quote(name, quoted),
                     suggestion_hint(&suggestion, hint));
    return -1;
}

/* Those that are named, else all. False after a complaint. */
static bool names_read(const struct nodes_command *command, bool wanted[REDLOCK_NODES_MAX])
{
    for (int i = 0; i < REDLOCK_NODES_MAX; i++)
        wanted[i] = command->name_count == 0;
    for (int i = 0; i < command->name_count; i++) {
        int index = node_find(command->config, command->names[i]);
        if (index < 0)
            return false;
        wanted[index] = true;
    }
    return true;
}

static int heal(struct nodes_command *command)
{
    bool wanted[REDLOCK_NODES_MAX];
    if (!names_read(command, wanted))
        return EXIT_CODE_FAILURE;
    command->until = instant_after(instant_now(), command->wait_ns);
    redlock_nodes_watch(command->session.nodes, show_progress, command);
    int64_t wait_ms = command->wait_ns == INT64_MAX ? INT64_MAX : ms_from_ns(command->wait_ns);
    enum redlock_nodes_end end = redlock_nodes_heal(command->session.nodes, wanted, command->waits ? wait_ms : 0);
    line_end(command);
    if (end == REDLOCK_NODES_DONE || command->as_json)
        show(command);
    if (end != REDLOCK_NODES_DONE)
        complain_reason(command);
    if (end == REDLOCK_NODES_WAITING && !command->waits)
        command_complain(&command_nodes, "say --wait to wait for it");
    return exit_code_of(end);
}

/* An address or a path. What the address does not say is as of the old node. */
static bool successor_parse(const char *text, char name[REDIS_ADDRESS_SHOWN_MAX], struct redlock_node *successor,
                            struct redis_address *address, struct error *error)
{
    successor->name = text;
    if (text[0] == '/') {
        successor->unix_path = text;
        successor->host = NULL;
        return true;
    }
    if (!redis_address_parse(text, address, error))
        return false;
    successor->name = redis_address_shown(text, name);
    successor->unix_path = NULL;
    successor->host = address->host;
    successor->port = address->port != 0 ? address->port : REDIS_PORT_DEFAULT;
    successor->tls = address->has_scheme ? address->is_secure : successor->tls;
    successor->database = address->has_database ? address->database : successor->database;
    if (address->password != NULL) {
        successor->user = address->user;
        successor->password = address->password;
        successor->password_file = NULL;
    }
    return true;
}

static void replaced_tell(const struct nodes_command *command, const struct config_node *old, const char *successor)
{
    if (command->as_json) {
        struct json_writer json = json_begin(&(struct buffer){0});
        json_text(&json, "replaced", old->name);
        json_text(&json, "by", successor);
        json_finish(&json);
        return;
    }
    char name[LOG_QUOTE_MAX], address[LOG_QUOTE_MAX];
    printf("%s is replaced by %s.\n"
           "Now put that address into the entry of %s in lock_nodes of every host's configuration, this one (%s)\n"
           "included, and restart the workers host by host. Until then they work with the nodes that stayed: the old\n"
           "server has no vote any more, and one node less may fail.\n",
           log_quote(old->name, name), log_quote(successor, address), name, command->config->path);
}

static int replace(struct nodes_command *command)
{
    char name[REDIS_ADDRESS_SHOWN_MAX];
    struct redis_address address = {.port = 0};
    struct error error = ERROR_NONE;
    int index = node_find(command->config, command->names[0]);
    if (index < 0)
        return EXIT_CODE_FAILURE;
    struct redlock_node successor = command->session.list[index];
    if (!successor_parse(command->names[1], name, &successor, &address, &error))
        return command_misused(&command_nodes, "%s is no address, nor /path/of/a/socket: %s",
                               redis_address_shown(command->names[1], name), error.text);
    if (address.has_scheme)
        redis_address_hide(command->names[1]); /* what it says was copied */
    redlock_nodes_watch(command->session.nodes, show_progress, command);
    enum redlock_nodes_end end = redlock_nodes_replace(command->session.nodes, (size_t)index, &successor);
    line_end(command);
    if (end == REDLOCK_NODES_DONE)
        replaced_tell(command, &command->config->lock_nodes[index], successor.name);
    else
        complain_reason(command);
    redis_address_drop(&address);
    return exit_code_of(end);
}

/* --- the command line --------------------------------------------------------------------------------------------- */

static bool action_take(struct nodes_command *command, const char *word)
{
    for (int i = 0; i < ACTIONS; i++)
        if (strcmp(word, action_names[i]) == 0) {
            command->action = (enum action)i;
            return true;
        }
    return false;
}

/* What does not go together. EXIT_CODE_OK when all is well. */
static int misuse_find(const struct nodes_command *command)
{
    if (command->action == ACTION_REPLACE && command->name_count != 2)
        return command_misused(&command_nodes, "replace takes the name of a node, and the address of a new server");
    if (command->action <= ACTION_INIT && command->name_count > 0)
        return command_misused(&command_nodes, "%s takes no names: it is about all lock nodes",
                               action_names[command->action]);
    if (command->action != ACTION_INIT && (command->has_max_ttl || command->keeps_keys))
        return command_misused(&command_nodes, "--max-ttl and --keep-keys belong to init");
    if (command->action != ACTION_HEAL && command->waits)
        return command_misused(&command_nodes, "--wait belongs to heal");
    return EXIT_CODE_OK;
}

static int command_read(struct nodes_command *command, int argc, char **argv)
{
    struct command_line line;
    if (!command_line_read(&line, &command_nodes, argc, argv, command))
        return line.exit_code;
    if (line.argument_count > 0 && !action_take(command, line.arguments[0]))
        return command_misused(&command_nodes, "there is no 'nodes %s': it is list, init, heal or replace",
                               line.arguments[0]);
    command->names = line.arguments + 1;
    command->name_count = line.argument_count > 0 ? line.argument_count - 1 : 0;
    int code = misuse_find(command);
    return code == EXIT_CODE_OK ? -1 : code;
}

static int prepare(struct nodes_command *command)
{
    command->origin.changes = command->action != ACTION_LIST;
    int code = origin_open(&command->origin, &command_nodes, ORIGIN_NEEDS_LOCKS, &command->config, NULL);
    if (code == EXIT_CODE_OK)
        code = nodes_login_check(&command->login, &command_nodes);
    if (code == EXIT_CODE_OK && !nodes_session_open(&command->session, command->config, &command->login))
        code = command_complain(&command_nodes, "%s: %s", command->config->path, command->session.reason);
    return code;
}

static int run(int argc, char **argv)
{
    static int (*const actions[ACTIONS])(struct nodes_command *) = {list, init, heal, replace};
    struct nodes_command command = {
        .action = ACTION_LIST, .origin.takes_lock_nodes = true, .wait_ns = INT64_MAX, .until = INSTANT_NEVER};
    int code = command_read(&command, argc, argv);
    if (code >= 0)
        return code;
    log_set_level(LOG_NOTHING); /* instead of what connections log, the command has its own words */
    code = prepare(&command);
    if (code == EXIT_CODE_OK && command.action != ACTION_LIST)
        origin_tell(&command.origin, &command_nodes);
    if (code == EXIT_CODE_OK)
        code = actions[command.action](&command);
    nodes_session_close(&command.session);
    config_free(command.config);
    origin_close(&command.origin);
    return code;
}

const struct command command_nodes = {
    .name = "nodes",
    .summary = "show the lock nodes and who votes; init, heal or replace them",
    .arguments = "[list | init | heal [NODE...] | replace NODE ADDRESS]",
    .about =
        "A lock is held when a majority of the lock nodes says so, which is worth nothing when a node of that\n"
        "majority forgets it. So three or more lock nodes form a group that knows its members, and a node that may\n"
        "have forgotten (it restarted, was emptied, its clock was set) has no vote until every lock that it may have\n"
        "forgotten has expired: its quarantine, a little more than the longest ttl of the group. Workers see to that\n"
        "by themselves, also to its end. docs/lock-nodes.md has the rules, and a runbook.\n"
        "\n"
        "`list`, the default, asks every node once and shows whether it votes, why not and what to do, how long it\n"
        "takes to answer and how far its clock is from this machine's. AT MOST is how long a quarantine lasts when\n"
        "nobody has waited for it before; a worker that saw it begin is ahead. Exit status: 0 all nodes vote; 75 some\n"
        "are in quarantine or cannot be reached, which may pass; 1 some are excluded until somebody does something.\n"
        "\n"
        "`init` makes a group of the nodes of the configuration, once in their life. They have to be up, an odd\n"
        "number, different servers, without locks, and may not evict keys. Nothing is changed unless all is well.\n"
        "For nodes that served a fleet before there were groups: --keep-keys.\n"
        "\n"
        "`heal` gives nodes their votes back, all or those that are named: it waits (with --wait) for the end of\n"
        "quarantines and writes it down, brings members up to date that a replacement did not reach, and lets a node\n"
        "in again that lost its marker. A limit of --wait that is too short is refused with the one that is needed: "
        "the\n"
        "time of several calls does not add up. Whatever a call has begun when it ends, workers finish. Exit status: "
        "0\n"
        "they all vote; 75 not yet; 1 something else is wrong.\n"
        "\n"
        "`replace` puts another, empty server in the place of a node, which may be dead: first the member is made\n"
        "vacant, then, one longest ttl later, the new server gets it, so that any two majorities have a node in\n"
        "common all the time. ADDRESS is host:port, an address as for --node, or the path of a socket; what it does\n"
        "not say (TLS, user and password) is as of the node. It says what to change in the configurations. When it is\n"
        "interrupted, the same command goes on.\n"
        "\n"
        "JSON: group, generation, max_ttl (seconds), vacant, voters, quorum, nodes: a list of name, address, reached,\n"
        "votes, state, reason, advice, trouble, quarantine_left (seconds), group, id, generation, run_id, eviction,\n"
        "latency and clock_ahead (seconds), fence_count (tokens that the node remembers) and fence_floor (the highest\n"
        "that it forgot); null is not known. Of replace: replaced, by.\n",
    .examples = "  holdfast nodes\n"
                "  holdfast nodes init\n"
                "  holdfast nodes heal --wait lock2\n"
                "  holdfast nodes replace lock2 10.0.0.12:6379\n",
    .options = options,
    .arguments_max = REDLOCK_NODES_MAX + 1,
    .run = run,
};
