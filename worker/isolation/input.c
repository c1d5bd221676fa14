#include "worker/isolation/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

static bool bytes_write(int file, const char *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t written = pwrite(file, bytes + done, length - done, (off_t)done);
        if (written < 0 && errno != EINTR)
            return false;
        done += written > 0 ? (size_t)written : 0;
    }
    return true;
}

int input_open(const char *bytes, size_t length)
{
    int file = memfd_create("input", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0)
        return -1;
    if (bytes_write(file, bytes, length) &&
        fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return file;
    int failure = errno;
    close(file);
    errno = failure;
    return -1;
}
