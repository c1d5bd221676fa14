#include "worker/isolation/runner_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/memory.h"
#include "worker/isolation/runner_message.h"
#include "worker/plugin/plugin.h"

/* --- the channel -------------------------------------------------------------------------------------------------- */

/* A runner process's end of its socket, which carries frames.
 *
 *     struct buffer *out = channel_write(&channel);    NULL: the socket belongs to another process
 *     ... frames ...
 *     channel_send(&channel);
 *
 *     switch (channel_receive(&channel, INSTANT_NEVER, &frame)) ...      valid until the next one
 *
 * The handler shares the process, so the channel protects itself. Its descriptor has a high number, because a handler
 * may close low ones by mistake. It is checked before each message, because the handler may have closed it, and it
 * may be another file now. In a process that the handler forked it does not work.
 *
 * Threads: any may write; the callers ensure that one reads at a time. */

struct runner_channel {
    int socket;
    dev_t device; /* with the inode, identifies the socket */
    ino_t inode;
    pid_t owner;
    size_t limit; /* bytes of the body of a received frame */
    pthread_mutex_t writing;
    struct buffer out;
    struct buffer in;
    size_t taken; /* bytes of `in` that were returned */
    int passed;   /* the last received descriptor, not taken yet; -1 = none */
};

enum channel_news { CHANNEL_FRAME, CHANNEL_TOO_LATE, CHANNEL_GONE, CHANNEL_NONSENSE };

enum { HIGH_DESCRIPTOR = 200, READ_BYTES = 1 << 16, KEEP_BYTES_MAX = 1 << 20 };

/* Replaces the descriptor by a copy with a number far above those that programs use, or keeps it if the limit leaves
 * no room. Close-on-exec. */
