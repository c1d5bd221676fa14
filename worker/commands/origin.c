#include "worker/commands/origin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/secret.h"
#include "redis/address.h"
#include "worker/config/config_table.h"
#include "worker/config/node_options.h"
#include "worker/servers/local_nodes.h"

#define PORT_DEFAULT REDIS_PORT_DEFAULT
#define HOST_DEFAULT "127.0.0.1"
#define HERE         "./holdfast.conf"

#define AT(member) offsetof(struct origin, member)
const struct option_row origin_options[] = {
    {OPTION_TEXT, 'c', "config", "FILE", "the configuration, instead of the one that is found", .offset = AT(path)},
    {OPTION_FLAG, 0, "local", NULL, "the nodes of `holdfast work --local`", .offset = AT(is_local)},
    {OPTION_FLAG, 'v', "verbose", NULL, "say which configuration was taken", .offset = AT(is_verbose)},
    {.type = OPTION_END},
};

static const struct option_row tls_options[] = {
    {OPTION_FLAG, 0, "tls", NULL, "speak TLS to it", .offset = AT(has_tls)},
    {OPTION_TEXT, 0, "tls-ca-file", "FILE", "trust the authorities in FILE (those of the system)",
     .offset = AT(tls_ca_file)},
    {OPTION_TEXT, 0, "tls-cert-file", "FILE", "show it the certificate in FILE", .offset = AT(tls_cert_file)},
    {OPTION_TEXT, 0, "tls-key-file", "FILE", "with the key in FILE", .offset = AT(tls_key_file)},
    {OPTION_TEXT, 0, "tls-server-name", "NAME", "the name that its certificate is for (that of the host)",
     .offset = AT(tls_server_name)},
    {.type = OPTION_END},
};

const struct option_row origin_lock_options[] = {
    {OPTION_TABLE, .table = origin_options},
    {OPTION_TEXTS, 0, "node", "ADDRESS", "a lock node, HOST:PORT or rediss://HOST:PORT; give all of them",
     .offset = AT(lock_nodes), .most = REDLOCK_NODES_MAX},
    {OPTION_TABLE, .table = tls_options},
    {.type = OPTION_END},
};

const struct option_row origin_queue_options[] = {
    {OPTION_TABLE, .table = origin_options},
    {OPTION_TEXT, 0, "host", "NAME", "the queue node's name, or rediss://HOST:PORT (" HOST_DEFAULT ")",
     .offset = AT(host)},
    {OPTION_COUNT, 'p', "port", "N", "its port (6379)", .offset = AT(port), .least = 1, .most = UINT16_MAX,
     .given = GIVEN(AT(has_port))},
    {OPTION_TEXT, 0, "socket", "PATH", "its unix socket, instead of host and port", .offset = AT(socket)},
    {OPTION_TEXT, 0, "user", "NAME", "log in as this user", .offset = AT(user)},
    {OPTION_TEXT, 0, "password-file", "FILE", "with the password in the first line of FILE",
     .offset = AT(password_file)},
    {OPTION_TEXT, 0, "password-env", "NAME", "with the password in this environment variable",
     .offset = AT(password_env)},
    {OPTION_TABLE, .table = tls_options},
    {OPTION_COUNT, 0, "database", "N", "its database (0)", .offset = AT(database), .most = UINT16_MAX,
     .given = GIVEN(AT(has_database))},
    {OPTION_DURATION, 0, "node-timeout", "DURATION", "how long to wait for the node", .offset = AT(node_timeout_ns),
     .least = NS_PER_MS},
    {.type = OPTION_END},
};
#undef AT

/* --- which file --------------------------------------------------------------------------------------------------- */

static char *path_of(const char *directory, const char *rest)
{
    struct buffer path = {0};
    buffer_format(&path, "%s/%s", directory, rest);
    char *text = memory_text(buffer_text(&path));
    buffer_fini(&path);
    return text;
}

static bool is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

void origin_files(const struct origin_surroundings *surroundings, char *files[ORIGIN_FILES])
{
    size_t count = 0;
    memset(files, 0, ORIGIN_FILES * sizeof files[0]);
    if (is_set(surroundings->holdfast_config))
        files[count++] = memory_text(surroundings->holdfast_config);
    if (surroundings->is_trusting)
        files[count++] = memory_text(HERE);
    /* Its specification has paths that are not absolute ignored. */
    if (surroundings->xdg_config_home != NULL && surroundings->xdg_config_home[0] == '/')
        files[count++] = path_of(surroundings->xdg_config_home, "holdfast/holdfast.conf");
    else if (is_set(surroundings->home))
        files[count++] = path_of(surroundings->home, ".config/holdfast/holdfast.conf");
    files[count] = memory_text("/etc/holdfast/holdfast.conf");
}

