/* Records on the run table (run_table.h) why a worker process dies: the signal, and the run whose handler caused it.
 * The zygote and the supervisor share the run table and read it after the process has died.
 *
 *     crash_notes_begin(run_table);            main thread, before plugins are loaded
 *     crash_note_thread_begin(&stack);     first act of each runner thread
 *     crash_note_run_begin(slot->number);  on a runner, around a handler's run
 *     crash_note_run_end();
 *     crash_notes_end();                   before the run table is destroyed
 *
 * Recorded are SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, on separate signal stacks, so that a handler that
 * overflowed its stack is recorded too. Then the signal takes its usual course: core dump, exit status, a
 * sanitizer's report, an older signal handler. Also recorded is a call of exit() or quick_exit(). The process then
 * ends with exit code 1, so that nobody takes it for an orderly stop. A plugin may install its own handler for one
 * of these signals; if that does not pass the signal on, the crash is not recorded. Neither are _exit(), SIGKILL,
 * and crashes in children that a handler forked. A crash in a thread that a handler started has no run: then only
 * the list of active runs is known. */
#ifndef WORKER_CRASH_NOTE_H
#define WORKER_CRASH_NOTE_H

#include "worker/task/run_table.h"

/* Enough for the signal handler: several frames with all registers of current processors. */
enum { CRASH_STACK_BYTES = 64 * 1024 };

struct crash_stack {
    char bytes[CRASH_STACK_BYTES];
};

/* May be called again with another run table. */
void crash_notes_begin(struct run_table *run_table);
void crash_notes_end(void);
/* For a process whose run table is not read afterwards. exit() and quick_exit() call `tell` on their thread before
 * the process ends, with the run entry of the handler, or NULL. */
void crash_note_tell_exit(void (*tell)(const struct run_entry *whose));
/* The process is about to end itself. Any thread, also in a signal handler. */
void crash_note_own_end(void);

/* `stack` belongs to the thread for its life; it may lie on the thread's own stack. Unblocks these signals: blocked,
 * they would end the process without a record. */
void crash_note_thread_begin(struct crash_stack *stack);

/* Any thread. */
void crash_note_run_begin(unsigned run_entry);
void crash_note_run_end(void);
/* The same around the open() of a plugin, by one thread at a time; crash_note_run_end ends it. */
void crash_note_open_begin(const char *plugin);

#endif
