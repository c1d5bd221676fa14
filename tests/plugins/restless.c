/* A handler that does to its process what handlers should not, as its first argument says. With a setting `opening` the
 * plugin refuses to open, crashes, exits or hangs there; `farewell` is a file that close() makes. */
#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/kit.h"

struct restless {
    struct kit kit;
    const hf_push_api *push;
    const hf_checkpoint_api *checkpoint;
    const char *farewell;
    unsigned runs;
};

/* --- ends --------------------------------------------------------------------------------------------------------- */

static int segv(struct restless *restless, hf_job *job)
{
    (void)restless;
    (void)job;
    raise(SIGSEGV);
    return HF_OK;
}

static int writes_nowhere(struct restless *restless, hf_job *job)
{
    (void)restless;
    (void)job;
    volatile uintptr_t nowhere = 4096; /* NULL a sanitizer would see in time */
    *(volatile int *)nowhere = 1;
    return HF_OK;
}

/* Until the stack is used up. */
static int goes_deep(struct restless *restless, hf_job *job)
{
    static volatile int goes_on = 1;
    volatile char room[4096];
    room[0] = goes_on && goes_deep(restless, job) == HF_OK;
    return room[0];
}

static int aborts(struct restless *restless, hf_job *job)
{
    (void)restless;
    (void)job;
    abort();
}

static int exits(struct restless *restless, hf_job *job)
{
    int64_t status = 0;
    restless->kit.job->arg_integer(job, 1, &status);
    exit((int)status);
}

static int exits_quickly(struct restless *restless, hf_job *job)
{
    (void)restless;
    (void)job;
    quick_exit(0);
}

static int exits_at_once(struct restless *restless, hf_job *job)
{
    (void)restless;
    (void)job;
    _exit(0);
}

/* As compiled C++ does it; there is no compiler for it here. */
static int throws(struct restless *restless, hf_job *job)
{
    (void)restless;
    (void)job;
    void *library = dlopen("libstdc++.so.6", RTLD_NOW);
    void *(*allocate)(size_t) = library != NULL ? (void *(*)(size_t))dlsym(library, "__cxa_allocate_exception") : NULL;
    void (*throw)(void *, void *, void (*)(void *)) =
        library != NULL ? (void (*)(void *, void *, void (*)(void *)))dlsym(library, "__cxa_throw") : NULL;
    if (allocate == NULL || throw == NULL)
        return HF_DISCARD;
    throw(allocate(sizeof(int)), dlsym(library, "_ZTIi"), NULL);
    return HF_OK;
}

static int loops(struct restless *restless, hf_job *job)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    (void)restless->kit.report->progress(job, "{\"loops\":1}");
    for (volatile int goes_on = 1; goes_on;)
        ;
    return HF_OK;
}

static int listens(struct restless *restless, hf_job *job)
{
    while (!restless->kit.cancel->cancelled(job))
        usleep(1000);
    return HF_CANCELLED;
}

/* --- what is left behind ------------------------------------------------------------------------------------------ */

static int leaks(struct restless *restless, hf_job *job)
{
    int64_t bytes = 0;
    restless->kit.job->arg_integer(job, 1, &bytes);
    volatile char *leaked = malloc((size_t)bytes);
    if (leaked == NULL)
        return HF_BURY;
    for (int64_t i = 0; i < bytes; i += 1024)
        leaked[i] = 1;
    return HF_OK;
}

static int closes(struct restless *restless, hf_job *job)
{
    (void)restless;
    (void)job;
    for (int descriptor = 3; descriptor < 128; descriptor++)
        close(descriptor);
    return HF_OK;
}

static int closes_all(struct restless *restless, hf_job *job)
{
    (void)restless;
    (void)job;
    close_range(0, ~0U, 0);
    return HF_OK;
}

