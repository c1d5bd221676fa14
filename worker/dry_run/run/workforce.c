/* First what a worker process does, then the side of the process that counts. What the two share is made before the
 * fork: the run table, the rings, the gate, and the pipe of the log, which neither side waits for. */
#include "worker/dry_run/run/workforce.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/dry_run/run/record_ring.h"
#include "worker/isolation/runner_process.h"
#include "worker/plugin/argument_check.h"
#include "worker/signals.h"
#include "worker/task/crash_note.h"
#include "worker/task/run_table.h"
#include "worker/worker.h"

/* A worker process of a dry run, and what it shares with the one that started it. It is made as `holdfast work`
 * makes itself: run table, zygote, notes of crashes, log, in this order and before any thread; then it waits at the
 * gate, so that all begin at once and nothing of the preparation is measured. */

/* Words that the new process writes. */
struct shared_words {
    _Alignas(64) atomic_bool is_ready;
    _Atomic uint64_t handler_lost;
};

struct process {
    const struct workforce_options *options;
    unsigned number; /* from 1 on */
    pid_t pid;       /* 0 = it is no more */
    bool is_told_to_end, was_killed;
    int gate;                /* a byte there: it may go; its end: the caller is gone */
    int log_read, log_write; /* the ends of the pipe of its log */
    struct buffer lines;
    /* shared */
    struct run_table *run_table;
    struct shared_words *words;
    size_t shared_size;         /* of these, and of the rings behind them */
    struct record_ring **rings; /* of its loop, and of each of its threads */
    unsigned ring_count;
};

/* As in command_work.c. */
#define MALLOC_ARENAS 2

struct member {
    const struct process *given;
    struct zygote zygote;
    struct argument_check *check;
    struct simulation *simulation;
    struct plugins *plugins;
    struct buffer text;
};

static void task_left(void *context, const struct observed_task *task)
{
    struct member *member = context;
    buffer_clear(&member->text);
    record_write_task(&member->text, task);
    record_ring_put(member->given->rings[0], member->text.bytes, member->text.length);
}

static void looked(void *context, const struct observed_process *process)
{
    struct member *member = context;
    buffer_clear(&member->text);
    record_write_process(&member->text, process);
    record_ring_put(member->given->rings[0], member->text.bytes, member->text.length);
}

/* --- becoming ----------------------------------------------------------------------------------------------------- */

/* False after saying why in the log, which is where the caller looks. */
static bool prepare(struct member *member)
{
    const struct process *given = member->given;
    const struct workforce_options *options = given->options;
    const struct log_options log = {.level = options->config->worker.log_level, .fd = given->log_write};
    struct error error = ERROR_NONE;
    mallopt(M_ARENA_MAX, MALLOC_ARENAS);
    bool is_well = zygote_start(
        &member->zygote, &(struct zygote_options){.run_table = given->run_table, .runner = runner_main, .log = log},
        &error);
    is_well = is_well && argument_check_start(&member->check, options->plugins,
                                              (size_t)options->config->worker.max_task_size, 0, &error);
    crash_notes_begin(given->run_table);
    is_well = is_well && log_start(&log, &error);
    if (!is_well) {
        dprintf(given->log_write, "%s\n", error.text);
        return false;
    }
    member->simulation = simulation_create(&(struct simulation_options){.plan = options->plan,
                                                                        .classes = options->classes,
                                                                        .class_count = options->class_count,
                                                                        .rings = given->rings + 1,
                                                                        .ring_count = given->ring_count - 1,
                                                                        .lost = &given->words->handler_lost,
                                                                        .check = member->check});
    member->plugins = simulated_plugins(member->simulation, options->plugins);
    return true;
}

