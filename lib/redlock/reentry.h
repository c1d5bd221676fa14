/* Private to lib/redlock: when an owner may enter a lock that it has already. Pure: no I/O, no clock, no allocation.
 *
 * An owner enters again what it holds, or a part of it: with the same token, and without a request to the nodes, so the
 * ttl stays as it is. An owner that wants more than it holds would have to take several locks one after the other, and
 * could wait for itself: that is refused. So could two readers that both want to write. A seat is no more than the
 * resource with that limit, so whoever wants a lower limit is refused, too. After DANGER no entry succeeds, because the
 * owner has to finish. The last exit releases. */
#ifndef REDLOCK_REENTRY_H
#define REDLOCK_REENTRY_H

#include <stdbool.h>

enum reentry {
    REENTRY_NEW,       /* the owner has none of it: acquire it */
    REENTRY_AGAIN,     /* enter */
    REENTRY_UNDECIDED, /* another thread of the owner acquires some of it at this moment: judge again after that */
    REENTRY_OVERLAP,   /* some of it is held, and some is not: no */
    REENTRY_UPGRADE,   /* it is held for reading, and wanted for writing: no */
    REENTRY_BEYOND,    /* the seat that is held lies beyond the limit that is wanted: no */
    REENTRY_DANGER,    /* the lock may end soon: no */
};

/* What an owner holds or is acquiring, with one entry from its beginning. */
struct reentry_hold {
    const char *const *names; /* sorted by bytes, none twice */
    unsigned name_count;
    bool is_acquired, is_shared;
    unsigned seat; /* once it is acquired; without a limit the first */
    unsigned entries;
};

/* What an owner wants now. */
struct reentry_request {
    const char *const *names; /* sorted as well */
    unsigned name_count;
    bool is_shared; /* for reading alone */
    unsigned limit; /* any seat up to this one will do; without a limit the first */
};

/* `in_danger` is as of now. */
enum reentry reentry_judge(const struct reentry_hold *hold, const struct reentry_request *request, bool in_danger);
void reentry_enter(struct reentry_hold *hold);
/* True for the last exit: release it. */
bool reentry_leave(struct reentry_hold *hold);

#endif