static int descriptor_raise(int descriptor)
{
    struct rlimit limit = {.rlim_cur = HIGH_DESCRIPTOR * 2};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    int high = limit.rlim_cur > HIGH_DESCRIPTOR + 8 ? HIGH_DESCRIPTOR : (int)limit.rlim_cur / 2;
    int raised = fcntl(descriptor, F_DUPFD_CLOEXEC, high);
    if (raised < 0) {
        (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
        return descriptor;
    }
    close(descriptor);
    return raised;
}

static void channel_open(struct runner_channel *channel, int socket, size_t limit)
{
    struct stat facts = {0};
    *channel =
        (struct runner_channel){.socket = descriptor_raise(socket), .owner = getpid(), .limit = limit, .passed = -1};
    (void)fstat(channel->socket, &facts);
    channel->device = facts.st_dev;
    channel->inode = facts.st_ino;
    pthread_mutex_init(&channel->writing, NULL);
}

/* False in a fork of the process that opened the channel. */
static bool channel_is_ours(const struct runner_channel *channel)
{
    return getpid() == channel->owner;
}

/* The descriptor still is the socket. */
static bool is_sound(const struct runner_channel *channel)
{
    struct stat facts;
    return fstat(channel->socket, &facts) == 0 && facts.st_dev == channel->device && facts.st_ino == channel->inode;
}

/* False at `until`. */
static bool socket_await(const struct runner_channel *channel, short events, struct instant until)
{
    struct pollfd wanted = {.fd = channel->socket, .events = events};
    for (;;) {
        int64_t left_ns = instant_since(instant_now(), until);
        int timeout_ms = until.ns == INSTANT_NEVER.ns ? -1
                         : left_ns > 3600 * NS_PER_S  ? 3600 * 1000
                         : left_ns > 0                ? (int)(left_ns / NS_PER_MS) + 1
                                                      : 0;
        int ready = poll(&wanted, 1, timeout_ms);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return true; /* using the socket shows the error */
        if (ready == 0 && left_ns <= 0)
            return false;
    }
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* The buffer for frames; no other thread can write before channel_send. NULL in another process. */
static struct buffer *channel_write(struct runner_channel *channel)
{
    if (!channel_is_ours(channel))
        return NULL;
    pthread_mutex_lock(&channel->writing);
    return &channel->out;
}

static bool bytes_send(struct runner_channel *channel)
{
    size_t sent = 0;
    if (!is_sound(channel))
        return false;
    while (sent < channel->out.length) {
        ssize_t count = send(channel->socket, channel->out.bytes + sent, channel->out.length - sent, MSG_NOSIGNAL);
        if (count > 0)
            sent += (size_t)count;
        else if (errno == EAGAIN)
            (void)socket_await(channel, POLLOUT, INSTANT_NEVER);
        else if (errno != EINTR)
            return false;
    }
    return true;
}

/* False if the socket is gone. */
static bool channel_send(struct runner_channel *channel)
{
    bool is_sent = bytes_send(channel);
    buffer_clear(&channel->out);
    if (channel->out.capacity > KEEP_BYTES_MAX)
        buffer_fini(&channel->out);
    pthread_mutex_unlock(&channel->writing);
    return is_sent;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* The descriptor that came with the frame; -1 = none. The caller owns it. */
static int channel_take_descriptor(struct runner_channel *channel)
{
    int taken = channel->passed;
    channel->passed = -1;
    return taken;
}

static void passed_take(struct runner_channel *channel, struct msghdr *message)
{
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    if (head == NULL || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
        head->cmsg_len != CMSG_LEN(sizeof(int)))
        return;
    if (channel->passed >= 0)
        close(channel->passed);
    memcpy(&channel->passed, CMSG_DATA(head), sizeof channel->passed);
}

/* Receives at least one byte. The handler did nothing since the last message was sent, which checked the socket. */
static enum channel_news bytes_receive(struct runner_channel *channel, size_t wanted, struct instant until)
{
    size_t room = wanted > READ_BYTES ? wanted : READ_BYTES;
    struct iovec part = {.iov_base = buffer_reserve(&channel->in, room), .iov_len = room};
    for (;;) {
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        if (until.ns != INSTANT_NEVER.ns && !socket_await(channel, POLLIN, until))
            return CHANNEL_TOO_LATE;
        ssize_t count = recvmsg(channel->socket, &message, MSG_CMSG_CLOEXEC);
        if (count > 0) {
            channel->in.length += (size_t)count;
            passed_take(channel, &message);
            return CHANNEL_FRAME;
        }
        if (count < 0 && errno == EAGAIN)
            (void)socket_await(channel, POLLIN, until);
        else if (count == 0 || errno != EINTR)
            return CHANNEL_GONE;
    }
}

static enum channel_news channel_receive(struct runner_channel *channel, struct instant until, struct frame *frame)
{
    size_t whole = 0;
    buffer_drop_front(&channel->in, channel->taken);
    channel->taken = 0;
    for (;;) {
        enum frame_found found = frame_find(channel->in.bytes, channel->in.length, channel->limit, frame, &whole);
        if (found == FRAME_BROKEN)
            return CHANNEL_NONSENSE;
        if (found == FRAME_WHOLE)
            break;
        enum channel_news news = bytes_receive(channel, whole - channel->in.length, until);
        if (news != CHANNEL_FRAME)
            return news;
    }
    channel->taken = whole;
    return CHANNEL_FRAME;
}

/* Moves the bytes of the last received frame into `kept`, where they stay until the next call. */
static void channel_keep(struct runner_channel *channel, struct buffer *kept)
{
    struct buffer former = *kept;
    size_t taken = channel->taken;
    *kept = channel->in;
    if (former.capacity > KEEP_BYTES_MAX)
        buffer_fini(&former);
    buffer_clear(&former);
    buffer_append(&former, kept->bytes + taken, kept->length - taken);
    channel->in = former;
    channel->taken = 0;
}

/* --- what a handler requests -------------------------------------------------------------------------------------- */

/* Connects a handler in a runner process to its worker: by frames, some of which are answered. */

struct runner_run {
    struct hf_job job; /* its link is runner_link */
    struct runner_order order;
    struct runner_channel *channel;
    int64_t patience_ns;
    pthread_mutex_t asking; /* one question at a time, and its answer */
    int64_t questions;      /* so far: their numbers identify late answers */
    int descriptor;         /* that signals the end of the lock; -1 = not requested yet */
};

static struct runner_run *run_of(struct hf_job *job)
{
    return list_owner(job, struct runner_run, job);
}

/* --- what is only said -------------------------------------------------------------------------------------------- */

static bool link_hears(struct hf_job *job, enum hf_log_level level)
{
    return level >= run_of(job)->order.log_level;
}

static void link_log(struct hf_job *job, enum hf_log_level level, const char *text)
{
    struct runner_channel *channel = run_of(job)->channel;
    struct buffer *out = channel_write(channel);
    if (out == NULL)
        return;
    runner_log_write(level, text, out);
    (void)channel_send(channel);
}

static void link_event(struct hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields,
                       size_t count)
{
    struct runner_channel *channel = run_of(job)->channel;
    struct buffer *out = channel_write(channel);
    if (out == NULL)
        return;
    runner_event_write(level, name, fields, count < RUNNER_FIELDS_MAX ? count : RUNNER_FIELDS_MAX, out);
    (void)channel_send(channel);
}

static bool link_progress(struct hf_job *job, const char *json)
{
    struct runner_channel *channel = run_of(job)->channel;
    size_t length = strnlen(json, ITERATION_BYTES_MAX + 1);
    struct buffer *out = iteration_text_is_sound(json, length) ? channel_write(channel) : NULL;
    if (out == NULL)
        return false;
    size_t start = frame_begin(out, FRAME_PROGRESS);
    frame_add_text(out, json, length);
    frame_end(out, start);
    return channel_send(channel);
}

/* --- what is answered --------------------------------------------------------------------------------------------- */

/* True if the answer came in time and says yes. Skips answers to earlier questions. */
static bool answer_await(struct runner_run *run, enum frame_kind kind, struct instant until)
{
    struct frame frame;
    while (channel_receive(run->channel, until, &frame) == CHANNEL_FRAME) {
        struct frame_reader reader = frame_read(&frame);
        int64_t number = frame_take_number(&reader, 0, INT64_MAX);
        bool is_yes = frame_take_flag(&reader);
        if (frame.kind == kind && number == run->questions && frame_is_used_up(&reader))
            return is_yes;
    }
    return false;
}

static bool ask(struct runner_run *run, enum frame_kind question, enum frame_kind answer, int64_t limit_ns)
{
    int64_t patience_ns = limit_ns < run->patience_ns ? limit_ns : run->patience_ns;
    struct instant until = instant_after(instant_now(), patience_ns);
    struct buffer *out = channel_write(run->channel);
    if (out == NULL)
        return false;
    size_t start = frame_begin(out, question);
    frame_add_number(out, ++run->questions);
    frame_end(out, start);
    return channel_send(run->channel) && answer_await(run, answer, until);
}

/* Fails in a process that the handler forked, where the mutex may be locked for ever. */
static bool asking_begin(struct runner_run *run)
{
    if (!channel_is_ours(run->channel))
        return false;
    pthread_mutex_lock(&run->asking);
    return true;
}

static bool link_verify(struct hf_job *job, int64_t limit_ns)
{
    struct runner_run *run = run_of(job);
    if (!asking_begin(run))
        return false;
    bool is_held = ask(run, FRAME_VERIFY, FRAME_VERIFIED, limit_ns);
    pthread_mutex_unlock(&run->asking);
    return is_held;
}

static int link_descriptor(struct hf_job *job)
{
    struct runner_run *run = run_of(job);
    if (!asking_begin(run))
        return -1;
    if (run->descriptor < 0 && ask(run, FRAME_DESCRIPTOR, FRAME_DESCRIBED, run->patience_ns))
        run->descriptor = channel_take_descriptor(run->channel);
    int descriptor = run->descriptor;
    pthread_mutex_unlock(&run->asking);
    return descriptor;
}

static const struct job_link runner_link = {
    .verify = link_verify,
    .descriptor = link_descriptor,
    .hears = link_hears,
    .log = link_log,
    .event = link_event,
    .progress = link_progress,
};

/* --- surroundings ------------------------------------------------------------------------------------------------- */

/* What a handler can change for its whole process by accident: the directory, the umask, the blocked signals, the
 * locale, an alarm. Saved after the plugin was opened, and restored after each run.
 *
 * Everything else stays until the process is replaced: threads, open files, signal handlers, memory, environment.
 * Main thread of a runner process. */
/* Five cheap system calls for each run: checking costs as much as setting, except for the directory. */

struct runner_surroundings {
    char directory[PATH_MAX];
    mode_t mask;
    sigset_t blocked;
    char *locale;
};

static void surroundings_note(struct runner_surroundings *noted)
{
    if (getcwd(noted->directory, sizeof noted->directory) == NULL)
        memcpy(noted->directory, "/", sizeof "/");
    noted->mask = umask(077);
    umask(noted->mask);
    sigprocmask(SIG_SETMASK, NULL, &noted->blocked);
    const char *locale = setlocale(LC_ALL, NULL);
    noted->locale = memory_text(locale != NULL ? locale : "C");
}

static void surroundings_restore(const struct runner_surroundings *noted)
{
    char directory[PATH_MAX];
    const struct itimerval never = {.it_value = {.tv_sec = 0}};
    (void)setitimer(ITIMER_REAL, &never, NULL);
    sigprocmask(SIG_SETMASK, &noted->blocked, NULL);
    umask(noted->mask);
    if (getcwd(directory, sizeof directory) == NULL || strcmp(directory, noted->directory) != 0)
        (void)(chdir(noted->directory) == 0 || chdir("/") == 0);
    const char *locale = setlocale(LC_ALL, NULL);
    if (locale == NULL || strcmp(locale, noted->locale) != 0)
        setlocale(LC_ALL, noted->locale);
}

/* --- the process -------------------------------------------------------------------------------------------------- */

/* Memory is measured every RUNS_A_LOOK runs, or after this time. */
enum { RUNS_A_LOOK = 16 };
#define LOOK_NS NS_PER_S

struct runner {
    struct run_table *run_table;
    struct runner_channel channel;
    struct buffer kept; /* the frame of the present run, or the HELLO */
    struct buffer greeting;
    struct config config; /* only the settings of the plugin */
    struct config_plugin settings;
    struct job_hosts *hosts;
    struct plugins *plugins;
    struct runner_surroundings surroundings;
    struct runner_run run;
    unsigned runs_since_look;
    struct instant looked;
};

/* --- opening the plugin ------------------------------------------------------------------------------------------- */

static bool plugin_open(struct runner *runner, const struct runner_hello *hello, int file,
                        char reason[RUNNER_REASON_MAX])
{
    struct findings findings = {0};
    struct error error = ERROR_NONE;
    runner->plugins = plugins_load_file(file, hello->path, &findings);
    if (findings.errors > 0) {
        snprintf(reason, RUNNER_REASON_MAX, "%s", findings.count > 0 ? findings.items[0].text : "it cannot be loaded");
        findings_fini(&findings);
        return false;
    }
    findings_fini(&findings);
    /* The host functions find the settings here. */
    runner->settings.name = (char *)(uintptr_t)hello->plugin;
    runner->config.plugins = &runner->settings;
    runner->config.plugin_count = 1;
    runner->hosts = job_hosts_create(&runner->config);
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

/* False if this process must exit. */
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

/* --- a run -------------------------------------------------------------------------------------------------------- */

/* Resident bytes; -1 if they were measured recently, or are not known. */
static int64_t memory_look(struct runner *runner)
{
    struct instant now = instant_now();
    if (++runner->runs_since_look < RUNS_A_LOOK && instant_since(runner->looked, now) < LOOK_NS)
        return -1;
    runner->runs_since_look = 0;
    runner->looked = now;
    int64_t resident = memory_resident();
    return resident > 0 ? resident : -1;
}

/* The lock, or the lease, may have expired on the way. */
static void task_run(struct hf_job *job, const struct plugin_handler *handler, struct runner_end *end)
{
    end->started = job_may_begin(job);
    if (end->started)
        end->code = job_is_unwanted(job) ? HF_CANCELLED : job_run(job, handler);
}

/* If a handler forked, and the child returned from it, the child must not report. */
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
    if (!runner_order_read(frame, &run->order, job) || run->order.run_entry >= runner->run_table->run_entry_count)
        return false;
    job->run_table = runner->run_table;
    job->run_entry = run_table_entry(runner->run_table, run->order.run_entry);
    job->validity = run->order.has_lock ? &job->run_entry->validity : NULL;
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
    end.memory = runner->run.order.measures_memory ? memory_look(runner) : -1;
    if (runner->run.descriptor >= 0) /* the handler requested it */
        close(runner->run.descriptor);
    runner->run.descriptor = -1;
    surroundings_restore(&runner->surroundings);
    bool is_told = end_tell(runner, &end);
    job_finish(job);
    return is_told;
}

/* --- the process -------------------------------------------------------------------------------------------------- */

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

int runner_main(struct run_table *run_table, int socket, const void *context)
{
    (void)context;
    struct runner *runner = memory_new(struct runner);
    int file = descriptor_raise(RUNNER_PLUGIN_DESCRIPTOR);
    prctl(PR_SET_NAME, "hf-runner");
    signal(SIGPIPE, SIG_IGN); /* as for a handler in a thread of the worker */
    setvbuf(stdout, NULL, _IOLBF, 0);
    runner->run_table = run_table;
    (void)run_table_protect(run_table);
    channel_open(&runner->channel, socket,
                 UINT32_MAX); /* the size of what the worker sends depends on its configuration */
    runner->run.channel = &runner->channel;
    runner->run.job.link = &runner_link;
    runner->run.descriptor = -1;
    pthread_mutex_init(&runner->run.asking, NULL);
    return runner_open(runner, file) ? runner_serve(runner) : 0;
}
