#include "worker/task/crash_note.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/invariant.h"
#include "worker/print/exit_code.h"

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

enum { CRASHES = sizeof crashes / sizeof crashes[0] };

static struct run_table *_Atomic noted_on;
static void (*_Atomic exit_tell)(const struct run_entry *whose);
static pid_t owner; /* its forked children inherit the signal handlers, but must not write the run table */
static struct sigaction before[CRASHES];
static _Thread_local unsigned run_here; /* its run entry plus 1; 0 = no handler runs in this thread */

/* Two threads may crash at once, and the second may end the process in the middle of this: the first note stays. */
static void run_note(struct run_table *run_table)
{
    unsigned nobody = 0;
    atomic_compare_exchange_strong(&run_table->crashed, &nobody, run_here);
}

static struct run_table *own_run_table(void)
{
    return getpid() == owner ? atomic_load(&noted_on) : NULL;
}

/* A signal that the processor raised recurs with its details when the instruction is repeated. The others are raised
 * again here, and arrive when this handler has returned. */
static bool comes_by_itself(const siginfo_t *info)
{
    return info->si_code > 0 && !(info->si_signo == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

/* Calls only what is async-signal-safe. */
static void crash_caught(int number, siginfo_t *info, void *context)
{
    (void)context;
    int failure = errno, none = 0;
    struct run_table *run_table = own_run_table();
    bool is_from_outside = info->si_code <= 0 && info->si_pid != getpid();
    if (run_table != NULL && !is_from_outside)
        run_note(run_table);
    if (run_table != NULL)
        atomic_compare_exchange_strong(&run_table->crash_signal, &none, number);
    for (unsigned i = 0; i < CRASHES; i++)
        if (crashes[i] == number)
            sigaction(number, &before[i], NULL);
    if (!comes_by_itself(info))
        raise(number);
    errno = failure;
}

/* exit() or quick_exit() was called, by a handler if one runs in this thread. A supervisor must not take that for an
 * orderly stop of the worker, so the requested status is replaced. */
static void exit_caught(void)
{
    struct run_table *run_table = own_run_table();
    if (run_table == NULL)
        return;
    run_note(run_table);
    atomic_store(&run_table->exit_was_called, true);
    void (*tell)(const struct run_entry *whose) = atomic_load(&exit_tell);
    if (tell != NULL)
        tell(run_table_suspect(run_table));
    _exit(EXIT_CODE_FAILURE);
}

void crash_notes_begin(struct run_table *run_table)
{
    static struct crash_stack stack;
    static bool is_installed;
    owner = getpid();
    atomic_store(&noted_on, run_table);
    if (is_installed)
        return;
    is_installed = true;
    struct sigaction action = {.sa_sigaction = crash_caught, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    for (unsigned i = 0; i < CRASHES; i++)
        invariant(sigaction(crashes[i], &action, &before[i]) == 0);
    crash_note_thread_begin(&stack);
    invariant(atexit(exit_caught) == 0 && at_quick_exit(exit_caught) == 0);
}

void crash_notes_end(void)
{
    atomic_store(&noted_on, NULL);
}

void crash_note_tell_exit(void (*tell)(const struct run_entry *whose))
{
    atomic_store(&exit_tell, tell);
}

void crash_note_own_end(void)
{
    struct run_table *run_table = own_run_table();
    if (run_table != NULL)
        atomic_store(&run_table->has_ended, true);
}

/* A sanitizer has installed its own stack, and will free whatever it finds at the end of the thread. */
void crash_note_thread_begin(struct crash_stack *stack)
{
    stack_t use = {.ss_sp = stack->bytes, .ss_size = sizeof stack->bytes}, present;
    invariant(sigaltstack(NULL, &present) == 0);
    if (present.ss_flags & SS_DISABLE)
        invariant(sigaltstack(&use, NULL) == 0);
    sigset_t set;
    sigemptyset(&set);
    for (unsigned i = 0; i < CRASHES; i++)
        sigaddset(&set, crashes[i]);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void crash_note_run_begin(unsigned run_entry)
{
    run_here = run_entry + 1;
}

void crash_note_open_begin(const char *plugin)
{
    struct run_table *run_table = own_run_table();
    if (run_table == NULL)
        return;
    run_table_opening_set(run_table, plugin);
    run_here = RUN_TABLE_OPENING + 1;
}

/* The run survived: an older handler of the signal caught it. So the process will not die of this run. */
void crash_note_run_end(void)
{
    struct run_table *run_table = atomic_load(&noted_on);
    unsigned here = run_here;
    run_here = 0;
    if (run_table != NULL && atomic_load(&run_table->crashed) == here && here != 0 &&
        atomic_compare_exchange_strong(&run_table->crashed, &here, 0))
        atomic_store(&run_table->crash_signal, 0);
}
