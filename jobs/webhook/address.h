/* Recognises addresses that tasks must not reach: those of the machine itself, of private networks, of cloud
 * services that hand out credentials, and unassigned ones. */
#ifndef JOBS_WEBHOOK_ADDRESS_H
#define JOBS_WEBHOOK_ADDRESS_H

#include <sys/socket.h>

/* NULL for an address of the public internet, else its kind in a word or two. An IPv6 address that contains the IPv4
 * address of the target (mapped, NAT64, 6to4) is judged by that. */
const char *webhook_address_refusal(const struct sockaddr *address);

#endif
