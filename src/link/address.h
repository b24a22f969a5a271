/* SPDX-License-Identifier: Apache-2.0
 *
 * address: where a peer listens, as people write it and as the kernel wants it.
 *
 * Nothing here asks a name server: resolve.h does. Owns nothing. Any thread.
 */
#ifndef PCHRUN_LINK_ADDRESS_H
#define PCHRUN_LINK_ADDRESS_H

#include "base/err.h"

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#define ADDRESS_LIST_MAX 16 /* addresses of one name that are looked at */
#define ADDRESS_TEXT_MAX 80 /* enough for address_text() */

/* "n0", "n0:14242", "10.0.0.1:14242", "fd00::1", "[fd00::1]:14242" */
struct address {
    char host[256];
    int port;
};

union address_socket {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct address_list {
    size_t n;
    union address_socket all[ADDRESS_LIST_MAX];
};

/* Takes a text apart; one without a port gets `port`. False with what is wrong and how to write it.
 */
MUST_CHECK bool address_parse(const char *text, int port, struct address *ret, struct err *err);
/* False if the host is a name, which has to be looked up. */
MUST_CHECK bool address_numeric(const struct address *where, struct address_list *ret);
/* What getaddrinfo() gave, with this port: Internet addresses only, each once. */
struct addrinfo;
void address_list_fill(struct address_list *list, const struct addrinfo *found, int port);

socklen_t address_size(const union address_socket *a);
int address_port(const union address_socket *a);
void address_set_port(union address_socket *a, int port);
/* The same host? Ports are not looked at; an IPv4 address written as IPv6 is the IPv4 address. */
bool address_same_host(const union address_socket *a, const union address_socket *b);
/* Does it never leave this machine? */
bool address_is_loopback(const union address_socket *a);
/* Is it an address of this machine: loopback, or one of its interfaces'? */
bool address_is_local(const union address_socket *a);
/* "10.0.0.1:14242" or "[fd00::1]:14242"; without a port if that is 0. Returns text. */
char *address_text(const union address_socket *a, char *text, size_t size);

#endif
