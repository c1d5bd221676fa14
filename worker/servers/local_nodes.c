#include "worker/servers/local_nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/secret.h"
#include "worker/config/config_file.h"
#include "worker/config/trusted_file.h"
#include "worker/servers/private_server.h"
#include "worker/servers/server_program.h"

enum { QUEUE, LOCKS, MAJORITY = 2, PASSWORD_DIGITS = 32, LOOK_MS = 10 };
enum { BYTE_OF_CHANGES = 0, BYTE_OF_WORKERS = 1, BYTE_OF_SERVERS = 2 }; /* of the file `lock` */
enum { PORT_LEAST = 20000, PORT_MOST = 29999, PORT_TRIES = 50 };        /* none that the kernel hands out by itself */
enum { BEGIN_TRIES = 3 };                                               /* of a server, each at another port */
static const int64_t ANSWER_LIMIT_NS = 30 * NS_PER_S, END_LIMIT_NS = 20 * NS_PER_S, LEASE_NS = 16 * NS_PER_S;
static const uint64_t ROOM_BYTES = 16 << 20;
#define ELSEWHERE "set XDG_STATE_HOME to a directory of your own"
static const char *const node_names[LOCAL_NODES] = {"queue", "lock1", "lock2", "lock3"};

struct local_nodes {
    char *directory;
    int lock; /* open; -1 = not */
    char *password;
    struct local_record record;
    struct private_server servers[LOCAL_NODES];
    bool is_up[LOCAL_NODES]; /* before anything was started */
};

/* --- the directory ------------------------------------------------------------------------------------------------ */

static char *directory_path(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state != NULL && state[0] == '/')
        return config_path_join(state, "holdfast/local");
    const struct passwd *user = home == NULL || home[0] != '/' ? getpwuid(geteuid()) : NULL;
    if (user != NULL)
        home = user->pw_dir;
    return config_path_join(home != NULL ? home : "/", ".local/state/holdfast/local");
}

static bool directory_check(const char *path, struct error *error)
{
    struct stat facts;
    if (lstat(path, &facts) != 0)
        return error_set(error, "%.250s: cannot be examined: %s; " ELSEWHERE, path, strerror(errno));
    if (!S_ISDIR(facts.st_mode))
        return error_set(error, "%.250s: is no directory, and local nodes need one there; remove it, or " ELSEWHERE,
                         path);
    if (facts.st_uid != geteuid())
        return error_set(error, "%.250s: belongs to user %u, and so do the local nodes in it; " ELSEWHERE, path,
                         (unsigned)facts.st_uid);
    return trusted_facts(&facts, path, "holds the password and the data of local nodes", error);
}

static bool directory_make(const char *path, struct error *error)
{
    char *part = memory_text(path);
    bool is_made = true;
    for (char *slash = part; is_made && slash != NULL;) {
        slash = strchr(slash + 1, '/');
        if (slash != NULL)
            *slash = '\0';
        is_made = mkdir(part, 0700) == 0 || errno == EEXIST;
        if (slash != NULL)
            *slash = '/';
    }
    free(part);
    if (!is_made)
        return error_set(error, "%.250s: this directory cannot be made: %s; " ELSEWHERE, path, strerror(errno));
    return directory_check(path, error);
}

static bool room_check(const char *path, struct error *error)
{
    struct statvfs system;
    if (statvfs(path, &system) != 0 || system.f_blocks == 0 ||
        (uint64_t)system.f_bavail * system.f_frsize >= ROOM_BYTES)
        return true;
    return error_set(error,
                     "%.250s: its disk has less than 16 MiB left, so local nodes could not keep their data; make room, "
                     "or " ELSEWHERE " on another disk",
                     path);
}

/* All of it or nothing: written beside, and renamed. */
static bool file_write(const struct local_nodes *nodes, const char *name, const struct buffer *text,
                       struct error *error)
{
    char *path = config_path_join(nodes->directory, name), *beside = config_path_join(nodes->directory, "new");
    int file = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_written = file >= 0 && write(file, text->bytes, text->length) == (ssize_t)text->length &&
                      fsync(file) == 0 && rename(beside, path) == 0;
    if (!is_written)
        error_set(error, "%s: cannot be written: %s", path, strerror(errno));
    if (file >= 0)
        close(file);
    if (!is_written)
        unlink(beside);
    free(path);
    free(beside);
    return is_written;
}

/* --- one at a time ------------------------------------------------------------------------------------------------ */

