/* What every command of an operator begins with: the configuration, a way to ask the queue node, its keys and its
 * time.
 *
 *     struct console console = {0};                  its origin is filled when the options are read
 *     int code = console_open(&console, &command_status, ORIGIN_NEEDS_QUEUE, false);
 *     if (code == EXIT_CODE_OK)
 *         ...
 *     return console_close(&console, code);          also after a failure
 *
 * What fails is said on standard error. */
#ifndef WORKER_CONSOLE_H
#define WORKER_CONSOLE_H

#include <stdbool.h>

#include "base/clock.h"
#include "queue/keys.h"
#include "worker/commands/origin.h"
#include "worker/config/config.h"
#include "worker/nodes/node_client.h"

struct console {
    struct origin origin; /* filled by options, as as_json is */
    const struct command *command;
    struct config *config;
    struct findings warnings; /* about it */
    struct node_client *client;
    struct queue_keys keys;
    struct wall_time now;  /* of the queue node, when the command began */
    struct wall_time here; /* of this machine, at the same moment */
    int code;              /* not EXIT_CODE_OK: what failed; then nothing more is asked, and every reply is nil */
    bool as_json;
    bool has_complained;
    bool is_silent;        /* a failure is not printed: node_client_reason() has it */
    struct buffer key;     /* of console_key */
    int64_t round_trip_us; /* how long asking for it took: the two times are apart by what they say, give or take */
};

extern const struct option_row console_options[];        /* --json, and origin_queue_options */
extern const struct option_row console_config_options[]; /* --json, and origin_options: for ORIGIN_NEEDS_LOCKS */

/* `changes`: the command runs scripts that change something. Returns an exit code. */
int console_open(struct console *console, const struct command *command, enum origin_needs needs, bool changes);
/* The two parts of it: the configuration, and the connection. */
int console_configure(struct console *console, const struct command *command, enum origin_needs needs);
int console_connect(struct console *console, bool changes);
/* Refuses a node that options name, and that is a lock node without a trace of a worker or a task: what is put there
 * never runs. console_connect does it for what changes something. Says nothing of a node that does not answer. */
int console_refuse_lock_node(struct console *console);
/* Returns what failed, else `code`. After a complaint it says which configuration the command went by, unless the user
 * named it. */
int console_close(struct console *console, int code);

/* The node's time, asked anew. False after a complaint. */
bool console_time(struct console *console) MUST_CHECK;
/* The key that is made of one of the prefixes of `keys` and a name; until the next call. */
const char *console_key(struct console *console, const char *prefix, const char *name);
/* That of what a process shows of its running tasks: a hash by "t" and the number of the slot. Until the next call. */
const char *console_work_key(struct console *console, const char *identity);
/* Runs the pipeline; complains when it is not answered, which is final. Returns console->code. A function that asks
 * more than once need not look at it in between: see `code`. */
int console_run(struct console *console);
/* One request of texts, up to NULL, and its reply: until the next request. Never NULL. */
const struct redis_reply *console_ask(struct console *console, ...) __attribute__((sentinel));
/* For a page that can be smaller: true when its answer was lost with the connection; then `*limit` is halved, and the
 * page is to be asked for once more.
 *
 *     do {
 *         node_client_may_divide(console->client, limit > 1);
 *         ask for `limit` items, in one request
 *     } while (console_asks_less(console, &limit)); */
bool console_asks_less(struct console *console, size_t *limit);
/* Reports a reply of the pipeline that is none of those that are expected, which is final. Returns console->code. */
int console_refuse(struct console *console, size_t index);
/* "holdfast COMMAND: text" on standard error, made safe for a terminal. Returns EXIT_CODE_FAILURE. */
int console_complain(struct console *console, const char *format, ...) PRINTF_LIKE(2, 3);

/* True after a yes at a terminal, or with `is_sure`. Without a terminal, requires --yes. */
bool console_confirm(struct console *console, bool is_sure, const char *format, ...) PRINTF_LIKE(3, 4);

#endif
