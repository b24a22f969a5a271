/* SPDX-License-Identifier: Apache-2.0
 * See resolve.h. Caller and thread share a request. The last to release it frees it. The thread
 * writes the answer, then sets is_done, then makes the descriptor readable; the caller reads the
 * answer only after is_done.
 */
#include "net/resolve.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/thread.h"

#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { STACK_BYTES = 1 << 20 }; /* untouched pages cost no memory */

struct resolve {
    struct address where;
    int fd; /* an eventfd */
    atomic_int owners;
    atomic_bool is_done;
    struct netaddr_list list;
    struct err err; /* ERR_NONE: the list is the answer */
};

static atomic_int the_threads; /* running, including dropped requests */

void resolve_drop(struct resolve *resolve)
{
    if (!resolve || atomic_fetch_sub(&resolve->owners, 1) > 1)
        return;
    fd_close(&resolve->fd);
    free(resolve);
}

static void look_up(struct resolve *resolve)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int rc = getaddrinfo(resolve->where.host, NULL, &hints, &found);
    if (rc == EAI_SYSTEM)
        err_set(&resolve->err, ERR_SYSTEM, errno, "cannot look up '%s'", resolve->where.host);
    else if (rc != 0)
        err_set(&resolve->err, ERR_SYSTEM, 0, "cannot look up '%s': %s", resolve->where.host,
                gai_strerror(rc));
    else
        netaddr_list_fill(&resolve->list, found, resolve->where.port);
    if (rc == 0 && resolve->list.n == 0)
        err_set(&resolve->err, ERR_SYSTEM, 0, "'%s' has no Internet address", resolve->where.host);
    if (found)
        freeaddrinfo(found);
}

static void *resolve_run(void *arg)
{
    struct resolve *resolve = arg;
    look_up(resolve);
    atomic_store(&resolve->is_done, true);
    /* Cannot fail: the counter is at most 1. */
    if (eventfd_write(resolve->fd, 1) != 0)
        abort();
    resolve_drop(resolve);
    atomic_fetch_sub(&the_threads, 1);
    return NULL;
}

struct resolve *resolve_start(const struct address *where, struct err *err)
{
    if (atomic_load(&the_threads) >= RESOLVE_THREADS_MAX) {
        err_set(
            err, ERR_SYSTEM, 0,
            "cannot look up '%s': %d earlier look-ups have not returned; is the name server up?",
            where->host, RESOLVE_THREADS_MAX);
        return NULL;
    }
    struct resolve *resolve = calloc(1, sizeof *resolve);
    int fd = resolve ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    if (fd < 0) {
        err_set(err, ERR_SYSTEM, errno, "cannot look up '%s'", where->host);
        free(resolve);
        return NULL;
    }
    resolve->where = *where;
    resolve->fd = fd;
    atomic_init(&resolve->owners, 2);
    atomic_fetch_add(&the_threads, 1);
    pthread_t thread;
    int rc = thread_start(&thread, STACK_BYTES, resolve_run, resolve);
    if (rc != 0) {
        err_set(err, ERR_SYSTEM, rc, "cannot look up '%s': no thread", where->host);
        atomic_fetch_sub(&the_threads, 1);
        fd_close(&resolve->fd);
        free(resolve);
        return NULL;
    }
    pthread_detach(thread);
    return resolve;
}

int resolve_fd(const struct resolve *resolve)
{
    return resolve->fd;
}

bool resolve_take(struct resolve *resolve, struct netaddr_list *ret, struct err *err)
{
    bool is_there = atomic_load(&resolve->is_done);
    bool ok = is_there && resolve->err.code == ERR_NONE;
    if (ok)
        *ret = resolve->list;
    else if (!is_there)
        err_set(err, ERR_SYSTEM, 0, "cannot look up '%s': no answer yet", resolve->where.host);
    else if (err)
        *err = resolve->err;
    resolve_drop(resolve);
    return ok;
}

bool resolve_wait(const struct address *where, int64_t wait_ns, struct netaddr_list *ret,
                  struct err *err)
{
    if (netaddr_numeric(where, ret))
        return true;
    struct resolve *resolve = resolve_start(where, err);
    if (!resolve)
        return false;
    int64_t deadline = clock_now_ns() + wait_ns;
    if (fd_wait(resolve_fd(resolve), -1, deadline) >= 0)
        return resolve_take(resolve, ret, err);
    resolve_drop(resolve);
    char text[32];
    return err_set(err, ERR_SYSTEM, 0, "cannot look up '%s': no answer within %s", where->host,
                   str_duration(wait_ns, text, sizeof text));
}
