/* The child gets "RESULTS N:PATH ...": the descriptor on which it answers, and of each file the descriptor and the
 * name. It answers in records, a letter and a text that ends with NUL: l (it was loaded), e (an error), w (a warning),
 * and . when the file is done. Until the first record of a file it is being loaded; between l and . its descriptor is
 * being read, which an author who forgot the NULL behind the handlers can make crash as well. */
#include "worker/plugin/plugin_vetting.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/plugin/plugin.h"

enum {
    PATIENCE_S = 20, /* a host that starts everything at once is slow */
    RECORD_MAX = 64 * 1024,
    OUTPUT_KEPT = 256,
    OUTPUT_READS_MAX = 20,
    CAUSE_MAX = 2 * LOG_QUOTE_MAX
};

extern char **environ;

/* --- the child -------------------------------------------------------------------------------------------------- */

static void record_write(int results, char kind, const char *text)
{
    size_t length = strlen(text) + 2;
    char *record = memory_zeroed(1, length);
    record[0] = kind;
    memcpy(record + 1, text, length - 2);
    for (size_t sent = 0; sent < length;) {
        ssize_t count = write(results, record + sent, length - sent);
        if (count < 0 && errno != EINTR)
            _exit(1); /* nobody listens any more */
        sent += count > 0 ? (size_t)count : 0;
    }
    free(record);
}

static void loaded_tell(void *context)
{
    record_write(*(int *)context, 'l', "");
}

static void file_vet(int results, int fd, const char *path)
{
    struct findings findings = {0};
    plugin_inspect(fd, path, loaded_tell, &results, &findings);
    for (size_t i = 0; i < findings.count; i++)
        record_write(results, findings.items[i].is_warning ? 'w' : 'e', findings.items[i].text);
    findings_fini(&findings);
    record_write(results, '.', "");
}

_Noreturn void plugin_vetting_serve(int count, char **arguments)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    int results = count > 0 ? (int)strtol(arguments[0], NULL, 10) : -1;
    if (results > 0)
        fcntl(results, F_SETFD, FD_CLOEXEC);
    for (int i = 1; i < count; i++) {
        char *colon = NULL;
        int fd = (int)strtol(arguments[i], &colon, 10);
        if (*colon == ':')
            file_vet(results, fd, colon + 1);
    }
    _exit(0); /* what the plugins want to do at the end is not wanted here */
}

/* --- starting it ------------------------------------------------------------------------------------------------ */

struct vetting {
    struct vetted_file *files; /* that are left */
    size_t count;
    struct findings *findings;
    pid_t child;
    int results, output;
    struct buffer records, printed;
    size_t done;    /* of the files */
    bool is_loaded; /* the one that it is at */
    struct instant deadline;
    enum { VETTING_WELL, VETTING_TOO_LONG, VETTING_NONSENSE } trouble; /* why it is killed */
};

static char **arguments_make(const struct vetting *vetting, int results)
{
    char **arguments = memory_zeroed(vetting->count + 4, sizeof *arguments), number[16];
    arguments[0] = memory_text("holdfast");
    arguments[1] = memory_text(PLUGIN_VETTING_ARGUMENT);
    snprintf(number, sizeof number, "%d", results);
    arguments[2] = memory_text(number);
    for (size_t i = 0; i < vetting->count; i++) {
        struct buffer text = {0};
        buffer_format(&text, "%d:%s", vetting->files[i].fd, vetting->files[i].path);
        arguments[i + 3] = memory_text(buffer_text(&text));
        buffer_fini(&text);
    }
    return arguments;
}

static void arguments_free(char **arguments)
{
    for (char **argument = arguments; *argument != NULL; argument++)
        free(*argument);
    free(arguments);
}

