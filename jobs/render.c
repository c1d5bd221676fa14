/* render: computes an expensive result once. Class: render. The lock is for efficiency: if two tasks want the same
 * result at the same time, one computes it and the other finds it.
 *
 * Arguments: [KEY, WORK_MS]. KEY is 1 to 64 of A-Z a-z 0-9 . _ - and does not begin with a dot; WORK_MS (up to an hour)
 * simulates the work. Result: the file KEY.txt in the directory, complete or absent (it is written under another name
 * and renamed). A fresh result is not computed again. Lock: of the key. Without a lock the result is still right, but
 * may be computed twice.
 *
 * Settings: directory (default "."), fresh_for (seconds for which a result is valid, default "3600"), log (a file
 * that gets one line for every computation begun, default none). */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jobs/arguments/arguments.h"
#include "jobs/kit.h"

enum { KEY_MAX = 64, TEXT_MAX = 512 };
#define MS_MAX      INT64_C(3600000)
#define SECONDS_MAX INT64_C(31536000)

struct render {
    struct kit kit;
    char *directory, *log;
    int64_t fresh_for_s;
};

struct order {
    char key[KEY_MAX + 1];
    int64_t work_ms;
};

static int key_is_good(const char *key)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = strlen(key);
    return length > 0 && length <= KEY_MAX && key[0] != '.' && strspn(key, allowed) == length;
}

static int fail(const struct render *render, hf_job *job, const char *path)
{
    render->kit.job->error(job, "FileError", "%s: %s", path, strerror(errno));
    return HF_FAIL;
}

static int is_fresh(const struct render *render, const char *path)
{
    struct stat facts;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return stat(path, &facts) == 0 && facts.st_mtim.tv_sec + render->fresh_for_s > now.tv_sec;
}

/* 0, or -1 with errno. */
static int text_write(const char *path, int flags, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0644);
    if (fd < 0)
        return -1;
    size_t length = strlen(text);
    ssize_t written = write(fd, text, length);
    int cause = written < 0 ? errno : ENOSPC;
    int closed = close(fd);
    if (written == (ssize_t)length && closed == 0)
        return 0;
    if (written != (ssize_t)length)
        errno = cause;
    return -1;
}

static int begin_is_logged(const struct render *render, const hf_job *job, const char *key)
{
    char line[TEXT_MAX];
    if (render->log[0] == '\0')
        return 1;
    snprintf(line, sizeof line, "%s %s\n", key, render->kit.job->jid(job));
    return text_write(render->log, O_APPEND, line) == 0;
}

static int result_write(const struct render *render, hf_job *job, const char *path, const char *key)
{
    char text[TEXT_MAX], unfinished[PATH_MAX];
    snprintf(text, sizeof text, "%s, rendered by task %s\n", key, render->kit.job->jid(job));
    snprintf(unfinished, sizeof unfinished, "%s/.%s.%ld", render->directory, key, (long)syscall(SYS_gettid));
    if (text_write(unfinished, O_TRUNC, text) != 0)
        return fail(render, job, unfinished);
    if (!kit_pause(&render->kit, job, 0)) {
        unlink(unfinished);
        return HF_CANCELLED;
    }
    if (rename(unfinished, path) == 0)
        return HF_OK;
    int code = fail(render, job, path);
    unlink(unfinished);
    return code;
}

static int order_read(const char *args, size_t length, struct order *order, char *reason, size_t reason_size)
{
    struct argument array = argument_of(args, length), first, second;
    char *key = argument_element(array, 0, &first) ? argument_text(first) : NULL;
    int is_good = key != NULL && key_is_good(key) && argument_element(array, 1, &second) &&
                  argument_whole(second, &order->work_ms) && order->work_ms >= 0 && order->work_ms <= MS_MAX;
    if (is_good)
        snprintf(order->key, sizeof order->key, "%s", key);
    free(key);
    return is_good || kit_refuse(reason, reason_size,
                                 "expected [KEY, WORK_MS]: 1 to 64 of A-Z a-z 0-9 . _ - without a dot at the "
                                 "beginning, and a whole number up to an hour");
}

static int check(const char *args, size_t length, char *reason, size_t reason_size)
{
    struct order order;
    return order_read(args, length, &order, reason, reason_size);
}

static int run(hf_job *job, void *state)
{
    const struct render *render = state;
    struct order order;
    char path[PATH_MAX], reason[160];
    size_t length;
    const char *args = render->kit.job->args(job, &length), *key = order.key;
    if (!order_read(args, length, &order, reason, sizeof reason))
        return kit_bury(&render->kit, job, "HF::BadArguments", reason);
    snprintf(path, sizeof path, "%s/%s.txt", render->directory, key);
    if (is_fresh(render, path)) {
        render->kit.job->log(job, HF_LOG_DEBUG, "%s is there already", key);
        return HF_OK;
    }
    if (!begin_is_logged(render, job, key))
        return fail(render, job, render->log);
    if (!kit_pause(&render->kit, job, order.work_ms * NS_PER_MS))
        return HF_CANCELLED;
    return result_write(render, job, path, key);
}

static void close_render(void *state)
{
    struct render *render = state;
    free(render->directory);
    free(render->log);
    free(render);
}

static int open_render(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    struct render *render = kit_state(sizeof *render, host, reason, reason_size);
    struct stat facts;
    if (render == NULL)
        return -1;
    render->fresh_for_s = 3600;
    render->directory = strdup(kit_setting(host, "directory", "."));
    render->log = strdup(kit_setting(host, "log", ""));
    if (render->directory != NULL && render->log != NULL &&
        kit_setting_number(host, "fresh_for", SECONDS_MAX, &render->fresh_for_s, reason, reason_size) == 0) {
        *state = render;
        if (strlen(render->directory) + KEY_MAX + 64 < PATH_MAX && stat(render->directory, &facts) == 0 &&
            S_ISDIR(facts.st_mode))
            return 0;
        snprintf(reason, reason_size, "the setting directory names no directory: %.128s", render->directory);
    }
    close_render(render);
    return -1;
}

static const char *const resources[] = {"render:{0}", NULL};

static const hf_handler handler = {
    .size = sizeof handler,
    .name = "render",
    .about = "an expensive result computed once; arguments: [KEY, WORK_MS]",
    .run = run,
    .check = check,
    .isolation = HF_ISOLATION_THREAD,
    .mode = HF_EFFICIENCY,
    .resources = resources,
};
static const hf_handler *const handlers[] = {&handler, NULL};

const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("render", "1.0"), .open = open_render, .close = close_render,
                                   .handlers = handlers};
