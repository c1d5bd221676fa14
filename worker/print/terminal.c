/* All that a handler of a crash needs is static, and write() and tcsetattr() may be called there. */
#include "worker/print/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/buffer.h"

enum { WIDTH_DEFAULT = 80, HEIGHT_DEFAULT = 24, STUCK_MS = 1000 };

/* The other screen; no cursor; lines that are too long are cut. */
static const char entering[] = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
static const char leaving[] = "\x1b[?7h\x1b[?25h\x1b[?1049l";

static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS};

static struct termios before;
static volatile sig_atomic_t is_entered;

static void bytes_write(const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(STDOUT_FILENO, bytes, length);
        if (written < 0 && errno == EAGAIN && poll(&(struct pollfd){STDOUT_FILENO, POLLOUT, 0}, 1, STUCK_MS) > 0)
            continue;
        if (written <= 0 && errno != EINTR)
            return; /* a picture is lost, nothing else */
        bytes += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
}

static void restore(void)
{
    if (!is_entered)
        return;
    is_entered = 0;
    bytes_write(leaving, sizeof leaving - 1);
    tcsetattr(STDOUT_FILENO, TCSADRAIN, &before);
}

/* The action is the usual one again, and takes place when this returns. */
static void crashed(int number)
{
    restore();
    raise(number);
}

static void crashes_watch(void)
{
    struct sigaction action = {.sa_handler = crashed, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
        sigaction(crashes[i], &action, NULL);
}

static void screen_take(void)
{
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_iflag &= ~(tcflag_t)(IXON | IXOFF); /* nobody stops the picture, and the program with it */
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    is_entered = 1;
    tcsetattr(STDOUT_FILENO, TCSADRAIN, &raw);
    bytes_write(entering, sizeof entering - 1);
}

bool terminal_enter(struct terminal *terminal, struct error *error)
{
    static bool is_watched;
    const char *kind = getenv("TERM");
    terminal->input = -1;
    if (!isatty(STDOUT_FILENO) || tcgetattr(STDOUT_FILENO, &before) != 0)
        return error_set(error, "standard output is no terminal");
    if (kind == NULL || kind[0] == '\0' || strcmp(kind, "dumb") == 0)
        return error_set(error, "TERM says that this terminal can do nothing");
    terminal->input = open("/dev/tty", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (!is_watched)
        is_watched = atexit(restore) == 0;
    crashes_watch();
    screen_take();
    return true;
}

void terminal_leave(struct terminal *terminal)
{
    restore();
    if (terminal->input >= 0)
        close(terminal->input);
    terminal->input = -1;
}

void terminal_suspend(struct terminal *terminal)
{
    (void)terminal;
    restore();
    raise(SIGSTOP);
    tcgetattr(STDOUT_FILENO, &before);
    screen_take();
}

void terminal_size(unsigned *width, unsigned *height)
{
    struct winsize size = {0};
    bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    *width = is_known && size.ws_col > 0 ? size.ws_col : WIDTH_DEFAULT;
    *height = is_known && size.ws_row > 0 ? size.ws_row : HEIGHT_DEFAULT;
}

/* Each line is cleared behind its text, so that nothing flickers. No line end after the last: it would scroll. */
void terminal_draw(const char *lines, size_t length)
{
    struct buffer picture = {0};
    buffer_append_text(&picture, "\x1b[H");
    for (size_t at = 0; at < length;) {
        const char *end = memchr(lines + at, '\n', length - at);
        size_t line = end != NULL ? (size_t)(end - lines) - at : length - at;
        if (at > 0)
            buffer_append_text(&picture, "\r\n");
        buffer_append(&picture, lines + at, line);
        buffer_append_text(&picture, "\x1b[K");
        at += line + 1;
    }
    buffer_append_text(&picture, "\x1b[J");
    bytes_write(picture.bytes, picture.length);
    buffer_fini(&picture);
}
