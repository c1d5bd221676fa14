#include "worker/isolation/runner_process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/memory.h"
#include "worker/isolation/runner_link.h"
#include "worker/isolation/runner_surroundings.h"
#include "worker/plugin/plugin.h"

/* The memory is looked at once in so many runs, or in so long. */
enum { RUNS_A_LOOK = 16 };
#define LOOK_NS NS_PER_S

struct runner {
    struct board *board;
    struct runner_channel channel;
    struct buffer kept; /* the frame that the present run came in, or the greeting */
    struct buffer greeting;
    struct config config; /* nothing but the settings of the plugin */
    struct config_plugin settings;
    struct job_hosts *hosts;
    struct plugins *plugins;
    struct runner_surroundings surroundings;
    struct runner_run run;
    unsigned runs_since_look;
    struct instant looked;
};

/* --- opening the plugin ----------------------------------------------------------------------------------------- */

static void findings_tell(const struct findings *findings, char reason[RUNNER_REASON_MAX])
{
    snprintf(reason, RUNNER_REASON_MAX, "%s", findings->count > 0 ? findings->items[0].text : "it cannot be loaded");
}

/* The settings stand where the host functions look for them. */
static struct job_hosts *hosts_create(struct runner *runner, const struct runner_hello *hello)
{
    runner->settings.name = (char *)(uintptr_t)hello->plugin;
    runner->config.plugins = &runner->settings;
    runner->config.plugin_count = 1;
    return job_hosts_create(&runner->config);
}

static bool plugin_open(struct runner *runner, const struct runner_hello *hello, int file,
                        char reason[RUNNER_REASON_MAX])
{
    struct findings findings = {0};
    struct error error = ERROR_NONE;
    runner->plugins = plugins_load_file(file, hello->path, &findings);
    if (findings.errors > 0) {
        findings_tell(&findings, reason);
        findings_fini(&findings);
        return false;
    }
    findings_fini(&findings);
    runner->hosts = hosts_create(runner, hello);
    if (plugins_open(runner->plugins, job_hosts_for, runner->hosts, &error))
        return true;
    snprintf(reason, RUNNER_REASON_MAX, "%s", error.text);
    return false;
}

static bool opening_tell(struct runner *runner, bool is_open, const char *reason)
{
    struct buffer *out = channel_write(&runner->channel);
    if (out == NULL)
        return false;
    size_t start = frame_begin(out, is_open ? FRAME_READY : FRAME_REFUSED);
    if (!is_open)
        frame_add_string(out, reason, RUNNER_REASON_MAX);
    frame_end(out, start);
    return channel_send(&runner->channel);
}

/* False when this process has nothing more to do. */
static bool runner_open(struct runner *runner, int file)
{
    struct frame frame;
    struct runner_hello hello;
    char reason[RUNNER_REASON_MAX] = "";
    if (channel_receive(&runner->channel, INSTANT_NEVER, &frame) != CHANNEL_FRAME || frame.kind != FRAME_HELLO ||
        !runner_hello_read(&frame, &hello, &runner->settings.settings))
        return false;
    channel_keep(&runner->channel, &runner->greeting);
    runner->run.patience_ns = hello.patience_ns;
    bool is_open = plugin_open(runner, &hello, file, reason);
    surroundings_note(&runner->surroundings);
    return opening_tell(runner, is_open, reason) && is_open;
}

/* --- a run ------------------------------------------------------------------------------------------------------ */

/* Resident bytes; -1 when they were looked at a moment ago. */
static int64_t memory_look(struct runner *runner)
{
    struct instant now = instant_now();
    if (++runner->runs_since_look < RUNS_A_LOOK && instant_since(runner->looked, now) < LOOK_NS)
        return -1;
    runner->runs_since_look = 0;
    runner->looked = now;
    char text[128];
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0)
        close(file);
    if (length <= 0)
        return -1;
    text[length] = '\0';
    int64_t all = 0, resident = 0;
    return sscanf(text, "%" SCNd64 " %" SCNd64, &all, &resident) == 2 ? resident * sysconf(_SC_PAGESIZE) : -1;
}

