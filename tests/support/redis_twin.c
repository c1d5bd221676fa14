#include "tests/support/redis_twin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "queue/scripts.h"
#include "redis/request.h"
#include "redlock/scripts.h"
#include "tests/support/private_directory.h"
#include "tests/sim/server/simulated_client.h"
#include "tests/support/stepped_clock.h"
#include "tests/support/test.h"

#define BEGIN_US INT64_C(1700000000000000)

enum {
    PATIENCE_MS = 30000,
    CONTROL = TWIN_CLIENTS,
    MANY,
    CLIENTS,
    LINES_KEPT = 512,
    LINES_SHOWN = 40,
    QUEUED_MAX = 256
};

/* What is not to be compared of the reply to a command. */
enum looseness { EXACT, ANY_ORDER, ANY_ORDER_OF_PAIRS, TRANSACTION, PAGE, PAGE_OF_PAIRS, KIND_ONLY };

struct clock {
    int64_t offset_ns, stands_at_ns;
};

struct client {
    int fd; /* to the server; -1 when it hung up */
    struct buffer heard;
    struct simulated_client model;
    long long id, model_id;
    char address[64], model_address[64];
};

struct twin {
    struct redis_server *server;
    struct server *model;
    volatile struct clock *clock;
    char clock_path[256];
    int64_t now_us;
    bool is_reference; /* the version whose errors the model has */
    char *password;
    struct client clients[CLIENTS];
    const char *about;
    char *lines[LINES_KEPT]; /* the last ones */
    size_t line_count;
    /* What twin_add has not yet compared: bytes of both, and a name for each command. */
    struct buffer asked, answered;
    char **names;
    size_t waiting, names_room;
    enum looseness queued[QUEUED_MAX]; /* of the transaction whose replies are rendered */
    size_t queued_count;
};

/* --- failing ------------------------------------------------------------------------------------------------------ */

static void line_note(struct twin *twin, const char *line)
{
    char **place = &twin->lines[twin->line_count++ % LINES_KEPT];
    free(*place);
    *place = memory_text(line);
}

static void differ(struct twin *twin, const char *what, const char *server, const char *model)
{
    size_t first = twin->line_count > LINES_SHOWN ? twin->line_count - LINES_SHOWN : 0;
    for (size_t i = first; i < twin->line_count; i++)
        print_error("  %s\n", twin->lines[i % LINES_KEPT]);
    fail_msg("%s: %s\nserver: %s\nmodel:  %s", twin->about, what, server, model);
}

/* --- what replies say --------------------------------------------------------------------------------------------- */

static enum looseness looseness_of(const char *command)
{
    static const struct {
        const char *command;
        enum looseness looseness;
    } loose[] = {{"hkeys", ANY_ORDER},    {"hvals", ANY_ORDER},       {"hgetall", ANY_ORDER_OF_PAIRS},
                 {"smembers", ANY_ORDER}, {"keys", ANY_ORDER},        {"scan", PAGE},
                 {"sscan", PAGE},         {"hscan", PAGE_OF_PAIRS},   {"zscan", PAGE_OF_PAIRS},
                 {"spop", ANY_ORDER},     {"exec", TRANSACTION},      {"config", ANY_ORDER_OF_PAIRS},
                 {"info", KIND_ONLY},     {"srandmember", KIND_ONLY}, {"client", KIND_ONLY}};
    for (size_t i = 0; i < sizeof loose / sizeof loose[0]; i++)
        if (strcasecmp(loose[i].command, command) == 0)
            return loose[i].looseness;
    return EXACT;
}

/* The line at `at`, without its end; NULL when there is none. */
static const char *line_end(const char *at, const char *end)
{
    const char *found = memmem(at, (size_t)(end - at), "\r\n", 2);
    return found;
}

/* The end of the reply that begins at `at`; NULL when it is not complete. */
static const char *reply_end(const char *at, const char *end)
{
    const char *line = line_end(at, end);
    if (line == NULL)
        return NULL;
    long long length = strtoll(at + 1, NULL, 10);
    const char *next = line + 2;
    if (*at == '$' && length >= 0)
        return end - next >= length + 2 ? next + length + 2 : NULL;
    for (long long i = 0; *at == '*' && i < length && next != NULL; i++)
        next = reply_end(next, end);
    return next;
}

