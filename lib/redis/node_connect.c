/* From a name to a connection that is up. Loop thread only.
 *
 * Every attempt resolves the name anew, because an address may have moved. If the name has several, they are tried one
 * after the other until there is a connection. One deadline, step_ends, covers resolving, connecting and the handshake.
 * The handshake is sent in two writes: who we are and what the server is, then the scripts, for a master only. Each of
 * its requests is an entry of the pending ring like any call, so that all bytes are accounted for the same way. The
 * connection is up after the last expected reply; any unexpected reply ends the attempt.
 *
 * With sentinels, an attempt connects to a sentinel first; its handshake asks for the master.
 *
 * A server may repeat arguments in its error text ("unknown command 'AUTH', with args ..."), so only the first word
 * of an answer to AUTH is reported. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/secret.h"
#include "redis/node_private.h"

/* Keep-alive detects that the peer of an idle connection vanished: after 10 + 3 * 3 seconds. */
enum { KEEP_IDLE_S = 10, KEEP_INTERVAL_S = 3, KEEP_PROBES = 3 };

const char *node_phase_name(enum node_phase phase)
{
    switch (phase) {
    case NODE_RESOLVING:
        return "resolving the name";
    case NODE_CONNECTING:
        return "connecting";
    case NODE_TLS:
        return "the handshake of TLS";
    case NODE_HANDSHAKE:
        return "the handshake";
    case NODE_WAITING:
    case NODE_UP:
        break;
    }
    return "waiting";
}

/* --- handshake, sending ------------------------------------------------------------------------------------- */

/* The request is the end of `out`, from offset `from` on. */
static void expect_handshake(struct redis_node *node, size_t from, enum pending_kind kind, size_t script)
{
    (void)node_expect(node, node->out.length - from,
                      (struct pending){.deadline = INSTANT_NEVER, .kind = (uint8_t)kind, .script = (uint16_t)script});
}

static void ask_auth(struct redis_node *node, const char *user, const char *password)
{
    if (password == NULL)
        return;
    size_t from = node->out.length;
    redis_request_begin(&node->out, user != NULL ? 3 : 2);
    redis_request_text(&node->out, "AUTH");
    if (user != NULL)
        redis_request_text(&node->out, user);
    redis_request_text(&node->out, password);
    expect_handshake(node, from, PENDING_AUTH, 0);
}

static void ask_database(struct redis_node *node)
{
    size_t from = node->out.length;
    redis_request_begin(&node->out, 2);
    redis_request_text(&node->out, "SELECT");
    redis_request_integer(&node->out, node->options.database);
    expect_handshake(node, from, PENDING_SELECT, 0);
}

static void ask_client_name(struct redis_node *node)
{
    size_t from = node->out.length;
    redis_request_command(&node->out, "CLIENT", "SETNAME", node->options.client_name);
    expect_handshake(node, from, PENDING_CLIENT_NAME, 0);
}

static void ask_script(struct redis_node *node, size_t index)
{
    const struct redis_script *script = node->options.scripts[index];
    size_t from = node->out.length;
    redis_request_begin(&node->out, 3);
    redis_request_texts(&node->out, "SCRIPT", "LOAD");
    redis_request_bytes(&node->out, script->source, script->length);
    expect_handshake(node, from, PENDING_SCRIPT, index);
}

static void ask_word(struct redis_node *node, const char *word, enum pending_kind kind)
{
    size_t from = node->out.length;
    redis_request_command(&node->out, word);
    expect_handshake(node, from, kind, 0);
}

static void ask_master(struct redis_node *node)
{
    size_t from = node->out.length;
    sentinel_ask(&node->search, &node->out);
    expect_handshake(node, from, PENDING_MASTER, 0);
}

