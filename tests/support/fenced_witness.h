/* The fenced witness: a register (fenced_register.h) that handlers in other processes read and write
 * (tests/plugins/fenced_witness.c), served by a thread of the test at a unix socket, which no network between hosts can
 * cut. The order in which it serves is the order that counts.
 *
 * One message is one request and gets one answer: words, separated by single blanks; numbers in decimal.
 *     read RESOURCE TOKEN                        FENCED-VALUE PLAIN-VALUE; FENCED-VALUE is "stale" when it was refused
 *     write RESOURCE TOKEN JID FENCED PLAIN      done, stale, or repeated: what became of the fenced one ("-": not
 *                                                written, says done)
 *     held RESOURCE TOKEN JID FROM UNTIL         done */
#ifndef SUPPORT_FENCED_WITNESS_H
#define SUPPORT_FENCED_WITNESS_H

#include "tests/support/fenced_register.h"

struct fenced_witness;

/* Serves at that path, which must not exist yet. */
struct fenced_witness *fenced_witness_start(const char *path);
void fenced_witness_destroy(struct fenced_witness *witness); /* NULL is harmless */

/* As fenced_register_judge, of what happened by now. */
struct fenced_verdict fenced_witness_judge(struct fenced_witness *witness, FILE *out);
void fenced_verdict_print(const struct fenced_verdict *verdict, const char *what, FILE *out);

#endif
