/* Accounts for every task that was pushed: what became of it, and why it ran as often as it did.
 *
 * Tasks have the jids "k0", "k1", ... What happened to them comes from two records that no worker can take back: the
 * ledger of the handlers (tests/plugins/ledger.c), and the append-only file of the queue node, in which every write is
 * still there that was made: recoveries, which `hf:2:recovered:JID` shows only until a process comes back, and
 * retries. So a worker that is killed may lose the end of its log, and the account is exact all the same.
 *
 * A task is accounted for when
 *   - it came to an end: its handler said so in the ledger, or it is in `dead`; one that runs at most once may have
 *     been lost with its process;
 *   - every run but one is explained: by the recovery of the task from just that process, or by a retry;
 *   - one that runs at most once ran at most once. */
#ifndef CHAOS_ACCOUNT_H
#define CHAOS_ACCOUNT_H

#include <stdbool.h>
#include <stdio.h>

#include "tests/support/fleet.h"

struct account;

enum account_fate { ACCOUNT_ENDS, ACCOUNT_DIES, ACCOUNT_ONCE };

struct account_sums {
    unsigned tasks, ended, dead, poisoned, once_lost;
    unsigned runs, rerun, recoveries, retries; /* tasks that ran more than once; records */
    unsigned lost, doubled;                    /* must be 0 */
};

/* For `count` tasks from k<first> on. Jids are for one use: the node's history is that of all tests of a program. */
struct account *account_create(unsigned first, unsigned count);
void account_free(struct account *account);
void account_expect(struct account *account, unsigned number, enum account_fate fate);
/* Reads the ledger, `dead` and the append-only file; says to `out` what cannot be accounted for. */
struct account_sums account_settle(struct account *account, struct fleet *fleet, FILE *out);
/* True when the sums are as they must be. */
bool account_is_settled(const struct account_sums *sums);

/* Makes what is in `retry` due: retries would take minutes. (By ZINCRBY, so that it is not taken for a retry.) */
void account_hasten(struct fleet *fleet);

/* What a queue node needs in its configuration. */
#define ACCOUNT_NODE "appendonly yes\nappendfsync no\nauto-aof-rewrite-percentage 0\nsave \"\"\n"

#endif
