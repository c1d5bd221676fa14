/* Two signals belong to the C library, and sigaction leaves them alone. A shell that runs tests may have had them
 * ignored by the program that started it; tests that look at what children inherit start from the defaults. */
#ifndef SUPPORT_LIBC_SIGNALS_H
#define SUPPORT_LIBC_SIGNALS_H

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Before the process has threads. */
static inline void libc_signals_reset(void)
{
    static const unsigned long usual[8]; /* the kernel's struct, all zero: the default */
    for (int number = 32; number < SIGRTMIN; number++)
        (void)syscall(SYS_rt_sigaction, number, usual, NULL, 8UL);
}

#endif