/* A descriptor that is duplicated onto itself is open in the child, and nowhere else. */
static int child_spawn(struct vetting *vetting, int results, int output)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, results, results);
    for (size_t i = 0; i < vetting->count; i++)
        posix_spawn_file_actions_adddup2(&actions, vetting->files[i].fd, vetting->files[i].fd);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    char **arguments = arguments_make(vetting, results);
    int status = posix_spawn(&vetting->child, "/proc/self/exe", &actions, &attributes, arguments, environ);
    arguments_free(arguments);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return status;
}

static bool pipes_open(int results[2], int output[2])
{
    if (pipe2(results, O_CLOEXEC) != 0)
        return false;
    if (pipe2(output, O_CLOEXEC) == 0 && fcntl(output[0], F_SETFL, O_NONBLOCK) == 0)
        return true;
    int cause = errno;
    close(results[0]);
    close(results[1]);
    errno = cause;
    return false;
}

static bool child_start(struct vetting *vetting)
{
    int results[2], output[2];
    if (!pipes_open(results, output))
        return false;
    int status = child_spawn(vetting, results[1], output[1]);
    close(results[1]);
    close(output[1]);
    vetting->results = results[0];
    vetting->output = output[0];
    vetting->deadline = instant_after(instant_now(), PATIENCE_S * NS_PER_S);
    if (status == 0)
        return true;
    close(results[0]);
    close(output[0]);
    errno = status;
    return false;
}

/* --- listening to it -------------------------------------------------------------------------------------------- */

static void record_take(struct vetting *vetting, char kind, const char *text)
{
    struct vetted_file *file = &vetting->files[vetting->done];
    if (kind == 'l') {
        vetting->is_loaded = true;
    } else if (kind == 'e') {
        file->is_refused = true;
        findings_error(vetting->findings, "%s", text);
    } else if (kind == 'w') {
        findings_warn(vetting->findings, "%s", text);
    } else {
        vetting->done++;
        vetting->is_loaded = false;
        vetting->deadline = instant_after(instant_now(), PATIENCE_S * NS_PER_S);
    }
}

static void records_take(struct vetting *vetting)
{
    struct buffer *records = &vetting->records;
    for (char *end; records->length > 0 && (end = memchr(records->bytes, '\0', records->length)) != NULL;) {
        if (vetting->done < vetting->count)
            record_take(vetting, records->bytes[0], end > records->bytes ? records->bytes + 1 : "");
        buffer_drop_front(records, (size_t)(end - records->bytes) + 1);
    }
    if (records->length > RECORD_MAX)
        vetting->trouble = VETTING_NONSENSE;
}

/* Only the end of it is of interest. */
static void output_take(struct vetting *vetting)
{
    char bytes[4096];
    ssize_t count = read(vetting->output, bytes, sizeof bytes);
    if (count > 0)
        buffer_append(&vetting->printed, bytes, (size_t)count);
    else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        close(vetting->output);
        vetting->output = -1;
    }
    if (vetting->printed.length > OUTPUT_KEPT)
        buffer_drop_front(&vetting->printed, vetting->printed.length - OUTPUT_KEPT);
}

/* False at the end of what it has to say. */
static bool results_take(struct vetting *vetting)
{
    char bytes[4096];
    ssize_t count = read(vetting->results, bytes, sizeof bytes);
    if (count > 0)
        buffer_append(&vetting->records, bytes, (size_t)count);
    records_take(vetting);
    return count > 0 || (count < 0 && errno == EINTR);
}

static void child_listen(struct vetting *vetting)
{
    while (vetting->trouble == VETTING_WELL && vetting->done < vetting->count) {
        int64_t left = instant_since(instant_now(), vetting->deadline);
        if (left <= 0) {
            vetting->trouble = VETTING_TOO_LONG;
            return;
        }
        struct pollfd ready[] = {{.fd = vetting->results, .events = POLLIN}, {.fd = vetting->output, .events = POLLIN}};
        if (poll(ready, 2, (int)(left / NS_PER_MS) + 1) <= 0)
            continue;
        if (ready[1].revents != 0)
            output_take(vetting);
        if (ready[0].revents != 0 && !results_take(vetting))
            return;
    }
}

