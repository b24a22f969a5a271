/* SPDX-License-Identifier: Apache-2.0
 * See netaddr.h.
 */
#include "net/netaddr.h"

#include "base/str.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdint.h>
#include <string.h>

void netaddr_set_port(union netaddr *a, int port)
{
    in_port_t wire = htons((uint16_t)port);
    if (a->any.sa_family == AF_INET)
        a->v4.sin_port = wire;
    else
        a->v6.sin6_port = wire;
}

int netaddr_port(const union netaddr *a)
{
    return ntohs(a->any.sa_family == AF_INET ? a->v4.sin_port : a->v6.sin6_port);
}

socklen_t netaddr_size(const union netaddr *a)
{
    return a->any.sa_family == AF_INET ? sizeof a->v4 : sizeof a->v6;
}

static bool is_in_list(const struct netaddr_list *list, const union netaddr *a)
{
    for (size_t i = 0; i < list->n; i++)
        if (netaddr_size(a) == netaddr_size(&list->all[i]) &&
            memcmp(a, &list->all[i], netaddr_size(a)) == 0)
            return true;
    return false;
}

void netaddr_list_fill(struct netaddr_list *list, const struct addrinfo *found, int port)
{
    list->n = 0;
    for (; found && list->n < NETADDR_LIST_MAX; found = found->ai_next) {
        union netaddr *a = &list->all[list->n];
        if ((found->ai_family != AF_INET && found->ai_family != AF_INET6) ||
            found->ai_addrlen > sizeof *a)
            continue;
        memset(a, 0, sizeof *a);
        memcpy(a, found->ai_addr, found->ai_addrlen);
        netaddr_set_port(a, port);
        if (!is_in_list(list, a))
            list->n++;
    }
}

bool netaddr_numeric(const struct address *where, struct netaddr_list *ret)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(where->host, NULL, &hints, &found) != 0)
        return false;
    netaddr_list_fill(ret, found, where->port);
    freeaddrinfo(found);
    return ret->n > 0;
}

/* *ret: the IPv4 address, in network order. False: it is an IPv6 address. */
static bool get_ipv4(const union netaddr *a, uint32_t *ret)
{
    if (a->any.sa_family == AF_INET)
        *ret = a->v4.sin_addr.s_addr;
    else if (IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr))
        memcpy(ret, a->v6.sin6_addr.s6_addr + 12, sizeof *ret);
    else
        return false;
    return true;
}

bool netaddr_same_host(const union netaddr *a, const union netaddr *b)
{
    uint32_t a4 = 0, b4 = 0;
    bool is_a4 = get_ipv4(a, &a4), is_b4 = get_ipv4(b, &b4);
    if (is_a4 || is_b4)
        return is_a4 && is_b4 && a4 == b4;
    /* A link-local address without a scope matches any link. */
    uint32_t as = a->v6.sin6_scope_id, bs = b->v6.sin6_scope_id;
    return IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr) && (as == bs || !as || !bs);
}

bool netaddr_is_loopback(const union netaddr *a)
{
    uint32_t v4;
    if (get_ipv4(a, &v4))
        return ntohl(v4) >> 24 == IN_LOOPBACKNET;
    return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

bool netaddr_is_local(const union netaddr *a)
{
    if (netaddr_is_loopback(a))
        return true;
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0)
        return false;
    bool is_local = false;
    for (const struct ifaddrs *i = all; i && !is_local; i = i->ifa_next) {
        union netaddr own;
        if (!i->ifa_addr ||
            (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
            continue;
        memcpy(&own, i->ifa_addr,
               i->ifa_addr->sa_family == AF_INET ? sizeof own.v4 : sizeof own.v6);
        is_local = netaddr_same_host(a, &own);
    }
    freeifaddrs(all);
    return is_local;
}

union netaddr *netaddr_find_local(struct netaddr_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (netaddr_is_local(&list->all[i]))
            return &list->all[i];
    return NULL;
}

const char *netaddr_lacks(const union netaddr *a)
{
    bool is_bare = a->any.sa_family == AF_INET6 && a->v6.sin6_scope_id == 0 &&
                   IN6_IS_ADDR_LINKLOCAL(&a->v6.sin6_addr);
    return is_bare ? ", a link-local address without its interface (write fe80::1%eth0)" : "";
}

char *netaddr_text(const union netaddr *a, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?", scope[IF_NAMESIZE + 1] = "";
    uint32_t v4;
    bool is_v6 = !get_ipv4(a, &v4);
    inet_ntop(is_v6 ? AF_INET6 : AF_INET, is_v6 ? (const void *)&a->v6.sin6_addr : &v4, host,
              sizeof host);
    if (is_v6 && a->v6.sin6_scope_id != 0 && if_indextoname(a->v6.sin6_scope_id, scope + 1))
        scope[0] = '%';
    text[0] = '\0';
    int port = netaddr_port(a);
    str_addf(text, size, is_v6 && port ? "[%s%s]" : "%s%s", host, scope);
    if (port)
        str_addf(text, size, ":%d", port);
    return text;
}
