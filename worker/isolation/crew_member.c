/* The birth, the life and the end of one runner process, on the loop. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/isolation/child_end.h"
#include "worker/isolation/crew_private.h"
#include "worker/config/node_options.h"

static bool has_place(enum member_state state)
{
    return state == MEMBER_STARTING || state == MEMBER_IDLE || state == MEMBER_BUSY;
}

/* --- what it is in ---------------------------------------------------------------------------------------------- */

static void counts_change(struct crew_member *member, enum member_state to)
{
    struct crew_pool *pool = member->pool;
    bool had_place = has_place(member->state), keeps_place = has_place(to);
    pool->starting -= member->state == MEMBER_STARTING;
    pool->starting += to == MEMBER_STARTING;
    if (had_place == keeps_place)
        return;
    invariant(had_place); /* nobody comes back */
    pool->members--;
    member->crew->active--;
    member->crew->leaving++;
}

static void idle_begin(struct crew_member *member)
{
    struct crew *crew = member->crew;
    member->idle_since = loop_now(crew->options.loop);
    list_prepend(&member->pool->idle, &member->idle_link);
    crew_idle_plan(crew);
}

void member_enter(struct crew_member *member, enum member_state state)
{
    struct loop *loop = member->crew->options.loop;
    counts_change(member, state);
    list_remove(&member->idle_link);
    if (member->state == MEMBER_STARTING && state != MEMBER_STARTING)
        loop_timer_clear(loop, &member->patience);
    member->state = state;
    if (state == MEMBER_IDLE)
        idle_begin(member);
    if (state == MEMBER_LEAVING)
        loop_timer_set(loop, &member->patience, loop_after(loop, member->crew->times.leave_ns));
    if (state == MEMBER_CONDEMNED && member->watch != NULL) {
        loop_watch_stop(member->watch);
        member->watch = NULL;
    }
    if (state != MEMBER_BUSY)
        crew_look(member->crew);
}

static void strike(struct crew_member *member, const char *reason)
{
    if (member->was_opened || member->has_struck || member->was_dismissed)
        return;
    member->has_struck = true;
    pool_struck(member->pool, reason);
}

void member_condemn(struct crew_member *member, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(member->complaint, sizeof member->complaint, format, arguments);
    va_end(arguments);
    strike(member, member->complaint);
    member_unask(member);
    launcher_kill(member->crew->options.launcher, &member->child, SIGKILL);
    if (member->state != MEMBER_CONDEMNED)
        member_enter(member, MEMBER_CONDEMNED);
}

/* It hung up before it was given anything to do. It may be dead, or in a plugin that hangs with its socket closed. */
static void member_cut_off(struct crew_member *member)
{
    launcher_kill(member->crew->options.launcher, &member->child, SIGKILL);
    member_enter(member, MEMBER_CONDEMNED);
}

static void patience_is_over(struct loop_timer *timer)
{
    struct crew_member *member = list_owner(timer, struct crew_member, patience);
    if (member->state == MEMBER_STARTING)
        member_condemn(member, "did not open its plugin in time");
    else
        member_condemn(member, "did not close its plugin in time");
}

/* --- the end ---------------------------------------------------------------------------------------------------- */

static void end_log(const struct crew_member *member, const char *ending)
{
    char path[LOG_QUOTE_MAX], jid[LOG_QUOTE_MAX], reason[LOG_QUOTE_MAX];
    const char *plugin = log_value(plugin_path(member->pool->plugin), path);
    if (member->run != NULL)
        log_event(LOG_WARN, "runner_crashed", "pid=%ld plugin=%s jid=%s reason=%s", (long)member->pid, plugin,
                  log_value(member->run->job->jid, jid), log_value(ending, reason));
    else if (!member->was_dismissed)
        log_event(LOG_INFO, "runner_ended", "pid=%ld plugin=%s reason=%s", (long)member->pid, plugin,
                  log_value(ending, reason));
    else
        log_event(LOG_DEBUG, "runner_ended", "pid=%ld plugin=%s runs=%u", (long)member->pid, plugin, member->runs);
}