/* Whether it has ended. It stays a zombie, so that its process group is still its own. */
static bool child_has_ended(const struct vetting *vetting)
{
    siginfo_t end = {.si_pid = 0};
    return waitid(P_PID, (id_t)vetting->child, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid != 0;
}

/* When it has said all it ends by itself, but nobody waits for that for longer than for an answer. */
static int child_reap(struct vetting *vetting)
{
    int status = 0;
    while (vetting->trouble == VETTING_WELL && !child_has_ended(vetting)) {
        if (instant_reached(instant_now(), vetting->deadline))
            vetting->trouble = VETTING_TOO_LONG;
        else
            poll(NULL, 0, 1);
    }
    kill(-vetting->child, SIGKILL); /* and what it has started */
    while (waitpid(vetting->child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* --- judging ---------------------------------------------------------------------------------------------------- */

static void end_name(int status, char *cause, size_t size)
{
    if (WIFSIGNALED(status))
        snprintf(cause, size, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(cause, size, "the process ended with status %d", WEXITSTATUS(status));
}

/* "; it said: ..." with the last line that it printed, "" when it printed none. */
static const char *output_name(struct vetting *vetting, char *text, size_t size)
{
    char quoted[LOG_QUOTE_MAX];
    for (unsigned i = 0; i < OUTPUT_READS_MAX && vetting->output >= 0; i++)
        output_take(vetting);
    char *all = memory_text(buffer_text(&vetting->printed)), *line;
    for (size_t length = strlen(all); length > 0 && all[length - 1] == '\n'; length--)
        all[length - 1] = '\0';
    line = strrchr(all, '\n') != NULL ? strrchr(all, '\n') + 1 : all;
    if (line[0] == '\0')
        text[0] = '\0';
    else
        snprintf(text, size, "; it said: %s", log_quote(line, quoted));
    free(all);
    return text;
}

static void dead_refuse(struct vetting *vetting, int status)
{
    struct vetted_file *file = &vetting->files[vetting->done];
    char cause[128], said[CAUSE_MAX];
    output_name(vetting, said, sizeof said);
    end_name(status, cause, sizeof cause);
    file->is_refused = true;
    if (vetting->trouble == VETTING_NONSENSE)
        findings_error(vetting->findings, "%s: its constructor wrote to a descriptor that is not its own%s", file->path,
                       said);
    else if (vetting->trouble == VETTING_TOO_LONG)
        findings_error(vetting->findings, "%s: did not load within %d s: a constructor of it hangs%s", file->path,
                       PATIENCE_S, said);
    else if (vetting->is_loaded)
        findings_error(vetting->findings,
                       "%s: its descriptor crashes who reads it: %s; is it complete, and does the list of handlers end "
                       "with NULL?%s",
                       file->path, cause, said);
    else
        findings_error(vetting->findings, "%s: its constructor %s: %s%s", file->path,
                       WIFSIGNALED(status) ? "crashed" : "did not return", cause, said);
}

/* With one child. The first of the files that it did not get to. */
static size_t files_vet(struct vetting *vetting)
{
    if (!child_start(vetting)) {
        findings_error(vetting->findings, "%s: cannot be vetted, as no process can be started for it: %s",
                       vetting->files[0].path, strerror(errno));
        vetting->files[0].is_refused = true;
        return 1;
    }
    child_listen(vetting);
    int status = child_reap(vetting);
    if (vetting->done < vetting->count)
        dead_refuse(vetting, status);
    if (vetting->output >= 0)
        close(vetting->output);
    close(vetting->results);
    buffer_fini(&vetting->records);
    buffer_fini(&vetting->printed);
    return vetting->done + 1;
}

void plugin_vetting_run(struct vetted_file *files, size_t count, struct findings *findings)
{
    for (size_t next = 0; next < count;) {
        struct vetting vetting = {.files = files + next, .count = count - next, .findings = findings};
        next += files_vet(&vetting);
    }
}
