/* holdfast lock: runs a command under a lock, or holds the lock for the program that started it. */
#include "worker/commands/command.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "redlock/redlock_loop.h"
#include "worker/commands/line_output.h"
#include "worker/commands/lock_view.h"
#include "worker/commands/nodes.h"
#include "worker/commands/origin.h"
#include "worker/config/node_options.h"
#include "worker/isolation/guarded_command.h"
#include "worker/print/json_writer.h"

enum {
    ARGUMENTS_MAX = 1000,
    OWNER_SIZE = REDLOCK_OWNER_BYTES_MAX + 1,
    SIGNALED = 128,
    HOLD_SIGNALS = 4,
    COMPLAINT_MAX = 1024
};

#define FOREVER_NS (INT64_C(365) * 24 * 3600 * NS_PER_S)
#define POLL_NS    (1 * NS_PER_MS)
/* For releases that are on their way, after which the ttl does the work, and for a reader of the last lines. */
#define CLOSE_NS     (300 * NS_PER_MS)
#define COMPLAINT_NS (3 * NS_PER_S)

struct lock_command {
    /* Of the options. */
    struct origin origin;
    struct nodes_login login;
    int64_t wait_ns, ttl_ns, max_hold_ns, at_least_ns, limit;
    bool has_wait, never_waits, is_shared, is_shell, holds, as_json, signals_danger;
    const char *same_as, *name;
    /* Of the arguments. */
    char **resources;
    unsigned resource_count;
    char **arguments; /* the command; NULL with --hold */
    /* The nodes. */
    struct config *config;
    struct redlock_node nodes[REDLOCK_NODES_MAX];
    struct redlock_options options;
    struct redlock_terms terms;
    char owner[OWNER_SIZE];
    /* The run. */
    struct loop *loop;
    struct redlock_group *group;
    struct redlock_lock *lock;
    struct guarded_command guard;
    struct line_output out, errors;
    struct loop_timer settle, complaint, close;
    struct instant held_since, close_by;
    uint64_t token;
    unsigned seat; /* of a resource with a limit */
    bool is_ready, is_asking, is_held, in_danger, is_lost, is_going, has_left;
    int input; /* of --hold; -1 = it has ended, or is not read */
    struct loop_watch *input_watch;
    struct loop_signal *signals[HOLD_SIGNALS];
    int exit_code, late; /* the signal that came when the command had ended; 0 = none */
};

#define AT(member) offsetof(struct lock_command, member)
static const struct option_row options[] = {
    {OPTION_DURATION, 'w', "wait", "DURATION", "wait for its turn for at most so long (for ever)",
     .offset = AT(wait_ns), .given = GIVEN(AT(has_wait))},
    {OPTION_FLAG, 0, "no-wait", NULL, "do not wait for a holder", .offset = AT(never_waits)},
    {OPTION_DURATION, 0, "ttl", "DURATION",
     "how long the lock outlives its holder (lock.ttl, or 10s; at most the group's max_ttl)", .offset = AT(ttl_ns),
     .least = 500 * NS_PER_MS, .most = 60 * NS_PER_S},
    {OPTION_DURATION, 0, "max-hold", "DURATION", "after this time the lock is lost, and COMMAND killed (never)",
     .offset = AT(max_hold_ns), .least = NS_PER_MS},
    {OPTION_DURATION, 0, "at-least", "DURATION", "keep the lock for this time at least, however short COMMAND is",
     .offset = AT(at_least_ns), .least = NS_PER_MS},
    {OPTION_COUNT, 0, "limit", "N", "so many may hold RESOURCE at once, each at a seat of its own (1)",
     .offset = AT(limit), .least = 1, .most = REDLOCK_LIMIT_MAX},
    {OPTION_FLAG, 0, "shared", NULL, "for a command that only reads: others may hold it with --shared at the same time",
     .offset = AT(is_shared)},
    {OPTION_TEXT, 0, "same-as-holder", "TOKEN", "inside another `holdfast lock`: run under its lock, with this token",
     .offset = AT(same_as)},
    {OPTION_FLAG, 0, "shell", NULL, "COMMAND is a line for /bin/sh, and ARGS are its $1, $2 ...",
     .offset = AT(is_shell)},
    {OPTION_FLAG, 0, "signal-danger", NULL, "send the command SIGUSR1 when the lock is in danger",
     .offset = AT(signals_danger)},
    {OPTION_FLAG, 0, "hold", NULL, "no command: hold it until standard input ends, and print what happens",
     .offset = AT(holds)},
    {OPTION_TEXT, 'n', "name", "NAME", "what `holdfast who` shows of the holder (host, pid and command)",
     .offset = AT(name)},
    {OPTION_FLAG, 0, "json", NULL, "say on standard error what happens, each as a JSON object on a line",
     .offset = AT(as_json)},
    {OPTION_TABLE, .table = origin_lock_options, .help = ORIGIN_HEADLINE, .offset = AT(origin)},
    {OPTION_TABLE, .table = nodes_login_options, .help = NODES_LOGIN_HEADLINE, .offset = AT(login)},
    {.type = OPTION_END},
};
#undef AT

