/* A handler that does what no handler should, and one that minds its own business, for tests of whole workers.
 * Settings: journal, the file to append to, and directory, where it may put files.
 *
 * Class hostile: [ACT, "once"]; the acts are below. It appends "begin JID" before. With "once" it is harmless when the
 * same task comes again. Class endless is the same handler, for other settings. Class tame: appends "begin JID" and
 * "end JID", in between it works for the milliseconds of its first argument. */
#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/kit.h"

struct hostile {
    struct kit kit;
    const char *journal, *directory;
};

static void note(const struct hostile *hostile, const char *what, const hf_job *job)
{
    char line[200];
    int length = snprintf(line, sizeof line, "%s %s\n", what, hostile->kit.job->jid(job));
    int file = open(hostile->journal, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || write(file, line, (size_t)length) != length)
        abort();
    close(file);
}

/* --- ends ------------------------------------------------------------------------------------------------------- */

/* A real one: raise() does nothing in a thread that blocks signals. */
static int segfaults(struct hostile *hostile, hf_job *job)
{
    (void)hostile, (void)job;
    char *forbidden = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    forbidden[0] = 1;
    return HF_OK;
}

static int aborts(struct hostile *hostile, hf_job *job)
{
    (void)hostile, (void)job;
    abort();
}

static int exits(struct hostile *hostile, hf_job *job)
{
    (void)hostile, (void)job;
    exit(3);
}

/* `throw 0;` as a compiler of C++ writes it. */
static int throws(struct hostile *hostile, hf_job *job)
{
    (void)hostile, (void)job;
    void *library = dlopen("libstdc++.so.6", RTLD_NOW);
    void *(*allocate)(size_t) = library != NULL ? (void *(*)(size_t))dlsym(library, "__cxa_allocate_exception") : NULL;
    void (*throw)(void *, void *, void (*)(void *)) =
        library != NULL ? (void (*)(void *, void *, void (*)(void *)))dlsym(library, "__cxa_throw") : NULL;
    if (allocate == NULL || throw == NULL)
        return HF_DISCARD;
    throw(allocate(sizeof(int)), dlsym(library, "_ZTIi"), NULL);
    return HF_OK;
}

static int blocks(struct hostile *hostile, hf_job *job)
{
    (void)hostile, (void)job;
    sigset_t all;
    sigfillset(&all);
    return pthread_sigmask(SIG_SETMASK, &all, NULL) == 0 ? HF_OK : HF_FAIL;
}

static int loops(struct hostile *hostile, hf_job *job)
{
    blocks(hostile, job);
    for (volatile int goes_on = 1; goes_on;)
        ;
    return HF_OK;
}

/* --- what is left behind ---------------------------------------------------------------------------------------- */

/* Never freed, but a chain, so that a leak checker has nothing to say. */
static int leaks(struct hostile *hostile, hf_job *job)
{
    enum { BYTES = 48 << 20 };
    static void *volatile leaked;
    (void)hostile, (void)job;
    void **block = malloc(BYTES);
    if (block == NULL)
        return HF_FAIL;
    memset(block, 1, BYTES);
    *block = leaked;
    leaked = block;
    return HF_OK;
}

static int closes(struct hostile *hostile, hf_job *job)
{
    (void)hostile, (void)job;
    close_range(0, ~0U, 0);
    return HF_OK;
}

/* One child comes back from the handler, one stays, one stays and leaves the process group. */
static int forks(struct hostile *hostile, hf_job *job)
{
    (void)hostile, (void)job;
    pid_t child = fork();
    if (child == 0)
        return HF_FAIL;
    for (int i = 0; i < 2 && child > 0; i++) {
        child = fork();
        if (child == 0 && i == 1)
            setsid();
        while (child == 0)
            pause();
    }
    return child > 0 ? HF_OK : HF_FAIL;
}

/* As it has to be done in a process with threads. */
static int forks_and_waits(struct hostile *hostile, hf_job *job)
{
    (void)hostile, (void)job;
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    return child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7 ? HF_OK : HF_FAIL;
}

