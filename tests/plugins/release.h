/* A plugin of which there are several releases; RELEASE is the number of this one. Each appends to the journal, the
 * file of the setting `journal`: "open N", "close N", and of each run "begin N JID" and "end N JID". A run whose first
 * argument is "wait" ends when there is a file `go` in the directory of the setting `directory`. Classes: release, and
 * single, of which one runs at a time. */
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "jobs/kit.h"

#define TEXT_OF_VALUE(value) #value
#define TEXT_OF(name)        TEXT_OF_VALUE(name)

struct release {
    struct kit kit;
    const char *journal, *directory;
};

static void note(const struct release *release, const char *what, const char *jid)
{
    char line[200];
    int length = snprintf(line, sizeof line, "%s %d%s%s\n", what, RELEASE, jid[0] != '\0' ? " " : "", jid);
    int file = open(release->journal, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || write(file, line, (size_t)length) != length)
        abort();
    close(file);
}

static int run(hf_job *job, void *state)
{
    const struct release *release = state;
    const char *jid = release->kit.job->jid(job), *order = "";
    char path[1200];
    note(release, "begin", jid);
    snprintf(path, sizeof path, "%s/go", release->directory);
    release->kit.job->arg_text(job, 0, &order);
    while (strcmp(order, "wait") == 0 && access(path, F_OK) != 0) {
        if (release->kit.cancel->cancelled(job))
            return HF_CANCELLED;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    note(release, "end", jid);
    return HF_OK;
}

static int open_release(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    struct release *release = kit_state(sizeof *release, host, reason, reason_size);
    if (release == NULL)
        return -1;
    release->journal = kit_setting(host, "journal", "journal");
    release->directory = kit_setting(host, "directory", ".");
    note(release, "open", "");
    *state = release;
    return 0;
}

static void close_release(void *state)
{
    note(state, "close", "");
    free(state);
}

static const hf_handler release_handler = {.size = sizeof release_handler, .name = "release", .run = run};
static const hf_handler single_handler = {
    .size = sizeof single_handler, .name = "single", .flags = HF_SERIAL, .run = run};
static const hf_handler *const handlers[] = {&release_handler, &single_handler, NULL};

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("release", TEXT_OF(RELEASE)), .build = "of a test",
                                             .open = open_release, .close = close_release, .handlers = handlers};
