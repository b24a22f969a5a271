/* SPDX-License-Identifier: Apache-2.0
 *
 * alone: what the pchrun of one node, which is linked statically, has in the place of the network.
 *
 * First peers/cluster.h, so that nothing of peers, names and TLS is linked in; where there are
 * several nodes the program has handed over (run/handover.h) before any of this is called. Then
 * what libevent looks up names with and never calls here: the C library's own would load other
 * libraries.
 */
#include "peers/cluster.h"

#include <errno.h>
#include <netdb.h>
#include <stddef.h>

bool cluster_settle_rank(struct config *config, struct err *err)
{
    return config->cluster.node_rank == 0 ||
           err_set(err, ERR_SYSTEM, 0, "this is the pchrun of one node");
}

bool cluster_reach(const struct config *config, int64_t wait_ns, struct err *err)
{
    return err_set(err, ERR_SYSTEM, 0, "this is the pchrun of one node");
}

void cluster_claim(const struct config *config)
{
}

bool cluster_open(struct cluster *cluster, const struct config *config, struct loop *loop,
                  struct err *err)
{
    return true;
}

void cluster_on_idle(struct cluster *cluster, void (*on_idle)(void *ctx), void *ctx)
{
}

void cluster_on_ranks(struct cluster *cluster,
                      void (*on_ranks)(void *ctx, int conn, const struct peermsg *msg), void *ctx)
{
}

void cluster_free(struct cluster *cluster)
{
}

void cluster_connect(struct cluster *cluster)
{
}

void cluster_send(struct cluster *cluster, const struct action *action)
{
}

void cluster_close(struct cluster *cluster, const struct action *action)
{
}

void cluster_tell(struct cluster *cluster, int conn, const struct peermsg *msg)
{
}

void cluster_finish(struct cluster *cluster)
{
}

bool cluster_is_busy(const struct cluster *cluster)
{
    return false;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *req,
                struct addrinfo **pai)
{
    errno = ENOSYS;
    return EAI_SYSTEM;
}

void freeaddrinfo(struct addrinfo *ai)
{
}

struct protoent *getprotobynumber(int proto)
{
    return NULL;
}

struct servent *getservbyname(const char *name, const char *proto)
{
    return NULL;
}