/* systemd sets the variable to the id of the program that it starts; children inherit it. A parent 1 proves nothing: it
 * may be the shell of a container, or the shell may have ended. */
static bool is_service(void)
{
    const char *started = getenv("SYSTEMD_EXEC_PID");
    return started != NULL && strtol(started, NULL, 10) == getpid();
}

static bool looks_here(void)
{
    return geteuid() != 0 && !is_service();
}

/* A symbolic link that leads nowhere is there. */
static bool file_is_missing(const char *path)
{
    struct stat facts;
    return lstat(path, &facts) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

static bool is_same_file(const char *path, const char *other)
{
    struct stat facts, others;
    return stat(path, &facts) == 0 && stat(other, &others) == 0 && facts.st_dev == others.st_dev &&
           facts.st_ino == others.st_ino;
}

/* A file that the environment names is meant, so it counts as there. */
static void file_find(struct origin *origin)
{
    char *files[ORIGIN_FILES];
    const struct origin_surroundings surroundings = {.holdfast_config = getenv("HOLDFAST_CONFIG"),
                                                     .xdg_config_home = getenv("XDG_CONFIG_HOME"),
                                                     .home = getenv("HOME"),
                                                     .is_trusting = looks_here()};
    origin_files(&surroundings, files);
    for (size_t i = 0; i < ORIGIN_FILES; i++) {
        bool is_named = i == 0 && is_set(surroundings.holdfast_config);
        if (files[i] != NULL && origin->found == NULL && (is_named || !file_is_missing(files[i])))
            origin->found = files[i], origin->is_of_environment = is_named;
        else
            free(files[i]);
    }
    origin->kind = origin->found != NULL ? ORIGIN_FOUND : ORIGIN_DEFAULT;
    origin->is_passed_over = !surroundings.is_trusting && !origin->is_of_environment && !file_is_missing(HERE) &&
                             (origin->found == NULL || !is_same_file(origin->found, HERE));
}

static bool names_node(const struct origin *origin)
{
    return origin->lock_nodes.count > 0 || origin->host != NULL || origin->has_port || origin->socket != NULL ||
           origin->user != NULL || origin->password_file != NULL || origin->password_env != NULL || origin->has_tls ||
           origin->tls_ca_file != NULL || origin->tls_cert_file != NULL || origin->tls_key_file != NULL ||
           origin->tls_server_name != NULL || origin->has_database;
}

static int nothing_found(const struct origin *origin, const struct command *command, enum origin_needs needs)
{
    fprintf(
        stderr,
        "holdfast %s: there is no configuration: neither -c FILE nor $HOLDFAST_CONFIG names one, and there is no " HERE
        "%s, $XDG_CONFIG_HOME/holdfast/holdfast.conf or /etc/holdfast/holdfast.conf%s\n"
        "To try it, `holdfast work --local` starts nodes of its own; `holdfast config --sample` prints a "
        "configuration to begin with.\n",
        command->name, looks_here() ? "" : " (root and services do not look for it)",
        origin->takes_lock_nodes      ? "; neither --node nor $HOLDFAST_LOCK_NODES names lock nodes"
        : needs == ORIGIN_NEEDS_QUEUE ? "; --host NAME names the queue node too"
                                      : "");
    return EXIT_CODE_USAGE;
}

/* Who stands beside a configuration means it, and what is changed elsewhere is not noticed. */
static int passed_over(const struct origin *origin, const struct command *command, enum origin_needs needs)
{
    char quoted[LOG_QUOTE_MAX];
    const char *found = origin->found != NULL ? log_quote(origin->found, quoted) : NULL;
    command_complain(command,
                     HERE " was not read, because root and services do not read what others may have put there, and "
                          "nothing is done without it: give -c " HERE "%s%s%s",
                     found != NULL ? ", or -c " : "", found != NULL ? found : "",
                     origin->takes_lock_nodes      ? ", or --node with all lock nodes"
                     : needs == ORIGIN_NEEDS_QUEUE ? ", or --host with the queue node"
                                                   : "");
    return EXIT_CODE_USAGE;
}

static int found_check(struct origin *origin, const struct command *command, enum origin_needs needs)
{
    bool is_default = origin->kind == ORIGIN_DEFAULT;
    if (origin->is_passed_over && (origin->changes || (is_default && needs == ORIGIN_NEEDS_LOCKS)))
        return passed_over(origin, command, needs);
    if (is_default && needs != ORIGIN_NEEDS_NOTHING && (origin->changes || needs == ORIGIN_NEEDS_LOCKS))
        return nothing_found(origin, command, needs);
    if (origin->is_verbose || (origin->is_passed_over && !is_default))
        origin_tell(origin, command);
    return EXIT_CODE_OK;
}

static int local_find(struct origin *origin, const struct command *command)
{
    struct error error = ERROR_NONE;
    origin->kind = ORIGIN_LOCAL;
    int code = (int)local_nodes_find(&origin->found, &error);
    if (code != EXIT_CODE_OK)
        command_complain(command, "%s", error.text);
    else if (origin->is_verbose)
        origin_tell(origin, command);
    return code;
}

/* Separated by blanks or commas. */
static int listed_nodes_take(struct origin *origin, const struct command *command)
{
    const char *list = getenv("HOLDFAST_LOCK_NODES");
    if (!origin->takes_lock_nodes || origin->path != NULL || origin->is_local || origin->lock_nodes.count > 0 ||
        !is_set(list))
        return EXIT_CODE_OK;
    origin->listed = memory_text(list);
    char *rest = origin->listed;
    for (char *node; (node = strsep(&rest, ", \t\n")) != NULL;) {
        if (node[0] == '\0')
            continue;
        if (origin->lock_nodes.count == REDLOCK_NODES_MAX)
            return command_misused(command, "$HOLDFAST_LOCK_NODES: at most %d lock nodes", REDLOCK_NODES_MAX);
        origin->lock_nodes.items[origin->lock_nodes.count++] = node;
    }
    return EXIT_CODE_OK;
}

/* What `ps` shows from now on of an argument with a password. The address itself goes on as a copy. */
static void secret_hide(struct origin *origin, const char **argument)
{
    if (*argument == NULL || strchr(*argument, '@') == NULL)
        return;
    char *copy = memory_text(*argument);
    origin->secrets[origin->secret_count++] = copy;
    redis_address_hide((char *)*argument);
    *argument = copy;
}

static void secrets_hide(struct origin *origin)
{
    secret_hide(origin, &origin->host);
    for (size_t i = 0; i < origin->lock_nodes.count && origin->listed == NULL; i++)
        secret_hide(origin, &origin->lock_nodes.items[i]);
}

/* A piece of a list is never quoted: a password with a comma may have been cut there. */
static int lock_nodes_parse(const struct origin *origin, const struct command *command)
{
    char shown[REDIS_ADDRESS_SHOWN_MAX];
    struct error error = ERROR_NONE;
    struct redis_address address;
    for (size_t i = 0; i < origin->lock_nodes.count; i++) {
        const char *node = origin->lock_nodes.items[i];
        bool is_good = redis_address_parse(node, &address, &error);
        redis_address_drop(&address);
        if (!is_good && origin->listed != NULL)
            return command_misused(command,
                                   "$HOLDFAST_LOCK_NODES: number %zu: %s (in a password a comma is written %%2C, and a "
                                   "blank %%20)",
                                   i + 1, error.text);
        if (!is_good)
            return command_misused(command, "the lock node %s: %s", redis_address_shown(node, shown), error.text);
    }
    return EXIT_CODE_OK;
}

static int lock_nodes_check(const struct origin *origin, const struct command *command)
{
    char shown[REDIS_ADDRESS_SHOWN_MAX], other[REDIS_ADDRESS_SHOWN_MAX];
    int code = lock_nodes_parse(origin, command);
    if (code != EXIT_CODE_OK)
        return code;
    for (size_t i = 0; i < origin->lock_nodes.count; i++) {
        const char *node = origin->lock_nodes.items[i];
        for (size_t j = 0; j < i; j++)
            if (strcmp(redis_address_shown(node, shown), redis_address_shown(origin->lock_nodes.items[j], other)) == 0)
                return command_misused(command, "the lock node %s is named twice", shown);
    }
    if (origin->takes_lock_nodes && origin->lock_nodes.count == 0 && names_node(origin))
        return command_misused(command, "the options for TLS go with --node; a configuration has its own");
    return EXIT_CODE_OK;
}

int origin_find(struct origin *origin, const struct command *command, enum origin_needs needs)
{
    secrets_hide(origin);
    int code = listed_nodes_take(origin, command);
    if (code == EXIT_CODE_OK)
        code = lock_nodes_check(origin, command);
    if (code != EXIT_CODE_OK)
        return code;
    if (origin->path != NULL && names_node(origin))
        return command_misused(command, "the %s from -c FILE, not also from other options",
                               origin->takes_lock_nodes ? "lock nodes come" : "queue node comes");
    if (origin->is_local && (origin->path != NULL || names_node(origin)))
        return command_misused(command, "--local says which nodes, so neither -c nor the options of a node go with it");
    if ((origin->host != NULL && origin->host[0] == '\0') || (origin->socket != NULL && origin->socket[0] == '\0'))
        return command_misused(command, "--host and --socket need a name, which is empty here");
    if (origin->socket != NULL && (origin->host != NULL || origin->has_port))
        return command_misused(command, "a node has a --socket, or a --host and --port, not both");
    if (origin->socket != NULL && strlen(origin->socket) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
        return command_misused(command, "--socket: the path has %zu bytes, at most %zu are possible",
                               strlen(origin->socket), sizeof((struct sockaddr_un *)NULL)->sun_path - 1);
    if (origin->user != NULL && origin->password_file == NULL && origin->password_env == NULL)
        return command_misused(command, "--user needs --password-file or --password-env");
    if (origin->is_local)
        return local_find(origin, command);
    if (origin->path != NULL)
        origin->kind = ORIGIN_GIVEN;
    else if (names_node(origin))
        origin->kind = ORIGIN_OPTIONS;
    else
        file_find(origin);
    return found_check(origin, command, needs);
}

const char *origin_path(const struct origin *origin)
{
    return origin->kind == ORIGIN_GIVEN ? origin->path : origin->found;
}

void origin_tell(struct origin *origin, const struct command *command)
{
    char quoted[LOG_QUOTE_MAX];
    bool is_named = origin->kind != ORIGIN_FOUND && origin->kind != ORIGIN_DEFAULT;
    if (origin->is_told || (is_named && !origin->is_verbose))
        return;
    origin->is_told = true;
    fprintf(stderr, "holdfast %s: ", command->name);
    if (origin_path(origin) != NULL)
        fprintf(stderr, "the configuration is %s%s", log_quote(origin_path(origin), quoted),
                origin->kind != ORIGIN_FOUND ? ""
                : origin->is_of_environment  ? ", named by $HOLDFAST_CONFIG"
                                             : ", found because no -c FILE names another");
    else if (origin->kind == ORIGIN_OPTIONS)
        fprintf(stderr, "%s name the %s; no configuration was looked for",
                origin->listed != NULL ? "$HOLDFAST_LOCK_NODES" : "the options",
                origin->takes_lock_nodes ? "lock nodes" : "queue node");
    else
        fprintf(stderr, "no configuration was found; the queue node is " HOST_DEFAULT ":%d", PORT_DEFAULT);
    fputs(origin->is_passed_over ? "; " HERE " was not read: root and services name it with -c\n" : "\n", stderr);
}

/* --- what it says ------------------------------------------------------------------------------------------------- */

static void text_replace(char **field, const char *text)
{
    free(*field);
    *field = memory_text(text != NULL ? text : "");
}

static struct redis_address lock_node_address(const struct origin *origin, size_t index)
{
    struct redis_address address;
    struct error error = ERROR_NONE;
    invariant(redis_address_parse(origin->lock_nodes.items[index], &address, &error));
    return address;
}

/* Only host and port: a password belongs into no text. */
static void lock_nodes_print(const struct origin *origin, struct buffer *out)
{
    buffer_append_text(out, " lock_nodes = (");
    for (size_t i = 0; i < origin->lock_nodes.count; i++) {
        struct redis_address address = lock_node_address(origin, i);
        buffer_append_text(out, i > 0 ? ", { host = " : " { host = ");
        config_text_print(address.host, out);
        buffer_format(out, "; port = %u; }", address.port != 0 ? address.port : PORT_DEFAULT);
        redis_address_drop(&address);
    }
    buffer_append_text(out, " );");
}

/* What the address of a node says, and the options for TLS. */
static bool node_take(struct config_node *node, const struct origin *origin, struct redis_address *address,
                      struct error *error)
{
    const struct redis_address_beside beside = {.port = origin->has_port ? (unsigned)origin->port : 0,
                                                .database = (unsigned)origin->database,
                                                .has_user = origin->user != NULL,
                                                .has_password =
                                                    node->password != NULL || node->password_file[0] != '\0',
                                                .has_tls = origin->has_tls};
    bool agrees = !address->has_scheme || redis_address_agrees(address, &beside, error);
    node->tls = origin->has_tls;
    text_replace(&node->tls_ca_file, origin->tls_ca_file);
    text_replace(&node->tls_cert_file, origin->tls_cert_file);
    text_replace(&node->tls_key_file, origin->tls_key_file);
    text_replace(&node->tls_server_name, origin->tls_server_name);
    if (address->host[0] != '\0')
        node_address_take(node, address);
    redis_address_drop(address);
    return agrees && node_options_check(node, error);
}

static bool lock_nodes_take(struct config *config, const struct origin *origin, struct error *error)
{
    for (size_t i = 0; i < config->lock_node_count; i++) {
        struct redis_address address = lock_node_address(origin, i);
        if (!node_take(&config->lock_nodes[i], origin, &address, error)) {
            error_prefix(error, "the lock node %s:%u", config->lock_nodes[i].host, config->lock_nodes[i].port);
            return false;
        }
    }
    return true;
}

static bool queue_node_take(struct config *config, const struct origin *origin, struct error *error)
{
    struct config_node *node = &config->queue_node;
    struct redis_address address = {.port = 0};
    text_replace(&node->host, origin->host != NULL ? origin->host : origin->socket != NULL ? "" : HOST_DEFAULT);
    text_replace(&node->unix_path, origin->socket);
    text_replace(&node->user, origin->user);
    node->port = origin->has_port ? (unsigned)origin->port : PORT_DEFAULT;
    node->database = (unsigned)origin->database;
    text_replace(&node->password_file, origin->password_file);
    if (origin->password_env != NULL)
        node->password = secret_read_environment(origin->password_env, error);
    if (error_is_set(error))
        return false;
    if (redis_address_has_scheme(node->host) && !redis_address_parse(node->host, &address, error)) {
        error_prefix(error, "--host");
        return false;
    }
    return node_take(node, origin, &address, error) &&
           (node->user[0] == '\0' || node->password_file[0] != '\0' || node->password != NULL ||
            error_set(error, "--host: a user needs a password"));
}

/* Everything by default, but for what the options say of the nodes. */
static struct config *config_of_options(const struct origin *origin, struct error *error)
{
    struct findings findings = {0};
    struct buffer text = {0};
    buffer_format(&text, "queue_node = { host = \"%s\"; port = %d; };", HOST_DEFAULT, PORT_DEFAULT);
    if (origin->lock_nodes.count > 0)
        lock_nodes_print(origin, &text);
    struct config *config = config_read_written(&text, &findings);
    buffer_fini(&text);
    if (config == NULL)
        error_set(error, "%s", findings.count > 0 ? findings.items[0].text : "no memory");
    findings_fini(&findings);
    if (config == NULL)
        return NULL;
    text_replace(&config->path, "the options");
    bool is_good =
        origin->lock_nodes.count > 0 ? lock_nodes_take(config, origin, error) : queue_node_take(config, origin, error);
    if (is_good)
        return config;
    config_free(config);
    return NULL;
}

static struct config *config_of_file(struct origin *origin, const struct command *command, struct findings *findings)
{
    struct config *config = config_read(origin_path(origin), findings);
    if (config != NULL && findings->errors == 0)
        return config;
    findings_print(findings, stderr);
    origin_tell(origin, command);
    config_free(config);
    return NULL;
}

int origin_open(struct origin *origin, const struct command *command, enum origin_needs needs, struct config **config,
                struct findings *warnings)
{
    struct error error = ERROR_NONE;
    struct findings findings = {0};
    int code = origin_find(origin, command, needs);
    *config = NULL;
    if (code != EXIT_CODE_OK)
        return code;
    if (origin_path(origin) != NULL)
        *config = config_of_file(origin, command, warnings != NULL ? warnings : &findings);
    else
        *config = config_of_options(origin, &error);
    findings_fini(&findings);
    if (error_is_set(&error))
        command_complain(command, "%s", error.text);
    if (*config == NULL)
        return EXIT_CODE_FAILURE;
    return EXIT_CODE_OK;
}

void origin_close(struct origin *origin)
{
    free(origin->found);
    secret_free(origin->listed);
    for (size_t i = 0; i < origin->secret_count; i++)
        secret_free(origin->secrets[i]);
    origin->found = origin->listed = NULL;
    origin->secret_count = 0;
}