/* --- what happened ------------------------------------------------------------------------------------------------ */

static struct json_writer event_begin(const struct lock_command *self, struct buffer *out, const char *name)
{
    char token[24];
    struct json_writer json = json_begin(out);
    json_text(&json, "event", name);
    json_texts(&json, "resources", self->resources, self->resource_count);
    snprintf(token, sizeof token, "%" PRIu64, self->token);
    json_text_or_nothing(&json, "fence", self->token > 0 ? token : "");
    if (self->limit > 1)
        json_number_if(&json, "seat", self->token > 0, self->seat);
    if (self->is_shared)
        json_truth(&json, "shared", true);
    return json;
}

/* The event goes to the reader, who waits for it. False if it cannot be written. */
static bool event_end(struct json_writer *json, struct lock_command *self)
{
    struct buffer line = {0};
    bool is_written = true;
    json_close(json, '}');
    json_append_defused(&line, json->out->bytes, json->out->length);
    buffer_append(&line, "\n", 1);
    if (self->holds || self->as_json)
        is_written = line_output_write(self->holds ? &self->out : &self->errors, line.bytes, line.length);
    buffer_fini(json->out);
    buffer_fini(&line);
    return is_written;
}

/* While the loop runs, instead of command_complain, which waits for a reader of standard error. */
static void complain(struct lock_command *self, const char *format, ...) PRINTF_LIKE(2, 3);
static void complain(struct lock_command *self, const char *format, ...)
{
    struct buffer line = {0};
    char text[COMPLAINT_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    buffer_format(&line, "holdfast lock: %s\n", log_defuse(text));
    (void)line_output_write(&self->errors, line.bytes, line.length);
    buffer_fini(&line);
}

static bool state_tell(struct lock_command *self, const char *name, int64_t waited_ns)
{
    struct buffer out = {0};
    int64_t left_ns = self->lock != NULL ? redlock_validity_left_ns(redlock_lock_validity(self->lock)) : 0;
    struct json_writer json = event_begin(self, &out, name);
    json_seconds_if(&json, "deadline", left_ns > 0, wall_now().us + left_ns / NS_PER_US);
    json_number(&json, "remaining_ms", left_ns / NS_PER_MS);
    if (waited_ns >= 0)
        json_number(&json, "waited_ms", waited_ns / NS_PER_MS);
    return event_end(&json, self);
}

static void loss_tell(struct lock_command *self, const char *reason)
{
    struct buffer out = {0};
    struct json_writer json = event_begin(self, &out, "lost");
    json_text(&json, "reason", reason);
    event_end(&json, self);
    complain(self, "the lock was lost: %s%s", reason,
             self->holds ? "" : "; the command and all that it started are killed");
}

static void release_tell(struct lock_command *self, const struct redlock_event *event)
{
    struct buffer out = {0};
    struct json_writer json = event_begin(self, &out, "released");
    json_text(&json, "ending", redlock_ending_name(event->ending));
    json_number(&json, "held_ms", event->held_ns / NS_PER_MS);
    if (!self->holds)
        json_number(&json, "exit_status", self->exit_code);
    event_end(&json, self);
}

static void refusal_tell(struct lock_command *self, const struct redlock_event *event)
{
    struct buffer out = {0};
    struct json_writer json = event_begin(self, &out, "refused");
    json_text(&json, "answer", redlock_answer_name(event->answer));
    json_text(&json, "reason", event->reason);
    json_text_or_nothing(&json, "holder", event->holder != NULL ? event->holder : "");
    event_end(&json, self);
    complain(self, "%s: %s", redlock_answer_name(event->answer), event->reason);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void close_fired(struct loop_timer *timer)
{
    struct lock_command *self = list_owner(timer, struct lock_command, close);
    bool waits =
        redlock_group_busy(self->group) > 0 || line_output_waits(&self->out) || line_output_waits(&self->errors);
    if (waits && !instant_reached(loop_now(self->loop), self->close_by))
        loop_timer_set(self->loop, timer, loop_after(self->loop, POLL_NS));
    else
        loop_stop(self->loop);
}

static void leave(struct lock_command *self, int exit_code)
{
    if (self->has_left)
        return;
    self->has_left = true;
    self->exit_code = exit_code;
    self->close_by = loop_after(self->loop, CLOSE_NS);
    loop_timer_clear(self->loop, &self->settle);
    loop_timer_set(self->loop, &self->close, loop_after(self->loop, 0));
}

/* Ends with RELEASED, or with CANCELLED if the lock was not acquired yet. */
static void give_back(struct lock_command *self, int exit_code)
{
    int64_t held_ns = instant_since(self->held_since, instant_now());
    if (self->is_going)
        return;
    self->is_going = true;
    self->exit_code = exit_code;
    if (self->is_held && !self->is_lost && held_ns < self->at_least_ns)
        redlock_lock_linger(self->lock, self->at_least_ns - held_ns);
    else if (self->is_asking || self->is_held)
        redlock_lock_release(self->lock);
    else
        leave(self, exit_code);
}

/* --- the command -------------------------------------------------------------------------------------------------- */

/* After the command has ended, who started this process is interrupted where it waits for the end of the lock. */
static void command_interrupted(void *context, int number)
{
    struct lock_command *self = context;
    self->late = self->is_going ? number : 0;
    give_back(self, SIGNALED + number);
}

static void command_ended(void *context, int wait_status, bool was_killed)
{
    struct lock_command *self = context;
    int status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : SIGNALED + WTERMSIG(wait_status);
    if (was_killed && !self->is_lost)
        loss_tell(self, "this process stood still beyond its deadline");
    self->is_lost = self->is_lost || was_killed;
    give_back(self, self->is_lost ? EXIT_CODE_LOST : status);
}

/* Without its guard nobody knows whether the command has ended, so the lock stays until its ttl ends. */
static void command_failed(void *context, const char *reason)
{
    struct lock_command *self = context;
    complain(self, "the command cannot be guarded: %s", reason);
    if (!self->is_held || self->is_going) {
        give_back(self, EXIT_CODE_FAILURE);
        return;
    }
    self->is_going = self->is_lost = true;
    self->exit_code = EXIT_CODE_LOST;
    redlock_lock_linger(self->lock, REDLOCK_MS(self->terms.ttl_ms));
}

/* --- standard input of --hold ------------------------------------------------------------------------------------- */

static void input_close(struct lock_command *self)
{
    if (self->input_watch != NULL)
        loop_watch_stop(self->input_watch);
    self->input_watch = NULL;
    if (self->input >= 0)
        close(self->input);
    self->input = -1;
}

static void input_ended(struct lock_command *self)
{
    input_close(self);
    if (!self->is_held)
        complain(self, "standard input ended before the lock was acquired");
    give_back(self, self->is_held ? EXIT_CODE_OK : EXIT_CODE_TEMPORARY);
}

/* Each line asks for the state. A program that gets no answer must not believe that it holds the lock. One that reads
 * no answers gets no more of them: those that it would find later are old. */
static void input_ready(void *context, int events)
{
    struct lock_command *self = context;
    char bytes[512];
    (void)events;
    ssize_t length = read(self->input, bytes, sizeof bytes);
    if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR)) {
        input_ended(self);
        return;
    }
    for (ssize_t i = 0; i < length; i++)
        if (bytes[i] == '\n' && !line_output_waits(&self->out))
            state_tell(self, !self->is_held ? "waiting" : self->in_danger ? "danger" : "held", -1);
}