/* What was read from the file replaces the password. False if there never was one. */
static bool password_renew(const struct redis_node *node, const char *file, const char **password, bool *has_failed,
                           struct error *error)
{
    char name[LOG_QUOTE_MAX], reason[LOG_QUOTE_MAX];
    if (file == NULL)
        return true;
    char *fresh = secret_read_file(file, error);
    if (fresh == NULL && *password == NULL)
        return false;
    if (fresh == NULL)
        log_event(*has_failed ? LOG_DEBUG : LOG_ERROR, "password_reload_failed",
                  "node=%s reason=%s advice=\"what was read before is still used\"",
                  log_value(node->options.name, name), log_value(error->text, reason));
    *has_failed = fresh == NULL;
    if (fresh == NULL)
        return true;
    if (*password != NULL && strcmp(*password, fresh) != 0)
        log_event(LOG_INFO, "password_reloaded", "node=%s", log_value(node->options.name, name));
    secret_free((char *)*password);
    *password = fresh;
    return true;
}

/* That of the server which is asked next. */
static bool passwords_renew(struct redis_node *node)
{
    struct redis_node_options *own = &node->options;
    struct redis_sentinels *sentinels = &own->sentinels;
    struct error error = ERROR_NONE;
    bool is_there = sentinel_search_current(&node->search) != NULL
                        ? password_renew(node, sentinels->password_file, &sentinels->password,
                                         &node->sentinel_password_failed, &error)
                        : password_renew(node, own->password_file, &own->password, &node->password_failed, &error);
    if (!is_there)
        node_lose(node, "the password cannot be read: %s", error.text);
    return is_there;
}

static size_t text_length(const char *text)
{
    return text != NULL ? strlen(text) : 0;
}

/* Reserves room for everything sent with the credentials: growing would leave copies of the password in freed
 * memory. */
static void reserve_for_auth(struct redis_node *node)
{
    const struct redis_node_options *own = &node->options;
    const struct redis_sentinels *sentinels = &own->sentinels;
    buffer_reserve(&node->out, 256 + text_length(own->user) + text_length(own->password) +
                                   text_length(own->client_name) + text_length(sentinels->user) +
                                   text_length(sentinels->password) + text_length(sentinels->master));
}

/* Before the handshake has succeeded, a peer gets no large buffer. */
static const size_t handshake_reply_limit = 64 * 1024;

static void begin_handshake(struct redis_node *node)
{
    node->phase = NODE_HANDSHAKE;
    redis_reader_reset(node->reader);
    if (node->options.reply_limit > handshake_reply_limit)
        redis_reader_limit(node->reader, handshake_reply_limit);
    reserve_for_auth(node);
    if (sentinel_search_current(&node->search) != NULL) {
        ask_auth(node, node->options.sentinels.user, node->options.sentinels.password);
        ask_master(node);
    } else {
        ask_auth(node, node->options.user, node->options.password);
        if (node->options.database != 0)
            ask_database(node);
        if (node->options.client_name != NULL)
            ask_client_name(node);
        ask_word(node, "ROLE", PENDING_ROLE);
    }
    loop_at_cycle_end(node->loop, LOOP_WRITE, &node->write_hook);
}

/* The second part, for a master. The first part is answered; it held the password. */
static void go_on_with_master(struct redis_node *node)
{
    node_drop_output(node);
    for (size_t i = 0; i < node->options.script_count; i++)
        ask_script(node, i);
    if (pending_is_empty(&node->pending))
        ask_word(node, "PING", PENDING_PING);
    loop_at_cycle_end(node->loop, LOOP_WRITE, &node->write_hook);
}

/* --- handshake, replies ------------------------------------------------------------------------------------- */

static const char *first_word(const struct redis_reply *reply, char out[32])
{
    snprintf(out, 32, "%.*s", (int)(reply->length < 31 ? reply->length : 31), reply->bytes);
    out[strcspn(out, " ")] = '\0';
    return out;
}

/* Of a server, proxy or user without this command. Any other refusal would also refuse the next request. */
static bool command_is_hidden(const struct redis_reply *reply)
{
    if (reply->kind != REDIS_FAILURE)
        return false;
    enum redis_error error = redis_error_classify(reply->bytes, reply->length);
    return error == REDIS_ERROR_SYNTAX || error == REDIS_ERROR_OTHER ||
           (error == REDIS_ERROR_AUTH && strncmp(reply->bytes, "NOPERM", 6) == 0);
}

