/* SPDX-License-Identifier: Apache-2.0
 * See resolve.h. The helper thread owns its request and one end of a socket pair, the caller the
 * other end. The thread sends its answer as one message.
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
#include <sys/socket.h>

enum { STACK_BYTES = 1 << 20 }; /* untouched pages cost no memory */

struct resolve_answer {
    struct netaddr_list list;
    struct err err; /* ERR_NONE: the look-up succeeded */
};

struct resolve_request {
    struct address where;
    int fd; /* where the answer goes */
    struct resolve_answer answer;
};

static atomic_int the_threads; /* running threads, also of abandoned look-ups */

static void look_up(const struct address *where, struct resolve_answer *ret)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int rc = getaddrinfo(where->host, NULL, &hints, &found);
    if (rc == EAI_SYSTEM)
        err_set(&ret->err, ERR_SYSTEM, errno, "cannot look up '%s'", where->host);
    else if (rc != 0)
        err_set(&ret->err, ERR_SYSTEM, 0, "cannot look up '%s': %s", where->host, gai_strerror(rc));
    else
        netaddr_list_fill(&ret->list, found, where->port);
    if (rc == 0 && ret->list.n == 0)
        err_set(&ret->err, ERR_SYSTEM, 0, "'%s' has no Internet address", where->host);
    if (found)
        freeaddrinfo(found);
}

static void resolve_end(struct resolve_request *request)
{
    fd_close(&request->fd);
    free(request);
    atomic_fetch_sub(&the_threads, 1);
}

static void *resolve_run(void *arg)
{
    struct resolve_request *request = arg;
    look_up(&request->where, &request->answer);
    /* Fails if the caller has abandoned the look-up and closed its end. */
    (void)send(request->fd, &request->answer, sizeof request->answer, MSG_NOSIGNAL);
    resolve_end(request);
    return NULL;
}

int resolve_start(const struct address *where, struct err *err)
{
    if (atomic_load(&the_threads) >= RESOLVE_THREADS_MAX) {
        err_set(
            err, ERR_SYSTEM, 0,
            "cannot look up '%s': %d earlier look-ups have not returned; is the name server up?",
            where->host, RESOLVE_THREADS_MAX);
        return -1;
    }
    struct resolve_request *request = calloc(1, sizeof *request);
    int ends[2];
    if (!request || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        err_set(err, ERR_SYSTEM, errno, "cannot look up '%s'", where->host);
        free(request);
        return -1;
    }
    request->where = *where;
    request->fd = ends[1];
    atomic_fetch_add(&the_threads, 1);
    pthread_t thread;
    int rc = thread_start(&thread, STACK_BYTES, resolve_run, request);
    if (rc != 0) {
        err_set(err, ERR_SYSTEM, rc, "cannot start a thread to look up '%s'", where->host);
        resolve_end(request);
        fd_close(&ends[0]);
        return -1;
    }
    pthread_detach(thread);
    return ends[0];
}

bool resolve_take(int *fd, struct netaddr_list *ret, struct err *err)
{
    struct resolve_answer answer;
    bool is_there = recv(*fd, &answer, sizeof answer, MSG_DONTWAIT) == sizeof answer;
    fd_close(fd);
    if (!is_there)
        return err_set(err, ERR_SYSTEM, 0, "cannot look up a name: there is no answer");
    if (answer.err.code == ERR_NONE)
        *ret = answer.list;
    else
        *err = answer.err;
    return answer.err.code == ERR_NONE;
}

bool resolve_wait(const struct address *where, int64_t wait_ns, struct netaddr_list *ret,
                  struct err *err)
{
    if (netaddr_numeric(where, ret))
        return true;
    FD_CLEANUP int fd = resolve_start(where, err);
    if (fd < 0)
        return false;
    if (fd_wait(fd, -1, clock_now_ns() + wait_ns) >= 0)
        return resolve_take(&fd, ret, err);
    char text[32];
    return err_set(err, ERR_SYSTEM, 0, "cannot look up '%s': no answer within %s", where->host,
                   str_duration(wait_ns, text, sizeof text));
}