/* Opens a description of its own, because the loop makes it non-blocking for all that share it. A file or
 * /dev/null cannot be watched, and would end soon: it counts as ended. */
static void input_open(struct lock_command *self)
{
    struct stat facts;
    bool can_wait = fstat(STDIN_FILENO, &facts) == 0 &&
                    (S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode) || isatty(STDIN_FILENO));
    self->input = -1;
    if (!can_wait)
        return;
    self->input = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (self->input < 0)
        self->input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    if (self->input >= 0)
        self->input_watch = loop_watch_start(self->loop, self->input, LOOP_READABLE, input_ready, self);
}

static void hold_interrupted(void *context, int number)
{
    give_back(context, SIGNALED + number);
}

/* --- the lock ----------------------------------------------------------------------------------------------------- */

static void lock_had(struct lock_command *self, const struct redlock_event *event)
{
    self->is_held = true;
    self->held_since = instant_now();
    self->token = redlock_lock_token(self->lock);
    self->seat = redlock_lock_seat(self->lock);
    if (!state_tell(self, "held", event->waited_ns) && self->holds) {
        complain(self, "cannot write to standard output, so nobody knows that the lock is held");
        give_back(self, EXIT_CODE_FAILURE);
    } else if (!self->holds)
        guarded_command_start(&self->guard, self->lock, self->token);
    else if (self->input < 0)
        input_ended(self);
}