/* The server itself, or a proxy before it, knows no such command. */
static bool command_is_missing(const struct redis_reply *reply)
{
    return reply->kind == REDIS_FAILURE && redis_error_classify(reply->bytes, reply->length) == REDIS_ERROR_SYNTAX;
}

static bool refused(struct redis_node *node, const struct pending *entry, const struct redis_reply *reply)
{
    char word[32];
    bool is_failure = reply->kind == REDIS_FAILURE;
    const char *text = is_failure ? reply->bytes : "an unexpected reply, as of no Redis server";
    const char *advice = is_failure && redis_error_classify(reply->bytes, reply->length) == REDIS_ERROR_AUTH
                             ? "; check the user, its password and its rights"
                             : "";
    switch (entry->kind) {
    case PENDING_AUTH:
        node_lose(node, "%s refused AUTH (%s); check user and password of %s", node->address,
                  is_failure ? first_word(reply, word) : text,
                  sentinel_search_current(&node->search) != NULL ? "the sentinels" : "this node");
        break;
    case PENDING_SELECT:
        node_lose(node, "%s refused SELECT %u: %s%s", node->address, node->options.database, text, advice);
        break;
    case PENDING_CLIENT_NAME:
        node_lose(node, "%s refused CLIENT SETNAME: %s%s", node->address, text, advice);
        break;
    case PENDING_SCRIPT:
        if (command_is_missing(reply)) {
            node_lose_unfit(node, REDIS_ERROR_NOSCRIPT, text);
            break;
        }
        node_lose(node, "%s refused SCRIPT LOAD of %s: %s%s", node->address, node->options.scripts[entry->script]->name,
                  text, advice);
        break;
    default:
        node_lose(node, "%s refused %s: %s%s", node->address, entry->kind == PENDING_ROLE ? "ROLE" : "PING", text,
                  advice);
    }
    return false;
}

/* --- is it a master? ---------------------------------------------------------------------------------------- */

static bool role_is(const struct redis_reply *reply, const char *role)
{
    return redis_reply_is_text(&reply->elements[0], role);
}

static void lose_replica(struct redis_node *node, const struct redis_reply *reply)
{
    bool names_master =
        reply->count >= 3 && reply->elements[1].kind == REDIS_STRING && reply->elements[2].kind == REDIS_INTEGER;
    if (names_master)
        node_lose(node, "%s is a replica of %s:%lld, and a node has to be a master", node->address,
                  reply->elements[1].bytes, reply->elements[2].integer);
    else
        node_lose(node, "%s is a replica, and a node has to be a master", node->address);
}

static bool role_reply(struct redis_node *node, const struct pending *entry, const struct redis_reply *reply)
{
    bool tells_role = reply->kind == REDIS_ARRAY && reply->count > 0;
    if ((tells_role && role_is(reply, "master")) || (command_is_hidden(reply) && node->search.count == 0)) {
        go_on_with_master(node);
        return true;
    }
    if (tells_role && role_is(reply, "slave"))
        lose_replica(node, reply);
    else if (tells_role && role_is(reply, "sentinel"))
        node_lose(node, "%s is a sentinel, and a node has to be a master", node->address);
    else if (command_is_hidden(reply))
        node_lose(node, "%s does not say whether it is a master, but with sentinels that must be known: %s",
                  node->address, reply->bytes);
    else
        return refused(node, entry, reply);
    return false;
}

static bool master_reply(struct redis_node *node, const struct redis_reply *reply)
{
    char reason[SENTINEL_REASON_MAX];
    if (sentinel_take(&node->search, reply, reason))
        node_step(node);
    else
        node_lose(node, "%s %s", node->address, reason);
    return false;
}

/* --- up ----------------------------------------------------------------------------------------------------- */

static bool is_disk_error(const struct redis_reply *reply)
{
    return reply->kind == REDIS_FAILURE && redis_error_classify(reply->bytes, reply->length) == REDIS_ERROR_MISCONF;
}