static void nodes_close(struct local_nodes *nodes)
{
    for (unsigned i = 0; i < LOCAL_NODES; i++)
        private_server_fini(&nodes->servers[i]);
    if (nodes->lock >= 0)
        close(nodes->lock);
    secret_free(nodes->password);
    free(nodes->directory);
}

static bool lock_open(struct local_nodes *nodes, int flags, struct error *error)
{
    char *path = config_path_join(nodes->directory, "lock");
    nodes->lock = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    int reason = errno;
    if (nodes->lock < 0)
        error_set(error, "%.250s: cannot be opened: %s; " ELSEWHERE, path, strerror(reason));
    free(path);
    errno = reason;
    return nodes->lock >= 0;
}

/* Until others that change something are done. If the directory was wiped meanwhile, this file is gone. */
static bool turn_take(const struct local_nodes *nodes, struct error *error)
{
    struct flock wanted = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = BYTE_OF_CHANGES, .l_len = 1};
    struct stat facts;
    if (fcntl(nodes->lock, F_SETLKW, &wanted) != 0 || fstat(nodes->lock, &facts) != 0)
        return error_set(error, "%s/lock: cannot be locked: %s", nodes->directory, strerror(errno));
    return facts.st_nlink > 0 || error_set(error, "%s: was wiped in this moment; try again", nodes->directory);
}

static void turn_give(int lock)
{
    struct flock none = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = BYTE_OF_CHANGES, .l_len = 1};
    (void)fcntl(lock, F_SETLK, &none);
}

static unsigned servers_up(struct local_nodes *nodes)
{
    unsigned up = 0;
    for (unsigned i = 0; i < LOCAL_NODES; i++) {
        nodes->is_up[i] = life_is_held(nodes->lock, BYTE_OF_SERVERS + i, &nodes->servers[i].pid);
        up += nodes->is_up[i];
    }
    return up;
}

/* --- the record --------------------------------------------------------------------------------------------------- */

/* False when it is of no use: a start writes it anew, where no server runs by it. */
static enum local_record_found record_load(struct local_nodes *nodes)
{
    char *path = config_path_join(nodes->directory, LOCAL_RECORD_FILE), line[256] = "";
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t got = file >= 0 ? read(file, line, sizeof line - 1) : 0;
    if (file >= 0)
        close(file);
    line[got > 0 ? got : 0] = '\0';
    free(path);
    return local_record_read(line, &nodes->record);
}

static bool record_check(struct local_nodes *nodes, unsigned up, struct error *error)
{
    enum local_record_found found = record_load(nodes);
    if (found == LOCAL_RECORD_NEWER)
        return error_set(error,
                         "%s: these local nodes were made by a newer holdfast: use that one, or remove them and their "
                         "data with `holdfast local wipe`",
                         nodes->directory);
    if (found == LOCAL_RECORD_NONE && up > 0)
        return error_set(error,
                         "%s/" LOCAL_RECORD_FILE ": does not say the ports of the servers that run: `holdfast local "
                         "stop`, then start again",
                         nodes->directory);
    return true;
}

/* Drawn once: a worker that still lives knows it. */
static bool password_take(struct local_nodes *nodes, unsigned up, struct error *error)
{
    char *path = config_path_join(nodes->directory, LOCAL_PASSWORD_FILE), digits[PASSWORD_DIGITS + 1] = "";
    struct buffer text = {0};
    bool is_kept = up > 0 || access(path, F_OK) == 0;
    if (!is_kept) {
        random_digits(digits, PASSWORD_DIGITS);
        buffer_format(&text, "%s\n", digits);
        is_kept = file_write(nodes, LOCAL_PASSWORD_FILE, &text, error);
        memory_wipe(digits, sizeof digits);
        memory_wipe(text.bytes, text.length);
    }
    if (is_kept)
        nodes->password = secret_read_file(path, error);
    buffer_fini(&text);
    free(path);
    return nodes->password != NULL;
}

/* --- starting ----------------------------------------------------------------------------------------------------- */

/* The kernel lets several reserve one port as long as nobody listens there. Others are noticed when a server begins.
 * Two of ours have one password, so whichever got the port would answer for both. */
static bool port_reserve(struct local_nodes *nodes, unsigned number, unsigned port)
{
    for (unsigned i = 0; i < LOCAL_NODES; i++)
        if (i != number && nodes->servers[i].port == port)
            return false;
    return private_server_reserve_port(&nodes->servers[number], port);
}

