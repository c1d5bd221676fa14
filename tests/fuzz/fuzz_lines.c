/* Any bytes as lines of standard input. What comes in pieces is the same as what comes at once. */
#include <unistd.h>

#include "base/loop.h"
#include "tests/fuzz/fuzz.h"
#include "worker/commands/line_source.h"

enum { LINE_BYTES_MAX = 20, PIECES = 3 };

struct lines {
    struct loop *loop;
    struct line_source *source;
    struct buffer seen;
    bool has_ended;
};

static void lines_ready(void *context)
{
    struct lines *self = context;
    struct line line;
    enum line_found found;
    while ((found = line_source_next(self->source, &line)) == LINE_READ || found == LINE_TOO_LONG) {
        bool is_long = found == LINE_TOO_LONG;
        invariant(is_long == (line.length > LINE_BYTES_MAX) && memchr(line.text, '\n', line.length) == NULL);
        buffer_append(&self->seen, line.text, is_long ? LINE_BYTES_MAX : line.length);
        buffer_append_text(&self->seen, is_long ? "...\n" : "\n");
    }
    invariant(found != LINE_FAILED);
    self->has_ended = found == LINE_END;
    loop_stop(self->loop);
}

/* The thread of the source reads a piece whole, because the next one is written when it has been seen. */
static void lines_read(struct loop *loop, const uint8_t *data, size_t size, size_t piece, struct buffer *out)
{
    struct error error = ERROR_NONE;
    struct lines self = {.loop = loop};
    int ends[2];
    invariant(pipe(ends) == 0);
    self.source = line_source_start(loop, ends[0], LINE_BYTES_MAX, lines_ready, &self, &error);
    invariant(self.source != NULL);
    for (size_t at = 0, length; at < size; at += length) {
        length = piece < size - at ? piece : size - at;
        invariant(write(ends[1], data + at, length) == (ssize_t)length);
        loop_run(loop);
    }
    close(ends[1]);
    while (!self.has_ended)
        loop_run(loop);
    *out = self.seen;
    buffer_format(out, "%llu", (unsigned long long)line_source_bytes(self.source));
    line_source_free(self.source);
    close(ends[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct loop *loop;
    struct error error = ERROR_NONE;
    struct buffer whole = {.bytes = NULL}, parts = {.bytes = NULL};
    if (size > 4096) /* what a pipe takes at once */
        return 0;
    if (loop == NULL)
        loop = loop_create(&error);
    lines_read(loop, data, size, size, &whole);
    lines_read(loop, data, size, 1 + size / PIECES, &parts);
    invariant(fuzz_same(&whole, &parts));
    buffer_fini(&whole);
    buffer_fini(&parts);
    return 0;
}
