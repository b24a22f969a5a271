/* SPDX-License-Identifier: Apache-2.0
 *
 * deaths: what can be found out about the end of a command beside its status: whether the kernel
 * has killed it for memory, and what it has written down of its failure (errorfile.h).
 *
 * Each command gets a file of its own for each generation, in our private directory, by
 * TORCHELASTIC_ERROR_FILE. Where the user has set that, the file is the user's: it is read in a
 * child, because its file system may be dead, and stays. A struct deaths owns its memory:
 * deaths_free(). What cannot be found out is left out. Main thread.
 */
#ifndef PCHRUN_RUN_DEATHS_H
#define PCHRUN_RUN_DEATHS_H

#include "core/event.h"
#include "os/helper.h"
#include "os/oom.h"
#include "run/watch.h"

struct deaths {
    struct oom oom;
    bool has_killed;       /* we have sent SIGKILL in this generation */
    char dir[256];         /* ours */
    const char *user_file; /* NULL: each command has its own */
    struct helpers readers;
    struct event_base *base;
};

/* Of one that is all zero. `socket`: in our private directory; NULL: there is none. It is done
 * before the first start. */
void deaths_init(struct deaths *deaths, const char *socket, struct reap *reap,
                 struct event_base *base);
void deaths_free(struct deaths *deaths);

/* For the environment of a command; NULL: it gets none of us. Returns path. */
char *deaths_file(const struct deaths *deaths, int index, uint32_t generation, char *path,
                  size_t size);
/* A generation begins, and all commands of the one before have ended. */
void deaths_begin(struct deaths *deaths);
/* SIGKILL was sent to the commands by us. */
void deaths_killed(struct deaths *deaths);
/* A command runs, since a moment. */
void deaths_watch(struct deaths *deaths, pid_t pid);

/* A command that has ended, and has not been reaped yet. */
struct deaths_case {
    pid_t pid;
    int status;
    int index;
    uint32_t generation;
    int64_t started; /* CLOCK_REALTIME */
};
struct deaths_inquest;
/* All that is known. `death` is the callee's until deaths_close(). */
typedef void deaths_fn(void *ctx, const struct death *death);
/* Calls fn with what is found out, at once or within a second; NULL where nothing is to be. The
 * result is to be closed, before or after that; NULL: nothing is. */
struct deaths_inquest *deaths_ask(struct deaths *deaths, const struct deaths_case *what,
                                  deaths_fn *fn, void *ctx);
void deaths_close(struct deaths_inquest *inquest);

#endif