/* The locale may be one with a decimal comma; not every machine has it. */
static int wanders(struct hostile *hostile, hf_job *job)
{
    (void)job;
    umask(0);
    bool has_locale = setlocale(LC_ALL, "de_DE.UTF-8") != NULL || setlocale(LC_ALL, "C.UTF-8") != NULL ||
                      setlocale(LC_ALL, "POSIX") != NULL;
    return has_locale && chdir(hostile->directory) == 0 ? HF_OK : HF_FAIL;
}

/* --- what it says ----------------------------------------------------------------------------------------------- */

static int prints(struct hostile *hostile, hf_job *job)
{
    (void)hostile, (void)job;
    printf("hostile words\n");
    fflush(stdout);
    return HF_OK;
}

/* A gigabyte. */
static int floods(struct hostile *hostile, hf_job *job)
{
    static char block[1 << 16];
    (void)hostile, (void)job;
    memset(block, 'x', sizeof block);
    block[100] = '\n';
    for (int i = 0; i < 1 << 14; i++)
        for (size_t done = 0; done < sizeof block;) {
            ssize_t wrote = write(i % 2 == 0 ? STDOUT_FILENO : STDERR_FILENO, block + done, sizeof block - done);
            if (wrote < 0)
                return HF_FAIL;
            done += (size_t)wrote;
        }
    return HF_OK;
}

/* --- the lock --------------------------------------------------------------------------------------------------- */

static int returns_late(struct hostile *hostile, hf_job *job)
{
    struct pollfd lost = {.fd = hostile->kit.lock->descriptor(job), .events = POLLIN};
    while (!hostile->kit.cancel->cancelled(job))
        poll(&lost, 1, 1000);
    return hostile->kit.cancel->cancelled(job) == HF_LOCK_LOST ? HF_OK : HF_BURY;
}

/* --- the plugin ------------------------------------------------------------------------------------------------- */

/* Whether the task says so, and this is not its first run. */
static bool was_here(const struct hostile *hostile, hf_job *job)
{
    char path[600];
    const char *once = NULL;
    if (!hostile->kit.job->arg_text(job, 1, &once))
        return false;
    snprintf(path, sizeof path, "%s/%s.once", hostile->directory, hostile->kit.job->jid(job));
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0)
        close(file);
    return file < 0;
}

static int run_hostile(hf_job *job, void *state)
{
    static const struct {
        const char *name;
        int (*act)(struct hostile *hostile, hf_job *job);
    } acts[] = {{"segv", segfaults},
                {"abort", aborts},
                {"exit", exits},
                {"throw", throws},
                {"loop", loops},
                {"leak", leaks},
                {"block", blocks},
                {"close", closes},
                {"fork", forks},
                {"flood", floods},
                {"child", forks_and_waits},
                {"print", prints},
                {"wander", wanders},
                {"late", returns_late}};
    struct hostile *hostile = state;
    const char *name = "";
    if (!hostile->kit.job->arg_text(job, 0, &name))
        return HF_BURY;
    if (was_here(hostile, job))
        return HF_OK;
    note(hostile, "begin", job);
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        if (strcmp(acts[i].name, name) == 0)
            return acts[i].act(hostile, job);
    return HF_BURY;
}

static int run_tame(hf_job *job, void *state)
{
    const struct hostile *hostile = state;
    int64_t ms = 0;
    hostile->kit.job->arg_integer(job, 0, &ms);
    note(hostile, "begin", job);
    poll(NULL, 0, (int)ms);
    note(hostile, "end", job);
    return HF_OK;
}

static int open_hostile(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    struct hostile *hostile = kit_state(sizeof *hostile, host, reason, reason_size);
    if (hostile == NULL)
        return 1;
    hostile->journal = kit_setting(host, "journal", "journal");
    hostile->directory = kit_setting(host, "directory", ".");
    *state = hostile;
    return 0;
}

static const hf_handler hostile_handler = {.size = sizeof hostile_handler, .name = "hostile", .run = run_hostile};
static const hf_handler endless_handler = {.size = sizeof endless_handler, .name = "endless", .run = run_hostile};
static const hf_handler tame_handler = {.size = sizeof tame_handler, .name = "tame", .run = run_tame};
static const hf_handler *const handlers[] = {&hostile_handler, &endless_handler, &tame_handler, NULL};

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("hostile", "1.0"), .open = open_hostile, .close = free,
                                             .handlers = handlers};