static bool is_as_expected(const struct redis_node *node, const struct pending *entry, const struct redis_reply *reply)
{
    if (entry->kind == PENDING_SCRIPT)
        return reply->kind == REDIS_STRING && reply->length == 40 &&
               memcmp(reply->bytes, node->options.scripts[entry->script]->sha1, 40) == 0;
    if (entry->kind != PENDING_PING)
        return redis_reply_is_status(reply, "OK");
    /* A server that cannot write to its disk refuses writes and PING, and answers everything else. */
    return redis_reply_is_status(reply, "PONG") || is_disk_error(reply);
}

static void become_up(struct redis_node *node)
{
    node->phase = NODE_UP;
    node->up_since = loop_now(node->loop);
    redis_reader_limit(node->reader, node->options.reply_limit);
    node->is_tried = true;
    node->told_reasons = 0;
    node->reason[0] = '\0';
    loop_timer_clear(node->loop, &node->timer);
    node->timer_at = INSTANT_NEVER;

    char name[LOG_QUOTE_MAX], address[LOG_QUOTE_MAX];
    log_event(LOG_INFO, "node_up", "node=%s address=%s", log_value(node->options.name, name),
              log_value(node->address, address));
    if (node->options.changed != NULL)
        node->options.changed(node->options.context, node, REDIS_NODE_UP, "connected");
}

bool node_handshake_reply(struct redis_node *node, const struct pending *entry, const struct redis_reply *reply)
{
    if (entry->kind == PENDING_ROLE)
        return role_reply(node, entry, reply);
    if (entry->kind == PENDING_MASTER)
        return master_reply(node, reply);
    bool is_comfort = entry->kind == PENDING_CLIENT_NAME && command_is_hidden(reply);
    if (!is_comfort && !is_as_expected(node, entry, reply))
        return refused(node, entry, reply);
    if (pending_is_empty(&node->pending))
        become_up(node);
    return true;
}

/* --- the socket --------------------------------------------------------------------------------------------- */

