#include "tests/support/node_talk.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/memory.h"

enum { LIMIT_S = 10, READ_BYTES = 64 * 1024 };

static int connect_to(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval limit = {.tv_sec = LIMIT_S};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool send_all(int fd, const struct buffer *bytes)
{
    for (size_t sent = 0; sent < bytes->length;) {
        ssize_t more = send(fd, bytes->bytes + sent, bytes->length - sent, MSG_NOSIGNAL);
        if (more < 0)
            return false;
        sent += (size_t)more;
    }
    return true;
}

/* Until the server hangs up, as QUIT has it do. */
static bool read_all(int fd, struct buffer *out)
{
    ssize_t got = 1;
    while (got > 0 || (got < 0 && errno == EINTR)) { /* a read with a time limit is not resumed after a signal */
        got = recv(fd, buffer_reserve(out, READ_BYTES), READ_BYTES, 0);
        if (got > 0)
            out->length += (size_t)got;
    }
    return got == 0;
}

static void part_drop(char *text, const char *part)
{
    size_t length = strlen(part);
    if (strncmp(text, part, length) == 0)
        memmove(text, text + length, strlen(text + length) + 1);
}

char *node_talk(unsigned port, const char *password, const char *command)
{
    struct buffer request = {0}, reply = {0};
    char *text = NULL;
    int fd = connect_to(port);
    if (fd < 0)
        return NULL;
    size_t words = 1;
    for (const char *at = command; *at != '\0'; at++)
        words += *at == ' ';
    if (password != NULL)
        buffer_format(&request, "AUTH %s\r\n", password);
    buffer_format(&request, "*%zu\r\n", words);
    for (const char *at = command; words > 0; words--, at += strcspn(at, " "), at += *at == ' ') {
        buffer_format(&request, "$%zu\r\n", strcspn(at, " "));
        buffer_append(&request, at, strcspn(at, " "));
        buffer_append_text(&request, "\r\n");
    }
    buffer_append_text(&request, "QUIT\r\n");
    if (send_all(fd, &request) && read_all(fd, &reply)) {
        size_t kept = 0;
        for (size_t i = 0; i < reply.length; i++)
            if (reply.bytes[i] != '\r')
                reply.bytes[kept++] = reply.bytes[i] == '\n' ? ' ' : reply.bytes[i];
        reply.length = kept >= 4 ? kept - 4 : 0; /* what it says to QUIT */
        if (reply.length > 0)
            reply.length--;
        text = memory_text(buffer_text(&reply));
        if (password != NULL)
            part_drop(text, "+OK ");
    }
    buffer_fini(&request);
    buffer_fini(&reply);
    close(fd);
    return text;
}
