/* SPDX-License-Identifier: Apache-2.0
 * See address.h.
 */
#include "config/address.h"

#include "base/str.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

static const struct {
    int first, last;
    const char *owner;
} taken[] = {
    {8482, 8482, "JAX on TPU"},
    {29400, 29400, "torchrun's rendezvous"},
    {29500, 29500, "torch.distributed"},
    {55527, 55527, "JAX on Kubernetes"},
    {61440, 65535, "JAX under Slurm and Open MPI"},
};

bool address_port_ok(int port, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        if (port >= taken[i].first && port <= taken[i].last)
            return err_set(err, ERR_USAGE, 0,
                           "port %d is used by %s; take another one, such as 14242", port,
                           taken[i].owner);
    return true;
}

static bool is_ipv6(const char *host)
{
    struct in6_addr in6;
    return inet_pton(AF_INET6, host, &in6) == 1;
}

static bool is_host_name(const char *host)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return *host && strspn(host, letters) == strlen(host) && *host != '-' && *host != '.';
}

/* Splits at the colon before the port; an IPv6 address without brackets has no port. */
static const char *split(const char *text, size_t *ret_host, size_t *ret_host_len)
{
    const char *end = text[0] == '[' ? strchr(text, ']') : NULL;
    if (end) {
        *ret_host = 1;
        *ret_host_len = (size_t)(end - text) - 1;
        return end[1] == '\0' ? NULL : end + 1;
    }
    const char *colon = is_ipv6(text) ? NULL : strrchr(text, ':');
    *ret_host = 0;
    *ret_host_len = colon ? (size_t)(colon - text) : strlen(text);
    return colon;
}

bool address_parse(const char *text, int port, struct address *ret, struct err *err)
{
    struct address address = {.port = port};
    size_t start, len;
    const char *rest = split(text, &start, &len);
    int64_t number = port;
    if (rest && (*rest != ':' || !str_to_i64(rest + 1, 1, 65535, &number)))
        return err_set(err, ERR_USAGE, 0, "\"%.100s\": the port must be 1 to 65535", text);
    if (len < sizeof address.host)
        memcpy(address.host, text + start, len);
    if (!(text[0] == '[' ? is_ipv6(address.host)
                         : is_host_name(address.host) || is_ipv6(address.host)))
        return err_set(err, ERR_USAGE, 0,
                       "\"%.100s\" is no address; write host, host:port or [IPv6]:port", text);
    address.port = (int)number;
    *ret = address;
    return true;
}

bool address_is_loopback(const struct address *address)
{
    struct in_addr in;
    struct in6_addr in6;
    if (inet_pton(AF_INET, address->host, &in) == 1)
        return ntohl(in.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, address->host, &in6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&in6);
    return strcasecmp(address->host, "localhost") == 0;
}

bool address_equal(const struct address *a, const struct address *b)
{
    return a->port == b->port && strcasecmp(a->host, b->host) == 0;
}
