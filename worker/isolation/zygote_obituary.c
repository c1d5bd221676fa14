/* The zygote is the only one who can say what a worker was doing when it died: it still has the board. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "worker/isolation/zygote.h"

static void crash_log(const struct board *board, int signal, pid_t worker)
{
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX];
    const char *name = sigabbrev_np(signal);
    unsigned crashed = atomic_load(&board->crashed);
    if (crashed == 0 || crashed > board->berth_count) {
        log_event(LOG_WARN, "worker_crashed", "pid=%d signal=%s%s", (int)worker, name != NULL ? "SIG" : "",
                  name != NULL ? name : "?");
        return;
    }
    const struct berth *berth = &board->berths[crashed - 1];
    log_event(LOG_WARN, "worker_crashed", "pid=%d signal=%s%s slot=%u jid=%s class=%s", (int)worker,
              name != NULL ? "SIG" : "", name != NULL ? name : "?", crashed - 1, log_quote(berth->jid, jid),
              log_quote(berth->class_name, class_name));
}

static void board_log(const struct board *board, pid_t worker)
{
    int signal = atomic_load(&board->crash_signal);
    if (signal != 0)
        crash_log(board, signal, worker);
    else
        log_event(LOG_WARN, "worker_died", "pid=%d", (int)worker);
    for (unsigned i = 0; i < board->berth_count; i++) {
        const struct berth *berth = &board->berths[i];
        char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX];
        if (atomic_load(&berth->is_running))
            log_event(LOG_WARN, "task_was_running", "slot=%u jid=%s class=%s", i, log_quote(berth->jid, jid),
                      log_quote(berth->class_name, class_name));
    }
}

void zygote_obituary_log(const struct zygote_options *options, pid_t worker)
{
    /* Without the file, standard error takes the lines. */
    struct error error = ERROR_NONE;
    bool has_log = log_start(&options->log, &error);
    board_log(options->board, worker);
    if (has_log)
        log_stop();
}
