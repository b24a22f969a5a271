/* SPDX-License-Identifier: Apache-2.0
 *
 * test_outfile: how long a write may take. tests/behave tests the files that pchrun writes so.
 */
#include "loop/outfile.h"

#include "folder.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LATE_S 5 /* a write that takes longer has failed */

static struct event_base *base;
static struct reap reap;
static struct outfile out;
static char path[128];
static enum { NOT_YET, WRITTEN, FAILED } told;

static void on_written(void *ctx, bool is_ok)
{
    told = is_ok ? WRITTEN : FAILED;
}

/* Called in the writer. */
static bool stand_still(void *ctx, struct err *err)
{
    return kill(getpid(), SIGSTOP) == 0;
}

static void begin(void)
{
    struct err err;
    unit_block_sigchld();
    folder_make();
    snprintf(path, sizeof path, "%s/report.json", folder);
    base = watch_open(&err);
    cr_assert(base, "%s", err.text);
    out = (struct outfile){.topic = "report", .is_ours = stand_still, .on_written = on_written};
    cr_assert(outfile_open(&out, path, &reap, base, &err), "%s", err.text);
}

static void end(void)
{
    outfile_free(&out);
    watch_close(base);
    unit_reap_all();
    folder_remove();
}

TestSuite(outfile, .init = begin, .fini = end);

/* pchrun was stopped, or the machine was, and the writer with it. The time is over when the loop
 * goes on, and the write is not late. */
Test(outfile, a_standstill_makes_no_write_late)
{
    siginfo_t info;
    cr_assert(outfile_write(&out, "{}", 2));
    id_t writer = (id_t)out.file.writer.watch.pid;
    cr_assert_eq(waitid(P_PID, writer, &info, WSTOPPED | WNOWAIT), 0);
    nanosleep(&(struct timespec){.tv_sec = LATE_S, .tv_nsec = 200000000}, NULL);
    cr_assert(watch_turn(base));
    cr_assert_eq(told, NOT_YET);
    kill((pid_t)writer, SIGCONT);
    cr_assert_eq(waitid(P_PID, writer, &info, WEXITED | WNOWAIT), 0);
    reap_all(&reap);
    cr_assert_eq(told, WRITTEN);
    cr_assert(!outfile_is_busy(&out));
}
