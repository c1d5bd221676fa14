/* A plugin whose constructor, or open() for gate_at_open.so, does what the name of the file says: crash.so crashes, and
 * so on. With any other name it is as good as any. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/plugins/descriptor.h"

HANDLER(only, "wild");
static const hf_handler *handlers[3] = {&only};

/* The name under which this library was loaded, from its file or a copy in memory, and the directory of the file. */
static void own_name(char *name, char *directory, size_t size)
{
    char line[1024];
    unsigned long from, until, here = (unsigned long)(uintptr_t)&handlers;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        const char *path = strchr(line, '/'), *slash = strrchr(line, '/');
        if (sscanf(line, "%lx-%lx", &from, &until) == 2 && from <= here && here < until && slash != NULL) {
            snprintf(name, size, "%.*s", (int)strcspn(slash + 1, ".\n"), slash + 1);
            snprintf(directory, size, "%.*s", (int)(slash - path), path);
        }
    }
    if (maps != NULL)
        fclose(maps);
    if (strncmp(name, "memfd:", 6) == 0)
        memmove(name, name + 6, strlen(name) - 5);
}

static void die_of(int signal_number)
{
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Shows that it is here, by a file beside its own, and waits until it may go on. */
static void gate_pass(const char *directory)
{
    char here[288], open_gate[288];
    snprintf(here, sizeof here, "%s/at_gate", directory);
    snprintf(open_gate, sizeof open_gate, "%s/gate_is_open", directory);
    fclose(fopen(here, "we"));
    while (access(open_gate, F_OK) != 0)
        usleep(1000);
}

__attribute__((constructor)) static void act(void)
{
    char name[256] = "", directory[256] = "";
    own_name(name, directory, sizeof name);
    if (strcmp(name, "crash") == 0) {
        die_of(SIGSEGV);
    } else if (strcmp(name, "abort") == 0) {
        fputs("at first\nits last words\n\n", stderr);
        die_of(SIGABRT);
    } else if (strcmp(name, "exit") == 0) {
        _exit(3);
    } else if (strcmp(name, "hang") == 0) {
        for (;;)
            pause();
    } else if (strcmp(name, "slow") == 0) {
        usleep(200 * 1000);
    } else if (strcmp(name, "gate") == 0) {
        gate_pass(directory);
    } else if (strcmp(name, "noise") == 0) {
        for (int i = 0; i < 100 * 1000; i++)
            puts("this is what it prints");
        fflush(stdout);
    } else if (strcmp(name, "fork") == 0) {
        if (fork() == 0)
            for (;;)
                pause();
    } else if (strcmp(name, "endless") == 0) {
        handlers[1] = (const hf_handler *)8;
    }
}

static int open_it(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    char name[256] = "", directory[256] = "";
    (void)host;
    (void)state;
    (void)reason;
    (void)reason_size;
    own_name(name, directory, sizeof name);
    if (strcmp(name, "gate_at_open") == 0)
        gate_pass(directory);
    return 0;
}

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("wild", "1.0"), .handlers = handlers, .open = open_it};
