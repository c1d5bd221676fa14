#include "tests/support/launcher_fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "tests/support/loop_until.h"
#include "tests/support/one_loop.h"
#include "tests/support/test.h"

struct run_table *run_table;
struct zygote zygote;
struct launcher *launcher;
unsigned times_lost;

static void zygote_was_lost(void *context)
{
    (void)context;
    times_lost++;
}

int launcher_set_up(void **state)
{
    struct error error = ERROR_NONE;
    struct zygote_options options = {.runner = fixture_runner, .log = {.level = LOG_WARN, .fd = STDERR_FILENO}};
    times_lost = 0;
    run_table = options.run_table = run_table_create(FIXTURE_RUN_ENTRIES);
    if (run_table == NULL || !zygote_start(&zygote, &options, &error) || one_loop_set_up(state) != 0)
        return -1;
    launcher = launcher_create(loop, &zygote, run_table, zygote_was_lost, NULL);
    return 0;
}

void launcher_stop(void)
{
    launcher_destroy(launcher);
    launcher = NULL;
}

int launcher_tear_down(void **state)
{
    launcher_stop();
    run_table_destroy(run_table);
    return one_loop_tear_down(state);
}

/* --- runner processes --------------------------------------------------------------------------------------------- */

static int runner_obey(const char *word)
{
    if (strcmp(word, "crash") == 0)
        abort();
    if (strcmp(word, "hang") == 0) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        for (;;)
            pause();
    }
    return (int)strtol(word, NULL, 10);
}

static void daemon_begin(int socket)
{
    if (fork() != 0)
        return;
    setsid();
    dprintf(socket, "%d", (int)getpid());
    for (;;)
        pause();
}

int fixture_runner(struct run_table *shared, int socket, const void *context)
{
    (void)context;
    (void)shared;
    char word[64];
    ssize_t length;
    while ((length = read(socket, word, sizeof word - 1)) > 0) {
        word[length] = '\0';
        if (strcmp(word, "crash") == 0 || strcmp(word, "hang") == 0 || (word[0] >= '0' && word[0] <= '9'))
            return runner_obey(word);
        if (strcmp(word, "daemon") == 0)
            daemon_begin(socket);
        else if (write(socket, word, (size_t)length) != length)
            return 1;
    }
    return 0;
}

/* --- kids --------------------------------------------------------------------------------------------------------- */

static void kid_spawned(struct child *child, pid_t pid, int failure)
{
    struct kid *kid = list_owner(child, struct kid, child);
    assert_false(kid->was_spawned);
    kid->was_spawned = true;
    kid->pid = pid;
    kid->failure = failure;
}

static void kid_exited(struct child *child, const struct child_exit *end)
{
    struct kid *kid = list_owner(child, struct kid, child);
    assert_true(kid->was_spawned && kid->failure == 0 && !kid->has_exited);
    kid->has_exited = true;
    kid->end = *end;
}

void kid_init(struct kid *kid)
{
    *kid = (struct kid){.pid = 0};
    child_init(&kid->child, kid_spawned, kid_exited);
}

void kid_start_plan(struct kid *kid, const struct child_plan *plan)
{
    kid_init(kid);
    launcher_spawn(launcher, &kid->child, plan);
}

void kid_start(struct kid *kid, int output, const char *const *arguments)
{
    struct child_plan plan = {
        .kind = CHILD_PROGRAM, .descriptors = {-1, output, -1}, .descriptor_count = 3, .arguments = arguments};
    kid_start_plan(kid, &plan);
}

int kid_start_runner(struct kid *kid, const struct child_plan *limits)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    struct child_plan plan = {.kind = CHILD_RUNNER, .descriptors = {-1, -1, -1, ends[1]}, .descriptor_count = 4};
    if (limits != NULL) {
        plan.memory_bytes = limits->memory_bytes;
        plan.open_files = limits->open_files;
    }
    kid_start_plan(kid, &plan);
    close(ends[1]);
    return ends[0];
}

void launcher_until(bool (*condition)(void *context), void *context)
{
    assert_true(loop_until(loop, condition, context, TEST_PATIENCE_NS));
}

static bool kid_was_spawned(void *context)
{
    return ((struct kid *)context)->was_spawned;
}

static bool kid_has_exited(void *context)
{
    return ((struct kid *)context)->has_exited;
}

void kid_await_birth(struct kid *kid)
{
    launcher_until(kid_was_spawned, kid);
}

int kid_await_end(struct kid *kid)
{
    launcher_until(kid_has_exited, kid);
    return kid->end.wait_status;
}

const char *script_output(const char *script, const char *const *environment)
{
    static char text[4096];
    int file = memfd_create("output", MFD_CLOEXEC);
    const char *const arguments[] = {"/bin/sh", "-c", script, NULL};
    struct child_plan plan = {.kind = CHILD_PROGRAM,
                              .descriptors = {-1, file, file},
                              .descriptor_count = 3,
                              .arguments = arguments,
                              .environment = environment};
    struct kid kid;
    kid_start_plan(&kid, &plan);
    int status = kid_await_end(&kid);
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    if (status != 0)
        fail_msg("the script ended with status %d: %s", status, text);
    return text;
}

/* --- families ----------------------------------------------------------------------------------------------------- */

pid_t number_at(int file, int place)
{
    char text[128] = "", *at = text;
    if (pread(file, text, sizeof text - 1, 0) < 0)
        return 0;
    for (int i = 0; i < place; i++) {
        at = strchr(at, '\n');
        if (at == NULL)
            return 0;
        at++;
    }
    return strchr(at, '\n') != NULL ? (pid_t)strtol(at, NULL, 10) : 0;
}

pid_t number_await(int file, int place)
{
    test_await(number_at(file, place) > 0);
    return number_at(file, place);
}

struct family family_await(int file)
{
    struct family family = {file, number_await(file, 0), number_await(file, 1)};
    test_await(getpgid(family.stray) == family.stray);
    return family;
}

int output_make(void)
{
    int file = memfd_create("output", MFD_CLOEXEC);
    assert_int_equal(fcntl(file, F_SETFL, O_APPEND), 0);
    return file;
}

void script_start(struct kid *kid, int output, const char *script, struct run_entry *run_entry)
{
    const char *const arguments[] = {"/bin/sh", "-c", script, NULL};
    const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};
    struct child_plan plan = {.kind = CHILD_PROGRAM,
                              .descriptors = {-1, output, -1},
                              .descriptor_count = 3,
                              .arguments = arguments,
                              .environment = environment,
                              .run_entry = run_entry};
    kid_start_plan(kid, &plan);
}

struct run_entry *run_entry_begin(unsigned number)
{
    struct run_entry *run_entry = run_table_entry(run_table, number);
    run_entry_clear(run_entry);
    run_entry_open(run_entry, "jid", "Class");
    return run_entry;
}

/* --- processes ---------------------------------------------------------------------------------------------------- */

const char *process_status(pid_t pid, const char *name)
{
    static char line[512];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL)
        found = strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':';
    if (file != NULL)
        fclose(file);
    if (!found)
        return "";
    line[strcspn(line, "\n")] = '\0';
    return line + strlen(name) + 1 + strspn(line + strlen(name) + 1, " \t");
}

bool process_is_dead(pid_t pid)
{
    const char *state = process_status(pid, "State");
    return state[0] == '\0' || state[0] == 'Z' || state[0] == 'X';
}

unsigned descriptors_open(pid_t pid)
{
    char path[64];
    unsigned count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *directory = opendir(path);
    assert_non_null(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}
