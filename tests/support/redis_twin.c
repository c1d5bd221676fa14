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

#include "base/list.h"
#include "base/memory.h"
#include "queue/scripts.h"
#include "redis/request.h"
#include "redlock/scripts.h"
#include "tests/sim/server/simulated_client.h"
#include "tests/support/private_directory.h"
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
    LINE_MAX_SHOWN = 160
};

/* What is not to be compared of the reply to a command. */
enum looseness {
    EXACT,
    ANY_ORDER,
    ANY_ORDER_OF_PAIRS,
    TRANSACTION,
    PAGE,
    PAGE_OF_PAIRS,
    ANSWER_OF_SCRIPT, /* arrays inside of it may be in any order: they may come from a hash */
    KIND_ONLY
};

/* A command that is not answered yet. */
struct asked {
    struct list link;
    enum looseness looseness;
    char line[LINE_MAX_SHOWN];
};

struct clock {
    int64_t offset_ns, stands_at_ns;
};

struct client {
    int fd; /* to the server; -1 = it hung up, or was never there */
    struct buffer heard;
    struct simulated_client model;
    long long id, model_id;
    char address[64], model_address[64];
    struct buffer unread; /* the beginning of a command */
    struct list asked;
    struct list queued; /* of its transaction */
};

struct twin {
    struct redis_server *server;
    struct server *model;
    volatile struct clock *clock;
    char clock_path[256];
    int64_t now_us;
    unsigned version;  /* 702 = Redis 7.2, and Valkey by what it answers */
    bool is_reference; /* the version whose errors the model has */
    char *password;
    struct client clients[CLIENTS + TWIN_CALLERS];
    size_t client_count; /* up to the last that was ever used */
    const char *about;
    char run_id[41];         /* of the server */
    char *lines[LINES_KEPT]; /* the last ones */
    size_t line_count;
    struct buffer many; /* commands that twin_add has collected */
    unsigned long long compared;
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

/* --- what was asked ----------------------------------------------------------------------------------------------- */

static enum looseness looseness_of(struct text name, struct text second)
{
    static const struct {
        const char *command, *second;
        enum looseness looseness;
    } loose[] = {{"hkeys", NULL, ANY_ORDER},
                 {"hvals", NULL, ANY_ORDER},
                 {"hgetall", NULL, ANY_ORDER_OF_PAIRS},
                 {"smembers", NULL, ANY_ORDER},
                 {"keys", NULL, ANY_ORDER},
                 {"scan", NULL, PAGE},
                 {"sscan", NULL, PAGE},
                 {"hscan", NULL, PAGE_OF_PAIRS},
                 {"zscan", NULL, PAGE_OF_PAIRS},
                 {"exec", NULL, TRANSACTION},
                 {"config", "get", ANY_ORDER_OF_PAIRS},
                 {"pubsub", "channels", ANY_ORDER},
                 {"info", NULL, KIND_ONLY},
                 {"srandmember", NULL, KIND_ONLY},
                 {"client", "id", KIND_ONLY},
                 {"client", "info", KIND_ONLY},
                 {"client", "list", KIND_ONLY},
                 {"dump", NULL, KIND_ONLY},
                 {"evalsha", NULL, ANSWER_OF_SCRIPT}};
    const char *orphans = queue_script_orphans.sha1; /* which answers a hash as it is */
    if (second.length == strlen(orphans) && memcmp(second.bytes, orphans, second.length) == 0)
        return ANY_ORDER_OF_PAIRS;
    for (size_t i = 0; i < sizeof loose / sizeof loose[0]; i++)
        if (name.length == strlen(loose[i].command) && strncasecmp(loose[i].command, name.bytes, name.length) == 0 &&
            (loose[i].second == NULL || (second.length == strlen(loose[i].second) &&
                                         strncasecmp(loose[i].second, second.bytes, second.length) == 0)))
            return loose[i].looseness;
    return EXACT;
}

static void asked_clear(struct list *list)
{
    for (struct list *link; (link = list_take_first(list)) != NULL;)
        free(list_owner(link, struct asked, link));
}

/* The bulk at `*at`, which ends behind it; false when it is not complete. */
static bool bulk_take(const char **at, const char *end, struct text *bulk)
{
    const char *line = *at < end ? memmem(*at, (size_t)(end - *at), "\r\n", 2) : NULL;
    if (line == NULL || **at != '$')
        return false;
    *bulk = (struct text){line + 2, strtoull(*at + 1, NULL, 10)};
    *at = bulk->bytes + bulk->length + 2;
    return *at <= end;
}

/* What is said about channels is known by what it says. */
static void asked_note(struct client *client, const struct asked *asked, struct text name, struct text second)
{
    if (name.length == 0 || memmem(name.bytes, name.length < 12 ? name.length : 12, "SUBSCRIBE", 9) != NULL)
        return;
    struct asked *kept = memory_new(struct asked);
    *kept = *asked;
    kept->looseness = looseness_of(name, second);
    list_init(&kept->link);
    list_append(&client->asked, &kept->link);
}

/* Each of these says how many bytes it took from the front: none when there is no whole command. */
static size_t array_take(struct client *client)
{
    const char *at = client->unread.bytes, *end = at + client->unread.length;
    const char *line = memmem(at, client->unread.length, "\r\n", 2);
    if (line == NULL)
        return 0;
    struct asked asked = {.looseness = EXACT};
    struct text name = {"", 0}, second = {"", 0}, bulk;
    size_t count = strtoull(at + 1, NULL, 10), shown = 0;
    at = line + 2;
    for (size_t i = 0; i < count; i++) {
        if (!bulk_take(&at, end, &bulk))
            return 0;
        name = i == 0 ? bulk : name;
        second = i == 1 ? bulk : second;
        for (size_t byte = 0; byte < bulk.length + 1 && byte < 50 && shown + 2 < sizeof asked.line; byte++)
            asked.line[shown++] = byte == bulk.length || bulk.bytes[byte] < ' ' ? ' ' : bulk.bytes[byte];
    }
    asked_note(client, &asked, name, second);
    return (size_t)(at - client->unread.bytes);
}

static size_t line_take(struct client *client)
{
    const char *at = client->unread.bytes, *end = memchr(at, '\n', client->unread.length);
    if (end == NULL)
        return 0;
    struct asked asked = {.looseness = EXACT};
    struct text words[2];
    for (size_t i = 0; i < 2; i++) {
        at += strspn(at, " \r");
        words[i] = (struct text){at, strcspn(at, " \r\n")};
        at += words[i].length;
    }
    snprintf(asked.line, sizeof asked.line, "%.*s", (int)(end - client->unread.bytes), client->unread.bytes);
    asked_note(client, &asked, words[0], words[1]);
    return (size_t)(end + 1 - client->unread.bytes);
}

static void commands_note(struct client *client, const char *bytes, size_t length)
{
    size_t taken = 0;
    buffer_append(&client->unread, bytes, length);
    do {
        buffer_drop_front(&client->unread, taken);
        (void)buffer_text(&client->unread);
        taken = client->unread.length == 0       ? 0
                : client->unread.bytes[0] == '*' ? array_take(client)
                                                 : line_take(client);
    } while (taken > 0);
}

/* --- what replies say --------------------------------------------------------------------------------------------- */

/* The end of the reply that begins at `at`; NULL when it is not complete. */
static const char *reply_end(const char *at, const char *end)
{
    const char *line = memmem(at, (size_t)(end - at), "\r\n", 2);
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

/* About channels, requested or not. */
static bool reply_is_about_channels(const char *at, const char *end)
{
    static const char *const words[] = {"message", "subscribe", "unsubscribe"};
    const char *bulk = at + 4;
    struct text word;
    if (end - at < 8 || at[0] != '*' || at[1] != '3' || !bulk_take(&bulk, end, &word))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (text_is(word, text_of(words[i])))
            return true;
    return false;
}

/* Fractions and powers of ten by their value; the id of the run, which both have another one of, by its name. */
static void bytes_render(const struct twin *twin, const char *bytes, size_t length, struct buffer *out)
{
    char *end = NULL, copy[64];
    snprintf(copy, sizeof copy, "%.*s", (int)(length < sizeof copy ? length : 0), bytes);
    double number = strtod(copy, &end);
    if (strcmp(copy, twin->run_id) == 0 || strcmp(copy, server_run_id(twin->model)) == 0)
        buffer_append_text(out, "(run id)");
    else if ((strchr(copy, '.') != NULL || strstr(copy, "e+") != NULL) && *end == '\0')
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
                                const struct list *queued, struct buffer *out);

/* `*place` is the next of a transaction. */
static enum looseness looseness_of_item(enum looseness whole, size_t index, const struct list *queued,
                                        const struct list **place)
{
    if (whole == PAGE || whole == PAGE_OF_PAIRS)
        return index == 0 ? EXACT : whole == PAGE ? ANY_ORDER : ANY_ORDER_OF_PAIRS;
    if (whole == ANSWER_OF_SCRIPT)
        return ANY_ORDER;
    if (whole != TRANSACTION || *place == queued)
        return EXACT;

    const struct asked *asked = list_owner(*place, struct asked, link);
    *place = (*place)->next;
    return asked->looseness;
}

static const char *items_render(const struct twin *twin, const char *at, const char *end, size_t count,
                                enum looseness looseness, const struct list *queued, struct buffer *out)
{
    size_t pair = looseness == ANY_ORDER_OF_PAIRS ? 2 : 1, units = 0;
    const struct list *place = queued->next;
    char **texts = memory_zeroed(count + 1, sizeof *texts);
    for (size_t i = 0; i < count; i += pair) {
        struct buffer text = {0};
        for (size_t part = 0; part < pair && i + part < count; part++) {
            at = reply_render(twin, at, end, looseness_of_item(looseness, i, queued, &place), queued, &text);
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
                                const struct list *queued, struct buffer *out)
{
    const char *line = memmem(at, (size_t)(end - at), "\r\n", 2), *next = line + 2;
    long long length = strtoll(at + 1, NULL, 10);
    if (looseness == KIND_ONLY && *at != '-') {
        buffer_append(out, at, 1);
        return reply_end(at, end);
    }
    if (*at == '$' && length >= 0) {
        bytes_render(twin, next, (size_t)length, out);
        return next + length + 2;
    }
    if (*at == '-' && !twin->is_reference) {
        buffer_append(out, at, strcspn(at, " \r"));
        return next;
    }
    buffer_append(out, at, (size_t)(line - at));
    if (*at == '*' && length >= 0) {
        buffer_append_text(out, "[ ");
        next = items_render(twin, next, end, (size_t)length, looseness, queued, out);
        buffer_append_text(out, "]");
    }
    return next;
}

/* --- clients ------------------------------------------------------------------------------------------------------ */

static void client_send(struct twin *twin, struct client *client, const char *bytes, size_t length)
{
    for (size_t sent = 0; client->fd >= 0 && sent < length;) {
        ssize_t took = send(client->fd, bytes + sent, length - sent, MSG_NOSIGNAL);
        if (took <= 0)
            differ(twin, "sending", strerror(errno), "");
        sent += (size_t)took;
    }
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

/* The next command that is answered: in `asked`. False when what is said was not asked for, or by a line. */
static bool asked_take(struct client *client, const char *reply, const char *end, struct asked *asked)
{
    struct list *link = reply_is_about_channels(reply, end) ? NULL : list_take_first(&client->asked);
    *asked = (struct asked){.looseness = EXACT};
    if (link == NULL)
        return false;
    struct asked *first = list_owner(link, struct asked, link);
    *asked = *first;
    if (strncmp(reply, "+QUEUED", 7) == 0)
        list_append(&client->queued, link);
    else
        free(first);
    return true;
}

/* One of several pages: only all of them hold the same. */
static bool is_page(const struct asked *asked, const char *server, const char *model)
{
    static const char only[] = "*2[ \"0\" *";
    bool is_scan = asked->looseness == PAGE || asked->looseness == PAGE_OF_PAIRS;
    return is_scan && *server == '*' && *model == '*' &&
           (strncmp(server, only, sizeof only - 1) != 0 || strncmp(model, only, sizeof only - 1) != 0 ||
            strstr(asked->line, " 0 ") == NULL);
}

static void client_compare(struct twin *twin, struct client *client, const char *about)
{
    const char *at = client->model.said.bytes, *end = at + client->model.said.length;
    size_t count = replies_count(at, end);
    client_hear(twin, client, count, about);
    const char *other = client->heard.bytes, *other_end = other + client->heard.length;
    for (size_t i = 0; i < count; i++) {
        struct buffer server = {0}, model = {0};
        struct asked asked;
        twin->compared++;
        bool is_answer = asked_take(client, at, end, &asked);
        at = reply_render(twin, at, end, asked.looseness, &client->queued, &model);
        other = reply_render(twin, other, other_end, asked.looseness, &client->queued, &server);
        if (asked.looseness == TRANSACTION)
            asked_clear(&client->queued);
        if (!is_page(&asked, buffer_text(&server), buffer_text(&model)) &&
            strcmp(buffer_text(&server), buffer_text(&model)) != 0)
            differ(twin, is_answer ? asked.line : about, buffer_text(&server), buffer_text(&model));
        buffer_fini(&server);
        buffer_fini(&model);
    }
    if (other != other_end)
        differ(twin, about, other, "less");
    buffer_clear(&client->heard);
    buffer_clear(&client->model.said);
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
    buffer_format(&bytes, "%s\r\n", line);
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
    buffer_fini(&client->unread);
    asked_clear(&client->asked);
    asked_clear(&client->queued);
    simulated_client_end(&client->model);
    client->model.connection = NULL;
}

static void client_begin(struct twin *twin, struct client *client)
{
    size_t place = (size_t)(client - twin->clients);
    twin->client_count = place + 1 > twin->client_count ? place + 1 : twin->client_count;
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

/* The client that asks both what is not compared. A command may have killed it. */
static struct client *control(struct twin *twin)
{
    struct client *client = &twin->clients[CONTROL];
    if (client->fd < 0) {
        client_end(client);
        client_begin(twin, client);
    }
    return client;
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

/* A Valkey says which Redis it answers as. */
static unsigned version_in(const char *info)
{
    const char *found = strstr(info, "redis_version:");
    unsigned major = 0, minor = 0;
    if (found == NULL || sscanf(found, "redis_version:%u.%u", &major, &minor) != 2)
        fail_msg("this server does not say its version: %s", info);
    return 100 * major + minor;
}

/* Keys expire when somebody asks for them. What a Redis from 7.2 on looks for by itself ends a millisecond earlier, and
 * only if its timer runs while the clock stands at that millisecond. The thread of jemalloc waits by this clock, and
 * would never sleep. */
static void server_begin(struct twin *twin, const struct redis_server_options *options)
{
    struct redis_server_options ours = options != NULL ? *options : (struct redis_server_options){0};
    struct buffer config = {0};
    buffer_format(&config, "enable-debug-command local\n%s", ours.config != NULL ? ours.config : "");
    ours.config = buffer_text(&config);
    stepped_clock_enter(twin->clock_path);
    twin->server = redis_server_start(&ours);
    stepped_clock_leave();
    buffer_fini(&config);
    char *answer = redis_server_command(twin->server, "DEBUG SET-ACTIVE-EXPIRE 0");
    assert_string_equal(answer, "OK");
    free(answer);
    free(redis_server_command(twin->server, "CONFIG SET jemalloc-bg-thread no"));
}

struct twin *twin_create(const struct redis_server_options *options)
{
    struct twin *twin = memory_new(struct twin);
    twin->now_us = BEGIN_US;
    twin->about = "beginning";
    twin->password = options != NULL && options->password != NULL ? memory_text(options->password) : NULL;
    clock_make(twin);
    server_begin(twin, options);
    char *info = redis_server_command(twin->server, "INFO server");
    const char *run_id = strstr(info, "run_id:");
    snprintf(twin->run_id, sizeof twin->run_id, "%.40s", run_id != NULL ? run_id + 7 : "");
    twin->version = version_in(info);
    twin->is_reference = twin->version == 700;
    free(info);
    twin->model = server_create(&(struct server_options){.run_seed = "twin",
                                                         .password = twin->password,
                                                         .version = twin->version,
                                                         .has_disk = true,
                                                         .now_us = twin->now_us});
    for (unsigned i = 0; i < CLIENTS + TWIN_CALLERS; i++) {
        twin->clients[i].fd = -1;
        list_init(&twin->clients[i].asked);
        list_init(&twin->clients[i].queued);
    }
    for (unsigned i = 0; i < CLIENTS; i++)
        client_begin(twin, &twin->clients[i]);
    return twin;
}

void twin_destroy(struct twin *twin)
{
    if (twin == NULL)
        return;
    for (size_t i = 0; i < twin->client_count; i++)
        client_end(&twin->clients[i]);
    for (unsigned i = 0; i < LINES_KEPT; i++)
        free(twin->lines[i]);
    server_destroy(twin->model);
    redis_server_destroy(twin->server);
    munmap((void *)(uintptr_t)twin->clock, sizeof *twin->clock);
    unlink(twin->clock_path);
    *strrchr(twin->clock_path, '/') = '\0';
    rmdir(twin->clock_path);
    buffer_fini(&twin->many);
    free(twin->password);
    free(twin);
}

void twin_tell(struct twin *twin, const char *line)
{
    free(ask_server(twin, control(twin), line));
    free(ask_model(twin, control(twin), line));
}

static void clients_anew(struct twin *twin)
{
    for (size_t i = 0; i < twin->client_count; i++)
        client_end(&twin->clients[i]);
    for (unsigned i = 0; i < CLIENTS; i++)
        client_begin(twin, &twin->clients[i]);
}

void twin_reset(struct twin *twin, const char *about)
{
    twin->about = about;
    twin->line_count = 0;
    clients_anew(twin);
    twin_tell(twin, "FLUSHALL");
    twin_tell(twin, "SCRIPT FLUSH");
    twin_tell(twin, "CONFIG SET maxmemory 0");
}

void twin_restart_model(struct twin *twin)
{
    for (size_t i = 0; i < twin->client_count; i++)
        twin->clients[i].model.connection = NULL; /* freed by the restart */
    server_restart(twin->model, SERVER_LOSES_LAST_SECOND, twin->now_us);
    clients_anew(twin);
}

/* What has expired is gone, before a clock that steps back brings it back: a real server has found some of it by then,
 * depending on how long it had for that. */
static void expired_remove(struct twin *twin)
{
    free(ask_server(twin, control(twin), "SCAN 0 COUNT 1000000"));
    free(ask_model(twin, control(twin), "DBSIZE"));
}

void twin_pass(struct twin *twin, int64_t us)
{
    if (us < 0)
        expired_remove(twin);
    twin->now_us += us;
    clock_set(twin);
    if (server_next_us(twin->model) > twin->now_us)
        return;
    server_tick(twin->model, twin->now_us);
    for (unsigned i = 0; i < 2; i++) /* a server looks at its clock behind what it has read */
        free(ask_server(twin, control(twin), "PING"));
    for (size_t i = 0; i < twin->client_count; i++)
        client_compare(twin, &twin->clients[i], "time passes");
}

int64_t twin_now_us(const struct twin *twin)
{
    return twin->now_us;
}

unsigned long long twin_compared(const struct twin *twin)
{
    return twin->compared;
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

static long long number_in(const char *info, const char *field)
{
    const char *found = strstr(info, field);
    return found != NULL ? strtoll(found + strlen(field), NULL, 10) : -1;
}

/* Until the server has as many clients as the model, and as many of them wait: nothing shows when a server has read
 * what it does not answer. */
static void clients_await(struct twin *twin, const char *line)
{
    char *model = ask_model(twin, control(twin), "INFO clients");
    struct instant limit = instant_after(instant_now(), (int64_t)PATIENCE_MS * NS_PER_MS);
    for (bool is_same = false; !is_same;) {
        char *server = ask_server(twin, control(twin), "INFO clients");
        is_same = number_in(server, "blocked_clients:") == number_in(model, "blocked_clients:") &&
                  number_in(server, "connected_clients:") == number_in(model, "connected_clients:");
        if (!is_same && instant_reached(instant_now(), limit))
            differ(twin, line, server, model);
        free(server);
    }
    free(model);
}

static void all_compare(struct twin *twin, const char *line, const struct client *speaker)
{
    if (speaker->model.said.length == 0)
        clients_await(twin, line);
    for (size_t i = 0; i < twin->client_count; i++)
        client_compare(twin, &twin->clients[i], line);
}

void twin_say(struct twin *twin, const char *line)
{
    struct buffer bytes = {0};
    unsigned speaker = 0;
    if (line[0] == '=' && !twin->is_reference)
        return;
    line += line[0] == '=';
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
    commands_note(client, bytes.bytes, bytes.length);
    server_receive(client->model.connection, bytes.bytes, bytes.length, twin->now_us);
    all_compare(twin, line, client);
    buffer_fini(&bytes);
    twin_pass(twin, 1001);
}

static void bytes_said(struct twin *twin, struct client *client, const char *bytes, size_t length)
{
    clock_set(twin);
    client_send(twin, client, bytes, length);
    commands_note(client, bytes, length);
    if (client->model.connection != NULL)
        server_receive(client->model.connection, bytes, length, twin->now_us);
}

void twin_say_bytes(struct twin *twin, unsigned client, const char *bytes, size_t length)
{
    bytes_said(twin, &twin->clients[client], bytes, length);
    all_compare(twin, "bytes", &twin->clients[client]);
}

/* --- callers ------------------------------------------------------------------------------------------------------ */

void twin_call(struct twin *twin, unsigned caller, const char *bytes, size_t length, int64_t now_us)
{
    struct client *client = &twin->clients[CLIENTS + caller];
    if (now_us != twin->now_us)
        twin_pass(twin, now_us - twin->now_us);
    if (client->model.connection == NULL)
        client_begin(twin, client);
    bytes_said(twin, client, bytes, length);
    all_compare(twin, "a caller", client);
}

void twin_hang_up(struct twin *twin, unsigned caller)
{
    client_end(&twin->clients[CLIENTS + caller]);
    clients_await(twin, "hanging up");
}

/* --- many at once ------------------------------------------------------------------------------------------------- */

void twin_add(struct twin *twin, const struct text *arguments, size_t count)
{
    redis_request_begin(&twin->many, count);
    for (size_t i = 0; i < count; i++)
        redis_request_bytes(&twin->many, arguments[i].bytes, arguments[i].length);
}

void twin_flush(struct twin *twin)
{
    bytes_said(twin, &twin->clients[MANY], twin->many.bytes, twin->many.length);
    buffer_clear(&twin->many);
    for (size_t i = 0; i < twin->client_count; i++)
        client_compare(twin, &twin->clients[i], "many commands");
    twin_pass(twin, 1001);
}

/* --- all keys ----------------------------------------------------------------------------------------------------- */

void twin_compare_keys(struct twin *twin)
{
    static const char *const questions[][4] = {[VALUE_STRING] = {"GET"},
                                               [VALUE_LIST] = {"LRANGE", "0", "-1"},
                                               [VALUE_HASH] = {"HGETALL"},
                                               [VALUE_SET] = {"SMEMBERS"},
                                               [VALUE_ZSET] = {"ZRANGE", "0", "-1", "WITHSCORES"}};
    const struct keyspace *space = server_keyspace(twin->model);
    size_t place = 0;
    const struct text all[] = {text_of("KEYS"), text_of("*")};
    twin_add(twin, all, 2);
    for (struct item *key; (key = table_next(&space->keys, &place)) != NULL;) {
        const char *const *question = questions[key->value->type];
        struct text words[5] = {text_of(question[0]), item_name(key)};
        const struct text expiry[] = {text_of("PTTL"), item_name(key)};
        size_t count = 2;
        for (size_t i = 1; i < 4 && question[i] != NULL; i++)
            words[count++] = text_of(question[i]);
        twin_add(twin, words, count);
        twin_add(twin, expiry, 2);
        if (twin->many.length > 65536)
            twin_flush(twin);
    }
    twin_flush(twin);
}