/* The process is free of the run before that is told: what is told may begin another. */
static void run_end(struct crew_member *member, int code)
{
    struct isolated_run *run = member->run;
    member_unask(member);
    atomic_store(&run->berth->occupant, 0);
    member->run = NULL;
    run->place = NULL;
    output_log_dropped(run->job->jid, run->job->class_name, &member->budget);
    run->ended(run, code);
}

void member_finish(struct crew_member *member, int code)
{
    const struct task_rules *rules = member->run->rules;
    member->runs++;
    output_drain(member->output); /* while it is known whose it is */
    bool is_worn = (rules->tasks_per_process > 0 && member->runs >= rules->tasks_per_process) ||
                   (rules->memory_per_process > 0 && member->memory > rules->memory_per_process) ||
                   member->generation != member->crew->generation;
    if (is_worn)
        member_retire(member);
    else
        member_enter(member, MEMBER_IDLE);
    run_end(member, code);
}

/* It was reaped. What it said before is still in the socket: perhaps the end of its run. */
static void exited(struct child *child, const struct child_exit *end)
{
    struct crew_member *member = list_owner(child, struct crew_member, child);
    struct crew *crew = member->crew;
    char ending[sizeof member->complaint];
    if (member->watch != NULL)
        (void)member_listen(member);
    output_drain(member->output);
    child_end_describe(end->wait_status, ending, sizeof ending);
    if (end->killed_run != 0)
        snprintf(ending, sizeof ending, "was killed because the time of its run was over");
    else if (member->complaint[0] != '\0')
        snprintf(ending, sizeof ending, "%s", member->complaint);
    end_log(member, ending);
    strike(member, ending);
    if (member->run != NULL)
        run_end(member, crew_verdict(member->run, member->run_number, crew->options.board, end, member->complaint));
    member_free(member);
    crew_look(crew);
}

void member_free(struct crew_member *member)
{
    struct crew *crew = member->crew;
    list_remove(&member->link);
    list_remove(&member->idle_link);
    list_remove(&member->child.link);
    loop_timer_clear(crew->options.loop, &member->patience);
    if (member->watch != NULL)
        loop_watch_stop(member->watch);
    if (member->socket >= 0)
        close(member->socket);
    output_close(member->output);
    if (has_place(member->state)) {
        member->pool->starting -= member->state == MEMBER_STARTING;
        member->pool->members--;
        crew->active--;
    } else {
        crew->leaving--;
    }
    buffer_fini(&member->in);
    buffer_fini(&member->out);
    free(member);
}

/* --- the birth -------------------------------------------------------------------------------------------------- */

static void spawned(struct child *child, pid_t pid, int failure)
{
    struct crew_member *member = list_owner(child, struct crew_member, child);
    struct crew *crew = member->crew;
    char reason[160], path[LOG_QUOTE_MAX];
    member->pid = pid;
    if (failure == 0) {
        log_event(LOG_DEBUG, "runner_started", "pid=%ld plugin=%s", (long)pid,
                  log_value(plugin_path(member->pool->plugin), path));
        return;
    }
    snprintf(reason, sizeof reason, "no process could be started for it: %s", strerror(failure));
    strike(member, reason);
    member_free(member);
    crew_look(crew);
}

static void output_told(void *context, const char *line, size_t length)
{
    const struct crew_member *member = context;
    char path[LOG_QUOTE_MAX], text[LOG_QUOTE_MAX];
    if (line == NULL)
        return;
    if (member->run != NULL)
        output_log(member->run->job->jid, member->run->job->class_name, "output", line, length);
    else
        log_event(LOG_INFO, "runner_output", "pid=%ld plugin=%s text=%s", (long)member->pid,
                  log_value(plugin_path(member->pool->plugin), path), log_value_bytes(line, length, text));
}

static const struct config_pairs *settings_of(const struct config *config, const char *plugin)
{
    for (size_t i = 0; i < config->plugin_count; i++)
        if (strcmp(config->plugins[i].name, plugin) == 0)
            return &config->plugins[i].settings;
    return NULL;
}

static void hello_send(struct crew_member *member)
{
    const struct config *config = member->crew->options.config;
    const struct plugin *plugin = member->pool->plugin;
    const struct runner_hello hello = {
        .path = plugin_path(plugin),
        .plugin = plugin_name(plugin),
        .settings = settings_of(config, plugin_name(plugin)),
        .patience_ns = lock_setup_verify_patience_ns(config),
    };
    runner_hello_write(&hello, &member->out);
    (void)member_flush(member); /* it has just been made; an end shows at the socket */
}

