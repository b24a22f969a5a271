/* SPDX-License-Identifier: Apache-2.0
 * See rendezvous.h.
 */
#include "peers/rendezvous.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "net/netaddr.h"

#include <stdlib.h>

static const char *users(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* As many earlier ports as the kernel may give before an unpicked one. */
enum { TRIES = 64 };

/* A free port of this family; IPv6 covers both families. 0: none. An earlier port stays bound while
 * the kernel is asked again, since it would give the same one. */
static uint16_t free_port(const struct rendezvous *rendezvous, int family, int tries)
{
    union netaddr at = {.any.sa_family = (sa_family_t)family};
    socklen_t size = netaddr_size(&at);
    int no = 0;
    FD_CLEANUP int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    if (family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(fd, &at.any, size) != 0 || getsockname(fd, &at.any, &size) != 0)
        return 0;
    uint16_t port = (uint16_t)netaddr_port(&at);
    bool is_earlier = rendezvous->picked[port / 8] >> port % 8 & 1;
    uint16_t other = is_earlier && tries > 1 ? free_port(rendezvous, family, tries - 1) : 0;
    return other ? other : port;
}

uint16_t rendezvous_pick(struct rendezvous *rendezvous, const struct config *config)
{
    const char *text = users("MASTER_PORT");
    int64_t number;
    if (!config->procs.count_is_set)
        return 0;
    if (text && str_to_i64(text, 1, UINT16_MAX, &number))
        return (uint16_t)number;
    if (text) {
        log_warn("start", "MASTER_PORT is '%.60s', which is not a port; pchrun does not change it",
                 text);
        return 0;
    }
    uint16_t port = free_port(rendezvous, AF_INET6, TRIES);
    if (port == 0)
        port = free_port(rendezvous, AF_INET, TRIES);
    if (port == 0)
        log_warn("start", "no port is free for the commands to meet at, so MASTER_PORT is not set");
    rendezvous->picked[port / 8] |= (uint8_t)(1 << port % 8);
    return port;
}

const char *rendezvous_address(const struct config *config, uint16_t port, char *address,
                               size_t size)
{
    struct address node_0;
    struct err err;
    const char *chief = config->cluster.chief ? config->cluster.chief : config->cluster.nodes[0];
    if (port == 0 || users("MASTER_ADDR"))
        return NULL;
    bool is_known = config->cluster.nnodes > 1 && chief &&
                    address_parse(chief, config->cluster.port, &node_0, &err);
    /* The commands need an address, even if node 0 listens on all addresses. */
    if (!is_known || str_is(node_0.host, "0.0.0.0") || str_is(node_0.host, "::"))
        str_copy(node_0.host, sizeof node_0.host, "127.0.0.1");
    str_copy(address, size, node_0.host);
    return address;
}

uint16_t rendezvous_port(uint16_t port)
{
    return users("MASTER_PORT") ? 0 : port;
}
