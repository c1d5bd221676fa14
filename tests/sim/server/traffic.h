/* What simulated servers were told, written down: to the file that HF_TRAFFIC names, if it names one. A real server can
 * be told the same then (tests/integration/test_redis_model_traffic.c). */
#ifndef SIM_TRAFFIC_H
#define SIM_TRAFFIC_H

#include <stddef.h>
#include <stdint.h>

enum traffic_kind {
    TRAFFIC_SERVER, /* a new one; the numbers of servers begin anew in each process */
    TRAFFIC_ACCEPT,
    TRAFFIC_BYTES, /* from a client */
    TRAFFIC_HANG_UP,
    TRAFFIC_RESTART, /* one byte: an enum server_memory */
    TRAFFIC_FULL,    /* one byte: whether it is out of memory */
    TRAFFIC_EVICT    /* the name of a key that went */
};

struct traffic {
    uint32_t kind; /* enum traffic_kind */
    uint32_t server;
    uint64_t connection;
    int64_t now_us;
    uint64_t length; /* of the bytes behind it */
};

void traffic_note(enum traffic_kind kind, uint32_t server, uint64_t connection, int64_t now_us, const char *bytes,
                  size_t length);

#endif
