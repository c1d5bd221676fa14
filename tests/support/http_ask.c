#include "tests/support/http_ask.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/support/test.h"

static char answer[1 << 18];

int http_ask_begin(const char *socket_path, const char *method, const char *path, const char *headers, const char *body)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char request[4096];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(to.sun_path, sizeof to.sun_path, "%s", socket_path);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
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

const char *http_ask(const char *socket_path, const char *method, const char *path, const char *headers,
                     const char *body)
{
    return http_ask_end(http_ask_begin(socket_path, method, path, headers, body));
}
