/* How holdfast exits; scripts may rely on these. The texts are in command.c. */
#ifndef WORKER_EXIT_CODE_H
#define WORKER_EXIT_CODE_H

enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_FAILURE = 1,
    EXIT_CODE_USAGE = 2,
    EXIT_CODE_TEMPORARY = 75, /* what sysexits.h calls EX_TEMPFAIL */
    EXIT_CODE_LOST = 76,      /* a lock, of `holdfast lock` */
};

#endif
