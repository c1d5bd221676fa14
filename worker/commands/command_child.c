#include "worker/commands/command_child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/process.h"

#define PATIENCE_NS (30 * NS_PER_S)

enum { ARGUMENTS_MAX = 32, OUTPUT_MAX = 4 << 20, PIECE = 16 << 10 };

struct output {
    struct command_child *child;
    int fd;
    struct loop_watch *watch;
    struct buffer text;
};

struct command_child {
    struct command_children *children;
    struct list link;
    pid_t pid;
    int pidfd;
    struct loop_watch *watch; /* of its end */
    struct loop_timer limit;
    struct output out, error;
    void (*done)(void *context, int exit_code, struct buffer *out, struct buffer *error);
    void *context;
};

/* The pid still names the child, because nobody has waited for it. */
static void child_kill(struct command_child *child)
{
    kill(child->pid, SIGKILL);
}

static void limit_fire(struct loop_timer *timer)
{
    child_kill(list_owner(timer, struct command_child, limit));
}

static void output_read(struct output *output)
{
    ssize_t count;
    while ((count = read(output->fd, buffer_reserve(&output->text, PIECE), PIECE)) > 0) {
        output->text.length += (size_t)count;
        if (output->text.length > OUTPUT_MAX) {
            buffer_clear(&output->text);
            child_kill(output->child);
        }
    }
    if (count == 0 && output->watch != NULL)
        loop_watch_change(output->watch, 0);
}

static void output_ready(void *context, int events)
{
    (void)events;
    output_read(context);
}

static void output_close(struct output *output)
{
    if (output->watch != NULL)
        loop_watch_stop(output->watch);
    if (output->fd >= 0)
        close(output->fd);
    buffer_fini(&output->text);
}

static void child_free(struct command_child *child)
{
    if (child->watch != NULL)
        loop_watch_stop(child->watch);
    if (child->pidfd >= 0)
        close(child->pidfd);
    loop_timer_clear(child->children->loop, &child->limit);
    output_close(&child->out);
    output_close(&child->error);
    free(child);
}

static void child_end(struct command_child *child, int status)
{
    list_remove(&child->link);
    child->children->count--;
    output_read(&child->out);
    output_read(&child->error);
    child->done(child->context, WIFEXITED(status) ? WEXITSTATUS(status) : -1, &child->out.text, &child->error.text);
    child_free(child);
}

static void ended(void *context, int events)
{
    struct command_child *child = context;
    int status = 0;
    (void)events;
    if (waitpid(child->pid, &status, WNOHANG) == child->pid)
        child_end(child, status);
}

/* Only the child's end of the pipe stays open across exec, as its descriptor `number`. */
static bool output_open(struct command_child *child, struct output *output, int number,
                        posix_spawn_file_actions_t *actions, int *child_end)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *output = (struct output){.child = child, .fd = ends[0]};
    *child_end = ends[1];
    return posix_spawn_file_actions_adddup2(actions, ends[1], number) == 0;
}

static bool child_spawn(struct command_child *child, char *const *argv)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int ends[2] = {-1, -1};
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    bool is_started = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
                      output_open(child, &child->out, STDOUT_FILENO, &actions, &ends[0]) &&
                      output_open(child, &child->error, STDERR_FILENO, &actions, &ends[1]) &&
                      posix_spawn(&child->pid, "/proc/self/exe", &actions, &attributes, argv, environ) == 0;
    for (unsigned i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (is_started)
        child->pidfd = process_descriptor(child->pid);
    if (is_started && child->pidfd < 0) {
        child_kill(child);
        waitpid(child->pid, NULL, 0);
    }
    return is_started && child->pidfd >= 0;
}

void command_children_init(struct command_children *children, struct loop *loop)
{
    *children = (struct command_children){.loop = loop};
    list_init(&children->running);
}

void command_children_end(struct command_children *children)
{
    while (!list_is_empty(&children->running)) {
        struct command_child *child = list_owner(children->running.next, struct command_child, link);
        int status = 0;
        child_kill(child);
        waitpid(child->pid, &status, 0);
        child_end(child, status);
    }
}

bool command_child_start(struct command_children *children, const char *const *arguments,
                         void (*done)(void *context, int exit_code, struct buffer *out, struct buffer *error),
                         void *context)
{
    char *argv[ARGUMENTS_MAX + 2] = {(char *)(uintptr_t) "holdfast"};
    struct command_child *child = memory_new(struct command_child);
    *child = (struct command_child){
        .children = children, .pidfd = -1, .out = {.fd = -1}, .error = {.fd = -1}, .done = done, .context = context};
    loop_timer_init(&child->limit, limit_fire);
    for (unsigned i = 0; arguments[i] != NULL && i < ARGUMENTS_MAX; i++)
        argv[i + 1] = (char *)(uintptr_t)arguments[i];
    if (!child_spawn(child, argv)) {
        child_free(child);
        return false;
    }
    struct loop *loop = children->loop;
    list_init(&child->link);
    list_append(&children->running, &child->link);
    children->count++;
    child->watch = loop_watch_start(loop, child->pidfd, LOOP_READABLE, ended, child);
    child->out.watch = loop_watch_start(loop, child->out.fd, LOOP_READABLE, output_ready, &child->out);
    child->error.watch = loop_watch_start(loop, child->error.fd, LOOP_READABLE, output_ready, &child->error);
    loop_timer_set(loop, &child->limit, instant_after(instant_now(), PATIENCE_NS));
    return true;
}
