/* The command that operators have run when something happens to a task (on_event of the configuration): a message to
 * people, a ticket, a counter elsewhere.
 *
 *     struct event_commands *commands = event_commands_create(loop, launcher, &config->on_event, host);
 *     event_commands_tell(commands, &event);       does nothing unless the configuration names this event
 *     ... event_commands_are_busy(commands) ...    a worker that ends waits for them, a little
 *     event_commands_destroy(commands);            kills what runs, before the launcher is destroyed
 *
 * Each event is one process, started by the zygote: a JSON object on its standard input, HF_EVENT, HF_JID and HF_CLASS
 * beside PATH, HOME, LANG and TZ in its environment, and the surroundings that the configuration gives it. What it
 * prints is logged as `event_output`. It has a time limit. A command that fails is a warning in the log and is not
 * repeated, and nothing waits for it: neither the task nor its lock. At most EVENTS_WAITING_MAX events wait for their
 * turn; further ones are dropped, and their number is logged once a second.
 *
 * So events are lost when the worker dies or is in a hurry. What must not be lost is in the dead set.
 *
 * Threads: the loop's. */
#ifndef WORKER_EVENT_COMMANDS_H
#define WORKER_EVENT_COMMANDS_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/loop.h"
#include "worker/config/config.h"
#include "worker/isolation/launcher.h"

enum { EVENTS_WAITING_MAX = 1000 };

/* Texts are copied. NULL or "" = there is none, and the member is left out. */
struct event {
    const char *name; /* a word of on_event.events */
    const char *jid, *class_name, *queue, *resource;
    const char *error_class, *message;
    const char *fence;
    struct wall_time at;
};

struct event_commands;

/* The settings may change, their place does not. */
struct event_commands *event_commands_create(struct loop *loop, struct launcher *launcher,
                                             const struct config_event *settings, const char *host);
void event_commands_destroy(struct event_commands *commands); /* NULL is fine */
/* Takes over the variables of surroundings_read, from the next command on. */
void event_commands_set_environment(struct event_commands *commands, char **environment);

/* Whether the configuration names this event: so that no facts are gathered in vain. */
bool event_commands_want(const struct event_commands *commands, const char *name);
void event_commands_tell(struct event_commands *commands, const struct event *event);
/* Some run, or wait for their turn. */
bool event_commands_are_busy(const struct event_commands *commands);

#endif
