#include "worker/events/event_commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/memory.h"
#include "queue/envelope.h"
#include "worker/config/config_table.h"
#include "worker/config/surroundings.h"
#include "worker/isolation/input.h"
#include "worker/isolation/output.h"
#include "worker/isolation/program_environment.h"
#include "worker/isolation/program_status.h"

#define KILL_AFTER_NS (2 * NS_PER_S)
#define TELL_AFTER_NS (1 * NS_PER_S)

enum { STDOUT, STDERR, STREAMS };

struct event_commands {
    struct loop *loop;
    struct launcher *launcher;
    const struct config_event *settings;
    char *host;
    struct program_inheritance inheritance;
    char **configured;            /* variables; may be NULL */
    struct list waiting, running; /* struct event_command */
    unsigned waiting_count, running_count;
    unsigned dropped; /* and not logged yet */
    struct loop_timer dropped_told;
};

/* One event, until its command has ended. */
struct event_command {
    struct event_commands *owner;
    struct list link;
    char *name, *jid, *class_name;
    struct buffer text; /* for its standard input */
    struct child child;
    struct output *streams[STREAMS];
    struct output_budget budget;
    struct loop_timer limit;
    bool was_asked; /* to stop: it took too long */
};

/* --- the event as text -------------------------------------------------------------------------------------------- */

static void member_put(struct buffer *text, const char *name, const char *value)
{
    if (value == NULL || value[0] == '\0')
        return;
    buffer_format(text, ",\"%s\":", name);
    envelope_append_string(text, value, strlen(value));
}

static void event_write(const struct event *event, const char *host, struct buffer *text)
{
    buffer_format(text, "{\"event\":\"%s\"", event->name);
    member_put(text, "jid", event->jid);
    member_put(text, "class", event->class_name);
    member_put(text, "queue", event->queue);
    member_put(text, "resource", event->resource);
    member_put(text, "error_class", event->error_class);
    member_put(text, "message", event->message);
    member_put(text, "fence", event->fence);
    member_put(text, "host", host);
    buffer_format(text, ",\"at\":%.3f}\n", (double)event->at.us / (double)US_PER_S);
}

static void environment_write(const struct event_command *command, struct program_environment *environment)
{
    const struct event_commands *commands = command->owner;
    program_environment_put(environment, "HF_EVENT", command->name);
    program_environment_put(environment, "HF_JID", command->jid);
    program_environment_put(environment, "HF_CLASS", command->class_name);
    program_environment_list(environment, &commands->inheritance, (const char *const *)commands->configured);
}

/* --- one command -------------------------------------------------------------------------------------------------- */

static void next_start(struct event_commands *commands);

static struct event_command *command_create(struct event_commands *commands, const struct event *event)
{
    struct event_command *command = memory_new(struct event_command);
    command->owner = commands;
    command->name = memory_text(event->name);
    command->jid = memory_text(event->jid != NULL ? event->jid : "");
    command->class_name = memory_text(event->class_name != NULL ? event->class_name : "");
    event_write(event, commands->host, &command->text);
    list_init(&command->link);
    return command;
}

static void command_free(struct event_command *command)
{
    list_remove(&command->link);
    loop_timer_clear(command->owner->loop, &command->limit);
    for (int i = 0; i < STREAMS; i++)
        output_close(command->streams[i]);
    buffer_fini(&command->text);
    free(command->name);
    free(command->jid);
    free(command->class_name);
    free(command);
}

static void command_end(struct event_command *command)
{
    struct event_commands *commands = command->owner;
    commands->running_count--;
    command_free(command);
    next_start(commands);
}

static void failure_tell(const struct event_command *command, const char *reason)
{
    char jid[LOG_QUOTE_MAX], why[LOG_QUOTE_MAX];
    log_event(LOG_WARN, "event_command_failed", "event=%s jid=%s reason=%s", command->name,
              log_value(command->jid, jid), log_value(reason, why));
}

