#include "tests/sim/server/traffic.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "base/invariant.h"

/* -1 = nobody wants to know. */
static int traffic_file(void)
{
    static int file = -2;
    const char *path = getenv("HF_TRAFFIC");
    if (file == -2)
        file = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    return file;
}

void traffic_note(enum traffic_kind kind, uint32_t server, uint64_t connection, int64_t now_us, const char *bytes,
                  size_t length)
{
    static bool is_unwanted;
    if (is_unwanted)
        return;
    int file = traffic_file();
    is_unwanted = file < 0;
    if (is_unwanted)
        return;
    struct traffic traffic = {
        .kind = kind, .server = server, .connection = connection, .now_us = now_us, .length = length};
    struct iovec parts[] = {{&traffic, sizeof traffic}, {(char *)(uintptr_t)bytes, length}};
    invariant(writev(file, parts, 2) == (ssize_t)(sizeof traffic + length));
}