static void set_option(int fd, int level, int option, int value)
{
    /* Connections work without these options; our own deadlines do not depend on them. */
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

static void tune(const struct redis_node *node, int family)
{
    if (family == AF_UNIX)
        return;
    set_option(node->fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(node->fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(node->fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
    set_option(node->fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S);
    set_option(node->fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_PROBES);
    int64_t silence_ms = node->options.silence_limit_ns / NS_PER_MS;
    set_option(node->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, silence_ms < INT32_MAX ? (int)silence_ms : INT32_MAX);
}

/* 0 if it was made. */
static int connection_error(const struct redis_node *node)
{
    int error = 0;
    socklen_t length = sizeof error;
    return getsockopt(node->fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

bool node_handshake_tls(struct redis_node *node)
{
    struct error error = ERROR_NONE;
    enum tls_state state = tls_advance(node->tls, &error);
    if (!node->write(node))
        return false;
    if (state == TLS_OPEN)
        begin_handshake(node);
    if (state != TLS_FAILED)
        return true;
    node_lose(node, "connect to %s: %s", node->address, error.text);
    return false;
}

/* That of the server which is being connected to. */
static const char *host_at_hand(struct redis_node *node)
{
    const struct sentinel *sentinel = sentinel_search_current(&node->search);
    if (sentinel != NULL)
        return sentinel->host;
    return node->search.found ? node->search.master_host : node->options.host;
}

void node_handshake(struct redis_node *node)
{
    int failure = connection_error(node);
    if (failure != 0) {
        node_connect_next(node, failure);
        return;
    }
    loop_watch_change(node->watch, LOOP_READABLE);
    if (node->tls_context == NULL) {
        begin_handshake(node);
        return;
    }
    struct error error = ERROR_NONE;
    node->phase = NODE_TLS;
    node->tls = tls_create(node->tls_context, host_at_hand(node), &error);
    if (node->tls != NULL)
        (void)node_handshake_tls(node);
    else
        node_lose(node, "connect to %s: %s", node->address, error.text);
}

/* 0, or the error. */
static int connection_begin(struct redis_node *node, const void *address, socklen_t length)
{
    sa_family_t family = ((const struct sockaddr *)address)->sa_family;
    node->phase = NODE_CONNECTING;
    node->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (node->fd < 0)
        return errno;
    tune(node, family);
    if (connect(node->fd, address, length) != 0 && errno != EINPROGRESS)
        return errno;
    node->watch = loop_watch_start(node->loop, node->fd, LOOP_WRITABLE, node->socket_ready, node);
    return 0;
}

/* The first error is told, but for those that say that this host has no way to an address: nothing of the server. */
static void error_note(struct redis_node *node, int error)
{
    int known = node->address_error;
    if (known == 0 || known == ENETUNREACH || known == EHOSTUNREACH || known == EAFNOSUPPORT || known == EADDRNOTAVAIL)
        node->address_error = error;
}

/* An address that leads nowhere, such as that of IPv6 where only IPv4 is served, has its share of the time that is
 * left. */
void node_connect_next(struct redis_node *node, int error)
{
    const struct loop_addresses *addresses = &node->addresses;
    error_note(node, error);
    while (error != 0 && node->address_next < addresses->count) {
        const struct loop_address *address = &addresses->items[node->address_next];
        unsigned left = addresses->count - node->address_next++;
        node_drop_connection(node);
        node_wake_at(node, loop_after(node->loop, instant_since(loop_now(node->loop), node->step_ends) / left));
        error = connection_begin(node, &address->bytes, address->length);
        error_note(node, error);
    }
    if (error != 0)
        node_lose(node, "connect to %s: %s", node->address, strerror(node->address_error));
}

static void connect_to_path(struct redis_node *node)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(node->options.unix_path);
    snprintf(node->address, sizeof node->address, "%s", node->options.unix_path);
    if (length >= sizeof address.sun_path) {
        node_lose(node, "connect to %s: the path has %zu bytes, at most %zu are possible", node->address, length,
                  sizeof address.sun_path - 1);
        return;
    }
    memcpy(address.sun_path, node->options.unix_path, length + 1);
    node->addresses.count = node->address_next = 0;
    node->address_error = 0;
    node_connect_next(node, connection_begin(node, &address, sizeof address));
}

static void resolved(void *context, const struct loop_addresses *found, const char *reason)
{
    struct redis_node *node = context;
    node->resolution = NULL;
    if (found == NULL) {
        node_lose(node, "resolve %s: %s", node->address, reason);
        return;
    }
    node->addresses = *found;
    node->address_next = 0;
    node->address_error = 0;
    node_connect_next(node, EADDRNOTAVAIL); /* none was tried */
}

static void connect_to_name(struct redis_node *node, const char *kind, const char *host, unsigned port)
{
    bool is_ipv6 = strchr(host, ':') != NULL;
    snprintf(node->address, sizeof node->address, "%s%s%s%s:%u", kind, is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "",
             port);
    node->resolution = loop_resolve(node->loop, host, port, resolved, node);
}

void node_connect(struct redis_node *node)
{
    const struct sentinel *sentinel = sentinel_search_current(&node->search);
    const struct redis_node_options *own = &node->options;
    node->phase = NODE_RESOLVING;
    node->step_limit_ns = sentinel != NULL ? own->sentinels.timeout_ns : own->connect_timeout_ns;
    node->counters.sentinels_asked += sentinel != NULL;
    node->step_ends = loop_after(node->loop, node->step_limit_ns);
    node_wake_at(node, node->step_ends);
    if (!passwords_renew(node))
        return;
    if (sentinel != NULL)
        connect_to_name(node, "sentinel ", sentinel->host, sentinel->port);
    else if (node->search.found)
        connect_to_name(node, "", node->search.master_host, node->search.master_port);
    else if (own->unix_path != NULL)
        connect_to_path(node);
    else
        connect_to_name(node, "", own->host, own->port);
}
