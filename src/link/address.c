/* SPDX-License-Identifier: Apache-2.0
 * See address.h.
 */
#include "link/address.h"

#include "base/str.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdint.h>
#include <string.h>

#define HOW_TO_WRITE "write host, host:port, or [IPv6 address]:port"

/* The host part of text, up to `end`. */
static bool take_host(const char *text, const char *end, struct address *a)
{
    size_t n = (size_t)(end - text);
    if (n == 0 || n >= sizeof a->host)
        return false;
    memcpy(a->host, text, n);
    a->host[n] = '\0';
    return true;
}

static bool is_ipv6(const struct address *a)
{
    struct in6_addr ignored;
    char host[sizeof a->host];
    str_copy(host, sizeof host, a->host);
    char *scope = strchr(host, '%');
    if (scope)
        *scope = '\0';
    return inet_pton(AF_INET6, host, &ignored) == 1;
}

static bool is_name(const char *host)
{
    size_t n = strlen(host);
    return strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") == n &&
           strspn(host, "0123456789") != n; /* "14242" is no host, whatever inet_aton() says */
}

/* Fills in the host, and *ret_port with what stands behind it (NULL: nothing). */
static bool split(const char *text, struct address *a, const char **ret_port)
{
    const char *colon = strchr(text, ':');
    *ret_port = NULL;
    if (text[0] == '[') {
        const char *end = strchr(text, ']');
        if (!end || (end[1] != '\0' && end[1] != ':') || !take_host(text + 1, end, a))
            return false;
        *ret_port = end[1] ? end + 2 : NULL;
        return is_ipv6(a);
    }
    if (colon && strchr(colon + 1, ':'))
        return take_host(text, text + strlen(text), a) && is_ipv6(a);
    *ret_port = colon ? colon + 1 : NULL;
    return take_host(text, colon ? colon : text + strlen(text), a) && is_name(a->host);
}

bool address_parse(const char *text, int port, struct address *ret, struct err *err)
{
    struct address a = {.port = port};
    const char *digits;
    if (!split(text, &a, &digits))
        return err_set(err, ERR_USAGE, 0, "'%s' is not an address; " HOW_TO_WRITE, text);
    int64_t number;
    if (digits && !str_to_i64(digits, 1, UINT16_MAX, &number))
        return err_set(err, ERR_USAGE, 0, "the port of '%s' is not a number from 1 to 65535", text);
    if (digits)
        a.port = (int)number;
    *ret = a;
    return true;
}

void address_set_port(union address_socket *a, int port)
{
    in_port_t wire = htons((uint16_t)port);
    if (a->any.sa_family == AF_INET)
        a->v4.sin_port = wire;
    else
        a->v6.sin6_port = wire;
}

int address_port(const union address_socket *a)
{
    return ntohs(a->any.sa_family == AF_INET ? a->v4.sin_port : a->v6.sin6_port);
}

socklen_t address_size(const union address_socket *a)
{
    return a->any.sa_family == AF_INET ? sizeof a->v4 : sizeof a->v6;
}

static bool is_in_list(const struct address_list *list, const union address_socket *a)
{
    for (size_t i = 0; i < list->n; i++)
        if (address_size(a) == address_size(&list->all[i]) &&
            memcmp(a, &list->all[i], address_size(a)) == 0)
            return true;
    return false;
}

void address_list_fill(struct address_list *list, const struct addrinfo *found, int port)
{
    list->n = 0;
    for (; found && list->n < ADDRESS_LIST_MAX; found = found->ai_next) {
        union address_socket *a = &list->all[list->n];
        if ((found->ai_family != AF_INET && found->ai_family != AF_INET6) ||
            found->ai_addrlen > sizeof *a)
            continue;
        memset(a, 0, sizeof *a);
        memcpy(a, found->ai_addr, found->ai_addrlen);
        address_set_port(a, port);
        if (!is_in_list(list, a))
            list->n++;
    }
}

bool address_numeric(const struct address *where, struct address_list *ret)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(where->host, NULL, &hints, &found) != 0)
        return false;
    address_list_fill(ret, found, where->port);
    freeaddrinfo(found);
    return ret->n > 0;
}

/* The IPv4 address in *ret, in network order; false if it is none. */
static bool get_ipv4(const union address_socket *a, uint32_t *ret)
{
    if (a->any.sa_family == AF_INET)
        *ret = a->v4.sin_addr.s_addr;
    else if (IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr))
        memcpy(ret, a->v6.sin6_addr.s6_addr + 12, sizeof *ret);
    else
        return false;
    return true;
}

bool address_same_host(const union address_socket *a, const union address_socket *b)
{
    uint32_t a4 = 0, b4 = 0;
    bool is_a4 = get_ipv4(a, &a4), is_b4 = get_ipv4(b, &b4);
    if (is_a4 || is_b4)
        return is_a4 && is_b4 && a4 == b4;
    /* A link-local address without a scope is taken for that of any link. */
    uint32_t as = a->v6.sin6_scope_id, bs = b->v6.sin6_scope_id;
    return IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr) && (as == bs || !as || !bs);
}

bool address_is_loopback(const union address_socket *a)
{
    uint32_t v4;
    if (get_ipv4(a, &v4))
        return ntohl(v4) >> 24 == IN_LOOPBACKNET;
    return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

bool address_is_local(const union address_socket *a)
{
    if (address_is_loopback(a))
        return true;
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0)
        return false;
    bool is_local = false;
    for (const struct ifaddrs *i = all; i && !is_local; i = i->ifa_next) {
        union address_socket own;
        if (!i->ifa_addr ||
            (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
            continue;
        memcpy(&own, i->ifa_addr,
               i->ifa_addr->sa_family == AF_INET ? sizeof own.v4 : sizeof own.v6);
        is_local = address_same_host(a, &own);
    }
    freeifaddrs(all);
    return is_local;
}

char *address_text(const union address_socket *a, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?", scope[IF_NAMESIZE + 1] = "";
    bool is_v6 = a->any.sa_family == AF_INET6;
    inet_ntop(a->any.sa_family, is_v6 ? (const void *)&a->v6.sin6_addr : &a->v4.sin_addr, host,
              sizeof host);
    if (is_v6 && a->v6.sin6_scope_id != 0 && if_indextoname(a->v6.sin6_scope_id, scope + 1))
        scope[0] = '%';
    text[0] = '\0';
    int port = address_port(a);
    str_addf(text, size, is_v6 && port ? "[%s%s]" : "%s%s", host, scope);
    if (port)
        str_addf(text, size, ":%d", port);
    return text;
}