/* The port of before, if nobody has taken it. */
static bool port_choose(struct local_nodes *nodes, unsigned number, unsigned before, FILE *told, struct error *error)
{
    struct private_server *server = &nodes->servers[number];
    bool is_chosen = before != 0 && port_reserve(nodes, number, before);
    if (is_chosen)
        return true;
    for (unsigned i = 0; i < PORT_TRIES && !is_chosen; i++)
        is_chosen = port_reserve(nodes, number, (unsigned)random_between(PORT_LEAST, PORT_MOST));
    if (!is_chosen && !private_server_reserve(server, error))
        return false;
    if (before != 0)
        fprintf(told,
                "port %u was taken by somebody else: %s is at %u from now on, which a configuration of your own has to "
                "say too\n",
                before, server->name, server->port);
    return true;
}

static bool servers_prepare(struct local_nodes *nodes, FILE *told, struct error *error)
{
    for (unsigned i = 0; i < LOCAL_NODES; i++) {
        struct private_server *server = &nodes->servers[i];
        private_server_init(server, node_names[i], nodes->directory, nodes->password);
        private_server_keep(server, nodes->lock, BYTE_OF_SERVERS + i, i == QUEUE);
        server->port = nodes->is_up[i] ? nodes->record.ports[i] : 0;
        if (!nodes->is_up[i] && !port_choose(nodes, i, nodes->record.ports[i], told, error))
            return false;
        nodes->record.ports[i] = server->port;
    }
    return true;
}

static bool record_write(const struct local_nodes *nodes, struct error *error)
{
    struct buffer text = {0};
    local_record_print(&nodes->record, &text);
    bool is_written = file_write(nodes, LOCAL_RECORD_FILE, &text, error);
    buffer_fini(&text);
    return is_written;
}

/* A server has ended at once. Another program may have begun to listen at the port since it was chosen: then another
 * one is chosen and recorded, unless that program is gone already. */
static bool may_begin_again(struct local_nodes *nodes, unsigned number, FILE *told)
{
    struct private_server *server = &nodes->servers[number];
    struct error error = ERROR_NONE;
    unsigned before = server->port;
    private_server_release(server);
    if (private_server_lives(server))
        return false;
    if (private_server_reserve_port(server, before))
        return true;
    server->port = 0;
    if (!port_choose(nodes, number, before, told, &error))
        return false;
    nodes->record.ports[number] = server->port;
    return record_write(nodes, &error);
}

static bool server_begin(struct local_nodes *nodes, unsigned number, const struct server_program *program, FILE *told,
                         struct error *error)
{
    struct private_server *server = &nodes->servers[number];
    struct error reason = ERROR_NONE;
    for (unsigned tries = 0; tries < BEGIN_TRIES; tries++) {
        reason = ERROR_NONE;
        if (!private_server_lives(server) && !private_server_start(server, program->path, &reason))
            break;
        if (private_server_await(server, instant_after(instant_now(), ANSWER_LIMIT_NS), &reason))
            return true;
        if (!may_begin_again(nodes, number, told))
            break;
    }
    if (server->pid != 0)
        error_prefix(&reason, "%s (process %d)", server->name, (int)server->pid);
    return error_set(error, "%s", reason.text);
}

/* Whether fewer lock nodes vote than a lock needs. One votes whose marker trusts its present run (redlock/marker.h). */
static bool group_is_lost(struct local_nodes *nodes)
{
    static const char question[] =
        "EVAL \"return string.find(redis.call('GET', 'hf:lock:group') or '', 'run=' .. "
        "string.match(redis.call('INFO', 'server'), 'run_id:(%x+)'), 1, true) and 1 or 0\" 0";
    unsigned votes = 0;
    for (unsigned i = LOCKS; i < LOCAL_NODES; i++)
        votes += nodes->is_up[i] && private_server_answers(&nodes->servers[i], question, ":1");
    return votes < MAJORITY;
}

/* Whether a worker lives that may hold locks. One with a configuration of its own is known to the queue node only,
 * which believes for a lease (15 s) that one lives that was killed; then it is listed for a while, marked as gone. */
