#include "worker/signals.h"

#include <signal.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/reload.h"
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
    struct loop_signal *watches[MEANINGS];
};

static void signal_caught(void *context, int number)
{
    struct signals *signals = context;
    for (unsigned i = 0; i < MEANINGS; i++)
        if (meanings[i].number == number)
            meanings[i].act(signals->worker, meanings[i].name);
}

void signals_hold(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (unsigned i = 0; i < MEANINGS; i++)
        if (meanings[i].number != SIGTERM && meanings[i].number != SIGINT)
            sigaddset(&set, meanings[i].number);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void signals_let_in(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (unsigned i = 0; i < MEANINGS; i++)
        sigaddset(&set, meanings[i].number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

struct signals *signals_create(struct worker *worker)
{
    struct signals *signals = memory_new(struct signals);
    signals->worker = worker;
    for (unsigned i = 0; i < MEANINGS; i++)
        signals->watches[i] = loop_signal_start(worker->loop, meanings[i].number, signal_caught, signals);
    signals_let_in();
    return signals;
}

void signals_destroy(struct signals *signals)
{
    for (unsigned i = 0; i < MEANINGS; i++)
        loop_signal_stop(signals->watches[i]);
    free(signals);
}
