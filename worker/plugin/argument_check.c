/* A question has a number, and so has what answers it: an answer to an earlier question (its checker was killed between
 * answering and waiting) is passed over. The checker, or for a dead one the guard, writes the answer into the shared
 * memory first and then sends the number. */
#include "worker/plugin/argument_check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/process.h"

enum { LOOK_MS = 500 };

/* Shared by all three processes. The one that asks writes first, then the one that answers. */
struct question {
    _Atomic uint64_t asked, answered; /* the number of the last */
    size_t handler;                   /* its position among those of the plugins */
    size_t length;
    struct argument_answer answer;
    char args[];
};

struct argument_check {
    const struct plugins *plugins;
    struct question *question;
    size_t size, args_max;
    int64_t limit_ns;
    int asks, answers; /* the ends of a socket: of the worker, and of the two that answer */
    pid_t guard;
    pthread_mutex_t one_at_a_time;
};

/* --- the checker -------------------------------------------------------------------------------------------------- */

static void answer_send(const struct argument_check *check, uint64_t number)
{
    atomic_store(&check->question->answered, number);
    while (send(check->answers, &number, sizeof number, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

static void arguments_judge(const struct argument_check *check)
{
    struct question *question = check->question;
    const struct plugin_handler *handler = plugins_handler_at(check->plugins, question->handler);
    struct argument_answer answer = {.verdict = ARGUMENT_PASSES};
    if (!handler->check(question->args, question->length, answer.reason, sizeof answer.reason))
        answer.verdict = ARGUMENT_REFUSED;
    answer.reason[sizeof answer.reason - 1] = '\0';
    question->answer = answer;
}

/* Dies with its parent, quietly and without a core. */
static void settle(pid_t parent, const char *name)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    prctl(PR_SET_NAME, name);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(1);
}

_Noreturn static void checker_become(const struct argument_check *check, pid_t parent)
{
    uint64_t number;
    settle(parent, "hf-check");
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, STDOUT_FILENO) < 0 || dup2(nothing, STDERR_FILENO) < 0)
        _exit(1);
    for (;;) {
        ssize_t length = recv(check->answers, &number, sizeof number, 0);
        if (length < 0 && errno == EINTR)
            continue;
        if (length != sizeof number)
            _exit(0);
        arguments_judge(check);
        answer_send(check, number);
    }
}

/* --- the guard ---------------------------------------------------------------------------------------------------- */

/* Returns when the checker has ended; true when it was killed because it did not answer in time. */
static bool checker_watch(const struct argument_check *check, pid_t pid)
{
    struct question *question = check->question;
    struct pollfd end = {.fd = process_descriptor(pid), .events = POLLIN};
    uint64_t number = 0;
    struct instant since = instant_now();
    while (end.fd >= 0 && poll(&end, 1, LOOK_MS) <= 0) {
        uint64_t asked = atomic_load(&question->asked);
        if (asked != number || asked == atomic_load(&question->answered)) {
            number = asked;
            since = instant_now();
        } else if (instant_since(since, instant_now()) >= check->limit_ns) {
            kill(pid, SIGKILL);
            close(end.fd);
            return true;
        }
    }
    if (end.fd >= 0)
        close(end.fd);
    return false;
}