static bool worker_lives(struct local_nodes *nodes, FILE *told)
{
    static const char question[] =
        "EVAL \"for _, id in ipairs(redis.call('ZRANGEBYSCORE', 'hf:2:processes', redis.call('TIME')[1], '+inf')) do "
        "if redis.call('HEXISTS', 'hf:2:process:' .. id, 'gone') == 0 then return 1 end end return 0\" 0";
    struct instant deadline = instant_after(instant_now(), LEASE_NS);
    pid_t pid = 0;
    bool is_local = life_is_held(nodes->lock, BYTE_OF_WORKERS, &pid);
    bool is_listed = !is_local && !private_server_answers(&nodes->servers[QUEUE], question, ":0");
    if (is_listed)
        fputs("a worker of these nodes ended without a word, or lives: waiting for up to 16 s to know\n", told);
    while (is_listed && !instant_reached(instant_now(), deadline)) {
        poll(NULL, 0, 10 * LOOK_MS);
        is_listed = !private_server_answers(&nodes->servers[QUEUE], question, ":0");
    }
    return is_local || is_listed;
}

/* While no worker lives nobody relies on a lock: then lock nodes that cannot grant one are begun anew, all of them. */
static bool locks_begin(struct local_nodes *nodes, const struct server_program *program, FILE *told,
                        struct error *error)
{
    bool is_lost = group_is_lost(nodes), may_forget = is_lost && !worker_lives(nodes, told);
    for (unsigned i = LOCKS; i < LOCAL_NODES; i++) {
        if (may_forget)
            private_server_kill(&nodes->servers[i]);
        nodes->is_up[i] = nodes->is_up[i] && !may_forget;
        if (!server_begin(nodes, i, program, told, error))
            return false;
    }
    if (is_lost && !may_forget)
        fputs(
            "most lock nodes have lost their memory while a worker that lives used them, so nothing can be locked for "
            "about a minute; to have it sooner end all workers, then start again\n",
            told);
    return !may_forget || new_group_make(&nodes->servers[LOCKS], LOCAL_NODES - LOCKS, 0, error);
}

static bool all_start(struct local_nodes *nodes, FILE *told, struct error *error)
{
    struct server_program program;
    unsigned up = servers_up(nodes);
    if (!server_program_find(&program, error) || !record_check(nodes, up, error) ||
        (up < LOCAL_NODES && !room_check(nodes->directory, error)) || !password_take(nodes, up, error))
        return false;
    bool is_up = servers_prepare(nodes, told, error) && record_write(nodes, error) &&
                 server_begin(nodes, QUEUE, &program, told, error) && locks_begin(nodes, &program, told, error);
    for (unsigned i = 0; i < LOCAL_NODES && !is_up; i++)
        if (nodes->servers[i].lives >= 0 && !nodes->is_up[i])
            private_server_kill(&nodes->servers[i]);
    return is_up;
}

/* The file stays open: so this process is known to live. */
static bool worker_count(struct local_nodes *nodes, struct error *error)
{
    if (!life_hold(nodes->lock, BYTE_OF_WORKERS, true))
        return error_set(error, "%s/lock: cannot be locked: %s", nodes->directory, strerror(errno));
    nodes->lock = -1;
    return true;
}

static void nodes_open(struct local_nodes *nodes)
{
    *nodes = (struct local_nodes){.directory = directory_path(), .lock = -1};
    for (unsigned i = 0; i < LOCAL_NODES; i++)
        nodes->servers[i] = (struct private_server){.lives = -1, .reservation = -1};
}

