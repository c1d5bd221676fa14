/* The zygote is the only one who can say what a worker was doing when it died: it still has the board. These are its
 * last words, so it may use up what it has. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "worker/isolation/zygote.h"

/* " slot=... jid=... class=...", or nothing. */
static const char *culprit_text(const struct board *board, char text[2 * LOG_QUOTE_MAX + 40])
{
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX];
    const struct berth *berth = board_culprit(board);
    text[0] = '\0';
    if (berth != NULL)
        snprintf(text, 2 * LOG_QUOTE_MAX + 40, " slot=%u jid=%s class=%s", (unsigned)(berth - board->berths),
                 log_quote(berth->jid, jid), log_quote(berth->class_name, class_name));
    return text;
}

/* One that abandoned a handler, or was stopped before it was up, ends without a good-bye, and has said all there is to
 * say. Else, without a signal of its own making, it was killed, or a plugin ended it. */
static void board_log(const struct board *board, pid_t worker)
{
    char culprit[2 * LOG_QUOTE_MAX + 40];
    int signal = atomic_load(&board->crash_signal);
    const char *known = sigabbrev_np(signal), *name = known != NULL ? known : "?";
    bool has_exited = atomic_load(&board->exit_was_called);
    if (signal == 0 && !has_exited && atomic_load(&board->has_ended))
        return;
    culprit_text(board, culprit);
    if (signal != 0)
        log_event(LOG_WARN, "worker_crashed", "pid=%d signal=SIG%s%s", (int)worker, name, culprit);
    else
        log_event(LOG_WARN, "worker_died", "pid=%d%s%s", (int)worker, has_exited ? " by=exit" : "", culprit);
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

void zygote_mourn(const struct zygote_options *options)
{
    const struct berth *culprit = board_culprit(options->board);
    if (culprit != NULL && options->mourn != NULL)
        options->mourn(options->context, options->board, (unsigned)(culprit - options->board->berths));
}
