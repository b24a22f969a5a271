/* SPDX-License-Identifier: Apache-2.0
 * See noderank.h.
 */
#include "peers/noderank.h"

#include "base/clock.h"
#include "base/str.h"
#include "net/netaddr.h"
#include "net/resolve.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define HOW_TO_SAY "give --node-rank or PCHRUN_NODE_RANK"

enum { WINDOW = 8, LISTED = 6 };

/* One entry of cluster.nodes. */
struct entry {
    const char *text;
    bool is_local;
    char found[NETADDR_TEXT_MAX]; /* its first address, or why there is none */
};

struct lookup {
    struct resolve *resolve;
    struct entry *entry;
};

static void noderank_judge(struct entry *entry, struct netaddr_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        netaddr_set_port(&list->all[i], 0);
        if (!netaddr_is_local(&list->all[i]))
            continue;
        entry->is_local = true;
        netaddr_text(&list->all[i], entry->found, sizeof entry->found);
        return;
    }
    netaddr_text(&list->all[0], entry->found, sizeof entry->found);
}

/* Judges numeric entries at once and starts a look-up for names. False: the entry is invalid, or
 * the look-up cannot start. */
static bool noderank_begin(struct lookup *lookup, struct err *err)
{
    struct address where;
    struct netaddr_list list;
    if (!address_parse(lookup->entry->text, 0, &where, err))
        return err_wrap(err, "cluster.nodes");
    if (netaddr_numeric(&where, &list)) {
        noderank_judge(lookup->entry, &list);
        return true;
    }
    lookup->resolve = resolve_start(&where, err);
    return lookup->resolve;
}

static void noderank_end(struct lookup *lookup)
{
    struct netaddr_list list;
    struct err err;
    if (resolve_take(lookup->resolve, &list, &err))
        noderank_judge(lookup->entry, &list);
    else
        str_copy(lookup->entry->found, sizeof lookup->entry->found, "not found");
    lookup->resolve = NULL;
}

/* Waits for any of the running look-ups. False: the time is up. */
static bool wait_for_some(struct lookup *running, int64_t deadline)
{
    struct pollfd fds[WINDOW];
    for (size_t i = 0; i < WINDOW; i++)
        fds[i] = (struct pollfd){
            .fd = running[i].resolve ? resolve_fd(running[i].resolve) : -1,
            .events = POLLIN,
        };
    int64_t left = deadline - clock_now_ns();
    int rc = poll(fds, WINDOW, left > 0 ? (int)(left / NS_PER_MS + 1) : 0);
    if (rc == 0)
        return false;
    for (size_t i = 0; rc > 0 && i < WINDOW; i++)
        if (fds[i].revents)
            noderank_end(&running[i]);
    return true;
}

static bool is_any_running(const struct lookup *running)
{
    for (size_t i = 0; i < WINDOW; i++)
        if (running[i].resolve)
            return true;
    return false;
}

static bool noderank_look_at_all(struct entry *entries, size_t n, int64_t wait_ns, struct err *err)
{
    struct lookup running[WINDOW] = {{0}};
    int64_t deadline = clock_now_ns() + wait_ns;
    size_t next = 0;
    bool ok = true;
    while (ok) {
        for (size_t i = 0; ok && i < WINDOW; i++)
            while (ok && !running[i].resolve && next < n) {
                running[i].entry = &entries[next++];
                ok = noderank_begin(&running[i], err);
            }
        if (!ok || !is_any_running(running) || !wait_for_some(running, deadline))
            break;
    }
    for (size_t i = 0; i < WINDOW; i++)
        resolve_drop(running[i].resolve);
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

int noderank_find(char *const *entries, size_t n, int64_t wait_ns, struct err *err)
{
    struct entry *known = calloc(n ? n : 1, sizeof *known);
    if (!known) {
        err_set(err, ERR_SYSTEM, ENOMEM, "cannot find the node rank");
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        known[i].text = entries[i];
        str_copy(known[i].found, sizeof known[i].found, "no answer");
    }
    int rank = -1;
    if (noderank_look_at_all(known, n, wait_ns, err))
        rank = choose(known, n, err);
    free(known);
    return rank;
}