static void lock_refused(struct lock_command *self, const struct redlock_event *event)
{
    self->is_asking = false;
    if (event->answer == REDLOCK_CANCELLED) {
        leave(self, self->exit_code);
        return;
    }
    refusal_tell(self, event);
    leave(self, event->answer == REDLOCK_INVALID ? EXIT_CODE_USAGE : EXIT_CODE_TEMPORARY);
}

/* The zygote kills the command. The lock is released after that. */
static void lock_lost(struct lock_command *self, const struct redlock_event *event)
{
    self->is_lost = true;
    loss_tell(self, event->reason);
    if (self->holds)
        give_back(self, EXIT_CODE_LOST);
    else
        guarded_command_ring(&self->guard);
}

/* A lock that is gone at its release was lost before. */
static void lock_released(struct lock_command *self, const struct redlock_event *event)
{
    bool was_gone = event->ending == REDLOCK_EXPIRED || event->ending == REDLOCK_FOREIGN;
    if (was_gone && !self->is_lost) {
        complain(self, "the lock was gone before it was given back");
        self->exit_code = EXIT_CODE_LOST;
    }
    release_tell(self, event);
    leave(self, self->exit_code);
}

static void lock_event(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    struct lock_command *self = context;
    bool was_in_danger = self->in_danger;
    self->in_danger = redlock_validity_in_danger(redlock_lock_validity(lock));
    switch (event->kind) {
    case REDLOCK_EVENT_ANSWER:
        (event->answer == REDLOCK_ACQUIRED ? lock_had : lock_refused)(self, event);
        break;
    case REDLOCK_EVENT_EXTENDED:
        if (was_in_danger && !self->in_danger)
            state_tell(self, "held", -1);
        break;
    case REDLOCK_EVENT_DANGER:
        state_tell(self, "danger", -1);
        break;
    case REDLOCK_EVENT_LOST:
        lock_lost(self, event);
        break;
    case REDLOCK_EVENT_RELEASED:
        lock_released(self, event);
        break;
    }
}

/* False after a complaint: waiting would not help. */
static bool group_can_serve(struct lock_command *self)
{
    struct redlock_group_status status;
    redlock_group_status_read(self->group, &status);
    if (status.blank > status.nodes / 2)
        complain(self, "the lock nodes are no lock group: `holdfast nodes init` makes one of them");
    else if (status.max_ttl_ns > 0 && self->at_least_ns > status.max_ttl_ns)
        complain(self, "--at-least: at most the max_ttl of the group, %" PRId64 " s", status.max_ttl_ns / NS_PER_S);
    else
        return true;
    return false;
}

static void complaint_fired(struct loop_timer *timer)
{
    struct lock_command *self = list_owner(timer, struct lock_command, complaint);
    struct redlock_group_status status;
    redlock_group_status_read(self->group, &status);
    const char *trouble = redlock_group_trouble(self->group);
    if (!self->is_held && status.voters <= status.nodes / 2)
        complain(self, "%u of %u lock nodes can be reached, and %u vote: too few, so it waits for more%s%s%s",
                 status.up, status.nodes, status.voters, trouble[0] != '\0' ? " (" : "", trouble,
                 &")"[trouble[0] == '\0']);
}

/* Whoever names no ttl takes what the group allows. */
static void ttl_fit(struct lock_command *self)
{
    struct redlock_group_status status;
    redlock_group_status_read(self->group, &status);
    int64_t most_ms = ms_from_ns(status.max_ttl_ns);
    if (self->ttl_ns == 0 && most_ms > 0 && self->terms.ttl_ms > most_ms)
        self->terms.ttl_ms = most_ms;
}

static void lock_ask(struct lock_command *self)
{
    const struct redlock_request request = {.resources = (const char *const *)self->resources,
                                            .resource_count = self->resource_count,
                                            .owner = self->owner,
                                            .limit = (unsigned)self->limit,
                                            .shared = self->is_shared,
                                            .leaves_when_busy = self->terms.wait_ms == 0};
    ttl_fit(self);
    self->lock = redlock_lock_create(self->group, &self->terms, lock_event, self);
    self->is_asking = true;
    loop_timer_set(self->loop, &self->complaint, loop_after(self->loop, COMPLAINT_NS));
    if (!redlock_lock_acquire(self->lock, &request)) {
        self->is_asking = false;
        complain(self, "this cannot be locked");
        leave(self, EXIT_CODE_USAGE);
    }
}

