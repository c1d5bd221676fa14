/* The messages between the worker's launcher and its zygote over their SOCK_SEQPACKET socket. Pure: bytes only.
 *
 * An order is the struct, then the words of a program (arguments, environment, directory, each with its NUL) if they
 * are short. Longer words are in a memory file, the last of the order's descriptors. Reports are the struct alone. Both
 * ends are one program on one machine, so there is no byte order and no version. Lengths and counts are checked all
 * the same, because the death of a zygote kills all children. */
#ifndef WORKER_ZYGOTE_MESSAGE_H
#define WORKER_ZYGOTE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/isolation/launcher.h"

enum {
    ZYGOTE_WORDS_MAX = 128 * 1024,
    ZYGOTE_WORDS_INLINE_MAX = 32 * 1024, /* far below the largest packet of a socket */
    ZYGOTE_DESCRIPTORS_MAX = CHILD_DESCRIPTORS_MAX + 1,
};

enum zygote_order_kind { ORDER_SPAWN, ORDER_KILL, ORDER_RING, ORDER_BYE };

struct zygote_order {
    uint32_t kind;
    uint32_t child_kind;
    uint64_t number;           /* SPAWN, KILL: the child */
    int32_t signal;            /* KILL */
    uint32_t descriptor_count; /* of the plan */
    uint32_t descriptors_sent; /* bit i: the order includes the plan's i-th; the others are /dev/null */
    uint32_t words_in_file;
    uint32_t words_length;
    uint16_t is_quiet;      /* only a failure is reported as SPAWNED */
    uint16_t has_directory; /* the last of the environment is where the program starts */
    uint32_t argument_count, environment_count;
    int64_t memory_bytes, open_files;
};

enum zygote_report_kind { REPORT_SPAWNED, REPORT_EXITED };

struct zygote_report {
    uint32_t kind;
    int32_t pid;
    uint64_t number;
    int32_t failure; /* SPAWNED */
    struct child_exit end;
};

/* Makes the order for a plan, without the position of its words. False if the words are too long. */
bool zygote_order_of(struct zygote_order *order, uint64_t number, const struct child_plan *plan);
/* Writes the plan's words, words_length bytes. */
void zygote_words_write(const struct child_plan *plan, char *words);

/* Whether an order of `length` bytes with so many descriptors is valid. */
bool zygote_order_is_sound(const struct zygote_order *order, size_t length, unsigned descriptors);
/* Sets pointers to the words: the arguments, NULL, the environment, NULL. `pointers` has room for both counts plus
 * two. False if the number of words is wrong. */
bool zygote_words_split(const struct zygote_order *order, char *words, char **pointers);

#endif