static size_t replies_count(const char *at, const char *end)
{
    size_t count = 0;
    for (; (at = at < end ? reply_end(at, end) : NULL) != NULL; count++)
        ;
    return count;
}

static void bytes_render(const char *bytes, size_t length, struct buffer *out)
{
    char *end = NULL, copy[64];
    snprintf(copy, sizeof copy, "%.*s", (int)length, bytes);
    double number = strtod(copy, &end);
    if (length < sizeof copy && strchr(copy, '.') != NULL && *end == '\0' && length > 0)
        buffer_format(out, "\"%.17g\"", number);
    else
        for (size_t i = 0; i < length + 2; i++) {
            unsigned char byte = i == 0 || i == length + 1 ? '"' : (unsigned char)bytes[i - 1];
            buffer_format(out, byte >= ' ' && byte < 127 ? "%c" : "\\x%02x", byte);
        }
}

static int texts_compare(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static const char *reply_render(const struct twin *twin, const char *at, const char *end, enum looseness looseness,
                                struct buffer *out);

static const char *items_render(const struct twin *twin, const char *at, const char *end, size_t count,
                                enum looseness looseness, struct buffer *out)
{
    size_t pair = looseness == ANY_ORDER_OF_PAIRS ? 2 : 1, units = 0;
    char **texts = memory_zeroed(count + 1, sizeof *texts);
    for (size_t i = 0; i < count; i += pair) {
        struct buffer text = {0};
        for (size_t part = 0; part < pair && i + part < count; part++) {
            enum looseness inner = looseness == PAGE && i == 1                          ? ANY_ORDER
                                   : looseness == PAGE_OF_PAIRS && i == 1               ? ANY_ORDER_OF_PAIRS
                                   : looseness == TRANSACTION && i < twin->queued_count ? twin->queued[i]
                                                                                        : EXACT;

            at = reply_render(twin, at, end, inner, &text);
            buffer_append_text(&text, " ");
        }
        texts[units++] = memory_text(buffer_text(&text));
        buffer_fini(&text);
    }
    if (looseness == ANY_ORDER || looseness == ANY_ORDER_OF_PAIRS)
        qsort(texts, units, sizeof *texts, texts_compare);
    for (size_t i = 0; i < units; i++) {
        buffer_append_text(out, texts[i]);
        free(texts[i]);
    }
    free(texts);
    return at;
}

/* A complete reply. */
static const char *reply_render(const struct twin *twin, const char *at, const char *end, enum looseness looseness,
                                struct buffer *out)
{
    const char *line = line_end(at, end), *next = line + 2;
    long long length = strtoll(at + 1, NULL, 10);
    if (looseness == KIND_ONLY && *at != '-') {
        buffer_append(out, at, 1);
        return reply_end(at, end);
    }
    if (*at == '$' && length >= 0) {
        bytes_render(next, (size_t)length, out);
        return next + length + 2;
    }
    if (*at == '-' && !twin->is_reference) {
        buffer_append(out, at, strcspn(at, " \r"));
        return next;
    }
    buffer_append(out, at, (size_t)(line - at));
    if (*at == '*' && length >= 0) {
        buffer_append_text(out, "[ ");
        next = items_render(twin, next, end, (size_t)length, looseness, out);
        buffer_append_text(out, "]");
    }
    return next;
}

/* --- clients ------------------------------------------------------------------------------------------------------ */

static void client_send(struct twin *twin, struct client *client, const char *bytes, size_t length)
{
    if (client->fd >= 0 && send(client->fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length)
        differ(twin, "sending", strerror(errno), "");
}

/* Reads until there are so many replies. */
static void client_hear(struct twin *twin, struct client *client, size_t count, const char *about)
{
    while (replies_count(client->heard.bytes, client->heard.bytes + client->heard.length) < count) {
        struct pollfd poller = {.fd = client->fd, .events = POLLIN};
        char *room = buffer_reserve(&client->heard, 65536);
        ssize_t got = client->fd >= 0 && poll(&poller, 1, PATIENCE_MS) > 0 ? recv(client->fd, room, 65536, 0) : -1;
        if (got <= 0)
            differ(twin, about, buffer_text(&client->heard), buffer_text(&client->model.said));
        client->heard.length += (size_t)got;
        (void)buffer_text(&client->heard); /* a NUL behind it, for whoever reads numbers there */
    }
}

static void client_hear_end(struct twin *twin, struct client *client, const char *about)
{
    struct pollfd poller = {.fd = client->fd, .events = POLLIN};
    char byte;
    bool has_ended = poll(&poller, 1, PATIENCE_MS) > 0 && recv(client->fd, &byte, 1, 0) <= 0;
    if (!has_ended)
        differ(twin, about, "goes on", "hangs up");
    close(client->fd);
    client->fd = -1;
}

static void client_compare(struct twin *twin, struct client *client, const char *about, enum looseness looseness)
{
    struct buffer server = {0}, model = {0};
    const char *at = client->model.said.bytes, *end = at + client->model.said.length;
    size_t count = replies_count(at, end);
    client_hear(twin, client, count, about);
    const char *other = client->heard.bytes, *other_end = other + client->heard.length;
    for (size_t i = 0; i < count; i++) {
        at = reply_render(twin, at, end, looseness, &model);
        other = reply_render(twin, other, other_end, looseness, &server);
        buffer_append_text(&model, " ");
        buffer_append_text(&server, " ");
    }
    if (other != other_end)
        buffer_append_text(&server, "and more");
    if (strcmp(buffer_text(&server), buffer_text(&model)) != 0)
        differ(twin, about, buffer_text(&server), buffer_text(&model));
    buffer_clear(&client->heard);
    buffer_clear(&client->model.said);
    buffer_fini(&server);
    buffer_fini(&model);
    if (client->model.connection == NULL && client->fd >= 0)
        client_hear_end(twin, client, about);
}

static int server_connect(struct twin *twin)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)redis_server_port(twin->server))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        differ(twin, "connecting", strerror(errno), "");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

