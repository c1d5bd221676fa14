#include "tests/support/http_ask.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "tests/support/test.h"
#include "worker/http/http_address.h"

static char answer[1 << 18];

int http_ask_begin(const char *address, const char *method, const char *path, const char *headers, const char *body)
{
    struct http_address to;
    struct error error = ERROR_NONE;
    char request[4096];
    assert_true(http_address_read(address, 0, &to, &error));
    int fd = socket(to.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&to.bytes, to.length) != 0)
        return fd;
    int length = snprintf(request, sizeof request,
                          "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s",
                          method, path, headers, strlen(body), body);
    assert_int_equal(send(fd, request, (size_t)length, MSG_NOSIGNAL), length);
    return fd;
}

bool http_ask_is_answered(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, 0) == 1;
}

const char *http_ask_end(int fd)
{
    size_t length = 0;
    ssize_t count;
    while (length < sizeof answer - 1 && (count = recv(fd, answer + length, sizeof answer - 1 - length, 0)) > 0)
        length += (size_t)count;
    answer[length] = '\0';
    close(fd);
    return answer;
}

const char *http_ask(const char *address, const char *method, const char *path, const char *headers, const char *body)
{
    return http_ask_end(http_ask_begin(address, method, path, headers, body));
}
