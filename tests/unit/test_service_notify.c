/* What the service manager gets: one datagram a message, whose text it takes only if it is UTF-8. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/utf8.h"
#include "worker/supervisor/service_notify.h"

static int manager;

static int enter(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[64];
    (void)state;
    int length = snprintf(name, sizeof name, "@holdfast-notify-%d", (int)getpid());
    memcpy(address.sun_path + 1, name + 1, (size_t)length - 1);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setenv("NOTIFY_SOCKET", name, 1);
    return bind(manager, (struct sockaddr *)&address, (socklen_t)(sizeof address.sun_family + (size_t)length));
}

static int leave(void **state)
{
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    return close(manager);
}

static const char *told(void)
{
    static char message[4096];
    ssize_t length = recv(manager, message, sizeof message - 1, 0);
    assert_true(length > 0);
    message[length] = '\0';
    return message;
}

TEST(a_status_is_one_line)
{
    service_notify_status("waits\nREADY=1\tfor \xc2\x85 \xff and \xc3\xa9");
    assert_string_equal(told(), "STATUS=waits?READY=1?for ? ? and \xc3\xa9");
    service_notify_status("");
    assert_string_equal(told(), "STATUS=");
}

TEST(a_long_status_is_cut_between_characters)
{
    char text[2000];
    for (size_t begin = 0; begin < 3; begin++) {
        memset(text, 'a', begin);
        for (size_t at = begin; at + 3 < sizeof text; at += 3)
            memcpy(text + at, "\xe2\x82\xac\0", 4);
        service_notify_status(text);
        const char *message = told(), *end = message + strlen(message);
        assert_in_range(end - message, 1000, 1023);
        for (size_t size; message < end; message += size)
            assert_true((size = utf8_length(message, end)) > 0);
    }
}

TEST(without_a_manager_nothing_is_said)
{
    unsetenv("NOTIFY_SOCKET");
    service_notify_status("running");
    char byte;
    assert_int_equal(recv(manager, &byte, 1, 0), -1);
}

RUN_TESTS_WITH(enter, leave)
