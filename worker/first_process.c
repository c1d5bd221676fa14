#include "worker/first_process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_BY_SIGNAL = 128 };

/* Ends this process when the command has ended. */
static void dead_reap(pid_t command)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) != 0;) {
        if (pid == command)
            _exit(WIFSIGNALED(status) ? EXIT_BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status));
        if (pid < 0 && errno != EINTR)
            return;
    }
}

/* A terminal signals the command as well, because it is in the same process group; a second SIGINT would mean
 * something else to it. But of its hangup only the leader of the session hears. */
static void signal_pass_on(pid_t command, const siginfo_t *info)
{
    if (info->si_signo != SIGCHLD && (info->si_code <= 0 || info->si_signo == SIGHUP))
        kill(command, info->si_signo);
}

void first_process_become(void)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t command = fork();
    if (command > 0)
        for (;;) {
            siginfo_t info;
            if (sigwaitinfo(&all, &info) > 0)
                signal_pass_on(command, &info);
            dead_reap(command);
        }
    if (command < 0)
        fprintf(stderr, "holdfast: cannot fork, so that orphans of this container are not reaped: %m\n");
    sigprocmask(SIG_SETMASK, &before, NULL);
}
