#include "worker/commands/progress_bar.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH_DEFAULT = 80, WIDTH_LEAST = 20, BAR_MOST = 40 };
#define DRAW_EVERY_NS (100 * NS_PER_MS)

void progress_start(struct progress *progress, int fd, const char *label, uint64_t total)
{
    const char *terminal = getenv("TERM");
    const char *no_colour = getenv("NO_COLOR");
    *progress = (struct progress){.fd = fd, .label = label, .total = total, .started = instant_now()};
    progress->is_on = isatty(fd) && terminal != NULL && strcmp(terminal, "dumb") != 0;
    progress->has_colour = no_colour == NULL || no_colour[0] == '\0';
    progress->next_draw = progress->started;
}

static unsigned terminal_width(int fd)
{
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col < WIDTH_LEAST)
        return WIDTH_DEFAULT;
    return size.ws_col;
}

static void bar_append(const struct progress *progress, double share, unsigned length, struct buffer *out)
{
    unsigned filled = (unsigned)(share * length);
    buffer_append_text(out, progress->has_colour ? " \x1b[32m" : " ");
    for (unsigned i = 0; i < length; i++)
        buffer_append(out, i < filled ? "#" : ".", 1);
    if (progress->has_colour)
        buffer_append_text(out, "\x1b[0m");
}

static void facts_append(const struct progress *progress, uint64_t done, int64_t elapsed_ns, struct buffer *out)
{
    double seconds = (double)elapsed_ns / (double)NS_PER_S;
    double rate = seconds > 0 ? (double)done / seconds : 0;
    if (progress->total > 0)
        buffer_format(out, " %llu of %llu", (unsigned long long)done, (unsigned long long)progress->total);
    else
        buffer_format(out, " %llu", (unsigned long long)done);
    buffer_format(out, ", %.0f/s", rate);
    if (progress->total > done && rate >= 1)
        buffer_format(out, ", %.0f s left", (double)(progress->total - done) / rate);
}

void progress_render(const struct progress *progress, uint64_t done, int64_t elapsed_ns, unsigned width,
                     struct buffer *out)
{
    struct buffer facts = {0};
    facts_append(progress, done, elapsed_ns, &facts);
    size_t used = strlen(progress->label) + facts.length + 2;
    size_t room = width > used ? width - used : 0;
    buffer_append_text(out, progress->label);
    if (progress->total > 0 && room >= 5) {
        double share = done < progress->total ? (double)done / (double)progress->total : 1;
        bar_append(progress, share, room < BAR_MOST ? (unsigned)room : BAR_MOST, out);
    }
    size_t kept = room > 0 || facts.length < used - width ? facts.length : facts.length - (used - width);
    buffer_append(out, facts.bytes, kept); /* a line that wraps could not be removed again */
    buffer_fini(&facts);
}

/* A terminal that takes no more loses a picture of the bar, nothing else. */
static void terminal_write(const struct progress *progress, const struct buffer *text)
{
    ssize_t ignored = write(progress->fd, text->bytes, text->length);
    (void)ignored;
}

void progress_update(struct progress *progress, uint64_t done)
{
    if (!progress->is_on)
        return;
    struct instant now = instant_now();
    if (!instant_reached(now, progress->next_draw))
        return;
    progress->next_draw = instant_after(now, DRAW_EVERY_NS);
    struct buffer text = {0};
    buffer_append_text(&text, "\r\x1b[K");
    progress_render(progress, done, instant_since(progress->started, now), terminal_width(progress->fd), &text);
    terminal_write(progress, &text);
    buffer_fini(&text);
}

void progress_end(struct progress *progress)
{
    if (!progress->is_on)
        return;
    struct buffer text = {0};
    buffer_append_text(&text, "\r\x1b[K");
    terminal_write(progress, &text);
    buffer_fini(&text);
    progress->is_on = false;
}
