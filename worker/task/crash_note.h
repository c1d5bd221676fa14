/* Notes on the run table (run_table.h) of what a worker process dies: the signal, and the run whose handler brought
 * it about. The zygote and the supervisor still have the run table when the process is gone, and read it there.
 *
 *     crash_notes_begin(run_table);            main thread, before plugins are loaded
 *     crash_note_thread_begin(&stack);     first act of each runner thread
 *     crash_note_run_begin(slot->number);  on a runner, around a handler's run
 *     crash_note_run_end();
 *     crash_notes_end();                   before the run table is destroyed
 *
 * Noted are SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, on stacks of their own, so that a handler that has used up its
 * stack is named too. After the note all goes on as it would have without: core dump, exit status, the report of a
 * sanitizer, a handler that was there before. Noted is also a call of exit() or quick_exit(), which ends the process
 * with exit code 1 then, so that nobody takes it for the end of a worker that was asked to stop. A plugin that installs
 * its own handler for one of these signals keeps it; if that does not pass the signal on, the process dies without a
 * name. Not noted are _exit(), SIGKILL, and crashes in children that a handler forked. A crash in a thread that a
 * handler started has no run: then the runs that were on are all that can be told. */
#ifndef WORKER_CRASH_NOTE_H
#define WORKER_CRASH_NOTE_H

#include "worker/task/run_table.h"

/* What the handler needs at most: a frame with all registers there are today, several times. */
enum { CRASH_STACK_BYTES = 64 * 1024 };

struct crash_stack {
    char bytes[CRASH_STACK_BYTES];
};

/* Once more with another run table is fine. */
void crash_notes_begin(struct run_table *run_table);
void crash_notes_end(void);
/* For a process whose run table nobody reads afterwards. `tell` hears of a call of exit() or quick_exit() before the
 * process ends, on the thread that called: whose handler that was, or NULL. */
void crash_note_tell_exit(void (*tell)(const struct run_entry *whose));
/* The process ends by its own doing, now. Any thread, also in the handler of a signal. */
void crash_note_own_end(void);

/* `stack` is the thread's for as long as it lives; it may lie on the stack that it stands in for. Lets these signals
 * through to the thread: blocked, they would end the process without a note. */
void crash_note_thread_begin(struct crash_stack *stack);

/* Any thread. */
void crash_note_run_begin(unsigned run_entry);
void crash_note_run_end(void);

#endif
