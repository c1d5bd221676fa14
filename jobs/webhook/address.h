/* Which addresses are no place for a request that a task names: those of the machine itself, of private networks, of
 * the services of a cloud that give out its credentials, and those that belong to nobody. */
#ifndef JOBS_WEBHOOK_ADDRESS_H
#define JOBS_WEBHOOK_ADDRESS_H

#include <sys/socket.h>

/* NULL for an address of the public internet, else what it is, in a word or two. An IPv6 address that carries an IPv4
 * one to which the packets go (mapped, NAT64, 6to4) is judged by that. */
const char *webhook_address_refusal(const struct sockaddr *address);

#endif