/* All it finds is another socket from now on, which takes what is written to it. */
static int replaces_sockets(struct restless *restless, hf_job *job)
{
    (void)restless;
    (void)job;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return HF_BURY;
    for (int descriptor = 3; descriptor < 1024; descriptor++)
        if (descriptor != pair[0] && descriptor != pair[1] && fcntl(descriptor, F_GETFD) != -1)
            dup2(pair[0], descriptor);
    return HF_OK;
}

/* The next file that is opened has the number of the socket. */
static int replaces_all(struct restless *restless, hf_job *job)
{
    const char *path = NULL;
    restless->kit.job->arg_text(job, 1, &path);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (int descriptor = 0; descriptor < 1024; descriptor++)
        if (descriptor != file && fcntl(descriptor, F_GETFD) != -1)
            dup2(file, descriptor);
    return HF_OK;
}

/* Both return. */
static int forks(struct restless *restless, hf_job *job)
{
    if (fork() == 0)
        restless->kit.job->log(job, HF_LOG_INFO, "nobody hears this");
    return HF_OK;
}

static int upsets(struct restless *restless, hf_job *job)
{
    (void)restless;
    (void)job;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    umask(0);
    alarm(1);
    if (chdir("/tmp") != 0 || (setlocale(LC_ALL, "C.UTF-8") == NULL && setlocale(LC_ALL, "POSIX") == NULL))
        return HF_FAIL;
    return HF_OK;
}

static int tells_surroundings(struct restless *restless, hf_job *job)
{
    char directory[4096] = "", text[8192];
    sigset_t blocked;
    mode_t mask = umask(0);
    umask(mask);
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    snprintf(text, sizeof text, "{\"directory\":\"%s\",\"umask\":%o,\"blocked\":%d,\"locale\":\"%s\",\"alarm\":%u}",
             getcwd(directory, sizeof directory) != NULL ? directory : "?", (unsigned)mask,
             sigismember(&blocked, SIGUSR1), setlocale(LC_ALL, NULL), alarm(0));
    return restless->kit.report->result(job, text) ? HF_OK : HF_FAIL;
}

/* --- what it says ------------------------------------------------------------------------------------------------- */

static int prints(struct restless *restless, hf_job *job)
{
    int64_t lines = 0;
    restless->kit.job->arg_integer(job, 1, &lines);
    for (int64_t i = 0; i < lines; i++)
        printf("line %lld\n", (long long)i);
    printf("no end of line");
    return HF_OK;
}

/* As a gigabyte would be: far more than is read of it. */
static int floods(struct restless *restless, hf_job *job)
{
    static char block[1 << 16];
    int64_t blocks = 0;
    restless->kit.job->arg_integer(job, 1, &blocks);
    memset(block, 'x', sizeof block);
    for (int64_t i = 0; i < blocks; i++) {
        block[i % (int64_t)sizeof block] = '\n';
        if (write(i % 2 == 0 ? STDOUT_FILENO : STDERR_FILENO, block, sizeof block) < 0)
            return HF_FAIL;
    }
    return HF_OK;
}

/* Bytes on every socket that it can find: what the worker reads there is not what it expects. */
static int babbles(struct restless *restless, hf_job *job)
{
    (void)restless;
    (void)job;
    static const char nonsense[] = "GET / HTTP/1.1\r\n\r\n";
    for (int descriptor = 3; descriptor < 1024; descriptor++) {
        struct stat facts;
        if (fstat(descriptor, &facts) == 0 && S_ISSOCK(facts.st_mode))
            (void)!write(descriptor, nonsense, sizeof nonsense - 1);
    }
    return HF_OK;
}

static int talks(struct restless *restless, hf_job *job)
{
    const struct kit *kit = &restless->kit;
    const hf_field fields[] = {{"colour", "blue"}};
    char reason[128];
    kit->job->log(job, HF_LOG_WARN, "said %d", 1);
    kit->job->log(job, HF_LOG_DEBUG, "not heard");
    kit->job->event(job, HF_LOG_INFO, "painted", fields, 1);
    int took = kit->report->progress(job, "{\"done\":1}") && kit->report->result(job, "{\"ok\":true}") &&
               restless->push->add(job, "{\"class\":\"next\",\"args\":[]}", reason, sizeof reason);
    return took && !kit->report->progress(job, "{no json") ? HF_OK : HF_BURY;
}