/* What the one that has died was asked last has an answer too. */
static void death_answer(const struct argument_check *check, int status, bool was_killed)
{
    struct question *question = check->question;
    uint64_t asked = atomic_load(&question->asked);
    if (asked == atomic_load(&question->answered))
        return;
    question->answer = (struct argument_answer){.verdict = was_killed ? ARGUMENT_HANGS : ARGUMENT_CRASHED,
                                                .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
    answer_send(check, asked);
}

_Noreturn static void guard_become(const struct argument_check *check, pid_t parent)
{
    settle(parent, "hf-check-guard");
    close(check->asks);
    for (;;) {
        int status = 0;
        pid_t own = getpid(), pid = fork();
        if (pid == 0)
            checker_become(check, own);
        if (pid < 0)
            _exit(1);
        bool was_killed = checker_watch(check, pid);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        death_answer(check, status, was_killed);
    }
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

static bool has_checks(const struct plugins *plugins)
{
    for (size_t i = 0; plugins != NULL && i < plugins_handler_count(plugins); i++)
        if (plugins_handler_at(plugins, i)->check != NULL)
            return true;
    return false;
}

static bool handler_find(const struct plugins *plugins, const char *class_name, size_t *position)
{
    const struct plugin_handler *handler = plugins_find(plugins, class_name);
    for (size_t i = 0; handler != NULL && handler->check != NULL && i < plugins_handler_count(plugins); i++)
        if (plugins_handler_at(plugins, i) == handler) {
            *position = i;
            return true;
        }
    return false;
}

/* False when no answer will come any more. */
static bool answer_await(struct argument_check *check, uint64_t number)
{
    uint64_t answered = 0;
    while (send(check->asks, &number, sizeof number, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            return false;
    while (answered != number) {
        ssize_t length = recv(check->asks, &answered, sizeof answered, 0);
        if (length != sizeof answered && !(length < 0 && errno == EINTR))
            return false;
    }
    return true;
}

void argument_check_ask(struct argument_check *check, const char *class_name, const char *args, size_t length,
                        struct argument_answer *answer)
{
    size_t position;
    *answer = (struct argument_answer){.verdict = ARGUMENT_PASSES};
    if (check == NULL || !handler_find(check->plugins, class_name, &position))
        return;
    answer->verdict = ARGUMENT_UNCHECKED;
    if (length > check->args_max)
        return;
    pthread_mutex_lock(&check->one_at_a_time);
    struct question *question = check->question;
    question->handler = position;
    question->length = length;
    if (length > 0)
        memcpy(question->args, args, length);
    uint64_t number = atomic_load(&question->asked) + 1;
    atomic_store(&question->asked, number);
    if (answer_await(check, number))
        *answer = question->answer;
    pthread_mutex_unlock(&check->one_at_a_time);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static bool parts_make(struct argument_check *check)
{
    int ends[2];
    check->size = sizeof *check->question + check->args_max;
    void *shared = mmap(NULL, check->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shared == MAP_FAILED)
        return false;
    check->question = shared;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    check->asks = ends[0];
    check->answers = ends[1];
    pid_t parent = getpid();
    check->guard = fork();
    if (check->guard == 0)
        guard_become(check, parent);
    return check->guard > 0;
}

bool argument_check_start(struct argument_check **check, const struct plugins *plugins, size_t args_max,
                          int64_t limit_ns, struct error *error)
{
    *check = NULL;
    if (!has_checks(plugins))
        return true;
    struct argument_check *made = memory_new(struct argument_check);
    *made = (struct argument_check){.plugins = plugins,
                                    .args_max = args_max,
                                    .limit_ns = limit_ns > 0 ? limit_ns : CHECK_LIMIT_NS,
                                    .asks = -1,
                                    .answers = -1};
    pthread_mutex_init(&made->one_at_a_time, NULL);
    if (!parts_make(made)) {
        error_set(error, "the process that checks arguments cannot be started: %s", strerror(errno));
        argument_check_end(made);
        return false;
    }
    close(made->answers);
    made->answers = -1;
    *check = made;
    return true;
}

void argument_check_end(struct argument_check *check)
{
    if (check == NULL)
        return;
    if (check->guard > 0) {
        kill(check->guard, SIGKILL); /* the checker dies with it */
        while (waitpid(check->guard, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (check->asks >= 0)
        close(check->asks);
    if (check->answers >= 0)
        close(check->answers);
    if (check->question != NULL)
        munmap(check->question, check->size);
    pthread_mutex_destroy(&check->one_at_a_time);
    free(check);
}
