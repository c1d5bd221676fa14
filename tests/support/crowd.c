#include "tests/support/crowd.h"

#include <stdio.h>
#include <sys/mman.h>

#include "tests/support/test.h"

struct crowd *crowd_run(unsigned processes, void (*member)(struct crowd *crowd, void *context, unsigned *seed),
                        void *context)
{
    struct crowd *crowd = mmap(NULL, sizeof *crowd, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int gate[2], status;
    if (crowd == MAP_FAILED || pipe(gate) != 0)
        fail_msg("no crowd");
    for (unsigned i = 0; i < processes; i++) {
        if (fork() != 0)
            continue;
        char byte;
        unsigned seed = 1 + i * 7919;
        close(gate[1]);
        /* Opens for all when the parent closes it. */
        if (read(gate[0], &byte, 1) != 0)
            _exit(1);
        member(crowd, context, &seed);
        _exit(0);
    }
    close(gate[0]);
    close(gate[1]);
    for (unsigned i = 0; i < processes; i++)
        if (wait(&status) < 0 || status != 0)
            atomic_fetch_add(&crowd->failed, 1);
    return crowd;
}

void crowd_destroy(struct crowd *crowd)
{
    munmap(crowd, sizeof *crowd);
}

void crowd_token(struct crowd *crowd, char token[24])
{
    snprintf(token, 24, "%lld", (long long)atomic_fetch_add(&crowd->token, 1) + 1);
}

void crowd_pause(unsigned *seed)
{
    *seed = *seed * 1103515245 + 12345;
    if ((*seed >> 16) % 3 != 0)
        poll(NULL, 0, (int)((*seed >> 18) % 4));
}
