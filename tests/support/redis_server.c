/* The server answers on a unix socket too, and all requests of this file go there: another program may take a port
 * between choosing and binding it, but not a path in our own directory. */
#include "tests/support/redis_server.h"
#include "tests/support/private_directory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "redis/reader.h"
#include "redis/request.h"
#include "tests/support/reply_text.h"
#include "worker/servers/server_program.h"

static const int64_t start_limit_ns = 60 * NS_PER_S;
enum { COMMAND_LIMIT_S = 100, START_ATTEMPTS = 10 };

struct redis_server {
    char *directory, *config_path, *unix_path, *password;
    unsigned port;
    bool is_sentinel;
    pid_t pid; /* 0: not running */
};

_Noreturn static void give_up(const struct redis_server *server, const char *what)
{
    fprintf(stderr, "redis_server: %s: %s\n", what, strerror(errno));
    if (server != NULL && server->directory != NULL)
        fprintf(stderr, "redis_server: see %s/log\n", server->directory);
    abort();
}

static void pause_ms(int ms)
{
    poll(NULL, 0, ms);
}

/* --- ports and files ---------------------------------------------------------------------------------------- */

static bool can_bind(unsigned port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        give_up(NULL, "socket");
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool is_free = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return is_free;
}

/* Programs that run at the same time have a lane each (scripts/run-tests), and a part of the ports. None is one that
 * local nodes choose (worker/servers/local_nodes.c): theirs would be taken while they are down. */
static void ports_of_lane(int64_t *first, int64_t *last)
{
    enum { FIRST = 10000, COUNT = 10000 };
    const char *text = getenv("HOLDFAST_TEST_LANE");
    unsigned lane = 0, lanes = 1;
    if (text == NULL || sscanf(text, "%u/%u", &lane, &lanes) != 2 || lane >= lanes)
        lane = 0, lanes = 1;
    *first = FIRST + COUNT / lanes * lane;
    *last = *first + COUNT / lanes - 1;
}

/* One after the other: of two that are asked for before somebody listens, neither is the other. */
unsigned free_port(void)
{
    static atomic_uint asked;
    int64_t first = 0, last = 0;
    ports_of_lane(&first, &last);
    for (int64_t count = last - first + 1, i = 0; i < count; i++) {
        unsigned port = (unsigned)(first + ((int64_t)getpid() * 97 + atomic_fetch_add(&asked, 1)) % count);
        if (can_bind(port))
            return port;
    }
    give_up(NULL, "no free port");
}

static char *path_in(const struct redis_server *server, const char *name)
{
    struct buffer path = {0};
    buffer_format(&path, "%s/%s", server->directory, name);
    char *copy = memory_text(buffer_text(&path));
    buffer_fini(&path);
    return copy;
}

static void write_file(const struct redis_server *server, const char *path, const char *content)
{
    FILE *file = fopen(path, "we");
    if (file == NULL || fputs(content, file) < 0 || fclose(file) != 0)
        give_up(server, path);
}

