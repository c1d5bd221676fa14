#include "worker/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/print/exit_code.h"
#include "worker/reload.h"
#include "worker/task/crash_note.h"
#include "worker/worker_state.h"

struct meaning {
    int number;
    const char *name;
    void (*act)(struct worker *worker, const char *name);
};

static void log_file_renew(struct worker *worker, const char *name)
{
    (void)worker;
    log_event(LOG_INFO, "log_reopening", "reason=%s", name);
    log_reopen(NULL);
}

static void tell_running(struct worker *worker, const char *name)
{
    (void)name;
    worker_tell_running(worker);
}

static const struct meaning meanings[] = {
    {SIGTERM, "SIGTERM", worker_stop_asked}, {SIGINT, "SIGINT", worker_stop_asked},
    {SIGTSTP, "SIGTSTP", worker_quiet},      {SIGUSR2, "SIGUSR2", worker_drain},
    {SIGHUP, "SIGHUP", worker_reload},       {SIGUSR1, "SIGUSR1", log_file_renew},
    {SIGTTIN, "SIGTTIN", tell_running},
};

enum { MEANINGS = sizeof meanings / sizeof meanings[0] };

struct signals {
    struct worker *worker;
    struct loop_watch *watch;
};

/* What the handler of the signals uses, in whichever thread it runs. The handler stays until the process is gone, so
 * that no signal ever meets its default; that is why it is not the loop's, and why the bell is never closed. */
static struct {
    atomic_bool is_heard; /* there is, or was, a loop that acts */
    atomic_int bell;      /* an eventfd of the loop, once that acts */
    atomic_uint came[MEANINGS];
} caught;

/* --- the handler -------------------------------------------------------------------------------------------------- */

static bool asks_to_end(int number)
{
    return number == SIGTERM || number == SIGINT;
}

static void signal_caught(int number)
{
    static const uint64_t once = 1;
    int failure = errno;
    if (!atomic_load(&caught.is_heard) && asks_to_end(number)) {
        crash_note_own_end();
        _exit(EXIT_CODE_OK);
    }
    for (unsigned i = 0; i < MEANINGS; i++)
        if (meanings[i].number == number)
            atomic_fetch_add(&caught.came[i], 1);
    if (atomic_load(&caught.is_heard))
        (void)!write(atomic_load(&caught.bell), &once, sizeof once); /* an eventfd that a read empties is never full */
    errno = failure;
}

/* Those with a meaning; `all` = also SIGTERM and SIGINT. */
static sigset_t signals_set(bool all)
{
    sigset_t set;
    sigemptyset(&set);
    for (unsigned i = 0; i < MEANINGS; i++)
        if (all || !asks_to_end(meanings[i].number))
            sigaddset(&set, meanings[i].number);
    return set;
}

void signals_hold(void)
{
    struct sigaction action = {.sa_handler = signal_caught, .sa_flags = SA_RESTART};
    sigset_t held = signals_set(false);
    sigfillset(&action.sa_mask);
    for (unsigned i = 0; i < MEANINGS; i++)
        invariant(sigaction(meanings[i].number, &action, NULL) == 0);
    pthread_sigmask(SIG_SETMASK, &held, NULL);
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

/* Each as often as it came: a second SIGTERM means more than the first. */
static void bell_rang(void *context, int events)
{
    (void)events;
    struct signals *signals = context;
    uint64_t times;
    (void)!read(atomic_load(&caught.bell), &times, sizeof times);
    for (unsigned i = 0; i < MEANINGS; i++)
        for (unsigned came = atomic_exchange(&caught.came[i], 0); came > 0; came--)
            meanings[i].act(signals->worker, meanings[i].name);
}

struct signals *signals_create(struct worker *worker, struct error *error)
{
    int bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    sigset_t all = signals_set(true);
    if (bell < 0) {
        error_set(error, "cannot hear signals: %m; is the limit of open files (ulimit -n) too low?");
        return NULL;
    }
    struct signals *signals = memory_new(struct signals);
    signals->worker = worker;
    signals->watch = loop_watch_start(worker->loop, bell, LOOP_READABLE, bell_rang, signals);
    atomic_store(&caught.bell, bell);
    atomic_store(&caught.is_heard, true);
    pthread_sigmask(SIG_UNBLOCK, &all, NULL);
    return signals;
}

void signals_destroy(struct signals *signals)
{
    sigset_t all = signals_set(true);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    loop_watch_stop(signals->watch);
    free(signals);
}