enum exit_code local_nodes_start(char **path, FILE *told, struct error *error)
{
    struct local_nodes nodes;
    nodes_open(&nodes);
    bool is_up = directory_make(nodes.directory, error) && lock_open(&nodes, O_CREAT, error) &&
                 turn_take(&nodes, error) && all_start(&nodes, told, error);
    int lock = nodes.lock;
    is_up = is_up && worker_count(&nodes, error);
    if (is_up) {
        *path = config_path_join(nodes.directory, LOCAL_RECORD_FILE);
        turn_give(lock);
    }
    nodes_close(&nodes);
    return is_up ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

enum exit_code local_nodes_join(struct error *error)
{
    struct local_nodes nodes;
    nodes_open(&nodes);
    bool is_counted = lock_open(&nodes, 0, error) && worker_count(&nodes, error);
    nodes_close(&nodes);
    return is_counted ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

/* What is there, be it running or not. EXIT_CODE_TEMPORARY: nothing. */
static enum exit_code nodes_find(struct local_nodes *nodes, struct error *error)
{
    struct stat facts;
    nodes_open(nodes);
    if (lstat(nodes->directory, &facts) != 0 && errno == ENOENT)
        return EXIT_CODE_TEMPORARY;
    if (!directory_check(nodes->directory, error))
        return EXIT_CODE_FAILURE;
    struct error reason = ERROR_NONE;
    if (lock_open(nodes, 0, &reason))
        return EXIT_CODE_OK;
    if (errno == ENOENT)
        return EXIT_CODE_TEMPORARY;
    error_set(error, "%s", reason.text);
    return EXIT_CODE_FAILURE;
}

enum exit_code local_nodes_find(char **path, struct error *error)
{
    struct local_nodes nodes;
    enum exit_code code = nodes_find(&nodes, error);
    if (code == EXIT_CODE_OK && !record_check(&nodes, servers_up(&nodes), error))
        code = EXIT_CODE_FAILURE;
    else if (code == EXIT_CODE_OK && !nodes.is_up[QUEUE])
        code = EXIT_CODE_TEMPORARY;
    if (code == EXIT_CODE_OK)
        *path = config_path_join(nodes.directory, LOCAL_RECORD_FILE);
    else
        error_set(error, "no local nodes run: `holdfast work --local` starts them"); /* unless it says more already */
    nodes_close(&nodes);
    return code;
}

static int64_t bytes_below(const char *directory, const char *name)
{
    char *path = config_path_join(directory, name), *const roots[] = {path, NULL};
    int64_t bytes = 0;
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *entry; walk != NULL && (entry = fts_read(walk)) != NULL;)
        bytes += entry->fts_info == FTS_F ? (int64_t)entry->fts_statp->st_size : 0;
    if (walk != NULL)
        fts_close(walk);
    free(path);
    return bytes;
}

enum exit_code local_nodes_look(struct local_nodes_view *view, struct error *error)
{
    struct local_nodes nodes;
    pid_t changer;
    enum exit_code code = nodes_find(&nodes, error);
    *view = (struct local_nodes_view){.directory = memory_text(nodes.directory)};
    if (code == EXIT_CODE_OK) {
        view->up = servers_up(&nodes);
        (void)life_is_held(nodes.lock, BYTE_OF_WORKERS, &view->worker);
        view->is_changing = life_is_held(nodes.lock, BYTE_OF_CHANGES, &changer);
        (void)record_load(&nodes);
    }
    for (unsigned i = 0; i < LOCAL_NODES; i++)
        view->nodes[i] = (struct local_node_view){node_names[i], nodes.record.ports[i], nodes.is_up[i],
                                                  nodes.servers[i].pid, bytes_below(nodes.directory, node_names[i])};
    nodes_close(&nodes);
    return code == EXIT_CODE_FAILURE ? code : EXIT_CODE_OK;
}

void local_nodes_view_fini(struct local_nodes_view *view)
{
    free(view->directory);
}

/* --- ending ------------------------------------------------------------------------------------------------------- */

/* Redis writes what it has not written yet and ends when it gets SIGTERM. */
static bool servers_end(struct local_nodes *nodes, int signal_number, struct error *error)
{
    struct instant deadline = instant_after(instant_now(), END_LIMIT_NS);
    (void)servers_up(nodes);
    for (unsigned i = 0; i < LOCAL_NODES; i++)
        if (nodes->servers[i].pid > 0)
            kill(nodes->servers[i].pid, signal_number);
    while (servers_up(nodes) > 0 && !instant_reached(instant_now(), deadline))
        poll(NULL, 0, LOOK_MS);
    for (unsigned i = 0; i < LOCAL_NODES; i++)
        if (nodes->is_up[i])
            error_set(error, "%s (process %d) does not end; see %s/%s.log", node_names[i], (int)nodes->servers[i].pid,
                      nodes->directory, node_names[i]);
    return servers_up(nodes) == 0;
}

enum exit_code local_nodes_end(bool removes, struct error *error)
{
    struct local_nodes nodes;
    enum exit_code code = nodes_find(&nodes, error);
    bool is_done = code == EXIT_CODE_TEMPORARY; /* there is nothing */
    if (code == EXIT_CODE_OK && turn_take(&nodes, error))
        is_done = servers_end(&nodes, removes ? SIGKILL : SIGTERM, error);
    if (code == EXIT_CODE_OK && is_done && removes && !temporary_directory_remove(nodes.directory))
        is_done = error_set(error, "%s: not everything could be removed: %s", nodes.directory, strerror(errno));
    nodes_close(&nodes);
    return is_done ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}