static void write_config(const struct redis_server *server, const struct redis_server_options *options)
{
    struct buffer text = {0};
    buffer_format(&text, "bind 127.0.0.1\nprotected-mode yes\nport %u\n", server->port);
    buffer_format(&text, "unixsocket %s\ndir %s\nlogfile %s/log\n", server->unix_path, server->directory,
                  server->directory);
    buffer_append_text(&text, "daemonize no\nsave \"\"\nappendonly no\nappendfsync everysec\n");
    if (options->password != NULL)
        buffer_format(&text, "requirepass %s\n", options->password);
    if (options->acl != NULL) {
        char *path = path_in(server, "users.acl");
        write_file(server, path, options->acl);
        buffer_format(&text, "aclfile %s\n", path);
        free(path);
    }
    if (options->config != NULL)
        buffer_append_text(&text, options->config);
    write_file(server, server->config_path, buffer_text(&text));
    buffer_fini(&text);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

/* --- talking to it ------------------------------------------------------------------------------------------ */

static int connect_unix(const struct redis_server *server)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        give_up(server, "socket");
    struct timeval limit = {.tv_sec = COMMAND_LIMIT_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", server->unix_path);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Skips `skip` replies and renders the next. */
static bool read_reply(int fd, int skip, struct buffer *out)
{
    struct redis_reader *reader = redis_reader_create((size_t)64 << 20, (size_t)1 << 20);
    const struct redis_reply *reply = NULL;
    enum redis_reader_found found = REDIS_READER_NOTHING;
    char bytes[4096];
    while (found == REDIS_READER_NOTHING) {
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR) /* a read with a time limit is not resumed when the process was stopped */
            continue;
        if (got <= 0)
            break;
        redis_reader_give(reader, bytes, (size_t)got);
        while ((found = redis_reader_next(reader, &reply)) == REDIS_READER_REPLY && skip > 0)
            skip--;
    }
    if (found == REDIS_READER_REPLY)
        reply_text_write(reply, out);
    redis_reader_destroy(reader);
    return found == REDIS_READER_REPLY;
}

static bool run_command(const struct redis_server *server, const char *line, struct buffer *out)
{
    int fd = connect_unix(server);
    if (fd < 0)
        return false;
    struct buffer request = {0};
    if (server->password != NULL) {
        redis_request_begin(&request, 2);
        redis_request_text(&request, "AUTH");
        redis_request_text(&request, server->password);
    }
    buffer_format(&request, "%s\r\n", line);
    bool ok = send(fd, request.bytes, request.length, MSG_NOSIGNAL) == (ssize_t)request.length &&
              read_reply(fd, server->password != NULL ? 1 : 0, out);
    buffer_fini(&request);
    close(fd);
    return ok;
}

char *redis_server_command(struct redis_server *server, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *line = NULL;
    if (vasprintf(&line, format, arguments) < 0)
        give_up(server, "vasprintf");
    va_end(arguments);

    struct buffer text = {0};
    if (!run_command(server, line, &text))
        give_up(server, line);
    char *copy = memory_text(buffer_text(&text));
    buffer_fini(&text);
    free(line);
    return copy;
}

/* --- life --------------------------------------------------------------------------------------------------- */

static struct server_program program;

static void program_find(void)
{
    struct error error = ERROR_NONE;
    if (!server_program_find(&program, &error))
        give_up(NULL, error.text);
}

static void spawn(struct redis_server *server)
{
    char *const arguments[] = {program.path, server->config_path, server->is_sentinel ? "--sentinel" : NULL, NULL};
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0)
        give_up(server, "fork");
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
            _exit(127);
        execv(arguments[0], arguments);
        _exit(127);
    }
    server->pid = pid;
}

static bool has_ended(struct redis_server *server)
{
    if (waitpid(server->pid, NULL, WNOHANG) != server->pid)
        return false;
    server->pid = 0;
    return true;
}

/* False when it ended, most likely because its port was taken. */
static bool wait_until_it_answers(struct redis_server *server)
{
    struct instant limit = instant_after(instant_now(), start_limit_ns);
    struct buffer text = {0};
    bool answers = false;
    while (!answers && !has_ended(server)) {
        if (instant_reached(instant_now(), limit))
            give_up(server, "the server does not answer");
        buffer_clear(&text);
        if (run_command(server, "PING", &text))
            answers = strstr(buffer_text(&text), "LOADING") == NULL;
        if (!answers)
            pause_ms(5);
    }
    buffer_fini(&text);
    return answers;
}

struct redis_server *redis_server_start(const struct redis_server_options *options)
{
    static const struct redis_server_options defaults = {.port = 0};
    if (options == NULL)
        options = &defaults;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, program_find);
    struct redis_server *server = memory_new(struct redis_server);
    char directory[PRIVATE_DIRECTORY_MAX];
    private_directory_create(directory);
    server->directory = memory_text(directory);
    server->config_path = path_in(server, "redis.conf");
    server->unix_path = path_in(server, "redis.sock");
    server->is_sentinel = options->is_sentinel;
    server->password = options->password != NULL ? memory_text(options->password) : NULL;

    for (int i = 0; i < START_ATTEMPTS; i++) {
        server->port = options->port != 0 ? options->port : free_port();
        write_config(server, options);
        spawn(server);
        if (wait_until_it_answers(server))
            return server;
        pause_ms(20);
    }
    give_up(server, "the server does not start");
}

