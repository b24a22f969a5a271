/* SPDX-License-Identifier: Apache-2.0
 * See nodenames.h.
 */
#include "peers/nodenames.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "net/resolve.h"

#include <string.h>

void nodenames_list(const struct config *config, char *text, size_t size)
{
    char **entries = config->cluster.nodes;
    int others = config->cluster.nnodes - 1;
    text[0] = '\0';
    if (!entries[0] || others > NODENAMES_MAX) {
        str_addf(text, size, "%d other node%s", others, others == 1 ? "" : "s");
        return;
    }
    str_addf(text, size, "node%s ", others == 1 ? "" : "s");
    for (int i = 1; i <= others; i++)
        str_addf(text, size, "%s%d (%s)", i > 1 ? ", " : "", i, entries[i]);
}

/* True if this entry of cluster.nodes is a name that can be looked up. */
static bool nodenames_is_name(const struct config *config, int rank, struct address *ret)
{
    struct netaddr_list list;
    struct err err;
    return address_parse(config->cluster.nodes[rank], config->cluster.port, ret, &err) &&
           !netaddr_numeric(ret, &list);
}

static void nodename_end(struct nodename *name)
{
    watch_end(&name->watch);
    fd_close(&name->fd);
}

static void on_nodename(void *ctx)
{
    struct nodename *name = ctx;
    struct netaddr_list list;
    struct err err;
    watch_end(&name->watch);
    if (!resolve_take(&name->fd, &list, &err))
        log_notice("join", "node %d: %s; " NODENAMES_ADVICE, name->rank, err.text);
}

void nodenames_look_up(struct nodenames *names, const struct config *config, struct loop *loop)
{
    struct address where;
    struct err err;
    for (int i = 1; config->cluster.nodes[0] && i <= NODENAMES_MAX && i < config->cluster.nnodes;
         i++) {
        struct nodename *name = &names->all[names->n];
        if (!nodenames_is_name(config, i, &where))
            continue;
        name->rank = i;
        name->fd = resolve_start(&where, &err);
        watch_init(&name->watch, loop->base, on_nodename, name);
        names->n++;
        if (name->fd >= 0 && !watch_fd(&name->watch, name->fd, &err))
            nodename_end(name);
    }
}

void nodenames_free(struct nodenames *names)
{
    for (int i = 0; i < names->n; i++)
        nodename_end(&names->all[i]);
    names->n = 0;
}

bool nodenames_check(const struct config *config, int64_t wait_ns, char *text, size_t size)
{
    enum { ONE_MORE = 160 };
    int64_t until = clock_now_ns() + wait_ns;
    int n = (int)str_count(config->cluster.nodes);
    bool is_any = false;
    text[0] = '\0';
    for (int i = 1; i < n && clock_now_ns() < until; i++) {
        struct address where;
        struct netaddr_list list;
        struct err err;
        if (!nodenames_is_name(config, i, &where))
            continue;
        is_any = true;
        if (resolve_wait(&where, until - clock_now_ns(), &list, &err))
            continue;
        if (strlen(text) + ONE_MORE > size) {
            str_addf(text, size, "; ...");
            break;
        }
        str_addf(text, size, "%snode %d: %s", text[0] ? "; " : "", i, err.text);
    }
    return is_any;
}