/* False when the caller is gone. A signal ends a poll, also under a sanitizer, which holds it back during a read. */
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
    const struct process *given = member->given;
    const struct worker_observer observer = {.task_left = task_left, .looked = looked, .context = member};
    const struct worker_options options = {.config = given->options->config,
                                           .plugins = member->plugins,
                                           .run_table = given->run_table,
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

/* In the new process; ends it. Nothing of what the caller wants done at its own end (atexit) is done here. */
static _Noreturn void process_become(const struct process *given, pid_t parent)
{
    struct member member = {.given = given};
    int code = EXIT_CODE_FAILURE;
    setpgid(0, 0);
    /* What the caller did with signals is its own affair. */
    static const int usual[] = {SIGQUIT, SIGPIPE, SIGCHLD, SIGALRM, SIGTTOU, SIGCONT, SIGWINCH};
    for (unsigned i = 0; i < sizeof usual / sizeof usual[0]; i++)
        signal(usual[i], SIG_DFL);
    signals_hold();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(EXIT_CODE_FAILURE);
    unsetenv("NOTIFY_SOCKET");
    if (prepare(&member)) {
        atomic_store(&given->words->is_ready, true);
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

/* --- all of them -------------------------------------------------------------------------------------------------- */

/* What all rings of a kind take together, if no ring is smaller or larger than its bounds. */
#define RINGS_BYTES        ((size_t)256 << 20)
#define LOOP_RING_LEAST    ((size_t)1 << 20)
#define LOOP_RING_MOST     ((size_t)4 << 20)
#define HANDLER_RING_LEAST ((size_t)16 << 10)
#define HANDLER_RING_MOST  ((size_t)256 << 10)

enum { LOG_READ_MAX = 16 << 10 };

struct workforce {
    struct workforce_options options;
    struct process *processes;
    unsigned count;
    int gate[2];
    bool went;
    unsigned next_ring; /* of all, one process after the other */
    struct buffer bytes;
    uint64_t garbled; /* what was in a ring and was no record */
    struct record record;
};

/* --- what is shared ----------------------------------------------------------------------------------------------- */

static size_t ring_capacity(size_t rings, size_t least, size_t most)
{
    size_t capacity = most;
    while (capacity > least && capacity * rings > RINGS_BYTES)
        capacity /= 2;
    return capacity;
}

/* One piece of memory: the words, then the rings. */
static bool share_create(struct process *process, const struct dry_run_plan *plan)
{
    size_t loop_ring = ring_capacity(plan->processes, LOOP_RING_LEAST, LOOP_RING_MOST);
    size_t handler_ring = ring_capacity((size_t)plan->processes * plan->threads, HANDLER_RING_LEAST, HANDLER_RING_MOST);
    process->shared_size =
        sizeof(struct shared_words) + record_ring_size(loop_ring) + plan->threads * record_ring_size(handler_ring);
    void *memory =
        mmap(NULL, process->shared_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    process->words = memory;
    char *at = (char *)memory + sizeof(struct shared_words);
    process->rings = memory_zeroed(plan->threads + 1, sizeof process->rings[0]);
    process->rings[0] = record_ring_place(at, loop_ring);
    at += record_ring_size(loop_ring);
    for (unsigned i = 0; i < plan->threads; i++, at += record_ring_size(handler_ring))
        process->rings[1 + i] = record_ring_place(at, handler_ring);
    process->ring_count = plan->threads + 1;
    return true;
}

static bool process_prepare(struct workforce *workforce, unsigned index, struct error *error)
{
    struct process *process = &workforce->processes[index];
    const struct dry_run_plan *plan = workforce->options.plan;
    int ends[2];
    process->options = &workforce->options;
    process->number = index + 1;
    process->gate = workforce->gate[0];
    process->run_table = run_table_create(WORKER_SLOTS(plan->threads));
    if (process->run_table == NULL || !share_create(process, plan))
        return error_set(error, "there is no memory for %u processes of %u threads", plan->processes, plan->threads);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return error_set(error, "a pipe for the log of a worker: %s", strerror(errno));
    process->log_read = ends[0];
    process->log_write = ends[1];
    return true;
}

static void descriptor_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* --- starting ----------------------------------------------------------------------------------------------------- */

/* In the new process: what belongs to the others. */
static void others_forget(struct workforce *workforce, const struct process *own)
{
    descriptor_close(&workforce->gate[1]);
    for (unsigned i = 0; i < workforce->count; i++) {
        struct process *process = &workforce->processes[i];
        descriptor_close(&process->log_read);
        if (process != own)
            descriptor_close(&process->log_write);
    }
}

static bool process_fork(struct workforce *workforce, unsigned index, struct error *error)
{
    struct process *process = &workforce->processes[index];
    fflush(NULL);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        others_forget(workforce, process);
        process_become(process, parent);
    }
    if (pid < 0)
        return error_set(error, "worker process %u of %u cannot be started: %s", index + 1, workforce->count,
                         strerror(errno));
    process->pid = pid;
    setpgid(pid, pid); /* it does the same: one of both is first */
    descriptor_close(&process->log_write);
    return true;
}

struct workforce *workforce_start(const struct workforce_options *options, struct error *error)
{
    struct workforce *workforce = memory_new(struct workforce);
    workforce->options = *options;
    workforce->count = options->plan->processes;
    workforce->processes = memory_zeroed(workforce->count, sizeof workforce->processes[0]);
    for (unsigned i = 0; i < workforce->count; i++)
        workforce->processes[i].log_read = workforce->processes[i].log_write = -1;
    bool is_well = pipe2(workforce->gate, O_CLOEXEC) == 0;
    if (!is_well) {
        workforce->gate[0] = workforce->gate[1] = -1;
        error_set(error, "a pipe: %s", strerror(errno));
    }
    for (unsigned i = 0; is_well && i < workforce->count; i++)
        is_well = process_prepare(workforce, i, error);
    for (unsigned i = 0; is_well && i < workforce->count; i++)
        is_well = process_fork(workforce, i, error);
    if (is_well)
        return workforce;
    workforce_end(workforce);
    return NULL;
}

unsigned workforce_ready(const struct workforce *workforce)
{
    unsigned count = 0;
    for (unsigned i = 0; i < workforce->count; i++)
        count += atomic_load(&workforce->processes[i].words->is_ready);
    return count;
}

unsigned workforce_serving(const struct workforce *workforce)
{
    unsigned count = 0;
    for (unsigned i = 0; i < workforce->count; i++)
        count += atomic_load(&workforce->processes[i].run_table->has_asked);
    return count;
}

/* A byte for each: fewer than a pipe takes at once. */
void workforce_go(struct workforce *workforce)
{
    char bytes[DRY_RUN_PROCESSES_MAX] = {0};
    invariant(workforce->count <= sizeof bytes);
    if (workforce->went)
        return;
    workforce->went = true;
    invariant(write(workforce->gate[1], bytes, workforce->count) == (ssize_t)workforce->count);
}

/* --- what they say ------------------------------------------------------------------------------------------------ */

static size_t ring_read(struct workforce *workforce, unsigned index, struct record_ring *ring,
                        void (*take)(void *context, unsigned number, const struct record *record), void *context)
{
    size_t count = 0;
    buffer_clear(&workforce->bytes);
    size_t left = record_ring_take(ring, &workforce->bytes);
    const char *at = workforce->bytes.bytes, *start = at;
    for (; record_read(&at, &left, &workforce->record); start = at, count++)
        take(context, index + 1, &workforce->record);
    workforce->garbled += start != workforce->bytes.bytes + workforce->bytes.length;
    return count;
}

size_t workforce_read(struct workforce *workforce, size_t most,
                      void (*take)(void *context, unsigned number, const struct record *record), void *context)
{
    unsigned each = workforce->options.plan->threads + 1, all = workforce->count * each;
    size_t count = 0;
    for (unsigned looked = 0; looked < all && count < most; looked++) {
        unsigned number = workforce->next_ring, index = number / each;
        workforce->next_ring = (number + 1) % all;
        count += ring_read(workforce, index, workforce->processes[index].rings[number % each], take, context);
    }
    return count;
}

uint64_t workforce_records_lost(const struct workforce *workforce)
{
    uint64_t lost = workforce->garbled;
    for (unsigned i = 0; i < workforce->count; i++) {
        const struct process *process = &workforce->processes[i];
        lost += atomic_load(&process->words->handler_lost);
        for (unsigned j = 0; j < process->ring_count; j++)
            lost += record_ring_lost(process->rings[j]);
    }
    return lost;
}

static void line_tell(const struct process *process, char *text,
                      void (*line)(void *context, unsigned number, const char *text), void *context)
{
    if (strstr(text, SIMULATED_REASON) == NULL) /* the report counts those */
        line(context, process->number, log_defuse(text));
}

/* Whole lines; the last one of a process that has ended may lack its end. */
static void lines_tell(struct process *process, bool is_over,
                       void (*line)(void *context, unsigned number, const char *text), void *context)
{
    struct buffer *lines = &process->lines;
    char *end;
    while (lines->length > 0 && (end = memchr(lines->bytes, '\n', lines->length)) != NULL) {
        *end = '\0';
        line_tell(process, lines->bytes, line, context);
        buffer_drop_front(lines, (size_t)(end - lines->bytes) + 1);
    }
    if (lines->length == 0 || (!is_over && lines->length < LOG_LINE_MAX))
        return;
    buffer_append(lines, "", 1);
    line_tell(process, lines->bytes, line, context);
    buffer_clear(lines);
}

void workforce_read_log(struct workforce *workforce, void (*line)(void *context, unsigned number, const char *text),
                        void *context)
{
    for (unsigned i = 0; i < workforce->count; i++) {
        struct process *process = &workforce->processes[i];
        if (process->log_read < 0)
            continue;
        ssize_t length = read(process->log_read, buffer_reserve(&process->lines, LOG_READ_MAX), LOG_READ_MAX);
        bool is_over = length == 0;
        if (length > 0)
            process->lines.length += (size_t)length;
        lines_tell(process, is_over, line, context);
        if (is_over)
            descriptor_close(&process->log_read);
    }
}

/* --- what is done to them ----------------------------------------------------------------------------------------- */

static struct process *process_of(const struct workforce *workforce, unsigned number)
{
    return number >= 1 && number <= workforce->count ? &workforce->processes[number - 1] : NULL;
}

bool workforce_signal(struct workforce *workforce, unsigned number, int signal)
{
    struct process *process = process_of(workforce, number);
    bool is_sent = process != NULL && process->pid > 0 && kill(process->pid, signal) == 0;
    if (is_sent && signal == SIGKILL)
        process->was_killed = process->is_told_to_end = true;
    return is_sent;
}

void workforce_stop(struct workforce *workforce)
{
    for (unsigned i = 0; i < workforce->count; i++) {
        struct process *process = &workforce->processes[i];
        if (process->pid == 0)
            continue;
        process->is_told_to_end = true;
        kill(process->pid, SIGTERM);
        kill(process->pid, SIGCONT);
    }
}

/* --- what becomes of them ----------------------------------------------------------------------------------------- */

/* False while it is alive. */
static bool process_reap(struct process *process, int flags, struct workforce_exit *end)
{
    int status = 0;
    pid_t reaped;
    do
        reaped = waitpid(process->pid, &status, flags);
    while (reaped < 0 && errno == EINTR);
    if (reaped == 0)
        return false;
    bool is_orderly = reaped > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    *end = (struct workforce_exit){.number = process->number,
                                   .pid = process->pid,
                                   .wait_status = status,
                                   .was_killed = process->was_killed,
                                   .was_wanted = process->is_told_to_end,
                                   .was_orderly = is_orderly && atomic_load(&process->run_table->has_ended)};
    process->pid = 0;
    return true;
}

unsigned workforce_reap(struct workforce *workforce, void (*ended)(void *context, const struct workforce_exit *exit),
                        void *context)
{
    unsigned count = 0;
    struct workforce_exit end;
    for (unsigned i = 0; i < workforce->count; i++) {
        if (workforce->processes[i].pid == 0 || !process_reap(&workforce->processes[i], WNOHANG, &end))
            continue;
        count++;
        ended(context, &end);
    }
    return count;
}

unsigned workforce_alive(const struct workforce *workforce)
{
    unsigned count = 0;
    for (unsigned i = 0; i < workforce->count; i++)
        count += workforce->processes[i].pid > 0;
    return count;
}

pid_t workforce_pid(const struct workforce *workforce, unsigned number)
{
    const struct process *process = process_of(workforce, number);
    return process != NULL ? process->pid : 0;
}

static void process_forget(struct process *process)
{
    struct workforce_exit end;
    if (process->pid > 0) {
        kill(process->pid, SIGKILL);
        (void)process_reap(process, 0, &end);
    }
    run_table_destroy(process->run_table);
    free(process->rings);
    if (process->words != NULL)
        invariant(munmap(process->words, process->shared_size) == 0);
    descriptor_close(&process->log_read);
    descriptor_close(&process->log_write);
    buffer_fini(&process->lines);
}

void workforce_end(struct workforce *workforce)
{
    if (workforce == NULL)
        return;
    for (unsigned i = 0; i < workforce->count; i++)
        process_forget(&workforce->processes[i]);
    descriptor_close(&workforce->gate[0]);
    descriptor_close(&workforce->gate[1]);
    buffer_fini(&workforce->bytes);
    free(workforce->processes);
    free(workforce);
}