/* A command to the server alone, over the client's connection. */
static char *ask_server(struct twin *twin, struct client *client, const char *line)
{
    struct buffer bytes = {0};
    line_encode(line, &bytes);
    client_send(twin, client, bytes.bytes, bytes.length);
    client_hear(twin, client, 1, line);
    char *answer = memory_text_of(client->heard.bytes, client->heard.length);
    buffer_clear(&client->heard);
    buffer_fini(&bytes);
    return answer;
}

static char *ask_model(struct twin *twin, struct client *client, const char *line)
{
    simulated_client_say(&client->model, line, twin->now_us);
    char *answer = memory_text_of(client->model.said.bytes, client->model.said.length);
    buffer_clear(&client->model.said);
    return answer;
}

static void client_end(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    buffer_fini(&client->heard);
    simulated_client_end(&client->model);
}

static void client_begin(struct twin *twin, struct client *client)
{
    client->fd = server_connect(twin);
    simulated_client_connect(&client->model, twin->model);
    client->model_id = (long long)server_connection_id(client->model.connection);
    snprintf(client->model_address, sizeof client->model_address, "%s",
             server_connection_address(client->model.connection));
    if (twin->password != NULL)
        return;
    char *info = ask_server(twin, client, "CLIENT INFO");
    const char *begin = strstr(info, "id=");
    if (begin == NULL || sscanf(begin, "id=%lld addr=%63s", &client->id, client->address) != 2)
        differ(twin, "CLIENT INFO", info, "");
    free(info);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void clock_set(struct twin *twin)
{
    twin->clock->stands_at_ns = twin->now_us * 1000;
}

static void clock_make(struct twin *twin)
{
    const struct clock begin = {0, BEGIN_US * 1000};
    char directory[PRIVATE_DIRECTORY_MAX];
    private_directory_create(directory);
    snprintf(twin->clock_path, sizeof twin->clock_path, "%s/clock", directory);
    FILE *file = fopen(twin->clock_path, "w+e");
    assert_non_null(file);
    assert_int_equal(fwrite(&begin, sizeof begin, 1, file), 1);
    assert_int_equal(fflush(file), 0);
    void *content = mmap(NULL, sizeof begin, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    assert_true(content != MAP_FAILED);
    twin->clock = content;
    fclose(file);
}

struct twin *twin_create(const struct redis_server_options *options)
{
    struct twin *twin = memory_new(struct twin);
    twin->now_us = BEGIN_US;
    twin->about = "beginning";
    twin->password = options != NULL && options->password != NULL ? memory_text(options->password) : NULL;
    clock_make(twin);
    stepped_clock_enter(twin->clock_path);
    twin->server = redis_server_start(options);
    stepped_clock_leave();
    char *info = redis_server_command(twin->server, "INFO server");
    twin->is_reference = strstr(info, "redis_version:7.0.") != NULL && strstr(info, "valkey_version") == NULL;
    free(info);
    twin->model =
        server_create(&(struct server_options){.run_seed = "twin", .password = twin->password, .now_us = twin->now_us});
    for (unsigned i = 0; i < CLIENTS; i++)
        client_begin(twin, &twin->clients[i]);
    return twin;
}

void twin_destroy(struct twin *twin)
{
    if (twin == NULL)
        return;
    for (unsigned i = 0; i < CLIENTS; i++)
        client_end(&twin->clients[i]);
    for (unsigned i = 0; i < LINES_KEPT; i++)
        free(twin->lines[i]);
    server_destroy(twin->model);
    redis_server_destroy(twin->server);
    munmap((void *)(uintptr_t)twin->clock, sizeof *twin->clock);
    unlink(twin->clock_path);
    *strrchr(twin->clock_path, '/') = '\0';
    rmdir(twin->clock_path);
    buffer_fini(&twin->asked);
    free(twin->names);
    free(twin->password);
    free(twin);
}

void twin_reset(struct twin *twin, const char *about)
{
    static const char *const lines[] = {"FLUSHALL", "SCRIPT FLUSH", "CONFIG SET maxmemory 0"};
    twin->about = about;
    twin->line_count = 0;
    for (unsigned i = 0; i < CLIENTS; i++) {
        client_end(&twin->clients[i]);
        client_begin(twin, &twin->clients[i]);
    }
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        free(ask_server(twin, &twin->clients[CONTROL], lines[i]));
        free(ask_model(twin, &twin->clients[CONTROL], lines[i]));
    }
}

void twin_pass(struct twin *twin, int64_t us)
{
    twin->now_us += us;
    clock_set(twin);
    if (server_next_us(twin->model) > twin->now_us)
        return;
    server_tick(twin->model, twin->now_us);
    for (unsigned i = 0; i < 2; i++) /* a server looks at its clock behind what it has read */
        free(ask_server(twin, &twin->clients[CONTROL], "PING"));
    for (unsigned i = 0; i < TWIN_CLIENTS; i++)
        client_compare(twin, &twin->clients[i], "time passes", EXACT);
}

int64_t twin_now_us(const struct twin *twin)
{
    return twin->now_us;
}

struct server *twin_model(struct twin *twin)
{
    return twin->model;
}

struct redis_server *twin_server(struct twin *twin)
{
    return twin->server;
}

/* --- one line ----------------------------------------------------------------------------------------------------- */

static const char *script_digest(const struct twin *twin, const char *name)
{
    for (size_t i = 0; i < QUEUE_SCRIPT_COUNT; i++)
        if (strcmp(queue_scripts[i]->name, name) == 0)
            return queue_scripts[i]->sha1;
    for (size_t i = 0; i < REDLOCK_SCRIPT_COUNT; i++)
        if (strcmp(redlock_scripts[i]->name, name) == 0)
            return redlock_scripts[i]->sha1;
    fail_msg("%s: there is no script %s", twin->about, name);
    return NULL;
}

/* The word for one of both sides. */
static void word_encode(const struct twin *twin, bool for_model, const char *word, struct buffer *out)
{
    const struct client *named = word[0] != '\0' && word[1] >= '0' && word[1] < '0' + TWIN_CLIENTS && word[2] == '\0'
                                     ? &twin->clients[word[1] - '0']
                                     : NULL;
    char text[64];
    if (word[0] == '%' && named != NULL) {
        snprintf(text, sizeof text, "%lld", for_model ? named->model_id : named->id);
        redis_request_text(out, text);
    } else if (word[0] == '@' && named != NULL) {
        redis_request_text(out, for_model ? named->model_address : named->address);
    } else if (word[0] == '!' && word[1] >= 'a' && word[1] <= 'z') {
        redis_request_text(out, script_digest(twin, word + 1));
    } else {
        char *plain = memory_text(word);
        for (char *at = plain; *at != '\0'; at++)
            *at = *at == '^' ? ' ' : *at == '~' ? '\n' : *at;
        redis_request_text(out, plain);
        free(plain);
    }
}

static void line_words_encode(const struct twin *twin, bool for_model, const char *line, struct buffer *out)
{
    size_t words = 1;
    for (const char *at = line; *at != '\0'; at++)
        words += *at == ' ';
    redis_request_begin(out, words);
    for (const char *at = line; words-- > 0;) {
        size_t length = strcspn(at, " ");
        char *word = memory_text_of(at, length);
        word_encode(twin, for_model, word, out);
        free(word);
        at += length + (at[length] == ' ');
    }
}

static long long blocked_of(const char *info)
{
    const char *found = strstr(info, "blocked_clients:");
    return found != NULL ? strtoll(found + 16, NULL, 10) : -1;
}

/* Until as many wait at the server as at the model: nothing tells when a server has read what it does not answer. */
static void blocked_await(struct twin *twin, const char *line)
{
    struct client *control = &twin->clients[CONTROL];
    char *info = ask_model(twin, control, "INFO clients");
    long long expected = blocked_of(info), found = -1;
    struct instant limit = instant_after(instant_now(), (int64_t)PATIENCE_MS * NS_PER_MS);
    free(info);
    while (found != expected) {
        info = ask_server(twin, control, "INFO clients");
        found = blocked_of(info);
        if (found != expected && instant_reached(instant_now(), limit))
            differ(twin, line, info, "another number of blocked clients");
        free(info);
    }
}

static void all_compare(struct twin *twin, const char *line, unsigned speaker, enum looseness looseness)
{
    bool is_answered = twin->clients[speaker].model.said.length > 0;
    if (!is_answered)
        blocked_await(twin, line);
    for (unsigned i = 0; i < TWIN_CLIENTS; i++)
        client_compare(twin, &twin->clients[i], line, i == speaker ? looseness : EXACT);
}

void twin_say(struct twin *twin, const char *line)
{
    struct buffer bytes = {0};
    unsigned speaker = 0;
    const char *command = line;
    line_note(twin, line);
    if (line[0] >= '0' && line[0] < '0' + TWIN_CLIENTS && line[1] == ':') {
        speaker = (unsigned)(line[0] - '0');
        command = line + 2;
    }
    struct client *client = &twin->clients[speaker];
    if (client->fd < 0) { /* it was killed, and comes again */
        client_end(client);
        client_begin(twin, client);
    }
    clock_set(twin);
    line_words_encode(twin, false, command, &bytes);
    client_send(twin, client, bytes.bytes, bytes.length);
    buffer_clear(&bytes);
    line_words_encode(twin, true, command, &bytes);
    if (client->model.connection != NULL)
        server_receive(client->model.connection, bytes.bytes, bytes.length, twin->now_us);
    char *name = memory_text_of(command, strcspn(command, " "));
    bool is_queued = client->model.said.length >= 7 && memcmp(client->model.said.bytes, "+QUEUED", 7) == 0;
    bool tells_itself = strncasecmp(command, "CLIENT ID", 9) == 0 || strncasecmp(command, "CLIENT INFO", 11) == 0 ||
                        strncasecmp(command, "CLIENT LIST", 11) == 0;
    enum looseness looseness = strcasecmp(name, "client") == 0 && !tells_itself   ? EXACT
                               : strncasecmp(command, "PUBSUB CHANNELS", 15) == 0 ? ANY_ORDER
                                                                                  : looseness_of(name);
    all_compare(twin, line, speaker, is_queued ? EXACT : looseness);
    free(name);
    buffer_fini(&bytes);
    twin_pass(twin, 1001);
}

void twin_say_bytes(struct twin *twin, unsigned client, const char *bytes, size_t length)
{
    clock_set(twin);
    client_send(twin, &twin->clients[client], bytes, length);
    server_receive(twin->clients[client].model.connection, bytes, length, twin->now_us);
    all_compare(twin, "bytes", client, EXACT);
}

/* --- many at once ------------------------------------------------------------------------------------------------- */

static void words_note(struct twin *twin, const struct text *arguments, size_t count)
{
    struct buffer line = {0};
    for (size_t i = 0; i < count; i++) {
        buffer_append(&line, arguments[i].bytes, arguments[i].length < 60 ? arguments[i].length : 60);
        buffer_append_text(&line, " ");
    }
    line_note(twin, buffer_text(&line));
    buffer_fini(&line);
}

void twin_add(struct twin *twin, const struct text *arguments, size_t count)
{
    redis_request_begin(&twin->asked, count);
    for (size_t i = 0; i < count; i++)
        redis_request_bytes(&twin->asked, arguments[i].bytes, arguments[i].length);
    if (twin->waiting == twin->names_room) {
        twin->names_room = twin->names_room * 2 + 64;
        twin->names = memory_resize(twin->names, twin->names_room, sizeof *twin->names);
    }
    twin->names[twin->waiting++] = memory_text_of(arguments[0].bytes, arguments[0].length);
    words_note(twin, arguments, count);
}

void twin_flush(struct twin *twin)
{
    struct client *client = &twin->clients[MANY];
    clock_set(twin);
    client_send(twin, client, twin->asked.bytes, twin->asked.length);
    server_receive(client->model.connection, twin->asked.bytes, twin->asked.length, twin->now_us);
    client_hear(twin, client, twin->waiting, "many commands");
    const char *server = client->heard.bytes, *model = client->model.said.bytes;
    for (size_t i = 0; i < twin->waiting; i++) {
        struct buffer left = {0}, right = {0};
        enum looseness looseness = looseness_of(twin->names[i]);
        if (strncmp(model, "+QUEUED", 7) == 0 && twin->queued_count < QUEUED_MAX)
            twin->queued[twin->queued_count++] = looseness;
        server = reply_render(twin, server, client->heard.bytes + client->heard.length, looseness, &left);
        model = reply_render(twin, model, client->model.said.bytes + client->model.said.length, looseness, &right);
        if (strcmp(buffer_text(&left), buffer_text(&right)) != 0)
            differ(twin, twin->lines[(twin->line_count - twin->waiting + i) % LINES_KEPT], buffer_text(&left),
                   buffer_text(&right));
        if (looseness == TRANSACTION)
            twin->queued_count = 0;
        free(twin->names[i]);
        buffer_fini(&left);
        buffer_fini(&right);
    }
    buffer_clear(&client->heard);
    buffer_clear(&client->model.said);
    buffer_clear(&twin->asked);
    twin->waiting = 0;
    twin_pass(twin, 1001);
}

/* --- all keys ----------------------------------------------------------------------------------------------------- */

void twin_compare_keys(struct twin *twin)
{
    static const char *const questions[][4] = {[VALUE_STRING] = {"GET"},
                                               [VALUE_LIST] = {"LRANGE", "0", "-1"},
                                               [VALUE_HASH] = {"HGETALL"},
                                               [VALUE_SET] = {"SMEMBERS"},
                                               [VALUE_ZSET] = {"ZRANGE", "0", "-1", "WITHSCORES"},
                                               [VALUE_STREAM] = {"XRANGE", "-", "+"}};
    const struct keyspace *space = server_keyspace(twin->model);
    size_t place = 0;
    const struct text all[] = {text_of("KEYS"), text_of("*")};
    twin_add(twin, all, 2);
    for (struct item *key; (key = table_next(&space->keys, &place)) != NULL;) {
        const char *const *question = questions[key->value->type];
        struct text words[5] = {text_of(question[0]), item_name(key)};
        const struct text expiry[] = {text_of("PEXPIRETIME"), item_name(key)};
        size_t count = 2;
        for (size_t i = 1; i < 4 && question[i] != NULL; i++)
            words[count++] = text_of(question[i]);
        twin_add(twin, words, count);
        twin_add(twin, expiry, 2);
        if (twin->waiting > LINES_KEPT / 2)
            twin_flush(twin);
    }
    twin_flush(twin);
}
