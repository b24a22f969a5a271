/* SPDX-License-Identifier: Apache-2.0
 *
 * netaddr: an Internet address and port, in the kernel's form.
 *
 * For names see resolve.h. Owns nothing. Any thread.
 */
#pragma once

#include "base/address.h"

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#define NETADDR_LIST_MAX 16 /* addresses of one name */
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

/* False: the host is a name. */
MUST_CHECK bool netaddr_numeric(const struct address *where, struct netaddr_list *ret);
/* Takes the Internet addresses of a getaddrinfo() result, each once, with this port. */
struct addrinfo;
void netaddr_list_fill(struct netaddr_list *list, const struct addrinfo *found, int port);

socklen_t netaddr_size(const union netaddr *a);
int netaddr_port(const union netaddr *a);
void netaddr_set_port(union netaddr *a, int port);
/* True for the same host; ports are ignored. A v4-mapped IPv6 address equals its IPv4 address. */
bool netaddr_same_host(const union netaddr *a, const union netaddr *b);
bool netaddr_is_loopback(const union netaddr *a);
/* True for an address of this machine: loopback, or an address of one of its interfaces. */
bool netaddr_is_local(const union netaddr *a);
/* The first such address of the list; NULL: there is none. */
union netaddr *netaddr_find_local(struct netaddr_list *list);
/* A hint to append to an error about this address, or "". */
const char *netaddr_lacks(const union netaddr *a);
/* "10.0.0.1:14242" or "[fd00::1]:14242"; a port of 0 is left out. A v4-mapped IPv6 address is
 * written as IPv4. Returns text. */
char *netaddr_text(const union netaddr *a, char *text, size_t size);