struct crowd {
    struct restless *restless;
    hf_job *job;
};

static void *crowd_talks(void *argument)
{
    const struct crowd *crowd = argument;
    const struct kit *kit = &crowd->restless->kit;
    for (int i = 0; i < 100; i++) {
        kit->job->log(crowd->job, HF_LOG_INFO, "one of many");
        kit->report->progress(crowd->job, "{\"one\":\"of many\"}");
        if (!kit->lock->verify(crowd->job))
            return argument;
    }
    return NULL;
}

/* On many threads at once. */
static int crowds(struct restless *restless, hf_job *job)
{
    struct crowd crowd = {restless, job};
    pthread_t threads[4];
    int code = HF_OK;
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, crowd_talks, &crowd) != 0)
            return HF_BURY;
    for (int i = 0; i < 4; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        if (failed != NULL)
            code = HF_DISCARD;
    }
    return code;
}

static int fails(struct restless *restless, hf_job *job)
{
    restless->kit.report->retry_in(job, 7000);
    restless->kit.job->error(job, "Restless::Tired", "it is %s", "late");
    return HF_FAIL;
}

/* Its facts, as a result. */
static int tells(struct restless *restless, hf_job *job)
{
    const struct kit *kit = &restless->kit;
    char text[2048];
    const char *const *names = NULL;
    size_t length = 0;
    unsigned count = kit->lock->resources(job, &names);
    const char *checkpoint = restless->checkpoint->load(job);
    kit->job->args(job, &length);
    snprintf(
        text, sizeof text,
        "{\"pid\":%ld,\"runs\":%u,\"jid\":\"%s\",\"class\":\"%s\",\"queue\":\"%s\",\"attempt\":%u,\"fence\":\"%s\","
        "\"resources\":%u,\"first\":\"%s\",\"checkpoint\":%s,\"length\":%zu,\"valid\":%d}",
        (long)getpid(), ++restless->runs, kit->job->jid(job), kit->job->class_name(job), kit->job->queue(job),
        kit->job->attempt(job), kit->lock->fence(job, 0), count, count > 0 ? names[0] : "",
        checkpoint != NULL ? checkpoint : "null", length, kit->lock->valid_for_ms(job) > 0);
    return kit->report->result(job, text) ? HF_OK : HF_FAIL;
}

static int verifies(struct restless *restless, hf_job *job)
{
    return restless->kit.lock->verify(job) ? HF_OK : HF_DISCARD;
}

/* Until its descriptor says that the lock is lost. */
static int polls(struct restless *restless, hf_job *job)
{
    const hf_lock_api *lock = restless->kit.lock;
    struct pollfd wanted = {.fd = lock->descriptor(job), .events = POLLIN};
    if (wanted.fd < 0 || wanted.fd != lock->descriptor(job))
        return HF_BURY;
    return poll(&wanted, 1, 30000) == 1 ? HF_DISCARD : HF_FAIL;
}

/* Any number, as its own verdict. */
static int answers(struct restless *restless, hf_job *job)
{
    int64_t code = 0;
    restless->kit.job->arg_integer(job, 1, &code);
    return (int)code;
}

/* Asks whether its lock is held, a million times, and reads no answer. */
static int pesters(struct restless *restless, hf_job *job)
{
    (void)restless;
    (void)job;
    static const char question[] = {8, 0, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0};
    static char questions[1000 * sizeof question];
    for (size_t i = 0; i < 1000; i++)
        memcpy(questions + i * sizeof question, question, sizeof question);
    for (int descriptor = 3; descriptor < 1024; descriptor++) {
        struct stat facts;
        int is_socket = fstat(descriptor, &facts) == 0 && S_ISSOCK(facts.st_mode);
        for (int i = 0; is_socket && i < 1000; i++)
            (void)!write(descriptor, questions, sizeof questions);
    }
    return HF_OK;
}

