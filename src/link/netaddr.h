/* SPDX-License-Identifier: Apache-2.0
 *
 * netaddr: where a peer listens, as the kernel wants it.
 *
 * Nothing here asks a name server: resolve.h does. Owns nothing. Any thread.
 */
#ifndef PCHRUN_LINK_NETADDR_H
#define PCHRUN_LINK_NETADDR_H

#include "base/address.h"

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#define NETADDR_LIST_MAX 16 /* addresses of one name that are looked at */
#define NETADDR_TEXT_MAX 80 /* enough for netaddr_text() */

union netaddr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct netaddr_list {
    size_t n;
    union netaddr all[NETADDR_LIST_MAX];
};

/* False if the host is a name, which has to be looked up. */
MUST_CHECK bool netaddr_numeric(const struct address *where, struct netaddr_list *ret);
/* What getaddrinfo() gave, with this port: Internet addresses only, each once. */
struct addrinfo;
void netaddr_list_fill(struct netaddr_list *list, const struct addrinfo *found, int port);

socklen_t netaddr_size(const union netaddr *a);
int netaddr_port(const union netaddr *a);
void netaddr_set_port(union netaddr *a, int port);
/* The same host? Ports are not looked at; an IPv4 address written as IPv6 is the IPv4 address. */
bool netaddr_same_host(const union netaddr *a, const union netaddr *b);
/* Does it never leave this machine? */
bool netaddr_is_loopback(const union netaddr *a);
/* Is it an address of this machine: loopback, or one of its interfaces'? */
bool netaddr_is_local(const union netaddr *a);
/* For behind an address that could not be used: what is missing in it, or "". */
const char *netaddr_lacks(const union netaddr *a);
/* "10.0.0.1:14242" or "[fd00::1]:14242"; without a port if that is 0. The same for an IPv4 address
 * however a socket tells it. Returns text. */
char *netaddr_text(const union netaddr *a, char *text, size_t size);

#endif