/* The lock may have run out on the way. */
static void task_run(struct hf_job *job, const struct plugin_handler *handler, struct runner_end *end)
{
    char reason[256] = "";
    end->started = job_lock_is_valid(job);
    if (!end->started)
        return;
    if (job_is_unwanted(job)) {
        end->code = HF_CANCELLED;
    } else if (handler->check != NULL && !handler->check(job->args.bytes, job->args.length, reason, sizeof reason)) {
        reason[sizeof reason - 1] = '\0';
        failure_set(&job->outcome.failure, "HF::BadArguments", "%s", reason);
        end->code = HF_BURY;
    } else {
        end->code = handler->run(job, plugin_handler_state(handler));
    }
}

/* A process that a handler forked, and that came back from it, has nothing to say. */
static bool end_tell(struct runner *runner, const struct runner_end *end)
{
    struct buffer *out = channel_write(&runner->channel);
    if (out == NULL)
        _exit(0);
    runner_end_write(end, &runner->run.job.outcome, out);
    return channel_send(&runner->channel);
}

static bool order_take(struct runner *runner, const struct frame *frame, const struct plugin_handler **handler)
{
    struct runner_run *run = &runner->run;
    struct hf_job *job = &run->job;
    if (!runner_order_read(frame, &run->order, job) || run->order.berth >= runner->board->berth_count)
        return false;
    job->board = runner->board;
    job->berth = board_berth(runner->board, run->order.berth);
    job->validity = run->order.has_lock ? &job->berth->validity : NULL;
    *handler = plugins_find(runner->plugins, job->class_name);
    return *handler != NULL;
}

static bool runner_run(struct runner *runner, const struct frame *frame)
{
    const struct plugin_handler *handler = NULL;
    struct hf_job *job = &runner->run.job;
    struct runner_end end = {.started = false};
    channel_keep(&runner->channel, &runner->kept);
    job_outcome_clear(&job->outcome);
    if (!order_take(runner, frame, &handler))
        _exit(RUNNER_CONFUSED);
    task_run(job, handler, &end);
    if (!channel_is_ours(&runner->channel))
        _exit(0);
    fflush(stdout);
    end.run = runner->run.order.run;
    end.memory = memory_look(runner);
    runner_link_end(&runner->run);
    surroundings_restore(&runner->surroundings);
    bool is_told = end_tell(runner, &end);
    job_finish(job);
    return is_told;
}

/* --- the process ------------------------------------------------------------------------------------------------ */

static int runner_close(struct runner *runner, int status)
{
    plugins_close(runner->plugins);
    job_hosts_destroy(runner->hosts);
    job_outcome_fini(&runner->run.job.outcome);
    free(runner->settings.settings.items);
    free(runner->surroundings.locale);
    buffer_fini(&runner->greeting);
    buffer_fini(&runner->kept);
    buffer_fini(&runner->channel.in);
    buffer_fini(&runner->channel.out);
    fflush(NULL);
    return status;
}

static int runner_serve(struct runner *runner)
{
    struct frame frame;
    for (;;) {
        enum channel_news news = channel_receive(&runner->channel, INSTANT_NEVER, &frame);
        if (news == CHANNEL_NONSENSE)
            return RUNNER_CONFUSED;
        if (news != CHANNEL_FRAME)
            return RUNNER_CUT_OFF;
        if (frame.kind == FRAME_BYE)
            return runner_close(runner, 0);
        if (frame.kind == FRAME_VERIFIED || frame.kind == FRAME_DESCRIBED)
            continue; /* too late */
        if (frame.kind != FRAME_RUN)
            return RUNNER_CONFUSED;
        if (!runner_run(runner, &frame))
            return RUNNER_CUT_OFF;
    }
}

int runner_main(struct board *board, int socket)
{
    struct runner *runner = memory_new(struct runner);
    int file = descriptor_raise(RUNNER_PLUGIN_DESCRIPTOR);
    prctl(PR_SET_NAME, "hf-runner");
    signal(SIGPIPE, SIG_IGN); /* as it is for a handler in a thread of the worker */
    setvbuf(stdout, NULL, _IOLBF, 0);
    runner->board = board;
    (void)board_protect(board);
    channel_open(&runner->channel, socket, UINT32_MAX); /* what the worker may send changes with its configuration */
    runner->run.channel = &runner->channel;
    runner->run.job.link = &runner_link;
    runner->run.descriptor = -1;
    pthread_mutex_init(&runner->run.asking, NULL);
    return runner_open(runner, file) ? runner_serve(runner) : 0;
}
