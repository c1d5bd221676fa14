#include "tests/support/hostile_client.h"

#include <string.h>

enum { FLOOD = 16 * 1024 * 1024, DRIP = 30000 };
static const int64_t drip_ns = 5 * NS_PER_MS;

void hostile_client_fini(struct hostile_client *client)
{
    buffer_fini(&client->in);
    buffer_fini(&client->out);
}

/* --- what it answers ---------------------------------------------------------------------------------------- */

static void append_flood(struct buffer *out, const char *header)
{
    buffer_append_text(out, header);
    memset(buffer_reserve(out, FLOOD), 'x', FLOOD);
    out->length += FLOOD;
}

static void append_nesting(struct buffer *out)
{
    for (int i = 0; i < 100000; i++)
        buffer_append_text(out, "*1\r\n");
}

static void append_drip(struct buffer *out)
{
    buffer_format(out, "$%d\r\n%-*s\r\n", DRIP, DRIP, "drip");
}

/* Answers one request that is not of the handshake; false when the connection is to be reset. */
static bool misbehave(struct hostile_client *client, enum hostile_mode mode, const char *says)
{
    static const char *const answers[HOSTILE_MODES] = {
        [HOSTILE_GOOD] = "+OK\r\n",
        [HOSTILE_GARBAGE] = "HTTP/1.1 400 Bad Request\r\n\r\n",
        [HOSTILE_EXTRA_REPLY] = "+OK\r\n:42\r\n",
        [HOSTILE_EXTRA_HALF] = "+OK\r\n:4",
        [HOSTILE_HUGE_ARRAY] = "*2147483647\r\n",
        [HOSTILE_NEGATIVE] = "*-5\r\n",
        [HOSTILE_HALF_REPLY] = "$10\r\nabc",
        [HOSTILE_RESP3] = "%1\r\n+a\r\n+b\r\n",
        [HOSTILE_LATE] = "+OK\r\n",
        [HOSTILE_BAD_PONG] = ":42\r\n",
        [HOSTILE_PROXY] = "+OK\r\n",
        [HOSTILE_BUSY_ERROR] = "-BUSY Redis is busy running a script.\r\n",
        [HOSTILE_NOSCRIPT] = "-NOSCRIPT No matching script. Please use EVAL.\r\n",
    };
    if (mode == HOSTILE_RESET)
        return false;
    if (mode == HOSTILE_HUGE_BULK)
        append_flood(&client->out, "$5000000000\r\n");
    else if (mode == HOSTILE_ENDLESS_LINE)
        append_flood(&client->out, "+");
    else if (mode == HOSTILE_DEEP_NESTING)
        append_nesting(&client->out);
    else if (mode == HOSTILE_DRIP)
        append_drip(&client->out);
    else if (mode == HOSTILE_SAYS)
        buffer_append_text(&client->out, says);
    else if (answers[mode] != NULL)
        buffer_append_text(&client->out, answers[mode]);
    client->was_asked = true;
    client->closes = mode == HOSTILE_HALF_REPLY;
    return true;
}

/* --- requests ----------------------------------------------------------------------------------------------- */

/* Reads "<mark><number>\r\n" at `at`; returns what follows, or NULL when it is not complete. */
static const char *read_header(const char *at, const char *end, long *number)
{
    const char *line_end = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    if (line_end == NULL)
        return NULL;
    *number = 0;
    for (const char *digit = at + 1; *digit >= '0' && *digit <= '9';
         digit++) /* ends at the line's end, at the latest */
        *number = *number * 10 + (*digit - '0');
    return line_end + 1;
}

/* The length of the first request if it is complete, or 0. */
static size_t request_length(const struct buffer *in)
{
    long arguments = 0;
    const char *end = in->bytes + in->length;
    const char *at = read_header(in->bytes, end, &arguments);
    for (long i = 0; at != NULL && i < arguments; i++) {
        long length = 0;
        at = read_header(at, end, &length);
        if (at != NULL && end - at < length + 2)
            return 0;
        if (at != NULL)
            at += length + 2;
    }
    return at != NULL ? (size_t)(at - in->bytes) : 0;
}

bool hostile_client_answer(struct hostile_client *client, enum hostile_mode mode, const char *says)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    static const char load[] = "*3\r\n$6\r\nSCRIPT\r\n";
    static const char role[] = "*1\r\n$4\r\nROLE\r\n";
    static const char digest[] = "$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n";
    size_t length;
    while (client->in.length > 0 && (length = request_length(&client->in)) > 0) {
        bool is_ping = length == sizeof ping - 1 && memcmp(client->in.bytes, ping, length) == 0;
        bool is_role = length == sizeof role - 1 && memcmp(client->in.bytes, role, length) == 0;
        bool is_load = length > sizeof load - 1 && memcmp(client->in.bytes, load, sizeof load - 1) == 0;
        buffer_drop_front(&client->in, length);
        if (mode == HOSTILE_MUTE || client->closes)
            continue;
        if (is_ping && mode != HOSTILE_BAD_PONG)
            buffer_append_text(&client->out, "+PONG\r\n");
        else if (is_role)
            buffer_append_text(&client->out, mode == HOSTILE_PROXY ? "-PROXY asks for one backend at a time\r\n"
                                                                   : "-ERR unknown command 'ROLE'\r\n");
        else if (is_load)
            buffer_append_text(&client->out, digest);
        else if (!misbehave(client, mode, says))
            return false;
    }
    return true;
}

size_t hostile_client_portion(struct hostile_client *client, enum hostile_mode mode)
{
    bool drips = mode == HOSTILE_DRIP && client->was_asked;
    if (mode == HOSTILE_LATE && client->was_asked)
        return 0;
    if (!drips || client->out.length == 0)
        return client->out.length;
    if (!instant_reached(instant_now(), client->send_at))
        return 0;
    client->send_at = instant_after(instant_now(), drip_ns);
    return 1;
}

const char *hostile_mode_name(enum hostile_mode mode)
{
    static const char *const names[HOSTILE_MODES] = {
        [HOSTILE_GOOD] = "good",
        [HOSTILE_SILENT] = "silent",
        [HOSTILE_GARBAGE] = "garbage",
        [HOSTILE_EXTRA_REPLY] = "extra reply",
        [HOSTILE_EXTRA_HALF] = "half of an extra reply",
        [HOSTILE_HUGE_ARRAY] = "huge array",
        [HOSTILE_NEGATIVE] = "negative count",
        [HOSTILE_DEEP_NESTING] = "deep nesting",
        [HOSTILE_HUGE_BULK] = "huge bulk",
        [HOSTILE_ENDLESS_LINE] = "endless line",
        [HOSTILE_HALF_REPLY] = "half reply",
        [HOSTILE_DRIP] = "drip",
        [HOSTILE_RESET] = "reset",
        [HOSTILE_RESP3] = "RESP3",
        [HOSTILE_LATE] = "late",
        [HOSTILE_BUSY_ERROR] = "busy error",
        [HOSTILE_NOSCRIPT] = "no script",
        [HOSTILE_SAYS] = "says",
        [HOSTILE_BAD_PONG] = "bad pong",
        [HOSTILE_UNASKED] = "unasked",
        [HOSTILE_MUTE] = "mute",
        [HOSTILE_PROXY] = "proxy",
    };
    return names[mode];
}