static void line_tell(const struct event_command *command, const char *stream, const char *line, size_t length)
{
    char jid[LOG_QUOTE_MAX], text[LOG_QUOTE_MAX];
    if (line != NULL)
        log_event(LOG_INFO, "event_output", "event=%s jid=%s stream=%s text=%s", command->name,
                  log_value(command->jid, jid), stream, log_value_bytes(line, length, text));
}

static void stdout_told(void *context, const char *line, size_t length)
{
    line_tell(context, "stdout", line, length);
}

static void stderr_told(void *context, const char *line, size_t length)
{
    line_tell(context, "stderr", line, length);
}

static void command_spawned(struct child *child, pid_t pid, int failure)
{
    struct event_command *command = list_owner(child, struct event_command, child);
    char reason[512];
    (void)pid;
    if (failure == 0)
        return;
    program_start_verdict(command->owner->settings->command.count > 0 ? command->owner->settings->command.items[0] : "",
                          failure, reason, sizeof reason);
    failure_tell(command, reason);
    command_end(command);
}

static void verdict_tell(const struct event_command *command, int wait_status)
{
    struct failure *failure = memory_new(struct failure);
    struct program_end end = {.wait_status = wait_status};
    end.last_line = output_last(command->streams[STDERR], &end.last_length);
    if (program_verdict(&end, failure) != HF_OK)
        failure_tell(command, command->was_asked            ? "it ran for longer than on_event.timeout"
                              : failure->message[0] == '\0' ? "it exited with another status than 0"
                                                            : failure->message);
    free(failure);
}

static void command_exited(struct child *child, const struct child_exit *end)
{
    struct event_command *command = list_owner(child, struct event_command, child);
    const struct output_budget *budget = &command->budget;
    for (int i = 0; i < STREAMS; i++)
        output_drain(command->streams[i]);
    if (budget->dropped_bytes > 0)
        log_event(LOG_WARN, "event_output_dropped", "event=%s lines=%llu bytes=%llu", command->name,
                  (unsigned long long)budget->dropped_lines, (unsigned long long)budget->dropped_bytes);
    verdict_tell(command, end->wait_status);
    command_end(command);
}

static void time_is_over(struct loop_timer *timer)
{
    struct event_command *command = list_owner(timer, struct event_command, limit);
    struct event_commands *commands = command->owner;
    launcher_kill(commands->launcher, &command->child, command->was_asked ? SIGKILL : SIGTERM);
    if (!command->was_asked)
        loop_timer_set(commands->loop, timer, loop_after(commands->loop, KILL_AFTER_NS));
    command->was_asked = true;
}

/* --- the start ---------------------------------------------------------------------------------------------------- */

static bool stream_open(struct event_command *command, int stream, int *end)
{
    int pair[2];
    if (!output_pipe(pair))
        return false;
    command->streams[stream] = output_open(command->owner->loop, pair[0], &command->budget,
                                           stream == STDOUT ? stdout_told : stderr_told, command);
    *end = pair[1];
    return true;
}

static void command_order(struct event_command *command, const int ends[])
{
    struct event_commands *commands = command->owner;
    const struct config_words *words = &commands->settings->command;
    const char **arguments = memory_zeroed(words->count + 1, sizeof arguments[0]);
    const char *directory = commands->settings->surroundings.directory;
    struct program_environment environment = {0};
    for (size_t i = 0; i < words->count; i++)
        arguments[i] = words->items[i];
    environment_write(command, &environment);
    struct child_plan plan = {.kind = CHILD_PROGRAM,
                              .descriptors = {ends[0], ends[1], ends[2]},
                              .descriptor_count = 3,
                              .arguments = arguments,
                              .environment = environment.variables,
                              .directory = directory != NULL && directory[0] != '\0' ? directory : NULL};
    launcher_spawn(commands->launcher, &command->child, &plan);
    program_environment_fini(&environment);
    free(arguments);
}

