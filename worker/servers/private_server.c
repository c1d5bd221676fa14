#include "worker/servers/private_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "redlock/redlock_nodes.h"

enum { PRELOAD_FD = STDERR_FILENO + 1 };
enum { LOOK_MS = 2, ANSWER_LIMIT_S = 2, LOG_TAIL_BYTES = 300 };

extern char **environ;

/* --- its files ---------------------------------------------------------------------------------------------------- */

static char *path_make(const char *directory, const char *name, const char *ending)
{
    struct buffer path = {0};
    buffer_format(&path, "%s/%s.%s", directory, name, ending);
    char *copy = memory_text(buffer_text(&path));
    buffer_fini(&path);
    return copy;
}

void private_server_init(struct private_server *server, const char *name, const char *directory, const char *password)
{
    *server = (struct private_server){.config_path = path_make(directory, name, "conf"),
                                      .log_path = path_make(directory, name, "log"),
                                      .clock_path = path_make(directory, name, "clock"),
                                      .password = memory_text(password),
                                      .lives = -1,
                                      .reservation = -1};
    snprintf(server->name, sizeof server->name, "%s", name);
}

void private_server_fini(struct private_server *server)
{
    if (server->clock_offset_ns != NULL)
        munmap((void *)(uintptr_t)server->clock_offset_ns, sizeof *server->clock_offset_ns);
    private_server_release(server);
    if (server->password != NULL)
        memory_wipe(server->password, strlen(server->password));
    char *const all[] = {server->config_path, server->log_path, server->clock_path, server->password,
                         server->preload,     server->program,  server->data_path};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    *server = (struct private_server){.lives = -1, .reservation = -1};
}

void private_server_keep(struct private_server *server, int lives, off_t life, bool keeps_data)
{
    server->lives = lives;
    server->life = life;
    server->keeps_data = keeps_data;
    server->data_path = memory_text_of(server->config_path, strlen(server->config_path) - strlen(".conf"));
}

