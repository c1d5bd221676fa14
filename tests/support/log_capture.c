#include "tests/support/log_capture.h"

#include <sys/mman.h>

#include "base/log.h"
#include "tests/support/test.h"

static int file;

void log_capture_begin(void)
{
    struct error error = ERROR_NONE;
    file = memfd_create("log", MFD_CLOEXEC);
    assert_true(file >= 0);
    assert_true(log_start(&(struct log_options){.level = LOG_INFO, .fd = file}, &error));
}

const char *log_capture_end(size_t *length)
{
    static char text[1 << 20];
    log_stop();
    ssize_t size = pread(file, text, sizeof text - 1, 0);
    close(file);
    assert_true(size >= 0);
    text[size] = '\0';
    if (length != NULL)
        *length = (size_t)size;
    return text;
}