void redis_server_kill(struct redis_server *server)
{
    if (server->pid == 0)
        return;
    kill(server->pid, SIGKILL);
    while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    server->pid = 0;
}

void redis_server_restart(struct redis_server *server)
{
    redis_server_kill(server);
    for (int i = 0; i < START_ATTEMPTS; i++) {
        unlink(server->unix_path);
        spawn(server);
        if (wait_until_it_answers(server))
            return;
        pause_ms(100); /* the port may be in use for a moment, by a client that tried to reach us */
    }
    give_up(server, "the server does not start again");
}

void redis_server_kill_begin(struct redis_server *server)
{
    if (server->pid != 0)
        kill(server->pid, SIGKILL);
}

bool redis_server_is_gone(struct redis_server *server)
{
    return server->pid == 0 || has_ended(server);
}

void redis_server_restart_begin(struct redis_server *server)
{
    redis_server_kill(server);
    unlink(server->unix_path);
    spawn(server);
}

bool redis_server_is_back(struct redis_server *server)
{
    struct buffer text = {0};
    if (has_ended(server))
        spawn(server); /* its port was in use for a moment */
    bool answers = run_command(server, "PING", &text) && strstr(buffer_text(&text), "PONG") != NULL;
    buffer_fini(&text);
    return answers;
}

void redis_server_pause(struct redis_server *server)
{
    kill(server->pid, SIGSTOP);
    while (waitpid(server->pid, NULL, WUNTRACED) < 0 && errno == EINTR)
        ;
}

void redis_server_resume(struct redis_server *server)
{
    kill(server->pid, SIGCONT);
}

static void expect_ok(struct redis_server *server, const char *command)
{
    char *reply = redis_server_command(server, "%s", command);
    if (strcmp(reply, "OK") != 0)
        give_up(server, reply);
    free(reply);
}

void redis_server_heal(struct redis_server *server)
{
    if (server->pid == 0)
        redis_server_restart(server);
    redis_server_resume(server);
    expect_ok(server, "CONFIG SET maxmemory 0");
    expect_ok(server, "FLUSHALL");
}

void redis_server_destroy(struct redis_server *server)
{
    if (server == NULL)
        return;
    redis_server_kill(server);
    nftw(server->directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(server->directory);
    free(server->config_path);
    free(server->unix_path);
    free(server->password);
    free(server);
}

/* 0 when it is not there. */
static unsigned number_after(const char *text, const char *before)
{
    const char *at = strstr(text, before);
    return at != NULL ? (unsigned)strtoul(at + strlen(before), NULL, 10) : 0;
}

unsigned redis_server_info(struct redis_server *server, const char *section, const char *before)
{
    char *info = redis_server_command(server, "INFO %s", section);
    unsigned number = number_after(info, before);
    free(info);
    return number;
}

const char *redis_server_kind(struct redis_server *server)
{
    char *info = redis_server_command(server, "INFO server");
    const char *kind = strstr(info, "valkey_version:") != NULL ? "valkey" : "redis";
    free(info);
    return kind;
}

static unsigned calls_in(const char *stats, const char *command)
{
    char name[64];
    snprintf(name, sizeof name, "cmdstat_%s:", command);
    const char *at = strstr(stats, name);
    return at != NULL ? number_after(at, ":calls=") + number_after(at, ",rejected_calls=") : 0;
}

unsigned redis_server_calls(struct redis_server *server, const char *command)
{
    char *stats = redis_server_command(server, "INFO commandstats");
    unsigned calls = calls_in(stats, command);
    free(stats);
    return calls;
}

unsigned redis_server_calls_beyond(struct redis_server *server, const char *command, const char *other)
{
    char *stats = redis_server_command(server, "INFO commandstats");
    unsigned calls = calls_in(stats, command) - calls_in(stats, other);
    free(stats);
    return calls;
}

unsigned redis_server_port(const struct redis_server *server)
{
    return server->port;
}

const char *redis_server_unix_path(const struct redis_server *server)
{
    return server->unix_path;
}

pid_t redis_server_pid(const struct redis_server *server)
{
    return server->pid;
}