bool private_server_give_clock(struct private_server *server, const char *preload, struct error *error)
{
    int file = open(server->clock_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool is_long = file >= 0 && ftruncate(file, sizeof *server->clock_offset_ns) == 0;
    void *content =
        is_long ? mmap(NULL, sizeof *server->clock_offset_ns, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    int reason = errno;
    if (file >= 0)
        close(file);
    if (content == MAP_FAILED)
        return error_set(error, "%s: %s", server->clock_path, strerror(reason));
    server->clock_offset_ns = content;
    server->preload = memory_text(preload);
    return true;
}

/* The directory is named in no line: texts in a configuration have their own rules. It is where the server runs. */
static bool config_write(const struct private_server *server, struct error *error)
{
    struct buffer text = {0};
    buffer_format(&text, "bind 127.0.0.1\nprotected-mode yes\nport %u\nrequirepass %s\n", server->port,
                  server->password);
    buffer_append_text(&text, "daemonize no\nsave \"\"\nmaxmemory-policy noeviction\ndatabases 1\n"
                              "hz 10\nactiverehashing no\nslowlog-log-slower-than -1\nalways-show-logo no\n");
    buffer_append_text(&text, server->keeps_data ? "appendonly yes\nappendfsync everysec\n" : "appendonly no\n");
    int file = open(server->config_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool is_written = file >= 0 && write(file, text.bytes, text.length) == (ssize_t)text.length;
    int reason = errno;
    if (file >= 0)
        close(file);
    memory_wipe(text.bytes, text.length);
    buffer_fini(&text);
    return is_written || error_set(error, "%s: %s", server->config_path, strerror(reason));
}

/* The last lines of its log, on one line. */
static void log_tail(const struct private_server *server, char tail[LOG_TAIL_BYTES + 1])
{
    tail[0] = '\0';
    int file = open(server->log_path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    off_t end = lseek(file, 0, SEEK_END);
    off_t from = end > LOG_TAIL_BYTES ? end - LOG_TAIL_BYTES : 0;
    ssize_t got = pread(file, tail, LOG_TAIL_BYTES, from);
    close(file);
    size_t length = got > 0 ? (size_t)got : 0;
    while (length > 0 && tail[length - 1] == '\n')
        length--;
    tail[length] = '\0';
    const char *whole = from > 0 ? strchr(tail, '\n') : NULL; /* the first line was cut */
    if (whole != NULL)
        memmove(tail, whole + 1, strlen(whole + 1) + 1);
    for (char *at = tail; (at = strchr(at, '\n')) != NULL;)
        *at = '|';
    log_defuse(tail);
}

/* --- its port ----------------------------------------------------------------------------------------------------- */

static struct sockaddr_in address_of(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static bool port_bind(struct private_server *server, unsigned port)
{
    struct sockaddr_in address = address_of(port);
    socklen_t length = sizeof address;
    int on = 1;
    server->reservation = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server->reservation < 0 || setsockopt(server->reservation, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(server->reservation, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(server->reservation, (struct sockaddr *)&address, &length) != 0)
        return false;
    server->port = ntohs(address.sin_port);
    return true;
}

bool private_server_reserve(struct private_server *server, struct error *error)
{
    return port_bind(server, 0) || error_set(error, "%s: no free port of 127.0.0.1: %s", server->name, strerror(errno));
}

void private_server_release(struct private_server *server)
{
    if (server->reservation >= 0)
        close(server->reservation);
    server->reservation = -1;
}

bool private_server_reserve_port(struct private_server *server, unsigned port)
{
    bool is_ours = port_bind(server, port);
    if (!is_ours)
        private_server_release(server);
    return is_ours;
}

/* --- whether it lives --------------------------------------------------------------------------------------------- */

bool life_hold(int lives, off_t byte, bool is_shared)
{
    struct flock wanted = {.l_type = is_shared ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(lives, F_SETLK, &wanted) == 0;
}

bool life_is_held(int lives, off_t byte, pid_t *holder)
{
    struct flock found = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    bool is_held = fcntl(lives, F_GETLK, &found) == 0 && found.l_type != F_UNLCK;
    *holder = is_held && found.l_pid > 0 ? found.l_pid : 0;
    return is_held;
}

/* --- its process -------------------------------------------------------------------------------------------------- */

/* The library is handed over open: the loader takes blanks and colons in LD_PRELOAD for the end of a path. */
static bool preload_hand_over(const char *preload)
{
    int library = open(preload, O_RDONLY);
    return library >= 0 && dup2(library, PRELOAD_FD) >= 0;
}

/* It is an orphan when this returns, in a process of its own: only that one holds what it holds. */
static bool is_cut_loose(const struct private_server *server)
{
    setsid();
    pid_t orphan = _Fork();
    if (orphan != 0)
        _exit(orphan < 0 ? 127 : 0);
    return fcntl(server->lives, F_SETFD, 0) == 0 && life_hold(server->lives, server->life, false) &&
           chdir(server->data_path) == 0;
}

static bool is_tied(pid_t parent)
{
    bool dies_with_us = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
    setsid();
    return dies_with_us;
}

/* Between fork and exec of a process that may have threads: only what a signal handler may call. */
_Noreturn static void server_become(const struct private_server *server, char *const *arguments,
                                    char *const *surroundings, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int nothing = open("/dev/null", O_RDONLY);
    int log = open(server->log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (nothing < 0 || log < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 ||
        dup2(log, STDERR_FILENO) < 0 || (server->preload != NULL && !preload_hand_over(server->preload)) ||
        close_range(server->preload != NULL ? PRELOAD_FD + 1 : PRELOAD_FD, ~0U, CLOSE_RANGE_CLOEXEC) != 0 ||
        !(server->lives >= 0 ? is_cut_loose(server) : is_tied(parent)))
        _exit(127);
    execve(arguments[0], arguments, surroundings);
    _exit(127);
}

/* What the process that starts it has, and the clock. The caller frees the list, and its first two texts. */
static char **surroundings_make(const struct private_server *server)
{
    size_t count = 0, own = 0;
    while (environ[count] != NULL)
        count++;
    char **list = memory_zeroed(count + 3, sizeof *list);
    if (server->preload != NULL) {
        struct buffer text = {0};
        buffer_format(&text, "LD_PRELOAD=/proc/self/fd/%d", PRELOAD_FD);
        list[own++] = memory_text(buffer_text(&text));
        buffer_clear(&text);
        buffer_format(&text, "HOLDFAST_STEPPED_CLOCK=%s", server->clock_path);
        list[own++] = memory_text(buffer_text(&text));
        buffer_fini(&text);
    }
    for (size_t i = 0; i < count; i++)
        if (own == 0 || strncmp(environ[i], "LD_PRELOAD=", 11) != 0)
            list[own++] = environ[i];
    return list;
}

/* Returns when the orphan has become the server, or has ended: then the last descriptor of the pipe is closed. */
static bool orphan_await(pid_t pid, int pipe_end)
{
    char nothing;
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    while (read(pipe_end, &nothing, 1) < 0 && errno == EINTR)
        ;
    return status == 0;
}

static pid_t server_fork(const struct private_server *server, char *const *surroundings)
{
    char *const arguments[] = {server->program, server->config_path, NULL};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid_t parent = getpid();
    /* Not fork(): a loop may be there already, and libuv has left handlers that do something for their child. */
    pid_t pid = _Fork();
    if (pid == 0)
        server_become(server, arguments, surroundings, parent);
    int reason = errno;
    close(ends[1]);
    if (pid > 0 && server->lives >= 0 && !orphan_await(pid, ends[0]))
        reason = EAGAIN, pid = -1;
    close(ends[0]);
    errno = reason;
    return pid;
}

bool private_server_start(struct private_server *server, const char *program, struct error *error)
{
    private_server_kill(server);
    if (server->program == NULL)
        server->program = memory_text(program);
    if (server->data_path != NULL && mkdir(server->data_path, 0700) != 0 && errno != EEXIST)
        return error_set(error, "%s: %s", server->data_path, strerror(errno));
    if (!config_write(server, error))
        return false;
    char **surroundings = surroundings_make(server);
    pid_t pid = server_fork(server, surroundings);
    int reason = errno;
    if (server->preload != NULL) {
        free(surroundings[0]);
        free(surroundings[1]);
    }
    free(surroundings);
    if (pid < 0)
        return error_set(error, "%s: cannot be started: %s", server->program, strerror(reason));
    server->pid = pid;
    return true;
}

bool private_server_lives(struct private_server *server)
{
    if (server->lives >= 0)
        return life_is_held(server->lives, server->life, &server->pid);
    if (server->pid != 0 && waitpid(server->pid, NULL, WNOHANG) != 0)
        server->pid = 0;
    return server->pid != 0;
}

void private_server_kill(struct private_server *server)
{
    if (!private_server_lives(server) || server->pid <= 0)
        return;
    kill(server->pid, SIGKILL);
    if (server->lives >= 0)
        while (private_server_lives(server))
            poll(NULL, 0, LOOK_MS);
    else
        while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    server->pid = 0;
}

/* --- whether it answers ------------------------------------------------------------------------------------------- */

bool private_server_answers(const struct private_server *server, const char *command, const char *line)
{
    struct timeval limit = {.tv_sec = ANSWER_LIMIT_S};
    struct sockaddr_in address = address_of(server->port);
    char question[512], answer[64] = "", wanted[sizeof answer];
    size_t length = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    int asked = snprintf(question, sizeof question, "AUTH %s\r\n%s\r\n", server->password, command);
    size_t expected = (size_t)snprintf(wanted, sizeof wanted, "+OK\r\n%s\r\n", line);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, question, (size_t)asked, MSG_NOSIGNAL) == asked)
        for (ssize_t got = 1; got > 0 && length<expected; length += got> 0 ? (size_t)got : 0)
            got = recv(fd, answer + length, expected - length, 0);
    close(fd);
    return strcmp(answer, wanted) == 0;
}

bool private_server_await(struct private_server *server, struct instant deadline, struct error *error)
{
    char tail[LOG_TAIL_BYTES + 1];
    while (private_server_lives(server) && !instant_reached(instant_now(), deadline)) {
        if (private_server_answers(server, "PING", "+PONG"))
            return true;
        poll(NULL, 0, LOOK_MS);
    }
    log_tail(server, tail);
    return error_set(error, "%s %s; its last words: %s", server->program != NULL ? server->program : server->name,
                     server->pid == 0 ? "ended at once" : "does not answer", tail[0] != '\0' ? tail : "none");
}

/* --- a lock group of new servers ---------------------------------------------------------------------------------- */

enum { REASON_BYTES_MAX = 400 };
static const int64_t GROUP_LIMIT_NS = 15 * NS_PER_S;
static const int64_t NODE_TIMEOUT_MS = 5000; /* they have just been started, perhaps on a busy machine */

/* What fails is written for the parent. */
_Noreturn static void child_make(const struct redlock_options *options, int64_t max_ttl_ns, int out)
{
    char reason[REASON_BYTES_MAX] = "";
    log_set_level(LOG_NOTHING);
    struct redlock_nodes *session = redlock_nodes_open(options, reason, sizeof reason);
    enum redlock_nodes_end end = REDLOCK_NODES_REFUSED;
    if (session != NULL)
        end = redlock_nodes_init(session, &(struct redlock_group_terms){.max_ttl_ms = ms_from_ns(max_ttl_ns)});
    if (session != NULL && end != REDLOCK_NODES_DONE)
        snprintf(reason, sizeof reason, "%s", redlock_nodes_reason(session));
    bool is_told = end == REDLOCK_NODES_DONE || write(out, reason, strlen(reason)) >= 0;
    _exit(end == REDLOCK_NODES_DONE && is_told ? 0 : 1);
}

/* How the child ended: killed when it takes too long. */
static bool child_await(pid_t pid, int in, struct error *error)
{
    char reason[REASON_BYTES_MAX + 1] = "";
    struct pollfd readable = {.fd = in, .events = POLLIN};
    bool is_late = poll(&readable, 1, (int)(GROUP_LIMIT_NS / NS_PER_MS)) <= 0;
    ssize_t got = is_late ? 0 : read(in, reason, REASON_BYTES_MAX);
    if (got > 0)
        reason[got] = '\0';
    if (is_late)
        kill(pid, SIGKILL);
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status == 0)
        return true;
    return error_set(error, "the lock nodes could not be made a group: %s",
                     is_late ? "they do not answer" : log_defuse(reason));
}

bool new_group_make(const struct private_server *servers, unsigned count, int64_t max_ttl_ns, struct error *error)
{
    struct redlock_node nodes[REDLOCK_NODES_MAX];
    const struct redlock_options options = {
        .nodes = nodes, .node_count = count, .key_prefix = "", .client_name = "holdfast-new-group"};
    int ends[2];
    invariant(count <= REDLOCK_NODES_MAX);
    for (unsigned i = 0; i < count; i++)
        nodes[i] = (struct redlock_node){.name = servers[i].name,
                                         .host = "127.0.0.1",
                                         .port = servers[i].port,
                                         .password = servers[i].password,
                                         .timeout_ms = NODE_TIMEOUT_MS,
                                         .connect_timeout_ms = NODE_TIMEOUT_MS};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set(error, "no pipe: %s", strerror(errno));
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
            _exit(1);
        close(ends[0]);
        child_make(&options, max_ttl_ns, ends[1]);
    }
    int reason = errno;
    close(ends[1]);
    bool is_made = pid > 0 && child_await(pid, ends[0], error);
    close(ends[0]);
    return pid > 0 ? is_made : error_set(error, "no process can be started: %s", strerror(reason));
}

/* --- the directory of a dry run ----------------------------------------------------------------------------------- */

char *temporary_directory_path(const char *run)
{
    const char *parent = getenv("TMPDIR");
    struct buffer path = {0};
    buffer_format(&path, "%s/holdfast-dry-%s", parent != NULL && parent[0] == '/' ? parent : "/tmp", run);
    char *copy = memory_text(buffer_text(&path));
    buffer_fini(&path);
    return copy;
}

bool temporary_directory_make(const char *path, struct error *error)
{
    return mkdir(path, 0700) == 0 ||
           error_set(error, "%s: no directory can be made there for the nodes of the dry run: %s", path,
                     strerror(errno));
}

static int entry_remove(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

bool temporary_directory_remove(const char *path)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return errno == ENOENT;
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid())
        return true;
    return nftw(path, entry_remove, 8, FTW_DEPTH | FTW_PHYS) == 0;
}
