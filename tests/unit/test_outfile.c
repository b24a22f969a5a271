/* SPDX-License-Identifier: Apache-2.0
 *
 * test_outfile: how long a write may take. tests/behave tests the files that pchrun writes so.
 */
#include "loop/outfile.h"

#include "folder.h"
#include "standstill.h"

#define LATE_NS (5 * NS_PER_S) /* a write that takes longer has failed */

static struct event_base *base;
static struct reap reap;
static struct outfile out;
static char path[128];
static enum { NOT_YET, WRITTEN, FAILED } told;

static void on_written(void *ctx, bool is_ok)
{
    told = is_ok ? WRITTEN : FAILED;
}

static void begin(void)
{
    struct err err;
    unit_block_sigchld();
    folder_make();
    snprintf(path, sizeof path, "%s/report.json", folder);
    base = watch_open(&err);
    cr_assert(base, "%s", err.text);
    out =
        (struct outfile){.topic = "report", .is_ours = standstill_begin, .on_written = on_written};
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
    cr_assert(outfile_write(&out, "{}", 2));
    pid_t writer = out.file.writer.watch.pid;
    standstill_await(writer);
    standstill_last(LATE_NS + NS_PER_S / 5);
    cr_assert(watch_turn(base));
    cr_assert_eq(told, NOT_YET);
    standstill_end(writer);
    reap_all(&reap);
    cr_assert_eq(told, WRITTEN);
    cr_assert(!outfile_is_busy(&out));
}