struct ends {
    int socket[2], output[2];
};

static void pair_close(const int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

/* Only the worker's end of the socket does not block. */
static bool ends_open(struct ends *ends)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends->socket) != 0)
        return false;
    if (fcntl(ends->socket[0], F_SETFL, O_NONBLOCK) == 0 && output_pipe(ends->output))
        return true;
    int failure = errno;
    pair_close(ends->socket);
    errno = failure;
    return false;
}

static struct crew_member *member_new(struct crew_pool *pool, const struct ends *ends)
{
    struct crew *crew = pool->crew;
    struct loop *loop = crew->options.loop;
    struct crew_member *member = memory_new(struct crew_member);
    *member =
        (struct crew_member){.crew = crew, .pool = pool, .generation = crew->generation, .socket = ends->socket[0]};
    list_init(&member->link);
    list_init(&member->idle_link);
    list_append(&crew->members, &member->link);
    child_init(&member->child, spawned, exited);
    loop_timer_init(&member->patience, patience_is_over);
    loop_timer_set(loop, &member->patience, loop_after(loop, crew->times.open_ns));
    member->watch = loop_watch_start(loop, member->socket, LOOP_READABLE, member_watched, member);
    member->output = output_open(loop, ends->output[0], &member->budget, output_told, member);
    pool->members++;
    pool->starting++;
    crew->active++;
    return member;
}

bool member_create(struct crew_pool *pool, struct error *error)
{
    struct ends ends;
    if (!ends_open(&ends))
        return error_set(error, "no process could be started for it: %s", strerror(errno));
    struct crew_member *member = member_new(pool, &ends);
    const struct child_plan plan = {
        .kind = CHILD_RUNNER,
        .descriptors = {-1, ends.output[1], ends.output[1], ends.socket[1], plugin_file(pool->plugin)},
        .descriptor_count = RUNNER_PLUGIN_DESCRIPTOR + 1,
        .memory_bytes = pool->memory_limit,
        .open_files = pool->open_files_limit,
    };
    launcher_spawn(pool->crew->options.launcher, &member->child, &plan);
    close(ends.socket[1]);
    close(ends.output[1]);
    hello_send(member);
    return true;
}

/* --- its work --------------------------------------------------------------------------------------------------- */

/* The berth says whose time it is before the process hears of the run. */
static void berth_take(struct crew_member *member)
{
    const struct isolation_options *options = &member->crew->options;
    struct isolated_run *run = member->run;
    atomic_store(&run->berth->occupant, member->child.number);
    run->began(run);
    if (board_must_ring(options->board, run->berth))
        launcher_ring(options->launcher);
}

/* What the process need not even say. */
static enum hf_log_level level_heard(struct hf_job *job)
{
    enum hf_log_level level = HF_LOG_DEBUG;
    while (level <= HF_LOG_ERROR && !job->link->hears(job, level))
        level++;
    return level;
}

bool member_give(struct crew_member *member, struct isolated_run *run)
{
    const struct board *board = member->crew->options.board;
    invariant(member->state == MEMBER_IDLE && member->out.length == 0);
    struct runner_order order = {
        .berth = (unsigned)(run->berth - board->berths),
        .run = atomic_load_explicit(&run->berth->run, memory_order_relaxed),
        .log_level = level_heard(run->job),
        .has_lock = run->job->validity != NULL,
    };
    member->run = run;
    member->run_number = order.run;
    member->budget = (struct output_budget){.lines = 0};
    run->place = member;
    member_enter(member, MEMBER_BUSY);
    berth_take(member);
    runner_order_write(&order, run->job, &member->out);
    if (member_flush(member))
        return true;
    atomic_store(&run->berth->occupant, 0);
    member->run = NULL;
    member_cut_off(member);
    return false;
}

/* What it is to read takes no more than a few bytes, and it has read all that was sent before. */
void member_retire(struct crew_member *member)
{
    member->was_dismissed = true;
    size_t start = frame_begin(&member->out, FRAME_BYE);
    frame_end(&member->out, start);
    if (member_flush(member))
        member_enter(member, MEMBER_LEAVING);
    else
        member_cut_off(member);
}