/* Memory that is shared with the worker, and writable. */
static int finds_the_run_table(struct restless *restless, hf_job *job)
{
    (void)restless;
    (void)job;
    char line[1024];
    int code = HF_OK;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, " rw-s ") != NULL && strstr(line, "/dev/zero") != NULL)
            code = HF_BURY;
    if (maps != NULL)
        fclose(maps);
    return maps != NULL ? code : HF_FAIL;
}

static int nothing(struct restless *restless, hf_job *job)
{
    (void)restless;
    (void)job;
    return HF_OK;
}

/* --- the plugin --------------------------------------------------------------------------------------------------- */

static int run(hf_job *job, void *state)
{
    static const struct {
        const char *name;
        int (*act)(struct restless *restless, hf_job *job);
    } acts[] = {{"segv", segv},
                {"nowhere", writes_nowhere},
                {"deep", goes_deep},
                {"abort", aborts},
                {"exit", exits},
                {"quick_exit", exits_quickly},
                {"_exit", exits_at_once},
                {"throw", throws},
                {"loop", loops},
                {"listen", listens},
                {"leak", leaks},
                {"close", closes},
                {"close_all", closes_all},
                {"replace_all", replaces_all},
                {"replace_sockets", replaces_sockets},
                {"fork", forks},
                {"upset", upsets},
                {"surroundings", tells_surroundings},
                {"print", prints},
                {"flood", floods},
                {"crowd", crowds},
                {"babble", babbles},
                {"talk", talks},
                {"fail", fails},
                {"tell", tells},
                {"verify", verifies},
                {"poll", polls},
                {"answer", answers},
                {"pester", pesters},
                {"board", finds_the_run_table},
                {"ok", nothing}};
    struct restless *restless = state;
    const char *name = "";
    if (!restless->kit.job->arg_text(job, 0, &name))
        return HF_BURY;
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        if (strcmp(acts[i].name, name) == 0)
            return acts[i].act(restless, job);
    return HF_BURY;
}

static int check(const char *args, size_t length, char *reason, size_t reason_size)
{
    if (length > 2)
        return 1;
    snprintf(reason, reason_size, "%.*s says nothing", (int)length, args);
    return 0;
}

static int open_restless(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    const char *opening = host->setting(host, "opening");
    struct restless *restless = kit_state(sizeof *restless, host, reason, reason_size);
    if (restless == NULL)
        return 1;
    *state = restless;
    restless->push = host->api("push", 1);
    restless->checkpoint = host->api("checkpoint", 1);
    restless->farewell = host->setting(host, "farewell");
    if (opening == NULL)
        return 0;
    if (strcmp(opening, "crash") == 0)
        abort();
    if (strcmp(opening, "exit") == 0)
        exit(0);
    if (strcmp(opening, "hang") == 0)
        fputs("opening hangs\n", stderr);
    while (strcmp(opening, "hang") == 0)
        pause();
    snprintf(reason, reason_size, "it is closed on %s", opening);
    free(restless);
    return 1;
}

static void close_restless(void *state)
{
    struct restless *restless = state;
    while (restless->farewell != NULL && strcmp(restless->farewell, "hang") == 0)
        pause();
    int file = restless->farewell != NULL ? open(restless->farewell, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file >= 0)
        close(file);
    free(restless);
}

static const hf_handler restless = {
    .size = sizeof restless, .name = "restless", .flags = HF_PROGRESS, .run = run, .check = check};
static const hf_handler restless_once = {
    .size = sizeof restless_once, .name = "restless_once", .flags = HF_AT_MOST_ONCE, .run = run, .check = check};
static const hf_handler *const handlers[] = {&restless, &restless_once, NULL};
HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("restless", "1.0"), .open = open_restless,
                                             .close = close_restless, .handlers = handlers};