/* False when the worker lacks descriptors: that is logged, and the event is over. */
static bool command_start(struct event_command *command)
{
    struct event_commands *commands = command->owner;
    int ends[3] = {-1, -1, -1};
    child_init(&command->child, command_spawned, command_exited);
    bool is_connected = (ends[0] = input_open(command->text.bytes, command->text.length)) >= 0 &&
                        stream_open(command, STDOUT, &ends[1]) && stream_open(command, STDERR, &ends[2]);
    if (is_connected) {
        command_order(command, ends);
        loop_timer_set(commands->loop, &command->limit, loop_after(commands->loop, commands->settings->timeout_ns));
    } else {
        failure_tell(command, strerror(errno));
    }
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    return is_connected;
}

static void next_start(struct event_commands *commands)
{
    const struct config_event *settings = commands->settings;
    while (commands->running_count < settings->parallel && !list_is_empty(&commands->waiting)) {
        struct event_command *command = list_owner(commands->waiting.next, struct event_command, link);
        list_remove(&command->link);
        commands->waiting_count--;
        if (settings->command.count == 0 || !command_start(command)) {
            command_free(command);
            continue;
        }
        list_append(&commands->running, &command->link);
        commands->running_count++;
    }
}

/* --- what users see ----------------------------------------------------------------------------------------------- */

static void dropped_tell(struct event_commands *commands)
{
    if (commands->dropped == 0)
        return;
    log_event(LOG_WARN, "events_dropped", "count=%u advice=\"the command of on_event is too slow for them\"",
              commands->dropped);
    commands->dropped = 0;
}

static void dropped_fires(struct loop_timer *timer)
{
    dropped_tell(list_owner(timer, struct event_commands, dropped_told));
}

bool event_commands_want(const struct event_commands *commands, const char *name)
{
    const struct config_event *settings = commands->settings;
    return settings->command.count > 0 && config_words_hold(&settings->events, name);
}

void event_commands_tell(struct event_commands *commands, const struct event *event)
{
    if (!event_commands_want(commands, event->name))
        return;
    if (commands->waiting_count == EVENTS_WAITING_MAX) {
        commands->dropped++;
        if (!loop_timer_is_set(&commands->dropped_told))
            loop_timer_set(commands->loop, &commands->dropped_told, loop_after(commands->loop, TELL_AFTER_NS));
        return;
    }
    struct event_command *command = command_create(commands, event);
    loop_timer_init(&command->limit, time_is_over);
    list_append(&commands->waiting, &command->link);
    commands->waiting_count++;
    next_start(commands);
}

bool event_commands_are_busy(const struct event_commands *commands)
{
    return commands->running_count > 0 || commands->waiting_count > 0;
}

struct event_commands *event_commands_create(struct loop *loop, struct launcher *launcher,
                                             const struct config_event *settings, const char *host)
{
    struct event_commands *commands = memory_new(struct event_commands);
    commands->loop = loop;
    commands->launcher = launcher;
    commands->settings = settings;
    commands->host = memory_text(host);
    list_init(&commands->waiting);
    list_init(&commands->running);
    loop_timer_init(&commands->dropped_told, dropped_fires);
    program_inheritance_take(&commands->inheritance);
    return commands;
}

void event_commands_set_environment(struct event_commands *commands, char **environment)
{
    surroundings_forget(commands->configured);
    commands->configured = environment;
}

void event_commands_destroy(struct event_commands *commands)
{
    if (commands == NULL)
        return;
    commands->dropped += commands->waiting_count;
    while (!list_is_empty(&commands->waiting))
        command_free(list_owner(commands->waiting.next, struct event_command, link));
    while (!list_is_empty(&commands->running)) {
        struct event_command *command = list_owner(commands->running.next, struct event_command, link);
        failure_tell(command, "it was killed, because the worker ends");
        launcher_kill(commands->launcher, &command->child, SIGKILL);
        list_remove(&command->child.link);
        command_free(command);
    }
    dropped_tell(commands);
    loop_timer_clear(commands->loop, &commands->dropped_told);
    program_inheritance_fini(&commands->inheritance);
    surroundings_forget(commands->configured);
    free(commands->host);
    free(commands);
}
