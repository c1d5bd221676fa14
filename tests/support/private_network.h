/* Hosts with addresses of their own for a test, and cuts between them: each host is a network namespace with one
 * interface, at a bridge that has a namespace to itself. The machine's own interfaces and namespaces are not touched,
 * and nothing has a name that others could see: the namespaces are held by the test process and by what it started in
 * them, and are gone with these, however they end. That takes the right to make namespaces (root, or a kernel that
 * grants it to users) and the program `ip`.
 *
 * Where that is missing the hosts are the addresses 127.0.0.11, 127.0.0.12, ... of the machine itself. What runs there
 * is the same, but nothing can be cut and no address can move: ask private_network_is_real first, and say what was left
 * out (private_network_reason). The environment variable HOLDFAST_NO_PRIVATE_NETWORK asks for that.
 *
 * How a cut works. Every host knows the hardware address of every other for good. To cut A from B, A is told one that
 * nobody has: what A sends to B is then lost without a word, also on connections that exist; what B sends to A still
 * arrives. (So no packet filter is needed.)
 *
 * One thread uses it: being inside a host is a property of the thread, and processes are started inside the host in
 * which the thread is. From private_network_create to private_network_destroy the thread has left the machine's own
 * network; unix sockets work as ever, between hosts too. */
#ifndef SUPPORT_PRIVATE_NETWORK_H
#define SUPPORT_PRIVATE_NETWORK_H

#include <stdbool.h>

struct private_network;

enum { PRIVATE_NETWORK_HOSTS_MAX = 16 };

/* Hosts 0 to hosts - 1, all of which reach each other. */
struct private_network *private_network_create(unsigned hosts);
/* What was started inside must have been ended before. NULL is harmless. */
void private_network_destroy(struct private_network *network);

bool private_network_is_real(const struct private_network *network);
/* Why it is not. */
const char *private_network_reason(const struct private_network *network);
/* The address that was given to the host at the beginning; valid as long as the network. */
const char *private_network_address(const struct private_network *network, unsigned host);

/* The thread, and what it starts, is inside this host until it leaves. Does nothing where the network is not real. */
void private_network_enter(struct private_network *network, unsigned host);
void private_network_leave(struct private_network *network);

/* --- only where it is real --- */

/* What host `from` sends to host `to` is lost from now on. */
void private_network_cut(struct private_network *network, unsigned from, unsigned to);
/* Nothing is cut any more. */
void private_network_mend(struct private_network *network);
/* The first address of host `from` moves to host `to`, which keeps its own; everybody knows at once. */
void private_network_move_address(struct private_network *network, unsigned from, unsigned to);

#endif
