#include "worker/supervisor/service_notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum { STATUS_MAX = 1024 };

/* A name that begins with @ is in the abstract space, where it begins with NUL. */
static socklen_t address_make(const char *name, struct sockaddr_un *address)
{
    size_t length = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || length >= sizeof address->sun_path)
        return 0;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, length);
    if (name[0] == '@')
        address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

static void message_send(const char *text)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address;
    socklen_t length = name != NULL ? address_make(name, &address) : 0;
    if (length == 0)
        return;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&address, length);
    close(fd);
}

/* A further line would be another message, and the manager takes no text that is not UTF-8, as where it was cut. */
static void status_send(const char *start, const char *text)
{
    char message[STATUS_MAX];
    if (snprintf(message, sizeof message, "%s%s", start, text) > 0)
        log_defuse(message + strlen(start));
    message_send(message);
}

void service_notify_ready(const char *status)
{
    status_send("READY=1\nSTATUS=", status);
}

/* By the time the manager assigns answers to its requests. */
void service_notify_reloading(void)
{
    struct timespec now;
    char text[96];
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld",
             (long long)now.tv_sec * US_PER_S + now.tv_nsec / NS_PER_US);
    message_send(text);
}

void service_notify_stopping(void)
{
    message_send("STOPPING=1\nSTATUS=stopping");
}

void service_notify_status(const char *text)
{
    status_send("STATUS=", text);
}

int64_t service_notify_watchdog_ns(void)
{
    const char *patience = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (patience == NULL || getenv("NOTIFY_SOCKET") == NULL || (pid != NULL && strtol(pid, NULL, 10) != getpid()))
        return 0;
    long long us = strtoll(patience, NULL, 10);
    return us > 0 && us < INT64_MAX / NS_PER_US ? us * NS_PER_US / 2 : 0;
}

void service_notify_alive(void)
{
    message_send("WATCHDOG=1");
}
