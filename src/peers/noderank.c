/* SPDX-License-Identifier: Apache-2.0
 * See noderank.h.
 */
#include "peers/noderank.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "net/netaddr.h"
#include "net/resolve.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#define HOW_TO_SAY "give --node-rank or PCHRUN_NODE_RANK"

/* The longest time to look up names before the job begins. */
#define LOOK_UP_WAIT_NS (10 * NS_PER_S)

enum { WINDOW = 8, LISTED = 6 };

/* One entry of cluster.nodes. */
struct entry {
    const char *text;
    bool is_local;
    char found[NETADDR_TEXT_MAX]; /* its first address, or why there is none */
};

static void noderank_judge(struct entry *entry, struct netaddr_list *list)
{
    union netaddr *own = netaddr_find_local(list), *shown = own ? own : &list->all[0];
    entry->is_local = own;
    netaddr_set_port(shown, 0);
    netaddr_text(shown, entry->found, sizeof entry->found);
}

/* Checks a numeric entry at once. For a name, starts a look-up: *ret_fd, else -1. False: the entry
 * is invalid, or the look-up cannot start. */
static bool noderank_begin(struct entry *entry, int *ret_fd, struct err *err)
{
    struct address where;
    struct netaddr_list list;
    if (!address_parse(entry->text, 0, &where, err))
        return err_wrap(err, "cluster.nodes");
    if (netaddr_numeric(&where, &list)) {
        noderank_judge(entry, &list);
        return true;
    }
    *ret_fd = resolve_start(&where, err);
    return *ret_fd >= 0;
}

static void noderank_end(struct entry *entry, int *fd)
{
    struct netaddr_list list;
    struct err err;
    if (resolve_take(fd, &list, &err))
        noderank_judge(entry, &list);
    else
        str_copy(entry->found, sizeof entry->found, "not found");
}

static bool noderank_look_at_all(struct entry *entries, size_t n, struct err *err)
{
    struct pollfd fds[WINDOW]; /* of the look-ups under way */
    struct entry *asked[WINDOW];
    size_t running = 0, next = 0;
    int64_t deadline = clock_now_ns() + LOOK_UP_WAIT_NS;
    bool ok = true;
    for (;;) {
        while (ok && running < WINDOW && next < n) {
            asked[running] = &entries[next++];
            fds[running] = (struct pollfd){.fd = -1, .events = POLLIN};
            ok = noderank_begin(asked[running], &fds[running].fd, err);
            running += fds[running].fd >= 0;
        }
        if (!ok || running == 0)
            break;
        int64_t left = deadline - clock_now_ns();
        int rc = poll(fds, running, left > 0 ? (int)(left / NS_PER_MS + 1) : 0);
        if (rc == 0)
            break;
        for (size_t i = running; rc > 0 && i-- > 0;)
            if (fds[i].revents) {
                noderank_end(asked[i], &fds[i].fd);
                running--;
                fds[i] = fds[running];
                asked[i] = asked[running];
            }
    }
    while (running > 0)
        fd_close(&fds[--running].fd);
    return ok;
}

/* "n0 (10.0.0.1), n1 (not found) and 3 more", of all entries or the local ones. */
static void list_entries(const struct entry *entries, size_t n, bool local_only, char *text,
                         size_t size)
{
    size_t listed = 0, more = 0;
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (local_only && !entries[i].is_local)
            continue;
        if (listed == LISTED) {
            more++;
            continue;
        }
        str_addf(text, size, "%s%.48s (%.48s)", listed++ > 0 ? ", " : "", entries[i].text,
                 entries[i].found);
    }
    if (more > 0)
        str_addf(text, size, " and %zu more", more);
}

static int choose(const struct entry *entries, size_t n, struct err *err)
{
    int rank = -1;
    size_t local = 0;
    for (size_t i = 0; i < n; i++)
        if (entries[i].is_local && local++ == 0)
            rank = (int)i;
    if (local == 1)
        return rank;
    char looked_at[360];
    list_entries(entries, n, local > 1, looked_at, sizeof looked_at);
    if (local > 1)
        err_set(err, ERR_USAGE, 0,
                "several entries of cluster.nodes are this machine: %s; " HOW_TO_SAY, looked_at);
    else
        err_set(err, ERR_USAGE, 0,
                "no entry of cluster.nodes is an address of this machine: %s; " HOW_TO_SAY,
                looked_at);
    return -1;
}

bool noderank_settle(struct config *config, struct err *err)
{
    size_t n = str_count(config->cluster.nodes);
    if (config->cluster.node_rank >= 0)
        return true;
    struct entry *known = calloc(n, sizeof *known);
    if (!known)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot find the node rank");
    for (size_t i = 0; i < n; i++) {
        known[i].text = config->cluster.nodes[i];
        str_copy(known[i].found, sizeof known[i].found, "no answer");
    }
    if (noderank_look_at_all(known, n, err))
        config->cluster.node_rank = choose(known, n, err);
    free(known);
    return config->cluster.node_rank >= 0 ||
           err_wrap(err, "cannot tell which of the %zu nodes this is", n);
}
