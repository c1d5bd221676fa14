/* How a worker ends: see stop.c. Each may be called at any time and again; a later one in this order goes further, none
 * goes back. `reason` is a word for the log. */
#ifndef WORKER_STOP_H
#define WORKER_STOP_H

struct worker;

void worker_quiet(struct worker *worker, const char *reason);    /* claims nothing more; what runs goes on, it stays */
void worker_drain(struct worker *worker, const char *reason);    /* quiet, and it stops when nothing runs any more */
void worker_stop(struct worker *worker, const char *reason);     /* within stop_timeout */
void worker_stop_now(struct worker *worker, const char *reason); /* within a moment */
/* What a signal does: the first is a stop, the next a stop now. */
void worker_stop_asked(struct worker *worker, const char *reason);

/* A slot became idle while stopping or draining. */
void worker_stop_look(struct worker *worker);
/* With all slots idle, of a worker that ends when there is nothing to do: asks the queue node whether that is so. */
void worker_drain_look(struct worker *worker);
/* One log line for each slot whose handler runs. */
void worker_tell_running(struct worker *worker);

#endif
