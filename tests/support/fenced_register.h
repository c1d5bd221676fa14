/* What a lock protects, twice, and the judge of those who write to it: a number for each resource that every task adds
 * one to by reading it, thinking, and writing back what it makes. One number is fenced: whoever reads it says its
 * fencing token first, and a write with a token smaller than the largest that was ever said is refused. The other one,
 * plain, takes every write. Both know each jid, so that a task that runs again adds nothing.
 *
 * So the two stand for the same work with and without a fence. Afterwards the fenced number must be the count of tasks;
 * the plain one is short by one for every write that was made from a value that somebody else had changed meanwhile.
 *
 * Besides it is told for how long each run was certain of its lock, and finds those whose certainties overlap, and
 * tokens that do not tell who came later. For that to be no false alarm, `until` must be a moment before which the run
 * had already begun to ask whether its lock was valid, and was told yes.
 *
 * Pure, not thread-safe; what is wrong is said to a file. */
#ifndef SUPPORT_FENCED_REGISTER_H
#define SUPPORT_FENCED_REGISTER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct fenced_register;

struct fenced_register *fenced_register_create(void);
void fenced_register_destroy(struct fenced_register *all);

enum fenced_answer { FENCED_DONE, FENCED_STALE, FENCED_REPEATED };

/* A token of 0 is none: the fenced number refuses it. */
enum fenced_answer fenced_register_read(struct fenced_register *all, const char *resource, uint64_t token,
                                        uint64_t *value);
enum fenced_answer fenced_register_write(struct fenced_register *all, const char *resource, uint64_t token,
                                         const char *jid, uint64_t value);
uint64_t plain_register_read(struct fenced_register *all, const char *resource);
enum fenced_answer plain_register_write(struct fenced_register *all, const char *resource, uint64_t token,
                                        const char *jid, uint64_t value);
/* A run was certain of its lock from..until, by CLOCK_BOOTTIME in ns; until < from: never. */
void fenced_register_held(struct fenced_register *all, const char *resource, uint64_t token, const char *jid,
                          int64_t from, int64_t until);

struct fenced_verdict {
    unsigned resources, holds;
    unsigned unfenced; /* runs without a token */
    unsigned applied;  /* to the fenced numbers: how many tasks added one */
    unsigned repeated; /* writes for a jid that had added before, to either */
    unsigned refused;  /* what the fence kept out: reads and writes with stale tokens */
    /* What must be 0 while the fence and the lock work. */
    unsigned miscounted; /* by how much the fenced numbers are wrong */
    unsigned overlaps;   /* pairs of runs that were certain at the same time */
    unsigned disorder;   /* pairs of runs, one after the other, of which the later one has no larger token */
    /* What the plain numbers suffered. */
    unsigned stale; /* writes with a smaller token than one before, which were taken */
    unsigned lost;  /* tasks whose effect is gone: damage */
};

/* Says each overlap and disorder to `out`, which may be NULL. */
struct fenced_verdict fenced_register_judge(const struct fenced_register *all, FILE *out);

#endif
