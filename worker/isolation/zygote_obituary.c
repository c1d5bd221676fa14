/* The zygote is the only one who can say what a worker was doing when it died: it still has the board. These are its
 * last words, so it may use up what it has. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "worker/isolation/zygote.h"

static void crash_log(const struct board *board, int signal, pid_t worker)
{
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX];
    const char *known = sigabbrev_np(signal), *name = known != NULL ? known : "?";
    unsigned crashed = atomic_load(&board->crashed);
    if (crashed == 0 || crashed > board->berth_count) {
        log_event(LOG_WARN, "worker_crashed", "pid=%d signal=SIG%s", (int)worker, name);
        return;
    }
    const struct berth *berth = &board->berths[crashed - 1];
    log_event(LOG_WARN, "worker_crashed", "pid=%d signal=SIG%s slot=%u jid=%s class=%s", (int)worker, name, crashed - 1,
              log_quote(berth->jid, jid), log_quote(berth->class_name, class_name));
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

/* Without a log thread lines are written at once, to standard error: so that is where the log is put. When the file
 * cannot be opened, they go where standard error has gone so far. */
static void log_take(const struct log_options *log)
{
    int file =
        log->path != NULL ? open(log->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640) : log->fd;
    if (file >= 0 && file != STDERR_FILENO)
        dup2(file, STDERR_FILENO);
    log_set_level(log->level);
}

void zygote_obituary_log(const struct zygote_options *options, pid_t worker)
{
    log_take(&options->log);
    board_log(options->board, worker);
}
