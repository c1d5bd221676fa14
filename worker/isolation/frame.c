#include "worker/isolation/frame.h"

#include <endian.h>
#include <string.h>

#include "base/invariant.h"

/* --- writing ---------------------------------------------------------------------------------------------------- */

size_t frame_begin(struct buffer *out, enum frame_kind kind)
{
    char head[FRAME_HEAD_BYTES] = {0, 0, 0, 0, (char)kind};
    size_t start = out->length;
    buffer_append(out, head, sizeof head);
    return start;
}

void frame_end(struct buffer *out, size_t start)
{
    size_t length = out->length - start - FRAME_HEAD_BYTES;
    invariant(length <= UINT32_MAX);
    uint32_t written = htole32((uint32_t)length);
    memcpy(out->bytes + start, &written, sizeof written);
}

void frame_add_number(struct buffer *out, int64_t number)
{
    uint64_t written = htole64((uint64_t)number);
    buffer_append(out, &written, sizeof written);
}

void frame_add_text(struct buffer *out, const char *bytes, size_t length)
{
    uint32_t written = htole32((uint32_t)length);
    invariant(length <= UINT32_MAX);
    buffer_append(out, &written, sizeof written);
    buffer_append(out, bytes, length);
    buffer_append(out, "", 1);
}

void frame_add_string(struct buffer *out, const char *text, size_t longest)
{
    frame_add_text(out, text, strnlen(text, longest));
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

enum frame_found frame_find(const char *bytes, size_t length, size_t limit, struct frame *frame, size_t *whole)
{
    uint32_t body = 0;
    *whole = FRAME_HEAD_BYTES;
    if (length < FRAME_HEAD_BYTES)
        return FRAME_PART;
    memcpy(&body, bytes, sizeof body);
    frame->kind = (enum frame_kind)(unsigned char)bytes[4];
    frame->body = bytes + FRAME_HEAD_BYTES;
    frame->length = le32toh(body);
    if (frame->kind < FRAME_HELLO || frame->kind >= FRAME_KINDS || frame->length > limit)
        return FRAME_BROKEN;
    *whole += frame->length;
    return length < *whole ? FRAME_PART : FRAME_WHOLE;
}

struct frame_reader frame_read(const struct frame *frame)
{
    return (struct frame_reader){.at = frame->body, .left = frame->length};
}

/* NULL when there are fewer. */
static const char *bytes_take(struct frame_reader *reader, size_t length)
{
    if (reader->is_broken || reader->left < length) {
        reader->is_broken = true;
        return NULL;
    }
    const char *taken = reader->at;
    reader->at += length;
    reader->left -= length;
    return taken;
}

int64_t frame_take_number(struct frame_reader *reader, int64_t least, int64_t most)
{
    uint64_t read = 0;
    const char *bytes = bytes_take(reader, sizeof read);
    if (bytes == NULL)
        return least;
    memcpy(&read, bytes, sizeof read);
    int64_t number = (int64_t)le64toh(read);
    if (number >= least && number <= most)
        return number;
    reader->is_broken = true;
    return least;
}

bool frame_take_flag(struct frame_reader *reader)
{
    return frame_take_number(reader, 0, 1) == 1;
}

struct text_span frame_take_text(struct frame_reader *reader, size_t longest)
{
    uint32_t read = 0;
    const char *bytes = bytes_take(reader, sizeof read);
    if (bytes != NULL)
        memcpy(&read, bytes, sizeof read);
    size_t length = le32toh(read);
    const char *text = bytes != NULL && length <= longest ? bytes_take(reader, length + 1) : NULL;
    if (text != NULL && memchr(text, '\0', length + 1) == text + length)
        return (struct text_span){text, length};
    reader->is_broken = true;
    return (struct text_span){"", 0};
}

const char *frame_take_string(struct frame_reader *reader, size_t longest)
{
    return frame_take_text(reader, longest).bytes;
}

bool frame_is_used_up(const struct frame_reader *reader)
{
    return !reader->is_broken && reader->left == 0;
}
