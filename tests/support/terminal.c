#include "tests/support/terminal.h"

#include <errno.h>

#include "tests/support/test.h"

int terminal_open(void)
{
    int own_side = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), other_side = -1;
    if (own_side >= 0 && grantpt(own_side) == 0 && unlockpt(own_side) == 0)
        other_side = open(ptsname(own_side), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (other_side < 0)
        test_skip("there are no pseudo terminals: %s", strerror(errno));
    close(other_side);
    return own_side;
}
