/* A handler that trusts its lock too much, for tests of what the fence is good for. The witness (tests/support) keeps
 * two numbers for the resource: one checks fencing tokens, the other one does not. The handler reads both, thinks, and
 * writes both back, each one more than it was; jids make a task that runs again add nothing. It never stops when it is
 * told that its lock is lost, as a program does that is in the middle of a call. It also tells the witness for how long
 * it was certain of its lock, and keeps a ledger as tests/plugins/ledger.c does:
 *
 *     begin JID PROCESS             ok JID PROCESS, or fail JID PROCESS when the fence refused it
 *
 * A run without a fencing token writes to the number without a fence only.
 *
 * Class: add, with one resource to lock. Arguments: [THINK_MILLISECONDS]. Settings: journal, process, and directory,
 * where the witness listens at the socket "witness". */
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "jobs/kit.h"

#define NO_TOKEN "0"

enum { MESSAGE_MAX = 512, STEP_NS = 5000000 };

struct adder {
    struct kit kit;
    const char *journal, *process, *directory;
};

struct run {
    const struct adder *adder;
    hf_job *job;
    int witness;
    const char *resource, *token;
    int64_t from, until; /* certain of the lock; until < from: never */
    int has_fenced;      /* a fenced value was read */
    uint64_t fenced, plain;
};

static void append(const struct run *run, const char *what)
{
    char line[600];
    int length =
        snprintf(line, sizeof line, "%s %s %s\n", what, run->adder->kit.job->jid(run->job), run->adder->process);
    int file = open(run->adder->journal, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || write(file, line, (size_t)length) != length)
        abort();
    close(file);
}

/* --- the witness -------------------------------------------------------------------------------------------------- */

static int witness_connect(const struct adder *adder)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/witness", adder->directory);
    if (file >= 0 && connect(file, (struct sockaddr *)&address, sizeof address) != 0) {
        close(file);
        file = -1;
    }
    return file;
}

/* The message becomes the answer; false when the witness is not there. */
static int ask(const struct run *run, char message[MESSAGE_MAX])
{
    ssize_t length = -1;
    if (send(run->witness, message, strlen(message), MSG_NOSIGNAL) > 0)
        length = recv(run->witness, message, MESSAGE_MAX - 1, 0);
    message[length > 0 ? length : 0] = '\0';
    return length > 0;
}

static int read_both(struct run *run)
{
    char message[MESSAGE_MAX];
    snprintf(message, sizeof message, "read %s %s", run->resource, run->token);
    if (!ask(run, message))
        return 0;
    run->has_fenced = sscanf(message, "%" SCNu64 " %" SCNu64, &run->fenced, &run->plain) == 2;
    return run->has_fenced || sscanf(message, "stale %" SCNu64, &run->plain) == 1;
}

/* False when the witness is not there; `*refused` says what the fence said. */
static int write_both(struct run *run, int *refused)
{
    char message[MESSAGE_MAX], fenced[24] = "-";
    if (run->has_fenced)
        snprintf(fenced, sizeof fenced, "%" PRIu64, run->fenced + 1);
    snprintf(message, sizeof message, "write %s %s %s %s %" PRIu64, run->resource, run->token,
             run->adder->kit.job->jid(run->job), fenced, run->plain + 1);
    if (!ask(run, message))
        return 0;
    *refused = strcmp(run->token, NO_TOKEN) != 0 && (!run->has_fenced || strcmp(message, "stale") == 0);
    return 1;
}

static int tell_certainty(const struct run *run)
{
    char message[MESSAGE_MAX];
    snprintf(message, sizeof message, "held %s %s %s %" PRId64 " %" PRId64, run->resource, run->token,
             run->adder->kit.job->jid(run->job), run->from, run->until);
    return ask(run, message);
}

/* --- the handler -------------------------------------------------------------------------------------------------- */

/* Certain at a moment before the question: what happens to this thread meanwhile cannot make it too late. */
static void look_at_lock(struct run *run)
{
    int64_t now = kit_now_ns();
    if (run->adder->kit.lock->valid_for_ms(run->job) > 0)
        run->until = now;
}

static void think(struct run *run)
{
    int64_t ms = 0;
    run->adder->kit.job->arg_integer(run->job, 0, &ms);
    for (int64_t end = kit_now_ns() + ms * 1000000; kit_now_ns() < end; look_at_lock(run)) {
        struct timespec step = {.tv_nsec = STEP_NS};
        nanosleep(&step, NULL);
    }
}

static const char *token_of(const struct adder *adder, const hf_job *job)
{
    const char *token = adder->kit.lock->fence(job, 0);
    return token[0] != '\0' ? token : NO_TOKEN;
}

static int run_add(hf_job *job, void *state)
{
    const struct adder *adder = state;
    const char *const *names = NULL;
    struct run run = {.adder = adder, .job = job, .witness = witness_connect(adder), .token = token_of(adder, job)};
    int refused = 0, is_told;
    if (adder->kit.lock->resources(job, &names) != 1)
        abort();
    run.resource = names[0];
    run.from = kit_now_ns();
    run.until = run.from - 1;
    append(&run, "begin");
    look_at_lock(&run);
    is_told = read_both(&run);
    think(&run);
    is_told = is_told && write_both(&run, &refused) && tell_certainty(&run);
    if (run.witness >= 0)
        close(run.witness);
    append(&run, is_told && !refused ? "ok" : "fail");
    if (is_told && !refused)
        return HF_OK;
    adder->kit.job->error(job, is_told ? "HF::FencedOff" : "FencedWitness",
                          is_told ? "the fence refused token %s" : "no witness, token %s", run.token);
    return HF_FAIL;
}

static int open_adder(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    struct adder *adder = kit_state(sizeof *adder, host, reason, reason_size);
    if (adder == NULL)
        return -1;
    if (adder->kit.lock->size < offsetof(hf_lock_api, fence) + sizeof adder->kit.lock->fence) {
        snprintf(reason, reason_size, "the host has no fencing tokens");
        free(adder);
        return -1;
    }
    adder->journal = kit_setting(host, "journal", "journal");
    adder->process = kit_setting(host, "process", "?");
    adder->directory = kit_setting(host, "directory", ".");
    *state = adder;
    return 0;
}

static const hf_handler add_handler = {.size = sizeof add_handler,
                                       .name = "add",
                                       .flags = HF_LOCK_REQUIRED,
                                       .run = run_add,
                                       .isolation = HF_ISOLATION_THREAD};
static const hf_handler *const handlers[] = {&add_handler, NULL};

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("fenced_witness", "1.0"), .open = open_adder, .close = free,
                                             .handlers = handlers};