static void settle_fired(struct loop_timer *timer)
{
    struct lock_command *self = list_owner(timer, struct lock_command, settle);
    if (!self->is_ready || !redlock_group_is_ready(self->group))
        loop_timer_set(self->loop, timer, loop_after(self->loop, POLL_NS));
    else if (group_can_serve(self))
        lock_ask(self);
    else
        leave(self, EXIT_CODE_USAGE);
}

static void command_ready(void *context)
{
    ((struct lock_command *)context)->is_ready = true;
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static bool parts_open(struct lock_command *self)
{
    static const int heard[HOLD_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct error error = ERROR_NONE;
    char reason[256] = "";
    self->loop = loop_create(&error);
    if (self->loop == NULL) {
        (void)command_complain(&command_lock, "%s", error.text);
        return false;
    }
    line_output_open(&self->out, self->loop, STDOUT_FILENO);
    line_output_open(&self->errors, self->loop, STDERR_FILENO);
    self->group = redlock_group_create(self->loop, &self->options, reason, sizeof reason);
    if (self->group == NULL) {
        (void)command_complain(&command_lock, "%s", reason);
        return false;
    }
    for (int i = 0; i < HOLD_SIGNALS && self->holds; i++)
        if (!process_ignores(heard[i]))
            self->signals[i] = loop_signal_start(self->loop, heard[i], hold_interrupted, self);
    if (self->holds)
        input_open(self);
    self->is_ready = self->holds;
    if (self->holds || guarded_command_open(&self->guard, self->loop, &error))
        return true;
    (void)command_complain(&command_lock, "%s", error.text);
    return false;
}

static void parts_close(struct lock_command *self)
{
    input_close(self);
    for (int i = 0; i < HOLD_SIGNALS; i++)
        if (self->signals[i] != NULL)
            loop_signal_stop(self->signals[i]);
    if (!self->holds)
        guarded_command_close(&self->guard);
    if (self->loop == NULL)
        return;
    loop_timer_clear(self->loop, &self->complaint);
    loop_timer_clear(self->loop, &self->settle);
    if (self->group != NULL) {
        redlock_lock_destroy(self->lock);
        redlock_group_destroy(self->group);
    }
    line_output_close(&self->out);
    line_output_close(&self->errors);
    loop_destroy(self->loop);
}

static void resources_export(const struct lock_command *self)
{
    struct buffer names = {0};
    for (unsigned i = 0; i < self->resource_count; i++)
        buffer_format(&names, "%s%s", i > 0 ? "\n" : "", self->resources[i]);
    setenv("HOLDFAST_RESOURCE", buffer_text(&names), 1);
    buffer_fini(&names);
}

/* Libraries abort when no descriptor is left, so the command refuses to begin with too few. */
static bool has_descriptors(void)
{
    enum { NEEDED = 16 };
    int spare[NEEDED], count = 0;
    while (count < NEEDED && (spare[count] = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0)
        count++;
    for (int i = 0; i < count; i++)
        close(spare[i]);
    return count == NEEDED;
}

static int lock_run(struct lock_command *self)
{
    struct error error = ERROR_NONE;
    self->exit_code = EXIT_CODE_FAILURE;
    self->input = -1;
    if (!has_descriptors()) {
        (void)command_complain(&command_lock,
                               "too many files are open: is the limit of open files (ulimit -n) too low?");
        return EXIT_CODE_FAILURE;
    }
    resources_export(self);
    self->guard = (struct guarded_command){.arguments = self->arguments,
                                           .signals_danger = self->signals_danger,
                                           .ready = command_ready,
                                           .interrupted = command_interrupted,
                                           .ended = command_ended,
                                           .failed = command_failed,
                                           .context = self};
    loop_timer_init(&self->settle, settle_fired);
    loop_timer_init(&self->complaint, complaint_fired);
    loop_timer_init(&self->close, close_fired);
    bool is_prepared = self->holds || guarded_command_prepare(&self->guard, &error);
    if (!is_prepared)
        (void)command_complain(&command_lock, "%s", error.text);
    /* Its thread starts after the zygote, and waits for a reader instead of the loop. */
    if (self->origin.is_verbose)
        (void)!log_start(&(struct log_options){.level = LOG_INFO, .fd = STDERR_FILENO}, &error);
    if (is_prepared && parts_open(self)) {
        loop_timer_set(self->loop, &self->settle, loop_now(self->loop));
        loop_run(self->loop);
    }
    parts_close(self);
    log_stop();
    return self->late != 0 && !self->is_lost ? SIGNALED + self->late : self->exit_code;
}

/* --- under the lock of another ------------------------------------------------------------------------------------ */

/* An exit code. Readers have the token of the last writer, so it does not tell who may write. */
static int token_check(struct nodes_session *session, const char *resource, unsigned seat, uint64_t token,
                       bool only_reads)
{
    char name[REDLOCK_SEAT_NAME_SIZE];
    struct redlock_holder holders[REDLOCK_HOLDERS_MAX];
    redlock_seat_name(resource, seat, name);
    enum redlock_nodes_end end = redlock_nodes_find(session->nodes, name);
    unsigned count = redlock_nodes_holders(session->nodes, holders);
    bool has_reader = false;
    for (unsigned i = 0; i < count; i++)
        if (holders[i].standing == REDLOCK_HELD && holders[i].token == token) {
            if (only_reads || !holders[i].is_reader)
                return EXIT_CODE_OK;
            has_reader = true;
        }
    bool is_unknown = end == REDLOCK_NODES_TOO_FEW && (count == 0 || holders[0].standing != REDLOCK_HELD);
    (void)command_complain(&command_lock, "%s %s held with the token %" PRIu64 "%s", resource,
                           is_unknown ? "may not be" : "is not", token,
                           has_reader ? ", except for reading: say --shared if the command only reads" : "");
    return is_unknown ? EXIT_CODE_TEMPORARY : EXIT_CODE_LOST;
}

/* The outer command guards all that it started, so this process just becomes the command. */
static int lock_reenter(struct lock_command *self)
{
    struct nodes_session session;
    char *rest = NULL;
    uint64_t token = strtoull(self->same_as, &rest, 10);
    const char *text = getenv("HOLDFAST_SEAT"); /* of the outer command */
    unsigned long seat = text != NULL ? strtoul(text, NULL, 10) : 1;
    seat = seat >= 1 && seat <= REDLOCK_LIMIT_MAX ? seat : 1;
    int code = EXIT_CODE_OK;
    if (token == 0 || *rest != '\0' || self->same_as[0] < '0' || self->same_as[0] > '9')
        return command_misused(&command_lock, "--same-as-holder: a token is a whole number, as in $HOLDFAST_FENCE");
    if (!nodes_session_open(&session, self->config, &self->login)) {
        (void)command_complain(&command_lock, "%s", session.reason);
        return EXIT_CODE_FAILURE;
    }
    for (unsigned i = 0; i < self->resource_count && code == EXIT_CODE_OK; i++)
        code = token_check(&session, self->resources[i], (unsigned)seat, token, self->is_shared);
    nodes_session_close(&session);
    if (code != EXIT_CODE_OK)
        return code;
    resources_export(self);
    setenv("HOLDFAST_FENCE", self->same_as, 1);
    execvp(self->arguments[0], self->arguments);
    code = errno == ENOENT ? 127 : 126;
    (void)command_complain(&command_lock, "%s: %s", self->arguments[0], strerror(errno));
    return code;
}

/* --- the command line --------------------------------------------------------------------------------------------- */

static int terms_check(struct lock_command *self)
{
    char reason[256] = "";
    struct error error = ERROR_NONE;
    if (!lock_setup_terms(self->config, &self->terms, &error)) {
        (void)command_complain(&command_lock, "%s", error.text);
        return EXIT_CODE_FAILURE;
    }
    self->options = lock_setup_options(self->config, "holdfast-lock", self->nodes);
    nodes_login_apply(&self->login, self->nodes, self->config->lock_node_count);
    self->terms.ttl_ms = self->ttl_ns > 0 ? ms_from_ns(self->ttl_ns) : self->terms.ttl_ms;
    self->terms.max_hold_ms = ms_from_ns(self->max_hold_ns);
    self->terms.wait_ms = ms_from_ns(self->never_waits ? 0 : self->has_wait ? self->wait_ns : FOREVER_NS);
    self->terms.unfenced = false;
    if (!redlock_terms_check(&self->terms, &self->options, reason, sizeof reason))
        return command_misused(&command_lock, "%s", reason);
    return EXIT_CODE_OK;
}

static int resources_check(const struct lock_command *self)
{
    if (self->resource_count == 0)
        return command_misused(&command_lock, "name what to lock");
    if (self->resource_count > REDLOCK_RESOURCES_MAX)
        return command_misused(&command_lock, "%u resources: one lock has at most %d", self->resource_count,
                               REDLOCK_RESOURCES_MAX);
    for (unsigned i = 0; i < self->resource_count; i++) {
        if (strchr(self->resources[i], '\n') != NULL)
            return command_misused(&command_lock, "a resource is one line, because $HOLDFAST_RESOURCE has one a line");
        int code = lock_resource_check(&command_lock, self->resources[i], self->options.key_prefix);
        if (code != EXIT_CODE_OK)
            return code;
    }
    return EXIT_CODE_OK;
}

static int line_check(const struct lock_command *self)
{
    if (self->holds && self->arguments != NULL)
        return command_misused(&command_lock, "--hold runs no command");
    if (!self->holds && (self->arguments == NULL || self->arguments[0] == NULL))
        return command_misused(&command_lock, "say what to run, behind --, or --hold");
    if (self->has_wait && self->never_waits)
        return command_misused(&command_lock, "--wait or --no-wait, not both");
    if (self->limit > 1 && self->resource_count > 1)
        return command_misused(&command_lock, "--limit is for one resource");
    if (self->limit > 1 && self->is_shared)
        return command_misused(&command_lock, "--limit or --shared, not both: any number may hold it with --shared");
    if (self->same_as != NULL &&
        (self->limit > 1 || self->holds || self->max_hold_ns > 0 || self->at_least_ns > 0 || self->ttl_ns > 0))
        return command_misused(&command_lock, "the lock of --same-as-holder has its own terms");
    if (self->wait_ns > FOREVER_NS)
        return command_misused(&command_lock, "--wait: a year at most; without it, it waits for ever");
    if (self->max_hold_ns > 0 && self->at_least_ns > self->max_hold_ns)
        return command_misused(&command_lock, "--at-least is longer than --max-hold");
    return EXIT_CODE_OK;
}

static int command_check_exists(const struct lock_command *self)
{
    struct error error = ERROR_NONE;
    int code = self->holds ? 0 : guarded_command_check(self->arguments[0], &error);
    if (code != 0)
        (void)command_complain(&command_lock, "%s: %s", self->arguments[0], error.text);
    return code;
}

static void owner_set(struct lock_command *self)
{
    char host[64] = "?";
    (void)gethostname(host, sizeof host - 1);
    const char *program = self->holds ? "--hold" : self->arguments[0], *slash = strrchr(program, '/');
    if (self->name != NULL)
        snprintf(self->owner, sizeof self->owner, "%s", self->name);
    else
        snprintf(self->owner, sizeof self->owner, "%s:%ld %s", host, (long)getpid(),
                 slash != NULL ? slash + 1 : program);
}

static int lock_with(struct lock_command *self)
{
    int code = line_check(self);
    if (code == EXIT_CODE_OK)
        code = nodes_login_check(&self->login, &command_lock);
    if (code == EXIT_CODE_OK)
        code = origin_open(&self->origin, &command_lock, ORIGIN_NEEDS_LOCKS, &self->config, NULL);
    if (code != EXIT_CODE_OK)
        return code;
    if (self->config->lock_node_count == 0) {
        (void)command_complain(&command_lock, "%s names no lock nodes", self->config->path);
        return EXIT_CODE_USAGE;
    }
    code = terms_check(self);
    if (code == EXIT_CODE_OK)
        code = resources_check(self);
    if (code == EXIT_CODE_OK)
        code = command_check_exists(self);
    if (code != EXIT_CODE_OK)
        return code;
    log_set_level(self->origin.is_verbose ? LOG_INFO : LOG_NOTHING);
    owner_set(self);
    return self->same_as != NULL ? lock_reenter(self) : lock_run(self);
}

/* The command as a shell runs it. */
static char **shell_arguments(char **given)
{
    static char shell[] = "/bin/sh", line[] = "-c", name[] = "sh";
    size_t count = 0;
    while (given[count] != NULL)
        count++;
    char **all = memory_zeroed(count + 4, sizeof *all);
    all[0] = shell;
    all[1] = line;
    all[2] = given[0];
    all[3] = name;
    memcpy(all + 4, given + 1, count * sizeof *all); /* with the NULL */
    return all;
}

/* A script that is interrupted at its terminal ends only if it sees that the signal ended the command. */
static int exit_as(int code)
{
    if (code == SIGNALED + SIGINT) {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, SIGINT);
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
        sigprocmask(SIG_UNBLOCK, &one, NULL);
    }
    return code;
}

/* Options end at --, and the command begins there: what looks like an option behind it is the command's. */
static int run(int argc, char **argv)
{
    struct lock_command self = {.origin = {.takes_lock_nodes = true, .changes = true}};
    struct command_line line;
    int before = 1;
    while (before < argc && strcmp(argv[before], "--") != 0)
        before++;
    if (!command_line_read(&line, &command_lock, before, argv, &self))
        return line.exit_code;
    self.resources = line.arguments;
    self.resource_count = (unsigned)line.argument_count;
    char **given = before < argc ? argv + before + 1 : NULL;
    bool is_shell = self.is_shell && given != NULL && given[0] != NULL;
    self.arguments = is_shell ? shell_arguments(given) : given;
    int code = lock_with(&self);
    if (is_shell)
        free(self.arguments);
    config_free(self.config);
    origin_close(&self.origin);
    return exit_as(code);
}

const struct command command_lock = {
    .name = "lock",
    .summary = "run a command under a lock, from any shell or language",
    .arguments = "RESOURCE... -- COMMAND [ARGS]",
    .about =
        "Takes the lock on every RESOURCE, all or none, runs COMMAND, and gives the lock back when COMMAND has ended.\n"
        "The lock is extended meanwhile. It is the lock of tasks that name the same resource, and excludes them.\n"
        "Without --wait it waits for its turn for ever; nothing is started before it is held.\n"
        "\n"
        "COMMAND runs as without it: terminal, standard input, open files, signals and Ctrl-Z. It gets\n"
        "  HOLDFAST_RESOURCE     the names, one a line\n"
        "  HOLDFAST_FENCE        the token of this hold: larger than all before it, for what checks it (with\n"
        "                        --shared, not smaller than that of the last writer)\n"
        "  HOLDFAST_SEAT         with --limit: which of the seats; fences are ordered for each seat only\n"
        "  HOLDFAST_DEADLINE_FD  a descriptor: readable when the lock is in danger, end of file when it ends\n"
        "When the lock is lost, COMMAND and all that it started are killed before anybody else can have it, also when\n"
        "this process is stopped or was killed. So is a command that Ctrl-Z stopped and that is not continued in "
        "time.\n"
        "What COMMAND leaves behind when it ends is killed too. It cannot gain privileges (sudo), because then it\n"
        "could not be killed: run `holdfast lock` under sudo instead.\n"
        "\n"
        "Not killed is what another service started for it (at, systemd-run, docker), and what COMMAND started if\n"
        "somebody also kills the process hf-zygote with SIGKILL. A machine that stood still may write late: what is\n"
        "written to can refuse that if it compares HOLDFAST_FENCE (docs/fencing.md).\n"
        "\n"
        "With --same-as-holder nothing is locked: if the nodes say that every RESOURCE is held with that token, this\n"
        "process becomes COMMAND. It is for scripts that call each other, inside the outer `holdfast lock`, which\n"
        "kills it when the outer command ends or its lock is lost. Elsewhere nothing kills it. Under a lock that was\n"
        "taken with --shared it needs --shared, too.\n"
        "\n"
        "With --hold there is no command, for programs in any language: it prints a line of JSON when it holds, when\n"
        "the lock is in danger and out of it, when it is lost, and when it is released. It releases when its standard\n"
        "input ends. Each line that it reads there is answered by one with the remaining time, unless nobody reads "
        "the\n"
        "answers: then it drops them. Who gets no answer (this process may be stopped) has to go by the last "
        "deadline.\n"
        "\n"
        "The lines of --hold and --json have: event (held, danger, lost, released, refused, waiting), resources,\n"
        "fence (a decimal string), seat (with --limit), shared, deadline (seconds since 1970), remaining_ms,\n"
        "waited_ms, reason, answer, holder, ending, held_ms, exit_status.\n"
        "\n"
        "Exit status: that of COMMAND, 128+n if signal n ended it; 75 the lock could not be taken in time; 76 it was\n"
        "lost; 126 COMMAND cannot be executed; 127 it is not there; 1 and 2 as for every command. --json tells 75 and\n"
        "76 of the lock from those of COMMAND.\n"
        "\n"
        "Without a configuration, --node or HOLDFAST_LOCK_NODES (separated by commas) name the lock nodes.\n",
    .examples = "  holdfast lock deploy:web -- ./deploy.sh\n"
                "  holdfast lock report --no-wait --at-least 30s -- ./report    # from cron on several hosts\n"
                "  holdfast lock site --shared -- ./backup    # beside others that only read\n"
                "  holdfast lock acct:42 --wait 10s --shell -- 'echo \"token $HOLDFAST_FENCE\"'\n",
    .options = options,
    .arguments_max = ARGUMENTS_MAX,
    .run = run,
};
