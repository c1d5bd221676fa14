#include "worker/commands/line_output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define AGAIN_NS (20 * NS_PER_MS)

/* Where there is no descriptor of our own, a pipe that is ready takes so many bytes. */
static ssize_t ready_write(int fd, const char *bytes, size_t length)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (poll(&ready, 1, 0) != 1) {
        errno = EAGAIN;
        return -1;
    }
    return write(fd, bytes, length < PIPE_BUF ? length : PIPE_BUF);
}

static ssize_t bytes_write(const struct line_output *output, const char *bytes, size_t length)
{
    if (output->is_socket)
        return send(output->given, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    return output->own >= 0 ? write(output->own, bytes, length) : ready_write(output->given, bytes, length);
}

/* False when the file refuses it for good; then nothing waits. */
static bool waiting_write(struct line_output *output)
{
    struct buffer *waiting = &output->waiting;
    while (waiting->length > 0) {
        ssize_t written = bytes_write(output, waiting->bytes, waiting->length);
        if (written > 0) {
            buffer_drop_front(waiting, (size_t)written);
        } else if (written < 0 && errno == EAGAIN) {
            loop_timer_set(output->loop, &output->again, loop_after(output->loop, AGAIN_NS));
            return true;
        } else if (written == 0 || errno != EINTR) {
            buffer_clear(waiting);
            return false;
        }
    }
    return true;
}

static void again_fired(struct loop_timer *timer)
{
    (void)waiting_write(list_owner(timer, struct line_output, again));
}

void line_output_open(struct line_output *output, struct loop *loop, int fd)
{
    struct stat facts;
    char path[40];
    bool is_known = fstat(fd, &facts) == 0;
    *output = (struct line_output){.loop = loop, .given = fd, .own = -1};
    loop_timer_init(&output->again, again_fired);
    output->is_socket = is_known && S_ISSOCK(facts.st_mode);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (is_known && (S_ISFIFO(facts.st_mode) || isatty(fd)))
        output->own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

bool line_output_write(struct line_output *output, const char *line, size_t length)
{
    if (output->waiting.length + length > LINE_OUTPUT_MAX)
        return true;
    buffer_append(&output->waiting, line, length);
    return waiting_write(output);
}

bool line_output_waits(const struct line_output *output)
{
    return output->waiting.length > 0;
}

void line_output_close(struct line_output *output)
{
    loop_timer_clear(output->loop, &output->again);
    if (output->own >= 0)
        close(output->own);
    buffer_fini(&output->waiting);
}
