/* A worker process of a dry run. It is made as `holdfast work` makes itself: board, zygote, notes of crashes, log, in
 * this order and before any thread; then it waits at the gate, so that all begin at once and nothing of the preparation
 * is measured. */
#include "worker/dry_run/crew/workforce_member.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "worker/crash_note.h"
#include "worker/dry_run/crew/argument_check.h"
#include "worker/isolation/runner_process.h"
#include "worker/signals.h"
#include "worker/worker.h"

/* As in command_work.c. */
#define MALLOC_ARENAS 2

struct member {
    const struct workforce_member *given;
    struct zygote zygote;
    struct argument_check *check;
    struct simulation *simulation;
    struct plugins *plugins;
    struct record_ring *ring; /* of the loop */
    struct buffer text;
};

/* --- observing ---------------------------------------------------------------------------------------------------- */

static void task_left(void *context, const struct observed_task *task)
{
    struct member *member = context;
    buffer_clear(&member->text);
    record_write_task(&member->text, task);
    record_ring_put(member->ring, member->text.bytes, member->text.length);
}

static void looked(void *context, const struct observed_process *process)
{
    struct member *member = context;
    buffer_clear(&member->text);
    record_write_process(&member->text, process);
    record_ring_put(member->ring, member->text.bytes, member->text.length);
}

/* --- becoming ----------------------------------------------------------------------------------------------------- */

/* What the caller did with signals is its own affair. */
static void signals_reset(void)
{
    static const int usual[] = {SIGQUIT, SIGPIPE, SIGCHLD, SIGALRM, SIGTTOU, SIGCONT, SIGWINCH};
    for (unsigned i = 0; i < sizeof usual / sizeof usual[0]; i++)
        signal(usual[i], SIG_DFL);
    signals_hold();
}

static void belong_to(pid_t parent)
{
    setpgid(0, 0);
    signals_reset();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(EXIT_CODE_FAILURE);
    unsetenv("NOTIFY_SOCKET");
}

/* False after saying why in the log, which is where the caller looks. */
static bool prepare(struct member *member)
{
    const struct workforce_member *given = member->given;
    const struct workforce_options *options = given->options;
    const struct log_options log = {.level = options->config->worker.log_level, .fd = given->log};
    struct error error = ERROR_NONE;
    mallopt(M_ARENA_MAX, MALLOC_ARENAS);
    bool is_well = zygote_start(
        &member->zygote, &(struct zygote_options){.board = given->board, .runner = runner_main, .log = log}, &error);
    is_well = is_well && argument_check_start(&member->check, options->plugins,
                                              (size_t)options->config->worker.max_task_size, 0, &error);
    crash_notes_begin(given->board);
    is_well = is_well && log_start(&log, &error);
    if (!is_well) {
        dprintf(given->log, "%s\n", error.text);
        return false;
    }
    member->ring = given->rings[0];
    member->simulation = simulation_create(&(struct simulation_options){.plan = options->plan,
                                                                        .classes = options->classes,
                                                                        .class_count = options->class_count,
                                                                        .rings = given->rings + 1,
                                                                        .ring_count = given->ring_count - 1,
                                                                        .lost = &given->share->witness_lost,
                                                                        .check = member->check});
    member->plugins = simulated_plugins(member->simulation, options->plugins);
    return true;
}

/* False when nobody is there any more who could open it. A signal ends a poll, also under a sanitizer, which keeps it
 * back while a read goes on. */
static bool gate_await(int gate)
{
    char byte;
    struct pollfd readable = {.fd = gate, .events = POLLIN};
    while (poll(&readable, 1, -1) < 0 && errno == EINTR)
        continue;
    return read(gate, &byte, 1) == 1;
}

static int work(struct member *member)
{
    const struct workforce_member *given = member->given;
    const struct worker_observer observer = {.task_left = task_left, .looked = looked, .context = member};
    const struct worker_options options = {.config = given->options->config,
                                           .plugins = member->plugins,
                                           .board = given->board,
                                           .zygote = &member->zygote,
                                           .key_space = given->options->key_space,
                                           .observer = &observer};
    bool abandoned = false;
    int code = (int)worker_run(&options, &abandoned);
    crash_note_own_end();
    if (abandoned) {
        log_stop();
        _exit(code); /* a thread still uses what would be freed */
    }
    return code;
}

/* Nothing of what the caller wants done at its own end (atexit) is done here. */
void workforce_member_run(const struct workforce_member *given, pid_t parent)
{
    struct member member = {.given = given};
    int code = EXIT_CODE_FAILURE;
    belong_to(parent);
    if (prepare(&member)) {
        atomic_store(&given->share->is_ready, true);
        code = gate_await(given->gate) ? work(&member) : EXIT_CODE_FAILURE;
        log_stop();
        plugins_close(member.plugins);
        simulation_destroy(member.simulation);
    }
    argument_check_end(member.check);
    if (member.zygote.pid != 0)
        zygote_end(&member.zygote);
    crash_notes_end();
    buffer_fini(&member.text);
    _exit(code);
}
